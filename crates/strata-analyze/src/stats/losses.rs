//! The losses of a stream: what is missing, and in which time.

use super::TraceSpan;

/// The unit of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentKind {
    /// Records that were discarded or overwritten, as the stream's packets count them.
    Records,
    /// Packets that are missing, as gaps in the packets' sequence numbers show.
    Packets,
}

/// A loss of records or packets in a range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentRange {
    pub kind: AbsentKind,
    /// The number of missing records or packets.
    pub count: u64,
    /// The time between the packets around the gap; `None` if they have no times.
    pub span: Option<TraceSpan>,
    /// The number of packets that report the loss. Losses that neighbouring packets report are one range.
    pub told: u64,
    /// True if the stream's first packet reported the loss, which may be from before the trace's begin.
    pub at_begin: bool,
}

/// All losses of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// The ranges, in the order of their packets.
    pub ranges: Vec<AbsentRange>,
    /// The number of ranges beyond the limit.
    pub more: u64,
}

impl Absent {
    /// Appends a range, or extends the last range of its kind if the new one continues it.
    pub(super) fn push(&mut self, range: AbsentRange, limit: usize) {
        let last = self.ranges.iter_mut().rev().take(2).find(|last| last.kind == range.kind);
        if let Some(last) = last.filter(|last| goes_on(last.span, range.span)) {
            last.count = last.count.saturating_add(range.count);
            last.told = last.told.saturating_add(range.told);
            last.span = super::joined(last.span, range.span);
            last.at_begin |= range.at_begin;
        } else if self.ranges.len() < limit {
            self.ranges.push(range);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Appends the losses of the stream's next packets.
    pub(super) fn append(&mut self, next: &Absent, limit: usize) {
        next.ranges.iter().for_each(|range| self.push(*range, limit));
        self.more = self.more.saturating_add(next.more);
    }
}

/// Returns true if the second range begins where the first ends.
fn goes_on(first: Option<TraceSpan>, second: Option<TraceSpan>) -> bool {
    match (first, second) {
        (Some(first), Some(second)) => second.from <= first.to && second.to >= first.from,
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(kind: AbsentKind, count: u64, from: i64, to: i64) -> AbsentRange {
        AbsentRange { kind, count, span: Some(TraceSpan { from, to }), told: 1, at_begin: false }
    }

    fn pushed(ranges: &[AbsentRange], limit: usize) -> Absent {
        let mut absent = Absent::default();
        ranges.iter().for_each(|range| absent.push(*range, limit));
        absent
    }

    #[test]
    fn loss_reported_by_neighbouring_packets_is_one_range() {
        use AbsentKind::Records;
        let absent = pushed(
            &[range(Records, 5, 10, 20), range(Records, 7, 20, 30), range(Records, 1, 40, 50)],
            9,
        );
        let first = AbsentRange { told: 2, ..range(Records, 12, 10, 30) };
        assert_eq!(absent.ranges, [first, range(Records, 1, 40, 50)]);
    }

    #[test]
    fn loss_of_packets_and_of_records_are_apart() {
        use AbsentKind::{Packets, Records};
        let absent = pushed(
            &[
                range(Records, 5, 10, 20),
                range(Packets, 1, 15, 20),
                range(Records, 6, 20, 30),
                range(Packets, 2, 25, 30),
            ],
            9,
        );
        let records = AbsentRange { told: 2, ..range(Records, 11, 10, 30) };
        assert_eq!(absent.ranges, [records, range(Packets, 1, 15, 20), range(Packets, 2, 25, 30)]);
    }

    #[test]
    fn loss_without_times_is_one_range() {
        let none = AbsentRange {
            kind: AbsentKind::Records,
            count: 2,
            span: None,
            told: 1,
            at_begin: false,
        };
        let absent = pushed(&[none, none], 9);
        assert_eq!(absent.ranges, [AbsentRange { count: 4, told: 2, ..none }]);
    }

    #[test]
    fn malicious_number_of_ranges_is_cut_and_counted() {
        let ranges: Vec<_> =
            (0..10).map(|at| range(AbsentKind::Records, 1, at * 10, at * 10 + 5)).collect();
        let mut absent = pushed(&ranges, 4);
        assert_eq!((absent.ranges.len(), absent.more), (4, 6));
        absent.append(&pushed(&[range(AbsentKind::Packets, 1, 1000, 1001)], 4), 4);
        assert_eq!((absent.ranges.len(), absent.more), (4, 7));
    }

    #[test]
    fn append_joins_over_the_border_of_two_parts() {
        let mut absent = pushed(&[range(AbsentKind::Records, 5, 10, 20)], 9);
        absent.append(&pushed(&[range(AbsentKind::Records, 6, 20, 25)], 9), 9);
        assert_eq!(absent.ranges.len(), 1);
        assert_eq!(absent.ranges[0].count, 11);
    }
}
