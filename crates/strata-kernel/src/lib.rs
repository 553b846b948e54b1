//! The kernel layer: which events the kernel has, what their records hold, and the BPF programs that
//! write them into rings of our own.
//!
//! No module, no run-time compiler: the programs of `probe/kernel` are compiled when this crate is, and
//! each event's description becomes constants of its program before that is loaded.
#![cfg(target_os = "linux")]

mod error;
mod event;

mod attach;
mod attaching;
mod build_id;
pub mod capability;
pub mod catalog;
mod classes;
mod container;
mod contexts;
mod control;
mod counter;
mod counters;
mod cpus;
pub mod doctor;
pub mod elf;
pub mod filter;
mod follow;
pub mod format;
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
mod pins;
mod plan;
mod running;
pub mod sample;
mod selected;
pub mod selection;
pub mod session;
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
