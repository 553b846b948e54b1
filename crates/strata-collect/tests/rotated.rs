//! A channel that goes to one trace after the other: each is one by itself, and together they have what was recorded.

use crate::support::{attr, events, now, packets, trace, ways, Event, Folder, Traced, UUID};
use strata_collect::ProducerState::Alive;
use strata_collect::{Collector, Directory, Files, Streams, TraceIdentity};
use strata_model::DiscardReason;
use strata_ring::producer::{stamp, HeaderFormat};
use strata_ring::LossMode;

fn next(folder: &Folder, name: &str, streams: Streams) -> Collector {
    let directory = Directory::create(&folder.path().join(name)).unwrap();
    let identity = TraceIdentity { uuid: UUID, stream_id: 0 };
    let sink = Box::new(Files::new(directory, "channel0"));
    let mut collector = Collector::of(sink, streams, identity);
    collector.set_metadata(&strata_ctf::metadata::write(&trace(HeaderFormat::Compact))).unwrap();
    collector
}

/// In the middle of a sub-buffer, in front of one, with records that found no room, and where there is nothing. All of it
/// happened some time ago: that a trace ends now says nothing of the next one.
#[test]
fn traces_of_one_channel_have_each_record_once_and_say_what_was_discarded_in_their_time() {
    for publish in ways() {
        let folder = Folder::new();
        let t = Traced::new(&folder, "0", attr(publish, LossMode::Discard), HeaderFormat::Compact);
        let Traced { producer, mut collector, cpu, .. } = t;
        let start = now().saturating_sub(3_600_000_000_000).max(1);
        let (mut n, mut written, mut absent) = (0u64, Vec::new(), Vec::new());
        // The buffers hold some 1300.
        for (number, records) in [7u64, 1, 500, 3000, 0, 2500, 900].into_iter().enumerate() {
            let (mut there, mut discarded) = (Vec::new(), 0);
            for _ in 0..records {
                stamp(start + n * 1000);
                match producer.record(0, &n.to_ne_bytes()) {
                    true => there.push(n),
                    false => discarded += 1,
                }
                n += 1;
            }
            collector.complete(&mut || None).unwrap();
            let (trace, streams) = collector.into_parts();
            assert_eq!(trace.counts.records, there.len() as u64, "{publish:?} {number}");
            written.push(there);
            absent.push(discarded);
            collector = next(&folder, &(number + 1).to_string(), streams);
        }
        assert!(absent.iter().any(|one| *one > 0) && absent.contains(&0));
        let (rest, rest_begin) = (n..n + 10, n);
        stamp(start + n * 1000);
        rest.clone().for_each(|n| assert!(producer.record(0, &n.to_ne_bytes())));
        stamp(0);
        written.push(rest.collect());
        absent.push(0);
        collector.finish(Alive, &mut || None).unwrap();
        let all = collector.stats();
        let found = (all[0].records, all[0].discarded.full, all[0].told, all[0].damaged);
        // Within the first and the last trace that had too many.
        let (first, last) = all[0].times.of(DiscardReason::Full).unwrap();
        assert!((start..now()).contains(&first) && (first..=now()).contains(&last), "{publish:?}");
        assert!(all[0].demand.bytes > 0, "{publish:?}");
        let sums = (written.iter().flatten().count() as u64, absent.iter().sum());
        assert_eq!(found, (sums.0, sums.1, sums.1, 0), "{publish:?}");
        for (number, (there, absent)) in written.iter().zip(&absent).enumerate() {
            let path = folder.path().join(number.to_string());
            let file = path.join(format!("channel0_{cpu}"));
            if there.is_empty() && *absent == 0 {
                assert!(!file.exists());
                continue;
            }
            // Their numbers begin at 0, as packets() checks, and so do counts.
            let packets = packets(&file);
            let (first, behind) = (packets[0].2, packets[packets.len() - 1].2);
            assert_eq!((first, behind), (0, *absent), "{publish:?} {number}");
            let all = match *absent {
                0 => events(&path),
                _ => crate::support::babeltrace(&path).map(|(text, talk)| {
                    assert!(talk.contains(&format!("discarded {absent} events")), "{talk}");
                    crate::support::parse(&text)
                }),
            };
            let Some(all) = all else { continue };
            assert_eq!(all.iter().map(|Event { n, .. }| *n).collect::<Vec<_>>(), *there);
            let time = |n: u64| start + n.min(rest_begin) * 1000;
            assert!(all.iter().all(|event| event.time == time(event.n)), "{publish:?} {number}");
        }
        drop((producer, collector));
    }
}
