//! A path to one field of a part, which is found once by name and then read in each record.

use super::decode_fields::{leaf, walk, FieldWatcher, PartBytes};
use super::plan::{Count, DecodingPlan, OpCode, PlanOp};
use crate::model::schema::Scope;
use crate::read::value::{Value, Wide};
use crate::read::visit::FieldInfo;

/// The greatest depth of arrays whose elements a path can name.
const ARRAYS: usize = 64;

/// Place of a field in a plan.
#[derive(Clone, Debug)]
pub struct FieldPath {
    /// `EventClass::index` of the class to which the plan belongs.
    pub(crate) class: usize,
    pub(crate) scope: Scope,
    info: FieldInfo,
    /// Index of the field's operation in the plan.
    op: usize,
    /// For each array around the field, the index of its op and the index of the element.
    elements: Vec<(usize, u64)>,
    /// Fixed place of the field, as an operation with an offset from the begin of the part; `None` if the place
    /// varies.
    place: Option<OpCode>,
}

/// An integer of whole bytes that is always at the same place of its part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    /// `EventClass::index` of the field's class.
    pub class: u32,
    /// Offset from the part's begin \[byte\].
    at: u32,
    pub scope: Scope,
    bits: u8,
    signed: bool,
}

impl Fixed {
    /// Reads the number from the bytes of its part of the record; an unsigned number above `i64::MAX` becomes negative.
    /// Returns `None` if `part` has fewer than 8 bytes from the number's begin on, even if the number itself is shorter.
    #[inline(always)]
    pub fn read(self, part: &[u8]) -> Option<i64> {
        let word = part.get(self.at as usize..)?.first_chunk::<8>()?;
        let unused = 64 - u32::from(self.bits);
        let word = u64::from_le_bytes(*word).wrapping_shl(unused);
        Some(match self.signed {
            true => (word as i64).wrapping_shr(unused),
            false => word.wrapping_shr(unused) as i64,
        })
    }
}

impl FieldPath {
    /// Returns the place of the field, if it is an integer at a fixed place in its class.
    pub(crate) fn fixed(&self) -> Option<Fixed> {
        let (at, bits, signed) = match self.place? {
            OpCode::U8(at) => (at, 8, false),
            OpCode::I8(at) => (at, 8, true),
            OpCode::U16Le(at) => (at, 16, false),
            OpCode::I16Le(at) => (at, 16, true),
            OpCode::U32Le(at) => (at, 32, false),
            OpCode::I32Le(at) => (at, 32, true),
            OpCode::U64Le(at) => (at, 64, false),
            OpCode::I64Le(at) => (at, 64, true),
            _ => return None,
        };
        Some(Fixed { class: u32::try_from(self.class).ok()?, at, scope: self.scope, bits, signed })
    }

    pub(crate) fn info(&self) -> &FieldInfo {
        &self.info
    }

    /// Returns whether both paths lead to the same field of the same class.
    pub(crate) fn is_same(&self, other: &FieldPath) -> bool {
        let place = |path: &FieldPath| (path.class, path.scope, path.op);
        place(self) == place(other) && self.elements == other.elements
    }

    /// Returns whether the other path leads to an element of this list.
    pub(crate) fn is_list_of(&self, other: &FieldPath) -> bool {
        let list = other.elements.first().map(|(list, _)| *list);
        (self.class, self.scope) == (other.class, other.scope) && list == Some(self.op)
    }

    /// Finds the field of this name: `member`, `structure.member`, `array[3]`, `array[3].member`, `variant.option`,
    /// `variant.option.member`.
    pub(super) fn find(plan: &DecodingPlan, class: usize, name: &str) -> Option<FieldPath> {
        let mut at = 0..plan.ops.len();
        let mut found = None;
        let mut elements = Vec::new();
        for part in name.split('.') {
            let (member, indexes) = match part.find('[') {
                Some(bracket) => part.split_at_checked(bracket)?,
                None => (part, ""),
            };
            let mut op = find_child(plan, at, member)?;
            for index in indexes.split_terminator(']') {
                let index = index.strip_prefix('[')?.parse().ok()?;
                let OpCode::Array(array) = plan.ops.get(op)?.code else {
                    return None;
                };
                elements.push((op, index));
                let body = plan.arrays.get(array as usize)?.body as usize;
                op = first_child(plan, op + 1..op + 1 + body)?;
            }
            if !indexes.is_empty() && !indexes.ends_with(']') {
                return None;
            }
            at = children(plan, op)?;
            found = Some(op);
        }
        let op = found.filter(|_| elements.len() <= ARRAYS)?;
        let info = plan.ops.get(op)?.info.clone();
        let place = place(plan, op, &elements);
        Some(FieldPath { class, scope: plan.scope, info, op, elements, place })
    }

    /// Reads the field's value from a record; `None` if the record does not have the field.
    #[inline]
    pub(super) fn value<'e>(
        &self,
        plan: &DecodingPlan,
        source: PartBytes<'e>,
    ) -> Option<Value<'e>> {
        if let Some(code) = self.place {
            let at = (source.begin / 8).wrapping_sub(source.origin);
            let rest = source.bytes.get(usize::try_from(at).ok()?..)?;
            return leaf(code, rest, source.begin);
        }
        self.search(plan, source)
    }

    #[inline(never)]
    fn search<'e>(&self, plan: &DecodingPlan, source: PartBytes<'e>) -> Option<Value<'e>> {
        let mut search = FieldSearch { path: self, plan, inside: 0, value: None };
        // The result is of no use, since the walk ends at the field.
        let _ = walk(plan, source, &mut search);
        search.value
    }
}

/// Returns the number of operations after `op` that belong to the same field.
fn body(plan: &DecodingPlan, op: usize) -> usize {
    let Some(found) = plan.ops.get(op) else { return 0 };
    match found.code {
        OpCode::Array(index) => plan.arrays.get(index as usize).map_or(0, |array| array.body),
        OpCode::Variant(index) | OpCode::Optional(index) => {
            plan.choices.get(index as usize).map_or(0, |choice| choice.body)
        }
        _ => return structure(plan, op),
    }
    .try_into()
    .unwrap_or(usize::MAX)
}

/// Returns the number of ops from a structure's begin to its end.
fn structure(plan: &DecodingPlan, begin: usize) -> usize {
    let mut depth = 0u32;
    for (index, op) in plan.ops.iter().enumerate().skip(begin) {
        match op.code {
            OpCode::BeginStructure => depth += 1,
            OpCode::EndStructure => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index - begin;
        }
    }
    0
}

fn is_field(code: OpCode) -> bool {
    !matches!(
        code,
        OpCode::Align { .. }
            | OpCode::Load { .. }
            | OpCode::Keep { .. }
            | OpCode::Clear { .. }
            | OpCode::EndStructure
    )
}

/// Returns the op of an optional field's content, or the op itself for any other field.
fn content(plan: &DecodingPlan, op: usize) -> Option<usize> {
    match plan.ops.get(op)?.code {
        OpCode::Optional(_) => first_child(plan, op + 1..op + 1 + body(plan, op)),
        _ => Some(op),
    }
}

fn first_child(plan: &DecodingPlan, within: std::ops::Range<usize>) -> Option<usize> {
    let first = plan.ops.get(within.clone())?.iter().position(|op| is_field(op.code))?;
    content(plan, within.start + first)
}

fn find_child(plan: &DecodingPlan, within: std::ops::Range<usize>, name: &str) -> Option<usize> {
    let mut at = within.start;
    while at < within.end {
        let op = plan.ops.get(at)?;
        if is_field(op.code) && !op.info.is_element && &*op.info.name == name {
            return content(plan, at);
        }
        at += 1 + body(plan, at);
    }
    None
}

/// Returns the direct fields of a part, without the fields in them.
pub(super) fn members(plan: &DecodingPlan) -> impl Iterator<Item = &FieldInfo> {
    let mut at = 0;
    std::iter::from_fn(move || loop {
        let op = plan.ops.get(at)?;
        at += 1 + body(plan, at);
        if is_field(op.code) {
            return Some(&op.info);
        }
    })
}

/// Returns the ops of the fields that a dot after this field leads to.
fn children(plan: &DecodingPlan, op: usize) -> Option<std::ops::Range<usize>> {
    Some(match plan.ops.get(op)?.code {
        OpCode::BeginStructure | OpCode::Variant(_) => op + 1..op + 1 + body(plan, op),
        _ => 0..0,
    })
}

/// Returns the op with an offset from the part's begin, if the field is always at the same place.
fn place(plan: &DecodingPlan, op: usize, elements: &[(usize, u64)]) -> Option<OpCode> {
    let stays = |op: &PlanOp| match op.code {
        OpCode::Leb { .. }
        | OpCode::String { .. }
        | OpCode::TextOf { .. }
        | OpCode::Wide { .. }
        | OpCode::WideOf { .. }
        | OpCode::BlobOf { .. }
        | OpCode::Variant(_)
        | OpCode::Optional(_)
        | OpCode::Align { .. }
        | OpCode::Bad => false,
        OpCode::Array(index) => plan.arrays.get(index as usize).is_some_and(|array| array.is_fixed),
        _ => true,
    };
    if !plan.ops.get(..op)?.iter().all(stays) {
        return None;
    }
    let mut by = 0u64;
    for &(array, element) in elements {
        let OpCode::Array(index) = plan.ops.get(array)?.code else { return None };
        let array = plan.arrays.get(index as usize)?;
        match array.count {
            Count::Is(count) if element < count => {}
            _ => return None,
        }
        by = by.checked_add(array.offset)?.checked_add(element.checked_mul(array.stride?)?)?;
    }
    moved(plan.ops.get(op)?.code, by)
}

/// Returns the op with its offset increased by `by` bits; `None` for operations of other fields than leaves.
fn moved(code: OpCode, by: u64) -> Option<OpCode> {
    let byte = |at: u32| {
        let by = (by % 8 == 0).then(|| u32::try_from(by / 8).ok()).flatten();
        at.checked_add(by?)
    };
    let bits = |mut bits: super::bits::Bits| {
        bits.offset = bits.offset.checked_add(by)?;
        Some(bits)
    };
    Some(match code {
        OpCode::U8(at) => OpCode::U8(byte(at)?),
        OpCode::I8(at) => OpCode::I8(byte(at)?),
        OpCode::U16Le(at) => OpCode::U16Le(byte(at)?),
        OpCode::U16Be(at) => OpCode::U16Be(byte(at)?),
        OpCode::I16Le(at) => OpCode::I16Le(byte(at)?),
        OpCode::I16Be(at) => OpCode::I16Be(byte(at)?),
        OpCode::U32Le(at) => OpCode::U32Le(byte(at)?),
        OpCode::U32Be(at) => OpCode::U32Be(byte(at)?),
        OpCode::I32Le(at) => OpCode::I32Le(byte(at)?),
        OpCode::I32Be(at) => OpCode::I32Be(byte(at)?),
        OpCode::U64Le(at) => OpCode::U64Le(byte(at)?),
        OpCode::U64Be(at) => OpCode::U64Be(byte(at)?),
        OpCode::I64Le(at) => OpCode::I64Le(byte(at)?),
        OpCode::I64Be(at) => OpCode::I64Be(byte(at)?),
        OpCode::F32Le(at) => OpCode::F32Le(byte(at)?),
        OpCode::F32Be(at) => OpCode::F32Be(byte(at)?),
        OpCode::F64Le(at) => OpCode::F64Le(byte(at)?),
        OpCode::F64Be(at) => OpCode::F64Be(byte(at)?),
        OpCode::Unsigned(at) => OpCode::Unsigned(bits(at)?),
        OpCode::Signed(at) => OpCode::Signed(bits(at)?),
        OpCode::Real(at) => OpCode::Real(bits(at)?),
        OpCode::Leb { offset, signed } => OpCode::Leb { offset: offset.checked_add(by)?, signed },
        OpCode::String { offset } => OpCode::String { offset: offset.checked_add(by)? },
        OpCode::Text { offset, bytes } => OpCode::Text { offset: offset.checked_add(by)?, bytes },
        OpCode::Wide { offset, encoding } => {
            OpCode::Wide { offset: offset.checked_add(by)?, encoding }
        }
        OpCode::WideText { offset, bytes, encoding } => {
            OpCode::WideText { offset: offset.checked_add(by)?, bytes, encoding }
        }
        OpCode::Blob { offset, bytes } => OpCode::Blob { offset: offset.checked_add(by)?, bytes },
        _ => return None,
    })
}

/// A visitor that picks the value of one field, named by a path, while a record is decoded.
struct FieldSearch<'s, 'e> {
    path: &'s FieldPath,
    plan: &'s DecodingPlan,
    /// Bit i is set while decoding is within the element that [`FieldPath::elements`] has at index i.
    inside: u64,
    value: Option<Value<'e>>,
}

impl<'e> FieldSearch<'_, 'e> {
    fn is(&self, op: &PlanOp, index: usize) -> bool {
        self.plan.ops.get(index).is_some_and(|of| std::ptr::eq(of, op))
    }

    fn offer(&mut self, op: &PlanOp, value: Value<'e>) {
        let all = match self.path.elements.len() {
            0 => 0,
            count => u64::MAX >> (64 - count.min(64)),
        };
        if self.inside == all && self.is(op, self.path.op) {
            self.value = Some(value);
        }
    }
}

impl<'e> FieldWatcher<'e> for FieldSearch<'_, 'e> {
    const STOPS: bool = true;
    fn unsigned(&mut self, op: &PlanOp, value: u64) {
        self.offer(op, Value::Unsigned(value));
    }
    fn signed(&mut self, op: &PlanOp, value: i64) {
        self.offer(op, Value::Signed(value));
    }
    fn real(&mut self, op: &PlanOp, value: f64) {
        self.offer(op, Value::Real(value));
    }
    fn text(&mut self, op: &PlanOp, bytes: &'e [u8]) {
        self.offer(op, Value::Text(bytes));
    }
    fn wide(&mut self, op: &PlanOp, text: Wide<'e>) {
        self.offer(op, Value::Wide(text));
    }
    fn blob(&mut self, op: &PlanOp, bytes: &'e [u8]) {
        self.offer(op, Value::Blob(bytes));
    }
    fn begin_structure(&mut self, op: &PlanOp) {
        self.offer(op, Value::Compound);
    }
    fn end_structure(&mut self, _: &PlanOp) {}
    fn begin_array(&mut self, op: &PlanOp, _: u64) {
        self.offer(op, Value::Compound);
    }
    fn element(&mut self, op: &PlanOp, index: u64) {
        for (bit, &(array, element)) in self.path.elements.iter().enumerate().take(ARRAYS) {
            if self.is(op, array) {
                let is_it = u64::from(index == element);
                self.inside = self.inside & !(1 << bit) | is_it << bit;
            }
        }
    }
    fn end_array(&mut self, op: &PlanOp) {
        self.element(op, u64::MAX);
    }
    fn begin_variant(&mut self, op: &PlanOp, _: &str) {
        self.offer(op, Value::Compound);
    }
    fn end_variant(&mut self, _: &PlanOp) {}
    fn begin_optional(&mut self, _: &PlanOp) {}
    fn end_optional(&mut self, _: &PlanOp) {}
    fn absent(&mut self, _: &PlanOp) {}
    fn done(&self) -> bool {
        self.value.is_some()
    }
}
