//! Decides what a process records for a session: event rules, filters and contexts, as the user wrote them and as the
//! shared memory holds them.
//!
//! ```text
//! "shop:*@warning"   event_rules ─┐
//! "n > 3"            filter       ├─▶ session_spec::SessionSpec ─▶ attach: written into a slot of the process' memory
//! vpid, procname     contexts    ─┘
//! ```
//!
//! A rule or filter is compiled once, before any process is known; each process applies it to the tracepoints that it
//! has now and later. The compiled form is an interface between two programs: rules are matched by the same C code on
//! both sides (`strata/abi/rule.h`), and a filter is tests that lead forwards only, which the process checks before
//! it evaluates them.
//!
//! ```text
//! let rules = Rules::parse(&["shop:*@warning", "!shop:noise"])?;     the words of the user, with an error for each mistake
//! let program = Compiled::compile(&filter)?;                         independent of any event; names are bound in the process
//! ```
//!
//! Nothing here has state, reads memory of others, or needs rights: it may be called from any thread, and tests
//! run the C code of libstrata on what was compiled. Limits on the number of rules, tests and bytes are those of
//! the slot in the shared memory.

pub(crate) mod contexts;
pub(crate) mod event_rules;
pub(crate) mod filter;
pub(crate) mod session_spec;
