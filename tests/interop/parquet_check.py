"""Compares a dataset, as DuckDB and pyarrow read it, with what strata sql gives of the same traces."""

import json
import pathlib
import subprocess
import sys

import duckdb
import pyarrow.parquet

COMMAND, DATASET, *TRACES = sys.argv[1:]
TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE", "TEXT": "VARCHAR", "BLOB": "BLOB", "NUMERIC": "DOUBLE", "UNSIGNED": "DECIMAL(20,0)"}


def ask(trace, query):
    """The rows of a query, as lists."""
    done = subprocess.run([COMMAND, "sql", "--json", trace, "-q", query], stdout=subprocess.PIPE, check=True)
    return [list(json.loads(line).values()) for line in done.stdout.splitlines()]


def plain(value, kind):
    """A value of DuckDB as strata sql has it in JSON."""
    if value is None:
        return None
    if kind == "DECIMAL(20,0)":
        return int(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def alike(value, wanted):
    """Whether both are equal; an integer above 2^63 - 1 is a text of its digits, in strata sql."""
    return value == (int(wanted) if isinstance(value, int) and isinstance(wanted, str) else wanted)


compared = 0
for folder in sorted(pathlib.Path(DATASET).iterdir()):
    table = folder.name.replace("%3A", ":")
    files = sorted(folder.rglob("*.parquet"))
    query = f'select * from "{table}"'
    wanted = sorted((row for trace in TRACES if len(files) == len(TRACES) or trace == TRACES[0] for row in ask(trace, query)), key=repr)
    relation = duckdb.sql(f"select * from read_parquet('{folder}/**/*.parquet', hive_partitioning=false)")
    kinds = [str(kind) for kind in relation.types]
    found = [[plain(value, kind) for value, kind in zip(row, kinds)] for row in relation.fetchall()]
    assert len(found) == len(wanted), (table, len(found), len(wanted))
    # Integers above 2^63 - 1 sort otherwise as texts.
    wanted.sort(key=lambda row: [str(value) for value in row])
    found.sort(key=lambda row: [str(value) for value in row])
    for row, other in zip(found, wanted):
        assert all(map(alike, row, other)), (table, kinds, row, other)
    of_arrow = sum(pyarrow.parquet.ParquetFile(file).read().num_rows for file in files)
    assert of_arrow == len(found), (table, of_arrow)
    metadata = pyarrow.parquet.ParquetFile(files[0]).metadata
    assert metadata.metadata[b"strata.schema_version"] == b"3", metadata.metadata
    declared = dict(line.split(" ", 1) for line in subprocess.run(
        [COMMAND, "sql", TRACES[0], f".schema {table}"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()[1:]
        for line in [line.strip()] if " " in line)
    for name, kind in zip(relation.columns, kinds):
        of = declared.get(name, "").split(" ")[0]
        assert of not in TYPES or TYPES[of] == kind, (table, name, of, kind)
    compared += len(found)
    if metadata.num_row_groups and metadata.row_group(0).sorting_columns:
        column = metadata.row_group(0).column(metadata.row_group(0).sorting_columns[0].column_index)
        assert column.statistics.min is not None and column.compression == "ZSTD", column
hosts = duckdb.sql(f"select distinct host from read_parquet('{DATASET}/events/**/*.parquet', hive_partitioning=true)").fetchall()
assert len(hosts) == len(TRACES) and ("a/../b",) in hosts, hosts
assert compared > 50, compared
