//! The index files of LTTng: `index/NAME.idx` for the file NAME.
//!
//! All numbers are big-endian: magic number, major and minor version, bytes of an entry (32 bits each);
//! then for each packet, 64 bits each: offset \[byte\], packet size, content size \[bit\], begin, end
//! \[cycle\], discarded records, stream class; from version 1.1 on also stream and sequence number.

use super::damage::DamageKind;
use super::files::{open_regular, StoredFiles};
use super::find_traces::{self, StreamFiles};
use super::packet_places::{is_there, Places};
use super::packet_skip::PacketPlace;
use super::stream::{Packet, Stream};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAGIC: u32 = 0xc1f1_dcc1;
/// Size of an entry of version 1.0, of version 1.1, and the greatest that is accepted \[byte\].
const ENTRY: usize = 56;
const ENTRY_1_1: usize = 72;
const ENTRY_MOST: usize = 4096;
/// Size of the file's header before the entries \[byte\].
const HEADER: u64 = 16;
const UNREADABLE: Unusable = "it cannot be read";
/// The number of packets that are compared with an index before it is trusted.
const SAMPLES: usize = 16;

/// The reason for which an index cannot be used.
pub(crate) type Unusable = &'static str;

/// Reads the places of the stream's packets; `None` if some of its files have no index.
pub(crate) fn places(
    files: &StoredFiles,
    stream: &Stream,
    mut places: Places,
) -> Result<Option<Places>, Unusable> {
    if stream.merged || stream.files.iter().any(|&file| files.is_part(file)) {
        return Ok(None);
    }
    let mut place = PacketPlace::default();
    for (number, &file) in stream.files.iter().enumerate() {
        place.file = number;
        place.offset = 0;
        let Some(mut entries) = Entries::open(&path(files.path(file)))? else { return Ok(None) };
        while place.offset < files.bytes(file) {
            let entry = entries.next().ok_or("it ends before the file does")?;
            let packet = entry.packet(stream, &place, files.bytes(file));
            let packet = packet.ok_or("an entry is of no packet that can be there")?;
            places.add(&place, Some(&packet));
            place.pass(&packet, 0, stream.discarded_mask);
        }
        if place.offset != files.bytes(file) {
            return Err("an entry is of no packet that can be there");
        }
    }
    let expected: Vec<_> = places.expected().collect();
    let step = expected.len().div_ceil(SAMPLES).max(1);
    let mut samples = expected.iter().step_by(step).chain(expected.last());
    let believable = samples.all(|(place, packet)| is_there(files, stream, place, packet));
    drop(expected);
    if !believable {
        return Err(OTHER);
    }
    Ok(Some(places.end(place)))
}

/// The error for an index whose entries do not match the packets' headers.
pub(crate) const OTHER: Unusable = "a packet's header says something else";

/// Returns the path of the index of a stream's file.
fn path(stream: &Path) -> PathBuf {
    let mut name = stream.file_name().unwrap_or_default().to_owned();
    name.push(SUFFIX);
    stream.parent().unwrap_or(Path::new("")).join(find_traces::INDEX).join(name)
}

const SUFFIX: &str = ".idx";

/// Compares index files with their streams. Returns the files that are missing or shorter than the index says. Only
/// begin and end of each index are read, unless they do not fit the file.
pub(crate) fn glances(trace: &Path, files: &StreamFiles) -> Vec<(PathBuf, DamageKind)> {
    let mut found = Vec::new();
    for file in &files.files {
        found.extend(glance(file).map(|what| (file.clone(), what)));
    }
    let mut gone: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(trace.join(find_traces::INDEX)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes().strip_suffix(SUFFIX.as_bytes());
        let file = name.map(|name| trace.join(OsStr::from_bytes(name)));
        gone.extend(file.filter(|file| fs::symlink_metadata(file).is_err()));
    }
    gone.sort();
    for file in gone {
        found.extend(glance(&file).map(|what| (file, what)));
    }
    found
}

/// Compares a file with its index. Returns the damage if they differ.
fn glance(file: &Path) -> Option<DamageKind> {
    let unusable = |error: Unusable| Some(DamageKind::Index { error: error.into() });
    let mut entries = match Entries::open(&path(file)) {
        Ok(entries) => entries?,
        Err(error) => return unusable(error),
    };
    let (packets, rest) = entries.count();
    let Some((begin, expected)) = entries.last(packets) else { return unusable(UNREADABLE) };
    // Tracers write packets before index entries, and a file that is being written may have grown.
    let size = fs::metadata(file).ok().map(|kind| kind.len());
    let found = size.unwrap_or(0);
    if expected > found {
        // A wrong entry shows nothing about the file. If the file ends within a packet, that is reported for the
        // packet.
        return match (entries.is_chain(packets), size) {
            (false, _) => unusable("its entries do not follow each other"),
            (true, Some(_)) if begin < found => unusable("its last packet ends behind the file"),
            (true, Some(_)) => Some(DamageKind::Cut { packets, expected, found }),
            (true, None) => Some(DamageKind::NoFile { packets, bytes: expected }),
        };
    }
    if rest != 0 {
        return unusable("it ends in an entry");
    }
    if expected < found {
        return unusable("it ends before the file does");
    }
    None
}

/// An open index file.
struct Entries {
    file: BufReader<File>,
    bytes: usize,
}

/// One entry of an index file: a packet's place, sizes and times.
struct IndexEntry {
    offset: u64,
    packet_bits: u64,
    content_bits: u64,
    begin: u64,
    end: u64,
    discarded: u64,
    class: u64,
    /// Stream id and sequence number, from version 1.1 on.
    more: Option<(u64, u64)>,
}

impl Entries {
    /// Opens an index file. Returns `None` if it does not exist.
    fn open(path: &Path) -> Result<Option<Entries>, Unusable> {
        match fs::metadata(path) {
            Ok(kind) if kind.is_file() => {}
            Ok(_) => return Ok(None),
            Err(_) if fs::symlink_metadata(path).is_err() => return Ok(None),
            Err(_) => return Err(UNREADABLE),
        }
        let mut file = BufReader::new(open_regular(path).map_err(|_| UNREADABLE)?);
        let mut word = || {
            let mut bytes = [0; 4];
            let read = file.read_exact(&mut bytes).map(|()| u32::from_be_bytes(bytes));
            read.map_err(|_| "it has no whole header")
        };
        let (magic, major, minor, bytes) = (word()?, word()?, word()?, word()?);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let least = if minor == 0 { ENTRY } else { ENTRY_1_1 };
        if magic != MAGIC {
            return Err("it does not begin with the magic number 0xc1f1dcc1");
        }
        if major != 1 || !(least..=ENTRY_MOST).contains(&bytes) {
            return Err("its version is not known");
        }
        Ok(Some(Entries { file, bytes }))
    }

    /// Returns the number of whole entries, and the bytes after them.
    fn count(&self) -> (u64, u64) {
        let bytes = self.file.get_ref().metadata().map_or(0, |kind| kind.len());
        let bytes = bytes.saturating_sub(HEADER);
        (bytes / self.bytes as u64, bytes % self.bytes as u64)
    }

    /// Moves to the entry with this number.
    fn seek(&mut self, number: u64) -> Option<()> {
        let offset = number.checked_mul(self.bytes as u64)?.checked_add(HEADER)?;
        self.file.seek(SeekFrom::Start(offset)).ok().map(|_| ())
    }

    /// Returns begin and end of the last of `packets` packets \[byte of the file\].
    fn last(&mut self, packets: u64) -> Option<(u64, u64)> {
        let Some(last) = packets.checked_sub(1) else { return Some((0, 0)) };
        self.seek(last)?;
        let entry = self.next()?;
        Some((entry.offset, entry.offset.saturating_add(entry.packet_bits / 8)))
    }

    /// Returns whether each packet begins where the previous one ends.
    fn is_chain(&mut self, packets: u64) -> bool {
        let mut end = 0;
        if self.seek(0).is_none() {
            return false;
        }
        (0..packets).all(|_| {
            let Some(entry) = self.next() else { return false };
            let begin =
                std::mem::replace(&mut end, entry.offset.saturating_add(entry.packet_bits / 8));
            entry.offset == begin && entry.packet_bits % 8 == 0 && entry.packet_bits > 0
        })
    }

    fn next(&mut self) -> Option<IndexEntry> {
        let mut bytes = [0; ENTRY_MOST];
        let bytes = bytes.get_mut(..self.bytes)?;
        self.file.read_exact(bytes).ok()?;
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| word.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte)));
        Some(IndexEntry {
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

impl IndexEntry {
    /// Returns the packet if the entry fits the place. Only entries without any contradiction are accepted.
    fn packet(&self, stream: &Stream, place: &PacketPlace, file: u64) -> Option<Packet> {
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
