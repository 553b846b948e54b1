//! Figures for monitors: as text, and a server of a few pages.

pub(crate) mod http;
pub(crate) mod prometheus;
