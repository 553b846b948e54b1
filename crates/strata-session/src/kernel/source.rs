//! The source of the kernel's packets: what the pump needs while it takes them, and the completion of the trace.
//!
//! ```text
//! pump (strata_collect) ─▶ KernelSource: Source
//!    open()            a trace: UUID, metadata that grow with the classes, CPUs' streams
//!    besides()         before and between packets: the state dump, changes of mapped code, at the end what is left
//!    open_snapshot()   a separate trace of the same buffers
//!    cut()             the trace is complete, and the next one begins (rotation)
//!    close()           the result of the recording, for the layer that waits for it
//! ```
//!
//! All of this runs in the pump's thread. The layer (`kernel.rs`) shares only what is behind an `Arc`: the scope of
//! state dumps, the number of events for which no program ran, and the result.
//!
//! A trace's metadata promise which events they contain completely ([`Said`]). If a change of rules breaks a promise,
//! the metadata are corrected before the next packet is written, so that a reader never concludes too much.
//!
//! State dumps are a stream of their own, behind those of the CPUs. Each trace of a rotated recording, and each
//! snapshot, has one, so that it can be read without the others.
//!
//! A failure to write the state dump is a failure of the sink, like one to write a packet: the pump decides what
//! it ends, and no packet is written to a trace that lacks its dump.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use strata_collect::{
    Collector, Counts, Error, Finish, Kinds, Monitor, OpenedTrace, Output, ProducerState, Sink,
    Source, StreamLoss, TraceIdentity, TracePoint, WriteBefore, WrittenTrace,
};
use strata_ctf::end_mark::{Ending, Losses};
use strata_kernel::{Classes, Contexts, SampledEvents};
use strata_model::{StreamClass, Trace, TraceError, Uuid};

use crate::kernel::complete_events::{self, Said};
use crate::kernel::samples::{self, LeftOutBefore};
use crate::kernel::statedump::{self, Dump};
use crate::output::describe::{as_numbers, new_uuid};
use crate::report::KERNEL;
use crate::session::layer::Context;
use crate::session::lock::lock;
use crate::session::shared_state::Voice;

/// Id of the only stream class of the kernel's trace.
const STREAM: u32 = 0;

/// The identity of the kernel's trace, and the descriptions in its metadata.
#[derive(Clone, Debug)]
pub(crate) struct KernelTraceIdentity {
    pub(crate) uuid: Uuid,
    /// Classes of event records, including those of the state dump if there is one. More are added during the
    /// recording.
    pub(crate) classes: Classes,
    /// Ids of the state dump's event classes.
    pub(crate) of_dump: Range<u32>,
    pub(crate) contexts: Contexts,
    /// True if the trace's environment entries must be those that analyses of LTTng's traces look for.
    pub(crate) as_lttng: bool,
    /// The events of which every occurrence is recorded.
    pub(crate) whole: complete_events::RecordedWhole,
    /// The events of which only samples are recorded.
    pub(crate) sampled: SampledEvents,
}

impl KernelTraceIdentity {
    /// Returns the metadata, which grow with the classes.
    ///
    /// # Errors
    /// A class is invalid.
    pub(crate) fn kinds(
        &self,
        context: &Context,
        uuid: Uuid,
        said: Said,
    ) -> Result<Kinds, TraceError> {
        let machine = &context.machine;
        let trace = self.trace(context, uuid, said, self.classes.stream_class(), None);
        trace.validate()?;
        let (classes, as_lttng) = (self.classes.clone(), self.as_lttng);
        machine.kinds(trace, &self.of_dump, move |known| {
            let mut new = classes.since(known);
            if as_lttng {
                as_numbers(&mut new);
            }
            new
        })
    }

    /// Returns the head of the metadata, which precedes the classes. `before`: see [`samples::environment`].
    fn head(&self, context: &Context, said: Said, before: Option<&LeftOutBefore>) -> String {
        let class = StreamClass { events: Vec::new(), ..self.classes.stream_class() };
        context.machine.describe(&self.trace(context, self.uuid, said, class, before))
    }

    fn trace(
        &self,
        context: &Context,
        uuid: Uuid,
        said: Said,
        class: StreamClass,
        before: Option<&LeftOutBefore>,
    ) -> Trace {
        let (machine, created) = (&context.machine, &context.created);
        let mut trace = machine.kernel_trace(uuid, created, self.as_lttng, said.whole, class);
        trace.environment.extend(samples::environment(&self.sampled.read(), before));
        trace
    }
}

/// The final result of recording the kernel, for the report.
#[derive(Debug, Default)]
pub(crate) struct RecordedByKernel {
    pub(crate) counts: Counts,
    pub(crate) losses: Vec<StreamLoss>,
    pub(crate) folder: Option<PathBuf>,
    /// Number of records that are in no trace and that no trace's end mark counts.
    pub(crate) unmarked: u64,
}

/// Sums over the traces that are complete, while the source continues with the next trace.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// Counts of the traces' state dumps.
    dumped: Counts,
    /// Size of the metadata of removed traces \[byte\].
    metadata_bytes: u64,
    folder: Option<PathBuf>,
}

/// The kernel as a source of the pump.
pub(crate) struct KernelSource {
    pub(crate) context: Arc<Context>,
    pub(crate) voice: Voice,
    pub(crate) trace: KernelTraceIdentity,
    pub(crate) kinds: Option<Kinds>,
    /// The statement about complete events in the metadata of the present trace.
    pub(crate) said: Said,
    /// Start time of the recording \[ns\], if each stream must begin at that time.
    pub(crate) span_from: Option<u64>,
    /// For each stream, the number of discarded records that the traces of a killed session already report.
    pub(crate) told: Vec<u64>,
    /// For each event, the number of records that sampling had left out when the present trace began.
    pub(crate) left_out_before: LeftOutBefore,
    /// Number of events for which no BPF program ran. The number is known after the session has stopped.
    pub(crate) not_run: Arc<AtomicU64>,
    /// Number of the state dump's stream, which follows those of the CPUs.
    pub(crate) dump_stream: u64,
    pub(crate) dumped: Dump,
    /// The scope of state dumps: what they contain in addition to the threads.
    pub(crate) around: Arc<Mutex<statedump::DumpScope>>,
    pub(crate) behind: Behind,
    /// UUID of the snapshot that is being written.
    pub(crate) snapshot_uuid: Uuid,
    /// The place where the source leaves the result of the recording.
    pub(crate) recorded: Arc<Mutex<RecordedByKernel>>,
}

impl KernelSource {
    /// Returns the description of an opened trace with this UUID, which is written to `sink`.
    fn opened_as(&self, uuid: Uuid, sink: Box<dyn Sink>) -> OpenedTrace {
        let classes = self.trace.classes.clone();
        OpenedTrace {
            sink,
            identity: TraceIdentity { uuid, stream_id: STREAM },
            classes: Box::new(move || Some(classes.stream_class())),
            metadata: String::new(),
            kinds: None,
            span_from: None,
            grown: None,
        }
    }

    /// Returns a new UUID and the metadata for another trace of the kernel.
    fn described(&self, sink: &dyn Sink, said: Said) -> Result<(Uuid, Kinds), Error> {
        let failed = |source| Error::Write { path: sink.path().to_owned(), source };
        let uuid = new_uuid().map_err(failed)?;
        let kinds = self.trace.kinds(&self.context, uuid, said);
        Ok((uuid, kinds.map_err(|error| failed(io::Error::other(error)))?))
    }

    /// Writes the state dump, unless the recording contains the beginning of every recorded thread.
    fn dump(&self, uuid: Uuid, sink: &mut dyn Sink) -> Result<Dump, Error> {
        if self.trace.of_dump.is_empty() {
            return Ok(Dump::default());
        }
        statedump::write(sink, &self.place(uuid), &self.wish(), self.watched().as_ref())
    }

    fn wish(&self) -> statedump::Wish {
        lock(&self.around).wish.clone()
    }

    fn watched(&self) -> Option<statedump::WatchedChanges> {
        lock(&self.around).watched.clone()
    }

    fn place(&self, uuid: Uuid) -> statedump::DumpPlace {
        statedump::DumpPlace {
            uuid,
            stream_id: STREAM,
            stream_instance: self.dump_stream,
            first_id: self.trace.of_dump.start,
            contexts: self.trace.contexts.clone(),
        }
    }

    /// Writes changes of mapped code, and corrects statements about complete events that are no longer true.
    fn write_changes(&mut self, collector: &mut Collector) -> Result<(), Error> {
        if let Some(said) = self.trace.whole.since(self.said) {
            collector.set_head(&self.trace.head(&self.context, said, None))?;
            self.said = said;
        }
        let symbols = {
            let mut around = lock(&self.around);
            let is_new = std::mem::take(&mut around.has_new_symbols);
            around.wish.symbols.clone().filter(|_| is_new)
        };
        if let Some(symbols) = symbols {
            collector.sink().set_symbols(&symbols)?;
        }
        let Some(watched) = self.watched() else { return Ok(()) };
        if std::mem::take(&mut lock(&self.around).is_new) {
            let (place, wish) = (self.place(self.trace.uuid), self.wish());
            let counts = statedump::write_again(collector.sink(), &place, &wish, &watched)?;
            self.dumped.counts.add(&counts);
        }
        let place = self.place(self.trace.uuid);
        let counts = watched.append(collector.sink(), &place)?;
        self.dumped.counts.add(&counts);
        let counts = watched.names.append(collector.sink(), &place.of_names())?;
        self.dumped.counts.add(&counts);
        Ok(())
    }

    /// Writes the state dump, before the first packet.
    fn write_state(&mut self, collector: &mut Collector) -> Result<(), Error> {
        // For later chunks, the collector knows these counts itself.
        collector.go_on(&std::mem::take(&mut self.told));
        if let Some(kept) = &self.context.kept {
            let (before, _) = collector.told();
            let left_out = &self.left_out_before;
            kept.note_folder(Some(collector.sink().path()), &before, left_out);
        }
        {
            let mut around = lock(&self.around);
            (around.is_new, around.has_new_symbols) = (false, false);
        }
        self.dumped = self.dump(self.trace.uuid, collector.sink())?;
        // Later chunks do not contain the beginning of the command.
        lock(&self.around).wish.command = None;
        Ok(())
    }

    /// Writes into the metadata how many records sampling left out while the trace was recorded.
    fn count_samples(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let all = self.trace.sampled.read();
        let before = std::mem::replace(&mut self.left_out_before, samples::before(&all));
        if samples::environment(&all, Some(&before)).is_empty() {
            return Ok(());
        }
        collector.set_head(&self.trace.head(&self.context, self.said, Some(&before)))
    }

    /// Completes the state dump after all packets are written.
    fn complete(&mut self, collector: &mut Collector) -> Result<(), Error> {
        // None of its packets are held any longer, and its folder may be moved.
        if let Some(kept) = &self.context.kept {
            kept.note_folder(None, &collector.told().1, &self.left_out_before);
        }
        match collector.span() {
            Some(span) => self.dumped.span(collector.sink(), span),
            None => Ok(()),
        }
    }
}

impl Source for KernelSource {
    const BEGINS_AT_ONCE: bool = true;

    fn open(&mut self) -> Result<OpenedTrace, Error> {
        let sink = lock(&self.context.output).trace(KERNEL, None)?;
        let kinds = match self.kinds.take() {
            Some(kinds) => kinds,
            None => {
                let said = self.trace.whole.of_new();
                let (uuid, kinds) = self.described(&*sink, said)?;
                (self.trace.uuid, self.said) = (uuid, said);
                self.span_from = self.span_from.map(|_| strata_user::Clock::monotonic_ns());
                kinds
            }
        };
        let opened = self.opened_as(self.trace.uuid, sink);
        Ok(OpenedTrace { kinds: Some(kinds), span_from: self.span_from, ..opened })
    }

    /// Opens a snapshot, which is a separate trace.
    fn open_snapshot(&mut self, output: &mut dyn Output) -> Result<OpenedTrace, Error> {
        let sink = output.trace(KERNEL, None)?;
        let (uuid, kinds) = self.described(&*sink, self.trace.whole.of_all())?;
        self.snapshot_uuid = uuid;
        Ok(OpenedTrace { kinds: Some(kinds), ..self.opened_as(uuid, sink) })
    }

    fn begin_snapshot(&mut self, sink: &mut dyn Sink) -> Result<Option<WriteBefore>, Error> {
        if self.trace.of_dump.is_empty() {
            return Ok(None);
        }
        let wish = statedump::Wish { command: None, ..self.wish() };
        let (place, watched) = (self.place(self.snapshot_uuid), self.watched());
        let (dump, found) = statedump::write_found(sink, &place, &wish, watched.as_ref())?;
        let Some(watched) = watched else { return Ok(None) };
        let before = watched.save(sink, &place, &found, &dump)?;
        let names = watched.names.save();
        Ok(Some(Box::new(move |sink, from| {
            before.write(sink, from)?;
            names.write(sink, &place.of_names(), from)
        })))
    }

    fn besides(&mut self, collector: &mut Collector, at: TracePoint) -> Result<(), Error> {
        match at {
            TracePoint::Begin => self.write_state(collector),
            TracePoint::Meanwhile => self.write_changes(collector),
            TracePoint::End => {
                self.write_changes(collector)?;
                self.count_samples(collector)?;
                self.complete(collector)
            }
        }
    }

    /// Returns `None`, since the metadata are extended whenever classes are added.
    fn describe(&mut self) -> Option<String> {
        None
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn producer(&self) -> ProducerState {
        ProducerState::Alive
    }

    fn not_run(&self) -> u64 {
        self.not_run.load(Ordering::Acquire)
    }

    /// Ends the layer: the kernel's memory is damaged and cannot be read.
    fn give_up(&mut self, error: &Error) {
        self.voice.fail(error);
    }

    fn cut(&mut self, trace: WrittenTrace) -> Finish {
        let dumped = std::mem::take(&mut self.dumped).counts;
        if let Some(watched) = self.watched() {
            watched.cut();
        }
        let WrittenTrace { mut sink, counts } = trace;
        let is_empty = counts.packets == 0;
        match is_empty {
            true => self.behind.metadata_bytes += counts.metadata_bytes,
            false => {
                self.behind.dumped.add(&dumped);
                self.behind.folder = Some(sink.path().to_owned());
            }
        }
        let (context, voice) = (Arc::clone(&self.context), self.voice.clone());
        Box::new(move || {
            if is_empty {
                return lock(&context.output).remove(KERNEL, sink);
            }
            if let Err(error) = sink.end(Ending::Ended, Losses::default()) {
                voice.fail(&error);
            }
            lock(&context.output).ended(&*sink, &counts, &dumped);
        })
    }

    fn close(
        mut self,
        mut counts: Counts,
        of_streams: &[StreamLoss],
        trace: Option<WrittenTrace>,
    ) -> Counts {
        let losses = Losses::of(&counts);
        let (mut folder, mut unmarked) = (self.behind.folder.take(), losses.total());
        let mut removed = self.behind.metadata_bytes;
        counts.add(&self.behind.dumped);
        if let Some(WrittenTrace { mut sink, counts: of_trace }) = trace {
            // No event occurred, and none was discarded; otherwise there would be a packet.
            if of_trace.packets == 0 {
                removed += of_trace.metadata_bytes;
                lock(&self.context.output).remove(KERNEL, sink);
            } else {
                counts.add(&self.dumped.counts);
                match sink.end(self.voice.ending(), losses) {
                    Ok(()) => unmarked = 0,
                    Err(error) => self.voice.fail(&error),
                }
                folder = Some(sink.path().to_owned());
                lock(&self.context.output).ended(&*sink, &of_trace, &self.dumped.counts);
            }
        }
        counts.metadata_bytes = counts.metadata_bytes.saturating_sub(removed);
        let mut recorded = lock(&self.recorded);
        (recorded.counts, recorded.folder, recorded.unmarked) = (counts, folder, unmarked);
        recorded.losses = of_streams.to_vec();
        drop(recorded);
        counts
    }
}

#[cfg(test)]
mod tests;
