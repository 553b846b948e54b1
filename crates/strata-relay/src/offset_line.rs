//! Reduces the bounds of the offset between two clocks to what a trace can express: one offset, one rate, and the
//! uncertainty of both.

use strata_model::ClockClass;

use crate::offset_bounds::{drift, Epoch, Point, DRIFT_PPM};

const SECOND: u64 = 1_000_000_000;

/// The reduction of the uncertainty for which a rate is written \[ns\]: without a rate, readers calculate in whole
/// numbers.
const WORTH_NS: i64 = 10_000;

/// Conversion of the guest's clock to the host's: host time = `offset` + guest time / `frequency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Ticks of the guest's clock in a second of the host's clock \[Hz\].
    pub frequency: u64,
    /// Time by the host's clock when the guest's clock was 0 \[ns\].
    pub offset_ns: i64,
    /// Largest error of a converted time \[ns\].
    pub uncertainty_ns: u64,
}

impl Line {
    /// Returns the best line for an epoch, for times from `span.0` to `span.1` by the guest's clock and those for which
    /// there are bounds. `None` if there are no bounds.
    #[must_use]
    pub fn through(epoch: &Epoch, span: Option<(u64, u64)>) -> Option<Line> {
        let points = envelope(&epoch.points, span);
        let origin = points.first()?.at;
        let flat = width(&points, origin, 0.0);
        let (mut low, mut high) = (-(DRIFT_PPM as f64), DRIFT_PPM as f64);
        // The width is a convex function of the slope.
        for _ in 0..60 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            match width(&points, origin, left) < width(&points, origin, right) {
                true => high = right,
                false => low = left,
            }
        }
        let slope = (low + high) / 2.0;
        let is_worth = flat - width(&points, origin, slope) > 2.0 * WORTH_NS as f64;
        // Within 100 ppm of a billion.
        let frequency = match is_worth {
            true => (SECOND as f64 / (1.0 + slope / 1e6)).round() as u64,
            false => SECOND,
        };
        Some(Line::of_rate(&points, frequency))
    }

    /// Returns the best line with this rate.
    fn of_rate(points: &[Point], frequency: u64) -> Line {
        let host = |point: &Point| {
            i128::from(point.at) * i128::from(SECOND) / i128::from(frequency) - i128::from(point.at)
        };
        let high = points.iter().map(|point| i128::from(point.high) - host(point)).max();
        let low = points.iter().map(|point| i128::from(point.low) - host(point)).min();
        let (high, low) = (high.unwrap_or(0), low.unwrap_or(0));
        let offset = (high + low).div_euclid(2);
        // And 2 for what is rounded, here and by readers.
        let uncertainty = (high - offset).max(offset - low).saturating_add(2);
        Line {
            frequency,
            offset_ns: i64::try_from(offset).unwrap_or(i64::MAX),
            uncertainty_ns: u64::try_from(uncertainty).unwrap_or(u64::MAX),
        }
    }

    /// Describes the guest's clock for a trace. `of_host` is the host's clock, which was 0 at `wall_ns` after 1970
    /// \[ns\].
    #[must_use]
    pub fn clock(&self, of_host: &ClockClass, wall_ns: i64) -> ClockClass {
        let all = i128::from(self.offset_ns) + i128::from(wall_ns);
        let (seconds, rest) = (all.div_euclid(SECOND.into()), all.rem_euclid(SECOND.into()));
        let cycles = rest * i128::from(self.frequency) / i128::from(SECOND);
        ClockClass {
            frequency: self.frequency,
            precision: self.uncertainty_ns,
            offset_s: i64::try_from(seconds).unwrap_or(0),
            offset_cycles: u64::try_from(cycles).unwrap_or(0),
            description: "CLOCK_MONOTONIC of a guest, in the host's time".to_owned(),
            ..of_host.clone()
        }
    }

    /// Converts a time of the guest to the host's \[ns\].
    #[must_use]
    pub fn host_ns(&self, guest_ns: u64) -> i128 {
        i128::from(self.offset_ns)
            + i128::from(guest_ns) * i128::from(SECOND) / i128::from(self.frequency)
    }
}

/// Bounds of the offset at all moments of an epoch.
#[derive(Clone, Debug)]
pub struct Known(Vec<Point>);

impl Known {
    /// Computes the bounds for an epoch.
    #[must_use]
    pub fn of(epoch: &Epoch) -> Known {
        let mut points = envelope(&epoch.points, None);
        points.sort_by_key(|point| point.at);
        Known(points)
    }

    /// Returns the least and the greatest time of the host that a time of the guest may be \[ns\]; `None` if there are
    /// no bounds.
    #[must_use]
    pub fn host_ns(&self, guest_ns: u64) -> Option<(i128, i128)> {
        let behind = self.0.partition_point(|point| point.at < guest_ns);
        let before = behind.checked_sub(1).and_then(|at| self.0.get(at));
        let near = before.into_iter().chain(self.0.get(behind));
        let here = near.map(|point| point.moved(guest_ns)).reduce(|one, other| Point {
            at: guest_ns,
            low: one.low.max(other.low),
            high: one.high.min(other.high),
        })?;
        let host = |offset: i64| i128::from(guest_ns) + i128::from(offset);
        Some((host(here.low), host(here.high)))
    }
}

/// Combines the bounds of all exchanges. The points are the moments at which bounds are widest: between two exchanges,
/// and at the ends of `span`.
fn envelope(points: &[Point], span: Option<(u64, u64)>) -> Vec<Point> {
    let mut all: Vec<Point> = points.to_vec();
    // What is recorded by one CPU can be sent before what another one has recorded.
    all.sort_by_key(|point| point.at);
    let (Some(first), Some(last)) = (all.first().copied(), all.last().copied()) else { return all };
    let unknown = |at| Point { at, low: i64::MIN / 4, high: i64::MAX / 4 };
    if let Some((begin, end)) = span {
        if begin < first.at {
            all.insert(0, unknown(begin));
        }
        if end > last.at {
            all.push(unknown(end));
        }
    }
    for at in 1..all.len() {
        all[at] = both(all[at], all[at - 1]);
    }
    for at in (1..all.len()).rev() {
        all[at - 1] = both(all[at - 1], all[at]);
    }
    let between = |pair: &[Point]| match pair {
        [one, other] => peak(*one, *other),
        _ => None,
    };
    let peaks: Vec<Point> = all.windows(2).filter_map(between).collect();
    all.extend(peaks);
    all.sort_by_key(|point| point.at);
    all
}

/// Returns the first interval, narrowed by the other one.
fn both(one: Point, other: Point) -> Point {
    let drift = drift(one.at.abs_diff(other.at));
    Point {
        at: one.at,
        low: one.low.max(other.low.saturating_sub(drift)),
        high: one.high.min(other.high.saturating_add(drift)),
    }
}

/// Returns the moment between two others at which the bounds are widest. The upper and the lower bound are both taken
/// there, which is never too narrow.
fn peak(one: Point, other: Point) -> Option<Point> {
    let passed = other.at - one.at;
    let drift = drift(passed);
    let high = (i128::from(one.high) + i128::from(other.high) + i128::from(drift)) / 2 + 1;
    let low = (i128::from(one.low) + i128::from(other.low) - i128::from(drift)) / 2 - 1;
    let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
    (passed > 1).then_some(Point { at: one.at + passed / 2, low, high })
}

/// Returns the distance between the bounds of all lines with this slope \[ns\]; `slope` is in parts per million.
fn width(points: &[Point], origin: u64, slope: f64) -> f64 {
    let (mut high, mut low) = (f64::MIN, f64::MAX);
    let base = points.first().map_or(0, |point| point.low);
    for point in points {
        // Differences: a double holds them to less than a nanosecond.
        let along = (point.at - origin) as f64 * slope / 1e6;
        high = high.max(i128::from(point.high).saturating_sub(base.into()) as f64 - along);
        low = low.min(i128::from(point.low).saturating_sub(base.into()) as f64 - along);
    }
    high - low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset_bounds::{Bounds, Exchange};
    use strata_random::Random;

    /// Host time = `offset` + guest time * (1 + ppm / 10^6), asked each 50 ms, with ways of changing lengths.
    fn bounds(offset: i64, ppm: f64, seconds: u64, way: u64) -> Bounds {
        let mut bounds = Bounds::default();
        let mut random = Random::from_seed(12345);
        for number in 0..seconds * 20 {
            let (there, back) = (random.below(0x1_0000_u64), random.below(0x1_0000_u64));
            let received = 5_000_000_000 + number * 50_000_000;
            let host = |guest: u64| (offset + guest as i64) as f64 + guest as f64 * ppm / 1e6;
            bounds.add(&Exchange {
                asked: host(received) as u64 - way - there,
                received,
                sent: received + 1000,
                answered: host(received + 1000) as u64 + way + back,
            });
        }
        bounds
    }

    #[test]
    fn line_is_no_farther_off_than_it_says_whatever_the_rate() {
        for ppm in [0.0, 12.0, -0.9, 73.0] {
            let bounds = bounds(40_000_000_000, ppm, 20, 20_000);
            assert_eq!(bounds.epochs().len(), 1, "{ppm}");
            let span = (4_000_000_000, 26_000_000_000);
            let line = Line::through(&bounds.epochs()[0], Some(span)).unwrap();
            for at in (0..=220).map(|step| span.0 + step * 100_000_000) {
                let truth = 40_000_000_000 + at as i128 + (at as f64 * ppm / 1e6) as i128;
                let error = (line.host_ns(at) - truth).unsigned_abs();
                assert!(
                    error <= line.uncertainty_ns.into(),
                    "{ppm} ppm, {at}: {error} of {line:?}"
                );
            }
            // A second before the first exchange costs 100 us of drift.
            assert!(line.uncertainty_ns < 200_000, "{ppm} ppm: {line:?}");
            let inside = Line::through(&bounds.epochs()[0], None).unwrap();
            assert!(inside.uncertainty_ns < 90_000, "{ppm} ppm: {inside:?}");
        }
    }

    #[test]
    fn line_of_clocks_that_go_alike_has_no_rate() {
        let bounds = bounds(-3_000_000, 0.0, 5, 1000);
        let line = Line::through(&bounds.epochs()[0], None).unwrap();
        assert_eq!(line.frequency, SECOND);
        assert!(line.offset_ns.abs_diff(-3_000_000) <= line.uncertainty_ns, "{line:?}");
        assert_eq!(Line::through(&Epoch::default(), Some((0, 7))), None);
    }

    #[test]
    fn clock_leads_from_the_guest_s_times_to_those_since_1970() {
        let line = Line { frequency: 1_000_000_012, offset_ns: -7, uncertainty_ns: 99 };
        let host = ClockClass::monotonic(None, 0);
        let clock = line.clock(&host, 1_700_000_000_000_000_003);
        assert_eq!((clock.offset_s, clock.offset_cycles), (1_699_999_999, 1_000_000_007));
        assert_eq!((clock.precision, clock.absolute), (99, true));
        let ns = |cycles: u64| u128::from(cycles) * 1_000_000_000 / 1_000_000_012;
        assert_eq!(ns(clock.offset_cycles), 999_999_995);
    }

    #[test]
    fn malicious_spans_of_records_end_at_the_widest() {
        let bounds = bounds(0, 0.0, 1, 1000);
        let line = Line::through(&bounds.epochs()[0], Some((0, u64::MAX))).unwrap();
        assert!(line.uncertainty_ns > 1 << 50, "{line:?}");
    }
}
