//! The report `strata analyze wait`: the critical path of a thread or of a span.

use std::fmt::Write as _;

use anyhow::{bail, Result};
use clap::Args;
use strata_analyze::reports::files::kind_name;
use strata_analyze::reports::wait::{
    AskedFor, History, Interrupted, PathPart, PathPartKind, ProgramSpan, RequestPhase, HISTORY_MAX,
    SPANS_MAX,
};
use strata_analyze::reports::{Label, Recorded};
use strata_analyze::stats::time_of_day;
use strata_report::{Branch, Document, Part, Record, Table, Unit, Value};
use strata_session::stop::Stop;
use strata_timeline::{RequestKind, SpanRoles, Timeline};

use super::process_selection::{is_named, is_wanted};
use super::report_command::{
    nothing, say_blind, CommonFlags, Format, Made, PairFlags, EXIT_STATUS,
};
use super::report_text::show;
use super::rows::{length, name, subject};
use super::wait_text::{self, wait_text};
use super::{hidden_threads, irq};
use crate::reading::selection::SYNTAX;
use crate::units::{clean, count, counted, size};

/// Limits on the parts that a text lists for one part, and on their nesting depth.
const PARTS: usize = 12;
const DEPTH: usize = 12;

const MEANING: &str = "\
What it says:
  Where the time of a thread, or of a span of a program, went: it ran,
  its CPU was interrupted, it wanted a CPU, or it was blocked. Where a
  thread ended that, what this one did meanwhile stands below it, and
  so on. The times below a line add up to it. Interrupts that are not
  recorded are a part of what ran. Of a span, that is the longest of
  its name; NAME#2 is the next one, and so on; --filter chooses among
  them, and --from and --until the time. Of a span that ends in
  another thread than it began in, the way back begins where it ended.
  'perhaps' stands before those who woke nobody if that was an
  interrupt of which no record tells, and before those for whom these
  waited. `strata analyze spans` shows which there are.
";

/// Flags of `strata analyze wait`.
#[derive(Debug, Args)]
#[command(mut_arg("top", |top| top.help("Only the N longest parts of each part [default: 12 in text, all in JSON]")))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{MEANING}\n{SYNTAX}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", |filter| filter.help("Of a span's name: only spans of which one end EXPRESSION selects, such as 'trace_id == \"4bf9\"'")))]
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

/// Makes the report, and returns the exit status.
pub fn run(flags: &WaitFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let roles = flags.pairs.roles(&reader);
    let asked = span_of(&roles, &flags.of);
    if asked.is_none() {
        let instead = "--from and --until, which select a time, or the name of a span";
        flags.common.refuse_filter("wait", "what a thread waited for is none", instead)?;
    }
    let number = asked.map_or(1, |(_, number)| number);
    if number > SPANS_MAX {
        bail!("analyze wait: '{}': only the {SPANS_MAX} longest spans are kept. Use --from and --until", flags.of);
    }
    let history = History::new(range, asked.map(|(name, _)| name));
    let mut history = history.with_longest(number).with_room(flags.states);
    let is_span = asked.is_some();
    let timeline = Timeline::with_spans(&reader, roles.clone());
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut history, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    hidden_threads::say(&made);
    say_blind(&made);
    let world = made.passed.timeline.world();
    let chosen = match is_span {
        true => history.longest(number),
        false => of_thread(&history, &made, &flags.of),
    };
    let Some((span, found)) = chosen else {
        if flags.common.format() != Format::Text {
            show(&flags.common, "wait", &made, &none_found(is_span, &made))?;
        }
        nothing(match is_span {
            true if number > 1 => "not so many such spans began and ended in this time",
            true if flags.common.selection.filter().is_some() => {
                "no such span that the filter selects began and ended in this time"
            }
            true => "no such span began and ended in this time",
            false => {
                "no thread of this name or number did anything in this time, and no span is called so. \
                 See who there is: strata analyze threads"
            }
        });
        return Ok(made.status(true));
    };
    if history.left_out() > 0 {
        // Nothing of the first pass is needed again: each thread gets the same number in the second.
        history = History::of(&span).with_room(flags.states);
        let timeline = Timeline::with_spans(&reader, roles);
        if flags.common.again(timeline, &reader, range, &mut history, stop).is_none() {
            return Ok(crate::exit_status::stopped(stop));
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
    let document = document(&node, span, (number, found), kinds, (&made, flags));
    show(&flags.common, "wait", &made, &document)?;
    Ok(made.status(false))
}

/// Returns the name of a span that the traces' events make, and its rank among the longest: `shop:checkout`, 1.
fn span_of<'w>(roles: &SpanRoles, word: &'w str) -> Option<(&'w str, usize)> {
    let is_span = |name: &str| roles.values().any(|role| role.begins && role.name == name);
    if is_span(word) {
        return Some((word, 1));
    }
    let (name, number) = word.rsplit_once('#')?;
    let number = number.parse().ok().filter(|&number| number > 0)?;
    is_span(name).then_some((name, number))
}

/// Returns the thread of this number or name about which most is known, and the number of such threads.
fn of_thread(history: &History, made: &Made, of: &str) -> Option<(ProgramSpan, u64)> {
    let world = made.passed.timeline.world();
    let number = of.parse::<i32>().ok();
    let fits = world.threads.iter().filter(|&(id, thread)| match number {
        Some(number) => thread.tid == number,
        None => {
            let label = Label::thread(world, id);
            label.thread.as_deref().is_some_and(|thread| is_named(of, thread))
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

/// Formats what was requested from a disk: `for a write of 4.0 KiB at sector 2048 of vda`.
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

/// Returns a part and all parts of which it consists, for JSON and CSV.
fn record(node: &PathPart, most: usize) -> Record {
    let mut record = vec![
        ("", Value::label(&node.label)),
        ("is_sure", node.is_sure.into()),
        ("what", what(&node.what).into()),
        ("name", subject(&node.label).into()),
        ("count", node.count.into()),
        ("total_ns", node.nanos.into()),
    ];
    match &node.what {
        PathPartKind::Blocked(wait) => record.push(("wait", Value::Record(wait_text::cause(wait)))),
        PathPartKind::Request(of) => {
            let AskedFor { disk, kind, bytes, sector } = &**of;
            let request = vec![
                ("disk", disk.into()),
                ("kind", kind_name(*kind).into()),
                ("bytes", (*bytes).into()),
                ("sector", (*sector).into()),
            ];
            record.push(("request", Value::Record(request)));
        }
        PathPartKind::Interrupt(of) => {
            let Interrupted { kind, number, name } = &**of;
            let name = Value::some_text(name.as_str());
            let interrupt =
                vec![("kind", (*kind).into()), ("number", (*number).into()), ("name", name)];
            record.push(("interrupt", Value::Record(interrupt)));
        }
        _ => {}
    }
    record.push(("parts_count", (node.parts.len() as u64).into()));
    let parts = node.parts.iter().take(most).map(|part| self::record(part, most));
    record.push(("parts", Value::List(parts.collect())));
    record
}

/// Returns the report on a thread or span that is not in the traces: the usual columns, and no row.
fn none_found(is_span: bool, made: &Made) -> Document {
    let nobody = PathPart {
        label: Label::default(),
        is_sure: true,
        what: PathPartKind::Whole,
        nanos: 0,
        count: 0,
        parts: Vec::new(),
    };
    let mut table = Table::of(record(&nobody, 0));
    table.rows.clear();
    let mut document = Document::default();
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("of", if is_span { "span" } else { "thread" });
    document.fact("found", 0_u64);
    document.rows(table, 0);
    document
}

fn document(
    node: &PathPart,
    span: ProgramSpan,
    (number, found): (usize, u64),
    (is_span, interrupts_recorded): (bool, bool),
    (made, flags): (&Made, &WaitFlags),
) -> Document {
    let of = match is_span {
        true => format!("{} in {}", clean(&flags.of), name(&node.label)),
        false => name(&node.label),
    };
    let begin = time_of_day(span.from, flags.common.selection.zone());
    let mut document = Document::new(format!("{of}: {} from {begin}", length(node.nanos)));
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("of", if is_span { "span" } else { "thread" });
    document.fact("found", found);
    document.fact("interrupts_recorded", interrupts_recorded);
    document.fact("begin_ns", span.from);
    document.fact("end_ns", span.to);
    if found > 1 {
        let all = counted(found, if is_span { "span" } else { "thread" });
        let which = if number > 1 { format!("number {number}") } else { "the longest".to_owned() };
        document.push(Part::Note(format!("{which} of {all}")));
    }
    if !interrupts_recorded {
        let text = "interrupts are not recorded, and a part of what ran";
        document.push(Part::Note(text.to_owned()));
    }
    let mut table = Table::of(record(node, flags.common.rows()));
    let most = flags.common.top.map_or(PARTS, std::num::NonZeroUsize::get);
    table.show("", Unit::Tree, Value::Tree(branches(node, (node.nanos, most), 0)));
    document.rows(table, 1);
    document
}

/// Returns a line for each part of a part, and the lines below it.
fn branches(node: &PathPart, (whole, most): (u64, usize), depth: usize) -> Vec<Branch> {
    if depth > DEPTH {
        return Vec::new();
    }
    let share = |nanos: u64| nanos as f64 / whole.max(1) as f64;
    let branch = |part: &PathPart| Branch {
        nanos: part.nanos,
        share: share(part.nanos),
        text: part_text(part, depth),
        count: part.count,
        is_rest: false,
        below: branches(part, (whole, most), depth + 1),
    };
    let mut all: Vec<Branch> = node.parts.iter().take(most).map(branch).collect();
    let more = node.parts.get(most..).unwrap_or(&[]);
    if !more.is_empty() {
        let nanos = more.iter().map(|part| part.nanos).fold(0, u64::saturating_add);
        let text = counted(more.len() as u64, "other part");
        all.push(Branch { nanos, share: share(nanos), text, is_rest: true, ..Branch::default() });
    }
    all
}

/// Formats what a part was, and whose: `srv (12) worker/14 in futex of 0x5581`.
pub fn part_text(part: &PathPart, depth: usize) -> String {
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
    let is_of_disk = matches!(part.what, PathPartKind::Request(_) | PathPartKind::Phase(_));
    match part.is_sure {
        _ if depth == 0 || is_of_disk => what,
        true => format!("{} {what}", name(&part.label)),
        false => format!("perhaps {} {what}", name(&part.label)),
    }
}
