use super::*;

fn asked(pids: &[u32], command: &[&str], all_processes: bool) -> Follow {
    let options = Options {
        pids: pids.to_vec(),
        command: command.iter().map(Into::into).collect(),
        ..Options::default()
    };
    follow(&options, &KernelOptions { all_processes, ..KernelOptions::default() })
}

#[test]
fn follow_is_who_was_asked_for() {
    assert!(matches!(asked(&[], &["x"], false), Follow::Children));
    assert!(matches!(asked(&[7], &[], false), Follow::Processes(pids) if pids == [7]));
    assert!(matches!(asked(&[], &[], false), Follow::Everyone));
    assert!(matches!(asked(&[], &["x"], true), Follow::Everyone));
    assert!(matches!(asked(&[7], &[], true), Follow::Everyone));
}

#[test]
fn watched_have_ended_when_all_have_and_who_is_not_there_is_named() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (watched, absent) = Watched::new(&[child.id(), u32::MAX]);
    assert_eq!(absent.iter().map(|one| one.pid).collect::<Vec<_>>(), [u32::MAX]);
    assert!(absent[0].reason.ends_with("is not there"), "{absent:?}");
    assert!(!watched.have_ended());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(watched.have_ended());
    assert!(Watched::new(&[]).0.have_ended());
}

#[test]
fn refused_ends_of_a_system_call_are_one_event() {
    let problem = |event: &str| Problem { event: event.into(), reason: "x".into() };
    let problems = ["syscall_entry_read", "sched_switch", "syscall_exit_read"].map(problem);
    assert_eq!(nr_refused(&problems), 2);
    // A 32-bit program's is another one.
    let compat = ["compat_syscall_exit_read", "compat_syscall_entry_read"].map(problem);
    assert_eq!(nr_refused(&compat), 1);
    assert_eq!(nr_refused(&[&problems[..], &compat[..]].concat()), 3);
    assert_eq!(nr_refused(&[problem("process 7")]), 0);
    assert_eq!(nr_refused(&[]), 0);
}

#[test]
fn names_of_a_system_call_are_its_own_and_those_of_both_ends() {
    let name = |is_syscall| EventName {
        name: "read".into(),
        system: "x".into(),
        kernel_name: "read".into(),
        is_syscall,
    };
    assert_eq!(recorded_names(&name(false)), ["read"]);
    assert_eq!(recorded_names(&name(true)), ["read", "syscall_entry_read", "syscall_exit_read"]);
}

use std::sync::atomic::AtomicU64;

use strata_ctf::end_mark::Ending;
use strata_kernel::{KernelEvent, Probe};
use strata_model::{Field, FieldClass, Integer};

use crate::report::EndReason;
use crate::scratch_tests::{channel, Scratch};

fn selected(name: &str, is_followed: bool, (entry, exit): (bool, bool)) -> SelectedEvent {
    let field = |name: &str| Field::new(name, FieldClass::Integer(Integer::signed(8)));
    let is_syscall = name == "read";
    let event = KernelEvent {
        name: name.to_owned(),
        system: if is_syscall { "syscalls" } else { "sched" }.to_owned(),
        kernel_name: name.to_owned(),
        fields: vec![field("fd")],
        exit_fields: if is_syscall { vec![field("ret")] } else { Vec::new() },
        probe: Probe::Tracepoint { id: 7, parts: Vec::new() },
        is_followed,
        sources: Vec::new(),
        exit_sources: Vec::new(),
    };
    SelectedEvent { event, entry, exit, filter: None }
}

#[test]
fn threads_that_were_there_before_are_told_unless_all_are_the_command_s() {
    let spec = |follow, followed: &[bool]| Spec {
        loss_mode: LossMode::Discard,
        subbuf_bytes: 4096,
        nr_subbufs: 2,
        events: followed.iter().map(|&one| selected("x", one, (true, true))).collect(),
        follow,
    };
    for (spec, wanted) in [
        (spec(Follow::Children, &[true, true]), false),
        (spec(Follow::Children, &[true, false]), true),
        (spec(Follow::Children, &[]), false),
        (spec(Follow::Everyone, &[true]), true),
        (spec(Follow::Processes(vec![7]), &[true]), true),
    ] {
        assert_eq!(is_of_others(&spec), wanted, "{:?}", spec.follow);
    }
}

#[test]
fn filter_that_no_event_can_pass_is_refused_and_one_that_some_can_is_not() {
    let both = (true, true);
    let (read, switch) = (selected("read", true, both), selected("sched_switch", true, both));
    for (filter, events, passes) in [
        ("fd == 3", vec![read.clone()], true),
        ("fd == 3", vec![switch], true),
        ("nofield == 3", vec![read.clone()], false),
        ("nofield == 3 || fd == 3", vec![read.clone()], false),
        // It has one end, whatever was chosen of a system call.
        ("fd == 3", vec![selected("sched_switch", true, (false, false))], true),
        ("nofield == 3", vec![selected("sched_switch", true, (false, false))], false),
    ] {
        let filter = Filter::parse(filter).unwrap();
        let found = check_filter(&filter, &events, false);
        assert_eq!(found.is_ok(), passes, "{filter:?}: {found:?}");
    }
}

#[test]
fn layer_without_an_event_has_a_report_and_nothing_to_detach() {
    let problem = |event: &str| EventProblem { event: event.into(), reason: "no format".into() };
    let layer = || {
        let mut layer = KernelLayer::default();
        layer.selected = 5;
        layer.problems = vec![problem("a"), problem("b")];
        layer.remarks = vec!["r".into()];
        layer.rules = vec![KernelRuleReport { rule: "x".into(), matched: 5, ..Default::default() }];
        layer.is_filtered = true;
        layer
    };
    let mut one = layer();
    assert_eq!((one.events(), one.is_default()), (3, false));
    one.start();
    one.stop();
    let scratch = Scratch::new("kernel-none");
    let folder: OwnedFd = std::fs::File::open(&scratch.0).unwrap().into();
    assert!(one.recorder((Arc::new(folder), &scratch.0), Duration::ZERO).is_none());
    let mut ended = one.end(Recorded::default());
    assert_eq!((ended.kernel.tracepoints, ended.kernel.selected), (5, 3));
    assert_eq!((ended.kernel.name.as_str(), ended.kernel.folder), ("kernel", None));
    assert_eq!((ended.report.problems.len(), ended.report.rules.len()), (2, 1));
    assert!(ended.report.is_filtered && !ended.report.is_default);
    assert_eq!(ended.remarks, ["r"]);
    assert!(!ended.detaching.is_going_on());
    // By default, rules that nobody wrote are not told.
    let ended = layer().by_default().end(Recorded::default());
    assert!(ended.report.is_default && ended.report.rules.is_empty());
    // More problems than events: none is left, and no more.
    let mut few = layer();
    few.selected = 1;
    assert_eq!(few.events(), 0);
}

#[test]
fn layer_by_default_that_records_nothing_says_the_first_reason() {
    let why = |layer: KernelLayer| layer.by_default_or_not().err().unwrap();
    let none = why(KernelLayer::default());
    assert_eq!((none.why.as_str(), none.is_failure), ("it has none of the events", true));
    let problem = |reason: &str| EventProblem { event: "e".into(), reason: reason.into() };
    let problems = vec![problem("first"), problem("second")];
    let mut layer = KernelLayer::default();
    layer.problems = problems;
    assert_eq!(why(layer).why, "first");
}

#[test]
fn rules_that_are_not_well_formed_are_said_before_anything_of_the_kernel_is_read() {
    let options = Options::default();
    let mut layer = KernelLayer::default();
    let mut describe = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        let asked = KernelOptions { rules, ..KernelOptions::default() };
        layer.describe(&options, &asked, &Stop::new(), &mut |notice| panic!("{notice:?}"))
    };
    assert!(describe(&[]).unwrap().is_empty());
    for rule in ["", ","] {
        let error = describe(&[rule]).err();
        assert!(matches!(error, Some(SessionError::KernelRules(_))), "'{rule}': {error:?}");
    }
    let mut events = Vec::new();
    let probes = vec!["uprobe:no".to_owned()];
    let asked = KernelOptions { probes, ..KernelOptions::default() };
    let error = layer.add_probes(&asked, &mut events).unwrap_err();
    assert!(matches!(error, SessionError::Probe(_)) && events.is_empty(), "{error}");
}

/// A recorder of a channel in which nothing is, into this folder; and the descriptor of the folder.
fn recorder<'a>(scratch: &Scratch, shared: &'a Shared) -> (Recorder<'a>, OwnedFd) {
    let root: OwnedFd = std::fs::File::open(&scratch.0).unwrap().into();
    let path = scratch.0.join(KERNEL);
    let directory = Directory::create_in(root.as_fd(), OsStr::new(KERNEL), &path).unwrap();
    directory.begin().unwrap();
    let uuid = new_uuid().unwrap();
    let identity = Identity { uuid, stream_id: 0, name: "channel0".to_owned() };
    let mut collector = Collector::new(directory, channel(2).0, identity);
    collector.set_metadata("x").unwrap();
    shared.begin(false, true);
    (Recorder::new(collector, 2, Duration::ZERO, shared), root)
}

#[test]
fn recorder_to_which_nothing_happened_leaves_no_folder() {
    let scratch = Scratch::new("kernel-empty");
    let shared = Shared::new().unwrap();
    let (recorder, root) = recorder(&scratch, &shared);
    std::fs::write(scratch.0.join("kernel").join(statedump::FILE), "x").unwrap();
    shared.stop(EndReason::Duration);
    let recorded = recorder.run(root.as_fd(), &AtomicU64::new(0), Dump::default());
    assert_eq!((recorded.folder, recorded.unmarked), (None, 0));
    assert_eq!((recorded.counts.packets, recorded.counts.streams), (0, 2));
    assert!(!scratch.0.join(KERNEL).exists());
}

#[test]
fn recorder_of_events_that_no_program_ran_for_tells_them_in_the_trace() {
    let scratch = Scratch::new("kernel-nested");
    let shared = Shared::new().unwrap();
    let (recorder, root) = recorder(&scratch, &shared);
    shared.stop(EndReason::Asked(None));
    let recorded = recorder.run(root.as_fd(), &AtomicU64::new(9), Dump::default());
    assert_eq!(recorded.folder, Some(scratch.0.join(KERNEL)));
    assert_eq!((recorded.counts.discarded.not_run, recorded.unmarked), (9, 0));
    assert_eq!(shared.counts().2, 9);
    let mark = std::fs::read(scratch.0.join("kernel").join(strata_ctf::end_mark::FILE)).unwrap();
    let mark = strata_ctf::end_mark::EndMark::decode(&mark).unwrap();
    assert_eq!(mark.ending, Ending::Stopped);
    // Either a packet counts them, or the mark does.
    assert_eq!(recorded.counts.told + mark.losses.total(), 9);
}

#[test]
fn recorder_of_a_layer_that_failed_writes_no_more_and_counts_what_is_not_marked() {
    let scratch = Scratch::new("kernel-failed");
    let shared = Shared::new().unwrap();
    let (mut recorder, root) = recorder(&scratch, &shared);
    let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
    shared
        .fail_to_write(Layer::Kernel, &strata_collect::Error::NoSpace { path: "x".into(), source });
    assert_eq!(recorder.round(), 0);
    shared.stop(EndReason::Failure);
    let recorded = recorder.run(root.as_fd(), &AtomicU64::new(4), Dump::default());
    assert_eq!(recorded.counts.discarded.not_run, 4);
    assert_eq!((recorded.counts.packets, recorded.unmarked), (0, 4));
}

#[test]
fn layer_without_a_folder_waits_for_the_end_and_counts_what_would_be_in_it() {
    let shared = Shared::new().unwrap();
    let not_run = AtomicU64::new(6);
    let recorded = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| unwritten(channel(3).0, &shared, &not_run));
        assert!(!waiting.is_finished());
        shared.stop(EndReason::Failure);
        waiting.join().unwrap()
    });
    assert_eq!((recorded.folder, recorded.unmarked), (None, 6));
    assert_eq!((recorded.counts.streams, recorded.counts.discarded.not_run), (3, 6));
}

#[test]
fn rules_without_a_match_have_names_that_were_perhaps_meant() {
    let catalog = match catalog() {
        Ok(catalog) => catalog,
        Err(error) => return eprintln!("skip: {error}"),
    };
    let matched = vec![("sched_swich".to_owned(), 0), ("sched_switch".to_owned(), 1)];
    let reports = rule_reports(matched, &catalog);
    assert!(reports[0].similar.iter().any(|name| name == "sched_switch"), "{reports:?}");
    assert_eq!((reports[1].matched, &reports[1].similar[..]), (1, &[][..]));
}
