//! Traces that are open, for Python.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use strata_ctf::read::{Reader, TimeRange};
use strata_filter::Filter;
use strata_sql::{Options, Tables};

use crate::database_pool::{DatabasePool, Question, StopRequest};
use crate::errors::{self, OpenError, QueryError};
use crate::events::{EventIterator, EventRequest};
use crate::reports::REPORTS;
use crate::rows::{quoted, Rows};
use crate::wait;

/// Traces that are read together, by time.
#[pyclass(module = "strata", frozen)]
pub(crate) struct Trace {
    reader: Arc<Reader>,
    pool: Arc<DatabasePool>,
}

/// Parses rules for spans or counters.
fn rules<R: FromStr<Err: Display>>(texts: &[String]) -> PyResult<Vec<R>> {
    let parsed = texts.iter().map(|text| text.parse());
    parsed.collect::<Result<_, _>>().map_err(|error: R::Err| OpenError::new_err(error.to_string()))
}

impl Trace {
    fn all_tables(&self, py: Python<'_>) -> PyResult<Vec<Tables>> {
        let pool = Arc::clone(&self.pool);
        let tables = wait::run(py, "tables", move || {
            pool.with(&StopRequest::default(), |database| database.tables())
        })?;
        tables.map_err(|error| errors::of_query(&error))
    }
}

#[pymethods]
impl Trace {
    /// Opens the traces that are in these folders.
    #[new]
    #[pyo3(signature = (*paths, pairs = Vec::new(), counters = Vec::new()))]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        pairs: Vec<String>,
        counters: Vec<String>,
    ) -> PyResult<Trace> {
        if paths.is_empty() {
            return Err(OpenError::new_err("no trace is named: pass its folder"));
        }
        let options =
            Options { pairs: rules(&pairs)?, counters: rules(&counters)?, ..Options::default() };
        let opened = wait::run(py, "open", move || Reader::open(&paths))?;
        let reader = Arc::new(opened.map_err(|error| OpenError::new_err(error.to_string()))?);
        let damage = reader.damage().iter();
        for damage in damage.filter(|damage| !damage.is_note() && !damage.is_remark()) {
            errors::warn(py, &damage.to_string())?;
        }
        let pool = Arc::new(DatabasePool::new(Arc::clone(&reader), options));
        Ok(Trace { reader, pool })
    }

    /// The event records, by time.
    ///
    /// `filter` is an expression of `strata view --filter`, such as 'sched_switch && next_comm == "nginx"'; `names` are names of
    /// events; `begin_ns` and `end_ns` are the first and the last time, in nanoseconds since 1970.
    #[pyo3(signature = (filter = None, *, names = None, begin_ns = None, end_ns = None))]
    fn events(
        &self,
        filter: Option<&str>,
        names: Option<Vec<String>>,
        begin_ns: Option<i64>,
        end_ns: Option<i64>,
    ) -> PyResult<EventIterator> {
        let parsed = filter.map(str::parse::<Filter>).transpose();
        let filter = parsed.map_err(|error| QueryError::new_err(format!("filter: {error}")))?;
        let range =
            TimeRange { from: begin_ns.unwrap_or(i64::MIN), to: end_ns.unwrap_or(i64::MAX) };
        Ok(EventIterator::new(&self.reader, EventRequest { range, filter, names }))
    }

    fn __iter__(&self) -> PyResult<EventIterator> {
        self.events(None, None, None, None)
    }

    /// The rows of a query: see docs/guide/sql.md for the tables.
    fn sql(&self, py: Python<'_>, query: &str) -> PyResult<Rows> {
        Rows::ask(py, &self.pool, &Question::Query(query.to_owned()))
    }

    /// All rows of a table, such as 'calls', 'states', 'spans' or the name of an event.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Rows> {
        let all = self.all_tables(py)?;
        let Some(table) = all.into_iter().find(|table| table.name.eq_ignore_ascii_case(name))
        else {
            return Err(PyKeyError::new_err(format!(
                "there is no table '{name}': see Trace.tables"
            )));
        };
        // Of these there is nothing to join or to sort.
        let question = match table.is_of_events {
            true => Question::Events { table: table.name, columns: None, names: None },
            false => Question::Query(format!("SELECT * FROM {}", quoted(&table.name))),
        };
        Rows::ask(py, &self.pool, &question)
    }

    /// A report of `strata analyze` as rows; `REPORTS` has their names and queries.
    fn report(&self, py: Python<'_>, name: &str) -> PyResult<Rows> {
        let Some((_, query)) = REPORTS.iter().find(|(other, _)| *other == name) else {
            return Err(PyKeyError::new_err(format!(
                "there is no report '{name}': see strata.REPORTS"
            )));
        };
        self.sql(py, query)
    }

    /// What each thread did and waited for: its states, by time.
    fn timeline(&self, py: Python<'_>) -> PyResult<Rows> {
        self.sql(py, "SELECT * FROM states ORDER BY begin_ns")
    }

    /// The tables: names, each with the names and types of its columns.
    #[getter]
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for table in self.all_tables(py)? {
            let columns = PyDict::new(py);
            for (name, of) in &table.columns {
                columns.set_item(name, of)?;
            }
            all.set_item(&table.name, columns)?;
        }
        Ok(all)
    }

    /// The folders that are read, in the order of `Event.trace`.
    #[getter]
    fn traces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.reader.traces().iter().map(|trace| trace.path().to_path_buf()))
    }

    /// The time of the first record, in nanoseconds since 1970, as far as packets tell; None if there is none.
    #[getter]
    fn begin_ns(&self) -> Option<i64> {
        self.reader.span().map(|span| span.from)
    }

    /// The time of the last record.
    #[getter]
    fn end_ns(&self) -> Option<i64> {
        self.reader.span().map(|span| span.to)
    }

    fn __repr__(&self) -> String {
        let names = self.reader.traces().iter().map(|trace| trace.name().to_owned());
        format!("<strata.Trace {:?}>", names.collect::<Vec<_>>())
    }
}
