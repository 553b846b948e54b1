//! What a session does by itself: `trigger.rs` says which trigger fires, here is what it looks at and what it does.
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
use std::rc::Rc;
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::sync::Arc;
use std::time::Instant;

use strata_model::Counts;

use super::look::{SessionState, TriggerLook};
use super::{check_kernel_rules, Maker, Standing};
use crate::output::folder::time_name;
use crate::plan::{Action, Condition, LayerOf, Plan, Trigger};
use crate::report::gaps::cut;
use crate::report::{EndReason, Notice};
use crate::session::budget::Budget;
use crate::session::detach::Detaching;
use crate::session::error::SessionError;
use crate::session::layer::Ended;
use crate::session::privileges::{keep_for, Work};
use crate::session::rotation::Rotated;
use crate::session::stop::Stop;
use crate::standing::trigger::{Facts, Progress};

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

/// All of a session.
#[derive(Default)]
pub(super) struct Triggers<'a> {
    all: Vec<Armed<'a>>,
    /// The last ones, each once.
    ends: VecDeque<(u32, u64)>,
    /// Of triggers for events of the kernel that are not there any more.
    detaching: Vec<Detaching>,
}

/// One.
struct Armed<'a> {
    trigger: Trigger,
    progress: Progress,
    /// Who looks for its events.
    watcher: Option<Box<Standing<'a>>>,
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
    /// # Errors
    /// Its events cannot be looked for; nothing is left of it.
    fn new(
        plan: &Plan,
        trigger: &Trigger,
        maker: &Rc<dyn Maker + 'a>,
        memory: &Arc<Budget>,
        signals: u64,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Armed<'a>, SessionError> {
        let watcher = match plan.watching(trigger) {
            None => None,
            Some(watching) => {
                let empty = Plan { channels: Vec::new(), ..watching.clone() };
                let (maker, memory) = (Rc::clone(maker), Arc::clone(memory));
                let mut watcher = Box::new(Standing::new("", empty, false, maker, memory)?);
                watcher.apply(watching, true, notify)?;
                Some(watcher)
            }
        };
        Ok(Armed {
            trigger: trigger.clone(),
            progress: Progress::new(Instant::now(), signals),
            watcher,
            todo: VecDeque::new(),
            saving: None,
            saved: None,
            rotating: None,
            part: None,
            child: None,
            error: None,
        })
    }

    /// Events that it looks for, until now.
    fn events(&mut self) -> u64 {
        let Some(watcher) = &self.watcher else { return 0 };
        let shared = &watcher.ground.context.shared;
        if shared.has_failed() || watcher.session.is_broken() {
            let why = shared.failure().unwrap_or_else(|| "a thread has ended".to_owned());
            self.error = Some(format!("its events are not seen any more: {why}"));
        }
        shared.events()
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
    fn run(&mut self, session: &str, words: &[String]) {
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
        let look = self.watcher.as_ref().map(|watcher| watcher.look());
        let event =
            look.and_then(|look| look.channels.into_iter().next()?.events.into_iter().next());
        let waits_for_ends = matches!(self.trigger.when, Condition::Ended { .. });
        TriggerLook {
            trigger: self.trigger.clone(),
            fired: self.progress.fired,
            suppressed: self.progress.suppressed,
            matched: event.as_ref().and_then(|one| one.matched),
            is_never: event.as_ref().is_some_and(|one| one.is_never),
            lacks: (waits_for_ends && lacks_programs).then_some(NO_PROGRAMS),
            similar: event.as_ref().map(|one| one.similar.clone()).unwrap_or_default(),
            slips: event.map(|one| one.slips).unwrap_or_default(),
            error: self.error.as_deref().map(cut),
        }
    }
}

impl<'a> Triggers<'a> {
    /// Those of ends that nobody has told of before.
    fn new_ends(&mut self, told: Vec<Ended>) -> Vec<Ended> {
        let mut new = Vec::new();
        for one in told {
            let key = (one.pid, one.started_ns);
            if !self.ends.contains(&key) {
                self.ends.push_back(key);
                new.push(one);
            }
        }
        let more = self.ends.len().saturating_sub(ENDS_KNOWN);
        self.ends.drain(..more);
        new
    }

    /// Nobody looks for this one's events any more.
    fn disarm(&mut self, armed: Armed<'a>) {
        if let Some(watcher) = armed.watcher {
            let end = EndReason::Asked(None);
            let ended = watcher.destroy(end, &Stop::new(), &mut |_| ());
            self.detaching.push(ended.detaching);
        }
    }

    /// All of them; what of the kernel is still to be let go of.
    pub(super) fn end(&mut self) -> Detaching {
        for armed in std::mem::take(&mut self.all) {
            self.disarm(armed);
        }
        let all = std::mem::take(&mut self.detaching).into_iter();
        all.fold(Detaching::default(), Detaching::or)
    }
}

impl<'a> Standing<'a> {
    /// How each of them is.
    pub(super) fn trigger_looks(&self) -> Vec<TriggerLook> {
        let has_programs = self.made.iter().any(|one| one.layer == LayerOf::User);
        let lacks_programs = self.state != SessionState::Created && !has_programs;
        self.triggers.all.iter().map(|one| one.look(lacks_programs)).collect()
    }

    /// Makes triggers that this plan has more, and lets others know whom it tracks. What was there stays: it ends by
    /// [`Standing::keep_triggers`].
    ///
    /// # Errors
    /// One cannot be made; none of them is.
    pub(super) fn arm(
        &mut self,
        plan: &Plan,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let before = self.triggers.all.len();
        let is_there =
            |trigger: &Trigger| self.triggers.all.iter().any(|one| one.trigger == *trigger);
        let new: Vec<&Trigger> = plan.triggers.iter().filter(|one| !is_there(one)).collect();
        for trigger in new {
            match self.armed(plan, trigger, notify) {
                Ok(armed) => self.triggers.all.push(armed),
                Err(error) => {
                    for armed in self.triggers.all.split_off(before) {
                        self.triggers.disarm(armed);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn armed(
        &self,
        plan: &Plan,
        trigger: &Trigger,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Armed<'a>, SessionError> {
        if let Some(selection) = trigger.when.selection() {
            if selection.layer == LayerOf::Kernel {
                let rules = std::slice::from_ref(&selection.rule);
                check_kernel_rules(rules, selection.filter.as_deref())?;
            }
        }
        let memory = self.ground.context.shared.memory();
        Armed::new(plan, trigger, &self.maker, memory, self.signals, notify)
    }

    /// Of triggers, those of the plan stay; and whom it tracks, they track.
    pub(super) fn keep_triggers(&mut self, notify: &mut dyn FnMut(Notice)) {
        let plan = &self.plan;
        let all = std::mem::take(&mut self.triggers.all);
        for mut armed in all {
            if !plan.triggers.contains(&armed.trigger) {
                self.triggers.disarm(armed);
                continue;
            }
            let watching = plan.watching(&armed.trigger);
            if let Some((watcher, watching)) = armed.watcher.as_mut().zip(watching) {
                if watcher.plan != watching {
                    if let Err(error) = watcher.apply(watching, true, notify) {
                        armed.error = Some(format!("whom it tracks is as before: {error}"));
                    }
                }
            }
            self.triggers.all.push(armed);
        }
    }

    /// What has happened meanwhile, and what is done then.
    pub(super) fn look_around(&mut self, signals: u64, notify: &mut dyn FnMut(Notice)) {
        self.signals = signals;
        let told = self.session.take_ends();
        let ends: Vec<_> =
            self.triggers.new_ends(told).into_iter().map(|one| one.outcome).collect();
        self.triggers.detaching.retain_mut(Detaching::is_going_on);
        let now = Instant::now();
        for index in 0..self.triggers.all.len() {
            let armed = &mut self.triggers.all[index];
            armed.settle();
            let is_busy = armed.is_waiting() || !armed.todo.is_empty();
            let events = armed.events();
            let facts = Facts { now, events, signals, ends: &ends, is_busy };
            if armed.progress.look(&armed.trigger, &facts) {
                armed.todo.extend(armed.trigger.actions.iter().cloned());
                (armed.saved, armed.part) = (None, None);
                armed.error = None;
            }
            self.act(index, notify);
        }
    }

    /// Does what a trigger is to do, as far as it need not wait.
    fn act(&mut self, index: usize, notify: &mut dyn FnMut(Notice)) {
        loop {
            let armed = &mut self.triggers.all[index];
            armed.settle();
            if armed.is_waiting() {
                return;
            }
            let Some(action) = armed.todo.pop_front() else { return };
            let done = match action {
                Action::Start => super::said(self.start(notify)),
                Action::Stop => super::said(self.pause(notify)),
                Action::Run { command } => {
                    armed.run(&self.name, &command);
                    Ok(())
                }
                Action::Rotate => {
                    let (reply, done) = channel();
                    armed.rotating = Some(done);
                    self.ground.rotate(reply);
                    Ok(())
                }
                Action::Snapshot { folder } => self.save(index, folder.as_deref()),
            };
            if let Err(why) = done {
                self.triggers.all[index].error = Some(why);
            }
        }
    }

    fn save(&mut self, index: usize, folder: Option<&Path>) -> Result<(), String> {
        let armed = &self.triggers.all[index];
        let stamp = time_name().map_err(|error| format!("tell the time: {error}"))?;
        // Its number makes two of one second differ.
        let (name, number) = (&armed.trigger.name, armed.progress.fired);
        let path = folder.unwrap_or(Path::new("")).join(format!("strata-{name}-{stamp}-{number}"));
        let path = std::path::absolute(&path).map_err(|error| format!("its folder: {error}"))?;
        let (reply, done) = channel();
        self.snapshot(path.clone(), reply);
        let folder = path.to_string_lossy().into_owned();
        self.triggers.all[index].saving = Some(Saving { folder, done });
        Ok(())
    }
}
