"""CTF 2, beside babeltrace2 2.1, whose path is BT.

    check_ctf2.py corpus STRATA BT FOLDER [NAME...]
        each construct of CTF 1.8 (constructs_*.py), as babeltrace2 writes it in CTF 2, is shown by `strata view`
        as the original, and as babeltrace2 shows it
    check_ctf2.py classes STRATA BT FOLDER
        each field class of CTF 2 (ctf2_classes.py) is shown as babeltrace2 shows it
    check_ctf2.py same STRATA BT TRACE
        one trace is
Exit: 0 the same; 1 not.
"""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import check_constructs
import compare
import ctf2_classes

# As many of the corpus at least must be there, or the comparison says little: babeltrace2 cannot read some.
LEAST = 300
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


def convert(bt, path, to):
    """Whether babeltrace2 can read the trace, and write it as CTF 2."""
    status, _, _ = compare.run([bt, path, "-c", "sink.ctf.fs", "-p", f'path="{to}"'])
    return status == 0 and os.path.isdir(to)


def check_converted(strata, bt, folder, name, order):
    """(complaint or None, number of events), or None if babeltrace2 does not do its part."""
    made = check_constructs.CONSTRUCTS[name](order)
    # Of what 2.0.4 shows wrongly, 2.1 shows the same.
    wrong = isinstance(made, check_constructs.Instead) or name in check_constructs.ONLY_SECONDS
    wrong = wrong or name in WRONG
    if isinstance(made, check_constructs.Instead):
        made = made.trace
    base = os.path.join(folder, f"{name}-{order}")
    path = check_constructs.write(made, os.path.join(base, "1.8"), False)[0]
    to = os.path.join(base, "2")
    if not convert(bt, path, to):
        shutil.rmtree(base)
        return None
    status, wanted, _ = compare.run([bt, to])
    if status != 0:
        shutil.rmtree(base)
        return None
    _, original, _ = compare.run([strata, "view", path])
    status, found, talk = compare.run([strata, "view", to])
    why = None if wrong else compare.difference(plain(wanted), plain(found))
    if why:
        why = f"not as babeltrace2 shows it: {why}"
    else:
        why = compare.difference(plain(original), ADDED.sub(b"", plain(found)))
        why = f"not as the original: {why}" if why else None
    if why is None and status != 0:
        why = f"exit status {status}: {talk[:600].decode(errors='replace')}"
    if why is None:
        shutil.rmtree(base)
    return why, found.count(b"\n")


def corpus(strata, bt, folder, names):
    """All of it."""
    tasks = [(name, order) for name in names or check_constructs.CONSTRUCTS for order in ("le", "be")]
    failed, done, events = [], 0, 0
    with ThreadPoolExecutor(2) as pool:
        checked = pool.map(lambda task: check_converted(strata, bt, folder, *task), tasks)
        for (name, order), result in zip(tasks, checked):
            if result is None:
                continue
            done += 1
            events += result[1]
            if result[0]:
                failed.append(name)
                print(f"FAIL {name} ({order}): {result[0]}", flush=True)
    if failed:
        sys.exit(f"{len(failed)} of {done} traces are shown otherwise: {' '.join(sorted(set(failed)))}")
    if not names and done < LEAST:
        sys.exit(f"FAIL babeltrace2 has written {done} of {len(tasks)} traces as CTF 2, wanted {LEAST}")
    print(f"ok {done} of {len(tasks)} traces written as CTF 2 by babeltrace2, {events} events")


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


def classes(strata, bt, folder):
    """Each by itself."""
    for name, write in ctf2_classes.TRACES.items():
        path = os.path.join(folder, name)
        write(path)
        same(strata, bt, path)
    print(f"ok {len(ctf2_classes.TRACES)} traces of CTF 2's own classes")


def main():
    what, strata, bt, *rest = sys.argv[1:]
    if what == "corpus":
        corpus(strata, bt, rest[0], rest[1:])
    elif what == "classes":
        classes(strata, bt, rest[0])
    else:
        print(f"ok {os.path.basename(rest[0])}: {same(strata, bt, rest[0])} events as babeltrace2 shows them")


if __name__ == "__main__":
    main()
