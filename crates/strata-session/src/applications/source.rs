//! The source of one process's packets: what the pump needs while it takes them, and the completion of the process's
//! trace.
//!
//! A [`ProcessSource`] is the [`Source`] of one process. The registry makes it when the process is admitted and hands it
//! to the pump, which calls all its methods from the pump's thread:
//!
//! ```text
//! open ── describe, besides (objects), poll … ── cut (rotation) or close (the process ended, or the session)
//!   │        │                                      └ marks the trace, verifies it, releases the memory, reports
//!   │        └ metadata grow when the process shows new kinds of records; `metadata_limit.rs` bounds what that may cost
//!   └ a folder and metadata; in a flight recorder only when a snapshot is saved
//! ```
//!
//! State that the registry and the pump both need is in [`Traced`]; state of all processes together (rules, filters, the
//! layer's counts) is in [`ProgramSources`].
//!
//! The process may write anything into its buffers and counters. A packet is moved without decoding it; `record_check.rs`
//! decodes a sample at the end, and a trace that readers could not decode is set aside instead of spoiling the
//! recording. Counters above what the process can possibly have written ([`Source::is_possible`]) are not believed, and
//! are left out of the sums.
//!
//! Memory is released as soon as everything is written, or when another process needs it and this process has ended.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use strata_collect::{
    Collector, Counts, Directory, Error, Finish, LeftFiles, Monitor, OpenedTrace, Output,
    ProducerState, ProgramSource, Sink, Source, StreamLoss, TellClasses, TraceIdentity, TracePoint,
    WriteBefore, WrittenTrace,
};
use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::environment::ProcessKnowledge;
use strata_model::{StreamClass, Uuid};
use strata_user::{AppSession, Clock, RecordFormat};

use crate::applications::filter_check::Filtered;
use crate::applications::loaded_objects;
use crate::applications::metadata_limit::Pace;
use crate::applications::record_check::impossible_record;
use crate::applications::reports::Reports;
use crate::applications::rule_history::RuleBook;
use crate::applications::traced_process::Traced;
use crate::output::describe::{known, new_uuid, stream_class, ProcessTrace};
use crate::output::folder::{traces_of, STREAMS};
use crate::report::{Discarded, ProcessReport, USER};
use crate::session::budget::BudgetShare;
use crate::session::failure::failure_text;
use crate::session::layer::Context;
use crate::session::lock::lock;
use crate::session::shared_state::Voice;

/// The most traces of a process id that are searched for records that are still in the process's buffers.
const TRACES_LOOKED_AT: usize = 256;

/// Results of the programs that have ended, for the end of the layer.
#[derive(Debug, Default)]
pub(crate) struct EndedPrograms {
    pub(crate) reports: Reports,
    /// Processes that have not ended.
    pub(crate) live: Vec<Arc<Traced>>,
    /// The greatest number of processes that had buffers at the same time.
    pub(crate) at_once: u64,
}

/// State shared by the sources of all processes.
pub(crate) struct ProgramSources {
    pub(crate) context: Arc<Context>,
    pub(crate) voice: Voice,
    pub(crate) book: Mutex<RuleBook>,
    pub(crate) filtered: Filtered,
    pub(crate) ended: Mutex<EndedPrograms>,
}

/// A process as a source of packets for the pump.
pub(crate) struct ProcessSource {
    of: Arc<ProgramSources>,
    traced: Arc<Traced>,
    folder: Option<PathBuf>,
    /// UUID of the trace that is being written, or of the next one.
    uuid: Uuid,
    /// True if the trace with `uuid` is complete, so that the next trace needs another UUID.
    is_uuid_used: bool,
    /// UUID of the last snapshot.
    snapshot_uuid: Uuid,
    format: RecordFormat,
    streams: u32,
    /// Number of event record classes in the metadata; `None` if there are no metadata yet.
    described: Option<usize>,
    /// Limit on how often the metadata may be rewritten.
    pace: Pace,
    objects: ToldObjects,
    /// Number of objects that were loaded and unloaded unnoticed before recording began.
    unseen_before: u32,
    /// True if a killed session has recorded into the same channel.
    is_of_before: bool,
    /// The channel's share of the session's memory.
    _memory: BudgetShare,
}

/// What was written to the stream that describes the objects (programs and libraries) that a process has loaded.
#[derive(Debug, Default)]
struct ToldObjects {
    /// True if the metadata of the present trace describe the stream; `in_snapshot` is the same for the next snapshot.
    is_described: bool,
    in_snapshot: bool,
    /// Time before which the trace has no records \[ns\].
    from_ns: u64,
    /// State at the last writing: the generation of the objects, and the beginning of the trace; `None` before that.
    said: Option<(u64, u64)>,
    /// Counts of the objects' records, over all traces.
    counts: Counts,
    behind: Counts,
}

impl ProcessSource {
    /// Creates the source of a process. Nothing was recorded before `begun_ns`.
    ///
    /// # Errors
    /// The system's error on generating a UUID.
    pub(crate) fn new(
        of: &Arc<ProgramSources>,
        traced: Arc<Traced>,
        (format, streams, memory): (RecordFormat, u32, BudgetShare),
        begun_ns: u64,
    ) -> io::Result<ProcessSource> {
        let uuid = new_uuid()?;
        let application = traced.application();
        let from_ns = application.started_ns().max(begun_ns);
        // Objects from before the recording are no loss.
        let unseen_before = match application.started_ns() < begun_ns {
            true => application.unseen_objects(),
            false => 0,
        };
        let mut ended = lock(&of.ended);
        ended.live.push(Arc::clone(&traced));
        ended.at_once = ended.at_once.max(ended.live.len() as u64);
        drop(ended);
        Ok(ProcessSource {
            of: Arc::clone(of),
            traced,
            folder: None,
            uuid,
            is_uuid_used: false,
            snapshot_uuid: uuid,
            format,
            streams,
            described: None,
            pace: Pace::new(of.context.shared.time().now()),
            objects: ToldObjects { from_ns, ..ToldObjects::default() },
            unseen_before,
            is_of_before: false,
            _memory: memory,
        })
    }

    /// Marks the source as one into whose channel a killed session has recorded.
    pub(crate) fn of_before(self) -> ProcessSource {
        ProcessSource { is_of_before: true, ..self }
    }

    /// Returns a function that reads the classes of the process's event records, as far as they are known.
    fn classes(&self) -> TellClasses {
        let (traced, format) = (Arc::clone(&self.traced), self.format);
        Box::new(move || {
            let session = traced.session();
            session.as_ref().map(|one| stream_class(format, one.events().collect()))
        })
    }

    /// Returns the description of an opened trace with this UUID, which is written to `sink`.
    fn opened_as(&self, uuid: Uuid, sink: Box<dyn Sink>, metadata: String) -> OpenedTrace {
        let identity = TraceIdentity { uuid, stream_id: 0 };
        OpenedTrace {
            sink,
            identity,
            classes: self.classes(),
            metadata,
            kinds: None,
            span_from: None,
            grown: None,
        }
    }

    /// Returns the metadata of a trace, and whether they describe the stream of objects.
    fn metadata(&self, uuid: Uuid, session: &AppSession) -> (String, bool) {
        metadata(&self.of, &self.traced, self.format, uuid, session)
    }

    /// Writes the loaded objects into the trace, unless they are written already.
    fn say_objects(&mut self, collector: &mut Collector) -> Result<(), Error> {
        if !self.objects.is_described {
            return Ok(());
        }
        let first = collector.span_of_trace().map(|(first, _)| first);
        // The objects come before all records, since readers may sort records with equal times in any order.
        let begin = first.map_or(self.objects.from_ns, |first| first.saturating_sub(1));
        let said = Some((self.traced.application().generation(), begin));
        if self.objects.said == said {
            return Ok(());
        }
        let written = write_objects(&self.of, &self.traced, self.uuid, collector.sink(), begin)?;
        self.objects.counts = written;
        self.objects.said = said;
        Ok(())
    }

    /// Resets the state after a trace is complete. Returns the counts of its records about objects.
    fn leave_objects(&mut self) -> Counts {
        let counts = std::mem::take(&mut self.objects.counts);
        self.objects.behind.add(&counts);
        (self.objects.said, self.objects.is_described) = (None, false);
        counts
    }

    /// Releases the process's memory, and adds its final counters to `counts`.
    fn release(&self, counts: &mut Counts) {
        let (traced, shared) = (&self.traced, self.of.voice.shared());
        let Some(session) = traced.session().take() else { return };
        let counters = session.counters();
        counts.discarded.add(&elsewhere(&session));
        if counters.self_stopped {
            let why = match shared.has_lagged() {
                true => "this program had not moved for 10 s",
                // For that process, our heartbeat seems old: its clock differs, or the process is not honest.
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

    /// Writes into the trace how the recording of the process ended and what is missing. Returns the number of losses
    /// that could not be written.
    fn mark(&self, sink: Option<&mut (dyn Sink + 'static)>, counts: &Counts) -> u64 {
        if self.traced.is_damaged() {
            return 0;
        }
        let (losses, voice) = (Losses::of(counts), &self.of.voice);
        let Some(sink) = sink.filter(|sink| sink.metadata_bytes() > 0) else {
            return losses.total();
        };
        match sink.end(voice.ending(), losses) {
            Ok(()) => 0,
            Err(error) => {
                voice.fail(&error);
                losses.total()
            }
        }
    }

    fn report(&self, counts: Counts, losses: &[StreamLoss], unmarked: u64) -> ProcessReport {
        let (traced, application) = (&self.traced, self.traced.application());
        let shared = self.of.voice.shared();
        // Matches of a process that goes on in another session are counted once, at its end.
        let counted = match traced.is_replaced() {
            true => application.count_matches(&[], &mut []),
            false => lock(&self.of.book).count(application, traced.changes()),
        };
        let tracepoints = counted.unwrap_or_else(|error| {
            traced.found(&error, shared);
            0
        });
        let refused = application.refused_tracepoints().map_or_else(
            |error| {
                traced.warn(error.to_string());
                0
            },
            u64::from,
        );
        if self.objects.behind.records > 0 {
            match application.refused_objects() {
                Ok(0) => {}
                Ok(refused) => traced.warn(format!(
                    "no room for {refused} of its loaded objects in the memory that it shares: addresses in them have no \
                     names"
                )),
                Err(error) => traced.warn(error.to_string()),
            }
            match application.unseen_objects().saturating_sub(self.unseen_before) {
                0 => {}
                1 => traced.warn(unseen("once an object", "that")),
                times => traced.warn(unseen(&format!("{times} times an object"), "such")),
            }
        }
        ProcessReport {
            pid: application.pid(),
            name: application.name().to_owned(),
            folder: self.folder.clone(),
            set_aside: None,
            tracepoints,
            selected: traced.selected(),
            refused,
            objects: self.objects.behind.records,
            counts,
            losses: losses.to_vec(),
            late_ns: traced.late_ns(),
            reached_ns: traced.reached_ns(),
            memory: application.inode(),
            is_part: traced.is_replaced(),
            problem: traced.problem(),
            warnings: traced.warnings(),
            is_alive: application.is_alive(),
            unmarked,
            summed: None,
        }
    }
}

/// Returns the warning that objects were loaded and unloaded unnoticed.
fn unseen(came: &str, which: &str) -> String {
    format!(
        "{came} was loaded and unloaded between two looks: addresses in {which} may have no names. `--libc dl` sees each that \
         is opened by a path"
    )
}

/// Marks the process as damaged if it has overwritten its own records.
fn look_at_records(traced: &Traced, directory: Option<&Directory>, class: Option<StreamClass>) {
    let (Some(directory), Some(class)) = (directory, class) else { return };
    if let Some(found) = impossible_record(directory, &class) {
        traced.disbelieve(format!(
            "{found}: it has written over its own records. Its shared memory is damaged"
        ));
    }
}

/// Returns the number of records that a process discarded outside of its streams.
pub(crate) fn elsewhere(session: &AppSession) -> Discarded {
    let counters = session.counters();
    Discarded {
        unmapped: counters.discarded_unmapped,
        unstaged: counters.discarded_unstaged,
        no_clock: counters.discarded_no_clock,
        ..Discarded::default()
    }
}

/// Writes into a trace with this UUID which objects the process had loaded at `begin`, and later changes. A process
/// with impossible data is given up.
fn write_objects(
    sources: &ProgramSources,
    traced: &Traced,
    uuid: Uuid,
    sink: &mut dyn Sink,
    begin: u64,
) -> Result<Counts, Error> {
    let application = traced.application();
    let found = match application.loaded() {
        Ok(found) => found,
        Err(error) => {
            traced.give_up(&error, sources.voice.shared());
            return Ok(Counts::default());
        }
    };
    let place = loaded_objects::ObjectTrace { uuid, vpid: application.vpid() };
    loaded_objects::write(sink, place, &found, (begin, Clock::monotonic_ns()))
}

/// Returns the metadata of a trace, and whether they describe the stream of objects.
fn metadata(
    sources: &ProgramSources,
    traced: &Traced,
    format: RecordFormat,
    uuid: Uuid,
    session: &AppSession,
) -> (String, bool) {
    let (application, context) = (traced.application(), &sources.context);
    let has_code = loaded_objects::has_code(&format, session.events());
    let besides: Vec<_> = has_code.then(loaded_objects::stream_class).into_iter().collect();
    let of = ProcessTrace {
        vpid: application.vpid(),
        name: application.name(),
        known: ProcessKnowledge { threads: session.named_threads(), ..known(application) },
        uuid,
        created: &context.created,
        format,
        besides: &besides,
    };
    (context.machine.metadata(&of, session.events()), has_code)
}

impl ProgramSource for ProcessSource {
    fn left(&mut self) -> Option<LeftFiles> {
        let before = &self.of.context.before;
        if !self.is_of_before || before.is_empty() {
            return None;
        }
        let mut session = self.traced.session();
        let session = session.as_mut()?;
        // There may be records of events that nobody has looked at yet.
        self.traced.learn(session, &self.of.context.shared);
        let class = stream_class(self.format, session.events().collect());
        let pid = self.traced.application().pid();
        let traces = before.iter().flat_map(|one| traces_of(&one.join(USER), pid));
        let folders = traces.take(TRACES_LOOKED_AT).collect();
        Some(LeftFiles { folders, name: STREAMS, class })
    }

    /// Returns whether packets must wait: the process has new kinds of event records, and its metadata were rewritten
    /// only recently.
    fn must_wait(&self) -> bool {
        let selected = self.traced.selected();
        self.described.is_some_and(|described| described as u64 != selected)
            && !self.pace.is_due(self.of.context.shared.time().now())
    }

    fn must_go(&self) -> bool {
        self.traced.must_go()
    }

    /// Returns whether the counts are possible for this process. Impossible counts are checked again at the end.
    fn is_possible(&self, counts: &Counts) -> bool {
        let limit = self.of.voice.shared().possible_records(self.streams);
        [counts.discarded.total(), counts.overwritten, counts.records]
            .into_iter()
            .all(|found| found <= limit)
    }
}

impl Source for ProcessSource {
    fn program(&mut self) -> Option<&mut dyn ProgramSource> {
        Some(self)
    }

    fn open(&mut self) -> Result<OpenedTrace, Error> {
        let application = self.traced.application();
        let process = (application.name().as_bytes(), application.pid());
        let sink = lock(&self.of.context.output).trace(USER, Some(process))?;
        if self.is_uuid_used {
            let failed = |source| Error::Write { path: sink.path().to_owned(), source };
            self.uuid = new_uuid().map_err(failed)?;
            self.is_uuid_used = false;
        }
        self.folder = Some(sink.path().to_owned());
        Ok(self.opened_as(self.uuid, sink, String::new()))
    }

    /// Opens a snapshot, which is a separate trace.
    fn open_snapshot(&mut self, output: &mut dyn Output) -> Result<OpenedTrace, Error> {
        let application = self.traced.application();
        let process = (application.name().as_bytes(), application.pid());
        let sink = output.trace(USER, Some(process))?;
        let failed = |source| Error::Write { path: sink.path().to_owned(), source };
        let uuid = new_uuid().map_err(failed)?;
        let mut session = self.traced.session();
        let described = session.as_mut().map(|session| {
            self.traced.learn(session, &self.of.context.shared);
            (self.metadata(uuid, session), session.nr_selected())
        });
        drop(session);
        let ((text, has_code), mut events) = described.unwrap_or_default();
        self.objects.in_snapshot = has_code;
        self.snapshot_uuid = uuid;
        let (of, traced, format) = (Arc::clone(&self.of), Arc::clone(&self.traced), self.format);
        let grown = move || {
            let mut session = traced.session();
            let session = session.as_mut()?;
            traced.learn(session, &of.context.shared);
            let before = std::mem::replace(&mut events, session.nr_selected());
            (before != events).then(|| metadata(&of, &traced, format, uuid, session).0)
        };
        Ok(OpenedTrace { grown: Some(Box::new(grown)), ..self.opened_as(uuid, sink, text) })
    }

    fn describe(&mut self) -> Option<String> {
        let (traced, context) = (&self.traced, &self.of.context);
        let mut session = traced.session();
        let session = session.as_mut()?;
        traced.learn(session, &context.shared);
        let nr_events = session.nr_selected();
        if self.described == Some(nr_events) {
            return None;
        }
        self.described = Some(nr_events);
        let begin = context.shared.time().now();
        let (text, has_code) = self.metadata(self.uuid, session);
        self.pace.done(begin, context.shared.time().elapsed(begin));
        self.objects.is_described = has_code;
        Some(text)
    }

    /// Writes which objects were loaded or unloaded since the last call, or since the beginning of the first packet.
    /// This is done before further packets, so that readers of a growing trace have names.
    fn besides(&mut self, collector: &mut Collector, at: TracePoint) -> Result<(), Error> {
        if at == TracePoint::Begin && collector.streams().take_may_repeat() {
            self.traced.warn(
                "what the session that was killed had written of it is more than is looked at: some of its last records may be in \
                 two traces"
                    .to_owned(),
            );
        }
        self.say_objects(collector)?;
        if at == TracePoint::End {
            // The next trace begins after the end of this one.
            let last = collector.span_of_trace().map(|(_, last)| last);
            self.objects.from_ns = self.objects.from_ns.max(last.unwrap_or(0));
        }
        Ok(())
    }

    /// The objects are written when the first packet is known.
    fn begin_snapshot(&mut self, _sink: &mut dyn Sink) -> Result<Option<WriteBefore>, Error> {
        if !self.objects.in_snapshot {
            return Ok(None);
        }
        let (of, traced, uuid) =
            (Arc::clone(&self.of), Arc::clone(&self.traced), self.snapshot_uuid);
        Ok(Some(Box::new(move |sink, from| {
            write_objects(&of, &traced, uuid, sink, from.saturating_sub(1)).map(|_| ())
        })))
    }

    fn has_ended(&self) -> bool {
        self.traced.has_ended()
    }

    fn producer(&self) -> ProducerState {
        match self.traced.application().is_alive() {
            true => ProducerState::Alive,
            false => ProducerState::Dead,
        }
    }

    /// Gives up this process after an error of its own. Other processes go on.
    fn give_up(&mut self, error: &Error) {
        debug_assert!(error.is_of_the_source());
        self.traced.disbelieve(failure_text(error));
        self.traced.end();
    }

    fn cut(&mut self, trace: WrittenTrace) -> Finish {
        (self.is_uuid_used, self.described) = (true, None);
        let besides = self.leave_objects();
        let (of, traced, class) =
            (Arc::clone(&self.of), Arc::clone(&self.traced), self.classes()());
        Box::new(move || {
            let WrittenTrace { mut sink, counts } = trace;
            look_at_records(&traced, sink.directory(), class);
            if traced.is_damaged() {
                // The process's report is about its last trace.
                let _ = sink.directory().map(aside);
                traced.end();
                return;
            }
            if let Err(error) = sink.end(Ending::Ended, Losses::default()) {
                of.voice.fail(&error);
            }
            lock(&of.context.output).ended(&*sink, &counts, &besides);
        })
    }

    /// Releases the process and reports on it. Written files are kept.
    fn close(
        mut self,
        mut counts: Counts,
        losses: &[StreamLoss],
        mut trace: Option<WrittenTrace>,
    ) -> Counts {
        let had_ended = self.traced.has_ended();
        if let Some(session) = self.traced.session().as_ref() {
            self.of.filtered.look(session.events());
        }
        let directory = trace.as_ref().and_then(|trace| trace.sink.directory());
        look_at_records(&self.traced, directory, self.classes()());
        self.release(&mut counts);
        let unmarked = self.mark(trace.as_mut().map(|trace| &mut *trace.sink), &counts);
        let besides = self.leave_objects();
        counts.add(&self.objects.behind);
        let mut report = self.report(counts, losses, unmarked);
        let mut ended = lock(&self.of.ended);
        ended.live.retain(|one| !Arc::ptr_eq(one, &self.traced));
        match (self.traced.is_damaged(), &trace) {
            (true, _) => {
                let directory = trace.as_ref().and_then(|trace| trace.sink.directory());
                set_aside(&mut report, directory);
            }
            (false, Some(WrittenTrace { sink, counts })) => {
                lock(&self.of.context.output).ended(&**sink, counts, &besides);
            }
            (false, None) => {}
        }
        self.traced.finish();
        let counts = report.counts;
        match had_ended {
            true => ended.reports.add(report),
            false => ended.reports.add_last(report),
        }
        if !self.traced.is_replaced() {
            self.of.voice.shared().process_went();
        }
        counts
    }
}

/// Name that the metadata of a damaged trace get.
const ASIDE: &str = "metadata.damaged";

/// Turns the files of a damaged process into something that is no trace. Readers take a folder with metadata for a
/// trace, and one bad trace would keep them from reading all others. The counts of the process are not reported either.
fn set_aside(report: &mut ProcessReport, directory: Option<&Directory>) {
    report.counts = Counts::default();
    report.losses.clear();
    report.refused = 0;
    report.unmarked = 0;
    report.warnings.clear();
    report.set_aside = report.folder.take();
    report.warnings.extend(directory.and_then(aside));
}

/// Renames the metadata of a damaged trace. Returns a message if that failed.
fn aside(directory: &Directory) -> Option<String> {
    match directory.rename("metadata", ASIDE) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let aside = directory.path().join(ASIDE);
            Some(format!("{}: cannot be made: {error}", aside.display()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_process_is_set_aside_with_all_that_it_reported() {
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
}
