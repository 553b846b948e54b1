//! The system calls of 32-bit programs, with numbers and a few arguments of their own.

use super::call::{Argument, Syscall, PREFIX};
use super::table_parser::CallLine;
use super::values::labels;
use super::{argument_meaning, number, table_parser};
use crate::arch::{self, Machine};
use std::cell::OnceCell;
use std::path::Path;
use std::sync::OnceLock;

/// Number of the first system call whose times have 64 bits even in 32-bit programs.
const FIRST_WITH_LONG_TIMES: u32 = 403;

/// Returns all system calls of 32-bit programs, by number. Their names are those of `asm/unistd_32.h`.
pub fn table() -> &'static [Syscall] {
    static ALL: OnceLock<Vec<Syscall>> = OnceLock::new();
    ALL.get_or_init(|| arch::here().map(|here| table_of(here, super::table())).unwrap_or_default())
}

/// Returns all system calls of 32-bit programs on a machine, of which `calls` are those of 64-bit programs.
pub(super) fn table_of(machine: &'static Machine, calls: &[Syscall]) -> Vec<Syscall> {
    let lines = table_parser::own_or_named(machine.compat_calls);
    let known = |name: &str| calls.iter().find(|call| call.name == name).cloned();
    let of_x86 = OnceCell::new();
    // Calls that 64-bit programs of this machine do not have any more are described as those of another one.
    let any = |name: &str| {
        let all = || super::table::table_of(arch::X86_64);
        known(name)
            .or_else(|| of_x86.get_or_init(all).iter().find(|call| call.name == name).cloned())
    };
    lines.filter_map(|(_, line)| syscall(machine, line?, &any)).collect()
}

/// Returns whether this kernel runs 32-bit programs (CONFIG_IA32_EMULATION). Also true if that is not known, as in a
/// container that hides the setting.
pub fn are_there() -> bool {
    are_there_by(Path::new("/proc/sys"))
}

/// Returns whether the kernel may run 32-bit programs. Such kernels have `abi/vsyscall32` in `settings` (/proc/sys),
/// others not even its folder. An empty folder, which a container may have, also counts as yes.
pub(super) fn are_there_by(settings: &Path) -> bool {
    settings.join("abi").exists() || !settings.join("kernel").exists()
}

/// Returns the system call whose events have this name, such as "compat_openat".
pub fn find(name: &str) -> Option<&'static Syscall> {
    let name = name.strip_prefix(PREFIX)?;
    table().iter().find(|syscall| syscall.name == name)
}

fn syscall(
    machine: &'static Machine,
    line: CallLine,
    known: &dyn Fn(&str) -> Option<Syscall>,
) -> Option<Syscall> {
    // `other`: another name of the call. What its arguments point to may be another one's there.
    let of = |number, (call, other, name, c_type)| {
        let (labels, flags) = match labels(machine, call, name) {
            (&[], None) => labels(machine, other, name),
            known => known,
        };
        Argument {
            name,
            c_type,
            meaning: argument_meaning::of(call, name, c_type)
                .on(machine)
                .compat(other, number >= FIRST_WITH_LONG_TIMES),
            labels,
            flags,
            pointer: number::POINTER.narrow(),
        }
    };
    match line {
        CallLine::Own(line) => {
            // An argument means what it does there, if the kernel has another name for the call.
            let call = line.kernel_name.strip_prefix("ia32_").unwrap_or(line.kernel_name);
            let args = line
                .args
                .iter()
                .map(|(c_type, name)| of(line.number, (call, line.name, *name, *c_type)));
            let args = args.collect();
            let (name, kernel_name) = (line.name, line.kernel_name);
            Some(Syscall { number: line.number, name, kernel_name, args, is_compat: true })
        }
        CallLine::As { number, name, call } => {
            let other = known(call)?;
            let args = other.args.iter().map(|arg| of(number, (call, name, arg.name, arg.c_type)));
            let args = args.collect();
            Some(Syscall { number, name, kernel_name: other.kernel_name, args, is_compat: true })
        }
    }
}
