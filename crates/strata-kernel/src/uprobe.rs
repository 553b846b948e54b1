//! Probes in programs and libraries, as `--probe` has them: uprobes, uretprobes, USDT.
//!
//! ```text
//! [NAME=]uprobe:BINARY:SYMBOL[+OFFSET][(ARGUMENT:TYPE,...)]
//! [NAME=]uretprobe:BINARY:SYMBOL[(NAME:TYPE)]
//! [NAME=]usdt:BINARY:PROVIDER:NAME[(ARGUMENT[:TYPE],...)]
//! ```
//! For their users they are described in `docs/guide/probes.md`.

mod error;
mod events;
pub mod register;
mod similar;
mod spec;
#[cfg(test)]
mod tests;

pub use error::{ProbeError, Problem};
pub(crate) use similar::similar;

use crate::elf::{self, Elf, ElfError};
use crate::event::KernelEvent;
use crate::usdt;
use events::Names;
use spec::{Spec, Target};
use std::path::PathBuf;

/// What probes record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// The events. Those with one name have the same fields: they are one event in several places.
    pub events: Vec<KernelEvent>,
    /// What is not recorded, and why: whole sentences.
    pub remarks: Vec<String>,
}

/// What can be probed in a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
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
    let mut names = Names::default();
    for text in specs {
        let spec = Spec::parse(text.as_ref())?;
        add(&spec, &mut probes, &mut names)?;
    }
    Ok(probes)
}

/// What can be probed in a program or library: a path, or a name as `--probe` has it.
///
/// # Errors
/// There is no such file, or it is none of ELF for x86-64.
pub fn list(binary: &str) -> Result<Listing, ElfError> {
    let elf = Elf::open(&elf::find(binary)?)?;
    Ok(Listing {
        functions: elf.functions()?,
        usdt: usdt::list(&elf)?,
        binary: elf.path().to_owned(),
    })
}

fn add(spec: &Spec<'_>, probes: &mut Probes, names: &mut Names) -> Result<(), ProbeError> {
    let at_binary = |error| spec.error(spec.binary, Problem::Elf(error));
    let path = elf::find(spec.binary).map_err(at_binary)?;
    let elf = Elf::open(&path).map_err(at_binary)?;
    match &spec.target {
        Target::Function { place, arguments, is_return } => {
            let found = match &place.symbol {
                Some(symbol) => elf.symbol(symbol, place.offset),
                None => elf.address(place.offset),
            };
            let found = found.map_err(|error| spec.error(place.text, Problem::Elf(error)))?;
            let event = events::function(elf.binary(), found, place, arguments, *is_return);
            events::add_function(spec, event, probes, names)
        }
        Target::Usdt(wanted) => {
            let all = usdt::locations(&elf).map_err(at_binary)?;
            events::add_usdt(spec, wanted, (&elf, &all), probes, names)
        }
    }
}
