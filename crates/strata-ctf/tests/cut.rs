//! A part of a trace as a smaller trace: what was chosen is read back as it was, by babeltrace2, too.

use std::fs;
use std::path::Path;
use strata_ctf::cut::{CutError, Cutter};
use strata_ctf::read::{Damage, DiscardedKind, Event, Message, Reader, TimeRange};
use strata_model::RecordHeader;
use strata_random::Random;

use crate::read_support::*;
use crate::support::*;

/// The content of a trace, for comparison: events by their time and debug text, and losses.
#[derive(Debug, Default, PartialEq, Clone)]
struct Told {
    events: Vec<(Option<u64>, String)>,
    /// Losses: count, kind, and whether at the begin.
    discarded: Vec<(u64, DiscardedKind, bool)>,
}

/// The events that `keep` chooses, of this time, as a trace in `to`.
fn cut(
    from: &Path,
    to: &Path,
    range: TimeRange,
    mut keep: impl FnMut(&Event<'_>) -> bool,
) -> Result<Told, CutError> {
    let reader = Reader::open(&[from]).unwrap();
    let mut cutter = Cutter::new(&reader, to, range)?;
    let mut told = Told::default();
    let mut events = reader.events(range);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) if keep(&event) => {
                cutter.event(&event)?;
                told.event(&event);
            }
            Message::Discarded(discarded) => {
                cutter.discarded(&discarded)?;
                told.discarded.push((discarded.count, discarded.kind, discarded.at_begin));
            }
            _ => {}
        }
    }
    cutter.finish()?;
    Ok(told)
}

impl Told {
    fn event(&mut self, event: &Event<'_>) {
        let class = event.class();
        let number = ["number", "v"].iter().find_map(|name| event.value(&class.find(name)?));
        self.events.push((event.cycles(), format!("{} {number:?}", class.name())));
    }

    /// Sorts losses, since streams have no order at one time.
    fn in_order(mut self) -> Told {
        self.discarded.sort_by_key(|it| (it.0, it.1 == DiscardedKind::Packets, it.2));
        self
    }

    fn of(trace: &Path) -> Told {
        Told::of_damaged(trace, &mut |damage| panic!("{damage}"))
    }

    fn of_damaged(trace: &Path, tell: &mut dyn FnMut(&Damage)) -> Told {
        let reader = Reader::open(&[trace]).unwrap();
        reader.damage().iter().for_each(&mut *tell);
        let mut told = Told::default();
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => told.event(&event),
                Message::Packet(_) => {}
                Message::Discarded(discarded) => {
                    told.discarded.push((discarded.count, discarded.kind, discarded.at_begin));
                }
                Message::Damage(damage) => tell(damage),
            }
        }
        told
    }
}

/// The times that babeltrace2 shows.
fn times_of(trace: &Path) -> Option<Vec<u64>> {
    let (text, _) = babeltrace_with_talk(&["--clock-cycles", "--no-delta"], &[trace])?;
    Some(text.lines().map(|line| line[1..21].parse().unwrap()).collect())
}

/// Compares the cut with the original trace, as Strata reads both.
fn check_ours(
    from: &Path,
    range: TimeRange,
    keep: impl FnMut(&Event<'_>) -> bool,
) -> (Told, Folder) {
    let to = Folder::new();
    let told = cut(from, to.path(), range, keep).unwrap();
    if !told.events.is_empty() {
        // Where gaps of two streams reach into the time that was asked for, both now begin with it.
        assert_eq!(Told::of(to.path()).in_order(), told.clone().in_order());
    }
    (told, to)
}

fn check(from: &Path, range: TimeRange, keep: impl FnMut(&Event<'_>) -> bool) -> Told {
    let (told, to) = check_ours(from, range, keep);
    if let Some(times) = times_of(to.path()) {
        assert_eq!(times, told.events.iter().filter_map(|event| event.0).collect::<Vec<_>>());
    }
    told
}

#[test]
fn any_events_of_any_trace_are_read_back_with_what_was_discarded() {
    let mut random = Random::new();
    let mut kept = 0;
    for turn in 0..12 {
        let mut made = Made::random(&mut random);
        made.rotate = turn % 3 == 0;
        let folder = Folder::new();
        made.write(folder.path());
        let one_in = 1 + random.below(4) * (turn % 4);
        let (from, length) = (400 + random.below(900) as i64, random.below(800) as i64);
        let range = match turn % 2 {
            0 => TimeRange::ALL,
            _ => TimeRange { from, to: from + length },
        };
        kept += check(folder.path(), range, |_| random.below(one_in) == 0).events.len();
    }
    assert!(kept > 50, "{kept} events");
}

#[test]
fn what_is_intact_of_damaged_traces_is_read_back() {
    let mut random = Random::new();
    for _ in 0..60 {
        let folder = Folder::new();
        Made::random(&mut random).write(folder.path());
        damage_a_file(&mut random, folder.path());
        if Reader::open(&[folder.path()]).is_err() {
            continue;
        }
        let to = Folder::new();
        match cut(folder.path(), to.path(), TimeRange::ALL, |_| true) {
            Ok(told) if !told.events.is_empty() => {
                let found = Told::of_damaged(to.path(), &mut |damage| {
                    // Times and ids may be anything, and nothing else.
                    let text = damage.to_string();
                    let is_allowed = ["time", "begin", "of stream"].map(|it| text.contains(it));
                    assert!(is_allowed.contains(&true), "{text}");
                });
                let sorted = |told: &Told| {
                    let mut events = told.events.clone();
                    events.sort();
                    events
                };
                assert_eq!(sorted(&found), sorted(&told));
            }
            Ok(_) => {}
            Err(CutError::Refused { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn time_that_a_short_header_cannot_say_any_more_is_reported_in_full() {
    for header in [RecordHeader::Compact, RecordHeader::Large] {
        let described = trace(header, vec![event(0, "e", vec![u64_field("number")])]);
        // Each is near the one before, and no two that are kept are near each other.
        let step = if header == RecordHeader::Compact { 100_000_000 } else { 4_000_000_000 };
        let times = || (0..40u64).map(|n| 1000 + n * step);
        let records = times().map(|time| record(header, 0, time, false, &time.to_ne_bytes()));
        let records: Vec<_> = records.collect();
        let mut packets = Packets::default();
        packets.add(span(1000, 1000 + 40 * step), &records, 0);
        let folder = Folder::new();
        write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
        let mut number = 0;
        let told = check(folder.path(), TimeRange::ALL, |_| {
            number += 1;
            number % 7 == 0
        });
        let wanted: Vec<u64> = times().skip(6).step_by(7).collect();
        assert_eq!(told.events.iter().filter_map(|event| event.0).collect::<Vec<_>>(), wanted);
    }
}

/// Headers have 16 bits of time and no others; packets' begins have so many.
const SHORT: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = ORDER;
  packet.header := struct { integer { size = 32; align = 8; } magic; }; };
clock { name = c; freq = 1000000000; };
stream {
  packet.context := struct {
    integer { size = 32; align = 8; map = clock.c.value; } BEGIN;
    integer { size = 32; align = 8; } content_size; integer { size = 32; align = 8; } packet_size;
    integer { size = 32; align = 8; } packet_seq_num; };
  event.header := struct { integer { size = 16; align = 8; map = clock.c.value; } timestamp; };
};
event { name = e; fields := struct { integer { size = 8; align = 8; } v; }; };";

/// Writes a trace whose packets begin at given times, with events 40,000 cycles apart.
fn short(order: &str, begin: &str, packets: &[(u64, u64)]) -> Folder {
    let folder = Folder::new();
    let text = SHORT.replace("ORDER", order).replace("BEGIN", begin);
    fs::write(folder.path().join("metadata"), text).unwrap();
    let put = |bytes: &mut Vec<u8>, value: u64, count: usize| {
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        bytes.extend(if order == "le" { &little[..count] } else { &big[8 - count..] });
    };
    let mut file = Vec::new();
    for (number, &(time, events)) in (0..).zip(packets) {
        let bits = (20 + events * 3) * 8;
        for value in [0xc1fc_1fc1, time, bits, bits, number] {
            put(&mut file, value, 4);
        }
        for event in 0..events {
            put(&mut file, time + event * 40_000, 2);
            put(&mut file, event, 1);
        }
    }
    fs::write(folder.path().join("stream"), file).unwrap();
    folder
}

#[test]
fn time_that_no_header_can_say_is_that_of_a_packet() {
    for order in ["le", "be"] {
        let folder = short(order, "timestamp_begin", &[(1000, 100), (5_000_000, 30)]);
        let mut number = 0;
        let told = check(folder.path(), TimeRange::ALL, |_| {
            number += 1;
            number % 5 == 0
        });
        assert_eq!(told.events.len(), 26);
        assert_eq!(told.events[1], (Some(1000 + 9 * 40_000), "e Some(Unsigned(9))".into()));
    }
}

#[test]
fn time_that_packets_cannot_say_either_is_reached_by_packets_without_events() {
    // babeltrace2 has each packet's begin anew from 0 on, and so does not read the original either.
    // Their times go round every 2^32 cycles, and the parts that are kept are three rounds apart.
    let packets: Vec<_> = (0..8).map(|n| (n * 2_000_000_000, 10)).collect();
    let folder = short("le", "timestamp_begin", &packets);
    let (told, _) =
        check_ours(folder.path(), TimeRange { from: 13_000_000_000, to: i64::MAX }, |_| true);
    assert_eq!(told.events.first().unwrap().0, Some(14_000_000_000));
    assert_eq!(told.discarded, []);
    let (told, _) = check_ours(folder.path(), TimeRange::ALL, |event| {
        event.cycles().is_some_and(|time| !(1_000_000_000..13_500_000_000).contains(&time))
    });
    assert_eq!(told.events.len(), 20);
}

#[test]
fn time_that_nothing_can_say_is_refused() {
    let folder = short("le", "some_time", &[(1000, 40)]);
    let text = fs::read_to_string(folder.path().join("metadata")).unwrap();
    let text = text.replace(" map = clock.c.value; } some_time", " } some_time");
    fs::write(folder.path().join("metadata"), text).unwrap();
    // From 0 on, all of it.
    check(folder.path(), TimeRange::ALL, |_| true);
    let (to, mut number) = (Folder::new(), 0);
    let found = cut(folder.path(), to.path(), TimeRange::ALL, |_| {
        number += 1;
        number % 5 == 0
    });
    let text = found.unwrap_err().to_string();
    assert!(text.starts_with("stream stream: time 161000 "), "{text}");
}

#[test]
fn packet_that_is_longer_than_what_is_collected_has_its_sizes() {
    let described = trace(RecordHeader::Compact, vec![event(0, "e", vec![u64_field("number")])]);
    let record = |n: u64| record(RecordHeader::Compact, 0, 1000 + n, false, &n.to_ne_bytes());
    let mut packets = Packets::default();
    for packet in 0..3 {
        let begin = packet * 30_000;
        let records: Vec<_> = (begin..begin + 30_000).map(record).collect();
        packets.add(span(1000 + begin, 31_000 + begin), &records, 100);
    }
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    let told = check(folder.path(), TimeRange::ALL, |event| event.cycles() != Some(5000));
    assert_eq!(told.events.len(), 89_999);
    let to = Folder::new();
    cut(folder.path(), to.path(), TimeRange::ALL, |_| true).unwrap();
    let bytes = |folder: &Folder| fs::read(folder.path().join("channel0_0")).unwrap();
    // All of it, but for the padding, which nobody needs.
    assert_eq!(bytes(&to).len() + 300, bytes(&folder).len());
}

#[test]
fn gap_in_front_of_the_part_is_not_reported_and_one_in_it_is() {
    let mut packets = Packets::default();
    let described = trace(RecordHeader::Compact, vec![event(0, "e", vec![u64_field("number")])]);
    let discarded = [2, 7, 7, 7, 12, 12];
    for (n, discarded) in (0u64..).zip(discarded) {
        let begin = 1000 + n * 1000;
        let record = record(RecordHeader::Compact, 0, begin + 500, false, &n.to_ne_bytes());
        let mut header = span(begin, begin + 900);
        header.discarded = discarded;
        if n == 3 {
            packets.skip(4);
        }
        packets.add(header, &[record], 0);
    }
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    let range = |from, to| TimeRange { from, to };
    let records = DiscardedKind::Records;
    let all = [
        (2, records, true),
        (5, records, false),
        (4, DiscardedKind::Packets, false),
        (5, records, false),
    ];
    for (range, wanted) in [
        (TimeRange::ALL, &all[..]),
        (range(1950, 1_000_000), &all[1..]),
        (range(3000, 1_000_000), &all[2..]),
        (range(5500, 1_000_000), &all[3..]),
        (range(6000, 1_000_000), &[]),
        // The last packet that was chosen ends before the gap does.
        (range(0, 1950), &all[..2]),
        (range(0, 1500), &all[..1]),
    ] {
        assert_eq!(check(folder.path(), range, |_| true).discarded, wanted, "{range:?}");
        // Where packets in it have no events, too.
        let odd = |event: &Event<'_>| event.cycles().is_some_and(|time| time / 1000 % 5 == 1);
        assert_eq!(check(folder.path(), range, odd).discarded, wanted, "{range:?}");
    }
}
