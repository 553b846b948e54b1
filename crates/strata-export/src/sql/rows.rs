//! Makes rows of the results of a timeline.

use std::collections::{BTreeMap, BTreeSet};

use strata_ctf::read::{Event, Scope, TimeRange};
use strata_timeline::{
    Call, CounterNumber, CounterPlace, CounterValue, DiskRequest, Interrupt, Interval, Observer,
    Run, Span, State, ThreadId, UnpairedCall, UnpairedSpan, Waker, World,
};

use super::batch::{Batch, SqlCell};
use super::locks;
use super::schema::InsertStatement;
use super::stacks::StackRows;
use super::text::{self, address, named};
use strata_analyze::debug_info::{functions_json, KernelFunctions};
use strata_analyze::derived_facts::FactCollector;
use strata_analyze::reports::files::{kind_name, object_of};
use strata_analyze::reports::irq::{kind, name_of, number_of};
use strata_analyze::reports::lock_waits::LockWaitFinder;
use strata_analyze::reports::spans::key_text;
use strata_analyze::reports::threads::{ended_by, sleep_of};
use strata_analyze::short::errors;

/// The most bytes of a record's fields as JSON.
pub(super) const FIELDS_BYTES: usize = 16 << 20;

/// The most disks, and the most interrupt lines, that are kept.
const DEVICES_MAX: usize = 1 << 16;

/// Makes the rows of a database, as an observer of a timeline.
#[derive(Debug)]
pub(super) struct Rows {
    pub range: TimeRange,
    /// True if event records get rows as well.
    pub events: bool,
    /// The limit for the text of a record's fields, in place of [`FIELDS_BYTES`].
    pub fields_bytes: usize,
    pub batch: Batch,
    /// The number of records whose fields were too long.
    pub cut: u64,
    states: i64,
    requests: i64,
    last_request: Option<DiskRequest>,
    /// The last wait of each thread: the number of its row, and its begin.
    waits: Vec<Option<(i64, i64)>>,
    /// The time of each thread's exit.
    exits: Vec<Option<i64>>,
    /// The machine of each stream.
    machines: Vec<u8>,
    /// The disks to which there were requests.
    disks: BTreeSet<(u8, u32)>,
    /// The interrupt lines that had interrupts, each with its first name.
    lines: BTreeMap<(u8, i32), String>,
    locks: LockWaitFinder,
    /// Makes rows of call stacks; `None` if no record has one.
    stacks: Option<StackRows>,
    /// The kernel's functions, if records have addresses of them.
    functions: Option<KernelFunctions>,
    /// Collects who made each record.
    pub facts: Option<FactCollector>,
}

/// Returns the cell for a thread.
fn cell(thread: ThreadId) -> SqlCell {
    SqlCell::from(thread.index() as u64)
}

fn put<T: Copy>(of: &mut Vec<Option<T>>, thread: ThreadId, value: T) {
    if of.len() <= thread.index() {
        of.resize(thread.index() + 1, None);
    }
    if let Some(slot) = of.get_mut(thread.index()) {
        *slot = Some(value);
    }
}

impl Rows {
    /// Makes rows for streams of these machines.
    pub(super) fn new(
        range: TimeRange,
        events: bool,
        machines: Vec<u8>,
        stacks: Option<StackRows>,
        functions: Option<KernelFunctions>,
    ) -> Rows {
        Rows {
            range,
            events,
            fields_bytes: FIELDS_BYTES,
            batch: Batch::default(),
            cut: 0,
            states: 0,
            requests: 0,
            last_request: None,
            waits: Vec::new(),
            exits: Vec::new(),
            machines,
            disks: BTreeSet::new(),
            lines: BTreeMap::new(),
            locks: LockWaitFinder::new(range),
            stacks,
            functions,
            facts: None,
        }
    }

    /// Returns the number of records whose call stacks were refused because there were too many.
    pub(super) fn stacks_left_out(&self) -> u64 {
        self.stacks.as_ref().map_or(0, |stacks| stacks.left_out)
    }

    /// Adds the waits for locks whose calls have not returned. The rows of all threads must have been added.
    pub(super) fn locks(&mut self, world: &World) {
        for wait in self.locks.finish() {
            locks::row(&mut self.batch, world, &wait);
        }
        // Whose thread it is, may have been said later.
        self.batch.row(InsertStatement::NameLockProcesses, &[]);
        self.batch.row(InsertStatement::IndexLocks, &[]);
        self.batch.row(InsertStatement::LeaveOutFutexes, &[]);
    }

    /// Adds the names of disks and interrupts at the end: a state dump may have named them after they were used.
    pub(super) fn devices(&mut self, world: &World) {
        let mut has_new = false;
        for &(machine, device) in &self.disks {
            let number = self.batch.text(World::disk_number(device).as_bytes());
            let name = self.batch.text(world.disk_name(machine, device).as_bytes());
            let cells = [u32::from(machine).into(), "disk".into(), number, name];
            self.batch.row(InsertStatement::Device, &cells);
        }
        for (&(machine, line), first) in &self.lines {
            let name = world.interrupt_name(machine, line);
            if name.is_empty() {
                continue;
            }
            has_new |= name != *first;
            let number = self.batch.text(line.to_string().as_bytes());
            let cells =
                [u32::from(machine).into(), "irq".into(), number, self.batch.text(name.as_bytes())];
            self.batch.row(InsertStatement::Device, &cells);
        }
        if !self.disks.is_empty() {
            self.batch.row(InsertStatement::NameRequests, &[]);
        }
        if has_new {
            self.batch.row(InsertStatement::NameInterrupts, &[]);
        }
    }

    /// Returns the part of an interval within the requested time; `None` if there is none.
    fn part(&self, from: i64, to: i64) -> Option<(i64, i64)> {
        let (from, to) = (from.max(self.range.from), to.min(self.range.to));
        (from < to).then_some((from, to))
    }

    /// Adds a row for each thread.
    pub(super) fn threads(&mut self, world: &World) {
        let idle = SqlCell::Word("idle");
        let (none, no) = (SqlCell::Null, SqlCell::Integer(0));
        self.batch.row(
            InsertStatement::Thread,
            &[no, no, no, no, idle, idle, no, none, SqlCell::Integer(1), none, none],
        );
        for (id, thread) in world.threads.iter() {
            let main = thread.main.and_then(|main| world.threads.get(main));
            let name = self.batch.text(world.names.bytes(thread.name));
            let process_name = self.batch.text(world.process_name(id).as_bytes());
            let cells = [
                cell(id),
                u32::from(thread.machine).into(),
                thread.tid.into(),
                main.map(|main| main.tid).into(),
                name,
                process_name,
                cell(world.process_of(id)),
                thread.parent.map(cell).into(),
                world.is_of_kernel(thread).into(),
                thread.born.into(),
                self.exits.get(id.index()).copied().flatten().into(),
            ];
            self.batch.row(InsertStatement::Thread, &cells);
        }
    }

    /// Returns the number of the row of a thread's last wait, if it began at the begin of this interval.
    fn wait(&self, thread: ThreadId, interval: &Interval) -> Option<i64> {
        let wait = self.waits.get(thread.index()).copied().flatten();
        wait.filter(|(_, from)| *from == interval.from).map(|(row, _)| row)
    }
}

impl Observer for Rows {
    const FILES: bool = true;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        if let Some(facts) = &mut self.facts {
            facts.record(world, event, who);
        }
        let is_asked_for = selected && event.time().is_none_or(|time| self.range.contains(time));
        if let Some(stacks) = &mut self.stacks {
            stacks.record(&mut self.batch, world, event, who, is_asked_for);
        }
        if !self.events || !is_asked_for {
            return;
        }
        let name = self.batch.text(event.class().name().as_bytes());
        let mut part = |scopes: &[Scope]| {
            let written = text::fields(&mut self.batch, event, scopes, self.fields_bytes);
            written.unwrap_or_else(|_| {
                self.cut += 1;
                None
            })
        };
        let fields = part(&[Scope::Payload]);
        let context = part(&[Scope::CommonContext, Scope::SpecificContext]);
        let named = self.functions.as_mut().map(|functions| functions.named(event));
        let functions = named.filter(|named| !named.is_empty()).and_then(|named| {
            let write = |out: &mut Vec<u8>| functions_json(&named, out);
            self.batch.written(FIELDS_BYTES, write).ok().flatten()
        });
        let cells = [
            event.time().into(),
            SqlCell::from(event.stream().trace().index() as u64),
            event.packet().cpu.into(),
            who.map(cell).into(),
            name,
            fields.into(),
            context.into(),
            functions.into(),
        ];
        self.batch.row(InsertStatement::Event, &cells);
    }

    fn call(&mut self, world: &World, call: &Call) {
        if let strata_timeline::Object::Address(address) = call.object {
            if let (Some(wait), _) = self.locks.call(call, address) {
                locks::row(&mut self.batch, world, &wait);
            }
        }
        if !call.selected || !self.range.contains(call.end) {
            return;
        }
        let name = self.batch.text(world.calls.name(call.call).as_bytes());
        let error = match call.error() {
            Some(number) => {
                let result = -i64::from(number);
                let name = errors::name(result).or_else(|| errors::restarted(result));
                name.map_or_else(|| self.batch.text(number.to_string().as_bytes()), SqlCell::Word)
            }
            None => SqlCell::Null,
        };
        let object = match object_of(world, call) {
            strata_timeline::Object::None => call.object,
            object => object,
        };
        let (object_kind, object) = text::object(&mut self.batch, world, object);
        let (_, target) = text::object(&mut self.batch, world, call.target);
        let cells = [
            cell(call.thread),
            name,
            call.begin.into(),
            call.end.into(),
            call.result.into(),
            error,
            object_kind,
            object,
            target,
        ];
        self.batch.row(InsertStatement::Syscall, &cells);
    }

    fn unpaired(&mut self, world: &World, call: &UnpairedCall) {
        if !call.selected || !self.range.contains(world.now) {
            return;
        }
        let name = self.batch.text(world.calls.name(call.call).as_bytes());
        let why = text::why_unpaired(call.why).into();
        let cells = ["syscall".into(), cell(call.thread), name, call.time.into(), why];
        self.batch.row(InsertStatement::Unpaired, &cells);
    }

    fn exits(&mut self, world: &World, thread: ThreadId) {
        put(&mut self.exits, thread, world.now);
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        if let Some(wait) = self.locks.state(world, thread, interval) {
            locks::row(&mut self.batch, world, &wait);
        }
        let stack = self.stacks.as_mut().and_then(|stacks| stacks.of_wait(thread, interval));
        let Some((from, to)) = self.part(interval.from, interval.to) else { return };
        let (mut cpu, mut woken) = (interval.cpu, None);
        let (mut sleep, mut call) = (SqlCell::Null, SqlCell::Null);
        let mut object = (SqlCell::Null, SqlCell::Null);
        let state = match interval.state {
            State::Unknown => "unknown",
            State::Running { cpu: on } => {
                cpu = Some(on);
                "running"
            }
            State::Runnable { woken: is_woken } => {
                woken = Some(is_woken);
                "runnable"
            }
            State::Blocked(reason) => {
                sleep = sleep_of(reason).into();
                if let Some(of) = reason.call {
                    call = self.batch.text(world.calls.name(of).as_bytes());
                }
                let of = world.object(thread, reason.object);
                object = text::object(&mut self.batch, world, of);
                put(&mut self.waits, thread, (self.states + 1, interval.from));
                "blocked"
            }
            State::Gone => return,
        };
        let (waker, is_sure) = match interval.waker {
            Waker::Thread { thread, is_sure } => (Some(thread), Some(is_sure)),
            _ => (None, None),
        };
        let device = match interval.waker {
            Waker::Device(number) => Some(number),
            _ => None,
        };
        self.states += 1;
        let cells = [
            self.states.into(),
            cell(thread),
            from.into(),
            to.into(),
            state.into(),
            cpu.into(),
            woken.into(),
            sleep,
            call,
            object.0,
            object.1,
            ended_by(interval.waker).into(),
            waker.map(cell).into(),
            is_sure.into(),
            device.into(),
            SqlCell::Null,
            stack.into(),
        ];
        self.batch.row(InsertStatement::State, &cells);
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        if let Some(row) = self.wait(thread, interval) {
            self.batch.row(InsertStatement::TimedOut, &[row.into()]);
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
        if !world.told.selected || !self.range.contains(to) {
            return;
        }
        let machine = world.told.machine;
        let (is_softirq, number) = number_of(which);
        let name = name_of(world, machine, is_softirq, number);
        let is_new = !is_softirq && !self.lines.contains_key(&(machine, number));
        if is_new && self.lines.len() < DEVICES_MAX {
            self.lines.insert((machine, number), name.clone());
        }
        let name = self.batch.some_text(name.as_bytes());
        let cells = [
            u32::from(machine).into(),
            cpu.into(),
            thread.map(cell).into(),
            kind(is_softirq).into(),
            number.into(),
            name,
            from.into(),
            to.into(),
        ];
        self.batch.row(InsertStatement::Interrupt, &cells);
    }

    fn ran(&mut self, world: &World, run: &Run) {
        // One that took no time was one all the same.
        let is_switch = run.is_switch && self.range.contains(run.to);
        let part = self.part(run.from, run.to).or(is_switch.then_some((run.to, run.to)));
        let Some((from, to)) = part else { return };
        let cells = [
            u32::from(world.told.machine).into(),
            run.cpu.into(),
            run.thread.map(cell).into(),
            from.into(),
            to.into(),
            is_switch.into(),
        ];
        self.batch.row(InsertStatement::CpuRun, &cells);
    }

    fn request(&mut self, world: &World, request: &DiskRequest) {
        if !request.selected || !self.range.contains(request.end) {
            return;
        }
        self.requests += 1;
        self.last_request = Some(*request);
        let machine = world.told.machine;
        // By its number, until all names are known.
        let device = match self.disks.len() < DEVICES_MAX {
            true => {
                self.disks.insert((machine, request.device));
                World::disk_number(request.device)
            }
            false => world.disk_name(machine, request.device),
        };
        let device = self.batch.text(device.as_bytes());
        let cells = [
            self.requests.into(),
            u32::from(machine).into(),
            device,
            kind_name(request.kind).into(),
            request.sector.into(),
            request.bytes.into(),
            request.thread.map(cell).into(),
            request.queued.into(),
            request.begin.into(),
            request.end.into(),
            request.is_error.into(),
        ];
        self.batch.row(InsertStatement::Request, &cells);
    }

    fn waited_for(&mut self, _: &World, thread: ThreadId, interval: &Interval, of: &DiskRequest) {
        let row = self.wait(thread, interval).filter(|_| self.last_request == Some(*of));
        if let Some(row) = row {
            self.batch.row(InsertStatement::WaitedFor, &[self.requests.into(), row.into()]);
        }
    }

    fn span(&mut self, world: &World, span: &Span) {
        if let Some((wait, _)) = self.locks.span(world, span) {
            locks::row(&mut self.batch, world, &wait);
        }
        if !span.selected || !self.range.contains(span.end) {
            return;
        }
        let name = self.batch.text(world.names.bytes(span.name));
        let event = self.batch.text(world.names.bytes(span.event));
        let key = span.key.as_ref().map(|key| self.batch.text(key_text(key).as_bytes()));
        let cells = [
            name,
            event,
            span.begun_by.map(cell).into(),
            span.thread.map(cell).into(),
            span.begin.into(),
            span.end.into(),
            key.into(),
            span.address.map(|at| address(&mut self.batch, at)).into(),
            span.owner.map(cell).into(),
            span.result.into(),
            text::paired_by(span.paired).into(),
            span.disagrees.into(),
        ];
        self.batch.row(InsertStatement::Span, &cells);
    }

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        if !span.selected || !self.range.contains(span.time) {
            return;
        }
        let name = match named(&mut self.batch, world, span.name) {
            SqlCell::Null => self.batch.text(b""),
            name => name,
        };
        let why = text::why_alone(span.why).into();
        let thread = span.thread.map(cell).into();
        self.batch
            .row(InsertStatement::Unpaired, &["span".into(), thread, name, span.time.into(), why]);
    }

    fn counter_over(&mut self, world: &World, value: &CounterValue, to: i64) {
        // One that took no time was one all the same.
        let is_said = self.range.contains(value.from);
        let part = self.part(value.from, to).or(is_said.then_some((value.from, value.from)));
        let Some((from, to)) = part.filter(|_| value.selected) else { return };
        let (machine, process, cpu) = match value.place {
            CounterPlace::Process(process) => {
                let machine = world.threads.get(process).map_or(0, |thread| thread.machine);
                (machine, Some(process), None)
            }
            CounterPlace::Cpu { machine, cpu } => (machine, None, Some(cpu)),
            CounterPlace::Stream(stream) => {
                let stream = usize::try_from(stream).unwrap_or(usize::MAX);
                (self.machines.get(stream).copied().unwrap_or(0), None, None)
            }
        };
        let number = match value.number {
            CounterNumber::Signed(number) => number.into(),
            CounterNumber::Unsigned(number) => {
                i64::try_from(number).map_or(SqlCell::Real(number as f64), SqlCell::Integer)
            }
            // The database has none: NULL.
            CounterNumber::Real(number) if number.is_nan() => SqlCell::Null,
            CounterNumber::Real(number) => SqlCell::Real(number),
        };
        let cells = [
            self.batch.text(world.names.bytes(value.name)),
            u32::from(machine).into(),
            process.map(cell).into(),
            cpu.into(),
            from.into(),
            to.into(),
            number,
        ];
        self.batch.row(InsertStatement::Counter, &cells);
    }
}
