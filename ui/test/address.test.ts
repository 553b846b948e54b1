// The address brings back what was looked at, and bears anything.

import assert from "node:assert/strict";
import test from "node:test";
import { hashOf, type View, viewOf } from "../src/address";

test("what an address has is what comes out of it", () => {
	const view: View = {
		range: { from: -5, to: 4_503_599_627_370_000 },
		selection: { from: 1, to: 2 },
		search: "a & b=c #",
		isOnlyMine: true,
		filter: 'openat && filename == "/x/*"',
		pinned: ["process-1/thread-2", "ä\tb"],
		hidden: ["process-7", "disks-0"],
		focus: "process-1",
		picked: ["cpus-0/cpu-1"],
		list: { place: -12 },
		late: -17,
		marks: [0, 4, 9],
		slice: { track: 7, time: 123 },
		isFolding: false,
	};
	assert.deepEqual(viewOf(hashOf(view)), view);
	assert.deepEqual(viewOf(hashOf({ ...view, list: { place: undefined } })).list, { place: undefined });
	const empty = viewOf("");
	assert.deepEqual(viewOf(hashOf(empty)), empty);
	assert.deepEqual(empty.marks, []);
});

test("an address that is cut or forged has nothing of what it does not say", () => {
	for (const hash of ["#t=5-1&s=x-y", "#t=&m=a+b&i=-1@5&o=x", "#t=1-1", "#%E0%A4%A", "#t=1e9-2e9&e=1e9"]) {
		const view = viewOf(hash);
		assert.equal(view.range, undefined, hash);
		assert.equal(view.selection, undefined);
		assert.equal(view.slice, undefined);
		assert.deepEqual(view.marks, []);
		assert.equal(view.late, 0);
		assert.equal(view.list?.place, undefined);
	}
});
