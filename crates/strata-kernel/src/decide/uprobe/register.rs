//! Registers of a program, and where `struct pt_regs` has them.

use crate::arch;
pub use crate::arch::registers::Register;
use crate::arch::registers::Registers;
use strata_abi::kernel::{Part, MEMORY, REGISTER};

/// Returns the registers of the processor on which this program runs.
pub(crate) fn here() -> &'static Registers {
    arch::here_or_any().registers
}

/// Returns the part of a record for a function's return address, read at the moment when the function returns.
pub(crate) fn return_address() -> Part {
    let part = |kind, offset| Part { kind, offset, bytes: 8, ..Part::default() };
    here().link.map_or_else(|| part(MEMORY, here().sp), |link| part(REGISTER, link))
}

/// Returns whether the part reads the word on top of the stack.
pub(crate) fn is_stack_top(part: &Part) -> bool {
    (part.kind, part.offset, part.addend, part.scale) == (MEMORY, here().sp, 0, 0)
}

/// Returns the register with this name.
pub fn find(name: &str) -> Option<Register> {
    (here().find)(name)
}
