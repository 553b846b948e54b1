"""Traces of integers, reals, enumerations and texts, one small trace for each construct:
NAME -> function(order) -> Trace."""

import random

from writer import Array, Enum, Event, Instead, Int, Raw, Real, Str, Struct, Trace, char, u8, u16, u64

CONSTRUCTS = {}


def construct(function):
    """It is one."""
    CONSTRUCTS[function.__name__] = function
    return function


def trace_of(order, payload, values, **more):
    """One kind of event record with this payload, and one record for each value."""
    trace = Trace(order, **more)
    stream = trace.stream([Event("my:event", payload)])
    stream.packet([(1000 * number, 0, value) for number, value in enumerate(values)])
    return trace


def interesting(width, signed):
    """Values of an integer."""
    least, greatest = Int(width, signed).range()
    pattern = 0xA5C3F00F12345678 & greatest
    return sorted({least, greatest, 0, 1 & greatest, pattern, greatest >> 1, -1 if signed else greatest - 1})


def odd_offsets(signed):
    """Each width behind 1, 3 and 7 bits."""

    def make(order):
        members = []
        for width in range(1, 65):
            for before in (1, 3, 7):
                members += [
                    (f"_p{width}_{before}", Int(before, align=8)),
                    (f"_i{width}_{before}", Int(width, signed, align=1)),
                ]
        payload = Struct(*members)
        records = []
        for turn in range(6):
            record = {}
            for name, kind in members:
                values = interesting(kind.width, kind.signed)
                record[name] = values[turn % len(values)]
            records.append(record)
        return trace_of(order, payload, records)

    return make


CONSTRUCTS["integers_unsigned_of_all_widths"] = odd_offsets(False)
CONSTRUCTS["integers_signed_of_all_widths"] = odd_offsets(True)


@construct
def integers_one_behind_the_other(order):
    """No alignment at all: each begins where the other ended."""
    rng = random.Random(1)
    members = [(f"f{n}", Int(rng.randint(1, 64), rng.random() < 0.5, align=1)) for n in range(120)]
    values = [{name: rng.randint(*kind.range()) for name, kind in members} for _ in range(5)]
    return trace_of(order, Struct(*members), values)


@construct
def integers_of_whole_bytes(order):
    members = []
    for width in (8, 16, 24, 32, 40, 48, 56, 64):
        for signed in (False, True):
            for align in (1, 8, 16, 32, 64):
                members.append((f"_{'s' if signed else 'u'}{width}_{align}", Int(width, signed, align=align)))
    records = []
    for turn in range(6):
        records.append({name: interesting(kind.width, kind.signed)[turn % 4] for name, kind in members})
    return trace_of(order, Struct(*members), records)


@construct
def integers_alignment(order):
    members = []
    for align in (1, 2, 4, 8, 16, 32, 64, 128):
        for width in (1, 3, 7, 8, 13, 16, 32, 33, 64):
            members.append((f"a{align}_{width}", Int(width, align=align)))
    values = [
        {name: value % (1 << kind.width) for name, kind in members}
        for value in (0, 1, 0xFFFFFFFFFFFFFFFF, 0x5A5A)
    ]
    return trace_of(order, Struct(*members), values)


HEXADECIMAL = (16, "x", "X", "hex", "hexadecimal", "p")


@construct
def integers_hexadecimal_of_almost_64_bits(order):
    """They are shown as 64 bits."""
    values = [-1, -2, -(1 << 60), 0, 5, (1 << 60) - 1, -0x123456789ABCDEF]
    traces = []
    for shown in (False, True):
        payload = Struct(
            *[
                (f"{sign}{width}", Int(64 if shown else width, sign == "s", base=16))
                for width in (61, 62, 63)
                for sign in "su"
            ]
        )
        traces.append(
            trace_of(
                order,
                payload,
                [
                    {
                        f"{sign}{width}": value if sign == "s" else value & (1 << 61) - 1
                        for width in (61, 62, 63)
                        for sign in "su"
                    }
                    for value in values
                ],
            )
        )
    return Instead(traces[0], traces[1], None, "babeltrace2 shifts by 64")


@construct
def integers_base(order):
    members = []
    for base in (
        2,
        8,
        10,
        16,
        "d",
        "x",
        "X",
        "o",
        "b",
        "u",
        "i",
        "p",
        "decimal",
        "hex",
        "octal",
        "binary",
        "hexadecimal",
        "dec",
        "oct",
    ):
        for width in (1, 3, 8, 11, 32, 60, 63, 64):
            for signed in (False, True):
                if width == 63 and base in HEXADECIMAL:
                    continue
                members.append((f"b{base}_{width}_{int(signed)}", Int(width, signed, base=base)))
    records = []
    for turn in range(7):
        records.append(
            {
                name: interesting(kind.width, kind.signed)[turn % len(interesting(kind.width, kind.signed))]
                for name, kind in members
            }
        )
    return trace_of(order, Struct(*members), records)


@construct
def integers_byte_order(order):
    """The other byte order in whole bytes."""
    members = []
    for width in (8, 16, 24, 32, 40, 48, 56, 64):
        for own in ("le", "be", "network", "native"):
            for signed in (False, True):
                members.append(
                    (
                        f"i{width}_{own}_{int(signed)}",
                        Raw(
                            Int(width, signed, order=own).tsdl(),
                            Int(width, signed, order={"network": "be", "native": None}.get(own, own)),
                        ),
                    )
                )
    values = [
        {name: value % (1 << kind.kind.width) for name, kind in members}
        for value in (0x0123456789ABCDEF, 0xFEDCBA9876543210, 1, 0x8000000000000000)
    ]
    return trace_of(order, Struct(*members), values)


@construct
def integers_byte_order_odd_widths(order):
    """The other byte order in bits, whole bytes at a time."""
    other = "be" if order == "le" else "le"
    members = []
    for first in range(1, 8):
        members += [
            (f"a{first}", Int(first, align=8, order=other)),
            (f"b{first}", Int(16 - first, align=1, order=other)),
            (f"c{first}", Int(16, align=8)),
        ]
        members += [
            (f"d{first}", Int(first, True, align=8, order=other)),
            (f"e{first}", Int(64 - first, True, align=1, order=other)),
            (f"f{first}", Int(16, True, align=8)),
        ]
    values = [
        {name: value % (1 << kind.width) for name, kind in members}
        for value in (0xDEADBEEFCAFEF00D, 1, 2, 0x5555)
    ]
    return trace_of(order, Struct(*members), values)


@construct
def integers_byte_order_behind_bits(order):
    """The other byte order at whole bytes, in records that have no member that is aligned to one."""
    other = "be" if order == "le" else "le"
    payload = Struct(
        ("_n", Int(4)),
        ("_x", Array(Int(4), "_n")),
        ("_y", Int(13, align=1, order=other)),
        ("_z", Int(11, align=1, order=other)),
        ("_w", Int(8, align=1)),
    )
    values = [{"_n": n, "_x": list(range(n)), "_y": 100 + n, "_z": 2000 + n, "_w": n} for n in (1, 3, 7, 15)]
    return trace_of(order, payload, values)


SINGLES = [
    0,
    0x80000000,
    0x3F800000,
    0xBF800000,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0xFFC00000,
    0x7FA00001,
    1,
    0x807FFFFF,
    0x00800000,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x40490FDB,
    0x3DCCCCCD,
    0x4B800000,
    0x358637BD,
    0x47F12000,
    0x49742400,
    0x49742408,
    0x38D1B717,
    0x37A7C5AC,
]
DOUBLES = [
    0,
    1 << 63,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    0xFFF8000000000000,
    0x7FF4000000000001,
    1,
    0x800FFFFFFFFFFFFF,
    0x0010000000000000,
    0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF,
]
REALS = [
    1.0,
    -1.0,
    3.141592653589793,
    0.1,
    1e-5,
    1e-4,
    1e5,
    1e6,
    123456.0,
    1234567.0,
    999999.5,
    9999995.0,
    0.0001234567,
    0.00001234567,
    1e15,
    1e16,
    1e17,
    1e21,
    1e22,
    1e100,
    1e-100,
    1e-300,
    2.5,
    0.5,
    100000.0,
    999999.0,
    1000000.0,
    99999.95,
    123456789.0,
    1 / 3,
    2 / 3,
    1e9,
    12345.678,
    2.5e-7,
    4.9e-324,
    1.5e300,
    65535.0,
    4294967296.0,
]


@construct
def reals(order):
    payload = Struct(("_f", Real(32, 32)), ("_d", Real(64, 64)))
    values = [{"_f": SINGLES[n % len(SINGLES)], "_d": value} for n, value in enumerate(DOUBLES + REALS)]
    rng = random.Random(2)
    values += [{"_f": rng.getrandbits(32), "_d": rng.getrandbits(64)} for _ in range(200)]
    values += [{"_f": rng.uniform(-1000, 1000), "_d": rng.uniform(-1e7, 1e7)} for _ in range(200)]
    values += [
        {"_f": float(rng.randint(0, 20000000)), "_d": round(rng.uniform(0, 1000), rng.randint(0, 9))}
        for _ in range(200)
    ]
    return trace_of(order, payload, values)


@construct
def reals_alignment_and_byte_order(order):
    other = "be" if order == "le" else "le"
    members = [
        ("b0", Int(3)),
        ("f1", Real(32, 1)),
        ("b1", Int(5)),
        ("d1", Real(64, 1)),
        ("f8", Real(32, 8)),
        ("b2", Int(1)),
        ("d8", Real(64, 8)),
        ("d16", Real(64, 16)),
        ("f16", Real(32, 16)),
        ("f32", Real(32, 32)),
        ("d64", Real(64, 64)),
        ("fo", Real(32, 32, other)),
        ("do", Real(64, 64, other)),
        ("fl", Real(32, 8, "le")),
        ("db", Real(64, 8, "be")),
    ]
    values = []
    for value in (1.0, -2.5, 0.1, 1e-10, 123456789.0):
        values.append({name: value if isinstance(kind, Real) else 1 for name, kind in members})
    return trace_of(order, Struct(*members), values)


@construct
def enumerations(order):
    few = [
        ("ZERO", 0),
        ("one", 1),
        ("_two", 2),
        ("SOME", 3, 7),
        ("MANY", 8, 100),
        ("with space", 101),
        ('quote"back\\slash', 102),
        ("", 103),
        ("123", 104),
        ("a:b.c", 105),
    ]
    overlapping = [("A", 0, 10), ("B", 5, 15), ("C", 7), ("D", 7, 7), ("A", 20), ("E", 0, 30)]
    negative = [("least", -128), ("some", -100, -1), ("zero", 0), ("over", -5, 5), ("most", 127)]
    implicit = ["a", "b", ("c", 10), "d", ("e", 20, 25), "f", ("g", 3), "h"]
    wide = [("big", 1 << 63), ("most", (1 << 64) - 1), ("low", 0, (1 << 63) - 1)]
    signed = [("least", -(1 << 63)), ("low", -(1 << 63) + 1, -2), ("minus", -1), ("high", 0, (1 << 63) - 1)]
    payload = Struct(
        ("_few", Enum(u8(), few)),
        ("_overlapping", Enum(Int(5, align=1), overlapping)),
        ("_negative", Enum(Int(8, True), negative)),
        ("_implicit", Enum(Int(7), implicit)),
        ("_wide", Enum(u64(), wide)),
        ("_signed", Enum(Int(64, True), signed)),
        ("_hex", Enum(u16(base=16), [("x", 255)])),
        ("_hexs", Enum(Int(16, True, base=16), [("x", -255)])),
        ("_one", Enum(Int(1), [("off", 0), ("on", 1)])),
    )
    values = []
    for n in range(256):
        values.append(
            {
                "_few": n,
                "_overlapping": n % 32,
                "_negative": n - 128,
                "_implicit": n % 128,
                "_wide": [0, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, (1 << 63) + 5][n % 5],
                "_signed": [-(1 << 63), -5, -1, 0, (1 << 63) - 1][n % 5],
                "_hex": n,
                "_hexs": -n,
                "_one": n % 2,
            }
        )
    return trace_of(order, payload, values)


@construct
def enumerations_wider_than_their_integer(order):
    """Values that the integer cannot have are of no record; those of a range that it can have are."""
    wide = [("a", 1), ("b", 300), ("c", 2), ("d", 250, 300), ("e", 1 << 40), "f"]
    signed = [("low", -300, -120), ("high", 100, 300), ("none", 200), ("other", -129)]
    payload = Struct(
        ("_wide", Enum(u8(), wide)),
        ("_signed", Enum(Int(8, True), signed)),
        ("_few", Enum(Int(3), [("a", 1), ("b", 9), ("c", 5, 20)])),
    )
    values = [{"_wide": n, "_signed": n - 128, "_few": n % 8} for n in range(256)]
    return trace_of(order, payload, values)


@construct
def enumerations_syntax(order):
    """Hexadecimal and octal numbers, a comma at the end, a named container, an enumeration by its tag."""
    types = """
    typealias integer { size = 8; } := small;
    enum tagged : small { A = 0x10, B = 020, C = 0X20 ... 0x2F, "d e" = 48, };
    typealias enum : integer { size = 16; align = 16; signed = true; } { M = -0x10, N = -5 ... -1, O } := alias;
    """
    payload = Struct(
        ("t", Raw("enum tagged", u8())),
        ("a", Raw("alias", Int(16, True, align=16))),
        ("s", Raw("enum inner : small { X, Y = 5, }", u8())),
        ("u", Raw("enum inner", u8())),
        ("elements", Array(Raw("enum tagged", u8()), 3)),
    )
    values = [
        {"t": n, "a": -n, "s": n, "u": 255 - n, "elements": [16, n, 48]}
        for n in (0, 1, 2, 5, 16, 32, 40, 47, 48, 49, 255)
    ]
    return trace_of(order, payload, values, types=types)


TEXTS = [
    "x",
    "hello world",
    "tab\tnewline\nreturn\r",
    "quote\" back\\slash 'single'",
    "bell\a\b\f\v\x1b[31mred\x1b[0m",
    "caf\u00e9 \u65e5\u672c\u8a9e \U0001f600",
    b"\xff\xfe invalid \xc3",
    b"\xc3\x28 \xe2\x82 \xf0\x90",
    b"\x80",
    "\x01\x02\x1f\x7f",
    b"\xc2\x85 nel \xe2\x80\xa8 ls",
    "%s %d {} $x",
    "?",
    "\\n",
    "a" * 5000,
    b"\xed\xa0\x80 surrogate \xc0\x80",
    " ",
    "'",
    '"',
    "\\",
    "\n",
]


@construct
def texts(order):
    payload = Struct(("_a", Str()), ("_b", Str("ASCII")), ("_c", Str("UTF8")), ("_n", u8()))
    values = [{"_a": text, "_b": text, "_c": text, "_n": 7} for text in TEXTS]
    return trace_of(order, payload, values)


@construct
def texts_behind_bits(order):
    """Texts begin with a whole byte."""
    payload = Struct(("a", Int(3)), ("s", Str()), ("b", Int(1)), ("t", Str()), ("e", Int(7)))
    return trace_of(order, payload, [{"a": 5, "s": text, "b": 1, "t": "end", "e": 100} for text in TEXTS])


@construct
def texts_of_every_byte(order):
    payload = Struct(("s", Str()), ("c", Array(char(), 3)))
    values = [{"s": b"<" + bytes([n]) + b">", "c": b"<" + bytes([n]) + b">"} for n in range(1, 256)]
    return trace_of(order, payload, values)


@construct
def texts_empty(order):
    """Empty ones, alone and behind others."""
    payload = Struct(("_s", Str()), ("_t", Str()), ("_n", u8()), ("_u", Str()))
    values = []
    for n in range(8):
        values.append(
            {
                "_s": "" if n & 1 else "one",
                "_t": "" if n & 2 else "other text",
                "_n": n,
                "_u": "" if n & 4 else "third",
            }
        )
    return trace_of(order, payload, values)


@construct
def text_arrays(order):
    payload = Struct(
        ("_a", Array(char(), 8)),
        ("_b", Array(char("ASCII"), 1)),
        ("_n", u8()),
        ("_s", Array(char(), "_n")),
        ("_e", u8()),
    )
    values = []
    for text in (
        b"hello",
        b"",
        b"12345678",
        b"a\0b\0c",
        b"\0hidden",
        b"caf\xc3\xa9",
        b"\xff\x80",
        b'q"\\\n\t',
    ):
        values.append(
            {"_a": text.ljust(8, b"\0"), "_b": text[:1].ljust(1, b"\0"), "_n": len(text), "_s": text, "_e": 9}
        )
    return trace_of(order, payload, values)


@construct
def text_arrays_of_no_bytes(order):
    payload = Struct(("n", u8()), ("s", Array(char(), "n")), ("z", Array(char(), 0)), ("e", u8()))
    return trace_of(
        order, payload, [{"n": len(s), "s": s, "z": b"", "e": 1} for s in (b"", b"x", b"", b"ab\0", b"")]
    )


@construct
def text_arrays_behind_bits(order):
    """They begin with a whole byte."""
    payload = Struct(
        ("a", Int(3)),
        ("s", Array(char(), 4)),
        ("b", Int(5)),
        ("n", Int(3)),
        ("t", Array(char(), "n")),
        ("e", Int(1)),
    )
    return trace_of(
        order,
        payload,
        [
            {"a": 1, "s": b"abcd", "b": 3, "n": 2, "t": b"xy", "e": 1},
            {"a": 1, "s": b"ab\0d", "b": 3, "n": 0, "t": b"", "e": 1},
        ],
    )


@construct
def characters_that_are_no_text(order):
    """Not of 8 bits, or not aligned to 8."""
    members = [("a", Int(3)), ("n", u8())]
    for number, (width, align) in enumerate(((8, 1), (7, 1), (16, 8), (8, 16), (8, 32))):
        kind = Int(width, False, align=align, extra="encoding = UTF8;")
        members += [(f"s{number}", Array(kind, 3)), (f"t{number}", Array(kind, "n"))]
    values = []
    for n in (0, 2):
        value = {"a": 1, "n": n}
        value.update({f"s{k}": b"abc" for k in range(5)}, **{f"t{k}": b"xyz"[:n] for k in range(5)})
        values.append(value)
    return trace_of(order, Struct(*members), values)


@construct
def arrays_of_characters_as_numbers(order):
    """Without an encoding characters are numbers."""
    payload = Struct(
        ("_a", Array(u8(), 4)),
        ("_b", Array(Int(8, True, base=16), 4)),
        ("_n", u8()),
        ("_c", Array(Int(8, True), "_n")),
        ("d", Array(Int(8, extra="encoding = none;"), 2)),
    )
    return trace_of(
        order, payload, [{"_a": b"abc\0", "_b": [-1, 0, 1, 127], "_n": 2, "_c": [-128, 127], "d": b"hi"}]
    )
