//! Describes this machine without recording: running programs with their tracepoints, events of the kernel, and
//! obstacles to recording them.

pub mod doctor;
pub mod kernel_list;
pub mod listing;
pub(crate) mod process_names;
