"""check.py PART TEXT: compares babeltrace2's TEXT of a recording of the program with what PART recorded."""

import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from recorded_text import LINES, found, keys, run  # noqa: E402


def values():
    """Values of all types."""
    assert len(found("go:none")) == 1
    assert "least = -9223372036854775808, most = 18446744073709551615, half = 0.5, yes = 1" in found("go:numbers")[0]
    assert "a = -128, b = 1.5, c = 255" in found("go:small")[0]
    texts = [re.search(r"_text_length = (\d+), text = \"(.*)\"", line).groups() for line in found("go:text")]
    assert texts == [("3", 'é\\"'), ("0", ""), ("100000", "x" * 100_000), ("5", "again")], [text[0] for text in texts]
    assert "number = 7" in found("go:text/2")[0] and "number = 1" in found("go:without_provider")[0]
    assert len(keys("go:pair")) == len(keys("go:empty")) == 1
    assert '_text_length = 3, text = "Ada", yes = 1' in found("go:pair_begin")[0]


def goroutines():
    """Events and spans of 50 goroutines."""
    order = collections.defaultdict(list)
    for line in found("go:step"):
        match = re.search(r'number = (\d+), _text_length = \d+, text = "(\d+)/(\d+)"', line)
        assert match[1] == match[3], line
        order[int(match[2])].append(int(match[1]))
    assert sorted(order) == list(range(50))
    assert all(numbers == list(range(100)) for numbers in order.values())
    assert len(keys("go:work")) == 5000


def executed():
    """A program, and what it started."""
    assert [re.search(r"number = (\d+)", line)[1] for line in found("go:step")] == ["0", "1"]
    assert len({re.search(r"\((\d+)\) go:step", line)[1] for line in LINES}) == 2


def slog():
    """Messages of log/slog."""
    orders = [line for line in LINES if 'message = "order"' in line]
    assert len(orders) == 50 and len({re.search(r" (slog:info slog.go:\d+): ", line)[1] for line in orders}) == 1
    for number, line in enumerate(orders):
        assert f'number = {number}, _customer_length = 3, customer = "Ada", price = 1.5, paid = 1' in line, line
    slow, = [line for line in LINES if " slog:warn slog.go:" in line]
    for text in ('message = "slow"', "request = 7", "took = 3000000000", "port = 80", 'error = "late"'):
        assert text in slow, slow
    twice, = [line for line in LINES if " slog:debug slog.go:" in line]
    assert "a = 1" in twice and 'a_2 = "two"' in twice, twice
    changing = [re.search(r"(slog:error slog.go:\d+\S*): .*value = (.*) }", line).groups() for line in LINES if " slog:error " in line]
    assert [value for _, value in changing] == ["1", '"one"', "2"] and changing[0][0] == changing[2][0], changing
    assert changing[1][0] == changing[0][0] + "/2", changing
    assert sum('message = "level"' in line for line in LINES) == 1


CHECKS = {"values": values, "goroutines": goroutines, "killed": goroutines, "executed": executed, "slog": slog}
run(CHECKS)
