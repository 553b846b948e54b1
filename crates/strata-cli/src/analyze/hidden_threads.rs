//! Reports threads that had CPUs, and about which the trace has nothing else.

use strata_analyze::reports::Label;
use strata_report::Value;
use strata_timeline::HiddenThread;

use super::report_command::Made;
use super::rows::{length, name};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::counted;

/// Limit on the threads that are named.
const NAMED: usize = 3;

/// Prints one line on threads that the machine ran but the trace does not show, if there are any. The summary, which
/// is read first, also explains the reason.
pub fn say(made: &Made) {
    message(made, false);
}

/// Prints a message on the hidden threads and the reason, if there are any.
pub fn explain(made: &Made) {
    message(made, true);
}

fn message(made: &Made, explains: bool) {
    let world = made.passed.timeline.world();
    let named = world.hidden().into_iter().map(|it| (Label::thread(world, it.thread), it));
    if let Some(text) = text(&named.collect::<Vec<_>>(), explains) {
        stderr::message(&Message { weight: Weight::Warning, text });
    }
}

/// Returns the hidden threads as a value for JSON.
pub fn value(made: &Made) -> Value {
    let world = made.passed.timeline.world();
    let one = |hidden: &HiddenThread| {
        vec![
            ("", Value::label(&Label::thread(world, hidden.thread))),
            ("count", hidden.count.into()),
            ("total_ns", hidden.nanos.into()),
            ("is_sure", hidden.is_sure.into()),
        ]
    };
    Value::List(world.hidden().iter().map(one).collect())
}

fn text(hidden: &[(Label, HiddenThread)], explains: bool) -> Option<String> {
    if hidden.is_empty() {
        return None;
    }
    let named = hidden.iter().take(NAMED).map(|(label, _)| name(label));
    let mut who = named.collect::<Vec<_>>().join(", ");
    match hidden.len().saturating_sub(NAMED) {
        0 => {}
        more => who += &format!(" and {}", counted(more as u64, "other thread")),
    }
    let times = hidden.iter().map(|(_, it)| it.count).fold(0, u64::saturating_add);
    let nanos = hidden.iter().map(|(_, it)| it.nanos).fold(0, u64::saturating_add);
    let has = if hidden.len() == 1 { "has" } else { "have" };
    let why = match hidden.iter().all(|(_, it)| it.is_sure) {
        true => "While they run, the kernel executes no BPF program, as in some sandboxes",
        false => {
            "While they run, the kernel executes no BPF program, as in some sandboxes, or a filter has left them out"
        }
    };
    let all = format!(
        "{who} {has} no record, but got a CPU {}, for {} at most all together",
        counted(times, "time"),
        length(nanos),
    );
    Some(match explains {
        false => all,
        true => format!(
            "{all}: what they did there, and what interrupted them, is not in the trace. {why}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_timeline::ThreadId;

    #[test]
    fn hidden_threads_are_named_and_counted_in_one_line() {
        let one = |tid: i32, count, nanos, is_sure| {
            let label = Label {
                process: "init".into(),
                pid: Some(1),
                thread: Some("worker".into()),
                tid: Some(tid),
                program: String::new(),
                machine: None,
                home: None,
                processes: 0,
            };
            (label, HiddenThread { thread: ThreadId::IDLE, count, nanos, is_sure })
        };
        assert_eq!(text(&[], true), None);
        let line = text(&[one(70, 1, 1500, true)], true).unwrap();
        let wanted = "init (1) worker/70 has no record, but got a CPU 1 time, for 1.500 µs at most";
        assert!(line.starts_with(wanted) && !line.contains("filter"), "{line}");
        let all: Vec<_> = (70..75).map(|tid| one(tid, 400, 1_000_000, tid > 70)).collect();
        let short = text(&all, false).unwrap();
        assert!(short.ends_with("for 5.000 ms at most all together"), "{short}");
        let line = text(&all, true).unwrap();
        let wanted = "init (1) worker/70, init (1) worker/71, init (1) worker/72 and 2 other threads have no record, \
                      but got a CPU 2,000 times, for 5.000 ms at most all together";
        assert!(
            line.starts_with(wanted) && line.ends_with("or a filter has left them out"),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }
}
