//! Traces written by hand, for the tests of several modules. Every byte of them is known, and they can contain what no
//! tracer would write.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use strata_ctf::read::Reader;

/// The time of cycle 0 \[ns since 1970\].
pub(crate) const ORIGIN: i64 = 1_700_000_000_000_000_000;

/// A folder that is removed at the end of the test.
pub(crate) struct Hand(pub(crate) PathBuf);

impl Hand {
    pub(crate) fn new() -> Hand {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-hand-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Hand(path)
    }

    /// Adds a trace with these streams to the folder.
    pub(crate) fn trace(&self, name: &str, metadata: &str, streams: &[Packets]) -> &Hand {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("metadata"), metadata).unwrap();
        for (number, stream) in streams.iter().enumerate() {
            fs::write(folder.join(format!("s{number}")), &stream.bytes).unwrap();
        }
        self
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&[&self.0]).unwrap()
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns metadata with this environment, these fields in each record's context, and these events with name and
/// fields. An event's id is its index.
pub(crate) fn metadata(environment: &str, context: &str, events: &[(&str, &str)]) -> String {
    let mut text = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
        typealias integer {{ size = 32; align = 8; signed = false; }} := u32;
        typealias integer {{ size = 64; align = 8; signed = false; }} := u64;
        typealias integer {{ size = 64; align = 8; signed = true; }} := i64;
        typealias floating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} := f64;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        env {{ {environment} }};
        clock {{ name = monotonic; freq = 1000000000; offset_s = {}; }};
        typealias integer {{ size = 64; align = 8; map = clock.monotonic.value; }} := ts;
        stream {{
            packet.context := struct {{ ts timestamp_begin; ts timestamp_end; u64 content_size;
                u64 packet_size; u64 events_discarded; u64 cpu_id; }};
            event.header := struct {{ u8 id; ts timestamp; }};",
        ORIGIN / 1_000_000_000
    );
    if !context.is_empty() {
        text += &format!("event.context := struct {{ {context} }};");
    }
    text += "};";
    for (id, (name, fields)) in events.iter().enumerate() {
        text +=
            &format!("event {{ id = {id}; name = \"{name}\"; fields := struct {{ {fields} }}; }};");
    }
    text
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum V {
    U8(u8),
    U32(u32),
    U64(u64),
    I64(i64),
    F64(f64),
    Text(&'static str),
}

/// A record: event id, time in cycles, and all values, those of the context first.
pub(crate) type Record<'r> = (u8, u64, &'r [V]);

/// A stream of one CPU, packet by packet.
pub(crate) struct Packets {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cpu: u64,
    /// The number of records discarded so far, as the packets say.
    pub(crate) discarded: u64,
}

impl Packets {
    pub(crate) fn new(cpu: u64) -> Packets {
        Packets { bytes: Vec::new(), cpu, discarded: 0 }
    }

    /// Adds a packet with these records.
    pub(crate) fn packet(mut self, records: &[Record<'_>]) -> Packets {
        let mut body = Vec::new();
        for (id, time, values) in records {
            body.push(*id);
            body.extend_from_slice(&time.to_le_bytes());
            for value in *values {
                match *value {
                    V::U8(value) => body.push(value),
                    V::U32(value) => body.extend_from_slice(&value.to_le_bytes()),
                    V::U64(value) => body.extend_from_slice(&value.to_le_bytes()),
                    V::I64(value) => body.extend_from_slice(&value.to_le_bytes()),
                    V::F64(value) => body.extend_from_slice(&value.to_le_bytes()),
                    V::Text(text) => body.extend([text.as_bytes(), b"\0"].concat()),
                }
            }
        }
        let times = || records.iter().map(|(_, time, _)| *time);
        let (begin, end) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let bits = (6 * 8 + body.len() as u64) * 8;
        for value in [begin, end, bits, bits, self.discarded, self.cpu] {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
        self.bytes.extend_from_slice(&body);
        self
    }

    /// Adds to the number of records discarded before the end of the next packet.
    pub(crate) fn discards(mut self, records: u64) -> Packets {
        self.discarded += records;
        self
    }
}
