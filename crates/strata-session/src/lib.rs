//! Sessions: what `strata record` and `strata list` do, without a word to the terminal.
//!
//! ```text
//! main thread   waits for the command, the time, Ctrl-C          watch.rs, command.rs, stop.rs
//! keeper        finds processes, heartbeat, clock, new events    keeper.rs
//! mover         packets from all channels to files               mover.rs
//! kernel        packets from the kernel's channel to files       kernel.rs
//! lttng         looks for descendants that LTTng instruments     lttng.rs
//! ```
//!
//! The keeper hands each process' channel to the mover, and lives until the mover has taken everything:
//! while a slow disk is written to, no process takes its tracer for dead. A session never ends, stops or
//! delays a program that it records.
#![cfg(target_os = "linux")]

pub mod command;
mod default;
mod describe;
mod detach;
mod disk;
pub mod doctor;
mod error;
mod filtered;
pub mod folder;
mod keeper;
mod kernel;
pub mod kernel_list;
mod known;
pub mod listing;
mod lttng;
mod memory;
mod mover;
mod named;
pub mod options;
mod pace;
mod privileges;
pub mod report;
mod reports;
#[cfg(test)]
mod scratch_tests;
mod session;
mod shared;
mod statedump;
pub mod stop;
mod traced;
mod verify;
mod watch;

pub use detach::Detaching;
pub use error::SessionError;
pub use named::{processes_of, NameError};
pub use privileges::give_up_rights;
pub use session::{record, Recording};
pub use strata_abi::kernel::TEXT_MAX as KERNEL_TEXT_MAX;
pub use strata_user::{level_name, Rule, RuleError, Rules};
