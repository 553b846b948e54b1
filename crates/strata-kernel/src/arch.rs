//! Describes the machines (CPU architectures) whose kernels can be recorded: one file for each, with the same
//! members.
//!
//! ```text
//! machine.rs      Machine: what there is to know of a machine, as data
//! registers.rs    where the kernel saves the registers of a program, and which of them hold arguments and results
//! x86_64.rs       the machine whose tables of calls, arguments and values are whole
//! aarch64.rs      the numbers of its calls, and the values that differ from x86-64's
//! ```
//!
//! Nothing else of this crate knows a machine by its name; `probe/kernel/arch` is the same for the programs in
//! the kernel. The machine that is recorded is chosen when the crate is compiled ([`here`]). The tables of all
//! machines are compiled in, and each machine tests all of them, so that a mistake in a table for AArch64 is
//! found on x86-64.
//!
//! # A new machine
//! Add a file with a `MACHINE`, put it into [`ALL`], and the same below `probe/kernel/arch`. The tests compare
//! names of values and members of structures with the machine's C headers (`c_header_check`).
//! docs/design/machines.md lists the rest: decoders of instructions, packages, and what only a kernel of that
//! machine can show.

mod aarch64;
mod machine;
pub(crate) mod registers;
mod x86_64;

pub(crate) use machine::{Instructions, Machine};

/// The machine whose tables name all arguments and values. Tables of other machines only have the differences.
pub(crate) const X86_64: &Machine = &x86_64::MACHINE;

/// All machines whose kernel events can be recorded.
pub(crate) const ALL: [&Machine; 2] = [X86_64, &aarch64::MACHINE];

/// Returns the machine for which this program is built; `None` if no kernel events can be recorded there.
pub(crate) fn here() -> Option<&'static Machine> {
    ALL.into_iter().find(|machine| machine.name == std::env::consts::ARCH)
}

/// Returns the same as [`here`]. If kernel events cannot be recorded on this machine, returns any other one, whose
/// facts are then not used.
pub(crate) fn here_or_any() -> &'static Machine {
    here().unwrap_or(X86_64)
}
