//! The system calls of 64-bit programs.

use super::call::{Argument, Syscall};
use super::values::labels;
use super::{argument_meaning, number, table_parser};
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
pub(super) const TABLE: &str = strata_model::syscalls::X86_64;
#[cfg(not(target_arch = "x86_64"))]
pub(super) const TABLE: &str = "";

/// Returns all system calls of this architecture, by number.
pub fn table() -> &'static [Syscall] {
    static ALL: OnceLock<Vec<Syscall>> = OnceLock::new();
    ALL.get_or_init(|| {
        table_parser::lines(TABLE).filter_map(|(_, line)| line).map(syscall).collect()
    })
}

fn syscall(line: table_parser::SyscallLine) -> Syscall {
    let argument = |(c_type, name)| {
        let (labels, flags) = labels(line.name, name);
        let meaning = argument_meaning::of(line.name, name, c_type);
        Argument { name, c_type, meaning, labels, flags, pointer: number::POINTER }
    };
    let args = line.args.iter().copied().map(argument).collect();
    let table_parser::SyscallLine { number, name, kernel_name, .. } = line;
    Syscall { number, name, kernel_name, args, is_compat: false }
}
