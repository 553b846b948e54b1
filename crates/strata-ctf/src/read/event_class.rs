//! A kind of event records.

use super::decode::ClassPlans;
use super::field::FieldRef;
use super::visit::FieldInfo;
use crate::model::schema::{self, Scope};

/// The order in which a name without a part is looked for.
const SEARCHED: [Scope; 6] = [
    Scope::Payload,
    Scope::SpecificContext,
    Scope::CommonContext,
    Scope::PacketContext,
    Scope::EventHeader,
    Scope::PacketHeader,
];

/// A kind of event records, and how they are decoded.
#[derive(Debug)]
pub struct EventClass {
    index: usize,
    schema: schema::EventClass,
    stream: usize,
    plans: ClassPlans,
}

impl EventClass {
    pub(crate) fn new(
        index: usize,
        schema: &schema::EventClass,
        stream: usize,
        plans: ClassPlans,
    ) -> EventClass {
        EventClass { index, schema: schema.clone(), stream, plans }
    }

    #[inline]
    pub(crate) fn plans(&self) -> &ClassPlans {
        &self.plans
    }

    /// `provider:name`, as it is in the metadata; may be empty.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// What a record's header says.
    pub fn id(&self) -> u64 {
        self.schema.id
    }

    /// How severe it is, as it is in the metadata.
    pub fn loglevel(&self) -> Option<i64> {
        self.schema.loglevel
    }

    /// Its number among all classes of all traces that are read together, from 0 on: for tables.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Index of its stream class in the trace's schema.
    pub fn stream_class(&self) -> usize {
        self.stream
    }

    /// Its description.
    pub fn schema(&self) -> &schema::EventClass {
        &self.schema
    }

    /// Whether its records have such a part.
    #[inline]
    pub fn has(&self, scope: Scope) -> bool {
        self.plans().has(scope)
    }

    /// The fields of a part, in order, without those that are in them.
    pub fn fields(&self, scope: Scope) -> impl Iterator<Item = &FieldInfo> {
        self.plans().fields(scope)
    }

    /// The field of this name in the first part that has it: payload, specific context, common context,
    /// packet context, record header, packet header. Names are as for [`EventClass::find_in`].
    pub fn find(&self, name: &str) -> Option<FieldRef> {
        SEARCHED.into_iter().find_map(|scope| self.find_in(scope, name))
    }

    /// The field of this name in a part.
    ///
    /// `a.b` is member b of the structure a, or option b of the variant a; `a[3]` is an array's fourth
    /// element; and so on: `a[3].b[0]`.
    pub fn find_in(&self, scope: Scope, name: &str) -> Option<FieldRef> {
        self.plans().find(self.index, scope, name).map(FieldRef::new)
    }
}
