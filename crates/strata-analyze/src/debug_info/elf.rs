//! ELF files, read in parts. Sizes in a file are not trusted: they are compared with the file's size and with limits
//! before anything is read.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The most sections, and the most segments, of an ELF file that are read.
const SECTIONS: u64 = 1 << 14;
const SEGMENTS: u64 = 1 << 10;
/// The most bytes of a section of notes, and of all sections' names, that are read.
const NOTES: u64 = 64 << 10;
const NAMES: u64 = 4 << 20;
/// The most bytes of one entry of the table of segments; valid entries have 32 or 56.
const SEGMENT_BYTES: u64 = 64;
/// The size from which a part of a file is checked for holes: it is not read if the file takes much less space on the
/// disk \[byte\].
const SPARSE: u64 = 1 << 20;
/// The factor by which a compressing file system may need fewer bytes on the disk.
const COMPRESSED: u64 = 64;

/// Values of a section's `sh_type`, and flags of sections.
pub(super) const SYMTAB: u32 = 2;
pub(super) const DYNSYM: u32 = 11;
const NOTE: u32 = 7;
const NOBITS: u32 = 8;
const IS_CODE: u64 = 1 << 2;
const IS_COMPRESSED: u64 = 1 << 11;
/// Values of a segment's `p_type`.
const LOAD: u32 = 1;
const NOTE_SEGMENT: u32 = 4;
const UNWIND_INDEX: u32 = 0x6474_e550;
/// A value of a section index which means that the index is in another field.
const INDEX_ELSEWHERE: u16 = 0xffff;

/// Opens a file for reading if it is a plain file with content. Opening neither waits for a pipe nor acts on a
/// device, even if the path has been replaced by one. The kernel's own files, which report a size of 0, are refused:
/// reading some of them takes content away from other readers.
pub(super) fn open_plain(path: &Path) -> io::Result<(File, Metadata)> {
    let check = |metadata: &Metadata| match (metadata.is_file(), metadata.len()) {
        (true, 1..) => Ok(()),
        (true, 0) => Err(io::Error::other("it is empty")),
        (false, _) => Err(io::Error::other("it is no file")),
    };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // To open a device may mean something: it is looked at before, and what has come there since does not block.
    check(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Returns the identity of a file and its content: device, inode, size, and time of the last change.
pub(super) fn identity(of: &Metadata) -> [u64; 5] {
    [of.dev(), of.ino(), of.len(), of.mtime() as u64, of.mtime_nsec() as u64]
}

/// A section of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub name: Vec<u8>,
    pub kind: u32,
    /// The address of the first byte in memory.
    pub address: u64,
    /// True if the bytes are instructions.
    pub is_code: bool,
    /// True if the bytes are compressed.
    pub is_compressed: bool,
    pub offset: u64,
    pub bytes: u64,
    /// The index of a section that belongs to this one, such as the names of symbols.
    pub link: u32,
}

/// A segment: a part of a file that is loaded into memory, with its place in both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub offset: u64,
    pub bytes: u64,
    pub address: u64,
    /// The number of bytes in memory. Bytes that the file does not have are zero at first.
    pub memory: u64,
    /// True if the segment is executable.
    pub is_code: bool,
}

/// A symbol that is a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionSymbol {
    pub begin: u64,
    pub bytes: u64,
    /// The offset of the function's name in the section of names.
    pub name: u32,
    /// True if the symbol's section is code and contains the begin of the function.
    pub is_in_code: bool,
    /// True if other files can use the function.
    pub is_visible: bool,
}

/// An ELF file. It is open until [`ElfFile::close`].
#[derive(Debug)]
pub(super) struct ElfFile {
    pub path: PathBuf,
    pub identity: [u64; 5],
    /// The open file; `None` if the file is opened again for each read.
    file: Option<File>,
    bytes: u64,
    /// The space that the file takes on the disk \[byte\].
    stored: u64,
    is_64: bool,
    pub is_little: bool,
    pub sections: Vec<Section>,
    pub segments: Vec<Segment>,
    notes: Vec<(u64, u64)>,
    /// The segment with the index of unwind tables.
    pub unwind_index: Option<Segment>,
}

/// Returns an error that says that a file is not a valid ELF file.
fn odd(what: &str) -> io::Error {
    io::Error::other(format!("it is no ELF file: {what}"))
}

impl ElfFile {
    /// Opens an ELF file. Only plain files are opened.
    pub fn open(path: &Path) -> io::Result<ElfFile> {
        let (file, metadata) = open_plain(path)?;
        ElfFile::of_file(path, file, &metadata)
    }

    /// Reads the headers of an open file; `path` is for messages.
    pub fn of_file(path: &Path, file: File, metadata: &Metadata) -> io::Result<ElfFile> {
        let mut head = [0; 64];
        file.read_exact_at(&mut head[..16], 0)?;
        let (is_64, is_little) = match head[..6] {
            [0x7f, b'E', b'L', b'F', bits @ (1 | 2), order @ (1 | 2)] => (bits == 2, order == 1),
            _ => return Err(odd("its first bytes are others")),
        };
        let mut elf = ElfFile {
            path: path.to_owned(),
            identity: identity(metadata),
            file: Some(file),
            bytes: metadata.len(),
            stored: metadata.blocks().saturating_mul(512),
            is_64,
            is_little,
            sections: Vec::new(),
            segments: Vec::new(),
            notes: Vec::new(),
            unwind_index: None,
        };
        let head_bytes = if is_64 { 64 } else { 52 };
        elf.read_into(&mut head[..head_bytes], 0)?;
        elf.read_segments(&head)?;
        // A file without sections has no names, and may have segments.
        elf.read_sections(&head).unwrap_or_default();
        Ok(elf)
    }

    /// Returns a number of one, two, four or eight bytes at a place in `bytes`; 0 if it is not all there.
    pub fn number(&self, bytes: &[u8], at: usize, size: usize) -> u64 {
        let Some(bytes) = bytes.get(at..at + size) else { return 0 };
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self.is_little {
            true => bytes.iter().rev().fold(0, add),
            false => bytes.iter().fold(0, add),
        }
    }

    /// Returns a number that has eight bytes at `at_64` in a file of 64 bits, and four bytes at `at_32` in one of 32
    /// bits.
    fn word(&self, bytes: &[u8], at_64: usize, at_32: usize) -> u64 {
        match self.is_64 {
            true => self.number(bytes, at_64, 8),
            false => self.number(bytes, at_32, 4),
        }
    }

    fn half(&self, bytes: &[u8], at_64: usize, at_32: usize) -> u16 {
        self.number(bytes, if self.is_64 { at_64 } else { at_32 }, 2) as u16
    }

    /// Reads a part of the file. Fails if it has more than `most` bytes.
    pub fn read(&self, offset: u64, bytes: u64, most: u64) -> io::Result<Vec<u8>> {
        self.check(offset, bytes)?;
        if bytes > most {
            return Err(odd("a part of it is larger than what is read"));
        }
        let mut all = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        self.read_into(&mut all, offset)?;
        Ok(all)
    }

    /// Fails if the file does not have this part, or if the part seems to be a hole that takes no space on the disk.
    pub fn check(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(odd("a part of it is behind its end"));
        }
        if bytes > SPARSE && bytes / COMPRESSED > self.stored {
            return Err(odd("a part of it is larger than all that is on the disk"));
        }
        Ok(())
    }

    /// Closes the file, since a process may have few open files. A later read opens the path again, and fails if it
    /// is another file.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Reads bytes of the file from `offset` on, until the buffer is full.
    pub fn read_into(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if let Some(file) = &self.file {
            return file.read_exact_at(buffer, offset);
        }
        let (file, metadata) = open_plain(&self.path)?;
        match identity(&metadata) == self.identity {
            true => file.read_exact_at(buffer, offset),
            false => Err(io::Error::other("it has been replaced or changed meanwhile")),
        }
    }

    fn read_segments(&mut self, head: &[u8]) -> io::Result<()> {
        let at = self.word(head, 32, 28);
        let (size, count) = (self.half(head, 54, 42), self.half(head, 56, 44));
        let least = if self.is_64 { 56 } else { 32 };
        if count == 0 || !(least..=SEGMENT_BYTES).contains(&size.into()) {
            return Ok(());
        }
        let count = u64::from(count).min(SEGMENTS);
        let table = self.read(at, count * u64::from(size), SEGMENTS * SEGMENT_BYTES)?;
        for one in table.chunks_exact(usize::from(size)) {
            let segment = Segment {
                offset: self.word(one, 8, 4),
                bytes: self.word(one, 32, 16),
                address: self.word(one, 16, 8),
                memory: self.word(one, 40, 20),
                is_code: self.number(one, if self.is_64 { 4 } else { 24 }, 4) & 1 != 0,
            };
            match self.number(one, 0, 4) as u32 {
                LOAD => self.segments.push(segment),
                UNWIND_INDEX => self.unwind_index = Some(segment),
                NOTE_SEGMENT => self.notes.push((segment.offset, segment.bytes)),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_sections(&mut self, head: &[u8]) -> io::Result<()> {
        let at = self.word(head, 40, 32);
        let size = u64::from(self.half(head, 58, 46));
        let least = if self.is_64 { 64 } else { 40 };
        if at == 0 || size != least {
            return Ok(());
        }
        let first = self.read(at, size, size)?;
        let count = match self.half(head, 60, 48) {
            0 => self.word(&first, 32, 20),
            count => count.into(),
        };
        let names_at = match self.half(head, 62, 50) {
            INDEX_ELSEWHERE => self.number(&first, if self.is_64 { 40 } else { 24 }, 4),
            index => index.into(),
        };
        let table = self.read(at, count.min(SECTIONS) * size, SECTIONS * 64)?;
        let mut name_offsets = Vec::new();
        for one in table.chunks_exact(size as usize) {
            name_offsets.push(self.number(one, 0, 4));
            self.sections.push(Section {
                name: Vec::new(),
                kind: self.number(one, 4, 4) as u32,
                address: self.word(one, 16, 12),
                is_code: self.word(one, 8, 8) & IS_CODE != 0,
                is_compressed: self.word(one, 8, 8) & IS_COMPRESSED != 0,
                offset: self.word(one, 24, 16),
                bytes: self.word(one, 32, 20),
                link: self.number(one, if self.is_64 { 40 } else { 24 }, 4) as u32,
            });
        }
        let names = usize::try_from(names_at).ok().and_then(|at| self.sections.get(at));
        let Some(names) = names.filter(|it| it.kind != NOBITS) else { return Ok(()) };
        let names = self.read(names.offset, names.bytes.min(NAMES), NAMES)?;
        for (section, at) in self.sections.iter_mut().zip(name_offsets) {
            let rest = usize::try_from(at).ok().and_then(|at| names.get(at..)).unwrap_or_default();
            let name = rest.iter().take(64).take_while(|byte| **byte != 0);
            section.name = name.copied().collect();
        }
        Ok(())
    }

    /// Returns true for a file of 64 bits, with the lowest byte of a number first.
    pub fn is_64_little(&self) -> bool {
        self.is_64 && self.is_little
    }

    /// Returns the section with this name, if it has bytes in the file.
    pub fn section(&self, name: &str) -> Option<&Section> {
        let mut of_name = self.sections.iter().filter(|it| it.name == name.as_bytes());
        of_name.find(|it| it.kind != NOBITS && it.bytes > 0)
    }

    /// Returns the build id; empty if there is none of at most `most` bytes.
    pub fn build_id(&self, most: usize) -> Vec<u8> {
        let of_sections = self.sections.iter().filter(|it| it.kind == NOTE);
        let of_sections = of_sections.map(|it| (it.offset, it.bytes));
        let mut all = of_sections.chain(self.notes.iter().copied()).take(64);
        all.find_map(|(offset, bytes)| {
            let notes = self.read(offset, bytes, NOTES).ok()?;
            self.build_id_of(&notes, most)
        })
        .unwrap_or_default()
    }

    fn build_id_of(&self, notes: &[u8], most: usize) -> Option<Vec<u8>> {
        let mut rest = notes;
        let padded = |bytes: u64| usize::try_from(bytes).ok()?.checked_next_multiple_of(4);
        while rest.len() >= 12 {
            let [name, content, kind] = [0, 4, 8].map(|at| self.number(rest, at, 4));
            let content_at = padded(name)?.checked_add(12)?;
            let behind = content_at.checked_add(padded(content)?)?;
            if kind == 3 && rest.get(12..16) == Some(b"GNU\0") {
                let id = rest.get(content_at..content_at.checked_add(content as usize)?)?;
                return Some(id.iter().take(most).copied().collect());
            }
            rest = rest.get(behind..)?;
        }
        None
    }

    /// Returns the sections with the symbol table of this kind and with the names of its symbols.
    pub fn symbols(&self, kind: u32) -> Option<(Section, Section)> {
        let table = self.sections.iter().find(|it| it.kind == kind && it.bytes > 0)?;
        let names = self.sections.get(usize::try_from(table.link).ok()?)?;
        Some((table.clone(), names.clone())).filter(|_| names.kind != NOBITS)
    }

    /// Returns the size of the header of a compressed section \[byte\].
    pub fn compression_header_bytes(&self) -> u64 {
        if self.is_64 {
            24
        } else {
            12
        }
    }

    /// Returns the kind of compression and the uncompressed size from the header of a compressed section.
    pub fn compression_header(&self, head: &[u8]) -> (u64, u64) {
        (self.number(head, 0, 4), self.word(head, 8, 4))
    }

    /// Returns the size of a symbol \[byte\].
    pub fn symbol_bytes(&self) -> usize {
        if self.is_64 {
            24
        } else {
            16
        }
    }

    /// Returns a function of the table of symbols. Returns `None` if the symbol is not a function that this file defines.
    pub fn function(&self, symbol: &[u8]) -> Option<FunctionSymbol> {
        let info = self.number(symbol, if self.is_64 { 4 } else { 12 }, 1);
        let section = self.number(symbol, if self.is_64 { 6 } else { 14 }, 2);
        // STT_FUNC and STT_GNU_IFUNC that are defined.
        let is_function = matches!(info & 0xf, 2 | 10) && section != 0;
        let (begin, bytes, name) = is_function.then(|| self.place_of(symbol))?;
        let of = usize::try_from(section).ok().and_then(|section| self.sections.get(section));
        let is_inside =
            |of: &Section| begin.checked_sub(of.address).is_some_and(|at| at < of.bytes);
        let is_in_code = of.is_some_and(|of| of.is_code && is_inside(of));
        // STB_LOCAL is 0.
        Some(FunctionSymbol { begin, bytes, name, is_in_code, is_visible: info >> 4 != 0 })
    }

    /// Returns the begin, the size and the place of the name of a variable. Returns `None` if the symbol is not a
    /// variable that this file defines.
    pub fn variable(&self, symbol: &[u8]) -> Option<(u64, u64, u32)> {
        let kind = self.number(symbol, if self.is_64 { 4 } else { 12 }, 1) & 0xf;
        let section = self.number(symbol, if self.is_64 { 6 } else { 14 }, 2);
        // STT_OBJECT that is defined.
        (kind == 1 && section != 0).then(|| self.place_of(symbol))
    }

    fn place_of(&self, symbol: &[u8]) -> (u64, u64, u32) {
        let (begin, bytes) = (self.word(symbol, 8, 4), self.word(symbol, 16, 8));
        (begin, bytes, self.number(symbol, 0, 4) as u32)
    }

    /// Returns the file's link to debug information in another file: the name and the checksum of the other file.
    pub fn debug_link(&self) -> Option<(Vec<u8>, u32)> {
        let section = self.section(".gnu_debuglink")?;
        let bytes = self.read(section.offset, section.bytes, 4096 + 8).ok()?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let at = (end + 1).next_multiple_of(4);
        bytes.get(at..at + 4)?;
        Some((bytes.get(..end)?.to_vec(), self.number(&bytes, at, 4) as u32))
    }

    /// Returns the file's link to debug information that several files share: the path and the build id of the shared
    /// file.
    pub fn shared_link(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let section = self.section(".gnu_debugaltlink")?;
        let bytes = self.read(section.offset, section.bytes, 4096 + 64).ok()?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let id = bytes.get(end + 1..).filter(|id| !id.is_empty())?;
        Some((bytes.get(..end)?.to_vec(), id.to_vec()))
    }

    /// Returns the CRC-32 of the whole file, as debug links use it.
    pub fn checksum(&self) -> io::Result<u32> {
        let mut buffer = vec![0; 64 << 10];
        let (mut at, mut sum) = (0, !0u32);
        while at < self.bytes {
            let part = (self.bytes - at).min(buffer.len() as u64) as usize;
            self.read_into(&mut buffer[..part], at)?;
            sum = buffer[..part]
                .iter()
                .fold(sum, |sum, byte| CRC[usize::from(sum as u8 ^ byte)] ^ sum >> 8);
            at += part as u64;
        }
        Ok(!sum)
    }

    /// Returns the size of the file \[byte\].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Table with the CRC-32 of each value of a byte.
const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand_tests::Hand;

    #[test]
    fn checksum_of_the_usual_text_is_the_usual_one() {
        let sum = b"123456789"
            .iter()
            .fold(!0u32, |sum, byte| CRC[usize::from(sum as u8 ^ byte)] ^ sum >> 8);
        assert_eq!(!sum, 0xcbf4_3926);
    }

    #[test]
    fn closed_file_is_read_as_before_unless_another_one_has_its_path() {
        let hand = Hand::new();
        let [path, other] = ["file", "other"].map(|name| hand.0.join(name));
        let head = [&b"\x7fELF\x02\x01"[..], &[7; 58]].concat();
        std::fs::write(&path, &head).unwrap();
        let mut file = ElfFile::open(&path).unwrap();
        file.close();
        assert!(file.file.is_none());
        assert_eq!(file.read(0, 64, 64).unwrap(), head);
        std::fs::write(&other, &head).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let why = file.read(0, 64, 64).unwrap_err().to_string();
        assert!(why.contains("replaced"), "{why}");
        std::fs::remove_file(&path).unwrap();
        assert!(file.read(0, 64, 64).is_err());
    }

    #[test]
    fn malicious_names_of_pipes_devices_folders_and_kernel_files_are_not_opened() {
        let hand = Hand::new();
        let pipe = hand.0.join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let [kernel, zero, nothing] = ["/proc/self/maps", "/dev/zero", "/nothing"].map(Path::new);
        for (path, why) in
            [(&*pipe, "no file"), (&hand.0, "no file"), (zero, "no file"), (nothing, "")]
        {
            let found = open_plain(path).unwrap_err().to_string();
            assert!(found.contains(why), "{path:?}: {found}");
        }
        // It could be read, and has no size.
        assert!(!std::fs::read(kernel).unwrap().is_empty());
        assert_eq!(open_plain(kernel).unwrap_err().to_string(), "it is empty");
    }
}
