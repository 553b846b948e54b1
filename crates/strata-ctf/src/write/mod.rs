//! From the model and a ring's packets to a trace.

pub mod environment;
pub mod metadata;
pub mod packet;
mod spelling;
