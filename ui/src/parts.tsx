// What several panels have.

import type { ComponentChildren } from "preact";
import type { Side } from "./api";
import type { State } from "./state";
import { clean } from "./text";
import { fits } from "./track_rows";
import { counted } from "./time";

/** Which of two traces: A is the one before. */
export function SideName({ side }: { side: Side }) {
	return (
		<span class={side === 0 ? "side" : "side other"} title={side === 0 ? "the trace before" : "the trace after"}>
			{side === 0 ? "A" : "B"}
		</span>
	);
}

/** Which of two traces records and reports are of. */
export function Sides({ state }: { state: State }) {
	return (
		<>
			{state.isPair &&
				([0, 1] as const).map((side) => (
					<button key={side} type="button" aria-pressed={state.side === side} onClick={() => state.setSide(side)}>
						{side === 0 ? "of A" : "of B"}
					</button>
				))}
		</>
	);
}

/** What a row of a table that leads somewhere is called: a click anywhere in the row does it, and this one by keys. */
export function Go({ children }: { children: ComponentChildren }) {
	return (
		<button type="button" class="link">
			{children}
		</button>
	);
}

/** A value as one text. What is in it has names of its own, which are the trace's. */
export function value(of: unknown): string {
	// An enumeration: its names, with the number that they stand for.
	if (typeof of === "object" && of !== null && "labels" in of && "value" in of && Array.isArray(of.labels)) {
		return clean(of.labels.length > 0 ? `${of.labels.join(", ")} (${String(of.value)})` : String(of.value));
	}
	return typeof of === "string" ? of : clean(JSON.stringify(of));
}

/** Which rows reports and lists are of. */
export function Picked({ state }: { state: State }) {
	const { picked } = state.choice;
	if (picked.size === 0 && state.search.trim() === "") {
		return null;
	}
	if (picked.size === 0) {
		const found = () => state.groups.flatMap((group) => group.members.filter((it) => fits(group, it, state.search)).map((it) => it.key));
		return (
			<>
				<span>of all rows</span>
				<button type="button" onClick={() => state.pick(found(), false)}>
					only of “{state.search}”
				</button>
			</>
		);
	}
	return (
		<>
			<span>
				of {counted(picked.size, "selected row")}
			</span>
			<button type="button" onClick={() => state.pick([...picked], false)}>
				of all rows
			</button>
		</>
	);
}
