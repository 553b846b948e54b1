//! Values of one column of a row group.

use std::io::Write;

use bytes::Bytes;
use parquet::data_type::{
    ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedColumnWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnDescPtr;
use strata_sql::{Cell, EventRows, EventValue};

use crate::dictionary::{chunk, integer, Dictionary};
use crate::tables::{Kind, TableColumn};

/// Size of a decimal of 20 digits and a sign \[byte\].
pub(crate) const DECIMAL_BYTES: usize = 9;

/// The most texts that are encoded at once.
const VALUES_AT_ONCE: usize = 1024;
/// Numbers of texts count as this part of the texts' sizes: these take memory if the dictionary turns out to be too small.
const TEXTS_PART: usize = 4;

/// Values of a row group's column, without NULLs.
#[derive(Debug)]
enum Values {
    /// Numbers of texts or integers in a dictionary, until that is full.
    Numbers(Vec<u32>),
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Decimals(Vec<[u8; DECIMAL_BYTES]>),
    /// All texts, one after the other, and the end of each.
    Bytes(Vec<u8>, Vec<usize>),
}

impl Values {
    /// Returns the place for values of a kind, without a dictionary.
    fn plain(kind: Kind) -> Values {
        match kind {
            Kind::Integer => Values::Integers(Vec::new()),
            Kind::Real => Values::Reals(Vec::new()),
            Kind::Unsigned => Values::Decimals(Vec::new()),
            Kind::Text | Kind::Blob => Values::Bytes(Vec::new(), Vec::new()),
        }
    }
}

/// A column of a row group.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    kind: Kind,
    /// Definition levels: 1 for each value, 0 for each NULL.
    levels: Vec<i16>,
    values: Values,
    /// The values of [`Values::Numbers`]; `None` for a column that has no dictionary of ours.
    dictionary: Option<Dictionary>,
    /// Size of the values of [`Values::Numbers`] if each was there by itself \[byte\].
    apart: usize,
    /// Numbers of events' names, by number of the event's class.
    names: Vec<Option<u32>>,
}

impl ColumnBuffer {
    pub(crate) fn new(column: &TableColumn) -> ColumnBuffer {
        let dictionary = column.has_dictionary().then(Dictionary::new);
        let values = match dictionary {
            Some(_) => Values::Numbers(Vec::new()),
            None => Values::plain(column.kind),
        };
        let (levels, names) = (Vec::new(), Vec::new());
        ColumnBuffer { kind: column.kind, levels, values, dictionary, apart: 0, names }
    }

    /// Adds a text, which is UTF-8 if `is_utf8`, or an integer as eight bytes, by its number. Returns its size \[byte\] and its
    /// number, or `None` if the column has no dictionary any more.
    #[inline]
    fn push_number(&mut self, value: &[u8], is_utf8: bool) -> Option<(usize, u32)> {
        let (Values::Numbers(numbers), Some(dictionary)) = (&mut self.values, &mut self.dictionary)
        else {
            return None;
        };
        if let Some(number) = dictionary.find(value) {
            numbers.push(number as u32);
            self.levels.push(1);
            self.apart += value.len();
            return Some((6 + value.len() / TEXTS_PART, number as u32));
        }
        self.push_new(value, is_utf8)
    }

    #[cold]
    fn push_new(&mut self, value: &[u8], is_utf8: bool) -> Option<(usize, u32)> {
        let is_text = !is_utf8 && self.kind == Kind::Text;
        if is_text && std::str::from_utf8(value).is_err() {
            let text = String::from_utf8_lossy(value).into_owned();
            return self.push_number(text.as_bytes(), true);
        }
        let (Values::Numbers(numbers), Some(dictionary)) = (&mut self.values, &mut self.dictionary)
        else {
            return None;
        };
        if let Some(number) = dictionary.add(value) {
            numbers.push(number as u32);
            self.levels.push(1);
            self.apart += value.len();
            return Some((value.len() + 10, number as u32));
        }
        // Too many different values: all of the row group are written one by one.
        self.apart = 0;
        let mut plain = Values::plain(self.kind);
        for number in numbers.iter() {
            let value = dictionary.value(*number as usize);
            match &mut plain {
                Values::Integers(all) => all.push(integer(value)),
                Values::Bytes(all, ends) => {
                    all.extend_from_slice(value);
                    ends.push(all.len());
                }
                _ => {}
            }
        }
        dictionary.clear();
        self.values = plain;
        None
    }

    /// Returns about how much memory the values take \[byte\].
    pub(crate) fn size(&self) -> usize {
        let values = match &self.values {
            Values::Numbers(all) => size_of_val(&**all),
            Values::Integers(all) => size_of_val(&**all),
            Values::Reals(all) => size_of_val(&**all),
            Values::Decimals(all) => size_of_val(&**all),
            Values::Bytes(all, ends) => all.len() + size_of_val(&**ends),
        };
        let known = self.dictionary.as_ref().map_or(0, Dictionary::size);
        values + size_of_val(&*self.levels) + known + self.apart / TEXTS_PART
    }

    /// Adds the values of a column of event records, those of `count` rows from `first` on. Returns false if one is of another type.
    pub(crate) fn push_events(
        &mut self,
        rows: &EventRows<'_>,
        column: usize,
        first: usize,
        count: usize,
    ) -> bool {
        let bytes = rows.bytes();
        let part = |from: u32, to: u32| bytes.get(from as usize..to as usize).unwrap_or_default();
        // The last text, and its number: rows share the bytes of names.
        let mut last = (0, 0, None);
        rows.column(column).skip(first).take(count).all(|value| {
            let pushed = match value {
                EventValue::Null => {
                    self.levels.push(0);
                    return true;
                }
                EventValue::Integer(number) if self.kind == Kind::Integer => {
                    self.push_number(&number.to_le_bytes(), true).is_some()
                }
                EventValue::Name(class, name) if self.kind == Kind::Text => {
                    self.push_name(class as usize, name)
                }
                EventValue::Text(from, to) if self.kind == Kind::Text => {
                    match (&mut self.values, last) {
                        (Values::Numbers(numbers), (before, end, Some(number)))
                            if (before, end) == (from, to) =>
                        {
                            numbers.push(number);
                            self.levels.push(1);
                            self.apart += part(from, to).len();
                            true
                        }
                        _ => {
                            let pushed = self.push_number(part(from, to), true);
                            last = (from, to, pushed.map(|(_, number)| number));
                            pushed.is_some()
                        }
                    }
                }
                _ => false,
            };
            pushed
                || self
                    .push(&match value {
                        EventValue::Null => Cell::Null,
                        EventValue::Integer(value) => Cell::Integer(value),
                        EventValue::Real(value) => Cell::Real(value),
                        EventValue::Name(_, name) => Cell::Text(name.as_bytes()),
                        EventValue::Text(from, to) => Cell::Text(part(from, to)),
                        EventValue::Blob(from, to) => Cell::Blob(part(from, to)),
                    })
                    .is_some()
        })
    }

    #[inline]
    fn push_name(&mut self, class: usize, name: &str) -> bool {
        if let (Values::Numbers(numbers), Some(Some(number))) =
            (&mut self.values, self.names.get(class))
        {
            numbers.push(*number);
            self.levels.push(1);
            self.apart += name.len();
            return true;
        }
        let Some((_, number)) = self.push_number(name.as_bytes(), true) else { return false };
        if self.names.len() <= class {
            self.names.resize(class + 1, None);
        }
        if let Some(known) = self.names.get_mut(class) {
            *known = Some(number);
        }
        true
    }

    /// Adds a value. Returns its size \[byte\], or `None` if it is of another type.
    pub(crate) fn push(&mut self, cell: &Cell<'_>) -> Option<usize> {
        let pushed = match (self.kind, *cell) {
            (_, Cell::Null) => {
                self.levels.push(0);
                return Some(2);
            }
            (Kind::Integer, Cell::Integer(value)) => self.push_number(&value.to_le_bytes(), true),
            (Kind::Text, Cell::Text(text)) => self.push_number(text, false),
            (Kind::Text, Cell::Integer(value)) => {
                self.push_number(value.to_string().as_bytes(), true)
            }
            (Kind::Text, Cell::Real(value)) => self.push_number(value.to_string().as_bytes(), true),
            (Kind::Text, Cell::Blob(bytes)) => self.push_number(digits(bytes).as_bytes(), true),
            _ => None,
        };
        if let Some((size, _)) = pushed {
            return Some(size);
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
                    Cell::Blob(bytes) => all.extend_from_slice(digits(bytes).as_bytes()),
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

    /// Writes the values as the next column of a row group, and empties the buffer.
    pub(crate) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        descr: &ColumnDescPtr,
        is_compared: bool,
    ) -> Result<()> {
        match (&self.values, &self.dictionary) {
            (Values::Numbers(numbers), Some(dictionary)) if !numbers.is_empty() => {
                let descr = ColumnDescPtr::clone(descr);
                let chunk = chunk(descr, dictionary, &self.levels, numbers, is_compared)?;
                group.append_column(&chunk.pages, chunk.close)?;
            }
            _ => match group.next_column()? {
                Some(column) => self.write_plain(column)?,
                None => return Err(ParquetError::General("a column has no room".to_owned())),
            },
        }
        self.levels.clear();
        self.apart = 0;
        self.names.clear();
        match &mut self.dictionary {
            None => {}
            Some(dictionary) => {
                dictionary.clear();
                match &mut self.values {
                    Values::Numbers(numbers) => numbers.clear(),
                    plain => *plain = Values::Numbers(Vec::new()),
                }
            }
        }
        Ok(())
    }

    fn write_plain(&mut self, mut to: SerializedColumnWriter<'_>) -> Result<()> {
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            // All are NULL.
            Values::Numbers(_) if self.kind == Kind::Integer => {
                to.typed::<Int64Type>().write_batch(&[], levels, None)?;
            }
            Values::Numbers(_) => {
                to.typed::<ByteArrayType>().write_batch(&[], levels, None)?;
            }
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
        to.close()
    }
}

/// Returns bytes as hexadecimal digits.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
