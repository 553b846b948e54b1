//! Contexts of the kernel's records: properties of the thread, besides its number, and of the moment.

use crate::discover::counter_names::{self, Counter};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use strata_abi::kernel;
use strata_model::{Array, Base, Element, Field, FieldClass, Integer, Sequence};
use thiserror::Error;

/// The type of a context in a record.
#[derive(Clone, Copy, Debug)]
enum ContextKind {
    Signed,
    Unsigned(u8),
    Name,
    Addresses,
}

/// All contexts except counters: name, kind, description and bit. They have this order in records; counters precede
/// the stacks. The names are LTTng's where LTTng has such a context.
const ALL: [(&str, ContextKind, &str, u32); 20] = [
    ("pid", ContextKind::Signed, "process", kernel::CONTEXT_PID),
    ("ppid", ContextKind::Signed, "its parent", kernel::CONTEXT_PPID),
    ("procname", ContextKind::Name, "name of the thread", kernel::CONTEXT_PROCNAME),
    ("uid", ContextKind::Unsigned(4), "real user", kernel::CONTEXT_UID),
    ("gid", ContextKind::Unsigned(4), "real group", kernel::CONTEXT_GID),
    ("prio", ContextKind::Signed, "priority; 20 is nice 0", kernel::CONTEXT_PRIO),
    ("cgroup_id", ContextKind::Unsigned(8), "number of its control group", kernel::CONTEXT_CGROUP),
    ("vpid", ContextKind::Signed, "process, in its own PID namespace", kernel::CONTEXT_VPID),
    ("vtid", ContextKind::Signed, "thread, likewise", kernel::CONTEXT_VTID),
    (
        "vppid",
        ContextKind::Signed,
        "parent, likewise; 0: it is outside of it",
        kernel::CONTEXT_VPPID,
    ),
    (
        "cgroup_ns",
        ContextKind::Unsigned(4),
        "number of the control group namespace",
        kernel::CONTEXT_CGROUP_NS,
    ),
    ("ipc_ns", ContextKind::Unsigned(4), "of the IPC namespace", kernel::CONTEXT_IPC_NS),
    ("mnt_ns", ContextKind::Unsigned(4), "of the mount namespace", kernel::CONTEXT_MNT_NS),
    ("net_ns", ContextKind::Unsigned(4), "of the network namespace", kernel::CONTEXT_NET_NS),
    ("pid_ns", ContextKind::Unsigned(4), "of the PID namespace", kernel::CONTEXT_PID_NS),
    ("time_ns", ContextKind::Unsigned(4), "of the time namespace", kernel::CONTEXT_TIME_NS),
    ("user_ns", ContextKind::Unsigned(4), "of the user namespace", kernel::CONTEXT_USER_NS),
    ("uts_ns", ContextKind::Unsigned(4), "of the UTS namespace", kernel::CONTEXT_UTS_NS),
    (
        "callstack_kernel",
        ContextKind::Addresses,
        "who called whom in the kernel, up to 64",
        kernel::CONTEXT_STACK,
    ),
    (
        "callstack_user",
        ContextKind::Addresses,
        "the program's site and callers, up to 64",
        kernel::CONTEXT_USER_STACK,
    ),
];

const STACKS: u32 = 1 << kernel::CONTEXT_STACK | 1 << kernel::CONTEXT_USER_STACK;

/// The bits for the size of the copy of the program's stack. Only records of single events have this context, never
/// all records.
const STACK_COPY: u32 = 7 << kernel::CONTEXT_STACK_COPY;

/// Names of the fields of a copy of the program's stack, in their order.
const COPIES: [&str; 2] = ["user_registers", "user_stack"];

/// The sizes that a copy of the program's stack may have \[byte\].
pub const STACK_COPY_BYTES: RangeInclusive<u32> = 2 * kernel::COPY_UNIT..=kernel::COPY_MAX;

/// The size of a copy of the program's stack if none is given \[byte\].
pub const STACK_COPY_DEFAULT: u32 = 8192;

/// The context that every record has, even if the user does not name it.
const THREAD: &str = "tid";

/// Reasons why a context cannot be recorded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ContextError {
    /// The name stands for no context.
    #[error("kernel context '{name}': {}", hint(.name))]
    Unknown {
        /// The name as it was written.
        name: String,
    },
    /// There are more counters than records have room for.
    #[error("kernel context '{name}': it is one counter more than the {} that records have room for. Ask for fewer", kernel::COUNTERS)]
    TooManyCounters {
        /// The name of the first counter that has no room.
        name: String,
    },
}

fn hint(name: &str) -> String {
    if name.starts_with("perf:") {
        return counter_names::hint(name);
    }
    let names = ALL.map(|(name, ..)| name).join(", ");
    format!("there is none. There are tid, which each record has, {names}, and counters, as perf:cpu:page-faults")
}

/// A set of contexts that records have in addition to the thread, which each record has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Bits of all contexts but counters.
    bits: u32,
    /// Counters by their places in the session. Each place has a bit of its own.
    counters: BTreeMap<u32, Counter>,
}

impl Contexts {
    /// Parses names of contexts; each text may have several, separated by commas.
    ///
    /// # Errors
    /// A name is unknown, or there are too many counters.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Contexts, ContextError> {
        let mut contexts = Contexts::default();
        for name in texts.iter().flat_map(|text| text.as_ref().split(',')).map(str::trim) {
            match ALL.iter().find(|(known, ..)| *known == name) {
                Some((.., bit)) => contexts.bits |= 1 << bit,
                None if name == THREAD => {}
                None => contexts.add_counter(name)?,
            }
        }
        Ok(contexts)
    }

    fn add_counter(&mut self, name: &str) -> Result<(), ContextError> {
        let name = || name.to_owned();
        let counter =
            Counter::parse(&name()).ok_or_else(|| ContextError::Unknown { name: name() })?;
        if self.counters().any(|one| one.field() == counter.field()) {
            return Ok(());
        }
        let place = self.counters.len() as u32;
        if place >= kernel::COUNTERS {
            return Err(ContextError::TooManyCounters { name: name() });
        }
        self.counters.insert(place, counter);
        Ok(())
    }

    /// Returns the names and descriptions of all contexts but counters.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        ALL.into_iter().map(|(name, _, about, _)| (name, about))
    }

    /// Returns the names and descriptions of all counters that have a name.
    pub fn all_counters() -> impl Iterator<Item = (String, String)> {
        counter_names::names()
    }

    /// Returns these contexts with both call stacks, and with the process id, without which addresses in the program
    /// mean nothing.
    #[must_use]
    pub fn with_stacks(&self) -> Contexts {
        Contexts { bits: self.bits | 1 << kernel::CONTEXT_PID | STACKS, ..self.clone() }
    }

    /// Returns these contexts with the program's registers and a copy of its stack of at most `bytes`, rounded up to
    /// a possible size; 0 for no copy.
    #[must_use]
    pub fn with_stack_copy(&self, bytes: u32) -> Contexts {
        let size = (1..=7).find(|size| kernel::COPY_UNIT << size >= bytes).unwrap_or(7);
        let size = if bytes == 0 { 0 } else { size };
        let bits = self.bits & !STACK_COPY | size << kernel::CONTEXT_STACK_COPY;
        Contexts { bits, ..self.clone() }
    }

    /// Returns the union of both sets, which must belong to the same session.
    pub(crate) fn with(&self, others: &Contexts) -> Contexts {
        let counters = self.counters.clone().into_iter().chain(others.counters.clone());
        let copy = (self.bits & STACK_COPY).max(others.bits & STACK_COPY);
        let bits = (self.bits | others.bits) & !STACK_COPY | copy;
        Contexts { bits, counters: counters.collect() }
    }

    /// Returns the contexts that are not in `others`, a set of the same session.
    pub(crate) fn without(&self, others: &Contexts) -> Contexts {
        let mut counters = self.counters.clone();
        counters.retain(|place, _| !others.counters.contains_key(place));
        Contexts { bits: self.bits & !others.bits, counters }
    }

    /// Returns the contexts that are counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.counters.values()
    }

    /// Returns the set with its counters at the places that they have in the session.
    pub(crate) fn placed(&self, places: &[Counter]) -> Contexts {
        let here = |(_, one): &(u32, &Counter)| self.counters().any(|own| own == *one);
        let places = (0..).zip(places).filter(here).map(|(place, one)| (place, one.clone()));
        Contexts { bits: self.bits, counters: places.collect() }
    }

    /// Creates the set from the bits that BPF programs use. `places`: the counters of the session.
    pub(crate) fn of_bits(bits: u32, places: &[Counter]) -> Contexts {
        let known = ALL.iter().fold(0, |known, (.., bit)| known | 1 << bit);
        let is_there = |place: u32| bits >> (kernel::CONTEXT_COUNTER + place) & 1 != 0;
        let places = (0..kernel::COUNTERS).zip(places).filter(|(place, _)| is_there(*place));
        let counters = places.map(|(place, one)| (place, one.clone())).collect();
        Contexts { bits: bits & known, counters }
    }

    /// Returns a set of those call stacks that are not in this set.
    pub(crate) fn missing_stacks(&self) -> Contexts {
        Contexts { bits: STACKS & !self.bits, ..Contexts::default() }
    }

    /// Returns whether the set has a call stack.
    #[must_use]
    pub fn has_stack(&self) -> bool {
        self.bits & STACKS != 0
    }

    /// Returns whether the set has a copy of the program's stack.
    #[must_use]
    pub fn has_stack_copy(&self) -> bool {
        self.bits & STACK_COPY != 0
    }

    /// Returns the set as the bits that BPF programs use.
    pub(crate) fn bits(&self) -> u32 {
        let places = self.counters.keys().map(|place| 1 << (kernel::CONTEXT_COUNTER + place));
        places.fold(self.bits, |bits, place| bits | place)
    }

    /// Returns the bits for an event whose records have the contexts `own` in addition to these.
    pub(crate) fn bits_with(&self, own: &Contexts) -> u64 {
        u64::from(self.bits()) | u64::from(own.without(self).bits()) << kernel::CONTEXT_OWN
    }

    fn chosen(&self) -> impl Iterator<Item = (Cow<'static, str>, ContextKind)> + '_ {
        let of = |is_stack: bool| {
            let is_chosen = move |&(.., bit): &(_, _, _, u32)| {
                self.bits >> bit & 1 != 0 && (STACKS >> bit & 1 != 0) == is_stack
            };
            let all = ALL.into_iter().filter(is_chosen);
            all.map(|(name, kind, ..)| (Cow::Borrowed(name), kind))
        };
        let counter = |one: &Counter| (Cow::Owned(one.field()), ContextKind::Unsigned(8));
        of(false).chain(self.counters().map(counter)).chain(of(true))
    }

    /// Returns the fields that contexts add to one event's records: those in the event's own context, and those
    /// before its payload. Stacks are among the latter, since babeltrace2 2.0 crashes on a sequence in an event's own
    /// context.
    pub(crate) fn own_fields(&self) -> (Vec<Field>, Vec<Field>) {
        let stacks = Contexts { bits: self.bits & STACKS, ..Contexts::default() };
        let copy = COPIES.map(|name| Field::new(name, class(ContextKind::Addresses)));
        let copy = copy.into_iter().filter(|_| self.bits & STACK_COPY != 0);
        (self.without(&stacks).fields().collect(), stacks.fields().chain(copy).collect())
    }

    /// Returns the fields after the thread in the context of each record.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        self.chosen().map(|(name, kind)| Field::new(name, class(kind)))
    }

    /// Encodes these contexts for records that this process writes itself, such as those of the state dump. `number`
    /// converts a process id to the kernel's number.
    #[must_use]
    pub fn of_this_process(&self, number: &dyn Fn(u32) -> u32) -> Vec<u8> {
        let (pid, ppid) = (std::process::id(), std::os::unix::process::parent_id());
        let bytes_of = |here| number(here).to_ne_bytes();
        let namespace = |name: &str| rustix::fs::stat(format!("/proc/thread-self/ns/{name}"));
        let mut bytes = Vec::new();
        for (name, kind) in self.chosen() {
            match (&*name, kind) {
                ("pid", _) => bytes.extend(bytes_of(pid)),
                ("ppid", _) => bytes.extend(bytes_of(ppid)),
                // Its first thread, as in `tid`.
                ("vpid" | "vtid", _) => bytes.extend(pid.to_ne_bytes()),
                ("vppid", _) => bytes.extend(ppid.to_ne_bytes()),
                ("uid", _) => bytes.extend(rustix::process::getuid().as_raw().to_ne_bytes()),
                ("gid", _) => bytes.extend(rustix::process::getgid().as_raw().to_ne_bytes()),
                (_, ContextKind::Name) => {
                    let mut name = std::fs::read("/proc/thread-self/comm").unwrap_or_default();
                    name.truncate(15);
                    name.retain(|byte| *byte != b'\n');
                    name.resize(16, 0);
                    bytes.extend(name);
                }
                (name, ContextKind::Unsigned(4)) => {
                    let number = namespace(name.strip_suffix("_ns").unwrap_or(name))
                        .map_or(0, |found| found.st_ino as u32);
                    bytes.extend(number.to_ne_bytes());
                }
                // Nobody has called it: it is not an event. What is not known is 0, and so is what a CPU has counted.
                (_, ContextKind::Addresses | ContextKind::Signed) => bytes.extend([0; 4]),
                (_, ContextKind::Unsigned(size)) => bytes.extend(vec![0; usize::from(size)]),
            }
        }
        bytes
    }

    /// Encodes these contexts for a record of another process whose number alone is known: all others are 0 or empty.
    pub(crate) fn of_process(&self, pid: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, kind) in self.chosen() {
            match (&*name, kind) {
                ("pid", _) => bytes.extend(pid.to_ne_bytes()),
                // Of a stack, how many addresses.
                (_, ContextKind::Signed | ContextKind::Addresses) => bytes.extend([0; 4]),
                (_, ContextKind::Unsigned(size)) => {
                    bytes.resize(bytes.len() + usize::from(size), 0)
                }
                (_, ContextKind::Name) => bytes.resize(bytes.len() + 16, 0),
            }
        }
        bytes
    }
}

fn class(kind: ContextKind) -> FieldClass {
    let address = Integer { base: Base::Sixteen, ..Integer::unsigned(8) };
    match kind {
        ContextKind::Signed => FieldClass::Integer(Integer::signed(4)),
        ContextKind::Unsigned(bytes) => FieldClass::Integer(Integer::unsigned(bytes)),
        ContextKind::Name => FieldClass::Array(Array { element: Element::Text, count: 16 }),
        ContextKind::Addresses => {
            FieldClass::Sequence(Sequence { element: Element::Integer(address), length_bytes: 4 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_those_named_each_once_in_the_order_of_a_record() {
        let contexts = Contexts::parse(&["uid, tid", "callstack_user,pid,uid"]).unwrap();
        let names: Vec<String> = contexts.fields().map(|field| field.name).collect();
        assert_eq!(names, ["pid", "uid", "callstack_user"]);
        assert_eq!(Contexts::parse::<&str>(&[]).unwrap(), Contexts::default());
        let error = Contexts::parse(&["pid,vipd"]).unwrap_err().to_string();
        assert!(error.starts_with("kernel context 'vipd'") && error.contains("ppid"), "{error}");
        let error = Contexts::parse(&["perf:cpu:cycels"]).unwrap_err().to_string();
        assert!(error.contains("'perf:cpu:cycles'") && !error.contains("ppid"), "{error}");
    }

    #[test]
    fn own_contexts_are_behind_those_of_all_and_none_is_there_twice() {
        let all = Contexts::parse(&["pid", "callstack_user"]).unwrap();
        let own = Contexts::parse(&["pid", "uid", "callstack_kernel"]).unwrap();
        let bits = all.bits_with(&own);
        let (user_stack, stack) = (kernel::CONTEXT_USER_STACK, kernel::CONTEXT_STACK);
        assert_eq!(bits as u32, 1 | 1 << user_stack);
        assert_eq!(bits >> kernel::CONTEXT_OWN, 1 << 3 | 1 << stack);
        let (context, begin) = own.without(&all).own_fields();
        let names = |fields: Vec<Field>| fields.into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(
            (names(context), names(begin)),
            (vec!["uid".into()], vec!["callstack_kernel".into()])
        );
    }

    #[test]
    fn copy_of_the_stack_is_behind_all_contexts_of_one_event_and_the_largest_that_was_asked_for() {
        let all = Contexts::parse(&["pid", "callstack_user"]).unwrap();
        for (bytes, size) in [(0, 0), (1, 1), (1024, 1), (1025, 2), (8192, 4), (65536, 7)] {
            let own = all.with_stacks().with_stack_copy(bytes);
            let bits = all.bits_with(&own) >> kernel::CONTEXT_OWN;
            assert_eq!(bits >> kernel::CONTEXT_STACK_COPY, size, "{bytes}");
            assert_eq!(own.has_stack_copy(), bytes > 0);
        }
        let own = all.with_stacks().with_stack_copy(8192).without(&all);
        let (context, begin) = own.own_fields();
        let names: Vec<String> = begin.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["callstack_kernel", "user_registers", "user_stack"]);
        assert!(context.is_empty() && own.fields().count() == 1);
        let (small, large) = (all.with_stack_copy(1024), all.with_stack_copy(2048));
        assert_eq!((small.with(&large), large.with(&small)), (large.clone(), large));
    }

    #[test]
    fn bits_are_in_the_order_of_a_record_and_all_of_this_process_has_their_sizes() {
        assert!(ALL.is_sorted_by(|(.., one), (.., next)| one < next));
        let names: Vec<&str> = Contexts::all().map(|(name, _)| name).collect();
        // Four bytes each, but for the name and the group; stacks without an address.
        assert_eq!(
            Contexts::parse(&names).unwrap().of_this_process(&|pid| pid).len(),
            16 * 4 + 16 + 8 + 2 * 4
        );
        let pid = Contexts::parse(&["pid"]).unwrap().of_this_process(&|pid| pid);
        assert_eq!(pid, std::process::id().to_ne_bytes());
        // Of others the number is known, and nothing else.
        let others = Contexts::parse(&names).unwrap().of_process(77);
        assert_eq!(others.len(), 16 * 4 + 16 + 8 + 2 * 4);
        assert_eq!(
            (&others[..4], others.iter().filter(|byte| **byte != 0).count()),
            (&77u32.to_ne_bytes()[..], 1)
        );
    }
    fn fields_of(contexts: &Contexts) -> Vec<String> {
        contexts.fields().map(|field| field.name).collect()
    }

    #[test]
    fn counters_are_in_front_of_the_stacks_each_once_and_no_more_than_there_is_room_for() {
        let asked = [
            "callstack_kernel,perf:cpu:cs,pid",
            "perf:cpu:raw:r1:a-b,perf:cpu:cs,perf:cpu:raw:r1:a_b",
        ];
        let contexts = Contexts::parse(&asked).unwrap();
        let wanted = ["pid", "perf_cpu_cs", "perf_cpu_raw_r1_a_b", "callstack_kernel"];
        assert_eq!(fields_of(&contexts), wanted);
        let first = kernel::CONTEXT_COUNTER;
        assert_eq!(contexts.bits(), 1 | 0b11 << first | 1 << kernel::CONTEXT_STACK);
        // What a CPU has counted is nothing of a process.
        assert_eq!(contexts.of_this_process(&|pid| pid).len(), 4 + 2 * 8 + 4);
        assert_eq!(contexts.of_process(77).len(), 4 + 2 * 8 + 4);
        let many: Vec<String> = (0..9).map(|number| format!("perf:cpu:raw:r{number}:n")).collect();
        assert!(Contexts::parse(&many[..8]).is_ok());
        let error = Contexts::parse(&many).unwrap_err().to_string();
        assert!(error.contains("'perf:cpu:raw:r8:n'") && error.contains("the 8 that"), "{error}");
    }

    #[test]
    fn counters_of_a_session_are_at_its_places_whatever_their_order() {
        let places: Vec<Counter> = ["perf:cpu:cs", "perf:cpu:faults", "perf:cpu:cycles"]
            .map(|name| Counter::parse(name).unwrap())
            .into();
        let all = Contexts::parse(&["perf:cpu:faults"]).unwrap().placed(&places);
        let own = Contexts::parse(&["perf:cpu:cycles,perf:cpu:faults,perf:cpu:cs"]).unwrap();
        let own = own.placed(&places);
        assert_eq!(fields_of(&own), ["perf_cpu_cs", "perf_cpu_faults", "perf_cpu_cycles"]);
        assert_eq!(fields_of(&own.without(&all)), ["perf_cpu_cs", "perf_cpu_cycles"]);
        assert_eq!(all.with(&own), own);
        let bits = all.bits_with(&own) >> kernel::CONTEXT_COUNTER;
        assert_eq!(bits, 0b010 | 0b101 << kernel::CONTEXT_OWN);
        assert_eq!(Contexts::of_bits(own.bits(), &places), own);
        // Of another file's bits only what there is.
        assert_eq!(Contexts::of_bits(u32::MAX, &places[..1]).counters().count(), 1);
    }
}
