//! Counts that can be added up: those of a stream, a process, a layer, or the whole recording.

use std::time::Duration;

use crate::loss::Discarded;
use crate::times::{Demand, LossTimes};

/// Counts of one or several producers: what was recorded, discarded or overwritten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Event records in the trace.
    pub records: u64,
    /// Packets in the trace.
    pub packets: u64,
    /// Size of the records \[byte\].
    pub bytes: u64,
    /// Size of the metadata \[byte\].
    pub metadata_bytes: u64,
    /// The begin of the first packet and the end of the last one, `CLOCK_MONOTONIC` \[ns\].
    pub span: Option<(u64, u64)>,
    /// Records that were never written.
    pub discarded: Discarded,
    /// Times of the discarded records, as far as they are known.
    pub times: LossTimes,
    /// Buffer size that would have held all records.
    pub demand: Demand,
    /// Records that were written and then overwritten before they were read.
    pub overwritten: u64,
    /// Discarded and overwritten records that packets of the trace count.
    pub told: u64,
    /// Number of streams, one for each CPU on which the producer could have run.
    pub streams: u32,
    /// Number of streams that discarded records.
    pub streams_discarding: u32,
    /// Number of malformed packets, which are not in the trace.
    pub damaged_packets: u64,
    /// The greatest possible number of bytes that threads reserved and never committed, because they were
    /// killed or stopped \[byte\].
    pub unpublished_bytes: u64,
    /// Records that cannot be read, because they follow bytes that another thread reserved and never committed.
    pub unread_records: u64,
}

impl Counts {
    /// Adds `other`. Sums saturate, since the numbers come from processes and may be wrong.
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

    /// Returns the time from the first packet's begin to the last packet's end.
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
