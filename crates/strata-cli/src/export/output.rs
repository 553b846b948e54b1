//! A file that gets its name only when it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use rustix::fs::{link, renameat_with, unlink, RenameFlags, CWD};
use rustix::io::Errno;

use super::device;

/// The most hidden names that are tried.
pub(super) const TRIES: u32 = 100;

/// A file that is being written under a hidden name next to its own; it is removed with this value unless it was
/// finished.
#[derive(Debug)]
pub(super) struct OutputFile {
    name: PathBuf,
    file: File,
    /// The hidden name of the file; `None` for a pipe or a device, which is written directly.
    hidden: Option<PathBuf>,
    force: bool,
}

impl OutputFile {
    /// Begins to write a file. An existing file is refused unless `force` is set.
    pub(super) fn create(name: &Path, force: bool) -> Result<OutputFile> {
        let shown = name.display();
        let failed = || format!("export: cannot write {shown}");
        match fs::metadata(name) {
            Ok(found) if found.is_dir() => {
                bail!("export: {shown} is a folder. Use -o with a file's name")
            }
            Ok(found) if !found.is_file() => {
                let file = device::open(name)?;
                return Ok(OutputFile { name: name.to_owned(), file, hidden: None, force });
            }
            Ok(_) if !force => bail!(exists(name)),
            // A dangling symbolic link counts as an existing file.
            Err(_) if !force && fs::symlink_metadata(name).is_ok() => bail!(exists(name)),
            _ => {}
        }
        if name.as_os_str().as_bytes().ends_with(b"/") {
            bail!("export: {shown} is a folder's name. Use -o with a file's name")
        }
        // A symbolic link stays; its target is replaced.
        let name = fs::canonicalize(name).unwrap_or_else(|_| name.to_owned());
        let Some(last) = name.file_name() else {
            bail!("export: {shown} is no file's name. Use -o with one")
        };
        for number in 0..TRIES {
            let hidden = name.with_file_name(hidden_name(last, number));
            match OpenOptions::new().write(true).create_new(true).open(&hidden) {
                Ok(file) => return Ok(OutputFile { name, file, hidden: Some(hidden), force }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    bail!("export: cannot write {shown}: there is no such folder. Make it first")
                }
                Err(error) => return Err(error).with_context(failed),
            }
        }
        bail!("export: cannot write {shown}: {TRIES} hidden files beside it. Remove them")
    }

    /// Returns a handle for writing.
    pub(super) fn writer(&self) -> Result<File> {
        self.file.try_clone().context("export: cannot use the file")
    }

    /// Returns the file's hidden name, for formats that are not written sequentially.
    pub(super) fn path(&self) -> &Path {
        self.hidden.as_ref().unwrap_or(&self.name)
    }

    /// Returns the name that the file will get.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Completes the file, which gets its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        let shown = self.name.display();
        if self.force {
            fs::rename(hidden, &self.name)
                .with_context(|| format!("export: cannot write {shown}"))?;
        } else {
            match rename_new(hidden, &self.name) {
                Ok(()) => {}
                // Another program has made a file of this name in the meantime.
                Err(Errno::EXIST) => bail!(exists(&self.name)),
                Err(error) => bail!(
                    "export: cannot write {shown} without replacing what may be there: {error}. Use \
                     --force to replace it, or -o with a name in another file system"
                ),
            }
        }
        self.hidden = None;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Renames the file, or fails if the name exists.
fn rename_new(hidden: &Path, name: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, hidden, CWD, name, RenameFlags::NOREPLACE) {
        // The file system or the kernel lacks the flag.
        Err(Errno::INVAL | Errno::NOSYS) => link_new(hidden, name),
        other => other,
    }
}

/// Renames the file by a link and an unlink, so that it has two names for a moment.
pub(super) fn link_new(hidden: &Path, name: &Path) -> Result<(), Errno> {
    link(hidden, name)?;
    // The file has its name; a remaining hidden name is harmless.
    let _ = unlink(hidden);
    Ok(())
}

pub(super) fn exists(name: &Path) -> String {
    format!("export: {} exists. Use -o with another name, or --force to replace it", name.display())
}

/// Returns a hidden name for a file. It must not exceed the 255 bytes that file systems allow.
pub(super) fn hidden_name(name: &OsStr, number: u32) -> OsString {
    let mut hidden = OsString::from(".");
    if name.len() <= 200 {
        hidden.push(name);
        hidden.push(".");
    }
    hidden.push(format!("strata-{}-{number}", std::process::id()));
    hidden
}
