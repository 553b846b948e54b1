// Where in the trace the records are that a filter selects.

/** Places of hits, and the one that was gone to. */
export class Hits {
	times: number[] = [];
	/** There may be more. */
	isCut = false;
	/** The place in the list of the hit that was gone to; -1: none. */
	at = -1;
	/** Counted, so that answers to earlier searches are known. */
	searches = 0;

	/** Forgets the hits, and those that are still searched. */
	drop(): void {
		this.searches++;
		this.times = [];
		this.isCut = false;
		this.at = -1;
	}

	/**
	 * The next hit, or the one before: of the hit that is in the middle of what is shown, else of the middle. The first one is
	 * next to the last.
	 */
	step(isNext: boolean, isInMiddle: (time: number) => boolean, middle: number): number | undefined {
		const { times } = this;
		const now = times[this.at];
		// Hits may have one time, so the place in the list says which is next.
		const at =
			now !== undefined && isInMiddle(now)
				? this.at + (isNext ? 1 : -1)
				: isNext
					? times.findIndex((it) => it > middle)
					: times.findLastIndex((it) => it < middle);
		const place = at >= 0 && at < times.length ? at : isNext ? 0 : times.length - 1;
		if (times[place] !== undefined) {
			this.at = place;
		}
		return times[place];
	}
}
