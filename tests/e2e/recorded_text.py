"""recorded_text.py: what the checks of bindings read of babeltrace2's text. A check is called as `check.py PART TEXT`.

    from recorded_text import LINES, found, keys, run
    run({"values": values, "threads": threads})     calls the function of PART, the last thing in a check
"""

import re
import sys

with open(sys.argv[2], encoding="utf-8", errors="replace") as file:
    LINES = file.read().splitlines()


def found(event):
    """The fields of an event's records."""
    return [line.split(f" {event}: ", 1)[1] for line in LINES if f" {event}: " in line]


def keys(name):
    """The keys of the begins and ends of a span, which must be the same."""
    begun, ended = ([int(re.search(r"span_key = 0x(\w+)", line)[1], 16) for line in found(f"{name}_{end}")] for end in ("begin", "end"))
    assert len(set(begun)) == len(begun) and sorted(begun) == sorted(ended), name
    return begun


def run(checks):
    """Calls the check of the PART that the command line names."""
    checks[sys.argv[1]]()
