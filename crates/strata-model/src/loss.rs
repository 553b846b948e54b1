//! What a recording has, and what it has not: counts, and the reasons why event records are missing.

use std::time::Duration;

/// What happens to a new record when all sub-buffers are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossMode {
    /// It is discarded, and counted.
    #[default]
    Discard,
    /// It overwrites the oldest packet, and that is counted.
    Overwrite,
}

impl LossMode {
    /// As options and a trace's environment have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LossMode::Discard => "discard",
            LossMode::Overwrite => "overwrite",
        }
    }

    /// The mode of this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<LossMode> {
        [LossMode::Discard, LossMode::Overwrite].into_iter().find(|mode| mode.name() == name)
    }
}

/// Defines [`Discarded`] and [`Reason`] from one list, so that a new reason is one line.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $field:ident $variant:ident $name:literal,)+) => {
        /// Why an event record was never written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])+ $variant,)+
        }

        impl Reason {
            /// All of them, in the order in which they are reported.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant,)+];

            /// As messages have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$variant => $name,)+
                }
            }
        }

        /// Event records that were never written, by reason. Of applications it is the producer's word.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Discarded {
            $($(#[$doc])+ pub $field: u64,)+
        }

        impl Discarded {
            /// How many for this reason.
            #[must_use]
            pub fn of(&self, reason: Reason) -> u64 {
                match reason {
                    $(Reason::$variant => self.$field,)+
                }
            }

            fn of_mut(&mut self, reason: Reason) -> &mut u64 {
                match reason {
                    $(Reason::$variant => &mut self.$field,)+
                }
            }
        }
    };
}

reasons! {
    /// All sub-buffers were full.
    full Full "full",
    /// More than a sub-buffer holds, or no memory to assemble it.
    too_big TooBig "too big",
    /// The sub-buffer still held a record of the lap before that was not complete: its writer was interrupted
    /// too deeply, preempted for a whole lap, or killed.
    nested Nested "sub-buffer still being written",
    /// On a CPU that came after the channel was made.
    no_stream NoStream "CPU without a stream",
    /// The kernel did not run the program that writes it: one was running on that CPU already.
    not_run NotRun "program already running",
    /// The process could not map the channel.
    unmapped Unmapped "buffers not mapped",
    /// The process had no memory to assemble the record in.
    unstaged Unstaged "no memory for the record",
    /// The thread may not read the clock.
    no_clock NoClock "no clock",
    /// The recording had failed: nothing could be written any more.
    unwritten Unwritten "not written to a file",
}

impl Discarded {
    /// All reasons together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.each().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Each reason and its count.
    pub fn each(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.iter().map(|&reason| (reason, self.of(reason)))
    }

    /// Counts `other` too. Numbers come from processes, which may lie: they stop at their largest.
    pub fn add(&mut self, other: &Discarded) {
        for (reason, count) in other.each() {
            let sum = self.of_mut(reason);
            *sum = sum.saturating_add(count);
        }
    }
}

/// What was recorded, of one producer or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Event records in the trace.
    pub records: u64,
    /// Packets in the trace.
    pub packets: u64,
    /// Their size \[byte\].
    pub bytes: u64,
    /// The size of the metadata that describe them \[byte\].
    pub metadata_bytes: u64,
    /// Time of the first and the last packet's ends, `CLOCK_MONOTONIC` \[ns\].
    pub span: Option<(u64, u64)>,
    /// Records that were never written.
    pub discarded: Discarded,
    /// Records that were written, then reclaimed before they were read.
    pub overwritten: u64,
    /// How many of those discarded and overwritten the packets in the trace count.
    pub told: u64,
    /// Streams: CPUs that the producer could have run on.
    pub streams: u32,
    /// How many of them discarded records.
    pub streams_discarding: u32,
    /// Packets that were not well formed, and are not in the trace.
    pub damaged_packets: u64,
    /// Reserved by threads that were killed, or stood still, before they had written it \[byte\]; at most.
    pub unpublished_bytes: u64,
    /// Records of other threads behind that, which cannot be read.
    pub unread_records: u64,
}

impl Counts {
    /// Counts `other` too. Numbers come from processes, which may lie: they stop at their largest.
    pub fn add(&mut self, other: &Counts) {
        self.records = self.records.saturating_add(other.records);
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.metadata_bytes = self.metadata_bytes.saturating_add(other.metadata_bytes);
        self.span = match (self.span, other.span) {
            (Some((begin, end)), Some((first, last))) => Some((begin.min(first), end.max(last))),
            (one, another) => one.or(another),
        };
        self.discarded.add(&other.discarded);
        self.overwritten = self.overwritten.saturating_add(other.overwritten);
        self.told = self.told.saturating_add(other.told);
        self.streams = self.streams.saturating_add(other.streams);
        self.streams_discarding = self.streams_discarding.saturating_add(other.streams_discarding);
        self.damaged_packets = self.damaged_packets.saturating_add(other.damaged_packets);
        self.unpublished_bytes = self.unpublished_bytes.saturating_add(other.unpublished_bytes);
        self.unread_records = self.unread_records.saturating_add(other.unread_records);
    }

    /// From the first to the last packet's ends.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| {
            Duration::from_nanos(last.saturating_sub(first))
        })
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
        for (number, &reason) in Reason::ALL.iter().enumerate() {
            *discarded.of_mut(reason) = 1 << number;
        }
        assert_eq!(discarded.total(), (1 << Reason::ALL.len()) - 1);
        let mut sum = discarded;
        sum.add(&discarded);
        assert_eq!(sum.total(), 2 * discarded.total());
        sum.add(&Discarded { full: u64::MAX, ..Discarded::default() });
        assert_eq!((sum.full, sum.total()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn counts_of_two_processes_add_up_and_span_both() {
        let one = Counts {
            records: 1,
            packets: 2,
            bytes: 3,
            span: Some((10, 20)),
            discarded: Discarded { full: 1, unstaged: u64::MAX, ..Discarded::default() },
            streams: 2,
            ..Counts::default()
        };
        let other = Counts {
            span: Some((5, 12)),
            overwritten: 9,
            discarded: Discarded { full: 2, unstaged: 1, ..Discarded::default() },
            ..one
        };
        let mut sum = Counts::default();
        assert_eq!(sum.duration(), Duration::ZERO);
        sum.add(&one);
        sum.add(&other);
        assert_eq!((sum.records, sum.packets, sum.bytes, sum.streams), (2, 4, 6, 4));
        assert_eq!((sum.span, sum.duration()), (Some((5, 20)), Duration::from_nanos(15)));
        assert_eq!((sum.discarded.full, sum.discarded.unstaged), (3, u64::MAX));
        assert_eq!((sum.discarded.total(), sum.overwritten), (u64::MAX, 9));
    }
}
