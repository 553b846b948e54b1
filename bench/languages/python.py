#!/usr/bin/env python3
"""What an event of a Python program costs: the lowest of some rounds [ns], without the loop.

    python.py LABEL [--once] [--lttng]    --lttng: only messages of logging, by LTTng's agent if it is installed
"""

import logging
import sys
import time

ROUNDS, EVENTS = (2, 100) if "--once" in sys.argv else (15, 20_000)
# LTTng's agent sends each message to a daemon: it takes a hundred times as long.
MESSAGES = EVENTS // 10


def lowest(function, events=EVENTS):
    """Nanoseconds of a call of a function that gets a range."""
    function(range(10))
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        function(range(events))
        best = min(best, time.perf_counter_ns() - begin)
    return best / events


def empty(numbers):
    for number in numbers:
        pass


def logged(numbers):
    for number in numbers:
        LOGGER.info("a message")


EMPTY = lowest(empty)
LOGGER = logging.getLogger("bench")
LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False


def show(what, function, events=EVENTS):
    """Prints a row."""
    print(f"RESULT {sys.argv[1]}/{what} {lowest(function, events) - EMPTY:.1f}")


if "--lttng" in sys.argv:
    LOGGER.addHandler(logging.NullHandler())
    show("logging, a handler that does nothing", logged, MESSAGES)
    import lttngust  # pylint: disable=import-error,unused-import

    LOGGER.propagate = True
    show("logging, LTTng's agent", logged, MESSAGES)
    sys.exit()

import strata_events as strata  # pylint: disable=wrong-import-position

SOLD = strata.Event("bench:declared", number=int, customer=str)
PAIR = strata.Event("bench:pair", one=int, two=int)


def event(numbers):
    record = strata.event
    for number in numbers:
        record("bench:event", number=number, customer="Ada")


def text(numbers):
    record = strata.event
    for number in numbers:
        record("bench:text", text="thirty-one characters and more.")


def declared(numbers):
    sold = SOLD
    for number in numbers:
        sold(number, "Ada")


def pair(numbers):
    sold = PAIR
    for number in numbers:
        sold(number, number)


def span(numbers):
    make = strata.span
    for number in numbers:
        with make("bench:span", number=number):
            pass


def plain():
    pass


@strata.span("bench:decorated")
def decorated():
    pass


def calls_plain(numbers):
    for number in numbers:
        plain()


def calls_decorated(numbers):
    for number in numbers:
        decorated()


show("Event, two int", pair)
show("Event, int and str", declared)
show("event(), a str", text)
show("event(), int and str", event)
show("span() with an int, begin and end", span)
show("a call of an empty function", calls_plain)
show("a call of a decorated function", calls_decorated)
if sys.version_info >= (3, 12):
    strata.trace_functions("__main__.plain")
    show("a call of a function by trace_functions()", calls_plain)
    strata.trace_functions()
LOGGER.addHandler(logging.NullHandler())
show("logging, a handler that does nothing", logged, MESSAGES)
LOGGER.handlers[:] = [strata.LoggingHandler()]
show("logging, LoggingHandler", logged, MESSAGES)
