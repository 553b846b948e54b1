"""The layers of a host and its guest on one timeline, and their order.

    python3 tests/vm/guests.py TEXT GUEST SECOND    TEXT: what babeltrace2 says of the recording; GUEST: the folder of the
                                                    guest; SECOND: of its second recorder
"""

import bisect
import glob
import re
import sys

REQUESTS = 200
LINE = re.compile(r"^\[(\d+)\.(\d{9})\] \([^)]*\) (\S+) (\w+(?::\w+)?): (.*)$")
# What a request does in the guest, which is of one clock: the program, its libc, its kernel, and back.
DOWN = ["requests:request", "io:write_begin", "syscall_entry_pwrite64"]
UP = ["syscall_exit_pwrite64", "io:write_end", "requests:reply"]


def environment(guest, second):
    """What is known of the guest's clock, the same in each of its traces, and its name."""
    numbers, clocks, names = {}, set(), set()
    paths = [f"{second}/kernel/metadata", f"{guest}/kernel/metadata", *glob.glob(f"{guest}/user/*/metadata")]
    assert len(paths) == 3, paths
    for path in paths:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "replace")
        found = {name: int(value) for name, value in re.findall(r"^\t(\w+) = (\d+);$", text, re.M)}
        clocks.add(tuple(found.get(name) for name in ("freq", "offset_s", "offset", "clock_uncertainty")))
        numbers.update(found)
        names.update(re.findall(r'^\thostname = "(.*)";$', text, re.M))
    assert len(clocks) == 1, f"one machine has several clocks: {clocks}"
    assert len(names) == 1, names
    return numbers, names.pop()


def events(path, guest):
    """All of them, in the order of time; whether they are of the guest with this name."""
    last = 0
    with open(path) as text:
        for line in text:
            found = LINE.match(line)
            assert found, line
            at = int(found[1]) * 10**9 + int(found[2])
            assert at >= last, line
            last = at
            yield at, found[3].split(":")[0] == guest, found[4], found[5]


def number(fields, name):
    """A field's value."""
    return int(re.search(rf"\b{name} = (\w+)", fields)[1], 0)


class Guest:
    """What it says of its own requests, each at its place on the disk."""

    def __init__(self):
        self.calls = {"entry": [], "exit": []}
        self.requests = {}
        self.now = {}
        # When its program ended, as the second recorder says.
        self.ended = []
        # When something was recorded, by virtual CPU.
        self.cpus = {}

    def take(self, at, event, fields):
        """One of its events."""
        if "statedump" not in event:
            self.cpus.setdefault(number(fields, "cpu_id"), []).append(at)
        if event == DOWN[0]:
            assert not self.now, fields
            self.now = self.requests[number(fields, "place")] = {event: at}
        elif event in DOWN + UP and self.now:
            # Between its two events the program writes a block, and nothing else.
            assert event not in self.now, (event, fields)
            self.now[event] = at
            if event == UP[-1]:
                self.now = {}
        elif event.endswith("_getppid"):
            self.calls[event.split("_")[1]].append(at)
        elif event == "sched_process_exit" and 'comm = "requests"' in fields:
            self.ended.append(at)

    def check(self):
        """Each went down and up again, in order; by one clock, so that nothing is added."""
        assert len(self.requests) == REQUESTS, len(self.requests)
        for request in self.requests.values():
            assert list(request) == DOWN + UP, request
        assert len(self.ended) == 1 and all(request[UP[-1]] < self.ended[0] for request in self.requests.values()), self.ended

    def brackets(self):
        """From the end of a call to the begin of the next."""
        counts = {kind: len(calls) for kind, calls in self.calls.items()}
        assert set(counts.values()) == {2 * REQUESTS}, counts
        return list(zip(self.calls["exit"][0::2], self.calls["entry"][1::2]))


class Host:
    """What QEMU does for it."""

    def __init__(self):
        self.writes, self.devices, self.blocks, self.states = {}, {}, {}, []
        self.doing = {}
        # By thread: the times in which it had no CPU, and since when it has none.
        self.off, self.since = {}, {}

    def take(self, at, event, fields):
        """One of its events."""
        if event == "sched_switch":
            self.since[number(fields, "prev_tid")] = at
            tid = number(fields, "next_tid")
            if tid in self.since:
                self.off.setdefault(tid, []).append((self.since.pop(tid), at))
        elif event == "syscall_entry_writev":
            self.writes.setdefault(number(fields, "fd"), []).append(at)
        elif event in ("syscall_entry_pwrite64", "syscall_entry_pwritev"):
            place = number(fields, "pos" if event.endswith("64") else "pos_l")
            self.doing[number(fields, "tid")] = place
            self.blocks.setdefault(place, []).append(at)
        elif event in ("syscall_exit_pwrite64", "syscall_exit_pwritev"):
            self.blocks[self.doing.pop(number(fields, "tid"))].append(at)
        elif event == "qemu_device_write":
            self.devices.setdefault(number(fields, "region"), []).append(at)
        elif event == "qemu_state":
            self.states.append(number(fields, "is_running"))


def inside(times, brackets, more):
    """How many are between the two of their bracket, which is so much wider to both sides."""
    return sum(begin - more <= at <= end + more for at, (begin, end) in zip(times, brackets))


def impossible(times, off, uncertainty):
    """Of times in which a virtual CPU did nothing: how many are long enough to say something, and what is in them for all that."""
    inner = [(begin + uncertainty, end - uncertainty) for begin, end in off if end - begin > 2 * uncertainty]
    found = [times[at] for begin, end in inner for at in range(bisect.bisect_right(times, begin), bisect.bisect_left(times, end))]
    return len(inner), found


def main():
    """See above."""
    known, name = environment(*sys.argv[2:])
    uncertainty = known["clock_uncertainty"]
    assert uncertainty < 1_000_000_000, uncertainty
    guest, host = Guest(), Host()
    for at, is_guest, event, fields in events(sys.argv[1], name):
        (guest if is_guest else host).take(at, event, fields)
    guest.check()

    # Of what QEMU writes, the file that is written to 200 times: nothing else is told by a guest that does nothing.
    debug = [writes for writes in host.writes.values() if len(writes) == REQUESTS]
    assert len(debug) == 1, {fd: len(writes) for fd, writes in host.writes.items()}
    brackets = guest.brackets()
    counts = [inside(debug[0], brackets, more) for more in (uncertainty, 0)]
    width = sorted(end - begin for begin, end in brackets)[REQUESTS // 2]
    print(f"uncertainty {uncertainty} ns by {known['clock_exchanges']} exchanges; {counts[0]} of {REQUESTS} inside with it, "
          f"{counts[1]} without; brackets of {width} ns (median)")
    assert counts[0] == REQUESTS, counts
    # In front of QEMU's write is its device, which is in the bracket, too: the host's order is exact.
    ports = [accesses for accesses in host.devices.values() if len(accesses) == REQUESTS]
    assert any(all(at <= write for at, write in zip(port, debug[0])) and
               inside(port, brackets, uncertainty) == REQUESTS for port in ports), \
        {region: len(accesses) for region, accesses in host.devices.items()}

    # A block's write on the host is known by its place: it is within the same write of the guest.
    calls = {place: (request[DOWN[-1]], request[UP[0]]) for place, request in guest.requests.items()}
    assert all(len(host.blocks.get(place, [])) == 2 for place in calls), \
        {place: host.blocks.get(place) for place in calls}
    for which, name in enumerate(("begin", "end")):
        times = [host.blocks[place][which] for place in calls]
        counts = [inside(times, calls.values(), more) for more in (uncertainty, 0)]
        print(f"{name} of the host's write within the guest's: {counts[0]} of {REQUESTS}, {counts[1]} by the clocks alone")
        assert counts[0] == REQUESTS, counts
    width = sorted(end - begin for begin, end in calls.values())[REQUESTS // 2]
    print(f"a request took {width} ns (median) of the guest's kernel")

    # Both kernels' scheduling: nothing of a virtual CPU happens while its thread has no CPU of the host.
    for cpu, times in sorted(guest.cpus.items()):
        many, found = impossible(times, host.off.get(known[f"virtual_cpu_{cpu}"], []), uncertainty)
        print(f"virtual CPU {cpu}: {len(times)} records, none in {many} times without a CPU")
        assert many > 0 and not found, (cpu, many, len(found), found[:5])

    # It was paused by the second recording's command.
    assert host.states.count(1) >= 2 and host.states.count(0) >= 1, host.states
    print(f"{sum(map(len, host.devices.values()))} accesses to {len(host.devices)} devices, the machine's states {host.states}")
    # Which threads they are was asked of QEMU.
    assert {"virtual_cpu_0", "virtual_cpu_1", "hypervisor_pid"} <= known.keys(), known


main()
