// The list of events: as many rows as are seen, of however many there are.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { EventRecord } from "./api";
import { Density, isOrderUnknown, ROW_HEIGHT } from "./event_list";
import { Picked, Sides, value } from "./parts";
import type { State } from "./state";
import { clean } from "./text";
import { machinesOf } from "./trace_pair";
import { count, length, timeOfDay } from "./time";

/** Rows that are made above and below what is seen, and steps of the handle. */
const SPARE = 3;
const STEPS = 10_000;

const COLUMNS = ["time", "cpu", "thread", "event", "fields"];

function brief(record: EventRecord): string {
	const fields = Object.entries({ ...record.context, ...record.payload });
	return clean(fields.map(([name, of]) => `${name}=${value(of)}`).join(" "));
}

export function Events({ state }: { state: State }) {
	const { list, hits } = state;
	return (
		<div class="events">
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
				<Sides state={state} />
				<button type="button" aria-label="To the hit before" onClick={() => state.goToHit(false)}>
					[
				</button>
				<button type="button" aria-label="To the next hit" onClick={() => state.goToHit(true)}>
					]
				</button>
				{state.filter !== "" && (
					<span>
						{hits.at < 0 ? "" : `${count(hits.at + 1)} of `}
						{count(hits.times.length)}
						{hits.isCut ? " or more" : ""} in the trace
					</span>
				)}
				{state.selection && (
					<button type="button" title="R: of the whole time" onClick={() => state.select(undefined, true)}>
						Clear the selection
					</button>
				)}
				<Picked state={state} />
			</form>
			{list.error !== "" && <p class="error">{list.error}</p>}
			{list.of && list.error === "" && <List state={state} />}
		</div>
	);
}

function List({ state }: { state: State }) {
	const { list } = state;
	const place = useRef<HTMLDivElement>(null);
	const { range, side, filter } = list.of ?? { range: state.range, side: 0 as const, filter: "" };
	const overview = side === 1 ? state.overview?.other : state.overview;
	const shift = state.shiftOf(side);
	const { from, to } = range;
	const density = useMemo(() => overview && new Density(overview, { from, to }, shift), [overview, from, to, shift]);
	useLayoutEffect(() => {
		const room = (place.current?.clientHeight ?? 0) - ROW_HEIGHT;
		if (room > 0 && Math.abs(room - list.height) > 1) {
			list.height = room;
			list.scrollTo(list.top);
		}
	});
	// Keys go to the list as soon as it is there: E, then arrows.
	useEffect(() => {
		const focused = document.activeElement;
		if (focused === document.body || focused?.matches(".panel")) {
			place.current?.focus({ preventScroll: true });
		}
	}, []);
	const first = Math.max(Math.floor(list.top / ROW_HEIGHT) - SPARE, 0);
	const seen = list.rows.slice(first, Math.ceil((list.top + list.height) / ROW_HEIGHT) + SPARE);
	const isWhole = list.isBegin && list.isEnd;
	const number = isWhole
		? count(list.rows.length)
		: filter === "" && density
			? `about ${count(Math.round(density.all))}`
			: `${count(list.rows.length)} and more`;
	const keys: Record<string, () => void> = {
		ArrowUp: () => list.step(-1),
		ArrowDown: () => list.step(1),
		PageUp: () => list.page(-1),
		PageDown: () => list.page(1),
		Home: () => void list.begin(),
		End: () => void list.end(),
		Enter: () => list.chosen && state.center(list.chosen.time),
	};
	const machines = machinesOf(state.meta, side);
	const isOfSeveral = machines.length > 1;
	const guests = (side === 1 ? state.meta?.other : state.meta)?.guests;
	const clocks = useMemo(
		() => new Map(isOfSeveral ? (guests ?? []).map((it) => [machines[it.machine] ?? "", it.uncertainty]) : []),
		[isOfSeveral, guests, machines],
	);
	const columns = isOfSeveral ? ["time", "host", ...COLUMNS.slice(1)] : COLUMNS;
	const at = list.rows[Math.floor(list.top / ROW_HEIGHT)];
	const isAtEnd = list.isEnd && list.top + list.height >= list.rows.length * ROW_HEIGHT - 1;
	const share = isAtEnd && !isWhole ? 1 : at && density && !(list.isBegin && list.top === 0) ? density.share(at.time) : 0;
	return (
		<>
			<p>
				{number} in the {length(to - from)} that {state.selection ? "are selected" : "are in view"}
				{list.rows.length === 0 && !isWhole && ". Nothing was found within 5 s, or a record has more than 1 MiB: zoom in, or filter"}
				{list.isStuck && ". No more was found within 5 s, or a record has more than 1 MiB: scroll on to search again, zoom in, or filter"}
			</p>
			<div class="listing">
				<div
					ref={place}
					class="lines"
					// biome-ignore lint/a11y/noNoninteractiveTabindex: a list that keys scroll must be where they go
					tabIndex={0}
					role="group"
					aria-label="Events: arrows move, Enter shows one in the middle of the tracks"
					onKeyDown={(event) => {
						const act = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey ? undefined : keys[event.key];
						if (act) {
							event.preventDefault();
							event.stopPropagation();
							act();
						}
					}}
					onWheel={(event) => {
						event.preventDefault();
						list.scrollTo(list.top + event.deltaY * (event.deltaMode === 1 ? 20 : 1));
					}}
				>
					<table style={{ top: `${first * ROW_HEIGHT - list.top}px` }} aria-rowcount={isWhole ? list.rows.length : -1}>
						<thead>
							<tr>
								{columns.map((name) => (
									<th key={name} scope="col" style={{ top: `${list.top - first * ROW_HEIGHT}px` }}>
										{name}
									</th>
								))}
							</tr>
						</thead>
						<tbody>
							{seen.map(({ record, time, nth }, n) => (
								<tr
									key={`${time}/${nth}`}
									class="go"
									aria-current={first + n === list.cursor}
									title="show this moment; M marks it"
									onClick={() => list.choose(first + n)}
									onDblClick={() => state.center(time)}
								>
									<td>
										{isOrderUnknown(list.rows, first + n, clocks) && (
											<abbr title="it may have been before one of another machine that is in front of it: their clocks are not known better">~ </abbr>
										)}
										{timeOfDay(state.baseOf(side), time - shift)}
									</td>
									{isOfSeveral && <td>{record.host ?? ""}</td>}
									<td class="n">{record.cpu}</td>
									<td class="n">{value(record.common?.tid ?? record.context?.vtid ?? "")}</td>
									<td>{record.name}</td>
									<td>{brief(record)}</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
				{!isWhole && density && (
					<input
						type="range"
						class="place"
						aria-label="Place in the list"
						min={0}
						max={STEPS}
						value={Math.round(share * STEPS)}
						onInput={(event) => {
							const wanted = Number(event.currentTarget.value) / STEPS;
							if (list.wanted) {
								void (wanted >= 1 ? list.end() : wanted <= 0 ? list.begin() : list.show(list.wanted, density.time(wanted)));
							}
						}}
					/>
				)}
			</div>
		</>
	);
}
