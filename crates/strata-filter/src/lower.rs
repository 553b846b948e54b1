//! Simplifies expressions before they are evaluated. All evaluators of filters share this: readers of traces, the
//! kernel's programs, applications.
//!
//! A record is selected only if the filter is true, not if it is unknown. So negations are moved down to the
//! comparisons, and each comparison is then either certainly true or does not count: evaluating a record needs no
//! three-valued logic. Constant parts are folded.

use crate::expr::{Expr, Item, Literal, Op};
use crate::number::Number;

/// A condition whose leaves are tests of some kind. It is true or false: an unknown value does not select.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<L> {
    /// The condition is never true.
    Never,
    /// The condition is always true.
    Always,
    /// A conjunction of nodes.
    All(Vec<Node<L>>),
    /// A disjunction of nodes.
    Any(Vec<Node<L>>),
    /// A test of the record.
    Leaf(L),
}

/// Translates comparisons into tests for one evaluator.
pub trait Compiler {
    /// A test that the evaluator can make.
    type Leaf;
    /// Reason why the evaluator cannot test a condition.
    type Error;

    /// Makes the test that a comparison, a set or a `has()` is true, or, with `negated`, that it is false. Neither
    /// holds for an unknown value.
    ///
    /// # Errors
    /// The evaluator cannot test the condition.
    fn condition(&self, expr: &Expr, negated: bool) -> Result<Node<Self::Leaf>, Self::Error>;
}

/// Simplifies an expression.
///
/// # Errors
/// The first error of a condition that cannot be tested, unless the other conditions decide already.
pub fn lower<C: Compiler>(expr: &Expr, compiler: &C) -> Result<Node<C::Leaf>, C::Error> {
    signed(expr, false, compiler)
}

fn signed<C: Compiler>(
    expr: &Expr,
    negated: bool,
    compiler: &C,
) -> Result<Node<C::Leaf>, C::Error> {
    match expr {
        Expr::And(parts) | Expr::Or(parts) => {
            let all = matches!(expr, Expr::And(_)) != negated;
            Node::join(all, parts.iter().map(|part| signed(part, negated, compiler)))
        }
        Expr::Not(inner) => signed(inner, !negated, compiler),
        Expr::Has(_) | Expr::Compare(_) | Expr::In(..) => compiler.condition(expr, negated),
    }
}

impl<L> Node<L> {
    /// Makes a node that is true for every record, or for none.
    pub fn certain(value: bool) -> Node<L> {
        if value {
            Node::Always
        } else {
            Node::Never
        }
    }

    /// Joins parts to a conjunction (`all`) or a disjunction. Parts that are certain are folded.
    ///
    /// # Errors
    /// The first error of a part, unless another part decides.
    pub fn join<E>(
        all: bool,
        parts: impl Iterator<Item = Result<Node<L>, E>>,
    ) -> Result<Node<L>, E> {
        let (mut left, mut error) = (Vec::new(), None);
        for part in parts {
            match (part, all) {
                (Ok(Node::Never), true) => return Ok(Node::Never),
                (Ok(Node::Always), false) => return Ok(Node::Always),
                (Ok(Node::Always), true) | (Ok(Node::Never), false) => (),
                (Ok(node), _) => left.push(node),
                (Err(found), _) => error = error.or(Some(found)),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        Ok(match left.len() {
            0 => Node::certain(all),
            1 => left.swap_remove(0),
            _ if all => Node::All(left),
            _ => Node::Any(left),
        })
    }

    /// Splits the node into conditions that must all hold.
    pub fn into_conditions(self) -> Vec<Node<L>> {
        match self {
            Node::All(parts) => parts.into_iter().flat_map(Node::into_conditions).collect(),
            node => vec![node],
        }
    }

    /// Returns whether `is` holds for all tests of the node.
    pub fn all_leaves(&self, is: &impl Fn(&L) -> bool) -> bool {
        match self {
            Node::Never | Node::Always => true,
            Node::All(parts) | Node::Any(parts) => parts.iter().all(|part| part.all_leaves(is)),
            Node::Leaf(leaf) => is(leaf),
        }
    }

    /// Returns the number of tests in the node.
    pub fn nr_leaves(&self) -> usize {
        match self {
            Node::Never | Node::Always => 0,
            Node::All(parts) | Node::Any(parts) => parts.iter().map(Node::nr_leaves).sum(),
            Node::Leaf(_) => 1,
        }
    }
}

/// Target of a test's branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// The record passes the filter.
    Pass,
    /// The record does not pass the filter.
    Reject,
    /// The test with this index, which is greater than that of the test that branches.
    Test(usize),
}

/// A test of a [`graph`], with its two branches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jump<L> {
    /// The test to make.
    pub leaf: L,
    /// Branch if the test holds.
    pub yes: Branch,
    /// Branch if the test does not hold.
    pub no: Branch,
}

/// Converts a condition to a list of tests that branch only forwards, beginning with the first one. A condition without
/// tests yields an empty list.
pub fn graph<L>(node: Node<L>) -> Vec<Jump<L>> {
    let nr = node.nr_leaves();
    let mut grapher = Grapher { nr, jumps: Vec::with_capacity(nr) };
    grapher.node(node, Branch::Pass, Branch::Reject);
    grapher.jumps.reverse();
    grapher.jumps
}

/// Builds the graph from the last test to the first, so that the targets of a test exist already.
struct Grapher<L> {
    nr: usize,
    jumps: Vec<Jump<L>>,
}

impl<L> Grapher<L> {
    /// Adds a condition. Returns the branch that leads to its first test.
    fn node(&mut self, node: Node<L>, yes: Branch, no: Branch) -> Branch {
        match node {
            Node::Always => yes,
            Node::Never => no,
            Node::All(parts) => {
                parts.into_iter().rev().fold(yes, |next, part| self.node(part, next, no))
            }
            Node::Any(parts) => {
                parts.into_iter().rev().fold(no, |next, part| self.node(part, yes, next))
            }
            Node::Leaf(leaf) => {
                self.jumps.push(Jump { leaf, yes, no });
                Branch::Test(self.nr - self.jumps.len())
            }
        }
    }
}

/// First and last integer of a span.
pub type IntegerSpan = (i128, i128);

/// Returns the span of integers for which `op number` is true; for `!=`, the span for which it is false.
pub fn span(op: Op, number: Number) -> IntegerSpan {
    // The greatest integer not above the number, and the least not below it. The casts saturate beyond all integers of
    // 64 bits.
    let (floor, ceiling) = match number {
        Number::Integer(value) => (value, value),
        Number::Real(value) => (value.floor() as i128, value.ceil() as i128),
    };
    match op {
        // No integer equals a number with a fraction: the span is empty.
        Op::Equal | Op::NotEqual => (ceiling, floor),
        Op::Less => (i128::MIN, ceiling.saturating_sub(1)),
        Op::LessOrEqual => (i128::MIN, floor),
        Op::Greater => (floor.saturating_add(1), i128::MAX),
        Op::GreaterOrEqual => (ceiling, i128::MAX),
    }
}

/// Merges spans into sorted, disjoint and non-empty spans of the same integers.
pub fn apart(mut spans: Vec<IntegerSpan>) -> Vec<IntegerSpan> {
    spans.retain(|(from, to)| from <= to);
    spans.sort_unstable();
    let mut apart: Vec<IntegerSpan> = Vec::new();
    for (from, to) in spans {
        match apart.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => apart.push((from, to)),
        }
    }
    apart
}

/// Makes the tests for the items of a set.
pub trait Set {
    /// A test that the evaluator can make.
    type Leaf;
    /// Reason why the evaluator cannot test an item.
    type Error;

    /// Returns whether the compared value is an integer.
    fn is_integer(&self) -> bool;

    /// Returns the integers that a literal other than a number stands for, if the compared field is an integer with
    /// labels.
    fn labelled(&self, literal: &Literal) -> Option<Vec<IntegerSpan>> {
        let _ = literal;
        None
    }

    /// Makes the test of the comparison with one constant.
    ///
    /// # Errors
    /// The evaluator cannot make the comparison.
    fn one(&self, op: Op, literal: &Literal) -> Result<Node<Self::Leaf>, Self::Error>;

    /// Makes the test that the integer is in one of the spans, or, if the set is negated, in none.
    ///
    /// # Errors
    /// The evaluator cannot make the test.
    fn among(&self, spans: Vec<IntegerSpan>) -> Result<Node<Self::Leaf>, Self::Error>;
}

/// Lowers a set like comparisons with each item, but with all integers in one test.
///
/// # Errors
/// The first error of an item that cannot be tested, unless the other items decide already.
pub fn set<S: Set>(items: &[Item], negated: bool, of: &S) -> Result<Node<S::Leaf>, S::Error> {
    let (mut spans, mut nodes) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::One(Literal::Number(number)) if of.is_integer() => {
                spans.push(span(Op::Equal, *number));
            }
            Item::Range(from, to) if of.is_integer() => {
                let from = span(Op::GreaterOrEqual, *from).0;
                spans.push((from, span(Op::LessOrEqual, *to).1));
            }
            Item::One(literal) => match of.labelled(literal) {
                Some(more) => spans.extend(more),
                None => nodes.push(of.one(Op::Equal, literal)),
            },
            Item::Range(from, to) => {
                let ends = [(Op::GreaterOrEqual, from), (Op::LessOrEqual, to)];
                let ends = ends.into_iter().map(|(op, at)| of.one(op, &Literal::Number(*at)));
                nodes.push(Node::join(!negated, ends));
            }
        }
    }
    if !spans.is_empty() {
        nodes.push(of.among(spans));
    }
    Node::join(negated, nodes.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Filter;

    /// A compiler that makes each comparison a test of its own text; `x` cannot be compared.
    struct Texts;

    impl Compiler for Texts {
        type Leaf = String;
        type Error = &'static str;

        fn condition(&self, expr: &Expr, negated: bool) -> Result<Node<String>, &'static str> {
            match expr.to_string().as_str() {
                "always" => Ok(Node::certain(!negated)),
                "never" => Ok(Node::certain(negated)),
                "x" => Err("x"),
                text => Ok(Node::Leaf(format!("{}{text}", if negated { "!" } else { "" }))),
            }
        }
    }

    fn lowered(text: &str) -> Result<Node<String>, &'static str> {
        lower(Filter::parse(text).unwrap().expr(), &Texts)
    }

    #[test]
    fn lower_moves_negations_to_the_leaves_and_folds_what_is_certain() {
        let leaf = |text: &str| Node::Leaf(text.to_string());
        assert_eq!(lowered("!(a && !b)"), Ok(Node::Any([leaf("!a"), leaf("b")].into())));
        assert_eq!(lowered("a && (always || b)"), Ok(leaf("a")));
        assert_eq!(lowered("!(a || always)"), Ok(Node::Never));
        assert_eq!(lowered("never || !never"), Ok(Node::Always));
    }

    #[test]
    fn error_of_a_part_counts_only_if_no_other_decides() {
        assert_eq!(lowered("x && never"), Ok(Node::Never));
        assert_eq!(lowered("never && x"), Ok(Node::Never));
        assert_eq!(lowered("x || always"), Ok(Node::Always));
        assert_eq!(lowered("x && a"), Err("x"));
    }

    #[test]
    fn graph_leads_forwards_to_the_same_answer() {
        let texts =
            ["a && b", "a || b && (c || !d)", "!(a && b) || c", "(a || b) && (c || d) && e"];
        for text in texts {
            let node = lowered(text).unwrap();
            let jumps = graph(node.clone());
            assert_eq!(jumps.len(), node.nr_leaves());
            for bits in 0..32_u32 {
                let holds = |leaf: &String| {
                    let letter = leaf.trim_start_matches('!').as_bytes()[0] - b'a';
                    (bits >> letter & 1 == 1) != leaf.starts_with('!')
                };
                let mut at = Branch::Test(0);
                while let Branch::Test(index) = at {
                    let jump = &jumps[index];
                    at = if holds(&jump.leaf) { jump.yes } else { jump.no };
                    assert!(!matches!(at, Branch::Test(next) if next <= index), "{text}");
                }
                assert_eq!(at == Branch::Pass, selects(&node, &holds), "{text} {bits:b}");
            }
        }
        assert!(graph(Node::<()>::Always).is_empty());
    }

    fn selects(node: &Node<String>, holds: &impl Fn(&String) -> bool) -> bool {
        match node {
            Node::Always => true,
            Node::Never => false,
            Node::All(parts) => parts.iter().all(|part| selects(part, holds)),
            Node::Any(parts) => parts.iter().any(|part| selects(part, holds)),
            Node::Leaf(leaf) => holds(leaf),
        }
    }

    #[test]
    fn spans_are_as_the_comparisons_are() {
        let numbers = [
            Number::Integer(-3),
            Number::Integer(0),
            Number::Real(-2.5),
            Number::Real(2.0),
            Number::Real(1e300),
            Number::Real(-1e300),
        ];
        for number in numbers {
            for op in [Op::Equal, Op::Less, Op::LessOrEqual, Op::Greater, Op::GreaterOrEqual] {
                let (from, to) = span(op, number);
                for value in [i128::from(i64::MIN), -4, -3, -2, 0, 1, 2, 3, i128::from(u64::MAX)] {
                    let wanted = op.holds(Number::Integer(value).order(number));
                    assert_eq!(from <= value && value <= to, wanted, "{value} {op} {number}");
                }
            }
        }
    }

    #[test]
    fn apart_joins_neighbours_and_leaves_out_what_is_empty() {
        let spans = vec![(5, 6), (1, 2), (3, 3), (9, 8), (6, 7), (20, i128::MAX), (30, 31)];
        assert_eq!(apart(spans), [(1, 3), (5, 7), (20, i128::MAX)]);
    }
}
