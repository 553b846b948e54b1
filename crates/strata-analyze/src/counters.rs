//! Counters that the user names, resolved to the fields of events.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::{Reader, Scope};
use strata_filter::Pattern;
use strata_model::schema::{EventClass, FieldClass, Structure};
use strata_timeline::{CounterRoles, COUNTERS_MAX, NAME_BYTES_MAX};

/// The most members of one part of an event's records that are searched for numbers.
const MEMBERS_MAX: usize = 4096;
/// The deepest nesting of structures that is searched.
const DEPTH_MAX: usize = 32;
/// The most members of all event classes together that are searched for numbers.
const LOOKED_MAX: usize = 1 << 20;

/// A user's choice of numeric fields to be shown as counters: `EVENT.FIELD`, or `FIELD` of any event. `*` stands for
/// any text and `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterRule {
    text: String,
    pattern: Pattern,
}

impl std::str::FromStr for CounterRule {
    type Err = CounterRuleError;

    fn from_str(text: &str) -> Result<CounterRule, CounterRuleError> {
        if text.is_empty() {
            return Err(CounterRuleError);
        }
        Ok(CounterRule { text: text.to_owned(), pattern: Pattern::glob(text) })
    }
}

impl CounterRule {
    /// Returns true if the rule selects the field at `path` (`a.b` in a structure) of the event `name`.
    fn matches(&self, name: &str, path: &str) -> bool {
        let short = name.rsplit(':').next().unwrap_or(name);
        self.pattern.matches(path.as_bytes())
            || self.pattern.matches(format!("{name}.{path}").as_bytes())
            || self.pattern.matches(format!("{short}.{path}").as_bytes())
    }
}

impl std::fmt::Display for CounterRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The error for a text that is not a valid counter rule.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("'' is not a counter; write EVENT.FIELD or FIELD, as in 'myapp:queue.length'")]
pub struct CounterRuleError;

/// Returns the fields that the rules select as counters, and the number of fields that were left out because of the
/// limit.
#[must_use]
pub fn roles(reader: &Reader, rules: &[CounterRule]) -> (CounterRoles, u64) {
    let mut roles: CounterRoles = HashMap::new();
    let mut known = HashSet::new();
    let (mut looked, mut left_out) = (0, 0u64);
    for event in events(reader).filter(|_| !rules.is_empty()) {
        if looked >= LOOKED_MAX {
            left_out = left_out.saturating_add(1);
            continue;
        }
        let fields = numbers_of(event);
        looked += fields.len();
        for (scope, path) in fields {
            if !rules.iter().any(|rule| rule.matches(&event.name, &path)) {
                continue;
            }
            // The same event is in the traces of many processes.
            let key = (scope, format!("{}.{path}", event.name));
            if known.contains(&key) {
                continue;
            }
            if known.len() >= COUNTERS_MAX {
                left_out = left_out.saturating_add(1);
                continue;
            }
            known.insert(key);
            roles.entry(event.name.clone()).or_default().push((scope, path));
        }
    }
    (roles, left_out)
}

/// Returns the rules that select no field in any of the traces.
#[must_use]
pub fn idle<'r>(reader: &Reader, rules: &'r [CounterRule]) -> Vec<&'r CounterRule> {
    let mut idle: Vec<&CounterRule> = rules.iter().collect();
    for event in events(reader) {
        if idle.is_empty() {
            break;
        }
        let fields = numbers_of(event);
        idle.retain(|rule| !fields.iter().any(|(_, path)| rule.matches(&event.name, path)));
    }
    idle
}

fn events(reader: &Reader) -> impl Iterator<Item = &EventClass> {
    let streams = reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    streams.flat_map(|stream| &stream.events)
}

/// Returns all numeric fields of an event's records, without those that are common to all events.
fn numbers_of(event: &EventClass) -> Vec<(Scope, String)> {
    let scopes = [
        (Scope::Payload, event.payload.as_ref()),
        (Scope::SpecificContext, event.specific_context.as_ref()),
    ];
    let mut found = Vec::new();
    for (scope, structure) in scopes {
        let mut paths = Vec::new();
        let room = NAME_BYTES_MAX.saturating_sub(event.name.len() + 1);
        numbers(structure, "", (0, room), &mut paths);
        found.extend(paths.into_iter().map(|path| (scope, path)));
    }
    found
}

/// Collects the paths of all numbers in a structure and in the structures within it. Paths that are too long are left
/// out, since two of them could be shortened to the same name.
fn numbers(
    structure: Option<&Structure>,
    prefix: &str,
    (depth, room): (usize, usize),
    paths: &mut Vec<String>,
) {
    let members = structure.map_or(&[][..], |structure| &structure.members);
    for member in members {
        if paths.len() >= MEMBERS_MAX || depth >= DEPTH_MAX {
            return;
        }
        if prefix.len() + member.name.len() > room {
            continue;
        }
        let path = format!("{prefix}{}", member.name);
        match &member.class {
            FieldClass::Integer(_) | FieldClass::Real(_) => paths.push(path),
            FieldClass::Structure(inner) => {
                numbers(Some(inner), &format!("{path}."), (depth + 1, room), paths);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_rule_names_a_field_of_one_event_or_of_any() {
        for (rule, event, path, wanted) in [
            ("len", "a:b", "len", true),
            ("a:b.len", "a:b", "len", true),
            ("b.len", "a:b", "len", true),
            ("a:*.len", "a:b", "len", true),
            ("*", "a:b", "x.y", true),
            ("x.y", "a:b", "x.y", true),
            ("c.len", "a:b", "len", false),
            ("le", "a:b", "len", false),
        ] {
            let found = rule.parse::<CounterRule>().unwrap();
            assert_eq!(found.matches(event, path), wanted, "{rule}");
        }
        let error = "".parse::<CounterRule>().unwrap_err();
        assert!(error.to_string().contains("EVENT.FIELD"));
    }

    #[test]
    fn counters_of_metadata_that_has_too_many_are_bounded_and_those_beyond_counted() {
        use crate::hand_tests::{metadata, Hand};
        let many: String = (0..MEMBERS_MAX + 4).map(|number| format!("u8 f{number};")).collect();
        let long = "n".repeat(400);
        let deep = format!("struct {{ u8 in; struct {{ u8 in; }} {long}; }} {long};");
        let names: Vec<String> = (0..17).map(|number| format!("a:many{number}")).collect();
        let mut events: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), many.as_str())).collect();
        events.push(("a:deep", &deep));
        let text = metadata("domain = \"ust\";", "", &events);
        let hand = Hand::new();
        // The same twice: each event is one.
        hand.trace("one", &text, &[]);
        hand.trace("two", &text, &[]);
        let all = ["*".parse::<CounterRule>().unwrap()];
        let (roles, left_out) = roles(&hand.reader(), &all);
        assert_eq!(roles.values().map(Vec::len).sum::<usize>(), COUNTERS_MAX);
        assert_eq!(roles.get("a:many0").map(Vec::len), Some(MEMBERS_MAX));
        // Of the seventeenth event, and of the last one that whose name is not too long; in both traces.
        assert_eq!(left_out, 2 * (MEMBERS_MAX as u64 + 1));
        assert!(idle(&hand.reader(), &all).is_empty());
    }
}
