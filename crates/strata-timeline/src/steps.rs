//! What records do to descriptors: taken out of them in one place, on several threads if need be, for another one.

use std::collections::HashMap;

use strata_ctf::environment::DescriptorCalls;
use strata_ctf::read::{Event, EventClass, Trace};
use strata_model::schema::Schema;

use crate::binding::{Binding, NumberedCalls};
use crate::calls::Calls;
use crate::counters::CounterRoles;
use crate::fact::{Fact, Kept, More};
use crate::names::Names;
use crate::source::{descriptor_calls, is_kernel};
use crate::spelling::CallEnd;
use crate::state::Object;

/// The call after which a descriptor's number may be another one's: where it is not recorded, none is known. It is
/// looked for in traces that do not say what they have.
const TAKES_AWAY: &str = "close";
/// The records that say what was there when recording began.
const DUMPED: [&str; 2] = ["lttng_statedump_file_descriptor", "lttng_statedump_process_state"];

/// Whether records of a trace say which threads and descriptors were there when recording began.
#[must_use]
pub fn has_dump(schema: &Schema) -> bool {
    let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
    is_kernel(schema) && events.any(|event| DUMPED.contains(&event.name.as_str()))
}

/// What a record does to descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(pub(crate) StepKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    Enter { call: Box<str>, object: Object, more: Box<Kept> },
    Leave { call: Box<str>, result: Option<i64>, more: Box<Kept> },
    Opened { process: i64, opened: OpenDescriptor },
    Fork { parent: Option<i64>, child: i64, process: Option<i64> },
    There { tid: i64, process: i64, parent: Option<i64> },
    Exec,
    Exit { tid: i64 },
}

/// One that was open when recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenDescriptor {
    pub descriptor: i64,
    pub flags: Option<i64>,
    pub path: Vec<u8>,
}

/// How steps are taken out of the records of a class.
#[derive(Debug)]
pub struct StepPlan(Binding);

/// Takes steps out of records.
#[derive(Debug, Default)]
pub struct Steps {
    calls: Calls,
    names: Names,
    numbers: NumberedCalls,
    /// By trace: whether descriptors can be known in it.
    known: HashMap<usize, bool>,
}

impl Steps {
    /// Whether a trace has all that it takes for a descriptor's number to mean what was opened last.
    pub fn can_be_known(&mut self, trace: &Trace) -> bool {
        *self.known.entry(trace.index()).or_insert_with(|| {
            let schema = trace.schema();
            match descriptor_calls(schema) {
                Some(DescriptorCalls::All) => return is_kernel(schema),
                Some(_) => return false,
                None => {}
            }
            let events = schema.streams.iter().flat_map(|stream| &stream.events);
            let mut ends = events.filter_map(|event| CallEnd::of(&event.name));
            is_kernel(schema) && ends.any(|end| end.begins && end.name == TAKES_AWAY)
        })
    }

    /// `None`: its records do nothing to descriptors.
    pub fn plan(&mut self, class: &EventClass, trace: &Trace) -> Option<StepPlan> {
        if !self.can_be_known(trace) {
            return None;
        }
        let (calls, names) = (&mut self.calls, &mut self.names);
        let binding = Binding::new(class, true, calls, names, None, &CounterRoles::new());
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
                StepKind::Enter { call, object, more: kept(more) }
            }
            Fact::Leave { call, result, more } => {
                StepKind::Leave { call: self.calls.name(call).into(), result, more: kept(more) }
            }
            Fact::Opened { process, descriptor, flags, path } => {
                let path = path.bytes()?;
                StepKind::Opened { process, opened: OpenDescriptor { descriptor, flags, path } }
            }
            Fact::Fork { parent, child, process, .. } => StepKind::Fork { parent, child, process },
            Fact::There { tid, process, parent, .. } => StepKind::There { tid, process, parent },
            Fact::Exec => StepKind::Exec,
            Fact::Exit { tid, .. } => StepKind::Exit { tid },
            _ => return None,
        }))
    }
}
