//! Why a folder is none for a trace, and who may have it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::session::failure::{advice, failure_text};

/// How many folders of the same second are tried.
pub(super) const TRIES: u32 = 1000;

/// Why there is no folder for the trace.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has something in it already.
    #[error(
        "output folder '{}': is not empty, and nothing is overwritten. Use another folder, or \
         remove this one",
        path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// Another recorder writes to it.
    #[error(
        "output folder '{}': another recorder is writing to it. Use another folder, or wait until that \
         one has ended",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It is another user's, or a link of another user leads to it.
    #[error(
        "output folder '{}': belongs to user {owner}, who could read and replace the trace. Use -o with \
         a folder that is not there yet, or with one of your own",
        path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Everybody may write to it.
    #[error(
        "output folder '{}': everybody can write to it (mode {mode:o}). Use chmod 700, or -o with a \
         folder that is not there yet",
        path.display()
    )]
    OpenToAll {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is a file or something else.
    #[error("output folder '{}': is there and is not a folder. Use another name", path.display())]
    NotFolder {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("output folder '{}': cannot {what}: {source}. Use -o with a folder that can be written to", path.display())]
    System {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Not even the end mark could be written.
    #[error("output folder: cannot begin: {}{}", failure_text(.0), advice(.0))]
    Mark(Box<strata_collect::Error>),
    /// All names of this second are taken.
    #[error("output folder '{}' and {TRIES} more: are there already. Use -o with another name", path.display())]
    AllTaken {
        /// The first one.
        path: PathBuf,
    },
}

pub(super) fn system(path: &Path, what: &'static str, source: io::Error) -> FolderError {
    FolderError::System { path: path.to_owned(), what, source }
}

/// Is this somebody who may see and change what this user records? Root may, and who became root by sudo.
pub(super) fn is_trusted(uid: u32) -> bool {
    let ours = geteuid();
    let sudo = || std::env::var("SUDO_UID").ok().and_then(|text| text.parse().ok());
    uid == 0 || uid == ours.as_raw() || (ours.is_root() && sudo() == Some(uid))
}
