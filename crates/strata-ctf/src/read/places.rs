//! Some of the places of a stream's packets.

use super::files::StoredFiles;
use super::hop::{Hop, PacketPlace};
use super::stream::{Packet, Stream};

/// Only a packet's head is read \[byte\].
pub(crate) const HEAD: usize = 1 << 10;

/// Some of the packets of a stream: as far from each other as there must be for all to be no more than
/// the limit.
#[derive(Debug)]
pub(crate) struct Places {
    places: Vec<PacketPlace>,
    /// What is expected at each of them; empty: they were seen.
    expected: Vec<Packet>,
    pub(crate) end: PacketPlace,
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
            end: PacketPlace::default(),
            limit: limit.max(2),
            step: 1,
            count: 0,
        }
    }

    /// The next packet, and the place in front of it.
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

    /// Behind the last packet.
    pub(crate) fn end(mut self, end: PacketPlace) -> Places {
        self.end = end;
        self
    }

    /// What was added, as far as it was kept.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (&PacketPlace, &Packet)> {
        self.places.iter().zip(&self.expected)
    }

    /// The last place behind which all messages are that have this key or a later one.
    pub(crate) fn before(&self, key: i64) -> (PacketPlace, Option<&Packet>) {
        let count = self.places.partition_point(|place| place.is_before(key));
        let last = count.saturating_sub(1);
        (self.places.get(last).cloned().unwrap_or_default(), self.expected.get(last))
    }
}

/// Whether the packet at the place is as it is expected.
pub(crate) fn is_there(
    files: &StoredFiles,
    stream: &Stream,
    place: &PacketPlace,
    packet: &Packet,
) -> bool {
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
