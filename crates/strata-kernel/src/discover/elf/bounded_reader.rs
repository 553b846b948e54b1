//! Reads pieces of a file: each piece once, and all together up to a limit. The file itself claims the sizes, and a
//! file with holes may be larger than any memory.

use crate::discover::elf::binary::BinaryReader;
use object::read::{ReadCache, ReadRef};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;

/// The most bytes that are read from one ELF file \[byte\]. A browser with debug information has some 150 MB of
/// symbols and names.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// A file from which the `object` crate reads a limited number of bytes.
pub(super) struct Bounded {
    cache: ReadCache<BinaryReader>,
    left: Cell<u64>,
    /// Pieces that were read before and are in the cache, by offset and size \[byte\].
    known: RefCell<HashSet<(u64, u64)>>,
    is_exhausted: Cell<bool>,
}

impl Bounded {
    pub(super) fn new(reader: BinaryReader) -> Bounded {
        Bounded {
            cache: ReadCache::new(reader),
            left: Cell::new(BYTES_MAX),
            known: RefCell::default(),
            is_exhausted: Cell::new(false),
        }
    }

    /// Returns whether the limit was reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Counts a piece towards the limit. Fails if the limit is reached.
    fn charge(&self, at: u64, bytes: u64) -> Result<(), ()> {
        // What it takes to remember a piece, however small.
        const PIECE: u64 = 128;
        if !self.known.borrow_mut().insert((at, bytes)) {
            return Ok(());
        }
        if let Some(left) = self.left.get().checked_sub(bytes.max(PIECE)) {
            self.left.set(left);
            return Ok(());
        }
        self.known.borrow_mut().remove(&(at, bytes));
        self.is_exhausted.set(true);
        Err(())
    }
}

impl<'data> ReadRef<'data> for &'data Bounded {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        // Behind the end is not much, but wrong.
        if offset.checked_add(size).is_none_or(|end| self.len().is_ok_and(|all| end > all)) {
            return Err(());
        }
        self.charge(offset, size)?;
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        // The cache reads no more than this of one.
        const MOST: u64 = 4096;
        self.charge(range.start, MOST)?;
        (&self.cache).read_bytes_at_until(range, delimiter)
    }
}
