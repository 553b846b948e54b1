//! Cuts one stream: makes packets from the chosen records.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::class::ClassInfo;
use super::error::CutError;
use super::field_copy::{Copier, FieldWithoutEnd, KnownValues, PacketSource, Time};
use super::file::PacketFile;
use super::packet_head::PacketHead;
use super::writer::PacketBuilder;
use crate::model::schema::{Location, Role, Scope};
use crate::read::{align_up, later, low_bits, DiscardedKind, Event, Packet, StoredFiles, Stream};

/// Size of the first attempt to read a packet's head \[byte\].
const HEAD_BYTES: u64 = 1 << 10;
/// Limit on the size of a packet's head \[byte\].
const HEAD_LONGEST: u64 = 64 << 20;
/// The most successive packets that are written only to advance the time.
const STEPS: u32 = 1 << 12;

/// The losses before a packet, as the packet's head reports them.
#[derive(Clone, Copy, Debug, Default)]
struct PacketGap {
    records: u64,
    packets: u64,
    /// True for the first packet, which reports all losses so far.
    at_begin: bool,
    /// End of the previous packet \[cycle\].
    from: Option<u64>,
    is_any: bool,
}

/// Limits for the files and packets that are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketLimits {
    /// The most bytes that are collected before they are written.
    pub bytes: usize,
    /// True if files are closed after each write.
    pub close: bool,
}

/// Copies the chosen records of one stream.
pub(super) struct StreamCut<'r> {
    stream: &'r Stream,
    files: &'r StoredFiles,
    needed: Arc<HashSet<Location>>,
    limits: PacketLimits,
    /// The begin of the requested time range, `from..=until` \[cycle\].
    from: u64,
    until: u64,
    path: PathBuf,
    file: PacketFile,
    /// Size of all files before the current one \[byte\].
    bytes_before: u64,
    files_made: u32,
    /// Number of packets in the current file.
    packets: u64,

    /// The source packet that is being read.
    source: Option<Packet>,
    head_bytes: Vec<u8>,
    gap: PacketGap,
    known: KnownValues,
    times: Vec<Time>,

    /// True while a packet is being written.
    is_open: bool,
    out: PacketBuilder,
    head: PacketHead,
    /// A copy of the packet's head, once it was written to the file.
    first: Vec<u8>,
    head_end: usize,
    /// Begin of the packet in the file \[byte\].
    offset: u64,
    /// Begin of the packet, and the time of its last record \[cycle\].
    begin: Option<u64>,
    last: Option<u64>,

    /// The time that a reader of the written packet computes at its present end \[cycle\].
    time: u64,
    sequence: Option<u64>,
    discarded: u64,
    /// Number of the last source packet that was written, in full or in part.
    emitted: Option<u64>,
}

impl<'r> StreamCut<'r> {
    pub fn new(
        stream: &'r Stream,
        files: &'r StoredFiles,
        needed: Arc<HashSet<Location>>,
        (from, until): (u64, u64),
        path: PathBuf,
        limits: PacketLimits,
    ) -> StreamCut<'r> {
        StreamCut {
            stream,
            files,
            needed,
            limits,
            from,
            until,
            file: PacketFile::new(path.clone(), limits.bytes, limits.close),
            path,
            bytes_before: 0,
            files_made: 1,
            packets: 0,
            source: None,
            head_bytes: Vec::new(),
            gap: PacketGap::default(),
            known: KnownValues::default(),
            times: Vec::new(),
            is_open: false,
            out: PacketBuilder::default(),
            head: PacketHead::default(),
            first: Vec::new(),
            head_end: 0,
            offset: 0,
            begin: None,
            last: None,
            time: 0,
            sequence: None,
            discarded: 0,
            emitted: None,
        }
    }

    /// Adds a loss of event records or packets before `packet`.
    pub fn discarded(
        &mut self,
        packet: &Packet,
        kind: DiscardedKind,
        count: u64,
        at_begin: bool,
        from: Option<u64>,
    ) -> Result<(), CutError> {
        self.enter(packet)?;
        match kind {
            DiscardedKind::Records => self.gap.records = count,
            DiscardedKind::Packets => self.gap.packets = count,
        }
        self.gap.at_begin |= at_begin;
        self.gap.from = self.gap.from.or(from);
        self.gap.is_any = true;
        Ok(())
    }

    /// Writes a chosen event record.
    pub fn event(&mut self, event: &Event<'_>, info: ClassInfo) -> Result<(), CutError> {
        self.enter(event.packet())?;
        let time = event.cycles();
        if !self.is_open {
            self.open(time)?;
        }
        let (bytes, origin) = event.bytes_at_hand();
        let source = PacketSource { bytes, origin };
        let (begin, end) = event.bits();
        let place = align_up(self.out.at(), info.header_align);
        let is_alike = begin % 8 == 0
            && end % 8 == 0
            && place % 8 == 0
            && place.wrapping_sub(begin) % info.align == 0;
        let is_clear = time.is_none_or(|time| {
            let ahead = time.wrapping_sub(self.time);
            info.time_bits.is_some_and(|bits| ahead <= low_bits(bits))
        });
        if is_alike && is_clear && !info.is_late {
            let record = source.take(begin, end.saturating_sub(begin) / 8);
            let record = record.map_err(|FieldWithoutEnd| self.cannot_follow(event))?;
            self.out.align(info.header_align);
            self.out.extend(record);
            self.time = time.unwrap_or(self.time);
        } else {
            self.fit(event, source, time, info)?;
        }
        self.last = self.last.max(time);
        if self.out.bytes.len() >= self.limits.bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// Completes the stream. Returns the size of its files \[byte\].
    pub fn finish(&mut self) -> Result<u64, CutError> {
        self.leave()?;
        self.file.flush()?;
        Ok(self.bytes_before + self.file.end())
    }

    fn enter(&mut self, packet: &Packet) -> Result<(), CutError> {
        if self.source.as_ref().is_some_and(|source| source.number == packet.number) {
            return Ok(());
        }
        self.leave()?;
        self.source = Some(packet.clone());
        self.head_bytes.clear();
        Ok(())
    }

    /// Finishes the source packet that was being read.
    fn leave(&mut self) -> Result<(), CutError> {
        if self.gap.is_any {
            self.open(None)?;
        }
        self.close_at_end()
    }

    fn refused(&self, what: String) -> CutError {
        CutError::Refused { stream: self.stream.name().to_owned(), what }
    }

    fn cannot_follow(&self, event: &Event<'_>) -> CutError {
        let offset = event.offset();
        self.refused(format!("the event record at byte {offset} was changed while it was read"))
    }

    fn time_is_unsayable(&self, time: u64) -> CutError {
        self.refused(format!(
            "time {time} (in cycles of its clock) cannot be said in a part of it: its timestamps are too \
             short, and what is between would be needed. Export more of it, or without a filter"
        ))
    }

    /// Begins a packet for the current source packet. `first` is the time of its first record; `None` if it has no
    /// records.
    fn open(&mut self, first: Option<u64>) -> Result<(), CutError> {
        let Some(packet) = self.source.clone() else { return Ok(()) };
        let gap = std::mem::take(&mut self.gap);
        let is_behind =
            self.emitted.is_some_and(|emitted| emitted.checked_add(1) == Some(packet.number));
        let is_known = gap.from.is_none() && self.emitted.is_some();
        let anchor = gap.is_any && !gap.at_begin && !is_behind && !is_known;
        let begin = packet.begin_cycles.map(|begin| self.begin(&packet, begin, first));
        if self.sequence.is_none() {
            let skipped = gap.packets.wrapping_add(u64::from(anchor));
            self.sequence = packet.sequence.map(|sequence| sequence.wrapping_sub(skipped));
        }
        if anchor {
            // An empty packet gives the counts and the time at which the gap begins.
            let time = begin.map(|begin| gap.from.map_or(begin, |from| from.max(self.from)));
            self.start(time)?;
            self.close(packet.end_cycles.and(time))?;
        }
        self.discarded = match gap.at_begin {
            true => gap.records,
            false => self.discarded.wrapping_add(gap.records),
        };
        self.sequence = self.sequence.map(|sequence| sequence.wrapping_add(gap.packets));
        self.start(begin)?;
        self.emitted = Some(packet.number);
        Ok(())
    }

    /// Returns the begin time for a packet of which only some records are kept \[cycle\].
    fn begin(&self, packet: &Packet, begin: u64, first: Option<u64>) -> u64 {
        let within = begin.max(self.from).min(packet.end_cycles.unwrap_or(u64::MAX).max(begin));
        match first {
            Some(first) if first < begin => begin,
            Some(first) => within.min(first),
            None => within.min(self.until),
        }
    }

    /// Writes the source packet's head, with `begin` as the begin of the packet.
    fn start(&mut self, begin: Option<u64>) -> Result<(), CutError> {
        self.copy_head()?;
        if self.packets > 0 && !self.head.has_size() {
            self.next_file()?;
        }
        if let (Some(begin), Some(bits)) = (begin, self.head.begin_bits()) {
            let mut steps = 0;
            while self.head.time(self.time, begin) != begin {
                steps += 1;
                if bits >= 64 || begin < self.time || steps > STEPS {
                    return Err(self.time_is_unsayable(begin));
                }
                // A packet without records brings the time so near that the next head's bits are unambiguous.
                let time = self.time.wrapping_add(low_bits(bits)).min(begin);
                self.head.set_begin(&mut self.out.bytes, time);
                self.begun(Some(time));
                self.close(Some(time))?;
                self.copy_head()?;
            }
            self.head.set_begin(&mut self.out.bytes, begin);
        }
        self.begun(begin);
        Ok(())
    }

    fn begun(&mut self, begin: Option<u64>) {
        self.is_open = true;
        self.time = begin.unwrap_or(self.time);
        (self.begin, self.last) = (begin, None);
        self.offset = self.file.end();
        self.head_end = self.out.bytes.len();
        self.first.clear();
    }

    fn copy_head(&mut self) -> Result<(), CutError> {
        let Some(packet) = &self.source else { return Ok(()) };
        let decoder = &self.stream.trace.decoder;
        let most = (packet.packet_bits / 8).min(HEAD_LONGEST);
        let mut wanted = HEAD_BYTES.min(most);
        loop {
            self.out.clear();
            if !self.head_bytes.is_empty() {
                let class = |id| decoder.find_stream(id);
                let (schema, bytes) = (decoder.schema(), &self.head_bytes);
                let known = &mut self.known;
                let out = &mut self.out;
                if self.head.copy(schema, &self.needed, known, bytes, out, class).is_ok() {
                    return Ok(());
                }
            }
            let have = self.head_bytes.len() as u64;
            if have > 0 {
                wanted = have.saturating_mul(4).min(most);
            }
            if wanted <= have {
                break;
            }
            let file = self.stream.files.get(packet.file).copied().unwrap_or(usize::MAX);
            self.head_bytes.resize(wanted as usize, 0);
            let read = self.files.read(file, packet.offset, &mut self.head_bytes)?;
            self.head_bytes.truncate(read);
            if read as u64 <= have {
                break;
            }
        }
        let offset = packet.offset;
        Err(self.refused(format!("the packet at byte {offset} was changed while it was read")))
    }

    /// Begins a new file, since packets without a size need a file each.
    fn next_file(&mut self) -> Result<(), CutError> {
        if !self.head.has_stream() {
            return Err(self.refused(
                "all of a file is one packet, so that neither a second packet nor a gap can be written. \
                 Export a part without discarded event records"
                    .into(),
            ));
        }
        self.file.flush()?;
        self.bytes_before += self.file.end();
        self.files_made += 1;
        let mut name = self.path.file_name().map(ToOwned::to_owned).unwrap_or_default();
        name.push(format!("_{}", self.files_made));
        let path = self.path.with_file_name(name);
        self.file = PacketFile::new(path, self.limits.bytes, self.limits.close);
        self.packets = 0;
        Ok(())
    }

    /// Closes the packet at the end of the source packet.
    fn close_at_end(&mut self) -> Result<(), CutError> {
        let end = self.source.as_ref().and_then(|source| source.end_cycles);
        let end = end.map(|end| end.min(self.until).max(self.begin.max(self.last).unwrap_or(0)));
        self.close(end)
    }

    fn close(&mut self, end: Option<u64>) -> Result<(), CutError> {
        if !self.is_open {
            return Ok(());
        }
        let content = self.out.at();
        if content % 8 != 0 && !self.head.has_content() {
            return Err(self.refused("a packet of it would end within a byte".into()));
        }
        self.out.align(8);
        let total = content.div_ceil(8).saturating_mul(8);
        let was_written = !self.first.is_empty();
        let head = if was_written { &mut self.first } else { &mut self.out.bytes };
        self.head.set(head, Role::PacketTotalLength, total);
        self.head.set(head, Role::PacketContentLength, content);
        self.head.set(head, Role::DiscardedEvents, self.discarded);
        if let Some(end) = end {
            self.head.set(head, Role::PacketEndTimestamp, end);
        }
        if let Some(sequence) = &mut self.sequence {
            self.head.set(head, Role::PacketSequenceNumber, *sequence);
            *sequence = sequence.wrapping_add(1);
        }
        self.file.append(&self.out.bytes)?;
        if was_written {
            self.file.replace(self.offset, &self.first)?;
        }
        self.packets += 1;
        self.is_open = false;
        // A reader continues from this time between packets.
        self.time = end.or(self.begin).unwrap_or(self.time);
        Ok(())
    }

    /// Writes the collected part of the packet to the file.
    fn flush(&mut self) -> Result<(), CutError> {
        if self.first.is_empty() {
            let head = self.out.bytes.get(..self.head_end).unwrap_or_default();
            self.first.extend_from_slice(head);
        }
        self.file.append(self.out.whole())?;
        self.out.take_whole();
        Ok(())
    }

    /// Copies a record field by field. If its time would be read wrongly, it gets a full timestamp, or a packet of its
    /// own.
    #[cold]
    fn fit(
        &mut self,
        event: &Event<'_>,
        source: PacketSource<'_>,
        time: Option<u64>,
        info: ClassInfo,
    ) -> Result<(), CutError> {
        let mark = self.out.mark();
        let in_header = self.copy(event, source, None)?;
        let mut found = self.read_times(self.time, 0..in_header);
        if let Some(time) = time.filter(|&time| time != found) {
            self.out.back_to(mark);
            let decoder = self.stream.trace.decoder.stream(event.class().stream_class());
            found = time;
            if let Some(split) = decoder.and_then(|decoder| decoder.split_header()) {
                let id = event.class().id();
                self.out.align(info.header_align);
                let (tag, width) = if split.large { (u16::MAX, 16) } else { (31, 5) };
                self.out.put(u64::from(tag), width, split.big);
                self.out.align(8);
                self.out.put(id, 32, split.big);
                self.out.put(time, 64, split.big);
                let behind = event.bits().0 + if split.large { 48 } else { 32 };
                self.copy(event, source, Some(behind))?;
            } else {
                if self.head.begin_bits().is_none() {
                    return Err(self.time_is_unsayable(time));
                }
                if self.last.is_some() {
                    let end = self.source.as_ref().and_then(|source| source.end_cycles);
                    self.close(end.and(self.last.max(self.begin)))?;
                }
                self.start(Some(time))?;
                let in_header = self.copy(event, source, None)?;
                if self.read_times(self.time, 0..in_header) != time {
                    return Err(self.time_is_unsayable(time));
                }
                return self.time_behind(time, in_header);
            }
            return self.time_behind(found, 0);
        }
        self.time_behind(found, in_header)
    }

    /// Sets the time that a reader computes after a record, starting from the record's own `time`.
    fn time_behind(&mut self, time: u64, in_header: usize) -> Result<(), CutError> {
        self.time = self.read_times(time, in_header..self.times.len());
        Ok(())
    }

    /// Computes the time that a reader gets from these timestamps, starting from `time`.
    fn read_times(&self, time: u64, range: std::ops::Range<usize>) -> u64 {
        let times = self.times.get(range).unwrap_or_default();
        times.iter().fold(time, |time, &(value, bits)| later(time, value, low_bits(bits)))
    }

    /// Copies a record field by field, or only the part after its header. Returns the number of timestamps in the
    /// header.
    fn copy(
        &mut self,
        event: &Event<'_>,
        source: PacketSource<'_>,
        behind_header: Option<u64>,
    ) -> Result<usize, CutError> {
        self.times.clear();
        self.known.begin_record();
        let class = self.stream.trace.schema().streams.get(event.class().stream_class());
        let own = event.class().schema();
        let mut copier = Copier {
            source,
            at: behind_header.unwrap_or(event.bits().0),
            out: &mut self.out,
            known: &mut self.known,
            needed: &self.needed,
            clock: class.and_then(|class| class.clock),
            times: &mut self.times,
            meant: None,
            place: Location::at(Scope::EventHeader, Vec::new()),
        };
        let mut parts = || -> Result<(usize, u64), FieldWithoutEnd> {
            let class = class.ok_or(FieldWithoutEnd)?;
            if behind_header.is_none() {
                copier.part(Scope::EventHeader, class.event_header.as_ref())?;
            }
            let in_header = copier.times.len();
            copier.part(Scope::CommonContext, class.event_common_context.as_ref())?;
            copier.part(Scope::SpecificContext, own.specific_context.as_ref())?;
            copier.part(Scope::Payload, own.payload.as_ref())?;
            Ok((in_header, copier.at))
        };
        match parts() {
            Ok((in_header, end)) if end == event.bits().1 => Ok(in_header),
            _ => Err(self.cannot_follow(event)),
        }
    }
}
