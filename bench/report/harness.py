"""Runs experiments: interleaved rounds, warm-up, the watch over each round; writes the raw CSV and what belongs to it."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import machine
import samples
import watch

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build/bench/report"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
FLAGS = ("-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra")
# Of a round that cannot be measured again and again.
LIMIT_S = 1500
LIMIT_ONCE_S = 240
# In front of a command that runs beside the measurement: it gets SIGTERM when this process ends, in whatever way.
TIED = ("setpriv", "--pdeathsig", "TERM")


class Missing(Exception):
    """What is measured cannot be here; the text says why, for its cell."""


def end_group(process):
    """Ends a process and what it has started: first they are asked, so that they can put away what they have set up."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        # Whoever has not heard it; of the group itself nobody may be left.
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Bench:
    """The measurement of one experiment: what it runs with, and what it found."""

    def __init__(self, number, once, strata):
        self.number = number
        self.once = once
        self.strata = str(strata)
        self.out = OUT / f"{number:02}"
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.samples = []
        self.missing = {}
        self.notes = []
        self.work = None
        self.cpus = sorted(os.sched_getaffinity(0))
        self.control = watch.Control(str(OUT / "control"), self.cpus[:2])

    def __enter__(self):
        # In memory: what is measured is no disk, but where an experiment says so.
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="strata-report.", dir="/dev/shm"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work, ignore_errors=True)

    # ---- what it found ----

    def add(self, table, row, column, number_of_round, value, control=0.0, disturbed=""):
        """Notes one number. `control`: of a control loop beside it [ns]."""
        self.samples.append(samples.Sample(table, row, column, number_of_round, float(value), float(control),
                                           "" if self.once else disturbed))

    def miss(self, table, row, column, reason):
        """Notes why a cell is empty. Row or column "*" stands for all that have no number."""
        self.missing[f"{table}|{row}|{column}"] = reason

    def note(self, text, about=None):
        """Adds a sentence that the page shows below the tables; the first one alone that is `about` the same."""
        if text not in self.notes and not (about and any(note.startswith(about) for note in self.notes)):
            self.notes.append(text)

    def rounds(self, full):
        """How many rounds a measurement has."""
        return 1 if self.once else full

    # ---- what it runs ----

    def run(self, *command, env=None, cpu=None, check=True, cwd=ROOT, stdin=None, limit=None):
        """The output of a command; what it says on standard error goes to a file, whose end an error shows."""
        if cpu is not None:
            command = ("taskset", "-c", str(cpu), *command)
        log = self.out / "stderr.txt"
        with open(log, "w", encoding="utf-8") as errors:
            try:
                # A group of its own: what a script has started ends with it.
                process = subprocess.Popen([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})}, text=True, stdin=stdin,
                                           stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
            except OSError as error:
                raise Missing(f"{command[0]} cannot run: {error.strerror}") from None
            try:
                output, _ = process.communicate(timeout=limit or (LIMIT_ONCE_S if self.once else LIMIT_S))
            except subprocess.TimeoutExpired as expired:
                raise RuntimeError(f"{' '.join(map(str, command))}: does not end within {expired.timeout:.0f} s") from None
            finally:
                if process.poll() is None:
                    end_group(process)
        if check and process.returncode:
            said = (output[-400:] + log.read_text(errors="replace")[-800:]).strip()
            raise RuntimeError(f"{' '.join(map(str, command))}: exit status {process.returncode}: {said}")
        return output

    def compile(self, source, name, *flags, compiler="gcc", libraries=()):
        """Compiles a program of this folder. Returns its path."""
        program = self.out / name
        standard = () if compiler == "gcc" else ("-O2", "-g", "-std=gnu++17", "-D_GNU_SOURCE", "-Wall", "-Wextra")
        self.run(compiler, *(FLAGS if compiler == "gcc" else standard), *flags, PROGRAMS / source, "-o", program, *libraries)
        return program

    def records(self, trace):
        """How many records a trace has, whoever wrote it; 0 if it has none."""
        words = self.run(self.strata, "sql", "--format", "csv", trace, "select sum(records) from event_counts", check=False).split()
        return int(words[-1]) if words and words[-1].isdigit() else 0

    @staticmethod
    def libstrata():
        """The flags with which a program is linked with libstrata of this tree."""
        folder = ROOT / "build/probe/user"
        return [f"-L{folder}", "-lstrata", f"-Wl,-rpath,{folder}", "-pthread"]

    @staticmethod
    def headers():
        """The folders of Strata's headers."""
        return [f"-I{ROOT / folder}" for folder in ("abi/include", "ring/include", "probe/user/include")]

    # ---- rounds ----

    def interleave(self, full, variants, measure):
        """Measures all variants in turn, once to warm up, then until each has `full` undisturbed rounds, at most twice as many.

        `measure(variant)` gives {(table, row, column): number}, or raises Missing with what belongs into its cells. Each round
        begins with another variant.
        """
        wanted = self.rounds(full)
        good = {variant: 0 for variant in variants}
        alive = list(variants)
        if not self.once:
            for variant in list(alive):
                self.one(variant, measure, alive, None)
        for number in range(wanted * (1 if self.once else 2)):
            for at in range(len(variants)):
                variant = variants[(at + number) % len(variants)]
                if variant in alive and good[variant] < wanted:
                    good[variant] += self.one(variant, measure, alive, number)

    def one(self, variant, measure, alive, number):
        """One round of a variant. Returns whether nothing disturbed it. No number: it warms up."""
        before = watch.begin(os.getpid())
        control = self.control()
        try:
            found = measure(variant)
        except Missing as reason:
            alive.remove(variant)
            self.miss("*", "*", str(variant), str(reason))
            return False
        control = max(control, self.control())
        disturbed = watch.end(before, os.getpid())
        if number is None:
            return False
        for (table, row, column), value in found.items():
            self.add(table, row, column, number, value, control, disturbed)
        quickest = min((sample.control for sample in self.samples if sample.control), default=control)
        return not disturbed and control <= samples.ALONE * quickest

    @contextlib.contextmanager
    def watched(self):
        """Watches over a round that cannot be interleaved: what is added meanwhile has its control, and what disturbed it."""
        first = len(self.samples)
        before = watch.begin(os.getpid())
        control = self.control()
        yield
        control = max(control, self.control())
        why = "" if self.once else watch.end(before, os.getpid())
        self.samples[first:] = [dataclasses.replace(sample, control=sample.control or control, disturbed=sample.disturbed or why)
                                for sample in self.samples[first:]]

    # ---- what other benchmarks leave ----

    def bench_raw(self, *command, env=None):
        """Runs a benchmark of bench/bench.h, or a script that runs some. Returns (heading, case, round, ns, control) of all rounds."""
        raw = self.out / "rounds.csv"
        raw.unlink(missing_ok=True)
        output = self.run(*command, *(["--once"] if self.once else []), env={"STRATA_BENCH_RAW": str(raw), **(env or {})})
        with open(self.out / f"{pathlib.Path(str(command[0])).parent.name}-{pathlib.Path(str(command[0])).name}.txt", "w",
                  encoding="utf-8") as file:
            file.write(output)
        found = []
        if raw.exists():
            for line in raw.read_text(encoding="utf-8").splitlines():
                heading, case, number, ns, control = line.split("\t")
                found.append((heading, case, int(number), float(ns), float(control)))
        return output, found

    # ---- on disk ----

    def save(self, seconds, failed=""):
        """Writes the raw CSV and what else the page says of the experiment."""
        self.samples = samples.reject(self.samples) if not self.once else self.samples
        samples.write(self.samples, self.out / "samples.csv")
        with open(self.out / "about.json", "w", encoding="utf-8") as file:
            json.dump({"number": self.number, "once": self.once, "commit": machine.commit(), "seconds": round(seconds, 1),
                       "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "missing": self.missing, "notes": self.notes,
                       "machine": machine.describe(), "ghz": machine.cycles_per_ns(), "failed": failed}, file, indent=1)


def stored(number):
    """What save() has written for an experiment: (about, samples), or None."""
    folder = OUT / f"{number:02}"
    try:
        with open(folder / "about.json", encoding="utf-8") as file:
            return json.load(file), samples.read(folder / "samples.csv")
    except (OSError, ValueError):
        return None
