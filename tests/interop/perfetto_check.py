"""Compares a Perfetto export with its trace. python3 perfetto_check.py NAME EXPORT TRACE

Every event of babeltrace2's output must be in the export, once, at its time, with its fields; and nothing else.
What each trace of perfetto_traces.py must look like is in the function of its name.
"""
import math
import re
import subprocess
import sys

from perfetto_decode import BEGIN, BOOTTIME, COUNTER, INSTANT, MONOTONIC, REALTIME, UNKNOWN, Model, decode

OFFSET = 1700000000 * 10 ** 9
LINE = re.compile(r"\[(\d+)\] (?:\S+ )?(\S+): (\{.*\})$")
NUMBER = re.compile(r"[-+]?(?:0x[0-9A-F]+|0b[01]+|nan|inf|[0-9.]+(?:e[-+]?[0-9]+)?)", re.I)
# Those that this test has pairs made of.
NAMED = {("web:job_sent", "web:job_received"), ("block_rq_issue", "block_rq_complete")}
SCHED = {"sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "irq_handler_entry", "irq_handler_exit",
         "softirq_entry", "softirq_exit", "softirq_raise"}


class Bits(int):
    """A number in base 16, 8 or 2: babeltrace2 shows a negative one's bits."""

    def __new__(cls, text):
        base, digits = (16, text[2:]) if text[1] in "xX" else (2, text[2:]) if text[1] == "b" else (8, text[1:])
        made = super().__new__(cls, digits, base)
        made.around = base ** len(digits)
        return made


class Text:
    """babeltrace2's values: { a = 1, b = "x", c = ( "LABEL" : container = 2 ), d = [ [0] = 1 ] }."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, *tokens):
        """Whether one of them is next; then it is behind."""
        while self.text[self.at:self.at + 1] == " ":
            self.at += 1
        for token in tokens:
            if self.text.startswith(token, self.at):
                self.at += len(token)
                return True
        return False

    def string(self):
        out = ""
        while self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                self.at += 1
                out += {"n": "\n", "t": "\t"}.get(self.text[self.at], self.text[self.at])
            else:
                out += self.text[self.at]
            self.at += 1
        self.at += 1
        return out

    def value(self):
        if self.take('"'):
            return self.string()
        if self.take("{"):
            return self.members("}", self.name)
        if self.take("["):
            return list(self.members("]", self.index).values())
        if self.take("("):
            labels = []
            while self.take('"'):
                labels.append(self.string())
                self.take(",")
            assert labels or self.take("<unknown>"), self.text[self.at:]
            assert self.take(": container =")
            number = self.value()
            assert self.take(")")
            return " | ".join(labels) + f" ({number})" if labels else number
        found = NUMBER.match(self.text, self.at)
        assert found, self.text[self.at:]
        self.at = found.end()
        text = found.group()
        if re.match("0[xXb0-7]", text):
            return Bits(text)
        return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)

    def name(self):
        found = re.compile(r"\w+").match(self.text, self.at)
        self.at = found.end()
        return found.group()

    def index(self):
        assert self.take("[")
        name = self.name()
        assert self.take("]")
        return name

    def members(self, end, name):
        out = {}
        while not self.take(end):
            self.take(",")
            self.take("")
            key = name()
            assert self.take("=")
            out[key] = self.value()
        return out


class Event:
    """An event as babeltrace2 shows it: its parts, in order; the first is the packet's context."""

    def __init__(self, line):
        found = LINE.match(line)
        assert found, f"no line of a trace: {line!r}"
        self.time, self.name = int(found.group(1)), found.group(2)
        text, self.parts = Text(found.group(3)), []
        while text.take("{"):
            self.parts.append(text.members("}", text.name))
            text.take(",")
        self.cpu = self.parts[0].get("cpu_id")
        self.short = self.name.split(":")[-1].removeprefix("irq_").replace("handler", "irq_handler")

    def fields(self):
        """All but the packet's context."""
        return {name: value for part in self.parts[1:] for name, value in part.items()}


def babeltrace2(trace):
    """All events of a trace."""
    done = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", "--color", "never", trace], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [Event(line) for line in done.stdout.decode("utf-8", "replace").split("\n") if line]


def same(one, other):
    """Values, as far as six digits of a number go."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, str) and isinstance(other, str) and "… (" in one:
        return other.startswith(one[:one.rindex("… (")])
    if isinstance(one, float) or isinstance(other, float):
        return isinstance(one, (int, float)) and isinstance(other, (int, float)) and (
            math.isclose(one, other, rel_tol=1e-5) or math.isnan(one) and math.isnan(other))
    if isinstance(one, Bits) or isinstance(other, Bits):
        bits, number = (one, other) if isinstance(one, Bits) else (other, one)
        return isinstance(number, int) and (number == bits or number < 0 and number % bits.around == bits)
    return type(one) is type(other) and one == other


def without(args, *names):
    return {name: value for name, value in args.items() if name not in names}


def flat(args):
    """What an end has in common with its begin is apart."""
    return {**without(args, "end"), **args.get("end", {})}


def compare(model, trace, offset=0):
    """Every event once, and nothing else."""
    events = babeltrace2(trace)
    assert events, f"{trace}: nothing in it"
    alone, ends, sched = {}, {}, {}
    gaps = {id(event) for _, event in model.gaps}
    gap_times = [(time, event["name"]) for time, event in model.gaps]
    for shown in model.shown:
        if shown.kind == COUNTER:
            continue
        if shown.kind == INSTANT and (shown.begin, shown.name) in gap_times:
            gap_times.remove((shown.begin, shown.name))
            continue
        alone.setdefault(shown.begin, []).append(shown)
        if shown.kind == BEGIN and "unfinished" not in shown.end_args:
            ends.setdefault(shown.end, []).append(shown)
    assert not gap_times and len(gaps) == len(model.gaps)
    for event in model.sched:
        sched.setdefault(event["timestamp"], []).append(event)
    for event in events:
        time = event.time + offset
        assert take(sched, time, lambda one: is_sched(event, one)) or \
            take(alone, time, lambda one: is_alone(event, one)) or \
            take(ends, time, lambda one: is_end(event, one)), \
            f"{event.name} at {time} {event.parts}: found {sched.get(time)} {alone.get(time)} {ends.get(time)}"
    left = [one for kind in (alone, ends, sched) for ones in kind.values() for one in ones]
    assert not left, f"not in the trace: {left}"
    return events


def take(found, time, wanted):
    """Remove one that is wanted."""
    for one in found.get(time, []):
        if wanted(one):
            found[time].remove(one)
            return True
    return False


def is_alone(event, shown):
    args = without(shown.args, "cpu", "note", "values not exported")
    # What nobody can look at is cut, and that is said.
    omitted = shown.args.get("values not exported", 0)
    fields = event.fields()
    for name, value in fields.items() if omitted else ():
        if isinstance(value, list) and len(value) > len(args[name]):
            omitted -= len(value) - len(args[name])
            fields[name] = value[:len(args[name])]
    assert omitted == 0, f"{omitted} values of {event.name} are not exported, and are not long arrays"
    name = event.name == shown.name if shown.kind == INSTANT else related(event, shown)
    return name and same(args, fields) and shown.args.get("cpu") == event.cpu


def is_end(event, shown):
    # Its own fields only: without any, the last part is a context.
    payload = event.parts[-1] if len(event.parts) > 1 else {}
    return related(event, shown) and (same(flat(shown.end_args), payload) or not shown.end_args)


def related(event, shown):
    """A slice has the name that is common to both; those of --pair have the begin's."""
    return shown.name in event.name or shown.name == f"syscall_{shown.args.get('id')}" or (shown.name, event.name) in NAMED


def is_sched(event, found):
    if event.short not in SCHED or event.short not in found or event.cpu != found["cpu"]:
        return False
    lttng = "tid" in event.fields() or "prev_tid" in event.fields()
    for name, value in found[event.short].items():
        there = event.fields().get(name if not lttng else name.replace("pid", "tid"))
        if lttng and name.endswith("prio"):
            there += 100
        if value != there:
            return False
    return True


def span(model, name):
    """Begin, end and track of all slices of a name, in the order of time."""
    return [(one.begin, one.end, one.track) for one in model.of(BEGIN, name)]


def unfinished(model):
    return {(one.name, one.begin): one.end_args["unfinished"] for one in model.of(BEGIN) if "unfinished" in one.end_args}


def notes(model, note):
    return [(one.name, one.begin) for one in model.of(INSTANT) if one.args.get("note") == note]


def clocks(model):
    assert len(model.snapshots) == 1
    return {one["clock_id"]: one["timestamp"] for one in model.snapshots[0]["clocks"]}


NO_BEGIN, NO_END = "its begin is not in the trace", "its end is not in the trace"
# Of a thread of which no record says why it has left a CPU.
NO_STATE = 0x8001
CPU0, CPU1 = ("CPUs", "CPU 0"), ("CPUs", "CPU 1")


def kernel(model, trace):
    compare(model, trace)
    # One machine's CLOCK_MONOTONIC, what readers take for CLOCK_BOOTTIME, and the time of day.
    assert clocks(model) == {MONOTONIC: 1000, BOOTTIME: 1000, REALTIME: OFFSET + 1000}
    web, worker, child = ("thread", 100, 100), ("thread", 100, 101), ("thread", 200, 200)
    # Through a switch away from CPU 0 and back on CPU 1; then one whose end is not there.
    assert span(model, "openat") == [(1110, 1450, web), (1470, 1480, web)]
    assert span(model, "read") == [(1320, 2000, worker), (1460, 1470, web), (2030, 2140, worker)]
    assert unfinished(model) == {("read", 1460): NO_END, ("read", 2030): NO_END, ("exit_group", 2120): "the thread ended"}
    assert span(model, "exit_group") == [(2120, 2130, child)]
    assert notes(model, NO_BEGIN) == [("syscall_exit_close", 1310), ("syscall_exit_openat", 2100)]
    # While a CPU is idle, and while nobody knows what it does.
    assert span(model, "timer_expire") == [(1210, 1220, CPU0)]
    assert [one.track for one in model.of(INSTANT, "syscall_exit_openat")] == [CPU1]
    assert [one.track for one in model.of(INSTANT, "block_rq_complete")] == [web, web]
    (time, gap), = model.gaps
    assert gap["name"] == "7 event records discarded" and gap["args"]["count"] == 7
    assert model.place(gap["track_uuid"]) == CPU1 and 1480 <= time == gap["args"]["from"] <= gap["args"]["to"]
    (gap,) = model.bundle_gaps
    assert gap["cpu"] == 1 and gap["event"][0]["timestamp"] == 2110
    assert [event["pid"] for event in model.sched if "irq_handler_entry" in event] == [100]
    assert model.system["utsname"] == {"sysname": "Linux", "release": "6.1.0-test", "version": "#1 SMP"}
    threads = {(one["tid"], one["tgid"], one["name"]) for tree in model.trees for one in tree["threads"]}
    assert threads == {(100, 100, "web"), (101, 100, "worker"), (200, 200, "child"), (UNKNOWN + 2, UNKNOWN, "unknown")}
    # From where records are discarded up to the switch that says who had the CPU.
    assert model.unknown_of(1) == [(time, 100, NO_STATE, None), (2110, None, 1, 0)] and not model.unknown_of(0)
    assert {tuple(one.categories) for one in model.of(BEGIN, "openat")} == {("syscall",)}
    assert {tuple(one.categories) for one in model.of(INSTANT, "power_cpu_frequency")} == {("kernel",)}


def hidden(model, trace):
    compare(model, trace)
    # The CPU is idle from 1130 on, and 101 has wanted the other one since 1225; at the end it is 300's again.
    assert model.unknown_of(0) == [(1120, 300, NO_STATE, None), (1130, None, 1, 0), (1210, 300, NO_STATE, None),
                                   (1225, None, 1, 101), (1225, 101, NO_STATE, None), (1230, None, 1, 101),
                                   (1250, 300, NO_STATE, None)]
    assert model.unknown_of(1) == []
    assert [one["threads"] for one in model.trees] == [[{"tid": UNKNOWN + 1, "name": "unknown", "tgid": UNKNOWN}]]


def kernel_options(model, trace):
    """--pair 'block_rq_issue=block_rq_complete:sector' --counter power_cpu_frequency.state"""
    compare(model, trace)
    # They overlap: each has a track, of nobody's.
    assert sorted(span(model, "block_rq_issue")) == [(1170, 1440, ("block_rq_issue",)), (1180, 1430, ("block_rq_issue",))]
    counters = [(one.begin, one.value, one.track) for one in model.of(COUNTER)]
    name = "power_cpu_frequency.state"
    assert counters == [(1230, 1200000, CPU0 + (name,)), (2105, 2400000, CPU1 + (name,))]


def user(model, trace):
    compare(model, trace)
    web, worker = ("thread", 100, 100), ("thread", 100, 101)
    assert span(model, "web:request") == [(1105, 1490, web), (1493, 1499, web), (1496, 1498, worker)]
    assert span(model, "web:parse") == [(1108, 1455, web), (1494, 1495, web), (1497, 1498, worker)]
    assert unfinished(model) == {("web:request", 1493): NO_END, ("web:parse", 1497): NO_END}
    assert notes(model, NO_BEGIN) == [("web:parse_end", 1499)]
    assert not model.of(BEGIN, "web:late") and len(model.of(INSTANT, "web:late_start")) == 1
    names = {model.place(uuid): track for uuid, track in model.tracks.items()}
    assert names[web]["thread"]["thread_name"] == "web" and names[worker]["thread"]["thread_name"] == "worker"
    assert names["process", 100]["process"]["process_name"] == "web"
    assert model.of(INSTANT, "web:note")[0].categories == ["web", "err"]
    assert {tuple(one.categories) for one in model.of(BEGIN)} == {("web", "info")}


def user_options(model, trace):
    """--pair 'web:job_sent=web:job_received:id' --counter 'web:queue.*' --no-pairs"""
    compare(model, trace)
    lane = ("process", 100, "web:job_sent")
    assert sorted(span(model, "web:job_sent")) == [(1106, 1456, lane), (1107, 1457, lane)]
    assert notes(model, NO_BEGIN) == [("web:job_received", 1458)]
    assert set(model.names(BEGIN)) == {"web:job_sent"}
    found = {}
    for one in model.of(COUNTER):
        assert one.track == ("process", 100, one.name)
        found.setdefault(one.name, []).append((one.begin, one.value))
    assert found == {"web:queue.length": [(1485, 5), (1486, 6)], "web:queue.load": [(1485, 0.5), (1486, -1e300)],
                     "web:queue.big": [(1485, 2.0 ** 64), (1486, 3)]}


def process(model, trace):
    compare(model, trace)
    lane = ("process", 300, "app:work")
    assert sorted(span(model, "app:work")) == [(3010, 3070, lane), (3020, 3060, lane), (3030, 3050, lane), (3090, 3200, lane),
                                               (3200, 3200, lane)]
    assert notes(model, NO_BEGIN) == [("app:work_end", 3080)]
    (_, gap), = model.gaps
    assert gap["name"] == "12 event records discarded" and model.place(gap["track_uuid"]) == ("process", 300)


def process_options(model, trace):
    """--pair 'app:work_begin=app:work_end:number'"""
    compare(model, trace)
    found = {one.args["number"]: (one.begin, one.end) for one in model.of(BEGIN, "app:work")}
    assert found == {1: (3010, 3050), 2: (3020, 3060), 3: (3030, 3070), 5: (3090, 3200), 6: (3200, 3200)}, found


def perf(model, trace):
    compare(model, trace)
    thread = ("thread", 40, 41)
    assert span(model, "syscall_257") == [(510, 520, thread)] and span(model, "openat") == [(530, 570, thread)]
    assert len(model.sched) == 5 and not unfinished(model)
    assert clocks(model) == {REALTIME: 500, BOOTTIME: 500}


def two_machines(model, trace):
    # Process 100 of both; CPUs of the second one behind 512.
    assert clocks(model) == {REALTIME: OFFSET + 1000, BOOTTIME: OFFSET + 1000}
    pids = {track["process"]["process_name"]: track["process"]["pid"] for track in model.tracks.values()
            if "process_name" in track.get("process", {})}
    assert len(pids) >= 2 and len(set(pids.values())) == len(pids), pids
    assert 100 in pids.values() and (1 << 23) + 100 in pids.values(), pids
    # Which one is the first is no matter; it has the kernel's trace or not.
    assert {event["cpu"] for event in model.sched} in ({0, 1}, {512, 513})
    count = sum(len(babeltrace2(f"{trace}/{part}")) for part in ("one", "two", "kernel"))
    gaps = len(model.gaps)
    shown = [one for one in model.shown if one.kind != COUNTER]
    ended = [one for one in model.of(BEGIN) if "unfinished" not in one.end_args]
    assert count == len(shown) - gaps + len(ended) + len(model.sched), count


def rand(model, trace):
    events = compare(model, trace)
    # A thread's slices, as its own records say; a record that is absent may end or begin none.
    assert sum("switch" in event.name for event in events) == len(model.sched)
    slices = [one for one in model.of(BEGIN) if one.name in ("openat", "read")]
    assert len(slices) > 100 and {one.track[0] for one in slices} <= {"thread", "CPUs"}


def any_trace(model, trace):
    compare(model, trace)


if __name__ == "__main__":
    MODEL = Model(decode(sys.argv[2]))
    globals()[sys.argv[1]](MODEL, sys.argv[3])
