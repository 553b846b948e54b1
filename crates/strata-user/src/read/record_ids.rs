//! Event record ids of tracepoints in one session.

use std::collections::BTreeMap;

use strata_abi::user;

use crate::error::Error;
use crate::read::description_parser::DescriptionError;
use crate::read::tracepoint_states::TracepointState;

/// The most ids of one tracepoint in a session: two, if the process and its tracer gave one at the same moment.
const IDS_MAX: u8 = 2;

/// The number of ids in a session that no honest process reaches, since it has at most `NR_STATES` tracepoints.
const ID_LIMIT: u32 = IDS_MAX as u32 * user::NR_STATES;

/// The ids of event records that a process has assigned to its tracepoints, as read so far.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Index of the tracepoint for each id.
    known: BTreeMap<u16, u32>,
    /// Number of ids that each tracepoint has had.
    given: Vec<u8>,
}

impl Ids {
    /// Reads the ids of this slot. Returns true if there are new ones.
    ///
    /// # Errors
    /// [`Error::Description`]: a tracepoint has had more ids than it can have.
    pub fn learn(
        &mut self,
        pid: u32,
        slot: u32,
        states: &[TracepointState],
    ) -> Result<bool, Error> {
        let before = self.known.len();
        self.given.resize(states.len().max(self.given.len()), 0);
        for ((index, state), given) in (0..).zip(states).zip(&mut self.given) {
            let id = state.ids[slot as usize];
            if u32::from(id) >= ID_LIMIT || self.known.contains_key(&id) {
                continue;
            }
            if *given == IDS_MAX {
                let source = DescriptionError::TooManyIds { id: id.into(), limit: IDS_MAX.into() };
                return Err(Error::Description { pid, index, source });
            }
            *given += 1;
            self.known.insert(id, index);
        }
        Ok(self.known.len() > before)
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Iterates over ids and tracepoints, in order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.known.iter().map(|(id, index)| (*id, *index))
    }
}
