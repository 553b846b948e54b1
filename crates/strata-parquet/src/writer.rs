//! Writes the rows of one table into one file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use strata_sql::{Cell, EventRows, RowSink};

use crate::column::{ColumnBuffer, DECIMAL_BYTES};
use crate::tables::{Kind, TableColumn};

/// The most rows of a row group.
const ROWS: usize = 1 << 19;
/// Size at which a row group ends as well \[byte\].
const BYTES: usize = 64 << 20;

/// What a file's metadata says of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOrigin<'o> {
    /// Version of the tables.
    pub version: u32,
    /// The selected records, if they are a part of a trace.
    pub selection: Option<&'o str>,
}

/// Writes the rows of one table into a file, by row groups.
pub struct TableWriter<W: Write + Send> {
    columns: Vec<TableColumn>,
    buffers: Vec<ColumnBuffer>,
    file: SerializedFileWriter<W>,
    /// Number of rows in the row group that is being collected, and their size \[byte\].
    rows: usize,
    bytes: usize,
    /// Number of all rows so far.
    written: u64,
}

fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

fn schema(columns: &[TableColumn]) -> Result<TypePtr, ParquetError> {
    let field = |column: &TableColumn| {
        let (physical, logical) = match column.kind {
            Kind::Integer => (Physical::INT64, None),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Blob => (Physical::BYTE_ARRAY, None),
            Kind::Unsigned => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::decimal(0, 20))),
        };
        let mut made = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        if column.kind == Kind::Unsigned {
            made = made.with_length(DECIMAL_BYTES as i32).with_precision(20).with_scale(0);
        }
        made.build().map(Arc::new)
    };
    let fields: Result<Vec<_>, _> = columns.iter().map(field).collect();
    Type::group_type_builder("strata").with_fields(fields?).build().map(Arc::new)
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins the file of a table with these columns. `sorted_by` is the column that sorts the rows.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(
        to: W,
        columns: Vec<TableColumn>,
        sorted_by: Option<&str>,
        origin: FileOrigin<'_>,
    ) -> io::Result<TableWriter<W>> {
        let schema = schema(&columns).map_err(of_parquet)?;
        let sorted = columns.iter().position(|column| Some(column.name.as_str()) == sorted_by);
        let sorting = sorted.and_then(|index| i32::try_from(index).ok()).map(|column_idx| {
            vec![SortingColumn { column_idx, descending: false, nulls_first: true }]
        });
        let version = origin.version.to_string();
        let selection = origin.selection.map(|text| ("strata.selection", text));
        let metadata = [("strata.schema_version", &*version), ("strata.time_unit", "ns")]
            .into_iter()
            .chain(selection);
        let metadata: Vec<KeyValue> =
            metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned())).collect();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(format!("strata {}", env!("CARGO_PKG_VERSION")))
            .set_sorting_columns(sorting)
            .set_key_value_metadata(Some(metadata));
        for column in &columns {
            let path = ColumnPath::from(column.name.as_str());
            if column.has_dictionary() || column.has_other_values_in_each_row() {
                properties = properties.set_column_dictionary_enabled(path.clone(), false);
            }
            if !column.is_compared() {
                properties =
                    properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        let file = SerializedFileWriter::new(to, schema, Arc::new(properties.build()))
            .map_err(of_parquet)?;
        let buffers = columns.iter().map(ColumnBuffer::new).collect();
        Ok(TableWriter { columns, buffers, file, rows: 0, bytes: 0, written: 0 })
    }

    /// Adds a row to the row group that is being collected.
    ///
    /// # Errors
    /// The file cannot be written, or a value is of another type than its column.
    pub fn push(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for ((buffer, column), cell) in self.buffers.iter_mut().zip(&self.columns).zip(cells) {
            let Some(size) = buffer.push(cell) else {
                return Err(io::Error::other(format!(
                    "column '{}' is of type {:?}, and a row has {}",
                    column.name,
                    column.kind,
                    cell.data_type()
                )));
            };
            self.bytes += size;
        }
        self.rows += 1;
        self.written += 1;
        match self.rows >= ROWS || self.bytes >= BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Adds rows of event records.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    fn push_events(&mut self, rows: &EventRows<'_>) -> io::Result<()> {
        let mut first = 0;
        while first < rows.rows() {
            let count = (ROWS - self.rows).min(rows.rows() - first);
            for (index, (buffer, column)) in self.buffers.iter_mut().zip(&self.columns).enumerate()
            {
                if !buffer.push_events(rows, index, first, count) {
                    return Err(io::Error::other(format!(
                        "column '{}' is of type {:?}, and a row has a value of another one",
                        column.name, column.kind
                    )));
                }
            }
            first += count;
            self.rows += count;
            self.written += count as u64;
            self.bytes = self.buffers.iter().map(ColumnBuffer::size).sum();
            if self.rows >= ROWS || self.bytes >= BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let schema = self.file.schema_descr();
        let descriptions: Vec<_> = schema.columns().to_vec();
        let mut group = self.file.next_row_group().map_err(of_parquet)?;
        for ((buffer, column), descr) in
            self.buffers.iter_mut().zip(&self.columns).zip(&descriptions)
        {
            buffer.write(&mut group, descr, column.is_compared()).map_err(of_parquet)?;
        }
        group.close().map_err(of_parquet)?;
        self.rows = 0;
        self.bytes = 0;
        Ok(())
    }

    /// Completes the file with its last row group and its footer. Returns the writer `to`, and the number of rows.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.flush()?;
        let written = self.written;
        Ok((self.file.into_inner().map_err(of_parquet)?, written))
    }
}

impl TableWriter<BufWriter<File>> {
    /// Completes the file, and waits until it is on the disk. Returns the number of rows and the size of the file
    /// \[byte\].
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish_file(self) -> io::Result<(u64, u64)> {
        let (to, rows) = self.finish()?;
        let file = to.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()?;
        Ok((rows, file.metadata()?.len()))
    }
}

impl<W: Write + Send> RowSink for TableWriter<W> {
    fn columns(&mut self, _: &[&str]) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        self.push(cells).map(|()| ControlFlow::Continue(()))
    }

    fn event_rows(&mut self, rows: &mut EventRows<'_>) -> io::Result<ControlFlow<()>> {
        self.push_events(rows).map(|()| ControlFlow::Continue(()))
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
