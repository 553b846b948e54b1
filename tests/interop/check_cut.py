"""Checks with babeltrace2 that `strata export --to ctf` writes what was asked for.

    check_cut.py STRATA FOLDER trace PATH [PATH...]     each trace
    check_cut.py STRATA FOLDER constructs [NAME...]     the constructs of CTF 1.8 (constructs_*.py)
    check_cut.py STRATA FOLDER few NAME...              some, in fewer ways

All of a trace, parts of its time, and what filters select. babeltrace2 shows of the new trace what it shows of
the old one with --begin and --end, or what `strata view` shows with the filter, and says the same of what was
discarded. Exit: 0 as it should be; 1 not.
"""

import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import check_constructs
import compare

# Another one, which reads CTF 2.
BT = os.environ.get("PEER", "babeltrace2")
PLAIN = ("--clock-seconds", "--no-delta")
DISCARDED = re.compile(rb"Tracer (may have )?discarded ([\d?]*)[^\n]*?(event|packet)s? between (\[[^\]]*\] and \[[^\]]*\])")
COUNT = {"cuts": 0, "refused": 0, "lines": 0}
# No description of theirs says a time so that others may be left out.
MAY_BE_REFUSED = "cannot be said in a part of it", "all of a file is one packet", "would end within a byte"


def shown(path, *options):
    """(lines, what was discarded), or None if babeltrace2 cannot read it."""
    status, text, talk = compare.run([BT, *PLAIN, *options, path])
    return None if status else (text.splitlines(True), DISCARDED.findall(talk))


def same_losses(wanted, found):
    """With --begin and --end, babeltrace2 does not say how many there were."""

    def in_order(losses):
        """At one time it says what it has in any order."""
        return sorted(losses, key=lambda loss: (loss[3], loss[2], int(loss[1] or 0)))

    pairs = list(zip(in_order(wanted), in_order(found)))
    alike = (one[2:] == other[2:] and (one[0] or one[1] == other[1]) for one, other in pairs)
    return len(wanted) == len(found) and all(alike)


def cut(strata, path, to, *options):
    """Its exit status and what it says."""
    shutil.rmtree(to, ignore_errors=True)
    status, _, talk = compare.run([strata, "export", "--to", "ctf", "-o", to, *options, path])
    return status, talk.decode(errors="replace")


def same(strata, path, to, wanted, losses, *options):
    """What is not as it should be, or None."""
    status, talk = cut(strata, path, to, *options)
    what = f"strata export --to ctf {' '.join(options)} {path}"
    if not wanted and options:
        return None if status == 1 and not os.path.exists(to) else f"{what}: exit status {status}: {talk}"
    if status == 2 and any(why in talk for why in MAY_BE_REFUSED) and not os.path.exists(to):
        COUNT["refused"] += 1
        if "VERBOSE" in os.environ:
            print(what, talk)
        return None if options else f"{what}: {talk}"
    if status not in (0, 2):
        return f"{what}: exit status {status}: {talk}"
    COUNT["cuts"] += 1
    COUNT["lines"] += len(wanted)
    found = shown(to)
    if found is None:
        return f"{what}: babeltrace2 cannot read it: {compare.run([BT, to])[2][:1500]}"
    why = compare.difference(b"".join(wanted), b"".join(found[0]))
    if why:
        # A text that it shows wrongly (known.py) may be in a line that is not there.
        ours = compare.run([strata, "view", "--clock=seconds", "--no-delta", *options, path])[1]
        why = compare.difference(b"".join(found[0]), ours) and why
    if why is None and not same_losses(losses, found[1]):
        why = f"discarded: wanted {losses}, found {found[1]}"
    return why and f"{what}: {why}"


def times_of(lines):
    """The lines' times, as babeltrace2 writes them."""
    return [line[1 : line.index(b"]")].decode() for line in lines if line.startswith(b"[")]


def filters(strata, path):
    """Some that select a part of the events."""
    status, text, _ = compare.run([strata, "view", "--format=json", path])
    names, values = set(), []
    for line in text.splitlines() if status == 0 else []:
        event = json.loads(line)
        names.add(event.get("name"))
        for field, value in (event.get("fields") or {}).items():
            if isinstance(value, int) and re.fullmatch(r"[a-z_]+", field):
                values.append((field, value))
    found = [f"name == {json.dumps(name)}" for name in sorted(filter(None, names))[:2]]
    if values:
        field, value = values[len(values) // 2]
        found += [f"{field} == {value}", f"!({field} == {value})"]
    return found


PARTS = ((1 / 3, 2 / 3), (0, 1 / 4), (0.9, 1), (0.5, 0.5))


def check(strata, path, to, parts=PARTS, most=3):
    """All ways of one trace, or some; the complaints."""
    whole = shown(path)
    if whole is None:
        return []
    complaints = [same(strata, path, to, *whole)]
    times = times_of(whole[0])
    if times and len(times) == len(whole[0]) and times == sorted(times, key=float):
        for begin, end in parts:
            begin, end = (times[int(part * (len(times) - 1))] for part in (begin, end))
            wanted = shown(path, f"--begin={begin}", f"--end={end}")
            if wanted is not None:
                complaints.append(same(strata, path, to, *wanted, f"--from=@{begin}", f"--until=@{end}"))
    for expression in filters(strata, path)[-most:]:
        status, text, _ = compare.run([strata, "view", "--clock=seconds", "--no-delta", "-f", expression, path])
        if status in (0, 1):
            complaints.append(same(strata, path, to, text.splitlines(True), whole[1], f"--filter={expression}"))
    return [complaint for complaint in complaints if complaint]


def constructs(strata, folder, names, *ways):
    """(name, complaints) of each construct that babeltrace2 shows rightly."""

    def one(task):
        name, order = task
        made = check_constructs.CONSTRUCTS[name](order)
        if isinstance(made, check_constructs.Instead):
            return task, []
        base = os.path.join(folder, f"{name}-{order}")
        try:
            path = check_constructs.write(made, os.path.join(base, "trace"), order == "be")[0]
            found = check(strata, path, os.path.join(base, "cut"), *ways)
        except Exception as error:  # pylint: disable=broad-except
            found = [f"{type(error).__name__}: {error}"]
        if not found:
            shutil.rmtree(base)
        return task, found

    tasks = [(name, order) for name in names or check_constructs.CONSTRUCTS for order in ("le", "be")]
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(one, tasks)


def main():
    strata, folder, what, *names = sys.argv[1:]
    if what == "constructs":
        results = constructs(strata, folder, names)
    elif what == "few":
        results = constructs(strata, folder, names, PARTS[:1], 1)
    else:
        results = ((name, check(strata, name, os.path.join(folder, "cut"))) for name in names)
    failed = 0
    for name, complaints in results:
        failed += bool(complaints)
        for complaint in complaints[:1]:
            print(f"FAIL {name}, {len(complaints)} ways; the first:\n{complaint}", flush=True)
    if failed:
        sys.exit(f"{failed} traces are cut otherwise")
    print(f"ok {COUNT['cuts']} cuts with {COUNT['lines']} lines; {COUNT['refused']} refused")


if __name__ == "__main__":
    main()
