//! Files of rings that have wrapped are read from their oldest packet on; other files as they are.

use crate::read_support::*;
use crate::support::*;
use std::fs;
use strata_ctf::read::{Reader, TimeRange};

/// Writes both streams of `made` with their packets in this order.
fn write(made: &Made, order: &[usize]) -> Folder {
    let folder = Folder::new();
    made.write(folder.path());
    for stream in 0..2 {
        let packets = order
            .iter()
            .map(|&number| made.packet(stream, number as u64, &made.packets[stream][number]));
        fs::write(folder.path().join(made.names[stream]), packets.collect::<Vec<_>>().concat())
            .unwrap();
    }
    folder
}

fn without_packets(all: Vec<String>) -> Vec<String> {
    all.into_iter().filter(|text| !text.starts_with("packet")).collect()
}

#[test]
fn wrapped_rings_are_read_from_the_oldest_packet_on() {
    let made = Made::new(9);
    for oldest in 1..9 {
        // Of a ring that has wrapped the first packets are gone: 0 is not there.
        let mut order: Vec<usize> = (1..9).collect();
        let straight = write(&made, &order);
        order.rotate_left(oldest - 1);
        let wrapped = write(&made, &order);
        let straight = Reader::open(&[straight.path()]).unwrap();
        let reader = Reader::open(&[wrapped.path()]).unwrap();
        let expected = without_packets(all(straight.events(TimeRange::ALL)));
        assert!(expected.iter().all(|text| !text.contains("damage")), "{expected:?}");
        assert_eq!(without_packets(all(reader.events(TimeRange::ALL))), expected, "{oldest}");
        assert_eq!(reader.span(), straight.span());
        check_pieces(&reader, TimeRange::ALL);
        let bytes = |reader: &Reader| reader.streams().iter().map(|it| it.bytes()).sum::<u64>();
        assert_eq!(bytes(&reader), bytes(&straight));
        for range in [(1100, 1200), (1205, i64::MAX), (i64::MIN, 1110)] {
            let range = TimeRange { from: range.0, to: range.1 };
            assert_eq!(texts(reader.events(range)), texts(straight.events(range)), "{oldest}");
        }
        for size in [1, 300, 1 << 20] {
            let slices = reader.slices(TimeRange::ALL, size);
            let found: Vec<_> = slices.flat_map(|it| texts(reader.events_of(&it))).collect();
            assert_eq!(found, texts(straight.events(TimeRange::ALL)), "{oldest} {size}");
            let parts = reader.parts(size).collect::<Vec<_>>();
            let found = parts.iter().map(|it| texts(reader.events_of_part(it)).len());
            assert_eq!(found.sum::<usize>(), texts(straight.events(TimeRange::ALL)).len());
        }
    }
}

#[test]
fn packets_that_are_gone_between_oldest_and_newest_are_reported() {
    let folder = write(&Made::new(9), &[6, 7, 8, 2, 3]);
    let found = all(Reader::open(&[folder.path()]).unwrap().events(TimeRange::ALL));
    assert!(found.iter().any(|text| text.starts_with("discarded")), "{found:?}");
    assert!(found.iter().all(|text| !text.contains("damage")), "{found:?}");
}

#[test]
fn files_that_are_no_rotation_are_read_as_they_are() {
    let made = Made::new(9);
    // Two descents; one descent and an end behind the begin; one packet twice.
    for order in [&[4, 5, 2, 3, 1][..], &[2, 3, 1, 4], &[3, 4, 4, 1, 2], &[4, 3, 2]] {
        let folder = write(&made, order);
        let reader = Reader::open(&[folder.path()]).unwrap();
        assert!(reader.streams().iter().all(|it| it.files().len() == 1), "{order:?}");
        let found = all(reader.events(TimeRange::ALL));
        assert!(found.iter().any(|text| text.contains("damage")), "{order:?}: {found:?}");
    }
    // Numbers are a rotation, and times are not.
    let mut made = made;
    for packets in &mut made.packets {
        packets.swap(2, 6);
    }
    let folder = write(&made, &[5, 6, 7, 1, 2, 3]);
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert!(reader.streams().iter().all(|it| it.files().len() == 1));
}
