//! What a session does by itself: `trigger.rs` says which trigger fires, here is what it looks at and what is to be done
//! then, of which the session does what concerns it.
//!
//! ```text
//! events    a session of its own for each trigger that waits for them: one layer with very small buffers, whose
//!           records are only counted; nothing of it is written, and it does not pause
//! ends      the session's own layers
//! signals   Stop
//! ```

use std::collections::VecDeque;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::time::Instant;

use strata_model::Counts;
use strata_user::Outcome;

use super::look::{EventLook, TriggerLook};
use crate::error::SessionError;
use crate::output::folder::time_name;
use crate::plan::{Action, Condition, Plan, Trigger};
use crate::record::command::Inherited;
use crate::report::gaps::cut;
use crate::report::Notice;
use crate::session::detaching::Detaching;
use crate::session::layer::EndedProgram;
use crate::session::privileges::{keep_for, Work};
use crate::session::rotation::Rotated;
use crate::standing::trigger::{TriggerFacts, TriggerProgress};

/// Ends that are remembered: each channel of the session tells of them.
const ENDS_KNOWN: usize = 1024;
/// Why no end of a program is heard of.
const NO_PROGRAMS: &str = "no program is recorded: only rules for programs (strata enable-event -u) know them, and how they end";
/// What a command is told of who started it.
const OF_SESSION: &str = "STRATA_SESSION_NAME";
const OF_TRIGGER: &str = "STRATA_TRIGGER";
/// The folder of the snapshot that was saved before it.
const OF_SNAPSHOT: &str = "STRATA_SNAPSHOT";
/// The folder of the part of the trace that was completed before it.
const OF_PART: &str = "STRATA_PART";

/// A session that looks for the events of a trigger.
pub(super) trait Watcher {
    /// So many there have been; it wraps around.
    fn events(&self) -> u64;

    /// Why it sees none any more, if that is so.
    fn failure(&self) -> Option<String>;

    /// How its rule is.
    fn event_look(&self) -> Option<EventLook>;

    /// Looks by this plan from now on.
    ///
    /// # Errors
    /// Why it looks by the one before.
    fn follow(&mut self, plan: Plan, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError>;

    /// Looks no more; what of the kernel is still to be let go of.
    fn end(self: Box<Self>) -> Detaching;
}

/// All of a session.
#[derive(Default)]
pub(super) struct Triggers<'a> {
    pub(super) all: Vec<Armed<'a>>,
    /// The last ones, each once.
    ends: VecDeque<(u32, u64)>,
    /// Of triggers for events of the kernel that are not there any more.
    detaching: Vec<Detaching>,
}

/// One.
pub(super) struct Armed<'a> {
    trigger: Trigger,
    progress: TriggerProgress,
    /// Who looks for its events.
    watcher: Option<Box<dyn Watcher + 'a>>,
    /// Why nobody can.
    lacks: Option<String>,
    /// What is to be done, since it has fired.
    todo: VecDeque<Action>,
    /// A snapshot on its way: what comes after it waits.
    saving: Option<Saving>,
    /// The last one that was saved.
    saved: Option<String>,
    /// A rotation on its way: what comes after it waits.
    rotating: Option<Receiver<Result<Rotated, String>>>,
    /// The part that the last one has completed.
    part: Option<PathBuf>,
    child: Option<Child>,
    error: Option<String>,
}

struct Saving {
    folder: String,
    done: Receiver<Result<Counts, String>>,
}

impl<'a> Armed<'a> {
    /// Events that it looks for, until now.
    fn events(&mut self) -> u64 {
        let Some(watcher) = &self.watcher else { return 0 };
        if let Some(why) = watcher.failure() {
            self.error = Some(format!("its events are not seen any more: {why}"));
        }
        watcher.events()
    }

    /// What has happened meanwhile: `signals` of all times, and how the programs ended that have since.
    pub(super) fn look_around(&mut self, now: Instant, signals: u64, ends: &[Option<Outcome>]) {
        self.settle();
        if self.lacks.is_some() {
            return;
        }
        let is_busy = self.is_waiting() || !self.todo.is_empty();
        let events = self.events();
        let facts = TriggerFacts { now, events, signals, ends, is_busy };
        if self.progress.look(&self.trigger, &facts) {
            self.todo.extend(self.trigger.actions.iter().cloned());
            (self.saved, self.part) = (None, None);
            self.error = None;
        }
    }

    /// The trigger, if nobody can look for its events.
    pub(super) fn lacking(&self) -> Option<Trigger> {
        self.lacks.is_some().then(|| self.trigger.clone())
    }

    /// They were looked for again; `signals` were there before.
    pub(super) fn sought(
        &mut self,
        found: Result<Option<Box<dyn Watcher + 'a>>, String>,
        signals: u64,
    ) {
        match found {
            Ok(watcher) => {
                (self.watcher, self.lacks) = (watcher, None);
                self.progress = TriggerProgress::new(Instant::now(), signals);
            }
            Err(why) => self.lacks = Some(why),
        }
    }

    /// What is to be done now.
    pub(super) fn next(&mut self) -> Option<Action> {
        self.settle();
        match self.is_waiting() {
            true => None,
            false => self.todo.pop_front(),
        }
    }

    /// What was to be done was not.
    pub(super) fn fail(&mut self, why: String) {
        self.error = Some(why);
    }

    /// A rotation is asked for, which answers there.
    pub(super) fn rotate(&mut self) -> Sender<Result<Rotated, String>> {
        let (reply, done) = channel();
        self.rotating = Some(done);
        reply
    }

    /// A snapshot is asked for, in this folder, or in the one where the program runs; it answers there. Where it goes.
    ///
    /// # Errors
    /// Why none is to be.
    pub(super) fn save(
        &mut self,
        folder: Option<&Path>,
        done: Receiver<Result<Counts, String>>,
    ) -> Result<PathBuf, String> {
        let stamp = time_name().map_err(|error| format!("tell the time: {error}"))?;
        // Its number makes two of one second differ.
        let (name, number) = (&self.trigger.name, self.progress.fired);
        let path = folder.unwrap_or(Path::new("")).join(format!("strata-{name}-{stamp}-{number}"));
        let path = std::path::absolute(&path).map_err(|error| format!("its folder: {error}"))?;
        self.saving = Some(Saving { folder: path.to_string_lossy().into_owned(), done });
        Ok(path)
    }

    /// Is what is to be done next to wait?
    fn is_waiting(&self) -> bool {
        self.saving.is_some() || self.rotating.is_some()
    }

    /// What became of what was begun.
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
                Ok(Ok(rotated)) => self.part = rotated.part.map(|part| part.folder),
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

    /// Starts the command, with the rights of this process and no more, and does not wait for it.
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
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(inherited) = inherited {
            inherited.restore_for(&mut command, Vec::new());
        }
        // Whose terminal or group is ended does not end it.
        let start = || {
            // What the session has in reserve is not for a command.
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

    /// `lacks_programs`: of none it is known how they end.
    fn look(&self, lacks_programs: bool) -> TriggerLook {
        let event = self.watcher.as_ref().and_then(|watcher| watcher.event_look());
        let waits_for_ends = matches!(self.trigger.when, Condition::Ended { .. });
        TriggerLook {
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
    /// How those programs ended of which nobody has told before.
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

    /// How each of them is. `lacks_programs`: of none it is known how they end.
    pub(super) fn looks(&self, lacks_programs: bool) -> Vec<TriggerLook> {
        self.all.iter().map(|one| one.look(lacks_programs)).collect()
    }

    /// Those that the plan has more.
    pub(super) fn missing<'p>(&self, plan: &'p Plan) -> Vec<&'p Trigger> {
        let is_there = |trigger: &Trigger| self.all.iter().any(|one| one.trigger == *trigger);
        plan.triggers.iter().filter(|one| !is_there(one)).collect()
    }

    /// Adds one, whose events this session looks for, unless nobody can; `signals` were there before.
    pub(super) fn add(
        &mut self,
        trigger: &Trigger,
        found: Result<Option<Box<dyn Watcher + 'a>>, String>,
        signals: u64,
    ) {
        let (watcher, lacks) = match found {
            Ok(watcher) => (watcher, None),
            Err(why) => (None, Some(why)),
        };
        self.all.push(Armed {
            trigger: trigger.clone(),
            progress: TriggerProgress::new(Instant::now(), signals),
            watcher,
            lacks,
            todo: VecDeque::new(),
            saving: None,
            saved: None,
            rotating: None,
            part: None,
            child: None,
            error: None,
        });
    }

    /// Those of the plan stay; and whom it tracks, they track.
    pub(super) fn keep(&mut self, plan: &Plan, notify: &mut dyn FnMut(Notice)) {
        for mut armed in std::mem::take(&mut self.all) {
            if !plan.triggers.contains(&armed.trigger) {
                self.let_go(armed.watcher);
                continue;
            }
            let watching = plan.watching(&armed.trigger);
            if let Some((watcher, watching)) = armed.watcher.as_mut().zip(watching) {
                if let Err(error) = watcher.follow(watching, notify) {
                    armed.error = Some(format!("whom it tracks is as before: {error}"));
                }
            }
            self.all.push(armed);
        }
    }

    /// Nobody looks for these events any more.
    pub(super) fn let_go(&mut self, watcher: Option<Box<dyn Watcher + 'a>>) {
        self.detaching.extend(watcher.map(|watcher| watcher.end()));
    }

    /// Forgets what of the kernel is let go of by now.
    pub(super) fn look_at_detaching(&mut self) {
        self.detaching.retain_mut(Detaching::is_going_on);
    }

    /// All of them; what of the kernel is still to be let go of.
    pub(super) fn end(&mut self) -> Detaching {
        for armed in std::mem::take(&mut self.all) {
            self.let_go(armed.watcher);
        }
        let all = std::mem::take(&mut self.detaching).into_iter();
        all.fold(Detaching::default(), Detaching::or)
    }
}
