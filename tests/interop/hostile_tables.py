"""Writes traces with hostile names and with values at the limits of their types, and compares what all that gives tables says of these with
what was written."""

import csv
import io
import json
import math
import pathlib
import sqlite3
import struct
import subprocess
import sys
import warnings

import duckdb
import pyarrow
import pyarrow.parquet
import strata

import hostile_trace

COMMAND, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
SECOND = 1700000000 * 10**9
LIMITS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
SIGNED = [0, 1, -1, 2**31, -2**31 - 1, 2**63 - 1, -2**63, 42]
REALS = [0.0, -0.0, 5e-324, -1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.1]
TEXTS = [b"", b"'", b'"; drop table events; --', b"\xff\xfe'", b"\x1b[2J\x07", "\u202e\ufeff\U0001f600".encode(), b"%s\\0\n\r,", b"NULL"]
BLOBS = [bytes([number, 0, 255, 39]) for number in range(8)]
# Names of fields, and of their columns; control characters are escaped in names of fields when a trace is opened.
NAMES = {"time_ns": "field_time_ns", "select": "select", 'q"uo\'te; --': 'q"uo\'te; --', "": "field_", "nul\0l": "nul\\u{0}l",
         "CASE": "CASE", "case": "field_case", "\u202e \n": "\u202e \\n"}
EVENT = "app:x\"y'z; drop table events; --\n\u202e%n"


def shown(text):
    """A text as tables have it."""
    return text.decode("utf-8", "replace").replace("\0", "\ufffd")


def limits_trace(folder):
    """A trace of CTF 2 with eight records of one event, whose fields have hostile names and these values."""
    folder.mkdir()
    u64 = {"type": "fixed-length-unsigned-integer", "length": 64, "byte-order": "little-endian", "alignment": 8}
    kinds = [u64, {**u64, "type": "fixed-length-signed-integer"}, {**u64, "type": "fixed-length-floating-point-number"},
             {"type": "null-terminated-string"}, {"type": "static-length-blob", "length": 4}, u64, u64,
             {"type": "static-length-array", "length": 2, "element-field-class": u64}]

    def structure(members):
        return {"type": "structure", "member-classes": [{"name": name, "field-class": kind} for name, kind in members]}

    fragments = [
        {"type": "preamble", "version": 2},
        {"type": "trace-class", "environment": {"hostname": "../h'o\"st\0"}},
        {"type": "clock-class", "id": "c", "frequency": 1000000000, "origin": "unix-epoch"},
        {"type": "data-stream-class", "id": 0, "default-clock-class-id": "c", "event-record-header-field-class": structure([
            ("id", {**u64, "roles": ["event-record-class-id"]}), ("time", {**u64, "roles": ["default-clock-timestamp"]})])},
        {"type": "event-record-class", "id": 0, "name": EVENT, "payload-field-class": structure(zip(NAMES, kinds))},
        {"type": "event-record-class", "id": 1, "name": "nul\0l", "payload-field-class": structure([("n", u64)])},
    ]
    (folder / "metadata").write_bytes(b"".join(b"\x1e" + json.dumps(one).encode() + b"\n" for one in fragments))
    records = b""
    for number in range(8):
        records += struct.pack("<QQQqd", 0, SECOND + number, LIMITS[number], SIGNED[number], REALS[number])
        records += TEXTS[number] + b"\0" + BLOBS[number] + struct.pack("<QQQQ", number, 2**64 - 1 - number, number, 2**64 - 1)
    (folder / "stream").write_bytes(records + struct.pack("<QQQ", 1, SECOND + 8, 7))


def run(*words, status=0):
    """What the command prints."""
    done = subprocess.run([COMMAND, *words], capture_output=True, check=False)
    assert done.returncode == status, (words, done)
    return done.stdout.decode()


def quoted(name):
    """A name in a query."""
    return '"' + name.replace('"', '""') + '"'


def alike(found, wanted):
    """Whether a value is what was written, whatever the engine has it as."""
    if isinstance(wanted, float):
        if math.isnan(wanted):
            return found == "NaN" or isinstance(found, float) and math.isnan(found)
        return float(found) == wanted and math.copysign(1, float(found)) == math.copysign(1, wanted)
    if isinstance(wanted, bytes):
        return found == wanted or found == wanted.hex()
    if isinstance(wanted, int):
        return int(found) == wanted
    return found == wanted


def check(what, rows):
    """Compares the rows of the table of the event with what was written."""
    assert len(rows) == 8, (what, rows)
    for number, row in enumerate(rows):
        wanted = [LIMITS[number], SIGNED[number], REALS[number], shown(TEXTS[number]), BLOBS[number], number, 2**64 - 1 - number]
        for name, found, value in zip(NAMES, row, wanted):
            assert alike(found, value), (what, number, name, found, value)
        array = json.loads(row[7]) if isinstance(row[7], str) else row[7]
        assert [int(value) for value in array] == [number, 2**64 - 1], (what, row[7])
    print("ok", what)


trace = SCRATCH / "limits"
limits_trace(trace)
columns = ", ".join(map(quoted, NAMES.values()))
query = f"select {columns} from {quoted(EVENT)} order by {quoted('time_ns')}"
check("strata sql, JSON", [list(json.loads(line).values()) for line in run("sql", "--json", trace, "-q", query).splitlines()])
check("strata sql, CSV", list(csv.reader(io.StringIO(run("sql", "--format", "csv", trace, "-q", query), newline="")))[1:])
latest = [list(json.loads(line).values()) for line in run("sql", "--json", trace, "-q", query + " desc").splitlines()]
check("strata sql, the latest first", latest[::-1])
assert "\x1b" not in run("sql", trace, "-q", query) and "\u202e" not in run("sql", trace, "-q", query)
run("sql", trace, "-q", f"select * from {quoted(EVENT)} where name = '{EVENT}'".replace("y'z", "y''z", 0), status=2)
parameter = run("sql", "--json", trace, "-q", "select count(*) as n from events where name = :name", "--set", f"name={EVENT}")
assert json.loads(parameter) == {"n": 8}, parameter

run("export", "--to", "sqlite", "-o", SCRATCH / "limits.sqlite", trace)
database = sqlite3.connect(SCRATCH / "limits.sqlite")
assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
rows = [json.loads(fields) for fields, in database.execute("SELECT fields FROM event WHERE name = ? ORDER BY time_ns", (EVENT,))]
values = [list(row.values()) for row in rows]
for row in values:
    # Infinite numbers and NaN are texts there.
    row[2] = float(row[2])
check("SQLite", values)

run("export", "--to", "parquet", "-o", SCRATCH / "dataset", trace)
run("export", "--to", "parquet", "-o", SCRATCH / "dataset", "--table", EVENT, trace)
files = {file.parts[len(SCRATCH.parts) + 1]: file for file in (SCRATCH / "dataset").rglob("*.parquet")}
folder, = (name for name in files if name.startswith("app"))
assert all(file.resolve().is_relative_to((SCRATCH / "dataset").resolve()) for file in files.values())
assert len(files[folder].relative_to(SCRATCH).parts) == 6, files[folder]
check("DuckDB", duckdb.sql(f"select {columns} from read_parquet('{files[folder]}', hive_partitioning=false) order by time_ns").fetchall())
of_arrow = pyarrow.parquet.ParquetFile(files[folder]).read().to_pylist()
check("pyarrow", [[row[name] for name in NAMES.values()] for row in of_arrow])
assert duckdb.sql(f"select count(*) from read_parquet('{SCRATCH}/dataset/events/**/*.parquet')").fetchall() == [(9,)]
(host,), = duckdb.sql(f"select distinct host from read_parquet('{SCRATCH}/dataset/events/**/*.parquet', hive_partitioning=true)").fetchall()
assert host == "../h'o\"st\0" or host == "../h'o\"st\ufffd", host

opened = strata.open(trace)
events = list(opened.events(names=[EVENT]))
check("events of Python", [[event.fields[name] for name in event.fields] for event in events])
check("rows of Python", opened.sql(query).fetchall())
arrow = pyarrow.RecordBatchReader.from_stream(opened.sql(query)).read_all().to_pylist()
check("Arrow of Python", [list(row.values()) for row in arrow])
typed = pyarrow.RecordBatchReader.from_stream(opened.events(names=[EVENT])).read_all()
check("Arrow of events with columns", [[row[name] for name in NAMES.values()] for row in typed.to_pylist()])
mixed = pyarrow.RecordBatchReader.from_stream(opened.events()).read_all().to_pylist()
assert [row["name"] for row in mixed] == [EVENT] * 8 + ["nul\ufffdl"], mixed
relation = opened.events(names=[EVENT])  # DuckDB finds it by its name.
assert duckdb.sql("select count(*) from relation").fetchall() == [(8,)]
relation = opened.sql("select time_ns, 1 as one from events")
# DuckDB reads a stream for the schema first, and another one for each query.
assert duckdb.sql("select count(*), sum(one) from relation").fetchall() == [(9, 9)]
assert duckdb.sql("select count(*) from relation").fetchall() == [(9,)]
assert len(relation.fetchall()) == 9 and relation.fetchall() == []

# Every name of a kernel and a program hostile, and a packet cut off: nothing fails, and all tables can be read by all.
warnings.simplefilter("ignore")
for name, make in (("kernel", hostile_trace.kernel_trace), ("second", hostile_trace.second_trace)):
    trace = SCRATCH / name
    make(trace)
    status = 2 if name == "second" else 0
    opened = strata.open(trace)
    tables = list(opened.tables)
    assert any("evil" in table for table in tables), tables
    statements = "".join(f"select * from {quoted(table)};\n" for table in tables)
    done = subprocess.run([COMMAND, "sql", "--json", trace], input=statements.encode(), capture_output=True, check=False)
    assert done.returncode == status, done
    assert all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines())
    all_rows = 0
    for table in tables:
        rows = opened.sql(f"select * from {quoted(table)}").fetchall()
        all_rows += len(rows)
        taken = pyarrow.RecordBatchReader.from_stream(opened.table(table)).read_all()
        assert taken.num_rows == len(rows), table
    assert all_rows == len(done.stdout.splitlines()), (all_rows, len(done.stdout.splitlines()))
    counts = subprocess.run([COMMAND, "sql", trace, "select * from event_counts"], capture_output=True, check=False)
    assert counts.returncode == status, counts
    run("export", "--to", "sqlite", "-o", SCRATCH / f"{name}.sqlite", trace, status=status)
    database = sqlite3.connect(SCRATCH / f"{name}.sqlite")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    number = sum(1 for _ in opened)
    assert number > 2 and database.execute("SELECT count(*) FROM event").fetchone() == (number,)
    run("export", "--to", "parquet", "-o", SCRATCH / f"{name}.dataset", trace, status=status)
    for file in (SCRATCH / f"{name}.dataset").rglob("*.parquet"):
        table = file.relative_to(SCRATCH).parts[1]
        rows = duckdb.sql(f"select * from read_parquet('{file}', hive_partitioning=false)").fetchall()
        assert len(rows) == pyarrow.parquet.ParquetFile(file).read().num_rows, table
        if table == "events":
            assert len(rows) == number and any("evil" in str(row) for row in rows)
    print("ok", name, len(tables), "tables")
