//! The report `strata analyze diff`: what takes longer in a second trace than in a first one.
//!
//! Each trace is read in one pass of its own, with the counters that the reports on calls, spans and threads use; their
//! rows are then compared by [`strata_analyze::reports::diff`], which also says why a difference is more than noise.
//! With `--folded` the stacks of both traces are put side by side instead, for a differential flame graph.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{bail, Result};
use clap::Args;
use strata_analyze::duration_text::{parse_length, LengthError};
use strata_analyze::reports::diff::{
    compare, Change, Kind, Measured, Subject, Verdict, FEW, SIGMAS,
};
use strata_analyze::reports::flame::{has_stacks, FlameMaker, Weigh};
use strata_analyze::reports::spans::{self, SpanCounter};
use strata_analyze::reports::syscalls::{self, SyscallCounter};
use strata_analyze::reports::threads::ThreadCounter;
use strata_analyze::reports::{has_slow_calls_only, Label, Times};
use strata_ctf::read::{Reader, TimeRange};
use strata_report::{Columns, Document, Part, Table, Unit, Value};
use strata_session::stop::Stop;
use strata_timeline::Timeline;

use super::flame::folded_weights;
use super::markdown::markdown;
use super::process_selection::is_wanted;
use super::report_command::{nothing, CommonFlags, Format, Made, NamesFlags, PairFlags};
use super::report_text::show;
use super::rows::length;
use crate::reading::selection::{OfFlags, SYNTAX};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{clean, count, typed};

const EXIT_STATUS: &str = "\
Exit status:
  0  nothing became slower
  1  something became slower; with --folded: there is no stack
  2  a trace is damaged, or cannot be read; the traces are not two
  130  ended by Ctrl-C";

const COMPARED: &str = "\
What is compared:
  System calls by program and name, spans by program and name, and how
  long threads of a program wanted a CPU and had none. Something became
  slower or faster if the means differ by more than 4 standard errors of
  their difference; or if the distributions differ as significantly, and
  the means do not contradict the medians, which decide then: (median).
  What decides differs by at least the percentage that --least says. A
  change's cost is how much longer all values of the second trace take
  than they would with the mean, or median, of the first.
";

/// The number of programs' measurements that only one trace has, in a text.
const ONLY_SHOWN: usize = 5;

/// Flags of `strata analyze diff`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COMPARED}\n{SYNTAX}\n{EXIT_STATUS}"))]
#[command(mut_arg("traces", |traces| traces.help("The trace to compare with, and the one that is compared; names of sessions, too").value_names(["BEFORE", "AFTER"])))]
#[command(mut_arg("session", |session| session.hide(true)))]
pub struct DiffFlags {
    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    of: OfFlags,

    #[command(flatten)]
    pairs: PairFlags,

    /// The least change that counts, in percent of the first trace's
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    least: f64,

    /// Look at AFTER so much later (or, with -, earlier) than --from and --until, which are times of BEFORE then
    #[arg(long, value_name = "TIME", value_parser = shift, allow_hyphen_values = true)]
    shift: Option<i64>,

    /// Layout: Markdown, for a comment on a change
    #[arg(long, conflicts_with_all = ["format", "json"])]
    markdown: bool,

    /// Write the call stacks of both traces, or their spans, with two weights each, for inferno-flamegraph or flamegraph.pl
    #[arg(long, conflicts_with_all = ["format", "json", "markdown", "top"])]
    folded: bool,

    #[command(flatten)]
    names: NamesFlags,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=10_000.0).contains(number));
    number.ok_or_else(|| "it is not a percentage from 0 to 10000, such as 10 or 2.5%".to_owned())
}

/// Parses a length of time that may have a sign.
fn shift(text: &str) -> Result<i64, LengthError> {
    match text.strip_prefix('-') {
        Some(length) => parse_length(length).map(|length| -length),
        None => parse_length(text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Returns the range of time of a trace that the flags select; `first`: the range of the first trace, if this is the
/// second one.
fn range_of(flags: &DiffFlags, reader: &Reader, first: Option<TimeRange>) -> Result<TimeRange> {
    match first.zip(flags.shift) {
        Some((first, shift)) => Ok(moved(first, shift)),
        None => flags.common.selection.range(reader),
    }
}

/// Moves a range of time; an end that is open stays so.
fn moved(range: TimeRange, shift: i64) -> TimeRange {
    let moved = |time: i64| match time {
        i64::MIN | i64::MAX => time,
        _ => time.saturating_add(shift),
    };
    TimeRange { from: moved(range.from), to: moved(range.to) }
}

/// Runs `strata analyze diff`, and returns the exit status.
pub fn run(flags: &DiffFlags, stop: &Stop) -> Result<u8> {
    let paths = flags.common.traces.paths()?;
    let [before, after] = paths.as_slice() else {
        bail!(
            "analyze diff: {} given, and two are compared. Type: strata analyze diff BEFORE AFTER",
            crate::units::counted(paths.len() as u64, "trace")
        );
    };
    if flags.folded {
        return folded(flags, [before, after], stop);
    }
    let Some(mut before) = measure(flags, before, None, stop)? else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let Some(mut after) = measure(flags, after, Some(before.made.range), stop)? else {
        return Ok(crate::exit_status::stopped(stop));
    };
    keep_subjects(&mut before.measured, &mut after.measured);
    if before.has_slow_only != after.has_slow_only {
        nothing(
            "of one trace only slow system calls were recorded (--slower, or -k always): its calls seem slower than \
             those of the other one, which has all",
        );
    }
    let is_empty = before.measured.is_empty() && after.measured.is_empty();
    let changes = compare(before.measured, after.measured, flags.least / 100.0);
    let document = document(&changes, &before.made, flags);
    if flags.markdown {
        flags.common.write(&markdown(&document, flags.common.selection.zone()))?;
    } else {
        show(&flags.common, "diff", &after.made, &document)?;
    }
    if is_empty {
        nothing("neither trace has a system call, a span or a switch of threads that matches what was asked for");
    }
    let is_slower = changes.iter().any(|change| change.verdict == Verdict::Slower);
    let damage = before.made.status(false).max(after.made.status(false));
    Ok(damage.max(u8::from(is_slower)))
}

/// Keeps the delays of programs that have calls or spans in one of the traces, if any has: other programs that ran
/// meanwhile are not compared.
fn keep_subjects(before: &mut Measured, after: &mut Measured) {
    let is_own = |subject: &&Subject| subject.kind != Kind::CpuDelay;
    let own = before.keys().chain(after.keys()).filter(is_own);
    let own: HashSet<String> = own.map(|subject| subject.program.clone()).collect();
    if !own.is_empty() {
        for all in [before, after] {
            all.retain(|subject, _| own.contains(&subject.program));
        }
    }
}

/// Writes `program;outer;inner BEFORE AFTER` for each stack, as inferno-diff-folded and difffolded.pl do.
fn folded(flags: &DiffFlags, paths: [&PathBuf; 2], stop: &Stop) -> Result<u8> {
    let common = &flags.common;
    let mut readers = Vec::new();
    for path in paths {
        let reader = common.selection.open(std::slice::from_ref(path))?;
        let first = readers.first().map(|&(_, range)| range);
        let range = range_of(flags, &reader, first)?;
        readers.push((reader, range));
    }
    // Weights are compared, so both are of one kind.
    let weigh = match readers.iter().any(|(reader, _)| has_stacks(reader)) {
        true => Weigh::Records,
        false => Weigh::Spans,
    };
    let mut lines: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut status = 0;
    for (at, (reader, range)) in readers.iter().enumerate() {
        let mut maker = FlameMaker::new(*range, weigh, flags.names.source(reader));
        let timeline = Timeline::with_spans(reader, flags.pairs.roles(reader));
        let Some(made) = common.pass_on(timeline, reader, *range, &mut maker, stop) else {
            return Ok(crate::exit_status::stopped(stop));
        };
        let world = made.passed.timeline.world();
        let flame = maker.finish(world, &|label| is_wanted(flags.of.words(), label));
        for (line, weight) in folded_weights(&flame) {
            if let Some(known) = lines.entry(line).or_default().get_mut(at) {
                *known = weight;
            }
        }
        status = made.status(false).max(status);
    }
    flags.names.say_left_out();
    let mut out = String::new();
    for (line, [before, after]) in &lines {
        let _ = writeln!(out, "{line} {before} {after}");
    }
    common.write(&out)?;
    if lines.is_empty() {
        nothing("neither trace has a call stack or a span that matches what was asked for");
    }
    Ok(status.max(u8::from(lines.is_empty())))
}

/// The measurements of one of the two traces.
struct Side {
    made: Made,
    measured: Measured,
    has_slow_only: bool,
}

/// Reads one trace; `first`: the time range of the first trace, if this is the second one. `None` if the user stopped
/// the reading.
fn measure(
    flags: &DiffFlags,
    path: &PathBuf,
    first: Option<TimeRange>,
    stop: &Stop,
) -> Result<Option<Side>> {
    let common = &flags.common;
    let reader = common.selection.open(std::slice::from_ref(path))?;
    let range = range_of(flags, &reader, first)?;
    for text in common.selection.hints(&reader) {
        let text = format!("{}: {text}", typed(path));
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    let calls = SyscallCounter::new(range, 0);
    let spans = SpanCounter::new(range, None, 0);
    let mut seen = ((calls, spans), ThreadCounter::new(range, 0));
    let timeline = Timeline::with_spans(&reader, flags.pairs.roles(&reader));
    let Some(made) = common.pass_on(timeline, &reader, range, &mut seen, stop) else {
        return Ok(None);
    };
    let world = made.passed.timeline.world();
    let ((calls, spans), threads) = seen;
    let mut measured = Measured::new();
    let mut add = |label: &Label, kind, name: &str, times: &Times| {
        if times.count > 0 && is_wanted(flags.of.words(), label) {
            let program =
                if label.program.is_empty() { &label.process } else { &label.program }.clone();
            let subject = Subject { program, kind, name: name.to_owned() };
            measured.entry(subject).or_default().merge(times);
        }
    };
    for row in &calls.finish(world, syscalls::By::Process).rows {
        add(&row.label, Kind::Call, &row.name, &row.times);
    }
    for row in &spans.finish(world, spans::By::Process).rows {
        add(&row.label, Kind::Span, &row.name, &row.times);
    }
    // A filter selects calls and spans.
    let is_of_all = common.selection.filter().is_none();
    let is_asked = |label: &Label| is_wanted(flags.of.words(), label);
    let rows = threads.finish_of(world, true, &is_asked).rows;
    for row in rows.iter().filter(|_| is_of_all) {
        add(&row.label, Kind::CpuDelay, "", &row.delays);
    }
    let has_slow_only = has_slow_calls_only(&reader);
    Ok(Some(Side { made, measured, has_slow_only }))
}

fn document(changes: &[Change], before: &Made, flags: &DiffFlags) -> Document {
    let number = |verdict| changes.iter().filter(|change| change.verdict == verdict).count() as u64;
    let [slower, faster, same] = [Verdict::Slower, Verdict::Faster, Verdict::Same].map(number);
    let least = flags.least;
    let mut document = Document::new(format!(
        "{} slower and {} faster by {least} % or more, {} the same",
        count(slower),
        count(faster),
        count(same),
    ));
    let world = before.passed.timeline.world();
    document.fact(
        "before",
        Value::Record(vec![
            ("from_ns", world.begin.map(|begin| begin.max(before.range.from)).into()),
            ("records", before.passed.records.into()),
            ("discarded_records", before.passed.discarded.into()),
            ("damage_count", before.passed.damage.into()),
        ]),
    );
    document.fact("least_percent", least);
    document.fact("sigmas", SIGMAS);
    for verdict in
        [Verdict::Slower, Verdict::Faster, Verdict::Same, Verdict::Few, Verdict::New, Verdict::Gone]
    {
        document.fact(verdict.word(), number(verdict));
    }
    let is_for_people = flags.markdown || matches!(flags.common.format(), Format::Text);
    let is_told = |change: &&Change| {
        !is_for_people || matches!(change.verdict, Verdict::Slower | Verdict::Faster)
    };
    let told: Vec<&Change> = changes.iter().filter(is_told).collect();
    document.rows(table(told.get(..flags.common.rows()).unwrap_or(&told)), told.len());
    for (verdict, title, side) in [
        (Verdict::New, "Only in the second trace", Change::after as fn(&Change) -> &Times),
        (Verdict::Gone, "Only in the first trace", Change::before),
    ] {
        let only: Vec<&Change> =
            changes.iter().filter(|change| change.verdict == verdict).take(ONLY_SHOWN).collect();
        document.push(Part::shown(title, only_table(&only, side)));
        let rest = number(verdict).saturating_sub(only.len() as u64);
        if rest > 0 {
            document
                .push(Part::Note(format!("and {} others, shorter; --json has all", count(rest))));
        }
    }
    let few = number(Verdict::Few);
    if few > 0 {
        document.push(Part::Note(format!(
            "{} not compared: one trace has fewer than {FEW} of them",
            count(few)
        )));
    }
    document
}

/// Returns the name of a compared measurement as text for people.
fn subject_name(subject: &Subject) -> String {
    match subject.kind {
        Kind::Call => clean(&subject.name),
        Kind::Span => format!("span {}", clean(&subject.name)),
        Kind::CpuDelay => "wait for a CPU".to_owned(),
    }
}

/// Returns a change in percent, or as a multiple where it is large.
fn ratio_text(ratio: f64) -> String {
    match ratio {
        _ if ratio >= 3.0 => format!("{ratio:.1}x"),
        _ => format!("{:+.0} %", (ratio - 1.0) * 100.0),
    }
}

fn cost_text(cost: i64) -> String {
    let sign = if cost < 0 { '-' } else { '+' };
    format!("{sign}{}", length(cost.unsigned_abs()))
}

fn table(changes: &[&Change]) -> Table {
    type Row<'c> = &'c Change;
    Columns::new()
        .both("verdict", "verdict", Unit::Text, |row: &Row<'_>| row.verdict.word().into())
        .both("program", "program", Unit::Text, |row| row.subject.program.as_str().into())
        .shown("what", Unit::Text, |row| match row.is_by_median {
            false => subject_name(&row.subject).into(),
            true => format!("{} (median)", subject_name(&row.subject)).into(),
        })
        .key("decided_by", |row| if row.is_by_median { "median" } else { "mean" }.into())
        .key("kind", |row| row.subject.kind.key().into())
        .key("name", |row| Value::some_text(row.subject.name.as_str()))
        .key("ratio", |row| row.ratio().into())
        .shown("before", Unit::Nanos, |row| row.typical().0.map(|nanos| nanos as u64).into())
        .shown("after", Unit::Nanos, |row| row.typical().1.map(|nanos| nanos as u64).into())
        .shown("change", Unit::RightText, |row| row.ratio().map(ratio_text).into())
        .shown("count", Unit::Count, |row| row.after.count.into())
        .shown("cost", Unit::RightText, |row| cost_text(row.cost()).into())
        .key("cost_ns", |row| row.cost().into())
        .key("sigmas", |row| row.sigmas.into())
        .key("distance", |row| row.distance.into())
        .key("before_count", |row| row.before.count.into())
        .key("before_total_ns", |row| row.before.total.into())
        .key("before_avg_ns", |row| row.before.mean().into())
        .key("before_p50_ns", |row| row.before.quantile(0.5).into())
        .key("before_p99_ns", |row| row.before.quantile(0.99).into())
        .key("before_max_ns", |row| row.before.max.into())
        .key("after_count", |row| row.after.count.into())
        .key("after_total_ns", |row| row.after.total.into())
        .key("after_avg_ns", |row| row.after.mean().into())
        .key("after_p50_ns", |row| row.after.quantile(0.5).into())
        .key("after_p99_ns", |row| row.after.quantile(0.99).into())
        .key("after_max_ns", |row| row.after.max.into())
        .rows(changes)
}

fn only_table(changes: &[&Change], side: fn(&Change) -> &Times) -> Table {
    Columns::new()
        .shown("program", Unit::Text, |row: &&Change| row.subject.program.as_str().into())
        .shown("what", Unit::Text, |row| subject_name(&row.subject).into())
        .shown("count", Unit::Count, move |row| side(row).count.into())
        .shown("total", Unit::Nanos, move |row| side(row).total.into())
        .rows(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_with_and_without_their_sign() {
        assert_eq!((percent("10"), percent("2.5%"), percent("0")), (Ok(10.0), Ok(2.5), Ok(0.0)));
        for text in ["", "%", "-1", "x", "nan", "inf", "10001", "1e9"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn second_trace_is_looked_at_as_much_later_or_earlier_as_is_reported_and_open_ends_stay_open() {
        assert_eq!(
            (shift("1.5s"), shift("-12ns"), shift("+1ms")),
            (Ok(1_500_000_000), Ok(-12), Ok(1_000_000))
        );
        assert!(shift("-").is_err() && shift("--1s").is_err() && shift("soon").is_err());
        let range = TimeRange { from: 100, to: i64::MAX };
        assert_eq!(moved(range, -30), TimeRange { from: 70, to: i64::MAX });
        assert_eq!(
            moved(TimeRange { from: i64::MIN, to: 5 }, 5),
            TimeRange { from: i64::MIN, to: 10 }
        );
    }

    #[test]
    fn changes_are_reported_as_people_say_them() {
        assert_eq!(
            (ratio_text(1.25), ratio_text(0.5), ratio_text(7.04)),
            ("+25 %".into(), "-50 %".into(), "7.0x".into())
        );
        assert_eq!(
            (cost_text(1_500), cost_text(-2_000_000)),
            ("+1.500 µs".into(), "-2.000 ms".into())
        );
    }
}
