//! The kernel layer: lists the kernel's events, describes their records, and loads the BPF programs that write these
//! into our own rings.
//!
//! There is no kernel module and no compiler at run time: the programs of `probe/kernel` are compiled with this crate,
//! and each event's description is set as constants of its program before the program is loaded.
#![cfg(target_os = "linux")]

mod error;
mod event;

mod attach;
mod attaching;
mod build_id;
pub mod capability;
pub mod catalog;
mod classes;
mod code_map;
pub mod code_names;
mod container;
mod contexts;
mod control;
pub mod count;
mod counter;
mod counters;
mod cpus;
pub mod doctor;
pub mod elf;
pub mod filter;
mod follow;
pub mod format;
pub mod guard;
pub mod hot;
pub mod hypervisor;
mod inside;
mod kept;
mod key;
mod left;
mod limits;
mod load;
pub mod mapped;
pub mod names;
mod numbers;
mod object;
mod perf_ring;
mod pins;
mod plan;
mod running;
pub mod sample;
mod selected;
pub mod selection;
pub mod session;
pub mod started;
pub mod statedump;
pub mod syscalls;
pub mod tracefs;
mod track;
mod types;
pub mod uprobe;
pub mod usdt;
mod whom;

pub use classes::Classes;
pub use contexts::{ContextError, Contexts};
pub use cpus::cpus as listed_cpus;
pub use error::{Error, Refusal};
pub use event::{FieldSource, KernelEvent, Probe};
pub use follow::Follow;
pub use inside::Inside;
pub use kept::Kept;
pub use left::RingsShape;
pub use numbers::{is_first_namespace, number_of, Numbers};
pub use pins::{pinned, prepare_pins, remove_pinned, ChannelPins};
pub use selected::{AttachProgress, SelectedEvent, UnrecordedEvent};
pub use session::{FlawCounts, Keeping, KernelSession, RecordingSpec};
pub use track::Tracked;
pub use whom::{Followed, Looked, Whom};

/// Default size of a program's recorded arguments, including a NUL \[byte\].
pub const ARGV_BYTES: u32 = strata_abi::kernel::TEXT_MAX;
/// Largest size of a program's recorded arguments \[byte\].
pub const ARGV_BYTES_MAX: u32 = strata_abi::kernel::ARGV_MAX;
