//! Makes the events of a `--probe`: from a place in a file and the arguments in the user's words to a name, fields, and where in
//! the registers and the memory of the program each value is.
//!
//! ```text
//! uprobe     CodePlace ── calling convention ── registers of arguments ──▶ ProbedFunction::entry
//! uretprobe  CodePlace ── exits, a64_exits ── returns, tail calls, guards ─▶ ProbedFunction::exits
//! usdt       UsdtLocation: "8@%rdi" ── operands ───────────────────────▶ add_usdt, an event for each set of fields
//!                                                        └─▶ KernelEvent: fields, and a Part for each (strata/abi/kernel.h)
//! ```
//!
//! - A [`CallingConvention`] says in which registers arguments and results are: C's, or Go's, whose functions take them in other
//!   registers and whose texts have no NUL. Where a Go function may take values from its stack, it is refused.
//! - A function's returns are one event with many places. A tail call leaves the function without a result in a register; where
//!   results are recorded, tail calls are another event, with `_tail` in its name.
//! - The places of a USDT probe may differ in where the arguments are, so each set of parts is an event; those with the same name
//!   have the same fields, or a number in the name ([`TakenNames`]).
//! - Numbers in memory may not be readable at the time of the hit. Such an event has a last field that says which were not.
//!
//! An event takes at most [`VALUES_MAX`] values. All bytes of a file are hostile; what they say is bounded by `elf`, `usdt` and
//! `code_map`, and here only looked up. Nothing is attached: that is `attach`'s.

use crate::arch::registers::Registers;
use crate::arch::{self, Instructions};
use crate::decide::event::{FieldSource, KernelEvent, Probe};
use crate::decide::uprobe::error::{ProbeError, ProbeProblem};
use crate::decide::uprobe::exits;
use crate::decide::uprobe::function_pieces::{ExitProblem, Exits};
use crate::decide::uprobe::pattern_results::Fit;
use crate::decide::uprobe::register::{self, is_stack_top, return_address};
use crate::decide::uprobe::spec::{
    hexadecimal, ArgumentClass, FunctionPlace, ProbeArgument, ProbeSpec, TextLength, Usdt,
};
use crate::decide::uprobe::Probes;
use crate::decide::uprobe::{a64_exits, go_entry};
use crate::discover::code_map::CodeMap;
use crate::discover::elf::{Binary, CodePlace, Elf};
use crate::discover::usdt::{self, UsdtLocation};
use std::collections::{BTreeSet, HashMap};
use strata_abi::kernel::{
    Part, CONSTANT, LENGTH_NUMBER, LENGTH_SIGNED, MEMORY, PARTS_MAX, REGISTER, STRING, STRING_AT,
    UNREAD,
};
use strata_filter::{similar_or_longer, Pattern};
use strata_model::{is_identifier, Field, FieldClass, Integer, UNREAD_FIELD};

/// The longest event name; longer ones are cut, so that a number can be appended \[byte\].
const NAME_BYTES: usize = 200;

/// The most values of a record. One more field shows which values could not be read.
const VALUES_MAX: usize = PARTS_MAX - 1;

/// Event names that are in use. Each has the place or USDT probe that uses it, and its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TakenNames {
    taken: HashMap<String, NameUse>,
}

#[derive(Clone, Debug, PartialEq)]
struct NameUse {
    /// The user of the name: the place of a function, or the name of a USDT probe.
    what: String,
    fields: Vec<Field>,
}

impl TakenNames {
    /// Forgets all names that are not in use any more.
    pub(crate) fn retain(&mut self, is_used: impl Fn(&str) -> bool) {
        self.taken.retain(|name, _| is_used(name));
    }

    /// Returns `wanted` as the event's name, with a number appended if that name belongs to another probe or other
    /// fields.
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

    /// Returns the name that the user chose, if all events of that name have the same fields.
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

/// Returns the place where filters find the field's value; `None` unless the value is in a register.
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

/// Sets the length of each text whose length is another argument.
///
/// # Errors
/// [`ProbeProblem::NoLength`] if that argument is not in the list, or no integer.
fn set_lengths(
    arguments: &[ProbeArgument<'_>],
    fields: &[Field],
    parts: &mut [Part],
) -> Result<(), ProbeProblem> {
    let at = |name: &str| fields.iter().position(|field| field.name == name);
    for argument in arguments.iter().filter(|argument| argument.is_recorded()) {
        let (Some(length), Some(text)) = (argument.length, at(argument.name)) else { continue };
        let bytes = match length {
            TextLength::Bytes(bytes) => LENGTH_NUMBER | bytes,
            TextLength::Argument(name) => {
                let found = at(name).and_then(|at| Some((at, fields.get(at)?, parts.get(at)?)));
                let number = found.and_then(|(at, field, part)| match &field.class {
                    FieldClass::Integer(number)
                        if [REGISTER, MEMORY, CONSTANT].contains(&part.kind) =>
                    {
                        Some((u16::try_from(at + 1).ok()?, number.signed))
                    }
                    _ => None,
                });
                match number {
                    Some((number, true)) => LENGTH_SIGNED | number,
                    Some((number, false)) => number,
                    None => return Err(ProbeProblem::NoLength(name.to_owned())),
                }
            }
        };
        if let Some(part) = parts.get_mut(text) {
            part.bytes = bytes;
        }
    }
    Ok(())
}

/// A calling convention: the registers of a function's arguments and results.
struct CallingConvention {
    arguments: &'static [u16],
    results: [u16; 2],
    /// True if texts end with a NUL, as in C.
    has_nul: bool,
}

/// The convention of C on this machine.
fn of_c() -> CallingConvention {
    let Registers { arguments, results, .. } = register::here();
    CallingConvention { arguments, results: *results, has_nul: true }
}

fn of_go() -> CallingConvention {
    let Registers { go, .. } = register::here();
    let result = |at: usize| go.get(at).copied().unwrap_or_default();
    CallingConvention { arguments: go, results: [result(0), result(1)], has_nul: false }
}

/// Returns the calling convention of the function that begins at `address`.
///
/// # Errors
/// [`ProbeProblem::GoValues`] if they may be on the stack, or if that is not known.
fn convention(
    map: Option<&CodeMap<'_>>,
    address: u64,
    what: &'static str,
) -> Result<CallingConvention, ProbeProblem> {
    let Some((map, go)) = map.and_then(|map| Some((map, map.go()?))) else { return Ok(of_c()) };
    let unknown = |why| Err(ProbeProblem::GoValues { what, why });
    if !go.is_known() {
        return unknown("the file has no table of functions as Go writes it from 1.18 on");
    }
    let Some(function) = go.at(address).filter(|function| function.start == address) else {
        // One of C, which a program of Go calls.
        return Ok(of_c());
    };
    let is_abi0 = map.beginning_at(address).iter().any(|one| one.name.ends_with(b".abi0"));
    if arch::here_or_any().instructions != Instructions::X86 {
        return unknown("that is known for x86-64 only so far");
    }
    if function.is_assembly || is_abi0 || go_entry::has_stack_arguments(map, address) {
        return unknown("it is called as assembly is, and may have them on the stack");
    }
    Ok(of_go())
}

/// Returns the instruction in whose middle `address` is; `None` if one begins there, or if that is not known.
fn instruction_around(map: &CodeMap<'_>, address: u64) -> Option<u64> {
    match arch::here_or_any().instructions {
        Instructions::X86 => exits::instruction_around(map, address),
        Instructions::A64 => a64_exits::instruction_around(address),
    }
}

fn exits_of(map: &CodeMap<'_>, start: u64) -> Result<Exits, ExitProblem> {
    match arch::here_or_any().instructions {
        Instructions::X86 => exits::find(map, start),
        Instructions::A64 => a64_exits::find(map, start),
    }
}

fn behind_stack_check(map: &CodeMap<'_>, start: u64) -> Option<u64> {
    match arch::here_or_any().instructions {
        Instructions::X86 => go_entry::behind_stack_check(map, start),
        Instructions::A64 => a64_exits::behind_stack_check(map, start),
    }
}

/// A function that is to be probed.
pub(crate) struct ProbedFunction<'p, 'data> {
    pub(crate) binary: &'p Binary,
    /// The map of the file's code, which is needed for returns and for Go programs.
    pub(crate) map: Option<&'p CodeMap<'data>>,
    pub(crate) found: CodePlace,
    pub(crate) place: &'p FunctionPlace<'p>,
    pub(crate) arguments: &'p [ProbeArgument<'p>],
}

impl ProbedFunction<'_, '_> {
    fn event(&self, fields: Vec<Field>, parts: Vec<Part>, offsets: Vec<u64>) -> KernelEvent {
        KernelEvent {
            name: String::new(),
            system: "uprobes".into(),
            kernel_name: self.place.text.to_owned(),
            sources: sources(&fields, &parts),
            fields,
            exit_fields: vec![],
            exit_sources: vec![],
            is_followed: true,
            probe: Probe::Uprobe {
                binary: self.binary.clone(),
                offsets,
                guard: None,
                semaphore: None,
                parts,
            },
        }
    }

    /// Appends the fields whose values are in these registers.
    fn add_values(
        &self,
        registers: &[u16],
        convention: &CallingConvention,
        fields: &mut Vec<Field>,
        parts: &mut Vec<Part>,
    ) -> Result<(), ProbeProblem> {
        for (argument, register) in self.arguments.iter().zip(registers) {
            if let Some(class) = argument.class.as_ref().filter(|_| argument.is_recorded()) {
                if class.kind == STRING && !convention.has_nul && argument.length.is_none() {
                    return Err(ProbeProblem::GoText(argument.name.to_owned()));
                }
                fields.push(Field::new(argument.name, class.field.clone()));
                let part = register_part(*register, class.bytes);
                parts.push(Part { kind: class.kind, ..part });
            }
        }
        // Their lengths are numbers of the same list, which the list's text was checked for.
        let _ = set_lengths(self.arguments, fields, parts);
        Ok(())
    }

    /// Describes the event of a probe at the function's begin.
    ///
    /// # Errors
    /// The function's arguments are not known.
    pub(crate) fn entry(&self) -> Result<KernelEvent, ProbeProblem> {
        if self.place.symbol.is_none() || self.place.offset > 0 {
            let around = self.map.and_then(|map| instruction_around(map, self.found.address));
            if let Some(begin) = around {
                let found = self.found.address;
                let first = self.place.offset.wrapping_sub(found.wrapping_sub(begin));
                return Err(ProbeProblem::Amidst { found: self.place.offset, first });
            }
        }
        let mut fields = vec![Field::new("ip", hexadecimal(8))];
        let mut parts = vec![register_part(register::here().ip, 8)];
        let mut offset = self.found.offset;
        if !self.arguments.is_empty() {
            let convention = convention(self.map, self.found.address, "the arguments")?;
            let (found, limit) = (self.arguments.len(), convention.arguments.len());
            if found > limit {
                return Err(ProbeProblem::TooMany { found, limit });
            }
            self.add_values(convention.arguments, &convention, &mut fields, &mut parts)?;
        }
        // A function of Go begins again when its stack has grown.
        let is_go = |map: &&CodeMap<'_>| {
            let function = map.go().and_then(|go| go.at(self.found.address));
            function.is_some_and(|function| function.start == self.found.address)
        };
        if self.place.symbol.is_some() && self.place.offset == 0 {
            let map = self.map.filter(is_go);
            let behind = map.and_then(|map| behind_stack_check(map, self.found.address));
            offset += behind.map_or(0, |behind| behind - self.found.address);
        }
        Ok(self.event(fields, parts, vec![offset]))
    }

    /// Describes the events of probes at the function's exits: where it returns, and where it jumps to another function
    /// that returns in its place.
    ///
    /// # Errors
    /// The exits or the results are not known.
    pub(crate) fn exits(&self) -> Result<FunctionExits, ProbeProblem> {
        let none = || ProbeProblem::Exits(ExitProblem::NoEnd);
        let map = self.map.ok_or_else(none)?;
        let (from, found) = (self.found.address, self.found.offset);
        let mut exits = exits_of(map, from).map_err(ProbeProblem::Exits)?;
        // Without a value, all ways to leave it are the same.
        let has_value = !self.arguments.is_empty();
        if !has_value {
            exits.returns.append(&mut exits.tail_calls);
            exits.returns.sort_unstable();
        }
        let offset = |address: &u64| {
            let place = map.offset(*address).filter(|offset| *offset > 0);
            place.ok_or(ProbeProblem::Exits(ExitProblem::NoEnd))
        };
        debug_assert_eq!(map.offset(from), Some(found));
        let fields = vec![Field::new("ret_ip", hexadecimal(8))];
        let parts = vec![return_address()];
        let with = |event: KernelEvent| KernelEvent { system: "uretprobes".into(), ..event };
        let mut all = FunctionExits {
            returns: None,
            tails: vec![],
            has_value,
            counts: (exits.returns.len(), exits.tail_calls.len() + exits.guarded.len()),
        };
        if !exits.returns.is_empty() {
            let (mut fields, mut parts) = (fields.clone(), parts.clone());
            if !self.arguments.is_empty() {
                let convention = convention(self.map, from, "the results")?;
                self.add_values(&convention.results, &convention, &mut fields, &mut parts)?;
            }
            let offsets = exits.returns.iter().map(offset).collect::<Result<_, _>>()?;
            all.returns = Some(with(self.event(fields, parts, offsets)));
        }
        if !exits.tail_calls.is_empty() {
            let offsets = exits.tail_calls.iter().map(offset).collect::<Result<_, _>>()?;
            all.tails.push(with(self.event(fields.clone(), parts.clone(), offsets)));
        }
        for (address, wanted) in exits.guarded {
            let offsets = vec![offset(&address)?];
            let mut event = with(self.event(fields.clone(), parts.clone(), offsets));
            if let Probe::Uprobe { guard, .. } = &mut event.probe {
                *guard = Some(wanted);
            }
            all.tails.push(event);
        }
        Ok(all)
    }
}

/// The events of a function's exits.
pub(crate) struct FunctionExits {
    /// The event of its returns.
    pub(crate) returns: Option<KernelEvent>,
    /// The events of its tail calls: jumps to functions that return in its place.
    pub(crate) tails: Vec<KernelEvent>,
    /// True if a returned value is recorded. Tail calls have no value yet, so they are a separate event.
    pub(crate) has_value: bool,
    /// The number of return instructions, and that of tail calls.
    pub(crate) counts: (usize, usize),
}

/// Names the event of a probe of a function, and returns the event. `behind`: the ending of the name.
pub(crate) fn add_function(
    spec: &ProbeSpec<'_>,
    mut event: KernelEvent,
    behind: &str,
    probes: &mut Probes,
    names: &mut TakenNames,
) -> Result<String, ProbeError> {
    event.name = match spec.name {
        Some(name) => {
            let chosen = names.chosen(&format!("{name}{behind}"), &event.fields);
            chosen.map_err(|problem| spec.error(name, problem))?
        }
        None => {
            let kind = event.system.trim_end_matches('s');
            let wanted = identifier(&format!("{kind}_{}", event.kernel_name)) + behind;
            let what = format!("{} {}{behind}", spec.binary, event.kernel_name);
            names.choose(&wanted, &what, &event.fields)
        }
    };
    let name = event.name.clone();
    add_unread(&mut event);
    // The same probe twice is one.
    if !probes.events.contains(&event) {
        probes.events.push(event);
    }
    Ok(name)
}

/// Adds a last field to an event whose values are read from the program's memory. The field shows which of them could
/// not be read. Events of one name may differ in this, as a value can be in a register at one place and in memory at
/// another.
fn add_unread(event: &mut KernelEvent) {
    let Probe::Uprobe { parts, .. } = &mut event.probe else { return };
    // What is on top of the stack was just written, and is there.
    if parts.iter().any(|part| part.kind == MEMORY && !is_stack_top(part)) {
        event.fields.push(Field::new(UNREAD_FIELD, FieldClass::Integer(Integer::unsigned(4))));
        parts.push(Part { kind: UNREAD, bytes: 4, ..Part::default() });
    }
}

/// Converts a text to an identifier: every character but letters, digits and `_` is replaced.
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

/// Adds the events for all places of the USDT probes that match.
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
        let what = format!("{} {}", spec.binary, event.kernel_name);
        let name = names.choose(spec.name.unwrap_or(&default), &what, &event.fields);
        let mut event = KernelEvent { name, ..event };
        add_unread(&mut event);
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

/// Returns the rest of the probe's text, from its slice `part` on.
fn from<'a>(spec: &ProbeSpec<'a>, part: &str) -> &'a str {
    let start = (part.as_ptr() as usize).wrapping_sub(spec.text.as_ptr() as usize);
    spec.text.get(start..).unwrap_or(spec.text)
}

/// Describes the event of a USDT probe at one place. Also returns messages about arguments that are left out.
fn usdt_event(
    elf: &Elf,
    location: &UsdtLocation,
    wanted: Option<&[ProbeArgument<'_>]>,
) -> Result<(KernelEvent, Vec<String>), ProbeProblem> {
    let probe = || format!("{}:{}", location.provider, location.name);
    let mut fields = vec![Field::new("ip", hexadecimal(8))];
    let mut parts = vec![register_part(register::here().ip, 8)];
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
        if parts.len() == VALUES_MAX {
            left_out.push(format!("{name}: a record has at most {VALUES_MAX} fields"));
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
    set_lengths(wanted.unwrap_or_default(), &fields, &mut parts)?;
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
            offsets: vec![location.offset],
            guard: None,
            semaphore: location.semaphore,
            parts,
        },
    };
    Ok((event, left_out))
}

/// Returns the argument's part of the record, with the size of the given type, or as the string to which it points.
/// `None` if the value is smaller than the type.
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
    let mut near = similar_or_longer(&probe, names.iter().map(String::as_str), true);
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
