//! What is found, and what the findings depend on.

use std::path::Path;

use crate::capability::Capabilities;

/// How it is with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// As it should be.
    Good,
    /// Something works less well, or not for everything; the detail says what.
    Limited,
    /// Nothing of a layer works.
    Missing,
}

/// One thing that decides what can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The thing: a few words.
    pub what: String,
    /// How it is.
    pub state: Readiness,
    /// How it was found, and what follows: one line.
    pub detail: String,
    /// What a person can do, as a rule a command to type. None if it is good.
    pub remedy: Option<String>,
}

impl Finding {
    /// It is as it should be.
    pub fn good(what: &str, detail: impl Into<String>) -> Finding {
        Finding { what: what.into(), state: Readiness::Good, detail: detail.into(), remedy: None }
    }

    /// Something works less well, and what can be done.
    pub fn limited(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let remedy = Some(remedy.into());
        Finding { what: what.into(), state: Readiness::Limited, detail: detail.into(), remedy }
    }

    /// Nothing of a layer works, and what can be done.
    pub fn missing(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: Readiness::Missing, ..Finding::limited(what, detail, remedy) }
    }
}

/// What several findings depend on.
#[derive(Clone, Debug)]
pub(super) struct ExaminedMachine<'r> {
    pub root: &'r Path,
    /// As `uname` gives it.
    pub release: String,
    /// Likewise.
    pub machine: String,
    pub capabilities: Capabilities,
}
