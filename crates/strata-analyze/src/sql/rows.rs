//! What a timeline tells, as rows.

use strata_ctf::read::{Event, Scope, TimeRange};
use strata_timeline::{
    AloneSpan, Call, CounterNumber, CounterPlace, CounterValue, DiskRequest, Interrupt, Interval,
    Observer, Run, Span, State, ThreadId, UnpairedCall, Waker, World,
};

use super::batch::{Batch, SqlCell};
use super::schema::InsertStatement;
use super::text::{self, address, named};
use crate::reports::files::{kind_name, object_of};
use crate::reports::irq::{kind, name_of, number_of};
use crate::reports::spans::key_text;
use crate::reports::threads::{ended_by, sleep_of};
use crate::short::errors;

/// A record's fields, as JSON, are no longer \[byte\].
pub(super) const FIELDS_BYTES: usize = 16 << 20;

/// Makes rows.
#[derive(Debug)]
pub(super) struct Rows {
    pub range: TimeRange,
    /// Whether records are rows, too.
    pub events: bool,
    /// Instead of [`FIELDS_BYTES`].
    pub fields_bytes: usize,
    pub batch: Batch,
    /// Records of which the fields are too long.
    pub cut: u64,
    states: i64,
    requests: i64,
    last_request: Option<DiskRequest>,
    /// By thread: the row of the last wait, and since when it was.
    waits: Vec<Option<(i64, i64)>>,
    /// By thread.
    exits: Vec<Option<i64>>,
    /// By stream.
    machines: Vec<u8>,
}

/// A thread as a column has it.
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
    /// Of streams that are of these machines.
    pub(super) fn new(range: TimeRange, events: bool, machines: Vec<u8>) -> Rows {
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
        }
    }

    /// What there is of this time; `None`: nothing.
    fn part(&self, from: i64, to: i64) -> Option<(i64, i64)> {
        let (from, to) = (from.max(self.range.from), to.min(self.range.to));
        (from < to).then_some((from, to))
    }

    /// All threads.
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

    /// The row of the wait that was told last of a thread.
    fn wait(&self, thread: ThreadId, interval: &Interval) -> Option<i64> {
        let wait = self.waits.get(thread.index()).copied().flatten();
        wait.filter(|(_, from)| *from == interval.from).map(|(row, _)| row)
    }
}

impl Observer for Rows {
    const FILES: bool = true;
    const RECORDS: bool = true;

    fn record(&mut self, _: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        let is_asked_for = event.time().is_none_or(|time| self.range.contains(time));
        if !self.events || !selected || !is_asked_for {
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
        let cells = [
            event.time().into(),
            SqlCell::from(event.stream().trace().index() as u64),
            event.packet().cpu.into(),
            who.map(cell).into(),
            name,
            fields.into(),
            context.into(),
        ];
        self.batch.row(InsertStatement::Event, &cells);
    }

    fn call(&mut self, world: &World, call: &Call) {
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
        let device = self.batch.text(world.disk_name(machine, request.device).as_bytes());
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

    fn alone(&mut self, world: &World, span: &AloneSpan) {
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
