"""A host and a guest of it, whose clock is known within a limit, as traces of their kernels in CTF 1.8.

The guest's virtual CPU 0 is a thread of the host. All times are in microseconds from the begin:

    host    idle 0-100, the virtual CPU's thread 100-900, idle 900-1000
    guest   idle 150-200, its thread 200-600, idle 600-850

    python3 tests/guest_trace.py FOLDER         makes FOLDER/host and FOLDER/guest
    python3 tests/guest_trace.py FOLDER hosts   makes FOLDER/web1 and FOLDER/web2, of two hosts
"""

import os
import struct
import sys

# The thread of the host that is the virtual CPU, the guest's own thread, and how exactly the guest's clock is known [ns].
VIRTUAL_CPU, THREAD, UNCERTAINTY = 42, 7, 20_000


def kernel_trace(folder, environment, clock, records):
    """Records are (time in ns, thread that makes it, name of the event, values)."""
    os.makedirs(folder)
    kinds = {
        "sched_switch": ("string prev_comm; i32 prev_tid; i32 prev_prio; i64 prev_state; string next_comm; i32 next_tid; i32 next_prio;", "siiqsii"),
        "lttng_statedump_process_state": ("i32 tid; i32 vtid; i32 pid; i32 vpid; i32 ppid; string name;", "iiiiis"),
    }
    with open(os.path.join(folder, "metadata"), "w", encoding="utf-8") as file:
        file.write(f"""/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; }} := u8;
typealias integer {{ size = 16; align = 8; }} := u16;
typealias integer {{ size = 32; align = 8; }} := u32;
typealias integer {{ size = 64; align = 8; }} := u64;
typealias integer {{ size = 32; align = 8; signed = true; }} := i32;
typealias integer {{ size = 64; align = 8; signed = true; }} := i64;
trace {{ major = 1; minor = 8; byte_order = le; }};
env {{ domain = "kernel"; tracer_name = "lttng-modules"; {environment} }};
clock {{ name = c; uuid = "{clock}"; absolute = TRUE; freq = 1000000000; offset_s = 1700000000; }};
typealias integer {{ size = 64; align = 8; map = clock.c.value; }} := ts;
stream {{
  packet.context := struct {{ ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size; u32 cpu_id; }};
  event.header := struct {{ u16 id; ts timestamp; }};
  event.context := struct {{ i32 tid; }};
}};
""")
        for number, (name, (fields, _)) in enumerate(kinds.items()):
            file.write(f"event {{ name = {name}; id = {number}; fields := struct {{ {fields} }}; }};\n")
    data = b""
    for time, tid, name, values in records:
        data += struct.pack("<HQi", list(kinds).index(name), time, tid)
        for kind, value in zip(kinds[name][1], values, strict=True):
            data += value.encode() + b"\0" if kind == "s" else struct.pack("<" + kind, value)
    size = 8 * (len(data) + 36)
    with open(os.path.join(folder, "channel0_0"), "wb") as file:
        file.write(struct.pack("<QQQQI", records[0][0], records[-1][0], size, size, 0) + data)


def switch(micros, before, after):
    """One thread gives the CPU to another: each is a number and a name."""
    return micros * 1000, before[0], "sched_switch", (before[1], before[0], 20, 1, after[1], after[0], 20)


def process(micros, tid, pid, name):
    """A thread that was there when the recording began."""
    return micros * 1000, 0, "lttng_statedump_process_state", (tid, tid, pid, pid, 1, name)


def host_and_guest(folder):
    """Makes both."""
    idle, virtual, thread = (0, "swapper/0"), (VIRTUAL_CPU, "CPU 0/KVM"), (THREAD, "web")
    kernel_trace(os.path.join(folder, "host"), 'hostname = "host";', "5b0e7f3a-1c2d-4e5f-8a9b-0c1d2e3f4a5b", [
        process(0, VIRTUAL_CPU, 40, "CPU 0/KVM"), switch(1, (1, "init"), idle), switch(100, idle, virtual), switch(900, virtual, idle),
        switch(1000, idle, (1, "init"))])
    kernel_trace(
        os.path.join(folder, "guest"), f'hostname = "vm"; clock_uncertainty = {UNCERTAINTY}; virtual_cpu_0 = {VIRTUAL_CPU};',
        "0f4c7b1e-6d2a-4c5e-9a3b-5d6e7f809112", [
            process(150, THREAD, THREAD, "web"), switch(151, (1, "init"), idle), switch(200, idle, thread), switch(600, thread, idle),
            switch(850, idle, (1, "init"))])


def two_hosts(folder):
    """Makes the traces of two hosts whose threads have the same numbers, as a relay writes them: both clocks are known within 5
    microseconds. The recording of the first one ends at 500, that of the second one at 900.
    """
    idle, thread = (0, "swapper/0"), (THREAD, "web")
    for host, clock, begin, end in [("web1", "11111111-1c2d-4e5f-8a9b-0c1d2e3f4a5b", 100, 500), ("web2", "22222222-1c2d-4e5f-8a9b-0c1d2e3f4a5b", 108, 900)]:
        kernel_trace(os.path.join(folder, host), f'hostname = "{host}"; clock_uncertainty = 5000;', clock, [
            process(begin, THREAD, THREAD, "web"), switch(begin + 100, (1, "init"), idle), switch(begin + 200, idle, thread), switch(end, thread, idle)])


if __name__ == "__main__":
    {"hosts": two_hosts}.get(sys.argv[2] if len(sys.argv) > 2 else "", host_and_guest)(sys.argv[1])
