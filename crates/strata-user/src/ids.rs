//! Which event record id means which tracepoint, in one session.

use std::collections::BTreeMap;

use strata_abi::user;

use crate::description::DescriptionError;
use crate::error::Error;
use crate::states::TracepointState;

/// Ids of one tracepoint in a session: one, or a second where the process and its tracer gave one at the same
/// moment.
const IDS_MAX: u8 = 2;

/// Ids beyond are a lie: no process has more tracepoints than `NR_STATES`.
const ID_LIMIT: u32 = IDS_MAX as u32 * user::NR_STATES;

/// What was learnt of ids so far.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Id to tracepoint.
    known: BTreeMap<u16, u32>,
    /// How many each tracepoint has had.
    given: Vec<u8>,
}

impl Ids {
    /// Takes note of the ids of this slot. True: some are new.
    ///
    /// # Errors
    /// [`Error::Description`]: a tracepoint has had more than it can.
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

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Id and tracepoint, in order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.known.iter().map(|(id, index)| (*id, *index))
    }
}
