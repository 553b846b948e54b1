"""Traces of CTF 2, written by hand: each field class that CTF 1.8 has not, and each way to say where another
field is. NAME -> function(path), which writes the trace's folder.

Nothing here knows how Strata writes or reads a trace: what is right is what babeltrace2 2.1 reads.
"""

import json
import os
import struct

from writer import Bits

TRACES = {}
# What babeltrace2 refuses: NAME -> (function(path), the payloads as text).
BEYOND = {}
ORDERS = {"le": "little-endian", "be": "big-endian"}
BIT_ORDERS = {"le": "first-to-last", "be": "last-to-first"}


def fixed(kind, width, align=None, order="le", bits=None, **more):
    """A class of a fixed number of bits."""
    made = {"type": f"fixed-length-{kind}", "length": width, "byte-order": ORDERS[order], **more}
    made["alignment"] = align or (8 if width % 8 == 0 else 1)
    if bits:
        made["bit-order"] = BIT_ORDERS[bits]
    return made


def unsigned(width, **more):
    return fixed("unsigned-integer", width, **more)


def role(width, name, **more):
    return unsigned(width, roles=[name], **more)


def structure(*members, **more):
    members = [{"name": name, "field-class": made} for name, made in members]
    return {"type": "structure", "member-classes": members, **more}


def at(*path, origin=None):
    """A field location."""
    return {"path": list(path), **({"origin": origin} if origin else {})}


def optional(location, made, ranges=None):
    more = {"selector-field-ranges": ranges} if ranges else {}
    return {"type": "optional", "selector-field-location": location, "field-class": made, **more}


def variant(location, *options):
    """Options are (name or None, ranges, class)."""
    made = []
    for name, ranges, inside in options:
        option = {"selector-field-ranges": ranges, "field-class": inside}
        made.append({"name": name, **option} if name else option)
    return {"type": "variant", "selector-field-location": location, "options": made}


def static(kind, length, **more):
    return {"type": f"static-length-{kind}", "length": length, **more}


def dynamic(kind, location, **more):
    return {"type": f"dynamic-length-{kind}", "length-field-location": location, **more}


CONTEXT = structure(
    ("total", role(64, "packet-total-length")),
    ("content", role(64, "packet-content-length")),
    ("begin", role(64, "default-clock-timestamp")),
    ("end", role(64, "packet-end-default-clock-timestamp")),
)
HEADER = structure(("id", role(8, "event-record-class-id")), ("time", role(64, "default-clock-timestamp")))
CLOCK = {
    "type": "clock-class",
    "id": "c",
    "frequency": 1000000000,
    "origin": "unix-epoch",
    "offset-from-origin": {"seconds": 1600000000, "cycles": 5},
}


def write(path, payload, records, before=(), event=(), stream=(), context=b""):
    """A trace of one kind of event record, whose parts behind the header are `records`."""
    os.makedirs(path)
    fragments = [
        {"type": "preamble", "version": 2, "uuid": list(range(16))},
        *before,
        CLOCK,
        {
            "type": "data-stream-class",
            "default-clock-class-id": "c",
            "packet-context-field-class": CONTEXT,
            "event-record-header-field-class": HEADER,
            **dict(stream),
        },
        {"type": "event-record-class", "name": "my:event", "payload-field-class": payload, **dict(event)},
    ]
    with open(os.path.join(path, "metadata"), "w", encoding="utf-8") as file:
        for fragment in fragments:
            file.write("\x1e" + json.dumps(fragment, ensure_ascii=False) + "\n")
    body = context
    for number, record in enumerate(records):
        body += b"\0" + struct.pack("<Q", 1000 * number) + record
    bits = (32 + len(body)) * 8
    with open(os.path.join(path, "stream"), "wb") as file:
        file.write(struct.pack("<QQQQ", bits, bits, 0, 1000 * len(records)) + body)


def bits_of(*parts):
    """(value, width, order) one behind the other."""
    made = Bits("le")
    for value, width, order in parts:
        made.put(value, width, order)
    return bytes(made.data)


def add(name, members, records, **more):
    """A trace with these members of its payload."""
    TRACES[name] = lambda path: write(path, structure(*members), records, **more)


FLAGS = {"zed": [[0, 0]], "low": [[0, 3]], "b4": [[4, 4]], "two": [[6, 6], [9, 10]]}
add(
    "bit_arrays_and_maps",
    [
        ("eight", fixed("bit-array", 8)),
        ("three", fixed("bit-array", 3)),
        ("thirteen", fixed("bit-array", 13)),
        ("all", fixed("bit-array", 64)),
        ("map", fixed("bit-map", 16, flags=FLAGS)),
    ],
    [
        bytes([0xA5]) + bits_of((5, 3, "le"), (0x1234, 13, "le")) + struct.pack("<QH", number << 60 | 1, value)
        for number, value in enumerate((0, 1, 0x10, 0x651, 0xF800, 0xFFFF))
    ],
)
add(
    "booleans",
    [(f"b{width}", fixed("boolean", width, align=8)) for width in (1, 7, 8, 16, 64)],
    [b"\x01\x40\x80" + struct.pack("<HQ", 0x100, 1 << 63), bytes(13)],
)
for _order in ORDERS:
    for _bits in BIT_ORDERS:
        _kind = {"order": _order, "bits": _bits, "preferred-display-base": 16}
        add(
            f"bit_order_{_order}_{_bits}",
            [
                ("a", unsigned(3, **_kind)),
                ("b", unsigned(13, **_kind)),
                ("c", unsigned(16, **_kind)),
                ("d", fixed("signed-integer", 5, **_kind)),
                ("e", unsigned(27, **_kind)),
                ("f", fixed("floating-point-number", 32, order=_order, bits=_bits)),
                ("g", fixed("floating-point-number", 64, order=_order, bits=_bits)),
                ("h", fixed("boolean", 8, order=_order, bits=_bits)),
            ],
            [bytes((17 * byte + 3 * turn) & 0xFF for byte in range(21)) for turn in range(1, 9)],
        )


def leb(value):
    """A LEB128 integer of least length."""
    out = b""
    while True:
        low, value = value & 0x7F, value >> 7
        if value in (0, -1) and (value == -1) == bool(low & 0x40):
            return out + bytes([low])
        out += bytes([low | 0x80])


# babeltrace2 2.1 reads 9 bytes of them at most.
NUMBERS = [0, 1, 63, 64, 127, 128, 300, 1 << 31, (1 << 62) - 1]
add(
    "variable_length_integers",
    [
        ("u", {"type": "variable-length-unsigned-integer"}),
        ("s", {"type": "variable-length-signed-integer"}),
        ("x", {"type": "variable-length-unsigned-integer", "preferred-display-base": 16}),
        ("o", {"type": "variable-length-signed-integer", "preferred-display-base": 8}),
        ("b", {"type": "variable-length-unsigned-integer", "preferred-display-base": 2}),
        (
            "e",
            {
                "type": "variable-length-signed-integer",
                "mappings": {"neg": [[-128, -1]], "one": [[1, 1], [3, 4]], "Ünïcode \"q\"": [[0, 0]]},
            },
        ),
        ("n", unsigned(8)),
    ],
    [
        b"".join(map(leb, (number, -number, number, -number, number, -number))) + b"\x07" for number in NUMBERS
    ]
    # With more bytes than it needs.
    + [b"\x80\x80\x00" + b"\xff\xff\x7f" + leb(1) + leb(2) + leb(3) + leb(4) + b"\x08"],
)
for _name, _unit in {"utf-8": 1, "utf-16le": 2, "utf-16be": 2, "utf-32le": 4, "utf-32be": 4}.items():
    _text = "hé€😀 \"x\"\n".encode(_name)
    add(
        f"texts_of_{_name}",
        [
            ("nul", {"type": "null-terminated-string", "encoding": _name}),
            ("static", static("string", 4 * _unit, encoding=_name)),
            ("n", unsigned(8)),
            ("dynamic", dynamic("string", at("n"), encoding=_name)),
            ("last", {"type": "null-terminated-string", "encoding": _name}),
        ],
        [
            _text + bytes(_unit) + "a".encode(_name) + bytes(3 * _unit) + bytes([len(_text)]) + _text + bytes(_unit),
            bytes(_unit) + "abcd".encode(_name) + b"\0" + "z".encode(_name) + bytes(_unit),
        ],
    )
add(
    "blobs",
    [
        ("static", static("blob", 5, **{"media-type": "image/png"})),
        ("n", unsigned(16)),
        ("dynamic", dynamic("blob", at("n"))),
        ("last", unsigned(8)),
    ],
    [b"\x00\x01\x02\xff\x10" + struct.pack("<H", n) + bytes(range(n)) + b"\x09" for n in (0, 1, 16, 200)],
)
add(
    "optional_by_boolean",
    [("on", fixed("boolean", 8)), ("of_bool", optional(at("on"), unsigned(8))), ("last", unsigned(8))],
    [b"\x01\x11\x16", b"\x00\x16", b"\x80\x11\x16"],
)
add(
    "optional_by_unsigned",
    [
        ("n", unsigned(8)),
        ("o", optional(at("n"), structure(("x", unsigned(8))), [[1, 2], [200, 255]])),
        ("last", unsigned(8)),
    ],
    [b"\x02\x12\x16", b"\x00\x16", b"\xc8\x12\x16", b"\xc7\x16"],
)
add(
    "optional_by_signed",
    [
        ("s", fixed("signed-integer", 8)),
        ("o", optional(at("s"), {"type": "null-terminated-string"}, [[-128, -1]])),
        ("last", unsigned(8)),
    ],
    [b"\xfftext\0\x16", b"\x05\x16", b"\x80more\0\x16"],
)
add(
    "optional_in_array",
    [
        ("on", fixed("boolean", 8)),
        ("a", static("array", 2, **{"element-field-class": optional(at("on"), unsigned(8))})),
        ("last", unsigned(8)),
    ],
    [b"\x01\x13\x14\x16", b"\x00\x16"],
)
add(
    "variants",
    [
        ("n", unsigned(8)),
        ("s", {"type": "variable-length-signed-integer"}),
        ("v", variant(at("n"), ("a", [[0, 0], [5, 9]], unsigned(8)), (None, [[1, 4]], unsigned(16)))),
        ("w", variant(at("s"), ("neg", [[-100, -1]], structure(("x", unsigned(8)))), ("pos", [[0, 99]], structure()))),
        ("last", unsigned(8)),
    ],
    [b"\x00\x7f\x21\x22\x23", b"\x05\x00\x21\x23", b"\x04\x3f\x21\x22\x23"],
)
# Lengths and selectors that are in several options: the field of the one that is there counts.
add(
    "places_in_several_options",
    [
        ("t", unsigned(8)),
        (
            "v",
            variant(
                at("t"),
                ("one", [[1, 1]], structure(("n", unsigned(8)), ("s", {"type": "null-terminated-string"}))),
                ("two", [[2, 2]], structure(("s", {"type": "null-terminated-string"}), ("n", unsigned(16)))),
                (
                    "in",
                    [[3, 4]],
                    structure(
                        ("n", variant(at(None, "t"), ("a", [[3, 3]], unsigned(8)), ("b", [[4, 4]], unsigned(32))))
                    ),
                ),
            ),
        ),
        ("text", dynamic("string", at("v", "n"))),
        ("array", dynamic("array", at("v", "n"), **{"element-field-class": unsigned(8)})),
        ("choice", variant(at("v", "n"), ("none", [[0, 0]], unsigned(8)), ("some", [[1, 9]], unsigned(16)))),
        ("maybe", optional(at("v", "n"), unsigned(8), [[2, 2]])),
        ("last", unsigned(8)),
    ],
    [
        b"\x01\x01s\0x\x21\x22\x23\x24",
        b"\x02s\0\x02\0xy\x21\x22\x23\x24\x25\x26",
        b"\x03\x00\x23\x24",
        b"\x04\x02\0\0\0xy\x21\x22\x23\x24\x25\x26",
    ],
)
add(
    "places_relative_and_absolute",
    [
        ("n", unsigned(8)),
        (
            "s",
            structure(
                ("n", unsigned(8)),
                ("own", dynamic("array", at("n"), **{"element-field-class": unsigned(8)})),
                ("up", dynamic("array", at(None, "n"), **{"element-field-class": unsigned(8)})),
                ("whole", dynamic("blob", at("n", origin="event-record-payload"))),
                (
                    "each",
                    static(
                        "array",
                        2,
                        **{
                            "element-field-class": structure(
                                ("n", unsigned(8)),
                                ("own", dynamic("string", at("n"))),
                                ("up", dynamic("string", at(None, "n"))),
                            )
                        },
                    ),
                ),
            ),
        ),
        ("inside", dynamic("string", at("s", "n"))),
    ],
    [b"\x02" + b"\x01" + b"\x11" + b"\x21\x22" + b"\x31\x32" + b"\x03abc" + b"d" + b"\x00" + b"g" + b"j"],
)
add(
    "places_in_other_parts",
    [
        ("of_packet", dynamic("string", at("len", origin="packet-context"))),
        ("of_common", dynamic("string", at("len", origin="event-record-common-context"))),
        ("of_specific", dynamic("string", at("len", origin="event-record-specific-context"))),
        ("of_header", dynamic("blob", at("id", origin="event-record-header"))),
    ],
    [b"\x02\x03" + b"a" + b"bc" + b"def"],
    stream={
        "packet-context-field-class": structure(
            *((member["name"], member["field-class"]) for member in CONTEXT["member-classes"]),
            ("len", unsigned(8)),
        ),
        "event-record-common-context-field-class": structure(("len", unsigned(8))),
    },
    event={"specific-context-field-class": structure(("len", unsigned(8)))},
    context=b"\x01",
)
add(
    "aliases",
    [("a", "byte"), ("b", "pair"), ("c", dynamic("array", at("a"), **{"element-field-class": "pair"}))],
    [b"\x02\x01\x02\x03\x04\x05\x06", b"\x00\x01\x02"],
    before=[
        {"type": "field-class-alias", "name": "byte", "field-class": unsigned(8)},
        {"type": "field-class-alias", "name": "pair", "field-class": structure(("x", "byte"), ("y", "byte"))},
    ],
)
add(
    "alignments",
    [
        ("a", unsigned(8)),
        ("s", structure(("x", unsigned(8)), **{"minimum-alignment": 64})),
        ("b", static("array", 2, **{"minimum-alignment": 32, "element-field-class": unsigned(8)})),
        ("c", unsigned(12, align=16)),
        ("d", {"type": "variable-length-unsigned-integer"}),
    ],
    # The record's header ends behind byte 40 of the packet.
    [bytes(7) + b"\x01" + bytes(7) + b"\x02" + bytes(3) + b"\x03\x04" + b"\x05\x00" + b"\x06"],
)
add(
    "names_and_attributes",
    [("a b", unsigned(8)), ("x.y", unsigned(8)), ("é\"", unsigned(8)), ("_u", unsigned(8))],
    [b"\x01\x02\x03\x04"],
    event={
        "namespace": "a.space",
        "uid": "some",
        "name": "an event: {",
        "attributes": {"babeltrace.org,2020": {"log-level": "debug-line", "emf-uri": "x:y"}, "other": [1, None]},
    },
)


# Numbers that are too long to compute with are their bytes, whatever their order.
LONG = {
    name: fixed(kind, width, align=align, order=order)
    for name, kind, width, align, order in (
        ("u", "unsigned-integer", 128, 64, "le"),
        ("s", "signed-integer", 72, 8, "be"),
        ("f", "floating-point-number", 128, 8, "le"),
        ("b", "boolean", 80, 16, "be"),
    )
}
BEYOND["numbers_of_more_than_64_bits"] = (
    # The record's header ends behind byte 41 of the packet.
    lambda path: write(
        path,
        structure(*LONG.items(), ("last", unsigned(8))),
        [bytes(7) + bytes(range(16)) + bytes(range(9)) + bytes(range(16)) + bytes(1) + bytes(range(10)) + b"\x07"],
    ),
    [
        "u = { 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f }, s = { 00 01 02 03 04 05 06 07 08 }, "
        "f = { 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f }, b = { 00 01 02 03 04 05 06 07 08 09 }, last = 7"
    ],
)
