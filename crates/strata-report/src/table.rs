//! Tables: typed columns, and rows of values.

use std::rc::Rc;

use crate::times::Times;
use crate::value::{Record, Value};

/// The unit of a column, which decides how its values are written for people, and on which side they are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words, aligned to the left.
    Text,
    /// Words, aligned to the right.
    RightText,
    /// A process or a thread.
    Label,
    Count,
    /// Counts; a 0 is shown as an empty cell.
    SomeCount,
    /// A length of time \[ns\].
    Nanos,
    /// Lengths of time \[ns\]; a 0 is shown as an empty cell.
    SomeNanos,
    /// Numbers of bytes; a 0 is shown as an empty cell.
    Bytes,
    /// Numbers of bytes; a 0 is shown as 0.
    Size,
    /// Changes of a number of bytes, with their sign; a 0 is shown as an empty cell.
    Growth,
    /// A share of a whole, shown as percent with one decimal.
    Share,
    /// A share of a whole, shown as whole percent.
    RoundShare,
    /// A number per second.
    Rate,
    /// A share of a whole, shown as a bar from the left.
    Bar,
    /// A chart with a column for each part of the time.
    Strip,
    /// Lines below the row, which have no column.
    Tree,
    /// A time of day \[ns since 1970\].
    Time,
    /// A histogram, shown as one character for each power of ten.
    Spread,
}

/// Kind of a column's values in what programs read. It is known before the rows are, so that the header of CSV depends
/// on the report and not on the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value: a number, a text, true or false. It may be unknown.
    Single,
    /// The keys of a process or thread, which are columns of their own in CSV.
    Label,
    /// A histogram, a list or an object, for which CSV has no cell.
    Several,
}

impl Shape {
    /// Returns the shape of a value in a column with this key.
    fn of(key: &str, value: &Value) -> Shape {
        match value {
            Value::Label(_) if key.is_empty() => Shape::Label,
            Value::Spread(_) | Value::Record(_) | Value::List(_) | Value::Values(_) => {
                Shape::Several
            }
            Value::None
            | Value::Absent
            | Value::Uint(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Text(_)
            | Value::Label(_)
            | Value::Strip(_)
            | Value::Tree(_) => Shape::Single,
        }
    }
}

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The title that people read; `None`: the column is for programs only.
    pub title: Option<&'static str>,
    /// The key that programs read, empty for values with keys of their own; `None`: the column is for people only.
    pub key: Option<&'static str>,
    pub unit: Unit,
    pub shape: Shape,
}

impl Column {
    /// Returns true if a row may have this value here. An unknown value fits everywhere.
    fn fits(&self, value: &Value) -> bool {
        let is_unknown = matches!(value, Value::None | Value::Absent);
        self.key.is_none_or(|key| is_unknown || Shape::of(key, value) == self.shape)
    }
}

/// A figure that is computed from [`Times`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Count,
    Total,
    Mean,
    Min,
    P50,
    P90,
    P99,
    Max,
}

impl Figure {
    /// The figures that every report has for programs. Their order has no meaning.
    const ALL: [Figure; 7] = [
        Figure::Count,
        Figure::Total,
        Figure::Mean,
        Figure::Min,
        Figure::P50,
        Figure::P99,
        Figure::Max,
    ];

    fn key(self) -> &'static str {
        match self {
            Figure::Count => "count",
            Figure::Total => "total_ns",
            Figure::Mean => "avg_ns",
            Figure::Min => "min_ns",
            Figure::P50 => "p50_ns",
            Figure::P90 => "p90_ns",
            Figure::P99 => "p99_ns",
            Figure::Max => "max_ns",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Figure::Count => Unit::Count,
            _ => Unit::Nanos,
        }
    }

    fn of(self, times: &Times) -> u64 {
        match self {
            Figure::Count => times.count,
            Figure::Total => times.total,
            Figure::Mean => times.mean(),
            Figure::Min => times.min,
            Figure::P50 => times.quantile(0.5),
            Figure::P90 => times.quantile(0.9),
            Figure::P99 => times.quantile(0.99),
            Figure::Max => times.max,
        }
    }
}

impl Times {
    /// Returns all figures with their keys, and the histogram.
    #[must_use]
    pub fn record(&self) -> Record {
        let figures = Figure::ALL.map(|figure| (figure.key(), Value::Uint(figure.of(self))));
        let spread = ("histogram", Value::Spread(self.spread.clone()));
        figures.into_iter().chain([spread]).collect()
    }
}

type Get<'a, R> = Box<dyn Fn(&R) -> Value + 'a>;

/// The columns of a table, each with a function that takes its value from a row.
pub struct Columns<'a, R> {
    columns: Vec<Column>,
    getters: Vec<Get<'a, R>>,
}

impl<R> Default for Columns<'_, R> {
    fn default() -> Self {
        Columns { columns: Vec::new(), getters: Vec::new() }
    }
}

impl<'a, R: 'a> Columns<'a, R> {
    /// Returns a table without columns. People see columns in the order in which they are added.
    #[must_use]
    pub fn new() -> Self {
        Columns::default()
    }

    fn add(mut self, column: Column, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.columns.push(column);
        self.getters.push(Box::new(get));
        self
    }

    /// Adds a column for people and programs.
    #[must_use]
    pub fn both(
        self,
        title: &'static str,
        key: &'static str,
        unit: Unit,
        get: impl Fn(&R) -> Value + 'a,
    ) -> Self {
        let shape = match unit {
            Unit::Label if key.is_empty() => Shape::Label,
            Unit::Spread => Shape::Several,
            _ => Shape::Single,
        };
        self.add(Column { title: Some(title), key: Some(key), unit, shape }, get)
    }

    /// Adds a column that only people see, because programs have its value under other keys.
    #[must_use]
    pub fn shown(self, title: &'static str, unit: Unit, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.add(Column { title: Some(title), key: None, unit, shape: Shape::Single }, get)
    }

    fn hidden(self, key: &'static str, shape: Shape, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.add(Column { title: None, key: Some(key), unit: Unit::Text, shape }, get)
    }

    /// Adds a key that only programs see, of a number, a text, true or false.
    #[must_use]
    pub fn key(self, key: &'static str, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.hidden(key, Shape::Single, get)
    }

    /// Adds a key that only programs see, of a list, an object or a histogram. CSV has no column for it.
    #[must_use]
    pub fn nested(self, key: &'static str, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.hidden(key, Shape::Several, get)
    }

    /// Adds a key that only programs see. Rows whose value is [`Value::None`] do not have the key.
    #[must_use]
    pub fn some_key(self, key: &'static str, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.key(key, move |row| match get(row) {
            Value::None => Value::Absent,
            value => value,
        })
    }

    /// Adds the keys of a process' or thread's label, for programs only.
    #[must_use]
    pub fn label_keys(self, get: impl Fn(&R) -> Value + 'a) -> Self {
        self.hidden("", Shape::Label, get)
    }

    /// Adds several values with their keys at once, for programs only. CSV has no columns for them.
    #[must_use]
    pub fn keys(self, get: impl Fn(&R) -> Record + 'a) -> Self {
        self.nested("", move |row| Value::Record(get(row)))
    }

    /// Adds all figures of some times for programs, and a column for people for each figure in `shown`, in that order.
    #[must_use]
    pub fn times(self, shown: &[(&'static str, Figure)], get: impl Fn(&R) -> &Times + 'a) -> Self {
        let get: Rc<dyn Fn(&R) -> &Times + 'a> = Rc::new(get);
        let hidden = Figure::ALL.into_iter().filter(|one| !shown.iter().any(|(_, it)| it == one));
        let shown = shown.iter().map(|&(title, figure)| (Some(title), figure));
        shown.chain(hidden.map(|figure| (None, figure))).fold(self, |all, (title, figure)| {
            let get = Rc::clone(&get);
            let (key, unit, shape) = (Some(figure.key()), figure.unit(), Shape::Single);
            let column = Column { title, key, unit, shape };
            all.add(column, move |row| Value::Uint(figure.of(get(row))))
        })
    }

    /// Adds the distribution of some times: a small chart for people, buckets for programs.
    #[must_use]
    pub fn spread(self, get: impl Fn(&R) -> &Times + 'a) -> Self {
        self.both("1µs..1s", "histogram", Unit::Spread, move |row| {
            Value::Spread(get(row).spread.clone())
        })
    }

    /// Returns the values of one row with their keys.
    #[must_use]
    pub fn record(&self, row: &R) -> Record {
        let all = self.columns.iter().zip(&self.getters);
        all.filter_map(|(column, get)| Some((column.key?, get(row)))).collect()
    }

    /// Returns a table with these columns and a row of values for each of `rows`.
    #[must_use]
    pub fn rows(&self, rows: &[R]) -> Table {
        let value = |(column, get): (&Column, &Get<'a, R>), row: &R| {
            let value = get(row);
            debug_assert!(column.fits(&value), "{column:?} has another shape than {value:?}");
            value
        };
        let columns = || self.columns.iter().zip(&self.getters);
        let values = |row: &R| columns().map(|column| value(column, row)).collect();
        Table { columns: self.columns.clone(), rows: rows.iter().map(values).collect() }
    }
}

/// Columns, and rows that have a value for each column.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// The rows, from the first to the last.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Returns whether people see any column.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.columns.iter().any(|column| column.title.is_some())
    }

    /// Returns a table for programs that has one row: the values of `record`, each under its key.
    #[must_use]
    pub fn of(record: Record) -> Table {
        let column = |(key, value): (&'static str, Value)| {
            let (unit, shape) = (Unit::Text, Shape::of(key, &value));
            (Column { title: None, key: Some(key), unit, shape }, value)
        };
        let (columns, row) = record.into_iter().map(column).unzip();
        Table { columns, rows: vec![row] }
    }

    /// Adds a column that only people see, with the same value in each row.
    pub fn show(&mut self, title: &'static str, unit: Unit, value: Value) {
        self.columns.push(Column { title: Some(title), key: None, unit, shape: Shape::Single });
        self.rows.iter_mut().for_each(|row| row.push(value.clone()));
    }
}
