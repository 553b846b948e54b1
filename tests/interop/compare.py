"""Compares what `strata view` and babeltrace2 print of a trace, byte for byte.

    compare.py STRATA TRACE [options]     one trace; "options": with all options that both have, too

What babeltrace2 2.0.4 shows wrongly is in known.py, and nothing else is tolerated.
Exit: 0 the same; 1 not.
"""

import os
import re
import subprocess
import sys

import known

# Of babeltrace2, of strata.
OPTIONS = [
    ((), ()),
    (("--no-delta",), ("--no-delta",)),
    (("--clock-date",), ("--clock=date", "--threads=1")),
    (("--clock-seconds",), ("--clock=seconds",)),
    (("--clock-cycles",), ("--clock=cycles",)),
    (("--clock-gmt",), ("--timezone=utc",)),
    (("--clock-gmt", "--clock-date", "--no-delta"), ("--timezone=utc", "--clock=date", "--no-delta")),
]
THEIR_LOSS = re.compile(rb"discarded (\d+) (event|packet)s? between")
OUR_LOSS = re.compile(rb"([\d,]+) (event|packet)(?: record)?s? discarded between")
TIMEOUT = 300


def environment(zone):
    """With a time zone, and without what may change the output."""
    return dict(
        {name: value for name, value in os.environ.items() if not name.startswith(("BABELTRACE", "STRATA"))},
        TZ=zone,
        LC_ALL="C",
    )


def run(command, zone="UTC"):
    """(exit status, stdout, stderr)."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        env=environment(zone),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def short(text):
    """What fits into a message."""
    return text if len(text) < 1500 else text[:1000] + b" ... " + text[-400:]


def around(want, have):
    """Both, from a little before where they begin to differ."""
    same = len(os.path.commonprefix([want, have]))
    begin = max(0, same - 60)
    return f"wanted: {short(want[:60])!r}...{short(want[begin:begin + 300])!r}\nfound:  {short(have[:60])!r}...{short(have[begin:begin + 300])!r}"


def difference(want, have):
    """Why they are not the same text, or None."""
    if want == have:
        return None
    seen = known.Seen()
    wanted, found = want.splitlines(True), have.splitlines(True)
    for number, (one, other) in enumerate(zip(wanted, found), 1):
        if not seen.same(one, other):
            return f"line {number} of {len(wanted)}:\n{around(one, other)}"
    if len(wanted) != len(found):
        more = (wanted if len(wanted) > len(found) else found)[min(len(wanted), len(found))]
        return f"{len(found)} lines, wanted {len(wanted)}; the first one over: {short(more)!r}"
    return None


def losses(pattern, talk):
    """What is said to be discarded: (number, what), sorted."""
    return sorted((int(number.replace(b",", b"")), what) for number, what in pattern.findall(talk))


def counts_of(found):
    """None if a count went back, as LTTng's does now and then: babeltrace2 then says some 2^64."""
    return None if any(number >= 1 << 63 for number, _ in found) else found


def wanted_text(paths, options, zone):
    """What babeltrace2 prints, and what it says was discarded."""
    status, text, talk = run(["babeltrace2", *options, *paths], zone)
    assert (
        status == 0
    ), f"babeltrace2 {' '.join(options)} {' '.join(paths)} fails: {talk[:2000].decode(errors='replace')}"
    return text, counts_of(losses(THEIR_LOSS, talk))


def check(strata, paths, options, wanted, zone="UTC"):
    """What is not as it should be of `strata view`, or None."""
    command = [strata, "view", *options, *paths]
    status, text, talk = run(command, zone)
    why = difference(wanted[0], text)
    if why is None and status != 0:
        why = f"exit status {status}"
    # It does not say more than 20 one by one.
    if why is None and wanted[1] is not None and len(wanted[1]) < 20 and losses(OUR_LOSS, talk) != wanted[1]:
        why = f"discarded: wanted {wanted[1]}, found {losses(OUR_LOSS, talk)}"
    if why is None:
        return None
    said = talk[:600].decode(errors="replace")
    return f"TZ={zone} {' '.join(command)}\n{why}" + (f"\nstrata said: {said}" if said else "")


def in_time(strata, trace):
    """Parts of it, from one time to another; returns the number of lines."""
    whole, _ = wanted_text([trace], ("--clock-seconds", "--no-delta"), "UTC")
    times = [line[1 : line.index(b"]")].decode() for line in whole.splitlines()]
    lines = 0
    for begin, end in ((1 / 3, 2 / 3), (0, 1 / 4), (0.9, 1), (0.5, 0.5)):
        begin, end = (times[int(part * (len(times) - 1))] for part in (begin, end))
        wanted, _ = wanted_text([trace], (f"--begin={begin}", f"--end={end}"), "UTC")
        # How much was discarded is said of what was looked at.
        why = check(strata, [trace], (f"--from=@{begin}", f"--to=@{end}"), (wanted, None), "UTC")
        if why:
            sys.exit(f"FAIL {why}")
        lines += wanted.count(b"\n")
    return lines


def main():
    strata, trace = sys.argv[1:3]
    pairs = OPTIONS if "options" in sys.argv else OPTIONS[:1]
    lines = 0
    for theirs, ours in pairs:
        wanted = wanted_text([trace], theirs, "Asia/Kathmandu")
        lines += wanted[0].count(b"\n")
        if not wanted[0]:
            sys.exit(f"FAIL babeltrace2 shows nothing of {trace}")
        why = check(strata, [trace], ours, wanted, "Asia/Kathmandu")
        if why:
            sys.exit(f"FAIL {why}")
    if "options" in sys.argv:
        lines += in_time(strata, trace)
    with open(f"{trace}.count", "w", encoding="utf-8") as file:
        file.write(f"{lines} lines, {len(pairs)} ways to show them\n")


if __name__ == "__main__":
    main()
