//! Rows of call stacks: each stack once, and the records that have it.

use std::collections::HashMap;

use strata_ctf::read::{Event, FieldRef, Reader, Scope, Value};
use strata_timeline::{Interval, State, ThreadId, World};

use super::batch::{Batch, SqlCell};
use super::schema::InsertStatement;
use strata_analyze::debug_info::{Source, SourceOptions};
use strata_analyze::reports::flame::has_stacks;
use strata_analyze::reports::frames::{FrameId, Frames, StackClasses};
use strata_analyze::reports::wait_starts::{waits_since, Left};

/// The most stacks that are kept. Records with further ones have none.
const STACKS_MAX: usize = 1 << 18;
/// The most bytes of the text of all frames.
const BYTES_MAX: usize = 128 << 20;

/// The fields of a sample, by the index of its class.
#[derive(Clone, Debug, Default)]
struct SampleFields {
    ip: Option<FieldRef>,
    period: Option<FieldRef>,
    unasked: Option<FieldRef>,
}

/// The call stacks that have rows.
#[derive(Debug)]
pub(super) struct StackRows {
    frames: Frames,
    classes: StackClasses,
    fields: HashMap<usize, SampleFields>,
    numbers: HashMap<Box<[FrameId]>, i64>,
    bytes: usize,
    /// The number of the stack with which each thread left its CPU to wait.
    left: Left<Option<i64>>,
    /// The number of records whose stacks were beyond the limit.
    pub left_out: u64,
}

fn number(event: &Event<'_>, field: Option<&FieldRef>) -> SqlCell {
    match field.and_then(|field| event.value(field)) {
        Some(Value::Signed(value)) => value.into(),
        Some(Value::Unsigned(value)) => value.into(),
        _ => SqlCell::Null,
    }
}

impl StackRows {
    /// Makes rows of call stacks; `None` if no record of the traces has a call stack, so that none are needed.
    pub(super) fn new(reader: &Reader, names: &SourceOptions) -> Option<StackRows> {
        has_stacks(reader).then(|| StackRows {
            frames: Frames::new(Source::new(reader, names)),
            classes: StackClasses::default(),
            fields: HashMap::new(),
            numbers: HashMap::new(),
            bytes: 0,
            left: Left::default(),
            left_out: 0,
        })
    }

    /// Takes any record, for what it says about objects, and adds rows if it has a call stack. `is_asked_for` says that
    /// the record is within the requested time and selected by the filter.
    pub(super) fn record(
        &mut self,
        batch: &mut Batch,
        world: &World,
        event: &Event<'_>,
        who: Option<ThreadId>,
        is_asked_for: bool,
    ) {
        self.frames.learn(event);
        let Some(class) = self.classes.of(event).filter(|class| class.scopes.is_any()) else {
            return;
        };
        if class.is_description {
            return;
        }
        let (scopes, is_switch, is_sample) = (class.scopes, class.is_switch, class.is_sample);
        let since = who.filter(|_| is_switch).and_then(|who| waits_since(world, event, who));
        if !is_asked_for && since.is_none() {
            return;
        }
        let pid = who.and_then(|who| self.frames.process(world, event, who));
        let (frames, _) = self.frames.stack(event, scopes, pid);
        let stack = self.number(batch, frames);
        if let Some((who, since)) = who.zip(since) {
            self.left.put(who, stack, since);
        }
        if !is_asked_for {
            return;
        }
        self.left_out += u64::from(stack.is_none());
        let fields = match is_sample {
            true => self.fields.entry(event.class().index()).or_insert_with(|| {
                let find = |name| event.class().find_in(Scope::Payload, name);
                SampleFields { ip: find("ip"), period: find("period"), unasked: find("unasked") }
            }),
            false => &mut SampleFields::default(),
        };
        let address = match fields.ip.as_ref().and_then(|field| event.value(field)) {
            Some(Value::Unsigned(at)) => super::text::address(batch, at),
            Some(Value::Signed(at)) => super::text::address(batch, at as u64),
            _ => SqlCell::Null,
        };
        let cells = [
            event.time().into(),
            SqlCell::from(event.stream().trace().index() as u64),
            event.packet().cpu.into(),
            who.map(|who| who.index() as u64).into(),
            batch.text(event.class().name().as_bytes()),
            is_sample.into(),
            stack.into(),
            address,
            number(event, fields.period.as_ref()),
            number(event, fields.unasked.as_ref()),
        ];
        batch.row(InsertStatement::StackRecord, &cells);
    }

    /// Returns the number of the stack with which a wait began.
    pub(super) fn of_wait(&mut self, thread: ThreadId, interval: &Interval) -> Option<i64> {
        match interval.state {
            State::Blocked(_) => self.left.take(thread, interval.from).flatten(),
            _ => None,
        }
    }

    /// Returns the number of a stack, whose frames are given the outermost first. A new stack gets rows.
    fn number(&mut self, batch: &mut Batch, frames: Box<[FrameId]>) -> Option<i64> {
        if let Some(&number) = self.numbers.get(&frames) {
            return Some(number);
        }
        let size: usize = frames.iter().map(|&frame| self.frames.name(frame).len() + 1).sum();
        if self.numbers.len() >= STACKS_MAX || self.bytes + size > BYTES_MAX {
            return None;
        }
        self.bytes += size;
        let number = i64::try_from(self.numbers.len()).ok()?;
        // A name has no semicolon, so that the text can be taken apart.
        let names = frames.iter().map(|&frame| self.frames.name(frame).replace(';', ":"));
        let names: Vec<String> = names.collect();
        let function = names.last().map_or("", String::as_str);
        let cells = [
            number.into(),
            SqlCell::from(names.len() as u64),
            batch.text(function.as_bytes()),
            batch.text(names.join(";").as_bytes()),
        ];
        batch.row(InsertStatement::Stack, &cells);
        for (depth, name) in names.iter().rev().enumerate() {
            let cells = [number.into(), SqlCell::from(depth as u64), batch.text(name.as_bytes())];
            batch.row(InsertStatement::Frame, &cells);
        }
        self.numbers.insert(frames, number);
        Some(number)
    }
}
