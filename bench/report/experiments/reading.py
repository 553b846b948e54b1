"""Experiment 14: how fast is a trace read?"""

import re
import shutil

import tracers
from harness import ROOT, Missing
from tables import Experiment, Table

from experiments import common

CASES = {
    "babeltrace2, sink.utils.dummy": ("every field decoded", "babeltrace2"),
    "strata, every field, 1 thread": ("every field decoded", "Strata, one thread"),
    "strata, every field, 2 threads": ("every field decoded", "Strata"),
    "babeltrace2, text": ("as text", "babeltrace2"),
    "strata view, text": ("as text", "Strata"),
    "strata stats": ("counted by event", "Strata"),
    "strata stats, 1 thread": ("counted by event", "Strata, one thread"),
    "cat": ("bytes read, nothing decoded", "cat"),
    "read and add up the words, 1 thread": ("bytes read, nothing decoded", "a loop that adds them up"),
}
EXPORTS = ("json", "csv", "sqlite", "perfetto")


def measured(bench, *command):
    """Seconds and control of one command, as bench/read/programs/measure.c prints them."""
    seconds, _, _, control = bench.run(bench.out / "measure", *command).split()
    return float(seconds), float(control)


def kernel_texts(bench):
    """The same system calls, recorded by each tracer of the kernel, as text; and what else Strata makes of its trace."""
    loop = bench.out / "loop"
    bench.run("gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", ROOT / "bench/kernel/programs/loop.c", "-o", loop)
    blocks = 10 if bench.once else 100
    strata = tracers.Strata("Strata", "-k", "syscall_entry_getppid", "--subbuf-size", "4M", "--num-subbuf", "16")
    perf = tracers.Perf("perf script", "syscalls:sys_enter_getppid")
    ftrace = tracers.Ftrace("ftrace's text", "syscalls/sys_enter_getppid", kib=131072)
    traces = {}
    for tracer in (strata, perf):
        try:
            with tracer(bench):
                bench.run(loop, "syscall", 1, blocks, 10000)
            traces[tracer.name] = bench.work / tracer.name.split()[0]
            tracer.folder.rename(traces[tracer.name])
        except Missing as why:
            bench.miss("kernel", "*", tracer.name, str(why))
    with ftrace(bench):
        bench.run(loop, "syscall", 1, blocks, 10000)
        ftrace.pause()
        of_ftrace = ftrace.counts()[0]
        counts = {"ftrace's text": of_ftrace, "Strata": strata.records}
        counts["babeltrace2, of Strata's trace"] = strata.records
        if "perf script" in traces:
            counts["perf script"] = bench.run("perf", "script", "-F", "event", "-i", traces["perf script"] / "perf.data").count("\n")
        commands = {"Strata": (bench.strata, "view", traces["Strata"]), "ftrace's text": ("cat", ftrace.instance / "trace")}
        if shutil.which("babeltrace2"):
            commands["babeltrace2, of Strata's trace"] = ("babeltrace2", traces["Strata"])
        if "perf script" in traces:
            commands["perf script"] = ("perf", "script", "-i", traces["perf script"] / "perf.data")
        for number in range(bench.rounds(5)):
            for column, command in commands.items():
                seconds, control = measured(bench, *command)
                bench.add("kernel", "as text", column, number, counts[column] / seconds / 1e6, control)
    bench.note(f"The traces of the kernel have {counts['Strata']:,} records by Strata, {counts.get('perf script', 0):,} by perf, and {of_ftrace:,} by ftrace.")
    for number in range(bench.rounds(5)):
        seconds, control = measured(bench, bench.strata, "sql", "--format", "csv", traces["Strata"], "select name, count(*) from events group by name")
        bench.add("export", "SQL: count by name, on the trace itself", "Strata", number, counts["Strata"] / seconds / 1e6, control)
        for form in EXPORTS:
            target = bench.work / "export"
            seconds, control = measured(bench, bench.strata, "export", "--to", form, "--force", "-o", target, traces["Strata"])
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
            bench.add("export", f"export to {form}", "Strata", number, counts["Strata"] / seconds / 1e6, control)


def measure(bench):
    """bench/read/run on a trace of LTTng-UST, then traces of the kernel."""
    # What bench/read/run compiles, before: how long that takes says nothing.
    bench.run("cargo", "build", "--release", "--offline", "--locked", "--quiet", "-p", "strata-cli", "-p", "strata-ctf", "--bin", "strata", "--example", "decode", limit=3600)
    options = ["--once"] if bench.once else ["--rounds=3"]
    common.forget(common.OUT / "read/results.txt")
    output = bench.run("bench/read/run", *options, env={"STRATA": bench.strata})
    events = re.search(r"^trace\s+(\d+) events", output, re.M)
    if events:
        seen = {}
        for name, figures in common.lines(common.OUT / "read/results.txt", 2):
            if name in CASES:
                row, column = CASES[name]
                number = seen[name] = seen.get(name, -1) + 1
                seconds, _, _, control = figures.split()
                bench.add("lttng", row, column, number, int(events[1]) / float(seconds) / 1e6, float(control))
    else:
        bench.miss("lttng", "*", "*", " ".join(output.split())[:300])
    bench.miss("lttng", "counted by event", "babeltrace2", "it has a counter only for messages of all kinds together")
    bench.miss("lttng", "as text", "Strata, one thread", "bench/read/run does not measure it")
    bench.miss("export", "export to parquet", "Strata", "a program of its own, strata-parquet, does it: bench/sql/run measures it")
    bench.run("gcc", "-O2", "-std=gnu11", ROOT / "bench/read/programs/measure.c", "-o", bench.out / "measure")
    if tracers.is_root():
        kernel_texts(bench)
    else:
        bench.miss("*", "*", "*", "only root can record the kernel")


READING = Experiment(
    14, "Reading a trace",
    "A trace is only as useful as it is read. How many events are decoded, printed, counted and exported in a second?",
    """The first trace is one of LTTng-UST, with 20 million events, in memory; Strata and babeltrace2 read the same files. The others have the entries of one system call, which each tracer recorded in its own way, so that
    the content is the same and the files are not. All output goes to /dev/null, exports go to memory.""",
    (Table("lttng", "A trace by LTTng-UST", "million events/s", "what is done", columns=("Strata", "Strata, one thread", "babeltrace2"), base="Strata", peers=("babeltrace2",), better="higher"),
     Table("kernel", "A trace of the kernel, of the same calls", "million events/s", "what is done", columns=("Strata", "babeltrace2, of Strata's trace", "perf script", "ftrace's text"), base="Strata",
           better="higher"),
     Table("export", "What else Strata does with it", "million events/s", "what is done", rows=("SQL: count by name, on the trace itself",), columns=("Strata",), better="higher")),
    (), measure)

