"""check_constructs.py STRATA FOLDER [NAME...]: each construct, in both byte orders, with plain and packetised
metadata, is shown by `strata view` as by babeltrace2. Without NAME all of them. Each is shown in the first way and in one more,
which differs by construct, byte order and day (tests/share.py): all ways in six days, or at once with ALL=1 in the environment.
Exit: 0 the same; 1 not.
"""

import os
import re
import shutil
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import compare
import constructs_compound
import constructs_fields
import constructs_random
import constructs_streams
import constructs_tsdl
from writer import Instead, Int

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import share  # noqa: E402

CONSTRUCTS = {}
for _module in (
    constructs_fields,
    constructs_compound,
    constructs_random,
    constructs_streams,
    constructs_tsdl,
):
    CONSTRUCTS.update(_module.CONSTRUCTS)
# What babeltrace2 shows wrongly in other ways of showing it: see known.py.
ONLY_SECONDS = {"clock_before_1970", "clock_long_before_1970"}
NOT_CYCLES = {"clocks_two", "traces_of_several_clocks"}
ZONES = ("UTC", "America/St_Johns")


def write(traces, folder, packetised):
    """A trace or several; returns the paths to give."""
    if not isinstance(traces, dict):
        traces = {"": traces}
    for name, trace in traces.items():
        trace.write(os.path.join(folder, name) if name else folder, packetised)
    return [folder]


def usable(name, options):
    """Whether babeltrace2 shows it rightly so."""
    if name in ONLY_SECONDS:
        return "--clock-seconds" in options
    # Where another clock stands for it, its cycles are others.
    return "--clock-cycles" not in options or not (
        name in NOT_CYCLES or name.startswith("clock_") and isinstance(CONSTRUCTS[name]("le"), Instead)
    )


CONVERTED = [0]


def check_converted(strata, path, to, lines):
    """The same events as another writer writes them, babeltrace2's, where it can and reads them again."""
    if compare.run(["babeltrace2", path, "-o", "ctf", "-w", to])[0]:
        return None
    status, text, talk = compare.run(["babeltrace2", to])
    if status != 0 or text.count(b"\n") != lines:
        return None
    CONVERTED[0] += 1
    return compare.check(strata, [to], (), (text, compare.losses(compare.THEIR_LOSS, talk)))


def check(strata, folder, name, order):
    """All ways of one construct; the complaints."""
    made = CONSTRUCTS[name](order)
    instead = made if isinstance(made, Instead) else None
    base = os.path.join(folder, f"{name}-{order}")
    reference = write(
        instead.reference if instead else made, os.path.join(base, "reference" if instead else "plain"), False
    )
    plain = write(instead.trace, os.path.join(base, "plain"), False) if instead else reference
    packets = write(instead.trace if instead else made, os.path.join(base, "packets"), True)
    complaints, lines = [], 0
    pairs = list(enumerate(pair for pair in compare.OPTIONS if usable(name, pair[0])))
    turn = zlib.crc32(f"{name}-{order}".encode())
    if not share.ALL and len(pairs) > 1:
        pairs = [pairs[0], pairs[1 + (turn + share.DAY) % (len(pairs) - 1)]]
    for number, (theirs, ours) in pairs:
        zone = ZONES[number % 2]
        text, loss = compare.wanted_text(reference, theirs, zone)
        if number == 0:
            lines = text.count(b"\n")
        wanted = (re.sub(*instead.change, text) if instead and instead.change else text, loss)
        for paths in (plain, packets) if number == 0 else (plain,):
            complaints.append(compare.check(strata, paths, ours, wanted, zone))
    if order == "le" and not instead and name not in ONLY_SECONDS and share.is_todays(turn, 2):
        complaints.append(check_converted(strata, plain[0], os.path.join(base, "converted"), lines))
    complaints = [complaint for complaint in complaints if complaint]
    if not complaints:
        shutil.rmtree(base)
    return complaints


def checked(strata, folder, name, order):
    """As check(); what goes wrong with babeltrace2 or the construct itself is a complaint, too."""
    try:
        return check(strata, folder, name, order)
    except Exception as error:  # pylint: disable=broad-except
        return [f"{type(error).__name__}: {error}"]


def main():
    strata, folder, *names = sys.argv[1:]
    tasks = [(name, order) for name in names or CONSTRUCTS for order in ("le", "be")]
    failed = set()
    with ThreadPoolExecutor(2) as pool:
        for (name, order), complaints in zip(
            tasks, pool.map(lambda task: checked(strata, folder, *task), tasks)
        ):
            if complaints:
                failed.add(name)
                print(
                    f"FAIL {name} ({order}), {len(complaints)} ways; the first:\n{complaints[0]}", flush=True
                )
    if failed:
        sys.exit(
            f"{len(failed)} of {len(names or CONSTRUCTS)} constructs are shown otherwise, {share.told()}: {' '.join(sorted(failed))}"
        )
    print(
        f"ok {len(names or CONSTRUCTS)} constructs, {len(compare.OPTIONS)} ways to show them, of which {share.told()}; {CONVERTED[0]} rewritten by babeltrace2"
    )


if __name__ == "__main__":
    main()
