//! The report `strata analyze summary`: the first facts about a trace, and the commands to type next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use strata_analyze::command_descendants::{has_command, recorders};
use strata_analyze::duration_text::parse_duration;
use strata_analyze::reports::blocked::{BlockedCounter, BlockedReport};
use strata_analyze::reports::spans::{self, SpanCounter, Spans};
use strata_analyze::reports::started_processes::BegunProcesses;
use strata_analyze::reports::syscalls::{self, SyscallCounter, Syscalls};
use strata_analyze::reports::threads::{Row, ThreadCounter, ThreadsReport};
use strata_analyze::reports::{ExecutedProcesses, Label, LockNames, Recorded};
use strata_ctf::read::{Reader, TimeRange};
use strata_report::{Columns, Document, Part, Unit, Value};
use strata_session::stop::Stop;
use strata_timeline::{span_roles, ThreadId, Timeline, World};

use super::hidden_threads;
use super::process_selection::{MineFlags, Whose, BY_OF};
use super::report_command::{
    nothing, say_blind, CommonFlags, Format, Made, NamesFlags, EXIT_STATUS,
};
use super::report_text::show;
use super::rows::{length, name, subject};
use super::summary_next::{next, NextParts};
use super::summary_rows::{
    begun_text, begun_value, blocked_rows, blocked_text, idle_text, idle_value,
};
use super::threads::whole;
use super::wait_text;
use crate::reading::selection::{refused, OfFlags, TIMES};
use crate::reading::traces::{or_at_relay, TracesFlags};
use crate::units::{count, counted};

/// Default limit on the rows of each kind.
const FIRST: usize = 3;
/// Default limit on the slowest calls, and on the threads that waited for a CPU.
const FIRST_SLOWEST: usize = 1;
/// The most of the slowest that are kept, if only those of some processes are shown.
const SLOWEST_MAX: usize = 10_000;

/// Flags of `strata analyze summary`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused), mut_arg("traces", or_at_relay))]
#[command(mut_arg("top", |top| top.help("Only the first N of each kind [default: 3, and 1 of the slowest and of what waited]; in JSON, N rows [default: all]")))]
pub struct SummaryFlags {
    #[command(flatten)]
    pub(super) common: CommonFlags,

    #[command(flatten)]
    mine: MineFlags,

    #[command(flatten)]
    of: OfFlags,

    #[command(flatten)]
    names: NamesFlags,

    /// Show the summary again and again while the traces are recorded, until the recording ends or Ctrl-C
    #[arg(long, conflicts_with_all = ["mine", "from", "last"])]
    follow: bool,

    /// With --follow, show the summary every TIME
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s", requires = "follow")]
    pub(super) period: Duration,
}

impl SummaryFlags {
    /// Returns the number of rows to show: of lists, and of the slowest items, whose default is lower.
    fn first(&self) -> (usize, usize) {
        let of = |default| self.common.top.map_or(default, std::num::NonZeroUsize::get);
        (of(FIRST), of(FIRST_SLOWEST))
    }
}

/// A machine's name and a process number.
type ProcessKey = (Option<String>, i32);

/// The reports of which the summary consists.
struct SummaryParts {
    calls: Syscalls,
    processes: ThreadsReport,
    blocked: BlockedReport,
    begun: BegunProcesses,
    spans: Spans,
    /// Numbers of the processes that recorded a command.
    recorders: Vec<i64>,
    /// For each process of a machine, the number of its system calls, and of those that failed.
    calls_of: HashMap<ProcessKey, (u64, u64)>,
    /// The processes that were chosen for recording; empty if all were.
    about: HashSet<ProcessKey>,
}

/// The counters of the summary, which count while records are read.
pub(super) type SummaryCounters =
    (((SyscallCounter, ThreadCounter), (SpanCounter, BlockedCounter)), ExecutedProcesses);

/// Makes the summary, and returns the exit status.
pub fn run(flags: &SummaryFlags, stop: &Stop) -> Result<u8> {
    flags.refuse_filter()?;
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose(&reader, stop)?;
    let mut all = flags.counters(&whose, range);
    let timeline = Timeline::with_spans(&reader, span_roles(&reader, &[]));
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut all, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let (document, empty) = flags.finish(&reader, &whose, &made, all, true);
    show(&flags.common, "summary", &made, &document)?;
    Ok(flags.say_empty(&made, empty))
}

/// What a summary lacks, if it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// The summary is not empty.
    No,
    /// The requested processes did nothing.
    Nobody,
    /// The traces have no records.
    Records,
}

impl SummaryFlags {
    /// Returns true if the summary is shown again and again.
    pub fn follows(&self) -> bool {
        self.follow
    }

    pub(super) fn refuse_filter(&self) -> Result<()> {
        let instead = "--from and --until, which select a time";
        self.common.refuse_filter("summary", "a summary is of all", instead)
    }

    pub(super) fn whose<'f>(&'f self, reader: &Reader, stop: &Stop) -> Result<Whose<'f>> {
        Whose::read(self.of.words(), &self.mine, reader, ("summary", BY_OF), stop)
    }

    /// Returns how many of the slowest calls and spans are shown. JSON does not list them.
    fn slowest_shown(&self) -> usize {
        match self.common.format() {
            Format::Json | Format::Csv => FIRST_SLOWEST,
            Format::Text => self.first().1,
        }
    }

    pub(super) fn counters(&self, whose: &Whose<'_>, range: TimeRange) -> SummaryCounters {
        let kept = whose.kept(self.slowest_shown(), SLOWEST_MAX);
        let both = (SyscallCounter::new(range, kept), ThreadCounter::new(range, 1));
        let waits = (SpanCounter::new(range, None, kept), BlockedCounter::new(range));
        ((both, waits), ExecutedProcesses::default())
    }

    /// Creates the summary from the counters. `says`: true to print messages on what it lacks.
    pub(super) fn finish(
        &self,
        reader: &Reader,
        whose: &Whose<'_>,
        made: &Made,
        counted: SummaryCounters,
        says: bool,
    ) -> (Document, Empty) {
        if says {
            hidden_threads::explain(made);
            say_blind(made);
        }
        let world = made.passed.timeline.world();
        let (((calls, processes), (spans, blocked)), executed) = counted;
        let wanted = whose.of(world);
        let is_wanted = |label: &Label| wanted.has(label);
        let of: Option<&dyn Fn(&Label) -> bool> = whose.is_any().then_some(&is_wanted);
        let calls = calls.finish_of(world, syscalls::By::Process, of);
        let mut calls_of: HashMap<_, (u64, u64)> = HashMap::new();
        for row in &calls.rows {
            let Some(pid) = row.label.pid else { continue };
            let its = calls_of.entry((row.label.machine.clone(), pid)).or_default();
            *its = (its.0 + row.times.count, its.1 + row.errors);
        }
        let processes = match of {
            Some(of) => processes.finish_of(world, true, of),
            None => processes.finish(world, true),
        };
        let spans = spans.finish_of(world, spans::By::Name, of);
        for (found, all, what) in [
            (calls.slowest.len(), calls.all.times.count, "slowest system calls"),
            (spans.slowest.len(), spans.all.times.count, "slowest spans"),
        ] {
            if says {
                whose.say_fewer(found, self.slowest_shown(), SLOWEST_MAX, all, what);
            }
        }
        let about = about(world, &calls_of);
        let is_about = |label: &Label| is_wanted(label) && is_among(&about, label);
        let mut blocked = blocked.finish(world, &is_about);
        let mut names = LockNames::read(reader, &self.names.options(), executed);
        blocked.name_locks(world, &mut names, self.common.rows());
        if says {
            self.names.say_left_out();
        }
        let begun = BegunProcesses::new(world, made.range, &is_about);
        let recorders = recorders(reader).into_iter().map(|(_, pid)| pid).collect();
        let found =
            SummaryParts { calls, recorders, calls_of, about, processes, blocked, begun, spans };
        let is_nobody = found.processes.rows.is_empty() && found.calls.all.times.count == 0;
        let is_nobody = whose.is_any() && is_nobody && found.spans.all.times.count == 0;
        let empty = match (made.passed.records, is_nobody) {
            (_, true) => Empty::Nobody,
            (0, false) => Empty::Records,
            _ => Empty::No,
        };
        let next = match self.common.traces.has_relay() {
            true => Vec::new(),
            false => found.next(reader, made, &self.common.traces),
        };
        (found.document(made, &next, self), empty)
    }

    /// Prints a message on what an empty summary lacks. Returns the exit status.
    pub(super) fn say_empty(&self, made: &Made, empty: Empty) -> u8 {
        match empty {
            Empty::No => {}
            Empty::Nobody if self.of.words().is_some() => nothing(
                "the trace has nothing about what --of selects. `strata analyze threads` lists all threads of the trace",
            ),
            Empty::Nobody => {
                nothing("the trace has nothing about the command and the processes that it started");
            }
            Empty::Records => nothing(self.common.selection.nothing()),
        }
        made.status(empty != Empty::No)
    }
}

/// Returns the processes that were chosen for recording: those with system calls in the trace, or else those with
/// page faults, since both are recorded of chosen processes only. Empty if the trace has neither.
fn about(world: &World, calls_of: &HashMap<ProcessKey, (u64, u64)>) -> HashSet<ProcessKey> {
    if !calls_of.is_empty() {
        return calls_of.keys().cloned().collect();
    }
    let faults = world.threads.iter().filter(|(_, thread)| thread.has_faults());
    let process = |(id, _): (ThreadId, _)| {
        let label = Label::process(world, id);
        Some((label.machine, label.pid?))
    };
    faults.filter_map(process).collect()
}

fn is_among(about: &HashSet<ProcessKey>, label: &Label) -> bool {
    let is_there = |pid| about.contains(&(label.machine.clone(), pid));
    about.is_empty() || label.pid.is_some_and(is_there)
}

impl SummaryParts {
    /// Returns the rows of the processes that were chosen for recording, or all rows if there are none of them.
    fn about(&self) -> Vec<&Row> {
        let rows = &self.processes.rows;
        let found: Vec<&Row> =
            rows.iter().filter(|row| is_among(&self.about, &row.label)).collect();
        match found.is_empty() {
            true => rows.iter().collect(),
            false => found,
        }
    }

    /// Returns the processes that ran, by falling time: those that were chosen for recording, and the others.
    fn runs(&self) -> (Vec<&Row>, Vec<&Row>) {
        let mut about = self.about();
        about.retain(|row| row.running > 0);
        about.sort_by_key(|row| std::cmp::Reverse(row.running));
        let is_other = |row: &&Row| {
            row.running > 0 && !about.iter().any(|one| std::ptr::eq::<Row>(*one, *row))
        };
        let mut others: Vec<&Row> = self.processes.rows.iter().filter(is_other).collect();
        others.sort_by_key(|row| std::cmp::Reverse(row.running));
        (about, others)
    }

    /// Returns true if the process recorded the trace.
    fn is_recorder(&self, row: &Row) -> bool {
        row.label.pid.is_some_and(|pid| self.recorders.contains(&pid.into()))
    }

    /// Returns the number of a process' system calls, and of those that failed.
    fn calls_of(&self, row: &Row) -> (u64, u64) {
        let process = row.label.pid.map(|pid| (row.label.machine.clone(), pid));
        process.and_then(|process| self.calls_of.get(&process)).copied().unwrap_or_default()
    }

    /// Returns commands that have something to show for these traces; those that show the cause come first.
    fn next(&self, reader: &Reader, made: &Made, traces: &TracesFlags) -> Vec<String> {
        let about = self.about();
        next(&NextParts {
            reader,
            recorded: Recorded::new(reader),
            nanos: made.nanos(),
            traces,
            has_command: has_command(reader),
            about: &about,
            blocked: &self.blocked,
            begun: &self.begun,
            calls: &self.calls,
            spans: &self.spans,
            has_threads: !self.processes.rows.is_empty(),
        })
    }

    fn document(&self, made: &Made, next: &[String], flags: &SummaryFlags) -> Document {
        let (calls, spans, nanos) = (&self.calls.all, &self.spans.all.times, made.nanos());
        let records = counted(made.passed.records, "event record");
        let mut document = Document::new(format!("{records} in {}", length(nanos)));
        document.fact("hidden_threads", hidden_threads::value(made));
        document.fact("syscalls", calls.times.count);
        document.fact("syscall_errors", calls.errors);
        document.fact("syscall_total_ns", calls.times.total);
        document.fact("spans", spans.count);
        document.fact("span_total_ns", spans.total);
        document.fact("idle", idle_value(&self.blocked.idle));
        document.fact("processes_begun", begun_value(&self.begun));
        document.fact("next", next.iter().collect::<Value>());
        let mut lines = self.states(nanos, flags.first());
        lines.extend(self.lengths(flags.first()));
        let columns = Columns::new()
            .shown("", Unit::Text, |line: &Line| line.title.into())
            .shown("", Unit::RightText, |line| Value::text(&line.much))
            .shown("", Unit::Text, |line| Value::text(&line.text));
        document.push(Part::Blank);
        document.push(Part::shown("", columns.rows(&lines)));
        if self.processes.rows.is_empty() {
            let text = "no record says what threads did and waited for: those are of the kernel. As root: strata \
                        record -- COMMAND";
            document.push(Part::Note(text.to_owned()));
        }
        let columns = Columns::new().shown("", Unit::Text, |command: &String| command.into());
        document.push(Part::shown("Next", columns.rows(next)));
        let rows = self.about();
        let shown = rows.get(..flags.common.rows()).unwrap_or(&rows);
        document.rows(self.rows(shown, flags.first().0), rows.len());
        let blocked = &self.blocked.rows;
        let shown = blocked.get(..flags.common.rows()).unwrap_or(blocked);
        document.push(Part::hidden("blocked", blocked_rows(shown)).of(blocked.len()));
        document
    }

    /// Makes the table of processes for JSON and CSV.
    fn rows(&self, rows: &[&Row], first: usize) -> strata_report::Table {
        let columns = Columns::new()
            .label_keys(|row: &&Row| Value::label(&row.label))
            .key("name", |row| subject(&row.label).into())
            .key("count", |row| self.calls_of(row).0.into())
            .key("errors", |row| self.calls_of(row).1.into())
            .key("total_ns", |row| whole(row).into())
            .key("running_ns", |row| row.running.into())
            .key("runnable_ns", |row| row.runnable().into())
            .key("blocked_ns", |row| row.blocked.into())
            .key("unknown_ns", |row| row.unknown.into())
            .nested("waits", |row| wait_text::list(row.waits.get(..first).unwrap_or(&row.waits)));
        columns.rows(rows)
    }

    /// Returns lines about running, blocked and runnable time.
    fn states(&self, whole: u64, (first, ones): (usize, usize)) -> Vec<Line> {
        let mut lines = Vec::new();
        let percent = |nanos: u64| format!("{:.1} %", nanos as f64 * 100.0 / whole.max(1) as f64);
        let text = |row: &Row| {
            let percent = percent(row.running);
            let role = if self.is_recorder(row) { ", which recorded" } else { "" };
            format!("{} ({percent} of one CPU{role})", name(&row.label))
        };
        // Whom the trace is about comes first, whatever else had the CPU: the recorder, too.
        let (about, others) = self.runs();
        let about: Vec<&Row> = about.into_iter().take(first).collect();
        let others = others.into_iter().take((first - about.len()).max(1));
        let line = |row: &Row| (length(row.running), text(row));
        put(&mut lines, "CPU time", about.into_iter().map(line));
        put(&mut lines, "of others", others.map(line));
        let blocked = self.blocked.rows.iter().take(first);
        put(&mut lines, "blocked", blocked.map(|it| (length(it.times.max), blocked_text(it))));
        let mut wants: Vec<&Row> = self.about();
        wants.retain(|row| row.runnable() > 0);
        wants.sort_by_key(|row| std::cmp::Reverse(row.runnable()));
        let text = |row: &Row| format!("{} for a CPU{}", name(&row.label), rival_text(row));
        let wants = wants.into_iter().take(ones);
        put(&mut lines, "waited", wants.map(|row| (length(row.runnable()), text(row))));
        let idle = &self.blocked.idle;
        put(&mut lines, "idle", idle_text(idle).map(|text| (length(idle.total), text)));
        let begun = begun_text(&self.begun);
        put(&mut lines, "processes", begun.map(|text| (count(self.begun.count), text)));
        lines
    }

    /// Returns lines about system calls and spans.
    fn lengths(&self, (first, ones): (usize, usize)) -> Vec<Line> {
        let mut lines = Vec::new();
        let all = &self.calls.all;
        if all.times.count > 0 {
            let calls = counted(all.times.count, "system call");
            let text = format!("{calls}, {} with errors", count(all.errors));
            put(&mut lines, "in calls", [(length(all.times.total), text)]);
        }
        let calls = self.calls.rows.iter().take(first).map(|row| {
            let text = format!("{} {}, {}×", name(&row.label), row.name, count(row.times.count));
            (length(row.times.total), text)
        });
        put(&mut lines, "", calls);
        let slow =
            |label: &Label, what: &str, nanos| (length(nanos), format!("{} {what}", name(label)));
        let calls = self.calls.slowest.iter().take(ones);
        put(&mut lines, "slowest", calls.map(|it| slow(&it.label, &it.name, it.nanos)));
        let spans = self.spans.rows.iter().take(first).map(|row| {
            (length(row.times.total), format!("{}, {}×", row.name, count(row.times.count)))
        });
        put(&mut lines, "in spans", spans);
        let spans = self.spans.slowest.iter().take(ones);
        put(&mut lines, "slowest", spans.map(|it| slow(&it.label, &it.name, it.nanos)));
        lines
    }
}

/// A line of the summary for people.
struct Line {
    title: &'static str,
    /// The duration or number at the begin of the line.
    much: String,
    text: String,
}

/// Adds lines, of which the first has the title.
fn put(
    lines: &mut Vec<Line>,
    mut title: &'static str,
    more: impl IntoIterator<Item = (String, String)>,
) {
    let line = |(much, text)| Line { title: std::mem::take(&mut title), much, text };
    lines.extend(more.into_iter().map(line));
}

/// Formats the program that had the CPU longest while the thread of a row wanted it, as far as is known: `, which
/// stress-ng ×2 had for 203.117 ms of that time`. That may be little: the remaining time went to others, or it is unknown
/// to whom.
fn rival_text(row: &Row) -> String {
    // Processes of one program together, since each of many has little.
    let mut programs: BTreeMap<Rival<'_>, (Vec<&Label>, u64)> = BTreeMap::new();
    for (label, nanos) in
        row.rivals.iter().filter_map(|(label, nanos)| Some((label.as_ref()?, *nanos)))
    {
        let rival = match label.home.is_some() && label.home == row.label.home {
            true => Rival::Own,
            false if label.process.is_empty() => Rival::Nameless(&label.machine, label.pid),
            false => Rival::Program(&label.machine, &label.process),
        };
        let (labels, sum) = programs.entry(rival).or_default();
        if !labels.iter().any(|other| other.pid == label.pid) {
            labels.push(label);
        }
        *sum += nanos;
    }
    let most = programs.into_iter().max_by_key(|(_, (_, nanos))| *nanos);
    most.map_or_else(String::new, |(rival, (labels, nanos))| {
        let who = match (rival, &labels[..]) {
            (Rival::Own, _) => "its own threads".to_owned(),
            (_, [one]) => name(one),
            (_, all) => all.first().map_or_else(String::new, |first| {
                name(&Label { pid: None, home: None, processes: all.len(), ..(*first).clone() })
            }),
        };
        format!(", which {who} had for {} of that time", length(nanos))
    })
}

/// The program that had a CPU which another thread wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rival<'l> {
    /// The waiting process itself.
    Own,
    /// All processes of this name.
    Program(&'l Option<String>, &'l str),
    /// A process of which the name is unknown.
    Nameless(&'l Option<String>, Option<i32>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rivals(rivals: &[(Option<&str>, u64)]) -> String {
        let label =
            |process: &str| Label { process: process.into(), pid: Some(7), ..Label::default() };
        let rivals = rivals.iter().map(|&(who, nanos)| (who.map(label), nanos)).collect();
        rival_text(&Row { woken: 10_000_000, rivals, ..Row::default() })
    }

    #[test]
    fn rival_when_most_of_the_time_is_of_nobody_has_no_more_than_its_part() {
        let text = rivals(&[(None, 9_000_000), (Some("make"), 600_000), (Some("sh"), 400_000)]);
        assert_eq!(text, ", which make (7) had for 600.000 µs of that time");
        let same = [("make", 7, 400_000), ("cc", 8, 500_000), ("make", 9, 300_000)];
        let label = |process: &str, pid| Label {
            process: process.into(),
            pid: Some(pid),
            ..Label::default()
        };
        let same = same.map(|(who, pid, nanos)| (Some(label(who, pid)), nanos));
        let row = Row { woken: 10_000_000, rivals: same.into(), ..Row::default() };
        assert_eq!(rival_text(&row), ", which make ×2 had for 700.000 µs of that time");
        assert_eq!(rivals(&[(None, 10_000_000)]), "");
        assert_eq!(rivals(&[]), "");
    }
}
