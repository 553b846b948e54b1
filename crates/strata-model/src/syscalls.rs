//! Names of system calls by their numbers, for each architecture with a table.
//!
//! ```text
//! syscalls/x86_64.txt, aarch64.txt, x32.txt ── one line a call: NUMBER NAME[=KERNEL'S NAME](ARGUMENTS)
//! Architecture::from_machine("x86_64") ── name_of(number) ── "openat", or "syscall_N" if the table has no such number
//! ```
//!
//! Traces of tracers that record only numbers (ftrace, LTTng's `syscall_entry_unknown`) get names by this. The table
//! of x86-64 has the arguments too, and is the one from which the recorder makes its events. `arguments` finds which
//! fields of an entry belong to which argument.
//!
//! The tables are part of the program, since a trace may be of another machine and a newer kernel than the reader's.
//! Numbers beyond [`NUMBERS`] are no system calls of any kernel.
//!
//! A table is parsed when it is first asked for, once, and then shared by all threads. Number 257 of x86-64 is
//! `openat`, and 56 of AArch64 as well. To take in a newer kernel, add lines to the tables.
//!
//! ```text
//! name_of(Some(X86_64), 257, true)      Some("openat")
//! name_of(Some(X86_64), 4000, true)     Some("syscall_4000"): a number that no table has
//! name_of(Some(X86_64), 1 << 40, true)  None: no kernel has such a number
//! ```

mod arguments;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

pub use arguments::{arguments, ArgumentFields, ArgumentKind};

/// Table of x86-64's system calls with their arguments; its first lines describe the format. The recorder parses it as
/// well.
pub const X86_64: &str = include_str!("syscalls/x86_64.txt");
/// Table of AArch64's system calls. The recorder parses it as well.
pub const AARCH64: &str = include_str!("syscalls/aarch64.txt");

/// The range of numbers that may be system calls, far more than exist.
pub const NUMBERS: Range<i64> = 0..4096;
/// Bit in the number of a system call of an x86-64 kernel that marks x32 programs: 64-bit code with 32-bit addresses.
const X32_BIT: i64 = 0x4000_0000;
/// Table of the system calls that only x32 has. `X32_FROM` is the first of their numbers.
const X32: &str = include_str!("syscalls/x32.txt");
const X32_FROM: i64 = 512;
/// Number at the end of a system call from which a signal handler returned: the kernel no longer knows the number.
const NONE: i64 = -1;
const WITHOUT_NUMBER: &str = "rt_sigreturn";

/// A processor architecture, which determines the numbers of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    /// Finds an architecture by the name that `uname -m` prints; `None` if there is no table for this name.
    #[must_use]
    pub fn from_machine(name: &str) -> Option<Architecture> {
        match name {
            "x86_64" => Some(Architecture::X86_64),
            "aarch64" | "aarch64_be" => Some(Architecture::Aarch64),
            _ => None,
        }
    }

    /// Returns the name of a system call, as unistd.h and strace have it, for programs of the kernel's own word size.
    fn syscall(self, number: i64) -> Option<&'static str> {
        static ALL: [OnceLock<Vec<&'static str>>; 2] = [OnceLock::new(), OnceLock::new()];
        let names = match self {
            Architecture::X86_64 => ALL[0].get_or_init(|| by_number(X86_64)),
            Architecture::Aarch64 => ALL[1].get_or_init(|| by_number(AARCH64)),
        };
        find(names, number)
    }

    /// Returns the name of a system call, also if a bit of the number says that an x32 program made it.
    fn named(self, number: i64) -> Option<&'static str> {
        if self != Architecture::X86_64 || number & X32_BIT == 0 {
            return self.syscall(number);
        }
        static OWN: OnceLock<Vec<&'static str>> = OnceLock::new();
        match number & !X32_BIT {
            number if number < X32_FROM => self.syscall(number),
            number => find(OWN.get_or_init(|| by_number(X32)), number),
        }
    }
}

fn find(names: &[&'static str], number: i64) -> Option<&'static str> {
    let name = names.get(usize::try_from(number).ok()?)?;
    Some(*name).filter(|name| !name.is_empty())
}

/// Returns the name of a system call from its number: `syscall_N` if the architecture is unknown or has no such number.
/// `begins` is true for a record of the call's begin. Returns `None` if no kernel uses such a number.
#[must_use]
pub fn name_of(
    architecture: Option<Architecture>,
    number: i64,
    begins: bool,
) -> Option<Cow<'static, str>> {
    if number == NONE && !begins {
        return architecture.map(|_| WITHOUT_NUMBER.into());
    }
    let name = architecture.and_then(|it| it.named(number));
    name.map(Cow::from)
        .or_else(|| NUMBERS.contains(&number).then(|| format!("syscall_{number}").into()))
}

/// Parses a table with lines such as `0 read(ARGUMENTS)`, `4 stat=newstat(ARGUMENTS)` and `63 read`.
fn by_number(text: &'static str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((number, rest)) = line.split_once(' ') else { continue };
        let Ok(number) = number.parse::<u16>() else { continue };
        let number = usize::from(number);
        if names.len() <= number {
            names.resize(number + 1, "");
        }
        if let Some(name) = names.get_mut(number) {
            *name = rest.split(['=', '(']).next().unwrap_or_default();
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_a_system_call_is_another_call_on_another_machine() {
        let of = |machine, number| Architecture::from_machine(machine)?.syscall(number);
        for (number, name) in [(0, "read"), (4, "stat"), (257, "openat"), (435, "clone3")] {
            assert_eq!(of("x86_64", number), Some(name));
        }
        for (number, name) in [(0, "io_setup"), (63, "read"), (56, "openat"), (435, "clone3")] {
            assert_eq!(of("aarch64", number), Some(name));
        }
        for machine in ["", "i686", "s390x", "X86_64"] {
            assert_eq!(of(machine, 0), None, "{machine}");
        }
    }

    #[test]
    fn number_that_no_system_call_has_gives_no_name() {
        for (of, number) in [
            (Architecture::X86_64, 340),
            (Architecture::X86_64, 400),
            (Architecture::X86_64, -1),
            (Architecture::X86_64, i64::MAX),
            (Architecture::Aarch64, 250),
            (Architecture::Aarch64, 4095),
        ] {
            assert_eq!(of.syscall(number), None, "{of:?} {number}");
        }
    }

    #[test]
    fn call_by_its_number_has_a_name_or_its_number_and_what_is_no_call_has_none() {
        let (x86, arm) = (Some(Architecture::X86_64), Some(Architecture::Aarch64));
        for (of, number, begins, name) in [
            (x86, 0, true, Some("read")),
            (arm, 63, false, Some("read")),
            (None, 0, true, Some("syscall_0")),
            // clock_gettime64 of a 32-bit program.
            (x86, 403, true, Some("syscall_403")),
            (x86, 4095, true, Some("syscall_4095")),
            (x86, 4096, true, None),
            // x32: system calls that it shares with x86-64, and its own.
            (x86, 0x4000_0000, true, Some("read")),
            (x86, 0x4000_0000 + 39, false, Some("getpid")),
            (x86, 0x4000_0000 + 512, true, Some("rt_sigaction")),
            (x86, 0x4000_0000 + 520, true, Some("execve")),
            (x86, 0x4000_0000 + 545, true, Some("execveat")),
            (x86, 0x4000_0000 + 547, true, Some("pwritev2")),
            (x86, 0x4000_0000 + 548, true, None),
            (x86, 512, true, Some("syscall_512")),
            (arm, 0x4000_0000, true, None),
            (x86, 0xc000_0000, true, None),
            (None, 0x4000_0000, true, None),
            (x86, -1, false, Some("rt_sigreturn")),
            (x86, -1, true, None),
            (None, -1, false, None),
            (x86, i64::MIN, false, None),
            (x86, i64::MAX, true, None),
        ] {
            assert_eq!(name_of(of, number, begins).as_deref(), name, "{of:?} {number:#x}");
        }
    }

    #[test]
    fn every_line_of_the_tables_is_a_call_of_its_own() {
        for text in [X86_64, AARCH64, X32] {
            let is_call = |line: &&str| !line.is_empty() && !line.starts_with('#');
            let lines = text.lines().filter(is_call).count();
            let mut names = by_number(text);
            names.retain(|name| !name.is_empty());
            assert_eq!(names.len(), lines);
            let is_name = |name: &&str| {
                name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
            };
            assert!(names.iter().all(is_name));
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), lines, "each name once");
        }
    }
}
