//! One decoded record, for whoever wants its fields.

use std::sync::Arc;

use super::path::{members, Fixed, Path};
use super::plan::Plan;
use super::state::{DecodeState, Shape};
use super::walk::{walk, Source, Tell};
use crate::model::schema::Scope;
use crate::read::value::Value;
use crate::read::visit::{FieldInfo, Visit};

/// The plans of an event record class, in the order of [`Scope`]. Those in front of its own are shared
/// with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans([Option<Arc<Plan>>; 6]);

impl Plans {
    /// Of the part, from now on.
    pub(super) fn put(&mut self, scope: Scope, plan: Option<Arc<Plan>>) {
        if let Some(place) = self.0.get_mut(scope as usize) {
            *place = plan;
        }
    }

    #[inline]
    pub(super) fn get(&self, scope: Scope) -> Option<&Plan> {
        self.0.get(scope as usize)?.as_deref()
    }

    #[inline]
    pub fn has(&self, scope: Scope) -> bool {
        self.get(scope).is_some()
    }

    /// The field of a class (by its index over all traces) with this name.
    pub fn find(&self, class: usize, scope: Scope, name: &str) -> Option<Path> {
        Path::find(self.get(scope)?, class, name)
    }

    /// The fields of a part, without those that are in them.
    pub fn fields(&self, scope: Scope) -> impl Iterator<Item = &FieldInfo> {
        self.get(scope).into_iter().flat_map(members)
    }
}

/// A decoded record and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct View<'e> {
    pub state: &'e DecodeState,
    /// Where the record begins \[bit of the packet\].
    pub begin: u64,
    pub shape: &'e Shape,
    pub bytes: &'e [u8],
    /// Which byte of the packet `bytes` begins with; wrapping.
    pub origin: u64,
}

impl<'e> View<'e> {
    #[inline(always)]
    fn source(self, scope: Scope) -> Option<Source<'e>> {
        let View { state, begin, shape, bytes, origin } = self;
        let behind = match scope {
            Scope::EventHeader => 0,
            Scope::CommonContext => shape.common,
            Scope::SpecificContext => shape.specific,
            Scope::Payload => shape.payload,
            Scope::PacketHeader => return self.head(0),
            Scope::PacketContext => return self.head(state.context),
        };
        Some(Source { bytes, origin, begin: begin.wrapping_add(behind), state })
    }

    /// A part of the packet's head.
    fn head(self, begin: u64) -> Option<Source<'e>> {
        let DecodeState { head, .. } = self.state;
        (!head.is_empty()).then_some(Source { bytes: head, origin: 0, begin, state: self.state })
    }

    /// Where the walk through the part ended \[bit of the packet\]; `None`: there is no such part.
    #[inline(always)]
    pub fn visit(self, plans: &Plans, scope: Scope, visit: &mut impl Visit) -> Option<u64> {
        walk(plans.get(scope)?, self.source(scope)?, &mut Tell(visit))
    }

    /// What is in such a field of the record's class; `None`: ask for its value.
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

    /// What is in a field of the record's class.
    #[inline]
    pub fn value(self, plans: &Plans, path: &Path) -> Option<Value<'e>> {
        path.value(plans.get(path.scope)?, self.source(path.scope)?)
    }
}
