//! The folder for large temporary files.

use std::path::PathBuf;

/// Returns the folder for large temporary files: that of the environment variable `TMPDIR`, or else `/var/tmp`, since `/tmp`
/// is often in memory.
#[must_use]
pub fn temporary_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}
