//! State from event records: what each thread did and waited for, what each CPU ran, which system call took how long.
//!
//! A [`Timeline`] takes the messages of a [`Reader`](strata_ctf::read::Reader) once, in the order of time. It calls an
//! [`Observer`] when something has ended: a system call, a state of a thread, an interrupt, a span, or when a counter has a new
//! value. It holds the present state only and no past, so its memory does not grow with the trace.
//!
//! ```text
//! Event ── Binding ── Fact ── Engine ── Observer
//!          once for   numbers,  state     the client: a report, an exporter, an index
//!          each class whichever
//!                     tracer wrote it
//! ```
//!
//! - A *binding* finds the fields of an event record class once: which event it is, whichever tracer spelt it, and where its
//!   numbers are.
//! - A *fact* is what a record says, in one spelling: a switch, a wake-up, the entry or exit of a system call, a name.
//! - The *engine* applies facts to its state, which a client sees as the [`World`]: threads, their processes and names, CPUs.
//! - The *observer* is the client. Each of its methods has a default that does nothing; constants such as
//!   [`Observer::FILES`] say which optional state it needs, so that others do not pay for it.
//!
//! # The way in
//! The folders are the stages of the way of the data. Each uses only those above it:
//!
//! ```text
//! ids/                     numbers that stand for threads, names and system calls
//! spans/, counters/        what pairs begins and ends of spans, and what holds values of counters
//! world/                   the present state: threads, their states, descriptors, control groups
//! observer.rs              what the client is told
//! records/                 from records to facts: sources, names that tracers use, bindings
//! descriptors/             what system calls do to descriptors, at once or in steps for another thread
//! engine/                  applies facts to the state
//! timeline.rs, pass.rs     a reader's messages to the engine: one by one, or all in one pass
//! descriptor_follower.rs   the same for descriptors only
//! span_rules/              which events begin and end spans, by rules and by names; uses records/ and spans/
//! ```
//!
//! # Unknown state
//! Where records were discarded, or recording began in the middle, a state is [`State::Unknown`]; none is guessed. A client must
//! therefore pass on [`Message::Discarded`](strata_ctf::read::Message), not only events. A system call of which only one end is
//! known is reported as an [`UnpairedCall`].
//!
//! # Calls
//! 1. [`Timeline::new`] with the reader, 2. [`Timeline::event`] and [`Timeline::discarded`] for each message,
//! 3. [`Timeline::finish`], which reports what is open at the end of the trace. The second argument of `event` tells whether the
//!    client selected this record: unselected records still change the state, and results carry whether a record of theirs was
//!    selected.
//!
//! Everything happens in the calling thread; observers may not call back into the timeline. Times are in nanoseconds since 1970.
//!
//! # Example
//! The longest system call of a trace:
//!
//! ```no_run
//! use strata_ctf::read::{Message, Reader, TimeRange};
//! use strata_timeline::{Call, Observer, Timeline, World};
//!
//! #[derive(Default)]
//! struct Longest(u64);
//!
//! impl Observer for Longest {
//!     fn call(&mut self, _: &World, call: &Call) {
//!         self.0 = self.0.max(call.nanos());
//!     }
//! }
//!
//! let reader = Reader::open(&["trace"])?;
//! let (mut timeline, mut longest) = (Timeline::new(&reader), Longest::default());
//! let mut events = reader.events(TimeRange::ALL);
//! while let Some(message) = events.next() {
//!     match message {
//!         Message::Event(event) => timeline.event(&event, true, &mut longest),
//!         Message::Discarded(discarded) => timeline.discarded(&discarded),
//!         Message::Packet(_) | Message::Damage(_) => {}
//!     }
//! }
//! timeline.finish(&mut longest);
//! # Ok::<(), strata_ctf::read::OpenError>(())
//! ```
#![deny(missing_docs, clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

mod counters;
mod descriptor_follower;
mod descriptors;
mod engine;
mod ids;
mod observer;
mod pass;
mod records;
mod span_rules;
mod spans;
#[cfg(test)]
mod tests;
mod timeline;
mod world;

pub use counters::{CounterNumber, CounterPlace, CounterRoles, CounterValue, COUNTERS_MAX};
pub use descriptor_follower::Follower;
pub use descriptors::first_steps::{first_steps, TakenStep, Taker, FIRST_RECORDS};
pub use descriptors::steps::{has_dump, Step, StepPlan, Steps};
pub use ids::calls::{is_of_descriptors, CallId, CallKind, Calls, Moves};
pub use ids::names::{Name, NameKind, Names, NAMES_MAX, NAME_BYTES_MAX};
pub use ids::thread_id::ThreadId;
pub use observer::{
    Call, DiskRequest, Interrupt, Observer, RequestKind, Run, Unpaired, UnpairedCall,
};
pub use pass::{begin, pass, pass_on, Asked, Passed};
pub use records::binding::{is_descriptor, is_path};
pub use records::record_source::{
    architecture, descriptor_calls, is_kernel, Sources, StreamSource,
};
pub use records::tracer_names::{
    begins_of, elapsed_field, elapsed_of_span, kernel_name, CallEnd, NumberedEnd, Whose,
    OF_SAMPLED, OF_SLOW,
};
pub use span_rules::roles::{idle_rules, span_roles};
pub use span_rules::slice_pairs;
pub use span_rules::slice_pairs::{PairRule, PairRuleError};
pub use spans::{
    check_of, Paired, Span, SpanKey, SpanRole, SpanRoles, Spent, UnpairedReason, UnpairedSpan,
};
pub use timeline::Timeline;
pub use world::control_groups::{ControlGroup, ControlGroups, GroupIndex};
pub use world::hidden_threads::{FoundOnCpu, HiddenThread, Switches, Unfollowed};
pub use world::state::{Interval, Object, Reason, Sleep, State, Waker};
pub use world::threads::{Thread, Threads, ACTIVE_MAX, THREADS_MAX};
pub use world::{Blind, EndingRecord, ThreadSummary, World, WorldSummary};
