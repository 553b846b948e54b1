//! One process in a session: what the keeper and the mover share of it, and the mover's own part.
//!
//! The keeper (`keeper.rs`) keeps the process' control page alive; the mover (`mover.rs`) takes packets.
//! The mover may wait for a disk, so the two share no lock that is held while packets are written.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use strata_collect::{Collector, Directory, Identity, Producer, StreamStats};
use strata_ctf::environment::Known;
use strata_model::Uuid;
use strata_ring::Channel;
use strata_user::{AppSession, Application, RecordFormat, Rules};

use crate::describe::{known, new_uuid, stream_class, Machine, TraceOf};
use crate::error::{failure_text, is_ours};
use crate::filtered::Filtered;
use crate::folder::TraceFolder;
use crate::pace::{keep, Pace};
use crate::report::{Counts, ProcessReport};
use crate::shared::{Layer, Shared};
use crate::verify::impossible_record;

/// A lock whose holder cannot leave it half-changed: what panicked is reported by its thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both threads know of a process.
#[derive(Debug)]
pub(crate) struct Traced {
    application: Application,
    /// Its session's; children may have the same.
    generation: u64,
    session: Mutex<Option<AppSession>>,
    /// It has ended, or was given up: take what is left.
    ended: AtomicBool,
    /// The mover has taken everything.
    finished: AtomicBool,
    /// Tracepoints that the rules select, as far as is known.
    selected: AtomicU64,
    problem: Mutex<Option<String>>,
    /// What it shares cannot be true: nothing that it wrote is believed.
    damaged: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

impl Traced {
    pub(crate) fn new(session: AppSession) -> Traced {
        Traced {
            application: session.application().clone(),
            generation: session.generation(),
            selected: AtomicU64::new(session.nr_selected() as u64),
            session: Mutex::new(Some(session)),
            ended: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            problem: Mutex::new(None),
            damaged: AtomicBool::new(false),
            warnings: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn application(&self) -> &Application {
        &self.application
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The session in the process; `None` after it was released.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<AppSession>> {
        lock(&self.session)
    }

    /// Take what is left, and then no more.
    pub(crate) fn end(&self) {
        // Release pairs with the acquire in has_ended(): the mover sees why.
        self.ended.store(true, Ordering::Release);
    }

    /// The same, since this went wrong with it. The first reason counts.
    pub(crate) fn give_up(&self, error: &strata_user::Error, shared: &Shared) {
        self.found(error, shared);
        self.end();
    }

    /// Something is wrong with what it shares, or with how it is reached.
    fn found(&self, error: &strata_user::Error, shared: &Shared) {
        let damage = is_damage(error, shared.has_lagged());
        if !error.is_gone() {
            lock(&self.problem).get_or_insert(error.to_string());
        }
        if damage {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// What it says cannot be, for this reason.
    fn disbelieve(&self, why: String) {
        lock(&self.problem).get_or_insert(why);
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Say this once in the report.
    pub(crate) fn warn(&self, text: String) {
        keep(&mut lock(&self.warnings), text);
    }

    /// Look for tracepoints that came or went, and have them switched on. What is wrong with the process' memory
    /// ends it.
    pub(crate) fn update(&self, session: &mut AppSession, shared: &Shared) {
        let updated = session.update();
        self.updated(updated, session, shared);
    }

    /// The same without switching on.
    fn learn(&self, session: &mut AppSession, shared: &Shared) {
        let updated = session.learn();
        self.updated(updated, session, shared);
    }

    fn updated(
        &self,
        updated: Result<bool, strata_user::Error>,
        session: &mut AppSession,
        shared: &Shared,
    ) {
        match updated {
            Ok(_) => self.selected.store(session.nr_selected() as u64, Ordering::Relaxed),
            Err(error) => self.give_up(&error, shared),
        }
        for error in session.problems() {
            if !error.is_gone() {
                self.warn(error.to_string());
            }
        }
    }
}

/// Where the packets of a process go.
#[derive(Debug)]
enum Output {
    /// Nothing was recorded yet: there is no folder.
    Idle(Channel),
    /// There is one.
    Folder(Box<Collector>),
    /// No more.
    Closed,
}

/// The mover's part of a process.
#[derive(Debug)]
pub(crate) struct Moved {
    traced: Arc<Traced>,
    output: Output,
    folder: Option<PathBuf>,
    uuid: Uuid,
    format: RecordFormat,
    streams: u32,
    /// Event record classes in the metadata; `None`: there is none yet.
    described: Option<usize>,
    /// When they may be made anew.
    pace: Pace,
    last: Counts,
}

/// What the mover needs for every process.
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a mut TraceFolder,
    pub(crate) machine: &'a Machine,
    pub(crate) created: &'a str,
    pub(crate) shared: &'a Shared,
    pub(crate) filtered: &'a Filtered,
}

impl Moved {
    /// The process' channel, from which nothing was taken yet.
    ///
    /// # Errors
    /// What the system said when asked for a new number.
    pub(crate) fn new(
        traced: Arc<Traced>,
        channel: Channel,
        format: RecordFormat,
    ) -> std::io::Result<Moved> {
        Ok(Moved {
            traced,
            streams: channel.nr_streams(),
            output: Output::Idle(channel),
            folder: None,
            uuid: new_uuid()?,
            format,
            described: None,
            pace: Pace::new(),
            last: Counts::default(),
        })
    }

    pub(crate) fn traced(&self) -> &Traced {
        &self.traced
    }

    /// Take whole packets. Returns how many.
    pub(crate) fn poll(&mut self, place: &mut Place<'_>) -> Result<u64, strata_collect::Error> {
        if self.must_wait() {
            return Ok(0);
        }
        self.with_collector(place, |collector, describe| collector.poll(describe))
    }

    /// Take what is published of the sub-buffers being filled, too.
    pub(crate) fn flush(&mut self, place: &mut Place<'_>) -> Result<u64, strata_collect::Error> {
        if self.must_wait() {
            return Ok(0);
        }
        self.with_collector(place, |collector, describe| collector.flush(describe))
    }

    /// It has new kinds of event records, and its metadata were made anew only just now.
    fn must_wait(&self) -> bool {
        let selected = self.traced.selected.load(Ordering::Relaxed);
        self.described.is_some_and(|described| described as u64 != selected)
            && !self.pace.is_due(Instant::now())
    }

    /// Take what is left, and close the files.
    pub(crate) fn finish(&mut self, place: &mut Place<'_>) -> Result<(), strata_collect::Error> {
        let producer = match self.traced.application.is_alive() {
            true => Producer::Alive,
            false => Producer::Dead,
        };
        self.with_collector(place, |collector, describe| {
            collector.finish(producer, describe).map(|()| 0)
        })
        .map(|_| ())
    }

    /// Nothing more can be written: what is left is counted.
    pub(crate) fn leave_unwritten(&mut self) {
        match &mut self.output {
            Output::Folder(collector) => collector.give_up(),
            Output::Idle(channel) => self.last = unwritten_of(channel),
            Output::Closed => {}
        }
    }

    /// Let `work` take packets, if there is something to take or was before.
    fn with_collector(
        &mut self,
        place: &mut Place<'_>,
        work: impl FnOnce(
            &mut Collector,
            &mut dyn FnMut() -> Option<String>,
        ) -> Result<u64, strata_collect::Error>,
    ) -> Result<u64, strata_collect::Error> {
        if let Output::Idle(channel) = &mut self.output {
            if !has_something(channel) {
                return Ok(0);
            }
            self.open(place)?;
        }
        let first = self.described.is_none();
        let (traced, described) = (&self.traced, &mut self.described);
        let pace = &mut self.pace;
        let (uuid, format) = (self.uuid, self.format);
        let mut describe = || {
            let mut session = traced.session();
            let session = session.as_mut()?;
            traced.learn(session, place.shared);
            let nr_events = session.nr_selected();
            if *described == Some(nr_events) {
                return None;
            }
            *described = Some(nr_events);
            let (application, begin) = (&traced.application, Instant::now());
            let of = TraceOf {
                vpid: application.vpid(),
                name: application.name(),
                known: Known { threads: session.named_threads(), ..known(application) },
                uuid,
                created: place.created,
                format,
            };
            let text = place.machine.metadata(&of, session.events());
            pace.done(begin, begin.elapsed());
            Some(text)
        };
        let Output::Folder(collector) = &mut self.output else { return Ok(0) };
        // Before packets: records that were only discarded are told by a packet without records.
        if let Some(text) = first.then(&mut describe).flatten() {
            collector.set_metadata(&text)?;
        }
        work(collector, &mut describe)
    }

    /// Make the process' folder.
    fn open(&mut self, place: &mut Place<'_>) -> Result<(), strata_collect::Error> {
        let application = &self.traced.application;
        let (name, pid) = (application.name(), application.pid());
        let directory = place.folder.process("user", name.as_bytes(), pid)?;
        self.folder = Some(directory.path().to_owned());
        if let Output::Idle(channel) = std::mem::replace(&mut self.output, Output::Closed) {
            let identity = Identity { uuid: self.uuid, stream_id: 0, name: "channel0".to_owned() };
            let mut collector = Collector::new(directory, channel, identity);
            let (traced, format) = (Arc::clone(&self.traced), self.format);
            collector.set_classes(move || {
                let session = traced.session();
                session.as_ref().map(|one| stream_class(format, one.events().collect()))
            });
            self.output = Output::Folder(Box::new(collector));
        }
        Ok(())
    }

    /// What was recorded until now.
    pub(crate) fn counts(&mut self) -> Counts {
        if let Output::Folder(collector) = &mut self.output {
            self.last = counts_of(&collector.stats(), self.streams);
        }
        self.last
    }

    /// Has its events looked at, with the filter.
    pub(crate) fn look_at_events(&self, filtered: &Filtered) {
        if let Some(session) = self.traced.session().as_ref() {
            filtered.look(session.events());
        }
    }

    /// Let go of the process, and say what became of it. The files stay as they are.
    pub(crate) fn close(
        mut self,
        rules: &Rules,
        matched: &mut [u64],
        shared: &Shared,
    ) -> ProcessReport {
        let mut counts = self.counts();
        // Unmapped before its place in the process' memory is given back.
        let directory = match std::mem::replace(&mut self.output, Output::Closed) {
            Output::Folder(collector) => Some(collector.into_directory()),
            _ => None,
        };
        counts.metadata_bytes = directory.as_ref().map_or(0, Directory::metadata_bytes);
        self.look_at_records(directory.as_ref());
        self.release(&mut counts, shared);
        let unmarked = self.mark(directory.as_ref(), &counts, shared);
        let (traced, application) = (&self.traced, &self.traced.application);
        let tracepoints = application.count_matches(rules, matched).unwrap_or_else(|error| {
            traced.found(&error, shared);
            0
        });
        let mut report = ProcessReport {
            pid: application.pid(),
            name: application.name().to_owned(),
            folder: self.folder.take(),
            set_aside: None,
            tracepoints,
            selected: traced.selected.load(Ordering::Relaxed),
            refused: application.refused_tracepoints().map_or_else(
                |error| {
                    traced.warn(error.to_string());
                    0
                },
                u64::from,
            ),
            counts,
            problem: lock(&traced.problem).clone(),
            warnings: lock(&traced.warnings).clone(),
            is_alive: application.is_alive(),
            unmarked,
            summed: None,
        };
        if traced.damaged.load(Ordering::Relaxed) {
            set_aside(&mut report, directory.as_ref());
        }
        traced.finished.store(true, Ordering::Release);
        report
    }

    /// Say in the trace how it ended, and what is not in it. Returns of how many records it cannot say that.
    fn mark(&self, directory: Option<&Directory>, counts: &Counts, shared: &Shared) -> u64 {
        if self.traced.damaged.load(Ordering::Relaxed) {
            return 0;
        }
        let losses = counts.losses();
        let Some(directory) = directory.filter(|one| one.has_metadata()) else {
            return losses.total();
        };
        match directory.end(shared.ending(Layer::User), losses) {
            Ok(()) => 0,
            Err(error) => {
                shared.fail_to_write(Layer::User, &error);
                losses.total()
            }
        }
    }

    /// Set the process aside if it has written over its records.
    fn look_at_records(&self, directory: Option<&Directory>) {
        let session = self.traced.session();
        let class = session.as_ref().map(|one| stream_class(self.format, one.events().collect()));
        drop(session);
        let (Some(directory), Some(class)) = (directory, class) else { return };
        if let Some(found) = impossible_record(directory, &class) {
            self.traced.disbelieve(format!(
                "{found}: it has written over its own records. Its shared memory is damaged"
            ));
        }
    }

    /// Give the process' memory back.
    fn release(&self, counts: &mut Counts, shared: &Shared) {
        let traced = &self.traced;
        let Some(session) = traced.session().take() else { return };
        let counters = session.counters();
        counts.discarded.unmapped = counters.discarded_unmapped;
        counts.discarded.unstaged = counters.discarded_unstaged;
        counts.discarded.no_clock = counters.discarded_no_clock;
        if counters.self_stopped {
            let why = match shared.has_lagged() {
                true => "this program had not moved for 10 s",
                // Seen from there, our heartbeat is old: its clock is another one, or it is not honest.
                false => {
                    "it runs in a time namespace of its own, or its shared memory is damaged: this \
                     program was there"
                }
            };
            traced.warn(format!("it left the session: {why}"));
        }
        let limit = shared.possible_records(self.streams);
        for found in [counts.discarded.total(), counts.overwritten, counts.records] {
            if found > limit {
                traced.disbelieve(format!(
                    "it says that {found} event records were written or discarded; more than \
                     {limit} are not possible in that time. Its shared memory is damaged"
                ));
            }
        }
        if let Err(error) = session.release_at_once() {
            traced.found(&error, shared);
        }
    }

    /// The process' memory cannot be read any more, for this reason; others go on.
    pub(crate) fn give_up(&self, error: &strata_collect::Error) {
        debug_assert!(!is_ours(error));
        self.traced.disbelieve(failure_text(error));
        self.traced.end();
    }
}

/// The metadata of a trace that is not believed.
const ASIDE: &str = "metadata.damaged";

/// Readers take a folder with metadata for a trace, and one bad trace keeps them from all others: what was
/// recorded of a process that is not believed stays, and is no trace. Nor are its figures told.
fn set_aside(report: &mut ProcessReport, directory: Option<&Directory>) {
    report.counts = Counts::default();
    report.refused = 0;
    report.unmarked = 0;
    report.warnings.clear();
    report.set_aside = report.folder.take();
    let Some(directory) = directory else { return };
    match directory.rename("metadata", ASIDE) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let aside = directory.path().join(ASIDE);
            report.warnings.push(format!("{}: cannot be made: {error}", aside.display()));
        }
        _ => {}
    }
}

/// Does this error mean that the process' memory is not what it must be? `lagged`: this program stood still
/// for so long that another tracer may have taken its place.
fn is_damage(error: &strata_user::Error, lagged: bool) -> bool {
    use strata_user::Error as E;
    match error {
        E::SlotTaken { silent_ms, .. } => {
            !lagged && *silent_ms < strata_abi::user::DEAD_NS / 2_000_000
        }
        E::Magic { .. }
        | E::Version { .. }
        | E::Value { .. }
        | E::Description { .. }
        | E::Channel { .. }
        | E::NotSealed { .. }
        | E::TooSmall { .. } => true,
        _ => false,
    }
}

/// Was anything recorded, or discarded?
fn has_something(channel: &mut Channel) -> bool {
    (0..channel.nr_streams()).any(|number| match channel.stream(number) {
        Ok(stream) => stream.backlog() > 0 || stream.counters().discarded() > 0,
        // The collector says what is wrong with it.
        Err(_) => true,
    })
}

/// What is in a channel that has no folder: what was discarded, and what cannot be written any more.
pub(crate) fn unwritten_of(channel: &mut Channel) -> Counts {
    let mut counts = Counts { streams: channel.nr_streams(), ..Counts::default() };
    for number in 0..channel.nr_streams() {
        let Ok(stream) = channel.stream(number) else { continue };
        let of = stream.counters();
        let discarded = crate::report::Discarded {
            full: of.discarded_full,
            too_big: of.discarded_too_big,
            nested: of.discarded_nested,
            no_stream: of.discarded_no_stream,
            unwritten: of.written.saturating_sub(of.overwritten_records),
            ..crate::report::Discarded::default()
        };
        let streams_discarding = u32::from(discarded.total() > 0);
        let overwritten = of.overwritten_records;
        counts.add(&Counts { discarded, overwritten, streams_discarding, ..Counts::default() });
    }
    counts
}

pub(crate) fn counts_of(stats: &[StreamStats], streams: u32) -> Counts {
    let mut sum = StreamStats::default();
    stats.iter().for_each(|one| sum.add(one));
    let discarding = stats.iter().filter(|one| one.discarded.total() > 0).count();
    Counts {
        records: sum.records,
        packets: sum.packets,
        bytes: sum.bytes,
        metadata_bytes: 0,
        span: sum.first_timestamp.zip(sum.last_timestamp),
        discarded: crate::report::Discarded {
            full: sum.discarded.full,
            too_big: sum.discarded.too_big,
            nested: sum.discarded.nested,
            no_stream: sum.discarded.no_stream,
            not_run: sum.discarded.not_run,
            unwritten: sum.discarded.unwritten,
            ..crate::report::Discarded::default()
        },
        overwritten: sum.overwritten,
        told: sum.told,
        streams,
        streams_discarding: u32::try_from(discarding).unwrap_or(u32::MAX),
        damaged_packets: sum.damaged,
        unpublished_bytes: sum.unpublished_bytes,
        unread_records: sum.unread_records,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_user::Error;

    #[test]
    fn damage_is_what_no_honest_process_does() {
        let (pid, what) = (1, "x");
        let value = Error::Value { pid, what, found: 2, limit: 1 };
        let taken = |silent_ms| Error::SlotTaken { pid, slot: 0, found: 1, wanted: 2, silent_ms };
        let (late, taken) = (taken(12_345), taken(300));
        assert!(late.to_string().ends_with("this tracer had not moved for 12 s"), "{late}");
        assert!(taken.to_string().ends_with("Its shared memory is damaged"), "{taken}");
        assert!(!is_damage(&late, false));
        let locked = Error::Locked { pid, waited_ms: 1 };
        assert!(is_damage(&value, false) && is_damage(&value, true));
        assert!(is_damage(&taken, false) && !is_damage(&taken, true));
        assert!(!is_damage(&locked, false) && !is_damage(&Error::Gone { pid }, false));
    }

    #[test]
    fn damaged_process_is_set_aside_with_all_that_it_said() {
        let folder = std::env::temp_dir().join(format!("strata-aside-{}", std::process::id()));
        let directory = Directory::create(&folder).unwrap();
        directory.set_metadata("x").unwrap();
        let mut report = ProcessReport {
            folder: Some(folder.clone()),
            refused: 7,
            warnings: vec!["w".into()],
            counts: Counts { records: u64::MAX, ..Counts::default() },
            ..ProcessReport::default()
        };
        set_aside(&mut report, Some(&directory));
        let names: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
        // A folder without metadata, or none at all, is no failure.
        let again = || ProcessReport { folder: Some(folder.clone()), ..ProcessReport::default() };
        set_aside(&mut again(), Some(&directory));
        set_aside(&mut again(), None);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["metadata.damaged"]);
        let expected = ProcessReport { set_aside: Some(folder), ..ProcessReport::default() };
        assert_eq!(report, expected);
    }

    #[test]
    fn counts_of_streams_add_up_and_count_those_that_discard() {
        let mut one = StreamStats { cpu: 0, records: 5, packets: 2, ..StreamStats::default() };
        one.first_timestamp = Some(10);
        one.last_timestamp = Some(30);
        let mut other = StreamStats { cpu: 1, damaged: 1, overwritten: 4, ..one.clone() };
        other.discarded.full = 7;
        other.first_timestamp = Some(3);
        other.unpublished_bytes = 24;
        other.unread_records = 1;
        let counts = counts_of(&[one, other], 8);
        assert_eq!((counts.unpublished_bytes, counts.unread_records), (24, 1));
        assert_eq!((counts.records, counts.packets, counts.span), (10, 4, Some((3, 30))));
        assert_eq!((counts.streams, counts.streams_discarding, counts.damaged_packets), (8, 1, 1));
        assert_eq!((counts.discarded.full, counts.overwritten), (7, 4));
        assert_eq!(counts_of(&[], 2).span, None);
    }
}
