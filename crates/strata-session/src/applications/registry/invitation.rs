//! Invites starting processes to create their session themselves, through a request that a recorder of all processes
//! leaves beside its socket. So each process is recorded from its first event, even if it ends before the recorder
//! notices it.

use strata_user::{new_generation, Clock, ProgramListener, SessionSpec};

/// The invitation that starting processes find, and by which they begin to record by themselves.
#[derive(Debug, Default)]
pub(super) struct Invitation {
    /// The generation of all sessions that invited processes create; `None` before the first invitation.
    generation: Option<u64>,
    /// True once it was reported that the invitation could not be published.
    is_told: bool,
}

impl Invitation {
    pub(super) fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Returns the generation of the sessions that invited processes create, and chooses it at the first call.
    pub(super) fn take_generation(&mut self) -> u64 {
        *self.generation.get_or_insert_with(new_generation)
    }

    /// Publishes the invitation. If that fails, returns a remark the first time.
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
