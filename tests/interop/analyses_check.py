"""Compares what lttng-analyses computes with what babeltrace2 shows of the same trace.

    analyses_check.py TEXT FOLDER PATH=BYTES...

TEXT: babeltrace2's, times in clock cycles. FOLDER: of the analyses' results. PATH=BYTES: a file of which so many
were read, or to which they were written.
"""
import collections
import json
import re
import sys

LINE = re.compile(r"\[(\d+)\] (?:\S+ )?(\S+): \{ cpu_id = (\d+) \}, \{ tid = (-?\d+) \}, \{(.*)\}$")


def events(path):
    """Time [ns], name, CPU, thread, fields as text."""
    for line in open(path, errors="replace"):
        found = LINE.match(line.rstrip("\n"))
        assert found, f"not the line of an event: {line!r}"
        yield int(found[1]), found[2], int(found[3]), int(found[4]), found[5]


def number(fields, name):
    return int(re.search(rf"\b{name} = (-?\d+)", fields)[1])


def system_calls(path):
    """Of each thread and call: durations of those with both ends.

    The analyses know who runs from sched_switch, so nothing of what a CPU does before its first one.
    """
    known, open_calls, found = set(), {}, collections.defaultdict(list)
    for time, name, cpu, tid, _fields in events(path):
        if name == "sched_switch":
            known.add(cpu)
        elif cpu not in known:
            continue
        elif name.startswith("syscall_entry_"):
            open_calls[tid] = (name.removeprefix("syscall_entry_"), time)
        elif name.startswith("syscall_exit_") and tid in open_calls:
            call, begin = open_calls.pop(tid)
            found[tid, call].append(time - begin)
    return found


def cpu_time(path):
    """CPU time of each thread, and the trace's [ns]. Who is switched from first ran since the trace began."""
    since, used, first, last = {}, collections.Counter(), None, None
    for time, name, _cpu, _tid, fields in events(path):
        first, last = first if first is not None else time, time
        if name != "sched_switch":
            continue
        before, after = number(fields, "prev_tid"), number(fields, "next_tid")
        if before not in used:
            since[before] = first
        used[before] += time - since.pop(before, time)
        used[after] += 0
        since[after] = time
    for tid, begin in since.items():
        used[tid] += last - begin
    return used, last - first


def tables(folder, name):
    return json.load(open(f"{folder}/{name}.json"))["results"]


def check_calls(text, folder):
    """Count, shortest and longest of each; from the tables of threads, whose titles have their numbers."""
    wanted, seen, kinds, equal = system_calls(text), 0, 0, 0
    for table in tables(folder, "syscallstats:run_mi"):
        if not isinstance(table["class"], dict):
            continue
        tid = int(re.search(r"TID: (\d+)\)\]$", table["class"]["title"])[1])
        for call, count, shortest, _mean, longest, *_ in table["data"]:
            durations = wanted[tid, call["name"]]
            assert durations, f"{call} of thread {tid}: {count} times, and never in the trace"
            found = (count["value"], shortest["value"], longest["value"])
            most = (len(durations), min(durations), max(durations))
            assert found[0] <= most[0] and found[1] >= most[1] and found[2] <= most[2], (tid, call, found, most)
            equal += found == most
            kinds += 1
            seen += count["value"]
    total = sum(map(len, wanted.values()))
    # Not all: where a thread is on a CPU of which the analysis takes another one for the running one.
    assert total >= seen > max(500, 0.9 * total), f"{seen} system calls, and {total} are in the trace"
    assert equal > 0.8 * kinds, f"{equal} of {kinds} lines are exact"
    print(f"{seen} of {total} system calls; {equal} of {kinds} lines of the table exact to the nanosecond")


def check_cpus(text, folder):
    (used, span), seen = cpu_time(text), 0
    for table in tables(folder, "cputop:run_mi"):
        if table["class"] != "per-process":
            continue
        for process, _migrations, _priorities, share in table["data"]:
            wanted = used[process["tid"]] / span
            # Thread 0 is one for each CPU.
            assert not process["tid"] or abs(share["value"] - wanted) < 1e-9, (process, share, wanted)
            seen += share["value"] > 0
    assert seen >= 4, f"{seen} threads have used a CPU"
    print(f"{seen} threads with CPU time")


def check_files(folder, wanted):
    found = collections.Counter()
    for table in tables(folder, "io:runusage_mi"):
        for path, size, *_ in table["data"]:
            if path["class"] == "path":
                found[path["path"]] += size["value"]
    for item in wanted:
        path, size = item.rsplit("=", 1)
        assert found[path] == int(size), f"{path}: {found[path]} bytes, wanted {size}: {found}"
    print(f"{len(found)} files")


if __name__ == "__main__":
    check_calls(sys.argv[1], sys.argv[2])
    check_cpus(sys.argv[1], sys.argv[2])
    check_files(sys.argv[2], sys.argv[3:])
