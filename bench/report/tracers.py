"""Tracers that an experiment sets up around its work, Strata and its peers, each with the reason where it cannot be here."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from harness import ROOT, TIED, Missing

TRACING = pathlib.Path("/sys/kernel/tracing")
BEGINS_S = 60


def is_root():
    """Whether the kernel may be recorded."""
    return os.geteuid() == 0


def need(*commands):
    """Raises Missing if one of the commands is not installed."""
    for command in commands:
        if not shutil.which(command):
            raise Missing(f"{command} is not installed")


def need_kernel():
    """Raises Missing where the kernel cannot be recorded."""
    if not is_root():
        raise Missing("only root can record the kernel")
    if not os.access("/sys/kernel/btf/vmlinux", os.R_OK):
        raise Missing("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")


def wait_until(condition, process, log, what):
    """Waits for a condition while a process runs; its log is in the error."""
    end = time.monotonic() + BEGINS_S
    while time.monotonic() < end:
        if condition():
            return
        if process is not None and process.poll() is not None:
            break
        # Time: between two looks at the condition.
        time.sleep(0.01)
    said = pathlib.Path(log).read_text(errors="replace")[-600:].strip()
    raise Missing(f"{what} does not begin here: {said or 'it says nothing'}")


class Tracer:
    """One tracer: `with tracer(bench):` records what happens meanwhile. Counts are there afterwards; None where it has none."""

    name = ""
    records = None
    discarded = None
    bytes = None

    def __call__(self, bench):
        self.bench = bench
        self.folder = bench.work / "trace"
        self.log = bench.out / f"tracer-{re.sub('[^a-z0-9]+', '-', self.name.lower())}.txt"
        return self

    def __str__(self):
        return self.name

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.records = self.discarded = self.bytes = None
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def begin(self):
        """Begins to record; returns when it does."""

    def end(self):
        """Ends the recording."""

    def start(self, *command, **more):
        """Starts the tracer's process, whose output goes to its log."""
        with open(self.log, "w", encoding="utf-8") as log:
            return subprocess.Popen([*TIED, *map(str, command)], cwd=ROOT, stdout=log, stderr=log, **more)

    def stop(self, process, number=signal.SIGTERM):
        """Ends a process that start() has started."""
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=BEGINS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def size(self):
        """The bytes of the trace's files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


class Untraced(Tracer):
    """No tracer."""

    name = "untraced"


class Strata(Tracer):
    """`strata record` of the kernel, of all processes."""

    def __init__(self, name, *arguments):
        self.name = name
        self.arguments = arguments
        self.process = None

    def begin(self):
        need_kernel()
        self.process = self.start(self.bench.strata, "record", "--all-processes", *self.arguments, "-o", self.folder)
        wait_until(lambda: "strata: recording" in self.log.read_text(errors="replace"), self.process, self.log, "strata record")

    def end(self):
        self.stop(self.process)
        self.process = None
        found = re.search(r"^\s+kernel\s+all\s+([\d,]+).*?([\d,]+)\s*$", self.log.read_text(errors="replace"), re.M)
        if found:
            self.records, self.discarded = (int(number.replace(",", "")) for number in found.groups())
            if self.discarded:
                self.bench.note(f"{self.name}: in some rounds records were discarded, {self.discarded / (self.records + self.discarded):.0%} in the first of them; "
                                "what is discarded costs less than what is written.", about=self.name)
        if self.folder.exists():
            self.bytes = self.size()


class Flight(Tracer):
    """A flight recorder of Strata: a session that is read by nobody until somebody asks."""

    def __init__(self, name, *arguments):
        self.name = name
        self.arguments = arguments
        self.session = f"report-{os.getpid()}"
        self.running = False

    def begin(self):
        need_kernel()
        # Also a session that is slow to begin, or that somebody breaks off, is there to be ended.
        self.running = True
        # If the report is killed, the session ends by itself.
        done = subprocess.run([self.bench.strata, "record", "--quiet", "--background", self.session, "--snapshot", "--duration", "1h", *self.arguments],
                              cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BEGINS_S, check=False)
        self.log.write_text(done.stdout)
        if done.returncode:
            raise Missing(f"strata record --background does not begin here: {done.stdout[-400:].strip()}")

    def end(self):
        if self.running:
            subprocess.run([self.bench.strata, "destroy", self.session], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=BEGINS_S, check=False)
        self.running = False


def define(file, definition):
    """Adds a line to a list of probes. Without seeking, which these files do not allow."""
    descriptor = os.open(TRACING / file, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, f"{definition}\n".encode())
    finally:
        os.close(descriptor)


class Ftrace(Tracer):
    """Events of ftrace in an instance of its own, which overwrites and is read by nobody."""

    def __init__(self, name, *events, kib=8192, probes=()):
        self.name = name
        self.events = events
        self.kib = kib
        self.probes = probes
        self.instance = TRACING / f"instances/strata_report_{os.getpid()}"

    def begin(self):
        if not is_root():
            raise Missing("only root can use ftrace")
        if not (TRACING / "events").exists():
            subprocess.run(["mount", "-t", "tracefs", "nodev", str(TRACING)], check=False, stderr=subprocess.DEVNULL)
        if not (TRACING / "events").exists():
            raise Missing("tracefs is not mounted, and cannot be")
        self.log.write_text("")
        try:
            for file, definition in self.probes:
                define(file, definition)
            self.instance.mkdir()
            (self.instance / "trace_clock").write_text("mono")
            (self.instance / "buffer_size_kb").write_text(str(self.kib))
            for event in self.events:
                (self.instance / "events" / event / "enable").write_text("1")
        except OSError as error:
            raise Missing(f"ftrace cannot record this: {error.filename or self.probes}: {error.strerror}") from None

    def pause(self):
        """Ends the recording; what was recorded can be read."""
        (self.instance / "tracing_on").write_text("0")

    def counts(self):
        """(records, bytes) that the buffers hold."""
        records = size = 0
        for stats in self.instance.glob("per_cpu/cpu*/stats"):
            for line in stats.read_text().splitlines():
                what, _, number = line.partition(": ")
                records += int(number) if what == "entries" else 0
                size += int(number) if what == "bytes" else 0
        return records, size

    def end(self):
        if self.instance.exists():
            for event in self.events:
                enable = self.instance / "events" / event / "enable"
                if enable.exists():
                    enable.write_text("0")
            self.instance.rmdir()
        for file, definition in self.probes:
            name = definition.split()[0].partition(":")[2]
            try:
                define(file, f"-:{name}")
            except OSError:
                pass  # it was not made


class Perf(Tracer):
    """`perf record` of events on all CPUs."""

    def __init__(self, name, *events):
        self.name = name
        self.events = events
        self.process = None

    def begin(self):
        need("perf")
        if not is_root():
            raise Missing("only root can record all CPUs by perf")
        self.folder.mkdir()
        control, answer = self.folder / "control", self.folder / "answer"
        os.mkfifo(control)
        os.mkfifo(answer)
        self.process = self.start("perf", "record", "-q", "-a", "-D", "-1", f"--control=fifo:{control},{answer}", "-k", "mono", "-m", "8M",
                                  *[word for event in self.events for word in ("-e", event)], "-o", self.folder / "perf.data")
        to, back = os.open(control, os.O_RDWR), os.open(answer, os.O_RDWR | os.O_NONBLOCK)
        try:
            os.write(to, b"enable\n")
            # Word by word until the answer: perf says "ack\n".
            wait_until(lambda: self.answered(back), self.process, self.log, "perf record")
        finally:
            os.close(to)
            os.close(back)

    @staticmethod
    def answered(descriptor):
        """Whether perf has said that it records."""
        try:
            return b"ack" in os.read(descriptor, 64)
        except BlockingIOError:
            return False

    def end(self):
        self.stop(self.process)
        self.process = None
        data = self.folder / "perf.data"
        if data.exists():
            self.bytes = data.stat().st_size


class Bpftrace(Tracer):
    """A program of bpftrace, attached meanwhile."""

    def __init__(self, name, program):
        self.name = name
        self.program = program
        self.process = None

    def begin(self):
        need("bpftrace")
        if not is_root():
            raise Missing("only root can use bpftrace")
        self.process = self.start("bpftrace", "-e", f'BEGIN {{ printf("ready\\n"); }} {self.program}')
        wait_until(lambda: "ready" in self.log.read_text(errors="replace"), self.process, self.log, "bpftrace")

    def end(self):
        self.stop(self.process, signal.SIGINT)
        self.process = None


def lttng_kernel():
    """The reason why LTTng's kernel tracer is not beside the others."""
    if pathlib.Path("/sys/module/lttng_tracer").exists():
        return "LTTng's kernel modules are loaded here, but this report has no experiment with them yet"
    release = os.uname().release
    if not pathlib.Path(f"/lib/modules/{release}/build").exists():
        return f"LTTng's kernel tracer is a module that is compiled against the running kernel, and there are no headers of {release} here"
    return "LTTng's kernel modules (lttng-modules-dkms) are not loaded"


class Lttng:
    """A session daemon of LTTng-UST of our own, beside that of the machine."""

    def __init__(self, bench):
        self.bench = bench
        self.home = bench.work / "lttng-home"
        self.daemon = None
        self.env = {"LTTNG_HOME": str(self.home), "HOME": str(self.home), "LTTNG_RUNDIR": str(self.home / "run"),
                    "LTTNG_UST_REGISTER_TIMEOUT": "-1"}

    def __enter__(self):
        need("lttng", "lttng-sessiond")
        self.home.mkdir()
        with open(self.bench.out / "sessiond.txt", "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen([*TIED, "lttng-sessiond", "--no-kernel"], env={**os.environ, **self.env}, stdout=log, stderr=log)
        try:
            wait_until(lambda: self.ask("list").returncode == 0, self.daemon, self.bench.out / "sessiond.txt", "lttng-sessiond")
        except BaseException:
            # Who does not come in is not let out either: `with` ends nothing.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.daemon:
            self.daemon.terminate()
            try:
                self.daemon.wait(timeout=BEGINS_S)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()

    def ask(self, *arguments):
        """One command of `lttng`."""
        return subprocess.run(["lttng", "--no-sessiond", *map(str, arguments)], env={**os.environ, **self.env}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BEGINS_S, check=False)

    def say(self, *arguments):
        """One command of `lttng` that must succeed. Returns what it says."""
        done = self.ask(*arguments)
        if done.returncode:
            raise Missing(f"lttng {' '.join(map(str, arguments[:2]))}: {' '.join(done.stdout.split())[-300:]}")
        return done.stdout

    def begin(self, folder, *channel, events="bench:*"):
        """Creates and starts a session with one channel."""
        self.say("create", "bench", f"--output={folder}", *(["--snapshot"] if "--snapshot" in channel else []))
        try:
            self.say("enable-channel", "-u", *[word for word in channel if word != "--snapshot"], "channel")
            self.say("enable-event", "-u", "-c", "channel", events)
            self.say("start")
        except Missing:
            self.ask("destroy", "bench")
            raise

    def end(self):
        """Ends and destroys it. Returns what `lttng stop` and `destroy` say, of discarded events for example."""
        return self.ask("stop").stdout + self.ask("destroy", "bench").stdout
