//! Snapshots of a flight recorder for the page of `strata ui`.
//!
//! The server gives up root's rights, and a session of root's answers nobody else. So a process of its own, which is
//! started before, takes the snapshots: it reads one line feed for each from its standard input, and writes a line with
//! the result. What it is asked cannot choose the session or the folder.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::{json, Map, Value};
use strata_control::{ask, Folder, Request};
use strata_text::json::compact;
use strata_ui::Snapshots;

use crate::sessions::background::{self, SnapshotOrder};
use crate::sessions::status_fields::text;
use crate::units;

/// Hidden flag of the process that takes snapshots.
pub const TAKES: &str = "--takes-snapshots";

/// A session that holds its events in memory until somebody takes a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct FlightRecorder<'n> {
    /// Name of the session.
    pub name: &'n str,
    /// True if it holds an event record.
    pub holds_records: bool,
}

/// Returns the flight recorder of this name; `None` if there is no session of this name, or it is none.
pub fn flight_recorder(name: Option<&str>) -> Option<FlightRecorder<'_>> {
    let name = name.filter(|name| strata_control::is_name(name))?;
    let sessions = Folder::reaching(name).ok()?;
    let facts = ask(&sessions, name, &Request::Status).ok()?;
    let holds_records = records_of(&facts) > 0;
    (text(&facts, "mode") == "snapshot").then_some(FlightRecorder { name, holds_records })
}

fn records_of(facts: &Map<String, Value>) -> u64 {
    facts.get("records").and_then(Value::as_u64).unwrap_or(0)
}

/// Returns what a page says that waits for the first event of a flight recorder.
pub fn nothing_yet(name: &str) -> String {
    format!("session '{name}' holds no event record yet: there is no snapshot")
}

/// Starts the process that takes snapshots of this session in the working directory.
pub fn snapshots_of(name: &str) -> Result<Snapshots> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args(["ui", TAKES, "-s", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("ui: start the process that takes snapshots")?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (mut to, from) = pipes.context("ui: reach the process that takes snapshots")?;
    let mut from = BufReader::new(from);
    Ok(Snapshots::new(Box::new(move || taken(&mut to, &mut from))))
}

/// Asks the process for a snapshot.
fn taken(
    to: &mut ChildStdin,
    from: &mut BufReader<ChildStdout>,
) -> Result<(PathBuf, String), String> {
    let mut line = String::new();
    let asked = writeln!(to).and_then(|()| from.read_line(&mut line));
    let said: Map<String, Value> = match asked {
        Ok(1..) => serde_json::from_str(&line).map_err(|error| error.to_string())?,
        _ => return Err("the process that takes snapshots has ended: start strata ui again".into()),
    };
    match said.get("path").and_then(Value::as_str) {
        Some(path) => Ok((PathBuf::from(path), units::typed(path.as_ref()))),
        None => Err(text(&said, "error").to_owned()),
    }
}

/// Takes a snapshot of the session whenever the server asks for one, until the server ends.
pub fn serve(name: &str) -> Result<u8> {
    answer_each(std::io::stdin().lock(), &mut crate::stdout::raw(), || take(name))?;
    Ok(0)
}

/// Answers each line feed of `from` with a line that has the result of `take`.
///
/// The server is not trusted: nothing that it sends is kept, and any other byte ends this.
fn answer_each(
    from: impl BufRead,
    out: &mut impl Write,
    mut take: impl FnMut() -> Result<String>,
) -> Result<()> {
    for byte in from.bytes() {
        let byte = byte.context("ui: read from the server")?;
        if byte != b'\n' {
            anyhow::bail!(
                "ui: the server has sent the byte {byte:#04x} to the process that takes snapshots, which knows \
                 line feeds alone, and ends: start strata ui again"
            );
        }
        let said = match take() {
            Ok(path) => json!({ "path": path }),
            Err(error) => json!({ "error": format!("{error:#}") }),
        };
        writeln!(out, "{}", compact(&said)).and_then(|()| out.flush()).context("ui: answer")?;
    }
    Ok(())
}

/// Takes a snapshot, and returns its folder.
fn take(name: &str) -> Result<String> {
    let sessions = Folder::reaching(name)?;
    // Nothing is asked for a folder that would be empty.
    if records_of(&ask(&sessions, name, &Request::Status)?) == 0 {
        anyhow::bail!("{}", nothing_yet(name));
    }
    let order = SnapshotOrder { output: None, to: None, last: None };
    let (facts, output) = background::take_snapshot(&sessions, name, &order)?;
    if records_of(&facts) == 0 {
        anyhow::bail!("{}", nothing_yet(name));
    }
    Ok(output.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::answer_each;

    #[test]
    fn each_line_feed_is_answered_by_a_line_with_the_folder_or_the_error() {
        let mut out = Vec::new();
        let mut count = 0;
        let take = || {
            count += 1;
            match count {
                2 => anyhow::bail!("no session"),
                _ => Ok(format!("/tmp/{count}")),
            }
        };
        answer_each(Cursor::new(b"\n\n\n"), &mut out, take).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let said = |at: usize, key: &str| lines[at][key].as_str().unwrap().to_owned();
        assert_eq!(lines.len(), 3);
        assert_eq!(said(0, "path"), "/tmp/1");
        assert_eq!(said(1, "error"), "no session");
        assert_eq!(said(2, "path"), "/tmp/3");
    }

    #[test]
    fn a_byte_that_is_no_line_feed_ends_it_and_what_follows_is_not_read() {
        let mut sent = vec![b'x'; 1 << 20];
        sent[0] = b'\n';
        let mut from = Cursor::new(sent);
        let mut count = 0;
        let take = || {
            count += 1;
            Ok(String::new())
        };
        let error = answer_each(&mut from, &mut Vec::new(), take).unwrap_err();
        assert!(error.to_string().contains("0x78"), "{error}");
        assert_eq!((count, from.position()), (1, 2));
    }
}
