//! The first steps of traces: what their first records do to descriptors, for readers that must know from the begin
//! what was open before.

use strata_ctf::read::{Event, EventClass, FieldRef, Message, Reader, TimeRange, Trace};

use crate::descriptors::steps::{has_dump, Step, StepPlan, Steps};
use crate::records::record_source::is_kernel;
use crate::records::tracer_names::Whose;

/// The number of first records that are read. What existed before is recorded while recording begins.
pub const FIRST_RECORDS: usize = 1 << 14;

/// A step, with the index of its trace and the number of its thread.
pub type TakenStep = (usize, Option<i64>, Step);

/// Reads steps from the records of a class.
#[derive(Clone, Debug)]
pub struct Taker {
    tid: Option<FieldRef>,
    plan: Option<StepPlan>,
}

impl Taker {
    /// Returns a reader of steps for this class.
    #[must_use]
    pub fn new(class: &EventClass, trace: &Trace, steps: &mut Steps) -> Taker {
        let whose = Whose::new(class, is_kernel(trace.schema()));
        Taker { tid: whose.tid, plan: steps.plan(class, trace) }
    }

    /// Returns the step of a record; `None` if it does not affect descriptors.
    pub fn take(&self, event: &Event<'_>, steps: &mut Steps) -> Option<TakenStep> {
        let step = steps.step(self.plan.as_ref()?, event)?;
        let tid = self.tid.as_ref().and_then(|tid| event.integer(tid));
        Some((event.stream().trace().index(), tid, step))
    }
}

/// Returns the steps of the first records within a time range, up to the first gap. They are empty if no trace has a
/// state dump. Returns `None` if there are no records in the time range.
#[must_use]
pub fn first_steps(
    reader: &Reader,
    range: TimeRange,
    stop: &dyn Fn() -> bool,
) -> Option<Vec<TakenStep>> {
    let mut first = Vec::new();
    if !reader.traces().iter().any(|trace| has_dump(trace.schema())) {
        return Some(first);
    }
    let mut takers: Vec<Option<Taker>> = Vec::new();
    takers.resize_with(reader.event_classes(), || None);
    let (mut steps, mut any) = (Steps::default(), false);
    let mut events = reader.events(range);
    for _ in 0..FIRST_RECORDS {
        match events.next() {
            Some(Message::Event(event)) => {
                any = true;
                if let Some(slot) = takers.get_mut(event.class().index()) {
                    let trace = event.stream().trace();
                    let taker =
                        slot.get_or_insert_with(|| Taker::new(event.class(), trace, &mut steps));
                    first.extend(taker.take(&event, &mut steps));
                }
            }
            Some(Message::Packet(_)) if !stop() => {}
            _ => break,
        }
    }
    any.then_some(first)
}
