//! What a guest has left in its memory: its rings are read there when nobody in it says anything any more.

use crate::ring::Input;
use rustix::fs::{memfd_create, MemfdFlags};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use strata_collect::ring_recovery::{packets, Of};
use strata_ctf::packet::HEADER_BYTES;
use strata_model::{
    ByteOrder, ClockClass, EventClass, Field, FieldClass, Integer, LossMode, RecordHeader,
    StreamClass, Trace, Uuid,
};
use strata_relay::Last;
use strata_ring::producer::{has_rseq, stamp, HeaderFormat, Producer};
use strata_ring::{channel_bytes, Attr, Channel, Mapping, Publish};

const UUID: Uuid = Uuid(*b"0123456789abcdef");
const BEGIN: u64 = 5_000_000;
const UNTIL: u64 = BEGIN + 10_000;

/// Flags, how many records there are, what was handed over, and how far, if that is told; then bytes that are written over the memory, each behind
/// its place and number.
pub fn run(input: &[u8]) {
    let [flags, records, handed, rest @ ..] = input else { return };
    let attr = Attr {
        loss_mode: if flags & 1 == 0 { LossMode::Discard } else { LossMode::Overwrite },
        publish: match flags & 2 != 0 && has_rseq() {
            true => Publish::ByPosition,
            false => Publish::ByCommit,
        },
        subbuf_bytes: 256,
        nr_subbufs: 4,
        nr_cpus: 0,
        start_position: 0,
    };
    let bytes = channel_bytes(&attr).expect("valid attributes");
    let file = File::from(memfd_create("strata-fuzz", MemfdFlags::CLOEXEC).expect("memory"));
    file.set_len(bytes).expect("memory");
    let map = || Mapping::new(file.as_fd(), 0, bytes).expect("memory");
    let channel = Channel::format(map(), &attr).expect("a channel");
    let producer = Producer::new(&channel, HeaderFormat::Compact).expect("a producer");
    for number in 0..*records {
        stamp(BEGIN + u64::from(number) * 10);
        producer.record(0, &u32::from(number).to_ne_bytes());
    }
    stamp(0);
    drop(producer);
    let mut input = Input(rest);
    // Near a place where something is, or anywhere.
    let upto = match flags & 4 {
        0 => u64::from(*handed) * 8,
        _ => input.u64(),
    };
    while let Some(count) = input.byte() {
        let place = input.u64() % bytes;
        let over = input.bytes(usize::from(count));
        let room = usize::try_from(bytes - place).unwrap_or(0).min(over.len());
        file.write_all_at(&over[..room], place).expect("memory");
    }
    let Ok(mut channel) = Channel::open(map()) else { return };
    let begin = BEGIN + u64::from(*handed) * 10;
    let last = Last { begin, end: begin + 50, sequence: 7, discarded: 0 };
    let last = |_: u32| (*handed > 0).then_some(last);
    let text = text();
    let of = Of { uuid: UUID, text: &text, until: UNTIL, last: &last, upto: &|_| upto };
    let (found, tail) = packets(&mut channel, &of);
    let mut before = (u32::MAX, 0, 0);
    for one in &found {
        let header = one.header;
        assert_eq!(header.content_bits, (HEADER_BYTES + one.body.len()) as u64 * 8);
        let (from, to) = (header.timestamp_begin, header.timestamp_end);
        assert!(from <= to && to <= UNTIL, "{header:?}");
        if header.cpu_id == before.0 {
            assert!(from >= before.1 && header.sequence > before.2, "{header:?} {before:?}");
        }
        before = (header.cpu_id, from, header.sequence);
        assert!(one.body.len() as u64 <= attr.subbuf_bytes.max(channel.subbuf_bytes()));
    }
    assert!(tail.last_ns <= UNTIL && (found.is_empty() || tail.last_ns > 0), "{tail:?}");
    // Records have at least a header and a number.
    let most: usize = found.iter().map(|one| one.body.len() / 8).sum();
    assert!(tail.records <= most as u64, "{tail:?} {most}");
}

fn text() -> String {
    let event = EventClass {
        id: 0,
        provider: String::new(),
        name: "e".to_owned(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: vec![Field::new("x", FieldClass::Integer(Integer::unsigned(4)))],
    };
    strata_ctf::metadata::write(&Trace {
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
