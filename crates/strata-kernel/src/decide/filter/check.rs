//! Finds parts of a filter that match nothing in the selected events.

use std::fmt;
use std::sync::Arc;

use strata_filter::{
    Class, ClassFieldKind, Expr, Filter, Hint, Item, Literal, Operand, Path, PathStep, Root, Slip,
    Subject,
};
use strata_model::{Element, Field, FieldClass};

use super::resolve::{HappensOn, CONTEXT};
use super::Candidate;

/// The parts of a filter that cannot be true for any of the events. There is at least one such part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Slips(
    /// Hints with their places in the filter.
    pub Vec<Hint>,
);

/// Checks that every name, field and label in the filter exists in at least one event.
///
/// # Errors
/// The parts that exist in no event. `Display` of the error has a line for each, and shows its place below.
pub fn check(filter: &Filter, events: &[Candidate<'_>]) -> Result<(), Slips> {
    let groups: Arc<[String]> = groups(filter.expr()).into();
    let classes: Vec<Class> = events.iter().map(|event| class(event, &groups)).collect();
    match filter.check(&classes) {
        slips if slips.is_empty() => Ok(()),
        slips => Err(Slips(slips)),
    }
}

/// Returns whether the filter can be true for some record of one of the events.
pub fn can_select(filter: &Filter, events: &[Candidate<'_>]) -> bool {
    let groups: Arc<[String]> = groups(filter.expr()).into();
    events.iter().any(|event| filter.can_select(&class(event, &groups)))
}

fn class(candidate: &Candidate<'_>, groups: &Arc<[String]>) -> Class {
    let mut fields = Vec::new();
    let mut push = |root, path, kind| fields.push(strata_filter::ClassField { root, path, kind });
    for field in candidate.fields() {
        push(Root::Payload, field.name.clone(), kind(field, candidate));
        if let Some(kind) = element(&field.class) {
            push(Root::Payload, format!("{}[]", field.name), kind);
        }
    }
    for (name, context) in CONTEXT {
        let kind = match context {
            HappensOn::Pid | HappensOn::Tid | HappensOn::Cpu => ClassFieldKind::integer(32, false),
            HappensOn::Comm => ClassFieldKind::Text,
            // Any path may be one; those that are none are found when it is looked up.
            HappensOn::Cgroup if !groups.is_empty() => ClassFieldKind::Enumeration(groups.clone()),
            HappensOn::Cgroup => ClassFieldKind::integer(64, false),
        };
        push(Root::Context, name.to_string(), kind);
    }
    Class { name: candidate.recorded_name(), loglevel: None, cpu: true, fields }
}

fn kind(field: &Field, candidate: &Candidate<'_>) -> ClassFieldKind {
    let (labels, integer) = match &field.class {
        FieldClass::Integer(integer) => {
            let source = candidate.source(&field.name);
            (source.map(|source| source.labels.as_slice()).unwrap_or_default(), integer)
        }
        FieldClass::Enumeration(enumeration) => {
            (enumeration.labels.as_slice(), &enumeration.integer)
        }
        FieldClass::Float(_) => return ClassFieldKind::Real,
        FieldClass::String => return ClassFieldKind::Text,
        FieldClass::Array(array) if array.element == Element::Text => return ClassFieldKind::Text,
        FieldClass::Sequence(sequence) if sequence.element == Element::Text => {
            return ClassFieldKind::Text
        }
        FieldClass::Array(_) | FieldClass::Sequence(_) => return ClassFieldKind::Other,
    };
    if labels.is_empty() {
        // As the kernel has it, which is what is asked.
        let source = candidate.source(&field.name);
        let (bytes, signed) = source
            .map_or((integer.bytes, integer.signed), |source| (source.bytes, source.is_signed));
        return ClassFieldKind::integer(8 * u32::from(bytes), signed);
    }
    ClassFieldKind::Enumeration(labels.iter().map(|label| label.label.clone()).collect())
}

fn element(class: &FieldClass) -> Option<ClassFieldKind> {
    let element = match class {
        FieldClass::Array(array) => &array.element,
        FieldClass::Sequence(sequence) => &sequence.element,
        _ => return None,
    };
    match element {
        Element::Text => None,
        Element::Integer(integer) => {
            Some(ClassFieldKind::integer(8 * u32::from(integer.bytes), integer.signed))
        }
        Element::Float(_) => Some(ClassFieldKind::Real),
    }
}

/// Returns the texts with which `cgroup` is compared.
fn groups(expr: &Expr) -> Vec<String> {
    let text = |literal: &Literal| match literal {
        Literal::Text(pattern) => {
            pattern.exact().map(|text| String::from_utf8_lossy(text).into_owned())
        }
        Literal::Number(_) => None,
    };
    match expr {
        Expr::And(parts) | Expr::Or(parts) => parts.iter().flat_map(groups).collect(),
        Expr::Not(inner) => groups(inner),
        Expr::Compare(comparison) if is_cgroup(&comparison.left.subject) => {
            match &comparison.right {
                Operand::Literal(literal) => text(literal).into_iter().collect(),
                Operand::Term(_) => Vec::new(),
            }
        }
        Expr::In(term, items) if is_cgroup(&term.subject) => {
            let literals = items.iter().filter_map(|item| match item {
                Item::One(literal) => text(literal),
                Item::Range(..) => None,
            });
            literals.collect()
        }
        Expr::Compare(_) | Expr::In(..) | Expr::Has(_) => Vec::new(),
    }
}

fn is_cgroup(subject: &Subject) -> bool {
    let Subject::Field(Path { root: Root::Any | Root::Context, steps }) = subject else {
        return false;
    };
    matches!(steps.as_slice(), [PathStep::Member(name)] if name == "cgroup" || name == "container")
}

impl fmt::Display for Slips {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, hint) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { "\n" };
            write!(out, "{between}filter, column {}: {}", hint.column(), what(&hint.what))?;
            write!(out, "\n{}", hint.caret())?;
        }
        Ok(())
    }
}

/// Formats the mistakes in the same form as [`Slip`] has for traces. Similar names are shown below the place of each
/// mistake.
impl Slips {
    /// Returns a message if the filter tests the duration of events that have none; otherwise `None`.
    #[must_use]
    pub fn asks_for_duration(&self) -> Option<String> {
        let is_it =
            |slip: &&Slip| matches!(slip, Slip::NoField { field, .. } if is_duration(field));
        self.0.iter().map(|hint| &hint.what).find(is_it).map(what)
    }
}

fn is_duration(field: &str) -> bool {
    field == "duration" || field == "context.duration"
}

fn what(slip: &Slip) -> String {
    match slip {
        Slip::NoEvent { pattern, .. } => format!("no selected event is called '{pattern}'"),
        Slip::NoField { field, .. } if is_duration(field) => {
            "'duration' is how long a system call took, which probes, samples and other events have not. Leave it out \
             for them"
                .to_owned()
        }
        Slip::NoField { field, .. } => format!(
            "no selected event has a field '{field}'. `strata list -k EVENT` lists its fields"
        ),
        Slip::Kind { field, is, with } => {
            format!("'{field}' is {is}; compared with {with} it is never true")
        }
        Slip::NoLabel { field, label, .. } => format!("'{field}' has no label '{label}'"),
        Slip::Range { field, from, to, condition } => {
            format!("'{field}' is from {from} to {to}; '{condition}' is never true")
        }
        Slip::NoCpu | Slip::NoLogLevel => "the kernel's events have no log level".to_string(),
        Slip::Never => "no selected event can match: each part is true of some, all together of \
                        none"
            .to_string(),
    }
}
