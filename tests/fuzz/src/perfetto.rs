//! A trace in Perfetto's format.

use crate::files::{metadata_and_more, Files};
use crate::protobuf::{Fields, Value};
use std::collections::{HashMap, HashSet};
use strata_analyze::debug_info::SourceOptions;
use strata_ctf::read::{Message, Reader, TimeRange};
use strata_export::perfetto::{Exporter, Options, Summary};

/// Metadata, a zero byte, two bytes of flags, bytes of one or two streams.
pub fn run(input: &[u8]) {
    let Some((metadata, [files_flag, flags, bytes @ ..])) = metadata_and_more(input) else {
        return;
    };
    let mut files = Files::new();
    files.add_streams(metadata, usize::from(files_flag & 1) + 1, bytes);
    let Ok(reader) = Reader::open(&[files.folder()]) else { return };
    let (text, summary) = exported(&reader, *flags);
    assert_eq!(summary.bytes, text.len() as u64);
    let kinds = [
        summary.instants,
        summary.begins,
        summary.ends,
        summary.ends_without_begin,
        summary.kernel,
        summary.samples,
    ];
    assert_eq!(kinds.iter().sum::<u64>(), summary.events, "{summary:?}");
    let mut seen = Seen::default();
    for (number, packet) in Fields(&text) {
        assert_eq!(number, 1, "Trace.packet");
        seen.packet(packet.bytes());
    }
    let open: Vec<_> = seen.open.iter().filter(|(_, open)| **open != 0).collect();
    assert!(open.is_empty(), "slices without end on tracks {open:?}");
    let found = (seen.begins, seen.ends, seen.counters, seen.kernel, seen.samples);
    let ends = summary.ends + summary.unfinished;
    let kernel = summary.kernel + summary.unknown_switches;
    assert_eq!(found, (summary.begins, ends, summary.counters, kernel, summary.samples));
    // To nobody knows whom, and back at most; once more for whoever is found.
    assert!(summary.unknown <= summary.unknown_switches, "{summary:?}");
    assert!(summary.unknown_switches <= 4 * summary.unknown, "{summary:?}");
}

fn exported(reader: &Reader, flags: u8) -> (Vec<u8>, Summary) {
    let rules = |wanted: bool, rules: &[&str]| match wanted {
        true => rules.iter().map(|rule| (*rule).to_owned()).collect(),
        false => Vec::new(),
    };
    let pairs: Vec<String> = rules(flags & 1 != 0, &["*_open=*_close", "*a=*b:id"]);
    let counters: Vec<String> = rules(flags & 2 != 0, &["*"]);
    let options = Options {
        pairs: pairs.iter().map(|rule| rule.parse().expect("a pair")).collect(),
        automatic_pairs: flags & 4 == 0,
        counters: counters.iter().map(|rule| rule.parse().expect("a counter")).collect(),
        // What a trace names is not there, and is not looked for.
        symbols: SourceOptions { no_symbols: true, ..SourceOptions::default() },
    };
    let _ = Exporter::<Vec<u8>>::idle_rules(reader, &options);
    let mut exporter = Exporter::new(Vec::new(), reader, options).expect("memory");
    let mut events = reader.events(TimeRange::ALL);
    let mut number = 0u64;
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                number += 1;
                // What a filter leaves out is looked at nevertheless.
                match flags & 8 != 0 && number % 3 == 0 {
                    true => exporter.skip(&event),
                    false => exporter.event(&event),
                }
                .expect("memory");
            }
            Message::Packet(_) => (),
            Message::Discarded(it) => exporter.discarded(&it).expect("memory"),
            Message::Damage(damage) => {
                exporter.damage(damage, reader.stream_of(damage)).expect("memory");
            }
        }
    }
    exporter.finish().expect("memory")
}

/// What the packets so far have said. Numbers of fields: Perfetto's published `.proto` files.
#[derive(Default)]
struct Seen {
    /// Categories, names of events, names of annotations, texts.
    interned: [HashSet<u64>; 4],
    tracks: HashSet<u64>,
    /// Slices, by track.
    open: HashMap<u64, i64>,
    /// When the last one began or ended, by track.
    latest: HashMap<u64, u64>,
    begins: u64,
    ends: u64,
    counters: u64,
    kernel: u64,
    samples: u64,
}

impl Seen {
    /// `TracePacket`.
    fn packet(&mut self, packet: &[u8]) {
        let fields: Vec<_> = Fields(packet).collect();
        let only = |number| fields.iter().find(|(found, _)| *found == number).map(|(_, it)| *it);
        // What is interned holds for the packet itself; that of samples is of another sequence.
        match (only(12), only(66)) {
            (Some(data), None) => self.intern(data.bytes()),
            (Some(data), Some(_)) => Fields(data.bytes()).for_each(drop),
            (None, _) => {}
        }
        for (number, value) in &fields {
            match number {
                1 => self.kernel += bundle(value.bytes()),
                2 => texts(value.bytes(), &[(1, &[3]), (2, &[2])]),
                6 => Fields(value.bytes()).for_each(drop),
                11 => self.event(value.bytes(), only(8).expect("its time").number()),
                45 => texts(value.bytes(), &[(1, &[1, 2, 3])]),
                60 => self.track(value.bytes()),
                66 => {
                    Fields(value.bytes()).for_each(drop);
                    self.samples += 1;
                }
                8 | 10 | 13 | 42 | 58 => drop(value.number()),
                12 | 59 => (),
                other => panic!("TracePacket has no field {other}"),
            }
        }
    }

    fn intern(&mut self, data: &[u8]) {
        for (kind, name) in Fields(data) {
            let mut iid = None;
            for (number, value) in Fields(name.bytes()) {
                match number {
                    1 => iid = Some(value.number()),
                    2 => drop(value.text()),
                    other => panic!("an interned name has no field {other}"),
                }
            }
            let kind = match kind {
                1..=3 => kind as usize - 1,
                29 => 3,
                other => panic!("InternedData has no field {other}"),
            };
            let new = self.interned[kind].insert(iid.expect("a number"));
            assert!(new, "a name's number is given twice");
        }
    }

    /// `TrackDescriptor`.
    fn track(&mut self, track: &[u8]) {
        for (number, value) in Fields(track) {
            match number {
                1 => drop(self.tracks.insert(value.number())),
                2 => drop(value.text()),
                3 => Fields(value.bytes()).for_each(drop),
                4 => Fields(value.bytes()).for_each(drop),
                5 => {
                    let parent = value.number();
                    assert!(parent == 0 || self.tracks.contains(&parent), "track {parent}");
                }
                8 => assert!(value.bytes().is_empty()),
                other => panic!("TrackDescriptor has no field {other}"),
            }
        }
    }

    /// `TrackEvent`.
    fn event(&mut self, event: &[u8], time: u64) {
        let (mut kind, mut track) = (None, None);
        for (number, value) in Fields(event) {
            match number {
                3 => self.known(0, value),
                4 => self.annotation(value.bytes()),
                9 => kind = Some(value.number()),
                10 => self.known(1, value),
                11 => track = Some(value.number()),
                23 => drop(value.text()),
                30 => drop(value.number()),
                44 => assert!(matches!(value, Value::Fixed64(_))),
                other => panic!("TrackEvent has no field {other}"),
            }
        }
        let track = track.expect("a track");
        assert!(self.tracks.contains(&track), "track {track} is not described");
        let change = match kind.expect("a type") {
            1 => 1,
            2 => -1,
            3 => return,
            4 => return self.counters += 1,
            other => panic!("type {other}"),
        };
        self.begins += u64::from(change > 0);
        self.ends += u64::from(change < 0);
        let open = self.open.entry(track).or_default();
        *open += change;
        assert!(*open >= 0, "track {track}: the end of a slice that has not begun");
        let latest = self.latest.insert(track, time).unwrap_or(time);
        assert!(latest <= time, "track {track}: {time} behind {latest}");
    }

    fn known(&self, kind: usize, number: Value<'_>) {
        assert!(self.interned[kind].contains(&number.number()), "{number:?} is not interned");
    }

    /// `DebugAnnotation`.
    fn annotation(&self, annotation: &[u8]) {
        for (number, value) in Fields(annotation) {
            match number {
                1 => self.known(2, value),
                2..=4 | 7 => drop(value.number()),
                5 => assert!(matches!(value, Value::Fixed64(_))),
                6 | 10 => drop(value.text()),
                11 | 12 => self.annotation(value.bytes()),
                17 => self.known(3, value),
                other => panic!("DebugAnnotation has no field {other}"),
            }
        }
    }
}

/// `FtraceEventBundle`; how many events are in it.
fn bundle(bundle: &[u8]) -> u64 {
    let mut events = 0;
    for (number, value) in Fields(bundle) {
        match number {
            1 | 3 => drop(value.number()),
            2 => {
                let fields: Vec<_> = Fields(value.bytes()).collect();
                assert!(fields.iter().any(|(number, _)| *number == 1), "a time");
                events += 1;
            }
            other => panic!("FtraceEventBundle has no field {other}"),
        }
    }
    events
}

/// Fields of members of a message that are text: the member's number, their numbers.
fn texts(message: &[u8], members: &[(u64, &[u64])]) {
    for (number, value) in Fields(message) {
        let (_, texts) = members.iter().find(|(member, _)| *member == number).expect("a member");
        for (number, value) in Fields(value.bytes()) {
            if texts.contains(&number) {
                value.text();
            }
        }
    }
}
