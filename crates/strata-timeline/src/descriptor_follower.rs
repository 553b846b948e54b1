//! A timeline for descriptors only: it applies steps in the order of time, and returns the file of a descriptor.
//!
//! A filter on a descriptor's path uses it. Such a filter needs the path at each record, but no states, calls or spans.

use std::collections::HashSet;

use strata_ctf::read::Reader;

use crate::descriptors::steps::{OpenDescriptor, Step, StepKind};
use crate::engine::state_before::FactsBefore;
use crate::engine::Engine;
use crate::ids::calls::{kind, CallKind};
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::{Fact, More, RecordText, Spot};
use crate::records::record_source::Sources;
use crate::spans::Home;
use crate::world::state::Object;
use crate::world::threads::OpenCall;

const EBADF: i64 = 9;

struct Nobody;

impl Observer for Nobody {
    const STATES: bool = false;
    const CALLS: bool = false;
    const INTERRUPTS: bool = false;
}

/// Follows descriptors through the [steps](crate::Steps) of records.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    engine: Engine,
    /// The machine of each trace, by the trace's index.
    machines: Vec<u8>,
    /// The processes whose calls contradict the known descriptors, because some of their calls are not recorded.
    unsure: HashSet<ThreadId>,
}

impl Follower {
    /// Returns a follower for the traces of a reader, at their begin.
    #[must_use]
    pub fn new(reader: &Reader) -> Follower {
        let Sources { machines: names, unsure, streams, .. } = Sources::new(reader);
        let mut machines = vec![0; reader.traces().len()];
        for (stream, source) in reader.streams().iter().zip(&streams) {
            if let Some(machine) = machines.get_mut(stream.trace().index()) {
                *machine = source.machine;
            }
        }
        let mut engine = Engine::new(names);
        engine.world.know_no_files(unsure);
        Follower { engine, machines, ..Follower::default() }
    }

    /// Applies the first steps of the traces, from which it follows what descriptors were open before. Call this
    /// before [`Follower::follow`]. The steps are in the order of time, each with its trace and its thread.
    pub fn begin(&mut self, first: &[(usize, Option<i64>, Step)]) {
        let machine = |trace| self.machines.get(trace).copied().unwrap_or(u8::MAX);
        let before = FactsBefore::new(machine, first);
        let all = before.there();
        self.engine.begin_with(before);
        for (trace, _, step) in first {
            // Of those that begin later, their begin tells.
            if let StepKind::There { .. } = step.0 {
                self.follow(*trace, None, step);
            }
        }
        for (machine, process) in all {
            self.engine.thread(machine, process, &mut Nobody);
        }
    }

    /// Applies the next step in the order of time, with its trace, and its thread if that is known.
    pub fn follow(&mut self, trace: usize, tid: Option<i64>, step: &Step) {
        let Some(&machine) = self.machines.get(trace) else { return };
        let spot = Spot {
            time: 0,
            machine,
            cpu: None,
            tid,
            pid: None,
            own_tid: tid,
            home: Home { trace: 0, pid: None },
            selected: false,
        };
        if let Some(process) = self.disagrees(machine, tid, step) {
            self.unsure.insert(process);
        }
        let calls = &mut self.engine.world.calls;
        let fact = match &step.0 {
            // Whose descriptors have changed is not known.
            StepKind::Enter { .. } | StepKind::Leave { .. } | StepKind::Exec if tid.is_none() => {
                return self.engine.world.forget_descriptors();
            }
            StepKind::Enter { call, object, more } => {
                let Some(call) = calls.of(call) else { return };
                Fact::Enter { call, elapsed: 0, object: *object, more: More::Copied(more) }
            }
            StepKind::Leave { call, result, more } => {
                let Some(call) = calls.of(call) else { return };
                Fact::Leave { call, result: *result, more: More::Copied(more) }
            }
            StepKind::Deferred { call, more } => {
                let (Some(call), true) = (calls.of(call), tid.is_some()) else { return };
                Fact::Deferred { call, more: More::Copied(more) }
            }
            StepKind::Opened { process, opened: OpenDescriptor { descriptor, flags, path } } => {
                let (process, descriptor, flags) = (*process, *descriptor, *flags);
                Fact::Opened { process, descriptor, flags, path: RecordText::Copied(path) }
            }
            StepKind::Fork { parent, child, process } => {
                let (parent, child, process) = (*parent, *child, *process);
                Fact::Fork { parent, child, process, name: RecordText::None }
            }
            StepKind::There { tid, process, parent } => {
                let (tid, process, parent) = (*tid, *process, *parent);
                Fact::There { tid, process, parent, name: RecordText::None, asleep: None }
            }
            StepKind::Exec => Fact::Exec { program: RecordText::None, old: None },
            StepKind::Exit { tid } => Fact::Exit { tid: *tid, name: RecordText::None },
        };
        let ends = match &step.0 {
            StepKind::Enter { call, .. } => tid.filter(|_| call.contains("exit_group")),
            _ => None,
        };
        self.engine.apply(&spot, fact, &mut Nobody);
        if let Some(who) = ends.and_then(|tid| self.engine.thread(machine, tid, &mut Nobody)) {
            let process = self.engine.world.process_of(who);
            self.engine.world.forget_files(process);
        }
    }

    /// Returns the process of a call whose result contradicts the known descriptors: the call returns a descriptor
    /// that is open, or closes one that is not. Then some calls of the process are not recorded.
    fn disagrees(&self, machine: u8, tid: Option<i64>, step: &Step) -> Option<ThreadId> {
        let StepKind::Leave { call, result: Some(result), .. } = &step.0 else { return None };
        let world = &self.engine.world;
        let who = world.threads.find(machine, tid?)?;
        let thread = world.threads.get(who)?;
        let process = thread.main?;
        let made = i32::try_from(*result).ok().filter(|&made| made >= 0);
        let disagrees = match kind(call) {
            CallKind::Open | CallKind::Make => {
                made.is_some_and(|made| world.file(who, made).is_some())
            }
            // Its begin has taken it away already.
            CallKind::Close => {
                let was_there = |open: &OpenCall| matches!(open.object, Object::File(_));
                *result == -EBADF && thread.open.as_ref().is_some_and(was_there)
            }
            _ => false,
        };
        disagrees.then_some(process)
    }

    /// Forgets all descriptors of a trace's machine, or of all machines, since records were discarded.
    pub fn gap(&mut self, trace: Option<usize>) {
        match trace.and_then(|trace| self.machines.get(trace)) {
            Some(&machine) => self.engine.gap(machine, None, 0),
            None => (0..=u8::MAX).for_each(|machine| self.engine.gap(machine, None, 0)),
        }
    }

    /// Returns what a thread's descriptor was opened for: a path, `tcp 10.0.0.1:80`, `pipe` or `epoll`. `None` if it is
    /// unknown.
    #[must_use]
    pub fn path(&self, trace: usize, tid: i64, descriptor: i32) -> Option<&[u8]> {
        let machine = *self.machines.get(trace)?;
        let world = &self.engine.world;
        let who: ThreadId = world.threads.find(machine, tid)?;
        // Of a thread whose process is not known, others may have changed them.
        let process = world.threads.get(who)?.main?;
        if self.unsure.contains(&process) {
            return None;
        }
        let name = world.file(who, descriptor)?;
        Some(world.names.bytes(name)).filter(|name| !name.is_empty())
    }
}
