//! The filter for applications, and whether it could select any of their events.
//!
//! ```text
//! program(options)     at the beginning: syntax, limits, and what programs can evaluate ─▶ Program for all processes, or an error
//! Filtered::look()     whenever a process describes events: could this event pass?
//! Filtered::reports()  during the recording and at its end: names that no event has, comparisons that are never true
//! ```
//!
//! Events become known only when they are seen, including those of a command and of libraries that are loaded later.
//! So mistakes in a filter are reported during the recording and at its end, not at its beginning. A filter is
//! reported only if some event was subject to it, and none could pass.
//!
//! Each rule of a persistent session may have a filter of its own; [`Filtered::change`] replaces them. What a removed
//! filter did is not reported any longer, except that the trace was filtered for some time.
//!
//! # Threads
//! The thread that finds processes and those that read their descriptions call [`Filtered::look`]; the engine's
//! thread changes filters and asks for reports. A filter with its findings is behind a lock that is held for one
//! look. Once an event of some process can pass a filter as a whole, that filter is not looked at any more
//! ([`Filtered::is_open`]), so a thousand processes with the same events cost one look each at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use strata_filter::{Class, ClassField, ClassFieldKind, Filter, Hint, ParseError, Root, Slip};
use strata_model::{Element, EventClass, FieldClass, Integer};
use strata_user::{Compiled, EventContexts, Program, Rules};

use crate::applications::cgroup_ids::{texts, with_group_numbers};
use crate::error::SessionError;
use crate::options::Options;
use crate::plan::PlanError;
use crate::report::{FilterReport, FilterSlip, EVERY_TRACEPOINT};
use crate::session::layer::LayerRule;
use crate::session::lock::lock;

/// Compiles the filter for programs; `None` if all their events are recorded.
///
/// # Errors
/// Programs cannot evaluate the filter, or no event passes it.
pub(crate) fn program(options: &Options) -> Result<Option<Program>, SessionError> {
    if !options.records_applications() {
        return Ok(None);
    }
    let whole = with_slower(options.filter.as_ref(), options.spans_slower);
    let Some(filter) = whole.map_err(PlanError::from)? else {
        return Ok(None);
    };
    match Program::compile(&with_group_numbers(&filter))? {
        Compiled::Always => Ok(None),
        Compiled::Tests(program) => Ok(Some(program)),
        Compiled::Never if options.kernel.is_some() => Ok(Some(Program::nothing())),
        Compiled::Never => Err(SessionError::NothingPasses),
    }
}

/// Adds a lower bound on the duration of spans \[ns\] to a filter. Events other than spans pass as before; 0 adds
/// no bound.
///
/// # Errors
/// The filter is too long then.
pub(crate) fn with_slower(
    filter: Option<&Filter>,
    slower: u64,
) -> Result<Option<Filter>, ParseError> {
    let bound = format!("(!has(context.duration) || context.duration >= {slower})");
    match filter {
        _ if slower == 0 => Ok(filter.cloned()),
        Some(filter) => Filter::parse(&format!("({}) && {bound}", filter.text())).map(Some),
        None => Filter::parse(&bound).map(Some),
    }
}

/// The filters of applications, and the mistakes that were found in them.
pub(crate) struct Filtered {
    asked: Mutex<Vec<AskedRules>>,
    /// True if there is a filter now or there was one earlier in the session.
    is_filtered: AtomicBool,
    /// True if the same filter is also applied to the kernel's events.
    has_kernel: bool,
    /// True if each record has the id of its thread.
    vtid: bool,
    /// The contexts of the records that filters can test inside programs.
    contexts: Mutex<EventContexts>,
}

/// A filter as the user wrote it, with the rules to whose events it applies.
struct AskedRules {
    /// The rules as they were written; empty if the filter applies to all.
    texts: Vec<String>,
    /// The parsed rules, including exclusions.
    rules: Rules,
    filter: Filter,
    found: FilterFinding,
}

#[derive(Default)]
struct FilterFinding {
    /// True once a recorded process has had events to which the filter applies.
    is_asked: bool,
    /// True once an event was found that can pass the whole filter.
    is_fine: bool,
    /// True if the whole filter can be true for some event.
    selects: bool,
    /// Mistakes in the filter, as the events seen so far show them.
    hints: Vec<Hint>,
}

impl Filtered {
    /// Creates the filter of the options, which applies to these rules.
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

    /// Replaces the rules and their filters. Filters that are removed are not reported any longer.
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
            // Invalid rules were refused before.
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

    /// Returns whether a filter has decided which records are written, at least for a part of the session.
    pub(crate) fn is_filtered(&self) -> bool {
        self.is_filtered.load(Ordering::Relaxed)
    }

    /// Returns whether some filter fits no event so far: no known event has all the fields that the filter names.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.asked).iter().any(|one| !one.found.is_fine)
    }

    /// Examines the present events of one process. The same events may be passed again.
    pub(crate) fn look(&self, events: impl Iterator<Item = EventClass>) {
        if !self.is_open() {
            return;
        }
        let mut asked = lock(&self.asked);
        let groups: Vec<String> = asked.iter().flat_map(|one| texts(one.filter.expr())).collect();
        let all: Vec<(EventClass, Class)> = events
            .filter(|event| event.full_name() != THREAD_NAME)
            .map(|event| {
                let class = self.class(&event, &groups);
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

    /// Returns the class of an event for checking filters. `groups`: the cgroups that filters name.
    fn class(&self, event: &EventClass, groups: &[String]) -> Class {
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
        // Words that every filter can use, since a program knows their values itself.
        let number = ClassFieldKind::integer(32, true);
        let group = match groups.is_empty() {
            true => ClassFieldKind::integer(64, false),
            false => ClassFieldKind::Enumeration(groups.iter().cloned().collect()),
        };
        for (name, kind) in [
            ("pid", number.clone()),
            ("tid", number),
            ("comm", ClassFieldKind::Text),
            ("cgroup", group.clone()),
            ("container", group),
        ] {
            fields.push(ClassField { root: Root::Context, path: name.to_owned(), kind });
        }
        // A span's begin, which is recorded at the end of the span.
        for field in &event.context {
            let kind = ClassFieldKind::integer(64, false);
            if field.name == "elapsed" {
                let path = "duration".to_owned();
                fields.push(ClassField { root: Root::Context, path, kind });
            }
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

    /// Returns the remark for the final report that a filter was applied; `None` if there was none.
    pub(crate) fn remark(&self) -> Option<String> {
        let is_said = lock(&self.asked).iter().any(|one| one.found.is_asked);
        is_said.then(|| {
            "applications recorded only the events that the filter selects; those that it does not are not counted."
                .to_owned()
        })
    }

    /// Returns the mistakes in those filters that apply to events of some recorded process.
    pub(crate) fn reports(&self) -> Vec<FilterReport> {
        let asked = lock(&self.asked);
        let wrong = asked.iter().filter(|one| one.found.is_asked && !one.found.is_fine);
        let report = |one: &AskedRules| FilterReport {
            rules: one.texts.clone(),
            filter: one.filter.text().to_owned(),
            slips: one.found.hints.iter().map(slip).collect(),
            // If nobody has named events of applications, the filter may be meant for the kernel's events.
            is_never: !one.found.selects && (one.names_some() || !self.has_kernel),
        };
        wrong.map(report).filter(|one| one.is_never || !one.slips.is_empty()).collect()
    }
}

impl AskedRules {
    /// Returns whether the rules name particular events, instead of selecting all events.
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
        // A filter on unknown events of applications may be meant for the kernel's.
        found.is_fine |= hints.is_empty() || has_kernel && selects;
        if found.is_asked {
            found.hints.retain(|one| hints.iter().any(|other| other.span() == one.span()));
        } else {
            (found.is_asked, found.hints) = (true, hints);
        }
    }
}

/// Converts a hint about a mistake in a filter to the form in which reports show it.
pub(crate) fn slip(hint: &Hint) -> FilterSlip {
    let text = match &hint.what {
        Slip::NoField { field, .. } => advice(field.strip_prefix("context.").unwrap_or(field)),
        _ => None,
    };
    FilterSlip { column: hint.column(), text: text.unwrap_or_else(|| hint.what.to_string()) }
}

/// Returns advice on what to write in place of `word`, a value that programs do not know when they evaluate a filter.
fn advice(word: &str) -> Option<String> {
    let instead = match word {
        "duration" => "in a program, only spans of STRATA_SPAN() know it when they end. Record without it, and ask for it of \
                       the trace: strata view -f 'duration > 50ms'",
        _ => return None,
    };
    Some(format!("no event of these traces has a field '{word}'; {instead}"))
}

/// Name of libstrata's own event, to which no filter applies.
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
