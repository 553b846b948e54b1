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
	const panel = target.closest(".panel");
	const isSideways = key === "ArrowLeft" || key === "ArrowRight";
	return panel !== null && (isSideways ? panel.scrollWidth > panel.clientWidth : panel.scrollHeight > panel.clientHeight);
}
