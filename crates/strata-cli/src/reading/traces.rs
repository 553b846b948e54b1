//! Flags that name the traces, shared by view, stats, export and analyze.

use std::path::{Path, PathBuf};

use anyhow::{bail, Error, Result};
use clap::{Arg, Args, ValueHint};
use strata_remote::ViewAddress;

use super::imported_traces;
use crate::sessions::session_trace::{trace_of, trace_or_session};
use crate::units::{clean, shell_word, typed};

/// Adds to the help of TRACE what commands that follow recordings also accept there.
pub fn or_at_relay(traces: Arg) -> Arg {
    let help = traces.get_help().map(ToString::to_string).unwrap_or_default();
    traces.help(format!(
        "{help}. With --follow also net://RELAY/HOST, the newest recording of this host at `strata relayd`, or \
         net://RELAY/HOST/RECORDING"
    ))
}

/// Flags that name the traces.
#[derive(Debug, Args)]
pub struct TracesFlags {
    /// A trace, a folder with traces below it, or a file of perf record or trace-cmd; several are merged by time. If no such path
    /// exists, the name of a session
    #[arg(required_unless_present_any = ["session", "trace_path"], value_name = "TRACE", value_hint = ValueHint::AnyPath)]
    traces: Vec<PathBuf>,

    /// The traces of this session
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,

    /// Path of the trace, as LTTng's flag; the same as TRACE
    #[arg(long, value_name = "TRACE", hide = true, value_hint = ValueHint::DirPath)]
    trace_path: Option<PathBuf>,
}

impl TracesFlags {
    /// Returns the paths of the traces.
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        let (paths, at_relays) = self.paths_and_relays()?;
        match at_relays.first() {
            None => Ok(paths),
            Some(_) => bail!(
                "a recording at a relay is followed: strata view --follow net://RELAY/HOST, or strata analyze summary \
                 --follow. Other commands read the relay's folder, on its machine"
            ),
        }
    }

    /// Returns the paths of the traces, and the addresses of recordings at relays.
    pub fn paths_and_relays(&self) -> Result<(Vec<PathBuf>, Vec<ViewAddress>)> {
        let (mut paths, mut at_relays) = (Vec::new(), Vec::new());
        for path in self.named() {
            match path.to_str().filter(|text| ViewAddress::is_one(text)) {
                Some(text) => at_relays.push(ViewAddress::parse(text).map_err(Error::msg)?),
                None => paths.push(imported_traces::readable(trace_or_session(path)?)?),
            }
        }
        if let Some(name) = &self.session {
            paths.push(trace_of(name)?);
        }
        Ok((paths, at_relays))
    }

    fn named(&self) -> impl Iterator<Item = &PathBuf> {
        self.traces.iter().chain(&self.trace_path)
    }

    /// Returns true if a recording at a relay is named, which other commands cannot read.
    pub fn has_relay(&self) -> bool {
        self.named().any(|path| path.to_str().is_some_and(ViewAddress::is_one))
    }

    /// Removes the last argument from the traces and returns it if it is a query and no path: a text with spaces, or
    /// one of `words`.
    pub fn take_query(&mut self, words: &[&str]) -> Option<String> {
        let last = self.traces.last()?;
        let is_query =
            |text: &&str| words.contains(text) || text.trim().contains(char::is_whitespace);
        let text = last.to_str().filter(is_query)?.to_owned();
        if last.symlink_metadata().is_ok() {
            return None;
        }
        self.traces.pop();
        Some(text)
    }

    /// Returns true if no trace is named.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Returns the first trace, as it was given.
    pub fn first(&self) -> Option<&Path> {
        self.named().next().map(PathBuf::as_path).or_else(|| self.session.as_deref().map(Path::new))
    }

    /// Returns the name of the session, or the word that may be one, if it is the only thing that is named.
    pub fn only_session(&self) -> Option<&str> {
        let mut named = self.named();
        match (&self.session, named.next(), named.next()) {
            (Some(name), None, None) => Some(name),
            (None, Some(path), None) if path.symlink_metadata().is_err() => path.to_str(),
            _ => None,
        }
    }

    /// Formats the traces as arguments of a command to type.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self.named().map(|path| typed(path)).collect();
        words.extend(self.session.iter().map(|name| format!("-s {}", shell_word(&clean(name)))));
        words.join(" ")
    }
}
