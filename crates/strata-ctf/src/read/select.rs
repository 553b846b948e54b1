//! Selects event records by a filter.
//!
//! ```text
//! text ── strata_filter: Filter, an expression tree
//!           └─ Selection: for each class, once ── lower ── always | never | FieldTestNode: tests of fields
//!                └─ accepts(event), for each record
//! ```
//!
//! A filter is compiled once for each event record class. Names and log levels become constants then, fields that the
//! class lacks become unknown, and constants are folded: for most classes, the result is "always" or "never".
//! [`strata_filter::lower`](mod@strata_filter::lower) simplifies the expression before.
//!
//! What a record does not have itself comes from two places:
//!
//! - `deferred`: arguments of a system call that have a record of their own after the entry. The traces are read for
//!   them once, if the filter names such an argument ([`Selection::of_time`]).
//! - `derived_words`: names of processes, durations and others, which a [`DerivedValues`] supplies that the caller
//!   has made in a pass of its own ([`Selection::asked_words`] says which).
//!
//! A test on an unknown value is false, and so is its negation where the filter's language says so; `outside`
//! expresses that without a third truth value. [`Selection::check`] finds filters that can never be true, and says
//! why.
//!
//! A selection belongs to one thread. A clone is cheap, since it shares the compiled classes.

mod deferred;
mod derived_words;
mod known_classes;

use std::convert::Infallible;
use std::sync::Arc;

use strata_filter::evaluate::{self, Fields};
use strata_filter::lower::{self, IntegerSpan};
use strata_filter::{
    Comparison, Expr, Filter, Item, Literal, Number, Op, Operand, Path, PathStep, Pattern, Root,
    Subject, Term,
};

use super::visit::bits_of;
use super::{Event, EventClass, FieldInfo, FieldKind, FieldRef, Reader, TimeRange, Value};
use crate::model::schema::{self, Schema, Scope};
use deferred::{DeferredFields, EntryFields};
pub use derived_words::{AskedWords, DerivedValue, DerivedValues, DerivedWord};
use known_classes::KnownClasses;

/// A filter, compiled for each event record class of one [`Reader`](super::Reader) when the first record of the class
/// arrives.
///
/// Each thread needs its own selection. A clone is cheap and keeps the compiled filter.
///
/// ```no_run
/// use strata_ctf::read::{Message, Reader, Selection, TimeRange};
/// use strata_filter::Filter;
///
/// let reader = Reader::open(&["trace"])?;
/// let filter: Filter = "sched_switch && next_comm == \"nginx\"".parse()?;
/// for hint in Selection::check(&filter, &reader, &|_, _, _| false) {
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
    /// The filter; `None` selects all records.
    filter: Option<Arc<Filter>>,
    /// The compiled filter of each class, by [`EventClass::index`].
    plans: Vec<ClassSelection>,
    /// Values of system calls' arguments that only a later record has, and that the filter tests on the call's entry.
    deferred: Option<Arc<DeferredFields>>,
    /// What answers words that no record has as a field, such as the name of a process, if the filter has one.
    derived: Option<Arc<dyn DerivedValues>>,
    /// True if only records that [`DerivedValues::is_wanted`] accepts are selected.
    wanted_only: bool,
}

/// The result of compiling the filter for one class.
#[derive(Clone, Debug)]
enum ClassSelection {
    NotYet,
    Always,
    Never,
    Ask(Arc<FieldTestNode>),
}

impl Selection {
    /// Makes a selection of the records for which `filter` is true.
    #[must_use]
    pub fn new(filter: &Filter) -> Selection {
        Selection { filter: Some(Arc::new(filter.clone())), ..Selection::all() }
    }

    /// Makes a selection of all records.
    #[must_use]
    pub fn all() -> Selection {
        Selection {
            filter: None,
            plans: Vec::new(),
            deferred: None,
            derived: None,
            wanted_only: false,
        }
    }

    /// Returns the words of the filter that must be derived, such as the name of a process: no record of these traces
    /// has them as fields.
    #[must_use]
    pub fn asked_words(&mut self, reader: &Reader) -> AskedWords {
        let mut asked = AskedWords::default();
        for class in reader.traces().iter().flat_map(|trace| trace.event_classes()) {
            words_of(&self.compile(class), &mut asked);
        }
        asked
    }

    /// Returns the selection with the values of [`Selection::asked_words`]. `wanted_only` restricts it to records that
    /// `derived` wants.
    #[must_use]
    pub fn with_derived(self, derived: Arc<dyn DerivedValues>, wanted_only: bool) -> Selection {
        Selection { derived: Some(derived), wanted_only, ..self }
    }

    /// Makes a selection for a time range. Arguments of a system call that have a record of their own are tested on the
    /// call's entry, with that record's values. If the filter names such an argument, the traces are read for it.
    #[must_use]
    pub fn of_time(
        filter: &Filter,
        reader: &Reader,
        range: TimeRange,
        stop: &dyn Fn() -> bool,
    ) -> Selection {
        let mut selection = Selection::new(filter);
        let mut asked = |class: &EventClass| {
            let mut fields = Vec::new();
            fields_of(&selection.compile(class), &mut fields);
            fields
        };
        let deferred = DeferredFields::read(reader, range, &mut asked, stop);
        selection.deferred = deferred.map(Arc::new);
        selection
    }

    /// Returns the number of system calls whose later arguments were not kept because there were too many. The filter
    /// tests only what the entry itself has.
    #[must_use]
    pub fn deferred_left_out(&self) -> u64 {
        self.deferred.as_ref().map_or(0, |deferred| deferred.left_out())
    }

    /// Returns whether the filter is true of the event record. All records must come from the same reader.
    #[inline]
    pub fn accepts(&mut self, event: &Event<'_>) -> bool {
        if self.wanted_only && !self.derived.as_ref().is_some_and(|all| all.is_wanted(event)) {
            return false;
        }
        match self.plans.get(event.class().index()) {
            Some(ClassSelection::Always) => true,
            Some(ClassSelection::Never) => false,
            Some(ClassSelection::Ask(node)) => {
                let derived = self.derived.as_deref();
                selects(node, &Record { event, lacks: lacks(&self.deferred, event), derived })
            }
            Some(ClassSelection::NotYet) | None => self.accepts_first(event),
        }
    }

    /// Returns whether the filter can be true of a record of this class, by the class's description.
    pub fn may_accept(&mut self, class: &EventClass) -> bool {
        if matches!(self.plans.get(class.index()), Some(ClassSelection::NotYet) | None) {
            self.compile(class);
        }
        !matches!(self.plans.get(class.index()), Some(ClassSelection::Never))
    }

    #[cold]
    fn accepts_first(&mut self, event: &Event<'_>) -> bool {
        let node = self.compile(event.class());
        let derived = self.derived.as_deref();
        selects(&node, &Record { event, lacks: lacks(&self.deferred, event), derived })
    }

    fn compile(&mut self, class: &EventClass) -> Arc<FieldTestNode> {
        let node = Arc::new(match &self.filter {
            Some(filter) => sure(lower::lower(filter.expr(), &TestCompiler { class })),
            None => FieldTestNode::Always,
        });
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

    /// Returns hints on parts of the filter that can match nothing in these traces. `derived` decides whether records
    /// of a class have a derived word. The list is empty if the traces describe too many names to check.
    #[must_use]
    pub fn check(
        filter: &Filter,
        reader: &Reader,
        derived: &dyn Fn(&Schema, &schema::EventClass, DerivedWord) -> bool,
    ) -> Vec<strata_filter::Hint> {
        let mut known = KnownClasses::default();
        for trace in reader.traces() {
            if !known.add(trace.schema(), derived) {
                return Vec::new();
            }
        }
        filter.check(&known.classes)
    }
}

/// A condition, for one class of event records.
type FieldTestNode = lower::Node<FieldTest>;

/// A test of one value. It is false if the value is unknown; a negated comparison has `outside` set.
#[derive(Debug)]
enum FieldTest {
    /// An unsigned integer is in `from..=to`, or outside of the range if `outside` is set.
    Unsigned {
        field: FieldRef,
        from: u64,
        to: u64,
        outside: bool,
    },
    /// A signed integer is in `from..=to`, or outside of the range if `outside` is set.
    Signed {
        field: FieldRef,
        from: i64,
        to: i64,
        outside: bool,
    },
    /// Some bits of an integer, as an unsigned integer, are in `from..=to`, or outside.
    Bits {
        field: FieldRef,
        mask: u64,
        from: u64,
        to: u64,
        outside: bool,
    },
    /// An integer is in one of the sorted and disjoint ranges, or in none of them if `outside` is set.
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
    DerivedText {
        word: DerivedWord,
        pattern: Pattern,
        outside: bool,
    },
    HasDerived {
        word: DerivedWord,
        outside: bool,
    },
}

/// The source of the value that a test compares, and the bits that the test masks.
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
    Derived(DerivedWord),
}

/// Returns the values of the later record if the event is an entry of a system call that has one; `None` for nearly all
/// records.
#[inline]
fn lacks<'d>(
    deferred: &'d Option<Arc<DeferredFields>>,
    event: &Event<'_>,
) -> Option<&'d EntryFields> {
    deferred.as_ref().and_then(|deferred| deferred.of(event))
}

/// An event record, with values of other records.
struct Record<'r, 'e> {
    event: &'r Event<'e>,
    lacks: Option<&'r EntryFields>,
    derived: Option<&'r dyn DerivedValues>,
}

impl Record<'_, '_> {
    #[inline]
    fn value(&self, field: &FieldRef) -> Option<Value<'_>> {
        match self.lacks.and_then(|lacks| lacks.value(field)) {
            None => self.event.value(field),
            later => later,
        }
    }
}

impl<'r> Record<'r, '_> {
    #[inline]
    fn derived(&self, word: DerivedWord) -> Option<DerivedValue<'r>> {
        self.derived?.value(word, self.event)
    }
}

/// Adds the words of a condition that no record has as a field, such as the name of a process, to `asked`.
fn words_of(node: &FieldTestNode, asked: &mut AskedWords) {
    let word = |source: &ValueSource| match source.from {
        From::Derived(word) => Some(word),
        _ => None,
    };
    match node {
        FieldTestNode::Always | FieldTestNode::Never => {}
        FieldTestNode::All(parts) | FieldTestNode::Any(parts) => {
            parts.iter().for_each(|part| words_of(part, asked));
        }
        FieldTestNode::Leaf(FieldTest::Ranges { source, ranges, outside }) => match word(source) {
            Some(word) if source.mask.is_none() => asked.add_spans(word, ranges, *outside),
            word => word.into_iter().for_each(|word| asked.add_any(word)),
        },
        FieldTestNode::Leaf(FieldTest::Compare { left, right, .. }) => {
            [left, right].into_iter().filter_map(word).for_each(|word| asked.add_any(word));
        }
        FieldTestNode::Leaf(
            FieldTest::DerivedText { word, .. } | FieldTest::HasDerived { word, .. },
        ) => asked.add_any(*word),
        FieldTestNode::Leaf(_) => {}
    }
}

/// Adds the fields that a condition uses.
fn fields_of(node: &FieldTestNode, fields: &mut Vec<FieldRef>) {
    let mut add = |source: &ValueSource| {
        if let From::Field(field) = &source.from {
            fields.push(field.clone());
        }
    };
    match node {
        FieldTestNode::Always | FieldTestNode::Never => {}
        FieldTestNode::All(parts) | FieldTestNode::Any(parts) => {
            parts.iter().for_each(|part| fields_of(part, fields));
        }
        FieldTestNode::Leaf(leaf) => match leaf {
            FieldTest::Unsigned { field, .. }
            | FieldTest::Signed { field, .. }
            | FieldTest::Bits { field, .. }
            | FieldTest::Text { field, .. } => fields.push(field.clone()),
            FieldTest::Ranges { source, .. } => add(source),
            FieldTest::Compare { left, right, .. } => {
                add(left);
                add(right);
            }
            FieldTest::Has { .. }
            | FieldTest::DerivedText { .. }
            | FieldTest::HasDerived { .. } => {}
        },
    }
}

#[inline]
fn selects(node: &FieldTestNode, record: &Record<'_, '_>) -> bool {
    match node {
        FieldTestNode::Always => true,
        FieldTestNode::Never => false,
        FieldTestNode::Leaf(leaf) => leaf.selects(record),
        FieldTestNode::All(parts) => parts.iter().all(|part| selects(part, record)),
        FieldTestNode::Any(parts) => parts.iter().any(|part| selects(part, record)),
    }
}

impl FieldTest {
    #[inline]
    fn selects(&self, record: &Record<'_, '_>) -> bool {
        match self {
            FieldTest::Unsigned { field, from, to, outside } => match record.value(field) {
                Some(Value::Unsigned(value)) => (*from <= value && value <= *to) != *outside,
                _ => false,
            },
            FieldTest::Signed { field, from, to, outside } => match record.value(field) {
                Some(Value::Signed(value)) => (*from <= value && value <= *to) != *outside,
                _ => false,
            },
            FieldTest::Bits { field, mask, from, to, outside } => {
                let value = match record.value(field) {
                    Some(Value::Unsigned(value)) => value & mask,
                    // Two's complement.
                    Some(Value::Signed(value)) => value as u64 & mask,
                    _ => return false,
                };
                (*from <= value && value <= *to) != *outside
            }
            FieldTest::Text { field, pattern, outside } => match record.value(field) {
                Some(Value::Text(text)) => pattern.matches(text) != *outside,
                Some(Value::Wide(text)) => pattern.matches(text.to_text().as_bytes()) != *outside,
                _ => false,
            },
            FieldTest::Ranges { .. }
            | FieldTest::Compare { .. }
            | FieldTest::Has { .. }
            | FieldTest::DerivedText { .. }
            | FieldTest::HasDerived { .. } => self.selects_slowly(record),
        }
    }

    fn selects_slowly(&self, record: &Record<'_, '_>) -> bool {
        match self {
            FieldTest::Ranges { source, ranges, outside } => {
                match source.value(record, &mut String::new()) {
                    Some(evaluate::Value::Integer(value)) => {
                        let next = ranges.partition_point(|(_, to)| *to < value);
                        ranges.get(next).is_some_and(|(from, _)| *from <= value) != *outside
                    }
                    _ => false,
                }
            }
            FieldTest::Compare { left, op, right, outside } => {
                let (mut one, mut other) = (String::new(), String::new());
                let values = left.value(record, &mut one).zip(right.value(record, &mut other));
                let result = values.and_then(|(left, right)| evaluate::compare(left, *op, right));
                result == Some(!outside)
            }
            FieldTest::Has { field, outside } => record.value(field).is_some() != *outside,
            FieldTest::DerivedText { word, pattern, outside } => match record.derived(*word) {
                Some(DerivedValue::Text(text)) => pattern.matches(text) != *outside,
                _ => false,
            },
            FieldTest::HasDerived { word, outside } => record.derived(*word).is_some() != *outside,
            FieldTest::Unsigned { .. }
            | FieldTest::Signed { .. }
            | FieldTest::Bits { .. }
            | FieldTest::Text { .. } => self.selects(record),
        }
    }
}

impl ValueSource {
    /// Reads the value. `store` keeps a text that the packet has in another encoding than UTF-8.
    #[inline]
    fn value<'v>(
        &'v self,
        record: &'v Record<'_, '_>,
        store: &'v mut String,
    ) -> Option<evaluate::Value<'v>> {
        let value = match &self.from {
            From::Field(field) => match record.value(field)? {
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
            From::Name => evaluate::Value::Text(record.event.class().name().as_bytes()),
            From::Cpu => evaluate::Value::Integer(record.event.packet().cpu?.into()),
            From::LogLevel => evaluate::Value::Integer(record.event.class().loglevel()?.into()),
            From::Number(Number::Integer(value)) => evaluate::Value::Integer(*value),
            From::Number(Number::Real(value)) => evaluate::Value::Real(*value),
            From::Derived(word) => match record.derived(*word)? {
                DerivedValue::Integer(value) => evaluate::Value::Integer(value.into()),
                DerivedValue::Text(text) => evaluate::Value::Text(text),
            },
        };
        value.masked(self.mask)
    }

    /// Returns the kind of the value, as far as the class determines it.
    fn kind(&self) -> Option<FieldKind> {
        let kind = match &self.from {
            From::Field(field) => field.info().kind,
            From::Name => FieldKind::Text,
            From::Cpu | From::LogLevel | From::Number(Number::Integer(_)) => FieldKind::Integer,
            From::Number(Number::Real(_)) => FieldKind::Real,
            From::Derived(word) if word.is_text() => FieldKind::Text,
            From::Derived(_) => FieldKind::Integer,
        };
        (self.mask.is_none() || kind == FieldKind::Integer).then_some(kind)
    }
}

/// Values that are the same for all records of a class.
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
                None => match DerivedWord::of(path) {
                    Some(word) => {
                        FieldTestNode::Leaf(FieldTest::HasDerived { word, outside: negated })
                    }
                    None => FieldTestNode::certain(negated),
                },
            },
            Expr::Compare(Comparison { left, right: Operand::Literal(_), .. })
            | Expr::In(left, _)
                if of_class(left) =>
            {
                // An unknown value makes neither the condition nor its negation true.
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

/// The compiler of the terms in braces that follow a term of the class.
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

/// Unwraps a result that cannot be an error.
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
            Subject::Field(path) => match self.find(path) {
                Some(field) => From::Field(field),
                None => From::Derived(DerivedWord::of(path)?),
            },
        };
        Some(ValueSource { from, mask: term.mask })
    }

    fn find(&self, path: &Path) -> Option<FieldRef> {
        let name = below_root(path);
        let scopes: &[Scope] = match path.root {
            Root::Any => {
                let found = self.class.find(&name);
                return found.or_else(|| self.thread_name(path));
            }
            Root::Payload => &[Scope::Payload],
            Root::Context => &[Scope::SpecificContext, Scope::CommonContext],
            Root::Packet => &[Scope::PacketContext],
            Root::Header => &[Scope::EventHeader, Scope::PacketHeader],
        };
        let found = scopes.iter().find_map(|scope| self.class.find_in(*scope, &name));
        found.or_else(|| self.thread_name(path))
    }

    /// Finds the context field with the thread's name that records of LTTng have.
    fn thread_name(&self, path: &Path) -> Option<FieldRef> {
        DerivedWord::of(path).filter(|word| *word == DerivedWord::Comm)?;
        let scopes = [Scope::SpecificContext, Scope::CommonContext];
        scopes.iter().find_map(|scope| self.class.find_in(*scope, "procname"))
    }
}

/// Returns whether the value is the same for all records of a class.
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

/// Compiles a comparison with text, in which an enumeration's labels stand for their values.
fn text(left: ValueSource, pattern: &Pattern, outside: bool) -> FieldTestNode {
    if left.mask.is_some() {
        return FieldTestNode::Never;
    }
    let field = match &left.from {
        From::Field(field) => field,
        From::Derived(word) if word.is_text() => {
            let (word, pattern) = (*word, pattern.clone());
            return FieldTestNode::Leaf(FieldTest::DerivedText { word, pattern, outside });
        }
        _ => return FieldTestNode::Never,
    };
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
            // None of the bits is set; or, with `outside`, at least one is.
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

/// Makes the test whether a value has one of the flags, or, with `outside`, none of them.
fn flags(field: &FieldRef, labels: impl Iterator<Item = u64>, outside: bool) -> FieldTestNode {
    let Some(flags) = field.info().flags else { return FieldTestNode::Never };
    let node = |label: u64| {
        let (field, mask) = (field.clone(), flags.mask(label));
        Ok(FieldTestNode::Leaf(FieldTest::Bits { field, mask, from: label, to: label, outside }))
    };
    sure(FieldTestNode::join(outside, labels.map(node)))
}

/// Makes the test whether the integer is in one of the spans, or, with `outside`, in none of them.
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
    // A span that has none of the field's values becomes the empty range 1..=0.
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
