//! Which program is loaded with which constants for each event, and what the records are.

use crate::attach::Target;
use crate::error::Error;
use crate::event::{KernelEvent, Probe};
use crate::filter::{compile, Compiled, End};
use crate::object::Object;
use crate::session::{Problem, SelectedEvent};
use crate::syscalls;
use strata_abi::kernel::{
    self, Event, Filter, Part, Syscall, COMPAT, COMPAT_UNKNOWN, NO_ID, SYSCALLS, UNKNOWN,
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
    let again_id = planner.classes.len() as u32;
    if planner.groups.iter().any(Group::has_memory) {
        for (name, fields) in syscalls::again_classes() {
            planner.class(name, fields);
        }
    }
    let found = planner.classes.len();
    if found > limits::EVENTS {
        return Err(Error::TooManyEvents { found, limit: limits::EVENTS });
    }
    for group in std::mem::take(&mut planner.groups) {
        planner.units.push(group.into_unit(again_id));
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
        let KernelEvent { name, fields, exit_fields, probe, is_followed, .. } = selected.event;
        if let Probe::Syscall { place, entry: call } = probe {
            let mut call = Syscall { entry_id: NO_ID, exit_id: NO_ID, ..call };
            let mut events = Vec::new();
            let [entry_name, exit_name] = syscalls::recorded_names(&name);
            if entry != Compiled::Never {
                call.entry_id = self.class(&entry_name, fields);
                events.push(entry_name);
                if call.kind.iter().any(|kind| syscalls::is_read_again(*kind)) {
                    call.flags |= kernel::CALL_MEMORY;
                }
            }
            if exit != Compiled::Never {
                call.exit_id = self.class(&exit_name, exit_fields);
                events.push(exit_name);
            }
            self.add_syscall(place, call, (entry, exit), events);
            return Ok(());
        }
        if entry == Compiled::Never {
            return Ok(());
        }
        let mut event = Event { followed: u8::from(is_followed), ..Event::default() };
        event.filter[0] = tests(&entry);
        let (object, program, constant, target) = match probe {
            Probe::Tracepoint { id, parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let target = Target::Tracepoint { id };
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
        let object = object.of(&event);
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
        place: u32,
        call: Syscall,
        (entry, exit): (Compiled, Compiled),
        events: Vec<String>,
    ) {
        // What is not recorded fits into any group.
        let fits = |one: &Compiled, other: &Compiled, has: bool| {
            *one == Compiled::Never || !has || one == other
        };
        if events.is_empty() || place >= SYSCALLS {
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
        let others = if place == UNKNOWN { unknown_places() } else { Vec::new() };
        for at in others.into_iter().chain([place]) {
            if let Some(slot) = group.table.get_mut(at as usize) {
                *slot = call;
                if (COMPAT..=COMPAT_UNKNOWN).contains(&at) {
                    // Arguments of 32-bit programs are not in the registers that are copied.
                    slot.fixed_bytes = 0;
                    slot.offset = [0; 6];
                }
            }
        }
        group.events.extend(events);
    }
}

/// Places that no system call has, as far as we know.
fn unknown_places() -> Vec<u32> {
    let all = syscalls::table().iter().chain(syscalls::compat::table());
    let known: Vec<u32> = all.map(|call| call.place()).collect();
    (0..UNKNOWN).filter(|place| !known.contains(place)).collect()
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

    fn has_memory(&self) -> bool {
        self.table.iter().any(|call| call.flags & kernel::CALL_MEMORY != 0)
    }

    /// An execve or execveat that has succeeded returns as execve, and as that of the new program's kind.
    fn expect_execve(&mut self) {
        let own = ["execve", "execveat"].map(syscalls::find);
        let compat = ["compat_execve", "compat_execveat"].map(syscalls::compat::find);
        let place = |call: Option<&syscalls::Syscall>| call.map(|call| call.place() as usize);
        let [ends, others] = [0, 1].map(|at| [own[at], compat[at]].map(place));
        let slots = ends.iter().chain(&others).flatten();
        let flags = slots.filter_map(|place| self.table.get(*place)).map(|call| call.flags);
        let memory = flags.fold(0, |all, flags| all | flags & kernel::CALL_MEMORY);
        for place in ends.into_iter().flatten() {
            if let Some(slot) = self.table.get_mut(place) {
                slot.flags |= memory;
            }
        }
    }

    fn into_unit(mut self, again_id: u32) -> Unit {
        self.expect_execve();
        let reads_again = u8::from(self.has_memory());
        let mut event = Event { id: again_id, followed: 1, reads_again, ..Event::default() };
        event.filter = [tests(&self.entry), tests(&self.exit)];
        let mut programs = Vec::new();
        if self.has_entry {
            programs.push("strata_sys_enter");
        }
        if self.has_exit || self.has_memory() {
            programs.push("strata_sys_exit");
        }
        Unit {
            object: Object::Syscalls.of(&event),
            programs,
            event,
            constant: Constant::Syscalls(self.table),
            target: Target::Own,
            events: self.events,
            fallback: None,
        }
    }
}
