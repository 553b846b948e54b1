//! Writes the messages of a reader to a database.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use strata_ctf::read::{
    Damage, Discarded, DiscardedKind, Event, Reader, RecordingEnd, Stream, TimeRange,
};
use strata_model::EnvValue;
use strata_text::json::quoted;
use strata_timeline::{is_kernel, Sources, Timeline};

use super::batch::SqlCell;
use super::row_taker::SharedTaker;
use super::rows::Rows;
use super::schema::InsertStatement;
use super::stacks::StackRows;
use super::writer::DatabaseWriter;
use strata_analyze::counters::{self, CounterRule};
use strata_analyze::debug_info::{KernelFunctions, SourceOptions};
use strata_analyze::derived_facts::{DerivedFacts, FactCollector};
use strata_timeline::first_steps;
use strata_timeline::span_roles;
use strata_timeline::PairRule;

/// Options for the content of the database.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time range of the results, to which states and runs of CPUs are cut. Earlier records must be passed as well.
    pub range: TimeRange,
    /// True to fill the table `event`.
    pub events: bool,
    /// Pairs of begin and end that the user names. They take precedence over pairs by name.
    pub pairs: Vec<PairRule>,
    /// The fields that are exported as counters.
    pub counters: Vec<CounterRule>,
    /// Options for finding the names of functions in call stacks.
    pub names: SourceOptions,
}

/// The counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of event records that were selected.
    pub events: u64,
    /// The size of the database \[byte\].
    pub bytes: u64,
    /// The number of event records that the tracer discarded.
    pub discarded: u64,
    /// The number of discarded packets, whose numbers of records are unknown.
    pub packets: u64,
    /// The number of records whose fields were left out because they were too long.
    pub cut: u64,
    /// The number of times that a thread was refused because there were too many.
    pub threads_left_out: u64,
    /// The number of times that a name was refused because there were too many.
    pub names_left_out: u64,
    /// The number of times that a counter was refused because there were too many.
    pub counters_left_out: u64,
    /// The number of records whose call stacks were refused because there were too many.
    pub stacks_left_out: u64,
}

/// The number of records and the time range of a trace.
#[derive(Clone, Copy, Debug, Default)]
struct TraceExtent {
    records: u64,
    begin: Option<i64>,
    end: Option<i64>,
}

/// Makes a database of the messages of a reader, which must be passed in the order of time.
#[derive(Debug)]
pub struct Exporter<'r> {
    reader: &'r Reader,
    path: PathBuf,
    timeline: Timeline,
    pub(super) rows: Rows,
    /// The extent of each trace, by [`strata_ctf::read::Trace::index`].
    parts: Vec<TraceExtent>,
    discarded: u64,
    packets: u64,
    /// The number of fields beyond the limit on counters.
    counters_left_out: u64,
    writer: DatabaseWriter,
}

impl<'r> Exporter<'r> {
    /// Begins a database in a file that is empty or does not exist. Another thread calls `stopped` regularly; if it
    /// returns true, the database is not completed.
    ///
    /// # Errors
    /// Returns an error if the file's folder cannot be found, or no thread can be started.
    pub fn new(
        reader: &'r Reader,
        path: &Path,
        options: &Options,
        stopped: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Exporter<'r>> {
        Exporter::with_taker(reader, path, options, None, stopped)
    }

    /// Begins a database as [`new`](Self::new) does. `taker` gets the rows of some tables, which are then not in the database.
    ///
    /// # Errors
    /// Those of `new`.
    pub fn with_taker(
        reader: &'r Reader,
        path: &Path,
        options: &Options,
        taker: Option<SharedTaker>,
        stopped: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Exporter<'r>> {
        let (roles, counters_left_out) = counters::roles(reader, &options.counters);
        let mut timeline =
            Timeline::with_spans(reader, span_roles(reader, &options.pairs)).with_counters(roles);
        timeline.count_hidden_from(options.range.from);
        timeline.begin(&first_steps(reader, TimeRange::ALL, &|| false).unwrap_or_default());
        let machines = Sources::new(reader).streams.iter().map(|source| source.machine).collect();
        let mut exporter = Exporter {
            reader,
            path: path.to_owned(),
            timeline,
            rows: Rows::new(
                options.range,
                options.events,
                machines,
                StackRows::new(reader, &options.names),
                options.events.then(|| KernelFunctions::of(reader, &options.names)).flatten(),
            ),
            parts: vec![TraceExtent::default(); reader.traces().len()],
            discarded: 0,
            packets: 0,
            counters_left_out,
            writer: DatabaseWriter::new(path, taker, Box::new(stopped))?,
        };
        for damage in reader.damage().iter().filter(|damage| !damage.is_note()) {
            exporter.damaged(damage);
        }
        Ok(exporter)
    }

    /// Begins to collect the threads that made records, for [`finish_with_facts`](Self::finish_with_facts). All
    /// records of the traces must be passed.
    pub fn collect_facts(&mut self) {
        self.rows.facts = Some(FactCollector::new(self.reader));
    }

    /// Takes the next event record. `selected`: true if the record is to be a row.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>, selected: bool) -> io::Result<()> {
        self.timeline.event(event, selected, &mut self.rows);
        let time = event.time();
        if selected && time.is_none_or(|time| self.rows.range.contains(time)) {
            if let Some(part) = self.parts.get_mut(event.stream().trace().index()) {
                part.records += 1;
                part.begin = part.begin.or(time);
                part.end = part.end.max(time);
            }
        }
        self.step()
    }

    /// Takes a loss of event records or packets.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) -> io::Result<()> {
        self.timeline.discarded(discarded);
        let range = self.rows.range;
        let (from, to) = (discarded.from.or(discarded.to), discarded.to.or(discarded.from));
        if from.is_some_and(|from| from > range.to) || to.is_some_and(|to| to < range.from) {
            return Ok(());
        }
        let batch = &mut self.rows.batch;
        let stream = batch.text(discarded.stream.name().as_bytes());
        let (kind, number) = match discarded.kind {
            DiscardedKind::Records => ("records", &mut self.discarded),
            DiscardedKind::Packets => ("packets", &mut self.packets),
        };
        *number = number.saturating_add(discarded.count);
        let cells = [
            SqlCell::from(discarded.stream.trace().index() as u64),
            stream,
            discarded.packet.cpu.into(),
            kind.into(),
            discarded.count.into(),
            discarded.from.into(),
            discarded.to.into(),
            discarded.at_begin.into(),
        ];
        batch.row(InsertStatement::Discarded, &cells);
        self.step()
    }

    /// Takes a damaged place of a trace. What threads did since then is unknown.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn damage(&mut self, damage: &Damage, stream: Option<&Stream>) -> io::Result<()> {
        if let Some(stream) = stream {
            self.timeline.gap(stream.index(), None, None);
        }
        self.damaged(damage);
        self.step()
    }

    fn damaged(&mut self, damage: &Damage) {
        let trace = self.reader.traces().iter().position(|trace| trace.path() == &*damage.trace);
        let batch = &mut self.rows.batch;
        let name = damage.stream.as_ref().map(|name| batch.text(name.as_bytes()));
        let text = batch.text(damage.to_string().as_bytes());
        batch.row(
            InsertStatement::Damage,
            &[trace.map(|trace| SqlCell::from(trace as u64)).into(), name.into(), text],
        );
    }

    /// Completes the database. `is_cut` says that the time range has more records, which were not passed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or [`io::ErrorKind::Interrupted`] if it was stopped.
    pub fn finish(self, is_cut: bool) -> io::Result<Summary> {
        self.finish_with_facts(is_cut).map(|(summary, _)| summary)
    }

    /// Completes the database as [`finish`](Self::finish) does. Returns the facts as well, if these are collected.
    ///
    /// # Errors
    /// Those of `finish`.
    pub fn finish_with_facts(
        mut self,
        is_cut: bool,
    ) -> io::Result<(Summary, Option<DerivedFacts>)> {
        if self.rows.range.to < i64::MAX && !is_cut {
            self.timeline.cut(self.reader, self.rows.range.to);
        }
        self.timeline.finish(&mut self.rows);
        self.rows.threads(self.timeline.world());
        self.rows.locks(self.timeline.world());
        self.rows.devices(self.timeline.world());
        self.traces();
        self.rows.batch.is_last = true;
        self.hand_over()?;
        let world = self.timeline.world();
        let facts = self.rows.facts.take().map(|facts| facts.finish(world));
        let summary = Summary {
            events: self.parts.iter().map(|part| part.records).sum(),
            bytes: self.path.metadata()?.len(),
            discarded: self.discarded,
            packets: self.packets,
            cut: self.rows.cut,
            threads_left_out: world.threads.left_out(),
            names_left_out: world.names.left_out(),
            stacks_left_out: self.rows.stacks_left_out(),
            counters_left_out: self
                .timeline
                .counters_left_out()
                .saturating_add(self.counters_left_out),
        };
        Ok((summary, facts))
    }

    /// Adds the rows about the traces.
    fn traces(&mut self) {
        let Sources { streams, .. } = Sources::new(self.reader);
        let batch = &mut self.rows.batch;
        for (id, name) in self.timeline.world().machines.iter().enumerate() {
            let name = batch.text(name.as_bytes());
            batch.row(InsertStatement::Machine, &[SqlCell::from(id as u64), name]);
        }
        for trace in self.reader.traces() {
            let schema = trace.schema();
            let mut of = self.reader.streams().iter().zip(&streams);
            let source = of.find(|(stream, _)| stream.trace().index() == trace.index());
            let source = source.map(|(_, source)| source);
            let part = self.parts.get(trace.index()).copied().unwrap_or_default();
            let end = self.reader.ends().iter().find(|end| end.trace == Some(trace.index()));
            let tracer = match schema.environment("tracer_name") {
                Some(EnvValue::Text(tracer)) => Some(batch.text(tracer.as_bytes())),
                _ => None,
            };
            let process = source.and_then(|source| source.process_name.as_ref());
            let cells = [
                SqlCell::from(trace.index() as u64),
                batch.text(trace.name().as_bytes()),
                batch.text(trace.path().to_string_lossy().as_bytes()),
                source.map_or(0, |source| u32::from(source.machine)).into(),
                is_kernel(schema).into(),
                source.and_then(|source| source.process).into(),
                process.map(|name| batch.text(name.as_bytes())).into(),
                tracer.into(),
                schema.clocks.first().map(|clock| batch.text(clock.name.as_bytes())).into(),
                part.begin.into(),
                part.end.into(),
                part.records.into(),
                end.map(|end| ending(&end.end)).into(),
                end.map(|end| end.is_complete()).into(),
                end.map(|end| end.losses().total()).into(),
                batch.text(environment(&schema.environment).as_bytes()),
            ];
            batch.row(InsertStatement::Trace, &cells);
        }
    }

    #[inline]
    fn step(&mut self) -> io::Result<()> {
        match self.rows.batch.is_full() {
            true => self.hand_over(),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn hand_over(&mut self) -> io::Result<()> {
        let next = self.writer.empty_batch();
        self.writer.write(mem::replace(&mut self.rows.batch, next))
    }
}

fn ending(end: &RecordingEnd) -> &'static str {
    match end {
        RecordingEnd::Marked(mark) => mark.ending.word(),
        RecordingEnd::Running => "recording",
        RecordingEnd::Killed { .. } => "killed",
        RecordingEnd::Absent => "unknown",
        RecordingEnd::Unusable { .. } => "unusable",
    }
}

/// Returns a trace's environment as a JSON object.
fn environment(entries: &[(String, EnvValue)]) -> String {
    let mut out = vec![b'{'];
    for (index, (name, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        quoted(&mut out, name.as_bytes());
        out.push(b':');
        match value {
            EnvValue::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
            EnvValue::Text(value) => quoted(&mut out, value.as_bytes()),
        }
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}
