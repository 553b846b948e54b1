//! What a session has said of itself, which may be anything: what is missing is 0, empty or false.

use serde_json::{Map, Value};

use crate::talk::units::clean;

/// By name.
pub type Facts = Map<String, Value>;

pub fn number(facts: &Facts, key: &str) -> u64 {
    facts.get(key).and_then(Value::as_u64).unwrap_or(0)
}

pub fn text<'f>(facts: &'f Facts, key: &str) -> &'f str {
    facts.get(key).and_then(Value::as_str).unwrap_or("")
}

pub fn objects<'f>(facts: &'f Facts, key: &str) -> impl Iterator<Item = &'f Facts> {
    facts.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

pub fn names(facts: &Facts, key: &str) -> Vec<String> {
    let all = facts.get(key).and_then(Value::as_array).into_iter().flatten();
    all.map(|one| one.as_str().map_or_else(|| one.to_string(), clean)).collect()
}

/// Does it say yes?
pub fn is(facts: &Facts, key: &str) -> bool {
    facts.get(key).and_then(Value::as_bool).unwrap_or(false)
}
