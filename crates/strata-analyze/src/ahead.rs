//! What the first records do to descriptors, for those who are to know from the begin what was open before.

use strata_ctf::read::{Event, EventClass, FieldRef, Message, Reader, TimeRange, Trace};
use strata_timeline::{has_dump, is_kernel, Step, StepPlan, Steps, Whose};

/// Records that are looked at: what was there is said while recording begins.
pub(crate) const AHEAD: usize = 1 << 14;

/// What a record does, in which trace, and whose thread it is.
pub(crate) type TakenStep = (usize, Option<i64>, Step);

/// How steps are taken out of the records of a class.
pub(crate) struct Taker {
    tid: Option<FieldRef>,
    plan: Option<StepPlan>,
}

impl Taker {
    pub(crate) fn new(class: &EventClass, trace: &Trace, steps: &mut Steps) -> Taker {
        let whose = Whose::new(class, is_kernel(trace.schema()));
        Taker { tid: whose.tid, plan: steps.plan(class, trace) }
    }

    /// What a record does to descriptors; `None`: nothing.
    pub(crate) fn take(&self, event: &Event<'_>, steps: &mut Steps) -> Option<TakenStep> {
        let step = steps.step(self.plan.as_ref()?, event)?;
        let tid = self.tid.as_ref().and_then(|tid| event.integer(tid));
        Some((event.stream().trace().index(), tid, step))
    }
}

/// What the first records of a time do to descriptors, up to where some are not there: none, if no trace says what was
/// there when recording began. `None`: there are no records in that time.
pub(crate) fn first_steps(
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
    for _ in 0..AHEAD {
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
