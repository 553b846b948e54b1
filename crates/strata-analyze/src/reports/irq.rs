//! The report on interrupts of devices and softirqs: their number, lengths and CPUs, and the threads that they
//! interrupted.

use std::collections::{BTreeMap, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{Interrupt, Observer, ThreadId, World};

use crate::fast_hash::Mix;

use super::longest::{Longest, LongestLimit};
use strata_report::Label;
use strata_report::Times;

/// The most combinations of interrupt, CPU and thread that are kept; each takes some 1 KiB. Beyond the limit, the
/// interrupted thread is not kept.
const ROWS_MAX: usize = 1 << 14;

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has one interrupt or softirq.
    #[default]
    Irq,
    /// A row has one interrupt or softirq on one CPU.
    Cpu,
    /// A row has all interrupts of one thread.
    Thread,
    /// A row has all interrupts of one process.
    Process,
}

/// The names of softirqs, by the kernel's numbers.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// A row: interrupts of one kind, or those that interrupted one thread.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The interrupted thread, if rows are about threads.
    pub label: Label,
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The kind, `irq` or `softirq`; empty if the row has both.
    pub kind: &'static str,
    /// The interrupt's number.
    pub number: Option<i32>,
    /// The name of the interrupt's driver, or of the softirq.
    pub name: String,
    /// The CPU, if all interrupts of the row were on one.
    pub cpu: Option<u32>,
    /// The lengths of the interrupts, including the time of nested ones.
    pub times: Times,
    /// The times from the raising of a softirq to its begin.
    pub delays: Times,
    /// The number of interrupts by CPU.
    pub cpus: BTreeMap<u32, u64>,
    /// The interrupted threads with count and time \[ns\], by falling time; `None` stands for unknown threads.
    pub interrupted: Vec<(Option<Label>, u64, u64)>,
}

/// One of the longest interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// The kind, `irq` or `softirq`.
    pub kind: &'static str,
    pub number: i32,
    /// The name of the interrupt's driver, or of the softirq.
    pub name: String,
    /// The interrupted thread; `None` if it is unknown.
    pub label: Option<Label>,
    /// The CPU that was interrupted.
    pub cpu: u32,
    /// The begin of the interrupt \[ns since 1970\].
    pub begin: i64,
    /// The length of the interrupt \[ns\].
    pub nanos: u64,
}

#[derive(Clone, Debug, Default)]
pub struct IrqReport {
    /// Rows by falling time.
    pub rows: Vec<Row>,
    /// The longest interrupts, by falling time.
    pub longest: Vec<Long>,
    /// The sum of all interrupts of devices.
    pub irqs: Times,
    /// The sum of all softirqs.
    pub softirqs: Times,
}

/// A row's key: machine, interrupt, CPU, and interrupted thread.
type IrqKey = (u8, Interrupt, u32, Option<ThreadId>);
/// A sortable key: machine, whether a softirq, number, CPU, and interrupted thread.
type IrqPlace = (u8, bool, i32, u32, Option<ThreadId>);

/// Counts interrupts and softirqs.
#[derive(Debug)]
pub struct IrqCounter {
    range: TimeRange,
    counted: HashMap<IrqKey, Times, Mix>,
    delays: HashMap<(u8, u32, u8), Times, Mix>,
    longest: Longest<IrqPlace>,
}

/// Returns the number of an interrupt or softirq, with true for a softirq.
pub fn number_of(which: Interrupt) -> (bool, i32) {
    match which {
        Interrupt::Device(number) => (false, number),
        Interrupt::Softirq(number) => (true, number.into()),
    }
}

/// Returns the name of the kind in reports: `softirq` or `irq`.
pub fn kind(is_softirq: bool) -> &'static str {
    match is_softirq {
        true => "softirq",
        false => "irq",
    }
}

/// Returns the name of an interrupt's driver, or of a softirq; empty if it is unknown.
pub fn name_of(world: &World, machine: u8, is_softirq: bool, number: i32) -> String {
    match is_softirq {
        true => {
            let name = usize::try_from(number).ok().and_then(|at| SOFTIRQS.get(at));
            name.map(|name| (*name).to_owned()).unwrap_or_default()
        }
        false => world.interrupt_name(machine, number),
    }
}

impl IrqCounter {
    /// Makes a counter for interrupts that end within `range`, which keeps the `longest` longest ones.
    #[must_use]
    pub fn new(range: TimeRange, longest: impl Into<LongestLimit>) -> IrqCounter {
        IrqCounter {
            range,
            counted: HashMap::default(),
            delays: HashMap::default(),
            longest: Longest::new(longest.into()),
        }
    }

    /// Returns the report, for interrupted threads that `is_wanted` accepts.
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
