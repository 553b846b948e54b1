//! Makes lines of one worker's event records. Successive lines are collected until a unit ends.
//!
//! ```text
//! event() ─┬─ entry()  a row with the call's head and arguments, open in KnownThread
//!          ├─ exit()   ends the row of the thread's open call: " = 36 <4.125us>"
//!          ├─ late()   puts a deferred argument into the open row; places after it move
//!          └─ other()  a row of its own                         finish(): rows ─▶ text and Unit
//! ```
//!
//! A worker passes its records here in order. Each becomes a row: a complete line, or the line of a system call
//! whose end is filled in when its exit comes. What a worker cannot know (the begin of a call in an earlier unit,
//! a thread's name) becomes a mark in its [`Unit`], which `join.rs` completes in order.
//!
//! - A call's line is held until its exit, another call of the same thread, or the end of the unit. Then it is
//!   `Done`, `Abandoned` (its end is missing in the trace), or still `Open`, and the unit hands it to the joiner.
//! - A record that the filter did not select may still be needed: the other end of a selected call is shown with
//!   it, and names of threads and changes of descriptors are learnt from all records.
//! - Only a bounded number of threads is known. Beyond it, all are forgotten, and calls lose their ends.
//! - All of a unit's rows refer to one text by ranges, so that a row costs no allocation. What few calls have is
//!   boxed ([`Extra`]).
//!
//! [`Short`] belongs to one thread, and nothing in it is shared: workers differ only in the slices that they get.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use strata_ctf::read::{DeferredArgument, DeferredValue, Event, EventClass, FieldRef};
use strata_model::{Base, ByteOrder};
use strata_timeline::{StepPlan, Steps};

use super::call_classes::{
    is_execve, is_of_any, returns, text, CallNumber, KnownCalls, RecordRole, ShortClass, ShortPart,
};
use super::call_result;
use super::completion_key::ThreadOrCpu;
use super::deferred_arguments::{self, Deferrable};
use super::line_row::{CallState, Extra, ShortRow, ShortRowKind};
use super::text_unit::{Close, Hole, MarkAction, UnfinishedCall, Unit, UnitLine, UnitMark};
use super::thread_column::{self, Comm};
use super::values::ShortValues;
use crate::fast_hash::Mix;
use crate::render::clock::ClockText;
use crate::render::escape::tame_line;
use crate::render::field_selection::{scope, Masked, ShownPart};
use crate::render::line::{Lines, TextSink};
use crate::render::plan::LazyTable;
use crate::render::uncertain_order::TimeOrder;
use crate::render::{ClockStyle, FieldList, Format, Options, Stamp};

/// The most event records of a unit.
const EVENTS: u64 = 1 << 14;
/// The most threads whose names and calls are kept. Beyond it, all are forgotten.
const THREADS_MAX: usize = 1 << 17;

/// The name and the open call of a thread, if they are known.
#[derive(Clone, Copy, Debug, Default)]
struct KnownThread {
    name: Option<Comm>,
    /// The row of the system call that the thread is in.
    open: Option<u32>,
    /// The number of the last unit in which the thread began a call.
    begun: u64,
}

/// The selection of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedRecord {
    /// The record was selected.
    Yes,
    /// The record was not selected. If the other end of its call was, the whole call is shown.
    WithItsCall,
    /// The record is not shown in any case.
    No,
}

/// Makes lines of event records in the short format.
#[derive(Debug)]
pub struct Short {
    clock: ClockText,
    order: Option<TimeOrder>,
    fields: Option<FieldList>,
    colours: bool,
    /// True to show state dumps as well.
    all: bool,
    /// True if call stacks are shown with names instead of addresses.
    names_stacks: bool,
    /// The call stacks of the present record.
    stacks: Option<Vec<u8>>,
    classes: LazyTable<ShortClass>,
    calls: KnownCalls,
    steps: Steps,
    threads: HashMap<ThreadOrCpu, KnownThread, Mix>,
    /// The running thread of each CPU, since the slice began.
    running: HashMap<ThreadOrCpu, i64, Mix>,
    /// True for traces with a gap since the slice began: their running threads are unknown.
    gaps: Vec<bool>,
    text: Lines,
    rows: Vec<ShortRow>,
    /// The rows of calls that had not ended when the rows were added. Some may have ended since.
    open: Vec<u32>,
    unit: Unit,
    number: u64,
    /// True after the last wanted record: only ends of open calls are still read.
    closing: bool,
    /// The calls that are open now, over all units, each with true if it is shown. It is kept only if the number of
    /// lines is limited.
    unended: Option<HashMap<ThreadOrCpu, bool, Mix>>,
}

impl Short {
    /// Makes a writer for the records of one reader. With `is_limited`, the caller will end the lines by
    /// [`Short::close`].
    pub fn new(options: &Options, is_limited: bool) -> Short {
        let style = options.clock.unwrap_or(ClockStyle::Time);
        let around: (&[u8], &[u8]) = match options.colours {
            true => (b"\x1b[1;33m", b"\x1b[0m "),
            false => (b"", b" "),
        };
        Short {
            clock: ClockText::around(style, options.zone.clone(), around),
            order: options.clocks.as_ref().map(TimeOrder::new),
            fields: options.fields.clone(),
            colours: options.colours,
            all: options.all,
            names_stacks: options.source.is_some(),
            stacks: None,
            classes: LazyTable::default(),
            calls: KnownCalls::default(),
            steps: Steps::default(),
            threads: HashMap::default(),
            running: HashMap::default(),
            gaps: Vec::new(),
            text: Lines::default(),
            rows: Vec::new(),
            open: Vec::new(),
            unit: Unit::default(),
            number: 1,
            closing: false,
            unended: is_limited.then(HashMap::default),
        }
    }

    /// Begins a slice, for which earlier records are not known.
    pub fn begin_slice(&mut self) {
        self.threads.clear();
        self.running.clear();
        self.gaps.clear();
    }

    /// Returns true if there are enough records for a unit, or `bytes` bytes of text.
    pub fn is_full(&self, bytes: usize) -> bool {
        self.text.len() >= bytes || self.unit.events >= EVENTS
    }

    /// Sets the call stacks, with names, of the next record.
    pub fn set_stacks(&mut self, stacks: Option<Vec<u8>>) {
        self.stacks = stacks;
    }

    /// Returns the number of records of uncertain order since the last call.
    pub fn take_unsure(&mut self) -> u64 {
        self.order.as_mut().map_or(0, TimeOrder::take_unsure)
    }

    /// Ends the lines: from now on, only ends of open calls are added.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Returns true if a call is open.
    pub fn has_open(&self) -> bool {
        self.unended.as_ref().is_some_and(|open| !open.is_empty())
    }

    /// Notes that the thread's call has ended. Returns whether the call was shown, if there was one.
    fn ended(&mut self, key: ThreadOrCpu) -> Option<bool> {
        self.unended.as_mut()?.remove(&key)
    }

    /// Adds a record. Returns by how many lines the output grows. `may_accept` says whether the filter may select
    /// records of a class.
    pub fn event(
        &mut self,
        event: &Event<'_>,
        wanted: WantedRecord,
        may_accept: &mut dyn FnMut(&EventClass) -> bool,
    ) -> u64 {
        let at = self.unit.events;
        self.unit.events += 1;
        let index = event.class().index();
        let mut classes = std::mem::take(&mut self.classes);
        let class = classes.get(index, || {
            let (calls, steps) = (&mut self.calls, &mut self.steps);
            let class =
                ShortClass::new(event, self.fields.as_ref(), self.names_stacks, calls, steps);
            let end = match &class.role {
                RecordRole::Entry { id, .. } => Some((*id, false)),
                RecordRole::Exit { id, .. } => Some((*id, true)),
                RecordRole::Numbered(end) => Some((end.among, !end.begins)),
                _ => None,
            };
            if let Some((id, is_exit)) = end.filter(|_| !may_accept(event.class())) {
                self.calls.rule_out(id, is_exit);
            }
            class
        });
        let shown = self.record(event, at, wanted, class);
        if let Some(plan) = &class.step {
            // Behind its line, which says how things were before.
            self.step(event, at, class, plan);
        }
        self.classes = classes;
        shown
    }

    fn record(
        &mut self,
        event: &Event<'_>,
        at: u64,
        wanted: WantedRecord,
        class: &ShortClass,
    ) -> u64 {
        let is_selected = wanted == WantedRecord::Yes;
        for told in &class.told {
            let (Some(tid), Some(name)) = (event.integer(&told.tid), text(event, &told.name))
            else {
                continue;
            };
            let comm = if told.is_program { Comm::of_program(name) } else { Comm::new(name) };
            if let Some(comm) = comm {
                let key = ThreadOrCpu::thread(class.trace, tid);
                self.learn(key, comm);
                if told.is_program {
                    let open = self.threads.get(&key).and_then(|thread| thread.open);
                    self.executes(open, comm);
                }
            }
        }
        let key = self.key(event, class);
        match &class.role {
            RecordRole::Entry { id, returns, program } => {
                let (program, rest) = (program.as_ref(), &class.payload);
                let deferrable = class.deferrable.as_ref();
                let call = EnteredCall { id: *id, returns: *returns, program, rest, deferrable };
                self.entry(event, at, key, wanted, class, &call)
            }
            RecordRole::Exit { id, ret, is_execve } => {
                let (ret, rest) = (ret.as_ref(), &class.payload);
                let returned = Return { id: *id, ret, is_execve: *is_execve, wanted, rest };
                self.exit(event, at, key, class, &returned)
            }
            RecordRole::Numbered(end) => {
                let number = event.integer(&end.number);
                let id = number.and_then(|number| self.calls.numbered(class.trace, end, number));
                let Some(id) = id else { return self.other(event, at, key, is_selected, class) };
                let (name, rest) = (self.calls.name(id), &end.rest);
                if end.begins {
                    let returns = returns(name);
                    let call = EnteredCall { id, returns, program: None, rest, deferrable: None };
                    return self.entry(event, at, key, wanted, class, &call);
                }
                let (ret, is_execve) = (end.ret.as_ref(), is_execve(name));
                self.exit(event, at, key, class, &Return { id, ret, is_execve, wanted, rest })
            }
            RecordRole::Late(deferred) => {
                let read = deferred.argument(event).map(|argument| (argument, deferred.order()));
                self.late(event, at, key, is_selected, class, read)
            }
            RecordRole::State if !self.all => {
                self.unit.hidden += u64::from(is_selected);
                0
            }
            RecordRole::Switch { prev, next } => {
                if class.tid.is_none() {
                    self.switch(event, at, class, (prev, next));
                }
                self.other(event, at, key, is_selected, class)
            }
            RecordRole::State | RecordRole::Other => self.other(event, at, key, is_selected, class),
        }
    }

    /// Adds the record's change of descriptors to the unit.
    #[cold]
    fn step(&mut self, event: &Event<'_>, at: u64, class: &ShortClass, plan: &StepPlan) {
        if let Some(step) = self.steps.step(plan, event) {
            // Of nobody's thread if it is not known: the CPU's is none then.
            let key = self.key(event, class);
            let key = key.unwrap_or_else(|| ThreadOrCpu::cpu(class.trace, u64::MAX));
            self.mark(at, MarkAction::Step(key, Box::new(step)));
        }
    }

    /// Returns the key of a record.
    fn key(&self, event: &Event<'_>, class: &ShortClass) -> Option<ThreadOrCpu> {
        let tid = class.tid.as_ref().and_then(|tid| event.integer(tid));
        let tid = tid.or_else(|| class.process.as_ref().and_then(|(_, vpid)| *vpid));
        if let Some(tid) = tid {
            return Some(ThreadOrCpu::thread(class.trace, tid));
        }
        if let RecordRole::Switch { prev, .. } = &class.role {
            return event.integer(prev).map(|tid| ThreadOrCpu::thread(class.trace, tid));
        }
        let cpu = class.cpu(event)?;
        match self.running.get(&cpu) {
            Some(tid) => Some(ThreadOrCpu::thread(class.trace, *tid)),
            None if self.gaps.get(class.trace).is_some_and(|has_gap| *has_gap) => None,
            None => Some(cpu),
        }
    }

    #[inline]
    fn learn(&mut self, key: ThreadOrCpu, comm: Comm) {
        let thread = self.threads.entry(key).or_default();
        if thread.name != Some(comm) {
            thread.name = Some(comm);
            self.unit.told.push((key, comm));
        }
    }

    /// Notes that the call in this row executes another program.
    fn executes(&mut self, row: Option<u32>, program: Comm) {
        if let Some(row) = row.and_then(|row| self.rows.get_mut(row as usize)) {
            row.program = Some(program);
        }
    }

    /// Changes the running thread of a CPU, if records do not name their threads.
    fn switch(
        &mut self,
        event: &Event<'_>,
        at: u64,
        class: &ShortClass,
        (prev, next): (&FieldRef, &FieldRef),
    ) {
        let Some(cpu) = class.cpu(event) else { return };
        if let Some(prev) = event.integer(prev).map(|tid| ThreadOrCpu::thread(class.trace, tid)) {
            if let Some(known) = self.threads.remove(&cpu) {
                let thread = self.threads.entry(prev).or_default();
                thread.open = thread.open.or(known.open);
                thread.begun = thread.begun.max(known.begun);
                if let Some(row) = known.open.and_then(|row| self.rows.get_mut(row as usize)) {
                    if let ShortRowKind::Call { key, .. } = &mut row.kind {
                        *key = prev;
                    }
                }
            }
            if !self.running.contains_key(&cpu) {
                self.mark(at, MarkAction::Ran { cpu, thread: prev });
            }
        }
        match event.integer(next) {
            Some(next) => self.running.insert(cpu, next),
            None => self.running.remove(&cpu),
        };
    }

    fn mark(&mut self, event: u64, what: MarkAction) {
        self.rows.push(ShortRow {
            text: 0..0,
            hole: None,
            result: 0..0,
            event,
            is_shown: true,
            kind: ShortRowKind::Mark(what),
            extra: None,
            program: None,
        });
    }

    /// Writes the head of a line: time, program and thread. Returns the place for the thread if it is unknown.
    fn head(&mut self, event: &Event<'_>, key: Option<ThreadOrCpu>, class: &ShortClass) -> Hole {
        self.head_of(event, 0, key, class)
    }

    /// Writes the head of a line for something that began `ago` ns before its record.
    fn head_of(
        &mut self,
        event: &Event<'_>,
        ago: u64,
        key: Option<ThreadOrCpu>,
        class: &ShortClass,
    ) -> Hole {
        if self.clock.style() != ClockStyle::None {
            let cycles = event.cycles();
            match event.date() {
                Some(ns) => {
                    let ns = ns.saturating_sub_unsigned(ago);
                    self.clock.write(&mut self.text, Stamp { ns, cycles: cycles.unwrap_or(0) })
                }
                None => {
                    if let Some(cycles) = cycles {
                        self.clock.write_cycles(&mut self.text, cycles);
                    }
                }
            }
        }
        if self.order.as_mut().is_some_and(|order| order.is_unsure(event)) {
            // In the place of the space behind the time.
            self.text.drop_last(usize::from(self.clock.style() != ClockStyle::None));
            self.text.push(b'~');
        }
        let tid = key.and_then(ThreadOrCpu::tid);
        let said = class.procname.as_ref().and_then(|name| text(event, name));
        let process = class.process.as_ref().map(|(name, _)| &name[..]);
        if let Some(name) = said.or(process) {
            thread_column::write(&mut self.text, Some(name), tid, self.colours);
            return None;
        }
        let Some(key) = key else {
            thread_column::write(&mut self.text, None, None, self.colours);
            return None;
        };
        if tid == Some(0) {
            thread_column::write(&mut self.text, Some(b"swapper"), tid, self.colours);
            return None;
        }
        match self.threads.get(&key).and_then(|thread| thread.name) {
            Some(name) => {
                thread_column::write(&mut self.text, Some(name.as_bytes()), tid, self.colours);
                None
            }
            None => Some((self.text.len(), key)),
        }
    }

    fn name(&mut self, class: &ShortClass) {
        name(&mut self.text, &class.name, self.colours);
    }

    fn call_name(&mut self, id: CallNumber) {
        name(&mut self.text, self.calls.name(id), self.colours);
    }

    /// Writes a record's contexts, such as ` {prio=20} {user: main+0x3}`, if there are any to show.
    fn contexts(&mut self, event: &Event<'_>, class: &ShortClass) {
        self.other_contexts(event, class);
        self.stacks(event, class);
    }

    /// Writes the contexts other than call stacks.
    fn other_contexts(&mut self, event: &Event<'_>, class: &ShortClass) {
        for plan in &class.contexts {
            self.text.extend_from_slice(b" {");
            part(event, plan, &mut ShortValues::new(&mut self.text, false));
            self.text.push(b'}');
        }
    }

    /// Writes the call stacks of a record, by names or by their depths, and the functions in its fields.
    fn stacks(&mut self, event: &Event<'_>, class: &ShortClass) {
        for names in [self.stacks.take(), class.stack_depths(event)].into_iter().flatten() {
            self.text.push(b' ');
            self.text.extend_from_slice(&names);
        }
    }

    /// Adds a line for a record that is not an end of a call.
    fn other(
        &mut self,
        event: &Event<'_>,
        at: u64,
        key: Option<ThreadOrCpu>,
        is_selected: bool,
        class: &ShortClass,
    ) -> u64 {
        if !is_selected || self.closing {
            return 0;
        }
        let begin = self.text.len();
        let hole = self.head(event, key, class);
        self.whole(event, class);
        self.push(begin, hole, at, true, ShortRowKind::Line);
        1
    }

    /// Writes a record as `name{fields}`.
    fn whole(&mut self, event: &Event<'_>, class: &ShortClass) {
        self.name(class);
        self.text.push(b'{');
        part(event, &class.payload, &mut ShortValues::new(&mut self.text, false));
        self.text.push(b'}');
        self.contexts(event, class);
    }

    fn push(
        &mut self,
        begin: usize,
        hole: Hole,
        event: u64,
        is_shown: bool,
        kind: ShortRowKind,
    ) -> u32 {
        let end = self.text.len();
        let hole = hole.map(|(place, key)| (place - begin, key));
        let row = self.rows.len() as u32;
        self.rows.push(ShortRow {
            text: begin..end,
            hole,
            result: end..end,
            event,
            is_shown,
            kind,
            extra: None,
            program: None,
        });
        row
    }

    fn entry(
        &mut self,
        event: &Event<'_>,
        at: u64,
        key: Option<ThreadOrCpu>,
        wanted: WantedRecord,
        class: &ShortClass,
        call: &EnteredCall<'_>,
    ) -> u64 {
        let is_selected = wanted == WantedRecord::Yes;
        let may_be = wanted == WantedRecord::WithItsCall && !self.calls.is_ruled_out(call.id, true);
        if let Some(key) = key {
            let number = self.number;
            let thread = self.threads.entry(key).or_default();
            let (before, is_first) = (thread.open.take(), thread.begun != number);
            thread.begun = number;
            self.abandon(before);
            self.ended(key);
            if is_first {
                self.mark(at, MarkAction::Begun(key));
            }
        }
        let is_wanted = is_selected || may_be;
        if !is_wanted || self.closing || (!is_selected && !call.returns) {
            return 0;
        }
        let begin = self.text.len();
        let ago = class.elapsed.as_ref().and_then(|field| event.integer(field));
        let ago = ago.and_then(|found| u64::try_from(found).ok()).unwrap_or(0);
        let hole = self.head_of(event, ago, key, class);
        self.call_name(call.id);
        self.text.push(b'(');
        let deferrable = call.deferrable.map_or(&[][..], |deferrable| &deferrable.fields);
        let mut brief = ShortValues::of_entry(&mut self.text, deferrable);
        part(event, call.rest, &mut brief);
        let mut unread = brief.take_unread();
        let mut paths = std::mem::take(&mut brief.descriptors);
        if !class.has_paths {
            paths.clear();
        }
        paths.iter_mut().for_each(|(place, _)| *place -= begin);
        self.text.push(b')');
        // A call's stack is long, and its end has it as well: it is behind the result there.
        match key.is_some() && call.returns {
            true => self.other_contexts(event, class),
            false => self.contexts(event, class),
        }
        let id = call.id;
        let time = event.time().map(|time| time.saturating_sub_unsigned(ago));
        let Some(key) = key.filter(|_| call.returns) else {
            if call.returns {
                call_result::unfinished(&mut self.text, self.colours);
            } else {
                self.text.extend_from_slice(b" = ?");
            }
            self.push(begin, hole, at, is_selected, ShortRowKind::Line);
            return u64::from(is_selected);
        };
        let kind = ShortRowKind::Call { key, id, time, state: CallState::Open };
        let row = self.push(begin, hole, at, is_selected, kind);
        self.open.push(row);
        let program = call.program.and_then(|field| text(event, field));
        let program = program.filter(|name| !name.starts_with(b"0x")).and_then(Comm::of_program);
        if !unread.is_empty() || !paths.is_empty() || program.is_some() {
            for one in &mut unread {
                one.place = one.place.start - begin..one.place.end - begin;
            }
            let (executes, deferrable) = (call.program.is_some(), call.deferrable.cloned());
            let extra = Extra { unread, paths, program, executes, deferrable };
            if let Some(row) = self.rows.get_mut(row as usize) {
                row.extra = Some(Box::new(extra));
            }
        }
        if let Some(thread) = self.threads.get_mut(&key) {
            thread.open = Some(row);
        }
        if let Some(open) = self.unended.as_mut().filter(|open| open.len() < THREADS_MAX) {
            open.insert(key, is_selected);
        }
        u64::from(is_selected)
    }

    /// Marks the call in this row as one whose end is missing.
    fn abandon(&mut self, row: Option<u32>) {
        let Some(row) = row.and_then(|row| self.rows.get_mut(row as usize)) else { return };
        if let ShortRowKind::Call { state, .. } = &mut row.kind {
            *state = CallState::Abandoned;
        }
    }

    fn exit(
        &mut self,
        event: &Event<'_>,
        at: u64,
        key: Option<ThreadOrCpu>,
        class: &ShortClass,
        returned: &Return<'_>,
    ) -> u64 {
        let is_selected = returned.wanted == WantedRecord::Yes;
        let ret = returned.ret.and_then(|field| event.integer(field));
        let has_succeeded = returned.is_execve && ret == Some(0);
        let thread = key.and_then(|key| self.threads.get_mut(&key));
        let open = thread.and_then(|thread| thread.open.take());
        let was_open = key.and_then(|key| self.ended(key));
        let is_any = is_of_any(self.calls.name(returned.id));
        let row = open.and_then(|row| self.rows.get(row as usize));
        let is_of = |row: &ShortRow| {
            let same =
                matches!(row.kind, ShortRowKind::Call { id, .. } if id == returned.id || is_any);
            // execveat() returns as execve().
            same || has_succeeded && row.extra.as_ref().is_some_and(|extra| extra.program.is_some())
        };
        if let (Some(found), Some(at_row), Some(key)) = (row, open, key) {
            if is_of(found) {
                let id = match found.kind {
                    ShortRowKind::Call { id, .. } => id,
                    _ => returned.id,
                };
                let program = found.extra.as_ref().and_then(|extra| extra.program);
                if let Some(program) = program.filter(|_| has_succeeded) {
                    self.learn(key, program);
                    self.executes(Some(at_row), program);
                }
                return self.end(event, at_row, class, &Return { id, ..*returned }, ret);
            }
        }
        self.abandon(open);
        let may_be = returned.wanted == WantedRecord::WithItsCall
            && !self.calls.is_ruled_out(returned.id, false);
        let is_needless = !is_selected && !may_be;
        if is_needless || self.closing && was_open.is_none() {
            return 0;
        }
        let begin = self.text.len();
        let hole = self.head(event, key, class);
        self.text.extend_from_slice(b"<... ");
        self.call_name(returned.id);
        self.text.extend_from_slice(b" resumed>");
        let middle = self.text.len();
        self.result(event, class, returned, ret);
        let taken = self.taken(begin, middle, hole);
        let result = self.text.as_bytes().get(middle..).unwrap_or_default().to_vec();
        self.text.drop_last(self.text.len() - begin);
        let Some(key) = key else {
            // Nobody knows whose it is: there is no begin to look for.
            if !is_selected {
                return 0;
            }
            self.text.extend_from_slice(&taken.bytes);
            self.text.extend_from_slice(&result);
            self.push(begin, None, at, true, ShortRowKind::Line);
            return 1;
        };
        if has_succeeded {
            // What it is called now, the begin says.
            let known = self.threads.get_mut(&key).and_then(|thread| thread.name.take());
            if let Some(name) = known {
                self.mark(at, MarkAction::Told(key, name));
            }
        }
        let close = Close {
            key,
            call: self.calls.name(returned.id).to_vec(),
            line: taken,
            result,
            time: event.time(),
            is_selected: is_selected && !self.closing,
            has_succeeded,
        };
        self.mark(at, MarkAction::Close(Box::new(close)));
        u64::from(is_selected && was_open != Some(true))
    }

    /// Returns a copy of the text between two places, as a line.
    fn taken(&self, begin: usize, end: usize, hole: Hole) -> UnitLine {
        let bytes = self.text.as_bytes().get(begin..end).unwrap_or_default().to_vec();
        UnitLine { bytes, hole: hole.map(|(place, key)| (place - begin, key)), paths: Vec::new() }
    }

    /// Writes the result of a call, such as ` = 3`, with the fields of the exit and its contexts.
    fn result(&mut self, event: &Event<'_>, class: &ShortClass, of: &Return<'_>, ret: Option<i64>) {
        let base = of.ret.map_or(Base::Ten, |field| field.info().base);
        call_result::write(&mut self.text, self.calls.name(of.id), ret, base, self.colours);
        let begin = self.text.len();
        self.text.extend_from_slice(b" {");
        let mut brief = ShortValues::new(&mut self.text, false);
        part(event, of.rest, &mut brief);
        match brief.is_empty() {
            true => self.text.drop_last(self.text.len() - begin),
            false => self.text.push(b'}'),
        }
        self.contexts(event, class);
    }

    /// Ends a call that began in this unit. Returns by how many lines the output grows.
    fn end(
        &mut self,
        event: &Event<'_>,
        at: u32,
        class: &ShortClass,
        returned: &Return<'_>,
        ret: Option<i64>,
    ) -> u64 {
        let is_selected = returned.wanted == WantedRecord::Yes;
        let begin = self.text.len();
        self.result(event, class, returned, ret);
        let Some(row) = self.rows.get_mut(at as usize) else { return 0 };
        if let ShortRowKind::Call { time, state, .. } = &mut row.kind {
            call_result::duration(&mut self.text, *time, event.time());
            *state = CallState::Done;
        }
        row.result = begin..self.text.len();
        let is_new = is_selected && !row.is_shown && !self.closing;
        row.is_shown |= is_new;
        u64::from(is_new)
    }

    /// Adds a deferred argument of the thread's call. Returns by how many lines the output grows.
    fn late(
        &mut self,
        event: &Event<'_>,
        at: u64,
        key: Option<ThreadOrCpu>,
        is_selected: bool,
        class: &ShortClass,
        read: Option<(DeferredArgument, ByteOrder)>,
    ) -> u64 {
        let (Some(key), Some((argument, order))) = (key, read) else {
            return self.other(event, at, key, is_selected, class);
        };
        let thread = self.threads.get(&key).copied().unwrap_or_default();
        if self.completes(thread.open, &argument, order) {
            return 0;
        }
        if thread.open.is_some() || thread.begun == self.number {
            return self.other(event, at, Some(key), is_selected, class);
        }
        let begin = self.text.len();
        let hole = self.head(event, Some(key), class);
        self.whole(event, class);
        let line = self.taken(begin, self.text.len(), hole);
        self.text.drop_last(self.text.len() - begin);
        let is_selected = is_selected && !self.closing;
        self.mark(at, MarkAction::Late { key, argument, order, line, is_selected });
        0
    }

    /// Puts an argument into the line of the call in this row. Returns false if the call does not lack it.
    fn completes(
        &mut self,
        row: Option<u32>,
        argument: &DeferredArgument,
        order: ByteOrder,
    ) -> bool {
        let row = row.and_then(|row| self.rows.get_mut(row as usize));
        let Some(row) = row else { return false };
        let Some(extra) = row.extra.as_deref_mut() else { return false };
        let Some(deferrable) = extra.deferrable.clone() else { return false };
        let mut line = self.text.as_bytes().get(row.text.clone()).unwrap_or_default().to_vec();
        let mut is_put = false;
        for (name, text) in deferrable.shown(argument, order) {
            is_put |= deferred_arguments::put(
                &mut line,
                &mut extra.unread,
                &name,
                &text,
                &mut extra.paths,
            );
        }
        if let (true, DeferredValue::Text(program)) = (is_put && extra.executes, &argument.value) {
            if argument.argument == 0 {
                extra.program = Comm::of_program(program);
            }
        }
        if is_put {
            let begin = self.text.len();
            self.text.extend_from_slice(&line);
            row.text = begin..self.text.len();
        }
        is_put
    }

    /// Notes that records of a trace, or of any trace if `None`, are missing. `write` writes the line for it, if there
    /// is to be one.
    pub fn gap(&mut self, trace: Option<usize>, write: impl FnOnce(&mut Lines)) {
        let is_of = |key: ThreadOrCpu| trace.is_none_or(|trace| key.trace() == trace);
        let mut kept = Vec::new();
        for row in std::mem::take(&mut self.open) {
            let Some(ShortRow { kind: ShortRowKind::Call { key, .. }, .. }) =
                self.rows.get(row as usize)
            else {
                continue;
            };
            if !is_of(*key) {
                kept.push(row);
            } else if let Some(thread) = self.threads.get_mut(key) {
                thread.open = None;
            }
        }
        self.open = kept;
        if let Some(open) = &mut self.unended {
            open.retain(|key, _| !is_of(*key));
        }
        self.running.retain(|key, _| !is_of(*key));
        match trace {
            Some(trace) => {
                if self.gaps.len() <= trace {
                    self.gaps.resize(trace + 1, false);
                }
                self.gaps[trace] = true;
            }
            None => self.gaps.iter_mut().for_each(|has_gap| *has_gap = true),
        }
        let at = self.unit.events;
        self.mark(at, MarkAction::Gap(trace));
        let begin = self.text.len();
        write(&mut self.text);
        if self.text.len() > begin {
            // A stream may be called anything.
            let mut line = self.text.as_bytes().get(begin..).unwrap_or_default().to_vec();
            tame_line(&mut line, 0, Format::Text);
            self.text.drop_last(self.text.len() - begin);
            // Rows have no end of line.
            self.text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(&line));
            self.push(begin, None, at, true, ShortRowKind::Line);
        }
    }

    /// Ends the unit. Returns it, with marks at the places of its text where something is unknown.
    pub fn finish(&mut self, out: &mut Lines) -> Unit {
        let mut unit = std::mem::take(&mut self.unit);
        let all = self.text.as_bytes();
        let bytes = |range: &Range<usize>| all.get(range.clone()).unwrap_or_default();
        for mut row in self.rows.drain(..) {
            let event = row.event;
            let mark = |out: &Lines, what| UnitMark { at: out.len(), event, what };
            let (state, key) = match row.kind {
                ShortRowKind::Mark(what) => {
                    unit.marks.push(mark(out, what));
                    continue;
                }
                ShortRowKind::Line => (CallState::Done, None),
                ShortRowKind::Call { key, id, time, state: CallState::Open } => {
                    if let Some(thread) = self.threads.get_mut(&key) {
                        thread.open = None;
                    }
                    let extra = row.extra.map(|extra| *extra).unwrap_or_default();
                    let open = UnfinishedCall {
                        key,
                        call: self.calls.name(id).to_vec(),
                        line: UnitLine {
                            bytes: bytes(&row.text).to_vec(),
                            hole: row.hole,
                            paths: extra.paths,
                        },
                        unread: extra.unread,
                        time,
                        is_selected: row.is_shown,
                        program: extra.program,
                        executes: extra.executes,
                        deferrable: extra.deferrable,
                        unnamed: None,
                    };
                    unit.marks.push(mark(out, MarkAction::Open(Box::new(open))));
                    continue;
                }
                ShortRowKind::Call { state, key, .. } => (state, Some(key)),
            };
            if !row.is_shown {
                continue;
            }
            let mut text = Cow::Borrowed(bytes(&row.text));
            if let (CallState::Abandoned, Some(extra)) = (state, row.extra.as_deref_mut()) {
                deferred_arguments::put_unknown(text.to_mut(), &mut extra.unread, &mut extra.paths);
            }
            let mut from = 0;
            let mut hole = |out: &mut Lines, place: usize, what: MarkAction| {
                out.extend_from_slice(text.get(from..place).unwrap_or_default());
                from = place;
                unit.marks.push(mark(out, what));
            };
            if let Some((place, key)) = row.hole {
                hole(out, place, MarkAction::Who(key, row.program));
            }
            if let (Some(extra), Some(key)) = (&row.extra, key) {
                for &(place, descriptor) in &extra.paths {
                    hole(out, place, MarkAction::Path(key, descriptor));
                }
            }
            out.extend_from_slice(text.get(from..).unwrap_or_default());
            match state {
                CallState::Abandoned => call_result::unfinished(out, self.colours),
                _ => out.extend_from_slice(bytes(&row.result)),
            }
            out.push(b'\n');
        }
        unit.running = self.running.iter().map(|(cpu, tid)| (*cpu, *tid)).collect();
        self.text.clear();
        self.open.clear();
        self.number += 1;
        if self.threads.len() > THREADS_MAX {
            self.threads.clear();
        }
        unit
    }
}

/// The entry of a system call.
struct EnteredCall<'f> {
    id: CallNumber,
    returns: bool,
    program: Option<&'f FieldRef>,
    /// The call's arguments.
    rest: &'f ShortPart,
    /// The arguments that may be recorded later.
    deferrable: Option<&'f Arc<Deferrable>>,
}

/// The return of a system call.
struct Return<'f> {
    id: CallNumber,
    ret: Option<&'f FieldRef>,
    is_execve: bool,
    wanted: WantedRecord,
    /// The other fields of the exit.
    rest: &'f ShortPart,
}

/// Writes the name of an event or a call.
fn name(out: &mut Lines, name: &[u8], colours: bool) {
    if colours {
        out.extend_from_slice(b"\x1b[1;35m");
    }
    out.extend_from_slice(name);
    if colours {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// Writes the fields of a part.
fn part(event: &Event<'_>, plan: &ShortPart, brief: &mut ShortValues<'_>) {
    match &plan.shown {
        ShownPart::Nothing => false,
        ShownPart::Whole => event.visit(scope(plan.part), brief),
        ShownPart::Some(node) => event.visit(scope(plan.part), &mut Masked::new(node, brief)),
    };
}
