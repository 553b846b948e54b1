//! The value of a JSON text.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::{JsonFault, JsonResult};
use crate::tsdl::{heap, limits, MetadataProblem};

/// A JSON value. Objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number without a fraction, as far as it has 64 bits.
    Integer(i128),
    Real(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Memory that may be taken \[byte\].
#[derive(Debug)]
pub(super) struct MemoryBudget {
    left: Cell<u64>,
    /// More was asked for.
    spent: Cell<bool>,
}

impl MemoryBudget {
    pub fn new(bytes: u64) -> MemoryBudget {
        MemoryBudget { left: Cell::new(bytes), spent: Cell::new(false) }
    }

    /// Takes so much; `false`: there is not so much left.
    pub fn take(&self, bytes: usize) -> bool {
        match self.left.get().checked_sub(bytes as u64) {
            Some(left) => self.left.set(left),
            None => self.spent.set(true),
        }
        !self.spent.get()
    }

    /// As [`take`](MemoryBudget::take), of what is kept of all that is described.
    pub fn keep(&self, bytes: usize) -> JsonResult<()> {
        match self.take(bytes) {
            true => Ok(()),
            false => {
                let (found, limit) = (limits::MEMORY + 1, limits::MEMORY);
                let what = "bytes of memory for all that is described";
                Err(JsonFault::new(MetadataProblem::TooMany { what, found, limit }))
            }
        }
    }

    /// What was taken of `all`, which it began with.
    pub fn taken(&self, all: u64) -> u64 {
        all.saturating_sub(self.left.get())
    }

    /// Whether more was asked for than there was.
    pub fn is_spent(&self) -> bool {
        self.spent.get()
    }
}

/// Reads a text that is one value. What the value takes, is taken from the budget.
pub(super) fn parse(text: &[u8], budget: &MemoryBudget) -> Result<Json, serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = ValueMaker(budget).deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Makes values within a budget.
#[derive(Clone, Copy)]
struct ValueMaker<'b>(&'b MemoryBudget);

impl ValueMaker<'_> {
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        match self.0.take(bytes) {
            true => Ok(()),
            false => Err(E::custom("too much")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueMaker<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueMaker<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Real(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        self.take(heap(value.len()))?;
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element_seed(self)? {
            // The list doubles as it grows.
            self.take(2 * size_of::<Json>())?;
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = access.next_key::<String>()? {
            self.take(2 * size_of::<(String, Json)>() + heap(name.len()))?;
            let value = access.next_value_seed(self)?;
            members.push((name, value));
        }
        Ok(Json::Object(members))
    }
}
