use super::*;
use crate::options::Options;
use crate::options::{OptionsError, Rotation};
use crate::output::chunks::ChunksOutput;
use crate::output::describe::Machine;
use crate::output::folder::FolderError;
use crate::output::folder::{TimeStamp, TraceFolder};
use crate::output::retention::Retention;
use crate::plan::{Change, EnableEvents, LayerOf, PlanError, Transient, Until};
use crate::record::command::{CommandError, Running};
use crate::report::Report;
use crate::report::EVERY_TRACEPOINT;
use crate::report::{CommandEnd, EndReason};
use crate::report::{
    LayerReport, NotReached, ProcessReport, RecordingTarget, RuleReport, KERNEL, USER,
};
use crate::scratch_tests::Scratch;
use crate::session::disk::MinFree;
use crate::session::layer::{Context, LayerEnd};
use crate::session::lock::lock;
use crate::session::resources::Resources;
use crate::session::rotation::{RotatedOutput, Rotations};
use crate::session::shared_state::Shared;
use crate::session::state::SessionState;
use crate::session::wait_for_end::Watch;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use strata_collect::{Keep, Monitor};
use strata_ctf::end_mark::EndMark;
use strata_kernel::CallStacks;

/// Returns a folder for one test's trace that does not exist yet.
fn output(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("strata-record-test-{name}-{}", std::process::id()))
}

fn options(name: &str, command: &[&str]) -> Options {
    Options {
        output: Some(output(name)),
        command: command.iter().map(OsString::from).collect(),
        // A disk that is nearly full is no reason for a test to fail.
        min_free: MinFree::NONE,
        ..Options::default()
    }
}

/// Returns the plan of a recording of all tracepoints with these options.
fn plan(options: &Options) -> Plan {
    let mut plan = Plan::new(options.hold, options.output.clone());
    plan.transient = Transient {
        command: options.command.clone(),
        pids: options.pids.clone(),
        everyone: options.everyone,
        ..Transient::default()
    };
    plan.min_free = Some(options.min_free);
    plan.until = Until {
        duration_ms: options.duration.map(|time| u64::try_from(time.as_millis()).unwrap()),
        max_bytes: options.max_bytes,
    };
    let all = Change::EnableEvent(EnableEvents {
        layer: LayerOf::User,
        channel: None,
        rules: vec![EVERY_TRACEPOINT.to_owned()],
        filter: None,
        exclude: Vec::new(),
        stack: CallStacks::None,
        sample: None,
        probe: false,
        slower_ns: None,
        every: None,
        at_most: None,
    });
    let plan = plan.changed(&all).unwrap();
    Plan { num_subbuf: options.is_size_given.then_some(options.nr_subbufs), ..plan }
}

/// Ends our child process, which was left running.
fn end(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn recorded(options: &Options) -> (Report, Vec<Notice>) {
    asked_to_stop(options, &[])
}

/// Records, and sends these signals as soon as recording has started.
fn asked_to_stop(options: &Options, signals: &[i32]) -> (Report, Vec<Notice>) {
    asked_to_stop_and(options, signals, &mut |_, _| ())
}

/// Records like [`asked_to_stop`]. `also` gets each notice, with the notices before it.
fn asked_to_stop_and(
    options: &Options,
    signals: &[i32],
    also: &mut dyn FnMut(&Notice, &[Notice]),
) -> (Report, Vec<Notice>) {
    let (mut notices, stop) = (Vec::new(), Stop::new());
    let mut recording = record(plan(options), false, &stop, &mut |notice| {
        if matches!(notice, Notice::Started { .. }) {
            signals.iter().for_each(|&signal| stop.request(signal));
        }
        also(&notice, &notices);
        notices.push(notice);
    })
    .unwrap();
    assert!(!recording.detaching.is_going_on());
    (recording.report, notices)
}

#[test]
fn record_that_is_asked_to_stop_before_it_begins_does_not_run_the_command() {
    let ran = output("ran");
    let stop = Stop::new();
    stop.request(libc::SIGTERM);
    let options = options("before", &["touch", ran.to_str().unwrap()]);
    let error = record(plan(&options), false, &stop, &mut |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Stopped(Some(libc::SIGTERM))), "{error}");
    assert!(!ran.exists() && !output("before").exists());
}

#[test]
fn record_of_a_command_without_tracepoints_leaves_no_folder() {
    let options = options("plain", &["sh", "-c", "exit 3"]);
    let (report, notices) = recorded(&options);
    assert_eq!((report.end, report.asked), (EndReason::Command, RecordingTarget::Command));
    assert_eq!(report.command, Some(CommandEnd::Exited(3)));
    assert_eq!((report.output.as_ref(), report.failure.as_ref()), (None, None));
    assert_eq!(report.processes().count(), 0);
    assert_eq!(report.rules, [RuleReport { rule: "*:*".into(), matched: 0, similar: Vec::new() }]);
    assert!(matches!(notices[0], Notice::Started { command: Some(_), .. }));
    assert!(!output("plain").exists());
}

#[test]
fn record_that_cannot_begin_leaves_no_folder() {
    let options_of_none = options("absent", &["/no/such/command"]);
    let error = record(plan(&options_of_none), false, &Stop::new(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Command(CommandError::NotFound { .. })), "{error}");
    assert!(!output("absent").exists());

    let options = Options { nr_subbufs: 3, is_size_given: true, ..options("odd", &["true"]) };
    let error = record(plan(&options), false, &Stop::new(), &mut |_| ()).unwrap_err();
    let is_of_number = matches!(
        error,
        SessionError::Plan(PlanError::Sizes { why: OptionsError::Subbufs { .. }, .. })
    );
    assert!(is_of_number, "{error}");
    assert!(!output("odd").exists());

    let options = Options { output: Some("/dev/null".into()), ..Options::default() };
    let error = record(plan(&options), false, &Stop::new(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Folder(FolderError::NotFolder { .. })), "{error}");
}

#[test]
fn record_when_the_time_is_over_leaves_the_command_running() {
    let duration = Some(Duration::from_millis(300));
    let options = Options { duration, ..options("time", &["sleep", "600"]) };
    let (report, _) = recorded(&options);
    assert_eq!(report.end, EndReason::Duration);
    let Some(CommandEnd::Running { pid }) = report.command else { panic!("{report:?}") };
    // It may not have come so far yet.
    let limit = Instant::now() + Duration::from_secs(60);
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !state().contains("(sleep) S") && Instant::now() < limit {
        thread::yield_now();
    }
    let state = state();
    end(pid);
    assert!(state.contains("(sleep) S"), "{state}");
}

#[test]
fn record_when_asked_once_waits_for_the_command() {
    let waiting = |notice: &&Notice| matches!(notice, Notice::WaitingForCommand { .. });
    // The command ends when somebody has been told that it is waited for, and how far it is.
    let may_end = output("may-end");
    let script = r#"until [ -e "$0" ]; do sleep 0.02; done"#;
    let command = options("once", &["sh", "-c", script, may_end.to_str().unwrap()]);
    let (report, notices) = asked_to_stop_and(&command, &[libc::SIGINT], &mut |notice, before| {
        if matches!(notice, Notice::Progress(_)) && before.iter().any(|one| waiting(&one)) {
            std::fs::write(&may_end, "").unwrap();
        }
    });
    std::fs::remove_file(&may_end).unwrap();
    assert_eq!((report.end, report.command), (EndReason::Command, Some(CommandEnd::Exited(0))));
    assert_eq!(notices.iter().filter(waiting).count(), 1);
}

#[test]
fn record_when_asked_by_sigterm_passes_it_on_to_the_command() {
    let (report, notices) = asked_to_stop(&options("passed", &["sleep", "60"]), &[libc::SIGTERM]);
    let ended = Some(CommandEnd::Signalled(libc::SIGTERM));
    assert_eq!((report.end, report.command), (EndReason::Command, ended));
    let passed_on = notices.iter().find_map(|notice| match notice {
        Notice::WaitingForCommand { passed_on, .. } => Some(passed_on.clone()),
        _ => None,
    });
    assert_eq!(passed_on, Some(Some(Ok(libc::SIGTERM))));
    assert_eq!(notices.last(), Some(&Notice::Stopping));
}

#[test]
fn record_when_asked_twice_stops_at_once() {
    let signals = [libc::SIGINT, libc::SIGTERM];
    let (report, _) = asked_to_stop(&options("twice", &["sleep", "600"]), &signals);
    assert_eq!(report.end, EndReason::Asked(Some(libc::SIGTERM)));
    let Some(CommandEnd::Running { pid }) = report.command else { panic!("{report:?}") };
    end(pid);
}

#[test]
fn record_of_a_process_without_tracepoints_says_that_it_was_not_reached() {
    // Of its own: other tests of this process have memory of the kind that is looked for.
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleeper.id();
    let options = Options { pids: vec![pid], ..options("self", &[]) };
    // As long as it lives, it may start a program that has some.
    let (report, _) = asked_to_stop_and(&options, &[], &mut |notice, _| {
        if matches!(notice, Notice::Started { .. }) {
            sleeper.kill().unwrap();
        }
    });
    sleeper.wait().unwrap();
    assert_eq!((report.end, report.asked), (EndReason::Processes, RecordingTarget::Processes));
    let [unreached] = &report.not_reached[..] else { panic!("{:?}", report.not_reached) };
    assert_eq!(unreached.pid, pid);
    assert!(unreached.reason.contains("no tracepoints"), "{unreached:?}");
    assert!(!output("self").exists());
}

#[test]
fn record_of_everyone_ends_when_asked_once() {
    let (report, _) = asked_to_stop(&options("everyone", &[]), &[0]);
    assert_eq!((report.end, report.asked), (EndReason::Asked(None), RecordingTarget::Everyone));
    if let Some(path) = report.output {
        std::fs::remove_dir_all(path).unwrap();
    }
}

/// The parts of a session that its report is made from.
struct Ended<'a> {
    options: &'a Options,
    inherited: Inherited,
    resources: Resources,
    stop: &'a Stop,
}

/// Returns a session that has not begun, with these options and this folder.
fn setup<'a>(options: &'a Options, stop: &'a Stop, path: &Path) -> Ended<'a> {
    let folder = Arc::new(Mutex::new(ChunksOutput::new(
        TraceFolder::create(path).unwrap(),
        "20260131-235959",
    )));
    let context = Arc::new(Context {
        slots: None,
        kept: None,
        is_again: false,
        before: Vec::new(),
        shared: Shared::new().unwrap(),
        machine: Machine::new(options.mode, options.version),
        created: TimeStamp::now().unwrap().iso,
        output: Arc::clone(&folder) as Arc<_>,
        keep: Keep::Write { flush: Duration::ZERO },
    });
    let inherited = Inherited::prepare().unwrap();
    let rotations = Some(RefCell::new(Rotations::new(
        RotatedOutput::Folder(Arc::clone(&folder)),
        Rotation::default(),
        context.shared.time(),
    )));
    let resources = Resources {
        context,
        folder: Some(folder),
        snapshots: RefCell::default(),
        has_guests: false,
        is_relayed: false,
        leavings: None,
        min_free: MinFree::NONE,
        rotations,
        remote: None,
        snapshot_to: None,
    };
    Ended { options, inherited, resources, stop }
}

/// Returns the watch of a session that ended at once.
fn watch<'a>(setup: &'a Ended<'a>, running: Option<Running>) -> Watch<'a> {
    let elapsed = Duration::from_secs(7);
    Watch {
        running,
        elapsed,
        ..Watch::new(
            &setup.resources.context.shared,
            setup.stop,
            setup.resources.context.shared.time().now(),
        )
    }
}

/// Returns the result of the layer of applications.
fn found(processes: Vec<ProcessReport>) -> LayerEnd {
    LayerEnd {
        report: LayerReport { layer: USER, processes, ..LayerReport::default() },
        ..LayerEnd::default()
    }
}

/// Returns that no process is missing, and that the kernel's layer exists.
fn nothing_else() -> (Vec<NotReached>, Report) {
    (Vec::new(), Report::default())
}

/// Returns the end mark in a folder.
fn mark_in(folder: &Path) -> Option<EndMark> {
    let bytes = std::fs::read(folder.join(strata_ctf::end_mark::FILE)).ok()?;
    Some(EndMark::decode(&bytes).unwrap())
}

#[test]
fn report_says_what_was_asked_for_whoever_else_was_there() {
    use RecordingTarget::{Command, Everyone, Processes};
    for (command, pids, everyone, asked) in [
        (&["true"][..], vec![], false, Command),
        (&[], vec![7], false, Processes),
        (&[], vec![], false, Everyone),
        (&["true"], vec![], true, Everyone),
    ] {
        let scratch = Scratch::new("report-asked");
        let options = Options { pids, everyone, ..options("unused", command) };
        let stop = Stop::new();
        let setup = setup(&options, &stop, &scratch.0.join("t"));
        let watch = watch(&setup, None);
        let rules = vec![RuleReport { rule: "a:*".into(), matched: 3, similar: Vec::new() }];
        let ended = vec![LayerEnd { rules: rules.clone(), ..found(Vec::new()) }];
        let report = setup
            .resources
            .report(setup.options, &watch, EndReason::Duration, ended, nothing_else())
            .report;
        assert_eq!((report.asked, report.end), (asked, EndReason::Duration));
        assert_eq!((report.output, report.elapsed), (None, Duration::from_secs(7)));
        assert_eq!(report.rules, rules);
    }
}

#[test]
fn report_without_applications_has_no_rules_and_no_layer() {
    let scratch = Scratch::new("report-none");
    let (options, stop) = (Options::default(), Stop::new());
    let setup = setup(&options, &stop, &scratch.0.join("t"));
    let watch = Watch { has_applications: false, ..watch(&setup, None) };
    let report = setup
        .resources
        .report(setup.options, &watch, EndReason::Asked(None), Vec::new(), nothing_else())
        .report;
    assert!(report.rules.is_empty() && report.layers.is_empty());
    assert!(!report.has_applications() && report.kernel.is_none() && report.command.is_none());
}

#[test]
fn hidden_processes_are_remarks_where_others_were_recorded_and_else_not_reached() {
    for (is_recorded, counts) in [(false, (2, 0)), (true, (1, 1))] {
        let scratch = Scratch::new("report-hidden");
        let (options, stop) = (Options::default(), Stop::new());
        let setup = setup(&options, &stop, &scratch.0.join("t"));
        let one = |reason: &str| NotReached { reason: reason.into(), pid: 5, name: String::new() };
        let processes = match is_recorded {
            true => vec![ProcessReport { folder: Some("x".into()), ..Default::default() }],
            false => Vec::new(),
        };
        let found = LayerEnd {
            not_reached: vec![one("no")],
            hidden: vec![one("perhaps")],
            ..found(processes)
        };
        let watch = watch(&setup, None);
        let report = setup
            .resources
            .report(setup.options, &watch, EndReason::Processes, vec![found], nothing_else())
            .report;
        assert_eq!((report.not_reached.len(), report.remarks.len()), counts);
        assert!(!is_recorded || report.remarks == ["perhaps"]);
        assert_eq!(report.output.is_some(), is_recorded);
    }
}

#[test]
fn descendants_that_run_on_are_reported_and_holders_of_the_socket_only_where_there_are_none() {
    let process = |pid, is_alive, selected| ProcessReport {
        pid,
        is_alive,
        selected,
        ..ProcessReport::default()
    };
    let scratch = Scratch::new("report-left");
    let stop = Stop::new();
    for (number, (everyone, end, alive, left, remarks)) in [
        (false, EndReason::Command, true, vec![5], 0),
        (false, EndReason::Command, false, vec![], 1),
        // It was not the command's end that ended the recording.
        (false, EndReason::Duration, false, vec![], 0),
        // All are recorded: who runs on is no news.
        (true, EndReason::Command, true, vec![], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let options = Options { everyone, ..options("unused", &["true"]) };
        let setup = setup(&options, &stop, &scratch.0.join(number.to_string()));
        let running = Running::start(&options.command, &[], &[], &setup.inherited).unwrap();
        let command = running.pid();
        // The command itself, one of which nothing was selected, and one that counts.
        let processes = vec![process(command, true, 9), process(4, true, 0), process(5, alive, 1)];
        let found = LayerEnd { holders: vec!["tail (77)".into()], ..found(processes) };
        let watch = watch(&setup, Some(running));
        let report =
            setup.resources.report(setup.options, &watch, end, vec![found], nothing_else()).report;
        assert_eq!((report.left_running, report.remarks.len()), (left, remarks), "{number}");
        if let Some(remark) = report.remarks.first() {
            assert!(remark.starts_with("tail (77) runs on and is not recorded"), "{remark}");
        }
    }
}

#[test]
fn failure_of_all_is_the_end_and_of_one_layer_is_not() {
    let no_space = || {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        strata_collect::Error::NoSpace { path: "x".into(), source }
    };
    for (both, end, layer) in
        [(false, EndReason::Duration, Some(KERNEL)), (true, EndReason::Failure, None)]
    {
        let scratch = Scratch::new("report-failure");
        let (options, stop) = (Options::default(), Stop::new());
        let path = scratch.0.join("t");
        let setup = setup(&options, &stop, &path);
        let shared = &setup.resources.context.shared;
        let (user, kernel) = (shared.add_layer(USER), shared.add_layer(KERNEL));
        kernel.fail(&no_space());
        if both {
            user.fail(&no_space());
        }
        lock(setup.resources.folder.as_ref().unwrap())
            .begin((Rotation::default(), Retention::default()), None)
            .unwrap();
        std::fs::create_dir(path.join("user")).unwrap();
        let processes =
            vec![ProcessReport { folder: Some("x".into()), unmarked: 4, ..Default::default() }];
        let watch = watch(&setup, None);
        let ended = vec![found(processes)];
        let report = setup
            .resources
            .report(setup.options, &watch, EndReason::Duration, ended, nothing_else())
            .report;
        assert_eq!((report.end, report.failed_layer, report.output), (end, layer, Some(path)));
        assert!(report.failure.unwrap().contains("no space left"));
        let mark = mark_in(&scratch.0.join("t")).unwrap();
        assert_eq!((mark.ending.word(), mark.losses.unwritten), ("no-space", 4));
    }
}

#[test]
fn mark_of_a_folder_in_which_nothing_is_and_nothing_is_missing_is_not_written() {
    let unmarked = |unmarked| LayerReport {
        layer: USER,
        processes: vec![ProcessReport { unmarked, ..ProcessReport::default() }; 2],
        ..LayerReport::default()
    };
    let (options, stop) = (Options::default(), Stop::new());
    for (number, (missing, is_recorded, fails, wanted)) in [
        (0, false, false, None),
        (0, true, false, Some(("duration", 0))),
        (3, false, false, Some(("duration", 6))),
        (0, false, true, Some(("failed", 0))),
        // Numbers of processes, which may lie.
        (u64::MAX, false, false, Some(("duration", u64::MAX))),
    ]
    .into_iter()
    .enumerate()
    {
        let scratch = Scratch::new(&format!("mark-{number}"));
        let path = scratch.0.join("t");
        let setup = setup(&options, &stop, &path);
        setup.resources.context.shared.stop(EndReason::Duration);
        if fails {
            setup.resources.context.shared.fail("x".into());
        }
        let mut folder = lock(setup.resources.folder.as_ref().unwrap());
        folder.begin((Rotation::default(), Retention::default()), None).unwrap();
        setup.resources.mark(&mut folder, &[unmarked(missing)], is_recorded);
        let mark = mark_in(&path).map(|mark| (mark.ending.word(), mark.losses.unwritten));
        let mark = mark.filter(|(word, _)| *word != "recording");
        assert_eq!(mark, wanted, "{number}");
    }
}

#[test]
fn mark_that_cannot_be_written_is_a_failure_of_the_session() {
    let scratch = Scratch::new("mark-gone");
    let (options, stop) = (Options::default(), Stop::new());
    let path = scratch.0.join("t");
    let setup = setup(&options, &stop, &path);
    std::fs::create_dir(path.join(strata_ctf::end_mark::FILE)).unwrap();
    setup.resources.mark(&mut lock(setup.resources.folder.as_ref().unwrap()), &[], true);
    let shared = &setup.resources.context.shared;
    assert!(shared.has_failed() && shared.failure().is_some());
}

#[test]
fn record_into_a_folder_with_something_in_it_runs_nothing_and_touches_nothing() {
    let scratch = Scratch::new("record-full");
    std::fs::write(scratch.0.join("kept"), "k").unwrap();
    let ran = scratch.0.join("ran");
    let options = Options {
        output: Some(scratch.0.clone()),
        ..options("unused", &["touch", ran.to_str().unwrap()])
    };
    let error = record(plan(&options), false, &Stop::new(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Folder(FolderError::NotEmpty { .. })), "{error}");
    let names: Vec<_> =
        std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"]);
}

#[test]
fn record_up_to_a_size_that_the_folder_has_at_its_begin_ends_at_once() {
    let options = Options { max_bytes: Some(1), ..options("size", &["sleep", "600"]) };
    let (report, notices) = recorded(&options);
    assert_eq!(report.end, EndReason::Size { max_bytes: 1 });
    let Some(CommandEnd::Running { pid }) = report.command else { panic!("{report:?}") };
    end(pid);
    assert_eq!(notices.last(), Some(&Notice::Stopping));
    assert!(!output("size").exists());
}

#[test]
fn record_of_processes_that_are_not_there_ends_with_their_reasons() {
    let options = Options { pids: vec![4_000_000_001, 4_000_000_002], ..options("gone", &[]) };
    let (report, notices) = recorded(&options);
    assert_eq!((report.end, report.output), (EndReason::Processes, None));
    let mut pids: Vec<u32> = report.not_reached.iter().map(|one| one.pid).collect();
    pids.sort_unstable();
    assert_eq!(pids, [4_000_000_001, 4_000_000_002]);
    // What is looked for at the begin is looked for before it is said to have begun.
    let place = |wanted: fn(&Notice) -> bool| notices.iter().position(wanted).unwrap();
    let started = place(|one| matches!(one, Notice::Started { processes: 0, .. }));
    let searches = notices.iter().take(started);
    assert!(searches.into_iter().all(|one| matches!(one, Notice::Searching { .. })));
    assert!(started < place(|one| *one == Notice::Stopping), "{notices:?}");
}

#[test]
fn status_is_answered_while_it_records_and_while_it_ends() {
    let scratch = Scratch::new("status");
    let options = Options { output: Some(scratch.0.join("trace")), ..options("status", &[]) };
    let ((controls, orders), stop) = (controls(), Stop::new());
    let ending = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let status = controls.status();
            stop.request(0);
            status
        });
        let mut ending = None;
        let at_once = AtOnce { may_lack_kernel: false, is_ready: || () };
        let (plan, left) = (plan(&options), LeftByKilled::default());
        let mut notify = |notice| {
            if notice == Notice::Stopping {
                ending = Some(controls.status().unwrap());
            }
        };
        let keep: &dyn Fn(Plan) = &|_| ();
        let how = (Some(&at_once), keep);
        let recording = daemon::run("", plan, left, how, &stop, &orders, &mut notify);
        // Else a recording that has failed leaves the one who asks waiting.
        drop(orders);
        assert_eq!(recording.unwrap().report.end, EndReason::Asked(None));
        let status = asking.join().unwrap().unwrap();
        assert_eq!(status.state, SessionState::Recording);
        assert_eq!(status.output.map(PathBuf::from), options.output);
        assert!(status.has_plan && status.seconds.is_some() && status.channels.len() == 1);
        ending.unwrap()
    });
    assert_eq!(ending.state, SessionState::Stopping);
}
