//! `strata analyze wait`: the critical path of a thread or of a span.

use std::fmt::Write as _;

use anyhow::{bail, Result};
use clap::Args;
use serde_json::{json, Value};
use strata_analyze::reports::files::kind_name;
use strata_analyze::reports::wait::{
    AskedFor, History, Interrupted, PathPart, PathPartKind, ProgramSpan, RequestPhase, HISTORY_MAX,
    SPANS_MAX,
};
use strata_analyze::reports::{Label, Recorded};
use strata_analyze::stats::time_of_day;
use strata_session::stop::Stop;
use strata_timeline::{RequestKind, SpanRoles, Timeline};

use super::common::{self, nothing, CommonFlags, Format, Made, PairFlags, EXIT_STATUS};
use super::rows::{document, keys, length, name, put_rows, put_sums, subject};
use super::threads::{wait_json, wait_text};
use super::whose::is_wanted;
use super::{hidden, irq};
use crate::reading::selection::{refused, TIMES};
use crate::stats::table::{DIM, HEAD};
use crate::talk::units::{clean, count, counted, size};

/// Parts of one part in a text, and parts in each other.
const PARTS: usize = 12;
const DEPTH: usize = 12;

const MEANING: &str = "\
What it says:
  Where the time of a thread, or of a span of a program, went: it ran,
  its CPU was interrupted, it wanted a CPU, or it was blocked. Where a
  thread ended that, what this one did meanwhile stands below it, and
  so on. The times below a line add up to it. Interrupts that are not
  recorded are a part of what ran. Of a span, that is the longest of
  its name; NAME#2 is the next one, and so on; --from and --until
  choose the time. Of a span that ends in another thread than it began
  in, the way back begins where it ended. 'perhaps' stands before
  those who woke nobody if that was an interrupt of which no record
  tells, and before those for whom these waited. `strata analyze
  spans` shows which there are.
";

/// `strata analyze wait`.
#[derive(Debug, Args)]
#[command(mut_arg("top", |top| top.help("Only the N longest parts of each part [default: 12 in text, all in JSON]")))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{MEANING}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct WaitFlags {
    /// A thread's number or name, or a span's name: 'shop:checkout' of the events shop:checkout_begin and
    /// shop:checkout_end, which is the longest, or with #2 the next one
    #[arg(value_name = "THREAD|SPAN[#N]")]
    of: String,

    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    pairs: PairFlags,

    /// Keep at most N states of threads and interrupts, of 24 bytes each
    #[arg(long, value_name = "N", default_value_t = HISTORY_MAX)]
    states: usize,
}

/// Do it, and give the exit status.
pub fn run(flags: &WaitFlags, stop: &Stop) -> Result<u8> {
    let instead = "--from and --until, which select a time";
    flags.common.refuse_filter("wait", "what a thread waited for is none", instead)?;
    let (reader, range) = flags.common.open()?;
    let roles = flags.pairs.roles(&reader);
    let asked = span_of(&roles, &flags.of);
    let number = asked.map_or(1, |(_, number)| number);
    if number > SPANS_MAX {
        bail!("analyze wait: '{}': only the {SPANS_MAX} longest spans are kept. Use --from and --until", flags.of);
    }
    let history = History::new(range, asked.map(|(name, _)| name));
    let mut history = history.with_longest(number).with_room(flags.states);
    let is_span = asked.is_some();
    let timeline = Timeline::with_spans(&reader, roles.clone());
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut history, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    hidden::say(&made);
    let world = made.passed.timeline.world();
    let chosen = match is_span {
        true => history.longest(number),
        false => of_thread(&history, &made, &flags.of),
    };
    let Some((span, found)) = chosen else {
        common::write("")?;
        nothing(match is_span {
            true if number > 1 => "not so many such spans began and ended in this time",
            true => "no such span began and ended in this time",
            false => {
                "no thread of this name or number did anything in this time, and no span is called so. \
                 See who there is: strata analyze threads"
            }
        });
        return Ok(made.status(true));
    };
    if history.left_out() > 0 {
        // Of another time nothing is needed: each thread has the same number again.
        history = History::of(&span).with_room(flags.states);
        let timeline = Timeline::with_spans(&reader, roles);
        if flags.common.again(timeline, &reader, range, &mut history, stop).is_none() {
            return Ok(crate::talk::exit::stopped(stop));
        }
    }
    if history.left_out() > 0 {
        let (most, all) = (flags.states, flags.states as u64 + history.left_out());
        bail!(
            "analyze wait: threads changed their states, or were interrupted, {} times between the begin and the \
             end of that; {} are kept. Choose a shorter time: --from, --until, --last; or keep more: --states {all}",
            count(all),
            count(most as u64)
        );
    }
    let node = history.path(world, span.thread, span.from, span.to);
    let kinds = (is_span, Recorded::new(&reader).interrupts);
    common::write(&match flags.common.format {
        Format::Json => json(&node, span, found, kinds, (&made, flags)),
        Format::Text => text(&node, span, (number, found), kinds, flags),
    })?;
    Ok(made.status(false))
}

/// The name of a span that the events of the traces make, and which of its longest: `shop:checkout`, 1.
fn span_of<'w>(roles: &SpanRoles, word: &'w str) -> Option<(&'w str, usize)> {
    let is_span = |name: &str| roles.values().any(|role| role.begins && role.name == name);
    if is_span(word) {
        return Some((word, 1));
    }
    let (name, number) = word.rsplit_once('#')?;
    let number = number.parse().ok().filter(|&number| number > 0)?;
    is_span(name).then_some((name, number))
}

/// The thread of this number or name of which most is known; and how many there are.
fn of_thread(history: &History, made: &Made, of: &str) -> Option<(ProgramSpan, u64)> {
    let world = made.passed.timeline.world();
    let number = of.parse::<i32>().ok();
    let fits = world.threads.iter().filter(|&(id, thread)| match number {
        Some(number) => thread.tid == number,
        None => {
            let label = Label::thread(world, id);
            label.thread.as_deref() == Some(of)
                || is_wanted(Some(of), &label) && label.tid.is_some() && label.tid == label.pid
        }
    });
    let spans = fits.filter_map(|(thread, _)| {
        let (from, to) = history.known(thread)?;
        Some(ProgramSpan { thread, from, to })
    });
    let spans: Vec<ProgramSpan> = spans.filter(|span| span.from < span.to).collect();
    let longest = spans.iter().max_by_key(|span| span.to.abs_diff(span.from))?;
    Some((*longest, spans.len() as u64))
}

fn what(what: &PathPartKind) -> &'static str {
    match what {
        PathPartKind::Whole => "whole",
        PathPartKind::Running => "running",
        PathPartKind::Interrupt(_) => "interrupt",
        PathPartKind::Runnable { woken: true } => "runnable",
        PathPartKind::Runnable { woken: false } => "preempted",
        PathPartKind::Blocked(_) => "blocked",
        PathPartKind::Request(_) => "request",
        PathPartKind::Phase(RequestPhase::Before) => "not_asked_yet",
        PathPartKind::Phase(RequestPhase::Queue) => "in_queue",
        PathPartKind::Phase(RequestPhase::Device) => "at_device",
        PathPartKind::Phase(RequestPhase::After) => "done",
        PathPartKind::Unknown => "unknown",
    }
}

/// `for a write of 4.0 KiB at sector 2048 of vda`: what a disk was asked for.
fn request_text(of: &AskedFor) -> String {
    let mut text = match of.kind {
        RequestKind::Other => "for something else".to_owned(),
        kind => format!("for a {}", kind_name(kind)),
    };
    if of.bytes > 0 {
        let _ = write!(text, " of {}", size(of.bytes));
    }
    if let Some(sector) = of.sector {
        let _ = write!(text, " at sector {sector}");
    }
    let _ = write!(text, ", disk {}", of.disk);
    clean(&text)
}

fn node_json(node: &PathPart, most: usize) -> Value {
    let mut map = keys(&node.label);
    map.insert("is_sure".into(), json!(node.is_sure));
    map.insert("what".into(), json!(what(&node.what)));
    put_sums(&mut map, subject(&node.label), node.count, Some(node.nanos));
    if let PathPartKind::Blocked(wait) = &node.what {
        let mut wait = wait_json(wait);
        if let Value::Object(wait) = &mut wait {
            ["count", "total_ns", "max_ns"].iter().for_each(|key| drop(wait.remove(*key)));
        }
        map.insert("wait".into(), wait);
    }
    if let PathPartKind::Request(of) = &node.what {
        let AskedFor { disk, kind, bytes, sector } = &**of;
        let kind = kind_name(*kind);
        let request = json!({ "disk": disk, "kind": kind, "bytes": bytes, "sector": sector });
        map.insert("request".into(), request);
    }
    if let PathPartKind::Interrupt(of) = &node.what {
        let Interrupted { kind, number, name } = &**of;
        let name = Some(name).filter(|name| !name.is_empty());
        let interrupt = json!({ "kind": kind, "number": number, "name": name });
        map.insert("interrupt".into(), interrupt);
    }
    map.insert("parts_count".into(), json!(node.parts.len()));
    map.insert(
        "parts".into(),
        node.parts.iter().take(most).map(|part| node_json(part, most)).collect(),
    );
    Value::Object(map)
}

fn json(
    node: &PathPart,
    span: ProgramSpan,
    found: u64,
    (is_span, interrupts_recorded): (bool, bool),
    (made, flags): (&Made, &WaitFlags),
) -> String {
    let mut object = made.object("wait");
    object.insert("hidden_threads".into(), hidden::json(made));
    object.insert("of".into(), json!(if is_span { "span" } else { "thread" }));
    object.insert("found".into(), json!(found));
    object.insert("interrupts_recorded".into(), json!(interrupts_recorded));
    object.insert("begin_ns".into(), json!(span.from));
    object.insert("end_ns".into(), json!(span.to));
    put_rows(&mut object, &[node], &flags.common, |node| node_json(node, flags.common.rows()));
    document(object)
}

fn text(
    node: &PathPart,
    span: ProgramSpan,
    (number, found): (usize, u64),
    (is_span, interrupts_recorded): (bool, bool),
    flags: &WaitFlags,
) -> String {
    let mut out = String::new();
    let zone = flags.common.selection.zone();
    let of = match is_span {
        true => format!("{} in {}", crate::talk::units::clean(&flags.of), name(&node.label)),
        false => name(&node.label),
    };
    let _ = writeln!(
        out,
        "{HEAD}{of}: {} from {}{HEAD:#}",
        length(node.nanos),
        time_of_day(span.from, zone)
    );
    if found > 1 {
        let all = counted(found, if is_span { "span" } else { "thread" });
        let which = if number > 1 { format!("number {number}") } else { "the longest".to_owned() };
        let _ = writeln!(out, "{DIM}{which} of {all}{DIM:#}");
    }
    if !interrupts_recorded {
        let _ = writeln!(out, "{DIM}interrupts are not recorded, and a part of what ran{DIM:#}");
    }
    out.push('\n');
    let most = flags.common.top.map_or(PARTS, std::num::NonZeroUsize::get);
    parts(&mut out, node, (node.nanos, most), 0);
    out
}

fn parts(out: &mut String, node: &PathPart, (whole, most): (u64, usize), depth: usize) {
    for part in node.parts.iter().take(most) {
        let what = match &part.what {
            PathPartKind::Whole => String::new(),
            PathPartKind::Running => "ran".to_owned(),
            PathPartKind::Interrupt(of) => {
                format!("interrupted by {}", irq::what(None, of.kind, Some(of.number), &of.name))
            }
            PathPartKind::Runnable { woken: true } => "wanted a CPU after a wait".to_owned(),
            PathPartKind::Runnable { woken: false } => {
                "wanted the CPU that another thread took".to_owned()
            }
            PathPartKind::Blocked(wait) => format!("in {}", wait_text(wait)),
            PathPartKind::Request(of) => request_text(of),
            PathPartKind::Phase(RequestPhase::Before) => "it was not asked for yet".to_owned(),
            PathPartKind::Phase(RequestPhase::Queue) => "in the disk's queue".to_owned(),
            PathPartKind::Phase(RequestPhase::Device) => "at the disk".to_owned(),
            PathPartKind::Phase(RequestPhase::After) => "it was done".to_owned(),
            PathPartKind::Unknown => "not known".to_owned(),
        };
        let who = match depth {
            0 => String::new(),
            _ if matches!(part.what, PathPartKind::Request(_) | PathPartKind::Phase(_)) => {
                String::new()
            }
            _ if part.is_sure => format!("{} ", name(&part.label)),
            _ => format!("perhaps {} ", name(&part.label)),
        };
        let share = part.nanos as f64 * 100.0 / whole.max(1) as f64;
        let times =
            if part.count > 1 { format!("  ({}×)", count(part.count)) } else { String::new() };
        let _ = writeln!(
            out,
            "{:>12}  {share:5.1} %  {:indent$}{who}{what}{DIM}{times}{DIM:#}",
            length(part.nanos),
            "",
            indent = depth * 2
        );
        if depth < DEPTH {
            parts(out, part, (whole, most), depth + 1);
        }
    }
    let more = node.parts.get(most..).unwrap_or(&[]);
    if !more.is_empty() {
        let nanos = more.iter().map(|part| part.nanos).fold(0, u64::saturating_add);
        let share = nanos as f64 * 100.0 / whole.max(1) as f64;
        let _ = writeln!(
            out,
            "{:>12}  {share:5.1} %  {:indent$}{DIM}{}{DIM:#}",
            length(nanos),
            "",
            counted(more.len() as u64, "other part"),
            indent = depth * 2
        );
    }
}
