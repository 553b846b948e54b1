//! Copies fields from one place of a packet to another, with the alignment that each has there.

use std::collections::{HashMap, HashSet};

use super::class::{is_head, places};
use super::writer::{PacketBuilder, LEB_BYTES};
use crate::model::schema::{
    Array, Encoding, FieldClass, Integer, Length, Location, Real, Role, Scope, Structure, Width,
};
use crate::model::ByteOrder;
use crate::read::{align_up, find_nul, leb128, read_bits, Leb};

/// The bytes of a packet that are read, or a part of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketSource<'s> {
    pub bytes: &'s [u8],
    /// Offset of the first of these bytes \[byte of the packet\]; wrapping.
    pub origin: u64,
}

/// The error that a field ends after the available bytes, or that nothing gives its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldWithoutEnd;

impl<'s> PacketSource<'s> {
    /// Returns the bytes from the byte that contains this bit on.
    pub fn from(&self, bit: u64) -> Result<&'s [u8], FieldWithoutEnd> {
        let at =
            usize::try_from((bit / 8).wrapping_sub(self.origin)).map_err(|_| FieldWithoutEnd)?;
        self.bytes.get(at..).ok_or(FieldWithoutEnd)
    }

    /// Returns `bytes` bytes from this bit on.
    pub fn take(&self, bit: u64, bytes: u64) -> Result<&'s [u8], FieldWithoutEnd> {
        let bytes = usize::try_from(bytes).map_err(|_| FieldWithoutEnd)?;
        self.from(bit)?.get(..bytes).ok_or(FieldWithoutEnd)
    }
}

/// The known values of fields on which other fields depend.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownValues {
    head: HashMap<Location, i128>,
    record: HashMap<Location, i128>,
}

impl KnownValues {
    pub fn begin_packet(&mut self) {
        self.head.clear();
    }

    pub fn begin_record(&mut self) {
        self.record.clear();
    }

    fn part(&mut self, scope: Scope) -> &mut HashMap<Location, i128> {
        if is_head(scope) {
            &mut self.head
        } else {
            &mut self.record
        }
    }

    /// Removes the values of all fields within the field at `place`.
    fn forget(&mut self, place: &Location) {
        let is_in = |at: &Location| at.scope == place.scope && at.path.starts_with(&place.path);
        self.part(place.scope).retain(|at, _| !is_in(at));
    }

    /// Returns the value of the field to which a location leads.
    fn get(&self, location: &Location) -> Result<i128, FieldWithoutEnd> {
        let map = if is_head(location.scope) { &self.head } else { &self.record };
        let found = match location.others.is_empty() {
            true => map.get(location),
            false => places(location).find_map(|place| map.get(&place)),
        };
        found.copied().ok_or(FieldWithoutEnd)
    }
}

/// A timestamp that was read: its value, and its width \[bit\].
pub(super) type Time = (u64, u8);

/// An integer that has a role for readers, such as a size or time, and its place in the packet that is written.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    pub role: Option<Role>,
    /// Set if the field is a time: its index among the record's times, and its width \[bit\].
    pub time: Option<(usize, u8)>,
    /// True if the integer has the name of a packet's begin time.
    pub is_begin: bool,
    pub value: u64,
    /// Begin of the integer \[bit of the packet\].
    pub at: u64,
    /// The integer's width \[bit\]; `None` for an integer of [`LEB_BYTES`].
    pub width: Option<u8>,
    pub big: bool,
    pub is_reversed: bool,
}

/// Copies the parts of a packet's head or of a record.
pub(super) struct Copier<'c> {
    pub source: PacketSource<'c>,
    /// Begin of the next field \[bit of the packet that is read\].
    pub at: u64,
    pub out: &'c mut PacketBuilder,
    pub known: &'c mut KnownValues,
    pub needed: &'c HashSet<Location>,
    /// Index of the stream's clock.
    pub clock: Option<usize>,
    pub times: &'c mut Vec<Time>,
    /// Integers of a packet's head that tell a reader something, such as sizes and times; they are collected for changes.
    pub meant: Option<&'c mut Vec<Meant>>,
    pub place: Location,
}

impl Copier<'_> {
    pub fn part(&mut self, scope: Scope, part: Option<&Structure>) -> Result<(), FieldWithoutEnd> {
        let Some(part) = part else { return Ok(()) };
        self.place = Location::at(scope, Vec::new());
        self.structure(part)
    }

    fn align(&mut self, align: u64) {
        self.at = align_up(self.at, align.max(1));
        self.out.align(align);
    }

    /// Removes the values of earlier fields at the present place, since this field may be another one, or absent.
    fn forget(&mut self) {
        if !self.needed.is_empty() {
            self.known.forget(&self.place);
        }
    }

    fn structure(&mut self, structure: &Structure) -> Result<(), FieldWithoutEnd> {
        self.align(structure.align());
        for (index, member) in (0u32..).zip(&structure.members) {
            self.inner(index, &member.class, Some(&member.name))?;
        }
        Ok(())
    }

    fn inner(
        &mut self,
        index: u32,
        class: &FieldClass,
        name: Option<&str>,
    ) -> Result<(), FieldWithoutEnd> {
        self.place.path.push(index);
        let done = self.class(class, name);
        self.place.path.pop();
        done
    }

    fn class(&mut self, class: &FieldClass, name: Option<&str>) -> Result<(), FieldWithoutEnd> {
        match class {
            FieldClass::Integer(integer) => self.integer(integer, name),
            FieldClass::Real(real) => self.real(real),
            FieldClass::String => {
                self.align(8);
                let nul = find_nul(self.source.from(self.at)?).ok_or(FieldWithoutEnd)?;
                self.bytes(nul as u64 + 1)
            }
            FieldClass::Text { length } | FieldClass::Blob { length, .. } => {
                self.align(class.align());
                let bytes = self.length(length)?;
                self.bytes(bytes)
            }
            FieldClass::Wide { length: Some(length), .. } => {
                self.align(8);
                let bytes = self.length(length)?;
                self.bytes(bytes)
            }
            FieldClass::Wide { length: None, encoding } => self.wide(*encoding),
            FieldClass::Structure(structure) => self.structure(structure),
            FieldClass::Array(array) => self.array(array),
            FieldClass::Variant(variant) => {
                let value = self.known.get(&variant.selector)?;
                self.forget();
                let is = |ranges: &[crate::model::schema::Range]| {
                    ranges.iter().any(|range| range.contains(value))
                };
                let mut options = (0u32..).zip(&variant.options);
                let (index, option) =
                    options.find(|(_, option)| is(&option.ranges)).ok_or(FieldWithoutEnd)?;
                self.inner(index, &option.class, None)
            }
            FieldClass::Optional(optional) => {
                let value = self.known.get(&optional.selector)?;
                self.forget();
                let is_there = match optional.ranges.as_slice() {
                    [] => value != 0,
                    ranges => ranges.iter().any(|range| range.contains(value)),
                };
                if is_there {
                    self.inner(0, &optional.class, None)?;
                }
                Ok(())
            }
        }
    }

    fn length(&self, length: &Length) -> Result<u64, FieldWithoutEnd> {
        match length {
            Length::Static(count) => Ok(*count),
            Length::Dynamic(location) => {
                u64::try_from(self.known.get(location)?).map_err(|_| FieldWithoutEnd)
            }
        }
    }

    fn array(&mut self, array: &Array) -> Result<(), FieldWithoutEnd> {
        let count = self.length(&array.length)?;
        self.align(u64::from(array.align.max(1)).max(array.element.align()));
        for _ in 0..count {
            self.inner(0, &array.element, None)?;
        }
        Ok(())
    }

    /// Copies whole bytes, which begin at a whole byte.
    fn bytes(&mut self, bytes: u64) -> Result<(), FieldWithoutEnd> {
        self.out.extend(self.source.take(self.at, bytes)?);
        self.at += bytes * 8;
        Ok(())
    }

    fn wide(&mut self, encoding: Encoding) -> Result<(), FieldWithoutEnd> {
        self.align(8);
        let unit = encoding.unit();
        let bytes = self.source.from(self.at)?;
        let is_nul = |unit: &[u8]| unit.iter().all(|&byte| byte == 0);
        let units = bytes.chunks_exact(unit).position(is_nul).ok_or(FieldWithoutEnd)? + 1;
        self.bytes((units * unit) as u64)
    }

    fn real(&mut self, real: &Real) -> Result<(), FieldWithoutEnd> {
        self.align(u64::from(real.align));
        self.bits(real.bits, real.byte_order == ByteOrder::Big)?;
        Ok(())
    }

    /// Copies an integer unchanged, and returns its value.
    fn bits(&mut self, width: u8, big: bool) -> Result<u64, FieldWithoutEnd> {
        let raw = read_bits(self.source.from(self.at)?, self.at % 8, width, big)
            .ok_or(FieldWithoutEnd)?;
        self.at += u64::from(width);
        self.out.put(raw, width, big);
        Ok(raw)
    }

    fn integer(&mut self, integer: &Integer, name: Option<&str>) -> Result<(), FieldWithoutEnd> {
        let big = integer.byte_order == ByteOrder::Big;
        let scope = self.place.scope;
        let role = match scope {
            Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader => integer.role,
            _ => None,
        };
        let is_time = integer.clock.is_some()
            && integer.clock == self.clock
            && scope != Scope::PacketHeader
            && role != Some(Role::PacketEndTimestamp);
        let is_meant = self.meant.is_some() && (role.is_some() || is_time);
        let (value, begin, width) = match integer.width {
            Width::Bits(width) => {
                self.align(u64::from(integer.align));
                let begin = self.out.at();
                let raw = self.bits(width, big)?;
                let unused = 64 - u32::from(width.clamp(1, 64));
                let raw = if integer.is_reversed { raw.reverse_bits() >> unused } else { raw };
                let value = match integer.signed {
                    true => (((raw << unused) as i64) >> unused) as u64,
                    false => raw,
                };
                (value, begin, Some(width))
            }
            Width::Variable => {
                self.align(u64::from(integer.align).max(8));
                let begin = self.out.at();
                let Leb::Is(value, bytes) = leb128(self.source.from(self.at)?, integer.signed)
                else {
                    return Err(FieldWithoutEnd);
                };
                if is_meant {
                    // The copy has room for any value.
                    self.at += bytes * 8;
                    self.out.extend(&[0; LEB_BYTES]);
                    let at = begin - self.out.origin() * 8;
                    super::writer::set_leb(&mut self.out.bytes, at, value);
                } else {
                    self.bytes(bytes)?;
                }
                (value, begin, None)
            }
        };
        if !self.needed.is_empty() && self.needed.contains(&self.place) {
            let number = match integer.signed {
                true => i128::from(value as i64),
                false => i128::from(value),
            };
            self.known.part(scope).insert(self.place.clone(), number);
        }
        let bits = width.unwrap_or(64);
        if let Some(meant) = self.meant.as_mut().filter(|_| is_meant) {
            meant.push(Meant {
                role,
                time: is_time.then_some((self.times.len(), bits)),
                is_begin: name == Some("timestamp_begin"),
                value,
                at: begin,
                width,
                big,
                is_reversed: integer.is_reversed,
            });
        }
        if is_time {
            self.times.push((value, bits));
        }
        Ok(())
    }
}
