//! Runs the triggers of a session. `trigger.rs` decides which trigger fires; this module collects the necessary facts
//! and runs the actions. The session itself performs actions that concern the session.
//!
//! ```text
//! events    from a separate session for each trigger that waits for events: one layer with very small buffers,
//!           whose records are only counted; it writes nothing, and does not pause
//! ends      from the session's own layers
//! signals   from Stop
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::time::Instant;

use serde_json::{json, Value};
use strata_model::Counts;
use strata_remote::Destination;
use strata_text::json;
use strata_user::Outcome;

use crate::engine::trigger::{TriggerFacts, TriggerProgress};
use crate::error::SessionError;
use crate::output::folder::time_name;
use crate::plan::{Action, Condition, Plan, Selection, Trigger};
use crate::record::command::Inherited;
use crate::report::gaps::cut;
use crate::report::Notice;
use crate::session::detach_later::Detaching;
use crate::session::layer::EndedProgram;
use crate::session::privileges::{keep_for, Work};
use crate::session::rotation::Rotated;
use crate::session::status::{EventStatus, TriggerStatus};

/// The most ends of programs that are remembered, since each channel of the session reports the same ends.
const ENDS_KNOWN: usize = 1024;
/// The message for a trigger that waits for ends of programs while none is recorded.
const NO_PROGRAMS: &str = "no program is recorded: only rules for programs (strata enable-event -u) know them, and how they end";
/// Environment variable with the session's name, for commands of triggers.
const OF_SESSION: &str = "STRATA_SESSION_NAME";
const OF_TRIGGER: &str = "STRATA_TRIGGER";
/// Environment variable with the folder of the snapshot that the trigger saved before the command.
const OF_SNAPSHOT: &str = "STRATA_SNAPSHOT";
/// Environment variable with the folder of the chunk that the trigger completed before the command.
const OF_PART: &str = "STRATA_PART";

/// A session that watches for the events of a trigger.
pub(super) trait Watcher {
    /// Returns the number of events so far, which wraps around.
    fn events(&self) -> u64;

    /// Returns why the watcher sees no more events; `None` if it works.
    fn failure(&self) -> Option<String>;

    /// Returns the status of the watcher's rule.
    fn event_status(&self) -> Option<EventStatus>;

    /// Returns the newest event as a JSON object, once it is known.
    fn newest(&mut self) -> Receiver<Option<String>>;

    /// Watches according to `plan` from now on.
    ///
    /// # Errors
    /// The change is not possible; the former plan stays.
    fn follow(&mut self, plan: Plan, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError>;

    /// Ends the watcher. Returns the kernel programs that are still to be detached.
    fn end(self: Box<Self>) -> Detaching;
}

/// The triggers of a session.
#[derive(Default)]
pub(super) struct Triggers<'a> {
    pub(super) all: Vec<ActiveTrigger<'a>>,
    /// The latest ends of programs, by process id and start time, each once.
    ends: VecDeque<(u32, u64)>,
    /// Watchers of removed triggers whose kernel programs are still being detached.
    detaching: Vec<Detaching>,
}

/// A trigger of the session, with its state.
pub(super) struct ActiveTrigger<'a> {
    trigger: Trigger,
    progress: TriggerProgress,
    /// The watcher of the trigger's events.
    watcher: Option<Box<dyn Watcher + 'a>>,
    /// Why the trigger's events cannot be watched; `None` if they can.
    lacks: Option<String>,
    /// Actions that remain to be done since the trigger fired.
    todo: VecDeque<Action>,
    /// A snapshot that is being saved; further actions wait for it.
    saving: Option<Saving>,
    /// Folder of the latest snapshot.
    saved: Option<String>,
    /// A rotation in progress; further actions wait for it.
    rotating: Option<Receiver<Result<Rotated, String>>>,
    /// The chunk that the latest rotation completed.
    part: Option<PathBuf>,
    /// The event for which the trigger fired, as JSON.
    event: Option<String>,
    /// A search for that event; further actions wait for it.
    asking: Option<Receiver<Option<String>>>,
    child: Option<Child>,
    error: Option<String>,
}

/// What a session knows of its traces and buffers, for the triggers that wait for it.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    /// Fill of the fullest buffer \[%\].
    pub(super) fill: u8,
    /// Size of all packets written so far \[byte\].
    pub(super) written: u64,
    /// Number of the last complete chunk; 0 if there is none.
    pub(super) part: u64,
    /// The folder of the last complete chunk.
    pub(super) folder: Option<PathBuf>,
}

struct Saving {
    folder: String,
    done: Receiver<Result<Counts, String>>,
}

impl<'a> ActiveTrigger<'a> {
    /// Returns the number of the trigger's events so far.
    fn events(&mut self) -> u64 {
        let Some(watcher) = &self.watcher else { return 0 };
        if let Some(why) = watcher.failure() {
            self.error = Some(format!("its events are not seen any more: {why}"));
        }
        // The beginning and the end are each an event.
        let has_both = self.trigger.when.selection().is_some_and(Selection::is_of_both_ends);
        watcher.events() / if has_both { 2 } else { 1 }
    }

    /// Returns whether the trigger waits for something that is known of the session's traces and buffers.
    pub(super) fn is_of_traces(&self) -> bool {
        matches!(
            self.trigger.when,
            Condition::Fill { .. } | Condition::Written { .. } | Condition::Part
        )
    }

    /// Checks the trigger against the latest facts: `signals` since the start, the ends of programs since the last call,
    /// and what is known of the session.
    pub(super) fn look_around(
        &mut self,
        (now, signals): (Instant, u64),
        ends: &[Option<Outcome>],
        of_session: &SessionFacts,
    ) {
        self.settle();
        if self.lacks.is_some() {
            return;
        }
        let is_busy = self.is_waiting() || !self.todo.is_empty();
        let events = self.events();
        let SessionFacts { fill, written, part, .. } = *of_session;
        let facts = TriggerFacts { now, events, signals, ends, fill, written, part, is_busy };
        if self.progress.look(&self.trigger, &facts) {
            self.todo.extend(self.trigger.actions.iter().cloned());
            (self.saved, self.part) = (None, None);
            (self.error, self.event) = (None, None);
            let runs = self.todo.iter().any(|action| matches!(action, Action::Run { .. }));
            match (&self.trigger.when, &mut self.watcher) {
                // Before it is overwritten by the next ones.
                (Condition::Event { .. }, Some(watcher)) if runs => {
                    self.asking = Some(watcher.newest());
                }
                (Condition::Part, _) => self.part.clone_from(&of_session.folder),
                _ => {}
            }
        }
    }

    /// Returns the trigger if its events cannot be watched.
    pub(super) fn lacking(&self) -> Option<Trigger> {
        self.lacks.is_some().then(|| self.trigger.clone())
    }

    /// Takes the result of another search for the trigger's events. If it succeeded, the trigger starts
    /// counting anew, and ignores the `signals` SIGUSR1 signals that the session has received so far.
    /// Otherwise, the reason is kept.
    pub(super) fn sought(
        &mut self,
        found: Result<Option<Box<dyn Watcher + 'a>>, String>,
        now: Instant,
        signals: u64,
    ) {
        match found {
            Ok(watcher) => {
                (self.watcher, self.lacks) = (watcher, None);
                self.progress = TriggerProgress::new(now, signals);
            }
            Err(why) => self.lacks = Some(why),
        }
    }

    /// Returns the next action, unless an action is in progress.
    pub(super) fn next(&mut self) -> Option<Action> {
        self.settle();
        match self.is_waiting() {
            true => None,
            false => self.todo.pop_front(),
        }
    }

    /// Notes why an action failed.
    pub(super) fn fail(&mut self, why: String) {
        self.error = Some(why);
    }

    /// Begins a rotation. Returns the sender for its answer.
    pub(super) fn rotate(&mut self) -> Sender<Result<Rotated, String>> {
        let (reply, done) = channel();
        self.rotating = Some(done);
        reply
    }

    /// Begins to save a snapshot in `folder`, or in the program's working folder, or at a relay; `done` receives the
    /// result. Returns the destination.
    ///
    /// # Errors
    /// Why no snapshot can be saved.
    pub(super) fn save(
        &mut self,
        folder: Option<&Path>,
        to: Option<&Destination>,
        done: Receiver<Result<Counts, String>>,
    ) -> Result<PathBuf, String> {
        let stamp = time_name().map_err(|error| format!("tell the time: {error}"))?;
        // The number makes two names of the same second differ.
        let (name, number) = (&self.trigger.name, self.progress.fired);
        let path = folder.unwrap_or(Path::new("")).join(format!("strata-{name}-{stamp}-{number}"));
        let path = std::path::absolute(&path).map_err(|error| format!("its folder: {error}"))?;
        let shown = match (to, path.file_name()) {
            (Some(to), Some(name)) => {
                format!("{} at the relay {}", name.to_string_lossy(), to.address)
            }
            _ => path.to_string_lossy().into_owned(),
        };
        self.saving = Some(Saving { folder: shown, done });
        Ok(path)
    }

    /// Returns whether the next action must wait for one in progress.
    fn is_waiting(&self) -> bool {
        self.saving.is_some() || self.rotating.is_some() || self.asking.is_some()
    }

    /// Collects the results of actions in progress.
    fn settle(&mut self) {
        if let Some(saving) = self.saving.take() {
            match saving.done.try_recv() {
                Err(TryRecvError::Empty) => self.saving = Some(saving),
                Err(TryRecvError::Disconnected) => {
                    self.error = Some("its snapshot: nobody has written it".to_owned());
                }
                Ok(Err(why)) => self.error = Some(format!("its snapshot: {why}")),
                Ok(Ok(counts)) if counts.records == 0 => {
                    self.error = Some("its snapshot: no event record was held".to_owned());
                }
                Ok(Ok(_)) => self.saved = Some(saving.folder),
            }
        }
        if let Some(rotating) = self.rotating.take() {
            match rotating.try_recv() {
                Err(TryRecvError::Empty) => self.rotating = Some(rotating),
                Err(TryRecvError::Disconnected) => {
                    self.error = Some("its rotation: nobody has done it".to_owned());
                }
                Ok(Err(why)) => self.error = Some(format!("its rotation: {why}")),
                Ok(Ok(rotated)) => self.part = rotated.chunk.map(|part| part.folder),
            }
        }
        if let Some(asking) = self.asking.take() {
            match asking.try_recv() {
                Err(TryRecvError::Empty) => self.asking = Some(asking),
                Ok(Some(event)) => self.event = Some(event),
                Err(TryRecvError::Disconnected) | Ok(None) => {
                    self.error = Some(
                        "its event: it could not be saved and read, and the command reads null"
                            .to_owned(),
                    );
                }
            }
        }
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    if !status.success() {
                        self.error = Some(format!("its command: {status}"));
                    }
                    self.child = None;
                }
                Err(error) => {
                    self.error = Some(format!("its command: cannot be waited for: {error}"));
                    self.child = None;
                }
            }
        }
    }

    /// Starts the command with this process's rights only, and does not wait for it.
    pub(super) fn run(&mut self, session: &str, words: &[String], inherited: Option<&Inherited>) {
        let Some((program, arguments)) = words.split_first() else { return };
        if let Some(child) = &self.child {
            self.error = Some(format!(
                "its command: that of the last time still runs, as process {}",
                child.id()
            ));
            return;
        }
        if rustix::process::getuid() != rustix::process::geteuid() {
            self.error = Some(
                "its command: this program is set-user-ID. No command is run for others".into(),
            );
            return;
        }
        let mut command = Command::new(program);
        command.args(arguments).env(OF_SESSION, session).env(OF_TRIGGER, &self.trigger.name);
        match &self.saved {
            Some(folder) => command.env(OF_SNAPSHOT, folder),
            None => command.env_remove(OF_SNAPSHOT),
        };
        match &self.part {
            Some(folder) => command.env(OF_PART, folder),
            None => command.env_remove(OF_PART),
        };
        let stdin = match self.input(session) {
            Ok(input) => Stdio::from(input),
            Err(error) => {
                self.error = Some(format!("its command: no memory for what it reads: {error}"));
                return;
            }
        };
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(inherited) = inherited {
            inherited.restore_for(&mut command, Vec::new());
        }
        // A new process group, so that signals for our terminal or group do not end the command.
        let start = || {
            // The session's reserved rights are not passed on to a command.
            keep_for(Work::Everything);
            command.process_group(0).spawn()
        };
        let started = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("strata-run".to_owned());
            let thread = thread.spawn_scoped(scope, start)?;
            thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
        });
        match started {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                let shown: String = program.escape_debug().take(100).collect();
                self.error = Some(format!("its command: '{shown}' cannot be started: {error}"));
            }
        }
    }

    /// Returns a file in memory with what the command reads: a line of JSON that says why it runs.
    fn input(&self, session: &str) -> io::Result<File> {
        let event = self.event.as_deref().and_then(|event| serde_json::from_str(event).ok());
        let told = json!({
            "session": session,
            "trigger": self.trigger.name,
            "when": self.trigger.when,
            "fired": self.progress.fired,
            "occurrences": self.progress.occurrences,
            "event": event.unwrap_or(Value::Null),
            "snapshot": self.saved,
            "part": self.part,
        });
        let fd = rustix::fs::memfd_create("strata-trigger", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(fd);
        file.write_all(json::compact(&told).as_bytes())?;
        file.write_all(b"\n")?;
        file.rewind()?;
        Ok(file)
    }

    /// Returns the trigger's status. `lacks_programs`: true if ends of programs are not observed.
    fn status(&self, lacks_programs: bool) -> TriggerStatus {
        let event = self.watcher.as_ref().and_then(|watcher| watcher.event_status());
        let waits_for_ends = matches!(self.trigger.when, Condition::Ended { .. });
        TriggerStatus {
            trigger: self.trigger.clone(),
            fired: self.progress.fired,
            suppressed: self.progress.suppressed,
            matched: event.as_ref().and_then(|one| one.matched),
            is_never: event.as_ref().is_some_and(|one| one.is_never),
            lacks: match &self.lacks {
                Some(why) => Some(cut(why)),
                None => (waits_for_ends && lacks_programs).then(|| NO_PROGRAMS.to_owned()),
            },
            similar: event.as_ref().map(|one| one.similar.clone()).unwrap_or_default(),
            slips: event.map(|one| one.slips).unwrap_or_default(),
            error: self.error.as_deref().map(cut),
        }
    }
}

impl<'a> Triggers<'a> {
    /// Returns the ends of programs that were not reported before.
    pub(super) fn new_ends(&mut self, told: Vec<EndedProgram>) -> Vec<Option<Outcome>> {
        let mut new = Vec::new();
        for one in told {
            let key = (one.pid, one.started_ns);
            if !self.ends.contains(&key) {
                self.ends.push_back(key);
                new.push(one.outcome);
            }
        }
        let more = self.ends.len().saturating_sub(ENDS_KNOWN);
        self.ends.drain(..more);
        new
    }

    /// Returns the status of each trigger. `lacks_programs`: true if ends of programs are not observed.
    pub(super) fn statuses(&self, lacks_programs: bool) -> Vec<TriggerStatus> {
        self.all.iter().map(|one| one.status(lacks_programs)).collect()
    }

    /// Returns the triggers of the plan that do not exist yet.
    pub(super) fn missing<'p>(&self, plan: &'p Plan) -> Vec<&'p Trigger> {
        let is_there = |trigger: &Trigger| self.all.iter().any(|one| one.trigger == *trigger);
        plan.triggers.iter().filter(|one| !is_there(one)).collect()
    }

    /// Adds a trigger with its watcher, or with the reason why its events cannot be watched. `signals`: number of
    /// signals before. `written`, `part`: size of the packets that were written, and number of the last complete chunk.
    pub(super) fn add(
        &mut self,
        trigger: &Trigger,
        found: Result<Option<Box<dyn Watcher + 'a>>, String>,
        (now, signals): (Instant, u64),
        (written, part): (u64, u64),
    ) {
        let (watcher, lacks) = match found {
            Ok(watcher) => (watcher, None),
            Err(why) => (None, Some(why)),
        };
        self.all.push(ActiveTrigger {
            trigger: trigger.clone(),
            progress: TriggerProgress::new(now, signals).after(written, part),
            watcher,
            lacks,
            todo: VecDeque::new(),
            saving: None,
            saved: None,
            rotating: None,
            part: None,
            event: None,
            asking: None,
            child: None,
            error: None,
        });
    }

    /// Keeps the triggers that are in the plan, updates their tracked processes, and removes the others.
    pub(super) fn keep(&mut self, plan: &Plan, notify: &mut dyn FnMut(Notice)) {
        for mut active in std::mem::take(&mut self.all) {
            if !plan.triggers.contains(&active.trigger) {
                self.let_go(active.watcher);
                continue;
            }
            let watching = plan.watching(&active.trigger);
            if let Some((watcher, watching)) = active.watcher.as_mut().zip(watching) {
                if let Err(error) = watcher.follow(watching, notify) {
                    active.error = Some(format!("whom it tracks is as before: {error}"));
                }
            }
            self.all.push(active);
        }
    }

    /// Ends a watcher, and keeps its kernel programs until they are detached.
    pub(super) fn let_go(&mut self, watcher: Option<Box<dyn Watcher + 'a>>) {
        self.detaching.extend(watcher.map(|watcher| watcher.end()));
    }

    /// Forgets watchers whose kernel programs are detached.
    pub(super) fn look_at_detaching(&mut self) {
        self.detaching.retain_mut(Detaching::is_going_on);
    }

    /// Ends all triggers. Returns the kernel programs that are still to be detached.
    pub(super) fn end(&mut self) -> Detaching {
        for active in std::mem::take(&mut self.all) {
            self.let_go(active.watcher);
        }
        let all = std::mem::take(&mut self.detaching).into_iter();
        all.fold(Detaching::default(), Detaching::or)
    }
}
