//! Decides what a process records for a session: event rules, filters and contexts, as the user wrote them and as the
//! shared memory holds them.
//!
//! A [`session_spec::SessionSpec`] has all of them for one session. A rule or filter is compiled once, before any
//! process is known; each process applies it to the tracepoints that it has now and later.

pub(crate) mod contexts;
pub(crate) mod event_rules;
pub(crate) mod filter;
pub(crate) mod session_spec;
