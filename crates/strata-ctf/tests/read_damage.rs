//! Tests of damaged traces: the damage is reported with stream, packet and offset, and all intact packets are shown.

use crate::read_support::*;
use crate::support::*;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use strata_ctf::read::{Damage, DamageKind, HeaderDamage, Message, Reader, TimeRange};
use strata_model::Uuid;
use strata_random::Random;

/// Bytes of a packet's header and context, and where some of their fields are.
const HEAD: usize = strata_ctf::packet::HEADER_BYTES;

fn open(folder: &Path) -> Reader {
    Reader::open(&[folder]).unwrap()
}

/// Returns all damage, and the number of events.
fn damage(reader: &Reader) -> (Vec<Damage>, usize) {
    let (mut damage, mut count) = (Vec::new(), 0);
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Damage(it) => damage.push(it.clone()),
            Message::Event(_) => count += 1,
            _ => {}
        }
    }
    (damage, count)
}

/// The only damage there is.
fn one(folder: &Path) -> (Damage, usize) {
    let (mut damage, count) = damage(&open(folder));
    assert_eq!(damage.len(), 1, "{damage:?}");
    (damage.remove(0), count)
}

/// A trace of ten packets in each of two streams; the bytes of the third of the first are changed.
struct Changed {
    folder: Folder,
    made: Made,
    /// The offset of the packet in its file.
    offset: u64,
    packet: Vec<u8>,
}

impl Changed {
    fn new(change: impl FnOnce(&mut Vec<u8>)) -> Changed {
        let folder = Folder::new();
        let made = Made::new(10);
        made.write(folder.path());
        let mut packets: Vec<_> =
            (0..).zip(&made.packets[0]).map(|(number, it)| made.packet(0, number, it)).collect();
        let offset = packets[..2].iter().map(Vec::len).sum::<usize>() as u64;
        let packet = packets[2].clone();
        change(&mut packets[2]);
        fs::write(folder.path().join("channel_0"), packets.concat()).unwrap();
        Changed { folder, made, offset, packet }
    }

    /// Returns the number of events outside of the packet.
    fn others(&self) -> usize {
        self.made.events() - self.made.packets[0][2].events.len()
    }
}

/// Writes a number of 8 bytes.
fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

/// Offsets of the fields in Strata's packets \[byte\].
mod at {
    pub const UUID: usize = 4;
    pub const CLASS: usize = 20;
    pub const STREAM: usize = 24;
    pub const BEGIN: usize = 32;
    pub const END: usize = 40;
    pub const CONTENT: usize = 48;
    pub const PACKET: usize = 56;
    pub const SEQUENCE: usize = 64;
    pub const DISCARDED: usize = 72;
}

#[test]
fn packet_with_a_wrong_magic_number_is_skipped() {
    let it = Changed::new(|bytes| bytes[0] ^= 1);
    let (damage, count) = one(it.folder.path());
    let bytes = it.packet.len() as u64;
    let DamageKind::Garbage { header: HeaderDamage::Magic { .. }, bytes: skipped, to_end } =
        damage.what
    else {
        panic!("{damage}")
    };
    assert_eq!((skipped, to_end, damage.offset), (bytes, false, Some(it.offset)));
    assert_eq!((damage.packet, damage.stream.as_deref()), (Some(2), Some("channel_0")));
    assert_eq!(count, it.others());
    check_pieces(&open(it.folder.path()), TimeRange::ALL);
}

#[test]
fn packet_of_another_trace_is_skipped() {
    let other = Uuid([7; 16]);
    let it = Changed::new(|bytes| bytes[at::UUID..at::UUID + 16].copy_from_slice(&other.0));
    let (damage, count) = one(it.folder.path());
    assert!(
        matches!(damage.what, DamageKind::Garbage { header: HeaderDamage::Uuid { found, expected }, .. }
            if found == other && expected == UUID),
        "{damage}"
    );
    assert_eq!(count, it.others());
}

#[test]
fn packet_of_an_unknown_class_is_skipped() {
    let it = Changed::new(|bytes| bytes[at::CLASS] = 9);
    let (damage, count) = one(it.folder.path());
    let missing = HeaderDamage::StreamClass { found: Some(9) };
    assert!(matches!(&damage.what, DamageKind::Garbage { header, .. } if *header == missing));
    assert_eq!(count, it.others());
}

#[test]
fn packet_with_more_content_than_size_is_skipped() {
    let it = Changed::new(|bytes| put(bytes, at::CONTENT, 1 << 40));
    let (damage, count) = one(it.folder.path());
    assert!(
        matches!(damage.what, DamageKind::Garbage { header: HeaderDamage::Content { content, .. }, .. }
            if content == 1 << 40),
        "{damage}"
    );
    assert_eq!(count, it.others());
}

#[test]
fn packet_smaller_than_its_header_is_skipped() {
    let it = Changed::new(|bytes| put(bytes, at::PACKET, 8));
    let (damage, _) = one(it.folder.path());
    assert!(
        matches!(damage.what, DamageKind::Garbage { header: HeaderDamage::Size { .. }, .. }),
        "{damage}"
    );
    let it = Changed::new(|bytes| put(bytes, at::CONTENT, 8));
    let (damage, count) = one(it.folder.path());
    assert!(
        matches!(damage.what, DamageKind::Garbage { header: HeaderDamage::ContentSize { .. }, .. }),
        "{damage}"
    );
    assert_eq!(count, it.others());
}

#[test]
fn packet_size_that_leads_past_the_next_is_corrected() {
    for size in [1_u64 << 50, 8 * 200, 8 * 333] {
        let it = Changed::new(|bytes| {
            let size = size.max(bytes.len() as u64 * 8 + 64);
            put(bytes, at::PACKET, size);
        });
        let (damage, count) = one(it.folder.path());
        let found = it.packet.len() as u64;
        assert!(
            matches!(damage.what, DamageKind::PacketSize { found: it, .. } if it == found),
            "{damage}"
        );
        assert_eq!(count, it.made.events());
        check_pieces(&open(it.folder.path()), TimeRange::ALL);
    }
}

/// The size of exactly two packets: what follows is a packet.
#[test]
fn packet_size_of_two_packets_is_corrected() {
    let folder = Folder::new();
    let made = Made::new(10);
    made.write(folder.path());
    let path = folder.path().join("channel_0");
    let mut bytes = fs::read(&path).unwrap();
    let size = |number: usize| made.packet(0, number as u64, &made.packets[0][number]).len();
    let offset = size(0) + size(1);
    put(&mut bytes[offset..], at::PACKET, (size(2) + size(3)) as u64 * 8);
    fs::write(&path, bytes).unwrap();
    let (damage, count) = one(folder.path());
    assert!(matches!(damage.what, DamageKind::Padding { found: 8, .. }), "{damage}");
    assert_eq!(count, made.events());
    check_pieces(&open(folder.path()), TimeRange::ALL);
}

/// The content's size is the only one, and in whole bytes it is no number of 64 bits.
#[test]
fn malicious_content_of_almost_all_bits_is_skipped() {
    let folder = Folder::new();
    let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
        stream { packet.context := struct { integer { size = 64; } content_size; }; };\n\
        event { name = e; fields := struct { integer { size = 8; } v; }; };";
    fs::write(folder.path().join("metadata"), text).unwrap();
    for content in [u64::MAX, u64::MAX - 6] {
        fs::write(folder.path().join("s"), [content, 0].map(u64::to_le_bytes).concat()).unwrap();
        let (damage, _) = one(folder.path());
        let what = &damage.what;
        assert!(
            matches!(what, DamageKind::Garbage { header: HeaderDamage::Size { .. }, .. }),
            "{damage}"
        );
    }
}

#[test]
fn packet_whose_header_is_not_all_there_is_skipped() {
    let _alone = without_children();
    let folder = Folder::new();
    Made::new(2).write(folder.path());
    let path = folder.path().join("channel_0");
    fs::File::options().write(true).open(path).unwrap().set_len(50).unwrap();
    let (damage, _) = one(folder.path());
    let short = HeaderDamage::Short { found: 50 };
    assert!(
        matches!(&damage.what, DamageKind::Garbage { header, bytes: 50, to_end: true } if *header == short),
        "{damage}"
    );
}

#[test]
fn packet_whose_context_cannot_be_read_is_skipped() {
    let folder = Folder::new();
    let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
        stream { packet.context := struct { enum : integer { size = 8; } { a = 0 } tag; \
        variant <tag> { integer { size = 8; } a; } v; }; };\n\
        event { name = e; fields := struct { integer { size = 8; } v; }; };";
    fs::write(folder.path().join("metadata"), text).unwrap();
    fs::write(folder.path().join("s"), [7, 1, 2, 3]).unwrap();
    let (damage, _) = one(folder.path());
    assert!(
        matches!(damage.what, DamageKind::Garbage { header: HeaderDamage::Unreadable { .. }, .. }),
        "{damage}"
    );
    assert_eq!(damage.to_string().matches("packet context").count(), 1, "{damage}");
    assert!(!damage.to_string().contains("packet header"), "{damage}");
}

#[test]
fn record_of_an_unknown_class_ends_the_packet() {
    // The first record's header: id 5 of the compact form, which there is not.
    let it = Changed::new(|bytes| bytes[HEAD] = bytes[HEAD] & !31 | 5);
    let (damage, count) = one(it.folder.path());
    let DamageKind::Record { error, bytes } = &damage.what else { panic!("{damage}") };
    assert!(error.contains("id 5"), "{error}");
    assert_eq!(*bytes as usize, it.packet.len() - HEAD - 8);
    assert_eq!(damage.offset, Some(it.offset + HEAD as u64));
    assert_eq!(count, it.others());
    check_pieces(&open(it.folder.path()), TimeRange::ALL);
}

#[test]
fn packet_of_another_stream_is_shown() {
    let it = Changed::new(|bytes| put(bytes, at::STREAM, 1));
    let (damage, count) = damage(&open(it.folder.path()));
    assert!(matches!(damage[0].what, DamageKind::OtherStream { .. }), "{damage:?}");
    assert_eq!(count, it.made.events());
}

#[test]
fn packet_that_ends_before_it_begins_is_shown() {
    let it = Changed::new(|bytes| put(bytes, at::END, 1));
    let (damage, count) = one(it.folder.path());
    assert!(matches!(damage.what, DamageKind::PacketTimes { end: 1, .. }), "{damage}");
    assert_eq!(count, it.made.events());
}

/// Packets after one with a wrong end are not delayed by it, and the damage is reported once.
#[test]
fn packet_that_ends_too_late_leaves_the_order_of_all_others() {
    for place in [at::END, at::BEGIN] {
        let it = Changed::new(|bytes| put(bytes, place, 1 << 60));
        let (damage, count) = one(it.folder.path());
        let times = times(open(it.folder.path()).events(TimeRange::ALL));
        assert_eq!(count, it.made.events());
        let steps = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(steps <= 1, "{damage}: {times:?}");
        check_pieces(&open(it.folder.path()), TimeRange::ALL);
    }
}

#[test]
fn packet_numbers_and_counts_that_go_back_are_damage() {
    let it = Changed::new(|bytes| put(bytes, at::SEQUENCE, 1));
    let (damage, count) = damage(&open(it.folder.path()));
    let back = DamageKind::SequenceBack { found: 1, before: 1 };
    assert_eq!(damage[0].what, back);
    assert_eq!(count, it.made.events());
    let it = Changed::new(|bytes| put(bytes, at::DISCARDED, 100));
    let (damage, count) = self::damage(&open(it.folder.path()));
    let back = DamageKind::DiscardedBack { found: 1, before: 100 };
    assert_eq!(damage[0].what, back);
    assert!(damage[0].is_remark());
    assert_eq!(count, it.made.events());
}

#[test]
fn count_that_goes_back_for_a_packet_goes_on_from_where_it_was() {
    let packets = [5, 7, 0, 0, 9, 2, 4, 12, 6, 3, 13].into_iter().zip(1u64..);
    let bytes = packets.flat_map(|(discarded, n)| {
        tiny_packet(n * 100, n * 100 + 50, &u64::to_le_bytes(discarded), &[])
    });
    let folder = tiny(&[("s", bytes.collect())]);
    let reader = open(folder.path());
    let (mut counts, mut back) = (Vec::new(), Vec::new());
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Discarded(discarded) => counts.push(discarded.count),
            Message::Damage(damage) => back.push(damage.what.clone()),
            _ => {}
        }
    }
    let went = |found, before| DamageKind::DiscardedBack { found, before };
    // The two that were said below 9 are not said again: as many as the last count, in all.
    assert_eq!(counts, [5, 2, 2, 2, 1, 1]);
    assert_eq!(back, [went(0, 7), went(2, 9), went(6, 12), went(3, 6)]);
    check_pieces(&reader, TimeRange::ALL);
}

#[test]
fn event_behind_its_packets_end_is_shown() {
    let folder = tiny(&[("s", tiny_packet(10, 20, &[0; 8], &[(12, 1), (25, 2), (26, 3)]))]);
    let (damage, count) = one(folder.path());
    assert_eq!(damage.what, DamageKind::TimeBehindPacket { time: 25, end: 20 });
    assert_eq!(count, 3);
    check_pieces(&open(folder.path()), TimeRange::ALL);
}

#[test]
fn bounds_that_do_not_fit_are_notes_and_events_that_step_back_are_damage() {
    // Bounds of the second packet, its events, and what there is to say.
    type Case = ((u64, u64), &'static [(u64, u8)], DamageKind, bool);
    let overlap = DamageKind::PacketOrder { begin: 12, end: 20 };
    const FAR: u64 = 1_000_021;
    let cases: [Case; 5] = [
        ((12, 40), &[(18, 1), (30, 2)], overlap.clone(), true),
        ((20, 40), &[(19, 1), (30, 2)], DamageKind::TimeBeforePacket { time: 19, begin: 20 }, true),
        ((20, 40), &[(30, 1), (41, 2)], DamageKind::TimeBehindPacket { time: 41, end: 40 }, true),
        (
            (20, 20),
            &[(20, 1), (FAR, 2)],
            DamageKind::TimeBehindPacket { time: FAR as i64, end: 20 },
            false,
        ),
        ((20, 40), &[(30, 1), (29, 2)], DamageKind::TimeBack { time: 29, before: 30 }, false),
    ];
    for ((begin, end), events, what, is_note) in cases {
        let first = tiny_packet(10, 20, &[0; 8], &[(12, 1), (18, 2)]);
        let second = tiny_packet(begin, end, &[0; 8], events);
        let folder = tiny(&[("s", [first, second].concat())]);
        let (damage, count) = one(folder.path());
        assert_eq!((&damage.what, damage.is_note(), count), (&what, is_note, 4));
        check_pieces(&open(folder.path()), TimeRange::ALL);
    }
    // An event that is before the last one in the packet in front.
    let first = tiny_packet(10, 20, &[0; 8], &[(12, 1), (18, 2)]);
    let second = tiny_packet(12, 40, &[0; 8], &[(17, 1), (17, 2), (30, 3)]);
    let folder = tiny(&[("s", [first, second].concat())]);
    let (damage, count) = damage(&open(folder.path()));
    let what: Vec<_> = damage.iter().map(|damage| damage.what.clone()).collect();
    assert_eq!(what, [overlap, DamageKind::TimeBack { time: 17, before: 18 }]);
    assert_eq!(count, 5);
    check_pieces(&open(folder.path()), TimeRange::ALL);
}

#[test]
fn event_before_the_one_in_front_of_it_is_shown() {
    let folder =
        tiny(&[("s", tiny_packet(10, 20, &[0; 8], &[(15, 1), (12, 2), (11, 3), (16, 4)]))]);
    let (damage, count) = one(folder.path());
    assert_eq!(damage.what, DamageKind::TimeBack { time: 12, before: 15 });
    assert_eq!(damage.offset, Some(44 + 9));
    assert_eq!(count, 4);
    check_pieces(&open(folder.path()), TimeRange::ALL);
}

#[test]
fn packets_out_of_order_are_shown() {
    let first = tiny_packet(10, 20, &[0; 8], &[(15, 1)]);
    let second = tiny_packet(30, 40, &[0; 8], &[(35, 2)]);
    let folder = tiny(&[("s", [second, first].concat())]);
    let (damage, count) = damage(&open(folder.path()));
    assert_eq!(damage[0].what, DamageKind::PacketOrder { begin: 10, end: 40 });
    assert_eq!(damage[1].what, DamageKind::TimeBack { time: 15, before: 35 });
    assert_eq!((damage[0].packet, damage.len(), count), (Some(1), 2, 2));
    check_pieces(&open(folder.path()), TimeRange::ALL);
}

#[test]
fn bytes_that_are_no_packets_are_one_damage() {
    let garbage = vec![0x5a; 300_000];
    let packet = tiny_packet(10, 20, &[0; 8], &[(15, 1)]);
    let folder = tiny(&[("s", [garbage.clone(), packet, garbage].concat())]);
    let (damage, count) = damage(&open(folder.path()));
    assert_eq!(count, 1);
    let found: Vec<_> = damage
        .iter()
        .map(|damage| match damage.what {
            DamageKind::Garbage { bytes, to_end, .. } => (bytes, to_end),
            _ => panic!("{damage}"),
        })
        .collect();
    assert_eq!(found, [(300_000, false), (300_000, true)]);
}

#[test]
fn malicious_hole_of_gigabytes_is_passed_over() {
    let packet = |begin| tiny_packet(begin, begin + 10, &[0; 8], &[(begin, 1)]);
    let folder = tiny(&[("s", packet(10))]);
    let file = fs::File::options().write(true).open(folder.path().join("s")).unwrap();
    // More than would be looked at if it were bytes.
    let (far, begun) = (3 << 30, Instant::now());
    file.set_len(far).unwrap();
    let first = packet(0).len() as u64;
    let (found, count) = one(folder.path());
    let DamageKind::Garbage { bytes, to_end: true, .. } = found.what else { panic!("{found}") };
    assert_eq!((bytes, count), (far - first, 1));
    // What is behind the hole is found.
    file.write_all_at(&packet(30), far - 100).unwrap();
    let (damage, count) = damage(&open(folder.path()));
    let DamageKind::Garbage { bytes, to_end: false, .. } = damage[0].what else {
        panic!("{damage:?}")
    };
    assert_eq!((bytes, count), (far - 100 - first, 2));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn malicious_file_full_of_magic_numbers_is_given_up() {
    let mut bytes = tiny_packet(10, 20, &[0; 8], &[(15, 1)]);
    let first = bytes.len() as u64;
    bytes.extend([0xc1, 0x1f, 0xfc, 0xc1].repeat(200_000));
    let folder = tiny(&[("s", bytes)]);
    let (damage, count) = one(folder.path());
    let DamageKind::NoPackets { looked, bytes, .. } = damage.what else { panic!("{damage}") };
    assert_eq!((damage.offset, bytes, count), (Some(first), 800_000, 1));
    assert!(looked < bytes, "{looked}");
    let text = damage.to_string();
    let said = format!(
        "No packet begins in the next {looked} bytes: skipped the 800000 bytes up to the end"
    );
    assert!(text.contains(&said), "{text}");
}

#[test]
fn message_of_one_byte_is_in_the_singular() {
    let _alone = without_children();
    let packet = tiny_packet(10, 20, &[0; 8], &[(15, 1)]);
    let folder = tiny(&[("s", [packet, vec![0x5a]].concat())]);
    let text = one(folder.path()).0.to_string();
    assert!(text.ends_with("Skipped 1 byte up to the end of the file"), "{text}");
}

/// The record is longer than what is held in memory.
#[test]
fn malicious_record_of_gigabytes_is_not_held() {
    let folder = Folder::new();
    let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
        event { name = e; fields := struct { integer { size = 64; align = 8; } n; \
        integer { size = 8; align = 8; } a[n]; }; };";
    fs::write(folder.path().join("metadata"), text).unwrap();
    let path = folder.path().join("s");
    fs::write(&path, (1_u64 << 30).to_le_bytes()).unwrap();
    // Zeros that take no room.
    fs::File::options().write(true).open(&path).unwrap().set_len(2 << 30).unwrap();
    let (damage, count) = one(folder.path());
    assert!(matches!(damage.what, DamageKind::TooLong { .. }), "{damage}");
    assert_eq!(count, 0);
}

#[test]
fn file_that_shrinks_while_it_is_read_is_damage() {
    let folder = Folder::new();
    let mut made = Made::new(1);
    let events = (0..20_000).map(|n| (1000 + n, n)).collect();
    made.packets[0][0].end = 30_000;
    made.packets[0][0].events = events;
    made.write(folder.path());
    let reader = open(folder.path());
    let mut events = reader.events(TimeRange::ALL);
    for _ in 0..10 {
        assert!(events.next().is_some());
    }
    fs::File::options()
        .write(true)
        .open(folder.path().join("channel_0"))
        .unwrap()
        .set_len(100_000)
        .unwrap();
    let (mut last, mut count) = (None, 0);
    while let Some(message) = events.next() {
        match message {
            Message::Event(_) => count += 1,
            Message::Damage(damage) => last = Some(damage.clone()),
            _ => {}
        }
    }
    assert!(count > 2000, "{count}");
    assert!(matches!(last.unwrap().what, DamageKind::Truncated { found: 100_000, .. }));
}

#[test]
fn file_that_is_gone_when_it_is_read_is_damage() {
    let folder = tiny(&[
        ("a", tiny_packet(10, 20, &[0; 8], &[(15, 1)])),
        ("b", tiny_packet(10, 20, &[0; 8], &[(16, 2)])),
    ]);
    let reader = open(folder.path());
    drop(reader);
    // More than stay open, so that the file is opened again.
    for n in 0..300 {
        let packet = tiny_packet(10, 20, &[0; 8], &[(15, 1)]);
        fs::write(folder.path().join(format!("c{n:03}")), packet).unwrap();
    }
    let reader = open(folder.path());
    fs::remove_file(folder.path().join("c299")).unwrap();
    let (damage, count) = damage(&reader);
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(matches!(damage[0].what, DamageKind::Unreadable { .. }), "{}", damage[0]);
    assert_eq!(count, 301);
}

#[test]
fn loss_of_the_end_of_a_file_leaves_all_whole_records() {
    let folder = Folder::new();
    let made = Made::new(4);
    made.write(folder.path());
    let path = folder.path().join("channel_0");
    let bytes = fs::read(&path).unwrap();
    // Where each record ends, by trying: the events that are whole in so many bytes.
    let mut before = 0;
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let reader = open(folder.path());
        let (damage, count) = damage(&reader);
        let whole = whole_events(&made, length);
        assert_eq!(count, whole + made.packets[1].iter().map(|it| it.events.len()).sum::<usize>());
        let boundary = is_boundary(&made, length);
        assert_eq!(damage.len(), usize::from(!boundary), "{length}: {damage:?}");
        assert!(count >= before);
        before = count;
        if length % 16 == 0 {
            check_pieces(&reader, TimeRange::ALL);
        }
    }
}

/// Events of the first stream that end in the first `length` bytes of its file.
fn whole_events(made: &Made, length: usize) -> usize {
    let mut begin = 0;
    let mut count = 0;
    for (number, packet) in (0..).zip(&made.packets[0]) {
        for take in 1..=packet.events.len() {
            let part =
                MadePacket { events: packet.events[..take].to_vec(), padding: 0, ..packet.clone() };
            count += usize::from(begin + made.packet(0, number, &part).len() <= length);
        }
        begin += made.packet(0, number, packet).len();
    }
    count
}

fn is_boundary(made: &Made, length: usize) -> bool {
    let mut end = 0;
    let sizes = (0..).zip(&made.packets[0]).map(|(number, it)| made.packet(0, number, it).len());
    let ends: Vec<usize> = sizes
        .map(|size| {
            end += size;
            end
        })
        .collect();
    length == 0 || ends.contains(&length)
}

/// Flips random bits: the reader must not panic or hang, and must show all untouched packets.
#[test]
fn malicious_bits_leave_all_other_packets() {
    let mut random = Random::new();
    let folder = Folder::new();
    let made = Made::new(6);
    made.write(folder.path());
    let path = folder.path().join("channel_0");
    let bytes = fs::read(&path).unwrap();
    let mut ends = Vec::new();
    for (number, packet) in (0..).zip(&made.packets[0]) {
        let begin = ends.last().copied().unwrap_or(0);
        ends.push(begin + made.packet(0, number, packet).len());
    }
    let file = fs::File::options().write(true).open(&path).unwrap();
    let flips = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
    let (begin, mut done, mut unsaid) = (Instant::now(), 0, 0);
    while done < flips && begin.elapsed() < Duration::from_secs(30) {
        done += 1;
        let at = random.below(bytes.len() as u64) as usize;
        let bit = random.below(8);
        file.write_all_at(&[bytes[at] ^ 1 << bit], at as u64).unwrap();
        let reader = open(folder.path());
        let found: HashSet<String> = texts(reader.events(TimeRange::ALL)).into_iter().collect();
        let touched = ends.iter().position(|&end| at < end).unwrap();
        let mut rest = made.clone();
        rest.packets[0][touched].events.clear();
        for expected in rest.texts() {
            assert!(found.contains(&expected), "byte {at} bit {bit}: {expected}: {found:?}");
        }
        // A header that was changed is not what it was; most changes of it are damage.
        let (damage, _) = damage(&reader);
        unsaid += u32::from(damage.is_empty());
        if done % 64 == 0 {
            check_pieces(&reader, TimeRange::ALL);
        }
        file.write_all_at(&bytes[at..=at], at as u64).unwrap();
    }
    println!("{done} bits, {unsaid} of them without damage");
}

/// Much at once, in all files, the metadata too: it ends, without a panic.
#[test]
fn malicious_files_end() {
    let mut random = Random::new();
    let rounds = if cfg!(debug_assertions) { 400 } else { 8000 };
    let begin = Instant::now();
    for _ in 0..rounds {
        if begin.elapsed() > Duration::from_secs(15) {
            break;
        }
        let folder = Folder::new();
        let made = Made::random(&mut random);
        made.write(folder.path());
        for _ in 0..=random.below(3) {
            damage_a_file(&mut random, folder.path());
        }
        if random.below(3) == 0 {
            let path = folder.path().join("metadata");
            let mut bytes = fs::read(&path).unwrap();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(7);
            fs::write(&path, bytes).unwrap();
        }
        if random.below(4) == 0 {
            made.write_index(folder.path(), Some(random.below(20) as usize));
        }
        let Ok(reader) = Reader::open(&[folder.path()]) else { continue };
        check_pieces(&reader, TimeRange::ALL);
        check_pieces(&reader, TimeRange { from: 900, to: 1500 });
        let _ = reader.span();
    }
}

/// Packets in any order: each is shown.
#[test]
fn malicious_order_of_packets_shows_all() {
    let mut random = Random::new();
    for _ in 0..50 {
        let folder = Folder::new();
        let made = Made::new(8);
        made.write(folder.path());
        let mut packets: Vec<_> =
            (0..).zip(&made.packets[0]).map(|(number, it)| made.packet(0, number, it)).collect();
        for last in (1..packets.len()).rev() {
            packets.swap(last, random.below(last as u64 + 1) as usize);
        }
        fs::write(folder.path().join("channel_0"), packets.concat()).unwrap();
        let reader = open(folder.path());
        let mut found = texts(reader.events(TimeRange::ALL));
        let mut expected = made.texts();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        check_pieces(&reader, TimeRange::ALL);
    }
}

/// The damage is reported before any packet of the stream was decoded, and another stream follows.
#[test]
fn damage_in_front_of_a_streams_first_packet_is_reported_by_run() {
    let folder = Folder::new();
    let made = Made::new(4);
    made.write(folder.path());
    fs::write(folder.path().join("channel_0"), b"no packet at all").unwrap();
    let reader = open(folder.path());
    let found = all_by_run(reader.events(TimeRange::ALL));
    assert_eq!(found, all(reader.events(TimeRange::ALL)));
    assert_eq!(found.iter().filter(|text| text.starts_with("damage")).count(), 1);
    let events: usize = made.packets[1].iter().map(|packet| packet.events.len()).sum();
    assert_eq!(found.iter().filter(|text| text.starts_with("event")).count(), events);
}

/// The records were discarded between two packets of a stream, of which the first ends before the range begins.
#[test]
fn loss_in_front_of_a_streams_first_packet_is_in_a_slice() {
    let none = [0; 8];
    let one = tiny_packet(700, 905, &none, &[(901, 1)]);
    let two = tiny_packet(800, 910, &none, &[(902, 2)]);
    let three = [
        tiny_packet(800, 850, &none, &[(820, 3)]),
        tiny_packet(950, 960, &3_u64.to_le_bytes(), &[(955, 4)]),
    ];
    let folder = tiny(&[("one", one), ("two", two), ("three", three.concat())]);
    let (reader, range) = (open(folder.path()), TimeRange { from: 900, to: 1500 });
    check_pieces(&reader, range);
    assert!(all(reader.events(range)).iter().any(|told| told.contains(" 3 Records")));
}

/// A damage behind a stream's last packet in front of the range, where a slice ends before that packet does:
/// another stream's packets are out of order.
#[test]
fn damage_in_front_of_the_range_of_a_stream_without_packets_in_it_is_in_a_slice() {
    let none = [0; 8];
    let turned =
        [tiny_packet(950, 990, &none, &[(960, 1)]), tiny_packet(800, 905, &none, &[(901, 2)])];
    let garbage = vec![0x5a; 100];
    let before = [tiny_packet(800, 850, &none, &[(820, 3)]), garbage].concat();
    let behind = [before.clone(), tiny_packet(1600, 1610, &none, &[(1605, 4)])].concat();
    for (bytes, said) in [(before, "up to the end"), (behind, "up to the next packet")] {
        let folder = tiny(&[("one", turned.concat()), ("two", bytes)]);
        let (reader, range) = (open(folder.path()), TimeRange { from: 900, to: 1500 });
        let told = all(reader.events(range));
        assert!(told[0].contains(said), "{told:?}");
        let slices: Vec<_> = reader.slices(range, 1).collect();
        assert!(slices.len() > 1 && all(reader.events_of(&slices[0])).is_empty());
        check_pieces(&reader, range);
    }
}
