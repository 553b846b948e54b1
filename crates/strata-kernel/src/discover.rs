//! Discovers what this machine can record: the kernel's events and their formats, system calls, the functions and probes
//! of binaries, CPUs, and the rights of this process.
//!
//! Nothing here changes the machine, and nothing depends on a session. [`catalog`] is the index: it lists events by the
//! names that [`event_names`] gives them, and reads a description only when an event is selected. [`elf`] and
//! [`usdt`] do the same for binaries. [`doctor`] reports what is missing, one requirement at a time.

pub(crate) mod btf;
pub(crate) mod build_id;
pub mod capability;
pub mod catalog;
pub(crate) mod code_map;
pub(crate) mod counter_names;
pub(crate) mod cpus;
pub mod doctor;
pub mod elf;
pub mod event_names;
pub mod format;
pub mod hypervisor;
pub(crate) mod own_container;
pub mod syscalls;
pub mod tracefs;
pub mod usdt;
