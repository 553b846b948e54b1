// The list of keys, and what the colours and heights of the tracks mean.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { STATE_HEIGHTS } from "./draw";
import { nameColour, type Theme } from "./theme";
import { BLOCKED, IDLE, RUNNING, UNINTERRUPTIBLE, WOKEN } from "./tile";

const KEYS: [string, string][] = [
	["W S, + −", "zoom in and out"],
	["A D, ← →", "earlier and later"],
	["↑ ↓", "up and down"],
	[", .", "the slice before, the next one"],
	["Shift+↑ ↓", "the row above or below, at that time"],
	["F", "fit the selection or slice; again: all"],
	["0", "all of the trace"],
	["V, Shift+V", "select the time of the slice, or what is in view; up to the slice"],
	["R", "clear the selected time: all of it, also in reports"],
	["Backspace", "the range before"],
	["C", "only the recorded command, or all"],
	["O", "only the process that you look at, or all"],
	["H, Shift+H", "hide that process; show all that are hidden"],
	["X", "reports and events of that row only; Shift: besides others"],
	["/", "search processes and threads"],
	["E", "events, with a filter"],
	["↑ ↓ PgUp PgDn Home End", "in the list of events: up and down; Enter: show it in the middle"],
	["[ ]", "hit before, next hit of the filter"],
	["Y", "why: the critical path of the slice"],
	["M", "mark the moment under the pointer"],
	["Z", "leave out long times without events, or show them"],
	["L", "go with the end of a recording, or stay"],
	["T", "light or dark"],
	["Esc", "close, then clear the selected time, then the selected rows"],
	["?", "these keys"],
];

/** A sign as it is in the tracks, so high and so coloured, and what it means. */
function Sign({ paint, height = 1, children }: { paint: string; height?: number; children: ComponentChildren }) {
	const style: JSX.CSSProperties = { background: paint, height: `${Math.round(14 * height)}px` };
	return (
		<li>
			<span class="sign" aria-hidden="true">
				<span style={style} />
			</span>
			<span>{children}</span>
		</li>
	);
}

/** Lines as the tracks have them where the trace does not say what was. */
const hatched = (colour: string, angle = 135) => `repeating-linear-gradient(${angle}deg, ${colour} 0 1.2px, transparent 1.2px 5.6px)`;

/** What is seen in the rows of CPUs and of threads. */
function Legend({ theme }: { theme: Theme }) {
	const name = (of: string, share = 100) => {
		const colour = nameColour(of, theme);
		return share === 100 ? colour : `linear-gradient(to right, ${colour} ${share}%, transparent ${share}%)`;
	};
	const state = (kind: number, text: string) => (
		<Sign paint={theme.states[kind] ?? ""} height={STATE_HEIGHTS[kind] ?? 1}>
			{text}
		</Sign>
	);
	const crossed = [45, 135].map((angle) => hatched(theme.loss, angle)).join(", ");
	return (
		<>
			<h2>Rows of CPUs</h2>
			<ul class="signs">
				<Sign paint={name("nginx")}>
					a thread had the CPU: its name, and a colour for each name. Numbers in names make no difference
				</Sign>
				<Sign paint={name("nginx")} height={0.5}>
					many threads in a cell: as high as the share of the time in which the CPU was busy
				</Sign>
				<Sign paint={theme.states[IDLE] ?? ""} height={0.2}>
					a thin line at the bottom: idle
				</Sign>
				<Sign paint={name("timer", 60)} height={0.3}>
					the two low bands below: interrupts, and under them softirqs
				</Sign>
			</ul>
			<h2>Rows of threads</h2>
			<ul class="signs">
				{state(RUNNING, "running")}
				{state(WOKEN, "runnable: it wants a CPU, and another thread has it")}
				{state(UNINTERRUPTIBLE, "blocked, uninterruptible")}
				{state(BLOCKED, "blocked: in which system call, and on what, stands on it")}
				<Sign paint={name("read")}>
					below: system calls, and under them spans; a colour for each name
				</Sign>
				<Sign paint={`repeating-linear-gradient(to right, ${theme.accent} 0 1px, transparent 1px 6px)`} height={0.4}>
					ticks: samples
				</Sign>
			</ul>
			<h2>In all rows</h2>
			<ul class="signs">
				<Sign paint={hatched(theme.hatch)}>
					hatched: unknown, the trace does not say
				</Sign>
				<Sign paint={crossed}>
					red crosses: records were discarded there
				</Sign>
			</ul>
		</>
	);
}

export function Help({ theme, close }: { theme: Theme; close: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	// What is behind it takes no key and is not read aloud; when it goes, the focus is where it was.
	useEffect(() => {
		const shown = dialog.current;
		shown?.showModal();
		return () => shown?.close();
	}, []);
	return (
		<dialog ref={dialog} class="help" closedby="any" aria-label="Keys and signs" onCancel={close}>
			{/* The first control has the focus, so that the list is shown from its begin. */}
			<button type="button" class="close" aria-label="Close the list of keys" onClick={close}>
				×
			</button>
			<div class="halves">
				<div>
					<h2>Keys and mouse</h2>
					<dl>
						{KEYS.flatMap(([keys, text]) => [
							<dt key={keys}>
								<kbd>{keys}</kbd>
							</dt>,
							<dd key={`${keys}d`}>{text}</dd>,
						])}
					</dl>
				</div>
				<div>
					<Legend theme={theme} />
				</div>
			</div>
			<p>
				Drag over the tracks to select a time, with Shift to move. The wheel scrolls, with Ctrl it zooms, with Shift it
				moves. A click on a slice shows all that is known of it; a double click zooms to it. A click on a name has reports
				and events be of that row, Ctrl and a click of one more. Arrows and PgUp, PgDn scroll the panel if the focus is
				in it, and a list that is open.
			</p>
		</dialog>
	);
}
