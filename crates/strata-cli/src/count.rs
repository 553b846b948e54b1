//! The command `strata count`: counts events in the kernel, and shows the table while it counts and at the end.
//!
//! ```text
//! flags ── CountSpec: keys, value ─┐
//!      └── Options: rules, pids ───┴─ strata_session::count() ── Counts, each period ── Layout (table.rs) ── Screen
//!          the BPF programs add to a map; nothing is written to a ring or a trace          (screen.rs)
//! ```
//!
//! [`run`] hands two callbacks to [`count`], which runs in the same thread until the command ends, the time is over
//! or a signal comes: one hears notices, such as a rule without events, the other shows the counts that were read. If
//! stdout is closed, the second one asks to stop.
//!
//! A table that is redrawn has the terminal to itself, and so has a traced command: messages about the begin are left
//! out then. What the table lacks (rows beyond `--max-rows`, events during which another program ran on that CPU) is
//! reported at the end, and with `--strict` is exit status 1.
//!
//! ```text
//! $ strata count -k syscalls --by procname,name --hist duration -- ./app
//! ```
//!
//! A table of counts is a report (`table.rs`): the renderer of all reports makes text and JSON of it, with the
//! same columns.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{bail, Result};
use clap::{Args, ValueHint};
use strata_analyze::duration_text::parse_duration;
use strata_filter::Filter;
use strata_session::count::{count, CountEnd, CountRequest, Counts};
use strata_session::kernel_count::{CountSpec, KEYS_MAX};
use strata_session::options::{KernelOptions, Options};
use strata_session::report::{CommandEnd, EndReason, Notice};
use strata_session::some_are_there;
use strata_session::stop::Stop;

use crate::analyze::report_command::{Format, ROWS};
use crate::flags::processes::{found, parse_process, AskedProcess};
use crate::flags::rules::parse_kernel_rules;
use crate::reading::selection::parse_filter;
use crate::stderr;
use crate::stderr::messages::{self, Message, Weight};
use crate::stdout;
use crate::units::{counted, parse_slower};
use table::{Layout, Titles};

pub mod screen;
mod table;

/// Number of rows for which the kernel reserves memory, unless the user asks for another one.
const ROWS_MAX: u32 = 4096;
/// Period of the table on a terminal.
const PERIOD: Duration = Duration::from_secs(1);

const EXIT_STATUS: &str = "\
Exit status:
  With a command, the command's own. Where that is 0, or there is no
  command:
  0  done
  1  nothing was counted, or a rule matched nothing; with --strict also:
     an event is in no row, or the kernel refused an event
  2  counting failed, or the rules select no event";

const KEYS: &str = "\
Keys (--by), four at most:
  name       of the event; of a system call, of the call
  pid, tid, procname, uid, gid, cgroup, cpu
             of the thread in which the event happens
  FIELD      of the event, a number or a text of up to 16 bytes, as
             `strata list -k EVENT` names it: fd, ret, next_comm. Events
             that do not have it are in a row of their own
Values (--sum, --hist):
  duration   of a system call, from its entry to its exit
  FIELD      a number. Events that do not have it are not counted
  A system call is counted at its entry. Where a key, a value or the
  filter needs its exit (duration, ret), it is counted when it returns:
  calls that do not return, such as exit_group, are then in no row.
";

/// `strata count`.
#[derive(Debug, Args)]
#[command(override_usage = "strata count [OPTIONS] [-- COMMAND [ARGUMENT]...]")]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{KEYS}\n{EXIT_STATUS}"))]
pub struct CountFlags {
    /// Count events of the kernel, such as 'syscalls' or 'sched_*,irq_*', as `strata record -k` does
    #[arg(short, long = "kernel", value_name = "RULES", value_parser = parse_kernel_rules, required_unless_present = "probe")]
    kernel: Vec<String>,

    /// Count calls of a function or hits of a USDT probe, such as 'uprobe:./server:handle(n:u64)'
    #[arg(long, value_name = "PROBE")]
    probe: Vec<String>,

    /// Count by these keys, four at most, such as 'procname,name' [default: name]
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    by: Vec<String>,

    /// Add up this field, or 'duration' of system calls: sum, mean, least and greatest value
    #[arg(long, value_name = "FIELD", conflicts_with = "hist")]
    sum: Option<String>,

    /// The same, with a histogram by powers of two
    #[arg(long, value_name = "FIELD")]
    hist: Option<String>,

    /// Count only events that EXPRESSION selects, such as 'ret < 0'
    #[arg(short, long, value_name = "EXPRESSION", value_parser = parse_filter)]
    filter: Option<Filter>,

    /// Count a system call only if it takes at least TIME, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = parse_slower)]
    slower: Option<u64>,

    /// Count of the running process PID, or of all processes of this NAME
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',', conflicts_with = "command",
        value_parser = parse_process)]
    pid: Vec<AskedProcess>,

    /// Count of all processes [default without COMMAND and --pid]
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,

    /// Stop after this time, such as 500ms, 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Show the table every TIME [default: 1s on a terminal without COMMAND, else at the end only]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    period: Option<Duration>,

    /// Only the first N rows [default: 20 in text, all otherwise]
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,

    /// Number of rows that the kernel has room for; events of further rows are counted together [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    max_rows: Option<u32>,

    /// Layout: a table for people, one JSON object, or rows of comma-separated values
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Exit with 1 if an event is in no row, or the kernel refused an event
    #[arg(long)]
    strict: bool,

    /// Print the table and errors only
    #[arg(short, long)]
    quiet: bool,

    /// The command to run, counted with all its descendants from their first event
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl CountFlags {
    fn format(&self) -> Format {
        match self.json {
            true => Format::Json,
            false => self.format,
        }
    }

    /// Returns the number of rows that are shown; `None` for all.
    fn top(&self) -> Option<NonZeroUsize> {
        self.top.or(NonZeroUsize::new(ROWS).filter(|_| self.format() == Format::Text))
    }

    fn rows_max(&self) -> u32 {
        self.max_rows.unwrap_or(ROWS_MAX)
    }

    /// # Errors
    /// A key or value is no name of a field, or there are too many keys.
    fn spec(&self) -> Result<CountSpec> {
        let operand = |text: &str| match CountSpec::operand(text) {
            Ok(operand) => Ok((text.to_owned(), operand)),
            Err(error) => bail!("'{text}' is no name of a field: {error}"),
        };
        let by: Vec<&str> = match self.by.is_empty() {
            true => vec!["name"],
            false => self.by.iter().map(String::as_str).collect(),
        };
        if by.len() > KEYS_MAX {
            bail!("--by has {} keys, limit {KEYS_MAX}. Count by fewer keys", by.len());
        }
        Ok(CountSpec {
            keys: by.into_iter().map(operand).collect::<Result<_>>()?,
            value: self.hist.as_deref().or(self.sum.as_deref()).map(operand).transpose()?,
            spread: self.hist.is_some(),
            rows_max: self.rows_max(),
        })
    }

    fn options(&self, pids: Vec<u32>) -> Options {
        let kernel = KernelOptions {
            rules: self.kernel.clone(),
            probes: self.probe.clone(),
            filter: self.filter.clone(),
            slower: self.slower,
            ..KernelOptions::default()
        };
        Options {
            kernel: Some(kernel),
            pids,
            everyone: self.all,
            duration: self.duration,
            command: self.command.clone(),
            ..Options::default()
        }
    }

    /// Returns the period in which the table is shown while it is counted.
    fn shown_every(&self) -> Option<Duration> {
        let is_watched = stdout::is_terminal() && self.format() == Format::Text;
        self.period.or((is_watched && self.command.is_empty()).then_some(PERIOD))
    }
}

/// Runs `strata count`. Returns the exit status.
pub fn run(flags: &CountFlags) -> Result<u8> {
    let spec = flags.spec()?;
    let processes = found(&flags.pid)?;
    some_are_there(&processes.iter().map(|(_, pid)| *pid).collect::<Vec<_>>())?;
    if let Some(text) = messages::found_by_name(&processes).filter(|_| !flags.quiet) {
        stderr::message(&Message { weight: Weight::Talk, text });
    }
    let options = flags.options(processes.into_iter().map(|(_, pid)| pid).collect());
    let stop = Stop::on_signals()?;
    stop.outlive_others()?;
    let layout = Layout { titles: Titles::of(&spec), rows_max: flags.rows_max() };
    let period = flags.shown_every();
    let mut screen = screen::Screen::new(flags.format(), period.is_some());
    let mut shown = Ok(());
    let mut is_unmatched = false;
    let says_begin = !flags.quiet && !screen.is_drawn() && flags.command.is_empty();
    let mut hear = |notice: Notice| {
        is_unmatched |= matches!(notice, Notice::NoSuchEvent(_));
        let weight = match notice {
            Notice::NoSuchEvent(_) => Weight::Warning,
            Notice::WaitingForCommand { .. } if !flags.quiet => Weight::Talk,
            // A table that is redrawn, and a command, have the terminal to themselves.
            Notice::Counting if says_begin => Weight::Talk,
            _ => return,
        };
        if let Some(text) = messages::notice(&notice) {
            stderr::message(&Message { weight, text });
        }
    };
    let mut show = |counts: &Counts| {
        // A reader that has gone ends the count.
        if shown.is_ok() {
            shown = screen.show(&layout.document_now(counts, flags.top()));
            if shown.is_err() {
                stop.request(0);
            }
        }
    };
    let request = CountRequest { options: &options, spec: &spec, period, stop: &stop };
    let end = count(&request, &mut hear, &mut show)?;
    shown?;
    screen.end(&layout.document(&end.counts, flags.top()))?;
    for message in said(&end, flags) {
        stderr::message(&message);
    }
    Ok(exit_status(&end, flags.strict, is_unmatched))
}

/// Returns messages about events that are not in the table.
fn said(end: &CountEnd, flags: &CountFlags) -> Vec<Message> {
    let mut all = Vec::new();
    let mut warn = |text| all.push(Message { weight: Weight::Warning, text });
    if end.counts.full > 0 {
        warn(format!(
            "{} in no row: the kernel has room for {} rows. Use --max-rows {}, or count by fewer keys",
            counted(end.counts.full, "event"),
            flags.rows_max(),
            u64::from(flags.rows_max()) * 4
        ));
    }
    if end.counts.uncounted > 0 {
        warn(format!(
            "{} not counted: another program was running on that CPU",
            counted(end.counts.uncounted, "event")
        ));
    }
    if end.counts.undecided > 0 {
        warn(format!(
            "{} counted as returns: where they go is in memory that could not be read, which may be within their function",
            counted(end.counts.undecided, "jump")
        ));
    }
    for problem in &end.problems {
        warn(format!("event {}: not counted: {}", problem.event, problem.reason));
    }
    for absent in &end.absent {
        warn(absent.reason.clone());
    }
    all
}

fn exit_status(end: &CountEnd, strict: bool, is_unmatched: bool) -> u8 {
    match (end.command, end.end) {
        (Some(CommandEnd::Exited(status)), _) if status != 0 => return status.to_le_bytes()[0],
        (Some(CommandEnd::Signalled(signal)), _) => {
            return u8::try_from(128 + signal).unwrap_or(u8::MAX);
        }
        (Some(CommandEnd::Running { .. }), EndReason::Asked(Some(signal))) => {
            return u8::try_from(128 + signal).unwrap_or(u8::MAX);
        }
        (_, EndReason::Failure) => return 2,
        _ => {}
    }
    let Counts { rows, full, uncounted, undecided, .. } = &end.counts;
    let lacks = *full > 0 || *uncounted > 0 || *undecided > 0 || !end.problems.is_empty();
    u8::from(rows.is_empty() || is_unmatched || strict && lacks)
}
