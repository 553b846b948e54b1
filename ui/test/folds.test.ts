// Folds against a slow model: an axis on which each moment is a step.

import assert from "node:assert/strict";
import test from "node:test";
import { inPixels } from "../src/draw";
import { Folds, foldsOf, longTime } from "../src/folds";
import { zoomed } from "../src/time";

const S = 1e9;

test("times of the axis are those of an axis that leaves out each moment of a fold", () => {
	const folds = new Folds([
		{ from: 10, to: 15 },
		{ from: 20, to: 26 },
	]);
	let shown = 0;
	for (let time = 0; time < 40; time++) {
		assert.equal(folds.shown(time), shown, `${time}`);
		const isIn = (time >= 10 && time < 15) || (time >= 20 && time < 26);
		shown += isIn ? 0 : 1;
		if (!isIn) {
			assert.equal(folds.real(folds.shown(time), true), time);
		}
	}
	assert.equal(folds.real(10, false), 10);
	assert.equal(folds.real(10, true), 15);
	assert.equal(folds.length({ from: 0, to: 40 }), 29);
});

test("the parts of a range fill its width, and each has the time that is not folded", () => {
	const folds = new Folds([
		{ from: 10, to: 15 },
		{ from: 20, to: 26 },
	]);
	const parts = folds.segments({ from: 5, to: 30 }, 140);
	assert.deepEqual(
		parts.map(({ from, to, x, width }) => [from, to, x, width]),
		[
			[5, 10, 0, 50],
			[15, 20, 50, 50],
			[26, 30, 100, 40],
		],
	);
	assert.deepEqual(
		folds.marks({ from: 5, to: 30 }, 140).map(({ x }) => x),
		[50, 100],
	);
	// Ranges that begin or end in a fold.
	assert.deepEqual(
		folds.segments({ from: 12, to: 22 }, 10).map(({ from, to, x }) => [from, to, x]),
		[[15, 20, 0]],
	);
	assert.deepEqual(folds.segments({ from: 11, to: 14 }, 10), []);
});

test("only long times are folded, those that are a share of the trace, and none that was unfolded", () => {
	const bounds = { from: 0, to: 10_000 * S };
	const stretches = [
		{ from: 100 * S, to: 130 * S },
		{ from: 1000 * S, to: 1400 * S },
		{ from: 2000 * S, to: 9000 * S },
	];
	const found = foldsOf(stretches, bounds, new Set());
	assert.equal(found.length, 1);
	const [fold] = found;
	assert.ok(fold && fold.from > 2000 * S && fold.to < 9000 * S && fold.to - fold.from > 6900 * S, "what is around stays in view");
	assert.deepEqual(foldsOf(stretches, bounds, new Set([2000 * S])), []);
	assert.deepEqual(foldsOf([{ from: 0, to: 50 * S }], { from: 0, to: 60 * S }, new Set()), [], "less than a minute");
});

test("a zoom keeps the moment under the pointer where it is, also behind a fold", () => {
	const folds = new Folds([{ from: 100, to: 100_000 }]);
	const bounds = { from: 0, to: 100_100 };
	const at = 100_050;
	const range = folds.changed(bounds, bounds, (range, bounds) => zoomed(range, folds.shown(at), 0.5, bounds));
	const place = (of: { from: number; to: number }) => (folds.shown(at) - folds.shown(of.from)) / folds.length(of);
	assert.ok(Math.abs(place(range) - place(bounds)) < 1e-9);
	assert.equal(folds.length(range), 100);
});

test("what is folded away is in a pixel of the overview, and all counts are there", () => {
	const folds = new Folds([{ from: 10, to: 90 }]);
	const counts = [5, 0, 0, 0, 0, 0, 0, 0, 1, 4];
	const pixels = inPixels(counts, (n) => folds.shown(n * 10), 20);
	assert.ok(pixels.every((it) => Number.isFinite(it)));
	const sum = pixels.reduce((sum, it) => sum + it, 0);
	assert.ok(Math.abs(sum - 10) < 1e-9, `${sum}`);
});

test("a length is said by its two largest parts", () => {
	assert.equal(longTime(2 * 3600 * S + 13 * 60 * S + 5 * S), "2 h 13 min");
	assert.equal(longTime(86400 * S), "1 d");
	assert.equal(longTime(61 * S), "1 min 1 s");
	assert.equal(longTime(0), "0 s");
});
