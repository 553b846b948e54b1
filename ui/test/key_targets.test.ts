// Keys as keyboards of several layouts and systems send them.

import assert from "node:assert/strict";
import test from "node:test";
import { namesOfKey, type Pressed, stepInTabs } from "../src/key_targets";

const pressed = (code: string, key: string, modifiers: string[] = []): Pressed => ({
	code,
	key,
	ctrlKey: modifiers.includes("Control"),
	altKey: modifiers.includes("Alt"),
	metaKey: modifiers.includes("Meta"),
	getModifierState: (name: string) => modifiers.includes(name),
});

test("a key has its place and its character", () => {
	assert.deepEqual(namesOfKey(pressed("KeyW", "w")), ["KeyW", "w"]);
	// On a French keyboard Z is where W is.
	assert.deepEqual(namesOfKey(pressed("KeyW", "Z", ["Shift"])), ["KeyW", "z"]);
});

test("a character that AltGr makes is no place of the keyboard", () => {
	// [ of a German and of a French keyboard, as Linux and as Windows send them.
	assert.deepEqual(namesOfKey(pressed("Digit8", "[", ["AltGraph"])), ["["]);
	assert.deepEqual(namesOfKey(pressed("Digit5", "[", ["AltGraph", "Control", "Alt"])), ["["]);
	// The euro is where E is, and shows no events.
	assert.deepEqual(namesOfKey(pressed("KeyE", "€", ["AltGraph"])), ["€"]);
});

test("a key with Ctrl, Alt or Meta is the browser's", () => {
	for (const modifier of ["Control", "Alt", "Meta"]) {
		assert.deepEqual(namesOfKey(pressed("KeyF", "f", [modifier])), []);
	}
	assert.deepEqual(namesOfKey(pressed("BracketLeft", "[", ["Control", "Alt"])), []);
});

test("arrows go around the tabs, Home and End to the first and the last", () => {
	const steps = (key: string) => [0, 1, 2].map((at) => stepInTabs(key, at, 3));
	assert.deepEqual(steps("ArrowRight"), [1, 2, 0]);
	assert.deepEqual(steps("ArrowLeft"), [2, 0, 1]);
	assert.deepEqual(steps("Home"), [0, 0, 0]);
	assert.deepEqual(steps("End"), [2, 2, 2]);
	assert.deepEqual(steps("ArrowUp"), [undefined, undefined, undefined]);
	assert.equal(stepInTabs("ArrowLeft", 0, 1), 0);
});
