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

mod arrow;
mod batch;
mod errors;
mod event;
mod events;
mod pool;
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
