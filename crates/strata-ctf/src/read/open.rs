//! From paths to traces and their streams.

use super::damage::{Damage, DamageKind, OpenError};
use super::decode::Decoder;
use super::ended::{self, FolderEnd};
use super::files::StoredFiles;
use super::find;
use super::hop::{Hop, PacketPlace};
use super::lttng;
use super::offset::{self, ClockOffset};
use super::places::HEAD;
use super::resync;
use super::stream::{has, mask, Stream, Trace};
use super::time::{Clock, TimeRange};
use crate::model::schema::{Role, Schema};
use crate::model::{ClockClass, EnvValue};
use crate::tsdl;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// If a file does not begin with a packet, one is looked for so far when the trace is opened \[byte\].
const PROBED: u64 = 4 << 20;

/// Traces that were opened, and their streams.
pub(crate) struct OpenedTraces {
    pub(crate) traces: Vec<Arc<Trace>>,
    pub(crate) streams: Vec<Stream>,
    /// Indexes into `streams`; of messages of one time, that of the first is shown first.
    pub(crate) ranks: Vec<usize>,
    pub(crate) files: StoredFiles,
    pub(crate) damage: Vec<Damage>,
    pub(crate) ends: Vec<FolderEnd>,
    /// How many event record classes they have.
    pub(crate) classes: usize,
}

/// See [`Reader::open`](super::Reader::open).
pub(crate) fn open<'p>(
    paths: impl Iterator<Item = &'p Path>,
    options: OpenOptions,
) -> Result<OpenedTraces, OpenError> {
    let mut opening = Opening { options, ..Opening::default() };
    let mut folders = Vec::new();
    for path in paths {
        let found = find::search(path)?;
        opening.ends.extend(ended::of_recordings(path, &found.traces));
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
    // The same folder may have been named twice, and by several names.
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

/// The error without the path, which is told apart.
fn short(error: &OpenError) -> String {
    match error {
        OpenError::Metadata { error, .. } => error.to_string(),
        OpenError::Unreadable { source, .. } => format!("its metadata cannot be read: {source}"),
        other => other.to_string(),
    }
}

/// How traces are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Packets whose UUID is not that of the metadata are read as if it were.
    pub ignore_uuid: bool,
    /// Added to the times of some traces, or of all.
    pub clock_offsets: Vec<ClockOffset>,
}

/// A trace whose metadata was read.
struct FoundTrace {
    path: Arc<Path>,
    /// The folder, as seen from the one that was named.
    below: String,
    /// Bytes of the metadata, and its file.
    text: usize,
    metadata: PathBuf,
    schema: Schema,
    files: Vec<PathBuf>,
}

#[derive(Default)]
struct Opening {
    options: OpenOptions,
    found: Vec<FoundTrace>,
    traces: Vec<Arc<Trace>>,
    streams: Vec<Stream>,
    files: StoredFiles,
    damage: Vec<Damage>,
    ends: Vec<FolderEnd>,
    classes: usize,
}

/// A stream's file, and what its first packet says.
struct ProbedFile {
    file: usize,
    class: usize,
    id: Option<u64>,
    begin: Option<u64>,
}

impl Opening {
    /// Damage of a whole trace, or of a folder that may have traces.
    fn whole(&mut self, trace: &Path, what: DamageKind) {
        let damage = Damage { trace: trace.into(), stream: None, packet: None, offset: None, what };
        self.damage.push(damage);
    }

    /// Damage of a file as a whole.
    fn file(&mut self, trace: &Path, file: &Path, what: DamageKind) {
        let stream = file.file_name().map(|name| name.to_string_lossy().into());
        let damage = Damage { trace: trace.into(), stream, packet: None, offset: None, what };
        self.damage.push(damage);
    }

    /// Reads a trace's metadata. Folders with one UUID are parts of one trace: what was recorded up to a
    /// moment, and then up to another. The longest metadata is that of all of them.
    fn folder(&mut self, folder: &Path, below: String) -> Result<(), OpenError> {
        let path = folder.join(find::METADATA);
        let unreadable = |path: &Path, source| OpenError::Unreadable { path: path.into(), source };
        let text = read(&path).map_err(|source| unreadable(&path, source))?;
        let parsed = tsdl::parse_tolerant(&text)
            .map_err(|error| OpenError::Metadata { path: path.clone(), error })?;
        let files = find::stream_files(folder).map_err(|source| unreadable(folder, source))?;
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
        // Traces are made of what was found, in the same order.
        let trace = Some(known.unwrap_or(self.found.len()));
        let end = ended::of_trace(folder, &parsed.schema, &files);
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

    fn trace(&mut self, found: FoundTrace) {
        let name = name(&found.schema, &found.below);
        let mut schema = found.schema;
        for it in self.options.clock_offsets.iter().filter(|it| it.is_for(&found.path, &name)) {
            schema.clocks.iter_mut().for_each(|clock| offset::add(clock, it.nanoseconds));
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

    /// Makes streams of the files: those of the same class and id are one.
    fn group(&mut self, trace: &Arc<Trace>, files: Vec<PathBuf>) {
        let mut groups: BTreeMap<(usize, Option<u64>, usize), Vec<ProbedFile>> = BTreeMap::new();
        for path in files {
            let bytes = fs::metadata(&path).map_or(0, |kind| kind.len());
            let file = self.files.add(path, bytes);
            let probe = self.probe(trace, file);
            // Where packets do not say of which stream they are, each file is one.
            let alone = if probe.id.is_some() { 0 } else { file };
            groups.entry((probe.class, probe.id, alone)).or_default().push(probe);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        for (_, probes) in &mut groups {
            // Files were added sorted by name.
            probes.sort_by_key(|probe| (probe.begin, probe.file));
        }
        groups.sort_by_key(|(_, probes)| probes.iter().map(|probe| probe.file).min());
        for ((class, id, _), probes) in groups {
            let files = probes.iter().map(|probe| probe.file).collect();
            let stream = self.stream(trace, class, id, files);
            self.streams.push(stream);
        }
    }

    /// Looks at a file's first packet.
    fn probe(&self, trace: &Arc<Trace>, file: usize) -> ProbedFile {
        let stream = self.stream(trace, 0, None, vec![file]);
        let mut hop = Hop::new(&self.files, &stream, PacketPlace::default(), HEAD);
        hop.scan = PROBED;
        match hop.next() {
            Some(opened) => ProbedFile {
                file,
                class: opened.class,
                id: opened.id,
                begin: opened.packet.begin_cycles,
            },
            // What is wrong with it is told when it is read.
            None => ProbedFile { file, class: 0, id: None, begin: None },
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
            bytes: files.iter().map(|&file| self.files.bytes(file)).sum(),
            clock: trace.clocks.get(class).copied().flatten(),
            merged: paths.iter().any(|path| path.parent() != folder),
            discarded_mask: mask(context, Role::DiscardedEvents),
            active: TimeRange::ALL,
            has_sequence: has(context, Role::PacketSequenceNumber),
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
        let mut ranks: Vec<usize> = (0..self.streams.len()).collect();
        ranks.sort_by_cached_key(|&index| self.streams.get(index).map(rank));
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

    /// Each clock that has no dates, and that a stream has.
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

    /// Each trace's clock with that of the first that has one.
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

/// Whether times of the two can be compared.
fn comparable(one: &ClockClass, other: &ClockClass) -> bool {
    match (one.absolute, other.absolute) {
        (true, true) => true,
        (false, false) => one.uuid == other.uuid,
        _ => false,
    }
}

/// Of each stream class.
fn clocks(schema: &Schema) -> Vec<Option<Clock>> {
    let clock = |index: Option<usize>| index.and_then(|index| schema.clocks.get(index));
    schema.streams.iter().map(|class| clock(class.clock).map(Clock::new)).collect()
}

/// A trace's name for people: its host, and where it is below the folder that was named.
fn name(schema: &Schema, below: &str) -> String {
    match schema.environment("hostname") {
        Some(EnvValue::Text(host)) if below.is_empty() => host.clone(),
        Some(EnvValue::Text(host)) => format!("{host}/{below}"),
        _ => below.to_owned(),
    }
}

/// The order of messages of one time, that of babeltrace2: traces by UUID, those without behind the
/// others; those of CTF 2 by what identifies them instead; by name, those without behind the others; by ids of stream class and stream. Then, as it has
/// no order for them, by the order of the files.
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

/// The whole file, unless it is longer than any metadata that is read.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(tsdl::limits::TEXT_BYTES + 1).read_to_end(&mut text)?;
    Ok(text)
}
