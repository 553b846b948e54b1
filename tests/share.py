"""What is tried today of many things that are alike: each of them comes round within some days.

STRATA_DAY=N (days since 1970) repeats the share of that day; with ALL=1, as in `make nightly`, everything is tried.
"""

import os
import time

ALL = bool(os.environ.get("ALL"))
DAY = int(os.environ.get("STRATA_DAY") or time.time() // 86400)


def is_todays(number, days):
    """Whether the thing of that number is tried today, where all of them are in so many days."""
    return ALL or (number + DAY) % days == 0


def todays(things, days):
    """Those that are tried today. Neighbours, which are the most alike, come on different days."""
    return [thing for number, thing in enumerate(things) if is_todays(number, days)]


def told():
    """For the output of the test: how to repeat it."""
    return "all of them (ALL=1)" if ALL else f"the share of STRATA_DAY={DAY}"
