//! Finds USDT probes in the `.note.stapsdt` notes of a program or library.
//!
//! ```text
//! note: address of the probe, address of its semaphore, "PROVIDER", "NAME", "8@%rdi -4@-20(%rbp)"
//!         └─ corrected by the base of `.stapsdt.base`, if the file was prelinked     └─ operand: size, and where the value is
//! ```
//!
//! A note is what `sys/sdt.h` leaves in a program for each place that its authors have marked. The format is
//! systemtap's; its wiki describes it under "UserSpaceProbeImplementation". The compiler copies code, so one
//! probe often has several notes, with its arguments in different registers at each: [`locations`] returns them
//! one by one, and [`list`] each probe once.
//!
//! A probe with a semaphore is off until a tracer adds 1 to it, which the kernel does while a uprobe is attached
//! there. Programs guard expensive arguments by it; [`Listed::has_semaphore`] says that such code exists.
//!
//! [`operand`] parses the arguments, in the assembler syntax of the machine for which the file was compiled. An
//! argument that it does not understand is left out of the event with a reason, and the other arguments are
//! recorded. The file is hostile: places, names and texts have limits, and an address that is in no segment of
//! the file ends in an error. `tests` compares with `readelf -n`.
//!
//! [`uprobe`](crate::uprobe) makes events of the places, and `strata list --probes FILE` prints the list.

pub mod operand;
#[cfg(test)]
mod tests;

use crate::discover::elf::{Elf, ElfError};
use object::elf::{PF_W, PF_X};
use operand::{OperandClass, OperandSymbols, UsdtOperand};
use std::collections::HashMap;
use strata_abi::kernel::Part;

/// One place of a USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtLocation {
    /// The provider of the probe.
    pub provider: String,
    /// The probe's name.
    pub name: String,
    /// Address of the probe's instruction.
    pub address: u64,
    /// Offset of the instruction in the file \[byte\].
    pub offset: u64,
    /// Offset in the file of the probe's semaphore, which counts the tracers that want the probe, if there is one
    /// \[byte\].
    pub semaphore: Option<u64>,
    /// The arguments in the form that the notes have: `-4@%edi`.
    pub arguments: Vec<String>,
}

/// A USDT probe, for a list of all probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The provider of the probe.
    pub provider: String,
    /// The probe's name.
    pub name: String,
    /// Number of places of the probe.
    pub locations: u64,
    /// The arguments as they are recorded at the first place, such as `arg1: s32`; or the reason why they are not.
    pub arguments: Vec<String>,
    /// True if the program runs some code only if a tracer wants the probe.
    pub has_semaphore: bool,
}

/// Note type of a probe, version 3: the only one since 2010.
const NT_STAPSDT: u32 = 3;

/// The most places in one file; the programs with the most have some thousands.
const PLACES_MAX: usize = 65_536;

/// The most bytes of a probe's provider and name \[byte\].
const NAME_MAX: usize = 256;
/// The most bytes of all arguments of a probe; `sys/sdt.h` has up to 12 arguments \[byte\].
const ARGUMENTS_MAX: usize = 1024;

/// Returns all USDT probes of a program or library, in the order of the file.
///
/// # Errors
/// [`ElfError::Damaged`].
pub fn locations(elf: &Elf) -> Result<Vec<UsdtLocation>, ElfError> {
    let base = elf.section(".stapsdt.base")?.map(|(address, _)| address);
    let mut all = Vec::new();
    for note in elf.notes(b"stapsdt", NT_STAPSDT)? {
        if all.len() == PLACES_MAX {
            let (path, limit) = (elf.path().into(), PLACES_MAX as u64);
            return Err(ElfError::Large { path, what: "USDT probes", limit });
        }
        let damaged = |what: String| ElfError::Damaged {
            path: elf.path().to_owned(),
            what: format!("USDT probe {}: {what}", all.len() + 1),
        };
        let raw = parse_note(note).ok_or_else(|| damaged("its note is cut, or too long".into()))?;
        // A file that was moved to other addresses after it was linked (prelink).
        let moved = base.filter(|_| raw.base != 0).map_or(0, |base| base.wrapping_sub(raw.base));
        let address = raw.address.wrapping_add(moved);
        let offset = elf.file_offset(address, PF_X)?;
        let offset = offset.ok_or_else(|| damaged(format!("there is no code at {address:#x}")))?;
        let semaphore = match raw.semaphore {
            0 => None,
            at => {
                let at = at.wrapping_add(moved);
                let found = elf.file_offset(at, PF_W)?;
                Some(found.ok_or_else(|| damaged(format!("there is no semaphore at {at:#x}")))?)
            }
        };
        all.push(UsdtLocation {
            provider: raw.provider,
            name: raw.name,
            address,
            offset,
            semaphore,
            arguments: split(&raw.arguments),
        });
    }
    Ok(all)
}

/// Returns all USDT probes, each once, in the order of the file.
///
/// # Errors
/// [`ElfError::Damaged`].
pub fn list(elf: &Elf) -> Result<Vec<Listed>, ElfError> {
    let mut all: Vec<Listed> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    for location in locations(elf)? {
        let name = (location.provider.clone(), location.name.clone());
        let place = *known.entry(name).or_insert(all.len());
        if let Some(listed) = all.get_mut(place) {
            listed.locations += 1;
            listed.has_semaphore |= location.semaphore.is_some();
            continue;
        }
        let arguments = arguments(elf, &location).into_iter().zip(1..);
        let arguments = arguments.map(|(argument, number)| match argument {
            Ok((class, _)) => format!("arg{number}: {}", class.name()),
            Err(why) => format!("arg{number}: not recorded ({why})"),
        });
        let arguments = arguments.collect();
        all.push(Listed {
            arguments,
            provider: location.provider,
            name: location.name,
            locations: 1,
            has_semaphore: location.semaphore.is_some(),
        });
    }
    Ok(all)
}

/// A note as it is in the file.
struct UsdtNote {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
    arguments: String,
}

fn parse_note(note: &[u8]) -> Option<UsdtNote> {
    let word = |at: usize| Some(u64::from_le_bytes(note.get(at..at + 8)?.try_into().ok()?));
    let mut texts = note.get(24..)?.split(|byte| *byte == 0);
    let mut text = |limit| {
        let text = texts.next().filter(|text| text.len() <= limit);
        text.map(strata_model::text_from_bytes)
    };
    let (provider, name, arguments) = (text(NAME_MAX)?, text(NAME_MAX)?, text(ARGUMENTS_MAX)?);
    // Behind the last text there is its NUL.
    texts.next()?;
    if provider.is_empty() || name.is_empty() {
        return None;
    }
    let (address, base, semaphore) = (word(0)?, word(8)?, word(16)?);
    Some(UsdtNote { address, base, semaphore, provider, name, arguments })
}

/// Splits the text at blanks, except at those within parentheses and brackets.
fn split(arguments: &str) -> Vec<String> {
    let mut all = Vec::new();
    let (mut depth, mut one) = (0u32, String::new());
    for char in arguments.chars() {
        match char {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !char.is_whitespace() {
            one.push(char);
        } else if depth == 0 && !one.is_empty() {
            all.push(std::mem::take(&mut one));
        }
    }
    if !one.is_empty() {
        all.push(one);
    }
    all
}

/// Returns for each argument of a location its type and the part by which it is recorded, or the reason why it is not
/// recorded.
pub(crate) fn arguments(
    elf: &Elf,
    location: &UsdtLocation,
) -> Vec<Result<(OperandClass, Part), String>> {
    let symbols = OperandSymbols {
        find: &|name| elf.any_symbol(name).ok().flatten(),
        is_fixed: elf.is_fixed(),
        at: location.address,
    };
    let argument = |text: &String| {
        let operand = UsdtOperand::parse(text)
            .and_then(|operand| Ok((operand.class, operand.part(&symbols)?)));
        operand.map_err(|why| format!("{text}: {why}"))
    };
    location.arguments.iter().map(argument).collect()
}
