// Colours, as people see them who do not see all of them: matrices of Machado, Oliveira and Fernandes (2009), severity 1;
// distances by CIEDE2000, of which some pairs of Sharma, Wu and Dalal (2005) are checked.

import assert from "node:assert/strict";
import test from "node:test";
import { DARK, LIGHT, nameColour } from "../src/theme";
import { BLOCKED, IDLE, PREEMPTED, RUNNING, UNINTERRUPTIBLE, WOKEN } from "../src/tile";

type Three = [number, number, number];

const SIGHT: Record<string, Three[]> = {
	all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
	protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
	deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
	tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

/** Linear red, green and blue of `#rrggbb` or `hsl(h s% l%)`. */
function linear(colour: string): Three {
	const hsl = /^hsl\((\d+) (\d+)% (\d+)%\)$/.exec(colour);
	const bright = (value: number) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
	if (!hsl) {
		const part = (at: number) => bright(Number.parseInt(colour.slice(at, at + 2), 16) / 255);
		return [part(1), part(3), part(5)];
	}
	const [hue, saturation, lightness] = [Number(hsl[1]), Number(hsl[2]) / 100, Number(hsl[3]) / 100];
	const part = (n: number) => {
		const at = (n + hue / 30) % 12;
		return bright(lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(at - 3, 9 - at, 1)));
	};
	return [part(0), part(8), part(4)];
}

function seen(colour: string, sight: string): Three {
	const of = linear(colour);
	const row = (n: number) => {
		const sum = (SIGHT[sight]?.[n] ?? of).reduce((sum, share, at) => sum + share * (of[at] ?? 0), 0);
		return Math.min(Math.max(sum, 0), 1);
	};
	return [row(0), row(1), row(2)];
}

function lab([r, g, b]: Three): Three {
	const root = (value: number) => (value > 216 / 24389 ? Math.cbrt(value) : ((24389 / 27) * value + 16) / 116);
	const x = root((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
	const y = root(0.2126729 * r + 0.7151522 * g + 0.072175 * b);
	const z = root((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883);
	return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** CIEDE2000. */
function difference([l1, a1, b1]: Three, [l2, a2, b2]: Three): number {
	const radians = Math.PI / 180;
	const seventh = 25 ** 7;
	const mean = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2;
	const g = 0.5 * (1 - Math.sqrt(mean ** 7 / (mean ** 7 + seventh)));
	const [c1, c2] = [Math.hypot((1 + g) * a1, b1), Math.hypot((1 + g) * a2, b2)];
	const angle = (a: number, b: number) => (a === 0 && b === 0 ? 0 : (Math.atan2(b, (1 + g) * a) / radians + 360) % 360);
	const [h1, h2] = [angle(a1, b1), angle(a2, b2)];
	const turn = c1 * c2 === 0 ? 0 : ((h2 - h1 + 540) % 360) - 180;
	const hue = 2 * Math.sqrt(c1 * c2) * Math.sin((turn / 2) * radians);
	const lightness = (l1 + l2) / 2;
	const chroma = (c1 + c2) / 2;
	const far = Math.abs(h1 - h2) > 180;
	const middle = c1 * c2 === 0 ? h1 + h2 : far ? (h1 + h2 + (h1 + h2 < 360 ? 360 : -360)) / 2 : (h1 + h2) / 2;
	const cosine = (times: number, off: number) => Math.cos((times * middle + off) * radians);
	const t = 1 - 0.17 * cosine(1, -30) + 0.24 * cosine(2, 0) + 0.32 * cosine(3, 6) - 0.2 * cosine(4, -63);
	const sl = 1 + (0.015 * (lightness - 50) ** 2) / Math.sqrt(20 + (lightness - 50) ** 2);
	const [sc, sh] = [1 + 0.045 * chroma, 1 + 0.015 * chroma * t];
	const rotation =
		-2 * Math.sqrt(chroma ** 7 / (chroma ** 7 + seventh)) * Math.sin(60 * radians * Math.exp(-(((middle - 275) / 25) ** 2)));
	const [dl, dc, dh] = [(l2 - l1) / sl, (c2 - c1) / sc, hue / sh];
	return Math.sqrt(dl ** 2 + dc ** 2 + dh ** 2 + rotation * dc * dh);
}

function contrast(one: string, two: string): number {
	const light = (colour: string) => {
		const [r, g, b] = linear(colour);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const [low, high] = [light(one), light(two)].sort((a, b) => a - b) as [number, number];
	return (high + 0.05) / (low + 0.05);
}

test("differences of colours are those that were published", () => {
	for (const [one, two, wanted] of [
		[[50, 2.6772, -79.7751], [50, 0, -82.7485], 2.0425],
		[[50, 2.5, 0], [73, 25, -18], 27.1492],
		[[50, 2.5, 0], [50, 3.1736, 0.5854], 1],
		[[2.0776, 0.0795, -1.135], [0.9033, -0.0636, -0.5514], 0.9082],
		[[60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644],
	] as [Three, Three, number][]) {
		assert.ok(Math.abs(difference(one, two) - wanted) < 1e-4, `${difference(one, two)}, wanted ${wanted}`);
	}
});

test("whoever does not see all colours can tell states from each other and from the ground", () => {
	for (const theme of [LIGHT, DARK]) {
		// What waits for a CPU has one colour, whyever it waits.
		assert.equal(theme.states[WOKEN], theme.states[PREEMPTED]);
		const colours = [RUNNING, WOKEN, BLOCKED, UNINTERRUPTIBLE].map((kind) => theme.states[kind] ?? "");
		for (const sight of Object.keys(SIGHT)) {
			for (const [n, one] of [...colours, theme.ground].entries()) {
				for (const two of colours.slice(n + 1)) {
					const found = difference(lab(seen(one, sight)), lab(seen(two, sight)));
					assert.ok(found >= 19, `${one} and ${two} differ by ${found.toFixed(1)} for ${sight}`);
				}
			}
		}
	}
});

test("what is written on slices can be read", () => {
	for (const theme of [LIGHT, DARK]) {
		for (const kind of [RUNNING, WOKEN, PREEMPTED, BLOCKED]) {
			const found = contrast(theme.states[kind] ?? "", theme.onStates[kind] ?? theme.text);
			assert.ok(found >= 4.5, `on ${theme.states[kind]}: ${found.toFixed(1)}`);
		}
		for (let n = 0; n < 300; n++) {
			const colour = nameColour(String.fromCharCode(97 + (n % 26)).repeat(1 + n / 26), theme);
			assert.ok(contrast(colour, theme.onNames) >= 4.5, `on ${colour}: ${contrast(colour, theme.onNames).toFixed(1)}`);
		}
		for (const colour of [theme.text, theme.muted, theme.loss, theme.accent]) {
			for (const ground of [theme.ground, theme.row]) {
				assert.ok(contrast(colour, ground) >= 4.5, `${colour} on ${ground}: ${contrast(colour, ground).toFixed(1)}`);
			}
		}
		assert.ok(contrast(theme.states[IDLE] ?? "", theme.ground) < 1.5, "what is idle does not catch the eye");
	}
});
