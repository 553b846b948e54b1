//! The value of a filter for one event record.
//!
//! These are the rules; whoever compiles an expression for another place keeps to them, and has the
//! functions here to compare with.

use crate::expr::{Comparison, Expr, Item, Literal, Op, Operand, Path, Subject, Term};
use crate::number::Number;
use crate::pattern::Pattern;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer of up to 64 bits, signed or not, a truth value (0, 1) or an enumeration's.
    Integer(i128),
    /// IEEE 754.
    Real(f64),
    /// Text, without a zero byte.
    Text(&'a [u8]),
    /// Anything else: a structure, an array, bytes. It is there, and equals nothing.
    Other,
}

/// An event record, as a filter sees it.
pub trait Fields {
    /// The event's name.
    fn name(&self) -> &[u8];

    /// The CPU that the packet is of.
    fn cpu(&self) -> Option<u64> {
        None
    }

    /// The event's log level.
    fn loglevel(&self) -> Option<i64> {
        None
    }

    /// A field's value; `None` if it is not there.
    fn field(&self, path: &Path) -> Option<Value<'_>>;

    /// Whether one of the labels that the field's value has is like the pattern. `None` if the field is
    /// not an enumeration. Asked only where [`Fields::field`] has just given this integer.
    fn label(&self, path: &Path, value: i128, pattern: &Pattern) -> Option<bool> {
        let _ = (path, value, pattern);
        None
    }
}

/// The value of a condition: `None` is unknown. Stops as soon as the value is certain.
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

/// False if one is false, else unknown if one is unknown.
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

/// True if one is true, else unknown if one is unknown.
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

/// Two values of an event record, or a value and a number: numbers compare as numbers, text with text
/// byte by byte and only with `==` and `!=`; all else is unknown.
#[inline]
pub fn compare(left: Value<'_>, op: Op, right: Value<'_>) -> Option<bool> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        return equality(op, left == right);
    }
    Some(op.holds(left.number()?.order(right.number()?)))
}

/// Text of an event record with text of the filter.
#[inline]
pub fn compare_text(left: Value<'_>, op: Op, right: &Pattern) -> Option<bool> {
    match left {
        Value::Text(left) => equality(op, right.matches(left)),
        _ => None,
    }
}

/// What `op` says of things that are equal or not, and neither less nor greater.
#[inline]
pub fn equality(op: Op, equal: bool) -> Option<bool> {
    match op {
        Op::Equal => Some(equal),
        Op::NotEqual => Some(!equal),
        _ => None,
    }
}

impl<'a> Value<'a> {
    /// The value as a number, if it is one.
    #[inline]
    pub fn number(self) -> Option<Number> {
        match self {
            Value::Integer(value) => Some(Number::Integer(value)),
            Value::Real(value) => Some(Number::Real(value)),
            Value::Text(_) | Value::Other => None,
        }
    }

    /// Only these bits of an integer.
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
        (Literal::Text(pattern), ..) => compare_text(left, op, pattern),
    }
}

fn evaluate_item(term: &Term, left: Value<'_>, item: &Item, fields: &impl Fields) -> Option<bool> {
    match item {
        Item::One(literal) => evaluate_literal(term, left, Op::Equal, literal, fields),
        Item::Range(from, to) => Some(in_range(left.number()?, *from, *to)),
    }
}

/// Whether the number is one of `from ... to`.
#[inline]
pub fn in_range(number: Number, from: Number, to: Number) -> bool {
    Op::GreaterOrEqual.holds(number.order(from)) && Op::LessOrEqual.holds(number.order(to))
}
