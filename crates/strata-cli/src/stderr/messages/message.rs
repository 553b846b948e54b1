//! A message of `strata`: its weight, and how names and foreign texts are formatted in it.

use strata_session::report::ProcessReport;

use crate::units::clean;

/// Limit on the processes that one sentence names.
pub(super) const NAMES_SHOWN: usize = 5;

/// The importance of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Everything went as it should.
    Talk,
    /// The trace has less than was requested.
    Warning,
    /// The recording has failed.
    Failure,
}

/// One or more lines of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The importance of the message.
    pub weight: Weight,
    /// Text without the prefix `strata: `.
    pub text: String,
}

pub(super) fn talk(text: String) -> Message {
    Message { weight: Weight::Talk, text }
}

pub(super) fn warning(text: String) -> Message {
    Message { weight: Weight::Warning, text }
}

/// Formats a process: `demo (4242)`.
pub(super) fn who(process: &ProcessReport) -> String {
    named(&process.name, process.pid)
}

pub(super) fn named(name: &str, pid: u32) -> String {
    match (name, pid) {
        ("", 0) => "a process".to_owned(),
        ("", pid) => format!("process {pid}"),
        (name, 0) => clean(name),
        (name, pid) => format!("{} ({pid})", clean(name)),
    }
}

/// Formats a foreign text as a sentence with its full stop.
pub(super) fn sentence(text: &str) -> String {
    let text = clean(text.trim());
    if text.ends_with(['.', '!', '?', '`']) {
        text
    } else {
        format!("{text}.")
    }
}
