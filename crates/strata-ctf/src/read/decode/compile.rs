//! Compiles a structure of the schema to a decoding plan.
//!
//! Each part of a packet or record (a header, a context, a payload) is compiled once for each class, into the two lists
//! that [`DecodingPlan`] explains: ops, which show fields, and steps, which only find the part's end.
//!
//! ```text
//! schema::Structure ── field() for each member ──┬─ fixed size:   op at an offset from the base; no step
//!                                                └─ unknown size: op, step, and rebase(): offsets count from its end
//! ```
//!
//! Offsets are counted from a *base* that moves only past fields of unknown size, so most ops read at a constant
//! offset. `multiple()` returns a number of which the position is certainly a multiple; an alignment that this already
//! satisfies needs no op.
//!
//! # Lengths and selectors
//! An integer that a later length or selector needs is copied to a *register* ([`Registers`]). A field in an option
//! that was not taken has no value, so its registers are cleared at the option's begin. The use of a register that may
//! not be defined is compiled to a check.
//!
//! # Hostile metadata
//! Offsets and sizes stay below [`FAR`], and the nesting of fields below the parser's limit. A field that cannot be
//! decoded (a length without a field that gives it, bits of two byte orders in one byte) becomes an op that reports an
//! error: the class stays usable up to that field. No allocation depends on a number of the metadata that a limit of
//! `tsdl::limits` does not bound.

use std::collections::HashSet;
use std::sync::Arc;

use super::bits::Bits;
use super::plan::{
    order, ArrayOp, Choice, Count, DecodingPlan, IntegerSink, OpCode, OptionPlan, PlanOp, PlanStep,
    PlanStepKind,
};
use super::registers::{PlanRegister, Registers, DEPTH};
use super::stop_reason::BadKind;
use crate::model::schema::{
    Array, Encoding, FieldClass, Integer, Length, Location, Optional, Range, Real, Role, Schema,
    Scope, Structure, Variant, Width,
};
use crate::model::{Base, ByteOrder};
use crate::read::visit::{FieldInfo, FieldKind};

/// The limit on offsets and sizes \[bit\]: packets are smaller, and sums of two offsets do not overflow.
const FAR: u64 = 1 << 60;

/// Facts about the stream and the parts before a part that compiling the part needs.
pub(super) struct Surroundings<'c> {
    pub scope: Scope,
    /// Index of the stream class's clock in the schema's clocks.
    pub clock: Option<usize>,
    pub registers: &'c Registers,
    /// Index of the member that is the trace's UUID.
    pub uuid: Option<u32>,
    /// Registers that have a value at the begin of the part. Compiling the part adds its own.
    pub defined: &'c mut HashSet<u32>,
    /// True if the trace has bits of both byte orders in one byte: see [`is_mixed`].
    pub mixed: bool,
}

/// Returns whether numbers of both byte orders may share a byte, since some do not begin or end at a whole byte.
pub(super) fn is_mixed(schema: &Schema) -> bool {
    let mut orders = ByteOrders::default();
    let mut look = |part: &Option<Structure>| {
        for member in part.iter().flat_map(|part| &part.members) {
            orders.look(&member.class, 1);
        }
    };
    look(&schema.packet_header);
    for stream in &schema.streams {
        look(&stream.packet_context);
        look(&stream.event_header);
        look(&stream.event_common_context);
        for event in &stream.events {
            look(&event.specific_context);
            look(&event.payload);
        }
    }
    orders.little && orders.big
}

/// Returns whether a number with this alignment and width may begin or end within a byte.
fn is_in_byte(align: u32, width: u8) -> bool {
    align % 8 != 0 || width % 8 != 0
}

/// The byte orders of numbers that may share a byte with others.
#[derive(Default)]
struct ByteOrders {
    little: bool,
    big: bool,
}

impl ByteOrders {
    fn look(&mut self, class: &FieldClass, depth: u32) {
        // Fields that are nested deeper are refused by the compiler.
        if depth > DEPTH {
            return;
        }
        let mut found = |order| match order {
            ByteOrder::Little => self.little = true,
            ByteOrder::Big => self.big = true,
        };
        match class {
            FieldClass::Integer(Integer {
                width: Width::Bits(width), align, byte_order, ..
            }) if is_in_byte(*align, *width) => {
                found(*byte_order);
            }
            FieldClass::Real(Real { bits, align, byte_order, .. }) if is_in_byte(*align, *bits) => {
                found(*byte_order);
            }
            FieldClass::Structure(structure) => {
                structure.members.iter().for_each(|member| self.look(&member.class, depth + 1));
            }
            FieldClass::Array(array) => self.look(&array.element, depth + 1),
            FieldClass::Variant(variant) => {
                variant.options.iter().for_each(|option| self.look(&option.class, depth + 1));
            }
            FieldClass::Optional(optional) => self.look(&optional.class, depth + 1),
            FieldClass::Integer(_)
            | FieldClass::Real(_)
            | FieldClass::String
            | FieldClass::Text { .. }
            | FieldClass::Wide { .. }
            | FieldClass::Blob { .. } => {}
        }
    }
}

/// Compiles a part to a plan.
pub(super) fn compile(structure: &Structure, place: Surroundings<'_>) -> DecodingPlan {
    let align = power(structure.align());
    let (first_register, registers) = place.registers.below(place.scope, &[]);
    let mut compiler = PartCompiler {
        place,
        ops: Vec::new(),
        arrays: Vec::new(),
        choices: Vec::new(),
        steps: Vec::new(),
        turns: Vec::new(),
        path: Vec::new(),
        known: align,
        offset: 0,
        order: None,
    };
    for (index, member) in (0u32..).zip(&structure.members) {
        compiler.top_member(index, &member.name, &member.class);
    }
    DecodingPlan {
        scope: compiler.place.scope,
        align,
        ops: compiler.ops,
        arrays: compiler.arrays,
        choices: compiler.choices,
        steps: compiler.steps,
        turns: compiler.turns,
        tail: compiler.offset,
        first_register,
        registers,
    }
}

struct PartCompiler<'c> {
    place: Surroundings<'c>,
    ops: Vec<PlanOp>,
    arrays: Vec<ArrayOp>,
    choices: Vec<Choice>,
    steps: Vec<PlanStep>,
    turns: Vec<Choice>,
    /// Path of the field that is being compiled, as in a [`Location`].
    path: Vec<u32>,
    /// A power of two of which the base of the present offsets is a multiple \[bit\].
    known: u64,
    /// Offset of the next field from the present base \[bit\].
    offset: u64,
    /// Byte order of the last integer.
    order: Option<ByteOrder>,
}

fn power(align: u64) -> u64 {
    align.clamp(1, 1 << 32).next_power_of_two()
}

/// Returns the greatest power of two that divides `bits`; for 0, the greatest power of two of 64 bits.
fn divisor(bits: u64) -> u64 {
    match bits {
        0 => 1 << 63,
        bits => 1 << bits.trailing_zeros(),
    }
}

fn info(class: &FieldClass, name: &str, is_element: bool) -> FieldInfo {
    let mut info = FieldInfo {
        name: Arc::from(name),
        kind: FieldKind::Structure,
        is_element,
        base: Base::Ten,
        is_bool: false,
        signed: false,
        bits: 0,
        labels: None,
        flags: None,
        is_bit_map: false,
    };
    let mut class = class;
    for _ in 0..DEPTH {
        let FieldClass::Optional(optional) = class else { break };
        class = &optional.class;
    }
    info.kind = match class {
        FieldClass::Integer(integer) => {
            info.base = integer.base;
            info.is_bool = integer.is_bool;
            info.signed = integer.signed;
            info.bits = match integer.width {
                Width::Bits(bits) => bits,
                Width::Variable => 0,
            };
            info.labels = integer.labels.clone();
            info.flags = integer.flags;
            info.is_bit_map = integer.is_bit_map;
            FieldKind::Integer
        }
        FieldClass::Real(real) => {
            info.bits = real.bits;
            FieldKind::Real
        }
        FieldClass::String | FieldClass::Text { .. } | FieldClass::Wide { .. } => FieldKind::Text,
        FieldClass::Blob { .. } => FieldKind::Blob,
        FieldClass::Structure(_) | FieldClass::Optional(_) => FieldKind::Structure,
        FieldClass::Array(_) => FieldKind::Array,
        FieldClass::Variant(_) => FieldKind::Variant,
    };
    info
}

/// Kinds of fields whose size in bytes is known.
enum Content {
    Text,
    Wide(Encoding),
    Blob,
}

/// An option of a variant, or an optional field, that is to be compiled.
struct Possible<'s> {
    name: &'s str,
    ranges: Vec<(u64, u64)>,
    class: &'s FieldClass,
}

/// Converts the selector's values to [`OptionPlan::ranges`].
fn ranges(ranges: &[Range], signed: bool) -> Vec<(u64, u64)> {
    let (min, max) = match signed {
        true => (i128::from(i64::MIN), i128::from(i64::MAX)),
        false => (0, i128::from(u64::MAX)),
    };
    let possible = ranges
        .iter()
        .filter(|range| range.from <= range.to && range.from <= max && range.to >= min);
    let number = |value: i128| order(value.clamp(min, max) as u64, signed);
    possible.map(|range| (number(range.from), number(range.to))).collect()
}

impl PartCompiler<'_> {
    fn top_member(&mut self, index: u32, name: &str, class: &FieldClass) {
        self.path.push(index);
        if self.place.uuid == Some(index) {
            self.align(class.align().max(8));
            self.step(PlanStepKind::Uuid { offset: self.offset });
        }
        self.field(class, name, false);
        let is_cpu = self.place.scope == Scope::PacketContext && name == "cpu_id";
        match class {
            FieldClass::Integer(Integer {
                width: Width::Bits(width),
                byte_order,
                is_reversed,
                ..
            }) if is_cpu && self.offset >= u64::from(*width) => {
                let offset = self.offset - u64::from(*width);
                let big = *byte_order == ByteOrder::Big;
                let reversed = *is_reversed;
                let bits = Bits { offset, width: *width, big, signed: false, reversed };
                self.step(PlanStepKind::Load { bits, sink: IntegerSink::Cpu });
            }
            FieldClass::Integer(_) if is_cpu => {
                self.step(PlanStepKind::Keep { sink: IntegerSink::Cpu })
            }
            _ => {}
        }
        self.path.pop();
    }

    fn op(&mut self, code: OpCode, info: FieldInfo) {
        self.ops.push(PlanOp { code, info });
    }

    /// Appends an operation that belongs to no field of its own.
    fn aside(&mut self, code: OpCode) {
        let info = match self.ops.last() {
            Some(op) => op.info.clone(),
            None => info(&FieldClass::Structure(Structure::default()), "", false),
        };
        self.op(code, info);
    }

    /// Appends a step for the field whose op was appended last, or is appended next.
    fn step(&mut self, what: PlanStepKind) {
        self.steps.push(PlanStep { what, op: self.ops.len() as u32 });
    }

    fn bad(&mut self, kind: BadKind, info: FieldInfo) {
        self.step(PlanStepKind::Bad(kind));
        self.op(OpCode::Bad, info);
    }

    fn ahead(&mut self, bits: u64) {
        self.offset = self.offset.saturating_add(bits).min(FAR);
    }

    /// Starts a new base after a field of unknown size; the base is a multiple of `known`.
    fn rebase(&mut self, known: u64) {
        self.known = known.clamp(1, 1 << 32);
        self.offset = 0;
        self.order = None;
    }

    /// Returns the greatest known power of two of which the current position is a multiple \[bit\].
    fn multiple(&self) -> u64 {
        self.known.min(divisor(self.offset))
    }

    fn align(&mut self, align: u64) {
        let align = power(align);
        if align <= self.known {
            self.offset = super::window::align_up(self.offset, align).min(FAR);
            return;
        }
        self.step(PlanStepKind::Align { offset: self.offset, align });
        self.aside(OpCode::Align { offset: self.offset, align });
        self.rebase(align);
    }

    /// Appends ops that set the registers in the field to 0, since the field may be absent.
    fn clear(&mut self) {
        let (first, count) = self.place.registers.below(self.place.scope, &self.path);
        if count > 0 {
            self.step(PlanStepKind::Clear { first, count });
            self.aside(OpCode::Clear { first, count });
        }
    }

    fn resolve(&self, location: &Location) -> Option<PlanRegister> {
        let register = self.place.registers.meant(location)?;
        self.place.defined.contains(&register.index).then_some(register)
    }

    /// Appends a check that the integer in `register` is present, for the field whose operation is appended next.
    fn require(&mut self, register: PlanRegister) {
        if let Some(present) = register.present {
            self.step(PlanStepKind::Require { present });
        }
    }

    fn field(&mut self, class: &FieldClass, name: &str, is_element: bool) {
        let info = info(class, name, is_element);
        if self.path.len() as u32 > DEPTH {
            return self.bad(BadKind::TooDeep(DEPTH), info);
        }
        match class {
            FieldClass::Integer(integer) => match integer.width {
                Width::Bits(width @ 1..=64) => self.integer(integer, width, info),
                Width::Bits(width) => self.bad(BadKind::Width(width), info),
                Width::Variable => self.leb(integer, info),
            },
            FieldClass::Real(real) => self.real(real, info),
            FieldClass::String => {
                self.align(8);
                self.step(PlanStepKind::String { offset: self.offset });
                self.op(OpCode::String { offset: self.offset }, info);
                self.rebase(8);
            }
            FieldClass::Text { length } => self.bytes(length, Content::Text, info),
            FieldClass::Blob { length, .. } => {
                self.align(class.align());
                self.bytes(length, Content::Blob, info);
            }
            FieldClass::Wide { length: Some(length), encoding } => {
                self.bytes(length, Content::Wide(*encoding), info);
            }
            FieldClass::Wide { length: None, encoding } => {
                self.align(8);
                let (offset, encoding) = (self.offset, *encoding);
                self.step(PlanStepKind::Wide { offset, encoding });
                self.op(OpCode::Wide { offset, encoding }, info);
                self.rebase(8);
            }
            FieldClass::Structure(structure) => {
                self.align(structure.align());
                self.op(OpCode::BeginStructure, info.clone());
                for (index, member) in (0u32..).zip(&structure.members) {
                    self.path.push(index);
                    self.field(&member.class, &member.name, false);
                    self.path.pop();
                }
                self.op(OpCode::EndStructure, info);
            }
            FieldClass::Array(array) => self.array(array, class.align(), info),
            FieldClass::Variant(variant) => self.variant(variant, info),
            FieldClass::Optional(optional) => self.optional(optional, name, info),
        }
    }

    /// Prepares a number of this byte order. Returns false if its first byte certainly has bits of the other order. If
    /// that depends on where the part begins, or on fields before the number, each record is checked.
    fn number(&mut self, order: ByteOrder, align: u32, width: u8) -> bool {
        let in_byte = self.known >= 8 && self.offset % 8 != 0;
        if in_byte && self.order.is_some_and(|before| before != order) {
            return false;
        }
        self.order = Some(order);
        if self.place.mixed && is_in_byte(align, width) {
            self.step(PlanStepKind::Order { offset: self.offset, big: order == ByteOrder::Big });
        }
        true
    }

    fn integer(&mut self, integer: &Integer, width: u8, info: FieldInfo) {
        self.align(u64::from(integer.align));
        if !self.number(integer.byte_order, integer.align, width) {
            return self.bad(BadKind::MixedOrder, info);
        }
        let big = integer.byte_order == ByteOrder::Big;
        let (signed, reversed) = (integer.signed, integer.is_reversed);
        let bits = Bits { offset: self.offset, width, big, signed, reversed };
        for sink in self.sinks(integer, width) {
            self.step(PlanStepKind::Load { bits, sink });
            if let IntegerSink::Register(register) = sink {
                self.op(OpCode::Load { bits, register }, info.clone());
            }
        }
        let code = self.integer_code(bits);
        self.op(code, info);
        self.ahead(u64::from(width));
    }

    /// Returns the current offset \[byte\] if a number here begins at a whole byte.
    fn whole(&self) -> Option<u32> {
        let is_whole = self.known >= 8 && self.offset % 8 == 0;
        is_whole.then(|| u32::try_from(self.offset / 8).ok()).flatten()
    }

    fn integer_code(&self, bits: Bits) -> OpCode {
        let Some(at) = self.whole().filter(|_| !bits.reversed) else {
            return if bits.signed { OpCode::Signed(bits) } else { OpCode::Unsigned(bits) };
        };
        match (bits.width, bits.signed, bits.big) {
            (8, false, _) => OpCode::U8(at),
            (8, true, _) => OpCode::I8(at),
            (16, false, false) => OpCode::U16Le(at),
            (16, false, true) => OpCode::U16Be(at),
            (16, true, false) => OpCode::I16Le(at),
            (16, true, true) => OpCode::I16Be(at),
            (32, false, false) => OpCode::U32Le(at),
            (32, false, true) => OpCode::U32Be(at),
            (32, true, false) => OpCode::I32Le(at),
            (32, true, true) => OpCode::I32Be(at),
            (64, false, false) => OpCode::U64Le(at),
            (64, false, true) => OpCode::U64Be(at),
            (64, true, false) => OpCode::I64Le(at),
            (64, true, true) => OpCode::I64Be(at),
            (_, false, _) => OpCode::Unsigned(bits),
            (_, true, _) => OpCode::Signed(bits),
        }
    }

    fn leb(&mut self, integer: &Integer, info: FieldInfo) {
        self.align(u64::from(integer.align).max(8));
        self.step(PlanStepKind::Leb { offset: self.offset, signed: integer.signed });
        self.op(OpCode::Leb { offset: self.offset, signed: integer.signed }, info);
        self.rebase(8);
        for sink in self.sinks(integer, 64) {
            self.step(PlanStepKind::Keep { sink });
            if let IntegerSink::Register(register) = sink {
                self.aside(OpCode::Keep { register });
            }
        }
    }

    /// Returns the receivers of an integer's value, and marks the integer's registers as defined.
    fn sinks(&mut self, integer: &Integer, width: u8) -> Vec<IntegerSink> {
        let mut sinks = Vec::new();
        for register in self.place.registers.of_integer(self.place.scope, &self.path) {
            self.place.defined.insert(register.index);
            sinks.push(IntegerSink::Register(register.index));
            sinks.extend(register.present.map(IntegerSink::Present));
        }
        let role = match self.place.scope {
            Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader => integer.role,
            Scope::CommonContext | Scope::SpecificContext | Scope::Payload => None,
        };
        sinks.extend(role.map(IntegerSink::Role));
        let is_end = role == Some(Role::PacketEndTimestamp);
        if integer.clock.is_some() && integer.clock == self.place.clock && !is_end {
            sinks.push(IntegerSink::Clock(width));
        }
        sinks
    }

    fn real(&mut self, real: &Real, info: FieldInfo) {
        if !matches!(real.bits, 16 | 32 | 64) {
            return self.bad(BadKind::Width(real.bits), info);
        }
        self.align(u64::from(real.align));
        if !self.number(real.byte_order, real.align, real.bits) {
            return self.bad(BadKind::MixedOrder, info);
        }
        let big = real.byte_order == ByteOrder::Big;
        let (offset, reversed) = (self.offset, real.is_reversed);
        let code = match (self.whole().filter(|_| !reversed), real.bits, big) {
            (Some(at), 32, false) => OpCode::F32Le(at),
            (Some(at), 32, true) => OpCode::F32Be(at),
            (Some(at), 64, false) => OpCode::F64Le(at),
            (Some(at), 64, true) => OpCode::F64Be(at),
            (_, width, _) => OpCode::Real(Bits { offset, width, big, signed: false, reversed }),
        };
        self.op(code, info);
        self.ahead(u64::from(real.bits));
    }

    fn bytes(&mut self, length: &Length, content: Content, info: FieldInfo) {
        self.align(8);
        let offset = self.offset;
        match length {
            Length::Static(bytes) => {
                let bytes = *bytes;
                let code = match content {
                    Content::Text => OpCode::Text { offset, bytes },
                    Content::Blob => OpCode::Blob { offset, bytes },
                    Content::Wide(encoding) => OpCode::WideText { offset, bytes, encoding },
                };
                self.op(code, info);
                self.ahead(bytes.saturating_mul(8));
                self.order = None;
            }
            Length::Dynamic(location) => {
                let Some(length) = self.resolve(location) else {
                    return self.bad(BadKind::Unresolved, info);
                };
                self.require(length);
                let register = length.index;
                let what =
                    PlanStepKind::Elements { offset, register, stride: 8, bits: 8, empty: 0 };
                self.step(what);
                let code = match content {
                    Content::Text => OpCode::TextOf { offset, register },
                    Content::Blob => OpCode::BlobOf { offset, register },
                    Content::Wide(encoding) => OpCode::WideOf { offset, register, encoding },
                };
                self.op(code, info);
                self.rebase(8);
            }
        }
    }

    fn array(&mut self, array: &Array, align: u64, info: FieldInfo) {
        let (count, register) = match &array.length {
            Length::Static(count) => (Count::Is(*count), None),
            Length::Dynamic(location) => match self.resolve(location) {
                Some(register) => (Count::Of(register.index), Some(register)),
                None => return self.bad(BadKind::Unresolved, info),
            },
        };
        self.align(align);
        self.clear();
        if let Some(register) = register {
            self.require(register);
        }
        let (first_op, first_step) = (self.ops.len(), self.steps.len());
        let index = self.arrays.len();
        let each = power(array.element.align());
        let (start, offset) = ((self.known, self.offset, self.order), self.offset);
        // The element determines these values, which are set below.
        self.arrays.push(ArrayOp {
            count,
            offset,
            stride: None,
            is_fixed: false,
            align: each,
            tail: 0,
            body: 0,
        });
        self.step(PlanStepKind::Spend(0));
        self.op(OpCode::Array(index as u32), info);
        (self.known, self.offset, self.order) = (each, 0, None);
        self.path.push(0);
        self.field(&array.element, "", true);
        self.path.pop();
        let (end_known, tail) = (self.multiple(), self.offset);
        (self.known, self.offset, self.order) = start;

        let body = (self.ops.len() - first_op - 1) as u32;
        let steps = (self.steps.len() - first_step - 1) as u32;
        let fields = u64::from(body) + 1;
        let (stride, what) = if steps > 0 {
            let body = steps;
            (
                None,
                Some(PlanStepKind::Loop { offset, count, align: each, tail, body, empty: fields }),
            )
        } else {
            let stride = super::window::align_up(tail, each).min(FAR);
            let empty = if tail == 0 { fields } else { 0 };
            let what = match count {
                Count::Of(register) => {
                    Some(PlanStepKind::Elements { offset, register, stride, bits: tail, empty })
                }
                Count::Is(count) if empty > 0 => {
                    Some(PlanStepKind::Spend(count.saturating_mul(empty)))
                }
                Count::Is(_) => None,
            };
            (Some(stride), what)
        };
        match what {
            Some(what) => {
                if let Some(step) = self.steps.get_mut(first_step) {
                    step.what = what;
                }
            }
            None => self.steps.truncate(first_step),
        }
        let is_fixed = stride.is_some() && matches!(count, Count::Is(_));
        if let Some(array) = self.arrays.get_mut(index) {
            (array.stride, array.is_fixed) = (stride, is_fixed);
            (array.tail, array.body) = (tail, body);
        }
        match (stride, count) {
            (Some(stride), Count::Is(count)) => {
                let before = count.saturating_sub(1).saturating_mul(stride);
                self.ahead(if count == 0 { 0 } else { before.saturating_add(tail) });
                self.order = None;
            }
            (Some(stride), Count::Of(_)) => {
                self.rebase(self.multiple().min(divisor(stride)).min(divisor(tail)));
            }
            (None, _) => self.rebase(self.multiple().min(end_known)),
        }
    }

    fn variant(&mut self, variant: &Variant, info: FieldInfo) {
        let Some(selector) = self.resolve(&variant.selector) else {
            return self.bad(BadKind::Unresolved, info);
        };
        let options = variant.options.iter().map(|option| Possible {
            name: &option.name,
            ranges: ranges(&option.ranges, selector.signed),
            class: &option.class,
        });
        self.choice(selector, options.collect(), false, info);
    }

    fn optional(&mut self, optional: &Optional, name: &str, info: FieldInfo) {
        let Some(selector) = self.resolve(&optional.selector) else {
            return self.bad(BadKind::Unresolved, info);
        };
        let all_but_0;
        let there = if optional.ranges.is_empty() {
            all_but_0 = [Range { from: i128::MIN, to: -1 }, Range { from: 1, to: i128::MAX }];
            &all_but_0[..]
        } else {
            &optional.ranges
        };
        let ranges = ranges(there, selector.signed);
        let option = Possible { name, ranges, class: &optional.class };
        self.choice(selector, vec![option], true, info);
    }

    fn choice(
        &mut self,
        selector: PlanRegister,
        options: Vec<Possible<'_>>,
        is_optional: bool,
        info: FieldInfo,
    ) {
        self.clear();
        self.require(selector);
        let is_element = info.is_element;
        let (index, turn) = (self.choices.len(), self.turns.len());
        let (known, offset, order) = (self.multiple(), self.offset, self.order);
        let choice = Choice {
            offset,
            register: selector.index,
            signed: selector.signed,
            options: Vec::new(),
            body: 0,
        };
        self.choices.push(choice.clone());
        self.turns.push(choice);
        if is_optional {
            self.step(PlanStepKind::Optional(turn as u32));
            self.op(OpCode::Optional(index as u32), info);
        } else {
            self.step(PlanStepKind::Variant(turn as u32));
            self.op(OpCode::Variant(index as u32), info);
        }
        let (first_op, first_step) = (self.ops.len(), self.steps.len());
        let mut least = if is_optional { known } else { 1 << 32 };
        let (mut of_ops, mut of_steps) = (Vec::new(), Vec::new());
        for (number, Possible { name, ranges, class }) in (0u32..).zip(options) {
            (self.known, self.offset, self.order) = (known, 0, order);
            let (op, step) = (self.ops.len() - first_op, self.steps.len() - first_step);
            self.path.push(number);
            // An option of an element is not itself an element, but the content of an optional element is.
            self.field(class, name, is_element && is_optional);
            self.path.pop();
            least = least.min(self.multiple());
            let (op_end, step_end) = (self.ops.len() - first_op, self.steps.len() - first_step);
            let turn = |from: usize, to: usize| OptionPlan {
                name: Arc::from(name),
                ranges: ranges.clone(),
                from: from as u32,
                to: to as u32,
                tail: self.offset,
            };
            of_ops.push(turn(op, op_end));
            of_steps.push(turn(step, step_end));
        }
        if let Some(choice) = self.choices.get_mut(index) {
            (choice.options, choice.body) = (of_ops, (self.ops.len() - first_op) as u32);
        }
        if let Some(choice) = self.turns.get_mut(turn) {
            (choice.options, choice.body) = (of_steps, (self.steps.len() - first_step) as u32);
        }
        self.rebase(least);
    }
}
