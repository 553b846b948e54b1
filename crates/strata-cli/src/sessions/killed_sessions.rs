//! Sessions that were killed: their plan is left next to their socket, and the session can be made again from it.
//!
//! ```text
//! the session's process     keeps its plan up to date, and removes it when it ends
//! strata start NAME         another process with that plan, which then is started
//! strata destroy NAME       what is left is removed
//! ```

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};
use strata_control::{Claim, ControlError, Folder, PLAN};
use strata_session::{add_earlier_keys, RestorePlan, Status};

use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::shell_word;

/// Returns the plan of the killed session of this name, with all changes made while it recorded, if it was loaded from
/// `file`. Returns `None` if there was no such session, or its plan cannot be used.
///
/// # Errors
/// The session was begun in another way, or from another file, so that its user does not expect it to continue here.
pub fn goes_on(claim: &Claim, file: &Path) -> Result<Option<RestorePlan>> {
    let name = claim.name();
    if claim.kept(PLAN).is_err() {
        return Ok(None);
    }
    let shown = shell_word(&file.display().to_string());
    let (weight, text, kept) = match RestorePlan::of(claim) {
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
    stderr::message(&Message { weight, text });
    Ok(kept)
}

/// Returns the absolute path of a plan's file.
pub fn name_of(file: &Path) -> String {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    path.to_string_lossy().into_owned()
}

/// Returns the status of a killed session as `strata status` shows it.
pub fn status(folder: &Folder, name: &str) -> Map<String, Value> {
    let kept = RestorePlan::left(folder, name).ok();
    let plan = kept.as_ref().map(|kept| &kept.plan);
    let status = serde_json::to_value(Status::killed(plan));
    let mut facts = match status {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    };
    add_earlier_keys(&mut facts);
    facts.insert("name".into(), name.into());
    facts.insert("pid".into(), Value::Null);
    facts
}

/// Returns the status of a session that does not answer: what is known of it, and the reason.
pub fn silent(folder: &Folder, name: &str, why: &ControlError) -> Map<String, Value> {
    let mut facts = status(folder, name);
    facts.insert("state".into(), "silent".into());
    facts.insert("why".into(), why.to_string().into());
    if let ControlError::Silent { pid, .. } = why {
        facts.insert("pid".into(), (*pid).into());
    }
    facts
}

/// Returns a message on what can be done about a killed session.
pub fn remedy(name: &str) -> String {
    format!(
        "session '{name}' was killed. `strata start {name}` makes it again from its plan and starts it, `strata destroy \
         {name}` removes what is left of it"
    )
}

/// Returns a message on where a killed session has written its trace.
pub fn written(folder: &Folder, name: &str) -> Result<String> {
    Ok(match RestorePlan::left(folder, name)?.plan.output {
        Some(path) => {
            format!("what it had written is in {}", shell_word(&path.display().to_string()))
        }
        None => "it had written nothing, as a flight recorder".to_owned(),
    })
}

/// Removes the files of a killed session. Returns a message about them.
pub fn remove(folder: &Folder, name: &str) -> Result<String> {
    let output = RestorePlan::left(folder, name).ok().and_then(|kept| kept.plan.output);
    let kinds = folder.remove(name)?;
    // After its files, because with these another process could continue the session.
    strata_session::remove_pinned(name)?;
    let traces = match output.filter(|path| path.exists()) {
        Some(path) => {
            format!("; what it had written is in {}", shell_word(&path.display().to_string()))
        }
        None => String::new(),
    };
    Ok(format!("session '{name}' was killed: its {} are removed{traces}", kinds.join(", ")))
}
