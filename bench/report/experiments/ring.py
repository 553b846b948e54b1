"""Experiments 2, 4, 8 and 11: what runs in one process, by the benchmarks of bench/bench.h."""

from tables import Experiment, Table

from experiments import published


def whole(bench, program):
    """Runs a benchmark that has no control loops, under the watch. Returns its rounds and why all of them are disturbed."""
    import os  # pylint: disable=import-outside-toplevel

    import watch  # pylint: disable=import-outside-toplevel

    before = watch.begin(os.getpid())
    _, rounds = bench.bench_raw(program)
    return rounds, watch.end(before, os.getpid())


def measure_sync(bench):
    """One operation of each way to keep writers apart."""
    _, rounds = bench.bench_raw("build/bench/sync")
    for _, case, number, ns, control in rounds:
        if case not in ("empty loop", "bare clock read"):
            bench.add("sync", case, "this machine", number, ns, control)


def measure_threads(bench):
    """Records of one writer, and of two at once."""
    rounds, why = whole(bench, "build/bench/threads")
    writers = {"one writer": "1 writer", "two writers at once": "2 writers"}
    for heading, case, number, ns, _ in rounds:
        load, _, cpu = case.rpartition(", CPU ")
        if load != "empty loop":
            # Both writers' rounds count: those of the second follow.
            bench.add("threads", load, writers[heading], number * 2 + (cpu != "0"), ns, 0, why)
    if len(bench.cpus) < 2:
        bench.miss("threads", "*", "2 writers", "there is one CPU")
    bench.miss("threads", "*", "4 to 256 writers",
               "this machine has fewer CPUs, and there is no model of more yet: figures of a model would have to state its assumptions")


def measure_papers(bench):
    """The table of the ring library."""
    rounds, why = whole(bench, "build/bench/papers")
    names = {"local": "one CPU's writer (local)", "rseq": "restartable sequence (rseq)"}
    for heading, case, number, value, _ in rounds:
        if heading in ("cost", "read", "discarded"):
            writer, _, row = case.partition(": ")
            bench.add(heading, " ".join(row.split()), names[writer], number, value, 0, why)


def measure_dormant(bench):
    """What a tracepoint adds that is off."""
    from experiments import common  # pylint: disable=import-outside-toplevel

    _, rounds = bench.bench_raw("build/bench/dormant")
    base = {"empty loop": "cached", "uncached: nothing but the flush": "uncached"}
    for _, case, number, ns, control in rounds:
        if case == "bare clock read":
            continue
        row = base.get(case) or ("uncached" if case.startswith("uncached: ") else "cached")
        column = "nothing" if case in base else case.removeprefix("uncached: ")
        bench.add("loop", row, column, number, ns, control)
    common.added(bench, {"loop": "added"}, "nothing")


SYNC = Experiment(
    2, "Keeping writers apart without locks",
    """A record is written by a thread that an interrupt, a signal or another thread may interrupt, so that two writers can want the same place of a buffer. The
    papers compare the ways to keep them apart: an atomic compare-and-swap (CAS), with the processor's LOCK prefix for all CPUs or without it for one CPU, and
    switching interrupts off. Strata adds restartable sequences (rseq): the kernel starts a short piece of code again if the thread was interrupted in it.""",
    "Each loop does one thing on one word that nobody else touches. Programs cannot switch interrupts off; blocking signals is what comes closest.",
    (Table("sync", "One operation, nobody else wants it", "ns", "way", plot="bars", cycles=True, log=True),),
    (published.INTERRUPTS, published.CAS, published.LOCKS), measure_sync)

THREADS = Experiment(
    4, "Scalability",
    "Do writers on several CPUs cost each other anything? With a buffer for each CPU they should not.",
    """One thread on each CPU writes records of 16 bytes with a time, alone and together with the other. Two virtual CPUs may share a core, and then each is slower when the other works, whatever it
    does: compare with the bare clock read in the same column. The global buffer, which all CPUs share, is shown to say why there is one for each CPU.""",
    (Table("threads", "A record, by the number of writers", "ns of CPU time", "writer", columns=("1 writer", "2 writers", "4 to 256 writers"), log=True),),
    (published.SCALE,), measure_threads)

PAPERS = Experiment(
    8, "The ring library's tables",
    """A ring buffer is divided into sub-buffers, which a reader takes away as a whole. How do the size of the sub-buffers, a reader, and the mode (overwrite the oldest, or discard the newest)
    change what a record costs?""",
    "As in the paper: 1 MiB for each CPU, 4 bytes of payload, no clock, one writer; and in addition a reader that never sleeps.",
    (Table("cost", "A record", "ns of CPU time", "mode, sub-buffers, reader"),
     Table("read", "What the reader takes meanwhile", "million records/s", "mode, sub-buffers, reader", plot="none", better="higher"),
     Table("discarded", "What is discarded meanwhile", "% of all records", "mode, sub-buffers, reader", plot="none")),
    (published.RING,), measure_papers)

DORMANT = Experiment(
    11, "A tracepoint that is off",
    """Programs keep their tracepoints when nobody records, so a dormant tracepoint should cost nothing. Strata patches the code: the tracepoint is five bytes of instructions that do nothing. Others
    test a flag in memory, or call a function that finds out that there is nothing to do. The difference shows where the data cache has better things to hold: uncached.""",
    "A loop with each of them, minus the same loop without. In the uncached rows each iteration has flushed the flag's cache line before, as if the program used its memory otherwise.",
    (Table("added", "Added to an iteration by what is off", "ns", "data cache", rows=("cached", "uncached"), cycles=True,
           note="`patched branch` is Strata's. Experiment 9 has the dormant tracepoints of Strata and of LTTng-UST in one loop."),),
    (published.DORMANT,), measure_dormant)
