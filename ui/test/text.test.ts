import assert from "node:assert/strict";
import test from "node:test";
import { clean, cleaned, SHOWN } from "../src/text";

test("characters that act on a display become escapes, and all others stay", () => {
	const ranges = [
		[0, 0x1f],
		[0x7f, 0x9f],
		[0x61c, 0x61c],
		[0x200b, 0x200f],
		[0x2028, 0x202e],
		[0x2060, 0x206f],
		[0xfeff, 0xfeff],
		[0xe0020, 0xe007f],
	] as const;
	for (const [from, to] of ranges) {
		for (let code = from; code <= to; code++) {
			assert.match(clean(`a${String.fromCodePoint(code)}b`), /^a\\(u\{[0-9a-f]+\}|[trn])b$/);
		}
	}
	const plain = " aZ~\u00a0äßЖ中文🦀é\u0300\ufe0f\ufffd−…█<b>&";
	assert.equal(clean(plain), plain);
	assert.equal(clean("a\x1b[2J\n\u009b\u202eb"), "a\\u{1b}[2J\\n\\u{9b}\\u{202e}b");
});

test("a text that is too long is cut, and says how long it is", () => {
	const text = clean("x".repeat(1 << 20));
	assert.equal(text, `${"x".repeat(SHOWN)}… (1048576 characters)`);
});

test("every text of an answer is clean, at any depth", () => {
	const found = cleaned<{ a: [string, { b: string }]; n: number }>('{"a":["\\u202ex",{"b":"y\\u0000"}],"n":5}');
	assert.deepEqual(found, { a: ["\\u{202e}x", { b: "y\\u{0}" }], n: 5 });
});
