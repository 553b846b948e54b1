//! The metadata of a trace in its folder, which are parsed by one thread at a time.

use std::ffi::OsStr;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_collect::Directory;
use strata_model::Uuid;
use strata_relay::{uuid_of, METADATA_BYTES_MAX};

use crate::recording_folder::problem::Problem;

/// Waits until no other thread parses metadata. Parsed metadata take many times the memory of their text. By taking
/// turns, thousands of recorders that send large metadata at once only take the memory of one.
pub(crate) fn parsing_turn() -> MutexGuard<'static, ()> {
    static PARSING: Mutex<()> = Mutex::new(());
    PARSING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the UUID from a trace's metadata.
pub(crate) fn uuid_in(directory: &Directory) -> Result<Uuid, Problem> {
    let text = metadata_in(directory);
    let text = text.map_err(|error| Problem::of(&directory.path().join("metadata"), error))?;
    let _turn = parsing_turn();
    uuid_of(&text).map_err(|problem| problem.to_string().into())
}

/// Reads the metadata of a trace.
pub(crate) fn metadata_in(directory: &Directory) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    // With the numbers of a clock they are longer than what came.
    let most = 2 * METADATA_BYTES_MAX as u64;
    directory.read(OsStr::new("metadata"))?.take(most).read_to_string(&mut text)?;
    Ok(text)
}
