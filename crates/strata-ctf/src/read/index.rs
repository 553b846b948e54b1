//! Index of a stream's packets, which finds the packet at which to begin reading for a time.

use super::files::StoredFiles;
use super::lttng::{self, Unusable};
use super::packet_places::{is_there, Places, HEAD};
use super::packet_skip::{PacketPlace, PacketSkipper};
use super::stream::Stream;
use std::sync::OnceLock;

/// The most places in the index of one stream (`PLACES`), and of all streams together (`ALL_PLACES`).
const PLACES: usize = 65_536;
const ALL_PLACES: usize = 262_144;

/// The places of a stream's packets, from index files or from the packets themselves.
#[derive(Debug)]
pub(crate) struct Index {
    /// Places from the tracer's index files, if they exist and are usable.
    given: Option<Places>,
    /// The reason for which the index files cannot be used.
    unusable: OnceLock<Unusable>,
    /// Places from the packets themselves, read when first needed.
    found: OnceLock<Places>,
    limit: usize,
}

impl Index {
    /// Makes the index of a stream. The limit on places is divided by the number of `streams`.
    pub(crate) fn new(files: &StoredFiles, stream: &Stream, streams: usize) -> Index {
        let limit = (ALL_PLACES / streams.max(1)).clamp(16, PLACES);
        let (given, unusable) = match lttng::places(files, stream, Places::new(limit)) {
            Ok(given) => (given, OnceLock::new()),
            Err(error) => (None, OnceLock::from(error)),
        };
        Index { given, unusable, found: OnceLock::new(), limit }
    }

    /// Returns the reason for which the tracer's index is not used.
    pub(crate) fn unusable(&self) -> Option<Unusable> {
        self.unusable.get().copied()
    }

    /// Returns the place after the last packet.
    pub(crate) fn end(&self, files: &StoredFiles, stream: &Stream) -> &PacketPlace {
        match &self.given {
            Some(given) => &given.end,
            None => &self.found(files, stream).end,
        }
    }

    /// Returns the place before the first packet that may have messages of this key or a later one.
    pub(crate) fn find(&self, files: &StoredFiles, stream: &Stream, key: i64) -> PacketPlace {
        if let Some(given) = &self.given {
            let (place, expected) = given.before(key);
            if expected.is_none_or(|packet| is_there(files, stream, &place, packet)) {
                return walk(files, stream, place, key);
            }
            let _ = self.unusable.set(lttng::OTHER);
        }
        let (place, _) = self.found(files, stream).before(key);
        walk(files, stream, place, key)
    }

    /// Returns places from the packets themselves. The first call reads the headers of all packets.
    fn found(&self, files: &StoredFiles, stream: &Stream) -> &Places {
        self.found.get_or_init(|| {
            let mut places = Places::new(self.limit);
            let mut skipper = PacketSkipper::new(files, stream, PacketPlace::default(), HEAD);
            let mut place = PacketPlace::default();
            while skipper.next().is_some() {
                skipper.items.clear();
                places.add(&place, None);
                place = skipper.place.clone();
            }
            places.end(skipper.place)
        })
    }
}

/// Moves from an earlier place to the packet that is searched.
fn walk(files: &StoredFiles, stream: &Stream, place: PacketPlace, key: i64) -> PacketPlace {
    let mut skipper = PacketSkipper::new(files, stream, place, HEAD);
    loop {
        let place = skipper.place.clone();
        if skipper.next().is_none() || !skipper.place.is_before(key) {
            return place;
        }
        skipper.items.clear();
    }
}
