//! `--guest`: a virtual machine that is recorded beside this one.

use std::path::PathBuf;

use strata_session::options::{GuestOptions, Place, GUEST_BYTES_MAX};

use crate::talk::units::parse_size;

/// `--guest`. What is behind a comma has a name, so that a path may have commas.
pub fn parse_guest(text: &str) -> Result<GuestOptions, String> {
    let (name, rest) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' names no channel; write NAME=CHANNEL"))?;
    let (mut channel, mut qmp, mut memory, mut max_bytes) = (rest, None, None, GUEST_BYTES_MAX);
    while let Some((before, last)) = channel.rsplit_once(',') {
        match last.split_once('=') {
            Some(("qmp", path)) if !path.is_empty() => qmp = Some(PathBuf::from(path)),
            Some(("memory", path)) if !path.is_empty() => memory = Some(PathBuf::from(path)),
            Some(("max-size", size)) => {
                max_bytes = parse_size(size).map_err(|error| error.to_string())?;
            }
            _ => break,
        }
        channel = before;
    }
    let channel = Place::parse(channel).map_err(|problem| problem.to_string())?;
    Ok(GuestOptions { name: name.to_owned(), channel, qmp, memory, max_bytes })
}
