//! Producers that write nonsense into their memory, and producers that die.

use crate::support::{attr, babeltrace, packets, parse, ways, Folder, Traced};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use strata_collect::ProducerState::{Alive, Dead};
use strata_random::Random;
use strata_ring::producer::{stamp, HeaderFormat};
use strata_ring::{channel_bytes, LossMode, Publish};

/// Returns a place in what describes the packets of a stream, and something to put there.
fn damage(random: &mut Random, t: &Traced) -> (u64, [u8; 8]) {
    let control = 192 + 32 * t.attr.nr_subbufs + 64 * (t.attr.nr_subbufs + 1);
    let at = 4096 + u64::from(t.cpu) * stride(t) + random.below(control / 8) * 8;
    let value = match random.below(4) {
        0 => random.next(),
        1 => random.below(t.attr.subbuf_bytes * t.attr.nr_subbufs * 4),
        2 => u64::MAX - random.below(8192_u64),
        _ => crate::support::now(),
    };
    (at, value.to_ne_bytes())
}

/// Distance from one stream of the channel to the next \[byte\].
fn stride(t: &Traced) -> u64 {
    let with = |nr_cpus| channel_bytes(&strata_ring::Attr { nr_cpus, ..t.attr }).unwrap();
    with(2) - with(1)
}

fn size(t: &Traced) -> u64 {
    fs::metadata(t.file()).map_or(0, |m| m.len())
}

#[test]
fn malicious_bytes_anywhere_leave_whole_packets_in_order_and_bounded() {
    let (mut random, mut noticed) = (Random::new(), 0);
    for publish in ways() {
        for loss in [LossMode::Discard, LossMode::Overwrite] {
            for round in 0..150 {
                let folder = Folder::new();
                let mut t = Traced::new(&folder, "t", attr(publish, loss), HeaderFormat::Compact);
                // What one call may write: twice the buffer, and a header for each packet.
                let most = 2 * t.attr.nr_subbufs * (t.attr.subbuf_bytes + 84)
                    + 2 * 84
                    + t.attr.subbuf_bytes;
                for n in 0..random.below(1000) {
                    t.record(n);
                }
                // Goes on in its own process, and may well die of what is done to its memory.
                let _child = t.producer.spawn(u64::MAX).unwrap();
                for step in 0..30 {
                    for _ in 0..random.below(4) {
                        let (at, value) = damage(&mut random, &t);
                        t.producer.scribble(at, &value);
                    }
                    let before = size(&t);
                    if random.below(2) == 0 {
                        t.poll();
                    } else {
                        t.flush();
                    }
                    assert!(size(&t) - before <= 2 * most, "round {round}, step {step}");
                }
                t.finish(if round % 2 == 0 { Alive } else { Dead });
                noticed += u64::from(t.stats().damaged > 0);
                if t.file().exists() {
                    packets(&t.file());
                }
            }
        }
    }
    assert!(noticed > 100, "{noticed}");
}

#[test]
fn malicious_producer_that_scribbles_all_the_time_is_survived() {
    let mut random = Random::new();
    for publish in ways() {
        for loss in [LossMode::Discard, LossMode::Overwrite] {
            let folder = Folder::new();
            let mut t = Traced::new(&folder, "t", attr(publish, loss), HeaderFormat::Compact);
            let damage: Vec<_> = (0..1000).map(|_| damage(&mut random, &t)).collect();
            let Traced { producer, collector, .. } = &mut t;
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut at = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let (offset, value) = damage[at % damage.len()];
                        producer.scribble(offset, &value);
                        at += 1;
                    }
                });
                for _ in 0..300 {
                    collector.flush(&mut || None).unwrap();
                }
                collector.finish(Alive, &mut || None).unwrap();
                collector.finish(Dead, &mut || None).unwrap();
                stop.store(true, Ordering::Relaxed);
            });
            assert!(size(&t) < 1 << 30);
            if t.file().exists() {
                packets(&t.file());
            }
        }
    }
}

#[test]
fn malicious_packet_is_named_and_the_others_are_kept() {
    let folder = Folder::new();
    for publish in ways() {
        let name = format!("{publish:?}");
        let attr = attr(publish, LossMode::Discard);
        let mut t = Traced::new(&folder, &name, attr, HeaderFormat::Compact);
        // All at one time: of short headers it is known how many fill a packet.
        stamp(crate::support::now());
        for n in 0..1000 {
            assert!(t.record(n));
        }
        stamp(0);
        let frames = 4096 + u64::from(t.cpu) * stride(&t) + 192 + 32 * attr.nr_subbufs;
        t.producer.scribble(frames + 64 + 24, &(attr.subbuf_bytes + 1).to_ne_bytes());
        t.finish(Alive);
        let stats = t.stats();
        let inside = (attr.subbuf_bytes - 8) / 12;
        assert_eq!((stats.records, stats.damaged), (1000 - inside, 1));
        let damage = stats.damage.unwrap();
        let named = format!("stream {}: the packet at position 4096", t.cpu);
        assert!(damage.contains(&named), "{damage}");
        if let Some(events) = t.events() {
            let found: Vec<u64> = events.iter().map(|e| e.n).collect();
            let expected: Vec<u64> = (0..inside).chain(2 * inside..1000).collect();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn killed_producer_is_in_the_trace_up_to_its_last_published_record() {
    let mut random = Random::new();
    for publish in ways() {
        for loss in [LossMode::Discard, LossMode::Overwrite] {
            for _ in 0..12 {
                let folder = Folder::new();
                let mut t = Traced::new(&folder, "t", attr(publish, loss), HeaderFormat::Compact);
                let child = t.producer.spawn(u64::MAX).unwrap();
                let until = 1 + random.below(4000);
                while child.published() < until {
                    if random.below(3) == 0 {
                        t.flush();
                    } else {
                        t.poll();
                    }
                }
                let published = child.kill();
                t.finish(Dead);
                let stats = t.stats();
                assert_eq!((stats.damaged, stats.discarded.too_big), (0, 0), "{:?}", stats.damage);
                let Some((text, _)) = babeltrace(&t.path) else { return };
                let events = parse(&text);
                assert_eq!((events.len() as u64, 0), (stats.records, stats.uncounted_packets));
                assert!(events
                    .windows(2)
                    .all(|pair| { pair[0].n < pair[1].n && pair[0].time <= pair[1].time }));
                let last = events.last().unwrap().n + 1;
                assert!(last == published || last == published + 1, "{last} of {published}");
                if loss == LossMode::Discard {
                    assert_eq!(events.len() as u64, last);
                }
            }
        }
    }
}

#[test]
fn two_processes_on_all_cpus_have_every_record_once() {
    for publish in ways() {
        let folder = Folder::new();
        let mut t =
            Traced::new(&folder, "t", attr(publish, LossMode::Discard), HeaderFormat::Large);
        unpin();
        let children = [t.producer.spawn(20_000).unwrap(), t.producer.spawn(20_000).unwrap()];
        while children.iter().any(|child| child.published() < 20_000) {
            t.poll();
            if publish == Publish::ByPosition {
                t.flush();
            }
        }
        t.finish(Alive);
        assert_eq!((t.stats().records, t.stats().damaged), (40_000, 0));
        let Some((text, _)) = babeltrace(&t.path) else { return };
        let mut counts = vec![0; 20_000];
        for event in parse(&text) {
            counts[event.n as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count == 2));
    }
}

fn unpin() {
    let mut all = rustix::thread::CpuSet::new();
    for cpu in 0..std::thread::available_parallelism().map_or(1, usize::from).max(2) {
        all.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &all).unwrap();
}
