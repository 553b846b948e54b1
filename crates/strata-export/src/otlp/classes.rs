//! What is looked for in the records of an event class: found once, when its first record comes.

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};
use strata_timeline::{elapsed_of_span, SpanKey, SpanRole, SpanRoles};

use super::ids::{parsed, SpanId, TraceId};
use super::proto::{KIND_CLIENT, KIND_CONSUMER, KIND_INTERNAL, KIND_PRODUCER, KIND_SERVER};

/// The event that marks its span as failed.
const ERROR: &str = "otel:error";

/// The role of a class' records.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// The records begin spans. `key`: the field with the span's key. `elapsed`: the field with the time since the
    /// begin.
    Begins { key: Option<FieldRef>, elapsed: Option<FieldRef> },
    /// The records end spans.
    Ends,
    /// The records belong to an open span, whose ids they have. `is_error`: true if they mark it as failed.
    Within { is_error: bool },
    /// The records have no role for spans.
    None,
}

/// An event class, with its role and fields in an export of spans.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) role: Role,
    /// The fields of the payload, in order; `None` for those that are no attributes.
    pub(super) fields: Vec<Option<FieldRef>>,
    ids: Option<[FieldRef; 2]>,
    parent: Option<FieldRef>,
    name: Option<FieldRef>,
    kind: Option<FieldRef>,
    description: Option<FieldRef>,
}

/// The ids that a span has in OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ids {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
}

impl Class {
    pub(super) fn new(class: &EventClass, roles: &SpanRoles) -> Class {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let ids = find("trace_id").zip(find("span_id")).map(|(trace, span)| [trace, span]);
        let role = match roles.get(class.name()) {
            Some(SpanRole { begins: true, key, .. }) => Role::Begins {
                key: key.as_deref().and_then(|key| class.find(key)),
                elapsed: elapsed_of_span(class),
            },
            Some(_) => Role::Ends,
            None if ids.is_some() => Role::Within { is_error: class.name() == ERROR },
            None => Role::None,
        };
        let is_used = !matches!(role, Role::None);
        let has = |name: &str| class.fields(Scope::Payload).any(|field| field.name() == name);
        // A text's length, which its class has as a field before it.
        let is_length = |name: &str| {
            name.strip_prefix('_').and_then(|name| name.strip_suffix("_length")).is_some_and(has)
        };
        let field = |name: &str| if is_length(name) { None } else { find(name) };
        let fields = class.fields(Scope::Payload).filter(|_| is_used);
        let fields = fields.map(|info| field(info.name())).collect();
        Class {
            role,
            fields,
            ids,
            parent: find("parent_id"),
            name: find("name"),
            kind: find("kind"),
            description: find("description"),
        }
    }

    /// Returns the span ids in a record; `None` if it has none, or invalid ones.
    pub(super) fn ids(&self, event: &Event<'_>) -> Option<Ids> {
        let [trace, span] = self.ids.as_ref()?;
        Some(Ids { trace: parsed(text(event, trace)?)?, span: parsed(text(event, span)?)? })
    }

    /// Returns the id of the span that a record's span is a part of.
    pub(super) fn parent(&self, event: &Event<'_>) -> Option<SpanId> {
        parsed(text(event, self.parent.as_ref()?)?)
    }

    /// Returns the name that OpenTelemetry has for the span.
    pub(super) fn name<'e>(&self, event: &Event<'e>) -> Option<&'e [u8]> {
        text(event, self.name.as_ref()?)
    }

    /// Returns the description of an error, from the record that reports the error.
    pub(super) fn description<'e>(&self, event: &Event<'e>) -> Option<&'e [u8]> {
        text(event, self.description.as_ref()?)
    }

    /// Returns the number of the kind of a span.
    pub(super) fn kind(&self, event: &Event<'_>) -> i32 {
        match self.kind.as_ref().and_then(|kind| text(event, kind)) {
            Some(b"server") => KIND_SERVER,
            Some(b"client") => KIND_CLIENT,
            Some(b"producer") => KIND_PRODUCER,
            Some(b"consumer") => KIND_CONSUMER,
            _ => KIND_INTERNAL,
        }
    }
}

/// Returns the value of a field as the key of a span.
pub(super) fn key(event: &Event<'_>, field: &FieldRef) -> Option<SpanKey> {
    SpanKey::of(event.value(field)?)
}

fn text<'e>(event: &Event<'e>, field: &FieldRef) -> Option<&'e [u8]> {
    match event.value(field)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
