//! A file that is there under its name when it is complete, and not before.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

/// Names that are tried for the hidden file.
const TRIES: u32 = 100;

/// A file that is being written under a hidden name beside its own; it goes with this value.
#[derive(Debug)]
pub(super) struct Output {
    name: PathBuf,
    file: File,
    /// None: it is no plain file (a pipe, a device), and is written as it is.
    hidden: Option<PathBuf>,
    force: bool,
}

impl Output {
    /// Begin to write; what exists is left alone unless `force`.
    pub(super) fn create(name: &Path, force: bool) -> Result<Output> {
        let shown = name.display();
        let failed = || format!("export: cannot write {shown}");
        match fs::metadata(name) {
            Ok(found) if found.is_dir() => {
                bail!("export: {shown} is a folder. Use -o with a file's name")
            }
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(name).with_context(failed)?;
                return Ok(Output { name: name.to_owned(), file, hidden: None, force });
            }
            Ok(_) if !force => bail!(exists(name)),
            _ => {}
        }
        // A link stays, and what it leads to is replaced.
        let name = fs::canonicalize(name).unwrap_or_else(|_| name.to_owned());
        let Some(last) = name.file_name() else {
            bail!("export: {shown} is no file's name. Use -o with one")
        };
        for number in 0..TRIES {
            let hidden = name.with_file_name(hidden_name(last, number));
            match OpenOptions::new().write(true).create_new(true).open(&hidden) {
                Ok(file) => return Ok(Output { name, file, hidden: Some(hidden), force }),
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

    /// It is complete: give it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        // Somebody may have made one in the meantime.
        if !self.force && self.name.symlink_metadata().is_ok() {
            bail!(exists(&self.name));
        }
        fs::rename(hidden, &self.name)?;
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_file(hidden);
        }
    }
}

fn exists(name: &Path) -> String {
    format!("export: {} exists. Use -o with another name, or --force to replace it", name.display())
}

/// File systems have names of up to 255 bytes.
fn hidden_name(name: &OsStr, number: u32) -> OsString {
    let mut hidden = OsString::from(".");
    if name.len() <= 200 {
        hidden.push(name);
        hidden.push(".");
    }
    hidden.push(format!("strata-{}-{number}", std::process::id()));
    hidden
}
