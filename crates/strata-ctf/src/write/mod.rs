//! From the model and a ring's packets to a trace.

pub mod environment;
pub mod metadata;
mod metadata2;
pub mod packet;
mod spelling;
