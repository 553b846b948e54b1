import assert from "node:assert/strict";
import test from "node:test";
import type { Meta, Track } from "../src/api";
import { besides, boundsOf, momentOf, OTHER, ownId, sideOf } from "../src/trace_pair";
import { groupsOf, rowsOf } from "../src/track_rows";

const track = (id: number, title: string, busy: number, pid: number): Track => ({
	id,
	kind: "thread",
	group: `process-${id}`,
	title,
	label: title,
	pid,
	tid: pid,
	depth: 0,
	count: 1,
	from: 0,
	to: 10,
	sums: [busy, 0, 0, 0, 0, 0, 0, 0],
});

test("numbers of the second trace are its own ones, and differ from those of the first", () => {
	for (const id of [0, 1, OTHER - 1]) {
		assert.equal(sideOf(id), 0);
		assert.equal(sideOf(id + OTHER), 1);
		assert.equal(ownId(id + OTHER), id);
	}
});

test("two traces are as long as both together, wherever the second one is moved", () => {
	const meta = { from: 100, to: 200, other: { from: 1000, to: 1500 } } as Meta;
	assert.deepEqual(boundsOf(meta, -900), { from: 100, to: 600 });
	assert.deepEqual(boundsOf(meta, -1200), { from: -200, to: 300 });
	assert.deepEqual(boundsOf({ from: 5, to: 6 } as Meta, 77), { from: 5, to: 15 });
});

test("a record of the second trace is at the moment to which the trace is moved", () => {
	assert.equal(momentOf({ time: "1700000000000000123" }, 1700000000000000000n, -23), 100);
});

test("processes of one name are beside each other, the busiest names first", () => {
	const first = [track(0, "redis", 5, 10), track(1, "python", 50, 11), track(2, "sh", 1, 12)];
	const second = [track(0, "redis", 70, 20), track(1, "python", 40, 21)].map(besides);
	const groups = groupsOf([...first, ...second]);
	assert.deepEqual(
		groups.map((group) => [group.title, group.side]),
		[["redis", 1], ["redis", 0], ["python", 0], ["python", 1], ["sh", 0]],
	);
	const none = new Set<string>();
	const { rows } = rowsOf(groups, { search: "", open: none, closed: none, pinned: none, hidden: none, focus: "", isOnlyMine: false, pathTracks: [] });
	assert.equal(new Set(rows.map((row) => row.key)).size, rows.length);
});
