//! The index files of LTTng: `index/NAME.idx` for the file NAME.
//!
//! All numbers are big-endian: magic number, major and minor version, bytes of an entry (32 bits each);
//! then for each packet, 64 bits each: offset \[byte\], packet size, content size \[bit\], begin, end
//! \[cycle\], discarded records, stream class; from version 1.1 on also stream and sequence number.

use super::files::Files;
use super::find;
use super::hop::Place;
use super::index::{is_there, Places};
use super::stream::{Packet, Stream};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

const MAGIC: u32 = 0xc1f1_dcc1;
/// Bytes of an entry of version 1.0, of 1.1, and at most.
const ENTRY: usize = 56;
const ENTRY_1_1: usize = 72;
const ENTRY_MOST: usize = 4096;
/// So many of its packets are looked at before an index is believed.
const SAMPLES: usize = 16;

/// The stream's packets; `None`: not all of its files have an index that can be believed.
pub(crate) fn places(files: &Files, stream: &Stream, mut places: Places) -> Option<Places> {
    if stream.merged {
        return None;
    }
    let mut place = Place::default();
    for (number, &file) in stream.files.iter().enumerate() {
        place.file = number;
        place.offset = 0;
        let mut entries = Entries::open(files.path(file))?;
        while place.offset < files.bytes(file) {
            let packet = entries.next()?.packet(stream, &place, files.bytes(file))?;
            places.add(&place, Some(&packet));
            place.pass(&packet, 0, stream.discarded_mask);
        }
        if place.offset != files.bytes(file) {
            return None;
        }
    }
    let expected: Vec<_> = places.expected().collect();
    let step = expected.len().div_ceil(SAMPLES).max(1);
    let mut samples = expected.iter().step_by(step).chain(expected.last());
    let believable = samples.all(|(place, packet)| is_there(files, stream, place, packet));
    drop(expected);
    believable.then(|| places.end(place))
}

/// One index file.
struct Entries {
    file: BufReader<File>,
    bytes: usize,
}

/// One packet.
struct Entry {
    offset: u64,
    packet_bits: u64,
    content_bits: u64,
    begin: u64,
    end: u64,
    discarded: u64,
    class: u64,
    /// Stream and sequence number.
    more: Option<(u64, u64)>,
}

impl Entries {
    /// The index of a stream's file.
    fn open(stream: &Path) -> Option<Entries> {
        let mut name = stream.file_name()?.to_owned();
        name.push(".idx");
        let path = stream.parent()?.join(find::INDEX).join(name);
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut file = BufReader::new(File::open(path).ok()?);
        let mut word = || {
            let mut bytes = [0; 4];
            file.read_exact(&mut bytes).ok().map(|()| u32::from_be_bytes(bytes))
        };
        let (magic, major, minor, bytes) = (word()?, word()?, word()?, word()?);
        let bytes = usize::try_from(bytes).ok()?;
        let least = if minor == 0 { ENTRY } else { ENTRY_1_1 };
        let known = magic == MAGIC && major == 1 && (least..=ENTRY_MOST).contains(&bytes);
        known.then_some(Entries { file, bytes })
    }

    fn next(&mut self) -> Option<Entry> {
        let mut bytes = [0; ENTRY_MOST];
        let bytes = bytes.get_mut(..self.bytes)?;
        self.file.read_exact(bytes).ok()?;
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| word.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte)));
        Some(Entry {
            offset: words.next()?,
            packet_bits: words.next()?,
            content_bits: words.next()?,
            begin: words.next()?,
            end: words.next()?,
            discarded: words.next()?,
            class: words.next()?,
            more: words.next().zip(words.next()),
        })
    }
}

impl Entry {
    /// The packet, if it can be at this place: only what is in perfect order is believed.
    fn packet(&self, stream: &Stream, place: &Place, file: u64) -> Option<Packet> {
        let left = file.checked_sub(self.offset)?;
        let whole = self.packet_bits % 8 == 0 && self.packet_bits / 8 <= left;
        let sized = 0 < self.content_bits && self.content_bits <= self.packet_bits;
        let timed = self.begin <= self.end && place.time <= self.begin && self.end != 0;
        let ours = self.class == stream.class().id;
        if self.offset != place.offset || !whole || !sized || !timed || !ours {
            return None;
        }
        let sequence = self.more.filter(|_| stream.has_sequence).map(|(_, sequence)| sequence);
        if self.more.is_some_and(|(id, _)| stream.id.is_some_and(|known| known != id))
            || sequence.is_some() != stream.has_sequence
        {
            return None;
        }
        Some(Packet {
            stream: stream.index,
            number: place.number,
            file: place.file,
            offset: self.offset,
            begin: stream.time(self.begin),
            end: stream.time(self.end),
            begin_cycles: Some(self.begin),
            end_cycles: Some(self.end),
            content_bits: self.content_bits,
            packet_bits: self.packet_bits,
            sequence,
            discarded: Some(self.discarded),
            cpu: None,
        })
    }
}
