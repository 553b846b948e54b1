// What the page knows and shows, and what may be done to it.
//
// ```text
// keys, mouse, buttons (main.tsx, panels.tsx) ─▶ a method of State ─▶ fields change ─▶ changed() ─▶ everything is drawn again
//                                                    └─▶ Api ─▶ server ─▶ answer ──────┘
// ```
//
// There is one State for a page. What the user does is a method; only fields without consequences (text that is being
// typed) are set from outside. `changed` is called after each change, and draws at most once for each frame of the screen.
//
// - `begin` asks what the trace is, again and again while it is read or recorded, and adds new tracks. While the
//   server does not answer, `reconnect` asks more and more rarely; what is on the page stays.
// - Answers may come in any order. Each kind of question has a counter (`reports`, `choices`, ...), and an
//   answer counts no more if a later question of its kind was asked meanwhile.
// - `range` is what the axis shows. Panels follow it when it has not moved for `FOLLOW` ms; a report does not
//   follow, since it takes the server seconds.
// - What is worth sharing is kept in the address behind the # (address.ts), from which `fromAddress` restores it.
// - Two traces side by side are one API (trace_pair.ts) whose second trace is moved by `shift`.

import { type Api, type EventRecord, type Meta, NoAnswer, type Overview, type Path, recordsOf, type Side, type Slice, type SliceSums, type ThreadSums, type Track } from "./api";
import { hashOf, viewOf } from "./address";
import { EventList } from "./event_list";
import { Hits } from "./hits";
import { Questions } from "./questions";
import { isGone, whatToDo } from "./server_gone";
import { Folds, foldsOf } from "./folds";
import { boundsOf, machinesOf, momentOf, ownId, PairApi, sideOf } from "./trace_pair";
import { filterOf, RowChoice, tracksOf as tracksOfRows } from "./row_choice";
import { type Group, groupsOf, type Member, memberOf, nameVirtualCpus, type Row, rowAt, rowsOf } from "./track_rows";
import { tracksOf } from "./critical_path";
import type { Compared } from "./panel_data";
import { DARK, isDarkAtFirst, keepDark, LIGHT, type Theme } from "./theme";
import { Tiles } from "./tiles";
import { followed, kept, panned, type Range, toggled, zoomed } from "./time";

export type Tab = "details" | "selection" | "events" | "diff";

/** Hits of a search. */
const HITS = 2000;
/** How long a range stays before the panels follow it [ms]. */
const FOLLOW = 250;
/**
 * How often a trace that is read or recorded is asked for what is new [ms]. With a flush period of 1 s, what is recorded is
 * seen within two seconds, the age of a tile included.
 */
const POLL = 400;
/** How long a server that does not answer is left alone, at first and at most [ms]. */
const AGAIN = 250;
const AGAIN_MOST = 4000;
/** How often its tracks are, unless there are more of them [ms]. */
const TRACKS_POLL = 5000;
/** How much of a recording is shown at first [ns]. */
const LIVE = 10e9;
/** Ranges that Back goes to. */
const PAST = 100;
/** Rows of a critical path that are on top. */
const PATH_ROWS = 8;

export class State {
	readonly tiles: Tiles;
	meta: Meta | undefined;
	base = 0n;
	bounds: Range = { from: 0, to: 1 };
	range: Range = { from: 0, to: 1 };
	overview: Overview | undefined;
	/** Of each of the two traces. */
	private readonly names: [string[], string[]] = [[], []];
	groups: Group[] = [];
	rows: Row[] = [];
	rowsHeight = 0;
	hiddenRows = 0;
	scroll = 0;
	height = 1;
	search = "";
	readonly choice = new RowChoice();
	isOnlyMine = false;
	selection: Range | undefined;
	slice: Slice | undefined;
	tab: Tab | undefined;
	sums: ThreadSums[] | undefined;
	sliceSums: SliceSums | undefined;
	report: { name: string; text: string } | undefined;
	readonly list: EventList;
	/** Where the list begins that the address asks for. */
	private place: number | undefined;
	private isRestored = false;
	filter = "";
	/** What is typed, and not yet asked for. */
	draft = "";
	/** Why something took so long: its parts on other threads. */
	path: Path | undefined;
	pathTracks: number[] = [];
	readonly hits = new Hits();
	marks: number[] = [];
	/** What is shown goes with the end of the recording. */
	follows = false;
	/** The trace whose records and reports are shown, where two are compared. */
	side: Side = 0;
	compared: Compared | undefined;
	/** The slice that another one of the other trace is to be aligned with. */
	anchor: Slice | undefined;
	isTaking = false;
	/** Long times without events are left out of the axis, but for those that begin at these times. */
	isFolding = true;
	private readonly unfolded = new Set<number>();
	folds = new Folds();
	/** Why nobody answers, and what to do; empty: somebody does. */
	unanswered = "";
	/** What is waited for while there is no trace. */
	awaits: Meta | undefined;
	/** A recording that has no record yet: there is no time to show. */
	isEmpty = false;
	private again: Promise<void> | undefined;
	help = false;
	error = "";
	/** The trace is asked for no more, for the reason that `error` has. */
	private isStuck = false;
	isDark: boolean;
	private readonly past: Range[] = [];
	private sumsOf = "";
	/** What was asked for, counted by its kind: only the answer to the latest of each kind is shown. */
	private reports = 0;
	private choices = 0;
	private paths = 0;
	/** The user has said how the second trace is aligned, so what else is known of the two moves it no more. */
	private isAligned = false;
	/** How much later than the first trace the address has the second one begin [ns]. */
	private later = 0;
	private following: ReturnType<typeof setTimeout> | undefined;
	private noting: ReturnType<typeof setTimeout> | undefined;
	private readonly questions: Questions;
	isFetchingNames = false;

	constructor(
		readonly api: Api,
		private readonly changed: () => void,
	) {
		this.questions = new Questions(changed);
		this.tiles = new Tiles(this.api, (error) => {
			if (error) {
				this.fail(error);
			}
			this.changed();
		});
		this.list = new EventList(
			({ range, filter, side, ...place }) => this.api.events(range.from, range.to, place.limit, filter, side, place),
			(record, side) => this.moment(record, side),
			() => this.listMoved(),
			(error) => this.notice(error),
		);
		this.isDark = isDarkAtFirst();
	}

	get theme(): Theme {
		return this.isDark ? DARK : LIGHT;
	}

	fail(error: unknown): void {
		if ((this.meta || this.awaits) && isGone(error)) {
			void this.reconnect();
			return;
		}
		this.say(error);
	}

	/** What a panel shows itself is no failure of the page, unless nobody answers. */
	private notice(error: unknown): void {
		if (isGone(error)) {
			this.fail(error);
		}
	}

	/** Something else is done: what was said of the action before is of no interest. What ended the page's questions stays. */
	calm(): void {
		if (this.error !== "" && !this.isStuck) {
			this.error = "";
			this.changed();
		}
	}

	private say(error: unknown): void {
		this.error = error instanceof Error ? error.message : String(error);
		this.changed();
	}

	/**
	 * Waits until the server answers again, and goes on. If it shows something else by then, the page is loaded again: the
	 * address has what is looked at.
	 */
	private reconnect(): Promise<void> {
		this.again ??= this.awaitServer().finally(() => {
			this.again = undefined;
		});
		return this.again;
	}

	private async awaitServer(): Promise<void> {
		const before = this.meta;
		this.tiles.isPaused = true;
		for (let pause = AGAIN; ; pause = Math.min(pause * 2, AGAIN_MOST)) {
			try {
				const meta = await this.api.meta();
				if (before && (meta.version !== before.version || meta.id !== before.id || meta.other?.id !== before.other?.id)) {
					location.reload();
					return;
				}
				break;
			} catch (error) {
				this.unanswered = whatToDo(error, this.meta);
				this.changed();
			}
			await new Promise((resolve) => setTimeout(resolve, pause));
		}
		this.unanswered = "";
		this.error = "";
		this.tiles.isPaused = false;
		this.isFetchingNames = false;
		if (this.report) {
			void this.runReport(this.report.name);
		}
		void this.refresh();
		this.changed();
	}

	/** Asks what the trace is, again and again while it is still read or recorded. */
	async begin(): Promise<void> {
		let tracks = { count: -1, records: -1, time: 0, took: 0 };
		for (let isKnown = false; ; ) {
			try {
				const meta = await this.api.meta();
				if (meta.awaits !== undefined) {
					document.title = `${meta.title} · strata`;
					this.awaits = meta;
					this.changed();
					await new Promise((resolve) => setTimeout(resolve, POLL));
					continue;
				}
				this.awaits = undefined;
				const before = this.bounds;
				const other = meta.other;
				const isNew =
					this.meta?.records !== meta.records || this.meta.to !== meta.to || this.meta.other?.records !== other?.records;
				this.meta = meta;
				this.base = BigInt(meta.base);
				this.beginTogether(!isKnown);
				this.bounds = boundsOf(meta, this.shift);
				const isDone = meta.done && (other?.done ?? true);
				const [all, records] = [meta.tracks + (other?.tracks ?? 0), meta.records + (other?.records ?? 0)];
				const wasEmpty = this.isEmpty;
				this.isEmpty = (meta.live && meta.records === 0) || meta.outlining === true;
				if (!isKnown || wasEmpty || this.isEmpty) {
					document.title = `${meta.title} · strata`;
					this.range = { ...this.bounds };
					this.follows = meta.live;
					if (meta.live) {
						this.range.from = Math.max(meta.from, meta.to - LIVE);
					}
					if (!this.isEmpty) {
						this.fromAddress();
					}
				} else if (this.follows || !meta.live) {
					// Of a trace that is still read it is not known at once how long it is.
					const isAll = this.range.from <= before.from && this.range.to >= before.to;
					this.range = this.follows || isAll ? followed(this.range, before, this.bounds) : this.range;
				}
				const isFirst = !isKnown;
				isKnown = true;
				if (isNew || isFirst || !isDone) {
					this.overview = await this.api.overview();
					this.fold();
					this.unfoldHere();
				}
				// Long lists are asked for less often: at most a tenth of the time.
				const age = Date.now() - tracks.time;
				const isChanged = tracks.records !== records || tracks.count !== all;
				const isDue = age > (tracks.count !== all ? tracks.took * 10 : TRACKS_POLL);
				if (isFirst || isDone || (isChanged && isDue)) {
					const begin = Date.now();
					this.setTracks(await this.api.tracks(), isDone);
					tracks = { count: all, records, time: Date.now(), took: Date.now() - begin };
				}
				if (this.isRestored) {
					this.isRestored = false;
					void this.refresh();
				}
				this.follows &&= meta.live;
				this.error = "";
				this.changed();
				if (isDone) {
					return;
				}
			} catch (error) {
				if (!(this.meta || this.awaits) || !isGone(error)) {
					this.isStuck = true;
					this.fail(error);
					return;
				}
				await this.reconnect();
			}
			await new Promise((resolve) => setTimeout(resolve, POLL));
		}
	}

	/** Goes with the end of the recording, or stays where it is. */
	follow(follows: boolean): void {
		this.follows = follows && this.meta?.live === true;
		if (this.follows && this.range.to < this.bounds.to) {
			const length = Math.min(this.range.to - this.range.from, LIVE);
			this.range = { from: this.bounds.to - length, to: this.bounds.to };
			this.moved();
		}
		this.changed();
	}

	private setTracks(tracks: Track[], isDone: boolean): void {
		for (const track of isDone ? [] : tracks) {
			// There may be more by now.
			track.to = Number.POSITIVE_INFINITY;
		}
		this.groups = groupsOf(tracks);
		for (const [side, meta] of [this.meta, this.meta?.other].entries()) {
			if (meta) {
				nameVirtualCpus(this.groups, meta, side as Side);
			}
		}
		this.layOut();
	}

	/** Decides anew which rows there are. */
	layOut(): void {
		const { search, isOnlyMine, pathTracks } = this;
		const { rows, height, hidden } = rowsOf(this.groups, { ...this.choice, search, isOnlyMine, pathTracks });
		this.rows = rows;
		this.rowsHeight = height;
		this.hiddenRows = hidden;
		this.scrollTo(this.scroll);
	}

	scrollTo(y: number): void {
		this.scroll = Math.max(0, Math.min(y, this.rowsHeight - this.height + 40));
		this.changed();
	}

	/** The row at a height of the plot. */
	rowAt(y: number): Row | undefined {
		return this.rows[rowAt(this.rows, y + this.scroll)];
	}

	/** The text of a name; asked for when it is not here yet. */
	name = (id: number): string => {
		const name = this.names[sideOf(id)][ownId(id)];
		if (name === undefined && !this.isFetchingNames) {
			this.isFetchingNames = true;
			void this.fetchNames(id);
		}
		return name ?? "";
	};

	private async fetchNames(wanted: number): Promise<void> {
		try {
			const side = sideOf(wanted);
			const names = this.names[side];
			for (;;) {
				const more = await this.api.names(names.length, side);
				names.push(...more);
				if (more.length === 0 || names.length > ownId(wanted)) {
					break;
				}
			}
		} catch (error) {
			// Where nobody answers, they are asked for again by what waits for an answer.
			this.fail(error);
			return;
		}
		this.isFetchingNames = false;
		this.changed();
	}

	// ---- two traces ----

	/** What is added to times of the second trace. */
	get shift(): number {
		return this.api instanceof PairApi ? this.api.shift : 0;
	}

	get isPair(): boolean {
		return Boolean(this.meta?.other);
	}

	/**
	 * The second trace begins with the first one, or as much later as the address says. A recording has no begin before its
	 * first record, so this is done again until the user aligns the two.
	 */
	private beginTogether(isFirst: boolean): void {
		const [meta, other] = [this.meta, this.meta?.other];
		if (!meta || !other || !(this.api instanceof PairApi) || this.isAligned) {
			return;
		}
		if (isFirst) {
			this.later = viewOf(location.hash).late;
			this.api.shift = meta.from - other.from + this.later;
		} else if (this.shift !== meta.from - other.from + this.later) {
			this.moveOther(meta.from - other.from + this.later);
		}
	}

	/** How much later the second trace is than if both began together [ns]. */
	get late(): number {
		return this.meta?.other ? this.shift - (this.meta.from - this.meta.other.from) : 0;
	}

	/** Moves the second trace to where the user wants it. */
	align(shift: number): void {
		this.isAligned = true;
		this.moveOther(shift);
	}

	/** Both traces begin together, also where one of them has no record yet. */
	alignBegins(): void {
		this.isAligned = false;
		this.later = 0;
		this.moveOther(this.shift - this.late);
	}

	private moveOther(shift: number): void {
		if (!(this.api instanceof PairApi) || !this.meta) {
			return;
		}
		this.api.shift = Math.round(shift);
		const before = this.bounds;
		this.bounds = boundsOf(this.meta, this.shift);
		const isAll = this.range.from <= before.from && this.range.to >= before.to;
		this.range = isAll ? { ...this.bounds } : kept(this.range, this.bounds);
		this.anchor = undefined;
		// What is shown of the second trace was of another time.
		if (this.slice && sideOf(this.slice.track) === 1) {
			this.slice = undefined;
		}
		this.choices++;
		this.dropPath();
		this.sumsOf = "";
		if (this.side === 1) {
			this.hits.drop();
		}
		this.layOut();
		this.moved();
	}

	/** Aligns the first records that a filter selects in each of the two traces. */
	async alignBy(filter: string): Promise<void> {
		const moments: number[] = [];
		for (const side of [0, 1] as const) {
			const { lines, cut } = await this.questions.counted(this.api.events(this.bounds.from, this.bounds.to, 1, filter, side));
			const first = recordsOf(lines)[0];
			if (!first) {
				const name = side === 0 ? "A" : "B";
				throw new Error(
					cut
						? `within 5 s no record of ${name} was found that is '${filter}': there may be one. Click a slice of each instead, and Align`
						: `${name} has no record that is '${filter}'`,
				);
			}
			moments.push(this.moment(first, side));
		}
		this.align(this.shift + (moments[0] ?? 0) - (moments[1] ?? 0));
	}

	/** Remembers the slice, or aligns it with the one of the other trace that was remembered: both begin together then. */
	alignHere(): void {
		const [one, two] = [this.anchor, this.slice];
		if (!two) {
			return;
		}
		if (!one || sideOf(one.track) === sideOf(two.track)) {
			this.anchor = two;
			this.changed();
			return;
		}
		const [first, second] = sideOf(one.track) === 0 ? [one, two] : [two, one];
		this.align(this.shift + first.from - second.from);
	}

	/** What became slower, in the time that is selected or shown. */
	async compare(): Promise<void> {
		const compared: Compared = { diff: undefined, error: "", range: { ...this.asked }, shift: this.shift };
		this.compared = compared;
		this.changed();
		try {
			compared.diff = await this.questions.counted(this.api.diff(compared.range.from, compared.range.to, this.shift));
		} catch (error) {
			this.notice(error);
			compared.error = (error as Error).message;
		}
		this.changed();
	}

	/** When a record was. */
	moment(record: EventRecord, side: Side): number {
		return momentOf(record, this.baseOf(side), this.shiftOf(side));
	}

	shiftOf(side: Side | undefined): number {
		return side === 1 ? this.shift : 0;
	}

	baseOf(side: Side): bigint {
		return side === 1 ? BigInt(this.meta?.other?.base ?? 0) : this.base;
	}

	/** What records and reports are of. */
	setSide(side: Side): void {
		this.side = side;
		this.setReport(undefined);
		this.hits.drop();
		if (this.filter !== "") {
			void this.find(this.filter);
		} else {
			void this.refresh();
		}
		this.changed();
	}

	/** Takes a snapshot of the flight recorder, and shows it. */
	async takeSnapshot(): Promise<void> {
		this.isTaking = true;
		this.changed();
		try {
			await this.api.snapshot();
			// What the address says is of the snapshot before.
			history.replaceState(null, "", `${location.pathname}${location.search}`);
			location.reload();
		} catch (error) {
			if (error instanceof NoAnswer) {
				this.fail(error);
			} else {
				this.say(error);
			}
		}
		this.isTaking = false;
		this.changed();
	}

	// ---- where we look ----

	setRange(range: Range, isStep = true): void {
		if (isStep) {
			this.past.push(this.range);
			this.past.splice(0, this.past.length - PAST);
		}
		this.range = kept(range, this.bounds);
		this.unfoldHere();
		this.leave();
		this.moved();
	}

	/** Who looks at what is earlier, or at less than the end, wants to stay there. */
	private leave(): void {
		this.follows &&= this.range.to >= this.bounds.to;
	}

	/** What panels have of the range follows it, once it stays for a moment. A report takes too long to follow. */
	private moved(): void {
		this.toAddress();
		this.changed();
		if (this.selection || (this.tab !== "selection" && this.tab !== "events")) {
			return;
		}
		this.setReport(undefined);
		clearTimeout(this.following);
		this.following = setTimeout(() => {
			this.following = undefined;
			void this.refresh();
		}, FOLLOW);
	}

	zoom(factor: number, at = this.middle): void {
		// What goes with the end keeps it.
		const fixed = this.folds.shown(this.follows ? this.range.to : at);
		this.range = this.folds.changed(this.range, this.bounds, (range, bounds) => zoomed(range, fixed, factor, bounds));
		this.moved();
	}

	pan(share: number): void {
		const by = this.folds.length(this.range) * share;
		this.range = this.folds.changed(this.range, this.bounds, (range, bounds) => panned(range, by, bounds));
		this.leave();
		this.moved();
	}

	/** The moment in the middle of what is shown. */
	get middle(): number {
		const { folds, range } = this;
		return folds.real((folds.shown(range.from) + folds.shown(range.to)) / 2, true);
	}

	// ---- long times without events ----

	/** Decides anew what is folded. Two traces side by side are not: what is empty in one is not in the other. */
	private fold(): void {
		const stretches = this.isFolding && !this.isPair ? (this.overview?.stretches ?? []) : [];
		this.folds = new Folds(foldsOf(stretches, this.bounds, this.unfolded));
	}

	/** Whether there is anything to fold. */
	get hasFolds(): boolean {
		return !this.isPair && foldsOf(this.overview?.stretches ?? [], this.bounds, new Set()).length > 0;
	}

	setFolding(isFolding: boolean): void {
		this.isFolding = isFolding;
		this.unfolded.clear();
		this.fold();
		this.unfoldHere();
		this.moved();
	}

	/** Shows a time without events that was folded. */
	unfold(fold: Range): void {
		for (const { from, to } of this.overview?.stretches ?? []) {
			if (from < fold.to && to > fold.from) {
				this.unfolded.add(from);
			}
		}
		this.fold();
		this.moved();
	}

	/** What is looked at is shown, also where nothing happened. */
	private unfoldHere(): void {
		const { from, to } = this.range;
		for (const fold of this.folds.length(this.range) < 10 ? this.folds.all : []) {
			if (fold.from < to && fold.to > from) {
				this.unfold(fold);
			}
		}
	}

	back(): void {
		const before = this.past.pop();
		if (before) {
			this.setRange(before, false);
		}
	}

	/** The selection, or the slice that is looked at, or else all. */
	fit(): void {
		const what = this.selection ?? this.slice;
		const isThere = what && Math.abs(what.from - this.range.from) + Math.abs(what.to - this.range.to) < 1;
		if (what && what.to > what.from && !isThere) {
			const room = this.selection ? 0 : (what.to - what.from) * 0.25;
			this.setRange({ from: what.from - room, to: what.to + room });
		} else {
			this.fitAll();
		}
	}

	fitAll(): void {
		this.setRange({ ...this.bounds });
	}

	/** Opens what a track is in, scrolls there, and shows a time: the nearest one at which the track has slices. */
	goTo(track: number, wanted: number): void {
		const found = this.trackOf(track);
		const of = found?.member.tracks.find((it) => it.id === track);
		if (!found || !of) {
			return;
		}
		const time = Math.max(Math.min(wanted, of.to + this.shiftOf(of.side)), of.from + this.shiftOf(of.side));
		this.choice.reveal(found.group.key);
		this.layOut();
		const row = this.rows.find((row) => !row.isGroup && row.bands.some((band) => band.track.id === track));
		if (row && (row.y < this.scroll || row.y + row.height > this.scroll + this.height)) {
			this.scrollTo(row.y - this.height / 3);
		}
		if (time < this.range.from || time > this.range.to) {
			this.center(time);
		}
		void this.choose(track, time);
	}

	// ---- what is looked at ----

	/** Looks at the slice of a track at a time, and returns it; undefined: there is none, or another one was chosen by then. */
	async choose(track: number, time: number): Promise<Slice | undefined> {
		const of = ++this.choices;
		let found: Slice | undefined;
		try {
			const slice = await this.questions.counted(this.api.slice(track, time));
			if (of !== this.choices) {
				return undefined;
			}
			found = slice;
			const isSame = this.slice?.track === slice.track && this.slice.from === slice.from;
			this.slice = slice;
			if (!isSame) {
				this.dropPath();
				this.layOut();
			}
			this.tab = "details";
			this.toAddress();
		} catch (error) {
			this.fail(error);
		}
		this.changed();
		return found;
	}

	/** Shows a slice as wide as the window, once the answer says which one it is. Without one, the range stays. */
	async fitChosen(answer: Promise<Slice | undefined> | undefined): Promise<void> {
		const slice = await answer;
		if (slice && slice === this.slice) {
			this.selection = undefined;
			this.fit();
		}
	}

	/** Draws the critical path of the slice that is looked at, or takes it away. */
	async why(): Promise<void> {
		const slice = this.slice;
		const isShown = this.path !== undefined;
		this.dropPath();
		const of = this.paths;
		try {
			if (!isShown && slice && slice.to > slice.from) {
				const path = await this.questions.counted(this.api.path(slice.track, slice.from, slice.to));
				// Another slice may be looked at by now.
				if (of !== this.paths) {
					return;
				}
				this.path = path;
				this.tab = "details";
			}
		} catch (error) {
			this.fail(error);
			return;
		}
		this.pathTracks = tracksOf(this.path?.steps ?? [], PATH_ROWS);
		this.layOut();
		if (this.path) {
			this.scrollTo(0);
		}
	}

	/** Shows no critical path; one that is still to come is not shown either. */
	private dropPath(): void {
		this.paths++;
		this.path = undefined;
		this.pathTracks = [];
	}

	/** The track of an id, and whose it is. */
	trackOf(id: number): { group: Group; member: Member } | undefined {
		return memberOf(this.groups, id);
	}

	select(range: Range | undefined, isComplete: boolean): void {
		this.selection = range;
		if (isComplete) {
			this.setReport(undefined);
			this.tab = !range || this.tab === "events" ? this.tab : "selection";
			this.toAddress();
			void this.refresh();
		}
		this.changed();
	}

	setTab(tab: Tab | undefined): void {
		this.tab = tab;
		void this.refresh();
		this.changed();
	}

	/** The time that reports and lists are of. */
	get asked(): Range {
		return this.selection ?? this.range;
	}

	/** Whether something is still to be shown that was asked for. */
	get isAsking(): boolean {
		return this.questions.areOpen || this.following !== undefined || this.list.isAsking;
	}

	/** Has the panel that is shown be of what is asked for now. */
	refresh(): Promise<void> {
		return this.questions.counted(this.fillPanel());
	}

	private async fillPanel(): Promise<void> {
		try {
			if (this.tab === "selection") {
				const [{ from, to }, { picked }] = [this.asked, this.choice];
				const tracks = new Set(tracksOfRows(this.groups, picked));
				// Which tracks the rows of an address have is not known before there are tracks.
				const key = [from, to, this.shift, this.meta?.records, ...picked, ...tracks].join("/");
				if (this.sumsOf !== key) {
					this.sumsOf = key;
					const isNone = picked.size > 0 && tracks.size === 0;
					const [sums, slices] = isNone ? [[], undefined] : await Promise.all([this.api.sums(from, to), this.api.slices(from, to, [...tracks])]);
					// The range may be another one by now: its own answer comes later.
					if (this.sumsOf === key) {
						this.sums = picked.size > 0 ? sums.filter((it) => tracks.has(it.track)) : sums;
						this.sliceSums = slices;
					}
				}
			}
			if (this.tab === "events") {
				await this.relist();
			}
			if (this.tab === "diff" && !this.compared) {
				await this.compare();
			}
		} catch (error) {
			// It is asked for again.
			this.sumsOf = "";
			this.fail(error);
		}
	}

	/** Lists the records again, at the place where the list is. */
	private async relist(): Promise<void> {
		const filter = filterOf(this.groups, this.choice.picked, this.side, this.filter, machinesOf(this.meta, this.side));
		const of = { range: { ...this.asked }, filter: filter ?? "", side: this.side };
		if (filter === undefined) {
			this.list.refuse(of, "The selected rows are of no thread, CPU or process of this trace, whose records could be listed");
			return;
		}
		await this.list.show(of, this.place ?? this.list.place);
		this.place = undefined;
	}

	/** The address follows the list, once that stays. */
	private listMoved(): void {
		this.changed();
		this.noting ??= setTimeout(() => {
			this.noting = undefined;
			this.toAddress();
		}, FOLLOW);
	}

	async runReport(name: string): Promise<void> {
		this.setReport({ name, text: "…" });
		this.changed();
		const of = this.reports;
		const range = { ...this.asked };
		let text: string;
		try {
			text = await this.questions.counted(this.api.report(name, range.from, range.to, this.side));
		} catch (error) {
			this.notice(error);
			text = (error as Error).message;
		}
		// By now another report, of another trace or time, may be asked for, or none.
		if (of === this.reports) {
			this.report = { name, text };
			this.changed();
		}
	}

	/** Shows this report, or none; answers that are still to come are of what is asked for no more. */
	private setReport(report: { name: string; text: string } | undefined): void {
		this.reports++;
		this.report = report;
	}

	/** Where records are, in the whole trace, that a filter selects. */
	async find(filter: string): Promise<void> {
		this.filter = filter;
		this.draft = filter;
		this.hits.drop();
		this.toAddress();
		if (filter.trim() !== "") {
			try {
				const side = this.side;
				const of = this.hits.searches;
				const { lines, cut } = await this.questions.counted(this.api.events(this.bounds.from, this.bounds.to, HITS, filter, side));
				if (of === this.hits.searches) {
					this.hits.times = recordsOf(lines).map((it) => this.moment(it, side));
					this.hits.isCut = cut;
				}
			} catch (error) {
				// What is wrong with the filter stands above the list.
				this.notice(error);
			}
		}
		await this.refresh();
	}

	/** To the next hit, or the one before. */
	goToHit(isNext: boolean): void {
		const slack = this.folds.length(this.range) / 1000;
		const center = (this.range.from + this.range.to) / 2;
		const hit = this.hits.step(isNext, (time) => Math.abs(time - center) <= slack, this.middle);
		if (hit !== undefined) {
			this.center(hit);
		}
	}

	/** Shows a time in the middle. */
	center(time: number): void {
		const half = this.folds.length(this.range) / 2;
		this.setRange({ from: time - half, to: time + half });
	}

	mark(time: number): void {
		this.marks = toggled(this.marks, time, this.folds.length(this.range) / 200);
		this.toAddress();
		this.changed();
	}

	/** Changes which rows are seen. */
	arrange(change: (choice: RowChoice) => void): void {
		change(this.choice);
		this.toAddress();
		this.layOut();
	}

	/** Has reports and lists be of these rows, whatever time is selected; of rows that they are of already, no more. */
	pick(keys: string[], isMore: boolean): void {
		const wrong = this.choice.pick(keys, isMore, this.groups);
		if (wrong !== "") {
			this.say(wrong);
			return;
		}
		if (this.choice.picked.size > 0 && this.tab !== "events") {
			this.tab = "selection";
		}
		this.setReport(undefined);
		this.toAddress();
		void this.refresh();
		this.changed();
	}

	/** The process that is looked at: that of the slice, of a row that is picked, or the first one. */
	get process(): string {
		const picked = [...this.choice.picked][0]?.split("/")[0];
		const first = this.rows.find((row) => /^(process|kernel)-/.test(row.group))?.group;
		return (this.slice && this.trackOf(this.slice.track)?.group.key) ?? picked ?? first ?? "";
	}

	/** All of the time, also for reports and lists; rows that are picked stay so. */
	wholeTime(): void {
		this.selection = undefined;
		this.fitAll();
		this.select(undefined, true);
	}

	/** Whether the traces say which of their processes was recorded. */
	get knowsMine(): boolean {
		return this.groups.some((group) => group.isMine);
	}

	setOnlyMine(isOnlyMine: boolean): void {
		this.isOnlyMine = isOnlyMine && this.knowsMine;
		this.toAddress();
		this.layOut();
	}

	setSearch(search: string): void {
		this.search = search;
		this.toAddress();
		this.layOut();
	}

	setDark(isDark: boolean): void {
		this.isDark = isDark;
		keepDark(isDark);
		this.changed();
	}

	/** Shows the list of keys and signs, or closes it. */
	showHelp(isShown: boolean): void {
		this.help = isShown;
		this.changed();
	}

	// ---- the address ----

	private toAddress(): void {
		// What it says is still to be shown.
		if (this.isEmpty) {
			return;
		}
		const { slice } = this;
		const hash = hashOf({
			...this,
			pinned: [...this.choice.pinned],
			hidden: [...this.choice.hidden],
			picked: [...this.choice.picked],
			focus: this.choice.focus,
			list: this.tab === "events" ? { place: this.list.place } : undefined,
			slice: slice && { track: slice.track, time: Math.floor((slice.from + slice.to) / 2) },
			late: this.late,
		});
		history.replaceState(null, "", hash);
	}

	private fromAddress(): void {
		const view = viewOf(location.hash);
		this.isFolding = view.isFolding;
		this.fold();
		this.range = kept(view.range ?? this.range, this.bounds);
		this.unfoldHere();
		this.leave();
		this.selection = view.selection;
		this.search = view.search;
		this.isOnlyMine = view.isOnlyMine;
		this.filter = view.filter;
		const choice = { pinned: new Set(view.pinned), hidden: new Set(view.hidden), picked: new Set(view.picked) };
		Object.assign(this.choice, choice, { focus: view.focus });
		this.marks = view.marks;
		if (view.slice) {
			void this.choose(view.slice.track, view.slice.time);
		}
		if (this.filter !== "") {
			void this.find(this.filter);
		}
		// What panels show depends on rows, which may not be here yet.
		this.place = view.list?.place;
		this.isRestored = true;
		this.tab = view.list ? "events" : this.selection || this.choice.picked.size > 0 ? "selection" : this.tab;
	}
}
