//! Rows as Arrow batches, through the C stream interface.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, PoisonError};
use std::thread::{self, ThreadId};

use arrow_array::builder::{
    BinaryBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::batch::{BatchCell, RowBatch};
use crate::database_pool::{Answer, RunningQuery};
use crate::errors;
use crate::rows::{keep, LeftOut};
use crate::wait::{is_interrupted, PATIENCE};

/// Name of the stream, by which Arrow's consumers recognize the content of the capsule.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";
const FAULT: &str = "the query has ended by a fault of strata";
/// Name of a schema's capsule.
const SCHEMA: &std::ffi::CStr = c"arrow_schema";

/// Makes the capsule with the schema of rows that begin with these batches.
pub(crate) fn schema<'py>(
    py: Python<'py>,
    columns: &[String],
    types: &[Option<String>],
    batches: &VecDeque<RowBatch>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema_of(columns, types, batches));
    let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

fn schema_of(columns: &[String], types: &[Option<String>], batches: &VecDeque<RowBatch>) -> Schema {
    let width = columns.len();
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let declared = types.get(index).and_then(Option::as_deref);
            Field::new(name, type_of(declared, index, width, batches), true)
        })
        .collect();
    Schema::new(fields)
}

/// Makes the capsule with a stream of these batches, and of those that the query still returns.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    (columns, types): (&[String], &[Option<String>]),
    batches: VecDeque<RowBatch>,
    query: Option<RunningQuery>,
    left_out: LeftOut,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = Arc::new(schema_of(columns, types, &batches));
    let maker = thread::current().id();
    let reader = BatchReader { schema, batches, query, left_out, maker };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// Returns the type of a column: as a table declares it, otherwise the narrowest for the values in its first rows.
fn type_of(
    declared: Option<&str>,
    column: usize,
    width: usize,
    batches: &VecDeque<RowBatch>,
) -> DataType {
    match declared {
        Some("INTEGER") => return DataType::Int64,
        Some("UNSIGNED BIGINT") => return DataType::UInt64,
        Some("REAL") => return DataType::Float64,
        Some("BLOB") => return DataType::Binary,
        Some("TEXT") => return DataType::Utf8,
        _ => {}
    }
    let mut found = None;
    for batch in batches {
        for cell in batch.cells.iter().skip(column).step_by(width.max(1)) {
            let next = match cell {
                BatchCell::Null => continue,
                BatchCell::Integer(_) => DataType::Int64,
                BatchCell::Real(_) => DataType::Float64,
                BatchCell::Text(..) => DataType::Utf8,
                BatchCell::Blob(..) => DataType::Binary,
            };
            found = Some(match found {
                None => next,
                Some(before) if before == next => next,
                Some(DataType::Int64 | DataType::Float64)
                    if matches!(next, DataType::Int64 | DataType::Float64) =>
                {
                    DataType::Float64
                }
                Some(_) => DataType::Utf8,
            });
        }
    }
    found.unwrap_or(DataType::Utf8)
}

/// Reader of the batches that were received before, and then of those that the query still returns.
struct BatchReader {
    schema: SchemaRef,
    batches: VecDeque<RowBatch>,
    query: Option<RunningQuery>,
    left_out: LeftOut,
    /// The thread that has asked for the stream: one of Python's.
    maker: ThreadId,
}

impl BatchReader {
    /// Waits for the next answer of the query.
    ///
    /// # Errors
    /// A signal has ended the wait, or the query's thread has ended by a fault.
    fn receive(&self, query: &RunningQuery) -> Result<Answer, &'static str> {
        let answers = query.answers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match answers.recv_timeout(PATIENCE) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(FAULT),
                // A consumer may ask from a thread of its own, for which a thread that holds the interpreter's lock waits.
                Err(RecvTimeoutError::Timeout) => {
                    if thread::current().id() == self.maker && Python::attach(is_interrupted) {
                        return Err("interrupted by a signal");
                    }
                }
            }
        }
    }

    fn next_rows(&mut self) -> Option<Result<RowBatch, ArrowError>> {
        if let Some(batch) = self.batches.pop_front() {
            return Some(Ok(batch));
        }
        let query = self.query.as_ref()?;
        match self.receive(query) {
            Ok(Answer::Rows(batch)) => Some(Ok(batch)),
            Ok(Answer::End(end)) => {
                self.query = None;
                match end {
                    Ok(found) => {
                        keep(&self.left_out, &found);
                        if errors::is_missing(&found) {
                            // A consumer may call from any thread, where no Python code could catch a warning that is
                            // an exception.
                            Python::attach(|py| {
                                if let Err(error) = errors::warn_of(py, &found) {
                                    error.write_unraisable(py, None);
                                }
                            });
                        }
                        None
                    }
                    Err(error) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
                }
            }
            Ok(Answer::Columns(..)) => {
                self.query = None;
                Some(Err(ArrowError::ComputeError(FAULT.to_owned())))
            }
            Err(text) => {
                self.query = None;
                Some(Err(ArrowError::ComputeError(text.to_owned())))
            }
        }
    }

    fn convert(&self, rows: &RowBatch) -> Result<RecordBatch, ArrowError> {
        let width = self.schema.fields().len();
        let arrays: Result<Vec<ArrayRef>, ArrowError> = self
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| array(field, rows, rows.cells.iter().skip(index).step_by(width)))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays?, &options)
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.next_rows()?;
        Some(rows.and_then(|rows| self.convert(&rows)))
    }
}

impl RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Makes the error for a value that does not fit the type of its column.
fn misfit(field: &Field, found: &str) -> ArrowError {
    ArrowError::CastError(format!(
        "column '{}' is of type {}, by its first rows, and a later row has {found}: cast it in the query",
        field.name(),
        field.data_type()
    ))
}

fn array<'c>(
    field: &Field,
    rows: &RowBatch,
    cells: impl Iterator<Item = &'c BatchCell>,
) -> Result<ArrayRef, ArrowError> {
    Ok(match field.data_type() {
        DataType::Int64 => {
            let mut out = Int64Builder::with_capacity(rows.rows);
            for cell in cells {
                match *cell {
                    BatchCell::Null => out.append_null(),
                    BatchCell::Integer(value) => out.append_value(value),
                    BatchCell::Real(_) => return Err(misfit(field, "a real number")),
                    BatchCell::Text(from, to) => {
                        return Err(misfit(field, &format!("the text '{}'", rows.text(from, to))))
                    }
                    BatchCell::Blob(..) => return Err(misfit(field, "bytes")),
                }
            }
            Arc::new(out.finish())
        }
        DataType::UInt64 => {
            let mut out = UInt64Builder::with_capacity(rows.rows);
            for cell in cells {
                let value = match *cell {
                    BatchCell::Null => {
                        out.append_null();
                        continue;
                    }
                    BatchCell::Integer(value) => u64::try_from(value).ok(),
                    BatchCell::Text(from, to) => rows.text(from, to).parse().ok(),
                    BatchCell::Real(_) | BatchCell::Blob(..) => None,
                };
                out.append_value(value.ok_or_else(|| misfit(field, "another value"))?);
            }
            Arc::new(out.finish())
        }
        DataType::Float64 => {
            let mut out = Float64Builder::with_capacity(rows.rows);
            for cell in cells {
                match *cell {
                    BatchCell::Null => out.append_null(),
                    BatchCell::Integer(value) => out.append_value(value as f64),
                    BatchCell::Real(value) => out.append_value(value),
                    // SQLite has no NaN, so it is passed as a text.
                    BatchCell::Text(from, to) => match rows.text(from, to).parse() {
                        Ok(value) => out.append_value(value),
                        Err(_) => return Err(misfit(field, "a text")),
                    },
                    BatchCell::Blob(..) => return Err(misfit(field, "bytes")),
                }
            }
            Arc::new(out.finish())
        }
        DataType::Binary => {
            let mut out = BinaryBuilder::with_capacity(rows.rows, rows.bytes.len());
            for cell in cells {
                match *cell {
                    BatchCell::Null => out.append_null(),
                    BatchCell::Blob(from, to) | BatchCell::Text(from, to) => {
                        out.append_value(rows.part(from, to));
                    }
                    BatchCell::Integer(_) | BatchCell::Real(_) => {
                        return Err(misfit(field, "a number"))
                    }
                }
            }
            Arc::new(out.finish())
        }
        _ => {
            let mut out = StringBuilder::with_capacity(rows.rows, rows.bytes.len());
            for cell in cells {
                match *cell {
                    BatchCell::Null => out.append_null(),
                    BatchCell::Integer(value) => out.append_value(value.to_string()),
                    BatchCell::Real(value) => out.append_value(value.to_string()),
                    BatchCell::Text(from, to) => out.append_value(rows.text(from, to)),
                    BatchCell::Blob(from, to) => {
                        let digits = rows.part(from, to).iter().map(|byte| format!("{byte:02x}"));
                        out.append_value(digits.collect::<String>());
                    }
                }
            }
            Arc::new(out.finish())
        }
    })
}
