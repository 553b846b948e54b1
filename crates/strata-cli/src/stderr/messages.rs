//! The texts of all messages, each in the form *what failed: which one, value found, limit. What to do.*
//!
//! The recorder's crates return data ([`strata_session::report`]); this module has the words. [`summary`] makes the
//! messages at the end of a recording, [`notice`] those while it runs, and [`progress`] the line that is drawn again and
//! again.
//!
//! ```text
//! Notice  ─ notice() ─┐
//! Report  ─ summary() ┼─▶ Message { weight, text } ─ stderr::message() ─▶ stderr: "strata: …", coloured by weight
//! clap's errors ─ usage.rs, mistakes.rs, lttng.rs ┘
//! ```
//!
//! # Rules for a text
//! - It names the thing (process, channel, rule, file), the value that was found, and the limit; then what to type.
//! - [`Weight::Talk`] if everything went as it should, [`Weight::Warning`] if the trace is not all that was asked for,
//!   [`Weight::Failure`] if the recording failed. `--quiet` leaves out the first.
//! - Foreign names go through [`clean`], so that no program can act on the terminal by its name.
//! - Several processes of one name with the same problem get one message; of any kind of message, 20 are shown and the
//!   rest counted, so that a thousand processes do not scroll away what matters.
//! - Losses use the words of GLOSSARY ("discarded", by reason), and come with the buffers that would have prevented them.
//!
//! `losses.rs` has losses of applications, `kernel.rs` those of the kernel, `unmatched_filters.rs` rules and filters that match
//! nothing.

mod kernel;
mod losses;
pub mod lttng;
mod message;
mod mistakes;
pub use mistakes::wait_without_thread;
mod unmatched_filters;
mod usage;

pub use kernel::{no_such_event, nothing_selected, weight_of_no_kernel};
pub use losses::{needs, span_text};
pub use message::{Message, Weight};
pub use usage::{broken, usage};

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use strata_session::listing::Listing;
use strata_session::preload;
use strata_session::report::{
    nr_in_trace, nr_processes, CommandEnd, Counts, EndReason, LayerReport, NotReached, Notice,
    ProcessReport, Progress, RecordingTarget, Report, GUEST, KERNEL, USER,
};

use crate::units::{clean, count, counted, flag_size, rate, shell_word, size, time, typed};
use message::{named, sentence, talk, warning, who, NAMES_SHOWN};

/// Limit on the processes that the summary lists one by one.
const PROCESSES_SHOWN: usize = 20;
/// Limit on the messages of one kind that are shown one by one.
const MESSAGES_SHOWN: usize = 20;
/// Returns the message for a notice of a running session; `None` if it needs none.
pub fn notice(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Describing { .. }
        | Notice::Searching { .. }
        | Notice::Admitting { .. }
        | Notice::Attaching { .. }
        | Notice::Sending(_)
        | Notice::Stopping => None,
        Notice::Counting => Some("counting; stop with Ctrl-C".to_owned()),
        Notice::ManyPrograms { programs } => Some(kernel::many_programs(*programs)),
        Notice::NoSuchEvent(rule) => Some(kernel::no_such_event(rule)),
        Notice::NoKernel(reason) => Some(kernel::not_recorded(reason)),
        Notice::Started {
            output,
            relay,
            remote,
            command,
            processes,
            events,
            memory,
            max_memory,
        } => Some(format!(
            "recording {}{}",
            started(
                &match (output, relay, remote) {
                    (Some(output), ..) => shell_word(&output.display().to_string()),
                    (None, Some(channel), _) => {
                        format!("the host's recorder, by {}", shell_word(channel))
                    }
                    (None, None, Some(relay)) => format!("the relay {}", shell_word(relay)),
                    (None, None, None) => "memory, which `strata snapshot` saves".to_owned(),
                },
                *command,
                *processes,
                *events
            ),
            max_memory.map_or_else(String::new, |max| format!(
                ". Buffers take {}, and at most {}",
                size(*memory),
                size(max)
            ))
        )),
        Notice::Remote(text) => Some(text.clone()),
        Notice::WaitingForHost { channel } => Some(format!(
            "waiting for the host's recorder, by {}; on the host: strata record --guest NAME=CHANNEL. Ctrl-C stops",
            shell_word(channel)
        )),
        Notice::WaitingForDescendants => Some(
            "the command has ended; recording goes on until all that it has started has ended, too. \
             Ctrl-C stops"
                .to_owned(),
        ),
        Notice::WaitingForCommand { pid, passed_on } => {
            let passed_on = match passed_on {
                None => String::new(),
                Some(Ok(signal)) => format!(", which got signal {signal}, too,"),
                Some(Err(why)) => format!(", which could not be told ({}),", clean(why)),
            };
            Some(format!(
                "asked to stop: waiting for the command (process {pid}){passed_on} to end. Ask again to \
                 stop recording at once"
            ))
        }
        Notice::LayerFailed { layer, why } => Some(format!(
            "{} no longer recorded: {} {}",
            match *layer {
                KERNEL => "the kernel is",
                GUEST => "a guest is",
                _ => "programs are",
            },
            sentence(why),
            match *layer {
                KERNEL => "Programs still are",
                GUEST => "All else still is",
                _ => "The kernel still is",
            },
        )),
        Notice::Failed { why, command } => Some(format!(
            "recording stopped: {} Waiting for the command (process {command}) to end",
            sentence(why)
        )),
        Notice::NotRotated { why } => Some(sentence(why)),
        Notice::Remark(text) => Some(sentence(text)),
        Notice::WaitsForRoom { why } => Some(format!(
            "there is no room for the trace: what comes stays in the buffers, and is discarded or overwritten once they \
             are full, until there is some: {}",
            sentence(why)
        )),
        Notice::NoRoom { folder, name } => Some(format!(
            "'{}' has used all memory that it may take: records stay in the buffers, and are discarded once these are full, until `strata settle {name}`",
            clean(&folder.display().to_string())
        )),
        Notice::Progress(_) => None,
    }
}

/// Formats the processes that were found by name: `--pid=nginx: 3 processes: 12, 13, 15`. Returns `None` if none was
/// given by name.
pub fn found_by_name(processes: &[(Option<&str>, u32)]) -> Option<String> {
    let lines = processes.chunk_by(|a, b| a.0 == b.0).filter_map(|found| {
        let name = found.first().and_then(|(name, _)| *name)?;
        let mut pids: Vec<String> =
            found.iter().take(MESSAGES_SHOWN).map(|(_, pid)| pid.to_string()).collect();
        if found.len() > MESSAGES_SHOWN {
            pids.push(format!("{} more", count((found.len() - MESSAGES_SHOWN) as u64)));
        }
        let what = counted(found.len() as u64, "process");
        Some(format!("--pid={}: {what}: {}", clean(name), pids.join(", ")))
    });
    let text = lines.collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then_some(text)
}

/// Formats the processes that were found by name and ended at once. Returns `None` if there are none.
pub fn ended_meanwhile(pids: &[u32]) -> Option<String> {
    let shown: Vec<String> = pids.iter().take(MESSAGES_SHOWN).map(u32::to_string).collect();
    let more = pids.len() - shown.len();
    let more = if more > 0 { format!(", {} more", count(more as u64)) } else { String::new() };
    let text = match pids {
        [] => return None,
        [pid] => format!("1 process that was found by its name had ended before it was asked: {pid}"),
        _ => format!(
            "{} processes that were found by their names had ended before they were asked: {}{more}",
            count(pids.len() as u64),
            shown.join(", ")
        ),
    };
    Some(text)
}

/// Formats what is being recorded: `command 17 to DIR`, `3 processes and 12 kernel events to DIR; Ctrl-C stops`.
fn started(
    output: &str,
    command: Option<u32>,
    processes: usize,
    kernel_events: Option<u64>,
) -> String {
    let events = kernel_events.map(|events| counted(events, "kernel event"));
    let and_events = events.as_ref().map_or_else(String::new, |events| format!(" and {events}"));
    match (command, processes, events) {
        (Some(pid), ..) => format!("command {pid}{and_events} to {output}"),
        (None, 0, None) => {
            format!("to {output}; no process has tracepoints yet; Ctrl-C stops")
        }
        (None, 0, Some(events)) => format!("{events} to {output}; Ctrl-C stops"),
        (None, processes, _) => format!(
            "{}{and_events} to {output}; Ctrl-C stops",
            counted(processes as u64, "process")
        ),
    }
}

/// Work of a session before it records, or after it was stopped.
#[derive(Debug, Clone, Copy)]
pub enum Doing<'n> {
    /// The session has sent no notice yet.
    Preparing,
    /// The session has sent this notice.
    Beginning(&'n Notice),
    /// The session reads the rest of the buffers.
    Writing,
}

/// Formats the progress line until the recording begins: `0:07  attaching 17 of 859 events`.
pub fn doing(doing: Doing<'_>, since: Duration) -> String {
    format!("{}  {}", clock_time(since.as_secs()), of_doing(doing))
}

fn of_doing(doing: Doing<'_>) -> String {
    match doing {
        Doing::Beginning(&Notice::Describing { described, total }) => {
            format!("reading the formats of events, {} of {}", count(described), count(total))
        }
        Doing::Beginning(&Notice::Attaching { attached, total }) => {
            format!("attaching {} of {}", count(attached), counted(total, "event"))
        }
        Doing::Beginning(&Notice::Searching { looked, total }) => {
            format!("looking for tracepoints, {} of {}", count(looked), counted(total, "process"))
        }
        Doing::Beginning(&Notice::Admitting { pid, admitted, total }) => format!(
            "attaching to process {pid}, {} of {} done",
            count(admitted),
            counted(total, "process")
        ),
        Doing::Beginning(_) | Doing::Preparing => "preparing".to_owned(),
        Doing::Writing => "writing what is in the buffers".to_owned(),
    }
}

/// Formats the answer to Ctrl-C, with the step that it waits for.
pub fn stopping(doing: Doing<'_>) -> String {
    match doing {
        Doing::Writing => "stopping: writing what is in the buffers".to_owned(),
        _ => format!("stopping, when this step ends: {}", of_doing(doing)),
    }
}

/// Formats a message on a signal that has no effect.
pub fn unheeded(signal: i32) -> String {
    format!("signal {signal} has no effect. To stop: Ctrl-C, or `kill {}`", std::process::id())
}

/// Formats the progress line; `per_second` is the latest number of event records per second.
pub fn progress(progress: &Progress, per_second: f64) -> String {
    let mut line = format!(
        "{}  {} events/s  {}",
        clock_time(progress.elapsed.as_secs()),
        rate(per_second),
        size(progress.bytes),
    );
    if let Some(processes) = progress.processes {
        let _ = write!(line, "  {}", counted(processes, "process"));
    }
    // The line mentions overwritten records only if there are any.
    let _ = write!(line, "  {} discarded", count(progress.discarded));
    if progress.overwritten > 0 {
        let _ = write!(line, "  {} overwritten", count(progress.overwritten));
    }
    line
}

/// Formats a duration as `0:07`, `12:34` or `1:02:03`.
fn clock_time(seconds: u64) -> String {
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// Returns all messages at the end of a recording.
pub fn summary(report: &Report) -> Vec<Message> {
    let mut messages = vec![headline(report)];

    if report.counts().records > 0 && report.snapshots.is_none() {
        messages.extend(table(&report.layers).map(talk));
    }
    messages.extend(parts(report));
    messages.extend(failure(report));
    messages.extend(ending(report));
    messages.extend(left_running(report));
    let of_user = report.layers.iter().filter(|layer| layer.layer == USER);
    let of_programs = of_user.flat_map(|layer| {
        layer.processes.iter().flat_map(|one| losses::of(one, layer, report.wall_ns))
    });
    messages.extend(some(of_programs, "counts"));
    messages.extend(kernel::losses(report));
    messages.extend(some(report.processes().filter_map(problem), "problems"));
    messages.extend(some(warnings(report), "tracepoints"));
    messages.extend(some(report.processes().filter_map(late), "programs"));
    messages.extend(some(nothing_matched(report), "rules"));
    messages.extend(some(unmatched_filters::filters(report), "filters"));
    messages.extend(some(unmatched_filters::triggers(report), "triggers"));
    messages.extend(some(kernel::problems(report), "kernel events"));
    messages.extend(some(kernel::nothing_matched(report), "rules"));
    messages.extend(some(not_reached(report), "processes"));
    messages.extend(idle(report));
    messages.extend(nothing_recorded(report));
    messages.extend(kernel::nothing_recorded(report));
    messages.extend(kernel::no_kernel(report));
    if report.quota_discarded > 0 {
        messages.push(warning(format!(
            "the relay has discarded {} (quota): the recordings of this host there have as many bytes as they may have \
             (strata relayd --max-host-size). Remove some there, or have the relay do it (--keep-age, --keep-size)",
            counted(report.quota_discarded, "event record")
        )));
    }
    messages.extend(report.remarks.iter().map(|remark| talk(clean(remark))));
    messages
}

/// Returns the command to type next, if there is a trace to look at.
pub fn next_command(report: &Report) -> Option<String> {
    let output = report.output.as_ref().filter(|_| report.counts().records > 0)?;
    let output = shell_word(&output.display().to_string());
    let picture = match report.has_kernel_by_default() {
        true => format!("; as a picture: strata ui {output}"),
        false => String::new(),
    };
    Some(format!(
        "Next: strata view {output}{picture}; where the time went: strata analyze summary {output}"
    ))
}

fn headline(report: &Report) -> Message {
    let counts = report.counts();
    match &report.output {
        Some(output) => talk(format!(
            "{} of {} in {}: {} ({})",
            counted(counts.records, "event record"),
            recorded(report),
            time(report.elapsed),
            shell_word(&output.display().to_string()),
            sizes(&counts),
        )),
        None if report.relay.is_some() => talk(format!(
            "{} of {} in {} to the host's recorder, by {} ({})",
            counted(counts.records, "event record"),
            recorded(report),
            time(report.elapsed),
            shell_word(report.relay.as_deref().unwrap_or_default()),
            sizes(&counts),
        )),
        None if report.remote.is_some() => talk(format!(
            "{} of {} in {} to the relay {} ({})",
            counted(counts.records, "event record"),
            recorded(report),
            time(report.elapsed),
            shell_word(report.remote.as_deref().unwrap_or_default()),
            sizes(&counts),
        )),
        None if counts.records > 0 && report.snapshots.is_none() => talk(format!(
            "{} in {}, and the trace is gone",
            counted(counts.records, "event record"),
            time(report.elapsed)
        )),
        None if report.snapshots == Some(0) && report.elapsed.is_zero() => talk(
            "flight recorder that was never started: nothing is recorded, and no snapshot saved"
                .to_owned(),
        ),
        None if report.snapshots.is_some() => talk(format!(
            "flight recorder of {} ended after {}: {} saved",
            recorded(report),
            time(report.elapsed),
            counted(report.snapshots.unwrap_or(0), "snapshot"),
        )),
        None if report.elapsed.is_zero() => {
            talk("it was never started: nothing is recorded, and there is no trace".to_owned())
        }
        None => talk(format!("nothing recorded in {}; there is no trace", time(report.elapsed))),
    }
}

/// Returns a message on the parts of a rotated trace, and how many of them were removed.
fn parts(report: &Report) -> Option<Message> {
    let parts = report.chunks.as_ref()?;
    let mut text = format!(
        "{} complete",
        counted(parts.complete + u64::from(parts.present.is_some()), "part")
    );
    if parts.removed > 0 {
        let unknown = match parts.removed_unknown {
            0 => String::new(),
            number => format!(" and what was in {} of before", counted(number, "part")),
        };
        let _ = write!(
            text,
            "; {} with {}{unknown} removed, as --rotate-count, --keep-count, --keep-size or strata clear says",
            counted(parts.removed, "part"),
            counted(parts.removed_records, "event record"),
        );
    }
    if let Some(error) = &parts.error {
        let _ = write!(text, ". The last rotation: {}", sentence(error));
    }
    let weight = if parts.error.is_some() { Weight::Warning } else { Weight::Talk };
    Some(Message { weight, text })
}

/// Formats the size of a trace: `27.0 KiB, and 12.3 KiB of descriptions`.
fn sizes(counts: &Counts) -> String {
    match counts.metadata_bytes {
        0 => size(counts.bytes),
        bytes => format!("{}, and {} of descriptions", size(counts.bytes), size(bytes)),
    }
}

/// Formats what was recorded: `3 processes`, `the kernel`, `the kernel and 3 processes`.
fn recorded(report: &Report) -> String {
    // A flight recorder has no trace that could contain them.
    let number = match report.snapshots {
        Some(_) => nr_processes(report.applications()),
        None => nr_in_trace(report.applications()),
    };
    let processes = counted(number, "process");
    match (report.of_kernel(), report.has_applications()) {
        (None, _) => processes,
        (Some(_), true) if number > 0 => format!("the kernel and {processes}"),
        (Some(_), _) => "the kernel".to_owned(),
    }
}

/// Formats a table with a row for each process, and one for each whole layer. Returns `None` if there is none.
fn table(layers: &[LayerReport]) -> Option<String> {
    let overwrote = layers.iter().any(|layer| layer.counts().overwritten > 0);
    let mut header = vec!["layer", "process", "records", "size", "packets", "span", "discarded"];
    if overwrote {
        header.push("overwritten");
    }
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for layer in layers {
        let is_one_of_several = layers.iter().filter(|one| one.layer == layer.layer).count() > 1;
        add_rows(&mut rows, layer, is_one_of_several, overwrote);
    }
    (rows.len() > 1).then(|| aligned(&rows))
}

/// Adds the rows of a layer. `is_one_of_several` is true if there are several channels of this layer.
fn add_rows(
    rows: &mut Vec<Vec<String>>,
    layer: &LayerReport,
    is_one_of_several: bool,
    overwrote: bool,
) {
    let mut processes: Vec<&ProcessReport> =
        layer.processes.iter().filter(|process| process.folder.is_some()).collect();
    processes.sort_by_key(|process| (std::cmp::Reverse(process.counts.records), process.pid));
    let row = |name: String, counts: &Counts| {
        let mut row = vec![
            match layer.layer {
                GUEST => layer.channel.clone(),
                other if is_one_of_several && !layer.channel.is_empty() => {
                    format!("{other} {}", clean(&layer.channel))
                }
                other => other.to_owned(),
            },
            name,
            count(counts.records),
            size(counts.bytes),
            count(counts.packets),
            time(counts.duration()),
            count(counts.discarded.total()),
        ];
        if overwrote {
            row.push(count(counts.overwritten));
        }
        row
    };
    for process in processes.iter().take(PROCESSES_SHOWN) {
        let name = if layer.layer == KERNEL { "all".to_owned() } else { who(process) };
        rows.push(row(name, &process.counts));
    }
    if processes.len() > PROCESSES_SHOWN {
        let mut rest = Counts::default();
        processes[PROCESSES_SHOWN..].iter().for_each(|process| rest.add(&process.counts));
        let others = nr_in_trace(processes[PROCESSES_SHOWN..].iter().copied());
        rows.push(row(format!("{others} others"), &rest));
    }
    if processes.len() > 1 {
        let all = nr_in_trace(processes.iter().copied());
        rows.push(row(counted(all, "process"), &layer.counts()));
    }
}

/// Aligns the columns of a table: the first two to the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 | 1 => write!(line, "  {cell:width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.pop();
    text
}

fn failure(report: &Report) -> Option<Message> {
    let failure = report.failure.as_ref()?;
    let kept = match report.output {
        Some(_) => " What was recorded until then is kept and can be read.",
        None => "",
    };
    let stopped = match report.failed_layer {
        None => "recording stopped",
        Some(KERNEL) => "recording of the kernel stopped before that of programs",
        Some(GUEST) => "recording of a guest stopped before that of all else",
        Some(_) => "recording of programs stopped before that of the kernel",
    };
    let text = format!("{stopped}: {}{kept}", sentence(failure));
    Some(Message { weight: Weight::Failure, text })
}

/// Returns messages on why the recording ended, and how the command ended.
fn ending(report: &Report) -> Vec<Message> {
    let full = match report.end {
        EndReason::Size { max_bytes } => Some(talk(format!(
            "recording ended: the trace has reached --max-size={}.",
            flag_size(max_bytes)
        ))),
        EndReason::Space(low) => Some(Message {
            weight: Weight::Failure,
            text: format!(
                "recording ended: {low}. What was recorded until then is kept and can be read. Free some, or record \
                 until it is full with --min-free 0."
            ),
        }),
        _ => None,
    };
    full.into_iter().chain(command_end(report)).collect()
}

fn command_end(report: &Report) -> Option<Message> {
    match (report.command, report.end) {
        (Some(CommandEnd::Running { pid }), EndReason::Duration) => {
            Some(talk(format!("the time is over; the command (process {pid}) runs on.")))
        }
        (Some(CommandEnd::Running { pid }), _) => {
            Some(talk(format!("recording has stopped; the command (process {pid}) runs on.")))
        }
        (Some(CommandEnd::Signalled(signal)), _) => {
            Some(talk(format!("the command was ended by signal {signal}.")))
        }
        (Some(CommandEnd::Exited(status)), _) if status != 0 => {
            Some(talk(format!("the command ended with status {status}.")))
        }
        _ => None,
    }
}

/// Returns a message on processes that are still running, such as daemons that the command has started.
fn left_running(report: &Report) -> Option<Message> {
    let left = &report.left_running;
    if left.is_empty() {
        return None;
    }
    let name = |pid: &u32| {
        let process = report.processes().find(|process| process.pid == *pid);
        process.map_or_else(|| named("", *pid), who)
    };
    let mut names: Vec<String> = left.iter().take(NAMES_SHOWN).map(name).collect();
    if left.len() > NAMES_SHOWN {
        names.push(format!("{} more", count((left.len() - NAMES_SHOWN) as u64)));
    }
    let (run, are) = if left.len() == 1 { ("runs", "is") } else { ("run", "are") };
    let pids: Vec<String> = left.iter().map(u32::to_string).collect();
    Some(warning(format!(
        "{} {run} on and {are} no longer recorded: recording ends with the command, unless \
         --wait-descendants is given. To go on: strata record -p {}",
        names.join(", "),
        pids.join(","),
    )))
}

fn problem(process: &ProcessReport) -> Option<Message> {
    let problem = process.problem.as_ref()?;
    let aside = process.set_aside.as_ref().map_or_else(String::new, |folder| {
        format!(
            " It is not in the trace; what it wrote is kept in {}, with metadata.damaged.",
            shell_word(&folder.display().to_string())
        )
    });
    Some(warning(format!("{}: {}{aside}", who(process), sentence(problem))))
}

/// Returns the warnings about processes; processes of one name with the same warning get one message.
fn warnings(report: &Report) -> Vec<Message> {
    let mut said: Vec<(&str, &str, Vec<&ProcessReport>)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for process in report.processes() {
        for text in &process.warnings {
            let key = (process.name.as_str(), text.as_str());
            let place = *places.entry(key).or_insert_with(|| {
                said.push((key.0, key.1, Vec::new()));
                said.len() - 1
            });
            said[place].2.push(process);
        }
    }
    let one = |(name, text, of): (&str, &str, Vec<&ProcessReport>)| match of.as_slice() {
        [process] => warning(format!("{}: {}", who(process), sentence(text))),
        all => {
            let pids = all.iter().map(|process| process.pid);
            warning(format!("{}: {}", of_one_name(name, pids), sentence(text)))
        }
    };
    said.into_iter().map(one).collect()
}

/// Formats several processes of one name: their number, and the ids of the first ones.
fn of_one_name(name: &str, pids: impl ExactSizeIterator<Item = u32>) -> String {
    let all = pids.len();
    let mut shown: Vec<String> = pids.take(NAMES_SHOWN).map(|pid| pid.to_string()).collect();
    if all > NAMES_SHOWN {
        shown.push(format!("{} more", count((all - NAMES_SHOWN) as u64)));
    }
    format!("{} processes of '{}' ({})", count(all as u64), clean(name), shown.join(", "))
}

fn late(process: &ProcessReport) -> Option<Message> {
    let late = time(Duration::from_nanos(process.late_ns?));
    let text = match process.summed {
        Some(_) => format!("{}: some were reached late, by up to {late}", clean(&process.name)),
        None => format!(
            "{}: reached {late} after its start or the request, and recorded from then on",
            who(process)
        ),
    };
    Some(talk(format!("{text}.")))
}

fn nothing_matched(report: &Report) -> Vec<Message> {
    // Without any tracepoint, the rules are not at fault: see nothing_recorded().
    if report.applications().all(|process| process.tracepoints == 0) {
        return Vec::new();
    }
    report
        .rules
        .iter()
        .filter(|rule| rule.matched == 0)
        .map(|rule| {
            let advice = match rule.similar.as_slice() {
                [] => "`strata list` shows those of running applications.".to_owned(),
                similar => kernel::similar_names(similar),
            };
            let rule = clean(&rule.rule);
            warning(format!("event rule '{rule}': matched no tracepoint. {advice}"))
        })
        .collect()
}

fn not_reached(report: &Report) -> Vec<Message> {
    let all: Vec<NotReached> =
        report.not_reached.iter().chain(&report.unpreloaded).cloned().collect();
    let unreached = unreached_together(&all).into_iter().map(warning);
    // Programs that were not reached have a message of their own.
    let said = |text: &&String| report.not_reached.iter().any(|process| process.reason == **text);
    let of_lttng = report.of_lttng.iter().filter(|text| !said(text));
    unreached.chain(of_lttng.map(|text| warning(sentence(text)))).collect()
}

/// Returns the texts on processes that were not reached; processes of one name with the same reason get one text.
fn unreached_together(all: &[NotReached]) -> Vec<String> {
    let mut of: Vec<Vec<&NotReached>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for one in all {
        let key = (one.name.as_str(), one.reason.as_str());
        let is_named = one.pid != 0 && !one.name.is_empty();
        let next = of.len();
        let place = match is_named {
            true => *places.entry(key).or_insert(next),
            false => next,
        };
        match of.get_mut(place) {
            Some(alike) => alike.push(one),
            None => of.push(vec![one]),
        }
    }
    let text = |alike: Vec<&NotReached>| match alike.as_slice() {
        [one] => unreached(one),
        many => {
            let name = many.first().map_or("", |one| one.name.as_str());
            let reason = many.first().map_or("", |one| one.reason.as_str());
            let pids = many.iter().map(|one| one.pid);
            format!("not reached: {}: {}", of_one_name(name, pids), sentence(reason))
        }
    };
    of.into_iter().map(text).collect()
}

fn unreached(process: &NotReached) -> String {
    let reason = sentence(&process.reason);
    // A reason that is a whole message names the process itself.
    match process.pid {
        pid if pid != 0 && reason.contains(&pid.to_string()) => format!("not reached: {reason}"),
        pid => format!("not reached: {}: {reason}", named(&process.name, pid)),
    }
}

/// Returns messages on processes that are not in the trace although others are.
fn idle(report: &Report) -> Vec<Message> {
    if report.snapshots.is_some() {
        return Vec::new();
    }
    // Another part of a session whose filter was changed may be in the trace.
    let in_trace = report.applications().filter(|one| one.folder.is_some() && one.memory != 0);
    let in_trace: HashSet<u64> = in_trace.map(|one| one.memory).collect();
    let without_folder = |process: &&ProcessReport| {
        process.folder.is_none()
            && process.problem.is_none()
            && !process.is_part
            && !in_trace.contains(&process.memory)
            && records(report, USER) > 0
    };
    let (quiet, unselected): (Vec<&ProcessReport>, Vec<&ProcessReport>) =
        report.applications().filter(without_folder).partition(|process| process.selected > 0);
    let names = |processes: &[&ProcessReport]| {
        let mut names: Vec<String> =
            processes.iter().take(NAMES_SHOWN).map(|process| who(process)).collect();
        if processes.len() > NAMES_SHOWN {
            names.push(format!("{} more", count((processes.len() - NAMES_SHOWN) as u64)));
        }
        names.join(", ")
    };
    let mut messages = Vec::new();
    let none = match report.has_filtered_applications() {
        true => "nothing happened in it that the filter selects",
        false => "came by no tracepoint that was on",
    };
    for (processes, what) in [(quiet, none), (unselected, "no rule selects a tracepoint")] {
        if !processes.is_empty() {
            messages.push(talk(format!("not in the trace, {what}: {}.", names(&processes))));
        }
    }
    messages
}

fn nothing_recorded(report: &Report) -> Option<Message> {
    if !report.has_applications() || records(report, USER) > 0 || report.failure.is_some() {
        return None;
    }
    let processes = nr_processes(report.applications());
    let whole = report.applications().filter(|process| !process.is_part);
    let tracepoints: u64 = whole.fold(0, |sum, process| sum.saturating_add(process.tracepoints));
    let why = match (processes, tracepoints, report.selected()) {
        (0, ..) => nobody_there(report).to_owned(),
        (_, 0, _) => format!(
            "{} linked with libstrata, without a tracepoint. Add one: `STRATA_TRACE(...)`.",
            counted(processes, "process")
        ),
        _ if report.applications().any(|one| one.counts.discarded.total() > 0) => {
            "all event records were discarded; see above.".to_owned()
        }
        (_, number, 0) => format!("no rule selects one of {}.", counted(number, "tracepoint")),
        (_, _, number) if report.has_filtered_applications() => {
            let verb = if number == 1 { "was" } else { "were" };
            let on = counted(number, "tracepoint");
            format!("{on} {verb} enabled, and nothing happened that the filter selects.")
        }
        (_, _, number) if is_of_libc(report) => {
            let verb = if number == 1 { "was" } else { "were" };
            let others = match report.unpreloaded.is_empty() {
                true => {
                    "`-k syscalls` records what it does without libc, by system calls of its own."
                }
                false => "See above for what was not reached.",
            };
            format!(
                "{} {verb} enabled, and the program called none of libc's functions that have them. {others}",
                counted(number, "tracepoint")
            )
        }
        (_, _, 1) => "1 tracepoint was enabled, and the program did not reach it.".to_owned(),
        (_, _, number) => {
            format!(
                "{} tracepoints were enabled, and the program reached none of them.",
                count(number)
            )
        }
    };
    if report.has_applications_by_default() {
        // If the kernel has no record either, that message gives the reason.
        let is_all = processes == 0 && kernel::nothing_recorded(report).is_some();
        return (!is_all).then(|| talk(why_kernel_alone(report, processes, why)));
    }
    let of = if report.kernel.is_some() { " of applications" } else { "" };
    Some(warning(format!("nothing recorded{of}: {why}")))
}

/// Returns a message on parent folders of the trace that do not exist and are made, since the path may have a typing
/// error.
pub fn folders_made(output: &Path) -> Option<String> {
    let above = output.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let missing = above.take_while(|folder| folder.symlink_metadata().is_err()).last()?;
    Some(format!("the folder {} does not exist, and is made for {}", typed(missing), typed(output)))
}

/// Returns true if only functions of libc were requested.
fn is_of_libc(report: &Report) -> bool {
    let mut selecting =
        report.rules.iter().map(|rule| rule.rule.as_str()).filter(|rule| !rule.starts_with('!'));
    let is = |rule: &str| preload::is_selecting(rule);
    report.rules.iter().any(|rule| is(&rule.rule)) && selecting.all(is)
}

/// Returns the number of event records of one layer.
fn records(report: &Report, name: &str) -> u64 {
    let layers = report.layers.iter().filter(|layer| layer.layer == name);
    let all = layers.fold(0u64, |sum, layer| sum.saturating_add(layer.counts().records));
    // Records on loaded objects are not counted: they accompany the events.
    let of_programs =
        if name == USER { report.applications().map(|one| one.objects).sum() } else { 0 };
    all.saturating_sub(of_programs)
}

/// Explains why only the kernel was recorded. If nobody asked for tracepoints, it is no problem that there are none.
fn why_kernel_alone(report: &Report, processes: u64, why: String) -> String {
    if processes > 0 || !report.not_reached.is_empty() || report.unseen > 0 {
        return format!("of applications nothing: {why}");
    }
    if report.counts().records == 0 {
        return match report.asked {
            RecordingTarget::Command => "the command has no tracepoints of its own.",
            RecordingTarget::Processes => "no tracepoints in what was asked for.",
            RecordingTarget::Everyone => "no process has tracepoints of its own.",
        }
        .to_owned();
    }
    match report.asked {
        RecordingTarget::Command => {
            "the command has no tracepoints of its own: the trace is what the kernel did for it."
        }
        RecordingTarget::Processes => {
            "no tracepoints in what was asked for: the trace is what the kernel did for it."
        }
        RecordingTarget::Everyone => {
            "no process has tracepoints of its own: the trace is the kernel's."
        }
    }
    .to_owned()
}

fn nobody_there(report: &Report) -> &'static str {
    match report.asked {
        _ if !(report.not_reached.is_empty() && report.unpreloaded.is_empty()) => {
            "no process was reached."
        }
        RecordingTarget::Command if !report.of_lttng.is_empty() => {
            "neither the command nor a descendant of it has tracepoints of Strata's."
        }
        RecordingTarget::Command if report.unseen > 0 => {
            "no process was recorded; whether the command has started one with tracepoints is not known."
        }
        RecordingTarget::Command => {
            "neither the command nor a descendant of it has announced tracepoints. Link it with libstrata \
             (`pkg-config --cflags --libs strata`)."
        }
        RecordingTarget::Processes | RecordingTarget::Everyone => {
            "no running process has tracepoints, or none of those that are to be recorded: `strata list` shows them. Start one, or \
             write `strata record -- COMMAND`."
        }
    }
}

/// Keeps the first messages of one kind and counts the rest, so that a thousand processes do not hide what matters.
fn some(messages: impl IntoIterator<Item = Message>, kind: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = messages.into_iter().collect();
    if messages.len() > MESSAGES_SHOWN {
        let more = messages.len() - MESSAGES_SHOWN;
        messages.truncate(MESSAGES_SHOWN);
        messages.push(warning(format!("and {} more such {kind}.", count(more as u64))));
    }
    messages
}

/// Formats an error and its causes in one line, without repeating what one of them contains already.
pub fn failure_line<'e>(
    chain: impl Iterator<Item = &'e (dyn std::error::Error + 'static)>,
) -> String {
    let mut line = String::new();
    for error in chain {
        let text = error.to_string();
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            let _ = write!(line, ": {text}");
        }
    }
    line
}

/// Returns the remarks that `strata list` prints with its list.
pub fn list_remarks(listing: &Listing) -> Vec<String> {
    let mut remarks = Vec::new();
    if listing.processes.is_empty() && !listing.of_lttng.is_empty() {
        remarks.push("no running process has tracepoints of Strata's.".to_owned());
    } else if listing.processes.is_empty() {
        remarks.push(
            "no running process has tracepoints. Start a program that is linked with libstrata \
             (`pkg-config --cflags --libs strata`), or record one from its start: \
             `strata record -- COMMAND`."
                .to_owned(),
        );
    }
    let unreached = listing.not_reached.iter().map(|p| warning(unreached(p)));
    remarks.extend(some(unreached, "processes").into_iter().map(|message| message.text));
    let of_lttng = listing.of_lttng.iter().map(|one| {
        warning(sentence(&format!("process {} ({}): {}", one.pid, one.name, one.reason)))
    });
    remarks.extend(some(of_lttng, "processes").into_iter().map(|message| message.text));
    remarks
}

/// Returns the exit status of `strata record`.
pub fn exit_status(report: &Report, strict: bool) -> u8 {
    if report.failure.is_some() {
        return 2;
    }
    match (report.command, report.end) {
        (Some(CommandEnd::Exited(status)), _) if status != 0 => return status.to_le_bytes()[0],
        (Some(CommandEnd::Signalled(signal)), _) => {
            return u8::try_from(128 + signal).unwrap_or(u8::MAX)
        }
        // The recording did not wait for the command: report the signal that ended the recording.
        (Some(CommandEnd::Running { .. }), EndReason::Asked(Some(signal))) => {
            return u8::try_from(128 + signal).unwrap_or(u8::MAX)
        }
        _ => {}
    }
    // By default, nobody has named a tracepoint or an event.
    let by_default = report.has_applications_by_default();
    let incomplete = report.counts().records == 0
        || (!by_default && report.has_applications() && records(report, USER) == 0)
        || kernel::is_incomplete(report)
        || (!by_default && report.rules.iter().any(|rule| rule.matched == 0))
        || !report.not_reached.is_empty()
        || report.processes().any(|process| process.problem.is_some())
        || report.processes().any(|process| !process.warnings.is_empty())
        || report.processes().any(|process| process.refused > 0)
        || report.counts().damaged_packets > 0
        || matches!(report.end, EndReason::Space(_))
        || (strict && !report.gaps().is_empty());
    u8::from(incomplete)
}

#[cfg(test)]
mod tests;
