//! Tests of joining units that were made separately.

use std::sync::Arc;

use super::super::deferrable_fields::Unread;
use super::super::deferred_arguments::deferrable_text;
use super::super::text_unit::UnitMark;
use super::*;

fn comm(name: &str) -> Comm {
    Comm::new(name.as_bytes()).unwrap()
}

fn line(text: &str, hole: Option<ThreadOrCpu>) -> UnitLine {
    UnitLine { bytes: text.as_bytes().to_vec(), hole: hole.map(|key| (0, key)), paths: Vec::new() }
}

fn open(key: ThreadOrCpu, call: &str) -> MarkAction {
    MarkAction::Open(Box::new(UnfinishedCall {
        key,
        call: call.into(),
        line: line(&format!("{call}(\"0x1\")"), Some(key)),
        unread: vec![Unread {
            name: "path".into(),
            place: call.len() + 1..call.len() + 6,
            is_text: true,
        }],
        time: Some(1000),
        is_selected: true,
        program: None,
        executes: call == "execve",
        deferrable: Some(Arc::new(deferrable_text("path"))),
        unnamed: None,
    }))
}

fn close(key: ThreadOrCpu, call: &str, is_selected: bool) -> MarkAction {
    MarkAction::Close(Box::new(Close {
        key,
        call: call.into(),
        line: line(&format!("<... {call}>"), Some(key)),
        result: b" = 0".to_vec(),
        time: Some(1500),
        is_selected,
        has_succeeded: true,
    }))
}

fn late(key: ThreadOrCpu, argument: usize, text: &str) -> MarkAction {
    let line = line("late", Some(key));
    let value = DeferredValue::Text(text.into());
    let (argument, order) = (DeferredArgument { argument, value }, ByteOrder::Little);
    MarkAction::Late { key, argument, order, line, is_selected: true }
}

/// Makes a unit of `events` records, with marks at the begin of its text.
fn unit(events: u64, marks: Vec<MarkAction>) -> Unit {
    let marks = marks.into_iter().map(|what| UnitMark { at: 0, event: 0, what }).collect();
    Unit { marks, events, ..Unit::default() }
}

struct Joined(Joiner, String);

impl Joined {
    fn new(options: &Options) -> Joined {
        Joined(Joiner::new(options, Seed::default()), String::new())
    }

    fn add(&mut self, text: &str, unit: Unit) -> &mut Joined {
        self.1 += std::str::from_utf8(self.0.add(text.as_bytes(), unit)).unwrap();
        self
    }

    /// Returns all lines, without the blanks of columns.
    fn end(&mut self) -> Vec<String> {
        self.1 += std::str::from_utf8(self.0.end()).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        self.1.lines().map(words).collect()
    }
}

fn joined() -> Joined {
    Joined::new(&Options::default())
}

const SEVEN: fn() -> ThreadOrCpu = || ThreadOrCpu::thread(0, 7);

#[test]
fn call_is_whole_where_it_began_and_all_behind_it_waits_for_that() {
    let mut all = joined();
    all.add("one\n", unit(1, vec![open(SEVEN(), "read")]));
    assert_eq!(all.1, "");
    all.add("two\n", unit(1, vec![]));
    assert_eq!(all.1, "");
    all.add("three\n", unit(1, vec![close(SEVEN(), "read", true)]));
    assert_eq!(all.end(), ["?/7 read(\"0x1\") = 0 <500ns>", "one", "two", "three"]);
}

#[test]
fn call_that_is_waited_for_too_long_has_no_end_and_its_end_a_line_of_its_own() {
    for (events, wanted) in [
        (WAIT, &["?/7 read(\"0x1\") = 0 <500ns>", "between"][..]),
        (WAIT + 1, &["?/7 read(\"0x1\") <unfinished ...>", "between", "?/7 <... read> = 0"]),
    ] {
        let mut all = joined();
        all.add("", unit(events, vec![open(SEVEN(), "read")])).add("between\n", unit(0, vec![]));
        assert_eq!(
            all.add("", unit(0, vec![close(SEVEN(), "read", true)])).end(),
            wanted,
            "{events}"
        );
    }
}

#[test]
fn end_is_of_the_same_call_and_selects_it() {
    let mut all = joined();
    let mut unselected = open(SEVEN(), "read");
    let MarkAction::Open(begun) = &mut unselected else { panic!() };
    begun.is_selected = false;
    all.add("", unit(1, vec![unselected])).add("", unit(1, vec![close(SEVEN(), "read", true)]));
    // Of another call it is none, and nobody has asked for that.
    all.add("", unit(1, vec![open(SEVEN(), "read")]));
    all.add("", unit(1, vec![close(SEVEN(), "write", false)]));
    all.add("", unit(1, vec![close(SEVEN(), "read", true)]));
    let wanted = [
        "?/7 read(\"0x1\") = 0 <500ns>",
        "?/7 read(\"0x1\") <unfinished ...>",
        "?/7 <... read> = 0",
    ];
    assert_eq!(all.end(), wanted);
}

#[test]
fn call_without_an_end_is_given_up_by_the_next_one_or_by_a_loss_of_its_trace() {
    for (what, is_joined) in [
        (MarkAction::Begun(SEVEN()), false),
        (MarkAction::Begun(ThreadOrCpu::thread(0, 8)), true),
        (MarkAction::Gap(Some(0)), false),
        (MarkAction::Gap(Some(1)), true),
        (MarkAction::Gap(None), false),
    ] {
        let mut all = joined();
        let said = format!("{what:?}");
        all.add("", unit(1, vec![open(SEVEN(), "read")])).add("", unit(1, vec![what]));
        let lines = all.add("", unit(1, vec![close(SEVEN(), "read", true)])).end();
        assert_eq!(lines.len(), if is_joined { 1 } else { 2 }, "{said}: {lines:?}");
        assert_eq!(lines[0].contains("= 0 <500ns>"), is_joined, "{said}: {lines:?}");
    }
}

#[test]
fn texts_come_late_into_the_call_that_waits_and_have_lines_elsewhere() {
    let mut all = joined();
    all.add("", unit(1, vec![open(SEVEN(), "execve")]));
    all.add("", unit(1, vec![late(SEVEN(), 0, "/bin/sh"), late(SEVEN(), 1, "x")]));
    all.add("", unit(1, vec![late(ThreadOrCpu::thread(1, 7), 0, "y")]));
    all.add("", unit(1, vec![close(SEVEN(), "execve", true), MarkAction::Who(SEVEN(), None)]));
    all.add("\n", unit(1, vec![]));
    // The thread is called by what it executes from then on.
    let wanted = ["sh/7 execve(\"/bin/sh\") = 0 <500ns>", "?/7 late", "?/7 late", "sh/7"];
    assert_eq!(all.end(), wanted);
}

#[test]
fn names_that_were_reported_are_those_of_the_lines_behind() {
    let mut all = joined();
    let seven = || unit(1, vec![MarkAction::Who(SEVEN(), None)]);
    all.add("a\n", seven());
    all.add("", Unit { told: vec![(SEVEN(), comm("one"))], ..Unit::default() });
    all.add("b\n", seven()).add(
        "c\n",
        unit(1, vec![MarkAction::Told(SEVEN(), comm("two")), MarkAction::Who(SEVEN(), None)]),
    );
    // Of another trace, and of the thread that does nothing.
    all.add("d\n", unit(1, vec![MarkAction::Who(ThreadOrCpu::thread(1, 7), None)]));
    all.add("e\n", unit(1, vec![MarkAction::Who(ThreadOrCpu::thread(0, 0), None)]));
    assert_eq!(all.end(), ["?/7 a", "one/7 b", "two/7 c", "?/7 d", "swapper/0 e"]);
}

#[test]
fn who_runs_on_a_cpu_is_known_from_the_units_before_or_from_the_next_switch() {
    let cpu = || ThreadOrCpu::cpu(0, 3);
    let mut all = joined();
    all.add("a\n", unit(1, vec![MarkAction::Who(cpu(), None)]));
    all.add("", Unit { running: vec![(cpu(), 7)], ..Unit::default() });
    all.add("b\n", unit(1, vec![MarkAction::Who(cpu(), None)]));
    all.add("", unit(1, vec![MarkAction::Gap(Some(0))]))
        .add("c\n", unit(1, vec![MarkAction::Who(cpu(), None)]));
    assert_eq!(all.end(), ["? a", "?/7 b", "? c"]);
    // A call of whoever runs there is the thread's that is switched away from.
    let mut all = joined();
    all.add("", unit(1, vec![open(cpu(), "read")]));
    all.add("", unit(1, vec![MarkAction::Ran { cpu: cpu(), thread: SEVEN() }]));
    all.add("", unit(1, vec![close(SEVEN(), "read", true)]));
    assert_eq!(all.end(), ["? read(\"0x1\") = 0 <500ns>"]);
}

#[test]
fn lines_are_cut_to_the_width_and_hidden_ones_are_counted() {
    let mut all = Joined::new(&Options { width: Some(6), ..Options::default() });
    all.add("0123456789\n", Unit { hidden: 2, ..Unit::default() });
    all.add("ab\n", Unit { hidden: 3, ..Unit::default() });
    assert_eq!((all.end(), all.0.hidden()), (vec!["01234…".to_owned(), "ab".to_owned()], 5));
    let mut whole = Joined::new(&Options { width: Some(0), ..Options::default() });
    assert_eq!(whole.add("0123456789\n", Unit::default()).end(), ["0123456789"]);
}
