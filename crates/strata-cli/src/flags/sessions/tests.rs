//! Tests of the changes that flags of sessions ask for, and of refused ones.

use clap::Parser as _;

use strata_session::plan::{EventRule, Plan};

use super::*;
use crate::flags::{Action, Flags};

/// Parses the words of a `strata enable-event`.
fn enabled(words: &[&str]) -> Result<Vec<Change>, String> {
    let words = ["strata", "enable-event"].iter().chain(words);
    let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
    let Action::EnableEvent(flags) = flags.action else { return Err("another one".into()) };
    flags.changes().map_err(|error| error.to_string())
}

/// Returns the rules and exclusions of a single change.
fn of_one(words: &[&str]) -> (Vec<String>, Vec<String>) {
    let changes = enabled(words).unwrap();
    let [Change::EnableEvent(one)] = &changes[..] else { panic!("{changes:?}") };
    (one.rules.clone(), one.exclude.clone())
}

#[test]
fn events_are_named_as_lttng_names_them() {
    for (words, rules) in [
        (&["-u", "shop:*,bank:*"][..], &["shop:*", "bank:*"][..]),
        (&["shop:*", "-u"], &["shop:*"]),
        (&["--userspace", "--all", "-s", "fr"], &["*:*"]),
        (&["-k", "--all"], &["*"]),
        (&["-k", "--syscall", "--all"], &["syscalls"]),
        (&["-k", "--syscall", "openat,close"], &["syscalls:openat", "syscalls:close"]),
        (&["-k", "--tracepoint", "sched_switch"], &["sched_switch"]),
        (&["-u", "a:*", "--loglevel", "TRACE_WARNING"], &["a:*@warning"]),
        (&["-u", "a:*", "--loglevel-only=info"], &["a:*@=info"]),
    ] {
        assert_eq!(of_one(words).0, rules, "{words:?}");
    }
    let (rules, exclude) = of_one(&["-u", "a:*", "-x", "x,b:y"]);
    assert_eq!((rules, exclude), (vec!["a:*".into()], vec!["a:x".into(), "b:y".into()]));
    // What excludes from the whole channel has no filter.
    let changes = enabled(&["-u", "a:*,!a:x", "-f", "n > 3"]).unwrap();
    let filters: Vec<bool> = changes
        .iter()
        .map(|one| matches!(one, Change::EnableEvent(one) if one.filter.is_some()))
        .collect();
    assert_eq!(filters, [false, true]);
}

#[test]
fn probes_are_rules_of_their_own_and_are_disabled_as_they_were_enabled() {
    let probe = "uprobe:/a:f(x:u8, y:str)";
    let changes =
        enabled(&["-k", "sched_*,!sched_stat*", "--probe", probe, "-f", "x > 3"]).unwrap();
    let found: Vec<_> = changes
        .iter()
        .map(|one| match one {
            Change::EnableEvent(one) => (one.rules.join(" "), one.filter.is_some(), one.probe),
            other => panic!("{other:?}"),
        })
        .collect();
    let wanted = [("!sched_stat*", false, false), ("sched_*", true, false), (probe, true, true)];
    assert_eq!(found, wanted.map(|(rule, has, is)| (rule.to_owned(), has, is)));
    let lttng = ["-k", "--userspace-probe=sdt:/a:shop:sold", "sold"];
    assert_eq!(of_one(&lttng).0, ["sold=usdt:/a:shop:sold"]);
    let words = ["strata", "disable-event", "-k", "--probe", probe, "--probe", "sold", "sched_*"];
    let flags = Flags::try_parse_from(words).unwrap();
    let Action::DisableEvent(flags) = flags.action else { panic!("another one") };
    let Change::DisableEvent(change) = flags.change().unwrap() else { panic!("another one") };
    assert_eq!(change.rules, ["sched_*", probe, "sold"]);
}

#[test]
fn what_programs_do_in_libc_is_a_rule_of_programs() {
    assert_eq!(of_one(&["-u", "--libc", "malloc:sum,io"]).0, ["libc_sum:*", "io:*"]);
    let (rules, exclude) = of_one(&["-u", "--all", "--libc", "malloc:sum"]);
    assert_eq!(
        (&rules[..], &exclude[..]),
        (&["*:*".to_owned(), "libc_sum:*".to_owned()][..], &["libc:*".to_owned()][..])
    );
    let (rules, exclude) = of_one(&["-u", "shop:*", "--libc", "malloc:sum"]);
    assert_eq!((rules.len(), exclude.len()), (2, 0));
    let changes = enabled(&["-u", "*:*", "--libc", "io", "-x", "x"]).unwrap();
    let excluded = changes.iter().flat_map(|one| match one {
        Change::EnableEvent(one) => one.exclude.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(excluded.collect::<Vec<_>>(), ["*:x", "io_all:*", "io:x", "io_all:*"]);
}

/// Exclusions of one command must not affect rules that another command enables.
#[test]
fn what_a_part_of_libc_leaves_out_is_left_out_of_the_rules_of_its_command_only() {
    let after = |commands: &[&[&str]]| {
        let mut plan = Plan::new(true, None);
        for words in commands {
            let all = enabled(&[&["-u"], *words].concat()).unwrap();
            plan = plan.changed(&Change::Several(all)).unwrap();
        }
        let [channel] = &plan.channels[..] else { panic!("{plan:?}") };
        channel.events.clone()
    };
    let everything = [&["*:*", "--libc", "malloc:sum"][..], &["--libc", "malloc"]];
    let of_sum = [&["--libc", "malloc"][..], &["shop:*", "--libc", "malloc:sum"]];
    let of_io = [&["--libc", "io-all"][..], &["*:*", "--libc", "io"]];
    let of_pthread = [&["-a", "--libc", "pthread"][..], &["--libc", "pthread-all"]];
    for (commands, rule) in [
        (&everything[..], "libc:*"),
        (&of_sum, "libc:*"),
        (&of_io, "io_all:*"),
        (&of_pthread, "pthread_all:*"),
    ] {
        let events = after(commands);
        let is_it = |event: &&EventRule| event.rule == rule && event.exclude.is_empty();
        assert_eq!(events.iter().filter(is_it).count(), 1, "{events:?}");
        assert!(events.iter().all(|event| !event.rule.starts_with('!')), "{events:?}");
    }
}

#[test]
fn events_that_make_no_sense_are_refused() {
    for (words, said) in [
        (&["a:*"][..], "--kernel|--user"),
        (&["-u", "-k", "a:*"], "cannot be used with"),
        (&["-u"], "required"),
        (&["-k", "a", "--loglevel", "3"], "cannot be used with"),
        (&["-u", "a", "--syscall"], "cannot be used with"),
        (&["-u", "a:*@info", "--loglevel", "3"], "it says a log level"),
        (&["-u", "a:*", "-f", "n >"], "--filter"),
        (&["-u", "a:"], "no event behind"),
        (&["-u", "--probe", "uprobe:/a:f"], "cannot be used with"),
        (&["-k", "--probe", "uprobe:/a"], "the function is missing"),
        (&["-k", "--probe", "uprobe:/a:f", "-x", "f"], "cannot be used with"),
        (&["-k", "--userspace-probe=/a:f", "--all"], "cannot be used with"),
        (&["-k", "--userspace-probe=/a"], "write elf:PATH:SYMBOL"),
        (&["-k", "--libc", "malloc"], "cannot be used with"),
        (&["-u", "--libc", "mallocs"], "'mallocs' is none of"),
    ] {
        let text = enabled(words).unwrap_err();
        assert!(text.contains(said), "{words:?}: {text}");
    }
}

#[test]
fn tracked_are_of_several_kinds_and_all_of_one() {
    let flags = |words: &[&str]| {
        let words = ["strata", "track"].iter().chain(words);
        match Flags::try_parse_from(words).map(|flags| flags.action) {
            Ok(Action::Track(flags)) => Ok(flags),
            Ok(_) => panic!("another one"),
            Err(error) => Err(error.to_string()),
        }
    };
    let changes = flags(&["--pid", "1,2", "--name", "sh*"]).unwrap().changes(&[], false);
    let tracked =
        Tracked { pids: Some(vec![1, 2]), names: Some(vec!["sh*".into()]), ..Tracked::default() };
    assert_eq!(changes, [Change::Track(tracked)]);
    let changes = flags(&["--all", "pid,uid"]).unwrap().changes(&[], true);
    assert_eq!(changes, [Change::UntrackAll(vec![Kind::Pids, Kind::Uids])]);
    assert!(flags(&[]).unwrap_err().contains("--pid"));
    assert!(flags(&["--pid", "x"]).is_err());
}

#[test]
fn system_calls_are_disabled_as_they_were_enabled_and_channels_are_several() {
    let flags = |words: &[&str]| {
        Flags::try_parse_from(["strata"].iter().chain(words)).map(|flags| flags.action)
    };
    for (words, rules) in [
        (&["openat,close"][..], &["openat", "close"][..]),
        (&["--syscall", "openat,close"], &["syscalls:openat", "syscalls:close"]),
        (&["--syscall", "!openat"], &["!syscalls:openat"]),
        (&["--syscall", "--all"], &["syscalls"]),
        (&["--all"], &[]),
    ] {
        let words = [&["disable-event", "-k"], words].concat();
        let Ok(Action::DisableEvent(flags)) = flags(&words) else { panic!("{words:?}") };
        let Change::DisableEvent(change) = flags.change().unwrap() else { panic!("{words:?}") };
        assert_eq!(change.rules, rules, "{words:?}");
    }
    let Ok(Action::EnableChannel(of)) = flags(&["enable-channel", "-k", "a,b", "--overwrite"])
    else {
        panic!("not taken")
    };
    let names = of.changes().into_iter().map(|change| match change {
        Change::EnableChannel(one) => (one.channel, one.mode),
        other => panic!("{other:?}"),
    });
    let overwritten = Some(Loss::Overwrite);
    assert_eq!(
        names.collect::<Vec<_>>(),
        [("a".to_owned(), overwritten), ("b".to_owned(), overwritten)]
    );
    let Ok(Action::DisableChannel(of)) = flags(&["disable-channel", "-u", "a,b"]) else {
        panic!("not taken")
    };
    assert_eq!(of.changes().len(), 2);
    assert!(flags(&["enable-channel", "-u"]).is_err());
}

#[test]
fn contexts_have_the_names_of_lttng_too_and_are_listed_of_both_layers() {
    let flags = |words: &[&str]| {
        let words = ["strata", "add-context"].iter().chain(words);
        match Flags::try_parse_from(words).map(|flags| flags.action) {
            Ok(Action::AddContext(flags)) => Ok(flags),
            Ok(_) => panic!("another one"),
            Err(error) => Err(error.to_string()),
        }
    };
    let Change::AddContext(change) =
        flags(&["-k", "-t", "callstack-kernel,callstack-user", "-t", "perf:cpu:page-fault"])
            .unwrap()
            .change()
    else {
        panic!("another one")
    };
    assert_eq!(change.layer, LayerOf::Kernel);
    assert_eq!(change.contexts, ["callstack_kernel", "callstack_user", "perf:cpu:page-fault"]);
    assert_eq!(flags(&["-l"]).unwrap().layers(), [LayerOf::User, LayerOf::Kernel]);
    assert_eq!(flags(&["-l", "-k"]).unwrap().layers(), [LayerOf::Kernel]);
    assert_eq!(flags(&["-l", "-u"]).unwrap().layers(), [LayerOf::User]);
    for (words, said) in [
        (&["-t", "ip"][..], "--kernel|--user"),
        (&["-u", "-k", "-t", "ip"], "cannot be used with"),
        (&["-u"], "--type"),
    ] {
        let text = flags(words).unwrap_err();
        assert!(text.contains(said), "{words:?}: {text}");
    }
}
