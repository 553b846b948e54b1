//! Many event records to text on all CPUs, in order and in bounded memory.
//!
//! ```text
//! Slices ──┬─ worker: slice 0 ─┬─ chunks, slice by slice ── whoever writes them
//!          └─ worker: slice 1 ─┘
//! ```
//!
//! Each worker takes the next slice of time. The one whose slice is written now hands its text over as it
//! comes; the others keep theirs until it is their turn, so many chunks at most. The time since the event
//! record before is not known at a slice's first event record: it is put in where the slices meet.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use strata_ctf::read::{
    Damage, Discarded, DiscardedKind, Events, Message, Reader, Selection, Slices, TimeRange,
};

use crate::render::{Gap, Options, Renderer, Stamp};

/// Text that is handed over at once \[byte\]: less than a CPU's cache holds.
const CHUNK: usize = 256 << 10;
/// The very first of it \[byte\], so that something is shown at once.
const FIRST_CHUNK: usize = 16 << 10;
/// A slice of the trace \[byte\].
const SLICE: u64 = 256 << 10;
/// Chunks of a slice that may wait until they are written.
const WAITING: usize = 32;
/// Slices that may be rendered before it is their turn, besides one for each thread.
const AHEAD: u64 = 2;
/// Remarks of a slice that are kept; the others are counted.
const REMARKS: usize = 20;

/// Which event records, and how they are written.
pub struct Job<'r> {
    /// Where they are.
    pub reader: &'r Reader,
    /// When.
    pub range: TimeRange,
    /// How.
    pub options: Options,
    /// Which of them; `None`: all.
    pub filter: Option<&'r Selection>,
    /// Threads that render; 0 and 1: the caller's only.
    pub threads: usize,
    /// Whether to stop soon.
    pub stop: &'r (dyn Fn() -> bool + Sync),
}

/// What a trace says besides its event records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Something is damaged.
    Damage(Damage),
    /// Event records or packets were discarded.
    Discarded {
        /// The trace's folder.
        trace: String,
        /// The stream's file.
        stream: String,
        /// How many.
        count: u64,
        /// Of what.
        kind: DiscardedKind,
        /// The stream began with them: what they were counted from is not known.
        at_begin: bool,
        /// Between these times \[ns since 1970\].
        between: (Option<i64>, Option<i64>),
    },
}

/// What is handed over, in order.
#[derive(Debug)]
pub enum Output<'o> {
    /// Whole lines; now and then three parts of them.
    Text(&'o [u8]),
    /// A remark.
    Remark(&'o Remark),
    /// So many bytes of the trace were read, in all.
    Read(u64),
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Event records that were written.
    pub events: u64,
    /// Places that are damaged.
    pub damage: u64,
    /// Damage that was not handed over, because there was too much of it.
    pub damage_untold: u64,
    /// Discarded event records, over all remarks.
    pub discarded: u64,
    /// Somebody stopped it.
    pub stopped: bool,
}

impl Summary {
    fn add(&mut self, other: &Summary) {
        self.events += other.events;
        self.damage += other.damage;
        self.damage_untold += other.damage_untold;
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.stopped |= other.stopped;
    }
}

/// A part of a slice's text.
#[derive(Default)]
struct Chunk {
    text: Vec<u8>,
    gap: Option<Gap>,
    last: Option<Stamp>,
    remarks: Vec<Remark>,
    summary: Summary,
    /// The slice ends with it.
    is_end: bool,
}

/// Render, and hand everything to `sink`, which may end it.
pub fn run(job: &Job<'_>, sink: &mut dyn FnMut(Output<'_>) -> ControlFlow<()>) -> Summary {
    let shared = Shared {
        slices: Mutex::new((job.reader.slices(job.range, SLICE), 0)),
        queue: Mutex::new(Queue::default()),
        changed: Condvar::new(),
        end: AtomicBool::new(false),
        read: AtomicU64::new(0),
        ahead: AHEAD + job.threads as u64,
        buffers: Mutex::new(Vec::new()),
    };
    let mut writer =
        Writer { renderer: Renderer::new(&job.options), last: None, summary: Summary::default() };
    let mut head = Vec::new();
    writer.renderer.head(&mut head);
    if !head.is_empty() && sink(Output::Text(&head)).is_break() {
        return writer.summary;
    }
    if job.threads <= 1 {
        let mut worker = Worker::new(job, &shared);
        worker.alone(&mut |chunk| writer.write_unless(job.stop, chunk, &shared, sink));
    } else {
        thread::scope(|scope| {
            for _ in 0..job.threads {
                scope.spawn(|| {
                    let _leave = Leave(&shared);
                    Worker::new(job, &shared).together();
                });
            }
            shared.deliver(job.threads, &mut |chunk| {
                writer.write_unless(job.stop, chunk, &shared, sink)
            });
        });
    }
    writer.summary.stopped |= (job.stop)();
    writer.summary
}

/// Puts chunks together.
struct Writer {
    renderer: Renderer,
    last: Option<Stamp>,
    summary: Summary,
}

impl Writer {
    /// What was rendered before somebody stopped it is not written any more.
    fn write_unless(
        &mut self,
        stop: &dyn Fn() -> bool,
        chunk: Chunk,
        shared: &Shared<'_>,
        sink: &mut dyn FnMut(Output<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if stop() {
            return ControlFlow::Break(());
        }
        self.write(chunk, shared, sink)
    }

    fn write(
        &mut self,
        mut chunk: Chunk,
        shared: &Shared<'_>,
        sink: &mut dyn FnMut(Output<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.summary.add(&chunk.summary);
        for remark in &chunk.remarks {
            sink(Output::Remark(remark))?;
        }
        let (before, behind) = match &chunk.gap {
            Some(gap) => chunk.text.split_at_checked(gap.at).unwrap_or((&chunk.text, &[])),
            None => (&chunk.text[..], &[][..]),
        };
        if let Some(gap) = &chunk.gap {
            let mut joint = Vec::with_capacity(before.len() + 32);
            joint.extend_from_slice(before);
            self.renderer.fill(gap, self.last, &mut joint);
            sink(Output::Text(&joint))?;
            sink(Output::Text(behind))?;
        } else if !before.is_empty() {
            sink(Output::Text(before))?;
        }
        self.last = chunk.last.or(self.last);
        chunk.text.clear();
        lock(&shared.buffers).push(chunk.text);
        sink(Output::Read(shared.read.load(Ordering::Relaxed)))
    }
}

/// What workers and writer have in common.
struct Shared<'r> {
    slices: Mutex<(Slices<'r>, u64)>,
    queue: Mutex<Queue>,
    changed: Condvar,
    end: AtomicBool,
    read: AtomicU64,
    /// Slices that may be rendered behind the one that is written.
    ahead: u64,
    /// Used text buffers.
    buffers: Mutex<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct Queue {
    /// The slice that is written now.
    now: u64,
    /// Chunks by slice.
    chunks: BTreeMap<u64, VecDeque<Chunk>>,
    /// Workers that have ended.
    left: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that a worker has ended, however it did.
struct Leave<'s, 'r>(&'s Shared<'r>);

impl Drop for Leave<'_, '_> {
    fn drop(&mut self) {
        lock(&self.0.queue).left += 1;
        if thread::panicking() {
            self.0.end.store(true, Ordering::Relaxed);
        }
        self.0.changed.notify_all();
    }
}

impl Shared<'_> {
    /// Hand a chunk over when it may be; `Break`: nobody wants more.
    fn hand_over(&self, slice: u64, chunk: Chunk) -> ControlFlow<()> {
        let mut queue = lock(&self.queue);
        loop {
            if self.end.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            let waiting = queue.chunks.get(&slice).map_or(0, VecDeque::len);
            if waiting < WAITING && slice <= queue.now.saturating_add(self.ahead) {
                break;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.chunks.entry(slice).or_default().push_back(chunk);
        drop(queue);
        self.changed.notify_all();
        ControlFlow::Continue(())
    }

    /// Give all chunks to `write`, in order, until there are no more.
    fn deliver(&self, workers: usize, write: &mut dyn FnMut(Chunk) -> ControlFlow<()>) {
        loop {
            let mut queue = lock(&self.queue);
            let chunk = loop {
                let now = queue.now;
                if let Some(chunk) = queue.chunks.get_mut(&now).and_then(VecDeque::pop_front) {
                    break chunk;
                }
                if queue.left == workers {
                    return;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            if chunk.is_end {
                let now = queue.now;
                queue.chunks.remove(&now);
                queue.now += 1;
            }
            drop(queue);
            self.changed.notify_all();
            if write(chunk).is_break() {
                // Under the lock, so that no worker is between its look at this and its wait.
                let _queue = lock(&self.queue);
                self.end.store(true, Ordering::Relaxed);
                self.changed.notify_all();
                return;
            }
        }
    }
}

/// Renders slices.
struct Worker<'w, 'r> {
    job: &'w Job<'r>,
    shared: &'w Shared<'r>,
    renderer: Renderer,
    filter: Option<Selection>,
}

impl<'w, 'r> Worker<'w, 'r> {
    fn new(job: &'w Job<'r>, shared: &'w Shared<'r>) -> Worker<'w, 'r> {
        let renderer = Renderer::new(&job.options);
        Worker { job, shared, renderer, filter: job.filter.cloned() }
    }

    /// On the caller's thread: one slice, which is everything.
    fn alone(&mut self, write: &mut dyn FnMut(Chunk) -> ControlFlow<()>) {
        let mut events = self.job.reader.events(self.job.range);
        // Whoever does not want more has said so.
        let _ = self.slice(&mut events, true, write);
    }

    /// With others: slice by slice.
    fn together(&mut self) {
        loop {
            let (slice, number) = {
                let mut slices = lock(&self.shared.slices);
                let Some(slice) = slices.0.next() else { return };
                slices.1 += 1;
                (slice, slices.1 - 1)
            };
            let mut events = self.job.reader.events_of(&slice);
            let shared = self.shared;
            let done =
                self.slice(&mut events, number == 0, &mut |chunk| shared.hand_over(number, chunk));
            if done.is_break() {
                return;
            }
        }
    }

    /// Render a slice; chunks are handed over as they become full.
    fn slice(
        &mut self,
        events: &mut Events<'r>,
        is_first: bool,
        hand_over: &mut dyn FnMut(Chunk) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !is_first {
            self.renderer.begin_slice();
        }
        let mut limit = if is_first { FIRST_CHUNK } else { CHUNK };
        let mut chunk = Chunk::default();
        let (mut told, mut read) = (0, 0);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    if self.filter.as_mut().is_none_or(|filter| filter.accepts(&event)) {
                        self.renderer.event(&event, &mut chunk.text);
                        chunk.summary.events += 1;
                    }
                    if chunk.text.len() < limit {
                        continue;
                    }
                }
                Message::Packet(_) => {
                    if (self.job.stop)() {
                        break;
                    }
                    continue;
                }
                Message::Damage(damage) => {
                    chunk.summary.damage += u64::from(!damage.is_remark());
                    if told < REMARKS {
                        chunk.remarks.push(Remark::Damage(damage.clone()));
                    } else {
                        chunk.summary.damage_untold += 1;
                    }
                    told += 1;
                    continue;
                }
                Message::Discarded(discarded) => {
                    if discarded.kind == DiscardedKind::Records {
                        chunk.summary.discarded += discarded.count;
                    }
                    if chunk.remarks.len() < 2 * REMARKS {
                        chunk.remarks.push(discarded_remark(&discarded));
                    }
                    continue;
                }
            }
            self.finish(&mut chunk, events, &mut read);
            limit = (limit * 2).min(CHUNK);
            let text = lock(&self.shared.buffers).pop().unwrap_or_default();
            let next = Chunk { text, ..Chunk::default() };
            hand_over(std::mem::replace(&mut chunk, next))?;
            if (self.job.stop)() {
                break;
            }
        }
        self.finish(&mut chunk, events, &mut read);
        chunk.is_end = true;
        hand_over(chunk)?;
        if (self.job.stop)() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn finish(&mut self, chunk: &mut Chunk, events: &Events<'_>, read: &mut u64) {
        chunk.gap = self.renderer.take_gap();
        chunk.last = self.renderer.last();
        let bytes = events.bytes_read();
        self.shared.read.fetch_add(bytes.saturating_sub(*read), Ordering::Relaxed);
        *read = bytes;
    }
}

fn discarded_remark(discarded: &Discarded<'_>) -> Remark {
    Remark::Discarded {
        trace: discarded.stream.trace().path().display().to_string(),
        stream: discarded.stream.name().to_owned(),
        count: discarded.count,
        kind: discarded.kind,
        at_begin: discarded.at_begin,
        between: (discarded.from, discarded.to),
    }
}

/// From when to when there are packets; where these do not say, event records, which are then all read.
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

/// As many threads as this machine has CPUs for this process.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicU32;

    const EVENTS: u64 = 200;
    const PACKETS: u64 = 300;

    /// A trace of two streams that is there for as long as this.
    struct Trace(PathBuf);

    impl Trace {
        fn new() -> Trace {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("strata-pipeline-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("metadata"), METADATA).unwrap();
            for stream in 0..2 {
                fs::write(folder.join(format!("s{stream}")), packets(stream)).unwrap();
            }
            Trace(folder)
        }
    }

    impl Drop for Trace {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const METADATA: &str = "/* CTF 1.8 */
        typealias integer { size = 64; align = 8; signed = false; } := u64;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; offset_s = 1700000000; };
        typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
        stream {
            packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size;
                u64 packet_size; u64 cpu_id; };
            event.header := struct { ts timestamp; };
        };
        event { name = \"e\"; fields := struct { u64 number; u64 other; }; };";

    fn packets(stream: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut push = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
        for packet in 0..PACKETS {
            let begin = packet * 1_000_000 + stream;
            let bits = (5 + 3 * EVENTS) * 64;
            for value in [begin, begin + 10 * (EVENTS - 1), bits, bits, stream] {
                push(value);
            }
            for event in 0..EVENTS {
                for value in [begin + 10 * event, packet * EVENTS + event, stream] {
                    push(value);
                }
            }
        }
        bytes
    }

    /// The text of it, until this returns that it is enough.
    fn text(
        trace: &Trace,
        threads: usize,
        enough: &mut dyn FnMut(&[u8]) -> bool,
    ) -> (Vec<u8>, Summary) {
        let reader = Reader::open(&[&trace.0]).unwrap();
        let job = Job {
            reader: &reader,
            range: TimeRange::ALL,
            options: Options::default(),
            filter: None,
            threads,
            stop: &|| false,
        };
        let mut all = Vec::new();
        let summary = run(&job, &mut |output| {
            if let Output::Text(text) = output {
                all.extend_from_slice(text);
                if enough(&all) {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        (all, summary)
    }

    #[test]
    fn pipeline_with_any_number_of_threads_gives_the_same_text() {
        let trace = Trace::new();
        let (alone, summary) = text(&trace, 1, &mut |_| false);
        assert_eq!(summary.events, 2 * EVENTS * PACKETS);
        let lines = String::from_utf8(alone.clone()).unwrap();
        assert_eq!(lines.lines().count() as u64, summary.events);
        assert_eq!(lines.matches("(+?.?????????)").count(), 1);
        for threads in [2, 3, 8] {
            let (together, other) = text(&trace, threads, &mut |_| false);
            assert_eq!(other, summary);
            assert!(together == alone, "{threads} threads");
        }
    }

    #[test]
    fn pipeline_when_nobody_wants_more_ends_at_once() {
        let trace = Trace::new();
        for threads in [1, 2, 8] {
            let (some, _) = text(&trace, threads, &mut |all| !all.is_empty());
            assert!(some.len() <= 2 * FIRST_CHUNK, "{threads} threads: {}", some.len());
        }
    }

    #[test]
    fn pipeline_when_somebody_stops_it_ends_with_a_whole_line() {
        let trace = Trace::new();
        let reader = Reader::open(&[&trace.0]).unwrap();
        for threads in [1, 2, 8] {
            let stop = AtomicBool::new(false);
            let stopped = || stop.load(Ordering::Relaxed);
            let job = Job {
                reader: &reader,
                range: TimeRange::ALL,
                options: Options::default(),
                filter: None,
                threads,
                stop: &stopped,
            };
            let mut all = Vec::new();
            let summary = run(&job, &mut |output| {
                if let Output::Text(text) = output {
                    all.extend_from_slice(text);
                    stop.store(true, Ordering::Relaxed);
                }
                ControlFlow::Continue(())
            });
            assert!(summary.stopped && summary.events < 2 * EVENTS * PACKETS);
            assert_eq!(all.last(), Some(&b'\n'));
        }
    }

    #[test]
    fn span_of_a_trace_is_that_of_its_packets() {
        let trace = Trace::new();
        let reader = Reader::open(&[&trace.0]).unwrap();
        let begin = 1_700_000_000_000_000_000;
        let to = begin + (PACKETS as i64 - 1) * 1_000_000 + 1 + 10 * (EVENTS as i64 - 1);
        assert_eq!(span(&reader), Some(TimeRange { from: begin, to }));
    }
}
