//! The system calls of 32-bit programs, with numbers and a few arguments of their own.

use super::call::{Argument, Syscall, PREFIX};
use super::values::labels;
use super::{argument_meaning, number, table_parser};
use std::path::Path;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("i386.txt");
#[cfg(not(target_arch = "x86_64"))]
const TABLE: &str = "";

/// Number of the first call whose times have 64 bits for all programs.
const FIRST_WITH_LONG_TIMES: u32 = 403;

/// Returns all system calls of 32-bit programs, by number. Their names are those of `asm/unistd_32.h`.
pub fn table() -> &'static [Syscall] {
    static ALL: OnceLock<Vec<Syscall>> = OnceLock::new();
    ALL.get_or_init(|| lines().filter_map(|(_, line)| syscall(line?)).collect())
}

/// Returns whether this kernel runs 32-bit programs (CONFIG_IA32_EMULATION). Also true if that is not known, since a
/// container may hide it.
pub fn are_there() -> bool {
    are_there_by(Path::new("/proc/sys"))
}

/// Returns whether the kernel may run 32-bit programs. Then it has `abi/vsyscall32` in /proc/sys; otherwise not even
/// the folder. In a container, an empty folder may be mounted over either.
pub(super) fn are_there_by(settings: &Path) -> bool {
    settings.join("abi").exists() || !settings.join("kernel").exists()
}

/// Returns the system call whose events have this name, such as "compat_openat".
pub fn find(name: &str) -> Option<&'static Syscall> {
    let name = name.strip_prefix(PREFIX)?;
    table().iter().find(|syscall| syscall.name == name)
}

/// A line of the table. Its arguments are in the line itself, or are those of a call in the other table.
#[derive(Debug)]
pub(super) enum CompatLine {
    Own(table_parser::SyscallLine),
    As { number: u32, name: &'static str, call: &'static str },
}

/// Parses all lines except comments and blank ones; `None` stands for a malformed line.
pub(super) fn lines() -> impl Iterator<Item = (&'static str, Option<CompatLine>)> {
    TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| (line, parse(line)))
}

fn parse(line: &'static str) -> Option<CompatLine> {
    if line.contains('(') {
        return table_parser::parse_line(line).map(CompatLine::Own);
    }
    let (number, names) = line.split_once(' ')?;
    let (name, call) = names.split_once('=').unwrap_or((names, names));
    Some(CompatLine::As { number: number.parse().ok()?, name, call })
}

fn syscall(line: CompatLine) -> Option<Syscall> {
    // `other`: another name of the call. What its arguments point to may be another one's there.
    let of = |number, (call, other, name, c_type)| {
        let (labels, flags) = match labels(call, name) {
            (&[], None) => labels(other, name),
            known => known,
        };
        Argument {
            name,
            c_type,
            meaning: argument_meaning::of(call, name, c_type)
                .compat(other, number >= FIRST_WITH_LONG_TIMES),
            labels,
            flags,
            pointer: number::POINTER.narrow(),
        }
    };
    match line {
        CompatLine::Own(line) => {
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
        CompatLine::As { number, name, call } => {
            let other = super::table::table().iter().find(|other| other.name == call)?;
            let args = other.args.iter().map(|arg| of(number, (call, name, arg.name, arg.c_type)));
            let args = args.collect();
            Some(Syscall { number, name, kernel_name: other.kernel_name, args, is_compat: true })
        }
    }
}
