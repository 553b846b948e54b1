//! Recursive-descent parser from text to an expression, nested as deep as [`MAX_DEPTH`] allows.
//!
//! ```text
//! filter     = any
//! any        = all { ("||" | "or") all }
//! all        = not { ("&&" | "and") not }
//! not        = ("!" | "not") not | "(" any ")" | "has" "(" path ")" | test
//! test       = operand [ op operand | "in" "{" item { "," item } "}" ]       op: == != < <= > >=
//! operand    = number | text | subject [ "&" integer ] | "(" operand ")"
//! item       = number [ "..." number ] | text
//! ```
//!
//! # Flow
//! ```text
//! text ── lexical: one token ahead ── operand, path ── test ── all, any ──▶ Expr, and a LeafSpans for each comparison
//!                                                                           └▶ ParseError: place, what was found, what to write
//! ```
//! An expression is built from the inside out, and nodes of the same kind are merged, so that `a && b && c` is
//! one node and its depth 1.
//!
//! # Limits and callers
//! Text is hostile: it may come from a plan or a request. Two limits bound the parser's own stack: the nesting of
//! parentheses and `!`, checked before each descent, and the depth of the result.
//! [`Filter::parse`](crate::Filter) is the caller. It keeps the text and the spans, so that later errors (a name
//! that no event has) can show the part of the text that is meant. Printing an expression and parsing it again
//! gives the same expression; a test does so with random ones.

mod lexical;
mod operand;
mod parse_result;
mod path;

use crate::error::{quoted, ParseError, Problem};
use crate::expr::{Comparison, Expr, Item, Literal, Op, Operand, Subject, Term};
use crate::limits::{MAX_DEPTH, MAX_LENGTH};
use crate::number::Number;
use crate::pattern::Pattern;
use crate::unit::Unit;
use crate::word_classes::is_path_only;

use lexical::TextCursor;
use operand::{Located, OperandPiece, OperandSide};
use parse_result::Result;
pub(crate) use parse_result::TextSpan;

/// The places in the text of a comparison, a set or a `has()`, and of their parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeafSpans {
    /// Place of the whole expression.
    pub whole: TextSpan,
    /// Place of [`Comparison::left`], of the set's term, or of the path.
    pub left: TextSpan,
    /// Place of [`Comparison::right`], or of each item.
    pub right: Vec<TextSpan>,
}

/// Parses a filter. Returns the expression, and a [`LeafSpans`] for each comparison, set and `has()` in the order of
/// the expression.
pub(crate) fn parse(text: &str) -> std::result::Result<(Expr, Vec<LeafSpans>), ParseError> {
    if text.len() > MAX_LENGTH {
        let end = (0..=MAX_LENGTH).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let text_length = text.len();
        let text = text[..end].to_string();
        return Err(ParseError { text, span: end..end, problem: Problem::TooLong(text_length) });
    }
    let mut parser = FilterParser { cursor: TextCursor::new(text), nesting: 0, leaves: Vec::new() };
    match parser.filter() {
        Ok(expr) => Ok((expr, parser.leaves)),
        Err((problem, span)) => Err(ParseError { text: text.to_string(), span, problem }),
    }
}

/// An expression, and the depth of its `And`, `Or` and `Not`.
struct Built {
    expr: Expr,
    levels: usize,
}

struct FilterParser<'t> {
    cursor: TextCursor<'t>,
    /// Number of parentheses and `!` around the current place.
    nesting: usize,
    leaves: Vec<LeafSpans>,
}

/// The greatest depth of parentheses and `!`. It is twice [`MAX_DEPTH`], because an expression of that depth that has
/// `!(…)` on each level is printed with as many parentheses as exclamation marks.
const MAX_NESTING: usize = 2 * MAX_DEPTH;

impl FilterParser<'_> {
    fn filter(&mut self) -> Result<Expr> {
        if self.cursor.skip_blanks().at_end() {
            return Err((Problem::Empty, 0..0));
        }
        let built = self.any()?;
        match self.cursor.skip_blanks().peek() {
            None => Ok(built.expr),
            Some(_) => Err(self.leftover("'&&', '||' or the end")),
        }
    }

    fn any(&mut self) -> Result<Built> {
        let start = self.cursor.skip_blanks().at();
        let mut parts = vec![self.all()?];
        while self.cursor.take_operator("||", "or") {
            parts.push(self.all()?);
        }
        self.joined(start, parts, Expr::Or, |expr| match expr {
            Expr::Or(parts) => Ok(parts),
            other => Err(other),
        })
    }

    fn all(&mut self) -> Result<Built> {
        let start = self.cursor.skip_blanks().at();
        let mut parts = vec![self.not()?];
        while self.cursor.take_operator("&&", "and") {
            parts.push(self.not()?);
        }
        self.joined(start, parts, Expr::And, |expr| match expr {
            Expr::And(parts) => Ok(parts),
            other => Err(other),
        })
    }

    /// Joins parts in one node; parts of the same kind are merged into it.
    fn joined(
        &self,
        start: usize,
        mut parts: Vec<Built>,
        join: fn(Vec<Expr>) -> Expr,
        open: fn(Expr) -> std::result::Result<Vec<Expr>, Expr>,
    ) -> Result<Built> {
        if parts.len() == 1 {
            if let Some(only) = parts.pop() {
                return Ok(only);
            }
        }
        let (mut exprs, mut levels) = (Vec::new(), 0);
        for part in parts {
            match open(part.expr) {
                Ok(inner) => {
                    exprs.extend(inner);
                    levels = levels.max(part.levels);
                }
                Err(other) => {
                    exprs.push(other);
                    levels = levels.max(part.levels + 1);
                }
            }
        }
        self.built(start, join(exprs), levels)
    }

    fn built(&self, start: usize, expr: Expr, levels: usize) -> Result<Built> {
        match levels {
            0..=MAX_DEPTH => Ok(Built { expr, levels }),
            _ => Err((Problem::TooDeep, start..self.cursor.at())),
        }
    }

    fn not(&mut self) -> Result<Built> {
        let start = self.cursor.skip_blanks().at();
        if self.cursor.take_not() {
            self.deeper(start)?;
            let inner = self.not()?;
            self.nesting -= 1;
            return self.built(start, Expr::Not(Box::new(inner.expr)), inner.levels + 1);
        }
        if self.cursor.peek() == Some('(') && !operand::is_in_parentheses(&mut self.cursor) {
            return self.group();
        }
        let expr = match self.function()? {
            Some(has) => has,
            None => self.test()?,
        };
        Ok(Built { expr, levels: 0 })
    }

    fn deeper(&mut self, start: usize) -> Result<()> {
        self.nesting += 1;
        match self.nesting {
            0..=MAX_NESTING => Ok(()),
            _ => Err((Problem::TooDeep, start..start + 1)),
        }
    }

    fn group(&mut self) -> Result<Built> {
        let start = self.cursor.at();
        self.cursor.take("(");
        self.deeper(start)?;
        let inner = self.any()?;
        self.nesting -= 1;
        if self.cursor.skip_blanks().take(")") {
            return Ok(inner);
        }
        if self.cursor.at_end() {
            return Err((Problem::Unclosed { opening: '(', closing: ')' }, start..start + 1));
        }
        Err(self.leftover("'&&', '||' or ')'"))
    }

    /// Describes text that follows a complete expression and does not belong there.
    fn leftover(&mut self, expected: &'static str) -> (Problem, TextSpan) {
        if let Some((problem, span)) = self.cursor.not_an_operator() {
            return (problem, span);
        }
        let span = self.cursor.token();
        let found = self.cursor.text(&span);
        let foreign = |instead| Problem::Foreign { found: found.to_string(), instead };
        let problem = match found {
            ")" | "}" | "]" => Problem::Unopened(found.chars().next().unwrap_or(')')),
            _ if found.eq_ignore_ascii_case("and") => foreign("&&"),
            _ if found.eq_ignore_ascii_case("or") => foreign("||"),
            _ if Unit::find(found).is_some() && self.cursor.is_behind_digit(span.start) => {
                Problem::UnitApart(found.to_string())
            }
            _ if self.cursor.take_comparison().is_ok_and(|op| op.is_some()) => Problem::Chained,
            _ => Problem::Unexpected { found: format!("'{}'", quoted(found)), expected },
        };
        (problem, span)
    }

    /// Parses `has(path)`, if the text continues with it.
    fn function(&mut self) -> Result<Option<Expr>> {
        let start = self.cursor.at();
        let word = self.cursor.word();
        let name = self.cursor.text(&word);
        let known = name == "has" || name == "exists";
        if known {
            self.cursor.skip_blanks();
        }
        if word.is_empty() || self.cursor.peek() != Some('(') {
            self.cursor.back(start);
            return Ok(None);
        }
        if !known {
            return Err((Problem::Function(quoted(name)), word));
        }
        let opening = self.cursor.at();
        self.cursor.take("(");
        self.cursor.skip_blanks();
        let piece = operand::piece(&mut self.cursor, OperandSide::Has)?;
        let left = piece.span.clone();
        let path = match operand::term(&self.cursor, piece)?.subject {
            Subject::Field(path) => path,
            Subject::Name => return Err((Problem::HasSpecial("name"), left)),
            Subject::Cpu => return Err((Problem::HasSpecial("cpu"), left)),
            Subject::LogLevel => return Err((Problem::HasSpecial("loglevel"), left)),
        };
        if !self.cursor.skip_blanks().take(")") {
            if self.cursor.at_end() {
                let problem = Problem::Unclosed { opening: '(', closing: ')' };
                return Err((problem, opening..opening + 1));
            }
            return Err(self.cursor.missing("')'"));
        }
        self.leaf(start, left, Vec::new());
        Ok(Some(Expr::Has(path)))
    }

    fn leaf(&mut self, start: usize, left: TextSpan, right: Vec<TextSpan>) {
        self.leaves.push(LeafSpans { whole: start..self.cursor.at(), left, right });
    }

    fn test(&mut self) -> Result<Expr> {
        let start = self.cursor.skip_blanks().at();
        let left = operand::operand(&mut self.cursor, OperandSide::Left)?;
        let behind = self.cursor.at();
        self.cursor.skip_blanks();
        let op_start = self.cursor.at();
        if let Some(op) = self.cursor.take_comparison()? {
            let op_span = op_start..self.cursor.at();
            let right = operand::operand(&mut self.cursor, OperandSide::Right)?;
            return self.comparison(start, left, (op, op_span), right);
        }
        if self.cursor.take_word("in") {
            return self.set(start, left);
        }
        if let Some(error) = self.cursor.not_an_operator() {
            return Err(error);
        }
        self.cursor.back(behind);
        self.alone(start, left)
    }

    /// Parses an operand without an operator after it.
    fn alone(&mut self, start: usize, piece: Located) -> Result<Expr> {
        let span = piece.span.clone();
        let text = self.cursor.text(&span);
        match piece.piece {
            OperandPiece::Number(_) => Err((Problem::ConstantAlone(quoted(text)), span)),
            OperandPiece::Text(_) => Err((Problem::TextAlone(quoted(text)), span)),
            OperandPiece::Masked(term) => {
                self.leaf(start, span, Vec::new());
                let right = Operand::Literal(Literal::Number(Number::Integer(0)));
                Ok(Expr::Compare(Comparison { left: term, op: Op::NotEqual, right }))
            }
            OperandPiece::Word => {
                let special = match text {
                    "name" => Some(("name", "\"sched_*\"")),
                    "cpu" => Some(("cpu", "0")),
                    "loglevel" => Some(("loglevel", "6")),
                    _ => None,
                };
                if let Some((word, example)) = special {
                    return Err((Problem::SpecialAlone(word, example), span));
                }
                if is_path_only(text) {
                    path::subject(text, span.start)?;
                    return Err((Problem::FieldAlone(quoted(text)), span));
                }
                self.leaf(start, start..start, vec![span]);
                let name = Term { subject: Subject::Name, mask: None };
                let pattern = Literal::Text(Pattern::glob(text));
                let right = Operand::Literal(pattern);
                Ok(Expr::Compare(Comparison { left: name, op: Op::Equal, right }))
            }
        }
    }

    fn comparison(
        &mut self,
        start: usize,
        left: Located,
        (mut op, op_span): (Op, TextSpan),
        right: Located,
    ) -> Result<Expr> {
        let (mut left, mut right) = (left, right);
        if left.piece.is_literal() {
            if right.piece.is_literal() {
                return Err((Problem::TwoConstants, start..self.cursor.at()));
            }
            std::mem::swap(&mut left, &mut right);
            op = op.exchanged();
        }
        let (left_span, right_span) = (left.span.clone(), right.span.clone());
        let left = operand::term(&self.cursor, left)?;
        let right = match right.piece {
            OperandPiece::Number(number) => Operand::Literal(Literal::Number(number)),
            OperandPiece::Text(pattern) => Operand::Literal(Literal::Text(pattern)),
            _ => Operand::Term(operand::term(&self.cursor, right)?),
        };
        if let Operand::Literal(literal) = &right {
            operand::check_special(&left, literal, &right_span)?;
            if op.is_order() && matches!(literal, Literal::Text(_)) {
                let sign = self.cursor.text(&op_span);
                let sign = ["<=", ">=", "<", ">"].into_iter().find(|known| *known == sign);
                return Err((Problem::OrderOfText(sign.unwrap_or("<")), op_span));
            }
        }
        self.leaf(start, left_span, vec![right_span]);
        Ok(Expr::Compare(Comparison { left, op, right }))
    }

    fn set(&mut self, start: usize, left: Located) -> Result<Expr> {
        let left_span = left.span.clone();
        if left.piece.is_literal() {
            return Err((Problem::TwoConstants, left_span));
        }
        let term = operand::term(&self.cursor, left)?;
        let opening = self.cursor.skip_blanks().at();
        if !self.cursor.take("{") {
            return Err(self.cursor.missing("'{'"));
        }
        let (mut items, mut spans) = (Vec::new(), Vec::new());
        loop {
            self.cursor.skip_blanks();
            if items.is_empty() && self.cursor.take("}") {
                return Err((Problem::EmptySet, opening..self.cursor.at()));
            }
            let (item, span) = self.item()?;
            let first = match &item {
                Item::One(literal) => literal.clone(),
                Item::Range(from, _) => Literal::Number(*from),
            };
            operand::check_special(&term, &first, &span)?;
            items.push(item);
            spans.push(span);
            if self.cursor.skip_blanks().take(",") {
                continue;
            }
            if self.cursor.take("}") {
                break;
            }
            if self.cursor.at_end() {
                let problem = Problem::Unclosed { opening: '{', closing: '}' };
                return Err((problem, opening..opening + 1));
            }
            return Err(self.cursor.missing("',' or '}'"));
        }
        self.leaf(start, left_span, spans);
        Ok(Expr::In(term, items))
    }

    fn item(&mut self) -> Result<(Item, TextSpan)> {
        let first = operand::constant(&mut self.cursor)?;
        let behind = self.cursor.at();
        self.cursor.skip_blanks();
        let dots = self.cursor.dots();
        match self.cursor.text(&dots) {
            "" => {
                self.cursor.back(behind);
                let literal = match first.piece {
                    OperandPiece::Number(number) => Literal::Number(number),
                    OperandPiece::Text(pattern) => Literal::Text(pattern),
                    _ => return Err((Problem::TwoConstants, first.span)),
                };
                Ok((Item::One(literal), first.span))
            }
            "..." => {
                self.cursor.skip_blanks();
                let last = operand::constant(&mut self.cursor)?;
                let span = first.span.start..last.span.end;
                let (OperandPiece::Number(from), OperandPiece::Number(to)) =
                    (first.piece, last.piece)
                else {
                    return Err((Problem::RangeOfText, span));
                };
                if from.order(to).is_none_or(std::cmp::Ordering::is_gt) {
                    return Err((Problem::EmptyRange(format!("{from} ... {to}")), span));
                }
                Ok((Item::Range(from, to), span))
            }
            found => {
                let found = found.to_string();
                Err((Problem::Foreign { found, instead: "..." }, dots))
            }
        }
    }
}
