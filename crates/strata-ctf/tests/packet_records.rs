//! Through packets from record to record, whatever is in them. tests/random.rs and tests/fields.rs have
//! the same records read by babeltrace2.

use crate::support::*;
use strata_ctf::packet_records::{Record, RecordScanner, ScanError};
use strata_model::{
    ByteOrder, Element, EventClass, FieldClass, FieldOrder, Integer, RecordHeader, TraceError,
};
use strata_random::Random;

const HEADERS: [RecordHeader; 2] = [RecordHeader::Compact, RecordHeader::Large];

fn scanner(header: RecordHeader, events: Vec<EventClass>) -> RecordScanner {
    let described = trace(header, events);
    RecordScanner::new(&described.streams[0], described.byte_order).unwrap()
}

fn string(name: &str) -> strata_model::Field {
    strata_model::Field::new(name, FieldClass::String)
}

/// Of every kind, in an order in which nothing is merged that must not be.
fn all_kinds() -> Vec<EventClass> {
    let integers = |length| {
        let element = Element::Integer(Integer::unsigned(4));
        sequence(&format!("s{length}"), element, length)
    };
    vec![
        event(0, "none", vec![]),
        event(1, "fixed", vec![u64_field("a"), float("b", 4, FieldOrder::Big)]),
        event(2, "text", vec![string("a")]),
        event(31, "mixed", vec![u64_field("a"), string("b"), u64_field("c"), string("d")]),
        event(70_000, "sequences", vec![integers(1), integers(2), integers(4), integers(8)]),
        event(
            65535,
            "arrays",
            vec![
                array("a", Element::Text, 0),
                array("b", Element::Text, 3),
                array("c", Element::Integer(Integer::signed(2)), 2),
                enumeration("d", Integer::unsigned(1), &[("x", 0, 1)]),
            ],
        ),
    ]
}

/// A record of each kind, with and without the whole timestamp; their times are 1000, 1001, ...
fn records(header: RecordHeader) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
    let mut sequences = Vec::new();
    for (length, count) in [(1, 0u64), (2, 2), (4, 1), (8, 3)] {
        sequences.extend(&count.to_le_bytes()[..length]);
        sequences.extend(vec![0xee; count as usize * 4]);
    }
    let payloads = [
        (0, vec![]),
        (1, vec![0; 12]),
        (2, b"\0".to_vec()),
        (2, b"text\0".to_vec()),
        (31, b"12345678\x0012345678x\0".to_vec()),
        (70_000, sequences),
        (65535, vec![0xff; 8]),
    ];
    let both = payloads.iter().flat_map(|p| [(p, false), (p, true)]);
    both.zip(1000..)
        .map(|(((id, payload), full), time)| {
            (*id, record(header, *id, time, full, payload), payload.clone())
        })
        .collect()
}

#[test]
#[cfg(target_endian = "little")]
fn records_of_every_kind_are_found_with_their_times_and_payloads() {
    for header in HEADERS {
        let scanner = scanner(header, all_kinds());
        let records = records(header);
        let packet: Vec<u8> = records.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect();
        assert_eq!(scanner.count(&packet), Ok(records.len() as u64));
        let mut at = 0;
        let mut found = scanner.records(&packet, 1000);
        for ((id, bytes, payload), timestamp) in records.iter().zip(1000..) {
            let record: Record = found.next().unwrap().unwrap();
            assert_eq!((record.offset, record.id, record.timestamp), (at, *id, timestamp));
            assert_eq!(record.payload, payload);
            assert_eq!(all_kinds()[record.class].id, *id);
            at += bytes.len() as u64;
        }
        assert_eq!((found.next(), found.next()), (None, None));
    }
}

#[test]
#[cfg(target_endian = "little")]
fn packet_cut_anywhere_has_the_whole_records_before_and_an_error_at_the_cut_one() {
    for header in HEADERS {
        let scanner = scanner(header, all_kinds());
        let records = records(header);
        let packet: Vec<u8> = records.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect();
        let ends: Vec<usize> = records
            .iter()
            .scan(0, |at, (_, bytes, _)| {
                *at += bytes.len();
                Some(*at)
            })
            .collect();
        for cut in 0..packet.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let begin = if whole == 0 { 0 } else { ends[whole - 1] };
            let count = scanner.count(&packet[..cut]);
            let found: Vec<_> = scanner.records(&packet[..cut], 0).collect();
            if begin == cut {
                assert_eq!((count, found.len()), (Ok(whole as u64), whole), "{cut}");
                continue;
            }
            let error = count.unwrap_err();
            assert!(matches!(error, ScanError::Outside { .. }), "{cut}: {error}");
            assert_eq!((error.offset(), found.len()), (begin as u64, whole + 1), "{cut}");
            assert_eq!(found.last(), Some(&Err(error)), "{cut}");
            assert_eq!(scanner.count(&packet[..begin]), Ok(whole as u64), "{cut}");
        }
    }
}

#[test]
fn unknown_id_is_an_error_that_names_record_and_id() {
    for header in HEADERS {
        let scanner = scanner(header, all_kinds());
        for id in [3, 30, 32, 65534, 65536, u32::MAX] {
            let packet = [record(header, 0, 0, false, &[]), record(header, id, 0, false, &[])];
            let offset = packet[0].len() as u64;
            let error = scanner.count(&packet.concat()).unwrap_err();
            assert_eq!(error, ScanError::UnknownId { offset, id });
            let text = format!("event record at byte {offset}: there is no class of id {id}");
            assert_eq!(error.to_string(), text);
        }
    }
}

#[test]
fn part_that_leaves_the_packet_is_an_error_that_says_how_far() {
    let scanner = scanner(RecordHeader::Compact, all_kinds());
    let error = |bytes: &[u8]| scanner.count(bytes).unwrap_err().to_string();
    let of = |id, payload: &[u8]| error(&record(RecordHeader::Compact, id, 0, false, payload));
    assert_eq!(
        error(&[0]),
        "event record at byte 0: its header needs 4 bytes, 1 are left in the packet"
    );
    let fixed =
        "event record at byte 0 of class 1: a field at byte 4 needs 12 bytes, 11 are left in \
                 the packet";
    assert_eq!(of(1, &[0; 11]), fixed);
    let text = "event record at byte 0 of class 2: a text at byte 4 has no end, 2 are left in the \
                packet";
    assert_eq!(of(2, b"ab"), text);
    let length =
        "event record at byte 0 of class 70000: a field at byte 14 needs 2 bytes, 1 are left \
                  in the packet";
    assert_eq!(of(70_000, &[0, 0]), length);
}

#[test]
fn malicious_length_of_a_sequence_is_outside_whatever_it_is() {
    for bytes in [1u8, 2, 4, 8] {
        for element in [Element::Text, Element::Integer(Integer::unsigned(8))] {
            let events = vec![event(0, "e", vec![sequence("s", element, bytes)])];
            let scanner = scanner(RecordHeader::Large, events);
            let most = u64::MAX >> (64 - 8 * u32::from(bytes));
            for count in [most, most - 1, most / 2 + 1, most / 8 + 1, 100] {
                let payload = [&count.to_ne_bytes()[..usize::from(bytes)], &[0; 20]].concat();
                if cfg!(target_endian = "big") && bytes != 8 {
                    continue;
                }
                let error = scanner.count(&record(RecordHeader::Large, 0, 0, false, &payload));
                let expected = ScanError::Outside {
                    offset: 0,
                    id: Some(0),
                    at: 6 + u64::from(bytes),
                    bytes: Some(count.saturating_mul(u64::from(element.bytes()))),
                    left: 20,
                };
                assert_eq!(error, Err(expected));
            }
        }
    }
}

#[test]
fn packet_of_the_other_byte_order_is_followed() {
    let described = trace(RecordHeader::Compact, all_kinds());
    let mut stream = described.streams[0].clone();
    let sequences = [&[0u8][..], &[0, 1, 1, 2, 3, 4], &[0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 0]];
    let sequences = sequences.concat();
    let id = 70_000u32.to_be_bytes();
    let time = 0x1_2345_6789u64;
    let extended = [&[31 << 3][..], &id, &time.to_be_bytes(), &sequences].concat();
    let packet = [&(2u32 << 27 | 0x700_0000).to_be_bytes()[..], b"x\0", &extended].concat();
    let big = RecordScanner::new(&stream, ByteOrder::Big).unwrap();
    let found: Vec<_> = big.records(&packet, 0).map(|r| r.unwrap()).collect();
    let found: Vec<_> = found.iter().map(|r| (r.id, r.timestamp, r.payload)).collect();
    assert_eq!(found, [(2, 0x700_0000, &b"x\0"[..]), (70_000, time, &sequences)]);
    stream.header = RecordHeader::Large;
    let large = RecordScanner::new(&stream, ByteOrder::Big).unwrap();
    let packet = [&[0, 2, 0, 0, 0, 7, 0, 0xff, 0xff][..], &extended[1..]].concat();
    let found: Vec<_> = large.records(&packet, 0).map(|r| r.unwrap()).collect();
    let found: Vec<_> = found.iter().map(|r| (r.id, r.timestamp, r.payload)).collect();
    assert_eq!(found, [(2, 7, &b"\0"[..]), (70_000, time, &sequences)]);
}

#[test]
fn walker_of_a_class_that_cannot_be_is_refused() {
    let odd = Integer { bytes: 3, ..Integer::unsigned(8) };
    let stream =
        &trace(RecordHeader::Compact, vec![event(0, "e", vec![integer("a", odd)])]).streams[0];
    assert!(matches!(RecordScanner::new(stream, ByteOrder::NATIVE), Err(TraceError::Event { .. })));
}

/// Walks any bytes as a packet: records must follow one another from its begin to its end or to one error.
fn check(scanner: &RecordScanner, packet: &[u8], rounds: &mut [u64; 2]) {
    let (mut at, mut count, mut last) = (0, 0, None);
    for found in scanner.records(packet, u64::MAX - 5) {
        assert_eq!(last, None, "an error is the end");
        match found {
            Ok(record) => {
                assert_eq!(record.offset, at);
                let payload = record.payload.as_ptr() as usize - packet.as_ptr() as usize;
                assert!(payload as u64 >= at + 4);
                at = (payload + record.payload.len()) as u64;
                count += 1;
            }
            Err(error) => last = Some(error),
        }
    }
    match scanner.count(packet) {
        Ok(n) => {
            assert_eq!((n, at, last), (count, packet.len() as u64, None));
            rounds[0] += 1;
        }
        Err(error) => {
            assert_eq!((error.offset(), Some(error)), (at, last));
            assert_eq!(scanner.count(&packet[..at as usize]), Ok(count));
            rounds[1] += 1;
        }
    }
}

#[test]
fn malicious_bytes_are_followed_to_the_first_error_and_no_further() {
    let mut random = Random::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for header in HEADERS {
            let stream = &trace(header, all_kinds()).streams[0];
            let scanner = RecordScanner::new(stream, order).unwrap();
            let mut rounds = [0; 2];
            let good: Vec<u8> = records(header).into_iter().flat_map(|(_, r, _)| r).collect();
            for round in 0..40_000 {
                let mut packet: Vec<u8> = match round % 3 {
                    // Mostly small numbers: ids and lengths that exist.
                    0 => (0..random.next() % 60).map(|_| (random.next() % 3) as u8).collect(),
                    1 => (0..random.next() % 60).map(|_| random.next() as u8).collect(),
                    _ => good.clone(),
                };
                for _ in 0..random.next() % 3 {
                    if !packet.is_empty() {
                        let at = random.next() as usize % packet.len();
                        packet[at] = random.next() as u8;
                    }
                }
                check(&scanner, &packet, &mut rounds);
            }
            // About 560 packets of the rarest kind: whatever the seed is, far more than this.
            assert!(rounds[0] > 250 && rounds[1] > 250, "{rounds:?}");
        }
    }
}
