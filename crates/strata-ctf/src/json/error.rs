//! What is wrong with a fragment, and where in it.

use crate::tsdl::MetadataProblem;

/// A problem, and the way to it.
#[derive(Debug)]
pub(super) struct Fault {
    /// From the value that it is in outwards.
    path: Vec<String>,
    what: MetadataProblem,
}

pub(super) type Made<T> = Result<T, Box<Fault>>;

impl Fault {
    pub fn new(what: MetadataProblem) -> Box<Fault> {
        Box::new(Fault { path: Vec::new(), what })
    }

    pub fn value(of: &'static str, found: impl ToString, expected: &'static str) -> Box<Fault> {
        let found = found.to_string();
        Fault::new(MetadataProblem::Value { of, found, expected })
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
pub(super) trait At {
    fn at(self, part: impl ToString) -> Self;
}

impl<T> At for Made<T> {
    fn at(self, part: impl ToString) -> Self {
        self.map_err(|mut fault| {
            fault.path.push(part.to_string());
            fault
        })
    }
}
