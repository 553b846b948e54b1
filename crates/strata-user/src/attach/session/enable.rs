//! Enables and disables the tracepoints of a process for a slot: first the bits, then the code.

use std::mem::offset_of;
use std::sync::atomic::{fence, AtomicU32, Ordering};

use strata_abi::user;

use crate::attach::application::Application;
use crate::attach::shared_memory::state;
use crate::attach::tracepoint_sites::{set_opcodes, Code, Patch};
use crate::error::Error;
use crate::processes::blocking_queries::Errand;
use crate::read::tracepoint_states::Snapshot;

/// Returns the bit set of the sessions for which a tracepoint is enabled.
pub(super) fn enabled(app: &Application, index: u32) -> &AtomicU32 {
    app.memory().u32(state(index) + offset_of!(user::State, enabled))
}

/// Returns the code sites of these tracepoints that the tracer, and not the process, has to patch.
pub(super) fn patches(
    app: &Application,
    snapshot: &Snapshot,
    indices: impl IntoIterator<Item = u32>,
) -> Result<Vec<Patch>, Error> {
    let states = indices.into_iter().filter_map(|index| {
        let state = snapshot.states.get(index as usize)?;
        state.is_patched().then_some((index, state))
    });
    states
        .map(|(index, state)| Ok(Patch { index, sites: snapshot.sites(app.pid(), state)? }))
        .collect()
}

/// Disables all tracepoints for a session slot: clears their bits, then begins to restore the code sites of
/// tracepoints that no session uses any longer, and of those in `off`.
pub(super) fn switch_off(
    app: &Application,
    slot: u32,
    mut off: Vec<u32>,
) -> Result<Option<Errand<()>>, Error> {
    let mask = |index: u32| enabled(app, index);
    for index in 0..app.nr_states()? {
        if mask(index).load(Ordering::Relaxed) & 1 << slot != 0 {
            let before = mask(index).fetch_and(!(1 << slot), Ordering::SeqCst);
            if before == 1 << slot {
                off.push(index);
            }
        }
    }
    restore(app, off)
}

/// Begins to restore the sites of these tracepoints, unless they are enabled for a session. Returns the work, if there
/// is any.
pub(super) fn restore(app: &Application, mut off: Vec<u32>) -> Result<Option<Errand<()>>, Error> {
    if off.is_empty() || !app.is_alive() {
        return Ok(None);
    }
    let snapshot = app.snapshot()?;
    if patches(app, &snapshot, off.iter().copied())?.is_empty() {
        return Ok(None);
    }
    let (its, code) = (app.clone(), app.code());
    let work = move || {
        code.open()?;
        // This may run much later, when tracepoints are enabled again.
        off.retain(|index| enabled(&its, *index).load(Ordering::SeqCst) == 0);
        let dormant = patches(&its, &snapshot, off.iter().copied())?;
        set_opcodes(&*code, &dormant, user::SITE_DORMANT);
        fence(Ordering::SeqCst);
        // Another tracer sets its bit, then the opcode. If the bit came between our check and our opcode, its opcode
        // may have come before ours. And the process may just have begun to test a flag at its sites, which then stay
        // enabled.
        let flags = |index: u32| its.memory().u32(state(index) + offset_of!(user::State, flags));
        off.retain(|index| {
            enabled(&its, *index).load(Ordering::SeqCst) != 0
                || flags(*index).load(Ordering::SeqCst) & user::STATE_FLAG != 0
        });
        set_opcodes(&*code, &patches(&its, &snapshot, off.iter().copied())?, user::SITE_ON);
        Ok(())
    };
    match Errand::new(app.pid_and_user(), work) {
        Err(Error::Held { pid }) => Err(Error::Stuck { pid }),
        errand => errand.map(Some),
    }
}
