//! Tests of the reasons for the end of a session, of their order, and of the notices until then.

use super::*;
use crate::record::command::Inherited;
use crate::report::{KERNEL, USER};
use crate::scratch_tests::Scratch;
use crate::session::disk::MinFree;
use std::ffi::OsString;
use std::io;
use strata_collect::Monitor;
use strata_model::TimeSource;

/// Returns a watch without processes or limits, which nothing ends.
fn watch<'a>(shared: &'a Shared, stop: &'a Stop) -> Watch<'a> {
    Watch::new(shared, stop, shared.time().now())
}

fn start(command: &[&str]) -> Running {
    let command: Vec<OsString> = command.iter().map(Into::into).collect();
    Running::start(&command, &[], &[], &Inherited::prepare().unwrap()).unwrap()
}

fn no_space() -> strata_collect::Error {
    let source = io::Error::from_raw_os_error(libc::ENOSPC);
    strata_collect::Error::NoSpace { path: "x".into(), source }
}

/// Waits for the end, and returns its reason and the notices.
fn ended(watch: &mut Watch<'_>) -> (EndReason, Vec<Notice>) {
    let mut notices = Vec::new();
    let end = watch.wait(&mut |notice| notices.push(notice), &mut |_| false);
    (end, notices)
}

#[test]
fn end_that_is_looked_at_first_is_the_one_that_is_reported() {
    let scratch = Scratch::new("watch-order");
    std::fs::write(scratch.0.join("x"), [0; 100]).unwrap();
    let low = LowSpace { free: 1, all: 100, min_free: MinFree::default() };
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut all = watch(&shared, &stop);
    all.space = Some(low);
    // All of them at once; each round takes the first one away.
    shared.set_nobody_left(true);
    stop.request(libc::SIGINT);
    all.limit = Some((100, DiskLimit::new(100, &scratch.0, shared.time())));
    all.deadline = Some(shared.time().now());
    let broken = all.wait(&mut |_| (), &mut |_| true);
    assert_eq!(broken, EndReason::Failure);
    assert_eq!(ended(&mut all).0, EndReason::Duration);
    all.deadline = None;
    assert_eq!(ended(&mut all).0, EndReason::Size { max_bytes: 100 });
    all.limit = None;
    assert_eq!(ended(&mut all).0, EndReason::Space(low));
    all.space = None;
    assert_eq!(ended(&mut all).0, EndReason::Asked(Some(libc::SIGINT)));
    let quiet = Stop::new();
    all.stop = &quiet;
    assert_eq!(ended(&mut all).0, EndReason::Processes);
    shared.fail("x".into());
    all.deadline = Some(shared.time().now());
    assert_eq!(ended(&mut all).0, EndReason::Failure);
}

/// An hour of waiting, which takes no time: it ends at its deadline, with a notice for each quarter of a second.
#[test]
fn deadline_ends_the_wait_and_progress_is_noted_until_then() {
    let time = TimeSource::manual(0);
    let (shared, stop) = (Shared::by_time(time.clone()).unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    let hour = Duration::from_secs(3600) + Duration::from_millis(30);
    watch.deadline = Some(watch.begin + hour);
    let (end, notices) = ended(&mut watch);
    assert_eq!(end, EndReason::Duration);
    // The last wait is the rest, and not a whole period.
    assert_eq!(time.elapsed(watch.begin), hour);
    let progress: Vec<Duration> = notices
        .iter()
        .map(|notice| match notice {
            Notice::Progress(progress) => progress.elapsed,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(progress.len(), 4 * 3600 + 1);
    let last = Duration::from_secs(3600);
    assert_eq!(
        (progress[0], progress[1], progress[14_400]),
        (Duration::ZERO, PROGRESS_PERIOD, last)
    );
}

/// Files other than packets are measured at their period, so that a trace which only grows in these ends as well.
#[test]
fn limit_is_reached_by_what_others_write_once_it_is_measured() {
    let scratch = Scratch::new("watch-others");
    let time = TimeSource::manual(0);
    let (shared, stop) = (Shared::by_time(time.clone()).unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    watch.limit = Some((100, DiskLimit::new(100, &scratch.0, shared.time())));
    assert_eq!(watch.look(false, &mut |_| ()), None);
    std::fs::write(scratch.0.join("metadata"), [0; 100]).unwrap();
    assert_eq!(ended(&mut watch).0, EndReason::Size { max_bytes: 100 });
    let waited = time.elapsed(watch.begin);
    assert!(waited > Duration::ZERO && waited <= Duration::from_secs(1), "{waited:?}");
}

#[test]
fn end_of_all_who_were_asked_for_is_seen_by_whoever_watches_them() {
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut of_kernel = watch(&shared, &stop);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    of_kernel.watched = Some(Watched::new(&[child.id()]).0);
    // What the registry says is not enough then: it knows those with tracepoints only.
    shared.set_nobody_left(true);
    assert!(!of_kernel.is_nobody_left());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(of_kernel.is_nobody_left());
    // What they have started is recorded to its end, where it has tracepoints.
    shared.set_nobody_left(false);
    assert!(!of_kernel.is_nobody_left());
    of_kernel.has_applications = false;
    assert!(of_kernel.is_nobody_left());
    of_kernel.has_applications = true;
    of_kernel.watched = None;
    assert!(!of_kernel.is_nobody_left());
}

#[test]
fn limit_that_is_not_reached_lets_the_session_go_on() {
    let scratch = Scratch::new("watch-limit");
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    watch.limit = Some((1000, DiskLimit::new(1000, &scratch.0, shared.time())));
    let counts = |bytes| crate::report::Counts { bytes, ..Default::default() };
    let (user, kernel) = (shared.add_layer(USER), shared.add_layer(KERNEL));
    user.set_counts(&counts(999));
    let mut rounds = 0;
    let end = watch.wait(
        &mut |notice| {
            assert!(matches!(notice, Notice::Progress(_)));
            rounds += 1;
            // The next look finds one byte more, of the other layer.
            kernel.set_counts(&counts(1));
        },
        &mut |_| false,
    );
    assert_eq!((end, rounds), (EndReason::Size { max_bytes: 1000 }, 1));
}

#[test]
fn progress_has_the_figures_and_no_processes_where_none_are_recorded() {
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    let discarded = crate::report::Discarded { full: 3, ..Default::default() };
    shared.add_layer(USER).set_counts(&crate::report::Counts {
        records: 1,
        bytes: 2,
        discarded,
        overwritten: 4,
        ..Default::default()
    });
    shared.process_came();
    let now = watch.begin + Duration::from_secs(5);
    let told = Progress {
        elapsed: Duration::from_secs(5),
        records: 1,
        bytes: 2,
        discarded: 3,
        overwritten: 4,
        memory: 0,
        processes: Some(1),
        ..Progress::default()
    };
    assert_eq!(watch.progress(now), told);
    watch.has_applications = false;
    assert_eq!(watch.progress(now), Progress { processes: None, ..told });
}

#[test]
fn layer_that_cannot_be_written_is_reported_once_and_ends_nothing() {
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    let (_user, kernel) = (shared.add_layer(USER), shared.add_layer(KERNEL));
    let mut notices = Vec::new();
    watch.tell_of_layer(&mut |notice| notices.push(notice));
    assert_eq!(notices, []);
    kernel.fail(&no_space());
    for _ in 0..2 {
        watch.tell_of_layer(&mut |notice| notices.push(notice));
    }
    let [Notice::LayerFailed { layer: "kernel", why }] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(why.contains("no space left") && why.contains("Make room"), "{why}");
    stop.request(0);
    assert_eq!(ended(&mut watch).0, EndReason::Asked(None));
}

#[test]
fn stop_is_once_a_question_to_the_command_and_twice_an_order() {
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    let running = start(&["sleep", "60"]);
    let pid = running.pid();
    watch.running = Some(running);
    let mut notices = Vec::new();
    let asked = |watch: &mut Watch<'_>, notices: &mut Vec<Notice>| {
        watch.asked(&mut |notice| notices.push(notice))
    };
    assert_eq!(asked(&mut watch, &mut notices), None);
    stop.request(libc::SIGINT);
    // Each request is told once, however often it is looked at. Ctrl-C is the whole group's: it is not passed on.
    for _ in 0..3 {
        assert_eq!(asked(&mut watch, &mut notices), None);
    }
    assert_eq!(notices, [Notice::WaitingForCommand { pid, passed_on: None }]);
    stop.request(libc::SIGTERM);
    let end = Some(EndReason::Asked(Some(libc::SIGTERM)));
    assert_eq!(asked(&mut watch, &mut notices), end);
    assert_eq!(notices.len(), 1);
    // Nobody has ended it; it is ours to end.
    watch.running.as_ref().unwrap().terminate().unwrap();
    shared.set_nobody_left(false);
    while !watch.running.as_mut().unwrap().wait(Duration::from_secs(5)).unwrap() {}
    // What has ended is not waited for: one request is enough.
    let once = Stop::new();
    once.request(libc::SIGHUP);
    watch.stop = &once;
    assert_eq!(asked(&mut watch, &mut notices), Some(EndReason::Asked(Some(libc::SIGHUP))));
}

#[test]
fn failure_outlasts_the_command_and_says_why_it_waits() {
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    let mut notices = Vec::new();
    // Without a command, there is nothing to wait for.
    watch.outlast(&mut |notice| notices.push(notice));
    assert_eq!(notices, []);
    let running = start(&["sh", "-c", "read line || exit 4"]);
    let pid = running.pid();
    watch.running = Some(running);
    shared.fail("no room".into());
    stop.request(libc::SIGTERM);
    watch.outlast(&mut |notice| notices.push(notice));
    let passed_on = Some(Ok(libc::SIGTERM));
    let failed = Notice::Failed { why: "no room".into(), command: pid };
    assert_eq!(notices[0], failed);
    if notices.len() > 1 {
        assert_eq!(notices[1..], [Notice::WaitingForCommand { pid, passed_on }]);
    }
    assert_ne!(watch.running.as_ref().unwrap().end(), CommandEnd::Running { pid });
    // It has ended: at once.
    notices.clear();
    watch.outlast(&mut |notice| notices.push(notice));
    assert_eq!(notices, []);
}

#[test]
fn end_of_the_command_ends_the_session_with_its_status() {
    let (shared, stop) = (Shared::new().unwrap(), Stop::new());
    let mut watch = watch(&shared, &stop);
    watch.running = Some(start(&["sh", "-c", "exit 3"]));
    let (end, notices) = ended(&mut watch);
    assert_eq!(end, EndReason::Command);
    assert_eq!(watch.running.as_ref().unwrap().end(), CommandEnd::Exited(3));
    assert!(notices.iter().all(|notice| matches!(notice, Notice::Progress(_))), "{notices:?}");
}
