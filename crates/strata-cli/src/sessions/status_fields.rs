//! Reads facts from a session's answer, which may be anything: what is missing is 0, empty or false.

use serde_json::{Map, Value};

use crate::units::clean;

/// Members of an answer, by name.
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

/// Returns true if the fact is true.
pub fn is(facts: &Facts, key: &str) -> bool {
    facts.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Formats how far back the buffers of a flight recorder reach; `None` if that is unknown.
pub fn history(facts: &Facts) -> Option<String> {
    let seconds = facts.get("history_seconds").and_then(Value::as_f64)?;
    Some(match seconds {
        ..10.0 => format!("{:.1} s", seconds.max(0.0)),
        10.0..60.0 => format!("{seconds:.0} s"),
        60.0..5_400.0 => format!("{:.0} min", seconds / 60.0),
        5_400.0..360_000.0 => format!("{:.0} h", seconds / 3600.0),
        _ => "days".to_owned(),
    })
}
