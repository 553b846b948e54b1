"""Traces of arrays, structures and variants, and of where their lengths and tags are:
NAME -> function(order) -> Trace, or Instead."""

from constructs_fields import trace_of
from writer import (
    CLOCK,
    PACKET_CONTEXT,
    STAMP,
    Array,
    Enum,
    Event,
    Header,
    Instead,
    Int,
    Real,
    Str,
    Struct,
    Trace,
    Variant,
    char,
    u8,
    u16,
    u32,
    u64,
)

CONSTRUCTS = {}


def construct(function):
    """It is one."""
    CONSTRUCTS[function.__name__] = function
    return function


@construct
def arrays(order):
    payload = Struct(
        ("_a", Array(u32(), 3)),
        ("_b", Array(Int(3), 5)),
        ("_c", Array(Int(13, True), 4)),
        ("_d", Array(Real(64), 2)),
        ("_e", Array(Str(), 3)),
        ("_f", Array(u64(base=16, align=64), 2)),
        ("_one", Array(u8(), 1)),
        ("_none", Array(u8(), 0)),
        ("_g", Array(Enum(u8(), [("A", 1)]), 3)),
        ("_bits", Array(Int(1), 17)),
        ("_h", Array(Int(24, align=8, order="be"), 2)),
    )
    value = {
        "_a": [1, 2, 0xFFFFFFFF],
        "_b": [0, 1, 7, 3, 4],
        "_c": [-4096, 4095, 0, -1],
        "_d": [1.5, -0.1],
        "_e": ["x", "", "yz"],
        "_f": [0, 1 << 63],
        "_one": [9],
        "_none": [],
        "_g": [0, 1, 2],
        "_bits": [n % 3 % 2 for n in range(17)],
        "_h": [1, 0xABCDEF],
    }
    return trace_of(order, payload, [value, value])


@construct
def sequences(order):
    members = []
    for width in (1, 5, 8, 16, 31, 32, 64):
        members += [(f"_n{width}", Int(width, align=1)), (f"_s{width}", Array(u16(base=16), f"_n{width}"))]
    members += [
        ("_m", u8()),
        ("_x", Array(Int(7, True), "_m")),
        ("_y", Array(Str(), "_m")),
        ("_z", Array(Real(32), "_m")),
        ("_e", Array(Enum(Int(4), [("A", 1, 3)]), "_m")),
        ("_end", u8()),
    ]
    values = []
    for length in (0, 1, 1, 0):
        value = {f"_n{width}": length for width in (1, 5, 8, 16, 31, 32, 64)}
        value.update({f"_s{width}": list(range(length)) for width in (1, 5, 8, 16, 31, 32, 64)})
        many = 5 * length
        value.update(
            {
                "_m": many,
                "_x": [-n for n in range(many)],
                "_y": ["t" * n for n in range(1, many + 1)],
                "_z": [n / 4 for n in range(many)],
                "_e": list(range(many)),
                "_end": 255,
            }
        )
        values.append(value)
    return trace_of(order, Struct(*members), values)


@construct
def sequences_empty_before_alignment(order):
    """Whether what has no elements aligns."""
    payload = Struct(
        ("a", Int(3)),
        ("n", Int(5)),
        ("s", Array(u32(align=32), "n")),
        ("b", u8()),
        ("z", Array(u64(align=64), 0)),
        ("c", u8()),
    )
    return trace_of(
        order,
        payload,
        [{"a": 1, "n": n, "s": list(range(n)), "b": 17, "z": [], "c": 33} for n in (0, 1, 0, 2)],
    )


@construct
def sequences_long(order):
    payload = Struct(("n", u32()), ("s", Array(u8(), "n")), ("t", Array(Int(9, True), "n")))
    values = [
        {"n": n, "s": [k & 255 for k in range(n)], "t": [k % 512 - 256 for k in range(n)]}
        for n in (1000, 3, 2500)
    ]
    return trace_of(order, payload, values)


@construct
def dimensions(order):
    payload = Struct(
        ("_a", Array(Array(u8(), 3), 2)),
        ("_b", Array(Array(Array(Int(5), 2), 1), 3)),
        ("_n", u8()),
        ("_c", Array(Array(u16(), 2), "_n")),
        ("_d", Array(Array(u8(), "_n"), 2)),
        ("_e", Array(Array(Str(), "_n"), "_n")),
        ("_t", Array(Array(char(), 4), 2)),
    )
    values = []
    for n in (0, 1, 3):
        values.append(
            {
                "_a": [[1, 2, 3], [4, 5, 6]],
                "_b": [[[1, 2]], [[3, 4]], [[5, 31]]],
                "_n": n,
                "_c": [[k, k + 1] for k in range(n)],
                "_d": [list(range(n)), list(range(n))],
                "_e": [[f"{k}.{j}" for j in range(n)] for k in range(n)],
                "_t": [b"abcd", b"e\0\0\0"],
            }
        )
    return trace_of(order, payload, values)


@construct
def structures(order):
    inner = Struct(("_x", u8()), ("_y", Struct(("_z", Int(3)), ("_empty", Struct()))), ("_s", Str()))
    payload = Struct(
        ("_a", inner),
        ("_b", Struct(("_w", Int(5)), align=32)),
        ("_c", u8()),
        ("_d", Struct()),
        ("_e", Struct(align=64)),
        ("_f", u8()),
    )
    value = {
        "_a": {"_x": 1, "_y": {"_z": 7, "_empty": {}}, "_s": "in"},
        "_b": {"_w": 31},
        "_c": 2,
        "_d": {},
        "_e": {},
        "_f": 3,
    }
    return trace_of(order, payload, [value, value])


@construct
def structures_in_arrays(order):
    """With sequences inside whose lengths are inside."""
    inner = Struct(("_k", Int(4)), ("_v", Array(Int(12), "_k")), ("_t", Str()))
    deep = Struct(("_m", u8()), ("_in", Array(inner, "_m")))
    payload = Struct(("_a", Array(inner, 2)), ("_n", u8()), ("_s", Array(deep, "_n")), ("_end", Int(1)))

    def one(n):
        return {"_k": n, "_v": list(range(n)), "_t": "t" * n}

    values = []
    for n in (0, 1, 3):
        values.append(
            {
                "_a": [one(n), one(2)],
                "_n": n,
                "_s": [{"_m": k, "_in": [one(j) for j in range(k)]} for k in range(n)],
                "_end": 1,
            }
        )
    return trace_of(order, payload, values)


@construct
def variants(order):
    """The tag in front, in the same structure."""
    tag = Enum(u8(), [("_int", 0), ("text", 1), ("real", 2), ("nested", 3, 5), ("seq", 6), ("empty", 7)])
    options = (
        ("_int", Int(13, True)),
        ("text", Str()),
        ("real", Real(64)),
        ("nested", Struct(("_a", u8()), ("b", Array(Int(3), 2)))),
        ("seq", Array(u16(), 3)),
        ("empty", Struct()),
    )
    payload = Struct(("_tag", tag), ("_v", Variant("_tag", *options)), ("_end", Int(3)))
    values = []
    for number, choice in enumerate(
        (
            ("_int", -7),
            ("text", "hi"),
            ("real", 2.5),
            ("nested", {"_a": 1, "b": [1, 2]}),
            ("nested", {"_a": 2, "b": [3, 4]}),
            ("nested", {"_a": 3, "b": [5, 6]}),
            ("seq", [7, 8, 9]),
            ("empty", {}),
        )
    ):
        values.append({"_tag": number, "_v": choice, "_end": 5})
    return trace_of(order, payload, values)


@construct
def variants_signed_tag(order):
    tag = Enum(Int(8, True), [("low", -128, -1), ("zero", 0), ("high", 1, 127)])
    payload = Struct(
        ("tag", tag), ("v", Variant("tag", ("low", Int(8, True)), ("zero", Struct()), ("high", Str())))
    )
    return trace_of(
        order,
        payload,
        [
            {"tag": -128, "v": ("low", -3)},
            {"tag": 0, "v": ("zero", {})},
            {"tag": 127, "v": ("high", "up")},
            {"tag": -1, "v": ("low", 3)},
        ],
    )


@construct
def variants_options_in_another_order(order):
    """Options are found by name."""
    tag = Enum(Int(3), [("a", 0), ("b", 1), ("c", 2)])
    payload = Struct(
        ("tag", tag), ("v", Variant("tag", ("c", u8()), ("a", u16()), ("b", Str()))), ("e", Int(1))
    )
    return trace_of(
        order,
        payload,
        [
            {"tag": 0, "v": ("a", 1), "e": 1},
            {"tag": 1, "v": ("b", "2"), "e": 0},
            {"tag": 2, "v": ("c", 3), "e": 1},
        ],
    )


@construct
def variants_tag_outside(order):
    """The tag in the structure around, and in an array's element."""
    tag = Enum(u8(), [("a", 0), ("b", 1)])
    options = (("a", u16()), ("b", Str()))
    inner = Struct(("_k", u8()), ("_w", Variant("_tag", *options)))
    own = Struct(("_t", tag), ("_x", Variant("_t", *options)), ("_y", Variant("_tag", *options)))
    payload = Struct(
        ("_tag", tag),
        ("_in", inner),
        ("_deep", Struct(("_deeper", inner))),
        ("_n", u8()),
        ("_s", Array(own, "_n")),
        ("_arr", Array(Variant("_tag", *options), 2)),
    )

    def choose(n):
        return ("b", "text") if n else ("a", 7)

    values = []
    for n in (0, 1):
        values.append(
            {
                "_tag": n,
                "_in": {"_k": 1, "_w": choose(n)},
                "_deep": {"_deeper": {"_k": 2, "_w": choose(n)}},
                "_n": 3,
                "_s": [{"_t": k % 2, "_x": choose(k % 2), "_y": choose(n)} for k in range(3)],
                "_arr": [choose(n), choose(n)],
            }
        )
    return trace_of(order, payload, values)


@construct
def variants_in_variants(order):
    tag = Enum(Int(2, align=1), [("a", 0), ("b", 1), ("c", 2)])
    inner = Variant(
        "t2",
        ("a", Int(3)),
        ("b", Struct(("t3", tag), ("w", Variant("t3", ("a", u8()), ("b", Str()), ("c", Struct()))))),
        ("c", Array(Int(2), 3)),
    )
    payload = Struct(
        ("t1", tag),
        ("t2", tag),
        ("v", Variant("t1", ("a", inner), ("b", u8()), ("c", Array(inner, 2)))),
        ("e", u8()),
    )
    values = [
        {"t1": 0, "t2": 0, "v": ("a", ("a", 5)), "e": 1},
        {"t1": 0, "t2": 1, "v": ("a", ("b", {"t3": 1, "w": ("b", "deep")})), "e": 2},
        {"t1": 2, "t2": 2, "v": ("c", [("c", [1, 2, 3]), ("c", [3, 2, 1])]), "e": 3},
        {"t1": 1, "t2": 2, "v": ("b", 4), "e": 4},
    ]
    return trace_of(order, payload, values)


def scoped(order, length, tag=None):
    """A sequence's length in another scope, by its full name; and a variant's tag."""
    kind = Enum(u8(), [("a", 0), ("b", 1)])
    options = (("a", u16()), ("b", Str()))
    context = Struct(*PACKET_CONTEXT.members, ("pc_len", u8()), ("pc_tag", kind))
    common = Struct(("cc_len", u8()), ("cc_tag", kind), ("own", Array(Int(4), "cc_len")))
    specific = Struct(("sc_len", u8()), ("sc_tag", kind))
    payload = [
        ("p_len", u8()),
        ("p_tag", kind),
        ("s", Array(u8(), length)),
        ("in", Struct(("s2", Array(u8(), length)))),
    ]
    if tag:
        # What babeltrace2 reads has a copy of the tag in front.
        payload += [("copy", kind)] * (tag == "copy") + [("v", Variant(tag, *options))]
    trace = Trace(order)
    stream = trace.stream([Event("my:event", Struct(*payload), specific)], context=context, common=common)
    which = length.split(".")[-1].split("_")[0]
    many = list(range({"pc": 1, "cc": 2, "sc": 3, "p": 4}[which]))
    for n in (0, 1):
        tags = {"pc": n, "cc": 1 - n, "sc": n, "p": 1 - n}
        choice = ("b", "text") if tags[which] else ("a", 300)
        values = {
            "p_len": 4,
            "p_tag": tags["p"],
            "s": many,
            "in": {"s2": many},
            "v": choice,
            "copy": tags[which],
        }
        stream.packet(
            [
                (
                    5,
                    0,
                    values,
                    {"cc_len": 2, "cc_tag": tags["cc"], "own": [1, 2]},
                    {"sc_len": 3, "sc_tag": tags["sc"]},
                )
            ],
            pc_len=1,
            pc_tag=tags["pc"],
        )
    return trace


for _name, _path in (
    ("packet_context", "stream.packet.context.pc"),
    ("common_context", "stream.event.context.cc"),
    ("specific_context", "event.context.sc"),
    ("payload", "event.fields.p"),
):
    CONSTRUCTS["scopes_" + _name] = lambda order, path=_path: scoped(order, path + "_len")
    CONSTRUCTS["scopes_tag_" + _name] = lambda order, path=_path: Instead(
        scoped(order, path + "_len", path + "_tag"),
        scoped(order, path + "_len", "copy"),
        (rb" copy = \( [^)]* \),", b""),
        "babeltrace2 refuses a tag's full name",
    )


@construct
def scopes_of_the_headers(order):
    """Lengths in the packet's header, and in the event record's."""
    header = Header(
        Struct(("id", u16()), ("timestamp", u64(extra=STAMP)), ("eh_len", u8())),
        lambda number, time, before: {"id": number, "timestamp": time, "eh_len": time % 4},
    )
    packet_header = Struct(("magic", u32()), ("ph_len", u8()), ("stream_id", u8()))
    trace = Trace(order, header=packet_header, header_values={"ph_len": 2})
    payload = Struct(
        ("s", Array(u8(), "trace.packet.header.ph_len")), ("t", Array(u8(), "stream.event.header.eh_len"))
    )
    stream = trace.stream([Event("my:event", payload)], header=header)
    stream.packet([(time, 0, {"s": [1, 2], "t": list(range(time % 4))}) for time in range(6)])
    return trace


def specific_or_common(order, where):
    """Sequences and variants in an event's own context, or in the common one, which is shown the same."""
    tag = Enum(u8(), [("a", 0), ("b", 1)])
    context = Struct(
        ("n", u8()),
        ("s", Array(u16(), "n")),
        ("tag", tag),
        ("v", Variant("tag", ("a", u16()), ("b", Str()))),
        (
            "in",
            Struct(
                ("t", Array(char(), "n")), ("w", Array(Struct(("k", u8()), ("x", Array(Int(3), "k"))), 2))
            ),
        ),
    )
    trace = Trace(order)
    stream = trace.stream(
        [Event("my:event", Struct(("x", u8())), context if where == "specific" else None)],
        common=context if where == "common" else None,
    )
    records = []
    for n in range(4):
        value = {
            "n": n + 1,
            "s": list(range(n + 1)),
            "tag": n % 2,
            "v": ("b", "text") if n % 2 else ("a", n),
            "in": {"t": b"abcd"[: n + 1], "w": [{"k": n, "x": [1] * n}, {"k": 1, "x": [7]}]},
        }
        records.append(
            (n, 0, {"x": n}, value if where == "common" else None, value if where == "specific" else None)
        )
    stream.packet(records)
    return trace


@construct
def sequences_and_variants_in_the_common_context(order):
    return specific_or_common(order, "common")


@construct
def sequences_and_variants_in_the_specific_context(order):
    return Instead(
        specific_or_common(order, "specific"),
        specific_or_common(order, "common"),
        None,
        "babeltrace2 ends with an assertion on a sequence or a variant in an event's own context",
    )


@construct
def lengths_by_path(order):
    """A length inside another structure."""
    payload = Struct(
        ("a", Struct(("b", Struct(("n", u8()))), ("n", u8()))),
        ("s", Array(u8(), "a.n")),
        ("t", Array(char(), "a.b.n")),
        ("in", Struct(("u", Array(u8(), "a.b.n")))),
    )
    return trace_of(
        order, payload, [{"a": {"b": {"n": 2}, "n": 3}, "s": [1, 2, 3], "t": b"xy", "in": {"u": [4, 5]}}]
    )


@construct
def lengths_of_the_same_name(order):
    """The innermost one counts, the latest in front."""
    inner = Struct(("n", u8()), ("s", Array(u8(), "n")))
    payload = Struct(
        ("n", u8()), ("a", inner), ("b", Struct(("s", Array(u8(), "n")), ("n", u8()))), ("c", inner)
    )
    return trace_of(
        order,
        payload,
        [{"n": 2, "a": {"n": 1, "s": [1]}, "b": {"s": [1, 2], "n": 9}, "c": {"n": 0, "s": []}}],
    )


@construct
def names_with_underscores(order):
    """One leading underscore is taken away, no more; tags and lengths with theirs."""
    kind = Enum(u8(), [("_a", 0), ("__b", 1), ("c", 2)])
    payload = Struct(
        ("_x", u8()),
        ("__y", u8()),
        ("z_", u8()),
        ("_", u8()),
        ("_string", u8()),
        ("_id", kind),
        ("_event", Variant("_id", ("_a", u8()), ("__b", u16()), ("c", Str()))),
        ("__n", u8()),
        ("_integer", Array(u8(), "__n")),
    )
    value = {"_x": 1, "__y": 2, "z_": 3, "_": 4, "_string": 5, "__n": 2, "_integer": [8, 9]}
    return trace_of(
        order,
        payload,
        [
            dict(value, _id=0, _event=("_a", 1)),
            dict(value, _id=1, _event=("__b", 2)),
            dict(value, _id=2, _event=("c", "3")),
        ],
    )


@construct
def no_payload(order):
    """Event records without fields, with none, and with contexts only."""
    trace = Trace(order)
    events = [
        Event("no:payload"),
        Event("empty:payload", Struct()),
        Event("only:context", context=Struct(("_x", u8()))),
        Event("empty:both", Struct(), Struct()),
    ]
    stream = trace.stream(events, header=None)
    stream.packet([(n, n % 4, {}, None, {"_x": n}) for n in range(12)])
    return trace


@construct
def lengths_in_the_environment(order):
    """The environment is in front of what names it, or behind; entries are numbers of any base."""
    trace = Trace(
        order,
        types="env { three = 0x3; none = 0; };",
        more='env { two = 2; hostname = "host"; };' + CLOCK,
    )
    payload = Struct(
        ("_n", u8()),
        ("_a", Array(u16(), "env.three")),
        ("_b", Array(Str(), "env.two")),
        ("_c", Array(char(), "env.three")),
        ("_none", Array(u8(), "env.none")),
        ("_d", Array(Array(u8(), "env.three"), "_n")),
        ("_e", Array(Array(Int(5), "_n"), "env.two")),
        ("_last", u8()),
    )
    common = Struct(("_common", Array(u8(), "env.two")))
    context = Struct(*PACKET_CONTEXT.members, ("_pc", Array(u8(), "env.three")))
    stream = trace.stream([Event("my:event", payload)], common=common, context=context)
    for first in (0, 2):
        records = [
            (
                10 * n,
                0,
                {
                    "_n": n,
                    "_a": [n, 500, 65535],
                    "_b": ["x" * n, "y"],
                    "_c": b"a\0b",
                    "_none": [],
                    "_d": [[1, 2, n]] * n,
                    "_e": [[n] * n, [31] * n],
                    "_last": 77,
                },
                {"_common": [n, 9]},
            )
            for n in (first, first + 1)
        ]
        stream.packet(records, _pc=[1, 2, 3])
    return trace
