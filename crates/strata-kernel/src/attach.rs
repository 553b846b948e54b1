//! Loads and attaches the programs of a session: BPF programs that are compiled with this crate, and the perf
//! events that run some of them.
//!
//! ```text
//! bpf_objects      the compiled programs, by name and loss mode
//!   └─ loader          sets constants, shares maps, loads: the verifier's word about a program comes from here
//!        └─ workers        loads and attaches many programs in several threads, within resource_limits
//!             └─ program       one program at its tracepoint, probe, perf event or timer
//!                  └─ attached_programs     the programs that run, and those that are being detached
//! ```
//!
//! `shared_control` is the memory by which the tracer switches running programs and reads their counters; `sample_counts`
//! and `sampled_events` read what programs that record samples have left out.
//! `counters` and `cpu_samples` are the perf events of each CPU. A CPU that comes online gets its own.
//!
//! # States of a program
//! ```text
//! LoadUnit (plan) ── load ──▶ loaded, switched off ── attach ──▶ attached ── switch on ──▶ records
//!                    └─ refused by the verifier: the plan's fallback is tried, and then reported as not recorded
//! records ── switch off, detach ──▶ detaching, which may take long ──▶ gone
//! ```
//! A session loads and attaches everything before it switches anything on, so that its events begin at one
//! moment.
//!
//! # Threads and lifetime
//! [`KernelSession`](crate::session::KernelSession) is the only caller. Loading is slow, since the verifier
//! follows every path of a program, and so it is the only step that uses several threads. A descriptor keeps a
//! program attached. Nothing stays attached after this process ends, unless [`persist`](crate::persist) has
//! pinned it. docs/design/kernel.md says what the programs promise.

pub(crate) mod attached_programs;
pub(crate) mod bpf_objects;
pub(crate) mod counters;
pub mod cpu_samples;
pub(crate) mod loader;
pub(crate) mod program;
pub(crate) mod resource_limits;
pub(crate) mod sample_counts;
pub(crate) mod sampled_events;
pub(crate) mod shared_control;
pub(crate) mod workers;
