//! A class of event records.

use super::decode::ClassPlans;
use super::field::FieldRef;
use super::unread_fields::UnreadFields;
use super::visit::FieldInfo;
use crate::model::schema::{self, Scope};
use crate::model::UNREAD_FIELD;

/// The order in which the parts of a record are searched for a name.
const SEARCHED: [Scope; 6] = [
    Scope::Payload,
    Scope::SpecificContext,
    Scope::CommonContext,
    Scope::PacketContext,
    Scope::EventHeader,
    Scope::PacketHeader,
];

/// The description of a class of event records, with its decoding plans.
#[derive(Debug)]
pub struct EventClass {
    index: usize,
    schema: schema::EventClass,
    stream: usize,
    plans: ClassPlans,
    unread: Option<UnreadFields>,
}

impl EventClass {
    pub(crate) fn new(
        index: usize,
        schema: &schema::EventClass,
        stream: usize,
        plans: ClassPlans,
    ) -> EventClass {
        let mut schema = schema.clone();
        let unread = UnreadFields::of(&schema, |name| plans.find(index, Scope::Payload, name));
        if let (Some(_), Some(payload)) = (&unread, &mut schema.payload) {
            payload.members.pop();
        }
        EventClass { index, schema, stream, plans, unread }
    }

    /// Returns the fields that a probe may have failed to read.
    #[inline]
    pub(crate) fn unread(&self) -> Option<&UnreadFields> {
        self.unread.as_ref()
    }

    #[inline]
    pub(crate) fn plans(&self) -> &ClassPlans {
        &self.plans
    }

    /// Returns the name, `provider:name` as in the metadata; it may be empty.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// Returns the id that record headers carry.
    pub fn id(&self) -> u64 {
        self.schema.id
    }

    /// Returns the log level, as in the metadata.
    pub fn loglevel(&self) -> Option<i64> {
        self.schema.loglevel
    }

    /// Returns the class's index among all classes of all traces that are read together, from 0 on. Use it for tables.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the index of the class's stream class in the trace's schema.
    pub fn stream_class(&self) -> usize {
        self.stream
    }

    /// Returns the class's description, without the last member if it only marks the fields that could not be read.
    pub fn schema(&self) -> &schema::EventClass {
        &self.schema
    }

    /// Returns whether records of the class have a part with this scope.
    #[inline]
    pub fn has(&self, scope: Scope) -> bool {
        self.plans().has(scope)
    }

    /// Returns the direct fields of a part in order, without the fields in them.
    pub fn fields(&self, scope: Scope) -> impl Iterator<Item = &FieldInfo> {
        let is_last = |field: &&FieldInfo| field.name() == UNREAD_FIELD && !field.is_element();
        let hidden = scope == Scope::Payload && self.unread.is_some();
        self.plans().fields(scope).filter(move |field| !(hidden && is_last(field)))
    }

    /// Finds the field with this name in the first part that has it. The order is: payload, specific context, common
    /// context, packet context, record header, packet header. Names are as for [`EventClass::find_in`].
    pub fn find(&self, name: &str) -> Option<FieldRef> {
        SEARCHED.into_iter().find_map(|scope| self.find_in(scope, name))
    }

    /// Finds the field with this name in a part.
    ///
    /// `a.b` is member b of the structure a, or option b of the variant a; `a[3]` is the fourth element of an array.
    /// Both can be combined: `a[3].b[0]`.
    pub fn find_in(&self, scope: Scope, name: &str) -> Option<FieldRef> {
        let path = self.plans().find(self.index, scope, name)?;
        let unread = self.unread.as_ref().filter(|_| scope == Scope::Payload);
        Some(FieldRef::new(path, unread.map_or(0, |unread| unread.mask(&self.schema, name))))
    }
}
