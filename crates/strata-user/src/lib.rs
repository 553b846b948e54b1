//! Applications that can be traced: finds them, maps the memory that they share, enables and disables their
//! tracepoints.
//!
//! ```text
//! discover    find() ─▶ Application                      processes that run already
//!             Launch, Listener ─▶ Received::Process      processes that start, by a message with their memory
//! decide      rules, filters, contexts ─▶ SessionSpec
//! attach      AppSession::start(application, spec) ─▶ tick(), update() ... ─▶ stop() ─▶ release()
//!             AppSession::adopt()                        a slot that the process has filled in itself, at its start
//! read        what the memory says: tracepoints, loaded objects
//! processes   who a process is, whether it still runs, and questions that may block
//! users       what a user may do, and how much of the shared resources
//! ```
//!
//! A process shares one sealed memfd (`strata/abi/user.h`), and everything in it is hostile: it is
//! copied, then the copy is checked, and no reference is ever made to bytes that the process can write.
//! Nothing here stops a process, or waits for it: the threads of an application never notice a tracer, but for the
//! records that they write.
//!
//! A tracer that is root does for a process only what that process' user could do. A process is known by a pidfd and by
//! the memory that it has mapped, since its number may be another's a moment later.
//!
//! An [`AppSession`] belongs to one thread. What may hang in the kernel (reading a file of `/proc` of a process that is
//! stuck, closing a descriptor that came from elsewhere) is done by threads that nobody waits for, in limited number.
//!
//! docs/design/user.md has the protocol, and docs/design/threats.md what a hostile process can do.

mod attach;
mod decide;
mod discover;
mod error;
mod processes;
mod read;
mod users;

#[cfg(test)]
mod testing;

pub use attach::application::{possible_cpus, Announced, Application, StoredMemory, Tracepoint};
pub use attach::clock::{counter_pair, Clock, ClockKind, WhyNot, COUNTER};
pub use attach::session::{new_generation, AppSession, Differs};
pub use attach::shared_memory::may_have_session;
pub use decide::contexts::{ContextError, EventContext, EventContexts, EVENT_CONTEXTS};
pub use decide::event_rules::{level_from_name, level_name, Rule, RuleError, Rules};
pub use decide::filter::{Compiled, FilterError, Program};
pub use decide::session_spec::{HeaderChoice, RecordFormat, SessionCounters, SessionSpec};
pub use discover::announcement::{AnnouncementCounters, Received, Sender};
pub use discover::find::{
    find, find_of_sender, find_of_session, lttng_of_processes, pids, Findings, RefusedProcess, Who,
};
pub use discover::launch::{Announcements, Launch};
pub use discover::listen::{holds_senders, listening_folder, ProgramListener};
pub use discover::lttng::{lttng_of_program, Lttng};
pub use error::{held_of_user, Denial, Error};
pub use processes::blocking_queries::{ask_each, ask_with_these_rights};
pub use processes::exit_status::Outcome;
pub use processes::identity::Identity;
pub use processes::process::{ancestors, children, descendants, protection, read_proc};
pub use read::description_parser::DescriptionError;
pub use read::loaded_objects::LoadedObject;
pub use strata_abi::user::{Announcement, ENVIRONMENT};
pub use strata_ring::LossMode;
