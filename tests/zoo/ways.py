"""The ways in which a program of the zoo is recorded. Each takes a Setting and returns complaints, none if all held."""
import collections
import os
import re
import shutil
import signal
import subprocess
import time

import claims

# Nothing of the zoo takes as long; what does hangs.
LIMIT_S = 120
HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH = os.path.join(HERE, "tools", "launch")
TRACEFS = "/sys/kernel/tracing"

Ran = collections.namedtuple("Ran", "status output talk truths tree cpu_s trace left")


class Setting:
    """One program in a scratch folder, with the command that records it."""

    def __init__(self, program, strata, scratch, root):
        self.program, self.strata, self.scratch, self.root = program, strata, scratch, root
        self.number, self.plain = 0, None

    def surroundings(self, name):
        """A fresh folder to run in, and the environment."""
        folder = os.path.join(self.scratch, name)
        os.makedirs(os.path.join(folder, "cwd"))
        environment = dict(os.environ, LC_ALL="C.UTF-8", ZOO_RUN=f"zoo-{os.getpid()}-{self.number}-{self.program.name}",
                           ZOO_TRUTH=os.path.join(folder, "truth"), ZOO=HERE, ZOO_ROOT=self.root,
                           ZOO_LAUNCHED=os.path.join(folder, "launched"), XDG_STATE_HOME=folder)
        return folder, environment

    def recorded(self, way, before=(), after=(), between=None):
        """Runs `BEFORE... launch PROGRAM`, or the program beside what `between` starts, with the kernel's own tracer beside both."""
        self.number += 1
        folder, environment = self.surroundings(f"{way}-{self.number}")
        trace = os.path.join(folder, "trace")
        command = [LAUNCH, self.program.path]
        before = [word.replace("TRACE", trace) for word in before]
        with open(os.path.join(folder, "talk"), "wb") as talk, open(os.path.join(folder, "output"), "wb") as output:
            tracer, seen = None, None
            if way != "untraced":
                tracer = KernelTracer(environment["ZOO_RUN"])
            try:
                if between:
                    status = between(command, environment, folder, output, talk)
                else:
                    status = run_to_end([*before, *command], os.path.join(folder, "cwd"), environment, output, talk)
            finally:
                if tracer:
                    seen = tracer.end()
        try:
            with open(environment["ZOO_LAUNCHED"], encoding="utf-8") as file:
                pid, own_status, cpu_s = file.read().split()
        except OSError:
            pid, own_status, cpu_s = 0, 255, 0
        tree = claims.Tree(seen, int(pid)) if tracer else None
        deadline = time.monotonic() + 20
        left = claims.nothing_left(environment["ZOO_RUN"], ())
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = claims.nothing_left(environment["ZOO_RUN"], ())
        # A recorder passes on how its command ended, a shell's way: 128 and the signal.
        own = int(own_status)
        if status not in (own, 128 - own if own < 0 else own):
            own = f"{own}, and the recorder's {status}"
        return Ran(own, read(folder, "output"), read(folder, "talk").decode(errors="replace"),
                   claims.truths(environment["ZOO_TRUTH"]), tree, float(cpu_s), trace, left)

    def untraced(self):
        return self.recorded("untraced")


def run_to_end(command, cwd, environment, output, talk):
    """How the command ended; what takes longer than LIMIT_S is ended with all that it started."""
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=talk,
                               start_new_session=True)
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"none within {LIMIT_S} s"


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing for {seconds} s")
        time.sleep(0.02)


class KernelTracer:
    """The kernel's own tracer beside a run, in buffers of its own (tracefs): each fork and exec, as text."""

    def __init__(self, name):
        self.folder = os.path.join(TRACEFS, "instances", name)
        os.mkdir(self.folder)
        self.put("buffer_size_kb", "8192")
        for event in ("sched_process_fork", "sched_process_exec"):
            self.put(f"events/sched/{event}/enable", "1")

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def end(self):
        """What was seen."""
        try:
            self.put("tracing_on", "0")
            said = read(self.folder, "trace").decode(errors="replace")
            entries = re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", said)
            if not entries or entries[1] != entries[2]:
                raise ValueError("the kernel's own tracer had too little room")
            return said
        finally:
            os.rmdir(self.folder)


def everywhere(setting, ran):
    """What is claimed of every run, whatever it records."""
    complaints = claims.same_behaviour(setting.plain, ran)
    if ran.left:
        complaints.append(f"left behind: {ran.left[:3]}")
    return complaints


def whole(setting, ran, *more):
    """What is claimed where the kernel's events are recorded. Where records were discarded, and that is said, as on a
    machine that is too busy, nothing can be counted."""
    complaints = everywhere(setting, ran)
    if re.search(r"^strata: .*event records? discarded \(", ran.talk, re.MULTILINE):
        print(f"note {setting.program.name}: records were discarded, which is said; nothing is counted")
        return complaints
    complaints += claims.processes_recorded(setting.strata, ran.trace, ran.tree)
    complaints += claims.sums_agree(setting.strata, ran.trace, ran.truths, ran.tree)
    for claim in more:
        complaints += claim()
    return complaints


def default(setting):
    """`strata record -- PROGRAM`, and every count that strace finds the same in two runs."""
    ran = setting.recorded("default", [setting.strata, "record", "-o", "TRACE", "--"])
    setting.default_run = ran
    names = setting.program.first("Calls").split()
    return whole(setting, ran, lambda: claims.cpu_time_agrees(setting.strata, ran.trace, ran.tree, ran.cpu_s),
                 lambda: claims.counts_agree_with_strace(setting.strata, ran.trace, ran.tree,
                                                         strace_counts(setting, names) if names else {}))


def strace_counts(setting, names):
    """How often each of these calls was made, by strace, where two runs agree."""
    found = []
    for number in range(2):
        folder, environment = setting.surroundings(f"strace-{setting.number}-{number}")
        counts = os.path.join(folder, "counts")
        # launch and its fork are strace's here, too: what they do before the program is taken off by execve.
        subprocess.run(["strace", "-f", "-q", "-o", counts, "-e", "trace=" + ",".join(f"?{name}" for name in names), setting.program.path],
                       cwd=os.path.join(folder, "cwd"), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
        calls = collections.Counter()
        with open(counts, encoding="utf-8", errors="replace") as file:
            for line in file:
                call = re.match(r"\d+\s+(\w+)\(", line)
                if call:
                    calls[call[1]] += 1
        found.append(calls)
    return {name: found[0][name] for name in names if found[0][name] == found[1][name]}


def beside(setting, way, recorder, ends=signal.SIGINT, needs_pid=False):
    """The program waits until a recorder has begun; the recorder is told to end when it has ended."""

    def between(command, environment, folder, output, talk):
        gate = os.path.join(folder, "gate")
        os.mkfifo(gate)
        program = subprocess.Popen(["sh", "-c", 'read -r _ <"$0"; exec "$@"', gate, *command], cwd=os.path.join(folder, "cwd"),
                                   env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)
        words = [word.replace("TRACE", os.path.join(folder, "trace")).replace("PID", str(program.pid)) for word in recorder]
        said = os.path.join(folder, "talk")
        record = subprocess.Popen([setting.strata, *words], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=talk, preexec_fn=default_signals)
        wait_for(lambda: record.poll() is not None or b"recording" in open(said, "rb").read())
        with open(gate, "w", encoding="ascii") as file:
            file.write("go\n")
        status = program.wait(LIMIT_S)
        try:
            record.wait(5 if needs_pid else 0)
        except subprocess.TimeoutExpired:
            record.send_signal(ends)
            record.wait(60)
        return status

    return setting.recorded(way, between=between)


def default_signals():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def attach(setting):
    """`strata record -p PID` of a shell that then becomes the program."""
    return whole(setting, beside(setting, "attach", ["record", "-p", "PID", "-o", "TRACE"], needs_pid=True))


def everything(setting):
    """`strata record -a` beside the program."""
    return whole(setting, beside(setting, "all", ["record", "-a", "-o", "TRACE"]))


def snapshot(setting):
    """A flight recorder beside the program, saved when it has ended."""
    name = f"zoo-{os.getpid()}-{setting.number}"

    def between(command, environment, folder, output, talk):
        def strata(*words):
            return subprocess.run([setting.strata, *words], stdin=subprocess.DEVNULL, stdout=talk, stderr=talk, env=environment, check=False).returncode

        mark = environment.pop("ZOO_RUN")
        if strata("record", "--background", name, "--snapshot"):
            return 255
        try:
            status = run_to_end(command, os.path.join(folder, "cwd"), dict(environment, ZOO_RUN=mark), output, subprocess.DEVNULL)
            strata("snapshot", name, "-o", os.path.join(folder, "trace"))
        finally:
            strata("destroy", name)
            environment["ZOO_RUN"] = mark
        return status

    ran = setting.recorded("snapshot", between=between)
    complaints = everywhere(setting, ran)
    # What an overwrite buffer holds at its end are the last records: the end of the program is in them.
    last = sum(1 for event in claims.events(setting.strata, ran.trace, "-f", "sched_process_exit")
               if event["payload"]["tid"] in ran.tree.tasks)
    if not last:
        complaints.append("no end of any of its threads is in the snapshot: " + ran.talk[-300:])
    return complaints


def libc(setting):
    """`strata record --libc`, where every dynamic program is reached, or named."""
    ran = setting.recorded("libc", [setting.strata, "record", "--libc", "malloc,pthread,io", "-o", "TRACE", "--"])
    return everywhere(setting, ran) + claims.libc_reached(ran.trace, ran.talk, ran.tree)


def stack(setting):
    """`strata record --stack`: as the default, with call stacks."""
    return whole(setting, setting.recorded("stack", [setting.strata, "record", "--stack", "-o", "TRACE", "--"]))


def probe_file(program, root):
    """The file and the function of the program's probe."""
    text = program.first("Probe")
    if not text:
        return None
    if "$" in text:
        text = subprocess.run(["sh", "-c", f"printf '%s' \"{text}\""], stdout=subprocess.PIPE, check=True,
                              env=dict(os.environ, ZOO_ROOT=root)).stdout.decode()
    file, _, function = text.rpartition(":")
    file = file if file.startswith("/") else shutil.which(file)
    return file and os.path.realpath(file), function


def probes(setting):
    """A probe at the begin and one at the end of one of the program's functions."""
    file, function = probe_file(setting.program, setting.root)
    ran = setting.recorded("probes", [setting.strata, "record", "--probe", f"probe_in=uprobe:{file}:{function}", "--probe",
                                      f"probe_out=uretprobe:{file}:{function}", "-o", "TRACE", "--"])
    complaints = everywhere(setting, ran)
    begun = sum(1 for _ in claims.events(setting.strata, ran.trace, "-f", "probe_in"))
    ended = sum(1 for _ in claims.events(setting.strata, ran.trace, "-f", "probe_out"))
    wanted = [int(words[1]) for words in ran.truths if words[0] == "probe"]
    if not begun:
        complaints.append(f"{function} has no record: {ran.talk[-300:]}")
    if wanted and begun != wanted[0]:
        complaints.append(f"{begun} calls of {function} are in the trace; {wanted[0]} in truth")
    if setting.program.first("Returns", "all") == "all" and begun != ended:
        complaints.append(f"{begun} begins and {ended} ends of {function}")
    return complaints


def of_default(setting):
    """The default recording, made now if it was not before."""
    if not hasattr(setting, "default_run"):
        default(setting)
    return setting.default_run


def analyze(setting):
    """Every report of the default recording is there, and what must add up does."""
    trace, complaints = of_default(setting).trace, []
    for name in ("summary", "threads", "syscalls", "files", "locks", "irq", "cpu", "memory", "spans"):
        found = claims.report(setting.strata, name, trace, *([] if name == "summary" else ["--top", "1000000"]))
        if isinstance(found, str) and not re.search(r"exit status 1: .*(no span|no event|nothing)", found):
            complaints.append(found)
        if name == "threads" and not isinstance(found, str):
            for row in found["rows"]:
                parts = sum(row[key] for key in ("running_ns", "runnable_ns", "blocked_ns", "unknown_ns"))
                if parts != row["total_ns"] or row["woken_ns"] + row["preempted_ns"] != row["runnable_ns"]:
                    complaints.append(f"threads: {row['name']} ({row['tid']}): its states do not add up")
                    break
    return complaints


def export(setting):
    """Every export of the default recording has as many records as babeltrace2 reads."""
    trace, complaints = of_default(setting).trace, []
    counted = claims.run(["babeltrace2", "-o", "dummy", trace])
    if counted.returncode:
        complaints.append(f"babeltrace2: {counted.stderr.decode(errors='replace')[-200:]}")
    counted = claims.run(["babeltrace2", trace])
    wanted = counted.stdout.count(b"\n")
    for kind, name in (("sqlite", "t.sqlite"), ("perfetto", "t.perfetto"), ("ctf", "t.ctf")):
        to = os.path.join(os.path.dirname(trace), name)
        said = claims.run([setting.strata, "export", "--to", kind, "-o", to, trace])
        if said.returncode:
            complaints.append(f"export --to {kind}: exit status {said.returncode}: {said.stderr.decode(errors='replace')[-200:]}")
        elif kind == "sqlite":
            import sqlite3
            with sqlite3.connect(to) as database:
                found = database.execute("select count(*) from event").fetchone()[0]
                broken = database.execute("pragma integrity_check").fetchone()[0]
            if found != wanted or broken != "ok":
                complaints.append(f"SQLite has {found} events ({broken}), babeltrace2 reads {wanted}")
        elif kind == "ctf":
            found = claims.run(["babeltrace2", to]).stdout.count(b"\n")
            if found != wanted:
                complaints.append(f"the exported CTF has {found} events, the trace {wanted}")
    for kind in ("json", "csv", "text"):
        said = claims.run([setting.strata, "view", "--format", kind, trace])
        found = said.stdout.count(b"\n") - (kind == "csv")
        if said.returncode or found != wanted:
            complaints.append(f"view --format {kind}: {found} lines (exit status {said.returncode}), babeltrace2 reads {wanted}")
    return complaints


def impossible(program, way, root):
    """Why no program like this one can be recorded in this way; None: it can."""
    if way == "probes":
        found = probe_file(program, root)
        if found is None:
            return "no function of it is named"
        if not found[0]:
            return "the probed file is not here"
    return None


WAYS = {"default": default, "attach": attach, "all": everything, "snapshot": snapshot, "libc": libc, "stack": stack,
        "probes": probes, "analyze": analyze, "export": export}
# What `make test` runs of the programs that are marked so.
QUICK = ("default", "libc", "probes")
