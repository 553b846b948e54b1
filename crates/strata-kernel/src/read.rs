//! Reads what the kernel reports beside the records of programs: changes of processes and of their code, and the
//! state of the machine at the begin of a recording.
//!
//! ```text
//! perf_ring            a ring of perf events for each CPU, read at its tail
//!   ├─ mapped_code         which file is mapped where: gives addresses in call stacks a name
//!   └─ executed_programs   which processes began another program
//! jit_names            /tmp/perf-PID.map and jit-PID.dump: names of code that runtimes generate
//!   └─ jit_dump            the form of the latter
//! statedump            /proc and /sys: what existed before the first event
//! container_name       the container of a process, from its control group
//! pod_name             the pod of Kubernetes of that container, from files of containerd and CRI-O
//! ```
//!
//! Their results are records with LTTng's names and fields, so that a reader needs one decoder for all, and each
//! has the time at which it was true. They are written by the thread that moves the kernel's packets, or by one
//! that waits for the rings; none of them records what the events of a session record.
//!
//! What found no room is counted where the kernel says so (a ring that overflows); it costs a name: an address is
//! then shown as a number, and never as another function. Files of programs (`jit_names`) belong to the recorded
//! user and are hostile: a file is used only if it belongs to the process' user, and a thread that hangs while it
//! reads one is left behind. docs/design/kernel.md says what readers may rely on.

pub(crate) mod container_name;
pub mod executed_programs;
pub(crate) mod jit_dump;
pub mod jit_names;
pub mod mapped_code;
pub(crate) mod perf_ring;
pub(crate) mod pod_name;
pub mod statedump;
