//! Finds the end of a part of a packet or a record without showing its fields, and collects the values that decoding
//! itself needs.

use super::bits::{find_nul, leb128, mask, Bits, Leb};
use super::plan::{Choice, Count, DecodingPlan, IntegerSink, PlanStep, PlanStepKind};
use super::state::FoundRoles;
use super::stop_reason::BadKind;
use super::window::{align_up, Window};
use crate::model::schema::Encoding;
use crate::read::value::find_wide_nul;

/// The limit on fields without bits in a packet, in addition to one field for each bit of the packet. Without it, a few
/// bytes of metadata and an empty packet could take days.
const EMPTY: u64 = 1 << 16;

/// The reason why the end of a part was not found. It is boxed, so that the usual result is small.
#[derive(Debug)]
pub(super) struct EndFault(pub Box<NoEndReason>);

/// Reasons why the end of a part was not found.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoEndReason {
    Short { until: u64 },
    Bad { kind: BadKind, at: u64, op: Option<u32> },
}

/// The state of skipping several parts, one after the other.
pub(super) struct Skip<'a, 'w> {
    pub window: &'a Window<'w>,
    pub registers: &'a mut [u64],
    pub found: &'a mut FoundRoles,
    /// Number of fields of size 0 that this packet has had so far.
    pub spent: &'a mut u64,
}

impl Skip<'_, '_> {
    /// Returns the begin and the end of a part that begins at `at` or after it.
    #[inline]
    pub fn part(&mut self, plan: &DecodingPlan, at: u64) -> Result<(u64, u64), EndFault> {
        let begin = align_up(at, plan.align);
        if begin / 8 < self.window.origin {
            return Err(EndFault::short(begin));
        }
        let mut base = begin;
        if !plan.steps.is_empty() {
            base = self.run(plan, &plan.steps, begin)?;
        }
        let end = self.to(base, plan.tail)?;
        Ok((begin, end))
    }

    /// Reads an integer if all of it is in the window.
    #[inline]
    fn load(&self, base: u64, bits: Bits) -> Result<u64, EndFault> {
        self.to(base.saturating_add(bits.offset), u64::from(bits.width))?;
        let bytes = self.window.from(base).unwrap_or(&[]);
        Ok(bits.read(bytes, base % 8).unwrap_or(0))
    }

    /// Returns the bit `from + bits` if that is within the window; otherwise an error.
    #[inline]
    fn to(&self, from: u64, bits: u64) -> Result<u64, EndFault> {
        let end = from.saturating_add(bits);
        if end <= self.window.end {
            return Ok(end);
        }
        Err(self.outside(from, Some(bits)))
    }

    /// Makes the error for a field that begins at `from` and is incomplete.
    #[cold]
    fn outside(&self, from: u64, needs: Option<u64>) -> EndFault {
        let until = from.saturating_add(needs.unwrap_or(0)).max(self.window.end.saturating_add(1));
        if until <= self.window.content {
            return EndFault::short(until);
        }
        let left = self.window.content.saturating_sub(from);
        EndFault::bad(BadKind::Outside { needs, left }, from)
    }

    /// Runs the steps. Returns the base after them.
    fn run(
        &mut self,
        plan: &DecodingPlan,
        steps: &[PlanStep],
        mut base: u64,
    ) -> Result<u64, EndFault> {
        let mut rest = steps;
        let mut last = 0;
        while let Some((step, behind)) = rest.split_first() {
            rest = behind;
            let mut body = |count: u32| {
                let (body, behind) = rest.split_at_checked(count as usize).unwrap_or((rest, &[]));
                rest = behind;
                body
            };
            let done = match step.what {
                PlanStepKind::Align { offset, align } => {
                    self.to(align_up(base.saturating_add(offset), align), 0)
                }
                PlanStepKind::Load { bits, sink } => self.load(base, bits).map(|value| {
                    self.sink(sink, value);
                    base
                }),
                PlanStepKind::Leb { offset, signed } => {
                    self.leb(base, offset, signed).map(|(value, end)| {
                        last = value;
                        end
                    })
                }
                PlanStepKind::Keep { sink } => {
                    self.sink(sink, last);
                    Ok(base)
                }
                PlanStepKind::String { offset } => self.string(base.saturating_add(offset)),
                PlanStepKind::Elements { .. } => self.elements(step.what, base),
                PlanStepKind::Loop { body: count, .. } => {
                    self.each(plan, step.what, body(count), base)
                }
                PlanStepKind::Variant(index) => match plan.turns.get(index as usize) {
                    Some(choice) => self.turn(plan, choice, body(choice.body), base, false),
                    None => Ok(base),
                },
                PlanStepKind::Optional(index) => match plan.turns.get(index as usize) {
                    Some(choice) => self.turn(plan, choice, body(choice.body), base, true),
                    None => Ok(base),
                },
                PlanStepKind::Clear { first, count } => {
                    let to = first.saturating_add(count) as usize;
                    if let Some(registers) = self.registers.get_mut(first as usize..to) {
                        registers.fill(0);
                    }
                    Ok(base)
                }
                PlanStepKind::Wide { offset, encoding } => {
                    self.wide(base.saturating_add(offset), encoding)
                }
                PlanStepKind::Require { present } => match self.register(present) {
                    0 => Err(EndFault::bad(BadKind::NotThere, base)),
                    _ => Ok(base),
                },
                PlanStepKind::Spend(fields) => self.spend(fields, base).map(|()| base),
                PlanStepKind::Uuid { offset } => {
                    self.to(base.saturating_add(offset), 128).map(|_| {
                        let bytes = self.window.from(base.saturating_add(offset));
                        self.found.uuid = bytes.and_then(|bytes| bytes.first_chunk().copied());
                        base
                    })
                }
                PlanStepKind::Order { offset, big } => {
                    self.order(base.saturating_add(offset), big, base)
                }
                PlanStepKind::Bad(kind) => Err(EndFault::bad(kind, base)),
            };
            base = match done {
                Ok(base) => base,
                Err(fault) => return Err(fault.of(step.op)),
            };
        }
        Ok(base)
    }

    #[inline]
    fn sink(&mut self, sink: IntegerSink, value: u64) {
        match sink {
            IntegerSink::Register(register) => {
                if let Some(place) = self.registers.get_mut(register as usize) {
                    *place = value;
                }
            }
            IntegerSink::Present(register) => {
                if let Some(place) = self.registers.get_mut(register as usize) {
                    *place = 1;
                }
            }
            IntegerSink::Role(role) => self.found.put(role, value),
            IntegerSink::Cpu => self.found.cpu = Some(value),
            IntegerSink::Clock(bits) => {
                self.found.time = later(self.found.time, value, mask(bits));
                self.found.timed = true;
            }
        }
    }

    #[inline]
    fn register(&self, register: u32) -> u64 {
        self.registers.get(register as usize).copied().unwrap_or(0)
    }

    fn leb(&self, base: u64, offset: u64, signed: bool) -> Result<(u64, u64), EndFault> {
        let from = self.to(base.saturating_add(offset), 0)?;
        let bytes = self.window.from(from).unwrap_or(&[]);
        let whole = self.window.end.saturating_sub(from) / 8;
        let bytes = bytes.get(..whole.min(bytes.len() as u64) as usize).unwrap_or(&[]);
        match leb128(bytes, signed) {
            Leb::Is(value, bytes) => Ok((value, from.saturating_add(bytes * 8))),
            Leb::Short => Err(self.outside(from, Some((whole + 1) * 8))),
            Leb::TooBig => Err(EndFault::bad(BadKind::TooBig, from)),
        }
    }

    /// Returns the place after the first NUL from `from` on.
    #[inline]
    fn string(&self, from: u64) -> Result<u64, EndFault> {
        let bytes = self.window.from(from).unwrap_or(&[]);
        if let Some(nul) = find_nul(bytes) {
            let end = from.saturating_add((nul as u64 + 1) * 8);
            if end <= self.window.end {
                return Ok(end);
            }
        }
        Err(self.outside(from, None))
    }

    /// Returns the place after the first NUL of a text with several bytes for each character.
    fn wide(&self, from: u64, encoding: Encoding) -> Result<u64, EndFault> {
        let bytes = self.window.from(from).unwrap_or(&[]);
        let nul = find_wide_nul(bytes, encoding).unwrap_or(bytes.len());
        let end = from.saturating_add((nul + encoding.unit()) as u64 * 8);
        if nul < bytes.len() && end <= self.window.end {
            return Ok(end);
        }
        Err(self.outside(from, None))
    }

    #[inline]
    fn elements(&mut self, what: PlanStepKind, base: u64) -> Result<u64, EndFault> {
        let PlanStepKind::Elements { offset, register, stride, bits, empty } = what else {
            return Ok(base);
        };
        let from = base.saturating_add(offset);
        let count = self.register(register);
        let all = match count.checked_sub(1) {
            None => 0,
            Some(before) => before.saturating_mul(stride).saturating_add(bits),
        };
        if empty > 0 {
            self.spend(count.saturating_mul(empty), from)?;
        }
        self.to(from, all).map_err(|fault| match *fault.0 {
            NoEndReason::Short { .. } => fault,
            NoEndReason::Bad { .. } => {
                let left = self.window.content.saturating_sub(from);
                EndFault::bad(BadKind::TooManyElements { count, left }, from)
            }
        })
    }

    fn each(
        &mut self,
        plan: &DecodingPlan,
        what: PlanStepKind,
        body: &[PlanStep],
        base: u64,
    ) -> Result<u64, EndFault> {
        let PlanStepKind::Loop { offset, count, align, tail, empty, .. } = what else {
            return Ok(base);
        };
        let count = match count {
            Count::Is(count) => count,
            Count::Of(register) => self.register(register),
        };
        let mut at = self.to(align_up(base.saturating_add(offset), align), 0)?;
        for _ in 0..count {
            let begin = at;
            let from = self.to(align_up(at, align), 0)?;
            let end = self.run(plan, body, from)?;
            at = self.to(end, tail)?;
            if at == begin {
                self.spend(empty, at)?;
            }
        }
        Ok(at)
    }

    #[inline]
    fn turn(
        &mut self,
        plan: &DecodingPlan,
        choice: &Choice,
        body: &[PlanStep],
        base: u64,
        optional: bool,
    ) -> Result<u64, EndFault> {
        let base = self.to(base, choice.offset)?;
        let value = self.register(choice.register);
        let Some(turn) = choice.find(value) else {
            if optional {
                return Ok(base);
            }
            let value = if choice.signed { i128::from(value as i64) } else { i128::from(value) };
            return Err(EndFault::bad(BadKind::NoOption { value }, base));
        };
        let steps = body.get(turn.from as usize..turn.to as usize).unwrap_or(&[]);
        let end = if steps.is_empty() { base } else { self.run(plan, steps, base)? };
        self.to(end, turn.tail)
    }

    /// Checks the byte order of a number that begins at `at`. Returns `base`, so that a caller can continue with it.
    fn order(&mut self, at: u64, big: bool, base: u64) -> Result<u64, EndFault> {
        if at % 8 != 0 && self.found.order.is_some_and(|order| order != big) {
            return Err(EndFault::bad(BadKind::MixedOrder, at));
        }
        self.found.order = Some(big);
        Ok(base)
    }

    fn spend(&mut self, fields: u64, at: u64) -> Result<(), EndFault> {
        let (count, limit) = (self.spent.saturating_add(fields), at.saturating_add(EMPTY));
        if count > limit {
            return Err(EndFault::bad(BadKind::TooManyEmpty { count, limit }, at));
        }
        *self.spent = count;
        Ok(())
    }
}

/// Returns the first time from `time` on whose bits in `mask` equal those of `value`.
#[inline]
pub(crate) fn later(time: u64, value: u64, mask: u64) -> u64 {
    time.wrapping_add(value.wrapping_sub(time) & mask)
}

impl EndFault {
    #[cold]
    fn short(until: u64) -> EndFault {
        EndFault(Box::new(NoEndReason::Short { until }))
    }

    #[cold]
    fn bad(kind: BadKind, at: u64) -> EndFault {
        EndFault(Box::new(NoEndReason::Bad { kind, at, op: None }))
    }

    /// Sets the field of the fault, unless an inner field is set already.
    #[cold]
    fn of(mut self, field: u32) -> EndFault {
        if let NoEndReason::Bad { op, .. } = &mut *self.0 {
            op.get_or_insert(field);
        }
        self
    }
}
