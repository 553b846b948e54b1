"""Experiments 9 and 10: the article on LTTng-UST's overhead, and what it proposes to try next."""

import re
import shutil

import tracers
from harness import PROGRAMS, ROOT, Missing
from tables import Experiment, Table

from experiments import published

KIB = 1024
SIZES = tuple(4 * KIB * 4**step for step in range(9))
NUMBERS = tuple(2**step for step in range(1, 9))
BASELINE, STRATA_OFF, LTTNG_OFF, STRATA_ON, LTTNG_ON = "no tracepoint", "Strata, dormant", "LTTng-UST, dormant", "Strata, recorded", "LTTng-UST, recorded"


def size_name(size):
    """A size as it stands in a table."""
    return f"{size // KIB} KiB" if size < KIB * KIB else f"{size // KIB // KIB} MiB"


def available():
    """The memory that there is for buffers [byte]."""
    found = re.search(r"MemAvailable:\s+(\d+)", open("/proc/meminfo", encoding="utf-8").read())
    return int(found[1]) * KIB


def programs(bench):
    """The loop without a tracepoint, with Strata's, and with LTTng-UST's where it is installed."""
    built = {BASELINE: bench.compile("article.cc", "article", compiler="g++"),
             STRATA_OFF: bench.compile("article.cc", "article-strata", "-DWITH_STRATA", *bench.headers(), compiler="g++", libraries=bench.libstrata())}
    try:
        tracers.need("lttng", "lttng-sessiond")
        built[LTTNG_OFF] = bench.compile("article.cc", "article-lttng", "-DWITH_LTTNG", f"-I{ROOT / 'bench/user'}", compiler="g++", libraries=("-llttng-ust", "-ldl", "-pthread"))
    except (Missing, RuntimeError) as why:
        for column in (LTTNG_OFF, LTTNG_ON):
            bench.miss("*", "*", column, f"LTTng-UST is not installed, or a program with it does not compile: {str(why)[:200]}")
    return built


def record_strata(bench, program, iterations, size, number):
    """Runs the loop under `strata record` with these buffers. Returns ns, and how many of its events are in the trace."""
    folder = bench.work / "strata"
    shutil.rmtree(folder, ignore_errors=True)
    output = bench.run(bench.strata, "record", "--no-kernel", "--subbuf-size", size, "--num-subbuf", number, "-o", folder, "--",
                       "taskset", "-c", bench.cpus[0], program, iterations, check=False)
    said = (bench.out / "stderr.txt").read_text(encoding="utf-8", errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    found = re.search(r"^\s+user\s+\S+ \(\d+\)\s+([\d,]+)", said, re.M)
    if not found:
        raise Missing("strata says: " + " ".join((said or output).split())[:240])
    return float(output.split()[1]), int(found[1].replace(",", ""))


def record_lttng(bench, lttng, program, iterations, size, number):
    """The same under LTTng-UST. What is in the trace is counted by Strata, which does it in a moment."""
    folder = bench.work / "lttng"
    shutil.rmtree(folder, ignore_errors=True)
    lttng.begin(folder, f"--subbuf-size={size}", f"--num-subbuf={number}")
    try:
        output = bench.run(program, iterations, env=lttng.env, cpu=bench.cpus[0])
    finally:
        lttng.end()
    counted = 0
    if any(path.name.startswith("channel") for path in folder.rglob("*")):
        counted = bench.records(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return float(output.split()[1]), counted


def measure_article(bench):
    """The loop off and on, then the grid of buffers."""
    built = programs(bench)
    off = 200000 if bench.once else 50000000
    on = 20000 if bench.once else 1000000

    def measure(column):
        if column in built:
            return {("loop", "an iteration", column): float(bench.run(built[column], off, cpu=bench.cpus[0]).split()[1])}
        if column == STRATA_ON:
            return {("loop", "an iteration", column): record_strata(bench, built[STRATA_OFF], on, 4 * KIB * KIB, 16)[0]}
        with tracers.Lttng(bench) as lttng:
            ns, _ = record_lttng(bench, lttng, built[LTTNG_OFF], on, 4 * KIB * KIB, 16)
        shutil.rmtree(bench.work / "lttng-home", ignore_errors=True)
        return {("loop", "an iteration", column): ns}

    bench.interleave(5, [*built, STRATA_ON, *([LTTNG_ON] if LTTNG_OFF in built else [])], measure)
    sizes, numbers = (SIZES[:3:2], NUMBERS[:3:2]) if bench.once else (SIZES, NUMBERS)
    limit = available() / 4
    try:
        lttng = tracers.Lttng(bench).__enter__() if LTTNG_OFF in built else None
    except Missing as why:
        lttng = None
        bench.miss("lttng-ns", "*", "*", str(why))
    try:
        for size in sizes:
            for number in numbers:
                cell = size_name(size), str(number)
                needed = size * number * len(bench.cpus)
                if needed > limit:
                    why = f"{needed / 2**30:.0f} GiB of buffers are more than a quarter of the memory that is free: not tried, since other processes would suffer"
                    for table in ("strata-ns", "strata-captured", "lttng-ns", "lttng-captured"):
                        bench.miss(table, *cell, why)
                    continue
                grid_cell(bench, built, lttng, on, size, number)
    finally:
        if lttng:
            lttng.__exit__(None, None, None)
    bench.note("How Strata fails when buffers cannot be had: `strata record --subbuf-size 256M --num-subbuf 256` needs 64 GiB for each CPU, and says:")
    try:
        record_strata(bench, built[STRATA_OFF], 1000, 256 * KIB * KIB, 256)
        bench.notes.pop()
    except Missing as why:
        bench.note(str(why))


def grid_cell(bench, built, lttng, on, size, number):
    """One size and number of sub-buffers, by both."""
    cell = size_name(size), str(number)
    for table, record in (("strata", lambda: record_strata(bench, built[STRATA_OFF], on, size, number)),
                          ("lttng", lambda: record_lttng(bench, lttng, built[LTTNG_OFF], on, size, number))):
        if table == "lttng" and not lttng:
            continue
        try:
            ns, captured = record()
        except Missing as why:
            for kind in ("ns", "captured"):
                bench.miss(f"{table}-{kind}", *cell, str(why))
            continue
        bench.add(f"{table}-ns", *cell, 0, ns)
        bench.add(f"{table}-captured", *cell, 0, 100 * captured / on)


ROWS, COLUMNS = tuple(size_name(size) for size in SIZES), tuple(str(number) for number in NUMBERS)
ARTICLE = Experiment(
    9, "The article on LTTng-UST's overhead",
    """A user of LTTng measured a loop that makes a random number and hands it to a tracepoint: without the tracepoint, with it off, and recorded with buffers of many sizes. With large buffers the loop
    became fast, and the trace empty: the buffers could not be had, and nothing said so.""",
    """The same loop (`std::mt19937`), one thread, discard mode, trace in memory. The grid has one round for each cell, of 1,000,000 events as fast as the loop can; it is read by rows and columns, not by cells. How many of the events
    are in the trace is counted in the trace.""",
    (Table("loop", "The loop", "ns an iteration", "", rows=("an iteration",), columns=(BASELINE, STRATA_OFF, LTTNG_OFF, STRATA_ON, LTTNG_ON), log=True),
     Table("strata-ns", "Strata, recorded, by sub-buffers", "ns an iteration", "size, and number", rows=ROWS, columns=COLUMNS, plot="heat"),
     Table("strata-captured", "Strata: events in the trace", "% of those that happened", "size, and number", rows=ROWS, columns=COLUMNS, plot="heat", better="higher"),
     Table("lttng-ns", "LTTng-UST, recorded, by sub-buffers", "ns an iteration", "size, and number", rows=ROWS, columns=COLUMNS, plot="heat"),
     Table("lttng-captured", "LTTng-UST: events in the trace", "% of those that happened", "size, and number", rows=ROWS, columns=COLUMNS, plot="heat", better="higher")),
    (published.OVERHEAD,), measure_article)

LINKS = {"static": "in the program", "shared": "in a shared library", "loaded": "in a library that dlopen() loads"}


def sized(bench, tracer, link):
    """A program whose tracepoint is where `link` says; and what it is started with."""
    source = f"sizes_{tracer}.c"
    flags, libraries = (bench.headers(), bench.libstrata()) if tracer == "strata" else ([f"-I{PROGRAMS}"], ["-llttng-ust", "-ldl", "-pthread"])
    name = f"sizes-{tracer}-{link}"
    if link == "static":
        return [bench.compile("sizes.c", name, *flags, PROGRAMS / source, libraries=[*libraries, "-ldl"])]
    library = bench.out / f"lib{name}.so"
    bench.run("gcc", "-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-shared", *flags, PROGRAMS / source, "-o", library, *libraries)
    if link == "shared":
        return [bench.compile("sizes.c", name, libraries=[library, f"-Wl,-rpath,{bench.out}", "-ldl", *libraries])]
    return [bench.compile("sizes.c", name, "-DLOADED", libraries=["-ldl"]), library]


def measure_sizes(bench):
    """Events of 0 to 4096 bytes, and the places where a tracepoint may be."""
    variants = {f"Strata: {words}": ("strata", link) for link, words in LINKS.items()}
    try:
        tracers.need("lttng", "lttng-sessiond")
        variants |= {f"LTTng-UST: {words}": ("lttng", link) for link, words in LINKS.items()}
    except Missing as why:
        bench.miss("*", "*", "LTTng-UST", str(why))
    commands = {}
    every = dict(variants)
    for name, (tracer, link) in every.items():
        try:
            commands[name] = sized(bench, tracer, link)
        except RuntimeError as why:
            bench.miss("*", "*", name, f"it does not compile: {str(why)[-200:]}")
            del variants[name]
    rounds = 5 if bench.once else 60

    def measure(name):
        tracer, link = variants[name]
        program, *library = commands[name]
        command = [program, rounds, *library]
        if tracer == "strata":
            folder = bench.work / "strata"
            output = bench.run(bench.strata, "record", "-q", "--no-kernel", "--mode", "overwrite", "--subbuf-size", "1M", "--num-subbuf", 8, "-o", folder, "--", "taskset", "-c", bench.cpus[0], *command)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with tracers.Lttng(bench) as lttng:
                lttng.begin(bench.work / "lttng", "--overwrite", "--subbuf-size=1M", "--num-subbuf=8")
                try:
                    output = bench.run(*command, env=lttng.env, cpu=bench.cpus[0])
                finally:
                    lttng.end()
            for folder in ("lttng", "lttng-home"):
                shutil.rmtree(bench.work / folder, ignore_errors=True)
        column = "Strata" if tracer == "strata" else "LTTng-UST"
        found = {}
        for line in output.splitlines():
            size, ns = line.split()
            if link == "static":
                found["sizes", size, column] = float(ns)
            if size == "8":
                found["links", LINKS[link], column] = float(ns)
        return found

    bench.interleave(3, list(variants), measure)
    # A variant that cannot run here is a row of one tracer.
    for name, (tracer, link) in every.items():
        why = bench.missing.get(f"*|*|{name}")
        if why:
            column = "Strata" if tracer == "strata" else "LTTng-UST"
            bench.miss("links", LINKS[link], column, why)
            if link == "static":
                bench.miss("sizes", "*", column, why)


FOLLOW_UPS = Experiment(
    10, "What the article proposes next",
    "How does the cost of an event grow with its size, and does it matter whether the tracepoint is in the program or in a library?",
    "Events with a text of 0 to 4,096 bytes, whose length the compiler does not know; overwrite mode, on one CPU, with pauses for the consumer. Each figure of a round is the median of 60 batches.",
    (Table("sizes", "An event by the size of its text", "ns", "bytes of text", columns=("Strata", "LTTng-UST"), base="Strata", plot="lines", log=True),
     Table("links", "An event with 8 bytes, by the place of its tracepoint", "ns", "tracepoint", rows=tuple(LINKS.values()), columns=("Strata", "LTTng-UST"), base="Strata")),
    (), measure_sizes)
