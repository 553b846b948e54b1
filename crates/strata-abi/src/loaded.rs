//! `strata/abi/loaded.h`: what a process says that it has loaded.

use core::sync::atomic::AtomicU64;

/// [`Loaded::flags`]: addresses in its file count from [`Loaded::address`].
pub const PIC: u8 = 1;
/// [`Loaded::flags`]: the main program.
pub const PROGRAM: u8 = 2;
/// The most objects that a process notes.
pub const NR_MAX: u32 = 4096;
/// Size of a path at most \[byte\].
pub const PATH_MAX: u32 = 4096;
/// Size of a build id at most \[byte\].
pub const BUILD_ID_MAX: u32 = 32;

/// `struct strata_abi_loaded`: an object that is or was mapped by a process.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Loaded {
    /// Lowest address of its segments.
    pub address: u64,
    /// Distance from the lowest address to the end of the last segment \[byte\].
    pub bytes: u64,
    /// Time at which the object was first seen \[ns\].
    pub loaded_ns: u64,
    /// Time at which the object was no longer mapped; 0 while it is mapped \[ns\].
    pub unloaded_ns: AtomicU64,
    /// Place of the object that was noted before this one: 8 * (place - 1) from the begin of the descriptions; 0: none.
    pub older: u32,
    /// The process' own count of its scans of the loaded objects.
    pub look: u32,
    /// Size of its path; 0: the process does not know \[byte\].
    pub path_bytes: u16,
    /// Size of its build id \[byte\].
    pub build_id_bytes: u8,
    /// [`PIC`], [`PROGRAM`].
    pub flags: u8,
    /// Offset of the path from the start of the descriptions \[byte\].
    pub text: u32,
}
