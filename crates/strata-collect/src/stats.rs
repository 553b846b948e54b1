//! Counts of one stream's records.

use strata_model::{Counts, Demand, Discarded, LossMode, LossTimes, StreamLoss};
use strata_ring::{Channel, Counters};

/// The counts of a stream, or of several after [`StreamStats::add`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Number of the CPU.
    pub cpu: u32,
    /// Records in the file.
    pub records: u64,
    /// Packets in the file; each part of a packet counts as one.
    pub packets: u64,
    /// Packets in the file whose records nobody could count; not in `records`. 0 where the collector
    /// knows the event record classes ([`crate::Collector::set_classes`]).
    pub uncounted_packets: u64,
    /// The file's size \[byte\].
    pub bytes: u64,
    /// Records that were never written.
    pub discarded: Discarded,
    /// Time ranges of the discards, as far as packets show them.
    pub times: LossTimes,
    /// Buffer size that would have held all records.
    pub demand: Demand,
    /// Records that were written, then overwritten before they were read.
    pub overwritten: u64,
    /// Discarded and overwritten records that the stream's packets account for.
    pub told: u64,
    /// Packets that were overwritten together with their records.
    pub overwritten_packets: u64,
    /// Bytes that threads reserved and never committed, as a rule because they were killed. With them, records of other
    /// threads later in the same sub-buffer cannot be read \[byte\]. An upper bound: it includes the padding of a full
    /// sub-buffer.
    pub unpublished_bytes: u64,
    /// Records of other threads after uncommitted bytes, which cannot be read because their begin is unknown. The
    /// number is a claim of the producer, and known after [`crate::Collector::finish`].
    pub unread_records: u64,
    /// Packets whose description was wrong; they were skipped or corrected.
    pub damaged: u64,
    /// Description of the first wrong packet.
    pub damage: Option<String>,
    /// Begin of the first packet with records \[ns\].
    pub first_timestamp: Option<u64>,
    /// End of the last packet with records \[ns\].
    pub last_timestamp: Option<u64>,
}

impl StreamStats {
    /// Adds the counts of another stream; `cpu` stays.
    pub fn add(&mut self, other: &StreamStats) {
        for (sum, one) in [
            (&mut self.records, other.records),
            (&mut self.packets, other.packets),
            (&mut self.uncounted_packets, other.uncounted_packets),
            (&mut self.bytes, other.bytes),
            (&mut self.overwritten, other.overwritten),
            (&mut self.told, other.told),
            (&mut self.overwritten_packets, other.overwritten_packets),
            (&mut self.unpublished_bytes, other.unpublished_bytes),
            (&mut self.unread_records, other.unread_records),
            (&mut self.damaged, other.damaged),
        ] {
            *sum = sum.saturating_add(one);
        }
        self.discarded.add(&other.discarded);
        self.times.add(&other.times);
        self.demand = self.demand.or(other.demand);
        if self.damage.is_none() {
            self.damage.clone_from(&other.damage);
        }
        self.first_timestamp = match (self.first_timestamp, other.first_timestamp) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.last_timestamp = self.last_timestamp.max(other.last_timestamp);
    }

    /// Returns the discards of the stream.
    #[must_use]
    pub fn loss(&self) -> StreamLoss {
        StreamLoss { cpu: self.cpu, discarded: self.discarded, times: self.times }
    }
}

/// Converts the producer's counters of discarded records.
pub(crate) fn discarded_of(counters: &Counters) -> Discarded {
    Discarded {
        full: counters.discarded_full,
        too_big: counters.discarded_too_big,
        nested: counters.discarded_nested,
        no_stream: counters.discarded_no_stream,
        ..Discarded::default()
    }
}

/// Returns the sum of the counts of a channel with `streams` streams.
#[must_use]
pub fn counts_of(stats: &[StreamStats], streams: u32) -> Counts {
    let mut sum = StreamStats::default();
    stats.iter().for_each(|one| sum.add(one));
    let discarding = stats.iter().filter(|one| one.discarded.total() > 0).count();
    Counts {
        records: sum.records,
        packets: sum.packets,
        bytes: sum.bytes,
        metadata_bytes: 0,
        span: sum.first_timestamp.zip(sum.last_timestamp),
        discarded: sum.discarded,
        times: sum.times,
        demand: sum.demand,
        overwritten: sum.overwritten,
        told: sum.told,
        streams,
        streams_discarding: u32::try_from(discarding).unwrap_or(u32::MAX),
        damaged_packets: sum.damaged,
        unpublished_bytes: sum.unpublished_bytes,
        unread_records: sum.unread_records,
    }
}

/// Returns the counts of what the streams of a flight recorder's channel hold. Discards are dated between the last
/// look, whose result was `before`, and this one \[ns\].
pub(crate) fn held_of(
    channel: &mut Channel,
    before: &[StreamStats],
    looks: (u64, u64),
) -> Vec<StreamStats> {
    let overwrites = channel.loss_mode() == LossMode::Overwrite;
    let mut all = Vec::new();
    for cpu in 0..channel.nr_streams() {
        let Ok(stream) = channel.stream(cpu) else { continue };
        let of = stream.counters();
        let mut stats = StreamStats {
            cpu,
            records: of.written.saturating_sub(of.overwritten_records),
            bytes: stream.backlog(),
            discarded: discarded_of(&of),
            overwritten: if overwrites { of.overwritten_records } else { 0 },
            ..StreamStats::default()
        };
        let before = before.iter().find(|one| one.cpu == cpu);
        let (times, discarded) = before.map(|one| (one.times, one.discarded)).unwrap_or_default();
        stats.times = times;
        stats.times.grow(&discarded, &stats.discarded, looks);
        if stats != (StreamStats { cpu, ..StreamStats::default() }) {
            all.push(stats);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_streams_add_up_and_count_those_that_discard() {
        let mut one = StreamStats { cpu: 0, records: 5, packets: 2, ..StreamStats::default() };
        one.first_timestamp = Some(10);
        one.last_timestamp = Some(30);
        let mut other = StreamStats { cpu: 1, damaged: 1, overwritten: 4, ..one.clone() };
        other.discarded.full = 7;
        other.first_timestamp = Some(3);
        other.unpublished_bytes = 24;
        other.unread_records = 1;
        let counts = counts_of(&[one, other], 8);
        assert_eq!((counts.unpublished_bytes, counts.unread_records), (24, 1));
        assert_eq!((counts.records, counts.packets, counts.span), (10, 4, Some((3, 30))));
        assert_eq!((counts.streams, counts.streams_discarding, counts.damaged_packets), (8, 1, 1));
        assert_eq!((counts.discarded.full, counts.overwritten), (7, 4));
        assert_eq!(counts_of(&[], 2).span, None);
    }
}
