//! The system calls of 64-bit programs.

use super::call::{Argument, Syscall};
use super::table_parser::CallLine;
use super::values::labels;
use super::{argument_meaning, number, table_parser};
use crate::arch::{self, Machine};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Returns all system calls of this machine, by number; empty on machines whose kernel events cannot be recorded.
pub fn table() -> &'static [Syscall] {
    static ALL: OnceLock<Vec<Syscall>> = OnceLock::new();
    ALL.get_or_init(|| arch::here().map(table_of).unwrap_or_default())
}

/// Returns all system calls of a machine, by number.
pub(super) fn table_of(machine: &'static Machine) -> Vec<Syscall> {
    let known: HashMap<&str, table_parser::SyscallLine> =
        table_parser::lines(strata_model::syscalls::X86_64)
            .filter_map(|(_, line)| line)
            .map(|line| (line.name, line))
            .collect();
    let lines = table_parser::own_or_named(machine.calls).filter_map(|(_, line)| line);
    let whole = lines.filter_map(|line| match line {
        CallLine::Own(line) => Some(line),
        CallLine::As { number, name, call } => {
            let table_parser::SyscallLine { kernel_name, args, .. } = known.get(call)?;
            let args = args.clone();
            Some(table_parser::SyscallLine { number, name, kernel_name, args })
        }
    });
    whole.map(|line| syscall(line, machine)).collect()
}

fn syscall(line: table_parser::SyscallLine, machine: &'static Machine) -> Syscall {
    let argument = |(c_type, name)| {
        let (labels, flags) = labels(machine, line.name, name);
        let meaning = argument_meaning::of(line.name, name, c_type).on(machine);
        Argument { name, c_type, meaning, labels, flags, pointer: number::POINTER }
    };
    let args = line.args.iter().copied().map(argument).collect();
    let table_parser::SyscallLine { number, name, kernel_name, .. } = line;
    Syscall { number, name, kernel_name, args, is_compat: false }
}
