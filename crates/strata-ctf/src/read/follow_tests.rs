//! Tests with a trace that grows packet by packet, as Strata's recorder writes it.

use super::*;
use crate::end_mark::{EndMark, Ending, FILE};
use crate::model::{
    ByteOrder, ClockClass, EnvValue, EventClass, Field, FieldClass, Integer, RecordHeader,
    StreamClass, Trace, Uuid,
};
use crate::packet::{Header, PACKET_BITS_OFFSET};
use crate::read::Message;
use crate::{metadata, packet};
use rustix::fs::{flock, FlockOperation};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const UUID: Uuid = Uuid(*b"sixteen bytes...");

/// The folder of a trace for one test.
struct Grown {
    folder: PathBuf,
    lock: File,
}

impl Grown {
    fn new(name: &str) -> Grown {
        let folder =
            std::env::temp_dir().join(format!("strata-ctf-follow-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let lock = File::open(&folder).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        fs::write(folder.join(FILE), EndMark::RECORDING.encode()).unwrap();
        let grown = Grown { folder, lock };
        grown.describe(&["send"]);
        grown
    }

    fn describe(&self, names: &[&str]) {
        let fields = || vec![Field::new("len", FieldClass::Integer(Integer::unsigned(8)))];
        let event = |(id, name): (usize, &&str)| EventClass {
            id: id as u32,
            provider: "net".into(),
            name: (*name).into(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: fields(),
        };
        let events = names.iter().enumerate().map(event).collect();
        let class = StreamClass {
            id: 0,
            name: "channel".into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events,
        };
        let trace = Trace {
            uuid: UUID,
            byte_order: ByteOrder::NATIVE,
            environment: vec![(IN_ENVIRONMENT.into(), EnvValue::Integer(1))],
            clock: ClockClass::monotonic(None, 0),
            streams: vec![class],
        };
        fs::write(self.folder.join(".new"), metadata::write(&trace)).unwrap();
        fs::rename(self.folder.join(".new"), self.folder.join("metadata")).unwrap();
    }

    /// Writes a packet at byte `at` of the stream's file. It takes `room` bytes and has records of class `id` at these
    /// times.
    fn packet(&self, cpu: u32, at: u64, room: u64, sequence: u64, id: u32, times: &[u32]) -> u64 {
        let mut records = Vec::new();
        for time in times {
            let word = if cfg!(target_endian = "big") { id << 27 | time } else { time << 5 | id };
            records.extend(word.to_ne_bytes());
            records.extend(0_u64.to_ne_bytes());
        }
        let (first, last) = (times.first().unwrap(), times.last().unwrap());
        let header = Header {
            uuid: UUID,
            timestamp_begin: u64::from(*first),
            timestamp_end: u64::from(*last),
            sequence,
            cpu_id: cpu,
            stream_instance: u64::from(cpu),
            ..packet::Header::default()
        }
        .with_content_bytes(records.len() as u64);
        let next = at + (header.content_bits / 8).div_ceil(8) * 8;
        let header = Header { packet_bits: room * 8, ..header };
        let path = self.folder.join(format!("channel_{cpu}"));
        let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
        if file.metadata().unwrap().len() < at + room {
            file.set_len(at + room).unwrap();
        }
        file.write_all_at(&records, at + header.encode().len() as u64).unwrap();
        file.write_all_at(&header.encode(), at).unwrap();
        next
    }

    /// Overwrites the size of the packet at byte `at`, so that it ends after `bytes`.
    fn shrink(&self, cpu: u32, at: u64, bytes: u64) {
        let path = self.folder.join(format!("channel_{cpu}"));
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&(bytes * 8).to_ne_bytes(), at + PACKET_BITS_OFFSET).unwrap();
    }

    fn progress(&self, upto: u64) {
        let mark = ProgressMark { upto, flush_ns: 1 };
        fs::write(self.folder.join(progress_mark::FILE), mark.encode()).unwrap();
    }

    fn end(&self) {
        let files = find_traces::stream_files(&self.folder).unwrap().files.len() as u64;
        let mark = EndMark { ending: Ending::Ended, files, bytes: 0, ..EndMark::RECORDING };
        fs::write(self.folder.join(FILE), mark.encode()).unwrap();
        flock(&self.lock, FlockOperation::Unlock).unwrap();
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the events of the next look, by name and time.
fn next(follow: &mut Follow) -> Vec<(String, i64)> {
    follow.look();
    let mut found = Vec::new();
    let mut events = follow.events();
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                found.push((event.class().name().to_owned(), event.time().unwrap()));
            }
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    found
}

fn times(follow: &mut Follow) -> Vec<i64> {
    next(follow).into_iter().map(|(_, time)| time).collect()
}

#[test]
fn events_are_lent_once_and_only_up_to_what_is_reported_to_be_written() {
    let trace = Grown::new("once");
    let mut at = trace.packet(0, 0, 4096, 0, 0, &[1000, 2000, 3000]);
    let mut follow = Follow::open(&[&trace.folder], OpenOptions::default()).unwrap();
    assert!(times(&mut follow).is_empty(), "nothing is said yet");
    trace.progress(2500);
    assert_eq!(times(&mut follow), [1000, 2000]);
    assert!(times(&mut follow).is_empty());
    // The next packet is written into the padding of the previous one, which then becomes smaller. Another stream is
    // new.
    let before = at;
    at = trace.packet(0, before, 4096 - before, 1, 0, &[3500]);
    assert!(times(&mut follow).is_empty(), "nobody looks there");
    trace.shrink(0, 0, before);
    trace.packet(1, 0, 4096, 0, 0, &[2600, 3200]);
    trace.progress(3300);
    assert_eq!(times(&mut follow), [2600, 3000, 3200]);
    // One record is written later than announced.
    let next = trace.packet(0, at, 4096 - at, 2, 0, &[3600]);
    trace.shrink(0, before, at - before);
    trace.progress(9000);
    assert_eq!(times(&mut follow), [3500, 3600]);
    trace.packet(0, next, 4096 - next, 3, 0, &[8000]);
    trace.shrink(0, at, next - at);
    assert_eq!(times(&mut follow), [8000]);
    assert!(follow.lent() >= 8000 && !follow.has_ended());
    trace.end();
    assert!(times(&mut follow).is_empty());
    assert!(follow.has_ended() && follow.upto().is_none());
}

#[test]
fn metadata_that_grow_are_read_before_what_they_describe() {
    let trace = Grown::new("described");
    let at = trace.packet(0, 0, 4096, 0, 0, &[1000]);
    trace.progress(1500);
    let mut follow = Follow::open(&[&trace.folder], OpenOptions::default()).unwrap();
    assert_eq!(next(&mut follow), [("net:send".to_owned(), 1000)]);
    trace.describe(&["send", "receive"]);
    trace.packet(0, at, 4096 - at, 1, 1, &[2000]);
    trace.shrink(0, 0, at);
    trace.progress(2500);
    assert_eq!(next(&mut follow), [("net:receive".to_owned(), 2000)]);
}

#[test]
fn packet_whose_end_is_not_there_yet_is_not_looked_at() {
    let trace = Grown::new("whole");
    let at = trace.packet(0, 0, 4096, 0, 0, &[1000]);
    trace.progress(1500);
    let mut follow = Follow::open(&[&trace.folder], OpenOptions::default()).unwrap();
    assert_eq!(times(&mut follow), [1000]);
    // Another recorder writes a packet from its begin on, and so extends the file.
    trace.packet(0, at, 8192, 1, 0, &[2000, 2100]);
    trace.shrink(0, 0, at);
    let path = trace.folder.join("channel_0");
    File::options().write(true).open(&path).unwrap().set_len(at + 200).unwrap();
    trace.progress(2500);
    assert!(times(&mut follow).is_empty());
    File::options().write(true).open(&path).unwrap().set_len(at + 8192).unwrap();
    assert_eq!(times(&mut follow), [2000, 2100]);
}
