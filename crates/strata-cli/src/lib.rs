//! The `strata` command: flags, messages, exit status. What it does is in `strata-session` (recording)
//! and `strata-analyze` (reading). Its programs, of which one is linked statically, are linked with it.

mod analyze;
mod boot;
mod command;
mod doctor;
mod export;
mod flags;
mod list;
mod reading;
mod record;
mod sessions;
mod stats;
mod talk;
mod view;

pub use command::run;
