// The critical path: its parts put together, and where it is drawn.

import type { PathStep } from "./api";

/** Parts of one thread, one kind and one name. */
export interface PathPart {
	track: number | null;
	kind: number;
	name: string;
	nanos: number;
	count: number;
	/** When the longest of them begins. */
	at: number;
}

/** The parts, the longest first: they add up to the whole. */
export function partsOf(steps: PathStep[]): PathPart[] {
	const parts = new Map<string, PathPart & { longest: number }>();
	for (const { track, from, to, kind, name } of steps) {
		const key = `${track}/${kind}/${name}`;
		let part = parts.get(key);
		if (!part) {
			part = { track, kind, name, nanos: 0, count: 0, at: from, longest: 0 };
			parts.set(key, part);
		}
		part.nanos += to - from;
		part.count++;
		if (to - from > part.longest) {
			part.longest = to - from;
			part.at = from;
		}
	}
	return [...parts.values()].sort((a, b) => b.nanos - a.nanos || a.at - b.at);
}

/** The tracks of a path, those of most of its time, in the order in which the path comes to them. */
export function tracksOf(steps: PathStep[], most: number): number[] {
	const nanos = new Map<number, number>();
	for (const { track, from, to } of steps) {
		if (track !== null) {
			nanos.set(track, (nanos.get(track) ?? 0) + to - from);
		}
	}
	const longest = new Set([...nanos].sort((a, b) => b[1] - a[1]).slice(0, most).map(([track]) => track));
	return [...nanos.keys()].filter((track) => longest.has(track));
}

/** The first step that ends behind a time. */
export function stepAt(steps: PathStep[], time: number): number {
	let low = 0;
	let high = steps.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if ((steps[middle]?.to ?? 0) <= time) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}
