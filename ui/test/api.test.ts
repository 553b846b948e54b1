import assert from "node:assert/strict";
import test from "node:test";
import { recordsOf } from "../src/api";

test("records are read line by line, and names in them are data", () => {
	const lines = '{"time":5,"name":"a:b","payload":{"__proto__":1,"x":"<img src=x onerror=alert(1)>"}}\n{"time":6,"name":"c"}\n';
	const records = recordsOf(lines);
	assert.deepEqual(
		records.map((it) => [String(it.time), it.name]),
		[
			["5", "a:b"],
			["6", "c"],
		],
	);
	assert.deepEqual(recordsOf(""), []);
	assert.equal(({} as Record<string, unknown>).x, undefined);
});
