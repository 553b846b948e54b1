//! Conditions under which a jump leaves its function, which the program of a probe tests.

/// Number of words in the constants of a guard, as in `probe/kernel/uprobe.bpf.c`.
pub(crate) const WORDS: usize = 5 + 2 * RANGES_MAX;
/// The most ranges with which a target is compared.
pub(crate) const RANGES_MAX: usize = 4;

/// The condition under which a jump leaves its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A conditional jump is taken. Its condition is given by the lowest 4 bits of the instruction's code.
    Condition(u8),
    /// The target of the jump is in none of these ranges.
    Target {
        /// The place that holds the target's address.
        target: JumpTarget,
        /// Ranges of the function and its parts, relative to the jump \[byte\].
        ranges: Vec<(i64, i64)>,
    },
}

impl Guard {
    /// Returns whether the condition depends on memory of the process, whose page may have to be fetched.
    pub(crate) fn reads_memory(&self) -> bool {
        matches!(self, Guard::Target { target: JumpTarget::Memory { .. }, .. })
    }
}

/// The place that holds the target of an indirect jump. Registers are offsets in `struct pt_regs` \[byte\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpTarget {
    /// A register holds the target.
    Register(u16),
    /// Memory at the sum of registers and a displacement holds the target.
    Memory {
        /// The base register.
        base: Option<u16>,
        /// The index register, and its factor.
        index: Option<(u16, u8)>,
        /// The displacement \[byte\].
        addend: i64,
    },
}

/// Encodes the guard as constants of the program. With `None`, each hit is recorded.
pub(crate) fn words(guard: Option<&Guard>) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let none = u64::from(strata_abi::kernel::NO_REGISTER);
    let (first, ranges): ([u64; 5], &[(i64, i64)]) = match guard {
        None => ([0; 5], &[]),
        Some(Guard::Condition(code)) => ([1, u64::from(*code), 0, 0, 0], &[]),
        Some(Guard::Target { target: JumpTarget::Register(register), ranges }) => {
            ([2, u64::from(*register), 0, 0, 0], ranges)
        }
        Some(Guard::Target { target: JumpTarget::Memory { base, index, addend }, ranges }) => {
            let (index, scale) = index.unwrap_or_default();
            let base = base.map_or(none, u64::from);
            ([3, base, index.into(), scale.into(), *addend as u64], ranges)
        }
    };
    let ranges =
        ranges.iter().take(RANGES_MAX).flat_map(|(begin, end)| [*begin as u64, *end as u64]);
    for (to, from) in words.iter_mut().zip(first.into_iter().chain(ranges)) {
        *to = from;
    }
    words
}
