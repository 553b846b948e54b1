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

/// The registers of a machine. Each register is given by its offset in `struct pt_regs` \[byte\].
#[derive(Debug)]
pub(crate) struct Registers {
    /// The instruction pointer.
    pub(crate) ip: u16,
    /// The stack pointer.
    pub(crate) sp: u16,
    /// The register with the return address when a function returns; `None` if that address is on top of the stack.
    pub(crate) link: Option<u16>,
    /// The register of a function's result, and that of the second half of a result in two registers.
    pub(crate) results: [u16; 2],
    /// The registers of a function's arguments in the machine's usual ABI.
    pub(crate) arguments: &'static [u16],
    /// The registers of a function's arguments, and of its results, in the ABI of Go 1.17 and later.
    pub(crate) go: &'static [u16],
    /// Function that finds a register by its name.
    pub(crate) find: fn(&str) -> Option<Register>,
}
