"""Asks a server of strata ui what tests/e2e/ui wants to know: STRATA TRACE PORT TOKEN."""

import http.client
import json
import socket
import struct
import subprocess
import sys
import time

STRATA, TRACE, PORT, TOKEN = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
KINDS = ("running", "woken", "preempted", "blocked", "uninterruptible", "unknown", "idle", "busy")
CELLS = 512


def ask(path, headers=None, method="GET", token=TOKEN):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    all_headers = {"Authorization": f"Bearer {token}"} if token else {}
    all_headers.update(headers or {})
    connection.request(method, path, headers=all_headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def get(path):
    status, _, body = ask(path)
    assert status == 200, f"{path}: {status} {body[:300]}"
    return json.loads(body)


def strata(*arguments):
    done = subprocess.run([STRATA, *arguments], capture_output=True, text=True, check=False)
    return done.stdout


# ---- who is answered ----

end = time.monotonic() + 60
while not (meta := get("/v1/meta"))["done"]:
    assert time.monotonic() < end, "the trace is not read within a minute"
    time.sleep(0.02)
here = f"/v1/{meta['id']}"
wrong = "0" * len(TOKEN)
for path, headers, method, token, wanted in (
    ("/v1/meta", {}, "GET", None, 401),
    ("/v1/meta", {}, "GET", wrong, 401),
    (f"/v1/meta?token={TOKEN}", {}, "GET", None, 401),
    (f"{here}/tracks", {}, "GET", wrong, 401),
    (f"{here}/report/threads", {}, "GET", wrong, 401),
    ("/v1/meta", {"Host": f"evil.example:{PORT}"}, "GET", TOKEN, 403),
    ("/", {"Host": f"evil.example:{PORT}"}, "GET", TOKEN, 403),
    ("/v1/meta", {"Origin": "http://evil.example"}, "GET", TOKEN, 403),
    ("/v1/meta", {"Origin": f"http://localhost:{PORT}"}, "GET", TOKEN, 403),
    ("/v1/meta", {"Origin": "null"}, "GET", TOKEN, 403),
    ("/v1/meta", {"Sec-Fetch-Site": "cross-site"}, "GET", TOKEN, 403),
    ("/v1/meta", {"Origin": f"http://127.0.0.1:{PORT}"}, "GET", TOKEN, 200),
    # A forwarded port is another one.
    ("/v1/meta", {"Host": "localhost:9"}, "GET", TOKEN, 200),
    ("/v1/meta", {}, "POST", TOKEN, 405),
    ("/v1/snapshot", {}, "GET", TOKEN, 405),
    ("/v1/snapshot", {}, "POST", None, 401),
    ("/v1/snapshot", {}, "POST", wrong, 401),
    ("/v1/snapshot", {"Origin": "http://evil.example"}, "POST", TOKEN, 403),
    # What is shown is no flight recorder, and one trace.
    ("/v1/snapshot", {}, "POST", TOKEN, 404),
    (f"{here}/diff?from=0&to=1", {}, "GET", TOKEN, 404),
    ("/v1/meta", {}, "OPTIONS", TOKEN, 405),
    ("/v1/meta", {"X": "x" * 20000}, "GET", TOKEN, 431),
    ("/../../etc/passwd", {}, "GET", TOKEN, 404),
    ("/v1/" + "0" * 16 + "/tracks", {}, "GET", TOKEN, 409),
    (f"{here}/tiles/10/0?tracks=" + ",".join(["0"] * 65), {}, "GET", TOKEN, 413),
    (f"{here}/tiles/200/0?tracks=0", {}, "GET", TOKEN, 404),
    (f"{here}/tile/0/43/{2**62}", {}, "GET", TOKEN, 404),
    (f"{here}/tile/4294967295/10/0", {}, "GET", TOKEN, 404),
    (f"{here}/report/sh", {}, "GET", TOKEN, 422),
    (f"{here}/events?q=%28", {}, "GET", TOKEN, 400),
):
    status, _, body = ask(path, headers, method, token)
    assert status == wanted, f"{method} {path[:60]} {headers and list(headers)[0]}: {status}, wanted {wanted}: {body[:100]}"

for path in ("/", "/app.js", "/app.css", "/v1/meta", f"{here}/tile/0/20/0", "/nothing"):
    _, headers, body = ask(path)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy, policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Access-Control-Allow-Origin"] is None
    if path == "/":
        assert b"<script src=" in body and b"<script>" not in body and b"style=" not in body

# Another user who holds more connections than are served, idle or in the middle of a request, keeps nobody out.
held = [socket.create_connection(("127.0.0.1", PORT)) for _ in range(200)]
for number, one in enumerate(held):
    try:
        one.sendall((b"GET / HTTP/1.1\r\n", b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[number % 3])
    except OSError:
        pass
mine = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
for _ in range(3):
    mine.request("GET", "/v1/meta", headers={"Authorization": f"Bearer {TOKEN}"})
    assert json.loads(mine.getresponse().read())["id"] == meta["id"]
    # A connection that has shown the token stays when others come.
    held += [socket.create_connection(("127.0.0.1", PORT)) for _ in range(100)]
for one in held:
    one.close()
mine.close()

# ---- tiles ----


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def items(tile):
    """The items of a tile: begin, end, count, sums by kind."""
    assert tile[:4] == b"STL1"
    size, before = struct.unpack_from("<Iq", tile, 12)
    at = 24
    for _ in range(size):
        gap, at = varint(tile, at)
        extent, at = varint(tile, at)
        tag, at = tile[at], at + 1
        _, at = varint(tile, at)
        begin = before + (gap >> 1 ^ -(gap & 1))
        before = begin + extent
        sums, count = [0] * len(KINDS), 1
        if tag & 16:
            _, at = varint(tile, at)
        if tag & 8:
            count, at = varint(tile, at)
            _, at = varint(tile, at)
            mask, at = tile[at], at + 1
            for kind in range(len(KINDS)):
                if mask >> kind & 1:
                    sums[kind], at = varint(tile, at)
        else:
            sums[tag & 7] = extent
        yield begin, before, count, sums
    assert at == len(tile), "a tile has bytes behind its items"


tracks = get(f"{here}/tracks")["tracks"]
assert len(tracks) == meta["tracks"] > 10
stats = json.loads(strata("stats", "--json", TRACE))
records = sum(event["records"] for event in stats["events"])
# What the page writes behind a command works in any folder.
again = subprocess.run(f"{STRATA} stats --json {meta['typed']}", shell=True, cwd="/", capture_output=True, check=True)
assert json.loads(again.stdout)["records"] == records, meta["typed"]
assert meta["records"] == records, f"{meta['records']} records, of stats {records}"
# Each record of a counter's event says a value, which holds up to the next one.
counters = [track for track in tracks if track["kind"] == "counter"]
switches = sum(event["records"] for event in stats["events"] if event["name"] == "sched_switch")
assert sum(track["count"] for track in counters) == switches > 0, (counters, switches)
at = counters[0]["from"]
value = get(f"{here}/slice/{counters[0]['id']}/{at}")
assert value["facts"][0] == ["value", str(json.loads(value["records"][0].splitlines()[0])["payload"]["prev_prio"])], value
overview = get(f"{here}/overview")
assert sum(overview["counts"]) == records and meta["discarded"] == 0

busiest = sorted(tracks, key=lambda track: -track["count"])[:60]
for level in (14, 17, 20, 24, 30, 43):
    width = CELLS << level
    sums = {track["id"]: [0] * (len(KINDS) + 1) for track in busiest}
    first = min(track["from"] for track in busiest) // width
    last = max(track["to"] for track in busiest) // width
    for index in range(first, last + 1):
        status, headers, body = ask(f"{here}/tiles/{level}/{index}?tracks=" + ",".join(map(str, sums)))
        assert status == 200 and "immutable" in headers["Cache-Control"]
        at = 0
        while at < len(body):
            (length,) = struct.unpack_from("<I", body, at)
            tile, at = body[at + 4 : at + 4 + length], at + 4 + length
            (track,) = struct.unpack_from("<I", tile, 8)
            found = list(items(tile))
            assert len(found) <= 2 * CELLS + 2, f"{len(found)} items"
            assert all(one[1] <= other[0] for one, other in zip(found, found[1:])), "items lie over each other"
            for begin, _, count, parts in found:
                # What reaches into a tile is of the one where it begins.
                if begin // width == index:
                    sums[track] = [one + other for one, other in zip(sums[track], [count, *parts])]
    for track in busiest:
        wanted = [track["count"], *track["sums"]]
        assert sums[track["id"]] == wanted, f"level {level}, {track['label']}: {sums[track['id']]}, wanted {wanted}"

# ---- who had the CPU that a thread wanted: as the records of switches say it ----

switches, hidden = {}, {}
for line in strata("view", "--format", "json", "-f", "name == \"sched_switch\"", TRACE).splitlines():
    record = json.loads(line)
    payload = record["payload"]
    before = switches.setdefault(record["cpu"], [])
    if before and before[-1][1] != payload["prev_tid"]:
        # A switch in between has no record: these are of threads that something hides from the kernel's records.
        hidden.setdefault(record["cpu"], []).append((before[-1][0], int(record["time"])))
    before.append((int(record["time"]), payload["next_tid"]))


def had(cpu, begin, end):
    """How long each thread but the idle one ran on a CPU between two times."""
    found, all_of_it = {}, switches[cpu]
    for (at, tid), (until, _) in zip(all_of_it, all_of_it[1:] + [(1 << 62, 0)]):
        nanos = min(until, end) - max(at, begin)
        if nanos > 0 and tid != 0:
            found[tid] = found.get(tid, 0) + nanos
    return found


compared = 0
for track in tracks:
    if track["kind"] != "thread" or not track["mine"]:
        continue
    at = track["from"]
    while at < track["to"] and compared < 60:
        status, _, body = ask(f"{here}/slice/{track['id']}/{at}")
        if status != 200:
            break
        found = json.loads(body)
        wanted = found["kind"] in (KINDS.index("woken"), KINDS.index("preempted"))
        assert wanted or found["had_cpu"] is None, found
        if wanted and found["had_cpu"] and found["had_cpu"]["cpu"] is not None:
            of = found["had_cpu"]
            begin = int(meta["base"])
            if begin + found["from"] < switches[of["cpu"]][0][0]:
                # These records do not say who had it until the first switch.
                at = found["to"] + 1
                continue
            during = begin + found["from"], begin + found["to"]
            if any(one < during[1] and during[0] < other for one, other in hidden.get(of["cpu"], [])):
                at = found["to"] + 1
                continue
            truth = had(of["cpu"], *during)
            said = {int(one["name"].split()[-1]): one["nanos"] for one in of["threads"]}
            longest = dict(sorted(truth.items(), key=lambda it: -it[1])[:5])
            assert sorted(said.values()) == sorted(longest.values()), f"{found}: {truth}"
            assert said == {tid: truth[tid] for tid in said} and not of["cut"]
            assert sum(said.values()) + of["others_nanos"] == sum(truth.values())
            assert len(said) + of["others"] == len(truth)
            compared += 1
        at = found["to"] + 1
assert compared > 5, f"only {compared} waits for a CPU"

# ---- as the commands say ----

base = int(meta["base"])


def flags(begin, end):
    return [word for name, at in (("--from", begin), ("--until", end))
            for word in (name, f"@{(base + at) // 10**9}.{(base + at) % 10**9:09}")]


def add(rows, tid, *sums):
    """Two threads may have had the same number."""
    rows[tid] = tuple(one + other for one, other in zip(rows.get(tid, (0,) * 4), sums))


begin, end = meta["from"], meta["to"]
# A thread that the kernel hides is known to have ended a run by what somebody else's record contradicts, later on.
whole = json.loads(strata("analyze", "threads", "--format", "json", TRACE))
hidden = {one["tid"] for one in whole["hidden_threads"]}
third = (end - begin) // 3


def threads_of(*part):
    rows = {}
    for row in json.loads(strata("analyze", "threads", "--format", "json", *flags(*part), TRACE))["rows"]:
        runnable = row["woken_ns"] + row["preempted_ns"]
        add(rows, row["tid"], row["running_ns"], runnable, row["blocked_ns"], row["unknown_ns"])
    return rows


for part in ((begin, end), (begin + third, end), (begin + third, end - third), (begin + 1000, begin + 12345678)):
    # What a thread did may be known from a later record only: that it was blocked before its first record, or that it may
    # have had a CPU for some time, which the kernel had given to a thread that it hides. The page knows all records, and a
    # report none behind its end. So a part is what there is from its begin on, less what there is from its end on.
    known = 4 if part[1] == end else 3
    wanted = threads_of(part[0], end)
    for tid, sums in threads_of(part[1], end).items() if part[1] < end else ():
        add(wanted, tid, *(-nanos for nanos in sums))
    if part[1] < end:
        for tid, sums in threads_of(*part).items():
            assert tid in hidden or sums[0] == wanted.get(tid, (0,))[0], f"{part}: thread {tid}: {sums}, and {wanted.get(tid)}"
    found = {}
    for row in get(f"{here}/sums?from={part[0]}&to={part[1]}")["threads"]:
        sums = dict(zip(KINDS, row["sums"]))
        # Of which nothing else is known, the report has no row.
        if sum(row["sums"]) == sums["unknown"]:
            continue
        add(found, row["tid"], sums["running"], sums["woken"] + sums["preempted"],
            sums["blocked"] + sums["uninterruptible"], sums["unknown"])
    for tid in (found.keys() | wanted.keys()) - hidden:
        one, other = (rows.get(tid, (0, 0, 0, 0))[:known] for rows in (found, wanted))
        assert one == other, f"{part}: thread {tid}: {one}, of analyze {other}"
calls = json.loads(strata("analyze", "syscalls", "--format", "json", "--by", "name", TRACE))
number = sum(track["count"] for track in tracks if track["kind"] == "calls")
assert number == sum(row["count"] for row in calls["rows"]), "system calls"

# By name, how often and how long: what the report has. A name of the page's has no object.
found = {row["name"]: row for row in get(f"{here}/slices?from={begin}&to={end + 1}")["rows"] if row["what"] == "system call"}
assert found.keys() == {row["name"] for row in calls["rows"]}, found.keys() ^ {row["name"] for row in calls["rows"]}
for row in calls["rows"]:
    own = found[row["name"]]
    wanted = (row["count"], row["total_ns"], row["min_ns"], row["max_ns"])
    assert (own["count"], own["total"], own["min"], own["max"]) == wanted, (own, wanted)
longest = max(found.values(), key=lambda row: row["max"])
# Of a part of the time, those that end in it: one that began before it in its whole length, one that ends later not at all.
for part in ((begin + third, begin + 2 * third), (begin + third, end), (begin, begin + third)):
    report = strata("analyze", "syscalls", "--format", "json", "--by", "name", *flags(*part), TRACE)
    wanted = {row["name"]: (row["count"], row["total_ns"], row["min_ns"], row["max_ns"]) for row in json.loads(report)["rows"]}
    rows = get(f"{here}/slices?from={part[0]}&to={part[1]}")["rows"]
    of_part = {row["name"]: (row["count"], row["total"], row["min"], row["max"]) for row in rows if row["what"] == "system call"}
    assert of_part == wanted, (part, of_part.items() ^ wanted.items())
# Of some tracks only what is on them.
for some in ([one] for one in busiest[:20]):
    rows = get(f"{here}/slices?from={begin}&to={end + 1}&tracks=" + ",".join(str(track["id"]) for track in some))["rows"]
    wanted = sum(track["count"] for track in some if track["kind"] in ("calls", "span", "keyed", "irq", "softirq", "disk"))
    assert sum(row["count"] for row in rows if row["what"] != "thread") == wanted, (some, rows)
# Of CPUs, who had them: in runs only what lies in the time.


def who_had(cpus, *part):
    """How long each thread had these CPUs, and how often one had them."""
    found, runs = {}, 0
    numbers = ",".join(str(track["id"]) for track in cpus)
    for row in get(f"{here}/slices?from={part[0]}&to={part[1]}&tracks={numbers}")["rows"]:
        assert row["what"] == "thread" and row["count"] > 0 and part[0] <= row["time"] < part[1], row
        add(found, int(row["name"].split()[-1]), row["total"])
        runs += row["count"]
    return {tid: nanos for tid, (nanos,) in found.items()}, runs


cpus = [track for track in tracks if track["kind"] == "cpu"]
for part in ((begin, end), (begin + third, end - third), (begin + 1000, begin + 12345678)):
    # The sums of threads were compared with those of strata analyze.
    wanted = {}
    for row in get(f"{here}/sums?from={part[0]}&to={part[1]}")["threads"]:
        if row["sums"][0] > 0:
            wanted[row["tid"]] = wanted.get(row["tid"], 0) + row["sums"][0]
    found = who_had(cpus, *part)[0]
    assert found == wanted and wanted, (part, found.items() ^ wanted.items())
# And as the records of switches say it, unless others contradict them.
for track in [] if hidden else cpus:
    times = [at - base for at, _ in switches.get(track["depth"], [])]
    if len(times) < 3:
        continue
    # From the middle of a run to the middle of one.
    part = ((times[0] + times[1]) // 2, (times[-2] + times[-1]) // 2)
    found, runs = who_had([track], *part)
    wanted = had(track["depth"], base + part[0], base + part[1])
    assert found == wanted, (track, found.items() ^ wanted.items())
    wanted = sum(1 for at, tid in switches[track["depth"]] if part[0] < at - base < part[1] and tid != 0)
    assert abs(runs - wanted) <= 1, (track, runs, wanted)
there = get(f"{here}/slice/{longest['track']}/{longest['time']}")
assert there["to"] - there["from"] == longest["max"] and there["name"].split(" ")[0] == longest["name"], there

part = (begin + third, begin + 2 * third)
wanted = strata("view", "--format", "json", "-f", "sched_switch", *flags(*part), TRACE).splitlines()[:50]
found = get(f"{here}/events?from={part[0]}&to={part[1]}&limit=50&q=sched_switch")
assert found["lines"].splitlines() == wanted and wanted, "records of a time"
# A list that is scrolled gets each of them once, in both directions, also where many have one time.
wanted = strata("view", "--format", "json", *flags(*part), TRACE).splitlines()
assert len(wanted) > 500
time_of = [json.loads(line)["time"] - base for line in wanted]
for size in (97, 2000):
    found, at, nth = [], part[0], 0
    while answer := get(f"{here}/events?from={at}&to={part[1]}&limit={size}&nth={nth}")["lines"].splitlines():
        found += answer
        at = time_of[len(found) - 1]
        nth = sum(time == at for time in time_of[:len(found)])
    assert found == wanted, f"forwards by {size}: {len(found)}, wanted {len(wanted)}"
    found, at, nth, is_cut = [], part[1] + 1, 0, True
    while is_cut:
        answer = get(f"{here}/events?from={part[0]}&to={at}&limit={size}&nth={nth}&last=1")
        lines, is_cut, nth = answer["lines"].splitlines(), answer["cut"], answer["nth"]
        # As many records as fit may have been all of them.
        assert lines or not is_cut, "an answer that is cut has no records"
        if not lines:
            break
        found = lines + found
        at = json.loads(lines[0])["time"] - base
        first = len(wanted) - len(found)
        assert nth == sum(time == at for time in time_of[:first]), "the first one's number"
    assert found == wanted, f"backwards by {size}: {len(found)}, wanted {len(wanted)}"
wanted = strata("view", "--format", "json", "-f", "duration > 1ms", *flags(*part), TRACE).splitlines()[-20:]
found = get(f"{here}/events?from={part[0]}&to={part[1] + 1}&limit=20&q=duration+%3E+1ms&last=1")
assert found["lines"].splitlines() == wanted and wanted, "the last records that a filter selects"
_, _, text = ask(f"{here}/report/cpu?from={part[0]}&to={part[1]}")
assert text.decode() == strata("analyze", "cpu", *flags(*part), TRACE), "a report of a time"

# A slice has its records, and says who ended it.
sleeper = next(track for track in tracks if track["kind"] == "thread" and track["label"] == "sleeper")
middle = (sleeper["from"] + sleeper["to"]) // 2
slice_of = get(f"{here}/slice/{sleeper['id']}/{middle}")
assert slice_of["from"] <= middle < slice_of["to"] and slice_of["tid"] == sleeper["tid"]
first = json.loads(slice_of["records"][0].splitlines()[0])
assert first["time"] == base + slice_of["from"], first
# Why a thread took so long: the parts of its path follow each other, and add up to what analyze says.


def leaves(row):
    """By thread and state, how long: of a report's tree what has no threads below it."""
    below = [one for one in row["parts"] if one["what"] not in ("request", "before", "queue", "device", "after")]
    if row["what"] == "whole" or row["what"] == "blocked" and below:
        for one in below:
            yield from leaves(one)
    else:
        yield (row["tid"], "running" if row["what"] == "interrupt" else row["what"]), row["total_ns"]


STATES = ("running", "runnable", "preempted", "blocked", "blocked", "unknown")
threads = {track["id"]: track["tid"] for track in tracks if track["kind"] == "thread"}
followed = 0
for label in ("first", "reader", "locker", "sleeper"):
    track = next(track for track in tracks if track["kind"] == "thread" and track["label"] == label)
    report = json.loads(strata("analyze", "wait", "--format", "json", str(track["tid"]), TRACE))
    from_, to = report["begin_ns"] - base, report["end_ns"] - base
    path = get(f"{here}/path/{track['id']}?from={from_}&to={to}")
    assert not path["cut"]
    end = from_
    found = {}
    for step in path["steps"]:
        assert step["from"] == end < step["to"], f"{label}: a part begins at {step['from']}, the one before ends at {end}"
        end = step["to"]
        key = (threads.get(step["track"]), STATES[step["kind"]])
        found[key] = found.get(key, 0) + step["to"] - step["from"]
    assert end == to, f"{label}: the path ends at {end}, wanted {to}"
    wanted = {}
    for key, nanos in leaves(report["rows"][0]):
        wanted[key] = wanted.get(key, 0) + nanos
    assert found == wanted, f"{label}: {found}, of analyze {wanted}"
    followed += len({tid for tid, _ in found}) > 1
assert followed >= 3, "no path leads to another thread"

print(f"ok {records} records, {len(tracks)} tracks")
