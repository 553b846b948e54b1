//! A channel with a producer in this process, collected into a folder that babeltrace2 then reads.
#![allow(dead_code)] // each test file uses its part

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};
use strata_collect::{Collector, Directory, Files, StreamStats, TraceIdentity};
use strata_model::{
    ByteOrder, ClockClass, EventClass, Field, FieldClass, Integer, RecordHeader, StreamClass,
    Trace, Uuid,
};
use strata_ring::producer::{has_rseq, HeaderFormat, Producer};
use strata_ring::{channel_bytes, Attr, Channel, LossMode, Mapping, Publish};

pub const UUID: Uuid = Uuid(*b"0123456789abcdef");

/// A folder that is removed with all in it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        Folder::below(&env::temp_dir())
    }

    pub fn below(parent: &Path) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("strata-collect-{}-{number}", std::process::id()));
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

/// The ways of publishing that this machine has.
pub fn ways() -> Vec<Publish> {
    let mut ways = vec![Publish::ByCommit];
    if has_rseq() {
        ways.push(Publish::ByPosition);
    } else {
        println!("skip: by position: the C library has not registered restartable sequences");
    }
    ways
}

pub fn attr(publish: Publish, loss_mode: LossMode) -> Attr {
    Attr { loss_mode, publish, subbuf_bytes: 4096, nr_subbufs: 4, nr_cpus: 0, start_position: 0 }
}

pub fn memfd(bytes: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    fd
}

/// Keeps this thread on one CPU, which it returns.
pub fn pin() -> u32 {
    let allowed = sched_getaffinity(None).unwrap();
    let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).unwrap();
    cpu as u32
}

pub fn now() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Two event record classes: `p:number` (id 0) with a u64, and the same as id 40.
pub fn trace(header: HeaderFormat) -> Trace {
    let number = |id| EventClass {
        id,
        provider: "p".into(),
        name: format!("number{id}"),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: vec![Field::new("n", FieldClass::Integer(Integer::unsigned(8)))],
    };
    Trace {
        uuid: UUID,
        byte_order: ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: ClockClass::monotonic(None, 0),
        streams: vec![StreamClass {
            id: 0,
            name: "channel0".into(),
            header: match header {
                HeaderFormat::Compact => RecordHeader::Compact,
                HeaderFormat::Large => RecordHeader::Large,
            },
            context: Vec::new(),
            events: vec![number(0), number(40)],
        }],
    }
}

/// Field order matters: the producer must not outlive the channel.
pub struct Traced {
    pub producer: Producer,
    pub collector: Collector,
    pub path: PathBuf,
    pub attr: Attr,
    pub cpu: u32,
}

impl Traced {
    /// Makes a trace with metadata and classes, in a new folder `NAME` of `folder`.
    pub fn new(folder: &Folder, name: &str, attr: Attr, header: HeaderFormat) -> Traced {
        let mut traced = Traced::bare(folder, name, attr, header);
        let trace = trace(header);
        trace.validate().unwrap();
        traced.collector.set_metadata(&strata_ctf::metadata::write(&trace)).unwrap();
        traced.collector.set_classes(move || trace.streams.first().cloned());
        traced
    }

    /// Makes a trace without metadata.
    pub fn bare(folder: &Folder, name: &str, attr: Attr, header: HeaderFormat) -> Traced {
        let bytes = channel_bytes(&attr).unwrap();
        let fd = memfd(bytes);
        let mapping = Mapping::new(fd.as_fd(), 0, bytes).unwrap();
        let channel = Channel::format(mapping, &attr).unwrap();
        let producer = Producer::new(&channel, header).unwrap();
        let path = folder.path().join(name);
        let directory = Directory::create(&path).unwrap();
        let identity = TraceIdentity { uuid: UUID, stream_id: 0 };
        let collector =
            Collector::new(Box::new(Files::new(directory, "channel0")), channel, identity);
        Traced { producer, collector, path, attr, cpu: pin() }
    }

    pub fn record(&self, n: u64) -> bool {
        self.producer.record(0, &n.to_ne_bytes())
    }

    pub fn poll(&mut self) -> u64 {
        self.collector.poll(&mut || None).unwrap()
    }

    pub fn flush(&mut self) -> u64 {
        self.collector.flush(&mut || None).unwrap()
    }

    pub fn finish(&mut self, producer: strata_collect::ProducerState) {
        self.collector.finish(producer, &mut || None).unwrap();
    }

    /// Sums the counts of all streams.
    pub fn stats(&mut self) -> StreamStats {
        let mut sum = StreamStats::default();
        for one in self.collector.stats() {
            sum.add(&one);
        }
        sum
    }

    pub fn file(&self) -> PathBuf {
        self.path.join(format!("channel0_{}", self.cpu))
    }

    pub fn events(&self) -> Option<Vec<Event>> {
        events(&self.path)
    }
}

/// One event record, as babeltrace2 reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub time: u64,
    pub cpu: u32,
    pub n: u64,
}

/// Standard output and standard error of babeltrace2, or `None` if it is not there.
pub fn babeltrace(trace: &Path) -> Option<(String, String)> {
    let mut command = Command::new("babeltrace2");
    let command = command.args(["--clock-cycles", "--no-delta"]).arg(trace).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            assert!(env::var("CI").as_deref() != Ok("true"), "babeltrace2: {error}");
            println!("skip: missing tool: babeltrace2: {error}");
            return None;
        }
    };
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{talk}", output.status);
    Some((String::from_utf8(output.stdout).unwrap(), talk))
}

/// The events of a trace; babeltrace2 has nothing to say about it.
pub fn events(trace: &Path) -> Option<Vec<Event>> {
    let (text, talk) = babeltrace(trace)?;
    assert_eq!(talk, "", "babeltrace2 warns");
    Some(parse(&text))
}

/// Lines like `[00000000000000001000] p:number0: { cpu_id = 0 }, { n = 7 }`.
pub fn parse(text: &str) -> Vec<Event> {
    let number = |line: &str, before: &str| {
        let rest = &line[line.find(before).unwrap() + before.len()..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().unwrap()
    };
    let event = |line: &str| Event {
        time: number(line, "["),
        cpu: number(line, "cpu_id = ") as u32,
        n: number(line, " n = "),
    };
    text.lines().map(event).collect()
}

/// The packet headers in a file of whole packets: begin, end, discarded; checked on the way.
pub fn packets(file: &Path) -> Vec<(u64, u64, u64)> {
    let bytes = fs::read(file).unwrap();
    let (mut at, mut packets): (usize, Vec<(u64, u64, u64)>) = (0, Vec::new());
    while at < bytes.len() {
        let word = |offset: usize| {
            u64::from_ne_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap())
        };
        assert_eq!(&bytes[at + 4..at + 20], &UUID.0);
        assert_eq!(word(64), packets.len() as u64, "sequence");
        assert!(word(48) <= word(56));
        assert!(word(32) <= word(40));
        if let Some((_, end, discarded)) = packets.last() {
            assert!(word(32) >= *end);
            assert!(word(72) >= *discarded);
        }
        packets.push((word(32), word(40), word(72)));
        at += word(56) as usize / 8;
    }
    assert_eq!(at, bytes.len(), "the file ends with a whole packet");
    packets
}
