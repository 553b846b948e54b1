import assert from "node:assert/strict";
import test from "node:test";
import { merged, sumsOf } from "../src/saved_page";
import { KINDS, type Tile } from "../src/tile";

/** Slices one behind the other, as columns. */
function lane(slices: [from: number, to: number, kind: number, name: number][]): Tile {
	const size = slices.length;
	const tile: Tile = {
		track: 1,
		level: 0,
		final: true,
		size,
		from: Float64Array.from(slices, (it) => it[0]),
		to: Float64Array.from(slices, (it) => it[1]),
		kind: Uint8Array.from(slices, (it) => it[2]),
		name: Uint32Array.from(slices, (it) => it[3]),
		count: new Float64Array(size).fill(1),
		longest: Float64Array.from(slices, (it) => it[1] - it[0]),
		value: new Float64Array(0),
		sums: new Float64Array(size * KINDS),
		bytes: 0,
	};
	slices.forEach(([from, to, kind], n) => {
		tile.sums[n * KINDS + kind] = to - from;
	});
	return tile;
}

function random(seed: number): (end: number) => number {
	let state = seed;
	return (end) => {
		state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
		return state % end;
	};
}

function slices(count: number, seed: number): [number, number, number, number][] {
	const below = random(seed);
	let time = 0;
	return Array.from({ length: count }, () => {
		time += below(3) === 0 ? below(500) : 0;
		const from = time;
		time += below(2 ** below(12));
		return [from, time, below(KINDS), below(9)];
	});
}

test("items of a level are those of the server's model, by way of any level, and add up", () => {
	const all = slices(3000, 7);
	const of = lane(all);
	const end = (all[all.length - 1]?.[1] ?? 0) + 1;
	for (const level of [3, 6, 9, 14]) {
		const direct = merged(of, level, 0, end);
		const byWay = merged(merged(of, 2, 0, end), level, 0, end);
		const items = (tile: Tile) =>
			Array.from({ length: tile.size }, (_, n) => [tile.from[n], tile.to[n], tile.kind[n], tile.name[n], tile.count[n], tile.longest[n]]);
		assert.deepEqual(items(direct), items(byWay), `level ${level}`);
		assert.equal(direct.count.reduce((sum, it) => sum + it, 0), all.length);
		// Model: a long slice stands alone, short ones of a cell are one item.
		let n = 0;
		for (let at = 0; at < all.length; n++) {
			const [from, to] = all[at] ?? [0, 0];
			let until = at + 1;
			if (to - from < 2 ** level) {
				const isOfCell = (it: (typeof all)[0] | undefined) =>
					it && it[1] - it[0] < 2 ** level && Math.floor(it[0] / 2 ** level) === Math.floor(from / 2 ** level);
				while (isOfCell(all[until])) {
					until++;
				}
			}
			assert.deepEqual([direct.from[n], direct.to[n], direct.count[n]], [from, all[until - 1]?.[1], until - at]);
			at = until;
		}
		assert.equal(n, direct.size);
	}
});

test("sums of a time are those of the slices, cut at its ends", () => {
	const all = slices(500, 3);
	const of = lane(all);
	const end = all[all.length - 1]?.[1] ?? 0;
	for (const [from, to] of [[0, end], [1000, 1001], [end / 3, end / 2], [-5, 3]] as const) {
		const wanted = new Array<number>(KINDS).fill(0);
		for (const [begin, over, kind] of all) {
			wanted[kind] = (wanted[kind] ?? 0) + Math.max(Math.min(over, to) - Math.max(begin, from), 0);
		}
		assert.deepEqual(sumsOf(of, from, to), wanted);
	}
});
