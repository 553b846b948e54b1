"""CTF 1.8 written by hand: field types that know their TSDL and their bits, packets, metadata.

Nothing here knows how Strata writes or reads a trace: what is right is what the specification says, and what
babeltrace2 reads. Speed does not matter: one bit after the other.
"""

import os
import struct

MAGIC = 0xC1FC1FC1
METADATA_MAGIC = 0x75D11D57
UUID = "5ba1c0de-0123-4567-89ab-cdef00112233"


class Bits:
    """Bits of a packet. Of each byte the lowest comes first if little-endian, else the highest."""

    def __init__(self, order):
        self.order = order
        self.data = bytearray()
        self.at = 0

    def align(self, bits):
        """Go to the next multiple."""
        self.at = -(-self.at // bits) * bits
        self.grow()

    def grow(self):
        """Room up to the current bit."""
        self.data.extend(bytes(max(0, -(-self.at // 8) - len(self.data))))

    def put(self, value, width, order=None):
        """An integer, two's complement if negative."""
        order = order or self.order
        begin = self.at
        self.at += width
        self.grow()
        value &= (1 << width) - 1
        for k in range(width):
            at = begin + k
            if order == "le":
                self.data[at // 8] |= (value >> k & 1) << at % 8
            else:
                self.data[at // 8] |= (value >> width - 1 - k & 1) << 7 - at % 8

    def raw(self, data):
        """Whole bytes at a whole byte."""
        assert self.at % 8 == 0
        self.data[self.at // 8 :] = data
        self.at += 8 * len(data)


class Int:
    """An integer; `extra` is more TSDL for its braces."""

    # Widths that are written instead of others: check_ctf2.py says for whom.
    instead = {}

    def __init__(self, width, signed=False, align=None, base=None, order=None, extra=""):
        width = self.instead.get(width, width)
        self.width, self.signed, self.order, self.base = width, signed, order, base
        self.align = align if align is not None else 8 if width % 8 == 0 else 1
        self.text = extra.startswith("encoding")
        self.extra = extra

    def tsdl(self):
        parts = [f"size = {self.width};", f"align = {self.align};", f"signed = {str(self.signed).lower()};"]
        if self.base:
            parts.append(f"base = {self.base};")
        if self.order:
            parts.append(f"byte_order = {self.order};")
        return "integer { " + " ".join(parts) + f" {self.extra} }}"

    def pack(self, bits, value):
        bits.align(self.align)
        bits.put(value, self.width, self.order)

    def range(self):
        """Least and greatest value."""
        if self.signed:
            return -(1 << self.width - 1), (1 << self.width - 1) - 1
        return 0, (1 << self.width) - 1


def char(encoding="UTF8"):
    """Arrays and sequences of these are text."""
    return Int(8, signed=True, extra=f"encoding = {encoding};")


class Real:
    """A floating-point number. A value that is an int is its bits."""

    def __init__(self, width=64, align=8, order=None):
        self.width, self.align, self.order = width, align, order

    def tsdl(self):
        exponent = 8 if self.width == 32 else 11
        order = f" byte_order = {self.order};" if self.order else ""
        return (
            f"floating_point {{ exp_dig = {exponent}; mant_dig = {self.width - exponent}; "
            f"align = {self.align};{order} }}"
        )

    def pack(self, bits, value):
        if isinstance(value, float):
            whole, real = ("<I", "<f") if self.width == 32 else ("<Q", "<d")
            (value,) = struct.unpack(whole, struct.pack(real, value))
        bits.align(self.align)
        bits.put(value, self.width, self.order)


class Str:
    """A text with a NUL behind it."""

    align = 8

    def __init__(self, encoding=None):
        self.encoding = encoding

    def tsdl(self):
        return f"string {{ encoding = {self.encoding}; }}" if self.encoding else "string"

    @staticmethod
    def pack(bits, value):
        bits.align(8)
        bits.raw((value if isinstance(value, bytes) else value.encode()) + b"\0")


class Enum:
    """Labels of an integer: (name, value) or (name, from, to) or name."""

    def __init__(self, container, labels):
        self.container, self.labels, self.align = container, labels, container.align

    def tsdl(self):
        texts = []
        for label in self.labels:
            name, *values = (label,) if isinstance(label, str) else label
            if not name.isidentifier():
                name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
            texts.append(name + (" = " if values else "") + " ... ".join(str(value) for value in values))
        return f"enum : {self.container.tsdl()} {{ {', '.join(texts)} }}"

    def pack(self, bits, value):
        self.container.pack(bits, value)


class Array:
    """A number of elements, or as many as the field `length` says. bytes are text."""

    def __init__(self, element, length):
        self.element, self.length, self.align = element, length, element.align

    def tsdl(self):
        # Without a name of its own an array has no TSDL: a structure's member() has it.
        raise NotImplementedError

    def pack(self, bits, value):
        bits.align(self.align)
        for element in value:
            self.element.pack(bits, element)


class Struct:
    """Members (name, type)."""

    def __init__(self, *members, align=1):
        self.members, self.least = members, align

    @property
    def align(self):
        return max([self.least] + [kind.align for _, kind in self.members])

    def tsdl(self):
        least = f" align({self.least})" if self.least > 1 else ""
        return "struct { " + " ".join(member(name, kind) for name, kind in self.members) + " }" + least

    def pack(self, bits, value):
        bits.align(self.align)
        for name, kind in self.members:
            kind.pack(bits, value[name])


class Variant:
    """One of the options (name, type); its value is (name, value)."""

    align = 1

    def __init__(self, tag, *options):
        self.tag, self.options = tag, options

    def tsdl(self):
        return (
            f"variant <{self.tag}> {{ " + " ".join(member(name, kind) for name, kind in self.options) + " }"
        )

    def pack(self, bits, value):
        name, value = value
        dict(self.options)[name].pack(bits, value)


class Raw:
    """TSDL as it stands, and the type that its bytes have."""

    def __init__(self, text, kind):
        self.text, self.kind, self.align = text, kind, kind.align

    def tsdl(self):
        return self.text

    def pack(self, bits, value):
        self.kind.pack(bits, value)


def member(name, kind):
    """Its declaration. Of several dimensions the outermost is written first, as in C."""
    lengths = ""
    while isinstance(kind, Array):
        lengths += f"[{kind.length}]"
        kind = kind.element
    return f"{kind.tsdl()} {name}{lengths};"


def u8(**more):
    return Int(8, **more)


def u16(**more):
    return Int(16, **more)


def u32(**more):
    return Int(32, **more)


def u64(**more):
    return Int(64, **more)


class Event:
    """A kind of event record; `more` is TSDL for its block."""

    def __init__(self, name, payload=None, context=None, number=None, more=""):
        self.name, self.payload, self.context, self.number, self.more = name, payload, context, number, more


CLOCK = 'clock { name = "clk"; freq = 1000000000; offset = 1400000000000000000; };'
STAMP = "map = clock.clk.value;"


class Header:
    """An event record's header: its type, and its value for an id, a time, and the time before in the packet."""

    def __init__(self, kind, value):
        self.kind, self.value = kind, value


def flat(id_width=16, time_width=64, align=8):
    """An id and a timestamp, or one of them, or none."""
    members = []
    if id_width:
        members.append(("id", Int(id_width, align=align)))
    if time_width:
        members.append(("timestamp", Int(time_width, align=align, extra=STAMP)))
    return Header(
        Struct(*members) if members else None, lambda number, time, before: {"id": number, "timestamp": time}
    )


def lttng(id_width, last, time_width, align=8, extended=False):
    """LTTng's: compact where the id and the time that has passed are small; else, or always, extended."""
    v = Variant(
        "id",
        ("compact", Struct(("timestamp", Int(time_width, align=1 if id_width < 8 else align, extra=STAMP)))),
        ("extended", Struct(("id", u32(align=align)), ("timestamp", u64(align=align, extra=STAMP)))),
    )
    tag = Enum(
        Int(id_width, align=1 if id_width < 8 else align), [("compact", 0, last), ("extended", last + 1)]
    )

    def value(number, time, before):
        wide = number > last or before is None or time >> time_width != before >> time_width
        if extended or wide:
            return {"id": last + 1, "v": ("extended", {"id": number, "timestamp": time})}
        return {"id": number, "v": ("compact", {"timestamp": time})}

    return Header(Struct(("id", tag), ("v", v), align=align), value)


def compact(**more):
    return lttng(5, 30, 27, **more)


def large(**more):
    return lttng(16, 65534, 32, **more)


PACKET_CONTEXT = Struct(
    ("timestamp_begin", u64(extra=STAMP)),
    ("timestamp_end", u64(extra=STAMP)),
    ("content_size", u64()),
    ("packet_size", u64()),
    ("packet_seq_num", u64()),
    ("events_discarded", u64()),
    ("cpu_id", u32()),
)
NO_CONTEXT = Struct()


class Stream:
    """A stream class, and the packets of one stream."""

    def __init__(
        self, trace, events, header=None, context=PACKET_CONTEXT, common=None, number=0, instance=None
    ):
        self.trace, self.events, self.header, self.context = trace, events, header or flat(), context
        self.common, self.number, self.instance = common, number, instance
        self.data = bytearray()
        self.packets = []
        self.sequence = 0
        self.before = None
        for index, event in enumerate(events):
            event.number = index if event.number is None else event.number

    def again(self, instance=None):
        """Another stream of this class."""
        other = Stream(self.trace, self.events, self.header, self.context, self.common, self.number, instance)
        return other

    def tsdl(self):
        order = [f"id = {self.number};"] if self.number is not None else []
        for name, kind in (
            ("packet.context", self.context),
            ("event.header", self.header.kind),
            ("event.context", self.common),
        ):
            if kind is not None and kind is not NO_CONTEXT:
                order.append(f"{name} := {kind.tsdl()};")
        text = "stream { " + "\n\t".join(order) + " };\n"
        for event in self.events:
            parts = [f'name = "{event.name}";', f"id = {event.number};"]
            parts += [f"stream_id = {self.number};"] if self.number is not None else []
            parts += [event.more] if event.more else []
            parts += [f"context := {event.context.tsdl()};"] if event.context else []
            parts += [f"fields := {event.payload.tsdl()};"] if event.payload else []
            text += "event { " + "\n\t".join(parts) + " };\n"
        return text

    def packet(self, records, padding=0, discarded=0, begin=None, end=None, sequence=None, **context):
        """records: (time, event's number, payload, common context, specific context), what is behind may be
        left out. `padding` bits behind the content; `context` overrides members of the packet's context."""
        times = [record[0] for record in records]
        values = {
            "timestamp_begin": (times[0] if times else 0) if begin is None else begin,
            "timestamp_end": (times[-1] if times else begin or 0) if end is None else end,
            "packet_seq_num": self.sequence if sequence is None else sequence,
            "events_discarded": discarded,
            "cpu_id": 0,
            "content_size": 0,
            "packet_size": 0,
        }
        self.sequence = values["packet_seq_num"] + 1
        values.update(context)
        header = {
            "magic": MAGIC,
            "uuid": bytes.fromhex(self.trace.uuid.replace("-", "")),
            "stream_id": self.number or 0,
            "stream_instance_id": self.instance or 0,
        }
        header.update(self.trace.header_values)
        # Once to know the sizes, once with them.
        for _ in range(2):
            bits = Bits(self.trace.order)
            if self.trace.header:
                self.trace.header.pack(bits, header)
            if self.context:
                self.context.pack(bits, values)
            self.before = None
            ends = [bits.at]
            for record in records:
                self.record(bits, *record)
                ends.append(bits.at)
            content = bits.at
            size = -(-(content + padding) // 8) * 8
            if "content_size" not in context:
                values["content_size"] = content
            if "packet_size" not in context:
                values["packet_size"] = size
        bits.at = size
        bits.grow()
        # Where it begins [byte], where its head and its records end [bit of it].
        self.packets.append((len(self.data), ends))
        self.data += bits.data
        return self

    def record(self, bits, time, number, payload=None, common=None, specific=None):
        """One event record."""
        event = next(event for event in self.events if event.number == number)
        if self.header.kind:
            self.header.kind.pack(bits, self.header.value(number, time, self.before))
        self.before = time
        for kind, value in ((self.common, common), (event.context, specific), (event.payload, payload)):
            if kind is not None:
                kind.pack(bits, value if value is not None else {})


PACKET_HEADER = Struct(
    ("magic", u32()), ("uuid", Array(u8(), 16)), ("stream_id", u32()), ("stream_instance_id", u64())
)


class Trace:
    """A trace: `types` is TSDL in front of all, `more` behind the trace block."""

    def __init__(
        self, order, header=PACKET_HEADER, types="", more=CLOCK, uuid=UUID, header_values=None, minor=8
    ):
        self.order, self.header, self.types, self.more = order, header, types, more
        self.uuid = uuid
        self.header_values = header_values or {}
        self.minor = minor
        self.classes = []
        self.files = []

    def stream(self, events, **more):
        """A new stream class with one stream."""
        stream = Stream(self, events, **more)
        self.classes.append(stream)
        self.files.append(stream)
        return stream

    def another(self, of, instance=None):
        """Another stream of a class."""
        stream = of.again(instance)
        self.files.append(stream)
        return stream

    def metadata(self):
        """Its text."""
        if isinstance(self.more, bytes):
            return self.more
        parts = ["major = 1;", f"minor = {self.minor};"]
        if self.header is not None and "uuid" in dict(self.header.members):
            parts.append(f'uuid = "{self.uuid}";')
        parts.append(f"byte_order = {self.order};")
        if self.header is not None:
            parts.append(f"packet.header := {self.header.tsdl()};")
        text = (
            "/* CTF 1.8 */\n"
            + self.types
            + "\ntrace {\n\t"
            + "\n\t".join(parts)
            + "\n};\n"
            + self.more
            + "\n"
        )
        return (text + "".join(kind.tsdl() for kind in self.classes)).encode("utf-8", "surrogateescape")

    def write(self, folder, packetised=False):
        """Into a new folder."""
        os.makedirs(folder)
        text = self.metadata()
        with open(os.path.join(folder, "metadata"), "wb") as file:
            file.write(packetise(text, self.order, self.uuid) if packetised else text)
        for number, stream in enumerate(self.files):
            with open(os.path.join(folder, f"stream_{number}"), "wb") as file:
                file.write(stream.data)


def packetise(text, order, uuid=UUID, most=300, padding=5):
    """Metadata in packets of at most so many bytes of text."""
    end = "<" if order == "le" else ">"
    out = b""
    for at in range(0, len(text), most):
        part = text[at : at + most]
        out += struct.pack(
            end + "I16sIIIBBBBB",
            METADATA_MAGIC,
            bytes.fromhex(uuid.replace("-", "")),
            0,
            (37 + len(part)) * 8,
            (37 + len(part) + padding) * 8,
            0,
            0,
            0,
            1,
            8,
        )
        out += part + bytes(padding)
    return out


class Instead:
    """A trace that babeltrace2 cannot read, for a reason, and another one that has the same text once `change`
    (pattern, replacement) was made."""

    def __init__(self, trace, reference, change, reason):
        self.trace, self.reference, self.change, self.reason = trace, reference, change, reason
