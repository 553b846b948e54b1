//! Where the traces of a session are, for the commands that read traces.

use std::path::PathBuf;

use anyhow::{bail, Result};
use serde_json::Value;
use strata_control::{ask, Folder, Request};

/// The folder of a session's traces, for `strata view -s`.
pub fn trace_of(name: &str) -> Result<PathBuf> {
    let facts = ask(&Folder::reaching(name)?, name, &Request::Status)?;
    match facts.get("output").and_then(Value::as_str) {
        Some(output) => Ok(PathBuf::from(output)),
        None => bail!(
            "session '{name}': nothing is written of it. `strata snapshot {name} -o DIR` saves what it holds, \
             then strata view DIR"
        ),
    }
}
