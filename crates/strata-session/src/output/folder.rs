//! Where a trace goes: its folder, and one folder in it for each process.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use strata_collect::{begin_mark, end_mark, remove_mark, Counts, Directory, Files, Output, Sink};
use strata_ctf::end_mark::{EndMark, FILE};

use crate::session::lock::lock;
use refused::{is_trusted, system, TRIES};
use tree::{clear, give_all, DEPTH_MAX};

mod refused;
mod tree;
mod way;

pub use refused::FolderError;

/// Longest part of a process' name that its folder has \[byte\].
const NAME_BYTES_MAX: usize = 64;
/// So many entries of a layer's folder are looked at.
const ENTRIES_MAX: usize = 1 << 16;
/// What stream files are called, before the number of their CPU.
pub(crate) const STREAMS: &str = "channel0";

/// The file of a stream in a trace's folder.
pub(crate) fn stream_file(number: u32) -> String {
    format!("{STREAMS}_{number}")
}

/// The folder of one trace, which is this session's alone while this lives.
///
/// It is held open and locked. Everything in it is made below this descriptor, so that nobody who can write to
/// a folder above leads this program elsewhere; and a lock ends with its program, however that ends.
#[derive(Debug)]
pub struct TraceFolder {
    path: PathBuf,
    fd: Arc<OwnedFd>,
    /// Everybody can move its name, or could when it was taken.
    is_in_open_folder: bool,
    /// Where it was made, and its name there.
    made: Option<(Arc<OwnedFd>, OsString)>,
    layers: HashMap<String, Directory>,
    /// The folders that were made in it.
    names: BTreeSet<String>,
    is_of_snapshot: bool,
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
        // What cannot be removed stays, and can be read: it is empty.
        for name in directory.names().unwrap_or_default() {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
        let _ = rustix::fs::unlinkat(&self.fd, layer, AtFlags::REMOVEDIR);
        if let Some((channel, _)) = layer.split_once('/') {
            let _ = rustix::fs::unlinkat(&self.fd, channel, AtFlags::REMOVEDIR);
        }
    }
}

/// The output of a channel: a folder in that of the session, if it has a name.
struct Below {
    name: String,
    output: Arc<Mutex<dyn Output>>,
}

/// Where the traces of a channel go: below the folder of this name, whose characters are those of channels.
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

/// What one try to have a folder gives.
enum TakenFolder {
    Folder(TraceFolder),
    /// It was removed while it was looked at.
    Removed,
}

impl TraceFolder {
    /// Make the folder `path`, or use it if it is there, empty, this user's, and in nobody's use.
    ///
    /// Others cannot read it: a trace may tell of any process that this user can trace.
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
            // `.`, `/`, `a/..`
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

    /// Make a new folder below `parent`, called by the time: `strata-trace-20260131-235959`, with `-2`
    /// and so on if there is one.
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

    /// The same for a snapshot, in which nobody looks at a stream before it is whole.
    pub(crate) fn of_snapshot(self) -> TraceFolder {
        TraceFolder { is_of_snapshot: true, ..self }
    }

    /// Its path, as it was given to whoever made it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Make a folder for the trace of the process `name` with the number `pid`, in the folder of its
    /// layer.
    ///
    /// # Errors
    /// What the system says.
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

    /// Make a folder for the one trace of a layer.
    ///
    /// # Errors
    /// What the system says.
    fn layer(&mut self, layer: &str) -> Result<Directory, strata_collect::Error> {
        let path = self.path.join(layer);
        make_channel(self.fd.as_fd(), &self.path, layer)?;
        self.names.insert(top(layer).to_owned());
        let made = Directory::create_in(self.fd.as_fd(), OsStr::new(layer), &path)?;
        made.begin()?;
        Ok(made)
    }

    /// Sets room aside for the end mark of the whole recording.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin(&self) -> Result<(), FolderError> {
        begin_mark(self.fd.as_fd(), &self.path).map_err(|error| FolderError::Mark(Box::new(error)))
    }

    /// Says how the recording ended, and what of it is in no trace.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn end(&self, mark: &EndMark) -> Result<(), strata_collect::Error> {
        end_mark(self.fd.as_fd(), &self.path, mark)
    }

    /// What should be known of the folder that it is in: who else can give its name to another one.
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

    /// Makes a folder for a part of the recording, in this one.
    ///
    /// # Errors
    /// [`FolderError`]; of a name that is there [`FolderError::System`].
    pub(crate) fn part(&self, name: &str) -> Result<TraceFolder, FolderError> {
        let path = self.path.join(name);
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => match take_new(&path, Arc::clone(&self.fd), OsStr::new(name))? {
                TakenFolder::Folder(folder) => Ok(folder),
                TakenFolder::Removed => Err(system(&path, "open it", Errno::NOENT.into())),
            },
            Err(error) => Err(system(&path, "make it", error.into())),
        }
    }

    /// The folders in it that were made here go to a part of it, under their names.
    ///
    /// # Errors
    /// What the system says. Those that could not be moved are where they were.
    pub(crate) fn give_to(&mut self, part: &TraceFolder) -> io::Result<()> {
        self.layers.clear();
        for name in std::mem::take(&mut self.names) {
            match rustix::fs::renameat(&self.fd, &*name, &part.fd, &*name) {
                // It was removed, as a layer's in which nothing was.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A new folder in `above`, which is made if it is not there. Nobody but this user and root may write to it, or decides
    /// where it is.
    ///
    /// # Errors
    /// [`FolderError`].
    pub(crate) fn settled_in(above: &Path, stamp: &str) -> Result<TraceFolder, FolderError> {
        let above = way::own(above)?;
        let found = fs::metadata(&above).map_err(|error| system(&above, "look at it", error))?;
        let mode = std::os::unix::fs::MetadataExt::mode(&found) & 0o7777;
        if mode & (libc::S_IWOTH | libc::S_IWGRP) != 0 {
            return Err(FolderError::OpenToAll { path: above, mode });
        }
        TraceFolder::create_by_time(&above, stamp)
    }

    /// What can still be written where it is \[byte\].
    pub(crate) fn room(&self) -> Option<u64> {
        self.free().map(|(free, _)| free)
    }

    /// The same, and all that there is \[byte\].
    pub(crate) fn free(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::fstatvfs(&self.fd).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some((bytes(found.f_bavail), bytes(found.f_blocks)))
    }

    /// For [`TraceFolder::give_parts_to`].
    pub(crate) fn place(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// All parts in it go to another folder, wherever that is; and it goes.
    ///
    /// # Errors
    /// What the system says. What could not be copied is where it was.
    pub(crate) fn give_parts_to(&self, to: &OwnedFd) -> io::Result<()> {
        give_all(&self.fd, to, &part_names(&self.fd)?)?;
        remove_mark(self.fd.as_fd());
        self.remove_if_empty();
        Ok(())
    }

    /// The folder of a recording that was killed, with its parts, whose names are given: it goes on there.
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

    /// A part that was made by the recording before; `None`: it is not this user's.
    pub(crate) fn part_of_before(&self, name: &str) -> Option<TraceFolder> {
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

    /// Removes it, with what is in it, if its name still leads to it. What anybody else has put there stays.
    ///
    /// # Errors
    /// Why it is still there, or another one in its place.
    pub(crate) fn remove_all(&self) -> Result<(), String> {
        if !self.is_named() {
            return Err("its name leads to something else by now, which stays".to_owned());
        }
        self.clear();
        let Some((above, name)) = &self.made else { return Ok(()) };
        rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
            .map_err(|error| format!("what is left in it cannot be removed: {error}"))
    }

    /// Does the name under which it was made still lead to it?
    fn is_named(&self) -> bool {
        let Some((above, name)) = &self.made else { return false };
        let there = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(there), Ok(ours)) = (there, rustix::fs::fstat(&self.fd)) else { return false };
        (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    }

    /// Removes what is in it: files and folders of this user. What anybody else has put there stays.
    pub(crate) fn clear(&self) {
        clear(self.fd.as_fd(), DEPTH_MAX);
    }

    /// Remove the folder if this session made it and nothing is in it.
    pub fn remove_if_empty(&self) -> bool {
        if is_empty(&self.fd).unwrap_or(false) {
            remove_mark(self.fd.as_fd());
        }
        let Some((above, name)) = &self.made else { return false };
        self.is_named() && rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR).is_ok()
    }
}

/// The name of the folder in the recording's in which a layer's is.
fn top(layer: &str) -> &str {
    layer.split_once('/').map_or(layer, |(channel, _)| channel)
}

/// The number of a part, by its name: `0012-20260131-235959`.
pub(crate) fn part_number(name: &str) -> Option<u64> {
    let (number, stamp) = name.split_once('-')?;
    let (date, time) = stamp.split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_form = number.len() >= 4 && date.len() == 8 && time.len() == 6;
    let is_name = has_form && [number, date, time].into_iter().all(is_number);
    number.parse().ok().filter(|_| is_name)
}

/// Of the parts that are in a folder, in their order.
fn part_names(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(part_number(&name).map(|number| (number, name)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Are there parts of a recording in this folder?
#[must_use]
pub fn has_parts(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let names = rustix::fs::open(path, flags, Mode::empty()).and_then(|fd| part_names(&fd));
    names.is_ok_and(|names| !names.is_empty())
}

/// Is it a folder of this user, which no link of others leads to? A name alone says nothing: others may have taken it.
pub(crate) fn is_own(path: &Path) -> bool {
    let of_user = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
    let is_reached = path.symlink_metadata().is_ok_and(|found| is_trusted(found.uid()));
    is_reached && path.metadata().is_ok_and(of_user)
}

/// Where a recording has written, the last one first: its parts, and the folder itself.
pub(crate) fn parts_of(path: &Path) -> Vec<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let names = rustix::fs::open(path, flags, Mode::empty()).and_then(|fd| part_names(&fd));
    let parts = names.unwrap_or_default().into_iter().rev().map(|name| path.join(name));
    parts.chain([path.to_owned()]).collect()
}

/// The traces of processes of this number in the folder of a layer, whatever they are called; the last one first.
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

/// The folder of a channel, if the layer is one of a channel's.
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

/// The folder that was made a moment ago; it goes again if it cannot be used.
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

/// A folder that was there before, or what a link of this user or of root leads to.
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

/// A folder of another user would give that one the trace: by its group, its access list, or a name that is
/// moved; and one that others can write to may get files of theirs.
fn check_owner(path: &Path, fd: &OwnedFd) -> Result<(), FolderError> {
    let found = rustix::fs::fstat(fd);
    let found = found.map_err(|error| system(path, "look at it", error.into()))?;
    if !is_trusted(found.st_uid) {
        return Err(FolderError::NotOurs { path: path.to_owned(), owner: found.st_uid });
    }
    // Of one that is full, take() says that.
    if found.st_mode & libc::S_IWOTH != 0 && is_empty(fd).unwrap_or(false) {
        let mode = found.st_mode & 0o7777;
        return Err(FolderError::OpenToAll { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Lock it, and see that it is empty.
fn take(path: &Path, fd: OwnedFd) -> Result<TakenFolder, FolderError> {
    let taken = taken(path, fd)?;
    if let TakenFolder::Folder(TraceFolder { fd, .. }) = &taken {
        if !is_empty(fd).map_err(|error| system(path, "read it", error.into()))? {
            return Err(FolderError::NotEmpty { path: path.to_owned() });
        }
    }
    Ok(taken)
}

/// Lock it, whatever is in it.
fn taken(path: &Path, fd: OwnedFd) -> Result<TakenFolder, FolderError> {
    let failed = |what| move |error: Errno| system(path, what, error.into());
    // Network file systems may have no lock for folders.
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
    }))
}

/// Nothing is in it; or a mark alone, which a killed recording has left that had recorded nothing.
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

/// A name in the layer's folder that no other process has.
fn free_name(layer: &Directory, name: &[u8], pid: u32) -> OsString {
    let mut base = sanitised(name);
    base.extend_from_slice(format!("-{pid}").as_bytes());
    let called = |number: u64| match number {
        1 => OsString::from_vec(base.clone()),
        _ => OsString::from_vec([&base[..], format!("-{number}").as_bytes()].concat()),
    };
    // The folder itself knows which are taken. They are given one after the other: the first free number lies
    // between one that is taken and one that is not.
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

/// A file name made of `name`: letters, digits, `.`, `_`, `+` and `-`, the rest `_`; no `.` in front.
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

/// Now, in this machine's time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeStamp {
    /// For a folder's name: `20260131-235959`.
    pub(crate) name: String,
    /// ISO 8601: `20260131T235959+0100`.
    pub(crate) iso: String,
}

impl TimeStamp {
    /// Now.
    ///
    /// # Errors
    /// What the system said of a time that its calendar does not have.
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

/// The time as it stands in the names of folders, `20261123-094500`.
///
/// # Errors
/// What the system said of a time that its calendar does not have.
pub fn time_name() -> io::Result<String> {
    TimeStamp::now().map(|stamp| stamp.name)
}

#[cfg(test)]
mod tests;
