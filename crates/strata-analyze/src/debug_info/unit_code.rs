//! The functions, inlined calls and lines of a unit of debug information, by address.

use std::collections::HashMap;
use std::sync::Arc;

use super::dwarf_entries::Not;
use super::lookup_limits::{Budget, Charge};

/// The most inlined calls around an address that are named.
const INLINED_MAX: usize = 64;

/// A range of addresses, and the index of the unit or function that owns it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeOf {
    pub begin: u64,
    pub end: u64,
    pub index: u32,
    /// The smallest begin among this range and all ranges after it in the list.
    pub least: u64,
}

/// A range of code that belongs to an inlined call.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlinedCall {
    pub begin: u64,
    pub end: u64,
    pub file: u32,
    pub line: u32,
    /// The index of the function into which the call was inlined.
    pub function: u32,
    /// The number of inlined calls around this one.
    pub depth: u16,
    /// The offset of the call's entry in the debug information.
    pub entry: usize,
}

/// A function: the offset of its entry, and the begin of its first range.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionEntry {
    pub entry: usize,
    pub begin: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LineAt {
    pub address: u64,
    pub file: u32,
    pub line: u32,
}

/// Rows of the line table that are contiguous in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    pub begin: u64,
    pub end: u64,
    pub first: usize,
    pub rows: usize,
}

/// The functions, inlined calls and lines of a unit.
#[derive(Debug)]
pub(super) struct UnitCode {
    pub ranges: Vec<RangeOf>,
    pub functions: Vec<FunctionEntry>,
    /// The inlined calls, sorted by function and then by begin.
    pub inlined: Vec<InlinedCall>,
    pub nested: Vec<InlinedCall>,
    pub rows: Vec<LineAt>,
    pub sequences: Vec<Sequence>,
    /// The paths of the files that were looked up, by number.
    pub paths: HashMap<u32, Option<Arc<[u8]>>>,
    pub charge: Charge,
}

/// Appends a value to a list, if the charge has room for it.
pub(super) fn push<T>(list: &mut Vec<T>, one: T, charge: &mut Charge) -> Result<(), Not> {
    if list.len() == list.capacity() {
        // A list is twice as large while it moves; what is large the kernel moves.
        let more = (list.capacity() / 2).max(64);
        if !charge.add((more * size_of::<T>()) as u64) {
            return Err(Not::Room);
        }
        list.reserve_exact(more);
    }
    list.push(one);
    Ok(())
}

/// Sorts ranges by their ends, so that the ranges around an address can be found.
pub(super) fn sorted(mut ranges: Vec<RangeOf>) -> Vec<RangeOf> {
    ranges.sort_unstable_by_key(|it| (it.end, it.index, it.begin));
    let mut least = u64::MAX;
    for range in ranges.iter_mut().rev() {
        least = least.min(range.begin);
        range.least = least;
    }
    ranges
}

/// Returns the ranges that contain an address. Adds the cost of the search to `steps`.
pub(super) fn around(ranges: &[RangeOf], address: u64, steps: &mut u64) -> Vec<RangeOf> {
    let first = ranges.partition_point(|it| it.end <= address);
    let behind = ranges.get(first..).unwrap_or_default();
    let candidates = behind.iter().take_while(|it| it.least <= address).inspect(|_| *steps += 1);
    candidates.filter(|it| it.begin <= address).take(64).copied().collect()
}

impl UnitCode {
    pub fn new(budget: &Arc<Budget>) -> UnitCode {
        UnitCode {
            ranges: Vec::new(),
            functions: Vec::new(),
            inlined: Vec::new(),
            nested: Vec::new(),
            rows: Vec::new(),
            sequences: Vec::new(),
            paths: HashMap::new(),
            charge: Charge::new(budget),
        }
    }

    pub fn clear_functions(&mut self) {
        (self.ranges, self.functions) = (Vec::new(), Vec::new());
        (self.inlined, self.nested) = (Vec::new(), Vec::new());
        self.charge.give(u64::MAX);
    }

    /// Returns the file and line of an address.
    pub fn line_at(&self, address: u64) -> Option<(u32, u32)> {
        let behind = self.sequences.partition_point(|it| it.begin <= address);
        let sequence = self.sequences.get(behind.checked_sub(1)?)?;
        if address >= sequence.end {
            return None;
        }
        let rows = self.rows.get(sequence.first..sequence.first.checked_add(sequence.rows)?)?;
        let behind = rows.partition_point(|row| row.address <= address);
        rows.get(behind.checked_sub(1)?).map(|row| (row.file, row.line))
    }

    /// Returns the calls at an address that were inlined into a function, the innermost first; none if the outermost one
    /// is unknown.
    pub fn calls_at(&self, function: u32, address: u64, steps: &mut u64) -> Vec<InlinedCall> {
        let mut at = |list: &[InlinedCall], most: usize| {
            let first = list.partition_point(|it| it.function < function);
            let of_function = list.get(first..).unwrap_or_default().iter();
            // They are in the order of their begins.
            let before =
                of_function.take_while(|it| it.function == function && it.begin <= address);
            let counted = before.inspect(|_| *steps += 1);
            let found = counted.filter(|it| address < it.end).take(most).copied();
            found.collect::<Vec<_>>()
        };
        let mut calls = at(&self.inlined, 1);
        if !calls.is_empty() {
            calls.extend(at(&self.nested, INLINED_MAX));
            calls.sort_by_key(|call| std::cmp::Reverse(call.depth));
            // Of code that is damaged or shared, one call of each depth.
            calls.dedup_by_key(|call| call.depth);
        }
        calls
    }
}
