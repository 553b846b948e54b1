//! Commands for triggers of sessions: `strata add-trigger`, `list-triggers`, `remove-trigger`.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde_json::{json, Map, Value};
use strata_control::{ask, Folder, Request};
use strata_session::plan::Change;

use crate::flags::sessions::OfSession;
use crate::flags::triggers::{AddTriggerFlags, RemoveTriggerFlags};
use crate::sessions::not_recorded::doubts;
use crate::sessions::status_fields::{names, number, objects, text, Facts};
use crate::sessions::{done, one_of, request};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, count, shell_word, size, time};

/// Sends a change to a session, and reports what was done to which trigger. Returns the exit status and the session's
/// status.
fn change(
    of: &OfSession,
    (folder, session): (&Folder, &str),
    change: &Change,
    name: &str,
    what: &str,
) -> Result<(u8, Facts)> {
    let facts = ask(folder, session, &request(change)?)?;
    let mut said = facts.clone();
    said.insert("trigger".into(), name.into());
    let text = format!("trigger '{name}' {what} session '{session}'");
    Ok((done(&of.answer, session, said, text), facts))
}

/// Runs `strata add-trigger`.
pub fn add(flags: &AddTriggerFlags) -> Result<u8> {
    let (folder, session) = one_of(flags.of.session.as_deref())?;
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => {
            let facts = ask(&folder, &session, &Request::Status)?;
            let names: Vec<&str> =
                objects(&facts, "triggers").map(|one| text(one, "name")).collect();
            let mut free = (0u64..).map(|number| format!("trigger{number}"));
            free.find(|name| !names.contains(&name.as_str())).unwrap_or_default()
        }
    };
    let trigger = flags.trigger(name.clone())?;
    if let Some(command) = flags.swallowed() {
        let text = format!(
            "trigger '{}' runs '{}': all words behind --run are the command's, and none the trigger's. Options of the trigger stand in \
             front of --run",
            clean(&name),
            clean(&command)
        );
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    let added = Change::AddTrigger(Box::new(trigger));
    let (status, facts) = change(&flags.of, (&folder, &session), &added, &name, "is added to")?;
    // Only what is certain now: a rule without a program may match one later.
    let is_it = |one: &&Facts| text(one, "name") == name;
    for one in objects(&facts, "triggers").filter(is_it) {
        let may_come = names(one, "similar").is_empty() && number(one, "matched") == 0;
        let has_rule = one.get("matched").is_some_and(Value::is_u64);
        let is_quiet = flags.of.answer.is_json() || has_rule && may_come;
        if !is_quiet {
            doubts(one).into_iter().for_each(|doubt| {
                let text = format!("trigger '{}': {doubt}", clean(&name));
                stderr::message(&Message { weight: Weight::Warning, text });
            });
        }
    }
    Ok(status)
}

/// Runs `strata remove-trigger`.
pub fn remove(flags: &RemoveTriggerFlags) -> Result<u8> {
    let (folder, session) = one_of(flags.of.session.as_deref())?;
    let removed = Change::RemoveTrigger(flags.name.clone());
    Ok(change(&flags.of, (&folder, &session), &removed, &flags.name, "is removed from")?.0)
}

/// Runs `strata list-triggers`. Returns 1 if there is none.
pub fn list(of: &OfSession) -> Result<u8> {
    let (folder, session) = one_of(of.session.as_deref())?;
    let facts = ask(&folder, &session, &Request::Status)?;
    let is_none = objects(&facts, "triggers").next().is_none();
    if of.answer.is_json() {
        let triggers = facts.get("triggers").cloned().unwrap_or_else(|| json!([]));
        stdout::json("list-triggers", &json!({ "session": session, "triggers": triggers }))?;
        return Ok(u8::from(is_none));
    }
    if is_none {
        let none = format!(
            "session '{session}' has no trigger. `strata add-trigger -s {session} …` adds one"
        );
        return Ok(done(&of.answer, &session, Map::new(), none) + 1);
    }
    stdout::paged("list-triggers", &lines(&facts), true)?;
    Ok(0)
}

/// Formats one or more lines for each trigger of a session.
pub fn lines(facts: &Facts) -> String {
    let mut out = String::new();
    for trigger in objects(facts, "triggers") {
        let when = match trigger.get("when").and_then(Value::as_object) {
            Some(when) => condition(when),
            None => String::new(),
        };
        let actions: Vec<String> = objects(trigger, "actions").map(action).collect();
        let _ = writeln!(out, "{}: {when}: {}", clean(text(trigger, "name")), actions.join(", "));
        let times = match trigger.get("times").and_then(Value::as_u64) {
            Some(times) => format!(" of {times}"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "  fired {}{times}, suppressed {}, not again within {}",
            count(number(trigger, "fired")),
            count(number(trigger, "suppressed")),
            time(Duration::from_millis(number(trigger, "pause_ms"))),
        );
        for doubt in doubts(trigger) {
            let _ = writeln!(out, "  {doubt}");
        }
        if !text(trigger, "error").is_empty() {
            let _ = writeln!(out, "  last error: {}", clean(text(trigger, "error")));
        }
    }
    out
}

fn condition(when: &Facts) -> String {
    let selection = when.get("selection").and_then(Value::as_object).map(|selection| {
        let filter = match text(selection, "filter") {
            "" => String::new(),
            filter => format!(" if {}", clean(filter)),
        };
        format!("{} {}{filter}", clean(text(selection, "layer")), clean(text(selection, "rule")))
    });
    let selection = selection.unwrap_or_default();
    match text(when, "kind") {
        "event" => format!("event {selection}"),
        "silence" => {
            let ms = time(Duration::from_millis(number(when, "ms")));
            format!("no event {selection} for {ms}")
        }
        "ended" => match text(when, "how") {
            "signal" => "a program ends by a signal".to_owned(),
            "failure" => "a program ends with a failure".to_owned(),
            _ => "a program ends".to_owned(),
        },
        "signal" => "SIGUSR1".to_owned(),
        "fill" => format!("buffers filled to {} %", number(when, "percent")),
        "written" => format!("each {} written", size(number(when, "bytes"))),
        "part" => "a part is complete".to_owned(),
        other => clean(other),
    }
}

fn action(action: &Facts) -> String {
    match (text(action, "kind"), text(action, "folder")) {
        ("snapshot", "") => "snapshot".to_owned(),
        ("snapshot", folder) => format!("snapshot in {}", clean(&shell_word(folder))),
        ("run", _) => {
            let words = action.get("command").and_then(Value::as_array).into_iter().flatten();
            let words = words.filter_map(Value::as_str).map(shell_word);
            format!("run {}", clean(&words.collect::<Vec<_>>().join(" ")))
        }
        (other, _) => clean(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigger_is_reported_in_words_whatever_it_says() {
        let facts = json!({ "triggers": [
            {
                "name": "dear", "fired": 1, "suppressed": 4, "pause_ms": 10000, "times": 3, "matched": 0,
                "similar": ["b:c"], "is_never": true, "slips": [{ "column": 1, "text": "no \u{1b}" }],
                "when": { "kind": "event",
                    "selection": { "layer": "user", "rule": "a:\u{1b}", "filter": "n > 3" } },
                "actions": [
                    { "kind": "snapshot", "folder": "/a b" },
                    { "kind": "run", "command": ["sh", "-c", "x y"] },
                ],
                "error": "it\nbroke",
            },
            { "name": "q", "when": { "kind": "silence", "ms": 1500, "selection": {} }, "actions": [7, {}] },
            { "name": "e", "when": { "kind": "ended", "how": "signal" }, "actions": [{ "kind": "stop" }] },
            { "name": "f", "when": { "kind": "fill", "percent": 80 } },
            { "name": "w", "when": { "kind": "written", "bytes": 1 << 30 } },
            { "name": "p", "when": { "kind": "part" } },
            { "name": "s", "when": { "kind": "signal" } }, 3, { "when": 7 },
        ] });
        let text = lines(facts.as_object().unwrap());
        for line in [
            "dear: event user a:\\u{1b} if n > 3: snapshot in '/a b', run sh -c 'x y'",
            "  fired 1 of 3, suppressed 4, not again within 10.000 s",
            "  its rule matches nothing yet; similar: b:c",
            "  no event passes the filter: column 1: no \\u{1b}",
            "  last error: it\\nbroke",
            "e: a program ends by a signal: stop",
            "s: SIGUSR1: ",
            "f: buffers filled to 80 %: ",
            "w: each 1.0 GiB written: ",
            "p: a part is complete: ",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(text.contains("q: no event ") && !text.contains('\u{1b}'), "{text}");
    }
}
