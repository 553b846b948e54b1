//! A file that is there under its name when it is complete, and not before.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use rustix::fs::{link, renameat_with, unlink, RenameFlags, CWD};
use rustix::io::Errno;

/// Names that are tried for what is hidden.
pub(super) const TRIES: u32 = 100;

/// A file that is being written under a hidden name beside its own; it goes with this value.
#[derive(Debug)]
pub(super) struct OutputFile {
    name: PathBuf,
    file: File,
    /// None: it is no plain file (a pipe, a device), and is written as it is.
    hidden: Option<PathBuf>,
    force: bool,
}

impl OutputFile {
    /// Begin to write; what exists is left alone unless `force`.
    pub(super) fn create(name: &Path, force: bool) -> Result<OutputFile> {
        let shown = name.display();
        let failed = || format!("export: cannot write {shown}");
        match fs::metadata(name) {
            Ok(found) if found.is_dir() => {
                bail!("export: {shown} is a folder. Use -o with a file's name")
            }
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(name).with_context(failed)?;
                return Ok(OutputFile { name: name.to_owned(), file, hidden: None, force });
            }
            Ok(_) if !force => bail!(exists(name)),
            // A link that leads nowhere is there, too.
            Err(_) if !force && fs::symlink_metadata(name).is_ok() => bail!(exists(name)),
            _ => {}
        }
        if name.as_os_str().as_bytes().ends_with(b"/") {
            bail!("export: {shown} is a folder's name. Use -o with a file's name")
        }
        // A link stays, and what it leads to is replaced.
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

    /// Where to write.
    pub(super) fn writer(&self) -> Result<File> {
        self.file.try_clone().context("export: cannot use the file")
    }

    /// The file's hidden name, for what is not written from front to back.
    pub(super) fn path(&self) -> &Path {
        self.hidden.as_ref().unwrap_or(&self.name)
    }

    /// The name that it gets.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// It is complete: give it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        let shown = self.name.display();
        if self.force {
            fs::rename(hidden, &self.name)
                .with_context(|| format!("export: cannot write {shown}"))?;
        } else {
            match rename_new(hidden, &self.name) {
                Ok(()) => {}
                // Somebody has made one in the meantime.
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

/// Gives the file a name that nothing has.
fn rename_new(hidden: &Path, name: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, hidden, CWD, name, RenameFlags::NOREPLACE) {
        // The file system or the kernel has no such flag.
        Err(Errno::INVAL | Errno::NOSYS) => link_new(hidden, name),
        other => other,
    }
}

/// The same by two names for a moment.
pub(super) fn link_new(hidden: &Path, name: &Path) -> Result<(), Errno> {
    link(hidden, name)?;
    // It has its name: a hidden one that stays is harmless.
    let _ = unlink(hidden);
    Ok(())
}

pub(super) fn exists(name: &Path) -> String {
    format!("export: {} exists. Use -o with another name, or --force to replace it", name.display())
}

/// File systems have names of up to 255 bytes.
pub(super) fn hidden_name(name: &OsStr, number: u32) -> OsString {
    let mut hidden = OsString::from(".");
    if name.len() <= 200 {
        hidden.push(name);
        hidden.push(".");
    }
    hidden.push(format!("strata-{}-{number}", std::process::id()));
    hidden
}
