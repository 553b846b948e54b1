//! The values of reports.

use crate::histogram::Histogram;
use crate::label::Label;

/// One value of a row, or a fact about the whole report.
///
/// How a number is written for people is not part of the value: it is the [`Unit`](crate::Unit) of its column.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// An unknown value, or one that does not exist.
    #[default]
    None,
    /// A value whose key is left out of the row.
    Absent,
    /// A number that is not negative.
    Uint(u64),
    /// A number, or a time since 1970 \[ns\].
    Int(i64),
    /// A fraction, such as a share or a rate.
    Float(f64),
    Bool(bool),
    /// Text from the trace. Renderers escape characters that control a terminal.
    Text(String),
    /// A process or a thread. In a row, its names and numbers are separate keys of the row.
    Label(Box<Label>),
    Spread(Histogram),
    /// Several values with keys.
    Record(Record),
    /// Rows below a row.
    List(Vec<Record>),
    /// Several values without keys.
    Values(Vec<Value>),
    /// The height of each column of a strip, from 0 to 1; `None`: unknown.
    Strip(Vec<Option<f64>>),
    /// Lines for people below a row: the parts of its time.
    Tree(Vec<Branch>),
}

/// Values with their keys. The key of a label in a record is empty.
pub type Record = Vec<(&'static str, Value)>;

/// A part of a time, and its own parts.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// The length of the part \[ns\].
    pub nanos: u64,
    /// The part's share of the whole, from 0 to 1.
    pub share: f64,
    pub text: String,
    /// The number of parts that are summed up in this one.
    pub count: u64,
    /// True for the sum of parts that have no lines of their own.
    pub is_rest: bool,
    pub below: Vec<Branch>,
}

impl Value {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    /// Returns a text value, or [`Value::None`] for an empty text.
    #[must_use]
    pub fn some_text(text: impl Into<String>) -> Value {
        let text = text.into();
        if text.is_empty() {
            Value::None
        } else {
            Value::Text(text)
        }
    }

    /// Returns the label of a row.
    #[must_use]
    pub fn label(label: &Label) -> Value {
        Value::Label(Box::new(label.clone()))
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Value {
        value.map_or(Value::None, Into::into)
    }
}

impl<V: Into<Value>> FromIterator<V> for Value {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Value {
        Value::Values(values.into_iter().map(Into::into).collect())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Uint(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Uint(number.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Float(number)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Bool(yes)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<&Label> for Value {
    fn from(label: &Label) -> Value {
        Value::label(label)
    }
}
