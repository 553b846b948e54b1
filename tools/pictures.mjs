// What tools/pictures has a browser do: demo|slow ADDRESS FOLDER.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../ui/package.json", import.meta.url))("playwright-core");
const [part, address, folder] = process.argv.slice(2);
const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
/** The slow request of docs/guide/ui.md: the longest wait of the client that asks most, and why it is so long. */
async function slow() {
	const url = new URL(address);
	const headers = { authorization: `Bearer ${url.searchParams.get("token")}` };
	const get = async (path) => {
		const answer = await fetch(`${url.origin}${path}`, { headers });
		// Between two slices there is none.
		return answer.ok ? answer.json() : undefined;
	};
	let meta = await get("/v1/meta");
	while (!meta.done) {
		meta = await get("/v1/meta");
	}
	const { tracks } = await get(`/v1/${meta.id}/tracks`);
	// A wait for a CPU is a part of the call, too.
	const calls = tracks.filter((it) => it.kind === "calls" && it.title === "redis-cli").sort((a, b) => b.count - a.count)[0];
	let longest;
	for (let n = 1; n < 400; n++) {
		const time = Math.floor(calls.from + ((calls.to - calls.from) * n) / 400);
		const slice = await get(`/v1/${meta.id}/slice/${calls.id}/${time}`);
		if (slice?.name.startsWith("recvfrom") && slice.to - slice.from > (longest ? longest.to - longest.from : 0)) {
			longest = slice;
		}
	}
	const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: "light" });
	page.setDefaultTimeout(60_000);
	const ready = () => page.waitForFunction(() => document.documentElement.dataset.ready === "true");
	const room = (longest.to - longest.from) * 0.3;
	// Times of the address are those of slices.
	const at = (time) => Math.round(time);
	const pins = `${calls.group}/thread-${calls.tid}`;
	const words = new URLSearchParams({ t: `${at(longest.from - room)}-${at(longest.to + room)}`, c: "1", q: "redis", p: pins });
	words.set("i", `${calls.id}@${at((longest.from + longest.to) / 2)}`);
	await page.goto(`${address}#${words}`);
	await ready();
	await page.locator(".panel h2").waitFor();
	await ready();
	await page.screenshot({ path: `${folder}/slow-request.png` });
	await page.keyboard.press("y");
	await page.locator("table[aria-label='The critical path']").waitFor();
	await ready();
	await page.screenshot({ path: `${folder}/slow-path.png` });
	await page.close();
}

/** The demo, light and dark, and why one of its workers waited. */
async function demo() {
	for (const colorScheme of ["light", "dark"]) {
		const page = await browser.newPage({ viewport: { width: 1280, height: 640 }, colorScheme });
		page.setDefaultTimeout(60_000);
		const ready = () => page.waitForFunction(() => document.documentElement.dataset.ready === "true");
		const step = async (act) => {
			await act();
			await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
			await ready();
		};
		await page.goto(address);
		await ready();
		// The program's own threads, and the time in which they run.
		await step(() => page.fill("input[type=search]", "words"));
		await page.locator("input[type=search]").blur();
		const toggle = page.locator('.toggle[aria-expanded="false"]').first();
		if ((await toggle.count()) > 0) {
			await step(() => toggle.click());
		}
		await step(() => page.mouse.move(900, 5));
		for (let n = 0; n < 3; n++) {
			await step(() => page.keyboard.press("w"));
		}
		// A wait that another thread ended.
		const rows = await page.locator(".name:not(.group)").count();
		let isFound = false;
		for (let row = 1; row < rows && !isFound; row++) {
			const box = await page.locator(".name:not(.group)").nth(row).boundingBox();
			for (let x = 500; x < 1100 && !isFound && box.y < 360; x += 6) {
				await step(() => page.mouse.click(x, box.y + 12));
				const panel = page.locator(".panel");
				isFound = (await panel.count()) > 0 && /^blocked in futex.*words/s.test(await panel.textContent());
			}
		}
		await step(() => page.mouse.move(900, 5));
		await page.screenshot({ path: `${folder}/ui-${colorScheme}.png` });
		if (isFound && colorScheme === "light") {
			await step(() => page.click("button:text-is('Why?')"));
			await page.screenshot({ path: `${folder}/why.png` });
		}
		await page.close();
	}
}

try {
	await { demo, slow }[part]();
} finally {
	await browser.close();
}
