// Long times without events, which are folded: the axis leaves them out, and a mark says how long they are.

import type { Range } from "./time";

/** Only times that are so long are folded [ns], and only if they are at least this share of the trace. */
const LEAST = 60e9;
const SHARE = 1 / 20;
/** What stays of each on both sides, as a share of what is not folded. */
const MARGIN = 0.005;

/** A part of the axis that has no fold in it: from when to when, and where it is [px]. */
export interface Segment extends Range {
	x: number;
	width: number;
}

/** Which of the times without events are folded, but for those that the user has unfolded (by their begins). */
export function foldsOf(stretches: readonly Range[], bounds: Range, unfolded: ReadonlySet<number>): Range[] {
	const whole = bounds.to - bounds.from;
	const long = stretches.filter((it) => it.to - it.from >= Math.max(LEAST, whole * SHARE));
	const rest = whole - long.reduce((sum, it) => sum + it.to - it.from, 0);
	return long
		.filter((it) => !unfolded.has(it.from))
		.map((it) => {
			const margin = Math.min(Math.max(rest, 0) * MARGIN, (it.to - it.from) / 4);
			return { from: it.from + margin, to: it.to - margin };
		})
		.sort((a, b) => a.from - b.from);
}

/** The axis: times as they are, and times less all that is folded before them. */
export class Folds {
	constructor(readonly all: readonly Range[] = []) {}

	/** A time less what is folded before it. Within a fold it is where the fold is. */
	shown(time: number): number {
		let folded = 0;
		for (const fold of this.all) {
			if (time <= fold.from) {
				break;
			}
			folded += Math.min(time, fold.to) - fold.from;
		}
		return time - folded;
	}

	/** The time of a shown one. Where a fold is, it is the end of the fold for what begins there, else its begin. */
	real(shown: number, isBegin: boolean): number {
		let time = shown;
		for (const fold of this.all) {
			if (isBegin ? time < fold.from : time <= fold.from) {
				break;
			}
			time += fold.to - fold.from;
		}
		return time;
	}

	/** How much of a time is shown [ns]. */
	length(range: Range): number {
		return this.shown(range.to) - this.shown(range.from);
	}

	/** The parts of a range between folds, over a width. */
	segments(range: Range, width: number): Segment[] {
		const scale = width / Math.max(this.length(range), 1);
		const segments: Segment[] = [];
		let { from } = range;
		let x = 0;
		const add = (to: number) => {
			const part = (to - from) * scale;
			if (part > 0) {
				segments.push({ from, to, x, width: part });
			}
			x += part;
		};
		for (const fold of this.all) {
			if (fold.to <= from || fold.from >= range.to) {
				continue;
			}
			if (fold.from > from) {
				add(fold.from);
			}
			from = fold.to;
		}
		if (from < range.to) {
			add(range.to);
		}
		return segments;
	}

	/** Where on a width folds are, whole or in part. */
	marks(range: Range, width: number): { fold: Range; x: number }[] {
		const scale = width / Math.max(this.length(range), 1);
		const begin = this.shown(range.from);
		const inside = this.all.filter((fold) => fold.to > range.from && fold.from < range.to);
		return inside.map((fold) => ({ fold, x: (this.shown(fold.from) - begin) * scale }));
	}

	/** A change of a range on the axis as it is shown. */
	changed(range: Range, bounds: Range, change: (range: Range, bounds: Range) => Range): Range {
		if (this.all.length === 0) {
			return change(range, bounds);
		}
		const of = (it: Range) => ({ from: this.shown(it.from), to: this.shown(it.to) });
		const { from, to } = change(of(range), of(bounds));
		return { from: this.real(from, true), to: this.real(to, false) };
	}
}

/** A length as a mark says it: `2 h 13 min`. */
export function longTime(nanos: number): string {
	const seconds = Math.round(nanos / 1e9);
	const parts: [number, string][] = [
		[Math.floor(seconds / 86400), "d"],
		[Math.floor(seconds / 3600) % 24, "h"],
		[Math.floor(seconds / 60) % 60, "min"],
		[seconds % 60, "s"],
	];
	const first = parts.findIndex(([n]) => n > 0);
	const said = first < 0 ? parts.slice(3) : parts.slice(first, first + 2).filter(([n]) => n > 0);
	return said.map(([n, unit]) => `${n} ${unit}`).join(" ");
}
