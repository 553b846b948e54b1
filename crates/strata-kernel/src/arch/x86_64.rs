//! x86-64, and its 32-bit programs: i386.
//!
//! Every name of a value and every argument in the tables is this machine's; other machines list only what
//! differs. Offsets are those of `struct stat` in memory and of `struct pt_regs` as the kernel saves it. A
//! register has a name for each of its widths, since USDT probes and the arguments of `--probe` name parts of
//! registers, such as `%edi` or `%al`.
//!
//! The numbers of 32-bit calls are in `x86_64/i386.txt`. Programs with the x32 interface run on the same kernels:
//! their calls have a bit of their own in the number (`strata_model::syscalls`).

use super::machine::{Instructions, Machine};
use super::registers::{Register, Registers};
use crate::discover::syscalls::member::{number, KernelMember, MODE};
use crate::discover::syscalls::number::{LONG, UNSIGNED, UNSIGNED_LONG};

pub(crate) const MACHINE: Machine = Machine {
    name: "x86_64",
    elf: object::elf::EM_X86_64,
    calls: strata_model::syscalls::X86_64,
    compat_calls: include_str!("x86_64/i386.txt"),
    interfaces: &["x86_64", "i386", "x32"],
    values: &[],
    stat: &STAT,
    compat_stat64: &COMPAT_STAT64,
    is_epoll_packed: true,
    shows_results: true,
    o_directory: 0o200_000,
    instructions: Instructions::X86,
    registers: &REGISTERS,
    library_flags: 0x0300,
    library_folders: ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"],
};

const STAT: [KernelMember; 6] = [
    number("_ino", 8, UNSIGNED_LONG),
    number("_mode", 24, MODE),
    number("_uid", 28, UNSIGNED),
    number("_gid", 32, UNSIGNED),
    number("_size", 48, LONG),
    number("_mtime_sec", 88, LONG),
];

const COMPAT_STAT64: [KernelMember; 6] = [
    number("_ino", 88, UNSIGNED_LONG),
    number("_mode", 16, MODE),
    number("_uid", 24, UNSIGNED),
    number("_gid", 28, UNSIGNED),
    number("_size", 44, LONG),
    number("_mtime_sec", 72, UNSIGNED),
];

const REGISTERS: Registers = Registers {
    ip: RIP,
    sp: RSP,
    link: None,
    // rax, rdx
    results: [80, 96],
    // System V: rdi, rsi, rdx, rcx, r8, r9
    arguments: &[112, 104, 96, 88, 72, 64],
    // rax, rbx, rcx, rdi, rsi, r8, r9, r10, r11
    go: &[80, 40, 88, 112, 104, 72, 64, 56, 48],
    find,
};

const RIP: u16 = 128;
const RSP: u16 = 152;

/// All registers: the offset in `struct pt_regs`, then the names for the lowest 8, 4, 2 and 1 bytes, and for the
/// second byte.
const ALL_REGISTERS: [(u16, [&str; 5]); 17] = [
    (80, ["rax", "eax", "ax", "al", "ah"]),
    (40, ["rbx", "ebx", "bx", "bl", "bh"]),
    (88, ["rcx", "ecx", "cx", "cl", "ch"]),
    (96, ["rdx", "edx", "dx", "dl", "dh"]),
    (104, ["rsi", "esi", "si", "sil", ""]),
    (112, ["rdi", "edi", "di", "dil", ""]),
    (32, ["rbp", "ebp", "bp", "bpl", ""]),
    (RSP, ["rsp", "esp", "sp", "spl", ""]),
    (72, ["r8", "r8d", "r8w", "r8b", ""]),
    (64, ["r9", "r9d", "r9w", "r9b", ""]),
    (56, ["r10", "r10d", "r10w", "r10b", ""]),
    (48, ["r11", "r11d", "r11w", "r11b", ""]),
    (24, ["r12", "r12d", "r12w", "r12b", ""]),
    (16, ["r13", "r13d", "r13w", "r13b", ""]),
    (8, ["r14", "r14d", "r14w", "r14b", ""]),
    (0, ["r15", "r15d", "r15w", "r15b", ""]),
    (RIP, ["rip", "eip", "", "", ""]),
];

fn find(name: &str) -> Option<Register> {
    const BYTES: [u8; 5] = [8, 4, 2, 1, 1];
    if name.is_empty() {
        return None;
    }
    ALL_REGISTERS.iter().find_map(|(offset, names)| {
        let index = names.iter().position(|known| *known == name)?;
        let offset = if index == 4 { offset + 1 } else { *offset };
        Some(Register { name: names.get(index)?, offset, bytes: *BYTES.get(index)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The C library has the kernel's structure for ptrace.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn find_of_every_name_gives_the_place_in_the_kernels_structure() {
        use libc::user_regs_struct as regs;
        let whole = [
            ("rax", offset_of!(regs, rax)),
            ("rbx", offset_of!(regs, rbx)),
            ("rcx", offset_of!(regs, rcx)),
            ("rdx", offset_of!(regs, rdx)),
            ("rsi", offset_of!(regs, rsi)),
            ("rdi", offset_of!(regs, rdi)),
            ("rbp", offset_of!(regs, rbp)),
            ("rsp", offset_of!(regs, rsp)),
            ("r8", offset_of!(regs, r8)),
            ("r9", offset_of!(regs, r9)),
            ("r10", offset_of!(regs, r10)),
            ("r11", offset_of!(regs, r11)),
            ("r12", offset_of!(regs, r12)),
            ("r13", offset_of!(regs, r13)),
            ("r14", offset_of!(regs, r14)),
            ("r15", offset_of!(regs, r15)),
            ("rip", offset_of!(regs, rip)),
        ];
        for (name, offset) in whole {
            let found = find(name).unwrap();
            assert_eq!((usize::from(found.offset), found.bytes), (offset, 8), "{name}");
        }
        let arguments =
            ["rdi", "rsi", "rdx", "rcx", "r8", "r9"].map(|name| find(name).unwrap().offset);
        assert_eq!(arguments, REGISTERS.arguments);
        let go = ["rax", "rbx", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r11"]
            .map(|name| find(name).unwrap().offset);
        assert_eq!(go, REGISTERS.go);
        let results = ["rax", "rdx"].map(|name| find(name).unwrap().offset);
        assert_eq!(results, REGISTERS.results);
        assert_eq!(find("ah").unwrap(), Register { name: "ah", offset: 81, bytes: 1 });
        assert_eq!(find("r8w").unwrap(), Register { name: "r8w", offset: 72, bytes: 2 });
        assert_eq!(find("sil").unwrap(), Register { name: "sil", offset: 104, bytes: 1 });
        assert_eq!(find(""), None);
        assert_eq!(find("xmm0"), None);
    }
}
