//! Names of system calls by their numbers, of the architectures that number them.

use std::sync::OnceLock;

/// Those of x86-64, with their arguments; its head says how. What records them reads it, too.
pub const X86_64: &str = include_str!("syscalls/x86_64.txt");
/// Those of AArch64.
const AARCH64: &str = include_str!("syscalls/aarch64.txt");

/// What a machine runs on, and numbers its system calls by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Architecture {
    /// By the name that `uname -m` prints; `None`: no table is here of such a one, or there is none of this name.
    #[must_use]
    pub fn from_machine(name: &str) -> Option<Architecture> {
        match name {
            "x86_64" => Some(Architecture::X86_64),
            "aarch64" | "aarch64_be" => Some(Architecture::Aarch64),
            _ => None,
        }
    }

    /// The name of a system call, as unistd.h and strace have it; of a program that is as wide as the kernel.
    #[must_use]
    pub fn syscall(self, number: i64) -> Option<&'static str> {
        static ALL: [OnceLock<Vec<&'static str>>; 2] = [OnceLock::new(), OnceLock::new()];
        let names = match self {
            Architecture::X86_64 => ALL[0].get_or_init(|| by_number(X86_64)),
            Architecture::Aarch64 => ALL[1].get_or_init(|| by_number(AARCH64)),
        };
        let name = names.get(usize::try_from(number).ok()?)?;
        Some(*name).filter(|name| !name.is_empty())
    }
}

/// Lines `0 read(ARGUMENTS)`, `4 stat=newstat(ARGUMENTS)` and `63 read`.
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
    fn every_line_of_the_tables_is_a_call_of_its_own() {
        for text in [X86_64, AARCH64] {
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
