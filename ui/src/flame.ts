// A flame graph: folded stacks as `strata analyze flame` prints them, and which frames of them are drawn where.

import { clean } from "./text";

export interface Frame {
	name: string;
	/** Of the stacks through this frame. */
	weight: number;
	below: Map<string, Frame>;
}

/** A frame that is drawn: its begin and width are shares of the whole. */
export interface Box {
	frame: Frame;
	depth: number;
	begin: number;
	width: number;
	/** The frames from the outermost one to this one. */
	path: string[];
}

/** Reads lines such as `program;outer;inner 12`; what is no such line is left out. */
export function unfolded(text: string): Frame {
	const root: Frame = { name: "all", weight: 0, below: new Map() };
	for (const line of text.split("\n")) {
		const found = /^(.+) (\d+)$/.exec(line);
		const weight = Number(found?.[2]);
		if (!found?.[1] || !Number.isFinite(weight)) {
			continue;
		}
		root.weight += weight;
		let at = root;
		for (const name of found[1].split(";").map(clean)) {
			let next = at.below.get(name);
			if (!next) {
				next = { name, weight: 0, below: new Map() };
				at.below.set(name, next);
			}
			next.weight += weight;
			at = next;
		}
	}
	return root;
}

/** The frame at the end of a path, as far as there is one. */
export function frameAt(root: Frame, path: string[]): Frame {
	return path.reduce((at, name) => at.below.get(name) ?? at, root);
}

/** The frames below one, the outermost first, that have at least a share of its weight; at most so many. */
export function boxes(root: Frame, path: string[], least: number, most: number): Box[] {
	const top = frameAt(root, path);
	const all: Box[] = [{ frame: top, depth: 0, begin: 0, width: 1, path }];
	for (let n = 0; n < all.length && all.length < most; n++) {
		const box = all[n];
		if (!box) {
			break;
		}
		let begin = box.begin;
		const below = [...box.frame.below.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
		for (const frame of below) {
			const width = frame.weight / Math.max(top.weight, 1);
			if (width >= least && all.length < most) {
				all.push({ frame, depth: box.depth + 1, begin, width, path: [...box.path, frame.name] });
			}
			begin += width;
		}
	}
	return all;
}
