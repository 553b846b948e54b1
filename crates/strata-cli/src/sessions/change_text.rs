//! Describes the changes of a session's plan for people: what was changed, and how many events each new rule matches.

use std::time::Duration;

use strata_session::options::Rotation;
use strata_session::plan::{
    Change, ContextChange, DisableEvents, EnableEvents, Kind, LayerOf, RotationBy,
};
use strata_session::Tracked;

use crate::sessions::status_fields::{objects, text, Facts};
use crate::units::{clean, count, counted, size, time};

/// The most rules, names or numbers that one change lists.
const SHOWN: usize = 6;

/// Returns a sentence about changes, with the session's status after them.
pub fn changed(name: &str, changes: &[Change], facts: &Facts) -> String {
    let parts: Vec<String> =
        changes.iter().flat_map(Change::each).map(|change| part(change, facts)).collect();
    format!("session '{name}' {}", parts.join("; "))
}

fn part(change: &Change, facts: &Facts) -> String {
    match change {
        Change::Replace(_) => "has another plan".to_owned(),
        Change::EnableChannel(of) => {
            format!("records into channel {} {}", clean(&of.channel), of_layer(of.layer))
        }
        Change::DisableChannel(of) => {
            format!("records nothing into channel {} {}", clean(&of.channel), of_layer(of.layer))
        }
        Change::EnableEvent(rules) => format!("records {}", enabled(rules, facts)),
        Change::DisableEvent(DisableEvents { layer, rules, .. }) if rules.is_empty() => {
            format!("has no rule {} any more", of_layer(*layer))
        }
        Change::DisableEvent(rules) => {
            format!("no longer records {}", listed(rules.rules.iter().map(|rule| quoted(rule))))
        }
        Change::AddContext(ContextChange { layer, contexts, .. }) => {
            let contexts = listed(contexts.iter().map(|context| clean(context)));
            format!("adds {contexts} to events {}", of_layer(*layer))
        }
        Change::AddTrigger(trigger) => format!("has the trigger {}", clean(&trigger.name)),
        Change::RemoveTrigger(trigger) => format!("has no trigger {} any more", clean(trigger)),
        Change::EnableRotation(rotation) => enabled_rotation(rotation),
        Change::DisableRotation(conditions) => {
            let words: Vec<&str> = conditions
                .iter()
                .map(|one| match one {
                    RotationBy::Size => "starts no part by size",
                    RotationBy::Time => "starts no part by time",
                    RotationBy::Count => "keeps all parts",
                })
                .collect();
            words.join(", ")
        }
        Change::Track(tracked) => format!("tracks {}", those(tracked)),
        Change::Untrack(tracked) => format!("no longer tracks {}", those(tracked)),
        Change::TrackAll(kinds) => format!("tracks processes of any {}", words(kinds)),
        Change::UntrackAll(kinds) => format!("tracks no process by its {}", words(kinds)),
        Change::Several(_) => String::new(),
    }
}

fn enabled_rotation(rotation: &Rotation) -> String {
    let Rotation { size: bytes, time_ms, count: parts } = *rotation;
    let all = [
        bytes.map(|bytes| format!("starts a new part at {}", size(bytes))),
        time_ms.map(|ms| format!("starts a new part every {}", time(Duration::from_millis(ms)))),
        parts.map(|parts| format!("keeps the last {}", counted(parts, "complete part"))),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Lists new rules with the number of events that each matches, if the session has looked for them.
fn enabled(asked: &EnableEvents, facts: &Facts) -> String {
    let channels =
        || objects(facts, "channels").filter(|one| text(one, "layer") == word(asked.layer));
    let matched = |rule: &str| {
        let mut events = channels().flat_map(|one| objects(one, "events"));
        let event = events.find(|event| text(event, "rule") == rule)?;
        Some(match event.get("matched")?.as_u64()? {
            0 => " (matches nothing yet)".to_owned(),
            number => format!(" (matches {})", count(number)),
        })
    };
    match asked.rules.is_empty() {
        true => "samples".to_owned(),
        false => {
            listed(asked.rules.iter().map(|rule| quoted(rule) + &matched(rule).unwrap_or_default()))
        }
    }
}

fn those(tracked: &Tracked) -> String {
    let Tracked { pids, uids, gids, names, cgroups, .. } = tracked;
    let numbers = |what: &str, numbers: &Option<Vec<u32>>| {
        let numbers = numbers.as_ref()?.iter().map(u32::to_string);
        Some(format!("{what} {}", listed(numbers)))
    };
    let texts = |what: &str, texts: &Option<Vec<String>>| {
        let texts = texts.as_ref()?.iter().map(|text| quoted(text));
        Some(format!("{what} {}", listed(texts)))
    };
    let all = [
        numbers("process", pids),
        numbers("user", uids),
        numbers("group", gids),
        texts("name", names),
        texts("cgroup", cgroups),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn words(kinds: &[Kind]) -> String {
    let word = |kind: &Kind| match kind {
        Kind::Pids => "number",
        Kind::Uids => "user",
        Kind::Gids => "group",
        Kind::Names => "name",
        Kind::Cgroups => "cgroup",
    };
    kinds.iter().map(word).collect::<Vec<_>>().join(" and ")
}

fn word(layer: LayerOf) -> &'static str {
    match layer {
        LayerOf::User => "user",
        LayerOf::Kernel => "kernel",
    }
}

fn of_layer(layer: LayerOf) -> &'static str {
    match layer {
        LayerOf::User => "of programs",
        LayerOf::Kernel => "of the kernel",
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", clean(text))
}

/// Joins texts with commas, and counts those after the first ones.
fn listed(texts: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = texts.collect();
    let others = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let text = all.join(", ");
    match others {
        0 => text,
        _ => format!("{text} and {} more", count(others as u64)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strata_kernel::CallStacks;
    use strata_session::plan::ChannelOf;

    use super::*;

    fn enable(layer: LayerOf, rules: &[&str]) -> Change {
        Change::EnableEvent(EnableEvents {
            layer,
            channel: None,
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            filter: None,
            exclude: Vec::new(),
            stack: CallStacks::None,
            sample: None,
            probe: false,
            slower_ns: None,
            every: None,
            at_most: None,
        })
    }

    #[test]
    fn changed_rules_are_named_with_the_events_that_they_match() {
        let facts = json!({ "channels": [
            { "layer": "user", "events": [{ "rule": "a:*", "matched": null }, { "rule": "b:*", "matched": 0 }] },
            { "layer": "kernel", "events": [{ "rule": "sched_*", "matched": 24 }, { "rule": "a:*", "matched": 7 }] },
        ] });
        let facts = facts.as_object().unwrap();
        let told = |changes: &[Change]| changed("web", changes, facts);
        assert_eq!(
            told(&[enable(LayerOf::User, &["a:*", "b:*"]), enable(LayerOf::Kernel, &["sched_*"])]),
            "session 'web' records 'a:*', 'b:*' (matches nothing yet); records 'sched_*' (matches 24)"
        );
        let many: Vec<String> = (0..9).map(|number| format!("r{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            told(&[enable(LayerOf::User, &many)]),
            "session 'web' records 'r0', 'r1', 'r2', 'r3', 'r4', 'r5' and 3 more"
        );
        let all = DisableEvents { layer: LayerOf::Kernel, channel: None, rules: Vec::new() };
        assert_eq!(
            told(&[Change::DisableEvent(all)]),
            "session 'web' has no rule of the kernel any more"
        );
    }

    #[test]
    fn changed_channels_contexts_and_tracked_processes_are_named() {
        let facts = Facts::new();
        let told = |change: Change| changed("web", &[change], &facts);
        let parts = Rotation { size: Some(500 << 20), time_ms: Some(3_600_000), count: Some(1) };
        assert_eq!(
            told(Change::EnableRotation(parts)),
            "session 'web' starts a new part at 500.0 MiB, starts a new part every 1 h 00 min, keeps the last 1 complete part"
        );
        assert_eq!(
            told(Change::DisableRotation(vec![RotationBy::Size, RotationBy::Count])),
            "session 'web' starts no part by size, keeps all parts"
        );
        let channel = ChannelOf { layer: LayerOf::Kernel, channel: "disk".into() };
        assert_eq!(
            told(Change::DisableChannel(channel)),
            "session 'web' records nothing into channel disk of the kernel"
        );
        let contexts = vec!["vpid".to_owned(), "procname".to_owned()];
        assert_eq!(
            told(Change::AddContext(ContextChange {
                layer: LayerOf::User,
                channel: None,
                contexts
            })),
            "session 'web' adds vpid, procname to events of programs"
        );
        let tracked = Tracked {
            pids: Some(vec![1, 2]),
            names: Some(vec!["ngi\x1bnx".into()]),
            ..Tracked::default()
        };
        assert_eq!(
            told(Change::Several(vec![
                Change::Untrack(tracked),
                Change::TrackAll(vec![Kind::Pids, Kind::Names])
            ])),
            "session 'web' no longer tracks process 1, 2, name 'ngi\\u{1b}nx'; tracks processes of any number and name"
        );
    }
}
