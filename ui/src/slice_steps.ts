// From slice to slice by keys.

import type { Tile } from "./tile";

/** A moment of the slice that follows one, or comes before it, by what a tile has; undefined: the tile has none. */
export function neighbour(tile: Tile, slice: { from: number; to: number }, isNext: boolean): number | undefined {
	if (isNext) {
		for (let n = 0; n < tile.size; n++) {
			const from = tile.from[n] ?? 0;
			// Of a cell it is the first slice.
			if (from >= slice.to && from > slice.from) {
				return from;
			}
			// A cell that goes on behind the slice has later ones: they begin where the slice ends, or soon after.
			if ((tile.count[n] ?? 1) > 1 && from <= slice.from && (tile.to[n] ?? 0) > slice.to) {
				return slice.to;
			}
		}
		return undefined;
	}
	for (let n = tile.size - 1; n >= 0; n--) {
		const [from, to] = [tile.from[n] ?? 0, tile.to[n] ?? 0];
		if (to <= slice.from && from < slice.from) {
			return Math.max(to - 1, from);
		}
		if ((tile.count[n] ?? 1) > 1 && from < slice.from && to >= slice.to) {
			return slice.from - 1;
		}
	}
	return undefined;
}
