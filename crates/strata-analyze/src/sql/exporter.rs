//! Messages of a reader to a database.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use strata_ctf::read::{
    Damage, Discarded, DiscardedKind, Event, Reader, RecordingEnd, Stream, TimeRange,
};
use strata_model::EnvValue;
use strata_timeline::{is_kernel, Sources, Timeline};

use super::batch::SqlCell;
use super::rows::Rows;
use super::schema::InsertStatement;
use super::writer::DatabaseWriter;
use crate::ahead::first_steps;
use crate::counters::{self, CounterRule};
use crate::perfetto::PairRule;
use crate::render::escape::json_quoted;
use crate::reports::span_roles;

/// What the database is to have.
#[derive(Clone, Debug)]
pub struct Options {
    /// What ends in this time; of states and of what CPUs ran, the part in it. All before is to be told, too.
    pub range: TimeRange,
    /// The table `event`.
    pub events: bool,
    /// Pairs of begin and end that the user names; they go before those by name.
    pub pairs: Vec<PairRule>,
    /// Fields that are counters.
    pub counters: Vec<CounterRule>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Event records that were asked for.
    pub events: u64,
    /// The size of the database \[byte\].
    pub bytes: u64,
    /// Event records that were discarded by the tracer.
    pub discarded: u64,
    /// Packets of them, of which nobody knows how many records they had.
    pub packets: u64,
    /// Of so many event records the fields were too long: they are left out.
    pub cut: u64,
    /// How often a thread was asked for that was one too many.
    pub threads_left_out: u64,
    /// How often a name was not kept, since there were too many.
    pub names_left_out: u64,
    /// How often a counter was one too many to be told apart.
    pub counters_left_out: u64,
}

/// What a trace has of what was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct TraceExtent {
    records: u64,
    begin: Option<i64>,
    end: Option<i64>,
}

/// Makes a database of what a reader tells, in the order of time.
#[derive(Debug)]
pub struct Exporter<'r> {
    reader: &'r Reader,
    path: PathBuf,
    timeline: Timeline,
    pub(super) rows: Rows,
    /// By [`strata_ctf::read::Trace::index`].
    parts: Vec<TraceExtent>,
    discarded: u64,
    packets: u64,
    /// Fields that are more than are told apart.
    counters_left_out: u64,
    writer: DatabaseWriter,
}

impl<'r> Exporter<'r> {
    /// Into a file that is empty, or not there. `stopped` is asked now and then, by another thread: if it says so, the
    /// file is not completed.
    ///
    /// # Errors
    /// The file's folder cannot be found, or the system has no thread for it.
    pub fn new(
        reader: &'r Reader,
        path: &Path,
        options: &Options,
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
            rows: Rows::new(options.range, options.events, machines),
            parts: vec![TraceExtent::default(); reader.traces().len()],
            discarded: 0,
            packets: 0,
            counters_left_out,
            writer: DatabaseWriter::new(path, Box::new(stopped))?,
        };
        for damage in reader.damage().iter().filter(|damage| !damage.is_note()) {
            exporter.damaged(damage);
        }
        Ok(exporter)
    }

    /// The next event record. `selected`: whether a filter selects it.
    ///
    /// # Errors
    /// The file cannot be written.
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

    /// Event records or packets were discarded there.
    ///
    /// # Errors
    /// The file cannot be written.
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

    /// Something cannot be read: what threads did since then is not known.
    ///
    /// # Errors
    /// The file cannot be written.
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

    /// That was all: make the database complete. `is_cut`: there are more records in the time, which were not asked for.
    ///
    /// # Errors
    /// The file cannot be written; [`io::ErrorKind::Interrupted`]: it was to stop.
    pub fn finish(mut self, is_cut: bool) -> io::Result<Summary> {
        // What was so at the last record still is, up to the end of the time.
        let to = Some(self.rows.range.to).filter(|&to| to < i64::MAX && !is_cut);
        if let (Some(to), Some(span)) = (to, self.reader.span()) {
            self.timeline.until(span.to.min(to));
        }
        self.timeline.finish(&mut self.rows);
        self.rows.threads(self.timeline.world());
        self.traces();
        self.rows.batch.is_last = true;
        self.hand_over()?;
        let world = self.timeline.world();
        Ok(Summary {
            events: self.parts.iter().map(|part| part.records).sum(),
            bytes: self.path.metadata()?.len(),
            discarded: self.discarded,
            packets: self.packets,
            cut: self.rows.cut,
            threads_left_out: world.threads.left_out(),
            names_left_out: world.names.left_out(),
            counters_left_out: self
                .timeline
                .counters_left_out()
                .saturating_add(self.counters_left_out),
        })
    }

    /// What was read.
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
        self.writer.write(mem::take(&mut self.rows.batch))
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

/// As one JSON object.
fn environment(entries: &[(String, EnvValue)]) -> String {
    let mut out = vec![b'{'];
    for (index, (name, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json_quoted(&mut out, name.as_bytes());
        out.push(b':');
        match value {
            EnvValue::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
            EnvValue::Text(value) => json_quoted(&mut out, value.as_bytes()),
        }
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}
