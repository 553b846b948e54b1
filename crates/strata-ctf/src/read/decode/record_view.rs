//! A decoded record, which gives access to its fields.

use std::sync::Arc;

use super::decode_fields::{walk, PartBytes, TellVisitor};
use super::field_path::{members, FieldPath, Fixed};
use super::plan::DecodingPlan;
use super::state::{DecodeState, RecordShape};
use crate::model::schema::Scope;
use crate::read::value::Value;
use crate::read::visit::{FieldInfo, Visit};

/// The decoding plans of an event record class, in the order of [`Scope`]. Equal parts of several classes share
/// one plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassPlans([Option<Arc<DecodingPlan>>; 6]);

impl ClassPlans {
    /// Sets the plan that decodes the part of a record with this scope, such as its payload.
    pub(super) fn put(&mut self, scope: Scope, plan: Option<Arc<DecodingPlan>>) {
        if let Some(place) = self.0.get_mut(scope as usize) {
            *place = plan;
        }
    }

    #[inline]
    pub(super) fn get(&self, scope: Scope) -> Option<&DecodingPlan> {
        self.0.get(scope as usize)?.as_deref()
    }

    #[inline]
    pub fn has(&self, scope: Scope) -> bool {
        self.get(scope).is_some()
    }

    /// Finds the field with this name in a class, which is given by its index over all traces.
    pub fn find(&self, class: usize, scope: Scope, name: &str) -> Option<FieldPath> {
        FieldPath::find(self.get(scope)?, class, name)
    }

    /// Returns the direct fields of a part, without the fields in them.
    pub fn fields(&self, scope: Scope) -> impl Iterator<Item = &FieldInfo> {
        self.get(scope).into_iter().flat_map(members)
    }
}

/// A decoded record and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct RecordView<'e> {
    pub state: &'e DecodeState,
    /// Begin of the record \[bit of the packet\].
    pub begin: u64,
    pub shape: &'e RecordShape,
    pub bytes: &'e [u8],
    /// Offset of the first of `bytes` \[byte of the packet\]; wrapping.
    pub origin: u64,
}

impl<'e> RecordView<'e> {
    #[inline(always)]
    fn source(self, scope: Scope) -> Option<PartBytes<'e>> {
        let RecordView { state, begin, shape, bytes, origin } = self;
        let behind = match scope {
            Scope::EventHeader => 0,
            Scope::CommonContext => shape.common,
            Scope::SpecificContext => shape.specific,
            Scope::Payload => shape.payload,
            Scope::PacketHeader => return self.head(0),
            Scope::PacketContext => return self.head(state.context),
        };
        Some(PartBytes { bytes, origin, begin: begin.wrapping_add(behind), state })
    }

    /// Returns a part of the packet's head, if the head was kept.
    fn head(self, begin: u64) -> Option<PartBytes<'e>> {
        let DecodeState { head, .. } = self.state;
        (!head.is_empty()).then_some(PartBytes { bytes: head, origin: 0, begin, state: self.state })
    }

    /// Visits the fields of a part. Returns where the part ends \[bit of the packet\]; `None` if there is no such part.
    #[inline(always)]
    pub fn visit(self, plans: &ClassPlans, scope: Scope, visit: &mut impl Visit) -> Option<u64> {
        walk(plans.get(scope)?, self.source(scope)?, &mut TellVisitor(visit))
    }

    /// Reads an integer at a fixed place; `None` if it has to be read by its path.
    #[inline(always)]
    pub fn integer(self, field: Fixed) -> Option<i64> {
        let behind = match field.scope {
            Scope::CommonContext => self.shape.common,
            Scope::SpecificContext => self.shape.specific,
            Scope::Payload => self.shape.payload,
            _ => return None,
        };
        let at = (self.begin.wrapping_add(behind) / 8).wrapping_sub(self.origin);
        field.read(self.bytes.get(usize::try_from(at).ok()?..)?)
    }

    /// Reads a field of the record's class.
    #[inline]
    pub fn value(self, plans: &ClassPlans, path: &FieldPath) -> Option<Value<'e>> {
        path.value(plans.get(path.scope)?, self.source(path.scope)?)
    }
}
