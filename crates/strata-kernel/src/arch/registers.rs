//! Registers of a program, and where `struct pt_regs` has them.

/// A register, or a part of one, in `struct pt_regs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The register's name, without `%`.
    pub name: &'static str,
    /// Offset in `struct pt_regs` \[byte\].
    pub offset: u16,
    /// The register's size \[byte\].
    pub bytes: u8,
}

/// The registers of a machine. Numbers are offsets in `struct pt_regs` \[byte\].
#[derive(Debug)]
pub(crate) struct Registers {
    /// The instruction pointer.
    pub(crate) ip: u16,
    /// The stack pointer.
    pub(crate) sp: u16,
    /// Where a function's return address is when it returns; `None`: on top of the stack.
    pub(crate) link: Option<u16>,
    /// A function's result, and the second half of a result in two registers.
    pub(crate) results: [u16; 2],
    /// A function's arguments by the machine's usual ABI.
    pub(crate) arguments: &'static [u16],
    /// A function's arguments, and its results, by Go's ABI from 1.17 on.
    pub(crate) go: &'static [u16],
    /// Finds a register by its name.
    pub(crate) find: fn(&str) -> Option<Register>,
}
