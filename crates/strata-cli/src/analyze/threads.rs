//! `strata analyze threads`.

use std::fmt::Write as _;

use anyhow::{bail, Result};
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::threads::{
    Delay, Device, Row, Stall, ThreadCounter, ThreadsReport, Wait, Why,
};
use strata_analyze::reports::Times;
use strata_analyze::stats::time_of_day;
use strata_ctf::read::Reader;
use strata_session::stop::Stop;

use super::common::{CommonFlags, Made, NamesFlags, EXIT_STATUS};
use super::hidden;
use super::rows::{
    by, document, figures, histogram_of, keys, length, more, name, put_rows, put_sums, section,
    subject,
};
use super::whose::{MineFlags, Whose, BY_OF};
use crate::reading::selection::{refused, TIMES};
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, HEAD};
use crate::talk::units::{clean, count, counted};

/// Waits, and threads that had the CPU, of one row in a text.
const BELOW: usize = 3;
pub const DELAYS_MAX: usize = 100_000;

const STATES: &str = "\
States:
  running     it had a CPU
  runnable    it wanted one: after a wait, or since another thread had
              taken it
  blocked     it waited for something else
  unknown     the trace does not say: before the first record that
              tells, and around discarded records

Stacks (--by stack):
  A row is a call stack with which threads left their CPUs to wait, as
  in `strata analyze flame --by offcpu`: how often, for how long, who,
  and in what. To record them, with the calls that they were in:
  strata record --stack -k sched_switch,sched_waking,syscalls
";

/// `strata analyze threads`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{STATES}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct ThreadsFlags {
    #[command(flatten)]
    pub common: CommonFlags,

    /// A row for each thread, for each process, or for each call stack with which threads were blocked
    #[arg(long, value_enum, default_value_t)]
    pub by: ByFlag,

    /// Only threads of this name or number, and those of processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// Show the N longest times that a thread wanted a CPU, with --by stack that it was blocked
    #[arg(long, value_name = "N", default_value_t = 5)]
    delays: usize,

    #[command(flatten)]
    pub names: NamesFlags,
}

impl ThreadsFlags {
    /// Whose are shown.
    pub fn whose(&self, reader: &Reader, stop: &Stop) -> Result<Whose<'_>> {
        Whose::read(self.of.as_deref(), &self.mine, reader, ("threads", BY_OF), stop)
    }

    /// How many of them are shown.
    pub fn shown(&self) -> usize {
        self.delays
    }

    /// A report of states selects no records.
    pub fn refuse_filter(&self) -> Result<()> {
        let instead = "--of NAME|NUMBER, which selects threads";
        self.common.refuse_filter("threads", "a thread's states are none", instead)
    }
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ByFlag {
    /// Each thread
    #[default]
    Thread,
    /// All threads of a process together
    Process,
    /// The call stack with which threads were blocked
    Stack,
}

/// Do it, and give the exit status.
pub fn run(flags: &ThreadsFlags, stop: &Stop) -> Result<u8> {
    flags.refuse_filter()?;
    if flags.names.is_any() {
        bail!("analyze threads: names of functions are asked for, and there is no stack. Use --by stack");
    }
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose(&reader, stop)?;
    let mut counter =
        ThreadCounter::with_guests(&reader, range, whose.kept(flags.delays, DELAYS_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    hidden::say(&made);
    let world = made.passed.timeline.world();
    let mut report = counter.finish(world, flags.by == ByFlag::Process);
    if whose.is_any() {
        let wanted = whose.of(world);
        report.rows.retain(|row| wanted.has(&row.label));
        report.delays.retain(|delay| wanted.has(&delay.label));
        report.stalls.retain(|stall| wanted.has(&stall.label));
    }
    report.delays.truncate(flags.delays);
    // Of some, nothing says which CPU they were for: those are not shown one by one.
    if report.is_cut {
        let all = report.rows.iter().map(|row| row.delays.count).fold(0, u64::saturating_add);
        whose.say_fewer(report.delays.len(), flags.delays, DELAYS_MAX, all, "longest delays");
    }
    flags.common.show(|| json(&report, &made, flags), || text(&report, &made, flags))?;
    let is_empty = report.rows.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no thread fits what was asked for",
        "the trace does not say who ran. Record that: strata record -k sched_switch,sched_waking",
    ))
}

/// All that is known of a row's time, and what is not.
pub fn whole(row: &Row) -> u64 {
    let states = [row.running, row.runnable(), row.blocked, row.unknown];
    states.into_iter().fold(0, u64::saturating_add)
}

/// `futex 0x5581, by holder (12) writer/14`: what a thread waited for.
pub fn wait_text(wait: &Wait) -> String {
    let mut text = match wait.call.is_empty() {
        false => wait.call.clone(),
        true if wait.sleep.is_empty() => "some reason".to_owned(),
        true => format!("no system call: {}", wait.sleep),
    };
    if !wait.object.is_empty() {
        let _ = write!(text, " of {}", wait.object);
    }
    match &wait.woken_by {
        Some((label, _)) => {
            let perhaps = if wait.is_sure { "" } else { "perhaps " };
            let _ = write!(text, ", {perhaps}woken by {}", name(label));
        }
        None if wait.ended_by.is_empty() => {}
        None => {
            let _ = write!(text, ", ended by {}", what_text(wait.ended_by, wait.device.as_ref()));
        }
    }
    clean(&text)
}

/// `device 36 (nvme0q1)`: what ended a wait, if it was no thread.
pub fn what_text(ended_by: &str, device: Option<&Device>) -> String {
    match device {
        None => ended_by.to_owned(),
        Some(Device { number, name }) if name.is_empty() => format!("{ended_by} {number}"),
        Some(Device { number, name }) => clean(&format!("{ended_by} {number} ({name})")),
    }
}

/// A device as an object.
pub fn device_json(device: Option<&Device>) -> Value {
    device.map_or(Value::Null, |device| {
        let name = Some(&device.name).filter(|name| !name.is_empty());
        json!({ "number": device.number, "name": name })
    })
}

/// A wait as an object.
pub fn wait_json(wait: &Wait) -> Value {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    json!({
        "call": text(&wait.call),
        "object": text(&wait.object),
        "sleep": text(wait.sleep),
        "ended_by": text(wait.ended_by),
        "device": device_json(wait.device.as_ref()),
        "woken_by": wait.woken_by.as_ref().map(|(label, _)| Value::Object(keys(label))),
        "woken_by_is_sure": wait.woken_by.as_ref().map(|_| wait.is_sure),
        "count": wait.count,
        "total_ns": wait.total,
        "max_ns": wait.max,
    })
}

/// How its times without a CPU were spread; null: it had none, or there was no room for them.
fn delay_json(delays: &Times) -> Value {
    match delays.count {
        0 => Value::Null,
        _ => Value::Object(figures(delays)),
    }
}

fn json(report: &ThreadsReport, made: &Made, flags: &ThreadsFlags) -> String {
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        let rivals = row.rivals.iter().map(|(label, nanos)| {
            let mut map = label.as_ref().map(keys).unwrap_or_default();
            map.insert("total_ns".into(), json!(nanos));
            Value::Object(map)
        });
        put_sums(&mut map, subject(&row.label), row.runs, Some(whole(row)));
        for (key, value) in [
            ("running_ns", json!(row.running)),
            ("runnable_ns", json!(row.runnable())),
            ("woken_ns", json!(row.woken)),
            ("preempted_ns", json!(row.preempted)),
            ("blocked_ns", json!(row.blocked)),
            ("unknown_ns", json!(row.unknown)),
            ("runs", json!(row.runs)),
            ("max_delay_ns", json!(row.delay)),
            ("delay", delay_json(&row.delays)),
            ("waits", row.waits.iter().map(wait_json).collect()),
            ("had_cpu", rivals.collect()),
        ] {
            map.insert(key.into(), value);
        }
        Value::Object(map)
    };
    let delay = |delay: &Delay| {
        let mut map = keys(&delay.label);
        map.insert("time_ns".into(), json!(delay.from));
        map.insert("duration_ns".into(), json!(delay.nanos));
        map.insert("cpu".into(), json!(delay.cpu));
        Value::Object(map)
    };
    let mut object = made.object("threads");
    object.insert("hidden_threads".into(), hidden::json(made));
    object.insert("by".into(), by(&flags.by));
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("delays".into(), report.delays.iter().map(delay).collect());
    object.insert("virtual_cpus".into(), report.stalls.iter().map(stall_json).collect());
    if !report.stalls.is_empty() {
        object.insert("clock_uncertainty_ns".into(), json!(report.uncertainty));
    }
    document(object)
}

/// `preempted by make (12)`: why a virtual CPU did not run.
fn why_text(why: &Why) -> String {
    match why {
        Why::Preempted(Some(label)) => format!("preempted by {}", name(label)),
        Why::Preempted(None) => "wanted a CPU; who had it is not known".to_owned(),
        Why::Waited(Some(call)) => clean(&format!("waited in {call}")),
        Why::Waited(None) => "waited".to_owned(),
    }
}

fn stall_json(stall: &Stall) -> Value {
    let mut map = keys(&stall.label);
    let (why, by, call) = match &stall.why {
        Why::Preempted(by) => ("preempted", by.as_ref().map(keys).map(Value::Object), None),
        Why::Waited(call) => ("waited", None, call.clone()),
    };
    for (key, value) in [
        ("why", json!(why)),
        ("by", json!(by)),
        ("call", json!(call)),
        ("virtual_cpu", Value::Object(keys(&stall.virtual_cpu))),
        ("count", json!(stall.count)),
        ("total_ns", json!(stall.total)),
        ("max_ns", json!(stall.max)),
        ("max_time_ns", json!(stall.at)),
    ] {
        map.insert(key.into(), value);
    }
    Value::Object(map)
}

/// What guests could not see.
fn put_stalls(out: &mut String, report: &ThreadsReport, rows: usize) {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("thread of a guest", left),
        ("not run", right),
        ("count", right),
        ("longest", right),
        ("its virtual CPU", left),
        ("on the host", left),
    ]);
    for stall in report.stalls.iter().take(rows) {
        table.row([
            name(&stall.label).into(),
            length(stall.total).into(),
            count(stall.count).into(),
            length(stall.max).into(),
            name(&stall.virtual_cpu).into(),
            why_text(&stall.why).into(),
        ]);
    }
    let title = format!(
        "Whose virtual CPU did not run on its host, by clocks that are known to {}",
        length(report.uncertainty)
    );
    section(out, &title, &table);
    more(out, report.stalls.len(), rows);
}

fn text(report: &ThreadsReport, made: &Made, flags: &ThreadsFlags) -> String {
    let mut out = String::new();
    let what = if flags.by == ByFlag::Process { "process" } else { "thread" };
    let _ = writeln!(
        out,
        "{HEAD}{} in {}{HEAD:#}\n",
        counted(report.rows.len() as u64, what),
        length(made.nanos())
    );
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        (what, left),
        ("running", right),
        ("runnable", right),
        ("p99", right),
        ("longest", right),
        ("blocked", right),
        ("unknown", right),
        ("runs", right),
    ]);
    let rows = flags.common.rows();
    let shown = || report.rows.iter().take(rows);
    let some = |nanos| if nanos > 0 { length(nanos) } else { String::new() };
    for row in shown() {
        table.row([
            name(&row.label).into(),
            some(row.running).into(),
            some(row.runnable()).into(),
            some(row.delays.quantile(0.99)).into(),
            some(row.delay).into(),
            some(row.blocked).into(),
            some(row.unknown).into(),
            count(row.runs).into(),
        ]);
    }
    table.write(&mut out);
    more(&mut out, report.rows.len(), rows);
    let mut waits = Table::new(&[
        (what, left),
        ("blocked", right),
        ("count", right),
        ("longest", right),
        ("in", left),
    ]);
    let mut rivals =
        Table::new(&[(what, left), ("runnable", right), ("meanwhile had its CPU", left)]);
    for row in shown() {
        for wait in row.waits.iter().take(BELOW) {
            waits.row([
                name(&row.label).into(),
                length(wait.total).into(),
                count(wait.count).into(),
                length(wait.max).into(),
                wait_text(wait).into(),
            ]);
        }
        for (label, nanos) in row.rivals.iter().take(BELOW) {
            let who = label.as_ref().map_or("nobody, or not known".to_owned(), name);
            rivals.row([name(&row.label).into(), length(*nanos).into(), who.into()]);
        }
    }
    section(&mut out, "What they were blocked in", &waits);
    section(&mut out, "Who had the CPU that they wanted", &rivals);
    let mut delays = Times::default();
    report.rows.iter().for_each(|row| delays.merge(&row.delays));
    if delays.count > 0 {
        let title = "How long they wanted a CPU";
        histogram_of(&mut out, title, &delays.spread, "times", !is_utf8());
    }
    put_stalls(&mut out, report, rows);
    if !report.delays.is_empty() {
        let mut delays =
            Table::new(&[("from", left), ("runnable", right), ("thread", left), ("CPU", right)]);
        for delay in &report.delays {
            delays.row([
                time_of_day(delay.from, flags.common.selection.zone()).into(),
                length(delay.nanos).into(),
                name(&delay.label).into(),
                delay.cpu.to_string().into(),
            ]);
        }
        section(&mut out, "The longest delays", &delays);
    }
    out
}
