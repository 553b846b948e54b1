//! What is wrong with a fragment, and where in it.

use crate::tsdl::MetadataProblem;

/// A problem, and the way to it.
#[derive(Debug)]
pub(super) struct JsonFault {
    /// From the value that it is in outwards.
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

    /// The problem of a fragment.
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

/// Says where in a value it went wrong.
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
