#!/usr/bin/env python3
"""sample.py JSON PROGRAM: the samples of tests/programs/sampled.c, whose functions burn 3 to 1."""
import collections
import json
import math
import sys

path, program = sys.argv[1:]
program = program.rsplit("/", 1)[1]
counts = collections.Counter()
unasked = 0
for line in open(path, encoding="utf-8"):
    event = json.loads(line)
    if event["name"] != "cpu_clock":
        continue
    payload = event["payload"]
    unasked += payload["unasked"]
    user = event["callstack_user"]
    shown, recorded = [frame["address"] for frame in user], payload["callstack_user"]
    # A stack is shown up to the first address that is no code, which ends it.
    ends = bool(user) and user[-1].get("func") == "[no frame pointer]"
    if shown != (recorded[: len(shown)] if ends else recorded):
        sys.exit(f"names of other addresses: {line}")
    if any(frame.get("func") == "[no frame pointer]" for frame in user[:-1]):
        sys.exit(f"a stack goes on behind its end: {line}")
    if payload["ip"] >= 1 << 63 and event["callstack_kernel"][0]["address"] != payload["ip"]:
        sys.exit(f"the stack does not begin where it was interrupted: {line}")
    names = [frame.get("func", "").split("+")[0] for frame in user]
    for name in ("burn_three", "burn_one"):
        if name in names:
            counts[name] += 1
            frame = user[names.index(name)]
            if not frame["bin"].startswith(program + "+") or not frame["src"].startswith("sampled.c:"):
                sys.exit(f"{name} is elsewhere: {frame}")
            # Who called it is the next one.
            if names.index(name) + 1 >= len(names) or names[names.index(name) + 1] != "main":
                sys.exit(f"{name} is not called by main: {names}")
    counts["all"] += 1
three, one = counts["burn_three"], counts["burn_one"]
both = three + one
print(f"{counts['all']} samples, {three} in burn_three, {one} in burn_one, {unasked} unasked")
if both < 100:
    sys.exit("too few samples")
if both < 0.9 * counts["all"]:
    sys.exit("most samples are elsewhere")
# Six standard deviations, of samples that stand for several where some were unasked.
deviation = 6 * math.sqrt(0.75 * 0.25 / both * (1 + unasked / both)) + 0.02
if abs(three / both - 0.75) > deviation:
    sys.exit(f"a share of {three / both:.3f} instead of 0.75, at most {deviation:.3f} off")
