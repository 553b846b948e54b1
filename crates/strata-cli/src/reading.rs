//! What the commands that read traces have in common: which event records, and what is said of recordings that did not
//! come to their end.

pub mod ending;
pub mod limits;
pub mod selection;
