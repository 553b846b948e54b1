//! The code of another process: opened with no more rights than the process' own user has, and used only if the process
//! still runs the program that shares its memory with us.
//!
//! A process keeps its number and pidfd when it executes another program, which may have more rights than its user. So
//! the code is opened in this order:
//!
//! 1. `/proc/PID/mem` is opened as the user who owns the shared memory, without capabilities: the kernel
//!    refuses what that user may not look into. What is open from then on is one address space.
//! 2. The address space must have mapped the very memory, shared and to be written, from its start. If the
//!    process has executed something since 1., what is open answers no more.
//! 3. At that place the open memory must have what we see.
//!
//! Where we cannot act for that user (this program may not, or the process is in another user namespace),
//! the kernel decides for ourselves. Then what it says of the process after 1. must show that this is a
//! program of that user with no other rights.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use strata_abi::user;

use crate::attach::tracepoint_sites::Code;
use crate::error::{Denial, Error};
use crate::processes::memory_map::Maps;
use crate::processes::process::{is_ending, refused, Process, Status};
use crate::users::rights::{ActingFor, User};

const OPENING: &str = "writing to its memory";

/// Identity of the file that a process shares with us, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedFile {
    pub device: u64,
    pub inode: u64,
    pub owner: User,
}

/// The code of the process that shares a memory file.
#[derive(Debug)]
pub(crate) struct ProcessCode {
    process: Process,
    shared: SharedFile,
    memory: OnceLock<File>,
}

impl ProcessCode {
    pub fn new(process: Process, shared: SharedFile) -> ProcessCode {
        ProcessCode { process, shared, memory: OnceLock::new() }
    }

    fn open_checked(&self) -> Result<File, Error> {
        let pid = self.process.pid;
        let gone = Err(Error::Gone { pid });
        if self.process.has_ended() {
            return gone;
        }
        let memory = open_memory(pid, self.shared.owner)?;
        let place = mapped_at(pid, &self.shared)?;
        // Checked after the address space, since before, the number could have passed to another process.
        if self.process.has_ended() {
            return gone;
        }
        match place {
            Some(address) if has_magic(&memory, address) => Ok(memory),
            // The process has executed another program since, or never had the memory mapped.
            _ => gone,
        }
    }

    /// Returns whether the process now runs another program than the one that shared the memory, so that facts from
    /// the kernel are about another program. False if that is not known.
    pub fn has_gone(&self) -> bool {
        matches!(mapped_at(self.process.pid, &self.shared), Ok(None)) && !self.process.has_ended()
    }

    fn memory(&self) -> io::Result<&File> {
        self.memory.get().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Code for ProcessCode {
    fn open(&self) -> Result<(), Error> {
        if self.memory.get().is_none() {
            let _ = self.memory.set(self.open_checked()?);
        }
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], address: u64) -> io::Result<()> {
        self.memory()?.read_exact_at(bytes, address)
    }

    fn write_all_at(&self, bytes: &[u8], address: u64) -> io::Result<()> {
        self.memory()?.write_all_at(bytes, address)
    }
}

/// Opens the address space of the process `pid`, with the rights of the user `owner`.
fn open_memory(pid: u32, owner: User) -> Result<File, Error> {
    let path = format!("/proc/{pid}/mem");
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    if !owner.is_other() {
        return open().map_err(|source| refused(pid, OPENING, source));
    }
    let denied = || {
        let denial = Denial::NotItsUser { uid: owner.uid };
        Error::Denied { pid, what: OPENING, denial }
    };
    let acting = in_our_user_namespace(pid).then(|| ActingFor::user(owner));
    let Some(Ok(acting)) = acting else {
        let opened = open().map_err(|source| refused(pid, OPENING, source))?;
        return if is_plainly_of(pid, owner) { Ok(opened) } else { Err(denied()) };
    };
    let opened = open();
    drop(acting);
    opened.map_err(|source| match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if !is_ending(pid) => denied(),
        _ => refused(pid, OPENING, source),
    })
}

/// Returns whether the process belongs to this user and group, has no further rights, and is accessible to its user.
/// Call this after the process's memory was opened: rights that it had then still show.
fn is_plainly_of(pid: u32, owner: User) -> bool {
    use std::os::unix::fs::MetadataExt;
    let User { uid, gid } = owner;
    let is_theirs = |status: &Status| status.uids == [uid; 4] && status.gids == [gid; 4];
    // The /proc files of a process that is hidden from its user, as after executing a program with more rights, belong
    // to root.
    let mem = std::fs::metadata(format!("/proc/{pid}/mem"));
    mem.is_ok_and(|file| file.uid() == uid)
        && matches!(Status::read(pid), Ok(Some(status)) if is_theirs(&status))
}

fn in_our_user_namespace(pid: u32) -> bool {
    let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).ok();
    // Without user namespaces, or after the end of the process, it is in no other one.
    link(&pid.to_string()).is_none_or(|theirs| Some(theirs) == link("self"))
}

/// Finds where the process has mapped the beginning of the file, shared and writable.
fn mapped_at(pid: u32, shared: &SharedFile) -> Result<Option<u64>, Error> {
    let error = |source| refused(pid, "looking at its mappings", source);
    let maps = File::open(format!("/proc/{pid}/maps")).map_err(error)?;
    if let Some(place) = queried_place(&maps, shared) {
        return Ok(place);
    }
    place_in(Maps::of(maps), shared).map_err(error)
}

/// `struct procmap_query` of the kernel's `linux/fs.h` (Linux 6.11).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    begin: u64,
    end: u64,
    vma_flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

/// `PROCMAP_QUERY`, `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong = 3 << 30 | (size_of::<Query>() as libc::c_ulong) << 16 | 0x6611;

/// Flags of a query for readable, writable, shared mappings of files, at or after the given address.
const SHARED_FILES: u64 = 0x01 | 0x02 | 0x08 | 0x10 | 0x20;

/// The most mappings of a process that are queried.
const QUERIES_MAX: u32 = 65_536;

/// Finds the same address as [`place_in`], without reading the text of all mappings. The outer `None` means that
/// the kernel does not support the query.
fn queried_place(maps: &File, shared: &SharedFile) -> Option<Option<u64>> {
    let mut address = 0;
    for _ in 0..QUERIES_MAX {
        let size = size_of::<Query>() as u64;
        let mut query = Query { size, flags: SHARED_FILES, address, ..Query::default() };
        // SAFETY: the kernel writes to the structure, as many bytes as it says it has.
        let code = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &mut query) };
        if code != 0 {
            // ENOENT: there is no further mapping. With any other error, read the text instead.
            let is_end = io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
            return is_end.then_some(None);
        }
        if query.offset == 0
            && query.inode == shared.inode
            && rustix::fs::makedev(query.major, query.minor) == shared.device
        {
            return Some(Some(query.begin));
        }
        address = query.end;
    }
    Some(None)
}

fn place_in(mut maps: Maps<impl BufRead>, shared: &SharedFile) -> io::Result<Option<u64>> {
    while let Some(mapping) = maps.next()? {
        let permissions = mapping.permissions;
        let is_shared = permissions.starts_with(b"rw") && permissions.ends_with(b"s");
        let of_it = mapping.device == shared.device && mapping.inode == shared.inode;
        if is_shared && of_it && mapping.offset == 0 {
            return Ok(Some(mapping.begin));
        }
    }
    Ok(None)
}

/// Returns true if the shared memory begins at this address. Also false if the process no longer uses that address
/// space.
fn has_magic(memory: &File, address: u64) -> bool {
    let mut found = [0; 8];
    memory.read_exact_at(&mut found, address).is_ok() && u64::from_ne_bytes(found) == user::MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;
    use std::process::Command;

    const SHARED: SharedFile = SharedFile { device: 1, inode: 77, owner: User { uid: 0, gid: 0 } };

    fn place(maps: &str) -> Option<u64> {
        place_in(Maps::new(maps.as_bytes()), &SHARED).unwrap()
    }

    #[test]
    fn place_is_that_of_the_start_of_this_file_shared_and_writable() {
        let line = |permissions: &str, offset: &str, device: &str, inode: &str| {
            format!("7f00dead0000-7f00df000000 {permissions} {offset} {device} {inode}  /memfd:strata (deleted)\n")
        };
        assert_eq!(place(&line("rw-s", "00000000", "00:01", "77")), Some(0x7f00_dead_0000));
        for other in [
            line("r--s", "00000000", "00:01", "77"),
            line("rw-p", "00000000", "00:01", "77"),
            line("rw-s", "00001000", "00:01", "77"),
            line("rw-s", "00000000", "00:02", "77"),
            line("rw-s", "00000000", "01:01", "77"),
            line("rw-s", "00000000", "00:01", "78"),
            line("rw-s", "00000000", "00:01", "770"),
            line("rw-s", "x", "00:01", "77"),
            line("rw-s", "00000000", "1", "77"),
            String::new(),
            "\n\n \n-\n".to_owned(),
        ] {
            assert_eq!(place(&other), None, "{other}");
            let both = other + &line("rwxs", "00000000", "00:01", "77");
            assert_eq!(place(&both), Some(0x7f00_dead_0000), "{both}");
        }
    }

    #[test]
    fn place_that_the_kernel_is_asked_for_is_that_of_its_text() {
        let application = Fake::new().open();
        let shared = application.memory().shared_file();
        let maps = || File::open("/proc/self/maps").unwrap();
        let text = place_in(Maps::of(maps()), &shared).unwrap();
        assert!(text.is_some());
        let other = SharedFile { inode: u64::MAX, ..shared };
        // Linux before 6.11 has the text only.
        if let Some(place) = queried_place(&maps(), &shared) {
            assert_eq!((place, queried_place(&maps(), &other)), (text, Some(None)));
        }
    }

    fn code_of(fake: &Fake, pid: u32) -> ProcessCode {
        let application = fake.open();
        let process = Process::hold(pid).unwrap();
        ProcessCode::new(process, application.memory().shared_file())
    }

    #[test]
    fn code_of_a_process_that_has_mapped_the_memory_is_read_and_written() {
        let fake = Fake::new();
        let application = fake.open();
        let code = code_of(&fake, std::process::id());
        assert!(code.read_exact_at(&mut [0], 0).is_err());
        code.open().unwrap();
        code.open().unwrap();
        let mut byte = [7];
        code.write_all_at(&[9], byte.as_mut_ptr() as u64).unwrap();
        assert_eq!(byte, [9]);
        drop(application);
    }

    #[test]
    fn code_of_a_process_that_has_ended_is_gone() {
        let fake = Fake::forked();
        let code = code_of(&fake, fake.pid);
        code_of(&fake, fake.pid).open().unwrap();
        drop(fake);
        assert!(code.open().unwrap_err().is_gone());
    }

    #[test]
    fn malicious_process_that_has_not_mapped_the_memory_is_gone() {
        // It has executed another program: its number, and what holds it, are the same.
        let fake = Fake::spawned_unseen();
        assert!(code_of(&fake, fake.pid).open().unwrap_err().is_gone());
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(code_of(&fake, other.id()).open().unwrap_err().is_gone());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(code_of(&fake, other.id()).open().unwrap_err().is_gone());
    }

    #[test]
    fn malicious_memory_of_one_user_opens_no_process_of_another() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // This process, which is root's, has mapped it; its owner may not look into this process.
        let fake = Fake::new();
        let nobody = rustix::fs::Uid::from_raw(65534);
        rustix::fs::fchown(&fake.fd, Some(nobody), None).unwrap();
        let error = code_of(&fake, std::process::id()).open().unwrap_err();
        assert!(
            matches!(error, Error::Denied { denial: Denial::NotItsUser { uid: 65534 }, .. }),
            "{error}"
        );
    }
}
