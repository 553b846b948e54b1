"""Memory of all that reads a trace, of input that grows, each kind in two sizes.

Usage: growth.py STRATA FOLDER [KIND...]. What is kept is bounded in bytes, whatever there is ever more of.
"""

import ctypes
import lzma
import os
import resource
import shutil
import struct
import subprocess
import sys
import zlib

from elf_files import (
    ABBREVIATIONS, BODY, CODE, CODE_BYTES, ROWS_BEGIN, ROWS_END, dwarf, elf, function, named_calls, program, uleb, unit,
)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import share  # noqa: E402

STRATA, FOLDER = sys.argv[1:3]
# Peak memory of any command, and of the larger input more than of the smaller one [byte].
MOST, MORE = 400 << 20, 128 << 20
SECONDS = 60

TSDL = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; base = 16; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "kernel"; hostname = "h"; tracer_name = "strata"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
stream {
  packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size; u32 cpu_id; };
  event.header := struct { u16 id; ts timestamp; };
  event.context := struct { i32 tid; };
};
event { name = "lttng_statedump_vm_map"; id = 0;
  fields := struct { i32 pid; u64 start; u64 end; u64 offset; string path; string build_id; }; };
event { name = "lttng_statedump_vm_fork"; id = 1;
  fields := struct { i32 parent_pid; i32 parent_tid; i32 child_pid; i32 child_tid; }; };
event { name = "cpu_clock"; id = 2;
  fields := struct { u64 ip; i32 pid; u16 n; u64 callstack_user[n]; }; };
event { name = "sched_switch"; id = 3;
  fields := struct { string prev_comm; i32 prev_tid; i32 prev_prio; i32 prev_state; string next_comm; i32 next_tid; i32 next_prio; u16 n; u64 callstack_user[n]; }; };
"""


class Trace:
    """A trace of a kernel, record by record."""

    def __init__(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.path = folder
        with open(os.path.join(folder, "metadata"), "w", encoding="utf-8") as file:
            file.write(TSDL)
        self.data, self.time = [], 0

    def put(self, number, tid, payload):
        self.time += 1
        self.data.append(struct.pack("<HQi", number, self.time, tid) + payload)

    def map(self, pid, start, end, path, offset=0):
        text = path.encode() if isinstance(path, str) else path
        self.put(0, pid, struct.pack("<iQQQ", pid, start, end, offset) + text + b"\0\0")

    def fork(self, parent, child):
        self.put(1, parent, struct.pack("<iiii", parent, parent, child, child))

    def sample(self, pid, addresses):
        self.put(2, pid, struct.pack("<QiH", addresses[0], pid, len(addresses)))
        self.data.append(struct.pack(f"<{len(addresses)}Q", *addresses))

    def switch(self, before, after, stack=()):
        text = f"n{before}\0".encode(), f"n{after}\0".encode()
        self.put(3, before, text[0] + struct.pack("<iii", before, 20, 1) + text[1] + struct.pack("<iiH", after, 20, len(stack)))
        self.data.append(struct.pack(f"<{len(stack)}Q", *stack))

    def end(self):
        content = b"".join(self.data)
        size = 8 * (len(content) + 36)
        with open(os.path.join(self.path, "stream"), "wb") as file:
            file.write(struct.pack("<QQQQI", 1, self.time, size, size, 0) + content)
        return self.path


def one_file(folder, path, addresses=(CODE + 1,)):
    """A trace of samples in this file."""
    trace = Trace(folder)
    trace.map(7, 0x10000000, 0x10000000 + (1 << 32), path)
    for address in addresses:
        trace.sample(7, [0x10000000 + address, 0x10000000 + CODE + 9])
    return trace.end()


def inlined(folder, size):
    """Calls that were put into each other."""
    call = b"\3" + struct.pack("<QQ", CODE, CODE_BYTES)
    return one_file(folder, dwarf(folder + ".elf", function(call * size + b"\0" * size)))


def blocks(folder, size):
    """Blocks and name spaces in each other."""
    return one_file(folder, dwarf(folder + ".elf", function(b"\4\5" * size + b"\0\0" * size)))


def rows(folder, size):
    """Rows of a line program, a byte each."""
    return one_file(folder, dwarf(folder + ".elf", function(b""), b"\x21" * (size * 40)))


def symbols(folder, size):
    """Symbols that all have one long name."""
    symbol = b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, CODE + at, 1) for at in range(size * 4))
    path = elf(folder + ".elf", {
        ".symtab": (2, ".strtab", symbol),
        ".strtab": (3, "", b"\0" + b"n" * 4000 + b"\0"),
    })
    return one_file(folder, path, [CODE + at for at in range(0, 2000)])


def sparse(folder, size):
    """Tables that the disk does not have."""
    hole = size * 150000
    path = elf(folder + ".elf", {
        ".symtab": (2, ".strtab", hole),
        ".strtab": (3, "", hole),
        ".debug_info": (1, "", hole),
        ".debug_str": (1, "", hole),
    })
    return one_file(folder, path)


def compressed(folder, size):
    """Sections that say of themselves that they are much larger, when they are unpacked."""
    path = dwarf(folder + ".elf", function(b""))
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        table = struct.unpack_from("<Q", data, 40)[0]
        for index in range(1, 4):
            struct.pack_into("<Q", data, table + 64 * index + 8, 1 << 11)
            at = struct.unpack_from("<Q", data, table + 64 * index + 24)[0]
            struct.pack_into("<IIQQ", data, at, 1, 0, size << 20, 1)
        file.seek(0)
        file.write(data)
    return one_file(folder, path)


def forks(folder, size):
    """Processes that begin with what their parent has mapped."""
    trace = Trace(folder)
    for at in range(4000):
        trace.map(7, 0x10000 * (at + 1), 0x10000 * (at + 1) + 0x1000, f"/none/library-of-some-name-{at}")
    for child in range(size // 10):
        trace.fork(7, 1000 + child)
        trace.sample(1000 + child, [0x10010, 0x20010])
    return trace.end()


def changed_forks(folder, size):
    """The same, each of which maps something else, too."""
    trace = Trace(folder)
    for at in range(4000):
        trace.map(7, 0x10000 * (at + 1), 0x10000 * (at + 1) + 0x1000, f"/none/{at}")
    for child in range(size // 10):
        trace.fork(7, 1000 + child)
        trace.map(1000 + child, 0x10, 0x20, "/none/own")
        trace.sample(1000 + child, [0x10010, 0x20010])
    return trace.end()


def places(folder, size):
    """Addresses in a file of a long name, and files of long names."""
    trace = Trace(folder)
    trace.map(7, 0x10000000, 0x20000000, b"/" + b"p" * 200000)
    trace.map(8, 0x10000000, 0x20000000, b"/" + b"p" * 4000)
    for at in range(size):
        trace.sample(7 + at % 2, [0x10000000 + 16 * at, 0x10000008])
    return trace.end()


def paths(folder, size):
    """Files that have ever new names."""
    trace = Trace(folder)
    for at in range(size):
        trace.map(7, 0x10000, 0x20000, f"/none/{'d' * 200}/{at}")
        trace.sample(7, [0x10010])
    return trace.end()


def threads(folder, size):
    """Threads that have ever new numbers and names."""
    trace = Trace(folder)
    for at in range(size * 2):
        trace.switch(1000 + at, 1001 + at)
    return trace.end()


def stacks(folder, size):
    """Call stacks that are deep and ever new, of functions with long names."""
    symbol = b"".join(struct.pack("<IBBHQQ", 1 + at % 90, 2, 0, 1, CODE + 16 * at, 16) for at in range(20000))
    path = elf(folder + ".elf", {
        ".symtab": (2, ".strtab", symbol),
        ".strtab": (3, "", b"\0" + b"n" * 300 + b"\0"),
    })
    trace = Trace(folder)
    trace.map(7, 0x10000000, 0x10000000 + (1 << 32), path)
    for at in range(size // 20):
        trace.sample(7, [0x10000000 + CODE + 16 * ((at * 7 + depth) % 2000) for depth in range(300)])
    return trace.end()


def waits(folder, size):
    """The same of threads that leave their CPU."""
    trace = Trace(folder)
    for at in range(size // 20):
        stack = [0x10000000 + 16 * (at + depth) for depth in range(300)]
        trace.switch(2000 + at % 50, 0, stack)
        trace.switch(0, 2000 + at % 50, [])
    return trace.end()


def abbreviations(folder, size):
    """A table of abbreviations that is far larger than what uses it."""
    many = b"".join(uleb(at) + b"\x2e\1\3\x08\0\0" for at in range(10, 10 + size * 20))
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", unit(function(b""))),
        ".debug_abbrev": (1, "", ABBREVIATIONS[:-1] + many + b"\0"),
    })
    return one_file(folder, path)


def long_names(folder, size):
    """Deep stacks, in each of whose frames many calls of a function with a long name are inlined."""
    names = b"\7" + b"n" * 4000 + b"\0"
    path = dwarf(folder + ".elf", names + function(named_calls(60, BODY)), b"\x21" * 250)
    trace = Trace(folder)
    trace.map(7, 0x10000000, 0x10000000 + (1 << 32), path)
    for at in range(size // 1000):
        trace.sample(7, [0x10000000 + CODE + (at * 300 + depth) % CODE_BYTES for depth in range(300)])
    return trace.end()


def origins(folder, size):
    """Entries that have no name and refer to each other, in units whose table of abbreviations is large."""
    many = b"".join(uleb(at) + b"\x2e\1\3\x08\0\0" for at in range(10, 10 + size * 10))
    body = b"\x08" + struct.pack("<I", BODY + 5) + b"\x08" + struct.pack("<I", BODY)
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", unit(body + function(named_calls(60, BODY)))),
        ".debug_abbrev": (1, "", ABBREVIATIONS[:-1] + many + b"\0"),
        ".debug_line": (1, "", program(ROWS_BEGIN + b"\x21" * 250 + ROWS_END)),
    })
    return one_file(folder, path, [CODE + at for at in range(2000)])


def shared_ranges(folder, size):
    """Inlined calls that all have one long list of ranges."""
    ranges = b"".join(struct.pack("<QQ", CODE + at % 7, CODE + CODE_BYTES) for at in range(size)) + bytes(16)
    calls = (b"\x09" + struct.pack("<II", 0, BODY)) * 200
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", unit(b"\7one\0" + function(calls))),
        ".debug_abbrev": (1, "", ABBREVIATIONS),
        ".debug_ranges": (1, "", ranges),
        ".debug_line": (1, "", program(ROWS_BEGIN + b"\x21" * 250 + ROWS_END)),
    })
    return one_file(folder, path, [CODE + at for at in range(200)])


def files(folder, size):
    """Lines of ever new source files, whose names are in a large head."""
    size //= 2
    rows = b"".join(b"\4" + uleb(1 + at) + b"\x21" for at in range(size))
    names = b"".join(b"%06d.c" % at + b"\0\0\0\0" for at in range(size))
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", unit(function(b""))),
        ".debug_abbrev": (1, "", ABBREVIATIONS),
        ".debug_line": (1, "", program(ROWS_BEGIN + rows + ROWS_END, names)),
    })
    return one_file(folder, path, [CODE + at for at in range(size)])


def units(folder, size):
    """Ever more units that have all code."""
    one = unit(function(named_calls(3, BODY)))
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", one * (size // 4)),
        ".debug_abbrev": (1, "", ABBREVIATIONS),
        ".debug_line": (1, "", program(ROWS_BEGIN + b"\x21" * 250 + ROWS_END)),
    })
    return one_file(folder, path, [CODE + at for at in range(200)])


def bare_units(count, entry=b"\1", version=4):
    """.debug_info of units that have one entry and share the table of abbreviations at 0."""
    data = struct.pack("<HIB", version, 0, 8) + entry
    return (struct.pack("<I", len(data)) + data) * count


def attributes(folder, size):
    """Ever more units of a few bytes, whose one entry has ever more attributes that take no bytes."""
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", bare_units(size * 4)),
        ".debug_abbrev": (1, "", b"\1\x11\0" + b"\x3f\x19" * (size * 25) + b"\0\0\0"),
    })
    return one_file(folder, path)


def large_tables(folder, size):
    """Ever more units of a few bytes, whose table of abbreviations is larger than any that is read."""
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", bare_units(size * 4)),
        ".debug_abbrev": (1, "", b"\1\x11\0" + b"\x3f\x19" * (size * 100) + b"\0\0\0"),
    })
    return one_file(folder, path)


def bases(folder, size):
    """Ever more units whose ranges are one long list, which has bases of addresses and no range."""
    base = struct.pack("<QQ", (1 << 64) - 1, CODE)
    path = elf(folder + ".elf", {
        ".debug_info": (1, "", bare_units(size * 2, b"\1" + bytes(4))),
        ".debug_abbrev": (1, "", b"\1\x11\0\x55\x17\0\0\0"),
        ".debug_ranges": (1, "", base * (size * 20) + bytes(16)),
    })
    return one_file(folder, path)


def links(folder, size):
    """Files whose debug links and alternate files are themselves, and each other in a circle."""
    trace = Trace(folder)
    below = folder + ".elf"
    os.makedirs(below)
    for at in range(size // 20):
        name, other = b"%d" % at, b"%d" % (at if at % 2 else (at + 2) % (size // 20))
        link = other + bytes(4 - len(other) % 4)
        path = elf(os.path.join(below, name.decode()), {
            ".symtab": (2, ".strtab", struct.pack("<IBBHQQ", 1, 2, 0, 1, CODE, 64)),
            ".strtab": (3, "", b"\0function\0"),
            ".gnu_debuglink": (1, "", link + struct.pack("<I", at)),
            ".gnu_debugaltlink": (1, "", other + b"\0" + bytes(20)),
        })
        trace.map(7, 0x10000 * (at + 1), 0x10000 * (at + 1) + (1 << 16), path, CODE)
        trace.sample(7, [0x10000 * (at + 1) + 8])
    return trace.end()


def objects(folder, size):
    """Ever more files, each with symbols and lines."""
    trace = Trace(folder)
    below = folder + ".elf"
    os.makedirs(below)
    symbol = b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, CODE + at, 1) for at in range(500))
    for at in range(size // 10):
        path = elf(os.path.join(below, str(at)), {
            ".symtab": (2, ".strtab", symbol),
            ".strtab": (3, "", b"\0function\0"),
            ".debug_info": (1, "", unit(function(b""))),
            ".debug_abbrev": (1, "", ABBREVIATIONS),
            ".debug_line": (1, "", program(ROWS_BEGIN + b"\x21" * 900 + ROWS_END)),
        })
        trace.map(7, 0x10000 * (at + 1), 0x10000 * (at + 1) + (1 << 16), path, CODE)
        trace.sample(7, [0x10000 * (at + 1) + 8])
    return trace.end()


def sections(folder, size):
    """Files of many sections, each of which is a note."""
    trace = Trace(folder)
    below = folder + ".elf"
    os.makedirs(below)
    note = struct.pack("<III", 4, 1 << 20, 9) + b"GNU\0" + bytes(1 << 16)
    for at in range(size // 1000):
        path = elf(os.path.join(below, str(at)), {f".note{number}": (7, "", note if number < 8 else b"") for number in range(60000)})
        trace.map(7, 0x10000 * (at + 1), 0x10000 * (at + 1) + (1 << 16), path, CODE)
        trace.sample(7, [0x10000 * (at + 1) + 8])
    return trace.end()


def packed(folder, size):
    """Symbols that are far larger when they are unpacked."""
    inner = elf(folder + ".elf", {
        ".symtab": (2, ".strtab", b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, CODE + at, 1) for at in range(size * 60))),
        ".strtab": (3, "", b"\0" + b"n" * 4000 + b"\0"),
    })
    with open(inner, "rb") as file:
        data = lzma.compress(file.read(), preset=1)
    path = elf(inner, {".gnu_debugdata": (1, "", data)})
    return one_file(folder, path, [CODE + at for at in range(2000)])


def bombs(folder, size):
    """Debug information that is some thousand times as large when it is unpacked, in files whose headers say so or not."""
    trace = Trace(folder)
    below = folder + ".elf"
    os.makedirs(below)
    zeros = zlib.compress(bytes(size * 8000), 9)
    for at in range(8):
        claimed = (size * 8000, 1 << 20, 1 << 40, len(zeros) * 60)[at % 4]
        header = struct.pack("<IIQQ", 1, 0, claimed, 1)
        older = at < 4
        path = elf(os.path.join(below, str(at)), {
            ".debug_info": (1, "", unit(function(b""))),
            ".debug_abbrev": (1, "", ABBREVIATIONS),
            ".zdebug_line" if older else ".debug_line": (1, "", (b"ZLIB" + struct.pack(">Q", claimed) if older else header) + zeros),
        }, compressed=() if older else (".debug_line",))
        trace.map(7, 0x10000 * (at + 1), 0x10000 * (at + 1) + (1 << 16), path, CODE)
        trace.sample(7, [0x10000 * (at + 1) + 8])
    return trace.end()


def inline_texts(folder, size):
    """A text of many bytes in a unit's first entry, which each name that is looked up reads again."""
    path = folder + ".elf"
    entry = b"\12" + b"n" * (size * 1000) + b"\0" + struct.pack("<QQI", CODE, CODE_BYTES, 0)
    functions = b"".join(b"\2" + struct.pack("<QQ", CODE + at * 16, 16) + b"f%d\0\0" % at for at in range(2000))
    data = struct.pack("<HIB", 4, 0, 8) + entry + functions + b"\0"
    elf(path, {
        ".debug_info": (1, "", struct.pack("<I", len(data)) + data),
        ".debug_abbrev": (1, "", ABBREVIATIONS[:-1] + bytes.fromhex("0a 11 01 03 08 11 01 12 07 10 17 00 00 00")),
        ".debug_line": (1, "", program(ROWS_BEGIN + b"\x13" * 16 + ROWS_END)),
    })
    return one_file(folder, path, [CODE + at * 16 for at in range(2000)])


KINDS = {
    kind.__name__: kind
    for kind in (
        inlined, blocks, rows, symbols, sparse, compressed, forks, changed_forks, places, paths, threads,
        abbreviations, stacks, waits, long_names, origins, shared_ranges, files, units, attributes,
        large_tables, bases, links, objects, sections, packed, bombs, inline_texts,
    )
}
# Every other one of these is tried today (share.py). The others take most of the time, and are tried by `make nightly`.
DAILY = (
    inlined, blocks, symbols, sparse, compressed, forks, changed_forks, threads, stacks, units, links, bombs,
)
SIZES = 10000, 20000
# What these have read again and again costs time and no memory, up to the limit of steps for each command that asks for
# names: two commands, and a small size to compare with.
AGAIN = attributes, large_tables, bases, inline_texts
SIZES_AGAIN = 100, 20000
COMMANDS = [
    ["view", "--debug-info", "--format", "text"],
    ["view", "--debug-info", "--format", "short"],
    ["view", "--format", "json"],
    ["stats"],
    ["analyze", "flame"],
    ["analyze", "flame", "--format", "json"],
    ["analyze", "threads"],
    ["analyze", "memory"],
    ["analyze", "offcpu"],
    ["export", "--to", "perfetto", "--force", "-o", os.path.join(FOLDER, "out")],
    ["export", "--to", "sqlite", "--force", "-o", os.path.join(FOLDER, "out.db")],
]


def peak(command, path):
    """The peak of a command's memory, and what is wrong with its end."""
    with open(os.path.join(FOLDER, "said"), "w+b") as said:
        with subprocess.Popen(
            [STRATA, *command, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
    why = ""
    if process.returncode not in (0, 1):
        why = f"exit status {process.returncode}"
    elif usage.ru_utime + usage.ru_stime > SECONDS:
        why = f"{usage.ru_utime + usage.ru_stime:.0f} s of CPU time"
    return usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime, why, text


def opened(command, path, program):
    """Whether a command opens a program that a trace names."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    if watch < 0 or libc.inotify_add_watch(watch, program.encode(), 0x20) < 0:
        sys.exit("inotify: " + os.strerror(ctypes.get_errno()))
    try:
        peak(command, path)
        return bool(os.read(watch, 4096))
    except BlockingIOError:
        return False
    finally:
        os.close(watch)


def no_symbols():
    """With --no-symbols no file that a trace names is opened, and `view` opens none without --debug-info."""
    bad = 0
    folder = os.path.join(FOLDER, "named")
    program = dwarf(folder + ".elf", function(b""))
    trace = Trace(folder)
    trace.map(7, 0x10000000, 0x20000000, program)
    for _ in range(2):
        trace.sample(7, [0x10000000 + CODE])
        trace.switch(7, 0, [0x10000000 + CODE, 0x10000001 + CODE])
        trace.switch(0, 7)
    path = trace.end()
    for command in COMMANDS:
        of_names = bool({"--debug-info", "flame", "memory", "offcpu", "perfetto", "sqlite"} & set(command))
        if opened([*command, "--no-symbols"] if of_names else command, path, program):
            bad += 1
            print(f"BAD strata {' '.join(command)}: the file is opened")
        # The trace has nothing about memory, and no wait that is long enough for a report.
        if of_names and not {"memory", "offcpu"} & set(command) and not opened(command, path, program):
            bad += 1
            print(f"BAD strata {' '.join(command)}: the file is not opened, so that nothing was tried")
    print("no_symbols: no file is opened" if not bad else "no_symbols: BAD", flush=True)
    return bad


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bad = no_symbols()
    kinds = KINDS if share.ALL else share.todays([kind.__name__ for kind in DAILY], 2)
    print("growth:", share.told(), flush=True)
    for name in sys.argv[3:] or kinds:
        is_again = KINDS[name] in AGAIN
        sizes = SIZES_AGAIN if is_again else SIZES
        made = [KINDS[name](os.path.join(FOLDER, f"{name}-{size}"), size) for size in sizes]
        highest, slowest = 0, 0
        for command in COMMANDS:
            if is_again and command not in (COMMANDS[0], ["analyze", "flame"]):
                continue
            if KINDS[name] is threads and command[0] in ("analyze", "export") and "flame" not in command:
                # What is kept of a thread is not of this test.
                continue
            (small, *_), (large, seconds, why, text) = (peak(command, path) for path in made)
            highest, slowest = max(highest, large), max(slowest, seconds)
            if not why and large > MOST:
                why = f"{large >> 20} MiB of memory, at most {MOST >> 20}"
            if not why and large - small > MORE:
                why = f"{small >> 20} and {large >> 20} MiB of memory for twice as much, at most {MORE >> 20} more"
            if why:
                bad += 1
                print(f"BAD {name}: strata {' '.join(command)} {made[1]}: {why}\n{text[:2000]}")
        for path in made:
            shutil.rmtree(path)
            if os.path.isdir(path + ".elf"):
                shutil.rmtree(path + ".elf")
            elif os.path.exists(path + ".elf"):
                os.unlink(path + ".elf")
        print(f"{name}: at most {highest >> 20} MiB, {slowest:.1f} s", flush=True)
    sys.exit(1 if bad else 0)


main()
