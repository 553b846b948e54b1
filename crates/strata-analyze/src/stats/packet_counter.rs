//! The loop that counts the records of neighbouring packets.

use strata_ctf::read::{Damage, Discarded, DiscardedKind, Event, Packet, TimeRange};

use super::totals::{ClassCount, PacketCpu, PartCount};
use super::{
    joined, AbsentKind, AbsentRange, Damaged, RecordCount, TimeColumns, TraceSpan, DAMAGE_KEPT,
    RANGES_KEPT,
};

/// The counts of a class in the part that is being read, in a form for the fast loop.
#[derive(Clone, Copy)]
struct ClassSlot {
    records: u64,
    bytes: u64,
    smallest: u64,
    largest: u64,
}

const EMPTY: ClassSlot = ClassSlot { records: 0, bytes: 0, smallest: u64::MAX, largest: 0 };

/// A thread's counts by class.
pub(super) struct ClassCounts {
    /// Counts by [`strata_ctf::read::EventClass::index`].
    slots: Vec<ClassSlot>,
    /// The indexes of slots that have records.
    used: Vec<usize>,
    /// The classes that were seen: name, trace, and records in all earlier parts.
    seen: Vec<Option<ClassCount>>,
}

impl ClassCounts {
    /// Returns empty counts for `classes` classes.
    pub fn new(classes: usize) -> ClassCounts {
        ClassCounts {
            slots: vec![EMPTY; classes],
            used: Vec::new(),
            seen: (0..classes).map(|_| None).collect(),
        }
    }

    /// Returns the counts of all classes that were seen.
    pub fn counted(self) -> impl Iterator<Item = ClassCount> {
        self.seen.into_iter().flatten()
    }

    /// Begins a class with its first record in this part.
    #[cold]
    fn begin(&mut self, event: &Event<'_>) {
        let index = event.class().index();
        self.used.push(index);
        if let Some(seen @ None) = self.seen.get_mut(index) {
            *seen = Some(ClassCount {
                name: event.class().name().to_owned(),
                trace: event.stream().trace().index(),
                count: RecordCount::default(),
            });
        }
    }

    /// Ends the part. Adds its counts to those of the thread, and returns their sum.
    fn end(&mut self) -> RecordCount {
        let mut all = RecordCount::default();
        for index in self.used.drain(..) {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            let ClassSlot { records, bytes, smallest, largest } = std::mem::replace(slot, EMPTY);
            let count = RecordCount { records, bytes, smallest, largest };
            all.add(&count);
            if let Some(Some(seen)) = self.seen.get_mut(index) {
                seen.count.add(&count);
            }
        }
        all
    }
}

/// The counts of a part. The thread's counts by class and over time are updated with it.
pub(super) struct PartCounting<'w> {
    classes: &'w mut ClassCounts,
    timeline: Option<&'w mut TimeColumns>,
    range: TimeRange,
    part: PartCount,
    column: usize,
    /// The number of records of the present column that are not yet in the timeline.
    in_column: u64,
    /// The first time of the present column; `reach` is the distance to its last one.
    floor: i64,
    reach: u64,
    /// The time of the last record.
    last: i64,
    /// The longest time between two records so far \[ns\].
    longest: u64,
}

impl<'w> PartCounting<'w> {
    /// Returns an empty count.
    pub fn new(
        classes: &'w mut ClassCounts,
        timeline: Option<&'w mut TimeColumns>,
        range: TimeRange,
    ) -> PartCounting<'w> {
        PartCounting {
            classes,
            timeline,
            range,
            part: PartCount::default(),
            column: 0,
            in_column: 0,
            // Holds no time but the earliest: the first record looks for its column.
            floor: i64::MIN,
            reach: 0,
            last: i64::MIN,
            longest: u64::MAX,
        }
    }

    /// Returns true if a record is in the requested time. A record without a time is so only if the whole time is
    /// requested.
    pub fn in_range(&self, event: &Event<'_>) -> bool {
        event.time().map_or(self.range == TimeRange::ALL, |time| self.range.contains(time))
    }

    /// Counts a record.
    #[inline(always)]
    pub fn event(&mut self, event: &Event<'_>) {
        let bytes = event.bytes();
        let Some(slot) = self.classes.slots.get_mut(event.class().index()) else { return };
        let first = slot.records == 0;
        // As many as a part has, which is less than 64 bits hold.
        slot.records = slot.records.wrapping_add(1);
        slot.bytes = slot.bytes.wrapping_add(bytes);
        slot.smallest = slot.smallest.min(bytes);
        slot.largest = slot.largest.max(bytes);
        if first {
            self.classes.begin(event);
        }
        if let Some(time) = event.time() {
            // One comparison for both borders: what is below the floor wraps around.
            if time.wrapping_sub(self.floor) as u64 > self.reach {
                self.enter(time);
            }
            self.in_column = self.in_column.wrapping_add(1);
            if time.wrapping_sub(self.last) as u64 > self.longest {
                self.silence(time);
            }
            self.last = time;
        }
    }

    /// Enters the first or another column, with a record of this time.
    #[cold]
    fn enter(&mut self, time: i64) {
        if self.part.times.is_none() {
            self.part.times = Some((time, time));
            self.last = time;
            self.longest = 0;
        }
        self.flush();
        match &self.timeline {
            Some(timeline) => {
                self.column = timeline.column(time);
                let (from, to) = timeline.bounds(self.column);
                (self.floor, self.reach) = (from, to.abs_diff(from));
            }
            None => (self.floor, self.reach) = (i64::MIN, u64::MAX),
        }
    }

    /// Notes the time without records before a record, if that is the longest so far, and records whose time goes back.
    #[cold]
    fn silence(&mut self, time: i64) {
        if time > self.last {
            self.longest = time.abs_diff(self.last);
            self.part.silence = Some(TraceSpan { from: self.last, to: time });
        }
    }

    fn flush(&mut self) {
        let records = self.timeline.as_mut().and_then(|t| t.records.get_mut(self.column));
        if let Some(records) = records {
            *records = records.saturating_add(self.in_column);
        }
        self.in_column = 0;
    }

    /// Counts a packet.
    pub fn packet(&mut self, packet: &Packet) {
        let span = match (packet.begin, packet.end) {
            (Some(from), Some(to)) => Some(TraceSpan { from: from.min(to), to: to.max(from) }),
            (from, to) => from.or(to).map(|time| TraceSpan { from: time, to: time }),
        };
        if !span.is_none_or(|span| self.touches(span)) {
            return;
        }
        let range = self.range;
        let part = &mut self.part;
        part.span = joined(part.span, span.map(|span| within(span, range)));
        part.packets = part.packets.saturating_add(1);
        part.telling_packets += u64::from(packet.discarded.is_some());
        part.content_bits = part.content_bits.saturating_add(packet.content_bits);
        part.packet_bits = part.packet_bits.saturating_add(packet.packet_bits);
        part.cpu = part.cpu.with(packet.cpu.map_or(PacketCpu::None, PacketCpu::One));
    }

    fn touches(&self, span: TraceSpan) -> bool {
        span.from <= self.range.to && span.to >= self.range.from
    }

    /// Counts a loss.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) {
        let span = match (discarded.from, discarded.to) {
            (Some(from), Some(to)) => Some(TraceSpan { from: from.min(to), to: to.max(from) }),
            (from, to) => from.or(to).map(|time| TraceSpan { from: time, to: time }),
        };
        if !span.is_none_or(|span| self.touches(span)) {
            return;
        }
        let (kind, sum) = match discarded.kind {
            DiscardedKind::Records => (AbsentKind::Records, &mut self.part.absent_records),
            DiscardedKind::Packets => (AbsentKind::Packets, &mut self.part.absent_packets),
        };
        *sum = sum.saturating_add(discarded.count);
        let range = AbsentRange {
            kind,
            count: discarded.count,
            span,
            told: 1,
            at_begin: discarded.at_begin,
        };
        self.part.absent.push(range, RANGES_KEPT);
    }

    /// Counts damage, and keeps its description if there is room.
    pub fn damage(&mut self, damage: &Damage) {
        if damage.is_note() {
            self.part.note.get_or_insert_with(|| damaged(damage));
            return;
        }
        let found = u64::from(!damage.is_remark());
        self.part.damage_found = self.part.damage_found.saturating_add(found);
        if self.part.damage.len() < DAMAGE_KEPT {
            self.part.damage.push(damaged(damage));
        }
    }

    /// Returns the counts as those of part `number` of a stream.
    pub fn finish(mut self, stream: usize, number: u64) -> PartCount {
        self.flush();
        self.part.count = self.classes.end();
        if let Some((_, last)) = &mut self.part.times {
            *last = self.last;
        }
        self.part.stream = stream;
        self.part.number = number;
        self.part
    }
}

/// Returns the part of a span that is in a range. The two must overlap.
fn within(span: TraceSpan, range: TimeRange) -> TraceSpan {
    TraceSpan { from: span.from.max(range.from), to: span.to.min(range.to) }
}

/// Returns damage in the form for [`Stats`](super::Stats).
pub(super) fn damaged(damage: &Damage) -> Damaged {
    Damaged {
        trace: damage.trace.to_path_buf(),
        stream: damage.stream.as_deref().unwrap_or("").to_owned(),
        packet: damage.packet,
        offset: damage.offset,
        message: damage.to_string(),
    }
}
