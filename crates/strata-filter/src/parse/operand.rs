//! Parses a side of a comparison.

use crate::error::Problem;
use crate::expr::{Literal, Subject, Term};
use crate::number::Number;
use crate::pattern::Pattern;
use crate::word_classes::is_keyword;

use super::lexical::TextCursor;
use super::parse_result::{Result, TextSpan};
use super::path;

/// A part of an operand, with its place in the text.
pub(super) struct Located {
    pub piece: OperandPiece,
    pub span: TextSpan,
}

/// A part of an operand. A word is classified later, by what follows it.
pub(super) enum OperandPiece {
    Number(Number),
    Text(Pattern),
    Word,
    Masked(Term),
}

impl OperandPiece {
    pub(super) fn is_literal(&self) -> bool {
        matches!(self, OperandPiece::Number(_) | OperandPiece::Text(_))
    }
}

/// The side of the operator on which the operand stands. It decides what a message says was expected.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OperandSide {
    Left,
    Right,
    Has,
    Constant,
}

impl OperandSide {
    fn expected(self) -> &'static str {
        match self {
            OperandSide::Left => "an event's name, a field, '!' or '('",
            OperandSide::Right => "a number, text in double quotes or a field",
            OperandSide::Has => "a field",
            OperandSide::Constant => "a number or text in double quotes",
        }
    }
}

/// Parses a number, a text or a word.
pub(super) fn piece(cursor: &mut TextCursor<'_>, side: OperandSide) -> Result<Located> {
    let constant = side != OperandSide::Has;
    let word = side != OperandSide::Constant;
    match cursor.peek() {
        Some('"') if constant => {
            let (pattern, span) = cursor.quoted_text()?;
            Ok(Located { piece: OperandPiece::Text(pattern), span })
        }
        Some(quote @ ('\'' | '`' | '“' | '”' | '„' | '‘' | '’' | '«')) => {
            let start = cursor.at();
            Err((Problem::WrongQuote(quote), start..start + quote.len_utf8()))
        }
        Some(_) if constant && cursor.at_number() => {
            let (number, span) = cursor.number()?;
            Ok(Located { piece: OperandPiece::Number(number), span })
        }
        _ => {
            let start = cursor.at();
            let span = cursor.word();
            if !word || span.is_empty() || is_keyword(cursor.text(&span)) {
                cursor.back(start);
                return Err(cursor.missing(side.expected()));
            }
            Ok(Located { piece: OperandPiece::Word, span })
        }
    }
}

pub(super) fn constant(cursor: &mut TextCursor<'_>) -> Result<Located> {
    piece(cursor, OperandSide::Constant)
}

/// Parses an operand with or without parentheses and a mask.
pub(super) fn operand(cursor: &mut TextCursor<'_>, side: OperandSide) -> Result<Located> {
    cursor.skip_blanks();
    let mut openings = Vec::new();
    while cursor.peek() == Some('(') {
        openings.push(cursor.at());
        cursor.take("(");
        cursor.skip_blanks();
    }
    let piece = piece(cursor, side)?;
    let mut located = masked(cursor, piece)?;
    while let Some(opening) = openings.pop() {
        if cursor.skip_blanks().take(")") {
            located = masked(cursor, located)?;
            continue;
        }
        if cursor.at_end() {
            let problem = Problem::Unclosed { opening: '(', closing: ')' };
            return Err((problem, opening..opening + 1));
        }
        return Err(cursor.missing("')'"));
    }
    Ok(located)
}

/// Returns whether the text continues with a compared operand in parentheses, and not with a condition in parentheses.
/// The cursor does not move.
pub(super) fn is_in_parentheses(cursor: &mut TextCursor<'_>) -> bool {
    let start = cursor.at();
    let operand = operand(cursor, OperandSide::Left).ok();
    let compared = operand.is_some() && {
        cursor.skip_blanks();
        // A misspelled operator also counts as a comparison.
        !matches!(cursor.take_comparison(), Ok(None)) || cursor.take_word("in")
    };
    cursor.back(start);
    compared
}

/// Parses a mask such as `& 0x4` after the operand, if there is one.
fn masked(cursor: &mut TextCursor<'_>, located: Located) -> Result<Located> {
    let behind = cursor.at();
    let and = cursor.skip_blanks().at();
    if !cursor.take_single_and() {
        cursor.back(behind);
        return Ok(located);
    }
    cursor.skip_blanks();
    if !cursor.at_number() {
        return Err((Problem::SingleAnd, and..and + 1));
    }
    let (mask, mask_span) = cursor.number()?;
    let bits = match mask {
        Number::Integer(value) => u64::try_from(value).ok().filter(|mask| *mask != 0),
        Number::Real(_) => None,
    };
    let Some(bits) = bits else {
        let text = cursor.text(&mask_span).to_string();
        return Err((Problem::BadMask(text), mask_span));
    };
    let span = located.span.start..mask_span.end;
    let left = located.span.clone();
    match located.piece {
        OperandPiece::Word => (),
        _ => return Err((Problem::MaskOf, left)),
    }
    let term = term(cursor, located)?;
    if term.subject == Subject::Name {
        return Err((Problem::MaskOf, left));
    }
    Ok(Located { piece: OperandPiece::Masked(Term { mask: Some(bits), ..term }), span })
}

/// Converts an operand to a value of an event record.
pub(super) fn term(cursor: &TextCursor<'_>, located: Located) -> Result<Term> {
    match located.piece {
        OperandPiece::Masked(term) => Ok(term),
        OperandPiece::Word => {
            let text = cursor.text(&located.span);
            let subject = path::subject(text, located.span.start)?;
            Ok(Term { subject, mask: None })
        }
        OperandPiece::Number(_) | OperandPiece::Text(_) => {
            Err((Problem::TwoConstants, located.span))
        }
    }
}

/// Checks that the constant has the kind that the term always has.
pub(super) fn check_special(term: &Term, literal: &Literal, span: &TextSpan) -> Result<()> {
    let text = matches!(literal, Literal::Text(_));
    let problem = match &term.subject {
        _ if term.mask.is_some() && text => Problem::MaskedText,
        Subject::Name if !text => Problem::SpecialKind("name", "text", "a number"),
        Subject::Cpu if text => Problem::SpecialKind("cpu", "a number", "text"),
        Subject::LogLevel if text => Problem::SpecialKind("loglevel", "a number", "text"),
        _ => return Ok(()),
    };
    Err((problem, span.clone()))
}
