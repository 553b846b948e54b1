//! Probes in programs and libraries, as `--probe` has them: uprobes, uretprobes, USDT.
//!
//! ```text
//! [NAME=]uprobe:BINARY:SYMBOL[+OFFSET][(ARGUMENT:TYPE,...)]
//! [NAME=]uretprobe:BINARY:SYMBOL[(NAME:TYPE)]
//! [NAME=]usdt:BINARY:PROVIDER:NAME[(ARGUMENT[:TYPE],...)]
//!
//! text ── spec ──▶ ProbeSpec ── loaded_files: which file, also one that a process has loaded
//!                               ── elf, usdt: places ── events: fields and where they are ──▶ Probes: KernelEvents
//!                                     └ exits, a64_exits: where a function is left
//! ```
//!
//! A SYMBOL, PROVIDER or NAME with `*` is a pattern: all matches that can be recorded are, and [`Probes`] says
//! why the others are not. Without `*`, what cannot be recorded is an error, with similar names.
//!
//! The return of a function is recorded without the kernel's own return probes, which would change the return
//! address on the stack of the program: a probe is at each instruction that leaves the function. If these cannot
//! all be found, the return is refused.
//!
//! A probe is resolved once, when its rule is new: the file is opened, and the events keep that file. If another
//! file is at the path later, running processes still have the old one, and so has the probe ([`KnownProbes`]). A
//! session that may be made again after its process was killed takes only what it can find again in a later file:
//! symbols, not offsets ([`check`]).
//!
//! Binaries are hostile input: they may belong to the user who is recorded. Sizes in them are compared with the
//! file, the code that is decoded has a limit for each file, and nothing of them is executed.
//! `docs/guide/probes.md` describes probes for users.

mod a64_exits;
mod error;
mod events;
mod exits;
mod function_pieces;
mod go_entry;
mod instruction;
mod jump_tables;
mod loaded_files;
mod pattern_results;
pub mod register;
mod resolved_probes;
mod session_probes;
mod source_names;
mod spec;
mod tail_jumps;
#[cfg(test)]
mod tests;

pub use error::{ProbeError, ProbeProblem};
pub use resolved_probes::Probes;
pub use session_probes::KnownProbes;

use crate::discover::code_map::CodeMap;
use crate::discover::elf::{self, Elf, ElfError, Matching};
use crate::discover::usdt;
use events::{FunctionExits, ProbedFunction, TakenNames};
use loaded_files::{loaded_instead, LoadedFile};
use pattern_results::Fit;
use spec::{FunctionPlace, ProbeArgument, ProbeSpec, ProbeTarget};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The most functions that are probed for one pattern.
const FUNCTIONS_MAX: usize = 1000;

/// Suffix that is appended to the event name of a function's returns, to name the event of its tail calls.
const TAIL: &str = "_tail";

/// The places that can be probed in a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeListing {
    /// The file's path.
    pub binary: PathBuf,
    /// Names of functions, sorted.
    pub functions: Vec<String>,
    /// USDT probes, in the order of the file.
    pub usdt: Vec<usdt::Listed>,
}

/// Resolves one `--probe`.
///
/// # Errors
/// The text is no probe, or the file has no such place.
pub fn parse(spec: &str) -> Result<Probes, ProbeError> {
    parse_all(&[spec])
}

/// Resolves several `--probe`. If an event name is taken, a number is appended: `_2`.
///
/// # Errors
/// One of the texts is no probe, or its file has no such place.
pub fn parse_all<S: AsRef<str>>(specs: &[S]) -> Result<Probes, ProbeError> {
    parse_for(specs, &[])
}

/// Resolves probes for running processes: if a process has loaded an older file under the name of a probe's file, that
/// file is probed as well.
///
/// # Errors
/// One of the texts is no probe, or its file has no such place.
pub fn parse_for<S: AsRef<str>>(specs: &[S], pids: &[u32]) -> Result<Probes, ProbeError> {
    let mut probes = Probes::default();
    let mut names = TakenNames::default();
    for text in specs {
        add_for(&ProbeSpec::parse(text.as_ref())?, pids, &mut probes, &mut names)?;
    }
    Ok(probes)
}

/// Adds the probe in its file, and in files that these processes have loaded in place of it.
fn add_for(
    spec: &ProbeSpec<'_>,
    pids: &[u32],
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    let added = add(spec, probes, names);
    let has_other = !pids.is_empty() && add_loaded(spec, pids, probes, names)?;
    match added {
        // No file has the name any more, but a process has loaded the one that had.
        Err(error) if has_other && error.is_not_found() => {}
        Err(error) if has_other => probes.remarks.push(error.to_string()),
        added => added?,
    }
    Ok(())
}

/// Adds the probe in files that these processes have loaded in place of the present one. Returns whether there are any.
fn add_loaded(
    spec: &ProbeSpec<'_>,
    pids: &[u32],
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<bool, ProbeError> {
    let before = probes.events.len();
    let path = match elf::find(spec.binary) {
        Ok(path) => path,
        Err(_) => match elf::find_name(spec.binary) {
            Some(path) => path,
            None => return Ok(false),
        },
    };
    for LoadedFile { pid, path: loaded } in loaded_instead(&path, pids) {
        let added = add_at(spec, &loaded, probes, names);
        let (name, loaded) = (path.display(), loaded.display());
        let which =
            format!("process {pid} has loaded another file as {name} than is there now ({loaded})");
        let remark = match added {
            Ok(()) => format!("{which}: that one is probed as well"),
            Err(error) => format!("{which}, which cannot be probed: {}", error.problem()),
        };
        // It is the same for all probes on that file.
        if !probes.remarks.contains(&remark) {
            probes.remarks.push(remark);
        }
    }
    Ok(probes.events.len() > before)
}

/// Checks that a session can have the probe, without reading any file. `ends_with_process`: true for a session that is
/// never made again. Only it can have a probe at a place within a function, which is right for the present file alone.
///
/// # Errors
/// The text is no probe, the path of its file does not begin with `/`, or the session cannot have its place.
pub fn check(text: &str, ends_with_process: bool) -> Result<(), ProbeError> {
    let spec = ProbeSpec::parse(text)?;
    if is_relative(spec.binary) {
        return Err(spec.error(spec.binary, ProbeProblem::Relative(spec.binary.to_owned())));
    }
    match place_within(&spec).filter(|_| !ends_with_process) {
        Some(place) => Err(spec.error(place, ProbeProblem::Place(place.to_owned()))),
        None => Ok(()),
    }
}

/// Returns whether the probe is at an address or inside of a function: such a place is right only in the present
/// version of the file.
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

/// Returns the probe with an absolute path, for a process in another folder. Symbolic links stay, and no file is read.
///
/// # Errors
/// The text is no probe, or the absolute path cannot be written in one.
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

/// Returns the event name that the user has chosen in the probe's text; `None` without one.
#[must_use]
pub fn name_of(text: &str) -> Option<&str> {
    ProbeSpec::parse(text).ok()?.name
}

/// Returns whether the text is a relative path. A name without a `/` is none: it is searched for.
fn is_relative(binary: &str) -> bool {
    let binary = binary.trim();
    binary.contains('/') && !binary.starts_with('/')
}

/// Lists the places that can be probed in a program or library, given by a path or by a name as in `--probe`.
///
/// # Errors
/// The file does not exist, or is no ELF file for x86-64.
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
    let path = elf::find(spec.binary);
    let path = path.map_err(|error| spec.error(spec.binary, ProbeProblem::Elf(error)))?;
    add_at(spec, &path, probes, names)
}

/// Adds the probe in this file, whatever path its text has.
fn add_at(
    spec: &ProbeSpec<'_>,
    path: &Path,
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    let at_binary = |error| spec.error(spec.binary, ProbeProblem::Elf(error));
    let elf = Elf::open(path).map_err(at_binary)?;
    if let ProbeTarget::Function { arguments, .. } = &spec.target {
        let (found, limit) = (arguments.len(), register::here().arguments.len());
        if found > limit && !elf.is_go() {
            return Err(spec.error(spec.list, ProbeProblem::TooMany { found, limit }));
        }
    }
    match &spec.target {
        ProbeTarget::Function {
            place: FunctionPlace { symbol: Some(pattern), offset, text },
            arguments,
            is_return,
        } if pattern.contains('*') && !elf.has_function(pattern) => {
            if *offset > 0 {
                return Err(spec.error(text, ProbeProblem::WithinMany(*offset)));
            }
            let found = source_names::matching(&elf, pattern).map_err(at_binary)?;
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
            let of_source = match place.symbol.filter(|symbol| !elf.has_function(symbol)) {
                Some(name) => Some(source_names::matching(&elf, name).map_err(at_binary)?),
                None => None,
            };
            let of_source = of_source.filter(|found| !found.names().is_empty());
            if let Some(found) = of_source.as_ref().filter(|found| found.names().len() > 1) {
                if place.offset > 0 {
                    return Err(spec.error(place.text, ProbeProblem::WithinMany(place.offset)));
                }
                probes.remarks.push(format!(
                    "probe {}: {} functions have this name. Each of them is an event; the name \
                     that `nm` prints selects one of them",
                    spec.text,
                    found.names().len()
                ));
                let asked = (place.text, arguments.as_slice(), *is_return);
                return add_functions(spec, &elf, found, asked, probes, names);
            }
            let symbol = of_source.as_ref().and_then(|found| found.names().first());
            let symbol = symbol.map(String::as_str).or(place.symbol);
            let found = match symbol {
                Some(symbol) => elf.symbol(symbol, place.offset),
                None => elf.address(place.offset),
            };
            let found = found.map_err(|error| spec.error(place.text, ProbeProblem::Elf(error)))?;
            let is_place = place.symbol.is_none() || place.offset > 0;
            let map = code_map(&elf, *is_return || is_place).map_err(at_binary)?;
            let binary = elf.binary();
            let function = ProbedFunction { binary, map: map.as_ref(), found, place, arguments };
            let failed = |problem| spec.error(place.text, problem);
            if !*is_return {
                let event = function.entry().map_err(failed)?;
                return events::add_function(spec, event, "", probes, names).map(|_| ());
            }
            let exits = function.exits().map_err(failed)?;
            let (returns, tails) = exits.counts;
            let first = add_exits(spec, exits, probes, names)?;
            if let Some(name) = first {
                probes.remarks.push(format!(
                    "probe {}: of the {} instructions by which it is left, {tails} may be a tail call, where another \
                     function returns in its place. They are recorded as '{name}', without a value",
                    spec.text,
                    returns + tails,
                ));
            }
            Ok(())
        }
        ProbeTarget::Usdt(wanted) => {
            let all = usdt::locations(&elf).map_err(at_binary)?;
            events::add_usdt(spec, wanted, (&elf, &all), probes, names)
        }
    }
}

/// Maps functions and their pieces, if that is needed or the file is a Go program.
fn code_map(elf: &Elf, is_needed: bool) -> Result<Option<CodeMap<'_>>, ElfError> {
    if is_needed || elf.is_go() {
        return CodeMap::new(elf).map(Some);
    }
    Ok(None)
}

/// Adds the events of the function's exits. Returns the name of the event of its tail calls, if it has some.
fn add_exits(
    spec: &ProbeSpec<'_>,
    exits: FunctionExits,
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<Option<String>, ProbeError> {
    if let Some(event) = exits.returns {
        events::add_function(spec, event, "", probes, names)?;
    }
    let behind = if exits.has_value { TAIL } else { "" };
    let mut last = None;
    for event in exits.tails {
        last = Some(events::add_function(spec, event, behind, probes, names)?);
    }
    Ok(last.filter(|_| exits.has_value))
}

/// Adds all functions that match a pattern and can be probed. Of several names for one place, the first is used.
fn add_functions(
    spec: &ProbeSpec<'_>,
    elf: &Elf,
    found: &Matching<'_>,
    (text, arguments, is_return): (&str, &[ProbeArgument<'_>], bool),
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    let (mut fit, mut places) = (Fit::default(), HashSet::new());
    let map = code_map(elf, is_return);
    let map = map.map_err(|error| spec.error(spec.binary, ProbeProblem::Elf(error)))?;
    let mut tails = 0;
    for name in found.names() {
        match found.place(name) {
            Ok(at) if !places.insert(at.offset) => {
                fit.leave_out(name, "another name of one of these");
            }
            Ok(at) => {
                let shown = source_names::shown(name);
                let place = FunctionPlace { text: &shown, symbol: Some(name), offset: 0 };
                let (binary, map) = (elf.binary(), map.as_ref());
                let function = ProbedFunction { binary, map, found: at, place: &place, arguments };
                let added = if is_return {
                    function.exits().map(|exits| add_exits(spec, exits, probes, names))
                } else {
                    let event = function.entry();
                    event.map(|event| {
                        events::add_function(spec, event, "", probes, names).map(|_| None)
                    })
                };
                match added {
                    Ok(added) => {
                        tails += usize::from(added?.is_some());
                        fit.fits();
                    }
                    Err(problem) => fit.leave_out(name, &problem.of_one()),
                }
            }
            Err(error) => fit.leave_out(name, &ProbeProblem::Elf(error).of_one()),
        }
    }
    let remark = fit.remark(spec.text).map_err(|problem| spec.error(text, problem))?;
    probes.remarks.extend(remark);
    if tails > 0 {
        probes.remarks.push(format!(
            "probe {}: {tails} of these functions may be left by a tail call, where another function returns in its place. \
             That is recorded as an event of its own, '..._tail', without a value",
            spec.text
        ));
    }
    Ok(())
}
