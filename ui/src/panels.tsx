// The panels below the tracks: what is known of the slice that was clicked, of a selected time, of events, and of two traces.
//
// ```text
// Drawer ─┬─ Details    a slice: its facts, records, call stacks, who had the CPU, the critical path
//         ├─ Selection  a time: states of threads, SliceTable by name, a report of `strata analyze`, FlameGraph
//         ├─ Events     records as `strata view` shows them (events_panel.tsx)
//         └─ Changes    what became slower from one trace to the other, if two are shown
// ```
//
// A panel is a function of State: it shows what was answered, and a click calls a method of State, which asks the server
// and has everything rendered again. A panel's own are only the height of the drawer, the place in a flame graph, and text that
// is being typed.
//
// All that is of a trace is put in as text, never as HTML: Preact makes text of it. Tables are cut at a number of rows, and say
// how many there are, since a trace may have any number of names. A flame graph makes only frames wide enough to be seen.

import type { ComponentChildren } from "preact";
import type { Change, EventRecord, Frame, Path, Slice } from "./api";
import { useMemo, useRef, useState } from "preact/hooks";
import { Events } from "./events_panel";
import { stepInTabs } from "./key_targets";
import { Go, Picked, SideName, Sides, value } from "./parts";
import { boxes, frameAt, unfolded } from "./flame";
import { numberOf } from "./row_choice";
import { sideOf } from "./trace_pair";
import { type PathPart, partsOf } from "./critical_path";
import type { State } from "./state";
import { BLOCKED, PREEMPTED, RUNNING, UNINTERRUPTIBLE, UNKNOWN, WOKEN } from "./tile";
import { clean } from "./text";
import { DARK, LIGHT, nameColour } from "./theme";
import { count, counted, flag, length, since, timeOfDay } from "./time";
import { recordsOf } from "./api";

/** What the kinds of slices are called. */
export const KIND_NAMES = [
	"running",
	"runnable: what it waited for is over",
	"runnable: another thread took the CPU",
	"blocked",
	"blocked, uninterruptible",
	"unknown: the trace does not say",
	"idle",
	"",
];
const REPORTS = ["summary", "threads", "syscalls", "files", "locks", "spans", "irq", "cpu", "memory", "flame"];
/** Rows of a table that are made. */
const ROWS = 200;

/** How high the panel is at first, and at least [px]. */
const HEIGHT = 250;
const LOWEST = 120;

/** The height that is wanted, as far as the window has room for it above the tracks' least. */
const fitting = (height: number) => Math.round(Math.max(LOWEST, Math.min(height, window.innerHeight - 260)));

function keptHeight(): number {
	try {
		const kept = Number(localStorage.getItem("drawer"));
		return kept >= LOWEST ? kept : HEIGHT;
	} catch {
		return HEIGHT;
	}
}

export function Drawer({ state }: { state: State }) {
	const tab = state.tab;
	const [wanted, setWanted] = useState(keptHeight);
	// The window may be lower by now than when it was set.
	const height = fitting(wanted);
	const drag = useRef<number | undefined>(undefined);
	if (!tab) {
		return null;
	}
	const resize = (wanted: number) => {
		const height = fitting(wanted);
		setWanted(height);
		try {
			localStorage.setItem("drawer", String(height));
		} catch {
			// It stays so until the page is left.
		}
		// The tracks have another height, too.
		state.layOut();
	};
	const names = {
		details: "Details",
		selection: state.selection ? "Selection" : "In view",
		events: "Events",
		diff: "What became slower",
	} as const;
	const stepTabs = (event: KeyboardEvent, at: number) => {
		const hasModifier = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
		const to = hasModifier ? undefined : stepInTabs(event.key, at, tabs.length);
		const one = to === undefined ? undefined : tabs[to];
		if (one) {
			event.preventDefault();
			state.setTab(one);
			document.getElementById(`tab-${one}`)?.focus();
		}
	};
	const tabs = (["details", "selection", "events", "diff"] as const).filter((one) => one !== "diff" || state.isPair);
	return (
		<section class="drawer" aria-label="Details" style={{ "--drawer": `${height}px` }}>
			<div
				class="grip"
				role="separator"
				aria-orientation="horizontal"
				aria-label="Height of the panel"
				aria-valuenow={height}
				aria-valuemin={LOWEST}
				tabIndex={0}
				title="drag: the panel's height"
				onPointerDown={(event) => {
					event.currentTarget.setPointerCapture(event.pointerId);
					drag.current = event.clientY + height;
				}}
				onPointerMove={(event) => drag.current !== undefined && resize(drag.current - event.clientY)}
				onPointerUp={() => {
					drag.current = undefined;
				}}
				onLostPointerCapture={() => {
					drag.current = undefined;
				}}
				onKeyDown={(event) => {
					const by = { ArrowUp: 40, ArrowDown: -40 }[event.key];
					if (by) {
						event.preventDefault();
						event.stopPropagation();
						resize(height + by);
					}
				}}
			/>
			<div class="tabbar">
				<div class="tabs" role="tablist">
					{tabs.map((one, at) => (
						<button
							key={one}
							id={`tab-${one}`}
							type="button"
							role="tab"
							aria-selected={one === tab}
							aria-controls="panel"
							tabIndex={one === tab ? 0 : -1}
							onClick={() => state.setTab(one)}
							onKeyDown={(event) => stepTabs(event, at)}
						>
							{names[one]}
						</button>
					))}
				</div>
				<button type="button" class="close" aria-label="Close the details" onClick={() => state.setTab(undefined)}>
					×
				</button>
			</div>
			{/* biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll what is longer than the panel, also where it has no control */}
			<div id="panel" class="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
				{tab === "details" && <Details state={state} />}
				{tab === "selection" && <Selection state={state} />}
				{tab === "events" && <Events state={state} />}
				{tab === "diff" && <Changes state={state} />}
			</div>
		</section>
	);
}

function Stack({ title, frames }: { title: string; frames: Frame[] }) {
	const text = (frame: Frame) => {
		const at = typeof frame.address === "number" ? `0x${frame.address.toString(16)}` : frame.address;
		return clean([frame.func ?? at, frame.src ?? "", frame.bin ? `[${frame.bin}]` : ""].filter((it) => it !== "").join(" "));
	};
	const shown = frames.filter((frame) => frame.address !== 0);
	return (
		<>
			<dt>{title}</dt>
			<dd>{shown.length === 0 ? "empty" : shown.map((frame, n) => <div key={n}>{text(frame)}</div>)}</dd>
		</>
	);
}

function Fields({ record }: { record: EventRecord }) {
	const parts = [record.common, record.context, record.payload];
	const fields = parts.flatMap((part) => Object.entries(part ?? {}));
	return (
		<dl>
			<dt>event</dt>
			<dd>
				<b>{record.name}</b>
			</dd>
			{record.cpu !== undefined && <dt>cpu</dt>}
			{record.cpu !== undefined && <dd>{record.cpu}</dd>}
			{[record.callstack_kernel, record.callstack_user].map(
				(stack, n) =>
					stack && (
						<Stack key={n === 0 ? "kernel" : "user"} title={n === 0 ? "stack of the kernel" : "stack"} frames={stack} />
					),
			)}
			{fields.flatMap(([name, field], n) => [<dt key={`t${n}`}>{clean(name)}</dt>, <dd key={`d${n}`}>{value(field)}</dd>])}
		</dl>
	);
}

function Details({ state }: { state: State }) {
	const slice = state.slice;
	if (!slice) {
		return <p>Click a slice to see what it is: all fields of its records, and what ended it.</p>;
	}
	const kind = KIND_NAMES[slice.kind] ?? "";
	const isSample = slice.track_kind === "samples";
	const title = [isSample ? "sample" : kind, slice.track_kind === "counter" ? slice.label : slice.name].filter((it) => it !== "").join(" in ");
	const who = slice.track_kind === "cpu" ? slice.label : `${slice.label}${slice.tid === null ? "" : ` ${slice.tid}`}`;
	const to = slice.to_track;
	const side = sideOf(slice.track);
	const at = (time: number) => timeOfDay(state.baseOf(side), time - state.shiftOf(side));
	const fact = (name: string, children: ComponentChildren) => [<dt key={name}>{name}</dt>, <dd key={`${name}d`}>{children}</dd>];
	const isOfThread = ["thread", "calls", "span"].includes(slice.track_kind) && slice.to > slice.from && !state.api.isSaved;
	return (
		<>
			<h2>
				{title}{" "}
				{isOfThread && (
					<button type="button" aria-pressed={state.path !== undefined} onClick={() => void state.why()}>
						Why?
					</button>
				)}{" "}
				{state.isPair && <Align state={state} />}
			</h2>
			{state.path && <PathParts state={state} path={state.path} />}
			<div class="cols">
				<dl>
					{fact("of", `${who} — ${slice.title}${slice.pid === null ? "" : ` ${slice.pid}`}`)}
					{fact("took", length(slice.to - slice.from))}
					{fact("from", `${at(slice.from)} (${since(slice.from - state.bounds.from, 1)})`)}
					{fact("to", at(slice.to))}
					{slice.facts.flatMap(([name, text]) =>
						fact(
							name,
							<>
								{text}{" "}
								{to !== null && (
									<button type="button" onClick={() => state.goTo(to, slice.to)}>
										go there
									</button>
								)}
							</>,
						),
					)}
					{slice.had_cpu && fact(slice.had_cpu.cpu === null ? "who had the CPUs" : `who had CPU ${slice.had_cpu.cpu}`, <HadCpu state={state} had={slice.had_cpu} at={slice.from} />)}
				</dl>
				{slice.records.map((lines, n) => (
					<Records key={n} title={n === 0 ? "where it begins" : "where it ends"} lines={lines} />
				))}
			</div>
		</>
	);
}

/** Which threads had the CPU while one wanted it. */
function HadCpu({ state, had, at }: { state: State; had: NonNullable<Slice["had_cpu"]>; at: number }) {
	return (
		<>
			{had.threads.map(({ name, nanos, track }) => (
				<div key={name}>
					{length(nanos)}{" "}
					{track === null ? (
						name
					) : (
						<button type="button" class="link" title="go there" onClick={() => state.goTo(track, at)}>
							{name}
						</button>
					)}
				</div>
			))}
			{had.others > 0 && (
				<div>
					{length(had.others_nanos)} {counted(had.others, "other")}
				</div>
			)}
			{had.cut && <div>of the end of this time only: there is too much of it</div>}
		</>
	);
}

/** What the time of a path was spent in, thread by thread: the shares are of all of it. */
function PathParts({ state, path }: { state: State; path: Path }) {
	const parts = partsOf(path.steps);
	const all = path.to - path.from;
	const text = (part: PathPart) => [KIND_NAMES[part.kind] ?? "", part.name].filter((it) => it !== "").join(" in ");
	const who = (part: PathPart) => {
		const found = part.track === null ? undefined : state.trackOf(part.track);
		return found ? `${found.member.label} ${found.member.tid ?? ""} — ${found.group.title}` : "a thread that the trace does not know";
	};
	return (
		<table aria-label="The critical path">
			<thead>
				<tr>
					{["time", "share", "times", "thread", "what it did"].map((name, n) => (
						<th key={name} class={n < 3 ? "n" : ""} scope="col">
							{name}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				<tr>
					<td class="n">{length(all)}</td>
					<td class="n">100 %</td>
					<td class="n">{count(path.steps.length)}</td>
					<td colSpan={2}>{path.cut ? "all; the beginning has too many parts to be listed" : "all of it"}</td>
				</tr>
				{parts.slice(0, ROWS).map((part) => (
					<tr
						key={`${part.track}/${part.kind}/${part.name}`}
						class="go"
						onClick={() => {
							const half = Math.max(part.nanos / part.count, 1000) * 2;
							state.setRange({ from: part.at - half / 2, to: part.at + half });
						}}
					>
						<td class="n">{length(part.nanos)}</td>
						<td class="n">{((100 * part.nanos) / Math.max(all, 1)).toFixed(1)} %</td>
						<td class="n">{count(part.count)}</td>
						<td>
							<Go>{who(part)}</Go>
						</td>
						<td>{text(part)}</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

function Records({ title, lines }: { title: string; lines: string }) {
	const records = recordsOf(lines);
	if (records.length === 0) {
		return null;
	}
	return (
		<div>
			<dl>
				<dt>{title}</dt>
				<dd />
			</dl>
			{records.slice(0, 4).map((record, n) => (
				<Fields key={n} record={record} />
			))}
		</div>
	);
}

function Selection({ state }: { state: State }) {
	const { from, to } = state.asked;
	const sums = [...(state.sums ?? [])];
	const of = (it: { sums: number[] }, kind: number) => it.sums[kind] ?? 0;
	const ran = (it: { sums: number[] }) => of(it, RUNNING) + of(it, WOKEN) + of(it, PREEMPTED);
	sums.sort((a, b) => ran(b) - ran(a));
	const total = (kind: number) => sums.reduce((sum, it) => sum + of(it, kind), 0);
	const cells = (get: (kind: number) => number) =>
		[
			get(RUNNING),
			get(WOKEN) + get(PREEMPTED),
			get(BLOCKED),
			get(UNINTERRUPTIBLE),
			get(UNKNOWN),
		].map((nanos, n) => (
			<td key={n} class="n">
				{nanos > 0 ? length(nanos) : ""}
			</td>
		));
	const at = (time: number) => flag(state.baseOf(state.side), time - state.shiftOf(state.side));
	const typed = (state.side === 1 ? state.meta?.other : state.meta)?.typed ?? "";
	// A report is of all threads, as the page shows it. The tables are of the selected rows: so is the command, if it can be.
	const { picked } = state.choice;
	const isOfRows = picked.size > 0 && !state.report;
	const isOfCpus = isOfRows && state.groups.every((group) => group.members.every((it) => it.cpu !== null || !picked.has(it.key)));
	const number = isOfRows ? numberOf(state.groups, picked, state.side) : undefined;
	const name = state.report?.name ?? (isOfCpus ? "cpu --by thread" : "threads");
	const whose = number === undefined ? "" : `--of ${number} `;
	const command = `strata analyze ${name} --from ${at(Math.floor(from))} --until ${at(Math.ceil(to))} ${whose}${typed}`;
	const says = isOfRows && number === undefined ? `On the command line, of all ${isOfCpus ? "CPUs" : "threads"}:` : "The same on the command line:";
	// Rows that are not of threads, such as CPUs, have no states: what they did is in the other table.
	const isAnswered = state.sums !== undefined;
	const isOfNoThread = state.choice.picked.size > 0 && sums.length === 0;
	return (
		<>
			<div class="row">
				<b>{length(to - from)}</b>
				<Sides state={state} />
				{REPORTS.map((name) => (
					<button key={name} type="button" aria-pressed={state.report?.name === name} onClick={() => void state.runReport(name)}>
						{name}
					</button>
				))}
				{state.selection && (
					<button type="button" title="R: of the whole time" onClick={() => state.select(undefined, true)}>
						clear
					</button>
				)}
				<Picked state={state} />
			</div>
			{state.choice.picked.size > 0 && state.report && <p>A report is of all threads, not only of the selected rows.</p>}
			<p>
				{says} <code>{command}</code>
			</p>
			{(state.meta?.level ?? 0) > 0 && (
				<p>This page has cells instead of slices: of those at the ends of the time, the share that lies in it is taken.</p>
			)}
			{state.report?.name === "flame" ? (
				<FlameGraph key={`${from}/${to}`} text={state.report.text} dark={state.isDark} />
			) : state.report ? (
				<pre>{state.report.text}</pre>
			) : (
				<div class="cols">
				{isOfNoThread && isAnswered && !state.sliceSums?.rows.length && (
					<p>{state.api.isSaved ? "A saved page has the sums of threads only." : "The selected rows have nothing in this time."}</p>
				)}
				{!isOfNoThread && <table>
					<thead>
						<tr>
							<th scope="col">thread</th>
							<th scope="col">process</th>
							{["running", "runnable", "blocked", "uninterruptible", "unknown"].map((name) => (
								<th key={name} class="n" scope="col">
									{name}
								</th>
							))}
						</tr>
					</thead>
					<tbody>
						<tr>
							<td>{counted(sums.length, "thread")}</td>
							<td />
							{cells(total)}
						</tr>
						{sums.slice(0, ROWS).map((it) => (
							<tr key={it.track} class="go" onClick={() => state.goTo(it.track, from)}>
								<td>
									{state.isPair && <SideName side={sideOf(it.track)} />}{" "}
									<Go>
										{it.thread} {it.tid}
									</Go>
								</td>
								<td>
									{it.process} {it.pid}
									{it.machine ? ` · ${it.machine}` : ""}
								</td>
								{cells((kind) => of(it, kind))}
							</tr>
						))}
					</tbody>
				</table>}
				<SliceTable state={state} />
				</div>
			)}
			{!state.report && sums.length > ROWS && <p>{count(sums.length - ROWS)} more: see the report threads.</p>}
		</>
	);
}

/** What was done in the time, by name: how often, and how long. A click goes to the longest one. */
function SliceTable({ state }: { state: State }) {
	const { rows, cut } = state.sliceSums ?? { rows: [], cut: false };
	if (rows.length === 0) {
		return null;
	}
	return (
		<table aria-label="What was done">
			<thead>
				<tr>
					{["what", "name", "count", "total", "average", "minimum", "maximum"].map((name, n) => (
						<th key={name} class={n < 2 ? "" : "n"} scope="col">
							{name}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				{rows.slice(0, ROWS).map((it) => (
					<tr key={`${it.side}/${it.what}/${it.name}`} class="go" title="go to the longest" onClick={() => state.goTo(it.track, it.time)}>
						<td>{it.what}</td>
						<td>
							{state.isPair && <SideName side={it.side ?? 0} />} <Go>{it.name}</Go>
						</td>
						<td class="n">{count(it.count)}</td>
						{[it.total, it.total / it.count, it.min, it.max].map((nanos, n) => (
							<td key={n} class="n">
								{length(nanos)}
							</td>
						))}
					</tr>
				))}
				{(cut || rows.length > ROWS) && (
					<tr>
						<td colSpan={7}>There are more. Select a shorter time, or choose a report.</td>
					</tr>
				)}
			</tbody>
		</table>
	);
}

/** Frames of a flame graph that are made, and the least share of one. */
const BOXES = 3000;
const SHARE = 0.0015;
const FRAME_HEIGHT = 17;

function FlameGraph({ text, dark }: { text: string; dark: boolean }) {
	const [path, setPath] = useState<string[]>([]);
	const root = useMemo(() => unfolded(text), [text]);
	if (root.weight === 0) {
		return <pre>{text === "" ? "no call stacks and no spans in this time" : text}</pre>;
	}
	const all = boxes(root, path, SHARE, BOXES);
	const top = frameAt(root, path);
	const depth = all.reduce((most, it) => Math.max(most, it.depth), 0);
	return (
		<>
			<div class="row">
				<span>{count(top.weight)} samples or records (or ns in spans): as wide as its share</span>
				{path.map((name, n) => (
					<button key={n} type="button" onClick={() => setPath(path.slice(0, n))}>
						out of {name}
					</button>
				))}
			</div>
			<div class="flame" role="group" aria-label="Flame graph" style={{ height: `${(depth + 1) * FRAME_HEIGHT}px` }}>
				{all.map((box) => {
					const share = `${((100 * box.frame.weight) / root.weight).toFixed(1)} %`;
					return (
						<button
							key={box.path.join(";")}
							type="button"
							title={`${box.frame.name}: ${count(box.frame.weight)}, ${share}`}
							aria-label={`${box.frame.name}, ${share}`}
							style={{
								left: `${box.begin * 100}%`,
								width: `${box.width * 100}%`,
								top: `${box.depth * FRAME_HEIGHT}px`,
								background: nameColour(box.frame.name, dark ? DARK : LIGHT),
							}}
							onClick={() => setPath(box.path)}
						>
							{box.width > 0.01 ? box.frame.name : ""}
						</button>
					);
				})}
			</div>
		</>
	);
}

/** Aligns two traces by two slices: the one that is remembered, and the one that is shown. */
function Align({ state }: { state: State }) {
	const [one, two] = [state.anchor, state.slice];
	const isOther = one && two && sideOf(one.track) !== sideOf(two.track);
	return (
		<>
			<button type="button" onClick={() => state.alignHere()}>
				{isOther ? `Align with ${one.name || one.label} of ${sideOf(one.track) === 0 ? "A" : "B"}` : "Align …"}
			</button>
			{one && !isOther && <small> now click a slice of {sideOf(one.track) === 0 ? "B" : "A"} that should begin at the same time</small>}
		</>
	);
}

/** What is of most interest first; those of one verdict stay in the report's order, by their cost. */
const VERDICTS = ["slower", "faster", "new", "gone", "same", "few"];
const VERDICT_NAMES: Record<string, string> = { new: "only in B", gone: "only in A", few: "too few" };

const CHANGES = ["verdict", "program", "what", "A", "B", "change", "times in A", "in B", "cost"];

/** What became slower from A to B, in the time that is shown or selected. */
function Changes({ state }: { state: State }) {
	const [text, setText] = useState("");
	const [failed, setFailed] = useState("");
	const compared = state.compared;
	const report = compared?.diff?.report;
	const { from, to } = state.asked;
	const isOld = compared && (compared.range.from !== from || compared.range.to !== to || compared.shift !== state.shift);
	const what = (row: Change) =>
		row.kind === "cpu_delay" ? "wait for a CPU" : row.kind === "span" ? `span ${row.name ?? ""}` : (row.name ?? "");
	const typical = (row: Change, side: "before" | "after") => {
		const nanos = row.decided_by === "median" ? row[`${side}_p50_ns`] : row[`${side}_avg_ns`];
		return row[`${side}_count`] === 0 || nanos === null ? "" : length(nanos);
	};
	const rows = [...(report?.rows ?? [])].sort((a, b) => VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict));
	const change = (ratio: number | null) =>
		ratio === null ? "" : ratio >= 3 ? `${ratio.toFixed(1)}x` : `${ratio >= 1 ? "+" : "−"}${Math.abs((ratio - 1) * 100).toFixed(0)} %`;
	const align = async (filter: string) => {
		try {
			setFailed("");
			await state.alignBy(filter);
		} catch (error) {
			setFailed((error as Error).message);
		}
	};
	return (
		<>
			<form
				class="row"
				onSubmit={(event) => {
					event.preventDefault();
					void align(text);
				}}
			>
				<button type="button" disabled={!isOld} onClick={() => void state.compare()}>
					Compare the {length(to - from)} that {state.selection ? "are selected" : "are in view"}
				</button>
				<span>B is moved by {since(state.late, 1)}</span>
				<button type="button" onClick={() => state.alignBegins()}>
					Begin together
				</button>
				<input
					value={text}
					onInput={(event) => setText(event.currentTarget.value)}
					aria-label="Align the first records that this filter selects"
					placeholder="or align the first records that are, as strata view -f: execve"
					spellcheck={false}
				/>
				<button type="submit" disabled={text.trim() === ""}>
					Align
				</button>
			</form>
			{failed !== "" && <p class="error">{failed}</p>}
			{compared?.error && <p class="error">{compared.error}</p>}
			{compared && !compared.error && !report && <p>comparing …</p>}
			{compared?.diff && report && (
				<>
					<p>
						Within {length(compared.range.to - compared.range.from)}: <b>{count(report.slower)} slower</b>, {count(report.faster)} faster,{" "}
						{count(report.same)} the same, {count(report.few)} with too few values to say, {count(report.new)} only in B,{" "}
						{count(report.gone)} only in A.
					</p>
					<table aria-label="What became slower">
						<thead>
							<tr>
								{CHANGES.map((name, n) => (
									<th key={name} class={n > 2 ? "n" : ""} scope="col">
										{name}
									</th>
								))}
							</tr>
						</thead>
						<tbody>
							{rows.slice(0, ROWS).map((row) => (
								<tr
									key={`${row.program}/${row.kind}/${row.name}`}
									class="go"
									title="search for this program"
									onClick={() => state.setSearch(row.program)}
								>
									<td class={row.verdict}>{VERDICT_NAMES[row.verdict] ?? row.verdict}</td>
									<td>
										<Go>{row.program}</Go>
									</td>
									<td>
										{what(row)}
										{row.decided_by === "median" ? " (median)" : ""}
									</td>
									<td class="n">{typical(row, "before")}</td>
									<td class="n">{typical(row, "after")}</td>
									<td class="n">{change(row.ratio)}</td>
									<td class="n">{count(row.before_count)}</td>
									<td class="n">{count(row.after_count)}</td>
									<td class="n">
										{row.cost_ns < 0 ? "−" : "+"}
										{length(Math.abs(row.cost_ns))}
									</td>
								</tr>
							))}
						</tbody>
					</table>
					<p>
						The same on the command line: <code>{compared.diff.command}</code>
					</p>
				</>
			)}
		</>
	);
}
