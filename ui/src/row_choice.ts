// Which rows the user wants to see, on top, or to have reports of.

import type { Side } from "./api";
import type { Group } from "./track_rows";

/** Tracks that are asked for at once: their numbers are in one address. */
export const PICKED = 1000;

export class RowChoice {
	/** Groups that are expanded, and those that are not though they would be. */
	open = new Set<string>();
	closed = new Set<string>();
	/** Rows on top. */
	pinned = new Set<string>();
	/** Groups that are not shown. */
	hidden = new Set<string>();
	/** The only process that is shown, with the CPUs; empty: all are. */
	focus = "";
	/** Rows that reports and lists are of, whatever time is selected; none: of all. */
	picked = new Set<string>();

	/** Expands a group, or collapses it. */
	toggle(group: string, isOpen: boolean): void {
		this.open.delete(group);
		this.closed.delete(group);
		(isOpen ? this.closed : this.open).add(group);
	}

	/** Has a group expanded, and seen. */
	reveal(group: string): void {
		this.hidden.delete(group);
		this.closed.delete(group);
		this.open.add(group);
		if (/^(process|kernel)-/.test(group) && this.focus !== "" && this.focus !== group) {
			this.focus = "";
		}
	}

	pin(key: string): void {
		const member = key.replace(/^(pin|path):/, "");
		if (!this.pinned.delete(member)) {
			this.pinned.add(member);
		}
	}

	hide(group: string): void {
		this.hidden.add(group);
		this.focus = this.focus === group ? "" : this.focus;
	}

	/** Shows only this process, or all of them again. */
	focusOn(group: string): void {
		const focus = this.focus === group ? "" : group;
		this.focus = focus;
		if (focus !== "") {
			this.reveal(focus);
		}
	}

	/** Shows all groups. */
	showAll(): void {
		this.hidden.clear();
		this.focus = "";
	}

	/** Picks rows, besides others or instead of them; those that were picked already are so no more. Returns what is wrong. */
	pick(keys: string[], isMore: boolean, groups: Group[]): string {
		const isNew = keys.some((key) => !this.picked.has(key)) || (!isMore && this.picked.size > keys.length);
		const picked = new Set(isMore ? this.picked : []);
		for (const key of keys) {
			if (isNew) {
				picked.add(key);
			} else {
				picked.delete(key);
			}
		}
		const tracks = tracksOf(groups, picked).length;
		if (tracks > PICKED) {
			return `at most ${PICKED} tracks can be selected, and these are ${tracks}: expand the process, and select single rows`;
		}
		this.picked = picked;
		return "";
	}
}

/** The tracks of rows. */
export function tracksOf(groups: Group[], keys: ReadonlySet<string>): number[] {
	const members = keys.size === 0 ? [] : groups.flatMap((group) => group.members).filter((it) => keys.has(it.key));
	return members.flatMap((it) => it.tracks.map((track) => track.id));
}

/**
 * The number that has `strata analyze --of` select the threads of these rows of one of two traces, and no others; undefined: no
 * number does. A number stands for each thread that has it and for all threads of each process that has it.
 */
export function numberOf(groups: Group[], keys: ReadonlySet<string>, side: Side): number | undefined {
	const members = groups.flatMap((group) => group.members.map((member) => ({ member, pid: group.pid, side: group.side })));
	const picked = members.filter((it) => keys.has(it.member.key));
	const threads = members.filter((it) => it.member.tid !== null && it.side === side);
	const numbers = new Set(picked.flatMap((it) => [it.member.tid, it.pid]));
	const isOf = (number: number) => {
		const of = threads.filter((it) => it.member.tid === number || it.pid === number);
		return of.length === picked.length && of.every((it) => keys.has(it.member.key));
	};
	return [...numbers].filter((it) => it !== null).find(isOf);
}

/**
 * The filter for records of rows of one of two traces; without a row the filter as it is. Undefined: no filter selects those
 * rows. `machines`: the names of the machines that the trace is of.
 */
export function filterOf(groups: Group[], keys: ReadonlySet<string>, side: Side, filter: string, machines: string[]): string | undefined {
	if (keys.size === 0) {
		return filter;
	}
	const own = groups.filter((group) => group.side === side);
	// Machines have the same numbers of CPUs, threads and processes.
	const parts = [...new Set(own.map((group) => group.machine))].flatMap((machine) => {
		const name = machines.length > 1 ? machines[machine] : undefined;
		const of = conditionOf(own.filter((group) => group.machine === machine), keys);
		return of === "" ? [] : [name ? `(${of} && host == ${JSON.stringify(name)})` : of];
	});
	const of = parts.length > 1 ? `(${parts.join(" || ")})` : (parts[0] ?? "");
	return of === "" ? undefined : filter.trim() === "" ? of : `(${filter}) && ${of}`;
}

/** A filter that selects the records of rows: those that their threads made or that wake them, or that were made on their CPUs. */
function conditionOf(groups: Group[], keys: ReadonlySet<string>): string {
	const numbers: Record<"tid" | "cpu" | "pid", Set<number>> = { tid: new Set(), cpu: new Set(), pid: new Set() };
	for (const group of groups) {
		for (const member of group.members) {
			if (!keys.has(member.key)) {
				continue;
			}
			if (member.cpu !== null) {
				numbers.cpu.add(member.cpu);
			} else if (member.tid !== null) {
				numbers.tid.add(member.tid);
			} else if (group.pid !== null) {
				// Spans by key and counters are of a process.
				numbers.pid.add(group.pid);
			}
		}
	}
	const parts = Object.entries(numbers).filter(([, all]) => all.size > 0);
	const texts = parts.map(([word, all]) => `${word} in {${[...all].sort((a, b) => a - b).join(", ")}}`);
	return texts.length > 1 ? `(${texts.join(" || ")})` : (texts[0] ?? "");
}
