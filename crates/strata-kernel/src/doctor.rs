//! What this machine can record of the kernel, and why not: everything that decides it, looked at one by one.
//!
//! What a file says is read below a root folder, for tests; what only the kernel can answer is asked for
//! by doing it: the smallest program is loaded, the smallest map made.

mod bpf;
mod files;
mod host;
mod rights;
#[cfg(test)]
mod tests;

use crate::capability::Capabilities;
use std::path::Path;

/// How it is with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
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
    pub state: State,
    /// How it was found, and what follows: one line.
    pub detail: String,
    /// What a person can do, as a rule a command to type. None if it is good.
    pub remedy: Option<String>,
}

impl Finding {
    /// It is as it should be.
    pub fn good(what: &str, detail: impl Into<String>) -> Finding {
        Finding { what: what.into(), state: State::Good, detail: detail.into(), remedy: None }
    }

    /// Something works less well, and what can be done.
    pub fn limited(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let remedy = Some(remedy.into());
        Finding { what: what.into(), state: State::Limited, detail: detail.into(), remedy }
    }

    /// Nothing of a layer works, and what can be done.
    pub fn missing(what: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Missing, ..Finding::limited(what, detail, remedy) }
    }
}

/// What several findings depend on.
#[derive(Clone, Debug)]
struct Machine<'r> {
    root: &'r Path,
    /// As `uname` gives it.
    release: String,
    /// Likewise.
    machine: String,
    capabilities: Capabilities,
}

/// Looks at this machine, as this process may use it. Changes nothing; needs no rights. Below 0.3 s.
pub fn examine() -> Vec<Finding> {
    let names = rustix::system::uname();
    let root = Path::new("/");
    let machine = Machine {
        root,
        release: names.release().to_string_lossy().into_owned(),
        machine: names.machine().to_string_lossy().into_owned(),
        capabilities: Capabilities::read(root),
    };
    let mut all = files::kernel(&machine);
    all.extend(rights::findings(&machine));
    all.extend(files::tracing(&machine));
    all.extend(bpf::findings(&machine));
    all.extend(files::switches(&machine));
    all.extend(host::findings(&machine));
    all
}
