//! The slots of a process as they are at one moment, and where between their channels another one finds room.

use std::mem::offset_of;

use strata_abi::user;
use strata_ring::Attr;

use crate::error::Error;
use crate::memory::{page_aligned, u32_in, u64_in, ProgramMemory};

/// Where the positions of a session's channel begin: a writer that a former session left behind, in the
/// same memory, then never finds the position that it knows.
pub(super) fn start_position(generation: u64, attr: &Attr) -> u64 {
    let buffer = attr.subbuf_bytes.saturating_mul(attr.nr_subbufs);
    // Below 2^62, so that positions never wrap.
    match (1u64 << 62).checked_div(buffer) {
        Some(laps) if laps > 0 => generation % laps * buffer,
        _ => 0,
    }
}

/// A copy of a slot.
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

    /// Its channel, if that can be: `[begin, end)`. What a process makes up is not respected.
    pub(super) fn place(&self, size: u64) -> Option<(u64, u64)> {
        let end = self.offset.checked_add(self.bytes)?;
        let inside = self.offset >= user::CHANNELS_OFFSET.into() && end <= size;
        (inside && page_aligned(self.offset, self.bytes)).then_some((self.offset, end))
    }
}

/// The first place for `bytes` bytes between the channels of other slots.
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
