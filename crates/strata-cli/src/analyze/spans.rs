//! `strata analyze spans`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::spans::{By, Row, Slow, SlowestWaits, SpanCounter, Spans};
use strata_analyze::reports::{fields, Label, QUANTILE_ERROR};
use strata_analyze::stats::time_of_day;
use strata_ctf::read::Reader;
use strata_session::stop::Stop;
use strata_timeline::{SpanRoles, Spent, Timeline};

use super::common::{CommonFlags, Made, PairFlags, EXIT_STATUS};
use super::rows::{
    buckets, by, document, exactness, histogram, keys, length, more, name, put_rows, spread,
};
use super::threads::{wait_json, wait_text};
use super::whose::{MineFlags, Whose, ELSEWHERE};
use crate::reading::selection::SYNTAX;
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::{clean, count, counted, shell_word};

/// Waits of one of the slowest in a text.
const WAITS: usize = 3;
/// The slowest that are kept.
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

/// `strata analyze spans`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct SpansFlags {
    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    pairs: PairFlags,

    /// Only spans of this name: 'shop:checkout' of shop:checkout_begin and shop:checkout_end; '*' is any text
    #[arg(long, value_name = "NAME")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// A row for each name, or for each process or thread and name
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Show the N slowest one by one, with their fields and what they waited for
    #[arg(long, value_name = "N", default_value_t = 10)]
    slowest: usize,
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// Those of a name, of all processes
    #[default]
    Name,
    /// Those of a process and a name are one row
    Process,
    /// Those of a thread and a name
    Thread,
}

/// Do it, and give the exit status.
pub fn run(flags: &SpansFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(None, &flags.mine, &reader, ("spans", ELSEWHERE), stop)?;
    let roles = flags.pairs.roles(&reader);
    let kept = whose.kept(flags.slowest, SLOWEST_MAX);
    let mut counter = SpanCounter::new(range, flags.of.as_deref(), kept);
    let timeline = Timeline::with_spans(&reader, roles.clone());
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Name => By::Name,
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let is_wanted = |label: &Label| wanted.has(label);
    let of: Option<&dyn Fn(&Label) -> bool> = whose.is_any().then_some(&is_wanted);
    let mut report = counter.finish_of(world, by, of);
    report.slowest.truncate(flags.slowest);
    let (found, all) = (report.slowest.len(), report.all.count);
    whose.say_fewer(found, flags.slowest, SLOWEST_MAX, all, "slowest spans");
    // Where the trace says what threads did: of a span in two threads, that is not known yet.
    let has_states = world.threads.iter().any(|(_, it)| it.has_states());
    if has_states && !report.slowest.is_empty() {
        let mut waiting = SlowestWaits::new(&report.slowest);
        let timeline = Timeline::with_spans(&reader, roles.clone());
        let Some(passed) = flags.common.again(timeline, &reader, range, &mut waiting, stop) else {
            return Ok(crate::talk::exit::stopped(stop));
        };
        waiting.tell(passed.timeline.world(), &mut report.slowest);
    }
    say(&report, &rule(&roles));
    flags
        .common
        .show(|| json(&report, &made, &reader, flags), || text(&report, &made, &reader, flags))?;
    let is_empty = report.all.count == 0;
    let is_asked = flags.of.is_some() || whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no span matches what was asked for",
        "the traces have no span that begins and ends in one thread. Programs make them by \
                 STRATA_SPAN(); --pair BEGIN=END names any two events",
    ))
}

/// The rule that tells apart what overlaps, if only one pair of events seems to have an id; as it is typed.
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

/// What had to be guessed, and what seems to be wrong. `rule`: what would put right what overlaps.
fn say(report: &Spans, rule: &str) {
    let (guesses, alone) = (report.guesses, report.alone);
    let warn = |text| talk::message(&Message { weight: Weight::Warning, text });
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
    // A recording that begins or ends meanwhile leaves few.
    let both = alone.no_begin.min(alone.no_end);
    if both > 0 && both >= report.all.count / 10 {
        warn(format!(
            "{} no begin in their thread, {} no end: if spans begin in one thread and end in another, name the \
             field that says which is which: --pair {rule}",
            counted_have(alone.no_begin, "end"),
            counted_have(alone.no_end, "begin"),
        ));
    }
}

fn counted_have(number: u64, what: &str) -> String {
    format!("{} {}", counted(number, what), if number == 1 { "has" } else { "have" })
}

fn spent_json(spent: Option<Spent>) -> Value {
    spent.map_or(Value::Null, |spent| {
        json!({
            "running_ns": spent.running,
            "runnable_ns": spent.runnable,
            "blocked_ns": spent.blocked,
            "unknown_ns": spent.unknown,
        })
    })
}

fn json(report: &Spans, made: &Made, reader: &Reader, flags: &SpansFlags) -> String {
    let figures = |row: &Row| {
        json!({
            "count": row.count,
            "total_ns": row.total,
            "avg_ns": row.mean(),
            "min_ns": row.min,
            "p50_ns": row.quantile(0.5),
            "p90_ns": row.quantile(0.9),
            "p99_ns": row.quantile(0.99),
            "max_ns": row.max,
            "histogram": buckets(&row.times),
            "states": spent_json(Some(row.spent).filter(Spent::is_known)),
        })
    };
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        map.insert("name".into(), json!(row.name));
        if let Value::Object(figures) = figures(row) {
            map.extend(figures);
        }
        Value::Object(map)
    };
    let slow = |slow: &Slow| {
        let mut map = keys(&slow.label);
        let begun_by = slow.begun_by.as_ref().map(|label| Value::Object(keys(label)));
        for (key, value) in [
            ("name", json!(slow.name)),
            ("time_ns", json!(slow.begin)),
            ("duration_ns", json!(slow.nanos)),
            ("key", json!(slow.key)),
            ("begun_by", json!(begun_by)),
            ("fields", json!(fields_of(reader, slow))),
            ("states", spent_json(slow.spent)),
            ("waits", slow.waits.iter().map(wait_json).collect()),
        ] {
            map.insert(key.into(), value);
        }
        Value::Object(map)
    };
    let mut object = made.object("spans");
    object.insert("by".into(), by(&flags.by));
    object.insert("quantile_error".into(), json!(QUANTILE_ERROR));
    object.insert("all".into(), figures(&report.all));
    let (alone, guesses) = (report.alone, report.guesses);
    object.insert(
        "unpaired".into(),
        json!({
            "no_begin": alone.no_begin,
            "no_end": alone.no_end,
            "gap": alone.gap,
            "again": alone.again,
            "too_many": alone.too_many,
        }),
    );
    object.insert(
        "guessed".into(),
        json!({
            "no_thread": guesses.no_thread,
            "no_key": guesses.no_key,
            "other_id": guesses.disagree,
        }),
    );
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("slowest".into(), report.slowest.iter().map(slow).collect());
    document(object)
}

fn fields_of(reader: &Reader, slow: &Slow) -> Option<String> {
    let begun_by = slow.begun_by.as_ref().unwrap_or(&slow.label);
    fields(reader, &slow.event, begun_by.tid, slow.begin).filter(|text| !text.is_empty())
}

fn text(report: &Spans, made: &Made, reader: &Reader, flags: &SpansFlags) -> String {
    let mut out = String::new();
    let all = &report.all;
    let _ = writeln!(
        out,
        "{HEAD}{} in {}, {} all together{HEAD:#}",
        counted(all.count, "span"),
        length(made.nanos()),
        length(all.total),
    );
    if all.count > 0 {
        table(&mut out, report, flags);
        histogram(&mut out, &all.times, "spans", !is_utf8());
        slowest(&mut out, report, reader, flags);
    }
    let alone = report.alone;
    for (count, what, why) in [
        (alone.no_begin, "end", "without a begin in its thread in the trace"),
        (alone.no_end, "begin", "without an end in its thread in the trace"),
        (alone.gap, "begin", "with discarded records behind it"),
        (alone.again, "begin", "whose key began again before it ended"),
        (alone.too_many, "begin", "while too many spans were open"),
    ] {
        if count > 0 {
            let _ = writeln!(out, "{DIM}not counted: {} {why}{DIM:#}", counted(count, what));
        }
    }
    out
}

fn table(out: &mut String, report: &Spans, flags: &SpansFlags) {
    let (left, right) = (Align::Left, Align::Right);
    let whose = match flags.by {
        ByFlag::Process => "process",
        ByFlag::Thread => "thread",
        ByFlag::Name => "",
    };
    let mut table = Table::new(&[
        (whose, left),
        ("span", left),
        ("count", right),
        ("total", right),
        ("avg", right),
        ("p50", right),
        ("p90", right),
        ("p99", right),
        ("max", right),
        ("1µs..1s", left),
        ("running", right),
        ("runnable", right),
        ("blocked", right),
    ]);
    let rows = flags.common.rows();
    for row in report.rows.iter().take(rows) {
        let known = Some(row.spent).filter(Spent::is_known);
        let share = |part: fn(&Spent) -> u64| {
            let of = |spent| part(&spent) as f64 * 100.0 / row.total.max(1) as f64;
            known.map_or(String::new(), |spent| format!("{:.0} %", of(spent)))
        };
        table.row([
            if flags.by == ByFlag::Name { "".into() } else { name(&row.label).into() },
            clean(&row.name).into(),
            count(row.count).into(),
            length(row.total).into(),
            length(row.mean()).into(),
            length(row.quantile(0.5)).into(),
            length(row.quantile(0.9)).into(),
            length(row.quantile(0.99)).into(),
            length(row.max).into(),
            spread(&row.times).into(),
            share(|spent| spent.running).into(),
            share(|spent| spent.runnable).into(),
            share(|spent| spent.blocked).into(),
        ]);
    }
    out.push('\n');
    table.write(out);
    more(out, report.rows.len(), rows);
}

fn slowest(out: &mut String, report: &Spans, reader: &Reader, flags: &SpansFlags) {
    let Some(first) = report.slowest.first() else { return };
    let _ = writeln!(out, "\n{HEAD}The slowest{HEAD:#}");
    for slow in &report.slowest {
        let mut whose = name(&slow.label);
        if let Some(begun_by) = &slow.begun_by {
            let _ = write!(whose, ", begun by {}", name(begun_by));
        }
        let key = slow.key.as_ref().map_or(String::new(), |key| format!(" {key}"));
        let fields = fields_of(reader, slow).map_or(String::new(), |it| format!(" ({it})"));
        let _ = writeln!(
            out,
            "  {}  {:>11}  {}  {whose}",
            time_of_day(slow.begin, flags.common.selection.zone()),
            length(slow.nanos),
            clean(&format!("{}{key}{fields}", slow.name)),
        );
        let Some(spent) = slow.spent else { continue };
        let mut line = |nanos: u64, what: &str| {
            if nanos > 0 {
                let share = nanos as f64 * 100.0 / slow.nanos.max(1) as f64;
                let _ = writeln!(out, "{:>34}  {share:5.1} %  {what}", length(nanos));
            }
        };
        let mut parts = vec![
            (spent.running, "ran".to_owned()),
            (spent.runnable, "wanted a CPU".to_owned()),
            (spent.unknown, "not known".to_owned()),
        ];
        parts.extend(
            slow.waits
                .iter()
                .take(WAITS)
                .map(|wait| (wait.total, format!("in {}", wait_text(wait)))),
        );
        let more = slow.waits.get(WAITS..).unwrap_or(&[]);
        let nanos = more.iter().map(|wait| wait.total).fold(0, u64::saturating_add);
        parts.push((nanos, counted(more.len() as u64, "other wait")));
        parts.sort_by_key(|(nanos, _)| std::cmp::Reverse(*nanos));
        parts.iter().for_each(|(nanos, what)| line(*nanos, what));
    }
    exactness(out);
    if first.spent.is_some() && !flags.common.selection.is_any() {
        let _ = writeln!(
            out,
            "{DIM}through those who woke it: strata analyze wait {}{} {}{DIM:#}",
            shell_word(&clean(&first.name)),
            flags.pairs.words(),
            flags.common.traces.words()
        );
    }
}
