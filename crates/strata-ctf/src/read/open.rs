//! Opens paths: finds their traces, reads the metadata and sorts files into streams.

use super::clock_offset::{self, ClockOffset};
use super::completeness::{self, FolderEnd};
use super::damage::{Damage, DamageKind, OpenError};
use super::decode::Decoder;
use super::files::{open_regular, StoredFiles};
use super::find_traces;
use super::lttng;
use super::packet_places::HEAD;
use super::packet_skip::{PacketPlace, PacketSkipper};
use super::resync;
use super::stream::{has, mask, Stream, Trace};
use super::time::{Clock, TimeRange};
use super::wrapped_files;
use crate::model::schema::{Role, Schema};
use crate::model::{ClockClass, EnvValue};
use crate::read::metadata;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The most bytes of a file that are searched for its first packet when a trace is opened.
const PROBED: u64 = 4 << 20;

/// Traces that were opened, and their streams.
pub(crate) struct OpenedTraces {
    pub(crate) traces: Vec<Arc<Trace>>,
    pub(crate) streams: Vec<Stream>,
    /// Indexes into `streams`, in the order in which messages of the same time are shown.
    pub(crate) ranks: Vec<usize>,
    pub(crate) files: StoredFiles,
    pub(crate) damage: Vec<Damage>,
    pub(crate) ends: Vec<FolderEnd>,
    /// The number of event record classes in all traces.
    pub(crate) classes: usize,
}

/// Opens traces; see [`Reader::open`](super::Reader::open).
pub(crate) fn open<'p>(
    paths: impl Iterator<Item = &'p Path>,
    options: OpenOptions,
) -> Result<OpenedTraces, OpenError> {
    let mut opening = Opening { options, ..Opening::default() };
    let mut folders = Vec::new();
    for path in paths {
        let found = find_traces::search(path)?;
        opening.ends.extend(completeness::of_recordings(path, &found.traces));
        for folder in found.traces {
            let below = folder.strip_prefix(path).unwrap_or(Path::new("")).to_string_lossy();
            folders.push((below.into_owned(), folder));
        }
        for (path, error) in found.unreadable {
            opening.whole(&path, DamageKind::Unreadable { error: error.to_string().into() });
        }
    }
    if folders.is_empty() {
        return Err(OpenError::NoPath);
    }
    // A folder may be given twice, also under several names.
    let mut seen = HashSet::new();
    folders.retain(|(_, folder)| fs::canonicalize(folder).map_or(true, |path| seen.insert(path)));
    folders.sort_by(|(_, one), (_, other)| one.cmp(other));
    let mut first = None;
    for (below, folder) in folders {
        if let Err(error) = opening.folder(&folder, below) {
            let what = DamageKind::Metadata { error: short(&error).into() };
            opening.whole(&folder, what);
            first.get_or_insert(error);
        }
    }
    match first {
        Some(error) if opening.found.is_empty() => Err(error),
        _ => Ok(opening.finish()),
    }
}

/// Formats the error without the path, which the damage already has.
fn short(error: &OpenError) -> String {
    match error {
        OpenError::Metadata { error, .. } => error.to_string(),
        OpenError::Unreadable { source, .. } => format!("its metadata cannot be read: {source}"),
        other => other.to_string(),
    }
}

/// Options for opening traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// If true, packets with a UUID other than that of the metadata are read as well.
    pub ignore_uuid: bool,
    /// Offsets to add to the times of some or all traces.
    pub clock_offsets: Vec<ClockOffset>,
}

/// A trace whose metadata was read.
struct FoundTrace {
    path: Arc<Path>,
    /// Path of the folder below the path that was given.
    below: String,
    /// Size of the metadata \[byte\].
    text: usize,
    metadata: PathBuf,
    schema: Schema,
    files: Vec<PathBuf>,
}

#[derive(Default)]
pub(crate) struct Opening {
    pub(crate) options: OpenOptions,
    found: Vec<FoundTrace>,
    pub(crate) traces: Vec<Arc<Trace>>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) files: StoredFiles,
    pub(crate) damage: Vec<Damage>,
    ends: Vec<FolderEnd>,
    pub(crate) classes: usize,
}

/// A stream's file, with the values of its first packet.
struct ProbedFile {
    file: usize,
    /// Index of the file of a wrapped ring that holds its newest packets.
    newest: Option<usize>,
    class: usize,
    id: Option<u64>,
    begin: Option<u64>,
}

impl Opening {
    /// Adds a damage of a whole trace, or of a folder that may have traces.
    fn whole(&mut self, trace: &Path, what: DamageKind) {
        let damage = Damage { trace: trace.into(), stream: None, packet: None, offset: None, what };
        self.damage.push(damage);
    }

    /// Adds a damage of a whole file.
    fn file(&mut self, trace: &Path, file: &Path, what: DamageKind) {
        let stream = file.file_name().map(|name| name.to_string_lossy().into());
        let damage = Damage { trace: trace.into(), stream, packet: None, offset: None, what };
        self.damage.push(damage);
    }

    /// Reads a trace's metadata. Folders with the same UUID are parts of one trace, recorded up to different times. The
    /// longest of their metadata is used for all of them.
    pub(crate) fn folder(&mut self, folder: &Path, below: String) -> Result<(), OpenError> {
        let path = folder.join(find_traces::METADATA);
        let unreadable = |path: &Path, source| OpenError::Unreadable { path: path.into(), source };
        let text = read(&path).map_err(|source| unreadable(&path, source))?;
        let parsed = metadata::parse_tolerant(&text)
            .map_err(|error| OpenError::Metadata { path: path.clone(), error })?;
        let files =
            find_traces::stream_files(folder).map_err(|source| unreadable(folder, source))?;
        for (path, error) in files.unreadable.iter() {
            self.file(folder, path, DamageKind::Unreadable { error: error.to_string().into() });
        }
        for (path, what) in lttng::glances(folder, &files) {
            self.file(folder, &path, what);
        }
        let files = files.files;
        for problem in parsed.problems {
            self.whole(folder, DamageKind::Description { error: problem.to_string().into() });
        }
        let uuid = parsed.schema.uuid;
        let known = self.found.iter().position(|found| uuid.is_some() && found.schema.uuid == uuid);
        // The index of the trace will be that of `found`.
        let trace = Some(known.unwrap_or(self.found.len()));
        let end = completeness::of_trace(folder, &parsed.schema, &files);
        self.ends.extend(end.map(|end| FolderEnd { trace, ..end }));
        let known = known.and_then(|known| self.found.get_mut(known));
        match known {
            Some(known) => {
                known.files.extend(files);
                known.below.clear();
                if known.text < text.len() {
                    (known.text, known.schema) = (text.len(), parsed.schema);
                    known.metadata = path;
                }
            }
            None => self.found.push(FoundTrace {
                path: folder.into(),
                below,
                text: text.len(),
                metadata: path,
                schema: parsed.schema,
                files,
            }),
        }
        Ok(())
    }

    /// Takes the folders that were read since the last call. A folder becomes a new trace, or its files belong to an
    /// existing trace: these are returned with the trace's index.
    pub(crate) fn take_found(&mut self) -> Vec<(usize, Vec<PathBuf>)> {
        let mut joined = Vec::new();
        for found in std::mem::take(&mut self.found) {
            let uuid = found.schema.uuid;
            let is_same = |trace: &Arc<Trace>| uuid.is_some() && trace.schema().uuid == uuid;
            match self.traces.iter().position(is_same) {
                Some(trace) => joined.push((trace, found.files)),
                None => self.trace(found),
            }
        }
        joined
    }

    /// Updates a trace whose metadata have grown. Its event record classes get new indexes.
    pub(crate) fn describe_again(&mut self, index: usize, mut schema: Schema) {
        let Some(old) = self.traces.get(index).cloned() else { return };
        for it in self.options.clock_offsets.iter().filter(|it| it.is_for(&old.path, &old.name)) {
            schema.clocks.iter_mut().for_each(|clock| clock_offset::add(clock, it.nanoseconds));
        }
        let schema = Arc::new(schema);
        let decoder = Decoder::new(Arc::clone(&schema), self.classes);
        self.classes = self.classes.saturating_add(decoder.classes());
        let trace = Arc::new(Trace {
            index,
            path: Arc::clone(&old.path),
            name: old.name.clone(),
            metadata: old.metadata.clone(),
            decoder,
            any_uuid: old.any_uuid,
            sign: resync::sign(&schema, old.any_uuid),
            clocks: clocks(&schema),
        });
        for at in 0..self.streams.len() {
            let Some(stream) = self.streams.get(at).filter(|one| one.trace.index == index) else {
                continue;
            };
            let id = stream.class().id;
            let class =
                schema.streams.iter().position(|class| class.id == id).unwrap_or(stream.class);
            let again = self.stream(&trace, class, stream.id, stream.files.clone());
            if let Some(stream) = self.streams.get_mut(at) {
                *stream = Stream { index: at, active: stream.active, ..again };
            }
        }
        if let Some(slot) = self.traces.get_mut(index) {
            *slot = trace;
        }
    }

    /// Adds files to an opened trace. Each continues the stream whose packets it has, or becomes a stream of its own.
    pub(crate) fn add_files(&mut self, index: usize, files: Vec<PathBuf>) {
        let Some(trace) = self.traces.get(index).cloned() else { return };
        for path in files {
            let bytes = fs::metadata(&path).map_or(0, |kind| kind.len());
            let file = self.files.add(path, bytes);
            let probe = self.probe(&trace, file);
            let is_its = |stream: &&Stream| {
                stream.trace.index == index && stream.class == probe.class && stream.id == probe.id
            };
            let known = self.streams.iter().find(is_its).filter(|_| probe.id.is_some());
            let (at, files) = match known {
                Some(known) => (known.index, [&known.files[..], &[file]].concat()),
                None => (self.streams.len(), vec![file]),
            };
            let stream = self.stream(&trace, probe.class, probe.id, files);
            match self.streams.get_mut(at) {
                Some(known) => *known = Stream { index: at, active: known.active, ..stream },
                None => self.streams.push(stream),
            }
        }
    }

    /// Returns the indexes of streams in the order in which messages of the same time are shown.
    pub(crate) fn ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = (0..self.streams.len()).collect();
        ranks.sort_by_cached_key(|&index| self.streams.get(index).map(rank));
        ranks
    }

    fn trace(&mut self, found: FoundTrace) {
        let name = name(&found.schema, &found.below);
        let mut schema = found.schema;
        for it in self.options.clock_offsets.iter().filter(|it| it.is_for(&found.path, &name)) {
            schema.clocks.iter_mut().for_each(|clock| clock_offset::add(clock, it.nanoseconds));
        }
        let schema = Arc::new(schema);
        let decoder = Decoder::new(Arc::clone(&schema), self.classes);
        self.classes = self.classes.saturating_add(decoder.classes());
        let trace = Arc::new(Trace {
            index: self.traces.len(),
            path: found.path,
            name,
            metadata: found.metadata,
            decoder,
            any_uuid: self.options.ignore_uuid,
            sign: resync::sign(&schema, self.options.ignore_uuid),
            clocks: clocks(&schema),
        });
        self.traces.push(Arc::clone(&trace));
        self.group(&trace, found.files);
    }

    /// Makes streams of the files. Files with the same stream class and id form one stream.
    fn group(&mut self, trace: &Arc<Trace>, files: Vec<PathBuf>) {
        let mut groups: BTreeMap<(usize, Option<u64>, usize), Vec<ProbedFile>> = BTreeMap::new();
        for path in files {
            let bytes = fs::metadata(&path).map_or(0, |kind| kind.len());
            let file = self.files.add(path, bytes);
            let mut probe = self.probe(trace, file);
            let only = self.stream(trace, probe.class, probe.id, vec![file]);
            if let Some(oldest) = wrapped_files::oldest(&self.files, &only) {
                probe.newest = self.files.divide(file, oldest.offset);
                probe.begin = Some(oldest.begin);
            }
            // If packets have no stream id, each file is a stream of its own.
            let alone = if probe.id.is_some() { 0 } else { file };
            groups.entry((probe.class, probe.id, alone)).or_default().push(probe);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        for (_, probes) in &mut groups {
            // Files with equal begins keep the order of their names.
            probes.sort_by_key(|probe| (probe.begin, probe.file));
        }
        groups.sort_by_key(|(_, probes)| probes.iter().map(|probe| probe.file).min());
        for ((class, id, _), probes) in groups {
            let parts = |probe: &ProbedFile| std::iter::once(probe.file).chain(probe.newest);
            let files = probes.iter().flat_map(parts).collect();
            let stream = self.stream(trace, class, id, files);
            self.streams.push(stream);
        }
    }

    /// Reads the header of a file's first packet.
    fn probe(&self, trace: &Arc<Trace>, file: usize) -> ProbedFile {
        let stream = self.stream(trace, 0, None, vec![file]);
        let mut skipper = PacketSkipper::new(&self.files, &stream, PacketPlace::default(), HEAD);
        skipper.scan = PROBED;
        match skipper.next() {
            Some(opened) => ProbedFile {
                file,
                newest: None,
                class: opened.class,
                id: opened.id,
                begin: opened.packet.begin_cycles,
            },
            // The fault is reported when the file is read.
            None => ProbedFile { file, newest: None, class: 0, id: None, begin: None },
        }
    }

    fn stream(
        &self,
        trace: &Arc<Trace>,
        class: usize,
        id: Option<u64>,
        files: Vec<usize>,
    ) -> Stream {
        let schema = trace.schema();
        let context = schema.streams.get(class).and_then(|class| class.packet_context.as_ref());
        let paths: Vec<_> = files.iter().map(|&file| self.files.path(file).to_owned()).collect();
        let name = paths.first().and_then(|path| path.file_name());
        let folder = paths.first().and_then(|path| path.parent());
        Stream {
            index: self.streams.len(),
            trace: Arc::clone(trace),
            class,
            id,
            name: name.map(|name| name.to_string_lossy()).unwrap_or_default().into(),
            bytes: files.iter().map(|&file| self.files.size(file)).sum(),
            clock: trace.clocks.get(class).copied().flatten(),
            merged: paths.iter().any(|path| path.parent() != folder),
            discarded_mask: mask(context, Role::DiscardedEvents),
            active: TimeRange::ALL,
            has_sequence: has(context, Role::PacketSequenceNumber),
            framed: OnceLock::new(),
            sequence_mask: mask(context, Role::PacketSequenceNumber),
            files,
            paths,
        }
    }

    fn finish(mut self) -> OpenedTraces {
        for found in std::mem::take(&mut self.found) {
            self.trace(found);
        }
        self.look_at_dates();
        self.compare_clocks();
        let ranks = self.ranks();
        OpenedTraces {
            traces: self.traces,
            streams: self.streams,
            ranks,
            files: self.files,
            damage: self.damage,
            ends: self.ends,
            classes: self.classes,
        }
    }

    /// Reports clocks of streams whose times are no dates.
    fn look_at_dates(&mut self) {
        let mut found = Vec::new();
        for trace in &self.traces {
            let schema = trace.schema();
            let used: BTreeSet<_> = schema.streams.iter().filter_map(|class| class.clock).collect();
            for class in used.into_iter().filter_map(|clock| schema.clocks.get(clock)) {
                if !Clock::new(class).is_dated() {
                    let (clock, offset) = (class.name.as_str().into(), class.offset_s);
                    found.push((Arc::clone(&trace.path), DamageKind::NoDates { clock, offset }));
                }
            }
        }
        for (trace, what) in found {
            self.whole(&trace, what);
        }
    }

    /// Compares each trace's clock with the first clock of all traces.
    fn compare_clocks(&mut self) {
        let mut first: Option<&Arc<Trace>> = None;
        let mut found = Vec::new();
        for trace in &self.traces {
            let Some(clock) = trace.schema().clocks.first() else { continue };
            match first.and_then(|first| Some((first, first.schema().clocks.first()?))) {
                None => first = Some(trace),
                Some((_, other)) if comparable(clock, other) => {}
                Some((other, _)) => {
                    found.push((Arc::clone(&trace.path), Arc::clone(&other.path)));
                }
            }
        }
        for (trace, other) in found {
            self.whole(&trace, DamageKind::Clocks { other });
        }
    }
}

/// Returns whether times of the two clocks can be compared.
fn comparable(one: &ClockClass, other: &ClockClass) -> bool {
    match (one.absolute, other.absolute) {
        (true, true) => true,
        (false, false) => one.uuid == other.uuid,
        _ => false,
    }
}

/// Returns the clock of each stream class.
fn clocks(schema: &Schema) -> Vec<Option<Clock>> {
    let clock = |index: Option<usize>| index.and_then(|index| schema.clocks.get(index));
    schema.streams.iter().map(|class| clock(class.clock).map(Clock::new)).collect()
}

/// Makes a trace's name for people: its host, and its path below the folder that was given.
fn name(schema: &Schema, below: &str) -> String {
    match schema.environment("hostname") {
        Some(EnvValue::Text(host)) if below.is_empty() => host.clone(),
        Some(EnvValue::Text(host)) => format!("{host}/{below}"),
        _ => below.to_owned(),
    }
}

/// Returns the sort key of a stream for messages of the same time, as babeltrace2 orders them. Traces are sorted by
/// UUID, or those of CTF 2 by namespace, name and uid; traces without come last. Then the order is by name (traces
/// without come last), stream class and stream id. The order of the files decides the rest, for which babeltrace2 has
/// no order.
fn rank(stream: &Stream) -> impl Ord {
    let schema = stream.trace.schema();
    let identity = [&schema.namespace, &schema.name, &schema.uid];
    let identity = identity.map(|part| (part.is_none(), part.clone()));
    let uuid = schema.uuid.filter(|_| identity.iter().all(|(is_none, _)| *is_none));
    let uuid = uuid.map(|uuid| uuid.0);
    let name = stream.trace.name.clone();
    let trace = (uuid.is_none(), uuid, identity, name.is_empty(), name);
    (trace, stream.class().id, stream.id, stream.index)
}

/// Reads a whole file, but at most one byte more than the limit for metadata.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open_regular(path)?.take(metadata::limits::TEXT_BYTES + 1).read_to_end(&mut text)?;
    Ok(text)
}
