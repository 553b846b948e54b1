//! Tests of the filter for programs, and of the remarks on it.

use strata_model::{Field as ModelField, Integer};

use super::*;
use crate::options::KernelOptions;

fn options(filter: &str, has_kernel: bool) -> Options {
    Options {
        filter: Some(Filter::parse(filter).unwrap()),
        kernel: has_kernel.then(KernelOptions::default),
        ..Options::default()
    }
}

fn event(name: &str, field: &str) -> EventClass {
    EventClass {
        id: 0,
        provider: "app".into(),
        name: name.into(),
        loglevel: Some(6),
        emf_uri: None,
        context: Vec::new(),
        fields: vec![ModelField::new(field, FieldClass::Integer(Integer::unsigned(4)))],
    }
}

/// Returns the filters for a rule that selects all events.
fn filtered(options: &Options) -> Filtered {
    Filtered::new(options, &Rules::parse(&[EVERY_TRACEPOINT]).unwrap())
}

#[test]
fn program_is_refused_only_where_nothing_at_all_would_be_recorded() {
    assert!(program(&options("a == 1", false)).unwrap().is_some());
    assert!(program(&options("!has(a.b)", false)).unwrap().is_none(), "all pass");
    let never = program(&options("a.b == 1", false));
    assert!(matches!(never, Err(SessionError::NothingPasses)), "{never:?}");
    assert_eq!(program(&options("a.b == 1", true)).unwrap(), Some(Program::nothing()));
    let later = program(&options("packet.cpu_id == 1", true));
    assert!(matches!(later, Err(SessionError::Filter(_))), "{later:?}");
    // Of the kernel alone: that one is asked by itself.
    let mut of_kernel = options("packet.cpu_id == 1", true);
    of_kernel.kernel.as_mut().unwrap().rules.push("sched_switch".into());
    assert!(program(&of_kernel).unwrap().is_none());
}

/// Returns the remarks on the filters that are made at the end of a session.
fn remarks(filtered: &Filtered) -> Vec<String> {
    let slips = filtered.reports().into_iter().flat_map(|one| one.slips);
    filtered.remark().into_iter().chain(slips.map(|slip| slip.text)).collect()
}

/// Returns the remarks on a filter after processes with these events were seen.
fn said(filter: &str, has_kernel: bool, processes: &[&[(&str, &str)]]) -> Vec<String> {
    let filtered = filtered(&options(filter, has_kernel));
    for process in processes {
        filtered.look(process.iter().map(|(name, field)| event(name, field)));
    }
    remarks(&filtered)
}

#[test]
fn slips_are_reported_if_they_are_slips_of_all_processes() {
    let (one, other): (&[_], &[_]) = (&[("sent", "size")], &[("read", "count")]);
    assert_eq!(said("size > 1", false, &[]), Vec::<String>::new());
    assert_eq!(said("size > 1", false, &[one]).len(), 1, "that there was a filter");
    assert_eq!(said("size > 1", false, &[other, one]).len(), 1);
    let found = said("sise > 1", false, &[one, other]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("no event of these traces has a field 'sise'"), "{found:?}");
    // One of two is what all have.
    let found = said("size > 1 || count > 1 || nothing > 1", false, &[one, other]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("'nothing'"), "{found:?}");
    // Events of the kernel have other names.
    assert_eq!(said("size > 1 || next_tid == 3", true, &[one]).len(), 1);
    assert!(said("next_tid == 3", true, &[one])[1].contains("'next_tid'"));
    assert_eq!(said("vtid == 3 && loglevel <= 6", false, &[one]).len(), 1);
}

#[test]
fn contexts_that_are_recorded_and_asked_for_are_no_slips() {
    let contexts = EventContexts::parse(&["procname,vuid,ip,cpu_id"]).unwrap();
    let said = |filter| {
        let filtered = filtered(&Options { contexts, ..options(filter, false) });
        filtered.look([event("sent", "size")].into_iter());
        remarks(&filtered)
    };
    assert_eq!(said("procname == \"a*\" && vuid in {0, 1}").len(), 1, "that there was a filter");
    for (filter, name) in [("threadname == \"a\"", "'threadname'"), ("ip == 1", "'ip'")] {
        assert!(said(filter)[1].contains(name), "{:?}", said(filter));
    }
    assert_eq!(said("vuid == \"root\"").len(), 2, "a number is no text");
}

fn rule(text: &str, filter: &str) -> LayerRule {
    let filter = Some(Filter::parse(filter).unwrap());
    LayerRule { text: text.to_owned(), filter, ..LayerRule::default() }
}

#[test]
fn filters_of_several_rules_are_asked_of_what_each_of_them_selects() {
    let filtered = filtered(&Options::default());
    assert!(!filtered.is_filtered());
    let rules = [
        rule("app:sent", "count > 1"),
        rule("app:read", "count > 1"),
        rule("app:read@=6", "count < 0 || name == \"*:read\""),
        rule("app:s*", "size > 5 && size < 3"),
        rule("app:gone", "nothing > 1"),
        LayerRule { text: "!app:secret".into(), ..LayerRule::default() },
    ];
    filtered.change(&rules, EventContexts::default());
    filtered.look([event("sent", "size"), event("secret", "nothing")].into_iter());
    let only = |found: &[FilterReport], rule: &str| {
        let of_rule = found.iter().filter(|one| one.rules.iter().any(|text| text == rule));
        let of_rule: Vec<_> = of_rule.cloned().collect();
        assert_eq!(of_rule.len(), 1, "{rule}: {found:?}");
        of_rule[0].clone()
    };
    let found = filtered.reports();
    assert_eq!(found.len(), 2, "{found:?}");
    let counted = only(&found, "app:sent");
    assert_eq!((counted.filter.as_str(), counted.is_never), ("count > 1", true));
    assert_eq!(counted.slips[0].column, 1);
    assert_eq!(counted.rules, ["app:sent", "app:read"], "two rules have it");
    let never = only(&found, "app:s*");
    assert!(never.is_never && never.slips[0].text.contains("can match"), "{never:?}");
    // Another process has what one of them wants.
    filtered.look([event("read", "count")].into_iter());
    let found = filtered.reports();
    assert_eq!(found.len(), 2, "{found:?}");
    let part = only(&found, "app:read@=6");
    assert!(!part.is_never && part.slips[0].text.contains("'count' is from 0 to"), "{part:?}");
    only(&found, "app:s*");
}

#[test]
fn another_filter_forgets_what_was_reported_of_the_one_before_and_the_same_one_does_not() {
    let filtered = filtered(&options("sise > 1", false));
    let look = || filtered.look([event("sent", "size")].into_iter());
    look();
    filtered.change(&[rule("app:*", "sise > 1")], EventContexts::default());
    look();
    let same =
        [rule("app:*", "sise > 1"), LayerRule { text: "!b:*".into(), ..LayerRule::default() }];
    filtered.change(&same[..1], EventContexts::default());
    assert_eq!(remarks(&filtered).len(), 2);
    filtered.change(&same, EventContexts::default());
    assert_eq!(remarks(&filtered), Vec::<String>::new(), "it is asked of others");
    look();
    filtered.change(&[rule("app:*", "size > 1")], EventContexts::default());
    assert_eq!(remarks(&filtered), Vec::<String>::new(), "nobody has seen it");
    look();
    assert_eq!(remarks(&filtered).len(), 1);
    filtered.change(&[], EventContexts::default());
    look();
    assert_eq!(remarks(&filtered), Vec::<String>::new());
    assert!(filtered.is_filtered(), "it was");
}

#[test]
fn fields_of_each_kind_can_be_asked_for_what_they_are() {
    use strata_model::{Array, Enumeration, Float, Label, Sequence};
    let byte = Integer::unsigned(1);
    let float = Float { bytes: 8, byte_order: strata_model::FieldOrder::Native };
    let array = |element| FieldClass::Array(Array { element, count: 2 });
    let sequence = |element| FieldClass::Sequence(Sequence { element, length_bytes: 1 });
    let label = Label { from: 0, to: 1, label: "open".into() };
    let state =
        Enumeration { integer: byte, name: String::new(), labels: vec![label], flags: None };
    let classes = [
        ("text", FieldClass::String),
        ("real", FieldClass::Float(float)),
        ("state", FieldClass::Enumeration(state)),
        ("letters", array(Element::Text)),
        ("words", sequence(Element::Text)),
        ("numbers", array(Element::Integer(byte))),
        ("reals", sequence(Element::Float(float))),
    ];
    let fields = classes.map(|(name, class)| ModelField::new(name, class));
    let slips = |filter: &str| {
        let filtered = filtered(&options(filter, false));
        let class = EventClass { fields: fields.to_vec(), ..event("sent", "size") };
        filtered.look([class].into_iter());
        remarks(&filtered).len() - 1
    };
    for (filter, wanted) in [
        ("text == \"a\" && letters == \"b\" && words == \"c*\"", 0),
        ("real > 0.5 && reals[0] < 1.5", 0),
        ("state == \"open\" && numbers[1] == 3", 0),
        ("state == \"opened\"", 1),
        ("text > 3", 1),
        ("letters[0] == 3", 1),
        ("numbers == 3", 1),
    ] {
        assert_eq!(slips(filter), wanted, "{filter}");
    }
}

#[test]
fn process_that_has_libstrata_s_own_event_only_says_nothing_of_the_filter() {
    let own = EventClass { provider: "strata".into(), ..event("thread_name", "name") };
    let filtered = filtered(&options("sise > 1", false));
    filtered.look([own].into_iter());
    assert_eq!(remarks(&filtered), Vec::<String>::new());
}
