//! Several traces, opened together.

use super::completeness::FolderEnd;
use super::cursor::{Cursor, CursorBounds};
use super::damage::{Damage, DamageKind, NoteKey, OpenError};
use super::events::Events;
use super::files::StoredFiles;
use super::index::Index;
use super::open::{self, OpenOptions, OpenedTraces};
use super::packet_places::HEAD;
use super::packet_skip::{PacketPlace, PacketSkipper};
use super::slices::{Parts, Slice, Slices, StreamPart};
use super::stream::{Packet, Stream, Trace};
use super::time::TimeRange;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The approximate limit on the total size of all windows \[byte\].
const WINDOWS: usize = 64 << 20;
const WINDOW: (usize, usize) = (4 << 10, 256 << 10);

/// One trace, or several that are shown as one.
///
/// Opening reads the metadata and the first packet's header of each file. Everything else is read when it is needed, so
/// a trace of any size opens quickly.
#[derive(Debug)]
pub struct Reader {
    pub(super) traces: Vec<Arc<Trace>>,
    pub(super) streams: Vec<Stream>,
    /// Indexes into `streams`, in the order in which messages of the same time are shown.
    pub(super) ranks: Vec<usize>,
    pub(super) indexes: Vec<OnceLock<Index>>,
    /// An empty index that is returned for streams without an index of their own, which do not occur.
    no_index: OnceLock<Index>,
    pub(super) files: StoredFiles,
    damage: Vec<Damage>,
    ends: Vec<FolderEnd>,
    pub(super) classes: usize,
}

impl Reader {
    /// Opens the traces at or below each of the paths: see [`find`](super::find()).
    ///
    /// # Errors
    /// A path has no trace, or no trace has usable metadata. If only some of the traces are unusable,
    /// [`Reader::damage`] has the reasons.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Reader, OpenError> {
        Reader::open_with(paths, OpenOptions::default())
    }

    /// Opens traces with options.
    ///
    /// # Errors
    /// The errors of [`Reader::open`], or a clock offset for a trace that was not found.
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

    /// Restricts each trace to the time in which all of its streams recorded: from the last begin of a stream to the
    /// first end of a stream. On an error nothing changes.
    ///
    /// # Errors
    /// The packets of a stream have no times, or the streams of a trace do not overlap.
    pub fn intersect_streams(&mut self) -> Result<(), OpenError> {
        let mut common: Vec<Option<TimeRange>> = vec![None; self.traces.len()];
        for stream in &self.streams {
            let place = self.index(stream).end(&self.files, stream);
            // A file without packets does not limit the time.
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

    /// Returns all traces, sorted by path.
    #[must_use]
    pub fn traces(&self) -> &[Arc<Trace>] {
        &self.traces
    }

    /// Returns the streams of all traces.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the damage that was found when the traces were opened. Damage that is found later is among the messages.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Returns the stream that is damaged. `None` if the damage concerns a whole trace, or a file that is not a stream.
    #[must_use]
    pub fn stream_of(&self, damage: &Damage) -> Option<&Stream> {
        let name = damage.stream.as_deref()?;
        let is_its = |stream: &&Stream| {
            stream.name() == name && stream.trace().path() == damage.trace.as_ref()
        };
        self.streams.iter().find(is_its)
    }

    /// Returns how the recordings ended, for traces that had an end mark when they were opened.
    #[must_use]
    pub fn ends(&self) -> &[FolderEnd] {
        &self.ends
    }

    /// Returns the index files that were found to be unusable since the traces were opened. No event is missing because
    /// of them: indexes only help to find times.
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

    /// Returns the number of event record classes in all traces. Each [`EventClass::index`](super::EventClass::index)
    /// is less than this.
    #[must_use]
    pub fn event_classes(&self) -> usize {
        self.classes
    }

    /// Returns the time from the begin of the first packet to the end of the last one; `None` if packets have no times.
    #[must_use]
    pub fn span(&self) -> Option<TimeRange> {
        let spans = self.streams.iter().filter_map(|stream| self.span_of(stream));
        spans.reduce(|one, other| TimeRange {
            from: one.from.min(other.from),
            to: one.to.max(other.to),
        })
    }

    /// Returns the time from the begin of a stream's first packet to the end of its last one; `None` if packets have no times.
    #[must_use]
    pub fn span_of(&self, stream: &Stream) -> Option<TimeRange> {
        self.index(stream).end(&self.files, stream).span()
    }

    /// Passes the packets of a stream to `tell` until it breaks. Only the headers of packets are read.
    pub fn packets_of(&self, stream: &Stream, tell: &mut dyn FnMut(&Packet) -> ControlFlow<()>) {
        let mut skipper = PacketSkipper::new(&self.files, stream, PacketPlace::default(), HEAD);
        while let Some(opened) = skipper.next() {
            skipper.items.clear();
            if tell(&opened.packet).is_break() {
                return;
            }
        }
    }

    /// Returns all messages of a time range. If packets have begin and end times, only the headers of earlier packets
    /// are read.
    ///
    /// Damage is reported from the first packet that overlaps the range. A stream is read up to the first message after
    /// the range. If the times of a stream go back, which [`TimeRange::ALL`] reports as damage, messages later in the
    /// file are not found.
    #[must_use]
    pub fn events(&self, range: TimeRange) -> Events<'_> {
        self.events_of_streams(range, &|_| true)
    }

    /// Returns the messages of the streams for which `is_wanted` is true. Other streams are not read.
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

    /// Returns consecutive slices of the messages, of about `bytes` bytes each, which several threads can read. If
    /// packets have no begin and end times, there is only one slice.
    #[must_use]
    pub fn slices(&self, range: TimeRange, bytes: u64) -> Slices<'_> {
        let starts = self.streams.iter().map(|stream| (stream, self.place(stream, range.from)));
        Slices::new(&self.files, starts, range, bytes)
    }

    /// Returns the messages of a slice.
    #[must_use]
    pub fn events_of(&self, slice: &Slice) -> Events<'_> {
        self.events_of_slice_and_streams(slice, &|_| true)
    }

    /// Returns the messages of a slice in the streams for which `is_wanted` is true. Other streams are not read.
    #[must_use]
    pub fn events_of_slice_and_streams(
        &self,
        slice: &Slice,
        is_wanted: &dyn Fn(&Stream) -> bool,
    ) -> Events<'_> {
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
            if !is_wanted(stream) {
                return None;
            }
            Some(Cursor::new(&self.files, stream, place.clone(), bounds, most))
        });
        Events::new(cursors.collect())
    }

    /// Returns all packets in parts of about `bytes` bytes, each of a single stream, for work that needs no order. A
    /// packet is never divided.
    #[must_use]
    pub fn parts(&self, bytes: u64) -> Parts<'_> {
        Parts::new(&self.files, &self.streams, bytes)
    }

    /// Returns the messages of a part.
    ///
    /// If neither packets nor records have whole timestamps, times count from the part's begin.
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

    /// Returns the place of the packet at which to begin reading for messages from the time `from` on.
    pub(super) fn place(&self, stream: &Stream, from: i64) -> PacketPlace {
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

/// Returns the size of each of `count` windows \[byte\].
pub(super) fn window(count: usize) -> usize {
    let share = WINDOWS / count.max(1);
    let power = share.checked_ilog2().map_or(0, |bits| 1 << bits);
    power.clamp(WINDOW.0, WINDOW.1)
}
