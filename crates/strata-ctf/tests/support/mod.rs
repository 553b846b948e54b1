//! Writes small traces by hand and has babeltrace2 read them.
#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use strata_ctf::packet_records::RecordScanner;
use strata_ctf::{metadata, packet};
use strata_model::{
    Array, Base, ByteOrder, ClockClass, Element, Enumeration, EventClass, Field, FieldClass,
    FieldOrder, Float, Integer, Label, RecordHeader, Sequence, StreamClass, Trace, Uuid,
};

pub const UUID: Uuid = Uuid(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
pub const BOOT_ID: Uuid =
    Uuid(*b"\xb0\x07\x1d\x00\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x01");

/// A folder that is removed with all in it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("strata-ctf-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The packets of one stream, in the order of its file.
pub struct Packets {
    pub bytes: Vec<u8>,
    pub uuid: Uuid,
    count: u64,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { bytes: Vec::new(), uuid: UUID, count: 0 }
    }
}

impl Packets {
    /// Adds a packet that has `padding` bytes behind its records.
    pub fn add(&mut self, header: packet::Header, records: &[Vec<u8>], padding: usize) {
        let content = records.concat();
        let mut header = header.with_content_bytes(content.len() as u64);
        header.packet_bits += padding as u64 * 8;
        header.sequence = self.count;
        header.uuid = self.uuid;
        self.count += 1;
        self.bytes.extend(header.encode());
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len() + padding, 0xaa);
    }
}

impl Packets {
    /// Leaves out so many packets.
    pub fn skip(&mut self, packets: u64) {
        self.count += packets;
    }
}

/// Writes the trace and each stream's file.
pub fn write_trace(folder: &Path, trace: &Trace, streams: &[(&str, &Packets)]) {
    trace.validate().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("metadata"), metadata::write(trace)).unwrap();
    for (name, packets) in streams {
        fs::write(folder.join(name), &packets.bytes).unwrap();
    }
}

pub fn trace(header: RecordHeader, events: Vec<EventClass>) -> Trace {
    Trace {
        uuid: UUID,
        byte_order: ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: ClockClass::monotonic(Some(BOOT_ID), 0),
        streams: vec![StreamClass {
            id: 0,
            name: "channel0".into(),
            header,
            context: Vec::new(),
            events,
        }],
    }
}

pub fn event(id: u32, name: &str, fields: Vec<Field>) -> EventClass {
    EventClass {
        id,
        provider: "p".into(),
        name: name.into(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields,
    }
}

pub fn integer(name: &str, integer: Integer) -> Field {
    Field::new(name, FieldClass::Integer(integer))
}

pub fn u64_field(name: &str) -> Field {
    integer(name, Integer::unsigned(8))
}

pub fn based(bytes: u8, base: Base) -> Integer {
    Integer { base, ..Integer::unsigned(bytes) }
}

pub fn network(integer: Integer) -> Integer {
    Integer { byte_order: FieldOrder::Big, ..integer }
}

pub fn float(name: &str, bytes: u8, byte_order: FieldOrder) -> Field {
    Field::new(name, FieldClass::Float(Float { bytes, byte_order }))
}

pub fn array(name: &str, element: Element, count: u32) -> Field {
    Field::new(name, FieldClass::Array(Array { element, count }))
}

pub fn sequence(name: &str, element: Element, length_bytes: u8) -> Field {
    Field::new(name, FieldClass::Sequence(Sequence { element, length_bytes }))
}

pub fn enumeration(name: &str, integer: Integer, labels: &[(&str, i64, i64)]) -> Field {
    let labels = labels.iter().map(|&(l, from, to)| Label { from, to, label: l.into() }).collect();
    Field::new(
        name,
        FieldClass::Enumeration(Enumeration {
            integer,
            name: "colour".into(),
            labels,
            flags: None,
        }),
    )
}

/// Encodes a record: its header, as ring/include/strata/ring/header.h makes it, and payload.
pub fn record(header: RecordHeader, id: u32, time: u64, full: bool, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let short = !full && id < if header == RecordHeader::Compact { 31 } else { 65535 };
    match (header, short) {
        (RecordHeader::Compact, true) => {
            let time = time as u32 & 0x7ff_ffff;
            let big = cfg!(target_endian = "big");
            let word = if big { id << 27 | time } else { id | time << 5 };
            out.extend(word.to_ne_bytes());
        }
        (RecordHeader::Compact, false) => {
            out.push(if cfg!(target_endian = "big") { 31 << 3 } else { 31 });
        }
        (RecordHeader::Large, true) => {
            out.extend((id as u16).to_ne_bytes());
            out.extend((time as u32).to_ne_bytes());
        }
        (RecordHeader::Large, false) => out.extend([0xff, 0xff]),
    }
    if !short {
        out.extend(id.to_ne_bytes());
        out.extend(time.to_ne_bytes());
    }
    assert_eq!(out.len(), header.bytes(id, full));
    out.extend(payload);
    out
}

/// Whoever starts a process has a share.
static CHILDREN: RwLock<()> = RwLock::new(());

/// Waits until no child process holds a copy of this process' descriptors. Until it runs its own program, a child has
/// open what its parent had, so a file that was written here would still seem to be open for writing.
pub fn without_children() -> RwLockWriteGuard<'static, ()> {
    CHILDREN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Runs babeltrace2, which must succeed, and returns its standard output and standard error. If it is not installed,
/// prints a message and returns `None`.
pub fn babeltrace_with_talk(arguments: &[&str], traces: &[&Path]) -> Option<(String, String)> {
    let mut command = Command::new("babeltrace2");
    let _child = CHILDREN.read().unwrap_or_else(PoisonError::into_inner);
    let output = match command.args(arguments).args(traces).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "babeltrace2: {error}");
            println!("skip: missing tool: babeltrace2: {error}");
            return None;
        }
    };
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{talk}", output.status);
    Some((String::from_utf8(output.stdout).unwrap(), talk))
}

/// Runs babeltrace2 as above; it must print no warning.
pub fn babeltrace(arguments: &[&str], traces: &[&Path]) -> Option<String> {
    let (text, talk) = babeltrace_with_talk(arguments, traces)?;
    assert_eq!(talk, "", "babeltrace2 warns");
    Some(text)
}

/// The lines of the events, timestamps as cycles: `[CYCLES] NAME: { cpu_id = N }, { FIELDS }`.
pub fn pretty(trace: &Path) -> Option<Vec<String>> {
    let text = babeltrace(&["--clock-cycles", "--no-delta"], &[trace])?;
    Some(text.lines().map(str::to_owned).collect())
}

/// Returns all details that babeltrace2 shows of the trace and its events.
pub fn details(trace: &Path) -> Option<String> {
    babeltrace(&["--component=sink.text.details"], &[trace])
}

/// Has babeltrace2 read a stream with one packet of records of event class 0, which has these fields, and compares each
/// record's fields with what is expected. Done for each header.
pub fn check_payloads(fields: Vec<Field>, records: &[(Vec<u8>, &str)]) {
    for header in [RecordHeader::Compact, RecordHeader::Large] {
        let described = trace(header, vec![event(0, "e", fields.clone())]);
        let bytes: Vec<Vec<u8>> = (1000..)
            .zip(records)
            .map(|(time, (payload, _))| record(header, 0, time, time % 2 == 1, payload))
            .collect();
        let mut packets = Packets::default();
        packets.add(span(1000, 2000), &bytes, 0);
        let scanner = RecordScanner::new(&described.streams[0], described.byte_order).unwrap();
        assert_eq!(scanner.count(&bytes.concat()), Ok(records.len() as u64));
        let folder = Folder::new();
        write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
        let expected: Vec<String> = (1000..)
            .zip(records)
            .map(|(time, (_, shown))| format!("[{time:020}] p:e: {{ cpu_id = 0 }}, {{ {shown} }}"))
            .collect();
        if let Some(lines) = pretty(folder.path()) {
            assert_eq!(lines, expected);
        }
    }
}

/// A packet's header with these timestamps.
pub fn span(timestamp_begin: u64, timestamp_end: u64) -> packet::Header {
    packet::Header { timestamp_begin, timestamp_end, ..packet::Header::default() }
}
