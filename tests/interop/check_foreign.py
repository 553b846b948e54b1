"""check_foreign.py STRATA FOLDER [NAME...]: the exit status of `strata view`, `stats` and `export`, what they say, and
which events are shown, for traces that are unusual or not whole. Exit: 0 as it should be; 1 not.
"""

import json
import os
import re
import shutil
import sys

import compare
from writer import CLOCK, UUID, Array, Event, Int, Struct, Trace, flat, u8, u16, u64

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
import damaged_trace  # noqa: E402  pylint: disable=wrong-import-position

STRATA, FOLDER = sys.argv[1:3]
CHECKS = {}
NUMBER = Struct(("_n", u8()))
OTHER_UUID = "00000000-1111-2222-3333-444444444444"


def check(function):
    """It is one."""
    CHECKS[function.__name__] = function
    return function


class Run:
    """One run of the command."""

    def __init__(self, *arguments):
        self.command = [STRATA, *arguments]
        self.status, text, talk = compare.run(self.command)
        self.text, self.talk = text, talk.decode(errors="replace")

    def wanted(self, status, text=None, says=(), lines=None):
        """It ended so, showed this, and said this."""
        what = f"{' '.join(self.command)}\nexit status {self.status}, it said: {self.talk}"
        assert self.status == status, f"wanted exit status {status}: {what}"
        if text is not None:
            assert self.text == text, f"{compare.around(text, self.text)}\n{what}"
        for part in says:
            assert part in self.talk, f"it did not say {part!r}: {what}"
        said = self.talk.count("\n")
        assert lines is None or said == lines, f"{said} lines were said, wanted {lines}: {what}"
        return self


def babeltrace(path, *options):
    """What babeltrace2 shows, which must read it."""
    return compare.wanted_text([path], options, "UTC")[0]


def folder(name):
    """A new one's name."""
    return os.path.join(FOLDER, name)


# ---- what an index knows ----


def indexed(name):
    """A trace of three streams of three packets with indexes, and its text."""
    path = folder(name)
    trace = damaged_trace.make()
    damaged_trace.write(path, damaged_trace.files(trace, False, True))
    return trace, path, babeltrace(path)


def is_damage(path, wanted, says, stats_says=None):
    """That is damage, for view and for stats."""
    Run("view", path).wanted(2, wanted, says)
    for options in ((), ("--strict",)):
        Run("stats", *options, path).wanted(2, None, stats_says or says)


def without(text, trace, stream, first):
    """The text without the stream's packets from one on."""
    gone = {
        b"%09d" % (1000 * packet + 10 * n + stream) 
        for packet in range(first, len(trace.files[0].packets))
        for n in range(4)
    }
    lines = text.splitlines(True)
    kept = [line for line in lines if not any(time + b"]" in line for time in gone)]
    # The times since the event before are other ones.
    assert len(lines) - len(kept) == len(gone)
    return kept


def shown(path):
    """Lines without the time since the event before."""
    return Run("view", "--no-delta", path).text.splitlines(True)


@check
def files_that_are_shorter_than_their_index():
    for name, packets, size in (("cut-at-a-packet", 2, None), ("cut-to-nothing", 0, 0)):
        trace, path, _ = indexed(name)
        text = babeltrace(path, "--no-delta")
        size = trace.files[0].packets[2][0] if size is None else size
        whole = len(trace.files[0].data)
        os.truncate(os.path.join(path, "stream_0"), size)
        says = ["stream 'stream_0'", f"has {size} bytes", f"3 packets in {whole}"]
        is_damage(path, None, says)
        assert shown(path) == without(text, trace, 0, packets), name


@check
def files_that_are_gone_while_their_index_is_there():
    trace, path, _ = indexed("gone")
    text = babeltrace(path, "--no-delta")
    os.unlink(os.path.join(path, "stream_1"))
    is_damage(path, None, ["stream 'stream_1'", "there is no such file", "3 packets"])
    assert shown(path) == without(text, trace, 1, 0)
    os.symlink("/nowhere/at/all", os.path.join(path, "stream_1"))
    is_damage(path, None, ["stream 'stream_1'", "cannot be read", "No such file"])
    assert shown(path) == without(text, trace, 1, 0)
    # Without packets there is nothing that could be gone.
    trace, path, text = indexed("empty-index")
    with open(os.path.join(path, "index", "nothing.idx"), "wb") as file:
        file.write(damaged_trace.INDEX_HEAD.pack(0xC1F1DCC1, 1, 1, damaged_trace.INDEX_ENTRY.size))
    Run("view", path).wanted(0, text, lines=0)


@check
def links_to_traces_that_lead_to_nothing():
    _, path, text = indexed(os.path.join("disks", "one"))
    top = os.path.dirname(path)
    os.symlink("/nowhere/at/all", os.path.join(top, "two"))
    run = Run("view", top).wanted(2, None, ["two", "cannot be read"])
    assert run.text.count(b"\n") == text.count(b"\n")
    os.unlink(os.path.join(top, "two"))
    os.mkdir(os.path.join(top, "three"))
    os.symlink("/nowhere/at/all", os.path.join(top, "three", "metadata"))
    run = Run("view", top).wanted(2, None, ["three", "metadata cannot be read"])
    assert run.text.count(b"\n") == text.count(b"\n")


@check
def damaged_indexes_are_passed_over_and_said():
    damages = {
        "its magic number": lambda data: b"\0" + data[1:],
        "its version": lambda data: data[:7] + b"\7" + data[8:],
        "its header": lambda data: data[:9],
        "its end": lambda data: data[:-3],
        "an entry too few": lambda data: data[:-72],
        "an offset in the middle": lambda data: data[:16 + 72 + 6] + b"\7" + data[16 + 72 + 7 :],
        "a size at the end": lambda data: data[: 16 + 2 * 72 + 8] + b"\1" + data[16 + 2 * 72 + 9 :],
    }
    for what, change in damages.items():
        _, path, text = indexed("index-" + what.replace(" ", "-"))
        name = os.path.join(path, "index", "stream_0.idx")
        with open(name, "rb") as file:
            data = file.read()
        with open(name, "wb") as file:
            file.write(change(data))
        # Where it is not needed for anything, not all of it is looked at.
        Run("view", path).wanted(0, text)
        says = ["stream 'stream_0'", "its index is passed over"]
        begin = text.splitlines(True)[6][1:19].decode()
        run = Run("view", "--no-delta", f"--from={begin}", path).wanted(0, None, says, lines=1)
        # babeltrace2 refuses some of them: it is asked without indexes.
        shutil.rmtree(os.path.join(path, "index"))
        assert run.text == babeltrace(path, f"--begin={begin}", "--no-delta"), what


# ---- packets' bounds ----


def notes(name, trace, says, status=0):
    """All is shown, as babeltrace2 shows it where bounds are right; one line is said for the stream, by each
    command."""
    path = folder(name)
    trace.write(path)
    packets(GROWING_TIMES).write(path + "-right")
    Run("view", path).wanted(status, babeltrace(path + "-right"), says, lines=1)
    Run("view", "--threads=1", path).wanted(status, None, says, lines=1)
    Run("stats", path).wanted(status, None, says, lines=1)
    Run("export", "--to=json", "-o", "-", path).wanted(status, None, says)
    document = json.loads(Run("stats", "--json", path).wanted(status).text)
    assert [len(document["damage"]), len(document["notes"])] == [int(status == 2), int(status == 0)], document
    return path


def packets(times, **bounds):
    """A stream with a packet for each list of times; bounds: {"begin": ...} of all but the first."""
    trace = Trace("le")
    stream = trace.stream([Event("my:event", NUMBER)])
    for number, of in enumerate(times):
        more = {name: value(of) for name, value in bounds.items()} if number else {}
        stream.packet([(time, 0, {"_n": n}) for n, time in enumerate(of)], **more)
    return trace


GROWING_TIMES = [[1000 * packet + 10 * n for n in range(5)] for packet in range(6)]


@check
def packets_that_overlap_are_a_note():
    notes("overlap", packets(GROWING_TIMES, begin=lambda of: of[0] - 980), ["before the packet in front of it ends"])


@check
def events_a_moment_outside_of_their_packet_are_a_note():
    notes("early-end", packets(GROWING_TIMES, end=lambda of: of[-1] - 1), ["behind the packet's end"])
    notes("late-begin", packets(GROWING_TIMES, begin=lambda of: of[0] + 1), ["before the packet's begin"])


@check
def numbers_that_repeat_are_a_note():
    notes("repeats", packets(GROWING_TIMES, sequence=lambda of: 0), ["number 0"])


@check
def events_that_step_back_are_damage():
    """However the bounds are: babeltrace2 ends there."""
    for name, more in (("within", {}), ("overlapping", {"begin": lambda of: of[0] - 980})):
        times = [list(of) for of in GROWING_TIMES]
        at = 2 if name == "within" else 0
        times[3][at] = times[3][at] - (15 if at else 965)
        path = folder("back-" + name)
        packets(times, **more).write(path)
        run = Run("view", "--no-delta", path).wanted(2, None, ["packet 3"])
        assert run.text.count(b"\n") == 30
        Run("stats", path).wanted(2)
    # Far outside of its packet, its time is in doubt.
    path = folder("far-behind")
    packets(GROWING_TIMES[:2] + [[5000, 50_000_000]], end=lambda of: of[0] + 45).write(path)
    Run("view", path).wanted(2, None, ["behind the packet's end"])


# ---- a trace that is still being written ----


@check
def trace_that_is_being_written_is_no_damage():
    trace = Trace("le")
    payload = Struct(("_length", u8()), ("_argv", Array(u64(), "_length")))
    stream = trace.stream([Event("my:event", payload)])
    for packet in range(3):
        stream.packet([(100 * packet + n, 0, {"_length": 20, "_argv": [n] * 20}) for n in range(4)])
    path = folder("growing")
    trace.write(path)
    text = babeltrace(path)
    name = os.path.join(path, "stream_0")
    begin, ends = stream.packets[2]
    # In the last record's elements, in a record's header, in the packet's header.
    for size, lines in ((begin + ends[3] // 8 + 30, 11), (begin + ends[2] // 8 + 2, 10), (begin + 3, 8)):
        with open(name, "r+b") as file:
            file.truncate(size)
            wanted = b"".join(text.splitlines(True)[:lines])
            Run("view", path).wanted(0, wanted, ["still being written"], lines=1)
            Run("stats", path).wanted(0, None, ["still being written"], lines=1)
        Run("view", path).wanted(2, wanted, ["the file ends in"], lines=1)
        with open(name, "rb") as _:
            Run("view", path).wanted(2, wanted, ["the file ends in"], lines=1)
        trace_bytes = bytes(stream.data)
        with open(name, "wb") as file:
            file.write(trace_bytes)


# ---- times ----


def clocked(clock, values=range(1000, 1010)):
    """Two streams, whose events alternate, with this clock."""
    trace = Trace("le", more=f"clock {{ name = clk; {clock} }};")
    first = trace.stream([Event("my:event", NUMBER)], instance=0)
    second = trace.another(first, 1)
    for stream, part in ((first, values[::2]), (second, values[1::2])):
        stream.packet([(time, 0, {"_n": time % 256}) for time in part])
    return trace


@check
def clocks_that_have_no_dates_are_shown_in_cycles_and_said_once():
    for freq in (1_000_000_000, 1_000_000):
        path, plain = folder(f"undated-{freq}"), folder(f"dated-{freq}")
        clocked(f"freq = {freq}; offset_s = 1351530929945824323;").write(path)
        clocked(f"freq = {freq};").write(plain)
        says = ["clock 'clk' begins 1351530929945824323 s after 1970", "--clock cycles"]
        wanted = re.sub(rb"\(\+[0-9?]*\) ", b"(+????????????) ", babeltrace(plain, "--clock-cycles"))
        Run("view", path).wanted(2, wanted, says, lines=1)
        Run("view", "--clock=cycles", path).wanted(2, babeltrace(plain, "--clock-cycles"), says, lines=1)
        step = "+4ns" if freq == 1_000_000_000 else "+4us"
        run = Run("view", "--no-delta", f"--from={step}", path).wanted(2, None, says, lines=1)
        assert run.text == b"".join(babeltrace(plain, "--clock-cycles", "--no-delta").splitlines(True)[4:])
        events = [json.loads(line) for line in Run("view", "--format=json", path).text.splitlines()]
        assert [event["cycles"] for event in events] == list(range(1000, 1010)), events
        assert not any("time" in event or "date" in event for event in events), events
        Run("stats", path).wanted(2, None, says, lines=1)


@check
def single_times_that_are_no_dates_are_shown_in_cycles():
    path = folder("one-undated")
    values = [1000, 1001, 1002, 1003, (1 << 64) - 2, (1 << 64) - 1]
    clocked("freq = 1000000000; offset_s = 1400000000;", values).write(path)
    run = Run("view", "--no-delta", path).wanted(2, None, ["is no date, which are between 1677 and 2262"])
    lines = run.text.splitlines()
    assert lines[3].startswith(b"[16:53:20.000001003]"), lines
    assert [line[:22] for line in lines[4:]] == [b"[18446744073709551614]", b"[18446744073709551615]"], lines


# ---- UUIDs, and nothing ----


@check
def packets_of_another_uuid_are_shown_if_asked_for():
    whole, path = folder("right-uuid"), folder("wrong-uuid")
    for name, uuid in ((whole, UUID), (path, OTHER_UUID)):
        trace = Trace("le")
        stream = trace.stream([Event("my:event", NUMBER)])
        trace.uuid = uuid
        for packet in range(3):
            stream.packet([(100 * packet + n, 0, {"_n": n}) for n in range(4)], padding=200)
        trace.uuid = UUID
        trace.write(name)
    Run("view", path).wanted(2, b"", [f"a packet of trace {OTHER_UUID}", "--ignore-uuid"], lines=2)
    text = babeltrace(whole)
    Run("view", "--ignore-uuid", path).wanted(0, text, lines=0)
    Run("view", "--ignore-uuid", whole).wanted(0, text, lines=0)
    Run("stats", "--ignore-uuid", path).wanted(0, None, lines=0)
    Run("export", "--ignore-uuid", "--to=json", "-o", "-", path).wanted(0)
    # What is no packet is still none.
    with open(os.path.join(path, "stream_0"), "r+b") as file:
        file.seek(1)
        file.write(b"?")
    run = Run("view", "--ignore-uuid", path).wanted(2, None, ["no packet begins here"])
    assert run.text.count(b"\n") == 8


@check
def trace_without_events_is_no_failure():
    path = folder("no-events")
    trace = Trace("le")
    trace.stream([Event("my:event", NUMBER)]).packet([], begin=5, end=9)
    trace.write(path)
    assert babeltrace(path) == b""
    nothing = folder("no-streams")
    os.mkdir(nothing)
    shutil.copy(os.path.join(path, "metadata"), nothing)
    for of in (path, nothing):
        Run("view", of).wanted(0, b"", ["no event in it"])
        Run("stats", of).wanted(0, None, ["no event in it"])
        out = folder("empty.json")
        Run("export", "--to=json", "-o", out, of).wanted(0, None, ["no event in it"])
        assert os.path.getsize(out) == 0
        os.unlink(out)
        Run("view", "-f", "my:event", of).wanted(1, b"")
        Run("stats", "-f", "my:event", of).wanted(1)
        Run("export", "-f", "my:event", "--to=json", "-o", out, of).wanted(1)
        assert not os.path.exists(out)
    Run("view", "--from=@1400000000", path).wanted(1, b"")


# ---- metadata ----


@check
def metadata_says_its_first_problem():
    trace = Trace("le", types="typealias integr { size = 8; } := wrong;\n", header=Struct(("magic", Int(32))))
    trace.stream([Event("my:event", Struct(("_n", u16())))], header=flat())
    path = folder("first-problem")
    trace.write(path)
    name = os.path.join(path, "metadata")
    with open(name, "rb") as file:
        text = file.read().replace(b"packet.header := struct {", b"packet.header := struct { wrong x;")
    with open(name, "wb") as file:
        file.write(text)
    Run("view", path).wanted(2, b"", ["metadata line 2", "type 'wrong' is not described"], lines=1)


def main():
    names = sys.argv[3:] or CHECKS
    failed = []
    for name in names:
        try:
            CHECKS[name]()
        except Exception as error:  # pylint: disable=broad-except
            failed.append(name)
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
    if failed:
        sys.exit(f"{len(failed)} of {len(names)} failed: {' '.join(failed)}")
    print(f"ok {len(names)} kinds of foreign traces")


if __name__ == "__main__":
    assert CLOCK
    main()
