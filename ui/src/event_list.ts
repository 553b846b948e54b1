// A list of records that is scrolled through, however many there are: some are here, the next ones come when they are
// near. A place in it is a time, and a number among the records of that time.
//
// ```text
// all of the time that is asked for ─────────────────────────────────────────────▶
//                     rows: at most KEPT ───────────────▶
//                               top: what is seen ──▶
// ```

import { type EventRecord, type Overview, type Place, type RecordLines, recordsOf, type Side } from "./api";
import type { Range } from "./time";

export interface ListedRecord {
	record: EventRecord;
	time: number;
	/** How many records of its time are in front of it. */
	nth: number;
}

/** How exactly the clocks of machines are known, by their names [ns]. */
export type Clocks = ReadonlyMap<string, number>;

/**
 * Whether a record may have been made before one of another machine that is in front of it in the list: they are closer than
 * both clocks are known.
 */
export function isOrderUnknown(rows: readonly ListedRecord[], at: number, clocks: Clocks): boolean {
	const row = rows[at];
	const most = Math.max(0, ...clocks.values());
	if (!row || most === 0) {
		return false;
	}
	const own = clocks.get(row.record.host ?? "") ?? 0;
	for (let n = at - 1; n >= 0; n--) {
		const before = rows[n];
		if (!before || row.time - before.time > own + most) {
			return false;
		}
		const isOther = before.record.host !== row.record.host;
		if (isOther && row.time - before.time <= own + (clocks.get(before.record.host ?? "") ?? 0)) {
			return true;
		}
	}
	return false;
}

/** What a list is of. */
export interface ListOf {
	range: Range;
	filter: string;
	side: Side;
}

/** Records of a time: the first ones without `nth` of them, or the last ones before the one of number `nth` at its end. */
export interface RecordsAsked extends ListOf, Place {
	limit: number;
}

/** How high a row is [px]. */
export const ROW_HEIGHT = 19;
/** Records that are asked for at once, and that are here at most. */
export const PAGE = 500;
export const KEPT = 2000;
/** Rows that are left to scroll when more are asked for. */
const NEAR = 150;

export class EventList {
	rows: ListedRecord[] = [];
	/** What the rows are of. */
	of: ListOf | undefined;
	/** What they are to be of: the answer may still come. */
	wanted: ListOf | undefined;
	/** There are none in front of the first row, or behind the last one. */
	isBegin = true;
	isEnd = true;
	error = "";
	/** How far down the rows are scrolled, and how high what is seen of them is [px]. */
	top = 0;
	height = 10 * ROW_HEIGHT;
	/** The row that keys move; -1: none. */
	cursor = -1;
	/** Counted, so that only the answer to the latest question is taken. */
	private asks = 0;
	/** An answer is still to come. */
	isAsking = false;
	/** The last answer on what is in front, or behind, had nothing, though there may be more: only who scrolls on asks again. */
	private isStuckEarlier = false;
	private isStuckLater = false;

	constructor(
		private readonly fetch: (asked: RecordsAsked) => Promise<RecordLines>,
		private readonly moment: (record: EventRecord, side: Side) => number,
		private readonly changed: () => void,
		private readonly failed: (error: unknown) => void,
	) {}

	/** The time of the first row that is seen; undefined: there is none, or it is the first one of all. */
	get place(): number | undefined {
		return this.isBegin && this.top === 0 ? undefined : this.rows[Math.floor(this.top / ROW_HEIGHT)]?.time;
	}

	/** The record that keys have moved to. */
	get chosen(): ListedRecord | undefined {
		return this.rows[this.cursor];
	}

	/** Not all that is asked for was found. */
	get isStuck(): boolean {
		return this.isStuckEarlier || this.isStuckLater;
	}

	/** Lists records of this from a time on; without one from the begin. Returns false if something else was asked for meanwhile. */
	async show(of: ListOf, place?: number): Promise<boolean> {
		const ask = this.asksFor(of);
		const { chosen } = this;
		const { from, to } = of.range;
		// Where the list was, or at least the record that keys have moved to.
		const begins = [place, chosen?.time].find((it) => it !== undefined && it > from && it < to);
		try {
			const begin = begins ?? from;
			const answer = await this.fetch({ ...of, range: { from: begin, to }, limit: PAGE, nth: 0, isLast: false });
			if (ask !== this.asks) {
				return false;
			}
			this.of = of;
			this.error = "";
			this.rows = this.numbered(answer, of.side, begin, 0);
			this.isBegin = begins === undefined;
			this.isEnd = !answer.cut;
			this.top = 0;
			this.cursor = chosen ? this.rows.findIndex((it) => it.time === chosen.time && it.nth === chosen.nth) : -1;
		} catch (error) {
			if (ask !== this.asks) {
				return false;
			}
			this.empty(of, error instanceof Error ? error.message : String(error));
			this.failed(error);
		}
		this.isAsking = false;
		this.scrollTo(this.top);
		return true;
	}

	/** Lists nothing, and says why. */
	refuse(of: ListOf, why: string): void {
		this.asksFor(of);
		this.isAsking = false;
		this.empty(of, why);
		this.changed();
	}

	/** Begins to list something; answers to what was asked before come too late. */
	private asksFor(of: ListOf): number {
		this.wanted = of;
		this.isAsking = true;
		this.isStuckEarlier = this.isStuckLater = false;
		return ++this.asks;
	}

	private empty(of: ListOf, why: string): void {
		this.of = of;
		this.rows = [];
		this.isBegin = this.isEnd = true;
		this.top = 0;
		this.cursor = -1;
		this.error = why;
	}

	/** Goes to the first records, with the cursor. */
	async begin(): Promise<void> {
		if (this.wanted) {
			this.cursor = -1;
			if (await this.show(this.wanted)) {
				this.choose(this.rows.length > 0 ? 0 : -1);
			}
		}
	}

	/** Goes to the last records. */
	async end(): Promise<void> {
		const of = this.wanted;
		if (!of) {
			return;
		}
		const ask = this.asksFor(of);
		try {
			const to = Math.ceil(of.range.to) + 1;
			const answer = await this.fetch({ ...of, range: { from: of.range.from, to }, limit: PAGE, nth: 0, isLast: true });
			if (ask !== this.asks) {
				return;
			}
			this.of = of;
			this.error = "";
			this.rows = this.numbered(answer, of.side, undefined, answer.nth ?? 0);
			this.isBegin = !answer.cut;
			this.isEnd = true;
			this.cursor = this.rows.length - 1;
			this.top = Number.MAX_SAFE_INTEGER;
		} catch (error) {
			if (ask !== this.asks) {
				return;
			}
			this.empty(of, error instanceof Error ? error.message : String(error));
			this.failed(error);
		}
		this.isAsking = false;
		this.scrollTo(this.top);
	}

	scrollTo(top: number): void {
		this.isStuckLater &&= top <= this.top;
		this.isStuckEarlier &&= top >= this.top;
		this.top = Math.max(Math.min(top, this.rows.length * ROW_HEIGHT - this.height), 0);
		const first = this.top / ROW_HEIGHT;
		if (this.rows.length > 0 && !this.isAsking) {
			if (!this.isEnd && !this.isStuckLater && first + this.height / ROW_HEIGHT > this.rows.length - NEAR) {
				void this.more(true);
			} else if (!this.isBegin && !this.isStuckEarlier && first < NEAR) {
				void this.more(false);
			}
		}
		this.changed();
	}

	/** Moves the cursor by rows, and scrolls to it. */
	step(by: number): void {
		const first = Math.ceil(this.top / ROW_HEIGHT);
		this.moveTo((this.cursor < 0 ? first - Math.sign(by) : this.cursor) + by, this.top);
	}

	/** Scrolls by as many rows as are seen, with the cursor. */
	page(by: 1 | -1): void {
		const seen = Math.max(Math.floor(this.height / ROW_HEIGHT), 1) * by;
		const first = Math.ceil(this.top / ROW_HEIGHT);
		this.moveTo((this.cursor < 0 ? first : this.cursor) + seen, this.top + seen * ROW_HEIGHT);
	}

	/** Sets the cursor, and scrolls as far as it must be scrolled for it to be seen. */
	private moveTo(cursor: number, top: number): void {
		this.cursor = Math.min(Math.max(cursor, 0), this.rows.length - 1);
		const y = Math.max(this.cursor, 0) * ROW_HEIGHT;
		const seen = Math.max(Math.floor(this.height / ROW_HEIGHT), 1) * ROW_HEIGHT;
		this.scrollTo(Math.min(Math.max(top, y + ROW_HEIGHT - seen), y));
	}

	choose(row: number): void {
		this.cursor = row;
		this.changed();
	}

	/** Asks for the records behind the last row, or in front of the first one. */
	private async more(isLater: boolean): Promise<void> {
		const of = this.of;
		const edge = isLater ? this.rows[this.rows.length - 1] : this.rows[0];
		if (!of || !edge) {
			return;
		}
		const ask = ++this.asks;
		this.isAsking = true;
		const range = isLater ? { from: edge.time, to: of.range.to } : { from: of.range.from, to: edge.time };
		const nth = isLater ? edge.nth + 1 : edge.nth;
		try {
			const answer = await this.fetch({ ...of, range, limit: PAGE, nth, isLast: !isLater });
			if (ask !== this.asks) {
				return;
			}
			const found = this.numbered(answer, of.side, isLater ? edge.time : undefined, isLater ? nth : (answer.nth ?? 0));
			// The same question would have the same answer, again and again.
			const isStuck = found.length === 0 && answer.cut;
			if (isLater) {
				this.rows.push(...found);
				this.isEnd = !answer.cut;
				this.isStuckLater = isStuck;
				const over = Math.max(this.rows.length - KEPT, 0);
				this.rows.splice(0, over);
				this.isBegin &&= over === 0;
				this.moveBy(-over);
			} else {
				this.rows.unshift(...found);
				this.isBegin = !answer.cut;
				this.isStuckEarlier = isStuck;
				this.moveBy(found.length);
				this.isEnd &&= this.rows.length <= KEPT;
				this.rows.length = Math.min(this.rows.length, KEPT);
				this.cursor = this.cursor < this.rows.length ? this.cursor : -1;
			}
		} catch (error) {
			if (ask !== this.asks) {
				return;
			}
			// What is here stays; it is asked again when it is scrolled again.
			this.isAsking = false;
			this.failed(error);
			this.changed();
			return;
		}
		this.isAsking = false;
		this.scrollTo(this.top);
	}

	/** The rows have moved down by so many: what is seen stays. */
	private moveBy(rows: number): void {
		this.top = Math.max(this.top + rows * ROW_HEIGHT, 0);
		this.cursor = this.cursor < 0 ? -1 : Math.max(this.cursor + rows, -1);
	}

	/** Rows of an answer: the first one has the number `nth` if its time is `from`, or in any case without a `from`. */
	private numbered({ lines }: RecordLines, side: Side, from: number | undefined, nth: number): ListedRecord[] {
		let before: ListedRecord | undefined;
		return recordsOf(lines).map((record) => {
			const time = this.moment(record, side);
			const first = from === undefined || time === from ? nth : 0;
			before = { record, time, nth: before ? (before.time === time ? before.nth + 1 : 0) : first };
			return before;
		});
	}
}

/** How many records are where, as the overview counts them: for a handle that is as far down as the list is scrolled. */
export class Density {
	private readonly sums: number[] = [0];

	/** `shift` is added to the times of the overview. */
	constructor(
		private readonly overview: Pick<Overview, "from" | "width" | "counts">,
		private readonly range: Range,
		private readonly shift: number,
	) {
		for (const [n, count] of overview.counts.entries()) {
			const from = overview.from + shift + n * overview.width;
			const part = Math.min(range.to, from + overview.width) - Math.max(range.from, from);
			this.sums.push((this.sums[n] ?? 0) + (count * Math.max(part, 0)) / overview.width);
		}
	}

	/** About how many records there are. */
	get all(): number {
		return this.sums[this.sums.length - 1] ?? 0;
	}

	/** The share of the records that are before a time. */
	share(time: number): number {
		const { from, width, counts } = this.overview;
		const at = Math.min(Math.max((time - from - this.shift) / width, 0), counts.length);
		const column = Math.min(Math.floor(at), counts.length - 1);
		const [before, behind] = [this.sums[column] ?? 0, this.sums[column + 1] ?? 0];
		// A column that is only partly in the range has its records there.
		const begin = Math.max(from + this.shift + column * width, this.range.from);
		const end = Math.min(from + this.shift + (column + 1) * width, this.range.to);
		const part = Math.min(Math.max((time - begin) / Math.max(end - begin, 1), 0), 1);
		return this.all === 0 ? 0 : (before + (behind - before) * part) / this.all;
	}

	/** The time before which a share of the records is. */
	time(share: number): number {
		const { from, width, counts } = this.overview;
		const wanted = share * this.all;
		let [low, high] = [0, counts.length];
		while (low < high) {
			const middle = (low + high) >> 1;
			if ((this.sums[middle + 1] ?? 0) < wanted) {
				low = middle + 1;
			} else {
				high = middle;
			}
		}
		const [before, behind] = [this.sums[low] ?? 0, this.sums[low + 1] ?? 0];
		const begin = Math.max(from + this.shift + low * width, this.range.from);
		const end = Math.min(from + this.shift + (low + 1) * width, this.range.to);
		const part = behind > before ? (wanted - before) / (behind - before) : 0;
		return Math.min(Math.max(begin + part * Math.max(end - begin, 0), this.range.from), this.range.to);
	}
}
