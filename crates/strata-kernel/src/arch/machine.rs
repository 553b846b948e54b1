//! What there is to know of a machine.

use super::registers::Registers;
use crate::discover::syscalls::member::KernelMember;

/// The instruction set of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    X86,
    A64,
}

/// A machine whose kernel events can be recorded.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The name that `uname -m` prints.
    pub(crate) name: &'static str,
    /// The number of the machine in an ELF file.
    pub(crate) elf: u16,
    /// The system calls of 64-bit programs. A line without arguments stands for a call with the same arguments as in
    /// the table of x86-64.
    pub(crate) calls: &'static str,
    /// The system calls of 32-bit programs, in the same form.
    pub(crate) compat_calls: &'static str,
    /// The interfaces by which programs call the kernel, as the programs in the kernel number them.
    pub(crate) interfaces: &'static [&'static str],
    /// Names whose value differs from that in `values.txt`, which is for x86-64; `None` if the machine has no such
    /// name.
    pub(crate) values: &'static [(&'static str, Option<i64>)],
    /// Recorded members of `struct stat` of 64-bit programs.
    pub(crate) stat: &'static [KernelMember],
    /// Recorded members of `struct stat64` of 32-bit programs.
    pub(crate) compat_stat64: &'static [KernelMember],
    /// True if `struct epoll_event` has no padding between its two members.
    pub(crate) is_epoll_packed: bool,
    /// True if a task's saved registers show whether its system call already has a result, which recording of calls
    /// that waited needs.
    pub(crate) shows_results: bool,
    /// The value of the flag O_DIRECTORY of open().
    pub(crate) o_directory: u32,
    /// The instruction set, for decoding code to find where functions return.
    pub(crate) instructions: Instructions,
    /// The registers of a program on this machine.
    pub(crate) registers: &'static Registers,
    /// The flags by which glibc's cache of libraries marks those for 64-bit programs: FLAG_*_LIB64 of its dl-cache.h.
    pub(crate) library_flags: u32,
    /// Folders of libraries that are searched besides the linker's cache.
    pub(crate) library_folders: [&'static str; 2],
}
