//! Tests of plans: rules of samples, contexts of several channels, tracking by each kind, and watchers of triggers'
//! events.

use super::*;
use crate::report::NoKernel;

fn sampled(rule: &str, rate: u32) -> Change {
    let events = enable(LayerOf::Kernel, &[rule]);
    Change::EnableEvent(EnableEvents { sample: Some(rate), ..events })
}

fn contexts(layer: LayerOf, channel: Option<&str>, names: &[&str]) -> Change {
    let contexts = names.iter().map(|name| (*name).to_owned()).collect();
    Change::AddContext(ContextChange { layer, channel: channel.map(str::to_owned), contexts })
}

#[test]
fn rate_of_samples_is_one_and_the_last_that_was_asked_for() {
    let plan = after(&[kernel(&["sched_*"]), sampled("cpu_clock", 99), sampled("cpu_clock", 999)]);
    let rates = |plan: &Plan| {
        let events = plan.channels[0].events.iter();
        events.map(|event| (event.rule.clone(), event.sample)).collect::<Vec<_>>()
    };
    let wanted = [("sched_*".to_owned(), None), ("cpu_clock".to_owned(), Some(999))];
    assert_eq!(rates(&plan), wanted);
    assert_eq!(rates(&plan.changed(&sampled("cpu_clock", 999)).unwrap()), wanted);
    let kept = plan.wanted(&plan.channels[0]).unwrap();
    let found: Vec<_> = kept.rules.iter().map(|rule| (rule.stack.is_any(), rule.sample)).collect();
    assert_eq!(found, [(false, None), (false, Some(999))]);
    for rate in [0, u32::MAX] {
        let text = refused(&plan, &sampled("cpu_clock", rate));
        assert!(text.contains(&rate.to_string()), "{text}");
    }
    let Change::EnableEvent(events) = sampled("a:*", 99) else { panic!() };
    for user in [
        EnableEvents { layer: LayerOf::User, ..events.clone() },
        EnableEvents {
            layer: LayerOf::User,
            sample: None,
            stack: CallStacks::FramePointers,
            ..events
        },
    ] {
        let text = refused(&plan, &Change::EnableEvent(user));
        assert!(text.contains("callstack_user"), "{text}");
    }
}

#[test]
fn schedule_of_rotation_changes_one_condition_at_a_time() {
    let by = |size, time_ms, count| Rotation { size, time_ms, count };
    let change = |plan: &Plan, change: Change| plan.changed(&change).unwrap();
    let plan = Plan::new(false, None);
    let plan = change(&plan, Change::EnableRotation(by(Some(1 << 20), None, Some(3))));
    let plan = change(&plan, Change::EnableRotation(by(None, Some(1000), None)));
    assert_eq!(plan.rotation, by(Some(1 << 20), Some(1000), Some(3)));
    let plan = change(&plan, Change::DisableRotation(vec![RotationBy::Size, RotationBy::Count]));
    assert_eq!(plan.rotation, by(None, Some(1000), None));
    // What is not there is no mistake: the schedule is as it was asked for.
    let plan = change(&plan, Change::DisableRotation(vec![RotationBy::Time, RotationBy::Size]));
    assert!(plan.rotation.is_none());
    let mut guest = plan.clone();
    guest.transient.relay = Some(strata_relay::Place::Path("/x".into()));
    // Parts at a relay are recordings, which it limits itself.
    let to = Some(strata_remote::Destination::parse("localhost").unwrap());
    let relayed = Plan { to, ..Plan::new(false, None) };
    let hourly = change(&relayed, Change::EnableRotation(by(None, Some(3_600_000), None)));
    assert_eq!(hourly.rotation, by(None, Some(3_600_000), None));
    for (plan, rotation, said) in [
        (&plan, by(None, None, None), "no size, no time"),
        (&plan, by(Some(1), None, None), "--rotate-size: 1 bytes"),
        (&plan, by(None, Some(1), None), "--rotate-time: 1 milliseconds"),
        (&plan, by(None, None, Some(0)), "--rotate-count: 0 parts"),
        (&Plan::new(true, None), by(Some(1 << 20), None, None), "nothing is rotated"),
        (&guest, by(Some(1 << 20), None, None), "in one piece"),
        (&relayed, by(None, None, Some(2)), "Leave out --rotate-count"),
    ] {
        let text = refused(plan, &Change::EnableRotation(rotation));
        assert!(text.contains(said), "{rotation:?}: {text}");
    }
}

#[test]
fn context_of_no_channel_is_of_all_of_the_layer_and_one_of_a_name_of_that_only() {
    let two = after(&[
        Change::EnableChannel(channel(LayerOf::User, "one")),
        Change::EnableChannel(channel(LayerOf::User, "two")),
        Change::EnableChannel(channel(LayerOf::Kernel, "k")),
    ]);
    let found = |plan: Plan| {
        plan.channels.into_iter().map(|one| one.contexts.join(",")).collect::<Vec<_>>()
    };
    let change = |change: Change| two.changed(&change).unwrap();
    assert_eq!(found(change(contexts(LayerOf::User, None, &["ip"]))), ["ip", "ip", ""]);
    assert_eq!(found(change(contexts(LayerOf::User, Some("two"), &["ip"]))), ["", "ip", ""]);
    let text = refused(&two, &contexts(LayerOf::User, Some("tow"), &["ip"]));
    assert!(text.contains("'tow'") && text.contains("Did you mean 'two'"), "{text}");
    let text = refused(&two, &contexts(LayerOf::User, Some("one"), &[]));
    assert!(text.contains("no context was given"), "{text}");
    // Control characters in a name are escaped, so that they cannot move the cursor.
    let text = refused(&two, &contexts(LayerOf::User, Some("\u{1b}[2J"), &["ip"]));
    assert!(text.contains("\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn stacks_of_a_session_are_contexts_of_each_channel_once() {
    let of = |layer, names: &[&str]| {
        let add = contexts(layer, None, names);
        let mut plan = after(&[Change::EnableChannel(channel(layer, "c")), add]);
        plan.stack = CallStacks::FramePointers;
        plan.contexts(&plan.channels[0]).join(",")
    };
    assert_eq!(of(LayerOf::User, &["ip"]), "ip,callstack_user");
    assert_eq!(of(LayerOf::User, &["callstack_user"]), "callstack_user");
    assert_eq!(of(LayerOf::Kernel, &["pid"]), "pid,callstack_kernel,callstack_user");
}

#[test]
fn each_kind_of_tracking_is_changed_alone() {
    let texts = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    let all = Tracked {
        pids: Some(vec![1]),
        uids: Some(vec![0, 1000]),
        gids: Some(vec![4]),
        names: texts(&["a*"]),
        cgroups: texts(&["/x", "/y"]),
        with_machine: false,
    };
    let plan = after(&[Change::Track(all.clone())]);
    let kinds = [Kind::Pids, Kind::Uids, Kind::Gids, Kind::Names, Kind::Cgroups];
    let of = |kind, rest: Tracked| match kind {
        Kind::Pids => Tracked { pids: all.pids.clone(), ..rest },
        Kind::Uids => Tracked { uids: all.uids.clone(), ..rest },
        Kind::Gids => Tracked { gids: all.gids.clone(), ..rest },
        Kind::Names => Tracked { names: all.names.clone(), ..rest },
        Kind::Cgroups => Tracked { cgroups: all.cgroups.clone(), ..rest },
    };
    for kind in kinds {
        let some = plan.changed(&Change::TrackAll(vec![kind])).unwrap();
        assert_eq!(of(kind, some.tracked.clone()), all, "{kind:?}: nothing else has changed");
        assert_ne!(some.tracked, all, "{kind:?}");
        let none = some.changed(&Change::UntrackAll(vec![kind])).unwrap();
        // Either way, nobody remains tracked.
        let fewer = plan.changed(&Change::Untrack(of(kind, Tracked::default()))).unwrap();
        assert_eq!(fewer.tracked, none.tracked, "{kind:?}");
        // A single entry cannot be removed while all are tracked.
        let text = refused(&some, &Change::Untrack(of(kind, Tracked::default())));
        assert!(text.contains("no single"), "{kind:?}: {text}");
    }
    let cgroups = texts(&["/x", "\u{7}"]);
    let text = refused(&plan, &Change::Untrack(Tracked { cgroups, ..Tracked::default() }));
    assert!(text.contains("cgroup \\u{7} is not tracked"), "{text}");
}

#[test]
fn ends_of_programs_count_by_how_they_were() {
    use strata_user::Outcome::{Exited, Killed};
    for (outcome, wanted) in [
        (None, [false, false, true]),
        (Some(Exited(0)), [false, false, true]),
        (Some(Exited(1)), [false, true, true]),
        (Some(Killed(11)), [true, true, true]),
    ] {
        let found = [How::Signal, How::Failure, How::Any].map(|how| how.admits(outcome));
        assert_eq!(found, wanted, "{outcome:?}");
    }
}

#[test]
fn what_looks_for_a_trigger_s_events_overwrites_and_tracks_whom_the_session_does() {
    let selection =
        Selection { layer: LayerOf::Kernel, ..event("sched_switch", Some("prev_tid == 1")) };
    let when = Condition::Silence { selection, ms: 500 };
    let one = trigger("t", when, Action::Start);
    let tracked = Tracked { uids: Some(vec![7]), ..Tracked::default() };
    let plan = after(&[user(&["a:*"]), Change::Track(tracked.clone())]);
    let watching = plan.watching(&one).unwrap();
    assert_eq!(
        (watching.tracked.clone(), watching.snapshot, watching.triggers.len()),
        (tracked, true, 0)
    );
    assert_eq!(lowered(&watching), ["sched_switch if prev_tid == 1"]);
    let options = watching.options_of(&watching.channels[0]).unwrap();
    assert_eq!((options.subbuf_bytes, options.nr_subbufs, options.hold), (4096, 2, true));
    assert_eq!(options.mode, strata_model::LossMode::Overwrite);
    for when in [Condition::Signal, Condition::Ended { how: How::Any }] {
        assert!(plan.watching(&trigger("t", when, Action::Start)).is_none());
    }
}

#[test]
fn rotation_is_no_action_of_a_flight_recorder() {
    let rotate = trigger("t", Condition::Signal, Action::Rotate);
    let change = Change::AddTrigger(Box::new(rotate));
    let text = refused(&Plan::new(true, None), &change);
    assert!(text.contains("nothing is rotated. Use --snapshot"), "{text}");
    assert!(Plan::new(false, None).changed(&change).is_ok());
}

fn probing(rules: &[&str], filter: Option<&str>) -> Change {
    let filter = filter.map(str::to_owned);
    let events = enable(LayerOf::Kernel, rules);
    Change::EnableEvent(EnableEvents { probe: true, filter, ..events })
}

fn disabling(rules: &[&str]) -> Change {
    let EnableEvents { layer, channel, rules, .. } = enable(LayerOf::Kernel, rules);
    Change::DisableEvent(DisableEvents { layer, channel, rules })
}

#[test]
fn probe_is_a_rule_of_the_kernel_by_its_text_or_by_the_name_of_its_event() {
    let (named, plain) = ("slow=uprobe:/a:f(x:u8, y:str)", "usdt:c:libc:*");
    let plan =
        after(&[kernel(&["sched_*"]), probing(&[named], Some("x > 3")), probing(&[plain], None)]);
    let rules = plan.wanted(&plan.channels[0]).unwrap().rules;
    let found: Vec<_> = rules.iter().map(|rule| (&*rule.text, rule.probe)).collect();
    assert_eq!(found, [("sched_*", false), (named, true), (plain, true)]);
    assert_eq!(rules[1].filter.as_ref().unwrap().text(), "x > 3");
    // A probe alone is enough for a layer.
    let alone = after(&[probing(&[named], None)]);
    assert!(alone.is_on(&alone.channels[0]) && alone.options_of(&alone.channels[0]).is_ok());
    for words in [&[named][..], &["slow"]] {
        let off = plan.changed(&disabling(words)).unwrap();
        assert_eq!(lowered(&off), ["sched_*", plain]);
    }
    // The name refers to the tracepoint first.
    let both = plan.changed(&kernel(&["slow"])).unwrap();
    let off = both.changed(&disabling(&["slow"])).unwrap();
    assert_eq!(lowered(&off), ["sched_*", "slow=uprobe:/a:f(x:u8, y:str) if x > 3", plain]);
    // The tracepoint is disabled then, and the name refers to the probe. After that, nothing of this name is enabled,
    // which is no mistake.
    let off = off.changed(&disabling(&["slow"])).unwrap();
    assert_eq!(lowered(&off), ["sched_*", plain]);
    assert_eq!(off.changed(&disabling(&["slow"])).unwrap(), off);
    let text = refused(&plan, &disabling(&["uprobe:/a:f"]));
    assert!(text.contains("no such rule"), "{text}");
    let saved = Plan::from_json(&plan.to_json()).unwrap();
    assert_eq!(saved, plan);
    // For rules that are no probes, the file has no such member.
    assert_eq!(plan.to_json().matches("\"probe\"").count(), 2);
}

#[test]
fn probe_that_no_session_can_have_is_refused() {
    let plan = after(&[kernel(&["sched_*"])]);
    for (text, said) in [
        ("uprobe:./a:f", "'./a' is a path from a folder"),
        ("uprobe:/a:f(x)", "'x' has no type"),
        ("uprobe:/a:f+4", "'f+4' is a place in the file as it is now"),
        ("!uprobe:/a:f", "is no kind of probe"),
        ("sched_switch", "is no kind of probe"),
        ("\u{1b}", "event rule '\\u{1b}': probe, column 1"),
    ] {
        let refused = refused(&plan, &probing(&[text], None));
        assert!(refused.contains(said) && !refused.contains('\u{1b}'), "{refused}");
    }
    let Change::EnableEvent(events) = probing(&["uprobe:/a:f"], None) else { panic!() };
    for (events, said) in [
        (EnableEvents { layer: LayerOf::User, ..events.clone() }, "are the kernel's (-k)"),
        (EnableEvents { exclude: vec!["x".into()], ..events.clone() }, "Leave --exclude out"),
        (EnableEvents { sample: Some(99), ..events.clone() }, "Use a rule for each"),
    ] {
        let text = refused(&plan, &Change::EnableEvent(events));
        assert!(text.contains(said), "{text}");
    }
    let kept = Plan { keep: true, ..plan };
    let text = refused(&kept, &Change::EnableEvent(events));
    assert!(text.contains("without --keep"), "{text}");
}

#[test]
fn what_rules_exclude_is_asked_of_no_probe_and_no_sample() {
    let excludes = excluding(LayerOf::Kernel, "sched_*", "sched_stat*");
    let all = [excludes, probing(&["uprobe:/a:f"], None), sampled("cpu_clock", 99)];
    let plan = after(&all);
    assert_eq!(lowered(&plan), ["sched_*", "uprobe:/a:f", "cpu_clock", "!sched_stat*"]);
    // Exclusions without a selection are left out, as they would select everything else.
    let none = after(&[kernel(&["!sched_*"]), probing(&["uprobe:/a:f"], None)]);
    assert_eq!(lowered(&none), ["uprobe:/a:f"]);
    let none = after(&[kernel(&["!sched_*"]), sampled("cpu_clock", 99)]);
    assert_eq!(lowered(&none), ["cpu_clock"]);
}

#[test]
fn copies_of_stacks_are_of_the_rules_and_not_of_all_records_of_a_channel() {
    let events = enable(LayerOf::Kernel, &["sched_switch"]);
    let mut plan = after(&[
        Change::EnableEvent(events.clone()),
        Change::EnableEvent(EnableEvents {
            stack: CallStacks::Copied(4096),
            ..enable(LayerOf::Kernel, &["openat"])
        }),
    ]);
    let stacks = |plan: &Plan| -> Vec<CallStacks> {
        let wanted = plan.wanted(&plan.channels[0]).unwrap();
        wanted.rules.iter().map(|rule| rule.stack).collect()
    };
    assert_eq!(stacks(&plan), [CallStacks::None, CallStacks::Copied(4096)]);
    // Those of the session are of all rules, and the larger copy is made.
    plan.stack = CallStacks::Copied(2048);
    assert_eq!(stacks(&plan), [CallStacks::Copied(2048), CallStacks::Copied(4096)]);
    assert_eq!(plan.contexts(&plan.channels[0]).join(","), "pid,callstack_kernel,callstack_user");
    let json = strata_text::json::compact(&plan);
    assert!(json.contains(r#""stack":{"dwarf":2048}"#), "{json}");
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    // A plan of an earlier version says whether there are stacks.
    let earlier = json.replace(r#""stack":{"dwarf":2048}"#, r#""stack":true"#);
    let earlier = serde_json::from_str::<Plan>(&earlier).unwrap();
    assert_eq!(earlier.stack, CallStacks::FramePointers);
    for bytes in [0, 1000, 1 << 20] {
        let stack = CallStacks::Copied(bytes);
        let text = refused(&plan, &Change::EnableEvent(EnableEvents { stack, ..events.clone() }));
        assert!(text.contains("1024 to 65536"), "{text}");
        assert!(Plan { stack, ..plan.clone() }.check().is_err());
    }
}

#[test]
fn filter_for_the_kernel_alone_is_accepted_in_the_foreground_where_the_kernel_is_missing() {
    let events = enable(LayerOf::User, &["*:*"]);
    let never = EnableEvents { filter: Some("a.b == 1".to_owned()), ..events };
    let never = Change::EnableEvent(never);
    let mut plan = Plan::new(false, None);
    plan.transient.is_foreground = true;
    let refused = plan.changed(&never).unwrap_err();
    assert!(matches!(refused, PlanError::NothingPasses(_)), "{refused}");
    plan.transient.no_kernel = Some(NoKernel { why: "no rights".to_owned(), is_failure: false });
    plan.changed(&never).unwrap();
}
