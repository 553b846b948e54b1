"""Experiments 15 to 17: snapshots of a flight recorder, virtual machines, programs of other languages."""

import os
import re
import shutil
import subprocess
import time

import tracers
from harness import ROOT, TIED, Missing
from tables import Experiment, Table


MIB = 1 << 20


def start_load(bench, program, cpu, env=None):
    """A program that records as fast as it can, on one CPU, until it is stopped."""
    log = open(bench.out / "load.txt", "w", encoding="utf-8")  # pylint: disable=consider-using-with
    return subprocess.Popen([*TIED, "taskset", "-c", str(cpu), str(program), "1000000000000"], env={**os.environ, **(env or {})}, stdout=log, stderr=log)


def end_load(load):
    """Stops it."""
    load.kill()
    load.wait()


def timed(bench, *command, env=None):
    """Seconds that a command takes."""
    begin = time.monotonic()
    bench.run(*command, env=env)
    return time.monotonic() - begin


def note_snapshot(bench, column, number, seconds, folder):
    """What a snapshot took, and what is in it."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and "index" not in path.parts)
    records = bench.records(folder)
    bench.add("seconds", "a snapshot", column, number, seconds)
    bench.add("size", "a snapshot", column, number, size / MIB)
    bench.add("events", "a snapshot", column, number, records / 1e6)
    bench.add("rate", "a snapshot", column, number, records / seconds / 1e6)
    shutil.rmtree(folder)


def snapshot_strata(bench, program, number, size):
    """One snapshot of Strata's flight recorder."""
    flight = tracers.Flight("Strata", "--no-kernel", "-u", "bench:*", "--subbuf-size", str(size), "--num-subbuf", "8")
    with flight(bench):
        load = start_load(bench, program, bench.cpus[-1])
        try:
            wait_full(lambda: overwritten(bench, flight.session) > 0, load, bench)
            folder = bench.work / "snapshot"
            seconds = timed(bench, bench.strata, "snapshot", flight.session, "-o", folder)
        finally:
            end_load(load)
    note_snapshot(bench, "Strata", number, seconds, folder)


def overwritten(bench, session):
    """How many records of a session its buffers have overwritten: then they are full."""
    import json  # pylint: disable=import-outside-toplevel

    said = bench.run(bench.strata, "status", session, "--format", "json", check=False)
    return json.loads(said)["sessions"][0].get("overwritten", 0) if said else 0


def wait_full(is_full, load, bench):
    """Waits until the buffers are full."""
    tracers.wait_until(is_full, load, bench.out / "load.txt", "the recording of the program")


def snapshot_lttng(bench, program, number, size):
    """One snapshot of LTTng-UST."""
    with tracers.Lttng(bench) as lttng:
        folder = bench.work / "snapshot"
        lttng.begin(folder, "--snapshot", "--overwrite", f"--subbuf-size={size}", "--num-subbuf=8")
        load = start_load(bench, program, bench.cpus[-1], lttng.env)
        try:
            # It does not say whether its buffers are full: long enough that they are, at a million events/s of 24 bytes and more.
            begin = time.monotonic()
            wait_full(lambda: time.monotonic() - begin > 0.5 + 8 * size / 24e6, load, bench)
            begin = time.monotonic()
            lttng.say("snapshot", "record")
            seconds = time.monotonic() - begin
        finally:
            end_load(load)
            lttng.end()
    note_snapshot(bench, "LTTng-UST", number, seconds, folder)
    shutil.rmtree(bench.work / "lttng-home", ignore_errors=True)


def measure_snapshots(bench):
    """Snapshots while a program records at full rate."""
    size = MIB if bench.once else 8 * MIB
    strata = bench.compile("article.cc", "article-strata", "-DWITH_STRATA", *bench.headers(), compiler="g++", libraries=bench.libstrata())
    try:
        tracers.need("lttng", "lttng-sessiond")
        lttng = bench.compile("article.cc", "article-lttng", "-DWITH_LTTNG", f"-I{ROOT / 'bench/user'}", compiler="g++", libraries=("-llttng-ust", "-ldl", "-pthread"))
    except (Missing, RuntimeError) as why:
        lttng = None
        bench.miss("*", "*", "LTTng-UST", str(why)[:300])
    for number in range(bench.rounds(5)):
        with bench.watched():
            snapshot_strata(bench, strata, number, size)
        if lttng:
            try:
                with bench.watched():
                    snapshot_lttng(bench, lttng, number, size)
            except Missing as why:
                bench.miss("*", "*", "LTTng-UST", str(why))
                lttng = None
    bench.miss("*", "*", "perf record --switch-output", "it records the kernel, not events of a program: another rate and other records, and there is no experiment with it yet")


SNAPSHOTS = Experiment(
    15, "A snapshot while everything is recorded",
    "Something went wrong, and the flight recorder is to write what it holds, while the program goes on at full rate. How long does that take, and how much of it is there?",
    "One program records random numbers as fast as it can, on one CPU. Its buffers of 8 sub-buffers are full when the snapshot begins. The snapshot goes to memory. Time is that of the whole command.",
    tuple(Table(key, title, unit, "", rows=("a snapshot",), columns=("Strata", "LTTng-UST", "perf record --switch-output"), base=base, plot=plot, better=better)
          for key, title, unit, base, plot, better in (
              ("seconds", "The snapshot takes", "s", "", "bars", "lower"), ("size", "Its files have", "MiB", "", "none", "lower"),
              ("events", "It holds", "million events", "", "none", "higher"), ("rate", "Events that it writes in a second", "million events/s", "Strata", "none", "higher"))),
    (), measure_snapshots)

GUESTS = Experiment(
    16, "Virtual machines",
    "What does it cost to record a guest, its host, and both on one timeline?",
    "", (), (), None,
    "A guest's cost is that of a CPU that runs guests. This report has no experiment yet: on a host without KVM (/dev/kvm), QEMU emulates the CPU, and what the emulation of an instruction costs says nothing")


def measure_languages(bench):
    """bench/languages/run, some times: each is the lowest of its own rounds."""
    for number in range(bench.rounds(3)):
        with bench.watched():
            output = bench.run("bench/languages/run", *(["--once"] if bench.once else []))
            for line in output.splitlines():
                found = re.fullmatch(r"RESULT (.*), (on|off)/(.*) (-?[0-9.]+)", line)
                of_lttng = re.fullmatch(r"RESULT LTTng, (.*)/(.*) (-?[0-9.]+)", line)
                if found:
                    bench.add("cost", f"{found[1]}: {found[3]}", {"on": "recorded", "off": "off"}[found[2]], number, float(found[4]))
                elif of_lttng:
                    bench.add("agents", f"{of_lttng[1]}: {of_lttng[2]}", "LTTng's agent", number, float(of_lttng[3]))
    if not any(sample.table == "agents" for sample in bench.samples):
        bench.miss("agents", "*", "*", "LTTng's agents (python3-lttngust, liblttng-ust-agent-java) are not installed")


LANGUAGES = Experiment(
    17, "Other languages",
    "What does an event of a program in Python, Java, Go or JavaScript cost, and a message of the language's own logging, beside LTTng's agents?",
    "Strata's packages for each language that is installed, off and recorded (overwrite mode). Each figure of a round is the lowest of many; shown are the rounds' medians.",
    (Table("cost", "An event by Strata", "ns", "language: event", columns=("off", "recorded"), log=True),
     Table("agents", "A message of the language's logging", "ns", "language: message", columns=("LTTng's agent",))),
    (), measure_languages)

