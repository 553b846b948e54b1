//! Functions for queries on traces that SQLite lacks.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};
use strata_text::json::compact;

use crate::symbols::SymbolThread;

/// The most values that one group of a percentile keeps: 512 MiB.
const VALUES_MAX: usize = 1 << 26;

/// Adds the functions to a connection.
///
/// # Errors
/// SQLite refuses a function, which is a mistake of this crate.
pub(crate) fn add(connection: &Connection) -> Result<()> {
    let pure = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_aggregate_function("percentile", 2, pure, Percentile { share: None })?;
    connection.create_aggregate_function("median", 1, pure, Percentile { share: Some(50.0) })?;
    connection.create_aggregate_function("histogram", 1, pure, Histogram)?;
    connection.create_scalar_function("overlap", 4, pure, |context| {
        let (Some(begin), Some(end), Some(other_begin), Some(other_end)) = (
            integer(context, 0)?,
            integer(context, 1)?,
            integer(context, 2)?,
            integer(context, 3)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(end.min(other_end).saturating_sub(begin.max(other_begin)).max(0)))
    })?;
    connection.create_scalar_function("at", 3, pure, |context| {
        let time = integer(context, 0)?;
        let (begin, end) = (integer(context, 1)?, integer(context, 2)?);
        Ok(time.zip(begin.zip(end)).map(|(time, (begin, end))| begin <= time && time < end))
    })?;
    connection.create_scalar_function("bucket", 1, pure, |context| {
        Ok(number(context, 0)?.map(|value| bucket(value as i64)))
    })
}

/// Adds the function `symbol(ADDRESS, PID)`, which reads the traces at its first call.
///
/// # Errors
/// SQLite refuses the function, which is a mistake of this crate.
pub(crate) fn add_symbols(connection: &Connection, symbols: &Arc<SymbolThread>) -> Result<()> {
    for arguments in 1..=2 {
        let symbols = AssertUnwindSafe(Arc::clone(symbols));
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function("symbol", arguments, flags, move |context| {
            let pid = if context.len() > 1 { integer(context, 1)? } else { None };
            Ok(address(context)?.and_then(|address| symbols.name(address, pid)))
        })?;
    }
    Ok(())
}

/// Returns an address argument: an integer, or a text of decimal digits, or of hexadecimal digits after `0x`.
fn address(context: &Context<'_>) -> Result<Option<u64>> {
    let wrong = |text: &str| {
        let text = format!(
            "symbol: '{text}' is no address. An address is a number, or a text such as 0x7f0012"
        );
        Error::UserFunctionError(text.into())
    };
    match context.get_raw(0) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(value) => Ok(Some(value as u64)),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            let parsed = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            parsed.map(Some).map_err(|_| wrong(&text))
        }
        other => Err(wrong(&other.data_type().to_string())),
    }
}

/// Returns an argument as an integer; a fraction is cut off.
fn integer(context: &Context<'_>, index: usize) -> Result<Option<i64>> {
    match context.get_raw(index) {
        ValueRef::Integer(value) => Ok(Some(value)),
        _ => number(context, index).map(|value| value.map(|value| value as i64)),
    }
}

/// Returns the bucket of a value: the greatest power of two that is not above it, 0 for 0, and likewise for negative
/// values.
fn bucket(value: i64) -> i64 {
    match value.unsigned_abs().checked_ilog2() {
        Some(bits) if value > 0 => 1i64 << bits.min(62),
        Some(bits) => -(1i64 << bits.min(62)),
        None => 0,
    }
}

fn number(context: &Context<'_>, index: usize) -> Result<Option<f64>> {
    match context.get_raw(index) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(value) => Ok(Some(value as f64)),
        ValueRef::Real(value) => Ok(Some(value)),
        other => {
            let text = format!("argument {} is no number but {}", index + 1, other.data_type());
            Err(Error::UserFunctionError(text.into()))
        }
    }
}

/// The aggregate `percentile(value, percent)`: the least value such that at least `percent` percent of the values are
/// not above it.
struct Percentile {
    share: Option<f64>,
}

/// Values of a group, and the percentage.
#[derive(Default)]
struct Values {
    values: Vec<i64>,
    reals: Vec<f64>,
    percent: f64,
}

impl Aggregate<Values, Option<rusqlite::types::Value>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<Values> {
        Ok(Values::default())
    }

    fn step(&self, context: &mut Context<'_>, of: &mut Values) -> Result<()> {
        of.percent = match self.share {
            Some(share) => share,
            None => number(context, 1)?.unwrap_or(f64::NAN),
        };
        if !(0.0..=100.0).contains(&of.percent) {
            return Err(Error::UserFunctionError("percentile: the percentage is 0 to 100".into()));
        }
        if of.values.len() + of.reals.len() >= VALUES_MAX {
            let text = format!("percentile: a group has more than {VALUES_MAX} values");
            return Err(Error::UserFunctionError(text.into()));
        }
        match context.get_raw(0) {
            ValueRef::Integer(value) => of.values.push(value),
            _ => of.reals.extend(number(context, 0)?),
        }
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        of: Option<Values>,
    ) -> Result<Option<rusqlite::types::Value>> {
        use rusqlite::types::Value;
        let Some(mut of) = of else { return Ok(None) };
        if of.reals.is_empty() {
            let place = place(of.values.len(), of.percent);
            let mut values = of.values;
            return Ok(place.map(|place| Value::Integer(*values.select_nth_unstable(place).1)));
        }
        of.reals.extend(of.values.iter().map(|value| *value as f64));
        let place = place(of.reals.len(), of.percent);
        let mut values = of.reals;
        Ok(place.map(|place| Value::Real(*values.select_nth_unstable_by(place, f64::total_cmp).1)))
    }
}

/// Returns the index of a percentile among `values` sorted values, by nearest rank.
fn place(values: usize, percent: f64) -> Option<usize> {
    let last = values.checked_sub(1)?;
    let rank = (percent / 100.0 * values as f64).ceil() as usize;
    Some(rank.saturating_sub(1).min(last))
}

/// The aggregate `histogram(value)`: the number of values by [`bucket`], as a JSON object in the order of the buckets.
struct Histogram;

impl Aggregate<BTreeMap<i64, u64>, Option<String>> for Histogram {
    fn init(&self, _: &mut Context<'_>) -> Result<BTreeMap<i64, u64>> {
        Ok(BTreeMap::new())
    }

    fn step(&self, context: &mut Context<'_>, of: &mut BTreeMap<i64, u64>) -> Result<()> {
        let value = match context.get_raw(0) {
            ValueRef::Integer(value) => Some(value),
            _ => number(context, 0)?.map(|value| value as i64),
        };
        if let Some(value) = value {
            *of.entry(bucket(value)).or_default() += 1;
        }
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        of: Option<BTreeMap<i64, u64>>,
    ) -> Result<Option<String>> {
        Ok(of.as_ref().map(compact))
    }
}
