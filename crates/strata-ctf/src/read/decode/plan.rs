//! The compiled form of one part of a packet or a record (a header, a context, a payload).
//!
//! A plan has the same fields twice: as [`PlanOp`]s for readers of values, and as [`PlanStep`]s for readers that need
//! only the end of the part. In both, a field's offset counts from a base: the begin of the part, or the end of the
//! last field before it whose size is not fixed. So fields of fixed size cost no step, and are read where they are.
//!
//! ```text
//! fields   u32 a   u64 b   u16 n   u8 s[n]   u32 c   string t   u8 d
//! base     begin ───────────────────────── > end of s ──────── > end of t
//! ops      a+0     b+4     n+12    s+14      c+0     t+4         d+0
//! steps                    load n  s                 t           tail: 1
//! ```

use std::sync::Arc;

use super::bits::Bits;
use super::stop_reason::BadKind;
use crate::model::schema::{Encoding, Role, Scope};
use crate::read::visit::FieldInfo;

/// Instructions to decode one part of a packet or a record; see the module's comment.
#[derive(Debug)]
pub(super) struct DecodingPlan {
    pub scope: Scope,
    /// Alignment of the part, a power of two \[bit\].
    pub align: u64,
    pub ops: Vec<PlanOp>,
    pub arrays: Vec<ArrayOp>,
    pub choices: Vec<Choice>,
    pub steps: Vec<PlanStep>,
    /// The options of the variants in `steps`. Steps refer to them by index.
    pub turns: Vec<Choice>,
    /// Size of the fields of fixed size after the last base of offsets \[bit\].
    pub tail: u64,
    /// Index of the first register that this part fills; `registers` is the number of such registers.
    pub first_register: u32,
    pub registers: u32,
}

impl DecodingPlan {
    /// Returns the size of the part if it is the same in all records \[bit\].
    pub fn fixed(&self) -> Option<u64> {
        self.steps.is_empty().then_some(self.tail)
    }

    /// Returns true if the part may begin at any whole byte and all its fields of unknown size are texts.
    pub fn has_only_texts(&self) -> bool {
        let is_text = |step: &PlanStep| matches!(step.what, PlanStepKind::String { offset } if offset % 8 == 0);
        self.align <= 8 && !self.steps.is_empty() && self.steps.iter().all(is_text)
    }
}

/// A field, or an operation between two fields.
#[derive(Clone, Debug)]
pub(super) struct PlanOp {
    pub code: OpCode,
    /// The field that the operation reads; for an operation without a field, that of the operation before it.
    pub info: FieldInfo,
}

/// The operation of a [`PlanOp`], with the offset of the field. The offset is in bytes if the variant's name ends in
/// the byte order (such fields begin at a whole byte of the packet), else in bits.
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
    /// An integer in LEB128, whose length varies. The fields after it are found from its end.
    Leb {
        offset: u64,
        signed: bool,
    },
    /// A text that ends with a NUL. The base moves to the text's end.
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
    /// A text of wide characters (2 or 4 bytes each) that ends with a NUL. Offsets of later steps count from its end.
    Wide {
        offset: u64,
        encoding: Encoding,
    },
    WideText {
        offset: u64,
        bytes: u64,
        encoding: Encoding,
    },
    /// A text of wide characters whose length an earlier step has put into a register. Offsets of later steps count from
    /// its end.
    WideOf {
        offset: u64,
        register: u32,
        encoding: Encoding,
    },
    /// A text whose length an earlier step has put into a register. Offsets of later steps count from its end.
    TextOf {
        offset: u64,
        register: u32,
    },
    /// Bytes whose number an earlier step has put into a register. Offsets of later steps count from their end.
    BlobOf {
        offset: u64,
        register: u32,
    },
    BeginStructure,
    EndStructure,
    /// An array, as an index into [`DecodingPlan::arrays`]. The element's ops follow.
    Array(u32),
    /// A variant, as an index into [`DecodingPlan::choices`]. The options' operations follow. The base moves
    /// after the variant.
    Variant(u32),
    /// An optional field, as an index into [`DecodingPlan::choices`], with one option whose ops follow. The base moves
    /// after the field.
    Optional(u32),
    /// Moves the base to the next multiple of `align`.
    Align {
        offset: u64,
        align: u64,
    },
    /// Copies an integer into a register, from which a later length or selector is read.
    Load {
        bits: Bits,
        register: u32,
    },
    /// Copies the LEB128 integer that was read last into a register.
    Keep {
        register: u32,
    },
    /// Sets several registers to 0.
    Clear {
        first: u32,
        count: u32,
    },
    /// A field that cannot be decoded: decoding ends with an error here.
    Bad,
}

/// A number of elements or bytes: fixed, or the value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Is(u64),
    Of(u32),
}

/// An array: how many elements it has and how they are decoded.
#[derive(Clone, Debug)]
pub(super) struct ArrayOp {
    pub count: Count,
    pub offset: u64,
    /// Distance from one element to the next, if all elements have the same size \[bit\].
    pub stride: Option<u64>,
    /// True if all elements have the same size and their number is fixed, so that the base stays.
    pub is_fixed: bool,
    /// Alignment, a power of two \[bit\].
    pub align: u64,
    /// Size of an element's fields after its last base \[bit\].
    pub tail: u64,
    /// The number of operations for one element.
    pub body: u32,
}

/// Options of a variant, or of an optional field.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub offset: u64,
    pub register: u32,
    /// True if the register has a signed integer.
    pub signed: bool,
    pub options: Vec<OptionPlan>,
    /// The number of ops, or steps, of all options together.
    pub body: u32,
}

/// One option of a variant, with the selector values that choose it.
#[derive(Clone, Debug)]
pub(super) struct OptionPlan {
    pub name: Arc<str>,
    /// Selector values of the option, both ends inclusive, mapped by [`order`]; in the order of the metadata.
    pub ranges: Vec<(u64, u64)>,
    /// The option's ops, or steps: from `from` up to `to`, counted from the first one of all options.
    pub from: u32,
    pub to: u32,
    /// Size of the option's fields after its last base \[bit\].
    pub tail: u64,
}

/// Maps an integer's bits to an unsigned number that sorts as the integer does.
#[inline]
pub(super) fn order(value: u64, signed: bool) -> u64 {
    value ^ (u64::from(signed) << 63)
}

impl Choice {
    /// Returns the option that the register's value selects.
    #[inline]
    pub fn find(&self, value: u64) -> Option<&OptionPlan> {
        let value = order(value, self.signed);
        let has = |&(from, to): &(u64, u64)| from <= value && value <= to;
        self.options.iter().find(|option| option.ranges.iter().any(has))
    }
}

/// A piece of work without which the end of a part cannot be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanStep {
    pub what: PlanStepKind,
    /// Index of the field's op, for messages.
    pub op: u32,
}

/// A receiver of an integer's value, in addition to the visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerSink {
    Register(u32),
    /// The register gets 1 whatever the integer's value is: the integer is present.
    Present(u32),
    Role(Role),
    /// The integer is `cpu_id` of a packet's context.
    Cpu,
    /// The integer has the lowest bits of a time of the stream's clock; the number of bits.
    Clock(u8),
}

/// The work of a [`PlanStep`]. Offsets count from the base \[bit\].
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
    /// An integer in LEB128. The base moves to the integer's end.
    Leb {
        offset: u64,
        signed: bool,
    },
    /// Passes on the LEB128 integer that was read last.
    Keep {
        sink: IntegerSink,
    },
    /// A text that ends with a NUL. The base moves to the text's end.
    String {
        offset: u64,
    },
    /// A text of wide characters (2 or 4 bytes each) that ends with a NUL. Offsets of later steps count from its end.
    Wide {
        offset: u64,
        encoding: Encoding,
    },
    /// Elements of one size. The base moves after them.
    Elements {
        offset: u64,
        register: u32,
        stride: u64,
        /// Size of the last element \[bit\].
        bits: u64,
        /// Number of fields in each element, if elements have no bits.
        empty: u64,
    },
    /// Elements of different sizes, whose steps follow. The base moves after them.
    Loop {
        offset: u64,
        count: Count,
        align: u64,
        tail: u64,
        body: u32,
        /// Number of fields in each element, if elements have no bits.
        empty: u64,
    },
    /// A variant, as an index into [`DecodingPlan::turns`]. The options' steps follow. The base moves after the
    /// variant.
    Variant(u32),
    /// An optional field: a choice with one option, which is taken or not.
    Optional(u32),
    Clear {
        first: u32,
        count: u32,
    },
    /// Continues only if register `present` is not 0, so that the length or selector has a value; else reports an
    /// error.
    Require {
        present: u32,
    },
    /// Counts this number of fields without bits.
    Spend(u64),
    Uuid {
        offset: u64,
    },
    /// Checks that the byte in which a number begins has no bits of the other byte order.
    Order {
        offset: u64,
        big: bool,
    },
    Bad(BadKind),
}
