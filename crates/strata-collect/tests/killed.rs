//! The collector's program is killed: what it leaves are files of whole packets.

use crate::support::{attr, babeltrace, packets, ways, Folder, Traced};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use strata_random::Random;
use strata_ring::producer::HeaderFormat;
use strata_ring::{Attr, LossMode};

const KILLS: u64 = 100;
/// Number of traces that babeltrace2 reads.
const READ: u64 = 10;

/// Writes packets of many sizes as fast as it can, until it is killed.
#[test]
#[ignore = "run and killed by collector_killed_at_random_moments_leaves_whole_packets"]
fn child_collects_until_it_is_killed() {
    let parent = PathBuf::from(env::var_os("STRATA_TEST_FOLDER").expect("run by another test"));
    let folder = Folder::below(&parent);
    let mut random = Random::new();
    let ways = ways();
    let publish = ways[random.below(ways.len() as u64) as usize];
    let attr = Attr { subbuf_bytes: 65536, ..attr(publish, LossMode::Discard) };
    let mut t = Traced::new(&folder, "t", attr, HeaderFormat::Compact);
    let mut n = 0;
    loop {
        for _ in 0..random.below(5000) {
            // Discarded ones are counted: there is a packet without records first.
            if t.record(n) {
                n += 1;
            }
        }
        if random.below(2) == 0 {
            t.flush();
        } else {
            t.poll();
        }
        // A file of its own size for each kill, not too large to be read.
        if n > 3_000_000 {
            // Time: it is killed meanwhile.
            thread::sleep(Duration::from_secs(60));
        }
    }
}

fn spawn(folder: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([
        "--exact",
        "--ignored",
        "--nocapture",
        "killed::child_collects_until_it_is_killed",
    ]);
    command.env("STRATA_TEST_FOLDER", folder).env_remove("STRATA_SEED");
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Waits for the trace in `folder`.
fn trace(folder: &Path) -> PathBuf {
    let mut path = PathBuf::new();
    wait_until("a trace", || {
        let Some(Ok(entry)) = fs::read_dir(folder).unwrap().next() else { return false };
        path = entry.path().join("t");
        path.join("metadata").exists()
    });
    path
}

/// The files of its streams.
fn streams(path: &Path) -> impl Iterator<Item = PathBuf> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let streams =
        names.filter(|name| name != "metadata" && !name.as_encoded_bytes().starts_with(b"."));
    streams.map(|name| path.join(name)).collect::<Vec<_>>().into_iter()
}

fn wait_until(what: &str, mut is_there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the child has made no {what}");
        thread::yield_now();
    }
}

#[test]
fn collector_killed_at_random_moments_leaves_whole_packets() {
    let mut random = Random::new();
    let (mut files, mut found) = (0, 0);
    for round in 0..KILLS {
        let folder = Folder::new();
        let mut child = spawn(folder.path());
        let path = trace(folder.path());
        // The first packet of a file, which may not come so far, and some ten thousands.
        let upto = if round % 4 == 0 {
            500
        } else {
            wait_until("a file", || streams(&path).next().is_some());
            15_000
        };
        // Time: a random moment is what is tested.
        thread::sleep(Duration::from_micros(random.below(upto)));
        child.kill().unwrap();
        child.wait().unwrap();
        for file in streams(&path) {
            let here = packets(&file).len();
            assert!(here > 0, "{} is empty", file.display());
            (files, found) = (files + 1, found + here);
        }
        if round >= KILLS - READ {
            babeltrace(&path);
        }
    }
    println!("{found} packets in {files} files");
    assert!(files > KILLS / 2, "{files} files of {KILLS} children");
}
