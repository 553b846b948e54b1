"""Compares what the module strata gives of a trace with babeltrace2's module, and its rows with strata sql."""

import collections
import ctypes
import json
import math
import pathlib
import subprocess
import sys

import bt2
import strata

COMMAND, PATH = sys.argv[1:]


def plain(field):
    """A field of babeltrace2 as a value of Python."""
    if isinstance(field, bt2._OptionFieldConst):
        return plain(field.field) if field.has_field else None
    if isinstance(field, bt2._VariantFieldConst):
        return {field.selected_option.name if hasattr(field.selected_option, "name") else "": plain(field.selected_option)}
    if isinstance(field, bt2._StructureFieldConst):
        return {name: plain(member) for name, member in field.items()}
    if isinstance(field, bt2._ArrayFieldConst):
        return [plain(element) for element in field]
    if isinstance(field, bt2._BoolFieldConst):
        return bool(field)
    if isinstance(field, (bt2._IntegerFieldConst, bt2._BitArrayFieldConst)):
        return int(field)
    if isinstance(field, bt2._RealFieldConst):
        return float(field)
    if isinstance(field, bt2._StringFieldConst):
        # Bytes that are no UTF-8 are surrogates there, and U+FFFD in strata.
        return str(field).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    raise TypeError(type(field))


def known(value):
    """The value as text, by which NaN is equal to itself."""
    return json.dumps(value, sort_keys=True)


def of_babeltrace():
    """All event records, as babeltrace2 gives them."""
    folders = sorted(str(metadata.parent) for metadata in pathlib.Path(PATH).rglob("metadata"))
    for message in bt2.TraceCollectionMessageIterator(folders):
        if not isinstance(message, bt2._EventMessageConst):
            continue
        event = message.event
        contexts = {}
        for part in (event.common_context_field, event.specific_context_field):
            contexts.update(plain(part) if part is not None else {})
        payload = plain(event.payload_field) if event.payload_field is not None else {}
        cpu = event.packet.context_field["cpu_id"] if event.packet.context_field is not None else None
        yield message.default_clock_snapshot.ns_from_origin, event.name, int(cpu), known(payload), known(contexts)


def of_strata(trace):
    """All event records, as the module gives them."""
    last = 0
    for event in trace:
        assert event.time_ns >= last, event
        last = event.time_ns
        yield event.time_ns, event.name, event.cpu, known(event.fields), known(event.context)


# ---- Arrow's C interface, as far as it is needed to look at what the module gives ----


class Schema(ctypes.Structure):
    """struct ArrowSchema."""


class Array(ctypes.Structure):
    """struct ArrowArray."""


class Stream(ctypes.Structure):
    """struct ArrowArrayStream."""


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))),
    ("private_data", ctypes.c_void_p),
]
Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))),
    ("private_data", ctypes.c_void_p),
]
NUMBERS = {b"l": ctypes.c_int64, b"L": ctypes.c_uint64, b"g": ctypes.c_double}


def cells(kind, array):
    """The values of a column."""
    assert array.offset == 0
    valid = ctypes.cast(array.buffers[0], ctypes.POINTER(ctypes.c_uint8)) if array.null_count else None
    for row in range(array.length):
        if valid and not valid[row // 8] >> row % 8 & 1:
            yield None
        elif kind in NUMBERS:
            yield ctypes.cast(array.buffers[1], ctypes.POINTER(NUMBERS[kind]))[row]
        else:
            ends = ctypes.cast(array.buffers[1], ctypes.POINTER(ctypes.c_int32))
            text = ctypes.string_at(array.buffers[2] + ends[row], ends[row + 1] - ends[row])
            yield text.decode() if kind == b"u" else text


def of_arrow(rows):
    """The formats of the columns, and all rows, of an Arrow stream."""
    capsule = rows.__arrow_c_stream__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = ctypes.cast(get(capsule, b"arrow_array_stream"), ctypes.POINTER(Stream))
    schema, array, found = Schema(), Array(), []
    assert stream.contents.get_schema(stream, ctypes.byref(schema)) == 0
    kinds = [schema.children[column].contents.format for column in range(schema.n_children)]
    while True:
        status = stream.contents.get_next(stream, ctypes.byref(array))
        assert status == 0, stream.contents.get_last_error(stream)
        if not array.release:
            break
        columns = [list(cells(kind, array.children[column].contents)) for column, kind in enumerate(kinds)]
        found.extend(zip(*columns))
        array.release(ctypes.byref(array))
    schema.release(ctypes.byref(schema))
    return kinds, found


def same(value, other):
    """Whether two cells are equal; a text of digits stands for an integer that SQLite has no place for."""
    if isinstance(value, float) and isinstance(other, str):
        return math.isnan(value) and other == "NaN"
    return value == (int(other) if isinstance(value, int) and isinstance(other, str) else other)


trace = strata.open(PATH)
wanted, found = collections.Counter(of_babeltrace()), collections.Counter(of_strata(trace))
lacking, surplus = wanted - found, found - wanted
for key in surplus.elements():
    # babeltrace2 2.0.4 keeps records for reuse, and a text that turns empty there keeps its old value: see known.py.
    fields = json.loads(key[3])
    empty = [member for member in fields if fields[member] == ""]
    assert empty, key
    other = next((other for other in lacking.elements() if other[:3] == key[:3] and other[4] == key[4] and all(
        member in empty or value == fields[member] for member, value in json.loads(other[3]).items())), None)
    assert other, (key, sorted(lacking)[:3])
    lacking[other] -= 1
assert not +lacking, (sum(lacking.values()), sorted(+lacking)[:3])
assert sum(found.values()) > 20, len(found)

name, number = collections.Counter(key[1] for key in found.elements()).most_common(1)[0]
assert sum(1 for _ in trace.events(names=[name])) == number
assert sum(1 for _ in trace.events(f'name == "{name}"')) == number, name
middle = (trace.begin_ns + trace.end_ns) // 2
halves = [sum(1 for _ in trace.events(end_ns=middle)), sum(1 for _ in trace.events(begin_ns=middle + 1))]
assert sum(halves) == sum(found.values()), halves

# Of tables of events those of the rarest and of the most frequent ones: each is a pass over the trace.
of_events = {row[0] for row in trace.sql("select name from event_counts").fetchall()}
frequent = [name for name, _ in collections.Counter(key[1] for key in found.elements()).most_common()]
tables = [table for table in trace.tables if table not in of_events] + [frequent[0], *frequent[-8:]]
for table in tables:
    tuples = trace.table(table).fetchall()
    kinds, arrow = of_arrow(trace.table(table))
    assert len(tuples) == len(arrow), (table, len(tuples), len(arrow))
    for row, other in zip(arrow, tuples):
        assert all(same(value, cell) for value, cell in zip(row, other)), (table, kinds, row, other)
# A reader of Arrow batches gets all rows, also behind one who has taken them, or some of them, as tuples.
rows = trace.table("event_counts")
one = next(rows)
_, whole = of_arrow(rows)
assert len(whole) > 2 and len(whole) == 1 + len(rows.fetchall()) and same(whole[0][0], one[0]), (whole[:2], one)
_, again = of_arrow(rows)
assert again == whole and rows.fetchall() == [], (len(again), len(whole))
events = trace.events(names=[name])
next(events)
_, whole = of_arrow(events)
assert len(whole) == number == 1 + sum(1 for _ in events), (len(whole), number)
query = "select name, count(*), min(time_ns) from events group by name order by name"
lines = subprocess.run([COMMAND, "sql", "--json", PATH, query], stdout=subprocess.PIPE, check=True).stdout.splitlines()
assert trace.sql(query).fetchall() == [tuple(json.loads(line).values()) for line in lines]
for report in strata.REPORTS:
    rows = trace.report(report)
    assert rows.columns and all(len(row) == len(rows.columns) for row in rows), report
assert sum(1 for _ in trace.timeline()) == trace.sql("select count(*) from states").fetchall()[0][0]
