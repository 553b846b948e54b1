//! The fields that the BPF programs write for an argument, see `STRATA_ABI_KERNEL_ARG_*`.

use super::meaning::{Meaning, Number, POINTER};
use strata_abi::kernel::{
    ARG_NONE, ARG_PATH, ARG_SOCKADDR, ARG_STRINGS, ARG_TIMESPEC, ARG_U32, ARG_U64,
};
use strata_model::{
    Base, Element, Enumeration, Field, FieldClass, FieldOrder, Integer, Label, Sequence,
};

impl Meaning {
    /// How the register is read at entry, if it alone is recorded then.
    pub(super) fn register(self) -> Option<Number> {
        match self {
            Meaning::Number(number) => Some(number),
            Meaning::AddressOut
            | Meaning::TimeOut
            | Meaning::TimeMicroOut
            | Meaning::NumberOut(_) => Some(POINTER),
            Meaning::Path
            | Meaning::Strings
            | Meaning::Address
            | Meaning::Time
            | Meaning::TimeMicro => None,
        }
    }

    pub(super) fn entry_kind(self) -> u8 {
        match self {
            Meaning::Path => ARG_PATH,
            Meaning::Strings => ARG_STRINGS,
            Meaning::Address => ARG_SOCKADDR,
            Meaning::Time | Meaning::TimeMicro => ARG_TIMESPEC,
            _ => match self.register() {
                Some(Number { bytes: 4, .. }) => ARG_U32,
                _ => ARG_U64,
            },
        }
    }

    pub(super) fn exit_kind(self) -> u8 {
        match self {
            Meaning::AddressOut => ARG_SOCKADDR,
            Meaning::TimeOut | Meaning::TimeMicroOut => ARG_TIMESPEC,
            Meaning::NumberOut(_) => ARG_U32,
            _ => ARG_NONE,
        }
    }

    pub(super) fn entry_fields(self, name: &str, labels: &[Label]) -> Vec<Field> {
        match self {
            Meaning::Path => vec![Field::new(name, FieldClass::String)],
            Meaning::Strings => vec![Field::new(name, sequence(Element::Text, 2))],
            Meaning::Address => address(name),
            Meaning::Time => time(name, "nsec"),
            Meaning::TimeMicro => time(name, "usec"),
            _ => vec![integer(name, self.register().unwrap_or(POINTER), labels)],
        }
    }

    pub(super) fn exit_fields(self, name: &str) -> Vec<Field> {
        match self {
            Meaning::AddressOut => address(name),
            Meaning::TimeOut => time(name, "nsec"),
            Meaning::TimeMicroOut => time(name, "usec"),
            Meaning::NumberOut(number) => vec![integer(name, number, &[])],
            _ => Vec::new(),
        }
    }
}

/// An integer, or an enumeration if its values have names.
pub(super) fn integer(name: &str, number: Number, labels: &[Label]) -> Field {
    let integer =
        Integer { signed: number.is_signed, base: number.base, ..Integer::unsigned(number.bytes) };
    let class = match labels {
        [] => FieldClass::Integer(integer),
        labels => enumeration(integer, labels),
    };
    Field::new(name, class)
}

fn enumeration(integer: Integer, labels: &[Label]) -> FieldClass {
    FieldClass::Enumeration(Enumeration { integer, name: String::new(), labels: labels.to_vec() })
}

fn sequence(element: Element, length_bytes: u8) -> FieldClass {
    FieldClass::Sequence(Sequence { element, length_bytes })
}

fn address(name: &str) -> Vec<Field> {
    let port = Integer { byte_order: FieldOrder::Big, ..Integer::unsigned(2) };
    let families = super::labels("socket", "family");
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

fn time(name: &str, fraction: &str) -> Vec<Field> {
    let part =
        |part: &str| Field::new(format!("{name}_{part}"), FieldClass::Integer(Integer::signed(8)));
    vec![part("sec"), part(fraction)]
}
