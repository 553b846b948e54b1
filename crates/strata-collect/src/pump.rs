//! The pump: takes packets from the channels of all sources of a layer, in one thread, and has each source's
//! [`Collector`] write them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use strata_model::{Counts, StreamLoss};
use strata_ring::Channel;

use crate::collector::{now_ns, Collector};
use crate::error::Error;
use crate::kinds::Kinds;
use crate::output::Output;
use crate::sink::WrittenTrace;
use crate::snapshot::{self, HeldTrace, SnapshotSpan};
use crate::source::{Finish, Monitor, OpenedTrace, Source};
use crate::stats::{counts_of, held_of, StreamStats};
use crate::streams::Streams;

/// Pause after a round that found packets. Long enough for a producer at full speed to fill a part of a
/// sub-buffer, short enough to be back before it has filled them all.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Pause when nothing has happened for a while.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How often figures are told.
const COUNT_PERIOD: Duration = Duration::from_millis(100);

/// What a pump is told.
pub enum PumpOrder<S> {
    /// Take packets of this source, too.
    Take(Arrival<S>),
    /// Make traces in this output for what is held, and hand over what is to be written to them.
    Snapshot(Arc<Mutex<dyn Output>>, SnapshotSpan, Sender<Result<Vec<HeldTrace>, Error>>),
    /// Write what is published. Complete the traces that this output does not write to any more, and go on in others;
    /// hand over what is still to be done with them.
    Rotate(Arc<Mutex<dyn Output>>, Sender<Vec<Finish>>),
}

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// They are written as they come; of what is published in a sub-buffer being filled, once in this time. Zero:
    /// at the end only.
    Write {
        /// The time.
        flush: Duration,
    },
    /// They stay in the channels, until a snapshot is asked for: a flight recorder. Sources that have ended stay,
    /// too, as long as there are no more than [`ENDED_MAX`].
    Hold,
}

/// Sources that have ended and are held for the next snapshot.
pub const ENDED_MAX: usize = 64;

/// A source on its way to the pump.
#[derive(Debug)]
pub struct Arrival<S> {
    /// What knows it.
    pub source: S,
    /// Its channel, from which nothing was taken yet.
    pub channel: Channel,
}

/// Where the packets of a source go.
#[derive(Debug)]
enum SourceOutput {
    /// Nothing was recorded yet, or since the last trace was completed: there is no trace.
    Idle(Box<Streams>),
    /// There is one.
    Open(Box<Collector>),
    /// No more.
    Closed,
}

/// What is to be done of a trace's begin; where there was no room, again.
#[derive(Debug)]
enum Begins {
    /// It is described.
    Described(Option<Box<Kinds>>),
    /// What describes it was asked for, and is to be written.
    Told,
}

/// One source.
#[derive(Debug)]
struct Pumped<S> {
    source: S,
    output: SourceOutput,
    streams: u32,
    /// Its trace is there, and something is still to be done before the first packet.
    begins: Option<Begins>,
    /// What no program ran for is among the discarded.
    has_not_run: bool,
    /// Nothing is written of it but snapshots.
    is_held: bool,
    /// Of traces that are complete \[byte\].
    metadata_bytes: u64,
    last: Counts,
    /// Its streams, as they were at the last look, and when that was \[ns\].
    streams_seen: Vec<StreamStats>,
    seen_ns: u64,
    /// Events of it that were told of.
    events: u64,
}

/// The pump's state.
pub struct Pump<'a, S> {
    monitor: &'a dyn Monitor,
    orders: Receiver<PumpOrder<S>>,
    sources: Vec<Pumped<S>>,
    keep: Keep,
    next_flush: Option<Instant>,
    next_count: Instant,
    /// What was recorded of sources that are closed.
    closed: Counts,
    /// What of them was discarded, by CPU.
    closed_losses: Vec<StreamLoss>,
    /// For want of room not all traces are in this output yet that are to be.
    uncut: Option<Arc<Mutex<dyn Output>>>,
}

impl<'a, S: Source> Pump<'a, S> {
    /// A pump that does what comes by `orders`.
    #[must_use]
    pub fn new(
        orders: Receiver<PumpOrder<S>>,
        monitor: &'a dyn Monitor,
        keep: Keep,
    ) -> Pump<'a, S> {
        let now = Instant::now();
        let next_flush = match keep {
            Keep::Write { flush } if !flush.is_zero() => Some(now + flush),
            _ => None,
        };
        Pump {
            monitor,
            orders,
            sources: Vec::new(),
            keep,
            next_flush,
            next_count: now,
            closed: Counts::default(),
            closed_losses: Vec::new(),
            uncut: None,
        }
    }

    /// Until nobody sends any more, and all is taken. Whoever sends drops its end when everything is switched
    /// off. Returns what was recorded.
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
        self.monitor.set_losses(self.closed_losses);
        self.closed
    }

    /// Lets in who comes, for as long as the pause is. Returns how many packets were moved of them at once;
    /// `None`: nobody will come any more, and everything is switched off.
    ///
    /// A thousand may come one after the other: the others are not looked at for each of them, and this thread
    /// is not woken by each.
    fn arrive(&mut self, pause: Duration) -> Option<u64> {
        let until = Instant::now() + pause;
        loop {
            match self.orders.recv_timeout(until.saturating_duration_since(Instant::now())) {
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
            let rest = until.saturating_duration_since(Instant::now());
            let packets = self.poll(first);
            if rest.is_zero() || packets > 0 {
                return Some(packets);
            }
            thread::sleep(rest.min(PAUSE_MIN));
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

    /// Completes traces that there was no room for to complete.
    fn cut_late(&mut self) {
        if self.uncut.is_none() || self.monitor.must_wait() {
            return;
        }
        if let Some(output) = self.uncut.take() {
            self.rotate(&output).into_iter().for_each(|finish| finish());
            self.uncut = self.monitor.lacks_room().then_some(output);
        }
    }

    /// What cannot be completed stays where it is, and is told as any other failure to write.
    fn rotate(&mut self, output: &Mutex<dyn Output>) -> Vec<Finish> {
        let mut all = Vec::new();
        self.each(0, Pumped::flush);
        for pumped in &mut self.sources {
            if self.monitor.has_failed() || self.monitor.lacks_room() {
                break;
            }
            let done = match pumped.cut(output) {
                Ok(None) => Ok(()),
                Ok(Some(finish)) => {
                    all.push(finish);
                    match pumped.source.begins_at_once() {
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
        let begins = self.keep != Keep::Hold && pumped.source.begins_at_once();
        if begins && !self.monitor.has_failed() && !self.monitor.lacks_room() {
            if let Err(error) = pumped.open() {
                failed(self.monitor, &mut pumped, &error);
            }
        }
        self.sources.push(pumped);
    }

    /// Once through all sources. Returns how many packets were moved.
    fn round(&mut self) -> u64 {
        let (now, Keep::Write { flush }) = (Instant::now(), self.keep) else { return 0 };
        if self.next_flush.is_none_or(|time| now < time) {
            return self.poll(0);
        }
        self.next_flush = Some(now + flush);
        self.each(0, Pumped::flush)
    }

    /// Takes the whole packets of the sources from this one on. Returns how many.
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

    /// Takes what is left of sources that have ended.
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
            let source = &self.sources[index].source;
            if source.has_ended() && (left > 0 || source.must_go()) {
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

    /// As many wait for room as a flight recorder would hold, or fewer where somebody wants their memory: what the oldest
    /// ones have left is never written.
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

    /// What it held is for no snapshot any more: overwritten.
    fn let_go(&mut self, mut pumped: Pumped<S>) {
        pumped.counts();
        let held = std::mem::take(&mut pumped.last.records);
        pumped.last.overwritten = pumped.last.overwritten.saturating_add(held);
        pumped.last.bytes = 0;
        pumped.is_held = false;
        self.let_go_of(pumped, false);
    }

    /// Takes what is left of it. `Some`: it is to be tried again, when there is room.
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

    /// What is left of it is not written.
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

    /// Before it is taken; as often as it is counted.
    fn look_at_fill(&mut self) {
        if Instant::now() >= self.next_count {
            let fills = self.sources.iter_mut().filter_map(|one| Some(one.streams()?.fill()));
            self.monitor.set_fill(fills.max().unwrap_or(0));
        }
    }

    fn count(&mut self) {
        let now = Instant::now();
        if now < self.next_count {
            return;
        }
        self.next_count = now + COUNT_PERIOD;
        let (mut sum, mut losses) = (self.closed, self.closed_losses.clone());
        for pumped in &mut self.sources {
            let counts = pumped.counts();
            if pumped.source.is_possible(&counts) {
                pumped.tell_events(self.monitor);
                sum.add(&counts);
                pumped.streams_seen.iter().for_each(|one| one.loss().add_to(&mut losses));
            }
        }
        self.monitor.set_counts(&sum);
        self.monitor.set_losses(losses);
    }
}

/// Whose fault it is decides what ends: all of it, or the one source.
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
        let streams = match source.left() {
            Some(left) => Streams::left(channel, &left),
            None => Streams::new(channel),
        };
        if streams.may_repeat() {
            source.may_repeat();
        }
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
        }
    }

    /// Takes whole packets. Returns how many.
    fn poll(&mut self) -> Result<u64, Error> {
        match self.source.must_wait() {
            true => Ok(0),
            false => self.with_collector(|collector, describe| collector.poll(describe)),
        }
    }

    /// Takes what is published of the sub-buffers being filled, too.
    fn flush(&mut self) -> Result<u64, Error> {
        match self.source.must_wait() {
            true => Ok(0),
            false => {
                let moved = self.with_collector(|collector, describe| collector.flush(describe))?;
                self.besides()?;
                Ok(moved)
            }
        }
    }

    fn besides(&mut self) -> Result<(), Error> {
        match &mut self.output {
            SourceOutput::Open(collector) => self.source.besides(collector),
            _ => Ok(()),
        }
    }

    /// Takes what is left.
    fn finish(&mut self) -> Result<(), Error> {
        let producer = self.source.producer();
        self.count_not_run();
        self.with_collector(|collector, describe| {
            collector.finish(producer, describe).map(|()| 0)
        })?;
        self.besides()?;
        match &mut self.output {
            SourceOutput::Open(collector) => self.source.finished(collector),
            _ => Ok(()),
        }
    }

    /// Completes its trace, if the output writes to another one by now. What is left to do with it.
    fn cut(&mut self, output: &Mutex<dyn Output>) -> Result<Option<Finish>, Error> {
        let SourceOutput::Open(collector) = &mut self.output else { return Ok(None) };
        if output.lock().unwrap_or_else(PoisonError::into_inner).is_present(collector.sink()) {
            return Ok(None);
        }
        let source = &mut self.source;
        collector.complete(&mut || source.describe())?;
        source.besides(collector)?;
        source.finished(collector)?;
        let Some(trace) = self.leave() else { return Ok(None) };
        Ok(Some(self.source.cut(trace)))
    }

    /// Lets go of the trace, if there is one. The streams stay.
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

    /// Counts what no program ran for, once: as soon as there is anything else to count.
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

    /// Makes a trace of its own for what it holds; `None`: that is nothing.
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

    /// Lets `work` take packets, if there is something to take or was before.
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

    /// Before packets: records that were only discarded are told by a packet without records.
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
        self.source.opened(collector)?;
        self.begins = None;
        Ok(())
    }

    /// What was recorded until now.
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

    /// What has happened since this was last told: of what was told nothing is taken back, whatever becomes of it.
    fn tell_events(&mut self, monitor: &dyn Monitor) {
        let Counts { records, discarded, overwritten, .. } = &self.last;
        let now = records.saturating_add(discarded.total()).saturating_add(*overwritten);
        let new = now.saturating_sub(self.events);
        if new > 0 {
            self.events = now;
            monitor.add_events(new);
        }
    }

    /// Lets go of the source. `is_left`: what its streams hold is written nowhere, and counted.
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
        if self.source.is_possible(&counts) {
            self.tell_events(monitor);
        }
        let mut losses = Vec::new();
        self.streams_seen.iter().for_each(|one| one.loss().add_to(&mut losses));
        self.source.losses(losses.clone());
        (self.source.close(counts, trace), losses)
    }
}
