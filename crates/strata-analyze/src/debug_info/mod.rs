//! Finds the place in the source code at which an event was recorded. It uses the event's instruction pointer, what the
//! trace says about objects that a process has loaded, and the debug information in their files.
//!
//! The result is that of babeltrace2's component `filter.lttng-utils.debug-info`, in the same format.

#[cfg(test)]
mod before_tests;
mod compressed_sections;
mod compressed_symbols;
mod dwarf_entries;
mod elf;
mod files;
mod functions;
mod generated;
mod kernel;
mod lines;
mod lookup_limits;
mod objects;
mod objects_before_dump;
mod process_objects;
pub(crate) mod recorder_frames;
mod source;
mod stack_fields;
mod stacks;
mod symbols;
#[cfg(test)]
mod tests;
mod unwind;
mod unwind_table;
mod variables;
mod zstd;

pub use files::{SourceOptions, SymbolFiles};
pub use functions::{
    function_field, functions_json, kernel_classes, KernelFunctions, NamedFunction,
};
pub use recorder_frames::is_sample;
pub use source::ANONYMOUS;
pub(crate) use source::NO_FRAME_POINTER;
pub use source::{InlinedFunction, ResolvedPlace, Source, StackFrame, Stacks};
pub(crate) use unwind::UnwoundStack;
pub use variables::Variables;
