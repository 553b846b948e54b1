//! A channel that a recorder has read that was killed, and that another one goes on with, again and again.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::{attr, events, memfd, now, pin, trace, ways, Event, Folder, UUID};
use strata_collect::ProducerState::{Alive, Dead};
use strata_collect::{Collector, Directory, Files, LeftFiles, Streams, TraceIdentity};
use strata_model::StreamClass;
use strata_ring::producer::{stamp, HeaderFormat, Producer};
use strata_ring::{channel_bytes, Channel, LossMode, Mapping, Publish};

fn class(header: HeaderFormat) -> StreamClass {
    trace(header).streams[0].clone()
}

/// The records before the last flush and after it, and whether the kill comes between the end of a packet in its file
/// and its release.
type Round = (u64, u64, bool);

/// Rounds of the test. A round whose last value is true has one packet.
const ROUNDS: [Round; 11] = [
    (7, 3, false),
    (0, 0, false),
    (400, 2, false),
    (1, 0, false),
    (0, 5, false),
    (90, 0, true),
    (30, 400, false),
    (3, 0, false),
    (20, 0, true),
    (0, 10, false),
    (0, 0, false),
];

/// Makes a collector that writes to this folder, after others that have written elsewhere.
fn collector(
    channel: Channel,
    header: HeaderFormat,
    path: &Path,
    folders: Vec<PathBuf>,
) -> Collector {
    let class = class(header);
    let left = LeftFiles { folders, name: "channel0", class: class.clone() };
    let sink = Files::new(Directory::create(path).unwrap(), "channel0");
    let identity = TraceIdentity { uuid: UUID, stream_id: 0 };
    let streams = Streams::left(channel, &left);
    let mut collector = Collector::of(Box::new(sink), streams, identity);
    collector.set_metadata(&strata_ctf::metadata::write(&trace(header))).unwrap();
    collector.set_classes(move || Some(class.clone()));
    collector
}

fn collect(publish: Publish, header: HeaderFormat) {
    let folder = Folder::new();
    let attr = attr(publish, LossMode::Discard);
    let bytes = channel_bytes(&attr).unwrap();
    let memory = memfd(bytes);
    let map = || Mapping::new(memory.as_fd(), 0, bytes).unwrap();
    let of_producer = Channel::format(map(), &attr).unwrap();
    let producer = Producer::new(&of_producer, header).unwrap();
    let file = std::fs::File::from(memory.try_clone().unwrap());
    let cpu = pin();
    let start = now().saturating_sub(3_600_000_000_000).max(1);
    let mut n = 0u64;
    // Far enough apart that short times are completed from where each trace begins.
    let mut record = |records: u64| {
        for _ in 0..records {
            stamp(start + n * 100_000_000);
            assert!(producer.record(0, &n.to_ne_bytes()), "{publish:?}: record {n}");
            n += 1;
        }
        stamp(0);
        n
    };
    let mut folders = Vec::new();
    for (number, (before, behind, is_unput)) in ROUNDS.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let channel = Channel::adopt(map(), &attr).unwrap();
        let mut collector = collector(channel, header, &path, folders.clone());
        folders.insert(0, path);
        record(before);
        if is_unput {
            match publish {
                Publish::ByCommit => {
                    Channel::adopt(map(), &attr).unwrap().stream(cpu).unwrap().flush().unwrap();
                }
                Publish::ByPosition => {
                    while !collector.readable() {
                        record(1);
                    }
                }
            }
            let mut held = vec![0; bytes as usize];
            file.read_exact_at(&mut held, 0).unwrap();
            assert_eq!(collector.poll(&mut || None).unwrap(), 1, "{publish:?} {number}");
            file.write_all_at(&held, 0).unwrap();
        } else {
            collector.flush(&mut || None).unwrap();
        }
        record(behind);
        if number + 1 == ROUNDS.len() {
            collector.finish(Alive, &mut || None).unwrap();
        }
    }
    let with_records = folders.iter().rev();
    let with_records: Vec<_> =
        with_records.filter(|path| path.join(format!("channel0_{cpu}")).exists()).collect();
    let mut found = Vec::new();
    for path in &with_records {
        let Some(events) = events(path) else { return };
        found.extend(events);
    }
    let numbers: Vec<u64> = found.iter().map(|Event { n, .. }| *n).collect();
    let n = record(0);
    assert_eq!(numbers, (0..n).collect::<Vec<_>>(), "{publish:?} {header:?}");
    let time = |n: u64| start + n * 100_000_000;
    assert!(found.iter().all(|event| event.time == time(event.n)), "{publish:?} {header:?}");
    drop((producer, of_producer));
}

#[test]
fn records_of_recorders_that_were_killed_are_each_in_one_of_the_traces() {
    for publish in ways() {
        for header in [HeaderFormat::Compact, HeaderFormat::Large] {
            collect(publish, header);
        }
    }
}

/// The test keeps the buffers, so that the next recorder finds all of their records again.
#[test]
fn what_programs_that_have_ended_have_left_is_written_once() {
    for publish in ways() {
        let folder = Folder::new();
        let attr = attr(publish, LossMode::Discard);
        let bytes = channel_bytes(&attr).unwrap();
        let memory = memfd(bytes);
        let map = || Mapping::new(memory.as_fd(), 0, bytes).unwrap();
        let of_producer = Channel::format(map(), &attr).unwrap();
        let producer = Producer::new(&of_producer, HeaderFormat::Compact).unwrap();
        let cpu = pin();
        let mut folders = Vec::new();
        let mut found = Vec::new();
        for number in 0..3u64 {
            // The second one finds what it had been, the third one some more.
            for n in [0..5, 0..0, 5..7][number as usize].clone() {
                assert!(producer.record(0, &u64::to_ne_bytes(n)), "{publish:?}: record {n}");
            }
            let path = folder.path().join(number.to_string());
            let channel = Channel::adopt(map(), &attr).unwrap();
            let mut one = collector(channel, HeaderFormat::Compact, &path, folders.clone());
            one.finish(Dead, &mut || None).unwrap();
            drop(one);
            let has_written = path.join(format!("channel0_{cpu}")).exists();
            assert_eq!(has_written, number != 1, "{publish:?} {number}");
            if has_written {
                let Some(events) = events(&path) else { return };
                found.extend(events.into_iter().map(|Event { n, .. }| n));
            }
            folders.insert(0, path);
        }
        assert_eq!(found, (0..7).collect::<Vec<u64>>(), "{publish:?}");
        drop((producer, of_producer));
    }
}
