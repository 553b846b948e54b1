//! What a part of a packet or a record is compiled to.
//!
//! A plan has the same fields twice: as [`PlanOp`]s for whoever wants to see them, and as [`PlanStep`]s for
//! whoever only wants to know where they end. In both, a field's offset counts from a base: the begin
//! of the part, or the end of the last field before it whose size is not fixed. So fields of fixed size
//! cost no step, and are read where they are.
//!
//! ```text
//! fields   u32 a   u64 b   u16 n   u8 s[n]   u32 c   string t   u8 d
//! base     begin ───────────────────────── > end of s ──────── > end of t
//! ops      a+0     b+4     n+12    s+14      c+0     t+4         d+0
//! steps                    load n  s                 t           tail: 1
//! ```

use std::sync::Arc;

use super::bits::Bits;
use super::stop::BadKind;
use crate::model::schema::{Encoding, Role, Scope};
use crate::read::visit::FieldInfo;

/// How a part is decoded.
#[derive(Debug)]
pub(super) struct DecodingPlan {
    pub scope: Scope,
    /// A power of two \[bit\].
    pub align: u64,
    pub ops: Vec<PlanOp>,
    pub arrays: Vec<ArrayOp>,
    pub choices: Vec<Choice>,
    pub steps: Vec<PlanStep>,
    /// Options of `steps`.
    pub turns: Vec<Choice>,
    /// From the last base to the end \[bit\].
    pub tail: u64,
    /// The registers that are filled here: from this one on, so many.
    pub first_register: u32,
    pub registers: u32,
}

impl DecodingPlan {
    /// Bits of the part, where that is the same for all.
    pub fn fixed(&self) -> Option<u64> {
        self.steps.is_empty().then_some(self.tail)
    }

    /// Whether it begins with any whole byte, and texts are all that is of unknown size in it.
    pub fn has_only_texts(&self) -> bool {
        let is_text = |step: &PlanStep| matches!(step.what, PlanStepKind::String { offset } if offset % 8 == 0);
        self.align <= 8 && !self.steps.is_empty() && self.steps.iter().all(is_text)
    }
}

/// A field, or what is to be done between two.
#[derive(Clone, Debug)]
pub(super) struct PlanOp {
    pub code: OpCode,
    /// The field's; that of the field in front where it is none.
    pub info: FieldInfo,
}

/// What an [`PlanOp`] does. The number in it is the field's offset: in bytes where the name ends in the
/// byte order (those begin with a whole byte of the packet), else in bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum OpCode {
    U8(u32),
    I8(u32),
    U16Le(u32),
    U16Be(u32),
    I16Le(u32),
    I16Be(u32),
    U32Le(u32),
    U32Be(u32),
    I32Le(u32),
    I32Be(u32),
    U64Le(u32),
    U64Be(u32),
    I64Le(u32),
    I64Be(u32),
    F32Le(u32),
    F32Be(u32),
    F64Le(u32),
    F64Be(u32),
    Unsigned(Bits),
    Signed(Bits),
    Real(Bits),
    /// Moves the base behind it.
    Leb {
        offset: u64,
        signed: bool,
    },
    /// Moves the base behind it.
    String {
        offset: u64,
    },
    Text {
        offset: u64,
        bytes: u64,
    },
    Blob {
        offset: u64,
        bytes: u64,
    },
    /// Moves the base behind it.
    Wide {
        offset: u64,
        encoding: Encoding,
    },
    WideText {
        offset: u64,
        bytes: u64,
        encoding: Encoding,
    },
    /// Moves the base behind it.
    WideOf {
        offset: u64,
        register: u32,
        encoding: Encoding,
    },
    /// Moves the base behind it.
    TextOf {
        offset: u64,
        register: u32,
    },
    /// Moves the base behind it.
    BlobOf {
        offset: u64,
        register: u32,
    },
    BeginStructure,
    EndStructure,
    /// Index into [`DecodingPlan::arrays`]; the element's ops follow.
    Array(u32),
    /// Index into [`DecodingPlan::choices`]; the options' ops follow. Moves the base.
    Variant(u32),
    /// Index into [`DecodingPlan::choices`], of one option; its ops follow. Moves the base.
    Optional(u32),
    /// Moves the base to a multiple.
    Align {
        offset: u64,
        align: u64,
    },
    /// A register gets what is there.
    Load {
        bits: Bits,
        register: u32,
    },
    /// A register gets the LEB128 integer that was read last.
    Keep {
        register: u32,
    },
    /// So many registers from one on become 0.
    Clear {
        first: u32,
        count: u32,
    },
    /// The schema makes no sense from here on.
    Bad,
}

/// A number of elements or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Is(u64),
    Of(u32),
}

/// An array's elements.
#[derive(Clone, Debug)]
pub(super) struct ArrayOp {
    pub count: Count,
    pub offset: u64,
    /// Where all elements are of one size: bits from one to the next.
    pub stride: Option<u64>,
    /// All elements are of one size, and as many: the base stays.
    pub is_fixed: bool,
    /// A power of two \[bit\].
    pub align: u64,
    /// Bits of an element from its last base on.
    pub tail: u64,
    /// Ops of an element.
    pub body: u32,
}

/// Options of a variant, or of an optional field.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub offset: u64,
    pub register: u32,
    /// The register has a signed integer.
    pub signed: bool,
    pub options: Vec<OptionPlan>,
    /// Ops, or steps, of all options.
    pub body: u32,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct OptionPlan {
    pub name: Arc<str>,
    /// Both inclusive, moved by [`order`]; in the order of the metadata.
    pub ranges: Vec<(u64, u64)>,
    /// Its ops, or steps, from the first of all options on.
    pub from: u32,
    pub to: u32,
    /// Bits from its last base on.
    pub tail: u64,
}

/// Such that an integer is greater than another if and only if its order is.
#[inline]
pub(super) fn order(value: u64, signed: bool) -> u64 {
    value ^ (u64::from(signed) << 63)
}

impl Choice {
    /// The option for what is in the register.
    #[inline]
    pub fn find(&self, value: u64) -> Option<&OptionPlan> {
        let value = order(value, self.signed);
        let has = |&(from, to): &(u64, u64)| from <= value && value <= to;
        self.options.iter().find(|option| option.ranges.iter().any(has))
    }
}

/// Something without which the end of a part cannot be known.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanStep {
    pub what: PlanStepKind,
    /// The op of the field, for messages.
    pub op: u32,
}

/// Who wants an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerSink {
    Register(u32),
    Role(Role),
    /// `cpu_id` of a packet's context.
    Cpu,
    /// A time of the stream's clock: its lowest bits, so many.
    Clock(u8),
}

/// What a [`PlanStep`] does. Offsets are bits from the base.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlanStepKind {
    Align {
        offset: u64,
        align: u64,
    },
    Load {
        bits: Bits,
        sink: IntegerSink,
    },
    /// Moves the base behind it.
    Leb {
        offset: u64,
        signed: bool,
    },
    /// The LEB128 integer that was read last.
    Keep {
        sink: IntegerSink,
    },
    /// Moves the base behind it.
    String {
        offset: u64,
    },
    /// Moves the base behind it.
    Wide {
        offset: u64,
        encoding: Encoding,
    },
    /// Elements of one size. Moves the base behind them.
    Elements {
        offset: u64,
        register: u32,
        stride: u64,
        /// Bits of the last one.
        bits: u64,
        /// Fields in each that has no bits.
        empty: u64,
    },
    /// Elements of different sizes, whose steps follow. Moves the base behind them.
    Loop {
        offset: u64,
        count: Count,
        align: u64,
        tail: u64,
        body: u32,
        /// Fields in each, if it has no bits.
        empty: u64,
    },
    /// Index into [`DecodingPlan::turns`]; the options' steps follow. Moves the base behind them.
    Variant(u32),
    /// The same with one option, that is taken or not.
    Optional(u32),
    Clear {
        first: u32,
        count: u32,
    },
    /// So many fields without bits.
    Spend(u64),
    Uuid {
        offset: u64,
    },
    /// A number of this byte order begins: not in a byte that has bits of the other.
    Order {
        offset: u64,
        big: bool,
    },
    Bad(BadKind),
}
