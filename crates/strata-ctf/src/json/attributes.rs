//! What tracers say of event records and fields in attributes, by their own names.

use super::object::JsonObject;
use super::value::Json;
use strata_model::Flags;

/// Of babeltrace2's writer, and of LTTng: both have the same names in them.
const EVENTS: [&str; 2] = ["babeltrace.org,2020", "lttng.org,2009"];
/// Ours.
pub(crate) const OWN: &str = "strata";

/// LTTng's levels: the position is the number.
const LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug-system",
    "debug-program",
    "debug-process",
    "debug-module",
    "debug-unit",
    "debug-function",
    "debug-line",
    "debug",
];

/// What a level is called, if it is one of LTTng's.
pub(crate) fn level_name(level: u8) -> Option<&'static str> {
    LEVELS.get(usize::from(level)).copied()
}

fn level(name: &str) -> Option<i64> {
    // LTTng has a colon where babeltrace2 has a hyphen.
    let name = name.replace(':', "-");
    LEVELS.iter().position(|level| *level == name).map(|level| level as i64)
}

fn member<'j>(value: &'j Json, name: &str) -> Option<&'j Json> {
    match value {
        Json::Object(members) => JsonObject(members).get(name),
        _ => None,
    }
}

/// An event record class' level and its link to a model.
pub(super) fn of_event(class: &JsonObject<'_>) -> (Option<i64>, Option<String>) {
    let Some(attributes) = class.get("attributes") else { return (None, None) };
    let find = |name| {
        let spaces = EVENTS.iter().filter_map(|space| member(attributes, space));
        spaces.filter_map(|space| member(space, name)).next()
    };
    let loglevel = find("log-level").and_then(|found| match found {
        Json::Text(name) => level(name),
        Json::Integer(number) => i64::try_from(*number).ok(),
        _ => None,
    });
    let uri = find("emf-uri").and_then(|found| found.text().ok());
    (loglevel, uri.map(str::to_owned))
}

/// That an enumeration's labels are flags, as our own metadata say.
pub(super) fn flags(class: &JsonObject<'_>) -> Option<Flags> {
    let own = member(class.get("attributes")?, OWN)?;
    let bits = member(own, "flags")?.unsigned().ok()?;
    u8::try_from(bits).ok().filter(|bits| *bits < 64).map(|low_bits| Flags { low_bits })
}
