// What panels show that was asked of the server, together with what it was asked for: a panel whose range has changed since
// shows that it is of another one.

import type { Diff, EventRecord, Side } from "./api";
import type { Range } from "./time";

/** Records of a time that a filter selects, for the panel with the list of events. */
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
