//! Steps: what records do to descriptors, copied out of the records so that they can be applied elsewhere and later.
//!
//! A reader on several threads takes the steps from its records ([`Steps`]) and passes them to one
//! [`Follower`](crate::Follower), which applies them in the order of time. A step owns its texts, so the record is no
//! longer needed.

use std::collections::HashMap;

use strata_ctf::environment::DescriptorCalls;
use strata_ctf::read::{Event, EventClass, Trace};
use strata_model::schema::Schema;

use crate::counters::CounterRoles;
use crate::ids::calls::Calls;
use crate::ids::names::Names;
use crate::records::binding::{Binding, NumberedCalls};
use crate::records::facts::{CopiedFields, Fact, More};
use crate::records::record_source::{descriptor_calls, is_kernel};
use crate::records::tracer_names::CallEnd;
use crate::world::state::Object;

/// The system call after which a descriptor's number may get another file. Descriptors can be known only in traces
/// that have at least this call.
const TAKES_AWAY: &str = "close";
/// The events of a state dump that report the threads and descriptors which existed when recording began.
const DUMPED: [&str; 2] = ["lttng_statedump_file_descriptor", "lttng_statedump_process_state"];

/// Returns true if a trace has a state dump of threads or descriptors.
#[must_use]
pub fn has_dump(schema: &Schema) -> bool {
    let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
    is_kernel(schema) && events.any(|event| DUMPED.contains(&event.name.as_str()))
}

/// One effect of a record on descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(pub(crate) StepKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    Enter { call: Box<str>, object: Object, more: Box<CopiedFields> },
    Leave { call: Box<str>, result: Option<i64>, more: Box<CopiedFields> },
    Deferred { call: Box<str>, more: Box<CopiedFields> },
    Opened { process: i64, opened: OpenDescriptor },
    Fork { parent: Option<i64>, child: i64, process: Option<i64> },
    There { tid: i64, process: i64, parent: Option<i64> },
    Exec,
    Exit { tid: i64 },
}

/// A descriptor that was open when recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenDescriptor {
    pub descriptor: i64,
    pub flags: Option<i64>,
    pub path: Vec<u8>,
}

/// The fields from which steps are read in the records of a class.
#[derive(Clone, Debug)]
pub struct StepPlan(Binding);

/// Takes steps from records.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    calls: Calls,
    names: Names,
    numbers: NumberedCalls,
    /// True for traces in which descriptors can be known, by the trace's index.
    known: HashMap<usize, bool>,
}

impl Steps {
    /// Returns true if descriptors can be known in a trace: it has all calls that change the file of a descriptor.
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

    /// Prepares to read steps from the records of a class; `None` if they do not affect descriptors.
    pub fn plan(&mut self, class: &EventClass, trace: &Trace) -> Option<StepPlan> {
        if !self.can_be_known(trace) {
            return None;
        }
        let (calls, names) = (&mut self.calls, &mut self.names);
        let binding = Binding::new(class, true, calls, names, None, &CounterRoles::new());
        binding.is_of_descriptors(&self.calls).then_some(StepPlan(binding))
    }

    /// Returns the step of a record; `None` if the record does not affect descriptors.
    pub fn step(&mut self, plan: &StepPlan, event: &Event<'_>) -> Option<Step> {
        if let Some(deferred) = plan.0.deferred(event, &mut self.calls) {
            let (call, kept) = *deferred;
            let call = self.calls.name(call).into();
            return Some(Step(StepKind::Deferred { call, more: Box::new(kept) }));
        }
        // Calls that have numbers only have no plan.
        let fact = plan.0.fact(event, self.numbers.by(None), &mut self.calls, true)?;
        let kept = |more: More<'_>| Box::new(CopiedFields::new(more));
        Some(Step(match fact {
            Fact::Enter { call, object, more, .. } => {
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
            Fact::Exec { .. } => StepKind::Exec,
            Fact::Exit { tid, .. } => StepKind::Exit { tid },
            _ => return None,
        }))
    }
}
