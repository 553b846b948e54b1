//! Paths of the traced system on this machine.

use std::path::{Component, Path, PathBuf};

/// Returns the path on this machine of a path of the traced system, whose root folder is `prefix`. Returns `None` unless
/// `path` is absolute and leads nowhere up.
pub(super) fn here(prefix: Option<&Path>, path: &Path) -> Option<PathBuf> {
    let is_whole = path.is_absolute() && !path.components().any(|it| it == Component::ParentDir);
    let prefix = prefix.unwrap_or(Path::new("/"));
    is_whole.then(|| prefix.join(path.strip_prefix("/").unwrap_or(path)))
}
