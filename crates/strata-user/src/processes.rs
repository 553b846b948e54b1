//! Facts about other processes, by the kernel's word: `/proc`, pidfds and credentials of messages.
//!
//! A process number alone proves nothing, so a [`process::Process`] holds a pidfd, and answers are checked against it.
//! Reads of `/proc/PID` can block for as long as the process' user likes: only the threads of `blocking_queries` make
//! them, and its callers get an answer or an error in bounded time.

pub(crate) mod blocking_queries;
pub(crate) mod cgroup;
pub(crate) mod exit_status;
pub(crate) mod identity;
pub(crate) mod memory_map;
pub(crate) mod process;
