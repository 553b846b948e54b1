//! Counts of what is in traces, how it is spread over time, and what is missing.
//!
//! [`count()`] goes through all packets of a [`Reader`](strata_ctf::read::Reader) once, on a given number of
//! threads. It reads the headers of records and no other fields.
//!
//! ```text
//! packets of one stream ── packet_counter: records by class, gaps by sequence number and counters ─┐ on each worker
//!                                                         timeline: records in columns of time    ─┤
//!                          totals: streams ─▶ traces ─▶ all ◀──────────────────────────────────────┘ then added up
//!                          losses: when records or packets are missing
//! ```
//!
//! ```no_run
//! use strata_analyze::stats::{count, Options};
//! use strata_ctf::read::Reader;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reader = Reader::open(&["strata-trace"])?;
//! if let Some(stats) = count(&reader, &Options::default(), &|_| true) {
//!     for event in &stats.events {
//!         println!("{}: {} records", event.name, event.count.records);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `strata stats` prints it. A place that cannot be read is in [`Stats::damage`] and ends nothing: what is around
//! it is counted.

mod count;
mod losses;
mod packet_counter;
mod time_text;
mod timeline;
mod totals;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use strata_ctf::read::FolderEnd;
pub use strata_model::LossMode;

pub use count::{count, Options};
pub use losses::{Absent, AbsentKind, AbsentRange};
pub use time_text::{date_time, time_of_day};
pub use timeline::TimeColumns;

/// The most damaged places that are kept with a description. Further ones are only counted.
pub const DAMAGE_KEPT: usize = 10_000;
/// The most time ranges of losses that are kept, over all streams.
pub const RANGES_KEPT: usize = 100_000;

/// The counts of all traces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// The time from the begin of the first packet to the end of the last, within the requested time.
    pub span: Option<TraceSpan>,
    /// The traces, in the order in which they were found.
    pub traces: Vec<TraceStats>,
    /// The streams, in the order in which they were found. Those of one trace are neighbours.
    pub streams: Vec<StreamStats>,
    /// The counts of each name, over all traces; by falling number of records, then by name.
    pub events: Vec<EventStats>,
    /// The number of records over time; `None` if no record has a time.
    pub timeline: Option<TimeColumns>,
    /// The places of all traces that could not be read, at most [`DAMAGE_KEPT`].
    pub damage: Vec<Damaged>,
    /// The number of all damaged places.
    pub damage_found: u64,
    /// Inconsistencies around records that are all there, at most one for each stream.
    pub notes: Vec<Damaged>,
    /// How recordings ended, for those with end marks.
    pub ends: Vec<FolderEnd>,
}

/// A part of a trace's time \[ns since 1970\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSpan {
    /// The begin \[ns since 1970\].
    pub from: i64,
    /// The end, which is not earlier than the begin \[ns since 1970\].
    pub to: i64,
}

/// The number and sizes of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCount {
    /// The number of records.
    pub records: u64,
    /// The size of all records, with their headers \[byte\].
    pub bytes: u64,
    /// The size of the smallest record \[byte\]; 0 if there is none.
    pub smallest: u64,
    /// The size of the largest record \[byte\].
    pub largest: u64,
}

/// The records of one event, over all classes with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventStats {
    /// The name `provider:name`, as the metadata has it.
    pub name: String,
    /// The event's records, and their sizes.
    pub count: RecordCount,
}

/// A trace: of one process, or of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceStats {
    /// The trace's folder.
    pub path: PathBuf,
    pub host: Option<String>,
    /// The tracer with its version: `lttng-ust 2.13`, `strata 0.1.0`.
    pub tracer: Option<String>,
    /// The domain, `ust` or `kernel`.
    pub domain: Option<String>,
    /// The name of the process.
    pub process: Option<String>,
    /// The process' id in its own PID namespace.
    pub pid: Option<i64>,
    /// The loss mode; `None` if the trace does not say. With `Overwrite`, missing records may have been overwritten as
    /// well as discarded.
    pub loss_mode: Option<LossMode>,
    /// The greatest error of times compared with other machines \[ns\], for a guest that was recorded with its host.
    pub uncertainty_ns: Option<u64>,
    /// The sum of the trace's streams.
    pub sum: Sum,
    /// Events by falling number of records, then by name.
    pub events: Vec<EventStats>,
}

/// A stream of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// The index of the stream's trace in [`Stats::traces`].
    pub trace: usize,
    /// The names of the stream's files.
    pub name: String,
    /// The stream's number in its class.
    pub id: Option<u64>,
    /// The CPU, if all packets name the same one.
    pub cpu: Option<u64>,
    /// The counts of the stream.
    pub sum: Sum,
    /// The times in which records or packets are missing.
    pub absent: Absent,
    /// The longest time between two successive records.
    pub silence: Option<TraceSpan>,
}

/// The counts of a stream, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// The number of streams.
    pub streams: u64,
    /// The time from the begin of the first packet to the end of the last.
    pub span: Option<TraceSpan>,
    /// The number of packets of which all or a part is intact.
    pub packets: u64,
    /// The number and sizes of records.
    pub count: RecordCount,
    /// The size of the files \[byte\].
    pub bytes: u64,
    /// The size of packet headers and contexts \[byte\].
    pub header_bytes: u64,
    /// The size of the unused ends of packets \[byte\].
    pub padding_bytes: u64,
    /// The number of packets that count discarded records. For other packets, the number of discarded records is
    /// unknown.
    pub telling_packets: u64,
    /// The number of records that were discarded or overwritten.
    pub absent_records: u64,
    /// The number of discarded records that no packet counts, according to the end marks.
    pub untold_records: u64,
    /// The number of missing packets, according to the sequence numbers of the others.
    pub absent_packets: u64,
    /// The number of damaged places.
    pub damage: u64,
}

/// A place that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// The trace's folder.
    pub trace: PathBuf,
    /// The names of the stream's files; empty if the trace itself is damaged.
    pub stream: String,
    /// The packet's number in its stream, from 0.
    pub packet: Option<u64>,
    /// The offset in the file \[byte\].
    pub offset: Option<u64>,
    /// The complete description of the damage, as a sentence.
    pub message: String,
}

impl TraceSpan {
    /// Returns the length \[ns\].
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.to.abs_diff(self.from)
    }

    /// Returns the span from the earlier begin to the later end.
    #[must_use]
    pub fn with(self, other: TraceSpan) -> TraceSpan {
        TraceSpan { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

/// Returns the span of both, or the only one that there is.
fn joined(a: Option<TraceSpan>, b: Option<TraceSpan>) -> Option<TraceSpan> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.with(b)),
        (a, b) => a.or(b),
    }
}

impl RecordCount {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &RecordCount) {
        if other.records == 0 {
            return;
        }
        self.smallest =
            if self.records == 0 { other.smallest } else { self.smallest.min(other.smallest) };
        self.largest = self.largest.max(other.largest);
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Returns the mean size of a record \[byte\].
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.records == 0 {
            return 0.0;
        }
        self.bytes as f64 / self.records as f64
    }
}

impl Sum {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Sum) {
        self.span = joined(self.span, other.span);
        self.count.add(&other.count);
        for (sum, more) in [
            (&mut self.streams, other.streams),
            (&mut self.packets, other.packets),
            (&mut self.bytes, other.bytes),
            (&mut self.header_bytes, other.header_bytes),
            (&mut self.padding_bytes, other.padding_bytes),
            (&mut self.telling_packets, other.telling_packets),
            (&mut self.absent_records, other.absent_records),
            (&mut self.untold_records, other.untold_records),
            (&mut self.absent_packets, other.absent_packets),
            (&mut self.damage, other.damage),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the bytes that are not in records.
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.count.bytes)
    }
}

impl Stats {
    /// Returns the sum of all traces.
    #[must_use]
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        self.streams.iter().for_each(|stream| sum.add(&stream.sum));
        sum.damage = self.damage_found;
        let untold = self.ends.iter().map(|end| end.losses().total());
        sum.untold_records = untold.fold(0, u64::saturating_add);
        sum
    }

    /// Returns true if missing records of a trace may have been overwritten.
    #[must_use]
    pub fn may_be_overwritten(&self) -> bool {
        self.traces.iter().any(TraceStats::may_be_overwritten)
    }

    /// Returns true if every record that the tracer tried to write is there. If a trace should have an end mark, the
    /// mark must confirm it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let sum = self.sum();
        sum.absent_records == 0
            && sum.absent_packets == 0
            && self.ends.iter().all(FolderEnd::is_complete)
    }
}

impl TraceStats {
    /// Returns true if missing records may have been overwritten.
    #[must_use]
    pub fn may_be_overwritten(&self) -> bool {
        self.loss_mode == Some(LossMode::Overwrite) && self.sum.absent_records > 0
    }
}

/// Sorts events by falling number of records, then by name.
fn sort_events(events: &mut [EventStats]) {
    events.sort_by(|a, b| b.count.records.cmp(&a.count.records).then_with(|| a.name.cmp(&b.name)));
}

/// Returns the number of records per second over a span.
#[must_use]
pub fn rate(records: u64, span: Option<TraceSpan>) -> Option<f64> {
    let nanos = span.map(|span| span.nanos()).filter(|&nanos| nanos > 0)?;
    Some(records as f64 * 1e9 / nanos as f64)
}

#[cfg(test)]
mod sum_tests {
    use super::*;

    fn records(records: u64, bytes: u64, smallest: u64, largest: u64) -> RecordCount {
        RecordCount { records, bytes, smallest, largest }
    }

    #[test]
    fn records_added_to_none_are_themselves() {
        let mut sum = RecordCount::default();
        sum.add(&records(2, 30, 10, 20));
        assert_eq!(sum, records(2, 30, 10, 20));
        sum.add(&RecordCount::default());
        assert_eq!(sum, records(2, 30, 10, 20));
        sum.add(&records(1, 5, 5, 5));
        assert_eq!(sum, records(3, 35, 5, 20));
        assert!((sum.mean() - 35.0 / 3.0).abs() < 1e-9);
        assert_eq!(RecordCount::default().mean(), 0.0);
    }

    #[test]
    fn malicious_counts_stay_at_the_largest() {
        let mut sum = records(u64::MAX, u64::MAX, 1, 1);
        sum.add(&records(1, 1, 1, 1));
        assert_eq!(sum, records(u64::MAX, u64::MAX, 1, 1));
        let mut sum = Sum { bytes: u64::MAX, ..Sum::default() };
        sum.add(&Sum { bytes: 7, packets: 3, ..Sum::default() });
        assert_eq!((sum.bytes, sum.packets), (u64::MAX, 3));
    }

    #[test]
    fn span_of_all_time_has_a_length() {
        assert_eq!(TraceSpan { from: i64::MIN, to: i64::MAX }.nanos(), u64::MAX);
        let (a, b) = (TraceSpan { from: 1, to: 5 }, TraceSpan { from: -3, to: 2 });
        assert_eq!(joined(Some(a), Some(b)), Some(TraceSpan { from: -3, to: 5 }));
        assert_eq!(joined(None, Some(b)), Some(b));
        assert_eq!(joined(None, None), None);
    }

    #[test]
    fn rate_over_no_time_is_none() {
        assert_eq!(rate(5, None), None);
        assert_eq!(rate(5, Some(TraceSpan { from: 7, to: 7 })), None);
        assert_eq!(rate(5, Some(TraceSpan { from: 0, to: 500_000_000 })), Some(10.0));
    }

    #[test]
    fn stats_with_a_packet_that_is_not_there_is_not_complete() {
        let mut stats = Stats { streams: vec![StreamStats::default()], ..Stats::default() };
        assert!(stats.is_complete());
        stats.streams[0].sum.absent_packets = 1;
        assert!(!stats.is_complete());
        stats.streams[0].sum = Sum { absent_records: 1, ..Sum::default() };
        assert!(!stats.is_complete());
    }

    #[test]
    fn stats_of_a_recording_that_did_not_end_well_are_not_complete_and_count_what_is_unreported() {
        use strata_ctf::end_mark::{EndMark, Ending, Losses};
        use strata_ctf::read::RecordingEnd;
        let with = |end| {
            let end = FolderEnd { path: PathBuf::new().into(), trace: Some(0), end, missing: None };
            Stats { ends: vec![end.clone(), end], ..Stats::default() }
        };
        let marked = |ending, unwritten| {
            let losses = Losses { unwritten, ..Losses::default() };
            with(RecordingEnd::Marked(EndMark { ending, losses, ..EndMark::RECORDING }))
        };
        assert!(
            marked(Ending::Duration, 0).is_complete() && with(RecordingEnd::Running).is_complete()
        );
        assert!(!marked(Ending::Failed, 0).is_complete());
        let untold = marked(Ending::Ended, 7);
        assert_eq!((untold.is_complete(), untold.sum().untold_records), (false, 14));
        assert!(!with(RecordingEnd::Absent).is_complete());
        assert!(!with(RecordingEnd::Killed { is_sure: true, quota: 0 }).is_complete());
    }
}
