import assert from "node:assert/strict";
import test from "node:test";
import { neighbour } from "../src/slice_steps";
import type { Tile } from "../src/tile";

const tile = (...items: [number, number, number][]) =>
	({ size: items.length, from: items.map((it) => it[0]), to: items.map((it) => it[1]), count: items.map((it) => it[2]) }) as unknown as Tile;

test("keys go to the slice that follows or comes before, over gaps and into cells", () => {
	const of = tile([0, 10, 1], [10, 30, 1], [50, 80, 7], [90, 95, 1]);
	assert.equal(neighbour(of, { from: 0, to: 10 }, true), 10);
	assert.equal(neighbour(of, { from: 10, to: 30 }, true), 50, "the first one of a cell");
	assert.equal(neighbour(of, { from: 50, to: 55 }, true), 55, "within a cell");
	assert.equal(neighbour(of, { from: 70, to: 80 }, true), 90);
	assert.equal(neighbour(of, { from: 90, to: 95 }, true), undefined);
	assert.equal(neighbour(of, { from: 90, to: 95 }, false), 79, "the last one of a cell");
	assert.equal(neighbour(of, { from: 60, to: 65 }, false), 59);
	assert.equal(neighbour(of, { from: 50, to: 55 }, false), 29);
	assert.equal(neighbour(of, { from: 10, to: 30 }, false), 9);
	assert.equal(neighbour(of, { from: 0, to: 10 }, false), undefined);
});
