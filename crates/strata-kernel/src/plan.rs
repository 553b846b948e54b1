//! Which program is loaded with which constants for each event, and what the records are.

use crate::attach::AttachPoint;
use crate::classes::id_of;
use crate::contexts::Contexts;
use crate::control::SyscallTable;
use crate::error::Error;
use crate::event::{KernelEvent, Probe};
use crate::filter::{compile_for, Compiled, Groups, SyscallEnd};
use crate::key::ProgramKey;
use crate::object::Object;
use crate::sample;
use crate::selected::{SelectedEvent, UnrecordedEvent};
use crate::syscalls;
use strata_abi::kernel::{
    self, Event, Filter, Part, Syscall, CALL_ENTRY, CALL_EXIT, CALL_MEMORY, COMPAT, COMPAT_UNKNOWN,
    NO_ID, SYSCALLS, UNKNOWN,
};
use strata_model::{limits, EventClass, Field, FieldClass, Integer, RecordHeader, StreamClass};

/// One object to load.
pub(crate) struct LoadUnit {
    pub(crate) object: Object,
    pub(crate) programs: Vec<&'static str>,
    pub(crate) event: Event,
    pub(crate) constant: Constant,
    pub(crate) target: AttachPoint,
    /// Recorded names.
    pub(crate) events: Vec<String>,
    /// What is loaded if the kernel refuses it.
    pub(crate) fallback: Option<Box<Fallback>>,
}

/// The same event, by another program.
pub(crate) struct Fallback {
    pub(crate) unit: LoadUnit,
    /// What it has in front of its payload, alone.
    pub(crate) context: Vec<Field>,
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
    Syscalls(Box<SyscallTable>, Box<PairAbilities>),
}

/// What a pair of programs for system calls can do, whichever calls are in its table.
#[derive(Clone, Debug)]
pub(crate) struct PairAbilities {
    /// What its records have besides the thread; see [`Event::contexts`].
    pub(crate) contexts: u64,
    pub(crate) entry: Compiled,
    pub(crate) exit: Compiled,
    pub(crate) has_entry: bool,
    pub(crate) has_exit: bool,
    /// Calls may have [`CALL_MEMORY`].
    pub(crate) reads_again: bool,
}

/// All that is to be recorded.
pub(crate) struct KernelPlan {
    /// Each with its programs; those that run already, too.
    pub(crate) units: Vec<LoadUnit>,
    /// For each pair of programs that runs: its table from now on, and the recorded names.
    pub(crate) tables: Vec<(Box<SyscallTable>, Vec<String>)>,
    /// The classes that are known, and new ones behind them.
    pub(crate) classes: Vec<EventClass>,
    pub(crate) problems: Vec<UnrecordedEvent>,
}

/// System calls with the same filters: one pair of programs.
struct SyscallGroup {
    /// What its records have besides the thread; see [`Event::contexts`].
    contexts: u64,
    /// Of these, what others have not; of one that runs it is not asked.
    own: Contexts,
    entry: Compiled,
    exit: Compiled,
    table: Box<SyscallTable>,
    events: Vec<String>,
    has_entry: bool,
    has_exit: bool,
    /// It runs: what it can do stays as it is.
    running: Option<bool>,
}

struct Planner {
    units: Vec<LoadUnit>,
    groups: Vec<SyscallGroup>,
    /// Of each place that is recorded: the group that does.
    at: Vec<Option<usize>>,
    classes: Vec<EventClass>,
    problems: Vec<UnrecordedEvent>,
    /// What all records say.
    contexts: Contexts,
    /// Of filters.
    filter_groups: Groups,
}

/// A stream's class without an event.
pub(crate) fn stream_class(contexts: &Contexts) -> StreamClass {
    let tid = Field { name: "tid".into(), class: FieldClass::Integer(Integer::signed(4)) };
    StreamClass {
        id: 0,
        name: "channel0".into(),
        header: RecordHeader::Large,
        context: [tid].into_iter().chain(contexts.fields()).collect(),
        events: Vec::new(),
    }
}

/// `classes` are known already, and pairs of programs with these tables run.
///
/// # Errors
/// [`Error::Filter`], [`Error::TooManyEvents`].
pub(crate) fn plan<'t>(
    events: Vec<SelectedEvent>,
    classes: Vec<EventClass>,
    contexts: &Contexts,
    running: impl Iterator<Item = (&'t SyscallTable, &'t PairAbilities)>,
    groups: Groups,
) -> Result<KernelPlan, Error> {
    let mut planner = Planner::new(classes, contexts.clone(), groups);
    for (table, held) in running {
        planner.add_running(table, held);
    }
    for selected in events {
        planner.add(selected)?;
    }
    let mut tables = Vec::new();
    for mut group in std::mem::take(&mut planner.groups) {
        if group.running.is_none() {
            let again_id = match group.has_memory() {
                true => planner.again_id(&group.own),
                false => 0,
            };
            planner.units.push(group.into_unit(again_id));
        } else {
            group.expect_execve();
            tables.push((group.table, group.events));
        }
    }
    let Planner { units, classes, problems, .. } = planner;
    let found = classes.len();
    if found > limits::EVENTS {
        return Err(Error::TooManyEvents { found, limit: limits::EVENTS });
    }
    Ok(KernelPlan { units, tables, classes, problems })
}

fn compiled(
    selected: &SelectedEvent,
    end: SyscallEnd,
    wanted: bool,
    groups: Groups,
) -> Result<Compiled, Error> {
    let filter = match end {
        SyscallEnd::Entry => &selected.filter,
        SyscallEnd::Exit => &selected.exit_filter,
    };
    match filter {
        _ if !wanted => Ok(Compiled::Never),
        None => Ok(Compiled::Always),
        Some(filter) => Ok(compile_for(filter, &selected.event, end, groups)?),
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

impl LoadUnit {
    /// See [`ProgramKey`].
    pub(crate) fn key(&self) -> ProgramKey {
        let payload = match self.constant {
            Constant::Payload { fixed, nr_strings } => Some((fixed, nr_strings)),
            _ => None,
        };
        ProgramKey {
            object: self.object,
            programs: self.programs.iter().map(|name| (*name).to_owned()).collect(),
            event: self.event,
            payload,
            target: self.target.clone(),
        }
    }
}

impl Planner {
    fn new(classes: Vec<EventClass>, contexts: Contexts, filter_groups: Groups) -> Planner {
        let at = vec![None; SYSCALLS as usize];
        Planner {
            units: vec![],
            groups: vec![],
            at,
            classes,
            problems: vec![],
            contexts,
            filter_groups,
        }
    }

    /// Nothing of it is wanted yet.
    fn add_running(&mut self, table: &SyscallTable, held: &PairAbilities) {
        let PairAbilities { contexts, entry, exit, has_entry, has_exit, reads_again } =
            held.clone();
        let mut table = Box::new(*table);
        for (at, call) in self.at.iter_mut().zip(table.iter_mut()) {
            if call.flags & (CALL_ENTRY | CALL_EXIT) != 0 {
                *at = Some(self.groups.len());
            }
            call.flags &= !(CALL_ENTRY | CALL_EXIT);
        }
        let events = Vec::new();
        let running = Some(reads_again);
        self.groups.push(SyscallGroup {
            contexts,
            own: Contexts::default(),
            entry,
            exit,
            table,
            events,
            has_entry,
            has_exit,
            running,
        });
    }

    fn add(&mut self, selected: SelectedEvent) -> Result<(), Error> {
        let is_syscall = matches!(selected.event.probe, Probe::Syscall { .. });
        let fallback = fallback_of(&selected);
        let entry = compiled(
            &selected,
            SyscallEnd::Entry,
            selected.entry || !is_syscall,
            self.filter_groups,
        )?;
        let exit =
            compiled(&selected, SyscallEnd::Exit, selected.exit && is_syscall, self.filter_groups)?;
        let KernelEvent { name, mut fields, exit_fields, probe, is_followed, .. } = selected.event;
        let own = selected.contexts.without(&self.contexts);
        let contexts = self.contexts.bits_with(&own);
        if let Probe::Syscall { place, entry: call } = probe {
            let mut call = Syscall { entry_id: NO_ID, exit_id: NO_ID, ..call };
            let mut events = Vec::new();
            let [entry_name, exit_name] = syscalls::recorded_names(&name);
            if entry != Compiled::Never {
                call.entry_id = self.class(&entry_name, &own, fields);
                call.flags |= CALL_ENTRY;
                events.push(entry_name);
                if call.kind.iter().any(|kind| syscalls::is_read_again(*kind)) {
                    call.flags |= kernel::CALL_MEMORY;
                }
            }
            if exit != Compiled::Never {
                call.exit_id = self.class(&exit_name, &own, exit_fields);
                call.flags |= CALL_EXIT;
                events.push(exit_name);
            }
            self.add_syscall(place, call, (contexts, own), (entry, exit), events);
            return Ok(());
        }
        if entry == Compiled::Never {
            return Ok(());
        }
        let mut event = Event { followed: u8::from(is_followed), contexts, ..Event::default() };
        event.filter[0] = tests(&entry);
        let (object, program, constant, target) = match probe {
            Probe::Tracepoint { id, parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let target = AttachPoint::Tracepoint { id };
                let constant = Constant::Payload { fixed, nr_strings: 0 };
                (Object::Tracepoint, "strata_tracepoint", constant, target)
            }
            Probe::Uprobe { binary, offset, is_return, semaphore, parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let target = AttachPoint::Uprobe { binary, offset, is_return, semaphore };
                let strings = event.part.iter().filter(|part| part.kind >= kernel::STRING);
                let constant = Constant::Payload { fixed, nr_strings: strings.count() as u32 };
                (Object::Uprobe, "strata_uprobe", constant, target)
            }
            Probe::Sample { rate } => {
                let target = AttachPoint::Timer { rate };
                fields = sample::fields(&self.contexts.with(&own));
                (Object::Sample, "strata_sample", Constant::None, target)
            }
            Probe::Hot { program, .. } => (Object::Hot, program, Constant::None, AttachPoint::Own),
            Probe::Syscall { .. } => return Ok(()),
        };
        event.id = self.class(&name, &own, fields);
        let events = vec![name];
        let programs = vec![program];
        let object = object.of(&event);
        self.units.push(LoadUnit {
            object,
            programs,
            event,
            constant,
            target,
            events,
            fallback: None,
        });
        if let Some(fallback) = fallback {
            self.add_fallback(fallback, event.id);
        }
        Ok(())
    }

    /// Of the unit that was added last: planned alone, with the id of that one's class. Without one if the
    /// filter names a field that it does not have.
    fn add_fallback(&mut self, selected: SelectedEvent, id: u32) {
        let mut alone = Planner::new(Vec::new(), self.contexts.clone(), self.filter_groups);
        if alone.add(selected).is_err() {
            return;
        }
        if let (Some(mut unit), Some(class)) = (alone.units.pop(), alone.classes.pop()) {
            unit.event.id = id;
            if let Some(last) = self.units.last_mut() {
                let EventClass { context, fields, .. } = class;
                last.fallback = Some(Box::new(Fallback { unit, context, fields }));
            }
        }
    }

    fn class(&mut self, name: &str, own: &Contexts, fields: Vec<Field>) -> u32 {
        let (context, begin) = own.own_fields();
        let fields = begin.into_iter().chain(fields).collect();
        id_of(&mut self.classes, name, context, fields)
    }

    /// Of the records of what system calls have read again: the first of three, one behind the other.
    fn again_id(&mut self, own: &Contexts) -> u32 {
        syscalls::again_classes().map(|(name, fields)| self.class(name, own, fields))[0]
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
            self.problems.push(UnrecordedEvent {
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
        (contexts, own): (u64, Contexts),
        (entry, exit): (Compiled, Compiled),
        events: Vec<String>,
    ) {
        if events.is_empty() || place >= SYSCALLS {
            return;
        }
        let fits =
            |group: &SyscallGroup| group.contexts == contexts && group.fits(&call, &entry, &exit);
        let current = self.at.get(place as usize).copied().flatten();
        // One that moves goes to programs that are attached behind those that it comes from.
        let is_behind =
            |group: &SyscallGroup| fits(group) && (current.is_none() || group.running.is_none());
        let at = current
            .filter(|at| self.groups.get(*at).is_some_and(fits))
            .or_else(|| self.groups.iter().position(is_behind));
        let at = at.unwrap_or_else(|| {
            self.groups.push(SyscallGroup::new(contexts, own));
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(at) else { return };
        if entry != Compiled::Never {
            group.entry = entry;
            group.has_entry = true;
        }
        if exit != Compiled::Never {
            group.exit = exit;
            group.has_exit = true;
        }
        let others = if place == UNKNOWN { unknown_places() } else { Vec::new() };
        for at in others.into_iter().chain([place]) {
            if let Some(slot) = group.table.get_mut(at as usize) {
                let mut call = call;
                // What was recorded is in calls that have not returned yet.
                call.flags |= slot.flags;
                if call.entry_id == NO_ID {
                    call.entry_id = slot.entry_id;
                }
                if call.exit_id == NO_ID {
                    call.exit_id = slot.exit_id;
                }
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

impl SyscallGroup {
    fn new(contexts: u64, own: Contexts) -> SyscallGroup {
        let none = Syscall { entry_id: NO_ID, exit_id: NO_ID, ..Syscall::default() };
        SyscallGroup {
            contexts,
            own,
            entry: Compiled::Never,
            exit: Compiled::Never,
            table: Box::new([none; SYSCALLS as usize]),
            events: vec![],
            has_entry: false,
            has_exit: false,
            running: None,
        }
    }

    /// Whether the call can be one of it. What is not recorded fits into any group that has yet to be loaded.
    fn fits(&self, call: &Syscall, entry: &Compiled, exit: &Compiled) -> bool {
        let fits = |one: &Compiled, own: &Compiled, has: bool| {
            *one == Compiled::Never || one == own && has || !has && self.running.is_none()
        };
        let reads_again = call.flags & CALL_MEMORY != 0;
        fits(entry, &self.entry, self.has_entry)
            && fits(exit, &self.exit, self.has_exit)
            && (!reads_again || self.running.unwrap_or(true))
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

    fn into_unit(mut self, again_id: u32) -> LoadUnit {
        self.expect_execve();
        let reads_again = u8::from(self.has_memory());
        let contexts = self.contexts;
        let mut event =
            Event { id: again_id, followed: 1, reads_again, contexts, ..Event::default() };
        event.filter = [tests(&self.entry), tests(&self.exit)];
        let held = Box::new(PairAbilities {
            contexts,
            entry: self.entry.clone(),
            exit: self.exit.clone(),
            has_entry: self.has_entry,
            has_exit: self.has_exit,
            reads_again: self.has_memory(),
        });
        let mut programs = Vec::new();
        if self.has_entry {
            programs.push("strata_sys_enter");
        }
        if self.has_exit || self.has_memory() {
            programs.push("strata_sys_exit");
        }
        LoadUnit {
            object: Object::Syscalls.of(&event),
            programs,
            event,
            constant: Constant::Syscalls(self.table, held),
            target: AttachPoint::Own,
            events: self.events,
            fallback: None,
        }
    }
}
