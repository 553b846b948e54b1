//! The records of a file, one after the other, with those that are compressed in others (`compressed.rs`).

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};

use super::compressed::{is_piece, CompressedRecords};
use crate::bytes::Bytes;

/// The largest record \[byte\].
pub(crate) const RECORD_BYTES: usize = 1 << 16;

/// Kinds of records: a sample.
pub(crate) const SAMPLE: u32 = 9;
/// Kinds of records that are only in perf's output to a pipe: an event, descriptions of tracepoints, and a feature.
pub(crate) const HEADER_ATTR: u32 = 64;
pub(crate) const HEADER_TRACING_DATA: u32 = 66;
pub(crate) const HEADER_FEATURE: u32 = 80;
const AUXTRACE: u32 = 71;

/// Returns the number of bytes after a record that are not records: those of a processor's own trace, and
/// descriptions of tracepoints.
fn bytes_behind(kind: u32, body: &[u8]) -> Option<u64> {
    match kind {
        AUXTRACE => Some(Bytes(body).u64().unwrap_or(0)),
        HEADER_TRACING_DATA => Bytes(body).u32().map(|bytes| u64::from(bytes).next_multiple_of(8)),
        _ => None,
    }
}

/// The records of a file, one after the other.
pub(crate) struct Records<'f> {
    data: BufReader<&'f mut File>,
    /// Bytes of the records that the file has behind what was read.
    left: u64,
    /// The bytes behind the head of the last record.
    pub body: Vec<u8>,
    /// The bytes after the last record that are not a record, if the caller wanted them.
    pub behind: Vec<u8>,
    /// Bytes of whole records of the file so far.
    pub bytes: u64,
    /// Records in records that are compressed.
    compressed: CompressedRecords,
}

/// The result of reading a record.
pub(crate) enum Next {
    /// A record of this kind, with these flags.
    Record(u32, u16),
    End,
    Damage(String),
}

impl<'f> Records<'f> {
    /// Begins at the place of the records: offset and size \[byte\].
    pub fn new(file: &'f mut File, (at, bytes): (u64, u64)) -> io::Result<Records<'f>> {
        file.seek(SeekFrom::Start(at))?;
        let left = bytes.min(file.metadata()?.len().saturating_sub(at));
        let data = BufReader::with_capacity(1 << 18, file);
        let body = Vec::with_capacity(RECORD_BYTES);
        let compressed = CompressedRecords::default();
        Ok(Records { data, left, body, behind: Vec::new(), bytes: 0, compressed })
    }

    /// Reads the next record, and keeps the bytes after it that are not a record if they are at most `kept`.
    pub fn next(&mut self, kept: u64) -> io::Result<Next> {
        loop {
            match self.compressed.next(&mut self.body) {
                Ok(Some((kind, misc))) => {
                    self.behind.clear();
                    return Ok(Next::Record(kind, misc));
                }
                Ok(None) => {}
                Err(why) => return Ok(Next::Damage(why)),
            }
            match self.next_of_file(kept)? {
                Next::Record(kind, _) if is_piece(kind) => {
                    if let Err(why) = self.compressed.push(kind, &self.body) {
                        return Ok(Next::Damage(why));
                    }
                }
                Next::End if self.compressed.is_cut() => {
                    return Ok(Next::Damage("its compressed records end within one".to_owned()));
                }
                next => return Ok(next),
            }
        }
    }

    /// Reads the next record of the file, which may be a compressed one.
    fn next_of_file(&mut self, kept: u64) -> io::Result<Next> {
        let mut header = [0; 8];
        match self.fill(&mut header)? {
            0 => return Ok(Next::End),
            8 => {}
            _ => return Ok(Next::Damage("it ends within a record".to_owned())),
        }
        let [a, b, c, d, e, f, g, h] = header;
        let (kind, misc) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
        let size = u16::from_ne_bytes([g, h]);
        let Some(bytes) = usize::from(size).checked_sub(8) else {
            return Ok(Next::Damage(format!(
                "a record of kind {kind} has {size} bytes, and at least 8 are possible"
            )));
        };
        let mut body = std::mem::take(&mut self.body);
        body.resize(bytes, 0);
        let found = self.fill(&mut body);
        self.body = body;
        if found? < bytes {
            return Ok(Next::Damage("it ends within a record".to_owned()));
        }
        let behind = bytes_behind(kind, &self.body).unwrap_or(0);
        self.behind.clear();
        if behind > self.left {
            return Ok(Next::Damage(format!(
                "{behind} bytes were to be behind a record of kind {kind}, and {} are",
                self.left
            )));
        }
        if behind <= kept {
            (&mut self.data).take(behind).read_to_end(&mut self.behind)?;
        } else {
            // They may be gigabytes, or a hole of any size.
            self.data.seek_relative(i64::try_from(behind).map_err(io::Error::other)?)?;
        }
        self.left -= behind;
        self.bytes += u64::from(size) + behind;
        Ok(Next::Record(kind, misc))
    }

    /// Reads until the buffer is full or the data ends. Returns the bytes that were read.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let mut have = 0;
        while let Some(rest) = buffer.get_mut(have..most).filter(|rest| !rest.is_empty()) {
            match self.data.read(rest) {
                Ok(0) => break,
                Ok(bytes) => have += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.left -= have as u64;
        Ok(have)
    }
}
