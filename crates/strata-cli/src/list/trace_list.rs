//! The command `strata list TRACE`: shows what a trace's metadata describe. No packet is decoded.
//!
//! ```text
//! Reader::open ── schema ─┬─ text(): environment, clocks, stream classes, event classes    here, class.rs, streams.rs
//!                         └─ json::write(): everything in the metadata                    json.rs
//! ```
//!
//! A line of text is made for each field class, such as `{ u64 id, string name }`. Names are text of the trace, so
//! they are written through `stdout`, which makes them harmless for a terminal.
//!
//! Exit status: 0, or 2 if a part of the traces cannot be read; all that can be read is shown in any case.
//!
//! Several traces are shown one after the other, in the order in which the reader found them. JSON has
//! everything; for people, an enumeration with many labels is shown in part, and so is nesting deeper than
//! `LEVELS`. Only the main thread works here, and memory is that of the schema, whose limits the reader has
//! checked: metadata may come from anybody.
//!
//! `json` writes while it goes through the schema, so that a schema of thousands of classes needs no second copy
//! as a tree.

mod class;
mod json;
mod streams;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use strata_ctf::model::schema::{EventClass, Schema, StreamClass, Structure};
use strata_ctf::model::{ClockClass, EnvValue};
use strata_ctf::read::{Reader, Trace};
use strata_session::level_name;

use crate::reading::incomplete_traces;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, counted, size};
use class::structure;
use streams::streams_of;

/// Lists the metadata. Returns the exit status: 2 if a part of the traces cannot be read.
pub fn run(traces: &[PathBuf], json: bool) -> Result<u8> {
    let reader = Reader::open(traces)?;
    let written = match json {
        true => {
            let mut out = BufWriter::new(stdout::raw());
            json::write(&mut out, &reader).and_then(|()| out.flush())
        }
        false if stdout::is_terminal() => {
            let mut all = Vec::new();
            text(&mut all, &reader)?;
            stdout::paged_whole("list", &String::from_utf8_lossy(&all))?;
            Ok(())
        }
        false => {
            let mut out = stdout::TextLines::new();
            text(&mut out, &reader).and_then(|()| out.flush())
        }
    };
    written.context("list: cannot write to stdout")?;
    incomplete_traces::messages(&reader).iter().for_each(stderr::message);
    let mut damaged = false;
    for damage in reader.damage() {
        damaged |= !damage.is_remark();
        let weight = if damage.is_remark() { Weight::Warning } else { Weight::Failure };
        stderr::message(&Message { weight, text: clean(&damage.to_string()) });
    }
    Ok(if damaged { 2 } else { 0 })
}

/// Writes the description for people.
fn text(out: &mut impl Write, reader: &Reader) -> io::Result<()> {
    for (number, trace) in reader.traces().iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let schema = trace.schema();
        writeln!(out, "trace '{}'", clean(&trace.path().display().to_string()))?;
        if let Some(uuid) = schema.uuid {
            writeln!(out, "  uuid {uuid}")?;
        }
        environment(out, schema)?;
        for clock in &schema.clocks {
            writeln!(out, "  clock {}", clock_text(clock))?;
        }
        part(out, 2, "packet header", schema.packet_header.as_ref(), schema)?;
        for class in &schema.streams {
            stream_class(out, reader, trace, class)?;
        }
    }
    Ok(())
}

fn environment(out: &mut impl Write, schema: &Schema) -> io::Result<()> {
    for (name, value) in &schema.environment {
        match value {
            EnvValue::Integer(number) => writeln!(out, "  env {} = {number}", clean(name))?,
            EnvValue::Text(text) => writeln!(out, "  env {} = \"{}\"", clean(name), clean(text))?,
        }
    }
    Ok(())
}

/// Formats a clock class: `monotonic: 1000000000 Hz, offset 1700000000 s + 0 cycles`.
fn clock_text(clock: &ClockClass) -> String {
    let mut text = format!(
        "{}: {} Hz, offset {} s + {} cycles",
        clean(&clock.name),
        clock.frequency,
        clock.offset_s,
        clock.offset_cycles
    );
    if clock.precision > 0 {
        text.push_str(&format!(", precision {} cycles", clock.precision));
    }
    if let Some(uuid) = clock.uuid {
        text.push_str(&format!(", uuid {uuid}"));
    }
    if clock.absolute {
        text.push_str(", absolute");
    }
    if !clock.description.is_empty() {
        text.push_str(&format!(" ({})", clean(&clock.description)));
    }
    text
}

fn stream_class(
    out: &mut impl Write,
    reader: &Reader,
    trace: &Trace,
    class: &StreamClass,
) -> io::Result<()> {
    let schema = trace.schema();
    let name = class.name.as_deref().map(|name| format!(" '{}'", clean(name)));
    let clock = class.clock.and_then(|index| schema.clocks.get(index));
    let clock = clock.map(|clock| format!(", clock {}", clean(&clock.name)));
    writeln!(
        out,
        "  stream class {}{}{}: {}",
        class.id,
        name.unwrap_or_default(),
        clock.unwrap_or_default(),
        counted(class.events.len() as u64, "event class").replace("classs", "classes")
    )?;
    for stream in streams_of(reader, trace, class) {
        let bytes = size(stream.bytes());
        writeln!(out, "    stream '{}': {bytes}", clean(stream.name()))?;
    }
    part(out, 4, "packet context", class.packet_context.as_ref(), schema)?;
    part(out, 4, "event header", class.event_header.as_ref(), schema)?;
    part(out, 4, "common context", class.event_common_context.as_ref(), schema)?;
    for event in &class.events {
        event_class(out, event, schema)?;
    }
    Ok(())
}

fn event_class(out: &mut impl Write, event: &EventClass, schema: &Schema) -> io::Result<()> {
    let name = if event.name.is_empty() { "<unknown>" } else { &event.name };
    write!(out, "    event {} (id {})", clean(name), event.id)?;
    if let Some(level) = event.loglevel {
        write!(out, ", {}", level_text(level))?;
    }
    if let Some(emf) = &event.emf_uri {
        write!(out, ", emf {}", clean(emf))?;
    }
    writeln!(out)?;
    part(out, 6, "context", event.specific_context.as_ref(), schema)?;
    part(out, 6, "fields", event.payload.as_ref(), schema)
}

/// Returns the name of a log level, such as `warning`, or its number.
fn level_text(level: i64) -> String {
    let name = u8::try_from(level).ok().and_then(level_name);
    name.map_or_else(|| format!("loglevel {level}"), str::to_owned)
}

fn part(
    out: &mut impl Write,
    indent: usize,
    what: &str,
    found: Option<&Structure>,
    schema: &Schema,
) -> io::Result<()> {
    let Some(found) = found else { return Ok(()) };
    writeln!(out, "{:indent$}{what} {}", "", structure(found, schema))
}

#[cfg(test)]
mod tests;
