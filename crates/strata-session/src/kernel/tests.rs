use std::path::Path;
use std::time::Duration;

use strata_filter::Filter;
use strata_kernel::catalog::EventName;
use strata_kernel::cpu_samples;
use strata_kernel::uprobe::KnownProbes;

use super::event_selection::{check_filter, rules_of, Chosen};
use super::*;
use crate::output::folder::TraceFolder;
use crate::scratch_tests::{context, Scratch};
use crate::session::layer::LayerRule;

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
    let problem = |event: &str| UnrecordedEvent { event: event.into(), reason: "x".into() };
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
    SelectedEvent { entry, exit, ..SelectedEvent::all_records(event) }
}

#[test]
fn threads_that_were_there_before_are_reported_unless_all_are_the_command_s() {
    let spec = |follow, followed: &[bool]| RecordingSpec {
        argv_bytes: strata_kernel::ARGV_BYTES,
        loss_mode: LossMode::Discard,
        subbuf_bytes: 4096,
        nr_subbufs: 2,
        events: followed.iter().map(|&one| selected("x", one, (true, true))).collect(),
        follow,
        contexts: strata_kernel::Contexts::default(),
    };
    for (spec, wanted) in [
        (spec(Follow::Children, &[true, true]), false),
        (spec(Follow::Children, &[true, false]), true),
        (spec(Follow::Children, &[]), true),
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
    assert_eq!(one.recorded_events(), Some(3));
    one.start();
    one.run();
    assert!(!one.is_broken());
    one.stop();
    one.join();
    let mut ended = Box::new(one).end();
    let (report, [kernel]) = (ended.own.kernel.unwrap(), &ended.report.processes[..]) else {
        panic!()
    };
    assert_eq!((kernel.tracepoints, kernel.selected), (5, 3));
    assert_eq!((kernel.name.as_str(), kernel.folder.as_ref()), ("kernel", None));
    assert_eq!((report.problems.len(), report.rules.len()), (2, 1));
    assert!(report.is_filtered && !report.is_default);
    assert_eq!(ended.remarks, ["r"]);
    assert!(!ended.detaching.is_going_on());
    // More problems than events: none is left, and no more.
    let mut few = layer();
    few.selected = 1;
    assert_eq!(few.recorded_events(), Some(0));
}

#[test]
fn layer_by_default_that_records_nothing_says_the_first_reason() {
    let why = |layer: KernelLayer| default_events::reason(&layer.nothing_attached());
    let none = why(KernelLayer::default());
    assert_eq!((none.why.as_str(), none.is_failure), ("it has none of the events", true));
    let problem = |reason: &str| EventProblem { event: "e".into(), reason: reason.into() };
    let problems = vec![problem("first"), problem("second")];
    let mut layer = KernelLayer::default();
    layer.problems = problems;
    assert_eq!(why(layer).why, "first");
}

#[test]
fn rules_that_are_not_well_formed_are_reported_before_anything_of_the_kernel_is_read() {
    let rules = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        rules_of(&KernelOptions { rules, ..KernelOptions::default() })
    };
    assert!(rules(&[]).unwrap().is_empty());
    for rule in ["", ","] {
        let error = rules(&[rule]).err();
        assert!(matches!(error, Some(SessionError::KernelRules(_))), "'{rule}': {error:?}");
    }
    let resolve = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        probes::resolve(&texts, &texts, &[]).unwrap_err()
    };
    let error = resolve(&["uprobe:no"]);
    assert!(matches!(error, SessionError::Probe(_)), "{error}");
    // Among several, the wrong one is named.
    let error = resolve(&["uprobe:c:malloc", "uprobe:no"]).in_a_line();
    assert!(error.starts_with("rule 'uprobe:no': probe, column "), "{error}");
}

#[test]
fn event_of_several_rules_is_asked_what_one_of_them_asks_at_each_of_its_ends() {
    let catalog = match catalog() {
        Ok(catalog) => catalog,
        Err(error) => return eprintln!("skip: {error}"),
    };
    let rules = wanted(&[
        ("sched_switch", Some("prev_prio < 3")),
        ("sched_switch", Some("next_prio < 4")),
        ("sched_process_*", Some("pid > 1")),
        ("sched_process_fork", None),
        ("syscall_exit_openat", Some("ret < 0")),
        ("syscalls:openat,!compat_*", Some("dfd == 3")),
        ("syscalls:close", None),
    ]);
    let mut chosen = Chosen::new(&rules.rules, &catalog).unwrap();
    let mut begun = BegunLayer::new("", &Stop::new(), KnownProbes::default());
    let events = begun.describe_all(&mut chosen, &catalog, &mut |_| ()).unwrap();
    let of = |name: &str| {
        let one = events.iter().find(|one| one.event.name == name).unwrap();
        let text = |filter: &Option<Filter>| filter.as_ref().map(|one| one.text().to_owned());
        (text(&one.filter), text(&one.exit_filter))
    };
    assert_eq!(of("sched_switch").0.unwrap(), "(prev_prio < 3) || (next_prio < 4)");
    // One that asks nothing is enough.
    assert_eq!(of("sched_process_fork").0, None);
    assert_eq!(of("sched_process_exit").0.unwrap(), "pid > 1");
    assert_eq!(of("close"), (None, None));
    let (entry, exit) = of("openat");
    assert_eq!(
        (entry.unwrap(), exit.unwrap()),
        ("dfd == 3".into(), "(ret < 0) || (dfd == 3)".into())
    );
}

#[test]
fn calls_that_need_not_have_waited_are_recorded_if_one_rule_asks_for_them() {
    let catalog = match catalog() {
        Ok(catalog) => catalog,
        Err(error) => return eprintln!("skip: {error}"),
    };
    let bound =
        |text: &str, slower| LayerRule { text: text.to_owned(), slower, ..LayerRule::default() };
    for (rules, slower, waited) in [
        (vec![bound("always", None)], 1_000_000, true),
        (vec![bound("always", Some(5_000_000))], 5_000_000, true),
        (vec![bound("syscalls", Some(1_000_000))], 1_000_000, false),
        (vec![bound("always", None), bound("syscalls:read", Some(2_000_000))], 1_000_000, false),
        (vec![bound("syscalls:read", Some(2_000_000)), bound("always", None)], 1_000_000, false),
        (vec![bound("always", None), bound("syscalls:read", None)], 0, false),
    ] {
        let mut chosen = Chosen::new(&rules, &catalog).unwrap();
        let mut begun = BegunLayer::new("", &Stop::new(), KnownProbes::default());
        let events = begun.describe_all(&mut chosen, &catalog, &mut |_| ()).unwrap();
        let read = events.iter().find(|one| one.event.name == "read").unwrap();
        assert_eq!((read.slower, read.waited), (slower, waited), "{rules:?}");
    }
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

fn wanted(rules: &[(&str, Option<&str>)]) -> Wanted {
    let rule = |&(text, filter): &(&str, Option<&str>)| LayerRule {
        text: text.to_owned(),
        filter: filter.map(|text| Filter::parse(text).unwrap()),
        ..LayerRule::default()
    };
    Wanted { rules: rules.iter().map(rule).collect(), ..Wanted::default() }
}

/// Waits until the child process has slept several more times.
fn let_sleep(sleeps: &Path) {
    let count = || std::fs::read_to_string(sleeps).map_or(0, |text| text.lines().count());
    let before = count();
    while count() < before + 20 {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Begins a layer that records nothing until it is changed.
fn begin_without_events(context: &Arc<Context>) -> Result<KernelLayer, SessionError> {
    let asked = LayerRequest {
        probes: KnownProbes::default(),
        options: &Options::default(),
        kernel: &KernelOptions::default(),
        wanted: &Wanted::default(),
        context,
        stop: &Stop::new(),
        flags: "",
        may_change: true,
        is_default: false,
        has_applications: false,
    };
    KernelLayer::begin(&asked, &mut |_| ())
}

/// A layer that begins without events and is changed later; another reader checks its trace.
#[test]
fn layer_that_is_changed_has_a_trace_that_describes_all_that_came() {
    let scratch = Scratch::new("kernel-change");
    let context = context(TraceFolder::create(&scratch.0.join("t")).unwrap());
    let mut layer = match begin_without_events(&context) {
        Ok(layer) => layer,
        Err(error @ SessionError::Kernel { .. }) => return eprintln!("skip: {error}"),
        Err(error) => panic!("{error}"),
    };
    let sleeps = scratch.0.join("sleeps");
    let script = "while :; do echo; sleep 0.001; done > \"$0\"";
    let mut child =
        std::process::Command::new("sh").args(["-c", script]).arg(&sleeps).spawn().unwrap();
    layer.start();
    layer.run();
    // A rule that selects nothing, and a filter that nothing can pass: all is as it was.
    let error = layer.change(&wanted(&[("sched_swich", None)])).unwrap_err();
    assert!(matches!(error, SessionError::NothingSelected(_)), "{error}");
    let error = layer.change(&wanted(&[("sched_switch", Some("nofield == 1"))])).unwrap_err();
    assert!(matches!(error, SessionError::OfRule { .. }), "{error}");
    let never = "next_prio > 5 && next_prio < 3";
    let error = layer.change(&wanted(&[("sched_switch", Some(never))])).unwrap_err().to_string();
    assert!(error.contains("rule 'sched_switch': ") && error.contains("can match"), "{error}");
    let error = layer.change(&wanted(&[("sched_switch", Some("prev_tid == next_tid"))]));
    assert!(error.unwrap_err().to_string().contains("'sched_switch'"));
    assert_eq!(layer.recorded_events(), Some(0));
    let mut tracked = wanted(&[("sched_process_fork", None)]);
    tracked.tracked.names = Some(vec!["*x".into()]);
    let error = layer.change(&tracked).unwrap_err().to_string();
    assert!(error.contains("'*x'"), "{error}");
    // Who makes the processes: the shell, and it is not everybody.
    tracked.tracked.names = Some(vec!["s*".into(), "none".into()]);
    tracked.tracked.pids = Some(vec![child.id()]);
    layer.change(&tracked).unwrap();
    let_sleep(&sleeps);
    // Two rules that select one event, each some of its records; and one with both ends of a system call.
    let pid = child.id();
    let (own, other) = (format!("pid == {pid}"), "comm == \"sleep\"".to_owned());
    let rules = [
        ("sched_process_fork", Some(own.as_str())),
        ("sched_process_e*", Some(&other)),
        ("sched_process_exec,!sched_process_free", Some(&own)),
        ("wait4", None),
    ];
    layer.change(&wanted(&rules)).unwrap();
    let_sleep(&sleeps);
    layer.set_paused(true);
    let_sleep(&sleeps);
    layer.set_paused(false);
    let_sleep(&sleeps);
    layer.change(&wanted(&[("syscall_exit_wait4", None)])).unwrap();
    let_sleep(&sleeps);
    layer.stop();
    child.kill().unwrap();
    child.wait().unwrap();
    context.shared.stop(crate::report::EndReason::Duration);
    layer.join();
    let ended = Box::new(layer).end();
    let kernel = &ended.report.processes[0];
    // With that of 32-bit programs.
    assert_eq!((kernel.tracepoints, kernel.selected), (2, 2));
    assert_eq!(kernel.counts.discarded.total(), 0);
    let folder = kernel.folder.as_ref().unwrap();
    let told = std::process::Command::new("babeltrace2").arg(folder).output();
    let Ok(told) = told else { return eprintln!("skip: no babeltrace2") };
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told = String::from_utf8(told.stdout).unwrap();
    let count =
        |name: &str| told.lines().filter(|line| line.contains(&format!(" {name}: "))).count();
    for name in ["sched_process_fork", "sched_process_exec", "sched_process_exit"] {
        assert!(count(name) >= 10, "{name}: {}", count(name));
    }
    let (entries, exits) = (count("syscall_entry_wait4"), count("syscall_exit_wait4"));
    assert!(entries >= 20 && exits >= entries + 10, "{entries} {exits}");
    assert_eq!(told.lines().count() as u64, kernel.counts.records);
    ended.detaching.wait();
}

#[test]
fn new_probes_are_looked_at_beside_the_others_and_those_are_not_to_blame() {
    let rule = |text: &str, filter: Option<&str>| LayerRule {
        text: text.to_owned(),
        filter: filter.map(|text| Filter::parse(text).unwrap()),
        probe: true,
        ..LayerRule::default()
    };
    let one = rule("x=uprobe:c:malloc(size:u64)", None);
    let taken = rule("x=uprobe:c:free(ptr:ptr)", None);
    let gone = rule("uprobe:/no/such/file:f", None);
    let refused = |all: &[&LayerRule], new: &LayerRule| {
        let all: Vec<LayerRule> = all.iter().map(|one| (*one).clone()).collect();
        check_new_probes(&all, std::slice::from_ref(&new.text), KnownProbes::default())
            .err()
            .map(|error| error.in_a_line())
    };
    assert_eq!(refused(&[&one], &one), None);
    // That of before is not there any more.
    assert_eq!(refused(&[&gone, &one], &one), None);
    let text = refused(&[&one, &taken], &taken).unwrap();
    assert!(text.starts_with("rule 'x=uprobe:c:free(ptr:ptr)': probe, column 1: "), "{text}");
    assert!(text.contains("two events 'x' with different fields"), "{text}");
    let text = refused(&[&gone], &gone).unwrap();
    assert!(text.contains("/no/such/file: No such file"), "{text}");
    let slip = rule("uprobe:c:malloc(size:u64)", Some("sise > 3"));
    let text = refused(&[&one, &slip], &slip).unwrap();
    assert!(text.contains("Did you mean 'size'?"), "{text}");
    assert_eq!(refused(&[&one, &slip], &one), None);
}

/// Begins the layer of a channel, without recording; `None` if this user lacks the rights.
fn begun_layer(scratch: &Scratch, name: &str, is_again: bool) -> Option<KernelLayer> {
    let mut context = context(TraceFolder::create(&scratch.0.join(name)).unwrap());
    Arc::get_mut(&mut context).unwrap().is_again = is_again;
    match begin_without_events(&context) {
        Ok(layer) => Some(layer),
        Err(SessionError::Kernel { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn ended(layer: KernelLayer) {
    Box::new(layer).end().detaching.wait();
}

#[test]
fn what_has_gone_keeps_nothing_else_from_being_recorded_at_the_begin_and_all_may_where_it_was_killed(
) {
    let scratch = Scratch::new("kernel-gone");
    let probe =
        |text: &str| LayerRule { text: text.to_owned(), probe: true, ..LayerRule::default() };
    let rule = |text: &str| LayerRule { text: text.to_owned(), ..LayerRule::default() };
    let (gone, there) = (probe("uprobe:/no/such/file:f"), probe("uprobe:c:malloc(size:u64)"));
    let (none, some) = (rule("no_such_event_*"), rule("sched_process_exec"));
    let sample = LayerRule { sample: Some(9), ..rule(cpu_samples::NAME) };
    let of = |rules: &[&LayerRule]| Wanted {
        rules: rules.iter().map(|one| (*one).clone()).collect(),
        ..Wanted::default()
    };
    let not_reached = |layer: &KernelLayer| -> Vec<String> {
        layer.status().not_reached.into_iter().map(|one| one.name).collect()
    };
    // One that selects something is enough, of whatever kind.
    let all = [[&gone, &some], [&gone, &sample], [&none, &there], [&none, &some]];
    for (number, rules) in all.iter().enumerate() {
        let Some(mut layer) = begun_layer(&scratch, &format!("some{number}"), false) else {
            return eprintln!("skip: no rights");
        };
        layer.change(&of(&rules[..])).unwrap_or_else(|error| panic!("{rules:?}: {error}"));
        assert_eq!(not_reached(&layer).contains(&gone.text), rules[0].probe, "{rules:?}");
        ended(layer);
    }
    for (number, rules) in [&[&gone, &gone][..], &[&none], &[&none, &gone]].iter().enumerate() {
        let mut new = begun_layer(&scratch, &format!("new{number}"), false).unwrap();
        assert!(new.change(&of(rules)).is_err(), "{rules:?}");
        ended(new);
        let mut again = begun_layer(&scratch, &format!("again{number}"), true).unwrap();
        again.change(&of(rules)).unwrap_or_else(|error| panic!("{rules:?}: {error}"));
        assert_eq!(again.recorded_events(), Some(0));
        let has_probe = rules.iter().any(|one| one.probe);
        assert_eq!(not_reached(&again).contains(&gone.text), has_probe, "{rules:?}");
        // They stay beside what is new, and a new one is looked at.
        again.change(&of(&[rules, &[&some][..]].concat())).unwrap();
        assert_eq!(again.recorded_events(), Some(1));
        let wrong = probe("uprobe:/no/such/other:f");
        again.change(&of(&[rules, &[&wrong][..]].concat())).unwrap_err();
        again.change(&of(&[rules, &[&rule("no_such_other")][..]].concat())).unwrap_err();
        ended(again);
    }
}

#[test]
fn filter_that_nothing_passes_any_more_keeps_nothing_else_from_being_recorded_where_it_was_killed()
{
    let scratch = Scratch::new("kernel-filter-gone");
    let some = ("sched_process_exec", Some("pid > 1"));
    let never = ("sched_switch", Some("nofield == 1"));
    let reasons = |layer: &KernelLayer| -> Vec<(String, String)> {
        layer.status().not_reached.into_iter().map(|one| (one.name, one.reason)).collect()
    };
    // A field that is gone, one of another type, a text that has no place, a group that is not there.
    let all = [
        (never.1, "has a field 'nofield'"),
        (Some("next_comm > 3"), "it is never true"),
        (Some("next_prio == \"high\""), "'next_prio'"),
        (Some("prev_tid == next_tid"), "it compares two fields"),
        (Some("cgroup == \"/no/such/group\""), "/no/such/group"),
    ];
    for (number, (filter, why)) in all.into_iter().enumerate() {
        let wrong = ("sched_switch", filter);
        let rules = wanted(&[wrong, ("!sched_process_fork", None), some]);
        let Some(mut new) = begun_layer(&scratch, &format!("new{number}"), false) else {
            return eprintln!("skip: no rights");
        };
        assert!(new.change(&rules).is_err(), "{filter:?}");
        ended(new);
        let mut again = begun_layer(&scratch, &format!("again{number}"), true).unwrap();
        again.change(&rules).unwrap_or_else(|error| panic!("{filter:?}: {error}"));
        let found = reasons(&again);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == "sched_switch" && found[0].1.contains(why), "{found:?}");
        assert_eq!(again.recorded_events(), Some(1));
        let look = again.status();
        let unmatched: Vec<_> = look.rules.iter().filter(|one| one.matched == 0).collect();
        assert!(look.rules.len() == 3 && unmatched.len() == 1, "{:?}", look.rules);
        assert_eq!(unmatched[0].rule, "sched_switch");
        // It stays beside what is new; with another filter the rule is a new one.
        again.change(&wanted(&[wrong, some, ("sched_wakeup", None)])).unwrap();
        assert_eq!((again.recorded_events(), reasons(&again).len()), (Some(2), 1));
        let slip = ("sched_switch", Some("noother == 1"));
        again.change(&wanted(&[slip, some])).unwrap_err();
        // Without it, nothing is absent.
        again.change(&wanted(&[some])).unwrap();
        assert_eq!((again.recorded_events(), reasons(&again).len()), (Some(1), 0));
        ended(again);
    }
    // Alone, beside what only excludes: that is not all but those.
    for (number, rules) in
        [&[never][..], &[never, ("!sched_process_fork", None)]].iter().enumerate()
    {
        let mut alone = begun_layer(&scratch, &format!("alone{number}"), true).unwrap();
        alone.change(&wanted(rules)).unwrap();
        assert_eq!((alone.recorded_events(), reasons(&alone).len()), (Some(0), 1));
        assert!(alone.status().filters.is_empty());
        let end = Box::new(alone).end();
        assert_eq!(end.own.kernel.unwrap().problems.len(), 1);
        end.detaching.wait();
    }
    // What can still be true of it is recorded.
    let mut partly = begun_layer(&scratch, "partly", true).unwrap();
    partly.change(&wanted(&[("sched_switch", Some("nofield == 1 || next_prio > 3"))])).unwrap();
    let look = partly.status();
    assert_eq!((partly.recorded_events(), look.not_reached.len()), (Some(1), 0));
    let [filter] = &look.filters[..] else { panic!("{:?}", look.filters) };
    assert!(!filter.is_never && filter.slips[0].column == 1, "{filter:?}");
    ended(partly);
}

#[test]
fn rule_goes_on_without_a_control_group_of_its_filter_that_has_gone() {
    let scratch = Scratch::new("kernel-group-gone");
    let named = format!("strata-test-{}", std::process::id());
    let Some(folder) = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .map(|root| std::path::Path::new(root).join(&named))
        .into_iter()
        .find(|folder| std::fs::create_dir(folder).is_ok())
    else {
        return eprintln!("skip: no control group can be made");
    };
    let filter = format!("cgroup == \"/{named}\" || next_prio > 3");
    let rule = ("sched_switch", Some(&*filter));
    let Some(mut layer) = begun_layer(&scratch, "layer", false) else {
        let _ = std::fs::remove_dir(&folder);
        return eprintln!("skip: no rights");
    };
    let begun = layer.change(&wanted(&[rule]));
    let _ = std::fs::remove_dir(&folder);
    if let Err(error) = begun {
        // It was made in a hierarchy of version 1.
        return eprintln!("skip: {error}");
    }
    assert!(layer.status().filters.is_empty());
    // Something else is changed: the rule is recorded all the same, and what is amiss is said.
    layer.change(&wanted(&[rule, ("sched_process_exec", None)])).unwrap();
    let look = layer.status();
    assert_eq!((layer.recorded_events(), look.not_reached.len()), (Some(2), 0));
    let [report] = &look.filters[..] else { panic!("{:?}", look.filters) };
    assert!(!report.is_never && report.slips[0].text.contains(&named), "{report:?}");
    // With nothing but that group, nothing of it is recorded; and a new rule is refused, be there others or not.
    let alone = format!("cgroup == \"/{named}\"");
    layer.change(&wanted(&[("sched_wakeup", Some(&*alone))])).unwrap_err();
    layer.change(&wanted(&[])).unwrap();
    layer.change(&wanted(&[("sched_wakeup", Some(&*filter))])).unwrap_err();
    ended(layer);
}

#[test]
fn rate_and_group_that_are_possible_no_more_keep_nothing_from_being_recorded_where_it_was_killed() {
    let scratch = Scratch::new("kernel-rate-gone");
    let mut rules = wanted(&[("sched_process_exec", None)]);
    rules.rules.push(LayerRule {
        text: cpu_samples::NAME.to_owned(),
        sample: Some(u32::MAX),
        ..LayerRule::default()
    });
    rules.tracked.cgroups = Some(vec!["/".into(), "/no/such/group".into()]);
    let Some(mut new) = begun_layer(&scratch, "new", false) else {
        return eprintln!("skip: no rights");
    };
    assert!(new.change(&rules).is_err());
    ended(new);
    let mut again = begun_layer(&scratch, "again", true).unwrap();
    if let Err(error) = again.change(&rules) {
        // The group of all is not there either.
        return eprintln!("skip: {error}");
    }
    let names: Vec<String> = again.status().not_reached.into_iter().map(|one| one.name).collect();
    assert_eq!(names, [cpu_samples::NAME, "control group /no/such/group"]);
    assert_eq!(again.recorded_events(), Some(1));
    // They keep no change from being made.
    rules.rules.push(LayerRule { text: "sched_process_exit".into(), ..LayerRule::default() });
    again.change(&rules).unwrap();
    assert_eq!(again.recorded_events(), Some(2));
    rules.tracked.cgroups.as_mut().unwrap().push("/no/such/other".into());
    let error = again.change(&rules).unwrap_err().to_string();
    assert!(error.contains("/no/such/other"), "{error}");
    let end = Box::new(again).end();
    assert_eq!(end.not_reached.len(), 1);
    end.detaching.wait();
}
