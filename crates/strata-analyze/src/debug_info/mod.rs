//! Finds the place in the source code at which an event was recorded: function, file, line and inlined calls.
//!
//! ```text
//! an event's instruction pointer or call stacks           stack_fields, stacks, recorder_frames
//!   └─ the process' objects at that time: file and base    objects, process_objects, objects_before_dump, generated
//!        └─ the file: symbols, debug information           files, elf, symbols, lines (DWARF), compressed_*, zstd
//!             └─ "main+0x3 at words.c:42"                  source
//! ```
//!
//! Three sources say which file an address is of: LTTng-UST's state dump, the kernel's records of mappings, and the
//! maps that a recorder writes of code that programs generate. All are facts with a time, so that a lookup uses what
//! was mapped *then*. Functions of the kernel have their names in a file of the trace's folder: `functions`.
//!
//! `unwind` finds callers in copies of the stack, for programs without frame pointers. `variables` names data, such
//! as locks.
//!
//! Files belong to whoever wrote the trace: sizes and offsets are compared with limits before use, only regular files
//! are opened, and `lookup_limits` has one budget of memory and steps for all lookups. A file whose build id differs
//! from the recorded one is not used. With `--no-symbols` no file that a trace names is opened.
//!
//! In babeltrace2's text format, the result is that of its component `filter.lttng-utils.debug-info`.

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
mod split_units;
mod stack_fields;
mod stacks;
mod symbols;
#[cfg(test)]
mod tests;
mod traced_path;
mod unit_code;
mod unwind;
mod unwind_table;
mod variables;

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
