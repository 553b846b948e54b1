// The page: bar, overview, ruler, names, tracks, panels. This file is what the user touches; State knows, Drawing draws.
//
// ```text
// keys, mouse, wheel, buttons ─▶ a method of State ─▶ changed() ─▶ requestAnimationFrame ─▶ Page is rendered again
//                                                                       ├─ Preact: bar, names of rows, Drawer (panels.tsx)
//                                                                       └─ Picture, a copy of the state ─▶ Drawing: three canvases
// ```
//
// A change costs at most one rendering for each frame of the screen, however many events there were. While the server
// still reads the trace, a timer renders once a second, so that tiles are asked for anew.
//
// - From a point to what is there: `timeAt` (through the folds of the axis), `bandAt` (the row), `itemUnder` (the slice, by its
//   tile). Of two traces that are compared, the second one's times are moved by `state.shiftOf`.
// - A drag (`Drag` of pointer.ts) moves the picture, or selects a time whose ends snap to ends of slices.
// - Whatever can be done by the mouse can be done by keys; the names of rows are buttons, so that a screen reader has them.
//
// The last lines start it: on a saved page the trace is in the document (`SavedApi`), otherwise the server is asked, with the
// token of the address.

import { render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Drawing, type Picture } from "./draw";
import { Help } from "./help";
import { namesOfKey, takesKey, takesText } from "./key_targets";
import { Drawer } from "./panels";
import { SideName } from "./parts";
import { fits, isUnknown, type Row, rowAt } from "./track_rows";
import { PairApi, sideOf } from "./trace_pair";
import type { Api, Meta, Slice } from "./api";
import { Drag, turnOf } from "./pointer";
import { SavedApi } from "./saved_page";
import { longTime } from "./folds";
import { Hints, stepsDone } from "./hints";
import { State } from "./state";
import { neighbour } from "./slice_steps";
import { itemAt } from "./tile";
import { count, counted, distances, exact, joined, length, levelOf, since, tileWidth, timeOfDay } from "./time";
import { OverviewTip, Tip } from "./tips";

/** Distances of marks that are shown. */
const DISTANCES = 4;
/** Ends of slices that are so near hold what is dragged [px]. */
const SNAP = 6;

/** A canvas as large as its place, with a pixel for each of the screen's. */
function context(canvas: HTMLCanvasElement | null): [CanvasRenderingContext2D, number, number] | undefined {
	const box = canvas?.parentElement?.getBoundingClientRect();
	const pen = canvas?.getContext("2d", { alpha: false });
	if (!canvas || !box || !pen || box.width < 1 || box.height < 1) {
		return undefined;
	}
	const ratio = window.devicePixelRatio || 1;
	const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
	if (canvas.width !== width || canvas.height !== height) {
		canvas.width = width;
		canvas.height = height;
		canvas.style.width = `${box.width}px`;
		canvas.style.height = `${box.height}px`;
	}
	pen.setTransform(ratio, 0, 0, ratio, 0, 0);
	return [pen, box.width, box.height];
}

/** Hints, with what the browser has kept; some keep nothing, and refuse to be asked. */
function hintsOf(): Hints {
	try {
		return new Hints(localStorage);
	} catch {
		return new Hints(undefined);
	}
}

function Page({ api }: { api: Api }) {
	const [, setTick] = useState(0);
	const frame = useRef(0);
	const [state] = useState(
		() =>
			new State(api, () => {
				// As often as the screen shows something new.
				frame.current ||= requestAnimationFrame(() => {
					frame.current = 0;
					setTick((tick) => tick + 1);
				});
			}),
	);
	const [drawing] = useState(() => new Drawing(state.tiles));
	const [hints] = useState(hintsOf);
	const overview = useRef<HTMLCanvasElement>(null);
	const ruler = useRef<HTMLCanvasElement>(null);
	const tracks = useRef<HTMLCanvasElement>(null);
	const plot = useRef<HTMLDivElement>(null);
	const rowNames = useRef<HTMLElement>(null);
	const searchBox = useRef<HTMLInputElement>(null);
	const drag = useRef<Drag | undefined>(undefined);
	/** What the last click in the tracks has asked for. */
	const hit = useRef<Promise<Slice | undefined> | undefined>(undefined);
	const overviewDrag = useRef<{ x: number; time: number } | undefined>(undefined);
	const [pointer, setPointer] = useState<{ x: number; y: number } | undefined>(undefined);
	const [overviewAt, setOverviewAt] = useState<number | undefined>(undefined);

	useEffect(() => {
		void state.begin();
		const redraw = () => setTick((tick) => tick + 1);
		const calm = () => state.calm();
		window.addEventListener("resize", redraw);
		// Before what the action itself has to say.
		window.addEventListener("pointerdown", calm, true);
		window.addEventListener("keydown", calm, true);
		const poll = setInterval(() => {
			if (state.meta && !state.meta.done) {
				redraw();
			}
		}, 1000);
		return () => {
			window.removeEventListener("resize", redraw);
			window.removeEventListener("pointerdown", calm, true);
			window.removeEventListener("keydown", calm, true);
			clearInterval(poll);
		};
	}, [state]);

	const width = () => plot.current?.clientWidth ?? 1;
	const nanosPerPixel = () => state.folds.length(state.range) / width();
	const timeAt = (x: number) => state.folds.real(state.folds.shown(state.range.from) + x * nanosPerPixel(), true);

	useLayoutEffect(() => {
		document.documentElement.classList.toggle("dark", state.isDark);
		const picture: Picture = {
			range: state.range,
			folds: state.folds,
			bounds: state.bounds,
			rows: state.rows.slice(rowAt(state.rows, state.scroll)),
			scroll: state.scroll,
			selection: state.selection,
			chosen: state.slice,
			chosenMachine: state.slice && !state.isPair ? state.trackOf(state.slice.track)?.group.machine : undefined,
			path: state.path?.steps,
			allRows: state.rows,
			arrow: state.slice?.to_track !== null && state.slice?.track_kind === "thread" ? state.slice : undefined,
			cursor: state.tab === "events" ? state.list.chosen?.time : undefined,
			hits: state.hits.times,
			marks: state.marks,
			gaps: state.overview?.gaps ?? [],
			uncertainty: new Map((state.meta?.guests ?? []).map((it) => [it.machine, it.uncertainty])),
			shift: state.shift,
			theme: state.theme,
			name: state.name,
		};
		const begin = performance.now();
		const one = context(overview.current);
		if (one) {
			drawing.overview(one[0], picture, state.overview, one[1], one[2]);
		}
		const two = context(ruler.current);
		if (two) {
			drawing.ruler(two[0], picture, two[1], two[2]);
		}
		const three = context(tracks.current);
		if (three && state.meta) {
			if (state.height !== three[2]) {
				// Which rows have a name to be shown follows from it.
				state.height = three[2];
				state.scrollTo(state.scroll);
			}
			drawing.rows(three[0], picture, three[1], three[2]);
			state.tiles.fetch();
		}
		// For whoever measures: how long a picture takes, and whether all of it is there.
		document.documentElement.dataset.frame = (performance.now() - begin).toFixed(1);
		const isSharp = state.rows.length > 0 && !state.tiles.isBusy() && !state.isFetchingNames;
		document.documentElement.dataset.sharp = String(Boolean(state.meta) && isSharp);
		document.documentElement.dataset.ready = String(
			Boolean(state.meta?.done) && !state.tiles.isBusy() && !state.isFetchingNames && !state.isAsking,
		);
	});

	/** Looks at a slice of a row at a time; shows where it is if that is out of view. */
	const lookAt = (row: Row | undefined, time: number) => {
		const band = row?.bands[0];
		if (row && band) {
			if (row.y < state.scroll || row.y + row.height > state.scroll + state.height) {
				state.scrollTo(row.y - state.height / 3);
			}
			if (time < state.range.from || time > state.range.to) {
				const half = state.folds.length(state.range) / 2;
				state.setRange({ from: time - half, to: time + half });
			}
			void state.choose(band.track.id, time);
		}
	};

	/** The next slice of the row, or the one before; without one, one in the middle of what is in view. */
	const step = (isNext: boolean) => {
		const slice = state.slice;
		if (!slice) {
			const rows = state.rows.slice(rowAt(state.rows, state.scroll));
			lookAt(rows.find((row) => !row.isGroup && row.bands.length > 0), state.middle);
			return;
		}
		const shift = state.shiftOf(sideOf(slice.track));
		const own = { from: slice.from - shift, to: slice.to - shift };
		const level = levelOf(nanosPerPixel());
		const index = Math.floor((isNext ? own.to : own.from) / tileWidth(level));
		for (const at of [index, isNext ? index + 1 : index - 1]) {
			const tile = state.tiles.get(slice.track, level, at);
			const time = tile && neighbour(tile, own, isNext);
			if (time !== undefined) {
				const isOut = time + shift < state.range.from || time + shift > state.range.to;
				if (isOut) {
					const half = state.folds.length(state.range) / 2;
					state.setRange({ from: time + shift - half, to: time + shift + half });
				}
				void state.choose(slice.track, time + shift);
				return;
			}
		}
		state.tiles.fetch();
	};

	/** Has reports and lists be of the row of the slice that is looked at, or of the first row. */
	const pickHere = (isMore: boolean) => {
		const rows = state.rows.filter((row) => !row.isGroup);
		const track = state.slice?.track;
		const row = rows.find((row) => row.bands.some((band) => band.track.id === track)) ?? state.rows[rowAt(state.rows, state.scroll)];
		if (row) {
			state.pick(keysOf(row, state), isMore);
		}
	};

	/** What the row above or below did at that time. */
	const stepRow = (by: 1 | -1) => {
		const slice = state.slice;
		const rows = state.rows.filter((row) => !row.isGroup && row.bands.length > 0);
		const at = rows.findIndex((row) => row.bands.some((band) => band.track.id === slice?.track));
		if (!slice || at < 0) {
			step(true);
			return;
		}
		lookAt(rows[at + by], (slice.from + slice.to) / 2);
	};

	useEffect(() => {
		const pressed = (event: KeyboardEvent) => {
			if (takesText(event.target)) {
				if (event.key === "Escape") {
					(event.target as HTMLElement).blur();
				}
				return;
			}
			const names = namesOfKey(event);
			// There is nothing yet that keys could change, or the list of keys is above it: what is behind a dialog takes none.
			const isBehind = state.help && event.key !== "Escape" && event.key !== "?";
			if (names.length === 0 || !state.meta || isBehind || (!event.shiftKey && takesKey(event.target, event.key))) {
				return;
			}
			const at = pointer ? timeAt(pointer.x) : undefined;
			const isInList = event.target instanceof HTMLElement && event.target.closest(".lines") !== null;
			const keys: Record<string, () => void> = {
				KeyW: () => state.zoom(0.7, at),
				KeyS: () => state.zoom(1 / 0.7, at),
				KeyA: () => state.pan(-0.2),
				KeyD: () => state.pan(0.2),
				ArrowLeft: () => state.pan(-0.2),
				ArrowRight: () => state.pan(0.2),
				ArrowUp: () => (event.shiftKey ? stepRow(-1) : state.scrollTo(state.scroll - 60)),
				ArrowDown: () => (event.shiftKey ? stepRow(1) : state.scrollTo(state.scroll + 60)),
				PageUp: () => state.scrollTo(state.scroll - state.height),
				PageDown: () => state.scrollTo(state.scroll + state.height),
				Backspace: () => state.back(),
				KeyE: () => state.setTab("events"),
				Escape: () => {
					if (giveUp()) {
						// A drag is what is going on.
					} else if (state.help) {
						state.showHelp(false);
					} else if (state.tab) {
						state.setTab(undefined);
					} else if (state.selection) {
						state.select(undefined, true);
					} else if (state.choice.picked.size > 0) {
						state.pick([...state.choice.picked], false);
					}
				},
				// Those above by their place on the keyboard; what has another place elsewhere by what it is.
				c: () => state.setOnlyMine(!state.isOnlyMine),
				o: () => state.arrange((it) => it.focusOn(it.focus === "" ? state.process : "")),
				h: () => state.arrange((it) => (event.shiftKey ? it.showAll() : it.hide(state.process))),
				r: () => state.wholeTime(),
				x: () => pickHere(event.shiftKey),
				f: () => state.fit(),
				"0": () => state.fitAll(),
				"+": () => state.zoom(0.7, at),
				"-": () => state.zoom(1 / 0.7, at),
				"/": () => searchBox.current?.focus(),
				"[": () => state.goToHit(false),
				"]": () => state.goToHit(true),
				",": () => step(false),
				".": () => step(true),
				l: () => state.follow(!state.follows),
				m: () => state.mark(isInList ? (state.list.chosen?.time ?? state.middle) : (at ?? state.middle)),
				t: () => state.setDark(!state.isDark),
				v: () => state.select(joined(event.shiftKey ? state.selection : undefined, state.slice ?? state.range), true),
				y: () => void state.why(),
				z: () => state.setFolding(state.folds.all.length === 0),
				"?": () => state.showHelp(!state.help),
			};
			const act = names.map((name) => keys[name]).find((it) => it !== undefined);
			if (act) {
				event.preventDefault();
				act();
				setTick((tick) => tick + 1);
			}
		};
		window.addEventListener("keydown", pressed);
		return () => window.removeEventListener("keydown", pressed);
	});

	// Not passive: the browser would zoom the page. There is no plot before the trace is known.
	// biome-ignore-start lint/correctness/useExhaustiveDependencies: timeAt and width ask state and plot, which stay the same
	const isKnown = state.meta !== undefined;
	useEffect(() => {
		// Over the names, no time is under the pointer.
		const turned = (event: WheelEvent) => {
			event.preventDefault();
			const turn = turnOf(event, state.height);
			if ("zoom" in turn) {
				state.zoom(turn.zoom, event.currentTarget === plot.current ? timeAt(event.offsetX) : undefined);
			} else if ("panPixels" in turn) {
				state.pan(turn.panPixels / width());
			} else {
				state.scrollTo(state.scroll + turn.scrollPixels);
			}
		};
		const places = [plot.current, rowNames.current];
		for (const place of places) {
			place?.addEventListener("wheel", turned, { passive: false });
		}
		return () => {
			for (const place of places) {
				place?.removeEventListener("wheel", turned);
			}
		};
	}, [state, isKnown]);
	// biome-ignore-end lint/correctness/useExhaustiveDependencies: as above

	const bandAt = (y: number) => {
		const row = state.rowAt(y);
		const inRow = row ? y + state.scroll - row.y - 1 : 0;
		const bands = row?.bands ?? [];
		const band = bands.find((it) => inRow >= it.y && inRow < it.y + it.height + 1);
		return { row, band: band ?? bands[0] };
	};

	/** The item under a point, its tile, and its place there. */
	const itemUnder = (x: number, y: number) => {
		const { row, band } = bandAt(y);
		const perPixel = nanosPerPixel();
		const level = levelOf(perPixel);
		// In the time of the trace that the row is of.
		const time = timeAt(x) - state.shiftOf(row?.side);
		const tile = band && state.tiles.get(band.track.id, level, Math.floor(time / tileWidth(level)));
		const n = tile ? itemAt(tile, time, 3 * perPixel) : -1;
		return { row, band, tile, n, time };
	};

	/** The end of a slice in that row that is near; else the time as it is. */
	const snapped = (x: number, y: number, isFree: boolean) => {
		const { row, tile, n, time } = itemUnder(x, y);
		const shift = state.shiftOf(row?.side);
		const near = SNAP * nanosPerPixel();
		if (!tile || isFree) {
			return time + shift;
		}
		let best = time;
		let distance = near;
		for (const at of [n - 1, n, n + 1]) {
			for (const end of [tile.from[at], tile.to[at]]) {
				if (end !== undefined && Math.abs(end - time) < distance) {
					best = end;
					distance = Math.abs(end - time);
				}
			}
		}
		return best + shift;
	};

	const where = (event: PointerEvent) => {
		const box = plot.current?.getBoundingClientRect();
		return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
	};

	const down = (event: PointerEvent) => {
		const { x, y } = where(event);
		if (event.button > 1) {
			return;
		}
		plot.current?.setPointerCapture(event.pointerId);
		const isPan = event.shiftKey || event.button === 1;
		drag.current = new Drag(x, y, snapped(x, y, event.altKey), isPan, state.selection);
	};

	const moved = (event: PointerEvent) => {
		const { x, y } = where(event);
		setPointer({ x, y });
		const move = drag.current?.move(x, y);
		if (move && "panX" in move) {
			state.pan(move.panX / width());
			state.scrollTo(state.scroll + move.panY);
		} else if (move) {
			// What is selected is in view, wherever the pointer is.
			const time = snapped(Math.min(Math.max(x, 0), width()), y, event.altKey);
			state.select({ from: Math.min(move.selectFrom, time), to: Math.max(move.selectFrom, time) }, false);
		}
	};

	const up = (event: PointerEvent) => {
		const { x, y } = where(event);
		const of = drag.current;
		drag.current = hit.current = undefined;
		if (!of || of.isPan) {
			return;
		}
		if (of.hasSelected) {
			const range = state.selection;
			state.select(range && range.to > range.from ? range : undefined, true);
			return;
		}
		const { row, band, tile, n, time } = itemUnder(x, y);
		if (band && tile && n >= 0) {
			const at = Math.min(Math.max(time, tile.from[n] ?? time), Math.max((tile.to[n] ?? time) - 1, tile.from[n] ?? time));
			hit.current = state.choose(band.track.id, at + state.shiftOf(row?.side));
		}
	};

	/** The browser has taken the pointer away, as for a gesture: what is selected by then stays. After `up` there is no drag. */
	const cancelled = () => {
		const of = drag.current;
		drag.current = undefined;
		if (of?.hasSelected) {
			state.select(state.selection, true);
		}
	};

	/** Ends a drag without what it was for: what was selected before it is selected again. Returns whether there was one. */
	const giveUp = () => {
		const of = drag.current;
		const isAny = of !== undefined || overviewDrag.current !== undefined;
		drag.current = overviewDrag.current = undefined;
		if (of?.hasSelected) {
			state.select(of.before, true);
		}
		return isAny;
	};

	/** The second click of the two has asked for a slice already, unless there was none. */
	const twice = () => void state.fitChosen(hit.current);

	const overviewTime = (event: PointerEvent) => {
		const box = overview.current?.getBoundingClientRect();
		const share = (event.clientX - (box?.left ?? 0)) / (box?.width ?? 1);
		const begin = state.folds.shown(state.bounds.from);
		return state.folds.real(begin + Math.min(Math.max(share, 0), 1) * state.folds.length(state.bounds), true);
	};
	const overviewEnd = (event: PointerEvent) => {
		const begin = overviewDrag.current?.time;
		overviewDrag.current = undefined;
		if (begin === undefined) {
			return;
		}
		const end = overviewTime(event);
		const [from, to] = [Math.min(begin, end), Math.max(begin, end)];
		const isClick = state.folds.length({ from, to }) < state.folds.length(state.bounds) / 300;
		const half = state.folds.length(state.range) / 2;
		state.setRange(isClick ? { from: end - half, to: end + half } : { from, to });
	};

	const meta = state.meta;
	if (!meta && state.awaits) {
		return <Awaiting state={state} meta={state.awaits} />;
	}
	if (!meta) {
		return <div class="failure">{state.error === "" ? "Opening the trace …" : <p class="error">{state.error}</p>}</div>;
	}
	const first = rowAt(state.rows, state.scroll);
	const visible: Row[] = [];
	for (let n = first; n < state.rows.length; n++) {
		const row = state.rows[n];
		if (!row || row.y > state.scroll + state.height) {
			break;
		}
		visible.push(row);
	}
	const isZoomed = state.range.to - state.range.from < (state.bounds.to - state.bounds.from) * 0.9 && !meta.live;
	const hint = hints.next(
		stepsDone({ isZoomed, hasLooked: state.slice !== undefined, hasSelected: state.selection !== undefined, hasAsked: state.help }),
	);
	const bar = (state.height / Math.max(state.rowsHeight, state.height)) * state.height;
	const at = pointer ? timeAt(pointer.x) : undefined;
	// What is no name of a process or thread may be one of an event.
	const isNothing = state.search.trim() !== "" && !api.isSaved && state.rows.every((row) => row.isPinned);
	const isFound = state.search.trim() !== "" && !isNothing && !api.isSaved && state.tab !== "events";
	const isHidden = isNothing && state.groups.some((group) => group.members.some((it) => fits(group, it, state.search) && !isUnknown(it)));
	const searchEvents = () => {
		const { search } = state;
		state.setSearch("");
		state.tab = "events";
		void state.find(search);
	};
	return (
		<main class="app" style={{ "--names": window.innerWidth >= 2200 ? "320px" : "240px" }}>
			<header class="bar">
				<h1>
					<b>strata</b>{" "}
					{meta.other ? (
						<>
							<SideName side={0} /> {meta.title} <SideName side={1} /> {meta.other.title}
						</>
					) : (
						meta.title
					)}
				</h1>
				<button type="button" aria-label="Zoom out" onClick={() => state.zoom(2)}>
					−
				</button>
				<button type="button" aria-label="Zoom in" onClick={() => state.zoom(0.5)}>
					+
				</button>
				<button type="button" onClick={() => state.fitAll()}>
					Fit
				</button>
				<button type="button" onClick={() => state.back()}>
					Back
				</button>
				<span class="facts">
					{meta.other && `${count(meta.records)} and `}
					{counted(meta.other?.records ?? meta.records, "event")}
					{meta.whole && ` in ${length(meta.whole[1] - meta.whole[0])}; saved: ${length(meta.to - meta.from)} of it`}
					{meta.level !== undefined && meta.level > 0 && `, in cells of ${length(2 ** meta.level)}`}
					{meta.live && meta.records === 0 && ": it is recorded, and the first one is shown as soon as it comes"}
				</span>
				{/* Whoever does not see this takes what is shown for all that happened: it is never cut. */}
				<span class="losses">
					{meta.discarded > 0 && <strong>{count(meta.discarded)} discarded</strong>}
					{meta.packets > 0 && <strong>{counted(meta.packets, "packet")} discarded</strong>}
					{meta.damages > 0 && <strong title={meta.damage.join("\n")}>{counted(meta.damages, "damaged place")}</strong>}
					{meta.failure !== null && <strong>{meta.failure}</strong>}
					{state.error !== "" && <strong>{state.error}</strong>}
				</span>
				{meta.live && (
					<button type="button" class="live" aria-pressed={state.follows} title="L" onClick={() => state.follow(!state.follows)}>
						{state.follows ? "● live" : "○ go live"}
					</button>
				)}
				{meta.snapshots && (
					<button type="button" disabled={state.isTaking} title="takes what the flight recorder holds now, and shows it" onClick={() => void state.takeSnapshot()}>
						{state.isTaking ? "taking …" : "Snapshot"}
					</button>
				)}
				{meta.other && (
					<button type="button" aria-pressed={state.tab === "diff"} onClick={() => state.setTab(state.tab === "diff" ? undefined : "diff")}>
						Compare
					</button>
				)}
				{!meta.done && !meta.live && <progress aria-label="Read so far" value={meta.read} max={Math.max(meta.bytes, 1)} />}
				<input
					ref={searchBox}
					type="search"
					value={state.search}
					placeholder="/ search names and numbers"
					aria-label="Search processes and threads"
					spellcheck={false}
					onInput={(event) => state.setSearch(event.currentTarget.value)}
					onKeyDown={(event) => {
						if (event.key === "Enter" && isNothing) {
							event.currentTarget.blur();
							searchEvents();
						}
					}}
				/>
				{state.knowsMine && (
					<button
						type="button"
						aria-pressed={state.isOnlyMine}
						title="C: only the recorded command and what it started"
						onClick={() => state.setOnlyMine(!state.isOnlyMine)}
					>
						Command
					</button>
				)}
				{state.hasFolds && (
					<button
						type="button"
						aria-pressed={state.folds.all.length > 0}
						title="Z: long times without events are left out"
						onClick={() => state.setFolding(state.folds.all.length === 0)}
					>
						Folded
					</button>
				)}
				{!api.isSaved && (
					<button type="button" onClick={() => state.setTab(state.tab === "events" ? undefined : "events")}>
						Events
					</button>
				)}
				<button type="button" onClick={() => state.setTab(state.tab === "selection" ? undefined : "selection")}>
					Reports
				</button>
				<button type="button" aria-label={state.isDark ? "Light" : "Dark"} onClick={() => state.setDark(!state.isDark)}>
					{state.isDark ? "☀" : "☾"}
				</button>
				<button type="button" aria-label="Keys and signs" onClick={() => state.showHelp(true)}>
					?
				</button>
			</header>
			{state.unanswered !== "" && (
				<p class="unanswered" role="alert">
					{state.unanswered}
				</p>
			)}
			<div class="corner">
				{timeOfDay(state.base, state.bounds.from)}
				<br />
				{length(state.bounds.to - state.bounds.from)}
			</div>
			<div
				class="plot overview"
				role="img"
				aria-label={`Events over time: ${count(meta.records)}, ${count(meta.discarded)} discarded`}
				onPointerDown={(event) => {
					event.currentTarget.setPointerCapture(event.pointerId);
					overviewDrag.current = { x: where(event).x, time: overviewTime(event) };
				}}
				onPointerMove={(event) => setOverviewAt(where(event).x)}
				onPointerUp={overviewEnd}
				onPointerCancel={() => {
					overviewDrag.current = undefined;
				}}
				onLostPointerCapture={() => {
					overviewDrag.current = undefined;
				}}
				onPointerLeave={() => setOverviewAt(undefined)}
			>
				<canvas ref={overview} />
				{overviewDrag.current && overviewAt !== undefined && (
					<div
						class="dragged"
						style={{
							left: `${Math.min(overviewAt, overviewDrag.current.x)}px`,
							width: `${Math.abs(overviewAt - overviewDrag.current.x)}px`,
						}}
					/>
				)}
			</div>
			{overviewAt !== undefined && <OverviewTip state={state} x={overviewAt} width={width()} />}
			<div class="corner">{length(state.folds.length(state.range))} shown</div>
			<div class="plot">
				<canvas ref={ruler} />
				{state.folds.marks(state.range, width()).map(({ fold, x }) => (
					<button
						key={fold.from}
						type="button"
						class="fold"
						style={{ left: `${x}px` }}
						title="no events for so long: click to show this time"
						aria-label={`Show ${longTime(fold.to - fold.from)} without events`}
						onClick={() => state.unfold(fold)}
					>
						{longTime(fold.to - fold.from)}
					</button>
				))}
			</div>
			<nav ref={rowNames} class="names" aria-label="Processes and threads">
				{isNothing && (
					<div class="nothing" role="status">
						<p>
							{isHidden ? "Only hidden rows have" : "No process, thread, CPU or disk has"} “{state.search}” in{" "}
							{isHidden ? "their names or numbers" : "its name or number"}.
						</p>
						{isHidden && (
							<button
								type="button"
								onClick={() => {
									state.setOnlyMine(false);
									state.arrange((it) => it.showAll());
								}}
							>
								Show all rows
							</button>
						)}
						<button type="button" onClick={searchEvents}>
							Search events for it
						</button>{" "}
						<small>Enter</small>
					</div>
				)}
				{visible.map((row) => (
					<Name key={row.key} row={row} state={state} />
				))}
			</nav>
			<div
				ref={plot}
				class="plot"
				role="img"
				aria-label={`Tracks, ${counted(state.rows.length, "row")}; the panels have all of it as text`}
				onPointerDown={down}
				onPointerMove={moved}
				onPointerUp={up}
				onPointerCancel={cancelled}
				onLostPointerCapture={cancelled}
				onPointerLeave={() => setPointer(undefined)}
				onDblClick={twice}
			>
				<canvas ref={tracks} />
				{bar < state.height && (
					<div
						class="scroll"
						style={{ height: `${Math.max(bar, 20)}px`, top: `${(state.scroll / state.rowsHeight) * state.height}px` }}
					/>
				)}
				{pointer && !drag.current && (
					<Tip state={state} under={itemUnder(pointer.x, pointer.y)} pointer={pointer} width={width()} nanosPerPixel={nanosPerPixel()} />
				)}
			</div>
			<Drawer state={state} />
			<footer class="status">
				{hint !== "" && <span class="hint">{hint}</span>}
				<span>{at === undefined ? "" : `${timeOfDay(state.base, at)}  ${since(at - state.bounds.from, nanosPerPixel())}`}</span>
				{state.selection && <span>selected: {length(state.selection.to - state.selection.from)}</span>}
				{isFound && <span class="hint">Esc, then E: events, also of the found rows only</span>}
				{state.marks.length > 1 && (
					<span class="between">
						between marks: {distances(state.marks).slice(0, DISTANCES).map(exact).join(", ")}
						{state.marks.length > DISTANCES + 1 && " …"}
					</span>
				)}
				{state.hiddenRows > 0 && <span>{counted(state.hiddenRows, "row")} hidden</span>}
				{(state.choice.hidden.size > 0 || state.choice.focus !== "") && (
					<button type="button" title="Shift+H" onClick={() => state.arrange((it) => it.showAll())}>
						show all
					</button>
				)}
				{state.choice.picked.size > 0 && <span>selected: {counted(state.choice.picked.size, "row")}</span>}
				<span class="legend">
					{[
						[0, "running"],
						[1, "runnable"],
						[3, "blocked"],
						[4, "uninterruptible"],
					].map(([kind, text]) => (
						<span key={text}>
							<Swatch colour={state.theme.states[kind as number] ?? ""} /> {text}
						</span>
					))}
					<span>hatched: unknown</span>
				</span>
			</footer>
			{state.help && <Help theme={state.theme} close={() => state.showHelp(false)} />}
		</main>
	);
}

/** There is no trace yet. */
function Awaiting({ state, meta }: { state: State; meta: Meta }) {
	return (
		<main class="failure awaiting">
			<h1>{meta.title}</h1>
			<p role="status">{meta.awaits}. This page shows it as soon as there is something.</p>
			{meta.snapshots && (
				<button type="button" disabled={state.isTaking} onClick={() => void state.takeSnapshot()}>
					{state.isTaking ? "taking …" : "Snapshot"}
				</button>
			)}
			{state.error !== "" && <p class="error">{state.error}</p>}
			{state.unanswered !== "" && <p class="error">{state.unanswered}</p>}
		</main>
	);
}

function Swatch({ colour }: { colour: string }) {
	return <span aria-hidden="true" style={{ width: "12px", height: "10px", background: colour, borderRadius: "2px" }} />;
}

/** What is picked by the name of a row: itself, or all rows of a heading. */
function keysOf(row: Row, state: State): string[] {
	const group = state.groups.find((group) => group.key === row.group);
	return row.isGroup ? (group?.members.map((it) => it.key) ?? []) : [row.key.replace(/^(pin|path):/, "")];
}

function Name({ row, state }: { row: Row; state: State }) {
	const style = { top: `${row.y - state.scroll}px`, height: `${row.height}px` };
	const keys = keysOf(row, state);
	const isPicked = keys.length > 0 && keys.every((key) => state.choice.picked.has(key));
	const toggle = () => state.arrange((it) => it.toggle(row.key, row.isOpen));
	if (row.isGroup) {
		return (
			<div class={isPicked ? "name group picked" : "name group"} style={style}>
				<button
					type="button"
					class="toggle"
					aria-expanded={row.isOpen}
					aria-label={`${row.isOpen ? "Close" : "Open"} ${row.label}`}
					onClick={() => toggle()}
				>
					{row.isOpen ? "▾" : "▸"}
				</button>
				{state.isPair && <SideName side={row.side} />}
				<button
					type="button"
					class="label"
					title={row.label}
					aria-label={`Reports of ${row.label}`}
					aria-pressed={isPicked}
					onClick={(event) => state.pick(keys, event.ctrlKey || event.metaKey)}
					onDblClick={() => toggle()}
				>
					{row.label}
				</button>
				<span class="note">{row.note}</span>
				{row.group.startsWith("cpus-") && (
					<button type="button" class="act" aria-label={`What the rows of ${row.label} show`} title="?: what is seen here" onClick={() => state.showHelp(true)}>
						?
					</button>
				)}
				{/^(process|kernel)-/.test(row.group) && (
					<button
						type="button"
						class="act"
						aria-label={`Only ${row.label}`}
						title="O: only this process, or all"
						aria-pressed={state.choice.focus === row.group}
						onClick={() => state.arrange((it) => it.focusOn(row.group))}
					>
						◉
					</button>
				)}
				<button
					type="button"
					class="act"
					aria-label={`Hide ${row.label}`}
					title="H: hide"
					onClick={() => state.arrange((it) => it.hide(row.group))}
				>
					×
				</button>
			</div>
		);
	}
	return (
		<div class={isPicked ? "name picked" : "name"} style={style}>
			{state.isPair && <SideName side={row.side} />}
			<button
				type="button"
				class="label"
				title={`${row.title} › ${row.label}`}
				aria-label={`Reports of ${row.label}`}
				aria-pressed={isPicked}
				onClick={(event) => state.pick(keys, event.ctrlKey || event.metaKey)}
			>
				{row.label}
			</button>
			<span class="note">{row.note}</span>
			<button
				type="button"
				class="act"
				aria-pressed={row.isPinned}
				aria-label={`Pin ${row.label}`}
				title="pin"
				onClick={() => state.arrange((it) => it.pin(row.key))}
			>
				★
			</button>
		</div>
	);
}

const app = document.getElementById("app");
const saved = document.getElementById("trace")?.textContent;
const api = saved ? new SavedApi(saved) : new PairApi(new URLSearchParams(location.search).get("token") ?? "");
if (app) {
	app.textContent = "";
	render(<Page api={api} />, app);
}
