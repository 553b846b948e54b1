//! The fields that the BPF programs write for an argument, see `STRATA_ABI_KERNEL_ARG_*`.

use super::meaning::{Layout, Meaning, Number};
use strata_abi::kernel::{
    ARG_MEMORY, ARG_MESSAGE, ARG_NAME, ARG_NONE, ARG_PATH, ARG_SOCKADDR, ARG_STRINGS, ARG_U32,
    ARG_U64,
};
use strata_model::{
    Base, Element, Enumeration, Field, FieldClass, FieldOrder, Flags, Integer, Label, Sequence,
};

impl Meaning {
    /// How the register is read at entry, if it alone is recorded then; `pointer`: if it is one.
    pub(super) fn register(self, pointer: Number) -> Option<Number> {
        match self {
            Meaning::Number(number) => Some(number),
            Meaning::PathOut
            | Meaning::AddressOut
            | Meaning::MessageOut
            | Meaning::MemoryOut(_) => Some(pointer),
            Meaning::Path
            | Meaning::Name
            | Meaning::Strings
            | Meaning::Address
            | Meaning::Message
            | Meaning::Memory(_) => None,
        }
    }

    pub(super) fn entry_kind(self, pointer: Number) -> u8 {
        match self {
            Meaning::Path => ARG_PATH,
            Meaning::Name => ARG_NAME,
            Meaning::Strings => ARG_STRINGS,
            Meaning::Address => ARG_SOCKADDR,
            Meaning::Message => ARG_MESSAGE,
            Meaning::Memory(layout) => ARG_MEMORY | layout.bytes(),
            _ => match self.register(pointer) {
                Some(Number { bytes: 4, .. }) => ARG_U32,
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
            _ => ARG_NONE,
        }
    }

    pub(super) fn entry_fields(
        self,
        name: &str,
        labels: &[Label],
        flags: Option<Flags>,
        pointer: Number,
    ) -> Vec<Field> {
        match self {
            Meaning::Path | Meaning::Name => vec![Field::new(name, FieldClass::String)],
            Meaning::Strings => vec![Field::new(name, sequence(Element::Text, 2))],
            Meaning::Address | Meaning::Message => address(name),
            Meaning::Memory(layout) => members(name, layout),
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
            _ => Vec::new(),
        }
    }
}

fn members(name: &str, layout: Layout) -> Vec<Field> {
    layout.members().map(|(end, number)| integer(&format!("{name}{end}"), number, &[])).collect()
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
    let labels = labels.to_vec();
    FieldClass::Enumeration(Enumeration { integer, name: String::new(), labels, flags: None })
}

pub(super) fn sequence(element: Element, length_bytes: u8) -> FieldClass {
    FieldClass::Sequence(Sequence { element, length_bytes })
}

/// A socket's.
pub(super) fn address(name: &str) -> Vec<Field> {
    let port = Integer { byte_order: FieldOrder::Big, ..Integer::unsigned(2) };
    let (families, _) = super::labels("socket", "family");
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
