//! The names of locks: variables of programs, if the trace says what the programs have mapped.

use std::collections::HashSet;

use strata_ctf::read::Reader;
use strata_timeline::{Call, CallKind, Observer, ThreadId, World};

use crate::debug_info::{SourceOptions, Variables};

/// The processes that have executed another program during the trace.
#[derive(Clone, Debug, Default)]
pub struct ExecutedProcesses(HashSet<ThreadId>);

impl Observer for ExecutedProcesses {
    const STATES: bool = false;
    const INTERRUPTS: bool = false;

    fn call(&mut self, world: &World, call: &Call) {
        if world.calls.kind(call.call) == CallKind::Exec && call.result == Some(0) {
            self.0.insert(world.process_of(call.thread));
        }
    }
}

/// Finds the variables at the addresses of locks.
#[derive(Debug)]
pub struct LockNames {
    variables: Variables,
    executed: ExecutedProcesses,
    /// True if the trace has the mappings of processes that begin, or execute a program, during the trace.
    tells_changes: bool,
}

impl LockNames {
    /// Reads the mappings of processes from these traces.
    #[must_use]
    pub fn read(
        reader: &Reader,
        options: &SourceOptions,
        executed: ExecutedProcesses,
    ) -> LockNames {
        let streams = reader.traces().iter().flat_map(|trace| &trace.schema().streams);
        let mut events = streams.flat_map(|stream| &stream.events);
        let tells_changes = events.any(|event| event.name == "lttng_statedump_vm_exec");
        LockNames { variables: Variables::read(reader, options), executed, tells_changes }
    }

    /// Returns the variable at an address of a thread's process; `None` if the trace does not say what is mapped there
    /// now.
    pub fn name(&mut self, world: &World, thread: ThreadId, address: u64) -> Option<String> {
        let process = world.process_of(thread);
        let main = world.threads.get(process)?;
        let is_old = main.born.is_none() && !self.executed.0.contains(&process);
        if !(is_old || self.tells_changes) {
            return None;
        }
        self.variables.name(main.tid.into(), address)
    }
}
