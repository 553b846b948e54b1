//! The kernel layer: lists the kernel's events, describes their records, and loads the BPF programs that write these
//! into our own rings.
//!
//! There is no kernel module and no compiler at run time: the programs of `probe/kernel` are compiled with this crate,
//! and each event's description is set as constants of its program before the program is loaded.
//!
//! ```text
//! "sched_*", --filter, --context
//!    discover ─▶ decide ─▶ attach ─▶ (records go into our rings)
//!                            │  └─▶ persist   what survives this process
//!                            └─▶ read         what the kernel reports beside its records
//!    processes: whose events are recorded     arch: what differs between machines
//! ```
//!
//! Each stage is a folder, whose first comment explains it: `discover` looks at the machine and changes nothing, `decide`
//! turns rules into a plan that is only data, and from `attach` on the kernel is changed. A [`KernelSession`] leads
//! through these stages; start reading there.
//!
//! - **Refusals.** Which events a kernel can record is known only when it has been asked. An event that it refuses is a
//!   finding ([`KernelSession::problems`]), and the others are recorded.
//! - **Threads.** A session may be used from one thread at a time; the rings are read from others. Programs are loaded in
//!   several threads, since the kernel's verifier takes most of the time.
//! - **Trust.** What is read from files of programs, from `/proc` and from a killed session's description is checked
//!   before it is used. The kernel is trusted.
//!
//! docs/design/kernel.md has the programs, their memory, and what is promised.
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
pub use attach::sampled_events::{SampledEvent, SampledEvents};
pub use decide::{count, event_rules, filter, frequent_events, jump_guard, uprobe};
pub use discover::{
    capability, catalog, doctor, elf, event_names, format, hypervisor, syscalls, tracefs, usdt,
};
pub use read::{executed_programs, jit_names, mapped_code, statedump};

pub use decide::call_stacks::{CallStacks, CallStacksError};
pub use decide::contexts::{ContextError, Contexts};
pub use decide::event::{FieldSource, KernelEvent, Probe};
pub use decide::record_classes::Classes;
pub use decide::sampling::Sampling;
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
