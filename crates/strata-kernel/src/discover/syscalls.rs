//! The system calls of this machine: their numbers, names and arguments, and what is recorded of each argument.
//!
//! ```text
//! strata_model::syscalls: text ── table_parser ──▶ table: number, name, arguments
//! "flags", "filename", "buf"   ── argument_meaning ──▶ what it is: a number with labels, a path, a structure, memory of a size
//!                                 fields, structure ──▶ KernelEvent: fields of the entry and of the exit, constants of the program
//! 32-bit programs              ── compat ──▶ events of their own, since numbers and widths differ
//! ```
//!
//! The table is part of the crate. A kernel describes the arguments only if it is built with
//! CONFIG_FTRACE_SYSCALLS, and the numbers nowhere; a crate of numbers would have neither the kernel's names of
//! the arguments nor the information which of them point to paths. System calls that are newer than the table are
//! recorded as [`unknown`], with their number and their six registers. Calls of 32-bit programs are separate
//! events; see [`compat`].
//!
//! An argument in memory may not be present when the call is entered, and a BPF program may not wait for it. The
//! entry then has its address, and [`again_classes`] are records that have the argument once more, read at the
//! exit; readers put it into the entry's line.
//!
//! Names and fields are LTTng's, so that analyses of its traces work. To record more of an argument, say in
//! `argument_meaning` what the name means; a test compares names of values and members of structures with the C
//! headers of each machine (`c_header_check`).

mod argument_meaning;
#[cfg(test)]
mod c_header_check;
mod call;
pub mod compat;
mod fields;
pub(crate) mod member;
pub(crate) mod number;
mod structure;
mod table;
mod table_parser;
#[cfg(test)]
mod tests;
mod values;

use crate::{arch, FieldSource, KernelEvent, Probe};
use argument_meaning::Meaning;
use number::RegisterNumber;

pub use call::{Argument, Syscall};
pub(crate) use structure::layouts;
pub use table::table;

use strata_abi::kernel::{
    self, ARG_EVENTS, ARG_MEMORY, ARG_MESSAGE, ARG_NAME, ARG_NONE, ARG_PATH, ARG_SOCKADDR,
    ARG_STRINGS, ARG_TIMEOUT, ARG_TIMEOUT_NARROW, ARG_U32, ARG_U64, NO_ID,
};
use strata_model::{Base, Element, Field, FieldClass, Integer, Label};

/// System calls that return an address.
const ADDRESS_RETURNED: &[&str] = &["mmap", "mmap2", "brk", "mremap", "shmat", "map_shadow_stack"];

/// System calls that return the remaining time if they were interrupted.
const INTERRUPTED: &[&str] = &["nanosleep", "clock_nanosleep", "clock_nanosleep_time64"];

/// System calls that fill nothing if they return 0: then no child has changed its state.
const NOT_ZERO: &[&str] = &["wait4", "waitpid"];

/// Returns the recorded names of entry and exit, from the name of the event: "openat", "compat_openat".
pub fn recorded_names(event: &str) -> [String; 2] {
    let (prefix, name) = match event.strip_prefix(call::PREFIX) {
        Some(name) => (call::PREFIX, name),
        None => ("", event),
    };
    ["entry", "exit"].map(|end| format!("{prefix}syscall_{end}_{name}"))
}

/// Returns the event to which the recorded name of an entry or exit belongs: "compat_openat" for
/// "compat_syscall_exit_openat".
pub fn event_of(recorded: &str) -> Option<String> {
    let (prefix, end) = match recorded.strip_prefix(call::PREFIX) {
        Some(end) => (call::PREFIX, end),
        None => ("", recorded),
    };
    let name = end.strip_prefix("syscall_entry_").or_else(|| end.strip_prefix("syscall_exit_"))?;
    Some(format!("{prefix}{name}"))
}

/// Returns the system call with this name, its own or the kernel's.
pub fn find(name: &str) -> Option<&'static Syscall> {
    let all = table();
    all.iter()
        .find(|syscall| syscall.name == name)
        .or_else(|| all.iter().find(|syscall| syscall.kernel_name == name))
}

/// Returns those of `kernel_names` (as in `events/syscalls/sys_enter_NAME`) that are not in the table.
pub fn not_in_table<'a>(kernel_names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_new = |name: &&str| !table().iter().any(|syscall| syscall.kernel_name == *name);
    kernel_names.into_iter().filter(is_new).collect()
}

/// Describes the event of a system call.
pub fn event(syscall: &Syscall) -> KernelEvent {
    let base = match ADDRESS_RETURNED.contains(&syscall.name) {
        true => Base::Sixteen,
        false => Base::Ten,
    };
    let ret = Field::new("ret", FieldClass::Integer(Integer { base, ..Integer::signed(8) }));
    let outputs = syscall.args.iter().flat_map(Argument::exit_fields);
    let mut entry = entry(&syscall.args);
    if INTERRUPTED.contains(&syscall.name) {
        entry.flags |= kernel::CALL_INTERRUPTED;
    }
    if NOT_ZERO.contains(&syscall.name) {
        entry.flags |= kernel::CALL_NOT_ZERO;
    }
    if syscall.is_compat {
        // Its arguments are not in the registers that are copied.
        let flags = entry.flags & !kernel::CALL_READS;
        entry = kernel::Syscall { fixed_bytes: 0, offset: [0; 6], flags, ..entry };
    }
    KernelEvent {
        name: syscall.event_name(),
        system: "syscalls".to_owned(),
        kernel_name: syscall.kernel_name.to_owned(),
        fields: syscall.args.iter().flat_map(Argument::fields).collect(),
        exit_fields: std::iter::once(ret).chain(outputs).collect(),
        probe: Probe::Syscall { place: syscall.place(), entry },
        is_followed: true,
        sources: sources(&syscall.args),
        exit_sources: vec![ret_source()],
    }
}

/// Describes the event for system calls that are not in the table: number of the call, interface and registers. At the
/// exit, number and interface follow `ret`.
pub fn unknown() -> KernelEvent {
    let interfaces = arch::here_or_any().interfaces;
    let abi = interfaces.iter().zip(0..).map(|(label, value)| Label {
        from: value,
        to: value,
        label: (*label).to_owned(),
    });
    let abi: Vec<Label> = abi.collect();
    let unsigned = RegisterNumber { bytes: 4, is_signed: false, base: Base::Ten };
    let which = [fields::integer("nr", unsigned, &[]), fields::integer("abi", unsigned, &abi)];
    let args: Vec<Argument> = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"]
        .map(|name| Argument {
            name,
            c_type: "unsigned long",
            meaning: Meaning::Number(number::POINTER),
            labels: &[],
            flags: None,
            pointer: number::POINTER,
        })
        .into();
    let ret = Field::new("ret", FieldClass::Integer(Integer::signed(8)));
    KernelEvent {
        name: "unknown".to_owned(),
        system: "syscalls".to_owned(),
        kernel_name: "unknown".to_owned(),
        fields: which.iter().cloned().chain(args.iter().flat_map(Argument::fields)).collect(),
        exit_fields: std::iter::once(ret).chain(which.iter().cloned()).collect(),
        probe: Probe::Syscall {
            place: kernel::UNKNOWN,
            entry: kernel::Syscall { flags: kernel::CALL_UNKNOWN, ..entry(&args) },
        },
        is_followed: true,
        sources: sources(&args),
        exit_sources: vec![ret_source()],
    }
}

/// Returns whether an argument of this kind is read from memory at the entry, and again at the exit if the memory was
/// not present.
pub(crate) fn is_read_again(kind: u8) -> bool {
    is_words(kind) || matches!(kind, ARG_PATH | ARG_NAME | ARG_STRINGS | ARG_SOCKADDR | ARG_MESSAGE)
}

/// Returns whether an argument of this kind is recorded as words.
fn is_words(kind: u8) -> bool {
    kind & ARG_MEMORY != 0 || matches!(kind, ARG_TIMEOUT | ARG_TIMEOUT_NARROW)
}

/// Returns the three classes of records for memory that was not present when the call was entered, each with name and
/// fields. The first fields are the system call and the number of its argument, from 0.
pub fn again_classes() -> [(&'static str, Vec<Field>); 3] {
    let unsigned = |bytes| RegisterNumber { bytes, is_signed: false, base: Base::Ten };
    let class = |name, fields: Vec<Field>, of: fn(u8) -> bool| {
        let calls = table().iter().chain(compat::table());
        let has = calls.filter(|call| call.args.iter().any(|argument| of(argument.kind())));
        let labels: Vec<Label> = has.map(place_label).collect();
        let which = vec![
            fields::integer("call", unsigned(4), &labels),
            fields::integer("argument", unsigned(1), &[]),
        ];
        (name, which.into_iter().chain(fields).collect())
    };
    let word = Element::Integer(Integer { base: Base::Sixteen, ..Integer::unsigned(4) });
    [
        class(TEXT, vec![Field::new("text", FieldClass::String)], |kind| {
            matches!(kind, ARG_PATH | ARG_NAME | ARG_STRINGS)
        }),
        class("syscall_address", fields::address("address"), |kind| {
            matches!(kind, ARG_SOCKADDR | ARG_MESSAGE)
        }),
        class("syscall_memory", vec![Field::new("words", fields::sequence(word, 1))], is_words),
    ]
}

/// Returns the first fields of a slow call's entry: how long ago the call began, and the least duration that is
/// recorded \[ns\]. Both ends are recorded when the call returns.
pub(crate) fn slow_fields() -> [Field; 2] {
    [ELAPSED, SLOWER].map(|name| Field::new(name, FieldClass::Integer(Integer::unsigned(8))))
}

/// Returns the first fields of the entry of a call that is one of a sample: how long ago the call began \[ns\], and how many
/// calls of its CPU it stands for. Both ends are recorded when the call returns.
pub(crate) fn sampled_fields() -> [Field; 2] {
    [ELAPSED, SAMPLED].map(|name| Field::new(name, FieldClass::Integer(Integer::unsigned(8))))
}

/// Field in the entry of a call that is one of a sample: of how many calls one is recorded.
pub const SAMPLED: &str = "sampled_every";
/// Field in the entry of a slow call: the time since the call began \[ns\].
pub const ELAPSED: &str = "elapsed";
/// Field in the entry of a slow call: the least duration of recorded calls \[ns\].
pub const SLOWER: &str = "slower_than";

/// Name of the first of [`again_classes`].
pub const TEXT: &str = "syscall_text";

fn place_label(syscall: &Syscall) -> Label {
    let place = i64::from(syscall.place());
    Label { from: place, to: place, label: syscall.event_name() }
}

fn entry(args: &[Argument]) -> kernel::Syscall {
    let mut entry = kernel::Syscall { entry_id: NO_ID, exit_id: NO_ID, ..Default::default() };
    let (mut end, mut read, mut outputs) = (Some(0u8), 0, Vec::new());
    for (index, argument) in args.iter().enumerate().take(entry.kind.len()) {
        let (kind, exit_kind) = (argument.kind(), argument.exit_kind());
        entry.kind[index] = kind;
        entry.exit_kind[index] = exit_kind;
        entry.nr_args = index as u8 + 1;
        entry.offset[index] = end.unwrap_or(0);
        let (bytes, is_read) = known_bytes(kind);
        end = end.zip(bytes).map(|(end, bytes)| end + bytes);
        read += u32::from(is_read);
        if exit_kind != ARG_NONE {
            outputs.push((exit_kind, index as u32));
        }
    }
    if read > 1 {
        end = None;
    }
    entry.fixed_bytes = end.unwrap_or(0);
    match end {
        None => entry.offset = [0; 6],
        Some(_) if read == 1 => entry.flags |= kernel::CALL_READS,
        Some(_) => {}
    }
    if let [(ARG_SOCKADDR | ARG_EVENTS, index)] = outputs[..] {
        entry.flags |= kernel::CALL_GIVES + index * kernel::CALL_GIVES_AT;
    }
    entry
}

/// Returns the size of an argument of a kind in a record that is written in place, if it is known, and whether that is
/// read from memory. That of a socket's address is for none.
fn known_bytes(kind: u8) -> (Option<u8>, bool) {
    match kind {
        ARG_NONE => (Some(0), false),
        ARG_U32 => (Some(4), false),
        ARG_U64 => (Some(8), false),
        ARG_SOCKADDR => (Some(5), true),
        ARG_TIMEOUT => (Some(24), true),
        _ if kind & ARG_MEMORY != 0 && kind - ARG_MEMORY <= kernel::READS_MAX => {
            (Some(kind - ARG_MEMORY), true)
        }
        _ => (None, false),
    }
}

fn sources(args: &[Argument]) -> Vec<FieldSource> {
    let source = |(index, argument): (usize, &Argument)| {
        let number = argument.meaning.register(argument.pointer)?;
        // The registers are 8 bytes each; where the high bytes come first, an int is behind them.
        let skipped = if cfg!(target_endian = "big") { 8 - u16::from(number.bytes) } else { 0 };
        Some(FieldSource {
            field: argument.name.to_owned(),
            offset: index as u16 * 8 + skipped,
            bytes: number.bytes,
            is_signed: number.is_signed,
            labels: argument.labels.to_vec(),
        })
    };
    args.iter().enumerate().filter_map(source).collect()
}

fn ret_source() -> FieldSource {
    FieldSource {
        field: "ret".to_owned(),
        offset: 0,
        bytes: 8,
        is_signed: true,
        labels: Vec::new(),
    }
}
