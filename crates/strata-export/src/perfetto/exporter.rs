//! Exports event records as Perfetto packets.
//!
//! ```text
//! event() ─ look(): the plan of its class, its place and time
//!    └ export()  1. learn()     the timeline takes it: threads, names, running threads ─ tell(), rename()
//!                2. kernel()    a switch, a wake-up or an interrupt as the format's own kernel event
//!                   or sample() the call stack of a timer
//!                   or slice()  a begin or end of a system call, span or pair (slice.rs)
//!                   or instant() everything else
//!                3. count()     counters that the timeline has reported for this record
//! ```
//!
//! The caller passes all messages of a reader in order: [`Exporter::event`] for records to show, [`Exporter::skip`]
//! for others, since these also say which threads run and who they are, [`Exporter::discarded`] and
//! [`Exporter::damage`] for gaps. [`Exporter::finish`] closes what is open.
//!
//! An exporter runs in one thread. To use several, each gets a [`BlockShare`]: all see all records and follow their
//! state, and each writes its own blocks of [`BLOCK`] records. Whatever two shares both need to number (tracks,
//! names) must therefore be numbered by the records alone.
//!
//! What a thread or slice costs is kept in tables with limits, since a trace may have any number of them.

mod record_news;
mod slice;
#[cfg(test)]
mod tests;
mod thread_descriptors;
mod unknown_times;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use strata_ctf::environment::THREAD_NAME_OF;
use strata_ctf::read::{
    Damage, DeferredClass, DeferredField, Discarded, DiscardedKind, Event, FieldRef, Message,
    Reader, Scope, Stream, TimeRange,
};
use strata_model::schema::Schema;
use strata_model::syscalls::Architecture;
use strata_model::EnvValue;
use strata_timeline::slice_pairs::{PairIndex, Pairs};
use strata_timeline::{
    CounterNumber, CounterPlace, Name, Sources, StreamSource, ThreadId, Timeline,
};

use record_news::RecordNews;
use thread_descriptors::{process, Kin};

use super::classes::{EventPlan, EventPlanner, SlicePlan, Twice, CPU};
use super::clock::Timebase;
use super::cpu_occupancy::Runs;
use super::encode;
use super::fields::{Annotations, DEBUG_INFO};
use super::kernel::text;
use super::parallel::BlockShare;
use super::proto::{
    track_event, AnnotationValue, DebugAnnotation, EventType, PacketData, SystemInfo, TrackEvent,
    Utsname,
};
use super::samples::{SampleOf, Samples};
use super::sched::Sched;
use super::slices::Lanes;
use super::tracks::{extra_track, extra_uuid, MachineNumber, TrackPlace, Tracks};
use super::writer::PacketWriter;
use super::{Options, Overlap, Summary};
use strata_analyze::counters;
use strata_analyze::debug_info::KernelFunctions;
use strata_analyze::fast_hash::Mix;
use strata_analyze::render::line::TextPiece;
use strata_analyze::reports::flame::has_stacks;

/// The names of annotations that are not fields of an event.
const FACTS: [&str; 7] =
    [CPU, "note", CONTEXT, "end", "unfinished", "values not exported", DEBUG_INFO];
/// The annotation with those contexts that have the same names as a record's fields.
const CONTEXT: &str = "context";
/// The most tracks with an open slice that has deferred fields.
const DEFERRED_MAX: usize = 1 << 10;
/// The most deferred fields of one slice.
const FIELDS_MAX: usize = 16;
/// The most bytes of a record with deferred fields. Strata's records have up to 1,023 of text, and perhaps two call
/// stacks.
const DEFERRED_BYTES_MAX: u64 = 4096;
/// The most messages that are searched for the first record.
const FIRST_MESSAGES: u32 = 1 << 16;
/// The number of event records of a block.
const BLOCK: u32 = if cfg!(test) { 2 } else { 4096 };
/// The number of slots in the cache of threads' places.
const RECENT: usize = 1 << 8;
/// The remark on a slice whose end was not found.
const UNFINISHED: &str = "its end is not in the trace";

/// Exports event records, in the order of time.
#[derive(Debug)]
pub struct Exporter<W> {
    writer: PacketWriter<W>,
    timebase: Timebase,
    pairs: Pairs,
    share: BlockShare,
    block: usize,
    /// The number of event records up to the end of the block.
    left: u32,
    /// The streams, by [`Stream::index`](strata_ctf::read::Stream::index).
    streams: Vec<KnownStream>,
    plans: Vec<Option<Box<EventPlan>>>,
    tracks: Tracks,
    /// The running threads, and the processes of threads.
    timeline: Timeline,
    news: RecordNews,
    sched: Sched,
    runs: Runs,
    /// The call stacks and functions, if the traces have any.
    samples: Option<Box<Samples>>,
    /// A cache of the places of threads, for the kernel's records.
    recent: Vec<Option<RecentThread>>,
    lanes: Lanes,
    /// The counts of pairs whose slices may overlap.
    overlaps: HashMap<PairIndex, Overlap, Mix>,
    counters: HashMap<(TrackPlace, Name), u64>,
    /// The number of tracks of lanes and counters so far.
    extras: u64,
    lane_tracks: HashMap<u32, u64, Mix>,
    /// The encoded begins of system calls that are recorded by number: type and name.
    calls: HashMap<(Option<Architecture>, i64), Rc<TextPiece>>,
    /// The deferred fields of open slices, by track.
    deferred: HashMap<u64, Vec<(FieldRef, DeferredField)>, Mix>,
    /// The time at which a slice last began or ended, by track.
    latest: HashMap<u64, u64, Mix>,
    now: Option<u64>,
    summary: Summary,
}

#[derive(Debug)]
struct KnownStream {
    source: StreamSource,
    /// The CPU of the latest event.
    cpu: Option<u32>,
    begun: bool,
}

/// The place of a thread that was looked up recently. It is valid while `of` matches.
#[derive(Clone, Copy, Debug)]
struct RecentThread {
    of: (MachineNumber, i64, u64, u64),
    place: TrackPlace,
}

/// The place and time of an event.
#[derive(Clone, Copy, Debug)]
struct EventSpot {
    time: u64,
    place: TrackPlace,
    machine: MachineNumber,
    cpu: Option<u32>,
}

impl<W: Write> Exporter<W> {
    /// Begins an export of the reader's records.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written.
    pub fn new(out: W, reader: &Reader, options: Options) -> io::Result<Exporter<W>> {
        Exporter::of_share(out, reader, options, BlockShare::ALL)
    }

    /// Begins to export a share: the exporter must see all records, and writes some of the blocks.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written.
    pub fn of_share(
        out: W,
        reader: &Reader,
        options: Options,
        share: BlockShare,
    ) -> io::Result<Exporter<W>> {
        let schemas: Vec<&Schema> =
            reader.traces().iter().map(|trace| trace.schema().as_ref()).collect();
        let timebase = Timebase::new(schemas.iter().copied()).from(first_time(reader));
        let events = schemas.iter().flat_map(|schema| &schema.streams);
        let names = events.flat_map(|stream| &stream.events).map(|event| event.name.as_str());
        let mut pairs = Pairs::new(names, &options.pairs, options.automatic_pairs);
        let events = schemas.iter().flat_map(|schema| &schema.streams);
        let events = events.flat_map(|stream| &stream.events);
        let classes = events.map(|event| (event.name.as_str(), event)).collect();
        pairs.find_keys(&classes);
        pairs.find_checks(&classes);
        let Sources { machines, streams, .. } = Sources::new(reader);
        let streams = streams.into_iter();
        let streams = streams.map(|source| KnownStream { source, cpu: None, begun: false });
        let streams: Vec<KnownStream> = streams.collect();
        let names = reader.streams().iter().map(|stream| stream.name().to_owned()).collect();
        let mut writer = PacketWriter::new(out, timebase.clock_id());
        for name in FACTS {
            writer.annotation(name);
        }
        if share.of > 1 {
            writer.begin_share(share.number, share.of)?;
        }
        let begin = reader.span().map_or(0, |span| timebase.time(span.from));
        writer.system(None, PacketData::ClockSnapshot(timebase.snapshot(begin)))?;
        if let Some(system) = schemas.iter().find_map(|schema| system_info(schema)) {
            writer.system(None, PacketData::SystemInfo(system))?;
        }
        let (roles, counters_left_out) = counters::roles(reader, &options.counters);
        let mut timeline = Timeline::new(reader).with_counters(roles);
        timeline.note_names();
        let mut exporter = Exporter {
            writer,
            timebase,
            pairs,
            share,
            block: 0,
            left: BLOCK,
            streams,
            plans: Vec::new(),
            tracks: Tracks::new(machines, names),
            timeline,
            news: RecordNews::default(),
            sched: Sched::default(),
            runs: Runs::default(),
            samples: (has_stacks(reader) || KernelFunctions::are_in(reader))
                .then(|| Box::new(Samples::new(reader, &options.symbols))),
            recent: vec![None; RECENT],
            lanes: Lanes::default(),
            overlaps: HashMap::default(),
            counters: HashMap::new(),
            extras: 0,
            lane_tracks: HashMap::default(),
            calls: HashMap::new(),
            deferred: HashMap::default(),
            latest: HashMap::default(),
            now: None,
            summary: Summary { counters_left_out, ..Summary::default() },
        };
        exporter.name_threads(reader)?;
        Ok(exporter)
    }

    /// Returns the rules for pairs and counters that select nothing in these traces, judging by their descriptions.
    pub fn idle_rules(reader: &Reader, options: &Options) -> Vec<String> {
        let schemas: Vec<&Schema> =
            reader.traces().iter().map(|trace| trace.schema().as_ref()).collect();
        let of_counters = counters::idle(reader, &options.counters).into_iter();
        let mut idle: Vec<String> = of_counters.map(|rule| format!("--counter '{rule}'")).collect();
        for rule in &options.pairs {
            let events = schemas.iter().flat_map(|schema| &schema.streams);
            let names = events.flat_map(|stream| &stream.events).map(|event| event.name.as_str());
            if Pairs::new(names, std::slice::from_ref(rule), false).is_without_rules() {
                idle.push(format!("--pair '{rule}'"));
            }
        }
        idle
    }

    /// Exports a record.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.step()?;
        let Some((index, plan, spot)) = self.look(event)? else { return Ok(()) };
        self.summary.events += 1;
        let done = self.export(event, &plan, spot);
        if let Some(slot) = self.plans.get_mut(index) {
            *slot = Some(plan);
        }
        done
    }

    /// Takes a record that is not exported, for what it says about threads and processes.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn skip(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.step()?;
        let Some((index, plan, spot)) = self.look(event)? else { return Ok(()) };
        let done = self.learn(event, &plan, spot);
        self.news.counters.clear();
        if let Some(class) = &plan.deferred {
            self.defer(event, class, spot);
        }
        if let Some(kernel) = &plan.kernel {
            let cpu = spot.cpu.and_then(|cpu| self.tracks.cpu(spot.machine, cpu));
            if let Some(cpu) = cpu {
                self.gives(event, kernel, (spot, cpu), false);
            }
        }
        if let Some(slot) = self.plans.get_mut(index) {
            *slot = Some(plan);
        }
        done
    }

    /// Shows that records or packets were discarded.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) -> io::Result<()> {
        let what = match discarded.kind {
            DiscardedKind::Records => {
                self.summary.discarded = self.summary.discarded.saturating_add(discarded.count);
                "event records"
            }
            DiscardedKind::Packets => "packets",
        };
        let range =
            [discarded.from, discarded.to].map(|time| time.map(|ns| self.timebase.time(ns)));
        let from = range.into_iter().flatten().next().or(self.now).unwrap_or(0);
        let name = format!("{} {what} discarded", discarded.count);
        let values = [("from", range[0]), ("to", range[1]), ("count", Some(discarded.count))];
        let mut annotations: Vec<DebugAnnotation> = values
            .into_iter()
            .filter_map(|(name, value)| Some(inline(name, AnnotationValue::Unsigned(value?))))
            .collect();
        if discarded.at_begin {
            let text = "some of them may be from before this trace".to_owned();
            annotations.push(inline("note", AnnotationValue::Text(text)));
        }
        let cpu = discarded.packet.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        // Who ran may have been among it.
        self.timeline.discarded(discarded);
        self.gap(discarded.stream, cpu, from, name, annotations)
    }

    /// Shows that a trace is damaged.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn damage(&mut self, damage: &Damage, stream: Option<&Stream>) -> io::Result<()> {
        let Some(stream) = stream else { return Ok(()) };
        let text = AnnotationValue::Text(damage.to_string());
        let time = self.now.unwrap_or(0);
        let known = self.streams.get(stream.index()).and_then(|known| known.cpu);
        self.timeline.gap(stream.index(), known.map(u64::from), None);
        self.gap(stream, None, time, "damaged".to_owned(), vec![inline("what", text)])
    }

    /// Returns the exported time of the latest event.
    pub fn now(&self) -> Option<u64> {
        self.now
    }

    /// Closes all open slices, and writes everything that is left.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Summary)> {
        let time = self.now.unwrap_or(0);
        for (place, count) in self.tracks.close() {
            self.close(time, place.uuid(), count, UNFINISHED)?;
        }
        for lane in self.lanes.close() {
            if let Some(&uuid) = self.lane_tracks.get(&lane.number) {
                self.close(time, uuid, 1, UNFINISHED)?;
            }
        }
        self.ends()?;
        self.sched.flush(&mut self.writer)?;
        let (out, bytes) = self.writer.finish()?;
        let world = self.timeline.world();
        let threads_left_out = world.threads.left_out();
        let names_left_out = world.names.left_out();
        let counters_left_out =
            self.timeline.counters_left_out().saturating_add(self.summary.counters_left_out);
        let mut overlaps: Vec<Overlap> =
            self.overlaps.into_values().filter(Overlap::is_one).collect();
        overlaps.sort_by(|one, other| one.rule.cmp(&other.rule));
        let shift = self.timebase.shift();
        let left_out =
            Summary { shift, threads_left_out, names_left_out, counters_left_out, ..self.summary };
        let found = Summary { bytes, overlaps, ..left_out };
        Ok((out, found))
    }

    #[inline]
    fn step(&mut self) -> io::Result<()> {
        self.left -= 1;
        match self.left {
            0 => self.end_block(),
            _ => Ok(()),
        }
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.left = BLOCK;
        if self.share.of > 1 {
            self.block += 1;
            self.sched.flush(&mut self.writer)?;
            self.writer.end_block(self.block % self.share.of != self.share.number)?;
        }
        Ok(())
    }

    /// Returns the plan for a record, and its index. The plan is moved out of its slot, and the caller must put it
    /// back.
    fn look(
        &mut self,
        event: &Event<'_>,
    ) -> io::Result<Option<(usize, Box<EventPlan>, EventSpot)>> {
        let index = event.class().index();
        let stream = event.stream().index();
        let Some(known) = self.streams.get(stream) else { return Ok(None) };
        if self.plans.len() <= index {
            self.plans.resize_with(index + 1, || None);
        }
        let plan = match self.plans.get_mut(index).and_then(Option::take) {
            Some(plan) => plan,
            None => {
                let plans = EventPlanner { pairs: &self.pairs };
                let schema = event.stream().trace().schema();
                Box::new(plans.plan(
                    event.class(),
                    known.source.is_kernel,
                    schema,
                    &mut self.writer,
                ))
            }
        };
        let time = event.time().map(|ns| self.timebase.place(ns));
        self.summary.out_of_range += u64::from(matches!(time, Some((_, false))));
        // What has no time is as late as what was before it.
        let time = time.map(|(time, _)| time).or(self.now).unwrap_or(0);
        self.now = Some(self.now.map_or(time, |now| now.max(time)));
        let spot = self.spot(event, &plan, time, stream)?;
        Ok(Some((index, plan, spot)))
    }

    /// Returns the place and time of an event, after making sure that the place has a track.
    fn spot(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        time: u64,
        stream: usize,
    ) -> io::Result<EventSpot> {
        let stream_number = u32::try_from(stream).unwrap_or(u32::MAX);
        let ask = |field: &Option<FieldRef>| event.integer(field.as_ref()?);
        let cpu = event.packet().cpu.or_else(|| ask(&plan.whose.cpu)?.try_into().ok());
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let Some(known) = self.streams.get_mut(stream) else {
            return Ok(EventSpot {
                time,
                place: TrackPlace::Stream(stream_number),
                machine: 0,
                cpu,
            });
        };
        known.cpu = cpu.or(known.cpu);
        let source = &known.source;
        let (machine, timeline) = (source.machine, &self.timeline);
        let prev = plan.kernel.as_ref().and_then(|kernel| kernel.prev(event));
        let tid = prev.or_else(|| ask(&plan.whose.tid));
        let tid = match tid {
            None if source.is_kernel => running(timeline, machine, cpu),
            tid => tid,
        };
        let is_plain = source.is_kernel
            && source.process.is_none()
            && plan.whose.pid.is_none()
            && plan.whose.process_name.is_none();
        let state = (timeline.world().threads.changes(), self.tracks.sweeps());
        let of = tid.filter(|_| is_plain).map(|tid| (machine, tid, state.0, state.1));
        let slot = of.and_then(|of| self.recent.get_mut(of.1 as usize % RECENT));
        if let (Some(Some(recent)), Some(of)) = (&slot, of) {
            if recent.of == of {
                return Ok(EventSpot { time, place: recent.place, machine, cpu });
            }
        }
        let (known_tid, inner) = source.thread(tid);
        let tid = known_tid.and_then(|tid| self.tracks.id(machine, tid));
        let inner = inner.and_then(|inner| self.tracks.id(machine, inner));
        let said = ask(&plan.whose.pid).and_then(|pid| self.tracks.id(machine, pid));
        let whole = source.process.and_then(|pid| self.tracks.id(machine, pid));
        let pid = said.or(whole);
        let place = match (tid, pid) {
            (Some(tid), Some(pid)) => TrackPlace::Thread { machine, pid, tid },
            (Some(tid), None) => {
                let found = known_tid.and_then(|tid| timeline.world().threads.find(machine, tid));
                let pid = found.and_then(|thread| process(&self.tracks, timeline.world(), thread));
                TrackPlace::Thread { machine, pid: pid.unwrap_or(tid), tid }
            }
            (None, Some(pid)) if !source.is_kernel => match inner {
                Some(tid) => TrackPlace::Inner { machine, pid, tid },
                None => TrackPlace::Process { machine, pid },
            },
            _ => match cpu {
                Some(cpu) => TrackPlace::Cpu { machine, cpu },
                None => TrackPlace::Stream(stream_number),
            },
        };
        let procname = plan.whose.process_name.as_ref().and_then(|name| text(event, name));
        // The environment's is the process' name, not that of each thread.
        let named = matches!(place, TrackPlace::Process { .. });
        let name = match &procname {
            None if named => source.process_name.as_deref(),
            name => name
                .as_deref()
                .filter(|_| !matches!(place, TrackPlace::Cpu { .. } | TrackPlace::Stream(_))),
        };
        if let (TrackPlace::Thread { pid, .. } | TrackPlace::Inner { pid, .. }, Some(process)) =
            (place, &source.process_name)
        {
            let place = TrackPlace::Process { machine, pid };
            self.tracks.describe(&mut self.writer, place, Some(process), stream_number)?;
        }
        let place = self.tracks.describe(&mut self.writer, place, name, stream_number)?;
        if let (Some(slot), Some(of), TrackPlace::Thread { .. }) = (slot, of, place) {
            // Where all places were swept meanwhile, this is not asked for again.
            *slot = Some(RecentThread { of, place });
        }
        Ok(EventSpot { time, place, machine, cpu })
    }

    fn export(&mut self, event: &Event<'_>, plan: &EventPlan, spot: EventSpot) -> io::Result<()> {
        // Where a switch does not follow from the one before, what is between them is written first.
        self.learn(event, plan, spot)?;
        let done = self.kernel(event, plan, spot)?;
        if done {
            self.calls(event, plan, spot)?;
        } else if !self.sample(event, spot)? {
            if let Some(class) = &plan.deferred {
                self.defer(event, class, spot);
            }
            match &plan.slice {
                Some(slice) => self.slice(event, plan, slice, spot)?,
                None => self.instant(event, plan, spot, None)?,
            }
        }
        match self.news.counters.is_empty() {
            true => Ok(()),
            false => self.count(event, spot),
        }
    }

    /// Keeps deferred fields of the thread's call for the end of its slice: readers show the last value of a name.
    #[cold]
    fn defer(&mut self, event: &Event<'_>, class: &DeferredClass, spot: EventSpot) {
        let track = spot.place.uuid();
        let bytes = event.bytes();
        let has_room = self.deferred.len() < DEFERRED_MAX || self.deferred.contains_key(&track);
        if !has_room || bytes > DEFERRED_BYTES_MAX {
            return;
        }
        let known = self.deferred.entry(track).or_default();
        if known.len() < FIELDS_MAX {
            known.extend(class.entry_fields(event));
        }
    }

    /// Exports a record as one of the format's kernel events. Returns false if that is not possible.
    fn kernel(&mut self, event: &Event<'_>, plan: &EventPlan, spot: EventSpot) -> io::Result<bool> {
        let Some(kernel) = &plan.kernel else { return Ok(false) };
        let Some(cpu) = spot.cpu else { return Ok(false) };
        let Some(number) = self.tracks.cpu(spot.machine, cpu) else { return Ok(false) };
        let tracks = &self.tracks;
        let id = |id| tracks.id(spot.machine, id).unwrap_or(0);
        let running =
            kernel.prev(event).or_else(|| running(&self.timeline, spot.machine, Some(cpu)));
        let pid = running.map_or(0, id);
        let put = |out: &mut _| kernel.put(event, id, out);
        let done = match self.writer.is_muted() {
            true => kernel.can_be_put(event),
            false => self.sched.add(&mut self.writer, number, (spot.time, pid), put)?,
        };
        self.summary.kernel += u64::from(done);
        self.gives(event, kernel, (spot, number), done);
        Ok(done)
    }

    /// Exports a record as a sample. Returns false if it is not one, or has no call stack.
    fn sample(&mut self, event: &Event<'_>, spot: EventSpot) -> io::Result<bool> {
        let Some(samples) = &mut self.samples else { return Ok(false) };
        let TrackPlace::Thread { pid, tid, .. } = spot.place else { return Ok(false) };
        if !samples.is_one(event) {
            return Ok(false);
        }
        let cpu = spot.cpu.and_then(|cpu| self.tracks.cpu(spot.machine, cpu));
        let Some(made) = samples.make(event, SampleOf { cpu, pid, tid }, self.writer.is_muted())
        else {
            return Ok(false);
        };
        self.summary.samples += 1;
        match made {
            Some(made) => self.writer.sample(self.share.number, spot.time, made).map(|()| true),
            None => Ok(true),
        }
    }

    /// Shows the call stack of a kernel event, if it has one, as an additional instant. The format's kernel events have
    /// no room for it.
    fn calls(&mut self, event: &Event<'_>, plan: &EventPlan, spot: EventSpot) -> io::Result<()> {
        let Some(samples) = &mut self.samples else { return Ok(()) };
        match !self.writer.is_muted() && samples.has_calls(event) {
            true => self.show(event, plan, spot, None),
            false => Ok(()),
        }
    }

    /// Takes from a record which thread runs, and to which processes threads belong.
    fn learn(&mut self, event: &Event<'_>, plan: &EventPlan, spot: EventSpot) -> io::Result<()> {
        if let Some(samples) = &mut self.samples {
            samples.learn(event);
        }
        self.timeline.event(event, true, &mut self.news);
        if let Some(named) = &plan.named {
            if let (Some(tid), Some(name)) = (event.integer(&named.tid), text(event, &named.name)) {
                self.name_thread(event.stream().index(), tid, &name)?;
            }
        }
        let mut renamed = self.timeline.take_renamed();
        if self.news.is_of_threads() {
            // Of these the name is told with all else.
            renamed.retain(|thread| !self.news.known.contains(thread));
            self.tell(spot)?;
        }
        for thread in renamed {
            self.rename(thread, spot)?;
        }
        match self.runs.has_unknown() {
            true => self.finds(event, plan, spot),
            false => Ok(()),
        }
    }

    /// Exports the processes of threads, closes the slices of those that end, and exports from when on a CPU's thread
    /// is unknown.
    #[cold]
    fn tell(&mut self, spot: EventSpot) -> io::Result<()> {
        let counters = std::mem::take(&mut self.news.counters);
        let of_threads = RecordNews { counters, ..RecordNews::default() };
        let RecordNews { known, exits, unfollowed, .. } =
            std::mem::replace(&mut self.news, of_threads);
        for thread in known {
            if let Some(kin) = Kin::new(&self.tracks, self.timeline.world(), thread) {
                self.writer.system(Some(spot.time), PacketData::ProcessTree(kin.tree()))?;
            }
        }
        for thread in exits {
            let world = self.timeline.world();
            let Some(Kin { tid, pid, .. }) = Kin::new(&self.tracks, world, thread) else {
                continue;
            };
            let place = match spot.place {
                // It says itself of which process it is.
                place @ TrackPlace::Thread { tid: own, .. } if own == tid => place,
                _ => TrackPlace::Thread { machine: spot.machine, pid, tid },
            };
            let open = self.tracks.close_one(place);
            self.close(spot.time, place.uuid(), open, "the thread ended")?;
        }
        unfollowed.iter().try_for_each(|of| self.unfollowed(spot.machine, of))
    }

    /// Exports the new name of a process that has executed another program, or whose first thread was renamed. Names of
    /// other threads are in the switches.
    #[cold]
    fn rename(&mut self, thread: ThreadId, spot: EventSpot) -> io::Result<()> {
        let world = self.timeline.world();
        // A thread of which no record says whose it is may be any process'.
        let is_first = world.threads.get(thread).is_some_and(|it| it.main == Some(thread));
        match Kin::new(&self.tracks, world, thread).filter(|_| is_first) {
            Some(kin) => self.writer.system(Some(spot.time), PacketData::ProcessTree(kin.tree())),
            None => Ok(()),
        }
    }

    /// Exports the name of a thread of the stream's process.
    fn name_thread(&mut self, stream: usize, tid: i64, name: &str) -> io::Result<()> {
        let Some(known) = self.streams.get(stream) else { return Ok(()) };
        let (source, machine) = (&known.source, known.source.machine);
        let ((tid, inner), tracks) = (source.thread(Some(tid)), &self.tracks);
        let id = |id: Option<i64>| tracks.id(machine, id?);
        let place = match (id(source.process), id(tid), id(inner)) {
            (Some(pid), Some(tid), _) => TrackPlace::Thread { machine, pid, tid },
            (Some(pid), None, Some(tid)) => TrackPlace::Inner { machine, pid, tid },
            _ => return Ok(()),
        };
        let process = source.process_name.as_deref();
        let number = u32::try_from(stream).unwrap_or(u32::MAX);
        if let TrackPlace::Thread { pid, .. } | TrackPlace::Inner { pid, .. } = place {
            let place = TrackPlace::Process { machine, pid };
            self.tracks.describe(&mut self.writer, place, process, number)?;
        }
        self.tracks.describe(&mut self.writer, place, Some(name), number).map(drop)
    }

    /// Exports the names that threads had when recording began, from the traces' environments.
    fn name_threads(&mut self, reader: &Reader) -> io::Result<()> {
        let mut named = HashSet::new();
        for stream in reader.streams() {
            let schema = stream.trace().schema();
            if !named.insert(Arc::as_ptr(schema)) {
                continue;
            }
            for (entry, value) in &schema.environment {
                let tid = entry.strip_prefix(THREAD_NAME_OF).and_then(|tid| tid.parse().ok());
                if let (Some(tid), EnvValue::Text(name)) = (tid, value) {
                    self.name_thread(stream.index(), tid, name)?;
                }
            }
        }
        Ok(())
    }

    fn is_kernel(&self, event: &Event<'_>) -> bool {
        self.streams.get(event.stream().index()).is_some_and(|stream| stream.source.is_kernel)
    }

    fn extra(&mut self) -> u64 {
        self.extras = self.extras.saturating_add(1);
        extra_uuid(self.extras)
    }

    fn instant(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        spot: EventSpot,
        note: Option<&str>,
    ) -> io::Result<()> {
        self.summary.instants += 1;
        self.show(event, plan, spot, note)
    }

    /// Exports a record as an instant.
    fn show(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        spot: EventSpot,
        note: Option<&str>,
    ) -> io::Result<()> {
        let shown = ShownEvent {
            time: spot.time,
            track: spot.place.uuid(),
            categories: Some(&plan.categories),
            kind: Some(&plan.instant),
            extent: Extent::All(&plan.twice, note),
        };
        self.put(event, spot, &shown)
    }

    /// Writes an event on a track.
    #[inline]
    fn put(
        &mut self,
        event: &Event<'_>,
        spot: EventSpot,
        shown: &ShownEvent<'_>,
    ) -> io::Result<()> {
        if self.writer.is_muted() {
            return Ok(());
        }
        let begun = self.writer.begin_event();
        if let Some(categories) = shown.categories {
            categories.add_to(&mut self.writer.buffer);
        }
        self.annotations(event, spot, shown.extent);
        let out = &mut self.writer.buffer;
        match shown.kind {
            Some(kind) => kind.add_to(out),
            None => encode::number(out, track_event::TYPE, EventType::SliceEnd as u64),
        }
        encode::number(out, track_event::TRACK, shown.track);
        self.writer.end_event(begun, shown.time)
    }

    #[inline]
    fn annotations(&mut self, event: &Event<'_>, spot: EventSpot, extent: Extent<'_>) {
        let Exporter { writer, samples, .. } = self;
        let has_calls = samples.is_some();
        let functions = samples.as_mut().map(|samples| samples.functions(event));
        let mut ask = || samples.as_mut()?.stacks(event);
        let mut annotations = Annotations::new(writer);
        annotations.leave_out_copies(event.stream().trace().schema());
        if has_calls {
            annotations.name_frames(&mut ask);
        }
        // At an end it is what it was at the begin. In front of long arrays, behind which there is no room.
        match extent {
            Extent::All(twice, _) => {
                annotations.put_apart(&twice.contexts);
                event.visit(Scope::CommonContext, &mut annotations);
                event.visit(Scope::SpecificContext, &mut annotations);
                if let Some(cpu) = spot.cpu.filter(|_| twice.cpu) {
                    annotations.add_apart(CPU, cpu.into());
                }
                annotations.wrap(CONTEXT);
                event.visit(Scope::Payload, &mut annotations);
                annotations.name_functions(functions.as_deref().unwrap_or_default());
            }
            Extent::End(slice, deferred) => {
                // Called as at the begin, whose values they take the place of.
                for (field, value) in deferred {
                    value.tell(field, &mut annotations);
                }
                annotations.put_apart(&slice.shared);
                event.visit(Scope::Payload, &mut annotations);
                annotations.wrap("end");
                event.visit(Scope::SpecificContext, &mut annotations);
            }
        }
        if let Extent::All(twice, note) = extent {
            if let Some(cpu) = spot.cpu.filter(|_| !twice.cpu) {
                annotations.add(CPU, cpu.into());
            }
            if let Some(note) = note {
                annotations.add_text("note", note);
            }
        }
        annotations.finish();
    }

    /// Exports the values of counters in a record.
    #[cold]
    fn count(&mut self, event: &Event<'_>, spot: EventSpot) -> io::Result<()> {
        let mut values = std::mem::take(&mut self.news.counters);
        for value in values.drain(..) {
            let stream = u32::try_from(event.stream().index()).unwrap_or(u32::MAX);
            let place = match value.place {
                CounterPlace::Cpu { machine, cpu } => TrackPlace::Cpu { machine, cpu },
                CounterPlace::Stream(stream) => TrackPlace::Stream(stream),
                CounterPlace::Process(process) => {
                    let world = self.timeline.world();
                    let found = world.threads.get(process);
                    let pid = found.and_then(|it| self.tracks.id(it.machine, it.tid.into()));
                    match pid {
                        Some(pid) => TrackPlace::Process { machine: spot.machine, pid },
                        None => TrackPlace::Stream(stream),
                    }
                }
            };
            let track = self.counter_track(place, value.name, stream)?;
            self.summary.counters += 1;
            if self.writer.is_muted() {
                continue;
            }
            let begun = self.writer.begin_event();
            let out = &mut self.writer.buffer;
            encode::number(out, track_event::TYPE, EventType::Counter as u64);
            encode::number(out, track_event::TRACK, track);
            let whole = match value.number {
                CounterNumber::Signed(number) => Ok(number),
                CounterNumber::Unsigned(number) => i64::try_from(number).map_err(|_| number as f64),
                CounterNumber::Real(number) => Err(number),
            };
            match whole {
                Ok(number) => encode::signed(out, track_event::COUNTER, number),
                Err(number) => encode::real(out, track_event::DOUBLE_COUNTER, number),
            }
            self.writer.end_event(begun, spot.time)?;
        }
        // With its memory: the next record has as many.
        self.news.counters = values;
        Ok(())
    }

    /// Returns the track of a counter, which is added if it is new. The timeline limits their number.
    fn counter_track(&mut self, place: TrackPlace, name: Name, stream: u32) -> io::Result<u64> {
        let place = self.tracks.describe(&mut self.writer, place, None, stream)?;
        if let Some(&track) = self.counters.get(&(place, name)) {
            return Ok(track);
        }
        let track = self.extra();
        self.counters.insert((place, name), track);
        let text = self.timeline.world().names.text(name);
        self.writer.track(extra_track(track, place.uuid(), &text, true))?;
        Ok(track)
    }

    /// Shows that something is missing in a stream: on this CPU, or on that of the stream's last record.
    fn gap(
        &mut self,
        stream: &Stream,
        cpu: Option<u32>,
        time: u64,
        name: String,
        debug_annotations: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        let number = u32::try_from(stream.index()).unwrap_or(u32::MAX);
        let Some(known) = self.streams.get_mut(stream.index()) else { return Ok(()) };
        let begun = std::mem::replace(&mut known.begun, true);
        known.cpu = cpu.or(known.cpu);
        let source = &known.source;
        let (machine, is_kernel) = (source.machine, source.is_kernel);
        let whole = source.process.and_then(|pid| self.tracks.id(machine, pid));
        let (cpu, procname) = (known.cpu, source.process_name.clone());
        if let (Some(cpu), true) = (cpu, is_kernel) {
            self.loses((machine, cpu), time)?;
        }
        let place = match (whole, cpu) {
            (Some(pid), _) if !is_kernel => TrackPlace::Process { machine, pid },
            (_, Some(cpu)) => TrackPlace::Cpu { machine, cpu },
            _ => TrackPlace::Stream(number),
        };
        if let (Some(cpu), true) = (cpu, is_kernel) {
            if let Some(cpu) = self.tracks.cpu(machine, cpu) {
                self.sched.gap(&mut self.writer, cpu)?;
            }
        }
        let name_of = procname.as_deref().filter(|_| matches!(place, TrackPlace::Process { .. }));
        let place = self.tracks.describe(&mut self.writer, place, name_of, number)?;
        if !begun {
            self.writer.begin_stream(number)?;
        }
        let mut annotations = debug_annotations;
        let text = AnnotationValue::Text(stream.name().to_owned());
        annotations.push(inline("stream", text));
        self.writer.gap(
            number,
            time,
            TrackEvent {
                debug_annotations: annotations,
                r#type: Some(EventType::Instant as i32),
                name: Some(name),
                track_uuid: Some(place.uuid()),
                ..TrackEvent::default()
            },
        )
    }
}

/// Returns the begin of the traces \[ns since 1970\]: the earlier of their packets' begin and the first record.
fn first_time(reader: &Reader) -> Option<i64> {
    let mut events = reader.events(TimeRange::ALL);
    let mut first = None;
    for _ in 0..FIRST_MESSAGES {
        match events.next() {
            Some(Message::Event(event)) => {
                first = event.time();
                break;
            }
            Some(_) => {}
            None => break,
        }
    }
    let packets = reader.span().map(|span| span.from);
    packets.into_iter().chain(first).min()
}

/// The form in which an event is written.
struct ShownEvent<'s> {
    time: u64,
    track: u64,
    categories: Option<&'s TextPiece>,
    /// The encoded type and name; `None` if the event ends a slice.
    kind: Option<&'s TextPiece>,
    extent: Extent<'s>,
}

/// The fields of an event that are written.
#[derive(Clone, Copy)]
enum Extent<'s> {
    /// All fields, with annotations that have names of fields, and a note.
    All(&'s Twice, Option<&'s str>),
    /// The fields that the begin of the slice did not have, and deferred ones.
    End(&'s SlicePlan, &'s [(FieldRef, DeferredField)]),
}

/// Returns the number of the thread that a CPU runs, 0 for no thread; `None` if it is unknown.
fn running(timeline: &Timeline, machine: MachineNumber, cpu: Option<u32>) -> Option<i64> {
    let thread = timeline.runs_on(machine, cpu?)?;
    timeline.world().threads.get(thread).map(|thread| thread.tid.into())
}

/// Returns the description of the system. Readers decode thread states by the kernel's release.
fn system_info(schema: &Schema) -> Option<SystemInfo> {
    let text = |name| match schema.environment(name) {
        Some(EnvValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let release = Some(text("kernel_release")?);
    let utsname = Utsname { sysname: text("sysname"), version: text("kernel_version"), release };
    Some(SystemInfo { utsname: Some(utsname) })
}

/// Returns an annotation whose name is a text and not a number.
fn inline(name: &str, value: AnnotationValue) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        value: Some(value),
        ..DebugAnnotation::default()
    }
}
