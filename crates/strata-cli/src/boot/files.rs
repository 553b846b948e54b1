//! Writes root's files in folders that other programs also use: follows no link, and leaves files that are not ours.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// First line of the files that `strata install-boot` makes.
pub const MARK: &str = "# Made by `strata install-boot`, which removes it with --remove.\n";

/// A system's root folder, held open.
pub struct SystemRoot {
    fd: OwnedFd,
    path: PathBuf,
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Splits a path into its folder and its name.
fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl SystemRoot {
    pub fn open(path: &Path) -> Result<SystemRoot> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, Mode::empty())
            .with_context(|| format!("root folder '{}'", path.display()))?;
        let root = SystemRoot { fd, path: path.to_owned() };
        root.check(&root.fd, "")?;
        Ok(root)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn shown(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }

    /// Checks that no other user can change the folder, since its files decide what root runs.
    fn check(&self, fd: &OwnedFd, path: &str) -> Result<()> {
        let found = fs::fstat(fd).with_context(|| self.shown(path))?;
        let ours = rustix::process::geteuid().as_raw();
        let mode = found.st_mode & 0o7777;
        if ![0, ours].contains(&found.st_uid) || mode & 0o022 != 0 {
            bail!(
                "folder '{}': belongs to user {}, mode {mode:o}: others could change what root runs at boot. Use chown \
                 and chmod go-w",
                self.shown(path),
                found.st_uid
            );
        }
        Ok(())
    }

    /// Opens a folder below the root, after making it if `makes` is set. Returns `None` if it does not exist.
    fn folder(&self, path: &str, makes: bool) -> Result<Option<OwnedFd>> {
        let mut now = self.fd.try_clone()?;
        let mut so_far = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            so_far = if so_far.is_empty() { name.to_owned() } else { format!("{so_far}/{name}") };
            if makes {
                match fs::mkdirat(&now, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => {
                        return Err(error)
                            .context(format!("make the folder '{}'", self.shown(&so_far)))
                    }
                }
            }
            now = match fs::openat(&now, name, FOLDER, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) if !makes => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    bail!("'{}': is a link or a file, and not a folder", self.shown(&so_far))
                }
                Err(error) => {
                    return Err(error).context(format!("open the folder '{}'", self.shown(&so_far)))
                }
            };
            self.check(&now, &so_far)?;
        }
        Ok(Some(now))
    }

    /// Returns true if the file exists and was made by this command; any other file is an error.
    pub fn check_ours(&self, path: &str) -> Result<bool> {
        let (above, name) = parts(path);
        let Some(folder) = self.folder(above, false)? else { return Ok(false) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut text = vec![0; MARK.len()];
        match fs::openat(&folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(false),
            Ok(fd) => {
                let is_read = std::fs::File::from(fd).read_exact(&mut text).is_ok();
                if is_read && text == MARK.as_bytes() {
                    return Ok(true);
                }
            }
            Err(_) => {}
        }
        bail!(
            "'{}': is there, and was not made by install-boot. Use another name for the session, or remove it",
            self.shown(path)
        )
    }

    /// Returns true if the link exists and leads to `target`; anything else is an error.
    pub fn check_link(&self, path: &str, target: &str) -> Result<bool> {
        let (above, name) = parts(path);
        let Some(folder) = self.folder(above, false)? else { return Ok(false) };
        match fs::readlinkat(&folder, name, Vec::new()) {
            Ok(found) if found.as_bytes() == target.as_bytes() => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            _ => bail!("'{}': is there, and is no link to '{target}'. Remove it", self.shown(path)),
        }
    }

    /// Writes a file completely, or not at all.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let (above, name) = parts(path);
        let failed = || format!("write '{}'", self.shown(path));
        let Some(folder) = self.folder(above, true)? else { return Ok(()) };
        let beside = format!(".{name}.{}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = fs::unlinkat(&folder, &*beside, AtFlags::empty());
        let mode = Mode::from_raw_mode(0o644);
        let fd = fs::openat(&folder, &*beside, flags, mode).with_context(failed)?;
        let mut file = std::fs::File::from(fd);
        // Independent of the umask, since systemd's tools also read units as other users.
        let written = fs::fchmod(&file, mode).map_err(std::io::Error::from);
        let written = written.and_then(|()| file.write_all(text.as_bytes()));
        let written = written.and_then(|()| file.sync_all());
        let written = written.and_then(|()| Ok(fs::renameat(&folder, &*beside, &folder, name)?));
        if written.is_err() {
            let _ = fs::unlinkat(&folder, &*beside, AtFlags::empty());
        }
        written.with_context(failed)
    }

    pub fn link(&self, path: &str, target: &str) -> Result<()> {
        if self.check_link(path, target)? {
            return Ok(());
        }
        let (above, name) = parts(path);
        let Some(folder) = self.folder(above, true)? else { return Ok(()) };
        let made = fs::symlinkat(target, &folder, name);
        made.with_context(|| format!("make the link '{}'", self.shown(path)))
    }

    /// Removes a file, and returns true if it existed.
    pub fn remove(&self, path: &str) -> Result<bool> {
        let (above, name) = parts(path);
        let Some(folder) = self.folder(above, false)? else { return Ok(false) };
        match fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error).context(format!("remove '{}'", self.shown(path))),
        }
    }

    pub fn remove_ours(&self, path: &str) -> Result<bool> {
        Ok(self.check_ours(path)? && self.remove(path)?)
    }

    pub fn remove_link(&self, path: &str, target: &str) -> Result<bool> {
        Ok(self.check_link(path, target)? && self.remove(path)?)
    }

    /// Removes a folder, if it is empty.
    pub fn remove_folder(&self, path: &str) -> Result<()> {
        let (above, name) = parts(path);
        if let Some(folder) = self.folder(above, false)? {
            let _ = fs::unlinkat(&folder, name, AtFlags::REMOVEDIR);
        }
        Ok(())
    }
}
