//! Describes this machine without recording: running programs with their tracepoints, events of the kernel, and
//! obstacles to recording them.
//!
//! ```text
//! listing         strata list: processes, their tracepoints and sessions
//! kernel_list     strata list --kernel: events by rule, with fields
//! doctor          strata doctor: what this user can record of programs, and why not more
//! process_names   -p NAME, track --name: which processes have a name
//! ```
//!
//! All of it reads /proc and the memory that programs share, within limits, and changes nothing. Results are data;
//! the command line makes text of them.

pub mod doctor;
pub mod kernel_list;
pub mod listing;
pub(crate) mod process_names;
