//! Discarded and overwritten records: what the files say, and what babeltrace2 makes of it.

use crate::support::{attr, babeltrace, packets, parse, ways, Folder, Traced};
use strata_collect::ProducerState::Alive;
use strata_collect::StreamStats;
use strata_ctf::read::{DiscardedKind, Message, Reader, TimeRange};
use strata_ring::producer::HeaderFormat;
use strata_ring::{LossMode, Publish};

/// Number of discarded events that babeltrace2 warns of.
fn warned(talk: &str) -> u64 {
    let of = "Tracer discarded ";
    let number = |line: &str| -> u64 {
        let rest = &line[line.find(of).unwrap() + of.len()..];
        rest[..rest.find(' ').unwrap()].parse().unwrap()
    };
    assert!(!talk.contains("discarded packets") && !talk.contains(" packets"), "{talk}");
    talk.lines().filter(|line| line.contains(of)).map(number).sum()
}

#[test]
fn loss_in_discard_mode_is_in_the_trace_to_the_last_record() {
    let folder = Folder::new();
    for publish in ways() {
        let name = format!("{publish:?}");
        let attr = attr(publish, LossMode::Discard);
        let mut t = Traced::new(&folder, &name, attr, HeaderFormat::Compact);
        let mut written = Vec::new();
        for n in 0..10_000 {
            if t.record(n) {
                written.push(n);
            }
            if n % 3000 == 0 {
                t.poll();
            }
        }
        assert!(!t.producer.record(0, &[0; 5000]));
        t.finish(Alive);
        let stats = t.stats();
        assert_eq!(stats.records, written.len() as u64);
        assert_eq!((stats.discarded.full, stats.discarded.too_big), (10_000 - stats.records, 1));
        assert_eq!(packets(&t.file()).last().unwrap().2, stats.discarded.total());
        if let Some((text, talk)) = babeltrace(&t.path) {
            assert!(parse(&text).iter().map(|e| e.n).eq(written));
            assert_eq!(warned(&talk), stats.discarded.total());
        }
    }
}

#[test]
fn loss_of_every_record_still_makes_a_trace_that_says_so() {
    let folder = Folder::new();
    for publish in ways() {
        let name = format!("{publish:?}");
        let attr = attr(publish, LossMode::Discard);
        let mut t = Traced::new(&folder, &name, attr, HeaderFormat::Compact);
        for _ in 0..5 {
            assert!(!t.producer.record(0, &[0; 5000]));
        }
        t.finish(Alive);
        assert_eq!((t.stats().records, t.stats().packets, t.stats().discarded.too_big), (0, 2, 5));
        if let Some((text, talk)) = babeltrace(&t.path) {
            assert_eq!((text.as_str(), warned(&talk)), ("", 5));
        }
    }
}

#[test]
fn nothing_recorded_makes_no_files_but_metadata() {
    let folder = Folder::new();
    for publish in ways() {
        let name = format!("{publish:?}");
        let attr = attr(publish, LossMode::Discard);
        let mut t = Traced::new(&folder, &name, attr, HeaderFormat::Compact);
        t.flush();
        t.finish(Alive);
        assert_eq!(std::fs::read_dir(&t.path).unwrap().count(), 1);
        assert_eq!(t.stats(), StreamStats::default());
        assert!(t.collector.stats().is_empty());
    }
}

/// Overwrite mode, with reads and cuts now and then: each record is in the file or counted.
fn overwrite(publish: Publish, every: u64, cut: bool) {
    let folder = Folder::new();
    let attr = attr(publish, LossMode::Overwrite);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    for n in 0..20_000 {
        assert!(t.record(n));
        if n % every == every - 1 {
            if cut {
                t.flush();
            } else {
                t.poll();
            }
        }
    }
    t.finish(Alive);
    let stats = t.stats();
    assert_eq!(stats.records + stats.overwritten, 20_000, "{publish:?} {every} {cut}");
    assert_eq!((stats.damaged, stats.discarded.total()), (0, 0), "{:?}", stats.damage);
    assert!(stats.records > 0);
    let said = packets(&t.file()).last().unwrap().2;
    assert_eq!(said, stats.overwritten);
    if let Some((text, talk)) = babeltrace(&t.path) {
        let events = parse(&text);
        assert_eq!(events.len() as u64, stats.records);
        assert!(events.windows(2).all(|pair| pair[0].n < pair[1].n));
        assert_eq!(events.last().unwrap().n, 19_999);
        assert_eq!(warned(&talk), stats.overwritten);
    }
}

#[test]
fn loss_in_overwrite_mode_is_counted_to_the_last_record() {
    for publish in ways() {
        for every in [1, 7, 500, 1500, 3001, 30_000] {
            overwrite(publish, every, false);
            overwrite(publish, every, true);
        }
    }
}

/// Discarded records that this crate's reader finds in the stream of each file.
fn found(trace: &std::path::Path) -> Vec<(usize, u64)> {
    let reader = Reader::open(&[trace]).unwrap();
    assert!(reader.damage().is_empty());
    let mut events = reader.events(TimeRange::ALL);
    let mut all = Vec::new();
    while let Some(message) = events.next() {
        if let Message::Discarded(it) = message {
            assert_eq!(it.kind, DiscardedKind::Records);
            all.push((it.stream.id().unwrap() as usize, it.count));
        }
    }
    all
}

#[test]
fn loss_that_the_kernel_counted_is_the_first_streams_beside_its_own() {
    let folder = Folder::new();
    for loss_mode in [LossMode::Discard, LossMode::Overwrite] {
        let attr = attr(Publish::ByCommit, loss_mode);
        let mut t = Traced::new(&folder, &format!("{loss_mode:?}"), attr, HeaderFormat::Large);
        for n in 0..100 {
            assert!(t.record(n));
        }
        assert!(!t.producer.record(0, &[0; 5000]));
        t.collector.add_discarded(7);
        t.flush();
        t.collector.add_discarded(3);
        assert_eq!(t.stats().discarded.not_run, 10);
        t.finish(Alive);
        let bytes = std::fs::read(t.path.join("channel0_0")).unwrap();
        // Nothing is said twice.
        t.finish(Alive);
        assert_eq!(std::fs::read(t.path.join("channel0_0")).unwrap(), bytes);
        let stats = t.stats();
        assert_eq!((stats.records, stats.discarded.too_big, stats.discarded.not_run), (100, 1, 10));
        assert_eq!(stats.discarded.total(), 11);
        let first = &t.collector.stats()[0];
        assert_eq!((first.cpu, first.discarded.not_run), (0, 10));
        assert_eq!(found(&t.path).iter().map(|(_, count)| count).sum::<u64>(), 11);
        if let Some((text, talk)) = babeltrace(&t.path) {
            assert_eq!((parse(&text).len(), warned(&talk)), (100, 11));
        }
    }
}

#[test]
fn loss_that_the_kernel_counted_makes_a_file_of_the_first_stream() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Large);
    t.collector.add_discarded(u64::MAX - 1);
    t.collector.add_discarded(5);
    assert_eq!(t.stats().discarded.not_run, u64::MAX);
    t.finish(Alive);
    assert_eq!(packets(&t.path.join("channel0_0")).last().unwrap().2, u64::MAX);
    assert_eq!(found(&t.path), [(0, u64::MAX)]);
    // The metadata, and nothing of other streams.
    assert_eq!(std::fs::read_dir(&t.path).unwrap().count(), 2);
    assert_eq!(t.collector.stats().len(), 1);
}
