// What another one is to see, as the part of the address behind the #. The token is not in it: it is who may look, not what.
// Times count from the base, which is the same before and after a trace is read.

import type { Range } from "./time";

export interface View {
	range: Range | undefined;
	selection: Range | undefined;
	search: string;
	isOnlyMine: boolean;
	filter: string;
	pinned: string[];
	/** Groups that are not shown, and the only one that is. */
	hidden: string[];
	focus: string;
	/** Rows that reports and lists are of. */
	picked: string[];
	/** The list of events is open; its first row has this time, or is the first of all. */
	list: { place: number | undefined } | undefined;
	/** How much later than the first trace the second one is [ns]. */
	late: number;
	marks: number[];
	/** The slice that is looked at: its track, and a time in it. */
	slice: { track: number; time: number } | undefined;
	/** Long times without events are left out of the axis. */
	isFolding: boolean;
}

const textOf = (range: Range | undefined) => (range ? `${Math.round(range.from)}-${Math.round(range.to)}` : "");

export function hashOf(view: View): string {
	const words = new URLSearchParams();
	for (const [name, value] of [
		["t", textOf(view.range)],
		["s", textOf(view.selection)],
		["q", view.search],
		["c", view.isOnlyMine ? "1" : ""],
		["f", view.filter],
		["p", view.pinned.join("\n")],
		["h", view.hidden.join("\n")],
		["g", view.focus],
		["r", view.picked.join("\n")],
		["e", view.list ? String(view.list.place ?? "all") : ""],
		["o", view.late === 0 ? "" : String(view.late)],
		["m", view.marks.join(" ")],
		["i", view.slice ? `${view.slice.track}@${view.slice.time}` : ""],
		["z", view.isFolding ? "" : "0"],
	] as const) {
		if (value !== "") {
			words.set(name, value);
		}
	}
	return `#${words}`;
}

function rangeOf(text: string | null): Range | undefined {
	const found = /^(-?\d+)-(-?\d+)$/.exec(text ?? "");
	const [from, to] = [Number(found?.[1]), Number(found?.[2])];
	return found && to > from ? { from, to } : undefined;
}

export function viewOf(hash: string): View {
	const words = new URLSearchParams(hash.replace(/^#/, ""));
	const text = (name: string) => words.get(name) ?? "";
	const lines = (name: string) =>
		text(name)
			.split("\n")
			.filter((it) => it !== "");
	const place = /^-?\d+$/.test(text("e")) ? Number(text("e")) : undefined;
	const chosen = /^(\d+)@(-?\d+)$/.exec(text("i"));
	const late = Number(text("o"));
	const marks = text("m").split(" ");
	return {
		range: rangeOf(text("t")),
		selection: rangeOf(text("s")),
		search: text("q"),
		isOnlyMine: text("c") === "1",
		filter: text("f"),
		pinned: lines("p"),
		hidden: lines("h"),
		focus: text("g"),
		picked: lines("r"),
		list: text("e") === "" ? undefined : { place },
		late: Number.isFinite(late) ? Math.round(late) : 0,
		marks: marks.filter((it) => it !== "" && Number.isFinite(Number(it))).map(Number),
		slice: chosen ? { track: Number(chosen[1]), time: Number(chosen[2]) } : undefined,
		isFolding: text("z") !== "0",
	};
}
