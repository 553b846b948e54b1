//! Threads that were killed, or never came back, while they wrote a record: by commit, nobody knows how many
//! records are before it, and where it ends.

use crate::support::{attr, babeltrace, packets, parse, trace, Folder, Traced};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use strata_collect::ProducerState::{Alive, Dead};
use strata_ring::producer::HeaderFormat;
use strata_ring::{LossMode, Publish};

/// Five records, a slot that is never committed, and one behind it.
fn with_a_hole(folder: &Folder, name: &str, header: HeaderFormat) -> Traced {
    let t = Traced::new(folder, name, attr(Publish::ByCommit, LossMode::Discard), header);
    assert!((0..5).all(|n| t.record(n)));
    assert!(t.producer.abandon(8));
    assert!(t.record(5));
    t
}

#[test]
fn finish_of_dead_producer_counts_the_records_before_a_hole_and_says_how_much_is_behind() {
    let folder = Folder::new();
    for header in [HeaderFormat::Compact, HeaderFormat::Large] {
        let mut t = with_a_hole(&folder, &format!("{header:?}"), header);
        t.finish(Dead);
        let stats = t.stats();
        assert_eq!((stats.records, stats.uncounted_packets, stats.damaged), (5, 0, 0));
        assert_eq!(stats.unread_records, 1);
        // The hole and the record behind it, whose timestamps are short if nothing came in between.
        let short = if header == HeaderFormat::Compact { 12 } else { 14 };
        assert!((2 * short..2 * short + 20).contains(&stats.unpublished_bytes), "{stats:?}");
        if let Some(events) = t.events() {
            assert!(events.iter().map(|e| e.n).eq(0..5));
        }
    }
}

#[test]
fn finish_of_living_producer_with_a_hole_has_what_is_before_it() {
    let folder = Folder::new();
    let mut t = with_a_hole(&folder, "t", HeaderFormat::Compact);
    t.finish(Alive);
    let stats = t.stats();
    assert_eq!((stats.records, stats.uncounted_packets, stats.damaged), (5, 0, 0));
    assert_eq!(stats.unread_records, 1);
    // The sub-buffer was closed: its padding is in it.
    assert!((24..4096).contains(&stats.unpublished_bytes), "{stats:?}");
    if let Some(events) = t.events() {
        assert!(events.iter().map(|e| e.n).eq(0..5));
    }
}

#[test]
fn finish_with_a_hole_in_front_of_a_packet_says_so_and_writes_nothing() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    assert!(t.producer.abandon(8));
    t.finish(Dead);
    let all = t.collector.stats();
    assert_eq!((all.len(), all[0].packets, all[0].unread_records), (1, 0, 0));
    // Reserved from the packet's begin on, which has the time of its first record.
    assert_eq!(all[0].unpublished_bytes, 4 + 8);
    assert!(!t.file().exists());
}

#[test]
fn finish_without_classes_leaves_records_before_a_hole_uncounted() {
    let folder = Folder::new();
    let mut t = with_a_hole(&folder, "t", HeaderFormat::Compact);
    t.collector.set_classes(|| None);
    t.finish(Dead);
    assert_eq!((t.stats().records, t.stats().uncounted_packets, t.stats().packets), (0, 1, 1));
    if let Some(events) = t.events() {
        assert_eq!(events.len(), 5);
    }
}

#[test]
fn classes_are_asked_only_for_packets_that_nobody_counted() {
    let folder = Folder::new();
    let asked = Arc::new(AtomicU64::new(0));
    for (hole, expected) in [(false, 0), (true, 1)] {
        let attr = attr(Publish::ByCommit, LossMode::Discard);
        let mut t = Traced::new(&folder, &format!("{hole}"), attr, HeaderFormat::Compact);
        let count = Arc::clone(&asked);
        t.collector.set_classes(move || {
            count.fetch_add(1, Ordering::Relaxed);
            trace(HeaderFormat::Compact).streams.pop()
        });
        assert!((0..1000).all(|n| t.record(n)));
        assert!(!hole || t.producer.abandon(8));
        t.finish(Dead);
        assert_eq!((t.stats().records, asked.load(Ordering::Relaxed)), (1000, expected));
        assert!(packets(&t.file()).len() > 2);
    }
}

#[test]
fn record_of_no_class_before_a_hole_is_left_out_and_the_packet_counts_as_damaged() {
    let folder = Folder::new();
    for known in [0, 3] {
        let attr = attr(Publish::ByCommit, LossMode::Discard);
        let mut t = Traced::new(&folder, &format!("{known}"), attr, HeaderFormat::Compact);
        assert!((0..known).all(|n| t.record(n)));
        assert!(t.producer.record(7, b"nonsense"));
        assert!(t.record(3));
        assert!(t.producer.abandon(8));
        t.finish(Dead);
        let stats = t.stats();
        assert_eq!((stats.records, stats.uncounted_packets, stats.damaged), (known, 0, 1));
        let damage = stats.damage.unwrap();
        assert!(damage.contains("there is no class of id 7. Left out"), "{damage}");
        assert_eq!(t.file().exists(), known > 0);
        if let Some(events) = t.events() {
            assert!(events.iter().map(|e| e.n).eq(0..known));
        }
    }
}

#[test]
fn records_of_two_threads_around_a_hole_in_overwrite_mode_are_all_accounted_for() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Overwrite);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    assert!((0..5000).all(|n| t.record(n)));
    assert!(t.producer.abandon(8));
    // Not so many that the sub-buffer comes round again.
    assert!((5000..5600).all(|n| t.record(n)));
    t.finish(Dead);
    let stats = t.stats();
    assert_eq!((stats.uncounted_packets, stats.damaged), (0, 0), "{:?}", stats.damage);
    assert!(stats.unread_records > 0 && stats.overwritten > 0, "{stats:?}");
    assert_eq!(stats.records + stats.overwritten + stats.unread_records, 5600, "{stats:?}");
    if let Some((text, _)) = babeltrace(&t.path) {
        assert_eq!(parse(&text).len() as u64, stats.records);
    }
}
