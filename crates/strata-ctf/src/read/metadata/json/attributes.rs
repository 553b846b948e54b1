//! Reads attributes, by which tracers add their own properties to event records and fields.

use super::object::JsonObject;
use super::value::Json;
use crate::attributes::{level, OWN};
use strata_model::Flags;

/// Namespaces of babeltrace2's writer and of LTTng, whose attributes have the same names.
const EVENTS: [&str; 2] = ["babeltrace.org,2020", "lttng.org,2009"];

fn member<'j>(value: &'j Json, name: &str) -> Option<&'j Json> {
    match value {
        Json::Object(members) => JsonObject(members).get(name),
        _ => None,
    }
}

/// Returns the log level of an event record class, and the URI of its model.
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

/// Returns the form of an enumeration's flags, if Strata's own attribute marks its labels as flags.
pub(super) fn flags(class: &JsonObject<'_>) -> Option<Flags> {
    let own = member(class.get("attributes")?, OWN)?;
    let bits = member(own, "flags")?.unsigned().ok()?;
    u8::try_from(bits).ok().filter(|bits| *bits < 64).map(|low_bits| Flags { low_bits })
}
