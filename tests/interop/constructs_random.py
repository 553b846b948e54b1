"""Traces of any types, values and headers: NAME -> function(order) -> Trace. The seed is in the name."""

import random

from writer import (
    PACKET_CONTEXT,
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
    flat,
    large,
)

CONSTRUCTS = {}


def choose_type(rng, depth, earlier):
    """Any type; `earlier` has names of lengths and tags in front of it."""
    roll = rng.random()
    if depth <= 0 or roll < 0.5:
        roll = rng.random()
        if roll < 0.6:
            # A field of the other byte order begins and ends at whole bytes: babeltrace2 asks for it.
            width, base = rng.randint(1, 64), rng.choice((None, 2, 8, 10, 16))
            return Int(
                60 if base == 16 and width in (61, 62, 63) else width,
                rng.random() < 0.5,
                rng.choice((1, 1, 1, 2, 4, 8, 16, 32, 64)),
                base,
            )
        if roll < 0.75:
            return Str()
        if roll < 0.9:
            return Real(rng.choice((32, 64)), rng.choice((1, 8, 32, 64)))
        return Enum(Int(rng.randint(3, 64), False, rng.choice((1, 8))), [("A", 0), ("B", 1, 4), ("C", 3, 7)])
    if roll < 0.65:
        return random_struct(rng, depth - 1, earlier)
    if roll < 0.75:
        return Array(
            char() if rng.random() < 0.3 else choose_type(rng, depth - 1, earlier), rng.randint(0, 4)
        )
    lengths = [name for name in earlier if name.startswith("n")]
    tags = [name for name in earlier if name.startswith("t")]
    if roll < 0.88 and lengths:
        return Array(
            char() if rng.random() < 0.3 else choose_type(rng, depth - 1, earlier), rng.choice(lengths)
        )
    if tags:
        return Variant(
            rng.choice(tags), *[(name, choose_type(rng, depth - 1, earlier)) for name in ("x", "y", "z")]
        )
    return Int(rng.randint(1, 64), align=1)


def random_struct(rng, depth, earlier, dynamic=True):
    """Members of any type, with lengths and tags among them."""
    members, known = [], list(earlier)
    for _ in range(rng.randint(0, 6)):
        number = rng.randint(0, 1 << 40)
        roll = rng.random()
        if not dynamic:
            name, kind = f"_f{number}", choose_type(rng, 0, [])
        elif roll < 0.15:
            name, kind = f"n{number}", Int(rng.randint(3, 64), align=rng.choice((1, 8)))
        elif roll < 0.3:
            name, kind = f"t{number}", Enum(
                Int(rng.randint(2, 20), align=1), [("x", 0), ("y", 1), ("z", 2, 3)]
            )
        else:
            name, kind = f"_f{number}", choose_type(rng, depth, known)
        members.append((name, kind))
        known.append(name)
    return Struct(*members, align=rng.choice((1, 1, 1, 8, 32)))


def random_value(rng, kind, known):
    """A value of it; `known` has the values of lengths and tags in front of it."""
    if isinstance(kind, Struct):
        value, known = {}, dict(known)
        for name, part in kind.members:
            if name.startswith("n"):
                value[name] = rng.randint(0, 4)
            elif name.startswith("t"):
                value[name] = rng.randint(0, 3)
            else:
                value[name] = random_value(rng, part, known)
            known[name] = value[name]
        return value
    if isinstance(kind, Array):
        length = kind.length if isinstance(kind.length, int) else known[kind.length]
        if isinstance(kind.element, Int) and kind.element.text:
            # No NUL and not empty: what babeltrace2 makes of those has its own constructs.
            return bytes(rng.choice(b'abc\xc3\xa9"\\\n') for _ in range(length))
        return [random_value(rng, kind.element, known) for _ in range(length)]
    if isinstance(kind, Variant):
        name = "xyzz"[known[kind.tag]]
        return (name, random_value(rng, dict(kind.options)[name], known))
    if isinstance(kind, Int):
        return rng.choice((rng.randint(*kind.range()), *kind.range(), 0))
    if isinstance(kind, Enum):
        return rng.choice((rng.randint(0, 7), rng.randint(*kind.container.range())))
    if isinstance(kind, Real):
        return rng.choice((rng.uniform(-10, 10), rng.getrandbits(kind.width)))
    return "".join(rng.choice('abcxyz \u00e9"\\\n') for _ in range(rng.randint(1, 12)))


def random_trace(seed):
    """Any types, any values, any headers."""

    def make(order):
        rng = random.Random(seed)
        trace = Trace(order)
        for number in range(rng.choice((1, 1, 2, 3))):
            events = [
                Event(
                    f"my:event{number}.{n}",
                    random_struct(rng, 4, []),
                    random_struct(rng, 2, [], False) if rng.random() < 0.3 else None,
                )
                for n in range(5)
            ]
            common = random_struct(rng, 2, []) if rng.random() < 0.4 else None
            own = random_struct(rng, 2, []) if rng.random() < 0.4 else Struct()
            header = rng.choice(
                (
                    flat(16, 64),
                    flat(8, 64, 1),
                    flat(32, 40, 32),
                    compact(),
                    large(),
                    compact(align=1),
                    flat(3, 32, 1),
                )
            )
            stream = trace.stream(
                events,
                common=common,
                header=header,
                number=number,
                context=Struct(*PACKET_CONTEXT.members, *own.members),
            )
            for file in [stream] + [trace.another(stream, k + 1) for k in range(rng.choice((0, 0, 1, 2)))]:
                for packet in range(3):
                    records = []
                    for n in range(rng.choice((0, 1, 10, 10))):
                        event = rng.choice(events)
                        records.append(
                            (
                                packet * 1000 + 10 * n + rng.randrange(10),
                                event.number,
                                random_value(rng, event.payload, {}),
                                random_value(rng, common, {}) if common else None,
                                random_value(rng, event.context, {}) if event.context else None,
                            )
                        )
                    file.packet(
                        records,
                        padding=rng.choice((0, 1, 64, 1000)),
                        begin=packet * 1000,
                        end=packet * 1000 + 990,
                        **random_value(rng, own, {}),
                    )
        return trace

    return make


for _seed in range(40):
    CONSTRUCTS[f"random_{_seed}"] = random_trace(_seed)
