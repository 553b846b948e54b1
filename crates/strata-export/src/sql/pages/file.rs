//! A database file to which pages are appended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// The size of a page \[byte\]. In tests it is the least that SQLite has, so that few rows make a b-tree of many levels.
pub(in crate::sql) const PAGE: usize = if cfg!(test) { 512 } else { 8192 };
/// The page with the byte at 2^30, on which SQLite's locks lie. No b-tree has it.
const LOCK_PAGE: u32 = (1 << 30) / PAGE as u32 + 1;
/// The greatest number of a page.
const PAGES_MAX: u32 = u32::MAX - 1;
/// The number of pages that are written at once.
const PAGES_AT_ONCE: usize = 64;

/// The first bytes of each database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The size of the header in the first page, which describes the file \[byte\].
const HEADER: usize = 100;
const PAGE_SIZE_AT: usize = 16;
const RESERVED_AT: usize = 20;
const PAGE_COUNT_AT: usize = 28;

/// A database to which pages are appended. No other process has the file open, and it is no valid database until it
/// is finished.
#[derive(Debug)]
pub(in crate::sql) struct PageFile {
    file: File,
    /// The number of the next page.
    next: u32,
    /// Pages that are not written yet, and the number of the first.
    pages: Vec<u8>,
    first: u32,
}

/// Returns the next page number after `number` that a b-tree may use.
fn after(number: u32) -> u32 {
    match number + 1 {
        LOCK_PAGE => LOCK_PAGE + 1,
        next => next,
    }
}

fn offset(number: u32) -> u64 {
    u64::from(number.saturating_sub(1)) * PAGE as u64
}

impl PageFile {
    /// Opens a database that SQLite has made, with pages of [`PAGE`] bytes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if it has pages of another form.
    pub(in crate::sql) fn open(path: &Path) -> io::Result<PageFile> {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let number = |at: usize| {
            let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_be_bytes(bytes.unwrap_or_default())
        };
        let page = number(PAGE_SIZE_AT) >> 16;
        let has_reserved = header.get(RESERVED_AT) != Some(&0);
        if !header.starts_with(MAGIC) || page as usize != PAGE || has_reserved {
            return Err(io::Error::other(format!(
                "SQLite has made a file with pages of {page} bytes, and not of {PAGE}"
            )));
        }
        file.write_all_at(&[0; MAGIC.len()], 0)?;
        let next = after(number(PAGE_COUNT_AT));
        Ok(PageFile { file, next, pages: Vec::new(), first: next })
    }

    /// Appends a page. Returns its number.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or would have more pages than a database can have.
    pub(in crate::sql) fn append(&mut self, page: &[u8]) -> io::Result<u32> {
        debug_assert_eq!(page.len(), PAGE);
        let number = self.next;
        if number >= PAGES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("a database has at most {PAGES_MAX} pages of {PAGE} bytes"),
            ));
        }
        self.pages.extend_from_slice(page);
        self.next = after(number);
        if self.pages.len() >= PAGES_AT_ONCE * PAGE || self.next != number + 1 {
            self.flush()?;
        }
        Ok(number)
    }

    /// Appends the rest of a payload as a chain of overflow pages. Returns the number of the first.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::sql) fn append_overflow(&mut self, rest: &[u8]) -> io::Result<u32> {
        let first = self.next;
        let mut page = vec![0; PAGE];
        let mut parts = rest.chunks(PAGE - 4).peekable();
        while let Some(part) = parts.next() {
            let next = parts.peek().map_or(0, |_| after(self.next));
            page.fill(0);
            for (to, from) in page.iter_mut().zip(next.to_be_bytes().iter().chain(part)) {
                *to = *from;
            }
            self.append(&page)?;
        }
        Ok(first)
    }

    /// Replaces a page that SQLite has made.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::sql) fn replace(&mut self, number: u32, page: &[u8]) -> io::Result<()> {
        self.file.write_all_at(page, offset(number))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pages, offset(self.first))?;
        self.pages.clear();
        self.first = self.next;
        Ok(())
    }

    /// Writes the remaining pages, and the number of pages.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::sql) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        // The last page is not the one with the locks.
        let last = self.next - if self.next == LOCK_PAGE + 1 { 2 } else { 1 };
        self.file.write_all_at(&last.to_be_bytes(), PAGE_COUNT_AT as u64)?;
        self.file.write_all_at(MAGIC, 0)
    }

    /// Leaves all pages up to the one with SQLite's locks empty, except the `before` pages before it.
    #[cfg(test)]
    pub(in crate::sql) fn skip_to_locks(&mut self, before: u32) {
        self.next = LOCK_PAGE - before;
        self.first = self.next;
    }
}
