//! Exceptions and warnings of the module.

use pyo3::exceptions::{PyException, PyUserWarning};
use pyo3::prelude::*;
use pyo3::{create_exception, PyTypeInfo};
use strata_sql::{Found, SqlError};

create_exception!(strata, Error, PyException, "An error of this package.");
create_exception!(strata, OpenError, Error, "A trace cannot be opened.");
create_exception!(strata, QueryError, Error, "A query or a filter is wrong, or has no answer.");
create_exception!(strata, SessionError, Error, "A session is not there, or refuses a request.");
create_exception!(
    strata,
    TraceWarning,
    PyUserWarning,
    "A trace lacks something: records that the tracer discarded, or damage that was skipped."
);

/// Adds the exceptions and warnings to the module.
///
/// # Errors
/// Python has no memory.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", Error::type_object(py))?;
    module.add("OpenError", OpenError::type_object(py))?;
    module.add("QueryError", QueryError::type_object(py))?;
    module.add("SessionError", SessionError::type_object(py))?;
    module.add("TraceWarning", TraceWarning::type_object(py))
}

/// Converts an error of a query to an exception.
pub(crate) fn of_query(error: &SqlError) -> PyErr {
    QueryError::new_err(error.to_string())
}

/// Returns true if a query has found that something is missing.
pub(crate) fn is_missing(found: &Found) -> bool {
    missing(found).is_some() || !found.left_out.is_empty()
}

/// Warns about what is missing in what a query has read.
///
/// # Errors
/// The user has made warnings exceptions.
pub(crate) fn warn_of(py: Python<'_>, found: &Found) -> PyResult<()> {
    for text in missing(found).iter().chain(&found.left_out) {
        warn(py, text)?;
    }
    Ok(())
}

/// Returns the text of a warning about records that are missing; `None` if none are.
fn missing(found: &Found) -> Option<String> {
    let mut parts = Vec::new();
    if found.records > 0 {
        parts.push(format!("{} event records discarded by the tracer", found.records));
    }
    if found.packets > 0 {
        parts.push(format!("{} packets discarded by the tracer", found.packets));
    }
    if found.damages > 0 {
        let first = found.damage.first().map(String::as_str).unwrap_or_default();
        parts.push(format!("{} damages skipped, the first: {first}", found.damages));
    }
    match parts.is_empty() {
        true => None,
        false => Some(format!(
            "{} in what was read: counts and sums are too low there. The table 'gaps' says when",
            parts.join("; ")
        )),
    }
}

/// Warns about missing records.
///
/// # Errors
/// The user has made warnings exceptions.
pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = std::ffi::CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    PyErr::warn(py, &TraceWarning::type_object(py), &text, 1)
}
