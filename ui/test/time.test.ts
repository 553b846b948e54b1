import assert from "node:assert/strict";
import test from "node:test";
import { count, counted, distances, exact, flag, followed, histogram, joined, kept, length, levelOf, panned, since, ticks, tilesOf, tileWidth, timeOfDay, zoomed } from "../src/time";

const bounds = { from: 1000, to: 1_001_000 };

test("cells of the level of a view are one to two pixels wide", () => {
	for (const perPixel of [0.01, 1, 1.5, 2, 3, 1000, 1024, 1025, 1e9]) {
		const width = 2 ** levelOf(perPixel);
		assert.ok(width >= perPixel && width < Math.max(2 * perPixel, 2), `${perPixel}: ${width}`);
	}
	assert.equal(levelOf(1e300), 43);
});

test("tiles of a range have all of it and no more", () => {
	assert.deepEqual(tilesOf({ from: 0, to: tileWidth(3) }, 3), [0, 0]);
	assert.deepEqual(tilesOf({ from: -1, to: tileWidth(3) + 1 }, 3), [-1, 1]);
});

test("a zoom leaves the moment under the pointer where it is", () => {
	const range = { from: 200_000, to: 300_000 };
	for (const factor of [0.5, 0.99, 2]) {
		const at = 225_000;
		const to = zoomed(range, at, factor, bounds);
		assert.ok(Math.abs((at - to.from) / (to.to - to.from) - 0.25) < 1e-9);
		assert.ok(Math.abs(to.to - to.from - 100_000 * factor) < 1e-6);
	}
});

test("no zoom and no pan leaves the trace", () => {
	let range = { ...bounds };
	for (let n = 0; n < 50; n++) {
		range = zoomed(range, bounds.to, n % 3 === 0 ? 0.3 : 1.4, bounds);
		range = panned(range, (n % 2 === 0 ? -3 : 5) * (range.to - range.from), bounds);
		const length = range.to - range.from;
		assert.ok(length >= 9.99 && length <= 1.1e6 + 1);
		assert.ok(range.from >= bounds.from - 0.11 * length && range.to <= bounds.to + 0.11 * length);
	}
	const all = kept({ from: -1e12, to: 1e12 }, bounds);
	assert.ok(all.from < bounds.from && all.to > bounds.to);
});

test("marks of a ruler are round, inside, and about as many as wanted", () => {
	for (const [from, to] of [[0, 792_101_279], [5, 17], [-300, 4e12]] as const) {
		const { step, at } = ticks({ from, to }, 10);
		assert.ok(at.length >= 4 && at.length <= 11, `${at.length}`);
		assert.ok(/^[125]0*$/.test(String(step)), `${step}`);
		assert.ok(at.every((it) => it >= from && it <= to && it % step === 0));
	}
});

test("lengths and times are written as reports write them", () => {
	assert.equal(length(41_528_000), "41.528 ms");
	assert.equal(length(0), "0 ns");
	assert.equal(length(999), "999 ns");
	assert.equal(since(1_250_000, 50_000), "+1.25 ms");
	assert.equal(since(-20_000_000, 1e7), "−20 ms");
	assert.equal(count(1234567), "1,234,567");
	assert.equal(count(12), "12");
	assert.deepEqual([0, 1, 2, 1234].map((n) => counted(n, "row")), ["0 rows", "1 row", "2 rows", "1,234 rows"]);
	const base = 1_792_432_651_693_457_408n;
	assert.equal(flag(base, 3_530_654_521_727_763), "@1795963306.215185171");
	assert.equal(flag(-5n, 2), "@-0.000000003");
	assert.equal(timeOfDay(base, 3_530_654_521_727_763).slice(-12), "46.215185171");
	assert.equal(timeOfDay(-1n, 0).slice(-10), ".999999999");
});

test("a range that goes with a recording keeps its length, and all of it stays all", () => {
	const before = { from: 5, to: 100 };
	const bounds = { from: 5, to: 130 };
	assert.deepEqual(followed({ from: 80, to: 100 }, before, bounds), { from: 110, to: 130 });
	assert.deepEqual(followed({ from: 5, to: 100 }, before, bounds), bounds);
	assert.deepEqual(followed({ from: 80, to: 101 }, before, before), { from: 80, to: 101 });
});

test("a histogram has each time in its column, the end of the range in the last one", () => {
	assert.deepEqual(histogram([0, 4, 5, 99, 100, -1], { from: 0, to: 100 }, 20), [2, 1, ...new Array(17).fill(0), 2]);
	assert.deepEqual(histogram([], { from: 0, to: 0 }, 0), [0]);
	assert.deepEqual(histogram([7], { from: 7, to: 7 }, 1), [1]);
});

test("two ranges are joined to the shortest one that has both", () => {
	assert.deepEqual(joined(undefined, { from: 3, to: 5 }), { from: 3, to: 5 });
	assert.deepEqual(joined({ from: 8, to: 9 }, { from: 3, to: 5 }), { from: 3, to: 9 });
	assert.deepEqual(joined({ from: 1, to: 9 }, { from: 3, to: 5 }), { from: 1, to: 9 });
});

test("a length is written with each of its nanoseconds, and marks are so far from the one before", () => {
	const lengths = [0, 7, 999, 1000, 1001, 12_345_678, 1_000_000_000, 86_400_000_000_001, -1_000_001];
	assert.deepEqual(lengths.map(exact), [
		"0 ns", "7 ns", "999 ns", "1.000 µs", "1.001 µs", "12.345678 ms", "1.000000000 s", "86400.000000001 s", "−1.000001 ms",
	]);
	// More digits than a quotient of doubles has.
	assert.equal(exact(2 ** 53 - 1), "9007199.254740991 s");
	assert.deepEqual(distances([]), []);
	assert.deepEqual(distances([5]), []);
	assert.deepEqual(distances([5, 7, 107]), [2, 100]);
});
