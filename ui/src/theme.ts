// Colours. Those of states can be told apart by people who do not see all colours: the smallest difference of any two is
// CIEDE2000 19 for each kind of colour blindness, and each has a height of its own, too.

import { BLOCKED, IDLE, PREEMPTED, RUNNING, UNINTERRUPTIBLE, WOKEN } from "./tile";

export interface Theme {
	ground: string;
	row: string;
	line: string;
	text: string;
	muted: string;
	hatch: string;
	loss: string;
	accent: string;
	selection: string;
	/** Where something was, by a clock that is not exactly known. */
	unsure: string;
	/** Of the critical path. */
	path: string;
	bars: string;
	/** By kind of slice. */
	states: Record<number, string>;
	/** Of text on them. */
	onStates: Record<number, string>;
	saturation: number;
	lightness: number;
	onNames: string;
}

export const LIGHT: Theme = {
	ground: "#ffffff",
	row: "#f5f6f8",
	line: "#e3e5ea",
	text: "#1a1d23",
	muted: "#5d6470",
	hatch: "#b4b9c2",
	loss: "#c8102e",
	accent: "#005fd5",
	selection: "rgba(0, 95, 213, 0.14)",
	unsure: "rgba(160, 90, 0, 0.28)",
	path: "#c8102e",
	bars: "#8d97a8",
	states: {
		[RUNNING]: "#05a886",
		[WOKEN]: "#e47606",
		[PREEMPTED]: "#e47606",
		[BLOCKED]: "#bdb8e0",
		[UNINTERRUPTIBLE]: "#4e0054",
		[IDLE]: "#eceef2",
	},
	onStates: { [RUNNING]: "#06251f", [WOKEN]: "#111418", [PREEMPTED]: "#111418", [BLOCKED]: "#3c3a55" },
	saturation: 52,
	lightness: 72,
	onNames: "#15181e",
};

export const DARK: Theme = {
	ground: "#14171b",
	row: "#1a1e24",
	line: "#2a2f37",
	text: "#e8eaee",
	muted: "#9aa3b0",
	hatch: "#4b525d",
	loss: "#ff5c6c",
	accent: "#6ea8ff",
	selection: "rgba(110, 168, 255, 0.18)",
	unsure: "rgba(255, 190, 90, 0.32)",
	path: "#ff5c6c",
	bars: "#667080",
	states: {
		[RUNNING]: "#0ddea3",
		[WOKEN]: "#ffec3a",
		[PREEMPTED]: "#ffec3a",
		[BLOCKED]: "#444643",
		[UNINTERRUPTIBLE]: "#83538e",
		[IDLE]: "#20242b",
	},
	onStates: { [RUNNING]: "#06251f", [WOKEN]: "#111418", [PREEMPTED]: "#111418", [BLOCKED]: "#c3c8d0" },
	saturation: 36,
	lightness: 60,
	onNames: "#0c0e11",
};

/** Whether the page is dark: as it was last set here, otherwise as the browser's own colours are. */
export function isDarkAtFirst(): boolean {
	const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
	try {
		const kept = localStorage.getItem("theme");
		return kept ? kept === "dark" : isDark;
	} catch {
		// A browser that keeps nothing has its own colours each time.
		return isDark;
	}
}

/** Keeps in the browser whether the page is dark. */
export function keepDark(isDark: boolean): void {
	try {
		localStorage.setItem("theme", isDark ? "dark" : "light");
	} catch {
		// It stays so until the page is left.
	}
}

/** A name without its numbers and addresses: `worker-1` and `worker-2` have one colour. */
export function stem(name: string): string {
	return name.replace(/0x[0-9a-f]+|\d+/g, "").trim();
}

/** The hue of a name, the same each time. */
export function hue(name: string): number {
	let hash = 2166136261;
	for (const character of stem(name)) {
		hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16777619) >>> 0;
	}
	return Math.round(((hash % 1024) / 1024) * 360);
}

/** The colour of a name. */
export function nameColour(name: string, theme: Theme): string {
	return `hsl(${hue(name)} ${theme.saturation}% ${theme.lightness}%)`;
}
