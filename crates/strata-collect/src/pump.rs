//! The pump: one thread for each layer, which moves packets from the channels of all sources to their traces.
//!
//! A layer sends its sources to the pump as they appear. For each source the pump has a
//! [`Collector`], which writes the packets of the source's channel to a sink, without decoding a record.
//!
//! ```text
//! PumpOrder::Take      ─▶ Idle(Streams) ── first record ──▶ Open(Collector) ── producers ended, all is written ──▶ Closed
//! PumpOrder::Rotate    ─▶ Open ─▶ Idle: the trace is complete, and the next record begins another one
//! PumpOrder::Snapshot  ─▶ copies of what the channels hold; nothing is consumed
//! ```
//!
//! # A round
//! [`Pump::run`] repeats these steps until the order channel is closed, that is, until every layer thread that could send a source
//! has closed its sender:
//!
//! 1. It accepts orders for the length of the pause. A new source is polled at once, since it may be recording already.
//! 2. It completes traces that a rotation could not complete for want of disk space.
//! 3. It polls each source for whole packets, and at the flush period also writes the published beginning of packets that are
//!    still being filled.
//! 4. It closes sources whose producers have ended, and passes the counts to the [`Monitor`].
//!
//! The pause doubles while nothing comes, up to a limit, and is shortest after a round that moved packets.
//!
//! # Threads
//! Only the pump's thread touches the collectors. Orders come from any thread; a snapshot or a rotation answers through the reply
//! sender of its order, and the files are then finished by the thread that asked ([`Finish`]), so that the pump is not delayed.
//! The [`Monitor`] is called in the pump's thread.
//!
//! # Errors
//! A failed write ends either everything, if the output itself has failed (no space, removed folder), or the one source whose
//! channel is damaged. With `must_wait`, which sessions set while their disk is full, sources keep their packets in the buffers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_model::{Counts, StreamLoss, TimeSource};
use strata_ring::Channel;

use crate::buffer_history::HistoryMeter;
use crate::collector::{now_ns, Collector};
use crate::error::Error;
use crate::growing_metadata::Kinds;
use crate::output::Output;
use crate::sink::WrittenTrace;
use crate::snapshot::{self, HeldTrace, SnapshotSpan};
use crate::source::{BufferState, Finish, Monitor, OpenedTrace, Source, TracePoint};
use crate::stats::{counts_of, held_of, StreamStats};
use crate::streams::Streams;

/// Pause after a round that found packets. Long enough for a producer at full speed to fill part of a sub-buffer, short
/// enough to return before all are full.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest pause, after some rounds without packets.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Period at which counts are reported to the monitor.
const COUNT_PERIOD: Duration = Duration::from_millis(100);

/// Orders to a pump.
pub enum PumpOrder<S> {
    /// Adds a source.
    Take(Arrival<S>),
    /// Makes snapshots of all sources in this output. The reply has the traces that still have to be written.
    Snapshot(Arc<Mutex<dyn Output>>, SnapshotSpan, Sender<Result<Vec<HeldTrace>, Error>>),
    /// Writes what is published and completes the present traces; the sources continue in other traces. The reply has
    /// the work that is left on the completed ones.
    Rotate(Arc<Mutex<dyn Output>>, Sender<Vec<Finish>>),
}

/// Modes in which a pump handles packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Packets are written as they arrive. The published beginning of a sub-buffer being filled is written once per
    /// `flush`; if that is zero, at the end only.
    Write { flush: Duration },
    /// Packets stay in the channels until a snapshot is requested, as in a flight recorder. At most [`ENDED_MAX`]
    /// sources that have ended are kept.
    Hold,
}

/// The most ended sources that are held for the next snapshot.
pub const ENDED_MAX: usize = 64;

/// A source that is handed over to the thread of a pump.
#[derive(Debug)]
pub struct Arrival<S> {
    /// The source, which knows what the channel records.
    pub source: S,
    /// Channel of the source. Nothing has been read from it.
    pub channel: Channel,
}

/// State of a source's trace.
#[derive(Debug)]
enum SourceOutput {
    /// The source has no trace: nothing has been recorded, or nothing since the last trace was completed.
    Idle(Box<Streams>),
    /// A trace is open.
    Open(Box<Collector>),
    /// The source is closed.
    Closed,
}

/// The work that is left before a trace's first packet can be written; it is tried again when there is disk space.
#[derive(Debug)]
enum Begins {
    /// The trace's metadata are set, or are to be made from these kinds.
    Described(Option<Box<Kinds>>),
    /// The description was requested, and has to be written.
    Told,
}

#[derive(Debug)]
struct Pumped<S> {
    source: S,
    output: SourceOutput,
    streams: u32,
    /// Work that is left on the opened trace before its first packet; `None` if there is no such work.
    begins: Option<Begins>,
    /// True if the discards already include events for which no program ran.
    has_not_run: bool,
    /// True if packets go to snapshots only.
    is_held: bool,
    /// Size of the metadata of completed traces \[byte\].
    metadata_bytes: u64,
    last: Counts,
    /// Counts of the source's streams at the last look, and the time of that look \[ns\].
    streams_seen: Vec<StreamStats>,
    seen_ns: u64,
    /// Number of the source's events that were reported to the monitor.
    events: u64,
    history: HistoryMeter,
}

/// Moves packets of all sources of a layer; see the module.
pub struct Pump<'a, S> {
    monitor: &'a dyn Monitor,
    orders: Receiver<PumpOrder<S>>,
    sources: Vec<Pumped<S>>,
    keep: Keep,
    time: TimeSource,
    next_flush: Option<Instant>,
    next_count: Instant,
    /// Counts of closed sources.
    closed: Counts,
    /// Discards of closed sources, by CPU.
    closed_losses: Vec<StreamLoss>,
    /// How full the fullest stream was at the last look \[%\].
    fill: u8,
    /// Output to which a rotation could not move all traces yet, because the disk was full.
    uncut: Option<Arc<Mutex<dyn Output>>>,
}

impl<'a, S: Source> Pump<'a, S> {
    /// Makes a pump that carries out `orders` and takes its pauses and flush periods from `time`.
    #[must_use]
    pub fn new(
        orders: Receiver<PumpOrder<S>>,
        monitor: &'a dyn Monitor,
        keep: Keep,
        time: TimeSource,
    ) -> Pump<'a, S> {
        let now = time.now();
        let next_flush = match keep {
            Keep::Write { flush } if !flush.is_zero() => Some(now + flush),
            _ => None,
        };
        Pump {
            monitor,
            orders,
            sources: Vec::new(),
            keep,
            time,
            next_flush,
            next_count: now,
            closed: Counts::default(),
            closed_losses: Vec::new(),
            fill: 0,
            uncut: None,
        }
    }

    /// Runs until all senders of orders are closed and all packets are written. Senders must be closed when everything
    /// is switched off. Returns the counts of what was recorded.
    pub fn run(mut self) -> Counts {
        let mut pause = PAUSE_MIN;
        while let Some(first) = self.arrive(pause) {
            self.cut_late();
            self.look_at_fill();
            let packets = first.saturating_add(self.round());
            self.close_ended();
            self.count();
            pause = match packets {
                0 => (pause * 2).min(PAUSE_MAX),
                _ => PAUSE_MIN,
            };
        }
        for pumped in std::mem::take(&mut self.sources) {
            if let Some(pumped) = self.close(pumped) {
                self.drop_rest(pumped);
            }
        }
        self.monitor.set_counts(&self.closed);
        let losses = self.closed_losses;
        self.monitor.set_buffers(BufferState { losses, fill: self.fill, history: None });
        self.closed
    }

    /// Accepts orders for the length of the pause. Returns how many packets were moved from new sources at once; `None`
    /// if all senders are closed.
    ///
    /// A thousand sources may arrive one after the other. The existing ones are not polled for each of them, and this
    /// thread is not woken by each.
    fn arrive(&mut self, pause: Duration) -> Option<u64> {
        let until = self.time.now() + pause;
        loop {
            let rest = until.saturating_duration_since(self.time.now());
            match self.time.receive(&self.orders, rest) {
                Ok(order) => self.obey(order),
                Err(RecvTimeoutError::Timeout) => return Some(0),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            let first = self.sources.len().saturating_sub(1);
            loop {
                match self.orders.try_recv() {
                    Ok(order) => self.obey(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return None,
                }
            }
            // What comes may be at work already, and fill its buffers before the pause is over.
            let rest = until.saturating_duration_since(self.time.now());
            let packets = self.poll(first);
            if rest.is_zero() || packets > 0 {
                return Some(packets);
            }
            self.time.pause(rest.min(PAUSE_MIN));
        }
    }

    fn obey(&mut self, order: PumpOrder<S>) {
        match order {
            PumpOrder::Take(arrival) => self.add(arrival),
            PumpOrder::Snapshot(output, span, reply) => {
                let sources = self.sources.iter_mut();
                let held = sources.filter_map(|one| one.snapshot(&output, span).transpose());
                // Who asked may have gone.
                let _ = reply.send(held.collect());
            }
            PumpOrder::Rotate(output, reply) => {
                // Who asked may have gone: what is to be done with a trace is done all the same.
                if let Err(left) = reply.send(self.rotate(&output)) {
                    left.0.into_iter().for_each(|finish| finish());
                }
                self.uncut = self.monitor.lacks_room().then_some(output);
            }
        }
    }

    /// Completes traces that a rotation could not complete because the disk was full.
    fn cut_late(&mut self) {
        if self.uncut.is_none() || self.monitor.must_wait() {
            return;
        }
        if let Some(output) = self.uncut.take() {
            self.rotate(&output).into_iter().for_each(|finish| finish());
            self.uncut = self.monitor.lacks_room().then_some(output);
        }
    }

    /// Completes all traces. A trace that cannot be completed stays where it is, and is reported as a failed write.
    fn rotate(&mut self, output: &Mutex<dyn Output>) -> Vec<Finish> {
        let mut all = Vec::new();
        let period = match self.keep {
            Keep::Write { flush } => flush,
            Keep::Hold => Duration::ZERO,
        };
        self.each(0, |pumped| pumped.flush(period));
        for pumped in &mut self.sources {
            if self.monitor.has_failed() || self.monitor.lacks_room() {
                break;
            }
            let done = match pumped.cut(output) {
                Ok(None) => Ok(()),
                Ok(Some(finish)) => {
                    all.push(finish);
                    match S::BEGINS_AT_ONCE {
                        true => pumped.open(),
                        false => Ok(()),
                    }
                }
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                failed(self.monitor, pumped, &error);
            }
        }
        all
    }

    fn add(&mut self, arrival: Arrival<S>) {
        let mut pumped = Pumped::new(arrival);
        pumped.is_held = self.keep == Keep::Hold;
        let begins = self.keep != Keep::Hold && S::BEGINS_AT_ONCE;
        if begins && !self.monitor.has_failed() && !self.monitor.lacks_room() {
            if let Err(error) = pumped.open() {
                failed(self.monitor, &mut pumped, &error);
            }
        }
        self.sources.push(pumped);
    }

    /// Polls or flushes all sources once. Returns how many packets were moved.
    fn round(&mut self) -> u64 {
        let (now, Keep::Write { flush }) = (self.time.now(), self.keep) else { return 0 };
        if self.next_flush.is_none_or(|time| now < time) {
            return self.poll(0);
        }
        self.next_flush = Some(now + flush);
        self.each(0, |pumped| pumped.flush(flush))
    }

    /// Takes the whole packets of the sources from index `first` on. Returns the number of packets.
    fn poll(&mut self, first: usize) -> u64 {
        self.each(first, Pumped::poll)
    }

    fn each(&mut self, first: usize, work: impl Fn(&mut Pumped<S>) -> Result<u64, Error>) -> u64 {
        let mut packets = 0u64;
        if self.keep == Keep::Hold || self.monitor.must_wait() {
            return 0;
        }
        for pumped in self.sources.iter_mut().skip(first) {
            if self.monitor.has_failed() || self.monitor.lacks_room() {
                return packets;
            }
            match work(pumped) {
                Ok(moved) => packets = packets.saturating_add(moved),
                Err(error) => failed(self.monitor, pumped, &error),
            }
        }
        packets
    }

    /// Takes the remaining packets of sources that have ended, and closes them.
    fn close_ended(&mut self) {
        if self.monitor.lacks_room() {
            return self.close_oldest();
        }
        if self.monitor.must_wait() {
            return;
        }
        let mut left = match self.keep {
            Keep::Write { .. } => usize::MAX,
            // The oldest ones go.
            Keep::Hold => {
                let ended = self.ended();
                match self.monitor.wants_memory() {
                    true => ended,
                    false => ended.saturating_sub(ENDED_MAX),
                }
            }
        };
        let mut index = 0;
        while index < self.sources.len() {
            let source = &mut self.sources[index].source;
            if source.has_ended() && (left > 0 || must_go(source)) {
                left = left.saturating_sub(1);
                let pumped = match self.keep {
                    Keep::Write { .. } => self.sources.swap_remove(index),
                    Keep::Hold => self.sources.remove(index),
                };
                match self.keep {
                    Keep::Write { .. } => {
                        if let Some(pumped) = self.close(pumped) {
                            return self.sources.push(pumped);
                        }
                    }
                    Keep::Hold => self.let_go(pumped),
                }
                // As many as somebody waits for.
                if self.keep == Keep::Hold && !self.monitor.wants_memory() {
                    left = self.ended().saturating_sub(ENDED_MAX);
                }
            } else {
                index += 1;
            }
        }
    }

    /// Closes the oldest ended sources, so that no more of them wait for disk space than a flight recorder keeps, or
    /// fewer if their memory is needed. Their remaining records are never written.
    fn close_oldest(&mut self) {
        let ended = self.ended();
        let mut left = match self.monitor.wants_memory() {
            true => ended,
            false => ended.saturating_sub(ENDED_MAX),
        };
        while left > 0 {
            left -= 1;
            let oldest = self.sources.iter().position(|one| one.source.has_ended());
            let Some(index) = oldest else { return };
            let pumped = self.sources.remove(index);
            self.drop_rest(pumped);
            if !self.monitor.wants_memory() {
                left = left.min(self.ended().saturating_sub(ENDED_MAX));
            }
        }
    }

    fn ended(&self) -> usize {
        self.sources.iter().filter(|one| one.source.has_ended()).count()
    }

    /// Closes a source of a flight recorder; its records count as overwritten.
    fn let_go(&mut self, mut pumped: Pumped<S>) {
        pumped.counts();
        let held = std::mem::take(&mut pumped.last.records);
        pumped.last.overwritten = pumped.last.overwritten.saturating_add(held);
        pumped.last.bytes = 0;
        pumped.is_held = false;
        self.let_go_of(pumped, false);
    }

    /// Writes the remaining packets of a source and closes it. Returns the source if that has to be tried again when
    /// there is disk space.
    fn close(&mut self, mut pumped: Pumped<S>) -> Option<Pumped<S>> {
        if self.keep != Keep::Hold && !self.monitor.has_failed() {
            if let Err(error) = pumped.finish() {
                failed(self.monitor, &mut pumped, &error);
                if self.monitor.lacks_room() {
                    return Some(pumped);
                }
            }
        }
        let is_left = self.keep != Keep::Hold && self.monitor.has_failed();
        self.let_go_of(pumped, is_left);
        None
    }

    /// Closes a source without writing its remaining records.
    fn drop_rest(&mut self, pumped: Pumped<S>) {
        self.let_go_of(pumped, true);
    }

    fn let_go_of(&mut self, pumped: Pumped<S>, is_left: bool) {
        let (counts, losses) = pumped.close(is_left, self.monitor);
        self.closed.add(&counts);
        // Of one that is not believed nothing counts.
        if counts.discarded.total() > 0 {
            losses.iter().for_each(|one| one.add_to(&mut self.closed_losses));
        }
    }

    /// Notes how full the buffers are, before packets are taken and as often as counts are reported.
    fn look_at_fill(&mut self) {
        if self.time.now() >= self.next_count {
            let fills = self.sources.iter_mut().filter_map(|one| Some(one.streams()?.fill()));
            self.fill = fills.max().unwrap_or(0);
        }
    }

    fn count(&mut self) {
        let now = self.time.now();
        if now < self.next_count {
            return;
        }
        self.next_count = now + COUNT_PERIOD;
        let (mut sum, mut losses) = (self.closed, self.closed_losses.clone());
        let mut history = None;
        for pumped in &mut self.sources {
            let counts = pumped.counts();
            if is_possible(&mut pumped.source, &counts) {
                pumped.tell_events(self.monitor);
                history = [history, pumped.history(now)].into_iter().flatten().min();
                sum.add(&counts);
                pumped.streams_seen.iter().for_each(|one| one.loss().add_to(&mut losses));
            }
        }
        self.monitor.set_counts(&sum);
        self.monitor.set_buffers(BufferState { losses, fill: self.fill, history });
    }
}

/// Returns whether a source has to be closed although a snapshot may want it.
fn must_go<S: Source>(source: &mut S) -> bool {
    source.program().is_some_and(|program| program.must_go())
}

/// Returns whether the counts of a source are believed.
fn is_possible<S: Source>(source: &mut S, counts: &Counts) -> bool {
    source.program().is_none_or(|program| program.is_possible(counts))
}

/// Ends the whole recording or only this source, depending on the kind of the error.
fn failed<S: Source>(monitor: &dyn Monitor, pumped: &mut Pumped<S>, error: &Error) {
    if error.is_of_the_source() {
        pumped.source.give_up(error);
    } else {
        monitor.fail(error);
    }
}

impl<S: Source> Pumped<S> {
    fn new(Arrival { mut source, channel }: Arrival<S>) -> Pumped<S> {
        let nr_streams = channel.nr_streams();
        let streams = match source.program().and_then(|program| program.left()) {
            Some(left) => Streams::left(channel, &left),
            None => Streams::new(channel),
        };
        Pumped {
            source,
            output: SourceOutput::Idle(Box::new(streams)),
            streams: nr_streams,
            begins: None,
            has_not_run: false,
            is_held: false,
            metadata_bytes: 0,
            last: Counts::default(),
            streams_seen: Vec::new(),
            seen_ns: now_ns(),
            events: 0,
            history: HistoryMeter::new(Instant::now()),
        }
    }

    /// Returns whether the source's packets have to stay in its buffers for now.
    fn must_wait(&mut self) -> bool {
        self.source.program().is_some_and(|program| program.must_wait())
    }

    /// Writes whole packets. Returns their number.
    fn poll(&mut self) -> Result<u64, Error> {
        match self.must_wait() {
            true => Ok(0),
            false => self.with_collector(|collector, describe| collector.poll(describe)),
        }
    }

    /// Writes whole packets and the published part of the sub-buffers being filled. Returns the number of packets.
    fn flush(&mut self, period: Duration) -> Result<u64, Error> {
        match self.must_wait() {
            true => Ok(0),
            false => {
                let moved = self.with_collector(|collector, describe| {
                    collector.flush_and_tell(period, describe)
                })?;
                self.besides(TracePoint::Meanwhile)?;
                Ok(moved)
            }
        }
    }

    fn besides(&mut self, at: TracePoint) -> Result<(), Error> {
        match &mut self.output {
            SourceOutput::Open(collector) => self.source.besides(collector, at),
            _ => Ok(()),
        }
    }

    /// Takes the remaining packets of the source.
    fn finish(&mut self) -> Result<(), Error> {
        let producer = self.source.producer();
        self.count_not_run();
        self.with_collector(|collector, describe| {
            collector.finish(producer, describe).map(|()| 0)
        })?;
        self.besides(TracePoint::End)
    }

    /// Completes the source's trace, if the output writes to another one by now. Returns the work that is left on the
    /// completed trace.
    fn cut(&mut self, output: &Mutex<dyn Output>) -> Result<Option<Finish>, Error> {
        let SourceOutput::Open(collector) = &mut self.output else { return Ok(None) };
        if output.lock().unwrap_or_else(PoisonError::into_inner).is_present(collector.sink()) {
            return Ok(None);
        }
        let source = &mut self.source;
        collector.complete(&mut || source.describe())?;
        source.besides(collector, TracePoint::End)?;
        let Some(trace) = self.leave() else { return Ok(None) };
        Ok(Some(self.source.cut(trace)))
    }

    /// Gives up the source's trace and returns it, if there is one. The streams stay.
    fn leave(&mut self) -> Option<WrittenTrace> {
        match std::mem::replace(&mut self.output, SourceOutput::Closed) {
            SourceOutput::Open(collector) => {
                self.begins = None;
                let (trace, streams) = collector.into_parts();
                self.metadata_bytes =
                    self.metadata_bytes.saturating_add(trace.counts.metadata_bytes);
                self.output = SourceOutput::Idle(Box::new(streams));
                Some(trace)
            }
            other => {
                self.output = other;
                None
            }
        }
    }

    fn streams(&mut self) -> Option<&mut Streams> {
        match &mut self.output {
            SourceOutput::Open(collector) => Some(collector.streams()),
            SourceOutput::Idle(streams) => Some(streams),
            SourceOutput::Closed => None,
        }
    }

    /// Counts the events for which no program ran, once and as soon as there is anything else to count.
    fn count_not_run(&mut self) {
        let not_run = self.source.not_run();
        let is_idle = matches!(&self.output, SourceOutput::Idle(streams) if !streams.has_traces());
        if self.has_not_run || is_idle {
            return;
        }
        self.has_not_run = true;
        if let Some(streams) = self.streams() {
            streams.add_discarded(not_run);
        }
    }

    /// Makes a trace of its own for what the channel holds; `None` if it holds nothing.
    fn snapshot(
        &mut self,
        output: &Mutex<dyn Output>,
        span: SnapshotSpan,
    ) -> Result<Option<HeldTrace>, Error> {
        let SourceOutput::Idle(streams) = &mut self.output else { return Ok(None) };
        if !self.is_held || !streams.has_something() {
            return Ok(None);
        }
        let channel = &mut streams.channel;
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let of_channel = |source| Error::Ring { path: "snapshot".into(), source };
        let mut view = channel.view().map_err(of_channel)?;
        if !snapshot::has_any(&mut view, span) {
            return Ok(None);
        }
        let opened = self.source.open_snapshot(&mut *output)?;
        snapshot::begin(&mut self.source, view, opened).map(Some)
    }

    /// Calls `work` to take packets, if there is something to take or a trace is open.
    fn with_collector(
        &mut self,
        work: impl FnOnce(&mut Collector, &mut dyn FnMut() -> Option<String>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        if let SourceOutput::Idle(streams) = &mut self.output {
            if !streams.has_something() {
                return Ok(0);
            }
            self.open()?;
        }
        self.begin()?;
        let SourceOutput::Open(collector) = &mut self.output else { return Ok(0) };
        let source = &mut self.source;
        work(collector, &mut || source.describe())
    }

    fn open(&mut self) -> Result<(), Error> {
        let opened = self.source.open()?;
        let SourceOutput::Idle(streams) = std::mem::replace(&mut self.output, SourceOutput::Closed)
        else {
            return Ok(());
        };
        let OpenedTrace { sink, identity, classes, kinds, span_from, .. } = opened;
        let mut collector = Box::new(Collector::of(sink, *streams, identity));
        collector.set_classes(classes);
        if let Some(begin) = span_from {
            collector.span_from(begin);
        }
        self.output = SourceOutput::Open(collector);
        self.begins = Some(Begins::Described(kinds.map(Box::new)));
        self.begin()
    }

    /// Completes the work that precedes the first packet. Records that were only discarded are reported by a packet
    /// without records.
    fn begin(&mut self) -> Result<(), Error> {
        let Some(begins) = self.begins.take() else { return Ok(()) };
        let SourceOutput::Open(collector) = &mut self.output else { return Ok(()) };
        self.begins = Some(Begins::Told);
        match begins {
            Begins::Described(Some(kinds)) => collector.describe_kinds(*kinds)?,
            Begins::Described(None) => {
                if let Some(text) = self.source.describe() {
                    collector.set_metadata(&text)?;
                }
            }
            Begins::Told => collector.tell()?,
        }
        collector.show()?;
        self.source.besides(collector, TracePoint::Begin)?;
        self.begins = None;
        Ok(())
    }

    /// Returns the counts of everything recorded until now.
    fn counts(&mut self) -> Counts {
        let is_held = self.is_held;
        self.streams_seen = match &mut self.output {
            SourceOutput::Open(collector) => collector.stats(),
            SourceOutput::Idle(streams) if is_held => {
                let now = now_ns();
                let looks = (std::mem::replace(&mut self.seen_ns, now), now);
                held_of(&mut streams.channel, &self.streams_seen, looks)
            }
            SourceOutput::Idle(streams) if streams.has_traces() => streams.stats(),
            SourceOutput::Idle(_) | SourceOutput::Closed => return self.last,
        };
        self.last = counts_of(&self.streams_seen, self.streams);
        self.last
    }

    /// Returns how far back the source's buffers reach, if its packets stay in them.
    fn history(&mut self, now: Instant) -> Option<Duration> {
        let SourceOutput::Idle(streams) = &self.output else { return None };
        let capacity = streams.stream_bytes();
        self.is_held.then(|| self.history.look(now, &self.streams_seen, capacity)).flatten()
    }

    /// Reports new events since the last report. A report is never taken back.
    fn tell_events(&mut self, monitor: &dyn Monitor) {
        let Counts { records, discarded, overwritten, .. } = &self.last;
        let now = records.saturating_add(discarded.total()).saturating_add(*overwritten);
        let new = now.saturating_sub(self.events);
        if new > 0 {
            self.events = now;
            monitor.add_events(new);
        }
    }

    /// Closes the source and returns its counts. With `is_left`, what its streams hold is counted, and never written.
    fn close(mut self, is_left: bool, monitor: &dyn Monitor) -> (Counts, Vec<StreamLoss>) {
        self.count_not_run();
        let not_run = if self.has_not_run { 0 } else { self.source.not_run() };
        let nr_streams = self.streams;
        let mut counts = match (is_left, self.streams()) {
            (true, Some(streams)) => {
                streams.add_discarded(not_run);
                streams.give_up();
                self.streams_seen = streams.stats();
                self.last = counts_of(&self.streams_seen, nr_streams);
                self.last
            }
            _ => self.counts(),
        };
        let trace = self.leave();
        counts.metadata_bytes = self.metadata_bytes;
        self.output = SourceOutput::Closed;
        if is_possible(&mut self.source, &counts) {
            self.tell_events(monitor);
        }
        let mut losses = Vec::new();
        self.streams_seen.iter().for_each(|one| one.loss().add_to(&mut losses));
        (self.source.close(counts, &losses, trace), losses)
    }
}
