//! Counters: numbers of a process or a CPU. Each value holds until the next record of it.
//!
//! ```text
//! record with the field ── CounterBinding ── OpenCounters: the present values ── Observer::counter(CounterValue)
//!                                              ended by: the next value, the process' end, a gap
//! ```
//!
//! A field of an event is a counter if the client says so ([`CounterRoles`]). A value ends when another record has
//! the next value, when its process ends, or at the first gap in the records that could have changed it: those of the
//! CPU for a counter of a CPU, those of the trace for all others. After a gap the value is unknown until the next
//! record.
//!
//! A counter belongs to a process, a CPU or, if records say neither, a stream ([`CounterPlace`]). The number of
//! counters is limited, since a field may exist for any number of processes.
//!
//! Counters cost nothing unless a client names roles: a class without one has no binding, and the engine does not
//! look. An [`Observer`](crate::Observer) is called when a record has a value, and again when that value ends,
//! with the time. When a trace ends, values that still hold are reported as ended there.
//!
//! Fields that are missing, or no numbers, are left out when a class is bound, so a wrong role costs nothing for
//! a record.

use std::collections::{BTreeMap, HashMap, HashSet};

use strata_ctf::read::{Event, EventClass, FieldKind, FieldRef, Scope, Value};

use crate::ids::names::{Name, Names};
use crate::ids::thread_id::ThreadId;

/// The most counters that have values at one time.
pub const COUNTERS_MAX: usize = 1 << 16;

/// Fields that are counters, by the event's name: the scope of each field and its path in the scope.
pub type CounterRoles = HashMap<String, Vec<(Scope, String)>>;

/// The process, CPU or stream that a counter counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterPlace {
    /// A process, by its first thread.
    Process(ThreadId),
    /// A CPU, for counters of the kernel, which counts whichever thread runs there.
    Cpu {
        /// The machine's index in [`World::machines`](crate::World::machines).
        machine: u8,
        /// The CPU's number in its machine.
        cpu: u32,
    },
    /// A stream, by [`strata_ctf::read::Stream::index`], if its records say neither process nor CPU.
    Stream(u32),
}

/// The value of a counter's field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterNumber {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number, which may be infinite or NaN.
    Real(f64),
}

/// A value of a counter, with the time from which it is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterValue {
    /// The counter's name, `EVENT.FIELD`.
    pub name: Name,
    /// The process, CPU or stream that is counted.
    pub place: CounterPlace,
    /// The value.
    pub number: CounterNumber,
    /// The time of the record with the value \[ns since 1970\].
    pub from: i64,
    /// True if that record was selected.
    pub selected: bool,
}

/// A field that is a counter.
#[derive(Clone, Debug)]
pub(crate) struct CounterBinding {
    field: FieldRef,
    pub name: Name,
}

impl CounterBinding {
    /// Returns the counters among a class' fields. Fields that are missing, or no numbers, are left out.
    pub(crate) fn all(
        class: &EventClass,
        roles: &CounterRoles,
        names: &mut Names,
    ) -> Box<[CounterBinding]> {
        let fields = roles.get(class.name()).map_or(&[][..], Vec::as_slice);
        let bound = fields.iter().filter_map(|(scope, path)| {
            let field = class.find_in(*scope, path)?;
            let is_number = matches!(field.info().kind, FieldKind::Integer | FieldKind::Real);
            let name = names.of(format!("{}.{path}", class.name()).as_bytes());
            (is_number && name.is_some()).then_some(CounterBinding { field, name })
        });
        bound.collect()
    }

    /// Reads the value of the counter from a record; `None` if the record lacks the field.
    pub(crate) fn number(&self, event: &Event<'_>) -> Option<CounterNumber> {
        match event.value(&self.field)? {
            Value::Signed(number) => Some(CounterNumber::Signed(number)),
            Value::Unsigned(number) => Some(CounterNumber::Unsigned(number)),
            Value::Real(number) => Some(CounterNumber::Real(number)),
            _ => None,
        }
    }
}

/// The records that may change a counter: those of a trace, or of one CPU in it if the counter is one of a CPU.
type CounterHome = (u32, Option<u32>);
type CounterKey = (Name, CounterPlace);

/// A counter that has a value.
#[derive(Clone, Copy, Debug)]
struct OpenCounter {
    value: CounterValue,
    /// The trace, or the CPU in it, whose records may change the counter.
    home: CounterHome,
    /// The time from which the value is unknown, since records were discarded or the process ended.
    gap: Option<i64>,
}

impl OpenCounter {
    /// Returns the time at which the present value ends: `now`, unless records were discarded before.
    fn end(&self, now: i64) -> i64 {
        self.gap.map_or(now, |gap| gap.min(now)).max(self.value.from)
    }
}

/// The present values of all counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCounters {
    open: HashMap<CounterKey, OpenCounter>,
    /// The counters that a gap in the records of a trace or CPU ends. Counters that a gap has ended are removed.
    homes: BTreeMap<CounterHome, HashSet<CounterKey>>,
    /// The time up to which records are missing, by trace and CPU. Without a CPU, it is not known which CPU had them.
    unsure: HashMap<CounterHome, i64>,
    /// The time up to which records of an unknown CPU are missing, by trace.
    unsure_of_all: HashMap<u32, i64>,
    /// The counters of processes that have not ended.
    processes: HashMap<ThreadId, Vec<Name>>,
    left_out: u64,
}

impl OpenCounters {
    /// Sets a counter to the value in a record of `trace`. Returns the previous value and the time at which it ended.
    /// Fails if the counter is new and there are too many.
    pub(crate) fn set(
        &mut self,
        value: CounterValue,
        trace: u32,
    ) -> Result<Option<(CounterValue, i64)>, TooMany> {
        let key = (value.name, value.place);
        let cpu = match value.place {
            CounterPlace::Cpu { cpu, .. } => Some(cpu),
            CounterPlace::Process(_) | CounterPlace::Stream(_) => None,
        };
        let home = (trace, cpu);
        let unsure = [self.unsure.get(&home), self.unsure_of_all.get(&trace)];
        let is_unsure = unsure.into_iter().flatten().any(|&to| value.from < to);
        let now = OpenCounter { value, home, gap: is_unsure.then_some(value.from) };
        let is_full = self.open.len() >= COUNTERS_MAX;
        let before = match self.open.get_mut(&key) {
            Some(open) => Some(std::mem::replace(open, now)),
            None if is_full => {
                self.left_out = self.left_out.saturating_add(1);
                return Err(TooMany);
            }
            None => {
                if let CounterPlace::Process(process) = value.place {
                    self.processes.entry(process).or_default().push(value.name);
                }
                self.open.insert(key, now);
                None
            }
        };
        if before.is_none_or(|before| before.home != home || before.gap.is_some()) {
            self.homes.entry(home).or_default().insert(key);
        }
        Ok(before.map(|before| (before.value, before.end(value.from))))
    }

    /// Ends the counters whose records were discarded between these times, on one CPU or in the whole trace.
    pub(crate) fn gap(&mut self, trace: u32, cpu: Option<u32>, (from, to): (i64, i64)) {
        let is_full = self.unsure.len() >= COUNTERS_MAX;
        let later = |until: &mut i64| *until = to.max(*until);
        self.unsure.entry((trace, None)).and_modify(later).or_insert(to);
        match cpu {
            Some(_) if !is_full => {
                self.unsure.entry((trace, cpu)).and_modify(later).or_insert(to);
            }
            _ => {
                self.unsure_of_all.entry(trace).and_modify(later).or_insert(to);
            }
        }
        let of: Vec<CounterHome> = match cpu {
            Some(_) => vec![(trace, None), (trace, cpu)],
            None => {
                let all = self.homes.range((trace, None)..=(trace, Some(u32::MAX)));
                all.map(|(&home, _)| home).collect()
            }
        };
        // Taken out: the next gap does not look again at what is not known any more.
        for key in of.iter().filter_map(|home| self.homes.remove(home)).flatten() {
            if let Some(open) = self.open.get_mut(&key) {
                open.gap.get_or_insert(from);
            }
        }
    }

    /// Ends the counters of a process when its first thread ends.
    pub(crate) fn exit(&mut self, process: ThreadId, time: i64) {
        for name in self.processes.remove(&process).into_iter().flatten() {
            if let Some(open) = self.open.get_mut(&(name, CounterPlace::Process(process))) {
                open.gap.get_or_insert(time);
            }
        }
    }

    /// Removes and returns all values, sorted by their ends.
    pub(crate) fn finish(&mut self, now: i64) -> Vec<(CounterValue, i64)> {
        self.homes.clear();
        let open = std::mem::take(&mut self.open).into_values();
        let mut left: Vec<(CounterValue, i64)> =
            open.map(|open| (open.value, open.end(now))).collect();
        left.sort_by_key(|(value, to)| (*to, value.from, value.name, value.place));
        left
    }

    /// Returns the number of times that a new counter was refused because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The error of [`OpenCounters::set`]: there are [`COUNTERS_MAX`] counters already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

#[cfg(test)]
mod tests;
