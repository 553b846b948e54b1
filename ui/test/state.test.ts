// Answers that come late, and what is known of two traces only after a while.

import assert from "node:assert/strict";
import test from "node:test";
import { NoAnswer, Refused, type Side, type Slice } from "../src/api";
import { OTHER, PairApi } from "../src/trace_pair";
import { State } from "../src/state";
import { groupsOf } from "../src/track_rows";

// What the state asks of a browser.
let reloads = 0;
const location = { hash: "", pathname: "/", search: "", port: "8000", reload: () => reloads++ };
Object.assign(globalThis, {
	location,
	document: { title: "" },
	history: { replaceState: (_data: unknown, _unused: string, url: string) => (location.hash = url) },
	matchMedia: () => ({ matches: false }),
});

/** Lets everything go on that waits for nothing but answers that are here. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

/** A server whose answers come when the test says so. */
class Late extends PairApi {
	readonly waiting: { what: string; answer: (value: never) => void }[] = [];

	constructor() {
		super("");
	}

	private later<T>(what: string): Promise<T> {
		return new Promise((answer) => this.waiting.push({ what, answer: answer as (value: never) => void }));
	}

	/** Answers what was asked in these words. */
	async answer(what: string, value: unknown): Promise<void> {
		const at = this.waiting.findIndex((it) => it.what === what);
		assert.ok(at >= 0, `'${what}' is not asked, but ${this.waiting.map((it) => it.what).join(", ")}`);
		this.waiting.splice(at, 1)[0]?.answer(value as never);
		await settled();
	}

	override report(name: string, from: number, _to: number, side: Side = 0): Promise<string> {
		return this.later(`${name} of ${side} from ${from}`);
	}

	override events(_from: number, _to: number, _limit: number, filter: string, side: Side = 0): Promise<{ lines: string; cut: boolean }> {
		return this.later(`${filter} of ${side}`);
	}

	override sums(from: number): Promise<never> {
		return this.later(`sums from ${from}`);
	}

	override slices(from: number): Promise<never> {
		return this.later(`slices from ${from}`);
	}

	override slice(track: number, _time: number): Promise<Slice> {
		return this.later(`slice ${track}`);
	}

	override path(track: number): Promise<never> {
		return this.later(`path ${track}`);
	}
}

/** A state of two traces, each of which is 1000 ns long. */
function pair(): { api: Late; state: State } {
	location.hash = "";
	const api = new Late();
	const state = new State(api, () => undefined);
	const meta = { from: 0, to: 1000, base: "0", records: 1, live: false, done: true };
	state.meta = { ...meta, other: { ...meta } } as unknown as NonNullable<typeof state.meta>;
	state.bounds = { from: 0, to: 1000 };
	state.range = { from: 0, to: 1000 };
	return { api, state };
}

const lines = (...times: number[]) => ({ lines: times.map((time) => `{"time":"${time}","name":"one"}\n`).join(""), cut: false });

test("a report of A that comes late is not shown as one of B", async () => {
	const { api, state } = pair();
	void state.runReport("summary");
	state.setSide(1);
	await api.answer("summary of 0 from 0", "of A");
	assert.equal(state.report, undefined);
	void state.runReport("summary");
	await api.answer("summary of 1 from 0", "of B");
	assert.equal(state.report?.text, "of B");
});

test("of two reports the one is shown that was asked for last, whichever comes last", async () => {
	const { api, state } = pair();
	void state.runReport("summary");
	void state.runReport("locks");
	await api.answer("locks of 0 from 0", "the locks");
	await api.answer("summary of 0 from 0", "the summary");
	assert.deepEqual(state.report, { name: "locks", text: "the locks" });
});

test("a report of a time that is selected no more is not shown", async () => {
	const { api, state } = pair();
	state.select({ from: 100, to: 200 }, false);
	void state.runReport("summary");
	state.select({ from: 300, to: 400 }, true);
	await api.answer("summary of 0 from 100", "of the first selection");
	assert.equal(state.report, undefined);
});

test("hits of A that come late are not those of B, and those of an earlier filter not those of a later one", async () => {
	const { api, state } = pair();
	void state.find("one");
	state.setSide(1);
	await api.answer("one of 1", lines(7));
	await api.answer("one of 0", lines(1, 2, 3));
	assert.deepEqual(state.hits.times, [7]);
	void state.find("two");
	void state.find("three");
	await api.answer("three of 1", lines(8, 9));
	await api.answer("two of 1", lines(4));
	assert.deepEqual(state.hits.times, [8, 9]);
});

test("what is looked at is what was clicked last, and so is its critical path", async () => {
	const { api, state } = pair();
	const slice = (track: number) => ({ track, from: 0, to: 10 });
	void state.choose(1, 5);
	void state.choose(2, 5);
	await api.answer("slice 2", slice(2));
	await api.answer("slice 1", slice(1));
	assert.equal(state.slice?.track, 2);
	void state.why();
	void state.choose(3, 5);
	await api.answer("slice 3", slice(3));
	await api.answer("path 2", { from: 0, to: 10, cut: false, steps: [] });
	assert.equal(state.path, undefined);
	void state.why();
	await api.answer("path 3", { from: 0, to: 10, cut: false, steps: [] });
	assert.ok(state.path !== undefined);
	// A slice of the second trace that was asked for before that trace was moved is of another time.
	void state.choose(OTHER, 5);
	state.align(100);
	await api.answer(`slice ${OTHER}`, slice(OTHER));
	assert.equal(state.slice?.track, 3);
});

test("that a filter selects nothing is said only where all was searched", async () => {
	const { api, state } = pair();
	const cut = assert.rejects(state.alignBy("one"), /^Error: within 5 s no record of A was found/);
	await api.answer("one of 0", { lines: "", cut: true });
	await cut;
	const none = assert.rejects(state.alignBy("one"), /^Error: B has no record that is 'one'$/);
	await api.answer("one of 0", lines(5));
	await api.answer("one of 1", { lines: "", cut: false });
	await none;
	assert.equal(state.shift, 0);
});

test("reports and lists of rows are of those rows only: not of all before they are known, and not of the other trace", async () => {
	const { api, state } = pair();
	const sums = (...tracks: number[]) => tracks.map((track) => ({ track, sums: [1] }));
	state.choice.picked.add("a/thread-7");
	state.setTab("selection");
	await settled();
	assert.deepEqual([state.sums, state.sliceSums], [[], undefined]);
	const track = { id: 3, kind: "thread", group: "a", title: "a", label: "a", tid: 7, pid: 7, depth: 0, sums: [1] };
	state.groups = groupsOf([track as never]);
	void state.refresh();
	await api.answer("sums from 0", sums(3, 4));
	await api.answer("slices from 0", { rows: [], cut: false });
	assert.deepEqual(state.sums?.map((it) => it.track), [3]);
	state.setTab("events");
	await api.answer("tid in {7} of 0", lines(1));
	assert.equal(state.list.rows.length, 1);
	state.setSide(1);
	await settled();
	assert.match(state.list.error, /of no thread, CPU or process of this trace/);
	assert.deepEqual([state.list.rows.length, api.waiting.length], [0, 0]);
});

/** A state whose first trace is recorded and has no record until the second answer, with its shift at each one. */
async function growing(hash: string, each: (state: State, polls: number) => void): Promise<number[]> {
	location.hash = hash;
	const shifts: number[] = [];
	let polls = 0;
	class Growing extends PairApi {
		override async meta() {
			each(state, polls++);
			shifts.push(state.shift);
			const own = { base: "0", title: "", records: polls, done: polls > 2, live: true, tracks: 0 };
			const meta = { ...own, from: polls > 1 ? 5e15 : 0, to: polls > 1 ? 5e15 + polls : 0 };
			return { ...meta, other: { ...own, from: 300, to: 900, done: true, live: false } } as never;
		}
		override async overview() {
			return {} as never;
		}
		override async tracks() {
			return [];
		}
	}
	const state: State = new State(new Growing(""), () => undefined);
	await state.begin();
	assert.equal(state.error, "");
	return [...shifts, state.shift];
}

test("two traces begin together from the first record of a recording on", async () => {
	assert.deepEqual(await growing("", () => undefined), [0, -300, 5e15 - 300, 5e15 - 300]);
	assert.deepEqual(await growing("#o=40", () => undefined), [0, -260, 5e15 - 260, 5e15 - 260]);
});

test("what the user has aligned stays", async () => {
	const align = (state: State, polls: number) => polls === 1 && state.align(77);
	assert.deepEqual(await growing("", align), [0, 77, 77, 77]);
	const begins = (state: State, polls: number) => {
		if (polls === 1) {
			state.align(77);
			state.alignBegins();
		}
	};
	assert.deepEqual(await growing("", begins), [0, -300, 5e15 - 300, 5e15 - 300]);
});

/** A server whose answers of what the trace is are these, one after the other; the last one again and again. */
class Scripted extends PairApi {
	asked = 0;

	constructor(private readonly answers: (object | Error)[]) {
		super("");
	}

	override async meta(): Promise<never> {
		const answer = this.answers[Math.min(this.asked++, this.answers.length - 1)];
		if (answer instanceof Error) {
			throw answer;
		}
		return answer as never;
	}

	override async overview() {
		return {} as never;
	}

	override async tracks() {
		return [];
	}

	override async sums() {
		return [];
	}

	override async slices() {
		return { rows: [], cut: false };
	}
}

const meta = (more: object) => ({ version: 2, id: "one", base: "0", title: "t", typed: "/t", from: 1000, to: 2000, records: 5, tracks: 0, done: false, live: false, other: null, ...more });

test("a page whose server has ended asks until it answers again, and goes on where it was", async () => {
	location.hash = "#t=1200-1300";
	reloads = 0;
	const unanswered: string[] = [];
	const api = new Scripted([meta({}), new NoAnswer("refused"), new NoAnswer("refused"), meta({}), meta({ done: true })]);
	const state: State = new State(api, () => {
		if (state.unanswered !== "" && unanswered[unanswered.length - 1] !== state.unanswered) {
			unanswered.push(state.unanswered);
		}
	});
	await state.begin();
	assert.equal(unanswered.length, 1);
	assert.match(unanswered[0] ?? "", /does not answer.*strata ui --port 8000 --token-file FILE \/t/);
	assert.deepEqual([state.unanswered, state.error, reloads], ["", "", 0]);
	assert.deepEqual(state.range, { from: 1200, to: 1300 });
	assert.equal(state.meta?.done, true);
});

test("a server with another token is told apart from none, and one of another trace has the page loaded again", async () => {
	reloads = 0;
	location.hash = "";
	const unanswered = new Set<string>();
	const api = new Scripted([meta({}), new Refused(401, "wrong"), new Refused(401, "wrong"), meta({ id: "two" }), meta({ id: "two", done: true })]);
	const state: State = new State(api, () => unanswered.add(state.unanswered));
	await state.begin();
	assert.ok([...unanswered].some((text) => /another token: open the address/.test(text)), [...unanswered].join());
	assert.equal(reloads, 1);
});

test("a page that finds no server at first says so, and does not ask again", async () => {
	const api = new Scripted([new Refused(401, "the token is wrong")]);
	const state = new State(api, () => undefined);
	await state.begin();
	assert.deepEqual([state.error, state.unanswered, api.asked], ["the token is wrong", "", 1]);
});

test("a page waits for the first trace, and for the first record, before it shows what its address says", async () => {
	location.hash = "#t=1100-1200&q=word";
	const live = { live: true, from: 5e15, to: 5e15 };
	const api = new Scripted([
		{ version: 2, id: "", title: "fr", awaits: "nothing yet", snapshots: true },
		meta({ ...live, records: 0 }),
		meta({ ...live, records: 0, to: 6e15 }),
		meta({ live: true }),
		meta({ done: true }),
	]);
	const seen: string[] = [];
	let zooms = 0;
	const state: State = new State(api, () => {
		seen.push(state.awaits ? "awaits" : state.isEmpty ? `empty ${state.range.from}` : `${state.range.from}-${state.range.to} ${state.search}`);
		// Whoever zooms where nothing is does not lose what the address says.
		if (state.isEmpty && zooms++ === 0) {
			state.zoom(0.5);
		}
	});
	await state.begin();
	assert.equal(seen[0], "awaits");
	assert.ok(seen.includes(`empty ${5e15}`) && seen.includes(`empty ${6e15 - 10e9}`), seen.join());
	assert.equal(seen[seen.length - 1], "1100-1200 word");
	assert.match(location.hash, /t=1100-1200/);
});

test("the page is not ready until what was asked for is here", async () => {
	location.hash = "";
	const api = new Late();
	let drawn: boolean[] = [];
	const state: State = new State(api, () => drawn.push(state.isAsking));
	const meta = { from: 0, to: 1000, base: "0", records: 1, live: false, done: true };
	state.meta = meta as unknown as NonNullable<typeof state.meta>;
	state.bounds = state.range = { from: 0, to: 1000 };
	const slice = { track: 7, from: 100, to: 200, records: [] };
	/** The question is said to be open when it is asked, and no more when it is answered. */
	const counted = async (ask: () => unknown, what: string, answer: unknown) => {
		drawn = [];
		void ask();
		assert.deepEqual([drawn.at(-1), state.isAsking], [true, true], `${what} is asked, and the page says that it is ready`);
		await api.answer(what, answer);
		assert.deepEqual([drawn.at(-1), state.isAsking], [false, false], `${what} is answered`);
	};
	await counted(() => state.choose(7, 150), "slice 7", slice);
	await counted(() => state.why(), "path 7", { steps: [], from: 100, to: 200, cut: false });
	await counted(() => state.find("one"), "one of 0", lines(5));
	await counted(() => state.runReport("summary"), "summary of 0 from 0", "text");
});

test("a double click shows the slice that it hit, however late the answer is, and none shows nothing else", async () => {
	const { api, state } = pair();
	const slice = (track: number, from: number) => ({ track, from, to: from + 10 });
	void state.choose(1, 105);
	await api.answer("slice 1", slice(1, 100));
	// Both clicks ask, and the answer to the first one is late as well.
	void state.choose(2, 505);
	void state.fitChosen(state.choose(2, 505));
	await settled();
	assert.deepEqual(state.range, { from: 0, to: 1000 }, "not the slice that was looked at before");
	await api.answer("slice 2", slice(2, 500));
	assert.deepEqual(state.range, { from: 0, to: 1000 }, "the first answer is of no interest");
	await api.answer("slice 2", slice(2, 500));
	assert.deepEqual(state.range, { from: 497.5, to: 512.5 });
	void state.fitChosen(undefined);
	await settled();
	assert.deepEqual(state.range, { from: 497.5, to: 512.5 }, "where there is no slice, nothing is shown");
});

test("what leads to a track goes to a time at which it has slices", async () => {
	const { api, state } = pair();
	const asked: number[] = [];
	api.slice = async (track, time) => {
		asked.push(time);
		return { track, from: time, to: time + 10 } as Slice;
	};
	const track = { id: 3, kind: "thread", group: "a", title: "a", label: "a", tid: 7, pid: 7, depth: 0, from: 400, to: 600, sums: [1] };
	state.groups = groupsOf([track as never, { ...track, id: OTHER + 3, group: "a@other", side: 1 } as never]);
	api.shift = 100;
	// Of a thread that began in the time that is shown, there is nothing at the begin of that time.
	for (const [id, time] of [[3, 0], [3, 500], [3, 900], [OTHER + 3, 0]] as const) {
		state.goTo(id, time);
		await settled();
	}
	assert.deepEqual(asked, [400, 500, 600, 500]);
	assert.equal(state.error, "");
});

test("what was said of an action is gone with the next one", () => {
	const { state } = pair();
	state.fail(new Refused(404, "there is nothing of this name"));
	assert.equal(state.error, "there is nothing of this name");
	state.calm();
	assert.equal(state.error, "");
});

test("what has ended the questions of the page stays", async () => {
	const { api, state } = pair();
	api.meta = () => Promise.reject(new Refused(400, "the trace cannot be read"));
	await state.begin();
	state.calm();
	assert.equal(state.error, "the trace cannot be read");
});
