"""Runs the queries of docs/guide/fleet.md on a dataset by DuckDB and Spark, and on the databases of strata export by SQLite, and compares
all rows. Prints, for each query, how many rows it has and how long each engine takes.

compare.py STRATA FOLDER MASTERS [--small]
--small: Spark is set up for few rows, of which most of its time is the start of the JVM, its compilers and tasks without rows."""

import pathlib
import re
import sqlite3
import subprocess
import sys
import time

import duckdb
from pyspark import SparkContext
from pyspark.sql import SparkSession

STRATA, FOLDER, MASTERS = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3].split(" ")
SMALL = {
    # The JVM's first compiler alone, and one thread that frees memory: half of the CPU time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
} if "--small" in sys.argv else {}
DATASET = FOLDER / "dataset"
TABLES = ("events", "event_counts", "calls", "states", "wakeups", "locks", "processes", "gaps")
GUIDE = pathlib.Path(__file__).parents[2] / "docs/guide/fleet.md"


def queries():
    """Titles and texts of the guide's queries."""
    text = re.search(r"<!-- example: fleet .*?```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
    for statement in text.split(";\n"):
        if statement.strip():
            title, query = statement.strip().split("\n", 1)
            yield title.removeprefix("-- "), query


def plain(rows):
    """Rows as lists that can be compared: in the order of all their columns."""
    return sorted(([None if value is None else str(value) for value in row] for row in rows), key=repr)


def of_sqlite():
    """One database of all traces: the rows of each one's own, with the host's name."""
    whole = sqlite3.connect(":memory:")
    for trace in sorted((FOLDER / "traces").iterdir()):
        path = FOLDER / "one.sqlite"
        subprocess.run([STRATA, "export", "--to", "sqlite", "--no-symbols", "--force", "-o", path, trace], check=True, stderr=subprocess.DEVNULL)
        whole.execute("ATTACH ? AS one", (str(path),))
        for table in TABLES:
            # Of event records there is one table in a database, whose rows have a thread's number.
            rows = {
                "events": "SELECT event.time_ns, event.cpu, event.name FROM one.event",
                "event_counts": "SELECT name, records FROM one.events_by_name",
            }.get(table, f"SELECT * FROM one.{table}")
            query = f"SELECT ? AS host, * FROM ({rows})"
            if whole.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]:
                whole.execute(f"INSERT INTO {table} {query}", (trace.name,))
            else:
                whole.execute(f"CREATE TABLE {table} AS {query}", (trace.name,))
        whole.commit()
        whole.execute("DETACH one")
        path.unlink()
    return lambda query: whole.execute(query).fetchall()


def of_duckdb():
    """The dataset, by DuckDB."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{DATASET}/{table}/**/*.parquet', hive_partitioning=true)")
    return lambda query: connection.execute(query).fetchall()


def of_spark(master):
    """The dataset, by Spark."""
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "4",
                "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **SMALL}
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        spark.read.parquet(str(DATASET / table)).createOrReplaceTempView(table)
    return lambda query: [tuple(row) for row in spark.sql(query).collect()]


def timed(what, do):
    """Does something, and says how long that took."""
    begin = time.monotonic()
    done = do()
    print(f"{what}: ready in {time.monotonic() - begin:.1f} s", flush=True)
    return done


engines = {"SQLite": timed("SQLite", of_sqlite), "DuckDB": timed("DuckDB", of_duckdb)}
answers = {}
compared = 0
hosts = engines["SQLite"]("SELECT count(DISTINCT host) FROM event_counts")[0][0]
assert hosts == len(list((FOLDER / "traces").iterdir())), hosts
for number, master in enumerate(["", *MASTERS]):
    if master:
        if number > 1:
            SparkSession.getActiveSession().stop()
        engines = {f"Spark {master}": timed(f"Spark {master}", lambda: of_spark(master))}
    for title, query in queries():
        for name, ask in engines.items():
            begin = time.monotonic()
            rows = plain(ask(query))
            seconds = time.monotonic() - begin
            wanted = answers.setdefault(title, rows)
            assert rows == wanted, (name, title, [pair for pair in zip(rows, wanted) if pair[0] != pair[1]][:3], len(rows), len(wanted))
            assert rows or "missing" in title, (name, title)
            compared += len(rows)
            print(f"{name:>14} {seconds:7.3f} s {len(rows):6} rows  {title}", flush=True)
# The JVM ends when its input does. It is waited for, so that its CPU time counts and nothing of it is left.
SparkSession.getActiveSession().stop()
jvm = SparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()
print(f"{hosts} hosts, {len(answers)} queries, {compared} rows compared")
