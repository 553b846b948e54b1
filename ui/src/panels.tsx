// The panels below the tracks. All that is of a trace is put in as text, never as HTML: Preact makes text of it.

import type { ComponentChildren } from "preact";
import type { EventRecord, Frame, Path } from "./api";
import { useMemo, useState } from "preact/hooks";
import { boxes, frameAt, unfolded } from "./flame";
import { type PathPart, partsOf } from "./path";
import type { State } from "./state";
import { BLOCKED, PREEMPTED, RUNNING, UNINTERRUPTIBLE, UNKNOWN, WOKEN } from "./tile";
import { clean } from "./text";
import { DARK, LIGHT, nameColour } from "./theme";
import { count, flag, length, since, timeOfDay } from "./time";
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

export function Drawer({ state }: { state: State }) {
	const tab = state.tab;
	if (!tab) {
		return null;
	}
	const names = { details: "Details", selection: state.selection ? "Selection" : "In view", events: "Events" } as const;
	return (
		<section class="drawer" aria-label="Details">
			<div class="tabs" role="tablist">
				{(["details", "selection", "events"] as const).map((one) => (
					<button
						key={one}
						type="button"
						role="tab"
						aria-selected={one === tab}
						onClick={() => state.setTab(one)}
					>
						{names[one]}
					</button>
				))}
				<button type="button" class="close" aria-label="Close the details" onClick={() => state.setTab(undefined)}>
					×
				</button>
			</div>
			<div class="panel" role="tabpanel">
				{tab === "details" && <Details state={state} />}
				{tab === "selection" && <Selection state={state} />}
				{tab === "events" && <Events state={state} />}
			</div>
		</section>
	);
}

/** A value as one text. What is in it has names of its own, which are the trace's. */
function value(of: unknown): string {
	return typeof of === "string" ? of : clean(JSON.stringify(of));
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
				)}
			</h2>
			{state.path && <PathParts state={state} path={state.path} />}
			<div class="cols">
				<dl>
					{fact("of", `${who} — ${slice.title}${slice.pid === null ? "" : ` ${slice.pid}`}`)}
					{fact("took", length(slice.to - slice.from))}
					{fact("from", `${timeOfDay(state.base, slice.from)} (${since(slice.from - state.bounds.from, 1)})`)}
					{fact("to", timeOfDay(state.base, slice.to))}
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
				</dl>
				{slice.records.map((lines, n) => (
					<Records key={n} title={n === 0 ? "where it begins" : "where it ends"} lines={lines} />
				))}
			</div>
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
						<td>{who(part)}</td>
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
	const command = `strata analyze ${state.report?.name ?? "threads"} --from ${flag(state.base, Math.floor(from))} --until ${flag(state.base, Math.ceil(to))} ${state.meta?.typed ?? ""}`;
	return (
		<>
			<div class="row">
				<b>{length(to - from)}</b>
				{REPORTS.map((name) => (
					<button key={name} type="button" aria-pressed={state.report?.name === name} onClick={() => void state.runReport(name)}>
						{name}
					</button>
				))}
				{state.selection && (
					<button type="button" onClick={() => state.select(undefined, true)}>
						clear
					</button>
				)}
			</div>
			<p>
				The same on the command line: <code>{command}</code>
			</p>
			{(state.meta?.level ?? 0) > 0 && (
				<p>This page has cells instead of slices: of those at the ends of the time, the share that lies in it is taken.</p>
			)}
			{state.report?.name === "flame" ? (
				<FlameGraph key={`${from}/${to}`} text={state.report.text} dark={state.isDark} />
			) : state.report ? (
				<pre>{state.report.text}</pre>
			) : (
				<table>
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
							<td>{count(sums.length)} threads</td>
							<td />
							{cells(total)}
						</tr>
						{sums.slice(0, ROWS).map((it) => (
							<tr key={it.track} class="go" onClick={() => state.goTo(it.track, from)}>
								<td>
									{it.thread} {it.tid}
								</td>
								<td>
									{it.process} {it.pid}
								</td>
								{cells((kind) => of(it, kind))}
							</tr>
						))}
					</tbody>
				</table>
			)}
			{!state.report && sums.length > ROWS && <p>{count(sums.length - ROWS)} more: see the report threads.</p>}
		</>
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
			<div class="flame" role="list" aria-label="Flame graph" style={{ height: `${(depth + 1) * FRAME_HEIGHT}px` }}>
				{all.map((box) => {
					const share = `${((100 * box.frame.weight) / root.weight).toFixed(1)} %`;
					return (
						<button
							key={box.path.join(";")}
							type="button"
							role="listitem"
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

function Events({ state }: { state: State }) {
	const events = state.events;
	const brief = (record: EventRecord) => {
		const fields = Object.entries({ ...record.context, ...record.payload });
		return clean(fields.map(([name, of]) => `${name}=${value(of)}`).join(" "));
	};
	return (
		<>
			<form
				class="row"
				onSubmit={(event) => {
					event.preventDefault();
					void state.find(state.draft);
				}}
			>
				<input
					name="filter"
					value={state.draft}
					onInput={(event) => {
						state.draft = event.currentTarget.value;
					}}
					aria-label="Filter, in the language of strata view -f"
					placeholder="filter, as strata view -f: openat && duration > 1ms"
					spellcheck={false}
				/>
				<button type="submit">Filter</button>
				<button type="button" aria-label="To the hit before" onClick={() => state.goToHit(false)}>
					[
				</button>
				<button type="button" aria-label="To the next hit" onClick={() => state.goToHit(true)}>
					]
				</button>
				{state.filter !== "" && (
					<span>
						{state.hitAt < 0 ? "" : `${count(state.hitAt + 1)} of `}
						{count(state.hits.length)}
						{state.hitsCut ? " or more" : ""} in the trace
					</span>
				)}
				{state.selection && (
					<button type="button" onClick={() => state.select(undefined, true)}>
						Clear the selection
					</button>
				)}
			</form>
			{events?.error && <p class="error">{events.error}</p>}
			{events && !events.error && (
				<p>
					{count(events.records.length)}
					{events.cut ? " and more" : ""} in the {length(events.range.to - events.range.from)} that {state.selection ? "are selected" : "are in view"}
				</p>
			)}
			{events && (
				<table>
					<thead>
						<tr>
							{["time", "cpu", "thread", "event", "fields"].map((name) => (
								<th key={name} scope="col">
									{name}
								</th>
							))}
						</tr>
					</thead>
					<tbody>
						{events.records.map((record, n) => {
							const time = Number(BigInt(record.time) - state.base);
							return (
								<tr key={n} class="go" onClick={() => state.mark(time)} title="mark this moment">
									<td>{timeOfDay(state.base, time)}</td>
									<td class="n">{record.cpu}</td>
									<td class="n">{value(record.common?.tid ?? record.context?.vtid ?? "")}</td>
									<td>{record.name}</td>
									<td>{brief(record)}</td>
								</tr>
							);
						})}
					</tbody>
				</table>
			)}
			{events?.cut && events.records.length > 0 && (
				<p>There are more: these are the first {count(events.records.length)}. Zoom in, or filter.</p>
			)}
			{events?.cut && events.records.length === 0 && (
				<p>Nothing was found within 5 s, or the first record has more than 1 MiB. Zoom in, or filter.</p>
			)}
		</>
	);
}

const KEYS: [string, string][] = [
	["W S, + −", "zoom in and out"],
	["A D, ← →", "earlier and later"],
	["↑ ↓", "up and down"],
	["F", "fit the selection or slice; again: all"],
	["0", "all of the trace"],
	["Backspace", "the range before"],
	["/", "search processes and threads"],
	["E", "events, with a filter"],
	["[ ]", "hit before, next hit of the filter"],
	["Y", "why: the critical path of the slice"],
	["M", "mark the moment under the pointer"],
	["L", "go with the end of a recording, or stay"],
	["T", "light or dark"],
	["Esc", "close, then clear the selection"],
	["?", "these keys"],
];

export function Help({ close }: { close: () => void }) {
	return (
		<div class="help" role="dialog" aria-modal="true" aria-label="Keys" onClick={close}>
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
				<p>
					Drag over the tracks to select a time, with Shift to move. The wheel scrolls, with Ctrl it zooms, with Shift it
					moves. A click on a slice shows all that is known of it; a double click zooms to it.
				</p>
				<p>
					Cells that stand for many slices show each state as high as its share of the time. Hatched: the trace does not
					say. Red crosses: records were discarded there.
				</p>
				<button type="button" onClick={close}>
					Close
				</button>
			</div>
		</div>
	);
}
