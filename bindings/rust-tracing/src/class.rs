//! The class of each callsite, which is made when the callsite is first reached, and stays.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use strata_events::{Class as Description, Error, Event, FieldType, Level, Provider, SpanClass};
use tracing_core::Metadata;

/// The class of a callsite.
pub(crate) struct Class {
    pub kind: Kind,
    pub types: Vec<FieldType>,
}

/// The handle of a class.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Event(Event),
    Span(SpanClass),
    /// The class cannot be registered.
    Nothing,
}

impl Class {
    /// Returns true while somebody records the class.
    pub fn is_on(&self) -> bool {
        match &self.kind {
            Kind::Event(event) => event.is_on(),
            Kind::Span(span) => span.is_on(),
            Kind::Nothing => false,
        }
    }
}

/// Classes by the addresses of their callsites' metadata, which never move.
type Classes = RwLock<HashMap<usize, &'static Class>>;

fn classes() -> &'static Classes {
    static CLASSES: OnceLock<Classes> = OnceLock::new();
    CLASSES.get_or_init(Classes::default)
}

/// Callsites that a thread has been at lately: the lock is dearer than the record.
const RECENT: usize = 64;

thread_local! {
    static LATELY: [Cell<(usize, Option<&'static Class>)>; RECENT] =
        const { [const { Cell::new((0, None)) }; RECENT] };
}

fn address(metadata: &'static Metadata<'static>) -> usize {
    std::ptr::from_ref(metadata) as usize
}

/// Returns the class of a callsite; `None` before it is made.
pub(crate) fn get(metadata: &'static Metadata<'static>) -> Option<&'static Class> {
    let address = address(metadata);
    let find = |cell: &Cell<(usize, Option<&'static Class>)>| {
        let (of, class) = cell.get();
        if of == address {
            return class;
        }
        let known = classes().read().unwrap_or_else(PoisonError::into_inner);
        let class = known.get(&address).copied();
        if class.is_some() {
            cell.set((address, class));
        }
        class
    };
    // A thread that ends has no such place any more, and its last events take the lock.
    LATELY
        .try_with(|cells| find(&cells[(address >> 4) % RECENT]))
        .unwrap_or_else(|_| find(&Cell::new((0, None))))
}

/// Makes the class of a callsite, unless another thread has.
pub(crate) fn make(metadata: &'static Metadata<'static>, types: Vec<FieldType>) -> &'static Class {
    let mut known = classes().write().unwrap_or_else(PoisonError::into_inner);
    known.entry(address(metadata)).or_insert_with(|| {
        let kind = register(metadata, &types).unwrap_or(Kind::Nothing);
        Box::leak(Box::new(Class { kind, types }))
    })
}

fn register(metadata: &Metadata<'_>, types: &[FieldType]) -> Option<Kind> {
    let provider = Provider::new(&metadata.target().replace("::", ".").replace(':', ".")).ok()?;
    let names = metadata.fields().iter().map(|field| field.name());
    let mut fields: Vec<(&str, FieldType)> = Vec::new();
    if metadata.is_span() {
        fields.push(("parent", FieldType::U64));
    }
    fields.extend(names.zip(types.iter().copied()));
    let class = Description {
        name: metadata.name(),
        level: level(metadata.level()),
        fields: &fields,
        place: (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default()),
    };
    let register = |class: &Description<'_>| {
        if metadata.is_span() {
            return provider.span(class, true).map(Kind::Span);
        }
        provider.event(class).map(Kind::Event)
    };
    match register(&class) {
        // Another callsite of this name has other fields.
        Err(Error::Refused(EEXIST, _)) => {
            let name = format!("{}:{}", class.name, class.place.1);
            register(&Description { name: &name, ..class }).ok()
        }
        registered => registered.ok(),
    }
}

/// Number of the error for a name that another class has.
const EEXIST: i32 = 17;

fn level(level: &tracing_core::Level) -> Level {
    match *level {
        tracing_core::Level::ERROR => Level::Err,
        tracing_core::Level::WARN => Level::Warning,
        tracing_core::Level::INFO => Level::Info,
        tracing_core::Level::DEBUG => Level::DebugLine,
        tracing_core::Level::TRACE => Level::Debug,
    }
}
