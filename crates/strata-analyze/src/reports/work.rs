//! The report on work that the kernel puts off: work items of its queues, timers and high-resolution timers, by the
//! function that does it; and softirqs, in which timers run.
//!
//! ```text
//! workqueue_queue_work ── late ──▶ workqueue_execute_start ── time ──▶ workqueue_execute_end      by a kernel thread
//! hrtimer_start (expires) ─ late ▶ hrtimer_expire_entry ───── time ──▶ hrtimer_expire_exit        in an interrupt
//!                                  timer_expire_entry ─────── time ──▶ timer_expire_exit          in a softirq
//! ```
//!
//! Both ends of an item have the address of the item, which nobody executes twice at a time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, TimeRange, Value};
use strata_report::{Label, Times};
use strata_timeline::{is_kernel, kernel_name, Interrupt, Observer, ThreadId, World};

use super::irq::name_of;
use super::longest::{Longest, LongestLimit};
use crate::debug_info::KernelFunctions;
use crate::fast_hash::Mix;

/// The most work items that may be waiting at one time, and the most that may be executing. Beyond that, those that
/// have waited longest are forgotten, since many are cancelled without a record.
const ITEMS_MAX: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };
/// The most rows, each takes some 1 KiB. Beyond the limit, threads are not distinguished; beyond twice as many,
/// functions are not distinguished either.
const ROWS_MAX: usize = if cfg!(test) { 1 << 4 } else { 1 << 14 };
/// The most functions and queues that have names.
const NAMES_MAX: usize = 1 << 14;

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has one function of one kind.
    #[default]
    Function,
    /// A row has one queue of work items, or one of the other kinds.
    Queue,
    /// A row has what one thread executed, or was interrupted by.
    Thread,
}

/// The kind of work that the kernel has put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkKind {
    /// An item of a workqueue.
    #[default]
    Work,
    /// A timer by ticks of the kernel.
    Timer,
    /// A high-resolution timer.
    Hrtimer,
    /// A softirq.
    Softirq,
}

impl WorkKind {
    /// Returns the kind's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WorkKind::Work => "work",
            WorkKind::Timer => "timer",
            WorkKind::Hrtimer => "hrtimer",
            WorkKind::Softirq => "softirq",
        }
    }
}

/// Work of one kind and function, queue or thread.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The kind; `None` for a thread's row.
    pub kind: Option<WorkKind>,
    /// The function, or its address; the softirq.
    pub function: String,
    /// The workqueue, if all items of the row were of one known queue.
    pub queue: Option<String>,
    /// The thread, if rows are by thread.
    pub label: Label,
    /// The times of execution.
    pub times: Times,
    /// The times from queueing, from the time for which the timer was set, or from the raising of the softirq to the
    /// execution.
    pub late: Times,
    /// The CPUs on which the work was executed.
    pub cpus: BTreeSet<u32>,
}

/// One of the longest executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    pub kind: WorkKind,
    pub function: String,
    /// The thread that executed the work, or was interrupted by it.
    pub label: Option<Label>,
    pub cpu: u32,
    /// The begin \[ns since 1970\].
    pub begin: i64,
    /// The length \[ns\].
    pub nanos: u64,
}

#[derive(Clone, Debug, Default)]
pub struct WorkReport {
    /// The rows, by falling time.
    pub rows: Vec<Row>,
    /// The longest executions, by falling time.
    pub longest: Vec<Long>,
    /// The sums by kind.
    pub kinds: Vec<(WorkKind, Times)>,
    /// Items that were queued and not executed before the trace ended.
    pub waiting: u64,
    /// Executions of which only one end is in the traces, and those for which there was no room.
    pub incomplete: u64,
}

/// The kinds of event records that the report uses.
#[derive(Clone, Debug)]
enum WorkEvent {
    Nothing,
    Queued {
        item: FieldRef,
        queue: Option<FieldRef>,
    },
    /// A timer is set to this time of its clock.
    Set {
        item: FieldRef,
        expires: FieldRef,
    },
    Begins {
        kind: WorkKind,
        item: FieldRef,
        function: FieldRef,
        now: Option<FieldRef>,
    },
    Ends {
        kind: WorkKind,
        item: FieldRef,
    },
}

impl WorkEvent {
    /// Determines the kind of records of a class. A program may give its own events the same names.
    fn of(event: &Event<'_>) -> WorkEvent {
        let known = match is_kernel(event.stream().trace().schema()) {
            true => WorkEvent::known(event.class()),
            false => None,
        };
        known.unwrap_or(WorkEvent::Nothing)
    }

    fn known(class: &EventClass) -> Option<WorkEvent> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let name = name_without_group(class.name());
        let begins = |kind, item, now| {
            Some(WorkEvent::Begins { kind, item: find(item)?, function: find("function")?, now })
        };
        match name {
            "workqueue_queue_work" => {
                Some(WorkEvent::Queued { item: find("work")?, queue: find("workqueue") })
            }
            "workqueue_execute_start" => begins(WorkKind::Work, "work", None),
            "workqueue_execute_end" => {
                Some(WorkEvent::Ends { kind: WorkKind::Work, item: find("work")? })
            }
            "hrtimer_start" => {
                Some(WorkEvent::Set { item: find("hrtimer")?, expires: find("expires")? })
            }
            "hrtimer_expire_entry" => begins(WorkKind::Hrtimer, "hrtimer", find("now")),
            "hrtimer_expire_exit" => {
                Some(WorkEvent::Ends { kind: WorkKind::Hrtimer, item: find("hrtimer")? })
            }
            "timer_expire_entry" => begins(WorkKind::Timer, "timer", None),
            "timer_expire_exit" => {
                Some(WorkEvent::Ends { kind: WorkKind::Timer, item: find("timer")? })
            }
            _ => None,
        }
    }
}

/// Returns the kernel's name of an event. LTTng writes `timer_hrtimer_start` for `hrtimer_start`.
fn name_without_group(name: &str) -> &str {
    let name = kernel_name(name);
    name.strip_prefix("timer_").filter(|rest| rest.starts_with("hrtimer_")).unwrap_or(name)
}

/// An item that is queued, or a timer that is set.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// The time since which it waits \[ns since 1970\].
    since: i64,
    what: Waiting,
}

#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// It is a work item in this queue.
    In(Option<u32>),
    /// It is a timer that expires at this time of its clock \[ns\].
    Until(i64),
}

/// An execution that has begun.
#[derive(Clone, Copy, Debug)]
struct Running {
    begin: i64,
    function: u32,
    queue: Option<u32>,
    late: Option<u64>,
    thread: Option<ThreadId>,
    cpu: u32,
    selected: bool,
}

/// A row's key: machine, kind, function, queue, and thread.
type WorkKey = (u8, WorkKind, u32, Option<u32>, Option<ThreadId>);

/// Counts executions of work that was put off.
#[derive(Debug)]
pub struct WorkCounter {
    range: TimeRange,
    functions: Option<KernelFunctions>,
    kinds: Vec<Option<WorkEvent>>,
    waits: HashMap<(u8, u64), Waits, Mix>,
    /// Number of work items that were given up, because too many were waiting.
    given_up: u64,
    running: HashMap<(u8, WorkKind, u64), Running, Mix>,
    /// Names of functions and queues. Their indexes are the numbers in the other tables.
    names: Vec<String>,
    numbers: HashMap<(u8, u64), u32>,
    queues: HashMap<Vec<u8>, u32>,
    rows: HashMap<WorkKey, Row, Mix>,
    delays: HashMap<(u8, u8), Times>,
    longest: Longest<WorkPlace>,
    incomplete: u64,
}

/// The facts that are kept about one of the longest executions: machine, kind, function, thread, CPU.
type WorkPlace = (u8, WorkKind, u32, Option<ThreadId>, u32);

impl WorkCounter {
    /// Makes a counter for work that ends within `range`, which keeps the `longest` longest executions. Functions have
    /// their names from `functions`.
    #[must_use]
    pub fn new(
        range: TimeRange,
        functions: Option<KernelFunctions>,
        longest: impl Into<LongestLimit>,
    ) -> WorkCounter {
        WorkCounter {
            range,
            functions,
            kinds: Vec::new(),
            waits: HashMap::default(),
            given_up: 0,
            running: HashMap::default(),
            // Number 0 is what has no name for want of room.
            names: vec!["others".to_owned()],
            numbers: HashMap::new(),
            queues: HashMap::new(),
            rows: HashMap::default(),
            delays: HashMap::new(),
            longest: Longest::new(longest.into()),
            incomplete: 0,
        }
    }

    /// Returns the number of the name of the function in a field of a record.
    fn function(&mut self, machine: u8, event: &Event<'_>, field: &FieldRef) -> u32 {
        let address = event.integer(field).unwrap_or(0) as u64;
        if let Some(number) = self.numbers.get(&(machine, address)) {
            return *number;
        }
        let known = self.functions.as_mut().and_then(|functions| functions.at(event, field));
        let name = match known {
            Some(name) => String::from_utf8_lossy(&name).into_owned(),
            None => format!("{address:#x}"),
        };
        let Some(number) = self.named(name) else { return 0 };
        self.numbers.insert((machine, address), number);
        number
    }

    fn named(&mut self, name: String) -> Option<u32> {
        if self.names.len() >= NAMES_MAX {
            return None;
        }
        self.names.push(name);
        u32::try_from(self.names.len() - 1).ok()
    }

    fn queue(&mut self, event: &Event<'_>, field: &FieldRef) -> Option<u32> {
        let Some(Value::Text(text)) = event.value(field) else { return None };
        if let Some(number) = self.queues.get(text) {
            return Some(*number);
        }
        let number = self.named(String::from_utf8_lossy(text).into_owned())?;
        self.queues.insert(text.to_vec(), number);
        Some(number)
    }

    fn apply(
        &mut self,
        world: &World,
        event: &Event<'_>,
        (who, selected): (Option<ThreadId>, bool),
        kind: &WorkEvent,
    ) {
        let Some(time) = event.time() else { return };
        let machine = world.told.machine;
        let address = |field: &FieldRef| event.integer(field).map(|address| address as u64);
        match kind {
            WorkEvent::Nothing => {}
            WorkEvent::Queued { item, queue } => {
                let Some(item) = address(item) else { return };
                let queue = queue.as_ref().and_then(|queue| self.queue(event, queue));
                self.wait((machine, item), Waits { since: time, what: Waiting::In(queue) });
            }
            WorkEvent::Set { item, expires } => {
                let (Some(item), Some(expires)) = (address(item), event.integer(expires)) else {
                    return;
                };
                self.wait((machine, item), Waits { since: time, what: Waiting::Until(expires) });
            }
            WorkEvent::Begins { kind, item, function, now } => {
                let Some(item) = address(item) else { return };
                let waited = self.waits.remove(&(machine, item));
                let now = now.as_ref().and_then(|now| event.integer(now));
                // Memory of one kind may have become that of another since.
                let (late, queue) = match (kind, waited, now) {
                    (WorkKind::Work, Some(Waits { since, what: Waiting::In(queue) }), _) => {
                        (u64::try_from(time.saturating_sub(since)).ok(), queue)
                    }
                    // A timer may expire a little early, with others.
                    (
                        WorkKind::Hrtimer,
                        Some(Waits { what: Waiting::Until(expires), .. }),
                        Some(now),
                    ) => (Some(u64::try_from(now.saturating_sub(expires)).unwrap_or(0)), None),
                    _ => (None, None),
                };
                let function = self.function(machine, event, function);
                let key = (machine, *kind, item);
                if self.running.len() >= ITEMS_MAX && !self.running.contains_key(&key) {
                    self.incomplete += 1;
                    return;
                }
                let cpu = event.packet().cpu.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0);
                let begun =
                    Running { begin: time, function, queue, late, thread: who, cpu, selected };
                self.incomplete += u64::from(self.running.insert(key, begun).is_some());
            }
            WorkEvent::Ends { kind, item } => {
                let Some(item) = address(item) else { return };
                let Some(begun) = self.running.remove(&(machine, *kind, item)) else {
                    self.incomplete += u64::from(self.range.contains(time) && selected);
                    return;
                };
                if !self.range.contains(time) || !(selected || begun.selected) {
                    return;
                }
                let nanos = time.abs_diff(begun.begin);
                let Running { begin, function, queue, late, thread, cpu, .. } = begun;
                self.longest.add(nanos, begin, thread, (machine, *kind, function, thread, cpu));
                let row = self.row((machine, *kind, function, queue, thread));
                row.times.add(nanos);
                row.cpus.insert(cpu);
                if let Some(late) = late {
                    row.late.add(late);
                }
            }
        }
    }

    fn wait(&mut self, key: (u8, u64), waits: Waits) {
        if self.waits.len() >= ITEMS_MAX && !self.waits.contains_key(&key) {
            let mut times: Vec<i64> = self.waits.values().map(|one| one.since).collect();
            let middle = times.len() / 2;
            let (_, &mut oldest, _) = times.select_nth_unstable(middle);
            let given_up = &mut self.given_up;
            self.waits.retain(|_, one| {
                let stays = one.since > oldest;
                *given_up += u64::from(!stays && matches!(one.what, Waiting::In(_)));
                stays
            });
        }
        self.waits.insert(key, waits);
    }

    fn row(&mut self, mut key: WorkKey) -> &mut Row {
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            key.4 = None;
            // There are few softirqs, and no number of theirs stands for others.
            let is_softirq = key.1 == WorkKind::Softirq;
            if self.rows.len() >= 2 * ROWS_MAX && !is_softirq && !self.rows.contains_key(&key) {
                (key.2, key.3) = (0, None);
            }
        }
        self.rows.entry(key).or_default()
    }

    /// Returns the report, of threads that `is_wanted` accepts.
    #[must_use]
    pub fn finish(
        self,
        world: &World,
        by: By,
        is_wanted: &dyn Fn(Option<&Label>) -> bool,
    ) -> WorkReport {
        type RowKey = (u8, Option<WorkKind>, Option<u32>, Option<Option<u32>>, Option<ThreadId>);
        let label = |thread: Option<ThreadId>| thread.map(|thread| Label::thread(world, thread));
        let many = world.machines.len() > 1;
        let name_of_function = |machine: u8, kind: WorkKind, number: u32| match kind {
            WorkKind::Softirq => {
                name_of(world, machine, true, i32::try_from(number).unwrap_or(i32::MAX))
            }
            _ => self.names.get(number as usize).cloned().unwrap_or_default(),
        };
        let mut kinds: HashMap<WorkKind, Times> = HashMap::new();
        let mut rows: HashMap<RowKey, Row> = HashMap::new();
        for ((machine, kind, function, queue, thread), part) in &self.rows {
            if !is_wanted(label(*thread).as_ref()) {
                continue;
            }
            let key: RowKey = match by {
                By::Function => (*machine, Some(*kind), Some(*function), None, None),
                By::Queue => (*machine, Some(*kind), None, Some(*queue), None),
                By::Thread => (*machine, None, None, None, *thread),
            };
            let queue = queue.and_then(|queue| self.names.get(queue as usize).cloned());
            let is_new = !rows.contains_key(&key);
            let row = rows.entry(key).or_default();
            if is_new {
                row.machine = world.machines.get(usize::from(*machine)).filter(|_| many).cloned();
                row.kind = key.1;
                row.function = key.2.map_or_else(String::new, |function| {
                    name_of_function(*machine, *kind, function)
                });
                row.queue = queue;
                row.label = key.4.map(|thread| Label::thread(world, thread)).unwrap_or_default();
            } else if row.queue != queue {
                row.queue = None;
            }
            row.times.merge(&part.times);
            row.late.merge(&part.late);
            row.cpus.extend(&part.cpus);
            kinds.entry(*kind).or_default().merge(&part.times);
        }
        for ((machine, number), delays) in &self.delays {
            let key: RowKey = match by {
                By::Function => {
                    (*machine, Some(WorkKind::Softirq), Some(u32::from(*number)), None, None)
                }
                By::Queue => (*machine, Some(WorkKind::Softirq), None, Some(None), None),
                By::Thread => continue,
            };
            if let Some(row) = rows.get_mut(&key) {
                row.late.merge(delays);
            }
        }
        let mut rows: Vec<Row> = rows.into_values().filter(|row| row.times.count > 0).collect();
        rows.sort_by(|one, other| {
            let key = |row: &Row| {
                (
                    row.machine.clone(),
                    row.kind,
                    row.function.clone(),
                    row.queue.clone(),
                    row.label.clone(),
                )
            };
            other.times.total.cmp(&one.times.total).then_with(|| key(one).cmp(&key(other)))
        });
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(kind, _)| *kind);
        let waiting = self.waits.values().filter(|one| matches!(one.what, Waiting::In(_))).count();
        let longest = self.longest.finish().map(|(nanos, begin, place)| {
            let (machine, kind, function, thread, cpu) = place;
            let function = name_of_function(machine, kind, function);
            Long { kind, function, label: label(thread), cpu, begin, nanos }
        });
        let mut longest: Vec<Long> =
            longest.filter(|long| is_wanted(long.label.as_ref())).collect();
        longest.sort_by_key(|long| Reverse(long.nanos));
        let at_end = self.running.values().filter(|one| self.range.contains(one.begin)).count();
        let incomplete = self.incomplete.saturating_add(at_end as u64);
        let waiting = self.given_up.saturating_add(waiting as u64);
        WorkReport { rows, longest, kinds, waiting, incomplete }
    }
}

impl Observer for WorkCounter {
    const STATES: bool = false;
    const CALLS: bool = false;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        let class = event.class();
        if class.index() >= self.kinds.len() {
            self.kinds.resize_with(class.index() + 1, || None);
        }
        let Some(place) = self.kinds.get_mut(class.index()) else { return };
        let kind = place.take().unwrap_or_else(|| WorkEvent::of(event));
        self.apply(world, event, (who, selected), &kind);
        if let Some(place) = self.kinds.get_mut(class.index()) {
            *place = Some(kind);
        }
    }

    fn interrupt(
        &mut self,
        world: &World,
        cpu: u32,
        thread: Option<ThreadId>,
        which: Interrupt,
        from: i64,
        to: i64,
    ) {
        let Interrupt::Softirq(number) = which else { return };
        if !world.told.selected || !self.range.contains(to) {
            return;
        }
        let (machine, nanos) = (world.told.machine, to.abs_diff(from));
        let function = u32::from(number);
        self.longest.add(nanos, from, thread, (machine, WorkKind::Softirq, function, thread, cpu));
        let row = self.row((machine, WorkKind::Softirq, function, None, thread));
        row.times.add(nanos);
        row.cpus.insert(cpu);
    }

    fn softirq_begins(&mut self, world: &World, _cpu: u32, number: u8, delay: u64) {
        if world.told.selected && self.range.contains(world.now) {
            self.delays.entry((world.told.machine, number)).or_default().add(delay);
        }
    }
}
