// Who takes a key: what has the focus, a list that is open above the page, or the page.

/** Whether what has the focus takes text, so that each key is for it. */
export function takesText(target: EventTarget | null): boolean {
	return target instanceof HTMLInputElement && target.type !== "range";
}

const SCROLLING = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End"];

/** Whether what has the focus does something with this key by itself: a button, a slider, a panel that scrolls. */
export function takesKey(target: EventTarget | null, key: string): boolean {
	if (target instanceof HTMLButtonElement && (key === "Enter" || key === " ")) {
		return true;
	}
	if (!(target instanceof HTMLElement) || !SCROLLING.includes(key)) {
		return false;
	}
	if (target instanceof HTMLInputElement) {
		return true;
	}
	if (target.getAttribute("role") === "tab") {
		return stepInTabs(key, 0, 1) !== undefined;
	}
	const panel = target.closest(".panel");
	const isSideways = key === "ArrowLeft" || key === "ArrowRight";
	return panel !== null && (isSideways ? panel.scrollWidth > panel.clientWidth : panel.scrollHeight > panel.clientHeight);
}

/** The tab that a key goes to from the tab at a place, of so many; undefined: it is no key of tabs. */
export function stepInTabs(key: string, at: number, count: number): number | undefined {
	switch (key) {
		case "ArrowLeft":
			return (at + count - 1) % count;
		case "ArrowRight":
			return (at + 1) % count;
		case "Home":
			return 0;
		case "End":
			return count - 1;
		default:
			return undefined;
	}
}

/** What is asked of a key that is pressed. */
export type Pressed = Pick<KeyboardEvent, "code" | "key" | "ctrlKey" | "metaKey" | "altKey" | "getModifierState">;

/**
 * Names under which a key may do something: its place on the keyboard, then its character. With Ctrl, Alt or Meta a key is the
 * browser's. AltGr makes characters, on some keyboards [ and ], and some systems say Ctrl and Alt with it: then only the
 * character counts.
 */
export function namesOfKey(event: Pressed): string[] {
	const character = event.key.toLowerCase();
	if (event.getModifierState("AltGraph")) {
		return [character];
	}
	return event.ctrlKey || event.metaKey || event.altKey ? [] : [event.code, character];
}
