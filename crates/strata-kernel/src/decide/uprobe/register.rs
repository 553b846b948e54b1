//! The registers of x86-64, and where `struct pt_regs` has them.

/// A register, or the lower part of one, in `struct pt_regs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The register's name, without `%`.
    pub name: &'static str,
    /// Offset in `struct pt_regs` \[byte\].
    pub offset: u16,
    /// The register's size \[byte\].
    pub bytes: u8,
}

/// Offset in `struct pt_regs` of the instruction pointer \[byte\].
pub const RIP: u16 = 128;
/// Offset in `struct pt_regs` of the stack pointer \[byte\].
pub const RSP: u16 = 152;
/// Offset in `struct pt_regs` of a function's result \[byte\].
pub const RAX: u16 = 80;
/// Offset in `struct pt_regs` of the second half of a result in two registers \[byte\].
pub const RDX: u16 = 96;
/// Offsets in `struct pt_regs` of a function's arguments by the System V ABI: rdi, rsi, rdx, rcx, r8, r9.
pub const ARGUMENTS: [u16; 6] = [112, 104, 96, 88, 72, 64];

/// Offsets in `struct pt_regs` of a function's arguments by Go's ABI from 1.17 on: rax, rbx, rcx, rdi, rsi, r8, r9,
/// r10, r11. Results are in the same registers.
pub const GO_ARGUMENTS: [u16; 9] = [80, 40, 88, 112, 104, 72, 64, 56, 48];

/// All registers: the offset, and names of the 8, 4, 2 and 1 lowest bytes, and of the second byte.
const ALL: [(u16, [&str; 5]); 17] = [
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

/// Returns the register with this name.
pub fn find(name: &str) -> Option<Register> {
    const BYTES: [u8; 5] = [8, 4, 2, 1, 1];
    if name.is_empty() {
        return None;
    }
    ALL.iter().find_map(|(offset, names)| {
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
        assert_eq!(arguments, ARGUMENTS);
        let go = ["rax", "rbx", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r11"]
            .map(|name| find(name).unwrap().offset);
        assert_eq!(go, GO_ARGUMENTS);
        assert_eq!(find("rax").unwrap().offset, RAX);
        assert_eq!(find("ah").unwrap(), Register { name: "ah", offset: RAX + 1, bytes: 1 });
        assert_eq!(find("r8w").unwrap(), Register { name: "r8w", offset: 72, bytes: 2 });
        assert_eq!(find("sil").unwrap(), Register { name: "sil", offset: 104, bytes: 1 });
        assert_eq!(find(""), None);
        assert_eq!(find("xmm0"), None);
    }
}
