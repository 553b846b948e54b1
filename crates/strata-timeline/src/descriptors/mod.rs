//! What system calls do to descriptors, so that a read of number 7 has the name of a file.
//!
//! [`call_effects`] applies a call to the tables of the [`World`](crate::World). [`steps`] copies the same facts out of their
//! records, for a reader that applies them in another thread; [`first_steps`] takes those of the first records, which say what
//! was open before.

pub(crate) mod call_effects;
pub(crate) mod first_steps;
pub(crate) mod steps;
