//! The trace that the collector writes, and how a reader finds it.

use crate::files::root;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use strata_collect::StreamStats;
use strata_ctf::packet::HEADER_BYTES;
use strata_ctf::read::{
    DamageKind, Discarded, DiscardedKind, Event, Message, Reader, TimeRange, Value,
};
use strata_model::{
    ByteOrder, ClockClass, EventClass, Field, FieldClass, Integer, RecordHeader, StreamClass, Uuid,
};

pub const UUID: Uuid = Uuid(*b"0123456789abcdef");

/// A record's only field is its number; an id that fits into a compact header.
pub const NUMBER: u32 = 0;
/// Its number, and as much text as somebody wanted; another id.
pub const TEXT: u32 = 40;

/// What a record of [`TEXT`] has behind its header.
pub fn text(number: u64, size: u8) -> Vec<u8> {
    let mut bytes = number.to_ne_bytes().to_vec();
    bytes.extend(std::iter::repeat_n(b'x', usize::from(size) * 3));
    bytes.push(0);
    bytes
}

pub struct Trace {
    folder: PathBuf,
    metadata: String,
    trace: strata_model::Trace,
    /// The most that a packet may have \[byte\].
    content_max: u64,
}

impl Trace {
    pub fn new(is_large: bool, subbuf_bytes: u64) -> Trace {
        let number = || Field::new("n", FieldClass::Integer(Integer::unsigned(8)));
        let class = |id, fields| EventClass {
            id,
            provider: "p".to_owned(),
            name: format!("e{id}"),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields,
        };
        let text = vec![number(), Field::new("text", FieldClass::String)];
        let trace = strata_model::Trace {
            uuid: UUID,
            byte_order: ByteOrder::NATIVE,
            environment: Vec::new(),
            clock: ClockClass::monotonic(None, 0),
            streams: vec![StreamClass {
                id: 0,
                name: "channel0".to_owned(),
                header: if is_large { RecordHeader::Large } else { RecordHeader::Compact },
                context: Vec::new(),
                events: vec![class(NUMBER, vec![number()]), class(TEXT, text)],
            }],
        };
        let folder = root().join("ring");
        let _ = fs::remove_dir_all(&folder);
        let content_max = HEADER_BYTES as u64 + subbuf_bytes;
        Trace { folder, metadata: strata_ctf::metadata::write(&trace), trace, content_max }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    pub fn class(&self) -> StreamClass {
        self.trace.streams[0].clone()
    }

    /// Of all files with packets.
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).expect("the trace's folder").flatten();
        let streams = entries.filter(|entry| entry.file_name() != "metadata");
        streams.map(|entry| entry.metadata().expect("a file").len()).sum()
    }

    /// Whatever was in memory, packets are such that a reader has nothing to say but of records in them; and
    /// their number, their size and, if those `is_told`, the discarded records are what the collector says.
    pub fn check(&self, stats: &[StreamStats], is_honest: bool, is_told: bool) {
        let reader = match Reader::open(&[&self.folder]) {
            Ok(reader) => reader,
            Err(error) => panic!("{error}"),
        };
        let mut found: HashMap<String, Found> = HashMap::new();
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    found.entry(event.stream().name().to_owned()).or_default().events += 1;
                }
                Message::Packet(packet) => {
                    let bytes = packet.content_bits / 8;
                    let most = self.content_max;
                    assert!(bytes <= most, "a packet of {bytes} bytes, limit {most}");
                    let stream = &reader.streams()[packet.stream];
                    found.entry(stream.name().to_owned()).or_default().packets += 1;
                }
                Message::Discarded(Discarded { stream, kind, count, at_begin, .. }) => {
                    assert!(kind == DiscardedKind::Records && !at_begin, "{kind:?} {count}");
                    found.entry(stream.name().to_owned()).or_default().discarded += count;
                }
                Message::Damage(damage) => {
                    let of_records = matches!(
                        damage.what,
                        DamageKind::Record { .. }
                            | DamageKind::TooLong { .. }
                            | DamageKind::NoDate { .. }
                            | DamageKind::TimeBack { .. }
                            | DamageKind::TimeBeforePacket { .. }
                            | DamageKind::TimeBehindPacket { .. }
                    );
                    assert!(of_records && !is_honest, "{damage}");
                }
            }
        }
        for stream in stats {
            let found = found.remove(&format!("channel0_{}", stream.cpu)).unwrap_or_default();
            let path = self.folder.join(format!("channel0_{}", stream.cpu));
            let bytes = fs::metadata(path).map_or(0, |file| file.len());
            assert_eq!((found.packets, bytes), (stream.packets, stream.bytes), "{stream:?}");
            let told = stream.discarded.total().saturating_add(stream.overwritten);
            if is_told {
                assert!(found.discarded >= told, "{} discarded, {stream:?}", found.discarded);
                assert!(found.discarded == told || !is_honest, "{stream:?}");
            }
            if is_honest && stream.uncounted_packets == 0 {
                assert_eq!(found.events, stream.records, "{stream:?}");
            }
        }
        assert!(found.is_empty(), "streams that the collector does not tell of");
    }

    /// All these records are there in their order, or `some` of them are.
    pub fn has(&self, written: &[u64], some: bool) {
        let reader = Reader::open(&[&self.folder]).expect("a trace");
        let mut events = reader.events(TimeRange::ALL);
        let mut rest = written.iter();
        while let Some(message) = events.next() {
            if let Message::Event(event) = message {
                let number = number(&event);
                let next = match some {
                    true => rest.find(|next| **next == number),
                    false => rest.next(),
                };
                assert_eq!(next, Some(&number), "of {written:?}");
            }
        }
        assert!(some || rest.next().is_none(), "records are not there, of {written:?}");
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn number(event: &Event<'_>) -> u64 {
    let value = event.class().find("n").and_then(|field| event.value(&field));
    match value {
        Some(Value::Unsigned(number)) => number,
        other => panic!("{other:?} is no number"),
    }
}

/// Of one stream.
#[derive(Default)]
struct Found {
    events: u64,
    packets: u64,
    discarded: u64,
}
