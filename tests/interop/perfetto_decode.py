"""Perfetto's trace format, read again: by the published field numbers, typed here by hand, and nothing else.

decode(path) gives the packets as dictionaries, with every field's name; a field that is not in FIELDS is an
error. Model(packets) does with them what a reader does: interned names, tracks, slices that must nest.
"""
import collections
import struct

GAP = "previous_packet_dropped"  # word-ok: Perfetto's name
BUNDLE_GAP = "lost_events"  # word-ok: Perfetto's name

# Message -> field number -> (name, kind, repeated). Kinds: u(nsigned), i(nt64), I(nt32), b(ool), d(ouble),
# s(tring), or a message.
FIELDS = {
    "TracePacket": {
        1: ("ftrace_events", "FtraceEventBundle", 0), 2: ("process_tree", "ProcessTree", 0),
        6: ("clock_snapshot", "ClockSnapshot", 0), 8: ("timestamp", "u", 0),
        10: ("trusted_packet_sequence_id", "u", 0), 11: ("track_event", "TrackEvent", 0),
        12: ("interned_data", "InternedData", 0), 13: ("sequence_flags", "u", 0),
        42: (GAP, "u", 0), 45: ("system_info", "SystemInfo", 0),
        58: ("timestamp_clock_id", "u", 0), 59: ("trace_packet_defaults", "TracePacketDefaults", 0),
        60: ("track_descriptor", "TrackDescriptor", 0), 66: ("perf_sample", "PerfSample", 0)},
    "TracePacketDefaults": {58: ("timestamp_clock_id", "u", 0)},
    "ClockSnapshot": {1: ("clocks", "Clock", 1), 2: ("primary_trace_clock", "I", 0)},
    "Clock": {1: ("clock_id", "u", 0), 2: ("timestamp", "u", 0)},
    "SystemInfo": {1: ("utsname", "Utsname", 0)},
    "Utsname": {1: ("sysname", "s", 0), 2: ("version", "s", 0), 3: ("release", "s", 0)},
    "InternedData": {1: ("event_categories", "Interned", 1), 2: ("event_names", "Interned", 1),
                     3: ("debug_annotation_names", "Interned", 1), 5: ("function_names", "InternedString", 1),
                     6: ("frames", "Frame", 1), 7: ("callstacks", "Callstack", 1),
                     17: ("mapping_paths", "InternedString", 1), 19: ("mappings", "Mapping", 1),
                     29: ("debug_annotation_string_values", "InternedString", 1)},
    "InternedString": {1: ("iid", "u", 0), 2: ("str", "s", 0)},
    "Frame": {1: ("iid", "u", 0), 2: ("function_name_id", "u", 0), 3: ("mapping_id", "u", 0), 4: ("rel_pc", "u", 0)},
    "Callstack": {1: ("iid", "u", 0), 2: ("frame_ids", "u", 1)},
    "Mapping": {1: ("iid", "u", 0), 7: ("path_string_ids", "u", 1)},
    "PerfSample": {1: ("cpu", "u", 0), 2: ("pid", "u", 0), 3: ("tid", "u", 0), 4: ("callstack_iid", "u", 0),
                   5: ("cpu_mode", "I", 0)},
    "Interned": {1: ("iid", "u", 0), 2: ("name", "s", 0)},
    "TrackDescriptor": {1: ("uuid", "u", 0), 2: ("name", "s", 0), 3: ("process", "ProcessDescriptor", 0),
                        4: ("thread", "ThreadDescriptor", 0), 5: ("parent_uuid", "u", 0),
                        8: ("counter", "CounterDescriptor", 0)},
    "ProcessDescriptor": {1: ("pid", "I", 0), 6: ("process_name", "s", 0)},
    "ThreadDescriptor": {1: ("pid", "I", 0), 2: ("tid", "i", 0), 5: ("thread_name", "s", 0)},
    "CounterDescriptor": {},
    "TrackEvent": {3: ("category_iids", "u", 1), 4: ("debug_annotations", "DebugAnnotation", 1),
                   9: ("type", "I", 0), 10: ("name_iid", "u", 0), 11: ("track_uuid", "u", 0),
                   23: ("name", "s", 0), 30: ("counter_value", "i", 0),
                   44: ("double_counter_value", "d", 0)},
    "DebugAnnotation": {1: ("name_iid", "u", 0), 2: ("bool_value", "b", 0), 3: ("uint_value", "u", 0),
                        4: ("int_value", "i", 0), 5: ("double_value", "d", 0), 6: ("string_value", "s", 0),
                        7: ("pointer_value", "u", 0), 10: ("name", "s", 0),
                        11: ("dict_entries", "DebugAnnotation", 1),
                        12: ("array_values", "DebugAnnotation", 1), 17: ("string_value_iid", "u", 0)},
    "ProcessTree": {1: ("processes", "Process", 1), 2: ("threads", "Thread", 1)},
    "Process": {1: ("pid", "I", 0), 2: ("ppid", "I", 0), 3: ("cmdline", "s", 1)},
    "Thread": {1: ("tid", "I", 0), 2: ("name", "s", 0), 3: ("tgid", "I", 0)},
    "FtraceEventBundle": {1: ("cpu", "u", 0), 2: ("event", "FtraceEvent", 1), 3: (BUNDLE_GAP, "b", 0)},
    "FtraceEvent": {1: ("timestamp", "u", 0), 2: ("pid", "u", 0), 4: ("sched_switch", "SchedSwitch", 0),
                    17: ("sched_wakeup", "Wakeup", 0), 20: ("sched_waking", "Wakeup", 0),
                    114: ("sched_wakeup_new", "Wakeup", 0), 24: ("softirq_entry", "Softirq", 0),
                    25: ("softirq_exit", "Softirq", 0), 26: ("softirq_raise", "Softirq", 0),
                    36: ("irq_handler_entry", "IrqEntry", 0), 37: ("irq_handler_exit", "IrqExit", 0)},
    "SchedSwitch": {1: ("prev_comm", "s", 0), 2: ("prev_pid", "I", 0), 3: ("prev_prio", "I", 0),
                    4: ("prev_state", "i", 0), 5: ("next_comm", "s", 0), 6: ("next_pid", "I", 0),
                    7: ("next_prio", "I", 0)},
    "Wakeup": {1: ("comm", "s", 0), 2: ("pid", "I", 0), 3: ("prio", "I", 0), 4: ("success", "I", 0),
               5: ("target_cpu", "I", 0)},
    "IrqEntry": {1: ("irq", "I", 0), 2: ("name", "s", 0)},
    "IrqExit": {1: ("irq", "I", 0), 2: ("ret", "I", 0)},
    "Softirq": {1: ("vec", "u", 0)},
}
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDED = 1, 2
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
# Threads that stand for those that nobody knows, one for each CPU; and their process.
UNKNOWN = 1 << 22


def varint(data, at):
    """A number of 7 bits in each byte, and where the next field begins."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            assert value < 1 << 64
            return value, at


def message(kind, data):
    """A message's fields by name."""
    found = collections.defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        assert number in FIELDS[kind], f"{kind} has no field {number}"
        name, what, repeated = FIELDS[kind][number]
        if wire == 0:
            value, at = varint(data, at)
            assert what in "uiIb", f"{kind}.{name} is no number"
            if what in "iI" and value >= 1 << 63:
                value -= 1 << 64
            assert what != "I" or -(1 << 31) <= value < 1 << 31, f"{kind}.{name} = {value}"
            value = bool(value) if what == "b" else value
        elif wire == 1:
            assert what == "d", f"{kind}.{name} is no double"
            value, = struct.unpack_from("<d", data, at)
            at += 8
        else:
            assert wire == 2 and what not in "uiIbd", f"{kind}.{name}: wire type {wire}"
            size, at = varint(data, at)
            assert at + size <= len(data), f"{kind}.{name} ends behind its message"
            part = data[at:at + size]
            value = part.decode("utf-8") if what == "s" else message(what, part)
            at += size
        assert repeated or name not in found, f"{kind}.{name} twice"
        found[name].append(value)
    return {name: values if FIELDS[kind][number][2] else values[0]
            for number, (name, _, _) in FIELDS[kind].items() for values in [found.get(name)] if values}


def decode(path):
    """All packets of a trace."""
    with open(path, "rb") as file:
        data = file.read()
    packets, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag == 1 << 3 | 2, f"byte {at}: not a packet"
        size, at = varint(data, at)
        assert at + size <= len(data), "the last packet is cut off"
        packets.append(message("TracePacket", data[at:at + size]))
        at += size
    return packets


class Shown:
    """A slice, an instant or a value of a counter; `end` is None for the latter two."""

    def __init__(self, kind, track, begin, name, args, categories):
        self.kind, self.track, self.begin, self.end, self.name = kind, track, begin, None, name
        self.args, self.end_args, self.categories, self.value, self.depth = args, {}, categories, None, 0

    def __repr__(self):
        return f"{self.name}@{self.begin}..{self.end} on {self.track} {self.args} {self.end_args}"


class Model:
    """What a reader makes of the packets."""

    def __init__(self, packets):
        self.tracks = {}
        self.shown = []
        self.sched = []
        self.unknown = []
        self.samples = []
        self.gaps = []
        self.bundle_gaps = []
        self.trees = []
        self.snapshots = []
        self.system = None
        self.packets = packets
        interned = collections.defaultdict(dict)
        defaults, valid = {}, set()
        events = []
        for packet in packets:
            sequence = packet["trusted_packet_sequence_id"]
            flags = packet.get("sequence_flags", 0)
            if flags & CLEARED:
                interned[sequence] = {}
                defaults[sequence] = packet.get("trace_packet_defaults", {})
                valid.add(sequence)
            elif packet.get(GAP):
                valid.discard(sequence)
            assert not flags & NEEDED or sequence in valid, "interned names that nobody knows"
            assert "interned_data" not in packet or sequence in valid
            for kind, names in packet.get("interned_data", {}).items():
                for one in names:
                    value = one.get("name", one.get("str", one))
                    known = interned[sequence].setdefault((kind, one["iid"]), value)
                    assert known == value and one["iid"] > 0
            if "track_descriptor" in packet:
                self.describe(packet["track_descriptor"])
            elif "clock_snapshot" in packet:
                assert not events, "a clock snapshot behind events"
                self.snapshots.append(packet["clock_snapshot"])
            elif "system_info" in packet:
                self.system = packet["system_info"]
            elif "process_tree" in packet:
                self.trees.append(packet["process_tree"])
            elif "ftrace_events" in packet:
                self.bundle(packet["ftrace_events"])
            elif "perf_sample" in packet:
                assert flags & NEEDED and packet["timestamp_clock_id"] == self.snapshots[0]["primary_trace_clock"]
                self.samples.append(self.sample(packet["timestamp"], packet["perf_sample"], interned[sequence]))
            elif "track_event" in packet:
                clock = packet.get("timestamp_clock_id", defaults.get(sequence, {}).get("timestamp_clock_id"))
                assert clock == self.snapshots[0]["primary_trace_clock"], f"clock {clock}"
                names = interned[sequence] if flags & NEEDED else {}
                event = self.resolve(packet["track_event"], names)
                assert event["track_uuid"] in self.tracks, "an event on no track"
                if packet.get(GAP):
                    self.gaps.append((packet["timestamp"], event))
                events.append((packet["timestamp"], len(events), event))
        for events_of_cpus in (self.sched, self.unknown):
            events_of_cpus.sort(key=lambda event: event["timestamp"])
        self.play(sorted(events, key=lambda event: event[:2]))

    def describe(self, track):
        before = self.tracks.setdefault(track["uuid"], track)
        for key in ("parent_uuid", "counter"):
            assert before.get(key) == track.get(key), f"{before} is {track} now"
        for key in ("process", "thread"):
            ids = [{k: v for k, v in one.get(key, {}).items() if k in ("pid", "tid")} for one in (before, track)]
            assert ids[0] == ids[1], f"{before} is {track} now"
        assert track.get("parent_uuid", track["uuid"]) in self.tracks, f"{track}: no parent"
        self.tracks[track["uuid"]] = track

    def bundle(self, bundle):
        assert bundle["cpu"] < 1024
        if bundle.get(BUNDLE_GAP):
            self.bundle_gaps.append(bundle)
        times = [event["timestamp"] for event in bundle.get("event", [])]
        assert times == sorted(times), "a bundle out of order"
        for event in bundle.get("event", []):
            ends = [event.get("sched_switch", {}).get(name) for name in ("prev_pid", "next_pid")]
            # Those of which there is no record.
            made = UNKNOWN + 1 + bundle["cpu"] in ends
            (self.unknown if made else self.sched).append(dict(event, cpu=bundle["cpu"]))

    @staticmethod
    def sample(time, sample, names):
        """A sample with its frames as (function, object), the outermost first."""
        frames = []
        for iid in names["callstacks", sample["callstack_iid"]]["frame_ids"]:
            frame = names["frames", iid]
            parts = names["mappings", frame["mapping_id"]]["path_string_ids"]
            path = "/".join(names["mapping_paths", part] for part in parts)
            frames.append((names["function_names", frame["function_name_id"]], path))
        return dict(sample, time=time, frames=frames)

    def resolve(self, event, names):
        event = dict(event)
        if "name_iid" in event:
            assert "name" not in event
            event["name"] = names["event_names", event["name_iid"]]
        event["categories"] = [names["event_categories", iid] for iid in event.get("category_iids", [])]
        event["args"] = self.entries(event.get("debug_annotations", []), names)
        return event

    def entries(self, annotations, names):
        found = {}
        for one in annotations:
            name = names["debug_annotation_names", one["name_iid"]] if "name_iid" in one else one["name"]
            assert name not in found, f"{name} twice"
            found[name] = self.value(one, names)
        return found

    def value(self, annotation, names):
        if "dict_entries" in annotation:
            return self.entries(annotation["dict_entries"], names)
        if "array_values" in annotation:
            return [self.value(one, names) for one in annotation["array_values"]]
        if "string_value_iid" in annotation:
            return names["debug_annotation_string_values", annotation["string_value_iid"]]
        values = [value for name, value in annotation.items() if name.endswith("_value")]
        assert len(values) <= 1, annotation
        return values[0] if values else []

    def place(self, uuid):
        """A track as a name: ("thread", pid, tid), ("process", pid), or the names down to it."""
        track = self.tracks[uuid]
        if "thread" in track:
            parent = self.tracks[track["parent_uuid"]]
            assert parent["process"]["pid"] == track["thread"]["pid"]
            return "thread", track["thread"]["pid"], track["thread"]["tid"]
        if "process" in track:
            return "process", track["process"]["pid"]
        above = self.place(track["parent_uuid"]) if "parent_uuid" in track else ()
        return above + (track["name"],)

    def play(self, events):
        """As time goes: slices on a track must nest, and end."""
        open_ = collections.defaultdict(list)
        for time, _, event in events:
            uuid, kind = event["track_uuid"], event["type"]
            counter = "counter" in self.tracks[uuid]
            assert counter == (kind == COUNTER), f"{event} on {self.tracks[uuid]}"
            if kind == END:
                assert open_[uuid], f"an end without begin on {self.place(uuid)} at {time}"
                shown = open_[uuid].pop()
                shown.end, shown.end_args = time, event["args"]
                continue
            shown = Shown(kind, self.place(uuid), time, event.get("name"), event["args"], event["categories"])
            shown.depth = len(open_[uuid])
            if kind == COUNTER:
                shown.name = self.tracks[uuid]["name"]
                shown.value = event.get("counter_value", event.get("double_counter_value"))
            else:
                assert shown.name, f"{event} has no name"
            if kind == BEGIN:
                open_[uuid].append(shown)
            self.shown.append(shown)
        assert not any(open_.values()), f"not closed: {open_}"

    def of(self, kind, name=None):
        """All of a kind, and name."""
        return [one for one in self.shown if one.kind == kind and name in (None, one.name)]

    def unknown_of(self, cpu):
        """Switches that no record tells: time, from whom, its state, to whom; None: nobody knows."""
        pid = lambda pid: None if pid == UNKNOWN + 1 + cpu else pid
        events = [(event["timestamp"], event["sched_switch"]) for event in self.unknown if event["cpu"] == cpu]
        return [(time, pid(one["prev_pid"]), one["prev_state"], pid(one["next_pid"])) for time, one in events]

    def names(self, kind):
        """How often each name is there."""
        return collections.Counter(one.name for one in self.of(kind))
