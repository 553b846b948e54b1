// What the page knows and shows, and what may be done to it. Who draws is told when it has changed.

import {
	type Api,
	type Diff,
	type EventRecord,
	type Meta,
	type Overview,
	type Path,
	recordsOf,
	type Side,
	type Slice,
	type ThreadSums,
	type Track,
} from "./api";
import { boundsOf, momentOf, ownId, PairApi, sideOf } from "./pair";
import { type Group, groupsOf, type Member, type Row, rowAt, rowsOf } from "./rows";
import { tracksOf } from "./path";
import { DARK, LIGHT, type Theme } from "./theme";
import { Tiles } from "./tiles";
import { followed, kept, panned, type Range, zoomed } from "./time";

export type Tab = "details" | "selection" | "events" | "diff";

/** Records that are asked for at once, and hits of a search. */
const EVENTS = 500;
const HITS = 2000;
/** How long a range stays before the panels follow it [ms]. */
const FOLLOW = 250;
/**
 * How often a trace that is read or recorded is asked for what is new [ms]. With a flush period of 1 s, what is recorded is
 * seen within two seconds, the age of a tile included.
 */
const POLL = 400;
/** How often its tracks are, unless there are more of them [ms]. */
const TRACKS_POLL = 5000;
/** How much of a recording is shown at first [ns]. */
const LIVE = 10e9;
/** Ranges that Back goes to. */
const PAST = 100;
/** Rows of a critical path that are on top. */
const PATH_ROWS = 8;

export interface Events {
	records: EventRecord[];
	cut: boolean;
	error: string;
	range: Range;
	side: Side;
}

/** A comparison that was asked for. */
export interface Compared {
	diff: Diff | undefined;
	error: string;
	range: Range;
	shift: number;
}

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
	open = new Set<string>();
	closed = new Set<string>();
	pinned = new Set<string>();
	hidden = new Set<string>();
	isOnlyMine = false;
	selection: Range | undefined;
	slice: Slice | undefined;
	tab: Tab | undefined;
	sums: ThreadSums[] | undefined;
	report: { name: string; text: string } | undefined;
	events: Events | undefined;
	filter = "";
	/** What is typed, and not yet asked for. */
	draft = "";
	/** Why something took so long: its parts on other threads. */
	path: Path | undefined;
	pathTracks: number[] = [];
	hits: number[] = [];
	hitsCut = false;
	/** The place in the list of the hit that was gone to; -1: none. */
	hitAt = -1;
	marks: number[] = [];
	/** What is shown goes with the end of the recording. */
	follows = false;
	/** The trace whose records and reports are shown, where two are compared. */
	side: Side = 0;
	compared: Compared | undefined;
	/** The slice that another one of the other trace is to be aligned with. */
	anchor: Slice | undefined;
	isTaking = false;
	help = false;
	error = "";
	isDark: boolean;
	private past: Range[] = [];
	private sumsOf = "";
	/** What was asked for, counted by its kind: only the answer to the latest of each kind is shown. */
	private lists = 0;
	private reports = 0;
	private searches = 0;
	private choices = 0;
	private paths = 0;
	/** The user has said how the second trace is aligned, so what else is known of the two moves it no more. */
	private isAligned = false;
	/** How much later than the first trace the address has the second one begin [ns]. */
	private later = 0;
	private following: ReturnType<typeof setTimeout> | undefined;
	isFetchingNames = false;

	constructor(
		readonly api: Api,
		private readonly changed: () => void,
	) {
		this.tiles = new Tiles(this.api, (error) => {
			if (error) {
				this.fail(error);
			}
			this.changed();
		});
		this.isDark = matchMedia("(prefers-color-scheme: dark)").matches;
		try {
			const kept = localStorage.getItem("theme");
			this.isDark = kept ? kept === "dark" : this.isDark;
		} catch {
			// A browser that keeps nothing has its own colours each time.
		}
	}

	get theme(): Theme {
		return this.isDark ? DARK : LIGHT;
	}

	fail(error: unknown): void {
		this.error = error instanceof Error ? error.message : String(error);
		this.changed();
	}

	/** Asks what the trace is, again and again while it is still read or recorded. */
	async begin(): Promise<void> {
		let tracks = { count: -1, records: -1, time: 0, took: 0 };
		for (let isFirst = true; ; isFirst = false) {
			try {
				const meta = await this.api.meta();
				const before = this.bounds;
				const other = meta.other;
				const isNew =
					this.meta?.records !== meta.records || this.meta.to !== meta.to || this.meta.other?.records !== other?.records;
				this.meta = meta;
				this.base = BigInt(meta.base);
				this.beginTogether(isFirst);
				this.bounds = boundsOf(meta, this.shift);
				const isDone = meta.done && (other?.done ?? true);
				const [all, records] = [meta.tracks + (other?.tracks ?? 0), meta.records + (other?.records ?? 0)];
				if (isFirst) {
					document.title = `${meta.title} · strata`;
					this.range = { ...this.bounds };
					this.follows = meta.live;
					if (meta.live) {
						this.range.from = Math.max(meta.from, meta.to - LIVE);
					}
					this.fromAddress();
				} else if (this.follows) {
					this.range = followed(this.range, before, this.bounds);
				}
				if (isNew || isFirst) {
					this.overview = await this.api.overview();
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
				this.follows &&= meta.live;
				this.error = "";
				this.changed();
				if (isDone) {
					return;
				}
			} catch (error) {
				this.fail(error);
				return;
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
		this.layOut();
	}

	/** Decides anew which rows there are. */
	layOut(): void {
		const { rows, height, hidden } = rowsOf(this.groups, this);
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
			const more = Number(new URLSearchParams(location.hash.slice(1)).get("o") ?? 0);
			this.later = Number.isFinite(more) ? Math.round(more) : 0;
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
			this.dropHits();
		}
		this.layOut();
		this.moved();
	}

	/** Aligns the first records that a filter selects in each of the two traces. */
	async alignBy(filter: string): Promise<void> {
		const moments: number[] = [];
		for (const side of [0, 1] as const) {
			const { lines, cut } = await this.api.events(this.bounds.from, this.bounds.to, 1, filter, side);
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
			compared.diff = await this.api.diff(compared.range.from, compared.range.to, this.shift);
		} catch (error) {
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
		this.dropHits();
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
			this.fail(error);
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
		this.following = setTimeout(() => void this.refresh(), FOLLOW);
	}

	zoom(factor: number, at = (this.range.from + this.range.to) / 2): void {
		// What goes with the end keeps it.
		this.range = zoomed(this.range, this.follows ? this.range.to : at, factor, this.bounds);
		this.moved();
	}

	pan(share: number): void {
		this.range = panned(this.range, (this.range.to - this.range.from) * share, this.bounds);
		this.leave();
		this.moved();
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

	/** Opens what a track is in, scrolls there, and shows a time. */
	goTo(track: number, time: number): void {
		const group = this.groups.find((group) => group.members.some((it) => it.tracks.some((it) => it.id === track)));
		if (!group) {
			return;
		}
		this.hidden.delete(group.key);
		this.closed.delete(group.key);
		this.open.add(group.key);
		this.layOut();
		const row = this.rows.find((row) => !row.isGroup && row.bands.some((band) => band.track.id === track));
		if (row && (row.y < this.scroll || row.y + row.height > this.scroll + this.height)) {
			this.scrollTo(row.y - this.height / 3);
		}
		if (time < this.range.from || time > this.range.to) {
			const half = (this.range.to - this.range.from) / 2;
			this.setRange({ from: time - half, to: time + half });
		}
		void this.choose(track, time);
	}

	// ---- what is looked at ----

	async choose(track: number, time: number): Promise<void> {
		const of = ++this.choices;
		try {
			const slice = await this.api.slice(track, time);
			if (of !== this.choices) {
				return;
			}
			const isSame = this.slice?.track === slice.track && this.slice.from === slice.from;
			this.slice = slice;
			if (!isSame) {
				this.dropPath();
				this.layOut();
			}
			this.tab = "details";
			this.toAddress();
			this.changed();
		} catch (error) {
			this.fail(error);
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
				const path = await this.api.path(slice.track, slice.from, slice.to);
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
		for (const group of this.groups) {
			const member = group.members.find((it) => it.tracks.some((it) => it.id === id));
			if (member) {
				return { group, member };
			}
		}
		return undefined;
	}

	select(range: Range | undefined, isComplete: boolean): void {
		this.selection = range;
		if (isComplete) {
			this.setReport(undefined);
			if (range) {
				this.tab = this.tab === "events" ? "events" : "selection";
			}
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

	async refresh(): Promise<void> {
		try {
			if (this.tab === "selection") {
				const key = `${this.asked.from}/${this.asked.to}/${this.shift}/${this.meta?.records}`;
				if (this.sumsOf !== key) {
					this.sumsOf = key;
					const sums = await this.api.sums(this.asked.from, this.asked.to);
					// The range may be another one by now: its own answer comes later.
					if (this.sumsOf === key) {
						this.sums = sums;
					}
				}
			}
			if (this.tab === "events") {
				await this.list();
			}
			if (this.tab === "diff" && !this.compared) {
				await this.compare();
			}
		} catch (error) {
			this.fail(error);
		}
		this.changed();
	}

	private async list(): Promise<void> {
		const range = { ...this.asked };
		const of = ++this.lists;
		const side = this.side;
		let events: Events;
		try {
			const { lines, cut } = await this.api.events(range.from, range.to, EVENTS, this.filter, side);
			events = { records: recordsOf(lines), cut, error: "", range, side };
		} catch (error) {
			events = { records: [], cut: false, error: (error as Error).message, range, side };
		}
		if (of === this.lists) {
			this.events = events;
		}
	}

	async runReport(name: string): Promise<void> {
		this.setReport({ name, text: "…" });
		this.changed();
		const of = this.reports;
		const range = { ...this.asked };
		let text: string;
		try {
			text = await this.api.report(name, range.from, range.to, this.side);
		} catch (error) {
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

	/** Forgets the hits, and those that are still searched. */
	private dropHits(): void {
		this.searches++;
		this.hits = [];
		this.hitsCut = false;
		this.hitAt = -1;
	}

	/** Where records are, in the whole trace, that a filter selects. */
	async find(filter: string): Promise<void> {
		this.filter = filter;
		this.draft = filter;
		this.dropHits();
		this.toAddress();
		if (filter.trim() !== "") {
			try {
				const side = this.side;
				const of = this.searches;
				const { lines, cut } = await this.api.events(this.bounds.from, this.bounds.to, HITS, filter, side);
				if (of === this.searches) {
					this.hits = recordsOf(lines).map((it) => this.moment(it, side));
					this.hitsCut = cut;
				}
			} catch {
				// What is wrong with the filter stands above the list.
			}
		}
		await this.refresh();
	}

	/**
	 * To the next hit, or the one before: of the hit that is in the middle of what is shown, else of the middle. The first one
	 * is next to the last.
	 */
	goToHit(isNext: boolean): void {
		const middle = (this.range.from + this.range.to) / 2;
		const slack = (this.range.to - this.range.from) / 1000;
		const now = this.hits[this.hitAt];
		const isAtHit = now !== undefined && Math.abs(now - middle) <= slack;
		// Hits may have one time, so the place in the list says which is next.
		const at = isAtHit
			? this.hitAt + (isNext ? 1 : -1)
			: isNext
				? this.hits.findIndex((it) => it > middle)
				: this.hits.findLastIndex((it) => it < middle);
		const place = at >= 0 && at < this.hits.length ? at : isNext ? 0 : this.hits.length - 1;
		const hit = this.hits[place];
		if (hit !== undefined) {
			this.hitAt = place;
			const half = (this.range.to - this.range.from) / 2;
			this.setRange({ from: hit - half, to: hit + half });
		}
	}

	mark(time: number): void {
		const near = (this.range.to - this.range.from) / 200;
		const known = this.marks.findIndex((it) => Math.abs(it - time) < near);
		if (known >= 0) {
			this.marks.splice(known, 1);
		} else {
			this.marks.push(Math.round(time));
			this.marks.sort((a, b) => a - b);
		}
		this.toAddress();
		this.changed();
	}

	toggle(key: string): void {
		const row = this.rows.find((row) => row.isGroup && row.key === key);
		if (row?.isOpen) {
			this.open.delete(key);
			this.closed.add(key);
		} else {
			this.closed.delete(key);
			this.open.add(key);
		}
		this.layOut();
	}

	pin(key: string): void {
		const member = key.replace(/^(pin|path):/, "");
		if (!this.pinned.delete(member)) {
			this.pinned.add(member);
		}
		this.toAddress();
		this.layOut();
	}

	hide(group: string): void {
		this.hidden.add(group);
		this.layOut();
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
		try {
			localStorage.setItem("theme", isDark ? "dark" : "light");
		} catch {
			// It stays so until the page is left.
		}
		this.changed();
	}

	// ---- the address ----

	/** What another one is to see stands behind the #. The token does not: it is who may look, not what. */
	private toAddress(): void {
		const words = new URLSearchParams();
		const pair = (range: Range) => `${Math.round(range.from)}-${Math.round(range.to)}`;
		words.set("t", pair({ from: this.range.from - this.bounds.from, to: this.range.to - this.bounds.from }));
		if (this.selection) {
			const { from, to } = this.selection;
			words.set("s", pair({ from: from - this.bounds.from, to: to - this.bounds.from }));
		}
		for (const [name, value] of [
			["q", this.search],
			["c", this.isOnlyMine ? "1" : ""],
			["f", this.filter],
			["p", [...this.pinned].join("\n")],
			["o", this.late === 0 ? "" : String(this.late)],
			["m", this.marks.map((it) => it - this.bounds.from).join(" ")],
			["i", this.slice ? `${this.slice.track}@${Math.floor((this.slice.from + this.slice.to) / 2 - this.bounds.from)}` : ""],
		] as const) {
			if (value !== "") {
				words.set(name, value);
			}
		}
		history.replaceState(null, "", `#${words}`);
	}

	private fromAddress(): void {
		const words = new URLSearchParams(location.hash.slice(1));
		const pair = (text: string | null): Range | undefined => {
			const found = /^(-?\d+)-(-?\d+)$/.exec(text ?? "");
			const [from, to] = [Number(found?.[1]), Number(found?.[2])];
			return found && to > from ? { from: from + this.bounds.from, to: to + this.bounds.from } : undefined;
		};
		this.range = kept(pair(words.get("t")) ?? this.range, this.bounds);
		this.leave();
		this.selection = pair(words.get("s"));
		this.search = words.get("q") ?? "";
		this.isOnlyMine = words.get("c") === "1";
		this.filter = words.get("f") ?? "";
		this.pinned = new Set((words.get("p") ?? "").split("\n").filter((it) => it !== ""));
		const marks = (words.get("m") ?? "").split(" ").map(Number);
		this.marks = marks.filter((it) => Number.isFinite(it) && it !== 0).map((it) => it + this.bounds.from);
		const chosen = /^(\d+)@(\d+)$/.exec(words.get("i") ?? "");
		if (chosen) {
			void this.choose(Number(chosen[1]), Number(chosen[2]) + this.bounds.from);
		}
		if (this.filter !== "") {
			void this.find(this.filter);
		}
		if (this.selection) {
			this.tab = "selection";
			void this.refresh();
		}
	}
}
