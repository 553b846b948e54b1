// A list that is scrolled through has all records in their order, each once, whatever is asked when.

import assert from "node:assert/strict";
import test from "node:test";
import type { RecordLines } from "../src/api";
import { Density, EventList, KEPT, PAGE, type RecordsAsked, ROW_HEIGHT } from "../src/event_list";

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Some records, of which up to seven have one time, and a server of them. */
const ALL = Array.from({ length: 7_000 }, (_, n) => ({ time: Math.floor(n / 7) * 10, n }));
function answerOf({ range, limit, nth, isLast }: RecordsAsked): RecordLines {
	const line = (it: { time: number; n: number }) => `{"time":"${it.time}","name":"${it.n}"}\n`;
	if (isLast) {
		const before = ALL.filter((it) => it.time >= range.from && it.time < range.to);
		const inside = [...before, ...ALL.filter((it) => it.time === range.to).slice(0, nth)];
		const found = inside.slice(-limit);
		const first = found[0];
		return { lines: found.map(line).join(""), cut: inside.length > limit, nth: first ? first.n % 7 : 0 };
	}
	const inside = ALL.filter((it) => it.time >= range.from && it.time <= range.to).slice(nth);
	return { lines: inside.slice(0, limit).map(line).join(""), cut: inside.length >= limit };
}

const OF = { range: { from: 0, to: 1e9 }, filter: "", side: 0 as const };
const numbers = (list: EventList) => list.rows.map((it) => Number(it.record.name));

function newList(fetch = async (asked: RecordsAsked) => answerOf(asked)): EventList {
	return new EventList(fetch, (record) => Number(record.time), () => undefined, () => undefined);
}

test("all records are seen once, in order, from the first to the last and back", async () => {
	const list = newList();
	await list.show(OF);
	await settled();
	const seen: number[] = [];
	const look = () => {
		const first = Math.floor(list.top / ROW_HEIGHT);
		return numbers(list).slice(first, first + 10);
	};
	for (let n = 0; n < 5000 && seen[seen.length - 1] !== ALL.length - 1; n++) {
		for (const number of look()) {
			if (number > (seen[seen.length - 1] ?? -1)) {
				seen.push(number);
			}
		}
		list.scrollTo(list.top + 10 * ROW_HEIGHT);
		await settled();
		assert.ok(list.rows.length <= KEPT);
	}
	assert.deepEqual(seen, ALL.map((it) => it.n));
	assert.equal(list.isEnd, true);
	for (let n = 0; n < 5000 && (look()[0] ?? 0) > 0; n++) {
		const before = look()[0] ?? 0;
		list.scrollTo(list.top - 9 * ROW_HEIGHT);
		assert.equal(look()[0], Math.max(before - 9, 0));
		await settled();
		assert.ok(list.rows.length <= KEPT);
	}
	assert.deepEqual(look(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("a list that begins in the middle goes on in both directions, and stays where it is when its time changes", async () => {
	const list = newList();
	await list.show(OF, 6_000);
	await settled();
	const at = 600 * 7;
	const seen = () => Number(list.rows[Math.floor(list.top / ROW_HEIGHT)]?.record.name);
	assert.equal(seen(), at);
	assert.ok(numbers(list)[0] !== undefined && (numbers(list)[0] ?? 0) < at, "what is before is here");
	list.step(1);
	list.step(1);
	assert.equal(list.chosen?.record.name, String(at + 1));
	await list.show({ ...OF, range: { from: 3_000, to: 9_000 } }, list.place);
	await settled();
	assert.equal(seen(), at);
	assert.equal(list.chosen?.record.name, String(at + 1));
	await list.end();
	await settled();
	assert.equal(numbers(list)[list.rows.length - 1], 900 * 7 + 6);
	assert.equal(list.cursor, list.rows.length - 1);
	await list.show({ ...OF, range: { from: 7_000, to: 9_000 } }, 100);
	assert.equal(seen(), 700 * 7);
	assert.equal(list.place, undefined);
});

test("the cursor goes through records that come while it moves", async () => {
	const list = newList();
	list.height = 10 * ROW_HEIGHT;
	await list.show(OF);
	for (let n = 0; n < KEPT + 1200; n++) {
		list.step(1);
		assert.equal(list.chosen?.record.name, String(n));
		await settled();
	}
	for (let n = KEPT + 1198; n >= 0; n--) {
		list.step(-1);
		assert.equal(list.chosen?.record.name, String(n));
		await settled();
	}
});

test("pages follow each other without a gap, however many records an answer has and whenever it comes", async () => {
	let seed = 7;
	const below = (end: number) => {
		seed = (seed * 1103515245 + 12345) % 2147483648;
		return seed % end;
	};
	const waiting: (() => void)[] = [];
	const list = newList(
		(asked) => new Promise((answer) => waiting.push(() => answer({ ...answerOf({ ...asked, limit: 1 + below(PAGE) }), cut: true }))),
	);
	list.height = 95 * ROW_HEIGHT + 7;
	const shown = list.show(OF);
	waiting.shift()?.();
	await shown;
	let next = 0;
	for (let n = 0; n < 400 && next < ALL.length; n++) {
		const first = Math.ceil(list.top / ROW_HEIGHT);
		const seen = numbers(list).slice(first, Math.floor((list.top + list.height) / ROW_HEIGHT));
		assert.ok((seen[0] ?? 0) <= next, `${next} to ${seen[0]} were not seen`);
		next = (seen[seen.length - 1] ?? -1) + 1;
		for (let answers = below(3); answers > 0; answers--) {
			waiting.shift()?.();
			await settled();
		}
		list.page(1);
	}
	assert.ok(next > ALL.length / 2, `${next}`);
});

test("an answer that comes late is not that of a later question", async () => {
	const waiting: ((answer: RecordLines) => void)[] = [];
	const list = newList(() => new Promise((answer) => waiting.push(answer)));
	const one = list.show(OF);
	const two = list.show({ ...OF, filter: "two" });
	waiting[1]?.({ lines: '{"time":"5","name":"two"}\n', cut: false });
	waiting[0]?.({ lines: '{"time":"5","name":"one"}\n', cut: false });
	await Promise.all([one, two]);
	assert.deepEqual(list.rows.map((it) => it.record.name), ["two"]);
});

test("keys to the end and to the begin while a filter is asked for are of that filter", async () => {
	const waiting: { asked: RecordsAsked; answer: (answer: RecordLines) => void }[] = [];
	const list = newList((asked) => new Promise((answer) => waiting.push({ asked, answer })));
	const answer = (name: string) => waiting.pop()?.answer({ lines: `{"time":"5","name":"${name}"}\n`, cut: false });
	const first = list.show(OF);
	answer("one");
	await first;
	for (const go of [() => list.end(), () => list.begin()]) {
		void list.show({ ...OF, filter: "two" });
		const gone = go();
		assert.equal(waiting[waiting.length - 1]?.asked.filter, "two");
		answer("two");
		await gone;
		assert.deepEqual([list.of?.filter, ...list.rows.map((it) => it.record.name)], ["two", "two"]);
		list.refuse({ ...OF, filter: "three" }, "none");
		assert.deepEqual([list.of?.filter, list.error, list.rows.length], ["three", "none", 0]);
	}
});

test("where nothing was found in time, it is asked for again only when somebody scrolls on", async () => {
	let asked = 0;
	let isFound = false;
	const list = newList(async (of) => {
		asked++;
		assert.ok(asked < 100, "it is asked for without end");
		return of.nth === 0 && !of.isLast ? { ...answerOf({ ...of, limit: 5 }), cut: true } : isFound ? answerOf(of) : { lines: "", cut: true };
	});
	await list.show(OF, 3_000);
	await settled();
	assert.deepEqual([list.rows.length, asked, list.isStuck], [5, 3, true]);
	list.scrollTo(list.top);
	await settled();
	assert.equal(asked, 3);
	isFound = true;
	list.scrollTo(list.top - 1);
	await settled();
	assert.deepEqual([list.rows.length, asked], [5 + PAGE, 4]);
	list.scrollTo(1e9);
	await settled();
	assert.deepEqual([list.rows.length, asked, list.isStuck], [5 + 2 * PAGE, 5, false]);
});

test("what cannot be answered is said, and more is asked for again", async () => {
	let fails = true;
	const list = newList(async (asked) => {
		if (fails && asked.nth > 0) {
			throw new Error("no");
		}
		return answerOf(asked);
	});
	await list.show(OF);
	list.scrollTo(1e9);
	await settled();
	assert.equal(list.rows.length, PAGE);
	fails = false;
	list.scrollTo(1e9);
	await settled();
	assert.equal(list.rows.length, 2 * PAGE);
	const broken = newList(async () => {
		throw new Error("a filter is wrong");
	});
	await broken.show(OF);
	assert.equal(broken.error, "a filter is wrong");
});

test("a share of the records is where as many are before", () => {
	const overview = { from: 100, width: 10, counts: [5, 0, 0, 10, 5] };
	const all = new Density(overview, { from: 0, to: 1000 }, 0);
	assert.equal(all.all, 20);
	for (const [time, share] of [[100, 0], [105, 0.125], [110, 0.25], [130, 0.25], [135, 0.5], [140, 0.75], [150, 1]] as const) {
		assert.equal(all.share(time), share);
	}
	assert.deepEqual([0, 0.125, 0.5, 0.75, 1].map((it) => all.time(it)), [100, 105, 135, 140, 150]);
	const part = new Density(overview, { from: 135, to: 145 }, 0);
	assert.equal(part.all, 7.5);
	assert.deepEqual([part.time(0), part.time(1), part.share(135), part.share(145)], [135, 145, 0, 1]);
	const moved = new Density(overview, { from: 0, to: 2000 }, 1000);
	assert.deepEqual([moved.share(1135), moved.time(0.5)], [0.5, 1135]);
	const none = new Density({ from: 0, width: 1, counts: [] }, { from: 0, to: 10 }, 0);
	assert.deepEqual([none.share(5), none.all], [0, 0]);
});
