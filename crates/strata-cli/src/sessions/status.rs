//! The command `strata status`: a line for each session, or one session with its channels and rules.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde_json::{json, Value};

use crate::sessions::killed_sessions;
use crate::sessions::not_recorded::{lossy_and_late, slips, unreached};
use crate::sessions::status_fields::{history, is, names, number, objects, text, Facts};
use crate::sessions::statuses;
use crate::stats::table::{Align, Table};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, count, counted, size, time};

/// Prints the status of one session, or of all. Returns 1 if there is none, or if one of them does not record what it
/// should.
pub fn run(name: Option<&str>, strict: bool, is_json: bool) -> Result<u8> {
    let all = statuses(name)?;
    let is_missing = |facts: &Facts| strict && !names(facts, "gaps").is_empty();
    let status = u8::from(all.iter().any(|facts| is_stopped(facts) || is_missing(facts)));
    if is_json {
        stdout::json("status", &to_json(all))?;
        return Ok(status);
    }
    if all.is_empty() {
        let text = "no session runs by itself. `strata create NAME` or `strata record --background NAME …` \
                    makes one"
            .into();
        stderr::message(&Message { weight: Weight::Talk, text });
        return Ok(1);
    }
    let mut text = table(&all);
    if let (Some(_), [one]) = (name, &all[..]) {
        text.push_str(&details(one));
    }
    stdout::paged("status", &text, true)?;
    for one in all.iter().filter(|one| crate::sessions::status::text(one, "state") == "killed") {
        let text = killed_sessions::remedy(&clean(crate::sessions::status::text(one, "name")));
        stderr::message(&Message { weight: Weight::Talk, text });
    }
    for why in all
        .iter()
        .map(|one| crate::sessions::status::text(one, "why"))
        .filter(|why| !why.is_empty())
    {
        stderr::message(&Message { weight: Weight::Warning, text: clean(why) });
    }
    Ok(status)
}

/// Returns true if the session does not record what it should. That includes killed and silent sessions, whose records
/// are unknown.
fn is_stopped(facts: &Facts) -> bool {
    ["killed", "silent"].contains(&text(facts, "state")) || has_no_room(facts)
}

fn has_no_room(facts: &Facts) -> bool {
    facts.get("no_room").is_some_and(Value::is_object)
}

/// Returns an object with the member `sessions`.
pub fn to_json(all: Vec<Facts>) -> Value {
    let sessions: Vec<Value> = all.into_iter().map(Value::Object).collect();
    json!({ "sessions": sessions })
}

/// Columns of the table of sessions.
const COLUMNS: [(&str, Align); 8] = [
    ("session", Align::Left),
    ("pid", Align::Right),
    ("state", Align::Left),
    ("for", Align::Right),
    ("records", Align::Right),
    ("discarded", Align::Right),
    ("overwritten", Align::Right),
    ("where", Align::Left),
];

/// Formats a line for each session, for the terminal if stdout is one.
pub fn table(all: &[Facts]) -> String {
    let mut out = String::new();
    sessions(all).write(&mut out);
    out
}

fn sessions(all: &[Facts]) -> Table {
    let mut table = Table::flush_left(&COLUMNS);
    for facts in all {
        let seconds = facts.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
        let to = facts.get("to").and_then(Value::as_object);
        let relay = to.map(|to| format!("to {}", text(to, "relay")));
        let held = match (text(facts, "mode"), &relay) {
            ("snapshot", _) => "in memory",
            (_, Some(relay)) => relay,
            _ => text(facts, "output"),
        };
        table.row([
            clean(text(facts, "name")).into(),
            number(facts, "pid").to_string().into(),
            match has_no_room(facts) {
                true => "no room".into(),
                false => clean(text(facts, "state")).into(),
            },
            time(Duration::from_secs_f64(seconds.clamp(0.0, 1e9))).into(),
            count(number(facts, "records")).into(),
            count(number(facts, "discarded")).into(),
            count(number(facts, "overwritten")).into(),
            clean(held).into(),
        ]);
    }
    table
}

/// Formats the state of the relay that traces or snapshots are sent to.
fn relay_line(to: &Facts) -> String {
    let relay = clean(text(to, "relay"));
    let away = to.get("away_seconds").and_then(Value::as_f64).unwrap_or(0.0);
    let away = time(Duration::from_secs_f64(away.clamp(0.0, 1e9)));
    let spooled = match number(to, "spooled_bytes") {
        0 => String::new(),
        bytes => format!(" ({} of it in the spool)", size(bytes)),
    };
    let waiting = size(number(to, "waiting_bytes")) + &spooled;
    match to.get("is_connected").and_then(Value::as_bool) {
        None => format!("\nsnapshots go to the relay {relay}\n"),
        Some(true) => format!(
            "\nrelay {relay}: connected, {waiting} not acknowledged yet; {} broke, {away} without one{}\n",
            counted(number(to, "breaks"), "connection"),
            over_quota(to),
        ),
        Some(false) => format!(
            "\nrelay {relay}: not there since {away} in all: {}; {waiting} wait\n",
            clean(text(to, "problem"))
        ),
    }
}

/// Formats what the relay has discarded since it has no room for this host.
fn over_quota(to: &Facts) -> String {
    let records = number(to, "quota_discarded");
    let now = if is(to, "is_over_quota") { ", and discards what comes" } else { "" };
    match records > 0 || !now.is_empty() {
        true => {
            format!("; the relay has discarded {}{now} (quota)", counted(records, "event record"))
        }
        false => String::new(),
    }
}

/// Formats the channels with their rules, the tracked processes, and those that were not reached.
fn details(facts: &Facts) -> String {
    let mut out = String::new();
    for channel in objects(facts, "channels") {
        let on = if is(channel, "enabled") { "" } else { " (disabled)" };
        let _ = writeln!(
            out,
            "\n{} {}{on}: {}, {} × {} for each CPU; {}, {} discarded, {} overwritten",
            clean(text(channel, "layer")),
            clean(text(channel, "channel")),
            clean(text(channel, "loss")),
            number(channel, "num_subbuf"),
            size(number(channel, "subbuf_size")),
            counted(number(channel, "records"), "record"),
            count(number(channel, "discarded")),
            count(number(channel, "overwritten")),
        );
        if let Some(reach) = history(channel) {
            let _ = writeln!(
                out,
                "  history: {reach} at the present rate, in the buffer that forgets first"
            );
        }
        let contexts = names(channel, "contexts");
        if !contexts.is_empty() {
            let _ = writeln!(out, "  contexts: {}", contexts.join(", "));
        }
        for event in objects(channel, "events") {
            let matched = match event.get("matched").and_then(Value::as_u64) {
                _ if !is(event, "enabled") => "disabled".to_owned(),
                None => "not yet looked for".to_owned(),
                Some(0) => "matches nothing".to_owned(),
                Some(number) => format!("matches {}", count(number)),
            };
            let filter = match text(event, "filter") {
                "" => String::new(),
                filter => format!("  if {}", clean(filter)),
            };
            let filter = match event.get("slower_ns").and_then(Value::as_u64) {
                Some(nanos) => {
                    format!("{filter}  if slower than {}", time(Duration::from_nanos(nanos)))
                }
                None => filter,
            };
            let every = event.get("every").and_then(Value::as_u64);
            let every = every.map(|n| format!("  one of {}", count(n))).unwrap_or_default();
            let rate = event.get("at_most").and_then(Value::as_u64);
            let rate = rate.map(|n| format!("  {} a second", count(n))).unwrap_or_default();
            let but = match names(event, "exclude") {
                none if none.is_empty() => String::new(),
                some => format!("  but {}", some.join(", ")),
            };
            let near = match names(event, "similar") {
                none if none.is_empty() => String::new(),
                some => format!("; similar: {}", some.join(", ")),
            };
            let _ = writeln!(
                out,
                "  {:<32} {matched}{near}{but}{filter}{every}{rate}",
                clean(text(event, "rule"))
            );
            for slip in slips(event) {
                let _ = writeln!(out, "    {slip}");
            }
        }
    }
    if let Some(tracked) = facts.get("tracked").and_then(Value::as_object) {
        for (kind, _) in tracked.iter().filter(|(_, some)| some.is_array()) {
            let some = match names(tracked, kind) {
                none if none.is_empty() => "none".to_owned(),
                all => all.join(", "),
            };
            let _ = writeln!(out, "\ntracked {}: {some}", clean(kind));
        }
    }
    if let Some(settle) = facts.get("settle").and_then(Value::as_object) {
        let full = if is(settle, "is_full") { ", and that is full" } else { "" };
        let name = clean(text(facts, "name"));
        let _ = writeln!(
            out,
            "\nheld in memory: at most {}{full}; `strata settle {name}` goes on in {}",
            size(number(settle, "size")),
            clean(text(settle, "folder")),
        );
    }
    if let Some(to) = facts.get("to").and_then(Value::as_object) {
        out.push_str(&relay_line(to));
    }
    if let Some(no_room) = facts.get("no_room").and_then(Value::as_object) {
        let seconds = no_room.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
        let _ = writeln!(
            out,
            "\nno room for {}: {}",
            time(Duration::from_secs_f64(seconds.clamp(0.0, 1e9))),
            clean(text(no_room, "why"))
        );
    }
    if !text(facts, "cpus").is_empty() {
        let _ = writeln!(out, "\nCPUs: {} online", clean(text(facts, "cpus")));
    }
    out.push_str(&parts(facts));
    out.push_str(&retention(facts));
    let triggers = crate::sessions::triggers::lines(facts);
    if !triggers.is_empty() {
        let _ = write!(out, "\ntriggers:\n{triggers}");
    }
    let mut nr_shown = 0;
    for one in objects(facts, "not_reached") {
        let start = if nr_shown == 0 { "\nnot reached:\n" } else { "" };
        let _ = writeln!(out, "{start}  {}", unreached(one));
        nr_shown += 1;
    }
    if number(facts, "nr_not_reached") > nr_shown {
        let _ = writeln!(out, "  and {} more", number(facts, "nr_not_reached") - nr_shown);
    }
    for (index, remark) in names(facts, "remarks").iter().enumerate() {
        let start = if index == 0 { "\nremarks:\n" } else { "" };
        let _ = writeln!(out, "{start}  {remark}");
    }
    for (index, line) in lossy_and_late(facts).into_iter().enumerate() {
        let start = if index == 0 { "\nmissing:\n" } else { "" };
        let _ = writeln!(out, "{start}  {line}");
    }
    if let Some(max) = facts.get("max_memory").and_then(Value::as_u64) {
        let now = size(number(facts, "memory"));
        let _ = writeln!(out, "\nbuffers: {now}, at most {} (--max-memory)", size(max));
    }
    out
}

/// Formats the limits on what the session leaves behind.
fn retention(facts: &Facts) -> String {
    let mut out = String::new();
    let Some(kept) = facts.get("retention").and_then(Value::as_object) else { return out };
    let bound = |key| kept.get(key).and_then(Value::as_u64);
    let what = match is(kept, "is_default") {
        true => "snapshots of triggers",
        false => "parts, snapshots and earlier traces",
    };
    let _ = match (bound("count"), bound("size")) {
        (None, None) => write!(out, "\nkept: all {what}"),
        (Some(most), None) => write!(out, "\nkept: the newest {} {what}", count(most)),
        (None, Some(bytes)) => write!(out, "\nkept: {} of {what}, the newest", size(bytes)),
        (Some(most), Some(bytes)) => {
            write!(out, "\nkept: the newest {} {what}, at most {}", count(most), size(bytes))
        }
    };
    if is(kept, "is_default") {
        out.push_str(" (default; --keep-count 0 keeps all)");
    }
    if let removed @ 1.. = number(kept, "removed") {
        let bytes = size(number(kept, "removed_bytes"));
        let _ = write!(out, "; {} with {bytes} removed", counted(removed, "folder"));
    }
    out.push('\n');
    if !text(kept, "error").is_empty() {
        let _ = writeln!(out, "  last error: {}", clean(text(kept, "error")));
    }
    out
}

/// Formats the parts of a rotated trace.
fn parts(facts: &Facts) -> String {
    let mut out = String::new();
    let chunks = facts.get("chunks").or(facts.get("parts"));
    let Some(parts) = chunks.and_then(Value::as_object) else { return out };
    let (complete, removed) = (number(parts, "complete"), number(parts, "removed"));
    let _ = write!(out, "\nparts: {} complete", count(complete));
    if removed > 0 {
        let _ = write!(
            out,
            ", {} removed with {}",
            count(removed),
            counted(number(parts, "removed_records"), "record")
        );
        if let unknown @ 1.. = number(parts, "removed_unknown") {
            let _ = write!(out, " and those of {} of before", counted(unknown, "part"));
        }
    }
    out.push('\n');
    let present = parts.get("present").and_then(Value::as_object);
    let present = present.map(|part| (part, ", being written"));
    for (part, state) in objects(parts, "last").map(|part| (part, "")).chain(present) {
        let records = match part.get("records").and_then(Value::as_u64) {
            Some(records) => format!("  {}", counted(records, "record")),
            None => String::new(),
        };
        let _ = writeln!(out, "  {}{records}{state}", clean(text(part, "folder")));
    }
    if !text(parts, "error").is_empty() {
        let _ = writeln!(out, "  last error: {}", clean(text(parts, "error")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let facts = json!({
            "name": "fr", "pid": 7, "state": "recording", "seconds": 1.5, "mode": "snapshot",
            "output": null, "records": 12, "discarded": 0, "overwritten": 3,
            "channels": [
                {
                    "layer": "user", "channel": "channel0", "enabled": true, "loss": "overwrite",
                    "num_subbuf": 8, "subbuf_size": 65536, "records": 12, "discarded": 0,
                    "overwritten": 15_883_270, "contexts": ["vpid"],
                    "events": [
                        { "rule": "a:*", "filter": "n > 3", "exclude": ["a:x"], "enabled": true, "matched": 2,
                            "slips": [{ "column": 1, "text": "no field 'n'" }], "is_never": true },
                        { "rule": "b:\u{1b}", "filter": null, "exclude": [], "enabled": true, "matched": 0, "similar": ["bb:*"] },
                        { "rule": "c:*", "filter": null, "exclude": [], "enabled": true, "matched": null },
                        { "rule": "d:*", "filter": null, "exclude": [], "enabled": false, "matched": 4 },
                    ],
                },
                { "layer": "kernel", "channel": "big", "enabled": false, "events": [] },
            ],
            "tracked": { "pids": [1, 2], "uids": null, "names": [] },
            "chunks": {
                "present": { "number": 9, "folder": "/d/0009-x", "records": 7 }, "complete": 2,
                "last": [{ "number": 7, "folder": "/d/0007-x" }, { "number": 8, "folder": "/d/0008-\u{1b}", "records": 1 }],
                "removed": 6, "removed_records": 1000, "removed_unknown": 1, "error": "why",
            },
            "not_reached": [{ "pid": 9, "name": "n", "reason": "why" }],
            "nr_not_reached": 3,
            "remarks": ["probe \u{1b}: some are left out"],
        });
        facts.as_object().unwrap().clone()
    }

    #[test]
    fn status_of_one_session_has_its_channels_rules_and_who_is_missing() {
        let text = details(&facts());
        for line in [
            "user channel0: overwrite, 8 × 64.0 KiB for each CPU; 12 records, 0 discarded, 15,883,270 overwritten",
            "  contexts: vpid",
            "  a:*                              matches 2  but a:x  if n > 3",
            "    no event passes the filter: column 1: no field 'n'",
            "  c:*                              not yet looked for",
            "  d:*                              disabled",
            "tracked pids: 1, 2",
            "tracked names: none",
            "parts: 2 complete, 6 removed with 1,000 records and those of 1 part of before",
            "  /d/0007-x",
            "  /d/0008-\\u{1b}  1 record",
            "  /d/0009-x  7 records, being written",
            "  last error: why",
            "not reached:",
            "  n (9): why",
            "  and 2 more",
            "remarks:",
            "  probe \\u{1b}: some are left out",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(text.contains("kernel big (disabled)") && !text.contains("uids"), "{text}");
        assert!(text.contains("matches nothing") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn table_of_sessions_with_long_names_fits_80_columns() {
        let mut long = facts();
        long.insert("name".into(), "a-session-with-a-name-of-some-length".into());
        long.insert("output".into(), format!("/var/traces/{}", "long/".repeat(30)).into());
        long.insert("mode".into(), "stream".into());
        long.insert("records".into(), 12_345_678_901_u64.into());
        for (columns, has_pid) in [(80, false), (200, true)] {
            let mut text = String::new();
            sessions(&[long.clone(), facts()]).write_within(&mut text, Some(columns));
            let text = anstream::adapter::strip_str(&text).to_string();
            let head = text.lines().next().unwrap();
            // What is too long in the last column is cut where the text is written.
            assert!(head.chars().count() <= columns && head.ends_with("  where"), "{text}");
            assert!(head.contains("records  discarded"), "{text}");
            assert_eq!(head.contains("pid"), has_pid, "{text}");
            // So that the end of the last column is cut, which the terminal's writer does, and nothing else.
            let where_at = head.chars().count() - "where".len();
            assert!(where_at + 8 <= columns, "{text}");
        }
    }

    #[test]
    fn status_of_sessions_that_say_little_or_nonsense_is_a_table_all_the_same() {
        let odd = json!({ "name": 3, "seconds": -1e300, "channels": 7, "not_reached": [1], "tracked": [] });
        let odd = odd.as_object().unwrap().clone();
        let text = table(&[facts(), odd.clone()]);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("in memory"), "{text}");
        assert_eq!(details(&odd), "");
        assert_eq!(to_json(vec![odd])["sessions"][0]["name"], 3);
    }
}
