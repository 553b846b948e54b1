//! Rows that are sorted by a key in bounded memory.
//!
//! Rows are collected as bytes. When they take too much memory, they are sorted and appended to a temporary file, as a run.
//! In the end the runs are merged, each read in pieces. Rows with one key keep their order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of the rows above which they go to the file \[byte\].
const RUN_BYTES: usize = if cfg!(test) { 4 << 10 } else { 16 << 20 };
/// Memory for reading all runs, and the least piece of one \[byte\].
const PIECES_BYTES: usize = 16 << 20;
const PIECE_BYTES: usize = 16 << 10;
/// The most names that are tried for the file.
const TRIES: u32 = 1000;
/// Number of rows between two checks for a request to stop.
const LOOK_INTERVAL: u32 = if cfg!(test) { 8 } else { 4096 };
/// Size of the key and of the length of a row in the file \[byte\].
const HEAD: usize = 12;

/// Place of a row in the memory: its key, and where its bytes are.
#[derive(Clone, Copy, Debug)]
struct Row {
    key: i64,
    from: u32,
    bytes: u32,
}

/// A part of the file with sorted rows.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u64,
    to: u64,
}

/// Collects rows, to be read in the order of their keys.
#[derive(Debug)]
pub(crate) struct SortedRows {
    /// Folder for the file.
    folder: PathBuf,
    /// Size of the rows above which they go to the file \[byte\].
    run_bytes: usize,
    rows: Vec<Row>,
    bytes: Vec<u8>,
    file: Option<File>,
    runs: Vec<Run>,
}

/// Makes a file without a name for this user only.
fn file_in(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("strata-rows-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

impl SortedRows {
    /// Begins without rows. If they need a file, it is made in `folder`.
    pub(crate) fn new(folder: &Path) -> SortedRows {
        SortedRows {
            folder: folder.to_owned(),
            run_bytes: RUN_BYTES,
            rows: Vec::new(),
            bytes: Vec::new(),
            file: None,
            runs: Vec::new(),
        }
    }

    /// Adds a row of the bytes that `write` appends.
    ///
    /// # Errors
    /// The file cannot be written, or one row has 4 GiB.
    #[inline]
    pub(crate) fn push(&mut self, key: i64, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let from = self.bytes.len();
        write(&mut self.bytes);
        let bytes = self.bytes.len() - from;
        let (Ok(from), Ok(bytes)) = (u32::try_from(from), u32::try_from(bytes)) else {
            return Err(io::Error::other(format!(
                "a row of {bytes} bytes is too long to be sorted"
            )));
        };
        self.rows.push(Row { key, from, bytes });
        match self.bytes.len() + size_of_val(&*self.rows) >= self.run_bytes {
            true => self.spill(),
            false => Ok(()),
        }
    }

    fn sort(&mut self) {
        // Stable, and quick where rows are nearly in order.
        self.rows.sort_by_key(|row| row.key);
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(file_in(&self.folder)?),
        };
        let begin = self.runs.last().map_or(0, |run| run.to);
        let mut end = begin;
        let mut out = Vec::with_capacity(PIECE_BYTES * 2);
        for row in &self.rows {
            out.extend_from_slice(&row.key.to_le_bytes());
            out.extend_from_slice(&row.bytes.to_le_bytes());
            out.extend_from_slice(part(&self.bytes, row));
            if out.len() >= PIECE_BYTES {
                file.write_all_at(&out, end)?;
                end += out.len() as u64;
                out.clear();
            }
        }
        file.write_all_at(&out, end)?;
        end += out.len() as u64;
        self.runs.push(Run { from: begin, to: end });
        self.rows.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Passes all rows to `each`, in the order of their keys.
    ///
    /// # Errors
    /// The file cannot be read or written, an error of `each`, or [`io::ErrorKind::Interrupted`] if `stop` has returned true.
    pub(crate) fn drain(
        mut self,
        stop: &dyn Fn() -> bool,
        mut each: impl FnMut(i64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut left = LOOK_INTERVAL;
        let mut each = |key: i64, bytes: &[u8]| {
            left -= 1;
            if left == 0 {
                left = LOOK_INTERVAL;
                if stop() {
                    return Err(io::Error::from(io::ErrorKind::Interrupted));
                }
            }
            each(key, bytes)
        };
        if self.runs.is_empty() {
            self.sort();
            return self.rows.iter().try_for_each(|row| each(row.key, part(&self.bytes, row)));
        }
        if !self.rows.is_empty() {
            self.spill()?;
        }
        let SortedRows { file, runs, .. } = self;
        let Some(file) = file else { return Ok(()) };
        let piece = (PIECES_BYTES / runs.len().max(1)).max(PIECE_BYTES);
        let mut readers: Vec<RunReader<'_>> =
            runs.iter().map(|run| RunReader::new(&file, *run, piece)).collect();
        let mut next = BinaryHeap::with_capacity(readers.len());
        for (index, reader) in readers.iter_mut().enumerate() {
            if let Some(key) = reader.key()? {
                next.push(Reverse((key, index)));
            }
        }
        while let Some(Reverse((key, index))) = next.pop() {
            let Some(reader) = readers.get_mut(index) else { break };
            let other = next.peek().map(|Reverse(other)| *other);
            let mut key = key;
            loop {
                each(key, reader.row()?)?;
                match reader.key()? {
                    None => break,
                    Some(later) if other.is_some_and(|other| (later, index) > other) => {
                        next.push(Reverse((later, index)));
                        break;
                    }
                    Some(later) => key = later,
                }
            }
        }
        Ok(())
    }
}

fn part<'b>(bytes: &'b [u8], row: &Row) -> &'b [u8] {
    let from = row.from as usize;
    bytes.get(from..from + row.bytes as usize).unwrap_or_default()
}

/// Reads the rows of a run.
struct RunReader<'f> {
    file: &'f File,
    run: Run,
    /// The least number of bytes that is read at once.
    piece: usize,
    bytes: Vec<u8>,
    /// Where in `bytes` the next row begins.
    at: usize,
}

impl<'f> RunReader<'f> {
    fn new(file: &'f File, run: Run, piece: usize) -> RunReader<'f> {
        RunReader { file, run, piece, bytes: Vec::new(), at: 0 }
    }

    /// Reads on until `bytes` of the next row are in memory. Returns false at the end of the run.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        if self.bytes.len() - self.at >= bytes {
            return Ok(true);
        }
        self.bytes.drain(..self.at);
        self.at = 0;
        let left = usize::try_from(self.run.to - self.run.from).unwrap_or(usize::MAX);
        let before = self.bytes.len();
        let more = left.min(bytes.saturating_sub(before).max(self.piece));
        self.bytes.resize(before + more, 0);
        if let Some(new) = self.bytes.get_mut(before..) {
            self.file.read_exact_at(new, self.run.from)?;
        }
        self.run.from += more as u64;
        Ok(self.bytes.len() >= bytes)
    }

    fn head<const N: usize>(&self, from: usize) -> [u8; N] {
        let from = self.at + from;
        let part = self.bytes.get(from..from + N).and_then(|part| part.try_into().ok());
        part.unwrap_or([0; N])
    }

    /// Returns the key of the next row; `None` at the end.
    fn key(&mut self) -> io::Result<Option<i64>> {
        Ok(self.fill(HEAD)?.then(|| i64::from_le_bytes(self.head(0))))
    }

    /// Returns the next row, which there must be.
    fn row(&mut self) -> io::Result<&[u8]> {
        let bytes = u32::from_le_bytes(self.head(8)) as usize;
        if !self.fill(HEAD + bytes)? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let from = self.at + HEAD;
        self.at = from + bytes;
        Ok(self.bytes.get(from..self.at).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows with their keys, of rows that are `run_bytes` long when they go to a file.
    fn sorted(run_bytes: usize, rows: &[(i64, Vec<u8>)]) -> (Vec<(i64, Vec<u8>)>, usize) {
        let mut sorted = SortedRows { run_bytes, ..SortedRows::new(&std::env::temp_dir()) };
        for (key, bytes) in rows {
            sorted.push(*key, |out| out.extend_from_slice(bytes)).unwrap();
        }
        let runs = sorted.runs.len();
        let mut out = Vec::new();
        sorted
            .drain(&|| false, |key, bytes| {
                out.push((key, bytes.to_vec()));
                Ok(())
            })
            .unwrap();
        (out, runs)
    }

    #[test]
    fn rows_come_by_key_and_those_of_one_key_in_their_order() {
        let mut rows: Vec<(i64, Vec<u8>)> = (0..5000_u32)
            .map(|number| {
                let key = i64::from(number.wrapping_mul(2_654_435_761) % 700) - 300;
                (key, number.to_string().repeat(number as usize % 7).into_bytes())
            })
            .collect();
        // A row longer than a piece, and the ends of the keys.
        rows.insert(70, (i64::MAX, vec![1; 3 * PIECE_BYTES]));
        rows.insert(90, (i64::MIN, Vec::new()));
        let mut wanted = rows.clone();
        wanted.sort_by_key(|(key, _)| *key);
        for run_bytes in [1 << 30, 1 << 14, 1 << 10] {
            let (found, runs) = sorted(run_bytes, &rows);
            assert_eq!(runs > 1, run_bytes < 1 << 30, "{run_bytes}");
            assert!(found == wanted, "{run_bytes}");
        }
        assert_eq!(sorted(1, &rows[..9]).1, 9);
        assert!(sorted(1, &[]).0.is_empty());
    }

    #[test]
    fn a_request_to_stop_ends_the_reading_of_rows_in_memory_and_in_runs() {
        for run_bytes in [1 << 30, 1 << 10] {
            let mut rows = SortedRows { run_bytes, ..SortedRows::new(&std::env::temp_dir()) };
            for number in 0..1000_u32 {
                rows.push(number.into(), |out| out.extend(number.to_le_bytes())).unwrap();
            }
            assert_eq!(rows.runs.is_empty(), run_bytes == 1 << 30);
            let count = std::cell::Cell::new(0);
            let stopped = rows.drain(&|| count.get() >= 100, |_, _| {
                count.set(count.get() + 1);
                Ok(())
            });
            assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::Interrupted);
            assert!((100..100 + LOOK_INTERVAL).contains(&count.get()), "{}", count.get());
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let mut rows = SortedRows { run_bytes: 1, ..SortedRows::new(Path::new("/proc/nothing")) };
        assert!(rows.push(1, |out| out.push(1)).is_err());
    }
}
