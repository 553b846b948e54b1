//! A persistent session: created from a plan without recording, then started, stopped, changed and queried until
//! somebody ends it. [`run`] hands what a killed session has left to the [`Engine`], which does the rest.
//!
//! ```text
//! strata create ─▶ process.rs: a process of its own ─┬─ main thread    run() ─▶ Engine::serve(): records
//!                                                    └─ server thread  server.rs: answers commands at the socket
//! ```
//!
//! A session outlives its terminal, not its kill. So everything that must survive a kill lies outside of the process:
//!
//! | file | what it keeps | who holds it |
//! |---|---|---|
//! | restore_plan.rs | the plan, from which the session is restored | a file beside the socket |
//! | slot_file.rs | which programs have a session of ours | a file beside the socket |
//! | fdstore.rs, fdstore_process.rs | memory of programs, with unread records | a child that holds descriptors |
//! | fdstore_rings.rs | the kernel's rings, if they are not pinned | the same child |
//! | persistent_kernel.rs | programs of the kernel that continue (`--keep`) | pins in the BPF file system, and a file |
//!
//! `strata start NAME` of a killed session reads the plan, takes the descriptors back, adopts what still records,
//! writes the records that were left to a new folder, and continues. `strata destroy` removes all of it. A session
//! that ends properly leaves none of these.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use strata_kernel::tracefs::Tracefs;
use strata_kernel::Inside;
use strata_model::LossMode;
use strata_user::Clock;

use crate::daemon::fdstore_rings::count_left;
use crate::daemon::persistent_kernel::PersistentKernel;
use crate::daemon::slot_file::Slots;
use crate::engine::{in_words, Engine, Layers};
use crate::error::SessionError;
use crate::guest::guest_recorder::Relayed;
use crate::output::describe::Machine;
use crate::output::folder::{is_own, parts_of};
use crate::output::retention::{KeptFolders, Leavings};
use crate::plan::Plan;
use crate::record::command::Inherited;
use crate::report::Notice;
use crate::session::control::Orders;
use crate::session::memory_check;
use crate::session::privileges::{keep_for, keep_for_later, Work};
use crate::session::recording_result::Recording;
use crate::session::stop::Stop;

pub mod fdstore;
pub mod fdstore_process;
pub(crate) mod fdstore_rings;
pub mod persistent_kernel;
pub mod process;
pub mod restore_plan;
pub mod server;
pub mod slot_file;

/// The most chunks of an earlier trace that are searched for records that are still in buffers.
const PARTS_LOOKED_AT: usize = 1024;

/// The remains of a killed session of this plan, and the place where this session notes its own.
#[derive(Default)]
pub struct LeftByKilled {
    /// The slots in programs.
    pub slots: Option<Slots>,
    /// The pinned objects in the kernel.
    pub kept: Option<PersistentKernel>,
    /// Changes to this process's own limits and signals, which commands of triggers must not inherit.
    pub inherited: Option<Inherited>,
    /// True if the plan's folder already has chunks of the trace, to which this session adds more.
    pub goes_on: bool,
    /// True if the session was restored after a kill. Events and programs that no longer exist are then no error.
    pub is_again: bool,
    /// Folders of killed sessions of this name, the latest first.
    pub before: Vec<PathBuf>,
    /// Folders with saved snapshots.
    pub folders: KeptFolders,
}

/// The request to start a session as soon as it is created.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// True to start the session without the kernel if recording the kernel fails.
    pub may_lack_kernel: bool,
    /// Called when the session has started to record.
    pub is_ready: fn(),
}

/// Runs a session of this name and plan until `stop` is requested; `orders` brings requests in the meantime.
///
/// Calls `notify` from this thread, which keeps the capabilities that a new layer needs. `keep` writes the plan down, so
/// that the session can be restored after a kill: before anybody is answered, and before it records.
///
/// # Errors
/// [`SessionError`]: the session could not be created or, with `at_once`, not be started, and nothing is left of it.
pub fn run(
    name: &str,
    plan: Plan,
    left: LeftByKilled,
    (at_once, keep): (Option<&AtOnce>, &dyn Fn(Plan)),
    stop: &Stop,
    orders: &Orders,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    let LeftByKilled { slots, kept, inherited, goes_on, is_again, before, folders } = left;
    plan.check()?;
    memory_check::reserve_to_begin()?;
    // This must happen before capabilities are given up.
    let inside = (!plan.transient.is_none()).then(Inside::look).flatten();
    Tracefs::prepare();
    // A command inherits the rights of this thread, and gets what this program was given.
    let is_foreground = plan.transient.is_foreground;
    let keeps_rights = at_once.is_some() && !plan.transient.command.is_empty() || is_foreground;
    if !keeps_rights {
        keep_for_later();
    }
    let maker = Layers { stop, clock: Arc::new(Clock::new()) };
    let mut relayed = match &plan.transient.relay {
        Some(place) => {
            // Only the machine's clock and name are sent.
            let machine = Machine::new(LossMode::Discard, plan.ctf());
            Some(Relayed::meet(place, &machine, stop, notify)?)
        }
        None => None,
    };
    let relay = relayed.as_ref().map(|relayed| Arc::clone(&relayed.output) as Arc<_>);
    // Used as long as the session has no folder of its own.
    let own = before.iter().filter(|path| is_own(path));
    let parts = own.flat_map(|path| parts_of(path)).take(PARTS_LOOKED_AT).collect();
    let mut engine =
        Engine::writing_to(relay, name, plan, goes_on, Rc::new(maker), Arc::default())?;
    if let Some(relayed) = &mut relayed {
        let listening = relayed.listen(stop, &engine.resources.context.shared);
        listening.map_err(|source| SessionError::System { what: "make a thread", source })?;
    }
    engine.relayed = relayed;
    if let Some((low, path)) = engine.low_space().zip(engine.resources.path()) {
        engine.resources.leave();
        return Err(SessionError::Space { path, low });
    }
    if !is_foreground {
        let leavings = Leavings::new(name, engine.plan.retention, folders);
        engine.resources.leavings = Some(Arc::new(leavings));
    }
    engine.slots = slots.map(Arc::new);
    engine.inherited = inherited;
    engine.stop = Some(stop.clone());
    engine.is_again = is_again;
    engine.before = parts;
    engine.kept = kept.filter(|_| engine.plan.keep).map(Arc::new);
    // Until a layer needs more rights.
    engine.session.ask_with(Work::Kernel);
    let fdstore = engine.slots.as_ref().and_then(|slots| slots.fdstore());
    let holds = engine.plan.snapshot;
    let left = fdstore.map(|fdstore| count_left(fdstore, holds)).unwrap_or_default();
    // Reported now, because the next session after a kill no longer knows these remarks.
    left.iter().for_each(|text| notify(Notice::Remark(text.clone())));
    engine.remarks = left;
    if let Err(error) = engine.begin_triggers(&engine.plan.clone(), is_again, notify) {
        engine.resources.leave();
        return Err(error);
    }
    engine.begun.inside = inside;
    engine.begun.own.no_kernel.clone_from(&engine.plan.transient.no_kernel);
    keep(engine.plan_to_keep());
    if let Some(why) = engine.begun.own.no_kernel.clone().filter(|_| is_foreground) {
        notify(Notice::NoKernel(why));
    }
    if let Some(at_once) = at_once {
        if let Err(error) = engine.start_at_once(at_once.may_lack_kernel, notify) {
            let tell: &mut dyn FnMut(Notice) = if is_foreground { &mut |_| () } else { notify };
            engine.give_up(stop, tell);
            return Err(match error {
                // Its own exit status says what is wrong with the command, or which signal came.
                error @ (SessionError::Command(_) | SessionError::Stopped(_)) => error,
                error if is_foreground => error,
                error => SessionError::NotStarted { name: name.to_owned(), why: in_words(&error) },
            });
        }
        match is_foreground {
            // Nothing is recorded in addition later.
            true => keep_for(Work::Watch),
            false if keeps_rights => keep_for_later(),
            false => {}
        }
        // It may be another one: the kernel may be left out.
        keep(engine.plan_to_keep());
        (at_once.is_ready)();
    }
    Ok(engine.run(stop, orders, notify))
}
