//! Which processes are the recorded command and its descendants: the page shows them first.
//!
//! A process is one of them if its ancestors lead to the process that recorded the command. A thread whose ancestors the
//! trace does not say is none; `--mine` of `strata view` also uses what else tells of them.

use strata_analyze::command_descendants::recorders;
use strata_ctf::read::Reader;
use strata_timeline::{Sources, ThreadId, World};

/// The most ancestors of a process that are looked at, since a forged trace may lead in a circle.
const ANCESTORS_MAX: usize = 64;

/// The processes that recorded commands.
#[derive(Clone, Debug, Default)]
pub struct Recorders(Vec<(u8, i64)>);

impl Recorders {
    /// Finds the recorders that the traces name.
    #[must_use]
    pub fn new(reader: &Reader) -> Recorders {
        let sources = Sources::new(reader);
        let recorders = recorders(reader);
        let mut all = Vec::new();
        for (stream, source) in reader.streams().iter().zip(&sources.streams) {
            let found = recorders.iter().find(|(trace, _)| *trace == stream.trace().index());
            if let Some(&(_, recorder)) = found {
                all.push((source.machine, recorder));
            }
        }
        all.sort_unstable();
        all.dedup();
        Recorders(all)
    }

    /// Returns true if the thread is of a recorded command, or of a process that the command started.
    #[must_use]
    pub fn have_started(&self, world: &World, thread: ThreadId) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut process = world.process_of(thread);
        for _ in 0..ANCESTORS_MAX {
            let found = world.threads.get(process);
            let Some(parent) = found.and_then(|it| it.parent) else { return false };
            process = world.process_of(parent);
            let is_recorder = world
                .threads
                .get(process)
                .is_some_and(|it| self.0.binary_search(&(it.machine, i64::from(it.tid))).is_ok());
            if is_recorder {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_recorder_no_thread_is_of_a_command() {
        let world = World::default();
        assert!(!Recorders::default().have_started(&world, ThreadId::IDLE));
        assert!(!Recorders(vec![(0, 1)]).have_started(&world, ThreadId::IDLE));
    }
}
