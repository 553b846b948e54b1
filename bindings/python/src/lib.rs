//! This crate is the Python module `strata._strata`: traces as events, and as rows that SQL gives.
//!
//! ```text
//! Trace ─┬─ events() ── EventIterator ── a thread that reads ── Reader
//!        └─ sql() ──── Rows ─────────── a thread with a strata_sql::Database
//!                       └─ tuples, or Arrow batches through `__arrow_c_stream__`
//! ```
//!
//! What comes from a thread comes in batches over a bounded channel, so that memory stays bounded however slowly Python takes
//! it. Whoever waits for a batch holds no lock of the interpreter, and lets signals through.
//!
//! | file | what it is |
//! |---|---|
//! | `trace`, `session` | the objects that Python makes; they hold a reader, and no thread until something is asked |
//! | `events`, `event` | batches of records from the reading thread, as Python objects whose fields are made when they are read |
//! | `database_pool` | databases of one set of traces, so that a query may begin while another one is open |
//! | `rows`, `arrow`, `batch` | rows of a query as tuples, or as columns that pandas, polars and DuckDB take without a copy |
//! | `reports` | the reports of `strata analyze` as rows |
//! | `wait`, `errors` | waiting without the interpreter's lock; errors as Python exceptions |
//!
//! A thread ends when its iterator is gone: its channel is closed, and it notices that with the next batch. An
//! error of a thread is raised as an exception in the thread of Python that waits for it. docs/decisions/0054
//! says why the reader runs in Python's own process.

mod arrow;
mod batch;
mod database_pool;
mod errors;
mod event;
mod events;
mod reports;
mod rows;
mod session;
mod trace;
mod wait;

use pyo3::prelude::*;

/// Reads traces: see the package `strata`.
#[pymodule]
mod _strata {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::events::EventIterator;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::session::SessionSocket;
    #[pymodule_export]
    use crate::trace::Trace;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let reports = pyo3::types::PyDict::new(module.py());
        for (name, query) in crate::reports::REPORTS {
            reports.set_item(name, query)?;
        }
        module.add("REPORTS", reports)?;
        crate::errors::add(module)
    }
}
