//! The packets of the kernel: what the pump asks while it takes them, and what becomes of the trace.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use strata_collect::{
    Collector, Counts, Error, Finish, Kinds, Monitor, OpenedTrace, Output, ProducerState, Sink,
    Source, StreamLoss, TraceIdentity, WriteBefore, WrittenTrace,
};
use strata_ctf::end_mark::{Ending, Losses};
use strata_kernel::{Classes, Contexts};
use strata_model::{StreamClass, Trace, TraceError, Uuid};

use crate::kernel::statedump::{self, Dump};
use crate::kernel::whole::{self, Said};
use crate::output::describe::{as_numbers, new_uuid};
use crate::report::KERNEL;
use crate::session::layer::Context;
use crate::session::lock::lock;
use crate::session::shared::Voice;

/// The one stream class of the kernel's trace.
const STREAM: u32 = 0;

/// Which trace it is.
#[derive(Clone, Debug)]
pub(crate) struct KernelTraceIdentity {
    pub(crate) uuid: Uuid,
    /// With those of the dump of what runs, if there is one. They grow while it is recorded.
    pub(crate) classes: Classes,
    /// The ids of these.
    pub(crate) of_dump: Range<u32>,
    pub(crate) contexts: Contexts,
    /// Its environment is to be what analyses of LTTng's traces look for.
    pub(crate) as_lttng: bool,
    /// What is recorded without an exception.
    pub(crate) whole: whole::RecordedWhole,
}

impl KernelTraceIdentity {
    /// What describes it, and more when there is more.
    ///
    /// # Errors
    /// A class is nonsense.
    pub(crate) fn kinds(
        &self,
        context: &Context,
        uuid: Uuid,
        said: Said,
    ) -> Result<Kinds, TraceError> {
        let machine = &context.machine;
        let trace = self.trace(context, uuid, said, self.classes.stream_class());
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

    /// What is in front of its kinds, which say other things of it by now.
    fn head(&self, context: &Context, said: Said) -> String {
        let class = StreamClass { events: Vec::new(), ..self.classes.stream_class() };
        context.machine.describe(&self.trace(context, self.uuid, said, class))
    }

    fn trace(&self, context: &Context, uuid: Uuid, said: Said, class: StreamClass) -> Trace {
        let (machine, created) = (&context.machine, &context.created);
        machine.kernel_trace(uuid, created, self.as_lttng, said.whole, class)
    }
}

/// What was recorded.
#[derive(Debug, Default)]
pub(crate) struct RecordedByKernel {
    pub(crate) counts: Counts,
    pub(crate) losses: Vec<StreamLoss>,
    pub(crate) folder: Option<PathBuf>,
    /// Records that are in no trace and that no end mark says.
    pub(crate) unmarked: u64,
}

/// What is in traces that are complete, while the source goes on.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// Of their dumps.
    dumped: Counts,
    /// Of traces that were taken away \[byte\].
    metadata_bytes: u64,
    folder: Option<PathBuf>,
}

/// The kernel, as the pump knows it.
pub(crate) struct KernelSource {
    pub(crate) context: Arc<Context>,
    pub(crate) voice: Voice,
    pub(crate) trace: KernelTraceIdentity,
    pub(crate) kinds: Option<Kinds>,
    /// What it says that it has without an exception.
    pub(crate) said: Said,
    /// When recording began, if the streams are to begin then \[ns\].
    pub(crate) span_from: Option<u64>,
    /// Of each stream, how many discarded records the traces of a killed session tell of.
    pub(crate) told: Vec<u64>,
    /// Events that no program ran for, known when the session has stopped.
    pub(crate) not_run: Arc<AtomicU64>,
    /// The number of the stream behind those of the CPUs.
    pub(crate) dump_stream: u64,
    pub(crate) dumped: Dump,
    /// What a dump says besides the threads.
    pub(crate) around: Arc<Mutex<statedump::DumpScope>>,
    pub(crate) behind: Behind,
    /// The snapshot's that is being written.
    pub(crate) snapshot_uuid: Uuid,
    /// Out: what was recorded.
    pub(crate) recorded: Arc<Mutex<RecordedByKernel>>,
}

impl KernelSource {
    /// A trace of this number that goes there.
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

    /// What another trace of it is to say of itself.
    fn described(&self, sink: &dyn Sink, said: Said) -> Result<(Uuid, Kinds), Error> {
        let failed = |source| Error::Write { path: sink.path().to_owned(), source };
        let uuid = new_uuid().map_err(failed)?;
        let kinds = self.trace.kinds(&self.context, uuid, said);
        Ok((uuid, kinds.map_err(|error| failed(io::Error::other(error)))?))
    }

    /// Says what runs already, if somebody's begin is not in the trace.
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
}

impl Source for KernelSource {
    fn begins_at_once(&self) -> bool {
        true
    }

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

    /// Each is a trace of its own.
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
        let (place, wish) = (self.place(self.snapshot_uuid), self.wish());
        let watched = self.watched();
        let (dump, found) = statedump::write_found(sink, &place, &wish, watched.as_ref())?;
        let Some(watched) = watched else { return Ok(None) };
        let before = watched.save(sink, &place, &found, &dump)?;
        Ok(Some(Box::new(move |sink, from| before.write(sink, from))))
    }

    /// Code that was mapped meanwhile, and what the trace said of itself and is not so any more.
    fn besides(&mut self, collector: &mut Collector) -> Result<(), Error> {
        if let Some(said) = self.trace.whole.since(self.said) {
            collector.set_head(&self.trace.head(&self.context, said))?;
            self.said = said;
        }
        let Some(watched) = self.watched() else { return Ok(()) };
        if std::mem::take(&mut lock(&self.around).is_new) {
            let (place, wish) = (self.place(self.trace.uuid), self.wish());
            let counts = statedump::write_again(collector.sink(), &place, &wish, &watched)?;
            self.dumped.counts.add(&counts);
        }
        let counts = watched.append(collector.sink(), &self.place(self.trace.uuid))?;
        self.dumped.counts.add(&counts);
        Ok(())
    }

    /// What runs already is said first.
    fn opened(&mut self, collector: &mut Collector) -> Result<(), Error> {
        // Of parts behind the first one it knows by itself.
        collector.go_on(&std::mem::take(&mut self.told));
        if let Some(kept) = &self.context.kept {
            let (before, _) = collector.told();
            kept.note_folder(Some(collector.sink().path()), &before);
        }
        lock(&self.around).is_new = false;
        self.dumped = self.dump(self.trace.uuid, collector.sink())?;
        Ok(())
    }

    /// Its metadata grow with the kinds that happen.
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

    fn finished(&mut self, collector: &mut Collector) -> Result<(), Error> {
        // Nothing of it is held any more, and its folder may be moved.
        if let Some(kept) = &self.context.kept {
            kept.note_folder(None, &collector.told().1);
        }
        match collector.span() {
            Some(span) => self.dumped.span(collector.sink(), span),
            None => Ok(()),
        }
    }

    /// The kernel's memory is damaged: nothing of it can be read.
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

    fn losses(&mut self, losses: Vec<StreamLoss>) {
        lock(&self.recorded).losses = losses;
    }

    fn close(mut self, mut counts: Counts, trace: Option<WrittenTrace>) -> Counts {
        let losses = Losses::of(&counts);
        let (mut folder, mut unmarked) = (self.behind.folder.take(), losses.total());
        let mut removed = self.behind.metadata_bytes;
        counts.add(&self.behind.dumped);
        if let Some(WrittenTrace { mut sink, counts: of_trace }) = trace {
            // Nothing happened, and nothing was discarded, of which a packet would tell.
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
        drop(recorded);
        counts
    }
}

#[cfg(test)]
mod tests;
