"""The extension's names for a Python without it: they do nothing."""

import os
import sys

BOOL = BYTES = FLOAT = HEX = INT = TEXT = UINT = 0
reason = ""
_said = not os.environ.get("STRATA_VERBOSE")


def _say():
    global _said
    if not _said:
        _said = True
        print(f"strata: events of this program are not recorded: {reason}", file=sys.stderr)


def availability():
    """Returns why events of this program cannot be recorded."""
    return reason


def event(name, level=6, /, **fields):
    """Does nothing."""
    _say()


class Event:
    """Does nothing."""

    enabled = False

    def __init__(self, name, level, fields, kinds, labels):
        _say()

    def __call__(self, *args, **kwargs):
        pass


class Span:
    """Does nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __call__(self, function):
        return function


_span = Span()


def span(name, level=6, /, **fields):
    """Returns a span that does nothing."""
    _say()
    return _span


async_span = span


def Traced(function, name, level):  # pylint: disable=invalid-name
    """Returns the function."""
    return function
