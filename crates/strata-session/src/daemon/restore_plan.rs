//! The file from which a killed session is restored: its plan, with further facts. The session's process keeps it up to
//! date (`server.rs`), and removes it when the session ends properly.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use strata_control::{Claim, Folder, PLAN};

use crate::output::folder::has_parts;
use crate::plan::{Plan, PlanError};

/// The text between the name and the number of a folder of a restored session.
const AGAIN: &str = "-again";
/// The most folders of earlier sessions that are searched for records that are still in buffers.
const FOLDERS_MAX: usize = 64;
/// JSON member next to the plan: the group whose members may request the status.
const GROUP: &str = "group";
/// JSON member next to the plan: whether `strata stop` ends the session.
const STOP_ENDS: &str = "stop_ends";
/// JSON member next to the plan: the file from which `strata load --foreground` created the session.
const FILE: &str = "loaded_from";

/// The content of the file from which a killed session is restored: its plan, with further facts.
#[derive(Debug, PartialEq)]
pub struct RestorePlan {
    /// The plan. Its output is the session's actual folder.
    pub plan: Plan,
    /// The group whose members may request the status.
    pub group: Option<String>,
    /// True if `strata stop` ends the session, because `strata record --background` started it.
    pub stop_ends: bool,
    /// The file from which `strata load --foreground` read the plan. The same command restores the session.
    pub file: Option<String>,
    /// True if the plan's folder already has chunks of the trace, to which the session adds more.
    pub goes_on: bool,
    /// Folders of killed sessions of this name, the latest first.
    pub before: Vec<PathBuf>,
}

impl RestorePlan {
    /// Creates the content for a new session.
    pub fn new(plan: Plan, group: Option<String>) -> RestorePlan {
        RestorePlan {
            plan,
            group,
            stop_ends: false,
            file: None,
            goes_on: false,
            before: Vec::new(),
        }
    }

    /// Formats the plan as JSON, with the further facts.
    pub fn to_json(&self) -> String {
        let Ok(Value::Object(mut all)) = serde_json::to_value(&self.plan) else {
            return self.plan.to_json();
        };
        if let Some(group) = &self.group {
            all.insert(GROUP.to_owned(), group.as_str().into());
        }
        if self.stop_ends {
            all.insert(STOP_ENDS.to_owned(), true.into());
        }
        if let Some(file) = &self.file {
            all.insert(FILE.to_owned(), file.as_str().into());
        }
        strata_text::json::indented(&all) + "\n"
    }

    fn from_json(text: &str) -> Result<RestorePlan, PlanError> {
        let mut all: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| PlanError::Json(error.to_string()))?;
        let mut text = |key| match all.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (group, file) = (text(GROUP), text(FILE));
        let stop_ends = all.remove(STOP_ENDS) == Some(Value::Bool(true));
        let plan = Plan::from_json(&strata_text::json::compact(&all))?;
        Ok(RestorePlan { stop_ends, file, ..RestorePlan::new(plan, group) })
    }

    /// Reads the plan of a killed session, whose name this process has claimed.
    ///
    /// # Errors
    /// The file does not exist, or has no plan that this version supports.
    pub fn of(claim: &Claim) -> Result<RestorePlan, RestorePlanError> {
        RestorePlan::parse(claim.name(), claim.kept(PLAN).map_err(Into::into))
    }

    /// Reads the plan of a killed session of this name without restoring the session.
    ///
    /// # Errors
    /// The same as of [`RestorePlan::of`].
    pub fn left(folder: &Folder, name: &str) -> Result<RestorePlan, RestorePlanError> {
        RestorePlan::parse(name, folder.text(name, PLAN).map_err(Into::into))
    }

    fn parse(
        name: &str,
        text: Result<String, Box<dyn Error + Send + Sync>>,
    ) -> Result<RestorePlan, RestorePlanError> {
        let parsed = text.and_then(|text| Ok(RestorePlan::from_json(&text)?));
        parsed.map_err(|source| RestorePlanError { name: name.to_owned(), source })
    }

    /// Returns the plan with an output that can be written to. An existing folder that is not empty stays as it is, and
    /// a new one is used. An empty or missing folder may belong to a session that was killed before it had written
    /// anything and that had itself continued earlier sessions.
    pub fn beside(mut self) -> RestorePlan {
        let is_used = |path: &PathBuf| match std::fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(_) => false,
        };
        match self.plan.output.as_ref().is_some_and(is_used) {
            true => self.anew(),
            false => {
                self.before = self.folders();
                self
            }
        }
    }

    fn folders(&self) -> Vec<PathBuf> {
        self.plan.output.as_deref().map(folders_until).unwrap_or_default()
    }

    /// Returns the plan with a new output, so that the folder of the killed session stays. If that folder has chunks,
    /// it is kept, and chunks are added to it.
    pub fn anew(mut self) -> RestorePlan {
        self.before = self.folders();
        self.goes_on = self.plan.output.as_deref().is_some_and(has_parts);
        if self.goes_on {
            return self;
        }
        self.plan.output = self.plan.output.as_deref().map(folder_again);
        self
    }
}

/// The error if the plan of a killed session cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "session '{name}': was killed, and its plan cannot be used; `strata destroy {name}` removes it"
)]
pub struct RestorePlanError {
    name: String,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

/// Splits a path such as `NAME-again3` into the name and the number.
fn again_of(path: &Path) -> (String, u64) {
    let text = path.as_os_str().to_string_lossy();
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let again = text.rsplit_once(AGAIN).and_then(|(base, text)| Some((base, number(text)?)));
    match again {
        Some((base, number)) => (base.to_owned(), number),
        None => (text.trim_end_matches('/').to_owned(), 0),
    }
}

/// Returns the first folder name after this one that does not exist.
fn folder_again(path: &Path) -> PathBuf {
    let (base, _) = again_of(path);
    let mut all = (1u64..).map(|number| PathBuf::from(format!("{base}{AGAIN}{number}")));
    all.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| path.to_owned())
}

/// Returns this folder and those of earlier sessions, the latest first.
fn folders_until(path: &Path) -> Vec<PathBuf> {
    let (base, number) = again_of(path);
    let before = (1..number).rev().take(FOLDERS_MAX);
    let before = before.map(|number| PathBuf::from(format!("{base}{AGAIN}{number}")));
    let first = (number > 0).then(|| PathBuf::from(&base));
    [path.to_owned()].into_iter().chain(before).chain(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_kept_with_its_group_and_without() {
        let text = |text: &str| Some(text.to_owned());
        for (group, stop_ends, file) in
            [(None, false, None), (text("adm"), false, text("/etc/web.json")), (None, true, None)]
        {
            let plan = Plan::new(true, None);
            let kept = RestorePlan { stop_ends, file, ..RestorePlan::new(plan, group) };
            assert_eq!(RestorePlan::from_json(&kept.to_json()).unwrap(), kept);
        }
        let plain = RestorePlan::new(Plan::new(false, Some("/tmp/x".into())), None);
        assert_eq!(Plan::from_json(&plain.to_json()).unwrap(), plain.plan);
        for text in ["", "[]", "{}", r#"{"version": 1, "group": "x", "odd": 1}"#] {
            assert!(RestorePlan::from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn folder_of_one_that_is_made_again_is_new_and_near() {
        let above = std::env::temp_dir().join(format!("strata-again-{}", std::process::id()));
        std::fs::create_dir(&above).unwrap();
        let path = |name: &str| above.join(name);
        assert_eq!(folder_again(&path("t-2")), path("t-2-again1"));
        std::fs::create_dir(path("t-again1")).unwrap();
        assert_eq!(folder_again(&path("t")), path("t-again2"));
        assert_eq!(folder_again(&path("t-again1")), path("t-again2"));
        assert_eq!(folder_again(&path("t-again")), path("t-again-again1"));
        for (last, all) in [
            ("t", &["t"][..]),
            ("t-again1", &["t-again1", "t"]),
            ("t-again3", &["t-again3", "t-again2", "t-again1", "t"]),
            ("t-again", &["t-again"]),
        ] {
            let all: Vec<PathBuf> = all.iter().map(|name| path(name)).collect();
            assert_eq!(folders_until(&path(last)), all);
            // Whether or not the last one was made, and written to.
            let of = |name| RestorePlan::new(Plan::new(false, Some(path(name))), None);
            assert_eq!(of(last).beside().before, all);
            assert_eq!(of(last).anew().before, all);
        }
        // It was killed before anything was in it.
        let is_there = RestorePlan::new(Plan::new(false, Some(path("t-again1"))), None).beside();
        assert_eq!(is_there.plan.output, Some(path("t-again1")));
        std::fs::create_dir(path("t-again1/user")).unwrap();
        let is_used = RestorePlan::new(Plan::new(false, Some(path("t-again1"))), None).beside();
        assert_eq!(is_used.plan.output, Some(path("t-again2")));
        assert_eq!(is_there.before, is_used.before);
        std::fs::remove_dir_all(&above).unwrap();
    }
}
