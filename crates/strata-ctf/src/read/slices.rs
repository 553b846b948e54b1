//! Divides traces into slices and parts that can be read independently of each other.

use super::files::StoredFiles;
use super::packet_places::HEAD;
use super::packet_skip::{OpenedPacket, PacketPlace, PacketSkipper};
use super::stream::Stream;
use super::time::TimeRange;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

/// The most packets that are kept over all streams (`KEPT`), and the least and the greatest limit for one stream.
const KEPT: usize = 64 << 10;
const KEPT_EACH: (usize, usize) = (16, 4096);

/// A time slice of all streams.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The first and the last key of the slice's messages.
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) range: TimeRange,
    /// Indexes of the streams that have messages in the slice, with the places at which to begin.
    pub(crate) places: Vec<(usize, PacketPlace)>,
    bytes: u64,
}

impl Slice {
    /// Returns about how many bytes are read for the slice.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether messages of this time range can be in the slice.
    #[must_use]
    pub fn meets(&self, range: &TimeRange) -> bool {
        self.first <= range.to && range.from <= self.last
    }
}

/// An iterator over the slices of traces. Each slice is determined when it is taken.
pub struct Slices<'r> {
    streams: Vec<StreamRow<'r>>,
    /// Key at which the next packet of each stream begins, with the stream's index.
    heads: BinaryHeap<Reverse<(i64, usize)>>,
    range: TimeRange,
    bytes: u64,
    first: i64,
    state: SliceState,
    /// The most packets that are kept of one stream.
    kept: usize,
}

#[derive(PartialEq)]
enum SliceState {
    First,
    More,
    End,
}

/// The packets of one stream around the begin of the next slice.
struct StreamRow<'r> {
    skipper: PacketSkipper<'r>,
    /// The next packet, and the place before it.
    next: Option<(PacketPlace, OpenedPacket)>,
    /// Earlier packets that have messages in later slices. If the stream has no packet in the range, the place of the
    /// items that are reported there.
    packets: VecDeque<KnownPackets>,
    start: PacketPlace,
}

/// One packet, or several consecutive ones.
struct KnownPackets {
    place: PacketPlace,
    /// The greatest key up to the packets' end.
    reach: i64,
    bytes: u64,
}

impl StreamRow<'_> {
    /// Keeps a packet for later slices, and at most `most` entries. No slice begins with a key up to `whole`.
    ///
    /// An entry may stand for several packets. A slice that needs only the last of them reads the others needlessly,
    /// but finds no messages in them, since their keys are too low.
    fn keep(&mut self, known: KnownPackets, whole: i64, most: usize) {
        if let Some(last) = self.packets.back_mut() {
            // No slice begins between the two, so that they can share an entry.
            if known.reach <= whole.max(last.reach) {
                last.add(&known);
                return;
            }
        }
        if self.packets.len() >= most {
            self.halve();
        }
        self.packets.push_back(known);
    }

    /// Returns the number of bytes of the stream's files that lie behind the packets that were read so far \[byte\].
    fn left(&self) -> u64 {
        let PacketPlace { file, offset, .. } = self.skipper.place;
        let files = self.skipper.stream.files.get(file..).unwrap_or(&[]);
        let bytes = files.iter().map(|&file| self.skipper.files.size(file));
        let begin = files.first().map_or(0, |&file| self.skipper.files.begin(file));
        bytes.fold(0, u64::saturating_add).saturating_sub(offset.saturating_sub(begin))
    }

    /// Halves the number of kept entries by joining neighbours.
    fn halve(&mut self) {
        let mut joined = VecDeque::with_capacity(self.packets.len());
        let mut packets = std::mem::take(&mut self.packets).into_iter();
        while let Some(mut known) = packets.next() {
            if let Some(next) = packets.next() {
                known.add(&next);
            }
            joined.push_back(known);
        }
        self.packets = joined;
    }
}

impl KnownPackets {
    fn add(&mut self, next: &KnownPackets) {
        self.reach = self.reach.max(next.reach);
        self.bytes = self.bytes.saturating_add(next.bytes);
    }
}

impl<'r> Slices<'r> {
    /// Makes the slices of streams, each with the place at which messages of the range begin.
    pub(crate) fn new(
        files: &'r StoredFiles,
        starts: impl ExactSizeIterator<Item = (&'r Stream, PacketPlace)>,
        range: TimeRange,
        bytes: u64,
    ) -> Slices<'r> {
        let count = starts.len();
        let (least, most) = KEPT_EACH;
        let mut slices = Slices {
            streams: Vec::with_capacity(count),
            heads: BinaryHeap::new(),
            range,
            bytes: bytes.max(1),
            first: i64::MIN,
            state: SliceState::First,
            kept: (KEPT / count.max(1)).clamp(least, most),
        };
        for (index, (stream, start)) in starts.enumerate() {
            let skipper = PacketSkipper::new(files, stream, start.clone(), HEAD);
            slices.streams.push(StreamRow { skipper, next: None, packets: VecDeque::new(), start });
            slices.look(index);
        }
        slices
    }

    /// Reads the header of the stream's next packet.
    fn look(&mut self, index: usize) {
        let Some(row) = self.streams.get_mut(index) else { return };
        let place = row.skipper.place.clone();
        let is_first = place.number == row.start.number;
        row.next = row.skipper.next().map(|opened| (place, opened));
        // Items before the first packet are not covered by the `reach` of an earlier packet.
        let to = self.range.to;
        let said = row.skipper.items.drain(..).map(|(key, _)| key);
        let said = said.filter(|&key| is_first && key <= to);
        let said = said.fold(None, |said: Option<(i64, i64)>, key| {
            let (first, last) = said.unwrap_or((key, key));
            Some((first.min(key), last.max(key)))
        });
        row.skipper.buffer.clear();
        match &row.next {
            Some((_, opened)) if opened.floor <= to => {
                let key = said.map_or(opened.floor, |(said, _)| said.min(opened.floor));
                self.heads.push(Reverse((key, index)));
            }
            _ => {
                row.next = None;
                // No packet is in the range, but the items are: a slice that begins before them gets their place.
                if let Some((_, reach)) = said {
                    row.packets.push_back(KnownPackets {
                        place: row.start.clone(),
                        reach,
                        bytes: 0,
                    });
                }
            }
        }
    }

    /// Returns the size of the kept packets that have messages from `key` on \[byte\].
    fn reaching(&self, key: i64) -> u64 {
        let packets = self.streams.iter().flat_map(|row| &row.packets);
        let reaching = packets.filter(|known| known.reach >= key).map(|known| known.bytes);
        reaching.fold(0, u64::saturating_add)
    }

    /// Takes packets in the order of their begins until they have enough bytes. Returns the slice's last key, and the
    /// size of the packets \[byte\].
    fn take(&mut self) -> (i64, u64) {
        let mut bytes = 0_u64;
        // No slice ends before this key.
        let mut whole = i64::MIN;
        let mut enough = self.bytes;
        while let Some(&Reverse((floor, index))) = self.heads.peek() {
            if bytes >= enough && floor > self.first && floor > whole {
                // Packets with messages on both sides are read for both slices: their size must not exceed that of one
                // slice.
                if self.reaching(floor) <= bytes {
                    return (floor - 1, bytes);
                }
                enough = bytes.saturating_add(bytes / 8 + 1);
            }
            self.heads.pop();
            if let Some(row) = self.streams.get_mut(index) {
                if let Some((place, opened)) = row.next.take() {
                    let size = opened.packet.packet_bits / 8;
                    bytes = bytes.saturating_add(size);
                    let reach = row.skipper.place.reach().unwrap_or(i64::MAX);
                    // A packet without an end time, or out of order, would have to be read again as a whole.
                    let behind = place.reach().is_some_and(|reach| reach > floor);
                    if reach == i64::MAX || behind {
                        whole = whole.max(reach);
                    }
                    row.keep(KnownPackets { place, reach, bytes: size }, whole, self.kept);
                }
            }
            if whole == i64::MAX {
                // The slice gets all remaining packets, whose headers need not be read.
                let left = self.streams.iter().map(StreamRow::left).fold(0, u64::saturating_add);
                return (i64::MAX, bytes.saturating_add(left));
            }
            self.look(index);
        }
        (i64::MAX, bytes)
    }
}

impl Iterator for Slices<'_> {
    type Item = Slice;

    fn next(&mut self) -> Option<Slice> {
        if self.state == SliceState::End {
            return None;
        }
        let carried = self.reaching(i64::MIN);
        let (last, bytes) = self.take();
        let is_first = self.state == SliceState::First;
        let mut places = Vec::new();
        for (index, row) in self.streams.iter_mut().enumerate() {
            let kept = row.packets.front().map(|known| &known.place);
            // The last slice also has packets that were not taken yet.
            let next = row.next.as_ref().map(|(place, _)| place).filter(|_| last == i64::MAX);
            match kept.or(next).cloned() {
                Some(place) if !is_first => places.push((index, place)),
                // The first slice reports the items before all packets.
                _ if is_first => places.push((index, row.start.clone())),
                _ => {}
            }
            while row.packets.front().is_some_and(|known| known.reach <= last) {
                row.packets.pop_front();
            }
        }
        let slice = Slice {
            first: self.first,
            last: last.min(self.range.to),
            range: self.range,
            places,
            bytes: carried.saturating_add(bytes),
        };
        self.state = if last == i64::MAX { SliceState::End } else { SliceState::More };
        self.first = last.saturating_add(1);
        Some(slice)
    }
}

impl fmt::Debug for Slices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Slices");
        out.field("first", &self.first).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Some consecutive packets of one stream.
#[derive(Clone, Debug)]
pub struct StreamPart {
    pub(crate) stream: usize,
    pub(crate) place: PacketPlace,
    /// Number of the first packet after the part.
    pub(crate) end: u64,
    bytes: u64,
}

impl StreamPart {
    /// Returns the stream's index in [`Reader::streams`](super::Reader::streams).
    #[must_use]
    pub fn stream(&self) -> usize {
        self.stream
    }

    /// Returns the size of the part's packets \[byte\].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// An iterator over the parts of traces, stream by stream.
pub struct Parts<'r> {
    files: &'r StoredFiles,
    streams: &'r [Stream],
    bytes: u64,
    stream: usize,
    skipper: Option<PacketSkipper<'r>>,
    /// The place after the last part, and the size of the first packet there, which the skipper has read already.
    begun: Option<(PacketPlace, u64)>,
}

impl<'r> Parts<'r> {
    pub(crate) fn new(files: &'r StoredFiles, streams: &'r [Stream], bytes: u64) -> Parts<'r> {
        Parts { files, streams, bytes: bytes.max(1), stream: 0, skipper: None, begun: None }
    }
}

impl Iterator for Parts<'_> {
    type Item = StreamPart;

    fn next(&mut self) -> Option<StreamPart> {
        let (files, stream) = (self.files, self.streams.get(self.stream)?);
        let skipper = self
            .skipper
            .get_or_insert_with(|| PacketSkipper::new(files, stream, PacketPlace::default(), HEAD));
        let (place, mut bytes) = self.begun.take().unwrap_or_default();
        loop {
            let before = skipper.place.clone();
            let next = skipper.next();
            skipper.items.clear();
            let Some(opened) = next else { break };
            let size = opened.packet.packet_bits / 8;
            // A packet that overlaps the previous one stays in the same part, so that records that go back are noticed.
            if bytes >= self.bytes && !opened.overlaps {
                let end = before.number;
                self.begun = Some((before, size));
                return Some(StreamPart { stream: self.stream, place, end, bytes });
            }
            bytes = bytes.saturating_add(size);
        }
        let part = StreamPart { stream: self.stream, place, end: u64::MAX, bytes };
        self.stream += 1;
        self.skipper = None;
        Some(part)
    }
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("stream", &self.stream).finish_non_exhaustive()
    }
}
