//! Compares two traces: what takes longer in the second than in the first, and whether that is more than noise.
//!
//! A measurement has a program, a kind and a name, such as the calls of `fsync` by `postgres`. These identify it in
//! both traces, since numbers of processes differ from run to run. Each measurement keeps the distribution of its
//! values, which shows by how much a mean may differ by chance:
//!
//! 1. Welch's test: the difference of the means, in standard errors of that difference. It sees a tail that got longer,
//!    one call in a hundred that waits for a disk, since that moves the mean.
//! 2. The two-sample Kolmogorov-Smirnov test: the greatest distance between the two distributions. It sees that most
//!    values moved where a few outliers make the mean useless.
//!
//! A change is reported if one of the tests exceeds [`SIGMAS`], which happens by chance once in some 16,000
//! comparisons, and if it is at least as large as the user asked for: with a million calls on each side everything
//! differs significantly, by a percent. The tests assume that values are independent. Values of one burst are not, so a
//! change of a few percent between two short recordings should be checked with a third recording.

use std::collections::HashMap;

use strata_report::{Histogram, Times};

/// The number of standard errors by which means must differ for a change to be reported.
pub const SIGMAS: f64 = 4.0;
/// The threshold of the scaled Kolmogorov-Smirnov statistic at the significance that [`SIGMAS`] has: sqrt(-ln(p /
/// 2) / 2) for p = 6.3e-5.
const SCALED_DISTANCE: f64 = 2.276;
/// The least number of values on each side for which a comparison has a result.
pub const FEW: u64 = 10;

/// The kind of times that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// System calls, from entry to exit.
    Call,
    /// Spans of programs.
    Span,
    /// Times for which a thread was runnable and had no CPU.
    CpuDelay,
}

impl Kind {
    /// Returns the kind's name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Span => "span",
            Kind::CpuDelay => "cpu_delay",
        }
    }
}

/// The identity of a measurement in both traces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The name of the program.
    pub program: String,
    pub kind: Kind,
    /// The name of the call or span; empty for delays.
    pub name: String,
}

/// All measurements of one trace.
pub type Measured = HashMap<Subject, Times>;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Slower,
    Faster,
    /// The difference may be chance, or is below the limit that the user has set.
    Same,
    /// One trace has fewer than [`FEW`] values.
    Few,
    /// The measurement is only in the second trace.
    New,
    /// The measurement is only in the first trace.
    Gone,
}

impl Verdict {
    /// Returns the name of the result in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::Few => "few",
            Verdict::New => "new",
            Verdict::Gone => "gone",
        }
    }
}

/// The comparison of one measurement in both traces.
#[derive(Clone, Debug)]
pub struct Change {
    pub subject: Subject,
    pub before: Times,
    pub after: Times,
    pub verdict: Verdict,
    /// True if the verdict is based on the medians, since outliers distort the means.
    pub is_by_median: bool,
    /// The difference of the means in standard errors; positive: the second trace is slower.
    pub sigmas: f64,
    /// The greatest distance between the distributions, from 0 to 1.
    pub distance: f64,
}

impl Change {
    /// Returns the times in the first trace.
    #[must_use]
    pub fn before(&self) -> &Times {
        &self.before
    }

    /// Returns the times in the second trace.
    #[must_use]
    pub fn after(&self) -> &Times {
        &self.after
    }

    /// Returns the typical time in each trace, on which the verdict is based: the mean or the median \[ns\]. `None`
    /// without values.
    #[must_use]
    pub fn typical(&self) -> (Option<f64>, Option<f64>) {
        let of = |times: &Times| match self.is_by_median {
            false => mean(times),
            true => Some(times.quantile(0.5) as f64),
        };
        (of(&self.before), of(&self.after))
    }

    /// Returns the second typical value as a multiple of the first; `None` without values on both sides.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let (Some(before), Some(after)) = self.typical() else { return None };
        (before > 0.0).then(|| after / before)
    }

    /// Returns the time that the change costs in the second trace \[ns\]: how much longer all its values take than they
    /// would with the typical value of the first. If the first trace has no values, that is the total time in the second.
    #[must_use]
    pub fn cost(&self) -> i64 {
        let nanos = match self.typical() {
            (None, _) => self.after.total as f64,
            (Some(_), None) => -(self.before.total as f64),
            (Some(before), Some(after)) => (after - before) * self.after.count as f64,
        };
        // Conversions of floats saturate.
        nanos.round() as i64
    }
}

/// Compares all measurements of two traces. `least`: the least change to report, relative to the first trace; 0.1 is
/// 10 %. The changes that cost or save most come first.
#[must_use]
pub fn compare(mut before: Measured, after: Measured, least: f64) -> Vec<Change> {
    let mut changes: Vec<Change> = after
        .into_iter()
        .map(|(subject, after)| {
            let before = before.remove(&subject).unwrap_or_default();
            change(subject, before, after, least)
        })
        .collect();
    changes.extend(
        before
            .into_iter()
            .map(|(subject, before)| change(subject, before, Times::default(), least)),
    );
    changes.sort_by(|one, other| {
        let by_cost = other.cost().unsigned_abs().cmp(&one.cost().unsigned_abs());
        by_cost.then_with(|| one.subject.cmp(&other.subject))
    });
    changes
}

fn change(subject: Subject, before: Times, after: Times, least: f64) -> Change {
    let sigmas = sigmas(&before, &after);
    let distance = distance(&before.spread, &after.spread);
    let (verdict, is_by_median) = match (before.count, after.count) {
        (0, _) => (Verdict::New, false),
        (_, 0) => (Verdict::Gone, false),
        (one, other) if one.min(other) < FEW => (Verdict::Few, false),
        _ => verdict(&before, &after, sigmas, distance, least),
    };
    Change { subject, before, after, verdict, is_by_median, sigmas, distance }
}

/// Returns the verdict on two traces that both have enough values, and whether the medians decided.
fn verdict(
    before: &Times,
    after: &Times,
    sigmas: f64,
    distance: f64,
    least: f64,
) -> (Verdict, bool) {
    let grown = |before: f64, after: f64| after > before * (1.0 + least);
    let means = (mean(before).unwrap_or(0.0), mean(after).unwrap_or(0.0));
    let middles = (before.quantile(0.5) as f64, after.quantile(0.5) as f64);
    let (n, m) = (before.count as f64, after.count as f64);
    let is_other = distance * (n * m / (n + m)).sqrt() > SCALED_DISTANCE;
    // Medians decide where the means say nothing, or too little: outliers hide what most values do.
    if sigmas > SIGMAS && grown(means.0, means.1) {
        (Verdict::Slower, false)
    } else if sigmas < -SIGMAS && grown(means.1, means.0) {
        (Verdict::Faster, false)
    } else if is_other && sigmas >= -SIGMAS && grown(middles.0, middles.1) {
        (Verdict::Slower, true)
    } else if is_other && sigmas <= SIGMAS && grown(middles.1, middles.0) {
        (Verdict::Faster, true)
    } else {
        (Verdict::Same, false)
    }
}

fn mean(times: &Times) -> Option<f64> {
    (times.count > 0).then(|| times.total as f64 / times.count as f64)
}

/// Returns the square of the standard error of the mean \[ns²\], from the buckets' middles.
fn squared_error(times: &Times) -> f64 {
    let (Some(mean), count) = (mean(times), times.count as f64) else { return 0.0 };
    if times.count < 2 {
        return 0.0;
    }
    let squares = times.spread.buckets().map(|(first, width, count)| {
        let off = first as f64 + (width - 1) as f64 / 2.0 - mean;
        off * off * count as f64
    });
    squares.sum::<f64>() / (count - 1.0) / count
}

/// Returns the difference of the means, in standard errors of that difference; 0 if one trace has no values.
fn sigmas(before: &Times, after: &Times) -> f64 {
    let (Some(one), Some(other)) = (mean(before), mean(after)) else { return 0.0 };
    let error = (squared_error(before) + squared_error(after)).sqrt();
    match other - one {
        0.0 => 0.0,
        // Clocks count whole nanoseconds: equal values are no proof that the next one is equal.
        difference => difference / error.max(0.5),
    }
}

/// Returns the greatest distance between two distributions; 0 if one has no values.
fn distance(before: &Histogram, after: &Histogram) -> f64 {
    let (n, m) = (before.count() as f64, after.count() as f64);
    if n == 0.0 || m == 0.0 {
        return 0.0;
    }
    let (mut one, mut other) = (before.buckets().peekable(), after.buckets().peekable());
    let (mut below, mut above, mut most) = (0.0_f64, 0.0_f64, 0.0_f64);
    loop {
        let next = match (one.peek(), other.peek()) {
            (None, None) => return most,
            (Some(&(first, ..)), None) | (None, Some(&(first, ..))) => first,
            (Some(&(first, ..)), Some(&(second, ..))) => first.min(second),
        };
        if let Some((_, _, count)) = one.next_if(|&(first, ..)| first == next) {
            below += count as f64 / n;
        }
        if let Some((_, _, count)) = other.next_if(|&(first, ..)| first == next) {
            above += count as f64 / m;
        }
        most = most.max((below - above).abs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    /// Returns times with a long tail, like those of system calls. Their median is about `middle` ns.
    fn times(random: &mut Random, count: usize, middle: f64) -> Times {
        let mut times = Times::default();
        for _ in 0..count {
            let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            times.add((middle * (0.5 * normal).exp()) as u64);
        }
        times
    }

    fn subject() -> Subject {
        Subject { program: "shop".into(), kind: Kind::Call, name: "fsync".into() }
    }

    fn verdict_of(before: &Times, after: &Times, least: f64) -> Verdict {
        change(subject(), before.clone(), after.clone(), least).verdict
    }

    #[test]
    fn two_samples_of_one_distribution_are_the_same() {
        let mut random = Random::from_seed(7);
        let differ = (0..2000).filter(|round| {
            let count = 10 + round % 300;
            let (before, after) =
                (times(&mut random, count, 10_000.0), times(&mut random, count, 10_000.0));
            verdict_of(&before, &after, 0.0) != Verdict::Same
        });
        // 4 standard errors are exceeded by chance once in 16,000; more often by few values with a long tail.
        let differ = differ.count();
        assert!(differ <= 4, "{differ}");
    }

    #[test]
    fn shift_is_reported_in_its_direction_if_it_is_as_large_as_asked() {
        let mut random = Random::from_seed(8);
        let (before, after) =
            (times(&mut random, 5000, 10_000.0), times(&mut random, 5000, 12_000.0));
        assert_eq!(verdict_of(&before, &after, 0.1), Verdict::Slower);
        assert_eq!(verdict_of(&after, &before, 0.1), Verdict::Faster);
        assert_eq!(verdict_of(&before, &after, 0.3), Verdict::Same);
    }

    #[test]
    fn longer_tail_is_slower_though_most_values_stay() {
        let mut random = Random::from_seed(9);
        let (before, mut after) =
            (times(&mut random, 20_000, 10_000.0), times(&mut random, 20_000, 10_000.0));
        (0..200).for_each(|_| after.add(1_000_000));
        assert_eq!(verdict_of(&before, &after, 0.1), Verdict::Slower);
    }

    #[test]
    fn most_values_decide_where_an_outlier_hides_the_means() {
        let mut random = Random::from_seed(10);
        let (mut before, mut after) =
            (times(&mut random, 500, 10_000.0), times(&mut random, 500, 20_000.0));
        before.add(60_000_000_000);
        after.add(30_000_000_000);
        let change = change(subject(), before, after, 0.1);
        assert_eq!((change.verdict, change.is_by_median), (Verdict::Slower, true));
        // What is told of it is what decided, though the mean went down.
        assert!(change.ratio().is_some_and(|ratio| ratio > 1.8) && change.cost() > 0, "{change:?}");
    }

    #[test]
    fn most_values_decide_where_slow_ones_outweigh_them() {
        let times = |most: u64| {
            let mut times = Times::default();
            (0..100_000_u64).for_each(|at| times.add(if at % 100 == 0 { 1_000_000 } else { most }));
            times
        };
        // The mean goes up by 9 %, significantly.
        let change = change(subject(), times(1000), times(2000), 0.1);
        assert_eq!((change.verdict, change.is_by_median), (Verdict::Slower, true), "{change:?}");
    }

    #[test]
    fn few_and_absent_values_say_nothing_about_speed() {
        let mut random = Random::from_seed(11);
        let (few, many) = (times(&mut random, 9, 10.0), times(&mut random, 100, 1e9));
        assert_eq!(verdict_of(&few, &many, 0.1), Verdict::Few);
        assert_eq!(verdict_of(&Times::default(), &many, 0.1), Verdict::New);
        assert_eq!(verdict_of(&many, &Times::default(), 0.1), Verdict::Gone);
    }

    #[test]
    fn equal_values_that_differ_by_more_than_the_clock_are_slower() {
        let times = |nanos| {
            let mut times = Times::default();
            (0..20).for_each(|_| times.add(nanos));
            times
        };
        assert_eq!(verdict_of(&times(1000), &times(1500), 0.1), Verdict::Slower);
        assert_eq!(verdict_of(&times(1000), &times(1000), 0.0), Verdict::Same);
    }

    #[test]
    fn costliest_changes_come_first_and_costs_are_of_the_second_trace() {
        let times = |count, nanos| {
            let mut times = Times::default();
            (0..count).for_each(|_| times.add(nanos));
            times
        };
        let of = |name: &str| Subject { name: name.into(), ..subject() };
        let before = HashMap::from([
            (of("read"), times(100, 1000)),
            (of("gone"), times(1, 70_000)),
            (of("same"), times(50, 10)),
        ]);
        let after = HashMap::from([
            (of("read"), times(200, 1500)),
            (of("same"), times(50, 10)),
            (of("new"), times(2, 10_000)),
        ]);
        let changes = compare(before, after, 0.1);
        let told: Vec<_> = changes.iter().map(|it| (it.subject.name.as_str(), it.cost())).collect();
        assert_eq!(told, [("read", 100_000), ("gone", -70_000), ("new", 20_000), ("same", 0)]);
        assert_eq!(changes.first().and_then(Change::ratio), Some(1.5));
    }

    #[test]
    fn distance_of_distributions_without_common_values_is_one() {
        let (mut low, mut high) = (Histogram::default(), Histogram::default());
        (0..10).for_each(|value| low.add(value));
        (1000..1010).for_each(|value| high.add(value));
        assert!((distance(&low, &high) - 1.0).abs() < 1e-9);
        assert_eq!(distance(&low, &low), 0.0);
        assert_eq!(distance(&low, &Histogram::default()), 0.0);
    }
}
