//! The processes whose events are recorded.
//!
//! Two sets exist side by side, and programs in the kernel test both before they record. The *followed* processes are a
//! command and its descendants, or given processes and theirs: `follow` finds them, and programs add the new ones.
//! The *tracked* processes meet conditions that the user may change while recording: `tracked` has them. `recorded`
//! answers for other parts of the tracer whether a process is in the followed set.
//!
//! The kernel's events have the numbers of the machine's first PID namespace. `pid_namespace` converts the numbers that
//! this process sees.

pub(crate) mod follow;
pub(crate) mod pid_namespace;
pub(crate) mod recorded;
pub(crate) mod tracked;
