//! The report `strata analyze spans`.

use anyhow::{bail, Result};
use clap::{Args, ValueEnum};
use strata_analyze::reports::spans::{By, Row, Slow, SlowestWaits, SpanCounter, Spans};
use strata_analyze::reports::{fields, Label, QUANTILE_ERROR};
use strata_ctf::read::Reader;
use strata_filter::Pattern;
use strata_report::{Branch, Columns, Document, Figure, Part, Table, Unit, Value};
use strata_session::stop::Stop;
use strata_timeline::{SpanRole, SpanRoles, Spent, Timeline};

use super::process_selection::{MineFlags, Whose, BY_OF};
use super::report_command::{CommonFlags, Made, PairFlags, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, length, name};
use super::span_traces;
use super::wait_text::{self, wait_text};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::SYNTAX;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{clean, counted, shell_word};

/// Limit on the waits that a text lists for one of the slowest spans.
const WAITS: usize = 3;
/// The most of the slowest spans that are kept.
const SLOWEST_MAX: usize = 10_000;

const COUNTED: &str = "\
What is a span:
  What a program does between X_begin and X_end (STRATA_SPAN(X) makes
  both), X_start and X_stop, X_entry and X_exit, X_enter and X_leave,
  X_acquire and X_release in one thread; and what is between the events
  of --pair, of the kernel, too. Those that overlap, or begin in one
  thread and end in another, are told apart by a field:
    --pair 'myapp:job_taken=myapp:job_given:id'
    --pair 'block_rq_issue=block_rq_complete:sector'
  '*' stands for the same text in both names.

What is counted:
  Spans that end in the time asked for. With --filter, those of which
  the record of the begin or that of the end matches. Ends without a
  begin, begins without an end, and those with discarded records in
  between are only counted, below the table. What had to be guessed is
  said.

What the slowest waited for is asked of the thread in which they ended.
";

/// Flags of `strata analyze spans`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct SpansFlags {
    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    pairs: PairFlags,

    /// Only spans of this name ('shop:checkout' of shop:checkout_begin and shop:checkout_end; '*' is any text), or else of
    /// this process or thread, by name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// A row for each name, for each process or thread and name, or for each request of OpenTelemetry
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Show the N slowest one by one, with their fields and what they waited for
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = nr_kept)]
    slowest: usize,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each name, over all processes
    #[default]
    Name,
    /// One row for each process and name
    Process,
    /// One row for each thread and name
    Thread,
    /// One row for each trace id of OpenTelemetry, and the slowest as trees of their spans
    Trace,
}

impl SpansFlags {
    /// Returns the value of `--of` as a name of spans, if spans in the traces may have it, or else as a process or
    /// thread.
    fn of(&self, roles: &SpanRoles) -> (Option<&str>, Option<&str>) {
        let Some(of) = self.of.as_deref() else { return (None, None) };
        let pattern = Pattern::glob(of);
        let is_called = |role: &SpanRole| pattern.matches(role.name.as_bytes());
        let is_span = of.contains(':') || roles.values().any(is_called);
        match is_span {
            true => (Some(of), None),
            false => (None, Some(of)),
        }
    }
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &SpansFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let roles = flags.pairs.roles(&reader);
    if flags.by == ByFlag::Trace {
        if flags.of.is_some() || flags.mine.is_any() {
            bail!(
                "analyze spans: --of and --mine choose processes and names, and a request has several. Leave them out, \
                 or choose requests by a field: -f 'trace_id == \"…\"'"
            );
        }
        let of = span_traces::Asked {
            common: &flags.common,
            pairs: &flags.pairs,
            slowest: flags.slowest,
        };
        return span_traces::run(&of, (&reader, range), roles, stop);
    }
    let (of_name, of_process) = flags.of(&roles);
    let whose = Whose::read(of_process, &flags.mine, &reader, ("spans", BY_OF), stop)?;
    let kept = whose.kept(flags.slowest, SLOWEST_MAX);
    let mut counter = SpanCounter::new(range, of_name, kept);
    let timeline = Timeline::with_spans(&reader, roles.clone());
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
        ByFlag::Name | ByFlag::Trace => By::Name,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let is_wanted = |label: &Label| wanted.has(label);
    let of: Option<&dyn Fn(&Label) -> bool> = whose.is_any().then_some(&is_wanted);
    let mut report = counter.finish_of(world, by, of);
    report.slowest.truncate(flags.slowest);
    let (found, all) = (report.slowest.len(), report.all.times.count);
    whose.say_fewer(found, flags.slowest, SLOWEST_MAX, all, "slowest spans");
    // If the trace shows what threads did. For a span in two threads, that is not known yet.
    let has_states = world.threads.iter().any(|(_, it)| it.has_states());
    if has_states && !report.slowest.is_empty() {
        let mut waiting = SlowestWaits::new(&report.slowest);
        let timeline = Timeline::with_spans(&reader, roles.clone());
        let Some(passed) = flags.common.again(timeline, &reader, range, &mut waiting, stop) else {
            return Ok(crate::exit_status::stopped(stop));
        };
        waiting.tell(passed.timeline.world(), &mut report.slowest);
    }
    say(&report, &rule(&roles));
    show(&flags.common, "spans", &made, &document(&report, &made, &reader, flags))?;
    let is_empty = report.all.times.count == 0;
    let is_asked = flags.of.is_some() || whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no span matches what was asked for",
        "the traces have no span that begins and ends in one thread. Programs make them by \
                 STRATA_SPAN(); --pair BEGIN=END names any two events",
    ))
}

/// Returns the rule that would distinguish overlapping spans, as it is typed, if exactly one pair of events seems to
/// have an id field.
fn rule(roles: &SpanRoles) -> String {
    let mut rules: Vec<String> = Vec::new();
    for (begin, role) in roles.iter().filter(|(_, role)| role.begins && role.key.is_none()) {
        let Some(check) = &role.check else { continue };
        let ends = roles.iter().filter(|(_, end)| end.pair == role.pair && !end.begins);
        rules.extend(ends.map(|(end, _)| format!("{begin}={end}:{check}")));
    }
    match &rules[..] {
        [rule] => shell_word(&clean(rule)),
        _ => "BEGIN=END:KEYFIELD".to_owned(),
    }
}

/// Warns about guesses, and about what seems to be wrong. `rule` is a rule that would correct overlapping spans.
fn say(report: &Spans, rule: &str) {
    let (guesses, unpaired) = (report.guesses, report.unpaired);
    let warn = |text| stderr::message(&Message { weight: Weight::Warning, text });
    if guesses.no_thread > 0 {
        warn(format!(
            "{} guessed: nothing says which threads they are of, so each end was taken for that of the \
             latest begin of its process. Record the context vtid, or name a key: --pair BEGIN=END:KEYFIELD",
            counted(guesses.no_thread, "span")
        ));
    }
    if guesses.no_key > 0 {
        warn(format!(
            "{} without the field that --pair names as the key: paired by thread",
            counted(guesses.no_key, "span")
        ));
    }
    if guesses.disagree > 0 {
        warn(format!(
            "{} with another id at the end than at the begin: they overlap in their thread, or go from thread \
             to thread. Pair them by it: --pair {rule}",
            counted(guesses.disagree, "span")
        ));
    }
    // A recording that begins or ends in the middle of spans leaves few of these.
    let both = unpaired.no_begin.min(unpaired.no_end);
    if both > 0 && both >= report.all.times.count / 10 {
        warn(format!(
            "{} no begin in their thread, {} no end: if spans begin in one thread and end in another, name the \
             field that says which is which: --pair {rule}",
            counted_have(unpaired.no_begin, "end"),
            counted_have(unpaired.no_end, "begin"),
        ));
    }
}

fn counted_have(number: u64, what: &str) -> String {
    format!("{} {}", counted(number, what), if number == 1 { "has" } else { "have" })
}

fn states(spent: Option<Spent>) -> Value {
    let record = |spent: Spent| {
        Value::Record(vec![
            ("running_ns", spent.running.into()),
            ("runnable_ns", spent.runnable.into()),
            ("blocked_ns", spent.blocked.into()),
            ("unknown_ns", spent.unknown.into()),
        ])
    };
    spent.map(record).into()
}

fn document(report: &Spans, made: &Made, reader: &Reader, flags: &SpansFlags) -> Document {
    let times = &report.all.times;
    let mut document = Document::new(format!(
        "{} in {}, {} all together",
        counted(times.count, "span"),
        length(made.nanos()),
        length(times.total),
    ));
    let (unpaired, guesses) = (report.unpaired, report.guesses);
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact("all", Value::Record(figures(Columns::new()).record(&report.all)));
    document.fact(
        "unpaired",
        Value::Record(vec![
            ("no_begin", unpaired.no_begin.into()),
            ("no_end", unpaired.no_end.into()),
            ("gap", unpaired.gap.into()),
            ("again", unpaired.again.into()),
            ("too_many", unpaired.too_many.into()),
        ]),
    );
    document.fact(
        "guessed",
        Value::Record(vec![
            ("no_thread", guesses.no_thread.into()),
            ("no_key", guesses.no_key.into()),
            ("other_id", guesses.disagree.into()),
        ]),
    );
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    document.rows(rows(shown, flags.by), report.rows.len());
    if times.count > 0 {
        document.push(Part::lengths("spans", &times.spread));
    }
    document.push(slowest(&report.slowest, reader));
    if let Some(first) = report.slowest.first() {
        document.push(Part::Exactness);
        if first.spent.is_some() && !flags.common.selection.is_any() {
            document.push(Part::Note(format!(
                "through those who woke it: strata analyze wait {}{} {}",
                shell_word(&clean(&first.name)),
                flags.pairs.words(),
                flags.common.traces.words()
            )));
        }
    }
    for (count, what, why) in [
        (unpaired.no_begin, "end", "without a begin in its thread in the trace"),
        (unpaired.no_end, "begin", "without an end in its thread in the trace"),
        (unpaired.gap, "begin", "with discarded records behind it"),
        (unpaired.again, "begin", "whose key began again before it ended"),
        (unpaired.too_many, "begin", "while too many spans were open"),
    ] {
        if count > 0 {
            document.push(Part::Note(format!("not counted: {} {why}", counted(count, what))));
        }
    }
    document
}

/// Adds the columns that the row of sums has as well.
fn figures(columns: Columns<'_, Row>) -> Columns<'_, Row> {
    columns
        .times(
            &[
                ("count", Figure::Count),
                ("total", Figure::Total),
                ("avg", Figure::Mean),
                ("p50", Figure::P50),
                ("p90", Figure::P90),
                ("p99", Figure::P99),
                ("max", Figure::Max),
            ],
            |row| &row.times,
        )
        .spread(|row| &row.times)
        .nested("states", |row| states(Some(row.spent).filter(Spent::is_known)))
}

fn rows(rows: &[Row], by: ByFlag) -> Table {
    let whose = match by {
        ByFlag::Process => "process",
        ByFlag::Thread => "thread",
        ByFlag::Name | ByFlag::Trace => "",
    };
    let share = |row: &Row, part: fn(&Spent) -> u64| {
        let known = Some(row.spent).filter(Spent::is_known);
        known.map(|spent| part(&spent) as f64 / row.times.total.max(1) as f64).into()
    };
    let columns = Columns::new()
        .shown(whose, Unit::Label, |row: &Row| match by {
            ByFlag::Name | ByFlag::Trace => Value::None,
            _ => Value::label(&row.label),
        })
        .both("span", "name", Unit::Text, |row| Value::text(&row.name));
    let columns = figures(columns)
        .shown("running", Unit::RoundShare, |row| share(row, |spent| spent.running))
        .shown("runnable", Unit::RoundShare, |row| share(row, |spent| spent.runnable))
        .shown("blocked", Unit::RoundShare, |row| share(row, |spent| spent.blocked))
        .label_keys(|row| Value::label(&row.label));
    columns.rows(rows)
}

/// One of the slowest spans, with the text of its fields.
type SlowSpan<'s> = (&'s Slow, Option<String>);

fn slowest(slowest: &[Slow], reader: &Reader) -> Part {
    let slowest: Vec<SlowSpan<'_>> =
        slowest.iter().map(|slow| (slow, fields_of(reader, slow))).collect();
    let columns = Columns::new()
        .both("", "time_ns", Unit::Time, |(slow, _): &SlowSpan<'_>| slow.begin.into())
        .both("", "duration_ns", Unit::Nanos, |(slow, _)| slow.nanos.into())
        .shown("", Unit::Text, |(slow, fields)| {
            let key = slow.key.as_ref().map_or(String::new(), |key| format!(" {key}"));
            let fields = fields.as_ref().map_or(String::new(), |it| format!(" ({it})"));
            let begun_by = slow.begun_by.as_ref().map(|it| format!(", begun by {}", name(it)));
            let whose = name(&slow.label) + &begun_by.unwrap_or_default();
            format!("{}{key}{fields}  {whose}", slow.name).into()
        })
        .shown("", Unit::Tree, |(slow, _)| Value::Tree(parts(slow)))
        .label_keys(|(slow, _)| Value::label(&slow.label))
        .key("name", |(slow, _)| Value::text(&slow.name))
        .key("key", |(slow, _)| slow.key.clone().into())
        .key("begun_by", |(slow, _)| slow.begun_by.as_ref().into())
        .key("fields", |(_, fields)| fields.clone().into())
        .nested("states", |(slow, _)| states(slow.spent))
        .nested("waits", |(slow, _)| wait_text::list(&slow.waits));
    Part::section("The slowest", "slowest", columns.rows(&slowest))
}

fn fields_of(reader: &Reader, slow: &Slow) -> Option<String> {
    let begun_by = slow.begun_by.as_ref().unwrap_or(&slow.label);
    fields(reader, &slow.event, begun_by.tid, slow.begin).filter(|text| !text.is_empty())
}

/// Returns the parts of a span's time, the longest first.
fn parts(slow: &Slow) -> Vec<Branch> {
    let Some(spent) = slow.spent else { return Vec::new() };
    let part = |nanos: u64, text: String| Branch {
        nanos,
        share: nanos as f64 / slow.nanos.max(1) as f64,
        text,
        ..Branch::default()
    };
    let mut parts = vec![
        part(spent.running, "ran".to_owned()),
        part(spent.runnable, "wanted a CPU".to_owned()),
        part(spent.unknown, "not known".to_owned()),
    ];
    let shown = slow.waits.iter().take(WAITS);
    parts.extend(shown.map(|wait| part(wait.total, format!("in {}", wait_text(wait)))));
    let more = slow.waits.get(WAITS..).unwrap_or(&[]);
    let nanos = more.iter().map(|wait| wait.total).fold(0, u64::saturating_add);
    parts.push(part(nanos, counted(more.len() as u64, "other wait")));
    parts.retain(|part| part.nanos > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.nanos));
    parts
}
