// What is asked of the server.

import { clean, cleaned } from "./text";
import { decodeAll, type Tile } from "./tile";

export interface Meta {
	version: number;
	id: string;
	title: string;
	/** The traces as they are typed in a shell. */
	typed: string;
	base: string;
	from: number;
	to: number;
	done: boolean;
	/** The trace is being recorded, and `to` is up to when all of it is here. */
	live: boolean;
	read: number;
	bytes: number;
	records: number;
	discarded: number;
	packets: number;
	damage: string[];
	damages: number;
	left_out: number;
	failure: string | null;
	machines: string[];
	/** Machines whose clocks are known only within limits [ns], and the host's threads that are their CPUs. */
	guests?: { machine: number; uncertainty: number; cpus: [number, number][] }[];
	tracks: number;
	names: number;
	/** Of a saved page: from when to when the trace is, and the width of its cells as a power of two [ns]; 0: slices. */
	whole?: [number, number];
	level?: number;
	/** The trace that this one is compared with. */
	other?: Meta | null;
	/** It is not known yet how long the trace is. */
	outlining?: boolean;
	/** The page may take snapshots: what is shown is one of a flight recorder. */
	snapshots?: boolean;
	/** There is no trace yet: what is waited for. Then the rest, but for title, version and snapshots, is missing. */
	awaits?: string;
}

export type TrackKind = "cpu" | "irq" | "softirq" | "disk" | "thread" | "calls" | "span" | "keyed" | "samples" | "counter";

export interface Track {
	id: number;
	kind: TrackKind;
	group: string;
	title: string;
	label: string;
	pid: number | null;
	tid: number | null;
	machine?: number;
	depth: number;
	count: number;
	from: number;
	to: number;
	sums: number[];
	/** Of the recorded command, or of what it started. */
	mine?: boolean;
	/** 1: of the trace that the first one is compared with. */
	side?: Side;
}

/** Which of two traces. */
export type Side = 0 | 1;

export interface Gap {
	from: number;
	to: number;
	count: number;
	packets: boolean;
	cpu: number | null;
	kernel: boolean;
	machine: number;
	pid: number | null;
	side?: Side;
}

export interface Overview {
	from: number;
	width: number;
	counts: number[];
	/** While the trace is read: where its bytes are, by the headers of its packets. */
	outline?: { from: number; width: number; bytes: number[] };
	/** Long times without a record. */
	stretches?: { from: number; to: number }[];
	gaps: Gap[];
	all_gaps: number;
	/** Of the trace that this one is compared with, in its own time. */
	other?: Overview;
}

export interface Slice {
	track: number;
	title: string;
	label: string;
	track_kind: TrackKind;
	tid: number | null;
	pid: number | null;
	from: number;
	to: number;
	kind: number;
	name: string;
	facts: [string, string][];
	to_track: number | null;
	records: [string, string];
	/** Of a thread that wanted a CPU: who had the one that it got, or all of the machine if that is not known. */
	had_cpu?: HadCpu | null;
}

export interface HadCpu {
	cpu: number | null;
	/** Those that had it longest. */
	threads: { name: string; nanos: number; track: number | null }[];
	others: number;
	others_nanos: number;
	/** Of a long time only the end. */
	cut: boolean;
}

/** A part of a critical path. */
export interface PathStep {
	track: number | null;
	from: number;
	to: number;
	kind: number;
	name: string;
	/** How many threads wait for this one, one for the next. */
	depth: number;
}

export interface Path {
	from: number;
	to: number;
	/** There are more parts, in front of these. */
	cut: boolean;
	steps: PathStep[];
}

export interface ThreadSums {
	track: number;
	thread: string;
	tid: number | null;
	process: string;
	pid: number | null;
	/** The name of the machine, if there are several. */
	machine?: string;
	sums: number[];
}

/** What was done in a time, of one name: how often, and how long. */
export interface SliceSum {
	what: string;
	name: string;
	count: number;
	total: number;
	min: number;
	max: number;
	/** Where the longest one is. */
	track: number;
	time: number;
	side?: Side;
}

export interface SliceSums {
	rows: SliceSum[];
	/** There are more. */
	cut: boolean;
}

/** What became slower from one trace to another: what `strata analyze diff --json` prints, as far as it is shown. */
export interface Diff {
	command: string;
	report: {
		rows: Change[];
		rows_count?: number;
		slower: number;
		faster: number;
		same: number;
		few: number;
		new: number;
		gone: number;
	};
}

export interface Change {
	verdict: "slower" | "faster" | "same" | "few" | "new" | "gone";
	program: string;
	kind: "call" | "span" | "cpu_delay";
	name: string | null;
	ratio: number | null;
	cost_ns: number;
	decided_by: "mean" | "median";
	before_count: number;
	before_avg_ns: number | null;
	before_p50_ns: number | null;
	before_total_ns: number;
	after_count: number;
	after_avg_ns: number | null;
	after_p50_ns: number | null;
	after_total_ns: number;
}

/** A record, as a line of `strata view --format json` has it. */
export interface EventRecord {
	time: string;
	name: string;
	cpu?: number;
	host?: string;
	common?: Record<string, unknown>;
	context?: Record<string, unknown>;
	payload?: Record<string, unknown>;
	/** Call stacks with names, the innermost frame first. */
	callstack_kernel?: Frame[];
	callstack_user?: Frame[];
}

export interface Frame {
	address: number | string;
	func?: string;
	bin?: string;
	src?: string;
}

/** Records as lines. There may be more; of the first one, its number among those of its time. */
export interface RecordLines {
	lines: string;
	cut: boolean;
	nth?: number;
}

/** Which records of a time are wanted. */
export interface Place {
	nth: number;
	isLast: boolean;
}

export const FIRST: Place = { nth: 0, isLast: false };

/** The records of lines; numbers that a double does not hold stay texts, and texts are clean. */
export function recordsOf(lines: string): EventRecord[] {
	const exact = (_: string, value: unknown, context?: { source?: string }) => {
		if (typeof value === "string") {
			return clean(value);
		}
		const isCut = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
		return isCut && context?.source ? context.source : value;
	};
	const parse = JSON.parse as (text: string, reviver: typeof exact) => EventRecord;
	return lines
		.split("\n")
		.filter((line) => line !== "")
		.map((line) => parse(line, exact));
}

/** An answer that is none: its text says why. */
export class Refused extends Error {
	constructor(
		readonly status: number,
		text: string,
	) {
		super(text);
	}
}

/** There is no answer: the server has ended, or the way to it is interrupted. */
export class NoAnswer extends Error {}

export class Api {
	id = "";
	/** True for a page that needs no server, and has slices alone. */
	readonly isSaved: boolean = false;

	constructor(protected readonly token: string) {}

	private async ask(path: string, method = "GET"): Promise<Response> {
		let response: Response;
		try {
			response = await fetch(path, { method, headers: { authorization: `Bearer ${this.token}` } });
		} catch (error) {
			throw new NoAnswer(error instanceof Error ? error.message : String(error), { cause: error });
		}
		if (!response.ok) {
			throw new Refused(response.status, await response.text());
		}
		return response;
	}

	private async json<T>(path: string): Promise<T> {
		return cleaned<T>(await (await this.ask(`/v1/${this.id}/${path}`)).text());
	}

	/** Lines of records, each of which is JSON itself: who reads them cleans what is in them. */
	private async lines<T>(path: string): Promise<T> {
		return (await (await this.ask(`/v1/${this.id}/${path}`)).json()) as T;
	}

	async meta(): Promise<Meta> {
		const meta = cleaned<Meta>(await (await this.ask("/v1/meta")).text());
		this.id = meta.id;
		return meta;
	}

	/** Takes a snapshot of the flight recorder; the server shows it from then on. */
	async snapshot(): Promise<void> {
		await this.ask("/v1/snapshot", "POST");
	}

	async tracks(): Promise<Track[]> {
		const all: Track[] = [];
		for (;;) {
			const part = await this.json<{ tracks: Track[]; all: number }>(`tracks?after=${all.length}`);
			all.push(...part.tracks);
			if (part.tracks.length === 0 || all.length >= part.all) {
				return all;
			}
		}
	}

	async names(from: number, _side: Side = 0): Promise<string[]> {
		return (await this.json<{ names: string[] }>(`names?from=${from}`)).names;
	}

	overview(): Promise<Overview> {
		return this.json("overview");
	}

	async tiles(level: number, index: number, tracks: number[]): Promise<Tile[]> {
		const path = `/v1/${this.id}/tiles/${level}/${index}?tracks=${tracks.join(",")}`;
		return decodeAll(await (await this.ask(path)).arrayBuffer());
	}

	async slice(track: number, time: number): Promise<Slice> {
		const slice = await this.lines<Slice>(`slice/${track}/${Math.floor(time)}`);
		const { records, ...rest } = slice;
		return { ...cleaned<Omit<Slice, "records">>(JSON.stringify(rest)), records };
	}

	path(track: number, from: number, to: number): Promise<Path> {
		return this.json(`path/${track}?from=${Math.floor(from)}&to=${Math.ceil(to)}`);
	}

	async sums(from: number, to: number): Promise<ThreadSums[]> {
		const path = `sums?from=${Math.floor(from)}&to=${Math.ceil(to)}`;
		return (await this.json<{ threads: ThreadSums[] }>(path)).threads;
	}

	/** Of these tracks, or without any of all. */
	slices(from: number, to: number, tracks: number[]): Promise<SliceSums> {
		return this.json(`slices?from=${Math.floor(from)}&to=${Math.ceil(to)}&tracks=${tracks.join(",")}`);
	}

	/** The first records of a time without the first `nth`, or the last ones before the one of number `nth` at its end. */
	events(from: number, to: number, limit: number, filter: string, _side: Side = 0, place: Place = FIRST): Promise<RecordLines> {
		const range = `from=${Math.floor(from)}&to=${Math.ceil(to)}&nth=${place.nth}${place.isLast ? "&last=1" : ""}`;
		return this.lines(`events?${range}&limit=${limit}&q=${encodeURIComponent(filter)}`);
	}

	async report(name: string, from: number, to: number, _side: Side = 0): Promise<string> {
		const path = `/v1/${this.id}/report/${name}?from=${Math.floor(from)}&to=${Math.ceil(to)}`;
		return (await this.ask(path)).text();
	}

	/** Compares a time of this trace with the same time of the other one, whose times are `shift` less. */
	diff(from: number, to: number, shift: number): Promise<Diff> {
		return this.json(`diff?from=${Math.floor(from)}&to=${Math.ceil(to)}&shift=${Math.round(shift)}`);
	}
}
