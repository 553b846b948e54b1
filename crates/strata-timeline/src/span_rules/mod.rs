//! Which events begin and end spans: by rules that a user gives, or by the names of events.

pub(crate) mod glob;
pub(crate) mod roles;
pub mod slice_pairs;
