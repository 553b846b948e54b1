//! Values of one column of a row group.

use bytes::Bytes;
use parquet::data_type::{
    ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::Result;
use parquet::file::writer::SerializedColumnWriter;
use strata_sql::Cell;

use crate::tables::Kind;

/// Size of a decimal of 20 digits and a sign \[byte\].
pub(crate) const DECIMAL_BYTES: usize = 9;

/// The most texts that are encoded at once.
const VALUES_AT_ONCE: usize = 1024;

/// Values of a row group's column, without NULLs.
#[derive(Debug)]
enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Decimals(Vec<[u8; DECIMAL_BYTES]>),
    /// All texts, one after the other, and the end of each.
    Bytes(Vec<u8>, Vec<usize>),
}

/// A column of a row group.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    kind: Kind,
    /// Definition levels: 1 for each value, 0 for each NULL.
    levels: Vec<i16>,
    values: Values,
}

impl ColumnBuffer {
    pub(crate) fn new(kind: Kind) -> ColumnBuffer {
        let values = match kind {
            Kind::Integer => Values::Integers(Vec::new()),
            Kind::Real => Values::Reals(Vec::new()),
            Kind::Unsigned => Values::Decimals(Vec::new()),
            Kind::Text | Kind::Blob => Values::Bytes(Vec::new(), Vec::new()),
        };
        ColumnBuffer { kind, levels: Vec::new(), values }
    }

    /// Adds a value. Returns its size \[byte\], or `None` if it is of another type.
    pub(crate) fn push(&mut self, cell: &Cell<'_>) -> Option<usize> {
        if matches!(cell, Cell::Null) {
            self.levels.push(0);
            return Some(2);
        }
        let size = match (&mut self.values, *cell) {
            (Values::Integers(all), Cell::Integer(value)) => {
                all.push(value);
                8
            }
            (Values::Reals(all), Cell::Real(value)) => {
                all.push(value);
                8
            }
            (Values::Reals(all), Cell::Integer(value)) => {
                all.push(value as f64);
                8
            }
            // SQLite has no NaN, so it is passed as a text.
            (Values::Reals(all), Cell::Text(b"NaN")) => {
                all.push(f64::NAN);
                8
            }
            (Values::Decimals(all), Cell::Integer(value)) => {
                all.push(decimal(i128::from(value)));
                DECIMAL_BYTES
            }
            (Values::Decimals(all), Cell::Text(digits)) => {
                let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
                all.push(decimal(i128::from(value)));
                DECIMAL_BYTES
            }
            (Values::Bytes(all, ends), cell) => {
                let before = all.len();
                match cell {
                    Cell::Text(text) if self.kind == Kind::Blob => all.extend_from_slice(text),
                    // Checks a whole text quicker than what replaces parts of it.
                    Cell::Text(text) => match std::str::from_utf8(text) {
                        Ok(_) => all.extend_from_slice(text),
                        Err(_) => {
                            all.extend_from_slice(String::from_utf8_lossy(text).as_bytes());
                        }
                    },
                    Cell::Blob(bytes) if self.kind == Kind::Blob => all.extend_from_slice(bytes),
                    Cell::Blob(bytes) => {
                        bytes.iter().for_each(|byte| {
                            all.extend_from_slice(format!("{byte:02x}").as_bytes())
                        });
                    }
                    Cell::Integer(value) => all.extend_from_slice(value.to_string().as_bytes()),
                    Cell::Real(value) => all.extend_from_slice(value.to_string().as_bytes()),
                    Cell::Null => {}
                }
                ends.push(all.len());
                all.len() - before + 16
            }
            _ => return None,
        };
        self.levels.push(1);
        Some(size)
    }

    /// Writes the values as a column of a row group, and empties the buffer.
    pub(crate) fn write(&mut self, mut to: SerializedColumnWriter<'_>) -> Result<()> {
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            Values::Integers(all) => {
                to.typed::<Int64Type>().write_batch(all, levels, None)?;
                all.clear();
            }
            Values::Reals(all) => {
                to.typed::<DoubleType>().write_batch(all, levels, None)?;
                all.clear();
            }
            Values::Decimals(all) => {
                let values: Vec<FixedLenByteArray> = all
                    .iter()
                    .map(|bytes| FixedLenByteArray::from(ByteArray::from(bytes.to_vec())))
                    .collect();
                to.typed::<FixedLenByteArrayType>().write_batch(&values, levels, None)?;
                all.clear();
            }
            Values::Bytes(all, ends) => {
                let bytes = Bytes::from(std::mem::take(all));
                let (mut from, mut ends_left) = (0, ends.as_slice());
                let mut values: Vec<ByteArray> = Vec::with_capacity(VALUES_AT_ONCE);
                // Few at once: they are still in the CPU's cache when they are encoded.
                for levels in self.levels.chunks(VALUES_AT_ONCE) {
                    let count = levels.iter().filter(|level| **level > 0).count();
                    let (some, others) = ends_left.split_at(count.min(ends_left.len()));
                    ends_left = others;
                    values.clear();
                    values.extend(some.iter().map(|&end| {
                        ByteArray::from(bytes.slice(std::mem::replace(&mut from, end)..end))
                    }));
                    to.typed::<ByteArrayType>().write_batch(&values, Some(levels), None)?;
                }
                ends.clear();
            }
        }
        self.levels.clear();
        to.close()
    }
}

/// Encodes an integer as a decimal of Parquet: the low bytes in two's complement, the most significant first.
fn decimal(value: i128) -> [u8; DECIMAL_BYTES] {
    let all = value.to_be_bytes();
    let mut low = [0; DECIMAL_BYTES];
    low.iter_mut()
        .zip(all.iter().skip(all.len() - DECIMAL_BYTES))
        .for_each(|(to, from)| *to = *from);
    low
}
