// Questions to the server whose answers are still to come.

export class Questions {
	private count = 0;

	constructor(private readonly changed: () => void) {}

	get areOpen(): boolean {
		return this.count > 0;
	}

	/** Counts a question until its answer is here. The page is drawn anew at both, since it is not ready in between. */
	async counted<T>(answer: Promise<T>): Promise<T> {
		this.count++;
		this.changed();
		try {
			return await answer;
		} finally {
			this.count--;
			this.changed();
		}
	}
}
