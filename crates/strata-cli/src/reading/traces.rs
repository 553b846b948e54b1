//! Which traces: what view, stats, export and analyze are told to read.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueHint};

use crate::sessions::session_trace::{trace_of, trace_or_session};
use crate::talk::units::{clean, shell_word, typed};

/// Which traces.
#[derive(Debug, Args)]
pub struct TracesFlags {
    /// A trace, or a folder with traces below it; several are merged by time. The name of a session that is there, where
    /// nothing has this path
    #[arg(required_unless_present_any = ["session", "trace_path"], value_name = "TRACE", value_hint = ValueHint::DirPath)]
    traces: Vec<PathBuf>,

    /// The traces of this session
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,

    /// The same as TRACE, as LTTng has it
    #[arg(long, value_name = "TRACE", hide = true, value_hint = ValueHint::DirPath)]
    trace_path: Option<PathBuf>,
}

impl TracesFlags {
    /// Where they are.
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths =
            self.named().map(|path| trace_or_session(path)).collect::<Result<Vec<_>>>()?;
        if let Some(name) = &self.session {
            paths.push(trace_of(name)?);
        }
        Ok(paths)
    }

    fn named(&self) -> impl Iterator<Item = &PathBuf> {
        self.traces.iter().chain(&self.trace_path)
    }

    /// The first of them, as it was named.
    pub fn first(&self) -> Option<&Path> {
        self.named().next().map(PathBuf::as_path).or_else(|| self.session.as_deref().map(Path::new))
    }

    /// The words that name them, to be typed again.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self.named().map(|path| typed(path)).collect();
        words.extend(self.session.iter().map(|name| format!("-s {}", shell_word(&clean(name)))));
        words.join(" ")
    }
}
