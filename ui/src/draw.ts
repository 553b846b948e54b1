// What is seen of tracks: one canvas, whose work depends on what is visible only.
//
// ```text
// Picture (a copy of what State shows) ─▶ Drawing.rows()      tracks: bands of states, calls, spans, counters
//                                         Drawing.ruler()     the ruler above them
//                                         Drawing.overview()  all of the trace: records over time, gaps, what is shown
// ```
//
// The text labels, selection and panels around are HTML (main.tsx, panels.tsx). Here each call draws everything
// anew, from tiles that are in memory (tiles.ts); a tile that is missing is asked for, and what is coarser is drawn
// until it comes. Nothing here changes the state or waits.
//
// - A *row* is a track at a height; a *band* is a line of a row: the states of a thread, its calls, a level of its
//   spans.
// - A *cell* stands for many slices that are narrower than a pixel. Its states are drawn as high as their shares of
//   the time.
// - Where the axis leaves out time (folds.ts), each part is drawn by itself, clipped and moved.
// - What the trace does not know is hatched: gaps with discarded records, times before and behind the trace.
// - Of two traces that are compared, the second one is drawn in its own time: `moved` gives the picture for it.
//
// Colours come from theme.ts. Text that is cut to fit is measured once for each font, as the width of ten
// characters.

import type { Gap, Overview, PathStep } from "./api";
import type { Folds } from "./folds";
import { stepAt } from "./critical_path";
import { type Band, isLossOf, type Row, unsure } from "./track_rows";
import { nameColour, type Theme } from "./theme";
import {
	BLOCKED,
	BUSY,
	IDLE,
	KINDS,
	PREEMPTED,
	RUNNING,
	type Tile,
	UNINTERRUPTIBLE,
	UNKNOWN,
	WOKEN,
} from "./tile";
import type { Tiles } from "./tiles";
import { exact, histogram, length, levelOf, number, type Range, since, ticks, tilesOf, tileWidth } from "./time";

export interface Picture {
	range: Range;
	/** Times that are left out of the axis. */
	folds: Folds;
	/** Of the trace. */
	bounds: Range;
	rows: Row[];
	/** How far down they are scrolled [px]. */
	scroll: number;
	selection: Range | undefined;
	/** The slice that is looked at. */
	chosen: { track: number; from: number; to: number } | undefined;
	/** The machine of it; undefined: there is only one, or two traces are compared. */
	chosenMachine: number | undefined;
	/** How exactly clocks of guests are known, by machine [ns]. */
	uncertainty: ReadonlyMap<number, number>;
	/** Parts of the critical path, in the order of time. */
	path: PathStep[] | undefined;
	/** All rows, those above and below what is seen, too. */
	allRows: Row[];
	/** A wait whose waker is known. */
	arrow: { track: number; to_track: number | null; to: number } | undefined;
	/** The moment of the record that the list is at. */
	cursor: number | undefined;
	hits: number[];
	marks: number[];
	gaps: Gap[];
	/** What is added to times of the trace that the first one is compared with. */
	shift: number;
	theme: Theme;
	name: (id: number) => string;
}

/** Text narrower than this says nothing [px]. */
const TEXT_MIN = 24;
/** Columns of hits in the overview, and how high the least one is [px]. */
const HIT_WIDTH = 3;
const HIT_MIN = 4;
/** From bottom to top in a cell of states. */
const STACK = [RUNNING, WOKEN, PREEMPTED, UNINTERRUPTIBLE, BLOCKED];
/** How much of its band a state takes: its second sign, besides the colour. */
export const STATE_HEIGHTS: Record<number, number> = {
	[RUNNING]: 1,
	[WOKEN]: 0.66,
	[PREEMPTED]: 0.66,
	[UNINTERRUPTIBLE]: 0.5,
	[BLOCKED]: 0.36,
};

const patterns = new Map<string, CanvasPattern>();

/** Lines at 45 degrees: what is not known. */
function hatch(context: CanvasRenderingContext2D, colour: string, isCross: boolean): CanvasPattern | string {
	const key = `${colour}${isCross}`;
	const known = patterns.get(key);
	if (known) {
		return known;
	}
	const canvas = document.createElement("canvas");
	canvas.width = canvas.height = 8;
	const pen = canvas.getContext("2d");
	if (!pen) {
		return colour;
	}
	pen.strokeStyle = colour;
	pen.lineWidth = 1.2;
	pen.beginPath();
	for (const off of [-8, 0, 8]) {
		pen.moveTo(off, 8);
		pen.lineTo(off + 8, 0);
		if (isCross) {
			pen.moveTo(off, 0);
			pen.lineTo(off + 8, 8);
		}
	}
	pen.stroke();
	const pattern = context.createPattern(canvas, "repeat");
	if (!pattern) {
		return colour;
	}
	patterns.set(key, pattern);
	return pattern;
}

/** Text that is cut where a width ends; empty: nothing of it fits. */
export function fitted(text: string, width: number, characterWidth: number): string {
	const room = Math.floor(width / characterWidth);
	if (text.length <= room) {
		return text;
	}
	return room < 5 ? "" : `${text.slice(0, room - 1)}…`;
}

/** Where a time is left out: a torn strip. */
function foldMark(context: CanvasRenderingContext2D, theme: Theme, x: number, height: number): void {
	context.fillStyle = theme.row;
	context.fillRect(x - 3, 0, 6, height);
	context.strokeStyle = theme.muted;
	context.lineWidth = 1;
	for (const side of [-3, 3]) {
		context.beginPath();
		for (let y = 0, n = 0; y <= height + 4; y += 4, n++) {
			context.lineTo(x + side + (n % 2 === 0 ? 0 : 2), y);
		}
		context.stroke();
	}
}

/** Counts of columns as columns of pixels, each the sum of what is in it; `at` is where a column begins. */
export function inPixels(counts: number[], at: (column: number) => number, width: number): Float64Array {
	const pixels = new Float64Array(Math.ceil(width));
	for (let n = 0; n < counts.length; n++) {
		const from = at(n);
		const to = at(n + 1);
		const first = Math.max(Math.floor(from), 0);
		const last = Math.min(Math.max(Math.ceil(to), first + 1), pixels.length);
		// What is folded has no width.
		if (!(to > from)) {
			pixels[first] = (pixels[first] ?? 0) + (counts[n] ?? 0);
			continue;
		}
		for (let pixel = first; pixel < last; pixel++) {
			const part = Math.min(to, pixel + 1) - Math.max(from, pixel);
			pixels[pixel] = (pixels[pixel] ?? 0) + ((counts[n] ?? 0) * Math.max(part, 0)) / (to - from);
		}
	}
	return pixels;
}

/** The picture in the time of the other trace. */
function moved(picture: Picture): Picture {
	const { range, chosen, shift } = picture;
	return {
		...picture,
		range: { from: range.from - shift, to: range.to - shift },
		chosen: chosen && { ...chosen, from: chosen.from - shift, to: chosen.to - shift },
	};
}

export class Drawing {
	private characterWidth = 6;
	/** The slices of the band that is drawn. */
	private readonly slices: { from: number; to: number; kind: number; name: string }[] = [];

	constructor(private readonly tiles: Tiles) {}

	/** The rows. */
	rows(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number): void {
		this.tiles.begin();
		this.parts(context, picture, width, height, (part, partWidth) => this.part(context, part, partWidth, height));
	}

	/** Draws each part of the axis that has no fold in it, and marks where the folds are. */
	private parts(
		context: CanvasRenderingContext2D,
		picture: Picture,
		width: number,
		height: number,
		draw: (part: Picture, width: number) => void,
	): void {
		const { range, folds, theme } = picture;
		const marks = folds.marks(range, width);
		if (marks.length === 0) {
			draw(picture, width);
			return;
		}
		context.fillStyle = theme.ground;
		context.fillRect(0, 0, width, height);
		for (const segment of folds.segments(range, width)) {
			context.save();
			context.beginPath();
			context.rect(segment.x, 0, segment.width, height);
			context.clip();
			context.translate(segment.x, 0);
			draw({ ...picture, range: { from: segment.from, to: segment.to } }, segment.width);
			context.restore();
		}
		for (const { x } of marks) {
			foldMark(context, theme, x, height);
		}
	}

	private part(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number): void {
		const { range, theme, rows, scroll } = picture;
		context.fillStyle = theme.ground;
		context.fillRect(0, 0, width, height);
		context.font = "11px system-ui, sans-serif";
		context.textBaseline = "middle";
		this.characterWidth = context.measureText("abcdefghij").width / 10;
		const scale = width / (range.to - range.from);
		this.grid(context, picture, width, height);
		const other = moved(picture);
		for (const row of rows) {
			const top = row.y - scroll;
			if (top >= height) {
				break;
			}
			if (top + row.height <= 0) {
				continue;
			}
			if (row.isGroup) {
				context.fillStyle = theme.row;
				context.fillRect(0, top, width, row.height);
			}
			context.fillStyle = theme.line;
			context.fillRect(0, top + row.height - 1, width, 1);
			for (const band of row.bands) {
				this.band(context, row.side === 1 ? other : picture, band, top + band.y + 1, width);
			}
			this.losses(context, row.side === 1 ? other : picture, row, top, width);
			this.clock(context, picture, row, top, width);
		}
		this.path(context, picture, width);
		this.arrow(context, picture, width);
		this.outside(context, picture, width, height);
		if (picture.selection) {
			const x = (picture.selection.from - range.from) * scale;
			const end = (picture.selection.to - range.from) * scale;
			context.fillStyle = theme.selection;
			context.fillRect(x, 0, Math.max(end - x, 1), height);
			context.fillStyle = theme.accent;
			context.fillRect(x, 0, 1, height);
			context.fillRect(end, 0, 1, height);
		}
		const { cursor } = picture;
		if (cursor !== undefined && cursor >= range.from && cursor <= range.to) {
			context.fillStyle = theme.accent;
			for (let y = 0; y < height; y += 8) {
				context.fillRect(Math.round((cursor - range.from) * scale), y, 2, 5);
			}
		}
		for (const [times, colour] of [
			[picture.marks, theme.accent],
			[picture.hits, theme.loss],
		] as const) {
			context.fillStyle = colour;
			for (const time of times) {
				if (time >= range.from && time <= range.to) {
					context.fillRect(Math.round((time - range.from) * scale), 0, 1, height);
				}
			}
		}
	}

	private grid(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number): void {
		const { range, bounds, theme } = picture;
		const relative = { from: range.from - bounds.from, to: range.to - bounds.from };
		context.fillStyle = theme.line;
		for (const at of ticks(relative, width / 130).at) {
			context.fillRect(Math.round(((at - relative.from) / (range.to - range.from)) * width), 0, 1, height);
		}
	}

	/** The middle of the first band of a track, wherever it is scrolled to; rows on top come first. */
	private heights(picture: Picture, tracks: ReadonlySet<number>): Map<number, number> {
		const heights = new Map<number, number>();
		for (const row of picture.allRows) {
			for (const band of row.isGroup ? [] : row.bands) {
				if (tracks.has(band.track.id) && !heights.has(band.track.id)) {
					heights.set(band.track.id, row.y + band.y + 1 + band.height - picture.scroll);
				}
			}
			if (heights.size === tracks.size) {
				break;
			}
		}
		return heights;
	}

	/** The critical path: a line below the part of each thread, and one to the next thread. */
	private path(context: CanvasRenderingContext2D, picture: Picture, width: number): void {
		const { range, path, theme } = picture;
		if (!path || path.length === 0) {
			return;
		}
		const heights = this.heights(picture, new Set(path.flatMap((it) => (it.track === null ? [] : [it.track]))));
		const scale = width / (range.to - range.from);
		context.strokeStyle = theme.path;
		context.lineWidth = 3;
		context.beginPath();
		let before: number | undefined;
		let last = -1;
		for (let n = stepAt(path, range.from); n < path.length; n++) {
			const step = path[n];
			if (!step || step.from > range.to) {
				break;
			}
			const y = step.track === null ? undefined : heights.get(step.track);
			const x = Math.max((step.from - range.from) * scale, -2);
			const end = Math.min((step.to - range.from) * scale, width + 2);
			// Of those in one pixel the first one is enough.
			if (y !== undefined && (end - last >= 0.5 || before !== y)) {
				if (before === undefined) {
					context.moveTo(x, y);
				} else {
					context.lineTo(x, y);
				}
				context.lineTo(end, y);
				last = end;
			}
			before = y;
		}
		context.stroke();
	}

	/** From the thread that ended a wait to the one that waited. */
	private arrow(context: CanvasRenderingContext2D, picture: Picture, width: number): void {
		const { range, arrow, theme } = picture;
		if (!arrow || arrow.to_track === null || arrow.to < range.from || arrow.to > range.to) {
			return;
		}
		const heights = this.heights(picture, new Set([arrow.track, arrow.to_track]));
		const from = heights.get(arrow.to_track);
		const to = heights.get(arrow.track);
		if (from === undefined || to === undefined || from === to) {
			return;
		}
		const x = ((arrow.to - range.from) / (range.to - range.from)) * width;
		const side = from < to ? -1 : 1;
		const tip = side < 0 ? to - 12 : to;
		context.strokeStyle = context.fillStyle = theme.text;
		context.lineWidth = 1.5;
		context.beginPath();
		context.moveTo(x, from);
		context.lineTo(x, tip);
		context.stroke();
		context.beginPath();
		context.moveTo(x, tip);
		context.lineTo(x - 4, tip + side * 7);
		context.lineTo(x + 4, tip + side * 7);
		context.fill();
	}

	/** What is before and behind the trace. */
	private outside(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number): void {
		const { range, bounds, theme } = picture;
		const x = (time: number) => ((time - range.from) / (range.to - range.from)) * width;
		context.fillStyle = theme.row;
		if (range.from < bounds.from) {
			context.fillRect(0, 0, x(bounds.from), height);
		}
		if (range.to > bounds.to) {
			context.fillRect(x(bounds.to), 0, width - x(bounds.to), height);
		}
	}

	private band(context: CanvasRenderingContext2D, picture: Picture, band: Band, top: number, width: number): void {
		const { range } = picture;
		if (band.track.to < range.from || band.track.from > range.to) {
			return;
		}
		const level = levelOf((range.to - range.from) / width);
		const [first, last] = tilesOf(range, level);
		const step = tileWidth(level);
		this.slices.length = 0;
		const tiles: Tile[] = [];
		for (let index = first; index <= last; index++) {
			if ((index + 1) * step < band.track.from || index * step > band.track.to) {
				continue;
			}
			const tile = this.tiles.get(band.track.id, level, index);
			if (tile && band.style === "counter") {
				tiles.push(tile);
			} else if (tile) {
				this.tile(context, picture, band, tile, [index * step, (index + 1) * step], top, width);
			}
		}
		if (tiles.length > 0) {
			this.counter(context, picture, band, tiles, top, width);
		}
		this.texts(context, picture, band, top, width);
	}

	/** Values of a counter, as high as they are between the lowest and the highest one that is in view, and zero. */
	private counter(context: CanvasRenderingContext2D, picture: Picture, band: Band, tiles: Tile[], top: number, width: number): void {
		const { range, theme } = picture;
		const scale = width / (range.to - range.from);
		let [low, high] = [0, 0];
		for (const tile of tiles) {
			for (let n = 0; n < tile.size; n++) {
				const value = tile.value[n] ?? 0;
				if ((tile.to[n] ?? 0) >= range.from && (tile.from[n] ?? 0) <= range.to && Number.isFinite(value)) {
					low = Math.min(low, value);
					high = Math.max(high, value);
				}
			}
		}
		const unit = band.height / (high - low || 1);
		const zero = top + high * unit;
		context.fillStyle = nameColour(band.track.label, theme);
		for (const tile of tiles) {
			for (let n = 0; n < tile.size; n++) {
				const from = Math.max(Math.round(((tile.from[n] ?? 0) - range.from) * scale), 0);
				const to = Math.min(Math.round(((tile.to[n] ?? 0) - range.from) * scale), width);
				if (to < 0 || from > width) {
					continue;
				}
				const value = Math.min(Math.max(tile.value[n] ?? 0, low), high);
				// Where it is zero a line shows that it is known.
				const y = Math.min(zero, zero - value * unit);
				context.fillRect(from, y, Math.max(to - from, 1), Math.max(Math.abs(value) * unit, 1));
			}
		}
		const write = (value: number, y: number) => {
			const text = number(value);
			context.fillStyle = theme.ground;
			context.fillRect(0, y - 5, text.length * this.characterWidth + 8, 11);
			context.fillStyle = theme.muted;
			context.fillText(text, 3, y + 0.5);
		};
		write(high, top + 5);
		if (low < 0) {
			write(low, top + band.height - 5);
		}
	}

	/** What is written on slices, each of them once, however many tiles it is in. */
	private texts(context: CanvasRenderingContext2D, picture: Picture, band: Band, top: number, width: number): void {
		const { range, theme, chosen } = picture;
		const scale = width / (range.to - range.from);
		const isState = band.style === "states";
		for (const { from, to, kind, name } of this.slices) {
			const x = Math.max(Math.round((from - range.from) * scale), 0);
			const w = Math.min(Math.round((to - range.from) * scale), width) - x;
			if (chosen && chosen.track === band.track.id && from < chosen.to && to > chosen.from) {
				context.strokeStyle = theme.text;
				context.lineWidth = 2;
				context.strokeRect(x, top - 1, Math.max(w, 2), band.height + 2);
			}
			if (w >= TEXT_MIN && band.height >= 12 && name !== "") {
				context.fillStyle = isState ? (theme.onStates[kind] ?? theme.text) : theme.onNames;
				if (isState && kind === UNINTERRUPTIBLE) {
					context.fillStyle = theme.text;
				}
				// Wide letters are squeezed: none is written over the end.
				context.fillText(fitted(name, w - 6, this.characterWidth), x + 3, top + (isState ? 6 : band.height / 2 + 0.5), w - 4);
			}
		}
	}

	/** A tile's items, cut at the tile: what reaches over its end is in the next one, too. */
	private tile(
		context: CanvasRenderingContext2D,
		picture: Picture,
		band: Band,
		tile: Tile,
		[begin, end]: [number, number],
		top: number,
		width: number,
	): void {
		const { range, theme } = picture;
		const scale = width / (range.to - range.from);
		const left = Math.max(0, Math.round((begin - range.from) * scale));
		const right = Math.min(width, Math.round((end - range.from) * scale));
		const height = band.height;
		for (let n = 0; n < tile.size; n++) {
			const from = tile.from[n] ?? 0;
			const to = tile.to[n] ?? 0;
			const x = Math.max(Math.round((from - range.from) * scale), left);
			const xEnd = Math.min(Math.round((to - range.from) * scale), right);
			if (xEnd < left || x >= right) {
				continue;
			}
			// A pixel for each, and one between two that are wide; none where it goes on in the next tile.
			const w = Math.max(xEnd - x - (xEnd - x > 3 && to <= end ? 1 : 0), 1);
			const kind = tile.kind[n] ?? BUSY;
			const count = tile.count[n] ?? 1;
			const name = picture.name(tile.name[n] ?? 0);
			if (band.style === "samples") {
				context.fillStyle = theme.accent;
				context.fillRect(x, top, w, height);
			} else if (band.style === "states") {
				if (count === 1) {
					this.state(context, theme, kind, x, top, w, height);
				} else {
					this.states(context, theme, tile, n, x, top, w, height);
				}
			} else if (kind === UNKNOWN && count === 1) {
				context.fillStyle = hatch(context, theme.hatch, false);
				context.fillRect(x, top, w, height);
			} else if (kind === IDLE && count === 1) {
				context.fillStyle = theme.states[IDLE] ?? theme.row;
				context.fillRect(x, top + height - 3, w, 3);
			} else {
				// How much of a cell is busy is how high it is.
				const busy = (tile.sums[n * KINDS + BUSY] ?? 0) + (tile.sums[n * KINDS + RUNNING] ?? 0);
				const share = count === 1 ? 1 : Math.min(Math.max(busy / Math.max(to - from, 1), 0.25), 1);
				// Calls of one kind are alike, whatever they are about.
				const kindOf = band.style === "calls" ? (name.split(" ")[0] ?? "") : name;
				context.fillStyle = nameColour(kindOf || "?", theme);
				context.fillRect(x, top + height * (1 - share), w, height * share);
			}
			const before = this.slices[this.slices.length - 1];
			if (count === 1 && !(before?.from === from && before.to === to)) {
				this.slices.push({ from, to, kind, name });
			}
		}
	}

	private state(
		context: CanvasRenderingContext2D,
		theme: Theme,
		kind: number,
		x: number,
		top: number,
		w: number,
		height: number,
	): void {
		if (kind === UNKNOWN) {
			context.fillStyle = hatch(context, theme.hatch, false);
			context.fillRect(x, top, w, height);
			return;
		}
		const share = STATE_HEIGHTS[kind] ?? 1;
		context.fillStyle = theme.states[kind] ?? theme.muted;
		context.fillRect(x, top + height * (1 - share), w, height * share);
	}

	/** Of a cell, each state as high as its share of the time. */
	private states(
		context: CanvasRenderingContext2D,
		theme: Theme,
		tile: Tile,
		n: number,
		x: number,
		top: number,
		w: number,
		height: number,
	): void {
		const extent = Math.max((tile.to[n] ?? 0) - (tile.from[n] ?? 0), 1);
		let bottom = top + height;
		for (const kind of STACK) {
			const part = Math.min(((tile.sums[n * KINDS + kind] ?? 0) / extent) * height, bottom - top);
			if (part > 0) {
				context.fillStyle = theme.states[kind] ?? theme.muted;
				context.fillRect(x, bottom - part, w, part);
				bottom -= part;
			}
		}
		if ((tile.sums[n * KINDS + UNKNOWN] ?? 0) > 0 && bottom > top) {
			context.fillStyle = hatch(context, theme.hatch, false);
			context.fillRect(x, top, w, bottom - top);
		}
	}

	/** Where records were discarded that would be in this row. */
	private losses(context: CanvasRenderingContext2D, picture: Picture, row: Row, top: number, width: number): void {
		const { range, gaps, theme } = picture;
		const scale = width / (range.to - range.from);
		for (const gap of gaps) {
			if (gap.to < range.from || gap.from > range.to || !isLossOf(gap, row)) {
				continue;
			}
			const x = (gap.from - range.from) * scale;
			const w = Math.max((gap.to - gap.from) * scale, 2);
			context.fillStyle = hatch(context, theme.loss, true);
			context.fillRect(x, top + 1, w, row.height - 3);
			context.strokeStyle = theme.loss;
			context.lineWidth = 1;
			context.strokeRect(x, top + 1, w, row.height - 3);
		}
	}

	/**
	 * How exactly the clock of a guest is known: at the heading of its CPUs a bar as long as what is not known, and in the rows of other
	 * machines the times at which the slice that is looked at may have begun and ended there.
	 */
	private clock(context: CanvasRenderingContext2D, picture: Picture, row: Row, top: number, width: number): void {
		const { range, theme, uncertainty, chosen, chosenMachine } = picture;
		if (uncertainty.size === 0) {
			return;
		}
		const scale = width / (range.to - range.from);
		for (const time of chosen && chosenMachine !== undefined ? [chosen.from, chosen.to] : []) {
			const band = unsure(time, chosenMachine ?? 0, row.machine, uncertainty);
			if (band && band.to > range.from && band.from < range.to) {
				const x = (band.from - range.from) * scale;
				context.fillStyle = theme.unsure;
				context.fillRect(x, top, Math.max((band.to - band.from) * scale, 1), row.height - 1);
			}
		}
		const own = row.isGroup && row.group.startsWith("cpus-") ? uncertainty.get(row.machine) : undefined;
		const bar = 2 * (own ?? 0) * scale;
		if (own !== undefined && bar >= 3) {
			const text = `± ${length(own)}`;
			const w = Math.min(bar, width - 8);
			context.fillStyle = theme.unsure;
			context.fillRect(4, top + 3, w, row.height - 7);
			context.fillStyle = theme.text;
			context.fillRect(4, top + 3, 1, row.height - 7);
			context.fillRect(4 + w, top + 3, 1, row.height - 7);
			context.fillText(text, Math.min(w + 10, width / 2), top + row.height / 2);
		}
	}

	/** The ruler: times since the trace began, and on a flag at each mark of the user its time to the nanosecond. */
	ruler(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number): void {
		this.parts(context, picture, width, height, (part, partWidth) => this.rulerPart(context, part, partWidth, height));
	}

	private rulerPart(context: CanvasRenderingContext2D, picture: Picture, width: number, height: number): void {
		const { range, bounds, theme } = picture;
		context.fillStyle = theme.ground;
		context.fillRect(0, 0, width, height);
		context.font = "11px system-ui, sans-serif";
		context.textBaseline = "middle";
		const relative = { from: range.from - bounds.from, to: range.to - bounds.from };
		const { at, step } = ticks(relative, width / 130);
		for (const time of at) {
			const x = Math.round(((time - relative.from) / (range.to - range.from)) * width);
			context.fillStyle = theme.line;
			context.fillRect(x, 0, 1, height);
			const text = since(time, step);
			if (x + 4 + context.measureText(text).width <= width) {
				context.fillStyle = theme.muted;
				context.fillText(text, x + 4, height / 2);
			}
		}
		for (const mark of picture.marks.filter((it) => it >= range.from && it <= range.to)) {
			const x = Math.round(((mark - range.from) / (range.to - range.from)) * width);
			const text = `${mark < bounds.from ? "" : "+"}${exact(mark - bounds.from)}`;
			const flag = context.measureText(text).width + 8;
			const left = x + flag <= width ? x : Math.max(x - flag, 0);
			context.fillStyle = theme.accent;
			context.fillRect(x, 0, 1, height);
			context.fillRect(left, 2, flag, height - 6);
			context.fillStyle = theme.ground;
			context.fillText(text, left + 4, height / 2 - 1);
		}
		context.fillStyle = theme.line;
		context.fillRect(0, height - 1, width, 1);
	}

	/** All of the trace: records over time, what was discarded, what is shown. Of two traces, one is above the other. */
	overview(
		context: CanvasRenderingContext2D,
		picture: Picture,
		overview: Overview | undefined,
		width: number,
		height: number,
	): void {
		const { bounds, range, theme, hits, marks, selection, shift, folds } = picture;
		context.fillStyle = theme.ground;
		context.fillRect(0, 0, width, height);
		const scale = width / Math.max(folds.length(bounds), 1);
		const begin = folds.shown(bounds.from);
		const x = (time: number) => (folds.shown(time) - begin) * scale;
		if (overview?.other) {
			const half = Math.floor(height / 2);
			this.records(context, theme, overview, x, [0, half], width);
			this.records(context, theme, overview.other, (time) => x(time + shift), [half + 2, height - half - 2], width);
			context.fillStyle = theme.line;
			context.fillRect(0, half, width, 1);
		} else if (overview) {
			this.records(context, theme, overview, x, [0, height], width);
		}
		const rangeAt = x(Math.max(range.from, bounds.from));
		const rangeEnd = x(Math.min(range.to, bounds.to));
		context.fillStyle = theme.selection;
		context.fillRect(rangeAt, 0, Math.max(rangeEnd - rangeAt, 2), height);
		context.fillStyle = theme.accent;
		context.fillRect(rangeAt, 0, 2, height);
		context.fillRect(Math.max(rangeEnd - 2, rangeAt), 0, 2, height);
		if (selection) {
			context.fillRect(x(selection.from), height - 3, Math.max(x(selection.to) - x(selection.from), 2), 3);
		}
		// Hits over time: the highest column is the one with most of them, and each can be seen.
		const all = { from: begin, to: begin + folds.length(bounds) };
		const columns = histogram(
			hits.map((time) => folds.shown(time)),
			all,
			Math.floor(width / HIT_WIDTH),
		);
		const most = columns.reduce((most, n) => Math.max(most, n), 1);
		context.fillStyle = theme.loss;
		columns.forEach((n, column) => {
			const bar = n > 0 ? HIT_MIN + (n / most) * (height / 2 - HIT_MIN) : 0;
			context.fillRect(column * HIT_WIDTH, height - bar, HIT_WIDTH - 1, bar);
		});
		context.fillStyle = theme.accent;
		for (const mark of marks) {
			context.fillRect(Math.round(x(mark)) - 1, 0, 3, 8);
		}
		for (const { x } of folds.marks(bounds, width)) {
			foldMark(context, theme, x, height);
		}
		context.fillStyle = theme.line;
		context.fillRect(0, height - 1, width, 1);
	}

	/** How many records there were over time, between two heights, and what was discarded. */
	private records(
		context: CanvasRenderingContext2D,
		theme: Theme,
		of: Overview,
		x: (time: number) => number,
		[top, height]: [number, number],
		width: number,
	): void {
		const room = height - Math.min(8, height / 5);
		const bars = (columns: Float64Array, colour: string) => {
			const most = columns.reduce((most, n) => Math.max(most, n), 1);
			context.fillStyle = colour;
			columns.forEach((n, column) => {
				const bar = n > 0 ? Math.max((n / most) * room, 1) : 0;
				context.fillRect(column, top + height - bar, 1, bar);
			});
		};
		const { outline } = of;
		if (outline) {
			// What is not read yet is in a fainter colour.
			bars(inPixels(outline.bytes, (n) => x(outline.from + n * outline.width), width), theme.line);
		}
		if (of.counts.length > 0) {
			bars(inPixels(of.counts, (n) => x(of.from + n * of.width), width), theme.bars);
		}
		for (const gap of of.gaps.filter((gap) => gap.side !== 1)) {
			const w = Math.max(x(gap.to) - x(gap.from), 2);
			context.fillStyle = hatch(context, theme.loss, true);
			context.fillRect(x(gap.from), top, w, height);
			context.fillStyle = theme.loss;
			context.fillRect(x(gap.from), top, w, 3);
		}
	}
}
