//! Reads what the kernel reports beside the records of programs: changes of processes and of their code, and the state
//! of the machine at the begin of a recording.
//!
//! `mapped_code` and `executed_programs` read rings of perf events (`perf_ring`). `jit_names` reads the files in which
//! runtimes list generated code. [`statedump`] reads `/proc` and `/sys`. Their results are records with LTTng's names
//! and fields, so that a reader needs one decoder for all.

pub(crate) mod container_name;
pub mod executed_programs;
pub mod jit_names;
pub mod mapped_code;
pub(crate) mod perf_ring;
pub mod statedump;
