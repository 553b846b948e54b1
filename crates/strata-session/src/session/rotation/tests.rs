//! Tests of automatic rotation, and of its effects on chunks.

use strata_collect::Monitor;
use strata_model::{Counts, TimeSource};

use super::*;
use crate::output::retention::Retention;
use crate::report::USER;
use crate::scratch_tests::Scratch;
use crate::session::disk::MinFree;

/// The rotations of a session, with a way to set what was recorded.
struct Bench {
    rotations: Rotations,
    shared: Arc<Shared>,
    /// Moved by hand.
    time: TimeSource,
    recorded: Box<dyn Fn(u64, u64)>,
    _scratch: Scratch,
}

fn bench(name: &str, rotation: Rotation, is_early: bool) -> Bench {
    let scratch = Scratch::new(name);
    let root = TraceFolder::create(&scratch.0.join("t")).unwrap();
    let chunks = ChunksOutput::new(root, "20260131-120000");
    let mut chunks = if is_early { chunks.early() } else { chunks };
    chunks.begin((rotation, Retention::default()), None).unwrap();
    let time = TimeSource::manual(0);
    let shared = Shared::by_time(time.clone()).unwrap();
    let voice = shared.add_layer(USER);
    let recorded = move |records, bytes| {
        voice.set_counts(&Counts { records, bytes, ..Counts::default() });
    };
    let rotations =
        Rotations::new(RotatedOutput::Folder(Arc::new(Mutex::new(chunks))), rotation, &time);
    Bench { rotations, shared, time, recorded: Box::new(recorded), _scratch: scratch }
}

const NEVER: u64 = 366 * 24 * 3_600_000;

#[test]
fn rotation_is_due_by_size_or_time_and_only_where_something_was_recorded() {
    let by = |size, time_ms| Rotation { size, time_ms, count: None };
    let some = |size| by(Some(size), None);
    for (rotation, is_early, records, bytes, wanted) in [
        (by(None, None), false, 9, 1 << 40, false),
        (some(100), false, 1, 99, false),
        (some(100), false, 1, 100, true),
        // Packets without a record in them are no reason.
        (some(100), false, 0, 1000, false),
        (by(None, Some(0)), false, 0, 0, false),
        (by(None, Some(0)), false, 1, 1, true),
        (by(None, Some(NEVER)), false, 1, 1 << 40, false),
        // Either of them.
        (by(Some(100), Some(NEVER)), false, 1, 100, true),
        (by(Some(100), Some(0)), false, 1, 1, true),
        // What is held in memory has no parts on the disk yet.
        (some(100), true, 1, 100, false),
    ] {
        let mut bench = bench("due", rotation, is_early);
        (bench.recorded)(records, bytes);
        let found = bench.rotations.is_due(&bench.shared);
        assert_eq!(found, wanted, "{rotation:?} {is_early} {records} {bytes}");
        bench.rotations.not_before = bench.time.now() + RETRY;
        assert!(!bench.rotations.is_due(&bench.shared), "one has failed just now");
        bench.time.pause(RETRY);
        assert_eq!(bench.rotations.is_due(&bench.shared), wanted, "and the next is due as before");
    }
}

#[test]
fn time_of_a_chunk_begins_anew_as_long_as_nothing_is_in_it() {
    let (minute, moment) = (Duration::from_secs(60), Duration::from_nanos(1));
    let mut bench =
        bench("since", Rotation { time_ms: Some(60_000), ..Rotation::default() }, false);
    // Nothing in it for an hour, looked at each minute.
    for _ in 0..60 {
        bench.time.pause(minute);
        assert!(!bench.rotations.is_due(&bench.shared));
    }
    bench.time.pause(minute - moment);
    (bench.recorded)(1, 1);
    assert!(!bench.rotations.is_due(&bench.shared), "a minute since it was last found empty");
    bench.time.pause(moment);
    assert!(bench.rotations.is_due(&bench.shared));
}

#[test]
fn rotation_waits_while_the_disk_is_full() {
    let mut bench = bench("room", Rotation { size: Some(100), ..Rotation::default() }, false);
    (bench.recorded)(1, 100);
    bench.shared.room().wait(MinFree::NONE);
    assert!(bench.shared.room().lacks(|| "full".into()));
    assert!(!bench.rotations.is_due(&bench.shared));
    bench.shared.room().is_there();
    assert!(bench.rotations.is_due(&bench.shared));
}

#[test]
fn trace_in_memory_is_full_by_its_size_and_one_on_the_disk_never() {
    for (is_early, bytes, wanted) in
        [(true, 0, false), (true, 4095, false), (true, 4096, true), (false, u64::MAX, false)]
    {
        let bench = bench("full", Rotation::default(), is_early);
        (bench.recorded)(1, bytes);
        assert_eq!(bench.rotations.is_full(4096, &bench.shared), wanted, "{is_early} {bytes}");
        assert_eq!(bench.rotations.is_early(), is_early);
    }
}

#[test]
fn failure_is_reported_once_and_who_asks_has_the_parts() {
    let mut bench = bench("tell", Rotation { count: Some(3), ..Rotation::default() }, false);
    let mut told = Vec::new();
    bench.rotations.tell(Some("no room".into()), &mut |notice| told.push(notice));
    assert!(bench.rotations.has_told);
    assert_eq!(told, [Notice::NotRotated { why: "no room".into() }]);
    (bench.recorded)(3, 30);
    let chunks = bench.rotations.chunks(&bench.shared).unwrap();
    let present = chunks.present.unwrap();
    assert_eq!((chunks.complete, present.number), (0, 1));
    assert_eq!((present.records, present.bytes), (Some(3), Some(30)));
    // Of a trace in one part there is nothing to tell.
    let mut bench = self::bench("tell-none", Rotation::default(), false);
    bench.rotations.tell(None, &mut |notice| panic!("{notice:?}"));
    assert_eq!(bench.rotations.chunks(&bench.shared), None);
}

#[test]
fn who_asked_for_a_rotation_that_never_began_is_reported_by_the_end_of_the_channel() {
    let mut bench = bench("join", Rotation::default(), false);
    let ((reply, heard), (other, heard_other)) = (channel(), channel());
    bench.rotations.ask(reply);
    bench.rotations.flush_to_disk(PathBuf::from("/nowhere"), other);
    assert_eq!(bench.rotations.asked.len(), 2);
    bench.rotations.join(&bench.shared, &mut |notice| panic!("{notice:?}"));
    assert!(heard.recv().is_err() && heard_other.recv().is_err());
}

#[test]
fn settling_where_no_folder_can_be_made_keeps_the_trace_in_memory() {
    let bench = bench("settle", Rotation::default(), true);
    let RotatedOutput::Folder(chunks) = bench.rotations.chunks.clone() else { panic!() };
    let here = lock(&chunks).path().to_owned();
    let above = bench._scratch.0.join("file");
    std::fs::write(&above, "x").unwrap();
    let why = begin_flushed(&chunks, &above).unwrap_err();
    assert!(why.starts_with("what is recorded stays in memory: "), "{why}");
    assert!(lock(&chunks).is_early() && lock(&chunks).path() == here);
    // There is nothing to copy then.
    assert_eq!(flush_to_disk(&chunks, None), Ok(None));
}
