//! Counts: what is in traces, how it is spread over time, and what is not there.
//!
//! [`count()`] goes through all packets of a [`Reader`](strata_ctf::read::Reader) once, on as many threads
//! as it is given, and looks at no field but what a record's header says.
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

mod absent;
mod count;
mod part;
mod tally;
mod timeline;
mod when;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use strata_ctf::read::FolderEnd;
pub use strata_model::LossMode;

pub use absent::{Absent, AbsentKind, AbsentRange};
pub use count::{count, Options};
pub use timeline::TimeColumns;
pub use when::{date_time, time_of_day};

/// Damage that is kept one by one; what is more is only counted.
pub const DAMAGE_KEPT: usize = 10_000;
/// Time ranges of what is absent that are kept, of all streams together.
pub const RANGES_KEPT: usize = 100_000;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// From the begin of the first packet to the end of the last, as far as that time was asked for.
    pub span: Option<TraceSpan>,
    /// In the order in which they were found.
    pub traces: Vec<TraceStats>,
    /// In the order in which they were found; those of a trace stand together.
    pub streams: Vec<StreamStats>,
    /// One for each name, of all traces together; by falling number of records, then by name.
    pub events: Vec<EventStats>,
    /// Records over time; `None`: no record has a time.
    pub timeline: Option<TimeColumns>,
    /// What could not be read, of all traces; [`DAMAGE_KEPT`] at most.
    pub damage: Vec<Damaged>,
    /// All of it.
    pub damage_found: u64,
    /// What does not fit around records that are all there; one for each stream at most.
    pub notes: Vec<Damaged>,
    /// How the recordings ended, of those that have end marks.
    pub ends: Vec<FolderEnd>,
}

/// A part of a trace's time \[ns since 1970\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSpan {
    /// Its begin.
    pub from: i64,
    /// Its end; not earlier.
    pub to: i64,
}

/// How many records, and how large they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCount {
    /// Event records.
    pub records: u64,
    /// All together, with their headers \[byte\].
    pub bytes: u64,
    /// The smallest \[byte\]; 0 if there is none.
    pub smallest: u64,
    /// The largest \[byte\].
    pub largest: u64,
}

/// The records of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventStats {
    /// `provider:name`, as the metadata has it.
    pub name: String,
    /// Its records, and their sizes.
    pub count: RecordCount,
}

/// One trace: of one process, or of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceStats {
    /// Its folder.
    pub path: PathBuf,
    /// The machine's name.
    pub host: Option<String>,
    /// What recorded it, with its version: `lttng-ust 2.13`, `strata 0.1.0`.
    pub tracer: Option<String>,
    /// What was recorded: `ust`, `kernel`.
    pub domain: Option<String>,
    /// The process' name.
    pub process: Option<String>,
    /// The process' id, as it sees itself.
    pub pid: Option<i64>,
    /// `None`: it does not say. Where it is `Overwrite`, absent records may have been overwritten as well
    /// as discarded.
    pub loss_mode: Option<LossMode>,
    /// How far off its times may be from those of other machines \[ns\], of a guest recorded with its host.
    pub uncertainty_ns: Option<u64>,
    /// What is in its streams, all together.
    pub sum: Sum,
    /// By falling number of records, then by name.
    pub events: Vec<EventStats>,
}

/// One stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// Index into [`Stats::traces`].
    pub trace: usize,
    /// Its files.
    pub name: String,
    /// Which stream of its class.
    pub id: Option<u64>,
    /// The CPU, if all of its packets name the same.
    pub cpu: Option<u64>,
    /// What is in it.
    pub sum: Sum,
    /// When records were discarded, and packets are not there.
    pub absent: Absent,
    /// The longest time between two of its records.
    pub silence: Option<TraceSpan>,
}

/// What is in a stream, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Streams.
    pub streams: u64,
    /// Its packets' time.
    pub span: Option<TraceSpan>,
    /// Intact packets, wholly or in part.
    pub packets: u64,
    /// Its records.
    pub count: RecordCount,
    /// Its files' size \[byte\].
    pub bytes: u64,
    /// Packet headers and contexts \[byte\].
    pub header_bytes: u64,
    /// Unused ends of packets \[byte\].
    pub padding_bytes: u64,
    /// Packets that count discarded records; of those of others nothing is known.
    pub telling_packets: u64,
    /// Records that the tracer could not write, or that were overwritten.
    pub absent_records: u64,
    /// Records that no packet counts, as the end marks say.
    pub untold_records: u64,
    /// Packets that are not there, as the sequence numbers of the others say.
    pub absent_packets: u64,
    /// Damage in it.
    pub damage: u64,
}

/// What could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// The trace's folder.
    pub trace: PathBuf,
    /// The stream's files; empty: it is the trace.
    pub stream: String,
    /// The packet's number in its stream, from 0.
    pub packet: Option<u64>,
    /// Where \[byte of the file\].
    pub offset: Option<u64>,
    /// All of that, and what it is, as a sentence.
    pub message: String,
}

impl TraceSpan {
    /// How long \[ns\].
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.to.abs_diff(self.from)
    }

    /// Both, and what is between.
    #[must_use]
    pub fn with(self, other: TraceSpan) -> TraceSpan {
        TraceSpan { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

/// Both, of which each may be there or not.
fn joined(a: Option<TraceSpan>, b: Option<TraceSpan>) -> Option<TraceSpan> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.with(b)),
        (a, b) => a.or(b),
    }
}

impl RecordCount {
    /// Add others.
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

    /// Bytes of a record, as a rule.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.records == 0 {
            return 0.0;
        }
        self.bytes as f64 / self.records as f64
    }
}

impl Sum {
    /// Add others.
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

    /// All that is no record \[byte\].
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.count.bytes)
    }
}

impl Stats {
    /// Everything in all traces.
    #[must_use]
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        self.streams.iter().for_each(|stream| sum.add(&stream.sum));
        sum.damage = self.damage_found;
        let untold = self.ends.iter().map(|end| end.losses().total());
        sum.untold_records = untold.fold(0, u64::saturating_add);
        sum
    }

    /// Whether some of the absent records may have been overwritten.
    #[must_use]
    pub fn may_be_overwritten(&self) -> bool {
        self.traces.iter().any(TraceStats::may_be_overwritten)
    }

    /// Is every record there that the tracer tried to write? Where a trace is to have an end mark, that must
    /// say it, too.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let sum = self.sum();
        sum.absent_records == 0
            && sum.absent_packets == 0
            && self.ends.iter().all(FolderEnd::is_complete)
    }
}

impl TraceStats {
    /// Whether some of its absent records may have been overwritten.
    #[must_use]
    pub fn may_be_overwritten(&self) -> bool {
        self.loss_mode == Some(LossMode::Overwrite) && self.sum.absent_records > 0
    }
}

/// By falling number of records, then by name.
fn sort_events(events: &mut [EventStats]) {
    events.sort_by(|a, b| b.count.records.cmp(&a.count.records).then_with(|| a.name.cmp(&b.name)));
}

/// Events per second over so long.
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
    fn stats_of_a_recording_that_did_not_end_well_are_not_complete_and_count_what_is_untold() {
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
        assert!(!with(RecordingEnd::Killed { is_sure: true }).is_complete());
    }
}
