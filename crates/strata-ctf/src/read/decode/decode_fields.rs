//! Decodes the fields of a part one after the other.

use super::bits::{find_nul, leb128, Leb};
use super::plan::{Choice, Count, DecodingPlan, OpCode, PlanOp};
use super::state::DecodeState;
use super::window::align_up;
use crate::read::value::{Value, Wide};
use crate::read::visit::Visit;

/// Receives the fields of a part while they are decoded. For fields with fields in them, the address of `op`
/// identifies the operation in the plan.
pub(super) trait FieldWatcher<'e> {
    /// True if [`FieldWatcher::done`] may end the decoding early.
    const STOPS: bool;
    fn unsigned(&mut self, op: &PlanOp, value: u64);
    fn signed(&mut self, op: &PlanOp, value: i64);
    fn real(&mut self, op: &PlanOp, value: f64);
    fn text(&mut self, op: &PlanOp, bytes: &'e [u8]);
    fn wide(&mut self, op: &PlanOp, text: Wide<'e>);
    fn blob(&mut self, op: &PlanOp, bytes: &'e [u8]);
    fn begin_structure(&mut self, op: &PlanOp);
    fn end_structure(&mut self, op: &PlanOp);
    fn begin_array(&mut self, op: &PlanOp, length: u64);
    fn element(&mut self, op: &PlanOp, index: u64);
    fn end_array(&mut self, op: &PlanOp);
    fn begin_variant(&mut self, op: &PlanOp, option: &str);
    fn end_variant(&mut self, op: &PlanOp);
    fn begin_optional(&mut self, op: &PlanOp);
    fn end_optional(&mut self, op: &PlanOp);
    fn absent(&mut self, op: &PlanOp);
    fn done(&self) -> bool {
        false
    }
}

/// Passes the fields to a caller's visitor.
pub(super) struct TellVisitor<'v, V>(pub &'v mut V);

impl<'e, V: Visit> FieldWatcher<'e> for TellVisitor<'_, V> {
    const STOPS: bool = false;
    #[inline]
    fn unsigned(&mut self, op: &PlanOp, value: u64) {
        self.0.unsigned(&op.info, value);
    }
    #[inline]
    fn signed(&mut self, op: &PlanOp, value: i64) {
        self.0.signed(&op.info, value);
    }
    #[inline]
    fn real(&mut self, op: &PlanOp, value: f64) {
        self.0.real(&op.info, value);
    }
    #[inline]
    fn text(&mut self, op: &PlanOp, bytes: &'e [u8]) {
        self.0.text(&op.info, bytes);
    }
    fn wide(&mut self, op: &PlanOp, text: Wide<'e>) {
        self.0.text(&op.info, text.to_text().as_bytes());
    }
    #[inline]
    fn blob(&mut self, op: &PlanOp, bytes: &'e [u8]) {
        self.0.blob(&op.info, bytes);
    }
    #[inline]
    fn begin_structure(&mut self, op: &PlanOp) {
        self.0.begin_structure(&op.info);
    }
    #[inline]
    fn end_structure(&mut self, op: &PlanOp) {
        self.0.end_structure(&op.info);
    }
    #[inline]
    fn begin_array(&mut self, op: &PlanOp, length: u64) {
        self.0.begin_array(&op.info, length);
    }
    #[inline]
    fn element(&mut self, _: &PlanOp, _: u64) {}
    #[inline]
    fn end_array(&mut self, op: &PlanOp) {
        self.0.end_array(&op.info);
    }
    #[inline]
    fn begin_variant(&mut self, op: &PlanOp, option: &str) {
        self.0.begin_variant(&op.info, option);
    }
    #[inline]
    fn end_variant(&mut self, op: &PlanOp) {
        self.0.end_variant(&op.info);
    }
    #[inline]
    fn begin_optional(&mut self, op: &PlanOp) {
        self.0.begin_optional(&op.info);
    }
    #[inline]
    fn end_optional(&mut self, op: &PlanOp) {
        self.0.end_optional(&op.info);
    }
    #[inline]
    fn absent(&mut self, op: &PlanOp) {
        self.0.absent(&op.info);
    }
}

/// The bytes of a part, and the values of the parts before it.
#[derive(Clone, Copy)]
pub(super) struct PartBytes<'e> {
    /// Bytes that contain the whole part.
    pub bytes: &'e [u8],
    /// Offset of the first of these bytes \[byte of the packet\]; wrapping.
    pub origin: u64,
    /// Begin of the part after alignment \[bit of the packet\].
    pub begin: u64,
    /// The decoding state, with the registers of the whole record.
    pub state: &'e DecodeState,
}

/// The greatest number of registers for which a part needs no allocation.
const REGISTERS: usize = 16;

/// Decodes all fields of a part. Returns the end of the part \[bit of the packet\], or `None` if the bytes are not
/// those in which the end was found.
///
/// Most parts are a few numbers and texts, which this function decodes without calling another one.
#[inline(always)]
pub(super) fn walk<'e, W: FieldWatcher<'e>>(
    plan: &DecodingPlan,
    source: PartBytes<'e>,
    watch: &mut W,
) -> Option<u64> {
    let PartBytes { bytes, origin, begin, state } = source;
    let at = usize::try_from((begin / 8).wrapping_sub(origin)).ok()?;
    let mut rest = bytes.get(at..)?;
    let before = rest.len();
    let left = plain(&plan.ops, &mut rest, watch)?;
    let base = behind_texts(begin, before - rest.len());
    if left.is_empty() {
        return Some(base.wrapping_add(plan.tail));
    }
    // The argument is built here, so that only this path has it in memory.
    all(plan, left, base, &PartBytes { bytes, origin, begin, state }, watch)
}

/// Returns the base after texts, `bytes` bytes from `base` on. The base is at a whole byte if a text came before.
#[inline(always)]
fn behind_texts(base: u64, bytes: usize) -> u64 {
    base.wrapping_add((bytes as u64).wrapping_mul(8))
}

/// Decodes the fields of `ops`, whose offsets count from bit `base`, and passes each to `watch`. Returns the bit after
/// the last one.
#[inline(never)]
fn all<'e, W: FieldWatcher<'e>>(
    plan: &DecodingPlan,
    ops: &[PlanOp],
    base: u64,
    source: &PartBytes<'e>,
    watch: &mut W,
) -> Option<u64> {
    let (mut few, mut many);
    let registers = match plan.registers as usize {
        0 => &mut [][..],
        1..=REGISTERS => {
            few = [0; REGISTERS];
            &mut few[..]
        }
        count => {
            many = vec![0; count];
            &mut many[..]
        }
    };
    let mut walk = PartWalk { plan, source, registers, base: 0, rest: &[], last: 0 };
    walk.rebase(base)?;
    walk.run(ops, watch)?;
    Some(walk.base.saturating_add(plan.tail))
}

struct PartWalk<'p, 'e> {
    plan: &'p DecodingPlan,
    // A reference, since a copy made so soon after the original was written would have to wait for it.
    source: &'p PartBytes<'e>,
    /// Registers of the part.
    registers: &'p mut [u64],
    /// Base of offsets \[bit of the packet\].
    base: u64,
    /// The bytes from the one that contains the base on.
    rest: &'e [u8],
    /// The LEB128 integer that was read last.
    last: u64,
}

#[inline(always)]
fn chunk<const N: usize>(bytes: &[u8], at: u32) -> Option<[u8; N]> {
    let at = at as usize;
    bytes.get(at..at.checked_add(N)?)?.first_chunk().copied()
}

/// Returns the bytes from an offset on, which must be at a whole byte of the packet.
#[inline]
fn behind(rest: &[u8], base: u64, offset: u64) -> Option<&[u8]> {
    rest.get(usize::try_from((base % 8).saturating_add(offset) / 8).ok()?..)
}

/// Returns `bytes` bytes at an offset.
#[inline]
fn slice(rest: &[u8], base: u64, offset: u64, bytes: u64) -> Option<&[u8]> {
    behind(rest, base, offset)?.get(..usize::try_from(bytes).ok()?)
}

/// Returns the bytes before the first NUL.
#[inline]
fn text(bytes: &[u8]) -> &[u8] {
    let end = find_nul(bytes).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or(bytes)
}

/// Converts a floating-point number of 16 bits (5 bits exponent, 10 bits fraction), which 64 bits represent exactly.
#[cold]
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction / 1024.0 * (-14f64).exp2(),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * (f64::from(exponent) - 15.0).exp2(),
    };
    if bits >> 15 == 0 {
        size
    } else {
        -size
    }
}

#[inline]
fn real(bits: u64, width: u8) -> f64 {
    match width {
        16 => half(bits as u16),
        32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// Returns the value of a leaf: a field without fields in it. Its offset counts from the base.
pub(super) fn leaf<'e>(code: OpCode, rest: &'e [u8], base: u64) -> Option<Value<'e>> {
    Some(match code {
        OpCode::U8(at) => Value::Unsigned(u64::from(chunk::<1>(rest, at)?[0])),
        OpCode::I8(at) => Value::Signed(i64::from(chunk::<1>(rest, at)?[0] as i8)),
        OpCode::U16Le(at) => Value::Unsigned(u64::from(u16::from_le_bytes(chunk(rest, at)?))),
        OpCode::U16Be(at) => Value::Unsigned(u64::from(u16::from_be_bytes(chunk(rest, at)?))),
        OpCode::I16Le(at) => Value::Signed(i64::from(i16::from_le_bytes(chunk(rest, at)?))),
        OpCode::I16Be(at) => Value::Signed(i64::from(i16::from_be_bytes(chunk(rest, at)?))),
        OpCode::U32Le(at) => Value::Unsigned(u64::from(u32::from_le_bytes(chunk(rest, at)?))),
        OpCode::U32Be(at) => Value::Unsigned(u64::from(u32::from_be_bytes(chunk(rest, at)?))),
        OpCode::I32Le(at) => Value::Signed(i64::from(i32::from_le_bytes(chunk(rest, at)?))),
        OpCode::I32Be(at) => Value::Signed(i64::from(i32::from_be_bytes(chunk(rest, at)?))),
        OpCode::U64Le(at) => Value::Unsigned(u64::from_le_bytes(chunk(rest, at)?)),
        OpCode::U64Be(at) => Value::Unsigned(u64::from_be_bytes(chunk(rest, at)?)),
        OpCode::I64Le(at) => Value::Signed(i64::from_le_bytes(chunk(rest, at)?)),
        OpCode::I64Be(at) => Value::Signed(i64::from_be_bytes(chunk(rest, at)?)),
        OpCode::F32Le(at) => Value::Real(f64::from(f32::from_le_bytes(chunk(rest, at)?))),
        OpCode::F32Be(at) => Value::Real(f64::from(f32::from_be_bytes(chunk(rest, at)?))),
        OpCode::F64Le(at) => Value::Real(f64::from_le_bytes(chunk(rest, at)?)),
        OpCode::F64Be(at) => Value::Real(f64::from_be_bytes(chunk(rest, at)?)),
        OpCode::Unsigned(bits) => Value::Unsigned(bits.read(rest, base % 8)?),
        OpCode::Signed(bits) => Value::Signed(bits.read(rest, base % 8)? as i64),
        OpCode::Real(bits) => Value::Real(real(bits.read(rest, base % 8)?, bits.width)),
        OpCode::Leb { offset, signed } => {
            match (leb128(behind(rest, base, offset)?, signed), signed) {
                (Leb::Is(value, _), false) => Value::Unsigned(value),
                (Leb::Is(value, _), true) => Value::Signed(value as i64),
                _ => return None,
            }
        }
        OpCode::String { offset } => Value::Text(text(behind(rest, base, offset)?)),
        OpCode::Text { offset, bytes } => Value::Text(text(slice(rest, base, offset, bytes)?)),
        OpCode::Wide { offset, encoding } => {
            Value::Wide(Wide::new(behind(rest, base, offset)?, encoding))
        }
        OpCode::WideText { offset, bytes, encoding } => {
            Value::Wide(Wide::new(slice(rest, base, offset, bytes)?, encoding))
        }
        OpCode::Blob { offset, bytes } => Value::Blob(slice(rest, base, offset, bytes)?),
        _ => return None,
    })
}

/// Reports the elements of an array of whole numbers without padding. Returns false if the elements are something else.
fn numbers<'e, W: FieldWatcher<'e>>(op: &PlanOp, bytes: &'e [u8], watch: &mut W) -> bool {
    #[inline(always)]
    fn each<const N: usize>(bytes: &[u8], tell: impl FnMut([u8; N])) -> bool {
        let whole = bytes.chunks_exact(N).filter_map(|chunk| chunk.first_chunk().copied());
        whole.for_each(tell);
        true
    }
    match op.code {
        OpCode::U8(_) => each(bytes, |n| watch.unsigned(op, u64::from(u8::from_le_bytes(n)))),
        OpCode::I8(_) => each(bytes, |n| watch.signed(op, i64::from(i8::from_le_bytes(n)))),
        OpCode::U16Le(_) => each(bytes, |n| watch.unsigned(op, u64::from(u16::from_le_bytes(n)))),
        OpCode::U16Be(_) => each(bytes, |n| watch.unsigned(op, u64::from(u16::from_be_bytes(n)))),
        OpCode::I16Le(_) => each(bytes, |n| watch.signed(op, i64::from(i16::from_le_bytes(n)))),
        OpCode::I16Be(_) => each(bytes, |n| watch.signed(op, i64::from(i16::from_be_bytes(n)))),
        OpCode::U32Le(_) => each(bytes, |n| watch.unsigned(op, u64::from(u32::from_le_bytes(n)))),
        OpCode::U32Be(_) => each(bytes, |n| watch.unsigned(op, u64::from(u32::from_be_bytes(n)))),
        OpCode::I32Le(_) => each(bytes, |n| watch.signed(op, i64::from(i32::from_le_bytes(n)))),
        OpCode::I32Be(_) => each(bytes, |n| watch.signed(op, i64::from(i32::from_be_bytes(n)))),
        OpCode::U64Le(_) => each(bytes, |n| watch.unsigned(op, u64::from_le_bytes(n))),
        OpCode::U64Be(_) => each(bytes, |n| watch.unsigned(op, u64::from_be_bytes(n))),
        OpCode::I64Le(_) => each(bytes, |n| watch.signed(op, i64::from_le_bytes(n))),
        OpCode::I64Be(_) => each(bytes, |n| watch.signed(op, i64::from_be_bytes(n))),
        OpCode::F32Le(_) => each(bytes, |n| watch.real(op, f64::from(f32::from_le_bytes(n)))),
        OpCode::F32Be(_) => each(bytes, |n| watch.real(op, f64::from(f32::from_be_bytes(n)))),
        OpCode::F64Le(_) => each(bytes, |n| watch.real(op, f64::from_le_bytes(n))),
        OpCode::F64Be(_) => each(bytes, |n| watch.real(op, f64::from_be_bytes(n))),
        _ => false,
    }
}

/// Decodes numbers of whole bytes and texts that end with a NUL, up to the first other operation. Returns that
/// operation and the following ones. `bytes` begins at the base, before and after the call.
#[inline(always)]
fn plain<'p, 'e, W: FieldWatcher<'e>>(
    ops: &'p [PlanOp],
    bytes: &mut &'e [u8],
    watch: &mut W,
) -> Option<&'p [PlanOp]> {
    let mut left = ops;
    let mut rest = *bytes;
    while let Some((op, others)) = left.split_first() {
        match op.code {
            OpCode::String { offset } => {
                let from = rest.get(usize::try_from(offset / 8).ok()?..)?;
                let (text, behind) = from.split_at_checked(find_nul(from)?)?;
                watch.text(op, text);
                rest = behind.get(1..)?;
            }
            OpCode::U8(at) => watch.unsigned(op, u64::from(chunk::<1>(rest, at)?[0])),
            OpCode::I8(at) => watch.signed(op, i64::from(chunk::<1>(rest, at)?[0] as i8)),
            OpCode::U16Le(at) => {
                watch.unsigned(op, u64::from(u16::from_le_bytes(chunk(rest, at)?)));
            }
            OpCode::U16Be(at) => {
                watch.unsigned(op, u64::from(u16::from_be_bytes(chunk(rest, at)?)));
            }
            OpCode::I16Le(at) => {
                watch.signed(op, i64::from(i16::from_le_bytes(chunk(rest, at)?)));
            }
            OpCode::I16Be(at) => {
                watch.signed(op, i64::from(i16::from_be_bytes(chunk(rest, at)?)));
            }
            OpCode::U32Le(at) => {
                watch.unsigned(op, u64::from(u32::from_le_bytes(chunk(rest, at)?)));
            }
            OpCode::U32Be(at) => {
                watch.unsigned(op, u64::from(u32::from_be_bytes(chunk(rest, at)?)));
            }
            OpCode::I32Le(at) => {
                watch.signed(op, i64::from(i32::from_le_bytes(chunk(rest, at)?)));
            }
            OpCode::I32Be(at) => {
                watch.signed(op, i64::from(i32::from_be_bytes(chunk(rest, at)?)));
            }
            OpCode::U64Le(at) => watch.unsigned(op, u64::from_le_bytes(chunk(rest, at)?)),
            OpCode::U64Be(at) => watch.unsigned(op, u64::from_be_bytes(chunk(rest, at)?)),
            OpCode::I64Le(at) => watch.signed(op, i64::from_le_bytes(chunk(rest, at)?)),
            OpCode::I64Be(at) => watch.signed(op, i64::from_be_bytes(chunk(rest, at)?)),
            OpCode::F32Le(at) => {
                watch.real(op, f64::from(f32::from_le_bytes(chunk(rest, at)?)));
            }
            OpCode::F32Be(at) => {
                watch.real(op, f64::from(f32::from_be_bytes(chunk(rest, at)?)));
            }
            OpCode::F64Le(at) => watch.real(op, f64::from_le_bytes(chunk(rest, at)?)),
            OpCode::F64Be(at) => watch.real(op, f64::from_be_bytes(chunk(rest, at)?)),
            _ => {
                *bytes = rest;
                return Some(left);
            }
        }
        left = others;
        if W::STOPS && watch.done() {
            return Some(&[]);
        }
    }
    *bytes = rest;
    Some(left)
}

impl<'p, 'e> PartWalk<'p, 'e> {
    #[inline]
    fn rebase(&mut self, base: u64) -> Option<()> {
        let at = usize::try_from((base / 8).wrapping_sub(self.source.origin)).ok()?;
        self.rest = self.source.bytes.get(at..)?;
        self.base = base;
        Some(())
    }

    #[inline]
    fn register(&self, register: u32) -> u64 {
        let own = register.wrapping_sub(self.plan.first_register);
        let place = if own < self.plan.registers {
            self.registers.get(own as usize)
        } else {
            self.source.state.registers.get(register as usize)
        };
        place.copied().unwrap_or(0)
    }

    fn put(&mut self, register: u32, value: u64) {
        let own = register.wrapping_sub(self.plan.first_register);
        if let Some(place) = self.registers.get_mut(own as usize) {
            *place = value;
        }
    }

    fn run<W: FieldWatcher<'e>>(&mut self, ops: &'p [PlanOp], watch: &mut W) -> Option<()> {
        let mut left = ops;
        let mut rest = self.rest;
        loop {
            let before = rest.len();
            left = plain(left, &mut rest, watch)?;
            self.base = behind_texts(self.base, before - rest.len());
            self.rest = rest;
            let Some((op, others)) = left.split_first() else {
                return Some(());
            };
            left = others;
            match op.code {
                OpCode::Unsigned(bits) => watch.unsigned(op, bits.read(rest, self.base % 8)?),
                OpCode::Signed(bits) => watch.signed(op, bits.read(rest, self.base % 8)? as i64),
                OpCode::Real(bits) => {
                    watch.real(op, real(bits.read(rest, self.base % 8)?, bits.width));
                }
                OpCode::Text { offset, bytes } => {
                    watch.text(op, text(slice(rest, self.base, offset, bytes)?));
                }
                OpCode::Blob { offset, bytes } => {
                    watch.blob(op, slice(rest, self.base, offset, bytes)?);
                }
                OpCode::WideText { offset, bytes, encoding } => {
                    let text = slice(rest, self.base, offset, bytes)?;
                    watch.wide(op, Wide::new(text, encoding));
                }
                OpCode::Wide { offset, encoding } => {
                    let from = behind(rest, self.base, offset)?;
                    let text = Wide::new(from, encoding);
                    watch.wide(op, text);
                    rest = self.ahead(offset, (text.bytes().len() + encoding.unit()) as u64)?;
                }
                OpCode::WideOf { offset, register, encoding } => {
                    let bytes = self.register(register);
                    let text = slice(rest, self.base, offset, bytes)?;
                    watch.wide(op, Wide::new(text, encoding));
                    rest = self.ahead(offset, bytes)?;
                }
                OpCode::BeginStructure => watch.begin_structure(op),
                OpCode::EndStructure => watch.end_structure(op),
                OpCode::TextOf { offset, register } => {
                    let bytes = self.register(register);
                    watch.text(op, text(slice(rest, self.base, offset, bytes)?));
                    rest = self.ahead(offset, bytes)?;
                }
                OpCode::BlobOf { offset, register } => {
                    let bytes = self.register(register);
                    watch.blob(op, slice(rest, self.base, offset, bytes)?);
                    rest = self.ahead(offset, bytes)?;
                }
                OpCode::Leb { offset, signed } => {
                    let Leb::Is(value, bytes) = leb128(behind(rest, self.base, offset)?, signed)
                    else {
                        return None;
                    };
                    match signed {
                        true => watch.signed(op, value as i64),
                        false => watch.unsigned(op, value),
                    }
                    self.last = value;
                    rest = self.ahead(offset, bytes)?;
                }
                OpCode::Array(index) => {
                    left = self.array(op, index, left, watch)?;
                    rest = self.rest;
                }
                OpCode::Variant(index) | OpCode::Optional(index) => {
                    let choice = self.plan.choices.get(index as usize)?;
                    let (body, behind) = left.split_at_checked(choice.body as usize)?;
                    self.choice(op, choice, body, watch)?;
                    (left, rest) = (behind, self.rest);
                }
                OpCode::Align { offset, align } => {
                    self.rebase(align_up(self.base.saturating_add(offset), align))?;
                    rest = self.rest;
                }
                OpCode::Load { bits, register } => {
                    let value = bits.read(rest, self.base % 8)?;
                    self.put(register, value);
                }
                OpCode::Keep { register } => self.put(register, self.last),
                OpCode::Clear { first, count } => {
                    (first..first.saturating_add(count)).for_each(|register| self.put(register, 0));
                }
                // All other ops are decoded by `plain`.
                _ => return None,
            }
            if W::STOPS && watch.done() {
                return Some(());
            }
        }
    }

    #[inline]
    fn ahead(&mut self, offset: u64, bytes: u64) -> Option<&'e [u8]> {
        let from = self.base.saturating_add(offset);
        self.rebase(from.saturating_add(bytes.saturating_mul(8)))?;
        Some(self.rest)
    }

    /// Decodes an array. Returns the ops after those of the array.
    fn array<W: FieldWatcher<'e>>(
        &mut self,
        op: &'p PlanOp,
        index: u32,
        left: &'p [PlanOp],
        watch: &mut W,
    ) -> Option<&'p [PlanOp]> {
        let array = self.plan.arrays.get(index as usize)?;
        let (body, behind) = left.split_at_checked(array.body as usize)?;
        let count = match array.count {
            Count::Is(count) => count,
            Count::Of(register) => self.register(register),
        };
        watch.begin_array(op, count);
        let before = self.base;
        let begin = before.saturating_add(array.offset);
        if let (false, [element], Some(stride)) = (W::STOPS, body, array.stride) {
            let bytes = slice(self.rest, before, array.offset, count.saturating_mul(stride / 8));
            let is_dense = (begin | stride) % 8 == 0 && stride == array.tail;
            if let (true, Some(bytes)) = (is_dense, bytes) {
                if numbers(element, bytes, watch) {
                    watch.end_array(op);
                    let all = count.saturating_mul(stride);
                    self.rebase(if array.is_fixed { before } else { begin.saturating_add(all) })?;
                    return Some(behind);
                }
            }
        }
        let mut at = begin;
        for element in 0..count {
            watch.element(op, element);
            let from = match array.stride {
                Some(stride) => begin.saturating_add(element.saturating_mul(stride)),
                None => align_up(at, array.align),
            };
            self.rebase(from)?;
            self.run(body, watch)?;
            at = self.base.saturating_add(array.tail);
            if W::STOPS && watch.done() {
                return Some(behind);
            }
        }
        watch.end_array(op);
        self.rebase(if array.is_fixed { before } else { at })?;
        Some(behind)
    }

    fn choice<W: FieldWatcher<'e>>(
        &mut self,
        op: &'p PlanOp,
        choice: &'p Choice,
        body: &'p [PlanOp],
        watch: &mut W,
    ) -> Option<()> {
        let is_optional = matches!(op.code, OpCode::Optional(_));
        self.rebase(self.base.saturating_add(choice.offset))?;
        let Some(turn) = choice.find(self.register(choice.register)) else {
            watch.absent(op);
            return is_optional.then_some(());
        };
        if is_optional {
            watch.begin_optional(op);
        } else {
            watch.begin_variant(op, &turn.name);
        }
        self.run(body.get(turn.from as usize..turn.to as usize)?, watch)?;
        if is_optional {
            watch.end_optional(op);
        } else {
            watch.end_variant(op);
        }
        self.rebase(self.base.saturating_add(turn.tail))
    }
}
