//! Finds the traces of a session, for the commands that read traces.

use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use serde_json::Value;
use strata_control::{ask, Folder, Request};

use crate::sessions::status_fields::text;

/// Returns the path, or, if it does not exist, the traces of the session of this name.
pub fn trace_or_session(path: &Path) -> Result<PathBuf> {
    let name = path
        .to_str()
        .filter(|name| strata_control::is_name(name) && path.symlink_metadata().is_err());
    let is_there =
        |name: &&str| Folder::reaching(name).is_ok_and(|folder| folder.pid(name).is_some());
    name.filter(is_there).map_or_else(|| Ok(path.to_owned()), trace_of)
}

/// Returns the folder of a session's traces, for `strata view -s`.
pub fn trace_of(name: &str) -> Result<PathBuf> {
    let facts = ask(&Folder::reaching(name)?, name, &Request::Status)?;
    match facts.get("output").and_then(Value::as_str) {
        Some(output) => Ok(PathBuf::from(output)),
        None if facts.get("to").is_some_and(Value::is_object) && text(&facts, "mode") == "files" => bail!(
            "session '{name}': its trace is at the relay, below the folder of `strata relayd --output`"
        ),
        None => bail!(
            "session '{name}': it writes no trace. `strata snapshot {name} -o DIR` saves what it holds, \
             then strata view DIR"
        ),
    }
}
