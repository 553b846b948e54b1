"""check.py PART TEXT: compares babeltrace2's TEXT of a recording of counted.js with what PART recorded."""

import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from recorded_text import LINES, found, keys, run  # noqa: E402


def values():
    """Values of all types."""
    assert len(found("node:none")) == 1
    numbers = found("node:numbers")
    assert "least = -9223372036854775808, most = 9223372036854775807, below = -5, half = 0.5, yes = 1" in numbers[0], numbers
    assert "least = 7, most = 0, below = 0, half = 2.5, yes = 1" in numbers[1], numbers
    assert "least = 9007199254740991, most = -9007199254740991, below = 0, half = 0, yes = 1" in numbers[2], numbers
    assert "least = 0, most = 0, below = 0, half = 0, yes = 1" in numbers[3], numbers
    texts = [re.search(r'_text_length = (\d+), text = "(.*)", _more_length = (\d+), more = "(.*)", number = (\d+)', line).groups()
             for line in found("node:text")]
    assert texts[0] == ("3", 'é\\"', "0", "", "1"), texts[0]
    assert texts[1] == ("100000", "x" * 100_000, "150000", "€" * 50_000, "2"), texts[1][::2]
    assert texts[2] == ("8", "{ a: 1 }", "9", "undefined", "3"), texts[2]
    assert texts[3][1] == "<object without a text>" and texts[3][4] == "4", texts[3]
    assert texts[4] == ("6", "before", "6", "inside", "5"), texts[4]
    assert "number = 7" in found("node:text/2")[0] and "number = 1" in found("node:without_provider")[0]


def workers():
    """Events and spans of threads."""
    order = collections.defaultdict(list)
    for line in found("node:step"):
        match = re.search(r'number = (\d+), _text_length = \d+, text = "(\d)/(\d+)"', line)
        assert match[1] == match[3], line
        order[match[2]].append(int(match[1]))
    assert sorted(order) == (["0"] if sys.argv[1] == "killed" else ["0", "1", "2"])
    assert all(numbers == list(range(500)) for numbers in order.values())
    assert len(keys("node:work")) == 500 * len(order)
    assert all('_text_length = 3, text = "Ada", yes = 1, half = 0.5' in line for line in found("node:work_begin"))


def executed():
    """A program, and what it started."""
    assert [re.search(r"number = (\d+)", line)[1] for line in found("node:step")] == ["0", "1"]


def channels():
    """Diagnostics channels."""
    sold = [re.search(r'number = (\d+), _who_length = 3, who = "Ada"', line)[1] for line in found("diagnostics_channel:shop:sold")]
    assert sold == [str(number) for number in range(20)], sold
    assert 'message = "{ answer: 42 }"' in found("diagnostics_channel:shop.plain")[0]
    if len(LINES) > 21:
        assert len(keys("diagnostics_channel:shop.pay")) == 5


CHECKS = {"values": values, "workers": workers, "killed": workers, "executed": executed, "channels": channels}
run(CHECKS)
