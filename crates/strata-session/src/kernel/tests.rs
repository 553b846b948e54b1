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

use strata_kernel::{KernelEvent, Probe};
use strata_model::{Field, FieldClass, Integer, LossMode};

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
    assert_eq!((one.events(), one.is_default()), (Some(3), false));
    one.start();
    one.run();
    assert!(!one.is_broken());
    one.stop();
    one.join();
    let mut ended = Box::new(one).end();
    let (report, [kernel]) = (ended.kernel.unwrap(), &ended.report.processes[..]) else { panic!() };
    assert_eq!((kernel.tracepoints, kernel.selected), (5, 3));
    assert_eq!((kernel.name.as_str(), kernel.folder.as_ref()), ("kernel", None));
    assert_eq!((report.problems.len(), report.rules.len()), (2, 1));
    assert!(report.is_filtered && !report.is_default);
    assert_eq!(ended.remarks, ["r"]);
    assert!(!ended.detaching.is_going_on());
    // By default, rules that nobody wrote are not told.
    let report = Box::new(layer().by_default()).end().kernel.unwrap();
    assert!(report.is_default && report.rules.is_empty());
    // More problems than events: none is left, and no more.
    let mut few = layer();
    few.selected = 1;
    assert_eq!(few.events(), Some(0));
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
