//! Computes the values for which a condition is true, to find conditions that leave none together: `len < 0` for an
//! unsigned field, and `len > 5 && len < 3` for any field.
//!
//! Values are positions on a line of integers, so that the values for which a comparison is true are a list of spans.
//! The position of an integer is the integer itself; floating-point numbers are numbered in their order.

use crate::class::{key, Class};
use crate::expr::{Comparison, Expr, Item, Literal, Op, Operand, Subject, Term};
use crate::lower::{apart, span, IntegerSpan};
use crate::number::{Number, GREATEST};
use crate::pattern::Pattern;

/// The most conditions that are examined together; further ones are ignored. Filters have hundreds at most.
const MOST_CONDITIONS: usize = 256;

/// The positions that a term's values can have on the line of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueLine {
    whole: IntegerSpan,
    what: ValueLineKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueLineKind {
    Integers,
    /// The bits of a term that are compared.
    Bits(u64),
    Reals,
}

/// Position of NaN, after all numbers, since it differs from each.
const NAN: i128 = i128::MAX;

/// Returns the line of the term; `None` if it is not a number in these event records, or if its values have labels.
pub(crate) fn line(term: &Term, class: &Class) -> Option<ValueLine> {
    if let Some(mask) = term.mask {
        // The mask bounds the values of any term.
        return Some(ValueLine { whole: (0, mask.into()), what: ValueLineKind::Bits(mask) });
    }
    let integers = |whole| Some(ValueLine { whole, what: ValueLineKind::Integers });
    match &term.subject {
        Subject::Name => None,
        // A packet may claim any CPU, so all integers are possible.
        Subject::Cpu if class.cpu => integers((0, GREATEST)),
        Subject::Cpu => None,
        Subject::LogLevel => {
            let level = class.loglevel?.into();
            integers((level, level))
        }
        Subject::Field(path) => {
            let key = key(path);
            match class.integers(path, &key) {
                Some(whole) => integers(whole),
                None if class.is_real(path, &key) => {
                    let whole = (place(f64::NEG_INFINITY), place(f64::INFINITY));
                    Some(ValueLine { whole, what: ValueLineKind::Reals })
                }
                None => None,
            }
        }
    }
}

/// Returns the position of a number that is not NaN. Greater numbers have greater positions, and different numbers have
/// different positions.
fn place(real: f64) -> i128 {
    let magnitude = i128::from(real.abs().to_bits());
    if real < 0.0 {
        -magnitude
    } else {
        magnitude
    }
}

/// Returns the positions for which `op number` is true; for `!=`, those for which it is false.
fn places(op: Op, number: Number) -> IntegerSpan {
    let nearest = match number {
        Number::Integer(value) => value as f64,
        Number::Real(value) => value,
    };
    let (at, order) = (place(nearest), Number::Real(nearest).order(number));
    let (is_less, is_greater) =
        (order.is_some_and(|order| order.is_lt()), order.is_some_and(|order| order.is_gt()));
    let (first, last) = (place(f64::NEG_INFINITY), place(f64::INFINITY));
    match op {
        Op::Equal | Op::NotEqual if is_less || is_greater => (1, 0),
        Op::Equal | Op::NotEqual => (at, at),
        Op::Less => (first, if is_less { at } else { at - 1 }),
        Op::LessOrEqual => (first, if is_greater { at - 1 } else { at }),
        Op::Greater => (if is_greater { at } else { at + 1 }, last),
        Op::GreaterOrEqual => (if is_less { at + 1 } else { at }, last),
    }
}

impl ValueLine {
    /// Returns the least and the greatest integer of the line; `None` for floating-point numbers.
    pub(crate) fn integers(&self) -> Option<IntegerSpan> {
        (self.what != ValueLineKind::Reals).then_some(self.whole)
    }

    /// Returns the positions for which the comparison is true.
    pub(crate) fn of(&self, op: Op, number: Number) -> Vec<IntegerSpan> {
        let one = match self.what {
            ValueLineKind::Reals => places(op, number),
            ValueLineKind::Integers | ValueLineKind::Bits(_) => span(op, number),
        };
        let found = vec![(one.0.max(self.whole.0), one.1.min(self.whole.1))];
        match op {
            Op::NotEqual => self.without(&apart(found)),
            _ => apart(found),
        }
    }

    /// Returns all positions outside of these spans, which must be sorted and disjoint.
    pub(crate) fn without(&self, spans: &[IntegerSpan]) -> Vec<IntegerSpan> {
        let mut left = Vec::new();
        let mut from = self.whole.0;
        for (first, last) in spans {
            if *last == NAN {
                continue;
            }
            left.push((from, first.saturating_sub(1)));
            from = last.saturating_add(1);
        }
        left.push((from, self.whole.1));
        if self.what == ValueLineKind::Reals && spans.iter().all(|(_, last)| *last != NAN) {
            left.push((NAN, NAN));
        }
        apart(left)
    }

    /// Returns whether the term can have no value in these spans.
    pub(crate) fn is_none(&self, spans: &[IntegerSpan]) -> bool {
        match self.what {
            ValueLineKind::Bits(mask) => !spans.iter().any(|span| has_bits(*span, mask)),
            ValueLineKind::Integers | ValueLineKind::Reals => spans.is_empty(),
        }
    }
}

/// Returns whether the span has a non-negative number whose bits are all in `mask`.
fn has_bits((from, to): IntegerSpan, mask: u64) -> bool {
    let (Ok(from), to) = (u64::try_from(from), to.max(0) as u128) else { return false };
    let wrong = from & !mask;
    let least = match wrong.checked_ilog2() {
        None => Some(from),
        // The least such number above `from`: bits below the highest wrong bit become 0, and the carry moves up.
        Some(at) => {
            let below = (from >> at >> 1 << at << 1) | (mask & ((1 << at) - 1));
            (below | !mask).checked_add(1).map(|next| next & mask)
        }
    };
    least.is_some_and(|least| u128::from(least) <= to)
}

fn both(left: &[IntegerSpan], right: &[IntegerSpan]) -> Vec<IntegerSpan> {
    let mut found = Vec::new();
    let (mut one, mut other) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        found.push((a.0.max(b.0), a.1.min(b.1)));
        if a.1 < b.1 {
            one.next();
        } else {
            other.next();
        }
    }
    apart(found)
}

/// The positions for which a condition on one term holds.
struct Admitted<'e> {
    term: &'e Term,
    line: ValueLine,
    spans: Vec<IntegerSpan>,
}

/// Computes the values for which a condition on the numbers of one term is true, or, with `negated`, false.
fn admitted<'e>(expr: &'e Expr, negated: bool, class: &Class) -> Option<Admitted<'e>> {
    let (term, spans) = match expr {
        Expr::Compare(Comparison {
            left,
            op,
            right: Operand::Literal(Literal::Number(number)),
        }) => (left, line(left, class)?.of(*op, *number)),
        Expr::In(term, items) => {
            let line = line(term, class)?;
            let mut spans = Vec::new();
            for item in items {
                match item {
                    Item::One(Literal::Number(number)) => spans.extend(line.of(Op::Equal, *number)),
                    Item::Range(from, to) => spans.extend(both(
                        &line.of(Op::GreaterOrEqual, *from),
                        &line.of(Op::LessOrEqual, *to),
                    )),
                    Item::One(Literal::Text(_)) => return None,
                }
            }
            (term, apart(spans))
        }
        Expr::Not(inner) => return admitted(inner, !negated, class),
        Expr::And(parts) | Expr::Or(parts) => {
            let all = matches!(expr, Expr::And(_)) != negated;
            let (first, others) = parts.split_first()?;
            let mut sum = admitted(first, negated, class)?;
            for part in others {
                let one = admitted(part, negated, class).filter(|one| one.term == sum.term)?;
                match all {
                    true => sum.spans = both(&sum.spans, &one.spans),
                    false => sum.spans.extend(one.spans),
                }
            }
            if !all {
                sum.spans = apart(sum.spans);
            }
            return Some(sum);
        }
        Expr::Compare(_) | Expr::Has(_) => return None,
    };
    let line = line(term, class)?;
    let spans = if negated { line.without(&spans) } else { spans };
    Some(Admitted { term, line, spans })
}

/// Conditions that must hold together.
#[derive(Default)]
struct Together<'e> {
    numbers: Vec<Admitted<'e>>,
    /// Patterns that a text must match, or, if the flag is set, must not match.
    texts: Vec<(&'e Term, &'e Pattern, bool)>,
}

impl<'e> Together<'e> {
    fn add(&mut self, expr: &'e Expr, negated: bool, class: &Class) {
        if self.numbers.len() + self.texts.len() >= MOST_CONDITIONS {
            return;
        }
        match expr {
            Expr::And(parts) if !negated => {
                parts.iter().for_each(|one| self.add(one, false, class))
            }
            Expr::Or(parts) if negated => parts.iter().for_each(|one| self.add(one, true, class)),
            Expr::Not(inner) => self.add(inner, !negated, class),
            Expr::Compare(Comparison {
                left,
                op: op @ (Op::Equal | Op::NotEqual),
                right: Operand::Literal(Literal::Text(pattern)),
            }) => self.texts.push((left, pattern, (*op == Op::NotEqual) != negated)),
            _ => self.numbers.extend(admitted(expr, negated, class)),
        }
    }

    /// Returns whether no value satisfies all conditions.
    fn is_never(&mut self, is_text: &impl Fn(&Term) -> bool) -> bool {
        while let Some(mut one) = self.numbers.pop() {
            self.numbers.retain(|other| {
                let is_same = other.term == one.term;
                if is_same {
                    one.spans = both(&one.spans, &other.spans);
                }
                !is_same
            });
            if one.line.is_none(&one.spans) {
                return true;
            }
        }
        // A text that must equal a value excludes all patterns that do not match that value.
        let exact = |(term, pattern, not): &(&'e Term, &'e Pattern, bool)| {
            let text = pattern.exact().filter(|_| !*not && is_text(term))?.to_vec();
            Some((*term, text))
        };
        self.texts.iter().filter_map(exact).any(|(term, text)| {
            let of_term = self.texts.iter().filter(|(other, ..)| *other == term);
            of_term.into_iter().any(|(_, pattern, not)| pattern.matches(&text) == *not)
        })
    }
}

/// Returns whether the parts cannot all be true for one event record, or, with `negated`, not all false. `is_text`
/// decides whether a term is a text in the class, and not a number with labels.
pub(crate) fn contradict(
    parts: &[Expr],
    negated: bool,
    class: &Class,
    is_text: &impl Fn(&Term) -> bool,
) -> bool {
    let mut together = Together::default();
    parts.iter().for_each(|part| together.add(part, negated, class));
    together.is_never(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_reals_are_as_the_comparisons_are() {
        let values = [
            f64::NEG_INFINITY,
            -1e300,
            -2.5,
            -0.0,
            0.0,
            f64::MIN_POSITIVE,
            2.5,
            3.0,
            9_007_199_254_740_992.0,
            9_007_199_254_740_994.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let numbers = [
            Number::Integer(0),
            Number::Integer(3),
            // This integer lies between two floating-point numbers.
            Number::Integer(9_007_199_254_740_993),
            Number::Integer(u64::MAX.into()),
            Number::Real(-2.5),
            Number::Real(1e300),
        ];
        let line = ValueLine {
            whole: (place(f64::NEG_INFINITY), place(f64::INFINITY)),
            what: ValueLineKind::Reals,
        };
        use Op::*;
        for op in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
            for number in numbers {
                let spans = line.of(op, number);
                let without = line.without(&spans);
                for value in values {
                    let at = if value.is_nan() { NAN } else { place(value) };
                    let is_in =
                        |spans: &[IntegerSpan]| spans.iter().any(|one| one.0 <= at && at <= one.1);
                    let wanted = op.holds(Number::Real(value).order(number));
                    assert_eq!(is_in(&spans), wanted, "{value} {op} {number}");
                    assert_eq!(is_in(&without), !wanted, "not {value} {op} {number}");
                }
            }
        }
    }

    #[test]
    fn bits_of_a_mask_are_found_in_spans_as_by_trying() {
        for mask in [1_u64, 2, 5, 6, 0b1010_0100, 0xff, 1 << 63, u64::MAX] {
            for from in 0..300_i128 {
                for length in [0, 1, 2, 7, 30] {
                    let to = from + length;
                    let wanted = (from..=to).any(|value| value as u64 & !mask == 0);
                    assert_eq!(has_bits((from, to), mask), wanted, "{from} to {to}, {mask:#x}");
                }
            }
        }
        assert!(has_bits((1, u64::MAX.into()), 1 << 63));
        assert!(!has_bits(((1 << 63) + 1, u64::MAX.into()), 1 << 63));
    }
}
