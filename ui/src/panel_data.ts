// What panels show that was asked of the server, together with what it was asked for: a panel whose range has changed since
// shows that it is of another one.

import type { Diff } from "./api";
import type { Range } from "./time";

/** A comparison that was asked for. */
export interface Compared {
	diff: Diff | undefined;
	error: string;
	range: Range;
	shift: number;
}
