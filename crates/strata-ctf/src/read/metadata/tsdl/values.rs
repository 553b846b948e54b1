//! Parses the values of attributes, and checks that each attribute occurs once.

use super::syntax::{Attribute, AttributeValue, Statement, ValueKind};
use crate::read::metadata::error::{duplicate, Fault};
use std::borrow::Cow;
use std::collections::HashSet;
use strata_model::{Base, ByteOrder, Uuid};

pub(super) type TsdlResult<T> = Result<T, Fault>;

/// The names of a block's attributes so far.
#[derive(Default)]
pub(super) struct SeenNames<'s>(HashSet<&'s str>);

impl<'s> SeenNames<'s> {
    /// Fails if the block already has an attribute of this name.
    pub fn check(&mut self, statement: &'s Statement<'_>) -> TsdlResult<()> {
        let (at, name) = match statement {
            Statement::Attribute(Attribute { at, name, .. }) => (*at, name),
            Statement::Definition { at, name, .. } => (*at, name),
            Statement::Declaration(_) => return Ok(()),
        };
        match self.0.insert(name) {
            true => Ok(()),
            false => Err(duplicate(at, "attribute", name.as_ref())),
        }
    }
}

/// Checks that a type has no attribute twice.
pub(super) fn each_once(attributes: &[Attribute<'_>]) -> TsdlResult<()> {
    let mut seen = HashSet::new();
    attributes.iter().try_for_each(|Attribute { at, name, .. }| match seen.insert(name.as_ref()) {
        true => Ok(()),
        false => Err(duplicate(*at, "attribute", name.as_ref())),
    })
}

pub(super) fn attributes<'s, 't>(
    statements: &'s [Statement<'t>],
) -> impl Iterator<Item = &'s Attribute<'t>> {
    statements.iter().filter_map(|statement| match statement {
        Statement::Attribute(attribute) => Some(attribute),
        _ => None,
    })
}

/// Returns the text of a string, or of a name without quotes.
fn word<'v>(value: &'v AttributeValue<'_>) -> Option<Cow<'v, str>> {
    match &value.what {
        ValueKind::Number(_) => None,
        ValueKind::Text(text) => Some(Cow::Borrowed(text)),
        ValueKind::Word(word) => Some(Cow::Borrowed(word)),
        ValueKind::Path(path) => Some(Cow::Owned(path.show())),
    }
}

pub(super) fn ranged(
    value: &AttributeValue<'_>,
    of: &'static str,
    from: i128,
    to: i128,
    expected: &'static str,
) -> TsdlResult<i128> {
    match value.what {
        ValueKind::Number(number) if from <= number && number <= to => Ok(number),
        _ => Err(Fault::value(value.at, of, value.show(), expected)),
    }
}

pub(super) fn alignment(value: &AttributeValue<'_>) -> TsdlResult<u32> {
    let expected = "a power of two, at most 2147483648 bits";
    let number = ranged(value, "an alignment", 1, 1 << 31, expected)?;
    match u32::try_from(number) {
        Ok(align) if align.is_power_of_two() => Ok(align),
        _ => Err(Fault::value(value.at, "an alignment", value.show(), expected)),
    }
}

pub(super) fn boolean(value: &AttributeValue<'_>) -> TsdlResult<bool> {
    match (&value.what, word(value).as_deref()) {
        (ValueKind::Number(number), _) => Ok(*number != 0),
        (_, Some("true" | "TRUE")) => Ok(true),
        (_, Some("false" | "FALSE")) => Ok(false),
        _ => Err(Fault::value(value.at, "a truth value", value.show(), "true or false")),
    }
}

pub(super) fn base(value: &AttributeValue<'_>) -> TsdlResult<Base> {
    let base = match (&value.what, word(value).as_deref()) {
        (ValueKind::Number(radix), _) => u8::try_from(*radix).ok().and_then(Base::from_radix),
        (_, Some("decimal" | "dec" | "d" | "i" | "u")) => Some(Base::Ten),
        (_, Some("hexadecimal" | "hex" | "x" | "X" | "p")) => Some(Base::Sixteen),
        (_, Some("octal" | "oct" | "o")) => Some(Base::Eight),
        (_, Some("binary" | "b")) => Some(Base::Two),
        _ => None,
    };
    base.ok_or_else(|| Fault::value(value.at, "a base", value.show(), "2, 8, 10 or 16"))
}

/// Parses a byte order. `None` stands for the byte order of the trace.
pub(super) fn byte_order(value: &AttributeValue<'_>) -> TsdlResult<Option<ByteOrder>> {
    match word(value).as_deref() {
        Some("le") => Ok(Some(ByteOrder::Little)),
        Some("be" | "network") => Ok(Some(ByteOrder::Big)),
        Some("native") => Ok(None),
        _ => Err(Fault::value(value.at, "a byte order", value.show(), "le, be, network or native")),
    }
}

/// Parses an encoding. Returns whether the value is text.
pub(super) fn encoding(value: &AttributeValue<'_>) -> TsdlResult<bool> {
    match word(value).as_deref() {
        Some("UTF8" | "utf8" | "UTF-8" | "utf-8" | "ASCII" | "ascii") => Ok(true),
        Some("none") => Ok(false),
        _ => Err(Fault::value(value.at, "an encoding", value.show(), "UTF8, ASCII or none")),
    }
}

pub(super) fn number(value: &AttributeValue<'_>, of: &'static str) -> TsdlResult<u64> {
    let expected = "0 to 18446744073709551615";
    let number = ranged(value, of, 0, u64::MAX.into(), expected)?;
    u64::try_from(number).map_err(|_| Fault::value(value.at, of, value.show(), expected))
}

pub(super) fn text(value: &AttributeValue<'_>, of: &'static str) -> TsdlResult<String> {
    let text = word(value).map(|text| text.into_owned());
    text.ok_or_else(|| Fault::value(value.at, of, value.show(), "a string"))
}

pub(super) fn uuid(value: &AttributeValue<'_>) -> TsdlResult<Uuid> {
    let uuid = word(value).and_then(|text| text.parse().ok());
    uuid.ok_or_else(|| {
        let expected = "32 hexadecimal digits as 8-4-4-4-12";
        Fault::value(value.at, "a UUID", value.show(), expected)
    })
}
