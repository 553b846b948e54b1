//! The model of a trace so far, made by one pass during which requests can read it.
//!
//! ```text
//! messages of a Reader ── Model::message ─┬─ Timeline ── lane_builder: Maker ── lane, item: slices at every level
//!         (thread "pass")                 ├─ overview: records over time, gaps     └─ item_store: blocks, memory then a file
//!                                         ├─ recorded_command: whose processes     └─ name_table: names by number
//!                                         └─ guests: clocks and virtual CPUs
//! item_coding, counter_coding, stored_bytes: how items, counters and tables are bytes, for tiles and kept models
//! outline: what packet headers tell before anything is read
//! ```
//!
//! # The lock
//! [`SharedModel`] is a model behind a lock. The pass holds it for writing, for less than a millisecond at a time: after
//! `CHUNK` messages it looks whether requests wait ([`SharedModel::look`]), and lets them read. So the page is usable
//! from the first portion on.
//!
//! # States
//! ```text
//! new ── read() or follow() ──▶ growing ── finish(), settle() ──▶ done: nothing changes any more, and the model may be kept
//!     ── fail() ──▶ what was read stays, and answers have the failure
//! of(read_before(..)): done from the begin, from a file that an earlier server has kept
//! ```
//! A trace that is being recorded is read again each `PERIOD`; until it ends, the last slices are open and in no lane.
//!
//! # Limits
//! Messages on damage, tracks and names are bounded. Slices of a long trace go to an unnamed file in blocks, so that
//! memory does not grow with the trace. If no block can be stored, the pass ends there, and the page says so.

pub(crate) mod counter_coding;
pub(crate) mod guests;
pub(crate) mod item;
pub(crate) mod item_coding;
pub(crate) mod item_store;
pub(crate) mod lane;
pub(crate) mod lane_builder;
pub(crate) mod name_table;
pub(crate) mod outline;
pub(crate) mod overview;
pub(crate) mod recorded_command;
pub(crate) mod stored_bytes;

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use strata_analyze::counters::{roles as counter_roles, CounterRule};
use strata_analyze::debug_info::is_sample;
use strata_ctf::read::{
    DamageKind, Discarded, DiscardedKind, Event, Events, Follow, Message, Reader, TimeRange,
};
use strata_timeline::span_roles;
use strata_timeline::{begin, Sources, StreamSource, ThreadId, Timeline, World};

use crate::model::guests::{guests_of, Guest};
use crate::model::lane_builder::Maker;
use crate::model::overview::{Gap, Gaps, Overview};
use crate::model::recorded_command::Recorders;

/// Number of messages after which the pass lets requests read the model: less than a millisecond.
const CHUNK: u32 = 4096;
/// Period at which a trace that is being recorded is read.
const PERIOD: Duration = Duration::from_millis(100);
/// The most messages on damage that are kept.
pub const DAMAGE_MAX: usize = 100;

/// State of the pass over the trace: everything that was found so far.
#[derive(Debug)]
pub struct Model {
    /// Timeline at the time up to which the trace was read.
    pub timeline: Timeline,
    /// Tracks and their lanes.
    pub maker: Maker,
    /// Number of event records over time.
    pub overview: Overview,
    /// Times at which records are missing.
    pub gaps: Gaps,
    /// The processes that recorded commands.
    pub recorders: Recorders,
    /// Machines whose clocks are known only within limits.
    pub guests: Vec<Guest>,
    /// Origin of each stream's records.
    pub streams: Vec<StreamSource>,
    /// Messages on the first places that cannot be read.
    pub damage: Vec<String>,
    /// Number of places that cannot be read.
    pub damages: u64,
    /// True if the system refused to read a part of the trace, so that a later attempt may succeed.
    pub is_refused: bool,
    /// Number of event records that were read.
    pub records: u64,
    /// Number of event records that were discarded.
    pub discarded: u64,
    /// Number of packets that are missing.
    pub packets: u64,
    /// Number of bytes that were read.
    pub bytes: u64,
    /// True when the whole trace was read.
    pub is_done: bool,
    /// True while the trace is being recorded and was read up to [`World::now`](strata_timeline::World::now).
    pub is_live: bool,
    /// Time that reading has taken so far, or took in total.
    pub reading: Duration,
    begun: Instant,
    /// For each class of records, whether they are samples; `None` if that was not checked yet.
    samples: Vec<Option<bool>>,
}

impl Model {
    fn new(reader: &Reader, counters: &[CounterRule]) -> Model {
        let timeline = Timeline::with_spans(reader, span_roles(reader, &[]));
        let (roles, _) = counter_roles(reader, counters);
        Model {
            timeline: timeline.with_counters(roles),
            maker: Maker::default(),
            overview: Overview::default(),
            gaps: Gaps::default(),
            recorders: Recorders::new(reader),
            guests: guests_of(reader),
            streams: Sources::new(reader).streams,
            damage: Vec::new(),
            damages: 0,
            is_refused: false,
            records: 0,
            discarded: 0,
            packets: 0,
            bytes: 0,
            is_done: false,
            is_live: false,
            reading: Duration::ZERO,
            begun: Instant::now(),
            samples: Vec::new(),
        }
    }

    /// Makes the model of a trace that a pass has read to its end before.
    #[must_use]
    pub fn read_before(reader: &Reader, counters: &[CounterRule], kept: KeptModel) -> Model {
        let mut model = Model::new(reader, counters);
        let KeptModel {
            world,
            maker,
            overview,
            gaps,
            damage,
            damages,
            records,
            discarded,
            packets,
            bytes,
        } = kept;
        model.timeline = model.timeline.with_world(world);
        (model.maker, model.overview, model.gaps) = (maker, overview, gaps);
        (model.damage, model.damages) = (damage, damages);
        (model.records, model.discarded) = (records, discarded);
        (model.packets, model.bytes) = (packets, bytes);
        model.is_done = true;
        model
    }

    #[inline]
    fn message(&mut self, reader: &Reader, message: Message<'_>) {
        match message {
            Message::Event(event) => {
                self.records += 1;
                if let Some(time) = event.time() {
                    self.overview.add(time);
                }
                self.timeline.event(&event, true, &mut self.maker);
                if self.is_sample(&event) {
                    self.sample(&event);
                }
            }
            Message::Discarded(discarded) => self.discarded(&discarded),
            Message::Damage(damage) => {
                self.is_refused |= matches!(damage.what, DamageKind::Unreadable { .. });
                if !damage.is_note() && !damage.is_remark() {
                    self.damages += 1;
                    if self.damage.len() < DAMAGE_MAX {
                        self.damage.push(damage.to_string());
                    }
                }
                // What threads did since then is unknown.
                if let Some(stream) = reader.stream_of(damage).filter(|_| !damage.is_note()) {
                    self.timeline.gap(stream.index(), None, None);
                }
            }
            Message::Packet(_) => {}
        }
    }

    #[inline]
    fn is_sample(&mut self, event: &Event<'_>) -> bool {
        let index = event.class().index();
        if self.samples.len() <= index {
            self.samples.resize(index + 1, None);
        }
        let slot = self.samples.get_mut(index);
        slot.is_some_and(|slot| *slot.get_or_insert_with(|| is_sample(event.class().name())))
    }

    /// Adds a sample to the thread that its CPU runs.
    fn sample(&mut self, event: &Event<'_>) {
        let machine = self.streams.get(event.stream().index()).map(|source| source.machine);
        let cpu = event.packet().cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let runs = machine.zip(cpu).and_then(|(machine, cpu)| self.timeline.runs_on(machine, cpu));
        let runs = runs.filter(|&thread| thread != ThreadId::IDLE);
        if let (Some(thread), Some(time)) = (runs, event.time()) {
            self.maker.sample(thread, time);
        }
    }

    fn discarded(&mut self, discarded: &Discarded<'_>) {
        let is_packets = discarded.kind == DiscardedKind::Packets;
        let sum = if is_packets { &mut self.packets } else { &mut self.discarded };
        *sum = sum.saturating_add(discarded.count);
        self.timeline.discarded(discarded);
        let now = self.timeline.world().now;
        let from = discarded.from.or(discarded.to).unwrap_or(now);
        self.gaps.add(Gap {
            from,
            to: discarded.to.unwrap_or(from),
            count: discarded.count,
            is_packets,
            stream: discarded.stream.index(),
            cpu: discarded.packet.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        });
    }
}

/// What is kept of a model whose trace was read to its end.
#[derive(Debug)]
pub struct KeptModel {
    /// Threads and disks.
    pub world: World,
    /// Tracks and their lanes.
    pub maker: Maker,
    /// Number of event records over time.
    pub overview: Overview,
    /// Times at which records are missing.
    pub gaps: Gaps,
    /// Messages on the first places that cannot be read.
    pub damage: Vec<String>,
    /// Number of places that cannot be read.
    pub damages: u64,
    /// Number of event records.
    pub records: u64,
    /// Number of event records that were discarded.
    pub discarded: u64,
    /// Number of packets that are missing.
    pub packets: u64,
    /// Number of bytes of the trace.
    pub bytes: u64,
}

/// A model that requests can read while it is made.
#[derive(Debug)]
pub struct SharedModel {
    model: RwLock<Model>,
    /// Number of requests that wait to read the model.
    waiting: AtomicU32,
}

impl SharedModel {
    /// Makes the model of a trace from which nothing was read yet. `counters` are rules for fields that are drawn as
    /// counters.
    #[must_use]
    pub fn new(reader: &Reader, counters: &[CounterRule]) -> SharedModel {
        SharedModel { model: RwLock::new(Model::new(reader, counters)), waiting: AtomicU32::new(0) }
    }

    /// Creates a shared model from one that was read before.
    #[must_use]
    pub fn of(model: Model) -> SharedModel {
        SharedModel { model: RwLock::new(model), waiting: AtomicU32::new(0) }
    }

    /// Stores all that is still in memory in blocks, after the pass.
    ///
    /// # Errors
    /// The blocks cannot be stored.
    pub fn settle(&self) -> io::Result<()> {
        self.write().maker.settle()
    }

    /// Locks the model for reading. The thread that reads the trace releases the model when a request waits.
    pub fn look(&self) -> RwLockReadGuard<'_, Model> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let model = self.model.read().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        model
    }

    /// Ends the pass over traces that could not be read to their end, and stores the failure for later answers.
    pub fn fail(&self, failure: io::Error) {
        let mut model = self.write();
        model.maker.failure = Some(failure);
        (model.is_done, model.is_live) = (true, false);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Model> {
        self.model.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the whole trace, and lets requests read the model in between.
    pub fn read(&self, reader: &Reader) {
        self.begin(reader, false);
        self.pass(reader, reader.events(TimeRange::ALL));
        self.finish();
    }

    /// Reads a trace while it is recorded. Returns when the recording has ended; call [`SharedModel::finish`] then.
    pub fn follow(&self, follow: &mut Follow) {
        self.begin(follow.reader(), true);
        loop {
            follow.look();
            let reader = follow.reader();
            let mut model = self.write();
            if model.streams.len() < reader.streams().len() {
                model.streams = Sources::new(reader).streams;
                model.recorders = Recorders::new(reader);
                model.guests = guests_of(reader);
            }
            model.timeline.grow(reader, || span_roles(reader, &[]));
            drop(model);
            self.pass(reader, follow.events());
            let mut model = self.write();
            if let Some(upto) = follow.upto() {
                model.timeline.until(upto);
            }
            let is_over = follow.has_ended() || model.maker.failure.is_some();
            drop(model);
            if is_over {
                return;
            }
            thread::sleep(PERIOD);
        }
    }

    fn begin(&self, reader: &Reader, is_live: bool) {
        let mut model = self.write();
        begin(&mut model.timeline, reader);
        model.is_live = is_live;
        model.damage.extend(reader.damage().iter().map(ToString::to_string).take(DAMAGE_MAX));
        model.damages = reader.damage().len() as u64;
        let mut all = reader.damage().iter();
        model.is_refused = all.any(|damage| matches!(damage.what, DamageKind::Unreadable { .. }));
    }

    /// Ends the slices that are open at the end of the trace.
    pub fn finish(&self) {
        let mut model = self.write();
        let Model { timeline, maker, .. } = &mut *model;
        timeline.finish(maker);
        (model.is_done, model.is_live) = (true, false);
    }

    /// Reads messages to their end, or until no more slices can be stored.
    fn pass(&self, reader: &Reader, mut events: Events<'_>) {
        loop {
            let mut model = self.write();
            let mut left = CHUNK;
            let end = events.run(|message| {
                model.message(reader, message);
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            if !model.is_live {
                model.bytes = events.bytes_read();
            }
            model.reading = model.begun.elapsed();
            if end.is_continue() || model.maker.failure.is_some() {
                return;
            }
            drop(model);
            // The lock is not given to the thread that waits longest: this thread would get it again at once.
            while self.waiting.load(Ordering::SeqCst) > 0 {
                thread::yield_now();
            }
        }
    }
}
