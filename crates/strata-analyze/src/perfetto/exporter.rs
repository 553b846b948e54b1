//! From event record to packets.

mod slice;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use strata_ctf::environment::THREAD_NAME_OF;
use strata_ctf::read::{
    Damage, Discarded, DiscardedKind, Event, FieldRef, Reader, Scope, Stream, Value,
};
use strata_model::schema::Schema;
use strata_model::EnvValue;

use super::classes::{counters_without_field, CounterRule, News, Origin, Plan, Plans, Slice};
use super::clock::Timebase;
use super::encode;
use super::fields::Annotations;
use super::kernel::{number, text};
use super::pairs::Pairs;
use super::proto::{
    track_event, AnnotationValue, Data, DebugAnnotation, EventType, ProcessTree, SystemInfo,
    TrackEvent, TreeProcess, TreeThread, Utsname,
};
use super::sched::Sched;
use super::slices::Lanes;
use super::tracks::{extra_track, extra_uuid, Machine, Place, Tracks};
use super::writer::Writer;
use super::{Options, Summary};
use crate::mix::Mix;
use crate::render::line::Piece;

/// Counters, each of an event's field in a process or on a CPU.
const COUNTERS_MAX: usize = 1 << 16;
/// What is said of a slice of which the end was not found.
const UNFINISHED: &str = "its end is not in the trace";

/// Exports event records, in the order of time.
#[derive(Debug)]
pub struct Exporter<W> {
    writer: Writer<W>,
    timebase: Timebase,
    pairs: Pairs,
    options: Options,
    /// By [`Stream::index`](strata_ctf::read::Stream::index).
    streams: Vec<KnownStream>,
    plans: Vec<Option<Box<Plan>>>,
    tracks: Tracks,
    sched: Sched,
    lanes: Lanes,
    counters: HashMap<(Place, String), u64>,
    /// Tracks of lanes and counters so far.
    extras: u64,
    lane_tracks: HashMap<u32, u64, Mix>,
    /// When a slice began or ended last, by track.
    latest: HashMap<u64, u64, Mix>,
    now: Option<u64>,
    summary: Summary,
}

#[derive(Debug)]
struct KnownStream {
    origin: Origin,
    /// Of its latest event.
    cpu: Option<u32>,
    begun: bool,
}

/// Where and when an event was.
#[derive(Clone, Copy, Debug)]
struct Spot {
    time: u64,
    place: Place,
    machine: Machine,
    cpu: Option<u32>,
}

impl<W: Write> Exporter<W> {
    /// Begin to export what the reader reads.
    ///
    /// # Errors
    /// `out` fails.
    pub fn new(out: W, reader: &Reader, options: Options) -> io::Result<Exporter<W>> {
        let schemas: Vec<&Schema> =
            reader.traces().iter().map(|trace| trace.schema().as_ref()).collect();
        let timebase = Timebase::new(schemas.iter().copied());
        let events = schemas.iter().flat_map(|schema| &schema.streams);
        let names = events.flat_map(|stream| &stream.events).map(|event| event.name.as_str());
        let pairs = Pairs::new(names, &options.pairs, options.automatic_pairs);
        let machines = Machines::new(&schemas);
        let streams = reader.streams().iter().map(|stream| {
            let schema = stream.trace().schema();
            let origin = Origin::new(schema, machines.of(schema));
            KnownStream { origin, cpu: None, begun: false }
        });
        let streams: Vec<KnownStream> = streams.collect();
        let names = reader.streams().iter().map(|stream| stream.name().to_owned()).collect();
        let mut writer = Writer::new(out, timebase.clock_id());
        let begin = reader.span().map_or(0, |span| timebase.time(span.from));
        writer.system(None, Data::ClockSnapshot(timebase.snapshot(begin)))?;
        if let Some(system) = schemas.iter().find_map(|schema| system_info(schema)) {
            writer.system(None, Data::SystemInfo(system))?;
        }
        let mut exporter = Exporter {
            writer,
            timebase,
            pairs,
            options,
            streams,
            plans: Vec::new(),
            tracks: Tracks::new(machines.names, names),
            sched: Sched::default(),
            lanes: Lanes::default(),
            counters: HashMap::new(),
            extras: 0,
            lane_tracks: HashMap::default(),
            latest: HashMap::default(),
            now: None,
            summary: Summary::default(),
        };
        exporter.name_threads(reader)?;
        Ok(exporter)
    }

    /// The rules that select nothing in these traces, whatever their records say.
    pub fn idle_rules(reader: &Reader, options: &Options) -> Vec<String> {
        let schemas: Vec<&Schema> =
            reader.traces().iter().map(|trace| trace.schema().as_ref()).collect();
        let counters = counters_without_field(&schemas, &options.counters);
        let mut idle: Vec<String> =
            counters.into_iter().map(|rule: &CounterRule| format!("--counter '{rule}'")).collect();
        for rule in &options.pairs {
            let events = schemas.iter().flat_map(|schema| &schema.streams);
            let names = events.flat_map(|stream| &stream.events).map(|event| event.name.as_str());
            if Pairs::new(names, std::slice::from_ref(rule), false).is_without_rules() {
                idle.push(format!("--pair '{rule}'"));
            }
        }
        idle
    }

    /// Export a record.
    ///
    /// # Errors
    /// The output fails.
    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        let Some((index, plan, spot)) = self.look(event)? else { return Ok(()) };
        self.summary.events += 1;
        let done = self.export(event, &plan, spot);
        if let Some(slot) = self.plans.get_mut(index) {
            *slot = Some(plan);
        }
        done
    }

    /// Take note of what a record that is not exported says of threads and processes.
    ///
    /// # Errors
    /// The output fails.
    pub fn skip(&mut self, event: &Event<'_>) -> io::Result<()> {
        let Some((index, plan, spot)) = self.look(event)? else { return Ok(()) };
        let done = self.learn(event, &plan, spot);
        if let Some(slot) = self.plans.get_mut(index) {
            *slot = Some(plan);
        }
        done
    }

    /// Show where something was discarded.
    ///
    /// # Errors
    /// The output fails.
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
        self.gap(discarded.stream, from, name, annotations)
    }

    /// Show where a trace is damaged.
    ///
    /// # Errors
    /// The output fails.
    pub fn damage(&mut self, damage: &Damage, stream: Option<&Stream>) -> io::Result<()> {
        let Some(stream) = stream else { return Ok(()) };
        let text = AnnotationValue::Text(damage.to_string());
        let time = self.now.unwrap_or(0);
        self.gap(stream, time, "damaged".to_owned(), vec![inline("what", text)])
    }

    /// The time of the latest event, as it is exported.
    pub fn now(&self) -> Option<u64> {
        self.now
    }

    /// Close what is open, and hand everything on.
    ///
    /// # Errors
    /// The output fails.
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
        self.sched.flush(&mut self.writer)?;
        let (out, bytes) = self.writer.finish()?;
        Ok((out, Summary { bytes, ..self.summary }))
    }

    /// What to do with it, and where it was. The plan is taken out of its place, to be put back.
    fn look(&mut self, event: &Event<'_>) -> io::Result<Option<(usize, Box<Plan>, Spot)>> {
        let index = event.class().index();
        let stream = event.stream().index();
        let Some(known) = self.streams.get(stream) else { return Ok(None) };
        if self.plans.len() <= index {
            self.plans.resize_with(index + 1, || None);
        }
        let plan = match self.plans.get_mut(index).and_then(Option::take) {
            Some(plan) => plan,
            None => {
                let plans = Plans { pairs: &self.pairs, counters: &self.options.counters };
                let schema = event.stream().trace().schema();
                Box::new(plans.plan(event.class(), &known.origin, schema, &mut self.writer))
            }
        };
        let time = event.time().map(|ns| self.timebase.time(ns));
        // What has no time is as late as what was before it.
        let time = time.or(self.now).unwrap_or(0);
        self.now = Some(self.now.map_or(time, |now| now.max(time)));
        let spot = self.spot(event, &plan, time, stream)?;
        Ok(Some((index, plan, spot)))
    }

    /// The place of an event, which has a track then.
    fn spot(
        &mut self,
        event: &Event<'_>,
        plan: &Plan,
        time: u64,
        stream: usize,
    ) -> io::Result<Spot> {
        let stream_number = u32::try_from(stream).unwrap_or(u32::MAX);
        let ask = |field: &Option<FieldRef>| number(event, field.as_ref()?);
        let cpu = event.packet().cpu.or_else(|| ask(&plan.who.cpu)?.try_into().ok());
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let Some(known) = self.streams.get_mut(stream) else {
            return Ok(Spot { time, place: Place::Stream(stream_number), machine: 0, cpu });
        };
        known.cpu = cpu.or(known.cpu);
        let origin = &known.origin;
        let machine = origin.machine;
        let prev = plan.kernel.as_ref().and_then(|kernel| kernel.prev(event));
        let tid = prev.or_else(|| ask(&plan.who.tid));
        let tid = match tid {
            None if origin.kernel => cpu.and_then(|cpu| self.sched.running(machine, cpu)),
            tid => tid,
        };
        let (tid, inner) = origin.thread(tid);
        let tid = tid.and_then(|tid| self.tracks.id(machine, tid));
        let inner = inner.and_then(|inner| self.tracks.id(machine, inner));
        let said = ask(&plan.who.pid).and_then(|pid| self.tracks.id(machine, pid));
        if let (Some(tid), Some(pid)) = (tid, said) {
            self.tracks.belongs(tid, pid);
        }
        let whole = origin.pid.and_then(|pid| self.tracks.id(machine, pid));
        let pid = said.or(whole);
        let place = match (tid, pid) {
            (Some(tid), Some(pid)) => Place::Thread { machine, pid, tid },
            (Some(tid), None) => Place::Thread { machine, pid: self.tracks.process_of(tid), tid },
            (None, Some(pid)) if !origin.kernel => match inner {
                Some(tid) => Place::Inner { machine, pid, tid },
                None => Place::Process { machine, pid },
            },
            _ => match cpu {
                Some(cpu) => Place::Cpu { machine, cpu },
                None => Place::Stream(stream_number),
            },
        };
        let procname = plan.who.procname.as_ref().and_then(|name| text(event, name));
        // The environment's is the process' name, not that of each thread.
        let named = matches!(place, Place::Process { .. });
        let name = match &procname {
            None if named => origin.procname.as_deref(),
            name => {
                name.as_deref().filter(|_| !matches!(place, Place::Cpu { .. } | Place::Stream(_)))
            }
        };
        if let (Place::Thread { pid, .. } | Place::Inner { pid, .. }, Some(process)) =
            (place, &origin.procname)
        {
            let place = Place::Process { machine, pid };
            self.tracks.describe(&mut self.writer, place, Some(process), stream_number)?;
        }
        let place = self.tracks.describe(&mut self.writer, place, name, stream_number)?;
        Ok(Spot { time, place, machine, cpu })
    }

    fn export(&mut self, event: &Event<'_>, plan: &Plan, spot: Spot) -> io::Result<()> {
        let done = self.kernel(event, plan, spot)?;
        self.learn(event, plan, spot)?;
        if !done {
            match &plan.slice {
                Some(slice) => self.slice(event, plan, slice, spot)?,
                None => self.instant(event, plan, spot, None)?,
            }
        }
        self.count(event, plan, spot)
    }

    /// Export as one of the format's kernel events; false: it cannot be.
    fn kernel(&mut self, event: &Event<'_>, plan: &Plan, spot: Spot) -> io::Result<bool> {
        let Some(kernel) = &plan.kernel else { return Ok(false) };
        let Some(cpu) = spot.cpu else { return Ok(false) };
        let Some(number) = self.tracks.cpu(spot.machine, cpu) else { return Ok(false) };
        let tracks = &self.tracks;
        let id = |id| tracks.id(spot.machine, id).unwrap_or(0);
        let running = kernel.prev(event).or_else(|| self.sched.running(spot.machine, cpu));
        let pid = running.map_or(0, id);
        let put = |out: &mut _| kernel.put(event, id, out);
        let done = self.sched.add(&mut self.writer, number, (spot.time, pid), put)?;
        self.summary.kernel += u64::from(done);
        Ok(done)
    }

    /// Take note of who runs, and who belongs to whom.
    fn learn(&mut self, event: &Event<'_>, plan: &Plan, spot: Spot) -> io::Result<()> {
        if let (Some(kernel), Some(cpu)) = (&plan.kernel, spot.cpu) {
            if let Some(next) = kernel.next(event) {
                self.sched.run(spot.machine, cpu, Some(next));
            }
        }
        let machine = spot.machine;
        let ask = |field: &FieldRef| number(event, field);
        let id = |tracks: &Tracks, field: &FieldRef| tracks.id(machine, ask(field)?);
        match &plan.news {
            None => Ok(()),
            Some(News::State { tid, pid, ppid, name }) => {
                let (Some(tid), Some(pid)) = (id(&self.tracks, tid), id(&self.tracks, pid)) else {
                    return Ok(());
                };
                let parent = ppid.as_ref().and_then(|ppid| id(&self.tracks, ppid));
                let name = name.as_ref().and_then(|name| text(event, name)).map(Cow::into_owned);
                self.tell(spot, Kin { tid, pid, parent, name })
            }
            Some(News::Fork { parent_tid, parent_pid, tid, pid, name }) => {
                let Some(tid) = id(&self.tracks, tid) else { return Ok(()) };
                let known = parent_pid.as_ref().and_then(|pid| id(&self.tracks, pid));
                let of_thread = |tracks: &Tracks| {
                    let tid = id(tracks, parent_tid.as_ref()?)?;
                    Some(tracks.process_of(tid))
                };
                let parent = known.or_else(|| of_thread(&self.tracks));
                let Some(pid) = pid.as_ref().and_then(|pid| id(&self.tracks, pid)) else {
                    return Ok(());
                };
                let name = name.as_ref().and_then(|name| text(event, name)).map(Cow::into_owned);
                self.tell(spot, Kin { tid, pid, parent, name })
            }
            Some(News::Name { tid, name }) => {
                let (Some(tid), Some(name)) = (ask(tid), text(event, name)) else { return Ok(()) };
                self.name_thread(event.stream().index(), tid, &name)
            }
            Some(News::Exit { tid }) => {
                let Some(tid) = id(&self.tracks, tid) else { return Ok(()) };
                let pid = self.tracks.process_of(tid);
                let place = match spot.place {
                    // It says itself of which process it is.
                    place @ Place::Thread { tid: own, .. } if own == tid => place,
                    _ => Place::Thread { machine, pid, tid },
                };
                let open = self.tracks.close_one(place);
                self.close(spot.time, place.uuid(), open, "the thread ended")
            }
        }
    }

    /// A thread of the stream's process has this name.
    fn name_thread(&mut self, stream: usize, tid: i64, name: &str) -> io::Result<()> {
        let Some(known) = self.streams.get(stream) else { return Ok(()) };
        let (origin, machine) = (&known.origin, known.origin.machine);
        let ((tid, inner), tracks) = (origin.thread(Some(tid)), &self.tracks);
        let id = |id: Option<i64>| tracks.id(machine, id?);
        let place = match (id(origin.pid), id(tid), id(inner)) {
            (Some(pid), Some(tid), _) => Place::Thread { machine, pid, tid },
            (Some(pid), None, Some(tid)) => Place::Inner { machine, pid, tid },
            _ => return Ok(()),
        };
        let process = origin.procname.as_deref();
        let number = u32::try_from(stream).unwrap_or(u32::MAX);
        if let Place::Thread { pid, .. } | Place::Inner { pid, .. } = place {
            let place = Place::Process { machine, pid };
            self.tracks.describe(&mut self.writer, place, process, number)?;
        }
        self.tracks.describe(&mut self.writer, place, Some(name), number).map(drop)
    }

    /// The names that threads had when recording began are in the environments.
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

    /// Export which thread is of which process.
    fn tell(&mut self, spot: Spot, kin: Kin) -> io::Result<()> {
        let Kin { tid, pid, parent, name } = kin;
        self.tracks.belongs(tid, pid);
        let process = TreeProcess {
            pid: Some(pid),
            ppid: parent,
            cmdline: name.clone().filter(|_| tid == pid).into_iter().collect(),
        };
        let mut tree = ProcessTree::default();
        if tid == pid {
            tree.processes.push(process);
        }
        tree.threads.push(TreeThread { tid: Some(tid), tgid: Some(pid), name });
        self.writer.system(Some(spot.time), Data::ProcessTree(tree))
    }

    fn is_kernel(&self, event: &Event<'_>) -> bool {
        self.streams.get(event.stream().index()).is_some_and(|stream| stream.origin.kernel)
    }

    fn extra(&mut self) -> u64 {
        self.extras = self.extras.saturating_add(1);
        extra_uuid(self.extras)
    }

    fn instant(
        &mut self,
        event: &Event<'_>,
        plan: &Plan,
        spot: Spot,
        note: Option<&str>,
    ) -> io::Result<()> {
        self.summary.instants += 1;
        self.show(event, plan, spot, note)
    }

    /// As an instant.
    fn show(
        &mut self,
        event: &Event<'_>,
        plan: &Plan,
        spot: Spot,
        note: Option<&str>,
    ) -> io::Result<()> {
        let shown = Shown {
            time: spot.time,
            track: spot.place.uuid(),
            categories: Some(&plan.categories),
            kind: Some(&plan.instant),
            extent: Extent::All(note),
        };
        self.put(event, spot, &shown)
    }

    /// An event on a track.
    #[inline]
    fn put(&mut self, event: &Event<'_>, spot: Spot, shown: &Shown<'_>) -> io::Result<()> {
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
    fn annotations(&mut self, event: &Event<'_>, spot: Spot, extent: Extent<'_>) {
        let mut annotations = Annotations::new(&mut self.writer);
        // At an end it is what it was at the begin. In front of long arrays, behind which there is no room.
        match extent {
            Extent::All(_) => {
                event.visit(Scope::CommonContext, &mut annotations);
                event.visit(Scope::Payload, &mut annotations);
            }
            Extent::End(slice) => {
                annotations.put_apart(&slice.shared);
                event.visit(Scope::Payload, &mut annotations);
                annotations.wrap("end");
            }
        }
        event.visit(Scope::SpecificContext, &mut annotations);
        if let Extent::All(note) = extent {
            if let Some(cpu) = spot.cpu {
                annotations.add("cpu", cpu.into());
            }
            if let Some(note) = note {
                annotations.add_text("note", note);
            }
        }
        annotations.finish();
    }

    fn count(&mut self, event: &Event<'_>, plan: &Plan, spot: Spot) -> io::Result<()> {
        for counter in &plan.counters {
            let value = match event.value(&counter.field) {
                Some(Value::Signed(number)) => Ok(number),
                Some(Value::Unsigned(number)) => i64::try_from(number).map_err(|_| number as f64),
                Some(Value::Real(number)) => Err(number),
                _ => continue,
            };
            let kernel = self.is_kernel(event);
            let place = match (spot.place, spot.cpu) {
                // Who happens to run has nothing to do with what the kernel counts.
                (_, Some(cpu)) if kernel => Place::Cpu { machine: spot.machine, cpu },
                (Place::Thread { machine, pid, .. } | Place::Inner { machine, pid, .. }, _) => {
                    Place::Process { machine, pid }
                }
                (place, _) => place,
            };
            if let Some(track) = self.counter_track(place, &counter.name, event)? {
                self.summary.counters += 1;
                let begun = self.writer.begin_event();
                let out = &mut self.writer.buffer;
                encode::number(out, track_event::TYPE, EventType::Counter as u64);
                encode::number(out, track_event::TRACK, track);
                match value {
                    Ok(value) => encode::signed(out, track_event::COUNTER, value),
                    Err(value) => encode::real(out, track_event::DOUBLE_COUNTER, value),
                }
                self.writer.end_event(begun, spot.time)?;
            }
        }
        Ok(())
    }

    /// The track of a counter; None: there are too many.
    fn counter_track(
        &mut self,
        place: Place,
        name: &str,
        event: &Event<'_>,
    ) -> io::Result<Option<u64>> {
        let stream = u32::try_from(event.stream().index()).unwrap_or(u32::MAX);
        let place = self.tracks.describe(&mut self.writer, place, None, stream)?;
        let id = (place, name.to_owned());
        if let Some(&track) = self.counters.get(&id) {
            return Ok(Some(track));
        }
        if self.counters.len() >= COUNTERS_MAX {
            return Ok(None);
        }
        let track = self.extra();
        self.counters.insert(id, track);
        self.writer.track(extra_track(track, place.uuid(), name, true))?;
        Ok(Some(track))
    }

    /// Show that something of a stream is absent.
    fn gap(
        &mut self,
        stream: &Stream,
        time: u64,
        name: String,
        debug_annotations: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        let number = u32::try_from(stream.index()).unwrap_or(u32::MAX);
        let Some(known) = self.streams.get_mut(stream.index()) else { return Ok(()) };
        let begun = std::mem::replace(&mut known.begun, true);
        let origin = &known.origin;
        let machine = origin.machine;
        let whole = origin.pid.and_then(|pid| self.tracks.id(machine, pid));
        let (cpu, procname) = (known.cpu, origin.procname.clone());
        let place = match (whole, cpu) {
            (Some(pid), _) if !origin.kernel => Place::Process { machine, pid },
            (_, Some(cpu)) => Place::Cpu { machine, cpu },
            _ => Place::Stream(number),
        };
        if let (Some(cpu), true) = (cpu, origin.kernel) {
            // Who ran may have been among it.
            self.sched.run(machine, cpu, None);
            if let Some(cpu) = self.tracks.cpu(machine, cpu) {
                self.sched.gap(&mut self.writer, cpu)?;
            }
        }
        let name_of = procname.as_deref().filter(|_| matches!(place, Place::Process { .. }));
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

/// How an event is shown.
struct Shown<'s> {
    time: u64,
    track: u64,
    categories: Option<&'s Piece>,
    /// Its type and name; `None`: it ends a slice.
    kind: Option<&'s Piece>,
    extent: Extent<'s>,
}

/// Which of an event's fields are exported.
#[derive(Clone, Copy)]
enum Extent<'s> {
    /// All, and a note.
    All(Option<&'s str>),
    /// Those that are new at the end of a slice.
    End(&'s Slice),
}

/// A thread and its process.
struct Kin {
    tid: i32,
    pid: i32,
    parent: Option<i32>,
    name: Option<String>,
}

/// The machines' names, in the order of the traces.
struct Machines {
    names: Vec<String>,
}

impl Machines {
    fn new(schemas: &[&Schema]) -> Machines {
        let mut names: Vec<String> = Vec::new();
        for schema in schemas {
            let name = hostname(schema);
            if names.len() < usize::from(Machine::MAX) && !names.iter().any(|found| found == name) {
                names.push(name.to_owned());
            }
        }
        Machines { names }
    }

    fn of(&self, schema: &Schema) -> Machine {
        let at = self.names.iter().position(|name| name == hostname(schema));
        at.and_then(|at| Machine::try_from(at).ok()).unwrap_or(Machine::MAX)
    }
}

fn hostname(schema: &Schema) -> &str {
    match schema.environment("hostname") {
        Some(EnvValue::Text(name)) => name,
        _ => "",
    }
}

/// By the kernel's release, readers tell the spelling of a thread's state.
fn system_info(schema: &Schema) -> Option<SystemInfo> {
    let text = |name| match schema.environment(name) {
        Some(EnvValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let release = Some(text("kernel_release")?);
    let utsname = Utsname { sysname: text("sysname"), version: text("kernel_version"), release };
    Some(SystemInfo { utsname: Some(utsname) })
}

/// An annotation whose name is in it.
fn inline(name: &str, value: AnnotationValue) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        value: Some(value),
        ..DebugAnnotation::default()
    }
}
