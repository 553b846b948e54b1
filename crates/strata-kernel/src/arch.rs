//! What differs between the machines of the kernel layer: one file for each, with the same members.
//!
//! Nothing else of this crate knows a machine by its name; `probe/kernel/arch` is the same for the programs in the
//! kernel. docs/design/machines.md has what a new one takes.

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
