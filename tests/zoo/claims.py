"""What is claimed of a recording, and the truths beside which it is held: strace's, the kernel's, the program's own.

Each function returns a list of complaints, empty where the claim holds.
"""
import collections
import difflib
import json
import os
import re
import subprocess

FORK = re.compile(r" sched_process_fork: .* pid=(\d+) child_comm=(.*) child_pid=(\d+)")
EXEC = re.compile(r" sched_process_exec: filename=(.*) pid=(\d+) old_pid=(\d+)")


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)


def difference(one, other):
    """The first lines in which two texts differ."""
    lines = difflib.unified_diff(one.decode(errors="replace").splitlines(), other.decode(errors="replace").splitlines(), lineterm="", n=0)
    return " / ".join(list(lines)[3:7]) or "nothing that is a line"


class Tree:
    """Processes and threads that descend from one, and what they executed, as the kernel's own tracer saw it in the same
    run."""

    def __init__(self, said, root):
        self.tasks, self.executed = {root}, []
        for line in said.splitlines():
            found = FORK.search(line)
            if found and int(found[1]) in self.tasks:
                self.tasks.add(int(found[3]))
            found = EXEC.search(line)
            if found and int(found[3]) in self.tasks:
                self.executed.append((int(found[2]), found[1]))


def events(strata, trace, *arguments):
    """The records of a trace, one by one, as `strata view --format json` has them."""
    process = subprocess.Popen([strata, "view", "--format", "json", *arguments, trace], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    with process:
        for line in process.stdout:
            yield json.loads(line)


def same_behaviour(plain, traced):
    complaints = []
    if traced.status != plain.status:
        complaints.append(f"exit status {traced.status}, untraced {plain.status}")
    if traced.output != plain.output:
        complaints.append("output differs: " + difference(plain.output, traced.output))
    return complaints


def processes_recorded(strata, trace, tree):
    """Every fork and exec that the kernel's tracer saw of the program's tree is a record of the trace."""
    forked, executed = set(), collections.Counter()
    for event in events(strata, trace, "-f", "sched_process_fork || sched_process_exec"):
        payload = event["payload"]
        if event["name"] == "sched_process_fork":
            forked.add(payload["child_tid"])
        else:
            executed[(payload["tid"], payload["filename"])] += 1
    complaints = []
    absent = [task for task in tree.tasks if task not in forked]
    # The first one was there before an attached recorder came.
    if len(absent) > 1 or (absent and absent[0] != min(tree.tasks)):
        complaints.append(f"{len(absent)} of {len(tree.tasks)} threads that were started are in no record: {absent[:5]}")
    wanted = collections.Counter(tree.executed)
    absent = wanted - executed
    if absent:
        complaints.append(f"{sum(absent.values())} of {sum(wanted.values())} executed programs are in no record: {list(absent)[:3]}")
    return complaints


def report(strata, name, trace, *arguments):
    """The JSON of a report; a text instead says why there is none."""
    said = run([strata, "analyze", name, "--format", "json", *arguments, trace])
    if said.returncode:
        return f"analyze {name}: exit status {said.returncode}: {said.stderr.decode(errors='replace')[:300]}"
    try:
        return json.loads(said.stdout)
    except ValueError as why:
        return f"analyze {name}: no JSON: {why}"


def truths(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def sums_agree(strata, trace, said, tree):
    """What the program knows of itself is what the trace has."""
    complaints = []
    calls = None
    for words in said:
        if words[0] == "written":
            found = report(strata, "files", trace, "--top", "1000000")
            if not isinstance(found, str) and found["calls_left_out"]:
                # Of the whole machine there may be more files than a report has rows.
                of_program = " || ".join(f"tid == {tid}" for tid in sorted(tree.tasks))
                found = report(strata, "files", trace, "--top", "1000000", "-f", of_program)
            if isinstance(found, str):
                return [found]
            written = sum(row["written_bytes"] for row in found["rows"] if f"/{row['name'] or ''}".endswith("/" + words[1]))
            if written != int(words[2]):
                complaints.append(f"{written} bytes were written to {words[1]}, says the trace; {words[2]} in truth")
        elif words[0] == "call":
            if calls is None:
                calls = collections.Counter()
                for event in events(strata, trace, "-f", "syscall_exit_*"):
                    if event.get("common", {}).get("tid") in tree.tasks:
                        calls[event["name"][len("syscall_exit_"):]] += 1
            found, wanted = calls[words[1]], int(words[2])
            if found != wanted:
                complaints.append(f"{found} calls of {words[1]} are in the trace; {wanted} in truth")
        elif words[0] == "event":
            found = sum(1 for _ in events(strata, trace, "-f", words[1]))
            if found != int(words[2]):
                complaints.append(f"{found} events {words[1]} are in the trace; {words[2]} in truth")
    return complaints


# The kernel charges a thread from when it decides to run it, before sched_switch, to whoever traces: its own sched_stat_runtime
# is more than the times between its own sched_switch by 6 to 8 µs for each run of a thread that sleeps for a moment.
CHARGED_BEFORE_S = 10e-6


def cpu_time_agrees(strata, trace, tree, rusage_s):
    """The time that threads ran, by the scheduler's records, is what wait4() said, within a tenth, 30 ms, and what the kernel
    charges them besides."""
    found = report(strata, "threads", trace, "--top", "1000000")
    if isinstance(found, str):
        return [found]
    rows = [row for row in found["rows"] if row["tid"] in tree.tasks]
    ran = sum(row["running_ns"] for row in rows) / 1e9
    least = rusage_s - CHARGED_BEFORE_S * sum(row["runs"] for row in rows)
    margin = 0.1 * rusage_s + 0.03
    if not least - margin <= ran <= rusage_s + margin:
        return [f"its threads ran for {ran:.3f} s, says the trace; {least:.3f} to {rusage_s:.3f} s, says wait4()"]
    return []


def counts_agree_with_strace(strata, trace, tree, counted):
    """Calls whose number was the same in two runs under strace have it in the trace, too."""
    calls = collections.Counter()
    for event in events(strata, trace, "-f", "syscall_entry_* || compat_syscall_entry_*"):
        if event.get("common", {}).get("tid") in tree.tasks:
            calls[event["name"].rpartition("syscall_entry_")[2]] += 1
    return [f"{calls[name]} calls of {name} are in the trace; {wanted}, says strace"
            for name, wanted in sorted(counted.items()) if calls[name] != wanted]


def libc_reached(trace, talk, tree):
    """Each program that was executed has libc's records, or the recorder names it with a reason."""
    folder = os.path.join(trace, "user")
    there = collections.Counter()
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            found = re.match(r"(.*?)-(\d+)(-\d+)?$", name)
            if found:
                there[int(found[2])] += 1
    # Of many by one name some numbers are shown.
    named = "\n".join(re.findall(r"^strata: not (?:reached|in the trace).*", talk, re.MULTILINE))
    complaints = []
    for pid in {pid for pid, _ in tree.executed}:
        if not there[pid] and not re.search(rf"\b{pid}\b", named):
            names = [os.path.basename(name) for task, name in tree.executed if task == pid]
            if not any(f"'{name[:15]}'" in named or f"{name[:15]} (" in named for name in names):
                complaints.append(f"{names[-1]} ({pid}) is neither in the trace nor named")
    return complaints[:3]


def nothing_left(mark, strata_pids):
    """No process that carries the run's mark lives on, but those that the recorder says detach."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() not in file.read():
                    continue
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                comm = file.read().strip()
        except OSError:
            continue
        left.append((int(pid), comm))
    return left
