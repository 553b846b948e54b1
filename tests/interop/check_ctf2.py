"""CTF 2, beside babeltrace2 2.1, whose path is BT.

    check_ctf2.py corpus STRATA BT FOLDER [NAME...]
        each construct of CTF 1.8 (constructs_*.py), as babeltrace2 writes it in CTF 2, is shown by `strata view`
        as the original, and as babeltrace2 shows it. In one byte order today and in the other tomorrow, or in both with ALL=1
    check_ctf2.py classes STRATA BT FOLDER
        each field class of CTF 2 (ctf2_classes.py) is shown as babeltrace2 shows it; stats and export have its events
    check_ctf2.py same STRATA BT TRACE
        one trace is; stats and export have its events
    check_ctf2.py kinds STRATA BT TRACE TRACE
        two traces are, and events of one name have the same fields in both
Exit: 0 the same; 1 not.
"""

import collections
import csv
import io
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import check_constructs
import compare
import ctf2_classes
import perfetto_decode

share = check_constructs.share

# As many of the corpus at least must be there, or the comparison says little: babeltrace2 cannot read some.
LEAST = 410 if share.ALL else 200
# As known.py and the construct itself say.
WRONG = {"integers_hexadecimal_of_almost_64_bits"}
LABEL = compare.known.LABEL
# Where an enumeration has several labels for a value, 2.1 puts braces around them, as 2.0.4 does not; and they
# have no order of their own, as they are the names of a JSON object.
SEVERAL = re.compile(rb"\( (\{ )?(" + LABEL + rb"(?:, " + LABEL + rb")+)(?(1) \}) : container")
# What babeltrace2's writer adds for lengths and selectors that are in a part that it does not write.
ADDED = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}-\S+-(?:len|sel) = \d+, ")


def plain(text):
    """A text without what differs between versions."""

    def in_order(match):
        return b"( " + b", ".join(sorted(re.findall(LABEL, match[2]))) + b" : container"

    # 2.0.4 and Strata say so of an empty name.
    return SEVERAL.sub(in_order, text).replace(b") <unknown>:", b") :")


def shown(command):
    """A command's text; an assertion if it fails."""
    status, text, talk = compare.run(command)
    assert status == 0, f"{' '.join(command)}: exit status {status}: {talk[:600].decode(errors='replace')}"
    return text


# Widths of integers for which babeltrace2's writer has no code, and those that are converted instead.
NO_WIDTHS = {24: 23, 40: 39, 48: 47, 56: 55}


def traces_below(path):
    """Folders."""
    return [folder for folder, _, files in os.walk(path) if "metadata" in files]


def has_no_widths(base):
    """Whether an integer has such a width."""
    for folder in traces_below(os.path.join(base, "1.8")):
        with open(os.path.join(folder, "metadata"), encoding="utf-8") as file:
            if any(int(width) in NO_WIDTHS for width in re.findall(r"\bsize = (\d+);", file.read())):
                return True
    return False


def has_empty(base):
    """Whether an array has no elements."""
    return b" = [ ]" in compare.run(["babeltrace2", os.path.join(base, "1.8")])[1]


class Cause:
    """Why babeltrace2 2.1.1 does not do its part. `step`: "read" the original, "write" it as CTF 2, read that
    "back", or has written something "other"; `status`: its exit status then; `says`: what it says; `when`: what else
    must be so; `is_good`: what it has written is right, although it does not read it."""

    def __init__(self, step, status, says, reason, when=lambda base: True, is_good=False):
        self.step, self.status, self.says, self.reason, self.when = step, status, re.compile(says), reason, when
        self.is_good, self.count = is_good, 0

    def fits(self, step, status, talk, base):
        """Whether this is it."""
        known = (self.step, self.status) == (step, status)
        return known and self.says.search(b" ".join(talk.split())) and self.when(base)


# By its own messages, but where it crashes. Nothing else is tolerated.
CLOCKS = Cause("read", 1, rb"Unexpected clock class", "does not merge streams of clocks that have nothing in common")
WIDTHS = Cause("write", -6, rb"^$", "aborts when it writes integers of 24, 40, 48 or 56 bits", has_no_widths)
# As it does when it reads, and as the specification has it.
UNALIGNED = "writes an empty array and does not align it"
OTHER = Cause("other", 0, rb"", UNALIGNED + ": what is behind it is other than it was", has_empty)
TWICE = Cause("back", 1, rb"Duplicate clock class fragment", "writes a clock twice and does not read it")
CAUSES = [
    CLOCKS,
    WIDTHS,
    OTHER,
    Cause("back", 1, rb"bits of packet content required at this point", UNALIGNED, has_empty),
    Cause("back", 1, rb"Expecting a JSON object key", "does not read an empty label", is_good=True),
    TWICE,
    Cause("back", 1, rb"-\(null\)-sel", "writes a reference to a selector without a name and does not read it"),
    Cause(
        "back",
        1,
        rb"No trace was found based on input",
        "writes nothing of a trace without streams",
        lambda base: "/streams_none-" in base,
    ),
    Cause("read", 1, rb"syntax error, unexpected CTF_(?:STREAM|EVENT),", "refuses tags such as stream.event.context.x"),
    Cause(
        "read",
        -6,
        rb"pre:message-packet-beginning-create-with-default-clock-snapshot:without-default-clock-snapshot",
        "aborts where a packet has no time and its event records have",
    ),
    Cause(
        "read",
        -11,
        rb"^$",
        "crashes at sequences and variants in an event's own context",
        lambda base: "_in_the_specific_context-" in base,
    ),
]


def cause_of(refused, base):
    """The known one."""
    return next((cause for cause in CAUSES if cause.fits(*refused, base)), None)


def convert(bt, path, to):
    """Writes it as CTF 2: babeltrace2's text of that, and None; or None, and (step, exit status, what was said)."""
    status, _, talk = compare.run([bt, path, "-c", "sink.ctf.fs", "-p", f'path="{to}"'])
    if status != 0:
        readable, _, _ = compare.run([bt, path])
        return None, ("write" if readable == 0 else "read", status, talk)
    status, text, talk = compare.run([bt, to])
    return text, ("back", status, talk) if status else None


def convert_each(bt, path, to):
    """The traces of a folder one by one; whether there are several, and all are written."""
    each = [(folder, os.path.join(to, os.path.relpath(folder, path))) for folder in traces_below(path)]
    return len(each) > 1 and not any(convert(bt, *one)[1] for one in each)


def read_once(bt, path, to):
    """As convert(), of a trace as it is without fragments that are there twice."""
    shutil.copytree(path, to)
    for folder in traces_below(to):
        metadata = os.path.join(folder, "metadata")
        with open(metadata, "rb") as file:
            fragments = dict.fromkeys(fragment.strip() for fragment in file.read().split(b"\x1e"))
        with open(metadata, "wb") as file:
            file.write(b"".join(b"\x1e" + fragment + b"\n" for fragment in fragments if fragment))
    status, text, talk = compare.run([bt, to])
    return text, ("back", status, talk) if status else None


class Result:
    """Of a construct: the cause for which babeltrace2 has not done its part, what is wrong, and how many events
    were compared; None: it was not compared."""

    def __init__(self, cause=None, why=None, events=None):
        self.cause, self.why, self.events = cause, why, events


def in_order(text):
    """Lines without a delta. Of one time, those of several traces are in the order that a version has for them."""
    lines = [re.sub(rb"^(\[\S+ )\(\S+ ", rb"\1", line) for line in plain(text).splitlines(True)]
    return b"".join(sorted(lines))


def difference(what, wanted, found):
    """Why these texts are not the same."""
    why = compare.difference(wanted, found)
    return f"not as {what}: {why}" if why else None


def check_converted(strata, bt, folder, name, order):
    """A construct as CTF 2."""
    made = check_constructs.CONSTRUCTS[name](order)
    # Of what 2.0.4 shows wrongly, 2.1 shows the same.
    wrong = isinstance(made, check_constructs.Instead) or name in check_constructs.ONLY_SECONDS
    wrong = wrong or name in WRONG
    if isinstance(made, check_constructs.Instead):
        made = made.trace
    base = os.path.join(folder, f"{name}-{order}")
    shutil.rmtree(base, ignore_errors=True)
    path = check_constructs.write(made, os.path.join(base, "1.8"), False)[0]
    to = os.path.join(base, "2")
    text, refused = convert(bt, path, to)
    cause = cause_of(refused, base) if refused else None
    if cause is TWICE:
        text, refused = read_once(bt, to, os.path.join(base, "once"))
        cause = cause_of(refused, base) if refused else TWICE
    if refused and not cause:
        step, status, talk = refused
        talk = talk[-600:].decode(errors="replace")
        return Result(why=f"babeltrace2 fails ({step}), and this is no known cause: {status}: {talk}")
    # What it has written can be compared with the original all the same.
    if refused and not (convert_each(bt, path, to) if cause is CLOCKS else cause.is_good):
        shutil.rmtree(base)
        return Result(cause)
    status, found, talk = compare.run([strata, "view", to])
    why = f"exit status {status}: {talk[:600].decode(errors='replace')}" if status else None
    if not why and not wrong and not refused:
        why = difference("babeltrace2 shows it", plain(text), plain(found))
    if not why:
        changed = in_order if cause is CLOCKS else plain
        _, original, _ = compare.run([strata, "view", path])
        why = difference("the original", changed(original), changed(ADDED.sub(b"", found)))
        # Both read the same there: what is written is not the original.
        if why and not wrong and not refused and OTHER.when(base):
            shutil.rmtree(base)
            return Result(OTHER)
    if not why:
        shutil.rmtree(base)
    return Result(cause, why, found.count(b"\n"))


def check_all(strata, bt, folder, tasks):
    """Of each task (construct, byte order) the result."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda task: (task, check_converted(strata, bt, folder, *task)), tasks))


def corpus(strata, bt, folder, names):
    """All of it, and once more with other widths what fails for the widths."""
    orders = {name: ("le", "be") for name in names} or {
        name: share.todays(("le", "be") if number % 2 else ("be", "le"), 2)
        for number, name in enumerate(check_constructs.CONSTRUCTS)
    }
    tasks = [(name, order) for name, each in orders.items() for order in each]
    results = check_all(strata, bt, folder, tasks)
    for _, result in results:
        if result.cause:
            result.cause.count += 1
    check_constructs.Int.instead = NO_WIDTHS
    again = check_all(strata, bt, folder, [task for task, result in results if result.cause is WIDTHS])
    check_constructs.Int.instead = {}
    # Not all can be made so: those of two byte orders, and with declarations of their own.
    again = [(task, result) for task, result in again if result.events is not None]
    failed = [(task, result.why) for task, result in results + again if result.why]
    for (name, order), why in failed:
        print(f"FAIL {name} ({order}): {why}")
    if failed:
        sys.exit(f"{len(failed)} traces are shown otherwise, {share.told()}: {' '.join(sorted({task[0] for task, _ in failed}))}")
    compared = [result.events for _, result in results + again if result.events is not None]
    if not names and len(compared) < LEAST:
        sys.exit(f"FAIL {len(compared)} of {len(tasks)} traces were compared as CTF 2, wanted {LEAST}")
    for cause in CAUSES:
        print(f"babeltrace2 {cause.reason}: {cause.count}")
    print(f"with other widths {len(again)} of {WIDTHS.count} are compared")
    print(f"ok {len(compared)} of {len(tasks)} traces written as CTF 2 by babeltrace2, {sum(compared)} events, {share.told()}")


def same(strata, bt, path, seen=True):
    """The number of events of a trace that both show alike."""
    wanted = plain(shown([bt, path]))
    found = plain(shown([strata, "view", path]))
    why = compare.difference(wanted, found)
    if why:
        sys.exit(f"FAIL {path}: {why}")
    if seen and not found:
        sys.exit(f"FAIL {path}: babeltrace2 shows nothing")
    return found.count(b"\n")


# One name in several parts of a record, which a Perfetto event has side by side.
SAME_NAMES = {"places_in_other_parts"}


def outputs(strata, bt, path):
    """`strata stats` and each format of `strata export` have the times and names of the events that babeltrace2
    shows."""
    lines = shown([bt, "--clock-seconds", "--no-delta", path]).decode(errors="replace").split("\n")[:-1]
    times = [int(line[1 : line.index("]")].replace(".", "")) for line in lines]

    def check(what, found):
        assert [time for time, _ in found] == times, f"{path}: {what}: {len(found)} events, wanted {len(times)}"
        for (_, name), line in zip(found, lines):
            assert f" {name}: {{" in line, f"{path}: {what}: {name}, wanted {line[:200]}"

    def export(*options):
        return shown([strata, "export", "-o", "-", "--to", *options, path])

    events = [json.loads(line) for line in export("json").splitlines()]
    check("json", [(event["time"], event["name"]) for event in events])
    csv.field_size_limit(1 << 24)
    rows = list(csv.DictReader(io.StringIO(export("csv").decode(), newline="")))
    check("csv", [(int(row["time"].replace(".", "")), row["name"]) for row in rows])
    if os.path.basename(path) not in SAME_NAMES:
        packets = os.path.join(os.path.dirname(path), "perfetto")
        with open(packets, "wb") as file:
            file.write(export("perfetto", "--no-pairs"))
        model = perfetto_decode.Model(perfetto_decode.decode(packets))
        gaps = {(time, event["name"]) for time, event in model.gaps}
        instants = [(one.begin, one.name) for one in model.of(perfetto_decode.INSTANT)]
        instants = [one for one in instants if one not in gaps]
        # Its times may be those of another clock.
        first = min(time for time, _ in instants)
        wanted = sorted((time - times[0], event["name"]) for time, event in zip(times, events))
        instants = sorted((time - first, name) for time, name in instants)
        assert instants == wanted, f"{path}: perfetto: {len(instants)} events, wanted {len(wanted)}: {instants[:3]}"
    stats = json.loads(shown([strata, "stats", "--json", path]))
    counted = {event["name"]: event["records"] for event in stats["events"] if event["records"]}
    assert stats["records"] == len(times), f"{path}: stats: {stats['records']} events, wanted {len(times)}"
    assert counted == collections.Counter(event["name"] for event in events), f"{path}: stats: {counted}"


def classes(strata, bt, folder):
    """Each by itself."""
    for name, write in ctf2_classes.TRACES.items():
        path = os.path.join(folder, name)
        write(path)
        same(strata, bt, path)
        outputs(strata, bt, path)
    for name, (write, payloads) in ctf2_classes.BEYOND.items():
        path = os.path.join(folder, name)
        write(path)
        found = [line.split("my:event: ")[1] for line in shown([strata, "view", path]).decode().splitlines()]
        assert found == [f"{{ {payload} }}" for payload in payloads], f"{name}: {found}"
    print(f"ok {len(ctf2_classes.TRACES)} traces of CTF 2's own classes, {len(ctf2_classes.BEYOND)} beyond babeltrace2")


QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')


def kinds(bt, path):
    """Each event's name, and the names of its fields in their order, each once."""
    found = {}
    for line in shown([bt, "--clock-seconds", "--no-delta", path]).split(b"\n")[:-1]:
        line = QUOTED.sub(b"", line)
        name = re.search(rb"(\S+): \{", line)[1]
        found.setdefault(name, dict.fromkeys(re.findall(rb"([\w-]+) = ", line)))
    return found


def same_kinds(bt, one, other):
    """The number of names of which both have events."""
    both = kinds(bt, one), kinds(bt, other)
    names = both[0].keys() & both[1].keys()
    for name in names:
        fields = [list(found[name]) for found in both]
        assert fields[0] == fields[1], f"{name}: {fields}"
    assert len(names) >= 20, f"{len(names)} kinds of events in both: {names}"
    return len(names)


def main():
    what, strata, bt, *rest = sys.argv[1:]
    if what == "corpus":
        corpus(strata, bt, rest[0], rest[1:])
    elif what == "classes":
        classes(strata, bt, rest[0])
    elif what == "kinds":
        events = [same(strata, bt, path) for path in rest]
        print(f"ok {same_kinds(bt, *rest)} kinds of events have the same fields in both, {events} events")
    else:
        outputs(strata, bt, rest[0])
        print(f"ok {os.path.basename(rest[0])}: {same(strata, bt, rest[0])} events as babeltrace2 shows them")


if __name__ == "__main__":
    main()
