"""Compares what lttng-analyses computes with what babeltrace2 shows of the same trace.

    analyses_check.py TEXT FOLDER PATH=BYTES...

TEXT: babeltrace2's, times in clock cycles. FOLDER: of the analyses' results. PATH=BYTES: a file of which so many
were read, or to which they were written.
"""
import collections
import json
import re
import sys

DUMP = "lttng_statedump_"
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
    """Of each thread and call: durations of those with both ends; and how many events the analyses give to another
    thread.

    Whose an event is they know from sched_switch alone, not from the thread in the record: nothing of what a CPU does
    before its first one, and what it does behind a switch to a thread of which the kernel then tells no more is that
    thread's. There are such: kernels of some virtual machines trace nothing in the threads of process 1 (perf shows
    the same). A switch that we have not recorded would look alike, but for that thread's other events.
    """
    running, open_calls, found, others = {}, {}, collections.defaultdict(list), 0
    # A statedump is of the tracer, which writes it and is not traced.
    told, becomes = set(), set()
    for _time, name, _cpu, tid, fields in events(path):
        if not name.startswith(DUMP):
            told.add(tid)
        # A thread that executes a program has the number of its process from then on, some records earlier already.
        if name == "sched_process_exec":
            becomes.add((number(fields, "old_tid"), number(fields, "tid")))
    for time, name, cpu, tid, fields in events(path):
        if name.startswith(DUMP):
            continue
        thread = running.get(cpu)
        if cpu in running and thread != tid:
            assert thread not in told or (thread, tid) in becomes, \
                f"{time}: CPU {cpu} runs thread {tid}, and was switched to {thread}"
            others += 1
        if name == "sched_switch":
            running[cpu] = number(fields, "next_tid")
        elif name == "sched_process_fork":
            # Begun by one that had the number before.
            open_calls.pop(number(fields, "child_tid"), None)
        elif not thread:
            # Of nobody, or of the one that runs where there is nothing to do.
            continue
        elif name.startswith("syscall_entry_"):
            open_calls[thread] = (name.removeprefix("syscall_entry_"), time)
        elif name.startswith("syscall_exit_") and thread in open_calls:
            call, begin = open_calls.pop(thread)
            found[thread, call].append(time - begin)
    return found, others


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
    (wanted, others), seen = system_calls(text), {}
    for table in tables(folder, "syscallstats:run_mi"):
        if not isinstance(table["class"], dict):
            continue
        tid = int(re.search(r"TID: (\d+)\)\]$", table["class"]["title"])[1])
        for call, count, shortest, _mean, longest, *_ in table["data"]:
            seen[tid, call["name"]] = (count["value"], shortest["value"], longest["value"])
    lines = {key: (len(all_), min(all_), max(all_)) for key, all_ in wanted.items()}
    wrong = {key: (seen.get(key), lines.get(key)) for key in seen.keys() | lines.keys() if seen.get(key) != lines.get(key)}
    assert not wrong, f"{len(wrong)} lines of {len(lines)}, such as {list(wrong.items())[:3]}"
    total = sum(map(len, wanted.values()))
    assert total > 500, f"{total} system calls"
    print(f"{total} system calls, {len(lines)} lines of the table exact to the nanosecond; {others} events of a thread "
          "that is not the one switched to")


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
