//! Evaluates a filter for one event record.
//!
//! The functions here define what filters mean. Compilers of filters for other evaluators must give the same results,
//! and are tested against them.

use crate::expr::{Comparison, Expr, Item, Literal, Op, Operand, Path, Subject, Term};
use crate::number::Number;
use crate::pattern::Pattern;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer of up to 64 bits, signed or unsigned; also a truth value (0, 1) or the value of an enumeration.
    Integer(i128),
    /// A floating-point number of IEEE 754.
    Real(f64),
    /// Text, without a zero byte.
    Text(&'a [u8]),
    /// A structure, an array or bytes: the field is present, but equals no value.
    Other,
}

/// An event record as filters see it.
pub trait Fields {
    /// Returns the name of the event.
    fn name(&self) -> &[u8];

    /// Returns the CPU on which the packet was recorded.
    fn cpu(&self) -> Option<u64> {
        None
    }

    /// Returns the event's log level.
    fn loglevel(&self) -> Option<i64> {
        None
    }

    /// Returns the value of a field; `None` if the record does not have it.
    fn field(&self, path: &Path) -> Option<Value<'_>>;

    /// Returns whether a label of the field's value matches the pattern; `None` if the field is not an enumeration.
    /// Called only with an integer that [`Fields::field`] has returned.
    fn label(&self, path: &Path, value: i128, pattern: &Pattern) -> Option<bool> {
        let _ = (path, value, pattern);
        None
    }
}

/// Returns the value of a condition; `None` is unknown. Stops as soon as the value is certain.
pub fn evaluate(expr: &Expr, fields: &impl Fields) -> Option<bool> {
    match expr {
        Expr::And(parts) => all(parts.iter().map(|part| evaluate(part, fields))),
        Expr::Or(parts) => any(parts.iter().map(|part| evaluate(part, fields))),
        Expr::Not(inner) => evaluate(inner, fields).map(|value| !value),
        Expr::Compare(comparison) => evaluate_comparison(comparison, fields),
        Expr::In(term, items) => {
            let value = term_value(term, fields)?;
            any(items.iter().map(|item| evaluate_item(term, value, item, fields)))
        }
        Expr::Has(path) => Some(fields.field(path).is_some()),
    }
}

/// Returns the conjunction: false if one part is false, else unknown if one is unknown.
#[inline]
pub fn all(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for part in parts {
        match part {
            Some(false) => return Some(false),
            Some(true) => (),
            None => result = None,
        }
    }
    result
}

/// Returns the disjunction: true if one part is true, else unknown if one is unknown.
#[inline]
pub fn any(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(false);
    for part in parts {
        match part {
            Some(true) => return Some(true),
            Some(false) => (),
            None => result = None,
        }
    }
    result
}

/// Compares two values. Numbers are compared as numbers. Texts are compared byte by byte, only with `==` and `!=`. The
/// result of any other comparison is unknown.
#[inline]
pub fn compare(left: Value<'_>, op: Op, right: Value<'_>) -> Option<bool> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        return equality(op, left == right);
    }
    Some(op.holds(left.number()?.order(right.number()?)))
}

/// Compares a value of an event record with a text of the filter.
#[inline]
pub fn compare_text(left: Value<'_>, op: Op, right: &Pattern) -> Option<bool> {
    match left {
        Value::Text(left) => equality(op, right.matches(left)),
        _ => None,
    }
}

/// Returns the result of `op` for values that can be equal or unequal, but not less or greater.
#[inline]
pub fn equality(op: Op, equal: bool) -> Option<bool> {
    match op {
        Op::Equal => Some(equal),
        Op::NotEqual => Some(!equal),
        _ => None,
    }
}

impl<'a> Value<'a> {
    /// Returns the value as a number, if it is one.
    #[inline]
    pub fn number(self) -> Option<Number> {
        match self {
            Value::Integer(value) => Some(Number::Integer(value)),
            Value::Real(value) => Some(Number::Real(value)),
            Value::Text(_) | Value::Other => None,
        }
    }

    /// Returns the bits of an integer that the mask selects, or the value itself without a mask.
    #[inline]
    pub fn masked(self, mask: Option<u64>) -> Option<Value<'a>> {
        match (self, mask) {
            (_, None) => Some(self),
            // The lower half of an i128 is the value in two's complement of 64 bits.
            (Value::Integer(value), Some(mask)) => {
                Some(Value::Integer(i128::from(value as u64 & mask)))
            }
            _ => None,
        }
    }
}

fn term_value<'f>(term: &Term, fields: &'f impl Fields) -> Option<Value<'f>> {
    let value = match &term.subject {
        Subject::Name => Value::Text(fields.name()),
        Subject::Cpu => Value::Integer(fields.cpu()?.into()),
        Subject::LogLevel => Value::Integer(fields.loglevel()?.into()),
        Subject::Field(path) => fields.field(path)?,
    };
    value.masked(term.mask)
}

fn evaluate_comparison(comparison: &Comparison, fields: &impl Fields) -> Option<bool> {
    let left = term_value(&comparison.left, fields)?;
    match &comparison.right {
        Operand::Term(right) => compare(left, comparison.op, term_value(right, fields)?),
        Operand::Literal(literal) => {
            evaluate_literal(&comparison.left, left, comparison.op, literal, fields)
        }
    }
}

fn evaluate_literal(
    term: &Term,
    left: Value<'_>,
    op: Op,
    right: &Literal,
    fields: &impl Fields,
) -> Option<bool> {
    match (right, left, &term.subject) {
        (Literal::Number(number), ..) => Some(op.holds(left.number()?.order(*number))),
        (Literal::Text(pattern), Value::Integer(value), Subject::Field(path))
            if term.mask.is_none() =>
        {
            equality(op, fields.label(path, value, pattern)?)
        }
        (Literal::Text(pattern), Value::Text(name), Subject::Name) => {
            equality(op, pattern.names_event(name))
        }
        (Literal::Text(pattern), ..) => compare_text(left, op, pattern),
    }
}

fn evaluate_item(term: &Term, left: Value<'_>, item: &Item, fields: &impl Fields) -> Option<bool> {
    match item {
        Item::One(literal) => evaluate_literal(term, left, Op::Equal, literal, fields),
        Item::Range(from, to) => Some(in_range(left.number()?, *from, *to)),
    }
}

/// Returns whether the number is in `from ... to`, both ends included.
#[inline]
pub fn in_range(number: Number, from: Number, to: Number) -> bool {
    Op::GreaterOrEqual.holds(number.order(from)) && Op::LessOrEqual.holds(number.order(to))
}
