//! Collects the information that a file has about its code: functions, their pieces, and their names.
//!
//! ```text
//! symbol tables, .gopclntab ── NamedCode: functions by address ─┐
//! .eh_frame ── frames: ranges of code that are unwound alike  ──┼─▶ CodeMap ──▶ bytes of a piece, within `budget`
//! .plt* ── stubs: code that only jumps to other files          ─┘
//! ```
//!
//! Compilers move rarely executed code out of a function, into pieces that have a frame in the unwind tables but
//! often no symbol. To find where a function is left, or whether a jump leads out of it, all three sources are
//! needed: no single one is complete, and a stripped file has only the frames.
//!
//! The map is built once for a file and used for all probes on it ([`uprobe`](crate::decide::uprobe)), by one
//! thread: `last` and `budget` are cells. The bytes of the last lookup are remembered, since one function's
//! instructions are looked up one after another.
//!
//! Files are hostile. What all probes on a file decode is taken from one budget ([`BUDGET`]): a file of
//! overlapping functions or endless tables of jumps is refused after that much work.
//!
//! Everything is read when the map is made; a lookup is then a search in a sorted list.

mod frames;

use crate::discover::elf::{Elf, ElfError, GoFunctions, NamedCode};
use frames::Frame;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The most code of one file that is decoded in total \[byte\]. A thousand functions, which a pattern may select,
/// rarely have more than 1 MB.
pub(crate) const BUDGET: u64 = 16 << 20;

/// A map of the functions and other pieces of code in a file.
pub(crate) struct CodeMap<'data> {
    elf: &'data Elf,
    /// Functions, sorted by address.
    pub(crate) functions: Vec<NamedCode<'data>>,
    /// Frames of the unwind tables, sorted by address.
    frames: Vec<Frame>,
    /// Sections of linker-made code that jumps to other files.
    stubs: Vec<Range<u64>>,
    go: Option<GoFunctions<'data>>,
    /// Range and bytes of the last lookup, which the next lookup mostly needs again.
    last: RefCell<Option<(Range<u64>, &'data [u8])>>,
    /// Size of the code that may still be decoded \[byte\].
    pub(crate) budget: Cell<u64>,
}

impl<'data> CodeMap<'data> {
    /// Reads functions and frames from `elf`.
    ///
    /// # Errors
    /// [`ElfError::Damaged`], [`ElfError::Large`].
    pub(crate) fn new(elf: &'data Elf) -> Result<CodeMap<'data>, ElfError> {
        let (functions, go) = elf.named_code()?;
        let frames = elf.section(".eh_frame").ok().flatten();
        Ok(CodeMap {
            elf,
            functions,
            frames: frames.map_or_else(Vec::new, |(at, bytes)| frames::read(at, bytes)),
            stubs: elf.sections_with_prefix(".plt")?,
            go,
            last: RefCell::new(None),
            budget: Cell::new(BUDGET),
        })
    }

    /// Reduces the budget by code of this size. Returns whether it was sufficient.
    pub(crate) fn take_budget(&self, bytes: u64) -> bool {
        let left = self.budget.get().checked_sub(bytes);
        self.budget.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Returns the Go functions, if the file is a Go program.
    pub(crate) fn go(&self) -> Option<&GoFunctions<'data>> {
        self.go.as_ref()
    }

    /// Returns all named functions that begin at `address`.
    pub(crate) fn beginning_at(&self, address: u64) -> &[NamedCode<'data>] {
        let from = self.functions.partition_point(|one| one.start < address);
        let to = self.functions.partition_point(|one| one.start <= address);
        self.functions.get(from..to).unwrap_or_default()
    }

    /// Returns the named function whose code contains `address`; of several, the one that begins last.
    pub(crate) fn function_of(&self, address: u64) -> Option<&NamedCode<'data>> {
        let behind = self.functions.partition_point(|one| one.start <= address);
        let before = self.functions.get(..behind)?;
        // Those of no size are no reason not to look further, but not for ever.
        before.iter().rev().take(64).find(|one| address < one.end)
    }

    /// Returns a function that begins within the range, but not at its first address.
    pub(crate) fn beginning_within(&self, range: &Range<u64>) -> Option<&NamedCode<'data>> {
        let from = self.functions.partition_point(|one| one.start <= range.start);
        self.functions.get(from).filter(|one| one.start < range.end)
    }

    /// Returns the entry of `.eh_frame` for the byte at `address`.
    pub(crate) fn frame_of(&self, address: u64) -> Option<&Frame> {
        let behind = self.frames.partition_point(|one| one.range.start <= address);
        let frame = self.frames.get(behind.checked_sub(1)?)?;
        frame.range.contains(&address).then_some(frame)
    }

    /// Returns whether the code at `address` is a stub of the linker that jumps to another file.
    pub(crate) fn is_stub(&self, address: u64) -> bool {
        self.stubs.iter().any(|range| range.contains(&address))
    }

    /// Returns the begin of the function that contains the byte at `address`, if the file has that information.
    pub(crate) fn begin_of(&self, address: u64) -> Option<u64> {
        let named = self.function_of(address).map(|one| one.start);
        let go = || Some(self.go.as_ref()?.at(address)?.start);
        named.or_else(go).or_else(|| self.frame_of(address).map(|frame| frame.range.start))
    }

    /// Returns the range of the function that begins at `address`; `None` if the file does not say where it ends.
    pub(crate) fn extent(&self, address: u64) -> Option<Range<u64>> {
        let named = self.beginning_at(address).iter().map(|one| one.end).max();
        if let Some(end) = named.filter(|end| *end > address) {
            return Some(address..end);
        }
        let go = self.go.as_ref().and_then(|go| go.at(address));
        if let Some(go) = go.filter(|go| go.start == address) {
            return Some(go.start..go.end);
        }
        let frame = self.frame_of(address).filter(|frame| frame.range.start == address);
        frame.map(|frame| frame.range.clone())
    }

    /// Returns the offset in the file of the code at this address.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        self.elf.address(address).ok().map(|place| place.offset)
    }

    /// Returns bytes of the program's memory that the file has, code or not.
    pub(crate) fn data(&self, address: u64, bytes: u64) -> Option<&'data [u8]> {
        self.elf.data_at(address, bytes)
    }

    /// Returns the bytes in this range of addresses; `None` if they are not all in the file's code.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> Option<&'data [u8]> {
        let mut last = self.last.borrow_mut();
        if let Some((_, bytes)) = last.as_ref().filter(|(known, _)| known == range) {
            return Some(*bytes);
        }
        let bytes = self.elf.code(range).ok().flatten()?;
        *last = Some((range.clone(), bytes));
        Some(bytes)
    }
}
