//! Counters: numbers of a process or a CPU, each of which holds until the next record says another one.

use std::collections::{BTreeMap, HashMap, HashSet};

use strata_ctf::read::{Event, EventClass, FieldKind, FieldRef, Scope, Value};

use crate::id::ThreadId;
use crate::names::{Name, Names};

/// Counters that are told apart.
pub const COUNTERS_MAX: usize = 1 << 16;

/// Fields of events that are counters, each by the part of a record that it is in and its path there: by event.
pub type CounterRoles = HashMap<String, Vec<(Scope, String)>>;

/// What a counter is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterPlace {
    /// A process, by its first thread.
    Process(ThreadId),
    /// A CPU: who runs there has nothing to do with what the kernel counts.
    Cpu {
        /// By its place in [`World::machines`](crate::World::machines).
        machine: u8,
        /// The CPU's number in its machine.
        cpu: u32,
    },
    /// Nothing says of which of them the records are: a stream, by [`strata_ctf::read::Stream::index`].
    Stream(u32),
}

/// A counter's number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterNumber {
    /// As the field has it.
    Signed(i64),
    /// As the field has it.
    Unsigned(u64),
    /// As the field has it, infinite ones and NaN too.
    Real(f64),
}

/// What a counter is from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterValue {
    /// `EVENT.FIELD`.
    pub name: Name,
    /// Of what.
    pub place: CounterPlace,
    /// The number.
    pub number: CounterNumber,
    /// When a record has said it \[ns since 1970\].
    pub from: i64,
    /// Whether that record was selected.
    pub selected: bool,
}

/// A field that is a counter.
#[derive(Debug)]
pub(crate) struct CounterBinding {
    field: FieldRef,
    pub name: Name,
}

impl CounterBinding {
    /// Those of a class.
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

    /// What a record says; `None`: it has no such field.
    pub(crate) fn number(&self, event: &Event<'_>) -> Option<CounterNumber> {
        match event.value(&self.field)? {
            Value::Signed(number) => Some(CounterNumber::Signed(number)),
            Value::Unsigned(number) => Some(CounterNumber::Unsigned(number)),
            Value::Real(number) => Some(CounterNumber::Real(number)),
            _ => None,
        }
    }
}

/// Where records are that may say another value: a trace, and of what is counted for a CPU that one.
type CounterHome = (u32, Option<u32>);
type CounterKey = (Name, CounterPlace);

/// A counter that has a value.
#[derive(Clone, Copy, Debug)]
struct OpenCounter {
    value: CounterValue,
    /// Where the record was that said it.
    home: CounterHome,
    /// Since when it is not known any more: records were discarded, or the process has ended.
    gap: Option<i64>,
}

impl OpenCounter {
    /// Up to when the value was, which is over now.
    fn end(&self, now: i64) -> i64 {
        self.gap.map_or(now, |gap| gap.min(now)).max(self.value.from)
    }
}

/// What all counters are.
#[derive(Debug, Default)]
pub(crate) struct OpenCounters {
    open: HashMap<CounterKey, OpenCounter>,
    /// Those that lose their values where records are discarded; each is there until that has happened.
    homes: BTreeMap<CounterHome, HashSet<CounterKey>>,
    /// Up to when records are absent there; of no CPU: of any.
    unsure: HashMap<CounterHome, i64>,
    /// The same of traces, where nobody knows of which CPU.
    unsure_of_all: HashMap<u32, i64>,
    /// The counters of processes that have not ended.
    processes: HashMap<ThreadId, Vec<Name>>,
    left_out: u64,
}

impl OpenCounters {
    /// A record of a trace says a value. What the counter was before, and up to when; an error: there are too many
    /// counters for one more.
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

    /// Records of a trace were discarded between these times, of this CPU if that is known.
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

    /// The first thread of a process ends, and with it what the process counts.
    pub(crate) fn exit(&mut self, process: ThreadId, time: i64) {
        for name in self.processes.remove(&process).into_iter().flatten() {
            if let Some(open) = self.open.get_mut(&(name, CounterPlace::Process(process))) {
                open.gap.get_or_insert(time);
            }
        }
    }

    /// All of them, by the time up to which each was.
    pub(crate) fn finish(&mut self, now: i64) -> Vec<(CounterValue, i64)> {
        self.homes.clear();
        let open = std::mem::take(&mut self.open).into_values();
        let mut left: Vec<(CounterValue, i64)> =
            open.map(|open| (open.value, open.end(now))).collect();
        left.sort_by_key(|(value, to)| (*to, value.from, value.name, value.place));
        left
    }

    /// How often a counter was one too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// There are as many counters as are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

#[cfg(test)]
mod tests;
