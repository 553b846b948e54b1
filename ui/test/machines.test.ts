// Traces of several machines, which have the same numbers of CPUs, threads and processes.

import assert from "node:assert/strict";
import test from "node:test";
import type { EventRecord, Track } from "../src/api";
import { isOrderUnknown, type ListedRecord } from "../src/event_list";
import { filterOf, numberOf } from "../src/row_choice";
import { groupsOf } from "../src/track_rows";

const track = (id: number, group: string, machine: number, tid: number | null, depth = 0): Track => ({
	id,
	kind: tid === null ? "cpu" : "thread",
	group,
	title: group,
	label: "",
	pid: tid,
	tid,
	machine,
	depth,
	count: 1,
	from: 0,
	to: 1,
	sums: [],
});

test("the records of a row are those of its machine", () => {
	const groups = groupsOf([track(0, "cpus-0", 0, null), track(1, "cpus-1", 1, null), track(2, "process-1", 0, 7), track(3, "process-2", 1, 7)]);
	const keys = (machine: number) => new Set(groups.filter((it) => it.machine === machine).flatMap((it) => it.members.map((it) => it.key)));
	const names = ["web1", 'a"b'];
	assert.equal(filterOf(groups, new Set(), 0, "read", names), "read");
	assert.equal(filterOf(groups, keys(0), 0, "", names), '((tid in {7} || cpu in {0}) && host == "web1")');
	assert.equal(filterOf(groups, keys(1), 0, "read", names), '(read) && ((tid in {7} || cpu in {0}) && host == "a\\"b")');
	const all = filterOf(groups, new Set([...keys(0), ...keys(1)]), 0, "", names) ?? "";
	assert.match(all, /^\(\(\(.*host == "web1"\) \|\| \(\(.*host == "a\\"b"\)\)$/);
	// The name of the only machine says nothing.
	assert.equal(filterOf(groups, keys(0), 0, "", ["web1"]), "(tid in {7} || cpu in {0})");
	assert.equal(filterOf(groups, keys(0), 1, "", names), undefined);
});

test("a command is of the selected threads only if one number stands for them and for no other", () => {
	const thread = (id: number, group: string, pid: number, tid: number): Track => ({ ...track(id, group, 0, tid), pid });
	const threads = [thread(1, "process-1", 7, 7), thread(2, "process-1", 7, 8), thread(3, "process-2", 9, 9)];
	const groups = groupsOf([track(0, "cpus-0", 0, null), ...threads]);
	const of = (...tids: (number | null)[]) => {
		const members = groups.flatMap((it) => it.members).filter((it) => tids.includes(it.tid));
		return numberOf(groups, new Set(members.map((it) => it.key)), 0);
	};
	assert.equal(of(8), 8);
	assert.equal(of(9), 9);
	assert.equal(of(7, 8), 7, "a whole process");
	assert.equal(of(7), undefined, "its main thread has the number of all of it");
	assert.equal(of(8, 9), undefined);
	assert.equal(of(null), undefined, "a CPU");
	assert.equal(of(null, 9), undefined, "a CPU and a thread");
	assert.equal(numberOf(groups, new Set(["nothing"]), 0), undefined);
	assert.equal(numberOf(groups, new Set(groups.flatMap((it) => it.members.map((it) => it.key))), 1), undefined, "rows of the other trace");
	// Another machine has a thread of the same number.
	const two = groupsOf([...threads, { ...thread(4, "process-3", 9, 9), machine: 1 }]);
	const first = two.find((it) => it.key === "process-2")?.members.map((it) => it.key) ?? [];
	assert.equal(numberOf(two, new Set(first), 0), undefined);
});

test("the order of records is not known that are closer than the clocks of their machines", () => {
	const row = (time: number, host?: string): ListedRecord => {
		const record: EventRecord = { time: String(time), name: "e" };
		return { record: host === undefined ? record : { ...record, host }, time, nth: 0 };
	};
	const rows = [row(100, "a"), row(105, "a"), row(114, "b"), row(116, "b"), row(200, "c"), row(203, "a"), row(208, "b")];
	const marked = (clocks: [string, number][]) => rows.flatMap((it, n) => (isOrderUnknown(rows, n, new Map(clocks)) ? [it.time] : []));
	assert.deepEqual(marked([]), []);
	// Their own machine's clock does not matter to records of one machine; c and a have one clock.
	assert.deepEqual(marked([["b", 10]]), [114, 208]);
	assert.deepEqual(marked([["a", 2], ["b", 9]]), [114, 116, 208]);
	// A record without a machine is of none of them.
	rows.push(row(209));
	assert.deepEqual(marked([["b", 1]]), [209]);
});
