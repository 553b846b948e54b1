use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{memfd_create, MemfdFlags};
use strata_ctf::metadata;
use strata_model::{
    ByteOrder, ClockClass, EventClass, Field, FieldClass, Integer, LossMode, RecordHeader,
    StreamClass, Trace,
};
use strata_ring::producer::{has_rseq, stamp, HeaderFormat, Producer};
use strata_ring::{channel_bytes, Attr, Mapping};

use super::*;

const UUID: Uuid = Uuid(*b"0123456789abcdef");
const BEGIN: u64 = 5_000_000;

fn text(id: u32) -> String {
    let event = EventClass {
        id,
        provider: String::new(),
        name: "e".to_owned(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: vec![Field::new("x", FieldClass::Integer(Integer::unsigned(4)))],
    };
    metadata::write(&Trace {
        uuid: UUID,
        byte_order: ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: ClockClass::monotonic(None, 99),
        streams: vec![StreamClass {
            id: 0,
            name: "s".into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events: vec![event],
        }],
    })
}

/// Makes a ring in which a producer has left so many records, 10 ns apart.
fn left_by(records: u64, publish: Publish) -> Channel {
    let attr = Attr {
        loss_mode: LossMode::Discard,
        publish,
        subbuf_bytes: 4096,
        nr_subbufs: 4,
        nr_cpus: 0,
        start_position: 0,
    };
    let bytes = channel_bytes(&attr).unwrap();
    let file = File::from(memfd_create("tail", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    let map = || Mapping::new(file.as_fd(), 0, bytes).unwrap();
    let channel = Channel::format(map(), &attr).unwrap();
    let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
    // All of one CPU.
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    for number in 0..records {
        stamp(BEGIN + number * 10);
        assert!(producer.record(0, &7u32.to_ne_bytes()));
    }
    stamp(0);
    drop(producer);
    Channel::open(map()).unwrap()
}

fn tail_of(
    records: u64,
    text: &str,
    until: u64,
    last: &dyn Fn(u32) -> Option<Last>,
) -> (Vec<Found>, Tail) {
    let of = Of { uuid: UUID, text, until, last, upto: &|_| 0 };
    packets(&mut left_by(records, Publish::ByCommit), &of)
}

#[test]
fn tail_is_all_records_of_the_packets_that_were_not_handed_over() {
    // Two sub-buffers and the begin of a third one.
    let (found, tail) = tail_of(1200, &text(0), BEGIN + 1_000_000, &|_| None);
    assert_eq!((tail.records, tail.last_ns, &tail.damage), (1200, BEGIN + 11_990, &None));
    assert_eq!(found.len(), 3);
    let numbers: Vec<u64> = found.iter().map(|one| one.header.sequence).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(found.windows(2).all(|two| {
        two[0].header.timestamp_end <= two[1].header.timestamp_begin && two[1].mend.is_none()
    }));

    // The first one was handed over, and its place not given back.
    let first = found[0].header;
    let last =
        Last { begin: first.timestamp_begin, end: first.timestamp_end, sequence: 6, discarded: 0 };
    let (rest, tail) = tail_of(1200, &text(0), BEGIN + 1_000_000, &|_| Some(last));
    assert_eq!((rest.len(), rest[0].header.sequence, tail.damage), (2, 7, None));

    let (none, tail) = tail_of(0, &text(0), BEGIN, &|_| None);
    assert_eq!((none.len(), tail.records, tail.damage), (0, 0, None));
}

#[test]
fn malicious_rings_give_no_packet_that_cannot_be_read_or_is_out_of_time() {
    // Of a kind that there is not.
    let (found, tail) = tail_of(5, &text(3), BEGIN + 1_000, &|_| None);
    assert!(found.is_empty() && tail.damage.is_some(), "{tail:?}");
    // From the future.
    let (found, tail) = tail_of(5, &text(0), BEGIN + 20, &|_| None);
    assert!(found.is_empty() && tail.damage.unwrap().contains("cannot be"));
    let (found, _) = tail_of(5, &text(0), BEGIN - 1, &|_| None);
    assert!(found.is_empty());
    // Before what was handed over.
    let last = Last { begin: BEGIN + 5, end: BEGIN + 7, sequence: 0, discarded: 0 };
    let (found, tail) = tail_of(5, &text(0), BEGIN + 1_000, &|_| Some(last));
    assert!(found.is_empty() && tail.damage.is_some());
    // No metadata.
    let (found, tail) = tail_of(5, "trace", BEGIN + 1_000, &|_| None);
    assert!(found.is_empty() && tail.damage.is_some());
}

/// Reads a ring that is published by position and was handed over up to `upto`; also returns how much of the first
/// packet that is.
fn behind(records: u64, upto: u64, last: Option<Last>) -> (Vec<Found>, Tail) {
    let text = text(0);
    let of =
        Of { uuid: UUID, text: &text, until: BEGIN + 1_000_000, last: &|_| last, upto: &|_| upto };
    packets(&mut left_by(records, Publish::ByPosition), &of)
}

#[test]
fn tail_of_packets_that_were_handed_over_in_parts_is_each_record_once() {
    if !has_rseq() {
        return eprintln!("skip: no restartable sequences here");
    }
    const RECORD: u64 = 8;
    let (found, tail) = behind(1200, 0, None);
    assert_eq!((tail.records, tail.last_ns, &tail.damage), (1200, BEGIN + 11_990, &None));
    let first = found[0].body.len() as u64 / RECORD;
    assert!(found.len() == 3 && first < 600, "{first}");
    // Of the first packet a part, all of it, and of the second one a part; and all that there is.
    for (upto, handed) in [
        (RECORD, 1),
        (RECORD * 100, 100),
        (RECORD * first, first),
        (4096, first),
        (4096 + RECORD * 7, first + 7),
        (4096 * 2 + RECORD * (1200 - 2 * first), 1200),
        (u64::MAX >> 1, 1200),
    ] {
        let end = BEGIN + (handed - 1) * 10;
        let last = Last { begin: BEGIN, end, sequence: 4, discarded: 0 };
        let (found, tail) = behind(1200, upto, Some(last));
        assert_eq!((tail.records, &tail.damage), (1200 - handed, &None), "{upto}");
        assert!(found.iter().zip(5..).all(|(one, number)| one.header.sequence == number));
        assert!(found.windows(2).all(|two| {
            two[0].header.timestamp_end <= two[1].header.timestamp_begin && two[1].mend.is_none()
        }));
    }
}

#[test]
fn malicious_places_give_no_record_that_cannot_be_read_or_is_out_of_time() {
    if !has_rseq() {
        return eprintln!("skip: no restartable sequences here");
    }
    // In the middle of a record, which then is of no kind, or not all there.
    let last = Last { begin: BEGIN, end: BEGIN + 990, sequence: 4, discarded: 0 };
    for upto in [801, 803, 805] {
        let (found, tail) = behind(101, upto, Some(last));
        assert!(found.is_empty() && tail.damage.is_some(), "{upto}: {tail:?}");
    }
    // A part was handed over, and no packet was.
    let (found, tail) = behind(101, 800, None);
    assert!(found.is_empty() && tail.damage.unwrap().contains("no packet of it has come"));
    // It goes on before the last record's end, which none of its own can be.
    let late = Last { begin: BEGIN, end: BEGIN + 2_000_000, sequence: 4, discarded: 0 };
    for upto in [0, 800] {
        let (found, tail) = behind(101, upto, Some(late));
        assert!(found.is_empty() && tail.damage.unwrap().contains("cannot be"));
    }
}

#[test]
fn zeros_are_no_packet() {
    let info = Info {
        position: 0,
        header_bytes: 16,
        content_bytes: 80,
        timestamp_begin: 0,
        timestamp_end: None,
        records: None,
        discarded: 0,
        unpublished_bytes: 0,
    };
    let text = text(0);
    let of = Of { uuid: UUID, text: &text, until: BEGIN, last: &|_| None, upto: &|_| 0 };
    for found in [follow(&of, 0, &info, vec![0; 64], None), go_on(&of, 0, &info, vec![0; 64], None)]
    {
        assert!(found.unwrap_err().contains("cannot be"));
    }
}
