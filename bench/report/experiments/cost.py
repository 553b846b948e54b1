"""Experiment 1: what an event record costs, in a program and in the kernel, by all tracers. Experiment 13: by the kind of probe."""

import dataclasses

import tracers
from tables import Experiment, Table

from experiments import common, published

USER = {
    "strata/discard": "Strata", "strata/overwrite": "Strata, overwrites", "strata/no-rseq": "Strata without rseq",
    "events/discard": "Strata, event class made at run time", "source/discard": "Strata, LTTng's source unchanged", "lttng/discard": "LTTng-UST",
    "lttng/overwrite": "LTTng-UST, overwrites", "lttng/discard-vtid": "LTTng-UST with the thread's number",
}
KERNEL = {
    "none": "untraced", "strata": "Strata", "overwrite": "Strata, overwrites", "reject": "Strata, rejected by a filter", "empty": "an empty BPF program",
    "ringbuf": "bpf_ringbuf", "ftrace": "ftrace, overwrites", "ftrace_raw": "ftrace, raw_syscalls", "perf": "perf record",
    "count": "Strata, counted by name", "spread": "Strata, histogram of durations", "bpftrace": "bpftrace, count() by comm", "bpftrace_spread": "bpftrace, hist() of durations",
}
COUNTED = ("count", "spread", "bpftrace", "bpftrace_spread")
KERNEL_ROWS = {"syscall": "with pauses for the consumer", "tight": "without pauses"}


def measure_cost(bench):
    """All of bench/user/run, the loops of bench/kernel/run, and the ring alone."""
    output, rounds = bench.bench_raw("bench/user/run")
    for heading, case, number, ns, control in rounds:
        if heading in USER and case.startswith("event, "):
            bench.add("user", case.removeprefix("event, "), USER[heading], number, ns, control)
        elif heading == "strata/discard" and case == "bare clock read":
            bench.add("user", "bare clock read", USER[heading], number, ns, control)
    if not any(heading.startswith("lttng/") for heading, *_ in rounds):
        bench.miss("user", "*", "*", next((line for line in output.splitlines() if "no comparison" in line), "LTTng-UST did not run"))
    bench.miss("user", "bare clock read", "*", "it is the same for all")

    _, rounds = bench.bench_raw("build/bench/record")
    for _, case, number, ns, control in rounds:
        writer, _, row = case.partition(",")
        if writer in ("rseq", "smp", "local") and "staged" not in row:
            bench.add("ring", " ".join(row.split()), {"smp": "any CPU (smp, LOCK CAS)", "local": "one CPU (local CAS)"}.get(writer, "restartable sequence (rseq)"),
                      number, ns, control)
    left = common.OUT / "kernel/results.txt"
    common.forget(left)
    output = bench.run("bench/kernel/run", "--loops", *(["--once"] if bench.once else ["--rounds=7"]), env={"STRATA": bench.strata})
    if left.exists():
        for kind, cpus, which, number, median, _, control, *_ in common.lines(left, 7):
            if kind in KERNEL_ROWS and which in KERNEL:
                bench.add(f"loop-{cpus}", KERNEL_ROWS[kind], KERNEL[which], int(number), median, control)
        common.added(bench, {"loop-1": "kernel-1", "loop-2": "kernel-2"}, "untraced")
        split_counted(bench)
    else:
        bench.miss("*", "*", "*", " ".join(output.split())[:300] or "bench/kernel/run left no rounds")
    for column in (KERNEL["bpftrace"], KERNEL["bpftrace_spread"]):
        bench.miss("counted", "without pauses", column, "the benchmark measures bpftrace with pauses only")
        bench.miss("counted", "with pauses for the consumer", column, "bpftrace is not installed, or does not begin on this kernel")
    bench.miss("kernel-1", "without pauses", KERNEL["ftrace_raw"], "bench/kernel/run measures it with pauses only")
    bench.miss("kernel-1", "*", "LTTng's kernel tracer", tracers.lttng_kernel())
    bench.miss("kernel-2", "*", "LTTng's kernel tracer", tracers.lttng_kernel())


def split_counted(bench):
    """Moves what counts in the kernel and writes no record to a table of its own."""
    columns = {KERNEL[which] for which in COUNTED}
    bench.samples = [
        dataclasses.replace(sample, table="counted") if sample.table == "kernel-1" and sample.column in columns else sample
        for sample in bench.samples if not (sample.table == "kernel-2" and sample.column in columns)]


EVENTS = ("u64", "string of 32 bytes", "ten fields", "int and string", "seven enumerations", "twelve fields")
OTHERS = tuple(KERNEL[which] for which in ("ringbuf", "ftrace", "ftrace_raw", "perf"))
SHOWN = ("Strata", "Strata, overwrites", "Strata, rejected by a filter", "an empty BPF program", *OTHERS, "LTTng's kernel tracer")

COST = Experiment(
    1, "The cost of one event",
    """What does it cost a thread when an event of it is recorded? This is the figure by which tracers are compared most often. It is the lowest that can be: the loop does nothing else, so
    everything is in the caches.""",
    """In a program: bench/user records events with different fields, while each tracer's own recorder runs. In the kernel: the loop calls `getppid()`, and the tracer records the entry of the call;
    shown is what a call takes more than untraced. `perf record` and ftrace have no tracepoints of programs that compare; experiment 13 has their probes. The ring alone is Strata's buffer without a tracer around it.""",
    (Table("user", "An event of a program", "ns", "fields", rows=("bare clock read", *EVENTS), columns=tuple(USER.values()), base="Strata",
           peers=("LTTng-UST", "LTTng-UST, overwrites", "LTTng-UST with the thread's number"), cycles=True, note="Strata's records have the thread's number, LTTng-UST's only where it is said."),
     Table("kernel-1", "The entry of a system call, one CPU: added", "ns", "the loop", rows=tuple(KERNEL_ROWS.values()), columns=SHOWN, base="Strata", peers=OTHERS, cycles=True),
     Table("kernel-2", "The same on two CPUs at once", "ns", "the loop", rows=tuple(KERNEL_ROWS.values()), columns=SHOWN, base="Strata", peers=OTHERS, cycles=True),
     Table("counted", "Counted in the kernel, without a record: added to a call, one CPU", "ns", "the loop", rows=tuple(KERNEL_ROWS.values()), columns=tuple(KERNEL[which] for which in COUNTED),
           cycles=True),
     Table("ring", "The ring alone", "ns", "mode, size of a record", cycles=True)),
    (published.PROBE,), measure_cost)


def measure_probes(bench):
    """Reaching a place with each kind of probe, minus without."""
    program = bench.compile("probed.c", "probed")
    batches = 5 if bench.once else 100
    kprobe = ("kprobe_events", "p:strata_report/called __x64_sys_getppid")
    call = "syscalls/sys_enter_getppid"

    def uprobes(kind):
        """The uprobes of a function, by each tracer."""
        function = f"reach_{kind}"
        definition = ("uprobe_events", f"p:strata_report/reached {program}:{common.reached(program, function):#x} number=%di:u64")
        return [
            tracers.Untraced(), tracers.Strata(f"uprobe-{kind}: Strata", "--probe", f"uprobe:{program}:{function}(number:u64)"),
            tracers.Ftrace(f"uprobe-{kind}: ftrace", "strata_report/reached", probes=(definition,)),
            tracers.Bpftrace(f"uprobe-{kind}: bpftrace, count()", f"uprobe:{program}:{function} {{ @ = count(); }}")]

    # Of each kind of place: how many times a batch reaches it, and its variants.
    kinds = {
        "push": (1000, uprobes("push")), "step": (200, uprobes("step")),
        "usdt": (1000, [
            tracers.Untraced(), tracers.Strata("USDT: Strata", "--probe", f"usdt:{program}:report:reached(number:u64)"),
            tracers.Bpftrace("USDT: bpftrace, count()", f"usdt:{program}:report:reached {{ @ = count(); }}")]),
        "call": (20000, [
            tracers.Untraced(), tracers.Strata("tracepoint: Strata", "-k", "syscall_entry_getppid"), tracers.Ftrace("tracepoint: ftrace", call),
            tracers.Perf("tracepoint: perf record", "syscalls:sys_enter_getppid"),
            tracers.Bpftrace("tracepoint: bpftrace, count()", "tracepoint:syscalls:sys_enter_getppid { @ = count(); }"),
            tracers.Ftrace("kprobe: ftrace", "strata_report/called", probes=(kprobe,)),
            tracers.Bpftrace("kprobe: bpftrace, count()", "kprobe:__x64_sys_getppid { @ = count(); }"),
            tracers.Bpftrace("fentry: bpftrace, count()", "kfunc:__x64_sys_getppid { @ = count(); }")]),
    }
    for kind, (n, variants) in kinds.items():
        def measure(variant, kind=kind, n=n):
            with variant(bench):
                ns = float(bench.run(program, kind, batches, n, cpu=bench.cpus[0]))
            return {("reached", kind, variant.name): ns}

        bench.interleave(5, variants, measure)
    common.added(bench, {"reached": "added"}, "untraced")
    bench.samples = [by_kind(sample) if sample.table == "added" else sample for sample in bench.samples]
    for variant, why in list(bench.missing.items()):
        kind, _, tracer = variant.rpartition("|")[2].partition(": ")
        bench.miss("added", KINDS.get(kind, kind), tracer, why)
    for kind, columns in NONE_OF_THE_KIND.items():
        for column, why in columns.items():
            bench.miss("added", KINDS[kind], column, why)


KINDS = {"uprobe-push": "uprobe, at an instruction that the kernel emulates (push)", "uprobe-step": "uprobe, at another one: breakpoint and single step",
         "USDT": "USDT, a marked place of a program", "tracepoint": "tracepoint, a system call", "kprobe": "kprobe, a system call", "fentry": "fentry, a system call"}
OF_PERF = "perf probe changes the machine's list of probes, under names that others may use"
OTHER_KIND = "it has no probes of this kind, or they are not in this report"
NONE_OF_THE_KIND = {
    "uprobe-push": {"perf record": OF_PERF}, "uprobe-step": {"perf record": OF_PERF}, "USDT": {"ftrace": OTHER_KIND, "perf record": OF_PERF},
    "kprobe": {"Strata": OTHER_KIND, "perf record": OF_PERF}, "fentry": {"Strata": OTHER_KIND, "ftrace": OTHER_KIND, "perf record": OTHER_KIND}}


def by_kind(sample):
    """A sample of "KIND: TRACER" in the row of its kind."""
    kind, _, tracer = sample.column.partition(": ")
    return dataclasses.replace(sample, row=KINDS[kind], column=tracer)


PROBES = Experiment(
    13, "A breakpoint against a tracepoint",
    """A place that has no tracepoint can be probed: the kernel writes a breakpoint into the code (uprobe in programs, kprobe in the kernel), and the program enters the kernel there. The paper found that
    a breakpoint alone costs more than a whole record at a tracepoint. USDT are places that a program's authors have marked for breakpoints; fentry is a patched call, for BPF programs in the kernel.""",
    "The loop reaches the place again and again, on one CPU. Shown is what reaching it takes more than without a probe. Strata, ftrace and perf write a record; bpftrace counts, which is less work.",
    (Table("added", "Added by the probe", "ns", "kind of probe", rows=tuple(KINDS.values()), columns=("Strata", "ftrace", "perf record", "bpftrace, count()"), base="Strata", peers=("ftrace", "perf record"), log=True, cycles=True),),
    (published.BREAKPOINT,), measure_probes)

