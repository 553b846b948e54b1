//! Moves from packet to packet of a stream by the headers of packets alone.
//!
//! A [`PacketSkipper`] reads the header and the context of each packet, determines where the packet ends, and reports what it
//! finds between packets: losses, damage, times that go back. It decodes records only if nothing else distinguishes
//! packets from other bytes.
//!
//! ```text
//! PacketPlace ── head() ── extent() ── open() ── say() ──▶ OpenedPacket, and items before it
//!      ▲            │ no header            │ the size is wrong            (BetweenRecords, with keys)
//!      │            └─ skip(): search for the next packet (resync.rs) ◀───┘
//!      └─────────────── pass(): the place after the packet, and what it said
//! ```
//!
//! # What is not believed
//! Any value of a header may be wrong. The packet's size is compared with the file and, if packets begin with a magic
//! number, with the bytes after the packet. A size that does not lead to a packet is replaced by the distance to the
//! next packet that can be found. A jump of the sequence number makes the previous packet's padding suspicious: a
//! packet may be hidden in it. If times go back, the packet gets the key of the previous one, so that keys never
//! decrease within a stream.
//!
//! # Losses
//! Counts of discarded records wrap around, and those of LTTng sometimes go back for a packet or two. [`PacketPlace`]
//! keeps the highest count, and only what exceeds it is reported as new.
//!
//! A skipper owns its window of the file and is used by one cursor in one thread. Places can be cloned: an index
//! (`index.rs`) and slices (`slices.rs`) keep some, at which another skipper begins.

use super::damage::{Damage, DamageKind, HeaderDamage};
use super::decode::{BadKind, NoRecord, PacketContext, Window};
use super::files::StoredFiles;
use super::framing::{self, PacketRecords};
use super::resync::{self, ResyncEnd, MAGIC};
use super::stream::{DiscardedKind, Packet, Stream};
use super::time::{Clock, TimeRange};
use super::window::{Buffer, LONGEST};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most bytes that are searched for the next packet after a packet with a wrong size \[byte\].
const FAR: u64 = 64 << 20;

/// The place of a stream's next packet, with what the headers of previous packets said.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketPlace {
    /// Index into the stream's files.
    pub(crate) file: usize,
    /// Begin of the next packet \[byte of the file\].
    pub(crate) offset: u64,
    /// The number of the next packet, counted from 0.
    pub(crate) number: u64,
    /// The end of the previous packet, or its begin \[ns since 1970\]; `None` as long as no packet has had a time.
    floor: Option<i64>,
    /// The greatest key that messages before this place can have; `i64::MAX` once a packet has had no end time.
    reach: Option<i64>,
    /// Begin of the first packet that has a begin time \[ns since 1970\].
    begin: Option<i64>,
    /// End of the previous packet \[ns since 1970\], and the same time in cycles in `end_cycles`.
    end: Option<i64>,
    end_cycles: Option<u64>,
    discarded: Option<u64>,
    /// The highest count of discarded records, kept when the count goes back. LTTng's count goes back for a packet or
    /// more and then continues from where it was: only what exceeds this value is new.
    discarded_high: Option<u64>,
    sequence: Option<u64>,
    /// Size of the previous packet's padding \[byte\].
    padding: u64,
    /// The clock at the end of the previous packet \[cycle\].
    pub(crate) time: u64,
    /// True if headers do not say where packets begin in the rest of the file.
    has_no_framing: bool,
}

/// Returns whether a count has decreased without wrapping around the greatest value of its field, `mask`.
fn is_back(now: u64, then: u64, mask: u64) -> bool {
    now < then && now.wrapping_sub(then) & mask > mask / 2
}

impl PacketPlace {
    /// Returns whether all messages before this place have keys below `key`.
    pub(crate) fn is_before(&self, key: i64) -> bool {
        self.reach.is_none_or(|reach| reach < key)
    }

    /// Returns the greatest key of messages before this place; `i64::MAX` if a packet had no end time.
    pub(crate) fn reach(&self) -> Option<i64> {
        self.reach
    }

    /// Returns the first key of the packet's records, and the last one if the packet has an end time.
    fn bounds(&self, packet: &Packet) -> (i64, Option<i64>) {
        match (packet.begin, packet.end) {
            // If they are in the wrong order, one of them is wrong: both may bound the records.
            (Some(begin), Some(end)) => (begin.min(end), Some(begin.max(end))),
            (Some(begin), None) => (begin, None),
            (None, end) => {
                let floor = self.floor().min(end.unwrap_or(i64::MAX));
                (floor, end)
            }
        }
    }

    /// Moves the place after the packet. `time` is the clock after its records, for a packet without times \[cycle\];
    /// `mask` is the greatest value of the count of discarded records.
    pub(crate) fn pass(&mut self, packet: &Packet, time: u64, mask: u64) {
        let (floor, end) = self.bounds(packet);
        let known = self.floor.is_some() || packet.begin.is_some() || end.is_some();
        self.offset = packet.offset.saturating_add(packet.packet_bits / 8);
        self.number += 1;
        self.padding = packet.packet_bits.saturating_sub(packet.content_bits) / 8;
        self.floor = known.then(|| end.unwrap_or(floor));
        self.reach = Some(end.unwrap_or(i64::MAX).max(self.reach.unwrap_or(i64::MIN)));
        self.begin = self.begin.or(packet.begin);
        self.end = packet.end;
        self.end_cycles = packet.end_cycles;
        if let Some(now) = packet.discarded {
            match self.discarded_before(now) {
                Some(then) if is_back(now, then, mask) => {
                    self.discarded_high = self.discarded_high.or(Some(then));
                }
                Some(then) => {
                    let high = self.discarded_high.filter(|&high| high > now);
                    self.discarded_high =
                        high.map(|high| high.saturating_add(now.wrapping_sub(then) & mask));
                }
                None => {}
            }
            self.discarded = Some(now);
        }
        self.sequence = packet.sequence.or(self.sequence);
        self.time = packet.end_cycles.or(packet.begin_cycles).unwrap_or(time);
    }

    /// Returns the previous count of discarded records, from which `now` continues.
    fn discarded_before(&self, now: u64) -> Option<u64> {
        self.discarded_high.filter(|&high| high <= now).or(self.discarded)
    }

    /// Returns the time from the begin of the first packet to the end of the last one.
    pub(crate) fn span(&self) -> Option<TimeRange> {
        let to = self.reach.filter(|&reach| reach != i64::MAX).or(self.floor)?;
        Some(TimeRange { from: self.begin?, to })
    }

    fn floor(&self) -> i64 {
        self.floor.unwrap_or(i64::MIN)
    }
}

/// A fact about a stream that is reported between its records.
#[derive(Clone, Debug)]
pub(crate) enum BetweenRecords {
    /// A packet begins.
    Packet,
    Discarded(DiscardedGap),
    Damage(Damage),
}

/// A loss as in [`Discarded`](super::Discarded), but without the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiscardedGap {
    pub(crate) count: u64,
    pub(crate) kind: DiscardedKind,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    pub(crate) from_cycles: Option<u64>,
    pub(crate) to_cycles: Option<u64>,
    pub(crate) at_begin: bool,
}

/// A packet whose header was read.
#[derive(Clone, Debug)]
pub(crate) struct OpenedPacket {
    pub(crate) packet: Packet,
    /// Index of the stream's class in the schema.
    pub(crate) class: usize,
    /// The id of the stream within its class.
    pub(crate) id: Option<u64>,
    /// The offset of the first record \[bit of the packet\].
    pub(crate) records: u64,
    /// The first key of the packet's records (`floor`) and the last one (`cap`) \[ns since 1970\].
    pub(crate) floor: i64,
    pub(crate) cap: i64,
    /// Damage to report after the packet's last record: the packet is incomplete.
    pub(crate) truncated: Option<DamageKind>,
    /// True if the packet ends before it begins, so that its records' times need not be compared with its bounds.
    pub(crate) out_of_order: bool,
    /// True if the packet begins before the previous one ends: its records may be older than records that were already
    /// read.
    pub(crate) overlaps: bool,
    /// True if the packet's begin or end is no date, which was reported already.
    pub(crate) no_date: bool,
}

/// A header as it stands in the file.
struct HeaderInFile {
    class: usize,
    id: Option<u64>,
    context: PacketContext,
    /// The size of the content \[bit\].
    content: u64,
    total: u64,
    sized: bool,
}

/// Moves through the packets of one stream.
#[derive(Debug)]
pub(crate) struct PacketSkipper<'r> {
    pub(crate) files: &'r StoredFiles,
    pub(crate) stream: &'r Stream,
    pub(crate) buffer: Buffer,
    pub(crate) state: super::decode::DecodeState,
    pub(crate) place: PacketPlace,
    /// The most bytes that are searched for the next packet after bytes that are not a packet.
    pub(crate) scan: u64,
    /// Items to report before the packet that was opened last, with their keys.
    pub(crate) items: VecDeque<(i64, BetweenRecords)>,
}

impl<'r> PacketSkipper<'r> {
    /// Makes a skipper that begins at `place`, with a window of at most `most` bytes.
    pub(crate) fn new(
        files: &'r StoredFiles,
        stream: &'r Stream,
        place: PacketPlace,
        most: usize,
    ) -> PacketSkipper<'r> {
        let state = stream.trace.decoder.state();
        let (buffer, items) = (Buffer::new(most), VecDeque::new());
        PacketSkipper { files, stream, buffer, state, place, scan: u64::MAX, items }
    }

    /// Returns the index in [`StoredFiles`] of the current place's file.
    pub(crate) fn file(&self) -> Option<usize> {
        self.stream.files.get(self.place.file).copied()
    }

    /// Returns the next packet that can be read. `items` then has what must be reported before it.
    pub(crate) fn next(&mut self) -> Option<OpenedPacket> {
        loop {
            let file = self.file()?;
            self.place.offset = self.place.offset.max(self.files.begin(file));
            let left = self.files.bytes(file).saturating_sub(self.place.offset);
            if left == 0 {
                self.place.file += 1;
                self.place.offset = 0;
                self.place.padding = 0;
                self.place.has_no_framing = false;
                continue;
            }
            if self.place.has_no_framing {
                self.damage(self.place.floor(), DamageKind::NoFraming { bytes: left });
                self.place.offset = self.files.bytes(file);
                continue;
            }
            let head = self.head(file, self.place.offset, left);
            if let Some(next) = head.as_ref().ok().and_then(|head| self.passed_over(file, head)) {
                let (end, padding) = (self.place.offset, self.place.padding);
                let found = next.saturating_sub(end.saturating_sub(padding));
                self.damage(self.place.floor(), DamageKind::Padding { padding, found });
                self.place.offset = next;
                self.place.padding = 0;
                continue;
            }
            match head {
                Ok(head) if self.is_repeated(&head) => {
                    let bytes = (head.total / 8).min(left);
                    self.place.offset = self.place.offset.saturating_add(bytes);
                }
                Ok(head) => return Some(self.open(file, head, left)),
                Err(HeaderFault::Header(header)) => self.skip(file, header),
                Err(HeaderFault::System(error)) => {
                    let what = DamageKind::Unreadable { error: error.to_string().into() };
                    self.damage(self.place.floor(), what);
                    self.place.offset = self.files.bytes(file);
                }
            }
        }
    }

    /// Returns whether the packet was already read in another folder: snapshots of one trace overlap.
    fn is_repeated(&self, head: &HeaderInFile) -> bool {
        if !self.stream.merged {
            return false;
        }
        let known = match (head.context.sequence, self.place.sequence) {
            (Some(now), Some(then)) => now <= then,
            _ => true,
        };
        match (head.context.begin, head.context.end, self.place.end_cycles) {
            (Some(begin), Some(end), Some(before)) => known && begin < before && end <= before,
            _ => false,
        }
    }

    /// Searches for a packet in the padding of the previous packet. A gap in the sequence numbers has shown that
    /// packets are missing and so that the previous packet's size may be wrong. Returns the offset of the packet that
    /// was found.
    fn passed_over(&mut self, file: usize, head: &HeaderInFile) -> Option<u64> {
        let step = head.context.sequence?.wrapping_sub(self.place.sequence?);
        let end = self.place.offset;
        if step & self.stream.sequence_mask < 2 || self.place.padding < resync::SIGN as u64 {
            return None;
        }
        let next = self.search(file, end.saturating_sub(self.place.padding), end).packet();
        if next.is_none() {
            // The search has left the state of another header: decode this packet's header again.
            let left = self.files.bytes(file).saturating_sub(end);
            let _ = self.head(file, end, left);
        }
        next
    }

    /// Moves to the next packet, past bytes that are not a packet.
    fn skip(&mut self, file: usize, header: HeaderDamage) {
        let (begin, end) = (self.place.offset, self.files.bytes(file));
        let last = begin.saturating_add(self.scan).min(end);
        let found = self.search(file, begin.saturating_add(1), last);
        let next = found.packet().unwrap_or(end);
        let bytes = next.saturating_sub(begin);
        let what = match found {
            ResyncEnd::GivenUp(looked) => DamageKind::NoPackets { header, looked, bytes },
            ResyncEnd::Nothing
                if matches!(header, HeaderDamage::Short { .. }) && self.files.is_written(file) =>
            {
                DamageKind::Growing { found: bytes }
            }
            _ => DamageKind::Garbage { header, bytes, to_end: found == ResyncEnd::Nothing },
        };
        self.damage(self.place.floor(), what);
        self.place.offset = next;
    }

    /// Searches the bytes `from..to` of the file for the first packet of this trace whose header can be read.
    pub(crate) fn search(&mut self, file: usize, from: u64, to: u64) -> ResyncEnd {
        let (files, stream) = (self.files, self.stream);
        let Some(sign) = &stream.trace.sign else { return ResyncEnd::Nothing };
        resync::find(files, file, sign, from..to, |offset| self.is_packet(file, offset))
    }

    /// Returns whether a packet begins at this offset.
    fn is_packet(&mut self, file: usize, offset: u64) -> bool {
        let left = self.files.bytes(file).saturating_sub(offset);
        left > 0 && self.head(file, offset, left).is_ok()
    }

    /// Reads the header and the context of the packet at `offset`, which has `left` bytes at most.
    fn head(&mut self, file: usize, offset: u64, left: u64) -> Result<HeaderInFile, HeaderFault> {
        let trace = Arc::clone(&self.stream.trace);
        let bits = left.saturating_mul(8);
        let found = self.decode(file, offset, bits, |window, state| {
            trace.decoder.packet_header(window, state)
        })?;
        if let Some(magic) = found.magic.filter(|&magic| magic != MAGIC) {
            return Err(HeaderDamage::Magic { found: magic }.into());
        }
        if let (Some(found), Some(expected)) = (found.uuid, trace.schema().uuid) {
            if found != expected && !trace.any_uuid {
                return Err(HeaderDamage::Uuid { found, expected }.into());
            }
        }
        let missing = HeaderDamage::StreamClass { found: found.stream_class };
        let class = trace.decoder.find_stream(found.stream_class).ok_or(missing.clone())?;
        let plan = trace.decoder.stream(class).ok_or(missing)?;
        self.state.time = self.place.time;
        let context = self.decode(file, offset, bits, |window, state| {
            plan.packet_context(window, found.end, state)
        })?;
        let head = context.end_bit;
        let given = context
            .total_bits
            .or(context.content_bits.map(|bits| bits.div_ceil(8).saturating_mul(8)));
        let total = given.unwrap_or(bits);
        let content = context.content_bits.unwrap_or(total);
        if total % 8 != 0 || total < head || total == 0 {
            return Err(HeaderDamage::Size { packet: total, head }.into());
        }
        if content > total {
            return Err(HeaderDamage::Content { content, packet: total }.into());
        }
        if content < head {
            return Err(HeaderDamage::ContentSize { content, head }.into());
        }
        Ok(HeaderInFile {
            class,
            id: found.stream,
            context,
            content,
            total,
            sized: given.is_some(),
        })
    }

    /// Decodes a part of a packet's head, with as much of the file as that needs.
    fn decode<T>(
        &mut self,
        file: usize,
        offset: u64,
        bits: u64,
        decode: impl Fn(&Window<'_>, &mut super::decode::DecodeState) -> Result<T, NoRecord>,
    ) -> Result<T, HeaderFault> {
        let end = offset.saturating_add(bits / 8);
        if !self.buffer.has(file, offset, offset.saturating_add(1)) {
            self.fill(file, offset, offset.saturating_add(256).min(end))?;
        }
        loop {
            let have = self.buffer.bytes();
            let skip = offset.saturating_sub(self.buffer.origin());
            let bytes = have.get(usize::try_from(skip).unwrap_or(usize::MAX)..).unwrap_or(&[]);
            let window = Window::new(bytes, 0, bits);
            match decode(&window, &mut self.state) {
                Ok(found) => return Ok(found),
                Err(NoRecord::Bad(bad)) if matches!(bad.kind, BadKind::Outside { .. }) => {
                    return Err(HeaderDamage::Short { found: bits / 8 }.into());
                }
                Err(NoRecord::Bad(bad)) => {
                    return Err(HeaderDamage::Unreadable { error: bad.to_string().into() }.into());
                }
                Err(NoRecord::Short { until }) => {
                    let has = bytes.len() as u64;
                    let need = until.div_ceil(8).max(has.saturating_add(1));
                    if need > LONGEST || need > bits / 8 {
                        return Err(HeaderDamage::Short { found: has }.into());
                    }
                    let generous = need.max(has.saturating_mul(2)).min(LONGEST).min(bits / 8);
                    if !self.fill(file, offset, offset.saturating_add(generous))? {
                        let has = self.buffer.bytes().len() as u64;
                        if has < need {
                            return Err(HeaderDamage::Short { found: has }.into());
                        }
                    }
                }
            }
        }
    }

    fn fill(&mut self, file: usize, from: u64, to: u64) -> Result<bool, HeaderFault> {
        self.buffer.fill(self.files, file, from, to).map_err(HeaderFault::System)
    }

    /// Opens the packet with the header's values, corrected as far as the file shows that they are wrong, and moves the
    /// place after the packet.
    fn open(&mut self, file: usize, head: HeaderInFile, left: u64) -> OpenedPacket {
        let offset = self.place.offset;
        let (total, truncated) = self.extent(file, &head, left);
        let content = head.content.min(total);
        let context = &head.context;
        let clock = self.stream.trace.clocks.get(head.class).copied().flatten();
        let ns = |cycles: Option<u64>| cycles.and_then(|cycles| Some(clock?.time(cycles)));
        // Files that were saved from the memory of a killed tracer have packets that were never closed.
        let end_cycles = context.end.filter(|&end| end != 0 || context.begin.unwrap_or(0) == 0);
        let packet = Packet {
            stream: self.stream.index,
            number: self.place.number,
            file: self.place.file,
            offset,
            begin: ns(context.begin),
            end: ns(end_cycles),
            begin_cycles: context.begin,
            end_cycles,
            content_bits: content,
            packet_bits: total,
            sequence: context.sequence,
            discarded: context.discarded,
            cpu: context.cpu,
        };
        let (floor, end) = self.place.bounds(&packet);
        // Items between two packets are reported before the second packet begins, even if it is out of order.
        let before = self.place.floor().min(floor);
        let overlaps = packet.begin.zip(self.place.end).is_some_and(|(begin, end)| begin < end);
        let out_of_order = self.say(&head, &packet, before, floor);
        let times = [(packet.begin, packet.begin_cycles), (packet.end, packet.end_cycles)];
        let no_date = times.into_iter().find(|(time, _)| time.is_some_and(Clock::is_end));
        if let Some((_, cycles)) = no_date {
            self.damage(floor, self.stream.no_date(cycles));
        }
        let mut opened = OpenedPacket {
            packet,
            class: head.class,
            id: head.id,
            records: context.end_bit,
            floor,
            cap: end.unwrap_or(i64::MAX),
            truncated: None,
            out_of_order,
            overlaps,
            no_date: no_date.is_some(),
        };
        match truncated {
            Some(what @ DamageKind::PacketSize { .. }) => self.damage(floor, what),
            what => opened.truncated = what,
        }
        self.push(floor, BetweenRecords::Packet);
        self.place.has_no_framing = self.is_misplaced(file, &opened);
        self.place.pass(&opened.packet, self.state.time, self.stream.discarded_mask);
        opened
    }

    /// Returns whether the packet or its size is doubtful, and with it the place of all later packets: its records do
    /// not fit, and nothing distinguishes packets from other bytes. Only for this does the module decode records.
    fn is_misplaced(&self, file: usize, opened: &OpenedPacket) -> bool {
        let packet = &opened.packet;
        let is_last =
            packet.offset.saturating_add(packet.packet_bits / 8) >= self.files.bytes(file);
        if is_last || self.is_framed() {
            return false;
        }
        let Some(plan) = self.stream.trace.decoder.stream(opened.class) else { return true };
        let (offset, from, to) = (packet.offset, opened.records, packet.content_bits);
        let records = PacketRecords { file, offset, from, to };
        !framing::records_fit(self.files, plan, self.state.clone(), records)
    }

    /// Returns whether packets begin with a magic number, or the sizes of packets lead from one to the next up to the
    /// end of each file.
    fn is_framed(&self) -> bool {
        self.stream.trace.sign.is_some()
            || *self.stream.framed.get_or_init(|| {
                let place = PacketPlace::default();
                let mut skipper =
                    PacketSkipper::new(self.files, self.stream, place, super::window::FIRST);
                self.stream.files.iter().all(|&file| skipper.leads_to_end(file))
            })
    }

    /// Returns whether the sizes of a file's packets lead from one to the next, up to its end.
    fn leads_to_end(&mut self, file: usize) -> bool {
        let (mut at, end) = (self.files.begin(file), self.files.bytes(file));
        while at < end {
            match self.head(file, at, end - at) {
                Ok(head) => at = at.saturating_add((head.total / 8).max(1)),
                Err(_) => return false,
            }
        }
        at == end
    }

    /// Returns the number of bits of the packet that the file has, and the damage if the header gives another number.
    fn extent(&mut self, file: usize, head: &HeaderInFile, left: u64) -> (u64, Option<DamageKind>) {
        let offset = self.place.offset;
        let (bits, bytes) = (left.saturating_mul(8), head.total / 8);
        if !head.sized || (bytes < left && self.follows(file, offset.saturating_add(bytes))) {
            return (head.total, None);
        }
        if bytes == left {
            return (head.total, None);
        }
        // The size is wrong, or the file is, or the next bytes are no packet: a search for the next header decides.
        let first = offset.saturating_add(head.context.end_bit.div_ceil(8).max(1));
        let last = offset.saturating_add(bytes.min(left).min(self.scan).min(FAR));
        let next = self.search(file, first, last).packet();
        // The search has left the state of another header: decode this packet's header again.
        let _ = self.head(file, offset, left);
        if let Some(next) = next {
            let found = next.saturating_sub(offset);
            return (found * 8, Some(DamageKind::PacketSize { size: bytes, found }));
        }
        if bytes > left {
            let content = head.content.div_ceil(8);
            if self.files.is_written(file) {
                return (bits, Some(DamageKind::Growing { found: left }));
            }
            let expected = if content > left { content } else { bytes };
            return (bits, Some(DamageKind::Truncated { expected, found: left }));
        }
        (head.total, None)
    }

    /// Returns whether a packet may begin at this offset, judged by magic number and UUID.
    fn follows(&mut self, file: usize, offset: u64) -> bool {
        let Some(sign) = &self.stream.trace.sign else { return true };
        let mut found = [0; resync::SIGN];
        let Some(found) = found.get_mut(..sign.len()) else { return true };
        let near = offset
            .checked_sub(self.buffer.origin())
            .filter(|_| self.buffer.has(file, offset, offset.saturating_add(sign.len() as u64)))
            .and_then(|skip| self.buffer.bytes().get(usize::try_from(skip).ok()?..));
        if let Some(near) = near {
            return near.starts_with(sign);
        }
        // Missing or unreadable bytes are reported when the skipper reaches them.
        match self.files.read(file, offset, found) {
            Ok(bytes) if bytes == sign.len() => found == &sign[..],
            _ => true,
        }
    }

    /// Reports gaps and damage between the previous packet and this one, as its header shows them. Returns whether the
    /// packet ends before it begins.
    fn say(&mut self, head: &HeaderInFile, packet: &Packet, before: i64, floor: i64) -> bool {
        let mut out_of_order = false;
        let expected = (self.stream.class, self.stream.id);
        // If the first packet could not be read, the file's stream is unknown.
        let other = expected.1.is_some() && (head.class, head.id) != expected;
        if other || head.class != expected.0 {
            let what = DamageKind::OtherStream {
                found: (self.class_id(head.class), head.id),
                expected: (self.class_id(expected.0), expected.1),
            };
            self.damage(floor, what);
        } else {
            self.say_records(packet, before, floor);
            self.say_packets(packet, before, floor);
        }
        if let (Some(begin), Some(end)) = (packet.begin, self.place.end) {
            if begin < end {
                self.damage(floor, DamageKind::PacketOrder { begin, end });
            }
        }
        if let (Some(begin), Some(end)) = (packet.begin, packet.end) {
            if end < begin {
                self.damage(floor, DamageKind::PacketTimes { begin, end });
                out_of_order = true;
            }
        }
        out_of_order
    }

    fn class_id(&self, class: usize) -> u64 {
        self.stream.trace.schema().streams.get(class).map_or(0, |class| class.id)
    }

    fn say_records(&mut self, packet: &Packet, before: i64, floor: i64) {
        let Some(now) = packet.discarded else { return };
        let mask = self.stream.discarded_mask;
        let gap = DiscardedGap {
            count: now,
            kind: DiscardedKind::Records,
            from: packet.begin,
            to: packet.end,
            from_cycles: packet.begin_cycles,
            to_cycles: packet.end_cycles,
            at_begin: true,
        };
        match self.place.discarded_before(now) {
            None if now == 0 || self.place.number > 0 => {}
            None => self.push(floor, BetweenRecords::Discarded(gap)),
            Some(then) if then == now => {}
            Some(then) => {
                let count = now.wrapping_sub(then) & mask;
                if is_back(now, then, mask) {
                    let what = DamageKind::DiscardedBack { found: now, before: then };
                    return self.damage(floor, what);
                }
                let gap = DiscardedGap {
                    count,
                    from: self.place.end,
                    from_cycles: self.place.end_cycles,
                    at_begin: false,
                    ..gap
                };
                self.push(before, BetweenRecords::Discarded(gap));
            }
        }
    }

    fn say_packets(&mut self, packet: &Packet, before: i64, floor: i64) {
        let (Some(now), Some(then)) = (packet.sequence, self.place.sequence) else { return };
        let mask = self.stream.sequence_mask;
        match now.wrapping_sub(then) & mask {
            1 => {}
            step if step == 0 || (now < then && step > mask / 2) => {
                let what = DamageKind::SequenceBack { found: now, before: then };
                self.damage(floor, what);
            }
            step => {
                let gap = DiscardedGap {
                    count: step - 1,
                    kind: DiscardedKind::Packets,
                    from: self.place.end,
                    to: packet.begin,
                    from_cycles: self.place.end_cycles,
                    to_cycles: packet.begin_cycles,
                    at_begin: false,
                };
                self.push(before, BetweenRecords::Discarded(gap));
            }
        }
    }

    /// Reports damage at the current place, as an item with this key.
    fn damage(&mut self, key: i64, what: DamageKind) {
        let (number, offset) = (self.place.number, self.place.offset);
        let damage = self.described(self.place.file, number, offset, what);
        self.push(key, BetweenRecords::Damage(damage));
    }

    fn push(&mut self, key: i64, item: BetweenRecords) {
        self.items.push_back((key, item));
    }

    /// Makes a damage of this stream from its kind and place.
    pub(crate) fn described(
        &self,
        file: usize,
        packet: u64,
        offset: u64,
        what: DamageKind,
    ) -> Damage {
        let path = self.stream.paths.get(file);
        let name = path.and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into());
        Damage {
            trace: Arc::clone(&self.stream.trace.path),
            stream: name.or(Some(Arc::clone(&self.stream.name))),
            packet: Some(packet),
            offset: Some(offset),
            what,
        }
    }
}

/// Reasons why no header was read.
pub(crate) enum HeaderFault {
    Header(HeaderDamage),
    System(std::io::Error),
}

impl From<HeaderDamage> for HeaderFault {
    fn from(damage: HeaderDamage) -> HeaderFault {
        HeaderFault::Header(damage)
    }
}
