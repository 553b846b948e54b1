"""Compares parts of a trace as Parquet files, as DuckDB reads them, with the whole trace's rows and with the tables of an SQLite database of the
same part."""

import pathlib
import sqlite3
import subprocess
import sys

import duckdb
import pyarrow.parquet

COMMAND, FOLDER, TRACE = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
TABLES = ("calls", "states", "wakeups", "cpu_run", "threads", "processes")


def run(*words, status=0):
    """Runs the command, and returns what it says."""
    done = subprocess.run([COMMAND, *words], capture_output=True, check=False)
    assert done.returncode == status, (words, done)
    return done.stderr.decode()


def rows_of(dataset, table, partition="*", columns="*"):
    """Rows of a table of a dataset."""
    return duckdb.sql(f"select {columns} from read_parquet('{dataset}/{table}/date=*/host=*/trace={partition}/*.parquet', hive_partitioning=false)").fetchall()


def alike(rows):
    """Rows that can be compared: in the order of all their columns."""
    return sorted(([str(value) for value in row] for row in rows))


whole = FOLDER / "whole"
run("export", "--to", "parquet", "-o", whole, TRACE)
events = rows_of(whole, "events", columns="time_ns, cpu, name, fields")
times = sorted(row[0] for row in events)
low, high = times[len(times) // 3], times[2 * len(times) // 3]
common = max({row[2] for row in events}, key=[row[2] for row in events].count)


def second(time_ns):
    """A time as the command takes it."""
    return f"@{time_ns // 10**9}.{time_ns % 10**9:09}"


partitions = set()
for number, (flags, is_selected) in enumerate([
        (["--from", second(low), "--until", second(high)], lambda row: low <= row[0] <= high),
        (["--from", second(low), "-f", f'name == "{common}" || cpu == 0'], lambda row: row[0] >= low and (row[2] == common or row[1] == 0))]):
    part = FOLDER / f"part{number}"
    run("export", "--to", "parquet", "-o", part, *flags, TRACE)
    wanted = [row for row in events if is_selected(row)]
    assert 0 < len(wanted) < len(events), (flags, len(wanted))
    assert alike(rows_of(part, "events", columns="time_ns, cpu, name, fields")) == alike(wanted), flags
    assert sum(row[0] for row in rows_of(part, "event_counts", columns="records")) == len(wanted), flags
    path = FOLDER / f"part{number}.sqlite"
    run("export", "--to", "sqlite", "-o", path, *flags, TRACE)
    database = sqlite3.connect(path)
    for table in TABLES:
        columns = ", ".join(row[1] for row in database.execute(f"PRAGMA table_xinfo({table})"))
        of_sqlite = database.execute(f"SELECT {columns} FROM {table}").fetchall()
        assert alike(rows_of(part, table, columns=columns)) == alike(of_sqlite), (flags, table)
    file, = part.glob("events/*/*/*/part-0.parquet")
    selection = pyarrow.parquet.ParquetFile(file).metadata.metadata[b"strata.selection"].decode()
    assert all(word in selection for word in ("from_ns", str(low)) if "--from" in flags), selection
    # The same part again is there already; in the dataset of the whole trace it is a partition of its own.
    assert "Use --force" in run("export", "--to", "parquet", "-o", part, *flags, TRACE, status=2)
    partitions.add(file.parent.name)
run("export", "--to", "parquet", "-o", whole, "--filter", f'name == "{common}"', "--table", "events", TRACE)
assert len(partitions) == 2 and all("-part-" in name for name in partitions), partitions
assert len(list(whole.glob("events/*/*/*/part-0.parquet"))) == 2
trace, = (file.parent.name for file in whole.glob("events/*/*/*/part-0.parquet") if "-part-" not in str(file))
assert len(rows_of(whole, "events", trace.removeprefix("trace="))) == len(events)

# Nothing that is selected: nothing is written.
for flags in (["--filter", 'name == "nothing has this name"'], ["--from", second(times[-1] + 10**12)]):
    assert "nothing to export" in run("export", "--to", "parquet", "-o", FOLDER / "none", *flags, TRACE, status=1)
assert not (FOLDER / "none").exists()
