//! A line of what `strata` says: how much it matters, and how names and texts from elsewhere stand in it.

use strata_session::report::ProcessReport;

use crate::talk::units::clean;

/// Processes that are named in one sentence.
pub(super) const NAMES_SHOWN: usize = 5;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Something went as it should.
    Talk,
    /// The trace is not all that was asked for.
    Warning,
    /// The recording failed.
    Failure,
}

/// A line of the summary, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How much it matters.
    pub weight: Weight,
    /// Without `strata: ` in front.
    pub text: String,
}

pub(super) fn talk(text: String) -> Message {
    Message { weight: Weight::Talk, text }
}

pub(super) fn warning(text: String) -> Message {
    Message { weight: Weight::Warning, text }
}

/// `demo (4242)`.
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

/// Text from elsewhere as one sentence with its full stop.
pub(super) fn sentence(text: &str) -> String {
    let text = clean(text.trim());
    if text.ends_with(['.', '!', '?', '`']) {
        text
    } else {
        format!("{text}.")
    }
}
