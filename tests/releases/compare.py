"""Compares what `strata view` says of kept traces with what the release said: each event with its time, name, and each value.

    compare.py STRATA EVENTS NAME=TRACE...

A key that is new is no difference.
"""

import json
import subprocess
import sys

strata, path, *named = sys.argv[1:]
places = dict(one.split("=", 1) for one in named)


def differs(was, now, where):
    if isinstance(was, dict) and isinstance(now, dict):
        for key in was:
            if key not in now:
                return f"{where}.{key} is not there"
            found = differs(was[key], now[key], f"{where}.{key}")
            if found:
                return found
        return None
    return None if was == now else f"{where} was {json.dumps(was)[:200]}, and is {json.dumps(now)[:200]}"


traces = 0
with open(path, encoding="utf-8") as file:
    for line in file:
        name, events = json.loads(line)
        if name not in places:
            continue
        said = subprocess.run([strata, "view", "--format", "json", places.pop(name)], stdout=subprocess.PIPE, check=True).stdout
        now = [json.loads(one) for one in said.splitlines()]
        if len(now) != len(events):
            sys.exit(f"{name}: {len(events)} events then, {len(now)} now")
        for number, (was, is_now) in enumerate(zip(events, now)):
            found = differs(was, is_now, f"{name}: event {number}")
            if found:
                sys.exit(found)
        traces += 1
if places or not traces:
    sys.exit(f"no events are kept of {' '.join(places) or 'any trace'}")
print(f"{traces} traces have the same events")
