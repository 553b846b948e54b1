// Hints are gone once they were followed, in any order, also the next time.

import assert from "node:assert/strict";
import test from "node:test";
import { HINTS, Hints, stepsDone } from "../src/hints";

test("each hint is shown until it was followed, in any order, and not again", () => {
	const kept = new Map<string, string>();
	const storage = { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, value: string) => void kept.set(name, value) };
	const none = { isZoomed: false, hasLooked: false, hasSelected: false, hasAsked: false };
	const hints = new Hints(storage);
	assert.equal(hints.next(stepsDone(none)), HINTS[0]);
	assert.equal(hints.next(stepsDone({ ...none, hasLooked: true })), HINTS[0]);
	assert.equal(hints.next(stepsDone({ ...none, isZoomed: true })), HINTS[2]);
	assert.equal(hints.next(stepsDone(none)), HINTS[2]);
	assert.equal(new Hints(storage).next([]), HINTS[2]);
	assert.equal(new Hints(storage).next([2]), HINTS[3]);
	assert.equal(new Hints(storage).next([3]), "");
	kept.set("hints", "x,-1,,9e99");
	assert.equal(new Hints(storage).next([]), HINTS[0]);
	const broken = () => {
		throw new Error("nothing is kept");
	};
	assert.equal(new Hints({ getItem: broken, setItem: broken }).next([0]), HINTS[1]);
	assert.equal(new Hints(undefined).next([]), HINTS[0]);
});
