"""check.py PART TEXT: compares babeltrace2's TEXT of a recording of Counted or Appenders with what PART recorded."""

import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from recorded_text import LINES, found, run  # noqa: E402


def values():
    """Values of all types."""
    first, second, third = found("java:values")
    for text in ("least = -9223372036854775808, most = 18446744073709551615, flags = 0xFF, half = 0.5, yes = 1", 'text = "é\\""',
                 "bytes = [ [0] = 0, [1] = 255 ]", "longs = [ [0] = 1, [1] = -2 ]", "doubles = [ [0] = 1.5 ]",
                 'colour = ( "BLUE" : container = 1 )'):
        assert text in first, first
    for text in ("least = 0, most = 7, flags = 0x3, half = 2, yes = 0", 'text = "<Counted$Fails without toString()>"', "_bytes_length = 0",
                 "longs = [ [0] = 5 ]", "_doubles_length = 0"):
        assert text in second, second
    assert "least = 1, most = 0" in third and 'text = "null"' in third, third
    texts = [re.search(r"_text_length = (\d+), text = \"(.*)\"", line).groups() for line in found("java:text")]
    assert texts == [("100000", "x" * 100_000), ("0", ""), ("4", "null"), ("2", "42")], [text[0] for text in texts]
    assert len(found("java:none")) == 1 and "number = 1, other = 2" in found("java:without_provider")[0]


def threads():
    """Events and spans of four threads."""
    order, pairs = collections.defaultdict(list), collections.defaultdict(list)
    for line in found("java:step"):
        match = re.search(r'number = (\d+), _text_length = \d+, text = "(\d)/(\d+)"', line)
        assert match[1] == match[3], line
        order[match[2]].append(int(match[1]))
    for line in found("java:pair"):
        match = re.search(r"thread = (\d+), number = (\d+)", line)
        pairs[match[1]].append(int(match[2]))
    for by_thread in (order, pairs):
        assert sorted(by_thread) == list("0123")
        assert all(numbers == list(range(500)) for numbers in by_thread.values())
    begun, ended = ([int(re.search(r"span_key = 0x(\w+)", line)[1], 16) for line in found(f"java:work_{end}")] for end in ("begin", "end"))
    assert len(set(begun)) == 2001 and sorted(begun) == sorted(ended)


def messages():
    """Messages of a logger."""
    texts = [re.search(r'message = "(.*?)", thread = \d+, .*thread_name = "main"', line)[1] for line in found("shop.orders:info")]
    assert texts == [f"order {number} of Ada" for number in range(50)], texts
    failed, = [line for line in LINES if "_exception: " in line]
    assert 'message = "failed"' in failed and "IllegalStateException: no money" in failed, failed


def logging():
    """Messages of java.util.logging."""
    messages()
    assert len(found("shop.orders:fine")) == 50


CHECKS = {"values": values, "threads": threads, "virtual": threads, "killed": threads, "logging": logging, "log4j": messages,
          "logback": messages}
run(CHECKS)
