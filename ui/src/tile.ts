// Tiles as the server sends them: crates/strata-ui/src/model/item_coding.rs has the layout.

export const KINDS = 8;
export const RUNNING = 0;
export const WOKEN = 1;
export const PREEMPTED = 2;
export const BLOCKED = 3;
export const UNINTERRUPTIBLE = 4;
export const UNKNOWN = 5;
export const IDLE = 6;
export const BUSY = 7;

/** Items of a tile, as columns. */
export interface Tile {
	track: number;
	level: number;
	/** No later one will have more. */
	final: boolean;
	size: number;
	from: Float64Array;
	to: Float64Array;
	kind: Uint8Array;
	name: Uint32Array;
	count: Float64Array;
	longest: Float64Array;
	/** Of a counter's tile: the values, of a cell the greatest one. */
	value: Float64Array;
	/** By item and kind; what is all of one kind is there, too. */
	sums: Float64Array;
	bytes: number;
}

const HEAD = 24;

const scratch = new DataView(new ArrayBuffer(8));

/** The value of a counter, of the bytes of its varint: crates/strata-ui/src/model/counter_coding.rs has the layout. */
function counterValue(view: DataView, begin: number, end: number): number {
	let bits = 0n;
	for (let at = end - 1; at >= begin; at--) {
		bits = (bits << 7n) | BigInt(view.getUint8(at) & 0x7f);
	}
	const top = 1n << 63n;
	scratch.setBigUint64(0, (bits & top) !== 0n ? bits & ~top : BigInt.asUintN(64, ~bits));
	return scratch.getFloat64(0);
}

/** Reads one tile. */
export function decode(view: DataView): Tile {
	if (view.byteLength < HEAD || view.getUint32(0) !== 0x53544c31) {
		throw new Error("this is no tile");
	}
	const size = view.getUint32(12, true);
	// An item has four bytes at least.
	if (size > view.byteLength) {
		throw new Error("a tile is cut");
	}
	const isCounter = (view.getUint8(5) & 2) !== 0;
	const tile: Tile = {
		level: view.getUint8(4),
		final: (view.getUint8(5) & 1) === 1,
		track: view.getUint32(8, true),
		size,
		from: new Float64Array(size),
		to: new Float64Array(size),
		kind: new Uint8Array(size),
		name: new Uint32Array(size),
		count: new Float64Array(size),
		longest: new Float64Array(size),
		value: new Float64Array(isCounter ? size : 0),
		sums: new Float64Array(size * KINDS),
		bytes: 200 + size * (5 * 8 + 5 + KINDS * 8),
	};
	let at = HEAD;
	const varint = (): number => {
		let value = 0;
		let scale = 1;
		for (let n = 0; n < 10; n++) {
			const byte = view.getUint8(at++);
			value += (byte & 0x7f) * scale;
			if (byte < 0x80) {
				return value;
			}
			scale *= 128;
		}
		throw new Error("a number of a tile is too long");
	};
	let before = Number(view.getBigInt64(16, true));
	for (let n = 0; n < size; n++) {
		const gap = varint();
		const from = before + (gap % 2 === 0 ? gap / 2 : -(gap + 1) / 2);
		const extent = varint();
		const tag = view.getUint8(at++);
		const kind = tag & 7;
		tile.from[n] = from;
		tile.to[n] = before = from + extent;
		tile.kind[n] = kind;
		tile.name[n] = varint();
		if ((tag & 16) !== 0) {
			const begin = at;
			varint();
			if (isCounter) {
				tile.value[n] = counterValue(view, begin, at);
			}
		}
		if ((tag & 8) === 0) {
			tile.count[n] = 1;
			tile.longest[n] = extent;
			tile.sums[n * KINDS + kind] = extent;
			continue;
		}
		tile.count[n] = varint();
		tile.longest[n] = varint();
		const mask = view.getUint8(at++);
		for (let kind = 0; kind < KINDS; kind++) {
			if ((mask & (1 << kind)) !== 0) {
				tile.sums[n * KINDS + kind] = varint();
			}
		}
	}
	return tile;
}

/** Reads several, each behind its length. */
export function decodeAll(buffer: ArrayBuffer): Tile[] {
	const tiles: Tile[] = [];
	const view = new DataView(buffer);
	for (let at = 0; at < buffer.byteLength; ) {
		const length = view.getUint32(at, true);
		tiles.push(decode(new DataView(buffer, at + 4, length)));
		at += 4 + length;
	}
	return tiles;
}

/** The first item that ends at a time or later; `tile.size` if there is none. */
export function firstAt(tile: Tile, time: number): number {
	let low = 0;
	let high = tile.size;
	while (low < high) {
		const middle = (low + high) >> 1;
		if ((tile.to[middle] ?? 0) < time) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

/** The item that has a moment, or the nearest one within some time; -1: there is none. */
export function itemAt(tile: Tile, time: number, near: number): number {
	const low = firstAt(tile, time);
	let best = -1;
	let distance = near;
	for (const n of [low, low - 1, low + 1]) {
		if (n < 0 || n >= tile.size) {
			continue;
		}
		const off = Math.max((tile.from[n] ?? 0) - time, time - (tile.to[n] ?? 0), 0);
		if (off <= distance && (best < 0 || off < distance)) {
			best = n;
			distance = off;
		}
	}
	return best;
}
