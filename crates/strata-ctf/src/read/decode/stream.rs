//! The decoder of one stream class, which moves from record to record.

use std::collections::HashSet;
use std::sync::Arc;

use super::bits::{find_nul, mask};
use super::classes::{Alike, ClassIds, RecordLayout};
use super::compile::{compile, Surroundings};
use super::header::{Compact, DecodedHead, HeaderKind, Large, Quick, ShortHeader};
use super::plan::{DecodingPlan, OpCode, PlanStepKind};
use super::record_view::ClassPlans;
use super::registers::{needs_header, Registers};
use super::skip_part::{later, EndFault, NoEndReason, Skip};
use super::state::{DecodeState, RecordPlace, RecordShape};
use super::stop_reason::{Bad, BadKind, NoRecord};
use super::window::{align_up, Window};
use crate::model::schema::{self, Role, Schema, Scope, Structure};
use crate::read::event_class::EventClass;

/// The decoded fields of a packet context. Times are in cycles of the stream's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketContext {
    pub begin: Option<u64>,
    pub end: Option<u64>,
    pub total_bits: Option<u64>,
    pub content_bits: Option<u64>,
    pub discarded: Option<u64>,
    pub sequence: Option<u64>,
    pub cpu: Option<u64>,
    /// End of the context \[bit of the packet\].
    pub end_bit: u64,
}

/// Decodes packets of one stream class.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    /// Plans of the parts that all event record classes share.
    shared: ClassPlans,
    has_clock: bool,
    pub(super) header: HeaderKind,
    /// Alignment of the header, a power of two \[bit\].
    align: u64,
    short: ShortHeader,
    /// Entries by id, for short headers that begin at a whole byte.
    alike: Vec<Alike>,
    ids: ClassIds,
    events: Vec<EventClass>,
    /// Mask of the bits of a packet's end time, whose field may have fewer than 64 bits.
    end_mask: u64,
    /// Number of registers that the stream's records need.
    pub(super) registers: u32,
}

/// A record header as LTTng writes it: a short id and the lowest bits of the time, or the greatest short id followed by
/// the full id and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitHeader {
    /// True if the short id has 16 bits, false if it has 5.
    pub large: bool,
    /// True for big-endian records.
    pub big: bool,
}

/// A record with the fixed size of its class, and the bytes after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'d, 'w> {
    pub shape: &'d RecordShape,
    /// The clock after the record \[cycle\].
    pub time: u64,
    pub behind: &'w [u8],
}

/// Inputs for creating a stream class's decoder, in addition to the class.
pub(super) struct DecoderParts<'t> {
    pub schema: &'t Schema,
    pub packet_header: &'t Option<Arc<DecodingPlan>>,
    pub registers: &'t Registers,
    /// Registers that have a value after the packet's header.
    pub defined: &'t HashSet<u32>,
    /// True if the trace has fields of both byte orders.
    pub mixed: bool,
    /// Index of the stream's first event record class, counted over all traces.
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

    /// Returns which of LTTng's two record headers the stream has; `None` for any other header.
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

    /// Returns the stream's event record classes, in the order of the schema.
    pub fn events(&self) -> &[EventClass] {
        &self.events
    }

    /// Returns the event record class with this index.
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
    /// On [`NoRecord::Short`] the state has no record. The call can be repeated with more of the packet, as if it were
    /// the first one.
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

    /// Decodes the record at the begin of `rest` on the fast path, and returns it with the bytes after it. This needs
    /// one of LTTng's headers, no fields of unknown size except texts, and all of the record in `rest`; otherwise the
    /// result is `None`. `time` is the clock after the previous record \[cycle\].
    ///
    /// Most records meet these conditions, and this call is then all that is needed to get from one record to the next.
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

    /// Returns the bytes after a record whose end depends on its texts.
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

    /// Returns whether [`StreamDecoder::ahead`] may find records. All records then begin at whole bytes.
    pub fn has_alike(&self) -> bool {
        !self.alike.is_empty()
    }

    /// Decodes a record whose header has a simple form. Records of classes with a fixed size are decoded here, others
    /// by the slower functions.
    #[inline(never)]
    fn quick<Q: Quick>(
        &self,
        header: Q,
        window: &Window<'_>,
        at: u64,
        state: &mut DecodeState,
    ) -> Result<(), NoRecord> {
        // Sums that overflow are not greater than `at`.
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
            // If the class has no parts after the header, only `any` finds out that the header is incomplete.
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

    /// Copies the header's values to the record.
    #[inline]
    fn put_head(&self, record: &mut RecordPlace, begin: u64, head: &DecodedHead, class: u32) {
        record.begin = begin;
        record.time = self.has_clock.then_some(head.time);
        record.shape =
            RecordShape { common: head.end.wrapping_sub(begin), class, ..RecordShape::default() };
    }

    /// Decodes a record of any form, on the slow path.
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

    /// Decodes the parts after a record's header, one after the other. The header's values are in the record already.
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

/// Returns the begin and the end of a part.
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
    // An element has no name of its own; the name is that of the array before it.
    let around = || {
        let before = op.and_then(|op| plan.ops.get(..op as usize)).unwrap_or(&[]);
        let op = before.iter().rev().find(|op| !op.info.name.is_empty());
        op.map(|op| Arc::clone(&op.info.name))
    };
    let field = named.filter(|name| !name.is_empty()).or_else(around);
    let class = class.map(|class| (class.id(), Arc::from(class.name())));
    NoRecord::Bad(Box::new(Bad { kind, scope: Some(plan.scope), class, field, at }))
}

/// Compiles the plans of the parts that only one event record class has.
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
    /// Returns the begin and the end of a part of fixed size that follows `at`.
    fn part(plan: Option<&DecodingPlan>, at: u64) -> Option<(u64, u64)> {
        let Some(plan) = plan else {
            return Some((at, at));
        };
        // Only parts that begin at a whole byte after a header that ends at one have a fixed place.
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

/// Makes the mask for the width of a packet's end time.
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
