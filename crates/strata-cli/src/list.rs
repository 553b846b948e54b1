//! The command `strata list`: sessions, running applications and their tracepoints, the kernel's events, or the
//! content of a trace's metadata.
//!
//! | typed | shown | module |
//! |---|---|---|
//! | `list` | sessions, and running programs with their tracepoints | here |
//! | `list -k [NAME]` | the kernel's events and their fields | [`kernel_list`] |
//! | `list --probes FILE` | the USDT probes of a program | [`kernel_list`] |
//! | `list TRACE` | clocks, streams and event classes of a trace | [`trace_list`] |
//! | `list --names` | one name a line, for shell completions | here |
//!
//! Running programs are found by `strata_session::list`, which looks through `/proc` and reads the memory of programs
//! that have tracepoints; it needs no session and changes nothing. What it could not read is a warning on stderr.
//!
//! Exit status: 1 if there is nothing to list for people. With JSON, an empty list is an answer (0).
//!
//! # Data flow
//! ```text
//! flags ── strata_session::list() ─▶ Listing ─┬─ to_text(): a process, below it its tracepoints ─▶ stdout
//!                                             └─ to_json(): the same as one document, whose keys stay
//! ```
//! Names of programs, providers and fields are text of other users. They reach the terminal through
//! [`stdout`](crate::stdout) only, which escapes what a terminal acts on.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{json, Value};
use strata_kernel::Contexts;
use strata_session::listing::{list, ListedProcess, ListedTracepoint, Listing};
use strata_session::plan::LayerOf;
use strata_session::{level_name, EVENT_CONTEXTS};

use crate::flags::ListFlags;
use crate::sessions::statuses;
use crate::sessions::{self, status};
use crate::stderr;
use crate::stderr::messages::{self, Message, Weight};
use crate::stdout;
use crate::units::{clean, counted};

pub mod kernel_list;
pub mod trace_list;

/// Runs `strata list`. Returns the exit status: 1 if there is nothing to list for people.
pub fn run(flags: &ListFlags) -> Result<u8> {
    if flags.names {
        return names(flags.sessions);
    }
    let sessions = if flags.user { Vec::new() } else { statuses(None)? };
    if flags.sessions {
        let is_empty = sessions.is_empty();
        match flags.is_json() {
            true => stdout::json_lines("list", &status::to_json(sessions))?,
            false if is_empty => {}
            false => stdout::paged("list", &status::table(&sessions), true)?,
        }
        return Ok(u8::from(is_empty && !flags.is_json()));
    }
    let listing = list()?;
    let is_empty = sessions.is_empty() && listing.processes.is_empty();
    if flags.is_json() {
        let mut all = to_json(&listing);
        if !flags.user {
            all["sessions"] = status::to_json(sessions)["sessions"].take();
        }
        stdout::json_lines("list", &all)?;
    } else {
        let processes = to_text(&listing);
        let all = match sessions.is_empty() {
            true => processes,
            false => format!("{}\n{processes}", status::table(&sessions)),
        };
        stdout::paged("list", &all, true)?;
        for text in messages::list_remarks(&listing) {
            stderr::message(&Message { weight: Weight::Warning, text });
        }
    }
    Ok(u8::from(is_empty && !flags.is_json()))
}

/// Prints the names of sessions, or of the tracepoints of running applications, a line for each. Shell completions use
/// it.
fn names(of_sessions: bool) -> Result<u8> {
    let mut all: Vec<String> = match of_sessions {
        true => sessions::session_names()?,
        false => list()?
            .processes
            .iter()
            .flat_map(|process| process.tracepoints.iter().map(ListedTracepoint::full_name))
            .collect(),
    };
    all.sort();
    all.dedup();
    let lines: Vec<String> = all.iter().map(|name| clean(name) + "\n").collect();
    stdout::text("list", &lines.concat())?;
    Ok(0)
}

/// Prints `strata add-context --list` for these layers, for people or as JSON.
pub fn list_contexts(layers: &[LayerOf], is_json: bool) -> Result<u8> {
    if !is_json {
        return contexts_of(layers);
    }
    let of_layer = |layer: &LayerOf| {
        let name = match layer {
            LayerOf::User => "user",
            LayerOf::Kernel => "kernel",
        };
        let object =
            move |(context, about)| json!({ "layer": name, "name": context, "about": about });
        names_of(layer).into_iter().map(object)
    };
    let all: Vec<Value> = layers.iter().flat_map(of_layer).collect();
    stdout::json("contexts", &json!({ "contexts": all }))?;
    Ok(0)
}

/// Returns the names and descriptions of a layer's contexts.
fn names_of(layer: &LayerOf) -> Vec<(String, String)> {
    let owned = |(name, about): (&str, &str)| (name.to_owned(), about.to_owned());
    match layer {
        LayerOf::User => EVENT_CONTEXTS.iter().map(|one| owned((one.name, one.about))).collect(),
        LayerOf::Kernel => Contexts::all().map(owned).chain(Contexts::all_counters()).collect(),
    }
}

/// Runs `strata record --context help`, `--kernel-context help` and `strata add-context --list`, for one or more
/// layers.
pub fn contexts_of(layers: &[LayerOf]) -> Result<u8> {
    let mut text = String::new();
    for layer in layers {
        let all = names_of(layer);
        if layers.len() > 1 {
            let heading = match layer {
                LayerOf::User => "Of applications (-u):",
                LayerOf::Kernel => "Of the kernel (-k):",
            };
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{heading}");
        }
        let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, about) in all {
            let _ = writeln!(text, "{name:width$}  {about}");
        }
    }
    stdout::paged("contexts", &text, true)?;
    Ok(0)
}

/// Formats the list for people.
fn to_text(listing: &Listing) -> String {
    let mut text = String::new();
    for (number, process) in listing.processes.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{} (process {}): {}",
            clean(&process.name),
            process.pid,
            counted(process.tracepoints.len() as u64, "tracepoint")
        );
        add_tracepoints(&mut text, process);
    }
    text
}

fn add_tracepoints(text: &mut String, process: &ListedProcess) {
    let names: Vec<String> = process.tracepoints.iter().map(|t| clean(&t.full_name())).collect();
    let levels: Vec<String> = process.tracepoints.iter().map(|t| level_text(t.level)).collect();
    let width = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (name_width, level_width) = (width(&names).min(60), width(&levels));
    for ((tracepoint, name), level) in process.tracepoints.iter().zip(names).zip(levels) {
        let state = if tracepoint.sessions > 0 { "on" } else { "off" };
        let _ = writeln!(
            text,
            "  {name:name_width$}  {level:level_width$}  {state:3}  {}  {}",
            clean(&fields(tracepoint)),
            clean(&place(tracepoint))
        );
    }
}

/// Returns the name of a log level, such as `warning`, or its number.
fn level_text(level: u8) -> String {
    level_name(level).map_or_else(|| level.to_string(), str::to_owned)
}

/// Formats the fields of a tracepoint: `{ u64 id, string name }`.
fn fields(tracepoint: &ListedTracepoint) -> String {
    if tracepoint.fields.is_empty() {
        return "{}".to_owned();
    }
    let fields: Vec<String> =
        tracepoint.fields.iter().map(|field| format!("{} {}", field.class, field.name)).collect();
    format!("{{ {} }}", fields.join(", "))
}

/// Returns the source position of a tracepoint, such as `demo.c:12`. The library's own events have none, nor need those
/// of classes that were made at run time.
fn place(tracepoint: &ListedTracepoint) -> String {
    match tracepoint.file.is_empty() {
        true if tracepoint.provider == "strata" => "(libstrata)".to_owned(),
        true => "(made at run time)".to_owned(),
        false => format!("{}:{}", tracepoint.file, tracepoint.line),
    }
}

/// Formats the list as JSON.
fn to_json(listing: &Listing) -> Value {
    let tracepoint = |tracepoint: &ListedTracepoint| {
        json!({
            "provider": tracepoint.provider,
            "event": tracepoint.event,
            "level": tracepoint.level,
            "level_name": level_text(tracepoint.level),
            "file": tracepoint.file,
            "line": tracepoint.line,
            "on": tracepoint.sessions > 0,
            "sessions": tracepoint.sessions,
            "fields": tracepoint.fields.iter()
                .map(|field| json!({ "name": field.name, "type": field.class }))
                .collect::<Vec<_>>(),
        })
    };
    let process = |process: &ListedProcess| {
        json!({
            "pid": process.pid,
            "name": process.name,
            "tracepoints": process.tracepoints.iter().map(tracepoint).collect::<Vec<_>>(),
        })
    };
    json!({
        "processes": listing.processes.iter().map(process).collect::<Vec<_>>(),
        "not_reached": listing.not_reached.iter()
            .map(|p| json!({ "pid": p.pid, "name": p.name, "reason": p.reason }))
            .collect::<Vec<_>>(),
        "of_lttng": listing.of_lttng.iter()
            .map(|p| json!({ "pid": p.pid, "name": p.name, "reason": p.reason }))
            .collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_session::listing::ListedField;
    use strata_session::report::NotReached;

    fn listing() -> Listing {
        let field =
            |class: &str, name: &str| ListedField { class: class.into(), name: name.into() };
        let tracepoint = |event: &str, level, sessions, fields| ListedTracepoint {
            provider: "demo".into(),
            event: event.into(),
            level,
            file: "demo.c".into(),
            line: 12,
            sessions,
            fields,
        };
        Listing {
            processes: vec![
                ListedProcess {
                    pid: 7,
                    name: "de\x1bmo".into(),
                    tracepoints: vec![
                        tracepoint("request", 6, 1, vec![field("u64", "id"), field("string", "s")]),
                        tracepoint("x", 14, 0, vec![]),
                    ],
                },
                ListedProcess { pid: 8, name: "idle".into(), tracepoints: vec![] },
            ],
            not_reached: vec![NotReached { pid: 9, name: "n".into(), reason: "why".into() }],
            of_lttng: Vec::new(),
        }
    }

    #[test]
    fn list_as_text_is_grouped_and_aligned() {
        assert_eq!(
            to_text(&listing()),
            "de\\u{1b}mo (process 7): 2 tracepoints\n\
             \x20 demo:request  info   on   { u64 id, string s }  demo.c:12\n\
             \x20 demo:x        debug  off  {}  demo.c:12\n\
             \n\
             idle (process 8): 0 tracepoints\n"
        );
        assert_eq!(to_text(&Listing::default()), "");
    }

    #[test]
    fn list_as_json_has_everything_under_its_name() {
        let value = to_json(&listing());
        let tracepoint = &value["processes"][0]["tracepoints"][0];
        assert_eq!(tracepoint["provider"], "demo");
        assert_eq!(tracepoint["level_name"], "info");
        assert_eq!(tracepoint["on"], true);
        assert_eq!(tracepoint["fields"][1]["type"], "string");
        assert_eq!(value["not_reached"][0]["reason"], "why");
    }
}
