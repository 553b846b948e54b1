//! AArch64, and its 32-bit programs: AArch32 with the EABI.
//!
//! Calls, arguments and values that are not listed here are those of x86-64. Some flags of open() have other
//! values, some names do not exist (`None`), and `struct stat` has other offsets. There is no second name for a
//! part of a register but `w0` for the lower half of `x0`. Where a function is left, its return address is in the
//! link register and not on the stack (`decide::uprobe::register`).
//!
//! The numbers of 32-bit calls are in `aarch64/arm.txt`. Everything here can be tested on x86-64;
//! `tests/vm/arm64` runs it on a kernel.

use super::machine::{Instructions, Machine};
use super::registers::{Register, Registers};
use crate::discover::syscalls::member::{number, KernelMember, MODE};
use crate::discover::syscalls::number::{LONG, UNSIGNED, UNSIGNED_LONG};

pub(crate) const MACHINE: Machine = Machine {
    name: "aarch64",
    elf: object::elf::EM_AARCH64,
    calls: strata_model::syscalls::AARCH64,
    compat_calls: include_str!("aarch64/arm.txt"),
    interfaces: &["aarch64", "arm"],
    values: &[
        ("O_DIRECTORY", Some(0x4000)),
        ("O_NOFOLLOW", Some(0x8000)),
        ("O_DIRECT", Some(0x10000)),
        ("O_LARGEFILE", Some(0x20000)),
        ("O_TMPFILE", Some(0x40_4000)),
        ("MAP_32BIT", None),
        ("MAP_ABOVE4G", None),
    ],
    stat: &STAT,
    compat_stat64: &COMPAT_STAT64,
    is_epoll_packed: false,
    shows_results: false,
    o_directory: 0o40_000,
    instructions: Instructions::A64,
    registers: &REGISTERS,
    library_flags: 0x0a00,
    library_folders: ["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"],
};

const STAT: [KernelMember; 6] = [
    number("_ino", 8, UNSIGNED_LONG),
    number("_mode", 16, MODE),
    number("_uid", 24, UNSIGNED),
    number("_gid", 28, UNSIGNED),
    number("_size", 48, LONG),
    number("_mtime_sec", 88, LONG),
];

const COMPAT_STAT64: [KernelMember; 6] = [
    number("_ino", 96, UNSIGNED_LONG),
    number("_mode", 16, MODE),
    number("_uid", 24, UNSIGNED),
    number("_gid", 28, UNSIGNED),
    number("_size", 48, LONG),
    number("_mtime_sec", 80, UNSIGNED),
];

/// The registers in `struct pt_regs`, which begins with x0 to x30, each of 8 bytes; `sp`, `pc` and `pstate` follow.
const REGISTERS: Registers = Registers {
    ip: PC,
    sp: SP,
    link: Some(30 * 8),
    results: [0, 8],
    arguments: &[0, 8, 16, 24, 32, 40, 48, 56],
    go: &[0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120],
    find,
};

const SP: u16 = 31 * 8;
const PC: u16 = 32 * 8;

/// All registers by number: the name of the whole register (8 bytes), and that of its lowest 4 bytes.
const ALL_REGISTERS: [[&str; 2]; 33] = [
    ["x0", "w0"],
    ["x1", "w1"],
    ["x2", "w2"],
    ["x3", "w3"],
    ["x4", "w4"],
    ["x5", "w5"],
    ["x6", "w6"],
    ["x7", "w7"],
    ["x8", "w8"],
    ["x9", "w9"],
    ["x10", "w10"],
    ["x11", "w11"],
    ["x12", "w12"],
    ["x13", "w13"],
    ["x14", "w14"],
    ["x15", "w15"],
    ["x16", "w16"],
    ["x17", "w17"],
    ["x18", "w18"],
    ["x19", "w19"],
    ["x20", "w20"],
    ["x21", "w21"],
    ["x22", "w22"],
    ["x23", "w23"],
    ["x24", "w24"],
    ["x25", "w25"],
    ["x26", "w26"],
    ["x27", "w27"],
    ["x28", "w28"],
    ["x29", "w29"],
    ["x30", "w30"],
    ["sp", "wsp"],
    ["pc", ""],
];

fn find(name: &str) -> Option<Register> {
    let name = match name {
        "" => return None,
        "fp" => "x29",
        "lr" => "x30",
        same => same,
    };
    ALL_REGISTERS.iter().zip(0u16..).find_map(|(names, number)| {
        let index = names.iter().position(|known| *known == name)?;
        Some(Register { name: names.get(index)?, offset: number * 8, bytes: [8, 4][index] })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_of_every_name_gives_its_place_and_size() {
        for (name, offset, bytes) in [
            ("x0", 0, 8),
            ("w0", 0, 4),
            ("x29", 232, 8),
            ("lr", 240, 8),
            ("sp", 248, 8),
            ("pc", 256, 8),
        ] {
            let found = find(name).unwrap();
            assert_eq!((found.offset, found.bytes), (offset, bytes), "{name}");
        }
        for name in ["", "x31", "q0", "rax"] {
            assert_eq!(find(name), None, "{name}");
        }
        assert_eq!(REGISTERS.link, find("lr").map(|found| found.offset));
        assert_eq!((REGISTERS.ip, REGISTERS.sp), (256, 248));
    }
}
