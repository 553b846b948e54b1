//! Idle states and frequencies of CPUs, by the kernel's records `cpu_idle` and `cpu_frequency`.

use std::collections::{BTreeMap, HashMap};

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, TimeRange};
use strata_report::Times;
use strata_timeline::{Observer, ThreadId, World};

/// The value of the field `state` in `cpu_idle` by which a CPU leaves its idle state: -1 in 32 bits.
const LEAVES: i64 = 0xffff_ffff;
/// The most combinations of CPU and state or frequency.
const ROWS_MAX: usize = 1 << 14;
/// The most CPUs.
const CPUS_MAX: usize = 1 << 13;

/// The idle state or frequency that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Power {
    /// An idle state, by the kernel's number.
    Idle(u32),
    /// A frequency \[kHz\].
    Frequency(u64),
}

/// The time of one CPU in one idle state, or at one frequency.
#[derive(Clone, Debug)]
pub struct PowerRow {
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    pub cpu: u32,
    pub power: Power,
    pub times: Times,
}

#[derive(Clone, Debug)]
enum PowerEvent {
    Nothing,
    Idle { state: FieldRef, cpu: FieldRef },
    Frequency { state: FieldRef, cpu: FieldRef },
}

impl PowerEvent {
    fn of(class: &EventClass) -> PowerEvent {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let name = class.name();
        let name = name.strip_prefix("power:").or(name.strip_prefix("power_")).unwrap_or(name);
        match (name, find("state"), find("cpu_id")) {
            ("cpu_idle", Some(state), Some(cpu)) => PowerEvent::Idle { state, cpu },
            ("cpu_frequency", Some(state), Some(cpu)) => PowerEvent::Frequency { state, cpu },
            _ => PowerEvent::Nothing,
        }
    }
}

/// Counts the times of CPUs in idle states and at frequencies.
#[derive(Debug)]
pub struct PowerCounter {
    range: TimeRange,
    kinds: Vec<Option<PowerEvent>>,
    /// The idle state of each CPU and when it began; `None` while it is not idle.
    idle: HashMap<(u8, u32), (i64, u32)>,
    /// The frequency of each CPU and since when it is known.
    frequencies: HashMap<(u8, u32), (i64, u64)>,
    rows: BTreeMap<(u8, u32, Power), Times>,
}

impl PowerCounter {
    /// Makes a counter for the parts of times that are within `range`.
    #[must_use]
    pub fn new(range: TimeRange) -> PowerCounter {
        let (idle, frequencies) = (HashMap::new(), HashMap::new());
        PowerCounter { range, kinds: Vec::new(), idle, frequencies, rows: BTreeMap::new() }
    }

    fn add(&mut self, (machine, cpu): (u8, u32), power: Power, from: i64, to: i64) {
        let (from, to) = (from.max(self.range.from), to.min(self.range.to));
        let key = (machine, cpu, power);
        let has_room = self.rows.len() < ROWS_MAX || self.rows.contains_key(&key);
        if to > from && has_room {
            self.rows.entry(key).or_default().add(to.abs_diff(from));
        }
    }

    fn apply(&mut self, machine: u8, event: &Event<'_>, kind: &PowerEvent) {
        let (PowerEvent::Idle { state, cpu } | PowerEvent::Frequency { state, cpu }) = kind else {
            return;
        };
        let cpu = event.integer(cpu).and_then(|cpu| u32::try_from(cpu).ok());
        let (Some(time), Some(cpu), Some(state)) = (event.time(), cpu, event.integer(state)) else {
            return;
        };
        let key = (machine, cpu);
        match kind {
            PowerEvent::Idle { .. } => {
                // Two begins in a row have an end that is not in the trace: how long the first one was is not known.
                let before = self.idle.remove(&key);
                match (state == LEAVES || state == -1, before) {
                    (true, Some((from, state))) => self.add(key, Power::Idle(state), from, time),
                    (true, None) => {}
                    (false, _) => {
                        let state = u32::try_from(state).unwrap_or(u32::MAX);
                        if self.idle.len() < CPUS_MAX {
                            self.idle.insert(key, (time, state));
                        }
                    }
                }
            }
            _ => {
                let Ok(khz) = u64::try_from(state) else { return };
                let is_known = self.frequencies.contains_key(&key);
                if is_known || self.frequencies.len() < CPUS_MAX {
                    if let Some((from, before)) = self.frequencies.insert(key, (time, khz)) {
                        self.add(key, Power::Frequency(before), from, time);
                    }
                }
            }
        }
    }

    /// Returns the rows, by machine, CPU and state or frequency. `end` is the time at which the traces end: the last
    /// frequency of each CPU is valid until then.
    #[must_use]
    pub fn finish(mut self, world: &World, end: i64) -> Vec<PowerRow> {
        for (key, (from, khz)) in std::mem::take(&mut self.frequencies) {
            self.add(key, Power::Frequency(khz), from, end);
        }
        let many = world.machines.len() > 1;
        let row = |((machine, cpu, power), times)| PowerRow {
            machine: world.machines.get(usize::from(machine)).filter(|_| many).cloned(),
            cpu,
            power,
            times,
        };
        self.rows.into_iter().map(row).collect()
    }
}

impl Observer for PowerCounter {
    const STATES: bool = false;
    const CALLS: bool = false;
    const INTERRUPTS: bool = false;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, _: Option<ThreadId>, _: bool) {
        let class = event.class();
        if class.index() >= self.kinds.len() {
            self.kinds.resize_with(class.index() + 1, || None);
        }
        let Some(place) = self.kinds.get_mut(class.index()) else { return };
        match place.get_or_insert_with(|| PowerEvent::of(class)) {
            PowerEvent::Nothing => {}
            kind => {
                let kind = kind.clone();
                self.apply(world.told.machine, event, &kind);
            }
        }
    }
}
