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
//! A plan is data: nothing is loaded or opened here. What a program must test or read per event (filters, guards of
//! jumps, fields) is lowered to constants, so that one compiled program serves all events of its kind.

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
pub(crate) mod session_events;
pub mod uprobe;
