//! Where one stream's file has got to, and what the next packet in it must say.
//!
//! Sizes come checked from the ring; times, counts and order are the producer's word. Nothing here does
//! I/O: a [`PacketWriting`] is made for a packet, and counts once it was written ([`StreamTrack::written`]).

use crate::left::PassedBytes;
use crate::stats::{discarded_of, StreamStats};
use strata_model::{Demand, Discarded};
use strata_ring::{Counters, Info};

/// A producer's clock may be so far ahead of ours; what is later than that is a lie [ns].
const AHEAD_NS: u64 = 1_000_000_000;

/// No record is shorter: a compact header \[byte\].
const RECORD_BYTES_MIN: u64 = 4;

/// Part of a packet that was written while the packet was being filled.
#[derive(Clone, Copy, Debug)]
struct WrittenPart {
    position: u64,
    bytes: u64,
    records: u64,
}

/// How one packet, or a part of one, is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketWriting {
    /// First byte to write, from the begin of the sub-buffer.
    pub from: u64,
    /// Bytes of records; 0: nothing new.
    pub body_bytes: u64,
    pub begin: u64,
    pub end: u64,
    pub discarded: u64,
    /// What the packet before must say of its end, since this one begins earlier.
    pub mend: Option<u64>,
    position: u64,
    /// The packet up to here is in the file then \[byte\].
    upto: u64,
    records: Option<u64>,
    whole: bool,
    overwritten: u64,
    /// Records of a part in the file, whose packet was overwritten afterwards.
    kept: u64,
    /// What was discarded until it was looked at, and when that was \[ns\]; `None`: the packet counts no more than the one
    /// before it.
    losses: Option<(Discarded, u64)>,
    /// What it counts as discarded, but for overwritten records.
    told_losses: u64,
    pub damage: Option<String>,
}

impl PacketWriting {
    /// There is something to write, and the producer has not said of how many records.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.body_bytes > 0 && self.records.is_none()
    }

    /// What of the stream is before that is written with it \[byte since stream creation\].
    pub(crate) fn end_position(&self) -> u64 {
        self.position.wrapping_add(self.upto)
    }

    /// Only its first bytes are written, which are so many records, the last of this time; it goes on later, or
    /// never.
    pub(crate) fn cut(&mut self, records: u64, body_bytes: u64, last: u64) {
        // Readers complete the records' times from here on.
        self.end = last.clamp(self.begin, self.end.max(self.begin));
        self.records = Some(records);
        self.body_bytes = body_bytes;
        self.upto = self.from + body_bytes;
        self.whole = false;
    }

    /// Its first `body_bytes` are whole records, so many; it ends there, for this reason if that is not all
    /// of it.
    pub(crate) fn count(&mut self, records: u64, body_bytes: u64, why: Option<String>) {
        self.records = Some(records);
        self.body_bytes = self.body_bytes.min(body_bytes);
        self.damage = self.damage.take().or(why);
    }
}

/// One stream.
#[derive(Debug, Default)]
pub(crate) struct StreamTrack {
    pub stats: StreamStats,
    subbuf_bytes: u64,
    /// By commit, a packet's end may be later than the next one's begin: a flush from outside stamps it.
    flushed_outside: bool,
    begin: u64,
    end: u64,
    discarded: u64,
    overwritten: u64,
    kept: u64,
    part: Option<WrittenPart>,
    /// Position behind the last whole packet.
    next: Option<u64>,
    /// When the stream is to begin, if not with its first record.
    from: Option<u64>,
    /// See [`StreamTrack::of_snapshot`].
    is_of_snapshot: bool,
    /// What was discarded before a snapshot's first packet, or is told by traces that are behind, of this session or of
    /// the one before.
    before: u64,
    /// What is in traces that are behind: see [`StreamTrack::cut`].
    behind: StreamStats,
    /// Discarded records whose time is known, and what packets have counted of them.
    losses: Discarded,
    told_losses: u64,
    /// Of a buffer that was full: how often until the last packets were taken, and since all was taken in time.
    full: u64,
    piled: u64,
    piled_ns: u64,
}

impl StreamTrack {
    pub(crate) fn new(cpu: u32, subbuf_bytes: u64, flushed_outside: bool) -> Self {
        let stats = StreamStats { cpu, ..StreamStats::default() };
        Self { stats, subbuf_bytes, flushed_outside, ..Self::default() }
    }

    /// The same for a snapshot, which begins with what is there: what was before it is not told as absent.
    pub(crate) fn of_snapshot(cpu: u32, subbuf_bytes: u64, flushed_outside: bool) -> Self {
        Self { is_of_snapshot: true, ..Self::new(cpu, subbuf_bytes, flushed_outside) }
    }

    /// Goes on where another trace has ended, which tells of so many discarded records. When those were discarded that are
    /// counted by now, nobody knows here.
    pub(crate) fn go_on(&mut self, told: u64, counters: &Counters) {
        (self.before, self.discarded) = (told, told);
        (self.losses, self.told_losses) = (discarded_of(counters), told);
    }

    /// Goes on within the packet at `position`, whose records begin at `header_bytes`: so much of it is in another trace, as
    /// are all packets before it.
    pub(crate) fn go_on_within(&mut self, position: u64, header_bytes: u64, passed: &PassedBytes) {
        let bytes = header_bytes.saturating_add(passed.bytes);
        self.part = Some(WrittenPart { position, bytes, records: passed.records });
        self.next = Some(position);
        (self.begin, self.end) = passed.times;
    }

    /// The packet of this plan is about to be written: what a snapshot's first one counts was before it.
    pub(crate) fn begin(&mut self, plan: &PacketWriting) {
        if self.is_of_snapshot && self.stats.packets == 0 {
            self.before = plan.discarded;
        }
    }

    /// The trace is complete: what comes next is of another one, whose packets count from 0.
    pub(crate) fn cut(&mut self) {
        let new = StreamStats { cpu: self.stats.cpu, ..StreamStats::default() };
        self.behind.add(&std::mem::replace(&mut self.stats, new));
        self.before = self.discarded;
        self.from = None;
    }

    /// What is in this trace and in those that are behind.
    pub(crate) fn all(&self) -> StreamStats {
        let mut all = self.stats.clone();
        all.add(&self.behind);
        all
    }

    /// Whether there is a packet of it, in this trace or in those that are behind.
    fn has_packets(&self) -> bool {
        self.stats.packets > 0 || self.behind.packets > 0
    }

    /// When its last packet begins and ends \[ns\].
    pub(crate) fn last_times(&self) -> (u64, u64) {
        (self.begin, self.end)
    }

    /// Packets that come next may begin earlier than what was written last says of its end.
    pub(crate) fn set_last_times(&mut self, (begin, end): (u64, u64)) {
        (self.begin, self.end) = (begin, end);
    }

    /// What of the discarded is none of this trace's.
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// Of so many discarded since the stream was made, those that the trace is to count.
    pub(crate) fn counted(&self, discarded: u64) -> u64 {
        discarded.saturating_sub(self.before)
    }

    /// The stream is to begin here.
    pub(crate) fn span_from(&mut self, from: u64) {
        self.from = Some(from);
    }

    /// When the stream is to begin.
    pub(crate) fn spans_from(&self) -> Option<u64> {
        self.from
    }

    /// The last packet in the file ends here.
    pub(crate) fn ended(&mut self, end: u64) {
        self.end = end;
    }

    /// The packet's description is wrong.
    pub(crate) fn damaged(&mut self, what: String) {
        self.stats.damaged += 1;
        self.stats.damage.get_or_insert(what);
    }

    /// What the stream's file says of its last packet's end [ns].
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the packet at `position` is behind us.
    pub(crate) fn has(&self, position: u64) -> bool {
        // Positions wrap; what is behind is less than half of all of them away.
        self.next.is_some_and(|next| (position.wrapping_sub(next) as i64) < 0)
    }

    /// Bytes of the packet being filled that are in the file.
    pub(crate) fn cut_bytes(&self) -> u64 {
        self.part.map_or(0, |part| part.bytes)
    }

    /// What the stream's file says of discarded and overwritten records.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Overwritten and never in the file.
    pub(crate) fn overwritten(&self, counters: &Counters) -> u64 {
        counters.overwritten_records.saturating_sub(self.kept)
    }

    /// Neither in the file nor overwritten, of at most so many bytes.
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

    /// Everything that can be read is in the file: what else was written is behind holes.
    pub(crate) fn finished(&mut self, counters: &Counters) {
        let all = self.all();
        let stats = &mut self.stats;
        if stats.unpublished_bytes > 0 && all.uncounted_packets == 0 {
            let overwritten = counters.overwritten_records.saturating_sub(self.kept);
            let unread = counters.written.saturating_sub(overwritten).saturating_sub(all.records);
            stats.unread_records = unread.min(stats.unpublished_bytes / RECORD_BYTES_MIN);
        }
    }

    /// How to write the packet `info`, of which no more will come if it is `whole`.
    ///
    /// # Errors
    /// It must not be written: the text says why.
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

    /// Begin and end: never back, never far ahead of now, each record between them.
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
            plan.damage = Some(named(&format!("begins at {} ns, and it is {now} ns", plan.begin)));
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

    /// The plan was carried out; `packet`: a packet was written for it.
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

    /// What is counted now and was not before was discarded within these times.
    fn losses_at(&mut self, losses: Discarded, times: (u64, u64)) {
        self.stats.times.grow(&self.losses, &losses, times);
        self.losses = losses;
    }

    /// No packet comes any more that tells when the rest was discarded.
    pub(crate) fn losses_until(&mut self, counters: &Counters, now: u64) {
        // Without a packet, nobody knows since when.
        if self.has_packets() {
            self.losses_at(discarded_of(counters), (self.end, now));
        }
    }

    /// Packets were taken, `late_ns` after the last look; the buffer, which holds `capacity`, was found full so often
    /// since the stream was made.
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

    /// A packet without records was written.
    pub(crate) fn written_empty(&mut self, begin: u64, end: u64, discarded: u64, file_bytes: u64) {
        self.begin = begin;
        self.end = end;
        self.discarded = discarded;
        self.stats.packets += 1;
        self.stats.bytes = file_bytes;
    }
}
