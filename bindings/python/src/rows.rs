//! Rows of a query, for Python.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyString, PyTuple};

use strata_sql::Found;

use crate::arrow;
use crate::batch::{BatchCell, RowBatch};
use crate::database_pool::{Answer, DatabasePool, Question, RunningQuery};
use crate::errors;
use crate::wait;

/// Quotes a name as an identifier in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Number of rows from which the types of computed columns are taken.
const ROWS_LOOKED_AT: usize = 4096;

/// What the tables of a query lack since there is too much of it in the traces, once the query has ended.
pub(crate) type LeftOut = Arc<Mutex<Vec<String>>>;

/// The rows of a query, as they come: tuples, or Arrow batches. Each Arrow stream runs the query again.
#[pyclass(module = "strata")]
pub(crate) struct Rows {
    pool: Arc<DatabasePool>,
    question: Question,
    /// True if the rows were handed over as a stream.
    is_taken: bool,
    /// True if rows were given as tuples, or there was none to give.
    is_read: bool,
    left_out: LeftOut,
    /// Names of the columns, in order.
    #[pyo3(get)]
    columns: Vec<String>,
    types: Vec<Option<String>>,
    query: Option<RunningQuery>,
    batches: VecDeque<RowBatch>,
    /// Index of the next row in the first batch.
    row: usize,
}

impl Rows {
    /// Begins a query, and waits for its columns.
    pub(crate) fn ask(
        py: Python<'_>,
        pool: &Arc<DatabasePool>,
        question: &Question,
    ) -> PyResult<Rows> {
        let query = pool.start(question.clone()).map_err(|error| errors::of_query(&error))?;
        match wait::next(py, &query.answers)? {
            Some(Answer::Columns(columns, types)) => Ok(Rows {
                pool: Arc::clone(pool),
                question: question.clone(),
                is_taken: false,
                is_read: false,
                left_out: LeftOut::default(),
                columns,
                types,
                query: Some(query),
                batches: VecDeque::new(),
                row: 0,
            }),
            Some(Answer::End(Err(error))) => Err(errors::of_query(&error)),
            _ => Err(ended_by_fault()),
        }
    }

    /// Begins the query again if a stream has its rows. A consumer may ask for several streams, as DuckDB does: the first
    /// for the schema alone.
    fn begin_again(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.is_taken {
            let again = Rows::ask(py, &self.pool, &self.question)?;
            *self = Rows { left_out: Arc::clone(&self.left_out), ..again };
        }
        Ok(())
    }

    /// Begins the query once more for a consumer of Arrow batches, if rows were given as tuples: those that are left would be a
    /// part, or none. Who takes tuples goes on with these.
    fn once_more(&self, py: Python<'_>) -> PyResult<Option<Rows>> {
        if !self.is_read {
            return Ok(None);
        }
        let again = Rows::ask(py, &self.pool, &self.question)?;
        Ok(Some(Rows { left_out: Arc::clone(&self.left_out), ..again }))
    }

    /// Waits for the rows from which the types of computed columns are taken.
    fn look_ahead(&mut self, py: Python<'_>) -> PyResult<()> {
        self.begin_again(py)?;
        let mut rows = self.batches.iter().map(|batch| batch.rows).sum::<usize>();
        while rows < ROWS_LOOKED_AT && self.receive(py)? {
            rows += self.batches.back().map_or(0, |batch| batch.rows);
        }
        Ok(())
    }

    /// Waits for one more batch. Returns false if there is none.
    fn receive(&mut self, py: Python<'_>) -> PyResult<bool> {
        let Some(query) = &self.query else { return Ok(false) };
        match wait::next(py, &query.answers)? {
            Some(Answer::Rows(batch)) => {
                self.batches.push_back(batch);
                Ok(true)
            }
            Some(Answer::End(end)) => {
                self.query = None;
                let found = end.map_err(|error| errors::of_query(&error))?;
                keep(&self.left_out, &found);
                errors::warn_of(py, &found).map(|()| false)
            }
            _ => {
                self.query = None;
                Err(ended_by_fault())
            }
        }
    }
}

/// Keeps what the tables of a query lack.
pub(crate) fn keep(place: &LeftOut, found: &Found) {
    place.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&found.left_out);
}

fn ended_by_fault() -> PyErr {
    errors::QueryError::new_err("the query has ended by a fault of strata")
}

fn value<'py>(py: Python<'py>, batch: &RowBatch, cell: BatchCell) -> PyResult<Bound<'py, PyAny>> {
    Ok(match cell {
        BatchCell::Null => py.None().into_bound(py),
        BatchCell::Integer(value) => value.into_pyobject(py)?.into_any(),
        BatchCell::Real(value) => value.into_pyobject(py)?.into_any(),
        BatchCell::Text(from, to) => PyString::new(py, &batch.text(from, to)).into_any(),
        BatchCell::Blob(from, to) => PyBytes::new(py, batch.part(from, to)).into_any(),
    })
}

#[pymethods]
impl Rows {
    fn __iter__(rows: PyRef<'_, Self>) -> PyRef<'_, Self> {
        rows
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.begin_again(py)?;
        self.is_read = true;
        let width = self.columns.len();
        loop {
            if let Some(batch) = self.batches.front() {
                if self.row < batch.rows {
                    let cells = batch.cells.get(self.row * width..(self.row + 1) * width);
                    self.row += 1;
                    let cells = cells.unwrap_or_default().iter();
                    let values: PyResult<Vec<_>> =
                        cells.map(|&cell| value(py, batch, cell)).collect();
                    return PyTuple::new(py, values?).map(Some);
                }
                self.batches.pop_front();
                self.row = 0;
                continue;
            }
            if !self.receive(py)? {
                return Ok(None);
            }
        }
    }

    /// All rows that were not taken yet.
    fn fetchall<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut all = Vec::new();
        while let Some(row) = self.__next__(py)? {
            all.push(row);
        }
        Ok(all)
    }

    /// A pyarrow.Table of the rows; pyarrow has to be installed.
    fn to_arrow<'py>(rows: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = rows.py().import("pyarrow")?;
        let reader = pyarrow.getattr("RecordBatchReader")?.call_method1("from_stream", (rows,))?;
        // pyarrow makes an error of its own of a signal that has ended the stream.
        reader.call_method0("read_all").map_err(|error| match rows.py().check_signals() {
            Ok(()) => error,
            Err(signal) => signal,
        })
    }

    /// A pandas.DataFrame of the rows; pandas and pyarrow have to be installed.
    fn to_pandas<'py>(rows: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Rows::to_arrow(rows)?.call_method0("to_pandas")
    }

    /// The Arrow schema of the rows.
    pub(crate) fn __arrow_c_schema__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if let Some(mut again) = self.once_more(py)? {
            return again.__arrow_c_schema__(py);
        }
        self.look_ahead(py)?;
        arrow::schema(py, &self.columns, &self.types, &self.batches)
    }

    /// The Arrow C stream of the rows, by which pyarrow, polars, DuckDB and pandas take them without a copy.
    #[pyo3(signature = (requested_schema = None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &mut self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if let Some(mut again) = self.once_more(py)? {
            return again.__arrow_c_stream__(py, requested_schema);
        }
        // A consumer that asks for another schema may get ours, and then casts.
        drop(requested_schema);
        self.look_ahead(py)?;
        self.is_taken = true;
        let batches = std::mem::take(&mut self.batches);
        let left_out = Arc::clone(&self.left_out);
        arrow::stream(py, (&self.columns, &self.types), batches, self.query.take(), left_out)
    }

    /// What the tables lack, since there is too much of it in the traces, as texts: known when the last row was given.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn __repr__(&self) -> String {
        format!("<strata.Rows columns={:?}>", self.columns)
    }
}
