//! Probes in programs and libraries, as `--probe` has them: uprobes, uretprobes, USDT.
//!
//! ```text
//! [NAME=]uprobe:BINARY:SYMBOL[+OFFSET][(ARGUMENT:TYPE,...)]
//! [NAME=]uretprobe:BINARY:SYMBOL[(NAME:TYPE)]
//! [NAME=]usdt:BINARY:PROVIDER:NAME[(ARGUMENT[:TYPE],...)]
//! ```
//! A SYMBOL, PROVIDER or NAME with `*` is a pattern: what of it can be recorded is.
//! For their users they are described in `docs/guide/probes.md`.

mod error;
mod events;
mod fit;
mod known;
mod probes;
pub mod register;
mod similar;
mod spec;
#[cfg(test)]
mod tests;

pub use error::{ProbeError, ProbeProblem};
pub use known::KnownProbes;
pub use probes::Probes;
pub(crate) use similar::similar;

use crate::elf::{self, Elf, ElfError, Matching};
use crate::usdt;
use events::TakenNames;
use fit::Fit;
use spec::{FunctionPlace, ProbeArgument, ProbeSpec, ProbeTarget};
use std::collections::HashSet;
use std::path::PathBuf;
use strata_filter::Pattern;

/// More functions than this are not probed for one pattern.
const FUNCTIONS_MAX: usize = 1000;

/// What can be probed in a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeListing {
    /// The file.
    pub binary: PathBuf,
    /// Functions, sorted.
    pub functions: Vec<String>,
    /// USDT probes, in the order of the file.
    pub usdt: Vec<usdt::Listed>,
}

/// What one `--probe` records.
///
/// # Errors
/// It is no probe, or there is none such in the file.
pub fn parse(spec: &str) -> Result<Probes, ProbeError> {
    parse_all(&[spec])
}

/// What several `--probe` record. A name that is taken gets a number behind it, `_2`.
///
/// # Errors
/// One of them is no probe, or there is none such in its file.
pub fn parse_all<S: AsRef<str>>(specs: &[S]) -> Result<Probes, ProbeError> {
    let mut probes = Probes::default();
    let mut names = TakenNames::default();
    for text in specs {
        let spec = ProbeSpec::parse(text.as_ref())?;
        add(&spec, &mut probes, &mut names)?;
    }
    Ok(probes)
}

/// Is it written as one that a session that stays can have? No file is looked at.
///
/// # Errors
/// It is no probe, the path of its file is not from `/` on, or it is at a place within a function.
pub fn check(text: &str) -> Result<(), ProbeError> {
    let spec = ProbeSpec::parse(text)?;
    if is_relative(spec.binary) {
        return Err(spec.error(spec.binary, ProbeProblem::Relative(spec.binary.to_owned())));
    }
    match place_within(&spec) {
        Some(place) => Err(spec.error(place, ProbeProblem::Place(place.to_owned()))),
        None => Ok(()),
    }
}

/// Is it at an address, or behind the begin of a function? That is one of this file alone.
#[must_use]
pub fn is_within(text: &str) -> bool {
    ProbeSpec::parse(text).is_ok_and(|spec| place_within(&spec).is_some())
}

fn place_within<'a>(spec: &ProbeSpec<'a>) -> Option<&'a str> {
    match &spec.target {
        ProbeTarget::Function { place: FunctionPlace { text, symbol, offset }, .. } => {
            (symbol.is_none() || *offset > 0).then_some(*text)
        }
        ProbeTarget::Usdt(_) => None,
    }
}

/// The same probe for who may be in another folder: where the path of its file is not from `/` on, it is made one, from
/// this process' folder. Links stay, and no file is looked at.
///
/// # Errors
/// It is no probe, or cannot be written so.
pub fn absolute(text: &str) -> Result<String, ProbeError> {
    let spec = ProbeSpec::parse(text)?;
    if !is_relative(spec.binary) {
        return Ok(text.to_owned());
    }
    let binary = spec.binary.trim();
    let failed = |error| ProbeProblem::Elf(ElfError::Open { path: binary.into(), error });
    let path =
        std::path::absolute(binary).map_err(|error| spec.error(spec.binary, failed(error)))?;
    let whole = path.to_str().filter(|path| !path.contains(':')).ok_or_else(|| {
        spec.error(spec.binary, ProbeProblem::Colon(path.to_string_lossy().into_owned()))
    })?;
    // It is what is between the first two.
    let mut parts = text.splitn(3, ':');
    let (kind, behind) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    Ok(format!("{kind}:{whole}:{behind}"))
}

/// The name that was chosen for its event.
#[must_use]
pub fn name_of(text: &str) -> Option<&str> {
    ProbeSpec::parse(text).ok()?.name
}

/// A name without a `/` is looked for, and no path.
fn is_relative(binary: &str) -> bool {
    let binary = binary.trim();
    binary.contains('/') && !binary.starts_with('/')
}

/// What can be probed in a program or library: a path, or a name as `--probe` has it.
///
/// # Errors
/// There is no such file, or it is none of ELF for x86-64.
pub fn list(binary: &str) -> Result<ProbeListing, ElfError> {
    let elf = Elf::open(&elf::find(binary)?)?;
    Ok(ProbeListing {
        functions: elf.functions()?,
        usdt: usdt::list(&elf)?,
        binary: elf.path().to_owned(),
    })
}

fn add(
    spec: &ProbeSpec<'_>,
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    let at_binary = |error| spec.error(spec.binary, ProbeProblem::Elf(error));
    let path = elf::find(spec.binary).map_err(at_binary)?;
    let elf = Elf::open(&path).map_err(at_binary)?;
    match &spec.target {
        ProbeTarget::Function {
            place: FunctionPlace { symbol: Some(pattern), offset, text },
            arguments,
            is_return,
        } if pattern.contains('*') => {
            if *offset > 0 {
                return Err(spec.error(text, ProbeProblem::WithinMany(*offset)));
            }
            let pattern = Pattern::glob(pattern);
            let found = elf.matching(|name| pattern.matches(name)).map_err(at_binary)?;
            if found.names().len() > FUNCTIONS_MAX {
                let (found, limit) = (found.names().len(), FUNCTIONS_MAX);
                return Err(spec.error(text, ProbeProblem::Many { found, limit }));
            }
            if !found.names().is_empty() {
                let asked = (*text, arguments.as_slice(), *is_return);
                return add_functions(spec, &elf, &found, asked, probes, names);
            }
            // Says what there is instead.
            let missing = elf.symbol(text, 0).err();
            Err(spec.error(text, missing.map_or(ProbeProblem::Nothing, ProbeProblem::Elf)))
        }
        ProbeTarget::Function { place, arguments, is_return } => {
            let found = match &place.symbol {
                Some(symbol) => elf.symbol(symbol, place.offset),
                None => elf.address(place.offset),
            };
            let found = found.map_err(|error| spec.error(place.text, ProbeProblem::Elf(error)))?;
            let event = events::function(elf.binary(), found, place, arguments, *is_return);
            events::add_function(spec, event, probes, names)
        }
        ProbeTarget::Usdt(wanted) => {
            let all = usdt::locations(&elf).map_err(at_binary)?;
            events::add_usdt(spec, wanted, (&elf, &all), probes, names)
        }
    }
}

/// All functions of a pattern that can be probed; of several names of one place the first.
fn add_functions(
    spec: &ProbeSpec<'_>,
    elf: &Elf,
    found: &Matching<'_>,
    (text, arguments, is_return): (&str, &[ProbeArgument<'_>], bool),
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    let (mut fit, mut places) = (Fit::default(), HashSet::new());
    for name in found.names() {
        match found.place(name) {
            Ok(at) if !places.insert(at.offset) => {
                fit.leave_out(name, "another name of one of these");
            }
            Ok(at) => {
                let place = FunctionPlace { text: name, symbol: Some(name), offset: 0 };
                let event = events::function(elf.binary(), at, &place, arguments, is_return);
                events::add_function(spec, event, probes, names)?;
                fit.fits();
            }
            Err(error) => fit.leave_out(name, &ProbeProblem::Elf(error).of_one()),
        }
    }
    let remark = fit.remark(spec.text).map_err(|problem| spec.error(text, problem))?;
    probes.remarks.extend(remark);
    Ok(())
}
