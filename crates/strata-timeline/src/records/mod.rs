//! From records to facts: what an event record says, whichever tracer wrote it.
//!
//! ```text
//! tracer_names    how tracers spell events, calls and contexts          record_source   what a trace says of all its records
//! binding         what a class means, and where its fields are          facts           what one record says, as numbers
//! prev_state, signals                                                   what the kernel's numbers for states and signals mean
//! ```

pub(crate) mod binding;
pub(crate) mod facts;
pub(crate) mod prev_state;
pub(crate) mod record_source;
pub(crate) mod signals;
pub(crate) mod tracer_names;
