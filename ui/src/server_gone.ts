// Whether the server is there that a page is of, and what to do where it is not.

import { NoAnswer, type Meta, Refused } from "./api";

/** The server is not the one that this page is of: it has ended, or was started again for another trace or with another token. */
export function isGone(error: unknown): boolean {
	return error instanceof NoAnswer || (error instanceof Refused && (error.status === 409 || error.status === 401));
}

/** What somebody is told whose page gets no answers. */
export function whatToDo(error: unknown, meta: Meta | undefined): string {
	if (error instanceof Refused && error.status === 401) {
		return "The server was started again and has another token: open the address that it has printed. With --token-file it keeps its token.";
	}
	const typed = [meta?.typed, meta?.other?.typed].filter((it) => it).join(" ");
	const command = `strata ui --port ${location.port} --token-file FILE ${meta?.other ? "--compare " : ""}${typed}`;
	return `The server does not answer: it has ended, or the way to its machine (ssh -L) is interrupted. This page goes on when it answers at this address again: ${command}`;
}
