//! `strata export`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueHint};

/// `strata export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// A trace, or a folder with traces below it
    #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::DirPath)]
    traces: Vec<PathBuf>,
}

/// Do it, and give the exit status.
pub fn run(flags: &ExportFlags) -> Result<u8> {
    let _ = &flags.traces;
    Ok(0)
}
