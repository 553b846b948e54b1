//! Removes, copies or measures the content of an open folder, such as a trace in memory that is flushed to disk.
//!
//! All of it works below a descriptor and follows no link, so that nothing outside of the folder is touched even if a name in
//! it is moved meanwhile.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::process::geteuid;

/// The most nested folders in a trace: those of a layer and of a process, with a margin.
pub(super) const DEPTH_MAX: u32 = 4;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Moves the folders with these names from `from` to `to`. A folder that cannot be copied, and those after it, stay
/// in `from` only.
///
/// # Errors
/// The error of the system.
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

/// Copies files and folders, without following links.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, depth: u32) -> io::Result<()> {
    for entry in entries(from)? {
        let (name, found) = entry?;
        let name = &*name;
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
            _ => {
                return Err(io::Error::other(
                    "it contains something that is neither a file nor a folder",
                ))
            }
        }
    }
    Ok(())
}

/// Removes the files and folders of this user in the folder `folder`. Works relative to the descriptor and follows
/// no link, so that nothing outside of the folder is removed. Entries that cannot be removed stay.
pub(super) fn clear(folder: BorrowedFd<'_>, depth: u32) {
    for (name, found) in entries(folder).into_iter().flatten().flatten() {
        let name = &*name;
        if found.st_uid != geteuid().as_raw() {
            continue;
        }
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => {
                let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
            }
            libc::S_IFDIR if depth > 0 => {
                if let Ok(fd) = rustix::fs::openat(folder, name, FOLDER, Mode::empty()) {
                    clear(fd.as_fd(), depth - 1);
                    let _ = rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR);
                }
            }
            _ => {}
        }
    }
}

/// Returns the size of the files below a folder \[byte\], without following links. Entries that cannot be read count as 0.
pub(super) fn bytes_in(folder: BorrowedFd<'_>, depth: u32) -> u64 {
    let size = |(name, found): (CString, Stat)| match found.st_mode & libc::S_IFMT {
        libc::S_IFREG => u64::try_from(found.st_size).unwrap_or(0),
        libc::S_IFDIR if depth > 0 => rustix::fs::openat(folder, &*name, FOLDER, Mode::empty())
            .map_or(0, |fd| bytes_in(fd.as_fd(), depth - 1)),
        _ => 0,
    };
    entries(folder).into_iter().flatten().flatten().map(size).fold(0, u64::saturating_add)
}

/// Returns the size of the files below the folder at a path \[byte\]; 0 if it cannot be opened.
pub(crate) fn bytes_at(path: &Path, depth: u32) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_or(0, |fd| bytes_in(fd.as_fd(), depth))
}

/// Returns the names of the entries in a folder, with their types. Links are not followed.
fn entries(
    folder: BorrowedFd<'_>,
) -> io::Result<impl Iterator<Item = io::Result<(CString, Stat)>> + '_> {
    let names = Dir::read_from(folder)?.filter_map(|entry| match entry {
        Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
        entry => Some(entry.map(|entry| entry.file_name().to_owned())),
    });
    Ok(names.map(move |name| {
        let name = name?;
        let found = rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((name, found))
    }))
}
