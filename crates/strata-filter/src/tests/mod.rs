//! Tests of the filter language as a whole.

mod errors;
mod grammar;
mod hints;
mod possible;
mod robust;
mod values;
