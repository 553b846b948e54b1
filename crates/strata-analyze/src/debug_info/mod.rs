//! Where in the source an event was recorded: of its instruction pointer, by what a trace says of the objects
//! that a process has loaded, and by the debug information in their files.
//!
//! What is found is what babeltrace2's component `filter.lttng-utils.debug-info` finds, in the same words.

mod before;
#[cfg(test)]
mod before_tests;
mod classes;
mod kernel;
mod objects;
pub(crate) mod recorder;
mod source;
mod stacks;
mod symbols;
#[cfg(test)]
mod tests;

pub use source::{ResolvedPlace, Source, SourceOptions, StackFrame, Stacks};
