//! A cursor goes through one stream, message by message.
//!
//! [`Events`](super::Events) has one cursor for each stream and always shows the message with the least key. A cursor
//! turns the packets of its [`PacketSkipper`] into messages: begins of packets, event records, losses and damage, each with a key
//! by which streams are merged.
//!
//! ```text
//!             advance_any(): to the next message, whatever it is
//! packet ──▶ record ──▶ record ──▶ … ──▶ item between packets ──▶ packet …
//!             └ fast path: the next record has the form of most, and its bytes are in the window (Ahead, fast_path.rs)
//!             └ slow path: record(), refill(), unusual(), bad(): anything else
//! ```
//!
//! # Keys
//! The key of a record is its time, but never less than the key of the previous record in its packet, and never outside
//! of the packet's bounds. So headers alone show which packets can have messages of a time, and merged streams are in
//! order even if a clock stepped back.
//!
//! # Cost
//! Most records take the fast path: the header has LTTng's form, fields have fixed sizes or end at a NUL, and the
//! window has all of them. `fast_path.rs` passes a run of such records to the caller without returning to the merge, as long
//! as no other stream is due. The window is a few MiB at most, so the memory of a reader does not depend on the size of
//! a trace.
//!
//! docs/design/reading.md shows how much time an event takes, and for what.

use super::current_packet::PacketAtHand;
use super::damage::{Damage, DamageKind};
use super::decode::{Bad, BadKind, DecodeState, NoRecord, RecordShape, StreamDecoder, Window};
use super::event::Event;
use super::files::StoredFiles;
use super::packet_skip::{BetweenRecords, DiscardedGap, OpenedPacket, PacketPlace, PacketSkipper};
use super::stream::{Discarded, Packet, Stream};
use super::time::{Clock, TimeRange};
use super::window::LONGEST;

mod fast_path;
pub(crate) use fast_path::RunEnd;

/// The time range and the keys at which a cursor begins and ends.
///
/// The key of a message is the time by which it is sorted: an event's own time, but never before the key of an earlier
/// message of its packet and never outside of the packet's bounds. So headers alone show which packets may have
/// messages of some keys. A stream's messages are in the order of its bytes, even where keys go back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CursorBounds {
    /// The cursor begins with the first message whose key is not below this one. Earlier messages belong to another
    /// cursor.
    pub(crate) first: i64,
    /// The cursor ends before the first message whose key is above this one.
    pub(crate) last: i64,
    /// Messages of packets that lie outside of this range are left out.
    pub(crate) range: TimeRange,
    /// Number of the first packet that belongs to the next cursor, together with the items before it.
    pub(crate) packet: u64,
}

impl CursorBounds {
    pub(crate) const ALL: CursorBounds =
        CursorBounds { first: i64::MIN, last: i64::MAX, range: TimeRange::ALL, packet: u64::MAX };
}

/// Position of a cursor.
#[derive(Debug)]
enum CursorAt {
    Record,
    Packet,
    Discarded(DiscardedGap),
    Damage(Box<Damage>),
    End,
}

/// A message of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Message<'e> {
    /// An event record.
    Event(Event<'e>),
    /// A packet begins, with records or without.
    Packet(&'e Packet),
    /// Event records or packets that were discarded.
    Discarded(Discarded<'e>),
    /// A part of the stream that cannot be decoded, or that contradicts other parts.
    Damage(&'e Damage),
}

/// A record that [`Cursor::run`] reached without passing it on. Readers change between streams every few records,
/// and continuing from this state is faster than from that of [`Cursor::put`].
#[derive(Clone, Copy, Debug)]
struct UntoldRecord<'r> {
    /// Begin of the record \[bit of the packet\].
    begin: u64,
    time: i64,
    shape: &'r RecordShape,
    /// The range of bytes after the record that are in the window \[byte of the window\].
    rest: (usize, usize),
}

/// Outcome of moving to the next message.
enum CursorStep {
    Shown,
    Skipped,
    End,
}

#[derive(Debug)]
pub(crate) struct Cursor<'r> {
    /// Begin of the next record \[bit of the packet\].
    next: u64,
    /// End of the content \[bit of the packet\]; 0 while another message comes first.
    content: u64,
    /// Offset that converts a cycle to a time, while `limit` is not 0.
    base: i64,
    /// End of the window, or of the content \[bit of the packet\]. 0 unless the cursor is at a record and the next
    /// message is the next record, if its bytes are in the window.
    limit: u64,
    /// Key of the current message.
    key: i64,
    /// The least (`low`) and greatest (`high`) time of an event that is shown without further checks.
    low: i64,
    high: i64,
    /// The record at which the cursor is, if [`Cursor::run`] stopped there. Other fields, except `key`, then belong
    /// to an earlier record.
    lane: Option<UntoldRecord<'r>>,
    plan: Option<&'r StreamDecoder>,
    at_hand: PacketAtHand<'r>,
    at: CursorAt,
    /// Time of the last record before the packet, if the packet overlaps the previous one.
    last: Option<i64>,
    /// True if the packet has records.
    has_records: bool,
    /// Least key of the packet's records (`floor`); `cap` is the greatest.
    floor: i64,
    cap: i64,
    bounds: CursorBounds,
    /// True once a record with a time before the previous one was reported for the packet, which is done once.
    said_back: bool,
    said_behind: bool,
    said_no_date: bool,
    truncated: Option<DamageKind>,
}

impl<'r> Cursor<'r> {
    /// Makes a cursor with a window of at most `bytes`.
    pub(crate) fn new(
        files: &'r StoredFiles,
        stream: &'r Stream,
        place: PacketPlace,
        mut bounds: CursorBounds,
        most: usize,
    ) -> Cursor<'r> {
        bounds.range = bounds.range.and(&stream.active);
        Cursor {
            next: 0,
            content: 0,
            base: 0,
            limit: 0,
            key: i64::MIN,
            low: i64::MAX,
            high: i64::MIN,
            lane: None,
            plan: None,
            at_hand: PacketAtHand::new(PacketSkipper::new(files, stream, place, most)),
            at: CursorAt::End,
            last: None,
            has_records: false,
            floor: i64::MIN,
            cap: i64::MIN,
            bounds,
            said_back: false,
            said_behind: false,
            said_no_date: false,
            truncated: None,
        }
    }

    /// Returns the time by which the message is sorted \[ns since 1970\].
    #[inline]
    pub(crate) fn key(&self) -> i64 {
        self.key
    }

    /// Returns the number of bytes that were read from the stream's files.
    pub(crate) fn read(&self) -> u64 {
        self.at_hand.skipper.buffer.read()
    }

    /// Moves to the next message of any kind. Returns false if there is none.
    #[inline(never)]
    pub(crate) fn advance_any(&mut self) -> bool {
        let Some(plan) = self.plan.filter(|_| self.next < self.content) else {
            return self.advance_slowly();
        };
        let bytes = self.at_hand.skipper.buffer.from(self.at_hand.skip);
        let window = Window::new(bytes, self.at_hand.origin, self.content);
        let state = &mut self.at_hand.skipper.state;
        if plan.record(&window, self.next, state).is_err() {
            return self.advance_slowly();
        }
        if let (CursorAt::Record, Some(clock), Some(cycles)) =
            (&self.at, &self.at_hand.clock, state.record.time)
        {
            let time = clock.time(cycles);
            if self.low <= time && time <= self.high {
                state.nanoseconds = Some(time);
                self.next = state.record.end;
                self.key = time;
                self.low = time;
                return true;
            }
        }
        self.decoded()
    }

    /// Moves to the record that was just decoded, or to a message that comes before it.
    #[inline(never)]
    fn decoded(&mut self) -> bool {
        match self.unusual() {
            CursorStep::Shown => {
                self.expect_record();
                true
            }
            CursorStep::Skipped => self.advance_slowly(),
            CursorStep::End => self.end(),
        }
    }

    /// Prepares the fast path for the record after the current one, unless another message comes first.
    fn expect_record(&mut self) {
        self.limit = 0;
        let simple = self.at_hand.clock.as_ref().and_then(Clock::simple);
        let (CursorAt::Record, Some(base), true) = (&self.at, simple, self.next < self.content)
        else {
            return;
        };
        if !self.plan.is_some_and(StreamDecoder::has_alike) {
            return;
        }
        // A sum that overflows is below the first possible time.
        (self.base, self.low) = (base, self.low.max(base));
        self.limit = self.at_hand.end(self.content);
    }

    /// Returns the bytes from the next record up to `limit`, and the bit of the packet at which they begin. Returns no
    /// bytes if `limit` is 0.
    #[inline(always)]
    fn rest_before(&self, limit: u64) -> (&[u8], u64) {
        let begin = self.next.div_ceil(8);
        let place = |byte: u64| self.at_hand.shift.wrapping_add(byte as usize);
        let rest = self.at_hand.skipper.buffer.all().get(place(begin)..place(limit / 8));
        let rest = if limit > 0 { rest } else { None };
        (rest.unwrap_or(&[]), begin.wrapping_mul(8))
    }

    /// Skips ordinary records before the first one to show, as far as the window reaches. Returns whether any were
    /// skipped.
    #[inline(never)]
    fn pass_over(&mut self, plan: &StreamDecoder) -> bool {
        let CursorBounds { first, last, range, .. } = self.bounds;
        let until = if first == i64::MIN { range.from } else { first };
        let simple = self.at_hand.clock.as_ref().and_then(Clock::simple);
        let before = self.key.max(self.floor);
        let Some(base) = simple.filter(|_| before < until && plan.has_alike()) else {
            return false;
        };
        let (rest_at_first, begin) =
            self.rest_before(self.at_hand.end(self.at_hand.packet.content_bits));
        // A sum that overflows is below `base`.
        let (mut rest, mut key) = (rest_at_first, before.max(base));
        let mut cycles = self.at_hand.skipper.state.time;
        let last = self.cap.min(last).min(until.saturating_sub(1));
        while let Some(ahead) = plan.ahead(rest, cycles) {
            let time = base.wrapping_add(ahead.time as i64);
            if time < key || last < time {
                break;
            }
            (rest, key, cycles) = (ahead.behind, time, ahead.time);
        }
        let bytes = rest_at_first.len() - rest.len();
        if bytes > 0 {
            self.next = begin.wrapping_add((bytes as u64).wrapping_mul(8));
            self.at_hand.skipper.state.time = cycles;
            self.key = key;
            self.low = self.low.max(key);
        }
        bytes > 0
    }

    #[inline(never)]
    fn advance_slowly(&mut self) -> bool {
        self.limit = 0;
        loop {
            match self.step() {
                CursorStep::Shown => {
                    self.expect_record();
                    return true;
                }
                CursorStep::Skipped => {}
                CursorStep::End => return self.end(),
            }
        }
    }

    /// Ends the cursor: there are no further messages. Returns false.
    fn end(&mut self) -> bool {
        self.at = CursorAt::End;
        self.next = 0;
        self.content = 0;
        self.at_hand.packet.content_bits = 0;
        self.truncated = None;
        self.at_hand.skipper.items.clear();
        self.at_hand.skipper.buffer.clear();
        self.at_hand.skipper.place.file = usize::MAX;
        false
    }

    fn step(&mut self) -> CursorStep {
        if let CursorAt::Record = self.at {
            self.begin();
        }
        if let Some((key, item)) = self.at_hand.skipper.items.pop_front() {
            return self.item(key, item);
        }
        if self.next < self.at_hand.packet.content_bits {
            return self.record();
        }
        if let Some(what) = self.truncated.take() {
            self.say(self.at_hand.packet.offset, what);
            return CursorStep::Skipped;
        }
        if self.at_hand.skipper.place.number >= self.bounds.packet {
            return CursorStep::End;
        }
        if self.plan.is_some()
            && self.at_hand.packet.end.is_none()
            && self.at_hand.packet.begin.is_none()
        {
            // If packets have no times, the clock continues from its last value.
            self.at_hand.skipper.place.time = self.at_hand.skipper.state.time;
        }
        match self.at_hand.skipper.next() {
            Some(opened) => self.open(opened),
            None if self.at_hand.skipper.items.is_empty() => return CursorStep::End,
            None => {}
        }
        CursorStep::Skipped
    }

    fn open(&mut self, opened: OpenedPacket) {
        let stream: &'r Stream = self.at_hand.skipper.stream;
        self.plan = stream.trace.decoder.stream(opened.class);
        self.at_hand.clock = stream.trace.clocks.get(opened.class).copied().flatten();
        self.next = opened.records;
        self.content = 0;
        self.last = Some(self.key).filter(|_| opened.overlaps && self.has_records);
        self.has_records = opened.records < opened.packet.content_bits;
        self.key = opened.floor;
        self.floor = opened.floor;
        self.cap = opened.cap;
        self.said_back = opened.out_of_order;
        self.said_behind = opened.out_of_order;
        self.said_no_date = opened.no_date;
        self.truncated = opened.truncated;
        self.at_hand.packet = opened.packet;
        self.at_hand.align();
    }

    /// Shows an item, unless it belongs to another cursor.
    fn item(&mut self, key: i64, item: BetweenRecords) -> CursorStep {
        let step = self.place(key, &item);
        match step {
            CursorStep::Shown => {
                self.key = key;
                self.at = match item {
                    BetweenRecords::Packet => CursorAt::Packet,
                    BetweenRecords::Discarded(gap) => CursorAt::Discarded(gap),
                    BetweenRecords::Damage(damage) => CursorAt::Damage(Box::new(damage)),
                };
            }
            CursorStep::Skipped => {}
            CursorStep::End => return CursorStep::End,
        }
        if self.at_hand.skipper.items.is_empty() {
            self.resume();
        }
        step
    }

    /// Begins to show messages: all from the present one on belong to this cursor.
    fn begin(&mut self) {
        self.bounds.first = i64::MIN;
    }

    fn place(&mut self, key: i64, item: &BetweenRecords) -> CursorStep {
        if key > self.bounds.last {
            return CursorStep::End;
        }
        if key < self.bounds.first {
            return CursorStep::Skipped;
        }
        self.begin();
        let range = &self.bounds.range;
        let (from, to) = match item {
            BetweenRecords::Packet => (self.at_hand.packet.begin, self.at_hand.packet.end),
            BetweenRecords::Discarded(gap) => (gap.from, gap.to),
            BetweenRecords::Damage(_) => (None, None),
        };
        let outside =
            from.is_some_and(|from| from > range.to) || to.is_some_and(|to| to < range.from);
        if outside {
            return CursorStep::Skipped;
        }
        CursorStep::Shown
    }

    /// Continues with the packet's records.
    fn resume(&mut self) {
        self.content = self.at_hand.packet.content_bits;
        let floor = self.key.max(self.floor).max(self.last.unwrap_or(i64::MIN));
        // Times that are no dates are at either end of the range, and are never usual.
        self.low = floor.max(self.bounds.first).max(self.bounds.range.from).max(i64::MIN + 1);
        self.high = self.cap.min(self.bounds.last).min(self.bounds.range.to).min(i64::MAX - 1);
    }

    /// Decodes the next record, with more bytes of the file if needed.
    fn record(&mut self) -> CursorStep {
        let Some(plan) = self.plan else {
            self.next = self.at_hand.packet.content_bits;
            return CursorStep::Skipped;
        };
        if self.pass_over(plan) {
            return CursorStep::Skipped;
        }
        let bytes = self.at_hand.skipper.buffer.from(self.at_hand.skip);
        let window = Window::new(bytes, self.at_hand.origin, self.at_hand.packet.content_bits);
        let until = match plan.record(&window, self.next, &mut self.at_hand.skipper.state) {
            Ok(()) => return self.unusual(),
            Err(NoRecord::Bad(bad)) => {
                self.bad(&bad);
                return CursorStep::Skipped;
            }
            Err(NoRecord::Short { until }) => until,
        };
        if let Some(what) = self.refill(until) {
            let offset = self.offset();
            self.next = self.at_hand.packet.content_bits;
            self.truncated = None;
            self.say(offset, what);
        }
        CursorStep::Skipped
    }

    /// Checks a decoded record whose time may be wrong, and decides whether it is shown.
    fn unusual(&mut self) -> CursorStep {
        if let CursorAt::Record = self.at {
            self.begin();
        }
        let state = &mut self.at_hand.skipper.state;
        let previous = state.nanoseconds.or(self.last);
        let clock = self.at_hand.clock.as_ref();
        let time = clock.and_then(|clock| Some(clock.time(state.record.time?)));
        let no_date = time.is_some_and(Clock::is_end);
        state.nanoseconds = time.filter(|_| !no_date);
        let offset = self.offset();
        self.next = self.at_hand.skipper.state.record.end;
        let before = self.key.max(self.floor);
        let key = time.map_or(before, |time| time.max(before).min(self.cap.max(before)));
        if key > self.bounds.last {
            return CursorStep::End;
        }
        self.key = key;
        self.low = self.low.max(key);
        // The key of a record before the packet's begin is not its time.
        let previous = if before > self.floor { Some(before) } else { previous };
        let is_back = time.is_some_and(|time| previous.is_some_and(|previous| time < previous));
        let is_early = time.is_some_and(|time| time < before) && !is_back;
        let [is_back, is_early] = [is_back, is_early].map(|it| it && !no_date && !self.said_back);
        let is_behind = time.is_some_and(|time| time > self.cap) && !no_date && !self.said_behind;
        let is_undated = no_date && !self.said_no_date;
        self.said_no_date |= no_date;
        self.said_back |= is_back | is_early;
        self.said_behind |= is_behind;
        if key < self.bounds.first {
            return CursorStep::Skipped;
        }
        self.begin();
        if let Some(time) = time {
            if is_back {
                let before = previous.unwrap_or(before);
                self.say(offset, DamageKind::TimeBack { time, before });
            }
            if is_early {
                self.say(offset, DamageKind::TimeBeforePacket { time, begin: self.floor });
            }
            if is_behind {
                self.say(offset, DamageKind::TimeBehindPacket { time, end: self.cap });
            }
            if is_undated {
                self.say(
                    offset,
                    self.at_hand.skipper.stream.no_date(self.at_hand.skipper.state.record.time),
                );
            }
            if !self.bounds.range.contains(time) {
                return CursorStep::Skipped;
            }
        }
        self.at = CursorAt::Record;
        CursorStep::Shown
    }

    /// Returns the begin of the next record \[byte of the file\].
    fn offset(&self) -> u64 {
        self.at_hand.packet.offset.saturating_add(self.next / 8)
    }

    /// Reports a bad record and skips the rest of the packet. Reports nothing if the file ends there, since that is
    /// reported already.
    fn bad(&mut self, bad: &Bad) {
        let (offset, next) = (self.offset(), self.next);
        self.next = self.at_hand.packet.content_bits;
        let is_cut = matches!(bad.kind, BadKind::Outside { .. } | BadKind::TooManyElements { .. });
        if self.truncated.is_some() && is_cut {
            return;
        }
        let bytes = (self.at_hand.packet.content_bits - next).div_ceil(8);
        self.say(offset, DamageKind::Record { error: bad.to_string().into(), bytes });
    }

    /// Moves the window so that it begins with the record and reaches `until` \[bit of the packet\]. Returns the damage
    /// that prevents this.
    fn refill(&mut self, until: u64) -> Option<DamageKind> {
        let (packet, content) = (self.at_hand.packet.offset, self.at_hand.packet.content_bits);
        let begin = self.offset();
        let end = packet.saturating_add(until.min(content).div_ceil(8));
        let need = end.saturating_sub(begin);
        if need > LONGEST {
            return Some(DamageKind::TooLong { bytes: need, limit: LONGEST });
        }
        let file = self.at_hand.skipper.stream.files.get(self.at_hand.packet.file).copied()?;
        // A text may end anywhere: double the window each time.
        let have = if self.at_hand.skipper.buffer.origin() == begin {
            self.at_hand.skipper.buffer.bytes().len()
        } else {
            0
        };
        let twice = (have as u64).saturating_mul(2).min(LONGEST);
        let most = packet.saturating_add(content.div_ceil(8)).max(end);
        let reach = begin.saturating_add(twice).min(most).max(end);
        let filled =
            self.at_hand.skipper.buffer.fill(self.at_hand.skipper.files, file, begin, reach);
        self.at_hand.align();
        match filled {
            Ok(_) if self.at_hand.skipper.buffer.has(file, begin, end) => None,
            Ok(_) => {
                let read = self.at_hand.skipper.buffer.bytes().len() as u64;
                let found = begin.saturating_add(read).saturating_sub(packet);
                Some(DamageKind::Truncated { expected: content.div_ceil(8), found })
            }
            Err(error) => Some(DamageKind::Unreadable { error: error.to_string().into() }),
        }
    }

    /// Reports damage in the packet, as the next message.
    fn say(&mut self, offset: u64, what: DamageKind) {
        let damage = self.at_hand.skipper.described(
            self.at_hand.packet.file,
            self.at_hand.packet.number,
            offset,
            what,
        );
        self.at_hand.skipper.items.push_back((self.key, BetweenRecords::Damage(damage)));
        self.content = 0;
    }

    /// Returns the current message; `None` before the first step and after the last message.
    #[inline]
    pub(crate) fn message(&self) -> Option<Message<'_>> {
        // Most messages are records, so this case comes first and in a function of its own.
        if let CursorAt::Record = self.at {
            return self.event().map(Message::Event);
        }
        self.other()
    }

    #[inline(never)]
    fn other(&self) -> Option<Message<'_>> {
        match &self.at {
            CursorAt::Record => None,
            CursorAt::Packet => Some(Message::Packet(&self.at_hand.packet)),
            CursorAt::Discarded(gap) => Some(Message::Discarded(discarded(
                self.at_hand.skipper.stream,
                &self.at_hand.packet,
                gap,
            ))),
            CursorAt::Damage(damage) => Some(Message::Damage(damage)),
            CursorAt::End => None,
        }
    }

    #[inline]
    fn event(&self) -> Option<Event<'_>> {
        let DecodeState { record, nanoseconds, .. } = &self.at_hand.skipper.state;
        Some(Event {
            class: self.plan?.class(record.shape.class)?,
            at_hand: &self.at_hand,
            shape: &record.shape,
            begin: record.begin,
            end: record.end,
            time: nanoseconds.unwrap_or(0),
        })
    }
}

fn discarded<'e>(stream: &'e Stream, packet: &'e Packet, gap: &DiscardedGap) -> Discarded<'e> {
    Discarded {
        stream,
        packet,
        count: gap.count,
        kind: gap.kind,
        from: gap.from,
        to: gap.to,
        from_cycles: gap.from_cycles,
        to_cycles: gap.to_cycles,
        at_begin: gap.at_begin,
    }
}
