// Texts of a trace, as people may look at them: what strata-text's display.rs does for a terminal.

/** Characters that act on what shows them instead of being shown: the same as `controls_display` has. */
// biome-ignore-start lint/suspicious/noControlCharactersInRegex: these are looked for
// biome-ignore-start lint/suspicious/noMisleadingCharacterClass: each of them, by itself
const ACTING =
	/[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e00ff}]/gu;
// biome-ignore-end lint/suspicious/noMisleadingCharacterClass: as above
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: as above
const SHORT: Record<string, string> = { "\t": "\\t", "\r": "\\r", "\n": "\\n" };
/** Characters of a text that are shown: a browser that lays out a million of them stands still. */
export const SHOWN = 2000;

function escaped(character: string): string {
	return SHORT[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

/** The text with an escape for each character that acts, cut where it is too long to be looked at. */
export function clean(text: string): string {
	const part = text.length > SHOWN ? `${text.slice(0, SHOWN)}… (${text.length} characters)` : text;
	return part.replace(ACTING, escaped);
}

/** The value of a JSON answer, with every text in it clean. Keys stay as they are: who shows one cleans it. */
export function cleaned<T>(json: string): T {
	return JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? clean(value) : value)) as T;
}
