//! Reads the build id of a file that a process has mapped. The linker has computed it from the file's content.
//!
//! A file is read only if the process has mapped it as code. Then that process can read it, and nothing else of the
//! file goes into a trace. The kernel confirms it: by its own link to the file (`/proc/PID/map_files`), or by the
//! device and inode number of the file with that name. An inode number alone is not enough: with a file system of his
//! own (FUSE, or a tmpfs in his namespaces), a user chooses the numbers there, and could give another program's library
//! any id.
//!
//! A name is never opened directly, since it may lead to a pipe or a device by now: it is opened with O_PATH first, and
//! must be the mapped file. Nothing waits for the holder of a lease. A user's file system may delay a reader without
//! end, so the caller runs this in a thread that it can leave behind. At most some 280 KiB are read.

use rustix::fs::{fstat, major, minor, open, FileType, Mode, OFlags};
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const HEADERS_MAX: u64 = 64;
const NOTES_MAX: u64 = 4096;
/// Size of the longest build id; the usual ones have 20 bytes \[byte\].
const BYTES_MAX: usize = 32;

/// Identity of a mapped file, as `maps` shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which {
    /// Major and minor number of the file's device; `None` if the path is the kernel's own link to the file. For some
    /// file systems, `maps` shows other numbers than the file has.
    pub(crate) device: Option<(u32, u32)>,
    pub(crate) inode: u64,
}

/// Returns a mapped file's build id in hexadecimal digits; `None` if `path` now names another file, or if the file
/// has no build id.
pub(crate) fn of_mapped(path: &Path, which: Which) -> Option<String> {
    let held = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = fstat(&held).ok()?;
    let device = (major(stat.st_dev), minor(stat.st_dev));
    let is_it = stat.st_ino == which.inode && which.device.is_none_or(|known| known == device);
    if !is_it || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(format!("/proc/self/fd/{}", held.as_raw_fd()), flags, Mode::empty()).ok()?;
    of_file(&File::from(file))
}

fn of_file(file: &File) -> Option<String> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    // 64 bits, and the byte order of this machine.
    let wanted = [0x7f, b'E', b'L', b'F', 2, if cfg!(target_endian = "big") { 2 } else { 1 }];
    header.starts_with(&wanted).then_some(())?;
    let (at, size) = (number(&header, 32, 8)?, number(&header, 54, 2)?);
    let count = number(&header, 56, 2)?.min(HEADERS_MAX);
    if size < 56 {
        return None;
    }
    (0..count).find_map(|index| {
        let mut segment = [0; 56];
        file.read_exact_at(&mut segment, at.checked_add(index * size)?).ok()?;
        if number(&segment, 0, 4)? != u64::from(PT_NOTE) {
            return None;
        }
        let mut notes = vec![0; number(&segment, 32, 8)?.min(NOTES_MAX) as usize];
        file.read_exact_at(&mut notes, number(&segment, 8, 8)?).ok()?;
        of_notes(&notes)
    })
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut word = [0; 8];
    let bytes = bytes.get(at..at + size)?;
    match cfg!(target_endian = "big") {
        true => word[8 - size..].copy_from_slice(bytes),
        false => word[..size].copy_from_slice(bytes),
    }
    Some(u64::from_ne_bytes(word))
}

fn of_notes(mut notes: &[u8]) -> Option<String> {
    loop {
        let (name, bytes) = (number(notes, 0, 4)? as usize, number(notes, 4, 4)? as usize);
        let is_it = number(notes, 8, 4)? == u64::from(NT_GNU_BUILD_ID);
        let begin = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = begin.checked_add(bytes)?;
        if is_it && notes.get(12..12 + 4)? == b"GNU\0" && (1..=BYTES_MAX).contains(&bytes) {
            return Some(hex(notes.get(begin..end)?));
        }
        notes = notes.get(begin.checked_add(bytes.checked_next_multiple_of(4)?)?..)?;
    }
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_any_bytes_have_the_id_or_none() {
        let mut notes = Vec::new();
        for (kind, name, bytes) in [(1u32, "GNU\0", &[9u8, 9, 9, 9][..]), (3, "GNU\0", &[0xab, 1])]
        {
            notes.extend((name.len() as u32).to_ne_bytes());
            notes.extend((bytes.len() as u32).to_ne_bytes());
            notes.extend(kind.to_ne_bytes());
            notes.extend(name.as_bytes());
            notes.extend(bytes);
        }
        assert_eq!(of_notes(&notes).as_deref(), Some("ab01"));
        for end in 0..notes.len() {
            assert_eq!(of_notes(&notes[..end]), None, "{end}");
        }
        assert_eq!(of_notes(&[0xff; 64]), None);
    }

    #[test]
    fn build_id_of_what_is_no_such_file_is_none() {
        let which = |inode| Which { device: None, inode };
        assert_eq!(of_mapped(Path::new("/dev/zero"), which(1)), None);
        assert_eq!(of_mapped(Path::new("/"), which(2)), None);
        let own = std::env::current_exe().unwrap();
        let stat = rustix::fs::stat(&own).unwrap();
        assert_eq!(of_mapped(&own, which(stat.st_ino + 1)), None);
        let id = of_mapped(&own, which(stat.st_ino));
        // The same number elsewhere is another file.
        let (major, minor) = (major(stat.st_dev), minor(stat.st_dev));
        let on = |device| of_mapped(&own, Which { device: Some(device), inode: stat.st_ino });
        assert_eq!(on((major, minor)), id);
        assert_eq!((on((major, minor + 1)), on((major + 1, minor))), (None, None));
        assert!(id.as_ref().is_none_or(|id| id.len() >= 16), "{id:?}");
    }
}
