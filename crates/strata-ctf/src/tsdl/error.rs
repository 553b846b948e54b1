//! What can be wrong with metadata.

use super::limits;
use strata_model::printable;
use thiserror::Error;

/// Something in the metadata that cannot be used, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataError {
    /// Line of the text, from 1; of packetised metadata, in the text of all packets. 0: of no line.
    pub line: usize,
    /// Character of the line, from 1; 0: of no line.
    pub column: usize,
    /// What it is.
    pub what: MetadataProblem,
}

impl std::fmt::Display for MetadataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line == 0 {
            write!(f, "metadata: {}", self.what)
        } else {
            write!(f, "metadata line {}, column {}: {}", self.line, self.column, self.what)
        }
    }
}

impl std::error::Error for MetadataError {}

/// Kinds of what can be wrong.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MetadataProblem {
    /// Beyond [`super::limits`].
    #[error("{what}: {found}, at most {limit} can be read")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many; where counting stopped.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A packet of packetised metadata that cannot be.
    #[error("packet {packet} (offset {offset:#x}): {what} is {found}, expected {expected}")]
    Packet {
        /// Its number, from 0.
        packet: u64,
        /// Where it begins \[byte of the file\].
        offset: u64,
        /// Which number of its header.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// The text breaks off, or is something else.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What could stand here.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// No end where one must be.
    #[error("{what} begins here and has no end")]
    NotClosed {
        /// A comment, a string, a block.
        what: &'static str,
    },
    /// A name that nothing has.
    #[error("{what} {} is not described", printable(.name))]
    Unknown {
        /// Of what kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Something that can be there once.
    #[error("{what} {} is described a second time", printable(.name))]
    Duplicate {
        /// What kind of thing.
        what: &'static str,
        /// Its name or number.
        name: String,
    },
    /// Something that must be there.
    #[error("{of} has no {what}")]
    Missing {
        /// What it is.
        what: &'static str,
        /// Where it should be.
        of: &'static str,
    },
    /// A value that the thing cannot have.
    #[error("{of} is {}, expected {expected}", printable(.found))]
    Value {
        /// Which value.
        of: &'static str,
        /// As it was found.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A length or a tag that leads nowhere.
    #[error("reference {}: {why}", printable(.path))]
    Reference {
        /// As it was found.
        path: String,
        /// Why not.
        why: ReferenceProblem,
    },
    /// A variant that nothing selects.
    #[error("variant has no tag: write 'variant <tag>' where it is declared or used")]
    NoTag,
    /// A stream has one clock.
    #[error("stream {stream} has times of two clocks, {} and {}: expected one", printable(.first), printable(.second))]
    TwoClocks {
        /// Its id.
        stream: u64,
        /// The first clock's name.
        first: String,
        /// The other's.
        second: String,
    },
    /// The first problem of a text, and the one behind it that keeps all of the text from being used.
    #[error("{first}; and line {line}, column {column}: {fatal}. So nothing of it can be used")]
    Fatal {
        /// The first.
        first: Box<MetadataProblem>,
        /// Where the other is.
        line: usize,
        /// Likewise.
        column: usize,
        /// What it is.
        fatal: Box<MetadataProblem>,
    },
    /// Something in a fragment of CTF 2 metadata.
    #[error("fragment {number}{kind}, {path}: {what}")]
    Fragment {
        /// Its number, from 0.
        number: u64,
        /// What it describes, as far as that is known.
        kind: String,
        /// Where in it, as names and indexes with a `/` in front of each.
        path: String,
        /// What it is.
        what: Box<MetadataProblem>,
    },
    /// A fragment that is no JSON.
    #[error("no JSON: {0}")]
    Syntax(String),
    /// A format that builds on this one, and may change it.
    #[error("the trace needs the extension {}, which is not known: it cannot be read", printable(.0))]
    Extension(String),
    /// So many more that are not listed one by one.
    #[error("{0} further problems")]
    Further(u64),
}

/// Why a reference leads nowhere.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReferenceProblem {
    /// Nothing has this name.
    #[error("no field of this name comes before")]
    NotFound,
    /// It comes later, or is what refers to it.
    #[error("the field does not come before what refers to it")]
    NotBefore,
    /// There is no such part.
    #[error("this part of the trace is not described")]
    NoScope,
    /// A length that is none.
    #[error("the field is no unsigned integer")]
    NotUnsigned,
    /// A selector that is none.
    #[error("the field is no integer")]
    NotInteger,
    /// A selector of an optional field that says neither yes nor no.
    #[error("the field is no boolean, and there are no 'selector-field-ranges'")]
    NotBoolean,
    /// One place would be several.
    #[error("it means several fields, in different options of a variant")]
    Several,
    /// A tag that has no labels.
    #[error("the field is no enumeration")]
    NotEnumeration,
    /// Nothing in the environment has this name.
    #[error("the block 'env' has no such entry")]
    NoEntry,
    /// A length that is a text.
    #[error("the entry of the block 'env' is a text, not a number")]
    EntryIsText,
    /// A length below 0.
    #[error("the entry of the block 'env' is a negative number")]
    EntryIsNegative,
    /// A tag in the environment: entries have no labels.
    #[error("a variant's tag is an enumeration, and entries of the block 'env' have no labels")]
    EntryIsNoTag,
}

/// A problem, and the byte of the text where it is. Small, as each token could be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub at: u32,
    pub what: Box<MetadataProblem>,
}

impl Fault {
    pub fn new(at: u32, what: MetadataProblem) -> Fault {
        Fault { at, what: Box::new(what) }
    }

    pub fn value(at: u32, of: &'static str, found: String, expected: &'static str) -> Fault {
        Fault::new(at, MetadataProblem::Value { of, found, expected })
    }
}

/// A name where a `&'static str` is not enough.
pub(super) fn unknown(at: u32, what: &'static str, name: impl Into<String>) -> Fault {
    Fault::new(at, MetadataProblem::Unknown { what, name: name.into() })
}

/// Likewise.
pub(super) fn duplicate(at: u32, what: &'static str, name: impl Into<String>) -> Fault {
    Fault::new(at, MetadataProblem::Duplicate { what, name: name.into() })
}

/// More than a limit allows.
pub(super) fn too_many(at: u32, what: &'static str, found: u64, limit: u64) -> Fault {
    Fault::new(at, MetadataProblem::TooMany { what, found, limit })
}

/// Types, signs or parentheses within each other.
pub(super) fn too_deep(at: u32, levels: u32) -> Fault {
    too_many(at, "levels of types within each other", levels.into(), limits::DEPTH.into())
}

/// The first faults of a text; of the others only how many there are.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    further: u64,
}

impl Faults {
    pub fn push(&mut self, fault: Fault) {
        self.list.push(fault);
        if self.list.len() >= 2 * limits::PROBLEMS {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.list.sort_by_key(|fault| fault.at);
        self.further += self.list.len().saturating_sub(limits::PROBLEMS) as u64;
        self.list.truncate(limits::PROBLEMS);
    }

    /// In the order of the text, with lines; not more than can be read. `damage`: what was found on the way
    /// to the text.
    pub fn into_problems(self, text: &[u8], damage: Option<MetadataError>) -> Vec<MetadataError> {
        let (listed, more) = self.finish();
        let mut lines = LineFinder::new(text);
        let mut problems: Vec<_> = listed.into_iter().map(|fault| lines.locate(fault)).collect();
        problems.extend(damage);
        if more > 0 {
            let what = MetadataProblem::Further(more);
            problems.push(MetadataError { line: 0, column: 0, what });
        }
        problems
    }

    /// In the order of the text, and how many more there are.
    pub fn finish(mut self) -> (Vec<Fault>, u64) {
        self.cut();
        (self.list, self.further)
    }
}

/// Finds lines and columns; goes through the text once for ascending positions.
pub(crate) struct LineFinder<'t> {
    text: &'t [u8],
    /// Up to here, lines are counted \[byte\].
    reached: usize,
    line: usize,
    /// Where that line begins \[byte\].
    begin: usize,
}

impl<'t> LineFinder<'t> {
    pub fn new(text: &'t [u8]) -> LineFinder<'t> {
        LineFinder { text, reached: 0, line: 1, begin: 0 }
    }

    pub fn locate(&mut self, fault: Fault) -> MetadataError {
        let at = (fault.at as usize).min(self.text.len());
        if at < self.reached {
            *self = LineFinder::new(self.text);
        }
        let passed = self.text.get(self.reached..at).unwrap_or_default();
        for newline in memchr::memchr_iter(b'\n', passed) {
            self.line += 1;
            self.begin = self.reached + newline + 1;
        }
        self.reached = at;
        let before = self.text.get(self.begin..at).unwrap_or_default();
        // Of a character of several bytes only the first counts.
        let column = 1 + before.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        MetadataError { line: self.line, column, what: *fault.what }
    }
}
