//! The source of a pump: a channel, what its records are, and what happens with its trace.

use std::time::Duration;

use strata_model::{Counts, StreamClass, StreamLoss};

use crate::adopted_buffers::LeftFiles;
use crate::collector::{Collector, ProducerState, TraceIdentity};
use crate::error::Error;
use crate::growing_metadata::Kinds;
use crate::output::Output;
use crate::sink::{Sink, WrittenTrace};

/// Returns the event record classes of a stream; see [`Collector::set_classes`].
pub type TellClasses = Box<dyn FnMut() -> Option<StreamClass> + Send>;

/// Returns the metadata if they have changed. Can be called in any thread.
pub type Grown = Box<dyn FnMut() -> Option<String> + Send>;

/// Adds a state dump to a written snapshot. The argument is the time of the first packet \[ns\].
pub type WriteBefore = Box<dyn FnOnce(&mut dyn Sink, u64) -> Result<(), Error> + Send>;

/// Work that is left on a completed trace, for a thread other than the pump's.
pub type Finish = Box<dyn FnOnce() + Send>;

/// A trace that can be written to.
pub struct OpenedTrace {
    /// Destination of the trace.
    pub sink: Box<dyn Sink>,
    /// Identity of the trace.
    pub identity: TraceIdentity,
    /// Returns the event record classes; see [`Collector::set_classes`].
    pub classes: TellClasses,
    /// Metadata of the trace. If they are empty and there are no `kinds`, the pump calls [`Source::describe`].
    pub metadata: String,
    /// Metadata that grow with the kinds of event records, in place of `metadata`; see [`Collector::describe_kinds`].
    pub kinds: Option<Kinds>,
    /// Time at which all streams begin; see [`Collector::span_from`] \[ns\].
    pub span_from: Option<u64>,
    /// Returns new metadata for a snapshot, if its records have kinds that `metadata` do not describe.
    pub grown: Option<Grown>,
}

/// A point in the life of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePoint {
    /// At its begin: the metadata are written, and no packet is yet.
    Begin,
    /// Between begin and end, while packets are being written.
    Meanwhile,
    /// At its end: all packets are written.
    End,
}

/// A channel that a [`crate::Pump`] takes packets from. The pump's thread makes all calls.
pub trait Source: Send {
    /// True if a trace begins when it is opened; otherwise it begins with the first record.
    const BEGINS_AT_ONCE: bool = false;

    /// Returns the additional abilities of a source whose producer is one program.
    fn program(&mut self) -> Option<&mut dyn ProgramSource> {
        None
    }

    /// Opens the trace, and after [`Source::cut`] the next one. After an error the pump calls it again when there is
    /// something to write.
    ///
    /// # Errors
    /// A system call failed.
    fn open(&mut self) -> Result<OpenedTrace, Error>;

    /// Creates and describes a separate trace in `output` for what the channel holds now.
    ///
    /// # Errors
    /// A system call failed.
    fn open_snapshot(&mut self, output: &mut dyn Output) -> Result<OpenedTrace, Error>;

    /// Called when the snapshot's trace is described and no packet is written yet. If the snapshot has packets, the
    /// returned function is called.
    ///
    /// # Errors
    /// A system call failed.
    fn begin_snapshot(&mut self, _sink: &mut dyn Sink) -> Result<Option<WriteBefore>, Error> {
        Ok(None)
    }

    /// Writes what the trace has besides the channel's records. Called before the first packet, now and then, and after
    /// the last packet.
    ///
    /// # Errors
    /// A system call failed.
    fn besides(&mut self, _collector: &mut Collector, _at: TracePoint) -> Result<(), Error> {
        Ok(())
    }

    /// Returns new metadata if records may have event record classes that the last metadata do not describe.
    fn describe(&mut self) -> Option<String>;

    /// Returns whether producers have ended, so that the remaining records are written and the source is closed.
    fn has_ended(&self) -> bool;

    /// State of the producers at the end.
    fn producer(&self) -> ProducerState;

    /// Returns the number of events for which the kernel did not run a program, known at the end; see
    /// [`Collector::add_discarded`].
    fn not_run(&self) -> u64 {
        0
    }

    /// Called when the channel's memory cannot be read any more; `error` is the reason.
    fn give_up(&mut self, error: &Error);

    /// Notes that `trace` is complete. The source continues, and later records are in another trace. Returns the work
    /// that is left on the trace.
    fn cut(&mut self, trace: WrittenTrace) -> Finish;

    /// Ends the source, whose channel is unmapped already. `counts` are its counts in all traces. `losses` are the
    /// discards of each stream in all traces, with their times. `trace` is the last trace, if anything was recorded
    /// since the last [`Source::cut`]. Returns the counts as they are to be reported.
    fn close(self, counts: Counts, losses: &[StreamLoss], trace: Option<WrittenTrace>) -> Counts;
}

/// Capability of a source whose producer is one program: it may be hostile, it ends before the recording does, and what it
/// has described grows while it is read.
pub trait ProgramSource {
    /// Files that may already have records of the channel, because a killed recorder has read it. Called once, before
    /// any packet is read.
    fn left(&mut self) -> Option<LeftFiles>;

    /// Returns whether packets have to stay in the buffers for now.
    fn must_wait(&self) -> bool;

    /// Returns whether the source has ended and must not be held for a snapshot, because its memory is needed.
    fn must_go(&self) -> bool;

    /// Returns whether `counts` are possible. A hostile program may claim any counts, and must not hide those of other
    /// programs that way.
    fn is_possible(&self, counts: &Counts) -> bool;
}

/// The state of a pump's buffers at one moment.
#[derive(Clone, Debug, Default)]
pub struct BufferState {
    /// The discards of each CPU's streams, with their times.
    pub losses: Vec<StreamLoss>,
    /// How full the fullest stream of all sources was just before its packets were taken \[%\].
    pub fill: u8,
    /// How far back the buffers of a flight recorder reach at the present rate; `None` if nothing is recorded at present,
    /// or if packets are written as they arrive.
    pub history: Option<Duration>,
}

/// Receives the reports of a pump.
pub trait Monitor: Send + Sync {
    /// Returns whether nothing can be written any more, so that packets stay in their buffers and count as discarded.
    fn has_failed(&self) -> bool;

    /// Notes that a trace could not be written.
    fn fail(&self, error: &Error);

    /// Returns whether a process waits for memory: sources of ended processes should then be released.
    fn wants_memory(&self) -> bool {
        false
    }

    /// Returns whether packets must stay in their buffers because the disk is full, also packets of ended processes.
    fn must_wait(&self) -> bool {
        false
    }

    /// Returns whether packets must stay in their buffers because a write failed for want of disk space. That is no
    /// failure, and the write is repeated later. Some ended processes should be released.
    fn lacks_room(&self) -> bool {
        false
    }

    /// Sets the counts so far.
    fn set_counts(&self, counts: &Counts);

    /// Sets the state of the buffers. Called as often as [`Monitor::set_counts`].
    fn set_buffers(&self, _state: BufferState) {}

    /// Adds events, recorded or not, of all sources whose counts are possible.
    fn add_events(&self, _events: u64) {}
}
