//! Loads and attaches the programs of a session: BPF programs that are compiled with this crate, and the perf events that
//! run some of them.
//!
//! ```text
//! bpf_objects      the compiled programs, by name and loss mode
//!   └─ loader          sets constants, shares maps, loads: the verifier's word about a program comes from here
//!        └─ workers        loads and attaches many programs in several threads, within resource_limits
//!             └─ program       one program at its tracepoint, probe, perf event or timer
//!                  └─ attached_programs     the programs that run, and those that are being detached
//! ```
//!
//! `shared_control` is the memory by which the tracer switches running programs and reads their counters.
//! `counters` and `cpu_samples` are the perf events of each CPU. A CPU that comes online gets its own.
//!
//! A descriptor keeps a program attached. Nothing stays attached after this process ends, unless
//! [`persist`](crate::persist) has pinned it.

pub(crate) mod attached_programs;
pub(crate) mod bpf_objects;
pub(crate) mod counters;
pub mod cpu_samples;
pub(crate) mod loader;
pub(crate) mod program;
pub(crate) mod resource_limits;
pub(crate) mod shared_control;
pub(crate) mod workers;
