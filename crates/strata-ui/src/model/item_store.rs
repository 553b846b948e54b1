//! Stores blocks of items: in memory, and beyond a limit in an unnamed file.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use strata_model::temporary_folder;

/// The most bytes that stay in memory \[byte\].
const MEMORY: usize = 64 << 20;
/// Size of one write to the file \[byte\].
const CHUNK: usize = 1 << 20;
/// The most that is written at once \[byte\].
const PART: usize = 2 << 20;
/// The largest size of the file for blocks that do not fit into memory \[byte\].
const FILE_MAX: u64 = 16 << 30;
/// Free space that must stay on the file's disk \[byte\].
const ROOM_LEFT: u64 = 512 << 20;

/// Place of a block in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Offset in the store \[byte\].
    pub offset: u64,
    /// Length of the block \[byte\].
    pub len: u32,
    /// Check sum of the block, if it is in a file that may have changed since.
    pub check: Option<u32>,
}

/// Returns the check sum of a block.
#[must_use]
pub fn check_of(block: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write(block);
    hasher.finish() as u32
}

/// Blocks, one after the other.
#[derive(Debug, Default)]
pub struct BlockStore {
    /// File that holds all bytes before `tail`; `None` while all fit into memory.
    file: Option<File>,
    /// Offset at which `tail` begins.
    written: u64,
    tail: Vec<u8>,
    /// Length of the begin of `tail` that is in the file, too.
    copied: usize,
}

impl BlockStore {
    /// Makes a store of a file that holds blocks in front of the offset `end`. Their places have check sums.
    #[must_use]
    pub fn of_file(file: File, end: u64) -> BlockStore {
        BlockStore { file: Some(file), written: end, ..BlockStore::default() }
    }

    /// Stores a block.
    ///
    /// # Errors
    /// No file can be made or written in the folder for temporary files.
    pub fn put(&mut self, block: &[u8]) -> io::Result<BlockPlace> {
        let len = u32::try_from(block.len()).map_err(io::Error::other)?;
        let offset = self.written + self.tail.len() as u64;
        self.tail.extend_from_slice(block);
        let room = if self.file.is_some() { CHUNK } else { MEMORY };
        if self.tail.len() >= room || self.copied > 0 {
            self.spill()?;
        }
        Ok(BlockPlace { offset, len, check: None })
    }

    /// Copies a part of what is in memory to the file, and forgets it once all is there: who puts a block holds up those who
    /// look, and all at once would take a tenth of a second.
    fn spill(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => temporary_file()?,
        };
        let room = free_bytes(&file)?;
        let part = self.tail.get(self.copied..).unwrap_or_default();
        let part = part.get(..PART).unwrap_or(part);
        let at = self.written + self.copied as u64;
        check_room(at, part.len() as u64, room)?;
        file.write_all_at(part, at)?;
        self.copied += part.len();
        if self.copied == self.tail.len() {
            self.written += self.tail.len() as u64;
            (self.tail, self.copied) = (Vec::new(), 0);
        }
        self.file = Some(file);
        Ok(())
    }

    /// Returns a block.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&self, place: BlockPlace) -> io::Result<Vec<u8>> {
        let len = usize::try_from(place.len).map_err(io::Error::other)?;
        if let (Some(file), true) = (&self.file, place.offset < self.written) {
            if u64::from(place.len) > self.written - place.offset {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut block = vec![0; len];
            file.read_exact_at(&mut block, place.offset)?;
            if place.check.is_some_and(|check| check != check_of(&block)) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the cached tiles have changed since they were written. End strata ui, and start it with --no-cache"));
            }
            return Ok(block);
        }
        let begin = place.offset.checked_sub(self.written).map(usize::try_from);
        let begin = begin.and_then(Result::ok).ok_or(io::ErrorKind::UnexpectedEof)?;
        let block = begin.checked_add(len).and_then(|end| self.tail.get(begin..end));
        block.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Checks that `more` bytes may follow the `written` ones on a disk with `free` bytes.
fn check_room(written: u64, more: u64, free: u64) -> io::Result<()> {
    let folder = temporary_folder();
    let text = if written + more > FILE_MAX {
        format!(
            "slices of more than {} GiB: what comes behind them is not shown. Record a shorter time",
            FILE_MAX >> 30
        )
    } else if free < more + ROOM_LEFT {
        let (free, least) = (free >> 20, ROOM_LEFT >> 20);
        format!(
            "the disk of {} has {free} MiB free, and {least} MiB are left to others. Set TMPDIR",
            folder.display()
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::StorageFull, text))
}

fn free_bytes(file: &File) -> io::Result<u64> {
    let disk = rustix::fs::fstatvfs(file)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Makes a file that is removed with its last descriptor, however this process ends.
fn temporary_file() -> io::Result<File> {
    let folder = temporary_folder();
    let failed = |error: rustix::io::Errno| {
        let text = format!("cannot make a file in {}: {error}. Set TMPDIR", folder.display());
        io::Error::new(io::Error::from(error).kind(), text)
    };
    file_without_name(&folder).map_err(failed)
}

fn file_without_name(folder: &Path) -> rustix::io::Result<File> {
    use rustix::fs::{Mode, OFlags, CWD};
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match rustix::fs::openat(CWD, folder, OFlags::TMPFILE | flags, mode) {
        // The file system has no unnamed files, or the kernel takes the path for the folder itself.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => named_file(folder),
        opened => opened.map(File::from),
    }
}

/// Makes a file with a name that did not exist, and removes the name.
fn named_file(folder: &Path) -> rustix::io::Result<File> {
    use rustix::fs::{Mode, OFlags, CWD};
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let mut tries = 0;
    loop {
        let path = folder.join(format!("strata-ui-{}-{tries}", std::process::id()));
        match rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR) {
            Err(rustix::io::Errno::EXIST) if tries < 100 => tries += 1,
            Err(error) => return Err(error),
            Ok(file) => {
                rustix::fs::unlink(&path)?;
                return Ok(File::from(file));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_same_from_memory_and_from_the_file() {
        let mut store = BlockStore::default();
        let block = |number: u8| vec![number; 3000 + usize::from(number)];
        let mut places: Vec<_> = (0..50).map(|at| store.put(&block(at)).unwrap()).collect();
        store.spill().unwrap();
        assert!(store.tail.is_empty() && store.written > 150_000);
        places.extend((50..100).map(|at| store.put(&block(at)).unwrap()));
        assert!(store.file.is_some() && store.tail.len() > 1000);
        for (at, &place) in (0..).zip(&places) {
            assert_eq!(store.get(place).unwrap(), block(at));
        }
    }

    #[test]
    fn much_in_memory_goes_to_the_file_in_parts_and_can_be_read_all_the_time() {
        let mut store = BlockStore::default();
        let block = |number: usize| vec![number as u8; 250_000 + number];
        let mut places = Vec::new();
        let mut parts = 0;
        for at in 0.. {
            let before = store.written + store.copied as u64;
            places.push(store.put(&block(at)).unwrap());
            let written = store.written + store.copied as u64 - before;
            assert!(written <= PART as u64, "{written} bytes are written at once");
            parts += u32::from(written > 0);
            if at % 16 == 0 || written > 0 {
                for look in [0, at / 2, at] {
                    assert_eq!(store.get(places[look]).unwrap(), block(look), "{look} of {at}");
                }
            }
            if store.written > 0 && at > 400 {
                break;
            }
        }
        assert!(parts > 30, "{parts} parts");
        assert!(store.tail.len() < 2 * CHUNK);
    }

    #[test]
    fn file_that_would_fill_its_disk_or_grow_without_end_is_refused_and_the_text_says_what_to_do() {
        assert!(check_room(0, 1 << 20, 1 << 40).is_ok());
        let full = check_room(1 << 30, 1 << 20, ROOM_LEFT).unwrap_err().to_string();
        assert!(full.contains("512 MiB free") && full.contains("TMPDIR"), "{full}");
        let large = check_room(FILE_MAX, 1, 1 << 40).unwrap_err().to_string();
        assert!(large.contains("16 GiB"), "{large}");
    }

    #[test]
    fn file_has_no_name_where_the_file_system_makes_only_files_with_one() {
        let folder = std::env::temp_dir().join(format!("strata-ui-store-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let taken = folder.join(format!("strata-ui-{}-0", std::process::id()));
        std::fs::write(&taken, "another's").unwrap();
        let file = named_file(&folder).unwrap();
        file.write_all_at(b"block", 7).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(std::fs::read(&taken).unwrap(), b"another's");
        assert_eq!(file.metadata().unwrap().len(), 12);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
