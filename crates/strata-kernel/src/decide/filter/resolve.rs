//! Resolves a name in a filter for one event.

use strata_abi::kernel::{Test, CGROUP, CHARS, COMM, CPU, EQUAL, FIELD, PID, TID};
use strata_filter::{Path, PathStep, Root, Subject};
use strata_model::{Array, ByteOrder, Element, FieldClass, FieldOrder, Flags, Label};

use super::ranges::TestedInteger;
use super::{Candidate, Unsupported};

/// The names that filters use for facts about an event's thread and CPU.
pub(super) const CONTEXT: [(&str, HappensOn); 7] = [
    ("pid", HappensOn::Pid),
    ("tid", HappensOn::Tid),
    ("cpu", HappensOn::Cpu),
    ("cgroup", HappensOn::Cgroup),
    ("container", HappensOn::Cgroup),
    ("comm", HappensOn::Comm),
    ("procname", HappensOn::Comm),
];

/// A fact about the thread or CPU on which an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HappensOn {
    Pid,
    Tid,
    Cpu,
    Cgroup,
    Comm,
}

/// The meaning of a name in a filter, for one event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FoundName<'e> {
    /// The event has nothing with this name.
    Absent,
    /// The name is a value that is the same in all records, such as the event's name or log level.
    OfEvent,
    /// The name is an integer field.
    Integer { integer: TestedInteger, labels: Option<ValueLabels<'e>> },
    /// The name is the control group, by its id or a path.
    Cgroup(TestedInteger),
    /// The name is a text, of which the first 16 bytes can be tested.
    Chars {
        test: Test,
        /// Size of the longest text \[byte\].
        limit: usize,
    },
    /// The name is a number that cannot be tested.
    Number(Unsupported),
    /// The name is a text that cannot be tested.
    Text,
    /// The name is a field that is neither a number nor a text, and so equals no constant.
    Other,
    /// The name is a value that is not known yet when the event happens.
    NotYet,
}

/// The names (labels) of an integer's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValueLabels<'e> {
    pub labels: &'e [Label],
    pub of: strata_model::Integer,
    pub flags: Option<Flags>,
}

pub(super) fn subject<'e>(subject: &Subject, candidate: &Candidate<'e>) -> FoundName<'e> {
    match subject {
        Subject::Name | Subject::LogLevel => FoundName::OfEvent,
        Subject::Cpu => context(HappensOn::Cpu),
        Subject::Field(path) => field(path, candidate),
    }
}

/// Resolves the path of a field in the event `candidate`.
pub(super) fn field<'e>(path: &Path, candidate: &Candidate<'e>) -> FoundName<'e> {
    let Some((PathStep::Member(name), below)) = path.steps.split_first() else {
        return FoundName::Absent;
    };
    let of_payload = || payload(name, below, candidate);
    let of_context = || match CONTEXT.iter().find(|(known, _)| known == name) {
        Some((_, known)) if below.is_empty() => context(*known),
        _ => FoundName::Absent,
    };
    match path.root {
        Root::Payload => of_payload(),
        Root::Context => of_context(),
        Root::Packet | Root::Header => FoundName::NotYet,
        Root::Any => match of_payload() {
            FoundName::Absent => of_context(),
            found => found,
        },
    }
}

fn context(context: HappensOn) -> FoundName<'static> {
    let test = |operand| Test { operand, mask: u64::MAX, comparison: EQUAL, ..Test::default() };
    let number =
        |operand, most: u64| TestedInteger { test: test(operand), domain: (0, most.into()) };
    match context {
        HappensOn::Pid => {
            FoundName::Integer { integer: number(PID, u32::MAX.into()), labels: None }
        }
        HappensOn::Tid => {
            FoundName::Integer { integer: number(TID, u32::MAX.into()), labels: None }
        }
        HappensOn::Cpu => {
            FoundName::Integer { integer: number(CPU, u32::MAX.into()), labels: None }
        }
        HappensOn::Cgroup => FoundName::Cgroup(number(CGROUP, u64::MAX)),
        // TASK_COMM_LEN is 16, the NUL included.
        HappensOn::Comm => FoundName::Chars { test: test(COMM), limit: 15 },
    }
}

fn payload<'e>(name: &str, below: &[PathStep], candidate: &Candidate<'e>) -> FoundName<'e> {
    // Both live as long as the event.
    let Candidate { event, .. } = *candidate;
    let (fields, sources) = if candidate.has_exit() {
        (&event.exit_fields, &event.exit_sources)
    } else {
        (&event.fields, &event.sources)
    };
    let Some(field) = fields.iter().find(|field| field.name == name) else {
        return FoundName::Absent;
    };
    if let Some((step, below)) = below.split_first() {
        return element(&field.class, step, below);
    }
    let source = sources.iter().find(|source| source.field == name);
    let test = source.map(|source| Test {
        operand: if source.bytes == 16 { CHARS } else { FIELD },
        comparison: EQUAL,
        bytes: source.bytes,
        is_signed: source.is_signed.into(),
        offset: source.offset,
        mask: u64::MAX,
        ..Test::default()
    });
    let (of, labels, flags) = match &field.class {
        FieldClass::Integer(of) => {
            let labels = source.map(|source| source.labels.as_slice());
            (of, labels.filter(|labels| !labels.is_empty()), None)
        }
        FieldClass::Enumeration(of) => (&of.integer, Some(of.labels.as_slice()), of.flags),
        FieldClass::Float(_) => return FoundName::Number(Unsupported::Real),
        FieldClass::String => return FoundName::Text,
        FieldClass::Array(Array { element: Element::Text, count }) => {
            return match test {
                Some(test) if test.operand == CHARS => {
                    FoundName::Chars { test, limit: *count as usize }
                }
                _ => FoundName::Text,
            };
        }
        FieldClass::Sequence(sequence) if sequence.element == Element::Text => {
            return FoundName::Text
        }
        FieldClass::Array(_) | FieldClass::Sequence(_) => return FoundName::Other,
    };
    if of.bytes > 1 && !is_native(of.byte_order) {
        return FoundName::Number(Unsupported::ByteOrder);
    }
    let labels = labels.map(|labels| ValueLabels { labels, of: *of, flags });
    match test.and_then(integer) {
        Some(integer) => FoundName::Integer { integer, labels },
        None => FoundName::Number(Unsupported::Place),
    }
}

/// Resolves an element of an array. Programs cannot test elements, which have no place of their own. An index
/// after the last element is an absent name.
fn element(class: &FieldClass, step: &PathStep, below: &[PathStep]) -> FoundName<'static> {
    let PathStep::Index(index) = step else { return FoundName::Absent };
    if !below.is_empty() {
        return FoundName::Absent;
    }
    let (element, count) = match class {
        FieldClass::Array(array) => (&array.element, u64::from(array.count)),
        FieldClass::Sequence(sequence) => (&sequence.element, u64::MAX),
        _ => return FoundName::Absent,
    };
    match element {
        Element::Text => FoundName::Absent,
        _ if *index >= count => FoundName::Absent,
        Element::Float(_) => FoundName::Number(Unsupported::Real),
        Element::Integer(_) => FoundName::Number(Unsupported::Place),
    }
}

fn integer(test: Test) -> Option<TestedInteger> {
    let of = strata_model::Integer {
        signed: test.is_signed != 0,
        ..strata_model::Integer::unsigned(test.bytes)
    };
    Some(TestedInteger { test, domain: of.range().ok()? })
}

fn is_native(order: FieldOrder) -> bool {
    match order {
        FieldOrder::Native => true,
        FieldOrder::Big => ByteOrder::NATIVE == ByteOrder::Big,
        FieldOrder::Little => ByteOrder::NATIVE == ByteOrder::Little,
    }
}
