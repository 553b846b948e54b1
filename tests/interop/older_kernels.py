"""Traces as LTTng 2.0 to 2.3 wrote them of kernels before 4.3, with what the reports have to say of them.

Usage: older_kernels.py STRATA FOLDER. Calls begin with `sys_open` and end with `exit_syscall`; there is no
`sched_waking`; `sched_wakeup` has a field `success`, which is 0 if nobody was woken; a thread exits before its last
switch, whose state is 64.
"""

import json
import os
import struct
import subprocess
import sys

import perfetto_decode

STRATA, FOLDER = sys.argv[1:3]

TSDL = """/* CTF 1.8 */
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "kernel"; hostname = "h"; sysname = "Linux"; kernel_release = "%s"; tracer_name = "lttng-modules";
  tracer_major = 2; tracer_minor = 1; };
clock { name = monotonic; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := ts;
stream {
  packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size; u32 cpu_id; };
  event.header := struct { u16 id; ts timestamp; };
};
event { name = "sched_switch"; id = 0; fields := struct { string prev_comm; i32 prev_tid; i32 prev_prio; i64 prev_state;
  string next_comm; i32 next_tid; i32 next_prio; }; };
event { name = "sched_wakeup"; id = 1; fields := struct { string comm; i32 tid; i32 prio; i32 success; i32 target_cpu; }; };
event { name = "sys_open"; id = 2; fields := struct { string filename; i32 flags; i32 mode; }; };
event { name = "sys_read"; id = 3; fields := struct { u32 fd; u64 buf; u64 count; }; };
event { name = "sys_write"; id = 4; fields := struct { u32 fd; u64 buf; u64 count; }; };
event { name = "sys_nanosleep"; id = 5; fields := struct { u64 rqtp; u64 rmtp; }; };
event { name = "exit_syscall"; id = 6; fields := struct { i64 ret; }; };
event { name = "sched_process_exit"; id = 7; fields := struct { string comm; i32 tid; i32 prio; }; };
event { name = "sys_exit_group"; id = 8; fields := struct { i32 error_code; }; };
event { name = "irq_handler_entry"; id = 9; fields := struct { i32 irq; string name; }; };
event { name = "irq_handler_exit"; id = 10; fields := struct { i32 irq; i32 ret; }; };
event { name = "sys_exit"; id = 11; fields := struct { i32 error_code; }; };
event { name = "compat_sys_close"; id = 12; fields := struct { u32 fd; }; };
event { name = "sched_process_fork"; id = 13; fields := struct { string parent_comm; i32 parent_tid; string child_comm; i32 child_tid; }; };
"""
US = 1000


def name(tid):
    return {0: "swapper/0"}.get(tid, f"t{tid}").encode() + b"\0"


class Cpu:
    """The records of a CPU."""

    def __init__(self, number):
        self.number, self.data, self.times = number, [], []

    def put(self, time, event, payload):
        self.times.append(time * US)
        self.data.append(struct.pack("<HQ", event, time * US) + payload)

    def switch(self, time, before, state, after):
        self.put(time, 0, name(before) + struct.pack("<iiq", before, 20, state) + name(after) + struct.pack("<ii", after, 20))

    def wakeup(self, time, tid, success=1):
        self.put(time, 1, name(tid) + struct.pack("<iiii", tid, 20, success, self.number))

    def open(self, time, path):
        self.put(time, 2, path.encode() + b"\0" + struct.pack("<ii", 0, 0))

    def call(self, time, event, descriptor):
        self.put(time, event, struct.pack("<IQQ", descriptor, 0x1000, 10))

    def nanosleep(self, time):
        self.put(time, 5, struct.pack("<QQ", 1, 0))

    def ret(self, time, value):
        self.put(time, 6, struct.pack("<q", value))

    def exits(self, time, tid):
        self.put(time, 7, name(tid) + struct.pack("<ii", tid, 20))


def write(folder, release, cpus):
    os.makedirs(folder)
    with open(f"{folder}/metadata", "w", encoding="utf-8") as file:
        file.write(TSDL % release)
    for cpu in cpus:
        content = b"".join(cpu.data)
        size = 8 * (len(content) + 36)
        with open(f"{folder}/channel0_{cpu.number}", "wb") as file:
            file.write(struct.pack("<QQQQI", cpu.times[0], cpu.times[-1], size, size, cpu.number) + content)
    return folder


def workload(folder, release):
    """Thread 10 reads a file, sleeps until its timer, reads what 20 writes, and ends. 20 runs on another CPU."""
    one, two = Cpu(0), Cpu(1)
    one.switch(0, 0, 0, 10)
    one.open(10, "/etc/first")
    one.ret(30, 3)
    one.call(40, 3, 3)
    one.ret(60, 10)
    # A sleep of 300 us, which nobody ends: a wakeup in between meets a sleeper of another kind, and wakes nobody.
    one.nanosleep(100)
    one.switch(110, 10, 1, 0)
    two.switch(5, 0, 0, 20)
    two.wakeup(200, 10, 0)
    one.put(400, 9, struct.pack("<i", 0) + b"timer\0")
    one.wakeup(405, 10)
    one.put(410, 10, struct.pack("<ii", 0, 1))
    one.switch(420, 0, 0, 10)
    one.ret(430, 0)
    # A read of what 20 writes 500 us later, on the other CPU.
    one.call(500, 3, 4)
    one.switch(510, 10, 1, 0)
    two.call(1000, 4, 5)
    two.wakeup(1010, 10)
    two.ret(1020, 10)
    one.switch(1030, 0, 0, 10)
    one.ret(1040, 10)
    # Taken its CPU by 30, which was forked: it ends by exit(), and 10 by exit_group().
    two.put(1050, 13, name(20) + struct.pack("<i", 20) + name(30) + struct.pack("<i", 30))
    two.switch(1060, 20, 1, 30)
    two.put(1070, 6, struct.pack("<q", 0))
    two.put(1100, 11, struct.pack("<i", 0))
    two.exits(1110, 30)
    two.switch(1120, 30, 64, 0)
    one.put(1200, 8, struct.pack("<i", 0))
    one.exits(1210, 10)
    one.switch(1220, 10, 64, 0)
    # The trace goes on for long.
    two.switch(9000, 0, 0, 0)
    return write(folder, release, [one, two])


def run(*arguments):
    done = subprocess.run([STRATA, *arguments], capture_output=True, check=False)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr.decode())
    return done.stdout.decode("utf-8", "replace")


def ask(trace, query):
    return [json.loads(line) for line in run("sql", "--format", "json", trace, query).splitlines()]


def same(what, found, wanted):
    if found != wanted:
        print(f"not ok: {what}:\n{found}\nnot\n{wanted}")
        sys.exit(1)


def check(trace):
    """Compares what the readers say of the workload with what it does."""
    calls = ask(trace, "SELECT tid, name, begin_ns / 1000 AS at, duration_ns / 1000 AS us, result, object FROM calls ORDER BY begin_ns")
    same("calls", [tuple(row.values()) for row in calls], [
        (10, "open", 10, 20, 3, "/etc/first"),
        (10, "read", 40, 20, 10, "/etc/first"),
        (10, "nanosleep", 100, 330, 0, None),
        (10, "read", 500, 540, 10, "descriptor 4"),
        (20, "write", 1000, 20, 10, "descriptor 5"),
    ])
    states = ask(trace, "SELECT thread.tid, state, begin_ns / 1000 AS at, duration_ns / 1000 AS us, call, ended_by, other.tid AS waker "
                        "FROM state JOIN thread ON thread.id = state.thread LEFT JOIN thread AS other ON other.id = waker "
                        "WHERE thread.tid IN (10, 30) AND state <> 'running' ORDER BY begin_ns")
    same("states", [tuple(row.values()) for row in states], [
        (10, "blocked", 110, 295, "nanosleep", "timer", None),
        (10, "runnable", 405, 15, None, None, None),
        (10, "blocked", 510, 500, "read", "thread", 20),
        (10, "runnable", 1010, 20, None, None, None),
        (30, "runnable", 1050, 10, None, None, None),
    ])
    ends = ask(trace, "SELECT tid, exit_ns / 1000 AS at FROM thread WHERE tid IN (10, 30) ORDER BY tid")
    same("ends", [tuple(row.values()) for row in ends], [(10, 1210), (30, 1110)])
    lines = run("view", "--format", "short", trace).splitlines()
    for text in ('open(filename="/etc/first"', "= 3", "exit_group(error_code=0)"):
        same(f"a line with {text}", any(text in line for line in lines), True)
    # Only the new thread returns from a call that it has not begun.
    same("ends without begins", [line[:18] for line in lines if "resumed>" in line], ["00:00:00.001070000"])
    run("export", "--to", "perfetto", "-o", f"{trace}.perfetto", trace)
    shown = perfetto_decode.Model(perfetto_decode.decode(f"{trace}.perfetto")).shown
    slices = [(one.name, one.begin, one.end, one.end_args) for one in shown if one.end is not None]
    same("slices", [one for one in slices if one[0] in ("open", "nanosleep", "write")], [
        ("open", 10 * US, 30 * US, {"ret": 3}),
        ("nanosleep", 100 * US, 430 * US, {"ret": 0}),
        ("write", 1000 * US, 1020 * US, {"ret": 10}),
    ])


for number, release in enumerate(("2.6.38", "3.6.11-1-ARCH", "4.2.0")):
    check(workload(f"{FOLDER}/old-{number}", release))
print("ok: calls, waits and ends of a trace of LTTng 2.1")
