//! Filter expressions: parsing, and evaluation on event records.
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
//! `docs/guide/filter.md` describes the language for its users. The expression is plain data ([`Expr`]), and
//! [`mod@evaluate`] defines its meaning. This crate does not depend on where event records come from.
#![deny(missing_docs, clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

mod call;
mod check;
mod class;
mod duration;
mod error;
pub mod evaluate;
mod excerpt;
mod expr;
mod limits;
pub mod lower;
mod number;
mod parse;
mod pattern;
mod process_name;
mod ranges;
mod similar_names;
#[cfg(test)]
mod tests;
mod unit;
mod word_classes;

use std::fmt;
use std::str::FromStr;

pub use call::{call_of, SYSCALLS};
pub use check::{Hint, Slip};
pub use class::{Class, ClassField, ClassFieldKind};
pub use duration::{DurationError, DurationSplit};
pub use error::{ParseError, Problem};
pub use evaluate::{Fields, Value};
pub use expr::{Comparison, Expr, Item, Literal, Op, Operand, Path, PathStep, Root, Subject, Term};
pub use limits::{MAX_DEPTH, MAX_LENGTH};
pub use number::{Number, GREATEST, LEAST};
pub use pattern::{Pattern, PatternPart};
pub use process_name::means_process;
pub use similar_names::{distance, distance_within, nearest, similar, similar_or_longer, Misspelt};

/// A filter, with its text and its expression.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    expr: Expr,
    /// Places of the leaves in the text, in the order of the expression.
    leaves: Vec<parse::LeafSpans>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// The first syntax error, with its place.
    pub fn parse(text: &str) -> Result<Filter, ParseError> {
        let (expr, leaves) = parse::parse(text)?;
        Ok(Filter { text: text.to_string(), expr, leaves })
    }

    /// Returns the expression of the filter.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Returns the text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the filter's value for an event record. `None` is unknown, and does not select. Nothing is allocated.
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

/// Compares expressions: filters are equal if they have the same conditions in the same order, however they are
/// written.
impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.expr == other.expr
    }
}

/// Formats the canonical text, which parses to an equal filter.
impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(out)
    }
}
