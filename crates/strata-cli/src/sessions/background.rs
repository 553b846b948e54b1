//! Sessions in processes of their own: `strata record --background NAME`, and the commands that reach them.
//!
//! ```text
//! strata record --background NAME …    starts the session's process, waits until it records, ends
//!   strata record … (the same, hidden)  leaves the terminal, listens at its socket, records
//! strata snapshot                      one request over that socket; sessions.rs has the others
//! ```
//!
//! A session is one process on which no other process depends; its messages go to a file next to its socket.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use serde_json::{Map, Value};
use strata_control::{ask, Claim, ControlError, Folder, Request, VERDICT};

use crate::exit_status::FAILED;
use crate::flags::relay::absolute_to;
use crate::flags::snapshot::SnapshotFlags;
use crate::sessions::status_fields::text;
use crate::sessions::tar;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, counted, shell_word, size, time};

/// Hidden flag of the session's own process.
pub const OF_SESSION: &str = "--of-session";

/// Period at which a session's state is checked.
pub const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Limit on a session's messages that are shown at its end \[byte\].
const LOG_SHOWN: u64 = 64 << 10;

/// State of a session that a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The session exists and answers requests.
    IsThere,
    /// The session records.
    Records,
}

/// Returns the message about a session that records now.
pub fn began(name: &str, pid: u32) -> String {
    format!(
        "session '{name}' records, as process {pid}. `strata status {name}` says how it is, `strata stop {name}` ends it"
    )
}

/// Starts a session of this name with this program's own arguments, and waits until it has reached the state `until`.
/// Returns its process id, or the exit status of a session that did not begin and has reported why. `has_command` is
/// true if it runs a command, whose output is not ours.
pub fn spawn(name: &str, has_command: bool, until: Until) -> Result<Result<u32, u8>> {
    if Folder::open()?.is_killed(name) {
        return Err(ControlError::Killed { name: name.to_owned() }.into());
    }
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    arguments.insert(arguments.len().min(1), OF_SESSION.into());
    spawn_with(name, has_command, until, &arguments)
}

/// Starts a session as [`spawn`] does, with the given arguments.
pub fn spawn_with(
    name: &str,
    has_command: bool,
    until: Until,
    arguments: &[OsString],
) -> Result<Result<u32, u8>> {
    let folder = Folder::open()?;
    if let Some(entry) = folder.entries()?.into_iter().find(|entry| entry.name == name) {
        return Err(ControlError::Exists { name: entry.name, pid: entry.pid }.into());
    }
    let log = folder.log(name)?;
    let mut command = Command::new(env::current_exe().context("find this program")?);
    let program = env::args_os().next().unwrap_or_else(|| "strata".into());
    std::os::unix::process::CommandExt::arg0(&mut command, program);
    command.args(arguments);
    // The output of a command goes where the user sent it, except to a terminal, which may be closed.
    let keeps_output = has_command && !stdout::is_terminal();
    let output = if keeps_output { Stdio::inherit() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(output).stderr(log);
    let mut child = command.spawn().context("start the session's process")?;
    match begun(&folder, name, until, &mut child)? {
        None => Ok(Ok(child.id())),
        // The session's own messages give the reason; a session that has ended by itself, such as one with a short
        // command, has not failed.
        Some(status) => {
            print_log(&folder, name)?;
            let status = status.code().and_then(|code| u8::try_from(code).ok());
            Ok(Err(status.unwrap_or(FAILED)))
        }
    }
}

/// Waits until the session has reached the state. Returns `None` then, or the exit status of its process if that ended
/// before.
fn begun(
    folder: &Folder,
    name: &str,
    until: Until,
    child: &mut Child,
) -> Result<Option<ExitStatus>> {
    // A session that could not start, or has ended already, is stopping: how its process ends tells which.
    let not_yet = |state: &str| match until {
        Until::IsThere => false,
        Until::Records => ["created", "stopping"].contains(&state),
    };
    loop {
        if let Some(status) = child.try_wait().context("wait for the session's process")? {
            return Ok(Some(status));
        }
        let state = ask(folder, name, &Request::Status);
        if state.is_ok_and(|facts| !facts.get("state").and_then(Value::as_str).is_some_and(not_yet))
        {
            return Ok(None);
        }
        thread::sleep(LOOK_PERIOD);
    }
}

/// Prints the end of an ended session's messages to stderr, and removes them. They may include much output of a
/// command.
pub fn print_log(folder: &Folder, name: &str) -> io::Result<()> {
    match said(folder, name)? {
        Some((said, log)) => {
            stderr::said(&said)?;
            folder.drop_said(name, &log);
            Ok(())
        }
        None => {
            // On stderr, where the messages would have been printed.
            stderr::line(&format!("session '{name}' has ended"));
            Ok(())
        }
    }
}

/// Returns the end of the session's messages, and their file; `None` if they are not in a file.
pub fn said(folder: &Folder, name: &str) -> io::Result<Option<(Vec<u8>, File)>> {
    let Ok(mut log) = folder.said(name) else { return Ok(None) };
    let bytes = log.metadata()?.len();
    log.seek(SeekFrom::Start(bytes.saturating_sub(LOG_SHOWN)))?;
    let mut said = Vec::new();
    (&log).take(LOG_SHOWN).read_to_end(&mut said)?;
    Ok(Some((said, log)))
}

/// Claims the name for this process.
pub fn claim(name: &str) -> Result<Claim, ControlError> {
    let claim = Folder::open()?.claim(name)?;
    // The verdict of an earlier session of this name.
    claim.drop_file(VERDICT);
    Ok(claim)
}

/// Leaves the terminal. This fails for the leader of a process group, which has left it already.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Runs `strata snapshot` for this session.
pub fn snapshot(flags: &SnapshotFlags, sessions: &Folder, name: &str) -> Result<u8> {
    let json = flags.answer.is_json();
    let folder = snapshot_folder(name)?;
    let piped = flags.output.as_deref() == Some(Path::new("-"));
    if piped && json {
        bail!(
            "--json and -o -: both would be written to the standard output. Leave one of them out"
        );
    }
    if piped && stdout::is_terminal() {
        bail!(
            "-o -: the standard output is a terminal, and a snapshot is a tar file. Send it to a file or a \
             program, such as `strata snapshot {name} -o - | ssh HOST tar x`"
        );
    }
    // The session only writes files; this process copies them to stdout.
    let scratch = piped.then(Scratch::new).transpose()?;
    let output = match (&scratch, &flags.output) {
        (Some(scratch), _) => scratch.0.join(&folder),
        (None, Some(path)) => path.clone(),
        (None, None) => PathBuf::from(&folder),
    };
    let to = match (&flags.to, &flags.output) {
        (Some(to), _) => Some(absolute_to(to.clone())?.to_string()),
        (None, Some(_)) => None,
        (None, None) => snapshots_go_to(sessions, name)?,
    };
    let has_folder = flags.output.is_some();
    let order = SnapshotOrder { output: has_folder.then_some(output), to, last: flags.last };
    let (facts, output) = take_snapshot(sessions, name, &order)?;
    if json {
        stdout::json("snapshot", &facts)?;
        return Ok(0);
    }
    let number = |key| facts.get(key).and_then(Value::as_u64).unwrap_or(0);
    if number("records") == 0 {
        let of = flags.last.map_or_else(String::new, |last| format!(" of the last {}", time(last)));
        stderr::message(&Message {
            weight: Weight::Talk,
            text: format!("session '{name}' holds no event record{of}; there is no snapshot"),
        });
        return Ok(1);
    }
    let relay = facts.get("relay").and_then(Value::as_str);
    let path = match &scratch {
        None if relay.is_some() => {
            format!("{} at the relay {}", output.display(), clean(relay.unwrap_or_default()))
        }
        Some(scratch) => {
            tar::write(&scratch.0, &mut stdout::raw()).context("write the snapshot")?;
            format!("{folder}, in a tar file on the standard output")
        }
        None => shell_word(&output.display().to_string()),
    };
    stderr::message(&Message {
        weight: Weight::Talk,
        text: format!(
            "{} of the last {} in {path} ({})",
            counted(number("records"), "event record"),
            time(Duration::from_nanos(number("span_ns"))),
            size(number("bytes")),
        ),
    });
    if scratch.is_none() && relay.is_none() {
        stderr::line(&format!("Next: strata view {path}"));
    }
    Ok(0)
}

/// A snapshot to take.
pub struct SnapshotOrder {
    /// Folder of the snapshot; `None` for a new one in the working directory, or where root has chosen it for members of
    /// its group.
    pub output: Option<PathBuf>,
    /// Relay to which it is sent.
    pub to: Option<String>,
    /// Length of the time up to now that it covers; `None` for everything in the buffers.
    pub last: Option<Duration>,
}

/// Takes a snapshot. Returns what the session says of it, and its folder.
pub fn take_snapshot(
    sessions: &Folder,
    name: &str,
    order: &SnapshotOrder,
) -> Result<(Map<String, Value>, PathBuf)> {
    let output = match &order.output {
        Some(output) => output.clone(),
        None => unused(Path::new(&snapshot_folder(name)?)),
    };
    let output = std::path::absolute(output).context("find the working directory")?;
    let is_of_others = !rustix::process::geteuid().is_root() && is_of_root(sessions);
    let (to, last) = (order.to.clone(), order.last);
    let request = match (is_of_others, &order.output) {
        // For members of the group, root has chosen the folder.
        (true, None) => Request::MemberSnapshot { last },
        _ => Request::Snapshot { output: output.clone(), to, last },
    };
    let facts = ask(sessions, name, &request)?;
    let output = facts.get("output").and_then(Value::as_str).map_or(output, PathBuf::from);
    Ok((facts, output))
}

/// Returns a new name for the folder of a snapshot.
fn snapshot_folder(name: &str) -> Result<String> {
    Ok(format!("strata-snapshot-{name}-{}", strata_session::time_name()?))
}

/// Returns the path, with a number behind it if there is something of this name.
///
/// Names of snapshots have the second: there may be two of one second, or of a time to which the clock was set back.
fn unused(path: &Path) -> PathBuf {
    let mut free = path.to_owned();
    let mut number = 1_u64;
    while free.symlink_metadata().is_ok() {
        number += 1;
        free = PathBuf::from(format!("{}-{number}", path.display()));
    }
    free
}

/// Returns the relay to which the session sends its snapshots, if there is one.
fn snapshots_go_to(sessions: &Folder, name: &str) -> Result<Option<String>> {
    let status = ask(sessions, name, &Request::Status)?;
    if !status.get("to").is_some_and(Value::is_object) || text(&status, "mode") != "snapshot" {
        return Ok(None);
    }
    let plan = ask(sessions, name, &Request::Plan)?;
    Ok(plan.get("to").and_then(Value::as_str).map(str::to_owned))
}

/// Returns true if the sessions are root's.
fn is_of_root(sessions: &Folder) -> bool {
    std::fs::metadata(sessions.path()).is_ok_and(|found| found.uid() == 0)
}

/// A folder that only this user can read, and that is removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let mut number = [0; 8];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut number))
            .context("read /dev/urandom")?;
        let path =
            env::temp_dir().join(format!("strata-snapshot-{:016x}", u64::from_ne_bytes(number)));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&path)
            .with_context(|| format!("make the folder {} (TMPDIR)", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            stderr::message(&Message {
                weight: Weight::Warning,
                text: format!("{}: cannot be removed: {error}", self.0.display()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_snapshot_has_a_number_if_its_name_is_taken() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.0.join("strata-snapshot-web-20261130-070000");
        assert_eq!(unused(&path), path);
        std::fs::create_dir(&path).unwrap();
        let second = scratch.0.join("strata-snapshot-web-20261130-070000-2");
        assert_eq!(unused(&path), second);
        // A link is taken, wherever it leads.
        std::os::unix::fs::symlink("/nowhere/at/all", &second).unwrap();
        assert_eq!(unused(&path), scratch.0.join("strata-snapshot-web-20261130-070000-3"));
    }
}
