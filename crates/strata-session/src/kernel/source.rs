//! The packets of the kernel: what the pump asks while it takes them, and what becomes of the trace.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use strata_collect::{
    Collector, Counts, Error, Identity, Kinds, Monitor, Opened, Producer, Sink, Source,
};
use strata_ctf::end_mark::Losses;
use strata_model::{StreamClass, Uuid};

use crate::layer::Context;
use crate::lock::lock;
use crate::report::KERNEL;
use crate::shared::Voice;
use crate::statedump::{self, Dump};

/// Which trace it is.
#[derive(Clone, Debug)]
pub(crate) struct KernelTrace {
    pub(crate) uuid: Uuid,
    /// With the classes of the dump of what runs, if there is one.
    pub(crate) class: StreamClass,
    /// The id of the first of these.
    pub(crate) dump_id: Option<u32>,
}

/// What was recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) counts: Counts,
    pub(crate) folder: Option<PathBuf>,
    /// Records that are in no trace and that no end mark says.
    pub(crate) unmarked: u64,
}

/// The kernel, as the pump knows it.
pub(crate) struct KernelSource {
    pub(crate) context: Arc<Context>,
    pub(crate) voice: Voice,
    pub(crate) trace: KernelTrace,
    pub(crate) kinds: Option<Kinds>,
    /// When recording began, if the streams are to begin then \[ns\].
    pub(crate) span_from: Option<u64>,
    /// Events that no program ran for, known when the session has stopped.
    pub(crate) not_run: Arc<AtomicU64>,
    /// The number of the stream behind those of the CPUs.
    pub(crate) dump_stream: u64,
    pub(crate) dumped: Dump,
    /// Out: what was recorded.
    pub(crate) recorded: Arc<Mutex<Recorded>>,
}

impl Source for KernelSource {
    fn begins_at_once(&self) -> bool {
        true
    }

    fn open(&mut self) -> Result<Opened, Error> {
        let sink = lock(&self.context.output).trace(KERNEL, None)?;
        let class = self.trace.class.clone();
        Ok(Opened {
            sink,
            identity: Identity { uuid: self.trace.uuid, stream_id: class.id },
            classes: Box::new(move || Some(class.clone())),
            kinds: self.kinds.take(),
            span_from: self.span_from,
        })
    }

    /// What runs already is said first.
    fn opened(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let Some(first_id) = self.trace.dump_id else { return Ok(()) };
        let place = statedump::Place {
            uuid: self.trace.uuid,
            stream_id: self.trace.class.id,
            stream_instance: self.dump_stream,
            first_id,
        };
        self.dumped = statedump::write(collector.sink(), &place)?;
        Ok(())
    }

    /// Its metadata grow with the kinds that happen.
    fn describe(&mut self) -> Option<String> {
        None
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn producer(&self) -> Producer {
        Producer::Alive
    }

    fn not_run(&self) -> u64 {
        self.not_run.load(Ordering::Acquire)
    }

    fn finished(&mut self, collector: &mut Collector) -> Result<(), Error> {
        match collector.span() {
            Some(span) => self.dumped.span(collector.sink(), span),
            None => Ok(()),
        }
    }

    /// The kernel's memory is damaged: nothing of it can be read.
    fn give_up(&mut self, error: &Error) {
        self.voice.fail(error);
    }

    fn close(self, mut counts: Counts, sink: Option<Box<dyn Sink>>) -> Counts {
        let losses = Losses::of(&counts);
        let (mut folder, mut unmarked) = (None, losses.total());
        if let Some(mut sink) = sink {
            // Nothing happened, and nothing was discarded, of which a packet would tell.
            if counts.packets == 0 {
                counts.metadata_bytes = 0;
                lock(&self.context.output).remove(KERNEL, sink);
            } else {
                counts.add(&self.dumped.counts);
                match sink.end(self.voice.ending(), losses) {
                    Ok(()) => unmarked = 0,
                    Err(error) => self.voice.fail(&error),
                }
                folder = Some(sink.path().to_owned());
            }
        }
        *lock(&self.recorded) = Recorded { counts, folder, unmarked };
        counts
    }
}

#[cfg(test)]
mod tests;
