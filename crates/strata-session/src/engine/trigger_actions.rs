//! The triggers of a session: makes what watches for their events, and performs their actions on the session.

use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::Arc;

use super::checks::check_kernel_rules;
use super::triggers::{ActiveTrigger, SessionFacts, Watcher};
use super::words::{in_words, said};
use super::Engine;
use crate::error::SessionError;
use crate::plan::{Action, LayerOf, Plan, Trigger};
use crate::report::{ChunkStatus, Notice};

impl<'a> Engine<'a> {
    /// Creates the triggers that `plan` has and the session has not. Existing triggers stay until the session has the
    /// plan: see [`Triggers::keep`]. `may_lack`: true for a plan that was once possible; triggers without matching
    /// events are then kept.
    ///
    /// # Errors
    /// A trigger cannot be created; then none is.
    pub(crate) fn begin_triggers(
        &mut self,
        plan: &Plan,
        may_lack: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let mut new = Vec::new();
        for trigger in self.triggers.missing(plan) {
            match self.watcher(plan, trigger, notify) {
                Ok(watcher) => new.push((trigger, Ok(watcher))),
                Err(error) if may_lack && error.is_of_what_is_there() => {
                    new.push((trigger, Err(in_words(&error))));
                }
                Err(error) => {
                    let made = new.into_iter().filter_map(|(_, watcher)| watcher.ok());
                    made.for_each(|watcher| self.triggers.let_go(watcher));
                    return Err(error);
                }
            }
        }
        let (now, (written, last)) = (self.time().now(), self.written());
        let before = (written, last.map_or(0, |part| part.number));
        for (trigger, watcher) in new {
            self.triggers.add(trigger, watcher, (now, self.signals), before);
        }
        Ok(())
    }

    /// Searches again for the events of triggers that had none.
    pub(super) fn seek(&mut self, notify: &mut dyn FnMut(Notice)) {
        for index in 0..self.triggers.all.len() {
            let Some(trigger) = self.triggers.all[index].lacking() else { continue };
            let found = self.watcher(&self.plan, &trigger, notify);
            let found = found.map_err(|error| in_words(&error));
            let now = self.time().now();
            self.triggers.all[index].sought(found, now, self.signals);
        }
    }

    /// Creates the watcher for the events of a trigger; `None` if the trigger waits for something else.
    ///
    /// # Errors
    /// The watcher cannot be created; nothing is left of it.
    fn watcher(
        &self,
        plan: &Plan,
        trigger: &Trigger,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Option<Box<dyn Watcher + 'a>>, SessionError> {
        if let Some(selection) = trigger.when.selection() {
            if selection.layer == LayerOf::Kernel {
                let rules = std::slice::from_ref(&selection.rule);
                check_kernel_rules(rules, selection.filter.as_deref())?;
            }
        }
        let Some(watching) = plan.watching(trigger) else { return Ok(None) };
        let empty = Plan { channels: Vec::new(), ..watching.clone() };
        let memory = Arc::clone(self.resources.context.shared.memory());
        let mut watcher = Engine::new("", empty, false, Rc::clone(&self.maker), memory)?;
        watcher.apply(watching, true, notify)?;
        Ok(Some(Box::new(watcher)))
    }

    /// Checks what has happened since the last call, and runs triggers.
    pub(super) fn look_around(&mut self, signals: u64, notify: &mut dyn FnMut(Notice)) {
        self.signals = signals;
        let ends = self.triggers.new_ends(self.session.look_around());
        self.triggers.look_at_detaching();
        let now = self.time().now();
        let of_session = self.session_facts();
        for index in 0..self.triggers.all.len() {
            self.triggers.all[index].look_around((now, signals), &ends, &of_session);
            self.act(index, notify);
        }
    }

    /// Returns the size of all packets written so far \[byte\], and the last complete chunk.
    fn written(&self) -> (u64, Option<ChunkStatus>) {
        let last = self.resources.chunks().and_then(|chunks| chunks.last.into_iter().next_back());
        (self.resources.context.shared.counts().1, last)
    }

    /// Returns what is known of the session's traces and buffers, if a trigger waits for it.
    fn session_facts(&self) -> SessionFacts {
        if !self.triggers.all.iter().any(ActiveTrigger::is_of_traces) {
            return SessionFacts::default();
        }
        let (written, last) = self.written();
        let fills = self.session.statuses().into_iter().map(|layer| layer.fill);
        SessionFacts {
            fill: fills.max().unwrap_or(0),
            written,
            part: last.as_ref().map_or(0, |part| part.number),
            folder: last.map(|part| part.folder),
        }
    }

    /// Performs the actions of a trigger that need no waiting.
    fn act(&mut self, index: usize, notify: &mut dyn FnMut(Notice)) {
        while let Some(action) = self.triggers.all[index].next() {
            let done = match action {
                Action::Start => said(self.start(notify)),
                Action::Stop => said(self.pause(notify)),
                Action::Run { command } => {
                    self.triggers.all[index].run(&self.name, &command, self.inherited.as_ref());
                    Ok(())
                }
                Action::Rotate => {
                    self.resources.rotate(self.triggers.all[index].rotate());
                    Ok(())
                }
                Action::Snapshot { folder } => self.save(index, folder.as_deref()),
            };
            if let Err(why) = done {
                self.triggers.all[index].fail(why);
            }
        }
    }

    fn save(&mut self, index: usize, folder: Option<&Path>) -> Result<(), String> {
        let (reply, done) = channel();
        let to = self.plan.to.clone().filter(|_| folder.is_none());
        let path = self.triggers.all[index].save(folder, to.as_ref(), done)?;
        self.snapshot(path, to, reply);
        Ok(())
    }
}
