//! Sessions that were killed: their plan is left beside their socket, and makes them again.
//!
//! ```text
//! the session's process     keeps its plan up to date, and removes it when it ends
//! strata start NAME         another process with that plan, which then is started
//! strata destroy NAME       what is left is removed
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{json, Map, Value};
use strata_control::{Claim, ControlError, Folder, PLAN};
use strata_session::has_parts;
use strata_session::plan::Plan;

use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::shell_word;

/// What the folder of a session that was made again has behind its name, and in front of a number.
const AGAIN: &str = "-again";
/// So many of these are looked at for what is still in buffers.
const FOLDERS_MAX: usize = 64;
/// To whom it is open, beside the plan.
const GROUP: &str = "group";
/// What began it, beside the plan.
const STOP_ENDS: &str = "stop_ends";
/// Which file `strata load --foreground` has it from, beside the plan.
const FILE: &str = "loaded_from";

/// A plan as its session keeps it.
#[derive(Debug, PartialEq)]
pub struct KeptPlan {
    /// Its output is the folder that it has.
    pub plan: Plan,
    /// Whose members may ask how it is.
    pub group: Option<String>,
    /// `strata stop` ends it: `strata record --background` has begun it.
    pub stop_ends: bool,
    /// `strata load --foreground` has read it there: the same command makes it again.
    pub file: Option<String>,
    /// The plan's folder has parts of its trace, and it adds further ones.
    pub goes_on: bool,
    /// Where those of this name have written that were killed, the last one first.
    pub before: Vec<PathBuf>,
}

impl KeptPlan {
    /// Of a session that begins anew.
    pub fn new(plan: Plan, group: Option<String>) -> KeptPlan {
        KeptPlan { plan, group, stop_ends: false, file: None, goes_on: false, before: Vec::new() }
    }

    /// As JSON: a plan, and what is not of it.
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
        format!("{:#}\n", Value::Object(all))
    }

    fn from_json(text: &str) -> Result<KeptPlan> {
        let mut all: Map<String, Value> = serde_json::from_str(text)?;
        let mut text = |key| match all.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (group, file) = (text(GROUP), text(FILE));
        let stop_ends = all.remove(STOP_ENDS) == Some(Value::Bool(true));
        let plan = Plan::from_json(&Value::Object(all).to_string())?;
        Ok(KeptPlan { stop_ends, file, ..KeptPlan::new(plan, group) })
    }

    /// Of the session whose name this is.
    pub fn of(claim: &Claim) -> Result<KeptPlan> {
        let text = claim.kept(PLAN);
        let kept = text.map_err(anyhow::Error::from).and_then(|text| KeptPlan::from_json(&text));
        kept.with_context(|| unusable(claim.name()))
    }

    /// The same, with an output that can be written to: a folder that is there and not empty stays as it is. One that is
    /// empty, or not there, may be that of a session which was killed before it had written anything, and had gone on with
    /// what others before it had left.
    pub fn beside(mut self) -> KeptPlan {
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

    /// The same, with an output that is not there: what the killed one has written stays as it is. Where that has parts,
    /// there are further ones.
    pub fn anew(mut self) -> KeptPlan {
        self.before = self.folders();
        self.goes_on = self.plan.output.as_deref().is_some_and(has_parts);
        if self.goes_on {
            return self;
        }
        self.plan.output = self.plan.output.as_deref().map(folder_again);
        self
    }
}

/// As the session of this name was that was killed, with what was changed while it recorded; `None`: as FILE says, since
/// none was, or its plan cannot be used.
///
/// # Errors
/// It was begun otherwise, or from another file: who began it does not expect that it goes on here.
pub fn goes_on(claim: &Claim, file: &Path) -> Result<Option<KeptPlan>> {
    let name = claim.name();
    if claim.kept(PLAN).is_err() {
        return Ok(None);
    }
    let shown = shell_word(&file.display().to_string());
    let (weight, text, kept) = match KeptPlan::of(claim) {
        Ok(kept) if kept.file != Some(name_of(file)) => {
            return Err(ControlError::Killed { name: name.to_owned() }).with_context(|| {
                format!("{shown} is not what it was loaded from, by --foreground")
            })
        }
        Ok(kept) => {
            let text = format!(
                "session '{name}' was killed, and goes on as it was. What {shown} says holds again once it has ended: strata destroy {name}"
            );
            (Weight::Talk, text, Some(kept))
        }
        Err(error) => (Weight::Warning, format!("{error:#}. It begins as {shown} says"), None),
    };
    talk::message(&Message { weight, text });
    Ok(kept)
}

/// What a plan's file is called, wherever it is asked for.
pub fn name_of(file: &Path) -> String {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    path.to_string_lossy().into_owned()
}

fn unusable(name: &str) -> String {
    format!("session '{name}': was killed, and its plan cannot be used; `strata destroy {name}` removes it")
}

fn of_left(folder: &Folder, name: &str) -> Result<KeptPlan> {
    let text = folder.text(name, PLAN)?;
    KeptPlan::from_json(&text).with_context(|| unusable(name))
}

/// What is in front of `-again3`, and that number.
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

/// The next folder after this one that is not there.
fn folder_again(path: &Path) -> PathBuf {
    let (base, _) = again_of(path);
    let mut all = (1u64..).map(|number| PathBuf::from(format!("{base}{AGAIN}{number}")));
    all.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| path.to_owned())
}

/// This one, and those before it.
fn folders_until(path: &Path) -> Vec<PathBuf> {
    let (base, number) = again_of(path);
    let before = (1..number).rev().take(FOLDERS_MAX);
    let before = before.map(|number| PathBuf::from(format!("{base}{AGAIN}{number}")));
    let first = (number > 0).then(|| PathBuf::from(&base));
    [path.to_owned()].into_iter().chain(before).chain(first).collect()
}

/// How it was, as `strata status` tells it.
pub fn status(folder: &Folder, name: &str) -> Map<String, Value> {
    let kept = of_left(folder, name).ok();
    let plan = kept.as_ref().map(|kept| &kept.plan);
    let facts = json!({
        "name": name,
        "pid": null,
        "state": "killed",
        "seconds": null,
        "mode": if plan.is_some_and(|plan| plan.snapshot) { "snapshot" } else { "files" },
        "output": plan.and_then(|plan| plan.output.as_ref()).map(|path| path.to_string_lossy()),
        "command": null,
        "kernel_events": null,
        "processes": 0,
        "records": 0,
        "bytes": 0,
        "discarded": 0,
        "overwritten": 0,
        "snapshots": 0,
        "parts": null,
        "channels": [],
        "tracked": plan.map(|plan| &plan.tracked),
        "not_reached": [],
        "nr_not_reached": 0,
        "late": [],
        "nr_late": 0,
        "gaps": [],
        "memory": 0,
        "max_memory": plan.and_then(|plan| plan.max_memory),
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// One that does not answer: what can be known of it, and why.
pub fn silent(folder: &Folder, name: &str, why: &ControlError) -> Map<String, Value> {
    let mut facts = status(folder, name);
    facts.insert("state".into(), "silent".into());
    facts.insert("why".into(), why.to_string().into());
    if let ControlError::Silent { pid, .. } = why {
        facts.insert("pid".into(), (*pid).into());
    }
    facts
}

/// What can be done about it.
pub fn remedy(name: &str) -> String {
    format!(
        "session '{name}' was killed. `strata start {name}` makes it again from its plan and starts it, `strata destroy \
         {name}` removes what is left of it"
    )
}

/// Where it had written, in words.
pub fn written(folder: &Folder, name: &str) -> Result<String> {
    Ok(match of_left(folder, name)?.plan.output {
        Some(path) => {
            format!("what it had written is in {}", shell_word(&path.display().to_string()))
        }
        None => "it had written nothing, as a flight recorder".to_owned(),
    })
}

/// Removes what is left of it; what to say of it.
pub fn remove(folder: &Folder, name: &str) -> Result<String> {
    let output = of_left(folder, name).ok().and_then(|kept| kept.plan.output);
    let kinds = folder.remove(name)?;
    // After its files: with them, nobody else takes it up.
    strata_session::remove_pinned(name)?;
    let traces = match output.filter(|path| path.exists()) {
        Some(path) => {
            format!("; what it had written is in {}", shell_word(&path.display().to_string()))
        }
        None => String::new(),
    };
    Ok(format!("session '{name}' was killed: its {} are removed{traces}", kinds.join(", ")))
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
            let kept = KeptPlan { stop_ends, file, ..KeptPlan::new(plan, group) };
            assert_eq!(KeptPlan::from_json(&kept.to_json()).unwrap(), kept);
        }
        let plain = KeptPlan::new(Plan::new(false, Some("/tmp/x".into())), None);
        assert_eq!(Plan::from_json(&plain.to_json()).unwrap(), plain.plan);
        for text in ["", "[]", "{}", r#"{"version": 1, "group": "x", "odd": 1}"#] {
            assert!(KeptPlan::from_json(text).is_err(), "{text}");
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
            let of = |name| KeptPlan::new(Plan::new(false, Some(path(name))), None);
            assert_eq!(of(last).beside().before, all);
            assert_eq!(of(last).anew().before, all);
        }
        // It was killed before anything was in it.
        let is_there = KeptPlan::new(Plan::new(false, Some(path("t-again1"))), None).beside();
        assert_eq!(is_there.plan.output, Some(path("t-again1")));
        std::fs::create_dir(path("t-again1/user")).unwrap();
        let is_used = KeptPlan::new(Plan::new(false, Some(path("t-again1"))), None).beside();
        assert_eq!(is_used.plan.output, Some(path("t-again2")));
        assert_eq!(is_there.before, is_used.before);
        std::fs::remove_dir_all(&above).unwrap();
    }
}
