use super::*;
use crate::discover::tracefs::Tracefs;

fn catalog() -> Catalog {
    let tracefs = Tracefs::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tracefs"));
    Catalog::load(&tracefs).expect("the saved files")
}

fn rule(text: &str) -> SelectionRule {
    SelectionRule::parse(text, 1).expect(text)
}

fn event(system: &str, name: &str, kernel_name: &str) -> EventName {
    let is_syscall = system == SYSCALLS;
    EventName {
        name: name.into(),
        system: system.into(),
        kernel_name: kernel_name.into(),
        is_syscall,
    }
}

/// The tracepoints that rules select.
fn selected(rules: &[&str]) -> Vec<String> {
    let selected = EventSelection::parse(rules).expect("rules").apply(&catalog());
    let tracepoints = selected.events.into_iter().filter(|chosen| !chosen.event.is_syscall);
    tracepoints.map(|chosen| chosen.event.name).collect()
}

#[test]
fn rule_matches_each_of_an_event_s_names() {
    let softirq = event("irq", "irq_softirq_entry", "softirq_entry");
    for text in [
        "irq_softirq_entry",
        "softirq_entry",
        "irq:softirq_entry",
        "irq:irq_softirq_*",
        "irq:*",
        "*:softirq_entry",
        "soft*",
        "*",
        "irq_softirq_e?try",
    ] {
        assert_eq!(rule(text).matches(&softirq, Reach::All), BOTH, "{text}");
    }
    for text in
        ["irq_softirq", "softirq", "sched:*", "irq:irq_handler_*", "softirq:*", "syscalls", "Soft*"]
    {
        assert_eq!(rule(text).matches(&softirq, Reach::All), SyscallEnds::default(), "{text}");
    }
}

#[test]
fn rule_matches_a_system_call_or_one_end_of_it() {
    let openat = event(SYSCALLS, "openat", "openat");
    for text in [
        "openat",
        "*",
        "open*",
        "opena?",
        "syscalls",
        "syscalls:open*",
        "sys*:*",
        "syscall_*_openat",
    ] {
        assert_eq!(rule(text).matches(&openat, Reach::All), BOTH, "{text}");
    }
    let entry = SyscallEnds { entry: true, exit: false };
    for text in ["syscall_entry_openat", "syscall_entry_*", "syscalls:syscall_entry_o*"] {
        assert_eq!(rule(text).matches(&openat, Reach::All), entry, "{text}");
    }
    assert_eq!(
        rule("syscall_exit_*").matches(&openat, Reach::All),
        SyscallEnds { entry: false, exit: true }
    );
    for text in ["sched:openat", "pen*", "opena", "open"] {
        assert_eq!(rule(text).matches(&openat, Reach::All), SyscallEnds::default(), "{text}");
    }
}

#[test]
fn rule_matches_a_32_bit_program_s_call_by_both_its_names() {
    let openat = event(SYSCALLS, "compat_openat", "openat");
    for text in [
        "openat",
        "compat_openat",
        "compat_*",
        "open*",
        "syscalls",
        "syscalls:open*",
        "syscalls:compat_open*",
        "syscall_*_openat",
        "compat_syscall_*",
    ] {
        assert_eq!(rule(text).matches(&openat, Reach::All), BOTH, "{text}");
    }
    let entry = SyscallEnds { entry: true, exit: false };
    for text in ["syscall_entry_openat", "compat_syscall_entry_openat", "*_entry_*"] {
        assert_eq!(rule(text).matches(&openat, Reach::All), entry, "{text}");
    }
    let other = event(SYSCALLS, "openat", "openat");
    for text in ["compat_openat", "compat_*", "compat_syscall_entry_openat"] {
        assert_eq!(rule(text).matches(&other, Reach::All), SyscallEnds::default(), "{text}");
    }
}

#[test]
fn apply_selects_what_some_rule_includes_and_none_excludes() {
    let all = selected(&["*"]);
    assert_eq!(all.len(), 24);
    assert_eq!(selected(&["sched_*"]), ["sched_pi_setprio", "sched_process_exec", "sched_switch"]);
    let expected = ["irq_softirq_entry", "sched_pi_setprio", "sched_switch"];
    assert_eq!(selected(&["!*_exec, sched:*", "softirq_*"]), expected);
    // Only exclusions: all but these.
    assert_eq!(selected(&["!sched_*"]).len(), all.len() - 3);
}

#[test]
fn apply_counts_what_each_rule_matches() {
    let selected =
        EventSelection::parse(&["sched_*,!sched_switch", "nothing_at_all"]).expect("rules");
    let selected = selected.apply(&catalog());
    let matched: Vec<_> =
        selected.matched.iter().map(|(rule, count)| (rule.as_str(), *count)).collect();
    assert_eq!(matched, [("sched_*", 3), ("!sched_switch", 1), ("nothing_at_all", 0)]);
}

#[test]
fn apply_of_an_exclusion_of_one_end_leaves_the_other() {
    let openat = event(SYSCALLS, "openat", "openat");
    let wanted = rule("syscalls").matches(&openat, Reach::All);
    let unwanted = rule("!syscall_exit_*").matches(&openat, Reach::All);
    assert_eq!((wanted, unwanted), (BOTH, SyscallEnds { entry: false, exit: true }));
    let selection = EventSelection::parse(&["*,!syscall_exit_*"]).expect("rules");
    let selected = selection.apply(&catalog());
    assert!(selected
        .events
        .iter()
        .all(|chosen| chosen.entry && chosen.exit != chosen.event.is_syscall));
}

#[test]
fn parse_of_what_is_no_rule_says_what_is_wrong() {
    let error = |texts: &[&str]| EventSelection::parse(texts).expect_err("no rule");
    assert_eq!(error(&[]), SelectionError::None);
    assert_eq!(error(&["sched_*,,irq_*"]), SelectionError::Empty { number: 2 });
    assert_eq!(error(&["a", " "]), SelectionError::Empty { number: 2 });
    assert_eq!(error(&["a", "! "]), SelectionError::Exclusion { number: 2 });
    let half = |rule: &str, is_front| SelectionError::Half { rule: rule.into(), is_front };
    assert_eq!(error(&[":x"]), half(":x", true));
    assert_eq!(error(&["!x:"]), half("!x:", false));
    assert_eq!(error(&[":"]), half(":", false));
    for (text, found) in [
        ("sched switch", ' '),
        ("a:b:c", ':'),
        ("a;b", ';'),
        ("é", 'é'),
        ("a!", '!'),
        ("a\x1b", '\x1b'),
    ] {
        assert_eq!(error(&[text]), SelectionError::Character { rule: text.into(), found });
    }
    let message = error(&["a\x1b[2J"]).to_string();
    assert!(!message.contains('\x1b'), "{message:?}");
}

#[test]
fn parse_keeps_rules_as_they_were_written() {
    let selection = EventSelection::parse(&[" sched_* ,!irq:*", "syscalls"]).expect("rules");
    assert_eq!(selection.rules().collect::<Vec<_>>(), ["sched_*", "!irq:*", "syscalls"]);
}

#[test]
fn similar_of_a_near_name_finds_it_first() {
    let catalog = catalog();
    let first = |rule: &str| similar(rule, &catalog).into_iter().next();
    assert_eq!(first("sched_swich").as_deref(), Some("sched_switch"));
    assert_eq!(first("shced_switch").as_deref(), Some("sched_switch"));
    assert_eq!(first("Sched_Switch").as_deref(), Some("sched_switch"));
    assert_eq!(first("!sched_swtich").as_deref(), Some("!sched_switch"));
    assert_eq!(first("schd:sched_switch").as_deref(), Some("sched:sched_switch"));
    assert_eq!(first("page_fault").as_deref(), Some("page_fault_user"));
    assert_eq!(first("schedd:*").as_deref(), Some("sched:*"));
    assert_eq!(first("rq_issue*").as_deref(), Some("block_rq_issue"));
}

#[test]
fn apply_of_a_system_s_pattern_stays_with_its_tracepoints_unless_it_excludes() {
    let names = |rules: &[&str]| {
        let selected = EventSelection::parse(rules).expect("rules").apply(&catalog());
        selected.events.into_iter().map(|chosen| chosen.event.name).collect::<Vec<_>>()
    };
    // System calls are sched_yield, sched_setparam and more.
    let yields = |names: &[String]| names.iter().any(|name| name == "sched_yield");
    assert!(names(&["sched_*"]).iter().all(|name| name != "sched_yield"));
    assert_eq!(names(&["sched_*"]).len(), 3);
    assert!(yields(&names(&["syscalls:sched_*"])) && yields(&names(&["sched_y*"])));
    assert!(yields(&names(&["sch*"])), "no system's name in front");
    let rest = names(&["syscalls,!sched_*"]);
    assert!(rest.len() > 300 && !yields(&rest));
    let opened = names(&["open*"]);
    assert!(["open", "openat", "openat2"].iter().all(|name| opened.contains(&(*name).into())));
    assert!(!names(&["syscalls,!epoll*"]).iter().any(|name| name.starts_with("epoll")));
}

#[test]
fn similar_names_select_something_as_they_stand() {
    let catalog = catalog();
    let all: Vec<String> = catalog.names().map(|event| event.name.clone()).collect();
    let mut offered = 0;
    for (index, name) in all.iter().enumerate().step_by(37) {
        let (front, wrong) = (
            [
                "",
                "!",
                "syscalls:",
                "shced:",
                "!irq:",
                "syscall_entry_",
                "compat_syscall_exit_",
                "!syscall_exit_",
                "compat_",
                "no:",
            ][index % 10],
            format!("{name}x"),
        );
        let rules = [
            format!("{front}{wrong}"),
            format!("{front}{}*", &wrong[1..]),
            format!("{front}{}", &name[1..]),
        ];
        for rule in &rules {
            let Ok(selection) = EventSelection::parse(&[rule]) else { continue };
            if selection.apply(&catalog).matched[0].1 > 0 {
                continue;
            }
            for name in similar(rule, &catalog) {
                offered += 1;
                assert_eq!(name.starts_with('!'), rule.starts_with('!'), "{rule}: {name}");
                let selected = EventSelection::parse(&[&name]).expect(&name).apply(&catalog);
                assert!(selected.matched[0].1 > 0 && !selected.events.is_empty(), "{rule}: {name}");
            }
        }
    }
    assert!(offered > 50, "{offered}");
}

#[test]
fn similar_of_one_end_of_a_system_call_is_that_end_of_another() {
    let events = [event(SYSCALLS, "openat", "openat"), event("fs", "openat", "openat")];
    assert_eq!(similar_of("syscall_exit_opnat", &events), ["syscall_exit_openat"]);
    assert_eq!(similar_of("opnat", &events), ["openat"]);
}

#[test]
fn similar_of_nothing_near_is_empty() {
    let catalog = catalog();
    for rule in ["zzzzzzzzzzzz", "", "*", "!", ":", "x:*"] {
        assert!(similar(rule, &catalog).is_empty(), "{rule}: {:?}", similar(rule, &catalog));
    }
    assert!(similar(&"s".repeat(100_000), &catalog).is_empty());
}

#[test]
fn default_is_what_is_recorded_where_nobody_names_an_event_and_others_go_with_it() {
    let usual = selected(&DEFAULT_RULES);
    assert!(!usual.is_empty());
    assert_eq!(selected(&["default"]), usual);
    let all = EventSelection::parse(&["default"]).unwrap().apply(&catalog());
    assert!(all.events.iter().any(|chosen| chosen.event.is_syscall));
    // It is one rule, of which nobody wrote the parts.
    assert_eq!(all.matched.len(), 1);
    let without: Vec<String> =
        usual.iter().filter(|name| *name != "sched_switch").cloned().collect();
    assert_eq!(selected(&["default,!sched_switch"]), without);
    assert!(selected(&["*,!default"]).iter().all(|name| !usual.contains(name)));
    assert!(has_default(&["sched_*, default"]) && !has_default(&["sched_*", "defaults"]));
}

#[test]
fn always_is_a_word_with_calls_and_switches_and_without_what_comes_often() {
    let all = EventSelection::parse(&["always"]).unwrap().apply(&catalog());
    assert_eq!(all.matched.len(), 1);
    assert!(all.events.iter().any(|chosen| chosen.event.is_syscall && chosen.entry && chosen.exit));
    let names = selected(&["always"]);
    assert!(names.contains(&"sched_switch".to_owned()), "{names:?}");
    assert_eq!(selected(&["always,!sched_switch"]).len() + 1, names.len());
    assert!(!names.iter().any(|name| name.contains("page_fault")), "{names:?}");
    assert!(similar("allways", &catalog()).contains(&"always".to_owned()));
}

#[test]
fn network_is_a_word_that_adds_to_others() {
    let parsed = EventSelection::parse(&["default,network"]).unwrap();
    assert_eq!(parsed.apply(&catalog()).matched.len(), 2);
    assert!(is_word(" network ") && !is_word("net") && !is_word("skb:network"));
    for name in ["inet_sock_set_state", "sock_recv_length", "kfree_skb"] {
        let event = EventName {
            system: "any".into(),
            name: name.into(),
            kernel_name: name.into(),
            is_syscall: false,
        };
        let rules = EventSelection::parse(&["network"]).unwrap();
        assert_eq!(rules.rules[0].matches(&event, Reach::All), BOTH, "{name}");
    }
}

#[test]
fn words_for_all_events_and_for_the_usual_ones_say_which_rule_is_meant() {
    for (word, wanted) in [
        ("all", "*"),
        ("everything", "*"),
        ("!all", "!*"),
        ("usual", "default"),
        ("syscall", "syscalls"),
    ] {
        assert_eq!(similar(word, &catalog()), [wanted], "{word}");
    }
    assert!(similar("defualt", &catalog()).contains(&"default".to_owned()));
}

#[test]
fn exclusions_alone_are_from_the_default_events() {
    let or_default = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        or_default(&texts)
    };
    assert_eq!(or_default(&["!read"]), ["default", "!read"]);
    assert_eq!(or_default(&["!read, !write", "!irq_*"]), ["default", "!read, !write", "!irq_*"]);
    assert_eq!(or_default(&["!read,openat"]), ["!read,openat"]);
    assert_eq!(or_default(&["!read", "syscalls"]), ["!read", "syscalls"]);
    assert_eq!(or_default(&[]), [""; 0]);
}
