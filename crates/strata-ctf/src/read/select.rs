//! Which event records a filter selects.
//!
//! A filter is compiled once for each event record class. Names and log levels become constants then, what
//! the class does not have is unknown, and constants are folded: most classes end as "always" or "never".
//!
//! What is done to the expression before is [`strata_filter::lower`](mod@strata_filter::lower).

mod known;

use std::convert::Infallible;
use std::sync::Arc;

use strata_filter::evaluate::{self, Fields};
use strata_filter::lower::{self, IntegerSpan};
use strata_filter::{
    Comparison, Expr, Filter, Item, Literal, Number, Op, Operand, Path, PathStep, Pattern, Root,
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
    plans: Vec<ClassSelection>,
}

/// What is known of a class.
#[derive(Clone, Debug)]
enum ClassSelection {
    NotYet,
    Always,
    Never,
    Ask(Arc<FieldTestNode>),
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
            Some(ClassSelection::Always) => true,
            Some(ClassSelection::Never) => false,
            Some(ClassSelection::Ask(node)) => selects(node, event),
            Some(ClassSelection::NotYet) | None => self.accepts_first(event),
        }
    }

    /// Whether the filter is true of some record of the class, for all that its description says.
    pub fn may_accept(&mut self, class: &EventClass) -> bool {
        if matches!(self.plans.get(class.index()), Some(ClassSelection::NotYet) | None) {
            self.compile(class);
        }
        !matches!(self.plans.get(class.index()), Some(ClassSelection::Never))
    }

    #[cold]
    fn accepts_first(&mut self, event: &Event<'_>) -> bool {
        selects(&self.compile(event.class()), event)
    }

    fn compile(&mut self, class: &EventClass) -> Arc<FieldTestNode> {
        let node = Arc::new(sure(lower::lower(self.filter.expr(), &TestCompiler { class })));
        if self.plans.len() <= class.index() {
            self.plans.resize(class.index() + 1, ClassSelection::NotYet);
        }
        if let Some(plan) = self.plans.get_mut(class.index()) {
            *plan = match *node {
                FieldTestNode::Always => ClassSelection::Always,
                FieldTestNode::Never => ClassSelection::Never,
                _ => ClassSelection::Ask(node.clone()),
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

/// A condition, for one class of event records.
type FieldTestNode = lower::Node<FieldTest>;

/// A test. What is unknown does not select, so it is false; where a negation was above a comparison, it is in
/// `outside`.
#[derive(Debug)]
enum FieldTest {
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
        source: ValueSource,
        ranges: Box<[IntegerSpan]>,
        outside: bool,
    },
    Text {
        field: FieldRef,
        pattern: Pattern,
        outside: bool,
    },
    Compare {
        left: ValueSource,
        op: Op,
        right: ValueSource,
        outside: bool,
    },
    Has {
        field: FieldRef,
        outside: bool,
    },
}

/// Where a value comes from.
#[derive(Debug)]
struct ValueSource {
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

#[inline]
fn selects(node: &FieldTestNode, event: &Event<'_>) -> bool {
    match node {
        FieldTestNode::Always => true,
        FieldTestNode::Never => false,
        FieldTestNode::Leaf(leaf) => leaf.selects(event),
        FieldTestNode::All(parts) => parts.iter().all(|part| selects(part, event)),
        FieldTestNode::Any(parts) => parts.iter().any(|part| selects(part, event)),
    }
}

impl FieldTest {
    #[inline]
    fn selects(&self, event: &Event<'_>) -> bool {
        match self {
            FieldTest::Unsigned { field, from, to, outside } => match event.value(field) {
                Some(Value::Unsigned(value)) => (*from <= value && value <= *to) != *outside,
                _ => false,
            },
            FieldTest::Signed { field, from, to, outside } => match event.value(field) {
                Some(Value::Signed(value)) => (*from <= value && value <= *to) != *outside,
                _ => false,
            },
            FieldTest::Bits { field, mask, from, to, outside } => {
                let value = match event.value(field) {
                    Some(Value::Unsigned(value)) => value & mask,
                    // Two's complement.
                    Some(Value::Signed(value)) => value as u64 & mask,
                    _ => return false,
                };
                (*from <= value && value <= *to) != *outside
            }
            FieldTest::Text { field, pattern, outside } => match event.value(field) {
                Some(Value::Text(text)) => pattern.matches(text) != *outside,
                Some(Value::Wide(text)) => pattern.matches(text.to_text().as_bytes()) != *outside,
                _ => false,
            },
            FieldTest::Ranges { .. } | FieldTest::Compare { .. } | FieldTest::Has { .. } => {
                self.selects_slowly(event)
            }
        }
    }

    fn selects_slowly(&self, event: &Event<'_>) -> bool {
        match self {
            FieldTest::Ranges { source, ranges, outside } => {
                match source.value(event, &mut String::new()) {
                    Some(evaluate::Value::Integer(value)) => {
                        let next = ranges.partition_point(|(_, to)| *to < value);
                        ranges.get(next).is_some_and(|(from, _)| *from <= value) != *outside
                    }
                    _ => false,
                }
            }
            FieldTest::Compare { left, op, right, outside } => {
                let (mut one, mut other) = (String::new(), String::new());
                let values = left.value(event, &mut one).zip(right.value(event, &mut other));
                let result = values.and_then(|(left, right)| evaluate::compare(left, *op, right));
                result == Some(!outside)
            }
            FieldTest::Has { field, outside } => event.value(field).is_some() != *outside,
            FieldTest::Unsigned { .. }
            | FieldTest::Signed { .. }
            | FieldTest::Bits { .. }
            | FieldTest::Text { .. } => self.selects(event),
        }
    }
}

impl ValueSource {
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

struct TestCompiler<'c> {
    class: &'c EventClass,
}

impl lower::Compiler for TestCompiler<'_> {
    type Leaf = FieldTest;
    type Error = Infallible;

    fn condition(&self, expr: &Expr, negated: bool) -> Result<FieldTestNode, Infallible> {
        Ok(match expr {
            Expr::Has(path) => match self.find(path) {
                Some(field) => FieldTestNode::Leaf(FieldTest::Has { field, outside: negated }),
                None => FieldTestNode::certain(negated),
            },
            Expr::Compare(Comparison { left, right: Operand::Literal(_), .. })
            | Expr::In(left, _)
                if of_class(left) =>
            {
                // Unknown is neither.
                FieldTestNode::certain(
                    evaluate::evaluate(expr, &OfClass(self.class)) == Some(!negated),
                )
            }
            Expr::Compare(comparison) => self.comparison(comparison, negated),
            Expr::In(term, items) => self.set(term, items, negated),
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) => return lower::lower(expr, self),
        })
    }
}

/// What is in the braces behind a term that the class has.
struct TermItems<'c> {
    compiler: &'c TestCompiler<'c>,
    term: &'c Term,
    kind: Option<FieldKind>,
    negated: bool,
}

impl lower::Set for TermItems<'_> {
    type Leaf = FieldTest;
    type Error = Infallible;

    fn is_integer(&self) -> bool {
        self.kind == Some(FieldKind::Integer)
    }

    fn one(&self, op: Op, literal: &Literal) -> Result<FieldTestNode, Infallible> {
        let source = self.compiler.source(self.term);
        Ok(source.map_or(FieldTestNode::Never, |left| {
            self.compiler.literal(left, op, literal, self.negated)
        }))
    }

    fn among(&self, spans: Vec<IntegerSpan>) -> Result<FieldTestNode, Infallible> {
        let source = self.compiler.source(self.term);
        Ok(source.map_or(FieldTestNode::Never, |source| ranges(source, spans, self.negated)))
    }
}

/// What cannot fail.
fn sure(node: Result<FieldTestNode, Infallible>) -> FieldTestNode {
    match node {
        Ok(node) => node,
        Err(never) => match never {},
    }
}

impl TestCompiler<'_> {
    fn comparison(&self, comparison: &Comparison, negated: bool) -> FieldTestNode {
        let Some(left) = self.source(&comparison.left) else { return FieldTestNode::Never };
        match &comparison.right {
            Operand::Literal(literal) => self.literal(left, comparison.op, literal, negated),
            Operand::Term(right) => match self.source(right) {
                Some(right) => pair(left, comparison.op, right, negated),
                None => FieldTestNode::Never,
            },
        }
    }

    fn literal(
        &self,
        left: ValueSource,
        op: Op,
        literal: &Literal,
        negated: bool,
    ) -> FieldTestNode {
        match (literal, left.kind()) {
            (Literal::Number(number), Some(FieldKind::Integer)) => {
                let differs = op == Op::NotEqual;
                ranges(left, vec![lower::span(op, *number)], negated != differs)
            }
            (Literal::Number(number), Some(FieldKind::Real)) => {
                let right = ValueSource { from: From::Number(*number), mask: None };
                FieldTestNode::Leaf(FieldTest::Compare { left, op, right, outside: negated })
            }
            (Literal::Text(pattern), _) => text(left, pattern, negated != (op == Op::NotEqual)),
            (Literal::Number(_), _) => FieldTestNode::Never,
        }
    }

    fn set(&self, term: &Term, items: &[Item], negated: bool) -> FieldTestNode {
        let Some(source) = self.source(term) else { return FieldTestNode::Never };
        let kind = source.kind();
        sure(lower::set(items, negated, &TermItems { compiler: self, term, kind, negated }))
    }

    fn source(&self, term: &Term) -> Option<ValueSource> {
        let from = match &term.subject {
            Subject::Name => From::Name,
            Subject::Cpu => From::Cpu,
            Subject::LogLevel => From::LogLevel,
            Subject::Field(path) => From::Field(self.find(path)?),
        };
        Some(ValueSource { from, mask: term.mask })
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
            PathStep::Member(member) => {
                name.push_str(if name.is_empty() { "" } else { "." });
                name.push_str(member);
            }
            PathStep::Index(index) => name.push_str(&format!("[{index}]")),
        }
    }
    name
}

fn pair(left: ValueSource, op: Op, right: ValueSource, outside: bool) -> FieldTestNode {
    use FieldKind::{Integer, Real, Text};
    match (left.kind(), right.kind()) {
        (Some(Integer | Real), Some(Integer | Real)) => (),
        (Some(Text), Some(Text)) if !op.is_order() => (),
        _ => return FieldTestNode::Never,
    }
    FieldTestNode::Leaf(FieldTest::Compare { left, op, right, outside })
}

/// With text: an enumeration's labels stand for their values.
fn text(left: ValueSource, pattern: &Pattern, outside: bool) -> FieldTestNode {
    let From::Field(field) = &left.from else { return FieldTestNode::Never };
    if left.mask.is_some() {
        return FieldTestNode::Never;
    }
    match (field.info().kind, &field.info().labels) {
        (FieldKind::Text, _) => {
            let (field, pattern) = (field.clone(), pattern.clone());
            FieldTestNode::Leaf(FieldTest::Text { field, pattern, outside })
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
            FieldTestNode::Leaf(FieldTest::Bits { field, mask, from: 0, to: 0, outside })
        }
        (FieldKind::Integer, Some(labels)) => {
            let labels = labels.iter().filter(|label| pattern.matches(label.name.as_bytes()));
            let values = labels.flat_map(|label| &label.ranges);
            let spans = values.map(|range| (range.from, range.to)).collect();
            ranges(left, spans, outside)
        }
        _ => FieldTestNode::Never,
    }
}

/// That a value has one of the flags, or none of them.
fn flags(field: &FieldRef, labels: impl Iterator<Item = u64>, outside: bool) -> FieldTestNode {
    let Some(flags) = field.info().flags else { return FieldTestNode::Never };
    let node = |label: u64| {
        let (field, mask) = (field.clone(), flags.mask(label));
        Ok(FieldTestNode::Leaf(FieldTest::Bits { field, mask, from: label, to: label, outside }))
    };
    sure(FieldTestNode::join(outside, labels.map(node)))
}

/// That the integer is in one of the spans, or in none of them.
fn ranges(source: ValueSource, spans: Vec<IntegerSpan>, outside: bool) -> FieldTestNode {
    let apart = lower::apart(spans);
    if let (From::Field(field), [] | [_]) = (&source.from, apart.as_slice()) {
        let span = apart.first().copied().unwrap_or((1, 0));
        return one_range(field, source.mask, span, outside);
    }
    FieldTestNode::Leaf(FieldTest::Ranges { source, ranges: apart.into(), outside })
}

fn one_range(
    field: &FieldRef,
    mask: Option<u64>,
    (from, to): IntegerSpan,
    outside: bool,
) -> FieldTestNode {
    let field = field.clone();
    let FieldInfo { signed, .. } = *field.info();
    // A span that no value of the field is in becomes 1..=0.
    if signed && mask.is_none() {
        let from = i64::try_from(from.max(i64::MIN.into()));
        let to = i64::try_from(to.min(i64::MAX.into()));
        let (from, to) = from.ok().zip(to.ok()).unwrap_or((1, 0));
        FieldTestNode::Leaf(FieldTest::Signed { field, from, to, outside })
    } else {
        let (from, to) = (u64::try_from(from.max(0)), u64::try_from(to.min(u64::MAX.into())));
        let (from, to) = from.ok().zip(to.ok()).unwrap_or((1, 0));
        FieldTestNode::Leaf(match mask {
            Some(mask) => FieldTest::Bits { field, mask, from, to, outside },
            None => FieldTest::Unsigned { field, from, to, outside },
        })
    }
}

#[cfg(test)]
mod tests;
