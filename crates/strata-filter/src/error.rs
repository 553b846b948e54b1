//! What is wrong with a filter's text.

use std::ops::Range;

use crate::excerpt::{column, excerpt, tame};
use crate::limits::{MAX_DEPTH, MAX_LENGTH};

/// Why a text is no filter. `Display` is one line; [`ParseError::caret`] shows the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter, column {}: {problem}", self.column())]
pub struct ParseError {
    /// The whole text; of one that is too long, the beginning.
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
    pub(crate) problem: Problem,
}

impl ParseError {
    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Where \[byte of the text\]. Empty at the text's end.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where \[column of a terminal, from 1\], in its line.
    pub fn column(&self) -> usize {
        column(&self.text, self.span.start)
    }

    /// Two lines: the text, and carets below the place with what was expected there.
    pub fn caret(&self) -> String {
        excerpt(&self.text, self.span.clone(), &self.problem.note())
    }
}

/// What can be wrong. `Display` says which, and what to do; [`Problem::note`] what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing but blanks.
    #[error("the filter is empty. Write an event's name or a comparison, or leave it out")]
    Empty,
    /// Longer than [`MAX_LENGTH`].
    #[error("the filter has {0} bytes, limit {MAX_LENGTH}. Use a pattern for similar names")]
    TooLong(usize),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error(
        "nested deeper than {MAX_DEPTH} levels. Remove parentheses and '!' that change nothing"
    )]
    TooDeep,
    /// Something is needed here that is not there.
    #[error("expected {expected}, found {found}")]
    Missing {
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// Something follows that does not belong there.
    #[error("{found} behind a complete expression. Write '&&' or '||' between two conditions")]
    Unexpected {
        /// What follows.
        found: String,
        /// What could.
        expected: &'static str,
    },
    /// Spelled as in another language.
    #[error("'{found}' is not an operator here. Write '{instead}'")]
    Foreign {
        /// As it is written.
        found: String,
        /// As it should be.
        instead: &'static str,
    },
    /// `=~`.
    #[error("'{0}': no regular expressions. Use '==' with '*' and '?' in the text")]
    Regex(&'static str),
    /// `+`, `-`, …
    #[error("'{0}': no arithmetic. Compare a field with a number or another field")]
    Arithmetic(char),
    /// `&` without a number behind it.
    #[error("'&' tests bits and needs a number: field & 0x4. For two conditions write '&&'")]
    SingleAnd,
    /// `& 0`, `& -1`, `& 1.5`
    #[error("'{0}' is no mask. Write the bits to test as a positive integer")]
    BadMask(String),
    /// `3 & flags`, `"a" & 1`
    #[error("bits can be tested of a field or 'cpu' only. Write field & 0x4")]
    MaskOf,
    /// `'a'`, `“a”`
    #[error("{0} does not enclose text. Write \"text\" in double quotes")]
    WrongQuote(char),
    /// `"a`
    #[error("the text has no closing '\"'. Add it, or write a quote in the text as '\\\"'")]
    OpenText,
    /// `(a`, `a[3`, `x in {1`
    #[error("'{opening}' has no '{closing}'. Close it")]
    Unclosed {
        /// What was opened.
        opening: char,
        /// What would close it.
        closing: char,
    },
    /// `a)`
    #[error("'{0}' closes nothing. Remove it, or open it in front")]
    Unopened(char),
    /// Not a number.
    #[error("'{text}' is not a number: {why}")]
    BadNumber {
        /// As it is written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Beyond 64 bits, or beyond the greatest real.
    #[error("the number {text} is out of range, limit {limit}. No field can have it")]
    NumberRange {
        /// As it is written.
        text: String,
        /// The greatest or least.
        limit: String,
    },
    /// `"\q"`
    #[error("'{0}' is no escape. Write '\\\\' for a backslash")]
    BadEscape(String),
    /// `"\0"`
    #[error("'{0}': text never has a zero byte. Remove it")]
    ZeroByte(String),
    /// `x in {}`
    #[error("no value in '{{}}'. Write at least one: {{1, 2, 10 ... 20}}")]
    EmptySet,
    /// `5 ... 1`
    #[error("the range {0} has no value. Write the lesser number first")]
    EmptyRange(String),
    /// `"a" ... "b"`
    #[error("a range is of numbers: {{10 ... 20}}, both included")]
    RangeOfText,
    /// `sched_* == 3`
    #[error("'{0}' is not a field: its name has no '*', '?' or ':'. Quote text: \"{0}\"")]
    PatternAsField(String),
    /// `a..b`, `a[`, `$x`
    #[error("'{text}' is not a field: {why}")]
    BadPath {
        /// As it is written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A constant where a condition should be.
    #[error("{0} alone is no condition. Compare it with a field")]
    ConstantAlone(String),
    /// `a[3]` or `context.pid` alone.
    #[error("'{0}' alone is no condition. Compare it, or write has({0})")]
    FieldAlone(String),
    /// `"sched_switch"` alone.
    #[error("text alone is no condition. For an event's name write name == {0}")]
    TextAlone(String),
    /// `1 == 2`
    #[error("two constants are compared. One side must be a field")]
    TwoConstants,
    /// `cpu` alone.
    #[error("'{0}' alone is no condition. Compare it: {0} == {1}")]
    SpecialAlone(&'static str, &'static str),
    /// `cpu == "x"`
    #[error("'{0}' is {1} and never equals {2}. For a field of that name write payload.{0}")]
    SpecialKind(&'static str, &'static str, &'static str),
    /// `flags & 1 == "x"`
    #[error("bits are a number and never equal text. Compare the field without '&'")]
    MaskedText,
    /// `has(cpu)`
    #[error("'{0}' is not a field. For a field of that name write has(payload.{0})")]
    HasSpecial(&'static str),
    /// `comm < "a"`
    #[error("'{0}' does not compare text. Use '==' or '!='")]
    OrderOfText(&'static str),
    /// `1 < x < 5`
    #[error("comparisons cannot be chained. Write a < x && x < b, or x in {{a ... b}}")]
    Chained,
    /// `foo(x)`
    #[error("'{0}' is not a function; 'has' is the only one. Write has(FIELD)")]
    Function(String),
    /// `my-app`
    #[error("'-' is not part of a bare word. Quote the name: name == \"{0}\"")]
    Dash(String),
}

impl Problem {
    /// What was expected, for the line of carets.
    pub fn note(&self) -> String {
        let note = match self {
            Problem::Empty => "expected an event's name or a comparison",
            Problem::TooLong(_) => return format!("at most {MAX_LENGTH} bytes"),
            Problem::TooDeep => return format!("at most {MAX_DEPTH} levels"),
            Problem::Missing { expected, .. } | Problem::Unexpected { expected, .. } => {
                return format!("expected {expected}")
            }
            Problem::Foreign { instead, .. } => return format!("expected '{instead}'"),
            Problem::Regex(_) => "expected '==' or '!='",
            Problem::Arithmetic(_) => "expected a comparison, '&&', '||' or the end",
            Problem::SingleAnd => "expected '&&', or a number behind '&'",
            Problem::BadMask(_) => "expected a positive integer",
            Problem::MaskOf => "expected a field in front of '&'",
            Problem::WrongQuote(_) => "expected '\"'",
            Problem::OpenText => "expected '\"' at the end",
            Problem::Unclosed { closing, .. } => return format!("expected '{closing}' behind it"),
            Problem::Unopened(_) => "expected '&&', '||' or the end",
            Problem::BadNumber { why, .. } => why,
            Problem::NumberRange { limit, .. } => return format!("limit {limit}"),
            Problem::BadEscape(_) | Problem::ZeroByte(_) => {
                "expected one of \\\\ \\\" \\* \\? \\n \\t \\r \\a \\b \\f \\v \\xHH \\OOO"
            }
            Problem::EmptySet => "expected a value",
            Problem::EmptyRange(_) => "expected a greater number behind '...'",
            Problem::RangeOfText => "expected numbers",
            Problem::PatternAsField(_) => "expected a field's name",
            Problem::BadPath { why, .. } => why,
            Problem::ConstantAlone(_) | Problem::SpecialAlone(..) | Problem::FieldAlone(_) => {
                "expected a comparison with it"
            }
            Problem::TextAlone(_) => "expected 'name ==' in front",
            Problem::TwoConstants => "expected a field on one side",
            Problem::SpecialKind(_, kind, _) => return format!("expected {kind}"),
            Problem::MaskedText => "expected a number",
            Problem::HasSpecial(_) => "expected a field",
            Problem::OrderOfText(_) => "expected '==' or '!='",
            Problem::Chained => "expected '&&', '||' or the end",
            Problem::Function(_) => "expected has(FIELD)",
            Problem::Dash(_) => "expected '&&', '||' or the end",
        };
        note.to_string()
    }
}

/// The words of the text that a message repeats.
pub(crate) fn quoted(text: &str) -> String {
    tame(text)
}
