//! Write state of one stream's file, and headers of its packets.
//!
//! Sizes were checked by the ring; times, counts and order are claims of the producer. Nothing here does I/O: a
//! [`PacketWriting`] is made for a packet, and counts once the packet is written ([`StreamTrack::written`]).

use crate::adopted_buffers::PassedBytes;
use crate::stats::{discarded_of, StreamStats};
use strata_model::{Demand, Discarded};
use strata_ring::{Counters, Info};

/// The most that a producer's clock may be ahead of this process' clock; later times are invalid \[ns\].
const AHEAD_NS: u64 = 1_000_000_000;

/// Size of the shortest record, which has a compact header only \[byte\].
const RECORD_BYTES_MIN: u64 = 4;

/// Part of a packet that was written while the packet was being filled.
#[derive(Clone, Copy, Debug)]
struct WrittenPart {
    position: u64,
    bytes: u64,
    records: u64,
}

/// Plan for writing one packet, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketWriting {
    /// First byte to write, counted from the begin of the sub-buffer.
    pub from: u64,
    /// Size of the records to write; 0 if there are no new ones \[byte\].
    pub body_bytes: u64,
    pub begin: u64,
    pub end: u64,
    pub discarded: u64,
    /// New end time of the packet before, if this one begins earlier than that packet's present end \[ns\].
    pub mend: Option<u64>,
    position: u64,
    /// End of the written part of the packet, once this plan was carried out \[byte\].
    upto: u64,
    records: Option<u64>,
    whole: bool,
    overwritten: u64,
    /// Number of records in a part that was written to the file before its packet was overwritten.
    kept: u64,
    /// Discards until the last look, and the time of that look \[ns\]; `None` if this packet counts no more discards
    /// than the one before.
    losses: Option<(Discarded, u64)>,
    /// Discarded records that the packet counts, without overwritten ones.
    told_losses: u64,
    pub damage: Option<String>,
}

impl PacketWriting {
    /// Returns whether there is something to write and the producer has not counted its records.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.body_bytes > 0 && self.records.is_none()
    }

    /// Returns the number of records to write; 0 if it is not known.
    pub(crate) fn records(&self) -> u64 {
        self.records.unwrap_or(0)
    }

    /// Returns the position in the stream up to which everything is written with this packet \[byte since stream
    /// creation\].
    pub(crate) fn end_position(&self) -> u64 {
        self.position.wrapping_add(self.upto)
    }

    /// Reduces the packet to its first `body_bytes` bytes, which have `records` records, the last one of time `last`.
    /// The rest may be written later.
    pub(crate) fn cut(&mut self, records: u64, body_bytes: u64, last: u64) {
        // Readers complete the records' times from here on.
        self.end = last.clamp(self.begin, self.end.max(self.begin));
        self.records = Some(records);
        self.body_bytes = body_bytes;
        self.upto = self.from + body_bytes;
        self.whole = false;
    }

    /// Sets the number of whole records in the first `body_bytes`, where the packet then ends, and the reason why the
    /// bytes after them are left out, if there are any.
    pub(crate) fn count(&mut self, records: u64, body_bytes: u64, why: Option<String>) {
        self.records = Some(records);
        self.body_bytes = self.body_bytes.min(body_bytes);
        self.damage = self.damage.take().or(why);
    }
}

/// The write state of one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamTrack {
    pub stats: StreamStats,
    subbuf_bytes: u64,
    /// True if another process can flush the stream and stamp its packets, so that a packet may end later than the next
    /// one begins (publication by commit).
    flushed_outside: bool,
    begin: u64,
    end: u64,
    discarded: u64,
    overwritten: u64,
    kept: u64,
    part: Option<WrittenPart>,
    /// Position after the last whole packet \[byte since stream creation\].
    next: Option<u64>,
    /// Time at which the stream is to begin, if not with its first record \[ns\].
    from: Option<u64>,
    /// True if the trace is a snapshot; see [`StreamTrack::of_snapshot`].
    is_of_snapshot: bool,
    /// Discards that other traces report, or that happened before a snapshot's first packet.
    before: u64,
    /// Sum of the counts of earlier traces; see [`StreamTrack::cut`].
    behind: StreamStats,
    /// Discarded records whose time is known, and which packets have counted.
    losses: Discarded,
    told_losses: u64,
    /// Records discarded by a full buffer: the total at the last read, and those since the last read that found no new
    /// ones, with their time. The demand is estimated from these.
    full: u64,
    piled: u64,
    piled_ns: u64,
}

impl StreamTrack {
    pub(crate) fn new(cpu: u32, subbuf_bytes: u64, flushed_outside: bool) -> Self {
        let stats = StreamStats { cpu, ..StreamStats::default() };
        Self { stats, subbuf_bytes, flushed_outside, ..Self::default() }
    }

    /// Makes the state for a snapshot, which begins with the oldest record in the buffer: earlier records do not count
    /// as missing.
    pub(crate) fn of_snapshot(cpu: u32, subbuf_bytes: u64, flushed_outside: bool) -> Self {
        Self { is_of_snapshot: true, ..Self::new(cpu, subbuf_bytes, flushed_outside) }
    }

    /// Continues after another trace, which reports `told` discarded records. The times of the discards since then are
    /// not known.
    pub(crate) fn go_on(&mut self, told: u64, counters: &Counters) {
        (self.before, self.discarded) = (told, told);
        (self.losses, self.told_losses) = (discarded_of(counters), told);
    }

    /// Continues a stream whose earlier packets are in another trace: within the packet at `position`, whose records
    /// begin at `header_bytes`. The first `passed` bytes of its records are in the other trace, too.
    pub(crate) fn go_on_within(&mut self, position: u64, header_bytes: u64, passed: &PassedBytes) {
        let bytes = header_bytes.saturating_add(passed.bytes);
        self.part = Some(WrittenPart { position, bytes, records: passed.records });
        self.next = Some(position);
        (self.begin, self.end) = passed.times;
    }

    /// Notes that the packet of this plan is about to be written. Discards that a snapshot's first packet counts
    /// happened before the snapshot.
    pub(crate) fn begin(&mut self, plan: &PacketWriting) {
        if self.is_of_snapshot && self.stats.packets == 0 {
            self.before = plan.discarded;
        }
    }

    /// Completes the present trace and begins another one, whose packets count from 0.
    pub(crate) fn cut(&mut self) {
        let new = StreamStats { cpu: self.stats.cpu, ..StreamStats::default() };
        self.behind.add(&std::mem::replace(&mut self.stats, new));
        self.before = self.discarded;
        self.from = None;
    }

    /// Returns the counts of this trace and the earlier ones.
    pub(crate) fn all(&self) -> StreamStats {
        let mut all = self.stats.clone();
        all.add(&self.behind);
        all
    }

    /// Returns whether this trace or an earlier one has a packet of the stream.
    fn has_packets(&self) -> bool {
        self.stats.packets > 0 || self.behind.packets > 0
    }

    /// Returns begin and end of the last packet \[ns\].
    pub(crate) fn last_times(&self) -> (u64, u64) {
        (self.begin, self.end)
    }

    /// Sets begin and end of the last packet \[ns\], so that the next one may begin earlier than records that were
    /// written already.
    pub(crate) fn set_last_times(&mut self, (begin, end): (u64, u64)) {
        (self.begin, self.end) = (begin, end);
    }

    /// Returns the number of discards that do not belong to this trace.
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// Returns how many of `discarded`, the records discarded since the stream was created, this trace counts.
    pub(crate) fn counted(&self, discarded: u64) -> u64 {
        discarded.saturating_sub(self.before)
    }

    /// Sets the time at which the stream is to begin \[ns\].
    pub(crate) fn span_from(&mut self, from: u64) {
        self.from = Some(from);
    }

    /// Returns the time at which the stream is to begin \[ns\], if one was set.
    pub(crate) fn spans_from(&self) -> Option<u64> {
        self.from
    }

    /// Sets the end of the last packet in the file \[ns\].
    pub(crate) fn ended(&mut self, end: u64) {
        self.end = end;
    }

    /// Notes that a packet's description is wrong, for the reason `what`.
    pub(crate) fn damaged(&mut self, what: String) {
        self.stats.damaged += 1;
        self.stats.damage.get_or_insert(what);
    }

    /// Returns the end of the last packet in the stream's file \[ns\].
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether the packet at `position` is written.
    pub(crate) fn has(&self, position: u64) -> bool {
        // Positions wrap; what is behind is less than half of all of them away.
        self.next.is_some_and(|next| (position.wrapping_sub(next) as i64) < 0)
    }

    /// Returns how many bytes of the packet being filled are in the file.
    pub(crate) fn cut_bytes(&self) -> u64 {
        self.part.map_or(0, |part| part.bytes)
    }

    /// Returns the number of discarded and overwritten records that the stream's file counts.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Returns the number of records that were overwritten and are not in the file.
    pub(crate) fn overwritten(&self, counters: &Counters) -> u64 {
        counters.overwritten_records.saturating_sub(self.kept)
    }

    /// Returns the number of records that are neither in the file nor overwritten: no more than `held_bytes_max` bytes
    /// can hold.
    pub(crate) fn unwritten(&self, counters: &Counters, held_bytes_max: u64) -> u64 {
        let all = self.all();
        // Of a packet in a file that nobody could count, it is not known.
        if all.uncounted_packets > 0 {
            return 0;
        }
        counters
            .written
            .saturating_sub(self.overwritten(counters))
            .saturating_sub(all.records)
            .saturating_sub(all.unread_records)
            .min(held_bytes_max / RECORD_BYTES_MIN)
    }

    /// Counts records that were written but cannot be read: everything readable is in the file, and the others follow a
    /// record that was never committed.
    pub(crate) fn finished(&mut self, counters: &Counters) {
        let all = self.all();
        let stats = &mut self.stats;
        if stats.unpublished_bytes > 0 && all.uncounted_packets == 0 {
            let overwritten = counters.overwritten_records.saturating_sub(self.kept);
            let unread = counters.written.saturating_sub(overwritten).saturating_sub(all.records);
            stats.unread_records = unread.min(stats.unpublished_bytes / RECORD_BYTES_MIN);
        }
    }

    /// Plans how to write the packet `info`. With `whole`, no more of the packet will follow.
    ///
    /// # Errors
    /// The packet must not be written; the text is the reason.
    pub(crate) fn plan(
        &self,
        info: &Info,
        whole: bool,
        counters: impl FnOnce() -> Counters,
        now: impl Fn() -> u64,
    ) -> Result<PacketWriting, String> {
        let named = |what: &str| {
            format!("stream {}, packet at position {}: {what}", self.stats.cpu, info.position)
        };
        if self.has(info.position) {
            return Err(named("it was read already"));
        }
        let continued = self.part.filter(|part| part.position == info.position);
        let from = continued.map_or(info.header_bytes, |part| part.bytes);
        if info.content_bytes < from {
            return Err(named(&format!(
                "content size {} bytes, and {from} were there before",
                info.content_bytes
            )));
        }
        let mut plan = PacketWriting {
            from,
            body_bytes: info.content_bytes - from,
            begin: 0,
            end: 0,
            discarded: 0,
            mend: None,
            position: info.position,
            upto: info.content_bytes,
            records: None,
            whole,
            overwritten: self.overwritten,
            kept: self.kept,
            losses: None,
            told_losses: info.discarded,
            damage: None,
        };
        if let (Some(part), None) = (self.part, continued) {
            plan.kept = self.kept.saturating_add(part.records);
        }
        let records =
            info.records.map(|n| n.saturating_sub(continued.map_or(0, |part| part.records)));
        plan.records = records.map(|n| n.min(plan.body_bytes / RECORD_BYTES_MIN));
        if plan.records != records {
            plan.damage = Some(named(&format!(
                "{} records in {} bytes, counted less",
                records.unwrap_or(0),
                plan.body_bytes
            )));
        }
        self.times(&mut plan, info, continued.is_some(), &now, named);
        // Packets between the last one and this one were overwritten; or it is the first.
        let is_behind_a_gap = self.next != Some(info.position) && continued.is_none();
        let has_losses = info.discarded > self.told_losses;
        if is_behind_a_gap || has_losses {
            let counters = counters();
            if is_behind_a_gap {
                plan.overwritten = counters.overwritten_records.saturating_sub(plan.kept);
            }
            plan.losses = has_losses.then(|| (discarded_of(&counters), now()));
        }
        plan.discarded = info.discarded.saturating_add(plan.overwritten).max(self.discarded);
        Ok(plan)
    }

    /// Chooses begin and end of the packet: never before the packet before, never far in the future, and each record
    /// between them.
    fn times(
        &self,
        plan: &mut PacketWriting,
        info: &Info,
        continued: bool,
        now: &impl Fn() -> u64,
        named: impl Fn(&str) -> String,
    ) {
        let now = now();
        let limit = now.saturating_add(AHEAD_NS);
        plan.begin = if continued { self.end } else { info.timestamp_begin };
        if plan.begin > limit {
            plan.damage =
                Some(named(&format!("begins at {} ns, later than now, {now} ns", plan.begin)));
            plan.begin = limit.max(self.end);
        }
        if plan.begin < self.end {
            if self.flushed_outside && plan.begin >= self.begin {
                plan.mend = Some(plan.begin);
            } else {
                plan.damage = Some(named(&format!(
                    "begins at {} ns, the one before it ends at {} ns",
                    plan.begin, self.end
                )));
                plan.begin = self.end;
            }
        }
        plan.end = match info.timestamp_end {
            None => now.max(plan.begin),
            Some(end) if end < plan.begin => {
                // A packet that was closed from outside by a clock a little behind is no damage.
                if !self.flushed_outside {
                    plan.damage =
                        Some(named(&format!("ends at {end} ns and begins at {} ns", plan.begin)));
                }
                plan.begin
            }
            Some(end) if end > limit => {
                plan.damage = Some(named(&format!("ends at {end} ns, and it is {now} ns")));
                limit.max(plan.begin)
            }
            Some(end) => end,
        };
    }

    /// Notes that the plan was carried out. With `packet`, a packet was written for it.
    pub(crate) fn written(&mut self, plan: PacketWriting, packet: bool, file_bytes: u64) {
        if let Some(what) = plan.damage {
            self.damaged(what);
        }
        self.kept = plan.kept;
        let before = self.part.filter(|part| part.position == plan.position);
        self.part = if plan.whole {
            self.next = Some(plan.position.wrapping_add(self.subbuf_bytes));
            None
        } else {
            Some(WrittenPart {
                position: plan.position,
                bytes: plan.upto,
                records: before.map_or(0, |part| part.records) + plan.records.unwrap_or(0),
            })
        };
        if !packet {
            return;
        }
        if let Some((losses, looked)) = plan.losses {
            // Of the first packet it is only known that it was not later.
            let from = if self.has_packets() { self.end } else { plan.begin };
            // More may have been discarded since the packet was closed.
            let until = if losses.total() == plan.told_losses { plan.end } else { looked };
            self.losses_at(losses, (from, until));
            self.told_losses = plan.told_losses;
        }
        self.begin = plan.begin;
        self.end = plan.end;
        self.discarded = plan.discarded;
        self.overwritten = plan.overwritten;
        self.stats.packets += 1;
        self.stats.bytes = file_bytes;
        match plan.records {
            Some(n) => self.stats.records += n,
            None => self.stats.uncounted_packets += 1,
        }
        self.stats.first_timestamp.get_or_insert(plan.begin);
        self.stats.last_timestamp = Some(plan.end);
    }

    /// Assigns these times to the discards that were not counted before.
    fn losses_at(&mut self, losses: Discarded, times: (u64, u64)) {
        self.stats.times.grow(&self.losses, &losses, times);
        self.losses = losses;
    }

    /// Assigns the time until `now` to the remaining discards, since no later packet will show when they happened.
    pub(crate) fn losses_until(&mut self, counters: &Counters, now: u64) {
        // Without a packet, nobody knows since when.
        if self.has_packets() {
            self.losses_at(discarded_of(counters), (self.end, now));
        }
    }

    /// Notes that packets were taken, `late_ns` after the last look. `full` is the number of records discarded by a
    /// full buffer since the stream was created, and `capacity` is the buffer's size \[byte\].
    pub(crate) fn taken(&mut self, full: u64, capacity: u64, late_ns: u64) {
        let new = full.saturating_sub(std::mem::replace(&mut self.full, full));
        if new == 0 {
            (self.piled, self.piled_ns) = (0, 0);
            return;
        }
        self.piled = self.piled.saturating_add(new);
        self.piled_ns = self.piled_ns.saturating_add(late_ns);
        let all = self.all();
        let each = all.bytes.checked_div(all.records).unwrap_or(0);
        let bytes = self.piled.saturating_mul(each.max(RECORD_BYTES_MIN)).saturating_add(capacity);
        self.stats.demand = self.stats.demand.or(Demand { bytes, late_ns: self.piled_ns });
    }

    /// Notes that a packet without records was written.
    pub(crate) fn written_empty(&mut self, begin: u64, end: u64, discarded: u64, file_bytes: u64) {
        self.begin = begin;
        self.end = end;
        self.discarded = discarded;
        self.stats.packets += 1;
        self.stats.bytes = file_bytes;
    }
}
