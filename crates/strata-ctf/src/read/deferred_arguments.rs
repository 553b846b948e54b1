//! Arguments of system calls that are recorded after the call's entry, in a record of their own.
//!
//! Strata's kernel recorder cannot wait for memory to be paged in when a call begins. Arguments that were not in memory
//! then are in a record `syscall_text`, `syscall_address` or `syscall_memory` of the same thread, before the call's
//! exit. The entry has the address in place of a text, and zeros in place of any other argument.

use std::sync::Arc;

use super::event::Event;
use super::event_class::EventClass;
use super::field::FieldRef;
use super::value::Value;
use super::visit::{FieldInfo, FieldKind, Visit};
use crate::model::schema::{self, FieldClass, Scope, Width};
use crate::model::syscalls::{arguments, ArgumentFields, ArgumentKind};
use crate::model::ByteOrder;

/// The most bytes of an address, or words of a structure, that are read: more than any record has.
const ELEMENTS_MAX: usize = 1 << 10;

/// The content of a record that completes the entry record of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeferredValue {
    /// A path, a name, or a program's arguments as one text.
    Text(Vec<u8>),
    /// The address of a socket, member by member.
    Address {
        /// The number of the address family.
        family: u64,
        /// The number of the port; meaningless for families without ports.
        port: u64,
        /// The bytes after family and port.
        bytes: Vec<u8>,
    },
    /// A structure, as words of 32 bits each.
    Words(Vec<u32>),
}

/// The value of one field of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeferredField {
    /// The value of a text field.
    Text(Vec<u8>),
    /// The value of an unsigned integer.
    Unsigned(u64),
    /// The value of a signed integer.
    Signed(i64),
    /// The value of a list of bytes.
    Bytes(Vec<u8>),
}

impl DeferredField {
    /// Passes the value to the visitor as if it were the value of `field`.
    pub fn tell(&self, field: &FieldRef, visit: &mut impl Visit) {
        let info = field.info();
        match self {
            DeferredField::Text(text) => visit.text(info, text),
            DeferredField::Unsigned(value) => visit.unsigned(info, *value),
            DeferredField::Signed(value) => visit.signed(info, *value),
            DeferredField::Bytes(bytes) => {
                let element = FieldInfo {
                    name: "".into(),
                    kind: FieldKind::Integer,
                    is_element: true,
                    bits: 8,
                    ..info.clone()
                };
                visit.begin_array(info, bytes.len() as u64);
                bytes.iter().for_each(|byte| visit.unsigned(&element, (*byte).into()));
                visit.end_array(info);
            }
        }
    }
}

/// The argument that a record completes, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredArgument {
    /// The number of the call's argument, from 0.
    pub argument: usize,
    /// The content of the memory when the call returned.
    pub value: DeferredValue,
}

impl DeferredArgument {
    /// Returns the fields of the call's entry record that this argument fills, with their values. `payload`: the
    /// payload type of the entry record. The list is empty if the call has no such argument, or one of another
    /// kind.
    #[must_use]
    pub fn fields<'p>(
        &self,
        payload: &'p schema::Structure,
        order: ByteOrder,
    ) -> Vec<(&'p str, DeferredField)> {
        let all = arguments(payload);
        let Some(ArgumentFields { kind, members }) = all.get(self.argument) else {
            return Vec::new();
        };
        let members = members.iter().filter_map(|&at| payload.members.get(at));
        match (&self.value, kind) {
            (DeferredValue::Text(text), ArgumentKind::Text) => {
                members.map(|it| (it.name.as_str(), DeferredField::Text(text.clone()))).collect()
            }
            (DeferredValue::Address { family, port, bytes }, ArgumentKind::Address) => {
                let values = [
                    DeferredField::Unsigned(*family),
                    DeferredField::Unsigned(*port),
                    DeferredField::Bytes(bytes.clone()),
                ];
                members.map(|it| it.name.as_str()).zip(values).collect()
            }
            (
                DeferredValue::Words(words),
                kind @ (ArgumentKind::Structure | ArgumentKind::Single),
            ) => {
                let mut left = words.as_slice();
                let mut fields = Vec::new();
                for member in members {
                    let FieldClass::Integer(integer) = &member.class else { return Vec::new() };
                    let value = integer_of(integer, &mut left, order);
                    let Some(value) = value else { return Vec::new() };
                    fields.push((member.name.as_str(), value));
                }
                // An argument that is a single number must not have further words.
                let is_it = left.is_empty() || *kind == ArgumentKind::Structure;
                if is_it {
                    fields
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }
}

/// Removes the words of an integer from the front of `words`, and returns the integer's value.
fn integer_of(
    integer: &schema::Integer,
    words: &mut &[u32],
    order: ByteOrder,
) -> Option<DeferredField> {
    let (value, bits) = match (integer.width, *words) {
        (Width::Bits(32), [word, rest @ ..]) => {
            *words = rest;
            (u64::from(*word), 32)
        }
        (Width::Bits(64), [first, second, rest @ ..]) => {
            *words = rest;
            let (high, low) = match order {
                ByteOrder::Little => (second, first),
                ByteOrder::Big => (first, second),
            };
            (u64::from(*high) << 32 | u64::from(*low), 64)
        }
        _ => return None,
    };
    Some(match integer.signed {
        false => DeferredField::Unsigned(value),
        true => DeferredField::Signed((value << (64 - bits)) as i64 >> (64 - bits)),
    })
}

/// The fields of a class whose records complete entry records of system calls.
#[derive(Clone, Debug)]
pub struct DeferredClass {
    /// The field with the call's name.
    call: Option<FieldRef>,
    argument: FieldRef,
    fields: DeferredFieldRefs,
    /// The order of the two words of a number of 64 bits.
    order: ByteOrder,
}

/// The fields that have the argument's content.
#[derive(Clone, Debug)]
enum DeferredFieldRefs {
    Text(FieldRef),
    Address { family: FieldRef, port: FieldRef, bytes: Arc<str> },
    Words(Arc<str>),
}

/// The kinds of content, by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredKind {
    /// Texts, in records of `syscall_text`.
    Text,
    /// Addresses of sockets, in records of `syscall_address`.
    Address,
    /// Structures, in records of `syscall_memory`.
    Words,
}

impl DeferredClass {
    /// Finds the fields of a class. Returns `None` if the class's records complete no entry.
    #[must_use]
    pub fn new(class: &EventClass) -> Option<DeferredClass> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let fields = match class.name() {
            "syscall_text" => DeferredFieldRefs::Text(find("text")?),
            "syscall_address" => DeferredFieldRefs::Address {
                family: find("address_family")?,
                port: find("address_port")?,
                bytes: "address_addr".into(),
            },
            "syscall_memory" => DeferredFieldRefs::Words("words".into()),
            _ => return None,
        };
        let members = class.schema().payload.iter().flat_map(|payload| &payload.members);
        let orders = members.filter_map(|member| match &member.class {
            FieldClass::Integer(integer) => Some(integer.byte_order),
            _ => None,
        });
        let order = orders.into_iter().next().unwrap_or(ByteOrder::Little);
        Some(DeferredClass { call: find("call"), argument: find("argument")?, fields, order })
    }

    /// Returns the order of the two words of a number of 64 bits.
    #[must_use]
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Returns the kind of content that the records have.
    #[must_use]
    pub fn kind(&self) -> DeferredKind {
        match self.fields {
            DeferredFieldRefs::Text(_) => DeferredKind::Text,
            DeferredFieldRefs::Address { .. } => DeferredKind::Address,
            DeferredFieldRefs::Words(_) => DeferredKind::Words,
        }
    }

    /// Returns the name of the call that a record belongs to, such as `openat` or `compat_openat`. Returns `None` if
    /// the record does not say.
    #[must_use]
    pub fn call<'s>(&'s self, event: &Event<'_>) -> Option<&'s str> {
        let field = self.call.as_ref()?;
        let number = event.integer(field)?;
        let info: &'s FieldInfo = field.info();
        info.labels_of(number.into()).next()
    }

    /// Returns whether records of this class may belong to the call.
    #[must_use]
    pub fn may_be_of(&self, call: &str) -> bool {
        let labels = self.call.as_ref().and_then(|field| field.info().labels.as_ref());
        labels.is_none_or(|labels| labels.iter().any(|label| label.name == call))
    }

    /// Returns whether records of this class may have an argument of this kind.
    #[must_use]
    pub fn may_have(&self, kind: ArgumentKind) -> bool {
        match self.kind() {
            DeferredKind::Text => kind == ArgumentKind::Text,
            DeferredKind::Address => kind == ArgumentKind::Address,
            DeferredKind::Words => matches!(kind, ArgumentKind::Structure | ArgumentKind::Single),
        }
    }

    /// Reads a record's argument.
    #[must_use]
    pub fn argument(&self, event: &Event<'_>) -> Option<DeferredArgument> {
        let argument = usize::try_from(event.integer(&self.argument)?).ok()?;
        let value = match &self.fields {
            DeferredFieldRefs::Text(text) => match event.value(text)? {
                Value::Text(text) => DeferredValue::Text(text.to_vec()),
                _ => return None,
            },
            DeferredFieldRefs::Address { family, port, bytes } => DeferredValue::Address {
                family: event.integer(family)? as u64,
                port: event.integer(port)? as u64,
                bytes: elements(event, bytes).into_iter().map(|byte| byte as u8).collect(),
            },
            DeferredFieldRefs::Words(words) => {
                let words = elements(event, words);
                DeferredValue::Words(words.into_iter().map(|word| word as u32).collect())
            }
        };
        Some(DeferredArgument { argument, value })
    }

    /// Returns the fields of the call's entry that the record completes, with their values.
    #[must_use]
    pub fn entry_fields(&self, event: &Event<'_>) -> Vec<(FieldRef, DeferredField)> {
        let find = || {
            let name = &self.entry_of(event)?.name;
            event.stream().trace().event_classes().find(|class| class.name() == *name)
        };
        let (Some(class), Some(argument)) = (find(), self.argument(event)) else {
            return Vec::new();
        };
        let Some(payload) = &class.schema().payload else { return Vec::new() };
        let fields = argument.fields(payload, self.order).into_iter();
        fields
            .filter_map(|(name, value)| Some((class.find_in(Scope::Payload, name)?, value)))
            .collect()
    }

    /// Returns the class of the call's entry, from the classes of the record's trace.
    #[must_use]
    pub fn entry_of<'e>(&self, event: &Event<'e>) -> Option<&'e schema::EventClass> {
        let call = self.call(event)?;
        let name = match call.strip_prefix("compat_") {
            Some(call) => format!("compat_syscall_entry_{call}"),
            None => format!("syscall_entry_{call}"),
        };
        let schema = event.stream().trace().schema();
        schema.streams.iter().flat_map(|stream| &stream.events).find(|class| class.name == name)
    }
}

/// Returns the elements of the list called `list`.
fn elements(event: &Event<'_>, list: &str) -> Vec<u64> {
    let mut found = Elements { list, is_in: false, found: Vec::new() };
    event.visit(Scope::Payload, &mut found);
    found.found
}

struct Elements<'n> {
    list: &'n str,
    is_in: bool,
    found: Vec<u64>,
}

impl Visit for Elements<'_> {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if self.is_in && field.is_element() && self.found.len() < ELEMENTS_MAX {
            self.found.push(value);
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.unsigned(field, value as u64);
    }

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, _: &FieldInfo, _: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.is_in = field.name() == self.list;
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.is_in = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schema::{Array, Integer, Length, Member, Structure};
    use crate::model::Base;

    fn member(name: &str, class: FieldClass) -> Member {
        Member { name: name.to_owned(), class }
    }

    fn integer(bits: u8, signed: bool) -> FieldClass {
        FieldClass::Integer(Integer {
            width: Width::Bits(bits),
            align: 8,
            signed,
            byte_order: ByteOrder::Little,
            base: Base::Ten,
            is_bool: false,
            clock: None,
            role: None,
            labels: None,
            flags: None,
            is_bit_map: false,
            is_reversed: false,
        })
    }

    fn list() -> FieldClass {
        let element = Box::new(integer(8, false));
        FieldClass::Array(Array { align: 1, length: Length::Static(4), element })
    }

    /// Returns the payload of `call(fd, at, address, offset, path)`.
    fn payload() -> Structure {
        let members = vec![
            member("fd", integer(32, true)),
            member("at_sec", integer(64, true)),
            member("at_nsec", integer(32, true)),
            member("a_family", integer(16, false)),
            member("a_port", integer(16, false)),
            member("a_addr", list()),
            member("offset", integer(64, false)),
            member("path", FieldClass::String),
        ];
        Structure { align: 1, members: members.into_iter().collect() }
    }

    fn fields(argument: usize, value: DeferredValue) -> Vec<(String, DeferredField)> {
        let payload = payload();
        let found = DeferredArgument { argument, value }.fields(&payload, ByteOrder::Little);
        found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn argument_is_in_the_fields_that_the_entry_has_for_it() {
        let text = fields(4, DeferredValue::Text(b"/etc/hostname".to_vec()));
        assert_eq!(text, [("path".into(), DeferredField::Text(b"/etc/hostname".to_vec()))]);
        let value = DeferredValue::Address { family: 2, port: 80, bytes: vec![127, 0, 0, 1] };
        let address = fields(2, value);
        let names: Vec<_> = address.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a_family", "a_port", "a_addr"]);
        assert_eq!(address[1].1, DeferredField::Unsigned(80));
        let time = fields(1, DeferredValue::Words(vec![5, 1, 0xffff_fffe]));
        assert_eq!(
            time,
            [
                ("at_sec".into(), DeferredField::Signed(1 << 32 | 5)),
                ("at_nsec".into(), DeferredField::Signed(-2)),
            ]
        );
        let offset = fields(3, DeferredValue::Words(vec![7, 0]));
        assert_eq!(offset, [("offset".into(), DeferredField::Unsigned(7))]);
    }

    #[test]
    fn argument_of_another_kind_is_in_no_field() {
        let text = || DeferredValue::Text(b"x".to_vec());
        for (argument, value) in [
            (0, text()),
            (1, text()),
            (5, text()),
            (usize::MAX, text()),
            (4, DeferredValue::Words(vec![1, 2])),
            // Too few words, and too many for a single number.
            (1, DeferredValue::Words(vec![1, 2])),
            (3, DeferredValue::Words(vec![1, 2, 3])),
            (2, DeferredValue::Words(vec![1])),
            (3, DeferredValue::Address { family: 1, port: 0, bytes: Vec::new() }),
        ] {
            assert_eq!(fields(argument, value.clone()), [], "{argument} {value:?}");
        }
    }
}
