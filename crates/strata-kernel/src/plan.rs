//! Which program is loaded with which constants for each event, and what the records are.

use crate::attach::Target;
use crate::error::Error;
use crate::event::{KernelEvent, Probe};
use crate::filter::{compile, Compiled, End};
use crate::object::Object;
use crate::session::{Problem, SelectedEvent};
use crate::syscalls;
use strata_abi::kernel::{
    self, Event, Filter, Part, Syscall, ARG_PATH, ARG_STRINGS, NO_ID, SYSCALLS,
};
use strata_model::{limits, EventClass, Field, FieldClass, Integer, RecordHeader, StreamClass};

/// One object to load.
pub(crate) struct Unit {
    pub(crate) object: Object,
    pub(crate) programs: Vec<&'static str>,
    pub(crate) event: Event,
    pub(crate) constant: Constant,
    pub(crate) target: Target,
    /// Recorded names.
    pub(crate) events: Vec<String>,
    /// What is loaded if the kernel refuses it.
    pub(crate) fallback: Option<Box<Fallback>>,
}

/// The same event, by another program.
pub(crate) struct Fallback {
    pub(crate) unit: Unit,
    /// The payload that it has then.
    pub(crate) fields: Vec<Field>,
}

/// What it has besides `event`.
pub(crate) enum Constant {
    None,
    /// Of a payload, what does not depend on the event's data.
    Payload {
        /// \[byte\]
        fixed: u32,
        /// Texts that are read before.
        nr_strings: u32,
    },
    Syscalls(Box<[Syscall; SYSCALLS as usize]>),
}

/// All that is to be loaded.
pub(crate) struct Plan {
    pub(crate) units: Vec<Unit>,
    pub(crate) stream_class: StreamClass,
    pub(crate) problems: Vec<Problem>,
}

/// System calls with the same filters: one pair of programs.
struct Group {
    entry: Compiled,
    exit: Compiled,
    table: Box<[Syscall; SYSCALLS as usize]>,
    events: Vec<String>,
    has_entry: bool,
    has_exit: bool,
}

struct Planner {
    units: Vec<Unit>,
    groups: Vec<Group>,
    classes: Vec<EventClass>,
    problems: Vec<Problem>,
}

/// # Errors
/// [`Error::Filter`], [`Error::TooManyEvents`].
pub(crate) fn plan(events: Vec<SelectedEvent>) -> Result<Plan, Error> {
    let mut planner = Planner { units: vec![], groups: vec![], classes: vec![], problems: vec![] };
    for selected in events {
        planner.add(selected)?;
    }
    let mut text_id = 0;
    if planner.groups.iter().any(Group::has_texts) {
        text_id = planner.class(syscalls::TEXT, syscalls::text_fields());
    }
    let found = planner.classes.len();
    if found > limits::EVENTS {
        return Err(Error::TooManyEvents { found, limit: limits::EVENTS });
    }
    for group in std::mem::take(&mut planner.groups) {
        planner.units.push(group.into_unit(text_id));
    }
    let tid = Field { name: "tid".into(), class: FieldClass::Integer(Integer::signed(4)) };
    Ok(Plan {
        units: planner.units,
        stream_class: StreamClass {
            id: 0,
            name: "channel0".into(),
            header: RecordHeader::Large,
            context: vec![tid],
            events: planner.classes,
        },
        problems: planner.problems,
    })
}

fn compiled(selected: &SelectedEvent, end: End, wanted: bool) -> Result<Compiled, Error> {
    match &selected.filter {
        _ if !wanted => Ok(Compiled::Never),
        None => Ok(Compiled::Always),
        Some(filter) => Ok(compile(filter, &selected.event, end)?),
    }
}

/// What is recorded instead, if an event's own program is refused.
fn fallback_of(selected: &SelectedEvent) -> Option<SelectedEvent> {
    let Probe::Hot { fallback: Some(event), .. } = &selected.event.probe else { return None };
    Some(SelectedEvent { event: (**event).clone(), ..selected.clone() })
}

fn tests(compiled: &Compiled) -> Filter {
    match compiled {
        Compiled::Tests(tests) => *tests,
        _ => Filter::default(),
    }
}

impl Planner {
    fn add(&mut self, selected: SelectedEvent) -> Result<(), Error> {
        let is_syscall = matches!(selected.event.probe, Probe::Syscall { .. });
        let fallback = fallback_of(&selected);
        let entry = compiled(&selected, End::Entry, selected.entry || !is_syscall)?;
        let exit = compiled(&selected, End::Exit, selected.exit && is_syscall)?;
        let KernelEvent {
            name, system, kernel_name, fields, exit_fields, probe, is_followed, ..
        } = selected.event;
        if let Probe::Syscall { number, entry: call } = probe {
            let mut call = Syscall { entry_id: NO_ID, exit_id: NO_ID, ..call };
            let mut events = Vec::new();
            if entry != Compiled::Never {
                events.push(format!("syscall_entry_{name}"));
                call.entry_id = self.class(&format!("syscall_entry_{name}"), fields);
                if call.kind.iter().any(|kind| matches!(*kind, ARG_PATH | ARG_STRINGS)) {
                    call.flags |= kernel::CALL_TEXTS;
                }
            }
            if exit != Compiled::Never {
                events.push(format!("syscall_exit_{name}"));
                call.exit_id = self.class(&format!("syscall_exit_{name}"), exit_fields);
            }
            self.add_syscall(number, call, (entry, exit), events);
            return Ok(());
        }
        if entry == Compiled::Never {
            return Ok(());
        }
        let mut event = Event { followed: u8::from(is_followed), ..Event::default() };
        event.filter[0] = tests(&entry);
        let (object, program, constant, target) = match probe {
            Probe::Tracepoint { parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let target = Target::Tracepoint { system, name: kernel_name };
                let constant = Constant::Payload { fixed, nr_strings: 0 };
                (Object::Tracepoint, "strata_tracepoint", constant, target)
            }
            Probe::Uprobe { binary, offset, is_return, semaphore, parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let target = Target::Uprobe { binary, offset, is_return, semaphore };
                let strings = event.part.iter().filter(|part| part.kind >= kernel::STRING);
                let constant = Constant::Payload { fixed, nr_strings: strings.count() as u32 };
                (Object::Uprobe, "strata_uprobe", constant, target)
            }
            Probe::Hot { program, .. } => (Object::Hot, program, Constant::None, Target::Own),
            Probe::Syscall { .. } => return Ok(()),
        };
        event.id = self.class(&name, fields);
        let events = vec![name];
        let programs = vec![program];
        self.units.push(Unit { object, programs, event, constant, target, events, fallback: None });
        if let Some(fallback) = fallback {
            self.add_fallback(fallback, event.id);
        }
        Ok(())
    }

    /// Of the unit that was added last: planned alone, with the id of that one's class. Without one if the
    /// filter names a field that it does not have.
    fn add_fallback(&mut self, selected: SelectedEvent, id: u32) {
        let mut alone =
            Planner { units: vec![], groups: vec![], classes: vec![], problems: vec![] };
        if alone.add(selected).is_err() {
            return;
        }
        if let (Some(mut unit), Some(class)) = (alone.units.pop(), alone.classes.pop()) {
            unit.event.id = id;
            if let Some(last) = self.units.last_mut() {
                last.fallback = Some(Box::new(Fallback { unit, fields: class.fields }));
            }
        }
    }

    /// Its id; that of another place of the same event is the same.
    fn class(&mut self, name: &str, fields: Vec<Field>) -> u32 {
        let same = |class: &&EventClass| class.name == name && class.fields == fields;
        if let Some(class) = self.classes.iter().find(same) {
            return class.id;
        }
        let id = self.classes.len() as u32;
        self.classes.push(EventClass {
            id,
            provider: String::new(),
            name: name.to_owned(),
            loglevel: None,
            emf_uri: None,
            fields,
        });
        id
    }

    /// Neighbours are copied in one piece. Returns the bytes that do not depend on the event's data.
    fn set_parts(&mut self, name: &str, event: &mut Event, parts: Vec<Part>) -> Option<u32> {
        let mut joined: Vec<Part> = Vec::new();
        for part in parts {
            match joined.last_mut() {
                Some(last)
                    if last.kind == kernel::COPY
                        && part.kind == kernel::COPY
                        && last.offset + last.bytes == part.offset
                        && u32::from(last.bytes) + u32::from(part.bytes) <= kernel::TEXT_MAX =>
                {
                    last.bytes += part.bytes;
                }
                _ => joined.push(part),
            }
        }
        let fixed = joined.iter().map(fixed_bytes).sum();
        if joined.len() > kernel::PARTS_MAX || fixed > kernel::TEXT_MAX {
            self.problems.push(Problem {
                event: name.to_owned(),
                reason: format!(
                    "its payload has {} parts and {fixed} bytes, limits {} and {}",
                    joined.len(),
                    kernel::PARTS_MAX,
                    kernel::TEXT_MAX
                ),
            });
            return None;
        }
        event.nr_parts = joined.len() as u8;
        for (to, part) in event.part.iter_mut().zip(joined) {
            *to = part;
        }
        Some(fixed)
    }

    fn add_syscall(
        &mut self,
        number: u32,
        call: Syscall,
        (entry, exit): (Compiled, Compiled),
        events: Vec<String>,
    ) {
        // What is not recorded fits into any group.
        let fits = |one: &Compiled, other: &Compiled, has: bool| {
            *one == Compiled::Never || !has || one == other
        };
        if events.is_empty() || number >= SYSCALLS {
            return;
        }
        let (has_entry, has_exit) = (entry != Compiled::Never, exit != Compiled::Never);
        let at = self.groups.iter().position(|group| {
            fits(&entry, &group.entry, group.has_entry) && fits(&exit, &group.exit, group.has_exit)
        });
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group::new());
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(at) else { return };
        if has_entry {
            group.entry = entry;
            group.has_entry = true;
        }
        if has_exit {
            group.exit = exit;
            group.has_exit = true;
        }
        if let Some(slot) = group.table.get_mut(number as usize) {
            *slot = call;
        }
        if number == SYSCALLS - 1 {
            for unknown in unknown_numbers() {
                if let Some(slot) = group.table.get_mut(unknown as usize) {
                    *slot = call;
                }
            }
        }
        group.events.extend(events);
    }
}

/// Numbers that no system call has, as far as we know.
fn unknown_numbers() -> Vec<u32> {
    let known: Vec<u32> = syscalls::table().iter().map(|call| call.number).collect();
    (0..SYSCALLS - 1).filter(|number| !known.contains(number)).collect()
}

fn fixed_bytes(part: &Part) -> u32 {
    match part.kind {
        kernel::COPY | kernel::REGISTER | kernel::MEMORY | kernel::CONSTANT => part.bytes.into(),
        _ => 2,
    }
}

impl Group {
    fn new() -> Group {
        let none = Syscall { entry_id: NO_ID, exit_id: NO_ID, ..Syscall::default() };
        Group {
            entry: Compiled::Never,
            exit: Compiled::Never,
            table: Box::new([none; SYSCALLS as usize]),
            events: vec![],
            has_entry: false,
            has_exit: false,
        }
    }

    fn has_texts(&self) -> bool {
        self.table.iter().any(|call| call.flags & kernel::CALL_TEXTS != 0)
    }

    /// The kernel gives the number of execve to an execveat that has succeeded.
    fn expect_execveat(&mut self) {
        let number = |name| syscalls::find(name).map(|call| call.number as usize);
        let (Some(execve), Some(execveat)) = (number("execve"), number("execveat")) else { return };
        let texts = self.table.get(execveat).map_or(0, |call| call.flags & kernel::CALL_TEXTS);
        if let Some(slot) = self.table.get_mut(execve) {
            slot.flags |= texts;
        }
    }

    fn into_unit(mut self, text_id: u32) -> Unit {
        self.expect_execveat();
        let mut event = Event { id: text_id, followed: 1, ..Event::default() };
        event.filter = [tests(&self.entry), tests(&self.exit)];
        let mut programs = Vec::new();
        if self.has_entry {
            programs.push("strata_sys_enter");
        }
        if self.has_exit || self.has_texts() {
            programs.push("strata_sys_exit");
        }
        Unit {
            object: Object::Syscalls,
            programs,
            event,
            constant: Constant::Syscalls(self.table),
            target: Target::Own,
            events: self.events,
            fallback: None,
        }
    }
}
