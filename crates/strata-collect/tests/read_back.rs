//! What was recorded is what babeltrace2 reads.

use crate::support::{attr, now, packets, pin, ways, Event, Folder, Traced};
use strata_collect::ProducerState::{Alive, Dead};
use strata_ring::producer::{stamp, HeaderFormat};
use strata_ring::{LossMode, Publish};

/// Longer than the 27 bits of a short timestamp of a compact header [ns].
const PAUSE: u64 = 150_000_000;

/// An hour ago, or when the machine began. 0 would be the clock's own time.
fn long_ago() -> u64 {
    now().saturating_sub(3_600_000_000_000).max(1)
}

#[test]
fn poll_and_finish_of_many_packets_has_every_record_with_its_time() {
    let folder = Folder::new();
    for publish in ways() {
        for header in [HeaderFormat::Compact, HeaderFormat::Large] {
            let name = format!("{publish:?}-{header:?}");
            let mut t = Traced::new(&folder, &name, attr(publish, LossMode::Discard), header);
            let start = long_ago();
            // Not in the future, however short the machine has been running.
            let step = 1_000_003.min((now() - start) / 5000);
            for n in 0..5000 {
                stamp(start + n * step);
                assert!(t.record(n));
                if n % 500 == 0 {
                    t.poll();
                }
            }
            stamp(0);
            t.finish(Alive);
            let stats = t.stats();
            assert_eq!((stats.records, stats.discarded.total(), stats.damaged), (5000, 0, 0));
            assert_eq!(stats.packets, packets(&t.file()).len() as u64);
            assert_eq!(stats.bytes, std::fs::metadata(t.file()).unwrap().len());
            let expected = (0..5000).map(|n| Event { time: start + n * step, cpu: t.cpu, n });
            if let Some(events) = t.events() {
                assert_eq!(events, expected.collect::<Vec<_>>());
            }
        }
    }
}

/// Cuts after every record, pauses, whole and short timestamps, ids that need the long header.
fn cut_again_and_again(publish: Publish, header: HeaderFormat, pauses: &[u64]) {
    let folder = Folder::new();
    let mut t = Traced::new(&folder, "t", attr(publish, LossMode::Discard), header);
    let (mut time, mut expected) = (long_ago(), Vec::new());
    for n in 0..1500u64 {
        let next = time + pauses[n as usize % pauses.len()];
        // As many as there is room for since the machine began: nothing is recorded in the future.
        if next > now() {
            break;
        }
        time = next;
        stamp(time);
        assert!(t.producer.record(if n % 7 == 3 { 40 } else { 0 }, &n.to_ne_bytes()));
        expected.push(Event { time, cpu: t.cpu, n });
        if n % 3 == 0 {
            t.flush();
        }
    }
    stamp(0);
    t.flush();
    t.flush();
    t.finish(Alive);
    let stats = t.stats();
    let number = expected.len() as u64;
    assert_eq!((stats.records, stats.damaged), (number, 0), "{:?}", stats.damage);
    assert!(number > 0 && packets(&t.file()).len() as u64 >= number / 3);
    if let Some(events) = t.events() {
        assert_eq!(events, expected);
    }
}

#[test]
fn flush_by_position_with_pauses_cuts_packets_whose_short_times_can_be_decoded() {
    for publish in ways() {
        if publish == Publish::ByPosition {
            for header in [HeaderFormat::Compact, HeaderFormat::Large] {
                cut_again_and_again(publish, header, &[1000, PAUSE, 10, 70_000_000, 70_000_000]);
                cut_again_and_again(publish, header, &[(1 << 27) - 1, 1 << 27, (1 << 27) + 1]);
                cut_again_and_again(publish, header, &[1, 1 << 26, 1 << 32, (1 << 32) - 1]);
            }
        }
    }
}

#[test]
fn flush_in_real_time_with_pauses_has_every_record_once() {
    let folder = Folder::new();
    pin();
    for publish in ways() {
        let mut t = Traced::new(
            &folder,
            &format!("{publish:?}"),
            attr(publish, LossMode::Discard),
            HeaderFormat::Compact,
        );
        let mut times = Vec::new();
        for n in 0..12 {
            let before = now();
            assert!(t.record(n));
            times.push(before..=now());
            if n % 2 == 0 {
                t.flush();
            }
            // Time: a short timestamp cannot say a longer one, however long.
            std::thread::sleep(std::time::Duration::from_nanos(if n % 3 == 0 { PAUSE } else { 0 }));
        }
        t.finish(Alive);
        packets(&t.file());
        assert_eq!(t.stats().damaged, 0);
        if let Some(events) = t.events() {
            assert_eq!(events.iter().map(|e| e.n).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
            for (event, time) in events.iter().zip(&times) {
                assert!(time.contains(&event.time), "{time:?}: {event:?}");
            }
        }
    }
}

#[test]
fn flush_by_commit_of_a_producer_whose_clock_is_ahead_has_every_record_in_its_packet() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    let (mut time, mut expected) = (0, Vec::new());
    for n in 0..200u64 {
        // Half a millisecond, and a record in two nanoseconds.
        time = if n % 4 == 0 { (now() + 500_000).max(time + 1) } else { time + 2 };
        stamp(time);
        assert!(t.record(n));
        expected.push(Event { time, cpu: t.cpu, n });
        if n % 4 == 3 {
            t.flush();
        }
    }
    stamp(0);
    t.finish(Alive);
    assert_eq!((t.stats().records, t.stats().damaged), (200, 0));
    for (begin, end, _) in packets(&t.file()) {
        assert!(end >= begin + 6);
    }
    if let Some(events) = t.events() {
        assert_eq!(events, expected);
    }
}

#[test]
fn finish_of_dead_producer_has_what_was_published() {
    let folder = Folder::new();
    for publish in ways() {
        for loss in [LossMode::Discard, LossMode::Overwrite] {
            let name = format!("{publish:?}-{loss:?}");
            let mut t = Traced::new(&folder, &name, attr(publish, loss), HeaderFormat::Compact);
            for n in 0..100 {
                assert!(t.record(n));
                if n == 50 && publish == Publish::ByPosition {
                    t.flush();
                }
            }
            t.finish(Dead);
            assert_eq!((t.stats().records, t.stats().damaged), (100, 0));
            if let Some(events) = t.events() {
                assert_eq!(events.len(), 100);
            }
        }
    }
}
