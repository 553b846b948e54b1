// Which rows there are: tracks put together by process, in an order that stays, those that are open, pinned or searched.

import type { Gap, Meta, Side, Track } from "./api";
import { count, type Range } from "./time";
import { IDLE, KINDS, RUNNING, UNKNOWN } from "./tile";

/** A band of a row: the slices of one track. */
export interface Band {
	track: Track;
	style: "cpu" | "irq" | "softirq" | "states" | "samples" | "calls" | "spans" | "counter";
	y: number;
	height: number;
}

export interface Row {
	key: string;
	label: string;
	/** What stands behind the label: a number, a share. */
	note: string;
	title: string;
	isGroup: boolean;
	isOpen: boolean;
	isPinned: boolean;
	y: number;
	height: number;
	bands: Band[];
	group: string;
	/** Which trace it is of, where two are compared. */
	side: Side;
	/** Marks of what was discarded are those of this machine's CPU, or of its process. */
	machine: number;
	cpu: number | null;
	pid: number | null;
}

export interface Group {
	key: string;
	title: string;
	side: Side;
	machine: number;
	/** Of the recorded command, or of what it started. */
	isMine: boolean;
	pid: number | null;
	/** How long its threads ran, or its CPUs did something [ns]. */
	busy: number;
	members: Member[];
}

/** What is one row: a CPU with its interrupts, a thread with its calls and spans. */
export interface Member {
	key: string;
	label: string;
	tid: number | null;
	cpu: number | null;
	busy: number;
	/** What a row says besides: of a guest's CPU the thread of the host that it is, and the other way round. */
	note?: string;
	tracks: Track[];
}

export const GROUP_HEIGHT = 22;
const GAP = 3;
/** What a search finds is opened if its rows are no more than these. */
const FEW = 24;

const isOfCpu = (track: Track) => track.kind === "cpu" || track.kind === "irq" || track.kind === "softirq";

function memberKey(track: Track): string {
	if (isOfCpu(track)) {
		return `cpu-${track.depth}`;
	}
	return track.kind === "keyed" || track.kind === "disk" || track.kind === "counter" ? `${track.kind}-${track.label}` : `thread-${track.tid}`;
}

/** Busy without what is idle and unknown; of threads what they ran, since all else is waiting. */
export function busyOf(track: Track): number {
	if (track.kind === "thread") {
		return track.sums[RUNNING] ?? 0;
	}
	let busy = 0;
	for (let kind = 0; kind < KINDS; kind++) {
		busy += kind === IDLE || kind === UNKNOWN ? 0 : (track.sums[kind] ?? 0);
	}
	return track.kind === "cpu" || track.kind === "keyed" || track.kind === "disk" ? busy : 0;
}

/**
 * First CPUs, then disks, then what was asked for (the recorded command and what it started), then all others; by falling time on a CPU, then by name and number: the same each time. Of two traces,
 * groups of one name are beside each other.
 */
export function groupsOf(tracks: Track[]): Group[] {
	const groups = new Map<string, Group>();
	const members = new Map<string, Member>();
	for (const track of tracks) {
		let group = groups.get(track.group);
		if (!group) {
			group = { key: track.group, title: track.title, side: track.side ?? 0, machine: track.machine ?? 0, isMine: false, pid: track.pid, busy: 0, members: [] };
			groups.set(track.group, group);
		}
		const key = `${track.group}/${memberKey(track)}`;
		let member = members.get(key);
		if (!member) {
			const label = isOfCpu(track) ? `CPU ${track.depth}` : track.label;
			const cpu = isOfCpu(track) ? track.depth : null;
			member = { key, label, tid: track.tid, cpu, busy: 0, tracks: [] };
			members.set(key, member);
			group.members.push(member);
		}
		group.isMine ||= track.mine === true;
		member.tracks.push(track);
		member.busy += busyOf(track);
		group.busy += busyOf(track);
	}
	const all = [...groups.values()];
	// Of a trace that names no command, what was recorded besides who had a CPU is of the processes that were asked for.
	const hasMine = all.some((group) => group.isMine);
	const isAsked = (group: Group) =>
		hasMine ? group.isMine : group.members.some((member) => member.tracks.some((it) => it.kind === "calls" || it.kind === "span" || it.kind === "keyed"));
	const rank = (group: Group) => (group.key.startsWith("cpus-") ? 0 : /^(disks|counters)/.test(group.key) ? 1 : isAsked(group) ? 2 : 3);
	for (const group of all) {
		group.members.sort(
			(a, b) =>
				(a.cpu ?? 0) - (b.cpu ?? 0) ||
				b.busy - a.busy ||
				a.label.localeCompare(b.label) ||
				(a.tid ?? 0) - (b.tid ?? 0),
		);
	}
	const most = new Map<string, number>();
	const isPair = all.some((group) => group.side === 1);
	for (const group of isPair ? all : []) {
		most.set(group.title, Math.max(most.get(group.title) ?? 0, group.busy));
	}
	const together = (group: Group) => most.get(group.title) ?? group.busy;
	return all.sort(
		(a, b) =>
			rank(a) - rank(b) ||
			// CPUs and disks of machines stay in the order in which the traces name these.
			(rank(a) < 2 && !isPair ? a.machine - b.machine : 0) ||
			together(b) - together(a) ||
			a.title.localeCompare(b.title) ||
			(isPair ? b.busy - a.busy : 0) ||
			(a.pid ?? 0) - (b.pid ?? 0) ||
			a.side - b.side,
	);
}

/** Says of each guest's CPU which thread of the host it is, and of that thread which CPU. */
export function nameVirtualCpus(groups: Group[], meta: Pick<Meta, "guests" | "machines">, side: Side): void {
	const guests = meta.guests ?? [];
	const machines = new Set(guests.map((it) => it.machine));
	// A trace may name many, so that none is looked for among the others.
	const byCpu = new Map<string, string>();
	const byThread = new Map<number, string>();
	for (const { machine, cpus } of guests) {
		for (const [cpu, tid] of cpus) {
			byCpu.set(`${machine}/${cpu}`, `thread ${tid} of the host`);
			byThread.set(tid, `CPU ${cpu} of ${meta.machines[machine] ?? ""}`);
		}
	}
	for (const { machine, key, members } of groups.filter((it) => guests.length > 0 && it.side === side)) {
		for (const member of members) {
			const isCpu = member.cpu !== null && key.startsWith("cpus-");
			const isThread = member.tid !== null && member.cpu === null && !machines.has(machine);
			const note = isCpu ? byCpu.get(`${machine}/${member.cpu}`) : isThread ? byThread.get(member.tid ?? 0) : undefined;
			if (note !== undefined) {
				member.note = note;
			}
		}
	}
}

/**
 * When, by the clock of another machine, a moment may have been: both clocks together are known so exactly. Undefined: by
 * the same clock it is exact.
 */
export function unsure(time: number, machine: number, other: number, uncertainty: ReadonlyMap<number, number>): Range | undefined {
	const nanos = (uncertainty.get(machine) ?? 0) + (uncertainty.get(other) ?? 0);
	return machine === other || nanos === 0 ? undefined : { from: time - nanos, to: time + nanos };
}

/** Bands from top to bottom, and how high they are together. */
export function bandsOf(member: Member): { bands: Band[]; height: number } {
	const bands: Band[] = [];
	let y = 0;
	const add = (tracks: Track[], style: Band["style"], height: number) => {
		for (const track of tracks) {
			bands.push({ track, style, y, height });
			y += height + 1;
		}
	};
	const of = (kind: Track["kind"]) =>
		member.tracks.filter((track) => track.kind === kind).sort((a, b) => a.depth - b.depth);
	add(of("cpu"), "cpu", 16);
	add(of("irq"), "irq", 4);
	add(of("softirq"), "softirq", 4);
	add(of("thread"), "states", 14);
	add(of("samples"), "samples", 5);
	add(of("calls"), "calls", 14);
	add(of("span"), "spans", 14);
	add(of("keyed"), "spans", 14);
	add(of("disk"), "spans", 14);
	add(of("counter"), "counter", 30);
	return { bands, height: Math.max(y, 14) };
}

/** Whether a text of the search box fits: all its words, each in the heading, the label, or as a number. */
export function fits(group: Group, member: Member, search: string): boolean {
	const text = `${group.title} ${member.label} ${group.pid ?? ""} ${member.tid ?? ""}`.toLowerCase();
	return search
		.toLowerCase()
		.split(/\s+/)
		.every((word) => text.includes(word));
}

export interface Shown {
	search: string;
	open: ReadonlySet<string>;
	closed: ReadonlySet<string>;
	pinned: ReadonlySet<string>;
	hidden: ReadonlySet<string>;
	/** The only process that is shown; empty: all are. */
	focus: string;
	/** Only the recorded command and what it started, with CPUs and disks. */
	isOnlyMine: boolean;
	/** Tracks of the critical path: their rows are on top. */
	pathTracks: readonly number[];
}

/** Whether the trace says nothing of a thread but that it is there. */
export function isUnknown(member: Member): boolean {
	const [track, ...more] = member.tracks;
	return track?.kind === "thread" && more.length === 0 && track.sums.every((sum, kind) => (kind === UNKNOWN) === sum > 0);
}

/** Whose a track is. */
export function memberOf(groups: Group[], id: number): { group: Group; member: Member } | undefined {
	for (const group of groups) {
		const member = group.members.find((it) => it.tracks.some((it) => it.id === id));
		if (member) {
			return { group, member };
		}
	}
	return undefined;
}

/** The rows from top to bottom, and how many of those that could be there are not. */
export function rowsOf(groups: Group[], shown: Shown): { rows: Row[]; height: number; hidden: number } {
	const rows: Row[] = [];
	let y = 0;
	let hidden = 0;
	// An address may ask for the command's processes of a trace that names no command: it would show none at all.
	const isOnlyMine = shown.isOnlyMine && groups.some((group) => group.isMine);
	const hasFocus = groups.some((group) => group.key === shown.focus);
	const isOut = (group: Group) => hasFocus && group.key !== shown.focus && /^(process|kernel)-/.test(group.key);
	const push = (row: Omit<Row, "y">) => {
		rows.push({ ...row, y });
		y += row.height;
	};
	const memberRow = (group: Group, member: Member, place: "" | "pin:" | "path:") => {
		const { bands, height } = bandsOf(member);
		push({
			key: place + member.key,
			label: place !== "" && member.cpu === null ? `${group.title} › ${member.label}` : member.label,
			note: [member.tid === null ? "" : String(member.tid), member.note ?? ""].filter((it) => it !== "").join(" · "),
			title: group.title,
			isGroup: false,
			isOpen: false,
			isPinned: shown.pinned.has(member.key),
			height: height + GAP,
			bands,
			group: group.key,
			side: group.side,
			machine: group.machine,
			cpu: member.cpu,
			pid: group.pid,
		});
	};
	const ofTrack = new Map<number, [Group, Member]>();
	for (const group of groups) {
		for (const member of group.members) {
			if (shown.pinned.has(member.key)) {
				memberRow(group, member, "pin:");
			}
			for (const track of shown.pathTracks.length > 0 ? member.tracks : []) {
				ofTrack.set(track.id, [group, member]);
			}
		}
	}
	for (const track of shown.pathTracks) {
		const found = ofTrack.get(track);
		if (found && !shown.pinned.has(found[1].key)) {
			memberRow(found[0], found[1], "path:");
		}
	}
	const found = shown.search === "" ? [] : groups.filter((group) => group.members.some((it) => fits(group, it, shown.search)));
	const isFew = found.reduce((sum, group) => sum + group.members.length, 0) <= FEW;
	for (const group of groups) {
		const members = group.members.filter((it) => (shown.search === "" || fits(group, it, shown.search)) && !isUnknown(it));
		const isOthers = isOnlyMine && group.key.startsWith("process-") && !group.isMine;
		if (members.length === 0 || shown.hidden.has(group.key) || isOut(group) || isOthers || (isOnlyMine && group.key.startsWith("kernel-"))) {
			hidden += group.members.length;
			continue;
		}
		hidden += group.members.length - members.length;
		const isWanted = shown.search !== "" && (isFew || group.members.length > members.length);
		const isCpus = group.key.startsWith("cpus-");
		const isOpen = !shown.closed.has(group.key) && (shown.open.has(group.key) || isCpus || isWanted);
		const first = members[0];
		const summary = !isOpen && first ? bandsOf(first).bands.slice(0, 1) : [];
		push({
			key: group.key,
			label: group.title,
			note: [group.pid === null ? "" : String(group.pid), members.length > 1 ? `${members.length} rows` : ""]
				.filter((it) => it !== "")
				.join(" · "),
			title: group.title,
			isGroup: true,
			isOpen,
			isPinned: false,
			height: GROUP_HEIGHT,
			bands: summary.map((band) => ({ ...band, y: 3 })),
			group: group.key,
			side: group.side,
			machine: group.machine,
			cpu: null,
			pid: group.pid,
		});
		if (isOpen) {
			for (const member of members) {
				memberRow(group, member, "");
			}
		}
	}
	return { rows, height: y, hidden };
}

/** Whether records are missing that would be in this row: of the kernel in that of the CPU, else in those of the process. */
export function isLossOf(gap: Gap, row: Pick<Row, "group" | "isGroup" | "isOpen" | "side" | "machine" | "cpu" | "pid">): boolean {
	if ((row.isGroup && row.isOpen) || gap.machine !== row.machine || (gap.side ?? 0) !== row.side) {
		return false;
	}
	if (gap.kernel) {
		return row.group.startsWith("cpus-") && (gap.cpu === null || row.cpu === null || gap.cpu === row.cpu);
	}
	return gap.pid !== null && gap.pid === row.pid;
}

/** How many records were discarded near a time, of these; empty: none were. */
export function discardedNear(gaps: readonly Gap[], time: number, near: number): string {
	const here = gaps.filter((gap) => gap.from <= time + near && gap.to >= time - near);
	const sum = (isPackets: boolean) => here.reduce((sum, gap) => sum + (gap.packets === isPackets ? gap.count : 0), 0);
	const parts = [[sum(false), "records"], [sum(true), "packets"]] as const;
	const said = parts.filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what} discarded`);
	return said.join(", ");
}

/** The first row that reaches below a height; as many as there are if none does. */
export function rowAt(rows: Row[], y: number): number {
	let low = 0;
	let high = rows.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		const row = rows[middle];
		if (row && row.y + row.height <= y) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}
