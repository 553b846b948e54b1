//! What became of a stream's records.

/// Records that were never written, by reason. The producer's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// All sub-buffers were full.
    pub full: u64,
    /// More than a sub-buffer holds, or no memory to assemble it.
    pub too_big: u64,
    /// A slot of the lap before was not committed yet.
    pub nested: u64,
    /// The CPU's number is not in the channel.
    pub no_stream: u64,
    /// The kernel did not run the program that writes them: one was running on that CPU already.
    pub not_run: u64,
    /// Nothing could be written any more; known from [`crate::Collector::give_up`] on.
    pub unwritten: u64,
}

impl Discarded {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.full
            .saturating_add(self.too_big)
            .saturating_add(self.nested)
            .saturating_add(self.no_stream)
            .saturating_add(self.not_run)
            .saturating_add(self.unwritten)
    }
}

/// One stream, or with [`StreamStats::add`] several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Its CPU.
    pub cpu: u32,
    /// Records in the file.
    pub records: u64,
    /// Packets in the file, parts counted each.
    pub packets: u64,
    /// Packets in the file whose records nobody could count; not in `records`. None where the collector
    /// knows the event record classes ([`crate::Collector::set_classes`]).
    pub uncounted_packets: u64,
    /// The file's size \[byte\].
    pub bytes: u64,
    /// Never written.
    pub discarded: Discarded,
    /// Written, then reclaimed before they were read \[record\].
    pub overwritten: u64,
    /// How many of those discarded and overwritten the stream's packets count, for whoever reads them.
    pub told: u64,
    /// Packets that held them.
    pub overwritten_packets: u64,
    /// Reserved by threads that did not come to an end with it, killed as a rule, and not in the file:
    /// their records, and what others wrote behind them in the same sub-buffer \[byte\]. A bound, not a
    /// size: of a sub-buffer that is full, its padding is in it.
    pub unpublished_bytes: u64,
    /// Records that others wrote behind those, which nobody can read: nothing says where they begin. The
    /// producer's word; known from [`crate::Collector::finish`] on.
    pub unread_records: u64,
    /// Packets whose description was wrong: skipped, or put right.
    pub damaged: u64,
    /// The first of these.
    pub damage: Option<String>,
    /// Begin of the first packet with records \[ns\].
    pub first_timestamp: Option<u64>,
    /// End of the last one \[ns\].
    pub last_timestamp: Option<u64>,
}

impl StreamStats {
    /// Adds another stream's, for a sum; `cpu` stays.
    pub fn add(&mut self, other: &StreamStats) {
        for (sum, one) in [
            (&mut self.records, other.records),
            (&mut self.packets, other.packets),
            (&mut self.uncounted_packets, other.uncounted_packets),
            (&mut self.bytes, other.bytes),
            (&mut self.discarded.full, other.discarded.full),
            (&mut self.discarded.too_big, other.discarded.too_big),
            (&mut self.discarded.nested, other.discarded.nested),
            (&mut self.discarded.no_stream, other.discarded.no_stream),
            (&mut self.discarded.not_run, other.discarded.not_run),
            (&mut self.discarded.unwritten, other.discarded.unwritten),
            (&mut self.overwritten, other.overwritten),
            (&mut self.told, other.told),
            (&mut self.overwritten_packets, other.overwritten_packets),
            (&mut self.unpublished_bytes, other.unpublished_bytes),
            (&mut self.unread_records, other.unread_records),
            (&mut self.damaged, other.damaged),
        ] {
            *sum = sum.saturating_add(one);
        }
        if self.damage.is_none() {
            self.damage.clone_from(&other.damage);
        }
        self.first_timestamp = match (self.first_timestamp, other.first_timestamp) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.last_timestamp = self.last_timestamp.max(other.last_timestamp);
    }
}
