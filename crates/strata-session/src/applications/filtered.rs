//! Which filter applications get, and whether it could select anything of what they had.
//!
//! Which events there are is known only when they have been seen, those of a command and of libraries that are loaded
//! later too: so a slip in a filter is said at the end.

use std::sync::Mutex;

use strata_filter::{Class, Field, Filter, Hint, Kind, Root};
use strata_model::{Element, EventClass, FieldClass};
use strata_user::{Compiled, EventContexts, Program};

use crate::options::Options;
use crate::session::error::SessionError;
use crate::session::lock::lock;

/// The filter as programs get it; `None`: all their events are recorded.
///
/// # Errors
/// It cannot be asked there, or nothing passes it.
pub(crate) fn program(options: &Options) -> Result<Option<Program>, SessionError> {
    let Some(filter) = options.filter.as_ref().filter(|_| options.records_applications()) else {
        return Ok(None);
    };
    match Program::compile(filter)? {
        Compiled::Always => Ok(None),
        Compiled::Tests(program) => Ok(Some(program)),
        Compiled::Never if options.kernel.is_some() => Ok(Some(Program::nothing())),
        Compiled::Never => Err(SessionError::NothingPasses),
    }
}

/// What is known of the filter and of the applications' events.
pub(crate) struct Filtered {
    filter: Mutex<Option<Filter>>,
    /// The same filter is for the kernel's events, too.
    has_kernel: bool,
    /// Each record says its thread.
    vtid: bool,
    /// What it says besides, as far as filters are asked of it in programs.
    contexts: EventContexts,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Processes with events.
    nr_processes: u64,
    /// All of the filter can be true of some process' events.
    is_fine: bool,
    /// What is wrong with it in all of them.
    hints: Vec<Hint>,
}

impl Filtered {
    pub(crate) fn new(options: &Options) -> Filtered {
        Filtered {
            filter: Mutex::new(options.filter.clone().filter(|_| options.records_applications())),
            has_kernel: options.kernel.is_some(),
            vtid: options.vtid,
            contexts: options.contexts,
            found: Mutex::default(),
        }
    }

    /// This one holds from now on; of the one before nothing more is said, where it is another one.
    pub(crate) fn change(&self, filter: Option<Filter>) {
        let mut held = lock(&self.filter);
        if *held != filter {
            *held = filter;
            *lock(&self.found) = Found::default();
        }
    }

    /// These are the events of one process.
    pub(crate) fn look(&self, events: impl Iterator<Item = EventClass>) {
        let Some(filter) = lock(&self.filter).clone() else { return };
        if lock(&self.found).is_fine {
            return;
        }
        let classes: Vec<Class> = events
            .filter(|event| event.full_name() != THREAD_NAME)
            .map(|event| self.class(&event))
            .collect();
        if classes.is_empty() {
            return;
        }
        let hints = filter.check(&classes);
        let selects = || classes.iter().any(|class| filter.can_select(class));
        let mut found = lock(&self.found);
        found.nr_processes += 1;
        // What is no event of theirs may be one of the kernel's.
        found.is_fine |= hints.is_empty() || self.has_kernel && selects();
        if found.nr_processes == 1 {
            found.hints = hints;
        } else {
            found.hints.retain(|one| hints.iter().any(|other| other.span() == one.span()));
        }
    }

    fn class(&self, event: &EventClass) -> Class {
        let mut fields = Vec::new();
        for field in &event.fields {
            let element = match &field.class {
                FieldClass::Array(array) => kind_of(&array.element),
                FieldClass::Sequence(sequence) => kind_of(&sequence.element),
                _ => None,
            };
            let (root, path, kind) = (Root::Payload, field.name.clone(), kind(&field.class));
            fields.push(Field { root, path, kind });
            if let Some(kind) = element {
                fields.push(Field { root, path: format!("{}[]", field.name), kind });
            }
        }
        if self.vtid {
            fields.push(Field {
                root: Root::Context,
                path: "vtid".to_owned(),
                kind: Kind::INTEGER,
            });
        }
        for context in self.contexts.iter().filter(|context| context.is_asked_for()) {
            let field = context.field();
            fields.push(Field { root: Root::Context, path: field.name, kind: kind(&field.class) });
        }
        let (name, loglevel) = (event.full_name(), event.loglevel.map(i64::from));
        Class { name, loglevel, cpu: true, fields }
    }

    /// What is to be said of it at the end.
    pub(crate) fn remarks(&self) -> Vec<String> {
        if lock(&self.filter).is_none() {
            return Vec::new();
        }
        let found = std::mem::take(&mut *lock(&self.found));
        let mut remarks = Vec::new();
        if found.nr_processes > 0 {
            remarks.push(
                "applications recorded only the events that the filter selects; those that it does not are not \
                 counted."
                    .to_owned(),
            );
        }
        if found.nr_processes > 0 && !found.is_fine {
            remarks.extend(found.hints.iter().map(|hint| format!("applications: {hint}")));
        }
        remarks
    }
}

/// Libstrata's own, which no filter is asked of.
const THREAD_NAME: &str = "strata:thread_name";

fn kind(class: &FieldClass) -> Kind {
    match class {
        FieldClass::Integer(_) => Kind::INTEGER,
        FieldClass::Enumeration(enumeration) => {
            Kind::Enumeration(enumeration.labels.iter().map(|label| label.label.clone()).collect())
        }
        FieldClass::Float(_) => Kind::Real,
        FieldClass::String => Kind::Text,
        FieldClass::Array(array) if array.element == Element::Text => Kind::Text,
        FieldClass::Sequence(sequence) if sequence.element == Element::Text => Kind::Text,
        FieldClass::Array(_) | FieldClass::Sequence(_) => Kind::Other,
    }
}

fn kind_of(element: &Element) -> Option<Kind> {
    match element {
        Element::Text => None,
        Element::Integer(_) => Some(Kind::INTEGER),
        Element::Float(_) => Some(Kind::Real),
    }
}

#[cfg(test)]
mod tests;
