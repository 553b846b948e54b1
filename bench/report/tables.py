"""What an experiment shows: tables, published figures beside them, and what a cell says."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of the page: its samples have its key. Rows and columns that are named here are shown even if nothing was measured.

    `base`: the column that others are compared with, Strata's; `peers`: those others, all if empty. `plot`: bars, lines, heat or none.
    `better`: "lower" or "higher". `cycles`: cells also say clock cycles.
    """

    key: str
    title: str
    unit: str
    corner: str = ""
    note: str = ""
    rows: tuple = ()
    columns: tuple = ()
    base: str = ""
    peers: tuple = ()
    plot: str = "bars"
    log: bool = False
    better: str = "lower"
    cycles: bool = False


@dataclasses.dataclass(frozen=True)
class Published:
    """Figures of a paper, as they stand there: another machine, and often another kind of kernel."""

    source: str
    head: tuple
    rows: tuple
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One section of the page. `measure(bench)` takes its samples; without it `why` says why its cells are empty."""

    number: int
    title: str
    question: str
    how: str
    tables: tuple = ()
    published: tuple = ()
    measure: object = None
    why: str = ""


def in_order(given, found):
    """The given names first, then those found, each once."""
    return list(dict.fromkeys([*given, *found]))


def layout(table, summaries):
    """The rows and columns of a table."""
    rows = in_order(table.rows, [row for key, row, _ in summaries if key == table.key])
    columns = in_order(table.columns, [column for key, _, column in summaries if key == table.key])
    return rows, columns


def reason(missing, table, row, column):
    """Why a cell has no figure: the most exact that is noted."""
    for key in ((table, row, column), (table, row, "*"), (table, "*", column), ("*", row, column), ("*", "*", column), ("*", row, "*"),
                (table, "*", "*"), ("*", "*", "*")):
        text = missing.get("|".join(key))
        if text:
            return text
    return "this was not measured in this combination"


def number(value):
    """A figure in three digits or more, with commas."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    # What rounds to nothing has no sign.
    return f"{value:.2f}" if size >= 0.005 else "0.00"


def comparisons(experiment, summaries):
    """(times, table, row, column): how many times Strata's figure each peer's is, or, of what should be high, how often Strata's.

    Below 1 Strata is behind.
    """
    found = []
    for table in experiment.tables:
        if not table.base:
            continue
        rows, columns = layout(table, summaries)
        for row in rows:
            ours = summaries.get((table.key, row, table.base))
            if not ours:
                continue
            for column in table.peers or columns:
                other = summaries.get((table.key, row, column))
                if column == table.base or not other or ours.median <= 0 or other.median <= 0:
                    continue
                times = other.median / ours.median if table.better == "lower" else ours.median / other.median
                found.append((times, table, row, column))
    return found
