//! What programs do in libc, in a session that starts none: how they are started, so that it is recorded.

use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, Result};
use serde_json::{json, Map, Value};
use strata_session::preload::{self, PreloadPart, Starter};

use crate::talk::units::{clean, shell_word};

/// What is said of them, in a sentence; `None`: no part of libc was asked for.
///
/// # Errors
/// The objects are not there, or somebody else could replace them.
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

/// The same as JSON: variables of its environment.
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

/// `strata list --libc`: a line for each variable.
///
/// # Errors
/// As [`programs`].
pub fn list(parts: &[PreloadPart], is_json: bool) -> Result<u8> {
    let mut out = Vec::new();
    if is_json {
        let all = json!({ "environment": environment(parts)? });
        out.extend_from_slice(format!("{all:#}\n").as_bytes());
    } else {
        if let Some((name, value)) = preload::environment(parts, Starter::Others)? {
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            out.extend_from_slice(value.as_bytes());
            out.push(b'\n');
        }
    }
    io::stdout().write_all(&out).context("list: cannot write to stdout")?;
    Ok(0)
}
