//! Files of rings that have wrapped: the newest packets come before the oldest ones.
//!
//! A ring in memory that is saved as it is, such as that of a flight recorder or of a machine without an operating
//! system, has its packets in the order of memory. Its file is read as two parts: from the oldest packet to the end,
//! then from the begin to that packet.

use super::damage::DamageKind;
use super::files::StoredFiles;
use super::packet_places::HEAD;
use super::packet_skip::{BetweenRecords, OpenedPacket, PacketPlace, PacketSkipper};
use super::stream::Stream;

/// The most bytes at the end of the file that are searched for the last packet.
const LAST: u64 = 1 << 20;

/// A packet with times and a sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberedPacket {
    /// Begin of the packet \[byte of the file\].
    pub(crate) offset: u64,
    /// Begin time of the packet \[cycle\].
    pub(crate) begin: u64,
    end: u64,
    sequence: u64,
    bytes: u64,
}

impl NumberedPacket {
    fn new(opened: &OpenedPacket) -> Option<NumberedPacket> {
        let packet = &opened.packet;
        let begin = packet.begin_cycles?;
        Some(NumberedPacket {
            offset: packet.offset,
            begin,
            end: packet.end_cycles.unwrap_or(begin),
            sequence: packet.sequence?,
            bytes: packet.packet_bits / 8,
        })
    }

    /// Returns whether the packet's sequence number and time come after those of another packet.
    fn follows(&self, other: &NumberedPacket, mask: u64) -> bool {
        let step = self.sequence.wrapping_sub(other.sequence) & mask;
        (1..=mask / 2).contains(&step) && other.end <= self.begin && self.begin <= self.end
    }
}

/// Finds the oldest packet of a stream's only file, if it is not the first one. All packets must be in order when they
/// are read from there to the end and then from the begin, and must have no other fault.
pub(crate) fn oldest(files: &StoredFiles, stream: &Stream) -> Option<NumberedPacket> {
    if !stream.has_sequence || stream.clock.is_none() {
        return None;
    }
    let mask = stream.sequence_mask;
    let mut skipper = PacketSkipper::new(files, stream, PacketPlace::default(), HEAD);
    let first = next(&mut skipper)?;
    // Most files begin with a stream's first packet, or end with a packet later than the first one.
    if (first.sequence == 0 && mask > u64::from(u32::MAX) / 2) || ends_later(files, stream, &first)
    {
        return None;
    }
    let (mut before, mut oldest) = (first, None);
    while skipper.file().is_some_and(|file| skipper.place.offset < files.bytes(file)) {
        let now = next(&mut skipper)?;
        if !now.follows(&before, mask) && oldest.replace(now).is_some() {
            return None;
        }
        before = now;
    }
    oldest.filter(|_| first.follows(&before, mask))
}

/// Returns the next packet, or `None` if it has any fault besides its place.
fn next(skipper: &mut PacketSkipper<'_>) -> Option<NumberedPacket> {
    let opened = skipper.next()?;
    let mut items = skipper.items.drain(..);
    let is_well = items.all(|(_, item)| match item {
        BetweenRecords::Damage(damage) => matches!(
            damage.what,
            DamageKind::SequenceBack { .. }
                | DamageKind::PacketOrder { .. }
                | DamageKind::DiscardedBack { .. }
        ),
        BetweenRecords::Packet | BetweenRecords::Discarded(_) => true,
    });
    drop(items);
    NumberedPacket::new(&opened).filter(|_| is_well && opened.truncated.is_none())
}

/// Returns whether a packet near the file's end follows the first one, so that the file has not wrapped.
fn ends_later(files: &StoredFiles, stream: &Stream, first: &NumberedPacket) -> bool {
    let mut skipper = PacketSkipper::new(files, stream, PacketPlace::default(), HEAD);
    let Some(file) = skipper.file() else { return false };
    let end = files.bytes(file);
    let from = end.saturating_sub(first.bytes.clamp(1, LAST));
    let Some(offset) = skipper.search(file, from, end).packet() else { return false };
    skipper.place.offset = offset;
    next(&mut skipper).is_some_and(|last| last.follows(first, stream.sequence_mask))
}
