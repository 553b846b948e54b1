"""Traces to be exported, written by hand: of a kernel as LTTng's modules and as perf name its events, of
programs as LTTng-UST and as Strata do. python3 perfetto_traces.py NAME FOLDER [SEED]

There is one event at each time, so that a time tells which event it is.
"""
import os
import random
import sys

from writer import Array, Enum, Event, Header, Int, Real, Str, Struct, Trace, char, u8, u16, u32, u64

OFFSET_S = 1700000000
UUID = "0f0e0d0c-0b0a-0908-0706-050403020100"


def clock(name="monotonic", boot="11111111-2222-3333-4444-555555555555", offset=OFFSET_S):
    return (f'clock {{ name = "{name}"; uuid = "{boot}"; description = "Monotonic Clock"; freq = 1000000000; '
            f"offset_s = {offset}; offset = 0; }};\n")


def environment(**entries):
    texts = [f"{name} = {value};" if isinstance(value, int) else f'{name} = "{value}";' for name, value in entries.items()]
    return "env { " + " ".join(texts) + " };\n"


def stamp(name="monotonic"):
    return f"map = clock.{name}.value;"


def context(name="monotonic", cpu=True):
    members = [("timestamp_begin", u64(extra=stamp(name))), ("timestamp_end", u64(extra=stamp(name))),
               ("content_size", u64()), ("packet_size", u64()), ("packet_seq_num", u64()),
               ("events_discarded", u64())]
    return Struct(*members, *([("cpu_id", u32())] if cpu else []))


def header(name="monotonic"):
    kind = Struct(("id", u16()), ("timestamp", u64(extra=stamp(name))))
    return Header(kind, lambda number, time, before: {"id": number, "timestamp": time})


def i32(**more): return Int(32, signed=True, **more)
def i64(**more): return Int(64, signed=True, **more)


COMM = Array(char(), 16)


def comm(text):
    return text.encode().ljust(16, b"\0")


class Kinds:
    """Event record classes by name, numbered as they come."""

    def __init__(self, **kinds):
        self.events = []
        self.numbers = {}
        for name, payload in kinds.items():
            self.add(name, payload)

    def add(self, name, payload, more=""):
        self.numbers[name] = len(self.events)
        members = [("_" + field, kind) for field, kind in payload.items()]
        self.events.append(Event(name, Struct(*members) if members else None, number=len(self.events), more=more))

    def record(self, time, name, common=None, /, **values):
        """As Stream.packet() wants it."""
        kind = self.events[self.numbers[name]].payload
        text = {"_" + field: value for field, value in values.items()}
        for field, what in kind.members if kind else ():
            if what is COMM:
                text[field] = comm(text[field])
        return time, self.numbers[name], text, common


def kernel_kinds():
    task = {"comm": COMM, "tid": i32(), "prio": i32(), "target_cpu": i32()}
    return Kinds(
        sched_switch={"prev_comm": COMM, "prev_tid": i32(), "prev_prio": i32(), "prev_state": i64(),
                      "next_comm": COMM, "next_tid": i32(), "next_prio": i32()},
        sched_waking=task, sched_wakeup=task, sched_wakeup_new=task,
        irq_handler_entry={"irq": i32(), "name": Str()}, irq_handler_exit={"irq": i32(), "ret": i32()},
        irq_softirq_raise={"vec": u32()}, irq_softirq_entry={"vec": u32()}, irq_softirq_exit={"vec": u32()},
        syscall_entry_openat={"dfd": i32(), "filename": Str(), "flags": i32()}, syscall_exit_openat={"ret": i64()},
        syscall_entry_read={"fd": u32(), "count": u64()},
        syscall_exit_read={"ret": i64(), "fd": u32(), "buf": u64(base=16)},
        syscall_entry_exit_group={"error_code": i32()}, syscall_exit_close={"ret": i64()},
        timer_expire_entry={"timer": u64(base=16)}, timer_expire_exit={"timer": u64(base=16)},
        block_rq_issue={"dev": u32(), "sector": u64()}, block_rq_complete={"dev": u32(), "sector": u64()},
        power_cpu_frequency={"state": u32()},
        sched_process_fork={"parent_comm": COMM, "parent_tid": i32(), "parent_pid": i32(),
                            "child_comm": COMM, "child_tid": i32(), "child_pid": i32()},
        sched_process_exit={"comm": COMM, "tid": i32(), "prio": i32()},
        lttng_statedump_process_state={"tid": i32(), "pid": i32(), "ppid": i32(), "name": COMM})


def switch(kinds, time, prev, following, state=0):
    (prev_comm, prev_tid), (next_comm, next_tid) = prev, following
    return kinds.record(time, "sched_switch", prev_comm=prev_comm, prev_tid=prev_tid, prev_prio=20, prev_state=state,
                        next_comm=next_comm, next_tid=next_tid, next_prio=20)


IDLE = [("swapper/0", 0), ("swapper/1", 0)]
WEB, WORKER, CHILD = ("web", 100), ("worker", 101), ("child", 200)
KERNEL = dict(hostname="box", domain="kernel", sysname="Linux", kernel_release="6.1.0-test", kernel_version="#1 SMP",
              tracer_name="lttng-modules", tracer_major=2, tracer_minor=13)


def kernel(folder, **more):
    """What happens is in perfetto_check.py, kernel()."""
    kinds = kernel_kinds()
    trace = Trace("le", more=environment(**{**KERNEL, **more}) + clock(), uuid=UUID)
    first = trace.stream(kinds.events, header=header(), context=context())
    r = kinds.record
    first.packet([
        r(1000, "lttng_statedump_process_state", tid=100, pid=100, ppid=1, name="web"),
        r(1010, "lttng_statedump_process_state", tid=101, pid=100, ppid=1, name="worker"),
        switch(kinds, 1100, IDLE[0], WEB),
        r(1110, "syscall_entry_openat", dfd=-100, filename="/etc/hosts", flags=0),
        r(1120, "irq_handler_entry", irq=24, name="eth0"), r(1130, "irq_handler_exit", irq=24, ret=1),
        r(1140, "irq_softirq_raise", vec=3), r(1150, "irq_softirq_entry", vec=3),
        r(1160, "irq_softirq_exit", vec=3),
        r(1170, "block_rq_issue", dev=8, sector=1), r(1180, "block_rq_issue", dev=8, sector=2),
        switch(kinds, 1200, WEB, IDLE[0], 1),
        r(1210, "timer_expire_entry", timer=0xffff0001), r(1220, "timer_expire_exit", timer=0xffff0001),
        r(1230, "power_cpu_frequency", state=1200000),
        switch(kinds, 1300, IDLE[0], WORKER),
        r(1310, "syscall_exit_close", ret=0),
        r(1320, "syscall_entry_read", fd=3, count=4096)], cpu_id=0)
    first.packet([
        r(2000, "syscall_exit_read", ret=5, fd=3, buf=0x7f0000001000),
        r(2010, "sched_process_fork", parent_comm="worker", parent_tid=101, parent_pid=100, child_comm="child",
          child_tid=200, child_pid=200),
        r(2020, "sched_wakeup_new", comm="child", tid=200, prio=20, target_cpu=1),
        r(2030, "syscall_entry_read", fd=4, count=1)], cpu_id=0)
    second = trace.another(first, 1)
    second.packet([
        r(1400, "sched_waking", comm="web", tid=100, prio=20, target_cpu=1),
        r(1410, "sched_wakeup", comm="web", tid=100, prio=20, target_cpu=1),
        switch(kinds, 1420, IDLE[1], WEB),
        r(1430, "block_rq_complete", dev=8, sector=2), r(1440, "block_rq_complete", dev=8, sector=1),
        r(1450, "syscall_exit_openat", ret=3),
        r(1460, "syscall_entry_read", fd=3, count=10),
        # Its exit is not there: a thread is in one system call at a time.
        r(1470, "syscall_entry_openat", dfd=-100, filename="b", flags=0),
        r(1480, "syscall_exit_openat", ret=-2)], cpu_id=1)
    second.packet([
        # Who runs is not known until somebody is switched to.
        r(2100, "syscall_exit_openat", ret=9),
        r(2105, "power_cpu_frequency", state=2400000),
        switch(kinds, 2110, IDLE[1], CHILD),
        r(2120, "syscall_entry_exit_group", error_code=0),
        r(2130, "sched_process_exit", comm="child", tid=200, prio=20),
        switch(kinds, 2140, CHILD, IDLE[1], 16)], cpu_id=1, discarded=7, begin=2050)
    trace.write(folder)


def hidden(folder):
    """A kernel that hides thread 300: others give it CPUs, and none of its records is there."""
    kinds = kernel_kinds()
    more = environment(**KERNEL, strata_switches="all") + clock()
    trace = Trace("le", more=more, uuid="5" + UUID[1:])
    first = trace.stream(kinds.events, header=header(), context=context(), common=Struct(("_tid", i32())))
    ghost = ("ghost", 300)

    def r(time, tid, name, /, **values): return kinds.record(time, name, {"_tid": tid}, **values)

    def s(time, prev, following, state=0):
        time, number, values, _ = switch(kinds, time, prev, following, state)
        return time, number, values, {"_tid": prev[1]}
    first.packet([
        s(1100, IDLE[0], WEB),
        s(1120, WEB, ghost, 1),
        r(1130, 0, "irq_handler_entry", irq=24, name="eth0"), r(1140, 0, "irq_handler_exit", irq=24, ret=1),
        s(1200, IDLE[0], WEB),
        s(1210, WEB, ghost, 1),
        r(1230, 101, "syscall_entry_read", fd=3, count=1),
        s(1240, WORKER, WEB, 1),
        s(1250, WEB, ghost, 1)], cpu_id=0)
    second = trace.another(first, 1)
    second.packet([
        s(1105, IDLE[1], WORKER),
        s(1110, WORKER, IDLE[1], 1),
        r(1225, 0, "sched_waking", comm="worker", tid=101, prio=20, target_cpu=0)], cpu_id=1)
    trace.write(folder)


LEVEL = Enum(u8(), [("LOW", 0), ("HIGH", 1, 9)])


def user_kinds():
    kinds = Kinds()
    info = "loglevel = 6;"
    for name, payload in {
            "web:request_begin": {"id": u32(), "path": Str()}, "web:request_end": {"id": u32(), "status": i32()},
            "web:parse_begin": {}, "web:parse_end": {}, "web:job_sent": {"id": u64()},
            "web:job_received": {"id": u64(), "bytes": u64()},
            "web:queue": {"length": u32(), "load": Real(), "big": u64()},
            "web:mixed": {"level": LEVEL, "numbers": Array(u16(), 3), "text": Array(char(), 8), "neg": i64(),
                          "address": u64(base=16), "point": Struct(("x", i32()), ("y", Struct(("z", u8())))),
                          "empty": Str()},
            "web:late_start": {}, "web:note": {"text": Str()}}.items():
        kinds.add(name, payload, info if name != "web:note" else "loglevel = 3;")
    return kinds


def common(tid, name, pid=100):
    return {"_vpid": pid, "_vtid": tid, "_procname": comm(name)}


def user(folder, hostname="box", uuid="1" + UUID[1:], **more):
    """A program, its threads named in each record, at the times of kernel()."""
    kinds = user_kinds()
    env = environment(hostname=hostname, domain="ust", tracer_name="lttng-ust", tracer_major=2, tracer_minor=13)
    trace = Trace("le", more=env + clock(**more), uuid=uuid)
    who = Struct(("_vpid", i32()), ("_vtid", i32()), ("_procname", COMM))
    stream = trace.stream(kinds.events, header=header(), context=context(), common=who)
    web, worker = common(100, "web"), common(101, "worker")

    def r(time, name, common=web, /, **values): return kinds.record(time, name, common, **values)
    stream.packet([
        r(1105, "web:request_begin", id=7, path="/ü\n"),
        r(1106, "web:job_sent", id=1), r(1107, "web:job_sent", id=2),
        r(1108, "web:parse_begin"),
        r(1455, "web:parse_end"),
        r(1456, "web:job_received", worker, id=1, bytes=10),
        r(1457, "web:job_received", worker, id=2, bytes=20),
        r(1458, "web:job_received", worker, id=3, bytes=30),
        r(1485, "web:queue", length=5, load=0.5, big=2 ** 64 - 1),
        r(1486, "web:queue", worker, length=6, load=-1e300, big=3),
        r(1487, "web:mixed", level=1, numbers=[1, 2, 3], text=b"abc\0defg", neg=-5, address=0xdead,
          point={"x": -1, "y": {"z": 255}}, empty=""),
        r(1488, "web:mixed", level=200, numbers=[0, 0, 65535], text=b"12345678", neg=2 ** 63 - 1, address=0,
          point={"x": 1, "y": {"z": 0}}, empty="x"),
        r(1490, "web:request_end", id=7, status=200),
        r(1491, "web:late_start"),
        r(1492, "web:note", text="a \"quoted\" text"),
        r(1493, "web:request_begin", id=8, path="/never"),
        r(1494, "web:parse_begin"),
        r(1495, "web:parse_end"),
        r(1496, "web:request_begin", worker, id=9, path="/outer"),
        r(1497, "web:parse_begin", worker),
        # What is inside is not ended.
        r(1498, "web:request_end", worker, id=9, status=500),
        r(1499, "web:parse_end", worker)], cpu_id=1)
    trace.write(folder)


def process(folder, pid=300):
    """As Strata records a program: its threads are not told apart, overlap, and move between CPUs."""
    kinds = Kinds()
    for name in "app:work_begin", "app:work_end":
        kinds.add(name, {"number": u32()}, "loglevel = 5;")
    env = environment(hostname="box", domain="ust", tracer_name="lttng-ust", tracer_major=2, tracer_minor=13, vpid=pid,
                      procname="app")
    trace = Trace("le", more=env + clock(), uuid="2" + UUID[1:])
    streams = []
    for cpu, records in enumerate((
            [(10, "begin", 1), (30, "begin", 3), (50, "end", 1), (70, "end", 3)],
            [(20, "begin", 2), (60, "end", 2), (80, "end", 4), (90, "begin", 5)])):
        stream = trace.another(streams[0], cpu) if streams else trace.stream(kinds.events, header=header(), context=context())
        streams.append(stream)
        stream.packet([kinds.record(3000 + time, f"app:work_{what}", number=number) for time, what, number in records],
                      cpu_id=cpu)
    streams[1].packet([kinds.record(3200, "app:work_begin", number=6)], cpu_id=1, discarded=12, begin=3150)
    trace.write(folder)


def perf(folder):
    """The spelling of perf and trace-cmd: groups in front of the names, threads in each record, no clock's offset."""
    own = {"perf_tid": i32(), "perf_pid": i32()}
    task = {**own, "comm": COMM, "pid": i32(), "prio": i32(), "target_cpu": i32()}
    kinds = Kinds(**{
        "sched:sched_switch": {**own, "prev_comm": COMM, "prev_pid": i32(), "prev_prio": i32(), "prev_state": i64(),
                               "next_comm": COMM, "next_pid": i32(), "next_prio": i32()},
        "sched:sched_wakeup": task, "irq:softirq_entry": {**own, "vec": u32()}, "irq:softirq_exit": {**own, "vec": u32()},
        "raw_syscalls:sys_enter": {**own, "id": i64()}, "raw_syscalls:sys_exit": {**own, "id": i64(), "ret": i64()},
        "syscalls:sys_enter_openat": {**own, "dfd": i64()}, "syscalls:sys_exit_openat": {**own, "ret": i64()}})
    text = environment(hostname="box", tracer_name="perf") + 'clock { name = "perf_clock"; freq = 1000000000; };\n'
    trace = Trace("le", more=text, uuid="3" + UUID[1:])
    stream = trace.stream(kinds.events, header=header("perf_clock"), context=context("perf_clock"))
    r = kinds.record
    stream.packet([
        r(500, "sched:sched_switch", perf_tid=0, perf_pid=0, prev_comm="swapper/2", prev_pid=0, prev_prio=120, prev_state=0,
          next_comm="ls", next_pid=41, next_prio=120),
        r(510, "raw_syscalls:sys_enter", perf_tid=41, perf_pid=40, id=257),
        r(520, "raw_syscalls:sys_exit", perf_tid=41, perf_pid=40, id=257, ret=3),
        r(530, "syscalls:sys_enter_openat", perf_tid=41, perf_pid=40, dfd=-100),
        r(540, "irq:softirq_entry", perf_tid=41, perf_pid=40, vec=1),
        r(550, "irq:softirq_exit", perf_tid=41, perf_pid=40, vec=1),
        r(560, "sched:sched_wakeup", perf_tid=41, perf_pid=40, comm="cat", pid=50, prio=120, target_cpu=2),
        r(570, "syscalls:sys_exit_openat", perf_tid=41, perf_pid=40, ret=4),
        r(580, "sched:sched_switch", perf_tid=41, perf_pid=40, prev_comm="ls", prev_pid=41, prev_prio=120, prev_state=1,
          next_comm="swapper/2", next_pid=0, next_prio=120)], cpu_id=2)
    trace.write(folder)


def two_machines(folder):
    """The same ids on two machines."""
    user(folder + "/one")
    user(folder + "/two", hostname="other", uuid="4" + UUID[1:], boot="99999999-2222-3333-4444-555555555555")
    kernel(folder + "/kernel", hostname="other")


def rand(folder, seed):
    """Threads at random on 3 CPUs, in system calls and in pairs; some records are not there.

    No text is empty: babeltrace2 2.0.4 may show an older record's text for it.
    """
    rng = random.Random(int(seed))
    kinds = kernel_kinds()
    trace = Trace("le", more=environment(**KERNEL) + clock(), uuid=UUID)
    threads = [(f"t{tid}", tid) for tid in range(1000, 1012)]
    cpus = [[] for _ in range(3)]
    running = [("swapper", 0)] * 3
    waiting = set(threads)
    inside = {}
    time = 10000
    for _ in range(1500):
        time += rng.randrange(1, 50)
        cpu = rng.randrange(3)
        current = running[cpu]
        what = rng.random()
        if what < 0.4 or not current[1]:
            following = rng.choice(sorted(waiting) + [("swapper", 0)])
            waiting.discard(following)
            if current[1]:
                waiting.add(current)
            record = switch(kinds, time, current, following, rng.choice((0, 1, 2)))
            running[cpu] = following
        elif current in inside:
            name = inside.pop(current)
            values = {"openat": {"ret": rng.randrange(-40, 40)}, "read": {"ret": 1, "fd": 3, "buf": 2 ** 63 + 1}}[name]
            record = kinds.record(time, f"syscall_exit_{name}", **values)
        elif what < 0.9:
            name = inside[current] = rng.choice(("openat", "read"))
            values = {"openat": {"dfd": -100, "filename": "f" * rng.randrange(1, 20), "flags": 0},
                      "read": {"fd": 3, "count": rng.randrange(2 ** 64)}}[name]
            record = kinds.record(time, f"syscall_entry_{name}", **values)
        else:
            record = kinds.record(time, rng.choice(("timer_expire_entry", "timer_expire_exit")), timer=rng.randrange(2 ** 64))
        # The tracer discards one in twenty.
        cpus[cpu].append((record, rng.random() < 0.05))
    first = None
    for cpu, records in enumerate(cpus):
        stream = trace.another(first, cpu) if first else trace.stream(kinds.events, header=header(), context=context())
        first = first or stream
        discarded = 0
        for at in range(0, len(records), 100):
            part = records[at:at + 100]
            discarded += sum(gone for _, gone in part)
            stream.packet([record for record, gone in part if not gone], cpu_id=cpu, discarded=discarded,
                          begin=part[0][0][0], end=part[-1][0][0])
    trace.write(folder)


def copies(folder, of, number):
    """A trace many times, each with a UUID of its own."""
    for copy in range(int(number)):
        uuid = f"{copy:08x}" + UUID[8:]
        os.makedirs(f"{folder}/{copy}")
        for name in os.listdir(of):
            with open(f"{of}/{name}", "rb") as file:
                data = file.read()
            for old, new in ((UUID, uuid), (UUID.replace("-", ""), uuid.replace("-", ""))):
                data = data.replace(*map(str.encode if name == "metadata" else plain, (old, new)))
            with open(f"{folder}/{copy}/{name}", "wb") as file:
                file.write(data)


def plain(text):
    """A UUID as it is in packets."""
    return bytes.fromhex(text.replace("-", ""))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
