// What bench/ui/run asks a browser: ADDRESS PID_OF_SERVER. Prints one line: records, ms to the first picture, seconds of
// reading, million records a second, ms from a key to its picture (p50, p95) while the trace is read and (p95) after, MB of
// the server and of the page at most, frames a second while rows are scrolled.
import { memory, open } from "./browser.mjs";

const [address, server] = process.argv.slice(2);
const KEYS = 60;
const SCROLL_MS = 3000;

const { browser, page, meta, pageMemory } = await open(address, 600_000);

/** In the page: presses a key as a person does, and waits for the frame that has all of what it asks for. */
const timed = (key) =>
	page.evaluate(
		(code) =>
			new Promise((done) => {
				const begin = performance.now();
				window.dispatchEvent(new KeyboardEvent("keydown", { code, key: code.slice(-1).toLowerCase() }));
				const look = () => {
					if (document.documentElement.dataset.sharp === "true") {
						done(performance.now() - begin);
					} else {
						requestAnimationFrame(look);
					}
				};
				// The frame that answers the key is the next one.
				requestAnimationFrame(() => requestAnimationFrame(look));
			}),
		key,
	);
const percentile = (times, share) => {
	const sorted = [...times].sort((a, b) => a - b);
	return sorted.length === 0 ? 0 : sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)];
};
const moves = ["KeyW", "KeyW", "KeyD", "KeyW", "KeyA", "KeyS", "KeyW", "KeyD", "KeyD", "KeyS"];
let mostMemory = 0;
const weigh = async () => {
	mostMemory = Math.max(mostMemory, await pageMemory());
};

const begin = performance.now();
await page.goto(address, { waitUntil: "commit" });
await page.waitForFunction(() => document.documentElement.dataset.sharp === "true", undefined, { polling: "raf" });
const picture = performance.now() - begin;
const reading = [];
let now = await meta();
for (let n = 0; !now.done; n++) {
	reading.push(await timed(moves[n % moves.length]));
	now = await meta();
}
// By the server's clock: it begins before the browser does.
const seconds = now.reading_ms / 1000;
await page.waitForFunction(() => document.documentElement.dataset.ready === "true");
await weigh();
await page.keyboard.press("0");
const after = [];
for (let n = 0; n < KEYS; n++) {
	after.push(await timed(moves[n % moves.length]));
}
await weigh();
// All groups are opened, and scrolled through.
await page.keyboard.press("0");
for (let n = 0; n < 40; n++) {
	// Found and clicked at once, in a frame of its own: one that is found may be open before a click of the driver reaches it.
	const isClicked = await page.evaluate(
		() =>
			new Promise((done) =>
				requestAnimationFrame(() => {
					const closed = document.querySelector('.toggle[aria-expanded="false"]');
					closed?.click();
					done(closed !== null);
				}),
			),
	);
	if (!isClicked) {
		break;
	}
}
const frames = await page.evaluate(
	(length) =>
		new Promise((done) => {
			const begin = performance.now();
			let count = 0;
			const step = () => {
				count++;
				const spent = performance.now() - begin;
				if (spent > length) {
					done((1000 * count) / spent);
					return;
				}
				window.dispatchEvent(new KeyboardEvent("keydown", { code: "ArrowDown", key: "ArrowDown" }));
				requestAnimationFrame(step);
			};
			requestAnimationFrame(step);
		}),
	SCROLL_MS,
);
await weigh();
const line = [
	now.records,
	picture.toFixed(0),
	seconds.toFixed(2),
	(now.records / 1e6 / Math.max(seconds, 0.001)).toFixed(2),
	// A short trace is read before there is a browser.
	reading.length === 0 ? "-" : percentile(reading, 0.5).toFixed(0),
	reading.length === 0 ? "-" : percentile(reading, 0.95).toFixed(0),
	percentile(after, 0.95).toFixed(0),
	memory(server, "status", "VmHWM").toFixed(0),
	mostMemory.toFixed(0),
	frames.toFixed(0),
];
console.log(line.join(" "));
await browser.close();
