//! On which clock the exported times are.
//!
//! Where all traces count one machine's CLOCK_MONOTONIC, the export has its nanoseconds, and a clock
//! snapshot says what time of day that is. Where they do not, it has nanoseconds since 1970.
//!
//! Readers take the times of scheduling events for CLOCK_BOOTTIME, whatever else the trace says. How long
//! the machine was suspended is in no CTF trace; the snapshot says: not at all. So all times are on one
//! line, and what is shown as CLOCK_BOOTTIME is the trace's clock.

use strata_model::schema::{Schema, StreamClass};
use strata_model::ClockClass;

use super::proto::{ClockSnapshot, SnapshotClock, CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME};

const SECOND: i128 = 1_000_000_000;
/// Tracers read both clocks at their start, one after the other: so far apart are the offsets of one
/// machine's traces at most, as long as nobody sets the time of day.
const SAME_OFFSET_NS: i128 = SECOND;

/// The clock of the exported times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timebase {
    /// CLOCK_MONOTONIC; its 0 is so many ns after 1970. None: nobody knows.
    Monotonic(Option<i64>),
    /// ns since 1970.
    Realtime,
}

impl Timebase {
    /// Of all traces together.
    pub(super) fn new<'s>(schemas: impl Iterator<Item = &'s Schema>) -> Timebase {
        let mut first: Option<&ClockClass> = None;
        for clock in schemas.flat_map(clocks) {
            if clock.name != "monotonic" || i128::from(clock.frequency) != SECOND {
                return Timebase::Realtime;
            }
            let known = *first.get_or_insert(clock);
            if known.uuid != clock.uuid || (offset(known) - offset(clock)).abs() > SAME_OFFSET_NS {
                return Timebase::Realtime;
            }
        }
        match first.map(|clock| i64::try_from(offset(clock))) {
            Some(Ok(0)) => Timebase::Monotonic(None),
            Some(Ok(offset)) => Timebase::Monotonic(Some(offset)),
            _ => Timebase::Realtime,
        }
    }

    /// An exported time of one in ns since 1970. Nothing is before 0, nor after what 63 bits hold.
    pub(super) fn time(self, ns: i64) -> u64 {
        let offset = match self {
            Timebase::Monotonic(offset) => offset.unwrap_or(0),
            Timebase::Realtime => 0,
        };
        u64::try_from(ns.saturating_sub(offset)).unwrap_or(0)
    }

    /// The clock's number.
    pub(super) fn clock_id(self) -> u32 {
        match self {
            Timebase::Monotonic(_) => CLOCK_MONOTONIC,
            Timebase::Realtime => CLOCK_REALTIME,
        }
    }

    /// All clocks at one exported time.
    pub(super) fn snapshot(self, time: u64) -> ClockSnapshot {
        let clock = |id, time| SnapshotClock { clock_id: Some(id), timestamp: Some(time) };
        let mut clocks = vec![clock(CLOCK_BOOTTIME, time)];
        match self {
            Timebase::Monotonic(offset) => {
                clocks.push(clock(CLOCK_MONOTONIC, time));
                let realtime = offset.and_then(|offset| time.checked_add_signed(offset));
                clocks.extend(realtime.map(|realtime| clock(CLOCK_REALTIME, realtime)));
            }
            Timebase::Realtime => clocks.push(clock(CLOCK_REALTIME, time)),
        }
        ClockSnapshot { clocks, primary_trace_clock: Some(self.clock_id()) }
    }
}

/// The clocks that streams count.
fn clocks(schema: &Schema) -> impl Iterator<Item = &ClockClass> {
    let of = |stream: &StreamClass| stream.clock.and_then(|index| schema.clocks.get(index));
    schema.streams.iter().filter_map(of)
}

/// Of its 0 \[ns since 1970\].
fn offset(clock: &ClockClass) -> i128 {
    let frequency = i128::from(clock.frequency.max(1));
    i128::from(clock.offset_s) * SECOND + i128::from(clock.offset_cycles) * SECOND / frequency
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::Uuid;

    const OFFSET: i64 = 1_700_000_000_123_456_789;

    fn schema(clock: ClockClass) -> Schema {
        let stream = StreamClass { clock: Some(0), ..StreamClass::default() };
        Schema { clocks: vec![clock], streams: vec![stream], ..Schema::default() }
    }

    fn monotonic(offset: i64) -> Schema {
        schema(ClockClass::monotonic(Some(Uuid([1; 16])), offset))
    }

    fn timebase(schemas: &[Schema]) -> Timebase {
        Timebase::new(schemas.iter())
    }

    fn clock(snapshot: &ClockSnapshot, id: u32) -> Option<u64> {
        snapshot.clocks.iter().find(|clock| clock.clock_id == Some(id))?.timestamp
    }

    #[test]
    fn timebase_of_one_machine_is_monotonic() {
        let base = timebase(&[monotonic(OFFSET), monotonic(OFFSET + 900)]);
        assert_eq!(base, Timebase::Monotonic(Some(OFFSET)));
        assert_eq!(base.time(OFFSET + 5_000), 5_000);
        assert_eq!(base.clock_id(), CLOCK_MONOTONIC);
        let snapshot = base.snapshot(5_000);
        assert_eq!(clock(&snapshot, CLOCK_MONOTONIC), Some(5_000));
        assert_eq!(clock(&snapshot, CLOCK_BOOTTIME), Some(5_000));
        assert_eq!(clock(&snapshot, CLOCK_REALTIME), Some(OFFSET as u64 + 5_000));
        assert_eq!(snapshot.primary_trace_clock, Some(CLOCK_MONOTONIC));
    }

    #[test]
    fn timebase_of_two_machines_or_of_another_clock_is_time_of_day() {
        let other = schema(ClockClass::monotonic(Some(Uuid([2; 16])), OFFSET));
        let tsc = schema(ClockClass { name: "tsc".into(), ..ClockClass::monotonic(None, OFFSET) });
        let slow =
            schema(ClockClass { frequency: 1_000_000, ..ClockClass::monotonic(None, OFFSET) });
        for schemas in [
            vec![monotonic(OFFSET), other],
            vec![monotonic(OFFSET), monotonic(OFFSET + 2_000_000_000)],
            vec![tsc],
            vec![slow],
            vec![Schema::default()],
        ] {
            assert_eq!(timebase(&schemas), Timebase::Realtime);
        }
        let snapshot = Timebase::Realtime.snapshot(9);
        assert_eq!(clock(&snapshot, CLOCK_REALTIME), Some(9));
        assert_eq!(clock(&snapshot, CLOCK_BOOTTIME), Some(9));
        assert_eq!(clock(&snapshot, CLOCK_MONOTONIC), None);
    }

    #[test]
    fn timebase_without_an_offset_says_no_time_of_day() {
        let base = timebase(&[monotonic(0)]);
        assert_eq!(base, Timebase::Monotonic(None));
        assert_eq!(clock(&base.snapshot(7), CLOCK_REALTIME), None);
    }

    #[test]
    fn malicious_times_and_offsets_stay_in_range() {
        let base = Timebase::Monotonic(Some(OFFSET));
        assert_eq!(base.time(i64::MIN), 0);
        assert_eq!(Timebase::Monotonic(Some(i64::MIN)).time(i64::MAX), i64::MAX as u64);
        assert_eq!(clock(&base.snapshot(u64::MAX), CLOCK_REALTIME), None);
        let far = ClockClass { offset_s: i64::MAX, ..ClockClass::monotonic(None, 0) };
        assert_eq!(timebase(&[schema(far)]), Timebase::Realtime);
        let stopped = ClockClass { frequency: 0, ..ClockClass::monotonic(None, 0) };
        assert_eq!(timebase(&[schema(stopped)]), Timebase::Realtime);
    }
}
