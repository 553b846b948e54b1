//! One field of a part: found by name once, then read in each record.

use super::plan::{Code, Count, Op, Plan};
use super::walk::{leaf, walk, Source, Watch};
use crate::model::schema::Scope;
use crate::read::value::{Value, Wide};
use crate::read::visit::FieldInfo;

/// Arrays in arrays whose elements a path may name.
const ARRAYS: usize = 64;

/// Where a field is in a plan.
#[derive(Clone, Debug)]
pub struct Path {
    /// `EventClass::index` of the class whose plan it is.
    pub(crate) class: usize,
    pub(crate) scope: Scope,
    info: FieldInfo,
    /// Index of its op.
    op: usize,
    /// Indexes of the ops of the arrays around it, and which of their elements it is in.
    elements: Vec<(usize, u64)>,
    /// It is always at the same place: as its op, but from the begin of the part.
    place: Option<Code>,
}

/// An integer of whole bytes that is always at the same place of its part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    /// `EventClass::index` of the class whose field it is.
    pub class: u32,
    /// From the part's begin \[byte\].
    at: u32,
    pub scope: Scope,
    bits: u8,
    signed: bool,
}

impl Fixed {
    /// The number, in bytes of which the first is that in which its part begins; as two's complement. `None`: too few
    /// bytes are behind it to be read as one of 64 bits.
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

impl Path {
    /// The same, for a class whose field is such an integer.
    pub(crate) fn fixed(&self) -> Option<Fixed> {
        let (at, bits, signed) = match self.place? {
            Code::U8(at) => (at, 8, false),
            Code::I8(at) => (at, 8, true),
            Code::U16Le(at) => (at, 16, false),
            Code::I16Le(at) => (at, 16, true),
            Code::U32Le(at) => (at, 32, false),
            Code::I32Le(at) => (at, 32, true),
            Code::U64Le(at) => (at, 64, false),
            Code::I64Le(at) => (at, 64, true),
            _ => return None,
        };
        Some(Fixed { class: u32::try_from(self.class).ok()?, at, scope: self.scope, bits, signed })
    }

    pub(crate) fn info(&self) -> &FieldInfo {
        &self.info
    }

    /// The field of this name: `member`, `structure.member`, `array[3]`, `array[3].member`,
    /// `variant.option`, `variant.option.member`.
    pub(super) fn find(plan: &Plan, class: usize, name: &str) -> Option<Path> {
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
                let Code::Array(array) = plan.ops.get(op)?.code else {
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
        Some(Path { class, scope: plan.scope, info, op, elements, place })
    }

    /// What is in it; `None`: it is not there.
    #[inline]
    pub(super) fn value<'e>(&self, plan: &Plan, source: Source<'e>) -> Option<Value<'e>> {
        if let Some(code) = self.place {
            let at = (source.begin / 8).wrapping_sub(source.origin);
            let rest = source.bytes.get(usize::try_from(at).ok()?..)?;
            return leaf(code, rest, source.begin);
        }
        self.search(plan, source)
    }

    #[inline(never)]
    fn search<'e>(&self, plan: &Plan, source: Source<'e>) -> Option<Value<'e>> {
        let mut search = Search { path: self, plan, inside: 0, value: None };
        // Stopped on the way, it has no end.
        let _ = walk(plan, source, &mut search);
        search.value
    }
}

/// What is behind an op and belongs to it.
fn body(plan: &Plan, op: usize) -> usize {
    let Some(found) = plan.ops.get(op) else { return 0 };
    match found.code {
        Code::Array(index) => plan.arrays.get(index as usize).map_or(0, |array| array.body),
        Code::Variant(index) | Code::Optional(index) => {
            plan.choices.get(index as usize).map_or(0, |choice| choice.body)
        }
        _ => return structure(plan, op),
    }
    .try_into()
    .unwrap_or(usize::MAX)
}

/// Ops from a structure's begin to its end.
fn structure(plan: &Plan, begin: usize) -> usize {
    let mut depth = 0u32;
    for (index, op) in plan.ops.iter().enumerate().skip(begin) {
        match op.code {
            Code::BeginStructure => depth += 1,
            Code::EndStructure => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index - begin;
        }
    }
    0
}

fn is_field(code: Code) -> bool {
    !matches!(
        code,
        Code::Align { .. }
            | Code::Load { .. }
            | Code::Keep { .. }
            | Code::Clear { .. }
            | Code::EndStructure
    )
}

/// The op of the field itself, where it is optional.
fn content(plan: &Plan, op: usize) -> Option<usize> {
    match plan.ops.get(op)?.code {
        Code::Optional(_) => first_child(plan, op + 1..op + 1 + body(plan, op)),
        _ => Some(op),
    }
}

fn first_child(plan: &Plan, within: std::ops::Range<usize>) -> Option<usize> {
    let first = plan.ops.get(within.clone())?.iter().position(|op| is_field(op.code))?;
    content(plan, within.start + first)
}

fn find_child(plan: &Plan, within: std::ops::Range<usize>, name: &str) -> Option<usize> {
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

/// The fields of a part, without those that are in them.
pub(super) fn members(plan: &Plan) -> impl Iterator<Item = &FieldInfo> {
    let mut at = 0;
    std::iter::from_fn(move || loop {
        let op = plan.ops.get(at)?;
        at += 1 + body(plan, at);
        if is_field(op.code) {
            return Some(&op.info);
        }
    })
}

/// Where the fields are that a dot leads to.
fn children(plan: &Plan, op: usize) -> Option<std::ops::Range<usize>> {
    Some(match plan.ops.get(op)?.code {
        Code::BeginStructure | Code::Variant(_) => op + 1..op + 1 + body(plan, op),
        _ => 0..0,
    })
}

/// The op as it would be if its offset were from the part's begin, if that is possible.
fn place(plan: &Plan, op: usize, elements: &[(usize, u64)]) -> Option<Code> {
    let stays = |op: &Op| match op.code {
        Code::Leb { .. }
        | Code::String { .. }
        | Code::TextOf { .. }
        | Code::Wide { .. }
        | Code::WideOf { .. }
        | Code::BlobOf { .. }
        | Code::Variant(_)
        | Code::Optional(_)
        | Code::Align { .. }
        | Code::Bad => false,
        Code::Array(index) => plan.arrays.get(index as usize).is_some_and(|array| array.is_fixed),
        _ => true,
    };
    if !plan.ops.get(..op)?.iter().all(stays) {
        return None;
    }
    let mut by = 0u64;
    for &(array, element) in elements {
        let Code::Array(index) = plan.ops.get(array)?.code else { return None };
        let array = plan.arrays.get(index as usize)?;
        match array.count {
            Count::Is(count) if element < count => {}
            _ => return None,
        }
        by = by.checked_add(array.offset)?.checked_add(element.checked_mul(array.stride?)?)?;
    }
    moved(plan.ops.get(op)?.code, by)
}

/// The op with an offset that is greater by so many bits; only of leaves.
fn moved(code: Code, by: u64) -> Option<Code> {
    let byte = |at: u32| {
        let by = (by % 8 == 0).then(|| u32::try_from(by / 8).ok()).flatten();
        at.checked_add(by?)
    };
    let bits = |mut bits: super::bits::Bits| {
        bits.offset = bits.offset.checked_add(by)?;
        Some(bits)
    };
    Some(match code {
        Code::U8(at) => Code::U8(byte(at)?),
        Code::I8(at) => Code::I8(byte(at)?),
        Code::U16Le(at) => Code::U16Le(byte(at)?),
        Code::U16Be(at) => Code::U16Be(byte(at)?),
        Code::I16Le(at) => Code::I16Le(byte(at)?),
        Code::I16Be(at) => Code::I16Be(byte(at)?),
        Code::U32Le(at) => Code::U32Le(byte(at)?),
        Code::U32Be(at) => Code::U32Be(byte(at)?),
        Code::I32Le(at) => Code::I32Le(byte(at)?),
        Code::I32Be(at) => Code::I32Be(byte(at)?),
        Code::U64Le(at) => Code::U64Le(byte(at)?),
        Code::U64Be(at) => Code::U64Be(byte(at)?),
        Code::I64Le(at) => Code::I64Le(byte(at)?),
        Code::I64Be(at) => Code::I64Be(byte(at)?),
        Code::F32Le(at) => Code::F32Le(byte(at)?),
        Code::F32Be(at) => Code::F32Be(byte(at)?),
        Code::F64Le(at) => Code::F64Le(byte(at)?),
        Code::F64Be(at) => Code::F64Be(byte(at)?),
        Code::Unsigned(at) => Code::Unsigned(bits(at)?),
        Code::Signed(at) => Code::Signed(bits(at)?),
        Code::Real(at) => Code::Real(bits(at)?),
        Code::Leb { offset, signed } => Code::Leb { offset: offset.checked_add(by)?, signed },
        Code::String { offset } => Code::String { offset: offset.checked_add(by)? },
        Code::Text { offset, bytes } => Code::Text { offset: offset.checked_add(by)?, bytes },
        Code::Wide { offset, encoding } => Code::Wide { offset: offset.checked_add(by)?, encoding },
        Code::WideText { offset, bytes, encoding } => {
            Code::WideText { offset: offset.checked_add(by)?, bytes, encoding }
        }
        Code::Blob { offset, bytes } => Code::Blob { offset: offset.checked_add(by)?, bytes },
        _ => return None,
    })
}

/// Waits for one field.
struct Search<'s, 'e> {
    path: &'s Path,
    plan: &'s Plan,
    /// Bit for each of [`Path::elements`]: the walk is in that one.
    inside: u64,
    value: Option<Value<'e>>,
}

impl<'e> Search<'_, 'e> {
    fn is(&self, op: &Op, index: usize) -> bool {
        self.plan.ops.get(index).is_some_and(|of| std::ptr::eq(of, op))
    }

    fn offer(&mut self, op: &Op, value: Value<'e>) {
        let all = match self.path.elements.len() {
            0 => 0,
            count => u64::MAX >> (64 - count.min(64)),
        };
        if self.inside == all && self.is(op, self.path.op) {
            self.value = Some(value);
        }
    }
}

impl<'e> Watch<'e> for Search<'_, 'e> {
    const STOPS: bool = true;
    fn unsigned(&mut self, op: &Op, value: u64) {
        self.offer(op, Value::Unsigned(value));
    }
    fn signed(&mut self, op: &Op, value: i64) {
        self.offer(op, Value::Signed(value));
    }
    fn real(&mut self, op: &Op, value: f64) {
        self.offer(op, Value::Real(value));
    }
    fn text(&mut self, op: &Op, bytes: &'e [u8]) {
        self.offer(op, Value::Text(bytes));
    }
    fn wide(&mut self, op: &Op, text: Wide<'e>) {
        self.offer(op, Value::Wide(text));
    }
    fn blob(&mut self, op: &Op, bytes: &'e [u8]) {
        self.offer(op, Value::Blob(bytes));
    }
    fn begin_structure(&mut self, op: &Op) {
        self.offer(op, Value::Compound);
    }
    fn end_structure(&mut self, _: &Op) {}
    fn begin_array(&mut self, op: &Op, _: u64) {
        self.offer(op, Value::Compound);
    }
    fn element(&mut self, op: &Op, index: u64) {
        for (bit, &(array, element)) in self.path.elements.iter().enumerate().take(ARRAYS) {
            if self.is(op, array) {
                let is_it = u64::from(index == element);
                self.inside = self.inside & !(1 << bit) | is_it << bit;
            }
        }
    }
    fn end_array(&mut self, op: &Op) {
        self.element(op, u64::MAX);
    }
    fn begin_variant(&mut self, op: &Op, _: &str) {
        self.offer(op, Value::Compound);
    }
    fn end_variant(&mut self, _: &Op) {}
    fn begin_optional(&mut self, _: &Op) {}
    fn end_optional(&mut self, _: &Op) {}
    fn absent(&mut self, _: &Op) {}
    fn done(&self) -> bool {
        self.value.is_some()
    }
}
