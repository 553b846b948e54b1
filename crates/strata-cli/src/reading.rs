//! What the commands that read traces have in common: which traces, which event records, and what is said of recordings that did not
//! come to their end.

pub mod ending;
pub mod limits;
pub mod selection;
pub mod traces;
