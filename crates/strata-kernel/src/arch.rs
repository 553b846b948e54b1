//! What differs between the machines of the kernel layer: one file for each, with the same members.
//!
//! ```text
//! machine.rs      Machine: what there is to know of a machine, as data
//! registers.rs    where the kernel saves the registers of a program, and which of them hold arguments and results
//! x86_64.rs       the machine whose tables of calls, arguments and values are whole
//! aarch64.rs      the numbers of its calls, and the values that differ from x86-64's
//! ```
//!
//! Nothing else of this crate knows a machine by its name; `probe/kernel/arch` is the same for the programs in the
//! kernel. Which machine is recorded is decided when this is compiled ([`here`]), but the tables of all machines are there and
//! are tested on each of them. docs/design/machines.md has what a new one takes.

mod aarch64;
mod machine;
pub(crate) mod registers;
mod x86_64;

pub(crate) use machine::{Instructions, Machine};

/// The machine whose tables name all arguments and values; those of others have what is different.
pub(crate) const X86_64: &Machine = &x86_64::MACHINE;

/// All machines.
pub(crate) const ALL: [&Machine; 2] = [X86_64, &aarch64::MACHINE];

/// Returns the machine that this is built for; `None` if no kernel events can be recorded there.
pub(crate) fn here() -> Option<&'static Machine> {
    ALL.into_iter().find(|machine| machine.name == std::env::consts::ARCH)
}

/// Returns [`here`], or where there is none any machine, whose facts are then not used.
pub(crate) fn here_or_any() -> &'static Machine {
    here().unwrap_or(X86_64)
}
