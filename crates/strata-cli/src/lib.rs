//! The `strata` command with its flags, messages and exit status. The crates `strata-session` (recording) and
//! `strata-analyze` (reading) do its work. This library is linked with the programs, one of which is linked statically.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod analyze;
mod boot;
mod command;
mod count;
mod doctor;
mod emit;
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
mod stdout;
mod talk;
mod ui;
mod view;

pub use command::run;
