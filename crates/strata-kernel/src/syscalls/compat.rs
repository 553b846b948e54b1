//! The system calls of 32-bit programs, with numbers and a few arguments of their own.

use super::call::{Argument, Syscall, PREFIX};
use super::values::labels;
use super::{meaning, number, text};
use std::path::Path;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("i386.txt");
#[cfg(not(target_arch = "x86_64"))]
const TABLE: &str = "";

/// From here on times have 64 bits everywhere.
const FIRST_WITH_LONG_TIMES: u32 = 403;

/// All of them, by number. Their names are those of `asm/unistd_32.h`.
pub fn table() -> &'static [Syscall] {
    static ALL: OnceLock<Vec<Syscall>> = OnceLock::new();
    ALL.get_or_init(|| lines().filter_map(|(_, line)| syscall(line?)).collect())
}

/// Whether this kernel runs 32-bit programs (CONFIG_IA32_EMULATION), or may: in a container it may not be told.
pub fn are_there() -> bool {
    are_there_by(Path::new("/proc/sys"))
}

/// Such a kernel has `abi/vsyscall32`, another one not even the folder; over either may be mounted what is empty.
pub(super) fn are_there_by(settings: &Path) -> bool {
    settings.join("abi").exists() || !settings.join("kernel").exists()
}

/// The system call whose events have this name: "compat_openat".
pub fn find(name: &str) -> Option<&'static Syscall> {
    let name = name.strip_prefix(PREFIX)?;
    table().iter().find(|syscall| syscall.name == name)
}

/// A line, and where its arguments are: in it, or at a call of the other table.
#[derive(Debug)]
pub(super) enum CompatLine {
    Own(text::SyscallLine),
    As { number: u32, name: &'static str, call: &'static str },
}

/// All lines but comments and blank ones; `None` where one is not as it should be.
pub(super) fn lines() -> impl Iterator<Item = (&'static str, Option<CompatLine>)> {
    TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| (line, parse(line)))
}

fn parse(line: &'static str) -> Option<CompatLine> {
    if line.contains('(') {
        return text::parse_line(line).map(CompatLine::Own);
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
            meaning: meaning::of(call, name, c_type).compat(other, number >= FIRST_WITH_LONG_TIMES),
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
