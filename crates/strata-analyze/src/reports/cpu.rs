//! CPUs: who had them, how long, and when; how often they switched, and how often threads moved to another one.

use std::collections::{BTreeSet, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{Observer, Run, ThreadId, World};

use super::label::Label;

/// Cells of all rows that are kept \[8 bytes\]. Threads that come later have sums only.
const CELLS_MAX: usize = 1 << 22;

/// What rows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// All threads of a process.
    #[default]
    Process,
    /// Each thread.
    Thread,
}

/// The time, in parts of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// When the first begins \[ns since 1970\].
    pub from: i64,
    /// How wide each is \[ns\].
    pub width: u64,
    /// How many there are.
    pub count: usize,
    /// All of the time \[ns\].
    pub whole: u64,
}

impl Columns {
    /// So many, of this time.
    #[must_use]
    pub fn new(range: TimeRange, count: usize) -> Columns {
        let count = count.max(1);
        let whole = range.to.abs_diff(range.from).max(1);
        let width = whole.div_ceil(count as u64).max(1);
        Columns { from: range.from, width, count: whole.div_ceil(width) as usize, whole }
    }

    /// Add the time from then to then to the columns that it is in.
    fn add(&self, cells: &mut [u64], from: i64, to: i64) {
        let mut at = from;
        while at < to {
            let column = at.abs_diff(self.from) / self.width;
            let Some(cell) = usize::try_from(column).ok().and_then(|at| cells.get_mut(at)) else {
                return;
            };
            let end = self.from.saturating_add_unsigned((column + 1).saturating_mul(self.width));
            let end = end.min(to);
            *cell += end.abs_diff(at);
            at = end;
        }
    }
}

/// What a process or a thread had.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process or the thread, as `By` asks.
    pub label: Label,
    /// How long it had a CPU \[ns\].
    pub running: u64,
    /// How often it got one.
    pub runs: u64,
    /// How often that was another one than before.
    pub migrations: u64,
    /// Which ones.
    pub cpus: BTreeSet<u32>,
    /// How long in each column \[ns\]; empty: there was no room.
    pub columns: Vec<u64>,
}

/// What a CPU did.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// The machine, where there are several.
    pub machine: Option<String>,
    /// Its number.
    pub cpu: u32,
    /// It ran a thread \[ns\].
    pub busy: u64,
    /// It had nothing to do \[ns\].
    pub idle: u64,
    /// The trace does not say \[ns\].
    pub unknown: u64,
    /// How often it switched to another thread.
    pub switches: u64,
    /// How long it was busy in each column \[ns\].
    pub columns: Vec<u64>,
    /// How long nobody knows what it did in each column \[ns\].
    pub unknown_columns: Vec<u64>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct CpuReport {
    /// By falling time.
    pub rows: Vec<Row>,
    /// By machine and number.
    pub cpus: Vec<Cpu>,
    /// What columns are.
    pub columns: Columns,
}

#[derive(Clone, Debug, Default)]
struct CpuUse {
    running: u64,
    runs: u64,
    migrations: u64,
    last: Option<u32>,
    cpus: BTreeSet<u32>,
    columns: Vec<u64>,
}

/// Counts it.
#[derive(Debug)]
pub struct CpuCounter {
    range: TimeRange,
    columns: Columns,
    cells: usize,
    threads: HashMap<ThreadId, CpuUse>,
    cpus: HashMap<(u8, u32), Cpu>,
}

impl CpuCounter {
    /// In this time, which is the trace's or a part of it, in so many columns.
    #[must_use]
    pub fn new(range: TimeRange, columns: usize) -> CpuCounter {
        CpuCounter {
            range,
            columns: Columns::new(range, columns),
            cells: 0,
            threads: HashMap::new(),
            cpus: HashMap::new(),
        }
    }

    /// What was counted, of threads that are wanted.
    #[must_use]
    pub fn finish(self, world: &World, by: By, is_wanted: &dyn Fn(&Label) -> bool) -> CpuReport {
        let mut rows: HashMap<ThreadId, Row> = HashMap::new();
        for (thread, used) in self.threads {
            if thread == ThreadId::IDLE || !is_wanted(&Label::thread(world, thread)) {
                continue;
            }
            let (key, label) = match by {
                By::Process => (world.process_of(thread), Label::process(world, thread)),
                By::Thread => (thread, Label::thread(world, thread)),
            };
            let row = rows.entry(key).or_default();
            row.label = label;
            row.running += used.running;
            row.runs += used.runs;
            row.migrations += used.migrations;
            row.cpus.extend(used.cpus);
            if row.columns.len() < used.columns.len() {
                row.columns.resize(used.columns.len(), 0);
            }
            row.columns.iter_mut().zip(used.columns).for_each(|(sum, more)| *sum += more);
        }
        let mut rows: Vec<Row> = rows.into_values().filter(|row| row.running > 0).collect();
        rows.sort_by(|one, other| {
            other.running.cmp(&one.running).then_with(|| one.label.cmp(&other.label))
        });
        let mut cpus: Vec<_> = self.cpus.into_iter().collect();
        cpus.sort_by_key(|&(key, _)| key);
        let many = world.machines.len() > 1;
        let cpus = cpus.into_iter().map(|((machine, _), cpu)| {
            let machine = world.machines.get(usize::from(machine)).filter(|_| many).cloned();
            Cpu { machine, ..cpu }
        });
        CpuReport { rows, cpus: cpus.collect(), columns: self.columns }
    }
}

impl Observer for CpuCounter {
    const STATES: bool = false;

    fn ran(&mut self, world: &World, run: &Run) {
        let (from, to) = (run.from.max(self.range.from), run.to.min(self.range.to));
        let count = self.columns.count;
        let is_in = self.range.contains(run.to);
        let cpu = self.cpus.entry((world.told.machine, run.cpu)).or_insert_with(|| Cpu {
            cpu: run.cpu,
            columns: vec![0; count],
            unknown_columns: vec![0; count],
            ..Cpu::default()
        });
        cpu.switches += u64::from(run.is_switch && is_in);
        let nanos = to.max(from).abs_diff(from);
        let thread = match run.thread {
            None => {
                cpu.unknown += nanos;
                return self.columns.add(&mut cpu.unknown_columns, from, to);
            }
            Some(ThreadId::IDLE) => {
                cpu.idle += nanos;
                return;
            }
            Some(thread) => thread,
        };
        cpu.busy += nanos;
        self.columns.add(&mut cpu.columns, from, to);
        let used = self.threads.entry(thread).or_default();
        let before = used.last.replace(run.cpu);
        if nanos == 0 && !is_in {
            return;
        }
        used.running += nanos;
        used.runs += 1;
        used.migrations += u64::from(before.is_some_and(|before| before != run.cpu));
        used.cpus.insert(run.cpu);
        if used.columns.is_empty() && self.cells + count <= CELLS_MAX {
            self.cells += count;
            used.columns = vec![0; count];
        }
        self.columns.add(&mut used.columns, from, to);
    }
}
