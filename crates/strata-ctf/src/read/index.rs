//! Where a stream's packets are, so that one can begin at a time.

use super::files::Files;
use super::hop::{Hop, Place};
use super::lttng::{self, Unusable};
use super::stream::{Packet, Stream};
use std::sync::OnceLock;

/// A stream has at most so many places in its index; all streams together, so many.
const PLACES: usize = 65_536;
const ALL_PLACES: usize = 262_144;

/// Only a packet's head is read \[byte\].
pub(crate) const HEAD: usize = 1 << 10;

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

/// Some of the packets of a stream: as far from each other as there must be for all to be no more than
/// the limit.
#[derive(Debug)]
pub(crate) struct Places {
    places: Vec<Place>,
    /// What is expected at each of them; empty: they were seen.
    expected: Vec<Packet>,
    end: Place,
    limit: usize,
    /// Of so many packets, one is in it.
    step: u64,
    count: u64,
}

impl Places {
    pub(crate) fn new(limit: usize) -> Places {
        Places {
            places: Vec::new(),
            expected: Vec::new(),
            end: Place::default(),
            limit: limit.max(2),
            step: 1,
            count: 0,
        }
    }

    /// The next packet, and the place in front of it.
    pub(crate) fn add(&mut self, place: &Place, expected: Option<&Packet>) {
        let turn = self.count % self.step == 0;
        self.count += 1;
        if !turn {
            return;
        }
        self.places.push(place.clone());
        self.expected.extend(expected.cloned());
        if self.places.len() > self.limit {
            thin(&mut self.places);
            thin(&mut self.expected);
            self.step = self.step.saturating_mul(2);
        }
    }

    /// Behind the last packet.
    pub(crate) fn end(mut self, end: Place) -> Places {
        self.end = end;
        self
    }

    /// What was added, as far as it was kept.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (&Place, &Packet)> {
        self.places.iter().zip(&self.expected)
    }

    /// The last place behind which all messages are that have this key or a later one.
    fn before(&self, key: i64) -> (Place, Option<&Packet>) {
        let count = self.places.partition_point(|place| place.is_before(key));
        let last = count.saturating_sub(1);
        (self.places.get(last).cloned().unwrap_or_default(), self.expected.get(last))
    }
}

impl Index {
    /// `streams` share the memory.
    pub(crate) fn new(files: &Files, stream: &Stream, streams: usize) -> Index {
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
    pub(crate) fn end(&self, files: &Files, stream: &Stream) -> &Place {
        match &self.given {
            Some(given) => &given.end,
            None => &self.found(files, stream).end,
        }
    }

    /// The place in front of the first packet that has messages of this key or a later one.
    pub(crate) fn find(&self, files: &Files, stream: &Stream, key: i64) -> Place {
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
    fn found(&self, files: &Files, stream: &Stream) -> &Places {
        self.found.get_or_init(|| {
            let mut places = Places::new(self.limit);
            let mut hop = Hop::new(files, stream, Place::default(), HEAD);
            let mut place = Place::default();
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
fn walk(files: &Files, stream: &Stream, place: Place, key: i64) -> Place {
    let mut hop = Hop::new(files, stream, place, HEAD);
    loop {
        let place = hop.place.clone();
        if hop.next().is_none() || !hop.place.is_before(key) {
            return place;
        }
        hop.items.clear();
    }
}

/// Whether the packet at the place is as it is expected.
pub(crate) fn is_there(files: &Files, stream: &Stream, place: &Place, packet: &Packet) -> bool {
    let mut hop = Hop::new(files, stream, place.clone(), HEAD);
    let found = hop.next().map(|opened| Packet { cpu: None, ..opened.packet });
    found.as_ref() == Some(packet)
}

/// Keeps every second one.
fn thin<T>(all: &mut Vec<T>) {
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}
