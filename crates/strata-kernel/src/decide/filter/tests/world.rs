//! An event with fields of all kinds, its records, and the tests of `strata/abi/kernel.h` done in Rust.

use strata_abi::kernel::{self, Part, Syscall, Test};
use strata_filter::evaluate::{Fields, Value};
use strata_filter::{Path, PathStep, Pattern, Root};
use strata_model::{
    Array, Base, Element, Enumeration, Field, FieldClass, FieldOrder, Flags, Integer, Label,
    Sequence,
};

use crate::decide::event::{FieldSource, KernelEvent, Probe};
use crate::discover::elf::Binary;

/// Bytes of a record: the arguments of a raw tracepoint, of which a test can give twelve.
pub const RECORD_BYTES: usize = 96;

/// A field that has a place: name, offset, bytes, whether it is signed.
pub const NUMBERS: [(&str, u16, u8, bool); 14] = [
    ("byte", 0, 1, false),
    ("small", 1, 1, true),
    ("port", 2, 2, false),
    ("len", 4, 4, false),
    ("addr", 8, 8, false),
    ("ret", 16, 8, true),
    ("prio", 24, 4, true),
    ("nice", 28, 2, true),
    ("odd", 31, 4, false),
    ("odd_ret", 35, 4, true),
    ("state", 40, 4, false),
    ("flags", 44, 4, false),
    ("mode", 40, 4, false),
    ("bits", 24, 4, true),
];

/// Text fields: name, offset, bytes. They are aligned to 8, to 4, and to nothing; the last three overlap.
pub const TEXTS: [(&str, u16, u32); 4] =
    [("next_comm", 48, 16), ("half", 68, 16), ("prev_comm", 77, 16), ("short", 80, 7)];

/// Returns labels of which some values have two and some none.
pub fn labels() -> Vec<Label> {
    let label = |from, to, label: &str| Label { from, to, label: label.to_string() };
    vec![
        label(0, 0, "RUNNING"),
        label(1, 1, "SLEEPING"),
        label(2, 9, "BUSY"),
        label(5, 5, "BUSY_LATE"),
        label(100, 100, "SLEEPING"),
    ]
}

/// Returns the flags of a field whose labels are flags.
fn flags(name: &str) -> Option<Flags> {
    match name {
        "mode" => Some(Flags { low_bits: 2 }),
        "bits" => Some(Flags { low_bits: 0 }),
        _ => None,
    }
}

fn integer(bytes: u8, signed: bool) -> Integer {
    Integer { signed, ..Integer::unsigned(bytes) }
}

/// The event that the filters are for. Its second half are fields that cannot be tested. Its second half are fields
/// that cannot be tested.
pub fn event() -> KernelEvent {
    let mut fields = Vec::new();
    let mut sources = Vec::new();
    for (name, offset, bytes, is_signed) in NUMBERS {
        let of = integer(bytes, is_signed);
        let class = if matches!(name, "state" | "prio" | "mode" | "bits") {
            FieldClass::Enumeration(Enumeration {
                integer: of,
                name: String::new(),
                labels: labels(),
                flags: flags(name),
            })
        } else {
            FieldClass::Integer(Integer { base: Base::Ten, ..of })
        };
        fields.push(Field::new(name, class));
        // Of an integer without labels, the source can have some.
        let labels = if name == "flags" { labels() } else { Vec::new() };
        sources.push(FieldSource { field: name.to_string(), offset, bytes, is_signed, labels });
    }
    for (name, offset, count) in TEXTS {
        fields.push(Field::new(name, FieldClass::Array(Array { element: Element::Text, count })));
        let field = name.to_string();
        sources.push(FieldSource {
            field,
            offset,
            bytes: 16,
            is_signed: false,
            labels: Vec::new(),
        });
    }
    let u32s = Element::Integer(Integer::unsigned(4));
    let text = Sequence { element: Element::Text, length_bytes: 2 };
    let big = Integer { byte_order: FieldOrder::Big, ..Integer::unsigned(2) };
    fields.extend([
        Field::new("filename", FieldClass::String),
        Field::new("device", FieldClass::Sequence(text)),
        Field::new("mask", FieldClass::Array(Array { element: u32s, count: 4 })),
        Field::new("list", FieldClass::Sequence(Sequence { element: u32s, length_bytes: 2 })),
        Field::new("far", FieldClass::Integer(Integer::unsigned(8))),
        Field::new("net_port", FieldClass::Integer(big)),
    ]);
    sources.push(FieldSource {
        field: "net_port".to_string(),
        offset: 2,
        bytes: 2,
        is_signed: false,
        labels: Vec::new(),
    });
    KernelEvent {
        name: "sched_test".to_string(),
        system: "sched".to_string(),
        kernel_name: "sched_test".to_string(),
        fields,
        exit_fields: Vec::new(),
        probe: Probe::Tracepoint { id: 0, parts: Vec::<Part>::new() },
        is_followed: false,
        sources,
        exit_sources: Vec::new(),
    }
}

/// The event as if it were a system call, some of whose arguments have fields in them.
pub fn event_of_call() -> KernelEvent {
    let probe = Probe::Syscall { place: 3, entry: Syscall::default() };
    KernelEvent { probe, ..event() }
}

/// The event as a program has it that makes no test early.
pub fn event_without_early() -> KernelEvent {
    let probe = Probe::Uprobe {
        binary: Binary::open("/proc/self/exe".as_ref()).unwrap(),
        offsets: vec![0],
        guard: None,
        semaphore: None,
        parts: Vec::new(),
    };
    KernelEvent { probe, ..event() }
}

/// A system call with a field at its entry and another one at its exit.
pub fn system_call() -> KernelEvent {
    let source = |field: &str, bytes, is_signed| FieldSource {
        field: field.to_string(),
        offset: 0,
        bytes,
        is_signed,
        labels: Vec::new(),
    };
    KernelEvent {
        name: "close".to_string(),
        system: "syscalls".to_string(),
        kernel_name: "close".to_string(),
        fields: vec![Field::new("fd", FieldClass::Integer(Integer::signed(4)))],
        exit_fields: vec![Field::new("ret", FieldClass::Integer(Integer::signed(8)))],
        probe: Probe::Syscall { place: 3, entry: Syscall::default() },
        is_followed: true,
        sources: vec![source("fd", 4, true)],
        exit_sources: vec![source("ret", 8, true)],
    }
}

/// The task that an event happens in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub pid: u32,
    pub tid: u32,
    pub cpu: u32,
    pub cgroup: u64,
    /// The id of the group `/`, if there is one.
    pub root_cgroup: Option<u64>,
    pub comm: [u8; 16],
}

/// A record of [`event`], and the task that it happened in.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub bytes: [u8; RECORD_BYTES],
    pub task: Task,
}

impl Record {
    /// The value of a number's field.
    pub fn number(&self, offset: u16, bytes: u8, is_signed: bool) -> i128 {
        let at = usize::from(offset);
        let mut value = 0_i128;
        for (index, byte) in self.bytes[at..at + usize::from(bytes)].iter().enumerate() {
            value |= i128::from(*byte) << (8 * index);
        }
        let bits = 8 * u32::from(bytes);
        if is_signed && value >> (bits - 1) != 0 {
            value -= 1 << bits;
        }
        value
    }

    fn words(&self, offset: u16) -> [u64; 2] {
        let word = |at| self.number(at, 8, false) as u64;
        [word(offset), word(offset + 8)]
    }
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Shows the record to the filter's own evaluation.
impl Fields for Record {
    fn name(&self) -> &[u8] {
        b"sched_test"
    }

    fn cpu(&self) -> Option<u64> {
        Some(self.task.cpu.into())
    }

    fn field(&self, path: &Path) -> Option<Value<'_>> {
        let (name, element) = match path.steps.as_slice() {
            [PathStep::Member(name)] => (name.as_str(), None),
            [PathStep::Member(name), PathStep::Index(index)] => (name.as_str(), Some(*index)),
            _ => return None,
        };
        if matches!(path.root, Root::Any | Root::Payload) {
            match (name, element) {
                ("mask", Some(0..4)) => return Some(Value::Integer(0)),
                (_, Some(_)) => return None,
                ("filename" | "device", _) => return Some(Value::Text(b"a")),
                ("far" | "net_port", _) => return Some(Value::Integer(0)),
                ("mask" | "list", _) => return Some(Value::Other),
                _ => (),
            }
            if let Some((_, at, bytes, is_signed)) = NUMBERS.iter().find(|known| known.0 == name) {
                return Some(Value::Integer(self.number(*at, *bytes, *is_signed)));
            }
            if let Some((_, at, count)) = TEXTS.iter().find(|known| known.0 == name) {
                let at = usize::from(*at);
                return Some(Value::Text(up_to_nul(&self.bytes[at..at + *count as usize])));
            }
        }
        if !matches!(path.root, Root::Any | Root::Context) || element.is_some() {
            return None;
        }
        match name {
            "pid" => Some(Value::Integer(self.task.pid.into())),
            "tid" => Some(Value::Integer(self.task.tid.into())),
            "cpu" => Some(Value::Integer(self.task.cpu.into())),
            "cgroup" => Some(Value::Integer(self.task.cgroup.into())),
            "comm" | "procname" => Some(Value::Text(up_to_nul(&self.task.comm))),
            _ => None,
        }
    }

    fn label(&self, path: &Path, value: i128, pattern: &Pattern) -> Option<bool> {
        let Some(PathStep::Member(name)) = path.steps.first() else { return None };
        match name.as_str() {
            "state" | "prio" | "flags" | "mode" | "bits" => {
                let labels = labels();
                let mut of_value = labels.iter().filter(|label| match flags(name) {
                    Some(flags) => {
                        label.from == label.to && flags.has(value as u64, label.from as u64)
                    }
                    None => (i128::from(label.from)..=i128::from(label.to)).contains(&value),
                });
                Some(of_value.any(|label| pattern.matches(label.label.as_bytes())))
            }
            "cgroup" => {
                let is_root = self.task.root_cgroup.is_some_and(|id| i128::from(id) == value);
                Some(is_root && pattern.matches(b"/"))
            }
            _ => None,
        }
    }
}

/// The tests of `strata/abi/kernel.h`.
pub fn passes(filter: &kernel::Filter, record: &Record) -> bool {
    let (nr_early, nr_tests) = (filter.nr_early as u8, filter.nr_tests as u8);
    assert!(nr_early <= nr_tests && usize::from(nr_early) <= kernel::EARLY_MAX, "{filter:?}");
    passes_between(filter, 0, nr_early, record)
        && passes_between(filter, nr_early, nr_tests, record)
}

fn passes_between(filter: &kernel::Filter, from: u8, to: u8, record: &Record) -> bool {
    if from == to {
        return true;
    }
    let mut at = from;
    loop {
        let test = &filter.test[usize::from(at)];
        let next = if holds(test, record) { test.yes } else { test.no };
        match next {
            kernel::PASS => return true,
            kernel::REJECT => return false,
            _ => assert!(next > at && next < to, "test {at} of {from}..{to} leads to {next}"),
        }
        at = next;
    }
}

fn holds(test: &Test, record: &Record) -> bool {
    let text = |[low, high]: [u64; 2]| {
        low & test.mask == test.value && high & test.mask_high == test.value_high
    };
    let task = &record.task;
    let number = match test.operand {
        kernel::FIELD => record.number(test.offset, test.bytes, test.is_signed != 0) as u64,
        kernel::PID => task.pid.into(),
        kernel::TID => task.tid.into(),
        kernel::CPU => task.cpu.into(),
        kernel::CGROUP => task.cgroup,
        kernel::COMM => {
            let (low, high) = task.comm.split_at(8);
            let word = |half: &[u8]| u64::from_ne_bytes(half.try_into().expect("8 bytes"));
            return text([word(low), word(high)]);
        }
        kernel::CHARS => return text(record.words(test.offset)),
        other => panic!("no operand {other}"),
    } & test.mask;
    match test.comparison {
        kernel::EQUAL => number == test.value,
        kernel::LESS => number < test.value,
        kernel::LESS_OR_EQUAL => number <= test.value,
        kernel::LESS_SIGNED => (number as i64) < test.value as i64,
        kernel::LESS_EQ_SIGNED => number as i64 <= test.value as i64,
        other => panic!("no comparison {other}"),
    }
}
