// What tests/e2e/ui_picture asks a browser: ADDRESS PATIENCE FOLDER [--write].
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../../ui/package.json", import.meta.url))("playwright-core");
const [address, patience, folder, write] = process.argv.slice(2);
const url = new URL(address);
const headers = { authorization: `Bearer ${url.searchParams.get("token")}` };
/** A channel of a pixel may differ so much, and so many pixels by more, of all of them: another Chromium draws edges otherwise. */
const SHADE = 32;
const SHARE = 0.001;
/** What is compared of the tracks [px]: what is above them is as high as the letters of the machine. */
const HEIGHT = 600;

const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const comparing = await browser.newPage();

/** Opens the page at a place of the address, and has all rows of the command open. */
async function open(colorScheme, words, prepare = () => undefined) {
	const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1, colorScheme });
	page.setDefaultTimeout(Number(patience));
	await page.addInitScript(() => {
		CanvasRenderingContext2D.prototype.fillText = () => undefined;
		CanvasRenderingContext2D.prototype.measureText = (text) => ({ width: 6 * text.length });
	});
	await prepare(page);
	await page.goto(`${address}#${new URLSearchParams({ c: "1", ...words })}`);
	await ready(page);
	const closed = page.locator('.toggle[aria-expanded="false"]');
	while ((await closed.count()) > 0) {
		await closed.first().click();
		await ready(page);
	}
	await page.mouse.move(5, 5);
	return page;
}

async function ready(page) {
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
	await page.waitForFunction(() => document.documentElement.dataset.ready === "true");
}

/** Overview, ruler and tracks, below each other. */
async function picture(page) {
	await ready(page);
	const drawn = await page.evaluate((height) => {
		const parts = [...document.querySelectorAll(".plot canvas")];
		const all = document.createElement("canvas");
		all.width = parts[0].width;
		all.height = parts[0].height + parts[1].height + height;
		const pen = all.getContext("2d");
		pen.drawImage(parts[0], 0, 0);
		pen.drawImage(parts[1], 0, parts[0].height);
		pen.drawImage(parts[2], 0, parts[0].height + parts[1].height);
		return parts.length === 3 && parts[2].height >= height ? all.toDataURL("image/png") : "";
	}, HEIGHT);
	assert.notEqual(drawn, "", "the page has other canvases, or too low ones");
	return drawn;
}

/** Which share of the pixels of two pictures differ; 1: they have not the same size. */
function differing(one, two) {
	return comparing.evaluate(
		async ({ pictures, shade }) => {
			const pixels = [];
			for (const picture of pictures) {
				const image = new Image();
				image.src = picture;
				await image.decode();
				const canvas = document.createElement("canvas");
				[canvas.width, canvas.height] = [image.width, image.height];
				canvas.getContext("2d").drawImage(image, 0, 0);
				pixels.push(canvas.getContext("2d").getImageData(0, 0, image.width, image.height));
			}
			const [a, b] = pixels;
			if (a.width !== b.width || a.height !== b.height) {
				return 1;
			}
			let count = 0;
			for (let at = 0; at < a.data.length; at += 4) {
				count += [0, 1, 2].some((channel) => Math.abs(a.data[at + channel] - b.data[at + channel]) > shade) ? 1 : 0;
			}
			return count / (a.width * a.height);
		},
		{ pictures: [one, two], shade: SHADE },
	);
}

const kept = (name) => new URL(`../golden/ui-${name}.png`, import.meta.url);

async function judge(name, page) {
	const drawn = await picture(page);
	const bytes = Buffer.from(drawn.slice(drawn.indexOf(",") + 1), "base64");
	if (write === "--write") {
		writeFileSync(kept(name), bytes);
	}
	const share = await differing(drawn, `data:image/png;base64,${readFileSync(kept(name)).toString("base64")}`);
	if (share > SHARE) {
		writeFileSync(`${folder}-ui-${name}-drawn.png`, bytes);
	}
	assert.ok(
		share <= SHARE,
		`${name}: ${(share * 100).toFixed(2)} % of the pixels differ from tests/golden/ui-${name}.png (at most ${SHARE * 100} %). ` +
			`What is drawn is ${folder}-ui-${name}-drawn.png: look at it. If it is right: tests/e2e/ui_picture --write`,
	);
	return drawn;
}

const get = async (path) => (await fetch(`${url.origin}${path}`, { headers })).json();

try {
	// ---- from afar, light ----
	const light = await judge("light", await open("light", {}));

	// ---- near, dark: a slice and why it took so long, a selection, a mark ----
	const meta = await get("/v1/meta");
	const { tracks } = await get(`/v1/${meta.id}/tracks`);
	const at = (share) => Math.round(meta.from + share * (meta.to - meta.from));
	const first = tracks.find((track) => track.kind === "thread" && track.label === "first");
	const page = await open("dark", { t: `${at(0.3)}-${at(0.6)}`, m: String(at(0.5)), s: `${at(0.47)}-${at(0.58)}`, i: `${first.id}@${at(0.43)}` });
	await page.keyboard.press("y");
	await page.locator("table[aria-label='The critical path']").waitFor();
	await page.keyboard.press("Escape");
	await judge("dark", page);

	// ---- what must be a difference ----
	const planted = async (what, prepare) => {
		const share = await differing(light, await picture(await open("light", {}, prepare)));
		assert.ok(share > 3 * SHARE, `${what} is no difference: ${(share * 100).toFixed(2)} % of the pixels`);
		return `${what} ${(share * 100).toFixed(2)} %`;
	};
	const said = [
		await planted("another green", (page) =>
			page.route("**/app.js", async (route) => {
				const body = await (await route.fetch()).text();
				assert.ok(body.includes("#05a886"), "the colour of what runs is another one: change this test, too");
				await route.fulfill({ body: body.replace("#05a886", "#058ec6"), contentType: "text/javascript" });
			}),
		),
		await planted("a missing track", (page) =>
			page.route(/\/tracks\?/, async (route) => {
				const answer = await (await route.fetch()).json();
				const left = answer.tracks.filter((track) => !(track.kind === "calls" && track.label === "waits"));
				assert.ok(left.length < answer.tracks.length, "there is no such track");
				await route.fulfill({ json: { tracks: left, all: left.length } });
			}),
		),
	];
	console.log(said.join(", "));
} finally {
	await browser.close();
}
