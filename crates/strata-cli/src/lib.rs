//! The `strata` command: its command line, its messages and its exit status. Other crates do the work.
//!
//! ```text
//! main.rs (or strata-static) ─▶ run() in command.rs
//!   flags.rs + flags/     words ─▶ one Action with its flags; help, man pages and completions
//!   record, count, sessions, boot, doctor, emit, relayd     strata-session, strata-remote    what writes traces
//!   view, stats, list, analyze, sql, export, ui             strata-analyze and others        what reads traces
//!   reading.rs            flags and messages that the reading commands share
//!   stdout.rs, pager.rs   data: the only way to stdout
//!   stderr.rs + stderr/   messages: the only way to stderr
//! ```
//!
//! A command is a file, or a file and a folder, with three parts: a struct of flags (`ViewFlags`), which only parses;
//! a function `run(&flags) -> Result<u8>`, which returns the exit status; and functions that turn results into text.
//! `run` prints data through `stdout` and messages through `stderr`, so that foreign names in them cannot act on a
//! terminal, and a closed pipe is no failure. An error that it returns is printed by `command.rs`, with exit status
//! 2.
//!
//! The statuses are the same everywhere: 0 done, 1 nothing matched or a check failed, 2 could not run. `record` and
//! `count` with a command end with the command's own status.
//!
//! To add a command, add a variant to `Action` in `flags.rs`, a line to the `match` in `command.rs`, a row to
//! `flags/examples.rs`, and a module here.
//!
//! Commands run in the main thread. Those that a signal may end make a `Stop` first: one signal asks them to end
//! properly.
//!
//! This is a library, since two programs are linked with it: `strata`, and one file without libraries
//! (`strata-static`).

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod analyze;
mod boot;
mod command;
mod count;
mod doctor;
mod emit;
mod exit_status;
mod export;
mod flags;
mod list;
mod pager;
mod reading;
mod record;
mod relayd;
mod sessions;
mod sql;
mod stats;
mod stderr;
mod stdout;
mod time_zone;
mod ui;
mod units;
mod view;

pub use command::run;
