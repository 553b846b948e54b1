//! Where the traces of a session go, and what each says of itself: its folder, the parts that it is cut into, and its
//! metadata.

pub mod describe;
pub mod folder;
pub mod parts;
