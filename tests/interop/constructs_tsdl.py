"""Traces with every turn of the metadata's language: NAME -> function(order) -> Trace."""

from writer import (
    CLOCK,
    Array,
    Enum,
    Event,
    Header,
    Int,
    Raw,
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


def one(order, payload, value, types="", **more):
    """Three records of a payload."""
    trace = Trace(order, types=types, **more)
    trace.stream([Event("my:event", payload)]).packet([(n, 0, value) for n in range(3)])
    return trace


@construct
def typealias_names_of_c(order):
    types = """
    typealias integer { size = 8; align = 8; signed = true; } := signed char;
    typealias integer { size = 16; align = 8; } := unsigned short int;
    typealias integer { size = 64; align = 8; base = hex; } := unsigned long;
    typealias integer { size = 32; signed = true; } := int;
    typealias integer { size = 24; align = 8; signed = 1; } := long long;
    typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := float;
    typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := double;
    typealias integer { size = 13; align = 1; } := odd_t;
    """
    payload = Struct(
        ("a", Raw("signed char", Int(8, True))),
        ("b", Raw("unsigned short int", u16())),
        ("c", Raw("unsigned long", u64())),
        ("d", Raw("int", Int(32, True))),
        ("e", Raw("long long", Int(24, True))),
        ("f", Raw("float", Real(32))),
        ("g", Raw("double", Real(64))),
        ("h", Raw("odd_t", Int(13))),
        ("i", Array(Raw("odd_t", Int(13)), 3)),
    )
    value = {"a": -1, "b": 2, "c": 3, "d": -4, "e": -5, "f": 6.5, "g": 7.25, "h": 8, "i": [1, 2, 3]}
    return one(order, payload, value, types)


@construct
def typealias_of_everything(order):
    types = """
    typealias string := text_t;
    typealias string { encoding = UTF8; } := utf_t;
    typealias enum : integer { size = 8; } { A, B = 5 ... 9, C } := letter_t;
    typealias struct { integer { size = 8; } x; text_t s; } := pair_t;
    typealias letter_t := same_t;
    typealias same_t := again_t;
    typealias integer { size = 8; signed = true; encoding = ASCII; } := char_t;
    """
    letter = u8()
    pair = Struct(("x", u8()), ("s", Str()))
    payload = Struct(
        ("t", Raw("text_t", Str())),
        ("u", Raw("utf_t", Str())),
        ("l", Raw("again_t", letter)),
        ("p", Raw("pair_t", pair)),
        ("ps", Array(Raw("pair_t", pair), 2)),
        ("c", Array(Raw("char_t", char()), 3)),
    )
    value = {
        "t": "t",
        "u": "u",
        "l": 7,
        "p": {"x": 1, "s": "in"},
        "ps": [{"x": 2, "s": "a"}, {"x": 3, "s": "b"}],
        "v": ("B", "chosen"),
        "c": b"xyz",
    }
    return one(order, payload, value, types.replace("any_t", "any_t"))


@construct
def typedefs(order):
    types = """
    typealias integer { size = 8; align = 8; } := uint8_t;
    typedef uint8_t byte, octet;
    typedef integer { size = 16; } half;
    typedef string name_t;
    typedef struct { byte a; half b; } both_t;
    typedef byte three_t[3];
    typedef three_t six_t[2];
    """
    payload = Struct(
        ("a", Raw("byte", u8())),
        ("b", Raw("octet", u8())),
        ("c", Raw("half", u16())),
        ("d", Raw("name_t", Str())),
        ("e", Raw("both_t", Struct(("a", u8()), ("b", u16())))),
        ("f", Raw("three_t", Array(u8(), 3))),
        ("g", Raw("six_t", Array(Array(u8(), 3), 2))),
    )
    value = {
        "a": 1,
        "b": 2,
        "c": 3,
        "d": "four",
        "e": {"a": 5, "b": 6},
        "f": [7, 8, 9],
        "g": [[1, 2, 3], [4, 5, 6]],
    }
    return one(order, payload, value, types)


@construct
def named_structures(order):
    types = """
    struct point { integer { size = 16; signed = true; } x, y; };
    struct wide { struct point p; } align(64);
    enum colour : integer { size = 8; } { RED, GREEN, BLUE = 10 };
    variant shape { struct point RED; string GREEN; integer { size = 8; } BLUE; };
    """
    point = Struct(("x", Int(16, True)), ("y", Int(16, True)))
    wide = Struct(("p", point), align=64)
    payload = Struct(
        ("a", u8()),
        ("w", Raw("struct wide", wide)),
        ("c", Raw("enum colour", u8())),
        ("s", Raw("variant shape <c>", Variant("c", ("RED", point), ("GREEN", Str()), ("BLUE", u8())))),
        ("ps", Array(Raw("struct point", point), 2)),
    )
    value = {
        "a": 1,
        "w": {"p": {"x": -1, "y": -2}},
        "c": 1,
        "s": ("GREEN", "green"),
        "ps": [{"x": 1, "y": 2}] * 2,
    }
    return one(order, payload, value, types)


@construct
def names_declared_where_they_are_used(order):
    """A name of an inner scope hides that of an outer one, in the trace, the stream, the event, a structure."""
    trace = Trace(
        order,
        header=None,
        types="",
        more=f"""
    typealias integer {{ size = 8; }} := t;
    {CLOCK}
    stream {{
        typealias integer {{ size = 16; }} := t;
        typealias integer {{ size = 32; {"map = clock.clk.value;"} }} := stamp_t;
        event.header := struct {{ t id; stamp_t timestamp; }};
        event.context := struct {{ t common; }};
        packet.context := struct {{ stamp_t packet_size; }};
    }};
    event {{
        typealias integer {{ size = 24; }} := t;
        typealias struct {{ t a; }} := own_t;
        name = "one"; id = 0;
        fields := struct {{
            t x;
            own_t o;
            struct {{ typealias integer {{ size = 40; }} := t; typealias struct {{ t b; }} := own_t; t y; own_t o; }} in;
            t z;
        }};
    }};
    event {{
        name = "two"; id = 1;
        fields := struct {{ t x; typealias string := t; t y; }};
    }};""".replace("packet.context := struct { stamp_t packet_size; };", ""),
    )
    t = Int(24)
    events = [
        Event(
            "one",
            Struct(
                ("x", t),
                ("o", Struct(("a", t))),
                ("in", Struct(("y", Int(40)), ("o", Struct(("b", Int(40)))))),
                ("z", t),
            ),
            number=0,
        ),
        Event("two", Struct(("x", u8()), ("y", Str())), number=1),
    ]
    stream = trace.stream([])
    trace.classes.clear()
    stream.events = events
    stream.context = None
    stream.header = Header(
        Struct(("id", u16()), ("timestamp", u32())),
        lambda number, time, before: {"id": number, "timestamp": time},
    )
    stream.common = Struct(("common", u16()))
    stream.packet(
        [
            (5, 0, {"x": 1, "o": {"a": 2}, "in": {"y": 3, "o": {"b": 4}}, "z": 5}, {"common": 6}),
            (6, 1, {"x": 7, "y": "text"}, {"common": 8}),
        ]
    )
    return trace


@construct
def defaults(order):
    """What is not said: alignment, sign, base."""
    payload = Struct(
        ("a", Raw("integer { size = 8; }", u8())),
        ("b", Raw("integer { size = 5; }", Int(5, align=1))),
        ("c", Raw("integer { size = 16; }", Int(16, align=8))),
        ("d", Raw("integer { size = 12; }", Int(12, align=1))),
        ("e", Raw("integer { size = 64; }", Int(64, align=8))),
        ("f", Raw("floating_point { exp_dig = 8; mant_dig = 24; }", Real(32, align=8))),
        ("g", Raw("floating_point { exp_dig = 11; mant_dig = 53; }", Real(64, align=8))),
        ("h", Raw("integer { signed = false; size = 3; base = decimal; encoding = none; }", Int(3, align=1))),
        ("i", Raw("floating_point { exp_dig = 8; mant_dig = 24; }", Real(32, align=8))),
    )
    return one(order, payload, {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6.5, "g": 7.5, "h": 7, "i": 8.5})


@construct
def comments_and_spaces(order):
    types = """// a comment of C++
    /* of
       C, with "quotes' and // inside */
    typealias/**/integer{size=8;align=8;signed=false;}:=u8;/**/
    typealias integer { size = 8 ; \t signed\n=\r\n true ; } := s8 ; // end"""
    return one(
        order, Struct(("a", Raw("u8", u8())), ("b", Raw("s8", Int(8, True)))), {"a": 1, "b": -1}, types
    )


@construct
def numbers_in_all_ways(order):
    types = """
    typealias integer { size = 0x10; align = 010; } := hexadecimal;
    typealias integer { size = 020; align = 8U; } := octal;
    typealias integer { size = 16ULL; align = 0x8UL; } := suffixed;
    """
    payload = Struct(
        ("a", Raw("hexadecimal", u16())),
        ("b", Raw("octal", u16())),
        ("c", Raw("suffixed", u16())),
        ("d", Raw("enum : hexadecimal { A = 0xFF, B = 0377 ... 0x1FF, C = 1000 }", u16())),
        ("e", Raw("suffixed", u16())),
    )
    return one(order, payload, {"a": 1, "b": 2, "c": 3, "d": 256, "e": 5}, types)


@construct
def words_for_truth(order):
    members = []
    for n, word in enumerate(("true", "TRUE", "1", "false", "FALSE", "0")):
        members.append((f"a{n}", Raw(f"integer {{ size = 8; signed = {word}; }}", Int(8, n < 3))))
    return one(order, Struct(*members), {f"a{n}": -1 if n < 3 else 255 for n in range(6)})


@construct
def blocks_in_another_order(order):
    """Clock and types behind, callsites, attributes that nobody knows, names without quotes."""
    types = """
    callsite { name = "my:event"; func = "main"; file = "a.c"; line = 12; };
    env { hostname = "h"; };
    """
    return one(
        order,
        Struct(("x", u8())),
        {"x": 1},
        types,
        more=CLOCK + 'callsite { name = "x"; func = "f"; line = 0x10; ip = 0x1234; };',
    )


@construct
def escapes_in_texts(order):
    trace = Trace(order)
    names = [
        r"a\"b",
        r"back\\slash",
        r"new\nline",
        r"tab\there",
        r"hex\x41\x7a",
        r"oct\101\7",
        r"\a\b\f\r\v\?\'",
        "%d %s",
        "{}",
        "a b",
    ]
    trace.stream(
        [
            Event(
                name,
                Struct(("x", u8()), ("e", Raw('enum : integer { size = 8; } { "' + name + '" = 1 }', u8()))),
            )
            for name in names
        ]
    ).packet([(n, n, {"x": n, "e": 1}) for n in range(len(names))])
    return trace


@construct
def keywords_as_labels(order):
    """Words of the language as labels, in quotes or not, and as options' names with a _."""
    kind = Raw('enum : integer { size = 8; } { "struct", "int" = 3, "event" = 4 ... 6, "_enum" }', u8())
    tag = Raw("enum : integer { size = 8; } { _struct, _int = 1, event_ = 2 }", u8())
    payload = Struct(
        ("a", kind), ("b", tag), ("v", Variant("b", ("_struct", u8()), ("_int", u16()), ("event_", Str())))
    )
    trace = Trace(order)
    trace.stream([Event("my:event", payload)]).packet(
        [
            (0, 0, {"a": 0, "b": 0, "v": ("_struct", 1)}),
            (1, 0, {"a": 5, "b": 1, "v": ("_int", 2)}),
            (2, 0, {"a": 7, "b": 2, "v": ("event_", "3")}),
        ]
    )
    return trace


@construct
def several_declarators(order):
    trace = Trace(order)
    stream = trace.stream([Event("my:event", None)])
    stream.events[0].more = "fields := struct { integer { size = 8; } a, b, c[2], d; string s, t; };"
    text = stream.tsdl()
    stream.events[0].payload = Struct(
        ("a", u8()), ("b", u8()), ("c", Array(u8(), 2)), ("d", u8()), ("s", Str()), ("t", Str())
    )
    stream.packet([(0, 0, {"a": 1, "b": 2, "c": [3, 4], "d": 5, "s": "six", "t": "seven"})])
    stream.tsdl = lambda: text
    return trace


@construct
def event_fields_of_a_named_structure(order):
    trace = Trace(
        order,
        types="struct payload { integer { size = 8; } a; string s; };\ntypealias struct payload := alias_t;",
    )
    kind = Struct(("a", u8()), ("s", Str()))
    trace.stream(
        [Event("my:struct", Raw("struct payload", kind)), Event("my:alias", Raw("alias_t", kind))]
    ).packet([(n, n % 2, {"a": n, "s": "text"}) for n in range(4)])
    return trace


@construct
def streams_and_events_without_ids(order):
    """One of each: 0 is meant."""
    trace = Trace(
        order,
        header=Struct(("magic", u32())),
        more=CLOCK + """
    stream { event.header := struct { integer { size = 32; map = clock.clk.value; } timestamp; }; };
    event { name = "only"; fields := struct { integer { size = 8; } x; }; };""",
    )
    stream = trace.stream([])
    trace.classes.clear()
    stream.context, stream.events = None, [Event("only", Struct(("x", u8())), number=0)]
    stream.header = Header(Struct(("timestamp", u32())), lambda number, time, before: {"timestamp": time})
    stream.packet([(n, 0, {"x": n}) for n in range(5)])
    return trace


@construct
def alignment_of_nothing(order):
    """Structures that only align."""
    payload = Struct(
        ("a", Int(3)),
        ("s", Struct(align=32)),
        ("b", Int(3)),
        ("t", Struct(("u", Struct(align=16)))),
        ("c", Int(1)),
    )
    return one(order, payload, {"a": 1, "s": {}, "b": 2, "t": {"u": {}}, "c": 1})


@construct
def lttng_s_own(order):
    """Written as LTTng-UST writes it."""
    from writer import compact

    types = """
    typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
    typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
    typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
    """
    payload = Struct(
        ("_anint", Int(32, True)),
        ("__seqfield1_length", Raw("unsigned long", u64())),
        ("_seqfield1", Array(Raw("uint8_t", u8()), "__seqfield1_length")),
        ("_enumfield", Enum(Int(32, True), [("AUTO", 0), ("RANGE", 2, 4)])),
    )
    trace = Trace(order, types=types, minor=8)
    trace.stream([Event("ust_tests_hello:tptest", payload, more="loglevel = 13;")], header=compact()).packet(
        [
            (n, 0, {"_anint": -n, "__seqfield1_length": n, "_seqfield1": list(range(n)), "_enumfield": n})
            for n in range(6)
        ]
    )
    return trace
