"""What the module strata does with what is not right, and when it is stopped."""

import os
import pathlib
import shutil
import signal
import struct
import sys
import threading
import time
import warnings

import strata

PATH, SCRATCH = sys.argv[1:]
# Of so many a pass takes half a second or more.
CALLS = 300_000


def raises(kind, do, text):
    """Asserts that a call raises an exception of this kind, with this text in it."""
    try:
        do()
    except kind as error:
        assert text in str(error), (text, str(error))
        return
    raise AssertionError(f"no {kind.__name__} with '{text}'")


trace = strata.open(PATH)
raises(strata.OpenError, lambda: strata.open("/nonexistent"), "there is no such trace")
raises(strata.OpenError, strata.open, "no trace is named")
raises(strata.QueryError, lambda: trace.sql("select * from missing"), "no such table: missing")
raises(strata.QueryError, lambda: trace.sql("drop table events"), "a query only reads")
raises(strata.QueryError, lambda: trace.sql("select 1; select 2").fetchall(), "one statement")
raises(strata.QueryError, lambda: trace.sql(" "), "no statement")
raises(strata.QueryError, lambda: trace.events("a =="), "column 5")
raises(KeyError, lambda: trace.table("missing"), "Trace.tables")
raises(KeyError, lambda: trace.report("missing"), "REPORTS")
event = next(iter(trace))
raises(KeyError, lambda: event["missing"], "missing")
assert event.get("missing", 5) == 5 and "missing" not in event
# A query that runs leaves others alone, and one that nobody wants any more ends.
for row in trace.sql("select name from events limit 3"):
    assert trace.sql("select count(*) from events").fetchall()[0][0] > 3
endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
del row
for _ in range(10):
    next(trace.sql(endless))
deadline = time.monotonic() + 60



def has_thread(name):
    """Whether this process has a thread of that name: those of queries are "query", those that read for a filter "filter" or "events"."""
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().startswith(name):
                return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


while has_thread("query"):
    assert time.monotonic() < deadline, "a query that nobody wants is still running"

# Ctrl-C ends a query that has no row yet.
query = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
begun = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
begun.start()
raises(KeyboardInterrupt, lambda: trace.sql(query).fetchall(), "")
begun.join()



def interrupted(name, do):
    """Ctrl-C as soon as there is a thread of that name ends a call. Returns the CPU time that the call took."""
    deadline = time.monotonic() + 60
    while has_thread(name):
        assert time.monotonic() < deadline, f"a thread '{name}' that nobody wants still runs"
    is_over = threading.Event()

    def interrupt():
        while not is_over.is_set():
            if has_thread(name):
                os.kill(os.getpid(), signal.SIGINT)
                return

    helper = threading.Thread(target=interrupt)
    helper.start()
    before = time.process_time()
    try:
        do()
    except BaseException as error:
        took = time.process_time() - before
        assert isinstance(error, KeyboardInterrupt) or "interrupted" in str(error), repr(error)
        return took
    finally:
        is_over.set()
        try:
            helper.join()
        except KeyboardInterrupt:
            helper.join()
    raise AssertionError(f"{name} is not interrupted")




def make_trace(name, description, head, records, number):
    """A trace of one packet, with times from 1000 ns on, one for each record; `head` is what the packet says besides."""
    folder = pathlib.Path(SCRATCH, name)
    folder.mkdir()
    (folder / "metadata").write_text("""/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
""" + description)
    size = 8 * (32 + len(head) + len(records))
    (folder / "stream").write_bytes(struct.pack("<QQQQ", 1000, 1000 + number, size, size) + head + records)
    return strata.open(folder, counters=["app:count.value"])


# Ctrl-C ends the pass that a filter takes over the whole trace before it selects anything.
large = make_trace("large", """env { domain = "kernel"; tracer_name = "lttng-modules"; };
stream {
  packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size; u32 cpu_id; };
  event.header := struct { u32 id; ts timestamp; };
  event.context := struct { u32 tid; };
};
event { name = "syscall_entry_close"; id = 0; fields := struct { i64 fd; }; };
event { name = "syscall_exit_close"; id = 1; fields := struct { i64 ret; }; };
""", struct.pack("<I", 0), b"".join(struct.pack("<IQIq", n % 2, 1000 + n, 10, 0) for n in range(2 * CALLS)), 2 * CALLS)
before = time.process_time()
assert next(large.events("duration > 1h"), None) is None
whole = time.process_time() - before
print(f"a filter's pass takes {whole:.2f} s of CPU time", end="")
for name, do in (("events", lambda: next(large.events("duration > 1h"), None)),
                 ("filter", lambda: large.events("duration > 1h").__arrow_c_stream__())):
    took = interrupted(name, do)
    print(f", {took:.2f} s until Ctrl-C has ended it in '{name}'", end="")
    assert took < whole / 2, f"Ctrl-C ends a filter's pass after {took} s of CPU time; the whole pass takes {whole} s"
print()

# A trace that is cut in the middle of a packet: what is intact, and a warning.
damaged = pathlib.Path(SCRATCH, "damaged")
shutil.copytree(PATH, damaged)
file = max((path for path in damaged.rglob("*") if path.is_file() and path.name.startswith("channel")), key=lambda path: path.stat().st_size)
os.truncate(file, file.stat().st_size - 100)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    events = strata.open(damaged).events()
    number = sum(1 for _ in events)
assert number > 0 and any(issubclass(one.category, strata.TraceWarning) for one in caught), (number, caught)
with warnings.catch_warnings():
    warnings.simplefilter("error")
    raises(strata.TraceWarning, lambda: list(strata.open(damaged)), "")

# More counters than are distinguished: rows and a warning say how many values are in no row.
COUNTERS, MORE = 1 << 16, 100
full = make_trace("full", """env { domain = "ust"; };
stream {
  packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size; u64 packet_size; };
  event.header := struct { ts timestamp; };
  event.context := struct { u32 vpid; u32 vtid; };
};
event { name = "app:count"; fields := struct { u32 value; }; };
""", b"", b"".join(struct.pack("<QIII", 1000 + n, 10 + n, 10 + n, n) for n in range(COUNTERS + MORE)), COUNTERS + MORE)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rows = full.sql("select count(*) from counter")
    assert rows.left_out == [], "what is left out is known before the end"
    number = rows.fetchall()[0][0]
assert number == COUNTERS and len(rows.left_out) == 1, (number, rows.left_out)
assert rows.left_out[0].startswith(f"{MORE}×, there are more counters"), rows.left_out
assert any(rows.left_out[0] in str(one.message) for one in caught), [str(one.message) for one in caught]
rows = trace.sql("select count(*) from counter")
assert rows.fetchall() and rows.left_out == []

# Bytes that are no trace.
wrong = pathlib.Path(SCRATCH, "wrong")
wrong.mkdir()
(wrong / "metadata").write_bytes(b"\0\xff'\" no metadata")
raises(strata.OpenError, lambda: strata.open(wrong), "metadata")
