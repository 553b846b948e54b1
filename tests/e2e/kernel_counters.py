#!/usr/bin/env python3
"""kernel_counters.py RESTARTS < TEXT: the records of sched_switch that have the counter perf_cpu_context_switches. On each
CPU each has one more than the one before; or more, since the kernel hides threads, and with them the switches from them: where
another thread goes on than the one that was switched to (unless it is the same one, which has got its process' number by an
exec), or where that one was left and switched to again, which are two more. At most RESTARTS times it begins again, with
zeroes until then. Where there is a clock, too, it goes as the time of the records does."""
import re
import sys

restarts = int(sys.argv[1])
of_cpu = {}
for line in sys.stdin:
    found = re.match(r"\[(\d+)\] .*sched_switch: .*?cpu_id = (\d+)", line)
    count = re.search(r"perf_cpu_context_switches = (\d+)", line)
    clock = re.search(r"perf_cpu_cpu_clock = (\d+)", line)
    threads = re.search(r"prev_tid = (\d+), .*next_tid = (\d+)", line)
    if found and count and threads:
        record = int(found[1]), int(count[1]), clock and int(clock[1]), threads.groups()
        of_cpu.setdefault(int(found[2]), []).append(record)
assert of_cpu, "no record has the counter"
begun = renamed = 0
for cpu, records in of_cpu.items():
    again = 0
    for (time, before, _, (_, to)), (_, count, _, (who, _)) in zip(records, records[1:]):
        is_next = count == before + 1 or count > before + (1 if who != to else 2)
        renamed += who != to and count == before + 1
        if is_next or before == 0 and restarts > 0:
            continue
        assert count < before, f"CPU {cpu} at {time}: {before}, then {count}"
        again += 1
    assert again <= restarts, f"CPU {cpu} has begun {again} times again"
    begun += again
    clocks = [(time, clock) for time, _, clock, _ in records if clock is not None]
    assert clocks == sorted(clocks), f"CPU {cpu}: a clock that goes back"
    if clocks:
        (time, clock), (last_time, last_clock) = clocks[0], clocks[-1]
        spans = last_time - time, last_clock - clock
        # A virtual CPU is stopped between the two at times.
        assert abs(spans[0] - spans[1]) <= spans[0] / 2 + 1e8, f"CPU {cpu}: {spans} ns"
print(sum(map(len, of_cpu.values())), "switches", renamed, "renamed", begun, "begun again")
