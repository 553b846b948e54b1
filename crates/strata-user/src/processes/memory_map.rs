//! Parser of /proc/PID/maps: `ADDRESS-ADDRESS PERMISSIONS OFFSET DEVICE INODE NAME`, one mapping a line. Other lines
//! are skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};

/// Limit on the part of the list that is read \[byte\].
///
/// A process has up to 65,530 mappings, of some 100 bytes each. A process whose mappings have longer names may exceed
/// the limit, and is then not recorded if its memory comes later in the list.
const BYTES_MAX: u64 = 16 << 20;

/// A mapping of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryMapping<'a> {
    pub begin: u64,
    pub end: u64,
    /// Permissions, such as `rw-s`.
    pub permissions: &'a [u8],
    /// Offset of the mapping in its file \[byte\].
    pub offset: u64,
    pub device: u64,
    /// Inode number; 0 if no file is mapped.
    pub inode: u64,
    /// Path of the file; empty, or followed by ` (deleted)`.
    pub name: &'a [u8],
}

/// The mappings of a process, read one after the other.
pub(crate) struct Maps<R> {
    text: R,
    line: Vec<u8>,
}

impl Maps<BufReader<Take<File>>> {
    /// Reads a file that was opened as /proc/PID/maps.
    pub fn of(file: File) -> Self {
        Maps::new(BufReader::with_capacity(1 << 16, file.take(BYTES_MAX)))
    }
}

impl<R: BufRead> Maps<R> {
    pub fn new(text: R) -> Maps<R> {
        Maps { text, line: Vec::new() }
    }

    /// Returns the next mapping; `None` at the end of the list.
    ///
    /// # Errors
    /// The list could not be read.
    pub fn next(&mut self) -> io::Result<Option<MemoryMapping<'_>>> {
        loop {
            self.line.clear();
            if self.text.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            // Parsed twice to satisfy the borrow checker.
            if parsed(&self.line).is_some() {
                return Ok(parsed(&self.line));
            }
        }
    }
}

fn parsed(line: &[u8]) -> Option<MemoryMapping<'_>> {
    let mut rest = line.strip_suffix(b"\n").unwrap_or(line);
    let mut word = || {
        let begin = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[begin..].iter().position(|byte| *byte == b' ');
        let end = end.map_or(rest.len(), |bytes| begin + bytes);
        let word = &rest[begin..end];
        rest = &rest[end..];
        Some(word)
    };
    let (range, permissions, offset, device, inode) = (word()?, word()?, word()?, word()?, word()?);
    let (begin, end) = pair(range, b'-')?;
    let (major, minor) = pair(device, b':')?;
    Some(MemoryMapping {
        begin,
        end,
        permissions,
        offset: number(offset, 16)?,
        device: rustix::fs::makedev(u32::try_from(major).ok()?, u32::try_from(minor).ok()?),
        inode: number(inode, 10)?,
        name: rest.trim_ascii_start(),
    })
}

/// Parses two hexadecimal numbers with the byte `between` them.
fn pair(word: &[u8], between: u8) -> Option<(u64, u64)> {
    let place = word.iter().position(|byte| *byte == between)?;
    Some((number(&word[..place], 16)?, number(&word[place + 1..], 16)?))
}

fn number(word: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_has_what_its_line_says() {
        let text = b"00400000-00401000 r-xp 00002000 fe:01 12                /a b (deleted)\n\
            x\n7f00-8000 rw-p 00000000 00:00 0 \n";
        let mut maps = Maps::new(&text[..]);
        let file = MemoryMapping {
            begin: 0x40_0000,
            end: 0x40_1000,
            permissions: b"r-xp",
            offset: 0x2000,
            device: rustix::fs::makedev(0xfe, 1),
            inode: 12,
            name: b"/a b (deleted)",
        };
        assert_eq!(maps.next().unwrap(), Some(file));
        let none = maps.next().unwrap().unwrap();
        assert_eq!((none.begin, none.inode, none.name), (0x7f00, 0, &b""[..]));
        assert_eq!(maps.next().unwrap(), None);
    }

    #[test]
    fn maps_of_this_process_have_its_program() {
        let mut maps = Maps::of(File::open("/proc/self/maps").unwrap());
        let exe = std::fs::read_link("/proc/self/exe").unwrap();
        let inode =
            std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/self/exe").unwrap());
        let mut found = false;
        while let Some(mapping) = maps.next().unwrap() {
            found |= mapping.inode == inode
                && mapping.name == std::os::unix::ffi::OsStrExt::as_bytes(exe.as_os_str());
        }
        assert!(found);
    }

    #[test]
    fn malicious_maps_of_any_bytes_are_read_without_a_panic() {
        let mut random = strata_random::Random::new();
        for _ in 0..20_000 {
            let bytes: Vec<u8> =
                (0..random.below(200)).map(|_| b"0f-: \nrws\xff"[random.below(10)]).collect();
            let mut maps = Maps::new(&bytes[..]);
            while maps.next().unwrap().is_some() {}
        }
    }
}
