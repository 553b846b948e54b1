//! Interrupts of devices, and what is left to do after them: how many, how long, where, and whom they interrupted.

use std::collections::{BTreeMap, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{Interrupt, Observer, ThreadId, World};

use super::label::Label;
use super::longest::{Kept, Longest};
use super::times::Times;

/// Kinds, by CPU and thread, that are kept; some 1 KiB each. Of more, nobody knows whom they interrupted.
const ROWS_MAX: usize = 1 << 14;

/// What rows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// An interrupt.
    #[default]
    Irq,
    /// An interrupt on one CPU.
    Cpu,
    /// All that interrupted one thread.
    Thread,
    /// All that interrupted one process.
    Process,
}

/// Names of softirqs, as the kernel numbers them.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Some interrupts.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Whom they interrupted, where rows are by that.
    pub label: Label,
    /// The machine, where there are several.
    pub machine: Option<String>,
    /// `irq`, `softirq`; empty: both.
    pub kind: &'static str,
    /// Its number.
    pub number: Option<i32>,
    /// Who serves it; the softirq's name.
    pub name: String,
    /// Where, if it is one.
    pub cpu: Option<u32>,
    /// How long each took, with those that interrupted it in turn.
    pub times: Times,
    /// Of a softirq, how long it was to be done before it began.
    pub delays: Times,
    /// By CPU, how many.
    pub cpus: BTreeMap<u32, u64>,
    /// Whom they interrupted, how often and how long, by falling time; `None`: not known.
    pub interrupted: Vec<(Option<Label>, u64, u64)>,
}

/// One of the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// `irq`, `softirq`.
    pub kind: &'static str,
    /// Its number.
    pub number: i32,
    /// Who serves it.
    pub name: String,
    /// Whom it interrupted; `None`: not known.
    pub label: Option<Label>,
    /// The CPU that was interrupted.
    pub cpu: u32,
    /// When it began \[ns since 1970\].
    pub begin: i64,
    /// How long it took \[ns\].
    pub nanos: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct IrqReport {
    /// By falling time.
    pub rows: Vec<Row>,
    /// By falling time.
    pub longest: Vec<Long>,
    /// Interrupts of devices.
    pub irqs: Times,
    /// Softirqs.
    pub softirqs: Times,
}

/// Machine, what, where, whom.
type IrqKey = (u8, Interrupt, u32, Option<ThreadId>);
/// Machine, whether a softirq, number, CPU, whom.
type IrqPlace = (u8, bool, i32, u32, Option<ThreadId>);

/// Counts them.
#[derive(Debug)]
pub struct IrqCounter {
    range: TimeRange,
    counted: HashMap<IrqKey, Times>,
    delays: HashMap<(u8, u32, u8), Times>,
    longest: Longest<IrqPlace>,
}

/// Whether it is a softirq, and its number.
pub(crate) fn number_of(which: Interrupt) -> (bool, i32) {
    match which {
        Interrupt::Device(number) => (false, number),
        Interrupt::Softirq(number) => (true, number.into()),
    }
}

/// As rows have it.
pub(crate) fn kind(is_softirq: bool) -> &'static str {
    match is_softirq {
        true => "softirq",
        false => "irq",
    }
}

/// Who serves it, the softirq's name; empty: not known.
pub(crate) fn name_of(world: &World, machine: u8, is_softirq: bool, number: i32) -> String {
    match is_softirq {
        true => {
            let name = usize::try_from(number).ok().and_then(|at| SOFTIRQS.get(at));
            name.map(|name| (*name).to_owned()).unwrap_or_default()
        }
        false => world.interrupt_name(machine, number),
    }
}

impl IrqCounter {
    /// Of those that end in this time, with so many of the longest.
    #[must_use]
    pub fn new(range: TimeRange, longest: impl Into<Kept>) -> IrqCounter {
        IrqCounter {
            range,
            counted: HashMap::new(),
            delays: HashMap::new(),
            longest: Longest::new(longest.into()),
        }
    }

    /// What was counted, of those who were interrupted and are wanted.
    #[must_use]
    pub fn finish(
        self,
        world: &World,
        by: By,
        is_wanted: &dyn Fn(Option<&Label>) -> bool,
    ) -> IrqReport {
        type RowKey = (Option<(u8, Interrupt)>, Option<u32>, Option<ThreadId>, bool);
        let mut report = IrqReport::default();
        let mut rows: HashMap<RowKey, Row> = HashMap::new();
        let mut interrupted: HashMap<RowKey, HashMap<Option<ThreadId>, (u64, u64)>> =
            HashMap::new();
        let label = |thread: Option<ThreadId>| thread.map(|thread| Label::thread(world, thread));
        let many = world.machines.len() > 1;
        for ((machine, which, cpu, thread), times) in self.counted {
            if !is_wanted(label(thread).as_ref()) {
                continue;
            }
            let process = thread.map(|thread| world.process_of(thread));
            let key: RowKey = match by {
                By::Irq => (Some((machine, which)), None, None, false),
                By::Cpu => (Some((machine, which)), Some(cpu), None, false),
                By::Thread => (None, None, thread, true),
                By::Process => (None, None, process, true),
            };
            let (is_softirq, number) = number_of(which);
            let row = rows.entry(key).or_default();
            if key.0.is_some() {
                row.machine = world.machines.get(usize::from(machine)).filter(|_| many).cloned();
                row.kind = kind(is_softirq);
                row.number = Some(number);
                row.name = name_of(world, machine, is_softirq, number);
                row.cpu = key.1;
            }
            row.times.merge(&times);
            *row.cpus.entry(cpu).or_default() += times.count;
            if let Some(thread) = key.2 {
                row.label = match by {
                    By::Thread => Label::thread(world, thread),
                    _ => Label::process(world, thread),
                };
            }
            if !key.3 {
                let whom = interrupted.entry(key).or_default().entry(thread).or_default();
                *whom = (whom.0 + times.count, whom.1.saturating_add(times.total));
            }
            match is_softirq {
                true => report.softirqs.merge(&times),
                false => report.irqs.merge(&times),
            }
        }
        for (key, whom) in interrupted {
            let Some(row) = rows.get_mut(&key) else { continue };
            let whom =
                whom.into_iter().map(|(thread, (count, total))| (label(thread), count, total));
            row.interrupted = whom.collect();
            row.interrupted.sort_by(|one, other| (other.2, &one.0).cmp(&(one.2, &other.0)));
        }
        for ((machine, cpu, number), delays) in self.delays {
            let which = Some((machine, Interrupt::Softirq(number)));
            let cpu = if by == By::Cpu { Some(cpu) } else { None };
            if let Some(row) = rows.get_mut(&(which, cpu, None, false)) {
                row.delays.merge(&delays);
            }
        }
        report.rows = rows.into_values().collect();
        report.rows.sort_by(|one, other| {
            let key = |row: &Row| (row.kind, row.number, row.cpu, row.label.clone());
            other.times.total.cmp(&one.times.total).then_with(|| key(one).cmp(&key(other)))
        });
        let longest = self.longest.finish().map(|(nanos, begin, place)| {
            let (machine, is_softirq, number, cpu, thread) = place;
            let name = name_of(world, machine, is_softirq, number);
            let (kind, label) = (kind(is_softirq), label(thread));
            Long { kind, number, name, label, cpu, begin, nanos }
        });
        report.longest = longest.filter(|long| is_wanted(long.label.as_ref())).collect();
        report
    }
}

impl Observer for IrqCounter {
    const STATES: bool = false;

    fn interrupt(
        &mut self,
        world: &World,
        cpu: u32,
        thread: Option<ThreadId>,
        which: Interrupt,
        from: i64,
        to: i64,
    ) {
        if !world.told.selected || !self.range.contains(to) {
            return;
        }
        let machine = world.told.machine;
        let mut key = (machine, which, cpu, thread);
        if self.counted.len() >= ROWS_MAX && !self.counted.contains_key(&key) {
            key.3 = None;
        }
        let nanos = to.abs_diff(from);
        self.counted.entry(key).or_default().add(nanos);
        let (is_softirq, number) = number_of(which);
        self.longest.add(nanos, from, thread, (machine, is_softirq, number, cpu, thread));
    }

    fn softirq_begins(&mut self, world: &World, cpu: u32, number: u8, delay: u64) {
        if world.told.selected && self.range.contains(world.now) {
            self.delays.entry((world.told.machine, cpu, number)).or_default().add(delay);
        }
    }
}
