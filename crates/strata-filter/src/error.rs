//! Syntax errors of filters.

use std::ops::Range;

use crate::excerpt::{column, excerpt, tame};
use crate::limits::{MAX_DEPTH, MAX_LENGTH};

/// A syntax error of a filter. `Display` is one line; [`ParseError::caret`] shows the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter, column {}: {problem}", self.column())]
pub struct ParseError {
    /// The whole text, or its beginning if the text is too long.
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
    pub(crate) problem: Problem,
}

impl ParseError {
    /// Returns the kind of the error.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns the range of bytes that the error is about; it is empty at the text's end.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the terminal column at which the error begins in its line, from 1.
    pub fn column(&self) -> usize {
        column(&self.text, self.span.start)
    }

    /// Returns two lines: the text, and carets under the error with a note of what was expected.
    pub fn caret(&self) -> String {
        excerpt(&self.text, self.span.clone(), &self.problem.note())
    }
}

/// Kinds of syntax errors. `Display` describes the error and its remedy; [`Problem::note`] describes what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is empty or blank.
    #[error("the filter is empty. Write an event's name or a comparison, or leave it out")]
    Empty,
    /// The text is longer than [`MAX_LENGTH`].
    #[error("the filter has {0} bytes, limit {MAX_LENGTH}. Use a pattern for similar names")]
    TooLong(usize),
    /// The filter is nested deeper than [`MAX_DEPTH`].
    #[error(
        "nested deeper than {MAX_DEPTH} levels. Remove parentheses and '!' that change nothing"
    )]
    TooDeep,
    /// A required part of the filter is missing.
    #[error("expected {expected}, found {found}")]
    Missing {
        /// Text that was found instead.
        found: String,
        /// Description of the missing part.
        expected: &'static str,
    },
    /// A part follows that is not allowed here.
    #[error("{found} behind a complete expression. Write '&&' or '||' between two conditions")]
    Unexpected {
        /// Text of the part.
        found: String,
        /// Description of what may follow.
        expected: &'static str,
    },
    /// An operator or word of another language.
    #[error("'{found}' is not an operator here. Write '{instead}'")]
    Foreign {
        /// Text as it is written.
        found: String,
        /// Text as it should be written.
        instead: &'static str,
    },
    /// The operator `=~`, which filters do not have.
    #[error("'{0}': no regular expressions. Use '==' with '*' and '?' in the text")]
    Regex(&'static str),
    /// An arithmetic operator: `+`, `-`, …
    #[error("'{0}': no arithmetic. Compare a field with a number or another field")]
    Arithmetic(char),
    /// A `&` without a number after it.
    #[error("'&' tests bits and needs a number: field & 0x4. For two conditions write '&&'")]
    SingleAnd,
    /// A mask that is not a positive integer: `& 0`, `& -1`, `& 1.5`
    #[error("'{0}' is no mask. Write the bits to test as a positive integer")]
    BadMask(String),
    /// A mask on something that is not a field: `3 & flags`, `"a" & 1`
    #[error("bits can be tested of a field or 'cpu' only. Write field & 0x4")]
    MaskOf,
    /// A quotation mark that filters do not have: `'a'`, `“a”`
    #[error("{0} does not enclose text. Write \"text\" in double quotes")]
    WrongQuote(char),
    /// A text without its closing quote: `"a`
    #[error("the text has no closing '\"'. Add it, or write a quote in the text as '\\\"'")]
    OpenText,
    /// A bracket that is not closed: `(a`, `a[3`, `x in {1`
    #[error("'{opening}' has no '{closing}'. Close it")]
    Unclosed {
        /// The bracket that was opened.
        opening: char,
        /// The bracket that would close it.
        closing: char,
    },
    /// A closing bracket without its opening one: `a)`
    #[error("'{0}' closes nothing. Remove it, or open it in front")]
    Unopened(char),
    /// A word in the place of a number that is not a number.
    #[error("'{text}' is not a number: {why}")]
    BadNumber {
        /// Text as it is written.
        text: String,
        /// Reason why the number is refused.
        why: &'static str,
    },
    /// A number with an unknown unit: `50msec`
    #[error("'{text}' has no known unit: '{unit}'{}. Units are ns, us, ms, s, min, h, d and B, KiB, MiB, GiB, TiB, \
             without a blank in front; names that begin with a digit are quoted",
            similar.as_ref().map_or(String::new(), |unit| format!(" (similar: '{unit}')")))]
    Unit {
        /// Text as it is written.
        text: String,
        /// Letters after the number.
        unit: String,
        /// The unit that was perhaps meant.
        similar: Option<String>,
    },
    /// A number with a blank before its unit: `50 ms`
    #[error("'{0}' is a unit, and stands apart from its number. Write it right behind the number, without a blank")]
    UnitApart(String),
    /// A number beyond 64 bits, or beyond the greatest real number.
    #[error("the number {text} is out of range, limit {limit}. No field can have it")]
    NumberRange {
        /// Text as it is written.
        text: String,
        /// The least or greatest value that is possible.
        limit: String,
    },
    /// An unknown escape sequence: `"\q"`
    #[error("'{0}' is no escape. Write '\\\\' for a backslash")]
    BadEscape(String),
    /// A zero byte in a text: `"\0"`
    #[error("'{0}': text never has a zero byte. Remove it")]
    ZeroByte(String),
    /// A set without elements: `x in {}`
    #[error("no value in '{{}}'. Write at least one: {{1, 2, 10 ... 20}}")]
    EmptySet,
    /// A range whose first value is greater than its last: `5 ... 1`
    #[error("the range {0} has no value. Write the lesser number first")]
    EmptyRange(String),
    /// A range of texts: `"a" ... "b"`
    #[error("a range is of numbers: {{10 ... 20}}, both included")]
    RangeOfText,
    /// A pattern in the place of a field: `sched_* == 3`
    #[error("'{0}' is not a field: its name has no '*', '?' or ':'. Quote text: \"{0}\"")]
    PatternAsField(String),
    /// A field's path that is malformed: `a..b`, `a[`, `$x`
    #[error("'{text}' is not a field: {why}")]
    BadPath {
        /// Text as it is written.
        text: String,
        /// Reason why the path is refused.
        why: &'static str,
    },
    /// A constant in the place of a condition.
    #[error("{0} alone is no condition. Compare it with a field")]
    ConstantAlone(String),
    /// A field without a comparison: `a[3]` or `context.pid` alone.
    #[error("'{0}' alone is no condition. Compare it, or write has({0})")]
    FieldAlone(String),
    /// A text without a comparison: `"sched_switch"` alone.
    #[error("text alone is no condition. For an event's name write name == {0}")]
    TextAlone(String),
    /// A comparison of two constants: `1 == 2`
    #[error("two constants are compared. One side must be a field")]
    TwoConstants,
    /// A special word without a comparison: `cpu` alone.
    #[error("'{0}' alone is no condition. Compare it: {0} == {1}")]
    SpecialAlone(&'static str, &'static str),
    /// A special word compared with the wrong kind of value: `cpu == "x"`
    #[error("'{0}' is {1} and never equals {2}. For a field of that name write payload.{0}")]
    SpecialKind(&'static str, &'static str, &'static str),
    /// A comparison of masked bits with a text: `flags & 1 == "x"`
    #[error("bits are a number and never equal text. Compare the field without '&'")]
    MaskedText,
    /// A special word in `has()`: `has(cpu)`
    #[error("'{0}' is not a field. For a field of that name write has(payload.{0})")]
    HasSpecial(&'static str),
    /// An ordering of texts: `comm < "a"`
    #[error("'{0}' does not compare text. Use '==' or '!='")]
    OrderOfText(&'static str),
    /// A chain of comparisons: `1 < x < 5`
    #[error("comparisons cannot be chained. Write a < x && x < b, or x in {{a ... b}}")]
    Chained,
    /// A call of a function: `foo(x)`
    #[error("'{0}' is not a function; 'has' is the only one. Write has(FIELD)")]
    Function(String),
    /// A name with a dash that is not quoted: `my-app`
    #[error("'-' is not part of a bare word. Quote the name: name == \"{0}\"")]
    Dash(String),
}

impl Problem {
    /// Returns a note of what was expected, for the line of carets.
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
            Problem::Unit { similar: Some(unit), .. } => return format!("perhaps '{unit}'"),
            Problem::Unit { similar: None, .. } => "expected a unit such as ms or KiB",
            Problem::UnitApart(_) => "expected no blank in front of the unit",
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

/// Makes a part of the filter's text fit to be quoted in a message.
pub(crate) fn quoted(text: &str) -> String {
    tame(text)
}
