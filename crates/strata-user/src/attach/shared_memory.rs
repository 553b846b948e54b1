//! The mapped part of a process' shared memory: control page, session slots, states, descriptions.
//!
//! The process writes to it at any time. Single values are atomics; everything else is read by
//! `pread()`, which copies, so that nothing here refers to its bytes.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{
    fallocate, fcntl_get_seals, flock, fstat, fstatfs, ftruncate, seek, FallocateFlags,
    FlockOperation, Mode, OFlags, SealFlags, SeekFrom,
};
use rustix::io::Errno;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use rustix::process::{getrlimit, Resource};
use strata_abi::{ring, user};

use crate::attach::process_code::SharedFile;
use crate::error::Error;
use crate::processes::process::{failed, read_proc, refused};
use crate::users::rights::User;

const BYTES: usize = user::CHANNELS_OFFSET as usize;
const PAGE: u64 = ring::PAGE as u64;

/// Time without a heartbeat after which a tracer counts as dead: [`user::DEAD_NS`]; longer in this crate's tests, which
/// write no heartbeats \[ns\].
pub(crate) const DEAD_NS: u64 = if cfg!(test) { 60_000_000_000 } else { user::DEAD_NS };

/// `TMPFS_MAGIC`, the file system of a memfd without huge pages.
const TMPFS: i64 = 0x0102_1994;

/// Returns the offset of a session's slot \[byte\]; `slot` must be below `NR_SESSIONS`.
pub(crate) fn session(slot: u32) -> usize {
    debug_assert!(slot < user::NR_SESSIONS);
    user::SESSIONS_OFFSET as usize + slot as usize * size_of::<user::Session>()
}

/// Returns the offset of a tracepoint's state \[byte\]; `index` must be below `NR_STATES`.
pub(crate) fn state(index: u32) -> usize {
    debug_assert!(index < user::NR_STATES);
    user::STATES_OFFSET as usize + index as usize * size_of::<user::State>()
}

/// Returns the native integer at a byte offset of a copy; 0 if the copy ends before.
pub(crate) fn u64_in(copy: &[u8], offset: usize) -> u64 {
    copy.get(offset..offset + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

/// Returns the numbers of the session slots that were ever written to, which are not holes in the memory file.
fn used_slots_in(fd: BorrowedFd<'_>) -> impl Iterator<Item = u32> + '_ {
    let next = move |from: u32| {
        let slot = match seek(fd, SeekFrom::Data(session(from) as u64)) {
            Ok(place) => {
                let behind = place.saturating_sub(user::SESSIONS_OFFSET.into());
                let found = behind / size_of::<user::Session>() as u64;
                u32::try_from(found).unwrap_or(u32::MAX).max(from)
            }
            // Nothing but zeros from here on.
            Err(Errno::NXIO) => user::NR_SESSIONS,
            // If the position of data cannot be found out, take the slot as used.
            Err(_) => from,
        };
        (slot < user::NR_SESSIONS).then_some(slot)
    };
    let behind = move |slot: &u32| (slot + 1 < user::NR_SESSIONS).then(|| next(slot + 1)).flatten();
    std::iter::successors(next(0), behind)
}

/// Returns true if the process with this memory may have, or have had, a session whose generation satisfies
/// `is_ours`. Does not map the memory: takes one system call, and two more for each session.
#[must_use]
pub fn may_have_session(fd: BorrowedFd<'_>, is_ours: impl Fn(u64) -> bool) -> bool {
    used_slots_in(fd).any(|slot| {
        let mut generation = [0; 8];
        let at = session(slot) + offset_of!(user::Session, generation);
        let is_read = rustix::io::pread(fd, &mut generation, at as u64).is_ok_and(|n| n == 8);
        !is_read || is_ours(u64::from_ne_bytes(generation))
    })
}

/// Reads an integer as [`u64_in`] does.
pub(crate) fn u32_in(copy: &[u8], offset: usize) -> u32 {
    copy.get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

/// Reads an integer as [`u64_in`] does.
pub(crate) fn u16_in(copy: &[u8], offset: usize) -> u16 {
    copy.get(offset..offset + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u16::from_ne_bytes)
}

/// A mapping of the bytes `[0, CHANNELS_OFFSET)` of the memory file, and its descriptor.
#[derive(Debug)]
pub(crate) struct ProgramMemory {
    pid: u32,
    address: NonNull<u8>,
    /// The memory file, opened by this program itself, so that the lock on the file is its own.
    fd: OwnedFd,
    device: u64,
    pub inode: u64,
    /// Owner of the memfd.
    pub owner: User,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for ProgramMemory {}
// SAFETY: all access through it is atomic, or a system call.
unsafe impl Sync for ProgramMemory {}

impl ProgramMemory {
    /// Maps the memory that `given` refers to; `given` may be opened with `O_PATH`.
    ///
    /// # Errors
    /// [`Error::NotMemory`], [`Error::NotSealed`], [`Error::TooSmall`], [`Error::Denied`],
    /// [`Error::System`].
    pub fn open(given: BorrowedFd<'_>, pid: u32) -> Result<ProgramMemory, Error> {
        // First of all, because any call on a file of a hostile file system may never return.
        let looked = is_in_kernel_memory(given);
        if !looked.map_err(|source| failed(pid, "looking at its shared memory", source))? {
            return Err(Error::NotMemory { pid });
        }
        let fd = rustix::fs::open(
            format!("/proc/self/fd/{}", given.as_raw_fd()),
            OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK,
            Mode::empty(),
        )
        .map_err(|code| refused(pid, "opening its shared memory", code.into()))?;
        let system = |what| move |code: Errno| Error::System { pid, what, source: code.into() };
        let kind = fstatfs(&fd).map_err(system("its shared memory's kind"))?;
        if kind.f_type != TMPFS {
            return Err(Error::NotMemory { pid });
        }
        let seals = fcntl_get_seals(&fd).map_err(|_| Error::NotMemory { pid })?;
        if !seals.contains(SealFlags::SHRINK) {
            // A process that has just started seals the memory before it fills it in.
            let mut magic = [0; 8];
            let is_empty = rustix::io::pread(&fd, &mut magic, 0).is_ok() && magic == [0; 8];
            if is_empty && !seals.contains(SealFlags::SEAL) {
                return Err(Error::NotReady { pid });
            }
            let needed = SealFlags::SHRINK.bits();
            return Err(Error::NotSealed { pid, found: seals.bits(), needed });
        }
        let stat = fstat(&fd).map_err(system("its shared memory's size"))?;
        let (found, limit) = (u64::try_from(stat.st_size).unwrap_or(0), BYTES as u64);
        if found < limit {
            return Err(Error::TooSmall { pid, found, limit });
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: maps at an address that the kernel chooses; the file cannot get shorter than it is.
        let address =
            unsafe { mmap(std::ptr::null_mut(), BYTES, protection, MapFlags::SHARED, &fd, 0) };
        let address =
            address.map_err(|code| refused(pid, "mapping its shared memory", code.into()))?;
        match NonNull::new(address.cast()) {
            Some(address) => Ok(ProgramMemory {
                pid,
                address,
                fd,
                device: stat.st_dev,
                inode: stat.st_ino,
                owner: User { uid: stat.st_uid, gid: stat.st_gid },
            }),
            None => Err(system("mapping its shared memory")(Errno::NOMEM)),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Identity by which the kernel reports the mappings of the file.
    pub fn shared_file(&self) -> SharedFile {
        SharedFile { device: self.device, inode: self.inode, owner: self.owner }
    }

    /// Returns the address of the value of `bytes` bytes at `offset`, aligned to its size.
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        // Offsets come from constants and from indices that were checked.
        assert!(offset % bytes == 0 && offset <= BYTES - bytes, "offset {offset} of {BYTES}");
        // SAFETY: the mapping has BYTES bytes.
        unsafe { self.address.as_ptr().add(offset) }
    }

    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: mapped as long as self lives, aligned; everybody who is honest accesses it atomically,
        // and what others do changes the value only.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in u64().
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    pub fn u16(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: as in u64().
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }

    /// Copies bytes out. Returns fewer than requested only if the memory ends before.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut copy = vec![0; bytes];
        let mut got = 0;
        while got < bytes {
            match rustix::io::pread(&self.fd, &mut copy[got..], offset + got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(Errno::INTR) => (),
                Err(code) => return Err(self.system("reading its shared memory", code)),
            }
        }
        copy.truncate(got);
        Ok(copy)
    }

    /// Returns the number and the bytes up to the rules of each session slot that was ever written. All other slots are
    /// zeros: reading them takes time, and through the mapping also memory.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn used_slots(&self) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        let head = |slot| {
            let head = self.read(session(slot) as u64, offset_of!(user::Session, rules))?;
            Ok((slot, head))
        };
        used_slots_in(self.fd.as_fd()).map(head).collect()
    }

    /// Writes bytes that the process does not read until a later store publishes them.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match rustix::io::pwrite(&self.fd, bytes, offset) {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err(self.system("writing to its shared memory", Errno::NOSPC)),
            Err(code) => Err(self.system("writing to its shared memory", code)),
        }
    }

    pub fn system(&self, what: &'static str, code: Errno) -> Error {
        Error::System { pid: self.pid, what, source: code.into() }
    }

    /// Size of the whole memory \[byte\].
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn size(&self) -> Result<u64, Error> {
        let stat = fstat(&self.fd).map_err(|code| self.system("its shared memory's size", code))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Grows the memory to at least `needed` bytes. Never shortens it.
    ///
    /// # Errors
    /// [`Error::FileSizeLimit`], [`Error::System`].
    pub fn grow(&self, needed: u64) -> Result<(), Error> {
        let pid = self.pid;
        // ftruncate() beyond the limit would raise SIGXFSZ in us.
        match getrlimit(Resource::Fsize).current {
            Some(limit) if limit < needed => {
                return Err(Error::FileSizeLimit { pid, needed, limit });
            }
            _ => (),
        }
        // The process may make it longer between our check and our call, which the seal then refuses.
        for _ in 0..16 {
            if self.size()? >= needed {
                return Ok(());
            }
            match ftruncate(&self.fd, needed) {
                Ok(()) | Err(Errno::PERM | Errno::INTR) => (),
                Err(code) => return Err(self.system("making its shared memory longer", code)),
            }
        }
        Err(self.system("making its shared memory longer", Errno::PERM))
    }

    /// Frees the pages of a range, which then reads as zeros.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn punch(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.fd, flags, offset, bytes)
            .map_err(|code| self.system("giving memory of a channel back", code))
    }

    /// Takes the lock, which keeps other tracers from claiming and releasing slots while the guard lives. Returns
    /// `None` if another process holds it. Never waits, since the traced process itself may hold the lock for
    /// ever.
    pub fn try_lock(&self) -> Option<Lock<'_>> {
        flock(&self.fd, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Lock { memory: self })
    }

    /// Returns true if a slot is in use: by a tracer with a heartbeat, or by a process that was started for a tracer
    /// and waits for that tracer.
    pub fn slot_is_alive(&self, slot: u32, now_ns: u64) -> bool {
        let at = session(slot);
        let status = self.u32(at + offset_of!(user::Session, status)).load(Ordering::Acquire);
        status != user::SESSION_FREE && !self.slot_is_dead(slot, now_ns)
    }

    /// Returns true if the slot's tracer has written no heartbeat for [`DEAD_NS`].
    pub fn slot_is_dead(&self, slot: u32, now_ns: u64) -> bool {
        let beat = offset_of!(user::Session, heartbeat_ns);
        let mut beat = self.u64(session(slot) + beat).load(Ordering::Relaxed);
        if beat == 0 {
            // A process that has made its session itself waits for its tracer from its start on.
            beat = self.u64(offset_of!(user::Control, started_ns)).load(Ordering::Relaxed);
        }
        now_ns.saturating_sub(beat) > DEAD_NS
    }
}

impl Drop for ProgramMemory {
    fn drop(&mut self) {
        // SAFETY: what open() mapped; no reference into it outlives self.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), BYTES) };
    }
}

/// Guard of the lock of [`ProgramMemory::try_lock`].
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    memory: &'a ProgramMemory,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let _ = flock(&self.memory.fd, FlockOperation::Unlock);
    }
}

/// Returns whether a range of memory consists of whole pages.
pub(crate) fn page_aligned(offset: u64, bytes: u64) -> bool {
    offset % PAGE == 0 && bytes % PAGE == 0 && bytes > 0
}

/// Rounds up to whole pages; `None` if that is too large.
pub(crate) fn to_pages(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}

/// Returns true if the file is on the kernel's own mount of memfds. Makes no access to the file
/// itself, which could block.
///
/// # Errors
/// There is no free descriptor, or no /proc.
pub(crate) fn is_in_kernel_memory(fd: BorrowedFd<'_>) -> io::Result<bool> {
    use std::sync::OnceLock;
    static OURS: OnceLock<u64> = OnceLock::new();
    let ours = match OURS.get() {
        Some(ours) => *ours,
        None => {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let memfd = rustix::fs::memfd_create("strata-look", flags)?;
            let ours = mount_of(memfd.as_fd())?;
            *OURS.get_or_init(|| ours)
        }
    };
    Ok(mount_of(fd)? == ours)
}

/// Returns the id of the mount that a file lies in.
///
/// # Errors
/// There is no free descriptor, or no /proc.
pub(crate) fn mount_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let text = read_proc(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    line.and_then(|line| line.trim().parse().ok())
        .ok_or_else(|| io::Error::other("/proc/self/fdinfo has no mnt_id"))
}
