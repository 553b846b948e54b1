import assert from "node:assert/strict";
import test from "node:test";
import type { Track } from "../src/api";
import { fitted } from "../src/draw";
import { groupsOf, isLossOf, discardedNear, nameVirtualCpus, rowAt, rowsOf, type Shown, unsure } from "../src/track_rows";
import { hue, stem } from "../src/theme";

let id = 0;
function track(kind: Track["kind"], of: Partial<Track> & { ran?: number }): Track {
	const { ran = 0, ...rest } = of;
	const sums = kind === "cpu" || kind === "thread" ? [ran, 0, 0, 0, 0, 9e9, 0, 0] : [0, 0, 0, 0, 0, 0, 0, 5e9];
	return { id: id++, kind, group: "g", title: "g", label: "l", pid: null, tid: null, depth: 0, count: 1, from: 0, to: 1, sums, ...rest };
}
const process = (name: string, pid: number, threads: [string, number, number][]): Track[] =>
	threads.flatMap(([label, tid, ran]) => {
		const of = { group: `process-${pid}`, title: name, pid, label, tid };
		return [track("calls", of), track("thread", { ...of, ran }), track("span", { ...of, depth: 1 }), track("span", of)];
	});
const all = [
	...process("idle <b>", 10, [["main", 10, 1]]),
	...process("server", 20, [["b", 22, 5], ["a", 21, 5], ["busy", 23, 90]]),
	track("irq", { group: "cpus-0", title: "CPUs", depth: 1 }),
	track("cpu", { group: "cpus-0", title: "CPUs", depth: 1, ran: 1 }),
	track("cpu", { group: "cpus-0", title: "CPUs", depth: 0, ran: 1 }),
];
const nothing: Shown = { search: "", open: new Set(), closed: new Set(), pinned: new Set(), hidden: new Set(), focus: "", isOnlyMine: false, pathTracks: [] };
const shown = (of: Partial<Shown>) => rowsOf(groupsOf(all), { ...nothing, ...of });
const labels = (of: Partial<Shown>) => shown(of).rows.map((row) => row.label);

test("groups are CPUs first, then by time on a CPU; threads by that, name and number", () => {
	assert.deepEqual(
		groupsOf(all).map((group) => [group.title, ...group.members.map((it) => it.label)]),
		[
			["CPUs", "CPU 0", "CPU 1"],
			["server", "busy", "a", "b"],
			["idle <b>", "main"],
		],
	);
	assert.deepEqual(groupsOf(all), groupsOf([...all].sort((a, b) => a.label.localeCompare(b.label) || a.id - b.id)));
});

test("without a command, the processes whose calls or spans were recorded are first", () => {
	const titles = (tracks: Track[]) => groupsOf(tracks).map((group) => group.title);
	const switches = all.filter((it) => it.kind === "thread" || it.kind === "cpu");
	assert.deepEqual(titles(switches), ["CPUs", "server", "idle <b>"]);
	const calls = track("calls", { group: "process-10", title: "idle <b>", label: "main", tid: 10, pid: 10 });
	assert.deepEqual(titles([...switches, calls]), ["CPUs", "idle <b>", "server"]);
	// A command that is named is what was asked for, whatever else was recorded.
	const mine = switches.map((it) => (it.title === "server" ? { ...it, mine: true } : it));
	assert.deepEqual(titles([...mine, calls]), ["CPUs", "server", "idle <b>"]);
});

test("the recorded command is first, can be shown alone, and a thread of which nothing is known is no row", () => {
	const mine = all.map((track) => (track.pid === 20 ? { ...track, mine: true } : track));
	const groups = groupsOf(mine);
	assert.equal(groups.find((group) => group.key.startsWith("process-"))?.pid, 20);
	const rows = rowsOf(groups, { ...nothing, isOnlyMine: true }).rows.filter((row) => row.isGroup && row.group.startsWith("process-"));
	assert.deepEqual(rows.map((row) => row.pid), [20]);
	const unknown = { ...(all.find((track) => track.kind === "thread") as Track), id: 999, tid: 999, group: "process-999", sums: [0, 0, 0, 0, 0, 7, 0, 0] };
	const before = rowsOf(groupsOf(all), nothing);
	const after = rowsOf(groupsOf([...all, unknown]), nothing);
	assert.deepEqual([after.rows.length, after.hidden], [before.rows.length, before.hidden + 1]);
});

test("what was discarded is drawn where its records would be, and in no row of another machine, trace or process", () => {
	const gap = { from: 0, to: 1, count: 5, packets: false, cpu: null, kernel: false, machine: 0, pid: 20 };
	const row = { group: "process-20", isGroup: false, isOpen: false, side: 0 as const, machine: 0, cpu: null, pid: 20 };
	const cpu = { ...row, group: "cpus-0", cpu: 1, pid: null };
	assert.ok(isLossOf(gap, row) && isLossOf(gap, { ...row, isGroup: true }));
	for (const other of [{ pid: 21 }, { machine: 1 }, { side: 1 as const }, { isGroup: true, isOpen: true }]) {
		assert.ok(!isLossOf(gap, { ...row, ...other }));
	}
	assert.ok(!isLossOf({ ...gap, pid: null }, { ...row, pid: null }), "a process that is not known is no thread of the kernel");
	const kernel = { ...gap, kernel: true, pid: null, cpu: 1 };
	assert.ok(isLossOf(kernel, cpu) && isLossOf({ ...kernel, cpu: null }, cpu) && isLossOf(kernel, { ...cpu, isGroup: true, cpu: null }));
	assert.ok(!isLossOf(kernel, { ...cpu, cpu: 0 }) && !isLossOf(kernel, { ...cpu, machine: 1 }) && !isLossOf(kernel, row));
});

test("of discarded records those near a moment are counted; how many were in a packet is not known", () => {
	const gap = { from: 10, to: 20, count: 5, packets: false, cpu: null, kernel: false, machine: 0, pid: 20 };
	const gaps = [gap, { ...gap, from: 18, to: 30, count: 1200 }, { ...gap, from: 15, to: 15, count: 3, packets: true }];
	assert.equal(discardedNear(gaps, 12, 0), "5 records discarded");
	assert.equal(discardedNear(gaps, 12, 3), "5 records discarded, 3 packets discarded");
	assert.equal(discardedNear(gaps, 19, 1), "1,205 records discarded");
	assert.equal(discardedNear(gaps, 31, 0.5), "");
});

test("groups are closed at first but for CPUs, and opened, closed, hidden and pinned one by one", () => {
	assert.deepEqual(labels({}), ["CPUs", "CPU 0", "CPU 1", "server", "idle <b>"]);
	assert.deepEqual(labels({ open: new Set(["process-20"]), closed: new Set(["cpus-0"]) }), [
		"CPUs",
		"server",
		"busy",
		"a",
		"b",
		"idle <b>",
	]);
	const { rows, hidden } = shown({ hidden: new Set(["process-20"]), pinned: new Set(["process-20/thread-23"]) });
	// Whose it is stands in front of a pinned one, wherever its process is.
	assert.equal(rows[0]?.label, "server › busy");
	assert.equal(hidden, 3);
});

test("a search opens what it found and says how many rows it hides", () => {
	assert.deepEqual(labels({ search: "server BUSY" }), ["server", "busy"]);
	assert.deepEqual(labels({ search: "22" }), ["server", "b"]);
	assert.equal(shown({ search: "22" }).hidden, 5);
	assert.deepEqual(labels({ search: "nobody" }), []);
});

test("bands of a row do not lie over each other, and rows follow without gaps", () => {
	const { rows, height } = shown({ open: new Set(["process-20"]) });
	let y = 0;
	for (const row of rows) {
		assert.equal(row.y, y);
		y += row.height;
		let below = 0;
		for (const band of row.bands) {
			assert.ok(band.y >= below && band.y + band.height <= row.height, row.label);
			below = band.y + band.height;
		}
	}
	assert.equal(y, height);
	const busy = rows.find((row) => row.label === "busy");
	assert.deepEqual(busy?.bands.map((band) => `${band.style} ${band.track.depth}`), ["states 0", "calls 0", "spans 0", "spans 1"]);
	for (let at = 0; at < height; at += 3) {
		const row = rows[rowAt(rows, at)];
		assert.ok(row && row.y <= at && at < row.y + row.height);
	}
	assert.equal(rowAt(rows, height), rows.length);
});

test("texts are cut where their slice ends", () => {
	assert.equal(fitted("read pipe", 100, 6), "read pipe");
	assert.equal(fitted("read pipe", 36, 6), "read …");
	assert.equal(fitted("read pipe", 14, 6), "");
});

test("names that differ by a number have one colour, the same each time", () => {
	assert.equal(stem("worker-12"), "worker-");
	assert.equal(hue("futex 0x7ffd12"), hue("futex 0x11"));
	assert.equal(hue("kworker"), hue("kworker"));
	assert.ok(new Set(["sh", "nginx", "rustc", "postgres", "python3", "gzip"].map(hue)).size >= 5);
	assert.ok(hue("") >= 0 && hue("\u202e\u{1f600}") <= 360);
});

test("the processes of the command are not asked for in a trace that names none", () => {
	const groups = groupsOf([
		{ id: 0, kind: "thread", group: "process-0", title: "sh", label: "sh", pid: 1, tid: 1, depth: 0, count: 1, from: 0, to: 10, sums: [5, 0, 0, 0, 0, 0, 0, 0] },
	]);
	const none = new Set<string>();
	const shown = { search: "", open: none, closed: none, pinned: none, hidden: none, focus: "", isOnlyMine: true, pathTracks: [] };
	assert.ok(rowsOf(groups, shown).rows.length > 0);
});

test("a guest's CPU says which thread of the host it is, and that thread which CPU", () => {
	const track = (id: number, kind: Track["kind"], group: string, machine: number, depth: number, tid: number | null) =>
		({ id, kind, group, title: group, label: "x", pid: null, tid, machine, depth, count: 1, from: 0, to: 1, sums: [1, 0, 0, 0, 0, 0, 0, 0] }) as Track;
	const groups = groupsOf([
		track(0, "cpu", "cpus-0", 0, 0, null),
		track(1, "cpu", "cpus-1", 1, 0, null),
		track(2, "thread", "process-1", 0, 0, 42),
		track(3, "thread", "process-2", 1, 0, 42),
	]);
	nameVirtualCpus(groups, { machines: ["vm", "web"], guests: [{ machine: 1, uncertainty: 500, cpus: [[0, 42]] }] }, 0);
	const notes = groups.flatMap((group) => group.members.map((it) => [group.key, it.note ?? ""]));
	assert.deepEqual(Object.fromEntries(notes), {
		"cpus-0": "",
		"cpus-1": "thread 42 of the host",
		"process-1": "CPU 0 of web",
		"process-2": "",
	});
});

test("a moment is exact by its own clock, and by another one as unsure as both together", () => {
	const uncertainty = new Map([
		[1, 500],
		[2, 70],
	]);
	assert.equal(unsure(1000, 1, 1, uncertainty), undefined);
	assert.equal(unsure(1000, 0, 3, uncertainty), undefined);
	assert.deepEqual(unsure(1000, 1, 0, uncertainty), { from: 500, to: 1500 });
	assert.deepEqual(unsure(1000, 1, 2, uncertainty), { from: 430, to: 1570 });
});
