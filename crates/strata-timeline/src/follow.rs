//! What descriptors are, without all the rest: by steps that are taken out of records in one place, on several threads
//! if need be, and followed in another, in the order of time.

use std::collections::{HashMap, HashSet};

use strata_ctf::environment::DescriptorCalls;
use strata_ctf::read::{Event, EventClass, Reader, Trace};

use crate::binding::{Binding, Numbers};
use crate::calls::{kind, CallKind, Calls};
use crate::engine::Engine;
use crate::fact::{Fact, Kept, More, Part, Spot, Text};
use crate::files;
use crate::id::ThreadId;
use crate::names::Names;
use crate::observer::Observer;
use crate::source::{descriptor_calls, Sources};
use crate::spans::Home;
use crate::spelling::CallEnd;
use crate::state::Object;
use crate::threads::OpenCall;

/// The call after which a descriptor's number may be another one's: where it is not recorded, none is known. It is
/// looked for in traces that do not say what they have.
const TAKES_AWAY: &str = "close";
const EBADF: i64 = 9;
/// Descriptors that were there before the first record.
const BEFORE_MAX: usize = 1 << 16;

struct Nobody;

impl Observer for Nobody {
    const STATES: bool = false;
    const CALLS: bool = false;
    const INTERRUPTS: bool = false;
}

/// What a record does to descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(What);

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Enter { call: Box<str>, object: Object, more: Box<Kept> },
    Leave { call: Box<str>, result: Option<i64>, more: Box<Kept> },
    Opened { process: i64, opened: Opened },
    Fork { parent: Option<i64>, child: i64, process: Option<i64> },
    There { tid: i64, process: i64, parent: Option<i64> },
    Exec,
    Exit { tid: i64 },
}

/// One that was open when recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opened {
    descriptor: i64,
    flags: Option<i64>,
    path: Vec<u8>,
}

/// How steps are taken out of the records of a class.
#[derive(Debug)]
pub struct StepPlan(Binding);

/// Takes steps out of records.
#[derive(Debug, Default)]
pub struct Steps {
    calls: Calls,
    names: Names,
    numbers: Numbers,
    /// By trace: whether descriptors can be known in it.
    known: HashMap<usize, bool>,
}

impl Steps {
    /// Whether a trace has all that it takes for a descriptor's number to mean what was opened last.
    pub fn can_be_known(&mut self, trace: &Trace) -> bool {
        *self.known.entry(trace.index()).or_insert_with(|| {
            let schema = trace.schema();
            match descriptor_calls(schema) {
                Some(DescriptorCalls::All) => return crate::is_kernel(schema),
                Some(_) => return false,
                None => {}
            }
            let events = schema.streams.iter().flat_map(|stream| &stream.events);
            let mut ends = events.filter_map(|event| CallEnd::of(&event.name));
            crate::is_kernel(schema) && ends.any(|end| end.begins && end.name == TAKES_AWAY)
        })
    }

    /// `None`: its records do nothing to descriptors.
    pub fn plan(&mut self, class: &EventClass, trace: &Trace) -> Option<StepPlan> {
        if !self.can_be_known(trace) {
            return None;
        }
        let binding = Binding::new(class, true, &mut self.calls, &mut self.names, None);
        binding.is_of_descriptors(&self.calls).then_some(StepPlan(binding))
    }

    /// What a record does; `None`: nothing.
    pub fn step(&mut self, plan: &StepPlan, event: &Event<'_>) -> Option<Step> {
        // Calls that have numbers only have no plan.
        let fact = plan.0.fact(event, self.numbers.by(None), &mut self.calls, true)?;
        let kept = |more: More<'_>| Box::new(Kept::new(more));
        Some(Step(match fact {
            Fact::Enter { call, object, more } => {
                let call = self.calls.name(call).into();
                What::Enter { call, object, more: kept(more) }
            }
            Fact::Leave { call, result, more } => {
                What::Leave { call: self.calls.name(call).into(), result, more: kept(more) }
            }
            Fact::Opened { process, descriptor, flags, path } => {
                let path = path.bytes()?;
                What::Opened { process, opened: Opened { descriptor, flags, path } }
            }
            Fact::Fork { parent, child, process, .. } => What::Fork { parent, child, process },
            Fact::There { tid, process, parent, .. } => What::There { tid, process, parent },
            Fact::Exec => What::Exec,
            Fact::Exit { tid, .. } => What::Exit { tid },
            _ => return None,
        }))
    }
}

/// Follows the steps.
#[derive(Debug, Default)]
pub struct Follower {
    engine: Engine,
    /// By trace.
    machines: Vec<u8>,
    /// Of processes: what they had when recording began, where that was told only later.
    before: HashMap<(u8, i64), Vec<Opened>>,
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

    /// What the first records say of descriptors that were there before them: each that no record in front of the one
    /// that says it has given or taken away. In the order of time, with the thread of each.
    pub fn begin(&mut self, first: &[(usize, Option<i64>, Step)]) {
        let machine = |trace: usize| self.machines.get(trace).copied().unwrap_or(u8::MAX);
        let mut process: HashMap<(u8, i64), i64> = HashMap::new();
        for (trace, _, Step(what)) in first {
            match *what {
                What::There { tid, process: of, .. } => process.insert((machine(*trace), tid), of),
                What::Fork { child, process: Some(of), .. } => {
                    process.insert((machine(*trace), child), of)
                }
                _ => None,
            };
        }
        // By process; of `None` nobody knows which. All descriptors of it: `None`, too.
        let mut touched: HashSet<(u8, Option<i64>, Option<i64>)> = HashSet::new();
        let mut kept = 0;
        for (trace, tid, Step(what)) in first {
            let machine = machine(*trace);
            let of = tid.and_then(|tid| process.get(&(machine, tid)).copied());
            let mut touch = |descriptor| touched.insert((machine, of, descriptor));
            match what {
                What::Enter { call, object, .. } => match (kind(call), object) {
                    (CallKind::Close, Object::Descriptor(number)) => {
                        touch(Some(i64::from(*number)));
                    }
                    (CallKind::Close | CallKind::CloseRange | CallKind::Unshare, _) => {
                        touch(None);
                    }
                    _ => {}
                },
                What::Leave { call, result, more } => {
                    const GIVES: [CallKind; 4] =
                        [CallKind::Open, CallKind::Make, CallKind::Duplicate, CallKind::Control];
                    let made = result.filter(|made| GIVES.contains(&kind(call)) && *made >= 0);
                    let two = [Part::First, Part::Second].map(|part| More::Kept(more).number(part));
                    for made in two.into_iter().flatten().chain(made) {
                        touch(Some(made));
                    }
                }
                What::Opened { process, opened } if kept < BEFORE_MAX => {
                    let (one, any) = (Some(opened.descriptor), Some(*process));
                    let ways = [(any, one), (any, None), (None, one), (None, None)];
                    let mut ways = ways.into_iter();
                    if !ways.any(|(of, descriptor)| touched.contains(&(machine, of, descriptor))) {
                        kept += 1;
                        let of = self.before.entry((machine, *process)).or_default();
                        of.push(opened.clone());
                    }
                }
                _ => {}
            }
        }
        for (trace, _, step) in first {
            // Of those that begin later, their begin tells.
            if let What::There { .. } = step.0 {
                self.follow(*trace, None, step);
            }
        }
        let all: Vec<(u8, i64)> = self.before.keys().copied().collect();
        for (machine, process) in all {
            self.give(machine, process);
        }
    }

    /// A process has what it had before the first record.
    fn give(&mut self, machine: u8, process: i64) {
        let Some(all) = self.before.get(&(machine, process)) else { return };
        let who = self.engine.thread(machine, process, &mut Nobody);
        let Some(who) = who.filter(|&who| who != ThreadId::IDLE) else { return };
        for Opened { descriptor, flags, path } in all {
            files::there(&mut self.engine.world, who, *descriptor, *flags, Text::Kept(path));
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
            What::Enter { .. } | What::Leave { .. } | What::Exec if tid.is_none() => {
                return self.engine.world.forget_descriptors();
            }
            What::Enter { call, object, more } => {
                let Some(call) = calls.of(call) else { return };
                Fact::Enter { call, object: *object, more: More::Kept(more) }
            }
            What::Leave { call, result, more } => {
                let Some(call) = calls.of(call) else { return };
                Fact::Leave { call, result: *result, more: More::Kept(more) }
            }
            What::Opened { process, opened: Opened { descriptor, flags, path } } => {
                let (process, descriptor, flags) = (*process, *descriptor, *flags);
                Fact::Opened { process, descriptor, flags, path: Text::Kept(path) }
            }
            What::Fork { parent, child, process } => {
                let (parent, child, process) = (*parent, *child, *process);
                Fact::Fork { parent, child, process, name: Text::None }
            }
            What::There { tid, process, parent } => {
                let (tid, process, parent) = (*tid, *process, *parent);
                Fact::There { tid, process, parent, name: Text::None }
            }
            What::Exec => Fact::Exec,
            What::Exit { tid } => Fact::Exit { tid: *tid, name: Text::None },
        };
        let ends = match &step.0 {
            What::Enter { call, .. } => tid.filter(|_| call.contains("exit_group")),
            _ => None,
        };
        self.engine.apply(spot, fact, &mut Nobody);
        if let Some(who) = ends.and_then(|tid| self.engine.thread(machine, tid, &mut Nobody)) {
            let process = self.engine.world.process_of(who);
            self.engine.world.forget_files(process);
        }
        if let What::Fork { child, process, .. } = step.0 {
            if process == Some(child) {
                self.give(machine, child);
            }
        }
    }

    /// What a call gives was there already, or what it is about is not: others are not recorded.
    fn disagrees(&self, machine: u8, tid: Option<i64>, step: &Step) -> Option<ThreadId> {
        let What::Leave { call, result: Some(result), .. } = &step.0 else { return None };
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
        self.before.clear();
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
