"""Compares a database of `strata export --to sqlite` with what the other commands say of the same traces.

sqlite_check.py STRATA TRACE DATABASE [FLAG]...: the flags of the export.
"""

import json
import sqlite3
import subprocess
import sys

HIGHEST = 2**63 - 1


def said(strata, *arguments):
    """What a command prints; that there is nothing, or that something was discarded, is no failure of it."""
    done = subprocess.run([strata, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1), (arguments, done.returncode, done.stderr)
    return done.stdout.decode()


def flags_of(flags, names):
    """Those of some names, with their values."""
    pairs = zip(flags[::2], flags[1::2])
    return [word for name, value in pairs if name in names for word in (name, value)]


def as_stored(value):
    """A value of `strata view` as the database has it: integers end at 2^63 - 1."""
    if isinstance(value, dict):
        return {name: as_stored(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_stored(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and value > HIGHEST:
        return str(value)
    return value


def objects(text):
    """Names that a record has twice are kept."""
    return json.loads(text, object_pairs_hook=list)


def records(database, strata, trace, flags):
    """Each event record, in its order."""
    asked = flags_of(flags, ("--from", "--until", "--filter"))
    lines = said(strata, "view", "--format", "json", *asked, trace).splitlines()
    query = "SELECT time_ns, cpu, name, fields, context FROM event ORDER BY id"
    stored = database.execute(query).fetchall()
    assert len(stored) == len(lines), (len(stored), len(lines))
    for (time, cpu, name, fields, context), line in zip(stored, lines):
        wanted = as_stored(json.loads(line))
        if "time" in wanted:
            assert time == wanted["time"], (time, line)
        assert (cpu, name) == (wanted.get("cpu"), wanted["name"]), (cpu, name, line)
        assert json.loads(fields or "{}") == wanted.get("payload", {}), (fields, line)
        contexts = {**wanted.get("context", {}), **wanted.get("common", {})}
        found = dict(reversed(objects(context))) if context else {}
        assert set(found) == set(contexts), (context, line)
    return len(stored)


def stats(database, strata, trace, flags):
    """How many there are of each event, and how many were discarded."""
    if flags_of(flags, ("--from", "--until", "--filter")):
        return
    report = json.loads(said(strata, "stats", "--json", trace))
    events = dict(database.execute("SELECT name, sum(records) FROM events_by_name GROUP BY name"))
    wanted = {}
    for event in report["events"]:
        wanted[event["name"]] = wanted.get(event["name"], 0) + event["records"]
    assert events == {name: count for name, count in wanted.items() if count}, (events, wanted)
    (count,) = database.execute("SELECT sum(records) FROM trace").fetchone()
    assert count == report["records"], (count, report["records"])
    (count,) = database.execute("SELECT coalesce(sum(count), 0) FROM discarded WHERE kind = 'records'").fetchone()
    assert count == report["discarded_records"], (count, report["discarded_records"])
    (count,) = database.execute("SELECT count(*) FROM trace").fetchone()
    assert count == len(report["traces"]), count


def same(what, found, wanted):
    """The same rows, in whichever order."""
    key = lambda row: tuple((value is not None, value) for value in row)
    found, wanted = sorted(map(tuple, found), key=key), sorted(map(tuple, wanted), key=key)
    different = [(one, other) for one, other in zip(found, wanted) if one != other][:5]
    assert found == wanted, (what, len(found), len(wanted), different)


def reports(database, strata, trace, flags):
    """System calls, threads, CPUs, interrupts, disks and spans."""
    times = flags_of(flags, ("--from", "--until"))
    asked = times + flags_of(flags, ("--filter",))

    def report(name, *more):
        return json.loads(said(strata, "analyze", name, "--format", "json", *more, trace) or "{}")

    syscalls = report("syscalls", "--by", "process", *asked)
    if syscalls:
        columns = ("process", "pid", "name", "count", "errors", "total_ns", "min_ns", "max_ns")
        found = database.execute(f"SELECT {', '.join(columns)} FROM calls_by_process")
        same("syscalls", found, ([row[name] for name in columns] for row in syscalls["rows"]))
        unpaired = dict.fromkeys(("no_begin", "no_end", "gap"), 0)
        query = "SELECT replace(replace(why, ' ', '_'), 'discarded', 'gap'), count(*) FROM unpaired WHERE kind = 'syscall' GROUP BY 1"
        unpaired.update(database.execute(query))
        assert unpaired == syscalls["unpaired"], (unpaired, syscalls["unpaired"])
        query = "SELECT duration_ns FROM slow_calls LIMIT ?"
        slowest = [row["duration_ns"] for row in syscalls["slowest"]]
        assert [row[0] for row in database.execute(query, (len(slowest),))] == slowest, slowest

    threads = report("threads", "--by", "thread", *times)
    if threads:
        columns = ("tid", "running_ns", "runnable_ns", "blocked_ns", "unknown_ns", "runs")
        # Of whom nothing is known, the report tells only where the kernel has named them.
        rows = ([row[name] for name in columns] for row in threads["rows"])
        found = database.execute(f"SELECT {', '.join(columns)} FROM thread_times WHERE running_ns + runnable_ns + blocked_ns > 0")
        same("threads", found, (row for row in rows if any(row[1:4])))
        # By what they were blocked in, too.
        waits = {}
        for row in threads["rows"]:
            for wait in row["waits"]:
                key = (row["tid"], wait.get("call") or None)
                waits[key] = waits.get(key, 0) + wait["total_ns"]
        found = database.execute("SELECT tid, call, sum(total_ns) FROM waits GROUP BY tid, call")
        same("waits", found, ((*key, total) for key, total in waits.items()))

    cpus = report("cpu", *times)
    if cpus:
        columns = ("cpu", "busy_ns", "idle_ns", "unknown_ns", "switches")
        found = database.execute(f"SELECT {', '.join(columns)} FROM cpu_times")
        rows = ([row[name] for name in columns] for row in cpus["cpus"])
        same("cpus", found, (row for row in rows if any(row[1:])))

    locks = report("locks", *times)
    if locks:
        query = """SELECT process, pid, kind, address, count(*), sum(duration_ns), max(duration_ns),
            sum(CASE WHEN ended_by = 'timer' THEN duration_ns ELSE 0 END) FROM locks GROUP BY process, pid, kind, address"""
        columns = ("process", "pid", "kind", "name", "count", "total_ns", "max_ns", "timed_out_ns")
        same("locks", database.execute(query), ([row[name] for name in columns] for row in locks["rows"]))

    irq = report("irq", *asked)
    if irq:
        columns = ("kind", "number", "count", "total_ns", "max_ns")
        found = database.execute(f"SELECT {', '.join(columns)} FROM interrupts_by_name")
        same("interrupts", found, ([row[name] for name in columns] for row in irq["rows"]))

    files = report("files", *asked)
    if files:
        query = "SELECT device, kind, count(*), sum(bytes), sum(is_error) FROM request GROUP BY machine, device, kind"
        columns = ("name", "kind", "count", "bytes", "errors")
        same("disks", database.execute(query), ([row[name] for name in columns] for row in files["disks"]))

    spans = report("spans", *asked, *flags_of(flags, ("--pair",)))
    if spans:
        columns = ("name", "count", "total_ns", "min_ns", "max_ns")
        found = database.execute(f"SELECT {', '.join(columns)} FROM spans_by_name")
        same("spans", found, ([row[name] for name in columns] for row in spans["rows"]))
        names = {"no begin": "no_begin", "no end": "no_end", "discarded": "gap", "begun again": "again"}
        unpaired = dict.fromkeys(spans["unpaired"], 0)
        for why, count in database.execute("SELECT why, count(*) FROM unpaired WHERE kind = 'span' GROUP BY why"):
            unpaired[names.get(why, "too_many")] = count
        assert unpaired == spans["unpaired"], (unpaired, spans["unpaired"])


def counters(database, flags):
    """Each value is that of a record, and is there up to the next one of its process or CPU; by whole names."""
    gaps = database.execute("SELECT coalesce(from_ns, to_ns), coalesce(to_ns, from_ns) FROM discarded").fetchall()
    damaged = database.execute("SELECT count(*) FROM damage").fetchone() != (0,)
    for rule in flags_of(flags, ("--counter",))[1::2]:
        event, field = rule.rsplit(".", 1)
        query = "SELECT time_ns, json_extract(fields, '$.' || ?) FROM event WHERE name = ? ORDER BY id"
        said_by = {}
        for time, value in database.execute(query, (field, event)):
            value = float(value) if isinstance(value, str) else value
            said_by.setdefault(time, []).append(value)
        query = """SELECT begin_ns, end_ns, value, machine, process, cpu FROM counter WHERE name = ?
                   ORDER BY machine, process, cpu, begin_ns, id"""
        rows = database.execute(query, (rule,)).fetchall()
        assert rows and len(rows) == sum(map(len, said_by.values())), (rule, rows)
        for begin, _, value, *_ in rows:
            said_by[begin].remove(value)
        for (begin, end, _, *of), (after, _, _, *of_next) in zip(rows, rows[1:]):
            if of == of_next and end != after:
                assert end < after and (damaged or any(gap <= after and to >= begin for gap, to in gaps)), (rule, begin, end, after)


def whole(database):
    """What each row refers to is there, and nothing ends before it begins."""
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert not database.execute("PRAGMA foreign_key_check").fetchall()
    for table in ("state", "cpu_run", "syscall", "interrupt", "request", "span", "counter"):
        query = f"SELECT count(*) FROM {table} WHERE duration_ns < 0 OR duration_ns <> end_ns - begin_ns"
        assert database.execute(query).fetchone() == (0,), table
    query = "SELECT count(*) FROM state a JOIN state b ON b.thread = a.thread AND b.begin_ns > a.begin_ns AND b.begin_ns < a.end_ns"
    assert database.execute(query).fetchone() == (0,), "a thread in two states at once"


def main():
    strata, trace, path, *flags = sys.argv[1:]
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    whole(database)
    records(database, strata, trace, flags)
    stats(database, strata, trace, flags)
    reports(database, strata, trace, flags)
    counters(database, flags)


main()
