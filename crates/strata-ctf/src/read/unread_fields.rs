//! Fields whose numbers a probe could not read.
//!
//! When Strata's probes cannot read a number in a program's memory, they write 0 in its place, and set a bit in the
//! last field of the record, `strata_unread`. Such a field has no value. The last field is not shown. Bit i belongs to
//! field i; lengths of texts do not count.

use crate::model::schema::{self, FieldClass, Length, Scope, Width};
use crate::model::UNREAD_FIELD;

use super::decode::FieldPath;
use super::visit::{FieldInfo, Visit};

/// The fields of a class that may lack a value.
#[derive(Clone, Debug)]
pub(crate) struct UnreadFields {
    /// The field with the bits.
    bits: FieldPath,
    /// The bit of each member of the payload, as a mask; 0 for the last member.
    masks: Vec<u64>,
}

impl UnreadFields {
    /// Finds the fields in a class of event records. `find` returns the path of a field of the payload. Returns `None`
    /// if the class has no field with the bits.
    pub(crate) fn of(
        class: &schema::EventClass,
        find: impl Fn(&str) -> Option<FieldPath>,
    ) -> Option<UnreadFields> {
        let payload = class.payload.as_ref()?;
        let (last, members) = payload.members.split_last()?;
        let FieldClass::Integer(integer) = &last.class else { return None };
        if last.name != UNREAD_FIELD || integer.signed || matches!(integer.width, Width::Variable) {
            return None;
        }
        let mut is_length = vec![false; members.len()];
        for member in members {
            let length = match &member.class {
                FieldClass::Text { length } | FieldClass::Blob { length, .. } => length,
                FieldClass::Array(array) => &array.length,
                _ => continue,
            };
            let Length::Dynamic(location) = length else { continue };
            if let (Scope::Payload, [at]) = (location.scope, location.path.as_slice()) {
                if let Some(found) = is_length.get_mut(*at as usize) {
                    *found = true;
                }
            }
        }
        let mut next = Some(1u64);
        let masks = is_length.into_iter().map(|is_length| {
            if is_length {
                return 0;
            }
            let mask = next.unwrap_or(0);
            next = mask.checked_mul(2).filter(|mask| *mask > 0);
            mask
        });
        Some(UnreadFields { masks: masks.collect(), bits: find(UNREAD_FIELD)? })
    }

    /// Returns the path of the field with the bits.
    pub(crate) fn bits(&self) -> &FieldPath {
        &self.bits
    }

    /// Returns the mask of the payload's member with this field.
    pub(crate) fn mask(&self, class: &schema::EventClass, name: &str) -> u64 {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let name = name.get(..end).unwrap_or(name);
        let member = class.payload.as_ref().and_then(|payload| payload.find(name));
        member.and_then(|at| self.masks.get(at)).copied().unwrap_or(0)
    }

    /// Returns a visitor that passes a payload's fields to `visit`, and fields that could not be read as absent.
    pub(crate) fn visitor<'v, V: Visit>(
        &'v self,
        unread: u64,
        visit: &'v mut V,
    ) -> ReadFields<'v, V> {
        ReadFields { masks: self.masks.iter(), unread, depth: 0, is_told: true, visit }
    }
}

/// Passes the fields that were read to another visitor.
pub(crate) struct ReadFields<'v, V> {
    /// Masks of the following members.
    masks: std::slice::Iter<'v, u64>,
    unread: u64,
    /// Number of fields that contain the current one.
    depth: u32,
    /// True if the current member was read, so that its fields are passed on.
    is_told: bool,
    visit: &'v mut V,
}

impl<V: Visit> ReadFields<'_, V> {
    /// Returns the visitor if the field is to be passed on.
    fn field(&mut self, field: &FieldInfo) -> Option<&mut V> {
        if self.depth == 0 {
            self.is_told = match self.masks.next() {
                Some(mask) if mask & self.unread == 0 => true,
                Some(_) => {
                    self.visit.unread(field);
                    false
                }
                // The last member has the bits themselves.
                None => false,
            };
        }
        self.is_told.then_some(&mut *self.visit)
    }

    fn begin(&mut self, field: &FieldInfo) -> Option<&mut V> {
        self.field(field);
        self.depth = self.depth.saturating_add(1);
        self.is_told.then_some(&mut *self.visit)
    }

    fn end(&mut self) -> Option<&mut V> {
        self.depth = self.depth.saturating_sub(1);
        self.is_told.then_some(&mut *self.visit)
    }
}

impl<V: Visit> Visit for ReadFields<'_, V> {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if let Some(visit) = self.field(field) {
            visit.unsigned(field, value);
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        if let Some(visit) = self.field(field) {
            visit.signed(field, value);
        }
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        if let Some(visit) = self.field(field) {
            visit.real(field, value);
        }
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if let Some(visit) = self.field(field) {
            visit.text(field, bytes);
        }
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if let Some(visit) = self.field(field) {
            visit.blob(field, bytes);
        }
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.begin(field) {
            visit.begin_structure(field);
        }
    }

    fn end_structure(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.end() {
            visit.end_structure(field);
        }
    }

    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        if let Some(visit) = self.begin(field) {
            visit.begin_array(field, length);
        }
    }

    fn end_array(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.end() {
            visit.end_array(field);
        }
    }

    fn begin_variant(&mut self, field: &FieldInfo, option: &str) {
        if let Some(visit) = self.begin(field) {
            visit.begin_variant(field, option);
        }
    }

    fn end_variant(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.end() {
            visit.end_variant(field);
        }
    }

    fn begin_optional(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.begin(field) {
            visit.begin_optional(field);
        }
    }

    fn end_optional(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.end() {
            visit.end_optional(field);
        }
    }

    fn absent(&mut self, field: &FieldInfo) {
        if let Some(visit) = self.field(field) {
            visit.absent(field);
        }
    }
}
