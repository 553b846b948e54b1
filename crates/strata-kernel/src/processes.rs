//! The processes whose events are recorded.
//!
//! ```text
//! who is followed   a command and its descendants, or given processes and theirs   follow    ─┐
//! who is tracked    name, user, group, control group, as the user changes them     tracked   ─┴▶ maps that programs test
//! recorded          answers for other parts of the tracer: is this process followed?
//! pid_namespace     numbers as this process sees them ◀─▶ numbers as the kernel's events have them
//! ```
//!
//! Two sets exist side by side, and programs in the kernel test both before they record. The *followed* processes
//! are fixed at the begin, and programs in the kernel add each child of one; the tracer need not run for that.
//! The *tracked* processes meet conditions that the user may change while recording. Events that are not of a
//! process (an interrupt) are followed for everyone.
//!
//! The kernel's events have the numbers of the machine's first PID namespace. A tracer in a container sees other
//! numbers: it asks the kernel by an iterator, whose program sees both. The tracer itself is in neither set.
//!
//! Writers of the maps are the programs at fork and exit, and the thread of the tracer that changes a session.
//! More conditions than the map of a kind has room for are an error of the change that adds them.
//!
//! [`KernelSession`](crate::KernelSession) fills the maps when it begins, and changes them by `track` in the
//! thread that owns it.

pub(crate) mod follow;
pub(crate) mod pid_namespace;
pub(crate) mod recorded;
pub(crate) mod tracked;
