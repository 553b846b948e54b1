"""Experiment 18: what a recorder that is always on costs servers."""

import dataclasses

import samples
import tracers
from harness import Missing
from tables import Experiment, Table

from experiments import common

ROWS = {"off": "nothing", "always": "Strata, always (-k always)", "default": "Strata, default events", "scheduling": "Strata, the scheduler", "perf_trace": "perf trace",
        "perf_record": "perf record, system calls and scheduler", "bpftrace": "bpftrace, counts of both", "strace": "strace"}
SERVERS = ("redis", "nginx", "postgresql")


def measure(bench):
    """bench/servers/run, with its peers."""
    if not tracers.is_root():
        raise Missing("only root can record the whole machine")
    common.forget(common.OUT / "servers/results.txt")
    output = bench.run("bench/servers/run", "--peers", *(["--once"] if bench.once else ["--rounds=5"]), env={"STRATA": bench.strata})
    (bench.out / "servers.txt").write_text(output, encoding="utf-8")
    for server, row, number, rate, latency, cpu, history, why in common.lines(common.OUT / "servers/results.txt", 8):
        bench.add("rate", server, ROWS[row], int(number), float(rate), 0, why)
        bench.add("latency", server, ROWS[row], int(number), float(latency), 0, why)
        bench.add("cpu", server, ROWS[row], int(number), float(cpu) / 1000, 0, why)
        if history not in ("", "-"):
            bench.add("history", server, ROWS[row], int(number), float(history), 0, why)
    # Neighbours of a virtual machine change its speed from minute to minute: the change is that of one round.
    for sample in samples.difference([one for one in bench.samples if one.table == "rate"], ROWS["off"], "change"):
        base = next(one.value for one in bench.samples if one.table == "rate" and one.cell[1:] == (sample.row, ROWS["off"]) and one.round == sample.round)
        if base > 0:
            bench.samples.append(dataclasses.replace(sample, value=100 * sample.value / base))
    for line in output.splitlines():
        name, _, rest = line.partition(": ")
        for server in SERVERS:
            if name == server:
                bench.miss("*", server, "*", rest)
            for row, column in ROWS.items():
                if name == f"{server}, {row}":
                    bench.miss("*", server, column, rest)
    for row, command in (("perf_trace", "perf"), ("perf_record", "perf"), ("bpftrace", "bpftrace"), ("strace", "strace")):
        try:
            tracers.need(command)
        except Missing as why:
            bench.miss("*", "*", ROWS[row], str(why))


COLUMNS = tuple(ROWS.values())
RECORDED = COLUMNS[1:4]
SERVERS_EXPERIMENT = Experiment(
    18, "Always on beside a server",
    """A flight recorder that is on all the time has the last seconds before an incident. What does that cost a server that is fully loaded, where every event is paid for in requests? `-k always` are Strata's events that
    are meant for it; the default records each system call, too.""",
    """One server and its client, on all CPUs, each round with every tracer in turn: redis by redis-benchmark (50 connections, GET), nginx by ab (20 connections, kept open, 1,000 bytes), PostgreSQL by pgbench (8 clients, SELECT).
    The tracers do not do the same work: `perf trace` and strace print each system call to /dev/null, strace by stopping the server's threads twice for each, `perf record` writes a file, bpftrace counts. Strata keeps records in memory.""",
    (Table("rate", "Requests", "requests/s", "server", rows=SERVERS, columns=COLUMNS, base=ROWS["always"], peers=COLUMNS[4:], plot="none", better="higher"),
     Table("change", "Change of the requests, each round against the same round without a recorder", "%", "server", rows=SERVERS, columns=COLUMNS[1:], better="higher"),
     Table("latency", "How long a request takes (99th percentile; PostgreSQL: mean)", "ms", "server", rows=SERVERS, columns=COLUMNS, plot="none"),
     Table("cpu", "CPU time of the server for a request", "µs", "server", rows=SERVERS, columns=COLUMNS),
     Table("history", "History that the recorder holds under this load", "s", "server", rows=SERVERS, columns=RECORDED, plot="none", better="higher")),
    (), measure)
