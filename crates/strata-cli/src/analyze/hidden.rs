//! Threads that got CPUs, and of which the trace tells nothing else: what reports say of them.

use serde_json::{json, Value};
use strata_analyze::reports::Label;
use strata_timeline::HiddenThread;

use super::common::Made;
use super::rows::{keys, length, name};
use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::counted;

/// So many are named.
const NAMED: usize = 3;

/// One line of it, if there are any.
pub fn say(made: &Made) {
    let world = made.passed.timeline.world();
    let named = world.hidden().into_iter().map(|it| (Label::thread(world, it.thread), it));
    if let Some(text) = text(&named.collect::<Vec<_>>()) {
        talk::message(&Message { weight: Weight::Warning, text });
    }
}

/// All of them.
pub fn json(made: &Made) -> Value {
    let world = made.passed.timeline.world();
    let one = |hidden: &HiddenThread| {
        let mut map = keys(&Label::thread(world, hidden.thread));
        map.insert("count".into(), json!(hidden.count));
        map.insert("total_ns".into(), json!(hidden.nanos));
        map.insert("is_sure".into(), json!(hidden.is_sure));
        Value::Object(map)
    };
    world.hidden().iter().map(one).collect()
}

fn text(hidden: &[(Label, HiddenThread)]) -> Option<String> {
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
        true => "The kernel lets no BPF program run while they do, as some sandboxes have it",
        false => {
            "The kernel lets no BPF program run while they do, as some sandboxes have it, or a filter has left them out"
        }
    };
    Some(format!(
        "{who} {has} no record, but got a CPU {}, for {} at most all together: what they did there, and what \
         interrupted them, is not in the trace. {why}",
        counted(times, "time"),
        length(nanos),
    ))
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
                machine: None,
                home: None,
            };
            (label, HiddenThread { thread: ThreadId::IDLE, count, nanos, is_sure })
        };
        assert_eq!(text(&[]), None);
        let line = text(&[one(70, 1, 1500, true)]).unwrap();
        let wanted = "init (1) worker/70 has no record, but got a CPU 1 time, for 1.500 µs at most";
        assert!(line.starts_with(wanted) && !line.contains("filter"), "{line}");
        let all: Vec<_> = (70..75).map(|tid| one(tid, 400, 1_000_000, tid > 70)).collect();
        let line = text(&all).unwrap();
        let wanted = "init (1) worker/70, init (1) worker/71, init (1) worker/72 and 2 other threads have no record, \
                      but got a CPU 2,000 times, for 5.000 ms at most all together";
        assert!(
            line.starts_with(wanted) && line.ends_with("or a filter has left them out"),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }
}
