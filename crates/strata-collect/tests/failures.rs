//! Disk full, limits, folders gone: a typed error, whole packets on disk, and nothing else harmed.

use crate::support::{attr, packets, ways, Folder, Traced};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};
use strata_collect::ProducerState::{Alive, Dead};
use strata_collect::{Directory, Error};
use strata_ring::producer::HeaderFormat;
use strata_ring::{Attr, LossMode, Publish};

/// Runs an ignored test of this file in a process of its own, behind `prelude`, a shell command that
/// ends with "exec". `None`: the prelude is not possible here.
fn alone(test: &str, prelude: &str, folder: &Path) -> Option<String> {
    let script = format!("{prelude} \"$0\" --exact --ignored --nocapture \"$1\"");
    let exe = env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .arg(exe)
        .arg(format!("failures::{test}"))
        .env("STRATA_TEST_FOLDER", folder);
    let output = command.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(99) {
        println!("skip: not possible here: {err}");
        return None;
    }
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    Some(out)
}

/// In user and mount namespaces of its own, with a small file system on `folder`.
fn on_small_disk(test: &str, folder: &Path) -> Option<String> {
    let inner =
        "mount -t tmpfs -o size=64k none \"$STRATA_TEST_FOLDER\" || exit 99; exec \"$0\" \"$@\"";
    let prelude = format!("unshare -rm true || exit 99; exec unshare -rm sh -c '{inner}'");
    alone(test, &prelude, folder)
}

fn given_folder() -> PathBuf {
    env::var_os("STRATA_TEST_FOLDER").expect("run by another test").into()
}

/// Records until `file` cannot take more; what is there is whole, and the rest comes when `room` was made.
fn fill_up(folder: &Folder, publish: Publish, check: fn(&Error), room: impl FnOnce()) {
    let mut t = Traced::new(folder, "t", attr(publish, LossMode::Discard), HeaderFormat::Compact);
    let (mut written, mut failed) = (0u64, None);
    while failed.is_none() {
        for _ in 0..100 {
            assert!(t.record(written));
            written += 1;
        }
        assert!(written < 100_000);
        failed = t.collector.flush(&mut || None).err();
    }
    check(&failed.unwrap());
    let before = packets(&t.file()).len();
    let stats = t.stats();
    assert_eq!(
        (stats.packets, stats.bytes),
        (before as u64, fs::metadata(t.file()).unwrap().len())
    );
    assert!(stats.records < written);
    if let Some(events) = t.events() {
        assert_eq!(events.len() as u64, stats.records);
    }
    // Again: the same error, nothing more in the file.
    check(&t.collector.flush(&mut || None).unwrap_err());
    assert_eq!(packets(&t.file()).len(), before);
    // Given up: all that was written is in the file or counted.
    t.collector.give_up();
    assert_eq!(t.stats().records, stats.records);
    assert_eq!(t.stats().discarded.unwritten, written - stats.records);
    room();
    t.finish(Alive);
    assert!(packets(&t.file()).len() > before);
    assert_eq!((t.stats().records, t.stats().discarded.unwritten), (written, 0));
    if let Some(events) = t.events() {
        assert!(events.iter().map(|e| e.n).eq(0..written));
    }
}

#[test]
#[ignore = "run by write_beyond_the_limit_of_file_sizes_is_too_large_and_keeps_whole_packets"]
fn child_file_size_limit() {
    let old = getrlimit(Resource::Fsize);
    let folder = Folder::new();
    for publish in ways() {
        let limit = Rlimit { current: Some(20_000), maximum: old.maximum };
        let set = |limit: &Rlimit| {
            setrlimit(Resource::Fsize, Rlimit { current: limit.current, maximum: limit.maximum })
        };
        // The channel's memory is a file, too.
        let inner = Folder::below(folder.path());
        let mut once = Some(limit);
        let mut t =
            Traced::new(&inner, "warm", attr(publish, LossMode::Discard), HeaderFormat::Compact);
        assert!(t.record(0));
        t.finish(Alive);
        drop(t);
        fill_up_limited(
            &inner,
            publish,
            || set(&once.take().unwrap()).unwrap(),
            || set(&old).unwrap(),
        );
    }
}

/// [`fill_up`], with the limit set only once the channel is there.
fn fill_up_limited(folder: &Folder, publish: Publish, limit: impl FnOnce(), room: impl FnOnce()) {
    let mut t = Traced::new(folder, "t", attr(publish, LossMode::Discard), HeaderFormat::Compact);
    limit();
    let (mut written, mut failed) = (0u64, None);
    while failed.is_none() {
        for _ in 0..100 {
            assert!(t.record(written));
            written += 1;
        }
        assert!(written < 100_000);
        failed = t.collector.flush(&mut || None).err();
    }
    match failed.unwrap() {
        Error::TooLarge { path, bytes, .. } => {
            assert_eq!((path, bytes), (t.file(), fs::metadata(t.file()).unwrap().len()));
        }
        error => panic!("{error}"),
    }
    let before = packets(&t.file()).len();
    room();
    t.finish(Alive);
    assert!(packets(&t.file()).len() > before);
    if let Some(events) = t.events() {
        assert!(events.iter().map(|e| e.n).eq(0..written));
    }
}

#[test]
fn write_beyond_the_limit_of_file_sizes_is_too_large_and_keeps_whole_packets() {
    alone("child_file_size_limit", "exec", Path::new("/"));
}

#[test]
#[ignore = "run by write_to_a_full_disk_is_no_space_and_keeps_whole_packets"]
fn child_full_disk() {
    for publish in ways() {
        let folder = Folder::below(&given_folder());
        let ballast = given_folder().join("ballast");
        fs::write(&ballast, [1; 20_000]).unwrap();
        fill_up(
            &folder,
            publish,
            |error| assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
            || fs::remove_file(&ballast).unwrap(),
        );
    }
}

#[test]
#[ignore = "run by finish_of_dead_producer_on_a_full_disk_can_be_tried_again"]
fn child_full_disk_dead() {
    for publish in ways() {
        for records in [1000, 4000] {
            let folder = Folder::below(&given_folder());
            let attr = Attr { subbuf_bytes: 16384, ..attr(publish, LossMode::Discard) };
            let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
            assert!((0..records).all(|n| t.record(n)));
            let holes = u64::from(publish == Publish::ByCommit && t.producer.abandon(8));
            let ballast = given_folder().join("ballast");
            assert!(fs::write(&ballast, vec![1; 70_000]).is_err());
            for _ in 0..2 {
                let error = t.collector.finish(Dead, &mut || None).unwrap_err();
                assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            }
            fs::remove_file(&ballast).unwrap();
            t.finish(Dead);
            assert_eq!((t.stats().records, t.stats().damaged), (records, 0));
            // Once: with a short or a whole timestamp.
            assert!([12 * holes, 21 * holes].contains(&t.stats().unpublished_bytes));
            packets(&t.file());
        }
    }
}

#[test]
fn finish_of_dead_producer_on_a_full_disk_can_be_tried_again() {
    on_small_disk("child_full_disk_dead", Folder::new().path());
}

#[test]
fn write_to_a_full_disk_is_no_space_and_keeps_whole_packets() {
    on_small_disk("child_full_disk", Folder::new().path());
}

#[test]
#[ignore = "run by metadata_on_a_full_disk_is_no_space_and_keeps_the_old_one"]
fn child_metadata_full_disk() {
    let folder = Folder::below(&given_folder());
    let directory = Directory::create(&folder.path().join("t")).unwrap();
    directory.set_metadata("old").unwrap();
    let error = directory.set_metadata(&"x".repeat(100_000)).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_eq!(fs::read_to_string(directory.path().join("metadata")).unwrap(), "old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn metadata_on_a_full_disk_is_no_space_and_keeps_the_old_one() {
    on_small_disk("child_metadata_full_disk", Folder::new().path());
}

#[test]
#[ignore = "run by write_to_a_read_only_file_system_is_read_only"]
fn child_read_only() {
    let folder = Folder::below(&given_folder());
    let mut t = Traced::new(
        &folder,
        "t",
        attr(Publish::ByCommit, LossMode::Discard),
        HeaderFormat::Compact,
    );
    assert!(t.record(0));
    t.flush();
    let remount =
        |how: &str| Command::new("mount").args(["-o", how]).arg(given_folder()).status().unwrap();
    assert!(remount("remount,ro").success());
    assert!(t.record(1));
    let error = t.collector.flush(&mut || None).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let error = t.collector.set_metadata("new").unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(remount("remount,rw").success());
    t.finish(Alive);
    assert_eq!(t.stats().records, 2);
}

#[test]
fn write_to_a_read_only_file_system_is_read_only() {
    on_small_disk("child_read_only", Folder::new().path());
}

#[test]
fn folder_that_was_removed_is_gone() {
    let folder = Folder::new();
    for publish in ways() {
        for created in [false, true] {
            let name = format!("{publish:?}-{created}");
            let attr = attr(publish, LossMode::Discard);
            let mut t = Traced::new(&folder, &name, attr, HeaderFormat::Compact);
            if created {
                assert!(t.record(0));
                t.flush();
            }
            fs::remove_dir_all(&t.path).unwrap();
            assert!(t.record(1));
            let error = t.collector.flush(&mut || None).unwrap_err();
            assert!(matches!(error, Error::Gone { .. }), "{error}");
            let error = t.collector.set_metadata("new").unwrap_err();
            assert!(matches!(error, Error::Gone { .. }), "{error}");
        }
    }
}

#[test]
fn finish_when_the_folder_was_removed_and_nothing_is_left_to_write_is_gone() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    fs::remove_dir_all(&t.path).unwrap();
    let error = t.collector.finish(Alive, &mut || None).unwrap_err();
    assert!(matches!(error, Error::Gone { .. }), "{error}");
}

#[test]
fn file_of_the_same_name_is_not_written_to() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    let error = Directory::create(&t.path).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    let other = folder.path().join("other");
    fs::write(&other, "precious").unwrap();
    std::os::unix::fs::symlink(&other, t.file()).unwrap();
    assert!(t.record(0));
    let error = t.collector.flush(&mut || None).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(fs::read_to_string(other).unwrap(), "precious");
    // Out of the way: the packet is still there.
    fs::remove_file(t.file()).unwrap();
    t.finish(Alive);
    assert_eq!(t.stats().records, 1);
}

#[test]
fn file_that_became_a_folder_cannot_be_written() {
    let folder = Folder::new();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    assert!(t.record(0));
    t.flush();
    fs::remove_file(t.file()).unwrap();
    fs::create_dir(t.file()).unwrap();
    assert!(t.record(1));
    let error = t.collector.flush(&mut || None).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
}

#[test]
fn packet_before_any_metadata_is_not_written_and_stays() {
    let folder = Folder::new();
    for publish in ways() {
        let name = format!("{publish:?}");
        let attr = attr(publish, LossMode::Discard);
        let mut t = Traced::bare(&folder, &name, attr, HeaderFormat::Compact);
        assert!(t.record(0));
        let error = t.collector.flush(&mut || None).unwrap_err();
        assert!(matches!(error, Error::NoMetadata { .. }), "{error}");
        assert!(!t.file().exists());
        let text = strata_ctf::metadata::write(&crate::support::trace(HeaderFormat::Compact));
        t.collector.set_metadata(&text).unwrap();
        t.finish(Alive);
        assert_eq!(t.stats().records, 1);
    }
}

#[test]
#[ignore = "run by flush_without_memory_for_a_copy_is_an_error"]
fn child_without_memory() {
    let folder = Folder::new();
    let attr = Attr {
        subbuf_bytes: 1 << 28,
        nr_subbufs: 2,
        nr_cpus: 1,
        ..attr(Publish::ByPosition, LossMode::Discard)
    };
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    if t.cpu == 0 {
        assert!(t.record(0));
        let error = t.collector.flush(&mut || None).unwrap_err();
        assert!(matches!(error, Error::Ring { .. }), "{error}");
    }
}

#[test]
fn flush_without_memory_for_a_copy_is_an_error() {
    if ways().contains(&Publish::ByPosition) {
        alone("child_without_memory", "ulimit -v 1000000; exec", Path::new("/"));
    }
}
