"""Metadata and packets made to exhaust memory, stack or time: name -> ({file: bytes}, exit statuses)."""

import os
import struct

import damaged_trace
from writer import Array, Event, Int, Str, Struct, Trace, u8, u64

HEAD = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n"
TAIL = '\nstream { };\nevent { name = "x"; fields := struct { integer { size = 8; } n; }; };\n'


def text(body, statuses=(2,), tail=TAIL):
    """A trace of this metadata, and a stream of some bytes."""
    return {"metadata": (HEAD + body + tail).encode(), "stream": bytes(range(256)) * 4}, statuses


def fields(body, data=bytes(4096), statuses=(0, 2)):
    """A trace whose event has these fields."""
    tail = f'\nstream {{ }};\nevent {{ name = "x"; fields := struct {{ {body} }}; }};\n'
    return {
        "metadata": (
            HEAD
            + "typealias integer { size = 8; } := u8; typealias integer { size = 64; align = 8; } := u64;"
            + tail
        ).encode(),
        "stream": data,
    }, statuses


def sequence(length, element, data=b""):
    """A record with a sequence of so many elements, as it says; and two records in front."""
    trace = Trace("le")
    stream = trace.stream([Event("my:event", Struct(("n", u64()), ("s", Array(element, "n"))))])
    stream.packet([(1, 0, {"n": 0, "s": []}), (2, 0, {"n": 0, "s": []}), (3, 0, {"n": 0, "s": []})])
    at = len(stream.data) - 8
    stream.data[at:] = struct.pack("<Q", length) + data
    return damaged_trace.files(trace, indexed=False), (0, 2)


# Of packets without records: when the packet of a number begins and ends.
WITHOUT_RECORDS = {
    "untimed": None,
    "at_one_time": lambda n: (5, 5),
    "one_behind_the_other": lambda n: (10 * n, 10 * n + 5),
    "below_a_long_one": lambda n: (10 * n, 10 * n + 5 if n else 1 << 60),
}


def without_records(folder, kind, count):
    """Writes a trace of packets of 24 bytes, which are all header, with little memory."""
    times = WITHOUT_RECORDS[kind]
    context = "ts timestamp_begin; ts timestamp_end;" if times else "u64 x; u64 y;"
    metadata = (
        HEAD
        + "typealias integer { size = 32; align = 8; } := u32;\n"
        + "typealias integer { size = 64; align = 8; } := u64;\n"
        + "clock { name = c; freq = 1000000000; };\n"
        + "typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;\n"
        + f"stream {{ packet.context := struct {{ {context} u32 content_size; u32 packet_size; }};\n"
        + "event.header := struct { ts timestamp; }; };\n"
        + 'event { name = "x"; fields := struct { u32 n; }; };\n'
    )
    damaged_trace.write(folder, {"metadata": metadata.encode()})
    with open(os.path.join(folder, "stream"), "wb") as file:
        for number in range(count):
            file.write(struct.pack("<QQII", *(times(number) if times else (0, 0)), 192, 192))


def bombs():
    """All."""
    both = (0, 2)
    deep = 200000
    doubling = "typealias struct { integer { size = 8; } x; } := t0;\n" + "".join(
        f"typealias struct {{ t{n} a; t{n} b; }} := t{n + 1};\n" for n in range(60)
    )
    huge_sizes = damaged_trace.files(damaged_trace.make("le"), indexed=False)
    huge = bytearray(huge_sizes["stream_0"])
    huge[48:64] = struct.pack("<QQ", (1 << 63) - 8, (1 << 63) - 8)
    found = {
        "structures_deep": fields("struct { " * deep + "u8 x; " + "} s; " * deep),
        "structures_deep_open": text("struct { " * deep),
        "variants_deep": fields("enum : u8 { a } t; " + "variant <t> { " * deep + "u8 a; " + "} a; " * deep),
        "parentheses_deep": text("env { a = " + "(" * deep + "1" + ")" * deep + "; };", both),
        "minus_deep": text("env { a = " + "-" * deep + "1; };", both),
        "brackets_deep": fields("u8 x" + "[1]" * deep + ";"),
        "blocks_deep": text("trace { " * deep),
        "doubling": text(
            doubling, both, '\nstream { };\nevent { name = "x"; fields := struct { t60 n; }; };\n'
        ),
        "doubling_arrays": text(
            "typealias integer { size = 8; } := t0;\n"
            + "".join(f"typealias struct {{ t{n} a[1000]; }} := t{n + 1};\n" for n in range(30)),
            both,
            '\nstream { };\nevent { name = "x"; fields := struct { t30 n; }; };\n',
        ),
        "typealias_of_itself": text("typealias a := b; typealias b := a;"),
        "structure_of_itself": text(
            "struct s { struct s x; };\n",
            both,
            '\nstream { };\nevent { name = "x"; fields := struct { struct s n; }; };\n',
        ),
        "array_huge": fields("u8 x[18446744073709551615];"),
        "array_huge_of_huge": fields("u8 x[4294967296][4294967296][4294967296];"),
        "array_huge_of_nothing": fields("struct { } x[18446744073709551615];"),
        "array_many_of_nothing": fields("struct { } x[100000000];"),
        "array_of_arrays_of_nothing": fields("u8 x[100000][100000][0];"),
        "sequence_huge_of_nothing": fields("u64 n; struct { } x[n];", b"\xff" * 8 + bytes(100)),
        "sequence_many_of_nothing": fields("u64 n; struct { } x[n];", struct.pack("<Q", 300000000) * 100),
        "sequence_of_sequences_of_nothing": fields(
            "u64 n; struct { u8 y[0]; } x[n][n];", struct.pack("<Q", 100000) * 100
        ),
        "sequence_huge": sequence((1 << 64) - 1, u8()),
        "sequence_huge_of_bits": sequence((1 << 64) - 1, Int(1)),
        "sequence_huge_wraps": sequence(1 << 61, u64(), bytes(64)),
        "sequence_huge_of_texts": sequence((1 << 64) - 1, Str(), b"\0" * 5000),
        "records_of_nothing": (
            {"metadata": (HEAD + '\nstream { };\nevent { name = "x"; };\n').encode(), "stream": bytes(4096)},
            both,
        ),
        "records_of_empty_structures": fields("struct { } x;"),
        "integer_huge": text("typealias integer { size = 18446744073709551615; } := x;"),
        "integer_of_no_bits": fields("integer { size = 0; } x;"),
        "alignment_huge": fields("integer { size = 8; align = 2147483648; } x;"),
        "alignment_too_huge": text(
            "typealias integer { size = 8; align = 9223372036854775808; } := x;", both
        ),
        "alignment_of_nothing": text("typealias integer { size = 8; align = 0; } := x;", both),
        "alignment_odd": text("typealias integer { size = 8; align = 3; } := x;", both),
        "number_huge": text("env { a = " + "9" * 100000 + "; };", both),
        "name_huge": fields("u8 " + "x" * 5000000 + ";", bytes(2)),
        "text_huge": text('env { a = "' + "x" * 20000000 + '"; };', both),
        "text_open": text('env { a = "' + "x" * 1000000, (2,), ""),
        "comment_open": text("/* " + "x" * 1000000, (2,), ""),
        "spaces": text(" " * 30000000, both),
        "semicolons": text("env { " + ";" * 3000000 + " };", both),
        "labels_many": fields("enum : u8 { " + ", ".join(f"L{n}" for n in range(300000)) + " } x;"),
        "labels_many_times": text(
            "enum e : integer { size = 32; } { " + ", ".join(f"label_{n}" for n in range(5000)) + " };\n",
            both,
            '\nstream { };\nevent { name = "x"; fields := struct { '
            + " ".join(f"enum e f{n};" for n in range(4000))
            + " }; };\n",
        ),
        "members_many": fields(" ".join(f"u8 m{n};" for n in range(200000))),
        "members_many_shown": fields(" ".join(f"u8 m{n};" for n in range(20000)), bytes(20000)),
        "events_many": text(
            "",
            both,
            "\nstream { };\n"
            + "".join(
                f'event {{ name = "e{n}"; id = {n}; fields := struct {{ integer {{ size = 8; }} a; string s; }}; }};\n'
                for n in range(50000)
            ),
        ),
        "streams_many": text("", both, "".join(f"stream {{ id = {n}; }};\n" for n in range(100000))),
        "clocks_many": text(
            "".join(f"clock {{ name = c{n}; freq = {n + 1}; }};\n" for n in range(50000)), both
        ),
        "clock_of_no_frequency": text("clock { name = c; freq = 0; };", both),
        "clock_wild": text(
            "clock { name = c; freq = 1; offset_s = 9223372036854775807; offset = 18446744073709551615; };",
            both,
        ),
        "environment_many": text("env { " + "".join(f"v{n} = {n};" for n in range(200000)) + " };", both),
        "aliases_many": text(
            "".join(f"typealias integer {{ size = 8; }} := a{n};\n" for n in range(200000)), both
        ),
        "aliases_chained": text(
            "typealias integer { size = 8; } := a0;\n"
            + "".join(f"typealias a{n} := a{n + 1};\n" for n in range(50000)),
            both,
            '\nstream { };\nevent { name = "x"; fields := struct { a50000 n; }; };\n',
        ),
        "bytes_of_all_kinds": ({"metadata": bytes(range(256)) * 4000, "stream": bytes(100)}, (2,)),
        "metadata_packets_huge": (
            {
                "metadata": struct.pack(
                    "<I16sIIIBBBBB", 0x75D11D57, bytes(16), 0, 0xFFFFFFF8, 0xFFFFFFF8, 0, 0, 0, 1, 8
                ),
                "stream": b"",
            },
            (2,),
        ),
        "metadata_packets_empty": (
            {
                "metadata": struct.pack("<I16sIIIBBBBB", 0x75D11D57, bytes(16), 0, 0, 0, 0, 0, 0, 1, 8)
                * 1000,
                "stream": b"",
            },
            (2,),
        ),
        "packet_huge": (dict(huge_sizes, stream_0=bytes(huge)), (2,)),
        "environment_of_wrong_types": text(
            'env { hostname = 5; procname = 6; vpid = "x"; domain = 7; };', both
        ),
        "wrong_major": (
            {
                "metadata": b"/* CTF 9.9 */\ntrace { major = 9; minor = 9; byte_order = le; };"
                + TAIL.encode(),
                "stream": b"",
            },
            both,
        ),
        "no_trace_block": ({"metadata": b"/* CTF 1.8 */" + TAIL.encode(), "stream": bytes(10)}, both),
    }
    return found
