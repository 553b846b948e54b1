//! From packet to packet of a stream, by the packets' headers alone.

use super::damage::{Damage, DamageKind, HeaderDamage};
use super::decode::{BadKind, NoRecord, PacketContext, Window};
use super::files::StoredFiles;
use super::resync::{self, ResyncEnd, MAGIC};
use super::stream::{DiscardedKind, Packet, Stream};
use super::time::{Clock, TimeRange};
use super::window::{Buffer, LONGEST};
use std::collections::VecDeque;
use std::sync::Arc;

/// A packet with a wrong size is looked through so far for the next one \[byte\].
const FAR: u64 = 64 << 20;

/// Where a stream's next packet should be, and what the ones before it said.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketPlace {
    /// Index into the stream's files.
    pub(crate) file: usize,
    /// Byte of the file.
    pub(crate) offset: u64,
    /// Of the next packet.
    pub(crate) number: u64,
    /// The end of the packet before, or its begin \[ns since 1970\]; `None`: nothing is known yet.
    floor: Option<i64>,
    /// The last key there may be in front of this place; `i64::MAX` once a packet did not say its end.
    reach: Option<i64>,
    /// Begin of the first packet that says it.
    begin: Option<i64>,
    /// End of the packet before, and the same in cycles.
    end: Option<i64>,
    end_cycles: Option<u64>,
    discarded: Option<u64>,
    /// What it was before it went back, and what was said since then. LTTng's does for a packet or more, and
    /// goes on from where it was then: the count that is behind this one is what nobody has said yet.
    discarded_high: Option<u64>,
    sequence: Option<u64>,
    /// Bytes between the content's end and that of the packet before.
    padding: u64,
    /// The clock at the end of the packet before \[cycle\].
    pub(crate) time: u64,
}

/// Whether a count has become less, and not only begun anew behind the greatest that its field holds.
fn is_back(now: u64, then: u64, mask: u64) -> bool {
    now < then && now.wrapping_sub(then) & mask > mask / 2
}

impl PacketPlace {
    /// Whether all messages in front of it have keys before this one.
    pub(crate) fn is_before(&self, key: i64) -> bool {
        self.reach.is_none_or(|reach| reach < key)
    }

    /// The end of the last packet, if each packet so far has one.
    pub(crate) fn reach(&self) -> Option<i64> {
        self.reach
    }

    /// First and last key of the packet's records; the last one, if it says its end.
    fn bounds(&self, packet: &Packet) -> (i64, Option<i64>) {
        match (packet.begin, packet.end) {
            // In the wrong order, one of them is wrong: both ends of the time may be.
            (Some(begin), Some(end)) => (begin.min(end), Some(begin.max(end))),
            (Some(begin), None) => (begin, None),
            (None, end) => {
                let floor = self.floor().min(end.unwrap_or(i64::MAX));
                (floor, end)
            }
        }
    }

    /// Goes behind the packet; `time`: of the clock, where the packet says none; `mask`: of the count of
    /// discarded records.
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

    /// The count that `now` goes on from.
    fn discarded_before(&self, now: u64) -> Option<u64> {
        self.discarded_high.filter(|&high| high <= now).or(self.discarded)
    }

    /// From the first begin to the last end.
    pub(crate) fn span(&self) -> Option<TimeRange> {
        let to = self.reach.filter(|&reach| reach != i64::MAX).or(self.floor)?;
        Some(TimeRange { from: self.begin?, to })
    }

    fn floor(&self) -> i64 {
        self.floor.unwrap_or(i64::MIN)
    }
}

/// Something between records.
#[derive(Clone, Debug)]
pub(crate) enum BetweenRecords {
    /// A packet begins.
    Packet,
    Discarded(DiscardedGap),
    Damage(Damage),
}

/// What [`Discarded`](super::Discarded) says, without its stream.
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
    /// Class of the stream in the schema.
    pub(crate) class: usize,
    /// Which stream of the class.
    pub(crate) id: Option<u64>,
    /// Where the first record begins \[bit of the packet\].
    pub(crate) records: u64,
    /// First and last key of its records \[ns since 1970\].
    pub(crate) floor: i64,
    pub(crate) cap: i64,
    /// Said behind its last record.
    pub(crate) truncated: Option<DamageKind>,
    /// The records' times need not be looked at: the packet's own are in the wrong order.
    pub(crate) out_of_order: bool,
    /// It begins before the one in front ends: its records may be before those in there.
    pub(crate) overlaps: bool,
    /// Likewise whether they are dates: the packet's own are not.
    pub(crate) no_date: bool,
}

/// A header as it is in the file.
struct HeaderInFile {
    class: usize,
    id: Option<u64>,
    context: PacketContext,
    /// \[bit\]
    content: u64,
    total: u64,
    sized: bool,
}

/// Goes through the packets of one stream.
#[derive(Debug)]
pub(crate) struct Hop<'r> {
    pub(crate) files: &'r StoredFiles,
    pub(crate) stream: &'r Stream,
    pub(crate) buffer: Buffer,
    pub(crate) state: super::decode::DecodeState,
    pub(crate) place: PacketPlace,
    /// Bytes of garbage that are looked through for the next packet.
    pub(crate) scan: u64,
    /// What there is to say, in front of the packet that was opened last; with keys.
    pub(crate) items: VecDeque<(i64, BetweenRecords)>,
}

impl<'r> Hop<'r> {
    /// From `place` on, with a window of at most so many bytes.
    pub(crate) fn new(
        files: &'r StoredFiles,
        stream: &'r Stream,
        place: PacketPlace,
        most: usize,
    ) -> Hop<'r> {
        let state = stream.trace.decoder.state();
        let (buffer, items) = (Buffer::new(most), VecDeque::new());
        Hop { files, stream, buffer, state, place, scan: u64::MAX, items }
    }

    /// The index in [`StoredFiles`] of the file that the place is in.
    pub(crate) fn file(&self) -> Option<usize> {
        self.stream.files.get(self.place.file).copied()
    }

    /// The next packet that can be read; what is to be said in front of it is then in `items`.
    pub(crate) fn next(&mut self) -> Option<OpenedPacket> {
        loop {
            let file = self.file()?;
            let left = self.files.bytes(file).saturating_sub(self.place.offset);
            if left == 0 {
                self.place.file += 1;
                self.place.offset = 0;
                self.place.padding = 0;
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

    /// Whether the packet was already read in another folder: snapshots of one trace overlap.
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

    /// Where a packet begins in the padding of the one before, if the numbers say that some are not there:
    /// that one's size is wrong.
    fn passed_over(&mut self, file: usize, head: &HeaderInFile) -> Option<u64> {
        let step = head.context.sequence?.wrapping_sub(self.place.sequence?);
        let end = self.place.offset;
        if step & self.stream.sequence_mask < 2 || self.place.padding < resync::SIGN as u64 {
            return None;
        }
        let next = self.search(file, end.saturating_sub(self.place.padding), end).packet();
        if next.is_none() {
            // The state has the head of what was looked at last: it must be this packet's.
            let left = self.files.bytes(file).saturating_sub(end);
            let _ = self.head(file, end, left);
        }
        next
    }

    /// Goes to the next packet behind what is none.
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

    /// The first byte of the file in `from..to` where a packet of this trace begins, whose header can be read.
    fn search(&mut self, file: usize, from: u64, to: u64) -> ResyncEnd {
        let (files, stream) = (self.files, self.stream);
        let Some(sign) = &stream.trace.sign else { return ResyncEnd::Nothing };
        resync::find(files, file, sign, from..to, |offset| self.is_packet(file, offset))
    }

    /// Whether one begins there.
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

    /// Believes the header, as far as the file allows, and goes behind the packet.
    fn open(&mut self, file: usize, head: HeaderInFile, left: u64) -> OpenedPacket {
        let offset = self.place.offset;
        let (total, truncated) = self.extent(file, &head, left);
        let content = head.content.min(total);
        let context = &head.context;
        let clock = self.stream.trace.clocks.get(head.class).copied().flatten();
        let ns = |cycles: Option<u64>| cycles.and_then(|cycles| Some(clock?.time(cycles)));
        // What is saved of the memory of a killed tracer has packets that were never closed.
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
        // What is between two packets is not told after the second begins, even if it is out of order.
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
        self.place.pass(&opened.packet, self.state.time, self.stream.discarded_mask);
        opened
    }

    /// How many bits of the packet there are, and what is wrong if they are not as many as it says.
    fn extent(&mut self, file: usize, head: &HeaderInFile, left: u64) -> (u64, Option<DamageKind>) {
        let offset = self.place.offset;
        let (bits, bytes) = (left.saturating_mul(8), head.total / 8);
        if !head.sized || (bytes < left && self.follows(file, offset.saturating_add(bytes))) {
            return (head.total, None);
        }
        if bytes == left {
            return (head.total, None);
        }
        // Either the size is wrong, or the file, or what follows is no packet: the next header says it.
        let first = offset.saturating_add(head.context.end_bit.div_ceil(8).max(1));
        let last = offset.saturating_add(bytes.min(left).min(self.scan).min(FAR));
        let next = self.search(file, first, last).packet();
        // The state has the head of what was looked at last: it must be this packet's.
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

    /// Whether a packet begins there, as far as magic number and UUID tell.
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
        // What is not there, or cannot be read, is told when the place is reached.
        match self.files.read(file, offset, found) {
            Ok(bytes) if bytes == sign.len() => found == &sign[..],
            _ => true,
        }
    }

    /// What the packet's head says of what is between it and the one before. Whether its own times are in the
    /// wrong order.
    fn say(&mut self, head: &HeaderInFile, packet: &Packet, before: i64, floor: i64) -> bool {
        let mut out_of_order = false;
        let expected = (self.stream.class, self.stream.id);
        // Where the first packet cannot be read, it is not known which stream this is.
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

    /// Damage at the place.
    fn damage(&mut self, key: i64, what: DamageKind) {
        let (number, offset) = (self.place.number, self.place.offset);
        let damage = self.described(self.place.file, number, offset, what);
        self.push(key, BetweenRecords::Damage(damage));
    }

    fn push(&mut self, key: i64, item: BetweenRecords) {
        self.items.push_back((key, item));
    }

    /// Damage of this stream.
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

/// Why no header was read.
pub(crate) enum HeaderFault {
    Header(HeaderDamage),
    System(std::io::Error),
}

impl From<HeaderDamage> for HeaderFault {
    fn from(damage: HeaderDamage) -> HeaderFault {
        HeaderFault::Header(damage)
    }
}
