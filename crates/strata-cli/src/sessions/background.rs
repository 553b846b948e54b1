//! Sessions that run by themselves: `strata record --background NAME`, and the commands that reach them.
//!
//! ```text
//! strata record --background NAME …    starts the session's process, waits until it records, ends
//!   strata record … (the same, hidden)  leaves the terminal, listens at its socket, records: as a session of a plan
//!                                       (sessions.rs), or, where no plan holds what is asked for, as `strata record`
//! strata snapshot                      one request over that socket; sessions.rs has the others
//! ```
//!
//! A session is one process that nothing else depends on; what it says goes to a file beside its socket.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use serde_json::{json, Map, Value};
use strata_control::{
    ask, Claim, ControlError, Folder, Group, Reply, Request, SessionListener, PLAN, VERDICT,
};
use strata_session::report::gaps::Gap;
use strata_session::report::{Counts, Notice, PartsLook, Report};
use strata_session::stop::Stop;
use strata_session::Controls;

use crate::flags::SnapshotFlags;
use crate::sessions::killed::KeptPlan;
use crate::sessions::tar;
use crate::talk;
use crate::talk::exit::FAILED;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::{counted, shell_word, size, time};

/// The hidden flag of the session's own process.
pub const OF_SESSION: &str = "--of-session";

/// How often it is looked whether a session is so far.
pub const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// So much of what a session has said is shown at its end \[byte\].
const LOG_SHOWN: u64 = 64 << 10;

/// What a session is asked about it.
#[derive(Debug, Default)]
struct SessionStatus {
    state: &'static str,
    began: Option<Instant>,
    output: Option<PathBuf>,
    command: Option<u32>,
    kernel_events: Option<u64>,
    records: u64,
    bytes: u64,
    discarded: u64,
    overwritten: u64,
    processes: Option<u64>,
    memory: u64,
    max_memory: Option<u64>,
    snapshots: u64,
    parts: Option<Box<PartsLook>>,
}

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOf {
    /// `strata record`, which records what it was told at its begin.
    Record {
        /// Nothing is written but snapshots.
        holds: bool,
    },
    /// A plan, which changes.
    Plan {
        /// `strata stop` ends it.
        stop_ends: bool,
    },
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It answers.
    IsThere,
    /// It records.
    Records,
}

/// The session's own end of the line: told by whoever records, asked by others.
pub struct SessionDesk {
    of: SessionOf,
    listener: SessionListener,
    status: Mutex<SessionStatus>,
    controls: Controls,
    stop: Stop,
    is_over: AtomicBool,
    /// Who is being answered, each by a thread of its own.
    busy: Arc<Busy>,
    /// Its name, for who makes it again.
    group: Option<String>,
    /// See [`KeptPlan::file`].
    file: Option<String>,
    /// The plan as it is kept.
    kept: Mutex<String>,
}

/// So many are answered at once; the others wait.
const BUSY_MAX: usize = 32;

/// How many are being answered.
#[derive(Debug, Default)]
struct Busy {
    number: Mutex<usize>,
    less: Condvar,
}

/// One of them.
struct Answering(Arc<Busy>);

impl Busy {
    /// Waits until fewer are being answered.
    fn below(&self, number: usize) -> MutexGuard<'_, usize> {
        let busy = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.less.wait_while(busy, |busy| *busy >= number);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn one_more(self: &Arc<Busy>, limit: usize) -> Answering {
        *self.below(limit) += 1;
        Answering(Arc::clone(self))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        *self.0.number.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.less.notify_all();
    }
}

/// What is said of one that records now.
pub fn began(name: &str, pid: u32) -> String {
    format!(
        "session '{name}' records, as process {pid}. `strata status {name}` says how it is, `strata stop {name}` ends it"
    )
}

/// Start a session of this name with this program's own arguments, and wait until it is so far. Its process, or the exit
/// status of what did not begin, whose words were said. `has_command`: of a command, whose output is not ours.
pub fn spawn(name: &str, has_command: bool, until: Until) -> Result<Result<u32, u8>> {
    if Folder::open()?.is_killed(name) {
        return Err(ControlError::Killed { name: name.to_owned() }.into());
    }
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    arguments.insert(arguments.len().min(1), OF_SESSION.into());
    spawn_with(name, has_command, until, &arguments)
}

/// The same, with these arguments.
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
    // What a command prints goes where it was sent, and not to a terminal that may be closed.
    let keeps_output = has_command && !io::stdout().is_terminal();
    let output = if keeps_output { Stdio::inherit() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(output).stderr(log);
    let mut child = command.spawn().context("start the session's process")?;
    match begun(&folder, name, until, &mut child)? {
        None => Ok(Ok(child.id())),
        // Its own words say why; what ended by itself, such as a short command, is no failure.
        Some(status) => {
            print_log(&folder, name)?;
            let status = status.code().and_then(|code| u8::try_from(code).ok());
            Ok(Err(status.unwrap_or(FAILED)))
        }
    }
}

/// Until it is so far; or how it ended.
fn begun(
    folder: &Folder,
    name: &str,
    until: Until,
    child: &mut Child,
) -> Result<Option<ExitStatus>> {
    let not_yet = |state: &str| match until {
        Until::IsThere => state == "starting",
        Until::Records => ["starting", "created"].contains(&state),
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

/// The last of what a session that has ended has said, on stderr; it is gone then. A command may have said much there, too.
pub fn print_log(folder: &Folder, name: &str) -> io::Result<()> {
    match said(folder, name)? {
        Some((said, log)) => {
            io::stderr().write_all(&said)?;
            folder.drop_said(name, &log);
            Ok(())
        }
        None => {
            // In the place where the output of who has started it goes.
            talk::line(&format!("session '{name}' has ended"));
            Ok(())
        }
    }
}

/// The last of what the session has said, and the file that it is in; `None`: that is not in a file.
pub fn said(folder: &Folder, name: &str) -> io::Result<Option<(Vec<u8>, File)>> {
    let Ok(mut log) = folder.said(name) else { return Ok(None) };
    let bytes = log.metadata()?.len();
    log.seek(SeekFrom::Start(bytes.saturating_sub(LOG_SHOWN)))?;
    let mut said = Vec::new();
    (&log).take(LOG_SHOWN).read_to_end(&mut said)?;
    Ok(Some((said, log)))
}

/// This process' name from now on.
pub fn claim(name: &str) -> Result<Claim, ControlError> {
    let claim = Folder::open()?.claim(name)?;
    // That of the one before.
    claim.drop_file(VERDICT);
    Ok(claim)
}

/// Leave the terminal. Fails for who leads a group of processes already, and has left it then.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

impl SessionDesk {
    /// Listen under this name.
    pub fn open(
        claim: Claim,
        of: SessionOf,
        controls: Controls,
        stop: &Stop,
        (group, file): (Option<&str>, Option<String>),
    ) -> Result<Arc<SessionDesk>, ControlError> {
        let (kept, name) = (Mutex::default(), group.map(str::to_owned));
        let group = group.map(Group::find).transpose()?;
        Ok(Arc::new(SessionDesk {
            listener: SessionListener::open_to(group, claim)?,
            of,
            status: Mutex::new(SessionStatus { state: "starting", ..SessionStatus::default() }),
            controls,
            stop: stop.clone(),
            is_over: AtomicBool::new(false),
            busy: Arc::default(),
            group: name,
            file,
            kept,
        }))
    }

    /// The name that it listens under.
    pub fn claim(&self) -> &Claim {
        self.listener.claim()
    }

    /// Keeps this text, should it be killed.
    pub fn keep(&self, kind: &str, text: &str) -> io::Result<()> {
        self.keep_open(kind, text).map(drop)
    }

    /// The same; what is written to the file is appended.
    pub fn keep_open(&self, kind: &str, text: &str) -> io::Result<File> {
        // One at a time: they are made under one name.
        let _kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.listener.claim().keep_open(kind, text)
    }

    /// So that it can be made again, should it be killed. Until it has ended.
    pub fn keep_plan(&self) {
        let (Ok(mut plan), Ok(look)) = (self.controls.plan(), self.controls.look()) else { return };
        plan.output = look.output.map(PathBuf::from);
        let (stop_ends, file) = (self.stop_ends(), self.file.clone());
        let text =
            KeptPlan { stop_ends, file, ..KeptPlan::new(plan, self.group.clone()) }.to_json();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if *kept != text {
            match self.listener.claim().keep(PLAN, &text) {
                Ok(()) => *kept = text,
                Err(error) => talk::message(&Message {
                    weight: Weight::Warning,
                    text: format!("its plan cannot be kept, should it be killed: {error}"),
                }),
            }
        }
    }

    fn has_plan(&self) -> bool {
        matches!(self.of, SessionOf::Plan { .. })
    }

    fn stop_ends(&self) -> bool {
        !matches!(self.of, SessionOf::Plan { stop_ends: false })
    }

    /// It has ended as it should: nothing is left to begin again from.
    pub fn forget(&self) {
        self.listener.claim().forget(false);
    }

    /// What is missing of it, for who ends it.
    pub fn keep_verdict(&self, report: &Report) {
        let text = serde_json::to_string(&report.verdict()).unwrap_or_default();
        // Without it, who asks takes it that something may be.
        let _ = self.listener.claim().keep(VERDICT, &text);
    }

    /// What the session says.
    pub fn hear(&self, notice: &Notice) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Started { output, command, events, processes, memory, max_memory, .. } => {
                (status.memory, status.max_memory) = (*memory, *max_memory);
                status.state = "recording";
                status.began = Some(Instant::now());
                status.output = output
                    .as_ref()
                    .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
                status.command = *command;
                status.kernel_events = *events;
                status.processes = Some(*processes as u64);
            }
            Notice::Progress(progress) => {
                status.records = progress.records;
                status.bytes = progress.bytes;
                status.discarded = progress.discarded;
                status.overwritten = progress.overwritten;
                status.memory = progress.memory;
                status.processes = progress.processes;
            }
            Notice::Parts(parts) => status.parts = Some(parts.clone()),
            Notice::Stopping => status.state = "stopping",
            _ => {}
        }
    }

    /// Answer, until [`SessionDesk::close`]. A snapshot that is being written keeps nobody waiting but who asked
    /// for it.
    pub fn serve(self: &Arc<SessionDesk>) {
        if self.has_plan() {
            self.keep_plan();
        }
        while !self.is_over.load(Ordering::Acquire) {
            let Ok(accepted) = self.listener.accept() else {
                // Out of descriptors, or of memory: they may come back.
                thread::sleep(LOOK_PERIOD);
                continue;
            };
            let Some(connection) = accepted else { continue };
            let answering = self.busy.one_more(BUSY_MAX);
            let desk = Arc::clone(self);
            let answer = move || {
                connection.answer(&mut |request| desk.answer(&request));
                // The last one who has the desk gives its name back: that is to be this process' main thread.
                drop(desk);
                drop(answering);
            };
            // Without a thread nobody answers, and who asked hears that.
            let _ = thread::Builder::new().name("strata-answer".to_owned()).spawn(answer);
        }
        // Who was promised an answer gets it.
        drop(self.busy.below(1));
    }

    /// The session has ended. Wakes whoever serves.
    pub fn close(&self) {
        self.is_over.store(true, Ordering::Release);
        // Whoever serves may be past its last look, and would not answer.
        self.listener.wake();
    }

    fn answer(&self, request: &Request) -> Reply {
        let reply = self.answered(request);
        let ends = match request {
            Request::Stop => self.stop_ends(),
            request => *request == Request::Destroy,
        };
        let asks_only = ends || matches!(request, Request::Status | Request::Plan);
        if self.has_plan() && !asks_only {
            self.keep_plan();
        }
        reply
    }

    fn answered(&self, request: &Request) -> Reply {
        let state = |state: &str| [("state".to_owned(), state.into())].into_iter().collect();
        match request {
            Request::Status => match self.of {
                SessionOf::Record { .. } => Ok(self.facts()),
                SessionOf::Plan { .. } => self.look(),
            },
            Request::Stop if !self.stop_ends() => {
                self.controls.pause()?;
                self.look()
            }
            Request::Stop | Request::Destroy => {
                // Once is a question to the command, if there is one; twice ends the recording.
                self.stop.request(0);
                self.stop.request(0);
                Ok(state("ended"))
            }
            Request::Start => {
                self.controls.start()?;
                let mut facts: Map<String, Value> = state("recording");
                let look = self.controls.look()?;
                facts.insert("memory".into(), look.memory.into());
                facts.insert("max_memory".into(), look.max_memory.into());
                facts
                    .insert("is_empty".into(), look.channels.iter().all(|one| !one.is_made).into());
                Ok(facts)
            }
            Request::Rotate => object(&self.controls.rotate()?),
            Request::Settle { folder } => object(&self.controls.settle(folder.clone())?),
            Request::Plan => object(&self.controls.plan()?),
            Request::Change { change } => {
                let change = serde_json::from_value(Value::Object(change.clone()))
                    .map_err(|error| format!("this change is none: {error}"))?;
                self.controls.change(change)?;
                self.look()
            }
            Request::Snapshot { output, last } => {
                let counts = self.controls.snapshot(output, *last)?;
                let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
                status.snapshots += u64::from(counts.records > 0);
                Ok(of_counts(output, &counts))
            }
        }
    }

    /// How a session of a plan is.
    fn look(&self) -> Reply {
        let mut facts = object(&self.controls.look()?)?;
        facts.insert("name".into(), self.listener.name().into());
        facts.insert("pid".into(), std::process::id().into());
        facts.insert("command".into(), Value::Null);
        Ok(facts)
    }

    fn facts(&self) -> Map<String, Value> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let mut facts = Map::new();
        let mut put = |key: &str, value: Value| facts.insert(key.to_owned(), value);
        put("name", self.listener.name().into());
        put("pid", std::process::id().into());
        put("state", status.state.into());
        put("seconds", status.began.map(|began| began.elapsed().as_secs_f64()).into());
        let holds = self.of == SessionOf::Record { holds: true };
        put("mode", if holds { "snapshot" } else { "files" }.into());
        put("output", status.output.as_ref().map(|path| path.to_string_lossy()).into());
        put("command", status.command.into());
        put("kernel_events", status.kernel_events.into());
        put("processes", status.processes.into());
        put("records", status.records.into());
        put("bytes", status.bytes.into());
        put("discarded", status.discarded.into());
        put("overwritten", status.overwritten.into());
        put("memory", status.memory.into());
        put("max_memory", status.max_memory.into());
        put("snapshots", status.snapshots.into());
        put("parts", serde_json::to_value(&status.parts).unwrap_or_default());
        let missing = [
            (status.discarded > 0, Gap::Discarded),
            (status.overwritten > 0 && !holds, Gap::Overwritten),
        ];
        let gaps = missing.into_iter().filter(|(is_there, _)| *is_there).map(|(_, gap)| gap);
        put("gaps", json!(gaps.collect::<Vec<Gap>>()));
        facts
    }
}

fn object(of: &impl serde::Serialize) -> Reply {
    match serde_json::to_value(of) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err("this cannot be told".to_owned()),
    }
}

fn of_counts(output: &Path, counts: &Counts) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("output".into(), output.to_string_lossy().into());
    facts.insert("records".into(), counts.records.into());
    facts.insert("bytes".into(), counts.bytes.into());
    facts.insert(
        "span_ns".into(),
        u64::try_from(counts.duration().as_nanos()).unwrap_or(u64::MAX).into(),
    );
    facts
}

/// `strata snapshot`, of this session.
pub fn snapshot(flags: &SnapshotFlags, sessions: &Folder, name: &str) -> Result<u8> {
    let json = flags.answer.is_json();
    let stamp = strata_session::time_name()?;
    let folder = format!("strata-snapshot-{name}-{stamp}");
    let piped = flags.output.as_deref() == Some(Path::new("-"));
    if piped && json {
        bail!(
            "--json and -o -: both would be written to the standard output. Leave one of them out"
        );
    }
    if piped && io::stdout().is_terminal() {
        bail!(
            "-o -: the standard output is a terminal, and a snapshot is a tar file. Send it to a file or a \
             program, such as `strata snapshot {name} -o - | ssh HOST tar x`"
        );
    }
    // The session writes files; what comes out of here is this process' own.
    let scratch = piped.then(Scratch::new).transpose()?;
    let output = match (&scratch, &flags.output) {
        (Some(scratch), _) => scratch.0.join(&folder),
        (None, Some(path)) => path.clone(),
        (None, None) => PathBuf::from(&folder),
    };
    let output = std::path::absolute(&output).context("find the working directory")?;
    let request = Request::Snapshot { output: output.clone(), last: flags.last };
    let facts = ask(sessions, name, &request)?;
    if json {
        println!("{}", Value::Object(facts));
        return Ok(0);
    }
    let number = |key| facts.get(key).and_then(Value::as_u64).unwrap_or(0);
    if number("records") == 0 {
        let of = flags.last.map_or_else(String::new, |last| format!(" of the last {}", time(last)));
        talk::message(&Message {
            weight: Weight::Talk,
            text: format!("session '{name}' holds no event record{of}; there is no snapshot"),
        });
        return Ok(1);
    }
    let path = match &scratch {
        Some(scratch) => {
            tar::write(&scratch.0, &mut io::stdout().lock()).context("write the snapshot")?;
            format!("{folder}, in a tar file on the standard output")
        }
        None => shell_word(&output.display().to_string()),
    };
    talk::message(&Message {
        weight: Weight::Talk,
        text: format!(
            "{} of the last {} in {path} ({})",
            counted(number("records"), "event record"),
            time(Duration::from_nanos(number("span_ns"))),
            size(number("bytes")),
        ),
    });
    if scratch.is_none() {
        talk::line(&format!("Next: strata view {path}"));
    }
    Ok(0)
}

/// A folder of this user's only, which goes with what is in it.
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
            talk::message(&Message {
                weight: Weight::Warning,
                text: format!("{}: cannot be removed: {error}", self.0.display()),
            });
        }
    }
}
