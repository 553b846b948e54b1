//! The expression tree of a filter.

use std::cmp::Ordering;
use std::fmt;

use crate::number::Number;
use crate::pattern::Pattern;

/// A condition, whose value is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A conjunction of two or more conditions: false if one is false, else unknown if one is unknown. None of the
    /// conditions is an `And`.
    And(Vec<Expr>),
    /// A disjunction of two or more conditions: true if one is true, else unknown if one is unknown. None of the
    /// conditions is an `Or`.
    Or(Vec<Expr>),
    /// A negation; unknown stays unknown.
    Not(Box<Expr>),
    /// A comparison of a term with a constant or another value.
    Compare(Comparison),
    /// Membership of a set, like an `Or` of comparisons with its items.
    In(Term, Vec<Item>),
    /// Presence of a field in the event record; never unknown.
    Has(Path),
}

/// A comparison of two values.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The left side, never a constant: the parser swaps the sides.
    pub left: Term,
    /// The operator of the comparison.
    pub op: Op,
    /// The right side, a constant or another value.
    pub right: Operand,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A value of an event record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Source of the value.
    pub subject: Subject,
    /// The bits of the value that are used, as an unsigned integer of 64 bits; `None` for the whole value. A negative
    /// value is in two's complement. The mask is never 0.
    pub mask: Option<u64>,
}

/// Source of a term's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Name of the event, a text.
    Name,
    /// The CPU on which the packet was recorded: an integer.
    Cpu,
    /// The event's log level: an integer.
    LogLevel,
    /// A field of the event record.
    Field(Path),
}

/// A field, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Part of the record in which the field is looked up.
    pub root: Root,
    /// Steps from the root to the field, the first of them a member. With [`Root::Any`], a single member is never
    /// called `name`, `cpu` or `loglevel`, and the first of several members never like a root.
    pub steps: Vec<PathStep>,
}

/// Parts of an event record in which fields are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// The first part that has the field. The order is: payload, event's context, stream's context, packet context,
    /// event header, packet header.
    Any,
    /// The payload, written `payload.`
    Payload,
    /// The event's own context, then the context of all events of its stream, written `context.` or `$ctx.`
    Context,
    /// The packet context, written `packet.`
    Packet,
    /// The event header, or the packet header if the former lacks the field; written with the prefix `header.`
    Header,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathStep {
    /// A structure's member, or a variant's option.
    Member(String),
    /// An array's element, counted from 0.
    Index(u64),
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Another value of the event record.
    Term(Term),
    /// A constant value.
    Literal(Literal),
}

/// A constant of a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A number, as an operand.
    Number(Number),
    /// A text, compared with a text or with the labels of an enumeration's value. Only `==` and `!=` are possible.
    Text(Pattern),
}

/// An item of a set in braces.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A single value of the set.
    One(Literal),
    /// A range of numbers, with the first and the last one included.
    Range(Number, Number),
}

impl Op {
    /// Returns whether the comparison is true for two numbers in this order. `None` means that one of them is NaN,
    /// which differs from any number and is neither less nor greater.
    #[inline]
    pub fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Op::Equal => order == Some(Ordering::Equal),
            Op::NotEqual => order != Some(Ordering::Equal),
            Op::Less => order == Some(Ordering::Less),
            Op::LessOrEqual => order.is_some_and(Ordering::is_le),
            Op::Greater => order == Some(Ordering::Greater),
            Op::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }

    /// Returns the operator that gives the same result when the sides are exchanged.
    pub fn exchanged(self) -> Op {
        match self {
            Op::Equal | Op::NotEqual => self,
            Op::Less => Op::Greater,
            Op::LessOrEqual => Op::GreaterOrEqual,
            Op::Greater => Op::Less,
            Op::GreaterOrEqual => Op::LessOrEqual,
        }
    }

    /// Returns whether the operator compares by order, and not only by equality.
    pub fn is_order(self) -> bool {
        !matches!(self, Op::Equal | Op::NotEqual)
    }
}

/// Formats the canonical text, which parses to the same expression.
impl fmt::Display for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::And(parts) => join(out, parts, " && "),
            Expr::Or(parts) => join(out, parts, " || "),
            Expr::Not(inner) if inner.is_atom() => write!(out, "!{inner}"),
            Expr::Not(inner) => write!(out, "!({inner})"),
            Expr::Compare(comparison) => write!(out, "{comparison}"),
            Expr::In(term, items) => {
                write!(out, "{term} in {{")?;
                for (index, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                out.write_str("}")
            }
            Expr::Has(path) => write!(out, "has({path})"),
        }
    }
}

impl Expr {
    /// Returns whether the expression needs no parentheses after `!`.
    fn is_atom(&self) -> bool {
        match self {
            Expr::Has(_) | Expr::Not(_) => true,
            Expr::Compare(comparison) => comparison.bare_name().is_some(),
            _ => false,
        }
    }
}

fn join(out: &mut fmt::Formatter<'_>, parts: &[Expr], between: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        out.write_str(if index == 0 { "" } else { between })?;
        match part {
            Expr::And(_) | Expr::Or(_) => write!(out, "({part})")?,
            _ => write!(out, "{part}")?,
        }
    }
    Ok(())
}

impl Comparison {
    /// Returns the event name pattern as a bare word, if the comparison can be written so.
    fn bare_name(&self) -> Option<String> {
        match (&self.left.subject, self.op, &self.right) {
            (Subject::Name, Op::Equal, Operand::Literal(Literal::Text(pattern))) => pattern.bare(),
            _ => None,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bare_name() {
            Some(word) => out.write_str(&word),
            None => write!(out, "{} {} {}", self.left, self.op, self.right),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Op::Equal => "==",
            Op::NotEqual => "!=",
            Op::Less => "<",
            Op::LessOrEqual => "<=",
            Op::Greater => ">",
            Op::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mask {
            Some(mask) => write!(out, "({} & {mask:#x})", self.subject),
            None => write!(out, "{}", self.subject),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Name => out.write_str("name"),
            Subject::Cpu => out.write_str("cpu"),
            Subject::LogLevel => out.write_str("loglevel"),
            Subject::Field(path) => write!(out, "{path}"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.root {
            Root::Any => "",
            Root::Payload => "payload.",
            Root::Context => "context.",
            Root::Packet => "packet.",
            Root::Header => "header.",
        })?;
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                PathStep::Member(name) if index == 0 => write!(out, "{name}")?,
                PathStep::Member(name) => write!(out, ".{name}")?,
                PathStep::Index(index) => write!(out, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Term(term) => write!(out, "{term}"),
            Operand::Literal(literal) => write!(out, "{literal}"),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Number(number) => write!(out, "{number}"),
            Literal::Text(pattern) => write!(out, "{pattern}"),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::One(literal) => write!(out, "{literal}"),
            Item::Range(from, to) => write!(out, "{from} ... {to}"),
        }
    }
}
