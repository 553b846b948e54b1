"""Compares what perf script and `strata view --format json` say of one perf.data.

    perf_data_check.py SCRIPT JSON

SCRIPT: perf script -D --ns -F comm,pid,tid,[cpu,]time,event,trace, which shows each record twice: with its call chain, as it
is in the file, and with its fields. Exit: 0 the same; 1 not.
"""

import collections
import json
import re
import sys

HEAD = re.compile(r"^ *(.*?) +(-?\d+)/(-?\d+) +(?:\[(\d+)\] +)?(\d+)\.(\d{9}): +(\S+):(?: +(.*))?$")
SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) prev_prio=(-?\d+) prev_state=(\S+) ==> "
                    r"next_comm=(.*) next_pid=(\d+) next_prio=(-?\d+)$")
SAMPLE = re.compile(r"^(?:\S+ )?(\d+) 0x\w+ \[0x\w+\]: PERF_RECORD_SAMPLE\([^)]*\): (-?\d+)/(-?\d+):")
ADDRESS = re.compile(r"^\.+ +\d+: ([0-9a-f]{16})$")
WAKEUP = re.compile(r"comm=(.*) pid=(\d+) prio=(-?\d+) target_cpu=(\d+)$")


def name_of(event):
    """The name that a trace has for an event of perf."""
    name = re.sub(r"^(cpu-clock|page-faults|cycles):?[a-zA-Z]*$", r"\1", event)
    return {"cpu-clock": "cpu_clock"}.get(name, name.split(":")[-1])


def fields_of(name, text):
    """What both say of the fields of a tracepoint."""
    if name == "sched_switch":
        prev, prev_pid, prev_prio, _, following, next_pid, next_prio = SWITCH.match(text).groups()
        return (prev, int(prev_pid), int(prev_prio), following, int(next_pid), int(next_prio))
    if name == "sched_wakeup":
        comm, pid, prio, cpu = WAKEUP.match(text).groups()
        return (comm, int(pid), int(prio), int(cpu))
    if name == "sys_enter":
        number, arguments = re.match(r"NR (-?\d+) \((.*)\)$", text).groups()
        return (int(number), [int(argument, 16) for argument in arguments.split(", ")])
    return ()


def own_fields(name, payload):
    if name == "sched_switch":
        return tuple(payload[key] for key in
                     ("prev_comm", "prev_pid", "prev_prio", "next_comm", "next_pid", "next_prio"))
    if name == "sched_wakeup":
        return tuple(payload[key] for key in ("comm", "pid", "prio", "target_cpu"))
    if name == "sys_enter":
        return (payload["id"], [argument % 2 ** 64 for argument in payload["args"]])
    return ()


def of_perf(path):
    rows = []
    for line in open(path, encoding="utf-8", errors="replace"):
        found = HEAD.match(line.rstrip("\n"))
        if found:
            comm, pid, tid, cpu, seconds, nanos, event, rest = found.groups()
            name = name_of(event)
            rows.append((int(seconds) * 10 ** 9 + int(nanos), int(cpu) if cpu else None, int(pid), int(tid), name,
                         fields_of(name, (rest or "").strip()), comm))
    return rows


def chains_of_perf(path):
    """Time, process, thread, and the addresses of the kernel and of the program."""
    chains, chain, whose = [], None, None
    for line in open(path, encoding="utf-8", errors="replace"):
        if sample := SAMPLE.match(line):
            chain, whose = ([], []), None
            chains.append((*map(int, sample.groups()), chain))
        elif (address := ADDRESS.match(line)) and chain is not None:
            address = int(address[1], 16)
            if address >= 2 ** 64 - 4095:
                whose = {2 ** 64 - 128: 0, 2 ** 64 - 512: 1}.get(address)
            elif whose is not None:
                chain[whose].append(address)
    return chains


def of_strata(path):
    rows, chains = [], []
    for line in open(path, encoding="utf-8", errors="replace"):
        event = json.loads(line)
        name = event.get("name", "")
        if not name or name.startswith("lttng_statedump_"):
            continue
        common = event["common"]
        rows.append((event["time"], event.get("cpu"), common["pid"], common["tid"], name,
                     own_fields(name, event.get("payload", {})), common["procname"]))
        chain = tuple(common[f"callstack_{part}"] for part in ("kernel", "user"))
        chains.append((event["time"], common["pid"], common["tid"], chain))
    return rows, chains


def main():
    perf, chains = of_perf(sys.argv[1]), chains_of_perf(sys.argv[1])
    own, own_chains = of_strata(sys.argv[2])
    assert perf, "perf script shows nothing"
    counts = [collections.Counter(row[4] for row in rows) for rows in (perf, own)]
    assert counts[0] == counts[1], counts
    # perf knows no names of threads that are gone when it reads, and gives them their numbers.
    perf, own = sorted(perf, key=repr), sorted(own, key=repr)
    for one, other in zip(perf, own):
        assert one[:-1] == other[:-1], (one, other)
    names = sum(one[-1] == other[-1] for one, other in zip(perf, own))
    assert names > 0.9 * len(perf), (names, len(perf))
    assert any(len(chain[-1][1]) > 1 for chain in chains), "no call chains"
    for one, other in zip(sorted(chains), sorted(own_chains)):
        assert repr(one) == repr(other), (one, other)
    assert len(chains) == len(own_chains), (len(chains), len(own_chains))
    print(dict(counts[0]), f"{names} names, {sum(len(one[-1][0] + one[-1][1]) for one in chains)} addresses")


main()
