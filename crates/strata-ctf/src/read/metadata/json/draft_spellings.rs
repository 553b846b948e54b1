//! Converts the spellings of the last draft of CTF 2 (CTF2-SPECRC-7.0) to those of CTF 2.0.
//!
//! Traces from the time of the draft use it: LTTng wrote such traces before its release, and other readers are tested
//! with them. Their packets conform to CTF 2.0. None of the draft's spellings is valid in CTF 2.0, so each can be
//! recognized by itself:
//!
//! | where | draft | CTF 2.0 |
//! |---|---|---|
//! | clock class | a `name` and no `id` | `id` |
//! | clock class, trace class | `uuid`: 16 numbers | `uid`: a text |
//! | data stream class | `default-clock-class-name` | `default-clock-class-id` |
//! | field class | `fixed-length-unsigned-enumeration` and the like | `...-integer` |
//! | field class | a location as an array, `["event-record-header", "id"]` | `origin` and `path` |
//! | all | `user-attributes` | `attributes` |

use super::error::{AtPart, JsonFault, JsonResult};
use super::scalars::uuid;
use super::value::{Json, MemoryBudget};
use crate::read::metadata::heap::heap;
use crate::read::metadata::MetadataProblem;

/// Members of a field class or a fragment whose values contain field classes.
const INNER: [&str; 10] = [
    "element-field-class",
    "event-record-common-context-field-class",
    "event-record-header-field-class",
    "field-class",
    "member-classes",
    "options",
    "packet-context-field-class",
    "packet-header-field-class",
    "payload-field-class",
    "specific-context-field-class",
];
const LOCATIONS: [&str; 2] = ["length-field-location", "selector-field-location"];
/// Size of a member or a location that is made here, with its names \[byte\].
const MADE: usize = 2 * size_of::<(String, Json)>() + 128;

type Members = Vec<(String, Json)>;

/// Converts a fragment of the draft to CTF 2.0. A fragment of CTF 2.0 stays unchanged.
pub(super) fn translate(fragment: &mut Json, budget: &MemoryBudget) -> JsonResult<()> {
    let Json::Object(members) = fragment else { return Ok(()) };
    let kind = text(members, "type").unwrap_or_default().to_owned();
    if kind == "clock-class" {
        if let (false, Some(name)) = (has(members, "id"), text(members, "name")) {
            let id = Json::Text(name.to_owned());
            take(budget, MADE + heap(name.len()))?;
            members.push(("id".to_owned(), id));
        }
    }
    if kind == "clock-class" || kind == "trace-class" {
        if let Some((name, value)) = draft_uuid(members) {
            let uid = uuid(value).at("uuid")?.to_string();
            *value = Json::Text(uid);
            "uid".clone_into(name);
        }
    }
    if kind == "data-stream-class" {
        rename(members, "default-clock-class-name", "default-clock-class-id");
    }
    classes(fragment, budget)
}

/// Converts the field classes in a value, and the members that field classes and fragments have in common.
fn classes(value: &mut Json, budget: &MemoryBudget) -> JsonResult<()> {
    let members = match value {
        Json::Array(values) => return values.iter_mut().try_for_each(|one| classes(one, budget)),
        Json::Object(members) => members,
        _ => return Ok(()),
    };
    rename(members, "user-attributes", "attributes");
    for (name, value) in members {
        match value {
            Json::Text(kind) if name == "type" => {
                if let Some(sign) = kind.strip_suffix("signed-enumeration") {
                    *kind = format!("{sign}signed-integer");
                }
            }
            Json::Array(path) if LOCATIONS.contains(&name.as_str()) && !path.is_empty() => {
                take(budget, MADE)?;
                let origin = path.remove(0);
                let path = Json::Array(std::mem::take(path));
                *value =
                    Json::Object(vec![("origin".to_owned(), origin), ("path".to_owned(), path)]);
            }
            value if INNER.contains(&name.as_str()) => classes(value, budget)?,
            _ => {}
        }
    }
    Ok(())
}

fn has(members: &Members, name: &str) -> bool {
    members.iter().any(|(found, _)| found == name)
}

fn text<'m>(members: &'m Members, name: &str) -> Option<&'m str> {
    members.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.text().ok())
}

/// Returns the draft's `uuid` member, unless there is a `uid` as in CTF 2.0.
fn draft_uuid(members: &mut Members) -> Option<&mut (String, Json)> {
    let is_alone = !has(members, "uid");
    members.iter_mut().find(|(name, _)| is_alone && name == "uuid")
}

/// Renames a member of the draft to the name in CTF 2.0, unless that name is in use.
fn rename(members: &mut Members, draft: &str, today: &str) {
    if has(members, today) {
        return;
    }
    if let Some((name, _)) = members.iter_mut().find(|(name, _)| name == draft) {
        today.clone_into(name);
    }
}

fn take(budget: &MemoryBudget, bytes: usize) -> JsonResult<()> {
    match budget.take(bytes) {
        true => Ok(()),
        false => {
            let (what, limit) = ("bytes of memory for one fragment", super::value::FRAGMENT);
            Err(JsonFault::new(MetadataProblem::TooMany { what, found: limit + 1, limit }))
        }
    }
}
