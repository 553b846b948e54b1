//! The metadata is whole at any time, and there before the packets that need it.

use crate::support::{attr, ways, Folder, Traced};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use strata_collect::Directory;
use strata_collect::ProducerState::Alive;
use strata_ring::producer::HeaderFormat;
use strata_ring::LossMode;

#[test]
fn set_metadata_while_it_is_read_never_shows_a_part() {
    let folder = Folder::new();
    let directory = Directory::create(&folder.path().join("t")).unwrap();
    let texts = ["a".repeat(100_000), "b".repeat(50_000)];
    directory.set_metadata(&texts[0]).unwrap();
    let stop = AtomicBool::new(false);
    let seen = [AtomicU32::new(0), AtomicU32::new(0)];
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let text = fs::read_to_string(directory.path().join("metadata")).unwrap();
                let which = texts.iter().position(|whole| *whole == text).expect("a whole text");
                seen[which].fetch_add(1, Ordering::Relaxed);
            }
        });
        // Until each was read: the reader may have no CPU for as long as many of them take.
        let has_seen_both = || seen.iter().all(|one| one.load(Ordering::Relaxed) > 0);
        let mut i = 0;
        while !reader.is_finished() && (i < 2000 || !has_seen_both()) {
            directory.set_metadata(&texts[i % 2]).unwrap();
            i += 1;
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn describe_is_asked_between_taking_a_packet_and_writing_it() {
    let folder = Folder::new();
    for publish in ways() {
        let name = format!("{publish:?}");
        let attr = attr(publish, LossMode::Discard);
        let mut t = Traced::bare(&folder, &name, attr, HeaderFormat::Compact);
        let (file, metadata) = (t.file(), t.path.join("metadata"));
        for n in 0..1000 {
            assert!(t.record(n));
        }
        let (mut asked, mut sizes) = (0, Vec::new());
        let text = strata_ctf::metadata::write(&crate::support::trace(HeaderFormat::Compact));
        let mut describe = || {
            asked += 1;
            sizes.push(fs::metadata(&file).map_or(0, |m| m.len()));
            (asked == 1 || asked == 3).then(|| format!("{text}\n/* {asked} */\n"))
        };
        t.collector.finish(Alive, &mut describe).unwrap();
        assert!(asked >= 3, "{asked}");
        // Nothing was there when it was first asked, and one packet more each time.
        assert_eq!(sizes[0], 0);
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        assert!(fs::read_to_string(metadata).unwrap().ends_with("/* 3 */\n"));
        if let Some(events) = t.events() {
            assert_eq!(events.len(), 1000);
        }
    }
}
