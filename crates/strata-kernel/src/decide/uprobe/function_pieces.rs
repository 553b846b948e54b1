//! What finding the exits of a function needs on every machine: the pieces of its code, and what may be wrong with them.
//!
//! A function begins as one range of addresses. Jumps lead to more, such as the rarely executed part that a compiler has put
//! elsewhere (`f.cold`); [`Pieces::add`] takes them in, within bounds. Which instruction jumps where, and what is on the stack then,
//! is the machine's: `exits` reads x86-64, `a64_exits` AArch64.

use crate::decide::jump_guard::{Guard, RANGES_MAX};
use crate::discover::code_map::CodeMap;
use std::ops::Range;
use thiserror::Error;

/// Size of the largest function that is examined \[byte\].
pub(crate) const BYTES_MAX: u64 = 1 << 20;

/// The exits of a function. Addresses are those in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exits {
    /// Addresses of return instructions.
    pub(crate) returns: Vec<u64>,
    /// Jumps to other functions that are always taken.
    pub(crate) tail_calls: Vec<u64>,
    /// Jumps that leave the function under a condition, each with its condition.
    pub(crate) guarded: Vec<(u64, Guard)>,
}

/// The reason why not all exits of a function are known. Its message follows the text "its returns cannot be probed:
/// ".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExitProblem {
    #[error("the file does not say where it ends")]
    /// Neither symbols nor tables show where the function ends.
    NoEnd,
    /// The function has too much code.
    #[error("it has {bytes} bytes, limit {limit}")]
    Large {
        /// The function's size \[byte\].
        bytes: u64,
        /// The greatest possible size \[byte\].
        limit: u64,
    },
    /// The bytes at this offset in the function \[byte\] are no valid instruction.
    #[error("at +{0:#x} is no instruction of a program; perhaps there are data in its code")]
    Data(u64),
    /// The function does not end in a jump, call or return.
    #[error("it goes on into the code behind it")]
    RunsOn,
    /// Another function begins within the function's code.
    #[error("another function, '{name}', begins within it, whose returns would be taken for its")]
    Shared {
        /// The other function's name.
        name: String,
    },
    /// The function never returns, so there is nothing to probe.
    #[error("it has no instruction that returns")]
    Never,
    /// It is not known whether the target of a jump belongs to the function or is another one (a tail call).
    #[error(
        "its jump at +{at:#x} leads to {to:#x}, and the file does not say whether that is a part of it or another function"
    )]
    Unclear {
        /// The instruction's offset in the function \[byte\].
        at: u64,
        /// The target address of the jump.
        to: u64,
    },
    /// At this offset in the function \[byte\], an exit takes another address from the stack than the caller's.
    #[error("its exit at +{0:#x} takes another address from the stack than that of its caller")]
    Stack(u64),
    /// The functions of the file that were examined so far have too much code in total.
    #[error("the functions that were looked at in this file have more than {} MiB of code", crate::discover::code_map::BUDGET >> 20)]
    Budget,
    /// At this offset in the function \[byte\], an exit has a prefix that the kernel cannot probe.
    #[error("its exit at +{0:#x} is an instruction that the kernel cannot probe")]
    Prefix(u64),
    /// The function has too many pieces.
    #[error("it is in more than {RANGES_MAX} pieces")]
    Pieces,
}

/// The target of a direct jump out of the known pieces.
pub(crate) enum Destination {
    /// A piece of the function.
    Piece(Range<u64>),
    /// The begin of another function.
    Other,
    /// Code that never returns.
    End,
}

/// The ranges of a function's code.
pub(crate) struct Pieces<'m, 'data> {
    pub(crate) map: &'m CodeMap<'data>,
    /// Address of the function's first instruction.
    pub(crate) start: u64,
    /// The ranges that are known so far, the main one first.
    pub(crate) ranges: Vec<Range<u64>>,
    /// True if the function may have code that was not found.
    pub(crate) is_partial: bool,
}

impl<'m, 'data> Pieces<'m, 'data> {
    /// Creates an empty list of pieces for the function that begins at `start`.
    pub(crate) fn new(map: &'m CodeMap<'data>, start: u64) -> Pieces<'m, 'data> {
        Pieces { map, start, ranges: vec![], is_partial: map.go().is_some() }
    }

    /// Returns the range of the whole function, in which no other function begins.
    ///
    /// # Errors
    /// [`ExitProblem::NoEnd`], [`ExitProblem::Shared`].
    pub(crate) fn whole(&self) -> Result<Range<u64>, ExitProblem> {
        let whole = self.map.extent(self.start).ok_or(ExitProblem::NoEnd)?;
        match self.map.beginning_within(&whole) {
            Some(other) => {
                let name = String::from_utf8_lossy(other.name).into_owned();
                Err(ExitProblem::Shared { name })
            }
            None => Ok(whole),
        }
    }

    /// Adds a range of the function's code.
    ///
    /// # Errors
    /// The function, or all functions of the file that were examined, are too large.
    pub(crate) fn add(&mut self, piece: Range<u64>) -> Result<(), ExitProblem> {
        let length = |one: &Range<u64>| one.end.saturating_sub(one.start);
        let all = self.ranges.iter().chain([&piece]);
        let bytes = all.fold(0u64, |sum, one| sum.saturating_add(length(one)));
        if bytes > BYTES_MAX {
            return Err(ExitProblem::Large { bytes, limit: BYTES_MAX });
        }
        if !self.map.take_budget(length(&piece)) {
            return Err(ExitProblem::Budget);
        }
        if self.ranges.len() == RANGES_MAX {
            return Err(ExitProblem::Pieces);
        }
        self.is_partial |= self.map.frame_of(piece.start).is_some_and(|frame| frame.has_handlers);
        self.ranges.push(piece);
        Ok(())
    }

    /// Returns an address as messages show it: relative to the function's begin.
    pub(crate) fn place(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start)
    }

    /// Returns the known range that contains the address.
    pub(crate) fn containing(&self, address: u64) -> Option<&Range<u64>> {
        self.ranges.iter().find(|piece| piece.contains(&address))
    }

    /// Returns the ranges relative to the instruction at `at`, as a [`Guard`] has them.
    pub(crate) fn relative_to(&self, at: u64) -> Vec<(i64, i64)> {
        let relative = |address: u64| address.wrapping_sub(at) as i64;
        self.ranges.iter().map(|one| (relative(one.start), relative(one.end))).collect()
    }
}

impl Exits {
    /// Returns the exits. It is an error if there are none.
    ///
    /// # Errors
    /// [`ExitProblem::Never`].
    pub(crate) fn checked(self) -> Result<Exits, ExitProblem> {
        let is_empty =
            self.returns.is_empty() && self.tail_calls.is_empty() && self.guarded.is_empty();
        if is_empty {
            Err(ExitProblem::Never)
        } else {
            Ok(self)
        }
    }
}
