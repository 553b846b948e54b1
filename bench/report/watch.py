#!/usr/bin/env python3
"""Watches whether anything else used the machine while something was measured.

    bench/report/watch.py begin            prints what the machine has done until now
    bench/report/watch.py end <THAT        prints the reason why what was measured since was disturbed, or nothing

The module does the same for bench/report/run. Processes of the benchmark are those that descend from it, or have its
variable STRATA_BENCH_REPORT; kernel threads work for whoever is measured, so they count for nobody.
"""

import json
import os
import subprocess
import sys
import time

from samples import OTHERS, STOLEN

MARK = b"STRATA_BENCH_REPORT="
HERTZ = os.sysconf("SC_CLK_TCK")
KERNEL_THREADS = 2


def processes():
    """Of each process its parent, its name and the CPU time that it and its ended children have used [s]."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        begin, end = text.index("("), text.rindex(")")
        rest = text[end + 2:].split()
        found[int(name)] = (int(rest[1]), text[begin + 1:end], sum(map(int, rest[11:15])) / HERTZ)
    return found


def is_ours(pid, all_processes, root):
    """Whether a process belongs to the benchmark that `root` began, or is a thread of the kernel."""
    at = pid
    while at in all_processes:
        if at in (root, KERNEL_THREADS):
            return True
        at = all_processes[at][0]
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return MARK in file.read()
    except OSError:
        return False


def stolen():
    """The time that the hypervisor gave to others, of all CPUs [s]."""
    with open("/proc/stat", encoding="utf-8") as file:
        fields = file.readline().split()
    return int(fields[8]) / HERTZ if len(fields) > 8 else 0.0


def begin(root):
    """What the machine has done until now."""
    every = processes()
    others = {str(pid): used for pid, (_, _, used) in every.items() if not is_ours(pid, every, root)}
    return {"time": time.monotonic(), "stolen": stolen(), "others": others}


def judge(seconds, stolen_seconds, used, cpus):
    """Why a round of `seconds` was disturbed, or "". `used`: the CPU time of other processes by name [s]."""
    if seconds <= 0:
        return ""
    # A tick is the least that the kernel counts.
    if stolen_seconds > max(STOLEN * seconds * cpus, 1.5 / HERTZ):
        return f"the hypervisor took {stolen_seconds / seconds / cpus:.1%} of the CPUs"
    if sum(used.values()) > OTHERS * seconds:
        most = max(used, key=used.get)
        return f"other processes used {sum(used.values()) / seconds:.0%} of a CPU, most of it {most}"
    return ""


def end(before, root):
    """Why what was measured since begin() was disturbed, or ""."""
    seconds = time.monotonic() - before["time"]
    cpus = os.cpu_count() or 1
    every = processes()
    used = {}
    for pid, (_, name, time_used) in every.items():
        more = time_used - before["others"].get(str(pid), 0.0)
        if more > 1.5 / HERTZ and not is_ours(pid, every, root):
            # A child that ends counts with all that it has used since it began.
            used[name] = used.get(name, 0.0) + min(more, seconds * cpus)
    return judge(seconds, stolen() - before["stolen"], used, cpus)


class Control:
    """The control loop of bench/control.h on the CPUs that are measured."""

    def __init__(self, program, cpus):
        self.command = [program, *map(str, cpus)]

    def __call__(self):
        """What an iteration takes now on the slowest of the CPUs [ns]."""
        return float(subprocess.run(self.command, check=True, stdout=subprocess.PIPE, timeout=60).stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["begin"]:
        print(json.dumps(begin(os.getppid())))
    elif sys.argv[1:] == ["end"]:
        print(end(json.load(sys.stdin), os.getppid()))
    else:
        sys.exit(f"watch.py: begin or end, not {sys.argv[1:]}")
