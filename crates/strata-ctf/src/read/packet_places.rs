//! The places of some of a stream's packets.

use super::files::StoredFiles;
use super::packet_skip::{PacketPlace, PacketSkipper};
use super::stream::{Packet, Stream};

/// Size of a window that is large enough for most heads of packets \[byte\].
pub(crate) const HEAD: usize = 1 << 10;

/// The places of some packets of a stream, at regular distances that keep their number within a limit.
#[derive(Debug)]
pub(crate) struct Places {
    places: Vec<PacketPlace>,
    /// The packets that the index expects at each place; empty if the packets were seen themselves.
    expected: Vec<Packet>,
    pub(crate) end: PacketPlace,
    limit: usize,
    /// Number of packets for each entry in `places`.
    step: u64,
    count: u64,
}

impl Places {
    pub(crate) fn new(limit: usize) -> Places {
        Places {
            places: Vec::new(),
            expected: Vec::new(),
            end: PacketPlace::default(),
            limit: limit.max(2),
            step: 1,
            count: 0,
        }
    }

    /// Adds the next packet, with the place before it.
    pub(crate) fn add(&mut self, place: &PacketPlace, expected: Option<&Packet>) {
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

    /// Sets the place after the last packet.
    pub(crate) fn end(mut self, end: PacketPlace) -> Places {
        self.end = end;
        self
    }

    /// Returns the places and the packets that the index expects there, as far as they were kept.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (&PacketPlace, &Packet)> {
        self.places.iter().zip(&self.expected)
    }

    /// Returns the last place after which all messages with this key or a later one follow, and the packet that is
    /// expected there.
    pub(crate) fn before(&self, key: i64) -> (PacketPlace, Option<&Packet>) {
        let count = self.places.partition_point(|place| place.is_before(key));
        let last = count.saturating_sub(1);
        (self.places.get(last).cloned().unwrap_or_default(), self.expected.get(last))
    }
}

/// Returns whether the packet at the place is the one that the index expects.
pub(crate) fn is_there(
    files: &StoredFiles,
    stream: &Stream,
    place: &PacketPlace,
    packet: &Packet,
) -> bool {
    let mut skipper = PacketSkipper::new(files, stream, place.clone(), HEAD);
    let found = skipper.next().map(|opened| Packet { cpu: None, ..opened.packet });
    found.as_ref() == Some(packet)
}

/// Removes every second element.
fn thin<T>(all: &mut Vec<T>) {
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}
