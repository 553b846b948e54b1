//! Applications that can be traced: finds them, maps the memory that they share, enables and disables their
//! tracepoints.
//!
//! ```text
//! find() ─▶ Application ─▶ AppSession::start() ─▶ tick(), update() ... ─▶ stop() ─▶ release()
//! Launch, Listener ─▶ Received::Process ─▶ Application ─▶ AppSession::adopt(), else start()
//! ```
//!
//! A process shares one sealed memfd (`strata/abi/user.h`), and everything in it is hostile: it is
//! copied, then the copy is checked, and no reference is ever made to bytes that the process can write.
//! Nothing here stops a process, or waits for it.

mod access;
mod announce;
mod application;
mod asking;
mod clock;
mod closing;
mod code;
mod context;
mod described;
mod description;
mod error;
mod filter;
mod find;
mod group;
mod identity;
mod ids;
mod launch;
mod ledger;
mod link;
mod listen;
mod loaded;
mod lttng;
mod maps;
mod memory;
mod outcome;
mod person;
mod process;
mod request;
mod rights;
mod rules;
mod session;
mod sites;
mod spec;
mod states;

#[cfg(test)]
mod testing;

pub use announce::{AnnouncementCounters, Received, Sender};
pub use application::{possible_cpus, Announced, Application, StoredMemory, Tracepoint};
pub use asking::{ask_each, ask_with_these_rights};
pub use clock::{counter_pair, Clock, ClockKind, WhyNot, COUNTER};
pub use context::{ContextError, EventContext, EventContexts, EVENT_CONTEXTS};
pub use description::DescriptionError;
pub use error::{held_of_user, Denial, Error};
pub use filter::{Compiled, FilterError, Program};
pub use find::{find, find_of_session, lttng_of_processes, pids, Findings, RefusedProcess, Who};
pub use identity::Identity;
pub use launch::{Announcements, Launch};
pub use listen::{holds_senders, listening_folder, ProgramListener};
pub use loaded::LoadedObject;
pub use lttng::{lttng_of_program, Lttng};
pub use memory::may_have_session;
pub use outcome::Outcome;
pub use process::{ancestors, children, descendants, protection, read_proc};
pub use rules::{level_from_name, level_name, Rule, RuleError, Rules};
pub use session::{new_generation, AppSession, Differs};
pub use spec::{HeaderChoice, RecordFormat, SessionCounters, SessionSpec};
pub use strata_abi::user::{Announcement, ENVIRONMENT};
pub use strata_ring::LossMode;
