//! What descriptors are, without all the rest: by steps, in the order of time.

use std::collections::HashSet;

use strata_ctf::read::Reader;

use crate::before::FactsBefore;
use crate::calls::{kind, CallKind};
use crate::engine::Engine;
use crate::fact::{Fact, More, RecordText, Spot};
use crate::id::ThreadId;
use crate::observer::Observer;
use crate::source::Sources;
use crate::spans::Home;
use crate::state::Object;
use crate::steps::{OpenDescriptor, Step, StepKind};
use crate::threads::OpenCall;

const EBADF: i64 = 9;

struct Nobody;

impl Observer for Nobody {
    const STATES: bool = false;
    const CALLS: bool = false;
    const INTERRUPTS: bool = false;
}

/// Follows the steps.
#[derive(Debug, Default)]
pub struct Follower {
    engine: Engine,
    /// By trace.
    machines: Vec<u8>,
    /// Processes of which not all is recorded that gives descriptors and takes them away.
    unsure: HashSet<ThreadId>,
}

impl Follower {
    /// Of the traces of a reader.
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

    /// What the first records say of descriptors that were there before them. In the order of time, with the thread of
    /// each.
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

    /// The next step, in the order of time: in which trace, and of which thread, if that is known.
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
                Fact::Enter { call, object: *object, more: More::Kept(more) }
            }
            StepKind::Leave { call, result, more } => {
                let Some(call) = calls.of(call) else { return };
                Fact::Leave { call, result: *result, more: More::Kept(more) }
            }
            StepKind::Opened { process, opened: OpenDescriptor { descriptor, flags, path } } => {
                let (process, descriptor, flags) = (*process, *descriptor, *flags);
                Fact::Opened { process, descriptor, flags, path: RecordText::Kept(path) }
            }
            StepKind::Fork { parent, child, process } => {
                let (parent, child, process) = (*parent, *child, *process);
                Fact::Fork { parent, child, process, name: RecordText::None }
            }
            StepKind::There { tid, process, parent } => {
                let (tid, process, parent) = (*tid, *process, *parent);
                Fact::There { tid, process, parent, name: RecordText::None }
            }
            StepKind::Exec => Fact::Exec,
            StepKind::Exit { tid } => Fact::Exit { tid: *tid, name: RecordText::None },
        };
        let ends = match &step.0 {
            StepKind::Enter { call, .. } => tid.filter(|_| call.contains("exit_group")),
            _ => None,
        };
        self.engine.apply(spot, fact, &mut Nobody);
        if let Some(who) = ends.and_then(|tid| self.engine.thread(machine, tid, &mut Nobody)) {
            let process = self.engine.world.process_of(who);
            self.engine.world.forget_files(process);
        }
    }

    /// What a call gives was there already, or what it is about is not: others are not recorded.
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

    /// Records of a trace, or of any, are not there: nothing is known any more.
    pub fn gap(&mut self, trace: Option<usize>) {
        match trace.and_then(|trace| self.machines.get(trace)) {
            Some(&machine) => self.engine.gap(machine, None, 0),
            None => (0..=u8::MAX).for_each(|machine| self.engine.gap(machine, None, 0)),
        }
    }

    /// What a thread's descriptor was opened for: a path, or `tcp 10.0.0.1:80`, `pipe`, `epoll`.
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
