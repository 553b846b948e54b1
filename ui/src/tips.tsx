// What is under the pointer.

import type { State } from "./state";
import { type Band, isLossOf, discardedNear, type Row } from "./track_rows";
import { KINDS, type Tile } from "./tile";
import { KIND_NAMES } from "./panels";
import { count, counted, length, number, timeOfDay } from "./time";

/** What is so near is under the pointer [px]. */
const NEAR = 3;

/** How many records there were at a place of the overview, and how many were discarded. */
export function OverviewTip({ state, x, width }: { state: State; x: number; width: number }) {
	const { folds, bounds, overview } = state;
	const perPixel = folds.length(bounds) / Math.max(width, 1);
	const time = folds.real(folds.shown(bounds.from) + x * perPixel, true);
	const near = NEAR * perPixel;
	if (!overview) {
		return null;
	}
	const sides = [overview, overview.other].flatMap((of, side) => {
		if (!of) {
			return [];
		}
		const own = time - state.shiftOf(side === 1 ? 1 : 0);
		const at = (moment: number) => Math.floor((moment - of.from) / of.width);
		const counts = of.counts.slice(Math.max(at(own - near), 0), Math.max(at(own + near) + 1, 0));
		const gaps = of.gaps.filter((gap) => gap.side !== 1);
		return [{ events: counts.reduce((sum, n) => sum + n, 0), discarded: discardedNear(gaps, own, near) }];
	});
	return (
		<div class="tip" style={{ left: `calc(var(--names) + ${Math.min(x + 14, width - 320)}px)`, top: "96px" }}>
			{sides.map(({ events, discarded }, side) => (
				<div key={side}>
					{state.isPair && (side === 0 ? "A: " : "B: ")}
					<b>{counted(events, "event")}</b> within {length(2 * near)} {discarded !== "" && <b class="discarded">{discarded}</b>}
				</div>
			))}
			<div>{timeOfDay(state.base, time)}</div>
		</div>
	);
}

/** What is under the pointer in a row. */
export function Tip({
	state,
	under,
	pointer,
	width,
	nanosPerPixel,
}: {
	state: State;
	under: { row: Row | undefined; band: Band | undefined; tile: Tile | undefined; n: number; time: number };
	pointer: { x: number; y: number };
	width: number;
	nanosPerPixel: number;
}) {
	const { row, band, time } = under;
	if (!row) {
		return null;
	}
	const discarded = discardedNear((state.overview?.gaps ?? []).filter((gap) => isLossOf(gap, row)), time, NEAR * nanosPerPixel);
	const tile = under.n < 0 ? undefined : under.tile;
	if (!tile && discarded === "") {
		return null;
	}
	const style = {
		left: `${Math.min(pointer.x + 14, width - 320)}px`,
		top: `${pointer.y + 18 + 90 > state.height ? pointer.y - 80 : pointer.y + 18}px`,
	};
	return (
		<div class="tip" style={style}>
			{discarded !== "" && <b class="discarded">{discarded}</b>}
			{tile && <Item state={state} band={band} tile={tile} n={under.n} />}
			<div>
				{row.title} › {row.label} {row.note}
			</div>
		</div>
	);
}

/** What an item is: a value, a slice, or how many of them and how long they are. */
function Item({ state, band, tile, n }: { state: State; band: Band | undefined; tile: Tile; n: number }) {
	const kind = tile.kind[n] ?? 7;
	const times = tile.count[n] ?? 1;
	const name = state.name(tile.name[n] ?? 0);
	const isSample = band?.style === "samples";
	const what = [isSample ? "sample" : (KIND_NAMES[kind] ?? ""), name].filter((it) => it !== "").join(" in ");
	const sums = Array.from({ length: KINDS }, (_, kind) => [kind, tile.sums[n * KINDS + kind] ?? 0] as const);
	return (
		<>
			{tile.value.length > n ? (
				<>
					<b>
						{times === 1 ? "" : "at most "}
						{number(tile.value[n] ?? 0)}
					</b>{" "}
					{times === 1 ? `for ${length((tile.to[n] ?? 0) - (tile.from[n] ?? 0))}` : `of ${count(times)} values`}
				</>
			) : times === 1 ? (
				<>
					<b>{length((tile.to[n] ?? 0) - (tile.from[n] ?? 0))}</b> {what}
				</>
			) : (
				<>
					<b>{count(times)} slices</b>
					{sums
						.filter(([kind, sum]) => sum > 0 && kind < 7)
						.map(([kind, sum]) => (
							<div key={kind}>
								{length(sum)} {KIND_NAMES[kind]}
							</div>
						))}
					<div>
						longest: {length(tile.longest[n] ?? 0)} {what}
					</div>
				</>
			)}
		</>
	);
}
