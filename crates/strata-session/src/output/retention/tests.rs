use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use strata_ctf::end_mark::{EndMark, Ending};

use super::*;
use crate::output::folder::TraceFolder;
use crate::scratch_tests::Scratch;

/// Creates a folder of a session with a file of `bytes` bytes. The folder counts as finished unless the returned value
/// is kept.
fn leave(session: &str, made: Made, path: &Path, bytes: usize) -> TraceFolder {
    // Each is newer than those before it, whatever the clock of the file system can tell apart.
    static SECONDS: AtomicI64 = AtomicI64::new(1_000_000);
    let folder = TraceFolder::create(path).unwrap().made_by(Some(&SessionMark::new(session)), made);
    folder.begin().unwrap();
    fs::create_dir(path.join("user")).unwrap();
    fs::write(path.join("user/data"), vec![0; bytes]).unwrap();
    folder.end(&EndMark { ending: Ending::Ended, ..EndMark::default() }).unwrap();
    let time = rustix::fs::Timespec { tv_sec: SECONDS.fetch_add(1, Ordering::Relaxed), tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    let mark = path.join(strata_ctf::end_mark::FILE);
    rustix::fs::utimensat(rustix::fs::CWD, mark, &times, rustix::fs::AtFlags::empty()).unwrap();
    folder
}

fn leavings(count: Option<u64>, size: Option<u64>) -> Leavings {
    Leavings::new("web", Retention { count, size }, KeptFolders::default())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut all: Vec<String> =
        entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

#[test]
fn newest_of_all_kinds_stay_and_what_others_have_made_does() {
    let scratch = Scratch::new("retention");
    let at = |name: &str| scratch.0.join(name);
    for (name, made) in [
        ("strata-crash-1", Made::OfTrigger),
        ("by-hand", Made::Snapshot),
        ("strata-crash-2", Made::OfTrigger),
        ("web", Made::Trace),
        ("web-again1", Made::Trace),
        ("web-again2", Made::Trace),
        ("renamed", Made::Snapshot),
        ("other-trace", Made::Trace),
    ] {
        drop(leave("web", made, &at(name), 10));
    }
    drop(leave("other", Made::Snapshot, &at("of-another-session"), 10));
    // What a person has put there, or has renamed, copied or linked to.
    fs::create_dir(at("mine")).unwrap();
    fs::rename(at("renamed"), at("wanted")).unwrap();
    fs::create_dir(at("copy")).unwrap();
    let mark = strata_ctf::end_mark::FILE;
    fs::copy(at("by-hand").join(mark), at("copy").join(mark)).unwrap();
    let elsewhere = Scratch::new("elsewhere");
    drop(leave("web", Made::Snapshot, &elsewhere.0.join("link"), 10));
    symlink(elsewhere.0.join("link"), at("link")).unwrap();

    let all = leavings(Some(2), None);
    all.look_in(&scratch.0, Made::Snapshot);
    all.writes_to(&at("web-again2"));
    all.apply();
    let mut left = ["of-another-session", "mine", "wanted", "copy", "link", "other-trace"].to_vec();
    left.extend(["web-again1", "web-again2"]);
    left.sort_unstable();
    assert_eq!(names(&scratch.0), left);
    assert_eq!(names(&elsewhere.0), ["link"]);
    let status = all.status();
    assert_eq!((status.removed, &status.error), (4, &None));
    assert!(status.removed_bytes >= 40, "{status:?}");
}

#[test]
fn what_is_written_stays_and_is_not_counted() {
    let scratch = Scratch::new("retention-open");
    let open = leave("web", Made::Snapshot, &scratch.0.join("open"), 1);
    for name in ["a", "b"] {
        drop(leave("web", Made::Snapshot, &scratch.0.join(name), 1));
    }
    let all = leavings(Some(1), None);
    all.look_in(&scratch.0, Made::Snapshot);
    all.apply();
    assert_eq!(names(&scratch.0), ["b", "open"]);
    drop(open);
    crate::scratch_tests::wait_until_unlocked(&scratch.0.join("open"));
    all.apply();
    assert_eq!(names(&scratch.0), ["b"]);
}

#[test]
fn size_bounds_all_but_the_newest() {
    let scratch = Scratch::new("retention-size");
    let all = leavings(None, Some(100_000));
    all.look_in(&scratch.0, Made::OfTrigger);
    for (name, bytes, left) in [
        ("a", 40_000, &["a"][..]),
        ("b", 40_000, &["a", "b"]),
        ("c", 40_000, &["b", "c"]),
        ("d", 200_000, &["d"]),
        ("e", 1, &["e"]),
    ] {
        drop(leave("web", Made::OfTrigger, &scratch.0.join(name), bytes));
        all.apply();
        assert_eq!(names(&scratch.0), left);
    }
}

#[test]
fn without_a_word_only_snapshots_of_triggers_are_bounded() {
    let scratch = Scratch::new("retention-default");
    drop(leave("web", Made::Snapshot, &scratch.0.join("by-hand"), 1));
    drop(leave("web", Made::Trace, &scratch.0.join("web-again1"), 1));
    for number in 0..SNAPSHOTS_OF_TRIGGERS + 3 {
        drop(leave("web", Made::OfTrigger, &scratch.0.join(format!("t{number:03}")), 1));
    }
    let leaves = |asked, wanted| {
        let all = leavings(asked, None);
        all.look_in(&scratch.0, Made::OfTrigger);
        all.look_in(&scratch.0, Made::Snapshot);
        all.writes_to(&scratch.0.join("web"));
        // A process that another test starts has our locks until it runs its program: such folders stay for now.
        let until = Instant::now() + Duration::from_secs(60);
        all.apply();
        while names(&scratch.0).len() as u64 != wanted && Instant::now() < until {
            std::thread::yield_now();
            all.apply();
        }
        assert_eq!(names(&scratch.0).len() as u64, wanted, "{asked:?}");
    };
    leaves(Some(0), SNAPSHOTS_OF_TRIGGERS + 5);
    leaves(None, SNAPSHOTS_OF_TRIGGERS + 2);
    assert!(scratch.0.join("by-hand").exists() && !scratch.0.join("t002").exists());
    leaves(Some(3), 3);
}

#[test]
fn removal_that_was_interrupted_is_finished() {
    let scratch = Scratch::new("retention-half");
    drop(leave("web", Made::Snapshot, &scratch.0.join("old"), 1));
    drop(leave("web", Made::Snapshot, &scratch.0.join("new"), 1));
    fs::rename(scratch.0.join("old"), scratch.0.join(".strata-removing-old")).unwrap();
    fs::remove_dir_all(scratch.0.join(".strata-removing-old/user")).unwrap();
    let all = leavings(Some(1), None);
    all.look_in(&scratch.0, Made::Snapshot);
    all.apply();
    assert_eq!(names(&scratch.0), ["new"]);
}

#[test]
fn folder_that_was_there_before_is_not_marked() {
    let scratch = Scratch::new("retention-theirs");
    let path = scratch.0.join("theirs");
    fs::create_dir(&path).unwrap();
    drop(leave("web", Made::Snapshot, &path, 1));
    drop(leave("web", Made::Snapshot, &scratch.0.join("ours"), 1));
    drop(leave("web", Made::Snapshot, &scratch.0.join("ours2"), 1));
    let all = leavings(Some(1), None);
    all.look_in(&scratch.0, Made::Snapshot);
    all.apply();
    assert_eq!(names(&scratch.0), ["ours2", "theirs"]);
}

#[test]
fn folders_of_snapshots_are_noted_once_and_nonsense_is_nothing() {
    let written = std::sync::Arc::new(Mutex::new(Vec::new()));
    let write = || {
        let written = std::sync::Arc::clone(&written);
        Box::new(move |text: &str| {
            lock(&written).push(text.to_owned());
            Ok(())
        })
    };
    for text in ["", "{", "7", "{}"] {
        assert!(KeptFolders::new(text, write()).folders.is_empty(), "{text}");
    }
    let all = Leavings::new("web", Retention::default(), KeptFolders::new(r#"["/a"]"#, write()));
    for folder in ["/a", "/b", "/b", "/tmp/strata-snapshot-0123456789abcdef"] {
        all.look_in(Path::new(folder), Made::Snapshot);
    }
    assert_eq!(*lock(&written), [r#"["/a","/b"]"#]);
    for number in 0..2 * FOLDERS_MAX {
        all.look_in(Path::new(&format!("/{number}")), Made::Snapshot);
    }
    assert_eq!(lock(&all.state).by_hand.folders.len(), FOLDERS_MAX);
}

#[test]
fn marks_of_other_sessions_machines_kinds_and_names_differ() {
    let of = |session: &str, machine: &str, made, name: &str| {
        SessionMark::on(session, machine.as_bytes()).of(made, OsStr::new(name))
    };
    let all = [
        of("web", "m", Made::Trace, "x"),
        of("we", "bm", Made::Trace, "x"),
        of("web", "n", Made::Trace, "x"),
        of("web", "m", Made::Snapshot, "x"),
        of("web", "m", Made::OfTrigger, "x"),
        of("web", "m", Made::Trace, "y"),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}
