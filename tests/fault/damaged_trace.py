"""A small trace of several streams, whole and damaged, for damaged.py."""

import os
import struct
import sys
import threading
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
# pylint: disable=wrong-import-position
from writer import (
    Array,
    Enum,
    Event,
    Int,
    Real,
    Str,
    Struct,
    Trace,
    Variant,
    char,
    compact,
    packetise,
    u8,
    u16,
    u64,
)  # noqa: E402

INDEX_HEAD = struct.Struct(">IIII")
INDEX_ENTRY = struct.Struct(">QQQQQQQQQ")


def make(order="le", copy=0):
    """Two kinds of streams, three streams, three packets each; every kind of field."""
    # Those of one UUID are parts of one trace: no few bits make one of another.
    trace = Trace(order, uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, str(copy))))
    trace.more += f'\nenv {{ hostname = "h"; vpid = {copy}; }};'
    tag = Enum(u8(), [("a", 0), ("b", 1, 3)])
    payload = Struct(
        ("_n", u16()),
        ("_bits", Int(5)),
        ("_text", Str()),
        ("_length", u8()),
        ("_seq", Array(u16(), "_length")),
        ("_fixed", Array(char(), 4)),
        ("_tag", tag),
        ("_v", Variant("_tag", ("a", u64()), ("b", Str()))),
        ("_real", Real(64)),
    )
    first = trace.stream(
        [Event("my:all", payload), Event("my:small", Struct(("_n", u8())))], instance=0, header=compact()
    )
    second = trace.stream([Event("other:event", Struct(("_x", u8()), ("_s", Str())))], number=1, instance=7)
    trace.another(first, 1)
    for k, stream in enumerate(trace.files):
        for packet in range(3):
            records = []
            for n in range(4):
                number = 100 * packet + 10 * n + k
                if stream is second:
                    records.append(
                        (1000 * packet + 10 * n + k, 0, {"_x": number % 256, "_s": f"text {number}"})
                    )
                elif n % 2:
                    records.append((1000 * packet + 10 * n + k, 1, {"_n": number % 256}))
                else:
                    value = {
                        "_n": number,
                        "_bits": n,
                        "_text": f"number {number}",
                        "_length": n,
                        "_seq": list(range(n)),
                        "_fixed": b"abc\0",
                        "_tag": n % 3,
                        "_v": ("b", "variant") if n % 3 else ("a", number),
                        "_real": number / 8,
                    }
                    records.append((1000 * packet + 10 * n + k, 0, value))
            stream.packet(records, padding=64 if packet == 1 else 0, cpu_id=k)
    return trace


def index_of(stream, first=0):
    """Its index file, as LTTng writes it beside; `first`: time of its first event."""
    text = INDEX_HEAD.pack(0xC1F1DCC1, 1, 1, INDEX_ENTRY.size)
    for number, (begin, ends) in enumerate(stream.packets):
        end = stream.packets[number + 1][0] if number + 1 < len(stream.packets) else len(stream.data)
        text += INDEX_ENTRY.pack(
            begin,
            (end - begin) * 8,
            ends[-1],
            1000 * number + first,
            1000 * number + 30 + first,
            0,
            stream.number,
            stream.instance or 0,
            number,
        )
    return text


def files(trace, packetised=False, indexed=True):
    """{name: bytes} of its folder."""
    text = trace.metadata()
    found = {"metadata": packetise(text, trace.order) if packetised else text}
    for number, stream in enumerate(trace.files):
        found[f"stream_{number}"] = bytes(stream.data)
        if indexed:
            found[f"index/stream_{number}.idx"] = index_of(stream, number)
    return found


# Held while a file is open for writing, and while a process is started: a child has its parent's files until it
# executes, and a file that somebody writes is no damaged one.
WRITING = threading.Lock()


def write(folder, contents):
    """A folder with these files."""
    for name, data in contents.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with WRITING, open(path, "wb") as file:
            file.write(data)
