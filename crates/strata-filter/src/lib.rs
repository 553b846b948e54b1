//! Filter expressions: text to an expression, and its value for an event record.
//!
//! ```
//! use strata_filter::{Fields, Filter, Path, Value};
//!
//! /// A record of `net:send` with one field.
//! struct Send(i128);
//!
//! impl Fields for Send {
//!     fn name(&self) -> &[u8] {
//!         b"net:send"
//!     }
//!
//!     fn field(&self, path: &Path) -> Option<Value<'_>> {
//!         (path.to_string() == "len").then_some(Value::Integer(self.0))
//!     }
//! }
//!
//! let filter = Filter::parse("net:* && len > 4096")?;
//! assert_eq!(filter.evaluate(&Send(5000)), Some(true));
//! assert_eq!(filter.evaluate(&Send(12)), Some(false));
//!
//! // A field that is not there makes a comparison unknown; only true selects.
//! let filter = Filter::parse("port == 80")?;
//! assert_eq!(filter.evaluate(&Send(5000)), None);
//!
//! let error = Filter::parse("len = 4096").unwrap_err();
//! assert_eq!(error.to_string(), "filter, column 5: '=' is not an operator here. Write '=='");
//! assert_eq!(error.caret(), "len = 4096\n    ^ expected '=='");
//! # Ok::<(), strata_filter::ParseError>(())
//! ```
//!
//! The language is described for its users in `docs/guide/filter.md`. The expression is plain data
//! ([`Expr`]), and [`mod@evaluate`] is what it means; nothing here knows where event records come from.
#![forbid(unsafe_code)]

mod check;
mod class;
mod error;
pub mod evaluate;
mod excerpt;
mod expr;
mod limits;
pub mod lower;
mod number;
mod parse;
mod pattern;
mod ranges;
mod similar;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::str::FromStr;

pub use check::{Hint, Slip};
pub use class::{Class, ClassField, ClassFieldKind};
pub use error::{ParseError, Problem};
pub use evaluate::{Fields, Value};
pub use expr::{Comparison, Expr, Item, Literal, Op, Operand, Path, PathStep, Root, Subject, Term};
pub use limits::{MAX_DEPTH, MAX_LENGTH};
pub use number::{Number, GREATEST, LEAST};
pub use pattern::{Pattern, PatternPart};
pub use similar::{distance, distance_within};

/// A filter: its text, and what that means.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    expr: Expr,
    /// In the order of the expression.
    leaves: Vec<parse::LeafSpans>,
}

impl Filter {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Filter, ParseError> {
        let (expr, leaves) = parse::parse(text)?;
        Ok(Filter { text: text.to_string(), expr, leaves })
    }

    /// What the filter says.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value for an event record; `None` is unknown, and does not select. Allocates nothing.
    pub fn evaluate(&self, fields: &impl Fields) -> Option<bool> {
        evaluate::evaluate(&self.expr, fields)
    }
}

impl FromStr for Filter {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Filter, ParseError> {
        Filter::parse(text)
    }
}

/// Two filters that say the same in the same order, however they are spelled.
impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.expr == other.expr
    }
}

/// Canonical: parses to an equal filter.
impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(out)
    }
}
