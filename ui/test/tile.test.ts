import assert from "node:assert/strict";
import test from "node:test";
import { decode, decodeAll, itemAt, KINDS } from "../src/tile";
// What the server's test has made of known items: crates/strata-ui/src/answers.rs.
import hex from "./tile.hex";

const bytes = Uint8Array.from(hex.trim().match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
const view = (of: Uint8Array) => new DataView(of.buffer, of.byteOffset, of.byteLength);

test("a tile of the server is read as it was meant", () => {
	const tile = decode(view(bytes));
	assert.deepEqual([tile.track, tile.level, tile.final, tile.size], [1, 10, true, 3]);
	assert.deepEqual([...tile.from], [100, 5000, 2_000_000]);
	assert.deepEqual([...tile.to], [3100, 5450, 3_000_000]);
	assert.deepEqual([...tile.kind], [3, 7, 0]);
	assert.deepEqual([...tile.count], [1, 3, 1]);
	assert.deepEqual([...tile.longest], [3000, 200, 1_000_000]);
	assert.equal(tile.sums[0 * KINDS + 3], 3000);
	assert.deepEqual([...tile.sums.slice(KINDS, 2 * KINDS)], [50, 0, 0, 0, 0, 0, 0, 300]);
});

test("a tile of a counter has its values, however many bits they have", () => {
	const tile = new Uint8Array(24 + 2 * 14);
	tile.set([0x53, 0x54, 0x4c, 0x31, 10, 2]);
	view(tile).setUint32(12, 2, true);
	let at = 24;
	for (const value of [-1234.5, 7e300]) {
		// A gap of 0, an extent of 1, a slice of kind 7 with something else, no name.
		tile.set([0, 1, 7 | 16, 0], at);
		at += 4;
		const bits = new DataView(new ArrayBuffer(8));
		bits.setFloat64(0, value);
		const raw = bits.getBigUint64(0);
		let rest = raw >> 63n === 0n ? raw | (1n << 63n) : BigInt.asUintN(64, ~raw);
		for (let n = 0; n < 10; n++, rest >>= 7n) {
			tile[at++] = Number(rest & 0x7fn) | (n < 9 ? 0x80 : 0);
		}
	}
	assert.deepEqual([...decode(view(tile)).value], [-1234.5, 7e300]);
	assert.equal(decode(view(bytes)).value.length, 0);
});

test("several are read one behind the other", () => {
	const both = new Uint8Array(2 * (bytes.length + 4));
	for (const at of [0, bytes.length + 4]) {
		view(both).setUint32(at, bytes.length, true);
		both.set(bytes, at + 4);
	}
	assert.deepEqual(
		decodeAll(both.buffer).map((tile) => tile.size),
		[3, 3],
	);
});

test("bytes that are no tile, or a part of one, are refused", () => {
	for (let end = 0; end < bytes.length; end++) {
		assert.throws(() => decode(view(bytes.slice(0, end))));
	}
	const wrong = bytes.slice();
	wrong[0] = 0;
	assert.throws(() => decode(view(wrong)), /no tile/);
	const endless = bytes.slice();
	view(endless).setUint32(12, 0xffffffff, true);
	assert.throws(() => decode(view(endless)), /cut/);
});

test("the item of a moment is found, or the nearest one that is near enough", () => {
	const tile = decode(view(bytes));
	assert.equal(itemAt(tile, 3000, 0), 0);
	assert.equal(itemAt(tile, 4000, 0), -1);
	assert.equal(itemAt(tile, 3200, 200), 0);
	assert.equal(itemAt(tile, 4900, 200), 1);
	assert.equal(itemAt(tile, 2_500_000, 0), 2);
	assert.equal(itemAt(tile, 9e9, 100), -1);
	assert.equal(itemAt({ ...tile, size: 0 }, 5, 100), -1);
});
