//! Parser of a process' description of a tracepoint: `strata/abi/user.h`, "A description".

use strata_abi::user;
use strata_model::{
    printable, text_from_bytes, Array, Base, Element, Enumeration, EventClass, EventError, Field,
    FieldClass, FieldOrder, Float, Integer, Label, Sequence,
};

/// Why a description is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The description lies outside of the part of the memory that is for descriptions.
    #[error("its description is bytes {begin} to {end}; {limit} are there")]
    Outside {
        /// Offset of the first byte.
        begin: u64,
        /// Offset after the last byte.
        end: u64,
        /// Size of the descriptions \[byte\].
        limit: u64,
    },
    /// The description has changed since it was first read.
    #[error("its description has changed since it was read first")]
    Changed,
    /// The description existed before, and no longer does.
    #[error("it is no longer there")]
    Missing,
    /// Another tracepoint owns these bytes.
    #[error("its description lies in bytes {begin} to {end}, which describe another tracepoint")]
    Shared {
        /// Offset of the other tracepoint's first byte.
        begin: u64,
        /// Offset after its last byte.
        end: u64,
    },
    /// The process has assigned too many ids to the tracepoint, one after the other.
    #[error("its id in this session has changed to {id}; the limit is {limit} ids")]
    TooManyIds {
        id: u32,
        /// The most ids that are possible.
        limit: u32,
    },
    /// The description ends too early.
    #[error("its description ends at byte {bytes}, in the middle of {what}")]
    Short {
        bytes: usize,
        /// Part that was being read.
        what: &'static str,
    },
    /// The description does not end where it should.
    #[error("its description has {bytes} bytes after its last field")]
    Long {
        /// Number of bytes after the last field.
        bytes: usize,
    },
    /// A name contains a NUL, which no name may.
    #[error("{what} {} has a NUL", printable(.text))]
    Nul {
        /// Kind of the name, for the message.
        what: &'static str,
        text: String,
    },
    /// The name has no provider before the colon.
    #[error("it has no provider")]
    NoProvider,
    /// The tracepoint has too many fields.
    #[error("it has {found} fields; the limit is {limit}")]
    TooManyFields {
        /// Number of fields that the description claims.
        found: u32,
        /// The most fields that are possible.
        limit: u32,
    },
    /// A field, or its elements, has an unknown type.
    #[error("field {}: {what} {found} is unknown", printable(.field))]
    Unknown {
        field: String,
        /// Property of the field that has the unknown value, such as "type" or "base".
        what: &'static str,
        /// Value that was found.
        found: u32,
    },
    /// A field has a value that its type does not allow.
    #[error("field {}: {what}", printable(.field))]
    Contradiction {
        field: String,
        /// Properties of the field that contradict each other.
        what: &'static str,
    },
    /// The trace model refuses the event.
    #[error(transparent)]
    Model(#[from] EventError),
}

/// Value of a description's `span` for an event that begins one.
const SPAN_BEGINS: u8 = 1;

/// Parsed description of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub file: String,
    pub line: u32,
    /// True if the event begins a span whose end is in the same thread, as of `STRATA_SPAN()`.
    pub begins_span: bool,
    /// Event record class, with id 0.
    pub event: EventClass,
}

impl Description {
    /// Parses and checks a description; `bytes` is a copy.
    ///
    /// # Errors
    /// The first error in the description.
    pub fn parse(bytes: &[u8]) -> Result<Description, DescriptionError> {
        let mut input = Input { bytes, at: 0 };
        let Heading { level, span, nr_fields, line, provider, name } = Heading::read(&mut input)?;
        let file = text_from_bytes(input.name("the file name")?);
        if provider.is_empty() {
            return Err(DescriptionError::NoProvider);
        }
        if nr_fields > user::FIELDS_MAX {
            let limit = user::FIELDS_MAX;
            return Err(DescriptionError::TooManyFields { found: nr_fields, limit });
        }
        let fields = (0..nr_fields).map(|_| field(&mut input)).collect::<Result<_, _>>()?;
        let left = bytes.len() - input.at;
        if left > 0 {
            return Err(DescriptionError::Long { bytes: left });
        }
        let event = EventClass {
            id: 0,
            provider: text_from_bytes(provider),
            name: text_from_bytes(name),
            loglevel: Some(level),
            emf_uri: None,
            context: Vec::new(),
            fields,
        };
        event.validate()?;
        Ok(Description { file, line, begins_span: span == SPAN_BEGINS, event })
    }
}

/// The beginning of a tracepoint's description: level and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heading<'a> {
    pub level: u8,
    span: u8,
    nr_fields: u32,
    line: u32,
    /// Provider as bytes, which rules match.
    pub provider: &'a [u8],
    /// Name as bytes, which rules match.
    pub name: &'a [u8],
}

impl<'a> Heading<'a> {
    /// Parses the beginning of a description; the rest of `bytes` is ignored.
    ///
    /// # Errors
    /// The first error in the description.
    pub fn parse(bytes: &'a [u8]) -> Result<Heading<'a>, DescriptionError> {
        Heading::read(&mut Input { bytes, at: 0 })
    }

    fn read(input: &mut Input<'a>) -> Result<Heading<'a>, DescriptionError> {
        let level = input.u8("the log level")?;
        let span = input.u8("its place in a span")?;
        let nr_fields = u32::from(input.u16("the number of fields")?);
        let line = input.u32("the line number")?;
        let provider = input.name("the provider")?;
        let name = input.name("the name")?;
        Ok(Heading { level, span, nr_fields, line, provider, name })
    }
}

/// A description that is being parsed, with the place of the parser.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DescriptionError> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(DescriptionError::Short { bytes: self.bytes.len(), what })?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DescriptionError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, DescriptionError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, DescriptionError> {
        self.array(what).map(u16::from_ne_bytes)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, DescriptionError> {
        self.array(what).map(u32::from_ne_bytes)
    }

    fn i64(&mut self, what: &'static str) -> Result<i64, DescriptionError> {
        self.array(what).map(i64::from_ne_bytes)
    }

    fn name(&mut self, what: &'static str) -> Result<&'a [u8], DescriptionError> {
        let bytes = self.u16(what)?;
        let text = self.take(bytes.into(), what)?;
        if text.contains(&0) {
            return Err(DescriptionError::Nul { what, text: text_from_bytes(text) });
        }
        Ok(text)
    }
}

/// Fixed part of a field.
struct Raw {
    name: String,
    element: u8,
    bytes: u8,
    flags: u8,
    base: u8,
    length_bytes: u8,
    count: u32,
}

impl Raw {
    fn contradiction(&self, what: &'static str) -> DescriptionError {
        DescriptionError::Contradiction { field: self.name.clone(), what }
    }

    fn byte_order(&self) -> FieldOrder {
        if self.flags & user::FIELD_NETWORK != 0 {
            FieldOrder::Big
        } else {
            FieldOrder::Native
        }
    }

    fn integer(&self) -> Result<Integer, DescriptionError> {
        let base = Base::from_radix(self.base).ok_or(DescriptionError::Unknown {
            field: self.name.clone(),
            what: "display base",
            found: self.base.into(),
        })?;
        Ok(Integer {
            bytes: self.bytes,
            signed: self.flags & user::FIELD_SIGNED != 0,
            base,
            byte_order: self.byte_order(),
            is_bool: self.flags & user::FIELD_BOOL != 0,
        })
    }

    fn float(&self) -> Float {
        Float { bytes: self.bytes, byte_order: self.byte_order() }
    }

    fn element(&self) -> Result<Element, DescriptionError> {
        match self.element {
            user::INTEGER => self.integer().map(Element::Integer),
            user::FLOAT => Ok(Element::Float(self.float())),
            user::TEXT if self.bytes == 1 => Ok(Element::Text),
            user::TEXT => Err(self.contradiction("text whose characters are not 1 byte each")),
            found => Err(DescriptionError::Unknown {
                field: self.name.clone(),
                what: "element type",
                found: found.into(),
            }),
        }
    }
}

fn field(input: &mut Input<'_>) -> Result<Field, DescriptionError> {
    let [kind, element, bytes, flags, base, length_bytes] = input.array("a field")?;
    let nr_labels = input.u16("a field")?;
    let count = input.u32("a field")?;
    let name = text_from_bytes(input.name("a field's name")?);
    let raw = Raw { name, element, bytes, flags, base, length_bytes, count };
    let known = user::FIELD_SIGNED | user::FIELD_NETWORK | user::FIELD_BOOL;
    if flags & !known != 0 {
        let found = flags.into();
        return Err(DescriptionError::Unknown { field: raw.name, what: "flag", found });
    }
    let class = if nr_labels > 0 {
        if kind != user::INTEGER {
            return Err(raw.contradiction("labels, and it is no integer"));
        }
        let integer = raw.integer()?;
        let name = text_from_bytes(input.name("an enumeration's name")?);
        let labels: Vec<Label> = (0..nr_labels).map(|_| label(input)).collect::<Result<_, _>>()?;
        let labels: Vec<Label> =
            labels.into_iter().filter_map(|label| in_range(label, integer)).collect();
        if labels.is_empty() {
            FieldClass::Integer(integer)
        } else {
            FieldClass::Enumeration(Enumeration { integer, name, labels, flags: None })
        }
    } else {
        match kind {
            user::INTEGER => FieldClass::Integer(raw.integer()?),
            user::FLOAT => FieldClass::Float(raw.float()),
            user::STRING => FieldClass::String,
            user::ARRAY => FieldClass::Array(Array { element: raw.element()?, count: raw.count }),
            user::SEQUENCE => FieldClass::Sequence(Sequence {
                element: raw.element()?,
                length_bytes: raw.length_bytes,
            }),
            found => {
                let found = found.into();
                return Err(DescriptionError::Unknown { field: raw.name, what: "type", found });
            }
        }
    };
    Ok(Field { name: raw.name, class })
}

fn label(input: &mut Input<'_>) -> Result<Label, DescriptionError> {
    let from = input.i64("a label")?;
    let to = input.i64("a label")?;
    Ok(Label { from, to, label: text_from_bytes(input.name("a label")?) })
}

/// Restricts a label to values that the integer can have: C has labels such as `ALL = 0xffffffff`, also for an `int`. A
/// range is cut to the possible values; returns `None` if none of them is in it. Labels of unsigned 64-bit integers are
/// compared by their bit pattern.
fn in_range(label: Label, integer: Integer) -> Option<Label> {
    let Ok((low, high)) = integer.range() else {
        return Some(label); // validate() says what is wrong with it
    };
    let pattern = integer.bytes == 8 && !integer.signed;
    let wide = |value: i64| if pattern { i128::from(value as u64) } else { i128::from(value) };
    let (from, to) = (wide(label.from).max(low), wide(label.to).min(high));
    // Fits into i64, or is a bit pattern.
    (wide(label.from) > wide(label.to) || from <= to).then_some(Label {
        from: from as i64,
        to: to as i64,
        label: label.label,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{field, integer, string, Described};
    use strata_random::Random;

    fn described(fields: Vec<Vec<u8>>) -> Vec<u8> {
        Described { fields, ..Described::new("app", "event", 6) }.bytes()
    }

    fn error(fields: Vec<Vec<u8>>) -> DescriptionError {
        Description::parse(&described(fields)).unwrap_err()
    }

    fn enumeration() -> Vec<u8> {
        let mut bytes = field([user::INTEGER, 0, 1, user::FIELD_SIGNED, 10, 0], 0, "state");
        bytes[6..8].copy_from_slice(&2u16.to_ne_bytes());
        string(&mut bytes, "states");
        for (from, to, label) in [(-1i64, 0i64, "idle"), (1, 5, "busy")] {
            bytes.extend(from.to_ne_bytes());
            bytes.extend(to.to_ne_bytes());
            string(&mut bytes, label);
        }
        bytes
    }

    fn every_kind() -> Vec<Vec<u8>> {
        vec![
            integer("count"),
            enumeration(),
            field([user::FLOAT, 0, 4, user::FIELD_NETWORK, 10, 0], 0, "ratio"),
            field([user::STRING, 0, 1, 0, 10, 0], 0, "text"),
            field([user::ARRAY, user::INTEGER, 2, user::FIELD_SIGNED, 16, 0], 3, "array"),
            field([user::ARRAY, user::TEXT, 1, 0, 10, 0], 16, "fixed"),
            field([user::SEQUENCE, user::FLOAT, 8, 0, 10, 4], 0, "sequence"),
            field([user::INTEGER, 0, 1, user::FIELD_BOOL, 10, 0], 0, "flag"),
        ]
    }

    #[test]
    fn labels_outside_of_the_integer_are_cut_or_left_out() {
        let label = |from, to| Label { from, to, label: "x".into() };
        let byte = Integer::unsigned(1);
        assert_eq!(in_range(label(-1, -1), byte), None);
        assert_eq!(in_range(label(-5, 3), byte), Some(label(0, 3)));
        assert_eq!(in_range(label(200, 0xffff_ffff), byte), Some(label(200, 255)));
        assert_eq!(in_range(label(0xffff_ffff, 0xffff_ffff), Integer::signed(4)), None);
        assert_eq!(in_range(label(-1, -1), Integer::unsigned(8)), Some(label(-1, -1)));
    }

    #[test]
    fn parse_of_every_kind_of_field_gives_the_model() {
        let parsed = Description::parse(&described(every_kind())).unwrap();
        assert_eq!((parsed.line, parsed.file.as_str()), (42, "fake.c"));
        let bytes = described(every_kind());
        let heading = Heading::parse(&bytes).unwrap();
        assert_eq!(
            (heading.provider, heading.name, heading.level),
            (&b"app"[..], &b"event"[..], 6)
        );
        assert_eq!(parsed.event.full_name(), "app:event");
        assert_eq!(parsed.event.loglevel, Some(6));
        let classes: Vec<&FieldClass> = parsed.event.fields.iter().map(|f| &f.class).collect();
        assert_eq!(*classes[0], FieldClass::Integer(Integer::unsigned(8)));
        let FieldClass::Enumeration(states) = classes[1] else { panic!("{:?}", classes[1]) };
        assert_eq!((states.name.as_str(), states.integer), ("states", Integer::signed(1)));
        let idle = Label { from: -1, to: 0, label: "idle".into() };
        assert_eq!(states.labels, [idle, Label { from: 1, to: 5, label: "busy".into() }]);
        let float = Float { bytes: 4, byte_order: FieldOrder::Big };
        assert_eq!(*classes[2], FieldClass::Float(float));
        assert_eq!(*classes[3], FieldClass::String);
        let element = Element::Integer(Integer { base: Base::Sixteen, ..Integer::signed(2) });
        assert_eq!(*classes[4], FieldClass::Array(Array { element, count: 3 }));
        let text = Array { element: Element::Text, count: 16 };
        assert_eq!(*classes[5], FieldClass::Array(text));
        let element = Element::Float(Float { bytes: 8, byte_order: FieldOrder::Native });
        assert_eq!(*classes[6], FieldClass::Sequence(Sequence { element, length_bytes: 4 }));
        let flag = Integer { is_bool: true, ..Integer::unsigned(1) };
        assert_eq!(*classes[7], FieldClass::Integer(flag));
    }

    #[test]
    fn parse_of_a_description_cut_anywhere_says_that_it_is_short() {
        let bytes = described(every_kind());
        for end in 0..bytes.len() {
            let found = Description::parse(&bytes[..end]);
            assert!(matches!(found, Err(DescriptionError::Short { bytes, .. }) if bytes == end));
        }
        let mut bytes = bytes;
        bytes.push(0);
        assert_eq!(Description::parse(&bytes), Err(DescriptionError::Long { bytes: 1 }));
    }

    #[test]
    fn parse_of_each_mistake_says_which_field_and_what() {
        let unknown = |fields, wanted, value| match error(fields) {
            DescriptionError::Unknown { field, what, found } => {
                assert_eq!((field.as_str(), what, found), ("x", wanted, value));
            }
            other => panic!("{other:?}"),
        };
        unknown(vec![field([9, 0, 1, 0, 10, 0], 0, "x")], "type", 9);
        unknown(vec![field([user::INTEGER, 0, 1, 0, 3, 0], 0, "x")], "display base", 3);
        unknown(vec![field([user::ARRAY, user::STRING, 1, 0, 10, 0], 1, "x")], "element type", 3);
        unknown(vec![field([user::INTEGER, 0, 1, 0x80, 10, 0], 0, "x")], "flag", 0x80);
        let wide = field([user::SEQUENCE, user::TEXT, 4, 0, 10, 4], 0, "x");
        assert!(matches!(error(vec![wide]), DescriptionError::Contradiction { .. }));
        let mut labels = field([user::STRING, 0, 1, 0, 10, 0], 0, "x");
        labels[6] = 1;
        assert!(matches!(error(vec![labels]), DescriptionError::Contradiction { .. }));
        let twice = vec![integer("x"), integer("x")];
        assert!(matches!(error(twice), DescriptionError::Model(EventError::DuplicateField { .. })));
        let long = "x".repeat(300);
        assert!(matches!(error(vec![integer(&long)]), DescriptionError::Model(_)));
        assert!(matches!(error(vec![integer("a\nb")]), DescriptionError::Model(_)));
        assert!(matches!(error(vec![integer("a\0b")]), DescriptionError::Nul { .. }));
        let many = vec![integer("x"); 65];
        assert_eq!(error(many), DescriptionError::TooManyFields { found: 65, limit: 64 });
        let bytes = Described::new("", "event", 6).bytes();
        assert_eq!(Description::parse(&bytes), Err(DescriptionError::NoProvider));
        let bytes = Described::new("app", "event", 15).bytes();
        assert!(matches!(Description::parse(&bytes), Err(DescriptionError::Model(_))));
    }

    #[test]
    fn malicious_description_of_random_bytes_never_panics() {
        let mut random = Random::new();
        let valid = described(every_kind());
        let mut accepted = 0;
        for round in 0..200_000 {
            let mut bytes = valid.clone();
            if round % 2 == 0 {
                for _ in 0..=random.below(3) {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            } else {
                bytes = (0..random.below(200)).map(|_| random.next() as u8 & 15).collect();
            }
            if let Ok(parsed) = Description::parse(&bytes) {
                assert_eq!(parsed.event.validate(), Ok(()));
                accepted += 1;
            }
        }
        assert!(accepted > 100, "{accepted}: the mutations should be small enough");
    }
}
