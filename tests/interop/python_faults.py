"""What the module strata does with what is not right, and when it is stopped."""

import os
import pathlib
import shutil
import signal
import sys
import threading
import time
import warnings

import strata

PATH, SCRATCH = sys.argv[1:]


def raises(kind, do, text):
    """Asserts that a call raises an exception of this kind, with this text in it."""
    try:
        do()
    except kind as error:
        assert text in str(error), (text, str(error))
        return
    raise AssertionError(f"no {kind.__name__} with '{text}'")


trace = strata.open(PATH)
raises(strata.OpenError, lambda: strata.open("/nonexistent"), "no such folder")
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
rows = trace.sql("select 1 union all select 2")
next(rows)
raises(ValueError, rows.__arrow_c_stream__, "run the query again")

# A query that runs leaves others alone, and one that nobody wants any more ends.
for row in trace.sql("select name from events limit 3"):
    assert trace.sql("select count(*) from events").fetchall()[0][0] > 3
endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
del row
for _ in range(10):
    next(trace.sql(endless))
deadline = time.monotonic() + 60



def has_query():
    """Whether a thread of this process runs a query."""
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().startswith("query"):
                return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


while has_query():
    assert time.monotonic() < deadline, "a query that nobody wants is still running"

# Ctrl-C ends a query that has no row yet.
query = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
begun = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
begun.start()
raises(KeyboardInterrupt, lambda: trace.sql(query).fetchall(), "")
begun.join()

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

# Bytes that are no trace.
wrong = pathlib.Path(SCRATCH, "wrong")
wrong.mkdir()
(wrong / "metadata").write_bytes(b"\0\xff'\" no metadata")
raises(strata.OpenError, lambda: strata.open(wrong), "metadata")
