//! The language as a whole.

mod errors;
mod grammar;
mod hints;
pub(crate) mod random;
mod robust;
mod values;
