//! Plans which program is loaded with which constants for each event, and makes the record classes.
//!
//! ```text
//! SelectedEvent ── add() ──▶ LoadUnit: object, programs, constants (Event, Constant), AttachPoint, fallback
//!                   │                └─ one unit for each tracepoint, probe or timer
//!                   └─ system calls ──▶ SyscallGroup: one pair of programs for many calls, with a table of them
//! ```
//!
//! A program is compiled once and loaded many times: what it records of an event (which fields, from where, with which
//! filter and contexts) are constants that the verifier knows, so that unused code costs nothing. System calls are the
//! exception. They have one pair of programs (entry and exit) for all calls with the same needs, and a table in a map
//! that says what is recorded of each call. The table can change while the pair runs; [`PairAbilities`] says which
//! calls the running pair could serve, so that a change loads a new pair only if it must.
//!
//! A unit may have a [`Fallback`]. The frequent events have programs of their own, which read the kernel's structures
//! by BTF; if the kernel refuses one, the generic tracepoint program records the same event with the fields that
//! tracefs describes. Its class then has other fields, which is why the class is chosen with the unit that was loaded.
//!
//! [`plan`] is called for a new session and for each change. Classes are never removed or renumbered: an event that
//! comes back gets the class it had, since records with the old id may still be in the rings. Filters that can never be
//! true make no unit; events that cannot be recorded are listed in [`KernelPlan::problems`] with the reason. Nothing is
//! loaded here, and everything is tested without a kernel.

use crate::arch;
use crate::attach::bpf_objects::Object;
use crate::attach::cpu_samples;
use crate::attach::program::AttachPoint;
use crate::attach::shared_control::SyscallTable;
use crate::decide::contexts::Contexts;
use crate::decide::count::{CountError, CountKinds, CountSpec, Counted, KeyKinds, SplitFilter};
use crate::decide::event::{KernelEvent, Probe};
use crate::decide::filter::{compile_for, Compiled, Groups, SyscallEnd};
use crate::decide::frequent_events;
use crate::decide::jump_guard;
use crate::decide::program_key::ProgramKey;
use crate::decide::record_classes::id_of;
use crate::decide::sampling::Sampling;
use crate::decide::session_events::{SelectedEvent, UnrecordedEvent};
use crate::decide::uprobe::register::is_stack_top;
use crate::discover::syscalls;
use crate::error::Error;
use strata_abi::count::{self, Count};
use strata_abi::kernel::{
    self, Event, Filter, Part, Syscall, Test, CALL_ENTRY, CALL_EXIT, CALL_MEMORY, CALL_READS,
    COMPAT, COMPAT_UNKNOWN, NO_ID, SYSCALLS, UNKNOWN,
};
use strata_model::{limits, EventClass, Field, FieldClass, Integer, RecordHeader, StreamClass};

/// A BPF object to load, with the programs and constants for one event or group of system calls.
pub(crate) struct LoadUnit {
    pub(crate) object: Object,
    pub(crate) programs: Vec<&'static str>,
    pub(crate) event: Event,
    pub(crate) constant: Constant,
    pub(crate) target: AttachPoint,
    /// The names of the events that the unit records.
    pub(crate) events: Vec<String>,
    /// The unit to load if the kernel refuses this one.
    pub(crate) fallback: Option<Box<Fallback>>,
    /// Constants of a program that counts; `None` for one that records.
    pub(crate) count: Option<Box<Count>>,
}

/// Another unit that records the same event.
pub(crate) struct Fallback {
    pub(crate) unit: LoadUnit,
    /// The fields of this unit's records, if they differ from those of the refused unit; `None` if they are the same.
    pub(crate) fields: Option<FallbackFields>,
}

/// The fields of a fallback's records.
pub(crate) struct FallbackFields {
    /// Fields of the event's own context, which precede the payload.
    pub(crate) context: Vec<Field>,
    pub(crate) payload: Vec<Field>,
}

/// Constants of a program in addition to those about the event.
#[derive(Clone)]
pub(crate) enum Constant {
    None,
    /// Constants about the payload, as far as that is the same in each record.
    Payload {
        /// Size of the fixed fields \[byte\].
        fixed: u32,
        /// Number of texts that are read before the record is reserved.
        nr_strings: u32,
        /// See [`crate::decide::jump_guard::words`].
        guard: [u64; jump_guard::WORDS],
    },
    Syscalls(Box<SyscallTable>, Box<PairAbilities>),
}

/// The abilities of a pair of programs for system calls, which do not depend on the calls in its table.
#[derive(Clone, Debug)]
pub(crate) struct PairAbilities {
    /// Contexts of the pair's records in addition to the thread; see [`Event::contexts`].
    pub(crate) contexts: u64,
    pub(crate) entry: Compiled,
    pub(crate) exit: Compiled,
    pub(crate) has_entry: bool,
    pub(crate) has_exit: bool,
    /// True if calls in the table may have the flag [`CALL_MEMORY`].
    pub(crate) reads_again: bool,
    /// Least duration of a recorded call; see [`SelectedEvent::slower`].
    pub(crate) slower: u64,
    /// True if only calls that waited are recorded; see [`SelectedEvent::waited`].
    pub(crate) waited: bool,
    /// The share of the calls that is recorded.
    pub(crate) sampling: Sampling,
}

/// The plan of everything that is recorded.
pub(crate) struct KernelPlan {
    /// All units with their programs, including those that run already.
    pub(crate) units: Vec<LoadUnit>,
    /// For each running pair of programs: its new table, and the names that it records.
    pub(crate) tables: Vec<(Box<SyscallTable>, Vec<String>)>,
    /// All event classes: first those that were known before, then new ones.
    pub(crate) classes: Vec<EventClass>,
    pub(crate) problems: Vec<UnrecordedEvent>,
    /// The kinds of the keys and of the value, if events are counted.
    pub(crate) kinds: CountKinds,
}

/// The settings of a plan that concern all events.
pub(crate) struct PlanOptions<'a> {
    /// Contexts that all records have.
    pub(crate) contexts: &'a Contexts,
    /// The treatment of control groups that filters name and that do not exist.
    pub(crate) groups: Groups,
    /// The request to count events; `None` to record them.
    pub(crate) count: Option<&'a CountSpec>,
}

/// System calls with the same filters, which one pair of programs records.
struct SyscallGroup {
    /// Contexts of the group's records in addition to the thread; see [`Event::contexts`].
    contexts: u64,
    /// Contexts that only the records of this group have. Not set for a running group.
    own: Contexts,
    entry: Compiled,
    exit: Compiled,
    table: Box<SyscallTable>,
    events: Vec<String>,
    has_entry: bool,
    has_exit: bool,
    /// Least duration of a recorded call; see [`SelectedEvent::slower`].
    slower: u64,
    /// True if only calls that waited are recorded; see [`SelectedEvent::waited`].
    waited: bool,
    /// The share of the calls that is recorded.
    sampling: Sampling,
    /// `Some` for a group whose programs run already, so that its abilities cannot change. True if these programs can
    /// read memory again.
    running: Option<bool>,
    /// Constants of programs that count.
    count: Option<Box<Count>>,
}

/// The request to count, and the kinds of the keys in the events so far.
struct Counting<'a> {
    spec: &'a CountSpec,
    kinds: KeyKinds,
}

struct Planner<'a> {
    units: Vec<LoadUnit>,
    groups: Vec<SyscallGroup>,
    /// For each place in the table of system calls, the index of the group that records the call.
    at: Vec<Option<usize>>,
    classes: Vec<EventClass>,
    problems: Vec<UnrecordedEvent>,
    /// Contexts that all records have.
    contexts: Contexts,
    /// The treatment of control groups that filters name and that do not exist.
    filter_groups: Groups,
    counting: Option<Counting<'a>>,
}

/// Creates the class of the kernel's streams, without any event.
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

/// Plans the recording of `events`. `classes`: the event classes known so far. The tables are those of the pairs
/// of programs that run already.
///
/// # Errors
/// [`Error::Filter`], [`Error::TooManyEvents`].
pub(crate) fn plan<'t>(
    events: Vec<SelectedEvent>,
    classes: Vec<EventClass>,
    options: &PlanOptions<'_>,
    running: impl Iterator<Item = (&'t SyscallTable, &'t PairAbilities)>,
) -> Result<KernelPlan, Error> {
    let mut planner = Planner::new(classes, options);
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
    let Planner { mut units, classes, problems, counting, .. } = planner;
    let kinds = match counting {
        Some(Counting { spec, kinds }) => kinds.finish(spec)?,
        None => CountKinds::default(),
    };
    if kinds.signed {
        units.iter_mut().for_each(LoadUnit::count_signed);
    }
    let found = classes.len();
    if found > limits::EVENTS {
        return Err(Error::TooManyEvents { found, limit: limits::EVENTS });
    }
    Ok(KernelPlan { units, tables, classes, problems, kinds })
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
        // Its other end decides.
        _ if !wanted && selected.is_recorded_at_exit() => Ok(Compiled::Always),
        _ if !wanted => Ok(Compiled::Never),
        None => Ok(Compiled::Always),
        Some(filter) => Ok(compile_for(filter, &selected.event, end, groups)?),
    }
}

/// Returns the event that is recorded in place of this one if the event's own program is refused.
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
    /// Marks the value as possibly negative in all programs, if it is in one event, since all programs share one
    /// table.
    fn count_signed(&mut self) {
        if let Some(count) = &mut self.count {
            count.flags |= count::SIGNED;
        }
        if let Some(fallback) = &mut self.fallback {
            fallback.unit.count_signed();
        }
    }

    /// Returns the unit that records only calls that waited. This unit is its fallback, if the kernel refuses it.
    fn of_waited_calls(self) -> LoadUnit {
        LoadUnit {
            object: Object::SyscallsWaited,
            programs: vec!["strata_switch_of_calls"],
            constant: self.constant.clone(),
            target: self.target.clone(),
            events: self.events.clone(),
            count: None,
            event: self.event,
            fallback: Some(Box::new(Fallback { unit: self, fields: None })),
        }
    }

    /// Returns the unit's key, by which running programs are found.
    pub(crate) fn key(&self) -> ProgramKey {
        let payload = match self.constant {
            Constant::Payload { fixed, nr_strings, .. } => Some((fixed, nr_strings)),
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

impl<'a> Planner<'a> {
    fn new(classes: Vec<EventClass>, options: &PlanOptions<'a>) -> Planner<'a> {
        let at = vec![None; SYSCALLS as usize];
        Planner {
            units: vec![],
            groups: vec![],
            at,
            classes,
            problems: vec![],
            contexts: options.contexts.clone(),
            filter_groups: options.groups,
            counting: options.count.map(|spec| Counting { spec, kinds: KeyKinds::new(spec) }),
        }
    }

    /// Adds a group for a running pair of programs. None of its calls is requested yet.
    fn add_running(&mut self, table: &SyscallTable, held: &PairAbilities) {
        let PairAbilities {
            contexts,
            entry,
            exit,
            has_entry,
            has_exit,
            reads_again,
            slower,
            waited,
            sampling,
        } = held.clone();
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
            slower,
            waited,
            sampling,
            running,
            count: None,
        });
    }

    fn add(&mut self, mut selected: SelectedEvent) -> Result<(), Error> {
        let mut count = None;
        if let Some(counting) = &mut self.counting {
            let counted = counting.kinds.counted(counting.spec, &selected)?;
            let Some(counted) = counted else { return Ok(()) };
            let is_paired = counted.is_paired();
            (selected.entry, selected.exit) = (true, is_paired);
            let Counted { count: constants, filter: SplitFilter { entry, exit } } = counted;
            (selected.filter, selected.exit_filter) = (entry, exit);
            count = Some(Box::new(constants));
            if matches!(selected.event.probe, Probe::Syscall { .. }) {
                return self.add_counted_call(selected, count);
            }
        }
        let is_syscall = matches!(selected.event.probe, Probe::Syscall { .. });
        let fallback = fallback_of(&selected);
        let mut entry = compiled(
            &selected,
            SyscallEnd::Entry,
            selected.entry || !is_syscall,
            self.filter_groups,
        )?;
        let mut exit =
            compiled(&selected, SyscallEnd::Exit, selected.exit && is_syscall, self.filter_groups)?;
        let (slower, sampling) = (selected.slower, selected.sampling);
        let is_at_exit = selected.is_recorded_at_exit();
        let KernelEvent { name, mut fields, exit_fields, probe, is_followed, .. } = selected.event;
        let own = selected.contexts.without(&self.contexts);
        let contexts = self.contexts.bits_with(&own);
        if let Probe::Syscall { place, entry: call } = probe {
            let mut call = Syscall { entry_id: NO_ID, exit_id: NO_ID, ..call };
            let mut events = Vec::new();
            let [entry_name, exit_name] = syscalls::recorded_names(&name);
            if is_at_exit {
                // Both ends are written or none: an end whose fields the filter does not ask for leaves it to the other.
                (entry, exit) = match (entry, exit) {
                    (Compiled::Never, Compiled::Never) => return Ok(()),
                    (Compiled::Never, exit) => (Compiled::Always, exit),
                    (entry, Compiled::Never) => (entry, Compiled::Always),
                    both => both,
                };
                let begin =
                    if slower > 0 { syscalls::slow_fields() } else { syscalls::sampled_fields() };
                fields.splice(0..0, begin);
            }
            if entry != Compiled::Never {
                call.entry_id = self.class(&entry_name, &own, fields);
                call.flags |= CALL_ENTRY;
                events.push(entry_name);
                let mut kinds = call.kind.iter();
                if !is_at_exit && kinds.any(|kind| syscalls::is_read_again(*kind)) {
                    call.flags |= kernel::CALL_MEMORY;
                }
            }
            if exit != Compiled::Never {
                call.exit_id = self.class(&exit_name, &own, exit_fields);
                call.flags |= CALL_EXIT;
                events.push(exit_name);
            }
            // Filters are asked when a call begins, which the scheduler does not see.
            let is_whole = (&entry, &exit) == (&Compiled::Always, &Compiled::Always);
            let is_seen = arch::here_or_any().shows_results && is_whole && !has_counters(contexts);
            let waited = selected.waited && slower > 0 && is_seen && sampling.is_all();
            let group =
                SyscallGroup { slower, waited, sampling, ..SyscallGroup::new(contexts, own) };
            self.add_syscall(place, call, group, (entry, exit), events);
            return Ok(());
        }
        if entry == Compiled::Never {
            return Ok(());
        }
        let mut event = Event { followed: u8::from(is_followed), contexts, ..Event::default() };
        event.filter[0] = tests(&entry);
        set_sampling(&mut event, sampling);
        if matches!(probe, Probe::Hot { program: frequent_events::MAPPED_FILE_FAULT, .. }) {
            event.slower = microseconds(slower);
        }
        let reads_target =
            matches!(&probe, Probe::Uprobe { guard: Some(guard), .. } if guard.reads_memory());
        let (object, program, constant, target) = match probe {
            Probe::Tracepoint { id, parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let target = AttachPoint::Tracepoint { id };
                let guard = jump_guard::words(None);
                let constant = Constant::Payload { fixed, nr_strings: 0, guard };
                (Object::Tracepoint, "strata_tracepoint", constant, target)
            }
            Probe::Uprobe { binary, offsets, guard, semaphore, parts } => {
                let Some(fixed) = self.set_parts(&name, &mut event, parts) else { return Ok(()) };
                let words = jump_guard::words(guard.as_ref());
                let target = AttachPoint::Uprobe { binary, offsets, guard, semaphore };
                let is_text =
                    |part: &&Part| [kernel::STRING, kernel::STRING_AT].contains(&part.kind);
                let strings = event.part.iter().filter(is_text);
                let nr_strings = strings.count() as u32;
                let constant = Constant::Payload { fixed, nr_strings, guard: words };
                (Object::Uprobe, "strata_uprobe", constant, target)
            }
            Probe::Sample { rate } => {
                let target = AttachPoint::Timer { rate };
                fields = cpu_samples::fields(&self.contexts.with(&own));
                (Object::Sample, "strata_sample", Constant::None, target)
            }
            Probe::Hot { program, .. } => (Object::Hot, program, Constant::None, AttachPoint::Own),
            Probe::Syscall { .. } => return Ok(()),
        };
        // What is counted has its keys from registers.
        let reads_fields = count.is_none() && reads_user_memory(&event);
        let reads_memory = (reads_target || reads_fields) && !has_counters(contexts);
        event.id = self.class(&name, &own, fields.clone());
        let object = match count {
            // It makes early tests, too.
            Some(_) => match object.that_counts() {
                Some(object) => object,
                None => return Err(CountError::NoProgram { event: name }.into()),
            },
            None => object.of(&event),
        };
        let unit = |object| LoadUnit {
            object,
            count: count.clone(),
            programs: vec![program],
            event,
            constant: constant.clone(),
            target: target.clone(),
            events: vec![name.clone()],
            fallback: None,
        };
        match object.that_waits().filter(|_| reads_memory) {
            Some(waiting) => {
                // Before 6.0 no probe may wait.
                let (context, begin) = own.own_fields();
                let payload = begin.into_iter().chain(fields).collect();
                let fields = Some(FallbackFields { context, payload });
                let fallback = Some(Box::new(Fallback { unit: unit(object), fields }));
                self.units.push(LoadUnit { fallback, ..unit(waiting) });
            }
            None => self.units.push(unit(object)),
        }
        if let Some(fallback) = fallback {
            self.add_fallback(fallback, event.id);
        }
        Ok(())
    }

    /// Adds a system call that is counted at its entry, or at its return if the count needs values of the exit.
    fn add_counted_call(
        &mut self,
        selected: SelectedEvent,
        count: Option<Box<Count>>,
    ) -> Result<(), Error> {
        let compile = |end, wanted| compiled(&selected, end, wanted, self.filter_groups);
        let entry = compile(SyscallEnd::Entry, true)?;
        let exit = match selected.exit {
            true => compile(SyscallEnd::Exit, true)?,
            false => Compiled::Never,
        };
        let Probe::Syscall { place, entry: call } = selected.event.probe else { return Ok(()) };
        if entry == Compiled::Never || selected.exit && exit == Compiled::Never {
            return Ok(());
        }
        let name = selected.event.name;
        let mut call = Syscall { exit_id: NO_ID, ..call };
        call.entry_id = self.class(&name, &Contexts::default(), Vec::new());
        call.flags |= CALL_ENTRY | if selected.exit { CALL_EXIT } else { 0 };
        let contexts = Contexts::default();
        let bits = self.contexts.bits_with(&contexts);
        let slower = selected.slower;
        let group = SyscallGroup { slower, count, ..SyscallGroup::new(bits, contexts) };
        self.add_syscall(place, call, group, (entry, exit), vec![name]);
        Ok(())
    }

    /// Plans a fallback for the last unit, with the id of that unit's class. There is no fallback if the filter names a
    /// field that the fallback lacks.
    fn add_fallback(&mut self, selected: SelectedEvent, id: u32) {
        let options = PlanOptions {
            contexts: &self.contexts,
            groups: self.filter_groups,
            count: self.counting.as_ref().map(|counting| counting.spec),
        };
        let mut alone = Planner::new(Vec::new(), &options);
        if alone.add(selected).is_err() {
            return;
        }
        if let (Some(mut unit), Some(class)) = (alone.units.pop(), alone.classes.pop()) {
            unit.event.id = id;
            if let Some(last) = self.units.last_mut() {
                let EventClass { context, fields: payload, .. } = class;
                let fields = Some(FallbackFields { context, payload });
                last.fallback = Some(Box::new(Fallback { unit, fields }));
            }
        }
    }

    fn class(&mut self, name: &str, own: &Contexts, fields: Vec<Field>) -> u32 {
        let (context, begin) = own.own_fields();
        let fields = begin.into_iter().chain(fields).collect();
        id_of(&mut self.classes, name, context, fields)
    }

    /// Returns the id of the first of three consecutive event classes. They are for memory that is read again when a
    /// system call returns.
    fn again_id(&mut self, own: &Contexts) -> u32 {
        syscalls::again_classes().map(|(name, fields)| self.class(name, own, fields))[0]
    }

    /// Sets the parts of the event's payload; neighbours are joined to one piece. Returns the number of bytes that do
    /// not depend on the event's data.
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
        new: SyscallGroup,
        (entry, exit): (Compiled, Compiled),
        events: Vec<String>,
    ) {
        if events.is_empty() || place >= SYSCALLS {
            return;
        }
        let fits = |group: &SyscallGroup| {
            (group.contexts, group.slower, group.waited, group.sampling, &group.count)
                == (new.contexts, new.slower, new.waited, new.sampling, &new.count)
                && group.fits(&call, &entry, &exit)
        };
        let current = self.at.get(place as usize).copied().flatten();
        // One that moves goes to programs that are attached behind those that it comes from.
        let is_behind =
            |group: &SyscallGroup| fits(group) && (current.is_none() || group.running.is_none());
        let at = current
            .filter(|at| self.groups.get(*at).is_some_and(fits))
            .or_else(|| self.groups.iter().position(is_behind));
        let at = at.unwrap_or_else(|| {
            self.groups.push(new);
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
                    slot.flags &= !CALL_READS;
                }
            }
        }
        group.events.extend(events);
    }
}

/// Converts a least duration from nanoseconds to microseconds, which programs use.
fn microseconds(slower: u64) -> u32 {
    u32::try_from(slower.div_ceil(1000)).unwrap_or(u32::MAX).min(kernel::SLOWER_NONE - 1)
}

/// Sets the share of the event that is recorded. Programs take samples where they test the filter, so an event
/// without a filter gets a test that always passes.
fn set_sampling(event: &mut Event, sampling: Sampling) {
    if sampling.is_all() {
        return;
    }
    (event.every, event.at_most) = (sampling.every, sampling.at_most);
    let filter = &mut event.filter[0];
    if filter.nr_tests == filter.nr_early {
        if let Some(test) = filter.test.get_mut(filter.nr_tests as usize) {
            // A number under a mask of no bits is 0.
            *test = Test {
                operand: kernel::CPU,
                comparison: kernel::EQUAL,
                yes: kernel::PASS,
                no: kernel::REJECT,
                ..Test::default()
            };
            filter.nr_tests += 1;
        }
    }
}

/// Returns whether a record of the event reads the program's memory.
fn reads_user_memory(event: &Event) -> bool {
    let kinds = [kernel::MEMORY, kernel::STRING, kernel::STRING_AT];
    // What is on top of the stack is there: it was just written.
    let mut parts = event.part.iter().take(event.nr_parts.into());
    parts.any(|part| kinds.contains(&part.kind) && !is_stack_top(part))
}

/// Returns whether the contexts have counters, which sleepable programs cannot read.
fn has_counters(contexts: u64) -> bool {
    let counters = ((1 << kernel::COUNTERS) - 1) << kernel::CONTEXT_COUNTER;
    (contexts | contexts >> kernel::CONTEXT_OWN) & counters != 0
}

/// Returns the places in the table of system calls that no known call has.
pub(crate) fn unknown_places() -> Vec<u32> {
    let all = syscalls::table().iter().chain(syscalls::compat::table());
    let known: Vec<u32> = all.map(|call| call.place()).collect();
    (0..UNKNOWN).filter(|place| !known.contains(place)).collect()
}

fn fixed_bytes(part: &Part) -> u32 {
    match part.kind {
        kernel::COPY | kernel::REGISTER | kernel::MEMORY | kernel::CONSTANT | kernel::UNREAD => {
            part.bytes.into()
        }
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
            slower: 0,
            waited: false,
            sampling: Sampling::ALL,
            running: None,
            count: None,
        }
    }

    /// Returns whether the call can join the group: its filters must be the same. An end that is not recorded fits
    /// into any group that is not loaded yet.
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

    /// Prepares the exits of execve and execveat: a call that has succeeded returns as execve, and as a call of the new
    /// program's kind (64 or 32 bits).
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
        let Sampling { every, at_most } = self.sampling;
        let slower = match self.slower {
            0 if !self.sampling.is_all() => kernel::SLOWER_NONE,
            slower => microseconds(slower),
        };
        let mut event =
            Event { id: again_id, followed: 1, reads_again, contexts, slower, ..Event::default() };
        if !self.sampling.is_all() {
            (event.every, event.at_most) = (every, at_most);
        }
        event.filter = [tests(&self.entry), tests(&self.exit)];
        let held = Box::new(PairAbilities {
            contexts,
            entry: self.entry.clone(),
            exit: self.exit.clone(),
            has_entry: self.has_entry,
            has_exit: self.has_exit,
            reads_again: self.has_memory(),
            slower: self.slower,
            waited: self.waited,
            sampling: self.sampling,
        });
        let mut programs = Vec::new();
        if self.has_entry {
            programs.push("strata_sys_enter");
        }
        if self.has_exit || self.has_memory() {
            programs.push("strata_sys_exit");
        }
        let object = match self.count {
            Some(_) => Object::CountSyscalls,
            None => Object::Syscalls.of(&event),
        };
        let constant = Constant::Syscalls(self.table, held);
        let target = AttachPoint::Own;
        let (count, events, fallback) = (self.count, self.events, None);
        let unit = LoadUnit { object, count, programs, event, constant, target, events, fallback };
        match self.waited {
            true => unit.of_waited_calls(),
            false => unit,
        }
    }
}
