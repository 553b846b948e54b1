//! The session of a trigger's own, which watches for its events.

use std::sync::Arc;

use crate::engine::triggers::Watcher;
use crate::engine::Engine;
use crate::error::SessionError;
use crate::plan::Plan;
use crate::report::{EndReason, Notice};
use crate::session::detach_later::Detaching;
use crate::session::status::EventStatus;
use crate::session::stop::Stop;
use crate::session::wait_for_end::Watch;

impl Watcher for Engine<'_> {
    fn events(&self) -> u64 {
        self.resources.context.shared.events()
    }

    fn failure(&self) -> Option<String> {
        let shared = &self.resources.context.shared;
        let has_failed = shared.has_failed() || self.session.is_broken();
        has_failed.then(|| shared.failure().unwrap_or_else(|| "a thread has ended".to_owned()))
    }

    fn event_status(&self) -> Option<EventStatus> {
        self.status(None).channels.into_iter().next()?.events.into_iter().next()
    }

    fn follow(&mut self, plan: Plan, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        match self.plan == plan {
            true => Ok(()),
            false => self.apply(plan, true, notify),
        }
    }

    fn end(self: Box<Self>) -> Detaching {
        let (shared, stop) = (Arc::clone(&self.resources.context.shared), Stop::new());
        let watch = Watch::new(&shared, &stop, shared.time().now());
        (*self).destroy(EndReason::Asked(None), watch, &mut |_| ()).detaching
    }
}
