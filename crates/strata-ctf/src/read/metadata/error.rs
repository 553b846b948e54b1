//! Faults of metadata and their messages.

use super::limits;
use strata_model::printable;
use thiserror::Error;

/// A fault of the metadata and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataError {
    /// Line of the text, from 1; of packetised metadata, in the text of all packets. 0 if the fault has no line.
    pub line: usize,
    /// Character of the line, from 1; 0 if the fault has no line.
    pub column: usize,
    /// The fault at this position.
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

/// Kinds of faults in metadata.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MetadataProblem {
    /// The text exceeds one of [`super::limits`].
    #[error("{what}: {found}, at most {limit} can be read")]
    TooMany {
        /// Name of what there is too much of, in the plural.
        what: &'static str,
        /// The count at which counting stopped.
        found: u64,
        /// The greatest number that is allowed.
        limit: u64,
    },
    /// A packet of packetised metadata has an invalid header.
    #[error("packet {packet} (offset {offset:#x}): {what} is {found}, expected {expected}")]
    Packet {
        /// The packet's number, from 0.
        packet: u64,
        /// Begin of the packet \[byte of the file\].
        offset: u64,
        /// The field of the packet's header that is wrong.
        what: &'static str,
        /// The value that was found.
        found: String,
        /// The values that are allowed.
        expected: String,
    },
    /// The text does not continue with the token that is expected here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The kind of token that may stand here.
        expected: &'static str,
        /// The token that was found.
        found: String,
    },
    /// A comment, string or block is not closed.
    #[error("{what} begins here and has no end")]
    NotClosed {
        /// Name of what is not closed: a comment, a string, a block.
        what: &'static str,
    },
    /// A name is used that is not defined.
    #[error("{what} {} is not described", printable(.name))]
    Unknown {
        /// The kind of what the name should stand for.
        what: &'static str,
        /// The name that is not defined.
        name: String,
    },
    /// A part depends on a block that exists but could not be read.
    #[error("{what} is there, could not be read")]
    NotRead {
        /// The dependent part, with the block on which it depends.
        what: &'static str,
    },
    /// A statement, field or id occurs twice that may occur once.
    #[error("{what} {} is described a second time", printable(.name))]
    Duplicate {
        /// The kind of what occurs twice.
        what: &'static str,
        /// The repeated name or number.
        name: String,
    },
    /// A required statement or field is missing.
    #[error("{of} has no {what}")]
    Missing {
        /// The missing statement or field.
        what: &'static str,
        /// The block that should have the statement or field.
        of: &'static str,
    },
    /// A value that is not allowed here.
    #[error("{of} is {}, expected {expected}", printable(.found))]
    Value {
        /// The name of the attribute that has the value.
        of: &'static str,
        /// The value that was found.
        found: String,
        /// The values that are allowed.
        expected: &'static str,
    },
    /// A reference, of a length or a tag, that leads to no usable field.
    #[error("reference {}: {why}", printable(.path))]
    Reference {
        /// The reference as it was written.
        path: String,
        /// The reason why the reference cannot be used.
        why: ReferenceProblem,
    },
    /// A variant without a tag that selects its option.
    #[error("variant has no tag: write 'variant <tag>' where it is declared or used")]
    NoTag,
    /// A stream uses two clocks; it may use one.
    #[error("stream {stream} has times of two clocks, {} and {}: expected one", printable(.first), printable(.second))]
    TwoClocks {
        /// The id of the stream.
        stream: u64,
        /// The name of the first clock.
        first: String,
        /// The name of the second clock.
        second: String,
    },
    /// The first fault of a text, and a later one because of which nothing of the text can be used.
    #[error("{first}; and line {line}, column {column}: {fatal}. So nothing of it can be used")]
    Fatal {
        /// The first fault of the text.
        first: Box<MetadataProblem>,
        /// The line of the fatal fault.
        line: usize,
        /// The column of the fatal fault.
        column: usize,
        /// The fatal fault.
        fatal: Box<MetadataProblem>,
    },
    /// A fault in a fragment of CTF 2 metadata.
    #[error("fragment {number}{kind}, {path}: {what}")]
    Fragment {
        /// The fragment's number, from 0.
        number: u64,
        /// The kind of the fragment, as far as it is known.
        kind: String,
        /// The path to the fault in the fragment: names and indexes, each after a `/`.
        path: String,
        /// The fault at that path.
        what: Box<MetadataProblem>,
    },
    /// A fragment that is not valid JSON.
    #[error("no JSON: {0}")]
    Syntax(String),
    /// A required extension that is not supported: it may change the format.
    #[error("the trace needs the extension {}, which is not known: it cannot be read", printable(.0))]
    Extension(String),
    /// The number of further problems, which are not listed one by one.
    #[error("{0} further problems")]
    Further(u64),
}

/// Reasons why a reference leads to no usable field.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReferenceProblem {
    /// No field has this name.
    #[error("no earlier field has this name")]
    NotFound,
    /// The field comes later, or is the field that refers to it.
    #[error("the field does not come before what refers to it")]
    NotBefore,
    /// The reference begins with a part of the record or packet that does not exist.
    #[error("this part of the trace is not described")]
    NoScope,
    /// The field of a length is not an unsigned integer.
    #[error("the field is no unsigned integer")]
    NotUnsigned,
    /// The field of a selector is not an integer.
    #[error("the field is not an integer")]
    NotInteger,
    /// The field that selects an optional field is not a truth value.
    #[error("the field is no boolean, and there are no 'selector-field-ranges'")]
    NotBoolean,
    /// The path leads to several fields, in different options of a variant, of which only some are signed.
    #[error(
        "it means several fields, in different options of a variant, and only some are signed"
    )]
    SeveralSigns,
    /// The path leads to several fields, in different options of a variant, whose labels give different values to the
    /// options of the dependent variant.
    #[error("it means several fields, in different options of a variant, and their labels differ")]
    SeveralLabels,
    /// A range of an option or of an optional field has values that the field cannot have.
    #[error("a range of values to select has some that the field cannot have: below 0 if it is unsigned, above 2^63 - 1 if it is signed")]
    OutsideSelector,
    /// The field is in an array's elements, but the dependent field is not.
    #[error("the field is in an array: which element is meant cannot be said")]
    InElements,
    /// The field of a tag is not an enumeration.
    #[error("the field is no enumeration")]
    NotEnumeration,
    /// No entry of the environment has this name.
    #[error("the block 'env' has no such entry")]
    NoEntry,
    /// The environment's entry for a length is a text.
    #[error("the entry of the block 'env' is a text, not a number")]
    EntryIsText,
    /// The environment's entry for a length is below 0.
    #[error("the entry of the block 'env' is a negative number")]
    EntryIsNegative,
    /// The tag is an entry of the environment, which has no labels.
    #[error("a variant's tag is an enumeration, and entries of the block 'env' have no labels")]
    EntryIsNoTag,
}

/// A problem with the byte of the text at which it is. The type is small because each token could be a fault.
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

/// Makes the fault for a name that is not defined.
pub(super) fn unknown(at: u32, what: &'static str, name: impl Into<String>) -> Fault {
    Fault::new(at, MetadataProblem::Unknown { what, name: name.into() })
}

/// Makes the fault for a name that occurs twice.
pub(super) fn duplicate(at: u32, what: &'static str, name: impl Into<String>) -> Fault {
    Fault::new(at, MetadataProblem::Duplicate { what, name: name.into() })
}

/// Makes the fault for a number that exceeds a limit.
pub(super) fn too_many(at: u32, what: &'static str, found: u64, limit: u64) -> Fault {
    Fault::new(at, MetadataProblem::TooMany { what, found, limit })
}

/// Makes the fault for types, signs or parentheses that are nested too deeply.
pub(super) fn too_deep(at: u32, levels: u32) -> Fault {
    too_many(at, "levels of types within each other", levels.into(), limits::DEPTH.into())
}

/// The first faults of a text, and the number of further ones.
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

    /// Returns the faults with lines and columns, in the order of the text and limited in number. `damage` is a fault
    /// that was found before the text was parsed.
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

    /// Returns the faults in the order of the text, and the number of further ones.
    pub fn finish(mut self) -> (Vec<Fault>, u64) {
        self.cut();
        (self.list, self.further)
    }
}

/// Finds lines and columns of positions. Ascending positions take a single pass over the text.
pub(crate) struct LineFinder<'t> {
    text: &'t [u8],
    /// Position up to which lines are counted \[byte\].
    reached: usize,
    line: usize,
    /// Begin of the line that contains the last position \[byte\].
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
        // Only the first byte of each character counts.
        let column = 1 + before.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        MetadataError { line: self.line, column, what: *fault.what }
    }
}
