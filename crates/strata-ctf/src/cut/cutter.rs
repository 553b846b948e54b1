//! Distributes the chosen records of all traces to the streams that are cut.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::class::{needed, ClassInfo};
use super::error::CutError;
use super::file::copy_new;
use super::stream::{PacketLimits, StreamCut};
use crate::end_mark::{self, EndMark, Ending, Losses};
use crate::model::schema::Location;
use crate::read::{Clock, Discarded, Event, Reader, RecordingEnd, Stream, TimeRange, Trace};

/// The most bytes that are collected before they are written, over all streams \[byte\].
const BUFFERS: usize = 32 << 20;
const BUFFER: (usize, usize) = (16 << 10, 256 << 10);
/// The most files that stay open.
const OPEN: usize = 200;

/// Writes chosen event records of traces as smaller traces with the same metadata.
///
/// Records and losses of each stream must be passed in the order of the stream.
pub struct Cutter<'r> {
    reader: &'r Reader,
    folder: PathBuf,
    /// For each trace, the path of its output below `folder`.
    places: Vec<PathBuf>,
    range: TimeRange,
    needed: Vec<Option<Arc<HashSet<Location>>>>,
    /// Properties of each event record class, by its index.
    classes: Vec<Option<ClassInfo>>,
    streams: Vec<Option<StreamCut<'r>>>,
    names: HashSet<PathBuf>,
    limits: PacketLimits,
}

impl<'r> Cutter<'r> {
    /// Makes a cutter that writes to `folder`, which must exist and be empty. A single trace is written to the folder
    /// itself, several traces to folders below it. Packets get no times outside of `range`.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(reader: &'r Reader, folder: &Path, range: TimeRange) -> io::Result<Cutter<'r>> {
        let streams = reader.streams().len();
        let bytes = (BUFFERS / streams.max(1)).clamp(BUFFER.0, BUFFER.1);
        Ok(Cutter {
            reader,
            folder: folder.to_owned(),
            places: places(reader.traces())?,
            range,
            needed: vec![None; reader.traces().len()],
            classes: vec![None; reader.event_classes()],
            streams: (0..streams).map(|_| None).collect(),
            names: HashSet::new(),
            limits: PacketLimits { bytes, close: streams > OPEN },
        })
    }

    /// Writes a chosen event record.
    ///
    /// # Errors
    /// A file cannot be read or written, or the metadata have no way to express the record's time without the records
    /// before it.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), CutError> {
        let class = event.class();
        let info = match self.classes.get(class.index()) {
            Some(Some(info)) => *info,
            _ => {
                let schema = event.stream().trace().schema();
                let Some(stream) = schema.streams.get(class.stream_class()) else { return Ok(()) };
                let info = ClassInfo::new(stream, class.schema());
                if let Some(slot) = self.classes.get_mut(class.index()) {
                    *slot = Some(info);
                }
                info
            }
        };
        match self.stream(event.stream())? {
            Some(stream) => stream.event(event, info),
            None => Ok(()),
        }
    }

    /// Adds a loss of event records or packets.
    ///
    /// # Errors
    /// The errors of [`Cutter::event`].
    pub fn discarded(&mut self, discarded: &Discarded<'_>) -> Result<(), CutError> {
        let Discarded { packet, kind, count, at_begin, from_cycles, .. } = *discarded;
        match self.stream(discarded.stream)? {
            Some(stream) => stream.discarded(packet, kind, count, at_begin, from_cycles),
            None => Ok(()),
        }
    }

    /// Completes all files. Returns their size \[byte\].
    ///
    /// # Errors
    /// The errors of [`Cutter::event`].
    pub fn finish(mut self) -> Result<u64, CutError> {
        let mut bytes = 0;
        let mut has_streams = vec![false; self.places.len()];
        let streams = self.reader.streams().iter().zip(&mut self.streams);
        for (stream, cut) in streams {
            let Some(cut) = cut else { continue };
            bytes += cut.finish()?;
            if let Some(slot) = has_streams.get_mut(stream.trace.index()) {
                *slot = true;
            }
        }
        let is_empty = !has_streams.contains(&true);
        for ((trace, place), has) in self.reader.traces().iter().zip(&self.places).zip(has_streams)
        {
            if has || is_empty {
                let folder = self.folder.join(place);
                bytes += copy_new(trace.metadata(), &folder.join("metadata"))?;
                bytes += self.mark(trace, &folder)?;
            }
        }
        Ok(bytes)
    }

    /// Writes the end mark: the smaller trace ended as the whole trace did. Without an end mark in the whole trace,
    /// none is written. Returns the size that was written \[byte\].
    fn mark(&self, trace: &Trace, folder: &Path) -> Result<u64, CutError> {
        let end = self.reader.ends().iter().find(|end| end.trace == Some(trace.index()));
        let (ending, losses) = match end.map(|end| &end.end) {
            Some(RecordingEnd::Marked(mark)) => (mark.ending, mark.losses),
            Some(RecordingEnd::Running | RecordingEnd::Killed { .. }) => {
                (Ending::Recording, Losses::default())
            }
            _ => return Ok(0),
        };
        let (mut files, mut bytes) = (0, 0u64);
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name() != "metadata" {
                files += 1;
                bytes += entry.metadata()?.len();
            }
        }
        let mark = EndMark { ending, losses, files, bytes, ..EndMark::default() };
        fs::write(folder.join(end_mark::FILE), mark.encode())?;
        Ok(end_mark::BYTES as u64)
    }

    fn stream(&mut self, stream: &Stream) -> Result<Option<&mut StreamCut<'r>>, CutError> {
        let Some(slot) = self.streams.get_mut(stream.index()) else { return Ok(None) };
        if slot.is_none() {
            // The same stream, borrowed for as long as the reader lives.
            let Some(stream) = self.reader.streams().get(stream.index()) else { return Ok(None) };
            let trace = stream.trace.index();
            let folder = self.folder.join(self.places.get(trace).map_or(Path::new(""), |it| it));
            let path = unique(&mut self.names, &folder, stream);
            let needed = match self.needed.get_mut(trace) {
                Some(known) => known.get_or_insert_with(|| Arc::new(needed(stream.trace.schema()))),
                None => return Ok(None),
            };
            let range = self.range.and(&stream.active);
            let cycles = stream.clock.map_or((0, u64::MAX), |clock| cycles(&clock, range));
            let (files, needed) = (self.reader.files(), Arc::clone(needed));
            *slot = Some(StreamCut::new(stream, files, needed, cycles, path, self.limits));
        }
        Ok(slot.as_mut())
    }
}

/// Returns a path with the name of the stream's first file, changed so that no other stream of the trace has it.
fn unique(names: &mut HashSet<PathBuf>, folder: &Path, stream: &Stream) -> PathBuf {
    let first = stream.files().first().and_then(|path| path.file_name());
    let name = first.map_or_else(|| OsString::from("stream"), ToOwned::to_owned);
    let mut path = folder.join(&name);
    let mut number = 1u64;
    while path.file_name().is_some_and(|name| name == "metadata") || !names.insert(path.clone()) {
        number += 1;
        let mut other = name.clone();
        // No file of another stream ends like this: the second file of a stream ends with a single "_" and a number.
        other.push(format!("__{number}"));
        path = folder.join(other);
    }
    path
}

/// Returns the paths of the traces relative to the deepest folder that contains all of them.
fn places(traces: &[Arc<Trace>]) -> io::Result<Vec<PathBuf>> {
    let paths = traces.iter().map(|trace| fs::canonicalize(trace.path()));
    let paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
    let mut common = paths.first().cloned().unwrap_or_default();
    while !paths.iter().all(|path| path.starts_with(&common)) && common.pop() {}
    let below = |path: &PathBuf| {
        let below = path.strip_prefix(&common).unwrap_or(path);
        below.components().filter(|it| matches!(it, Component::Normal(_))).collect()
    };
    Ok(paths.iter().map(below).collect())
}

/// Returns the first and the last cycle within a time range.
fn cycles(clock: &Clock, range: TimeRange) -> (u64, u64) {
    // Times never decrease as cycles increase, so a binary search finds the first cycle.
    let first = |is_there: &dyn Fn(i64) -> bool| {
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_there(clock.time(middle)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    };
    let from = match range.from {
        i64::MIN => 0,
        from => first(&|time| time >= from),
    };
    let until = match range.to {
        i64::MAX => u64::MAX,
        to if clock.time(u64::MAX) <= to => u64::MAX,
        to => first(&|time| time > to).saturating_sub(1),
    };
    (from, until)
}

impl std::fmt::Debug for Cutter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cutter").field("folder", &self.folder).finish_non_exhaustive()
    }
}
