//! Errors about the folder for a trace, and checks of its owner.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::session::failure::{advice, failure_text};

/// The most names that are tried for a folder if several are created in the same second.
pub(super) const TRIES: u32 = 1000;

/// Why a folder cannot be used for a trace.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is not empty.
    #[error(
        "output folder '{}' is not empty, and nothing is overwritten. Use another folder, or \
         remove this one",
        path.display()
    )]
    NotEmpty { path: PathBuf },
    /// Another recorder writes to the folder.
    #[error(
        "output folder '{}': another recorder is writing to it. Use another folder, or wait until that \
         one has ended",
        path.display()
    )]
    InUse { path: PathBuf },
    /// The folder belongs to another user, or was reached through a link of another user.
    #[error(
        "output folder '{}': belongs to user {owner}, who could read and replace the trace. Use -o with \
         a folder that is not there yet, or with one of your own",
        path.display()
    )]
    NotOurs {
        path: PathBuf,
        /// The owner of the folder.
        owner: u32,
    },
    /// All users may write to the folder.
    #[error(
        "output folder '{}': everybody can write to it (mode {mode:o}). Use chmod 700, or -o with a \
         folder that is not there yet",
        path.display()
    )]
    OpenToAll {
        path: PathBuf,
        /// The folder's mode.
        mode: u32,
    },
    /// Members of the group could not read new files in the folder, or users outside of the group could.
    #[error(
        "folder '{}' for the snapshots of a group: its group is {group} and its mode {mode:o}, and it has to be group \
         {gid}'s alone with mode 2750. Use: chgrp {gid} {}; chmod 2750 {}",
        path.display(), path.display(), path.display()
    )]
    NotGroups {
        /// Path of the folder.
        path: PathBuf,
        /// The group that must be able to read the folder.
        gid: u32,
        /// The folder's group.
        group: u32,
        /// The folder's mode.
        mode: u32,
    },
    /// The path is not a folder.
    #[error("output folder '{}': is there and is not a folder. Use another name", path.display())]
    NotFolder { path: PathBuf },
    /// A call of the system failed.
    #[error("output folder '{}': cannot {what}: {source}. Use -o with a folder that can be written to", path.display())]
    System {
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        source: io::Error,
    },
    /// The end mark could not be written.
    #[error("output folder: cannot begin: {}{}", failure_text(.0), advice(.0))]
    Mark(Box<strata_collect::Error>),
    /// All names for a folder created in this second are taken.
    #[error("output folder '{}' and {TRIES} more names exist already. Use -o with another name", path.display())]
    AllTaken {
        /// The first path that was tried.
        path: PathBuf,
    },
}

pub(super) fn system(path: &Path, what: &'static str, source: io::Error) -> FolderError {
    FolderError::System { path: path.to_owned(), what, source }
}

/// Returns whether the user `uid` may see and change what this process records: root, this process's user, and the
/// user who became root with sudo.
pub fn is_trusted(uid: u32) -> bool {
    let ours = geteuid();
    let sudo = || std::env::var("SUDO_UID").ok().and_then(|text| text.parse().ok());
    uid == 0 || uid == ours.as_raw() || (ours.is_root() && sudo() == Some(uid))
}
