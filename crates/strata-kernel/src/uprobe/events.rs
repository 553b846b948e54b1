//! The events that a `--probe` makes.

use crate::elf::{Binary, CodePlace, Elf};
use crate::event::{FieldSource, KernelEvent, Probe};
use crate::uprobe::error::{ProbeError, ProbeProblem};
use crate::uprobe::fit::Fit;
use crate::uprobe::register::{ARGUMENTS, RAX, RIP};
use crate::uprobe::spec::{
    hexadecimal, ArgumentClass, FunctionPlace, ProbeArgument, ProbeSpec, Usdt,
};
use crate::uprobe::{similar, Probes};
use crate::usdt::{self, UsdtLocation};
use std::collections::{BTreeSet, HashMap};
use strata_abi::kernel::{Part, CONSTANT, MEMORY, PARTS_MAX, REGISTER, STRING, STRING_AT};
use strata_filter::Pattern;
use strata_model::{is_identifier, Field, FieldClass};

/// Longer names are cut, so that a number fits behind \[byte\].
const NAME_BYTES: usize = 200;

/// Names that are taken, and what for.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenNames {
    taken: HashMap<String, NameUse>,
}

#[derive(Clone, Debug)]
struct NameUse {
    /// What is recorded there: of a function its place, of a USDT probe what it is called.
    what: String,
    fields: Vec<Field>,
}

impl TakenNames {
    /// All others can be taken again.
    pub(crate) fn retain(&mut self, is_used: impl Fn(&str) -> bool) {
        self.taken.retain(|name, _| is_used(name));
    }

    /// The event's name, with a number behind it if it is taken for something else.
    fn choose(&mut self, wanted: &str, what: &str, fields: &[Field]) -> String {
        let numbered = (2u32..).map(|number| format!("{wanted}_{number}"));
        for name in std::iter::once(wanted.to_owned()).chain(numbered) {
            match self.taken.get(&name) {
                Some(other) if other.what != what || other.fields != fields => {}
                Some(_) => return name,
                None => {
                    let other = NameUse { what: what.to_owned(), fields: fields.to_vec() };
                    self.taken.insert(name.clone(), other);
                    return name;
                }
            }
        }
        // As many names as there are numbers are not taken.
        wanted.to_owned()
    }

    /// A name that the user chose, for events of the same fields.
    fn chosen(&mut self, name: &str, fields: &[Field]) -> Result<String, ProbeProblem> {
        let other = self
            .taken
            .entry(name.to_owned())
            .or_insert_with(|| NameUse { what: String::new(), fields: fields.to_vec() });
        if other.fields == fields {
            Ok(name.to_owned())
        } else {
            Err(ProbeProblem::NameTaken(name.to_owned()))
        }
    }
}

fn register_part(offset: u16, bytes: u8) -> Part {
    Part { kind: REGISTER, offset, bytes: bytes.into(), ..Part::default() }
}

/// What filters can look at: what is in a register.
fn source(field: &Field, part: &Part) -> Option<FieldSource> {
    let is_signed = match &field.class {
        FieldClass::Integer(integer) => integer.signed,
        _ => return None,
    };
    (part.kind == REGISTER).then(|| FieldSource {
        field: field.name.clone(),
        offset: part.offset,
        bytes: part.bytes as u8,
        is_signed,
        labels: vec![],
    })
}

fn sources(fields: &[Field], parts: &[Part]) -> Vec<FieldSource> {
    fields.iter().zip(parts).filter_map(|(field, part)| source(field, part)).collect()
}

/// What a probe of a function records.
pub(crate) fn function(
    binary: &Binary,
    found: CodePlace,
    place: &FunctionPlace<'_>,
    arguments: &[ProbeArgument<'_>],
    is_return: bool,
) -> KernelEvent {
    let own = if is_return { "ret_ip" } else { "ip" };
    let mut fields = vec![Field::new(own, hexadecimal(8))];
    let mut parts = vec![register_part(RIP, 8)];
    let registers: &[u16] = if is_return { &[RAX] } else { &ARGUMENTS };
    for (argument, register) in arguments.iter().zip(registers) {
        if let Some(class) = argument.class.as_ref().filter(|_| argument.is_recorded()) {
            fields.push(Field::new(argument.name, class.field.clone()));
            let part = register_part(*register, class.bytes);
            parts.push(Part { kind: class.kind, ..part });
        }
    }
    let system = if is_return { "uretprobes" } else { "uprobes" };
    KernelEvent {
        name: String::new(),
        system: system.into(),
        kernel_name: place.text.to_owned(),
        sources: sources(&fields, &parts),
        fields,
        exit_fields: vec![],
        exit_sources: vec![],
        is_followed: true,
        probe: Probe::Uprobe {
            binary: binary.clone(),
            offset: found.offset,
            is_return,
            semaphore: None,
            parts,
        },
    }
}

/// Gives it its name.
pub(crate) fn add_function(
    spec: &ProbeSpec<'_>,
    mut event: KernelEvent,
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    event.name = match spec.name {
        Some(name) => {
            names.chosen(name, &event.fields).map_err(|problem| spec.error(name, problem))?
        }
        None => {
            let kind = event.system.trim_end_matches('s');
            let wanted = identifier(&format!("{kind}_{}", event.kernel_name));
            let what = format!("{} {}", spec.binary, event.kernel_name);
            names.choose(&wanted, &what, &event.fields)
        }
    };
    // The same probe twice is one.
    if !probes.events.contains(&event) {
        probes.events.push(event);
    }
    Ok(())
}

/// Letters, digits and `_`.
fn identifier(text: &str) -> String {
    let plain = |char: char| {
        if char.is_ascii_alphanumeric() {
            char
        } else {
            '_'
        }
    };
    let mut name: String = text.chars().map(plain).collect();
    name.truncate(NAME_BYTES);
    debug_assert!(is_identifier(&name));
    name
}

/// What all places of the USDT probes of these names record.
pub(crate) fn add_usdt(
    spec: &ProbeSpec<'_>,
    usdt: &Usdt<'_>,
    (elf, all): (&Elf, &[UsdtLocation]),
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<(), ProbeError> {
    let (providers, wanted) = (Pattern::glob(usdt.provider), Pattern::glob(usdt.name));
    let is_wanted = |one: &&UsdtLocation| {
        providers.matches(one.provider.as_bytes()) && wanted.matches(one.name.as_bytes())
    };
    let found: Vec<&UsdtLocation> = all.iter().filter(is_wanted).collect();
    if found.is_empty() {
        let missing = missing(elf, (usdt.provider, usdt.name), all);
        return Err(spec.error(from(spec, usdt.provider), missing));
    }
    if let Some(name) = spec.name {
        let different: BTreeSet<_> = found.iter().map(|one| (&one.provider, &one.name)).collect();
        if different.len() > 1 {
            return Err(spec.error(name, ProbeProblem::SeveralNamed { found: different.len() }));
        }
    }
    let is_pattern = usdt.provider.contains('*') || usdt.name.contains('*');
    let mut remarks: Vec<(String, u64)> = Vec::new();
    let (mut fit, mut fitting, mut unfit) = (Fit::default(), BTreeSet::new(), BTreeSet::new());
    for location in found {
        let name = format!("{}:{}", location.provider, location.name);
        let (event, left_out) = match usdt_event(elf, location, usdt.arguments.as_deref()) {
            Ok(made) => made,
            Err(problem) if is_pattern => {
                if unfit.insert(name.clone()) {
                    fit.leave_out(&name, &problem.of_one());
                }
                continue;
            }
            Err(problem) => return Err(spec.error(from(spec, usdt.provider), problem)),
        };
        if fitting.insert(name) {
            fit.fits();
        }
        for why in left_out {
            let remark = format!("{}:{}: {why}", location.provider, location.name);
            match remarks.iter_mut().find(|(known, _)| *known == remark) {
                Some((_, count)) => *count += 1,
                None => remarks.push((remark, 1)),
            }
        }
        let default = identifier(&format!("usdt_{}_{}", location.provider, location.name));
        let what = format!("{} {}", elf.path().display(), event.kernel_name);
        let name = names.choose(spec.name.unwrap_or(&default), &what, &event.fields);
        let event = KernelEvent { name, ..event };
        if !probes.events.contains(&event) {
            probes.events.push(event);
        }
    }
    let unfit = fit.remark(spec.text);
    probes.remarks.extend(unfit.map_err(|why| spec.error(from(spec, usdt.provider), why))?);
    probes.remarks.extend(remarks.into_iter().map(|(remark, count)| match count {
        1 => format!("USDT probe {remark}. It is left out"),
        _ => format!("USDT probe {remark}. It is left out in {count} places"),
    }));
    Ok(())
}

/// The text from this part of it on.
fn from<'a>(spec: &ProbeSpec<'a>, part: &str) -> &'a str {
    let start = (part.as_ptr() as usize).wrapping_sub(spec.text.as_ptr() as usize);
    spec.text.get(start..).unwrap_or(spec.text)
}

/// One place of a probe, and what is not recorded there.
fn usdt_event(
    elf: &Elf,
    location: &UsdtLocation,
    wanted: Option<&[ProbeArgument<'_>]>,
) -> Result<(KernelEvent, Vec<String>), ProbeProblem> {
    let probe = || format!("{}:{}", location.provider, location.name);
    let mut fields = vec![Field::new("ip", hexadecimal(8))];
    let mut parts = vec![register_part(RIP, 8)];
    let mut left_out = Vec::new();
    let arguments = usdt::arguments(elf, location);
    if let Some(wanted) = wanted.filter(|wanted| wanted.len() > arguments.len()) {
        let (found, wanted) = (arguments.len(), wanted.len());
        return Err(ProbeProblem::Few { probe: probe(), found, wanted });
    }
    for (index, argument) in arguments.into_iter().enumerate() {
        let wanted = match wanted.map(|wanted| wanted.get(index)) {
            Some(None) => break,
            Some(Some(wanted)) if !wanted.is_recorded() => continue,
            Some(wanted) => wanted,
            None => None,
        };
        let number = index + 1;
        let name = wanted.map_or_else(|| format!("arg{number}"), |wanted| wanted.name.to_owned());
        if parts.len() == PARTS_MAX {
            left_out.push(format!("{name}: a record has at most {PARTS_MAX} fields"));
            continue;
        }
        let (class, part) = match argument {
            Ok(argument) => argument,
            Err(why) => {
                left_out.push(format!("{name}, {why}"));
                continue;
            }
        };
        let (class, part) = match wanted.and_then(|wanted| wanted.class.as_ref()) {
            None => (class.field_class(), part),
            Some(typed) => match with_type(typed, &part) {
                Some(part) => (typed.field.clone(), part),
                None => {
                    let wanted = if typed.kind == STRING { 8 } else { typed.bytes };
                    return Err(ProbeProblem::Wide {
                        probe: probe(),
                        number,
                        found: class.bytes(),
                        wanted,
                    });
                }
            },
        };
        fields.push(Field::new(name, class));
        parts.push(part);
    }
    let event = KernelEvent {
        name: String::new(),
        system: "usdt".into(),
        kernel_name: format!("{}:{}", location.provider, location.name),
        sources: sources(&fields, &parts),
        fields,
        exit_fields: vec![],
        exit_sources: vec![],
        is_followed: true,
        probe: Probe::Uprobe {
            binary: elf.binary().clone(),
            offset: location.offset,
            is_return: false,
            semaphore: location.semaphore,
            parts,
        },
    };
    Ok((event, left_out))
}

/// As much of it as the type has, or the string it points to; `None` if it has less.
fn with_type(class: &ArgumentClass, part: &Part) -> Option<Part> {
    let kind = match (class.kind == STRING, part.kind) {
        (false, kind) => kind,
        (true, REGISTER) => STRING,
        (true, MEMORY) => STRING_AT,
        (true, _) => return None,
    };
    let wanted = if class.kind == STRING { 8 } else { u16::from(class.bytes) };
    let is_enough = part.bytes >= wanted || part.kind == CONSTANT;
    is_enough.then_some(Part { kind, bytes: class.bytes.into(), ..*part })
}

fn missing(elf: &Elf, (provider, name): (&str, &str), all: &[UsdtLocation]) -> ProbeProblem {
    let binary = elf.path().display().to_string();
    if all.is_empty() {
        return ProbeProblem::NoUsdt(binary);
    }
    let names: BTreeSet<String> =
        all.iter().map(|one| format!("{}:{}", one.provider, one.name)).collect();
    let probe = format!("{provider}:{name}");
    let mut near = similar(&probe, names.iter().map(String::as_str), true);
    if near.is_empty() {
        // Perhaps the other provider was meant.
        let other = |one: &&String| one.split_once(':').is_some_and(|(_, other)| other == name);
        near = names.iter().filter(other).take(4).cloned().collect();
    }
    let all = if near.is_empty() {
        const SHOWN: usize = 6;
        let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
        let more = if names.len() > SHOWN { ", ..." } else { "" };
        format!(". It has {}{more}", shown.join(", "))
    } else {
        String::new()
    };
    ProbeProblem::NoProbe { binary, probe, similar: near, all }
}
