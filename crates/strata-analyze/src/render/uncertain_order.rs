//! Finds records of different machines whose order is uncertain, because they are closer in time than the machines'
//! clocks agree. A guest's trace says how well its clock agrees with its host's (`clock_uncertainty`), and one of another host
//! how well it agrees with its relay's. The clocks of one machine always agree.

use std::sync::Arc;

use strata_ctf::read::{Event, Reader};
use strata_model::EnvValue;
use strata_timeline::Sources;

/// The accuracy of the times in traces of several machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// For each stream, its machine and the greatest error of its times \[ns\].
    streams: Vec<(u8, u64)>,
    machines: usize,
    uncertainty: u64,
}

impl Clocks {
    /// Reads the accuracy of clocks from these traces. Returns `None` if the order of all records is certain.
    #[must_use]
    pub fn of(reader: &Reader) -> Option<Arc<Clocks>> {
        let of =
            |schema: &strata_model::schema::Schema| match schema.environment("clock_uncertainty") {
                Some(&EnvValue::Integer(uncertainty)) => u64::try_from(uncertainty).unwrap_or(0),
                _ => 0,
            };
        let uncertainty = reader.traces().iter().map(|trace| of(trace.schema())).max()?;
        if uncertainty == 0 {
            return None;
        }
        let sources = Sources::new(reader);
        let machines =
            sources.streams.iter().map(|source| usize::from(source.machine) + 1).max()?;
        let streams = reader.streams().iter().zip(&sources.streams);
        let streams = streams.map(|(stream, source)| (source.machine, of(stream.trace().schema())));
        Some(Arc::new(Clocks { streams: streams.collect(), machines, uncertainty }))
    }

    /// Returns the greatest error of any clock \[ns\].
    #[must_use]
    pub fn uncertainty(&self) -> u64 {
        self.uncertainty
    }
}

/// Finds records whose order is uncertain. All records must be passed, in the order of time.
#[derive(Clone, Debug)]
pub(crate) struct TimeOrder {
    clocks: Arc<Clocks>,
    /// The time of each machine's last record, and the greatest error of that time \[ns\].
    last: Vec<Option<(i64, u64)>>,
    unsure: u64,
}

impl TimeOrder {
    pub(crate) fn new(clocks: &Arc<Clocks>) -> TimeOrder {
        TimeOrder { clocks: Arc::clone(clocks), last: vec![None; clocks.machines], unsure: 0 }
    }

    /// Returns true if a record may have been made before the preceding record of another machine.
    pub(crate) fn is_unsure(&mut self, event: &Event<'_>) -> bool {
        let Some(time) = event.time() else { return false };
        let Some(&(machine, own)) = self.clocks.streams.get(event.stream().index()) else {
            return false;
        };
        let is_near = |(at, other): (i64, u64)| time.abs_diff(at) <= own.saturating_add(other);
        let mut others = self.last.iter().enumerate().filter(|(at, _)| *at != usize::from(machine));
        let is_unsure = others.any(|(_, last)| last.is_some_and(is_near));
        if let Some(last) = self.last.get_mut(usize::from(machine)) {
            *last = Some((time, own));
        }
        self.unsure += u64::from(is_unsure);
        is_unsure
    }

    /// Returns the number of records of uncertain order since the last call.
    pub(crate) fn take_unsure(&mut self) -> u64 {
        std::mem::take(&mut self.unsure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand_tests::{metadata, Hand, Packets, Record};
    use crate::pipeline::{run, Job, PipelineOutput};
    use crate::render::{ClockStyle, Format, Options};
    use std::ops::ControlFlow;
    use strata_ctf::read::TimeRange;

    fn machines(names: [&str; 3]) -> Hand {
        let hand = Hand::new();
        let times: [&[u64]; 3] = [&[100, 210, 600, 5000], &[215, 400, 1000], &[1010, 4990]];
        for ((name, entries), times) in names
            .into_iter()
            .zip(["", "clock_uncertainty = 10;", "clock_uncertainty = 5;"])
            .zip(times)
        {
            let number = times.len();
            let text = metadata(&format!("hostname = \"{name}\"; {entries}"), "", &[("e", "")]);
            let records: Vec<Record<'_>> = times.iter().map(|time| (0, *time, &[][..])).collect();
            hand.trace(&format!("t{number}"), &text, &[Packets::new(0).packet(&records)]);
        }
        hand
    }

    fn shown(hand: &Hand, format: Format, threads: usize) -> (String, u64) {
        let reader = hand.reader();
        let clocks = Clocks::of(&reader);
        let clock = Some(ClockStyle::Cycles).filter(|_| format != Format::Short);
        let options = Options { format, clock, delta: false, clocks, ..Options::default() };
        let job = Job {
            reader: &reader,
            range: TimeRange::ALL,
            options,
            filter: None,
            mine: None,
            limit: u64::MAX,
            threads,
            stop: &|| false,
        };
        let mut text = Vec::new();
        let summary = run(&job, &mut |output| {
            if let PipelineOutput::Text(more) = output {
                text.extend_from_slice(more);
            }
            ControlFlow::Continue(())
        });
        (String::from_utf8(text).unwrap(), summary.unsure)
    }

    #[test]
    fn record_that_is_closer_to_another_machine_s_than_the_clocks_are_known_is_marked() {
        let hand = machines(["box", "one", "two"]);
        for (format, mark) in
            [(Format::Text, "] ~ "), (Format::Json, "\"order_unknown\":true"), (Format::Short, "~")]
        {
            let (text, unsure) = shown(&hand, format, 4);
            let marked: Vec<bool> = text.lines().map(|line| line.contains(mark)).collect();
            // 100, 210, 215, 400, 600, 1000, 1010 of another guest, 4990 and 5000 of the host and a guest: 10 apart.
            let expected = [false, false, true, false, false, false, true, false, false];
            assert_eq!((&marked[..], unsure), (&expected[..], 2), "{text}");
        }
    }

    #[test]
    fn nothing_is_marked_of_one_clock() {
        let hand = Hand::new();
        let text = metadata("hostname = \"box\";", "", &[("e", "")]);
        let packets = || [Packets::new(0).packet(&[(0, 5, &[])])];
        hand.trace("a", &text, &packets()).trace("b", &text, &packets());
        assert_eq!(Clocks::of(&hand.reader()), None);
        assert!(!shown(&hand, Format::Text, 1).0.contains('~'));
    }
}
