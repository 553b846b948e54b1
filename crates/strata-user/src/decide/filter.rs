//! Filters in programs: compiles a filter to tests that libstrata makes before it writes a record
//! (`strata/abi/filter.h`).
//!
//! ```text
//! Filter ── strata_filter::lower ── Node<UnplacedTest> ── emit(): each test gets a place ── Program: bytes
//!                                     │                                                        └─ shared memory of a process
//!                                     └─ Compiled::Always or ::Never, if no test is left
//! ```
//!
//! A filter is compiled once for all tracepoints, including those of libraries that are loaded later. Fields are
//! given by name, and the program looks them up among the fields of each tracepoint. The type of a field is not known
//! here either: a comparison with a number is compiled for all three kinds of numbers ([`NumberRange`]), and the
//! program uses the one for the field's type.
//!
//! A test leads to one of two later tests, or to "pass" or "reject"; so a program evaluates each test at most once,
//! and a filter ends however it was made. The process checks this again before it uses the filter.
//!
//! Some values do not exist before a record is written. If the rest of the filter does not decide without such a
//! value, compiling fails with [`FilterError`], which names the condition. `runtime.c` is libstrata's side of it, for
//! tests that compare both.

use std::mem::size_of;

use strata_abi::filter as abi;
use strata_filter::lower::{self, Branch, IntegerSpan, Node};
use strata_filter::{
    Comparison, Expr, Filter, Item, Literal, Number, Op, Operand, Path, PathStep, Pattern,
    PatternPart, Root, Subject, Term,
};
use thiserror::Error;

/// A filter in the encoding that programs evaluate.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    bytes: Vec<u8>,
    asks_group: bool,
    asks_duration: bool,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Program({} bytes)", self.bytes.len())
    }
}

/// Why a filter cannot be evaluated in programs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FilterError {
    /// The filter uses a value that does not exist before the record is written.
    #[error(
        "filter: '{part}' cannot be decided in applications: packets and their headers are made later. Leave this \
         part out, and give it to `strata view -f` afterwards"
    )]
    NotYet {
        /// The condition, as in the filter's text.
        part: String,
    },
    /// A name or a pattern is too long.
    #[error(
        "filter: a name or a pattern of '{part}' has {found} bytes, limit {} in applications. Shorten it, or give \
         this part to `strata view -f` afterwards", abi::TEXT_MAX
    )]
    TooLong {
        /// The condition, as in the filter's text.
        part: String,
        found: usize,
    },
    /// The filter takes more bytes than the shared memory has for it.
    #[error(
        "filter: {nr_tests} comparisons take {found} bytes in applications, limit {}. Use ranges or patterns, or \
         give a part of it to `strata view -f` afterwards", abi::BYTES
    )]
    TooLarge { nr_tests: usize, found: usize },
}

impl Program {
    /// Compiles a filter for programs. Returns `Never` if no event of any program passes, and `Always` if every event
    /// does.
    ///
    /// # Errors
    /// A part of the filter cannot be evaluated in programs, and the rest does not decide without it.
    pub fn compile(filter: &Filter) -> Result<Compiled, FilterError> {
        Ok(match lower::lower(filter.expr(), &ProgramCompiler)? {
            Node::Never => Compiled::Never,
            Node::Always => Compiled::Always,
            node => {
                let asks_duration = filter.asks_for_duration();
                let asks_group = asks_group(filter.expr());
                Compiled::Tests(Program { asks_group, asks_duration, ..emit(node)? })
            }
        })
    }

    /// Makes a filter that selects no event.
    #[must_use]
    pub fn nothing() -> Program {
        let (yes, no) = (abi::REJECT, abi::REJECT);
        let (kind, left) = (abi::HAS, abi::Term { subject: abi::NAME, ..Default::default() });
        let mut test = Vec::new();
        put_test(&mut test, &abi::Test { kind, yes, no, left, ..Default::default() });
        Program { bytes: with_head(1, test), asks_group: false, asks_duration: false }
    }

    /// Returns whether the filter tests the process's control group, which the recorder must then keep up to date.
    pub(crate) fn asks_group(&self) -> bool {
        self.asks_group
    }

    /// Returns whether the filter tests the duration of spans. Both ends of a span are then recorded when the span
    /// ends.
    pub(crate) fn asks_duration(&self) -> bool {
        self.asks_duration
    }

    /// Encoded filter for the shared memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns whether the expression tests the process's control group.
fn asks_group(expr: &Expr) -> bool {
    let is_group = |term: &Term| match &term.subject {
        Subject::Field(Path { root: Root::Any | Root::Context, steps }) => matches!(
            steps.as_slice(),
            [PathStep::Member(name)] if ["cgroup", "container"].contains(&name.as_str())
        ),
        _ => false,
    };
    match expr {
        Expr::And(parts) | Expr::Or(parts) => parts.iter().any(asks_group),
        Expr::Not(inner) => asks_group(inner),
        Expr::Compare(Comparison { left, right, .. }) => {
            is_group(left) || matches!(right, Operand::Term(term) if is_group(term))
        }
        Expr::In(term, _) => is_group(term),
        Expr::Has(_) => false,
    }
}

/// Result of compiling a filter for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// The filter rejects every event.
    Never,
    /// The filter accepts every event.
    Always,
    /// The program tests each event.
    Tests(Program),
}

/// A test whose position in the encoded filter is not known yet.
#[derive(Clone, Debug, PartialEq)]
struct UnplacedTest {
    test: abi::Test,
    left: Vec<u8>,
    right: Vec<u8>,
}

struct ProgramCompiler;

impl lower::Compiler for ProgramCompiler {
    type Leaf = UnplacedTest;
    type Error = FilterError;

    fn condition(&self, expr: &Expr, negated: bool) -> Result<Node<UnplacedTest>, FilterError> {
        let part = || part(expr);
        match expr {
            Expr::Has(path) => {
                let subject = Subject::Field(path.clone());
                let Some(left) = term(&Term { subject, mask: None }, &part)? else {
                    return Ok(Node::certain(negated));
                };
                Ok(leaf(abi::HAS, 0, negated, left, Side::default()))
            }
            Expr::Compare(Comparison { left, op, right }) => {
                let Some(left) = term(left, &part)? else { return Ok(Node::Never) };
                match right {
                    Operand::Literal(literal) => constant(left, *op, literal, negated, &part),
                    Operand::Term(right) => Ok(match term(right, &part)? {
                        Some(right) => leaf(abi::PAIR, op_number(*op), negated, left, right),
                        None => Node::Never,
                    }),
                }
            }
            Expr::In(of, items) => {
                let Some(left) = term(of, &part)? else { return Ok(Node::Never) };
                let item = |item: &Item| match item {
                    Item::One(literal) => {
                        constant(left.clone(), Op::Equal, literal, negated, &part)
                    }
                    Item::Range(from, to) => {
                        let range = NumberRange::of(Op::GreaterOrEqual, *from);
                        let range = range.and(NumberRange::of(Op::LessOrEqual, *to));
                        Ok(number(left.clone(), &range, negated))
                    }
                };
                Node::join(negated, items.iter().map(item))
            }
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) => lower::lower(expr, self),
        }
    }
}

/// One side of a comparison, in the form that programs evaluate.
#[derive(Clone, Debug, Default)]
struct Side {
    term: abi::Term,
    text: Vec<u8>,
}

fn leaf(kind: u8, op: u8, negated: bool, left: Side, right: Side) -> Node<UnplacedTest> {
    let flags = if negated { abi::NEGATED } else { 0 };
    let test =
        abi::Test { kind, op, flags, left: left.term, right: right.term, ..Default::default() };
    Node::Leaf(UnplacedTest { test, left: left.text, right: right.text })
}

/// Compiles a term. Returns `None` if no event of a program can have its value.
fn term(term: &Term, part: &impl Fn() -> String) -> Result<Option<Side>, FilterError> {
    let (subject, text, index) = match &term.subject {
        Subject::Name => (abi::NAME, Vec::new(), abi::WHOLE),
        Subject::LogLevel => (abi::LOGLEVEL, Vec::new(), abi::WHOLE),
        Subject::Cpu => (abi::CPU, Vec::new(), abi::WHOLE),
        Subject::Field(Path { root, steps }) => {
            let subject = match root {
                Root::Any => abi::FIELD,
                Root::Payload => abi::PAYLOAD,
                Root::Context => abi::CONTEXT,
                Root::Packet | Root::Header => return Err(FilterError::NotYet { part: part() }),
            };
            let (name, index) = match steps.as_slice() {
                [PathStep::Member(name)] => (name, abi::WHOLE),
                // No array has as many elements as [`abi::WHOLE`].
                [PathStep::Member(name), PathStep::Index(index)] if *index < abi::WHOLE => {
                    (name, *index)
                }
                // Fields of programs are no structures, nor are their elements.
                _ => return Ok(None),
            };
            (subject, name.clone().into_bytes(), index)
        }
    };
    let text_bytes = text_bytes(&text, part)?;
    let mask = term.mask.unwrap_or(0);
    let term = abi::Term { subject, text_bytes, text: 0, index, mask };
    Ok(Some(Side { term, text }))
}

fn text_bytes(text: &[u8], part: &impl Fn() -> String) -> Result<u16, FilterError> {
    if text.len() > abi::TEXT_MAX as usize {
        return Err(FilterError::TooLong { part: part(), found: text.len() });
    }
    Ok(text.len() as u16)
}

/// Compiles the comparison of `left` with a constant.
fn constant(
    left: Side,
    op: Op,
    literal: &Literal,
    negated: bool,
    part: &impl Fn() -> String,
) -> Result<Node<UnplacedTest>, FilterError> {
    let negated = negated != (op == Op::NotEqual);
    match literal {
        Literal::Number(of) => Ok(number(left, &NumberRange::of(op, *of), negated)),
        // Text has no order and no bits.
        Literal::Text(_) if op.is_order() || left.term.mask != 0 => Ok(Node::Never),
        Literal::Text(pattern) => {
            let text = escaped(pattern);
            let text_bytes = text_bytes(&text, part)?;
            let term = abi::Term { text_bytes, ..Default::default() };
            Ok(leaf(abi::TEXT, 0, negated, left, Side { term, text }))
        }
    }
}

/// Returns a pattern in the syntax of `strata/abi/rule.h`.
fn escaped(pattern: &Pattern) -> Vec<u8> {
    let mut text = Vec::new();
    for part in &pattern.parts {
        match part {
            PatternPart::Any => text.push(b'*'),
            PatternPart::One => text.push(b'?'),
            PatternPart::Text(bytes) => {
                for byte in bytes {
                    if matches!(byte, b'*' | b'?' | b'\\') {
                        text.push(b'\\');
                    }
                    text.push(*byte);
                }
            }
        }
    }
    text
}

/// A range of numbers, given separately for each numeric type that a field can have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberRange {
    integers: IntegerSpan,
    low: f64,
    high: f64,
}

impl NumberRange {
    /// Returns the numbers for which `op number` is true; for `!=`, those for which it is false.
    fn of(op: Op, number: Number) -> NumberRange {
        // The greatest real number that is not above the number, and the least that is not below.
        let (floor, ceiling) = match number {
            Number::Real(value) => (value, value),
            Number::Integer(value) => around(value),
        };
        let (low, high) = match op {
            Op::Equal | Op::NotEqual => (ceiling, floor),
            Op::Less => (f64::NEG_INFINITY, below(ceiling)),
            Op::LessOrEqual => (f64::NEG_INFINITY, floor),
            Op::Greater => (above(floor), f64::INFINITY),
            Op::GreaterOrEqual => (ceiling, f64::INFINITY),
        };
        NumberRange { integers: lower::span(op, number), low, high }
    }

    fn and(self, other: NumberRange) -> NumberRange {
        let integers =
            (self.integers.0.max(other.integers.0), self.integers.1.min(other.integers.1));
        NumberRange { integers, low: self.low.max(other.low), high: self.high.min(other.high) }
    }
}

/// Returns the floating-point numbers (f64) next to an integer, below and above. Both are equal if an f64 has exactly
/// this value.
fn around(integer: i128) -> (f64, f64) {
    let near = integer as f64;
    match Number::Real(near).order(Number::Integer(integer)) {
        Some(std::cmp::Ordering::Less) => (near, above(near)),
        Some(std::cmp::Ordering::Greater) => (below(near), near),
        _ => (near, near),
    }
}

/// Returns the next greater floating-point number.
fn above(value: f64) -> f64 {
    if value == 0.0 {
        return f64::from_bits(1);
    }
    let bits = value.to_bits();
    if value.is_finite() {
        f64::from_bits(if value > 0.0 { bits + 1 } else { bits - 1 })
    } else {
        value
    }
}

fn below(value: f64) -> f64 {
    -above(-value)
}

/// Compiles the test that a number of any type is in the range.
fn number(left: Side, range: &NumberRange, negated: bool) -> Node<UnplacedTest> {
    let (first, last) = range.integers;
    // An empty range becomes 1..=0.
    let (least, greatest) = {
        let least = i64::try_from(first.max(i64::MIN.into()));
        let greatest = i64::try_from(last.min(i64::MAX.into()));
        least.ok().zip(greatest.ok()).unwrap_or((1, 0))
    };
    let (from, to) = {
        let (from, to) = (u64::try_from(first.max(0)), u64::try_from(last.min(u64::MAX.into())));
        from.ok().zip(to.ok()).unwrap_or((1, 0))
    };
    let Node::Leaf(mut it) = leaf(abi::NUMBER, 0, negated, left, Side::default()) else {
        return Node::Never;
    };
    let (low, high) = (range.low, range.high);
    it.test = abi::Test { least, greatest, from, to, low, high, ..it.test };
    Node::Leaf(it)
}

fn op_number(op: Op) -> u8 {
    match op {
        Op::Equal => abi::EQUAL,
        Op::NotEqual => abi::NOT_EQUAL,
        Op::Less => abi::LESS,
        Op::LessOrEqual => abi::LESS_OR_EQUAL,
        Op::Greater => abi::GREATER,
        Op::GreaterOrEqual => abi::GREATER_OR_EQUAL,
    }
}

/// Returns the text of the condition, shortened to fit a message.
fn part(expr: &Expr) -> String {
    const CHARACTERS: usize = 60;
    let text = expr.to_string();
    match text.char_indices().nth(CHARACTERS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

fn emit(node: Node<UnplacedTest>) -> Result<Program, FilterError> {
    let jumps = lower::graph(node);
    let (nr_tests, begin) = (jumps.len(), size_of::<abi::Filter>());
    let mut texts = Texts { begin: begin + nr_tests * size_of::<abi::Test>(), text: Vec::new() };
    let mut tests = Vec::new();
    for jump in jumps {
        let UnplacedTest { mut test, left, right } = jump.leaf;
        (test.yes, test.no) = (target(jump.yes), target(jump.no));
        test.left.text = texts.place(&left);
        test.right.text = texts.place(&right);
        put_test(&mut tests, &test);
    }
    let found = begin + tests.len() + texts.text.len();
    if found > abi::BYTES as usize || nr_tests > abi::TESTS_MAX as usize {
        return Err(FilterError::TooLarge { nr_tests, found });
    }
    tests.extend(texts.text);
    let bytes = with_head(nr_tests as u32, tests);
    Ok(Program { bytes, asks_group: false, asks_duration: false })
}

/// Prepends the head of the encoded filter, which has its size; the size must be less than 4 GiB.
fn with_head(nr_tests: u32, rest: Vec<u8>) -> Vec<u8> {
    let found = (size_of::<abi::Filter>() + rest.len()) as u32;
    let head = [abi::MAGIC, abi::VERSION, found, nr_tests];
    head.into_iter().flat_map(u32::to_ne_bytes).chain(rest).collect()
}

/// Names and patterns of the encoded filter, each stored once.
struct Texts {
    begin: usize,
    text: Vec<u8>,
}

impl Texts {
    fn place(&mut self, text: &[u8]) -> u32 {
        let known = match text {
            [] => Some(0),
            _ => self.text.windows(text.len()).position(|window| window == text),
        };
        let at = known.unwrap_or(self.text.len());
        if known.is_none() {
            self.text.extend(text);
        }
        // Filters have at most 16 KiB of text; emit() checks the encoded size.
        (self.begin + at) as u32
    }
}

fn target(target: Branch) -> u16 {
    match target {
        Branch::Pass => abi::PASS,
        Branch::Reject => abi::REJECT,
        // An index beyond u16 means too many tests, which emit() refuses.
        Branch::Test(index) => index as u16,
    }
}

fn put_term(bytes: &mut Vec<u8>, term: &abi::Term) {
    bytes.extend(term.subject.to_ne_bytes());
    bytes.extend(term.text_bytes.to_ne_bytes());
    bytes.extend(term.text.to_ne_bytes());
    bytes.extend(term.index.to_ne_bytes());
    bytes.extend(term.mask.to_ne_bytes());
}

fn put_test(bytes: &mut Vec<u8>, test: &abi::Test) {
    bytes.extend([test.kind, test.op]);
    for half in [test.flags, test.yes, test.no] {
        bytes.extend(half.to_ne_bytes());
    }
    put_term(bytes, &test.left);
    put_term(bytes, &test.right);
    bytes.extend(test.least.to_ne_bytes());
    bytes.extend(test.greatest.to_ne_bytes());
    bytes.extend(test.from.to_ne_bytes());
    bytes.extend(test.to.to_ne_bytes());
    bytes.extend(test.low.to_ne_bytes());
    bytes.extend(test.high.to_ne_bytes());
}

#[cfg(test)]
mod tests;
