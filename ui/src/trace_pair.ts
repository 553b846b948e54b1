// Two traces as one: what is of the second one has numbers of its own, and its times are moved so that both are aligned.

import { Api, type EventRecord, FIRST, type Meta, type Overview, type Path, type Place, type RecordLines, type Side, type Slice, type SliceSums, type ThreadSums, type Track } from "./api";
import type { Tile } from "./tile";
import type { Range } from "./time";

/** Numbers of tracks and names of the second trace are greater by this: a trace has fewer of both. */
export const OTHER = 2 ** 20;

/** Whose number it is. */
export function sideOf(id: number): Side {
	return id >= OTHER ? 1 : 0;
}

/** The number as the server has it. */
export function ownId(id: number): number {
	return id % OTHER;
}

/** From when to when the two traces are, once the second one is moved. */
export function boundsOf(meta: Meta, shift: number): Range {
	const other = meta.other;
	const from = other ? Math.min(meta.from, other.from + shift) : meta.from;
	const to = other ? Math.max(meta.to, other.to + shift) : meta.to;
	return { from, to: Math.max(to, from + 10) };
}

/** When a record was, in the time of the page. */
export function momentOf(record: Pick<EventRecord, "time">, base: bigint, shift: number): number {
	return Number(BigInt(record.time) - base) + shift;
}

/** A track of the second trace, as one beside those of the first. */
export function besides(track: Track): Track {
	return { ...track, id: track.id + OTHER, group: `${track.group}@other`, side: 1 };
}

/** The server's answers about one trace, or about two. */
export class PairApi extends Api {
	private readonly other: Api;
	/** What is added to times of the second trace. */
	shift = 0;

	constructor(token: string) {
		super(token);
		this.other = new Api(token);
	}

	private get isPair(): boolean {
		return this.other.id !== "";
	}

	override async meta(): Promise<Meta> {
		const meta = await super.meta();
		this.other.id = meta.other?.id ?? "";
		return meta;
	}

	override async tracks(): Promise<Track[]> {
		const [own, other] = await Promise.all([super.tracks(), this.isPair ? this.other.tracks() : []]);
		return [...own, ...other.map(besides)];
	}

	override names(from: number, side: Side = 0): Promise<string[]> {
		return side === 0 ? super.names(from) : this.other.names(from);
	}

	override async overview(): Promise<Overview> {
		const [own, other] = await Promise.all([super.overview(), this.isPair ? this.other.overview() : undefined]);
		if (!other) {
			return own;
		}
		const gaps = other.gaps.map((gap) => ({ ...gap, side: 1 as const }));
		return { ...own, gaps: [...own.gaps, ...gaps], other };
	}

	/** Tiles of one time are of one trace: their times are those of the trace itself. */
	override async tiles(level: number, index: number, tracks: number[]): Promise<Tile[]> {
		const own = tracks.filter((id) => sideOf(id) === 0);
		const others = tracks.filter((id) => sideOf(id) === 1).map(ownId);
		const [first, second] = await Promise.all([
			own.length > 0 ? super.tiles(level, index, own) : [],
			others.length > 0 ? this.other.tiles(level, index, others) : [],
		]);
		for (const tile of second) {
			tile.track += OTHER;
			// The empty name is the same.
			tile.name = tile.name.map((id) => (id === 0 ? 0 : id + OTHER));
		}
		return [...first, ...second];
	}

	override async slice(track: number, time: number): Promise<Slice> {
		if (sideOf(track) === 0) {
			return super.slice(track, time);
		}
		const slice = await this.other.slice(ownId(track), time - this.shift);
		return {
			...slice,
			track,
			from: slice.from + this.shift,
			to: slice.to + this.shift,
			to_track: slice.to_track === null ? null : slice.to_track + OTHER,
			...(slice.had_cpu && {
				had_cpu: { ...slice.had_cpu, threads: slice.had_cpu.threads.map((it) => ({ ...it, track: it.track === null ? null : it.track + OTHER })) },
			}),
		};
	}

	override async path(track: number, from: number, to: number): Promise<Path> {
		if (sideOf(track) === 0) {
			return super.path(track, from, to);
		}
		const { shift } = this;
		const path = await this.other.path(ownId(track), from - shift, to - shift);
		const steps = path.steps.map((step) => ({
			...step,
			track: step.track === null ? null : step.track + OTHER,
			from: step.from + shift,
			to: step.to + shift,
		}));
		return { ...path, from: path.from + shift, to: path.to + shift, steps };
	}

	override async sums(from: number, to: number): Promise<ThreadSums[]> {
		const [own, other] = await Promise.all([
			super.sums(from, to),
			this.isPair ? this.other.sums(from - this.shift, to - this.shift) : [],
		]);
		return [...own, ...other.map((it) => ({ ...it, track: it.track + OTHER }))];
	}

	override async slices(from: number, to: number, tracks: number[]): Promise<SliceSums> {
		const { shift } = this;
		const none = { rows: [], cut: false };
		const ownTracks = tracks.filter((id) => sideOf(id) === 0);
		const otherTracks = tracks.filter((id) => sideOf(id) === 1).map(ownId);
		// Without a track it would be of all.
		const isOf = (some: number[]) => tracks.length === 0 || some.length > 0;
		const [own, other] = await Promise.all([
			isOf(ownTracks) ? super.slices(from, to, ownTracks) : none,
			this.isPair && isOf(otherTracks) ? this.other.slices(from - shift, to - shift, otherTracks) : none,
		]);
		const others = other.rows.map((it) => ({ ...it, side: 1 as const, track: it.track + OTHER, time: it.time + shift }));
		return { rows: [...own.rows, ...others].sort((a, b) => b.total - a.total), cut: own.cut || other.cut };
	}

	override events(from: number, to: number, limit: number, filter: string, side: Side = 0, place: Place = FIRST): Promise<RecordLines> {
		return side === 0
			? super.events(from, to, limit, filter, 0, place)
			: this.other.events(from - this.shift, to - this.shift, limit, filter, 0, place);
	}

	override report(name: string, from: number, to: number, side: Side = 0): Promise<string> {
		return side === 0
			? super.report(name, from, to)
			: this.other.report(name, from - this.shift, to - this.shift);
	}
}

/** The names of the machines that a trace is of. */
export function machinesOf(meta: Meta | undefined, side: Side): string[] {
	return (side === 1 ? meta?.other : meta)?.machines ?? [];
}
