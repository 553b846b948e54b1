//! Values of JSON texts.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::{JsonFault, JsonResult};
use crate::read::metadata::heap::heap;
use crate::read::metadata::{limits, MetadataProblem};

/// The most memory for the values of one fragment \[byte\].
pub(super) const FRAGMENT: u64 = 16 << 20;

/// A JSON value. Members of objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number of at most 64 bits without a fraction.
    Integer(i128),
    Real(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// An amount of memory that may be taken \[byte\].
#[derive(Debug)]
pub(super) struct MemoryBudget {
    left: Cell<u64>,
    /// True once more memory was requested than was left.
    spent: Cell<bool>,
}

impl MemoryBudget {
    pub fn new(bytes: u64) -> MemoryBudget {
        MemoryBudget { left: Cell::new(bytes), spent: Cell::new(false) }
    }

    /// Takes memory from the budget. Returns false if less is left.
    pub fn take(&self, bytes: usize) -> bool {
        match self.left.get().checked_sub(bytes as u64) {
            Some(left) => self.left.set(left),
            None => self.spent.set(true),
        }
        !self.spent.get()
    }

    /// Takes memory as [`take`](MemoryBudget::take) does, for a description that is kept.
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

    /// Returns the memory that was taken from a budget that began with `all` \[byte\].
    pub fn taken(&self, all: u64) -> u64 {
        all.saturating_sub(self.left.get())
    }

    /// Returns whether more memory was requested than was left.
    pub fn is_spent(&self) -> bool {
        self.spent.get()
    }
}

/// Parses a text that is a single value. The memory of the value is taken from the budget.
pub(super) fn parse(text: &[u8], budget: &MemoryBudget) -> Result<Json, serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = ValueMaker(budget).deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Makes JSON values within a budget.
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
