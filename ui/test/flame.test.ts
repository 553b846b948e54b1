import assert from "node:assert/strict";
import test from "node:test";
import { boxes, frameAt, unfolded } from "../src/flame";

const text = "nginx;main;read 3\nnginx;main;write 1\nnginx;idle 4\nsh;main 2\nno weight\n;x \n";

test("folded stacks are put together, and what is no stack is left out", () => {
	const root = unfolded(text);
	assert.equal(root.weight, 10);
	assert.deepEqual([...root.below.keys()], ["nginx", "sh"]);
	assert.equal(frameAt(root, ["nginx", "main"]).weight, 4);
	assert.equal(frameAt(root, ["nginx", "nothing"]).name, "nginx");
	assert.equal(unfolded("a\u202eb 1\n").below.keys().next().value, "a\\u{202e}b");
});

test("frames lie over the one that called them, side by side, and add up to it", () => {
	const all = boxes(unfolded(text), [], 0, 100);
	const found = all.map((it) => [it.path.join("/"), it.depth, it.begin, it.width]);
	assert.deepEqual(found.slice(0, 3), [
		["", 0, 0, 1],
		["nginx", 1, 0, 0.8],
		["sh", 1, 0.8, 0.2],
	]);
	assert.deepEqual(found.slice(3), [
		["nginx/idle", 2, 0, 0.4],
		["nginx/main", 2, 0.4, 0.4],
		["sh/main", 2, 0.8, 0.2],
		["nginx/main/read", 3, 0.4, 0.3],
		["nginx/main/write", 3, 0.7, 0.1],
	]);
	assert.deepEqual(
		boxes(unfolded(text), ["nginx"], 0.2, 100).map((it) => it.frame.name),
		["nginx", "idle", "main", "read"],
	);
	assert.equal(boxes(unfolded(text), [], 0, 3).length, 3);
});
