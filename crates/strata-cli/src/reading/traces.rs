//! Which traces: what view, stats, export and analyze are told to read.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueHint};

use crate::sessions::session_trace::{trace_of, trace_or_session};
use crate::talk::units::{clean, shell_word};

/// Which traces.
#[derive(Debug, Args)]
pub struct TracesFlags {
    /// A trace, or a folder with traces below it; several are merged by time. The name of a session that is there, where
    /// nothing has this path
    #[arg(required_unless_present = "session", value_name = "TRACE", value_hint = ValueHint::DirPath)]
    traces: Vec<PathBuf>,

    /// The traces of this session
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
}

impl TracesFlags {
    /// Where they are.
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths =
            self.traces.iter().map(|path| trace_or_session(path)).collect::<Result<Vec<_>>>()?;
        if let Some(name) = &self.session {
            paths.push(trace_of(name)?);
        }
        Ok(paths)
    }

    /// The first of them, as it was named.
    pub fn first(&self) -> Option<&Path> {
        self.traces.first().map(PathBuf::as_path).or_else(|| self.session.as_deref().map(Path::new))
    }

    /// The words that name them, to be typed again.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self
            .traces
            .iter()
            .map(|path| shell_word(&clean(&path.display().to_string())))
            .collect();
        words.extend(self.session.iter().map(|name| format!("-s {}", shell_word(&clean(name)))));
        words.join(" ")
    }
}
