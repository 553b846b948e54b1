//! The reasons for which event records are missing, and what happens when buffers are full.

/// The treatment of a new record when all sub-buffers are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossMode {
    /// Discards the new record, and counts it.
    #[default]
    Discard,
    /// Overwrites the oldest packet, and counts it.
    Overwrite,
}

impl LossMode {
    /// Returns the mode's name in options and in a trace's environment.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LossMode::Discard => "discard",
            LossMode::Overwrite => "overwrite",
        }
    }

    /// Returns the mode with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<LossMode> {
        [LossMode::Discard, LossMode::Overwrite].into_iter().find(|mode| mode.name() == name)
    }
}

/// Defines [`Discarded`] and [`DiscardReason`] from one list, so that a new reason is one line.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $field:ident $variant:ident $name:literal,)+) => {
        /// Reasons for which an event record was never written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DiscardReason {
            $($(#[$doc])+ $variant,)+
        }

        impl DiscardReason {
            /// All reasons, in the order in which they are reported.
            pub const ALL: &'static [DiscardReason] = &[$(DiscardReason::$variant,)+];

            /// Returns the reason's name in messages.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(DiscardReason::$variant => $name,)+
                }
            }
        }

        /// Numbers of event records that were never written, by reason. Those of applications are as the producer
        /// claims.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Discarded {
            $($(#[$doc])+ pub $field: u64,)+
        }

        impl Discarded {
            /// Returns the number of records that were discarded for this reason.
            #[must_use]
            pub fn of(&self, reason: DiscardReason) -> u64 {
                match reason {
                    $(DiscardReason::$variant => self.$field,)+
                }
            }

            fn of_mut(&mut self, reason: DiscardReason) -> &mut u64 {
                match reason {
                    $(DiscardReason::$variant => &mut self.$field,)+
                }
            }
        }
    };
}

reasons! {
    /// All sub-buffers were full.
    full Full "full",
    /// The record is larger than a sub-buffer, or there was no memory to assemble it.
    too_big TooBig "too big",
    /// The next sub-buffer still held an incomplete record of the previous lap: its writer was interrupted too deeply,
    /// preempted for a whole lap, or killed.
    nested Nested "sub-buffer still being written",
    /// The CPU was added after the channel was made, and has no stream.
    no_stream NoStream "CPU without a stream",
    /// The kernel did not run the program that writes the record, since one was running on that CPU already.
    not_run NotRun "program already running",
    /// The process could not map the channel.
    unmapped Unmapped "buffers not mapped",
    /// The process had no memory to assemble the record.
    unstaged Unstaged "no memory for the record",
    /// The thread may not read the clock.
    no_clock NoClock "no clock",
    /// The recording had failed: nothing could be written any more.
    unwritten Unwritten "not written to a file",
}

impl Discarded {
    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.each().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Returns each reason with its count.
    pub fn each(&self) -> impl Iterator<Item = (DiscardReason, u64)> + '_ {
        DiscardReason::ALL.iter().map(|&reason| (reason, self.of(reason)))
    }

    /// Subtracts `count` from this reason, down to 0.
    pub fn take(&mut self, reason: DiscardReason, count: u64) {
        let left = self.of_mut(reason);
        *left = left.saturating_sub(count);
    }

    /// Adds `other`. Sums saturate, since the numbers come from processes and may be wrong.
    pub fn add(&mut self, other: &Discarded) {
        for (reason, count) in other.each() {
            let sum = self.of_mut(reason);
            *sum = sum.saturating_add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_mode_has_the_name_that_it_is_found_by() {
        for mode in [LossMode::Discard, LossMode::Overwrite] {
            assert_eq!(LossMode::from_name(mode.name()), Some(mode));
        }
        assert_eq!(LossMode::from_name("Discard"), None);
    }

    #[test]
    fn discarded_counts_each_reason_once_and_stops_at_the_largest_number() {
        let mut discarded = Discarded::default();
        for (number, &reason) in DiscardReason::ALL.iter().enumerate() {
            *discarded.of_mut(reason) = 1 << number;
        }
        assert_eq!(discarded.total(), (1 << DiscardReason::ALL.len()) - 1);
        let mut sum = discarded;
        sum.add(&discarded);
        assert_eq!(sum.total(), 2 * discarded.total());
        sum.add(&Discarded { full: u64::MAX, ..Discarded::default() });
        assert_eq!((sum.full, sum.total()), (u64::MAX, u64::MAX));
    }
}
