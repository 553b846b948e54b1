//! Packets to bytes, one by one: what is kept is names only, of which there are as many as the traces'
//! metadata has, and packets until there are enough of them to be handed over at once.

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
use crate::render::line::{Lines, TextSink};

/// The sequence with all that refers to interned names, and with the tracks.
const SEQUENCE_EVENTS: u32 = 1;
/// The sequence with the clock, processes and scheduling.
const SEQUENCE_SYSTEM: u32 = 2;
/// The first of the sequences that stand for one stream each and say where records were discarded.
const SEQUENCE_STREAMS: u32 = 16;

/// The first of the sequences with samples, one for each share: above any stream's.
const SEQUENCE_SAMPLES: u32 = 1 << 28;

/// Names of which the number is found without a search; a power of two.
const RECENT: usize = 256;

/// Bytes that are handed over at once. Tests look at what each packet does.
const CHUNK: usize = if cfg!(test) { 1 } else { 256 << 10 };

/// `Trace.packet`.
const PACKET: u32 = 1;
/// Fields of `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const FLAGS: u32 = 13;
const DEFAULTS: u32 = 59;

/// Names that have numbers.
#[derive(Debug, Default)]
struct InternedNames {
    numbers: HashMap<Arc<str>, u64>,
    fresh: Vec<InternedName>,
    /// By where the name was in memory, which is the same each time for the name of one field.
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

    /// Of a name that is kept elsewhere, too: nothing has to be compared then. `None`: it has none.
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

/// Writes packets.
#[derive(Debug)]
pub(super) struct PacketWriter<W> {
    out: W,
    clock_id: u32,
    /// Packets that are not handed over yet; the last one may have begun only.
    pub buffer: Lines,
    /// What of an event's fields is put behind the others.
    pub apart: Lines,
    /// Fields of an event that have fields, and have begun only.
    pub open: Vec<LengthMark>,
    names: InternedNames,
    categories: InternedNames,
    annotations: InternedNames,
    texts: InternedTexts,
    begun: bool,
    /// Packets are another share's to write.
    is_muted: bool,
    bytes: u64,
}

/// A packet with an event that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct BegunPacket {
    packet: LengthMark,
    event: LengthMark,
}

impl<W: Write> PacketWriter<W> {
    /// Times are of this clock.
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

    /// One of several that write one sequence by turns: the first, of number 0, begins it.
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

    /// Packets are another share's to write.
    #[inline]
    pub(super) fn is_muted(&self) -> bool {
        self.is_muted
    }

    /// A block ends. What is behind it is another share's to write, or not.
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

    /// The number of an event's or slice's name.
    pub(super) fn name(&mut self, name: &str) -> u64 {
        self.names.number(name)
    }

    /// The number of a category.
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.number(name)
    }

    /// The number of a debug annotation's name.
    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.number(name)
    }

    /// The number of the name of a field; `None`: it was given none.
    #[inline]
    pub(super) fn annotation_of(&mut self, name: &Arc<str>) -> Option<u64> {
        self.annotations.of(name)
    }

    /// The number of a text; `None`: there are too many. Not of a share that is muted: nobody else tells it.
    pub(super) fn text(&mut self, text: &str) -> Option<u64> {
        self.texts.number(text)
    }

    /// Begin an event on a track. Its fields are put into the buffer.
    #[inline]
    pub(super) fn begin_event(&mut self) -> BegunPacket {
        let packet = encode::begin(&mut self.buffer, PACKET);
        BegunPacket { packet, event: encode::begin(&mut self.buffer, TRACK_EVENT) }
    }

    /// All its fields are there.
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

    /// What comes with new names.
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

    /// A track.
    pub(super) fn track(&mut self, track: super::proto::TrackDescriptor) -> io::Result<()> {
        if self.is_muted {
            return Ok(());
        }
        let packet = self.on_events(None, Some(PacketData::TrackDescriptor(track)));
        self.packet(&packet)
    }

    /// Scheduling of a CPU: a message that is there already.
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

    /// The clock, processes, or scheduling.
    pub(super) fn system(&mut self, time: Option<u64>, data: PacketData) -> io::Result<()> {
        self.packet(&TracePacket {
            timestamp: time,
            timestamp_clock_id: time.map(|_| self.clock_id),
            trusted_packet_sequence_id: Some(SEQUENCE_SYSTEM),
            data: Some(data),
            ..TracePacket::default()
        })
    }

    /// A sample, and what is new in it, in the sequence of a share.
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

    /// Begin the sequence of a stream, so that it can say later that something is absent in it.
    pub(super) fn begin_stream(&mut self, stream: u32) -> io::Result<()> {
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE_STREAMS.saturating_add(stream)),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            ..TracePacket::default()
        })
    }

    /// An event on a track, in the sequence of a stream, of which something is absent. Its names are in
    /// it: interned ones are those of another sequence.
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

    /// All bytes so far.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hand everything on.
    pub(super) fn finish(mut self) -> io::Result<(W, u64)> {
        if !self.is_muted {
            self.hand_over(1)?;
            self.out.flush()?;
        }
        Ok((self.out, self.bytes))
    }

    /// A packet of the sequence with all that refers to names.
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

    /// The names that no packet has had so far.
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

    /// Hand over what is there, if it is that much.
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

    /// The trace as it would be read.
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
    fn loss_in_a_stream_is_told_in_its_own_sequence() {
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
