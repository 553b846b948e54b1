//! Facts about other processes, by the kernel's word: `/proc`, pidfds and credentials of messages.
//!
//! ```text
//! process            a pidfd and the facts that were read while it was certain whose they are
//!   ├─ identity          user, start time, executable: confirms or contradicts what the process claims
//!   ├─ memory_map        /proc/PID/maps
//!   ├─ cgroup            the control group's path, from its number
//!   └─ exit_status       how it ended, though it is no child of ours
//! blocking_queries   the threads that read /proc/PID
//! ```
//!
//! A process number alone proves nothing, since the kernel uses it again. So a [`process::Process`] holds a pidfd,
//! and answers are checked against it.
//!
//! Reads of `/proc/PID` can block for as long as the process' user likes (a file system of the user's own). Only the
//! threads of `blocking_queries` make them, and callers get an answer or an error in bounded time. While too many
//! questions about a user's processes hang, no further ones are asked.
//!
//! Answers are facts of a moment. What is done to a process afterwards uses the pidfd or the mapped memory and no
//! number, so that a process that took the number meanwhile is not affected. docs/design/threats.md lists what is
//! believed of whom.

pub(crate) mod blocking_queries;
pub(crate) mod cgroup;
pub(crate) mod exit_status;
pub(crate) mod identity;
pub(crate) mod memory_map;
pub(crate) mod process;
