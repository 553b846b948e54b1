//! A folder that gets its name only when it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use rustix::fs::{renameat_with, RenameFlags, CWD};
use rustix::io::Errno;

use strata_ctf::end_mark;

use super::output::{exists, hidden_name, TRIES};

/// Limit on the depth of folders that are checked before one is replaced.
const DEPTH: u32 = 16;

/// A folder that is being filled under a hidden name next to its own; it is removed with this value unless it was
/// finished.
#[derive(Debug)]
pub(super) struct OutputFolder {
    name: PathBuf,
    hidden: Option<PathBuf>,
    force: bool,
}

impl OutputFolder {
    /// Begins to write a trace. An existing folder is refused unless `force` is set and the folder is a trace, or
    /// empty. `sources` are the traces that are read, which must not be replaced.
    pub(super) fn create(name: &Path, force: bool, sources: &[&Path]) -> Result<OutputFolder> {
        let shown = name.display();
        let found = fs::symlink_metadata(name);
        match &found {
            Ok(_) if !force => bail!(exists(name)),
            Ok(found) if !found.is_dir() => {
                bail!("export: {shown} is no folder, and a CTF trace is one. Use -o with another name")
            }
            Ok(_) if !is_replaceable(name, DEPTH) => bail!(
                "export: --force replaces traces only, and {shown} has other files. Use -o with another \
                 name, or remove it"
            ),
            _ => {}
        }
        // A name such as `..` or `a/.` refers to an existing folder.
        let name = fs::canonicalize(name).unwrap_or_else(|_| name.to_owned());
        let Some(last) = name.file_name() else {
            bail!("export: {shown} is no folder's name. Use -o with one")
        };
        let parent = match name.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent = fs::canonicalize(parent).with_context(|| {
            format!("export: cannot write {shown}: there is no such folder. Make it first")
        })?;
        let name = parent.join(last);
        for source in sources {
            let source = fs::canonicalize(source)
                .with_context(|| format!("export: cannot find {}", source.display()))?;
            if name.starts_with(&source) || source.starts_with(&name) {
                bail!(
                    "export: {shown} and the trace {} are one in the other. Use -o with another folder",
                    source.display()
                );
            }
        }
        for number in 0..TRIES {
            let hidden = name.with_file_name(hidden_name(last, number));
            match fs::create_dir(&hidden) {
                Ok(()) => return Ok(OutputFolder { name, hidden: Some(hidden), force }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("export: cannot write {shown}"));
                }
            }
        }
        bail!("export: cannot write {shown}: {TRIES} hidden folders beside it. Remove them")
    }

    /// Returns the folder to write to.
    pub(super) fn path(&self) -> &Path {
        self.hidden.as_ref().unwrap_or(&self.name)
    }

    /// Completes the trace, which gets its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some(hidden) = self.hidden.clone() else { return Ok(()) };
        let shown = self.name.display();
        let failed = |error: Errno| {
            anyhow::anyhow!("export: cannot write {shown}: {error}. Use -o with another name")
        };
        match renameat_with(CWD, &hidden, CWD, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => self.hidden = None,
            Err(Errno::EXIST) if !self.force => bail!(exists(&self.name)),
            Err(Errno::EXIST) => {
                // After the exchange, the hidden folder is the former one, and is removed.
                renameat_with(CWD, &hidden, CWD, &self.name, RenameFlags::EXCHANGE)
                    .map_err(failed)?;
            }
            // The file system or the kernel lacks the flag: a rename replaces a folder only if it is empty.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if self.force && self.name.exists() {
                    fs::remove_dir_all(&self.name)
                        .with_context(|| format!("export: cannot replace {shown}"))?;
                }
                fs::rename(&hidden, &self.name)
                    .with_context(|| format!("export: cannot write {shown}"))?;
                self.hidden = None;
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_dir_all(hidden);
        }
    }
}

/// Returns true if a folder holds only traces: each file is next to one named `metadata`, or is an end mark.
fn is_replaceable(folder: &Path, depth: u32) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let has_metadata = folder.join("metadata").is_file();
    depth > 0
        && entries.into_iter().all(|entry| {
            let Ok(entry) = entry else { return false };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    // LTTng has this folder next to its packets.
                    let is_index = has_metadata && entry.file_name() == "index";
                    is_index || is_replaceable(&entry.path(), depth - 1)
                }
                Ok(kind) => {
                    let is_of_trace = has_metadata || entry.file_name() == end_mark::FILE;
                    kind.is_file() && is_of_trace
                }
                Err(_) => false,
            }
        })
}
