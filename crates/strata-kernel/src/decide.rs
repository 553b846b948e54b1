//! Decides what is recorded: which events the user's rules select, which program records each of them with which
//! constants, and what a record of each class contains.
//!
//! ```text
//! event_rules    "sched_*,!sched_stat_*"            ─┐
//! uprobe         "uprobe:libc.so.6:malloc(u64)"      ├─▶ event: a KernelEvent ─▶ program_plan ─▶ attach
//! contexts       pid, cgroup_id, perf:cpu:cycles     │                              │
//! filter, count  "prev_prio > 3", counts by key      ─┘                              └─▶ record_classes: the metadata
//! ```
//!
//! A plan is data. Resolving a probe reads the binary that it names; beyond that nothing is opened, and nothing
//! is loaded here. What a program must test or read for an event (filters, guards of jumps, fields) is lowered to
//! constants, so that one compiled program serves all events of its kind.
//!
//! # From a rule to a program
//! 1. A rule names events. Its text was checked when it was parsed; now names are looked up in what
//!    [`discover`](crate::discover) found.
//! 2. Each selected event is a [`KernelEvent`]: its recorded name, its fields, and where the program finds each
//!    field.
//! 3. Filters and counts are compiled for each event. A condition that cannot be tested in the kernel is an error
//!    here, and not a record too many later.
//! 4. `program_plan` chooses the program: one of its own for the most frequent events (`frequent_events`), or the
//!    generic one with a list of fields. It also says what to try if the kernel refuses that.
//! 5. `record_classes` gives each class its id. Ids are never used again within a session, so rules may change
//!    while it records.
//!
//! All of it runs in the thread that begins or changes a session, and can be tested without rights and without a
//! kernel.

pub(crate) mod call_stacks;
pub(crate) mod contexts;
pub mod count;
pub(crate) mod event;
pub mod event_rules;
pub mod filter;
pub mod frequent_events;
pub mod jump_guard;
pub(crate) mod program_key;
pub(crate) mod program_plan;
pub(crate) mod record_classes;
pub(crate) mod sampling;
pub(crate) mod session_events;
pub mod uprobe;
