//! Who records everybody has processes that begin make his session by themselves, by a request beside the socket on
//! which he listens: so each is recorded from its first event, also if it ends before anybody has seen it.

use strata_user::{new_generation, Clock, ProgramListener, SessionSpec};

/// What processes are asked for that begin now.
#[derive(Debug, Default)]
pub(super) struct Invitation {
    /// Of all of them.
    generation: Option<u64>,
    /// That it could not be left was said.
    is_told: bool,
}

impl Invitation {
    pub(super) fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// The generation of the sessions that they make, from the first request on.
    pub(super) fn take_generation(&mut self) -> u64 {
        *self.generation.get_or_insert_with(new_generation)
    }

    /// Asks for it. Gives what is to be said, once, where the request cannot be left.
    pub(super) fn ask(
        &mut self,
        listener: &mut ProgramListener,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Option<String> {
        let generation = self.take_generation();
        let error = listener.ask_for(generation, spec, clock).err()?;
        (!std::mem::replace(&mut self.is_told, true)).then(|| {
            format!(
                "{error}. Programs are recorded from the moment on when they were found, not from their begin"
            )
        })
    }
}
