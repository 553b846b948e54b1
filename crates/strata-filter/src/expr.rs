//! What a filter says, as data.

use std::cmp::Ordering;
use std::fmt;

use crate::number::Number;
use crate::pattern::Pattern;

/// A condition. Its value is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All of them: false if one is false, else unknown if one is unknown. Two or more; none is an `And`.
    And(Vec<Expr>),
    /// One of them at least: true if one is true, else unknown if one is unknown. Two or more; none is
    /// an `Or`.
    Or(Vec<Expr>),
    /// The contrary; unknown stays unknown.
    Not(Box<Expr>),
    /// A comparison.
    Compare(Comparison),
    /// Whether the term equals one of these: as an `Or` of comparisons would be.
    In(Term, Vec<Item>),
    /// Whether the event record has the field. Never unknown.
    Has(Path),
}

/// Two values side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Never a constant: the parser turns those round.
    pub left: Term,
    /// The operator between them.
    pub op: Op,
    /// The right side: a constant, or another value.
    pub right: Operand,
}

/// How two values are compared.
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

/// What has a value in an event record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Whose value.
    pub subject: Subject,
    /// Only these bits of it, as an unsigned integer of 64 bits; a negative value is in two's complement.
    /// Never 0.
    pub mask: Option<u64>,
}

/// Whose value it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The event's name: text.
    Name,
    /// The CPU that the packet was recorded on: an integer.
    Cpu,
    /// The event's log level: an integer.
    LogLevel,
    /// A field's.
    Field(Path),
}

/// A field, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Where to look.
    pub root: Root,
    /// From there downwards; begins with a member. With [`Root::Any`], that member alone is never called
    /// `name`, `cpu` or `loglevel`, nor, with members below it, as a root.
    pub steps: Vec<PathStep>,
}

/// Where a field is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// The first that has it of: payload, event's context, stream's context, packet context, event
    /// header, packet header.
    Any,
    /// `payload.`
    Payload,
    /// `context.` or `$ctx.`: the event's own context, then that of all events of its stream.
    Context,
    /// `packet.`: the packet context.
    Packet,
    /// `header.`: the event header, then the packet header.
    Header,
}

/// One step down.
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
    /// A constant.
    Literal(Literal),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A number.
    Number(Number),
    /// Text, compared with text, or with the labels of an enumeration's value. Only `==` and `!=`.
    Text(Pattern),
}

/// What may be in braces.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// One value.
    One(Literal),
    /// Numbers: the first, the last, and all between them.
    Range(Number, Number),
}

impl Op {
    /// Whether the comparison is true for two numbers in this order; `None`: one is NaN, which differs
    /// from any number and is not less or greater.
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

    /// The same with both sides exchanged.
    pub fn exchanged(self) -> Op {
        match self {
            Op::Equal | Op::NotEqual => self,
            Op::Less => Op::Greater,
            Op::LessOrEqual => Op::GreaterOrEqual,
            Op::Greater => Op::Less,
            Op::GreaterOrEqual => Op::LessOrEqual,
        }
    }

    /// Whether it asks which is greater, and not only whether both are the same.
    pub fn is_order(self) -> bool {
        !matches!(self, Op::Equal | Op::NotEqual)
    }
}

/// Canonical: parses to the same expression.
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
    /// Read as one thing by a person, too: needs no parentheses behind `!`.
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
    /// The event name pattern as a bare word, if that is what the comparison is.
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
