//! Pins a session's kernel objects in the BPF file system. Pinned objects stay when this process is killed and continue
//! to record, until another process adopts or removes them.
//!
//! ```text
//! /sys/fs/bpf/strata/SESSION/CHANNEL/   root's alone, each level; found by descriptors, never by a path twice
//!     m0 m1 …    maps that all programs share
//!     p7-0 l7-0  programs of the switch 7, and their links;  e7 their constants, t7 their table
//! ```

use crate::error::{Error, Refusal};
use libbpf_rs::MapHandle;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, move_mount, FsMountFlags, FsOpenFlags,
    MountAttrFlags, MoveMountFlags,
};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Usual mount point of the BPF file system, which bpftool uses as well.
const ABOVE: &str = "/sys/fs/bpf";
/// Name of the folder that has all pins of this program.
const OURS: &str = "strata";
/// BPF_FS_MAGIC of the kernel's include/uapi/linux/magic.h.
const MAGIC: u32 = 0xcafe_4a11;

/// Names of the maps that are created once, by the first object that has them, and then shared.
pub(crate) const SHARED: [&str; 11] = [
    "contexts",
    "rings",
    ".data.control",
    "tracked",
    "followed",
    ".rodata.sizes",
    "scratches",
    "slots",
    "told",
    "counters",
    "counts",
];

/// The folder of one channel, held open.
#[derive(Debug)]
pub struct ChannelPins {
    fd: OwnedFd,
    /// The session's folder, with a shared lock: another process then sees that the session runs, and does not remove
    /// the folder.
    of_session: OwnedFd,
    /// Path of the channel's folder, for messages.
    path: String,
}

/// Converts a name for the BPF file system, in which names have no '.'. Names of sessions and channels have no '+'.
fn spelled(name: &str) -> String {
    name.replace('.', "+")
}

fn failed(path: &str, what: &str, source: impl std::fmt::Display) -> Error {
    Error::Pins { path: path.to_owned(), reason: Refusal(format!("{what}: {source}")) }
}

fn open_below(above: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    fs::openat(above, name, flags, Mode::empty())
}

/// Opens the root of the BPF file system, and mounts it first if it is not mounted.
fn above() -> Result<OwnedFd, Error> {
    let is_it = |fd: &OwnedFd| fs::fstatfs(fd).is_ok_and(|found| found.f_type as u32 == MAGIC);
    let open = || {
        let fd = open_below(fs::CWD, ABOVE);
        fd.map_err(|errno| failed(ABOVE, "it cannot be opened", io::Error::from(errno)))
    };
    let below = open()?;
    if is_it(&below) {
        return Ok(below);
    }
    // One at a time: of two that are mounted the second one hides what is pinned in the first. Where it cannot be
    // locked, it is as before.
    let _ = fs::flock(&below, FlockOperation::LockExclusive);
    let fd = open()?;
    if is_it(&fd) {
        return Ok(fd);
    }
    mount().map_err(|errno| {
        let what = "the file system of BPF is not mounted there, and cannot be: `mount -t bpf bpf /sys/fs/bpf` \
                    as root, outside of containers";
        failed(ABOVE, what, io::Error::from(errno))
    })?;
    let fd = open()?;
    match is_it(&fd) {
        true => Ok(fd),
        false => {
            Err(failed(ABOVE, "it was mounted there", "another file system is in front of it"))
        }
    }
}

/// Mounts the BPF file system in this process' file tree. A detached mount would be removed with this process, and all
/// pins with it.
fn mount() -> Result<(), Errno> {
    let context = fsopen("bpf", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "mode", "0700")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mounted = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(&mounted, "", fs::CWD, ABOVE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Opens a folder that only root can change. Creates it if `make` is set; returns `None` if it does not exist.
fn folder(
    above: BorrowedFd<'_>,
    name: &str,
    path: &str,
    make: bool,
) -> Result<Option<OwnedFd>, Error> {
    if make {
        match fs::mkdirat(above, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(path, "it cannot be made", io::Error::from(errno))),
        }
    }
    let fd = match open_below(above, name) {
        Err(Errno::NOENT) if !make => return Ok(None),
        opened => {
            opened.map_err(|errno| failed(path, "it cannot be opened", io::Error::from(errno)))?
        }
    };
    let found = fs::fstat(&fd)
        .map_err(|errno| failed(path, "it cannot be looked at", io::Error::from(errno)))?;
    if found.st_uid != 0 || found.st_mode & 0o077 != 0 {
        let found = format!("owner {}, mode {:o}", found.st_uid, found.st_mode & 0o7777);
        let what = "others than root can change it. Remove it, as root";
        return Err(failed(path, what, found));
    }
    Ok(Some(fd))
}

/// Opens the folder of all sessions; `None` if it does not exist.
fn of_all(make: bool) -> Result<Option<OwnedFd>, Error> {
    if !rustix::process::geteuid().is_root() {
        if !make {
            return Ok(None);
        }
        let what = "what is pinned is found and removed by root alone";
        return Err(failed(ABOVE, what, "run this as root, or leave --keep out"));
    }
    match make {
        true => folder(above()?.as_fd(), OURS, &format!("{ABOVE}/{OURS}"), true),
        false => match open_below(fs::CWD, ABOVE) {
            Ok(fd) => folder(fd.as_fd(), OURS, &format!("{ABOVE}/{OURS}"), false),
            Err(_) => Ok(None),
        },
    }
}

fn names(folder: BorrowedFd<'_>) -> Vec<String> {
    let Ok(all) = fs::Dir::read_from(folder) else { return Vec::new() };
    let names = all.filter_map(|one| Some(one.ok()?.file_name().to_str().ok()?.to_owned()));
    names.filter(|name| name != "." && name != "..").collect()
}

/// Removes all pins in a folder. BPF objects that no process holds are freed thereby. Returns the number of removed
/// pins.
fn empty(folder: BorrowedFd<'_>) -> usize {
    let mut removed = 0;
    // Links first: what they are of records no more then.
    let mut all = names(folder);
    all.sort_by_key(|name| (!name.starts_with('l'), name.clone()));
    for name in all {
        removed += usize::from(fs::unlinkat(folder, &*name, AtFlags::empty()).is_ok());
    }
    removed
}

/// Returns the names of the sessions that have pins, whether they run or not.
///
/// # Errors
/// [`Error::Pins`] if users other than root can change the folder.
pub fn pinned() -> Result<Vec<String>, Error> {
    let Some(all) = of_all(false)? else { return Ok(Vec::new()) };
    let mut names: Vec<String> =
        names(all.as_fd()).into_iter().map(|name| name.replace('+', ".")).collect();
    names.sort();
    Ok(names)
}

/// Removes the pins of a session that does not run, which stops its recording. Returns the number of removed pins.
///
/// # Errors
/// [`Error::Pins`] if the session runs: in another container, say, where its files cannot be seen from here.
pub fn remove_pinned(session: &str) -> Result<usize, Error> {
    let Some(all) = of_all(false)? else { return Ok(0) };
    let (name, path) = (spelled(session), format!("{ABOVE}/{OURS}/{session}"));
    let Some(folder_of) = folder(all.as_fd(), &name, &path, false)? else { return Ok(0) };
    if fs::flock(&folder_of, FlockOperation::NonBlockingLockExclusive).is_err() {
        let source = "a process with a session of this name runs, perhaps in another container. End it there";
        return Err(failed(&path, "it is in use", source));
    }
    let mut removed = 0;
    for channel in names(folder_of.as_fd()) {
        if let Ok(Some(one)) = folder(folder_of.as_fd(), &channel, &path, false) {
            removed += empty(one.as_fd());
        }
        let _ = fs::unlinkat(&folder_of, &*channel, AtFlags::REMOVEDIR);
    }
    fs::unlinkat(&all, &*name, AtFlags::REMOVEDIR)
        .map_err(|errno| failed(&path, "it cannot be removed", io::Error::from(errno)))?;
    Ok(removed)
}

/// Reads the kernel's description of a BPF object.
///
/// # Errors
/// What the system says.
pub(crate) fn info<T: Default>(fd: BorrowedFd<'_>) -> io::Result<T> {
    let (mut info, mut bytes) = (T::default(), size_of::<T>() as u32);
    // SAFETY: writes to the two local variables, no more than so many bytes; all of T is integers.
    let code = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut info).cast(),
            &mut bytes,
        )
    };
    match code {
        0 => Ok(info),
        _ => Err(io::Error::from_raw_os_error(code.abs())),
    }
}

/// Mounts the BPF file system while this process has the right to, since the process that records may have fewer
/// rights.
///
/// # Errors
/// [`Error::Pins`] if this process is not root, or the file system cannot be mounted.
pub fn prepare_pins() -> Result<(), Error> {
    of_all(true).map(drop)
}

impl ChannelPins {
    /// Opens or creates the folder of a session's channel. The names consist of letters, digits, `.`, `_` and `-`.
    ///
    /// # Errors
    /// [`Error::Pins`] if there is no BPF file system, or users other than root can change the folder.
    pub fn open(session: &str, channel: &str) -> Result<ChannelPins, Error> {
        let path = format!("{ABOVE}/{OURS}/{session}/{channel}");
        let none = || failed(&path, "it was removed", "somebody else has done so");
        let all = of_all(true)?.ok_or_else(none)?;
        let of_session = folder(all.as_fd(), &spelled(session), &path, true)?.ok_or_else(none)?;
        fs::flock(&of_session, FlockOperation::NonBlockingLockShared)
            .map_err(|errno| failed(&path, "it is being removed", io::Error::from(errno)))?;
        let fd = folder(of_session.as_fd(), &spelled(channel), &path, true)?.ok_or_else(none)?;
        Ok(ChannelPins { fd, of_session, path })
    }

    /// Returns the path of a pin, for messages.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(crate) fn failed(&self, what: &str, source: impl std::fmt::Display) -> Error {
        failed(&self.path, what, source)
    }

    /// Returns a path to the pin that goes through the descriptor of the open folder, since system calls before
    /// Linux 6.5 only take paths.
    fn through(&self, name: &str) -> CString {
        let path = format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd());
        CString::new(path).unwrap_or_default()
    }

    pub(crate) fn pin(&self, name: &str, fd: BorrowedFd<'_>) -> io::Result<()> {
        let path = self.through(name);
        // SAFETY: a path with its NUL, which lives longer than the call.
        match unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr()) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }

    /// Opens a pinned object; `None` if there is no pin with this name.
    pub(crate) fn get(&self, name: &str) -> io::Result<Option<OwnedFd>> {
        let path = self.through(name);
        // SAFETY: as above.
        match unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) } {
            // SAFETY: it was made just now, and nobody else knows it.
            fd if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
            code if code == -libc::ENOENT => Ok(None),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }

    /// Opens the pinned map with this name.
    pub(crate) fn map(&self, name: &str) -> libbpf_rs::Result<MapHandle> {
        MapHandle::from_pinned_path(self.through(name).to_string_lossy().into_owned())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names(self.fd.as_fd())
    }

    /// Removes a pin. That the pin does not exist is no error.
    pub(crate) fn unpin(&self, name: &str) {
        let _ = fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// Removes all pins and the channel's folder, and the session's folder if this was the last one in it.
    pub(crate) fn remove(&self) {
        empty(self.fd.as_fd());
        let parts: Vec<&str> = self.path.rsplitn(3, '/').collect();
        if let ([channel, session, _], Ok(Some(all))) = (&parts[..], of_all(false)) {
            let session = spelled(session);
            let _ = fs::unlinkat(&self.of_session, spelled(channel), AtFlags::REMOVEDIR);
            let _ = fs::unlinkat(&all, session, AtFlags::REMOVEDIR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::check;

    #[test]
    fn pins_are_there_until_they_are_removed_and_of_root_alone() {
        let name = format!("test.{}", std::process::id());
        let (is_root, can) = (rustix::process::geteuid().is_root(), check().is_ok());
        if !is_root {
            assert!(ChannelPins::open(&name, "c").unwrap_err().to_string().contains("as root"));
        }
        if !is_root || !can {
            return eprintln!("skip: only root may pin");
        }
        let pins = match ChannelPins::open(&name, "channel.0") {
            Ok(pins) => pins,
            Err(error) => return eprintln!("skip: {error}"),
        };
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let kind = libbpf_sys::BPF_MAP_TYPE_ARRAY;
        // SAFETY: all of it lives longer than the call.
        let map = unsafe { libbpf_sys::bpf_map_create(kind, c"t".as_ptr(), 4, 8, 1, &options) };
        assert!(map >= 0, "{map}");
        // SAFETY: it was made just now.
        let map = unsafe { OwnedFd::from_raw_fd(map) };
        pins.pin("m0", map.as_fd()).unwrap();
        assert!(pins.pin("m0", map.as_fd()).is_err(), "twice");
        assert!(pins.get("m0").unwrap().is_some() && pins.get("m1").unwrap().is_none());
        assert_eq!(pins.names(), ["m0"]);
        assert!(pinned().unwrap().contains(&name));
        // Who can enter it could pin something else there.
        let path = format!("{ABOVE}/{OURS}/{}", spelled(&name));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, open).unwrap();
        let error = ChannelPins::open(&name, "channel.0").unwrap_err().to_string();
        assert!(error.contains("mode 755"), "{error}");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&path, closed).unwrap();
        let second = ChannelPins::open(&name, "other").unwrap();
        second.pin("l1-0", map.as_fd()).unwrap();
        pins.remove();
        assert!(pinned().unwrap().contains(&name));
        let error = remove_pinned(&name).unwrap_err().to_string();
        assert!(error.contains("is in use"), "{error}");
        drop((pins, second));
        assert_eq!(remove_pinned(&name).unwrap(), 1);
        assert!(!pinned().unwrap().contains(&name));
        assert_eq!(remove_pinned(&name).unwrap(), 0);
    }
}
