//! Formats what a running session does not record, from its status.

use std::time::Duration;

use serde_json::Value;
use strata_session::report::EVERY_TRACEPOINT;

use crate::sessions::status_fields::{is, names, number, objects, text, Facts};
use crate::stderr::messages::{needs, span_text};
use crate::units::{clean, count, counted, flag_size, size, time};

/// Limit on the CPUs that are named one by one.
const CPUS_SHOWN: usize = 8;

/// Returns a line for each thing that a running session does not record.
pub fn missing(facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    // The channels of a background recording are always enabled, and have no field for that.
    let is_on = |channel: &&Facts| channel.get("enabled").and_then(Value::as_bool) != Some(false);
    for channel in objects(facts, "channels").filter(is_on) {
        let name = clean(text(channel, "channel"));
        let is_named =
            |event: &&Facts| is(event, "enabled") && text(event, "rule") != EVERY_TRACEPOINT;
        let events = objects(channel, "events").filter(is_named);
        for event in events.filter(|event| event.get("matched").and_then(Value::as_u64) == Some(0))
        {
            let rule = clean(text(event, "rule"));
            lines.push(format!("channel '{name}': event rule '{rule}' has matched nothing so far"));
        }
        for event in objects(channel, "events").filter(|event| is(event, "enabled")) {
            let (rule, filter) = (clean(text(event, "rule")), clean(text(event, "filter")));
            let said = slips(event).into_iter();
            lines.extend(
                said.map(|slip| {
                    format!("channel '{name}': event rule '{rule}' if {filter}: {slip}")
                }),
            );
        }
    }
    // Without such events there is silence, and a trigger for silence fires.
    let fires = |one: &&Facts| {
        let when = one.get("when").and_then(Value::as_object);
        when.is_some_and(|when| text(when, "kind") == "silence") && text(one, "lacks").is_empty()
    };
    for one in objects(facts, "triggers").filter(|one| !fires(one)) {
        let name = clean(text(one, "name"));
        let said = doubts(one).into_iter();
        lines.extend(said.map(|why| format!("trigger '{name}' cannot fire so far: {why}")));
    }
    for one in objects(facts, "not_reached") {
        lines.push(format!("not reached: {}", unreached(one)));
    }
    lines.extend(beyond(facts, "nr_not_reached", "not_reached", "not reached"));
    lines.extend(lossy_and_late(facts));
    lines
}

/// Returns lines on the parts of a rule's filter that no event has passed.
pub fn slips(event: &Facts) -> Vec<String> {
    let part = if is(event, "is_never") { "" } else { "a part of " };
    let slips: Vec<String> = objects(event, "slips")
        .map(|one| format!(": column {}: {}", number(one, "column"), clean(text(one, "text"))))
        .collect();
    match (is(event, "is_never"), slips.is_empty()) {
        (false, true) => Vec::new(),
        _ => vec![format!("no event passes {part}the filter{}", slips.concat())],
    }
}

/// Returns the reasons why a trigger may never fire.
pub fn doubts(trigger: &Facts) -> Vec<String> {
    let mut doubts = Vec::new();
    if trigger.get("matched").and_then(Value::as_u64) == Some(0) {
        let near = match names(trigger, "similar") {
            none if none.is_empty() => String::new(),
            some => format!("; similar: {}", some.join(", ")),
        };
        doubts.push(format!("its rule matches nothing yet{near}"));
    }
    if is(trigger, "is_never") {
        doubts.extend(slips(trigger));
    }
    if !text(trigger, "lacks").is_empty() {
        doubts.push(clean(text(trigger, "lacks")));
    }
    doubts
}

/// Returns lines on losses by channel and reason, with buffer sizes that would have prevented them, and on processes
/// that were attached late.
pub fn lossy_and_late(facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    for channel in objects(facts, "channels") {
        let of = format!("{} {}", clean(text(channel, "layer")), clean(text(channel, "channel")));
        let mut reasons: Vec<&str> = Vec::new();
        for one in objects(channel, "discards") {
            if !reasons.contains(&text(one, "reason")) {
                reasons.push(text(one, "reason"));
            }
        }
        lines.extend(reasons.iter().map(|reason| format!("{of}: {}", discarded(channel, reason))));
        lines.extend(advice(channel).map(|advice| format!("{of}: {advice}")));
        if let (overwritten @ 1.., "files") = (number(channel, "overwritten"), text(facts, "mode"))
        {
            lines.push(format!(
                "{of}: {} overwritten before they were written to files. Larger buffers hold more",
                counted(overwritten, "event record")
            ));
        }
    }
    for one in objects(facts, "late") {
        lines.push(format!(
            "{}: reached {} after its start or the request, and recorded from then on",
            who(one),
            time(Duration::from_nanos(number(one, "late_ns")))
        ));
    }
    lines.extend(beyond(facts, "nr_late", "late", "reached late"));
    lines
}

/// Formats the number of records that were discarded for one reason.
fn discarded(channel: &Facts, reason: &str) -> String {
    let of_reason = || objects(channel, "discards").filter(|one| text(one, "reason") == reason);
    let sum = of_reason().fold(0, |sum: u64, one| sum.saturating_add(number(one, "records")));
    let cpus: Vec<String> = of_reason()
        .filter(|one| one.get("cpu").is_some_and(Value::is_u64))
        .take(CPUS_SHOWN)
        .map(|one| format!("{} on CPU {}", count(number(one, "records")), number(one, "cpu")))
        .collect();
    let ns = |key| of_reason().filter_map(move |one| one.get(key).and_then(Value::as_i64));
    let span = ns("first_ns").min().zip(ns("last_ns").max());
    let span = span.map(|(first, last)| span_text(first, last));
    let known: Vec<String> = cpus.into_iter().chain(span).collect();
    let known = if known.is_empty() { known.concat() } else { format!(": {}", known.join(", ")) };
    format!("{} discarded ({}){known}", counted(sum, "event record"), clean(reason))
}

/// Returns advice on buffer sizes that would have been large enough.
fn advice(channel: &Facts) -> Option<String> {
    let advice = channel.get("advice").and_then(Value::as_object)?;
    let by = match number(advice, "bytes") {
        0 => String::new(),
        bytes => format!(
            ": {} came for one CPU within {}, in which not all was taken",
            size(bytes),
            time(Duration::from_nanos(number(advice, "late_ns")))
        ),
    };
    Some(match (number(advice, "subbuf_size"), number(advice, "num_subbuf")) {
        (0, _) | (_, 0) if number(advice, "needed_bytes") > 0 => format!(
            "select less, or record fewer programs at a time; {}{by}",
            needs(
                number(advice, "needed_bytes"),
                number(advice, "room_bytes"),
                number(advice, "memory_bytes")
            )
        ),
        (0, _) | (_, 0) => format!("select less; larger buffers would not have held it{by}"),
        (bytes, number) => format!(
            "--subbuf-size={} --num-subbuf={number} would have been enough, as an estimate{by}",
            flag_size(bytes)
        ),
    })
}

/// Formats a process that was not reached, with the reason.
pub fn unreached(one: &Facts) -> String {
    format!("{}: {}", who(one), clean(text(one, "reason")))
}

fn who(one: &Facts) -> String {
    match number(one, "pid") {
        0 => clean(text(one, "name")),
        pid => format!("{} ({pid})", clean(text(one, "name"))),
    }
}

/// Returns a line on the number of entries that are not listed.
fn beyond(facts: &Facts, all: &str, shown: &str, what: &str) -> Option<String> {
    let more = number(facts, all).saturating_sub(objects(facts, shown).count() as u64);
    (more > 0).then(|| format!("{} more were {what}", count(more)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_a_line_each_by_reason_with_what_would_have_helped() {
        let odd = json!({
            "mode": "files",
            "triggers": [
                { "name": "t", "matched": 0, "similar": ["a:b"] },
                { "name": "f", "matched": 3, "is_never": true, "slips": [{ "column": 4, "text": "no" }] },
                { "name": "s", "when": { "kind": "silence" }, "matched": 0 },
                { "name": "e", "lacks": "no program" }, { "name": "fine", "matched": 1, "is_never": false },
            ],
            "channels": [
                {
                    "layer": "user", "channel": "big",
                    "events": [
                        { "rule": "a:*", "enabled": true, "matched": 0 }, { "rule": "b:*", "enabled": false, "matched": 0 },
                        { "rule": "*:*", "enabled": true, "matched": 0 },
                        { "rule": "d:*", "enabled": true, "matched": 1, "filter": "n > 3",
                            "slips": [{ "column": 1, "text": "no field" }, { "column": 9, "text": "none" }] },
                    ],
                    "overwritten": 15_883_270,
                    "discards": [
                        { "cpu": 0, "reason": "full", "records": 1200, "first_ns": 5_000_000, "last_ns": 9_000_000 },
                        { "cpu": 3, "reason": "full", "records": 3, "first_ns": 1_000_000, "last_ns": 6_000_000 },
                        { "cpu": null, "reason": "no clock", "records": 1, "first_ns": null, "last_ns": null },
                    ],
                    "advice": { "subbuf_size": 4_194_304, "num_subbuf": 8, "bytes": 20_971_520, "late_ns": 230_000_000 },
                },
                {
                    "layer": "user", "channel": "off", "enabled": false,
                    "events": [{ "rule": "c:*", "enabled": true, "matched": 0 }],
                },
                { "layer": "kernel", "channel": "k", "discards": [{ "reason": "full", "records": 1 }], "advice": { "bytes": 0 } },
            ],
            "not_reached": [{ "pid": 9, "name": "n", "reason": "why" }], "nr_not_reached": 3,
            "late": [{ "pid": 8, "name": "l", "late_ns": 1_500_000_000 }], "nr_late": 1,
        });
        let lines = missing(odd.as_object().unwrap());
        let span = span_text(1_000_000, 9_000_000);
        assert_eq!(
            lines,
            [
                "channel 'big': event rule 'a:*' has matched nothing so far",
                "channel 'big': event rule 'd:*' if n > 3: no event passes a part of the filter: column 1: no field: column 9: \
                 none",
                "trigger 't' cannot fire so far: its rule matches nothing yet; similar: a:b",
                "trigger 'f' cannot fire so far: no event passes the filter: column 4: no",
                "trigger 'e' cannot fire so far: no program",
                "not reached: n (9): why",
                "2 more were not reached",
                &format!("user big: 1,203 event records discarded (full): 1,200 on CPU 0, 3 on CPU 3, {span}"),
                "user big: 1 event record discarded (no clock)",
                "user big: --subbuf-size=4M --num-subbuf=8 would have been enough, as an estimate: 20.0 MiB came for one CPU \
                 within 230.000 ms, in which not all was taken",
                "user big: 15,883,270 event records overwritten before they were written to files. Larger buffers hold more",
                "kernel k: 1 event record discarded (full)",
                "kernel k: select less; larger buffers would not have held it",
                "l (8): reached 1.500 s after its start or the request, and recorded from then on",
            ]
        );
        assert!(
            span.starts_with("from ") && span.contains(".001 to ") && span.ends_with(".009"),
            "{span}"
        );
        let nonsense = json!({ "channels": 7, "late": [1], "nr_late": 2 });
        assert_eq!(missing(nonsense.as_object().unwrap()), ["2 more were reached late"]);
    }
}
