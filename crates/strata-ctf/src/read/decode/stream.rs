//! The decoder of one stream class: from record to record.

use std::collections::HashSet;
use std::sync::Arc;

use super::bits::{find_nul, mask};
use super::classes::{Alike, ClassIds, RecordLayout};
use super::compile::{compile, Surroundings};
use super::header::{Compact, DecodedHead, HeaderKind, Large, Quick, ShortHeader};
use super::plan::{DecodingPlan, OpCode, PlanStepKind};
use super::registers::{needs_header, Registers};
use super::skip::{later, EndFault, NoEndReason, Skip};
use super::state::{DecodeState, RecordPlace, RecordShape};
use super::stop::{Bad, BadKind, NoRecord};
use super::view::ClassPlans;
use super::window::{align_up, Window};
use crate::model::schema::{self, Role, Schema, Scope, Structure};
use crate::read::event_class::EventClass;

/// What a packet's context says. Times are in cycles of the stream's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketContext {
    pub begin: Option<u64>,
    pub end: Option<u64>,
    pub total_bits: Option<u64>,
    pub content_bits: Option<u64>,
    pub discarded: Option<u64>,
    pub sequence: Option<u64>,
    pub cpu: Option<u64>,
    /// Where it ends \[bit of the packet\].
    pub end_bit: u64,
}

/// Decodes packets of one stream class.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    /// What all classes have in common.
    shared: ClassPlans,
    has_clock: bool,
    pub(super) header: HeaderKind,
    /// Of the header; a power of two \[bit\].
    align: u64,
    short: ShortHeader,
    /// By id, where headers are short and begin with a whole byte.
    alike: Vec<Alike>,
    ids: ClassIds,
    events: Vec<EventClass>,
    /// Of a packet's end, where it has fewer than 64 bits.
    end_mask: u64,
    /// Registers that its records need.
    pub(super) registers: u32,
}

/// A header of LTTng's: a short id and some bits of the time, or the greatest id, and then both in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitHeader {
    /// The id has 16 bits, and else 5.
    pub large: bool,
    /// Big-endian.
    pub big: bool,
}

/// A record that is as all of its class, and what is behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'d, 'w> {
    pub shape: &'d RecordShape,
    /// Running time \[cycle\].
    pub time: u64,
    pub behind: &'w [u8],
}

/// What a stream class's decoder is made of besides the class.
pub(super) struct DecoderParts<'t> {
    pub schema: &'t Schema,
    pub packet_header: &'t Option<Arc<DecodingPlan>>,
    pub registers: &'t Registers,
    /// Those that have a value behind the packet's header.
    pub defined: &'t HashSet<u32>,
    /// It has bits of both byte orders.
    pub mixed: bool,
    /// Index of the first class, over all traces.
    pub first_class: usize,
}

impl StreamDecoder {
    pub(super) fn new(
        trace: &DecoderParts<'_>,
        stream: usize,
        class: &schema::StreamClass,
    ) -> Self {
        let registers = trace.registers.and_stream(class);
        let mut defined = trace.defined.clone();
        let mixed = trace.mixed;
        let mut plan = |scope, structure: &Option<Structure>| {
            let (registers, defined) = (&registers, &mut defined);
            let place =
                Surroundings { scope, clock: class.clock, registers, uuid: None, defined, mixed };
            structure.as_ref().map(|structure| Arc::new(compile(structure, place)))
        };
        let packet_context = plan(Scope::PacketContext, &class.packet_context);
        let event_header = plan(Scope::EventHeader, &class.event_header);
        let common = plan(Scope::CommonContext, &class.event_common_context);
        let header = HeaderKind::of(
            class.event_header.as_ref(),
            event_header.as_deref(),
            class.clock,
            needs_header(class) || mixed,
        );
        let align = event_header.as_ref().map_or(1, |plan| plan.align);
        let mut shared = ClassPlans::default();
        shared.put(Scope::PacketHeader, trace.packet_header.clone());
        shared.put(Scope::PacketContext, packet_context);
        shared.put(Scope::EventHeader, event_header);
        shared.put(Scope::CommonContext, common);
        let mut most = registers.count();
        let events = class.events.iter().enumerate().map(|(position, event)| {
            let registers = registers.and_event(event);
            most = most.max(registers.count());
            let plans = own(&shared, class, event, &registers, (defined.clone(), mixed));
            EventClass::new(trace.first_class + position, event, stream, plans)
        });
        let events: Vec<EventClass> = events.collect();
        let ids = ClassIds::new(events.iter().map(|event| (event.id(), layout(event.plans()))));
        let short = ShortHeader::of(header);
        let alike = if align == 8 { ids.alike(short.bits(), short.id) } else { Vec::new() };
        StreamDecoder {
            shared,
            has_clock: class.clock.is_some_and(|clock| clock < trace.schema.clocks.len()),
            header,
            align,
            short,
            alike,
            ids,
            events,
            end_mask: end_mask(class),
            registers: most,
        }
    }

    /// Which of LTTng's two headers its records have, if it is one.
    pub fn split_header(&self) -> Option<SplitHeader> {
        let (large, big) = match self.header {
            HeaderKind::CompactLe => (false, false),
            HeaderKind::CompactBe => (false, true),
            HeaderKind::LargeLe => (true, false),
            HeaderKind::LargeBe => (true, true),
            HeaderKind::Flat(_) | HeaderKind::Other => return None,
        };
        Some(SplitHeader { large, big })
    }

    /// Its classes, in the order of the schema.
    #[cfg(test)]
    pub fn events(&self) -> &[EventClass] {
        &self.events
    }

    /// One of its classes.
    #[inline]
    pub fn class(&self, index: u32) -> Option<&EventClass> {
        self.events.get(index as usize)
    }

    /// Reads a packet's context, which begins at `at`, where the packet's header ends.
    pub fn packet_context(
        &self,
        window: &Window<'_>,
        at: u64,
        state: &mut DecodeState,
    ) -> Result<PacketContext, NoRecord> {
        let Some(plan) = self.shared.get(Scope::PacketContext) else {
            state.keep_head(window, at);
            return Ok(PacketContext { end_bit: at, ..PacketContext::default() });
        };
        state.found.time = state.time;
        state.found.timed = false;
        let (begin, end_bit) = part(window, state, plan, at, None)?;
        let found = &state.found;
        state.time = found.time;
        let time = state.time;
        let context = PacketContext {
            begin: found.timed.then_some(time),
            end: found.role(Role::PacketEndTimestamp).map(|end| later(time, end, self.end_mask)),
            total_bits: found.role(Role::PacketTotalLength),
            content_bits: found.role(Role::PacketContentLength),
            discarded: found.role(Role::DiscardedEvents),
            sequence: found.role(Role::PacketSequenceNumber),
            cpu: found.cpu,
            end_bit,
        };
        state.context = begin;
        state.keep_head(window, end_bit);
        Ok(context)
    }

    /// Decodes the record at `at` into [`DecodeState::record`].
    ///
    /// After [`NoRecord::Short`], the same call with more of the packet does as if it were the first; until
    /// then there is no record.
    #[inline]
    pub fn record(
        &self,
        window: &Window<'_>,
        at: u64,
        state: &mut DecodeState,
    ) -> Result<(), NoRecord> {
        match self.header {
            HeaderKind::CompactLe => self.quick(Compact::<false>, window, at, state),
            HeaderKind::CompactBe => self.quick(Compact::<true>, window, at, state),
            HeaderKind::LargeLe => self.quick(Large::<false>, window, at, state),
            HeaderKind::LargeBe => self.quick(Large::<true>, window, at, state),
            HeaderKind::Flat(flat) => self.quick(flat, window, at, state),
            HeaderKind::Other => self.any(window, at, state),
        }
    }

    /// The record that `rest` begins with, and what is behind it, if its header is one of LTTng's, nothing but
    /// texts is of unknown size in it, and `rest` has all of it. `time`: of the record in front of it.
    ///
    /// As a rule that is so, and then this is all there is to do from one record to the next.
    #[inline(always)]
    pub fn ahead<'d, 'w>(&'d self, rest: &'w [u8], time: u64) -> Option<Ahead<'d, 'w>> {
        let word = u64::from_le_bytes(*rest.first_chunk()?);
        let ShortHeader { id_bits, id, time: mask } = self.short;
        let alike = self.alike.get((word & id) as usize)?;
        let time = later(time, word >> (id_bits % 64), mask);
        let behind = match rest.get(alike.bytes as usize..) {
            Some(behind) => behind,
            None => self.behind_texts(alike, rest)?,
        };
        Some(Ahead { shape: &alike.shape, time, behind })
    }

    /// What is behind such a record if its texts say where it ends.
    #[inline(never)]
    fn behind_texts<'w>(&self, alike: &Alike, record: &'w [u8]) -> Option<&'w [u8]> {
        if !alike.has_texts {
            return None;
        }
        let RecordShape { payload, class, .. } = alike.shape;
        let plan = self.events.get(class as usize)?.plans().get(Scope::Payload)?;
        let mut rest = record.get((payload / 8) as usize..)?;
        for step in &plan.steps {
            let PlanStepKind::String { offset } = step.what else { return None };
            rest = rest.get((offset / 8) as usize..)?;
            rest = rest.get(find_nul(rest)? + 1..)?;
        }
        let behind = rest.get((plan.tail / 8) as usize..)?;
        (plan.tail % 8 == 0).then_some(behind)
    }

    /// Whether there may be records that [`StreamDecoder::ahead`] finds: all begin with whole bytes then.
    pub fn has_alike(&self) -> bool {
        !self.alike.is_empty()
    }

    /// A record with a header that is quickly read; and if all records of its class are alike, all of it
    /// is here, with no call. What is not usual is left to the functions below.
    #[inline(never)]
    fn quick<Q: Quick>(
        &self,
        header: Q,
        window: &Window<'_>,
        at: u64,
        state: &mut DecodeState,
    ) -> Result<(), NoRecord> {
        // Sums that are too great for a number are not behind `at`.
        let begin = at.wrapping_add(self.align - 1) & !(self.align - 1);
        let Some(head) = header.head(window, begin, state.time) else {
            return self.any(window, at, state);
        };
        let Some(entry) = self.ids.low(head.id) else {
            return self.any(window, at, state);
        };
        let from = head.end;
        self.put_head(&mut state.record, begin, &head, entry.class());
        let Some(layout) = entry.layout() else {
            return self.parts(window, at, state, head.time);
        };
        let end = from.wrapping_add(u64::from(layout.end));
        if end > window.end || end <= at || from % 8 != 0 {
            // Without parts behind it there is nobody who sees that the header is not all there.
            return match from > window.end {
                true => self.any(window, at, state),
                false => self.parts(window, at, state, head.time),
            };
        }
        state.record.shape = layout.shape(from.wrapping_sub(begin), entry.class());
        state.record.end = end;
        state.time = head.time;
        Ok(())
    }

    /// Has the record what its header says.
    #[inline]
    fn put_head(&self, record: &mut RecordPlace, begin: u64, head: &DecodedHead, class: u32) {
        record.begin = begin;
        record.time = self.has_clock.then_some(head.time);
        record.shape =
            RecordShape { common: head.end.wrapping_sub(begin), class, ..RecordShape::default() };
    }

    /// Any record.
    #[inline(never)]
    fn any(&self, window: &Window<'_>, at: u64, state: &mut DecodeState) -> Result<(), NoRecord> {
        let before = state.found.order;
        let done = self.any_in(window, at, state);
        if done.is_err() {
            state.found.order = before;
        }
        done
    }

    fn any_in(
        &self,
        window: &Window<'_>,
        at: u64,
        state: &mut DecodeState,
    ) -> Result<(), NoRecord> {
        let mut head = DecodedHead { id: 0, time: state.time, end: at };
        let mut begin = at;
        if let Some(plan) = self.shared.get(Scope::EventHeader) {
            state.found.time = state.time;
            state.found.id = 0;
            (begin, head.end) = part(window, state, plan, at, None)?;
            (head.id, head.time) = (state.found.id, state.found.time);
        } else if at / 8 < window.origin {
            return Err(NoRecord::Short { until: at });
        }
        let Some(entry) = self.ids.get(head.id) else {
            return Err(unknown(head.id, begin));
        };
        self.put_head(&mut state.record, begin, &head, entry.class());
        self.parts(window, at, state, head.time)
    }

    /// The parts behind a record's header, one after the other. The record has all that the header says.
    #[inline(never)]
    fn parts(
        &self,
        window: &Window<'_>,
        at: u64,
        state: &mut DecodeState,
        time: u64,
    ) -> Result<(), NoRecord> {
        let DecodeState { registers, found, spent, record, .. } = state;
        let RecordPlace { begin, shape, .. } = record;
        let Some(event) = self.events.get(shape.class as usize) else {
            return Err(unknown(u64::from(shape.class), at));
        };
        found.time = time;
        let before = *spent;
        let mut skip = Skip { window, registers, found, spent };
        let mut end = begin.wrapping_add(shape.common);
        let mut next = |plan: Option<&DecodingPlan>| {
            let Some(plan) = plan else { return Ok(end.wrapping_sub(*begin)) };
            match skip.part(plan, end) {
                Ok((from, behind)) => {
                    end = behind;
                    Ok(from.wrapping_sub(*begin))
                }
                Err(fault) => {
                    *skip.spent = before;
                    Err(stop(fault, plan, Some(event)))
                }
            }
        };
        let plans = event.plans();
        shape.common = next(plans.get(Scope::CommonContext))?;
        shape.specific = next(plans.get(Scope::SpecificContext))?;
        shape.payload = next(plans.get(Scope::Payload))?;
        record.end = end;
        if end <= at {
            return Err(no_bits(event, at));
        }
        state.time = state.found.time;
        Ok(())
    }
}

#[cold]
fn no_bits(event: &EventClass, at: u64) -> NoRecord {
    let class = Some((event.id(), Arc::from(event.name())));
    NoRecord::Bad(Box::new(Bad { kind: BadKind::Empty, scope: None, class, field: None, at }))
}

#[cold]
fn unknown(id: u64, at: u64) -> NoRecord {
    let kind = BadKind::UnknownId(id);
    let scope = Some(Scope::EventHeader);
    NoRecord::Bad(Box::new(Bad { kind, scope, class: None, field: None, at }))
}

/// Where a part begins, and where it ends.
#[inline]
pub(super) fn part(
    window: &Window<'_>,
    state: &mut DecodeState,
    plan: &DecodingPlan,
    at: u64,
    class: Option<&EventClass>,
) -> Result<(u64, u64), NoRecord> {
    let DecodeState { registers, found, spent, .. } = state;
    let before = (*spent, found.order);
    let found = Skip { window, registers, found, spent }.part(plan, at);
    found.map_err(|fault| {
        (state.spent, state.found.order) = before;
        stop(fault, plan, class)
    })
}

#[cold]
fn stop(fault: EndFault, plan: &DecodingPlan, class: Option<&EventClass>) -> NoRecord {
    let (kind, at, op) = match *fault.0 {
        NoEndReason::Short { until } => return NoRecord::Short { until },
        NoEndReason::Bad { kind, at, op } => (kind, at, op),
    };
    let is_field = |code: OpCode| {
        !matches!(
            code,
            OpCode::Align { .. } | OpCode::Load { .. } | OpCode::Keep { .. } | OpCode::Clear { .. }
        )
    };
    let ops = op.and_then(|op| plan.ops.get(op as usize..)).unwrap_or(&[]);
    let named = ops.iter().find(|op| is_field(op.code)).map(|op| Arc::clone(&op.info.name));
    // An element has no name of its own; its array is in front of it.
    let around = || {
        let before = op.and_then(|op| plan.ops.get(..op as usize)).unwrap_or(&[]);
        let op = before.iter().rev().find(|op| !op.info.name.is_empty());
        op.map(|op| Arc::clone(&op.info.name))
    };
    let field = named.filter(|name| !name.is_empty()).or_else(around);
    let class = class.map(|class| (class.id(), Arc::from(class.name())));
    NoRecord::Bad(Box::new(Bad { kind, scope: Some(plan.scope), class, field, at }))
}

/// The plans of a class.
fn own(
    shared: &ClassPlans,
    stream: &schema::StreamClass,
    event: &schema::EventClass,
    registers: &Registers,
    (mut defined, mixed): (HashSet<u32>, bool),
) -> ClassPlans {
    let mut plan = |scope, structure: &Option<Structure>| {
        let defined = &mut defined;
        let place =
            Surroundings { scope, clock: stream.clock, registers, uuid: None, defined, mixed };
        structure.as_ref().map(|structure| Arc::new(compile(structure, place)))
    };
    let mut plans = shared.clone();
    plans.put(Scope::SpecificContext, plan(Scope::SpecificContext, &event.specific_context));
    plans.put(Scope::Payload, plan(Scope::Payload, &event.payload));
    plans
}

fn layout(plans: &ClassPlans) -> Option<RecordLayout> {
    /// Where the part begins and ends that is behind `at`.
    fn part(plan: Option<&DecodingPlan>, at: u64) -> Option<(u64, u64)> {
        let Some(plan) = plan else {
            return Some((at, at));
        };
        // Whatever begins with a whole byte behind a header that ends with one.
        let begin = align_up(at, plan.align);
        (plan.align <= 8).then_some((begin, begin.saturating_add(plan.fixed()?)))
    }
    let (_, end) = part(plans.get(Scope::CommonContext), 0)?;
    let (specific, end) = part(plans.get(Scope::SpecificContext), end)?;
    let small = |bits: u64| u32::try_from(bits).ok().filter(|&bits| bits < u32::MAX);
    let specific = small(specific)?;
    if let Some(payload) = plans.get(Scope::Payload).filter(|plan| plan.has_only_texts()) {
        let payload = small(align_up(end, payload.align))?;
        return Some(RecordLayout { specific, payload, end: u32::MAX });
    }
    let (payload, end) = part(plans.get(Scope::Payload), end)?;
    Some(RecordLayout { specific, payload: small(payload)?, end: small(end)? })
}

/// Of the bits that a packet's end has.
fn end_mask(class: &schema::StreamClass) -> u64 {
    let members = class.packet_context.iter().flat_map(|context| &context.members);
    let width = members.filter_map(|member| match &member.class {
        schema::FieldClass::Integer(integer) if integer.role == Some(Role::PacketEndTimestamp) => {
            match integer.width {
                schema::Width::Bits(bits) => Some(bits),
                schema::Width::Variable => Some(64),
            }
        }
        _ => None,
    });
    mask(width.fold(64, |_, last| last))
}
