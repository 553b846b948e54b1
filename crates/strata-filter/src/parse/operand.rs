//! One side of a comparison.

use crate::error::Problem;
use crate::expr::{Literal, Subject, Term};
use crate::number::Number;
use crate::pattern::Pattern;

use super::{lexical, path, Located, Parser, Result, Span, CONDITION};

/// What was read; a word is still to be understood, by what stands behind it.
pub(super) enum Piece {
    Number(Number),
    Text(Pattern),
    Word,
    Masked(Term),
}

impl Piece {
    pub(super) fn is_literal(&self) -> bool {
        matches!(self, Piece::Number(_) | Piece::Text(_))
    }
}

/// Where the operand stands, which decides what a message expects.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Left,
    Right,
    Has,
    Constant,
}

impl Side {
    fn expected(self) -> &'static str {
        match self {
            Side::Left => CONDITION,
            Side::Right => "a number, text in double quotes or a field",
            Side::Has => "a field",
            Side::Constant => "a number or text in double quotes",
        }
    }
}

impl Parser<'_> {
    /// A number, text or word.
    pub(super) fn piece(&mut self, side: Side) -> Result<Located> {
        let constant = side != Side::Has;
        let word = side != Side::Constant;
        match self.cursor.peek() {
            Some('"') if constant => {
                let (pattern, span) = self.cursor.quoted_text()?;
                Ok(Located { piece: Piece::Text(pattern), span })
            }
            Some(quote @ ('\'' | '`' | '“' | '”' | '„' | '‘' | '’' | '«')) => {
                let start = self.cursor.at();
                Err((Problem::WrongQuote(quote), start..start + quote.len_utf8()))
            }
            Some(_) if constant && self.cursor.at_number() => {
                let (number, span) = self.cursor.number()?;
                Ok(Located { piece: Piece::Number(number), span })
            }
            _ => {
                let start = self.cursor.at();
                let span = self.cursor.word();
                if !word || span.is_empty() || lexical::is_keyword(self.cursor.text(&span)) {
                    self.cursor.back(start);
                    return Err(self.cursor.missing(side.expected()));
                }
                Ok(Located { piece: Piece::Word, span })
            }
        }
    }

    pub(super) fn constant(&mut self) -> Result<Located> {
        self.piece(Side::Constant)
    }

    /// A piece, in parentheses or not, with a mask or without.
    pub(super) fn operand(&mut self, side: Side) -> Result<Located> {
        self.cursor.skip_blanks();
        let mut openings = Vec::new();
        while self.cursor.peek() == Some('(') {
            openings.push(self.cursor.at());
            self.cursor.take("(");
            self.cursor.skip_blanks();
        }
        let piece = self.piece(side)?;
        let mut located = self.masked(piece)?;
        while let Some(opening) = openings.pop() {
            if self.cursor.skip_blanks().take(")") {
                located = self.masked(located)?;
                continue;
            }
            if self.cursor.at_end() {
                let problem = Problem::Unclosed { opening: '(', closing: ')' };
                return Err((problem, opening..opening + 1));
            }
            return Err(self.cursor.missing("')'"));
        }
        Ok(located)
    }

    /// Whether here is an operand in parentheses that is compared, and not a condition in parentheses.
    /// Stays where it is.
    pub(super) fn operand_in_parentheses(&mut self) -> Option<()> {
        let start = self.cursor.at();
        let operand = self.operand(Side::Left).ok();
        let compared = operand.is_some() && {
            self.cursor.skip_blanks();
            // A comparison that is spelled wrong is one, too.
            !matches!(self.cursor.take_comparison(), Ok(None)) || self.cursor.take_word("in")
        };
        self.cursor.back(start);
        compared.then_some(())
    }

    /// `& 0x4` behind the piece, if it is there.
    fn masked(&mut self, located: Located) -> Result<Located> {
        let behind = self.cursor.at();
        let and = self.cursor.skip_blanks().at();
        if !self.cursor.take_single_and() {
            self.cursor.back(behind);
            return Ok(located);
        }
        self.cursor.skip_blanks();
        if !self.cursor.at_number() {
            return Err((Problem::SingleAnd, and..and + 1));
        }
        let (mask, mask_span) = self.cursor.number()?;
        let bits = match mask {
            Number::Integer(value) => u64::try_from(value).ok().filter(|mask| *mask != 0),
            Number::Real(_) => None,
        };
        let Some(bits) = bits else {
            let text = self.cursor.text(&mask_span).to_string();
            return Err((Problem::BadMask(text), mask_span));
        };
        let span = located.span.start..mask_span.end;
        let left = located.span.clone();
        match located.piece {
            Piece::Word => (),
            _ => return Err((Problem::MaskOf, left)),
        }
        let term = self.term(located)?;
        if term.subject == Subject::Name {
            return Err((Problem::MaskOf, left));
        }
        Ok(Located { piece: Piece::Masked(Term { mask: Some(bits), ..term }), span })
    }

    /// The piece as something that has a value in an event record.
    pub(super) fn term(&mut self, located: Located) -> Result<Term> {
        match located.piece {
            Piece::Masked(term) => Ok(term),
            Piece::Word => {
                let text = self.cursor.text(&located.span);
                let subject = path::subject(text, located.span.start)?;
                Ok(Term { subject, mask: None })
            }
            Piece::Number(_) | Piece::Text(_) => Err((Problem::TwoConstants, located.span)),
        }
    }
}

/// That the constant is of the kind that the term always has.
pub(super) fn check_special(term: &Term, literal: &Literal, span: &Span) -> Result<()> {
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
