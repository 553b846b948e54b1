//! Event records to state: what each thread did and waited for, what each CPU ran, which system call took how long.
//!
//! A [`Timeline`] is told the messages of a [`Reader`](strata_ctf::read::Reader) in the order of time, once, and tells an
//! [`Observer`] what has come to an end: a system call, a state of a thread, an interrupt, a counter's value. It keeps
//! what is so now, not what was, so its memory does not grow with the trace.
//!
//! ```text
//! Event ── Binding (fields of its class, found once) ── Fact (numbers) ── Engine ── Observer
//! ```
//!
//! Where records were discarded, or recording began in the middle, a state is [`State::Unknown`]; none is guessed.
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
#![forbid(unsafe_code)]

mod before;
mod binding;
mod calls;
mod counters;
mod descriptors;
mod engine;
mod fact;
mod files;
mod follow;
mod hidden;
mod id;
mod names;
mod observer;
mod requests;
mod source;
mod spans;
mod spelling;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod threads;
mod timeline;
mod world;

pub use binding::{is_descriptor, is_path};
pub use calls::{is_of_descriptors, CallId, CallKind, Calls, Moves};
pub use counters::{CounterNumber, CounterPlace, CounterRoles, CounterValue, COUNTERS_MAX};
pub use follow::Follower;
pub use hidden::{FoundOnCpu, HiddenThread, Switches, Unfollowed};
pub use id::ThreadId;
pub use names::{Name, NameKind, Names, NAMES_MAX, NAME_BYTES_MAX};
pub use observer::{
    Call, DiskRequest, Interrupt, Observer, RequestKind, Run, Unpaired, UnpairedCall,
};
pub use source::{architecture, descriptor_calls, is_kernel, Sources, StreamSource};
pub use spans::{check_of, Alone, AloneSpan, Paired, Span, SpanKey, SpanRole, SpanRoles, Spent};
pub use spelling::{begins_of, kernel_name, CallEnd, NumberedEnd, Whose};
pub use state::{Interval, Object, Reason, Sleep, State, Waker};
pub use steps::{has_dump, Step, StepPlan, Steps};
pub use threads::{Thread, Threads, THREADS_MAX};
pub use timeline::Timeline;
pub use world::{EndingRecord, World};
