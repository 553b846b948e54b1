//! Rows of a summary: blocked threads, threads that only waited for work, and new processes.

use std::fmt::Write as _;

use strata_analyze::reports::blocked::{runtime_of, Blocked, Idle, WaitKind};
use strata_analyze::reports::started_processes::{BegunProcesses, BegunProgram};
use strata_report::{Columns, Table, Value};

use super::rows::{length, name};
use super::wait_text::{self, wait_text};
use crate::units::{clean, count, counted};

/// Limit on the calls that the line of threads waiting for work names.
const CALLS: usize = 3;
/// Limit on the programs that the line of new processes names.
const PROGRAMS: usize = 3;
/// Number of new processes below which the summary has no line about them.
const BEGUN_MIN: u64 = 10;

/// Formats a blocked thread: `srv (22300) in futex of 0x5581, held by evictor/22305: 26×, median 120.113 ms, 3.123 s in
/// all`.
pub fn blocked_text(row: &Blocked) -> String {
    let mut text = name(&row.label);
    match runtime(row) {
        Some(what) => {
            let who = row.wait.woken_by.as_ref().map_or_else(String::new, |(label, _)| name(label));
            let _ = write!(text, " stopped by {who}: {what}");
        }
        None => {
            let mut wait = row.wait.clone();
            if let Some(variable) = &row.variable {
                wait.object.clone_from(variable);
            }
            let waits = wait_text(&wait);
            let _ = match row.kind {
                WaitKind::Mutex => write!(text, " in {}", waits.replacen("woken by", "held by", 1)),
                _ => write!(text, " in {waits}"),
            };
        }
    }
    if row.times.count > 1 {
        let (count, median) = (count(row.times.count), length(row.median()));
        let _ = write!(text, ": {count}×, median {median}, {} in all", length(row.times.total));
    }
    if row.threads > 1 {
        let _ = write!(text, ", {} threads", count(row.threads as u64));
    }
    text
}

/// Returns why a language runtime stopped the threads of a row; `None` if it did not.
fn runtime(row: &Blocked) -> Option<&'static str> {
    let is_pause = row.kind == WaitKind::Pause;
    let (label, _) = row.wait.woken_by.as_ref().filter(|_| is_pause)?;
    runtime_of(label.thread.as_deref()?)
}

/// Makes the table of blocked threads for JSON and CSV.
pub fn blocked_rows(rows: &[Blocked]) -> Table {
    let columns = Columns::new()
        .label_keys(|row: &Blocked| Value::label(&row.label))
        .keys(|row| wait_text::record(&row.wait))
        .key("kind", |row| row.kind.name().into())
        .key("variable", |row| row.variable.clone().into())
        .key("runtime", |row| runtime(row).into())
        .key("threads", |row| (row.threads as u64).into())
        .key("p50_ns", |row| row.median().into())
        .key("far_count", |row| row.far().into());
    columns.rows(rows)
}

/// Formats threads that waited for work: `4 threads waited for work: 9.512 s in read, 3.120 s in epoll_wait`. `None` if
/// there were none.
pub fn idle_text(idle: &Idle) -> Option<String> {
    if idle.threads == 0 {
        return None;
    }
    let call = |(name, nanos): &(String, u64)| match name.is_empty() {
        true => format!("{} in calls from before the trace", length(*nanos)),
        false => format!("{} in {}", length(*nanos), clean(name)),
    };
    let mut calls: Vec<String> = idle.calls.iter().take(CALLS).map(call).collect();
    let others = idle.calls.iter().skip(CALLS).map(|(_, nanos)| nanos).sum();
    if others > 0 {
        calls.push(format!("{} in others", length(others)));
    }
    let threads = counted(idle.threads as u64, "thread");
    Some(format!("{threads} waited for work: {}", calls.join(", ")))
}

/// Returns the waits for work, for JSON.
pub fn idle_value(idle: &Idle) -> Value {
    let call = |(name, nanos): &(String, u64)| {
        vec![("call", Value::some_text(name.as_str())), ("total_ns", (*nanos).into())]
    };
    Value::Record(vec![
        ("threads", (idle.threads as u64).into()),
        ("total_ns", idle.total.into()),
        ("calls", Value::List(idle.calls.iter().map(call).collect())),
    ])
}

/// Formats the line of new processes: `began: 510 git, started by python3 (812), 2 sh`. `None` if there were few.
pub fn begun_text(begun: &BegunProcesses) -> Option<String> {
    if begun.count < BEGUN_MIN {
        return None;
    }
    let program = |program: &BegunProgram| {
        let name_of = match program.name.is_empty() {
            true => "without a name".to_owned(),
            false => clean(&program.name),
        };
        let starter = program.starter.as_ref();
        let starter = starter.map_or_else(String::new, |it| format!(", started by {}", name(it)));
        format!("{} {name_of}{starter}", count(program.count))
    };
    let mut parts: Vec<String> = begun.programs.iter().take(PROGRAMS).map(program).collect();
    let others: u64 = begun.programs.iter().skip(PROGRAMS).map(|program| program.count).sum();
    if others > 0 {
        parts.push(counted(others, "other"));
    }
    Some(format!("began: {}", parts.join("; ")))
}

/// Returns whether many processes began during the trace, most of them of one program.
pub fn is_storm(begun: &BegunProcesses) -> bool {
    let most = begun.programs.first().map_or(0, |program| program.count);
    begun.count >= BEGUN_MIN && most >= begun.count / 2
}

/// Returns the new processes, for JSON.
pub fn begun_value(begun: &BegunProcesses) -> Value {
    let program = |program: &BegunProgram| {
        vec![
            ("name", Value::text(&program.name)),
            ("count", program.count.into()),
            ("started_by", program.starter.as_ref().into()),
        ]
    };
    let programs = Value::List(begun.programs.iter().map(program).collect());
    Value::Record(vec![("count", begun.count.into()), ("programs", programs)])
}

#[cfg(test)]
mod tests {
    use strata_analyze::reports::threads::Wait;
    use strata_analyze::reports::{Label, Times};
    use strata_report::{members, Document, Part};

    use super::*;

    fn label(process: &str, pid: i32, thread: Option<&str>) -> Label {
        let tid = thread.map(|_| pid + 5);
        Label {
            process: process.into(),
            pid: Some(pid),
            thread: thread.map(Into::into),
            tid,
            ..Label::default()
        }
    }

    fn row(kind: WaitKind, waker: &str, waits: &[u64]) -> Blocked {
        let mut times = Times::default();
        waits.iter().for_each(|&nanos| times.add(nanos));
        let wait = Wait {
            call: "futex".into(),
            object: "0x55".into(),
            woken_by: Some((label("srv", 7, Some(waker)), 1)),
            is_sure: true,
            ..Wait::default()
        };
        Blocked {
            label: label("srv", 7, None),
            kind,
            wait,
            times,
            threads: 1,
            ..Blocked::default()
        }
    }

    /// What programs find below a key of a row.
    fn key(row: &Blocked, key: &str) -> serde_json::Value {
        let mut document = Document::new("");
        document.push(Part::hidden("blocked", blocked_rows(std::slice::from_ref(row))));
        members(&document)["blocked"][0][key].clone()
    }

    #[test]
    fn mutex_is_held_by_its_holder_and_called_as_its_variable() {
        let mutex = row(WaitKind::Mutex, "evictor", &[2_000_000]);
        assert_eq!(blocked_text(&mutex), "srv (7) in futex of 0x55, held by srv (7) evictor/12");
        let named = Blocked { variable: Some("cache_lock".into()), threads: 4, ..mutex };
        let text = blocked_text(&named);
        assert_eq!(text, "srv (7) in futex of cache_lock, held by srv (7) evictor/12, 4 threads");
        assert_eq!(key(&named, "variable"), "cache_lock");
        let other = row(WaitKind::Thread, "evictor", &[2_000_000; 3]);
        let text = blocked_text(&other);
        assert!(text.contains("woken by srv (7) evictor/12: 3×, median 2.0"), "{text}");
        assert!(text.ends_with("6.000 ms in all"), "{text}");
    }

    #[test]
    fn pause_says_what_the_runtime_does_where_its_thread_s_name_tells() {
        let pause = row(WaitKind::Pause, "VM Thread", &[1]);
        let wanted = "srv (7) stopped by srv (7) VM Thread/12: safepoints of the JVM, such as garbage collections";
        assert_eq!(blocked_text(&pause), wanted);
        assert_eq!(key(&pause, "runtime"), "safepoints of the JVM, such as garbage collections");
        // Only of pauses.
        let wait = row(WaitKind::Thread, "VM Thread", &[1]);
        assert_eq!(key(&wait, "runtime"), serde_json::Value::Null);
    }

    #[test]
    fn idle_names_the_first_calls_and_the_time_of_others() {
        assert_eq!(idle_text(&Idle::default()), None);
        let calls =
            [("read", 4_000_000), ("", 3_000_000), ("poll", 2_000_000), ("accept", 1_000_000)];
        let calls = calls.map(|(name, nanos): (&str, u64)| (name.to_owned(), nanos)).to_vec();
        let text = idle_text(&Idle { threads: 2, total: 10_000_000, calls }).unwrap();
        let wanted = "2 threads waited for work: 4.000 ms in read, 3.000 ms in calls from before the trace, \
                      2.000 ms in poll, 1.000 ms in others";
        assert_eq!(text, wanted);
    }

    #[test]
    fn storm_is_many_processes_of_which_most_are_of_one_program() {
        let begun = |programs: &[(&str, u64)]| BegunProcesses {
            count: programs.iter().map(|it| it.1).sum(),
            programs: programs
                .iter()
                .map(|&(name, count)| BegunProgram {
                    name: name.into(),
                    count,
                    starter: Some(label("python3", 3, None)),
                })
                .collect(),
        };
        let storm = begun(&[("git", 20), ("sh", 2)]);
        assert!(is_storm(&storm));
        let wanted = "began: 20 git, started by python3 (3); 2 sh, started by python3 (3)";
        assert_eq!(begun_text(&storm).as_deref(), Some(wanted));
        let mixed = begun(&[("a", 5), ("b", 4), ("c", 4), ("d", 1)]);
        assert!(!is_storm(&mixed) && begun_text(&mixed).unwrap().ends_with("; 1 other"));
        let few = begun(&[("git", 9)]);
        assert!(!is_storm(&few) && begun_text(&few).is_none());
    }
}
