//! The command `strata sql`: queries traces in SQL.
//!
//! ```text
//! query on the command line, or lines of stdin, or the prompt ─▶ Session::query ─▶ Database (strata_sql) ─▶ rows ─▶ format
//!                                                   .tables, .schema ─▶ schema.rs                         rows.rs, format.rs
//! ```
//!
//! - `prompt` reads lines on a terminal, with a history and completion. There, Ctrl-C ends the query and not the
//!   program; all other signals end the program, after the terminal was restored.
//! - `rows` and `format` print rows as a table, JSON or CSV while the query runs. A query that is stopped has printed
//!   rows.
//! - Values of `--set NAME=VALUE` are parameters of the query, so that a script need not quote them.
//!
//! A query can only read: `strata_sql` refuses statements that write. What rows do not show, damage and discarded
//! records, is reported after the rows.
//!
//! Exit status: 0, 2 after an error or damage, and that of a signal.
//!
//! One thread reads lines and prints rows; the scan of packets has a thread of its own in `strata_sql`, which
//! stops when a query is stopped. An error of SQL ends a command line, and a prompt goes on after it.

mod format;
mod prompt;
mod rows;
mod schema;

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufWriter, IsTerminal as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use clap::{Args, ValueEnum as _};
use strata_ctf::read::Reader;
use strata_session::stop::Stop;
use strata_sql::{
    ends_statement, CounterRule, Database, Found, Options, PairRule, Parameters, SourceOptions,
    SqlError, StopCheck,
};

use crate::exit_status::STOP_PATIENCE;
use crate::reading::incomplete_traces;
use crate::reading::traces::TracesFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, counted};
use format::SqlFormat;
use prompt::{Names, Prompt};
use rows::Rows;

const EXIT_STATUS: &str = "\
Exit status:
  0  done, with rows or without
  2  the query is wrong, a trace is damaged (all that is intact is
     read), or nothing can be read
  130  ended by Ctrl-C";

const TABLES: &str = "\
Tables:
  events        every event record: time_ns, trace, cpu, pid, process,
                tid, thread, name, fields (JSON), context (JSON)
  EVENT         the records of one event, such as sched_switch or
                \"myapp:request\", with a column for each of its fields
  event_counts  how many records of each event there are
  calls, states, spans, wakeups, locks, samples, stacks, threads,
  processes, files, gaps and the tables of `strata export --to sqlite`:
                what the timeline tells. The first query that names one
                reads all of the traces.
  .tables lists all, '.schema TABLE' the columns of one.
Functions, besides SQLite's:
  percentile(VALUE, PERCENT), median(VALUE), bucket(VALUE),
  histogram(VALUE), overlap(BEGIN, END, BEGIN, END),
  at(TIME, BEGIN, END), symbol(ADDRESS, PID),
  span_join(LEFT, RIGHT, COLUMN), which is a table
";

/// The flags of `strata sql`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{TABLES}\n{EXIT_STATUS}"))]
#[command(override_usage = "strata sql [OPTIONS] TRACE... ['QUERY']")]
pub struct SqlFlags {
    #[command(flatten)]
    traces: TracesFlags,

    /// Print rows in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: SqlFormat,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// The query, where it is one word or the name of a file, too
    #[arg(short, long, value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,

    /// Give the query's parameter :NAME this value: a number, or a text; between single quotes always a text
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_parameter, allow_hyphen_values = true)]
    set: Vec<(String, String)>,

    /// Also show what is between event BEGIN and event END as a span, in the table spans
    #[arg(long = "pair", value_name = "BEGIN=END[:KEYFIELD]")]
    pairs: Vec<PairRule>,

    /// Show the values of a numeric field, such as 'myapp:queue.length', in the table counter; '*' is any text
    #[arg(long = "counter", value_name = "[EVENT.]FIELD")]
    counters: Vec<CounterRule>,

    /// Open no file that the trace names: functions of programs have no names
    #[arg(long)]
    no_symbols: bool,

    /// Show names of C++ and Rust as compilers have made them
    #[arg(long)]
    mangled: bool,
}

/// Marks a query that begins with a comment, as those of the guide do, as a value: `--` with a space behind it is no flag.
#[must_use]
pub fn queries_as_values(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|command| command == "sql") {
        for word in words.iter_mut().skip(2) {
            let text = word.to_str().and_then(|text| text.strip_prefix("--"));
            if text.is_some_and(|text| text.starts_with(char::is_whitespace)) {
                let mut value = OsString::from("\n");
                value.push(&*word);
                *word = value;
            }
        }
    }
    words
}

fn parse_parameter(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = split.ok_or("write NAME=VALUE, as in --set name=openat")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs `strata sql`, and returns the exit status.
pub fn run(mut flags: SqlFlags) -> Result<u8> {
    let query = match flags.query.take() {
        Some(query) => Some(query),
        None => flags.traces.take_query(&[".tables", ".schema"]),
    };
    if flags.traces.is_empty() {
        bail!("sql: no trace is named. Use strata sql TRACE 'QUERY'");
    }
    // The prompt is made first, because it handles Ctrl-C as well, and the handler that is installed last is called.
    let prompt = match query.is_none() && io::stdin().is_terminal() {
        true => Some(Prompt::new()?),
        false => None,
    };
    let stop = Stop::on_signals().context("sql: cannot handle signals")?;
    let heeded = Arc::new(AtomicUsize::new(0));
    match prompt.is_some() {
        true => end_by_others(&stop).context("sql: cannot handle signals")?,
        false => stop.end_after(STOP_PATIENCE).context("sql: cannot handle signals")?,
    }
    let reader = Reader::open(&flags.traces.paths()?)?;
    incomplete_traces::messages(&reader).iter().for_each(stderr::message);
    let (asked, before) = (stop.clone(), Arc::clone(&heeded));
    let check: StopCheck = Arc::new(move || asked.requests() > before.load(Ordering::Relaxed));
    let names = SourceOptions {
        no_symbols: flags.no_symbols,
        mangled: flags.mangled,
        ..SourceOptions::default()
    };
    let (pairs, counters) = (flags.pairs, flags.counters);
    let options = Options { names, pairs, counters, ..Options::default() };
    let mut database = Database::with_options(reader, options, check)?;
    let parameters = Parameters::from_texts(&flags.set);
    database.set_parameters(
        parameters.map_err(|error| anyhow!("sql: --set: {}", clean(&error.to_string())))?,
    );
    let format = if flags.json { SqlFormat::Json } else { flags.format };
    let mut session = Session { database: &mut database, format };
    if let Some(prompt) = prompt {
        let names = Names::new(session.database.tables()?);
        stderr::line("A query ends with a semicolon. .tables lists the tables, .help all words; Ctrl-D ends.");
        prompt.run(names, |text| {
            if let Err(error) = session.query(text) {
                let is_stopped = matches!(error.downcast_ref(), Some(SqlError::Stopped));
                stderr::failure(&if is_stopped { "stopped".to_owned() } else { error.to_string() });
            }
            heeded.store(stop.requests(), Ordering::Relaxed);
        })?;
        return Ok(say(&database.found(), database.reader()));
    }
    let done = match query {
        Some(query) => session.query(&query),
        None => session.lines(),
    };
    let is_stopped =
        done.as_ref().is_err_and(|error| matches!(error.downcast_ref(), Some(SqlError::Stopped)));
    if is_stopped || stop.requests() > 0 {
        return Ok(crate::exit_status::stopped(&stop));
    }
    done?;
    Ok(say(&database.found(), database.reader()))
}

/// Ends this program on any signal except that of Ctrl-C, which ends a query of the prompt. Restores the terminal
/// before.
fn end_by_others(stop: &Stop) -> io::Result<()> {
    let terminal = rustix::termios::tcgetattr(io::stdin())?;
    let stop = stop.clone();
    let watch = move || loop {
        stop.wait(None);
        let signal = stop.signal();
        if signal.is_some_and(|signal| signal != INTERRUPT) {
            let when = rustix::termios::OptionalActions::Now;
            // If the terminal is gone, there is nothing to restore.
            let _ = rustix::termios::tcsetattr(io::stdin(), when, &terminal);
            std::process::exit(crate::exit_status::stopped_by(signal).into());
        }
    };
    std::thread::Builder::new().name("stop".to_owned()).spawn(watch).map(drop)
}

/// The text of `.help`.
const HELP: &str = "\
.tables            list the tables: one for each event, and those that are
                   derived from all events, such as calls and states
.schema [TABLE]    list the columns of a table, or of all
.format [FORMAT]   print rows as table, csv or json from now on
.quit              end; so does Ctrl-D
A query ends with a semicolon, and may have many lines. Ctrl-C ends a query
that runs, or clears what is typed. Tab completes names and keywords, and the
arrows show earlier queries. Functions and tables: strata sql --help
";

/// Number of the signal of Ctrl-C.
const INTERRUPT: i32 = rustix::process::Signal::INT.as_raw();

/// Queries a database, and prints rows in one format.
struct Session<'s> {
    database: &'s mut Database,
    format: SqlFormat,
}

impl Session<'_> {
    /// Answers a query, or runs a command that begins with a dot.
    fn query(&mut self, text: &str) -> Result<()> {
        let text = text.trim();
        if let Some(word) = text.strip_prefix('.') {
            return self.word(word);
        }
        let mut out = BufWriter::with_capacity(64 << 10, stdout::raw());
        let mut rows = Rows::new(&mut out, self.format, stdout::is_terminal());
        if stdout::is_terminal() {
            rows.fit(stdout::terminal_columns());
        }
        self.database.set_remark(Box::new(|text| stderr::warn(text.to_owned())));
        match self.database.query(text, &mut rows) {
            Err(SqlError::Output(error)) => Err(error).context("sql: cannot write to stdout"),
            Err(SqlError::Stopped) => Err(SqlError::Stopped.into()),
            Err(error) => bail!("sql: {}", clean(&error.to_string())),
            Ok(()) => Ok(()),
        }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        let mut words = word.split_whitespace();
        let text = match words.next() {
            Some("tables") if stdout::is_terminal() => {
                let names = schema::tables(&self.database.tables()?);
                schema::in_columns(&names, stdout::terminal_columns().unwrap_or(80))
            }
            Some("tables") => schema::tables(&self.database.tables()?),
            Some("schema") => schema::columns(&self.database.tables()?, words.next())?,
            Some("format") => return self.set_format(words.next()),
            Some("help") => HELP.to_owned(),
            other => bail!(
                "sql: '.{}' is no word. Use .tables, .schema TABLE, .format FORMAT or .help",
                clean(other.unwrap_or_default())
            ),
        };
        stdout::text("sql", &text)
    }

    /// Sets the format of the rows that follow. Without a name, prints the present one.
    fn set_format(&mut self, name: Option<&str>) -> Result<()> {
        let Some(name) = name else {
            let present = self.format.to_possible_value();
            let present = present.map(|value| format!("{}\n", value.get_name()));
            return stdout::text("sql", &present.unwrap_or_default());
        };
        let found = SqlFormat::from_str(name, true);
        self.format = found
            .map_err(|_| anyhow!("sql: '{}' is no format. Use table, csv or json", clean(name)))?;
        Ok(())
    }

    /// Runs statements from stdin, each of which ends with a semicolon.
    fn lines(&mut self) -> Result<()> {
        let mut text = String::new();
        for line in io::stdin().lock().lines() {
            let line = line.context("sql: cannot read stdin")?;
            if text.trim().is_empty() && line.trim_start().starts_with('.') {
                self.query(&line)?;
                continue;
            }
            text.push_str(&line);
            text.push('\n');
            if ends_statement(&text) {
                self.query(&text)?;
                text.clear();
            }
        }
        match text.trim().is_empty() {
            true => Ok(()),
            false => self.query(&text),
        }
    }
}

/// Reports problems that the rows do not show. Returns the exit status.
fn say(found: &Found, reader: &Reader) -> u8 {
    for text in &found.damage {
        stderr::message(&Message { weight: Weight::Failure, text: clean(text) });
    }
    let of_opening =
        reader.damage().iter().filter(|damage| !damage.is_note() && !damage.is_remark());
    let of_opening: Vec<_> = of_opening.collect();
    for damage in &of_opening {
        stderr::message(&Message { weight: Weight::Failure, text: clean(&damage.to_string()) });
    }
    let more = found.damages.saturating_sub(found.damage.len() as u64);
    if more > 0 {
        stderr::failure(&counted(more, "other damage"));
    }
    for (number, of) in [(found.records, "event record"), (found.packets, "packet")] {
        if number > 0 {
            let text = format!(
                "{} discarded by the tracer in what was read: counts and sums are too low there. The table 'gaps' says when",
                counted(number, of)
            );
            stderr::message(&Message { weight: Weight::Warning, text });
        }
    }
    for text in &found.left_out {
        stderr::message(&Message { weight: Weight::Warning, text: clean(text) });
    }
    if found.damages > 0 || !of_opening.is_empty() {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_begins_with_a_comment_is_a_value() {
        let values = |words: &[&str]| {
            let words = words.iter().map(OsString::from).collect();
            let values = queries_as_values(words).into_iter();
            values.map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        let query = "-- How many?\nselect 1";
        let wanted = ["strata", "sql", "t", "\n-- How many?\nselect 1"];
        assert_eq!(values(&["strata", "sql", "t", query]), wanted);
        for words in [
            &["strata", "sql", "--json", "t", "--", "select 1 -- one"][..],
            &["strata", "view", "t", query],
            &["strata"],
        ] {
            assert_eq!(values(words), words);
        }
    }
}
