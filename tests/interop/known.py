"""What babeltrace2 2.0.4 shows wrongly, each with its reason. Nothing else is tolerated.

Others are with the construct in question, as it needs another trace to know what is right (Instead):
- a sequence or a variant in an event's own context ends it with an assertion;
- a variant's tag by its full name ("stream.event.context.tag") is refused;
- a clock without `freq` ends it with an assertion, although 1 GHz is meant then;
- a number of 61 to 63 bits is always 0x0 in hexadecimal (it shifts by 64);
- times of clocks other than 1 GHz are computed with 53 bits: some nanoseconds too few or too many; and offset and
  cycles are rounded down apart, so that a nanosecond is often missing in their sum;
- between the cycles of different clocks it shows a delta that has turned around (LTTng's buffers of each process have
  a clock each), or none;
- times before 1970 are shown without their sign but for the first, unless in seconds;
- an environment whose `hostname` or `procname` is a number ends it with a signal, and `vpid` that is a text is
  shown as an address.
"""

import re

QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
LABEL = QUOTED.pattern
# Of flags, Strata shows all that are set; babeltrace2 shows at most one that is called like the whole value.
FLAGS = re.compile(rb"\( " + LABEL + rb"(?: \| (?:" + LABEL + rb"|0x[0-9A-F]+))+ : container = ([^ ]+) \)")
ONE = rb"\( (?:<unknown>|" + LABEL + rb") : container = "

# The time since the record before, in cycles. 2**64 stands for a clock that is behind the other one.
SINCE = re.compile(rb"^(\[\d{20}\] )\(\+(\d{20})\) ")


def not_turned_around(want):
    """The line with a delta of cycles that has turned around as the negative number that it is."""

    def right(since):
        behind = 2**64 - int(since[2])
        return since[1] + b"(-%012d) " % behind if behind <= 2**63 else since[0]

    return SINCE.sub(right, want)


def without_flags(want, have):
    """Both lines, where Strata shows several flags without them, if babeltrace2 has the same number there."""
    at = 0
    for flags in list(FLAGS.finditer(have)):
        ours = re.compile(ONE + re.escape(flags[1]) + rb" \)").search(want, at)
        if not ours:
            break
        want = want[: ours.start()] + flags[1] + want[ours.end() :]
        have = have.replace(flags[0], flags[1], 1)
        at = ours.start()
    return want, have


class Seen:
    """Empty texts: babeltrace2 keeps records for reuse, and a text that turns empty there keeps its old value:
    what was shown before is shown again. With few records none is reused yet. So where Strata shows "",
    any text is right that is in an earlier line."""

    def __init__(self):
        self.texts = {b'""'}

    def same(self, want, have):
        """Two lines."""
        want, have = without_flags(not_turned_around(want), have)
        shown = QUOTED.findall(want)
        if want != have:
            found = QUOTED.findall(have)
            if QUOTED.split(want) != QUOTED.split(have) or len(shown) != len(found):
                return False
            for one, other in zip(shown, found):
                if one != other and not (other == b'""' and one in self.texts):
                    return False
                self.texts.add(one)
        self.texts.update(shown)
        return True
