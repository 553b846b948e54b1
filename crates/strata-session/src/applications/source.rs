//! The packets of one process: what the pump asks while it takes them, and what becomes of the process' trace.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use strata_collect::{
    Collector, Counts, Directory, Error, Finish, LeftFiles, Monitor, OpenedTrace, Output,
    ProducerState, Sink, Source, StreamLoss, TellClasses, TraceIdentity, WriteBefore, WrittenTrace,
};
use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::environment::ProcessKnowledge;
use strata_model::{StreamClass, Uuid};
use strata_user::{AppSession, Clock, RecordFormat};

use crate::applications::book::RuleBook;
use crate::applications::filtered::Filtered;
use crate::applications::objects;
use crate::applications::pace::Pace;
use crate::applications::reports::Reports;
use crate::applications::traced::Traced;
use crate::applications::verify::impossible_record;
use crate::output::describe::{known, new_uuid, stream_class, ProcessTrace};
use crate::output::folder::{traces_of, STREAMS};
use crate::report::{Discarded, ProcessReport, USER};
use crate::session::budget::BudgetShare;
use crate::session::failure::failure_text;
use crate::session::layer::Context;
use crate::session::lock::lock;
use crate::session::shared::Voice;

/// So many traces of a process' number are looked at for what is still in its buffers.
const TRACES_LOOKED_AT: usize = 256;

/// What became of the processes.
#[derive(Debug, Default)]
pub(crate) struct EndedPrograms {
    pub(crate) reports: Reports,
    /// Those that have not ended.
    pub(crate) live: Vec<Arc<Traced>>,
}

/// What the sources of all processes have in common.
pub(crate) struct ProgramSources {
    pub(crate) context: Arc<Context>,
    pub(crate) voice: Voice,
    pub(crate) book: Mutex<RuleBook>,
    pub(crate) filtered: Filtered,
    pub(crate) ended: Mutex<EndedPrograms>,
}

/// One process, as the pump knows it.
pub(crate) struct ProcessSource {
    of: Arc<ProgramSources>,
    traced: Arc<Traced>,
    folder: Option<PathBuf>,
    /// Of the next trace, or of the one that is written.
    uuid: Uuid,
    /// The trace with this number is complete.
    is_uuid_used: bool,
    /// Of the last snapshot.
    snapshot_uuid: Uuid,
    format: RecordFormat,
    streams: u32,
    /// Event record classes in the metadata; `None`: there is none yet.
    described: Option<usize>,
    /// When they may be made anew.
    pace: Pace,
    losses: Vec<StreamLoss>,
    objects: ToldObjects,
    /// How often an object had come and gone unseen when recording began.
    unseen_before: u32,
    /// A session has recorded into its channel that was killed.
    is_of_before: bool,
    /// Of the session's memory, its channel's.
    _memory: BudgetShare,
}

/// What was said of the objects that it has loaded.
#[derive(Debug, Default)]
struct ToldObjects {
    /// Metadata describe it; of the trace that is written, and of the next snapshot.
    is_described: bool,
    in_snapshot: bool,
    /// No record of the trace is earlier \[ns\].
    from_ns: u64,
    /// What it was when that was said last: its generation, and the begin.
    said: Option<(u64, u64)>,
    /// Of the trace that is written, and of all before.
    counts: Counts,
    behind: Counts,
}

impl ProcessSource {
    /// `begun_ns`: nothing was recorded before.
    ///
    /// # Errors
    /// What the system said when asked for a new number.
    pub(crate) fn new(
        of: &Arc<ProgramSources>,
        traced: Arc<Traced>,
        (format, streams, memory): (RecordFormat, u32, BudgetShare),
        begun_ns: u64,
    ) -> io::Result<ProcessSource> {
        let uuid = new_uuid()?;
        let application = traced.application();
        let from_ns = application.started_ns().max(begun_ns);
        // What was before it was recorded is nobody's loss.
        let unseen_before = match application.started_ns() < begun_ns {
            true => application.unseen_objects(),
            false => 0,
        };
        lock(&of.ended).live.push(Arc::clone(&traced));
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
            pace: Pace::new(),
            losses: Vec::new(),
            objects: ToldObjects { from_ns, ..ToldObjects::default() },
            unseen_before,
            is_of_before: false,
            _memory: memory,
        })
    }

    /// A session has recorded into its channel that was killed.
    pub(crate) fn of_before(self) -> ProcessSource {
        ProcessSource { is_of_before: true, ..self }
    }

    /// The classes of its event records, as far as they are known.
    fn classes(&self) -> TellClasses {
        let (traced, format) = (Arc::clone(&self.traced), self.format);
        Box::new(move || {
            let session = traced.session();
            session.as_ref().map(|one| stream_class(format, one.events().collect()))
        })
    }

    /// A trace of this number that goes there.
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

    /// What describes a trace of this number, and whether objects are said in it.
    fn metadata(&self, uuid: Uuid, session: &AppSession) -> (String, bool) {
        metadata(&self.of, &self.traced, self.format, uuid, session)
    }

    /// Says what it has loaded, unless that was said.
    fn say_objects(&mut self, collector: &mut Collector) -> Result<(), Error> {
        if !self.objects.is_described {
            return Ok(());
        }
        let first = collector.span_of_trace().map(|(first, _)| first);
        // Before all records: at one time, readers may have them in any order.
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

    /// The trace is complete. What it says of objects.
    fn leave_objects(&mut self) -> Counts {
        let counts = std::mem::take(&mut self.objects.counts);
        self.objects.behind.add(&counts);
        (self.objects.said, self.objects.is_described) = (None, false);
        counts
    }

    /// Give the process' memory back.
    fn release(&self, counts: &mut Counts) {
        let (traced, shared) = (&self.traced, self.of.voice.shared());
        let Some(session) = traced.session().take() else { return };
        let counters = session.counters();
        counts.discarded.add(&elsewhere(&session));
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

    /// Say in the trace how it ended, and what is not in it. Returns of how many records it cannot say that.
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

    fn report(&self, counts: Counts, unmarked: u64) -> ProcessReport {
        let (traced, application) = (&self.traced, self.traced.application());
        let shared = self.of.voice.shared();
        // Those of a process that goes on are counted once, at its end.
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
                    "{refused} of the objects that it has loaded found no room in its memory: addresses in them have no \
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
            losses: self.losses.clone(),
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

/// Nobody saw an object that `came`, and went.
fn unseen(came: &str, which: &str) -> String {
    format!(
        "{came} came and went while nobody looked: addresses in {which} may have no names. `--libc dl` sees each that \
         is opened by a path"
    )
}

/// Set the process aside if it has written over its records.
fn look_at_records(traced: &Traced, directory: Option<&Directory>, class: Option<StreamClass>) {
    let (Some(directory), Some(class)) = (directory, class) else { return };
    if let Some(found) = impossible_record(directory, &class) {
        traced.disbelieve(format!(
            "{found}: it has written over its own records. Its shared memory is damaged"
        ));
    }
}

/// What a process has discarded and counts in no stream.
pub(crate) fn elsewhere(session: &AppSession) -> Discarded {
    let counters = session.counters();
    Discarded {
        unmapped: counters.discarded_unmapped,
        unstaged: counters.discarded_unstaged,
        no_clock: counters.discarded_no_clock,
        ..Discarded::default()
    }
}

/// Says in a trace of this number what the process had loaded `begin` then, and what changed since. Who says what cannot
/// be is given up.
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
    let place = objects::ObjectTrace { uuid, vpid: application.vpid() };
    objects::write(sink, place, &found, (begin, Clock::monotonic_ns()))
}

/// What describes a trace of this number, and whether objects are said in it.
fn metadata(
    sources: &ProgramSources,
    traced: &Traced,
    format: RecordFormat,
    uuid: Uuid,
    session: &AppSession,
) -> (String, bool) {
    let (application, context) = (traced.application(), &sources.context);
    let has_code = objects::has_code(&format, session.events());
    let besides: Vec<_> = has_code.then(objects::stream_class).into_iter().collect();
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

impl Source for ProcessSource {
    fn left(&mut self) -> Option<LeftFiles> {
        let before = &self.of.context.before;
        if !self.is_of_before || before.is_empty() {
            return None;
        }
        let mut session = self.traced.session();
        let session = session.as_mut()?;
        // Of events that nobody has looked at yet, records may be there.
        self.traced.learn(session, &self.of.context.shared);
        let class = stream_class(self.format, session.events().collect());
        let pid = self.traced.application().pid();
        let traces = before.iter().flat_map(|one| traces_of(&one.join(USER), pid));
        let folders = traces.take(TRACES_LOOKED_AT).collect();
        Some(LeftFiles { folders, name: STREAMS, class })
    }

    fn may_repeat(&mut self) {
        self.traced.warn(
            "what the session that was killed had written of it is more than is looked at: some of its last records may be in \
             two traces"
                .to_owned(),
        );
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

    /// Each is a trace of its own.
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
        let begin = Instant::now();
        let (text, has_code) = self.metadata(self.uuid, session);
        self.pace.done(begin, begin.elapsed());
        self.objects.is_described = has_code;
        Some(text)
    }

    /// Before the first packet: who reads it while it is written has names, too.
    fn opened(&mut self, collector: &mut Collector) -> Result<(), Error> {
        self.say_objects(collector)
    }

    /// What has come and gone since, and from the begin of the first packet on.
    fn besides(&mut self, collector: &mut Collector) -> Result<(), Error> {
        self.say_objects(collector)
    }

    /// The next trace begins behind this one.
    fn finished(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let last = collector.span_of_trace().map(|(_, last)| last);
        self.objects.from_ns = self.objects.from_ns.max(last.unwrap_or(0));
        Ok(())
    }

    /// They are said when the first packet is known.
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

    /// It has new kinds of event records, and its metadata were made anew only just now.
    fn must_wait(&self) -> bool {
        let selected = self.traced.selected();
        self.described.is_some_and(|described| described as u64 != selected)
            && !self.pace.is_due(Instant::now())
    }

    fn has_ended(&self) -> bool {
        self.traced.has_ended()
    }

    fn must_go(&self) -> bool {
        self.traced.must_go()
    }

    fn producer(&self) -> ProducerState {
        match self.traced.application().is_alive() {
            true => ProducerState::Alive,
            false => ProducerState::Dead,
        }
    }

    /// Others go on.
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
                // Its report speaks of the last trace.
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

    fn losses(&mut self, losses: Vec<StreamLoss>) {
        self.losses = losses;
    }

    /// As is looked at again at its end, when it is not believed.
    fn is_possible(&self, counts: &Counts) -> bool {
        let limit = self.of.voice.shared().possible_records(self.streams);
        [counts.discarded.total(), counts.overwritten, counts.records]
            .into_iter()
            .all(|found| found <= limit)
    }

    /// Lets go of the process, and says what became of it. What was written stays as it is.
    fn close(mut self, mut counts: Counts, mut trace: Option<WrittenTrace>) -> Counts {
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
        let mut report = self.report(counts, unmarked);
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

/// The metadata of a trace that is not believed.
const ASIDE: &str = "metadata.damaged";

/// Readers take a folder with metadata for a trace, and one bad trace keeps them from all others: what was
/// recorded of a process that is not believed stays, and is no trace. Nor are its figures told.
fn set_aside(report: &mut ProcessReport, directory: Option<&Directory>) {
    report.counts = Counts::default();
    report.losses.clear();
    report.refused = 0;
    report.unmarked = 0;
    report.warnings.clear();
    report.set_aside = report.folder.take();
    report.warnings.extend(directory.and_then(aside));
}

/// What went wrong with it.
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
}
