//! Numbers that stand for threads, texts and system calls, so that facts, states and results are small and are compared as
//! numbers.
//!
//! What a number stands for is in a table, of which a timeline has one each: [`Threads`](crate::Threads) for a
//! [`ThreadId`](crate::ThreadId), [`Names`](crate::Names) for a [`Name`](crate::Name), [`Calls`](crate::Calls) for a
//! [`CallId`](crate::CallId).

pub(crate) mod calls;
pub(crate) mod names;
pub(crate) mod thread_id;
