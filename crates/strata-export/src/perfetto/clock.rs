//! The clock of the exported times.
//!
//! If all traces use the CLOCK_MONOTONIC of one machine, the exported times are its nanoseconds, and a clock snapshot
//! gives the time of day. Otherwise, they are nanoseconds since 1970.
//!
//! Readers assume that the times of scheduling events are on CLOCK_BOOTTIME, whatever the trace says. CTF traces do not
//! say how long the machine was suspended, so the snapshot says that it was not. All times are therefore on one time
//! line, and the trace's clock is shown as CLOCK_BOOTTIME.
//!
//! The format has no times before a clock's 0. If a trace begins before the 0 of its machine's clock, times are those
//! since 1970. If it begins before 1970, as on a device without a real-time clock, its begin is exported as 0.

use strata_model::schema::{Schema, StreamClass};
use strata_model::ClockClass;

use super::proto::{ClockSnapshot, SnapshotClock, CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME};

const SECOND: i128 = 1_000_000_000;
/// The greatest difference between the offsets of one machine's traces \[ns\]. Tracers read both clocks at their start,
/// one after the other, and the time of day is assumed not to be set in between.
const SAME_OFFSET_NS: i128 = SECOND;

/// The clock of the exported times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timebase {
    /// CLOCK_MONOTONIC, with the time of its 0 \[ns since 1970\]; `None` if that is unknown.
    Monotonic(Option<i64>),
    /// CLOCK_REALTIME: nanoseconds since 1970.
    Realtime,
    /// Nanoseconds since this time, which is before 1970 \[ns since 1970\].
    Shifted(i64),
}

impl Timebase {
    /// Returns the common clock of all traces.
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

    /// Returns the clock for traces of which the first record has this time \[ns since 1970\], if it is known.
    pub(super) fn from(self, first: Option<i64>) -> Timebase {
        match first {
            Some(first) if first < 0 && first < self.zero() => Timebase::Shifted(first),
            Some(first) if first < self.zero() => Timebase::Realtime,
            _ => self,
        }
    }

    /// Returns the time that is exported as 0 \[ns since 1970\].
    fn zero(self) -> i64 {
        match self {
            Timebase::Monotonic(offset) => offset.unwrap_or(0),
            Timebase::Realtime => 0,
            Timebase::Shifted(first) => first,
        }
    }

    /// Returns the number of nanoseconds by which exported times are greater than those since 1970; `None` if they were
    /// not moved.
    pub(super) fn shift(self) -> Option<u64> {
        match self {
            Timebase::Shifted(first) => Some(first.unsigned_abs()),
            _ => None,
        }
    }

    /// Returns the exported time of a time since 1970 \[ns\], and true if it is in the range of the format: from 0 to
    /// the greatest number of 63 bits. Other times are moved to the nearest end of the range.
    pub(super) fn place(self, ns: i64) -> (u64, bool) {
        match u64::try_from(i128::from(ns) - i128::from(self.zero())) {
            Ok(time) => (time.min(i64::MAX as u64), time <= i64::MAX as u64),
            Err(_) => (0, false),
        }
    }

    /// Returns the exported time of a time since 1970 \[ns\].
    pub(super) fn time(self, ns: i64) -> u64 {
        self.place(ns).0
    }

    /// Returns the number of the clock in Perfetto's format.
    pub(super) fn clock_id(self) -> u32 {
        match self {
            Timebase::Monotonic(_) => CLOCK_MONOTONIC,
            Timebase::Realtime => CLOCK_REALTIME,
            Timebase::Shifted(_) => CLOCK_BOOTTIME,
        }
    }

    /// Returns a snapshot with the values of all clocks at one exported time.
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
            // On no clock that anybody else has.
            Timebase::Shifted(_) => {}
        }
        ClockSnapshot { clocks, primary_trace_clock: Some(self.clock_id()) }
    }
}

/// Returns the clocks that the streams of a trace use.
fn clocks(schema: &Schema) -> impl Iterator<Item = &ClockClass> {
    let of = |stream: &StreamClass| stream.clock.and_then(|index| schema.clocks.get(index));
    schema.streams.iter().filter_map(of)
}

/// Returns the time of the clock's 0 \[ns since 1970\].
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
        assert_eq!(base.place(OFFSET + 5_000), (5_000, true));
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
    fn times_before_a_clock_s_zero_are_on_a_clock_that_has_them() {
        let base = Timebase::Monotonic(Some(OFFSET));
        assert_eq!(base.from(Some(OFFSET)), base);
        assert_eq!(base.from(None), base);
        assert_eq!(base.from(Some(OFFSET - 1)), Timebase::Realtime);
        for base in [base, Timebase::Monotonic(None), Timebase::Realtime] {
            let shifted = base.from(Some(-5_000));
            assert_eq!(shifted, Timebase::Shifted(-5_000));
            assert_eq!((shifted.place(-5_000), shifted.place(7)), ((0, true), (5_007, true)));
            assert_eq!(shifted.place(-5_001), (0, false));
            assert_eq!((shifted.shift(), base.shift()), (Some(5_000), None));
            let snapshot = shifted.snapshot(1);
            assert_eq!(clock(&snapshot, CLOCK_REALTIME), None);
            assert_eq!(clock(&snapshot, CLOCK_MONOTONIC), None);
            assert_eq!(snapshot.primary_trace_clock, Some(CLOCK_BOOTTIME));
        }
        // A machine's clock whose 0 is before 1970 has these.
        let early = Timebase::Monotonic(Some(-10_000));
        assert_eq!(early.from(Some(-5_000)), early);
        assert_eq!(early.place(-5_000), (5_000, true));
    }

    #[test]
    fn malicious_times_and_offsets_stay_in_range() {
        let base = Timebase::Monotonic(Some(OFFSET));
        assert_eq!(base.place(i64::MIN), (0, false));
        assert_eq!(Timebase::Monotonic(Some(i64::MIN)).place(i64::MAX), (i64::MAX as u64, false));
        assert_eq!(Timebase::Shifted(i64::MIN).place(i64::MIN + 3), (3, true));
        assert_eq!(clock(&base.snapshot(u64::MAX), CLOCK_REALTIME), None);
        let far = ClockClass { offset_s: i64::MAX, ..ClockClass::monotonic(None, 0) };
        assert_eq!(timebase(&[schema(far)]), Timebase::Realtime);
        let stopped = ClockClass { frequency: 0, ..ClockClass::monotonic(None, 0) };
        assert_eq!(timebase(&[schema(stopped)]), Timebase::Realtime);
    }
}
