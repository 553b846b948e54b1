//! Hints about filters that can never be true for given events: slips that are not syntax errors.
//!
//! A filter such as `sched_switch && prev_tdi == 7` is well formed, and matches nothing. [`Filter::check`] compares it
//! with the known classes of events (those of a trace, or those that will be recorded) and returns a [`Hint`] for each
//! part that no event can satisfy, with its place in the text and similar names:
//!
//! ```text
//! strata: no event has a field 'prev_tdi'; similar: 'prev_tid'
//! sched_switch && prev_tdi == 7
//!                 ^^^^^^^^
//! ```
//!
//! # How it decides
//! For each class, a condition can be true, unknown or false; [`possible`] computes the set of values it can have from
//! names, kinds and value ranges, without reading records. A leaf that is true in no class gets a hint. If each leaf
//! can be true in some class, but the whole filter in none, the hint is [`Slip::Never`]: two parts contradict each
//! other.
//!
//! In doubt, no hint is given: whatever cannot be excluded counts as possible, there are at most 16 hints, and a class
//! that describes too much is not searched. A filter is never refused because of a hint. Commands print hints as
//! warnings, and `strata record` reports at the end if nothing has matched.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use crate::call::call_of;
use crate::class::{hull, key, Class, ClassFieldKind};
use crate::excerpt::{column, excerpt, tame};
use crate::expr::{Expr, Item, Literal, Op, Operand, Root, Subject, Term};
use crate::lower::IntegerSpan;
use crate::number::Number;
use crate::parse::LeafSpans;
use crate::pattern::Pattern;
use crate::ranges::{contradict, line};
use crate::similar_names::similar;
use crate::Filter;

/// A probable mistake in a filter. `Display` is one line; [`Hint::caret`] shows the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    text: String,
    span: Range<usize>,
    /// Kind of the mistake.
    pub what: Slip,
}

/// Kinds of mistakes in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slip {
    /// The filter names an event that does not exist.
    NoEvent {
        /// Name or pattern of the event, as in the filter.
        pattern: String,
        /// Names of events that are similar.
        similar: Vec<String>,
        /// True if `pattern` is the name of a field.
        field: bool,
    },
    /// The filter names a field that no event has.
    NoField {
        /// Name of the field, as in the filter.
        field: String,
        /// Names of fields that are similar.
        similar: Vec<String>,
        /// True if the field is compared with a text or an enumeration, so that quotes may have been forgotten.
        text: bool,
    },
    /// All fields of this name are of a kind for which the comparison can never be true.
    Kind {
        /// Name of the field, as in the filter.
        field: String,
        /// Kind of the field, such as "text".
        is: &'static str,
        /// Kind of the value that it is compared with, such as "a number".
        with: &'static str,
    },
    /// No enumeration of a field with this name has the label.
    NoLabel {
        /// The field, as in the filter.
        field: String,
        /// The label, as in the filter.
        label: String,
        /// Labels that are similar.
        similar: Vec<String>,
    },
    /// The comparison is false for every value that the field can have in any event.
    Range {
        /// Name of the field, as in the filter.
        field: String,
        /// The least value that the field can have.
        from: i128,
        /// The greatest value that the field can have.
        to: i128,
        /// Text of the comparison.
        condition: String,
    },
    /// The filter uses `cpu`, but no packet says on which CPU it was recorded.
    NoCpu,
    /// The filter uses `loglevel`, but no event has a log level.
    NoLogLevel,
    /// Each part of the filter can be true for some event, but the whole filter for none.
    Never,
}

/// The most hints that are given: a filter with more is probably meant for other traces.
const MOST_HINTS: usize = 16;

impl Filter {
    /// Returns hints for the parts of the filter that match nothing in events of these classes, 16 at most. The list is
    /// empty if all parts can match, or if there are no classes.
    pub fn check(&self, classes: &[Class]) -> Vec<Hint> {
        if classes.is_empty() {
            return Vec::new();
        }
        let mut checker = Checker { filter: self, classes, hints: Vec::new() };
        let mut leaves = self.leaves.iter();
        checker.walk(&self.expr, false, &mut leaves);
        if checker.hints.is_empty() {
            let selects = |class| possible(&self.expr, class) & TRUE != 0;
            if !classes.iter().any(selects) {
                checker.hint(0..self.text.len(), Slip::Never);
            }
        }
        checker.hints
    }

    /// Returns whether the filter can be true for an event record of the class, as far as its description shows.
    pub fn can_select(&self, class: &Class) -> bool {
        possible(&self.expr, class) & TRUE != 0
    }
}

/// The set of values that a condition can have, as bits.
type TruthValues = u8;
const TRUE: TruthValues = 1;
const UNKNOWN: TruthValues = 2;
const FALSE: TruthValues = 4;

fn possible(expr: &Expr, class: &Class) -> TruthValues {
    match expr {
        Expr::And(parts) => {
            let each = parts.iter().map(|part| possible(part, class));
            let all = each.fold(TRUE, |left, right| either(left, right, FALSE, TRUE));
            match all & TRUE != 0 && contradict(parts, false, class, &|term| is_text(term, class)) {
                true => all & !TRUE | FALSE,
                false => all,
            }
        }
        Expr::Or(parts) => {
            let each = parts.iter().map(|part| possible(part, class));
            let any = each.fold(FALSE, |left, right| either(left, right, TRUE, FALSE));
            match any & FALSE != 0 && contradict(parts, true, class, &|term| is_text(term, class)) {
                true => any & !FALSE | TRUE,
                false => any,
            }
        }
        Expr::Not(inner) => exchanged(possible(inner, class)),
        Expr::Compare(comparison) => {
            let equal = match &comparison.right {
                Operand::Term(right) => terms(&comparison.left, right, class),
                Operand::Literal(Literal::Text(pattern)) => {
                    with_text(&comparison.left, pattern, class)
                }
                Operand::Literal(Literal::Number(number)) => {
                    with_number(&comparison.left, comparison.op, *number, class)
                }
            };
            // The range of numbers already covers the negation; a text is only equal or not.
            let text = matches!(&comparison.right, Operand::Literal(Literal::Text(_)));
            if text && comparison.op == Op::NotEqual {
                exchanged(equal)
            } else {
                equal
            }
        }
        Expr::In(term, items) => {
            let each = items.iter().map(|item| match item {
                Item::One(Literal::Text(pattern)) => with_text(term, pattern, class),
                Item::One(Literal::Number(number)) => with_number(term, Op::Equal, *number, class),
                Item::Range(from, to) => {
                    let from = with_number(term, Op::GreaterOrEqual, *from, class);
                    either(from, with_number(term, Op::LessOrEqual, *to, class), FALSE, TRUE)
                }
            });
            each.fold(FALSE, |left, right| either(left, right, TRUE, FALSE))
        }
        Expr::Has(path) => match class.find(path, &key(path)) {
            Some(_) => TRUE | FALSE,
            None => FALSE,
        },
    }
}

/// Combines the possible values of two conditions. The result is `strong` if one of them is, and `weak` only if both
/// are.
fn either(
    left: TruthValues,
    right: TruthValues,
    strong: TruthValues,
    weak: TruthValues,
) -> TruthValues {
    let mut values = (left | right) & strong;
    if left & right & weak != 0 {
        values |= weak;
    }
    if (left | right) & UNKNOWN != 0
        && left & (UNKNOWN | weak) != 0
        && right & (UNKNOWN | weak) != 0
    {
        values |= UNKNOWN;
    }
    values
}

fn exchanged(values: TruthValues) -> TruthValues {
    let mut exchanged = values & UNKNOWN;
    exchanged |= if values & TRUE != 0 { FALSE } else { 0 };
    exchanged | if values & FALSE != 0 { TRUE } else { 0 }
}

fn certain(value: bool) -> TruthValues {
    if value {
        TRUE
    } else {
        FALSE
    }
}

/// The kind of a term's value, as far as it follows from a class's description.
enum KnownKind<'c> {
    Absent,
    Text,
    Number,
    Enumeration(&'c [String]),
    Other,
}

fn known<'c>(term: &Term, class: &'c Class) -> KnownKind<'c> {
    let kind = match &term.subject {
        Subject::Name => return KnownKind::Text,
        Subject::Cpu if class.cpu => return KnownKind::Number,
        Subject::LogLevel if class.loglevel.is_some() => return KnownKind::Number,
        Subject::Cpu | Subject::LogLevel => return KnownKind::Absent,
        Subject::Field(path) => class.find(path, &key(path)),
    };
    match (kind, term.mask) {
        (None, _) => KnownKind::Absent,
        (Some(ClassFieldKind::Integer(_) | ClassFieldKind::Enumeration(_)), Some(_)) => {
            KnownKind::Number
        }
        (Some(_), Some(_)) => KnownKind::Other,
        (Some(ClassFieldKind::Integer(_) | ClassFieldKind::Real), None) => KnownKind::Number,
        (Some(ClassFieldKind::Enumeration(labels)), None) => KnownKind::Enumeration(labels),
        (Some(ClassFieldKind::Text), None) => KnownKind::Text,
        (Some(ClassFieldKind::Other), None) => KnownKind::Other,
    }
}

fn with_text(term: &Term, pattern: &Pattern, class: &Class) -> TruthValues {
    if term.subject == Subject::Name {
        return certain(pattern.names_event(class.name.as_bytes()));
    }
    match known(term, class) {
        KnownKind::Text => TRUE | FALSE | UNKNOWN,
        KnownKind::Enumeration(labels) => {
            let some = labels.iter().any(|label| pattern.matches(label.as_bytes()));
            FALSE | UNKNOWN | if some { TRUE } else { 0 }
        }
        KnownKind::Absent | KnownKind::Number | KnownKind::Other => UNKNOWN,
    }
}

fn with_number(term: &Term, op: Op, number: Number, class: &Class) -> TruthValues {
    if let (Subject::LogLevel, None, Some(level)) = (&term.subject, term.mask, class.loglevel) {
        return certain(op.holds(Number::Integer(level.into()).order(number)));
    }
    match known(term, class) {
        KnownKind::Number | KnownKind::Enumeration(_) => {
            let Some(line) = line(term, class) else { return TRUE | FALSE | UNKNOWN };
            let is = line.of(op, number);
            let is_never = line.is_none(&is);
            let is_always = line.is_none(&line.without(&is));
            UNKNOWN | if is_never { 0 } else { TRUE } | if is_always { 0 } else { FALSE }
        }
        KnownKind::Absent | KnownKind::Text | KnownKind::Other => UNKNOWN,
    }
}

/// Returns whether the term is a text in the class, and not a number with labels.
fn is_text(term: &Term, class: &Class) -> bool {
    matches!(known(term, class), KnownKind::Text)
}

fn terms(left: &Term, right: &Term, class: &Class) -> TruthValues {
    match (known(left, class), known(right, class)) {
        (KnownKind::Text, KnownKind::Text) => TRUE | FALSE | UNKNOWN,
        (
            KnownKind::Number | KnownKind::Enumeration(_),
            KnownKind::Number | KnownKind::Enumeration(_),
        ) => TRUE | FALSE | UNKNOWN,
        _ => UNKNOWN,
    }
}

struct Checker<'f> {
    filter: &'f Filter,
    classes: &'f [Class],
    hints: Vec<Hint>,
}

impl Checker<'_> {
    fn hint(&mut self, span: Range<usize>, what: Slip) {
        let known = self.hints.iter().any(|hint| hint.what == what);
        if !known && self.hints.len() < MOST_HINTS {
            self.hints.push(Hint { text: self.filter.text.clone(), span, what });
        }
    }

    /// Checks an expression and its parts. `leaves` are the places of the leaves, in the order of the expression; with
    /// `negated`, the expression has to be false.
    fn walk<'l>(
        &mut self,
        expr: &Expr,
        negated: bool,
        leaves: &mut impl Iterator<Item = &'l LeafSpans>,
    ) {
        if self.hints.len() >= MOST_HINTS {
            return; // a trace may have any number of names to be compared for each
        }
        match expr {
            Expr::And(parts) | Expr::Or(parts) => {
                for part in parts {
                    self.walk(part, negated, leaves);
                }
                return;
            }
            Expr::Not(inner) => return self.walk(inner, !negated, leaves),
            Expr::Compare(_) | Expr::In(..) | Expr::Has(_) => (),
        }
        let Some(leaf) = leaves.next() else { return };
        let right = |index: usize| leaf.right.get(index).unwrap_or(&leaf.whole).clone();
        match expr {
            Expr::Compare(comparison) => {
                let left = &comparison.left;
                match &comparison.right {
                    Operand::Literal(literal) => {
                        if self.exists(left, &leaf.left, false) {
                            self.literal(left, literal, right(0), &leaf.left);
                            if let Literal::Number(number) = literal {
                                let between = [(comparison.op, *number)];
                                self.range(left, &between, negated, &leaf.whole, comparison);
                            }
                        }
                    }
                    Operand::Term(term) => {
                        let text = self.has_text(left);
                        let both = self.exists(left, &leaf.left, self.has_text(term));
                        if self.exists(term, &right(0), text) && both {
                            self.pair(left, term, &leaf.whole);
                        }
                    }
                }
            }
            Expr::In(term, items) => {
                if !self.exists(term, &leaf.left, false) {
                    return;
                }
                for (index, item) in items.iter().enumerate() {
                    let literal = match item {
                        Item::One(literal) => literal.clone(),
                        Item::Range(from, _) => Literal::Number(*from),
                    };
                    self.literal(term, &literal, right(index), &leaf.left);
                    // A negated set is meant to be true for most events: no hint for single items.
                    if negated {
                        continue;
                    }
                    let between = match item {
                        Item::One(Literal::Number(number)) => vec![(Op::Equal, *number)],
                        Item::Range(from, to) => {
                            vec![(Op::GreaterOrEqual, *from), (Op::LessOrEqual, *to)]
                        }
                        Item::One(Literal::Text(_)) => continue,
                    };
                    let items = vec![item.clone()];
                    let condition = Expr::In(term.clone(), items);
                    self.range(term, &between, false, &right(index), &condition);
                }
            }
            Expr::Has(path) => {
                let subject = Subject::Field(path.clone());
                self.exists(&Term { subject, mask: None }, &leaf.left, false);
            }
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) => (),
        }
    }

    /// Returns whether some event has the term; adds a hint if none has.
    fn exists(&mut self, term: &Term, span: &Range<usize>, text: bool) -> bool {
        let bare = Term { subject: term.subject.clone(), mask: None };
        if self.classes.iter().any(|class| !matches!(known(&bare, class), KnownKind::Absent)) {
            return true;
        }
        let what = match &term.subject {
            Subject::Cpu => Slip::NoCpu,
            Subject::LogLevel => Slip::NoLogLevel,
            Subject::Name => return true,
            Subject::Field(path) => Slip::NoField {
                field: path.to_string(),
                similar: self.similar_fields(&key(path)),
                text,
            },
        };
        self.hint(span.clone(), what);
        false
    }

    fn similar_fields(&self, word: &str) -> Vec<String> {
        let fields = self.classes.iter().flat_map(|class| &class.fields);
        let names: BTreeSet<&str> = fields.map(|field| field.path.as_str()).collect();
        // A field of the same name in another part of the record is the best advice, and `similar` leaves equal names
        // out.
        if names.contains(word) {
            let fields = self.classes.iter().flat_map(|class| &class.fields);
            let roots: BTreeSet<String> = fields
                .filter(|field| field.path == word)
                .map(|field| format!("{}.{}", root_name(field.root), field.path))
                .collect();
            return roots.into_iter().collect();
        }
        similar(word, names.into_iter())
    }

    fn has_text(&self, term: &Term) -> bool {
        self.classes
            .iter()
            .any(|class| matches!(known(term, class), KnownKind::Text | KnownKind::Enumeration(_)))
    }

    /// Checks a comparison of a term that some events have with a constant.
    fn literal(&mut self, term: &Term, literal: &Literal, span: Range<usize>, left: &Range<usize>) {
        match (literal, &term.subject) {
            (Literal::Text(pattern), Subject::Name) => {
                let none = |class: &Class| !pattern.names_event(class.name.as_bytes());
                if self.classes.iter().all(none) {
                    let slip = self.no_event(pattern);
                    self.hint(span, slip);
                }
            }
            (Literal::Text(pattern), _) => {
                let of_kind = |class| matches!(known(term, class), KnownKind::Text);
                if self.classes.iter().any(of_kind) {
                    return;
                }
                let labels = self.labels(term);
                if labels.is_empty() {
                    self.kind(term, "text", left);
                } else if !labels.iter().any(|label| pattern.matches(label.as_bytes())) {
                    let word = unquoted(pattern);
                    let similar = similar(&word, labels.iter().map(String::as_str));
                    let field = term.subject.to_string();
                    self.hint(span, Slip::NoLabel { field, label: word, similar });
                }
            }
            (Literal::Number(_), _) => {
                let of_kind = |class| {
                    matches!(known(term, class), KnownKind::Number | KnownKind::Enumeration(_))
                };
                if !self.classes.iter().any(of_kind) {
                    self.kind(term, "a number", left);
                }
            }
        }
    }

    /// Checks whether the term's comparisons with numbers can be true, or, with `negated`, false.
    fn range(
        &mut self,
        term: &Term,
        all: &[(Op, Number)],
        negated: bool,
        span: &Range<usize>,
        condition: &dyn fmt::Display,
    ) {
        // A log level that no event has is reported by `Slip::Never`, for all events together.
        if term.subject == Subject::LogLevel {
            return;
        }
        let mut all_values: Option<IntegerSpan> = None;
        for class in self.classes {
            match known(term, class) {
                KnownKind::Number | KnownKind::Enumeration(_) => {}
                KnownKind::Absent | KnownKind::Text | KnownKind::Other => continue,
            }
            let Some(line) = line(term, class) else { return };
            let wanted = if negated { FALSE } else { TRUE };
            let each = all.iter().map(|(op, number)| with_number(term, *op, *number, class));
            let values = each.fold(TRUE, |left, right| either(left, right, FALSE, TRUE));
            let (false, Some(span)) = (values & wanted != 0, line.integers()) else { return };
            all_values = Some(hull(all_values, span));
        }
        let Some((from, to)) = all_values else { return };
        let field = term.to_string();
        let condition = if negated { format!("!({condition})") } else { condition.to_string() };
        self.hint(span.clone(), Slip::Range { field, from, to, condition });
    }

    fn pair(&mut self, left: &Term, right: &Term, span: &Range<usize>) {
        if self.classes.iter().any(|class| terms(left, right, class) != UNKNOWN) {
            return;
        }
        let (is, with) = (self.kind_of(left), self.kind_of(right));
        if is != with {
            let field = left.to_string();
            self.hint(span.clone(), Slip::Kind { field, is, with });
        }
    }

    fn labels(&self, term: &Term) -> BTreeSet<String> {
        let labels = self.classes.iter().flat_map(|class| match known(term, class) {
            KnownKind::Enumeration(labels) => labels.to_vec(),
            _ => Vec::new(),
        });
        labels.collect()
    }

    fn kind(&mut self, term: &Term, with: &'static str, span: &Range<usize>) {
        let field = term.subject.to_string();
        let is = self.kind_of(&Term { subject: term.subject.clone(), mask: None });
        self.hint(span.clone(), Slip::Kind { field, is, with });
    }

    fn kind_of(&self, term: &Term) -> &'static str {
        let kinds = self.classes.iter().filter_map(|class| match known(term, class) {
            KnownKind::Absent => None,
            KnownKind::Text => Some("text"),
            KnownKind::Number | KnownKind::Enumeration(_) => Some("a number"),
            KnownKind::Other => Some("neither text nor a number"),
        });
        kinds.min().unwrap_or("absent")
    }

    fn no_event(&self, pattern: &Pattern) -> Slip {
        let word = unquoted(pattern);
        let mut names: BTreeSet<&str> =
            self.classes.iter().map(|class| class.name.as_str()).collect();
        let calls = names.iter().filter_map(|name| call_of(name.as_bytes()));
        let calls: Vec<&str> =
            calls.filter_map(|(name, _)| std::str::from_utf8(name).ok()).collect();
        names.extend(calls);
        let field =
            self.classes.iter().flat_map(|class| &class.fields).any(|field| field.path == word);
        Slip::NoEvent { similar: similar(&word, names.into_iter()), pattern: word, field }
    }
}

fn unquoted(pattern: &Pattern) -> String {
    let text = pattern.to_string();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&text).to_string()
}

fn root_name(root: Root) -> &'static str {
    match root {
        Root::Any | Root::Payload => "payload",
        Root::Context => "context",
        Root::Packet => "packet",
        Root::Header => "header",
    }
}

impl Hint {
    /// Returns the range of the filter's bytes that the hint is about.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the terminal column at which that range begins, from 1.
    pub fn column(&self) -> usize {
        column(&self.text, self.span.start)
    }

    /// Returns two lines: the filter, and carets under the place with a note of what is wrong.
    pub fn caret(&self) -> String {
        excerpt(&self.text, self.span.clone(), &self.what.note())
    }
}

impl Slip {
    /// Returns names that were perhaps meant.
    #[must_use]
    pub fn similar(&self) -> &[String] {
        match self {
            Slip::NoEvent { similar, .. }
            | Slip::NoField { similar, .. }
            | Slip::NoLabel { similar, .. } => similar,
            _ => &[],
        }
    }

    fn note(&self) -> String {
        let (what, similar) = match self {
            Slip::NoEvent { similar, .. } => ("no such event", similar.as_slice()),
            Slip::NoField { similar, .. } => ("no such field", similar.as_slice()),
            Slip::NoLabel { similar, .. } => ("no such label", similar.as_slice()),
            Slip::Kind { is, .. } => return format!("is {is}"),
            Slip::Range { from, to, .. } => return format!("from {from} to {to}"),
            Slip::NoCpu => ("not known of any packet", &[][..]),
            Slip::NoLogLevel => ("not known of any event", &[][..]),
            Slip::Never => ("never true together", &[][..]),
        };
        format!("{what}{}", list("; similar: ", similar))
    }
}

/// Formats names as `'a', 'b'` after `before`; empty if there are no names.
fn list(before: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{}'", tame(name))).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("{before}{}", names.join(", "))
}

impl fmt::Display for Hint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "filter, column {}: {}", self.column(), self.what)
    }
}

impl fmt::Display for Slip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slip::NoEvent { pattern, similar, field } => {
                let pattern = tame(pattern);
                write!(out, "no event of these traces is called '{pattern}'")?;
                if *field {
                    return write!(out, ", but a field is. Compare it, or write has({pattern})");
                }
                out.write_str(&list("; similar: ", similar))
            }
            Slip::NoField { field, similar, text } => {
                let field = tame(field);
                write!(out, "no event of these traces has a field '{field}'")?;
                out.write_str(&list("; similar: ", similar))?;
                match text {
                    true => write!(out, ". For text write \"{field}\""),
                    false => Ok(()),
                }
            }
            Slip::Kind { field, is, with } => {
                write!(out, "'{}' is {is} in these traces; compared with {with}", tame(field))?;
                out.write_str(" it is never true")
            }
            Slip::NoLabel { field, label, similar } => {
                let (field, label) = (tame(field), tame(label));
                write!(out, "'{field}' has no label '{label}' in these traces")?;
                out.write_str(&list("; similar: ", similar))
            }
            Slip::Range { field, from, to, condition } => write!(
                out,
                "'{}' is from {from} to {to} in these traces; '{}' is never true",
                tame(field),
                tame(condition)
            ),
            Slip::NoCpu => out.write_str("no packet of these traces says which CPU it is of"),
            Slip::NoLogLevel => out.write_str("no event of these traces has a log level"),
            Slip::Never => out.write_str(
                "no event of these traces can match: each part is true of some, all together of none",
            ),
        }
    }
}
