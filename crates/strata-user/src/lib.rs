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
