// What tests/e2e/ui_browser asks a browser. Each line of the input is a part: its name, the address of the page, how long to wait for
// anything [ms], and what else it needs as NAME=VALUE, with tabs between. The answer is a line, "ok ..." or "failed ...".
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { chromium } = createRequire(new URL("../../ui/package.json", import.meta.url))("playwright-core");
const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
// Root has no sandbox; all that is shown was made on this machine.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// Of the part that runs.
let [part, address, patience] = ["", "", 0];
/** @type {Record<string, string>} */
let given = {};
let page;
let panel;
const requests = [];
const said = [];

const ready = () => page.waitForFunction(() => document.documentElement.dataset.ready === "true");
/** After two pictures all that follows from an action is there, or is asked for: then it is ready once that has come. */
const settled = () =>
	page.evaluate(
		(patience) =>
			new Promise((done, fail) => {
				const end = performance.now() + patience;
				const look = () => {
					const { ready, sharp } = document.documentElement.dataset;
					if (ready === "true") {
						done();
					} else if (performance.now() > end) {
						fail(new Error(`after ${patience} ms the page is not ready: it is sharp: ${sharp}, ${location.hash}`));
					} else {
						requestAnimationFrame(look);
					}
				};
				requestAnimationFrame(() => requestAnimationFrame(look));
			}),
		patience,
	);
const step = async (act) => {
	await act();
	await settled();
};
const key = (name) => step(() => page.keyboard.press(name));
/** The same key several times, one after the other. */
const keys = (name, times) =>
	step(async () => {
		for (let n = 0; n < times; n++) {
			await page.keyboard.press(name);
		}
	});
/** A key with AltGr, which browsers on Windows say is Ctrl and Alt as well. */
const altGraph = (code, character) =>
	step(() =>
		page.evaluate(
			([code, key]) => {
				const pressed = { code, key, modifierAltGraph: true, ctrlKey: true, altKey: true, bubbles: true, cancelable: true };
				document.body.dispatchEvent(new KeyboardEvent("keydown", pressed));
			},
			[code, character],
		),
	);
const hash = () => page.evaluate(() => location.hash);
const range = async () => {
	const found = /t=(-?\d+)-(-?\d+)/.exec(await hash());
	return found ? [Number(found[1]), Number(found[2])] : undefined;
};
const rows = () => page.locator(".name .label").allTextContents();
const inPanel = (text) =>
	page.waitForFunction((text) => document.querySelector(".panel")?.textContent.includes(text), text);

/** What the server says; undefined: it has nothing there. */
async function get(path) {
	const { origin, searchParams } = new URL(address);
	const answer = await fetch(`${origin}${path}`, { headers: { authorization: `Bearer ${searchParams.get("token")}` } });
	return answer.ok ? answer.json() : undefined;
}

/** The longest state of a thread that fits, by what the server says; not the last one. */
async function longestState(thread, fits) {
	const { id } = await get("/v1/meta");
	const { tracks } = await get(`/v1/${id}/tracks`);
	const track = tracks.find((it) => it.kind === "thread" && it.label === thread);
	assert.ok(track, `there is no thread ${thread}`);
	let found;
	let time = track.from;
	for (let n = 0; n < 5000 && time < track.to; n++) {
		const slice = await get(`/v1/${id}/slice/${track.id}/${time}`);
		if (slice && slice.to < track.to && fits(slice) && slice.to - slice.from > (found ? found.to - found.from : 0)) {
			found = slice;
		}
		time = Math.max(slice?.to ?? 0, time + 1);
	}
	assert.ok(found, `no state of ${thread} is the one that is looked for`);
	return found;
}

const rowOf = (label) => page.locator(".name:not(.group)", { has: page.locator(".label", { hasText: new RegExp(`^${label}$`) }) });

/** Expands all processes, or so many that the rows fill the window. */
async function openAll() {
	const toggle = page.locator('.toggle[aria-expanded="false"]').first();
	for (let closed = 0; closed < 20 && (await toggle.count()) > 0; closed++) {
		await step(() => toggle.click());
	}
}

/** Clicks the longest state of a thread that fits: its details are shown. All of the trace is in view. */
async function clickSlice(thread, fits = () => true) {
	const slice = await longestState(thread, fits);
	const { y } = await rowOf(thread).last().boundingBox();
	const plot = await page.locator(".plot").last().boundingBox();
	const [from, to] = (await range()) ?? [0, (await get("/v1/meta")).to];
	const share = ((slice.from + slice.to) / 2 - from) / (to - from);
	await step(() => page.mouse.click(plot.x + share * plot.width, y + 8));
	assert.equal(await page.locator(".panel h2").count(), 1, `a click in the row ${thread} shows no slice`);
}

const axe = readFileSync(createRequire(new URL("../../ui/package.json", import.meta.url)).resolve("axe-core/axe.min.js"), "utf8");

/** Nothing that axe-core knows of keeps people out who use a screen reader or keys, or who see little. */
async function accessible(where) {
	if (await page.evaluate(() => globalThis.axe === undefined)) {
		await page.evaluate(axe);
	}
	const found = await page.evaluate(async () => {
		// Rows are as high as a line of text, so their names are less than 24 pixels high: keys do the same.
		const rules = { "target-size": { enabled: false } };
		const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
		const { violations, passes } = await globalThis.axe.run(document, { runOnly: tags, rules, resultTypes: ["violations"] });
		const said = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((it) => `${it.target} ${it.failureSummary ?? ""}`)}`);
		return { said, passed: passes.length };
	});
	assert.ok(found.passed > 10, `${where}: axe-core has looked at ${found.passed} rules`);
	assert.deepEqual(found.said, [], where);
}

async function controls() {
	assert.match(await page.title(), /strata/);

	// ---- keys ----
	await key("0");
	const all = await range();
	await key("w");
	const near = await range();
	assert.ok(near[0] > all[0] && near[1] < all[1], "W zooms in");
	await key("d");
	const later = await range();
	assert.ok(later[0] > near[0] && Math.abs(later[1] - later[0] - (near[1] - near[0])) <= 2, "D shows what is later");
	await key("a");
	assert.ok(Math.abs((await range())[0] - near[0]) <= 2, "A goes back");
	await key("s");
	const wide = await range();
	assert.ok(wide[1] - wide[0] > near[1] - near[0], "S zooms out");
	await key("w");
	await key("0");
	assert.deepEqual(await range(), all, "0 shows all");
	await key("Backspace");
	assert.notDeepEqual(await range(), all, "Backspace shows the range before");
	await key("0");
	await key("?");
	const dialog = page.getByRole("dialog");
	assert.ok(await dialog.isVisible(), "? shows the keys");
	await accessible("the keys");
	// What is behind them takes no key: neither what is shown nor what is in the address changes.
	const behind = () => page.evaluate(() => [location.hash, document.documentElement.className, document.querySelector(".names").innerHTML, document.querySelectorAll(".panel").length]);
	const still = await behind();
	await step(async () => {
		for (const name of ["w", "s", "a", "d", "c", "o", "h", "r", "x", "f", "0", "+", "-", "/", "[", "]", ",", ".", "m", "t", "v", "y", "z", "e", "Backspace", "PageDown"]) {
			await page.keyboard.press(name);
		}
	});
	assert.deepEqual(await behind(), still, "what is behind the list of keys takes keys");
	assert.equal(await dialog.count(), 1);
	// Arrows are for the list itself, where it is longer than the window.
	await step(() => page.setViewportSize({ width: 1600, height: 400 }));
	assert.equal(await dialog.evaluate((it) => it.scrollTop), 0, "the list is shown from its begin");
	await page.keyboard.press("ArrowDown");
	await page.waitForFunction(() => document.querySelector("dialog").scrollTop > 0);
	await step(() => page.setViewportSize({ width: 1600, height: 900 }));
	await key("Escape");
	assert.equal(await dialog.count(), 0, "Escape closes them");
	assert.equal((await behind())[0], still[0]);
	// What the rows of CPUs show stands there, too: a button beside them leads to it, by keys as well.
	await page.getByLabel("Reports of CPUs").focus();
	await page.keyboard.press("Tab");
	await key("Enter");
	assert.match(await dialog.textContent(), /a thread had the CPU.*idle.*interrupts.*softirqs.*hatched: unknown/s);
	await step(() => page.getByLabel("Close the list of keys").click());
	assert.equal(await dialog.count(), 0, "its button closes it");
	await key("t");
	assert.ok(await page.evaluate(() => document.documentElement.classList.contains("dark")), "T makes it dark");
	await key("t");
	await step(() => page.mouse.move(800, 400));
	await key("m");
	assert.match(await hash(), /m=\d+/, "M marks a moment");
	await key("m");
	assert.doesNotMatch(await hash(), /m=\d+/, "M takes the mark away");
	const before = await hash();
	await page.keyboard.down("Control");
	await page.mouse.wheel(0, -100);
	await page.waitForFunction((before) => location.hash !== before, before);
	await page.keyboard.up("Control");
	await ready();
	assert.ok((await range())[1] - (await range())[0] < all[1] - all[0], "Ctrl+wheel zooms");
	await key("0");

	// ---- search, click ----
	await key("/");
	await step(() => page.keyboard.type("sleeper"));
	assert.ok((await rows()).includes("sleeper"), `a search opens what it found: ${await rows()}`);
	assert.ok(!(await rows()).includes("CPU 0"));
	await key("Escape");
	await clickSlice("sleeper");
	const details = await panel.textContent();
	assert.match(details, /took/);
	assert.match(details, /sched_switch|sched_wak/, "the records of the slice are shown");
	await accessible("details");
	// From slice to slice without a mouse.
	const chosen = async () => /i=(\d+)%40(\d+)/.exec(await hash())?.slice(1).map(Number);
	const here = await chosen();
	await key(".");
	await page.waitForFunction((before) => !location.hash.includes(before), `i=${here[0]}%40${here[1]}`);
	const next = await chosen();
	assert.ok(next[0] === here[0] && next[1] > here[1], `. goes to the next slice of the row: ${here}, ${next}`);
	await key(",");
	await page.waitForFunction((before) => !location.hash.includes(before), `i=${next[0]}%40${next[1]}`);
	assert.deepEqual(await chosen(), here, ", goes back");
	// Its time is selected, and up to the end of another one.
	const selected = async () => /[#&]s=(\d+)-(\d+)/.exec(await hash())?.slice(1).map(Number);
	await key("v");
	const [from, to] = await selected();
	assert.equal(Math.floor((from + to) / 2), here[1], "V selects the slice");
	await key(".");
	await page.waitForFunction((before) => !location.hash.includes(before), `i=${here[0]}%40${here[1]}`);
	await key("Shift+V");
	const both = await selected();
	assert.ok(both[0] === from && both[1] > to && both[1] > next[1], `Shift+V selects up to the next one: ${both}`);
	await key(",");
	await page.waitForFunction((before) => !location.hash.includes(before), `i=${next[0]}%40${next[1]}`);
	await key("r");
	assert.equal(await selected(), undefined, "R clears the selection");
	await key("f");
	const slice = await range();
	assert.ok(slice[1] - slice[0] < all[1] - all[0], "F fits the slice");
	// Ends of slices hold what is dragged near them, unless Alt is held.
	const { y } = await rowOf("sleeper").last().boundingBox();
	const plot = await page.locator(".plot").last().boundingBox();
	const place = (time) => plot.x + ((time - slice[0]) / (slice[1] - slice[0])) * plot.width;
	const measure = async () => {
		await page.mouse.move(place(from) + 4, y + 8);
		await page.mouse.down();
		await page.mouse.move(place(to) - 4, y + 8, { steps: 3 });
		await step(() => page.mouse.up());
		return selected();
	};
	assert.deepEqual(await measure(), [from, to], "a selection begins and ends with the slice");
	await page.keyboard.down("Alt");
	const free = await measure();
	await page.keyboard.up("Alt");
	assert.ok(free[0] > from && free[1] < to, `with Alt it is where the pointer is: ${free} in ${[from, to]}`);
	await step(() => page.mouse.move(5, 5));
	await key("Escape");
	await key("Escape");
	assert.equal(await selected(), undefined, "Escape clears the selection");
	// The overview says how many there were, and shows the time that is dragged over.
	await key("0");
	await step(() => page.mouse.move(plot.x + plot.width / 4, 60));
	assert.match(await page.locator(".tip").textContent(), /^[\d,]+ events within [\d.]+ [mµn]?s/);
	await page.mouse.down();
	await step(() => page.mouse.move(plot.x + plot.width / 2, 60));
	assert.equal(await page.locator(".dragged").count(), 1);
	await step(() => page.mouse.up());
	const quarter = await range();
	const share = (quarter[1] - quarter[0]) / (all[1] - all[0]);
	assert.ok(Math.abs(share - 0.25) < 0.01, `a quarter of the overview is shown: ${share}`);
	await step(() => page.mouse.move(5, 5));
	await key("f");
	await step(() => page.locator(".name:not(.group) .act").first().click({ force: true }));
	assert.ok((await rows()).some((it) => /waits › sleeper/.test(it)), "a pinned row says whose it is");
	await key("Escape");
	await key("0");

	// ---- why: "first" waits for "second", which waits for "third", which sleeps ----
	await step(() => page.fill("input[type=search]", "first"));
	await page.locator("input[type=search]").blur();
	// Its longest wait is the one for a byte.
	await clickSlice("first", (slice) => slice.kind === 3 && slice.name.startsWith("read"));
	assert.match(await panel.textContent(), /blocked in read/);
	await step(() => page.click("button:text-is('Why?')"));
	await page.locator("table[aria-label='The critical path']").waitFor();
	const parts = await page.locator("table[aria-label='The critical path'] tbody tr").allTextContents();
	// A busy machine lets each of them wait for a CPU as well, and longer than it sleeps.
	const longest = parts.slice(1).find((part) => !/runnable/.test(part)) ?? "";
	assert.ok(parts.length > 2 && /third/.test(longest) && /nanosleep/.test(longest), `its longest part is the sleep of third: ${parts}`);
	assert.ok((await rows()).some((it) => /› third$/.test(it)), "threads of the path are on top");
	await key("y");
	assert.equal(await page.locator("table[aria-label='The critical path']").count(), 0, "Y takes the path away");
	await key("Escape");
	await key("0");
	await step(() => page.fill("input[type=search]", ""));
	await page.locator("input[type=search]").blur();

	// ---- select ----
	const overviewX = (share) => plot.x + plot.width * share;
	const dragged = async () => {
		await page.mouse.move(600, 400);
		await page.mouse.down();
		await page.mouse.move(900, 420, { steps: 4 });
		await step(() => page.mouse.up());
	};
	await dragged();
	await page.locator(".panel table tbody tr").nth(3).waitFor();
	// ---- a drag that does not end as it began ----
	const selectedBefore = await selected();
	const beginDrag = async () => {
		await page.mouse.move(650, 300);
		await page.mouse.down();
		await step(() => page.mouse.move(700, 310, { steps: 2 }));
	};
	await beginDrag();
	await key("Escape");
	await step(() => page.mouse.move(800, 310));
	await step(() => page.mouse.up());
	assert.deepEqual(await selected(), selectedBefore, "Escape brings back what was selected before the drag");
	assert.ok(await panel.isVisible(), "Escape ends the drag only");
	await beginDrag();
	await page.evaluate(() => [...document.querySelectorAll(".plot")].at(-1).releasePointerCapture(1));
	await step(() => page.mouse.move(800, 310));
	const kept = await selected();
	assert.notDeepEqual(kept, selectedBefore, "what is selected when the pointer is taken away stays");
	await step(() => page.mouse.move(900, 310));
	await step(() => page.mouse.up());
	assert.deepEqual(await selected(), kept, "a pointer that was taken away drags no more");
	await beginDrag();
	await step(() => page.mouse.move(-60, 310));
	await step(() => page.mouse.up());
	assert.equal((await selected())[0], (await range())[0], "a drag that leaves the window selects what is in view");
	await page.mouse.move(overviewX(0.5), 60);
	await page.mouse.down();
	await step(() => page.mouse.move(overviewX(0.6), 60));
	await key("Escape");
	assert.equal(await page.locator(".dragged").count(), 0, "Escape ends a drag over the overview");
	const shownBefore = await range();
	await step(() => page.mouse.up());
	assert.deepEqual(await range(), shownBefore, "a drag that is given up shows nothing else");
	await dragged();
	// ---- tabs by keys ----
	const tab = () => page.evaluate(() => [document.activeElement.textContent, document.querySelector("[role=tab][aria-selected=true]").textContent]);
	await page.getByRole("tab", { selected: true }).focus();
	for (const [name, text] of [["ArrowRight", "Events"], ["ArrowRight", "Details"], ["ArrowLeft", "Events"], ["Home", "Details"], ["End", "Events"]]) {
		await key(name);
		assert.deepEqual(await tab(), [text, text], `${name} goes to a tab and shows its panel`);
	}
	assert.deepEqual(await page.locator("[role=tab]").evaluateAll((all) => all.map((it) => it.tabIndex)), [-1, -1, 0], "Tab leads to the tab that is shown");
	assert.deepEqual(await range(), shownBefore, "keys of tabs do not move the picture");
	await key("ArrowLeft");
	await page.locator(".panel table tbody tr").nth(3).waitFor();
	assert.match(await hash(), /s=\d+-\d+/, "what is selected stands in the address");
	await accessible("a selection");
	// How often and how long, at once; a click goes to the longest one.
	const done = page.locator("table[aria-label='What was done']");
	assert.match(await done.locator("thead").textContent(), /count.*average.*minimum.*maximum/);
	const name = await done.locator("tbody td").nth(1).textContent();
	await step(() => done.locator("tbody tr button").first().press("Enter"));
	assert.ok((await panel.locator("h2").textContent()).includes(name.trim()), "the longest one is shown");
	await step(() => page.click(".tabs button:nth-child(2)"));
	const command = await page.locator(".panel code").textContent();
	assert.match(command, /^strata analyze threads --from @\d+\.\d{9} --until @\d+\.\d{9} /);
	await step(() => page.click("button:text-is('cpu')"));
	await page.waitForFunction(() => /CPU/.test(document.querySelector(".panel pre")?.textContent ?? ""));
	// Keys scroll the panel if the focus is in it, and the rows do not move; letters are for the page.
	const firstRow = () => page.locator(".name").first().evaluate((it) => it.getBoundingClientRect().top);
	const rowTop = await firstRow();
	await panel.focus();
	await page.keyboard.press("PageDown");
	await page.waitForFunction(() => document.querySelector(".panel").scrollTop > 0);
	assert.equal(await firstRow(), rowTop, "a key that scrolls the panel scrolls the rows");
	await key("Escape");
	assert.equal(await panel.count(), 0, "Escape closes the panel that has the focus");

	// ---- events ----
	await key("e");
	await inPanel("that are selected");
	await accessible("events");
	await key("t");
	await accessible("events in the dark");
	await key("t");
	await key("Escape");
	await key("Escape");
	assert.doesNotMatch(await hash(), /s=/, "Escape closes the panel, then clears the selection");
	await key("e");
	await page.fill("input[name=filter]", 'openat && filename == "/nowhere/*"');
	await key("Enter");
	await inPanel("/nowhere/second");
	await inPanel("2 in the trace");
	await page.locator("input[name=filter]").blur();
	await page.mouse.move(5, 5);
	await inPanel("2 in the");
	// The list follows what is in view, as do the sums: how long all threads were in which state is less of less time.
	await page.locator("input[name=filter]").fill("");
	await key("Enter");
	await page.locator("input[name=filter]").blur();
	await key("0");
	// The list of all is there, and not still that of the two.
	await inPanel("about ");
	const listed = () => page.locator(".panel p").first().textContent();
	const whole = await listed();
	await key("w");
	await page.waitForFunction((whole) => document.querySelector(".panel p")?.textContent !== whole, whole);
	await key("0");
	await page.waitForFunction((whole) => document.querySelector(".panel p")?.textContent === whole, whole);
	await step(() => page.click(".tabs button:nth-child(2)"));
	const total = page.locator(".panel tbody tr").first();
	await total.waitFor();
	const sums = await total.textContent();
	await key("w");
	await page.waitForFunction((sums) => document.querySelector(".panel tbody tr")?.textContent !== sums, sums);
	await key("0");
	await page.waitForFunction((sums) => document.querySelector(".panel tbody tr")?.textContent === sums, sums);
	// A thread that began within the time has nothing at its begin: that is no failure.
	await step(() => panel.locator("table:not([aria-label]) tr.go", { hasText: "sleeper" }).locator("button").press("Enter"));
	assert.match(await panel.locator("dl").first().textContent(), /^ofsleeper/, "a click shows what the thread did");
	assert.deepEqual(await page.locator(".bar strong").allTextContents(), [], "nothing is wrong");
	await key("e");
	await page.fill("input[name=filter]", 'openat && filename == "/nowhere/*"');
	await key("Enter");
	await inPanel("2 in the trace");
	await page.locator("input[name=filter]").blur();
	await keys("w", 12);
	await key("]");
	const hit = await range();
	await inPanel("1 of 2 in the trace");
	// On a German keyboard ] is made of 9, and a special letter of W, which is not the W that zooms.
	await altGraph("Digit9", "]");
	const secondHit = await range();
	assert.notDeepEqual(secondHit, hit, "] goes to the next hit, however near it is");
	await altGraph("KeyW", "ł");
	assert.deepEqual(await range(), secondHit, "a letter that AltGr makes is not the key where it is");
	await inPanel("2 of 2 in the trace");
	await key("[");
	assert.deepEqual(await range(), hit, "[ goes back to the one before");
	await page.fill("input[name=filter]", "openat &&");
	await key("Enter");
	await page.locator(".panel .error").waitFor();
	await page.fill("input[name=filter]", "openat");
	await key("Enter");
	await page.locator("input[name=filter]").blur();
	await key("Escape");
	await key("0");
	await dragged();

	// ---- marks: when each is, and how far they are from each other ----
	await step(() => page.mouse.move(600, 300));
	await key("m");
	assert.equal(await page.locator(".between").count(), 0, "one mark has no distance");
	await step(() => page.mouse.move(900, 300));
	await key("m");
	const marks = /m=(\d+)(?:%20|\+| )(\d+)/.exec(await hash()).slice(1).map(Number);
	const inNanos = (text) => {
		const [, digits, unit] = /([\d.]+) ([mµn]?s)$/.exec(text);
		return Math.round(Number(digits) * { s: 1e9, ms: 1e6, "µs": 1e3, ns: 1 }[unit]);
	};
	assert.equal(inNanos(await page.locator(".between").textContent()), marks[1] - marks[0], "the distance of two marks");
	const begin = (await get("/v1/meta")).from;
	const flags = [...(await page.evaluate(() => [...globalThis.drawn]))].filter((it) => /^\+[\d.]+ [mµn]?s$/.test(it)).map(inNanos);
	assert.deepEqual(marks.filter((it) => !flags.includes(it - begin)), [], "each mark's time is drawn");
	for (const x of [600, 900]) {
		await step(() => page.mouse.move(x, 300));
		await key("m");
	}
	assert.equal(await page.locator(".between").count(), 0, "M takes a mark away");

	// ---- the address brings it back ----
	await step(() => page.fill("input[type=search]", "waits"));
	const there = await page.evaluate(() => location.href);
	await page.goto("about:blank");
	await page.goto(there);
	await ready();
	assert.equal(await page.inputValue("input[type=search]"), "waits");
	for (const word of ["s=", "p=", "f=openat", "q=waits"]) {
		assert.ok((await hash()).includes(word), `${word} is in the address that was opened`);
	}
	await step(() => page.fill("input[type=search]", ""));

	// ---- the wheel over the names scrolls the rows ----
	await page.locator("input[type=search]").blur();
	await key("Escape");
	assert.equal(await panel.count(), 0);
	await step(() => page.setViewportSize({ width: 1600, height: 400 }));
	const unscrolled = await firstRow();
	await page.mouse.move(100, 250);
	await page.mouse.wheel(0, 60);
	await page.waitForFunction((top) => document.querySelector(".name").getBoundingClientRect().top !== top, unscrolled);
	await page.mouse.wheel(0, -60);
	await page.waitForFunction((top) => document.querySelector(".name").getBoundingClientRect().top === top, unscrolled);
	// Rows that the panel has covered have their names again, whatever closes it, and no pointer moves.
	const uncovered = await rows();
	const reports = page.getByRole("button", { name: "Reports", exact: true });
	for (const close of [page.locator(".close"), reports]) {
		await step(() => reports.press("Enter"));
		await page.waitForFunction((most) => document.querySelectorAll(".name .label").length < most, uncovered.length);
		await step(() => close.press("Enter"));
		await page.waitForFunction((most) => document.querySelectorAll(".name .label").length === most, uncovered.length);
		assert.deepEqual(await rows(), uncovered);
	}

	// ---- a panel leaves room for the tracks when the window becomes lower ----
	const panelHeight = () => page.locator(".drawer").evaluate((it) => it.getBoundingClientRect().height);
	await step(() => page.setViewportSize({ width: 1600, height: 1000 }));
	await key("e");
	await page.locator(".grip").focus();
	await keys("ArrowUp", 20);
	assert.equal(await panelHeight(), 740);
	await step(() => page.setViewportSize({ width: 1600, height: 600 }));
	assert.equal(await panelHeight(), 340);
	await step(() => page.setViewportSize({ width: 1600, height: 1000 }));
	assert.equal(await panelHeight(), 740, "it has its height again where there is room");
	await keys("ArrowDown", 12);
	await key("Escape");

	// ---- all of it fits, and has a name; what was discarded is said in any window ----
	await page.route("**/v1/meta", async (route) => {
		const response = await route.fetch();
		await route.fulfill({ response, json: { ...(await response.json()), discarded: 1_234_567, failure: "the failure ".repeat(9) } });
	});
	await page.reload();
	await ready();
	const loss = page.locator(".bar strong");
	for (const width of [700, 900, 1280, 3840]) {
		await step(() => page.setViewportSize({ width, height: 1000 }));
		for (const text of [/^1,234,567 discarded$/, /^(the failure ){9}$/]) {
			const place = await loss.filter({ hasText: text }).evaluate((it) => {
				const [all, bar] = [it.getBoundingClientRect(), document.querySelector(".bar").getBoundingClientRect()];
				const isSeen = all.width > 0 && all.left >= 0 && all.right <= window.innerWidth && all.bottom <= bar.bottom;
				return { isSeen, isWhole: it.scrollWidth <= Math.ceil(all.width), clips: getComputedStyle(it.parentElement).overflow };
			});
			assert.deepEqual(place, { isSeen: true, isWhole: true, clips: "visible" }, `at ${width} pixels, ${text}`);
		}
		const isCut = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
		assert.ok(!isCut, `at ${width} pixels something is cut`);
	}
	await page.unroute("**/v1/meta");
	const nameless = await page.evaluate(
		() =>
			[...document.querySelectorAll("button, input")].filter(
				(it) => !(it.getAttribute("aria-label") || it.textContent.trim()),
			).length,
	);
	assert.equal(nameless, 0, "a control has no name for a screen reader");

	// ---- a wrong token ----
	await page.goto(address.replace(/token=.*/, `token=${"0".repeat(48)}`));
	await page.locator(".failure .error").waitFor();
}

/** The list of events: each record once, in the order of `strata view`, however it is scrolled. */
async function list() {
	const records = (file) =>
		readFileSync(file, "utf8")
			.split("\n")
			.filter((line) => line !== "")
			.map((line) => /"time":(\d+)/.exec(line)[1].slice(-9));
	const all = records(given.VIEW);
	// Beside the tracks there is room for a hundred rows.
	await step(() => page.setViewportSize({ width: 2300, height: 2000 }));
	const seenRows = () =>
		page.evaluate(() => {
			const box = document.querySelector(".lines").getBoundingClientRect();
			const header = document.querySelector(".lines thead").getBoundingClientRect().height;
			const rows = [...document.querySelectorAll(".lines tbody tr")].filter((row) => {
				const { top, bottom } = row.getBoundingClientRect();
				return top >= box.top + header - 1 && bottom <= box.bottom + 1;
			});
			return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
		});
	/** Their times. */
	const seen = async () => (await seenRows()).map((row) => row[0].slice(-9));
	/**
	 * Where in all records those that are seen are: the last place up to `to`, since records of a state dump look alike. They
	 * must be some that follow each other.
	 */
	const place = (rows, all, from = 0, to = all.length) => {
		for (let n = Math.min(to, all.length - rows.length); n >= from; n--) {
			if (rows.every((row, at) => row === all[n + at])) {
				return n;
			}
		}
		return assert.fail(`from ${from} to ${to} these are not records that follow each other: ${rows}`);
	};
	/** Something else is seen then; the wheel may turn after it was asked to. Pages of a state dump have one time. */
	const changes = async (act) => {
		const before = JSON.stringify(await seenRows());
		await step(act);
		const end = Date.now() + patience;
		while (JSON.stringify(await seenRows()) === before) {
			assert.ok(Date.now() < end, `the list does not scroll: ${act}`);
			await settled();
		}
	};
	await key("e");
	await page.locator(".lines tbody tr").nth(20).waitFor();
	place(await seen(), all, 0, 0);
	let at = 0;
	let pages = 0;
	for (let rows = await seen(); at + rows.length < all.length; pages++) {
		await changes(() => page.keyboard.press("PageDown"));
		const before = at + rows.length;
		rows = await seen();
		at = place(rows, all, at + 1, before);
	}
	assert.ok(pages > 5, `${pages} pages`);
	for (let n = 0; n < 3; n++) {
		await changes(() => page.keyboard.press("PageUp"));
	}
	place(await seen(), all, 0, at - 1);
	await changes(() => page.keyboard.press("Home"));
	place(await seen(), all, 0, 0);
	await changes(() => page.keyboard.press("End"));
	const last = await seen();
	assert.equal(place(last, all) + last.length, all.length, "End goes to the last record");

	// By the handle to the middle, and from there by the wheel.
	await changes(() => page.locator(".place").fill("5000"));
	// Arrows are the handle's, letters the page's.
	await page.locator(".place").focus();
	await changes(() => page.keyboard.press("PageUp"));
	await changes(() => page.keyboard.press("PageDown"));
	await key("0");
	const whole = await range();
	await key("w");
	assert.notDeepEqual(await range(), whole, "W zooms while the handle has the focus");
	await key("0");
	await changes(() => page.locator(".place").fill("4000"));
	await changes(() => page.locator(".place").fill("5000"));
	const middle = place(await seen(), all);
	assert.ok(middle > all.length / 5 && middle < (all.length * 4) / 5, `the handle in the middle goes to ${middle} of ${all.length}`);
	const box = await page.locator(".lines").boundingBox();
	await page.mouse.move(box.x + 50, box.y + 200);
	// Once there are records to which it can scroll.
	await page.waitForFunction(() => {
		const header = document.querySelector(".lines th").getBoundingClientRect();
		return document.querySelector(".lines tbody tr").getBoundingClientRect().bottom <= header.bottom;
	});
	await changes(() => page.mouse.wheel(0, -190));
	place(await seen(), all, 0, middle - 1);
	await page.locator(".lines").focus();
	await key("ArrowDown");
	await key("Enter");
	const row = page.locator('.lines tr[aria-current="true"]');
	assert.equal(await row.count(), 1);
	await keys("w", 6);
	await page.locator(".lines").focus();
	await key("Enter");
	const chosen = (await row.locator("td").first().textContent()).slice(-9);
	const [from, to] = await range();
	await key("m");
	const mark = Number(/m=(\d+)/.exec(await hash())[1]);
	assert.ok(Math.abs(mark - (from + to) / 2) < (to - from) / 50, "Enter shows the record in the middle, and M marks it");
	await page.waitForFunction(() => /e=\d+/.test(location.hash));
	const there = await page.evaluate(() => location.href);
	const first = (await seen())[0];
	await page.goto("about:blank");
	await page.goto(there);
	await ready();
	await page.waitForFunction((first) => document.querySelector(".lines tbody")?.textContent.includes(first), first);
	assert.ok((await page.locator(".lines tbody").textContent()).includes(chosen), "the address has where the list is");

	// A filter, and the end of what it selects.
	await key("0");
	const switches = records(given.SWITCHES);
	await page.fill("input[name=filter]", 'name == "sched_switch"');
	await key("Enter");
	await inPanel(`${switches.length < 2000 ? switches.length.toLocaleString("en") : "2,000 or more"} in the trace`);
	await page.locator(".lines").focus();
	await page.keyboard.press("End");
	await page.waitForFunction((last) => document.querySelector(".lines tbody")?.lastElementChild?.textContent.includes(last), switches[switches.length - 1]);
	const end = await seen();
	assert.equal(place(end, switches) + end.length, switches.length, "the last one that a filter selects");
}

/** Rows are picked without a time, a process is shown alone: by keys, with the mouse, and by the address. */
async function chosen() {
	// High enough for all rows of the program.
	await step(() => page.setViewportSize({ width: 1600, height: 1800 }));
	const groups = () => page.locator(".name.group .label").allTextContents();
	await step(() => page.fill("input[type=search]", "sleeper"));
	await page.locator("input[type=search]").blur();
	await clickSlice("sleeper");
	await step(() => page.fill("input[type=search]", ""));
	await page.locator("input[type=search]").blur();

	// A search that finds rows says how to list their events: E, and a button that is there then.
	await step(() => page.fill("input[type=search]", "sleeper"));
	const hint = page.locator(".status .hint", { hasText: "then E: events" });
	assert.equal(await hint.count(), 1, "a search says how to go on");
	await page.keyboard.press("Escape");
	await key("e");
	assert.equal(await hint.count(), 0);
	await page.getByRole("button", { name: /^only of “sleeper”$/ }).waitFor();
	await key("Escape");
	await step(() => page.fill("input[type=search]", ""));
	await page.locator("input[type=search]").blur();

	// ---- one process ----
	const all = await groups();
	await key("o");
	const alone = await groups();
	assert.ok(all.some((it) => !alone.includes(it)) && alone.includes("waits") && alone.includes("CPUs"), `O shows the process and CPUs: ${alone}`);
	assert.ok((await rows()).includes("sleeper"), "the process is expanded");
	assert.match(await hash(), /g=process-\d+/);
	await key("o");
	assert.ok((await groups()).some((it) => !alone.includes(it)), "O again shows all");
	await key("h");
	assert.ok(!(await groups()).includes("waits"), "H hides the process");
	assert.match(await hash(), /h=process-\d+/);
	const there = await page.evaluate(() => location.href);
	await page.goto("about:blank");
	await page.goto(there);
	await ready();
	assert.ok(!(await groups()).includes("waits"), "the address has what is hidden");
	await key("Shift+H");
	assert.ok((await groups()).includes("waits"), "Shift+H shows it");
	await step(() => page.locator(".name.group", { hasText: "waits" }).getByLabel(/^Only /).click({ force: true }));
	assert.equal((await groups()).filter((it) => !/^(CPUs|Disks|Counters)/.test(it)).length, 1, "a click shows it alone");
	await step(() => page.click("button:text-is('show all')"));

	// ---- rows, without a time ----
	await key("Escape");
	await clickSlice("sleeper");
	await key("x");
	await inPanel("of 1 selected row");
	const threads = page.locator(".panel table:not([aria-label]) tbody tr");
	await page.waitForFunction(() => document.querySelectorAll(".panel table:not([aria-label]) tbody tr").length === 2);
	assert.match(await threads.nth(1).textContent(), /^ *sleeper/, "the table is of the row");
	assert.match(await threads.first().textContent(), /^1 thread(?!s)/);
	assert.match(await page.locator(".status").textContent(), /selected: 1 row(?!s)/);
	assert.match(await hash(), /r=process-\d+%2Fthread-\d+/);
	const said = () => page.locator(".panel p", { has: page.locator("code") }).textContent();
	assert.match(await said(), /^The same on the command line: strata analyze threads .* --of \d+ /, "the command is of the row");
	// Of a selected time, which may have all that the row has, and by one key of all of it again.
	const time = () => page.locator(".panel .row b").textContent();
	const whole = [await time(), await threads.first().textContent()];
	await page.mouse.move(600, 400);
	await page.mouse.down();
	await page.mouse.move(900, 420, { steps: 4 });
	await step(() => page.mouse.up());
	assert.notEqual(await time(), whole[0], "the table is of the selected time");
	await key("r");
	assert.doesNotMatch(await hash(), /s=/, "R clears the time");
	assert.match(await hash(), /r=process/, "the row stays selected");
	await page.waitForFunction((whole) => document.querySelector(".panel table:not([aria-label]) tbody tr")?.textContent === whole, whole[1]);
	assert.equal(await time(), whole[0], "R has the table of the whole time");
	await key("e");
	const tid = (await page.locator(".name.picked .note").first().textContent()).split(" ")[0];
	await page.locator(".lines tbody tr").nth(3).waitFor();
	// Those that it made, and those of who woke it.
	const others = (await page.locator(".lines tbody tr").allTextContents()).filter((it) => !it.includes(tid));
	assert.deepEqual(others, [], "events are of the row");
	// One more row, by its name.
	await step(() => page.getByLabel(/^Reports of CPU 0$/).click({ modifiers: ["Control"] }));
	await inPanel("of 2 selected rows");
	await key("Escape");
	await key("Escape");
	assert.doesNotMatch(await hash(), /r=/, "Escape clears the rows");
	// CPUs have no states of their own, but threads that had them.
	await step(() => page.getByLabel(/^Reports of CPUs$/).click());
	const had = page.locator("table[aria-label='What was done'] tbody tr");
	await had.first().waitFor();
	assert.ok((await had.allTextContents()).some((it) => /^thread\s*(sleeper|first|second|third) \d+/.test(it)), "the threads that had the CPUs");
	assert.equal(await threads.count(), 0, "no table of no threads");
	assert.match(await said(), /^On the command line, of all CPUs: strata analyze cpu --by thread --from /);
	await key("Escape");
}

/** A recording: the page goes with its end until somebody looks at what was before, and again when it is asked to. */
async function live() {
	const shown = (text) => page.waitForFunction((text) => document.querySelector(".live")?.textContent === text, text);
	const count = () => page.locator(".facts").textContent();
	await shown("● live");
	const before = await count();
	await page.waitForFunction((before) => document.querySelector(".facts").textContent !== before, before);
	await page.keyboard.press("w");
	await page.keyboard.press("a");
	await shown("○ go live");
	const [begin] = await range();
	const then = await count();
	await page.waitForFunction((then) => document.querySelector(".facts").textContent !== then, then);
	assert.equal((await range())[0], begin, "what is looked at stays while the recording goes on");
	await page.keyboard.press("l");
	await shown("● live");
	writeFileSync(given.END, "\n");
	await ready();
	assert.equal(await page.locator(".live").count(), 0, "the recording has ended");
}

/** A flight recorder: the page shows what it holds, and at a click what it holds then. */
async function recorder() {
	const facts = () => page.locator(".facts").textContent();
	const before = await facts();
	await key("w");
	await page.click("button:text-is('Snapshot')");
	await page.waitForFunction((before) => {
		const now = document.querySelector(".facts")?.textContent ?? before;
		return document.documentElement.dataset.ready === "true" && now !== before;
	}, before);
	assert.match(await facts(), /^[\d,]+ events/, "another snapshot is shown");
}

/** A program that ends with the browser; its exit, too. */
const children = [];
function started(...command) {
	const child = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "ignore"] });
	const ended = new Promise((done) => child.on("exit", done));
	children.push(child);
	return { child, ended };
}

/** The server is killed and started again: the page goes on by itself, or says what to do. */
async function reconnect() {
	const { SERVER, STRATA, TRACE, TOKEN_FILE } = given;
	const { port } = new URL(address);
	const again = (...flags) => started(STRATA, "ui", "--no-open", "--port", port, ...flags, TRACE);
	const unanswered = (text) => page.waitForFunction((text) => document.querySelector(".unanswered")?.textContent.includes(text), text);
	const found = () => page.locator(".unanswered").waitFor({ state: "detached" });
	await keys("w", 3);
	const before = await range();
	process.kill(Number(SERVER), "SIGKILL");
	await page.click("button:text-is('Reports')");
	await unanswered(`strata ui --port ${port}`);
	const tries = requests.length;
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
	assert.ok(requests.length - tries < 5, "a page without a server asks in each frame");
	const same = again("--token-file", TOKEN_FILE);
	await found();
	await page.locator(".panel table tbody tr").nth(1).waitFor();
	assert.deepEqual(await range(), before, "the page shows what it showed");
	await key("w");
	await ready();
	same.child.kill("SIGKILL");
	await same.ended;
	const other = again();
	await page.click("button:text-is('summary')");
	await unanswered("another token");
	other.child.kill("SIGKILL");
	await other.ended;
	again("--token-file", TOKEN_FILE);
	await found();
}

/** A flight recorder that holds nothing yet: the page says so, and shows the first event as soon as there is one. */
async function awaits() {
	await page.locator(".awaiting").waitFor();
	assert.match(await page.locator(".awaiting").textContent(), /'waiting' holds no event record yet/);
	assert.match(await page.title(), /waiting/);
	await page.click("button:text-is('Snapshot')");
	await page.locator(".awaiting .error").waitFor();
	// There is nothing that keys could change, now or when there is something.
	for (const name of ["?", "e", "v", "w", "x"]) {
		await page.keyboard.press(name);
	}
	started(given.TICKER, "run", "2");
	await ready();
	assert.match(await page.locator(".facts").textContent(), /^[1-9][\d,]* events/);
	assert.equal(await page.locator("dialog, .panel").count(), 0, "keys were kept for what came later");
}

/** Hours without events are left out, and are shown again by a key or a click. */
async function folded() {
	const shown = async () => (await page.locator(".corner").nth(1).textContent()) ?? "";
	const fold = page.locator("button.fold");
	assert.equal(await fold.count(), 1);
	assert.match(await fold.textContent(), /^2 h/);
	assert.doesNotMatch(await shown(), /\d{4}\.\d+ s/, "hours are not in view");
	await key("z");
	assert.equal(await fold.count(), 0);
	assert.match(await shown(), /^7\d{3}\.\d+ s/, "Z shows all of the time");
	assert.match(await hash(), /z=0/);
	await key("z");
	assert.equal(await fold.count(), 1);
	// What is behind the fold is drawn, and can be looked at.
	const box = await fold.boundingBox();
	const row = await page.locator(".name:not(.group)", { has: page.locator(".label", { hasText: /^CPU 0$/ }) }).first().boundingBox();
	const times = [];
	for (const [first, last] of [[box.x - 500, box.x - 20], [box.x + box.width + 10, box.x + 520]]) {
		let time;
		for (let x = first; x < last && !time; x += 12) {
			await step(() => page.mouse.click(x, row.y + 8));
			time = /i=\d+%40(\d+)/.exec(await hash())?.[1];
		}
		assert.ok(time, "no slice beside the fold");
		times.push(Number(time));
		await key("Escape");
		await page.evaluate(() => history.replaceState(null, "", location.hash.replace(/&i=[^&]*/, "")));
	}
	assert.ok(times[1] - times[0] > 7e12, `the slices are hours apart: ${times}`);
	await key("0");
	await step(() => fold.click());
	assert.equal(await fold.count(), 0, "a click shows the time");
	assert.match(await shown(), /^7\d{3}\.\d+ s/);
	await key("z");
	const there = await page.evaluate(() => location.href);
	await page.goto("about:blank");
	await page.goto(there);
	await ready();
	assert.equal(await fold.count(), 1, "a page that is opened folds");
}

/** Two traces: the second one sleeps longer. Both are shown, are aligned by an event and by slices, and it is said what became slower. */
async function pair() {
	assert.deepEqual(
		[...new Set(await page.locator(".names .side").allTextContents())].sort(),
		["A", "B"],
		"rows say of which trace they are",
	);
	await step(() => page.fill("input[type=search]", "python3"));
	await page.locator("input[type=search]").blur();
	assert.ok((await rows()).filter((it) => /python3/.test(it)).length >= 2, `both have the program: ${await rows()}`);

	// ---- what became slower, where ----
	await step(() => page.click("button:text-is('Compare')"));
	const table = page.locator("table[aria-label='What became slower']");
	await table.waitFor();
	const row = table.locator("tbody tr", { hasText: "clock_nanosleep" }).first();
	assert.match(await row.textContent(), /^slowerpython3/, "the longer sleep is named");
	const command = await panel.locator("code").textContent();
	assert.match(command, /^strata analyze diff --from @\d+\.\d{9} --until @\d+\.\d{9} --shift -?\d+ns /);

	// ---- aligned by an event ----
	const moved = () => panel.locator("form span").textContent();
	assert.match(await moved(), /\+0 ns/);
	await page.fill("input[aria-label^='Align']", 'clock_nanosleep');
	await key("Enter");
	await page.waitForFunction(() => /o=-?\d+/.test(location.hash));
	assert.doesNotMatch(await moved(), /\+0 ns/);
	const late = /o=(-?\d+)/.exec(await hash())[1];
	assert.ok(!(await panel.locator("button", { hasText: "Compare the" }).isDisabled()), "what was compared is old");
	await step(() => panel.locator("button", { hasText: "Compare the" }).click());
	await table.waitFor();
	await page.fill("input[aria-label^='Align']", "nowhere:never");
	await key("Enter");
	await panel.locator(".error").waitFor();
	assert.match(await panel.locator(".error").textContent(), /A has no record/);
	await page.locator("input[aria-label^='Align']").blur();
	const there = await page.evaluate(() => location.href);
	await page.goto("about:blank");
	await page.goto(there);
	await ready();
	assert.equal(/o=(-?\d+)/.exec(await hash())[1], late, "the address holds how the traces are aligned");
	await step(() => page.click("button:text-is('Compare')"));
	await step(() => page.click("button:text-is('Begin together')"));
	assert.doesNotMatch(await hash(), /o=/);

	// ---- records are of one of them ----
	await key("e");
	await page.fill("input[name=filter]", "clock_nanosleep");
	await key("Enter");
	await inPanel("in the trace");
	const first = await panel.textContent();
	await step(() => page.click("button:text-is('of B')"));
	await page.waitForFunction((first) => document.querySelector(".panel").textContent !== first, first);
	await inPanel("in the trace");
	await page.locator("input[name=filter]").blur();
	await key("Escape");

	// ---- aligned by two slices ----
	const label = (side) => page.locator(".name:not(.group)", { has: page.locator(".side", { hasText: side }) }).first();
	const click = async (side) => {
		const box = await label(side).boundingBox();
		for (let x = 300; x < 1590; x += 20) {
			await step(() => page.mouse.click(x, box.y + 10));
			if ((await page.locator(".panel h2").count()) > 0) {
				return;
			}
		}
		assert.fail(`no slice of ${side}`);
	};
	await openAll();
	await click("A");
	await step(() => page.click("button:text-is('Align …')"));
	await key("Escape");
	await click("B");
	await step(() => page.locator(".panel h2 button", { hasText: "Align with" }).click());
}

/** A guest and its host: which of the host's threads is its CPU, and where by the host's clock a slice of it may have been. */
async function guests() {
	const heading = (text) => page.locator(".name.group", { hasText: text });
	assert.equal(await heading("CPUs · vm").count(), 1, `the guest has CPUs of its own: ${await rows()}`);
	await openAll();
	await step(() => page.mouse.move(5, 5));
	const notes = await page.locator(".name:not(.group)").allTextContents();
	assert.ok(notes.some((it) => /^CPU 0thread 42 of the host/.test(it)), `the guest's CPU is a thread of the host: ${notes}`);
	assert.ok(notes.some((it) => /^CPU 0\/KVM42 · CPU 0 of vm/.test(it)), `the host's thread is a CPU of the guest: ${notes}`);
	assert.ok(await page.evaluate(() => [...globalThis.drawn].some((it) => /^± 20(\.0+)? µs$/.test(it))), "it is not written how exactly the clock is known");

	// What is drawn in a row, from left to right: colours as numbers.
	const plot = await page.locator(".plot").last().boundingBox();
	const pixels = async (row) => {
		const { y, height } = await row.boundingBox();
		return page.evaluate((y) => {
			const canvas = [...document.querySelectorAll(".plot canvas")].at(-1);
			const copy = document.createElement("canvas");
			[copy.width, copy.height] = [canvas.width, 1];
			const pen = copy.getContext("2d", { willReadFrequently: true });
			pen.drawImage(canvas, 0, -y);
			return [...new Uint32Array(pen.getImageData(0, 0, canvas.width, 1).data.buffer)];
		}, Math.round(y - plot.y + height / 2));
	};
	await key("0");
	const [from, to] = await range();
	const begin = (await get("/v1/meta")).from;
	const place = (micros) => ((begin + micros * 1000 - from) / (to - from)) * plot.width;
	const [host, guest] = [heading("CPUs · host"), heading("CPUs · vm")];
	const before = [await pixels(host), await pixels(guest)];
	const cpu = await page.locator(".name:not(.group)", { hasText: "thread 42 of the host" }).boundingBox();
	await step(() => page.mouse.click(plot.x + place(400), cpu.y + 8));
	await step(() => page.mouse.move(5, 5));
	assert.match(await panel.locator("h2").textContent(), /web/, "the guest's slice is looked at");
	assert.deepEqual(await pixels(guest), before[1], "by its own clock it is known when the slice was");
	const after = await pixels(host);
	const changed = after.flatMap((colour, x) => (colour === before[0][x] ? [] : [x]));
	const ends = changed.flatMap((x, n) => [...(changed[n - 1] === x - 1 ? [] : [x]), ...(changed[n + 1] === x + 1 ? [] : [x + 1])]);
	// It began at 200 µs and ended at 600 µs, each give or take 20 µs.
	const wanted = [180, 220, 580, 620].map(place);
	assert.ok(ends.length === 4 && ends.every((x, n) => Math.abs(x - wanted[n]) <= 1.5), `bands of the host's row: ${ends}, and not ${wanted}`);
}

/** Two hosts: rows, records and reports say whose they are, and a list what order is not known. */
async function hosts() {
	const wanted = readFileSync(given.VIEW, "utf8").split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
	await openAll();
	const groups = await page.locator(".name.group .label").allTextContents();
	assert.deepEqual(groups.filter((it) => !/ · web[12]$/.test(it)), [], "each group says whose it is");
	await key("e");
	await page.locator(".lines tbody tr").nth(wanted.length - 1).waitFor();
	const lines = async () => (await page.locator(".lines tbody tr").allTextContents()).map((it) => [it.startsWith("~"), /web[12]/.exec(it)?.[0]]);
	assert.deepEqual(await lines(), wanted.map((it) => [it.order_unknown === true, it.host]), "the list has the hosts and marks of strata view");
	assert.ok(wanted.some((it) => it.order_unknown) && wanted.some((it) => !it.order_unknown));
	// A row of the second host, whose number the first one has as well.
	await step(() => page.locator(".name:not(.group)", { has: page.locator(".label", { hasText: /^CPU 0$/ }) }).nth(1).locator(".label").click());
	const own = wanted.filter((it) => it.host === "web2").length;
	await inPanel(`${own} in the`);
	assert.deepEqual([...new Set((await lines()).map((it) => it[1]))], ["web2"], "the records are of the row's host");
	await key("Escape");
	await key("Escape");
	// What the first host did after its recording is not known.
	await step(() => page.click("button:text-is('Reports')"));
	const threads = page.locator(".panel table:not([aria-label]) tbody tr", { hasText: "web 7" });
	await threads.nth(1).waitFor();
	const ran = (await threads.allTextContents()).map((it) => /(web \d+ · web\d)([\d.]+ µs)/.exec(it)?.slice(1)).sort();
	assert.deepEqual(ran, [["web 7 · web1", "200.000 µs"], ["web 7 · web2", "592.000 µs"]], "how long each ran");
}

/** A saved page: shows without a server what the server's has, and asks for nothing. */
async function saved() {
	const sums = async () => {
		await key("0");
		await step(() => page.click("button:text-is('Reports')"));
		// What was done, by name, is said by a server only.
		const threads = page.locator(".panel table:not([aria-label]) tbody tr");
		await threads.nth(3).waitFor();
		return threads.allTextContents();
	};
	const served = await sums();
	await key("Escape");
	const labels = await rows();
	requests.length = 0;
	await page.goto(`file://${given.PAGE}`);
	await ready();
	assert.deepEqual(await rows(), labels, "a saved page has other rows");
	assert.deepEqual(await sums(), served, "a saved page has other sums");
	await key("Escape");
	await keys("w", 8);
	assert.ok((await page.evaluate(() => globalThis.drawn.size)) > 0, "nothing is written on the tracks");
	await step(() => page.fill("input[type=search]", "sleeper"));
	await page.locator("input[type=search]").blur();
	await key("0");
	await clickSlice("sleeper");
	assert.match(await panel.textContent(), /took.*this page has no records/s);
	assert.equal(requests.filter((it) => !it.startsWith("file://")).length, 0, `a saved page asks for ${requests}`);
	requests.length = 0;
}

/**
 * What the page shows or says that it has not said before: texts, attributes that are read aloud or shown, and what the canvas
 * has drawn. How many of all texts have a word, and how many elements there are that only a name could have made.
 */
const shown = (word) =>
	page.evaluate((word) => {
		globalThis.judged ??= new Set();
		const texts = [document.title, ...globalThis.drawn];
		const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
		while (walker.nextNode()) {
			texts.push(walker.currentNode.data);
		}
		for (const element of document.querySelectorAll("*")) {
			for (const name of ["title", "aria-label", "alt", "placeholder"]) {
				texts.push(element.getAttribute(name) ?? "");
			}
		}
		const fresh = [...new Set(texts)].filter((it) => !globalThis.judged.has(it));
		for (const text of fresh) {
			globalThis.judged.add(text);
		}
		const made = document.querySelectorAll("img, script:not([src]), body style, iframe, a").length;
		return { fresh, found: texts.filter((it) => it.includes(word)).length, made, title: document.title };
	}, word);
/** As tests/hostile_trace.py has it; line ends are left out, since reports have several lines. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are looked for
const ACTING = /[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0020}-\u{e0041}]/u;

async function hostile() {
	const title = await page.title();
	// A report has at most 1 MiB, as one text.
	const look = async (where, most = 20_000) => {
		const { fresh, found, made, title: now } = await shown("evil");
		for (const text of fresh) {
			assert.doesNotMatch(text, ACTING, `${where}: a character acts in ${JSON.stringify(text.slice(0, 200))}`);
			assert.ok(text.length <= most, `${where}: a text of ${text.length} characters`);
		}
		assert.ok(found > 0, `${where}: no hostile name is shown`);
		assert.equal(made, 0, `${where}: a name has become an element`);
		assert.equal(now, title, `${where}: a name has acted`);
		return fresh.length;
	};
	assert.match(title, /evil/);
	await look("names");
	await openAll();
	assert.ok((await rows()).some((it) => it.includes("<img src=x onerror=")), `a name is text: ${(await rows()).map((it) => it.slice(0, 30))}`);
	await look("open rows");
	// Narrow slices have no text: look near.
	const drawn = await page.evaluate(() => globalThis.drawn.size);
	await keys("w", 4);
	await look("tracks");
	assert.ok((await page.evaluate(() => globalThis.drawn.size)) > drawn, "nothing is written on the tracks");
	await key("0");
	// Each row: what is under the pointer, and the details of a click.
	const labels = await page.locator(".name:not(.group)").count();
	let details = 0;
	let tips = 0;
	for (let row = 0; row < labels; row++) {
		const box = await page.locator(".name:not(.group)").nth(row).boundingBox();
		for (let x = 300; x < 1600; x += 160) {
			// A tip is there with the event that asks for it.
			await page.mouse.move(x, box.y + 8);
			tips += await look("tip");
		}
		for (let x = 400; x < 1600; x += 400) {
			await step(() => page.mouse.click(x, box.y + 8));
		}
		if ((await page.locator(".panel h2").count()) > 0) {
			details++;
			await look("details");
			await step(() => page.mouse.click(10, box.y + 8));
			await key("Escape");
		}
	}
	assert.ok(details > 2 && tips > 10, `${details} rows have details, and ${tips} texts were in tips`);
	await key("e");
	await page.locator(".panel table tbody tr").nth(5).waitFor();
	await look("events");
	await page.fill("input[name=filter]", "openat");
	await key("Enter");
	await inPanel("characters)");
	await look("a name of a million characters");
	await step(() => page.click(".tabs button:nth-child(2)"));
	await page.locator(".panel table tbody tr").nth(1).waitFor();
	await look("sums");
	for (const name of ["summary", "threads", "syscalls", "files", "irq", "cpu", "spans"]) {
		await step(() => page.click(`.panel button:text-is('${name}')`));
		await page.waitForFunction(() => (document.querySelector(".panel pre")?.textContent.length ?? 0) > 20);
		await look(name, 1 << 20);
	}
	await step(() => page.fill("input[type=search]", "<img"));
	await look("search");
	assert.ok((await rows()).length > 0, "a hostile name is found");
}

/** Runs a part in a page of its own, with nothing that the browser has kept. */
async function run() {
	const context = await browser.newContext({ viewport: { width: 1600, height: 900 }, colorScheme: "light" });
	page = await context.newPage();
	panel = page.locator(".panel");
	page.setDefaultTimeout(patience);
	requests.length = said.length = 0;
	page.on("request", (request) => requests.push(request.url()));
	page.on("console", (message) => said.push(message.text()));
	page.on("pageerror", (error) => said.push(error.message));
	await page.addInitScript(() => {
		globalThis.drawn = new Set();
		const draw = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
			globalThis.drawn.add(text);
			draw.call(this, text, ...rest);
		};
	});
	await page.goto(address);
	if (part !== "live" && part !== "awaits") {
		await ready();
	}
	await { controls, list, chosen, saved, live, hostile, pair, recorder, reconnect, awaits, folded, guests, hosts }[part]();
	const own = new URL(address).origin;
	const others = requests.filter((url) => !url.startsWith(`${own}/`) && url !== "about:blank");
	assert.deepEqual(others, [], "a request has left the server");
	// What the browser says of answers that were refused on purpose is no complaint. A server that was started with another
	// trace has nothing of the one that the page still asks for.
	const refused = { reconnect: /status of (401|404)|ERR_(CONNECTION|EMPTY|SOCKET)/, awaits: /status of (409|422)/ }[part] ?? /status of (400|401)/;
	const complaints = said.filter((text) => !refused.test(text));
	assert.deepEqual(complaints, [], "the browser complains");
	await context.close();
}

try {
	for await (const line of createInterface({ input: process.stdin })) {
		const [name, place, limit, ...values] = line.split("\t");
		[part, address, patience] = [name, place, Number(limit)];
		given = Object.fromEntries(values.map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)]));
		const begin = performance.now();
		await run();
		for (const child of children.splice(0)) {
			child.kill("SIGKILL");
		}
		console.log(`ok ${part}: ${requests.length} requests, ${((performance.now() - begin) / 1000).toFixed(1)} s`);
	}
} catch (error) {
	console.error(error);
	console.log(`failed ${part}: see above`);
} finally {
	for (const child of children) {
		child.kill("SIGKILL");
	}
	await browser.close();
}
