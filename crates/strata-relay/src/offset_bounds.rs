//! Bounds for the offset between two clocks that nobody can read at the same moment.
//!
//! The host asks for the time, and the guest answers. The guest received the question after the host had sent it, and
//! sent the answer before the host received it. So the offset, host time minus guest time, is at least `asked -
//! received` and at most `answered - sent`. Each exchange gives such an interval, however long it took. The
//! intersection of all intervals is correct, while an average would not be.
//!
//! Clocks drift against each other: an interval is true of its moment, and of any other one if it is made wider by
//! [`DRIFT_PPM`] of the time between. Where intervals do not intersect even so, the guest's clock stood still or was set
//! meanwhile (a virtual machine that was paused, or moved): a new epoch begins.

/// Fastest drift between two clocks that is assumed \[parts per million\]. Clocks of two kernels are within 50 of each
/// other, and NTP mostly changes them less. If they drift faster, intervals do not intersect, and that is detected.
pub const DRIFT_PPM: u64 = 100;

/// The most jumps of a guest's clock after which the guest is still asked for its time.
pub const EPOCHS_MAX: usize = 64;

/// The most intervals of one epoch that are kept; at that number, each two of them are merged.
const POINTS_MAX: usize = 1 << 14;

/// The latest time of a guest that is accepted \[ns\].
const TIME_MAX: u64 = 1 << 62;

/// Interval of an offset of which nothing is known \[ns\].
const NOTHING: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

/// A question for the time, and the guest's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Time by the host's clock at which it sent the request \[ns\].
    pub asked: u64,
    /// Time by the guest's clock at which it received the request \[ns\].
    pub received: u64,
    /// Time by the guest's clock at which it sent the answer \[ns\].
    pub sent: u64,
    /// Time by the host's clock at which it received the answer \[ns\].
    pub answered: u64,
}

/// Bounds of the offset, host time minus guest time \[ns\], at one moment, which the host has concluded from other
/// observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Moment by the guest's clock \[ns\].
    pub at: u64,
    /// Lower bound of the offset, if there is one.
    pub low: Option<i64>,
    /// Upper bound of the offset, if there is one.
    pub high: Option<i64>,
}

/// Both bounds of the offset at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Moment by the guest's clock \[ns\].
    pub(crate) at: u64,
    /// Lower bound of host time minus guest time \[ns\].
    pub(crate) low: i64,
    /// Upper bound of host time minus guest time \[ns\].
    pub(crate) high: i64,
}

impl Point {
    /// Returns the interval for another moment, widened by the drift in between.
    pub(crate) fn moved(self, at: u64) -> Point {
        let drift = drift(self.at.abs_diff(at));
        Point { at, low: self.low.saturating_sub(drift), high: self.high.saturating_add(drift) }
    }

    fn and(self, other: Point) -> Point {
        let other = other.moved(self.at);
        Point { at: self.at, low: self.low.max(other.low), high: self.high.min(other.high) }
    }
}

/// Returns the largest drift between the clocks in `passed` nanoseconds \[ns\].
pub(crate) fn drift(passed: u64) -> i64 {
    let drift = u128::from(passed) * u128::from(DRIFT_PPM);
    i64::try_from(drift.div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// A time in which the guest's clock ran without a jump.
#[derive(Clone, Debug, Default)]
pub struct Epoch {
    pub(crate) points: Vec<Point>,
    /// The combined bounds, for the moment of the last exchange.
    now: Option<Point>,
    first: u64,
    last: u64,
    exchanges: u64,
}

impl Epoch {
    /// Returns the first and the last moment for which there are bounds, by the guest's clock \[ns\].
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        (self.first, self.last)
    }

    /// Returns the number of exchanges from which the bounds were made.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// Adds the interval `point` to the bounds if it intersects with them, drift included. Returns whether it does.
    fn takes(&mut self, point: Point, last: u64) -> bool {
        let known = match self.now {
            None => point,
            Some(now) => point.and(now),
        };
        if known.low > known.high {
            return false;
        }
        if self.points.is_empty() {
            self.first = point.at;
        }
        (self.now, self.last) = (Some(known), last.max(self.last));
        self.exchanges += 1;
        self.points.push(point);
        if self.points.len() >= POINTS_MAX {
            let halves = self.points.chunks(2);
            let merged = |pair: &[Point]| pair.iter().copied().reduce(|one, other| one.and(other));
            self.points = halves.filter_map(merged).collect();
        }
        true
    }
}

/// The bounds for a guest's clock, in all its epochs.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    epochs: Vec<Epoch>,
    /// Number of exchanges with impossible times.
    impossible: u64,
    /// True if the next exchange begins a new epoch.
    is_cut: bool,
}

impl Bounds {
    /// Lets the next exchange begin a new epoch, because another machine runs the guest now.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Adds an exchange. Returns whether it has begun a new epoch after others.
    pub fn add(&mut self, exchange: &Exchange) -> bool {
        let &Exchange { asked, received, sent, answered } = exchange;
        let is_possible = asked <= answered
            && received <= sent
            && [asked, received, sent, answered].iter().all(|time| *time < TIME_MAX)
            // It may take the guest longer than us, but not by more than clocks drift.
            && sent - received <= (answered - asked).saturating_add(drift(answered - asked) as u64);
        if !is_possible {
            self.impossible += 1;
            return false;
        }
        // All are less than 2^62.
        let low = asked as i64 - received as i64;
        let high = Point { at: sent, low: i64::MIN, high: answered as i64 - sent as i64 };
        let point = Point { at: received, low, high: high.moved(received).high };
        let last = self.epochs.last_mut().filter(|_| !self.is_cut);
        if last.is_some_and(|epoch| epoch.takes(point, sent)) {
            return false;
        }
        if self.epochs.len() == EPOCHS_MAX {
            self.impossible += 1;
            return false;
        }
        let is_behind = !self.epochs.is_empty();
        let mut epoch = Epoch::default();
        // The first one of an epoch may be none by itself: clocks that were read were never as it says.
        if !epoch.takes(point, sent) {
            self.impossible += 1;
            return false;
        }
        self.epochs.push(epoch);
        self.is_cut = false;
        is_behind
    }

    /// Adds bounds to an epoch that do not come from exchanges. Returns how many were accepted. Bounds that contradict
    /// the known ones are not, since a guest may claim anything about its times.
    pub fn refine(&mut self, epoch: usize, bounds: &[Bound]) -> usize {
        let Some(epoch) = self.epochs.get_mut(epoch) else { return 0 };
        let before = epoch.points.len();
        for bound in bounds.iter().filter(|bound| bound.at < TIME_MAX) {
            if epoch.points.len() + 1 >= POINTS_MAX {
                break;
            }
            let (low, high) = (bound.low.unwrap_or(NOTHING.0), bound.high.unwrap_or(NOTHING.1));
            let point = Point { at: bound.at, low, high };
            let contradicts = |known: &Point| {
                let both = known.and(point);
                both.low > both.high
            };
            if low <= high && !epoch.points.iter().any(contradicts) {
                epoch.points.push(point);
            }
        }
        epoch.points.len() - before
    }

    /// Returns the epochs, in the order of time.
    #[must_use]
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// Returns the number of exchanges with impossible times: the guest's clock goes back, or its answers are wrong.
    #[must_use]
    pub fn impossible(&self) -> u64 {
        self.impossible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest whose clock is `offset` behind the host's: asked at the host's time `asked`, with so much time each way.
    fn exchange(asked: u64, offset: u64, there: u64, back: u64) -> Exchange {
        let received = asked + there - offset;
        Exchange { asked, received, sent: received + 10, answered: asked + there + 10 + back }
    }

    #[test]
    fn bounds_of_exchanges_are_their_intersection() {
        let mut bounds = Bounds::default();
        // The way there is quick in one, the way back in the other.
        assert!(!bounds.add(&exchange(1_000_000, 500, 3, 9_000)));
        assert!(!bounds.add(&exchange(1_000_100, 500, 9_000, 4)));
        let now = bounds.epochs()[0].now.unwrap();
        // And what the clocks may have drifted in the 9 us between, of each of them.
        assert!((497 - 2..=497).contains(&now.low), "{now:?}");
        assert!((504..=504 + 2).contains(&now.high), "{now:?}");
        assert_eq!(bounds.epochs()[0].exchanges(), 2);
    }

    #[test]
    fn bounds_grow_with_time_by_the_drift_that_is_possible() {
        let point = Point { at: 1_000_000_000, low: 10, high: 20 };
        let later = point.moved(2_000_000_000);
        assert_eq!((later.low, later.high), (10 - 100_000, 20 + 100_000));
        assert_eq!(drift(1), 1);
        assert_eq!(Point { low: i64::MIN, ..point }.moved(u64::MAX).low, i64::MIN);
    }

    #[test]
    fn epoch_begins_where_the_guest_stood_still_and_not_where_an_answer_was_slow() {
        let mut bounds = Bounds::default();
        for number in 0..50 {
            assert!(!bounds.add(&exchange(1_000_000 + number * 50_000, 500, 20, 20)));
        }
        // It took a second: nothing new is known, and nothing contradicts.
        assert!(!bounds.add(&exchange(4_000_000, 500, 500_000_000, 500_000_000)));
        assert!(!bounds.add(&exchange(1_100_000_000, 500, 20, 20)));
        // A pause of two seconds.
        assert!(bounds.add(&exchange(3_200_000_000, 500 + 2_000_000_000, 20, 20)));
        assert!(!bounds.add(&exchange(3_300_000_000, 500 + 2_000_000_000, 20, 20)));
        assert_eq!(bounds.epochs().len(), 2);
        let (first, second) = (bounds.epochs()[0].span(), bounds.epochs()[1].span());
        assert!(first.1 < second.0, "{first:?} {second:?}");
    }

    #[test]
    fn epoch_begins_where_the_guest_was_moved_though_its_clock_is_as_before() {
        let mut bounds = Bounds::default();
        bounds.cut();
        for number in 0..10 {
            if number == 5 {
                bounds.cut();
            }
            let is_behind = bounds.add(&exchange(1_000_000 + number * 50_000, 500, 20, 20));
            assert_eq!(is_behind, number == 5, "{number}");
        }
        let counts: Vec<_> = bounds.epochs().iter().map(Epoch::exchanges).collect();
        assert_eq!(counts, [5, 5]);
    }

    #[test]
    fn bounds_besides_exchanges_make_an_epoch_better_known_and_never_contradict_it() {
        let mut bounds = Bounds::default();
        for number in 0..20 {
            bounds.add(&exchange(1_000_000_000 + number * 50_000_000, 500, 200_000, 300_000));
        }
        let wide = crate::Line::through(&bounds.epochs()[0], None).unwrap();
        let bound = |at, low, high| Bound { at, low, high };
        let taken = bounds.refine(
            0,
            &[
                bound(1_200_000_000, Some(490), None),
                bound(1_200_001_000, None, Some(530)),
                // What cannot be: beside what is known, and beside the two above.
                bound(1_200_000_000, Some(1_000_000_000), None),
                bound(1_200_000_000, None, Some(300)),
                bound(1_200_000_000, Some(9), Some(8)),
                bound(u64::MAX, Some(490), None),
            ],
        );
        assert_eq!((taken, bounds.refine(7, &[bound(1, None, None)])), (2, 0));
        let line = crate::Line::through(&bounds.epochs()[0], Some((1_200_000_000, 1_200_001_000)));
        let line = line.unwrap();
        assert!(
            line.uncertainty_ns < 100_000 && line.uncertainty_ns < wide.uncertainty_ns,
            "{line:?} {wide:?}"
        );
        // Where it was known best, it is known to 40 ns; elsewhere it drifts.
        assert!(
            (line.host_ns(1_200_000_000) - 1_200_000_500).abs() <= i128::from(line.uncertainty_ns)
        );
    }

    #[test]
    fn malicious_exchanges_are_counted_and_end_at_limits() {
        let mut bounds = Bounds::default();
        let good = exchange(1_000_000, 500, 20, 20);
        for one in [
            Exchange { received: u64::MAX, sent: u64::MAX, ..good },
            Exchange { sent: good.received - 1, ..good },
            Exchange { answered: good.asked - 1, ..good },
            Exchange { sent: good.received + 1_000_000, ..good },
        ] {
            assert!(!bounds.add(&one));
        }
        assert_eq!((bounds.impossible(), bounds.epochs().len()), (4, 0));
        for number in 0..1000u64 {
            bounds.add(&exchange(1 << 40, number % 2 * 1_000_000, 20, 20));
        }
        assert_eq!(bounds.epochs().len(), EPOCHS_MAX);
        let mut bounds = Bounds::default();
        for number in 0..100_000 {
            bounds.add(&exchange(1_000_000 + number * 1000, 500, 20, 20));
        }
        assert!(bounds.epochs()[0].points.len() < POINTS_MAX);
        assert_eq!(bounds.epochs()[0].exchanges(), 100_000);
    }
}
