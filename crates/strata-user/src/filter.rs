//! Filters in programs: a filter becomes tests that libstrata makes before it writes a record
//! (`strata/abi/filter.h`).
//!
//! It is compiled once, for all tracepoints, also those of libraries that are loaded later: fields are named, and the
//! program finds them among those of each tracepoint, as it knows best which these are. So is what they are: a number
//! is compared in three ways, of which one is for what the field turns out to be.

use std::mem::size_of;

use strata_abi::filter as abi;
use strata_filter::lower::{self, Branch, IntegerSpan, Node};
use strata_filter::{
    Comparison, Expr, Filter, Item, Literal, Number, Op, Operand, Path, PathStep, Pattern,
    PatternPart, Root, Subject, Term,
};
use thiserror::Error;

/// A filter as programs get it.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Program({} bytes)", self.bytes.len())
    }
}

/// Why a filter cannot be asked in programs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FilterError {
    /// Something that is not there before a record is written.
    #[error(
        "filter: '{part}' cannot be decided in applications: packets and their headers are made later. Leave this \
         part out, and give it to `strata view -f` afterwards"
    )]
    NotYet {
        /// The condition, as the filter has it.
        part: String,
    },
    /// A name or a pattern is too long.
    #[error(
        "filter: a name or a pattern of '{part}' has {found} bytes, limit {} in applications. Shorten it, or give \
         this part to `strata view -f` afterwards", abi::TEXT_MAX
    )]
    TooLong {
        /// The condition, as the filter has it.
        part: String,
        /// Its bytes.
        found: usize,
    },
    /// More than there is room for.
    #[error(
        "filter: {nr_tests} comparisons take {found} bytes in applications, limit {}. Use ranges or patterns, or \
         give a part of it to `strata view -f` afterwards", abi::BYTES
    )]
    TooLarge {
        /// Comparisons.
        nr_tests: usize,
        /// What they take.
        found: usize,
    },
}

impl Program {
    /// The filter for programs. `Never`: no event of any program passes; `Always`: all do.
    ///
    /// # Errors
    /// What cannot be told in a program, if the rest does not decide already.
    pub fn compile(filter: &Filter) -> Result<Compiled, FilterError> {
        Ok(match lower::lower(filter.expr(), &ProgramCompiler)? {
            Node::Never => Compiled::Never,
            Node::Always => Compiled::Always,
            node => Compiled::Tests(emit(node)?),
        })
    }

    /// That selects no event.
    #[must_use]
    pub fn nothing() -> Program {
        let (yes, no) = (abi::REJECT, abi::REJECT);
        let (kind, left) = (abi::HAS, abi::Term { subject: abi::NAME, ..Default::default() });
        let mut test = Vec::new();
        put_test(&mut test, &abi::Test { kind, yes, no, left, ..Default::default() });
        Program { bytes: with_head(1, test) }
    }

    /// As it lies in the shared memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a filter is for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// No event passes.
    Never,
    /// All events pass.
    Always,
    /// Those that pass the tests.
    Tests(Program),
}

/// A test that is not yet in its place.
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

/// One side of a comparison.
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

/// `None`: no event of a program has it.
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
                // No array has so many elements that this is one of them.
                [PathStep::Member(name), PathStep::Index(index)] if *index < abi::WHOLE => {
                    (name, *index)
                }
                // Fields of programs are no structures, and their elements neither.
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

/// Something with a constant.
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
        // Text is not less or greater, nor are some bits of it.
        Literal::Text(_) if op.is_order() || left.term.mask != 0 => Ok(Node::Never),
        Literal::Text(pattern) => {
            let text = escaped(pattern);
            let text_bytes = text_bytes(&text, part)?;
            let term = abi::Term { text_bytes, ..Default::default() };
            Ok(leaf(abi::TEXT, 0, negated, left, Side { term, text }))
        }
    }
}

/// A pattern as `strata/abi/rule.h` has it.
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

/// Numbers, of each kind that a field can be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberRange {
    integers: IntegerSpan,
    low: f64,
    high: f64,
}

impl NumberRange {
    /// The numbers of which `op number` is true; of `!=`, those of which it is not.
    fn of(op: Op, number: Number) -> NumberRange {
        // The greatest real that is not above the number, and the least that is not below.
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

/// The reals next to an integer: both are it if it is one.
fn around(integer: i128) -> (f64, f64) {
    let near = integer as f64;
    match Number::Real(near).order(Number::Integer(integer)) {
        Some(std::cmp::Ordering::Less) => (near, above(near)),
        Some(std::cmp::Ordering::Greater) => (below(near), near),
        _ => (near, near),
    }
}

/// The next greater number.
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

/// That a number is in the range, whatever kind it is of.
fn number(left: Side, range: &NumberRange, negated: bool) -> Node<UnplacedTest> {
    let (first, last) = range.integers;
    // A span that no value is in becomes 1..=0.
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

/// The condition as it is written, not too long for a message.
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
    Ok(Program { bytes: with_head(nr_tests as u32, tests) })
}

/// Behind what says how much it is: less than 4 GiB.
fn with_head(nr_tests: u32, rest: Vec<u8>) -> Vec<u8> {
    let found = (size_of::<abi::Filter>() + rest.len()) as u32;
    let head = [abi::MAGIC, abi::VERSION, found, nr_tests];
    head.into_iter().flat_map(u32::to_ne_bytes).chain(rest).collect()
}

/// Names and patterns, each once.
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
        // Filters are at most 16 KiB of text; what they take then, emit() compares.
        (self.begin + at) as u32
    }
}

fn target(target: Branch) -> u16 {
    match target {
        Branch::Pass => abi::PASS,
        Branch::Reject => abi::REJECT,
        // What is beyond u16 is too many tests.
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
