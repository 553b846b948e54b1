//! Which event records a filter selects.
//!
//! A filter is compiled once for each event record class. Names and log levels become constants then, what
//! the class does not have is unknown, and constants are folded: most classes end as "always" or "never".
//!
//! Only true selects. So negations are moved down to the comparisons, of which each is then either true
//! for certain or does not count, and a record costs no three-valued logic.

mod known;

use std::sync::Arc;

use strata_filter::evaluate::{self, Fields};
use strata_filter::{
    Comparison, Expr, Filter, Item, Literal, Number, Op, Operand, Path, Pattern, Root, Step,
    Subject, Term,
};

use super::visit::bits_of;
use super::{Event, EventClass, FieldInfo, FieldKind, FieldRef, Reader, Value};
use crate::model::schema::Scope;
use known::KnownClasses;

/// A filter, bound to the event record classes of one [`Reader`](super::Reader) as they come.
///
/// Each thread has its own; a clone is made in no time and keeps what was compiled.
///
/// ```no_run
/// use strata_ctf::read::{Message, Reader, Selection, TimeRange};
/// use strata_filter::Filter;
///
/// let reader = Reader::open(&["trace"])?;
/// let filter: Filter = "sched_switch && next_comm == \"nginx\"".parse()?;
/// for hint in Selection::check(&filter, &reader) {
///     eprintln!("{hint}");
/// }
/// let mut selection = Selection::new(&filter);
/// let mut events = reader.events(TimeRange::ALL);
/// while let Some(message) = events.next() {
///     if let Message::Event(event) = message {
///         if selection.accepts(&event) {
///             println!("{}", event.class().name());
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Selection {
    filter: Arc<Filter>,
    /// By [`EventClass::index`].
    plans: Vec<Plan>,
}

/// What is known of a class.
#[derive(Clone, Debug)]
enum Plan {
    NotYet,
    Always,
    Never,
    Ask(Arc<Node>),
}

impl Selection {
    /// Of what the filter selects.
    #[must_use]
    pub fn new(filter: &Filter) -> Selection {
        Selection { filter: Arc::new(filter.clone()), plans: Vec::new() }
    }

    /// Whether the filter is true of the event record, which is one of the same reader each time.
    #[inline]
    pub fn accepts(&mut self, event: &Event<'_>) -> bool {
        match self.plans.get(event.class().index()) {
            Some(Plan::Always) => true,
            Some(Plan::Never) => false,
            Some(Plan::Ask(node)) => node.selects(event),
            Some(Plan::NotYet) | None => self.accepts_first(event),
        }
    }

    /// Whether the filter is true of some record of the class, for all that its description says.
    pub fn may_accept(&mut self, class: &EventClass) -> bool {
        if matches!(self.plans.get(class.index()), Some(Plan::NotYet) | None) {
            self.compile(class);
        }
        !matches!(self.plans.get(class.index()), Some(Plan::Never))
    }

    #[cold]
    fn accepts_first(&mut self, event: &Event<'_>) -> bool {
        self.compile(event.class()).selects(event)
    }

    fn compile(&mut self, class: &EventClass) -> Arc<Node> {
        let node = Arc::new(Compiler { class }.node(self.filter.expr(), false));
        if self.plans.len() <= class.index() {
            self.plans.resize(class.index() + 1, Plan::NotYet);
        }
        if let Some(plan) = self.plans.get_mut(class.index()) {
            *plan = match *node {
                Node::Always => Plan::Always,
                Node::Never => Plan::Never,
                _ => Plan::Ask(node.clone()),
            };
        }
        node
    }

    /// What in the filter can match nothing in these traces. Empty if they describe more names than can be
    /// looked at.
    #[must_use]
    pub fn check(filter: &Filter, reader: &Reader) -> Vec<strata_filter::Hint> {
        let mut known = KnownClasses::default();
        for trace in reader.traces() {
            if !known.add(trace.schema()) {
                return Vec::new();
            }
        }
        filter.check(&known.classes)
    }
}

/// A condition, for one class of event records. What is unknown does not select, so it is false; where a
/// negation was above a comparison, it is in `outside`.
#[derive(Debug)]
enum Node {
    Always,
    Never,
    All(Box<[Node]>),
    Any(Box<[Node]>),
    /// An unsigned integer is in `from..=to`, or is outside of it.
    Unsigned {
        field: FieldRef,
        from: u64,
        to: u64,
        outside: bool,
    },
    /// The same of a signed one.
    Signed {
        field: FieldRef,
        from: i64,
        to: i64,
        outside: bool,
    },
    /// Some bits of an integer, as an unsigned one.
    Bits {
        field: FieldRef,
        mask: u64,
        from: u64,
        to: u64,
        outside: bool,
    },
    /// An integer is in one of the ranges, sorted and apart from each other, or in none of them.
    Ranges {
        source: Source,
        ranges: Box<[Span]>,
        outside: bool,
    },
    Text {
        field: FieldRef,
        pattern: Pattern,
        outside: bool,
    },
    Compare {
        left: Source,
        op: Op,
        right: Source,
        outside: bool,
    },
    Has {
        field: FieldRef,
        outside: bool,
    },
}

/// First and last integer.
type Span = (i128, i128);

/// Where a value comes from.
#[derive(Debug)]
struct Source {
    from: From,
    mask: Option<u64>,
}

#[derive(Debug)]
enum From {
    Field(FieldRef),
    Name,
    Cpu,
    LogLevel,
    Number(Number),
}

impl Node {
    #[inline]
    fn selects(&self, event: &Event<'_>) -> bool {
        match self {
            Node::Always => true,
            Node::Never => false,
            Node::Unsigned { field, from, to, outside } => match event.value(field) {
                Some(Value::Unsigned(value)) => (*from <= value && value <= *to) != *outside,
                _ => false,
            },
            Node::Signed { field, from, to, outside } => match event.value(field) {
                Some(Value::Signed(value)) => (*from <= value && value <= *to) != *outside,
                _ => false,
            },
            Node::Bits { field, mask, from, to, outside } => {
                let value = match event.value(field) {
                    Some(Value::Unsigned(value)) => value & mask,
                    // Two's complement.
                    Some(Value::Signed(value)) => value as u64 & mask,
                    _ => return false,
                };
                (*from <= value && value <= *to) != *outside
            }
            Node::Text { field, pattern, outside } => match event.value(field) {
                Some(Value::Text(text)) => pattern.matches(text) != *outside,
                Some(Value::Wide(text)) => pattern.matches(text.to_text().as_bytes()) != *outside,
                _ => false,
            },
            Node::All(_)
            | Node::Any(_)
            | Node::Ranges { .. }
            | Node::Compare { .. }
            | Node::Has { .. } => self.selects_slowly(event),
        }
    }

    fn selects_slowly(&self, event: &Event<'_>) -> bool {
        match self {
            Node::All(parts) => parts.iter().all(|part| part.selects(event)),
            Node::Any(parts) => parts.iter().any(|part| part.selects(event)),
            Node::Ranges { source, ranges, outside } => {
                match source.value(event, &mut String::new()) {
                    Some(evaluate::Value::Integer(value)) => {
                        let next = ranges.partition_point(|(_, to)| *to < value);
                        ranges.get(next).is_some_and(|(from, _)| *from <= value) != *outside
                    }
                    _ => false,
                }
            }
            Node::Compare { left, op, right, outside } => {
                let (mut one, mut other) = (String::new(), String::new());
                let values = left.value(event, &mut one).zip(right.value(event, &mut other));
                let result = values.and_then(|(left, right)| evaluate::compare(left, *op, right));
                result == Some(!outside)
            }
            Node::Has { field, outside } => event.value(field).is_some() != *outside,
            Node::Always
            | Node::Never
            | Node::Unsigned { .. }
            | Node::Signed { .. }
            | Node::Bits { .. }
            | Node::Text { .. } => self.selects(event),
        }
    }
}

impl Source {
    /// `store` keeps a text that is in the packet in other bytes than those of UTF-8.
    #[inline]
    fn value<'v>(
        &'v self,
        event: &'v Event<'_>,
        store: &'v mut String,
    ) -> Option<evaluate::Value<'v>> {
        let value = match &self.from {
            From::Field(field) => match event.value(field)? {
                Value::Unsigned(value) => evaluate::Value::Integer(value.into()),
                Value::Signed(value) => evaluate::Value::Integer(value.into()),
                Value::Real(value) => evaluate::Value::Real(value),
                Value::Text(text) => evaluate::Value::Text(text),
                Value::Wide(text) => {
                    *store = text.to_text();
                    evaluate::Value::Text(store.as_bytes())
                }
                Value::Blob(_) | Value::Compound => evaluate::Value::Other,
            },
            From::Name => evaluate::Value::Text(event.class().name().as_bytes()),
            From::Cpu => evaluate::Value::Integer(event.packet().cpu?.into()),
            From::LogLevel => evaluate::Value::Integer(event.class().loglevel()?.into()),
            From::Number(Number::Integer(value)) => evaluate::Value::Integer(*value),
            From::Number(Number::Real(value)) => evaluate::Value::Real(*value),
        };
        value.masked(self.mask)
    }

    /// What it is, as far as the class says.
    fn kind(&self) -> Option<FieldKind> {
        let kind = match &self.from {
            From::Field(field) => field.info().kind,
            From::Name => FieldKind::Text,
            From::Cpu | From::LogLevel | From::Number(Number::Integer(_)) => FieldKind::Integer,
            From::Number(Number::Real(_)) => FieldKind::Real,
        };
        (self.mask.is_none() || kind == FieldKind::Integer).then_some(kind)
    }
}

/// What is the same for all records of a class.
struct OfClass<'c>(&'c EventClass);

impl Fields for OfClass<'_> {
    fn name(&self) -> &[u8] {
        self.0.name().as_bytes()
    }

    fn loglevel(&self) -> Option<i64> {
        self.0.loglevel()
    }

    fn field(&self, _: &Path) -> Option<evaluate::Value<'_>> {
        None
    }
}

struct Compiler<'c> {
    class: &'c EventClass,
}

impl Compiler<'_> {
    /// The expression, or its negation.
    fn node(&self, expr: &Expr, negated: bool) -> Node {
        match expr {
            Expr::And(parts) | Expr::Or(parts) => {
                let all = matches!(expr, Expr::And(_)) != negated;
                join(all, parts.iter().map(|part| self.node(part, negated)))
            }
            Expr::Not(inner) => self.node(inner, !negated),
            Expr::Has(path) => match self.find(path) {
                Some(field) => Node::Has { field, outside: negated },
                None => certain(negated),
            },
            Expr::Compare(Comparison { left, right: Operand::Literal(_), .. })
            | Expr::In(left, _)
                if of_class(left) =>
            {
                // Unknown is neither.
                certain(evaluate::evaluate(expr, &OfClass(self.class)) == Some(!negated))
            }
            Expr::Compare(comparison) => self.comparison(comparison, negated),
            Expr::In(term, items) => self.set(term, items, negated),
        }
    }

    fn comparison(&self, comparison: &Comparison, negated: bool) -> Node {
        let Some(left) = self.source(&comparison.left) else { return Node::Never };
        match &comparison.right {
            Operand::Literal(literal) => self.literal(left, comparison.op, literal, negated),
            Operand::Term(right) => match self.source(right) {
                Some(right) => pair(left, comparison.op, right, negated),
                None => Node::Never,
            },
        }
    }

    fn literal(&self, left: Source, op: Op, literal: &Literal, negated: bool) -> Node {
        match (literal, left.kind()) {
            (Literal::Number(number), Some(FieldKind::Integer)) => {
                let differs = op == Op::NotEqual;
                ranges(left, vec![integers(op, *number)], negated != differs)
            }
            (Literal::Number(number), Some(FieldKind::Real)) => {
                let right = Source { from: From::Number(*number), mask: None };
                Node::Compare { left, op, right, outside: negated }
            }
            (Literal::Text(pattern), _) => text(left, pattern, negated != (op == Op::NotEqual)),
            (Literal::Number(_), _) => Node::Never,
        }
    }

    /// As the comparisons with each item would be, but all numbers at once where they are integers.
    fn set(&self, term: &Term, items: &[Item], negated: bool) -> Node {
        let source = || self.source(term);
        let Some(first) = source() else { return Node::Never };
        let kind = first.kind();
        let mut spans = Vec::new();
        let mut nodes = Vec::new();
        for item in items {
            match (item, kind) {
                (Item::One(Literal::Number(number)), Some(FieldKind::Integer)) => {
                    spans.push(integers(Op::Equal, *number));
                }
                (Item::Range(from, to), Some(FieldKind::Integer)) => {
                    let from = integers(Op::GreaterOrEqual, *from).0;
                    spans.push((from, integers(Op::LessOrEqual, *to).1));
                }
                (Item::One(literal), _) => {
                    nodes.extend(
                        source().map(|left| self.literal(left, Op::Equal, literal, negated)),
                    );
                }
                (Item::Range(from, to), _) => {
                    let ends = [(Op::GreaterOrEqual, from), (Op::LessOrEqual, to)];
                    let ends = ends.into_iter().filter_map(|(op, number)| {
                        Some(self.literal(source()?, op, &Literal::Number(*number), negated))
                    });
                    nodes.push(join(!negated, ends));
                }
            }
        }
        if !spans.is_empty() {
            nodes.push(ranges(first, spans, negated));
        }
        join(negated, nodes.into_iter())
    }

    fn source(&self, term: &Term) -> Option<Source> {
        let from = match &term.subject {
            Subject::Name => From::Name,
            Subject::Cpu => From::Cpu,
            Subject::LogLevel => From::LogLevel,
            Subject::Field(path) => From::Field(self.find(path)?),
        };
        Some(Source { from, mask: term.mask })
    }

    fn find(&self, path: &Path) -> Option<FieldRef> {
        let name = below_root(path);
        let scopes: &[Scope] = match path.root {
            Root::Any => return self.class.find(&name),
            Root::Payload => &[Scope::Payload],
            Root::Context => &[Scope::SpecificContext, Scope::CommonContext],
            Root::Packet => &[Scope::PacketContext],
            Root::Header => &[Scope::EventHeader, Scope::PacketHeader],
        };
        scopes.iter().find_map(|scope| self.class.find_in(*scope, &name))
    }
}

/// Whether the value is the same for all records of a class.
fn of_class(term: &Term) -> bool {
    matches!(term.subject, Subject::Name | Subject::LogLevel)
}

fn below_root(path: &Path) -> String {
    let mut name = String::new();
    for step in &path.steps {
        match step {
            Step::Member(member) => {
                name.push_str(if name.is_empty() { "" } else { "." });
                name.push_str(member);
            }
            Step::Index(index) => name.push_str(&format!("[{index}]")),
        }
    }
    name
}

fn certain(value: bool) -> Node {
    if value {
        Node::Always
    } else {
        Node::Never
    }
}

/// All of the parts, or any of them.
fn join(all: bool, parts: impl Iterator<Item = Node>) -> Node {
    let mut left = Vec::new();
    for part in parts {
        match (part, all) {
            (Node::Never, true) => return Node::Never,
            (Node::Always, false) => return Node::Always,
            (Node::Always, true) | (Node::Never, false) => (),
            (part, _) => left.push(part),
        }
    }
    match (left.pop(), all) {
        (None, all) => certain(all),
        (Some(only), _) if left.is_empty() => only,
        (Some(last), all) => {
            left.push(last);
            if all {
                Node::All(left.into())
            } else {
                Node::Any(left.into())
            }
        }
    }
}

fn pair(left: Source, op: Op, right: Source, outside: bool) -> Node {
    use FieldKind::{Integer, Real, Text};
    match (left.kind(), right.kind()) {
        (Some(Integer | Real), Some(Integer | Real)) => (),
        (Some(Text), Some(Text)) if !op.is_order() => (),
        _ => return Node::Never,
    }
    Node::Compare { left, op, right, outside }
}

/// With text: an enumeration's labels stand for their values.
fn text(left: Source, pattern: &Pattern, outside: bool) -> Node {
    let From::Field(field) = &left.from else { return Node::Never };
    if left.mask.is_some() {
        return Node::Never;
    }
    match (field.info().kind, &field.info().labels) {
        (FieldKind::Text, _) => {
            Node::Text { field: field.clone(), pattern: pattern.clone(), outside }
        }
        (FieldKind::Integer, Some(labels)) if field.info().flags.is_some() => {
            let labels = labels.iter().filter(|label| pattern.matches(label.name.as_bytes()));
            let bits =
                labels.flat_map(|label| &label.ranges).filter(|range| range.from == range.to);
            flags(field, bits.map(|range| range.from as u64), outside)
        }
        (FieldKind::Integer, Some(labels)) if field.info().is_bit_map => {
            let labels = labels.iter().filter(|label| pattern.matches(label.name.as_bytes()));
            let bits = labels.flat_map(|label| &label.ranges).map(bits_of);
            let mask = bits.fold(0, |all, bits| all | bits) as u64;
            // None of the bits is set, or not none.
            let (field, outside) = (field.clone(), !outside);
            Node::Bits { field, mask, from: 0, to: 0, outside }
        }
        (FieldKind::Integer, Some(labels)) => {
            let labels = labels.iter().filter(|label| pattern.matches(label.name.as_bytes()));
            let values = labels.flat_map(|label| &label.ranges);
            let spans = values.map(|range| (range.from, range.to)).collect();
            ranges(left, spans, outside)
        }
        _ => Node::Never,
    }
}

/// That a value has one of the flags, or none of them.
fn flags(field: &FieldRef, labels: impl Iterator<Item = u64>, outside: bool) -> Node {
    let Some(flags) = field.info().flags else { return Node::Never };
    let node = |label: u64| {
        let (field, mask) = (field.clone(), flags.mask(label));
        Node::Bits { field, mask, from: label, to: label, outside }
    };
    join(outside, labels.map(node))
}

/// The integers of which `op number` is true; of `!=`, those of which it is not.
fn integers(op: Op, number: Number) -> Span {
    // What an integer that is less or equal, and one that is greater or equal, is at most and at least. The
    // casts saturate, beyond all integers of 64 bits.
    let (floor, ceiling) = match number {
        Number::Integer(value) => (value, value),
        Number::Real(value) => (value.floor() as i128, value.ceil() as i128),
    };
    match op {
        // Nothing is equal to a real with a fraction: the span is empty.
        Op::Equal | Op::NotEqual => (ceiling, floor),
        Op::Less => (i128::MIN, ceiling.saturating_sub(1)),
        Op::LessOrEqual => (i128::MIN, floor),
        Op::Greater => (floor.saturating_add(1), i128::MAX),
        Op::GreaterOrEqual => (ceiling, i128::MAX),
    }
}

/// That the integer is in one of the spans, or in none of them.
fn ranges(source: Source, mut spans: Vec<Span>, outside: bool) -> Node {
    spans.retain(|(from, to)| from <= to);
    spans.sort_unstable();
    let mut apart: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match apart.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => apart.push((from, to)),
        }
    }
    if let (From::Field(field), [] | [_]) = (&source.from, apart.as_slice()) {
        let span = apart.first().copied().unwrap_or((1, 0));
        return one_range(field, source.mask, span, outside);
    }
    Node::Ranges { source, ranges: apart.into(), outside }
}

fn one_range(field: &FieldRef, mask: Option<u64>, (from, to): Span, outside: bool) -> Node {
    let field = field.clone();
    let FieldInfo { signed, .. } = *field.info();
    // A span that no value of the field is in becomes 1..=0.
    if signed && mask.is_none() {
        let from = i64::try_from(from.max(i64::MIN.into()));
        let to = i64::try_from(to.min(i64::MAX.into()));
        let (from, to) = from.ok().zip(to.ok()).unwrap_or((1, 0));
        Node::Signed { field, from, to, outside }
    } else {
        let (from, to) = (u64::try_from(from.max(0)), u64::try_from(to.min(u64::MAX.into())));
        let (from, to) = from.ok().zip(to.ok()).unwrap_or((1, 0));
        match mask {
            Some(mask) => Node::Bits { field, mask, from, to, outside },
            None => Node::Unsigned { field, from, to, outside },
        }
    }
}

#[cfg(test)]
mod tests;
