// What a new user does not know: one line for each step, gone once it was done.

export const HINTS = [
	"W or Ctrl+wheel zooms in, S or Ctrl+wheel out, A and D move",
	"▸ expands a process; click a coloured slice to see what it is and what it waited for",
	"drag over the tracks to select a time: what was done in it, and for how long",
	"? shows all keys",
] as const;

/** What was done of it, by the number of its hint. */
export function stepsDone(state: { isZoomed: boolean; hasLooked: boolean; hasSelected: boolean; hasAsked: boolean }): number[] {
	return [state.isZoomed, state.hasLooked, state.hasSelected, state.hasAsked].flatMap((isDone, n) => (isDone ? [n] : []));
}

/** Hints that were followed, kept in the browser. */
export class Hints {
	private readonly done: Set<number>;

	constructor(private readonly storage: Pick<Storage, "getItem" | "setItem"> | undefined) {
		let kept = "";
		try {
			kept = storage?.getItem("hints") ?? "";
		} catch {
			// A browser that keeps nothing shows them each time.
		}
		this.done = new Set(kept.split(",").map(Number).filter((n) => Number.isInteger(n) && n > 0));
	}

	/** The next hint, when these steps were done; empty: all were. */
	next(steps: number[]): string {
		const fresh = steps.filter((n) => !this.done.has(n + 1));
		for (const n of fresh) {
			this.done.add(n + 1);
		}
		if (fresh.length > 0) {
			try {
				this.storage?.setItem("hints", [...this.done].join(","));
			} catch {
				// As above.
			}
		}
		return HINTS.find((_, n) => !this.done.has(n + 1)) ?? "";
	}
}
