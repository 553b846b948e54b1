// What the tests use of Node.
declare module "node:test" {
	export default function test(name: string, run: () => void | Promise<void>): void;
}
declare module "node:assert/strict" {
	const assert: {
		equal(found: unknown, wanted: unknown, message?: string): void;
		deepEqual(found: unknown, wanted: unknown, message?: string): void;
		ok(found: unknown, message?: string): void;
		match(found: string, wanted: RegExp, message?: string): void;
		throws(run: () => unknown, wanted?: RegExp): void;
		rejects(run: Promise<unknown>, wanted?: RegExp): Promise<void>;
	};
	export default assert;
}
declare function setImmediate(run: (value?: unknown) => void): unknown;
