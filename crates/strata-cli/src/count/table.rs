//! Counts as a report: rows by their keys, the sums of all, and the histogram of all values.

use std::cmp::Reverse;
use std::num::NonZeroUsize;

use strata_report::{Columns, Document, Part, Table, Unit, Value};
use strata_session::count::Counts;
use strata_session::kernel_count::{
    bucket_begin, group_paths, CountRow, CountSpec, CountValues, KeyValue, Operand,
};

use crate::analyze::rows::{bars, length};
use crate::stats::is_utf8;
use crate::units::{count, counted, time};

/// Names of columns that a field must not have.
const OWN_KEYS: [&str; 7] = ["count", "sum", "avg", "min", "max", "buckets", "share"];

/// The titles of the columns, which live as long as the program: they are those of its command line.
pub struct Titles {
    keys: Vec<&'static str>,
    value: Option<&'static str>,
    /// True if values are durations \[ns\].
    is_time: bool,
    has_spread: bool,
    /// For each key, true if it is a control group.
    groups: Vec<bool>,
}

/// Everything but the counts that a table is made of.
pub struct Layout {
    pub titles: Titles,
    /// Number of rows that the kernel has room for.
    pub rows_max: u32,
}

/// One row with the texts of its keys.
struct Row<'c> {
    keys: Vec<Value>,
    values: &'c CountValues,
}

impl Titles {
    pub fn of(spec: &CountSpec) -> Titles {
        let leak = |text: String| -> &'static str { text.leak() };
        let key = |(name, _): &(String, Operand)| match OWN_KEYS.contains(&name.as_str()) {
            true => leak(format!("payload.{name}")),
            false => leak(name.clone()),
        };
        let is_group = |(name, _): &(String, Operand)| {
            ["cgroup", "container", "context.cgroup", "context.container"].contains(&name.as_str())
        };
        Titles {
            keys: spec.keys.iter().map(key).collect(),
            value: spec.value.as_ref().map(|(name, _)| leak(name.clone())),
            is_time: spec.value.as_ref().is_some_and(|(_, of)| *of == Operand::Duration),
            has_spread: spec.spread,
            groups: spec.keys.iter().map(is_group).collect(),
        }
    }
}

impl Layout {
    /// Makes the report of the counts, with the first `top` rows.
    pub fn document(&self, counts: &Counts, top: Option<NonZeroUsize>) -> Document {
        let rows = self.rows(counts);
        let total: u64 = rows.iter().map(|row| row.values.count).sum();
        let events = counted(total, "event");
        let of = match rows.len() {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", count(rows as u64)),
        };
        let mut document = Document::new(format!("{events} in {}, {of}", time(counts.elapsed)));
        document.fact("elapsed_ns", u64::try_from(counts.elapsed.as_nanos()).unwrap_or(u64::MAX));
        document.fact("events", total);
        document.fact("no_room", counts.full);
        document.fact("uncounted", counts.uncounted);
        document.fact("undecided", counts.undecided);
        let all = rows.len();
        let columns = self.columns(total, &rows);
        document.rows(columns.rows(&rows), all);
        if let Some(Part::Rows { table, .. }) = document.parts.last_mut() {
            table.rows.truncate(top.map_or(usize::MAX, NonZeroUsize::get));
        }
        if let Some(table) = self.histogram(&rows) {
            document.push(Part::shown(self.titles.value.unwrap_or_default(), table));
        }
        document
    }

    /// Creates the report for the present moment, which also has the remarks that are messages at the end.
    pub fn document_now(&self, counts: &Counts, top: Option<NonZeroUsize>) -> Document {
        let mut document = self.document(counts, top);
        if counts.full > 0 {
            document.push(Part::Line(format!(
                "{} in no row: there is room for {} rows (--max-rows)",
                counted(counts.full, "event"),
                count(self.rows_max.into())
            )));
        }
        document
    }

    /// Returns the rows, those with the highest sum or count first.
    fn rows<'c>(&self, counts: &'c Counts) -> Vec<Row<'c>> {
        let groups = match self.titles.groups.contains(&true) {
            true => group_paths(),
            false => Default::default(),
        };
        let text = |(value, is_group): (&KeyValue, &bool)| match value {
            KeyValue::Absent => Value::None,
            KeyValue::Name(id) => Value::from(counts.names.get(*id as usize)),
            KeyValue::Number(id) if *is_group => match groups.get(id) {
                Some(path) => Value::from(path),
                None => Value::from(*id),
            },
            KeyValue::Number(number) => Value::from(*number),
            KeyValue::Signed(number) => Value::from(*number),
            KeyValue::Text(text) => Value::text(String::from_utf8_lossy(text)),
        };
        let mut sorted: Vec<&CountRow> = counts.rows.iter().collect();
        sorted.sort_by(|one, other| {
            let weight = |row: &CountRow| match self.titles.is_time {
                true => (row.values.sum, row.values.count),
                false => (i128::from(row.values.count), 0),
            };
            let keys = |row: &CountRow| row.keys.clone();
            Reverse(weight(one))
                .cmp(&Reverse(weight(other)))
                .then_with(|| keys(one).cmp(&keys(other)))
        });
        let keys = |row: &CountRow| row.keys.iter().zip(&self.titles.groups).map(text).collect();
        sorted.into_iter().map(|row| Row { keys: keys(row), values: &row.values }).collect()
    }

    fn columns<'c>(&self, total: u64, rows: &[Row<'c>]) -> Columns<'c, Row<'c>> {
        let mut columns: Columns<'c, Row<'c>> = Columns::new();
        for (at, title) in self.titles.keys.iter().enumerate() {
            let is_text = |row: &Row<'_>| matches!(row.keys.get(at), Some(Value::Text(_)));
            let unit = if rows.iter().any(is_text) { Unit::Text } else { Unit::RightText };
            let get = move |row: &Row<'c>| row.keys.get(at).cloned().unwrap_or_default();
            columns = columns.both(title, title, unit, get);
        }
        columns = columns.both("count", "count", Unit::Count, |row| Value::from(row.values.count));
        if self.titles.value.is_none() {
            let share =
                move |row: &Row<'c>| Value::Float(row.values.count as f64 / total.max(1) as f64);
            return columns.shown("share", Unit::Share, share);
        }
        let unit = if self.titles.is_time { Unit::Nanos } else { Unit::RightText };
        let mean = |values: &CountValues| values.sum / i128::from(values.count.max(1));
        columns = columns
            .both("sum", "sum", unit, |row| number(row.values.sum))
            .both("avg", "avg", unit, move |row| number(mean(row.values)))
            .both("min", "min", unit, |row| number(row.values.least))
            .both("max", "max", unit, |row| number(row.values.most));
        if self.titles.has_spread {
            let (from, to) = range(rows);
            columns = columns
                .shown("by powers of two", Unit::Text, move |row| {
                    let part = row.values.buckets.get(from..to).unwrap_or_default();
                    Value::text(bars(part, !is_utf8()))
                })
                .nested("buckets", |row| buckets(row.values));
        }
        columns
    }

    fn bucket(&self, at: usize) -> String {
        match (bucket_begin(at), self.titles.is_time) {
            (None, _) => "< 0".to_owned(),
            (Some(begin), true) => length(begin),
            (Some(begin), false) => count(begin),
        }
    }

    /// Returns a line for each bucket of all rows together, from the first that has values to the last.
    fn histogram(&self, rows: &[Row<'_>]) -> Option<Table> {
        let (from, to) = range(rows);
        if !self.titles.has_spread || from >= to {
            return None;
        }
        let sum = |at: usize| rows.iter().filter_map(|row| row.values.buckets.get(at)).sum::<u64>();
        let sums: Vec<(usize, u64)> = (from..to).map(|at| (at, sum(at))).collect();
        let most = sums.iter().map(|(_, sum)| *sum).max().unwrap_or(0).max(1);
        let columns = Columns::new()
            .both("from", "from", Unit::RightText, |(at, _): &(usize, u64)| {
                Value::text(self.bucket(*at))
            })
            .both("count", "count", Unit::Count, |(_, sum)| Value::from(*sum))
            .both("", "bar", Unit::Bar, move |(_, sum)| Value::Float(*sum as f64 / most as f64));
        Some(columns.rows(&sums))
    }
}

/// Returns the first bucket that has a value in any row, and the one after the last.
fn range(rows: &[Row<'_>]) -> (usize, usize) {
    let found = |row: &Row<'_>| {
        let first = row.values.buckets.iter().position(|count| *count > 0)?;
        let last = row.values.buckets.iter().rposition(|count| *count > 0)?;
        Some((first, last + 1))
    };
    let join = |(a, b): (usize, usize), (c, d): (usize, usize)| (a.min(c), b.max(d));
    rows.iter().filter_map(found).reduce(join).unwrap_or((0, 0))
}

/// Returns the buckets that have values: the least value of each, `null` for negative ones, and the count.
fn buckets(values: &CountValues) -> Value {
    let all = values.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let record = |(at, count): (usize, &u64)| {
        vec![("from", Value::from(bucket_begin(at))), ("count", Value::from(*count))]
    };
    Value::List(all.map(record).collect())
}

/// Returns a number that may be negative; a number that JSON integers cannot hold becomes the nearest one.
fn number(number: i128) -> Value {
    match u64::try_from(number) {
        Ok(number) => Value::Uint(number),
        Err(_) if number > 0 => Value::Uint(u64::MAX),
        Err(_) => Value::Int(i64::try_from(number).unwrap_or(i64::MIN)),
    }
}
