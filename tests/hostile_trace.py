"""Traces whose every name is hostile, for tests of what shows names: a kernel's in CTF 1.8, and a program's in CTF 2."""

import json
import os
import re
import struct

# What acts on a terminal, an editor or a script, as U+XXXX; of strata's own list those that Unicode and ECMA-48 say.
RANGES = [(1, 0x1F), (0x7F, 0x9F), (0x61C, 0x61C), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF),
          (0xE0020, 0xE0041)]
ACTING = "".join(chr(code) for low, high in RANGES for code in range(low, high + 1))
# A name: a part that can be found, what acts, what ends strings elsewhere, and commands of terminals as they are.
HOSTILE = "evil" + ACTING + "\"\\'</script><img src=x onerror=document.title=1>\x1b]0;title\x07\x1b[2J\x9b2J\x9d0;title\x9c\x90q\x9c\u202egnp.exe"


def quote(text):
    """As TSDL has it: what is no text as octal digits."""
    return '"' + "".join(
        f"\\{ord(one):03o}" if ord(one) < 0x20 or one in '"\\\x7f' else one for one in text) + '"'


def kernel_trace(folder, long=0):
    """Of a kernel: threads, calls, files, disks and interrupts with hostile names. Some have so many characters more."""
    os.makedirs(folder)
    text = quote(HOSTILE)
    names = {}
    metadata = ["""/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "kernel"; tracer_name = %s; hostname = %s; sysname = %s; trace_name = %s; };
clock { name = c; description = %s; freq = 1000000000; offset_s = 1700000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
stream {
  packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size; u32 cpu_id; };
  event.header := struct { u16 id; ts timestamp; };
  event.context := struct { i32 tid; i32 pid; string procname; };
};
""" % (text, text, text, text, text)]
    data, now = [], 0

    def put(tid, name, fields, *values):
        nonlocal now
        now += 1000
        if name not in names:
            names[name] = len(names)
            metadata.append(f"event {{ name = {quote(name)}; id = {names[name]}; fields := struct {{ {fields} }}; }};\n")
        data.append(struct.pack("<HQii", names[name], now, tid, tid) + HOSTILE.encode() + b"\0")
        kinds = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "i64": "q"}
        # Of `enum { … } level` the type, else the first word.
        types = [re.sub(r"^enum : (\w+).*", r"\1", one.strip(), flags=re.S).split()[0]
                 for one in re.split(r";(?![^{]*\})", fields) if one.strip()]
        for kind, value in zip(types, values, strict=True):
            data.append(value.encode() + b"\0" if kind == "string" else struct.pack("<" + kinds[kind], value))

    def switch(before, after):
        put(before, "sched_switch", "string prev_comm; i32 prev_tid; i32 prev_prio; i64 prev_state; string next_comm; "
            "i32 next_tid; i32 next_prio;", HOSTILE, before, 20, 1, HOSTILE, after, 20)

    for tid in (7, 8):
        put(tid, "lttng_statedump_process_state", "i32 tid; i32 vtid; i32 pid; i32 vpid; i32 ppid; string name;",
            tid, tid, tid, tid, 1, HOSTILE)
    put(7, "lttng_statedump_file_descriptor", "i32 pid; i32 fd; string filename;", 7, 5, "/" + HOSTILE)
    put(7, "lttng_statedump_block_device", "u32 dev; string diskname;", 8 << 20, HOSTILE)
    put(7, "lttng_statedump_interrupt", "i32 irq; string name; string action;", 9, HOSTILE, HOSTILE)
    put(7, "lttng_statedump_network_interface", "string name; i32 ifindex;", HOSTILE, 2)
    switch(0, 7)
    put(7, "sched_process_exec", "string filename; i32 tid; i32 old_tid;", "/" + HOSTILE, 7, 7)
    put(7, "syscall_entry_openat", "i32 dfd; string filename; i32 flags; i32 mode;", -100, "/tmp/" + HOSTILE, 0, 0)
    put(7, "syscall_exit_openat", "i64 ret;", 6)
    for call in ("read", "write"):
        put(7, f"syscall_entry_{call}", "i32 fd; u64 buf; u64 count;", 6, 4096, 10)
        put(7, "block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; u32 bytes; u32 rwbs; i32 tid; string comm;",
            8 << 20, 1000, 8, 4096, 0, 7, HOSTILE)
        switch(7, 8)
        put(8, "irq_handler_entry", "i32 irq; string name;", 9, HOSTILE)
        put(8, "block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; i32 error; u32 rwbs;", 8 << 20, 1000, 8, 0, 0)
        put(8, "sched_waking", "string comm; i32 tid; i32 prio; i32 target_cpu;", HOSTILE, 7, 20, 0)
        put(8, "irq_handler_exit", "i32 irq; i32 ret;", 9, 1)
        switch(8, 7)
        put(7, f"syscall_exit_{call}", "i64 ret;", 10)
    put(7, "syscall_entry_futex", "u64 uaddr; i32 op; u32 val; u64 utime; u64 uaddr2; u32 val3;", 4096, 128, 1, 0, 0, 0)
    switch(7, 8)
    put(8, "syscall_entry_futex", "u64 uaddr; i32 op; u32 val; u64 utime; u64 uaddr2; u32 val3;", 4096, 129, 1, 0, 0, 0)
    put(8, "sched_waking", "string comm; i32 tid; i32 prio; i32 target_cpu;", HOSTILE, 7, 20, 0)
    put(8, "syscall_exit_futex", "i64 ret;", 1)
    switch(8, 7)
    put(7, "syscall_exit_futex", "i64 ret;", 0)
    put(7, "page_fault_user", "u64 address; u64 ip; u64 error_code;", 4096, 8192, 6)
    put(7, "lttng_ust_libc:malloc", "u64 size; u64 ptr;", 100, 65536)
    put(7, "cpu_clock", "u64 ip;", 8192)
    put(7, f"app:{HOSTILE}", f"string text; enum : u8 {{ {text} = 0 ... 9 }} level;", HOSTILE, 3)
    put(7, f"other:{HOSTILE}", "string text;", HOSTILE)
    if long:
        put(7, "syscall_entry_openat", "i32 dfd; string filename; i32 flags; i32 mode;", -100, HOSTILE + "x" * long, 0, 0)
        put(7, "syscall_exit_openat", "i64 ret;", 6)
        put(7, "sched_process_fork", "string comm; i32 pid; string child_comm; i32 child_pid;", HOSTILE, 7, "y" * long, 9)
    switch(7, 8)
    put(8, "sched_process_exit", "string comm; i32 tid; i32 prio;", HOSTILE, 8, 20)
    with open(os.path.join(folder, "metadata"), "w", encoding="utf-8") as file:
        file.write("".join(metadata))
    content = b"".join(data)
    size = 8 * (len(content) + 36)
    with open(os.path.join(folder, HOSTILE.replace("/", "")[-60:]), "wb") as file:
        file.write(struct.pack("<QQQQI", 1, now, size, size, 0) + content)


def second_trace(folder):
    """CTF 2, where names of fields, streams, clocks and the name space may be any text, too. Its last packet is cut."""
    os.makedirs(folder)
    u64 = {"type": "fixed-length-unsigned-integer", "length": 64, "byte-order": "little-endian", "alignment": 8}
    string = {"type": "null-terminated-string"}

    def structure(**members):
        return {"type": "structure", "member-classes": [{"name": name, "field-class": kind} for name, kind in members.items()]}

    payload = structure(**{HOSTILE: string, "n": {**u64, "mappings": {HOSTILE: [[0, 9]]}}, "in": structure(**{HOSTILE: u64})})
    fragments = [
        {"type": "preamble", "version": 2},
        {"type": "trace-class", "namespace": HOSTILE, "name": HOSTILE, "uid": HOSTILE,
         "environment": {HOSTILE: HOSTILE, "domain": "ust", "hostname": HOSTILE, "procname": HOSTILE}},
        {"type": "clock-class", "id": "c", "name": HOSTILE, "frequency": 1000000000, "description": HOSTILE,
         "origin": "unix-epoch"},
        {"type": "data-stream-class", "id": 0, "name": HOSTILE, "default-clock-class-id": "c",
         "packet-context-field-class": structure(**{
             "packet_size": {**u64, "roles": ["packet-total-length"]},
             "content_size": {**u64, "roles": ["packet-content-length"]},
             "from": {**u64, "roles": ["default-clock-timestamp"]},
             "discarded": {**u64, "roles": ["discarded-event-record-counter-snapshot"]}}),
         "event-record-header-field-class": structure(**{
             "id": {**u64, "roles": ["event-record-class-id"]}, "time": {**u64, "roles": ["default-clock-timestamp"]}}),
         "event-record-common-context-field-class": structure(vtid=u64, vpid=u64, procname=string)},
        *({"type": "event-record-class", "id": number, "name": name, "payload-field-class": payload}
          for number, name in enumerate((f"app:{HOSTILE}_begin", f"app:{HOSTILE}_end"))),
    ]
    with open(os.path.join(folder, "metadata"), "wb") as file:
        for one in fragments:
            file.write(b"\x1e" + json.dumps(one, ensure_ascii=False).encode() + b"\n")
    second = 1700000000 * 10**9
    with open(os.path.join(folder, "stream" + ACTING[31:70]), "wb") as file:
        for number in range(4):
            name = HOSTILE.encode() + b"\0"
            record = struct.pack("<QQQQ", number % 2, second + number, 7, 7) + name + name + struct.pack("<QQ", 3, 4)
            size = 8 * (32 + len(record))
            # The last one says more than the file has.
            file.write(struct.pack("<QQQQ", size + (number == 3) * 8000, size, second + number, number // 2 * 5) + record)
