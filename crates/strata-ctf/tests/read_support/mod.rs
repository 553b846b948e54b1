//! Makes traces, and damages them, for the tests of the reader.
#![allow(dead_code)] // each test file uses its part

use crate::support::{event, record, u64_field, Folder, BOOT_ID, UUID};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use strata_ctf::read::{Events, FieldInfo, Message, Reader, TimeRange, Value, Visit};
use strata_ctf::{metadata, packet};
use strata_model::schema::Scope;
use strata_model::{
    ByteOrder, ClockClass, Field, FieldClass, RecordHeader, StreamClass, Trace, Uuid,
};
use strata_random::Random;

/// A trace of two streams; each event has a number of its own and a text.
#[derive(Clone)]
pub struct Made {
    pub uuid: Uuid,
    pub boot_id: Uuid,
    /// True if the clock is absolute, and so can be compared with other machines' clocks.
    pub absolute: bool,
    /// True if all events have the same time.
    pub same_time: bool,
    pub names: [&'static str; 2],
    /// True if each stream is in three files.
    pub rotate: bool,
    /// The packets of both streams.
    pub packets: [Vec<MadePacket>; 2],
}

#[derive(Clone)]
pub struct MadePacket {
    pub begin: u64,
    pub end: u64,
    /// The time and number of each event.
    pub events: Vec<(u64, u64)>,
    pub padding: usize,
    pub discarded: u64,
}

impl Made {
    /// Makes two streams with so many packets, of a few events, that overlap in time.
    pub fn new(packets: u64) -> Made {
        let stream = |stream: u64| {
            let packet = |packet: u64| {
                let begin = 1000 + packet * 40 + stream * 13;
                let count = (packet * 7 + stream * 3) % 5;
                let events = (0..count).map(|n| (begin + n * 5, stream * 10_000 + packet * 10 + n));
                let events = events.collect();
                MadePacket { begin, end: begin + 30, events, padding: 8, discarded: packet / 3 }
            };
            (0..packets).map(packet).collect()
        };
        Made {
            uuid: UUID,
            boot_id: BOOT_ID,
            absolute: true,
            same_time: false,
            names: ["channel_0", "channel_1"],
            rotate: false,
            packets: [stream(0), stream(1)],
        }
    }

    pub fn random(random: &mut Random) -> Made {
        let mut made = Made::new(0);
        for stream in 0..2 {
            let mut time = 500 + random.below(200);
            let mut discarded = 0;
            for packet in 0..random.below(25) {
                let begin = time;
                let events = (0..random.below(12)).map(|n| {
                    time += random.below(3) * random.below(20);
                    (time, stream * 10_000 + packet * 20 + n)
                });
                let events = events.collect();
                time += random.below(10);
                discarded += random.below(2) * random.below(4);
                let padding = random.below(2) * random.below(64);
                let padding = padding as usize;
                let packet = MadePacket { begin, end: time, events, padding, discarded };
                made.packets[stream as usize].push(packet);
                time += random.below(2) * random.below(100);
            }
        }
        made
    }

    pub fn events(&self) -> usize {
        self.packets.iter().flatten().map(|packet| packet.events.len()).sum()
    }

    /// Returns all events in the format of [`texts`].
    pub fn texts(&self) -> Vec<String> {
        let mut all: Vec<_> =
            self.packets.iter().flatten().flat_map(|packet| &packet.events).collect();
        all.sort();
        all.iter().map(|(time, number)| shown(*time as i64, *number)).collect()
    }

    pub fn write(&self, folder: &Path) {
        self.write_some(folder, 0, usize::MAX);
    }

    /// Of each stream, all but the first packets, and no more than `take`.
    pub fn write_some(&self, folder: &Path, skip: usize, take: usize) {
        let fields = vec![u64_field("number"), Field::new("text", FieldClass::String)];
        let class = StreamClass {
            id: 0,
            name: "channel".into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events: vec![event(0, "e", fields)],
        };
        let trace = Trace {
            uuid: self.uuid,
            byte_order: ByteOrder::NATIVE,
            environment: Vec::new(),
            clock: ClockClass {
                absolute: self.absolute,
                ..ClockClass::monotonic(Some(self.boot_id), 0)
            },
            streams: vec![class],
        };
        trace.validate().unwrap();
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("metadata"), metadata::write(&trace)).unwrap();
        for (stream, packets) in self.packets.iter().enumerate() {
            let bytes: Vec<_> = (0..)
                .zip(packets)
                .map(|(number, packet)| self.packet(stream, number, packet))
                .skip(skip)
                .take(take)
                .collect();
            let name = self.names[stream];
            if !self.rotate {
                fs::write(folder.join(name), bytes.concat()).unwrap();
                continue;
            }
            let third = bytes.len() / 3;
            let parts = [&bytes[..third], &bytes[third..2 * third], &bytes[2 * third..]];
            for (part, suffix) in parts.iter().zip(["b", "c", "a"]) {
                fs::write(folder.join(format!("{name}_{suffix}")), part.concat()).unwrap();
            }
        }
    }

    pub fn packet(&self, stream: usize, number: u64, packet: &MadePacket) -> Vec<u8> {
        let time = |time: u64| if self.same_time { 1 << 20 } else { time };
        let mut content = Vec::new();
        for &(at, value) in &packet.events {
            let mut payload = value.to_ne_bytes().to_vec();
            payload.extend(format!("text {value}\0").bytes());
            content.extend(record(RecordHeader::Compact, 0, time(at), value % 3 == 0, &payload));
        }
        let header = packet::Header {
            uuid: self.uuid,
            stream_instance: if self.same_time { 1 - stream as u64 } else { stream as u64 },
            timestamp_begin: time(packet.begin),
            timestamp_end: time(packet.end),
            sequence: number,
            discarded: packet.discarded,
            cpu_id: stream as u32,
            ..packet::Header::default()
        };
        let mut header = header.with_content_bytes(content.len() as u64);
        header.packet_bits += packet.padding as u64 * 8;
        let mut bytes = header.encode().to_vec();
        bytes.extend(content);
        bytes.resize(bytes.len() + packet.padding, 0xaa);
        bytes
    }

    /// Writes LTTng's index files; entry number `wrong` is not right.
    pub fn write_index(&self, folder: &Path, wrong: Option<usize>) {
        fs::create_dir_all(folder.join("index")).unwrap();
        for (stream, packets) in self.packets.iter().enumerate() {
            let mut index = Vec::new();
            for word in [0xc1f1_dcc1_u32, 1, 1, 72] {
                index.extend(word.to_be_bytes());
            }
            let mut offset = 0;
            for (number, packet) in (0..).zip(packets) {
                let bytes = self.packet(stream, number, packet).len() as u64;
                let late = u64::from(wrong == Some(number as usize));
                let words = [
                    offset,
                    bytes * 8,
                    (bytes - packet.padding as u64) * 8,
                    packet.begin + late,
                    packet.end,
                    packet.discarded,
                    0,
                    stream as u64,
                    number,
                ];
                index.extend(words.iter().flat_map(|word| word.to_be_bytes()));
                offset += bytes;
            }
            let name = format!("{}.idx", self.names[stream]);
            fs::write(folder.join("index").join(name), index).unwrap();
        }
    }
}

fn shown(time: i64, number: u64) -> String {
    format!("{time} {number} text {number}")
}

/// The events, each with time, number and text.
pub fn texts(events: Events<'_>) -> Vec<String> {
    all(events).into_iter().filter_map(|text| Some(text.strip_prefix("event ")?.into())).collect()
}

/// The values of a record's fields, in their order.
struct Values(String);

impl Visit for Values {
    fn unsigned(&mut self, _: &FieldInfo, value: u64) {
        self.0 += &format!(" {value}");
    }
    fn signed(&mut self, _: &FieldInfo, value: i64) {
        self.0 += &format!(" {value}");
    }
    fn real(&mut self, _: &FieldInfo, value: f64) {
        self.0 += &format!(" {value}");
    }
    fn text(&mut self, _: &FieldInfo, bytes: &[u8]) {
        self.0 += &format!(" {bytes:?}");
    }
}

/// Time, name and values of each record that a trace shows, whatever its fields are called; none if the trace cannot
/// be opened.
pub fn texts_of(folder: &Path) -> Vec<String> {
    let Ok(reader) = Reader::open(&[folder]) else { return Vec::new() };
    let mut events = reader.events(TimeRange::ALL);
    let mut all = Vec::new();
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        let mut values = Values(String::new());
        for scope in [Scope::CommonContext, Scope::Payload] {
            event.visit(scope, &mut values);
        }
        all.push(format!("{:?} {}{}", event.time(), event.class().name(), values.0));
    }
    all
}

/// The times of the events.
pub fn times(mut events: Events<'_>) -> Vec<i64> {
    let mut times = Vec::new();
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            times.extend(event.time());
        }
    }
    times
}

/// Returns all messages as text.
pub fn all(mut events: Events<'_>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(message) = events.next() {
        all.push(text(&message));
    }
    all
}

/// Returns all messages, read in the fast path.
pub fn all_by_run(mut events: Events<'_>) -> Vec<String> {
    let mut all = Vec::new();
    let _ = events.run(|message| {
        all.push(text(&message));
        ControlFlow::<()>::Continue(())
    });
    all
}

/// Returns all messages, read by both methods in turn, a few by each.
pub fn all_in_turns(mut events: Events<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for turn in 0.. {
        let mut left = turn % 5;
        let stop = events.run(|message| {
            all.push(text(&message));
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        if stop.is_continue() {
            break;
        }
        for _ in 0..turn % 3 {
            let Some(message) = events.next() else { return all };
            all.push(text(&message));
        }
    }
    all
}

fn text(message: &Message<'_>) -> String {
    match message {
        Message::Event(event) => {
            let value = |name| event.value(&event.class().find_in(PAYLOAD, name)?);
            let number = match value("number") {
                Some(Value::Unsigned(number)) => number,
                _ => u64::MAX,
            };
            let text = match value("text") {
                Some(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            format!("event {} {number} {text}", event.time().unwrap_or(i64::MIN))
        }
        Message::Packet(packet) => {
            format!("packet {} {} {}", packet.stream, packet.number, packet.offset)
        }
        Message::Discarded(it) => {
            format!("discarded {} {} {:?}", it.stream.index(), it.count, it.kind)
        }
        Message::Damage(damage) => format!("damage {damage}"),
    }
}

const PAYLOAD: strata_ctf::read::Scope = strata_ctf::read::Scope::Payload;

/// Both ways of going through the messages have the same ones. Slices of any size, one behind the other, have
/// them in the same order, and parts have the same ones.
pub fn check_pieces(reader: &Reader, range: TimeRange) {
    let expected = all(reader.events(range));
    assert_eq!(all_by_run(reader.events(range)), expected, "run, of {range:?}");
    assert_eq!(all_in_turns(reader.events(range)), expected, "both ways, of {range:?}");
    for bytes in [1, 150, 1000, u64::MAX] {
        let slices = reader.slices(range, bytes);
        let found: Vec<_> = slices.flat_map(|slice| all(reader.events_of(&slice))).collect();
        assert_eq!(found, expected, "slices of {bytes} bytes of {range:?}");
    }
    if range != TimeRange::ALL {
        return;
    }
    let mut expected = expected;
    expected.sort();
    for bytes in [1, 300, u64::MAX] {
        let parts = reader.parts(bytes);
        let mut found: Vec<_> = parts.flat_map(|part| all(reader.events_of_part(&part))).collect();
        found.sort();
        assert_eq!(found, expected, "parts of {bytes} bytes");
    }
}

/// Some bits are flipped, some bytes are gone or are there twice.
pub fn damage_a_file(random: &mut Random, folder: &Path) {
    let streams = ["channel_0", "channel_1"].map(|name| folder.join(name));
    let path = &streams[random.below(2) as usize];
    let Ok(mut bytes) = fs::read(path) else { return };
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len() as u64) as usize;
    match random.below(4) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(..at)),
        2 => bytes.extend_from_within(at..),
        _ => {
            for _ in 0..=random.below(5) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
    }
    fs::write(path, bytes).unwrap();
}

/// A trace with little around its events. Discarded counters have DISCARDED_BITS.
pub const TINY: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le;
  packet.header := struct { integer { size = 32; align = 8; } magic; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
  packet.context := struct { time timestamp_begin; time timestamp_end;
    integer { size = 64; align = 8; } content_size; integer { size = 64; align = 8; } packet_size;
    integer { size = DISCARDED_BITS; align = 8; } events_discarded; };
  event.header := struct { time timestamp; };
};
event { name = e; fields := struct { integer { size = 8; } v; }; };";

/// A packet of such a trace.
pub fn tiny_packet(begin: u64, end: u64, discarded: &[u8], events: &[(u64, u8)]) -> Vec<u8> {
    let bits = (4 + 32 + discarded.len() + events.len() * 9) as u64 * 8;
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    for word in [begin, end, bits, bits] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(discarded);
    for (time, value) in events {
        bytes.extend(time.to_le_bytes());
        bytes.push(*value);
    }
    bytes
}

/// A tiny trace with these packets in one file, or in several.
pub fn tiny(files: &[(&str, Vec<u8>)]) -> Folder {
    let folder = Folder::new();
    let text = TINY.replace("DISCARDED_BITS", "64");
    fs::write(folder.path().join("metadata"), text).unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}
