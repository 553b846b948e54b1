//! Deduplicates records when another recorder adopts the buffers of a killed one: records of a packet that is still in
//! the buffer may already be in the killed recorder's files. These are passed over, so that each record is in one of
//! the traces.
//!
//! The killed recorder leaves no note about that: if it is killed between the note and the write, the note is wrong.
//! The file itself shows it: its last packet is either a piece of the packet in the buffer, or a piece of an earlier
//! packet, whose records differ and are older.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_ctf::packet_records::RecordScanner;
use strata_model::{ByteOrder, StreamClass};

use crate::files::ALIGN;

/// The most bytes of files that are read and compared for all streams of a channel together \[byte\]. During that time
/// the channel's buffers are not emptied, and a hostile producer can make long files of equal records.
const READ_MAX: u64 = 1 << 29;
const COMPARED_MAX: u64 = 1 << 26;
/// Size of one read where packets are short \[byte\]. The budget is charged at least this much for each read.
const BLOCK: u64 = 1 << 16;
const READ_MIN: u64 = 4096;
/// The most bytes that a packet in a file has in addition to its records: header and padding \[byte\].
const AROUND: u64 = 2 * 4096;

/// Files in which records of a channel may already be.
#[derive(Clone, Debug)]
pub struct LeftFiles {
    /// Folders of traces, the last one first.
    pub folders: Vec<PathBuf>,
    /// Beginning of the files' names, before the number of the CPU.
    pub name: &'static str,
    /// Stream class of the records.
    pub class: StreamClass,
}

/// The end of a stream's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastPacket {
    /// Begin and end of the last packet with records \[ns\].
    pub times: (u64, u64),
    /// Records of the packet; empty if it has none.
    pub records: Vec<u8>,
    /// Count of discarded records in the last packet of the file.
    pub discarded: u64,
    /// Packets before the last one, the latest first, as far as they were read: begin \[ns\] and records.
    before: Vec<(u64, Vec<u8>)>,
}

/// The part of a packet that an earlier recorder has written to a file already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedBytes {
    /// Size of the records \[byte\].
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    /// Begin and end of the piece that was written last \[ns\].
    pub(crate) times: (u64, u64),
}

/// The bytes that may still be read and compared.
#[derive(Clone, Copy, Debug)]
struct SearchBudget {
    read: u64,
    compared: u64,
    is_over: bool,
}

impl SearchBudget {
    const NEW: SearchBudget =
        SearchBudget { read: READ_MAX, compared: COMPARED_MAX, is_over: false };

    fn may(&mut self, what: fn(&mut SearchBudget) -> &mut u64, bytes: u64) -> bool {
        let left = what(self).checked_sub(bytes);
        match left {
            Some(left) => *what(self) = left,
            None => self.is_over = true,
        }
        left.is_some()
    }

    /// Reads from a file; `None` if the budget does not allow it.
    fn read(&mut self, file: &File, at: u64, bytes: u64) -> io::Result<Option<Vec<u8>>> {
        if !self.may(|all| &mut all.read, bytes.max(READ_MIN)) {
            return Ok(None);
        }
        let mut read = vec![0; bytes as usize];
        file.read_exact_at(&mut read, at)?;
        Ok(Some(read))
    }

    fn are_equal(&mut self, one: &[u8], other: &[u8]) -> bool {
        one.len() == other.len()
            && one.get(..16) == other.get(..16)
            && self.may(|all| &mut all.compared, one.len() as u64)
            && one == other
    }
}

/// Offset of a packet in a file \[byte\], and its header.
type PacketInFile = (u64, Header);

/// Returns offset and size of a packet's records \[byte\].
fn body((at, header): &PacketInFile) -> (u64, u64) {
    (at + HEADER_BYTES as u64, header.content_bits / 8 - HEADER_BYTES as u64)
}

fn end((at, header): &PacketInFile) -> u64 {
    at + header.packet_bits / 8
}

/// Parses the header at the begin of `bytes`, which are at offset `at` of a file with `of` bytes.
fn header_at(bytes: &[u8], at: u64, of: u64) -> Option<PacketInFile> {
    let header = Header::decode(bytes.first_chunk()?)?;
    let (content, packet) = (header.content_bits / 8, header.packet_bits / 8);
    let is_packet = (HEADER_BYTES as u64..=packet).contains(&content)
        && at.checked_add(packet).is_some_and(|end| end <= of);
    is_packet.then_some((at, header))
}

impl LastPacket {
    /// Reads the last packet of a file that consists of whole packets. Returns `None` if there is no packet, or if the
    /// file is so long that the packet was not found.
    ///
    /// # Errors
    /// A system call failed.
    pub fn read(path: &Path, subbuf_bytes: u64) -> io::Result<Option<LastPacket>> {
        LastPacket::read_within(path, subbuf_bytes, &mut { SearchBudget::NEW })
    }

    fn read_within(
        path: &Path,
        subbuf_bytes: u64,
        budget: &mut SearchBudget,
    ) -> io::Result<Option<LastPacket>> {
        // Whatever is there by now: through no link, and nobody waits for the other end of a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        // Of another user, who has been there first, it is none that was written.
        let is_own = metadata.is_file() && metadata.uid() == geteuid().as_raw();
        if !is_own || bytes < HEADER_BYTES as u64 {
            return Ok(None);
        }
        match LastPacket::at_end(&file, bytes, subbuf_bytes, budget)? {
            Some(last) => Ok(Some(last)),
            None => LastPacket::from_begin(&file, bytes, subbuf_bytes, budget),
        }
    }

    /// Finds the packets that end at the end of the file, without reading the ones before.
    fn at_end(
        file: &File,
        bytes: u64,
        subbuf_bytes: u64,
        budget: &mut SearchBudget,
    ) -> io::Result<Option<LastPacket>> {
        let most = subbuf_bytes.saturating_add(AROUND).min(bytes);
        let from = (bytes - most).next_multiple_of(ALIGN);
        let Some(first) = budget.read(file, 0, HEADER_BYTES as u64)? else { return Ok(None) };
        let Some(tail) = budget.read(file, from, bytes.saturating_sub(from))? else {
            return Ok(None);
        };
        // What all packets of the file begin with: magic, the trace, the class, the stream.
        let (mark, _) = first.split_at(32);
        let mut by_end: HashMap<u64, PacketInFile> = HashMap::new();
        for at in (0..tail.len()).step_by(ALIGN as usize) {
            let is_one = tail[at..].starts_with(mark);
            let found = is_one.then(|| header_at(&tail[at..], from + at as u64, bytes));
            if let Some(found) = found.flatten() {
                // In the padding of a packet may be another one, which was not complete.
                by_end.entry(end(&found)).or_insert(found);
            }
        }
        let records = |found: &PacketInFile| {
            let (at, bytes) = body(found);
            let at = (at - from) as usize;
            tail.get(at..at + bytes.min(subbuf_bytes) as usize).map(<[u8]>::to_vec)
        };
        let (mut last, mut to, mut room) = (None, bytes, subbuf_bytes);
        while let Some(found) = by_end.remove(&to) {
            to = found.0;
            let last = last.get_or_insert_with(|| LastPacket {
                discarded: found.1.discarded,
                ..LastPacket::default()
            });
            let Some(records) = records(&found).filter(|records| !records.is_empty()) else {
                continue;
            };
            if last.records.is_empty() {
                last.times = (found.1.timestamp_begin, found.1.timestamp_end);
                last.records = records;
                continue;
            }
            let Some(left) = room.checked_sub(records.len() as u64) else { break };
            room = left;
            last.before.push((found.1.timestamp_begin, records));
        }
        // Packets without records may be all that is there, or more than were looked at.
        Ok(last.filter(|last| !last.records.is_empty() || to == 0))
    }

    /// Follows packets from the begin of the file to the first invalid one.
    fn from_begin(
        file: &File,
        bytes: u64,
        subbuf_bytes: u64,
        budget: &mut SearchBudget,
    ) -> io::Result<Option<LastPacket>> {
        let (mut at, mut last, mut with_records) = (0, None, None);
        let (mut block, mut from) = (Vec::new(), 0u64);
        while at < bytes {
            let mut found = header_at(block.get((at - from) as usize..).unwrap_or(&[]), at, bytes);
            if found.is_none() {
                // Of long packets nothing but the header.
                let is_long = last.is_some_and(|last| end(&last) - last.0 > BLOCK / 4);
                let most = if is_long { HEADER_BYTES as u64 } else { BLOCK };
                from = at;
                match budget.read(file, at, most.min(bytes - at))? {
                    Some(read) => block = read,
                    None => return Ok(None),
                }
                found = header_at(&block, at, bytes);
            }
            let Some(found) = found else { break };
            if body(&found).1 > 0 {
                with_records = Some(found);
            }
            at = end(&found);
            last = Some(found);
        }
        let Some((_, header)) = last else { return Ok(None) };
        let mut last = LastPacket { discarded: header.discarded, ..LastPacket::default() };
        if let Some(found) = with_records {
            let (at, bytes) = body(&found);
            let Some(records) = budget.read(file, at, bytes.min(subbuf_bytes))? else {
                return Ok(None);
            };
            last.times = (found.1.timestamp_begin, found.1.timestamp_end);
            last.records = records;
        }
        Ok(Some(last))
    }

    /// Returns which part of the packet that begins at `begin` \[ns\] is in the file; `None` if no record of it is.
    fn passed(
        &self,
        scanner: &RecordScanner,
        (begin, packet): (u64, &[u8]),
        budget: &mut SearchBudget,
    ) -> Option<PassedBytes> {
        // Of a packet before it, all is earlier.
        if self.records.is_empty() || self.is_before(begin) {
            return None;
        }
        let passed = |bytes: usize, records| {
            Some(PassedBytes { bytes: bytes as u64, records, times: self.times })
        };
        if let Some(bytes) = self.pieces(begin, packet, budget) {
            return passed(bytes, scanner.count(&packet[..bytes]).ok()?);
        }
        // Its other pieces are elsewhere.
        for (before, record) in (0..).zip(scanner.records(packet, begin)) {
            let record = record.ok()?;
            let at = usize::try_from(record.offset).ok()?;
            let end = at.checked_add(self.records.len()).filter(|end| *end <= packet.len())?;
            if record.timestamp >= self.times.0 && budget.are_equal(&packet[at..end], &self.records)
            {
                return passed(end, before + scanner.count(&self.records).ok()?);
            }
            if budget.is_over {
                return None;
            }
        }
        None
    }

    /// Returns the size of the packet's beginning that is in the file as consecutive pieces, of which the first
    /// begins at `begin`; `None` if there are no such pieces.
    fn pieces(&self, begin: u64, packet: &[u8], budget: &mut SearchBudget) -> Option<usize> {
        let all = std::iter::once((self.times.0, &self.records))
            .chain(self.before.iter().map(|(begin, records)| (*begin, records)));
        let all: Vec<_> = all.take_while(|(at, _)| *at >= begin).collect();
        let firsts = (0..all.len()).rev().filter(|first| all[*first].0 == begin);
        for first in firsts {
            let mut at = 0;
            let is_begin = all[..=first].iter().rev().all(|(_, records)| {
                let piece = packet.get(at..at + records.len());
                at += records.len();
                piece.is_some_and(|piece| budget.are_equal(piece, records))
            });
            if is_begin {
                return Some(at);
            }
        }
        None
    }

    /// Returns whether everything in the file was recorded before `begin` \[ns\].
    fn is_before(&self, begin: u64) -> bool {
        begin > self.times.1
    }
}

/// Searches files for packets of a channel.
pub(crate) struct LeftSearch<'a> {
    left: &'a LeftFiles,
    scanner: RecordScanner,
    subbuf_bytes: u64,
    budget: SearchBudget,
}

impl LeftFiles {
    /// Starts a search in these files; `None` if the classes are not valid.
    pub(crate) fn search(&self, subbuf_bytes: u64) -> Option<LeftSearch<'_>> {
        let scanner = RecordScanner::new(&self.class, ByteOrder::NATIVE).ok()?;
        Some(LeftSearch { left: self, scanner, subbuf_bytes, budget: SearchBudget::NEW })
    }
}

impl LeftSearch<'_> {
    /// Returns how much of a packet is in the stream's files, up to the end of its last piece. The packet is given by
    /// its begin \[ns\] and its records.
    pub(crate) fn passed(&mut self, stream: u32, packet: (u64, &[u8])) -> Option<PassedBytes> {
        let file = format!("{}_{stream}", self.left.name);
        // Of traces of one name, what was written before what is too early already is earlier still.
        let mut too_early = HashSet::new();
        for folder in &self.left.folders {
            if self.is_over() || too_early.contains(&folder.file_name()) {
                continue;
            }
            let path = folder.join(&file);
            let last = LastPacket::read_within(&path, self.subbuf_bytes, &mut self.budget);
            let Some(last) = last.ok().flatten() else { continue };
            let passed = last.passed(&self.scanner, packet, &mut self.budget);
            if passed.is_some() {
                return passed;
            }
            if !last.records.is_empty() && last.is_before(packet.0) {
                too_early.insert(folder.file_name());
            }
        }
        None
    }

    /// Returns whether the budget ran out: records that were not found may still be in the files.
    pub(crate) fn is_over(&self) -> bool {
        self.budget.is_over
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use strata_model::{EventClass, Field, FieldClass, Integer, RecordHeader};

    use super::*;

    /// A folder that is removed again.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        /// A stream's file in the trace of this name.
        fn write(&self, trace: &str, bytes: &[u8]) -> PathBuf {
            let folder = self.0.join(trace);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("channel0_0"), bytes).unwrap();
            folder
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn packet(times: (u64, u64), discarded: u64, body: &[u8], padding: usize) -> Vec<u8> {
        let (timestamp_begin, timestamp_end) = times;
        let header = Header { discarded, timestamp_begin, timestamp_end, ..Header::default() };
        let mut header = header.with_content_bytes(body.len() as u64);
        header.packet_bits += 8 * padding as u64;
        [&header.encode()[..], body, &vec![0; padding]].concat()
    }

    fn class() -> StreamClass {
        let event = EventClass {
            id: 0,
            provider: "p".into(),
            name: "number".into(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: vec![Field::new("n", FieldClass::Integer(Integer::unsigned(8)))],
        };
        StreamClass {
            id: 0,
            name: "channel0".into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events: vec![event],
        }
    }

    /// Records of these times and numbers.
    fn records(all: &[(u32, u64)]) -> Vec<u8> {
        let record = |(time, n): &(u32, u64)| {
            [&(time << 5).to_ne_bytes()[..], &n.to_ne_bytes()[..]].concat()
        };
        all.iter().flat_map(record).collect()
    }

    #[test]
    fn last_packet_is_found_behind_others_and_in_padding_and_in_front_of_empty_ones() {
        let scratch = Scratch::new("last");
        let packet = |discarded: u64, body: &[u8], padding| {
            packet((discarded * 10, discarded * 10 + 5), discarded, body, padding)
        };
        let find = |bytes: &[u8]| {
            let path = scratch.write("t", bytes).join("channel0_0");
            let found = LastPacket::read(&path, 4096).unwrap();
            let file = File::open(&path).unwrap();
            let from_begin =
                LastPacket::from_begin(&file, bytes.len() as u64, 4096, &mut { SearchBudget::NEW });
            let is_whole = bytes.len() % ALIGN as usize == 0 && bytes.len() < 4096;
            let at_end =
                LastPacket::at_end(&file, bytes.len() as u64, 4096, &mut { SearchBudget::NEW });
            assert_eq!(at_end.is_ok_and(|last| last.is_some()), is_whole && !bytes.is_empty());
            let of = |last: LastPacket| (last.discarded, last.times.0, last.records);
            let found = found.map(of);
            assert_eq!(from_begin.unwrap().map(of), found);
            found
        };
        assert_eq!(find(b""), None);
        let (one, two) = (packet(3, b"abc", 1), packet(7, b"defg", 104));
        assert_eq!(find(&one), Some((3, 30, b"abc".to_vec())));
        assert_eq!(find(&[&one[..], &two].concat()), Some((7, 70, b"defg".to_vec())));
        let empty = packet(9, b"", 4);
        assert_eq!(find(&[&one[..], &empty].concat()), Some((9, 30, b"abc".to_vec())));
        assert_eq!(find(&empty), Some((9, 0, Vec::new())));
        // What is no packet, or not there to its end, is none.
        assert_eq!(find(&[&one[..], &two[..150]].concat()), Some((3, 30, b"abc".to_vec())));
        assert_eq!(find(&[&one[..], &[0xff; 201]].concat()), Some((3, 30, b"abc".to_vec())));
        // One that was being written when the recorder was killed is padding of the one before it still.
        let torn = [&packet(3, b"abc", 1 + two.len())[..88], &two].concat();
        assert_eq!(find(&torn), Some((3, 30, b"abc".to_vec())));
        // Far more than what is read at once, and short and long ones.
        let long = packet(8, &[7; 3000], 20_004);
        let many = [one.repeat(3000), long.repeat(10), two, empty.repeat(2000)].concat();
        assert_eq!(find(&many), Some((9, 70, b"defg".to_vec())));
        if geteuid().is_root() {
            std::os::unix::fs::chown(scratch.0.join("t/channel0_0"), Some(1), None).unwrap();
            assert_eq!(LastPacket::read(&scratch.0.join("t/channel0_0"), 4096).unwrap(), None);
        }
        std::fs::remove_file(scratch.0.join("t/channel0_0")).unwrap();
        assert!(LastPacket::read(&scratch.0.join("t/channel0_0"), 4096).is_err());
        assert_eq!(LastPacket::read(Path::new("/dev/null"), 4096).unwrap(), None);
    }

    #[test]
    fn of_a_long_file_the_end_is_read_and_no_more_than_may_be() {
        let scratch = Scratch::new("long");
        let body = records(&[(5, 1)]);
        let bytes = packet((5, 5), 0, &body, 20_000).repeat(2000);
        let path = scratch.write("t", &bytes).join("channel0_0");
        let mut budget = SearchBudget { read: 64 << 10, ..SearchBudget::NEW };
        let last = LastPacket::read_within(&path, 16 << 10, &mut budget).unwrap().unwrap();
        assert_eq!((last.records, budget.is_over), (body, false));
        // Its end is none that is known: from its begin it is too much.
        let path = scratch.write("t", &[&bytes[..], &[1; 9]].concat()).join("channel0_0");
        let mut budget = SearchBudget { read: 1 << 20, ..SearchBudget::NEW };
        assert_eq!(LastPacket::read_within(&path, 16 << 10, &mut budget).unwrap(), None);
        assert!(budget.is_over);
        // So it is for all streams and folders together, and that is said.
        let left =
            LeftFiles { folders: vec![scratch.0.join("t")], name: "channel0", class: class() };
        let mut search = left.search(16 << 10).unwrap();
        let sought = (5, &records(&[(5, 1), (6, 2)])[..]);
        assert_eq!(search.passed(0, sought).map(|passed| passed.records), Some(1));
        search.budget.read = 1 << 20;
        assert_eq!((search.passed(0, sought), search.is_over()), (None, true));
        search = left.search(16 << 10).unwrap();
        search.budget.compared = 11;
        assert_eq!((search.passed(0, sought), search.is_over()), (None, true));
    }

    #[test]
    fn older_folders_are_looked_at_unless_a_trace_of_that_name_is_too_early_already() {
        let scratch = Scratch::new("older");
        let early = packet((1, 2), 0, &records(&[(2, 9)]), 0);
        let body = records(&[(5, 1), (6, 2)]);
        let piece = packet((5, 6), 0, &body, 0);
        let find = |folders: &[(&str, &[u8])]| {
            let folders = folders.iter().map(|(name, bytes)| scratch.write(name, bytes)).collect();
            let left = LeftFiles { folders, name: "channel0", class: class() };
            let packet = [&body[..], &records(&[(7, 3)])].concat();
            left.search(4096).unwrap().passed(0, (5, &packet))
        };
        let passed = Some(PassedBytes { bytes: 24, records: 2, times: (5, 6) });
        assert_eq!(find(&[("b/shop-7", &piece)]), passed);
        assert_eq!(find(&[("b/shop-7", &early), ("a/shop-7", &piece)]), None);
        assert_eq!(find(&[("b/shop-7-2", &early), ("a/shop-7", &piece)]), passed);
        // It has none.
        let empty = packet((5, 6), 3, b"", 0);
        assert_eq!(find(&[("b/shop-7", &empty), ("a/shop-7", &piece)]), passed);
    }

    #[test]
    fn records_that_are_alike_are_distinguished_by_the_pieces_before_them() {
        let scratch = Scratch::new("alike");
        let alike = |number: usize| records(&vec![(5, 1); number]);
        let find = |pieces: &[((u64, u64), Vec<u8>)], held: &[u8]| {
            let piece = |(times, body): &((u64, u64), Vec<u8>)| {
                let bytes = HEADER_BYTES + body.len();
                packet(*times, 0, body, bytes.next_multiple_of(ALIGN as usize) - bytes)
            };
            let bytes: Vec<u8> = pieces.iter().flat_map(piece).collect();
            let left = LeftFiles {
                folders: vec![scratch.write("t", &bytes)],
                name: "channel0",
                class: class(),
            };
            let passed = left.search(4096).unwrap().passed(0, (5, held));
            passed.map(|passed| (passed.bytes / 12, passed.records))
        };
        let (two, one) = (((5, 5), alike(2)), ((5, 5), alike(1)));
        assert_eq!(find(&[two.clone(), one.clone()], &alike(4)), Some((3, 3)));
        // Those of the packet before it are none of it.
        let of_another = ((4, 5), alike(1));
        assert_eq!(find(&[of_another, two, one], &alike(3)), Some((3, 3)));
        // The first piece is in another trace: what is earlier than this one begins is none of it.
        let held = records(&[(5, 1), (6, 1), (6, 2), (7, 1)]);
        assert_eq!(find(&[((6, 6), records(&[(6, 1)]))], &held), Some((2, 2)));
        assert_eq!(find(&[((6, 7), records(&[(7, 1)]))], &held), Some((4, 4)));
        assert_eq!(find(&[((6, 7), records(&[(7, 2)]))], &held), None);
    }
}
