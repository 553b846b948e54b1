//! Opens outputs that are no regular files: a named pipe, a terminal, another device.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{bail, Context as _, Result};
use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};
use rustix::io::Errno;
use strata_session::is_trusted_user;

use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::typed;

/// Returns whether `name` is a pipe or device: it exists, and is neither a regular file nor a folder.
pub(super) fn is_one(name: &Path) -> bool {
    fs::metadata(name).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Opens a pipe or device for writing. Waits for a reader of a pipe, which any signal ends.
///
/// The owner of the pipe or device can read what is written: so the owner must be this user, root, or the user who
/// called sudo.
///
/// # Errors
/// The file is a socket, belongs to another user, or was replaced while it was opened; or a system call failed.
pub(super) fn open(name: &Path) -> Result<File> {
    let shown = typed(name);
    let failed = || format!("export: cannot write {shown}");
    // Checked before it is opened, since opening some devices has an effect.
    check(&fs::metadata(name).with_context(failed)?, &shown)?;
    let open =
        |flags: OFlags| OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(name);
    let file = match open(OFlags::NONBLOCK | OFlags::NOCTTY) {
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            let text = format!("nobody reads {shown} yet: waiting for a reader. Ctrl-C ends this");
            stderr::message(&Message { weight: Weight::Talk, text });
            open(OFlags::NOCTTY)
        }
        opened => opened,
    }
    .with_context(failed)?;
    // The name may lead to another file by now.
    check(&file.metadata().with_context(failed)?, &shown)?;
    let flags = fcntl_getfl(&file).map_err(io::Error::from).with_context(failed)?;
    let blocking = fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK));
    blocking.map_err(io::Error::from).with_context(failed)?;
    Ok(file)
}

fn check(found: &Metadata, shown: &str) -> Result<()> {
    let kind = found.file_type();
    if kind.is_socket() {
        bail!(
            "export: {shown} is a socket, which has no place for a file. Use -o with a file's name"
        );
    }
    if kind.is_file() || kind.is_dir() {
        bail!("export: {shown} was replaced while it was opened. Use -o with a name in a folder of your own");
    }
    if !is_trusted_user(found.uid()) {
        bail!(
            "export: {shown} is no plain file and belongs to user {}, who would read what is written, or keep this \
             waiting. Use -o with a file's name, or '-o -' and a pipe",
            found.uid()
        );
    }
    Ok(())
}
