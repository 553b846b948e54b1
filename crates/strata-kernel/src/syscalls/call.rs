//! A system call and its arguments.

use super::meaning::Meaning;
use super::number::RegisterNumber;
use strata_abi::kernel;
use strata_model::{Field, Flags, Label};

/// In front of the names of a 32-bit program's events.
pub(super) const PREFIX: &str = "compat_";

/// A system call.
#[derive(Clone, Debug, PartialEq)]
pub struct Syscall {
    /// Its number.
    pub number: u32,
    /// The name that `unistd.h` and strace have: "openat", "newfstatat", "stat".
    pub name: &'static str,
    /// The kernel's own name, which differs for a few: "newstat".
    pub kernel_name: &'static str,
    /// At most six.
    pub args: Vec<Argument>,
    /// 32-bit programs make it.
    pub is_compat: bool,
}

impl Syscall {
    /// Its place in the programs' table.
    pub fn place(&self) -> u32 {
        match self.is_compat {
            false => self.number,
            true => kernel::COMPAT + self.number,
        }
    }

    /// The name of its event: "openat", "compat_openat".
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
    /// As the kernel names it.
    pub name: &'static str,
    /// As the kernel declares it: "const char *".
    pub c_type: &'static str,
    pub(super) meaning: Meaning,
    pub(super) labels: &'static [Label],
    pub(super) flags: Option<Flags>,
    pub(super) pointer: RegisterNumber,
}

impl Argument {
    /// How it is recorded at entry, one of `strata_abi::kernel::ARG_*`.
    pub fn kind(&self) -> u8 {
        self.meaning.entry_kind(self.pointer)
    }

    /// How it is recorded at exit, mostly not at all ([`ARG_NONE`]).
    pub fn exit_kind(&self) -> u8 {
        self.meaning.exit_kind()
    }

    /// What is written for it at entry.
    pub fn fields(&self) -> Vec<Field> {
        self.meaning.entry_fields(self.name, self.labels, self.flags, self.pointer)
    }

    /// What is written for it at exit.
    pub fn exit_fields(&self) -> Vec<Field> {
        self.meaning.exit_fields(self.name)
    }
}
