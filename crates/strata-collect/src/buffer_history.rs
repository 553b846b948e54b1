//! Measures how far back the buffers of a flight recorder reach at the present rate.
//!
//! Each CPU has its own buffer, and the busiest CPU's buffer is overwritten soonest. So the time is that of the stream
//! whose records are replaced soonest: the records that it holds, or has room for, divided by those that are recorded
//! per second.

use std::time::{Duration, Instant};

use crate::stats::StreamStats;

/// The least time over which a rate is measured; a shorter one would be that of single packets.
const PERIOD: Duration = Duration::from_millis(500);

/// Measures how long a time the buffers of one source cover, from the rates of its streams.
#[derive(Debug)]
pub(crate) struct HistoryMeter {
    at: Instant,
    /// Number of records of each stream at the last measurement, by CPU.
    recorded: Vec<(u32, u64)>,
    reach: Option<Duration>,
}

impl HistoryMeter {
    pub(crate) fn new(now: Instant) -> HistoryMeter {
        HistoryMeter { at: now, recorded: Vec::new(), reach: None }
    }

    /// Returns the time that the buffers cover at the present rates; `None` if nothing is recorded at present.
    /// `capacity`: size of each buffer \[byte\].
    pub(crate) fn look(
        &mut self,
        now: Instant,
        streams: &[StreamStats],
        capacity: u64,
    ) -> Option<Duration> {
        let elapsed = now.saturating_duration_since(self.at);
        if elapsed < PERIOD {
            return self.reach;
        }
        let reach = |one: &StreamStats| {
            let before = self.recorded.iter().find(|(cpu, _)| *cpu == one.cpu);
            let new = recorded(one).saturating_sub(before.map_or(0, |(_, records)| *records));
            let seconds = elapsed.as_secs_f64() * held(one, capacity) / new as f64;
            (new > 0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        };
        self.reach = streams.iter().filter_map(reach).min();
        self.recorded = streams.iter().map(|one| (one.cpu, recorded(one))).collect();
        self.at = now;
        self.reach
    }
}

fn recorded(stream: &StreamStats) -> u64 {
    stream.records.saturating_add(stream.overwritten)
}

/// Returns how many records a stream holds, or would hold if its buffer was full.
fn held(stream: &StreamStats, capacity: u64) -> f64 {
    let is_full = stream.overwritten > 0;
    let records = stream.records as f64;
    match is_full || stream.bytes == 0 {
        true => records,
        false => records * (capacity as f64 / stream.bytes as f64).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(cpu: u32, records: u64, bytes: u64, overwritten: u64) -> StreamStats {
        StreamStats { cpu, records, bytes, overwritten, ..StreamStats::default() }
    }

    #[test]
    fn history_is_that_of_the_stream_that_forgets_first() {
        let begin = Instant::now();
        let mut meter = HistoryMeter::new(begin);
        let at = |ms| begin + Duration::from_millis(ms);
        // Within the first half second there is no rate.
        assert_eq!(meter.look(at(100), &[stream(0, 10, 160, 0)], 16_000), None);
        // CPU 0 holds 1,000 of which 500 come in a second; CPU 1 has room for 1,000, and 100 come.
        let both = [stream(0, 1000, 16_000, 0), stream(1, 100, 1600, 0)];
        assert_eq!(meter.look(at(1000), &both, 16_000), Some(Duration::from_secs(1)));
        let later = [stream(0, 1000, 16_000, 500), stream(1, 200, 3200, 0)];
        assert_eq!(meter.look(at(2000), &later, 16_000), Some(Duration::from_secs(2)));
        // It stands still: what was overwritten before says nothing of now.
        assert_eq!(meter.look(at(2100), &later, 16_000), Some(Duration::from_secs(2)));
        assert_eq!(meter.look(at(3000), &later, 16_000), None);
    }

    #[test]
    fn history_of_a_stream_that_is_not_full_counts_its_room() {
        let begin = Instant::now();
        let mut meter = HistoryMeter::new(begin);
        let now = begin + Duration::from_secs(1);
        let one = [stream(3, 100, 1600, 0)];
        assert_eq!(meter.look(now, &one, 160_000), Some(Duration::from_secs(100)));
        assert_eq!(HistoryMeter::new(begin).look(now, &[stream(3, 0, 0, 0)], 160_000), None);
    }
}
