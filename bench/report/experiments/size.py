"""Experiment 12: how large is a trace of the same events?"""

import os
import shutil
import subprocess

import tracers
from harness import ROOT, Missing
from tables import Experiment, Table

from experiments import published

ROWS = {"u64": "an event of a program with a u64", "call": "the entry of getppid()", "switch": "sched_switch", "all": "the scheduler and all system calls with arguments"}
KERNEL = {"call": ("syscall_entry_getppid", ("syscalls/sys_enter_getppid",), ("syscalls:sys_enter_getppid",)),
          "switch": ("sched_switch", ("sched/sched_switch",), ("sched:sched_switch",)),
          "all": ("sched:*,syscalls", ("sched", "raw_syscalls"), ("sched:*", "raw_syscalls:*"))}


def packed(folder):
    """The bytes of a folder after tar and `zstd -3`."""
    if not shutil.which("zstd"):
        raise Missing("zstd is not installed")
    tar = subprocess.Popen(["tar", "-C", str(folder), "--sort=name", "-c", "."], stdout=subprocess.PIPE)
    done = subprocess.run(["zstd", "-3", "-c", "-q"], stdin=tar.stdout, stdout=subprocess.PIPE, check=True)
    tar.wait()
    return len(done.stdout)


def put(bench, row, column, number, records, size, folder):
    """Notes what a record takes in a trace, and after packing."""
    if not records:
        raise Missing("no record was found in the trace")
    bench.add("bytes", ROWS[row], column, number, size / records)
    bench.add("packed", ROWS[row], column, number, packed(folder) / records)


def work(bench, loop):
    """The same work for each tracer of the kernel."""
    bench.run(loop, "syscall", 1, 10 if bench.once else 20, 10000)
    bench.run(loop, "switch", 1, 8, 2000)


def drain(tracer, folder):
    """Writes the pages of ftrace's buffers to files, as trace-cmd does."""
    folder.mkdir(exist_ok=True)
    for pipe in sorted(tracer.instance.glob("per_cpu/cpu*/trace_pipe_raw")):
        descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with open(folder / pipe.parent.name, "wb") as file:
                while page := read_page(descriptor):
                    file.write(page)
        finally:
            os.close(descriptor)


def read_page(descriptor):
    """The next page of a buffer, b"" behind the last."""
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""


def kernel_round(bench, loop, row, number):
    """One kind of event, by each tracer of the kernel in turn."""
    rules, ftrace, perf = KERNEL[row]
    for column, tracer in (("Strata", tracers.Strata("Strata", "-k", rules, "--subbuf-size", "4M")), ("ftrace", tracers.Ftrace("ftrace", *ftrace, kib=131072)),
                           ("perf record", tracers.Perf("perf record", *perf))):
        try:
            with tracer(bench):
                work(bench, loop)
                if column == "ftrace":
                    tracer.pause()
                    records, size = tracer.counts()
                    drain(tracer, bench.work / "ftrace")
            folder = tracer.folder
            if column == "ftrace":
                folder = bench.work / "ftrace"
            elif column == "Strata":
                records, size = tracer.records, tracer.bytes
                if tracer.discarded:
                    bench.note(f"Strata discarded {tracer.discarded:,} records of “{ROWS[row]}” in one round.")
            else:
                for name in ("control", "answer"):
                    (folder / name).unlink()
                size = tracer.bytes
                records = bench.run("perf", "script", "-F", "event", "-i", folder / "perf.data").count("\n")
            put(bench, row, column, number, records, size, folder)
        except Missing as why:
            bench.miss("bytes", ROWS[row], column, str(why))
            bench.miss("packed", ROWS[row], column, str(why))
        shutil.rmtree(bench.work / "ftrace", ignore_errors=True)
        shutil.rmtree(bench.work / "trace", ignore_errors=True)


def user_round(bench, number, events):
    """The same events of a program by Strata and LTTng-UST."""
    program = bench.compile("article.cc", "article-strata", "-DWITH_STRATA", *bench.headers(), compiler="g++", libraries=bench.libstrata())
    folder = bench.work / "strata"
    bench.run(bench.strata, "record", "-q", "--no-kernel", "--no-vtid", "--subbuf-size", "4M", "--num-subbuf", 16, "-o", folder, "--", program, events)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    # As many as there are: bytes of a trace that lacks some are not divided by what was to be in it.
    records = bench.records(folder)
    if records != events:
        bench.note(f"Of {events:,} events of the program {records:,} are in the trace of Strata in one round.")
    put(bench, "u64", "Strata", number, records, size, folder)
    shutil.rmtree(folder)
    try:
        tracers.need("babeltrace2")
        with tracers.Lttng(bench) as lttng:
            program = bench.compile("article.cc", "article-lttng", "-DWITH_LTTNG", f"-I{ROOT / 'bench/user'}", compiler="g++", libraries=("-llttng-ust", "-ldl", "-pthread"))
            folder = bench.work / "lttng"
            lttng.begin(folder, "--subbuf-size=4M", "--num-subbuf=16")
            try:
                bench.run(program, events, env=lttng.env)
            finally:
                said = lttng.end()
            files = [path for path in folder.rglob("*") if path.is_file() and "index" not in path.parts]
            if "discarded" in said.lower().replace("no event", ""):
                raise Missing(f"LTTng-UST discarded events: {' '.join(said.split())[-200:]}")
            put(bench, "u64", "LTTng-UST", number, events, sum(path.stat().st_size for path in files), folder)
    except Missing as why:
        bench.miss("bytes", ROWS["u64"], "LTTng-UST", str(why))
        bench.miss("packed", ROWS["u64"], "LTTng-UST", str(why))
    shutil.rmtree(bench.work / "lttng", ignore_errors=True)
    shutil.rmtree(bench.work / "lttng-home", ignore_errors=True)


def measure(bench):
    """All kinds of events, some rounds: sizes hardly differ, but times in headers do."""
    for number in range(bench.rounds(3)):
        user_round(bench, number, 100000 if bench.once else 500000)
    if tracers.is_root():
        loop = bench.out / "loop"
        bench.run("gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", ROOT / "bench/kernel/programs/loop.c", "-o", loop)
        for number in range(bench.rounds(3)):
            for row in KERNEL:
                kernel_round(bench, loop, row, number)
    for key in ("bytes", "packed"):
        for column in ("ftrace", "perf record"):
            bench.miss(key, ROWS["u64"], column, "it has no tracepoints of programs; a uprobe's record has a place, not the event's fields")
        for row in KERNEL:
            bench.miss(key, ROWS[row], "LTTng-UST", f"it records programs. {tracers.lttng_kernel()}")
    bench.miss("*", "*", "*", "only root can record the kernel")


SIZE = Experiment(
    12, "The size of a trace",
    "What is written must be stored, sent and read. How many bytes does the same event take in each tracer's files, and after packing?",
    """All files of a trace count, descriptions and padding too, divided by its records. The program's events have no thread's number here. `perf record` writes the CPU, thread and time of each sample;
    ftrace's and Strata's records have the thread by the scheduler's records or by a field. Packed: the trace's files by `tar` and `zstd -3`.""",
    (Table("bytes", "Bytes for a record", "bytes", "event", rows=tuple(ROWS.values()), columns=("Strata", "LTTng-UST", "ftrace", "perf record"), base="Strata"),
     Table("packed", "Bytes for a record, packed", "bytes", "event", rows=tuple(ROWS.values()), columns=("Strata", "LTTng-UST", "ftrace", "perf record"), base="Strata")),
    (published.SIZE,), measure)
