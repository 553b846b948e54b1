"""seeds.py TARGET FOLDER: writes what the target's fuzzing begins with, small inputs that are as they should be."""

import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
TSDL = [f"crates/strata-ctf/tests/{name}" for name in (
    "tsdl/babeltrace2.tsdl", "tsdl/constructs.tsdl", "tsdl/lttng-ust.metadata", "tsdl/perf.tsdl",
    "golden/process.tsdl", "golden/streams.tsdl")]


def read(path):
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read()


def shapes():
    """Metadata and stream of those that have a stream, in the order of src/shapes.rs."""
    names = re.findall(r'made!\("(\w+)"\)', read("tests/fuzz/src/shapes.rs").decode())
    return [[read(f"tests/fuzz/shapes/{name}.{what}") for what in ("tsdl", "stream")] for name in names]


def metadata():
    return [text for text, _ in shapes()] + [read(path) for path in TSDL]


def packets():
    return [bytes([index, flags]) + stream for index, (_, stream) in enumerate(shapes()) for flags in (0, 0x15)]


def trace():
    return [text + b"\0\0" + stream for text, stream in shapes()]


def ctf2():
    """What tests/interop compares with babeltrace2: each class of CTF 2."""
    sys.path.insert(0, os.path.join(ROOT, "tests/interop"))
    sys.dont_write_bytecode = True
    import ctf2_classes  # pylint: disable=import-outside-toplevel

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in ctf2_classes.TRACES.items():
            write(os.path.join(folder, name))
            parts = [os.path.join(folder, name, part) for part in ("metadata", "stream")]
            text, stream = (open(part, "rb").read() for part in parts)
            found.append(text + b"\0\0\0" + stream)
    return found


def filters():
    """What the guide shows."""
    found = re.findall(r"`([^`]+)`", read("docs/guide/filter.md").decode())
    return [text.replace("\\|", "|").encode() for text in sorted(set(found))]


def formats():
    folder = os.path.join(ROOT, "crates/strata-kernel/tests/data")
    found = [os.path.join(at, "format") for at, _, names in os.walk(folder) if "format" in names]
    texts = sorted((read(path) for path in found), key=len)
    operands = [b"-4@%eax", b"8@$-1", b"8@-8(%rbp,%rax,4)", b"4@counter+8(%rip)", b"8f@%xmm0"]
    return texts[:: max(1, len(texts) // 40)] + operands


def text16(text):
    return struct.pack("=H", len(text)) + text


def applications():
    """As probe/user describes tracepoints: fields of every type."""
    kinds = [(1, 0, 8, 0, 10, 0, 0), (1, 0, 4, 1, 16, 0, 0), (2, 0, 8, 0, 0, 0, 0), (3, 0, 0, 0, 0, 0, 0),
             (4, 1, 2, 2, 10, 0, 3), (4, 6, 1, 0, 0, 0, 9), (5, 1, 4, 0, 10, 4, 0), (5, 6, 1, 0, 0, 2, 0)]
    fields = b"".join(struct.pack("=6BHI", *kind[:6], 0, kind[6]) + text16(b"f%d" % number)
                      for number, kind in enumerate(kinds))
    described = struct.pack("=BBHI", 4, 0, len(kinds), 42) + b"".join(map(text16, (b"app", b"e", b"a.c"))) + fields
    described += bytes(-len(described) % 8)
    empty = struct.pack("=BBHI", 14, 0, 0, 1) + b"".join(map(text16, (b"app", b"nothing", b"")))
    sites = struct.pack("=QiI", 0x1000, 5, 0)
    # Where the description is and its size, where the sites are, their number, flags.
    first = struct.pack("<HHHBB", 16, len(described.rstrip(b"\0")) + 1, 0, 1, 1)
    second = struct.pack("<HHHBB", 16 + len(described), len(empty), 0, 0, 3)
    whole = bytes([0, 2]) + first + second + sites + described + empty
    # A session: of a tracepoint another id, then another channel; and another name, and a whole announcement.
    writes = struct.pack("=BBQBBQ", 1, 0, 5, 0, 3, 4096 * 1024) + struct.pack("=BBQBBQ", 1, 1, 9, 3, 20, 1)
    name = struct.pack("=BB8s", 3, 8, b'a"\x1b\n\\\xff\r')
    announcement = struct.pack("=QII", 0x53545241544155FF, 1, 7)
    return [whole, bytes([0, 1]) + first + sites + described, bytes([0, 1]) + struct.pack(
        "<HHHBB", 0, len(empty), 0, 0, 3) + empty, bytes([4, 2]) + writes + whole[2:], bytes(
        [12, 2]) + writes[:10] + name + writes[:20] + announcement + whole[2:]]


PROBED = """
.globl main
.type main, @function
main: nop
ret
.size main, . - main
.section .note.stapsdt, "", "note"
.balign 4
.4byte 8, 2f - 1f, 3
.asciz "stapsdt"
1: .8byte main, base, semaphore
.asciz "app"
.asciz "probe"
.asciz "8@%rax -4@8(%rsp)"
2: .balign 4
.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
base: .space 1
.section .probes, "aw"
semaphore: .2byte 0
"""


def elves():
    """A program and a library with a USDT probe."""
    out = os.path.join(sys.argv[2], "../elf.made")
    made = []
    for kind in (["-static"], ["-shared"]):
        command = ["gcc", "-nostdlib", *kind, "-Wl,-z,noseparate-code,-z,max-page-size=512,-e,main", "-x", "assembler",
                   "-", "-o", out]
        if subprocess.run(command, input=PROBED, text=True, check=False).returncode == 0:
            with open(out, "rb") as file:
                made.append(file.read())
    return made


# Begin and end of slices, counters, who runs, and call stacks, in the spellings that are known.
SLICES = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 32; align = 8; signed = 1; } := int32_t;
trace { major = 1; minor = 8; byte_order = le; };
env { hostname = "h"; domain = "%s"; tracer_name = "t"; kernel_release = "6.1"; vpid = 7; procname = "p"; };
stream {
    packet.context := struct { uint32_t content_size; uint32_t packet_size; uint32_t events_discarded;
        uint32_t cpu_id; };
    event.header := struct { uint8_t id; uint32_t timestamp; };
    event.context := struct { int32_t _tid; int32_t _vpid; };
};
"""
EVENTS = [("work_begin", "uint32_t _id;"), ("work_end", "uint32_t _id;"), ("syscall_entry_read", "uint32_t _fd;"),
          ("syscall_exit_read", "int32_t _ret;"), ("x_open", "string _path;"), ("x_close", "string _path;"),
          ("sched_switch", "string _prev_comm; int32_t _prev_tid; int32_t _prev_prio; int32_t _prev_state; "
           "string _next_comm; int32_t _next_tid; int32_t _next_prio;"),
          ("sched_process_exit", "string _comm; int32_t _tid;"), ("queue", "uint32_t _length;"),
          ("called", "uint32_t _callstack_user[1];"), ("cpu_clock", "uint32_t _callstack_kernel[1];")]


def slices():
    """Two threads, with records of all kinds."""
    made = []
    for domain in ("ust", "kernel"):
        text = (SLICES % domain).encode()
        for number, (name, fields) in enumerate(EVENTS):
            text += f'event {{ id = {number}; name = "{name}"; fields := struct {{ {fields} }}; }};\n'.encode()
        payloads = {4: b"a\0", 5: b"a\0", 6: b"a\0" + struct.pack("<3i", 1, 20, 0) + b"b\0" + struct.pack("<2i", 2, 20),
                    7: b"a\0" + struct.pack("<i", 1)}
        records = b""
        for time, (number, tid) in enumerate([(0, 1), (2, 1), (4, 2), (8, 1), (6, 1), (3, 1), (1, 1), (5, 2), (1, 2), (0, 1),
                                              (7, 1), (0, 1), (2, 1), (1, 1), (3, 1), (0, 2), (9, 1), (10, 2)]):
            records += struct.pack("<BI2i", number, 10 * time, tid, 7) + payloads.get(number, struct.pack("<I", 5))
        for discarded in (0, 3):
            bits = 8 * (16 + len(records))
            packet = struct.pack("<4I", bits, bits, discarded, 1) + records
            made += [text + bytes([0, 0, flags]) + packet * count for flags, count in ((0, 1), (3, 2), (12, 1))]
    return made


ODD = b"\x1b]0;x\x07,\x7f\\\"\\n\xc2\x80\xc2\x9b\xc2\x9f\xe2\x80\x8e\xe2\x80\xae\xe2\x81\xa6\xc3\xbc"


def odd():
    """A trace whose names, labels and text are as no honest program has them."""
    text = (SLICES % "ust").encode().replace(b'"h"', b'"%s"' % ODD).replace(b'"p"', b'"%s"' % ODD)
    text += b'event { id = 0; name = "%s"; fields := struct { enum : uint8_t { "%s" = 5 } _label; ' % (ODD, ODD)
    text += b"string _text; uint8_t _length; integer { size = 8; encoding = UTF8; } _part[_length]; }; };\n"
    loud = bytes(range(1, 256)) + ODD + b"\r\n,\0"
    record = struct.pack("<BI2iB", 0, 10, 1, 7, 5) + loud + bytes([8]) + ODD[:8]
    bits = 8 * (16 + len(record))
    return text, struct.pack("<4I", bits, bits, 0, 1) + record


def without_records():
    """Packets that are all header, with times and without: text, and one or two streams of them."""
    text = """typealias integer { size = 32; align = 8; } := u32; typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; }; clock { name = c; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
stream { packet.context := struct { %s u32 content_size; u32 packet_size; }; event.header := struct { ts timestamp; }; };
event { name = "x"; fields := struct { u32 n; }; };"""
    stream = b"".join(struct.pack("<QQII", 5 * n, 5 * n + 3, 192, 192) for n in range(4))
    fields = "ts timestamp_begin; ts timestamp_end;", "u64 x; u64 y;", "ts timestamp_begin; u64 y;"
    return [(text % field).encode() + b"\0" + bytes([files, 0xc0, 0]) + stream for field in fields for files in (2, 3)]


def views():
    """Each shape in each layout, by turns; text that would command a terminal, or end a field of CSV; packets without
    records."""
    made = enumerate(shapes() + [odd()])
    return [text + bytes([0, 0, layout | number % 2 * 0xd0, 0x80 | number % 7]) + stream
            for number, (text, stream) in made for layout in (0, 1, 2, 6, 7)] + without_records()


def exports():
    return slices() + [text + b"\0\0\2" + stream for text, stream in shapes() + [odd()]]


def rings():
    """Ways of publishing, modes and sizes, with some records and calls; then what an application may do to them."""
    honest = [bytes([0x08, 6, 0x10, 5, 0x30, 6, 0x21, 5]), bytes([0xf8, 5, 0xf8, 6, 0xf8]), bytes([0x08, 0x12, 0x18, 6])]
    # The read count, the write count, a sub-buffer, data, the size of a packet; then poll and flush.
    hostile = [bytes([0xf8, 0x43, 43, size, 5, 6]) for size in (120, 129)] + [bytes([0x38, 3, 16, 3, 6, 3, 0, 1, 5]), bytes([0x38, 6, 0x7b, 0]) + b"\xff" * 8 + b"\5\6",
               bytes([0x78, 3, 26, 9, 0x1f, 33, 4, 5]), bytes([0x78, 4, 0, 1, 2, 3, 6])]
    return [bytes([setup, end]) + operations for operations in honest + hostile
            for setup, end in ((0x40, 0), (0x41, 2), (0x42, 1), (0x4f, 2), (0x8d, 0), (0x6a, 3), (0xc3, 4))] + [
                bytes([0x50, 0, 1, 3]) + struct.pack("<Q", 128) + honest[0]]


def controls():
    """What is asked for and answered; a request that is none; descriptors that go along, and who goes away."""
    requests = [b'{"strata":1,"do":"status"}', b'{"strata":1,"do":"stop"}', b'{"strata":1,"do":"rotate"}', b'{"strata":2,"do":"stop"}', b"[]",
                b'{"strata":1,"do":"snapshot","output":"/tmp/here"}', b'{"strata":1,"do":"snapshot","output":"here"}',
                b'{"strata":1,"do":"more","also":[{"a":1.5e300}]}', b'{"strata":1,"do":"stop","do":"\\u0000\\n"}', b"",
                b"[" * 200, b'{"strata":1,"do":"snapshot","output":"/\xff"}']
    answers = [b'{"strata":1,"ok":{"a":[1,null]}}', b'{"strata":1,"error":"no\\u001b[1m"}', b'{"strata":1}', b"\xff"]
    return [bytes([ways]) + request + b"\0" + answer
            for ways, request in zip((0x20, 0x21, 0x27, 0x0b, 0x13, 0x2f) * 2, requests) for answer in answers]


def selectors():
    """Filters of one test of each kind, and of several that lead on; payloads that are whole, and cut."""
    def term(subject, text=(0, 0), index=2 ** 64 - 1, mask=0):
        return struct.pack("<HHIQQ", subject, text[1], text[0], index, mask)

    def made(tests, text):
        begin = 16 + 104 * len(tests)
        places = [(begin + at, length) for at, length in ((0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 3), (9, 9))]
        body = b"".join(struct.pack("<BBHHH", kind, op, negated, yes, no) + term(left[0], places[left[1]], *left[2:]) +
                        term(right[0], places[right[1]]) + struct.pack("<qqQQdd", -5, 9, 1, 70, -1.5, 8.25)
                        for kind, op, negated, yes, no, left, right in tests)
        return struct.pack("<IIII", 0x544c4953, 1, begin + len(text), len(tests)) + body + text

    text, whole, nothing = b"abefts*a?shop:pai", 2 ** 64 - 1, (0, 0)
    kinds = [[(1, 0, 0, 0xffff, 0xfffe, (4, field, whole, 6 * (field == 1)), nothing)] for field in range(6)]
    kinds += [[(2, 0, 1, 0xfffe, 0xffff, (subject, 5), (0, 6))] for subject in (1, 4, 5)]
    kinds += [[(3, 0, 0, 0xffff, 0xfffe, (subject, 0, 1), nothing)] for subject in (2, 3, 4, 6)]
    kinds += [[(4, op, 0, 0xffff, 0xfffe, (4, 0), (4, 1))] for op in range(6)]
    kinds += [[(1, 0, 0, 1, 2, (4, 0), nothing), (2, 0, 0, 2, 0xfffe, (1, 0), (0, 7)),
               (3, 0, 1, 0xffff, 0xfffe, (4, 3), nothing)]]
    payload = struct.pack("<iQHd", -3, 66, 7, 2.5) + b"text\0\0" + b"string\0" + struct.pack("<Ihh", 2, 1, -1) + bytes(4)
    return [bytes([1, length]) + payload[:length] + made(tests, text.ljust(18, b"d")) for tests in kinds
            for length in (len(payload), 20)] + [b"\0\0" + made(kinds[0], text)[:60]]


def guests():
    """What a recorder says from its hello to its end, with metadata as they are written; in pieces of two sizes."""
    def frame(kind, payload):
        return b"StRl" + struct.pack("<HHI", kind, 0, len(payload)) + payload

    def header(begin, end, sequence, size):
        bits = (84 + size) * 8
        return struct.pack("<I16sIQQQQQQQI", 0xc1fc1fc1, b"0123456789abcdef", 0, 0, begin, end, bits, bits, sequence, 0, 0)

    text = read("crates/strata-ctf/tests/golden/process.tsdl")
    hello = frame(1, struct.pack("<IB16s16s", 1, 1, b"a" * 16, b"b" * 16) + b"box")
    trace_of = frame(2, struct.pack("<IBI", 1, 0, 0)) + frame(2, struct.pack("<IBI", 2, 1, 42) + b"app")
    told = frame(3, struct.pack("<IQ", 1, 0) + text)
    packets_of = b"".join(frame(4, struct.pack("<IIQ", 1, 0, 8192) + header(at, at + 9, at, 8) + bytes(8)) for at in (10, 20))
    symbols = frame(13, struct.pack("<I", 1) + b"strata kernel symbols 1\n\x90\x01\x04main\x05\x08f [ext4]")
    memory = frame(12, struct.pack("<IQ", 1, 4096) + bytes(4096) + struct.pack("<QQ", 8192, 12288))
    stream = frame(5, struct.pack("<IB", 1, 11) + b"statedump_0" + header(1, 2, 0, 0))
    clocks = b"".join(frame(10, struct.pack("<QQQQQQ", at, 500_000_000 + at * 1_000_000, 500_000_500 + at * 1_000_000, 3, 500_000_100, 9)) for at in range(4))
    jump = frame(10, struct.pack("<QQQQQQ", 9, 100_000_000, 100_000_000, 0, 0, 0))
    ends = frame(6, struct.pack("<IIQ", 1, 0, 99)) + frame(7, struct.pack("<IBQQQ", 1, 2, 0, 0, 0)) + frame(
        8, struct.pack("<IQQQ", 1, 2, 3, 4)) + frame(9, struct.pack("<I", 2)) + frame(11, b"")
    host = frame(101, struct.pack("<I16sB", 1, b"a" * 16, 1)) + frame(102, struct.pack("<Q", 1)) + frame(103, b"") + frame(104, b"")
    return [bytes([step]) + said for step in (3, 255) for said in (
        hello + trace_of + symbols + packets_of + stream + clocks + ends, memory, clocks + jump + clocks, told, host, b"rest" + hello)]


def remotes():
    """What a recorder says to a relay from its first message to its last, and what the relay answers; in pieces of two sizes."""
    def frame(kind, payload):
        return b"StRl" + struct.pack("<HHI", kind, 0, len(payload)) + payload

    def name(text):
        return bytes([len(text)]) + text

    text = read("crates/strata-ctf/tests/golden/process.tsdl")
    opened = frame(20, struct.pack("<IB16s16sQ", 2, 1, b"a" * 16, b"b" * 16, 17) + name(b"web1") + name(b"shop-1"))
    begins = frame(21, struct.pack("<I", 0) + name(b"kernel") + b"\0") + frame(
        21, struct.pack("<I", 1) + name(b"big/user") + b"\1" + struct.pack("<I", 42) + name(b"app"))
    marks = frame(22, struct.pack("<IQQ", 1, 99, 5)) + frame(24, struct.pack("<IIQQ", 1, 0, 7, 99))
    closed = frame(23, struct.pack("<BQQQ", 1, 2, 3, 4))
    pong = frame(10, struct.pack("<QQQQQQ", 1, 500, 600, 3, 550, 9))
    told = frame(3, struct.pack("<IQ", 1, 0) + text)
    answers = frame(120, struct.pack("<I16sQ", 1, b"a" * 16, 17)) + frame(121, struct.pack("<Q", 22)) + frame(
        122, struct.pack("<Q", 1)) + frame(125, struct.pack("<QB", 10, 1)) + frame(
        123, b"full") + frame(124, b"no space now")
    return [bytes([step]) + said for step in (3, 255) for said in (
        opened + begins + marks + pong + closed, opened + told, told, answers, b"rest" + opened)]


def tails():
    """Rings with some records, of which some were handed over; then with bytes written into what describes them."""
    written = [b"", b"\x08" + struct.pack("<Q", 128) + b"\xff" * 8, b"\x04" + struct.pack("<Q", 4100) + bytes(4),
               b"\x02" + struct.pack("<Q", 4096 * 2) + b"\x05\x07", b"\x08" + struct.pack("<Q", 4096) + struct.pack("<Q", 512)]
    return [bytes([flags, records, handed]) + over for flags in range(4) for records in (0, 5, 90) for handed in (0, 3) for over in written]


def timelines():
    """Threads that switch, wait, open and map; spans of each kind, allocations; cut into packets of several lengths."""
    def record(number, *values, at=[0]):
        at[0] += 9
        return struct.pack("<H", number | (at[0] & 2047) << 5) + bytes(values)

    def of(tid, number, *values):
        return record(number, tid, 0xf0, 1, 2, *values)

    kernel = of(3, 11, 3, 3, 1, 97, 0) + of(3, 0, 0, 0, 3) + of(3, 12, 47, 97) + of(3, 13, 5) + of(3, 14, 5) + of(3, 0, 3, 1, 4)
    kernel += of(4, 9, 3) + of(4, 1, 3) + of(4, 10) + of(4, 0, 4, 0, 3) + of(3, 15, 1) + of(3, 16, 9, 255, 34) + of(3, 17, 0, 32)
    kernel += of(3, 22, 4, 32, 7) + of(3, 18, 0, 32, 9) + of(3, 19, 0) + of(3, 3, 3, 5, 5) + of(5, 22, 0, 1, 7) + of(5, 4, 5) + of(5, 0, 5, 32, 0)
    kernel += of(3, 20) + of(3, 21, 0, 1) + of(3, 23, 8, 64, 1) + of(3, 7, 1) + of(3, 8)
    user = b"".join(record(*values) for values in (
        (13, 3, 3, 97, 0), (0, 3, 1), (0, 4, 2), (1, 3, 2), (1, 4, 1), (2, 3, 97, 98), (4, 3), (5, 3), (3, 4, 97, 98), (6, 3, 7), (6, 3, 8),
        (7, 3, 8), (7, 3, 7), (8, 3, 20, 64, 1), (9, 3, 64, 40), (10, 3, 64, 40, 80, 1), (11, 3, 80), (8, 3, 9, 99, 2), (12, 3, 1, 64, 47, 97)))
    return [bytes([flags, each, 255 * len(kernel) // len(kernel + user) + 1]) + kernel + user
            for flags in (0, 3, 4, 7, 8, 16, 24, 35) for each in (20, 90, 255)]


def symbols():
    """Files with debug information: as it should be, far too deep, and whose sections say that they are packed; and a table of symbols."""
    sys.path.insert(0, os.path.join(ROOT, "tests/fault"))
    sys.dont_write_bytecode = True
    import elf_files as made  # pylint: disable=import-outside-toplevel

    call = b"\3" + struct.pack("<QQ", made.CODE, made.CODE_BYTES)
    symbol = struct.pack("<IBBHQQ", 1, 2, 0, 1, 0x1000, 16)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        files = [made.dwarf(path, made.function(call * deep + b"\0" * deep)) and open(path, "rb").read() for deep in (0, 3, 2000)]
        made.elf(path, {".symtab": (2, ".strtab", symbol * 3), ".strtab": (3, "", b"\0name\0")})
        files.append(open(path, "rb").read())
    # The sections follow the first page: what is between is nothing.
    return [packed for packed in files if len(packed) < 100000]


def unwinds():
    """Unwind tables with an index and without, of functions by registers and by expressions and of the return from a signal; and stacks."""
    head = 64 + 2 * 56

    def entry(body):
        return struct.pack("<I", len(body)) + body

    def made(functions, with_index, words):
        table, places = b"", []
        for at, (how, instructions) in enumerate(functions):
            back = len(table)
            table += entry(struct.pack("<IB", 0, 1) + how + b"\0\1\x78\x10\1\x1b")
            places.append((0x1000 * at, len(table)))
            table += entry(struct.pack("<IiIB", len(table) + 4 - back, 0x1000 * at - head - len(table) - 8, 0x1000, 0) + instructions)
        begin = head + len(table)
        index = b"\1\x1b\3\x3b" + struct.pack("<iI", head - begin - 4, len(places))
        index += b"".join(struct.pack("<ii", code - begin, head + place - begin) for code, place in places)
        index = index if with_index else b""
        # The stack pointer and the instruction pointer among the registers.
        registers = [0] * 4 + [0x7000] + [0] * 11 + [0x10] + [0] * 2 + [0x7000, 0]
        return struct.pack("<HH", len(table), len(index)) + table + index + struct.pack(f"<{21 + len(words)}Q", *registers, *words)

    plain = (b"zR", b"\x0c\7\x10\x90\1\x86\2")
    expression = (b"zR", b"\x0f\x0b\x77\x08\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22\x90\1")
    signal = (b"zRS", b"\x0f\3\x77\x20\6\x10\x10\2\x77\x28\x10\6\2\x77\0")
    words = [0x1010, 0x2010, 0x7030, 0x10, 0x7040, 0x1010, 0, 0x2010, 1, 2, 0x10, 0]
    return [made([plain, expression, signal][:count], with_index, words * 4) for count in (1, 2, 3) for with_index in (False, True)]


def lives():
    """What a viewer asks from its first request to the end of the recording, of a stream with two packets."""
    def request(command, payload=b""):
        return struct.pack(">QII", len(payload), command, 0) + payload

    def packet(number):
        body = bytes(16)
        bits = (84 + len(body)) * 8
        return struct.pack("=I16sI7QI", 0xC1FC1FC1, bytes(16), 0, 0, number * 10 + 1, number * 10 + 9, bits, bits, number, 0, 0) + body

    begin = request(1, struct.pack(">QIII", 0, 2, 4, 1)) + request(2) + request(8)
    attach = request(3, struct.pack(">QQI", 0, 0, 1)) + request(6, struct.pack(">Q", 0)) * 2
    index = b"".join(request(4, struct.pack(">Q", stream)) for stream in (1, 1, 1, 0, 2))
    data = b"".join(request(5, struct.pack(">QQI", 1, at, size)) for at, size in ((0, 100), (100, 100), (100, 101), (1 << 63, 7)))
    rest = request(7, struct.pack(">Q", 0)) + request(9, struct.pack(">Q", 0)) + request(4, struct.pack(">Q", 1))
    return [struct.pack("<BH", flags, len(stream)) + stream + begin + attach + index + data + rest
            for flags in (0, 1, 3, 5) for stream in (packet(0) + packet(1), packet(7)[:90])]


def imports():
    """Files of perf (a clock and a tracepoint, names, mappings, losses) and of trace-cmd."""
    parts = 1 << 16 | 1 | 2 | 4 | 1 << 7 | 1 << 8 | 1 << 5 | 1 << 10

    def record(kind, misc, body):
        return struct.pack("=IHH", kind, misc, len(body) + 8) + body

    def behind(tid, time, cpu):
        return struct.pack("=IIQIIQ", tid, tid, time, cpu, 0, 11)

    def sample(event, tid, time, cpu, stack, raw):
        return record(9, 1, struct.pack("=QQIIQIIQQ", event, 0x1234, tid, tid, time, cpu, 0, 99, len(stack)) +
                      struct.pack(f"={len(stack)}Q", *stack) + struct.pack("=I", len(raw)) + raw)

    kernel, user = 2 ** 64 - 128, 2 ** 64 - 512
    raw = struct.pack("=8xi8sI", 5, b"next", 5 << 16 | 24) + b"text\0"
    records = b"".join((
        record(3, 0, struct.pack("=II8s", 5, 5, b"app") + behind(5, 0, 0)),
        record(10, 2, struct.pack("=IIQQQ24sII16s", 5, 5, 0x400000, 0x1000, 0, b"", 4, 0, b"/bin/app") + behind(5, 0, 0)),
        record(1, 1, struct.pack("=iIQQQ24s", -1, 0, 1, 2, 0xffff8000, b"[kernel.kallsyms]_text") + behind(0, 0, 0)),
        sample(11, 5, 2000, 1, (kernel, 0xff10, user, 0x400010), b""),
        record(68, 0, b""),
        sample(22, 5, 1000, 0, (), raw),
        record(7, 0, struct.pack("=IIIIQ", 6, 5, 6, 5, 2100) + behind(5, 2100, 0)),
        record(3, 1 << 13, struct.pack("=II8s", 6, 6, b"child") + behind(6, 2200, 0)),
        record(2, 0, struct.pack("=QQ", 11, 3) + behind(5, 2300, 1)),
        record(13, 0, struct.pack("=Q", 5) + behind(0, 0, 0)),
        record(68, 0, b"")))
    fields = (("unsigned short common_type", 0, 2, 0), ("int prev_pid", 8, 4, 1), ("char next_comm[8]", 12, 8, 0),
              ("__data_loc char[] name", 20, 4, 0))
    text = "name: sched_switch\nID: 316\nformat:\n" + "".join(
        f"\tfield:{field};\toffset:{at};\tsize:{size};\tsigned:{signed};\n" for field, at, size, signed in fields)
    formats_of = (b"\x17\x08Dtracing0.6\0" + bytes(6) + b"header_page\0" + bytes(8) + b"header_event\0" + bytes(8) +
                  struct.pack("=II", 0, 1) + b"sched\0" + struct.pack("=IQ", 1, len(text)) + text.encode())
    release = struct.pack("=I8s", 8, b"6.1.0")
    attrs, ids = 104, 104 + 2 * 144
    data = ids + 16
    table = data + len(records)
    head = struct.pack("=8s12Q", b"PERFILE2", 104, 144, attrs, 2 * 144, data, len(records), 0, 0, 1 << 1 | 1 << 4, 0, 0, 0)
    for kind, config, at in ((1, 0, ids), (2, 316, ids + 8)):
        head += struct.pack("=IIQQQQQ", kind, 128, config, 0, parts, 0, 1 << 18).ljust(128, b"\0") + struct.pack("=QQ", at, 8)
    places = struct.pack("=4Q", table + 32, len(formats_of), table + 32 + len(formats_of), len(release))
    # The same as perf writes it to a pipe.
    events = b"".join(
        record(64, 0, struct.pack("=IIQQQQQ", kind, 128, config, 0, parts, 0, 1 << 18).ljust(128, b"\0") + struct.pack("=Q", event))
        for kind, config, event in ((1, 0, 11), (2, 316, 22)))
    tracing = record(66, 0, struct.pack("=I", len(formats_of))) + formats_of.ljust(-(-len(formats_of) // 8) * 8, b"\0")
    pipe = struct.pack("=8sQ", b"PERFILE2", 16) + events + record(80, 0, struct.pack("=Q", 4) + release) + tracing + records
    # The same tracepoint in files of trace-cmd: pages of two CPUs, which begin with time and size of the content.
    headers = b"header_page\0" + bytes(8) + b"header_event\0" + bytes(8)
    formats_of = struct.pack("=I", 1) + b"sched\0" + struct.pack("=IQ", 1, len(text)) + text.encode()
    event = struct.pack("=IHHi", 8 | 5 << 5, 316, 0, 5) + raw[8:]
    event += bytes(36 - len(event))
    pages = [struct.pack("=QQ", 1000, len(of)) + of + bytes(128 - 16 - len(of)) for of in (event * 2, struct.pack("=II", 30 | 3 << 5, 2) + event)]
    names = b"5 app\n"
    begin = b"\x17\x08Dtracing%s\0\0\x08" + struct.pack("=I", 128)
    six = begin % b"6" + headers + struct.pack("=I", 0) + formats_of + struct.pack("=IIQ", 0, 0, len(names)) + names
    six += struct.pack("=I", 2) + b"options  \0" + struct.pack("=HI", 5, 20) + b"Linux a 6.1.0 x86_64" + bytes(2) + b"flyrecord\0"
    at = len(six) + 32
    six += struct.pack("=4Q", at, 128, at + 128, 128) + b"".join(pages)
    seven = begin % b"7" + b"none\0\0" + bytes(8)

    def section(number, content):
        nonlocal seven
        at = len(seven)
        seven += struct.pack("=HHIQ", number, 0, 0, len(content)) + content
        return at

    led_to = [(number, section(number, of)) for number, of in ((16, headers), (18, formats_of), (21, struct.pack("=Q", len(names)) + names))]
    data = section(3, b"".join(pages)) + 16
    buffer = struct.pack("=Q", data - 16) + b"\0mono\0" + struct.pack("=IIIQQIQQ", 128, 2, 0, data, 128, 1, data + 128, 128)
    options = b"".join(struct.pack("=HIQ", number, 8, at) for number, at in led_to)
    options += struct.pack("=HI", 3, len(buffer)) + buffer + struct.pack("=HIQ", 0, 8, 0)
    first = section(0, options)
    seven = seven[:24] + struct.pack("=Q", first) + seven[32:]
    return [head + struct.pack("=QQ", 11, 22) + records + places + formats_of + release, pipe, six, seven]


def answers():
    """What receivers of spans answer: all is well, some is refused, it is to come again; in parts, and with others before it."""
    json = b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too long"}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(json)
    protobuf = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\r\n\x0a\x0c\x08\x03\x12\x08too long"
    chunks = b"HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nno su\r\n3;a=b\r\nch \r\n0\r\n\r\n"
    busy = b"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
    return [head + json, protobuf, chunks, busy, b"HTTP/1.1 100 Continue\r\n\r\n" + busy, b"HTTP/1.1 204 x\r\n\r\n", b"220 mail\r\n", b""]


SEEDS = {"import": imports, "symbols": symbols, "unwind": unwinds, "timeline": timelines, "control": controls, "guest": guests, "remote": remotes, "live": lives, "tail": tails, "selects": selectors, "metadata": metadata, "packets": packets, "trace": trace, "ctf2": ctf2, "filter": filters, "format": formats,
         "application": applications, "elf": elves, "ring": rings, "view": views, "perfetto": exports, "otlp": exports, "answer": answers, "sql": exports,
         "queries": exports}


def main():
    for number, seed in enumerate(SEEDS.get(sys.argv[1], list)()):
        with open(os.path.join(sys.argv[2], f"seed_{number:03}"), "wb") as file:
            file.write(seed)


main()
