//! The fields that the BPF programs write for an argument; see `STRATA_ABI_KERNEL_ARG_*`.

use super::argument_meaning::{Meaning, StructureLayout};
use super::member::MemberItem;
use super::number::{RegisterNumber, FLAGS, INT, POINTER, UNSIGNED};
use super::structure::KernelStructure;
use super::values::labels;
use crate::arch;
use strata_abi::kernel::{
    ARG_EVENTS, ARG_MEMORY, ARG_MESSAGE, ARG_MESSAGES, ARG_NAME, ARG_NONE, ARG_OPTION, ARG_PATH,
    ARG_POLL, ARG_SET, ARG_SOCKADDR, ARG_STRINGS, ARG_TIMEOUT, ARG_TIMEOUT_NARROW, ARG_U32,
    ARG_U64,
};
use strata_model::{
    Array, Base, Element, Enumeration, Field, FieldClass, FieldOrder, Flags, Integer, Label,
    Sequence,
};

impl Meaning {
    /// Returns how the argument's register is read at the entry; `None` if memory is recorded instead. `pointer`: how
    /// a pointer is read.
    pub(super) fn register(self, pointer: RegisterNumber) -> Option<RegisterNumber> {
        match self {
            Meaning::Number(number) => Some(number),
            Meaning::PathOut
            | Meaning::AddressOut
            | Meaning::MessageOut
            | Meaning::MessagesOut
            | Meaning::StructureOut(_)
            | Meaning::OptionOut
            | Meaning::EventsOut
            | Meaning::MemoryOut(_) => Some(pointer),
            Meaning::Path
            | Meaning::Name
            | Meaning::Strings
            | Meaning::Address
            | Meaning::Message
            | Meaning::Messages(_)
            | Meaning::TimeOut(_)
            | Meaning::Option
            | Meaning::Poll
            | Meaning::Set
            | Meaning::Memory(_) => None,
        }
    }

    pub(super) fn entry_kind(self, pointer: RegisterNumber) -> u8 {
        match self {
            Meaning::Path => ARG_PATH,
            Meaning::Name => ARG_NAME,
            Meaning::Strings => ARG_STRINGS,
            Meaning::Address => ARG_SOCKADDR,
            Meaning::Message | Meaning::Messages(_) => ARG_MESSAGE,
            Meaning::Memory(layout) => ARG_MEMORY | layout.bytes(),
            Meaning::TimeOut(time) if time.bytes() == 8 => ARG_TIMEOUT_NARROW,
            Meaning::TimeOut(_) => ARG_TIMEOUT,
            Meaning::Option => ARG_OPTION,
            Meaning::Poll => ARG_POLL,
            Meaning::Set => ARG_SET,
            _ => match self.register(pointer) {
                Some(RegisterNumber { bytes: 4, .. }) => ARG_U32,
                _ => ARG_U64,
            },
        }
    }

    pub(super) fn exit_kind(self) -> u8 {
        match self {
            Meaning::PathOut => ARG_PATH,
            Meaning::AddressOut => ARG_SOCKADDR,
            Meaning::MessageOut => ARG_MESSAGE,
            Meaning::MemoryOut(layout) => ARG_MEMORY | layout.bytes(),
            Meaning::MessagesOut => ARG_MESSAGES,
            Meaning::StructureOut(structure) | Meaning::Messages(structure) => structure.kind(),
            Meaning::OptionOut => ARG_OPTION,
            Meaning::Poll => ARG_POLL,
            Meaning::Set => ARG_SET,
            Meaning::EventsOut => ARG_EVENTS,
            _ => ARG_NONE,
        }
    }

    pub(super) fn entry_fields(
        self,
        name: &str,
        labels: &[Label],
        flags: Option<Flags>,
        pointer: RegisterNumber,
    ) -> Vec<Field> {
        match self {
            Meaning::Path | Meaning::Name => vec![Field::new(name, FieldClass::String)],
            Meaning::Strings => vec![Field::new(name, sequence(Element::Text, 2))],
            Meaning::Address | Meaning::Message | Meaning::Messages(_) => address(name),
            Meaning::Memory(layout) => members(name, layout),
            Meaning::TimeOut(time) => {
                std::iter::once(integer(name, POINTER, &[])).chain(members(name, time)).collect()
            }
            Meaning::Option => vec![list(name, INT)],
            Meaning::Poll => descriptors(name, "events"),
            Meaning::Set => vec![list(name, SHORT)],
            _ => {
                let number = self.register(pointer).unwrap_or(pointer);
                let mut field = integer(name, number, labels);
                if let FieldClass::Enumeration(class) = &mut field.class {
                    class.flags = flags;
                }
                vec![field]
            }
        }
    }

    pub(super) fn exit_fields(self, name: &str) -> Vec<Field> {
        match self {
            Meaning::PathOut => vec![Field::new(name, FieldClass::String)],
            Meaning::AddressOut | Meaning::MessageOut => address(name),
            Meaning::MemoryOut(layout) => members(name, layout),
            Meaning::MessagesOut => {
                let length = integer(&format!("{name}_len"), UNSIGNED, &[]);
                address(name).into_iter().chain([length]).collect()
            }
            Meaning::StructureOut(structure) | Meaning::Messages(structure) => {
                some_members(name, structure)
            }
            Meaning::OptionOut => vec![list(name, INT)],
            Meaning::Poll => descriptors(name, "revents"),
            Meaning::Set => vec![list(name, SHORT)],
            Meaning::EventsOut => {
                vec![list(&format!("{name}_events"), FLAGS), list(&format!("{name}_data"), POINTER)]
            }
            _ => Vec::new(),
        }
    }
}

const SHORT: RegisterNumber = RegisterNumber { bytes: 2, ..UNSIGNED };

/// Makes a field for a list of up to [`strata_abi::kernel::ELEMENTS_MAX`] numbers.
fn list(name: &str, number: RegisterNumber) -> Field {
    let RegisterNumber { bytes, is_signed, base } = number;
    let element = Integer { signed: is_signed, base, ..Integer::unsigned(bytes) };
    Field::new(name, sequence(Element::Integer(element), 1))
}

/// Makes two parallel lists: descriptors, and the events of each.
fn descriptors(name: &str, events: &str) -> Vec<Field> {
    let bits = RegisterNumber { bytes: 2, ..FLAGS };
    vec![list(&format!("{name}_fd"), INT), list(&format!("{name}_{events}"), bits)]
}

fn some_members(name: &str, structure: KernelStructure) -> Vec<Field> {
    let member = |name: String, item| match item {
        MemberItem::Number(number) => integer(&name, number, &[]),
        MemberItem::Text(bytes) => {
            let text = Array { element: Element::Text, count: bytes.into() };
            Field::new(name, FieldClass::Array(text))
        }
    };
    let members = structure.members().iter();
    members.map(|one| member(format!("{name}{}", one.name), one.item)).collect()
}

fn members(name: &str, layout: StructureLayout) -> Vec<Field> {
    layout.members().map(|(end, number)| integer(&format!("{name}{end}"), number, &[])).collect()
}

/// Makes an integer field, or an enumeration if there are names for its values.
pub(super) fn integer(name: &str, number: RegisterNumber, labels: &[Label]) -> Field {
    let integer =
        Integer { signed: number.is_signed, base: number.base, ..Integer::unsigned(number.bytes) };
    let class = match labels {
        [] => FieldClass::Integer(integer),
        labels => enumeration(integer, labels),
    };
    Field::new(name, class)
}

fn enumeration(integer: Integer, labels: &[Label]) -> FieldClass {
    let labels = labels.to_vec();
    FieldClass::Enumeration(Enumeration { integer, name: String::new(), labels, flags: None })
}

pub(super) fn sequence(element: Element, length_bytes: u8) -> FieldClass {
    FieldClass::Sequence(Sequence { element, length_bytes })
}

/// Makes the fields of a socket's address.
pub(super) fn address(name: &str) -> Vec<Field> {
    let port = Integer { byte_order: FieldOrder::Big, ..Integer::unsigned(2) };
    let (families, _) = labels(arch::here_or_any(), "socket", "family");
    let family = match families {
        [] => FieldClass::Integer(Integer::unsigned(2)),
        families => enumeration(Integer::unsigned(2), families),
    };
    let bytes = Element::Integer(Integer { base: Base::Ten, ..Integer::unsigned(1) });
    vec![
        Field::new(format!("{name}_family"), family),
        Field::new(format!("{name}_port"), FieldClass::Integer(port)),
        Field::new(format!("{name}_addr"), sequence(bytes, 1)),
    ]
}
