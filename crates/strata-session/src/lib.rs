//! Sessions: what `strata record` and `strata list` do, without a word to the terminal.
//!
//! ```text
//! options.rs         what a session is asked to do, sizes.rs: how large buffers are; plan.rs: of one that stays, as data
//! record.rs          `strata record`: one session, and its command
//! standing.rs        a session that stays, and is changed; what of it goes on when it is killed, and its triggers
//! session.rs         create, start, run, stop, destroy over any layers
//!   layer.rs         what a session asks of a layer
//!   ground.rs        what `record` and a session that stays have in common: output, snapshots, report
//!   control.rs       what is asked of a recording while it runs
//!   snapshot.rs      what the buffers hold; rotation.rs: a trace is cut into parts; each by threads of their own
//! applications.rs    the layer of applications: keeper.rs finds them, source.rs has their packets
//! kernel.rs          the layer of the kernel, with kernel/source.rs; kernel/detach.rs detaches its programs behind its end
//! guest.rs           the layer of a guest, with guest/receive.rs; relayed.rs: in a guest, a recording for the host
//! output.rs          where traces go: a sink for each, and what it says of itself
//! report.rs          what a session says of itself, while it runs and at its end
//! machine.rs         what could be recorded here, with nothing recorded
//! ```
//!
//! Packets go from a layer's sources through a [`strata_collect::Pump`] to the sinks of the session's output. A
//! session never ends, stops or delays a program that it records.
#![cfg(target_os = "linux")]

mod applications;
mod error;
mod guest;
mod kernel;
mod machine;
pub mod options;
mod output;
pub mod plan;
mod record;
pub mod report;
#[cfg(test)]
mod scratch_tests;
mod session;
mod sizes;
pub mod standing;

pub use error::SessionError;
pub use kernel::default::{of_plan as kernel_by_default, RULES as DEFAULT_KERNEL_RULES};
pub use machine::{doctor, kernel_list, listing};
pub use output::folder;
pub use output::folder::{has_parts, time_name};
pub use plan::tracked::Tracked;
pub use record::named::{processes_of, NameError};
pub use record::{command, preload};
pub use record::{record, record_with};
pub use session::control::{controls, Controls, Orders};
pub use session::detaching::Detaching;
pub use session::privileges::give_up_rights;
pub use session::recording::Recording;
pub use session::rotation::Rotated;
pub use session::shared::Figured;
pub use session::stop;
pub use standing::kept::{KernelKept, WriteKept};
pub use standing::slots::Slots;
pub use standing::trust::Trusted;
pub use standing::trustee::trustee;
pub use strata_abi::kernel::TEXT_MAX as KERNEL_TEXT_MAX;
pub use strata_kernel::{pinned, prepare_pins, remove_pinned};
pub use strata_user::{
    level_name, ContextError, EventContexts, Rule, RuleError, Rules, EVENT_CONTEXTS,
};
