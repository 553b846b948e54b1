// What wheel and pointer do.

import assert from "node:assert/strict";
import test from "node:test";
import { Drag, turnOf } from "../src/pointer";

const wheel = (turn: Partial<WheelEvent>) =>
	turnOf({ deltaX: 0, deltaY: 0, deltaMode: 0, ctrlKey: false, shiftKey: false, ...turn }, 600);

test("the wheel scrolls rows by pixels, lines or pages", () => {
	assert.deepEqual(wheel({ deltaY: 7 }), { scrollPixels: 7 });
	assert.deepEqual(wheel({ deltaY: -3, deltaMode: 1 }), { scrollPixels: -60 });
	assert.deepEqual(wheel({ deltaY: 1, deltaMode: 2 }), { scrollPixels: 600 });
});

test("sideways and with Shift the wheel moves the time", () => {
	assert.deepEqual(wheel({ deltaX: 9, deltaY: 4 }), { panPixels: 9 });
	assert.deepEqual(wheel({ deltaY: 4, shiftKey: true }), { panPixels: 4 });
	// Some systems turn it themselves.
	assert.deepEqual(wheel({ deltaX: 4, shiftKey: true }), { panPixels: 4 });
});

test("with Ctrl the wheel zooms, a turn by no more than a part", () => {
	assert.deepEqual(wheel({ deltaY: 60, ctrlKey: true }), { zoom: Math.exp(0.48) });
	assert.deepEqual(wheel({ deltaY: 1e9, ctrlKey: true }), { zoom: Math.exp(0.48) });
	assert.deepEqual(wheel({ deltaY: -1e9, ctrlKey: true }), { zoom: Math.exp(-0.48) });
});

test("a pointer that moves less than four pixels clicks", () => {
	const drag = new Drag(100, 100, 5, false, undefined);
	assert.equal(drag.move(103, 97), undefined);
	assert.equal(drag.hasSelected, false);
	assert.deepEqual(drag.move(104, 100), { selectFrom: 5 });
	// Back where it began it is still a drag.
	assert.deepEqual(drag.move(100, 100), { selectFrom: 5 });
	assert.equal(drag.hasSelected, true);
});

test("a drag that moves the picture says by how much since the last time, and selects nothing", () => {
	const drag = new Drag(100, 100, 5, true, { from: 1, to: 2 });
	assert.deepEqual(drag.move(110, 95), { panX: -10, panY: 5 });
	assert.deepEqual(drag.move(111, 95), { panX: -1, panY: 0 });
	assert.equal(drag.hasSelected, false);
});
