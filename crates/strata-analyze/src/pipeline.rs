//! Renders many event records as text on all CPUs, in order and in bounded memory.
//!
//! ```text
//! Slices ──┬─ worker: slice 0 ─┬─ chunks, slice by slice ── whoever writes them
//!          └─ worker: slice 1 ─┘
//! ```
//!
//! Each worker takes the next slice of time. The worker whose slice is being written passes its text on at once.
//! The others keep their text until it is their turn, up to a limit of chunks.
//!
//! A slice is no smaller than its packets. If packets are large, the text of a slice is more than may wait. All
//! workers then render the slice together: each reads all of it, which is little of the work, and renders its
//! share of the blocks of event records.
//!
//! At the first record of a slice or block, the time since the previous record is unknown. It is filled in when
//! the texts are joined.
//!
//! # Three ways to render
//! - One thread (`RenderWorker::alone`): if one is asked for, if the number of records is limited, or if a record
//!   is shown with what all earlier ones say (loaded objects, other clocks).
//! - Several workers (`together`) and the caller's thread, which writes ([`ChunkWriter`]) and is the only one
//!   that calls `sink`.
//! - [`FollowRenderer`] for a trace that is being recorded: the caller gives it records as they come, and it
//!   shows what can no longer change.
//!
//! The text does not depend on the number of workers: tests compare it.
//!
//! # Ends
//! `sink` ends the job by `Break`, and [`Job::stop`] is asked now and then. Workers that wait for room in the
//! queue are then woken. After the last wanted record, calls that are open may still get their ends, from up to
//! `CLOSING` further records. Damage of the trace is not an error: it is passed to `sink` as a [`Remark`], at the
//! place of the text where it belongs.

mod chunk;
mod live;
mod queue;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;

use strata_ctf::read::{Event, Events, Message, Reader, Selection, Slice, Slices, TimeRange};

use crate::command_descendants::{Mine, MineLookup};
use crate::render::{Format, Lines, Options, Renderer, Stamp};
use crate::short::{Joiner, Seed, Short, WantedRecord};
use chunk::{Chunk, ChunkEnd, SliceFindings, CHUNK, WAITING};
use queue::{lock, Queue, Task};

pub use chunk::{PipelineOutput, PipelineSummary, Remark};
pub use live::FollowRenderer;

/// The size of the very first chunk of text \[byte\]. It is small, so that something is shown at once.
const FIRST_CHUNK: usize = 16 << 10;
/// The size of a slice of the trace \[byte\].
const SLICE: u64 = 256 << 10;
/// The size of a slice that all workers render together \[byte\]. It is large, since packets at its borders are read
/// twice.
const LARGE_SLICE: u64 = 64 << 20;
/// The number of event records in a block, which make about one chunk of text.
const BLOCK: u64 = 2048;
/// The number of slices of the trace that may be rendered before their turn, in addition to one for each worker.
const AHEAD: u64 = 2;
/// The assumed size of text for each byte of a trace, until it has been measured.
const TEXT_PER_BYTE: u64 = 4;
/// The most event records after the last wanted one that are read to find the ends of system calls.
const CLOSING: u64 = 1 << 16;
/// The length of time before a trace's end that is searched first for its last record \[ns\].
const LOOK_BACK: i64 = 10_000_000;

/// A selection of event records, and how to write them.
pub struct Job<'r> {
    pub reader: &'r Reader,
    /// The time range of the event records, both ends included.
    pub range: TimeRange,
    /// The output format, and how times and names are shown.
    pub options: Options,
    /// The filter of records; `None` selects all.
    pub filter: Option<&'r Selection>,
    /// The records of the recorded command, if only these are wanted.
    pub mine: Option<&'r Mine>,
    /// The most event records to render. A limited job is done by one thread. In the short format, it counts lines.
    pub limit: u64,
    /// The number of worker threads; with 0 and 1, the caller's thread renders.
    pub threads: usize,
    /// Function that returns true if rendering should stop soon.
    pub stop: &'r (dyn Fn() -> bool + Sync),
}

/// Renders the records and passes all output to `sink`, which may end the job.
pub fn run(
    job: &Job<'_>,
    sink: &mut dyn FnMut(PipelineOutput<'_>) -> ControlFlow<()>,
) -> PipelineSummary {
    // What objects a process has loaded is known by all that is in front of an event, and so is what is close to it.
    let knows_before = job.options.source.is_some() || job.options.clocks.is_some();
    let is_one = job.limit < u64::MAX || knows_before;
    let threads = if is_one { 1 } else { job.threads.max(1) };
    let shared = PipelineShared::new(job, threads);
    let joiner = (job.options.format == Format::Short)
        .then(|| Joiner::new(&job.options, Seed::read(job.reader, job.range, job.stop)));
    let renderer = Renderer::new(&job.options);
    let mut writer = ChunkWriter {
        renderer,
        joiner,
        has_ended: false,
        last: None,
        summary: PipelineSummary::default(),
    };
    let mut head = Vec::new();
    writer.renderer.head(&mut head);
    if !head.is_empty() && sink(PipelineOutput::Text(&head)).is_break() {
        return writer.summary;
    }
    if threads == 1 {
        let mut worker = RenderWorker::new(job, &shared);
        worker.alone(&mut |chunk| writer.write_unless(job.stop, chunk, &shared, sink));
    } else {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let _leave = shared.queue.leave_later();
                    RenderWorker::new(job, &shared).together();
                });
            }
            shared
                .queue
                .deliver(threads, &mut |chunk| writer.write_unless(job.stop, chunk, &shared, sink));
        });
        writer.unlike(&shared.queue.unlike(), sink);
    }
    writer.finish(job.stop, sink);
    writer.summary.stopped |= (job.stop)();
    writer.summary
}

/// Writes chunks in their order.
struct ChunkWriter {
    renderer: Renderer,
    joiner: Option<Joiner>,
    /// True if the reader of the output wants no more.
    has_ended: bool,
    last: Option<Stamp>,
    summary: PipelineSummary,
}

impl ChunkWriter {
    /// Writes the text that is left after the last chunk.
    fn finish(
        &mut self,
        stop: &dyn Fn() -> bool,
        sink: &mut dyn FnMut(PipelineOutput<'_>) -> ControlFlow<()>,
    ) {
        let Some(joiner) = &mut self.joiner else { return };
        self.summary.hidden = joiner.hidden();
        if self.has_ended || stop() {
            return;
        }
        let text = joiner.end();
        if !text.is_empty() {
            // Nobody is asked whether there is to be more: there is not.
            let _ = sink(PipelineOutput::Text(text));
        }
    }

    /// Writes a chunk, unless the job was stopped.
    fn write_unless(
        &mut self,
        stop: &dyn Fn() -> bool,
        chunk: Chunk,
        shared: &PipelineShared<'_>,
        sink: &mut dyn FnMut(PipelineOutput<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if stop() {
            return ControlFlow::Break(());
        }
        let done = self.write(chunk, shared, sink);
        self.has_ended |= done.is_break();
        done
    }

    fn write(
        &mut self,
        mut chunk: Chunk,
        shared: &PipelineShared<'_>,
        sink: &mut dyn FnMut(PipelineOutput<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.summary.add(&chunk.summary);
        for remark in &chunk.remarks {
            sink(PipelineOutput::Remark(remark))?;
        }
        if let (Some(joiner), Some(unit)) = (&mut self.joiner, chunk.unit.take()) {
            let text = joiner.add(chunk.text.as_bytes(), unit);
            if !text.is_empty() {
                sink(PipelineOutput::Text(text))?;
            }
            chunk.text.clear();
        }
        let text = chunk.text.as_bytes();
        let (before, behind) = match &chunk.gap {
            Some(gap) => text.split_at_checked(gap.at).unwrap_or((text, &[])),
            None => (text, &[][..]),
        };
        if let Some(gap) = &chunk.gap {
            let mut joint = Vec::with_capacity(before.len() + 32);
            joint.extend_from_slice(before);
            self.renderer.fill(gap, self.last, &mut joint);
            sink(PipelineOutput::Text(&joint))?;
            sink(PipelineOutput::Text(behind))?;
        } else if !before.is_empty() {
            sink(PipelineOutput::Text(before))?;
        }
        self.last = chunk.last.or(self.last);
        chunk.text.clear();
        lock(&shared.buffers).push(chunk.text);
        sink(PipelineOutput::Read(shared.read.load(Ordering::Relaxed)))
    }

    /// Reports slices in which the workers' findings differ, because files were changed while they were read.
    fn unlike(
        &mut self,
        found: &[SliceFindings],
        sink: &mut dyn FnMut(PipelineOutput<'_>) -> ControlFlow<()>,
    ) {
        for seen in found {
            self.summary.damage += (seen.elsewhere.len() as u64).max(1);
            self.summary.damage_untold += u64::from(seen.elsewhere.is_empty());
            for damage in &seen.elsewhere {
                // Nobody is asked whether there is to be more: there is not.
                let _ = sink(PipelineOutput::Remark(&Remark::Damage(damage.clone())));
            }
        }
    }
}

/// The state that workers and writer share.
struct PipelineShared<'r> {
    tasks: Mutex<Tasks<'r>>,
    queue: Queue,
    /// The number of bytes of the trace that were read so far.
    read: AtomicU64,
    text: AtomicU64,
    buffers: Mutex<Vec<Lines>>,
}

/// The slices that are not rendered yet.
struct Tasks<'r> {
    slices: Slices<'r>,
    /// The slice that is being divided among workers, and its next share that no worker has taken.
    next: Option<(Slice, Task)>,
    number: u64,
}

impl<'r> Tasks<'r> {
    fn new(job: &Job<'r>, bytes: u64) -> Tasks<'r> {
        Tasks { slices: job.reader.slices(job.range, bytes), next: None, number: 0 }
    }
}

impl<'r> PipelineShared<'r> {
    fn new(job: &Job<'r>, threads: usize) -> PipelineShared<'r> {
        let mut shared = PipelineShared {
            tasks: Mutex::new(Tasks::new(job, SLICE)),
            queue: Queue::new(AHEAD + threads as u64),
            read: AtomicU64::new(0),
            text: AtomicU64::new(0),
            buffers: Mutex::new(Vec::new()),
        };
        if threads > 1 && job.filter.is_none() {
            let first = job.reader.slices(job.range, SLICE).next();
            if first.is_some_and(|slice| shared.is_large(&slice, job)) {
                shared.tasks = Mutex::new(Tasks::new(job, LARGE_SLICE));
            }
        }
        shared
    }

    /// Returns the next slice, or the next share of a slice, with its task.
    fn task(&self, job: &Job<'_>) -> Option<(Slice, Task)> {
        let mut tasks = lock(&self.tasks);
        let (slice, task) = match tasks.next.take() {
            Some(begun) => begun,
            None => {
                let slice = tasks.slices.next()?;
                let shares = if self.is_large(&slice, job) { job.threads.max(1) } else { 1 };
                tasks.number += 1;
                let task = Task { slice: tasks.number - 1, share: 0, shares };
                (slice, task)
            }
        };
        if task.share + 1 < task.shares {
            tasks.next = Some((slice.clone(), Task { share: task.share + 1, ..task }));
        }
        Some((slice, task))
    }

    /// Returns true if a slice is expected to have more text than may wait.
    fn is_large(&self, slice: &Slice, job: &Job<'_>) -> bool {
        let read = self.read.load(Ordering::Relaxed);
        let text = self.text.load(Ordering::Relaxed);
        let expected = match read {
            0 if job.filter.is_some() => 0,
            0 => slice.bytes().saturating_mul(TEXT_PER_BYTE),
            _ => (u128::from(slice.bytes()) * u128::from(text) / u128::from(read)) as u64,
        };
        expected > WAITING as u64
    }
}

struct RenderWorker<'w, 'r> {
    job: &'w Job<'r>,
    shared: &'w PipelineShared<'r>,
    renderer: Renderer,
    filter: Option<Selection>,
    mine: Option<MineLookup<'r>>,
    short: Option<Short>,
    /// The number of event records that were read after the last wanted one.
    closing: u64,
}

impl<'w, 'r> RenderWorker<'w, 'r> {
    fn new(job: &'w Job<'r>, shared: &'w PipelineShared<'r>) -> RenderWorker<'w, 'r> {
        let renderer = Renderer::with_places(&job.options, job.reader);
        let short = (job.options.format == Format::Short)
            .then(|| Short::new(&job.options, job.limit < u64::MAX));
        let mine = job.mine.map(Mine::ask);
        RenderWorker { job, shared, renderer, filter: job.filter.cloned(), mine, short, closing: 0 }
    }

    /// Begins a slice, for which the previous records are not known.
    fn begin_slice(&mut self) {
        self.renderer.begin_slice();
        if let Some(short) = &mut self.short {
            short.begin_slice();
        }
    }

    /// Renders an event record if it is wanted. Returns the number of records by which the output grows.
    #[inline]
    fn event(&mut self, event: &Event<'_>, out: &mut Lines) -> u64 {
        let is_mine = self.mine.as_mut().is_none_or(|mine| mine.accepts(event));
        let is_asked = is_mine && self.filter.as_mut().is_none_or(|filter| filter.accepts(event));
        let Some(short) = &mut self.short else {
            if is_asked {
                self.renderer.event_of_many(event, out);
            } else {
                self.renderer.skip(event);
            }
            return u64::from(is_asked);
        };
        let filter = &mut self.filter;
        let wanted = match (is_asked, is_mine) {
            (true, _) => WantedRecord::Yes,
            (false, true) => WantedRecord::WithItsCall,
            // So is the other end: it is of the same thread.
            (false, false) => WantedRecord::No,
        };
        if self.renderer.names_code() {
            self.renderer.skip(event);
            short.set_stacks(self.renderer.stacks(event));
        }
        short.event(event, wanted, &mut |class| {
            filter.as_mut().is_none_or(|filter| filter.may_accept(class))
        })
    }

    /// Returns true if the chunk has enough text.
    fn is_full(&self, chunk: &Chunk, limit: usize) -> bool {
        match &self.short {
            Some(short) => short.is_full(limit),
            None => chunk.text.len() >= limit,
        }
    }

    /// Renders all records as one slice on the caller's thread.
    fn alone(&mut self, write: &mut dyn FnMut(Chunk) -> ControlFlow<()>) {
        if self.renderer.wants_all() {
            if let Some(to) = self.job.range.from.checked_sub(1) {
                self.learn(TimeRange { from: i64::MIN, to });
            }
        }
        let mut events = self.job.reader.events(self.job.range);
        // Whoever does not want more has said so.
        let _ = self.slice(&mut events, Task { slice: 0, share: 0, shares: 1 }, write);
    }

    /// Reads records from before the wanted time, since later records are shown with facts from them.
    fn learn(&mut self, range: TimeRange) {
        let mut events = self.job.reader.events(range);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => self.renderer.skip(&event),
                Message::Packet(_) if (self.job.stop)() => return,
                _ => {}
            }
        }
    }

    /// Renders slices as one of several workers, until there are no more.
    fn together(&mut self) {
        while let Some((slice, task)) = self.shared.task(self.job) {
            let mut events = self.job.reader.events_of(&slice);
            let shared = self.shared;
            let done =
                self.slice(&mut events, task, &mut |chunk| shared.queue.hand_over(task, chunk));
            if done.is_break() {
                // Others may wait for what this one does not render any more.
                return shared.queue.end();
            }
        }
    }

    /// Renders a slice or a share of it, and passes chunks on as they become full.
    fn slice(
        &mut self,
        events: &mut Events<'r>,
        task: Task,
        hand_over: &mut dyn FnMut(Chunk) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let is_first = task.slice == 0 && task.share == 0;
        if !is_first {
            self.begin_slice();
        }
        let mut limit = if is_first { FIRST_CHUNK } else { CHUNK };
        let mut chunk = Chunk::default();
        let mut seen = SliceFindings::default();
        let mut read = 0;
        let block = if task.shares > 1 { BLOCK } else { u64::MAX };
        let (mut left, mut turn) = (block, 0);
        let mut wanted = self.job.limit.max(1);
        while let Some(message) = events.next() {
            let is_mine = turn == task.share;
            match message {
                Message::Event(event) => {
                    left -= 1;
                    if is_mine {
                        let shown = self.event(&event, &mut chunk.text);
                        chunk.summary.events += shown;
                        wanted = wanted.saturating_sub(shown);
                        if wanted == 0 && self.is_end() {
                            break;
                        }
                    } else {
                        self.renderer.skip(&event);
                    }
                    if left > 0 && (!is_mine || !self.is_full(&chunk, limit)) {
                        continue;
                    }
                }
                Message::Packet(_) => {
                    if (self.job.stop)() {
                        return ControlFlow::Break(());
                    }
                    continue;
                }
                Message::Damage(damage) => {
                    seen.damage(damage, is_mine, &mut chunk);
                    if let Some(short) =
                        self.short.as_mut().filter(|_| is_mine && !damage.is_remark())
                    {
                        short.gap(None, |_| ());
                    }
                    continue;
                }
                Message::Discarded(discarded) => {
                    if is_mine {
                        chunk.discarded(&discarded);
                        let renderer = &mut self.renderer;
                        match &mut self.short {
                            None => renderer.discarded(&discarded, &mut chunk.text),
                            Some(short) => {
                                let trace = discarded.stream.trace().index();
                                short.gap(Some(trace), |out| renderer.discarded(&discarded, out));
                            }
                        }
                    }
                    continue;
                }
            }
            if is_mine {
                self.finish(&mut chunk, events, &mut read, task);
                limit = (limit * 2).min(CHUNK);
                let text = lock(&self.shared.buffers).pop().unwrap_or_default();
                let mut full = std::mem::replace(&mut chunk, Chunk { text, ..Chunk::default() });
                if left == 0 {
                    full.end = ChunkEnd::Block { next: (turn + 1) % task.shares };
                }
                hand_over(full)?;
                if (self.job.stop)() {
                    return ControlFlow::Break(());
                }
            }
            if left == 0 {
                seen.blocks += 1;
                (left, turn) = (block, (turn + 1) % task.shares);
                if turn == task.share {
                    self.begin_slice();
                }
            }
        }
        seen.left = left;
        self.finish(&mut chunk, events, &mut read, task);
        chunk.end = ChunkEnd::Slice(seen);
        hand_over(chunk)?;
        if (self.job.stop)() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Returns true if the output ends after the last wanted record. In the short format, open calls still get their
    /// ends if these are near.
    fn is_end(&mut self) -> bool {
        let Some(short) = &mut self.short else { return true };
        short.close();
        self.closing += 1;
        !short.has_open() || self.closing > CLOSING
    }

    fn finish(&mut self, chunk: &mut Chunk, events: &Events<'_>, read: &mut u64, task: Task) {
        if let Some(short) = &mut self.short {
            chunk.unit = Some(short.finish(&mut chunk.text));
        }
        let unsure = self.short.as_mut().map_or(0, Short::take_unsure);
        chunk.summary.unsure += unsure + self.renderer.take_unsure();
        chunk.gap = self.renderer.take_gap();
        chunk.last = self.renderer.last();
        self.shared.text.fetch_add(chunk.text.len() as u64, Ordering::Relaxed);
        // All shares read the same.
        if task.share == 0 {
            let bytes = events.bytes_read();
            self.shared.read.fetch_add(bytes.saturating_sub(*read), Ordering::Relaxed);
            *read = bytes;
        }
    }
}

/// Returns the time from the first to the last packet. If packets do not say times, all event records are read.
pub fn span(reader: &Reader) -> Option<TimeRange> {
    reader.span().or_else(|| {
        let mut span: Option<TimeRange> = None;
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            let Message::Event(event) = message else { continue };
            let Some(time) = event.time() else { continue };
            let so_far = span.unwrap_or(TimeRange { from: time, to: time });
            span = Some(TimeRange { from: so_far.from.min(time), to: so_far.to.max(time) });
        }
        span
    })
}

/// Returns the time from the first packet to the last record. Packets may go on after the last record, until recording
/// stops. The search for the last record begins at the end and goes back, doubling its length each time.
pub fn span_of_records(reader: &Reader) -> Option<TimeRange> {
    let span = span(reader)?;
    let mut length = LOOK_BACK;
    loop {
        let from = span.to.saturating_sub(length).max(span.from);
        let mut events = reader.events(TimeRange { from, to: i64::MAX });
        let mut last: Option<i64> = None;
        while let Some(message) = events.next() {
            if let Message::Event(event) = message {
                last = last.max(event.time());
            }
        }
        if last.is_some() || from == span.from {
            return Some(TimeRange { to: last.unwrap_or(span.to), ..span });
        }
        length = length.saturating_mul(2);
    }
}

/// Returns the number of CPUs that this process may use.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;
