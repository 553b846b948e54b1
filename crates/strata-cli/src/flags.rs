//! The command line: one definition for parsing, help, completions and man pages.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use strata_session::options::{Mode, Options};
use strata_session::{RuleError, Rules};

use crate::export::ExportFlags;
use crate::stats::StatsFlags;
use crate::units::{parse_size, parse_time};
use crate::view::ViewFlags;

const EXIT_STATUS: &str = "\
Exit status:
  With a command, the command's own (128+N if signal N ended it, 127 if it is not found, 126 if it
  cannot be run). Where that is 0, or there is no command:
  0  done
  1  nothing was recorded, a rule matched nothing, a program was not reached, or records were
     discarded and --strict was given
  2  the recording failed";

const RULES: &str = "\
Rules:
  PROVIDER:EVENT, each with '*' for any text; '!' in front excludes; '@LEVEL' behind selects that
  log level and worse ones, '@=LEVEL' that one only. Levels: emerg, alert, crit, err, warning,
  notice, info, debug_system, debug_program, debug_process, debug_module, debug_unit,
  debug_function, debug_line, debug; or 0 to 14.
    -u 'myapp:*'                    all of a provider
    -u 'myapp:*' -u '!myapp:poll*'  all but some
    -u '*:*@warning'                warnings and worse, of any provider
";

/// Records what applications do, at a cost so low that they behave as if they were not traced.
#[derive(Debug, Parser)]
#[command(name = "strata", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start with:  strata record -- ./your-program")]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Record a command, running processes, or everything, into a CTF trace
    Record(Box<RecordFlags>),
    /// Show running applications and their tracepoints
    List(ListFlags),
    /// Show the events of traces, of any tracer that writes CTF
    View(Box<ViewFlags>),
    /// Count what is in traces, and say what is missing
    Stats(StatsFlags),
    /// Write traces for other tools
    Export(ExportFlags),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// A folder for one file each; without, strata(1) to stdout
        #[arg(value_hint = ValueHint::DirPath)]
        folder: Option<PathBuf>,
    },
}

/// `strata record`.
#[derive(Debug, Args)]
#[command(override_usage = "strata record [OPTIONS] [-- COMMAND [ARGUMENT]...]")]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{RULES}\n{EXIT_STATUS}"))]
pub struct RecordFlags {
    /// Record the tracepoints that RULE selects, such as 'myapp:*@warning' [default: *:*]
    #[arg(short, long = "user", value_name = "RULE", value_parser = parse_rules)]
    user: Vec<String>,

    /// Write the trace to DIR, which must be new or empty [default: strata-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    /// What to do with a record when the buffers are full
    #[arg(long, value_enum, default_value_t = ModeFlag::Discard)]
    mode: ModeFlag,

    /// Size of a sub-buffer, a power of two such as 512K or 2M
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1M")]
    subbuf_size: u64,

    /// Sub-buffers for each CPU of each process, a power of two
    #[arg(long, value_name = "N", default_value_t = strata_session::options::NR_SUBBUFS)]
    subbufs: u32,

    /// Write what is in the buffers at least this often; 0: only when a sub-buffer is full
    #[arg(long, value_name = "SECONDS", value_parser = parse_time, default_value = "1")]
    flush: Duration,

    /// Stop after this time, such as 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// Record the running process PID; may be repeated
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "command")]
    pid: Vec<u32>,

    /// Exit with 1 if any record was discarded
    #[arg(long)]
    pub strict: bool,

    /// Say nothing but what went wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// The command to run, recorded with all its descendants from their first event; without it and
    /// --pid, every process is recorded until Ctrl-C
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// `strata list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `--mode`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeFlag {
    /// Discard the new record, and count it
    Discard,
    /// Overwrite the oldest packet: a flight recorder
    Overwrite,
}

/// Refuse a rule that is not well formed where it stands.
fn parse_rules(text: &str) -> Result<String, RuleError> {
    Rules::parse(&[text]).map(|_| text.to_owned())
}

impl RecordFlags {
    /// What the session is asked to do.
    ///
    /// # Errors
    /// The rules are too long together.
    pub fn options(&self) -> Result<Options, RuleError> {
        let rules = match self.user.as_slice() {
            [] => None,
            texts => Some(Rules::parse(texts)?),
        };
        Ok(Options {
            rules,
            output: self.output.clone(),
            mode: match self.mode {
                ModeFlag::Discard => Mode::Discard,
                ModeFlag::Overwrite => Mode::Overwrite,
            },
            subbuf_bytes: self.subbuf_size,
            nr_subbufs: self.subbufs,
            flush: self.flush,
            duration: self.duration,
            pids: self.pid.clone(),
            command: self.command.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn record(arguments: &[&str]) -> Result<Options, String> {
        let arguments = [&["strata", "record"], arguments].concat();
        match Flags::try_parse_from(arguments).map_err(|error| error.to_string())?.action {
            Action::Record(flags) => flags.options().map_err(|error| error.to_string()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn flags_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn flags_when_none_are_given_ask_for_the_session_s_defaults() {
        let (asked, default) = (record(&[]).unwrap(), Options::default());
        assert_eq!(format!("{asked:?}"), format!("{default:?}"));
    }

    #[test]
    fn flags_of_every_kind_reach_the_session() {
        let asked = record(&[
            "-u",
            "a:*,b:*@info",
            "--user",
            "!a:x",
            "-o",
            "out",
            "--mode",
            "overwrite",
            "--subbuf-size",
            "512K",
            "--subbufs=4",
            "--flush",
            "0.25",
            "--duration",
            "2m",
            "--strict",
            "--",
            "cmd",
            "-p",
            "--mode",
        ])
        .unwrap();
        assert_eq!(asked.rules.unwrap().as_str(), "a:*,b:*@6,!a:x");
        assert_eq!(asked.output, Some("out".into()));
        assert_eq!(asked.mode, Mode::Overwrite);
        assert_eq!((asked.subbuf_bytes, asked.nr_subbufs), (512 << 10, 4));
        assert_eq!(asked.flush, Duration::from_millis(250));
        assert_eq!(asked.duration, Some(Duration::from_secs(120)));
        assert_eq!(asked.command, ["cmd", "-p", "--mode"]);
        assert_eq!(record(&["-p", "1,2", "--pid", "3"]).unwrap().pids, [1, 2, 3]);
        assert_eq!(record(&["--strict", "cmd", "-p", "x"]).unwrap().command, ["cmd", "-p", "x"]);
    }

    #[test]
    fn flags_that_contradict_or_make_no_sense_are_refused_by_name() {
        for (arguments, part) in [
            (&["-p", "1", "--", "cmd"][..], "--pid"),
            (&["-u", "a:b@loud"], "debug_line"),
            (&["--subbuf-size", "big"], "512K"),
            (&["--duration", "soon"], "500ms"),
            (&["--mode", "drop"], "overwrite"),
            (&["-p", "x"], "--pid"),
        ] {
            let text = record(arguments).unwrap_err();
            assert!(text.contains(part), "{arguments:?}: {text}");
        }
    }
}
