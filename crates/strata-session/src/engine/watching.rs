//! The session of a trigger's own, which watches for its events.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use strata_analyze::render::{Format, Options, Renderer};
use strata_ctf::read::{Message, Reader, TimeRange};

use crate::engine::triggers::Watcher;
use crate::engine::Engine;
use crate::error::SessionError;
use crate::output::folder_mark::Made;
use crate::plan::Plan;
use crate::report::{EndReason, Notice};
use crate::session::clock::wall_ns;
use crate::session::detach_later::Detaching;
use crate::session::privileges::Work;
use crate::session::snapshot::SnapshotRequest;
use crate::session::status::EventStatus;
use crate::session::stop::Stop;
use crate::session::threads::spawn;
use crate::session::wait_for_end::Watch;

/// Returns the newest event of a watcher's snapshot as a JSON object. What runs, and what programs have loaded, is told
/// besides in a snapshot, and is no event.
fn newest_in(folder: &Path) -> Option<String> {
    let reader = Reader::open(&[folder]).ok()?;
    let options = Options { format: Format::Json, ..Options::default() };
    let mut renderer = Renderer::new(&options);
    let (mut newest, mut line) = (None, Vec::new());
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        let name = event.class().name();
        if name.starts_with("lttng_statedump_") || name.starts_with("lttng_ust_statedump:") {
            continue;
        }
        line.clear();
        renderer.event(&event, &mut line);
        newest = Some(String::from_utf8_lossy(&line).into_owned());
    }
    newest
}

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

    fn newest(&mut self) -> Receiver<Option<String>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let ((found, asker), (reply, saved)) = (channel(), channel());
        let shared = &self.resources.context.shared;
        // Nobody else knows the name, which is new each time.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-event-{}-{number}-{}", std::process::id(), wall_ns());
        let output = std::env::temp_dir().join(name);
        let (to, last, made) = (None, None, Made::OfTrigger);
        let asked = SnapshotRequest { output: output.clone(), to, last, made, reply };
        self.resources.snapshot(&self.session, asked);
        let work = move || {
            let is_saved = matches!(saved.recv(), Ok(Ok(_)));
            // The trigger may have been removed.
            let _ = found.send(is_saved.then(|| newest_in(&output)).flatten());
            // Where nothing was saved there is nothing.
            let _ = std::fs::remove_dir_all(&output);
        };
        // Without a thread there is no answer, and the command hears of no event.
        drop(spawn("strata-event", Work::Files, shared, work));
        asker
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
