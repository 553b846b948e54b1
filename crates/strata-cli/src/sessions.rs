//! Commands for sessions that stay: `strata create` and others, each of which sends some requests to the session's
//! process.
//!
//! ```text
//! strata create NAME                starts the session's process, and waits until it answers
//!   strata create NAME --of-session  leaves the terminal, listens at its socket, and handles requests
//! strata enable-event … start …      requests: changes of the session's plan, and actions
//! ```
//!
//! A session is a process of its own, with a socket that has the session's name in a folder of its user
//! (`strata_control::Folder`). These commands hold no state: each opens the socket, sends one request, prints the
//! answer as text or JSON and ends. If the session does not answer at once, `busy_line` says what it is doing, and
//! Ctrl-C still works.
//!
//! - A name is claimed by a lock in the folder before a process is started, so that of two `create` one fails.
//! - A session that was killed leaves its plan beside the socket. `start` restores it from there (`killed_sessions`),
//!   and `destroy` removes what it has left.
//! - Without a name, a command means the only session; if there are several, it fails and lists them.
//! - The exit status is 1 if the request was done, but the session does not record what it should (`not_recorded`).
//!
//! A session that is slow to answer is never ended for it: the kernel, a disk or a process may block its threads
//! for seconds.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use serde_json::{json, Map, Value};
use strata_control::{ask, Claim, ControlError, Folder, Group, Request, VERDICT};
use strata_filter::Pattern;
use strata_kernel::filter::cgroup;
use strata_kernel::CallStacks;
use strata_session::daemon::{process, AtOnce};
use strata_session::plan::{Change, Plan};
use strata_session::report::Notice;
use strata_session::{some_are_there, RestorePlan};

use crate::exit_status::FAILED;
use crate::flags::output_format::AnswerFlags;
use crate::flags::record_plan::Planned;
use crate::flags::relay::absolute_to;
use crate::flags::rotation::ClearFlags;
use crate::flags::sessions::{
    sampling, CreateFlags, DestroyFlags, EnableEventFlags, OfSession, OneFlags, StartFlags,
    StopFlags, TrackFlags,
};
use crate::flags::snapshot::SnapshotFlags;
use crate::flags::RecordFlags;
use crate::record;
use crate::sessions::background::{Until, LOOK_PERIOD};
use crate::sessions::status_fields::{history, is, names, number, text};
use crate::stderr;
use crate::stderr::messages::{self, Message, Weight};
use crate::stdout;
use crate::units::{clean, counted, shell_word, size};
use service::ServiceManager;

pub mod background;
pub mod busy_line;
pub mod change_text;
pub mod killed_sessions;
pub mod metrics;
pub mod not_recorded;
pub mod preload_advice;
pub mod saved_plans;
pub mod service;
pub mod session_trace;
pub mod status;
pub mod status_fields;
pub mod tar;
pub mod top;
pub mod triggers;

/// Longest wait for the first rate of a flight recorder.
const HISTORY_WAIT: Duration = Duration::from_millis(900);

const UNREAD: &str = "read what the session has said";

fn tell(text: String) {
    stderr::message(&Message { weight: Weight::Talk, text });
}

/// Returns the session `name`; without a name, the only session there is.
pub fn one_of(name: Option<&str>) -> Result<(Folder, String)> {
    if let Some(name) = name {
        return Ok((Folder::reaching(name)?, name.to_owned()));
    }
    let folder = Folder::open()?;
    match &names_of(&folder)?[..] {
        [name] => Ok((folder, name.clone())),
        [] => bail!("there is no session. `strata create NAME` makes one"),
        several => bail!("there are the sessions {}: say which", several.join(", ")),
    }
}

/// Returns the names of running and of killed sessions. Removes files that killed sessions cannot use any more.
pub fn names_of(folder: &Folder) -> Result<Vec<String>> {
    folder.tidy();
    let mut names: Vec<String> = folder.entries()?.into_iter().map(|entry| entry.name).collect();
    names.extend(folder.killed()?);
    names.sort();
    names.dedup();
    Ok(names)
}

/// Prints a session's answer, as JSON or as the message `text`. Returns the exit status.
pub fn done(answer: &AnswerFlags, name: &str, facts: Map<String, Value>, text: String) -> u8 {
    if answer.is_json() {
        let mut all = Map::new();
        all.insert("session".into(), name.into());
        all.extend(facts);
        return match stdout::json(name, &all) {
            Err(error) if !stdout::is_closed(&error) => {
                stderr::failure(&messages::failure_line(error.chain()));
                FAILED
            }
            _ => 0,
        };
    } else {
        tell(text);
    }
    0
}

/// Runs `strata create`.
pub fn create(flags: &CreateFlags) -> Result<u8> {
    let mut plan = Plan::new(flags.snapshot, flags.output.as_deref().map(absolute).transpose()?);
    plan.to = flags.spool.on(flags.to.as_ref())?.map(absolute_to).transpose()?;
    (plan.subbuf_size, plan.num_subbuf) = (flags.subbuf_size, flags.num_subbuf);
    (plan.keep, plan.stack) = (flags.keep, flags.stack.unwrap_or_default());
    plan.argv_bytes = flags.argv_bytes;
    (plan.rotation, plan.retention) = (flags.rotate.rotation(), flags.keep_last.retention());
    (plan.max_memory, plan.min_free) = (flags.max_memory, flags.min_free);
    if let Some(rate) = flags.sample {
        plan = plan.changed(&sampling(rate, None, CallStacks::None, None))?;
    }
    plan.group_snapshots = flags.group_snapshots.as_deref().map(absolute).transpose()?;
    plan.check()?;
    check_keep(&plan)?;
    if let (Some(folder), Some(group)) = (&mut plan.group_snapshots, &flags.group) {
        *folder = strata_session::group_folder(folder, Group::find(group)?.id())?;
    }
    let made = flags.output.as_deref().and_then(messages::folders_made);
    if let Some(text) = made.filter(|_| !flags.of_session) {
        tell(text);
    }
    match flags.of_session {
        true => {
            background::leave_terminal();
            let kept = RestorePlan::new(plan, flags.group.clone());
            stand(background::claim(&flags.name)?, kept, None, Ending::default())
        }
        false => {
            let next = format!("strata enable-event -s {} -u 'PROVIDER:*', then ", flags.name);
            begin(&flags.name, &next, &flags.answer)
        }
    }
}

/// Checks that this user may use `--keep`.
///
/// # Errors
/// The plan has `--keep`, and this user is not root.
fn check_keep(plan: &Plan) -> Result<()> {
    if plan.keep && !rustix::process::geteuid().is_root() {
        bail!(
            "--keep: what goes on recording in the kernel is root's. Run this as root, or leave --keep out: programs' \
             records are kept in any case"
        );
    }
    Ok(())
}

/// Runs `strata record --background NAME`: makes a session from the flags, and starts it at once.
pub fn record(flags: &RecordFlags) -> Result<u8> {
    let name = flags.background.as_deref().unwrap_or_default();
    // Check first what may fail, so that no session is begun in vain.
    let processes = flags.processes()?;
    let pids: Vec<u32> = processes.iter().map(|(_, pid)| *pid).collect();
    some_are_there(&pids)?;
    let programs = match flags.has_command() {
        true => None,
        false => preload_advice::programs(&flags.libc)?,
    };
    let mut begun = BegunSession { name, flags, remarks: Vec::new() };
    let Planned { mut plan, may_lack_kernel, no_kernel, hypervisor, no_preload, probes, groups } =
        flags.planned(pids)?;
    plan.output = plan.output.as_deref().map(absolute).transpose()?;
    plan.to = plan.to.map(absolute_to).transpose()?;
    check_keep(&plan)?;
    if flags.of_session {
        background::leave_terminal();
        let kept = RestorePlan { stop_ends: true, ..RestorePlan::new(plan, flags.group.clone()) };
        let claim = background::claim(name)?;
        if kept.plan.transient.is_none() {
            return serve(claim, kept, (may_lack_kernel, false));
        }
        // The command's exit status is that of the session, and whoever waits for named processes reads it, too.
        let at_once = AtOnce { may_lack_kernel, is_ready: service::is_ready };
        let ending = Ending { is_strict: flags.strict, is_quiet: flags.quiet, ..Ending::default() };
        return stand(claim, kept, Some(at_once), ending);
    }
    let spawned = background::spawn(name, flags.has_command(), Until::Records)?;
    // At the end of a command, the report says it.
    let is_told_later = !plan.transient.command.is_empty() && !plan.transient.everyone;
    if let (Some(why), Ok(_), false) = (&no_kernel, &spawned, is_told_later) {
        let weight = messages::weight_of_no_kernel(why);
        let text = messages::notice(&Notice::NoKernel(why.clone())).unwrap_or_default();
        if weight != Weight::Talk || begun.talks() {
            stderr::message(&Message { weight, text });
        }
    }
    if flags.strict {
        begun.remarks.push(format!(
            "--strict: what is missing is known at the end. `strata stop --strict {name}` exits with 1 then"
        ));
    }
    begun.remarks.extend(hypervisor.into_iter().chain(no_preload).chain(probes).chain(programs));
    begun.remarks.extend(messages::found_by_name(&processes).into_iter().chain(groups));
    if let Some(of) = flags.ends_with_process() {
        begun.remarks.push(format!("because of {of} it is not made again if it is killed"));
    }
    if flags.keep {
        begun.remarks.push(format!(
            "the kernel goes on if that is killed, and `strata start {name}` takes it up again"
        ));
    }
    begun.end(spawned, no_kernel.map(|one| one.why))
}

/// The answer of `strata record --background` about the session that it has begun.
struct BegunSession<'f> {
    name: &'f str,
    flags: &'f RecordFlags,
    /// Further messages, each a whole sentence.
    remarks: Vec<String>,
}

impl BegunSession<'_> {
    /// Returns true if messages are shown even if nothing is wrong.
    fn talks(&self) -> bool {
        !self.flags.of_session && !self.flags.quiet && !self.flags.answer.is_json()
    }

    /// Prints the answer. `spawned` is the session's process id or its exit status. `no_kernel` is the reason why the
    /// kernel is not recorded, if it is known.
    fn end(self, spawned: Result<u32, u8>, no_kernel: Option<String>) -> Result<u8> {
        let is_json = self.flags.answer.is_json();
        let (pid, state, status) = match spawned {
            Ok(pid) => (Some(pid), "recording", 0),
            // The session has ended already, such as with a short command, and has printed its messages.
            Err(status) if is_json && status < FAILED => (None, "ended", status),
            Err(status) => return Ok(status),
        };
        // Early enough for the user to stop it and correct the command.
        let said = said_so_far(self.name)?;
        if is_json {
            let facts = json!({
                "pid": pid, "state": state, "has_plan": true, "no_kernel": no_kernel,
                "remarks": self.remarks, "said": String::from_utf8_lossy(&said),
            });
            let facts = facts.as_object().cloned().unwrap_or_default();
            done(&self.flags.answer, self.name, facts, String::new());
            return Ok(status);
        }
        stderr::said(&said).context("cannot write to stderr")?;
        if let (true, Some(pid)) = (self.talks(), pid) {
            let history = match self.flags.snapshot {
                true => history_text(&Folder::open()?, self.name),
                false => None,
            };
            let history = history.map_or_else(String::new, |(text, _)| text);
            tell(background::began(self.name, pid) + &history);
            self.remarks.into_iter().for_each(tell);
        }
        Ok(status)
    }
}

/// Reads the messages that the session has written so far.
fn said_so_far(name: &str) -> Result<Vec<u8>> {
    let said = background::said(&Folder::open()?, name).context(UNREAD)?;
    Ok(said.map(|(said, _)| said).unwrap_or_default())
}

/// Returns the absolute path.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).context("find the working directory")
}

/// Starts the process of a session, and waits until it answers. `next` is a command to type before `strata start`.
fn begin(name: &str, next: &str, answer: &AnswerFlags) -> Result<u8> {
    let spawned = background::spawn(name, false, Until::IsThere)?;
    Ok(spawned.map_or_else(|status| status, |pid| began(name, pid, next, answer)))
}

/// Reports that the process of a session exists. Returns the exit status.
pub fn began(name: &str, pid: u32, next: &str, answer: &AnswerFlags) -> u8 {
    let facts = [("pid".to_owned(), pid.into())].into_iter().collect();
    let text =
        format!("session '{name}' is there, as process {pid}. Next: {next}strata start {name}");
    done(answer, name, facts, text)
}

/// Runs the session in this process, and starts it at once. `may_lack_kernel` allows it to continue without the kernel
/// if only the kernel's part fails. `is_service`: see [`Ending`].
pub fn serve(
    claim: Claim,
    kept: RestorePlan,
    (may_lack_kernel, is_service): (bool, bool),
) -> Result<u8> {
    let at_once = AtOnce { may_lack_kernel, is_ready: service::is_ready };
    let ending = Ending { is_service, ..Ending::default() };
    let status = stand(claim, kept, Some(at_once), ending)?;
    // Losses were reported; they are no failure that starting the service again would repair.
    Ok(if status == 1 { 0 } else { status })
}

/// How the process of a session ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    /// True for exit status 1 if anything is missing.
    pub is_strict: bool,
    /// True to print no more than warnings.
    pub is_quiet: bool,
    /// True if this process is what a service manager has started. A session in the background is not, even if it was begun
    /// from within a service: the end of the session is not the end of that service.
    pub is_service: bool,
}

/// Runs the session's own process. Returns the exit status.
pub fn stand(
    claim: Claim,
    kept: RestorePlan,
    at_once: Option<AtOnce>,
    ending: Ending,
) -> Result<u8> {
    let mut manager = ending.is_service.then(ServiceManager::of_environment);
    // The report says it as well, which whoever waits for a command or a process reads.
    let tells_at_end = !kept.plan.transient.is_none();
    let mut hear = |notice| {
        if let Some(manager) = &mut manager {
            manager.hear(&notice, Instant::now());
        }
        let weight = match notice {
            Notice::WaitingForCommand { .. }
            | Notice::WaitingForDescendants
            | Notice::WaitingForHost { .. } => Weight::Talk,
            Notice::NoKernel(_) if tells_at_end => return,
            Notice::Failed { .. } | Notice::LayerFailed { .. } => Weight::Failure,
            Notice::NoSuchEvent(_)
            | Notice::NotRotated { .. }
            | Notice::Remark(_)
            | Notice::NoRoom { .. }
            | Notice::Remote(_)
            | Notice::WaitsForRoom { .. } => Weight::Warning,
            Notice::NoKernel(ref reason) => messages::weight_of_no_kernel(reason),
            _ => return,
        };
        if weight == Weight::Talk && ending.is_quiet {
            return;
        }
        if let Some(text) = messages::notice(&notice) {
            stderr::message(&Message { weight, text });
        }
    };
    let mut end = |report: &_| record::say(report, ending.is_quiet);
    let report = process::stand(claim, kept, at_once.as_ref(), stderr::warn, &mut hear, &mut end)?;
    Ok(messages::exit_status(&report, ending.is_strict))
}

/// Sessions that a command is for.
enum Named<'n> {
    All,
    /// All sessions whose names match this pattern.
    Pattern(&'n str),
    /// The session of this name; without one the only session there is.
    One(Option<&'n str>),
}

impl<'n> Named<'n> {
    fn of(all: bool, glob: bool, name: Option<&'n str>) -> Named<'n> {
        match (all, name) {
            (true, _) => Named::All,
            (false, Some(name)) if glob => Named::Pattern(name),
            (false, name) => Named::One(name),
        }
    }
}

/// Returns the names that fit a pattern.
///
/// # Errors
/// None does.
fn fitting(names: Vec<String>, pattern: &str) -> Result<Vec<String>> {
    let glob = Pattern::glob(pattern);
    let (fit, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| glob.matches(name.as_bytes()));
    match (fit.is_empty(), others.is_empty()) {
        (false, _) => Ok(fit),
        (true, true) => bail!("--glob '{}': there is no session", clean(pattern)),
        (true, false) => {
            bail!("--glob '{}': it fits none of the sessions {}", clean(pattern), others.join(", "))
        }
    }
}

/// Calls `act` for each of these sessions. Returns the highest exit status.
fn with_all(which: &Named<'_>, mut act: impl FnMut(Folder, String) -> Result<u8>) -> Result<u8> {
    let names = match which {
        Named::One(name) => {
            let (folder, name) = one_of(*name)?;
            return act(folder, name);
        }
        Named::All => names_of(&Folder::open()?)?,
        Named::Pattern(pattern) => fitting(names_of(&Folder::open()?)?, pattern)?,
    };
    let mut status = 0;
    for name in names {
        match act(Folder::open()?, name) {
            Ok(one) => status = status.max(one),
            // The session has ended in between.
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(status)
}

/// Runs `strata start`.
pub fn start(flags: &StartFlags) -> Result<u8> {
    let which = Named::of(flags.all, flags.glob, flags.name.as_deref());
    with_all(&which, |folder, name| start_one(flags, folder, name))
}

fn start_one(flags: &StartFlags, folder: Folder, name: String) -> Result<u8> {
    if flags.of_session {
        background::leave_terminal();
        let claim = folder.claim(&name)?;
        let kept = RestorePlan::of(&claim)?;
        return stand(claim, kept.anew(), None, Ending::default());
    }
    let was_killed = folder.is_killed(&name);
    if was_killed {
        match begin_again(&folder, &name)? {
            Ok(text) => tell(text),
            Err(status) => return Ok(status),
        }
        // Print what was not recorded because of the kill.
        stderr::said(&said_so_far(&name)?).context("cannot write to stderr")?;
    }
    let mut facts = ask(&folder, &name, &Request::Start)?;
    let is_recorder = text(&facts, "mode") == "snapshot" && !is(&facts, "is_empty");
    let history = if is_recorder { history_text(&folder, &name) } else { None };
    let history = history.map_or_else(String::new, |(text, seconds)| {
        facts.insert("history_seconds".into(), seconds);
        text
    });
    facts.insert("was_killed".into(), was_killed.into());
    let text = match facts.get("is_empty").and_then(Value::as_bool) {
        Some(true) if tracks_nobody(&ask(&folder, &name, &Request::Plan)?) => format!(
            "session '{name}' is started, and nobody is tracked: strata track -s {name} …"
        ),
        Some(true) => format!(
            "session '{name}' is started, and no rule selects anything yet: strata enable-event -s {name} …"
        ),
        _ => format!(
            "session '{name}' records{}{history}. `strata status {name}` says how it is",
            memory_text(&facts)
        ),
    };
    Ok(done(&flags.answer, &name, facts, text))
}

/// Returns whether one of the plan's conditions on tracked processes excludes all of them, so that nothing is
/// recorded.
fn tracks_nobody(plan: &Map<String, Value>) -> bool {
    let tracked = plan.get("tracked").and_then(Value::as_object);
    tracked.into_iter().flatten().any(|(_, some)| some.as_array().is_some_and(Vec::is_empty))
}

/// Returns a text such as `. Its buffers hold 12 s at the present rate`, and that time; `None` until the flight
/// recorder has recorded something.
fn history_text(folder: &Folder, name: &str) -> Option<(String, Value)> {
    let until = Instant::now() + HISTORY_WAIT;
    loop {
        let now = ask(folder, name, &Request::Status).ok()?;
        if let Some(reach) = history(&now) {
            let text = format!(". Its buffers hold {reach} at the present rate");
            return Some((text, now["history_seconds"].clone()));
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Formats the limit on buffers, if there is one: `. Buffers take 64.0 MiB, and at most 1.0 GiB`.
fn memory_text(facts: &Map<String, Value>) -> String {
    let number = |key| facts.get(key).and_then(Value::as_u64);
    number("max_memory").map_or_else(String::new, |max| {
        format!(". Buffers take {}, and at most {}", size(number("memory").unwrap_or(0)), size(max))
    })
}

/// Starts the process of a killed session again, from its plan. Returns the message about it, or the exit status of a
/// session that did not begin.
fn begin_again(folder: &Folder, name: &str) -> Result<Result<String, u8>> {
    let written = killed_sessions::written(folder, name)?;
    let arguments = ["start", background::OF_SESSION, name].map(Into::into);
    Ok(background::spawn_with(name, false, Until::IsThere, &arguments)?.map(|pid| {
        format!("session '{name}' was killed; {written}. It is made again from its plan, as process {pid}")
    }))
}

/// Runs `strata stop`. A session of `strata record` ends; any other one can be started again.
pub fn stop(flags: &StopFlags) -> Result<u8> {
    let which = Named::of(flags.all, flags.glob, flags.name.as_deref());
    with_all(&which, |folder, name| stop_one(flags, &folder, &name))
}

fn stop_one(flags: &StopFlags, folder: &Folder, name: &str) -> Result<u8> {
    let facts = ask(folder, name, &Request::Stop)?;
    if text(&facts, "state") == "ended" {
        return Ok(u8::from(ended(folder, name, &flags.answer)? && flags.strict));
    }
    let is_missing = !names(&facts, "gaps").is_empty();
    if !flags.answer.is_json() {
        not_recorded::missing(&facts).into_iter().for_each(|text| {
            stderr::message(&Message { weight: Weight::Warning, text });
        });
    }
    let text = format!(
        "session '{name}' records nothing. `strata start {name}` goes on, `strata destroy {name}` ends it"
    );
    done(&flags.answer, name, facts, text);
    Ok(u8::from(is_missing && flags.strict))
}

/// Runs `strata rotate`.
pub fn rotate(flags: &OneFlags) -> Result<u8> {
    let (folder, name) = one_of(flags.name.as_deref())?;
    let facts = ask(&folder, &name, &Request::Rotate)?;
    let path = |facts: &Map<String, Value>, key: &str| {
        let path = facts.get(key).and_then(Value::as_str).unwrap_or_default();
        shell_word(&clean(path))
    };
    let goes_on = format!("recording goes on in {}", path(&facts, "present"));
    let text = match facts.get("chunk").or(facts.get("part")).and_then(Value::as_object) {
        Some(part) => format!(
            "{} in {}; {goes_on}",
            counted(number(part, "records"), "event record"),
            path(part, "folder")
        ),
        None => {
            format!("nothing was recorded since the last part, so there is no new one; {goes_on}")
        }
    };
    Ok(done(&flags.answer, &name, facts, text))
}

/// Runs `strata clear`.
pub fn clear(flags: &ClearFlags) -> Result<u8> {
    let which = Named::of(flags.all, false, flags.name.as_deref());
    with_all(&which, |folder, name| {
        let facts = ask(&folder, &name, &Request::Clear)?;
        let present = text(&facts, "present");
        let text = match facts.get("chunk").and_then(Value::as_object) {
            Some(part) => format!(
                "session '{name}': {} of the present part removed; recording goes on in {}",
                counted(number(part, "records"), "event record"),
                shell_word(&clean(present))
            ),
            None if present.is_empty() => {
                format!("session '{name}': snapshots have what is recorded from now on")
            }
            None => format!(
                "session '{name}': nothing was recorded in the present part; recording goes on in {}",
                shell_word(&clean(present))
            ),
        };
        Ok(done(&flags.answer, &name, facts, text))
    })
}

/// Returns true if a session of this name runs, or was killed.
pub fn is_there(name: &str) -> bool {
    Folder::reaching(name).is_ok_and(|folder| folder.pid(name).is_some() || folder.is_killed(name))
}

/// Returns true if this user may ask a session for its status: it is the user's own, or root's and open to one of the
/// user's groups.
pub fn can_be_asked(name: &str) -> bool {
    is_there(name)
        || Folder::reaching(name).is_ok_and(|folder| ask(&folder, name, &Request::Status).is_ok())
}

/// Runs `strata snapshot`.
pub fn snapshot(flags: &SnapshotFlags) -> Result<u8> {
    if let Some(word) = flags.name.as_deref().filter(|name| !is_there(name)) {
        if let Some(text) = messages::lttng::of_snapshot(word) {
            bail!("{text}");
        }
    }
    if let Some(word) = flags.more.first() {
        let word = clean(word);
        bail!("snapshot: what is '{word}'? One session is named; where the snapshot is written is said by -o DIR");
    }
    // LTTng's command has a second word, `record`.
    let named = flags.name.as_deref().filter(|name| *name != "record" || is_there(name));
    let (folder, name) = match (named, flags.session.as_deref()) {
        (Some(one), Some(other)) => {
            bail!("snapshot: of '{}' or of '{}'? Name one session", clean(one), clean(other))
        }
        (one, other) => one_of(one.or(other))?,
    };
    background::snapshot(flags, &folder, &name)
}

/// Waits until the session has ended, and prints its messages. Returns true if anything is missing, or if the session
/// left no verdict.
fn ended(folder: &Folder, name: &str, answer: &AnswerFlags) -> Result<bool> {
    while folder.entries()?.iter().any(|entry| entry.name == name) {
        thread::sleep(LOOK_PERIOD);
    }
    let verdict = folder.take_text(name, VERDICT).ok();
    let verdict = verdict.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text).ok());
    let is_missing = verdict.as_ref().is_none_or(|facts| !names(facts, "gaps").is_empty());
    if answer.is_json() {
        let found = background::said(folder, name).context(UNREAD)?;
        let said = found.as_ref().map(|(said, _)| String::from_utf8_lossy(said));
        let all = json!({ "session": name, "state": "ended", "report": verdict, "said": said });
        stdout::json("destroy", &all)?;
        if let Some((_, log)) = found {
            folder.drop_said(name, &log);
        }
    } else {
        background::print_log(folder, name).context(UNREAD)?;
    }
    Ok(is_missing)
}

/// Runs `strata destroy`.
pub fn destroy(flags: &DestroyFlags) -> Result<u8> {
    let which = Named::of(flags.all, flags.glob, flags.name.as_deref());
    with_all(&which, |folder, name| {
        let is_missing = end(&folder, &name, &flags.answer)?;
        Ok(u8::from(is_missing && flags.strict))
    })
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ControlError::Absent { .. }))
}

/// Ends a session, or removes the files of a killed one. Returns true if anything is missing.
pub fn end(folder: &Folder, name: &str, answer: &AnswerFlags) -> Result<bool> {
    match ask(folder, name, &Request::Destroy) {
        Ok(_) => ended(folder, name, answer),
        Err(ControlError::Killed { .. }) => {
            let text = killed_sessions::remove(folder, name)?;
            let facts = json!({ "state": "ended", "was_killed": true });
            done(answer, name, facts.as_object().cloned().unwrap_or_default(), text);
            // It is unknown what a killed session has not recorded.
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sends changes to a session, which makes all of them or none. Returns the exit status.
pub fn change(of: &OfSession, changes: Vec<Change>) -> Result<u8> {
    let (name, facts) = changed(of, &changes)?;
    let text = change_text::changed(&name, &changes, &facts);
    Ok(done(&of.answer, &name, facts, text))
}

/// Sends changes as one request. Returns the session's name, and its status after the changes.
fn changed(of: &OfSession, changes: &[Change]) -> Result<(String, Map<String, Value>)> {
    let (folder, name) = one_of(of.session.as_deref())?;
    let change = match changes {
        [one] => one.clone(),
        all => Change::Several(all.to_vec()),
    };
    let facts = ask(&folder, &name, &request(&change)?)?;
    Ok((name, facts))
}

/// Runs `strata enable-event`, and explains how to start programs whose calls of libc are recorded.
pub fn enable_event(flags: &EnableEventFlags) -> Result<u8> {
    let programs = preload_advice::programs(&flags.libc)?;
    let changes = flags.changes()?;
    let (name, mut facts) = changed(&flags.of, &changes)?;
    let mut text = change_text::changed(&name, &changes, &facts);
    if let Some(programs) = programs {
        text = format!("{text}. {programs}");
        facts.insert("environment".to_owned(), preload_advice::environment(&flags.libc)?);
    }
    Ok(done(&flags.of.answer, &name, facts, text))
}

/// Runs `strata track`. Control groups that were given by name are sent as paths, which sessions use.
pub fn track(flags: &TrackFlags) -> Result<u8> {
    let paths =
        flags.cgroup.iter().map(|name| cgroup::find(name)).collect::<Result<Vec<_>, _>>()?;
    for (name, path) in flags.cgroup.iter().zip(&paths).filter(|(name, path)| name != path) {
        tell(format!("cgroup '{}' is {}", clean(name), clean(path)));
    }
    change(&flags.of, flags.changes(&paths, false))
}

/// Makes the request for a change of what a session records, or of its triggers.
pub fn request(change: &Change) -> Result<Request> {
    match serde_json::to_value(change)? {
        Value::Object(change) => Ok(Request::Change { change }),
        _ => bail!("this change cannot be told"),
    }
}

/// Returns the names of this user's sessions, without sending them requests.
pub fn session_names() -> Result<Vec<String>> {
    match Folder::open() {
        Err(ControlError::NoRuntimeFolder) => Ok(Vec::new()),
        folder => names_of(&folder?),
    }
}

/// Returns the status of the session `name`, or of all sessions; those that end in between are left out. If all are
/// requested, a session that does not answer has the state `silent` with a reason, and does not delay the others.
pub fn statuses(name: Option<&str>) -> Result<Vec<Map<String, Value>>> {
    let folder = match name.map_or_else(Folder::open, Folder::reaching) {
        // A user without a folder for sessions has no sessions.
        Err(ControlError::NoRuntimeFolder) if name.is_none() => return Ok(Vec::new()),
        folder => folder?,
    };
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => names_of(&folder)?,
    };
    let mut all = Vec::new();
    for one in &names {
        match ask(&folder, one, &Request::Status) {
            Ok(facts) => all.push(facts),
            Err(ControlError::Killed { .. }) => all.push(killed_sessions::status(&folder, one)),
            Err(ControlError::Absent { .. }) if name.is_none() => {}
            Err(error) if name.is_none() => all.push(killed_sessions::silent(&folder, one, &error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}
