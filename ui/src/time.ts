// Times and lengths as people read them, and which widths of cells go with a view. All times are nanoseconds since the
// trace's base, which doubles hold.

/** Cells of a tile. */
export const CELLS = 512;
export const LEVEL_MAX = 43;

/** From when to when is shown. */
export interface Range {
	from: number;
	to: number;
}

/** The level whose cells are one to two pixels wide. */
export function levelOf(nanosPerPixel: number): number {
	const level = Math.ceil(Math.log2(Math.max(nanosPerPixel, 1)));
	return Math.min(Math.max(level, 0), LEVEL_MAX);
}

/** The width of a tile [ns]. */
export function tileWidth(level: number): number {
	return CELLS * 2 ** level;
}

/** The first and the last tile of a range. */
export function tilesOf(range: Range, level: number): [number, number] {
	const width = tileWidth(level);
	return [Math.floor(range.from / width), Math.floor(Math.max(range.to - 1, range.from) / width)];
}

/** The range, zoomed around a moment that stays where it is, within the bounds. */
export function zoomed(range: Range, at: number, factor: number, bounds: Range): Range {
	const whole = Math.max(bounds.to - bounds.from, 1);
	const length = Math.min(Math.max((range.to - range.from) * factor, 10), whole * 1.1);
	const share = (at - range.from) / (range.to - range.from);
	const from = at - share * length;
	return kept({ from, to: from + length }, bounds);
}

/** The range, moved, within the bounds. */
export function panned(range: Range, by: number, bounds: Range): Range {
	return kept({ from: range.from + by, to: range.to + by }, bounds);
}

/** A range that is no further than a twentieth of its length outside of the bounds. */
export function kept(range: Range, bounds: Range): Range {
	const length = range.to - range.from;
	const slack = length / 20;
	if (length >= (bounds.to - bounds.from) * 1.1) {
		const middle = (bounds.from + bounds.to) / 2;
		return { from: middle - length / 2, to: middle + length / 2 };
	}
	const from = Math.min(Math.max(range.from, bounds.from - slack), bounds.to + slack - length);
	return { from, to: from + length };
}

/** The shortest range that has both. */
export function joined(one: Range | undefined, two: Range): Range {
	return one ? { from: Math.min(one.from, two.from), to: Math.max(one.to, two.to) } : { from: two.from, to: two.to };
}

/** The range that goes with the end of a recording: as long as before, or all of it if all was shown. */
export function followed(range: Range, before: Range, bounds: Range): Range {
	if (range.from <= before.from && range.to >= before.to) {
		return { ...bounds };
	}
	const by = bounds.to - before.to;
	return { from: range.from + by, to: range.to + by };
}

/** The times without one that is near this time; if there is none, with this time besides. */
export function toggled(times: number[], time: number, near: number): number[] {
	const known = times.findIndex((it) => Math.abs(it - time) < near);
	return known >= 0 ? times.toSpliced(known, 1) : [...times, Math.round(time)].sort((a, b) => a - b);
}

const UNITS: [number, string][] = [
	[1e9, "s"],
	[1e6, "ms"],
	[1e3, "µs"],
	[1, "ns"],
];

/** `12.345 ms`, as the reports have it. */
export function length(nanos: number): string {
	for (const [size, unit] of UNITS) {
		if (nanos >= size) {
			return `${(nanos / size).toFixed(size === 1 ? 0 : 3)} ${unit}`;
		}
	}
	return "0 ns";
}

/** `12.345678 ms`: a length with each of its nanoseconds. */
export function exact(nanos: number): string {
	const whole = Math.round(Math.abs(nanos));
	const [size, unit] = UNITS.find(([size]) => whole >= size) ?? [1, "ns"];
	const rest = size === 1 ? "" : `.${String(whole % size).padStart(String(size).length - 1, "0")}`;
	return `${nanos < 0 ? "−" : ""}${Math.floor(whole / size)}${rest} ${unit}`;
}

/** How far each time is from the one before it. */
export function distances(times: number[]): number[] {
	return times.slice(1).map((time, n) => time - (times[n] ?? time));
}

/** Where a ruler has marks: at multiples of a round length, about as many as are wanted. */
export function ticks(range: Range, wanted: number): { step: number; at: number[] } {
	const rough = Math.max((range.to - range.from) / Math.max(wanted, 1), 1);
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? rough;
	const at: number[] = [];
	for (let n = Math.ceil(range.from / step); n * step <= range.to && at.length < 1000; n++) {
		at.push(n * step);
	}
	return { step, at };
}

/** The time since the trace began, with as many digits as the step needs: `+1.250 ms`. */
export function since(nanos: number, step: number): string {
	const abs = Math.abs(nanos);
	const [size, unit] = UNITS.find(([size]) => Math.max(abs, step) >= size) ?? [1, "ns"];
	const digits = Math.min(Math.max(Math.round(Math.log10(size) - Math.floor(Math.log10(Math.max(step, 1)))), 0), 9);
	return `${nanos < 0 ? "−" : "+"}${(abs / size).toFixed(digits)} ${unit}`;
}

/** The time of day, of the browser's time zone, with nanoseconds. */
export function timeOfDay(base: bigint, nanos: number): string {
	const all = base + BigInt(Math.round(nanos));
	const seconds = all / 1_000_000_000n - (all % 1_000_000_000n < 0n ? 1n : 0n);
	const rest = all - seconds * 1_000_000_000n;
	const date = new Date(Number(seconds) * 1000);
	const two = (n: number) => String(n).padStart(2, "0");
	return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(rest).padStart(9, "0")}`;
}

/** What `strata` takes as --from and --until. */
export function flag(base: bigint, nanos: number): string {
	const all = base + BigInt(Math.round(nanos));
	const sign = all < 0n ? "-" : "";
	const abs = all < 0n ? -all : all;
	return `@${sign}${abs / 1_000_000_000n}.${String(abs % 1_000_000_000n).padStart(9, "0")}`;
}

/** How many of the times lie in each of so many columns of a range. */
export function histogram(times: number[], range: Range, columns: number): number[] {
	const counts = new Array<number>(Math.max(columns, 1)).fill(0);
	const scale = counts.length / Math.max(range.to - range.from, 1);
	for (const time of times) {
		const column = Math.min(Math.floor((time - range.from) * scale), counts.length - 1);
		if (column >= 0) {
			counts[column] = (counts[column] ?? 0) + 1;
		}
	}
	return counts;
}

/** A value, with as many digits as people read. */
export function number(value: number): string {
	if (Number.isInteger(value) && Math.abs(value) < 1e15) {
		return value < 0 ? `−${count(-value)}` : count(value);
	}
	return String(Number(value.toPrecision(6)));
}

/** `1 row`, `1,234 rows`. */
export function counted(n: number, what: string): string {
	return `${count(n)} ${what}${n === 1 ? "" : "s"}`;
}

/** A count with its digits in groups. */
export function count(n: number): string {
	return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}
