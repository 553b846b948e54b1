//! The output of a session that writes: its folder, or the present one of the chunks into which it is split.
//!
//! ```text
//! DIR/.strata-end                         of the recording as a whole
//! DIR/0001-20260131-120000/               a chunk: a recording by itself, with an end mark, layers, traces
//! DIR/0002-20260131-130000/               the present chunk
//! ```
//!
//! ```text
//! begin() ─▶ one folder ─ begin_next() ─▶ next chunk; the previous one still gets packets ─ end_last() ─▶ complete
//!                               ▲                                                                │
//!                               └────────────────────────────────────────────────────── beyond(): old ones to remove
//! held in memory: begin_flushed() ─▶ the next chunk is on disk ─ take_left() ─▶ copy the others ─ flushed()
//! ```
//!
//! A recording without automatic rotation has its traces in DIR. They are moved to the first chunk when somebody
//! requests a second one. A recording that is held in memory until there is a disk has chunks from its beginning;
//! after the flush, the next chunk is on the disk, and the chunks before it are copied there.
//!
//! The pump's thread opens traces here, and a thread of its own does a rotation (`session/rotation.rs`); both lock
//! the output for a moment only. So nothing here waits for a disk longer than a folder's creation takes, and
//! [`SessionChunk::remove`], which may take long, is called without the lock.
//!
//! A folder is only removed if this session has made it and still holds it open: another folder of that name stays.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_collect::{Counts, Error, Output, Sink};
use strata_ctf::end_mark::{EndMark, Ending, Losses};

use crate::options::{Rotation, ROTATE_COUNT_MAX};
use crate::output::folder::{chunk_number, FolderError, TimeStamp, TraceFolder};
use crate::output::folder_mark::{Made, SessionMark};
use crate::output::retention::Retention;
use crate::report::{ChunkStatus, ChunksStatus};
use crate::session::failure::failure_text;

/// The most numbers that are tried for a new chunk's name.
const TRIES: u64 = 1000;
/// The most complete chunks that are listed one by one.
const SHOWN: usize = 20;

/// The output of a session that is split into chunks.
#[derive(Debug)]
pub(crate) struct ChunksOutput {
    root: TraceFolder,
    rotation: Rotation,
    retention: Retention,
    /// Time of the session's start, as it appears in names of folders.
    stamp: String,
    present: SessionChunk,
    /// True if the last chunk was removed because nothing was recorded in it.
    is_gone: bool,
    /// The previous chunk, until it is complete.
    leaving: Option<SessionChunk>,
    /// The folder to which the root's content moves at the first rotation.
    first: Option<TraceFolder>,
    kept: VecDeque<SessionChunk>,
    /// Number of complete chunks of which only the number is kept.
    older: u64,
    /// The path of the first chunk, if it was moved.
    moved: Option<PathBuf>,
    removed: u64,
    removed_records: u64,
    removed_unknown: u64,
    /// Number of records, and of bytes, in chunks that are no longer listed.
    gone: (u64, u64),
    error: Option<String>,
    /// Mark of the session for the folder on disk to which a trace in memory moves.
    mark: Option<SessionMark>,
    /// True while the trace is held in memory.
    is_early: bool,
    /// The folder in memory whose chunks must still be copied to disk.
    left: Option<TraceFolder>,
    /// Paths of the chunks' folder before the flush to disk and after it.
    flushed: Option<(PathBuf, PathBuf)>,
}

/// A chunk of the session's trace.
#[derive(Debug)]
pub(crate) struct SessionChunk {
    number: u64,
    path: PathBuf,
    /// The chunk's folder, kept open; `None` for the root, and for a complete chunk that will not be removed.
    folder: Option<TraceFolder>,
    /// Counts of records in the channels.
    counts: Counts,
    /// Counts of records outside of the channels, such as those of state dumps.
    besides: Counts,
    is_of_before: bool,
    /// Size of a complete chunk's files, once it was computed \[byte\].
    disk_bytes: Option<u64>,
}

impl SessionChunk {
    fn new(number: u64, folder: TraceFolder) -> SessionChunk {
        let path = folder.path().to_owned();
        let (counts, besides) = (Counts::default(), Counts::default());
        SessionChunk {
            number,
            path,
            folder: Some(folder),
            counts,
            besides,
            is_of_before: false,
            disk_bytes: None,
        }
    }

    fn status(&self) -> ChunkStatus {
        let known = |number: u64| (!self.is_of_before).then_some(number);
        let all = self.all();
        ChunkStatus {
            number: self.number,
            folder: absolute(&self.path),
            records: known(all.records),
            bytes: known(all.bytes),
        }
    }

    fn disk_bytes(&mut self) -> u64 {
        let folder = self.folder.as_ref();
        *self.disk_bytes.get_or_insert_with(|| folder.map_or(0, TraceFolder::disk_bytes))
    }

    fn all(&self) -> Counts {
        let mut all = self.counts;
        all.add(&self.besides);
        all
    }

    /// Removes the chunk from the disk. Call this where nobody waits for it.
    ///
    /// # Errors
    /// What remains of the chunk, and why.
    pub(crate) fn remove(&self) -> Result<(), String> {
        let done = self.folder.as_ref().map_or(Ok(()), TraceFolder::remove_all);
        done.map_err(|why| format!("part '{}' was to be removed: {why}", self.path.display()))
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl ChunksOutput {
    /// Creates the output of a trace in the folder `root`. It is not split until a second chunk is requested.
    pub(crate) fn new(root: TraceFolder, stamp: &str) -> ChunksOutput {
        let present = SessionChunk {
            number: 1,
            path: root.path().to_owned(),
            folder: None,
            counts: Counts::default(),
            besides: Counts::default(),
            is_of_before: false,
            disk_bytes: None,
        };
        ChunksOutput {
            root,
            rotation: Rotation::default(),
            retention: Retention::default(),
            stamp: stamp.to_owned(),
            present,
            is_gone: false,
            leaving: None,
            first: None,
            kept: VecDeque::new(),
            older: 0,
            moved: None,
            removed: 0,
            removed_records: 0,
            removed_unknown: 0,
            gone: (0, 0),
            error: None,
            mark: None,
            is_early: false,
            left: None,
            flushed: None,
        }
    }

    /// Marks the output as held in memory, before it begins.
    pub(crate) fn early(self) -> ChunksOutput {
        ChunksOutput { is_early: true, ..self }
    }

    /// Sets the mark of the session that creates the output.
    pub(crate) fn of_session(self, mark: Option<SessionMark>) -> ChunksOutput {
        ChunksOutput { mark, ..self }
    }

    pub(crate) fn is_early(&self) -> bool {
        self.is_early
    }

    /// Returns the free space for the trace \[byte\].
    pub(crate) fn room(&self) -> Option<u64> {
        self.root.room()
    }

    /// Returns the free space on the file system, and its size \[byte\].
    pub(crate) fn free(&self) -> Option<(u64, u64)> {
        self.root.free()
    }

    /// Reserves space for the end mark of the whole recording, and creates the first chunk if the rotation is
    /// automatic. `before`: the chunks of a killed session that this one continues.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn begin(
        &mut self,
        (rotation, retention): (Rotation, Retention),
        before: Option<&[String]>,
    ) -> Result<(), FolderError> {
        (self.rotation, self.retention) = (rotation, retention);
        self.root.begin()?;
        for name in before.unwrap_or_default() {
            let (Some(number), Some(folder)) =
                (chunk_number(name), self.root.chunk_of_before(name))
            else {
                continue;
            };
            self.kept.push_back(SessionChunk {
                is_of_before: true,
                ..SessionChunk::new(number, folder)
            });
        }
        self.let_go();
        // These chunks are left by a session that was killed again and again.
        for chunk in self.beyond() {
            let removed = chunk.remove();
            self.removed(&chunk, removed.is_ok());
            self.error = removed.err().or(self.error.take());
        }
        let number = self.kept.back().map_or(1, |last| last.number.saturating_add(1));
        if before.is_some() || self.is_early || !rotation.is_none() {
            let stamp = self.stamp.clone();
            self.present = self.make(number, &stamp)?;
        }
        Ok(())
    }

    /// Creates a chunk with the number `from`, or the next free one.
    fn make(&self, from: u64, stamp: &str) -> Result<SessionChunk, FolderError> {
        let mut number = from;
        loop {
            let folder = match self.root.chunk(&format!("{number:04}-{stamp}")) {
                Err(FolderError::System { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists && number < from + TRIES =>
                {
                    number += 1;
                    continue;
                }
                made => made?,
            };
            return match folder.begin() {
                Ok(()) => Ok(SessionChunk::new(number, folder)),
                Err(error) => {
                    folder.remove_if_empty();
                    Err(error)
                }
            };
        }
    }

    /// Starts a new chunk, for traces that begin from now on.
    ///
    /// # Errors
    /// The chunk cannot be created; nothing is changed.
    pub(crate) fn begin_next(&mut self) -> Result<(), String> {
        let failed = |error: &FolderError| {
            let why = match error {
                FolderError::System { what, source, .. } => format!("cannot {what}: {source}"),
                FolderError::Mark(error) => failure_text(error),
                other => other.to_string(),
            };
            format!("the trace is not rotated, and recording goes on in the same part: {why}")
        };
        let stamp = TimeStamp::now().map_err(|error| format!("tell the time: {error}"))?.name;
        let first = match &self.present.folder {
            Some(_) => None,
            None => Some(self.make(1, &self.stamp).map_err(|error| failed(&error))?),
        };
        let last = first.as_ref().map_or(self.present.number, |first| first.number);
        let next = match self.make(last.saturating_add(1), &stamp) {
            Ok(next) => next,
            Err(error) => {
                let first = first.and_then(|first| first.folder);
                first.map(|folder| folder.remove_if_empty());
                return Err(failed(&error));
            }
        };
        let mut old = std::mem::replace(&mut self.present, next);
        old.number = last;
        self.leaving = Some(old);
        self.first = first.and_then(|first| first.folder);
        Ok(())
    }

    /// Starts a new chunk in the new folder `root` on disk, for traces that begin from now on.
    ///
    /// # Errors
    /// The chunk cannot be created; nothing is changed.
    pub(crate) fn begin_flushed(&mut self, root: TraceFolder) -> Result<(), String> {
        let stamp = TimeStamp::now().map_err(|error| format!("tell the time: {error}"))?.name;
        let root = root.made_by(self.mark.as_ref(), Made::Trace);
        let before = std::mem::replace(&mut self.root, root);
        let next = self.root.begin().and_then(|()| {
            let number = self.present.number.saturating_add(1);
            self.make(number, &stamp)
        });
        match next {
            Ok(next) => {
                self.leaving = Some(std::mem::replace(&mut self.present, next));
                self.left = Some(before);
                self.is_early = false;
                Ok(())
            }
            Err(error) => {
                std::mem::replace(&mut self.root, before).remove_if_empty();
                Err(format!("what is recorded stays in memory: {error}"))
            }
        }
    }

    /// Returns the folder in memory with the chunks to copy, and the destination on disk. All chunks before the
    /// present one are complete by then.
    pub(crate) fn take_left(&mut self) -> Option<(TraceFolder, Arc<OwnedFd>)> {
        self.left.take().map(|left| (left, self.root.place()))
    }

    /// Notes that all chunks of the folder in memory were copied to the present folder.
    pub(crate) fn flushed(&mut self, left: &TraceFolder) {
        self.flushed = Some((left.path().to_owned(), self.root.path().to_owned()));
        let kept = std::mem::take(&mut self.kept);
        self.kept = kept.into_iter().map(|chunk| self.moved_chunk(chunk)).collect();
    }

    fn moved_chunk(&self, chunk: SessionChunk) -> SessionChunk {
        let path = self.now(&chunk.path);
        match path.file_name().filter(|_| path != chunk.path) {
            None => chunk,
            Some(name) => {
                let folder = self.root.chunk_of_before(&name.to_string_lossy());
                SessionChunk { folder: chunk.folder.and(folder), path, ..chunk }
            }
        }
    }

    /// Completes the chunk before the present one. Returns `None` if there is none.
    ///
    /// # Errors
    /// What could not be completed.
    pub(crate) fn end_last(&mut self, ending: Ending) -> Result<Option<ChunkStatus>, String> {
        let Some(mut old) = self.leaving.take() else { return Ok(None) };
        let mut moved = Ok(());
        if let Some(first) = self.first.take() {
            moved = self.root.give_to(&first);
            old.path = first.path().to_owned();
            self.moved = Some(old.path.clone());
            old.folder = Some(first);
        }
        let Some(folder) = &old.folder else { return Ok(None) };
        if folder.remove_if_empty() {
            return Ok(None);
        }
        let marked = folder.end(&EndMark { ending, ..EndMark::default() });
        let status = old.status();
        self.kept.push_back(old);
        self.let_go();
        let path = status.folder.display();
        moved.map_err(|error| format!("its content cannot be moved to '{path}': {error}"))?;
        marked.map_err(|error| failure_text(&error))?;
        Ok(Some(status))
    }

    /// Closes the folders of chunks that are never removed, and forgets the oldest chunks.
    fn let_go(&mut self) {
        if self.bound().is_some() {
            return;
        }
        self.kept.iter_mut().for_each(|chunk| chunk.folder = None);
        while self.kept.len() > SHOWN {
            if let Some(chunk) = self.kept.pop_front() {
                self.leave(&chunk);
                self.older += 1;
            }
        }
    }

    /// Returns the limits on chunks; `None` if all are kept.
    fn bound(&self) -> Option<Retention> {
        let Retention { size, .. } = self.retention;
        let counts = [self.rotation.count, self.retention.most()].into_iter().flatten();
        // Each chunk that may be removed takes a file descriptor.
        let count = counts.chain(size.map(|_| ROTATE_COUNT_MAX)).min();
        count.map(|count| Retention { count: Some(count), size })
    }

    /// Forgets a chunk, and adds its counts to the sums of forgotten chunks.
    fn leave(&mut self, chunk: &SessionChunk) {
        let (records, bytes) = self.gone;
        let Counts { records: more_records, bytes: more_bytes, .. } = chunk.counts;
        self.gone = (records.saturating_add(more_records), bytes.saturating_add(more_bytes));
    }

    /// Returns the complete chunks that exceed the limits. The caller removes them and reports each with
    /// [`ChunksOutput::removed`].
    pub(crate) fn beyond(&mut self) -> Vec<SessionChunk> {
        let Some(bound) = self.bound() else { return Vec::new() };
        let is_sized = bound.size.is_some();
        let sizes = self.kept.iter_mut().rev().map(|chunk| match is_sized {
            true => chunk.disk_bytes(),
            false => 0,
        });
        let stay = bound.stay(sizes);
        let more = self.kept.len() - stay;
        self.kept.drain(..more).collect()
    }

    /// Takes the complete chunk of this number, to be removed.
    pub(crate) fn take(&mut self, number: u64) -> Option<SessionChunk> {
        let index = self.kept.iter().position(|chunk| chunk.number == number)?;
        let chunk = self.kept.remove(index)?;
        Some(self.opened(chunk))
    }

    /// Sets the conditions of rotation. Complete chunks that are still listed count to the number of chunks to keep.
    pub(crate) fn set_rotation(&mut self, rotation: Rotation) {
        self.rotation = rotation;
        if self.bound().is_some() {
            let kept = std::mem::take(&mut self.kept);
            self.kept = kept.into_iter().map(|chunk| self.opened(chunk)).collect();
        }
    }

    /// Opens the folder of a chunk again that was closed because nothing was to be removed.
    fn opened(&self, chunk: SessionChunk) -> SessionChunk {
        if chunk.folder.is_some() {
            return chunk;
        }
        let name = chunk.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let folder = name.and_then(|name| self.root.chunk_of_before(&name));
        SessionChunk { folder, ..chunk }
    }

    /// Forgets a chunk that was to be removed. Counts it as removed if `is_removed`.
    pub(crate) fn removed(&mut self, chunk: &SessionChunk, is_removed: bool) {
        self.leave(chunk);
        if !is_removed {
            return;
        }
        self.removed += 1;
        self.removed_unknown += u64::from(chunk.is_of_before);
        self.removed_records = self.removed_records.saturating_add(chunk.all().records);
    }

    /// Sets the error of the last rotation, or clears it.
    pub(crate) fn set_error(&mut self, error: Option<String>) {
        self.error = error;
    }

    /// Returns the status of the chunks; `None` if there was no rotation. `records` and `bytes` are the sums over all
    /// chunks.
    pub(crate) fn status(&self, records: u64, bytes: u64) -> Option<ChunksStatus> {
        if self.present.folder.is_none() && self.error.is_none() {
            return None;
        }
        let (records, bytes) = self.in_present(records, bytes);
        let mut last: Vec<ChunkStatus> =
            self.kept.iter().rev().take(SHOWN).map(SessionChunk::status).collect();
        last.reverse();
        Some(ChunksStatus {
            present: (!self.is_gone).then(|| ChunkStatus {
                records: Some(records),
                bytes: Some(bytes),
                ..self.present.status()
            }),
            complete: self.older.saturating_add(self.kept.len() as u64),
            last,
            removed: self.removed,
            removed_records: self.removed_records,
            removed_unknown: self.removed_unknown,
            error: self.error.clone(),
        })
    }

    /// Returns the number of records and bytes in the present chunk, given those of the whole recording.
    pub(crate) fn in_present(&self, records: u64, bytes: u64) -> (u64, u64) {
        let others = self.kept.iter().chain(&self.leaving);
        let (gone_records, gone_bytes) = others.fold(self.gone, |(records, bytes), chunk| {
            (records.saturating_add(chunk.counts.records), bytes.saturating_add(chunk.counts.bytes))
        });
        (records.saturating_sub(gone_records), bytes.saturating_sub(gone_bytes))
    }

    /// Returns the folder of the chunk that is being written.
    pub(crate) fn present(&self) -> PathBuf {
        absolute(&self.present.path)
    }

    /// Returns the folder that contains the chunks.
    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the present path of a trace that was written to the folder `path`.
    pub(crate) fn now(&self, path: &Path) -> PathBuf {
        if let Some((before, now)) = &self.flushed {
            if let Ok(below) = path.strip_prefix(before) {
                return now.join(below);
            }
        }
        let below = path.strip_prefix(self.root.path()).ok().and_then(|below| below.iter().next());
        let is_in_chunk = below.is_some_and(|name| chunk_number(&name.to_string_lossy()).is_some());
        match (&self.moved, path.strip_prefix(self.root.path())) {
            (Some(first), Ok(below)) if !is_in_chunk => first.join(below),
            _ => path.to_owned(),
        }
    }

    /// Writes to the end mark how the recording ended, and what is missing from its traces.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn end(&mut self, mark: &EndMark) -> Result<(), Error> {
        let nested = self.present.folder.as_ref();
        self.is_gone = nested.is_some_and(TraceFolder::remove_if_empty);
        match nested.filter(|_| !self.is_gone) {
            None => self.root.end(mark),
            Some(folder) => {
                folder.end(mark)?;
                // Losses are reported once, in the chunk.
                self.root.end(&EndMark { losses: Losses::default(), ..*mark })
            }
        }
    }

    /// Returns the remark on the folder; see [`TraceFolder::remark`].
    pub(crate) fn remark(&self) -> Option<String> {
        self.root.remark()
    }

    /// Removes the folder if this session created it and it is empty. Returns whether it was removed.
    pub(crate) fn remove_if_empty(&self) -> bool {
        if let Some(folder) = &self.present.folder {
            folder.remove_if_empty();
        }
        self.root.remove_if_empty()
    }

    /// Returns the chunk that contains `path`.
    fn of(&mut self, path: &Path) -> Option<&mut SessionChunk> {
        let others = self.leaving.iter_mut().chain(&mut self.kept);
        let mut all: Vec<&mut SessionChunk> =
            [&mut self.present].into_iter().chain(others).collect();
        // The root contains all other chunks and is tried last.
        let place =
            all.iter().position(|one| one.path != self.root.path() && path.starts_with(&one.path));
        let root = all.iter().position(|one| one.path == self.root.path());
        place.or(root).map(|place| all.swap_remove(place))
    }
}

impl Output for ChunksOutput {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        self.present.folder.as_mut().unwrap_or(&mut self.root).trace(layer, process)
    }

    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>) {
        match self.of(sink.path()) {
            Some(SessionChunk { folder: Some(folder), .. }) => folder.remove(layer, sink),
            _ => self.root.remove(layer, sink),
        }
    }

    fn is_present(&self, sink: &dyn Sink) -> bool {
        sink.path().starts_with(&self.present.path)
    }

    fn ended(&mut self, sink: &dyn Sink, counts: &Counts, besides: &Counts) {
        if let Some(chunk) = self.of(sink.path()) {
            chunk.counts.add(counts);
            chunk.besides.add(besides);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch_tests::{wait_until_unlocked, Scratch};
    use std::fs;

    const COUNT: Rotation = Rotation { size: None, time_ms: None, count: Some(2) };

    fn chunks(scratch: &Scratch, rotation: Rotation) -> ChunksOutput {
        let root = TraceFolder::create(&scratch.0.join("t")).unwrap();
        let mut chunks = ChunksOutput::new(root, "20260131-120000");
        chunks.begin((rotation, Retention::default()), None).unwrap();
        chunks
    }

    /// Writes a complete trace with `records` records. Returns its path.
    fn trace(chunks: &mut ChunksOutput, name: &str, records: u64) -> PathBuf {
        let sink = chunks.trace("user", Some((name.as_bytes(), 7))).unwrap();
        assert!(chunks.is_present(&*sink));
        chunks.ended(
            &*sink,
            &Counts { records, bytes: 10 * records, ..Counts::default() },
            &Counts::default(),
        );
        sink.path().to_owned()
    }

    fn next(chunks: &mut ChunksOutput) -> Option<ChunkStatus> {
        chunks.begin_next().unwrap();
        chunks.end_last(Ending::Ended).unwrap()
    }

    /// Removes the chunks that exceed the limits. Returns what was reported about the removals.
    fn remove(chunks: &mut ChunksOutput) -> Vec<String> {
        let mut said = Vec::new();
        for chunk in chunks.beyond() {
            let done = chunk.remove();
            chunks.removed(&chunk, done.is_ok());
            said.extend(done.err());
        }
        said
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn first_part_is_in_the_folder_itself_until_there_is_a_second_one() {
        let scratch = Scratch::new("parts-moved");
        let mut chunks = chunks(&scratch, Rotation::default());
        let root = scratch.0.join("t");
        assert_eq!(chunks.status(3, 30), None);
        let path = trace(&mut chunks, "a", 3);
        assert_eq!(path, root.join("user/a-7"));
        let first = next(&mut chunks).unwrap();
        assert_eq!((first.number, first.records, first.bytes), (1, Some(3), Some(30)));
        assert_eq!(first.folder, root.join("0001-20260131-120000"));
        assert_eq!(names(&first.folder), [".strata-end", "user"]);
        assert_eq!(chunks.now(&path), first.folder.join("user/a-7"));
        let second = trace(&mut chunks, "a", 5);
        assert_eq!(chunks.now(&second), second);
        assert!(second.starts_with(chunks.present()) && second.ends_with("user/a-7"));
        let status = chunks.status(8, 80).unwrap();
        let present = status.present.unwrap();
        assert_eq!((status.complete, present.number, present.records), (1, 2, Some(5)));
        assert_eq!(names(&root).len(), 3);
    }

    #[test]
    fn parts_that_are_too_many_are_removed_and_counted_and_an_empty_one_is_none() {
        let scratch = Scratch::new("parts-count");
        let mut chunks = chunks(&scratch, COUNT);
        for records in [1, 10, 100, 1000] {
            trace(&mut chunks, "a", records);
            assert!(next(&mut chunks).is_some());
            assert_eq!(remove(&mut chunks), [""; 0]);
        }
        assert_eq!(next(&mut chunks), None);
        trace(&mut chunks, "a", 9);
        let status = chunks.status(1120, 11_200).unwrap();
        assert_eq!((status.complete, status.removed, status.removed_records), (2, 2, 11));
        assert_eq!(status.present.unwrap().records, Some(9));
        let found: Vec<_> =
            names(chunks.path()).iter().filter_map(|name| chunk_number(name)).collect();
        assert_eq!(found, [3, 4, 6]);
    }

    #[test]
    fn part_whose_name_leads_elsewhere_is_left_and_what_it_leads_to_stays() {
        let scratch = Scratch::new("parts-hostile");
        let mut chunks = chunks(&scratch, COUNT);
        let victim = scratch.0.join("victim");
        fs::create_dir_all(victim.join("user/a-7")).unwrap();
        fs::write(victim.join("user/a-7/metadata"), "precious").unwrap();
        let mut folders = Vec::new();
        for _ in 0..2 {
            trace(&mut chunks, "a", 1);
            folders.push(next(&mut chunks).unwrap().folder);
        }
        // One is a link, the other another folder by now.
        let aside = scratch.0.join("aside");
        fs::rename(&folders[0], &aside).unwrap();
        std::os::unix::fs::symlink(&victim, &folders[0]).unwrap();
        fs::rename(&folders[1], scratch.0.join("other")).unwrap();
        fs::create_dir(&folders[1]).unwrap();
        fs::write(folders[1].join("metadata"), "precious").unwrap();
        for _ in 0..2 {
            trace(&mut chunks, "a", 1);
            assert!(next(&mut chunks).is_some());
            let said = remove(&mut chunks);
            assert!(said.len() == 1 && said[0].contains("leads to something else"), "{said:?}");
        }
        assert_eq!(fs::read(victim.join("user/a-7/metadata")).unwrap(), b"precious");
        assert_eq!(fs::read(folders[1].join("metadata")).unwrap(), b"precious");
        assert_eq!(names(&aside), [".strata-end", "user"]);
        assert_eq!(chunks.status(4, 40).unwrap().removed, 0);
        // In a part of ours is a link: nobody goes where it leads.
        trace(&mut chunks, "a", 1);
        let third = chunks.kept[0].path.clone();
        std::os::unix::fs::symlink(&victim, third.join("user/link")).unwrap();
        assert!(next(&mut chunks).is_some());
        let said = remove(&mut chunks);
        assert!(said.len() == 1 && said[0].contains("cannot be removed"), "{said:?}");
        assert!(victim.join("user/a-7/metadata").exists());
    }

    #[test]
    fn part_that_cannot_be_made_changes_nothing() {
        let scratch = Scratch::new("parts-full");
        let mut chunks = chunks(&scratch, Rotation::default());
        trace(&mut chunks, "a", 1);
        // Where it was nobody can make anything any more.
        fs::remove_dir_all(scratch.0.join("t")).unwrap();
        let why = chunks.begin_next().unwrap_err();
        assert!(why.contains("goes on in the same part"), "{why}");
        assert_eq!(
            (chunks.end_last(Ending::Ended), chunks.present()),
            (Ok(None), scratch.0.join("t"))
        );
    }

    #[test]
    fn session_that_was_killed_goes_on_behind_its_last_part() {
        let scratch = Scratch::new("parts-again");
        let path = scratch.0.join("t");
        let mut before = chunks(&scratch, COUNT);
        for _ in 0..2 {
            trace(&mut before, "a", 1);
            next(&mut before);
        }
        trace(&mut before, "a", 1);
        drop(before);
        wait_until_unlocked(&path);
        for name in names(&path).iter().filter(|name| chunk_number(name).is_some()) {
            wait_until_unlocked(&path.join(name));
        }
        fs::create_dir(path.join("0009-mine")).unwrap();
        let (root, names_before) = TraceFolder::go_on(&path).unwrap();
        assert_eq!(names_before.len(), 3);
        let mut chunks = ChunksOutput::new(root, "20260131-130000");
        chunks.begin((COUNT, Retention::default()), Some(&names_before)).unwrap();
        assert!(chunks.present().ends_with("0004-20260131-130000"), "{:?}", chunks.present());
        assert!(TraceFolder::go_on(&path).is_err());
        // What is too much goes when the session begins, and not with the next rotation.
        let status = chunks.status(0, 0).unwrap();
        assert_eq!((status.complete, status.removed, status.removed_unknown), (2, 1, 1));
        assert_eq!(remove(&mut chunks), [""; 0]);
        assert_eq!((status.last[0].number, status.last[0].records), (2, None));
        assert!(path.join("0009-mine").is_dir());
    }

    #[test]
    fn parts_stay_by_the_smallest_bound_that_was_given() {
        for (count, keep, size, left) in [
            (None, None, None, 5),
            (Some(4), Some(2), None, 2),
            (Some(2), Some(4), None, 2),
            (None, Some(0), None, 5),
            (None, None, Some(25_000), 2),
            (None, Some(4), Some(25_000), 2),
            (None, Some(1), Some(25_000), 1),
            (None, None, Some(1), 1),
        ] {
            let scratch = Scratch::new("parts-bounds");
            let root = TraceFolder::create(&scratch.0.join("t")).unwrap();
            let mut chunks = ChunksOutput::new(root, "20260131-120000");
            let rotation = Rotation { count, ..Rotation::default() };
            chunks.begin((rotation, Retention { count: keep, size }), None).unwrap();
            for _ in 0..5 {
                let folder = trace(&mut chunks, "a", 1);
                fs::write(folder.join("data"), [0; 10_000]).unwrap();
                next(&mut chunks);
                assert_eq!(remove(&mut chunks), [""; 0]);
            }
            let status = chunks.status(0, 0).unwrap();
            assert_eq!(status.complete, left, "{count:?} {keep:?} {size:?}");
        }
    }

    #[test]
    fn session_that_settles_has_all_its_parts_in_the_other_folder() {
        let scratch = Scratch::new("parts-settle");
        let held = scratch.0.join("held");
        let mut chunks =
            ChunksOutput::new(TraceFolder::create(&held).unwrap(), "20260131-120000").early();
        chunks.begin((Rotation::default(), Retention::default()), None).unwrap();
        let first = trace(&mut chunks, "a", 3);
        fs::write(first.join("metadata"), "precious").unwrap();
        assert!(next(&mut chunks).is_some() && chunks.is_early());
        trace(&mut chunks, "a", 4);
        let root = TraceFolder::settled_in(&scratch.0.join("disk"), "20260131-130000").unwrap();
        let disk = root.path().to_owned();
        chunks.begin_flushed(root).unwrap();
        assert!(!chunks.is_early());
        let third = trace(&mut chunks, "a", 5);
        let second = chunks.end_last(Ending::Ended).unwrap().unwrap();
        assert!(second.folder.starts_with(&held));
        let (left, to) = chunks.take_left().unwrap();
        left.give_parts_to(&to).unwrap();
        chunks.flushed(&left);
        assert!(!held.exists() && chunks.take_left().is_none());
        let moved = chunks.now(&first);
        assert!(
            moved.starts_with(&disk) && fs::read(moved.join("metadata")).unwrap() == b"precious"
        );
        assert_eq!(chunks.now(&third), third);
        assert!(third.starts_with(&disk));
        let status = chunks.status(12, 120).unwrap();
        let folders: Vec<_> = status.last.iter().map(|chunk| chunk.folder.is_dir()).collect();
        assert_eq!((status.complete, folders, chunks.path()), (2, vec![true; 2], &*disk));
        assert_eq!(names(&disk).iter().filter(|name| chunk_number(name).is_some()).count(), 3);
    }

    #[test]
    fn session_that_cannot_settle_stays_where_it_is() {
        let scratch = Scratch::new("parts-unsettled");
        let held = scratch.0.join("held");
        let mut chunks =
            ChunksOutput::new(TraceFolder::create(&held).unwrap(), "20260131-120000").early();
        chunks.begin((Rotation::default(), Retention::default()), None).unwrap();
        trace(&mut chunks, "a", 3);
        // Another one would decide what is in it.
        let open = scratch.0.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(matches!(TraceFolder::settled_in(&open, "x"), Err(FolderError::OpenToAll { .. })));
        // What there is by the time of the copy stays, and so does what is held.
        let root = TraceFolder::settled_in(&scratch.0.join("disk"), "20260131-130000").unwrap();
        let disk = root.path().to_owned();
        let first = chunks.present();
        chunks.begin_flushed(root).unwrap();
        chunks.end_last(Ending::Ended).unwrap();
        fs::create_dir(disk.join(first.file_name().unwrap())).unwrap();
        let (left, to) = chunks.take_left().unwrap();
        assert!(left.give_parts_to(&to).is_err());
        assert!(first.join("user/a-7").is_dir());
        // No link is followed.
        fs::remove_dir(disk.join(first.file_name().unwrap())).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", first.join("user/link")).unwrap();
        assert!(left.give_parts_to(&to).is_err());
        assert!(first.join("user/a-7").is_dir() && !disk.join(first.file_name().unwrap()).exists());
    }
}
