//! A system call and its arguments.

use super::argument_meaning::Meaning;
use super::number::RegisterNumber;
use strata_abi::kernel;
use strata_model::{Field, Flags, Label};

/// Prefix of event names for system calls of 32-bit programs.
pub(super) const PREFIX: &str = "compat_";

/// A system call of the kernel's table.
#[derive(Clone, Debug, PartialEq)]
pub struct Syscall {
    pub number: u32,
    /// The name in `unistd.h` and strace: "openat", "newfstatat", "stat".
    pub name: &'static str,
    /// The kernel's own name, which differs for some calls: "newstat".
    pub kernel_name: &'static str,
    /// The arguments, six at most.
    pub args: Vec<Argument>,
    /// True if the call is one of 32-bit programs.
    pub is_compat: bool,
}

impl Syscall {
    /// Returns the call's index in the programs' table.
    pub fn place(&self) -> u32 {
        match self.is_compat {
            false => self.number,
            true => kernel::COMPAT + self.number,
        }
    }

    /// Returns the name in the call's events: "openat", "compat_openat".
    pub fn event_name(&self) -> String {
        match self.is_compat {
            false => self.name.to_owned(),
            true => format!("{}{}", PREFIX, self.name),
        }
    }
}

/// An argument of a system call.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The kernel's name of the argument.
    pub name: &'static str,
    /// The type in the kernel's declaration: "const char *".
    pub c_type: &'static str,
    pub(super) meaning: Meaning,
    pub(super) labels: &'static [Label],
    pub(super) flags: Option<Flags>,
    pub(super) pointer: RegisterNumber,
}

impl Argument {
    /// Returns how the argument is recorded at the entry, one of `strata_abi::kernel::ARG_*`.
    pub fn kind(&self) -> u8 {
        self.meaning.entry_kind(self.pointer)
    }

    /// Returns how the argument is recorded at the exit, which is mostly not at all (`ARG_NONE`).
    pub fn exit_kind(&self) -> u8 {
        self.meaning.exit_kind()
    }

    /// Returns the fields that are recorded for the argument at the entry.
    pub fn fields(&self) -> Vec<Field> {
        self.meaning.entry_fields(self.name, self.labels, self.flags, self.pointer)
    }

    /// Returns the fields that are recorded for the argument at the exit.
    pub fn exit_fields(&self) -> Vec<Field> {
        self.meaning.exit_fields(self.name)
    }
}
