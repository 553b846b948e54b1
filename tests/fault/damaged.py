"""damaged.py STRATA FOLDER [PART...]: damaged traces are survived. For each damage: the exit status is 2 (0 where
nothing can be seen of it), a message names what is damaged, all that is intact is shown as babeltrace2 shows it
of the undamaged trace, in less than 5 s and 200 MB, and no signal ends the command.

    SEED=N FLIPS=N    of the part `flips`
Exit: 0 survived; 1 not, each with its reason.
"""

import os
import queue
import random
import re
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import damaged_bombs
import damaged_trace

STRATA, FOLDER = sys.argv[1:3]
SECONDS, MEMORY, OUTPUT = 5, 200 << 20, 50 << 20
PLAIN = ("--no-delta",)
FAILED = []
RUNS = [0]


def both(process, until):
    """Its stdout and stderr, to their ends; at `until` it is killed. Thousands are read: no thread for each."""
    found = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in found:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(until - time.monotonic() if until else None):
                data = os.read(key.fd, 1 << 20)
                if not data:
                    selector.unregister(key.fileobj)
                # What would be a flood is read, but not kept: this process's memory is counted with the other's.
                elif len(found[key.fileobj]) < OUTPUT:
                    found[key.fileobj] += data
            if until and time.monotonic() >= until:
                process.kill()
                until = None
    return bytes(found[process.stdout]), bytes(found[process.stderr])


class Run:
    """One run of the command."""

    def __init__(self, *arguments, user=None, limit=SECONDS):
        RUNS[0] += 1
        self.command = [STRATA, *map(str, arguments)]
        as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
        with damaged_trace.WRITING:
            started = subprocess.Popen(  # pylint: disable=consider-using-with
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(os.environ, TZ="UTC", LC_ALL="C"),
                **as_user,
            )
        with started as process:
            self.text, talk = both(process, time.monotonic() + 30 * limit)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        self.status = os.waitstatus_to_exitcode(status)
        self.talk = talk.decode(errors="replace")
        # Of a CPU: other programs may have them.
        self.seconds, self.memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        self.limit = limit

    def lines(self):
        """Of stdout."""
        return self.text.splitlines()

    def complaint(self, statuses=(0, 2), memory=MEMORY):
        """What is never right, or None."""
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name} after {self.seconds:.1f} s of a CPU"
        if "panicked" in self.talk:
            return "panicked"
        if self.status not in statuses:
            return f"exit status {self.status}, wanted {' or '.join(map(str, statuses))}"
        if self.status == 2 and not self.talk:
            return "exit status 2 without a message"
        if self.seconds > self.limit:
            return f"took {self.seconds:.1f} s of a CPU"
        if self.memory > memory:
            return f"{self.memory >> 20} MB of memory"
        return None


def bad(what, run, why):
    """Note a failure; the first ones of each part are shown."""
    FAILED.append(what)
    if len(FAILED) <= 12:
        print(f"FAIL {what}: {why}\n  {' '.join(run.command)}\n  it said: {run.talk[:500]!r}", flush=True)


def view(path, *more, **limits):
    """Shows a trace."""
    return Run("view", *PLAIN, *more, path, **limits)


def babeltrace(path):
    """Its lines of babeltrace2."""
    done = subprocess.run(
        ["babeltrace2", "--no-delta", path],
        stdout=subprocess.PIPE,
        check=True,
        env=dict(os.environ, TZ="UTC"),
    )
    return done.stdout.splitlines()


class Whole:
    """The undamaged trace, its files, and its lines."""

    def __init__(self, order="le", packetised=False, indexed=True):
        self.trace = damaged_trace.make(order)
        self.files = damaged_trace.files(self.trace, packetised, indexed)
        path = os.path.join(FOLDER, f"whole-{order}-{packetised}-{indexed}")
        damaged_trace.write(path, self.files)
        self.lines = babeltrace(path)
        assert len(self.lines) == 36, self.lines
        # The lines of each record of each stream, by its time.
        self.by_time = {re.match(rb"\[[^]]*?(\d{9})\]", line).group(1): line for line in self.lines}

    def of(self, stream):
        """The lines of a stream's records, packet by packet."""
        return [
            [self.by_time[b"%09d" % (1000 * packet + 10 * n + stream)] for n in range(4)]
            for packet in range(3)
        ]

    def without(self, stream, gone):
        """All lines but those of a stream's packets or records: {packet: first record that is not there}."""
        absent = {line for packet, first in gone.items() for line in self.of(stream)[packet][first:]}
        return [line for line in self.lines if line not in absent]


def damaged(name, files, **changes):
    """A new folder with changed files; None: there is no such file."""
    path = os.path.join(FOLDER, name)
    contents = dict(files)
    for key, data in changes.items():
        key = key.replace("__", "/").replace("_idx", ".idx")
        if data is None:
            contents.pop(key)
        else:
            contents[key] = data
    damaged_trace.write(path, contents)
    return path


def pool(function, items):
    """Two at a time."""
    with ThreadPoolExecutor(2) as executor:
        list(executor.map(function, items))


def names(run, *parts):
    """Does a message have all of these?"""
    return all(part.lower() in run.talk.lower() for part in parts)


# ---- many traces in one run ----


class Copies:
    """Whole copies of a trace, each of its own UUID and process number, in one folder for each of two runs at once.
    The start of a process costs more than to read some more of such small traces."""

    def __init__(self, name, numbers, order="le", packetised=False, indexed=True):
        self.numbers = numbers
        self.files = {
            number: damaged_trace.files(
                damaged_trace.make(order, number),
                packetised() if callable(packetised) else packetised,
                indexed,
            )
            for number in numbers
        }
        self.folders = queue.Queue()
        for letter in "ab":
            folder = os.path.join(FOLDER, f"{name}-{letter}")
            for number, contents in self.files.items():
                damaged_trace.write(os.path.join(folder, f"{number:03}"), contents)
            self.folders.put(folder)

    def show(self, damages, **limits):
        """One run of all copies, of which each (copy, file, bytes) is damaged; with the folder that was shown, which
        is whole again behind."""
        folder = self.folders.get()
        for number, target, data in damages:
            self._overwrite(folder, number, target, data)
        run = view(folder, **limits)
        if os.environ.get("KEEP") and run.complaint():
            shutil.copytree(folder, f"{folder}-{RUNS[0]}")
        for number, target, _ in damages:
            self._overwrite(folder, number, target, self.files[number][target])
        self.folders.put(folder)
        return run

    @staticmethod
    def _overwrite(folder, number, target, data):
        with damaged_trace.WRITING, open(os.path.join(folder, f"{number:03}", target), "wb") as file:
            file.write(data)

    @staticmethod
    def lines(run):
        """What was shown of each copy."""
        found = {}
        for line in run.lines():
            copy = re.search(rb" h:\((\d+)\) ", line)
            found.setdefault(copy and int(copy[1]), []).append(line)
        return found

    @staticmethod
    def of(number, lines):
        """The lines of the undamaged trace, as those of a copy."""
        return [line.replace(b"h:(0)", b"h:(%d)" % number) for line in lines]

    @staticmethod
    def said(run, number):
        """The messages that name a copy."""
        return "\n".join(line for line in run.talk.splitlines() if f"/{number:03}'" in line)


# ---- truncated ----

# As many as have their own messages, of 20 that are said. Where there is an index, it has one, too, as have packets of
# metadata.
AT_ONCE, AT_ONCE_TWO = range(10, 28), range(10, 19)


def cut_of(whole, stream, cut):
    """What is shown of a stream that ends at a byte, and whether a packet ends there."""
    name = f"stream_{stream}"
    packets = whole.trace.files[stream].packets
    gone = {}
    for number, (begin, ends) in enumerate(packets):
        there = max(0, cut - begin) * 8
        size = (packets[number + 1][0] if number < 2 else len(whole.files[name])) - begin
        if there < size * 8:
            gone[number] = sum(1 for end in ends[1:] if end <= there) if there >= ends[0] else 0
    boundary = cut == len(whole.files[name]) or any(cut == begin for begin, _ in packets)
    return whole.without(stream, gone), boundary


def cut_says(stream, talk):
    """Does a message name stream, packet and offset?"""
    return f"stream_{stream}" in talk and "packet" in talk and re.search(r"offset|byte", talk)


def differ(found, wanted):
    return (
        f"{len(found)} lines, wanted {len(wanted)}; absent: {[line for line in wanted if line not in found][:2]!r}, "
        f"too many: {[line for line in found if line not in wanted][:2]!r}"
    )


def truncated_stream(whole, stream, cut):
    """A stream's file ends at a byte, and this is all that is wrong: the exit status."""
    name = f"stream_{stream}"
    path = damaged(f"cut-{stream}-{cut}", whole.files, **{name: whole.files[name][:cut]})
    wanted, boundary = cut_of(whole, stream, cut)
    run = view(path)
    why = run.complaint((0, 2) if boundary else (2,))
    if not why and run.lines() != wanted:
        why = differ(run.lines(), wanted)
    if not why and not boundary and not cut_says(stream, run.talk):
        why = "the message names not stream, packet and offset"
    if why:
        bad(f"{name} cut at byte {cut}", run, why)
    shutil.rmtree(path)


def truncated_streams(whole, copies, stream, cuts):
    """A stream of each copy ends at another byte."""
    name = f"stream_{stream}"
    each = dict(zip(copies.numbers, cuts))
    run = copies.show([(copy, name, copies.files[copy][name][:cut]) for copy, cut in each.items()])
    why, shown = run.complaint((0, 2)), copies.lines(run)
    boundaries = 0
    for copy in copies.numbers:
        wanted, boundary = cut_of(whole, stream, each[copy]) if copy in each else (whole.lines, True)
        boundaries += boundary
        found, wanted = shown.get(copy, []), copies.of(copy, wanted)
        if not why and found != wanted:
            why = f"copy {copy}: {differ(found, wanted)}"
        if not why and not boundary and not cut_says(stream, copies.said(run, copy)):
            why = f"copy {copy}: the message names not stream, packet and offset"
    if not why and boundaries < len(copies.numbers) and run.status != 2:
        why = f"exit status {run.status}, wanted 2"
    if why:
        bad(f"{name} cut at bytes {each}", run, why)


def edges(whole, stream):
    """Where something else begins, and beside it: packets, their heads' ends, records."""
    packets, size = whole.trace.files[stream].packets, len(whole.files[f"stream_{stream}"])
    marks = {0, size}
    for begin, ends in packets:
        marks.update((begin, *(begin + -(-end // 8) for end in ends)))
    return sorted({mark + by for mark in marks for by in (-1, 0, 1)} & set(range(size + 1)))


def groups(things, number):
    things = list(things)
    return [things[at : at + number] for at in range(0, len(things), number)]


def truncated():
    """Every file at every byte, or at one of six, by chance."""
    step = 1 if os.environ.get("ALL") else 6
    for order, indexed in (("le", True), ("be", False)):
        whole = Whole(order, indexed=indexed)
        numbers = AT_ONCE_TWO if indexed else AT_ONCE
        copies = Copies(f"cut-{order}", numbers, order, indexed=indexed)
        for stream in range(3):
            each = edges(whole, stream)[random.randrange(step) :: step]
            pool(lambda cut, w=whole, s=stream: truncated_stream(w, s, cut), each)
            pool(
                lambda cuts, w=whole, c=copies, s=stream: truncated_streams(w, c, s, cuts),
                groups(range(random.randrange(step), len(whole.files[f"stream_{stream}"]) + 1, step), len(numbers)),
            )

    for packetised in (False, True):
        whole = Whole("le", packetised)
        copies = Copies(f"metadata-{packetised}", AT_ONCE_TWO, "le", packetised)

        def metadata(cuts, whole=whole, copies=copies):
            each = dict(zip(copies.numbers, cuts))
            run = copies.show(
                [(copy, "metadata", copies.files[copy]["metadata"][:cut]) for copy, cut in each.items()]
            )
            why, shown = run.complaint((0, 2)), copies.lines(run)
            for copy in copies.numbers:
                said = copies.said(run, copy)
                if not why and not said and shown.get(copy, []) != copies.of(copy, whole.lines):
                    why = f"copy {copy}: no message, but not everything is shown"
                if not why and said and ("metadata" not in said or run.status != 2):
                    why = f"copy {copy}: exit status {run.status}, and it is not the metadata that are named"
            # What is said of metadata comes first; those that end behind a block have messages of streams only.
            if why and "more damaged places" in run.talk and len(cuts) > 1:
                half = len(cuts) // 2
                metadata(cuts[:half])
                return metadata(cuts[half:])
            if why:
                bad(f"metadata ({'packets' if packetised else 'text'}) cut at bytes {each}", run, why)
            return None

        size = len(copies.files[AT_ONCE_TWO[0]]["metadata"])
        # One is whole: where nothing can be read, only the first one is named.
        pool(metadata, groups(range(0, size, 3 if packetised else 1), len(AT_ONCE_TWO) - 1))

    whole = Whole("le")
    copies = Copies("cut-index", AT_ONCE)
    target = "index/stream_0.idx"

    def index(cuts):
        each = dict(zip(copies.numbers, cuts))
        run = copies.show([(copy, target, copies.files[copy][target][:cut]) for copy, cut in each.items()])
        why, shown = run.complaint(), copies.lines(run)
        for copy in copies.numbers:
            if not why and shown.get(copy, []) != copies.of(copy, whole.lines):
                why = f"copy {copy}: a damaged index must not hide an event"
        if why:
            bad(f"index cut at bytes {each}", run, why)

    pool(index, groups(range(len(whole.files[target])), len(AT_ONCE)))


# ---- bit flips ----


def flips():
    """Random bits in all files of many copies that are shown together; the streams that are whole are shown."""
    seed, total = int(os.environ.get("SEED", random.getrandbits(32))), int(os.environ.get("FLIPS", 300000 if os.environ.get("ALL") else 30000))
    print(f"flips: SEED={seed} FLIPS={total}", flush=True)
    rng = random.Random(seed)
    whole = Whole("le")
    copies = Copies("flips", range(100), packetised=lambda: rng.random() < 0.5)
    batches, done = [], 0
    while done < total:
        batch = []
        for copy in range(100):
            number = rng.choice((1, 1, 2, 4, 8, 16))
            target = rng.choice(
                ("metadata", "metadata", "stream_0", "stream_1", "stream_2", "stream_2", "index/stream_0.idx")
            )
            data = bytearray(copies.files[copy][target])
            # In the heads of packets more often than where only values are.
            for _ in range(number):
                at = rng.randrange(len(data)) if rng.random() < 0.7 else rng.randrange(min(len(data), 120))
                data[at] ^= 1 << rng.randrange(8)
            batch.append((copy, target, bytes(data)))
            done += number
        batches.append(batch)

    def one(number):
        run = copies.show(batches[number])
        why, shown = run.complaint(), copies.lines(run)
        for copy, target, _ in batches[number]:
            if why or target == "metadata":
                continue
            wanted = copies.of(
                copy,
                whole.lines
                if target.startswith("index")
                else [
                    line
                    for stream in range(3)
                    if target != f"stream_{stream}"
                    for packet in whole.of(stream)
                    for line in packet
                ],
            )
            have = set(shown.get(copy, []))
            if not set(wanted) <= have:
                why = (
                    f"copy {copy}, {target} damaged: another stream's records are not shown: "
                    f"{[line for line in wanted if line not in have][:1]!r}"
                )
        if why:
            bad(f"flips, batch {number}", run, why)

    pool(one, range(len(batches)))
    print(f"flips: {done} in {len(batches)} times 100 traces", flush=True)


# ---- wrong sizes, numbers, order ----


def field_at(whole, stream, packet, name):
    """Where a member of a packet's head is [byte of the file]: whole bytes, one behind the other."""
    sizes = [
        ("magic", 4),
        ("uuid", 16),
        ("stream_id", 4),
        ("stream_instance_id", 8),
        ("timestamp_begin", 8),
        ("timestamp_end", 8),
        ("content_size", 8),
        ("packet_size", 8),
        ("packet_seq_num", 8),
        ("events_discarded", 8),
        ("cpu_id", 4),
    ]
    at = whole.trace.files[stream].packets[packet][0]
    for found, size in sizes:
        if found == name:
            return at, size
        at += size
    raise KeyError(name)


def with_field(whole, stream, packet, **values):
    """The stream's bytes with other values."""
    data = bytearray(whole.files[f"stream_{stream}"])
    for name, value in values.items():
        at, size = field_at(whole, stream, packet, name)
        data[at : at + size] = value.to_bytes(size, "little" if whole.trace.order == "le" else "big")
    return bytes(data)


def sizes():
    """Sizes, times and ids in a packet's head that cannot be, in each packet."""
    for order, indexed in (("le", False), ("be", True)):
        whole = Whole(order, indexed=indexed)
        for packet in range(3):
            real = (
                whole.trace.files[0].packets[packet + 1][0] if packet < 2 else len(whole.files["stream_0"])
            ) - whole.trace.files[0].packets[packet][0]
            for name, value in (
                [("content_size", value) for value in (0, 1, 7, 100, real * 8 + 8, 1 << 63, (1 << 64) - 1)]
                + [
                    ("packet_size", value)
                    for value in (
                        0,
                        1,
                        7,
                        64,
                        real * 8 - 3,
                        real * 8 + 3,
                        real * 8 + 8,
                        1 << 40,
                        1 << 63,
                        (1 << 64) - 1,
                        (1 << 64) - 8,
                    )
                ]
                + [("magic", 0), ("magic", 0xC1FC1FC0), ("stream_id", 2), ("stream_id", 0xFFFFFFFF)]
            ):
                path = damaged(
                    f"size-{order}-{packet}-{name}-{value}",
                    whole.files,
                    stream_0=with_field(whole, 0, packet, **{name: value}),
                )
                run = view(path)
                # The other packets are shown at least where this one's size can be believed; those in front always.
                least = whole.without(
                    0,
                    {
                        number: 0
                        for number in range(3)
                        if number == packet or number > packet and name in ("packet_size", "magic")
                    },
                )
                why = run.complaint((2,))
                if not why and not set(least) <= set(run.lines()):
                    why = f"intact events are not shown: {[line for line in least if line not in run.lines()][:2]!r}"
                if not why and not set(run.lines()) <= set(whole.lines):
                    why = f"events are shown that are not: {[line for line in run.lines() if line not in whole.lines][:2]!r}"
                if not why and not (
                    names(run, "stream_0", f"packet {packet}") and re.search(r"offset|byte", run.talk)
                ):
                    why = f"the message names not stream_0, packet {packet} and offset"
                if why:
                    bad(f"{order}: packet {packet}: {name} = {value}", run, why)
                shutil.rmtree(path)
            for name, value in (
                ("timestamp_begin", (1 << 64) - 1),
                ("timestamp_end", 0),
                ("timestamp_end", (1 << 64) - 1),
                ("events_discarded", (1 << 64) - 1),
                ("packet_seq_num", (1 << 64) - 1),
                ("stream_instance_id", (1 << 64) - 1),
            ):
                path = damaged(
                    f"value-{order}-{packet}-{name}-{value}",
                    whole.files,
                    stream_0=with_field(whole, 0, packet, **{name: value}),
                )
                run = view(path)
                least = [line for stream in (1, 2) for part in whole.of(stream) for line in part]
                why = run.complaint() or (
                    not set(least) <= set(run.lines()) and "another stream's events are not shown"
                )
                if why:
                    bad(f"{order}: packet {packet}: {name} = {value}", run, why)
                shutil.rmtree(path)


def order_and_parts():
    """Packets in another order, twice, of another trace, bytes in between, unknown event ids."""
    whole = Whole("le", indexed=False)
    data = whole.files["stream_0"]
    starts = [begin for begin, _ in whole.trace.files[0].packets] + [len(data)]
    parts = [data[starts[n] : starts[n + 1]] for n in range(3)]
    other = damaged_trace.files(damaged_trace.make("be"))
    for what, changed, statuses in (
        ("order 1 0 2", parts[1] + parts[0] + parts[2], (0, 2)),
        ("order 2 1 0", parts[2] + parts[1] + parts[0], (0, 2)),
        ("twice", parts[0] + parts[0] + parts[1] + parts[2], (0, 2)),
        ("of another byte order", parts[0] + other["stream_0"] + parts[1], (2,)),
        ("zeros behind", data + bytes(1000), (2,)),
        ("one byte behind", data + b"x", (2,)),
        ("text between", parts[0] + b"this is no packet" + parts[1] + parts[2], (2,)),
        ("zeros for a packet", parts[0] + bytes(len(parts[1])) + parts[2], (2,)),
        ("only zeros", bytes(4096), (2,)),
        ("only text", b"hello\n" * 100, (2,)),
    ):
        path = damaged("parts-" + what.replace(" ", "-"), whole.files, stream_0=changed)
        run = view(path)
        least = [line for stream in (1, 2) for part in whole.of(stream) for line in part]
        if parts[0] in changed[: len(parts[0])]:
            least += whole.of(0)[0]
        why = run.complaint(statuses)
        if not why and not set(least) <= set(run.lines()):
            why = f"intact events are not shown: {[line for line in least if line not in run.lines()][:2]!r}"
        if not why and 2 in statuses and len(statuses) == 1 and "stream_0" not in run.talk:
            why = "the message does not name the stream"
        if not why and what.startswith("order") and set(run.lines()) != set(whole.lines):
            why = "not all events are shown"
        if why:
            bad(what, run, why)
        shutil.rmtree(path)
    # An event's id that there is not: in the second record of the second packet.
    begin, ends = whole.trace.files[0].packets[1]
    changed = bytearray(data)
    at = begin + -(-ends[1] // 8)
    changed[at] = changed[at] & 0xE0 | 29
    path = damaged("unknown-id", whole.files, stream_0=bytes(changed))
    run = view(path)
    why = (
        run.complaint((2,))
        or (not set(whole.without(0, {1: 1})) <= set(run.lines()) and "intact events are not shown")
        or (
            not names(run, "stream_0", "packet 1", "29")
            and "the message names not stream_0, packet 1 and the id"
        )
    )
    if why:
        bad("unknown event id", run, why)


# ---- what is no file ----


def unusual():
    """Things in a trace's folder that are not what they should be."""
    whole = Whole("le", indexed=False)
    rest = whole.without(0, {0: 0, 1: 0, 2: 0})

    def case(what, make, wanted, statuses=(2,), named="stream_0", user=None):
        path = damaged("unusual-" + re.sub(r"\W+", "-", what), whole.files, stream_0=None)
        make(path)
        run = view(path, user=user)
        why = run.complaint(statuses)
        if not why and run.lines() != wanted:
            why = f"{len(run.lines())} lines, wanted {len(wanted)}"
        if not why and run.status == 2 and named not in run.talk:
            why = f"the message does not name '{named}'"
        if why:
            bad(what, run, why)
        return path

    def listening(path):
        name = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(path)
        name.bind("stream_0")
        os.chdir(here)
        name.close()

    def put(data):
        def make(path):
            with open(os.path.join(path, "stream_0"), "wb") as file:
                file.write(data)

        return make

    everyone = whole.files["stream_0"]
    case("a stream that is not there", lambda path: None, rest, (0,))
    case("a file of no bytes", put(b""), rest, (0,))
    case("a folder for a stream", lambda path: os.mkdir(os.path.join(path, "stream_0")), rest, (0, 2))
    case("a FIFO", lambda path: os.mkfifo(os.path.join(path, "stream_0")), rest, (0, 2))
    case("a socket", listening, rest, (0, 2))
    case(
        "a link to itself", lambda path: os.symlink("stream_0", os.path.join(path, "stream_0")), rest, (0, 2)
    )
    case(
        "a link to nothing", lambda path: os.symlink("nowhere", os.path.join(path, "stream_0")), rest, (0, 2)
    )
    case("a link to the folder", lambda path: os.symlink(".", os.path.join(path, "stream_0")), rest, (0, 2))
    case(
        "a link to /dev/zero",
        lambda path: os.symlink("/dev/zero", os.path.join(path, "stream_0")),
        rest,
        (0, 2),
    )
    case(
        "a link to /dev/tty",
        lambda path: os.symlink("/dev/tty", os.path.join(path, "stream_0")),
        rest,
        (0, 2),
    )
    case(
        "a hidden file",
        lambda path: (put(everyone)(path), open(os.path.join(path, ".hidden"), "wb").write(b"x" * 100)),
        whole.lines,
        (0,),
    )

    def sparse(path):
        put(everyone)(path)
        os.truncate(os.path.join(path, "stream_0"), 1 << 40)

    try:
        case("a terabyte of nothing behind", sparse, whole.lines, (2,))
    except OSError as error:
        print(f"not tested, as a file may not be so large: {error}")

    def loop(path):
        put(everyone)(path)
        os.makedirs(os.path.join(path, "below"))
        os.symlink("../..", os.path.join(path, "below", "up"))

    case("a folder below that leads up again", loop, whole.lines, (0, 2))

    def closed(path):
        put(everyone)(path)
        os.chmod(os.path.join(path, "stream_0"), 0)
        for folder in (path, FOLDER):
            os.chmod(folder, 0o755)

    # Root may read everything: as somebody else, who must be able to run the command.
    user = 65534 if os.geteuid() == 0 else None
    try:
        Run("--version", user=user)
        case("a file that may not be read", closed, rest, (2,), user=user)
    except PermissionError as error:
        print(f"not tested, what may not be read: {error}")

    for what, make, statuses in (
        ("no metadata", lambda path: os.remove(os.path.join(path, "metadata")), (2,)),
        ("metadata of no bytes", lambda path: open(os.path.join(path, "metadata"), "wb").close(), (2,)),
        (
            "a folder for metadata",
            lambda path: (
                os.remove(os.path.join(path, "metadata")),
                os.mkdir(os.path.join(path, "metadata")),
            ),
            (2,),
        ),
        (
            "a FIFO for metadata",
            lambda path: (
                os.remove(os.path.join(path, "metadata")),
                os.mkfifo(os.path.join(path, "metadata")),
            ),
            (2,),
        ),
        (
            "/dev/zero for metadata",
            lambda path: (
                os.remove(os.path.join(path, "metadata")),
                os.symlink("/dev/zero", os.path.join(path, "metadata")),
            ),
            (2,),
        ),
        (
            "a link to itself for metadata",
            lambda path: (
                os.remove(os.path.join(path, "metadata")),
                os.symlink("metadata", os.path.join(path, "metadata")),
            ),
            (2,),
        ),
    ):
        case(what, make, [], statuses, "metadata" if "metadata" in what else "unusual")
    for what, path in (
        ("nothing there", os.path.join(FOLDER, "nowhere")),
        ("an empty folder", os.path.join(FOLDER, "empty")),
        ("a file", __file__),
        ("/dev/null", "/dev/null"),
    ):
        os.makedirs(os.path.join(FOLDER, "empty"), exist_ok=True)
        run = view(path)
        why = run.complaint((2,)) or (path not in run.talk and "the message does not name it")
        if why:
            bad(what, run, why)

    # One trace of several that cannot be read: the others are shown.
    several = os.path.join(FOLDER, "several")
    damaged("several/good", whole.files)
    damaged("several/bad", whole.files, metadata=b"trace { nonsense")
    run = view(several)
    why = (
        run.complaint((2,))
        or (run.lines() != whole.lines and "the good one is not shown")
        or ("several/bad" not in run.talk and "the bad one is not named")
    )
    if why:
        bad("one bad trace of two", run, why)


def changing():
    """A file that grows and shrinks while it is read."""
    whole = Whole("le", indexed=False)
    path = damaged("changing", whole.files)
    file = os.path.join(path, "stream_0")
    data = whole.files["stream_0"] * 400
    least = [line for stream in (1, 2) for part in whole.of(stream) for line in part]
    end = threading.Event()

    def change():
        rng = random.Random(3)
        with open(file, "r+b", buffering=0) as out:
            while not end.is_set():
                length = rng.choice((0, 1, 100, len(data) // 2, len(data)))
                out.truncate(length)
                out.seek(0)
                out.write(data[: rng.choice((0, 7, 5000, len(data)))])

    changer = threading.Thread(target=change)
    changer.start()
    for _ in range(60):
        run = view(path)
        why = run.complaint() or (
            not set(least) <= set(run.lines()) and "another stream's events are not shown"
        )
        if why:
            bad("a file that changes", run, why)
    end.set()
    changer.join()


# ---- bombs ----


def bombs():
    """Metadata and packets made to exhaust memory, stack or time."""
    for name, (files, statuses) in damaged_bombs.bombs().items():
        path = os.path.join(FOLDER, "bomb-" + name)
        damaged_trace.write(path, files)
        for action in (("view",), ("stats",), ("list",), ("list", "--json")):
            run = Run(*action, path)
            # Metadata may be as they should be where packets are not.
            why = run.complaint((0, *statuses) if action[0] == "list" else statuses)
            if why:
                bad(f"{' '.join(action)}: {name}", run, why)
        if name == "members_many_shown":
            # As many as a block may have: 0.1 s, and no product of their number with itself.
            run = Run("view", "--format=short", path, limit=1)
            why = run.complaint(statuses)
            if why:
                bad(f"short: {name}", run, why)
        shutil.rmtree(path)


def without_records():
    """Packets without records: memory does not grow with their number. What this process had is counted, too,
    so that this is the first part."""
    actions = ("view", "--threads=1"), ("view", "--threads=2"), ("stats",), ("export", "--to=json", "-o", "-")
    for kind in damaged_bombs.WITHOUT_RECORDS:
        few, many = (os.path.join(FOLDER, f"without-records-{kind}-{count}") for count in ("few", "many"))
        damaged_bombs.without_records(few, kind, 1000)
        damaged_bombs.without_records(many, kind, 250000)
        for action in actions:
            # The pages of the command itself are in both.
            before = Run(*action, few, limit=2 * SECONDS).memory
            run = Run(*action, many, limit=2 * SECONDS)
            why = run.complaint((0, 1, 2), before + (16 << 20))
            if why:
                bad(f"{' '.join(action)}: packets without records, {kind}", run, f"{why}, {before >> 20} MB of few")
        shutil.rmtree(few)
        shutil.rmtree(many)


PARTS = {
    part.__name__: part
    for part in (without_records, truncated, sizes, order_and_parts, unusual, changing, bombs, flips)
}


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in sys.argv[3:] or PARTS:
        begin, before, runs = time.monotonic(), len(FAILED), RUNS[0]
        PARTS[name]()
        verdict = f"{len(FAILED) - before} FAILED" if len(FAILED) > before else "ok"
        print(f"{verdict} {name}: {RUNS[0] - runs} runs, {time.monotonic() - begin:.1f} s", flush=True)
    sys.exit(1 if FAILED else 0)


main()
