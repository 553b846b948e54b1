//! The folder of a trace, with a folder in it for each process.
//!
//! ```text
//! strata-trace-20260131-235959/     TraceFolder: created or opened, locked, checked to be this user's alone
//!   .strata-end                     the end mark: how the recording ended; its space is reserved at the beginning
//!   user/words-4155/                a layer's folder, and the trace of one process: metadata, channel0_0, channel0_1 …
//!   kernel/                         the only trace of a layer
//! ```
//!
//! # Invariants
//! - Everything is created below a descriptor that stays open ([`TraceFolder`]): a user who can write to a folder above
//!   it cannot redirect this program by replacing a name. `safe_path.rs` walks paths in this manner, and refuses links of other
//!   users.
//! - An existing folder is used only if it is empty, belongs to this user, and is not locked. The lock ends with this
//!   process, however the process ends, so that readers know whether a recorder still writes (`strata_ctf::read::completeness`).
//! - Nothing is ever overwritten, and only files that this session created are removed. Files of others stay.
//! - A process's name is hostile text: `sanitised()` leaves letters, digits and a few signs.
//!
//! `old_folders.rs` finds traces of earlier sessions, `folder_errors.rs` has the errors and the check of owners, `folder_content.rs`
//! removes and copies whole folders, and `chunks.rs` beside this file splits a trace into folders of this kind. Attacks
//! on this code are tests in tests/attack, and its promises are in docs/design/threats.md.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{fchown, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use strata_collect::{begin_mark, end_mark, remove_mark, Counts, Directory, Files, Output, Sink};
use strata_ctf::end_mark::{EndMark, FILE};

use crate::output::folder_mark::{Made, SessionMark};
use crate::session::lock::lock;
pub(crate) use folder_content::bytes_at;
use folder_content::{bytes_in, clear, give_all, DEPTH_MAX};
use folder_errors::{is_trusted, system, TRIES};

mod folder_content;
mod folder_errors;
mod old_folders;
mod safe_path;

pub use folder_errors::{is_trusted as is_trusted_user, FolderError};
pub(crate) use old_folders::leftovers;

/// The most bytes of a process's name that the name of its folder takes \[byte\].
const NAME_BYTES_MAX: usize = 64;
/// The most entries of a layer's folder that are examined.
const ENTRIES_MAX: usize = 1 << 16;
/// Prefix of stream files' names; the CPU's number follows.
pub(crate) const STREAMS: &str = "channel0";

/// Returns the name of a stream's file in a trace's folder.
pub(crate) fn stream_file(number: u32) -> String {
    format!("{STREAMS}_{number}")
}

/// The folder of one trace, which only this session uses while this value lives.
///
/// The folder is held open and locked. Everything in it is created below its descriptor, so that nobody who can write
/// to a folder above it can redirect this program. The lock ends with the program, however the program ends.
#[derive(Debug)]
pub struct TraceFolder {
    path: PathBuf,
    fd: Arc<OwnedFd>,
    /// True if all users can rename the folder, or could when it was opened.
    is_in_open_folder: bool,
    /// The parent folder and the name in it, if this session created the folder.
    made: Option<(Arc<OwnedFd>, OsString)>,
    layers: HashMap<String, Directory>,
    /// Names of the folders that this session created in the folder.
    names: BTreeSet<String>,
    is_of_snapshot: bool,
    /// Number of the session that created the folder, for its end mark.
    session: Option<u64>,
}

impl Output for TraceFolder {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, strata_collect::Error> {
        let directory = match process {
            Some((name, pid)) => self.process(layer, name, pid)?,
            None => self.layer(layer)?,
        };
        Ok(Box::new(match self.is_of_snapshot {
            true => Files::gathered(directory, STREAMS),
            false => Files::new(directory, STREAMS),
        }))
    }

    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>) {
        let Some(directory) = sink.directory() else { return };
        // A file that cannot be removed stays; it is empty, and readers accept it.
        for name in directory.names().unwrap_or_default() {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
        let _ = rustix::fs::unlinkat(&self.fd, layer, AtFlags::REMOVEDIR);
        if let Some((channel, _)) = layer.split_once('/') {
            let _ = rustix::fs::unlinkat(&self.fd, channel, AtFlags::REMOVEDIR);
        }
    }
}

/// Creates a folder of root's that members of the group `gid` can read, or checks an existing one. Returns its real
/// path.
///
/// # Errors
/// [`FolderError`]: somebody else could write to the folder or replace it, or the group could not read it.
pub fn group_folder(path: &Path, gid: u32) -> Result<PathBuf, FolderError> {
    let is_new = path.symlink_metadata().is_err();
    let path = safe_path::own(path)?;
    let fault = |what, error: io::Error| system(&path, what, error);
    let folder = fs::File::open(&path).map_err(|error| fault("open it", error))?;
    if is_new {
        fchown(&folder, None, Some(gid)).map_err(|error| fault("give it to the group", error))?;
        let mode = fs::Permissions::from_mode(0o2750);
        folder.set_permissions(mode).map_err(|error| fault("set its mode", error))?;
    }
    let found = folder.metadata().map_err(|error| fault("look at it", error))?;
    let (group, mode) = (found.gid(), found.mode() & 0o7777);
    if mode & 0o7022 != 0o2000 || mode & 0o050 != 0o050 || group != gid {
        return Err(FolderError::NotGroups { path, gid, group, mode });
    }
    Ok(path)
}

/// Makes a new folder readable for the group that it inherited from its parent. Its content must be readable
/// already.
///
/// # Errors
/// The error of the system call.
pub fn show_to_group(path: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(folder, Mode::from_raw_mode(0o750))?)
}

/// The output of a channel, which is a folder within the session's output if the channel has a name.
struct Below {
    name: String,
    output: Arc<Mutex<dyn Output>>,
}

/// Returns the output of a channel: a folder named after the channel, or `output` itself if there is no name.
pub(crate) fn below(name: Option<&str>, output: &Arc<Mutex<dyn Output>>) -> Arc<Mutex<dyn Output>> {
    match name {
        None => Arc::clone(output),
        Some(name) => {
            Arc::new(Mutex::new(Below { name: name.to_owned(), output: Arc::clone(output) }))
        }
    }
}

impl Output for Below {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, strata_collect::Error> {
        lock(&self.output).trace(&format!("{}/{layer}", self.name), process)
    }

    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>) {
        lock(&self.output).remove(&format!("{}/{layer}", self.name), sink);
    }

    fn is_present(&self, sink: &dyn Sink) -> bool {
        lock(&self.output).is_present(sink)
    }

    fn ended(&mut self, sink: &dyn Sink, counts: &Counts, besides: &Counts) {
        lock(&self.output).ended(sink, counts, besides);
    }
}

/// The result of one attempt to take a folder.
enum TakenFolder {
    Folder(TraceFolder),
    /// The folder was removed before it could be opened.
    Removed,
}

impl TraceFolder {
    /// Creates the folder `path`. An existing folder is used if it is empty, belongs to this user, and is not in
    /// use.
    ///
    /// Others cannot read the folder, since a trace may reveal details of any process that this user can trace.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn create(path: &Path) -> Result<TraceFolder, FolderError> {
        let failed = |what| move |source: io::Error| system(path, what, source);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            fs::create_dir_all(parent).map_err(failed("make the folder that it is to be in"))?;
        }
        let Some(name) = path.file_name() else {
            // A path without a last name, such as `.`, `/` or `a/..`.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(path, flags, Mode::empty());
            let fd = fd.map_err(io::Error::from).map_err(failed("read it"))?;
            check_owner(path, &fd)?;
            return match take(path, fd)? {
                TakenFolder::Folder(folder) => Ok(folder),
                TakenFolder::Removed => Err(failed("use it")(Errno::NOENT.into())),
            };
        };
        for _ in 0..TRIES {
            let above = open_parent(parent.unwrap_or(Path::new("."))).map_err(failed("make it"))?;
            let above = Arc::new(above);
            let taken = match rustix::fs::mkdirat(&above, name, Mode::RWXU) {
                Ok(()) => take_new(path, above, name)?,
                Err(Errno::EXIST) => take(path, open_existing(path, &above, name)?)?,
                Err(error) => return Err(failed("make it")(error.into())),
            };
            if let TakenFolder::Folder(folder) = taken {
                return Ok(folder);
            }
        }
        Err(FolderError::InUse { path: path.to_owned() })
    }

    /// Creates a new folder below `parent`, named after the time: `strata-trace-20260131-235959`, with `-2` and so on
    /// if that name exists.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn create_by_time(parent: &Path, stamp: &str) -> Result<TraceFolder, FolderError> {
        let first = parent.join(format!("strata-trace-{stamp}"));
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };

        for number in 1..=TRIES {
            let path = match number {
                1 => first.clone(),
                _ => first.with_file_name(format!("strata-trace-{stamp}-{number}")),
            };
            let failed = |source| system(&path, "make it", source);
            let above = open_parent(parent).map_err(failed)?;
            let name = path.file_name().unwrap_or_default();
            match rustix::fs::mkdirat(&above, name, Mode::RWXU) {
                Ok(()) => match take_new(&path, Arc::new(above), name) {
                    Ok(TakenFolder::Folder(folder)) => return Ok(folder),
                    Ok(TakenFolder::Removed) | Err(FolderError::InUse { .. }) => {}
                    Err(error) => return Err(error),
                },
                Err(Errno::EXIST) => {}
                Err(source) => return Err(failed(source.into())),
            }
        }
        Err(FolderError::AllTaken { path: first })
    }

    /// Marks the folder as that of a snapshot. No reader opens its streams before they are complete.
    pub(crate) fn of_snapshot(self) -> TraceFolder {
        TraceFolder { is_of_snapshot: true, ..self }
    }

    /// Notes in the end mark which session created the folder, so that the session can remove it later. A folder that
    /// existed before belongs to somebody else and is not marked.
    pub(crate) fn made_by(self, session: Option<&SessionMark>, made: Made) -> TraceFolder {
        let name = self.made.as_ref().map(|(_, name)| name);
        let session = session.zip(name).map(|(mark, name)| mark.of(made, name));
        TraceFolder { session, ..self }
    }

    /// Releases the lock, so that readers take the folder for finished. Other descriptors of the folder may stay
    /// open for a moment.
    pub(crate) fn unlock(&self) {
        // Without locks on this file system, nobody waits for one.
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    /// Returns the size of the files in the folder \[byte\].
    pub(crate) fn disk_bytes(&self) -> u64 {
        bytes_in(self.fd.as_fd(), DEPTH_MAX)
    }

    /// Returns the path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder for the trace of a process, in the folder of the process's layer. `name`, `pid`: its
    /// name and process id.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn process(
        &mut self,
        layer: &str,
        name: &[u8],
        pid: u32,
    ) -> Result<Directory, strata_collect::Error> {
        let below = self.path.join(layer);
        let layer = match self.layers.entry(layer.to_owned()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let layer = OsStr::new(entry.key());
                make_channel(self.fd.as_fd(), &self.path, entry.key())?;
                self.names.insert(top(entry.key()).to_owned());
                let made = Directory::open_or_create_in(self.fd.as_fd(), layer, &below)?;
                entry.insert(made)
            }
        };
        let name = free_name(layer, name, pid);
        let made = Directory::create_in(layer.as_fd(), &name, &below.join(&name))?;
        made.begin()?;
        Ok(made)
    }

    /// Creates a folder for the only trace of a layer.
    ///
    /// # Errors
    /// The error of the system call.
    fn layer(&mut self, layer: &str) -> Result<Directory, strata_collect::Error> {
        let path = self.path.join(layer);
        make_channel(self.fd.as_fd(), &self.path, layer)?;
        self.names.insert(top(layer).to_owned());
        let made = Directory::create_in(self.fd.as_fd(), OsStr::new(layer), &path)?;
        made.begin()?;
        Ok(made)
    }

    /// Writes the end mark of a recording that still runs, which reserves its space on the disk.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn begin(&self) -> Result<(), FolderError> {
        let mark = EndMark { session: self.session, ..EndMark::RECORDING };
        begin_mark(self.fd.as_fd(), &self.path, &mark)
            .map_err(|error| FolderError::Mark(Box::new(error)))
    }

    /// Writes to the end mark how the recording ended, and what is missing from its traces.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn end(&self, mark: &EndMark) -> Result<(), strata_collect::Error> {
        end_mark(self.fd.as_fd(), &self.path, &EndMark { session: self.session, ..*mark })
    }

    /// Returns a remark if other users can replace the folder, because they may write to its parent.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        self.is_in_open_folder.then(|| {
            format!(
                "the folder that '{}' is in can be written to by everybody: other users can put a \
                 trace of theirs in its place. Use chmod o-w, or -o with another folder",
                self.path.display()
            )
        })
    }

    /// Creates a folder for a chunk of the recording within this folder.
    ///
    /// # Errors
    /// [`FolderError`]; [`FolderError::System`] if the name exists.
    pub(crate) fn chunk(&self, name: &str) -> Result<TraceFolder, FolderError> {
        let path = self.path.join(name);
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => match take_new(&path, Arc::clone(&self.fd), OsStr::new(name))? {
                TakenFolder::Folder(folder) => Ok(folder),
                TakenFolder::Removed => Err(system(&path, "open it", Errno::NOENT.into())),
            },
            Err(error) => Err(system(&path, "make it", error.into())),
        }
    }

    /// Moves the folders that were created in this folder into the folder `chunk`, and keeps their
    /// names.
    ///
    /// # Errors
    /// The error of the system call. Folders that could not be moved stay in place.
    pub(crate) fn give_to(&mut self, chunk: &TraceFolder) -> io::Result<()> {
        self.layers.clear();
        for name in std::mem::take(&mut self.names) {
            match rustix::fs::renameat(&self.fd, &*name, &chunk.fd, &*name) {
                // The folder was already removed, as that of an empty layer is.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Creates a new folder below `above`, which is created if it does not exist. No user except this one and root
    /// may be able to write to `above`, or to make its path name another folder.
    ///
    /// # Errors
    /// [`FolderError`].
    pub(crate) fn settled_in(above: &Path, stamp: &str) -> Result<TraceFolder, FolderError> {
        let above = safe_path::own(above)?;
        let found = fs::metadata(&above).map_err(|error| system(&above, "look at it", error))?;
        let mode = std::os::unix::fs::MetadataExt::mode(&found) & 0o7777;
        if mode & (libc::S_IWOTH | libc::S_IWGRP) != 0 {
            return Err(FolderError::OpenToAll { path: above, mode });
        }
        TraceFolder::create_by_time(&above, stamp)
    }

    /// Returns the free space on the folder's file system \[byte\].
    pub(crate) fn room(&self) -> Option<u64> {
        self.free().map(|(free, _)| free)
    }

    /// Returns the free space on the folder's file system, and the size of that file system \[byte\].
    pub(crate) fn free(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::fstatvfs(&self.fd).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some((bytes(found.f_bavail), bytes(found.f_blocks)))
    }

    /// Returns the folder's descriptor, for [`TraceFolder::give_parts_to`].
    pub(crate) fn place(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// Moves all chunks to another folder, on any file system, and removes this folder.
    ///
    /// # Errors
    /// The error of the system call. Chunks that could not be copied stay in place.
    pub(crate) fn give_parts_to(&self, to: &OwnedFd) -> io::Result<()> {
        give_all(&self.fd, to, &part_names(&self.fd)?)?;
        remove_mark(self.fd.as_fd());
        self.remove_if_empty();
        Ok(())
    }

    /// Opens the folder of a recording that was killed, in order to continue there. Returns the folder and the names of
    /// its chunks.
    ///
    /// # Errors
    /// [`FolderError`].
    pub(crate) fn go_on(path: &Path) -> Result<(TraceFolder, Vec<String>), FolderError> {
        let failed = |what| move |error: Errno| system(path, what, error.into());
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = path.file_name().ok_or(Errno::INVAL).map_err(failed("use it"))?;
        let above = open_parent(parent.unwrap_or(Path::new(".")));
        let above = above.map_err(|source| system(path, "open it", source))?;
        let fd = open_existing(path, &above, name)?;
        let found = rustix::fs::fstat(&fd).map_err(failed("look at it"))?;
        if found.st_mode & (libc::S_IWOTH | libc::S_IWGRP) != 0 {
            let mode = found.st_mode & 0o7777;
            return Err(FolderError::OpenToAll { path: path.to_owned(), mode });
        }
        let names = part_names(&fd).map_err(failed("read it"))?;
        match taken(path, fd)? {
            TakenFolder::Folder(folder) => Ok((folder, names)),
            TakenFolder::Removed => Err(failed("use it")(Errno::NOENT)),
        }
    }

    /// Opens a chunk of the earlier recording; `None` if it does not belong to this user.
    pub(crate) fn chunk_of_before(&self, name: &str) -> Option<TraceFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).ok()?;
        if rustix::fs::fstat(&fd).ok()?.st_uid != geteuid().as_raw() {
            return None;
        }
        match taken(&self.path.join(name), fd).ok()? {
            TakenFolder::Folder(folder) => {
                Some(TraceFolder { made: Some((Arc::clone(&self.fd), name.into())), ..folder })
            }
            TakenFolder::Removed => None,
        }
    }

    /// Removes the folder with its content, unless its path names another folder by now. Files of
    /// other users stay.
    ///
    /// # Errors
    /// Why the folder is still there, or another one is in its place.
    pub(crate) fn remove_all(&self) -> Result<(), String> {
        if !self.is_named() {
            return Err("its name leads to something else by now, which stays".to_owned());
        }
        self.clear();
        let Some((above, name)) = &self.made else { return Ok(()) };
        rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
            .map_err(|error| format!("its remaining content cannot be removed: {error}"))
    }

    /// Returns whether the folder's path still names this folder.
    fn is_named(&self) -> bool {
        let Some((above, name)) = &self.made else { return false };
        let there = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(there), Ok(ours)) = (there, rustix::fs::fstat(&self.fd)) else { return false };
        (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    }

    /// Removes this user's files and folders in the folder. Files of other users stay.
    pub(crate) fn clear(&self) {
        clear(self.fd.as_fd(), DEPTH_MAX);
    }

    /// Removes the folder if this session made it and it is empty.
    pub fn remove_if_empty(&self) -> bool {
        if is_empty(&self.fd).unwrap_or(false) {
            remove_mark(self.fd.as_fd());
        }
        let Some((above, name)) = &self.made else { return false };
        self.is_named() && rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR).is_ok()
    }
}

/// Returns the top folder of a layer's path: the channel's folder, or the layer's own.
fn top(layer: &str) -> &str {
    layer.split_once('/').map_or(layer, |(channel, _)| channel)
}

/// Returns the number of a chunk from its name, such as `0012-20260131-235959`; `None` if the name has another form.
pub(crate) fn chunk_number(name: &str) -> Option<u64> {
    let (number, stamp) = name.split_once('-')?;
    let (date, time) = stamp.split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_form = number.len() >= 4 && date.len() == 8 && time.len() == 6;
    let is_name = has_form && [number, date, time].into_iter().all(is_number);
    number.parse().ok().filter(|_| is_name)
}

/// Lists the chunks in a folder, in order.
fn part_names(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(chunk_number(&name).map(|number| (number, name)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Returns whether the folder contains chunks of a recording.
#[must_use]
pub fn has_parts(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let names = rustix::fs::open(path, flags, Mode::empty()).and_then(|fd| part_names(&fd));
    names.is_ok_and(|names| !names.is_empty())
}

/// Returns whether the path is a folder of this user that is not reached through a link of another user. The name
/// alone proves nothing, since others may have taken it.
pub(crate) fn is_own(path: &Path) -> bool {
    let of_user = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
    let is_reached = path.symlink_metadata().is_ok_and(|found| is_trusted(found.uid()));
    is_reached && path.metadata().is_ok_and(of_user)
}

/// Lists the folders of a recording: those of its chunks, the latest first, then the recording's own.
pub(crate) fn parts_of(path: &Path) -> Vec<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let names = rustix::fs::open(path, flags, Mode::empty()).and_then(|fd| part_names(&fd));
    let parts = names.unwrap_or_default().into_iter().rev().map(|name| path.join(name));
    parts.chain([path.to_owned()]).collect()
}

/// Lists the traces in a layer's folder that belong to processes with this process id, whatever their names; the latest
/// first.
pub(crate) fn traces_of(layer: &Path, pid: u32) -> Vec<PathBuf> {
    let number = |name: &str| {
        let end = |text: &str| text.strip_suffix(&format!("-{pid}")).map(str::len);
        match (end(name), name.rsplit_once('-')) {
            (Some(_), _) => Some(1),
            (None, Some((base, again))) => end(base).and_then(|_| again.parse::<u64>().ok()),
            (None, None) => None,
        }
    };
    let entries = fs::read_dir(layer).into_iter().flatten().take(ENTRIES_MAX).flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| Some((number(&entry.file_name().to_string_lossy())?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Creates the folder of a channel, if the layer's path contains one: `channel/user`.
fn make_channel(
    folder: BorrowedFd<'_>,
    path: &Path,
    layer: &str,
) -> Result<(), strata_collect::Error> {
    let Some((channel, _)) = layer.split_once('/') else { return Ok(()) };
    Directory::open_or_create_in(folder, OsStr::new(channel), &path.join(channel)).map(drop)
}

fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a folder that was just created. Removes it again if it cannot be used.
fn take_new(path: &Path, above: Arc<OwnedFd>, name: &OsStr) -> Result<TakenFolder, FolderError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let taken = match rustix::fs::openat(&above, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(TakenFolder::Removed),
        Err(error) => Err(system(path, "open it", error.into())),
        Ok(fd) => check_owner(path, &fd).and_then(|()| take(path, fd)),
    };
    match taken {
        Ok(TakenFolder::Folder(folder)) => {
            Ok(TakenFolder::Folder(TraceFolder { made: Some((above, name.to_owned())), ..folder }))
        }
        Err(error @ FolderError::System { .. }) => {
            let _ = rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR);
            Err(error)
        }
        other => other,
    }
}

/// Opens an existing folder. Follows a link only if it belongs to this user or to root.
fn open_existing(path: &Path, above: &OwnedFd, name: &OsStr) -> Result<OwnedFd, FolderError> {
    let failed = |error: Errno| match error {
        Errno::NOTDIR | Errno::LOOP => FolderError::NotFolder { path: path.to_owned() },
        _ => system(path, "read it", error.into()),
    };
    let found = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    let is_link = found.st_mode & libc::S_IFMT == libc::S_IFLNK;
    if is_link && !is_trusted(found.st_uid) {
        return Err(FolderError::NotOurs { path: path.to_owned(), owner: found.st_uid });
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let flags = if is_link { flags } else { flags | OFlags::NOFOLLOW };
    let fd = rustix::fs::openat(above, name, flags, Mode::empty()).map_err(failed)?;
    check_owner(path, &fd)?;
    Ok(fd)
}

/// Checks that no other user can read the trace or add files, by way of the folder's owner, group, access list or
/// path.
fn check_owner(path: &Path, fd: &OwnedFd) -> Result<(), FolderError> {
    let found = rustix::fs::fstat(fd);
    let found = found.map_err(|error| system(path, "look at it", error.into()))?;
    if !is_trusted(found.st_uid) {
        return Err(FolderError::NotOurs { path: path.to_owned(), owner: found.st_uid });
    }
    // For a folder with content, take() reports the error.
    if found.st_mode & libc::S_IWOTH != 0 && is_empty(fd).unwrap_or(false) {
        let mode = found.st_mode & 0o7777;
        return Err(FolderError::OpenToAll { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Locks the folder and checks that it is empty.
fn take(path: &Path, fd: OwnedFd) -> Result<TakenFolder, FolderError> {
    let taken = taken(path, fd)?;
    if let TakenFolder::Folder(TraceFolder { fd, .. }) = &taken {
        if !is_empty(fd).map_err(|error| system(path, "read it", error.into()))? {
            return Err(FolderError::NotEmpty { path: path.to_owned() });
        }
    }
    Ok(taken)
}

/// Locks the folder without looking at its content.
fn taken(path: &Path, fd: OwnedFd) -> Result<TakenFolder, FolderError> {
    let failed = |what| move |error: Errno| system(path, what, error.into());
    // Network file systems may not support locks on folders.
    if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(FolderError::InUse { path: path.to_owned() });
    }
    if rustix::fs::fstat(&fd).map_err(failed("look at it"))?.st_nlink == 0 {
        return Ok(TakenFolder::Removed);
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(&fd, ".", access, AtFlags::EACCESS).map_err(failed("write to it"))?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let above = rustix::fs::openat(&fd, "..", flags, Mode::empty()).map_err(failed("open it"))?;
    let above = rustix::fs::fstat(&above).map_err(failed("look at it"))?.st_mode;
    Ok(TakenFolder::Folder(TraceFolder {
        path: path.to_owned(),
        is_in_open_folder: above & libc::S_IWOTH != 0 && above & libc::S_ISVTX == 0,
        fd: Arc::new(fd),
        made: None,
        layers: HashMap::new(),
        names: BTreeSet::new(),
        is_of_snapshot: false,
        session: None,
    }))
}

/// Returns whether the folder is empty, or has only the mark of a killed recording that had recorded nothing.
fn is_empty(fd: &OwnedFd) -> Result<bool, Errno> {
    for entry in rustix::fs::Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && name != FILE.as_bytes() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a name in the layer's folder that no other process's folder has.
fn free_name(layer: &Directory, name: &[u8], pid: u32) -> OsString {
    let mut base = sanitised(name);
    base.extend_from_slice(format!("-{pid}").as_bytes());
    let called = |number: u64| match number {
        1 => OsString::from_vec(base.clone()),
        _ => OsString::from_vec([&base[..], format!("-{number}").as_bytes()].concat()),
    };
    // Only the folder knows which names are taken. They are assigned in order, so the first free number lies between a
    // taken one and a free one.
    let is_taken = |number| {
        rustix::fs::statat(layer.as_fd(), called(number), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    let (mut taken, mut free) = (0, 1);
    while is_taken(free) && free < u64::MAX / 2 {
        (taken, free) = (free, free * 2);
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        match is_taken(middle) {
            true => taken = middle,
            false => free = middle,
        }
    }
    called(free)
}

/// Returns a file name made from `name`: letters, digits, `.`, `_`, `+` and `-` are kept, other bytes become `_`, and a
/// leading `.` is replaced.
fn sanitised(name: &[u8]) -> Vec<u8> {
    let mut clean: Vec<u8> = name
        .iter()
        .take(NAME_BYTES_MAX)
        .map(|&byte| match byte {
            b'.' | b'_' | b'+' | b'-' => byte,
            _ if byte.is_ascii_alphanumeric() => byte,
            _ => b'_',
        })
        .collect();
    match clean.first_mut() {
        None => b"unnamed".to_vec(),
        Some(first) => {
            if *first == b'.' || *first == b'-' {
                *first = b'_';
            }
            clean
        }
    }
}

/// The time of an event such as the start of a trace, in this machine's time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeStamp {
    /// The time in a folder's name: `20260131-235959`.
    pub(crate) name: String,
    /// The time in ISO 8601: `20260131T235959+0100`.
    pub(crate) iso: String,
}

impl TimeStamp {
    /// Reads the present time.
    ///
    /// # Errors
    /// The error of the system for a time that its calendar does not have.
    pub(crate) fn now() -> io::Result<TimeStamp> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
        // SAFETY: all bytes 0 is a valid value of this plain C structure.
        let mut parts: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both point to values that live through the call, which keeps neither.
        let converted = unsafe { libc::localtime_r(&now, &mut parts) };
        if converted.is_null() {
            return Err(io::Error::last_os_error());
        }
        let date = format!(
            "{:04}{:02}{:02}",
            i64::from(parts.tm_year) + 1900,
            parts.tm_mon + 1,
            parts.tm_mday
        );
        let time = format!("{:02}{:02}{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
        let minutes = parts.tm_gmtoff / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let zone = format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60);
        Ok(TimeStamp { name: format!("{date}-{time}"), iso: format!("{date}T{time}{zone}") })
    }
}

/// Returns the present time as it appears in names of folders, `20261123-094500`.
///
/// # Errors
/// The error of the system for a time that its calendar does not have.
pub fn time_name() -> io::Result<String> {
    TimeStamp::now().map(|stamp| stamp.name)
}

#[cfg(test)]
mod tests;
