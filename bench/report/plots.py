"""Plots of tables, by Matplotlib, as SVG whose colours are variables of the page's style sheet: so that it is light or dark."""

import io
import re
import sys

import harness
from tables import number

# Placeholders, and the variables that take their places. What Matplotlib draws otherwise has no colour.
INK, PALE, PAPER = "#010203", "#040506", "#070809"
FAMILIES = (
    ("bpf_ringbuf", "#a1b201", "ringbuf"),
    ("bpftrace", "#a1b202", "bpftrace"),
    ("lttng", "#a1b203", "lttng"),
    ("babeltrace", "#a1b203", "lttng"),
    ("ftrace", "#a1b204", "ftrace"),
    ("perf", "#a1b205", "perf"),
    ("strace", "#a1b206", "other"),
    ("strata", "#a1b207", "strata"),
)
OTHERS = ("#a1b208", "#a1b209", "#a1b20a", "#a1b20b")
VARIABLES = {INK: "var(--ink)", PALE: "var(--line)", PAPER: "var(--paper)",
             **{colour: f"var(--{name})" for _, colour, name in FAMILIES},
             **{colour: f"var(--plain{at})" for at, colour in enumerate(OTHERS)}}
SCALE = 1.35
HATCHES = ("", "//", "..", "xx", "\\\\", "++")


class NoPlots(Exception):
    """Matplotlib is not here; the text says what was tried."""


def library():
    """Matplotlib's pyplot, drawing SVG. Raises NoPlots."""
    folder = str(harness.OUT / "python")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel

        matplotlib.use("svg")
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise NoPlots(f"Matplotlib is not installed ({error}); bench/report/setup installs it") from None
    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "strata", "font.family": "sans-serif", "font.size": 10, "text.color": INK,
        "axes.edgecolor": PALE, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.facecolor": "none",
        "figure.facecolor": "none", "savefig.facecolor": "none", "axes.grid": True, "grid.color": PALE, "grid.linewidth": 0.6,
        "axes.axisbelow": True, "legend.frameon": False, "hatch.linewidth": 0.6, "hatch.color": PAPER, "axes.spines.top": False,
        "axes.spines.right": False,
    })
    return pyplot


def looks(names):
    """Of each name its colour and hatch: the family's colour, and another hatch for each of a family."""
    of_family, found, plain = {}, {}, 0
    for name in names:
        colour = next((colour for word, colour, _ in FAMILIES if word in name.lower()), None)
        if colour is None:
            colour = OTHERS[plain % len(OTHERS)]
            plain += 1
        nth = of_family.get(colour, 0)
        of_family[colour] = nth + 1
        found[name] = colour, HATCHES[nth % len(HATCHES)]
    return found


def svg(pyplot, figure, name, described):
    """The figure as SVG within HTML: colours as variables, identifiers that no other plot has."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    pyplot.close(figure)
    text = file.getvalue()
    text = text[text.index("<svg"):]
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{name}-\2", text)
    # The size is the page's: its text is as large as that of a table.
    text = re.sub(r'(<svg[^>]*?) width="([0-9.]+)pt"', lambda found: f'{found[1]} width="{float(found[2]) * SCALE:.0f}"', text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="([0-9.]+)pt"', r"\1", text, count=1)
    described = described.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg", f'<svg role="img" aria-label="{described}"', 1)


def spread(summary):
    """The distances from the median down and up to the ends of the spread."""
    return max(summary.median - summary.low, 0), max(summary.high - summary.median, 0)


def bars(pyplot, table, rows, columns, summaries, name):
    """Horizontal bars: of each row one for each column."""
    shown = [(row, [column for column in columns if summaries.get((table.key, row, column))]) for row in rows]
    shown = [(row, of_row) for row, of_row in shown if of_row]
    single = len(columns) == 1
    style = looks(rows if single else columns)
    if single and all(colour in OTHERS for colour, _ in style.values()):
        style = {row: (FAMILIES[-1][1], "") for row in rows}
    count = sum(len(of_row) for _, of_row in shown)
    figure, axes = pyplot.subplots(figsize=(9.5, 0.7 + 0.26 * count + (0 if single else 0.22 * len(shown))))
    at, ticks, labels, named = 0.0, [], [], set()
    for row, of_row in shown:
        begin = at
        for column in of_row:
            summary = summaries[(table.key, row, column)]
            colour, hatch = style[row if single else column]
            label = None if single or column in named else column
            named.add(column)
            axes.barh(at, summary.median, height=0.82, color=colour, hatch=hatch, edgecolor=PAPER, linewidth=0, label=label)
            down, up = spread(summary)
            if summary.used > 1:
                axes.errorbar(summary.median, at, xerr=[[down], [up]], color=INK, linewidth=1, capsize=2)
            at += 1
        ticks.append((begin + at - 1) / 2)
        labels.append(row)
        at += 0 if single else 0.8
    axes.set_yticks(ticks, labels)
    axes.invert_yaxis()
    axes.set_xlabel(table.unit)
    axes.grid(axis="y", visible=False)
    if table.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    if not single:
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.9 / figure.get_figheight()), ncols=3, fontsize=9)
    return svg(pyplot, figure, name, f"Bars: {table.title}, {table.unit}; the figures are those of the table")


def lines(pyplot, table, rows, columns, summaries, name):
    """A line for each column over the rows, whose names begin with numbers."""
    style = looks(columns)
    figure, axes = pyplot.subplots(figsize=(9.5, 3.6))
    for column in columns:
        points = [(at, summaries[(table.key, row, column)]) for at, row in enumerate(rows) if summaries.get((table.key, row, column))]
        if not points:
            continue
        down_up = list(zip(*(spread(summary) for _, summary in points)))
        axes.errorbar([at for at, _ in points], [summary.median for _, summary in points], yerr=down_up, color=style[column][0],
                      marker="o", markersize=4, capsize=2, label=column, linestyle=("-", "--", ":", "-.")[len(style[column][1]) % 4])
    axes.set_xticks(range(len(rows)), rows)
    axes.set_xlabel(table.corner)
    axes.set_ylabel(table.unit)
    if table.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=9)
    return svg(pyplot, figure, name, f"Lines: {table.title}, {table.unit}; the figures are those of the table")


def heat(pyplot, table, rows, columns, summaries, name):
    """A grid of cells, the darker the greater the figure is; crossed out where there is none."""
    found = {(row, column): summaries[(table.key, row, column)].median for row in rows for column in columns if summaries.get((table.key, row, column))}
    least, most = min(found.values()), max(found.values())
    colour = looks([table.title])[table.title][0]
    figure, axes = pyplot.subplots(figsize=(9.5, 0.8 + 0.36 * len(rows)))
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            value = found.get((row, column))
            if value is None:
                axes.text(x, y, "×", ha="center", va="center", fontsize=9)
                continue
            share = (value - least) / (most - least) if most > least else 0.5
            axes.add_patch(pyplot.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, alpha=0.08 + 0.62 * share, linewidth=0))
            axes.text(x, y, number(value), ha="center", va="center", fontsize=9)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.grid(visible=False)
    axes.set_xlabel(f"number of sub-buffers; colour: {table.unit}")
    return svg(pyplot, figure, name, f"Grid: {table.title}, {table.unit}; the figures are those of the table")


def draw(pyplot, table, rows, columns, summaries, name):
    """The plot of a table, "" where it has none."""
    if table.plot not in ("bars", "lines", "heat") or not any(summaries.get((table.key, row, column)) for row in rows for column in columns):
        return ""
    return {"bars": bars, "lines": lines, "heat": heat}[table.plot](pyplot, table, rows, columns, summaries, name)
