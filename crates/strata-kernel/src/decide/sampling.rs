//! Samples of an event: the share of its records that is written.

/// The share of an event's records that is written. Programs count what they leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Of each `every` events on a CPU, the first one is recorded; 1 records all.
    pub every: u32,
    /// The most events that are recorded in each second; 0 for no limit.
    pub at_most: u32,
}

impl Sampling {
    /// Records all events.
    pub const ALL: Sampling = Sampling { every: 1, at_most: 0 };

    /// Returns whether all events are recorded.
    #[must_use]
    pub fn is_all(self) -> bool {
        self.every <= 1 && self.at_most == 0
    }

    /// Returns the sampling of an event that two rules select. It leaves out nothing that one of the rules alone
    /// would record.
    #[must_use]
    pub fn of_either(self, other: Sampling) -> Sampling {
        let at_most = match (self.at_most, other.at_most) {
            (0, _) | (_, 0) => 0,
            (one, other) => one.max(other),
        };
        Sampling { every: self.every.min(other.every), at_most }
    }
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_of_two_rules_leaves_out_no_more_than_each_of_them() {
        let of = |every, at_most| Sampling { every, at_most };
        for (one, other, both) in [
            (of(10, 0), of(100, 0), of(10, 0)),
            (of(1, 50), of(1, 20), of(1, 50)),
            (of(10, 0), of(1, 20), Sampling::ALL),
            (of(10, 7), Sampling::ALL, Sampling::ALL),
            (of(10, 7), of(20, 9), of(10, 9)),
        ] {
            assert_eq!((one.of_either(other), other.of_either(one)), (both, both));
        }
        assert!(Sampling::default().is_all() && !of(2, 0).is_all() && !of(1, 1).is_all());
    }
}
