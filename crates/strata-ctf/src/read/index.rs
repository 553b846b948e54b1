//! Where a stream's packets are, so that one can begin at a time.

use super::files::StoredFiles;
use super::hop::{Hop, PacketPlace};
use super::lttng::{self, Unusable};
use super::places::{is_there, Places, HEAD};
use super::stream::Stream;
use std::sync::OnceLock;

/// A stream has at most so many places in its index; all streams together, so many.
const PLACES: usize = 65_536;
const ALL_PLACES: usize = 262_144;

/// Where packets begin, and where the last one ends.
#[derive(Debug)]
pub(crate) struct Index {
    /// From the tracer's index files, if there are any that can be believed.
    given: Option<Places>,
    /// Why they are not.
    unusable: OnceLock<Unusable>,
    /// From the packets themselves, if needed.
    found: OnceLock<Places>,
    limit: usize,
}

impl Index {
    /// `streams` share the memory.
    pub(crate) fn new(files: &StoredFiles, stream: &Stream, streams: usize) -> Index {
        let limit = (ALL_PLACES / streams.max(1)).clamp(16, PLACES);
        let (given, unusable) = match lttng::places(files, stream, Places::new(limit)) {
            Ok(given) => (given, OnceLock::new()),
            Err(error) => (None, OnceLock::from(error)),
        };
        Index { given, unusable, found: OnceLock::new(), limit }
    }

    /// Why the tracer's index was passed over.
    pub(crate) fn unusable(&self) -> Option<Unusable> {
        self.unusable.get().copied()
    }

    /// Behind the last packet.
    pub(crate) fn end(&self, files: &StoredFiles, stream: &Stream) -> &PacketPlace {
        match &self.given {
            Some(given) => &given.end,
            None => &self.found(files, stream).end,
        }
    }

    /// The place in front of the first packet that has messages of this key or a later one.
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

    /// Goes through all packets, once.
    fn found(&self, files: &StoredFiles, stream: &Stream) -> &Places {
        self.found.get_or_init(|| {
            let mut places = Places::new(self.limit);
            let mut hop = Hop::new(files, stream, PacketPlace::default(), HEAD);
            let mut place = PacketPlace::default();
            while hop.next().is_some() {
                hop.items.clear();
                places.add(&place, None);
                place = hop.place.clone();
            }
            places.end(hop.place)
        })
    }
}

/// Goes on from a place in front of the packet that is looked for.
fn walk(files: &StoredFiles, stream: &Stream, place: PacketPlace, key: i64) -> PacketPlace {
    let mut hop = Hop::new(files, stream, place, HEAD);
    loop {
        let place = hop.place.clone();
        if hop.next().is_none() || !hop.place.is_before(key) {
            return place;
        }
        hop.items.clear();
    }
}
