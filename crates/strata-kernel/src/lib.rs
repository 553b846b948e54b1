//! The kernel layer: lists the kernel's events, describes their records, and loads the BPF programs that write these
//! into our own rings.
//!
//! There is no kernel module and no compiler at run time: the programs of `probe/kernel` are compiled with this crate,
//! and each event's description is set as constants of its program before the program is loaded.
//!
//! ```text
//! discover ─▶ decide ─▶ attach ─▶ (records go into our rings)
//!                         │  └─▶ persist   what survives this process
//!                         └─▶ read         what the kernel reports beside its records
//! ```
//!
//! A [`KernelSession`] leads through these stages. It may be used from one thread at a time; the rings are read from
//! others.
#![cfg(target_os = "linux")]

mod arch;
mod attach;
mod decide;
mod discover;
mod error;
mod persist;
mod processes;
mod read;
pub mod session;

pub use attach::cpu_samples;
pub use decide::{count, event_rules, filter, frequent_events, jump_guard, uprobe};
pub use discover::{
    capability, catalog, doctor, elf, event_names, format, hypervisor, syscalls, tracefs, usdt,
};
pub use read::{executed_programs, jit_names, mapped_code, statedump};

pub use decide::call_stacks::{CallStacks, CallStacksError};
pub use decide::contexts::{ContextError, Contexts};
pub use decide::event::{FieldSource, KernelEvent, Probe};
pub use decide::record_classes::Classes;
pub use decide::session_events::{AttachProgress, SelectedEvent, UnrecordedEvent};
pub use discover::cpus::cpus as listed_cpus;
pub use discover::own_container::Inside;
pub use error::{Error, Refusal};
pub use persist::adoption::AdoptionRecord;
pub use persist::pins::{pinned, prepare_pins, remove_pinned, ChannelPins};
pub use persist::unread_records::RingsShape;
pub use processes::follow::Follow;
pub use processes::pid_namespace::{is_first_namespace, number_of, Numbers};
pub use processes::recorded::{FollowedMap, RecordedProcesses, RecordedSnapshot};
pub use processes::tracked::Tracked;
pub use session::{FlawCounts, Keeping, KernelSession, RecordingSpec};

/// Default size of a program's recorded arguments, including a NUL \[byte\].
pub const ARGV_BYTES: u32 = strata_abi::kernel::TEXT_MAX;
/// Largest size of a program's recorded arguments \[byte\].
pub const ARGV_BYTES_MAX: u32 = strata_abi::kernel::ARGV_MAX;
