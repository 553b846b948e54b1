//! Where packets come from: a channel, and who knows what is in it and what becomes of its trace.

use strata_model::{Counts, StreamClass, StreamLoss};

use crate::collector::{Collector, ProducerState, TraceIdentity};
use crate::error::Error;
use crate::kinds::Kinds;
use crate::left::LeftFiles;
use crate::output::Output;
use crate::sink::{Sink, WrittenTrace};

/// Tells the event record classes of a stream; see [`Collector::set_classes`].
pub type TellClasses = Box<dyn FnMut() -> Option<StreamClass> + Send>;

/// Tells new metadata, if they are not what they were; from any thread.
pub type Grown = Box<dyn FnMut() -> Option<String> + Send>;

/// Adds to a snapshot whose packets are written what was before the first of them, of this time \[ns\].
pub type WriteBefore = Box<dyn FnOnce(&mut dyn Sink, u64) -> Result<(), Error> + Send>;

/// What is still to be done with a trace that is complete, by whoever has the time.
pub type Finish = Box<dyn FnOnce() + Send>;

/// A trace that can be written to.
pub struct OpenedTrace {
    /// Where it goes.
    pub sink: Box<dyn Sink>,
    /// Which trace it is.
    pub identity: TraceIdentity,
    /// See [`Collector::set_classes`].
    pub classes: TellClasses,
    /// What describes it; of a recording that has no `kinds`, empty: [`Source::describe`] is asked.
    pub metadata: String,
    /// Metadata that grow with the kinds that happen ([`Collector::describe_kinds`]), instead.
    pub kinds: Option<Kinds>,
    /// See [`Collector::span_from`].
    pub span_from: Option<u64>,
    /// Of a snapshot: new metadata, if there are more kinds of records by now than `metadata` describe.
    pub grown: Option<Grown>,
}

/// One channel that a [`crate::Pump`] takes packets from. All of it is called by the pump's thread.
pub trait Source: Send {
    /// Where records of its channel may be already, if a recorder has read it that was killed. Asked once, before anything
    /// is taken.
    fn left(&mut self) -> Option<LeftFiles> {
        None
    }

    /// What is in those files was more than is looked at: some of it may be written again.
    fn may_repeat(&mut self) {}

    /// Whether its trace begins at once; else with its first record.
    fn begins_at_once(&self) -> bool {
        false
    }

    /// Makes its trace; behind [`Source::cut`] another one. After an error it is asked again when there is something to
    /// write.
    ///
    /// # Errors
    /// What the system says.
    fn open(&mut self) -> Result<OpenedTrace, Error>;

    /// Makes a trace in `output` for what its channel holds now; one of its own, and described.
    ///
    /// # Errors
    /// What the system says.
    fn open_snapshot(&mut self, output: &mut dyn Output) -> Result<OpenedTrace, Error>;

    /// That trace is described, and no packet is written yet. What it returns is asked when there are packets.
    ///
    /// # Errors
    /// What the system says.
    fn begin_snapshot(&mut self, _sink: &mut dyn Sink) -> Result<Option<WriteBefore>, Error> {
        Ok(None)
    }

    /// The trace is there, and described; nothing is written yet.
    ///
    /// # Errors
    /// What the system says.
    fn opened(&mut self, _collector: &mut Collector) -> Result<(), Error> {
        Ok(())
    }

    /// Now and then, and behind its last packet: what there is besides the channel may be written.
    ///
    /// # Errors
    /// What the system says.
    fn besides(&mut self, _collector: &mut Collector) -> Result<(), Error> {
        Ok(())
    }

    /// New metadata, if records may be of event record classes that the last ones do not have.
    fn describe(&mut self) -> Option<String>;

    /// Its packets are to wait, until later.
    fn must_wait(&self) -> bool {
        false
    }

    /// Nothing will come any more: what is left is taken, and then it is closed.
    fn has_ended(&self) -> bool;

    /// It has ended, and is not to be held for a snapshot: its place is needed.
    fn must_go(&self) -> bool {
        false
    }

    /// How it stands with who wrote, at its end.
    fn producer(&self) -> ProducerState;

    /// Records that the kernel kept from being written, known at the end; see [`Collector::add_discarded`].
    fn not_run(&self) -> u64 {
        0
    }

    /// All is written.
    ///
    /// # Errors
    /// What the system says.
    fn finished(&mut self, _collector: &mut Collector) -> Result<(), Error> {
        Ok(())
    }

    /// Its memory cannot be read any more, for this reason.
    fn give_up(&mut self, error: &Error);

    /// This trace is complete, and the source goes on: what is recorded next is of another one.
    fn cut(&mut self, trace: WrittenTrace) -> Finish;

    /// Of its streams, before its end: what was discarded, in all traces, and when.
    fn losses(&mut self, _losses: Vec<StreamLoss>) {}

    /// Can so much have happened? What a program says of itself may be anything, and must not hide what others say.
    fn is_possible(&self, _counts: &Counts) -> bool {
        true
    }

    /// The end: `counts` were recorded in all, the last of it into `trace` if there was anything since the last
    /// [`Source::cut`]. The channel is unmapped. Returns the counts as they are to be reported.
    fn close(self, counts: Counts, trace: Option<WrittenTrace>) -> Counts;
}

/// Whom a pump works for.
pub trait Monitor: Send + Sync {
    /// Nothing can be written any more: packets stay where they are, and count as discarded.
    fn has_failed(&self) -> bool;

    /// This could not be written.
    fn fail(&self, error: &Error);

    /// Somebody is to be recorded for whom there is no memory: who has ended and is only held is let go of.
    fn wants_memory(&self) -> bool {
        false
    }

    /// There is no room for packets at present: they stay in their buffers, also of who has ended.
    fn must_wait(&self) -> bool {
        false
    }

    /// The same, since something could not be written for want of room, and was not a failure: what could not be done is
    /// done again when there is some. Of those who have ended some are let go of.
    fn lacks_room(&self) -> bool {
        false
    }

    /// So much was recorded until now.
    fn set_counts(&self, counts: &Counts);

    /// Of that, what was discarded of each CPU's streams, and when.
    fn set_losses(&self, _losses: Vec<StreamLoss>) {}

    /// So full was the fullest stream of all sources, when its packets were about to be taken \[%\]. Told as often as the
    /// counts.
    fn set_fill(&self, _percent: u8) {}

    /// So many events more have happened, recorded or not, of all sources that can be believed.
    fn add_events(&self, _events: u64) {}
}
