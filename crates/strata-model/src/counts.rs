//! What a recording has, and what it has not, in figures that add up: of a stream, a process, a layer, or all.

use std::time::Duration;

use crate::loss::Discarded;
use crate::times::{Demand, LossTimes};

/// What was recorded, of one producer or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Event records in the trace.
    pub records: u64,
    /// Packets in the trace.
    pub packets: u64,
    /// Their size \[byte\].
    pub bytes: u64,
    /// The size of the metadata that describe them \[byte\].
    pub metadata_bytes: u64,
    /// Time of the first and the last packet's ends, `CLOCK_MONOTONIC` \[ns\].
    pub span: Option<(u64, u64)>,
    /// Records that were never written.
    pub discarded: Discarded,
    /// When, as far as is known.
    pub times: LossTimes,
    /// What its buffers would have had to hold.
    pub demand: Demand,
    /// Records that were written, then reclaimed before they were read.
    pub overwritten: u64,
    /// How many of those discarded and overwritten the packets in the trace count.
    pub told: u64,
    /// Streams: CPUs that the producer could have run on.
    pub streams: u32,
    /// How many of them discarded records.
    pub streams_discarding: u32,
    /// Packets that were not well formed, and are not in the trace.
    pub damaged_packets: u64,
    /// Reserved by threads that were killed, or stood still, before they had written it \[byte\]; at most.
    pub unpublished_bytes: u64,
    /// Records of other threads behind that, which cannot be read.
    pub unread_records: u64,
}

impl Counts {
    /// Counts `other` too. Numbers come from processes, which may lie: they stop at their largest.
    pub fn add(&mut self, other: &Counts) {
        self.records = self.records.saturating_add(other.records);
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.metadata_bytes = self.metadata_bytes.saturating_add(other.metadata_bytes);
        self.span = match (self.span, other.span) {
            (Some((begin, end)), Some((first, last))) => Some((begin.min(first), end.max(last))),
            (one, another) => one.or(another),
        };
        self.discarded.add(&other.discarded);
        self.times.add(&other.times);
        self.demand = self.demand.or(other.demand);
        self.overwritten = self.overwritten.saturating_add(other.overwritten);
        self.told = self.told.saturating_add(other.told);
        self.streams = self.streams.saturating_add(other.streams);
        self.streams_discarding = self.streams_discarding.saturating_add(other.streams_discarding);
        self.damaged_packets = self.damaged_packets.saturating_add(other.damaged_packets);
        self.unpublished_bytes = self.unpublished_bytes.saturating_add(other.unpublished_bytes);
        self.unread_records = self.unread_records.saturating_add(other.unread_records);
    }

    /// From the first to the last packet's ends.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| {
            Duration::from_nanos(last.saturating_sub(first))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_processes_add_up_and_span_both() {
        let one = Counts {
            records: 1,
            packets: 2,
            bytes: 3,
            span: Some((10, 20)),
            discarded: Discarded { full: 1, unstaged: u64::MAX, ..Discarded::default() },
            streams: 2,
            ..Counts::default()
        };
        let other = Counts {
            span: Some((5, 12)),
            overwritten: 9,
            discarded: Discarded { full: 2, unstaged: 1, ..Discarded::default() },
            ..one
        };
        let mut sum = Counts::default();
        assert_eq!(sum.duration(), Duration::ZERO);
        sum.add(&one);
        sum.add(&other);
        assert_eq!((sum.records, sum.packets, sum.bytes, sum.streams), (2, 4, 6, 4));
        assert_eq!((sum.span, sum.duration()), (Some((5, 20)), Duration::from_nanos(15)));
        assert_eq!((sum.discarded.full, sum.discarded.unstaged), (3, u64::MAX));
        assert_eq!((sum.discarded.total(), sum.overwritten), (u64::MAX, 9));
    }
}
