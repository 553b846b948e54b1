"""Experiments 3, 5, 6 and 7: what tracing the kernel costs work of several kinds."""

import os
import shutil
import signal
import subprocess
import time

import harness
import tracers
from harness import Missing
from tables import Experiment, Table

from experiments import common, published

NAMES = tuple(tracer.name for tracer in common.kernel_tracers())
PEERS = ("ftrace, overwrites", "perf record")
FLIGHT, RECORDED = "Strata, flight recorder", "Strata, recorded"


def measure_primitives(bench):
    """Each primitive under each tracer."""
    program = bench.compile("primitives.c", "primitives")

    def measure(tracer):
        with tracer(bench):
            output = bench.run(program, 10 if bench.once else 400, cpu=bench.cpus[0])
        return {("calls", line.split("\t")[0], tracer.name): float(line.split("\t")[1]) for line in output.splitlines()}

    bench.interleave(5, common.kernel_tracers(), measure)
    bench.miss("calls", "*", "LTTng's kernel tracer", tracers.lttng_kernel())


def measure_compile(bench):
    """bench/kernel/run --compile."""
    if not tracers.is_root():
        raise Missing("only root can record the kernel")
    common.forget(common.OUT / "kernel/compile.txt")
    bench.run("bench/kernel/run", "--compile", *(["--once"] if bench.once else ["--rounds=3"]), env={"STRATA": bench.strata})
    names = {"none": "untraced", "strata": RECORDED, "ftrace": "ftrace, read by splice", "perf": "perf record", "trace_cmd": "trace-cmd record"}
    seen = {}
    for which, seconds, size, said in common.lines(common.OUT / "kernel/compile.txt", 4):
        number = seen[which] = seen.get(which, -1) + 1
        bench.add("seconds", "make of Strata's ring library", names[which], number, float(seconds))
        if which != "none":
            bench.add("size", "make of Strata's ring library", names[which], number, int(size) / 1e6)
        if said:
            bench.note(f"{names[which]}, last round: {said}." if number == bench.rounds(3) - 1 else "")
    bench.notes = [note for note in bench.notes if note]
    bench.note("A C project of Debian's sources is not compiled yet: sources of packages are not in every list of packages (deb-src).")


def throughput(bench, command):
    """The throughput that dbench or tbench says [MB/s]."""
    rate = float(bench.run(*command).rpartition("Throughput ")[2].split()[0])
    if rate <= 0:
        raise RuntimeError(f"{command[0]} has moved nothing")
    return rate


def measure_load(bench):
    """tbench on loopback and dbench on disk, under each tracer."""
    tracers.need("tbench", "dbench", "tbench_srv")
    # In one second they measure nothing.
    seconds = 2 if bench.once else 8
    disk = bench.out / "dbench"
    disk.mkdir()
    with open(bench.out / "tbench_srv.txt", "w", encoding="utf-8") as log:
        server = subprocess.Popen([*harness.TIED, "tbench_srv"], stdout=log, stderr=log)

    def measure(tracer):
        found = {}
        for row, command in (("tbench, loopback", ("tbench", "-t", seconds, len(bench.cpus), "127.0.0.1")),
                             ("dbench, disk", ("dbench", "-D", disk, "-t", seconds, len(bench.cpus)))):
            with tracer(bench):
                # The load also warms up, and cleans up: all of that is recorded.
                begin = time.monotonic()
                found["rate", row, tracer.name] = throughput(bench, command)
                took = time.monotonic() - begin
            if tracer.records and tracer.discarded is not None:
                found["events", row, tracer.name] = tracer.records / took / 1000
                found["discarded", row, tracer.name] = 100 * tracer.discarded / (tracer.records + tracer.discarded)
        return found

    try:
        bench.interleave(3, common.kernel_tracers(), measure)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(disk, ignore_errors=True)
    bench.miss("events", "*", "*", "a flight recorder has no end at which it counts what it recorded")


def veth():
    """Makes a network namespace with a pair of interfaces, whose other end answers. Returns its name and address."""
    tracers.need("ip")
    name = f"strata-report-{os.getpid()}"
    near = end_of(name)
    for command in (f"ip netns add {name}", f"ip link add {near} type veth peer name far netns {name}", f"ip addr add 10.199.199.1/30 dev {near}", f"ip link set {near} up",
                    f"ip -n {name} addr add 10.199.199.2/30 dev far", f"ip -n {name} link set far up"):
        done = subprocess.run(command.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            end_veth(name)
            raise Missing(f"no veth pair: {command}: {done.stdout.strip()}")
    return name, "10.199.199.2"


def end_of(name):
    """The interface on this side of a namespace. No other program makes one of this name: it is removed, whoever made it."""
    return f"strata{name.rpartition('-')[2]}"


def end_veth(name):
    """Removes what veth() has made."""
    subprocess.run(["ip", "link", "del", end_of(name)], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


STATISTICS = {"mean": "mean", "deviation": "standard deviation", "p50": "median", "p99": "99 of 100 are shorter", "p999": "999 of 1,000 are shorter", "longest": "the longest"}


def measure_ping(bench):
    """Round trips on loopback and through a pair of interfaces, while the caches are thrashed."""
    if not tracers.is_root():
        raise Missing("only root can send echo requests and record the kernel")
    program = bench.compile("ping.c", "ping", libraries=("-lm",))
    thrash = bench.compile("thrash.c", "thrash")
    paths = {"loopback": "127.0.0.1"}
    namespace = None
    loads = []
    try:
        try:
            namespace, paths["veth"] = veth()
        except Missing as why:
            bench.miss("veth", "*", "*", str(why))
        for cpu in bench.cpus:
            loads.append(subprocess.Popen([*harness.TIED, "taskset", "-c", str(cpu), str(thrash), "32"], stdout=subprocess.PIPE, text=True))
            loads[-1].stdout.readline()

        def measure(tracer):
            found = {}
            for path, address in paths.items():
                with tracer(bench):
                    output = bench.run(program, address, 2000 if bench.once else 100000, cpu=bench.cpus[0])
                for line in output.splitlines():
                    what, value = line.split()
                    found[path, STATISTICS[what], tracer.name] = float(value)
            return found

        # The load is ours: the control loop says nothing while it runs.
        bench.control = lambda: 0.0
        bench.interleave(3, common.kernel_tracers(), measure)
    finally:
        for load in loads:
            load.send_signal(signal.SIGTERM)
            load.wait()
        if namespace:
            end_veth(namespace)


HOW = f"""All tracers record the same events: the scheduler, interrupts, all system calls with their arguments, and page faults (for Strata `-k {common.STRATA_EVENTS}`), of all processes; and Strata also what it records by
default, in the same way. ftrace overwrites and is read by nobody, as is a flight recorder; `perf record` writes a file to memory."""

PRIMITIVES = Experiment(
    5, "Single services of the kernel",
    "What does tracing add to a system call, a page fault, a process that begins and ends? As lmbench measures them, one by one.",
    HOW,
    (Table("calls", "One operation", "ns", "operation", columns=(*NAMES, "LTTng's kernel tracer"), base=FLIGHT, peers=PEERS, log=True),),
    (published.LMBENCH,), measure_primitives)

COMPILE = Experiment(
    6, "A compile",
    "Most time of a compile is spent in programs, but it begins many short processes. What does recording all of it to disk cost?",
    "`make` of Strata's ring library on all CPUs, after one that fills the caches, with the scheduler, interrupts and all system calls of all processes recorded to disk.",
    (Table("seconds", "The compile", "s", "", columns=("untraced", RECORDED, "ftrace, read by splice", "perf record"), base=RECORDED, peers=("ftrace, read by splice", "perf record")),
     Table("size", "The trace", "MB", "", columns=(RECORDED, "ftrace, read by splice", "perf record"), base=RECORDED)),
    (published.COMPILE,), measure_compile)

LOAD = Experiment(
    3, "Network and disk under full load",
    "tbench and dbench are the network and the disk part of a file server under load: almost all of their time is spent in the kernel. How much less do they move while everything is recorded?",
    f"{HOW} One client for each CPU, Debian's package dbench.",
    (Table("rate", "Throughput", "MB/s", "load", columns=NAMES, base=FLIGHT, peers=PEERS, better="higher"),
     Table("events", "Recorded meanwhile", "thousand records/s", "load", columns=(RECORDED,), plot="none", better="higher"),
     Table("discarded", "Discarded meanwhile, counted by Strata", "% of records", "load", columns=(RECORDED,), plot="none")),
    (published.TBENCH_NETWORK, published.TBENCH, published.DBENCH), measure_load)

PING = Experiment(
    7, "Latency",
    "A server that answers a request waits for nobody but the tracer. What does tracing add to a round trip of an echo request, and to the longest of them, when the caches are full of other things?",
    f"{HOW} 100,000 round trips without pauses, on one CPU; beside them, on each CPU, a program at the lowest priority that stores at random places of 32 MiB. The control loop says nothing in this experiment, since that load is meant.",
    (Table("loopback", "A round trip on loopback", "µs", "of all round trips", rows=tuple(STATISTICS.values()), columns=NAMES, base=FLIGHT, peers=PEERS, log=True),
     Table("veth", "A round trip through a veth pair", "µs", "of all round trips", rows=tuple(STATISTICS.values()), columns=NAMES, base=FLIGHT, peers=PEERS, log=True)),
    (published.PING,), measure_ping)
