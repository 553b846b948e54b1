//! Explains how to start programs so that their calls of libc are recorded, for a session that starts none itself.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, Result};
use serde_json::{json, Map, Value};
use strata_session::preload::{self, PreloadPart, Starter};

use crate::stdout;
use crate::units::{clean, shell_word};

/// Returns a sentence on how to start such programs; `None` if no part of libc was requested.
///
/// # Errors
/// The preload objects do not exist, or other users could replace them.
pub fn programs(parts: &[PreloadPart]) -> Result<Option<String>> {
    let Some((name, value)) = preload::environment(parts, Starter::Others)? else {
        return Ok(None);
    };
    let named: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    Ok(Some(format!(
        "What a program does in libc is recorded if it is started so: {}={} PROGRAM, or env \"$(strata list --libc {})\" PROGRAM",
        clean(&name.to_string_lossy()),
        shell_word(&clean(&value.to_string_lossy())),
        named.join(",")
    )))
}

/// Returns the variables of the environment as JSON.
///
/// # Errors
/// As [`programs`].
pub fn environment(parts: &[PreloadPart]) -> Result<Value> {
    let variables = preload::environment(parts, Starter::Others)?.into_iter();
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let all: Map<String, Value> =
        variables.map(|(name, value)| (text(&name), text(&value).into())).collect();
    Ok(all.into())
}

/// Runs `strata list --libc`: a line for each variable.
///
/// # Errors
/// As [`programs`].
pub fn list(parts: &[PreloadPart], is_json: bool) -> Result<u8> {
    if is_json {
        stdout::json_lines("list", &json!({ "environment": environment(parts)? }))?;
        return Ok(0);
    }
    let mut out = Vec::new();
    if let Some((name, value)) = preload::environment(parts, Starter::Others)? {
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value.as_bytes());
        out.push(b'\n');
    }
    // Without a newline, since `env` uses the text as it is.
    stdout::raw().write_all(&out).context("list: cannot write to stdout")?;
    Ok(0)
}
