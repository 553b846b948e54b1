//! Checks the names with which traces are written.

use crate::error::NameError;

/// Refuses a name that is empty, too long or has a control character.
pub(crate) fn check_name(name: &str, limit: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    let bytes = name.len();
    if bytes > limit {
        return Err(NameError::TooLong { name: name.to_owned(), bytes, limit });
    }
    match name.chars().find(|character| character.is_control()) {
        Some(character) => Err(NameError::Control { name: name.to_owned(), character }),
        None => Ok(()),
    }
}
