//! Writes traces from the model and the packets of a ring.

pub mod environment;
pub mod metadata;
mod metadata2;
pub mod packet;
mod spelling;
