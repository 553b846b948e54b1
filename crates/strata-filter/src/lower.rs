//! What is left of an expression where it is asked: the one home of what all that evaluate filters do to them
//! first (readers of traces, the kernel's programs, applications).
//!
//! Only true selects. So negations are moved down to the comparisons, of which each is then either true for
//! certain or does not count, and a record costs no three-valued logic. What is certain is folded.

use crate::expr::{Expr, Item, Literal, Op};
use crate::number::Number;

/// A condition whose leaves are tests of some kind. Unknown is not in it: it does not select.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<L> {
    /// True of no record.
    Never,
    /// True of each.
    Always,
    /// All of them.
    All(Vec<Node<L>>),
    /// One of them at least.
    Any(Vec<Node<L>>),
    /// What the test says.
    Leaf(L),
}

/// Who knows what a comparison is where it is made.
pub trait Compiler {
    /// A test.
    type Leaf;
    /// Why a comparison cannot be made there.
    type Error;

    /// That a comparison, a set or a `has()` is true, or, negated, that it is false; unknown is neither.
    ///
    /// # Errors
    /// It cannot be told there.
    fn condition(&self, expr: &Expr, negated: bool) -> Result<Node<Self::Leaf>, Self::Error>;
}

/// What is left of an expression.
///
/// # Errors
/// What cannot be told, if the rest does not decide already.
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
    /// True of each record, or of none.
    pub fn certain(value: bool) -> Node<L> {
        if value {
            Node::Always
        } else {
            Node::Never
        }
    }

    /// All of the parts, or any of them; what is certain is folded.
    ///
    /// # Errors
    /// The first of a part, if no other part decides.
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

    /// The parts of which one that does not hold is enough to reject.
    pub fn into_conditions(self) -> Vec<Node<L>> {
        match self {
            Node::All(parts) => parts.into_iter().flat_map(Node::into_conditions).collect(),
            node => vec![node],
        }
    }

    /// Whether something is so of all its tests.
    pub fn all_leaves(&self, is: &impl Fn(&L) -> bool) -> bool {
        match self {
            Node::Never | Node::Always => true,
            Node::All(parts) | Node::Any(parts) => parts.iter().all(|part| part.all_leaves(is)),
            Node::Leaf(leaf) => is(leaf),
        }
    }

    /// How many tests it has.
    pub fn nr_leaves(&self) -> usize {
        match self {
            Node::Never | Node::Always => 0,
            Node::All(parts) | Node::Any(parts) => parts.iter().map(Node::nr_leaves).sum(),
            Node::Leaf(_) => 1,
        }
    }
}

/// Where a test leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// The record passes.
    Pass,
    /// It does not.
    Reject,
    /// The test of this number, which is behind the one that leads there.
    Test(usize),
}

/// A test of a [`graph`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jump<L> {
    /// The test.
    pub leaf: L,
    /// Where it leads if it holds.
    pub yes: Branch,
    /// Where it leads if not.
    pub no: Branch,
}

/// The condition as a list of tests that lead forwards only, the first one first. Of a condition without tests
/// there are none.
pub fn graph<L>(node: Node<L>) -> Vec<Jump<L>> {
    let nr = node.nr_leaves();
    let mut grapher = Grapher { nr, jumps: Vec::with_capacity(nr) };
    grapher.node(node, Branch::Pass, Branch::Reject);
    grapher.jumps.reverse();
    grapher.jumps
}

/// From the last test to the first: where a test leads is there already.
struct Grapher<L> {
    nr: usize,
    jumps: Vec<Jump<L>>,
}

impl<L> Grapher<L> {
    /// Where the condition begins.
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

/// First and last integer.
pub type IntegerSpan = (i128, i128);

/// The integers of which `op number` is true; of `!=`, those of which it is not.
pub fn span(op: Op, number: Number) -> IntegerSpan {
    // The greatest integer that is not above the number, and the least that is not below. The casts
    // saturate, beyond all integers of 64 bits.
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

/// The same integers: spans in order, apart from each other, none of them empty.
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

/// Where the items of a set go.
pub trait Set {
    /// A test.
    type Leaf;
    /// Why a comparison cannot be made.
    type Error;

    /// Whether what is compared is an integer.
    fn is_integer(&self) -> bool;

    /// The values that a literal other than a number stands for, if what is compared has an integer for it.
    fn labelled(&self, literal: &Literal) -> Option<Vec<IntegerSpan>> {
        let _ = literal;
        None
    }

    /// The comparison with one constant.
    ///
    /// # Errors
    /// It cannot be made there.
    fn one(&self, op: Op, literal: &Literal) -> Result<Node<Self::Leaf>, Self::Error>;

    /// That the integer is in one of the spans, or, negated, in none.
    ///
    /// # Errors
    /// It cannot be told there.
    fn among(&self, spans: Vec<IntegerSpan>) -> Result<Node<Self::Leaf>, Self::Error>;
}

/// As the comparisons with each item would be, but all integers at once.
///
/// # Errors
/// What cannot be told, if the rest does not decide already.
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

    /// Each comparison is a test of its own text; `x` cannot be compared.
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
