"""Samples of a measurement, and what a table says of them: medians, spread, and which rounds are not used.

A sample is one number of one round. A round that something else disturbed keeps its sample, with the reason, in the raw
CSV; no figure of the page uses it. What disturbs a round:

- its control loop (bench/control.h), which does the same work before and after each round, took more than ALONE times as long
  as the quickest control of the same table: something else had a part of the core, or the CPU had another frequency;
- the hypervisor gave the CPUs to others for more than STOLEN of the round;
- processes that are none of the benchmark used more than OTHERS of one CPU.
"""

import csv
import dataclasses
import math
import re

ALONE = 1.1
STOLEN = 0.02
OTHERS = 0.10
FIELDS = ("table", "row", "column", "round", "value", "control", "disturbed")


@dataclasses.dataclass(frozen=True)
class Sample:
    """One number of one round. `control`: of its control loop [ns], 0 where there is none. `disturbed`: why it is not used."""

    table: str
    row: str
    column: str
    round: int
    value: float
    control: float = 0.0
    disturbed: str = ""

    @property
    def cell(self):
        """The cell of the table that the sample belongs to."""
        return self.table, self.row, self.column


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of the undisturbed samples of a cell: the median, the 10th and 90th percentile, the least; and how many there are."""

    median: float
    low: float
    high: float
    least: float
    used: int
    rejected: int


def percentile(values, percent):
    """The value below which `percent` of `values` lie, between two of them in proportion to their distances."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile of no values")
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def reject(samples):
    """The samples, those whose control loop was slow with the reason. A sample that has a reason keeps it."""
    quickest = {}
    for sample in samples:
        if sample.control > 0:
            quickest[sample.table] = min(quickest.get(sample.table, math.inf), sample.control)
    judged = []
    for sample in samples:
        if not sample.disturbed and sample.control > ALONE * quickest.get(sample.table, math.inf):
            times = sample.control / quickest[sample.table]
            sample = dataclasses.replace(sample, disturbed=f"the control loop took {times:.2f} times its quickest")
        judged.append(sample)
    return judged


def difference(samples, base, into=None):
    """What each sample has more than that of the column `base` in the same table, row and round; of table `into`, if said.

    A difference is disturbed if one of its two is. A round without the base gives none.
    """
    bases = {(sample.table, sample.row, sample.round): sample for sample in samples if sample.column == base}
    found = []
    for sample in samples:
        other = bases.get((sample.table, sample.row, sample.round))
        if sample.column == base or other is None:
            continue
        found.append(dataclasses.replace(
            sample, table=into or sample.table, value=sample.value - other.value, control=0.0,
            disturbed=sample.disturbed or other.disturbed))
    return found


def summarize(samples):
    """Of each cell its Summary; None where all of its samples were disturbed."""
    cells = {}
    for sample in samples:
        cells.setdefault(sample.cell, []).append(sample)
    summaries = {}
    for cell, of_cell in cells.items():
        used = [sample.value for sample in of_cell if not sample.disturbed]
        summaries[cell] = Summary(
            percentile(used, 50), percentile(used, 10), percentile(used, 90), min(used), len(used), len(of_cell) - len(used)
        ) if used else None
    return summaries


def reasons(samples):
    """(kind of reason, how many) of the disturbed samples, the most frequent first. A kind is a reason without its numbers."""
    counts = {}
    for sample in samples:
        if sample.disturbed:
            kind = re.sub(r"[0-9][0-9.,]*%?", "…", sample.disturbed)
            counts[kind] = counts.get(kind, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def write(samples, path):
    """Writes the samples as CSV with a head."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for sample in samples:
            writer.writerow([getattr(sample, field) for field in FIELDS])


def read(path):
    """The samples of a file that write() has written."""
    with open(path, encoding="utf-8", newline="") as file:
        return [Sample(line["table"], line["row"], line["column"], int(line["round"]), float(line["value"]), float(line["control"]),
                       line["disturbed"]) for line in csv.DictReader(file)]
