//! Tests of the filter language as a whole.

mod errors;
mod grammar;
mod hints;
mod possible;
pub(crate) mod random;
mod robust;
mod values;
