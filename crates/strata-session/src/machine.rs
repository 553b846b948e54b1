//! Describes this machine without recording: running programs with their tracepoints, events of the kernel, and
//! obstacles to recording them.
//!
//! ```text
//! listing         strata list: processes, their tracepoints and sessions
//! kernel_list     strata list --kernel: events by rule, with fields
//! doctor          strata doctor: what this user can record of programs, and why not more
//! container_ids   --container NAME: which ids runtimes have given a name
//! process_names   -p NAME, track --name: which processes have a name
//! ```
//!
//! All of it reads /proc and the memory that programs share, within limits, and changes nothing. Results are data;
//! the command line makes text of them.
//!
//! A command calls these functions once and prints what they return; nothing is kept between calls, and no
//! session is needed or disturbed. What a process says of itself is hostile: its memory is read by `strata_user`,
//! which copies and checks it, and a process that cannot be read is in the result with the reason. One that ends
//! while it is looked at is left out.
//!
//! [`doctor`] has the findings on recording programs (mappings, limits, rights to other users' processes). Those
//! on the kernel are `strata_kernel::doctor`, and the command prints both. A process is found by its name in one
//! place, `process_names`, so that `-p nginx` of a recording and `track --name nginx` of a session mean the same
//! processes.

pub(crate) mod container_ids;
pub mod doctor;
pub mod kernel_list;
pub mod listing;
pub(crate) mod process_names;
