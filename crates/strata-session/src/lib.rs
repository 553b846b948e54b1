//! Sessions: the work of `strata record`, `strata list` and the commands for sessions, without writing to the terminal.
//!
//! ```text
//! options.rs         options of a session; sizes.rs: sizes of buffers; plan.rs: plan of a persistent session
//! engine.rs          one session, whoever asked for it: requests, changes, triggers, the reason to end, the report
//! record.rs          `strata record` in the foreground: a session of one process; the command, preloaded objects
//! daemon.rs          a persistent session, and what continues after it is killed
//!   process.rs       its process; server.rs: answers commands; restore_plan.rs: restores it after a kill
//! session.rs         start, run, stop, destroy over any layers
//!   layer.rs         the interface of a layer
//!   resources.rs     shared by `record` and persistent sessions: output, snapshots, report
//!   control.rs       requests to a running recording
//!   snapshot.rs      writes what the buffers hold; rotation.rs: splits a trace into chunks; both by other threads
//! applications.rs    the layer of applications: registry.rs finds them, source.rs has their packets
//! kernel.rs          the layer of the kernel, with kernel/source.rs; kernel/detach_process.rs detaches its programs at the end
//! guest.rs           the layer of a guest, with guest/receive.rs; guest_recorder.rs: in a guest, a recording for the host
//! output.rs          destination of traces: a sink for each, and the metadata
//! report.rs          reports of a session, while it runs and at its end
//! machine.rs         what could be recorded on this machine, without recording
//! ```
//!
//! Packets go from a layer's sources through a [`strata_collect::Pump`] to the sinks of the session's output. A
//! session never ends, stops or delays a program that it records.
#![cfg(target_os = "linux")]

mod applications;
pub mod daemon;
mod engine;
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

pub use daemon::fdstore::FdStore;
pub use daemon::fdstore_process::open_fdstore;
pub use daemon::persistent_kernel::PersistentKernel;
pub use daemon::restore_plan::{RestorePlan, RestorePlanError};
pub use daemon::slot_file::Slots;
pub use error::SessionError;
pub use kernel::count;
pub use kernel::default_events::{
    is_wanted as wants_default_kernel, of_plan as kernel_by_default, RULES as DEFAULT_KERNEL_RULES,
};
pub use kernel::probes::resolve as resolve_probes;
pub use machine::container_ids::container_ids;
pub use machine::{doctor, kernel_list, listing};
pub use output::folder;
pub use output::folder::{group_folder, has_parts, is_trusted_user, show_to_group, time_name};
pub use output::retention::{KeptFolders, Retention, WriteNotes};
pub use plan::tracked::Tracked;
pub use record::named::{processes_of, some_are_there, NameError};
pub use record::record;
pub use record::{command, preload};
pub use session::control::{controls, Controls, Orders};
pub use session::detach_later::Detaching;
pub use session::disk::{LowSpace, MinFree};
pub use session::privileges::give_up_rights;
pub use session::recording_result::Recording;
pub use session::rotation::Rotated;
pub use session::shared_state::Figured;
pub use session::state::SessionState;
pub use session::status::{add_earlier_keys, Status};
pub use session::stop;
pub use strata_abi::kernel::TEXT_MAX as KERNEL_TEXT_MAX;
pub use strata_kernel::count as kernel_count;
pub use strata_kernel::{pinned, prepare_pins, remove_pinned};
pub use strata_user::{
    level_name, ContextError, EventContexts, Rule, RuleError, Rules, EVENT_CONTEXTS,
};
