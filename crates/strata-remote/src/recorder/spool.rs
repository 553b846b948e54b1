//! Messages on the sender's disk, while the relay does not take them as fast as they come.
//!
//! The spool is a ring in one file without a name, which ends with this process. Messages are freed in the order in which
//! they were added, so that the ring has at most two pieces of free space: behind the newest message, and before the oldest
//! one. A message is never split.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// A ring of messages in a file.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    /// Limit of the file's size \[byte\].
    most: u64,
    /// Messages, from the oldest to the newest.
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// Why the last message could not be written; `None` if it was written.
    problem: Option<String>,
}

/// Place of a message in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    at: u64,
    bytes: u64,
}

impl Piece {
    fn end(self) -> u64 {
        self.at + self.bytes
    }
}

impl Spool {
    /// Makes an empty spool of at most `most` bytes, in a file without a name in this folder.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn create(folder: &Path, most: u64) -> io::Result<Spool> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?;
        let (file, pieces) = (File::from(file), VecDeque::new());
        Ok(Spool { file, most, pieces, bytes: 0, problem: None })
    }

    /// Adds a message. Returns `None` if there is no space for it, in the ring or on the disk.
    pub(crate) fn push(&mut self, message: &[u8]) -> Option<Piece> {
        let piece = self.place(message.len() as u64)?;
        if let Err(error) = self.file.write_all_at(message, piece.at) {
            self.problem = Some(error.to_string());
            return None;
        }
        self.problem = None;
        self.pieces.push_back(piece);
        self.bytes += piece.bytes;
        Some(piece)
    }

    /// Returns a free place for this many bytes.
    fn place(&self, bytes: u64) -> Option<Piece> {
        let (Some(oldest), Some(newest)) = (self.pieces.front(), self.pieces.back()) else {
            return (bytes <= self.most).then_some(Piece { at: 0, bytes });
        };
        let at = newest.end();
        let is_wrapped = newest.at < oldest.at;
        let end = if is_wrapped { oldest.at } else { self.most };
        if end.saturating_sub(at) >= bytes {
            return Some(Piece { at, bytes });
        }
        (!is_wrapped && oldest.at >= bytes).then_some(Piece { at: 0, bytes })
    }

    /// Reads a message.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn read(&self, piece: Piece) -> io::Result<Vec<u8>> {
        let bytes = usize::try_from(piece.bytes).map_err(io::Error::other)?;
        let mut message = vec![0; bytes];
        self.file.read_exact_at(&mut message, piece.at)?;
        Ok(message)
    }

    /// Frees the oldest message, which must be this one.
    pub(crate) fn free(&mut self, piece: Piece) {
        let oldest = self.pieces.pop_front();
        debug_assert_eq!(oldest, Some(piece));
        self.bytes = self.bytes.saturating_sub(piece.bytes);
        if self.pieces.is_empty() {
            // The space is given back; without success the file is used again.
            let _ = self.file.set_len(0);
        }
    }

    /// Returns the size of all messages \[byte\].
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of the largest message for which there is space now \[byte\].
    pub(crate) fn free_bytes(&self) -> u64 {
        if self.problem.is_some() {
            return 0;
        }
        let (Some(oldest), Some(newest)) = (self.pieces.front(), self.pieces.back()) else {
            return self.most;
        };
        match newest.at < oldest.at {
            true => oldest.at.saturating_sub(newest.end()),
            false => self.most.saturating_sub(newest.end()).max(oldest.at),
        }
    }

    /// Returns why the last message could not be written; `None` if it was written.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn spool_gives_back_each_message_and_is_never_larger_than_its_limit() {
        let scratch = Scratch::new("spool");
        std::fs::create_dir_all(&scratch.0).unwrap();
        let mut spool = Spool::create(&scratch.0, 1000).unwrap();
        assert!(spool.push(&[0; 1001]).is_none() && spool.free_bytes() == 1000);
        let mut kept: VecDeque<(Piece, Vec<u8>)> = VecDeque::new();
        let (mut state, mut full, mut pushed) = (12345u32, 0, 0u32);
        for round in 0..20_000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let message = vec![round as u8; 1 + (state >> 8) as usize % 300];
            let fits = spool.free_bytes() >= message.len() as u64;
            match spool.push(&message) {
                Some(piece) => {
                    assert!(fits && piece.end() <= 1000);
                    kept.push_back((piece, message));
                    pushed += 1;
                }
                None => {
                    assert!(!fits, "{round}");
                    full += 1;
                }
            }
            let frees =
                if state & 1 == 0 || spool.free_bytes() < 100 { 1 + (state >> 20) % 3 } else { 0 };
            for _ in 0..frees {
                let Some((piece, message)) = kept.pop_front() else { break };
                assert_eq!(spool.read(piece).unwrap(), message);
                spool.free(piece);
            }
            let all: u64 = kept.iter().map(|(_, message)| message.len() as u64).sum();
            assert_eq!(spool.bytes(), all);
        }
        assert!(full > 100 && pushed > 1000, "{full} {pushed}");
        assert!(spool.file.metadata().unwrap().len() <= 1000);
    }

    #[test]
    fn spool_on_a_full_disk_says_so_and_goes_on_once_there_is_space() {
        let mut spool = Spool {
            file: File::options().read(true).write(true).open("/dev/full").unwrap(),
            most: 1000,
            pieces: VecDeque::new(),
            bytes: 0,
            problem: None,
        };
        assert!(spool.push(b"message").is_none() && spool.free_bytes() == 0);
        assert!(spool.problem().unwrap().contains("No space"), "{:?}", spool.problem());
        let scratch = Scratch::new("spool-again");
        std::fs::create_dir_all(&scratch.0).unwrap();
        spool.file = Spool::create(&scratch.0, 1).unwrap().file;
        assert!(spool.push(b"message").is_some() && spool.problem().is_none());
    }
}
