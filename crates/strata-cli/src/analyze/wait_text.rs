//! Formats what a thread waited for, as text and as values for JSON, in the same way for all reports.

use std::fmt::Write as _;

use strata_analyze::reports::threads::{Device, Wait};
use strata_report::{Record, Value};

use super::rows::{length, name};
use crate::units::clean;

/// Formats what a thread waited for: `futex 0x5581, by holder (12) writer/14`.
pub fn wait_text(wait: &Wait) -> String {
    let mut text = match wait.call.is_empty() {
        false => wait.call.clone(),
        true if wait.sleep.is_empty() => "some reason".to_owned(),
        true => format!("no system call: {}", wait.sleep),
    };
    if !wait.object.is_empty() {
        let _ = write!(text, " of {}", wait.object);
    }
    if wait.is_older {
        text += ", since before the recording";
    }
    match &wait.woken_by {
        Some((label, _)) => {
            let perhaps = if wait.is_sure { "" } else { "perhaps " };
            let most = most_text(wait);
            let _ = write!(text, ", {perhaps}woken by {most}{}", name(label));
            put_part(&mut text, wait);
        }
        None if wait.ended_by.is_empty() => {}
        None => {
            let most = most_text(wait);
            let what = what_text(wait.ended_by, wait.device.as_ref());
            let _ = write!(text, ", ended by {most}{what}");
            put_part(&mut text, wait);
        }
    }
    clean(&text)
}

/// Formats the number of threads that ended some waits, before the name of the most frequent one: `6, most by `.
fn most_text(wait: &Wait) -> String {
    match wait.enders {
        0 | 1 => String::new(),
        enders => format!("{enders}, most by "),
    }
}

/// Adds the part of the waiting time that the named thread has ended, if others ended some too: ` 165.6 ms`.
fn put_part(text: &mut String, wait: &Wait) {
    if wait.enders > 1 {
        let _ = write!(text, " {}", length(wait.ended));
    }
}

/// Formats what ended a wait, if it was no thread: `device 36 (nvme0q1)`.
pub fn what_text(ended_by: &str, device: Option<&Device>) -> String {
    match device {
        None => ended_by.to_owned(),
        Some(Device { number, name }) if name.is_empty() => format!("{ended_by} {number}"),
        Some(Device { number, name }) => clean(&format!("{ended_by} {number} ({name})")),
    }
}

/// Returns a device as a value for JSON.
pub fn device(device: Option<&Device>) -> Value {
    let record = |device: &Device| {
        Value::Record(vec![
            ("number", device.number.into()),
            ("name", Value::some_text(device.name.as_str())),
        ])
    };
    device.map(record).into()
}

/// Returns what a wait was for and who ended it, as values for JSON.
pub fn cause(wait: &Wait) -> Record {
    let waker = wait.woken_by.as_ref();
    vec![
        ("call", Value::some_text(wait.call.as_str())),
        ("object", Value::some_text(wait.object.as_str())),
        ("sleep", Value::some_text(wait.sleep)),
        ("since_before", wait.is_older.into()),
        ("ended_by", Value::some_text(wait.ended_by)),
        ("device", device(wait.device.as_ref())),
        ("woken_by", waker.map(|(label, _)| label).into()),
        ("woken_by_is_sure", waker.map(|_| wait.is_sure).into()),
        ("ended_ns", (wait.enders > 0).then_some(wait.ended).into()),
        ("ended_by_count", (wait.enders > 0).then_some(wait.enders as u64).into()),
    ]
}

/// Returns a wait as values for JSON.
pub fn record(wait: &Wait) -> Record {
    let sums = [
        ("count", wait.count.into()),
        ("total_ns", wait.total.into()),
        ("max_ns", wait.max.into()),
    ];
    cause(wait).into_iter().chain(sums).collect()
}

/// Returns waits as a list for JSON.
pub fn list(waits: &[Wait]) -> Value {
    Value::List(waits.iter().map(record).collect())
}
