//! Converts JSON values to the expected types.

use std::collections::HashSet;

use super::error::{AtPart, JsonFault, JsonResult};
use super::value::Json;
use crate::read::metadata::MetadataProblem;
use strata_model::printable;

/// Members of a JSON object.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonObject<'j>(pub &'j [(String, Json)]);

impl Json {
    /// Formats the value for messages.
    pub fn shown(&self) -> String {
        match self {
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Integer(value) => value.to_string(),
            Json::Real(value) => format!("{value:?}"),
            Json::Text(text) => format!("the string {}", printable(text)),
            Json::Array(_) => "an array".to_owned(),
            Json::Object(_) => "an object".to_owned(),
        }
    }

    fn wrong<T>(&self, expected: &'static str) -> JsonResult<T> {
        Err(JsonFault::new(MetadataProblem::Expected { expected, found: self.shown() }))
    }

    /// Returns the members of an object, whose names must be unique.
    pub fn object(&self) -> JsonResult<JsonObject<'_>> {
        let Json::Object(members) = self else { return self.wrong("an object") };
        let mut names = HashSet::with_capacity(members.len());
        for (name, _) in members {
            if !names.insert(name.as_str()) {
                let (what, name) = ("property", name.clone());
                return Err(JsonFault::new(MetadataProblem::Duplicate { what, name }));
            }
        }
        Ok(JsonObject(members))
    }

    pub fn array(&self) -> JsonResult<&[Json]> {
        match self {
            Json::Array(values) => Ok(values),
            _ => self.wrong("an array"),
        }
    }

    pub fn text(&self) -> JsonResult<&str> {
        match self {
            Json::Text(text) => Ok(text),
            _ => self.wrong("a string"),
        }
    }

    pub fn integer(&self) -> JsonResult<i128> {
        match self {
            Json::Integer(value) => Ok(*value),
            _ => self.wrong("an integer of 64 bits"),
        }
    }

    pub fn unsigned(&self) -> JsonResult<u64> {
        match self.integer().map(u64::try_from) {
            Ok(Ok(value)) => Ok(value),
            _ => self.wrong("an integer from 0 to 18446744073709551615"),
        }
    }

    pub fn signed(&self) -> JsonResult<i64> {
        match self.integer().map(i64::try_from) {
            Ok(Ok(value)) => Ok(value),
            _ => self.wrong("an integer from -9223372036854775808 to 9223372036854775807"),
        }
    }

    /// Returns an alignment, which must be a power of two \[bit\].
    pub fn alignment(&self) -> JsonResult<u32> {
        match self.unsigned().map(u32::try_from) {
            Ok(Ok(value)) if value.is_power_of_two() => Ok(value),
            _ => self.wrong("a power of two from 1 to 2147483648"),
        }
    }
}

impl<'j> JsonObject<'j> {
    pub fn get(&self, name: &str) -> Option<&'j Json> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Reads a property that may be absent.
    pub fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'j Json) -> JsonResult<T>,
    ) -> JsonResult<Option<T>> {
        self.get(name).map(|value| read(value).at(name)).transpose()
    }

    /// Reads a property that must be present.
    pub fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'j Json) -> JsonResult<T>,
    ) -> JsonResult<T> {
        let missing = || JsonFault::new(MetadataProblem::Missing { what: name, of: "it" });
        self.optional(name, read)?.ok_or_else(missing)
    }

    pub fn text(&self, name: &'static str) -> JsonResult<Option<&'j str>> {
        self.optional(name, Json::text)
    }
}
