// A page that `strata ui --save` has written: answers from what is in the page, since there is no server.

import { Api, type Meta, type Overview, type Path, Refused, type Slice, type SliceSums, type ThreadSums, type Track } from "./api";
import { cleaned } from "./text";
import { decode, firstAt, KINDS, type Tile } from "./tile";
import { tileWidth } from "./time";

interface Saved {
	meta: Meta;
	tracks: Track[];
	overview: Overview;
	names: string[];
	tiles: Record<string, string>;
}

function bytesOf(text: string): DataView {
	const raw = atob(text);
	const bytes = new Uint8Array(raw.length);
	for (let n = 0; n < raw.length; n++) {
		bytes[n] = raw.charCodeAt(n);
	}
	return new DataView(bytes.buffer);
}

/** The slice of a time, or the one before it if there is none; -1: there is neither. */
function lastAt(lane: Tile, time: number): number {
	let n = firstAt(lane, time);
	while (n > 0 && (n >= lane.size || (lane.from[n] ?? 0) > time)) {
		n--;
	}
	return n < lane.size ? n : -1;
}

/**
 * The items of a time at a level, of those of a finer one: crates/strata-ui/src/model/item.rs does the same. Slices that are as
 * long as a cell stay, the others that begin in one cell become one item.
 */
export function merged(of: Tile, level: number, begin: number, end: number): Tile {
	const first = firstAt(of, begin);
	let last = first;
	while (last < of.size && (of.from[last] ?? 0) < end) {
		last++;
	}
	const most = last - first;
	const isCounter = of.value.length > 0;
	const tile: Tile = {
		...of,
		level,
		size: 0,
		from: new Float64Array(most),
		to: new Float64Array(most),
		kind: new Uint8Array(most),
		name: new Uint32Array(most),
		count: new Float64Array(most),
		longest: new Float64Array(most),
		value: new Float64Array(isCounter ? most : 0),
		sums: new Float64Array(most * KINDS),
	};
	const cell = 2 ** level;
	/** The cell of the last item, if more may be added to it. */
	let open: number | undefined;
	for (let n = first; n < last; n++) {
		const [from, to] = [of.from[n] ?? 0, of.to[n] ?? 0];
		const isLong = of.count[n] === 1 && to - from >= cell;
		const own = Math.floor(from / cell);
		const isNew = isLong || open !== own;
		const at = isNew ? tile.size++ : tile.size - 1;
		open = isLong ? undefined : own;
		if (isNew) {
			tile.from[at] = from;
			tile.to[at] = to;
		} else {
			tile.to[at] = Math.max(tile.to[at] ?? 0, to);
		}
		const longest = of.longest[n] ?? 0;
		if (isNew || longest > (tile.longest[at] ?? 0)) {
			tile.longest[at] = longest;
			tile.kind[at] = of.kind[n] ?? 0;
			tile.name[at] = of.name[n] ?? 0;
		}
		tile.count[at] = (tile.count[at] ?? 0) + (of.count[n] ?? 0);
		if (isCounter) {
			tile.value[at] = isNew ? (of.value[n] ?? 0) : Math.max(tile.value[at] ?? 0, of.value[n] ?? 0);
		}
		for (let kind = 0; kind < KINDS; kind++) {
			tile.sums[at * KINDS + kind] = (tile.sums[at * KINDS + kind] ?? 0) + (of.sums[n * KINDS + kind] ?? 0);
		}
	}
	tile.bytes = 200 + most * (5 * 8 + 5 + KINDS * 8);
	return tile;
}

/** How long a track was in which kind within a time, of slices or cells that lie in it; those at its ends are cut. */
export function sumsOf(tile: Tile, from: number, to: number): number[] {
	const sums = new Array<number>(KINDS).fill(0);
	for (let n = firstAt(tile, from); n < tile.size && (tile.from[n] ?? 0) < to; n++) {
		const [begin, end] = [tile.from[n] ?? 0, tile.to[n] ?? 0];
		const part = Math.max(Math.min(end, to) - Math.max(begin, from), 0);
		for (let kind = 0; kind < KINDS; kind++) {
			const sum = tile.sums[n * KINDS + kind] ?? 0;
			sums[kind] = (sums[kind] ?? 0) + (tile.count[n] === 1 ? (sum > 0 ? part : 0) : end > begin ? (sum * part) / (end - begin) : 0);
		}
	}
	return sums;
}

export class SavedApi extends Api {
	private readonly saved: Saved;
	private readonly lanes = new Map<number, Tile>();

	constructor(json: string) {
		super("");
		// Tiles are no texts, and longer than any text that is shown.
		const { tiles, ...rest } = JSON.parse(json) as Saved;
		this.saved = { ...cleaned<Omit<Saved, "tiles">>(JSON.stringify(rest)), tiles };
	}

	override readonly isSaved = true;

	private lane(track: number): Tile | undefined {
		let lane = this.lanes.get(track);
		const text = this.saved.tiles[track];
		if (!lane && text !== undefined) {
			lane = decode(bytesOf(text));
			this.lanes.set(track, lane);
		}
		return lane;
	}

	override async meta(): Promise<Meta> {
		return this.saved.meta;
	}

	override async tracks(): Promise<Track[]> {
		return this.saved.tracks;
	}

	override async names(from: number): Promise<string[]> {
		return this.saved.names.slice(from);
	}

	override async overview(): Promise<Overview> {
		return this.saved.overview;
	}

	override async tiles(level: number, index: number, tracks: number[]): Promise<Tile[]> {
		const width = tileWidth(level);
		return tracks.flatMap((track) => {
			const lane = this.lane(track);
			return lane ? [merged(lane, level, index * width, (index + 1) * width)] : [];
		});
	}

	override async slice(track: number, time: number): Promise<Slice> {
		const lane = this.lane(track);
		const found = this.saved.tracks.find((it) => it.id === track);
		const n = lane ? lastAt(lane, time) : -1;
		if (!lane || !found || n < 0) {
			throw new Refused(404, "nothing of this is in the saved page");
		}
		const times = lane.count[n] ?? 1;
		const facts: [string, string][] = [["saved", "this page has no records: they are in the trace"]];
		if (times > 1) {
			facts.unshift(["slices", `${times}, of which this is the sum`]);
		}
		if (lane.value.length > n) {
			facts.unshift(["value", String(lane.value[n])]);
		}
		return {
			track,
			title: found.title,
			label: found.label,
			track_kind: found.kind,
			tid: found.tid,
			pid: found.pid,
			from: lane.from[n] ?? 0,
			to: lane.to[n] ?? 0,
			kind: lane.kind[n] ?? 0,
			name: this.saved.names[lane.name[n] ?? 0] ?? "",
			facts,
			to_track: null,
			records: ["", ""],
		};
	}

	override async sums(from: number, to: number): Promise<ThreadSums[]> {
		return this.saved.tracks.flatMap((track) => {
			const lane = track.kind === "thread" ? this.lane(track.id) : undefined;
			const sums = lane ? sumsOf(lane, from, to) : [];
			// Threads of the kernel are in one group, each a process of its own name.
			const process = track.group.startsWith("kernel-") ? track.label : track.title;
			return sums.some((it) => it > 0)
				? [{ track: track.id, thread: track.label, tid: track.tid, process, pid: track.pid, sums }]
				: [];
		});
	}

	override async slices(): Promise<SliceSums> {
		return { rows: [], cut: false };
	}

	override async path(): Promise<Path> {
		throw new Refused(404, "a saved page has no critical paths");
	}

	override async events(): Promise<{ lines: string; cut: boolean }> {
		throw new Refused(404, "a saved page has no records: strata view shows those of the trace");
	}

	override async report(): Promise<string> {
		throw new Refused(404, "a saved page has no reports: the command above prints this one of the trace");
	}
}
