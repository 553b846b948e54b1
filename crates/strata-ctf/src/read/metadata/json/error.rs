//! Faults in a fragment, with their place in it.

use crate::read::metadata::MetadataProblem;

/// A problem in a JSON value, and the path from the root to that value.
#[derive(Debug)]
pub(super) struct JsonFault {
    /// Names from the faulty value outwards.
    path: Vec<String>,
    what: MetadataProblem,
}

pub(super) type JsonResult<T> = Result<T, Box<JsonFault>>;

impl JsonFault {
    pub fn new(what: MetadataProblem) -> Box<JsonFault> {
        Box::new(JsonFault { path: Vec::new(), what })
    }

    pub fn value(of: &'static str, found: impl ToString, expected: &'static str) -> Box<JsonFault> {
        let found = found.to_string();
        JsonFault::new(MetadataProblem::Value { of, found, expected })
    }

    /// Converts the fault to a problem of the fragment with this number.
    pub fn of_fragment(self, number: u64, kind: String) -> MetadataProblem {
        let mut path = String::new();
        for part in self.path.iter().rev() {
            path.push('/');
            path.extend(part.escape_debug().take(80));
        }
        if path.is_empty() {
            path.push('/');
        }
        MetadataProblem::Fragment { number, kind, path, what: Box::new(self.what) }
    }
}

/// Adds a part of a value to the path of a fault.
pub(super) trait AtPart {
    fn at(self, part: impl ToString) -> Self;
}

impl<T> AtPart for JsonResult<T> {
    fn at(self, part: impl ToString) -> Self {
        self.map_err(|mut fault| {
            fault.path.push(part.to_string());
            fault
        })
    }
}
