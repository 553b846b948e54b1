//! The folder in which new programs look for sockets: who may write to it, the names of the sockets, and leftovers of
//! tracers that were killed.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{linkat, renameat_with, unlink, AtFlags, RenameFlags, CWD};
use rustix::io::Errno;
use rustix::net::{
    bind, connect, listen, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::geteuid;
use strata_abi::user;

use crate::discover::announcement::ask_for_senders;
use crate::discover::request_text;
use crate::error::Error;

/// The most connections that wait until we accept them.
pub(super) const BACKLOG: i32 = 4096;

/// Suffix after [`user::SOCKET_END`] in a socket's name until a tracer listens on it.
const NEW: &str = ".new";

/// Age at which a name with [`NEW`] counts as a leftover of a tracer that was killed.
pub(super) const NEW_AGE: Duration = Duration::from_secs(60);

/// The most file names that are tried for a new socket.
const NAMES_MAX: u32 = 128;

/// Makes the folder, or checks that nobody else can write to it.
pub(super) fn prepare(folder: &Path) -> Result<(), Error> {
    let error = |reason| Error::Folder { path: folder.to_owned(), reason };
    let ours = geteuid().as_raw();
    // Other users only connect to root's sockets.
    let mode = if ours == 0 { 0o755 } else { 0o700 };
    match fs::DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => {
            // Independent of the umask.
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder, permissions)
                .map_err(|source| error(format!("cannot be opened for others: {source}")))?;
        }
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => (),
        Err(source) => return Err(error(format!("cannot be made: {source}"))),
    }
    check(folder)
}

/// Checks that only this user may write to the folder.
fn check(folder: &Path) -> Result<(), Error> {
    let error = |reason| Error::Folder { path: folder.to_owned(), reason };
    let ours = geteuid().as_raw();
    // Not through a symbolic link, which somebody else may have put there.
    let found = fs::symlink_metadata(folder)
        .map_err(|source| error(format!("cannot be looked at: {source}")))?;
    if !found.is_dir() {
        return Err(error("is no folder. Remove it".to_owned()));
    }
    if found.uid() != ours {
        let theirs = found.uid();
        return Err(error(format!(
            "belongs to user {theirs}, not to {ours}. Have that user or root remove it"
        )));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        return Err(error(format!("can be written to by others (mode {mode:o}). Use chmod 700")));
    }
    Ok(())
}

/// Returns the folder in which [`ProgramListener::new`] would listen. Creates nothing.
///
/// # Errors
/// [`Error::Folder`]: the error for the last folder that it would try.
pub fn listening_folder() -> Result<PathBuf, Error> {
    let uid = geteuid().as_raw();
    let folder = |pattern: &str| PathBuf::from(pattern.replace("%u", &uid.to_string()));
    match uid {
        0 => could_prepare(folder(user::SOCKETS_ROOT)),
        _ => could_prepare(folder(user::SOCKETS_USER))
            .or_else(|_| could_prepare(folder(user::SOCKETS_TMP))),
    }
}

/// Returns `folder` if [`prepare`] would accept or could create it; otherwise the error.
fn could_prepare(folder: PathBuf) -> Result<PathBuf, Error> {
    if fs::symlink_metadata(&folder).is_ok() {
        return check(&folder).map(|()| folder);
    }
    let above = folder.parent().unwrap_or(Path::new("/"));
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    match rustix::fs::access(above, wanted) {
        Ok(()) => Ok(folder),
        Err(code) => {
            let reason = format!("cannot be made: {}", io::Error::from(code));
            Err(Error::Folder { path: folder, reason })
        }
    }
}

/// Returns the number of connections that the kernel queues for us: [`BACKLOG`], or its own limit.
pub(super) fn room() -> u64 {
    let most = BACKLOG.unsigned_abs().into();
    let text = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    text.trim().parse().map_or(most, |allowed: u64| allowed.min(most))
}

/// Listens on a new socket in this folder, which all users may write to who may announce themselves. The socket is
/// first bound to a name with [`NEW`], `before` is called with that path, then the socket listens, and gets its final
/// name. A socket with a final name therefore always listens; another tracer that starts would remove one that does
/// not.
pub(super) fn listen_in(
    folder: &Path,
    before: impl FnOnce(&Path),
) -> Result<(OwnedFd, PathBuf), Error> {
    let error = |what| move |code: Errno| Error::Socket { what, source: code.into() };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(error("making one"))?;
    let new = first_free(folder, NEW, |path| bind(&socket, &SocketAddrUnix::new(path)?))
        .map_err(error("naming one"))?;
    let listens = || {
        // Processes must be able to write to the socket; the folder's mode says who can reach it.
        let mode = fs::Permissions::from_mode(if geteuid().is_root() { 0o666 } else { 0o600 });
        fs::set_permissions(&new, mode)
            .map_err(|source| Error::Socket { what: "opening one for others", source })?;
        // Connections inherit the option, so that messages sent before we accept have credentials as well.
        ask_for_senders(socket.as_fd())
            .map_err(|source| Error::Socket { what: "asking for credentials", source })?;
        before(&new);
        listen(&socket, BACKLOG).map_err(error("listening"))?;
        first_free(folder, "", |path| rename_new(&new, path))
            .map_err(error("naming one that listens"))
    };
    match listens() {
        Ok(path) => Ok((socket, path)),
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(error)
        }
    }
}

/// Renames a file. Fails if the new name exists.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems lack the flag.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(CWD, from, CWD, to, AtFlags::empty())?;
            unlink(from).inspect_err(|_| {
                let _ = unlink(to);
            })
        }
        renamed => renamed,
    }
}

/// Returns the first file name for this process, with the ending `end`, that `take` finds free. A tracer may
/// have several sockets, and a process in another PID namespace may have our number.
fn first_free(
    folder: &Path,
    end: &str,
    take: impl Fn(&Path) -> Result<(), Errno>,
) -> Result<PathBuf, Errno> {
    let (pid, mut more) = (std::process::id(), 0);
    let mut path = folder.join(format!("{pid}{}{end}", user::SOCKET_END));
    loop {
        match take(&path) {
            Ok(()) => return Ok(path),
            Err(Errno::ADDRINUSE | Errno::EXIST) if more < NAMES_MAX => {
                more += 1;
                path = folder.join(format!("{pid}.{more}{}{end}", user::SOCKET_END));
            }
            Err(code) => return Err(code),
        }
    }
}

/// Removes sockets on which nobody listens any more, except `ours`, and their requests.
pub(super) fn remove_stale(folder: &Path, ours: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_new = name.strip_suffix(NEW).is_some_and(|name| name.ends_with(user::SOCKET_END));
        // The tracer that made it may listen in a moment.
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        let is_named = name.ends_with(user::SOCKET_END);
        if path == ours || !(is_named || is_new && age().is_some_and(|age| age >= NEW_AGE)) {
            continue;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let probe = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (Ok(probe), Ok(address)) = (probe, SocketAddrUnix::new(&path)) else { continue };
        if connect(&probe, &address) == Err(Errno::CONNREFUSED) {
            if is_named {
                request_text::withdraw(&path);
            }
            let _ = fs::remove_file(&path);
        }
    }
}
