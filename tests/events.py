"""The text that read_trace (lib.sh) makes of a trace, line by line, for the tests that look into it."""
import re
from typing import NamedTuple

LINE = re.compile(r"\[(\d+)\] \S+?:(.*):\((\d+)\) (\w+:\w+): \{ cpu_id = (\d+) \}, (\{ .*)$")


class Event(NamedTuple):
    """One event record; ns is CLOCK_MONOTONIC, pid that of the program's own PID namespace."""
    ns: int
    program: str
    pid: int
    name: str
    cpu: int
    fields: str

    def number(self, field):
        """An integer field."""
        return int(re.search(rf"[{{,] {field} = (-?\d+)", self.fields).group(1))

    def text(self, field):
        """A string field without quotes in it."""
        return re.search(rf'[{{,] {field} = "([^"]*)"', self.fields).group(1)


def read(path):
    """All events, in the order of the trace; their times never go back."""
    events = []
    before = 0
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            found = LINE.match(line)
            assert found, f"not a line of a trace: {line!r}"
            ns, program, pid, name, cpu, fields = found.groups()
            event = Event(int(ns), program, int(pid), name, int(cpu), fields)
            assert event.ns >= before, f"time goes back from {before}: {line!r}"
            before = event.ns
            events.append(event)
    return events


def count_up(events, field="number", first=0):
    """The field counts from `first` without a gap, in the order of time; equal times have no order."""
    numbers = [event.number(field) for event in sorted(events, key=lambda e: (e.ns, e.number(field)))]
    for want, have in enumerate(numbers, first):
        assert want == have, f"{field} {have} where {want} was next, of {len(numbers)}"
