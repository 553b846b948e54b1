//! Tests of plans: results of changes, refused changes, and the requests to layers.

use super::*;

mod edges;

fn enable(layer: LayerOf, rules: &[&str]) -> EnableEvents {
    EnableEvents {
        layer,
        channel: None,
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        filter: None,
        exclude: Vec::new(),
        stack: CallStacks::None,
        sample: None,
        probe: false,
        slower_ns: None,
        every: None,
        at_most: None,
    }
}

fn user(rules: &[&str]) -> Change {
    Change::EnableEvent(enable(LayerOf::User, rules))
}

fn kernel(rules: &[&str]) -> Change {
    Change::EnableEvent(enable(LayerOf::Kernel, rules))
}

fn filtered(rule: &str, filter: &str) -> Change {
    let filter = Some(filter.to_owned());
    Change::EnableEvent(EnableEvents { filter, ..enable(LayerOf::User, &[rule]) })
}

fn excluding(layer: LayerOf, rule: &str, exclude: &str) -> Change {
    let exclude = vec![exclude.to_owned()];
    Change::EnableEvent(EnableEvents { exclude, ..enable(layer, &[rule]) })
}

fn channel(layer: LayerOf, name: &str) -> ChannelChange {
    ChannelChange {
        layer,
        channel: name.to_owned(),
        mode: None,
        subbuf_size: None,
        num_subbuf: None,
        flush_ms: None,
    }
}

fn disable(rules: &[&str]) -> Change {
    let EnableEvents { layer, channel, rules, .. } = enable(LayerOf::User, rules);
    Change::DisableEvent(DisableEvents { layer, channel, rules })
}

/// Returns the plan after all of these changes.
fn after(changes: &[Change]) -> Plan {
    let begin = Plan::new(false, None);
    changes.iter().fold(begin, |plan, change| plan.changed(change).unwrap())
}

fn refused(plan: &Plan, change: &Change) -> String {
    let before = plan.clone();
    let text = plan.changed(change).unwrap_err().to_string();
    assert_eq!(*plan, before);
    text
}

/// Returns the rules with their filters, as the layer gets them.
fn lowered(plan: &Plan) -> Vec<String> {
    let wanted = plan.wanted(&plan.channels[0]).unwrap();
    let text = |rule: &crate::session::layer::LayerRule| match &rule.filter {
        Some(filter) => format!("{} if {}", rule.text, filter.text()),
        None => rule.text.clone(),
    };
    wanted.rules.iter().map(text).collect()
}

#[test]
fn first_event_of_each_layer_makes_its_channel0() {
    let plan = after(&[user(&["shop:*", "bank:*"]), kernel(&["sched_*"]), user(&["shop:*"])]);
    let found: Vec<(&str, &str, usize)> = plan
        .channels
        .iter()
        .map(|one| (one.layer.name(), one.name.as_str(), one.events.len()))
        .collect();
    assert_eq!(found, [("user", "channel0", 2), ("kernel", "channel0", 1)]);
    assert!(plan.channels.iter().all(|one| plan.is_on(one)));
}

#[test]
fn disabled_rule_selects_nothing_and_comes_back_once() {
    let plan = after(&[user(&["a:*", "b:*"]), disable(&["a:*"])]);
    assert_eq!(lowered(&plan), ["b:*"]);
    let text = refused(&plan, &disable(&["b*"]));
    assert!(text.contains("no such rule") && text.contains("Did you mean 'b:*'"), "{text}");
    // The same one is enabled again; with another filter it is another one, instead of what is off.
    let again = plan.changed(&user(&["a:*"])).unwrap();
    assert_eq!((again.channels[0].events.len(), lowered(&again).len()), (2, 2));
    let other = plan.changed(&filtered("a:*", "n > 3")).unwrap();
    assert_eq!(lowered(&other), ["b:*", "a:* if n > 3"]);
    let none = plan.changed(&disable(&[])).unwrap();
    assert!(!none.is_on(&none.channels[0]));
    let text = refused(&Plan::new(false, None), &disable(&["a:*"]));
    assert!(text.contains("no channel"), "{text}");
}

#[test]
fn exclusions_are_the_channel_s_where_all_have_them_and_else_the_rule_s() {
    let same = after(&[
        excluding(LayerOf::User, "a:*", "a:x"),
        excluding(LayerOf::User, "b:*", "a:x"),
        user(&["!c:*"]),
    ]);
    assert_eq!(lowered(&same), ["a:*", "b:*", "!c:*", "!a:x"]);
    let differ = after(&[excluding(LayerOf::User, "a:*", "a:x@warning"), user(&["*:x"])]);
    assert_eq!(lowered(&differ), [r#"a:* if !(name == "a:x" && loglevel <= 4)"#, "*:x"]);
    // Only excluding ones record nothing.
    let none = after(&[user(&["!c:*"])]);
    assert!(lowered(&none).is_empty() && !none.is_on(&none.channels[0]));
    let kernel = after(&[excluding(LayerOf::Kernel, "sched_*", "sched_stat*")]);
    assert_eq!(lowered(&kernel), ["sched_*", "!sched_stat*"]);
    let text = refused(&kernel, &super::tests::kernel(&["irq_*"]));
    assert!(text.contains("a channel for each"), "{text}");
}

#[test]
fn rules_with_filters_are_one_filter_of_programs() {
    let plan = after(&[filtered("shop:*@=info", "price > 3 || has(x)"), user(&["bank"])]);
    let options = plan.options_of(&plan.channels[0]).unwrap();
    assert_eq!(
        options.filter.unwrap().text(),
        r#"(name == "shop:*" && loglevel == 6 && (price > 3 || has(x))) || (name == "bank:*")"#
    );
    assert_eq!(options.rules.unwrap().as_str(), "shop:*@=6,bank:*");
    // Without any, programs are asked nothing.
    let plain = after(&[user(&["shop:*"])]);
    assert!(plain.options_of(&plain.channels[0]).unwrap().filter.is_none());
    // What is no pattern in a rule is none in the filter.
    let odd = after(&[filtered(r#"a\*:"x\\"#, "n")]);
    let options = odd.options_of(&odd.channels[0]).unwrap();
    assert_eq!(options.filter.unwrap().text(), "n");
}

#[test]
fn rules_of_the_kernel_keep_their_filters_in_their_order() {
    let asked = EnableEvents {
        filter: Some("ret < 0".to_owned()),
        ..enable(LayerOf::Kernel, &["openat", "close"])
    };
    let plan = after(&[kernel(&["sched_*"]), Change::EnableEvent(asked)]);
    let rules = plan.wanted(&plan.channels[0]).unwrap().rules;
    let rules: Vec<_> = rules.iter().map(|one| (&*one.text, one.filter.is_some())).collect();
    assert_eq!(rules, [("sched_*", false), ("openat", true), ("close", true)]);
}

#[test]
fn channel_is_named_where_there_are_several() {
    let made = |name| Change::EnableChannel(channel(LayerOf::User, name));
    // The only one is meant.
    let one = after(&[made("big"), user(&["a:*"])]);
    assert_eq!((one.channels.len(), one.channels[0].events.len()), (1, 1));
    let two = one.changed(&made("small")).unwrap();
    let text = refused(&two, &user(&["b:*"]));
    assert!(text.contains("big, small: use -c"), "{text}");
    let at = |name: &str| {
        let channel = Some(name.to_owned());
        Change::EnableEvent(EnableEvents { channel, ..enable(LayerOf::User, &["b:*"]) })
    };
    assert_eq!(two.changed(&at("small")).unwrap().channels[1].events.len(), 1);
    let text = refused(&two, &at("smal"));
    assert!(text.contains("Did you mean 'small'"), "{text}");
    let off = ChannelOf { layer: LayerOf::User, channel: "big".to_owned() };
    let off = two.changed(&Change::DisableChannel(off)).unwrap();
    assert!(!off.is_on(&off.channels[0]));
    let on = off.changed(&made("big")).unwrap();
    assert!(on.is_on(&on.channels[0]) && on.channels[0].events.len() == 1);
}

#[test]
fn channel_that_cannot_be_is_refused_in_the_words_of_its_flags() {
    let plan = Plan::new(true, None);
    let with = |change: fn(&mut ChannelChange)| {
        let mut asked = channel(LayerOf::User, "c");
        change(&mut asked);
        refused(&plan, &Change::EnableChannel(asked))
    };
    assert!(with(|one| one.subbuf_size = Some(5000)).contains("--subbuf-size=5000"));
    assert!(with(|one| one.num_subbuf = Some(u32::MAX)).contains("--num-subbuf"));
    assert!(with(|one| one.flush_ms = Some(u64::MAX)).contains("--flush"));
    assert!(with(|one| one.mode = Some(Loss::Discard)).contains("Leave out --discard"));
    for name in ["", "..", "a/b", "-x", "a b", "user", "kernel", &"x".repeat(65), "\u{1b}[0m"] {
        let asked = ChannelChange { channel: name.to_owned(), ..channel(LayerOf::User, "") };
        let text = refused(&plan, &Change::EnableChannel(asked));
        assert!(text.starts_with("channel '") && !text.contains('\u{1b}'), "{text}");
    }
    let many = (0..=CHANNELS_MAX).try_fold(plan, |plan, number| {
        plan.changed(&Change::EnableChannel(channel(LayerOf::User, &format!("c{number}"))))
    });
    assert!(many.unwrap_err().to_string().contains("at most 32"));
}

#[test]
fn sizes_are_the_channel_s_or_the_session_s() {
    let session = Plan { subbuf_size: Some(8192), ..Plan::new(true, None) };
    let odd = Plan { subbuf_size: Some(5000), ..session.clone() };
    assert!(odd.check().unwrap_err().to_string().contains("--subbuf-size=5000"));
    let own = ChannelChange { num_subbuf: Some(4), ..channel(LayerOf::User, "c") };
    let plan = session.changed(&Change::EnableChannel(own)).unwrap();
    let plan = plan.changed(&user(&["a:*"])).unwrap();
    let options = plan.options_of(&plan.channels[0]).unwrap();
    assert_eq!((options.subbuf_bytes, options.nr_subbufs, options.hold), (8192, 4, true));
    assert_eq!(options.mode, LossMode::Overwrite);
    assert!(options.is_size_given && options.everyone);
    assert_eq!(plan.options_of(&plan.channels[0]).unwrap().check(), Ok(()));
}

#[test]
fn rules_and_filters_that_are_none_are_refused() {
    let plan = Plan::new(false, None);
    for (change, said) in [
        (user(&["a:*,b:*"]), "several"),
        (user(&[":x"]), "no provider"),
        (user(&[]), "no rule"),
        (kernel(&["a b"]), "no event has"),
        (filtered("a:*", "n >"), "filter"),
        (filtered("a:*", "packet.x == 1"), "packet"),
        (filtered("a:*", "n > 3 && loglevel == 3 && loglevel == 99"), ""),
        (filtered("!a:*", "n > 3"), "no filter"),
        (excluding(LayerOf::User, "a:*", "!a:b"), "begins with '!'"),
        (user(&[&"x".repeat(TEXT_BYTES_MAX + 1)]), "at most 4096"),
    ] {
        match plan.changed(&change) {
            Err(error) => assert!(error.to_string().contains(said), "{change:?}: {error}"),
            Ok(_) => assert!(said.is_empty(), "{change:?}"),
        }
    }
}

#[test]
fn contexts_are_those_of_the_layer() {
    let add = |layer, names: &[&str]| {
        let contexts = names.iter().map(|name| (*name).to_owned()).collect();
        Change::AddContext(ContextChange { layer, channel: None, contexts })
    };
    let plan = after(&[add(LayerOf::User, &["vpid", "perf:thread:task-clock"])]);
    assert_eq!(plan.channels[0].contexts, ["vpid", "perf:thread:task-clock"]);
    let text = refused(&plan, &add(LayerOf::User, &["procnam"]));
    assert!(text.contains("Do you mean 'procname'"), "{text}");
    let text = refused(&plan, &add(LayerOf::User, &["callstack_kernel"]));
    assert!(text.contains("context 'callstack_kernel'"), "{text}");
    assert!(refused(&plan, &add(LayerOf::User, &["vpid"])).contains("has this context"));
    assert!(
        refused(&plan, &add(LayerOf::User, &["perf:thread:"])).contains("context 'perf:thread:'")
    );
    let counters: Vec<String> = (1..=8).map(|one| format!("perf:cpu:raw:r{one}:n")).collect();
    let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
    let plan = after(&[add(LayerOf::Kernel, &counters)]);
    assert_eq!(plan.channels[0].contexts, counters);
    let text = refused(&plan, &add(LayerOf::Kernel, &["pid", "perf:cpu:faults"]));
    assert!(text.contains("'perf:cpu:faults': it is one counter more than the 8"), "{text}");
    assert!(refused(&plan, &add(LayerOf::Kernel, &["perf:thread:cycles"])).contains("of their CPU"));
}

#[test]
fn tracked_are_those_that_were_named_until_all_are_again() {
    let pids = |pids: &[u32]| Tracked { pids: Some(pids.to_vec()), ..Tracked::default() };
    let plan = after(&[
        user(&["a:*"]),
        Change::Track(pids(&[1, 2])),
        Change::Track(pids(&[2, 3])),
        Change::Untrack(pids(&[2])),
    ]);
    assert_eq!(plan.tracked, pids(&[1, 3]));
    let options = plan.options_of(&plan.channels[0]).unwrap();
    // The layer is told who, and may be told of others.
    assert_eq!((options.pids, options.everyone), (Vec::new(), true));
    assert!(refused(&plan, &Change::Untrack(pids(&[9]))).contains("process 9 is not tracked"));
    let uids = Tracked { uids: Some(vec![1]), ..Tracked::default() };
    assert!(refused(&plan, &Change::Untrack(uids)).contains("no single user can be taken away"));
    let none = plan.changed(&Change::UntrackAll(vec![Kind::Pids])).unwrap();
    // Nobody is not everybody.
    assert!(!none.is_on(&none.channels[0]));
    let all = none.changed(&Change::TrackAll(vec![Kind::Pids])).unwrap();
    assert!(all.is_on(&all.channels[0]) && all.tracked == Tracked::default());
    let text = |tracked| refused(&plan, &Change::Track(tracked));
    assert!(text(pids(&[0])).contains("'0' is no process"));
    let cgroups = Some(vec!["system.slice".to_owned()]);
    assert!(text(Tracked { cgroups, ..Tracked::default() }).contains("paths from '/'"));
    let names = Some(vec!["\n".to_owned()]);
    assert!(text(Tracked { names, ..Tracked::default() }).contains("no name"));
}

#[test]
fn plan_as_json_is_read_back_and_what_is_not_known_is_refused() {
    let plan = after(&[filtered("a:*", "n > 3"), kernel(&["sched_*"])]);
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert_eq!(Plan::from_json(r#"{"version":1}"#).unwrap(), Plan::new(false, None));
    for (text, said) in [
        ("", "plan: "),
        ("[]", "plan: "),
        ("{}", "version"),
        (r#"{"version":2}"#, "version 2"),
        (r#"{"version":1,"chanels":[]}"#, "chanels"),
        (r#"{"version":1,"channels":[{"name":"a","layer":"guest"}]}"#, "guest"),
        (r#"{"version":1,"channels":[{"name":"../a","layer":"user"}]}"#, "not a name"),
        (
            r#"{"version":1,"channels":[{"name":"a","layer":"user"},{"name":"a","layer":"user"}]}"#,
            "two",
        ),
        (r#"{"version":1,"tracked":{"pids":[-1]}}"#, "plan: "),
    ] {
        let error = Plan::from_json(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let long = Plan { output: Some("x".repeat(PLAN_BYTES_MAX).into()), ..plan };
    assert!(long.check().unwrap_err().to_string().contains("at most 24576"));
    assert!(Plan::from_json(&" ".repeat(5 * PLAN_BYTES_MAX)).is_err());
}

#[test]
fn change_as_json_has_the_words_of_the_commands() {
    let change = filtered("a:*", "n > 3");
    let text = strata_text::json::compact(&change);
    assert!(text.starts_with(r#"{"enable-event":{"layer":"user""#), "{text}");
    assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
    for text in [
        r#"{"enable-event":{"layer":"user","rules":["a"],"force":true}}"#,
        r#"{"fly":{}}"#,
        r#"{"track":{"pid":[1]}}"#,
        r#"{}"#,
    ] {
        assert!(serde_json::from_str::<Change>(text).is_err(), "{text}");
    }
}

#[test]
fn several_changes_are_all_of_them_or_none() {
    let plan = Plan::new(false, None);
    let several = Change::Several(vec![user(&["!a:x"]), user(&["a:*"])]);
    assert_eq!(lowered(&plan.changed(&several).unwrap()), ["!a:x", "a:*"]);
    let text = refused(&plan, &Change::Several(vec![user(&["a:*"]), user(&["a:"])]));
    assert!(text.contains("no event behind"), "{text}");
    let nested = Change::Several(vec![several]);
    assert!(refused(&plan, &nested).contains("is several"));
}

#[test]
fn plan_that_replaces_another_goes_where_that_went() {
    let plan = Plan::new(true, None);
    let other = Plan { output: Some("/x".into()), ..after(&[user(&["a:*"])]) };
    let replaced = plan.changed(&Change::Replace(Box::new(other))).unwrap();
    assert_eq!((replaced.snapshot, replaced.output.clone()), (true, None));
    assert_eq!(replaced.channels.len(), 1);
}

fn trigger(name: &str, when: Condition, action: Action) -> Trigger {
    Trigger { name: name.into(), when, actions: vec![action], pause_ms: 0, times: None }
}

fn event(rule: &str, filter: Option<&str>) -> Selection {
    let filter = filter.map(str::to_owned);
    Selection { layer: LayerOf::User, rule: rule.into(), filter }
}

#[test]
fn triggers_are_part_of_a_plan_and_come_back_from_its_json() {
    let mut plan = Plan::new(true, None);
    for one in [
        trigger("a", Condition::Signal, Action::Snapshot { folder: Some("/x".into()) }),
        trigger("b", Condition::Ended { how: How::Failure }, Action::Start),
        trigger("c", Condition::Event { selection: event("a:*", Some("n > 3")) }, Action::Stop),
        trigger(
            "d",
            Condition::Silence { selection: event("a:*", None), ms: 500 },
            Action::Run { command: vec!["x".into()] },
        ),
    ] {
        plan = plan.changed(&Change::AddTrigger(Box::new(one))).unwrap();
    }
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    let fewer = plan.changed(&Change::RemoveTrigger("b".into())).unwrap();
    let names: Vec<&str> = fewer.triggers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    let text = plan.changed(&Change::RemoveTrigger("e".into())).unwrap_err().to_string();
    assert!(text.contains("trigger 'e': there is none of this name"), "{text}");
    // What an older plan does not have is none.
    let older = Plan::from_json(r#"{"version": 1, "snapshot": true}"#).unwrap();
    assert!(older.triggers.is_empty());
    // Who waits for events has buffers as small as they can be, and takes nothing of the session's channels.
    let watching = plan.watching(&plan.triggers[2]).unwrap();
    assert_eq!((watching.channels.len(), watching.channels[0].subbuf_size), (1, Some(4096)));
    assert!(plan.watching(&plan.triggers[0]).is_none());
}

#[test]
fn triggers_that_are_none_are_refused() {
    let wrong = |snapshot, one: Trigger| {
        let plan = Plan::new(snapshot, None);
        plan.changed(&Change::AddTrigger(Box::new(one))).unwrap_err().to_string()
    };
    let of = |when| trigger("t", when, Action::Start);
    let doing = |action| trigger("t", Condition::Signal, action);
    let run =
        |words: &[&str]| Action::Run { command: words.iter().map(|&one| one.into()).collect() };
    for (one, said) in [
        (trigger("-t", Condition::Signal, Action::Start), "not a name"),
        (trigger("\u{1b}", Condition::Signal, Action::Start), "not a name"),
        (of(Condition::Silence { selection: event("a:*", None), ms: 499 }), "499 ms"),
        (of(Condition::Silence { selection: event("a:*", None), ms: u64::MAX }), "are possible"),
        (of(Condition::Event { selection: event("a:", None) }), "no event behind"),
        (of(Condition::Event { selection: event("!a:*", None) }), "it excludes"),
        (of(Condition::Event { selection: event("a:*,b:*", None) }), "several"),
        (of(Condition::Event { selection: event("a:*", Some("n >")) }), "filter"),
        (of(Condition::Event { selection: event("a:*", Some("1 > 2 && n > 1")) }), "filter"),
        (Trigger { times: Some(0), ..of(Condition::Signal) }, "0 times"),
        (Trigger { pause_ms: u64::MAX, ..of(Condition::Signal) }, "a pause"),
        (Trigger { actions: Vec::new(), ..of(Condition::Signal) }, "0 actions"),
        (Trigger { actions: vec![Action::Start; 9], ..of(Condition::Signal) }, "9 actions"),
        (doing(run(&[])), "its command is none"),
        (doing(run(&[""])), "its command is none"),
        (doing(run(&["a", "b\0"])), "its command is none"),
        (doing(run(&["a"; 65])), "65, at most 64"),
        (doing(Action::Snapshot { folder: Some("x".into()) }), "not a path from '/'"),
    ] {
        let text = wrong(true, one.clone());
        assert!(text.contains(said), "{one:?}: {text}");
    }
    let text = wrong(false, doing(Action::Snapshot { folder: None }));
    assert!(text.contains("made with --snapshot"), "{text}");
    let mut plan = Plan::new(true, None);
    plan.triggers = vec![of(Condition::Signal); 2];
    assert!(plan.check().unwrap_err().to_string().contains("there is one of this name"));
    let named = |number| trigger(&format!("t{number}"), Condition::Signal, Action::Start);
    plan.triggers = (0..=TRIGGERS_MAX).map(named).collect();
    assert!(plan
        .check()
        .unwrap_err()
        .to_string()
        .contains("triggers of a session: 17, at most 16"));
}

#[test]
fn rotation_is_of_sessions_that_write_and_within_its_limits() {
    let plan =
        Plan::from_json(r#"{"version": 1, "rotation": {"size": 65536, "count": 3}}"#).unwrap();
    assert_eq!(plan.rotation, Rotation { size: Some(65_536), time_ms: None, count: Some(3) });
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert!(!Plan::new(false, None).to_json().contains("rotation"));
    for (text, said) in [
        (r#""rotation": {"size": 65535}"#, "--rotate-size: 65535 bytes, from 65536"),
        (r#""rotation": {"time_ms": 99}"#, "--rotate-time: 99 milliseconds, from 100"),
        (r#""rotation": {"count": 0}"#, "--rotate-count: 0 parts, from 1 to 500"),
        (r#""rotation": {"count": 501}"#, "--rotate-count: 501 parts"),
        (r#""rotation": {"parts": 1}"#, "parts"),
        (r#""snapshot": true, "rotation": {"count": 1}"#, "nothing is written but snapshots"),
    ] {
        let error = Plan::from_json(&format!(r#"{{"version": 1, {text}}}"#)).unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    // Of a session that is there a plan from a file changes all but where it goes, and how.
    let loaded = plan.changed(&Change::Replace(Box::new(Plan::new(false, None)))).unwrap();
    assert_eq!(loaded.rotation, plan.rotation);
    let trigger = |snapshot, keep| {
        let (name, when, actions) = ("t".to_owned(), Condition::Signal, vec![Action::Rotate]);
        let trigger = Box::new(Trigger { name, when, actions, pause_ms: 0, times: None });
        let plan = Plan { keep, ..Plan::new(snapshot, None) };
        plan.changed(&Change::AddTrigger(trigger)).map_err(|error| error.to_string())
    };
    assert!(trigger(false, false).is_ok() && trigger(false, true).is_ok());
    let held = trigger(true, false).unwrap_err();
    assert!(held.contains("a flight recorder writes nothing"), "{held}");
}

#[test]
fn channel_beyond_the_limit_of_memory_is_refused_with_the_figures() {
    let (mib, cpus) = (1u64 << 20, u64::from(possible_cpus()));
    let (subbuf_size, num_subbuf) = (Some(mib), Some(8));
    let max_memory = Some(9 * cpus * mib);
    let plan = Plan { max_memory, subbuf_size, num_subbuf, ..Plan::new(false, None) };
    let one = plan.changed(&Change::EnableChannel(channel(LayerOf::User, "one"))).unwrap();
    let two = Change::EnableChannel(channel(LayerOf::Kernel, "two"));
    let text = refused(&one, &two);
    let figures = format!(
        "channel 'two': its buffers need at least {} MiB for one program, or for the kernel, those of the other channels {} \
         MiB, and --max-memory allows {} MiB",
        8 * cpus,
        8 * cpus,
        9 * cpus
    );
    assert!(text.starts_with(&figures), "{text}");
    // One that is off takes nothing.
    let of = ChannelOf { layer: LayerOf::User, channel: "one".into() };
    one.changed(&Change::DisableChannel(of)).unwrap().changed(&two).unwrap();
    assert_eq!(Plan::from_json(&one.to_json()).unwrap(), one);
}

#[test]
fn plan_that_an_earlier_version_saved_with_advised_sizes_is_read_without_them() {
    let plan = Plan::new(true, None);
    let with = |what: &str| plan.to_json().replacen('{', &format!("{{ {what}, "), 1);
    let sizes =
        r#""advised": [{ "layer": "user", "channel": "c", "subbuf_size": 8192, "num_subbuf": 4 }]"#;
    assert_eq!(Plan::from_json(&with(sizes)).unwrap(), plan);
    assert!(Plan::from_json(&with(r#""unknown": []"#)).is_err());
}

#[test]
fn end_of_a_session_is_in_its_plan_where_it_can_be_kept() {
    let until = |duration_ms, max_bytes| Until { duration_ms, max_bytes };
    let plan = Plan { until: until(Some(5), Some(4096)), ..Plan::new(false, None) };
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert!(!Plan::new(false, None).to_json().contains("until"));
    let count = Rotation { count: Some(2), size: Some(1 << 20), ..Rotation::default() };
    for (wrong, said) in [
        (Plan { until: until(Some(0), None), ..plan.clone() }, "--duration=0"),
        (Plan { until: until(None, Some(0)), ..plan.clone() }, "--max-size=0"),
        (Plan { snapshot: true, ..plan.clone() }, "--max-size"),
        (Plan { rotation: count, ..plan.clone() }, "--rotate-count"),
        (Plan { keep: true, ..plan.clone() }, "after a kill"),
    ] {
        let error = wrong.check().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn plan_that_settles_has_two_folders_and_a_size_that_makes_sense() {
    let settle = |folder: &str, size| Some(Settle { folder: folder.into(), size });
    let plan = Plan {
        settle: settle("/var/x", SETTLE_BYTES_MIN),
        ..Plan::new(false, Some("/run/x".into()))
    };
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert!(!Plan::new(false, None).to_json().contains("settle"));
    let wrong = [
        Plan { settle: settle("var", SETTLE_BYTES_MIN), ..plan.clone() },
        Plan { settle: settle("/var/x", SETTLE_BYTES_MIN - 1), ..plan.clone() },
        Plan { output: None, ..plan.clone() },
        Plan { snapshot: true, ..plan.clone() },
        Plan { keep: true, ..plan },
    ];
    for plan in wrong {
        assert!(matches!(plan.check(), Err(PlanError::Settle(_))), "{plan:?}");
    }
}

#[test]
fn transient_part_is_lowered_and_in_no_file() {
    let mut plan = after(&[user(&["a:*"]), kernel(&["sched_switch"])]);
    plan.transient = Transient { all_processes: true, ..Transient::default() };
    assert!(plan.transient.is_none() && plan.transient.is_everyone());
    plan.transient.command = vec!["secret".into()];
    assert!(!plan.transient.is_none() && !plan.transient.is_everyone());
    for (channel, all) in plan.channels.iter().zip([None, Some(true)]) {
        let options = plan.options_of(channel).unwrap();
        assert_eq!(options.command, plan.transient.command);
        assert!(!options.everyone);
        assert_eq!(options.kernel.map(|kernel| kernel.all_processes), all);
    }
    let text = plan.to_json();
    assert!(!text.contains("secret") && !text.contains("transient"), "{text}");
    let read = Plan::from_json(&text).unwrap();
    assert_eq!(read.transient, Transient::default());
    // What replaces the plan does not replace whom it is of.
    let replaced = plan.changed(&Change::Replace(Box::new(read))).unwrap();
    assert_eq!(replaced.transient, plan.transient);
}
