//! Several traces, opened together.

use super::cursor::{Cursor, CursorBounds};
use super::damage::{Damage, DamageKind, NoteKey, OpenError};
use super::ended::FolderEnd;
use super::events::Events;
use super::files::StoredFiles;
use super::hop::PacketPlace;
use super::index::Index;
use super::open::{self, OpenOptions, OpenedTraces};
use super::slices::{Parts, Slice, Slices, StreamPart};
use super::stream::{Stream, Trace};
use super::time::TimeRange;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// All windows together have about so many bytes, and each at least and at most so many.
const WINDOWS: usize = 64 << 20;
const WINDOW: (usize, usize) = (4 << 10, 256 << 10);

/// One trace, or several that are shown as one.
///
/// Opening reads the metadata and the first packet's header of each file. All else is read when it is
/// asked for, so a trace of any size is open at once.
#[derive(Debug)]
pub struct Reader {
    traces: Vec<Arc<Trace>>,
    streams: Vec<Stream>,
    /// Indexes into `streams`; of messages of one time, that of the first is shown first.
    ranks: Vec<usize>,
    indexes: Vec<OnceLock<Index>>,
    /// In place of one that is not there: each stream has its own.
    no_index: OnceLock<Index>,
    files: StoredFiles,
    damage: Vec<Damage>,
    ends: Vec<FolderEnd>,
    classes: usize,
}

impl Reader {
    /// Opens the traces at each of the paths, or below it: see [`find`](super::find()).
    ///
    /// # Errors
    /// A path has no trace; or none of the traces has metadata that can be used. If one of several
    /// has none, that is in [`Reader::damage`].
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Reader, OpenError> {
        Reader::open_with(paths, OpenOptions::default())
    }

    /// The same, in another way.
    ///
    /// # Errors
    /// As of [`Reader::open`]; or an offset is for a trace that is not there.
    pub fn open_with<P: AsRef<Path>>(
        paths: &[P],
        options: OpenOptions,
    ) -> Result<Reader, OpenError> {
        let offsets = options.clock_offsets.clone();
        let OpenedTraces { traces, streams, ranks, files, damage, ends, classes } =
            open::open(paths.iter().map(AsRef::as_ref), options)?;
        for offset in offsets {
            let is_for = |trace: &Arc<Trace>| offset.is_for(trace.path(), trace.name());
            if !traces.iter().any(is_for) {
                let name = offset.trace.unwrap_or_default();
                return Err(OpenError::NoTraceOf { name });
            }
        }
        let indexes = streams.iter().map(|_| OnceLock::new()).collect();
        let no_index = OnceLock::new();
        Ok(Reader { traces, streams, ranks, indexes, no_index, files, damage, ends, classes })
    }

    /// From now on, of each trace only what is between the last of its streams' begins and the first of their
    /// ends; or why not, and nothing has changed.
    ///
    /// # Errors
    /// A trace's streams do not say when they begin and end, or there is no such time.
    pub fn intersect_streams(&mut self) -> Result<(), OpenError> {
        let mut common: Vec<Option<TimeRange>> = vec![None; self.traces.len()];
        for stream in &self.streams {
            let place = self.index(stream).end(&self.files, stream);
            // A file without packets is no part of the trace's time.
            if place.number == 0 {
                continue;
            }
            let path = || stream.trace.path().to_owned();
            let span = place.span().filter(|_| place.reach() != Some(i64::MAX));
            let span = span.ok_or_else(|| OpenError::NoTimes {
                path: path(),
                stream: stream.name().to_owned(),
            })?;
            let Some(slot) = common.get_mut(stream.trace.index()) else { continue };
            let both = slot.map_or(span, |so_far| so_far.and(&span));
            if both.from > both.to {
                return Err(OpenError::NoIntersection { path: path() });
            }
            *slot = Some(both);
        }
        for stream in &mut self.streams {
            let found = common.get(stream.trace.index()).copied().flatten();
            stream.active = found.unwrap_or(TimeRange::ALL);
        }
        Ok(())
    }

    /// All traces, sorted by path.
    #[must_use]
    pub fn traces(&self) -> &[Arc<Trace>] {
        &self.traces
    }

    /// The streams of all traces.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// What was found damaged when the traces were opened; what is found later is among the messages.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The stream that is damaged. `None`: it is of a whole trace, or of a file that is no stream.
    #[must_use]
    pub fn stream_of(&self, damage: &Damage) -> Option<&Stream> {
        let name = damage.stream.as_deref()?;
        let is_its = |stream: &&Stream| {
            stream.name() == name && stream.trace().path() == damage.trace.as_ref()
        };
        self.streams.iter().find(is_its)
    }

    /// How the recordings ended of those traces that have end marks, when they were opened.
    #[must_use]
    pub fn ends(&self) -> &[FolderEnd] {
        &self.ends
    }

    /// Index files that were passed over since the traces were opened: they are read for times only. All
    /// events are there.
    #[must_use]
    pub fn passed_over(&self) -> Vec<Damage> {
        let found = self.streams.iter().zip(&self.indexes).filter_map(|(stream, index)| {
            let error = index.get()?.unusable()?;
            let what = DamageKind::Index { error: error.into() };
            let (trace, stream) = (Arc::clone(&stream.trace.path), Some(Arc::clone(&stream.name)));
            Some(Damage { trace, stream, packet: None, offset: None, what })
        });
        let known: HashSet<NoteKey> = self.damage.iter().map(Damage::note_key).collect();
        found.filter(|found| !known.contains(&found.note_key())).collect()
    }

    /// How many event record classes all traces have:
    /// [`EventClass::index`](super::EventClass::index) is less than this.
    #[must_use]
    pub fn event_classes(&self) -> usize {
        self.classes
    }

    /// From the begin of the first packet to the end of the last one. `None`: they do not say.
    #[must_use]
    pub fn span(&self) -> Option<TimeRange> {
        let spans = self
            .streams
            .iter()
            .filter_map(|stream| self.index(stream).end(&self.files, stream).span());
        spans.reduce(|one, other| TimeRange {
            from: one.from.min(other.from),
            to: one.to.max(other.to),
        })
    }

    /// All messages of this time. Where packets say when they begin and end, nothing but the headers of
    /// those in front is read.
    ///
    /// Damage is reported from the first packet on that has part in the time. A stream is read up to the first
    /// message behind the time: where its times go back, which [`TimeRange::ALL`] reports as damage, what comes later
    /// in the file is not found.
    #[must_use]
    pub fn events(&self, range: TimeRange) -> Events<'_> {
        self.events_of_streams(range, &|_| true)
    }

    /// The same of some streams. Of the others nothing is read.
    #[must_use]
    pub fn events_of_streams(
        &self,
        range: TimeRange,
        is_wanted: &dyn Fn(&Stream) -> bool,
    ) -> Events<'_> {
        let bounds = CursorBounds { last: range.to, range, ..CursorBounds::ALL };
        let most = window(self.streams.len());
        let streams = self.ranks.iter().filter_map(|&index| self.streams.get(index));
        let streams = streams.filter(|stream| is_wanted(stream));
        let cursors = streams.map(|stream| {
            let place = self.place(stream, range.from);
            Cursor::new(&self.files, stream, place, bounds, most)
        });
        Events::new(cursors.collect())
    }

    /// The same messages in slices of about so many bytes, one behind the other, so that several threads
    /// can read. Where packets do not say when they begin and end, there is only one slice.
    #[must_use]
    pub fn slices(&self, range: TimeRange, bytes: u64) -> Slices<'_> {
        let starts = self.streams.iter().map(|stream| (stream, self.place(stream, range.from)));
        Slices::new(&self.files, starts, range, bytes)
    }

    /// The messages of a slice.
    #[must_use]
    pub fn events_of(&self, slice: &Slice) -> Events<'_> {
        let bounds = CursorBounds {
            first: slice.first,
            last: slice.last,
            range: slice.range,
            packet: u64::MAX,
        };
        let most = window(slice.places.len());
        let mut places: Vec<Option<&PacketPlace>> = vec![None; self.streams.len()];
        for (index, place) in &slice.places {
            if let Some(slot) = places.get_mut(*index) {
                *slot = Some(place);
            }
        }
        let cursors = self.ranks.iter().filter_map(|&index| {
            let (stream, place) = (self.streams.get(index)?, (*places.get(index)?)?);
            Some(Cursor::new(&self.files, stream, place.clone(), bounds, most))
        });
        Events::new(cursors.collect())
    }

    /// All packets, in parts of about so many bytes of one stream each: for what needs no order. A packet
    /// is never divided.
    #[must_use]
    pub fn parts(&self, bytes: u64) -> Parts<'_> {
        Parts::new(&self.files, &self.streams, bytes)
    }

    /// The messages of a part.
    ///
    /// Where neither packets nor records have whole timestamps, times are those since the part's begin.
    #[must_use]
    pub fn events_of_part(&self, part: &StreamPart) -> Events<'_> {
        let bounds = CursorBounds { packet: part.end, ..CursorBounds::ALL };
        let cursor = self
            .streams
            .get(part.stream)
            .map(|stream| Cursor::new(&self.files, stream, part.place.clone(), bounds, WINDOW.1));
        Events::new(cursor.into_iter().collect())
    }

    pub(crate) fn files(&self) -> &StoredFiles {
        &self.files
    }

    /// Where to begin for messages from this time on.
    fn place(&self, stream: &Stream, from: i64) -> PacketPlace {
        if from == i64::MIN {
            return PacketPlace::default();
        }
        self.index(stream).find(&self.files, stream, from)
    }

    fn index(&self, stream: &Stream) -> &Index {
        let slot = self.indexes.get(stream.index).unwrap_or(&self.no_index);
        slot.get_or_init(|| Index::new(&self.files, stream, self.streams.len()))
    }
}

/// The size of each of so many windows.
fn window(count: usize) -> usize {
    let share = WINDOWS / count.max(1);
    let power = share.checked_ilog2().map_or(0, |bits| 1 << bits);
    power.clamp(WINDOW.0, WINDOW.1)
}
