//! Errors of a `--probe`.

use crate::decide::uprobe::function_pieces::ExitProblem;
use crate::discover::elf::{similar_list, ElfError};
use std::ops::Range;
use strata_model::printable;
use thiserror::Error;

/// Error in the text of a `--probe`. `Display` is one line; [`ProbeError::caret`] shows the place.
#[derive(Debug, Error)]
#[error("probe, column {}: {problem}", self.column())]
pub struct ProbeError {
    pub(crate) spec: String,
    pub(crate) span: Range<usize>,
    pub(crate) problem: Box<ProbeProblem>,
}

/// The kinds of mistakes in the text of a probe.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeProblem {
    /// The word is not one of the three kinds of probes.
    #[error("{} is no kind of probe. Write uprobe, uretprobe or usdt", printable(.0))]
    Kind(String),
    /// A part of the probe is missing.
    #[error("{what} is missing. Write {form}")]
    Missing {
        /// The part that is missing.
        what: &'static str,
        /// The form in which such a probe is written.
        form: &'static str,
    },
    /// The name is not a C identifier.
    #[error("{} is no name. Use letters, digits and '_', not a digit first", printable(.0))]
    Name(String),
    /// The text is not a number.
    #[error("{} is no number. Write it as 12 or 0x1c", printable(.0))]
    Number(String),
    /// The path is relative, so that its meaning depends on the current folder.
    #[error("{} is a path from a folder, and a session that stays is in none. Write it from '/'", printable(.0))]
    Relative(String),
    /// A persistent session names an address or offset. Another version of the file may have another instruction
    /// there.
    #[error(
        "{} is a place in the file as it is now, and a session that stays may be made again when it is another one: a \
         breakpoint in the middle of an instruction damages the program. Name a function, or use `strata record --probe`",
        printable(.0)
    )]
    Place(String),
    /// The path has a colon, so that it cannot be written in a probe.
    #[error("the whole path, {}, has a ':' in it, which would end it. Use a link without one", printable(.0))]
    Colon(String),
    /// The closing parenthesis is missing, or something follows it.
    #[error("the list of arguments does not end with ')'")]
    Open,
    /// The argument has no colon and type.
    #[error("{} has no type. Write it as NAME:TYPE, or '_' for an argument that is not recorded", printable(.0))]
    NoType(String),
    /// The type does not exist.
    #[error(
        "{} is no type. Use u8, u16, u32, u64 (unsigned), s8 ... s64 (signed), x8 ... x64 (hexadecimal), \
         ptr, str or str(LENGTH)",
        printable(.0)
    )]
    Type(String),
    /// The length of a text is not a number in the list of arguments.
    #[error(
        "there is no number '{0}' in the list that could be the text's length. Name the argument that is the length, as in \
         (text:str(n), n:u64), or write a number of bytes"
    )]
    NoLength(String),
    /// The length of a text is 0, or greater than a record allows.
    #[error("a text of {found} bytes cannot be recorded: at least 1 and at most {limit} bytes")]
    Length {
        /// The requested length \[byte\].
        found: u64,
        /// The greatest length \[byte\].
        limit: u16,
    },
    /// The argument is a floating-point number.
    #[error(
        "{} is handed over in vector registers, which probes cannot read, and is not counted among the \
         others. Leave it out",
        printable(.0)
    )]
    Float(String),
    /// Two arguments have the same name, or an argument has the name of the field that all probe events have.
    #[error("there are two fields '{0}'. Give this one another name")]
    Twice(String),
    /// There are more arguments than registers for arguments.
    #[error(
        "{found} arguments, limit {limit}: the others are on the stack, where only the compiler knows. Record the \
         first {limit}"
    )]
    TooMany {
        /// The number of arguments.
        found: usize,
        /// The number of arguments in registers.
        limit: usize,
    },
    /// A function's exits are not all known.
    #[error("its returns cannot be probed: {0}. Probe its begin (uprobe), or the returns of a function that calls it")]
    Exits(ExitProblem),
    /// Arguments or results of a Go function are not in registers, or their registers are not known.
    #[error("{what} of this function of Go cannot be recorded: {why}. Leave them out")]
    GoValues {
        /// The unknown values, such as "the arguments".
        what: &'static str,
        /// Why they are not known.
        why: &'static str,
    },
    /// The argument is a Go text, which does not end with a NUL.
    #[error(
        "'{0}' is a text of Go, which does not end with a NUL: a text is two arguments, its address and its length. Write \
         ({0}:str({0}_length), {0}_length:s64)"
    )]
    GoText(String),
    /// A return probe has several arguments, but a function returns one value.
    #[error("{found} values, and a function returns one. Write (NAME:TYPE)")]
    Returns {
        /// The number of arguments of the return probe.
        found: usize,
    },
    /// The name of the returned value is `_`, so that nothing would be recorded.
    #[error("'_' records nothing. Leave the parentheses out")]
    Nothing,
    /// The address is in the middle of an instruction.
    #[error(
        "{found:#x} is in the middle of an instruction, which a breakpoint there would damage. It begins at {first:#x}"
    )]
    Amidst {
        /// The place as the user wrote it: an address, or the offset after the symbol.
        found: u64,
        /// Offset of the instruction's first byte.
        first: u64,
    },
    /// A probe at an offset in a function has arguments.
    #[error(
        "arguments are in their registers at a function's first instruction only. Leave +{0:#x} out, or \
         the arguments"
    )]
    Within(u64),
    /// A return probe has an offset in the function.
    #[error("a return belongs to the whole function. Leave +{0:#x} out")]
    ReturnWithin(u64),
    /// The name is taken by an event with other fields.
    #[error("there are two events '{0}' with different fields. Give this one another name")]
    NameTaken(String),
    /// The user names more arguments than the probe has.
    #[error("USDT probe {probe} has {found} arguments, and {wanted} are named")]
    Few {
        /// `PROVIDER:NAME` of the probe.
        probe: String,
        /// The number of arguments that the probe has.
        found: usize,
        /// The number of arguments that are named.
        wanted: usize,
    },
    /// The argument has another size than the type.
    #[error(
        "argument {number} of USDT probe {probe} has {found} bytes, and the type {wanted}. Leave the type \
         out, or take a smaller one"
    )]
    Wide {
        /// `PROVIDER:NAME` of the probe.
        probe: String,
        /// The argument's position, from 1.
        number: usize,
        /// The argument's size \[byte\].
        found: u8,
        /// The type's size \[byte\].
        wanted: u8,
    },
    /// The user gives one name to several probes.
    #[error("{found} probes match, and one name is for one. Leave NAME= out")]
    SeveralNamed {
        /// The number of probes that match.
        found: usize,
    },
    /// A pattern that may match several functions has an offset.
    #[error(
        "{0:#x} bytes behind the begin is a place in one function. Leave +{0:#x} out, or the '*'"
    )]
    WithinMany(u64),
    /// The pattern matches too many functions.
    #[error(
        "{found} functions match, limit {limit}: each is a breakpoint. Write more of the name"
    )]
    Many {
        /// The number of functions that match.
        found: usize,
        /// The most functions that a pattern may match.
        limit: usize,
    },
    /// The pattern matches functions or probes, but none of them can be recorded.
    #[error("{found} match, and none of them can be recorded: {why}")]
    NoneFits {
        /// The number of functions that match.
        found: usize,
        /// The reasons, each with the functions for which it holds.
        why: String,
    },
    /// The file cannot be read, or does not have the probed place.
    #[error("{0}")]
    Elf(ElfError),
    /// The file has no USDT probes.
    #[error("{0} has no USDT probes. It may have to be built with them (systemtap's sys/sdt.h)")]
    NoUsdt(String),
    /// The file has no USDT probe of this name.
    #[error("{binary} has no USDT probe {}{}{}", printable(probe), similar_list(similar), all)]
    NoProbe {
        /// The file's path.
        binary: String,
        /// The probe as it was written.
        probe: String,
        /// Probes with similar names.
        similar: Vec<String>,
        /// The command that lists all probes.
        all: String,
    },
}

impl ProbeProblem {
    /// Returns the message of the problem in a form that follows the name of one of many probes.
    pub(crate) fn of_one(&self) -> String {
        match self {
            ProbeProblem::Few { found, wanted, .. } => {
                format!("has {found} arguments, and {wanted} are named")
            }
            ProbeProblem::Wide { number, found, wanted, .. } => {
                format!("argument {number} has {found} bytes, and the type {wanted}")
            }
            ProbeProblem::Exits(problem) => format!("its returns are not all known: {problem}"),
            ProbeProblem::GoValues { what, why } => format!("{what} are not known: {why}"),
            ProbeProblem::Elf(ElfError::Indirect { .. }) => {
                "chosen when the program starts (IFUNC); probe the function that is called in its place"
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
    /// Returns the problem.
    pub fn problem(&self) -> &ProbeProblem {
        &self.problem
    }

    /// Returns whether the problem is that the file does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        let ProbeProblem::Elf(ElfError::Open { error, .. }) = &*self.problem else { return false };
        error.kind() == std::io::ErrorKind::NotFound
    }

    /// Returns the place of the mistake \[byte of the text\]. The range is empty if the mistake is at the text's end.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the column of the mistake \[character, from 1\].
    pub fn column(&self) -> usize {
        1 + self.spec.get(..self.span.start).map_or(0, |before| before.chars().count())
    }

    /// Returns the text of the probe.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Returns two lines: the text, and carets below the mistake.
    pub fn caret(&self) -> String {
        let plain = |char: char| if char.is_control() { ' ' } else { char };
        let spec: String = self.spec.chars().map(plain).collect();
        let marked = self.spec.get(self.span.clone()).map_or(0, |text| text.chars().count());
        format!("{spec}\n{}{}", " ".repeat(self.column() - 1), "^".repeat(marked.max(1)))
    }
}
