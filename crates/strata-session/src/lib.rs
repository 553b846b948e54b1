//! Sessions: what `strata record` and `strata list` do, without a word to the terminal.
//!
//! ```text
//! record.rs          `strata record`: one session, and its command
//! standing.rs        a session that stays, and is changed: plan.rs is what it records
//! ground.rs          what both stand on: output, snapshots, report
//! session.rs         create, start, run, stop, destroy over any layers
//! layer.rs           what a session asks of a layer
//! applications.rs    the layer of applications, with keeper.rs, source.rs
//! kernel.rs          the layer of the kernel, with kernel/source.rs
//! guest.rs           the layer of a guest, with guest/receive.rs
//! relayed.rs         a recording in a guest, which goes to the host's
//! kept.rs            what of it goes on when the session is killed
//! trigger.rs         when a session does something by itself
//! control.rs         what is asked of a recording while it runs
//! snapshot.rs        what the buffers hold, written by threads of its own
//! rotation.rs        a trace is cut into parts.rs, by threads of its own
//! folder.rs          where traces go: an output that makes a sink for each
//! ```
//!
//! Packets go from a layer's sources through a [`strata_collect::Pump`] to the sinks of the session's output. A
//! session never ends, stops or delays a program that it records.
#![cfg(target_os = "linux")]

pub mod advice;
mod applications;
mod book;
mod budget;
pub mod command;
mod control;
mod default;
mod describe;
mod detach;
mod disk;
pub mod doctor;
mod error;
mod failure;
mod filtered;
pub mod folder;
pub mod gaps;
mod ground;
mod guest;
mod keeper;
mod kept;
mod kernel;
pub mod kernel_list;
mod known;
mod layer;
pub mod listing;
mod lock;
mod lowered;
mod lttng;
mod memory;
mod named;
mod near;
pub mod options;
mod pace;
mod parts;
pub mod plan;
pub mod preload;
mod privileges;
mod record;
mod recording;
mod relayed;
pub mod report;
mod reports;
mod room;
mod rotation;
#[cfg(test)]
mod scratch_tests;
mod session;
mod shared;
mod slots;
mod snapshot;
mod source;
pub mod standing;
mod statedump;
pub mod stop;
mod threads;
mod traced;
mod tracked;
mod trigger;
mod verify;
mod watch;
mod watched;

pub use control::{controls, Controls, Orders};
pub use default::RULES as DEFAULT_KERNEL_RULES;
pub use detach::Detaching;
pub use error::SessionError;
pub use folder::{has_parts, time_name};
pub use kept::{KernelKept, Write as WriteKept};
pub use named::{processes_of, NameError};
pub use privileges::give_up_rights;
pub use record::{record, record_with};
pub use recording::Recording;
pub use rotation::Rotated;
pub use shared::Figured;
pub use slots::Slots;
pub use strata_abi::kernel::TEXT_MAX as KERNEL_TEXT_MAX;
pub use strata_kernel::{pinned, prepare_pins, remove_pinned};
pub use strata_user::{
    level_name, ContextError, EventContexts, Rule, RuleError, Rules, EVENT_CONTEXTS,
};
pub use tracked::Tracked;
