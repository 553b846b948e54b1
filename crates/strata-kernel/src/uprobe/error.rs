//! Why a `--probe` is none.

use crate::elf::{similar_list, ElfError};
use std::ops::Range;
use strata_model::printable;
use thiserror::Error;

/// Why a `--probe` is none. `Display` is one line; [`ProbeError::caret`] shows the place.
#[derive(Debug, Error)]
#[error("probe, column {}: {problem}", self.column())]
pub struct ProbeError {
    pub(crate) spec: String,
    pub(crate) span: Range<usize>,
    pub(crate) problem: Box<ProbeProblem>,
}

/// What can be wrong with it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeProblem {
    /// Not one of the three.
    #[error("{} is no kind of probe. Write uprobe, uretprobe or usdt", printable(.0))]
    Kind(String),
    /// Something is needed here.
    #[error("{what} is missing. Write {form}")]
    Missing {
        /// The part that is missing.
        what: &'static str,
        /// How such a probe is written.
        form: &'static str,
    },
    /// Not a C identifier.
    #[error("{} is no name. Use letters, digits and '_', not a digit first", printable(.0))]
    Name(String),
    /// Not a number.
    #[error("{} is no number. Write it as 12 or 0x1c", printable(.0))]
    Number(String),
    /// A path that leads elsewhere from another folder.
    #[error("{} is a path from a folder, and a session that stays is in none. Write it from '/'", printable(.0))]
    Relative(String),
    /// In another file of that name, another instruction or the middle of one.
    #[error(
        "{} is a place in the file as it is now, and a session that stays may be made again when it is another one: a \
         breakpoint in the middle of an instruction damages the program. Name a function, or use `strata record --probe`",
        printable(.0)
    )]
    Place(String),
    /// A path that cannot be written.
    #[error("the whole path, {}, has a ':' in it, which would end it. Use a link without one", printable(.0))]
    Colon(String),
    /// No closing parenthesis, or something behind it.
    #[error("the list of arguments does not end with ')'")]
    Open,
    /// No colon.
    #[error("{} has no type. Write it as NAME:TYPE, or '_' for an argument that is not recorded", printable(.0))]
    NoType(String),
    /// Not one of the types.
    #[error(
        "{} is no type. Use u8, u16, u32, u64 (unsigned), s8 ... s64 (signed), x8 ... x64 (hexadecimal), \
         ptr or str",
        printable(.0)
    )]
    Type(String),
    /// Floating point.
    #[error(
        "{} is handed over in vector registers, which probes cannot read, and is not counted among the \
         others. Leave it out",
        printable(.0)
    )]
    Float(String),
    /// Two of one name, or the one that all have.
    #[error("there are two fields '{0}'. Give this one another name")]
    Twice(String),
    /// More than there are registers.
    #[error(
        "{found} arguments, limit 6: the others are on the stack, where only the compiler knows. Record the \
         first six"
    )]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// A function returns one value.
    #[error("{found} values, and a function returns one. Write (NAME:TYPE)")]
    Returns {
        /// How many there are.
        found: usize,
    },
    /// The value that is returned cannot be left out within the parentheses.
    #[error("'_' records nothing. Leave the parentheses out")]
    Nothing,
    /// Arguments within a function.
    #[error(
        "arguments are in their registers at a function's first instruction only. Leave +{0:#x} out, or \
         the arguments"
    )]
    Within(u64),
    /// A return from within a function.
    #[error("a return belongs to the whole function. Leave +{0:#x} out")]
    ReturnWithin(u64),
    /// The name is taken by an event with other fields.
    #[error("there are two events '{0}' with different fields. Give this one another name")]
    NameTaken(String),
    /// More names than arguments.
    #[error("USDT probe {probe} has {found} arguments, and {wanted} are named")]
    Few {
        /// `PROVIDER:NAME` of the probe.
        probe: String,
        /// How many it has.
        found: usize,
        /// How many are named.
        wanted: usize,
    },
    /// An argument has another size.
    #[error(
        "argument {number} of USDT probe {probe} has {found} bytes, and the type {wanted}. Leave the type \
         out, or take a smaller one"
    )]
    Wide {
        /// `PROVIDER:NAME` of the probe.
        probe: String,
        /// Which of its arguments, from 1.
        number: usize,
        /// Its size \[byte\].
        found: u8,
        /// The type's size \[byte\].
        wanted: u8,
    },
    /// One name for several probes.
    #[error("{found} probes match, and one name is for one. Leave NAME= out")]
    SeveralNamed {
        /// Probes that match.
        found: usize,
    },
    /// A pattern for functions, and a place within one.
    #[error(
        "{0:#x} bytes behind the begin is a place in one function. Leave +{0:#x} out, or the '*'"
    )]
    WithinMany(u64),
    /// A pattern for very many functions.
    #[error(
        "{found} functions match, limit {limit}: each is a breakpoint. Write more of the name"
    )]
    Many {
        /// Functions that match.
        found: usize,
        /// At most.
        limit: usize,
    },
    /// Something matches a pattern, and nothing of it can be recorded.
    #[error("{found} match, and none of them can be recorded: {why}")]
    NoneFits {
        /// How many match.
        found: usize,
        /// Who, and why.
        why: String,
    },
    /// The file, or the place in it.
    #[error("{0}")]
    Elf(ElfError),
    /// No USDT probe at all.
    #[error("{0} has no USDT probes. It may have to be built with them (systemtap's sys/sdt.h)")]
    NoUsdt(String),
    /// No such USDT probe.
    #[error("{binary} has no USDT probe {}{}{}", printable(probe), similar_list(similar), all)]
    NoProbe {
        /// The file.
        binary: String,
        /// As it was written.
        probe: String,
        /// Those with much the same names.
        similar: Vec<String>,
        /// How to find out.
        all: String,
    },
}

impl ProbeProblem {
    /// What is wrong with one probe of many, beside whose name it is said.
    pub(crate) fn of_one(&self) -> String {
        match self {
            ProbeProblem::Few { found, wanted, .. } => {
                format!("has {found} arguments, and {wanted} are named")
            }
            ProbeProblem::Wide { number, found, wanted, .. } => {
                format!("argument {number} has {found} bytes, and the type {wanted}")
            }
            ProbeProblem::Elf(ElfError::Indirect { .. }) => {
                "chosen when the program starts (IFUNC); probe what is called in its place"
                    .to_owned()
            }
            ProbeProblem::Elf(ElfError::Ambiguous { .. }) => {
                "several functions of that name; write one's address".to_owned()
            }
            ProbeProblem::Elf(ElfError::Variable { .. }) => "a variable".to_owned(),
            ProbeProblem::Elf(ElfError::NoCode { .. }) => {
                "there is no code at its address".to_owned()
            }
            other => other.to_string(),
        }
    }
}

impl ProbeError {
    /// What is wrong.
    pub fn problem(&self) -> &ProbeProblem {
        &self.problem
    }

    /// Where \[byte of the text\]. Empty at the text's end.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where \[character, from 1\].
    pub fn column(&self) -> usize {
        1 + self.spec.get(..self.span.start).map_or(0, |before| before.chars().count())
    }

    /// Two lines: the text, and carets below the place.
    pub fn caret(&self) -> String {
        let plain = |char: char| if char.is_control() { ' ' } else { char };
        let spec: String = self.spec.chars().map(plain).collect();
        let marked = self.spec.get(self.span.clone()).map_or(0, |text| text.chars().count());
        format!("{spec}\n{}{}", " ".repeat(self.column() - 1), "^".repeat(marked.max(1)))
    }
}
