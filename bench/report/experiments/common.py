"""What several experiments share: sets of events, lines that other benchmarks leave, compiled programs."""

import harness
import samples
import tracers

OUT = harness.ROOT / "build/bench"
# The same content: the scheduler, interrupts, all system calls with their arguments, page faults.
STRATA_EVENTS = "sched:*,irq:*,syscalls,page_fault_user,page_fault_kernel"
FTRACE_EVENTS = ("sched", "irq", "raw_syscalls", "exceptions/page_fault_user", "exceptions/page_fault_kernel")
PERF_EVENTS = ("sched:*", "irq:*", "raw_syscalls:*", "exceptions:page_fault_user", "exceptions:page_fault_kernel")


def kernel_tracers():
    """All tracers of the kernel with the same events."""
    return [
        tracers.Untraced(),
        tracers.Flight("Strata, flight recorder", "-k", STRATA_EVENTS),
        tracers.Flight("Strata, flight recorder, default events"),
        tracers.Strata("Strata, recorded", "-k", STRATA_EVENTS),
        tracers.Ftrace("ftrace, overwrites", *FTRACE_EVENTS),
        tracers.Perf("perf record", *PERF_EVENTS),
    ]


def forget(path):
    """Removes what a benchmark has left before, which it leaves again only if it can run here: no figure is of another run."""
    path.unlink(missing_ok=True)


def lines(path, columns):
    """The lines of a results.txt with so many columns."""
    if not path.exists():
        raise harness.Missing(f"{path.parent.name}: the benchmark could not run here, and has left no rounds")
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        parts = line.split("|")
        if len(parts) >= columns:
            found.append(parts)
    if not found:
        raise RuntimeError(f"{path}: the benchmark has left no rounds there")
    return found


def added(bench, into, base):
    """Adds, as tables of `into`, what each cell has more than the column `base` in the same round."""
    judged = bench.samples if bench.once else samples.reject(bench.samples)
    for raw, table in into.items():
        bench.samples += samples.difference([sample for sample in judged if sample.table == raw], base, table)


def reached(path, function):
    """The place of a function of programs/probed.c: its offset in the file."""
    import subprocess  # pylint: disable=import-outside-toplevel

    listed = subprocess.run(["nm", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
    address = next(int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(f" T {function}"))
    heads = subprocess.run(["readelf", "-lW", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in heads.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, virtual, size = int(words[1], 16), int(words[2], 16), int(words[4], 16)
            if virtual <= address < virtual + size:
                return address - virtual + offset
    raise RuntimeError(f"{path}: {function}() is in no segment")
