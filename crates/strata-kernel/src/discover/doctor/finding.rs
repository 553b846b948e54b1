//! A finding, and the examined machine.

use std::path::Path;

use crate::discover::capability::Capabilities;

/// The verdict on one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// The examined thing works as it should.
    Good,
    /// The examined thing works less well, or not for everything; `detail` describes it.
    Limited,
    /// A whole layer cannot be recorded without the examined thing.
    Missing,
}

/// A fact that decides what can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The examined thing, in a few words.
    pub what: String,
    /// The verdict: good, a limitation or a hindrance.
    pub state: Readiness,
    /// The observation and what follows from it, in one line.
    pub detail: String,
    /// Advice for people, mostly a command to type; `None` if the state is good.
    pub remedy: Option<String>,
}

impl Finding {
    /// Makes a finding on something that works.
    pub fn good(what: &str, detail: impl Into<String>) -> Finding {
        Finding { what: what.into(), state: Readiness::Good, detail: detail.into(), remedy: None }
    }

    /// Makes a finding on something that works less well, with a remedy.
    pub fn limited(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let remedy = Some(remedy.into());
        Finding { what: what.into(), state: Readiness::Limited, detail: detail.into(), remedy }
    }

    /// Makes a finding on something without which a whole layer cannot be recorded, with a remedy.
    pub fn missing(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: Readiness::Missing, ..Finding::limited(what, detail, remedy) }
    }
}

/// The examined machine, with data that several findings need.
#[derive(Clone, Debug)]
pub(super) struct ExaminedMachine<'r> {
    pub root: &'r Path,
    /// The release that `uname` gives.
    pub release: String,
    /// The machine type that `uname` gives.
    pub machine: String,
    pub capabilities: Capabilities,
}
