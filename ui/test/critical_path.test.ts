import assert from "node:assert/strict";
import test from "node:test";
import { partsOf, stepAt, tracksOf } from "../src/critical_path";

const step = (track: number | null, from: number, to: number, kind: number, name = "") => ({ track, from, to, kind, name, depth: 0 });
const STEPS = [step(1, 0, 10, 0), step(2, 10, 40, 3, "read"), step(1, 40, 45, 0), step(null, 45, 46, 5), step(2, 46, 96, 3, "read")];

test("parts of a path are put together by thread, kind and name, and add up to the whole", () => {
	const parts = partsOf(STEPS);
	assert.deepEqual(
		parts.map((it) => [it.track, it.kind, it.name, it.nanos, it.count, it.at]),
		[
			[2, 3, "read", 80, 2, 46],
			[1, 0, "", 15, 2, 0],
			[null, 5, "", 1, 1, 45],
		],
	);
	assert.equal(
		parts.reduce((sum, it) => sum + it.nanos, 0),
		96,
	);
	assert.deepEqual(partsOf([]), []);
});

test("tracks of a path are those of most of its time, in the order of the path", () => {
	assert.deepEqual(tracksOf(STEPS, 5), [1, 2]);
	assert.deepEqual(tracksOf(STEPS, 1), [2]);
});

test("the step of a time is the first one that ends behind it", () => {
	assert.deepEqual(
		[-1, 0, 9, 10, 45, 95, 96].map((time) => stepAt(STEPS, time)),
		[0, 0, 0, 1, 3, 4, 5],
	);
});
