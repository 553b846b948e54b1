//! Discovers what this machine can record: the kernel's events and their formats, system calls, the functions and
//! probes of binaries, CPUs, and the rights of this process.
//!
//! ```text
//! tracefs ── catalog: names ── format: fields of one event, when it is selected       the kernel's tracepoints
//!              └ event_names: LTTng's names for them
//! syscalls      tables of this crate: numbers, arguments, what of them is recorded     no file of the kernel has all of it
//! elf, usdt ── code_map: functions, their pieces                                       programs and libraries
//! btf           the structures that our programs read, for libbpf
//! cpus, hypervisor, own_container, capability                                          this machine, and this process on it
//! doctor        all of it, one requirement at a time, for people
//! ```
//!
//! Nothing here changes the machine, and nothing depends on a session. What takes long is read when it is needed:
//! a kernel has two thousand events, and a description is read only when an event is selected. Files of binaries
//! are hostile: every size in them is compared with the file, and the code that is decoded has a limit.
//!
//! A failure is an error of the caller's request ("no such event"), except in [`doctor`], for which it is a
//! finding. Functions may be called from any thread, and results are values that the caller keeps: what was found
//! is true of the moment, as modules are loaded, CPUs come and go, and files are replaced. `decide` is the main
//! caller; `strata list -k` and `strata doctor` print what is here.

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
