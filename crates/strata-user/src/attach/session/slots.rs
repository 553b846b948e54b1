//! The session slots of a process: reads them, finds room for another channel between theirs, claims a slot and frees
//! it.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use strata_abi::user;
use strata_ring::Attr;

use super::enable::switch_off;
use crate::attach::application::Application;
use crate::attach::shared_memory::{
    page_aligned, session, state, u32_in, u64_in, Lock, ProgramMemory,
};
use crate::error::Error;

/// Chooses the start position of a session's channel. Different generations have different positions, so that a late
/// writer of a former session in the same memory finds another position than it expects, and writes nothing.
pub(super) fn start_position(generation: u64, attr: &Attr) -> u64 {
    let buffer = attr.subbuf_bytes.saturating_mul(attr.nr_subbufs);
    // Below 2^62, so that positions never wrap.
    match (1u64 << 62).checked_div(buffer) {
        Some(laps) if laps > 0 => generation % laps * buffer,
        _ => 0,
    }
}

/// Copy of the parts of a slot that are needed here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotCopy {
    pub(super) status: u32,
    pub(super) flags: u32,
    pub(super) generation: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) create_errno: u32,
}

impl SlotCopy {
    pub(super) fn read_all(memory: &ProgramMemory) -> Result<Vec<SlotCopy>, Error> {
        let mut all = vec![SlotCopy::default(); user::NR_SESSIONS as usize];
        for (slot, copy) in memory.used_slots()? {
            all[slot as usize] = SlotCopy {
                status: u32_in(&copy, offset_of!(user::Session, status)),
                flags: u32_in(&copy, offset_of!(user::Session, flags)),
                generation: u64_in(&copy, offset_of!(user::Session, generation)),
                offset: u64_in(&copy, offset_of!(user::Session, channel_offset)),
                bytes: u64_in(&copy, offset_of!(user::Session, channel_bytes)),
                create_errno: u32_in(&copy, offset_of!(user::Session, create_errno)),
            };
        }
        Ok(all)
    }

    /// Returns the range of the session's channel in the shared memory, `[begin, end)`; `None` if it does not lie
    /// within the memory, in whole pages.
    pub(super) fn place(&self, size: u64) -> Option<(u64, u64)> {
        let end = self.offset.checked_add(self.bytes)?;
        let inside = self.offset >= user::CHANNELS_OFFSET.into() && end <= size;
        (inside && page_aligned(self.offset, self.bytes)).then_some((self.offset, end))
    }
}

/// Returns the first offset at which `bytes` bytes fit between the channels of other slots.
pub(super) fn first_fit(mut taken: Vec<(u64, u64)>, bytes: u64) -> u64 {
    taken.sort_unstable();
    let mut begin = u64::from(user::CHANNELS_OFFSET);
    for (taken_begin, taken_end) in taken {
        if taken_begin >= begin && taken_begin - begin >= bytes {
            break;
        }
        begin = begin.max(taken_end);
    }
    begin
}

/// Claims a free slot, after freeing those of dead tracers. Returns its number.
pub(super) fn claim(
    app: &Application,
    generation: u64,
    now_ns: u64,
    _lock: &Lock<'_>,
) -> Result<u32, Error> {
    let pid = app.pid();
    let memory = app.memory();
    let slots = SlotCopy::read_all(memory)?;
    let mut free_slot = None;
    for (slot, copy) in (0..).zip(&slots) {
        if copy.status != user::SESSION_FREE {
            if !memory.slot_is_dead(slot, now_ns) {
                continue;
            }
            let status = memory.u32(session(slot) + offset_of!(user::Session, status));
            status.store(user::SESSION_ENDING, Ordering::SeqCst);
            // The sites may stay enabled, which costs a little and does no harm.
            let restoring = switch_off(app, slot, Vec::new());
            let _ = restoring.map(|errand| errand.map(|errand| errand.wait()));
            let size = memory.size()?;
            let place = copy.place(size).filter(|place| {
                let others = (0..)
                    .zip(&slots)
                    .filter(|(other, copy)| *other != slot && copy.status != user::SESSION_FREE);
                let mut others = others.filter_map(|(_, copy)| copy.place(size));
                !others.any(|(begin, end)| begin < place.1 && place.0 < end)
            });
            free(app, slot, place)?;
        }
        free_slot = free_slot.or(Some(slot));
    }
    let slot = free_slot.ok_or(Error::NoSlot { pid })?;
    forget_ids(app, slot)?;
    // A record of the former session in this slot must not look like one of ours.
    let place =
        [offset_of!(user::Session, channel_offset), offset_of!(user::Session, channel_bytes)];
    for field in place {
        memory.u64(session(slot) + field).store(0, Ordering::Relaxed);
    }
    let heartbeat = memory.u64(session(slot) + offset_of!(user::Session, heartbeat_ns));
    heartbeat.store(now_ns, Ordering::Relaxed);
    let status = memory.u32(session(slot) + offset_of!(user::Session, status));
    claimed(memory).fetch_or(1 << slot, Ordering::SeqCst);
    status.store(user::SESSION_SETUP, Ordering::Release);
    // The new generation makes invalid what the process has mapped for another one.
    let ours = memory.u64(session(slot) + offset_of!(user::Session, generation));
    ours.store(generation, Ordering::Release);
    Ok(slot)
}

/// Frees a slot and its channel.
pub(super) fn free(app: &Application, slot: u32, place: Option<(u64, u64)>) -> Result<(), Error> {
    let memory = app.memory();
    // First, so that a late thread of the process finds its mapping invalid. And if we are killed now, nobody takes the
    // remaining records, whose ids are forgotten, for those of a session.
    let generation = memory.u64(session(slot) + offset_of!(user::Session, generation));
    generation.store(0, Ordering::SeqCst);
    let forgotten = forget_ids(app, slot);
    // Before the slot is free, since its place may then be another session's.
    let punched = place.map_or(Ok(()), |(begin, end)| memory.punch(begin, end - begin));
    let status = memory.u32(session(slot) + offset_of!(user::Session, status));
    // Last, because whoever claims the slot afterwards sets the bit again, whether we hold the lock or not.
    claimed(memory).fetch_and(!(1 << slot), Ordering::SeqCst);
    status.store(user::SESSION_FREE, Ordering::Release);
    forgotten.and(punched)
}

/// Returns the bit set of slots that the process must check. Bit s is set before slot s is claimed, and cleared
/// before slot s is freed.
fn claimed(memory: &ProgramMemory) -> &AtomicU32 {
    memory.u32(offset_of!(user::Control, claimed_sessions))
}

/// Clears the bit and the ids of this slot in all tracepoints.
fn forget_ids(app: &Application, slot: u32) -> Result<(), Error> {
    let memory = app.memory();
    for index in 0..app.nr_states()? {
        let enabled = memory.u32(state(index) + offset_of!(user::State, enabled));
        if enabled.load(Ordering::Relaxed) & 1 << slot != 0 {
            enabled.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
        let id = state(index) + offset_of!(user::State, ids) + 2 * slot as usize;
        memory.u16(id).store(user::NO_ID, Ordering::Relaxed);
    }
    Ok(())
}
