// What wheel and pointer mean, apart from where they are.

import type { Range } from "./time";

/** How far a pointer moves before it is a drag [px]. */
const DRAG = 4;
/** Height of a line that a wheel turns by [px]. */
const LINE = 20;
/** The most of one turn that zooms [px]. */
const TURN = 60;

/** What a turn of the wheel does. */
export type Turn = { zoom: number } | { panPixels: number } | { scrollPixels: number };

/** What a turn of the wheel does where a page of rows is so high. */
export function turnOf(event: Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode" | "ctrlKey" | "shiftKey">, pageHeight: number): Turn {
	const scale = [1, LINE, pageHeight][event.deltaMode] ?? 1;
	const [dx, dy] = [event.deltaX * scale, event.deltaY * scale];
	if (event.ctrlKey) {
		return { zoom: Math.exp(Math.max(Math.min(dy, TURN), -TURN) * 0.008) };
	}
	return event.shiftKey || Math.abs(dx) > Math.abs(dy) ? { panPixels: dx || dy } : { scrollPixels: dy };
}

/** What a moved pointer does: nothing, moves the picture by so many pixels, or selects from a time to where it is. */
export type Moved = undefined | { panX: number; panY: number } | { selectFrom: number };

/**
 * A drag in the tracks, from the button that is pressed to the one that is let go. It is a click until the pointer has moved
 * `DRAG` pixels. It ends as well when Escape is pressed, and when the browser takes the pointer away.
 */
export class Drag {
	isMoved = false;

	/** `before`: what was selected by then. */
	constructor(
		private x: number,
		private y: number,
		readonly time: number,
		readonly isPan: boolean,
		readonly before: Range | undefined,
	) {}

	move(x: number, y: number): Moved {
		const [panX, panY] = [this.x - x, this.y - y];
		if (!this.isMoved && Math.abs(panX) < DRAG && Math.abs(panY) < DRAG) {
			return undefined;
		}
		this.isMoved = true;
		if (!this.isPan) {
			return { selectFrom: this.time };
		}
		[this.x, this.y] = [x, y];
		return { panX, panY };
	}

	/** Whether what it has selected is to be looked at when it ends, rather than what is under the pointer. */
	get hasSelected(): boolean {
		return this.isMoved && !this.isPan;
	}
}
