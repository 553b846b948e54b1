"""Traces of every kind of header, clock, packet and stream, one small trace for each construct:
NAME -> function(order) -> Trace, or {folder: Trace}."""

import random

from writer import (
    CLOCK,
    NO_CONTEXT,
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
    compact,
    flat,
    large,
    u8,
    u16,
    u32,
    u64,
)

CONSTRUCTS = {}
NUMBER = Struct(("_n", u8()))


def construct(function):
    """It is one."""
    CONSTRUCTS[function.__name__] = function
    return function


def times_of(width, number, step):
    """Times that wrap around in so many bits, each less than once around behind the one before."""
    around = 1 << min(width, 40)
    rng = random.Random(width)
    now, found = 123, []
    for _ in range(number):
        found.append(now)
        now += rng.choice((0, 1, step, around // 3, around - 1))
    return found


def with_header(order, kind, numbers=(0, 1, 2), times=None, **more):
    """Three packets with such event record headers."""
    trace = Trace(order, **more)
    stream = trace.stream([Event(f"my:event{n}", NUMBER, number=n) for n in numbers], header=kind)
    times = times or list(range(5, 500, 7))
    third = len(times) // 3 + 1
    for at in range(0, len(times), third):
        part = times[at : at + third]
        stream.packet(
            [(time, numbers[(at + k) % len(numbers)], {"_n": k % 256}) for k, time in enumerate(part)]
        )
    return trace


for _name, _make, _ids in (
    ("compact", compact, (0, 1, 29, 30, 31, 32, 1000, 70000)),
    ("large", large, (0, 30, 31, 65533, 65534, 65535, 65536, 4000000000)),
):
    for _align in (1, 8, 32):
        CONSTRUCTS[f"header_{_name}_{_align}"] = (
            lambda order, make=_make, ids=_ids, align=_align: with_header(
                order, make(align=align), ids, times_of(27 if make is compact else 32, 90, 1000)
            )
        )
        CONSTRUCTS[f"header_{_name}_{_align}_always_extended"] = (
            lambda order, make=_make, ids=_ids, align=_align: with_header(
                order, make(align=align, extended=True), ids[3:], times_of(40, 30, 1000)
            )
        )
for _id, _time, _align in (
    (8, 64, 8),
    (16, 32, 16),
    (32, 64, 32),
    (64, 64, 64),
    (5, 27, 1),
    (3, 61, 1),
    (16, 48, 8),
    (8, 8, 8),
    (10, 6, 1),
    (13, 33, 1),
    (16, 1, 1),
):
    CONSTRUCTS[f"header_flat_{_id}_{_time}_{_align}"] = lambda order, i=_id, t=_time, a=_align: with_header(
        order, flat(i, t, a), (0, 1, 2), times_of(t, 60, 5) if t > 1 else list(range(40))
    )


@construct
def header_time_in_front(order):
    header = Header(
        Struct(("timestamp", Int(32, extra=STAMP)), ("id", u8())),
        lambda number, time, before: {"id": number, "timestamp": time},
    )
    return with_header(order, header)


@construct
def header_of_other_members(order):
    """Members that a reader does not know."""
    header = Header(
        Struct(
            ("a", Int(3)),
            ("id", Int(5)),
            ("timestamp", Int(32, extra=STAMP)),
            ("b", Str()),
            ("c", Array(u8(), 2)),
        ),
        lambda number, time, before: {"id": number, "timestamp": time, "a": 1, "b": "text", "c": [1, 2]},
    )
    return with_header(order, header)


@construct
def header_id_is_an_enumeration(order):
    header = Header(
        Struct(("id", Enum(Int(16), [("a", 0), ("b", 1, 5)])), ("timestamp", u64(extra=STAMP))),
        lambda number, time, before: {"id": number, "timestamp": time},
    )
    return with_header(order, header)


@construct
def header_without_id(order):
    return with_header(order, flat(0, 64), (0,))


@construct
def header_without_time(order):
    return with_header(order, flat(16, 0))


@construct
def header_none(order):
    return with_header(order, flat(0, 0), (0,))


@construct
def header_none_and_ids_not_declared(order):
    """One event, one stream, no header, no id anywhere."""
    trace = Trace(
        order,
        header=None,
        more=f"""
        stream {{ packet.context := struct {{ {u32().tsdl()} content_size; {u32().tsdl()} packet_size; }}; }};
        event {{ name = "only"; fields := struct {{ {u8().tsdl()} n; }}; }};""",
    )
    stream = trace.stream([])
    trace.classes.clear()
    stream.events = [Event("only", Struct(("n", u8())), number=0)]
    stream.header, stream.context = flat(0, 0), Struct(("content_size", u32()), ("packet_size", u32()))
    stream.packet([(0, 0, {"n": n}) for n in range(5)]).packet([(0, 0, {"n": 9})], padding=32)
    return trace


@construct
def header_time_not_mapped(order):
    """A timestamp that is of no clock."""
    header = Header(
        Struct(("id", u8()), ("timestamp", u32())),
        lambda number, time, before: {"id": number, "timestamp": time},
    )
    trace = Trace(order, more="")
    context = Struct(("content_size", u64()), ("packet_size", u64()))
    stream = trace.stream([Event("my:event", NUMBER)], header=header, context=context)
    stream.packet([(n, 0, {"_n": n}) for n in range(5)])
    return trace


@construct
def time_in_the_common_context(order):
    """Any field that is of the clock moves it."""
    trace = Trace(order)
    stream = trace.stream(
        [Event("my:event", NUMBER)],
        header=flat(16, 0),
        common=Struct(("when", u32(extra=STAMP)), ("x", u8())),
    )
    stream.packet([(0, 0, {"_n": n}, {"when": 100 * n, "x": n}) for n in range(5)], begin=0, end=1000)
    return trace


@construct
def time_in_the_payload(order):
    trace = Trace(order)
    payload = Struct(("when", u64(extra=STAMP)), ("_n", u8()))
    stream = trace.stream([Event("my:event", payload)])
    stream.packet([(1000 * n, 0, {"_n": n, "when": 1000 * n + 5}) for n in range(5)], begin=0, end=9000)
    return trace


def wrapping(width, stream_begin):
    """Times of few bits, from a packet's begin on and across packets."""

    def make(order):
        trace = Trace(order)
        stream = trace.stream([Event("my:event", NUMBER)], header=flat(8, width, 1 if width % 8 else 8))
        around = 1 << width
        now = stream_begin
        for _ in range(4):
            records = []
            begin = now
            for n in range(20):
                now += (0, 1, around // 2, around - 1)[n % 4]
                records.append((now, 0, {"_n": n}))
            stream.packet(records, begin=begin)
            now += 3 * around + 7
        return trace

    return make


for _width in (8, 16, 27, 32, 40):
    for _begin in (0, (1 << 40) - 3, (1 << 45) + (1 << _width) - 1):
        CONSTRUCTS[f"time_wraps_{_width}_from_{_begin}"] = wrapping(_width, _begin)


def with_clock(text, base=0, step=1001):
    """A clock of its own."""

    def make(order):
        trace = Trace(order, more=text)
        stream = trace.stream([Event("my:event", NUMBER)])
        stream.packet([(base + step * n, 0, {"_n": n}) for n in range(30)])
        stream.packet([(base + 50 * step + (1 << 20) * n, 0, {"_n": n}) for n in range(30)])
        return trace

    return make


for _name, _text in {
    "1MHz": "freq = 1000000; offset_s = 1500000000; offset = 123456;",
    "1Hz": "freq = 1; offset_s = 1000000000;",
    "no_offset": "freq = 1000000000;",
    "absolute": "freq = 1000000000; absolute = true; offset = 1400000000123456789;",
    "absolute_TRUE": "freq = 1000000000; absolute = TRUE; precision = 10; offset_s = 1400000000;",
    "all": 'uuid = "11111111-2222-3333-4444-555555555555"; description = "it \\"ticks\\""; freq = 1000000000; '
    "offset_s = 1400000000; offset = 999999999; precision = 100; absolute = false;",
    "offset_above_a_second": "freq = 1000; offset_s = 10; offset = 123456;",
    "before_1970": "freq = 1000000000; offset_s = -3600; offset = 0;",
    "long_before_1970": "freq = 1000000000; offset_s = -3600000000; offset = 5;",
    "over_midnight": "freq = 1000000000; offset_s = 1499990399; offset = 999970000;",
}.items():
    CONSTRUCTS["clock_" + _name] = with_clock(f"clock {{ name = clk; {_text} }};")


BABELTRACE2_ROUNDS = (
    "babeltrace2 computes times of clocks other than 1 GHz with 53 bits, and rounds offset and cycles apart"
)


def exact(frequency, seconds, offset, base, step):
    """A clock whose cycles are no whole nanoseconds, and one with those nanoseconds."""

    def make(order):
        traces = []
        # The second's clock has no offset in cycles: its times are those of the exact sum.
        for of, freq, rest in (
            (lambda cycles: cycles, frequency, offset),
            (lambda cycles: (cycles + offset) * 1000000000 // frequency, 1000000000, 0),
        ):
            trace = Trace(
                order,
                more=f"clock {{ name = clk; freq = {freq}; offset_s = {seconds}; offset = {rest}; }};",
            )
            stream = trace.stream([Event("my:event", NUMBER)])
            stream.packet([(of(base + step * n), 0, {"_n": n}) for n in range(200)])
            traces.append(trace)
        return Instead(
            traces[0], traces[1], None, BABELTRACE2_ROUNDS
        )

    return make


CONSTRUCTS["clock_3GHz"] = exact(3000000000, 1500000000, 2999999999, 5, 1000)
CONSTRUCTS["clock_32768Hz"] = exact(32768, 1, 32767, 5, 1000)
CONSTRUCTS["clock_odd"] = exact(1234567891, 0, 7, 5, 1000)
CONSTRUCTS["clock_2399999999Hz"] = exact(2399999999, 1700000000, 2399999998, 5, 1000)
CONSTRUCTS["clock_7Hz"] = exact(7, 0, 3, 16 << 20, 1 << 20)
CONSTRUCTS["clock_3GHz_large_values"] = exact(3000000000, 1000, 5, 1 << 62, (1 << 40) + 1)
CONSTRUCTS["clock_2399999999Hz_large_values"] = exact(
    2399999999, 1600000000, 2399999998, 2399999999 * 86400 * 400, 2399999999 * 3600 + 1
)
CONSTRUCTS["clock_without_frequency"] = lambda order: Instead(
    with_clock("clock { name = clk; offset_s = 7; };")(order),
    with_clock("clock { name = clk; offset_s = 7; freq = 1000000000; };")(order),
    None,
    "babeltrace2 ends with an assertion on a clock without frequency, which is 1 GHz",
)
CONSTRUCTS["clock_24MHz_days"] = with_clock(
    "clock { name = clk; freq = 24000000; offset_s = 1600000000; };", 24000000 * 86400 * 30, 24000000 * 3600
)


@construct
def clocks_two(order):
    """Two kinds of streams, each with a clock of its own."""
    trace = Trace(
        order,
        more="clock { name = clk; freq = 1000000000; offset_s = 1400000000; };\n"
        "clock { name = slow; freq = 1000; offset_s = 1400000000; };",
    )
    context = Struct(
        ("timestamp_begin", u64(extra="map = clock.slow.value;")),
        ("timestamp_end", u64(extra="map = clock.slow.value;")),
        ("content_size", u64()),
        ("packet_size", u64()),
    )
    header = Header(
        Struct(("id", u16()), ("timestamp", u32(extra="map = clock.slow.value;"))),
        lambda number, time, before: {"id": number, "timestamp": time},
    )
    one = trace.stream([Event("fast:event", NUMBER)])
    two = trace.stream([Event("slow:event", NUMBER)], number=1, header=header, context=context)
    one.packet([(700000 * n + 1, 0, {"_n": n}) for n in range(40)])
    two.packet([(n, 0, {"_n": n}) for n in range(30)])
    return trace


# ---- packets ----


@construct
def packet_context_none(order):
    """A file is one packet."""
    trace = Trace(order)
    trace.stream([Event("my:event", NUMBER)], context=NO_CONTEXT).packet(
        [(n, 0, {"_n": n}) for n in range(5)]
    )
    return trace


@construct
def packet_context_sizes_only(order):
    trace = Trace(order)
    context = Struct(("packet_size", u32()), ("content_size", u32()))
    stream = trace.stream([Event("my:event", NUMBER)], context=context)
    for k in range(3):
        stream.packet([(10 * k + n, 0, {"_n": n}) for n in range(5)], padding=100)
    return trace


@construct
def packet_context_packet_size_only(order):
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)], context=Struct(("packet_size", u64())))
    for k in range(3):
        stream.packet([(10 * k + n, 0, {"_n": n}) for n in range(5)])
    return trace


@construct
def packet_context_begin_only(order):
    trace = Trace(order)
    context = Struct(("timestamp_begin", u64(extra=STAMP)), ("packet_size", u64()), ("content_size", u64()))
    stream = trace.stream([Event("my:event", NUMBER)], context=context)
    for k in range(3):
        stream.packet([(10 * k + n, 0, {"_n": n}) for n in range(5)])
    return trace


@construct
def packet_context_odd_widths(order):
    """Sizes of 16 bits, a time of 48, a number of 7."""
    context = Struct(
        ("packet_size", u16()),
        ("content_size", Int(19, align=1)),
        ("cpu_id", Int(7, align=1)),
        ("timestamp_begin", Int(48, align=1, extra=STAMP)),
        ("timestamp_end", Int(48, align=1, extra=STAMP)),
        ("events_discarded", Int(5, align=1)),
        ("packet_seq_num", Int(3, align=1)),
    )
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)], context=context)
    for k in range(7):
        stream.packet(
            [(10 * k + n, 0, {"_n": n}) for n in range(5)], padding=64, discarded=k // 2, cpu_id=k * 3
        )
    return trace


@construct
def packet_context_own_members(order):
    """Members that are the tracer's own are shown: of every type."""
    context = Struct(
        *PACKET_CONTEXT.members,
        ("_text", Str()),
        ("n", u8()),
        ("s", Array(Int(3), "n")),
        ("real", Real(64)),
        ("in", Struct(("a", u8(base=16)), ("b", Array(char(), 4)))),
        ("tag", Enum(u8(), [("x", 0), ("y", 1)])),
        ("v", Variant("tag", ("x", u8()), ("y", Str()))),
    )
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)], context=context)
    for k in range(4):
        stream.packet(
            [(10 * k + n, 0, {"_n": n}) for n in range(3)],
            _text=f"packet {k}",
            n=k,
            s=list(range(k)),
            real=k / 4,
            **{"in": {"a": k, "b": b"ab\0\0"}, "tag": k % 2, "v": ("y", "why") if k % 2 else ("x", k)},
        )
    return trace


@construct
def packet_context_names_inside(order):
    """Names that have a meaning have it only in the context itself."""
    inner = Struct(
        ("packet_size", u64()),
        ("content_size", u8()),
        ("events_discarded", u8()),
        ("packet_seq_num", u8()),
        ("cpu_id", u8()),
    )
    context = Struct(("first", inner), *PACKET_CONTEXT.members, ("last", inner))
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)], context=context)
    value = {name: 7 + k for k, (name, _) in enumerate(inner.members)}
    for k in range(3):
        stream.packet([(10 * k + n, 0, {"_n": n}) for n in range(3)], first=value, last=value)
    return trace


@construct
def clocks_repeated(order):
    """The same clock described twice, as babeltrace2 itself writes it."""
    trace = Trace(order, more=CLOCK + CLOCK)
    trace.stream([Event("my:event", NUMBER)]).packet([(n, 0, {"_n": n}) for n in range(3)])
    return trace


@construct
def packets_empty(order):
    """Packets without event records, at the begin, in the middle, at the end."""
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)])
    stream.packet([], begin=1, end=5).packet([], begin=5, end=10)
    stream.packet([(20, 0, {"_n": 1})]).packet([], begin=30, end=40, padding=512)
    stream.packet([(50, 0, {"_n": 2}), (60, 0, {"_n": 3})]).packet([], begin=70, end=80)
    return trace


@construct
def packets_all_empty(order):
    trace = Trace(order)
    trace.stream([Event("my:event", NUMBER)]).packet([], begin=1, end=5).packet([], begin=5, end=10)
    return trace


@construct
def packets_padded(order):
    trace = Trace(order)
    stream = trace.stream(
        [Event("my:event", Struct(("a", Int(3)), ("b", Int(6)))), Event("my:bit", Struct(("a", Int(1))))],
        header=flat(5, 27, 1),
    )
    for k, padding in enumerate((0, 1, 8, 63, 64, 4096, 32768)):
        stream.packet([(100 * k + n, n % 2, {"a": n % 2, "b": n}) for n in range(k + 3)], padding=padding)
    return trace


@construct
def packets_with_gaps(order):
    """Numbers of packets with gaps, and event records discarded between and within."""
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)])
    for number, discarded in ((0, 0), (1, 0), (3, 5), (4, 5), (10, 6), (11, 1000)):
        stream.packet(
            [(100 * number + n, 0, {"_n": n}) for n in range(4)], sequence=number, discarded=discarded
        )
    return trace


@construct
def packets_begin_with_a_gap(order):
    """What was discarded before the first packet."""
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)])
    stream.packet([(10, 0, {"_n": 1})], sequence=7, discarded=12).packet(
        [(20, 0, {"_n": 1})], sequence=8, discarded=12
    )
    return trace


@construct
def packet_longer_than_its_events(order):
    """Times of packets that are earlier and later than those of their records."""
    trace = Trace(order)
    stream = trace.stream([Event("my:event", NUMBER)])
    stream.packet([(100, 0, {"_n": 1}), (200, 0, {"_n": 2})], begin=10, end=500)
    stream.packet([(600, 0, {"_n": 3})], begin=500, end=700)
    return trace


# ---- packet headers ----


def packet_header(header, **values):
    """Such a header in front of packets."""

    def make(order):
        trace = Trace(order, header=header, header_values=values)
        stream = trace.stream(
            [Event("my:event", NUMBER)], number=0 if header and "stream_id" in dict(header.members) else None
        )
        for k in range(3):
            stream.packet([(10 * k + n, 0, {"_n": n}) for n in range(4)])
        return trace

    return make


CONSTRUCTS["packet_header_none"] = packet_header(None)
CONSTRUCTS["packet_header_magic_only"] = packet_header(Struct(("magic", u32())))
CONSTRUCTS["packet_header_uuid_only"] = packet_header(Struct(("uuid", Array(u8(), 16))))
CONSTRUCTS["packet_header_id_only"] = packet_header(Struct(("stream_id", u8())))
CONSTRUCTS["packet_header_wide_id"] = packet_header(Struct(("magic", u32()), ("stream_id", u64())))
CONSTRUCTS["packet_header_narrow_id"] = packet_header(
    Struct(("magic", u32()), ("stream_id", Int(3)), ("rest", Int(5))), rest=7
)
CONSTRUCTS["packet_header_aligned"] = packet_header(
    Struct(
        ("magic", u32(align=32)),
        ("uuid", Array(u8(), 16)),
        ("stream_id", u32(align=32)),
        ("stream_instance_id", u64(align=64)),
    )
)
CONSTRUCTS["packet_header_own_members"] = packet_header(
    Struct(("magic", u32()), ("a", u8()), ("stream_id", u32()), ("b", Str())), a=1, b="own"
)


# ---- streams ----


@construct
def streams_of_several_classes(order):
    trace = Trace(order)
    kinds = [
        trace.stream(
            [Event(f"class{k}:event{n}", Struct(("_n", u8()), (f"_x{k}", u16()))) for n in range(3)],
            number=number,
            header=header,
        )
        for k, (number, header) in enumerate(((0, None), (7, compact()), (300, large()), (2, flat(8, 27, 1))))
    ]
    for k, stream in enumerate(kinds):
        for packet in range(3):
            stream.packet([(1000 * packet + 10 * n + k, n % 3, {"_n": n, f"_x{k}": k}) for n in range(20)])
    return trace


@construct
def streams_several_of_a_class(order):
    """One file each, interleaved."""
    trace = Trace(order)
    first = trace.stream([Event("my:event", NUMBER)], instance=0)
    for k, stream in enumerate([first] + [trace.another(first, instance) for instance in range(1, 6)]):
        for packet in range(3):
            stream.packet([(1000 * packet + 10 * n + k, 0, {"_n": n}) for n in range(20)], cpu_id=k)
    return trace


@construct
def streams_without_instances(order):
    """Several files of a class; nothing says which stream they are of."""
    header = Struct(("magic", u32()), ("stream_id", u32()))
    trace = Trace(order, header=header)
    first = trace.stream([Event("my:event", NUMBER)])
    for k, stream in enumerate([first, trace.another(first), trace.another(first)]):
        for packet in range(2):
            stream.packet([(1000 * packet + 10 * n + 3 - k, 0, {"_n": n}) for n in range(10)], cpu_id=k)
    return trace


@construct
def streams_one_in_several_files(order):
    """Files of the same stream, one behind the other in time, in an order that their names do not tell."""
    trace = Trace(order)
    first = trace.stream([Event("my:event", NUMBER)], instance=4)
    third, second = trace.another(first, 4), trace.another(first, 4)
    for k, stream in ((0, first), (1, second), (2, third)):
        for packet in range(2):
            number = 2 * k + packet
            stream.packet([(1000 * number + n, 0, {"_n": number}) for n in range(4)], sequence=number)
    return trace


@construct
def streams_of_equal_times(order):
    """All records at the same times, in several streams of several classes: which is first."""
    trace = Trace(order)
    one = trace.stream([Event("b:one", NUMBER), Event("a:two", NUMBER)], number=1, instance=3)
    zero = trace.stream([Event("z:zero", NUMBER), Event("a:two", NUMBER)], number=0, instance=5)
    streams = [one, zero, trace.another(one, 1), trace.another(zero, 2), trace.another(one, 2)]
    for k, stream in enumerate(streams):
        stream.packet([(10 * (n // 2), (n + k) % 2, {"_n": 10 * k + n}) for n in range(8)], cpu_id=k)
        stream.packet([(30, n % 2, {"_n": 10 * k + n}) for n in range(4)], cpu_id=k)
    return trace


@construct
def streams_of_equal_times_of_one_class(order):
    """The same events in all."""
    trace = Trace(order)
    first = trace.stream([Event("my:event", NUMBER)], instance=0)
    for k, stream in enumerate([first] + [trace.another(first, 10 - n) for n in range(5)]):
        stream.packet([(5, 0, {"_n": 10 * k + n}) for n in range(4)] + [(6, 0, {"_n": 10 * k + 5})], cpu_id=k)
    return trace


@construct
def streams_of_equal_times_without_instances(order):
    trace = Trace(order, header=Struct(("magic", u32()), ("stream_id", u32())))
    first = trace.stream([Event("my:event", NUMBER)])
    for k, stream in enumerate([first] + [trace.another(first) for n in range(4)]):
        stream.packet([(5, 0, {"_n": 10 * k + n}) for n in range(4)] + [(6, 0, {"_n": 10 * k + 5})], cpu_id=k)
    return trace


@construct
def streams_empty_file(order):
    """Files of no bytes beside others."""
    trace = Trace(order)
    first = trace.stream([Event("my:event", NUMBER)], instance=0)
    trace.another(first, 1)
    trace.another(first, 2).packet([(2, 0, {"_n": 2})])
    first.packet([(1, 0, {"_n": 1})])
    return trace


@construct
def streams_none(order):
    """Metadata only."""
    trace = Trace(order)
    trace.stream([Event("my:event", NUMBER)])
    trace.files.clear()
    return trace


@construct
def streams_with_contexts(order):
    """Every part that a record can have."""
    trace = Trace(order)
    common = Struct(("_vpid", Int(32, True)), ("_procname", Array(char(), 17)), ("_ip", u64(base=16)))
    events = [
        Event(
            "my:all",
            Struct(("_x", Int(13, True)), ("_s", Str())),
            Struct(("_own", u8()), ("_more", Real(32))),
            more='loglevel = 6; model.emf.uri = "http://example.org/a?b=c";',
        ),
        Event("my:common", Struct(("_x", u8())), more="loglevel = 13;"),
        Event("my:none"),
    ]
    stream = trace.stream(events, common=common, header=compact())
    context = {"_vpid": -1, "_procname": b"program\0".ljust(17, b"\0"), "_ip": 0xFFFF000012345678}
    for k in range(3):
        stream.packet(
            [
                (100 * k + n, n % 3, {"_x": n, "_s": f"text {n}"}, context, {"_own": n, "_more": n / 8})
                for n in range(9)
            ],
            cpu_id=k % 2,
        )
    return trace


# ---- environment ----


def with_environment(text):
    """With such an environment."""

    def make(order):
        trace = Trace(order, more=CLOCK + f"\nenv {{ {text} }};")
        trace.stream([Event("my:event", NUMBER, more="loglevel = 4;")]).packet(
            [(n, 0, {"_n": n}) for n in range(3)]
        )
        return trace

    return make


for _name, _text in {
    "kernel": 'hostname = "box"; domain = "kernel"; sysname = "Linux"; kernel_release = "6.1"; tracer_name = "lttng-modules"; tracer_major = 2;',
    "user": 'domain = "ust"; tracer_name = "lttng-ust"; hostname = "my.host-name"; vpid = 12345; procname = "prog ram"; vpid_datetime = "x";',
    "host_only": 'hostname = "h";',
    "domain_only": 'domain = "d";',
    "procname_only": 'procname = "p";',
    "vpid_only": "vpid = 7;",
    "procname_and_vpid": 'vpid = 7; procname = "p";',
    "host_and_vpid": 'vpid = 7; hostname = "h";',
    "numbers": "a = 0x10; b = 010; c = -5; vpid = -1; big = 9223372036854775807;",
    "escapes": r'hostname = "a\"b\\c\td\x41\101"; procname = "n\nl";',
    "twice": 'hostname = "x"; hostname = "y"; vpid = 1; vpid = 2;',
    "empty": 'hostname = ""; procname = ""; domain = "";',
}.items():
    CONSTRUCTS["environment_" + _name] = with_environment(_text)


@construct
def event_attributes(order):
    """Log levels, links, names."""
    trace = Trace(order)
    events = [Event(f"my:level{n}", NUMBER, more=f"loglevel = {n};") for n in range(17)]
    events += [
        Event("plain name", NUMBER),
        Event("a:b:c", NUMBER),
        Event('quote \\" and \\\\', NUMBER),
        Event("", NUMBER),
        Event("uri", NUMBER, more='model.emf.uri = "http://x/";'),
        Event("both", NUMBER, more='loglevel = 0x3; model.emf.uri = "u";'),
        Event("tab\\there", NUMBER),
        Event("empty uri", NUMBER, more='model.emf.uri = "";'),
    ]
    trace.stream(events).packet([(n, n, {"_n": n}) for n in range(len(events))])
    return trace


# ---- traces ----


def simple(order, host, times, uuid, clock=CLOCK, numbers=2):
    """A trace of a host."""
    trace = Trace(
        order, uuid=uuid, more=clock + f'\nenv {{ hostname = "{host}"; procname = "{host}p"; vpid = 1; }};'
    )
    stream = trace.stream([Event(f"{host}:event{n}", NUMBER) for n in range(numbers)], instance=0)
    stream.packet([(time, n % numbers, {"_n": n % 256}) for n, time in enumerate(times)])
    return trace


A, B, C = (
    UUID_END * 2 + "-" + "-".join([UUID_END] * 3) + "-" + UUID_END * 3
    for UUID_END in ("aaaa", "bbbb", "cccc")
)


@construct
def traces_two(order):
    return {
        "one": simple(order, "one", range(0, 100, 3), A),
        "two": simple(order, "two", range(1, 100, 4), B),
    }


@construct
def traces_of_both_byte_orders(order):
    return {"le": simple("le", "one", range(0, 100, 3), A), "be": simple("be", "two", range(1, 100, 4), B)}


@construct
def traces_deep_below(order):
    return {
        "a/b/one": simple(order, "one", range(0, 100, 3), A),
        "a/two": simple(order, "two", range(1, 100, 4), B),
        "c/d/e/three": simple(order, "three", range(2, 100, 5), C),
    }


@construct
def traces_of_equal_times(order):
    """Which is first: by folder, or by what else."""
    return {
        "2": simple(order, "one", [5] * 6, B),
        "1": simple(order, "two", [5] * 6, A),
        "3": simple(order, "three", [5] * 6, C),
    }


@construct
def traces_of_equal_times_same_event(order):
    return {
        "2": simple(order, "x", [5] * 6, B),
        "1": simple(order, "y", [5] * 6, C),
        "3": simple(order, "z", [5, 5, 6], A),
    }


@construct
def traces_of_several_clocks(order):
    """Absolute ones, of several frequencies."""
    return {
        "one": simple(
            order,
            "one",
            range(0, 100, 3),
            A,
            "clock { name = clk; freq = 1000000000; offset_s = 1000; absolute = true; };",
        ),
        "two": simple(
            order,
            "two",
            range(1, 100, 4),
            B,
            "clock { name = clk; freq = 1000000; offset_s = 999; offset = 999995; absolute = true; };",
        ),
    }


@construct
def traces_of_the_same_clock(order):
    clock = 'clock { name = clk; uuid = "11111111-2222-3333-4444-555555555555"; freq = 1000000000; offset_s = 1400000000; };'
    return {
        "one": simple(order, "one", range(0, 100, 3), A, clock),
        "two": simple(order, "two", range(1, 100, 4), B, clock),
    }


@construct
def traces_without_uuid(order):
    """Which cannot be told apart by it."""

    def one(host, times):
        trace = Trace(
            order,
            header=Struct(("magic", u32()), ("stream_id", u32())),
            more=CLOCK + f'\nenv {{ hostname = "{host}"; }};',
        )
        trace.stream([Event(f"{host}:event", NUMBER)]).packet([(time, 0, {"_n": 1}) for time in times])
        return trace

    return {"one": one("one", range(0, 100, 3)), "two": one("two", range(1, 100, 4))}


@construct
def traces_of_one_uuid_parts(order):
    """Parts of one trace, such as rotation leaves: the same metadata, one behind the other."""
    result = {}
    for k, folder in enumerate(("chunk-b", "chunk-a", "chunk-c")):
        trace = Trace(order)
        stream = trace.stream([Event("my:event", NUMBER)], instance=3)
        stream.packet([(1000 * k + n, 0, {"_n": 10 * k + n}) for n in range(5)], sequence=k)
        result[folder] = trace
    return result
