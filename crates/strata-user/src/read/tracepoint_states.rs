//! Consistent copy of the tracepoint states in a process' memory.

use std::mem::offset_of;
use std::sync::atomic::{fence, Ordering};

use strata_abi::user;

use crate::attach::shared_memory::{state, u16_in, u32_in, u64_in, ProgramMemory};
use crate::error::Error;
use crate::read::description_parser::DescriptionError;

/// A copy of `struct strata_abi_user_state`.
#[derive(Clone, Debug)]
pub(crate) struct TracepointState {
    pub enabled: u32,
    pub flags: u32,
    pub description: u32,
    pub description_bytes: u32,
    pub sites: u32,
    pub nr_sites: u32,
    pub ids: [u16; user::NR_SESSIONS as usize],
}

impl TracepointState {
    fn parse(copy: &[u8]) -> TracepointState {
        let mut ids = [user::NO_ID; user::NR_SESSIONS as usize];
        for (slot, id) in ids.iter_mut().enumerate() {
            *id = u16_in(copy, offset_of!(user::State, ids) + 2 * slot);
        }
        TracepointState {
            enabled: u32_in(copy, offset_of!(user::State, enabled)),
            flags: u32_in(copy, offset_of!(user::State, flags)),
            description: u32_in(copy, offset_of!(user::State, description)),
            description_bytes: u32_in(copy, offset_of!(user::State, description_bytes)),
            sites: u32_in(copy, offset_of!(user::State, sites)),
            nr_sites: u32_in(copy, offset_of!(user::State, nr_sites)),
            ids,
        }
    }

    pub fn is_present(&self) -> bool {
        self.flags & user::STATE_PRESENT != 0
    }

    /// Returns true if the tracer may, and must, write to the tracepoint's sites.
    pub fn is_patched(&self) -> bool {
        self.is_present() && self.flags & user::STATE_FLAG == 0 && self.nr_sites > 0
    }
}

/// A copy of all states and everything that they refer to, of bounded size.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub states: Vec<TracepointState>,
    descriptions: Vec<u8>,
}

impl Snapshot {
    /// Copies all states of process `pid`, their descriptions and their sites.
    ///
    /// # Errors
    /// [`Error::Value`], also if descriptions overlap, which no honest process does; that bounds our work.
    pub fn read(memory: &ProgramMemory, pid: u32) -> Result<Snapshot, Error> {
        let nr_states = nr_states(memory, pid)?;
        let size = size_of::<user::State>();
        // The flags first: if they say that the object is loaded, its table of sites is complete.
        let flags: Vec<u32> = (0..nr_states)
            .map(|index| memory.u32(state(index) + offset_of!(user::State, flags)))
            .map(|flags| flags.load(Ordering::SeqCst))
            .collect();
        fence(Ordering::SeqCst);
        let copy = memory.read(user::STATES_OFFSET.into(), nr_states as usize * size)?;
        let mut states: Vec<TracepointState> =
            copy.chunks_exact(size).map(TracepointState::parse).collect();
        for (state, flags) in states.iter_mut().zip(flags) {
            state.flags &= flags | !user::STATE_PRESENT;
            state.flags |= flags & user::STATE_FLAG;
        }
        let used =
            memory.u32(offset_of!(user::Control, descriptions_bytes)).load(Ordering::Acquire);
        let bounded = |what, found: u64, limit: u32| {
            let limit = limit.into();
            if found > limit {
                return Err(Error::Value { pid, what, found, limit });
            }
            Ok(())
        };
        bounded("the size of its descriptions", used.into(), user::DESCRIPTIONS_BYTES)?;
        let total = states.iter().map(|state| u64::from(state.description_bytes)).sum();
        bounded("the sum of its descriptions' sizes", total, used)?;
        let total = states.iter().map(|state| u64::from(state.nr_sites)).sum::<u64>();
        bounded("the number of its sites", total, used / size_of::<user::Site>() as u32)?;
        let descriptions = memory.read(user::DESCRIPTIONS_OFFSET.into(), used as usize)?;
        Ok(Snapshot { states, descriptions })
    }

    /// Returns the text of a tracepoint's description.
    pub fn text(&self, pid: u32, index: u32) -> Result<&[u8], Error> {
        let error = |source| Error::Description { pid, index, source };
        let state = match self.states.get(index as usize) {
            Some(state) => state,
            None => {
                let limit = self.states.len() as u64;
                return Err(Error::Value { pid, what: "a tracepoint", found: index.into(), limit });
            }
        };
        let (begin, bytes) = (state.description as usize, state.description_bytes as usize);
        let copy = begin.checked_add(bytes).and_then(|end| self.descriptions.get(begin..end));
        copy.ok_or_else(|| {
            let limit = self.descriptions.len() as u64;
            let (begin, bytes) = (begin as u64, bytes as u64);
            error(DescriptionError::Outside { begin, end: begin.saturating_add(bytes), limit })
        })
    }

    /// Reads the sites of a tracepoint.
    pub fn sites(&self, pid: u32, state: &TracepointState) -> Result<Vec<user::Site>, Error> {
        let size = size_of::<user::Site>();
        let begin = state.sites as usize;
        let copy = (state.nr_sites as usize)
            .checked_mul(size)
            .and_then(|bytes| begin.checked_add(bytes))
            .and_then(|end| self.descriptions.get(begin..end))
            .filter(|_| begin % 8 == 0);
        let copy = copy.ok_or(Error::Value {
            pid,
            what: "the place of a tracepoint's sites",
            found: begin as u64,
            limit: self.descriptions.len() as u64,
        })?;
        let parse = |copy: &[u8]| user::Site {
            address: u64_in(copy, offset_of!(user::Site, address)),
            displacement: u32_in(copy, offset_of!(user::Site, displacement)) as i32,
            reserved: 0,
        };
        Ok(copy.chunks_exact(size).map(parse).collect())
    }
}

/// Returns the number of tracepoints of process `pid` so far.
///
/// # Errors
/// [`Error::Value`].
pub(crate) fn nr_states(memory: &ProgramMemory, pid: u32) -> Result<u32, Error> {
    // ACQUIRE pairs with the process' RELEASE: the states below it are described.
    let found = memory.u32(offset_of!(user::Control, nr_states)).load(Ordering::Acquire);
    let limit = user::NR_STATES;
    if found > limit {
        let (found, limit) = (found.into(), limit.into());
        return Err(Error::Value { pid, what: "its number of tracepoints", found, limit });
    }
    Ok(found)
}
