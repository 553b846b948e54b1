//! Lowers a filter's expression to the condition that remains to be tested for one event.

use strata_abi::kernel::{Test, TESTS_MAX};
use strata_filter::evaluate::{self, Fields, Value};
use strata_filter::lower::{self, IntegerSpan};
use strata_filter::{
    Comparison, Expr, Item, Literal, Op, Operand, Path, Pattern, PatternPart, Subject, Term,
};
use strata_model::Flags;

use super::emit::{self, TestNode};
use super::ranges::TestedInteger;
use super::resolve::{self, FoundName, ValueLabels};
use super::{cgroup, Candidate, FilterError, Groups, Unsupported};

/// Reduces the filter's expression to tests for one event. `name` is the event's recorded name.
pub(super) fn lower(
    expr: &Expr,
    (candidate, name): (&Candidate<'_>, &str),
    groups: Groups,
) -> Result<TestNode, FilterError> {
    lower::lower(expr, &Lowering { candidate, name, groups })
}

struct Lowering<'e> {
    candidate: &'e Candidate<'e>,
    name: &'e str,
    groups: Groups,
}

/// The name under which the event is recorded. It is the only value that all records of the event share.
struct OfEvent<'e>(&'e str);

impl Fields for OfEvent<'_> {
    fn name(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn field(&self, _: &Path) -> Option<Value<'_>> {
        None
    }
}

/// One comparison of a field with constants.
struct ComparisonLeaf<'f> {
    /// The whole comparison, for messages.
    expr: &'f Expr,
    /// True if the comparison is negated.
    negated: bool,
}

impl lower::Compiler for Lowering<'_> {
    type Leaf = emit::TestLeaf;
    type Error = FilterError;

    fn condition(&self, expr: &Expr, negated: bool) -> Result<TestNode, FilterError> {
        let leaf = ComparisonLeaf { expr, negated };
        match expr {
            Expr::Has(path) => self.has(path, &leaf),
            Expr::Compare(comparison) => self.comparison(comparison, &leaf),
            Expr::In(term, items) => self.set(term, items, &leaf),
            Expr::And(_) | Expr::Or(_) | Expr::Not(_) => lower::lower(expr, self),
        }
    }
}

/// Lowers the comparison of a term with a list in braces.
struct OfTerm<'s> {
    lowering: &'s Lowering<'s>,
    found: &'s FoundName<'s>,
    term: &'s Term,
    leaf: &'s ComparisonLeaf<'s>,
}

impl lower::Set for OfTerm<'_> {
    type Leaf = emit::TestLeaf;
    type Error = FilterError;

    fn is_integer(&self) -> bool {
        self.found.integer(self.term.mask).is_some()
    }

    fn labelled(&self, literal: &Literal) -> Option<Vec<IntegerSpan>> {
        match (literal, self.found.labels(self.term)) {
            (Literal::Text(pattern), Some(labels)) if labels.flags.is_none() => {
                Some(labels.values(pattern))
            }
            _ => None,
        }
    }

    fn one(&self, op: Op, literal: &Literal) -> Result<TestNode, FilterError> {
        self.lowering.literal(self.found, self.term, (op, literal), self.leaf)
    }

    fn among(&self, spans: Vec<IntegerSpan>) -> Result<TestNode, FilterError> {
        match self.found.integer(self.term.mask) {
            Some(integer) => self.lowering.among(&integer, spans, self.leaf.negated),
            None => Ok(TestNode::Never),
        }
    }
}

impl Lowering<'_> {
    fn has(&self, path: &Path, leaf: &ComparisonLeaf<'_>) -> Result<TestNode, FilterError> {
        match resolve::field(path, self.candidate) {
            FoundName::NotYet => Err(self.unsupported(leaf, Unsupported::NotYet)),
            // How long a sequence is is known in the record only.
            FoundName::Number(why) if path.steps.len() > 1 && why == Unsupported::Place => {
                Err(self.unsupported(leaf, why))
            }
            found => Ok(TestNode::certain((found != FoundName::Absent) != leaf.negated)),
        }
    }

    fn comparison(
        &self,
        Comparison { left, op, right }: &Comparison,
        leaf: &ComparisonLeaf<'_>,
    ) -> Result<TestNode, FilterError> {
        match right {
            Operand::Term(right) => self.pair(left, right, *op, leaf),
            Operand::Literal(literal) => match self.find(left) {
                FoundName::OfEvent => Ok(self.of_event(leaf)),
                found => self.literal(&found, left, (*op, literal), leaf),
            },
        }
    }

    /// Decides a comparison of a value that is the same in all records of the event.
    fn of_event(&self, leaf: &ComparisonLeaf<'_>) -> TestNode {
        let value = evaluate::evaluate(leaf.expr, &OfEvent(self.name));
        TestNode::certain(value == Some(!leaf.negated))
    }

    /// Lowers a set of items to the same condition as comparisons with each item, but tests all numbers at once.
    fn set(
        &self,
        term: &Term,
        items: &[Item],
        leaf: &ComparisonLeaf<'_>,
    ) -> Result<TestNode, FilterError> {
        let found = self.find(term);
        if found == FoundName::OfEvent {
            return Ok(self.of_event(leaf));
        }
        lower::set(items, leaf.negated, &OfTerm { lowering: self, found: &found, term, leaf })
    }

    /// Lowers a comparison of a field with a constant.
    fn literal(
        &self,
        found: &FoundName<'_>,
        term: &Term,
        (op, literal): (Op, &Literal),
        leaf: &ComparisonLeaf<'_>,
    ) -> Result<TestNode, FilterError> {
        let outside = leaf.negated != (op == Op::NotEqual);
        match (literal, found) {
            (_, FoundName::NotYet) => Err(self.unsupported(leaf, Unsupported::NotYet)),
            (Literal::Number(number), FoundName::Integer { .. } | FoundName::Cgroup(_)) => {
                match found.integer(term.mask) {
                    Some(integer) => self.among(&integer, vec![lower::span(op, *number)], outside),
                    None => Ok(TestNode::Never),
                }
            }
            (Literal::Number(_), FoundName::Number(why)) => match (why, term.mask) {
                (Unsupported::Real, Some(_)) => Ok(TestNode::Never),
                _ => Err(self.unsupported(leaf, *why)),
            },
            // Neither equal nor different, and text is not less or greater.
            (Literal::Text(_), _) if term.mask.is_some() || op.is_order() => Ok(TestNode::Never),
            (Literal::Text(pattern), FoundName::Integer { integer, labels: Some(labels) }) => {
                match labels.flags {
                    Some(flags) => self.flags(integer, flags, labels.values(pattern), outside),
                    None => self.among(integer, labels.values(pattern), outside),
                }
            }
            (Literal::Text(pattern), FoundName::Cgroup(integer)) => {
                let Some(path) = pattern.exact() else {
                    return Err(self.unsupported(leaf, Unsupported::CgroupPattern));
                };
                let id = match cgroup::id_of_called(path, || part(leaf.expr)) {
                    Err(_) if self.groups == Groups::MayBeGone => {
                        return Ok(TestNode::certain(outside));
                    }
                    found => i128::from(found?),
                };
                self.among(integer, vec![(id, id)], outside)
            }
            (Literal::Text(pattern), FoundName::Chars { test, limit }) => {
                self.chars(*test, *limit, (term, pattern), outside, leaf)
            }
            (Literal::Text(_), FoundName::Text) => Err(self.unsupported(leaf, Unsupported::Text)),
            _ => Ok(TestNode::Never),
        }
    }

    /// Lowers a comparison of text, which ends with a NUL unless it has the greatest possible length.
    fn chars(
        &self,
        test: Test,
        limit: usize,
        (term, pattern): (&Term, &Pattern),
        outside: bool,
        leaf: &ComparisonLeaf<'_>,
    ) -> Result<TestNode, FilterError> {
        let (text, is_whole) = match pattern.parts.as_slice() {
            [] => (&[][..], true),
            [PatternPart::Text(text)] => (text.as_slice(), true),
            [PatternPart::Text(text), PatternPart::Any] => (text.as_slice(), false),
            [PatternPart::Any] => return Ok(TestNode::certain(!outside)),
            _ => return Err(self.unsupported(leaf, Unsupported::Pattern)),
        };
        if text.len() > limit {
            return Err(FilterError::TextTooLong {
                part: part(leaf.expr),
                event: self.name.to_string(),
                field: term.subject.to_string(),
                bytes: text.len(),
                limit,
            });
        }
        let (mut bytes, mut mask) = ([0_u8; 16], [0_u8; 16]);
        let nr_compared = text.len() + usize::from(is_whole && text.len() < limit);
        if nr_compared > bytes.len() {
            return Err(self.unsupported(leaf, Unsupported::LongText));
        }
        mask.iter_mut().take(nr_compared).for_each(|byte| *byte = 0xff);
        bytes.iter_mut().zip(text).for_each(|(byte, wanted)| *byte = *wanted);
        let ((value, value_high), (mask, mask_high)) = (words(bytes), words(mask));
        Ok(emit::node_of(Test { mask, value, mask_high, value_high, ..test }, outside))
    }

    /// Lowers a comparison of two fields. The result is never true if the fields cannot be compared.
    fn pair(
        &self,
        left: &Term,
        right: &Term,
        op: Op,
        leaf: &ComparisonLeaf<'_>,
    ) -> Result<TestNode, FilterError> {
        let found = [self.find(left), self.find(right)];
        if found.iter().all(|found| *found == FoundName::OfEvent) {
            return Ok(self.of_event(leaf));
        }
        match [kind(&found[0], left), kind(&found[1], right)] {
            [OperandKind::Nothing, _] | [_, OperandKind::Nothing] => Ok(TestNode::Never),
            [OperandKind::Number, OperandKind::Text] | [OperandKind::Text, OperandKind::Number] => {
                Ok(TestNode::Never)
            }
            [OperandKind::Text, OperandKind::Text] if op.is_order() => Ok(TestNode::Never),
            _ => Err(self.unsupported(leaf, Unsupported::TwoFields)),
        }
    }

    fn find(&self, term: &Term) -> FoundName<'_> {
        resolve::subject(&term.subject, self.candidate)
    }

    fn among(
        &self,
        integer: &TestedInteger,
        spans: Vec<IntegerSpan>,
        outside: bool,
    ) -> Result<TestNode, FilterError> {
        integer.among(spans, outside).map_err(|found| {
            debug_assert!(found > TESTS_MAX);
            FilterError::TooManyTests { event: self.name.to_string(), found }
        })
    }

    /// Lowers the test whether one of the flags is set, or none of them.
    fn flags(
        &self,
        integer: &TestedInteger,
        flags: Flags,
        labels: Vec<IntegerSpan>,
        outside: bool,
    ) -> Result<TestNode, FilterError> {
        let node = |(label, _): IntegerSpan| {
            // In two's complement of 64 bits, as what a mask leaves.
            let label = label as u64;
            let value = i128::from(label);
            self.among(&integer.masked(flags.mask(label)), vec![(value, value)], outside)
        };
        let labels = labels.into_iter().filter(|(from, to)| from == to);
        TestNode::join(outside, labels.map(node))
    }

    fn unsupported(&self, leaf: &ComparisonLeaf<'_>, why: Unsupported) -> FilterError {
        FilterError::Unsupported { part: part(leaf.expr), event: self.name.to_string(), why }
    }
}

impl FoundName<'_> {
    /// Returns the value as an integer, masked if only some bits count.
    fn integer(&self, mask: Option<u64>) -> Option<TestedInteger> {
        match self {
            FoundName::Integer { integer, .. } | FoundName::Cgroup(integer) => {
                Some(mask.map_or(*integer, |mask| integer.masked(mask)))
            }
            _ => None,
        }
    }
}

impl<'e> FoundName<'e> {
    /// Returns the labels of the value, if it can be compared with labels.
    fn labels(&self, term: &Term) -> Option<ValueLabels<'e>> {
        match self {
            FoundName::Integer { labels, .. } if term.mask.is_none() => *labels,
            _ => None,
        }
    }
}

impl ValueLabels<'_> {
    /// Returns the values whose labels match `pattern`.
    fn values(&self, pattern: &Pattern) -> Vec<IntegerSpan> {
        let labels = self.labels.iter();
        let labels = labels.filter(|label| pattern.matches(label.label.as_bytes()));
        labels.map(|label| label.values(&self.of)).collect()
    }
}

enum OperandKind {
    /// The field does not exist, or is neither a number nor a text.
    Nothing,
    Number,
    Text,
    /// The operand may be a number or a text, which only the other operand decides.
    Any,
}

fn kind(found: &FoundName<'_>, term: &Term) -> OperandKind {
    match (found, term.mask, &term.subject) {
        (FoundName::NotYet, ..) => OperandKind::Any,
        (FoundName::Integer { .. } | FoundName::Cgroup(_), ..) => OperandKind::Number,
        (FoundName::Number(Unsupported::Real), Some(_), _) => OperandKind::Nothing,
        (FoundName::Number(_), ..) => OperandKind::Number,
        (_, Some(_), _) => OperandKind::Nothing,
        (FoundName::Chars { .. } | FoundName::Text, ..) => OperandKind::Text,
        (FoundName::OfEvent, _, Subject::Name) => OperandKind::Text,
        (FoundName::OfEvent | FoundName::Absent | FoundName::Other, ..) => OperandKind::Nothing,
    }
}

fn words(bytes: [u8; 16]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes(rest))
}

/// Returns the condition as it is written, shortened for a message.
fn part(expr: &Expr) -> String {
    const CHARACTERS: usize = 60;
    let text = expr.to_string();
    match text.char_indices().nth(CHARACTERS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
