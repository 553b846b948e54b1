"""The report as one HTML page that needs nothing else: tables, plots, published figures, the raw samples."""

import base64
import gzip
import html

import harness
import plots
import samples
from tables import comparisons, layout, number, reason

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2126; --soft: #5a646e; --line: #d5dade; --band: #f3f5f7; --bad: #a33600;
  --strata: #0b66b8; --lttng: #d18700; --ftrace: #1b8a63; --perf: #c8501a; --bpftrace: #b05aa0; --ringbuf: #3f9ac4; --other: #7d6a4a;
  --plain0: #6b7680; --plain1: #98a2ab; --plain2: #4b5560; --plain3: #b8bfc6; }
@media (prefers-color-scheme: dark) { :root { --paper: #15191d; --ink: #e4e8eb; --soft: #9aa5ae; --line: #3a4249; --band: #1e2429; --bad: #ff9a66;
  --strata: #58a6e8; --lttng: #e9ab3f; --ftrace: #4dbb91; --perf: #ec7f4c; --bpftrace: #d58bc8; --ringbuf: #7cc4e6; --other: #b39d78;
  --plain0: #8b97a1; --plain1: #66717b; --plain2: #aab4bc; --plain3: #4c565f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); } h3 { margin: 1.8rem 0 0.4rem; font-size: 1.05rem; }
p { max-width: 52rem; margin: 0.5rem 0; } small, .soft { color: var(--soft); font-size: 0.85rem; } a { color: var(--strata); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 0.4rem 0; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { padding: 0.3rem 0.7rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line); } th { font-weight: 600; }
th:first-child, td.words { text-align: left; } thead th { background: var(--band); vertical-align: bottom; } tbody th { font-weight: 400; }
td.empty { color: var(--soft); } td b { font-weight: 600; } td.behind b, .behind { color: var(--bad); }
svg { max-width: 100%; height: auto; display: block; margin: 0.6rem 0 1rem; } svg text { fill: var(--ink); }
.published { border-left: 3px solid var(--line); padding-left: 1rem; margin: 1rem 0; } .warn { border: 1px solid var(--bad); color: var(--bad);
  padding: 0.5rem 0.8rem; border-radius: 4px; max-width: 52rem; } ol.reasons { font-size: 0.85rem; color: var(--soft); margin: 0.2rem 0; max-width: 52rem; }
nav ol { columns: 2; max-width: 60rem; } nav li { break-inside: avoid; } code { overflow-wrap: anywhere; }
@media (max-width: 45rem) { nav ol { columns: 1; } }
"""


def text(value):
    """A text within HTML."""
    return html.escape(str(value), quote=True)


def prose(paragraphs):
    """Paragraphs, which empty lines divide; `words` in backquotes are code."""
    found = []
    for paragraph in paragraphs.strip().split("\n\n"):
        parts = text(" ".join(paragraph.split())).split("`")
        found.append("<p>" + "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts)) + "</p>")
    return "\n".join(found)


class Reasons:
    """The reasons of empty cells, as notes below a table: the same one once."""

    def __init__(self):
        self.all = []

    def mark(self, why):
        """The mark of a reason."""
        if why not in self.all:
            self.all.append(why)
        return chr(ord("a") + self.all.index(why) % 26)

    def __str__(self):
        if not self.all:
            return ""
        return '<ol class="reasons" type="a">' + "".join(f"<li>{text(why)}</li>" for why in self.all) + "</ol>"


def cell(table, summaries, every, missing, row, column, reasons, ghz):
    """One cell of a table."""
    key = table.key, row, column
    summary = summaries.get(key)
    if not summary:
        of_cell = [sample for sample in every if sample.cell == key]
        why = reason(missing, *key)
        if of_cell:
            kinds = "; ".join(f"{kind} ({count})" for kind, count in samples.reasons(of_cell))
            why = f"all {len(of_cell)} rounds were disturbed: {kinds}"
        return f'<td class="empty">none<sup>{reasons.mark(why)}</sup></td>'
    lines = [f"<b>{number(summary.median)}</b>"]
    if summary.used > 1:
        lines.append(f"<small>{number(summary.low)} to {number(summary.high)}</small>")
    if table.cycles and ghz:
        lines.append(f"<small>{number(summary.median * ghz)} cycles</small>")
    behind = ""
    ours = summaries.get((table.key, row, table.base)) if table.base else None
    if ours and column != table.base and ours.median > 0 and summary.median > 0 and (not table.peers or column in table.peers):
        lines.append(f"<small>{number(summary.median / ours.median)} ×</small>")
        is_behind = summary.median < ours.median if table.better == "lower" else summary.median > ours.median
        behind = ' class="behind"' if is_behind else ""
    title = f"{summary.used} rounds, {summary.rejected} not used; least {number(summary.least)}"
    return f'<td{behind} title="{title}">' + "<br>".join(lines) + "</td>"


def show_table(table, summaries, every, missing, pyplot, name, ghz):
    """A table with its plot, and the reasons of what is empty."""
    rows, columns = layout(table, summaries)
    if not rows or not columns:
        return f"<h3>{text(table.title)}</h3><p class=\"soft\">Empty: {text(reason(missing, table.key, '*', '*'))}.</p>"
    reasons = Reasons()
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    body = "".join(
        f"<tr><th>{text(row)}</th>" + "".join(cell(table, summaries, every, missing, row, column, reasons, ghz) for column in columns) + "</tr>"
        for row in rows)
    of_table = [sample for sample in every if sample.table == table.key]
    rejected = [sample for sample in of_table if sample.disturbed]
    used = f"{len(of_table) - len(rejected)} of {len(of_table)} samples are used"
    if rejected:
        used += ": " + "; ".join(f"in {count}, {kind}" for kind, count in samples.reasons(rejected))
    spread = "Median; below it the 10th and 90th percentile."
    if table.base:
        spread += f" ×: of the figure of “{text(table.base)}” in the same row." + (
            " More is better." if table.better == "higher" else " Less is better.")
    drawn = plots.draw(pyplot, table, rows, columns, summaries, name) if pyplot else ""
    note = prose(table.note) if table.note else ""
    return (f"<h3>{text(table.title)} [{text(table.unit)}]</h3>{note}<div class=\"scroll\"><table><thead><tr><th>{text(table.corner)}</th>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div><p class=\"soft\">{spread} {text(used)}.</p>{reasons}{drawn}")


def show_published(published):
    """Figures of a paper."""
    head = "".join(f"<th>{text(word)}</th>" for word in published.head)
    body = "".join("<tr>" + f"<th>{text(row[0])}</th>" + "".join(f"<td>{text(word)}</td>" for word in row[1:]) + "</tr>" for row in published.rows)
    return (f'<div class="published"><h3>Published: {text(published.source)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{prose(published.note) if published.note else ''}</div>")


def show(experiment, stored, pyplot, ghz):
    """The section of one experiment. `ghz`: the rate of the CPU, if it was not noted when the experiment ran."""
    parts = [f'<section id="e{experiment.number}"><h2>{experiment.number}. {text(experiment.title)}</h2>', prose(experiment.question)]
    if experiment.how:
        parts.append(prose(experiment.how))
    if stored is None:
        why = experiment.why or f"It has not been run. Type bench/report/run --only {experiment.number}"
        parts.append(f'<p><b>No figures.</b> {text(why)}.</p>')
    else:
        about, every = stored
        ghz = about.get("ghz", ghz)
        if about["once"]:
            parts.append('<p class="warn">One short round (--once): the figures only show that the experiment works.</p>')
        if about["failed"]:
            parts.append(f'<p class="warn">The experiment did not end properly: {text(about["failed"])}</p>')
        summaries = samples.summarize(every)
        for table in experiment.tables:
            parts.append(show_table(table, summaries, every, about["missing"], pyplot, f"e{experiment.number}-{table.key}", ghz))
        for note in about["notes"]:
            parts.append(prose(note))
        packed = base64.b64encode(gzip.compress((harness.OUT / f"{experiment.number:02}/samples.csv").read_bytes(), mtime=0)).decode()
        parts.append(f'<p class="soft">Measured {text(about["date"])} at commit {text(about["commit"])}, in {about["seconds"]:.0f} s. '
                     f'<a download="strata-{experiment.number:02}.csv.gz" href="data:application/gzip;base64,{packed}">All {len(every)} samples as CSV</a>.</p>')
    parts += [show_published(published) for published in experiment.published]
    return "\n".join(parts) + "</section>"


def overview(experiments, every):
    """Where Strata stands beside each peer, the worst first."""
    found = []
    for experiment in experiments:
        if every.get(experiment.number):
            summaries = samples.summarize(every[experiment.number][1])
            found += [(times, experiment, table, row, column) for times, table, row, column in comparisons(experiment, summaries)]
    if not found:
        return ""
    found.sort(key=lambda entry: entry[0])
    behind = sum(entry[0] < 1 for entry in found)
    rows = "".join(
        f'<tr><th>{text(table.title)}: {text(row)}</th><td class="words">{text(column)}</td><td{" class=behind" if times < 1 else ""}><b>{number(times)}</b></td>'
        f'<td><a href="#e{experiment.number}">{experiment.number}</a></td></tr>' for times, experiment, table, row, column in found)
    return (f"<h2>Strata beside its peers</h2><p>How many times better than each peer Strata is, by the medians below, the worst first: below 1 the peer is "
            f"better. That is so in {behind} of {len(found)}.</p><details><summary>All {len(found)}</summary><div class=\"scroll\"><table><thead><tr><th>What"
            f"</th><th>Peer</th><th>Times better</th><th>Experiment</th></tr></thead><tbody>{rows}</tbody></table></div></details>")


def write(experiments, path, ghz):
    """Writes the page of all that is stored. Returns what could not be drawn, or ""."""
    every = {experiment.number: harness.stored(experiment.number) for experiment in experiments}
    complaint, pyplot = "", None
    try:
        pyplot = plots.library()
    except plots.NoPlots as error:
        complaint = str(error)
    there = [stored for stored in every.values() if stored]
    machine = there[-1][0]["machine"] if there else []
    once = any(about["once"] for about, _ in there)
    commits = sorted({about["commit"] for about, _ in there})
    parts = [
        "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Strata's benchmarks</title><style>{STYLE}</style></head><body>",
        "<h1>What does tracing cost?</h1>",
        prose("""A tracer writes down what a program and the operating system do, each event with its time. That costs time itself. This page measures
        how much: for Strata, and in the same run, in turn, for other tracers of Linux: LTTng, ftrace, perf and bpftrace, as Debian packages them. The
        experiments are those of the papers about LTTng, whose ideas Strata builds on. Beside each stand the figures that the paper published. Those were
        taken on machines of their time: compare ratios, not nanoseconds.

        An event record is what a tracer writes for one event. A tracepoint is the place in the code where it happens; one that is off is dormant. A
        flight recorder keeps the last records in memory and overwrites the oldest (overwrite mode); otherwise records go to a file, and those that find
        no room are counted and discarded (discard mode).

        In each round all variants run in turn, pinned to a CPU where one thread is measured, after a round that warms up. A round during which the core was shared
        or another process worked is not used; why, and how many, stands below each table. Two experiments are not so: the grid of 9 has one round for
        each cell, and 12 counts bytes, which depend on no other process. A cell without a figure says why."""),
    ]
    if once:
        parts.append('<p class="warn">At least one experiment ran only one short round (--once). Its section says so; its figures are no measurement.</p>')
    if len(commits) > 1:
        parts.append(f'<p class="warn">The experiments ran at different commits: {text(", ".join(commits))}.</p>')
    if complaint:
        parts.append(f'<p class="warn">There are no plots: {text(complaint)}.</p>')
    parts.append("<h3>The machine</h3><div class=\"scroll\"><table><tbody>" + "".join(f'<tr><th>{text(what)}</th><td class="words">{text(how)}</td></tr>' for what, how in machine) +
                 "</tbody></table></div>")
    parts.append("<nav><h3>Experiments</h3><ol>" + "".join(
        f'<li><a href="#e{experiment.number}">{text(experiment.title)}</a>{"" if every[experiment.number] else " <small>(no figures yet)</small>"}</li>'
        for experiment in experiments) + "</ol></nav>")
    parts.append(overview(experiments, every))
    parts += [show(experiment, every[experiment.number], pyplot, ghz) for experiment in experiments]
    parts.append("</body></html>\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), encoding="utf-8")
    return complaint
