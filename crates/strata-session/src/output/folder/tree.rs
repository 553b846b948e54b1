//! What is below a folder that is held open: removed, or copied, as what a session has held in memory is to the disk.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::process::geteuid;

/// Folders in folders of what is recorded: a layer's, a process'.
pub(super) const DEPTH_MAX: u32 = 4;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folders of these names in `from` are in `to` then. Of one that cannot be copied nothing is there, and it and those
/// behind it stay where they were.
///
/// # Errors
/// What the system says.
pub(super) fn give_all(from: &OwnedFd, to: &OwnedFd, names: &[String]) -> io::Result<()> {
    for name in names {
        let source = rustix::fs::openat(from, name.as_str(), FOLDER, Mode::empty())?;
        rustix::fs::mkdirat(to, name.as_str(), Mode::RWXU)?;
        let copied = rustix::fs::openat(to, name.as_str(), FOLDER, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|made| {
                let copied = copy(source.as_fd(), made.as_fd(), DEPTH_MAX);
                if copied.is_err() {
                    clear(made.as_fd(), DEPTH_MAX);
                }
                copied
            });
        if let Err(error) = copied {
            let _ = rustix::fs::unlinkat(to, name.as_str(), AtFlags::REMOVEDIR);
            return Err(error);
        }
        clear(source.as_fd(), DEPTH_MAX);
        let _ = rustix::fs::unlinkat(from, name.as_str(), AtFlags::REMOVEDIR);
    }
    Ok(())
}

/// Files and folders; by no link.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, depth: u32) -> io::Result<()> {
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut source = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(found.st_mode & 0o777);
                let mut made = File::from(rustix::fs::openat(to, name, flags, mode)?);
                io::copy(&mut source, &mut made)?;
            }
            libc::S_IFDIR if depth > 0 => {
                let source = rustix::fs::openat(from, name, FOLDER, Mode::empty())?;
                rustix::fs::mkdirat(to, name, Mode::RWXU)?;
                let made = rustix::fs::openat(to, name, FOLDER, Mode::empty())?;
                copy(source.as_fd(), made.as_fd(), depth - 1)?;
            }
            _ => return Err(io::Error::other("what is in it is neither a file nor a folder")),
        }
    }
    Ok(())
}

/// Below a descriptor, and by no link: wherever a name is moved, only what is in this folder is removed. What cannot
/// be removed stays.
pub(super) fn clear(folder: BorrowedFd<'_>, depth: u32) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(found) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if found.st_uid != geteuid().as_raw() {
            continue;
        }
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => {
                let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
            }
            libc::S_IFDIR if depth > 0 => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(fd) = rustix::fs::openat(folder, name, flags, Mode::empty()) {
                    clear(fd.as_fd(), depth - 1);
                    let _ = rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR);
                }
            }
            _ => {}
        }
    }
}
