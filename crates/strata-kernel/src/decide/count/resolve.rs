//! Finds the keys and the value of a count in one event, as constants of its program.

use crate::decide::count::{split_ends, CountError, CountSpec, Operand, SplitFilter};
use crate::decide::event::{KernelEvent, Probe};
use crate::decide::filter::{place_of, FieldPlace, SyscallEnd};
use crate::decide::session_events::SelectedEvent;
use strata_abi::count::{self, Count, Part, ABSENT, DURATION, GID, NAME, UID};
use strata_abi::kernel::{Test, CHARS, COMM};

/// The kind of value that a key has in all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// The name of the event.
    Name,
    /// A text of at most 16 bytes.
    Text,
    /// A number; the flag is true if it may be negative.
    Number(bool),
}

/// Collects the kinds of all keys, and whether the value may be negative, from one event after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyKinds {
    /// For each key, its kind, and the name of an event in which the key has that kind.
    found: Vec<Option<(KeyKind, String)>>,
    has_value: bool,
    signed: bool,
}

/// The kinds of the keys and of the value that hold for all events.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountKinds {
    pub(crate) keys: Vec<KeyKind>,
    /// True if values may be negative.
    pub(crate) signed: bool,
}

/// The way in which one event is counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) count: Count,
    /// The filters of a system call's entry and exit. For any other event, that of the entry is the event's filter.
    pub(crate) filter: SplitFilter,
}

impl Counted {
    /// Returns whether the event is a system call that is counted when it returns.
    pub(crate) fn is_paired(&self) -> bool {
        self.count.flags & count::PAIRED != 0
    }
}

impl KeyKinds {
    pub(crate) fn new(spec: &CountSpec) -> KeyKinds {
        KeyKinds { found: vec![None; spec.keys.len()], has_value: false, signed: false }
    }

    /// Returns the kinds of all keys and of the value.
    ///
    /// # Errors
    /// [`CountError::Absent`] if no event has a key or the value.
    pub(crate) fn finish(self, spec: &CountSpec) -> Result<CountKinds, CountError> {
        let absent = |name: &String| CountError::Absent { name: name.clone() };
        if let (Some((name, _)), false) = (&spec.value, self.has_value) {
            return Err(absent(name));
        }
        let all = self.found.into_iter().zip(&spec.keys);
        let kind = |(found, (name, _)): (Option<(KeyKind, String)>, &(String, Operand))| {
            found.map(|(kind, _)| kind).ok_or_else(|| absent(name))
        };
        Ok(CountKinds { keys: all.map(kind).collect::<Result<_, _>>()?, signed: self.signed })
    }

    /// Returns the way in which an event is counted; `None` if it does not have the value that is
    /// added up.
    ///
    /// # Errors
    /// [`CountError`].
    pub(crate) fn counted(
        &mut self,
        spec: &CountSpec,
        selected: &SelectedEvent,
    ) -> Result<Option<Counted>, CountError> {
        let event = &selected.event;
        let is_call = matches!(event.probe, Probe::Syscall { .. });
        let filter = match &selected.filter.as_ref().or(selected.exit_filter.as_ref()) {
            Some(filter) if is_call => split_ends(filter, event)?,
            filter => SplitFilter { entry: filter.cloned(), exit: None },
        };
        let mut count = Count { nr_keys: spec.keys.len() as u32, ..Count::default() };
        if let Some((name, operand)) = &spec.value {
            let Some((part, kind)) = part(name, operand, event)? else { return Ok(None) };
            match kind {
                KeyKind::Number(signed) => {
                    self.signed |= signed;
                }
                _ => {
                    let (name, event) = (name.clone(), event.name.clone());
                    return Err(CountError::Text { name, event });
                }
            }
            self.has_value = true;
            count.value = part;
            count.flags |= count::VALUE | if spec.spread { count::SPREAD } else { 0 };
        }
        for ((to, (name, operand)), found) in
            count.key.iter_mut().zip(&spec.keys).zip(&mut self.found)
        {
            let Some((part, kind)) = part(name, operand, event)? else {
                to.what.operand = ABSENT;
                continue;
            };
            *to = part;
            match found {
                None => *found = Some((kind, event.name.clone())),
                Some((KeyKind::Number(before), _)) if kind == KeyKind::Number(true) => {
                    *before = true;
                }
                Some((before, _)) if *before == kind => {}
                Some((KeyKind::Number(_), _)) if kind == KeyKind::Number(false) => {}
                Some((before, other)) => {
                    let (mut text, mut number) = (other.clone(), event.name.clone());
                    if *before != KeyKind::Text {
                        std::mem::swap(&mut text, &mut number);
                    }
                    return Err(CountError::Mixed { name: name.clone(), text, number });
                }
            }
        }
        let mut parts = count.key.iter().chain([&count.value]);
        let needs_exit = parts.any(|part| part.at_exit != 0 || part.what.operand == DURATION);
        if is_call && (needs_exit || filter.exit.is_some() || selected.slower > 0) {
            count.flags |= count::PAIRED;
        }
        Ok(Some(Counted { count, filter }))
    }
}

/// Returns the place from which a key's operand is read in one event; `None` if the event has no such value.
fn part(
    name: &str,
    operand: &Operand,
    event: &KernelEvent,
) -> Result<Option<(Part, KeyKind)>, CountError> {
    let is_call = matches!(event.probe, Probe::Syscall { .. });
    let fixed = |operand| Part { what: Test { operand, ..Test::default() }, at_exit: 0 };
    let path = match operand {
        Operand::Name => return Ok(Some((fixed(NAME), KeyKind::Name))),
        Operand::Uid => return Ok(Some((fixed(UID), KeyKind::Number(false)))),
        Operand::Gid => return Ok(Some((fixed(GID), KeyKind::Number(false)))),
        Operand::Duration if is_call => {
            return Ok(Some((fixed(DURATION), KeyKind::Number(false))));
        }
        Operand::Duration => return Ok(None),
        Operand::Field(path) => path,
    };
    let ends: &[SyscallEnd] = match is_call {
        true => &[SyscallEnd::Entry, SyscallEnd::Exit],
        false => &[SyscallEnd::Entry],
    };
    for &end in ends {
        match place_of(path, event, end) {
            FieldPlace::Absent => {}
            FieldPlace::Unsupported(why) => {
                let (name, event) = (name.to_owned(), event.name.clone());
                return Err(CountError::Unsupported { name, event, why });
            }
            FieldPlace::Read(what) => {
                let kind = match what.operand {
                    COMM | CHARS => KeyKind::Text,
                    _ => KeyKind::Number(what.is_signed != 0),
                };
                let at_exit = u64::from(end == SyscallEnd::Exit);
                return Ok(Some((Part { what, at_exit }, kind)));
            }
        }
    }
    Ok(None)
}
