//! The system calls of this architecture: their numbers, names and arguments, and what is recorded of
//! each argument.
//!
//! The table is part of the crate. A kernel describes the arguments only when it is built with
//! CONFIG_FTRACE_SYSCALLS, and the numbers nowhere; a crate of numbers would know neither the kernel's
//! names of the arguments nor which of them point to paths. What comes after the kernel that the table
//! was made of, and what 32-bit programs call, is recorded as [`unknown`].

mod fields;
mod meaning;
#[cfg(test)]
mod tests;
mod text;

use crate::{KernelEvent, Probe, Source};
use meaning::{Meaning, Number};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use strata_abi::kernel::{self, ARG_NONE, ARG_PATH, ARG_STRINGS, ARG_U32, ARG_U64, NO_ID};
use strata_model::{Base, Field, FieldClass, Integer, Label};

/// Slot of the map `syscalls` for those that have none of their own.
pub const UNKNOWN: u32 = kernel::SYSCALLS - 1;

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("syscalls/x86_64.txt");
#[cfg(not(target_arch = "x86_64"))]
const TABLE: &str = "";

const VALUES: &str = include_str!("syscalls/values.txt");

/// These return an address.
const ADDRESS_RETURNED: &[&str] = &["mmap", "brk", "mremap", "shmat", "map_shadow_stack"];

/// A system call.
#[derive(Clone, Debug, PartialEq)]
pub struct Syscall {
    /// Its number.
    pub number: u32,
    /// The name that `unistd.h` and strace have: "openat", "newfstatat", "stat".
    pub name: &'static str,
    /// The kernel's own name, which differs for a few: "newstat".
    pub kernel_name: &'static str,
    /// At most six.
    pub args: Vec<Argument>,
}

/// An argument of a system call.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// As the kernel names it.
    pub name: &'static str,
    /// As the kernel declares it: "const char *".
    pub c_type: &'static str,
    meaning: Meaning,
    labels: &'static [Label],
}

impl Argument {
    /// How it is recorded at entry, one of `strata_abi::kernel::ARG_*`.
    pub fn kind(&self) -> u8 {
        self.meaning.entry_kind()
    }

    /// How it is recorded at exit, mostly not at all ([`ARG_NONE`]).
    pub fn exit_kind(&self) -> u8 {
        self.meaning.exit_kind()
    }

    /// What is written for it at entry.
    pub fn fields(&self) -> Vec<Field> {
        self.meaning.entry_fields(self.name, self.labels)
    }

    /// What is written for it at exit.
    pub fn exit_fields(&self) -> Vec<Field> {
        self.meaning.exit_fields(self.name)
    }
}

/// All system calls of this architecture, by number.
pub fn table() -> &'static [Syscall] {
    static ALL: OnceLock<Vec<Syscall>> = OnceLock::new();
    ALL.get_or_init(|| text::lines(TABLE).filter_map(|(_, line)| line).map(syscall).collect())
}

fn syscall(line: text::Line) -> Syscall {
    let argument = |(c_type, name)| Argument {
        name,
        c_type,
        meaning: meaning::of(line.name, name, c_type),
        labels: labels(line.name, name),
    };
    let args = line.args.iter().copied().map(argument).collect();
    Syscall { number: line.number, name: line.name, kernel_name: line.kernel_name, args }
}

/// By system call and argument.
type Labels = HashMap<(&'static str, &'static str), Arc<[Label]>>;

/// Names of an argument's values; none: it is just a number.
fn labels(call: &'static str, argument: &'static str) -> &'static [Label] {
    static ALL: OnceLock<Labels> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let each = |values: text::Values| {
            let labels: Arc<[Label]> = values.labels.into();
            values.of.into_iter().map(move |of| (of, labels.clone()))
        };
        text::values(VALUES).flatten().flat_map(each).collect()
    });
    all.get(&(call, argument)).map_or(&[], |labels| labels)
}

/// The system call of this name, its own or the kernel's.
pub fn find(name: &str) -> Option<&'static Syscall> {
    let all = table();
    all.iter()
        .find(|syscall| syscall.name == name)
        .or_else(|| all.iter().find(|syscall| syscall.kernel_name == name))
}

/// Those of the kernel's names that are not in the table; of `events/syscalls/sys_enter_NAME`.
pub fn not_in_table<'a>(kernel_names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_new = |name: &&str| !table().iter().any(|syscall| syscall.kernel_name == *name);
    kernel_names.into_iter().filter(is_new).collect()
}

/// What is recorded of a system call.
pub fn event(syscall: &Syscall) -> KernelEvent {
    let base = match ADDRESS_RETURNED.contains(&syscall.name) {
        true => Base::Sixteen,
        false => Base::Ten,
    };
    let ret = Field::new("ret", FieldClass::Integer(Integer { base, ..Integer::signed(8) }));
    let outputs = syscall.args.iter().flat_map(Argument::exit_fields);
    KernelEvent {
        name: syscall.name.to_owned(),
        system: "syscalls".to_owned(),
        kernel_name: syscall.kernel_name.to_owned(),
        fields: syscall.args.iter().flat_map(Argument::fields).collect(),
        exit_fields: std::iter::once(ret).chain(outputs).collect(),
        probe: Probe::Syscall { number: syscall.number, entry: entry(&syscall.args) },
        is_followed: true,
        sources: sources(&syscall.args),
        exit_sources: vec![ret_source()],
    }
}

/// What is recorded of a system call that is not in the table: its number, the interface by which it was
/// called, and the registers. At exit the number and the interface come behind `ret`.
pub fn unknown() -> KernelEvent {
    let abi = ["x86_64", "i386", "x32"].iter().zip(0..).map(|(label, value)| Label {
        from: value,
        to: value,
        label: (*label).to_owned(),
    });
    let abi: Vec<Label> = abi.collect();
    let unsigned = Number { bytes: 4, is_signed: false, base: Base::Ten };
    let which = [fields::integer("nr", unsigned, &[]), fields::integer("abi", unsigned, &abi)];
    let args: Vec<Argument> = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"]
        .map(|name| Argument {
            name,
            c_type: "unsigned long",
            meaning: Meaning::Number(meaning::POINTER),
            labels: &[],
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
            number: UNKNOWN,
            entry: kernel::Syscall { flags: kernel::CALL_UNKNOWN, ..entry(&args) },
        },
        is_followed: true,
        sources: sources(&args),
        exit_sources: vec![ret_source()],
    }
}

/// Name of the event record class of texts that were not in memory when their call was entered.
pub const TEXT: &str = "syscall_text";

/// What is recorded of such a text when the call returns: the system call, which argument of it (the first
/// is 0), and the text, which the entry has as an address.
pub fn text_fields() -> Vec<Field> {
    let has_text = |syscall: &&Syscall| {
        syscall.args.iter().any(|argument| matches!(argument.kind(), ARG_PATH | ARG_STRINGS))
    };
    let label = |syscall: &Syscall| {
        let number = i64::from(syscall.number);
        Label { from: number, to: number, label: syscall.name.to_owned() }
    };
    let labels: Vec<Label> = table().iter().filter(has_text).map(label).collect();
    let unsigned = |bytes| Number { bytes, is_signed: false, base: Base::Ten };
    vec![
        fields::integer("nr", unsigned(4), &labels),
        fields::integer("argument", unsigned(1), &[]),
        Field::new("text", FieldClass::String),
    ]
}

fn entry(args: &[Argument]) -> kernel::Syscall {
    let mut entry = kernel::Syscall { entry_id: NO_ID, exit_id: NO_ID, ..Default::default() };
    let mut end = Some(0u8);
    for (index, argument) in args.iter().enumerate().take(entry.kind.len()) {
        let (kind, exit_kind) = (argument.kind(), argument.exit_kind());
        entry.kind[index] = kind;
        entry.exit_kind[index] = exit_kind;
        entry.nr_args = index as u8 + 1;
        entry.offset[index] = end.unwrap_or(0);
        end = match kind {
            ARG_NONE => end,
            ARG_U32 => end.map(|end| end + 4),
            ARG_U64 => end.map(|end| end + 8),
            _ => None,
        };
    }
    entry.fixed_bytes = end.unwrap_or(0);
    if end.is_none() {
        entry.offset = [0; 6];
    }
    entry
}

fn sources(args: &[Argument]) -> Vec<Source> {
    let source = |(index, argument): (usize, &Argument)| {
        let number = argument.meaning.register()?;
        // The registers are 8 bytes each; where the high bytes come first, an int is behind them.
        let skipped = if cfg!(target_endian = "big") { 8 - u16::from(number.bytes) } else { 0 };
        Some(Source {
            field: argument.name.to_owned(),
            offset: index as u16 * 8 + skipped,
            bytes: number.bytes,
            is_signed: number.is_signed,
            labels: argument.labels.to_vec(),
        })
    };
    args.iter().enumerate().filter_map(source).collect()
}

fn ret_source() -> Source {
    Source { field: "ret".to_owned(), offset: 0, bytes: 8, is_signed: true, labels: Vec::new() }
}
