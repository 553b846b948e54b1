//! The report on CPUs: which threads ran on them, how long and when, how often CPUs switched, and how often threads
//! moved between them.

use std::collections::{BTreeSet, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{Observer, Run, ThreadId, World};

use crate::fast_hash::Mix;

use super::program_groups::{Common, Programs};
use super::row_limit::{RowLimit, ROWS_MAX};
use strata_report::Label;

/// The most cells of all rows together \[8 bytes\]. Threads beyond the limit have sums and no columns.
const CELLS_MAX: usize = 1 << 22;

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has all threads of a process.
    #[default]
    Process,
    Thread,
    /// A row has all processes that have this in common.
    Together(Common),
}

/// A time range, divided into columns of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The begin of the first column \[ns since 1970\].
    pub from: i64,
    /// The width of a column \[ns\].
    pub width: u64,
    /// The number of columns.
    pub count: usize,
    /// The length of the whole time range \[ns\].
    pub whole: u64,
}

impl Columns {
    /// Divides `range` into `count` columns.
    #[must_use]
    pub fn new(range: TimeRange, count: usize) -> Columns {
        let count = count.max(1);
        let whole = range.to.abs_diff(range.from).max(1);
        let width = whole.div_ceil(count as u64).max(1);
        Columns { from: range.from, width, count: whole.div_ceil(width) as usize, whole }
    }

    /// Adds the time between `from` and `to` to the columns that it covers.
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

/// The use of CPUs by a process or a thread.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process or the thread, depending on [`By`].
    pub label: Label,
    /// The time on a CPU \[ns\].
    pub running: u64,
    /// The number of times that the process or thread got a CPU.
    pub runs: u64,
    /// The number of times that it got another CPU than before.
    pub migrations: u64,
    /// The CPUs that the process or thread ran on.
    pub cpus: BTreeSet<u32>,
    /// The time on a CPU in each column \[ns\]; empty if there was no room for this row's columns.
    pub columns: Vec<u64>,
}

/// The use of one CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The CPU's number in its machine.
    pub cpu: u32,
    /// Time in which the CPU ran a thread \[ns\].
    pub busy: u64,
    /// Time in which the CPU was idle \[ns\].
    pub idle: u64,
    /// The time for which it is not known from the trace what the CPU did \[ns\].
    pub unknown: u64,
    /// The number of switches to another thread.
    pub switches: u64,
    /// Busy time in each column \[ns\].
    pub columns: Vec<u64>,
    /// The time in each column for which the trace does not say what the CPU did \[ns\].
    pub unknown_columns: Vec<u64>,
}

#[derive(Clone, Debug)]
pub struct CpuReport {
    /// The rows, by falling time.
    pub rows: Vec<Row>,
    /// The CPUs, by machine and number.
    pub cpus: Vec<Cpu>,
    /// The begin and width of the columns.
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

/// Counts the time of threads on CPUs.
#[derive(Debug)]
pub struct CpuCounter {
    range: TimeRange,
    columns: Columns,
    cells: usize,
    threads: HashMap<ThreadId, CpuUse, Mix>,
    cpus: HashMap<(u8, u32), Cpu, Mix>,
}

impl CpuCounter {
    /// Makes a counter for `range`, divided into `columns` columns.
    #[must_use]
    pub fn new(range: TimeRange, columns: usize) -> CpuCounter {
        CpuCounter {
            range,
            columns: Columns::new(range, columns),
            cells: 0,
            threads: HashMap::default(),
            cpus: HashMap::default(),
        }
    }

    /// Returns the report, with rows of threads that `is_wanted` accepts.
    #[must_use]
    pub fn finish(self, world: &World, by: By, is_wanted: &dyn Fn(&Label) -> bool) -> CpuReport {
        let (mut rows, mut programs) = (HashMap::<ThreadId, Row>::new(), Programs::default());
        let is_grouped = matches!(by, By::Together(_));
        let is_in = |thread| thread != ThreadId::IDLE && is_wanted(&Label::thread(world, thread));
        let of = |thread| if by == By::Process { world.process_of(thread) } else { thread };
        let mut sizes = vec![0_u64; world.threads.iter().count() + 1];
        for (&thread, used) in self.threads.iter().filter(|(thread, _)| is_in(**thread)) {
            if let Some(size) = sizes.get_mut(of(thread).index()) {
                *size = size.saturating_add(used.running);
            }
        }
        let limit = RowLimit::of(sizes, if is_grouped { usize::MAX } else { ROWS_MAX });
        for (thread, used) in self.threads {
            if !is_in(thread) {
                continue;
            }
            let (key, label) = match (limit.row(of(thread)), by) {
                // The idle thread has no row of its own.
                (None, _) => (ThreadId::IDLE, limit.label()),
                (Some(process), By::Process) => (process, Label::process(world, thread)),
                (Some(_), By::Thread) => (thread, Label::thread(world, thread)),
                (Some(_), By::Together(common)) => {
                    (programs.of(world, common, thread), Label::default())
                }
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
        if let By::Together(common) = by {
            rows.iter_mut()
                .for_each(|(&first, row)| row.label = programs.label(world, common, first));
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
