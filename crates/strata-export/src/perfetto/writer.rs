//! Encodes packets one by one. It keeps the interned names, whose number the traces' metadata limits, and packets until
//! there are enough of them to be written at once.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use prost::Message;

use super::encode::{self, LengthMark};
use super::frames::InternedTexts;
use super::proto::{
    InternedData, InternedName, PacketData, PerfSample, TracePacket, TracePacketDefaults,
    TrackEvent, INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE,
};
use strata_analyze::render::line::{Lines, TextSink};

/// The sequence of the tracks, and of all packets that refer to interned names.
const SEQUENCE_EVENTS: u32 = 1;
/// The sequence of the clock, processes and scheduling.
const SEQUENCE_SYSTEM: u32 = 2;
/// The first of the sequences for single streams, which say where records were discarded.
const SEQUENCE_STREAMS: u32 = 16;

/// The first of the sequences of samples, one for each share. Numbers of streams' sequences are lower.
const SEQUENCE_SAMPLES: u32 = 1 << 28;

/// The number of slots in the cache of names; a power of two.
const RECENT: usize = 256;

/// The number of bytes that are gathered before they are written. In tests, each packet is written by itself.
const CHUNK: usize = if cfg!(test) { 1 } else { 256 << 10 };

/// The number of the field `Trace.packet`.
const PACKET: u32 = 1;
/// The numbers of the fields of `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const FLAGS: u32 = 13;
const DEFAULTS: u32 = 59;

/// The names that have numbers.
#[derive(Debug, Default)]
struct InternedNames {
    numbers: HashMap<Arc<str>, u64>,
    fresh: Vec<InternedName>,
    /// A cache of names by their address in memory, which is always the same for the name of one field.
    recent: Vec<Option<(Arc<str>, u64)>>,
}

impl InternedNames {
    fn number(&mut self, name: &str) -> u64 {
        let slot = (name.as_ptr() as usize >> 3) % RECENT;
        if let Some(Some((known, number))) = self.recent.get(slot) {
            if known.as_ref() == name {
                return *number;
            }
        }
        let (known, number) = self.search(name);
        self.recent.resize(RECENT, None);
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = Some((known, number));
        }
        number
    }

    /// Returns the number of a name; `None` if it has none.
    #[inline]
    fn known(&mut self, name: &str) -> Option<u64> {
        let slot = (name.as_ptr() as usize >> 3) % RECENT;
        match self.recent.get(slot) {
            Some(Some((known, number))) if known.as_ref() == name => Some(*number),
            _ => self.numbers.get(name).copied(),
        }
    }

    /// Returns the number of a name by its address, without comparing its text if the name was used recently. Returns
    /// `None` if it has no number.
    #[inline]
    fn of(&mut self, name: &Arc<str>) -> Option<u64> {
        let slot = (name.as_ptr() as usize >> 3) % RECENT;
        match self.recent.get(slot) {
            Some(Some((known, number))) if Arc::ptr_eq(known, name) => Some(*number),
            _ => self.find(slot, name),
        }
    }

    #[cold]
    fn find(&mut self, slot: usize, name: &Arc<str>) -> Option<u64> {
        let number = *self.numbers.get(name)?;
        self.recent.resize(RECENT, None);
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = Some((name.clone(), number));
        }
        Some(number)
    }

    fn search(&mut self, name: &str) -> (Arc<str>, u64) {
        if let Some((known, &number)) = self.numbers.get_key_value(name) {
            return (known.clone(), number);
        }
        let number = self.numbers.len() as u64 + 1;
        let known: Arc<str> = name.into();
        self.numbers.insert(known.clone(), number);
        self.fresh.push(InternedName { iid: Some(number), name: Some(name.to_owned()) });
        (known, number)
    }
}

#[derive(Debug)]
pub(super) struct PacketWriter<W> {
    out: W,
    clock_id: u32,
    /// The packets that are not written yet. The last one may be incomplete.
    pub buffer: Lines,
    /// The fields of an event that are to follow its other fields.
    pub apart: Lines,
    /// The open compound fields of an event, the innermost last.
    pub open: Vec<LengthMark>,
    names: InternedNames,
    categories: InternedNames,
    annotations: InternedNames,
    texts: InternedTexts,
    begun: bool,
    /// True while packets are discarded, because another share of the work writes this block.
    is_muted: bool,
    bytes: u64,
}

/// A packet with an event that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct BegunPacket {
    packet: LengthMark,
    event: LengthMark,
}

impl<W: Write> PacketWriter<W> {
    /// Makes a writer of packets whose times are on this clock.
    pub(super) fn new(out: W, clock_id: u32) -> PacketWriter<W> {
        PacketWriter {
            out,
            clock_id,
            buffer: Lines::default(),
            apart: Lines::default(),
            open: Vec::new(),
            names: InternedNames::default(),
            categories: InternedNames::default(),
            annotations: InternedNames::default(),
            texts: InternedTexts::of_share(0, 1),
            begun: false,
            is_muted: false,
            bytes: 0,
        }
    }

    /// Makes the writer that of share `number` of `of`, which take turns in writing a sequence. Share 0 begins the
    /// sequence.
    pub(super) fn begin_share(&mut self, number: usize, of: usize) -> io::Result<()> {
        self.is_muted = number > 0;
        self.texts = InternedTexts::of_share(number, of);
        if !self.is_muted {
            let packet = self.on_events(None, None);
            self.packet(&packet)?;
        }
        self.begun = true;
        Ok(())
    }

    /// Returns whether packets are discarded, because another share of the work writes this block.
    #[inline]
    pub(super) fn is_muted(&self) -> bool {
        self.is_muted
    }

    /// Ends a block. `is_muted`: true if another share of the work writes the next block.
    pub(super) fn end_block(&mut self, is_muted: bool) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_muted, is_muted) {
            if self.has_fresh() {
                let packet = self.on_events(None, None);
                self.packet(&packet)?;
            }
            self.hand_over(1)?;
            self.out.flush()?;
        }
        for names in [&mut self.categories, &mut self.names, &mut self.annotations] {
            names.fresh.clear();
        }
        Ok(())
    }

    /// Returns the number of the name of an event or a slice.
    pub(super) fn name(&mut self, name: &str) -> u64 {
        self.names.number(name)
    }

    /// Returns the number of a category.
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.number(name)
    }

    /// Returns the number of a debug annotation's name.
    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.number(name)
    }

    /// Returns the number of an annotation's name; `None` if it has none. Unlike [`PacketWriter::annotation`] it may be called
    /// for a record whose block another share writes, or not: the numbers stay the same in all shares.
    #[inline]
    pub(super) fn known_annotation(&mut self, name: &str) -> Option<u64> {
        self.annotations.known(name)
    }

    /// Returns the number of a field's name; `None` if it has none.
    #[inline]
    pub(super) fn annotation_of(&mut self, name: &Arc<str>) -> Option<u64> {
        self.annotations.of(name)
    }

    /// Returns the number of a text; `None` if there are too many, or another share writes this block.
    pub(super) fn text(&mut self, text: &str) -> Option<u64> {
        self.texts.number(text)
    }

    /// Begins an event on a track. Its fields are then added to the buffer.
    #[inline]
    pub(super) fn begin_event(&mut self) -> BegunPacket {
        let packet = encode::begin(&mut self.buffer, PACKET);
        BegunPacket { packet, event: encode::begin(&mut self.buffer, TRACK_EVENT) }
    }

    /// Ends an event after its last field.
    #[inline]
    pub(super) fn end_event(&mut self, begun: BegunPacket, time: u64) -> io::Result<()> {
        let is_usual = self.begun && !self.has_fresh();
        let out = &mut self.buffer;
        encode::end(out, begun.event);
        encode::number(out, TIMESTAMP, time);
        if is_usual {
            const TAIL: [u8; 4] = [
                (SEQUENCE << 3) as u8,
                SEQUENCE_EVENTS as u8,
                (FLAGS << 3) as u8,
                NEEDS_INCREMENTAL_STATE as u8,
            ];
            out.put(&TAIL, TAIL.len());
        } else {
            self.tell_names();
        }
        encode::end(&mut self.buffer, begun.packet);
        self.hand_over(CHUNK)
    }

    /// Writes the names that are new since the last call.
    #[cold]
    fn tell_names(&mut self) {
        let packet = self.on_events(None, None);
        let out = &mut self.buffer;
        encode::number(out, SEQUENCE, SEQUENCE_EVENTS.into());
        if let Some(data) = &packet.interned_data {
            encode::bytes(out, INTERNED, &data.encode_to_vec());
        }
        encode::number(out, FLAGS, packet.sequence_flags.unwrap_or(0).into());
        if let Some(defaults) = &packet.trace_packet_defaults {
            encode::bytes(out, DEFAULTS, &defaults.encode_to_vec());
        }
    }

    /// Writes the description of a track.
    pub(super) fn track(&mut self, track: super::proto::TrackDescriptor) -> io::Result<()> {
        if self.is_muted {
            return Ok(());
        }
        let packet = self.on_events(None, Some(PacketData::TrackDescriptor(track)));
        self.packet(&packet)
    }

    /// Writes a bundle of scheduling events, which is already encoded.
    pub(super) fn scheduling(&mut self, bundle: &[&[u8]]) -> io::Result<()> {
        const FTRACE_EVENTS: u32 = 1;
        if self.is_muted {
            return Ok(());
        }
        let out = &mut self.buffer;
        let packet = encode::begin(out, PACKET);
        let message = encode::begin(out, FTRACE_EVENTS);
        bundle.iter().for_each(|part| out.extend_from_slice(part));
        encode::end(out, message);
        encode::number(out, SEQUENCE, SEQUENCE_SYSTEM.into());
        encode::end(out, packet);
        self.hand_over(CHUNK)
    }

    /// Writes a packet about the clock, processes, or scheduling.
    pub(super) fn system(&mut self, time: Option<u64>, data: PacketData) -> io::Result<()> {
        self.packet(&TracePacket {
            timestamp: time,
            timestamp_clock_id: time.map(|_| self.clock_id),
            trusted_packet_sequence_id: Some(SEQUENCE_SYSTEM),
            data: Some(data),
            ..TracePacket::default()
        })
    }

    /// Writes a sample of a call stack, and the names that it uses first. Each `share` of the work has a sequence of
    /// packets, and names, of its own.
    pub(super) fn sample(
        &mut self,
        share: usize,
        time: u64,
        (sample, new, flags): (PerfSample, InternedData, u32),
    ) -> io::Result<()> {
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        self.packet(&TracePacket {
            timestamp: Some(time),
            timestamp_clock_id: Some(self.clock_id),
            trusted_packet_sequence_id: Some(SEQUENCE_SAMPLES.saturating_add(share)),
            interned_data: (new != InternedData::default()).then_some(new),
            sequence_flags: Some(flags),
            data: Some(PacketData::PerfSample(sample)),
            ..TracePacket::default()
        })
    }

    /// Begins the sequence of a stream, so that a later loss can be reported in it.
    pub(super) fn begin_stream(&mut self, stream: u32) -> io::Result<()> {
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE_STREAMS.saturating_add(stream)),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            ..TracePacket::default()
        })
    }

    /// Writes an event in the sequence of a stream of which something is missing. The event has names as text, since
    /// interned names belong to another sequence.
    pub(super) fn gap(&mut self, stream: u32, time: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(&TracePacket {
            timestamp: Some(time),
            timestamp_clock_id: Some(self.clock_id),
            trusted_packet_sequence_id: Some(SEQUENCE_STREAMS.saturating_add(stream)),
            gap_before: Some(1),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            data: Some(PacketData::TrackEvent(event)),
            ..TracePacket::default()
        })
    }

    /// Returns the number of bytes of all packets so far.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all packets. Returns the output, and the number of bytes.
    pub(super) fn finish(mut self) -> io::Result<(W, u64)> {
        if !self.is_muted {
            self.hand_over(1)?;
            self.out.flush()?;
        }
        Ok((self.out, self.bytes))
    }

    /// Returns a packet of the sequence that refers to interned names.
    fn on_events(&mut self, time: Option<u64>, data: Option<PacketData>) -> TracePacket {
        let first = !std::mem::replace(&mut self.begun, true);
        let defaults = TracePacketDefaults { timestamp_clock_id: Some(self.clock_id) };
        let flags = if first { INCREMENTAL_STATE_CLEARED } else { 0 } | NEEDS_INCREMENTAL_STATE;
        TracePacket {
            timestamp: time,
            trusted_packet_sequence_id: Some(SEQUENCE_EVENTS),
            interned_data: self.fresh(),
            sequence_flags: Some(flags),
            trace_packet_defaults: first.then_some(defaults),
            data,
            ..TracePacket::default()
        }
    }

    #[inline]
    fn has_fresh(&self) -> bool {
        let all = [&self.categories, &self.names, &self.annotations];
        all.iter().any(|names| !names.fresh.is_empty()) || !self.texts.fresh.is_empty()
    }

    /// Returns the names that no packet has contained yet.
    fn fresh(&mut self) -> Option<InternedData> {
        let data = InternedData {
            event_categories: std::mem::take(&mut self.categories.fresh),
            event_names: std::mem::take(&mut self.names.fresh),
            debug_annotation_names: std::mem::take(&mut self.annotations.fresh),
            debug_annotation_string_values: std::mem::take(&mut self.texts.fresh),
            ..InternedData::default()
        };
        (data != InternedData::default()).then_some(data)
    }

    fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        if self.is_muted {
            return Ok(());
        }
        encode::bytes(&mut self.buffer, PACKET, &packet.encode_to_vec());
        self.hand_over(CHUNK)
    }

    /// Writes the collected packets to the output if they have at least `least` bytes.
    #[inline]
    fn hand_over(&mut self, least: usize) -> io::Result<()> {
        if self.buffer.len() < least {
            return Ok(());
        }
        self.bytes = self.bytes.saturating_add(self.buffer.len() as u64);
        let done = self.out.write_all(self.buffer.as_bytes());
        self.buffer.clear();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::CLOCK_MONOTONIC;

    /// The message `Trace`, as a reader would decode it.
    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    fn instant<W: Write>(writer: &mut PacketWriter<W>, name: u64) -> io::Result<()> {
        let begun = writer.begin_event();
        encode::number(&mut writer.buffer, 10, name);
        writer.end_event(begun, 1)
    }

    #[test]
    fn writer_tells_each_name_once_with_the_packet_that_needs_it() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_MONOTONIC);
        for name in ["a", "b", "a"] {
            let name = writer.name(name);
            instant(&mut writer, name).unwrap();
        }
        let (_, count) = writer.finish().unwrap();
        assert_eq!(count, bytes.len() as u64);
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let names: Vec<usize> = trace
            .packet
            .iter()
            .map(|packet| packet.interned_data.as_ref().map_or(0, |data| data.event_names.len()))
            .collect();
        assert_eq!(names, [1, 1, 0]);
        let flags: Vec<_> = trace.packet.iter().map(|packet| packet.sequence_flags).collect();
        assert_eq!(flags, [Some(3), Some(2), Some(2)]);
        let first = trace.packet.first().unwrap();
        let defaults = first.trace_packet_defaults.as_ref().unwrap();
        assert_eq!(defaults.timestamp_clock_id, Some(CLOCK_MONOTONIC));
    }

    #[test]
    fn name_has_one_number_wherever_it_is_in_memory() {
        let mut names = InternedNames::default();
        let texts: Vec<String> = (0..2000).map(|number| format!("name{}", number % 700)).collect();
        let numbers: Vec<u64> = texts.iter().map(|text| names.number(text)).collect();
        for (at, number) in numbers.iter().enumerate() {
            assert_eq!(*number, at as u64 % 700 + 1);
        }
        assert_eq!(names.fresh.len(), 700);
        // Another name at the same place.
        let mut place = String::from("name0");
        assert_eq!(names.number(&place), 1);
        place.replace_range(4.., "1");
        assert_eq!(names.number(&place), 2);
    }

    #[test]
    fn loss_in_a_stream_is_reported_in_its_own_sequence() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_MONOTONIC);
        writer.begin_stream(3).unwrap();
        writer.gap(3, 9, TrackEvent::default()).unwrap();
        writer.finish().unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let [first, second] = trace.packet.as_slice() else { panic!("{trace:?}") };
        assert_eq!(first.trusted_packet_sequence_id, second.trusted_packet_sequence_id);
        assert_eq!(first.gap_before, None);
        assert_eq!(second.gap_before, Some(1));
        assert_eq!(second.timestamp, Some(9));
    }

    #[test]
    fn writer_to_a_full_disk_says_so() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = PacketWriter::new(Full, CLOCK_MONOTONIC);
        let error = instant(&mut writer, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
