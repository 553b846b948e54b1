//! Which filter applications get, and whether it could select anything of what they had.
//!
//! Which events there are is known only when they have been seen, those of a command and of libraries that are loaded
//! later too: so a slip in a filter is said while it records and at the end, and not at the begin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use strata_filter::{Class, ClassField, ClassFieldKind, Filter, Hint, Root};
use strata_model::{Element, EventClass, FieldClass, Integer};
use strata_user::{Compiled, EventContexts, Program, Rules};

use crate::error::SessionError;
use crate::options::Options;
use crate::report::{FilterReport, FilterSlip, EVERY_TRACEPOINT};
use crate::session::layer::LayerRule;
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

/// What is known of the filters and of the applications' events.
pub(crate) struct Filtered {
    asked: Mutex<Vec<AskedRules>>,
    /// There is, or was, a filter.
    is_filtered: AtomicBool,
    /// The same filter is for the kernel's events, too.
    has_kernel: bool,
    /// Each record says its thread.
    vtid: bool,
    /// What it says besides, as far as filters are asked of it in programs.
    contexts: Mutex<EventContexts>,
}

/// What is asked of the events that some rules select.
struct AskedRules {
    /// As they were written; none: all.
    texts: Vec<String>,
    /// They, and those that exclude.
    rules: Rules,
    filter: Filter,
    found: FilterFinding,
}

#[derive(Default)]
struct FilterFinding {
    /// A process had such events.
    is_asked: bool,
    /// All of the filter can be true of some process' events.
    is_fine: bool,
    /// The filter as a whole can.
    selects: bool,
    /// What is wrong with it in all of them.
    hints: Vec<Hint>,
}

impl Filtered {
    /// `rules`: those of the options, or, without, all.
    pub(crate) fn new(options: &Options, rules: &Rules) -> Filtered {
        let filter = options.filter.clone().filter(|_| options.records_applications());
        let asked = filter.map(|filter| AskedRules {
            texts: Vec::new(),
            rules: rules.clone(),
            filter,
            found: FilterFinding::default(),
        });
        Filtered {
            is_filtered: asked.is_some().into(),
            asked: Mutex::new(asked.into_iter().collect()),
            has_kernel: options.kernel.is_some(),
            vtid: options.vtid,
            contexts: Mutex::new(options.contexts),
        }
    }

    /// These hold from now on; of filters that are there no more nothing is said.
    pub(crate) fn change(&self, rules: &[LayerRule], contexts: EventContexts) {
        let mut asked: Vec<AskedRules> = Vec::new();
        let is_exclusion = |rule: &&LayerRule| rule.text.starts_with('!');
        for rule in rules.iter().filter(|rule| !is_exclusion(rule)) {
            let Some(filter) = &rule.filter else { continue };
            match asked.iter_mut().find(|one| one.filter.text() == filter.text()) {
                Some(one) => one.texts.push(rule.text.clone()),
                None => asked.push(AskedRules {
                    texts: vec![rule.text.clone()],
                    rules: Rules::none(),
                    filter: filter.clone(),
                    found: FilterFinding::default(),
                }),
            }
        }
        let excluding = rules.iter().filter(is_exclusion).map(|rule| &rule.text);
        let excluding: Vec<&String> = excluding.collect();
        for one in &mut asked {
            let texts: Vec<&String> = one.texts.iter().chain(excluding.iter().copied()).collect();
            // Those that are none were refused before.
            one.rules = Rules::parse(&texts).unwrap_or_else(|_| Rules::none());
        }
        self.is_filtered.fetch_or(!asked.is_empty(), Ordering::Relaxed);
        let is_same = {
            let mut held = lock(&self.contexts);
            std::mem::replace(&mut *held, contexts) == contexts
        };
        let mut held = lock(&self.asked);
        for one in asked.iter_mut().filter(|_| is_same) {
            let same = held
                .iter_mut()
                .find(|known| known.rules == one.rules && known.filter.text() == one.filter.text());
            if let Some(known) = same {
                one.found = std::mem::take(&mut known.found);
            }
        }
        *held = asked;
    }

    /// Has a filter decided, at any time, what is recorded?
    pub(crate) fn is_filtered(&self) -> bool {
        self.is_filtered.load(Ordering::Relaxed)
    }

    /// Is there a filter of which it is not known yet that all of it can be true?
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.asked).iter().any(|one| !one.found.is_fine)
    }

    /// These are the events of one process, so far; they may be looked at again.
    pub(crate) fn look(&self, events: impl Iterator<Item = EventClass>) {
        if !self.is_open() {
            return;
        }
        let mut asked = lock(&self.asked);
        let all: Vec<(EventClass, Class)> = events
            .filter(|event| event.full_name() != THREAD_NAME)
            .map(|event| {
                let class = self.class(&event);
                (event, class)
            })
            .collect();
        for one in asked.iter_mut() {
            let selected = all.iter().filter(|(event, _)| {
                let (provider, name) = (event.provider.as_bytes(), event.name.as_bytes());
                one.rules.select(provider, name, event.loglevel.unwrap_or(0))
            });
            let classes: Vec<Class> = selected.map(|(_, class)| class.clone()).collect();
            if !classes.is_empty() {
                one.look(&classes, self.has_kernel);
            }
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
            fields.push(ClassField { root, path, kind });
            if let Some(kind) = element {
                fields.push(ClassField { root, path: format!("{}[]", field.name), kind });
            }
        }
        if self.vtid {
            fields.push(ClassField {
                root: Root::Context,
                path: "vtid".to_owned(),
                kind: ClassFieldKind::integer(32, true),
            });
        }
        for context in lock(&self.contexts).iter().filter(|context| context.is_asked_for()) {
            let field = context.field();
            fields.push(ClassField {
                root: Root::Context,
                path: field.name,
                kind: kind(&field.class),
            });
        }
        let (name, loglevel) = (event.full_name(), event.loglevel.map(i64::from));
        Class { name, loglevel, cpu: true, fields }
    }

    /// That there was a filter, to be said at the end.
    pub(crate) fn remark(&self) -> Option<String> {
        let is_said = lock(&self.asked).iter().any(|one| one.found.is_asked);
        is_said.then(|| {
            "applications recorded only the events that the filter selects; those that it does not are not counted."
                .to_owned()
        })
    }

    /// What is wrong with the filters, as far as events were seen that they are asked of.
    pub(crate) fn reports(&self) -> Vec<FilterReport> {
        let asked = lock(&self.asked);
        let wrong = asked.iter().filter(|one| one.found.is_asked && !one.found.is_fine);
        let report = |one: &AskedRules| FilterReport {
            rules: one.texts.clone(),
            filter: one.filter.text().to_owned(),
            slips: one.found.hints.iter().map(slip).collect(),
            // Where nobody has named events of applications, it may be meant for the kernel's.
            is_never: !one.found.selects && (one.names_some() || !self.has_kernel),
        };
        wrong.map(report).filter(|one| one.is_never || !one.slips.is_empty()).collect()
    }
}

impl AskedRules {
    /// Has somebody named events that it is asked of?
    fn names_some(&self) -> bool {
        self.texts.iter().any(|text| text != EVERY_TRACEPOINT)
    }

    fn look(&mut self, classes: &[Class], has_kernel: bool) {
        let AskedRules { filter, found, .. } = self;
        if found.is_fine {
            return;
        }
        let hints = filter.check(classes);
        let selects = classes.iter().any(|class| filter.can_select(class));
        found.selects |= selects;
        // What is no event of theirs may be one of the kernel's.
        found.is_fine |= hints.is_empty() || has_kernel && selects;
        if found.is_asked {
            found.hints.retain(|one| hints.iter().any(|other| other.span() == one.span()));
        } else {
            (found.is_asked, found.hints) = (true, hints);
        }
    }
}

/// As a report has it.
pub(crate) fn slip(hint: &Hint) -> FilterSlip {
    FilterSlip { column: hint.column(), text: hint.what.to_string() }
}

/// Libstrata's own, which no filter is asked of.
const THREAD_NAME: &str = "strata:thread_name";

fn kind(class: &FieldClass) -> ClassFieldKind {
    match class {
        FieldClass::Integer(integer) => of_integer(integer),
        FieldClass::Enumeration(enumeration) => ClassFieldKind::Enumeration(
            enumeration.labels.iter().map(|label| label.label.clone()).collect(),
        ),
        FieldClass::Float(_) => ClassFieldKind::Real,
        FieldClass::String => ClassFieldKind::Text,
        FieldClass::Array(array) if array.element == Element::Text => ClassFieldKind::Text,
        FieldClass::Sequence(sequence) if sequence.element == Element::Text => ClassFieldKind::Text,
        FieldClass::Array(_) | FieldClass::Sequence(_) => ClassFieldKind::Other,
    }
}

fn of_integer(integer: &Integer) -> ClassFieldKind {
    ClassFieldKind::integer(8 * u32::from(integer.bytes), integer.signed)
}

fn kind_of(element: &Element) -> Option<ClassFieldKind> {
    match element {
        Element::Text => None,
        Element::Integer(integer) => Some(of_integer(integer)),
        Element::Float(_) => Some(ClassFieldKind::Real),
    }
}

#[cfg(test)]
mod tests;
