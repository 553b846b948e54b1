"""seeds.py TARGET FOLDER: writes what the target's fuzzing begins with, small inputs that are as they should be."""

import os
import re
import struct
import subprocess
import sys

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
    return [whole, bytes([0, 1]) + first + sites + described, bytes([0, 1]) + struct.pack(
        "<HHHBB", 0, len(empty), 0, 0, 3) + empty]


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


SEEDS = {"metadata": metadata, "packets": packets, "trace": trace, "filter": filters, "format": formats,
         "application": applications, "elf": elves}


def main():
    for number, seed in enumerate(SEEDS.get(sys.argv[1], list)()):
        with open(os.path.join(sys.argv[2], f"seed_{number:03}"), "wb") as file:
            file.write(seed)


main()
