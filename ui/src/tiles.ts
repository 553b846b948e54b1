// Tiles that are here, and those that are asked for: what a view needs, and while it is not here what is coarser.

import type { Api } from "./api";
import { LEVEL_MAX } from "./time";
import type { Tile } from "./tile";

/** Bytes of tiles that are kept. */
const BYTES = 128 << 20;
/** Requests under way at once, and tracks of each. */
const REQUESTS = 4;
const TRACKS = 64;
/** How long a tile of a trace that is still read is shown before it is asked for again [ms]. */
const FRESH = 400;

const keyOf = (track: number, level: number, index: number) => `${track}/${level}/${index}`;

interface Held {
	tile: Tile;
	time: number;
}

export class Tiles {
	private readonly held = new Map<string, Held>();
	private readonly wanted = new Map<string, [number, number, number]>();
	private readonly asked = new Set<string>();
	private bytes = 0;
	private requests = 0;
	/** Nothing is asked for: nobody answers. */
	isPaused = false;

	constructor(
		private readonly api: Api,
		private readonly changed: (error?: unknown) => void,
	) {}

	/** What a drawing needs is noted anew by each: what none has asked for since is not fetched. */
	begin(): void {
		this.wanted.clear();
	}

	/** The tile, or else a coarser one that has its time. */
	get(track: number, level: number, index: number): Tile | undefined {
		const key = keyOf(track, level, index);
		const held = this.held.get(key);
		if (held) {
			// The latest are the last.
			this.held.delete(key);
			this.held.set(key, held);
			if (!held.tile.final && Date.now() - held.time > FRESH) {
				this.wanted.set(key, [track, level, index]);
			}
			return held.tile;
		}
		this.wanted.set(key, [track, level, index]);
		for (let up = 1; up <= 8 && level + up <= LEVEL_MAX; up++) {
			const coarse = this.held.get(keyOf(track, level + up, Math.floor(index / 2 ** up)));
			if (coarse) {
				return coarse.tile;
			}
		}
		return undefined;
	}

	/** Whether anything is under way or wanted. */
	isBusy(): boolean {
		return this.requests > 0 || this.wanted.size > 0;
	}

	/** Asks for what is wanted, all tracks of a time together. */
	fetch(): void {
		while (this.requests < REQUESTS && !this.isPaused) {
			const batch: number[] = [];
			let place: [number, number] | undefined;
			for (const [key, [track, level, index]] of this.wanted) {
				if (this.asked.has(key)) {
					continue;
				}
				place ??= [level, index];
				if (place[0] === level && place[1] === index && batch.length < TRACKS) {
					batch.push(track);
					this.asked.add(key);
				}
			}
			if (!place) {
				return;
			}
			void this.ask(place[0], place[1], batch);
		}
	}

	private async ask(level: number, index: number, tracks: number[]): Promise<void> {
		this.requests++;
		let failed: unknown;
		try {
			for (const tile of await this.api.tiles(level, index, tracks)) {
				this.hold(keyOf(tile.track, level, index), tile);
			}
		} catch (error) {
			failed = error;
		}
		this.requests--;
		for (const track of tracks) {
			this.asked.delete(keyOf(track, level, index));
			this.wanted.delete(keyOf(track, level, index));
		}
		this.changed(failed);
	}

	private hold(key: string, tile: Tile): void {
		this.bytes += tile.bytes - (this.held.get(key)?.tile.bytes ?? 0);
		this.held.delete(key);
		this.held.set(key, { tile, time: Date.now() });
		for (const [old, { tile }] of this.held) {
			if (this.bytes <= BYTES) {
				return;
			}
			this.held.delete(old);
			this.bytes -= tile.bytes;
		}
	}
}
