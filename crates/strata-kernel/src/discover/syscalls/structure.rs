//! Large structures that a call fills, of which only some members are recorded.
//!
//! The members' offsets are part of the kernel's interface, and never change. A test compares them with the C library's
//! headers where those have the kernel's structure.

use super::member::{number, text, KernelMember, MemberItem, MODE};
use super::number::{RegisterNumber, FLAGS, INT, LONG, UNSIGNED, UNSIGNED_LONG};
use crate::arch;
use strata_abi::kernel::{Layout, Piece, ARG_LAYOUT, LAYOUTS, PIECES_MAX, PIECE_MAX};

/// Structures that system calls fill and of which some members are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelStructure {
    Stat,
    CompatStat,
    CompatStat64,
    Statx,
    Siginfo,
    CompatSiginfo,
    Rusage,
    CompatRusage,
    Sysinfo,
    CompatSysinfo,
    Utsname,
    MessageLength,
    CompatMessageLength,
}

/// Converts members of 8 bytes each to the 32-bit layout: all have 4 bytes, so that offsets are halved too.
const fn halved<const N: usize>(mut members: [KernelMember; N]) -> [KernelMember; N] {
    let mut index = 0;
    while index < N {
        members[index].at /= 2;
        if let MemberItem::Number(number) = members[index].item {
            members[index].item = MemberItem::Number(number.narrow());
        }
        index += 1;
    }
    members
}

const SHORT_MODE: RegisterNumber = RegisterNumber { bytes: 2, ..MODE };
const SHORT: RegisterNumber = RegisterNumber { bytes: 2, ..UNSIGNED };

const COMPAT_STAT: [KernelMember; 6] = [
    number("_ino", 4, UNSIGNED),
    number("_mode", 8, SHORT_MODE),
    number("_uid", 12, SHORT),
    number("_gid", 14, SHORT),
    number("_size", 20, UNSIGNED),
    number("_mtime_sec", 40, UNSIGNED),
];
const STATX: [KernelMember; 7] = [
    number("_mask", 0, FLAGS),
    number("_uid", 20, UNSIGNED),
    number("_gid", 24, UNSIGNED),
    number("_mode", 28, SHORT_MODE),
    number("_ino", 32, UNSIGNED_LONG),
    number("_size", 40, UNSIGNED_LONG),
    number("_mtime_sec", 112, LONG),
];
const SIGINFO: [KernelMember; 5] = [
    number("_signo", 0, INT),
    number("_code", 8, INT),
    number("_pid", 16, INT),
    number("_uid", 20, UNSIGNED),
    number("_status", 24, INT),
];
const COMPAT_SIGINFO: [KernelMember; 5] = [
    number("_signo", 0, INT),
    number("_code", 8, INT),
    number("_pid", 12, INT),
    number("_uid", 16, UNSIGNED),
    number("_status", 20, INT),
];
const RUSAGE: [KernelMember; 9] = [
    number("_utime_sec", 0, LONG),
    number("_utime_usec", 8, LONG),
    number("_stime_sec", 16, LONG),
    number("_stime_usec", 24, LONG),
    number("_maxrss", 32, LONG),
    number("_minflt", 64, LONG),
    number("_majflt", 72, LONG),
    number("_nvcsw", 128, LONG),
    number("_nivcsw", 136, LONG),
];
const COMPAT_RUSAGE: [KernelMember; 9] = halved(RUSAGE);
/// Members of the structure sysinfo. Amounts are in units of `mem_unit` bytes.
const SYSINFO: [KernelMember; 7] = [
    number("_uptime", 0, LONG),
    number("_totalram", 32, UNSIGNED_LONG),
    number("_freeram", 40, UNSIGNED_LONG),
    number("_totalswap", 64, UNSIGNED_LONG),
    number("_freeswap", 72, UNSIGNED_LONG),
    number("_procs", 80, SHORT),
    number("_mem_unit", 104, UNSIGNED),
];
const COMPAT_SYSINFO: [KernelMember; 7] = halved(SYSINFO);
const UTSNAME: [KernelMember; 3] =
    [text("_nodename", 65), text("_release", 130), text("_machine", 260)];
/// The recorded member of `struct mmsghdr`: the length of the first message.
const MESSAGE_LENGTH: [KernelMember; 1] = [number("_len", 56, UNSIGNED)];
const COMPAT_MESSAGE_LENGTH: [KernelMember; 1] = [number("_len", 28, UNSIGNED)];

impl KernelStructure {
    /// All structures, in the order of their numbers.
    const ALL: [KernelStructure; 13] = [
        KernelStructure::Stat,
        KernelStructure::CompatStat,
        KernelStructure::CompatStat64,
        KernelStructure::Statx,
        KernelStructure::Siginfo,
        KernelStructure::CompatSiginfo,
        KernelStructure::Rusage,
        KernelStructure::CompatRusage,
        KernelStructure::Sysinfo,
        KernelStructure::CompatSysinfo,
        KernelStructure::Utsname,
        KernelStructure::MessageLength,
        KernelStructure::CompatMessageLength,
    ];

    pub(crate) fn members(self) -> &'static [KernelMember] {
        match self {
            KernelStructure::Stat => arch::here_or_any().stat,
            KernelStructure::CompatStat => &COMPAT_STAT,
            KernelStructure::CompatStat64 => arch::here_or_any().compat_stat64,
            KernelStructure::Statx => &STATX,
            KernelStructure::Siginfo => &SIGINFO,
            KernelStructure::CompatSiginfo => &COMPAT_SIGINFO,
            KernelStructure::Rusage => &RUSAGE,
            KernelStructure::CompatRusage => &COMPAT_RUSAGE,
            KernelStructure::Sysinfo => &SYSINFO,
            KernelStructure::CompatSysinfo => &COMPAT_SYSINFO,
            KernelStructure::Utsname => &UTSNAME,
            KernelStructure::MessageLength => &MESSAGE_LENGTH,
            KernelStructure::CompatMessageLength => &COMPAT_MESSAGE_LENGTH,
        }
    }

    /// Returns the structure that is used by a 32-bit program's call of that name; `None` if it is not known.
    pub(crate) fn compat(self, call: &str) -> Option<KernelStructure> {
        Some(match self {
            KernelStructure::Stat if call.ends_with("64") => KernelStructure::CompatStat64,
            KernelStructure::Stat if call.starts_with("old") => return None,
            KernelStructure::Stat => KernelStructure::CompatStat,
            KernelStructure::Siginfo => KernelStructure::CompatSiginfo,
            KernelStructure::Rusage => KernelStructure::CompatRusage,
            KernelStructure::Sysinfo => KernelStructure::CompatSysinfo,
            KernelStructure::MessageLength => KernelStructure::CompatMessageLength,
            // Older ones have texts of other lengths.
            KernelStructure::Utsname if call != "uname" => return None,
            same => same,
        })
    }

    pub(crate) fn kind(self) -> u8 {
        ARG_LAYOUT | self as u8
    }

    /// Returns the pieces to copy: adjacent members are joined to one piece, up to a limit.
    pub(crate) fn pieces(self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for member in self.members() {
            let bytes = u16::from(member.item.bytes());
            let is_next = |last: &&mut Piece| {
                last.offset + last.bytes == member.at && last.bytes + bytes <= PIECE_MAX
            };
            match pieces.last_mut().filter(is_next) {
                Some(last) => last.bytes += bytes,
                _ => pieces.push(Piece { offset: member.at, bytes }),
            }
        }
        pieces
    }
}

/// Returns the constants `layouts` of the programs.
pub(crate) fn layouts() -> [Layout; LAYOUTS as usize] {
    let mut all = [Layout::default(); LAYOUTS as usize];
    for (layout, structure) in all.iter_mut().zip(KernelStructure::ALL) {
        let pieces = structure.pieces();
        layout.nr_pieces = pieces.len().min(PIECES_MAX) as u16;
        let ends = pieces.iter().map(|piece| piece.offset + piece.bytes);
        layout.bytes = ends.max().unwrap_or(0);
        for (to, piece) in layout.piece.iter_mut().zip(pieces) {
            *to = piece;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn number_of_every_structure_is_its_place_in_the_table() {
        for (structure, number) in KernelStructure::ALL.into_iter().zip(0u8..) {
            assert_eq!(structure as u8, number);
            assert_eq!(structure.kind(), ARG_LAYOUT + number);
        }
        assert!(KernelStructure::ALL.len() <= LAYOUTS as usize);
    }

    #[test]
    fn pieces_of_every_structure_have_its_members_in_order_and_fit() {
        for (structure, layout) in KernelStructure::ALL.into_iter().zip(layouts()) {
            let pieces = structure.pieces();
            assert!(pieces.len() <= PIECES_MAX, "{structure:?}: {pieces:?}");
            assert!(pieces.iter().all(|piece| piece.bytes <= PIECE_MAX), "{structure:?}");
            // Copied as one, and each piece as if it were the longest (argument_arrays.bpf.h).
            assert!(layout.bytes + PIECE_MAX <= 512, "{structure:?}: {} bytes", layout.bytes);
            assert_eq!(layout.piece[..layout.nr_pieces as usize], pieces[..]);
            let copied = pieces.iter().flat_map(|piece| piece.offset..piece.offset + piece.bytes);
            let members = structure.members().iter();
            let wanted = members.flat_map(|one| one.at..one.at + u16::from(one.item.bytes()));
            assert!(copied.eq(wanted), "{structure:?}: {pieces:?}");
        }
    }

    fn same(structure: KernelStructure, wanted: &[(&str, usize, usize)]) {
        let members = structure.members().iter();
        let found: Vec<_> = members
            .map(|one| (one.name, usize::from(one.at), usize::from(one.item.bytes())))
            .collect();
        assert_eq!(found, wanted, "{structure:?}");
    }

    /// Offset and size of a member.
    macro_rules! at {
        ($type:ty, $name:literal, $member:ident) => {{
            fn size<S, M>(_: fn(&S) -> &M) -> usize {
                size_of::<M>()
            }
            ($name, offset_of!($type, $member), size::<$type, _>(|one| &one.$member))
        }};
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn members_are_where_the_c_library_has_them() {
        use libc::{mmsghdr, rusage, stat, statx, sysinfo, utsname};
        let ids = [at!(stat, "_uid", st_uid), at!(stat, "_gid", st_gid)];
        let [uid, gid] = ids;
        let (ino, mode) = (at!(stat, "_ino", st_ino), at!(stat, "_mode", st_mode));
        let (size, time) = (at!(stat, "_size", st_size), at!(stat, "_mtime_sec", st_mtime));
        same(KernelStructure::Stat, &[ino, mode, uid, gid, size, time]);
        let of_statx = [
            at!(statx, "_mask", stx_mask),
            at!(statx, "_uid", stx_uid),
            at!(statx, "_gid", stx_gid),
            at!(statx, "_mode", stx_mode),
            at!(statx, "_ino", stx_ino),
            at!(statx, "_size", stx_size),
            // Of a structure that begins with its seconds.
            ("_mtime_sec", offset_of!(statx, stx_mtime), 8),
        ];
        same(KernelStructure::Statx, &of_statx);
        let second = |at: usize| at + 8;
        let of_rusage = [
            ("_utime_sec", offset_of!(rusage, ru_utime), 8),
            ("_utime_usec", second(offset_of!(rusage, ru_utime)), 8),
            ("_stime_sec", offset_of!(rusage, ru_stime), 8),
            ("_stime_usec", second(offset_of!(rusage, ru_stime)), 8),
            at!(rusage, "_maxrss", ru_maxrss),
            at!(rusage, "_minflt", ru_minflt),
            at!(rusage, "_majflt", ru_majflt),
            at!(rusage, "_nvcsw", ru_nvcsw),
            at!(rusage, "_nivcsw", ru_nivcsw),
        ];
        same(KernelStructure::Rusage, &of_rusage);
        let of_sysinfo = [
            at!(sysinfo, "_uptime", uptime),
            at!(sysinfo, "_totalram", totalram),
            at!(sysinfo, "_freeram", freeram),
            at!(sysinfo, "_totalswap", totalswap),
            at!(sysinfo, "_freeswap", freeswap),
            at!(sysinfo, "_procs", procs),
            at!(sysinfo, "_mem_unit", mem_unit),
        ];
        same(KernelStructure::Sysinfo, &of_sysinfo);
        let of_utsname = [
            at!(utsname, "_nodename", nodename),
            at!(utsname, "_release", release),
            at!(utsname, "_machine", machine),
        ];
        same(KernelStructure::Utsname, &of_utsname);
        same(KernelStructure::MessageLength, &[at!(mmsghdr, "_len", msg_len)]);
    }
}
