//! What this machine has, with nothing recorded: running programs with their tracepoints, events of the kernel, and what
//! is in the way of recording.

pub mod doctor;
pub mod kernel_list;
pub mod listing;
