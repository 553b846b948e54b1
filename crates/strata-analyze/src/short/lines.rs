//! Event records of one worker to lines: those that follow each other, up to a unit's end.

use std::collections::HashMap;
use std::ops::Range;

use strata_ctf::read::{Event, EventClass, FieldRef};
use strata_model::Base;
use strata_timeline::{StepPlan, Steps};

use super::call::{
    is_execve, returns, text, CallNumber, KnownCalls, RecordRole, ShortClass, ShortPart,
};
use super::key::ThreadOrCpu;
use super::late::{self, Unread};
use super::result;
use super::unit::{Close, Hole, MarkAction, UnfinishedCall, Unit, UnitLine, UnitMark};
use super::values::{quoted, ShortValues};
use super::who::{self, Comm};
use crate::mix::Mix;
use crate::render::clock::ClockText;
use crate::render::escape::tame_line;
use crate::render::line::{Lines, TextSink};
use crate::render::order::TimeOrder;
use crate::render::plan::LazyTable;
use crate::render::shown::{scope, Masked, ShownPart};
use crate::render::{ClockStyle, FieldList, Format, Options, Stamp};

/// Event records of a unit, at most.
const EVENTS: u64 = 1 << 14;
/// Threads of which something is known; then they are all forgotten.
const THREADS_MAX: usize = 1 << 17;

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct KnownThread {
    name: Option<Comm>,
    /// The row of the call that it is in.
    open: Option<u32>,
    /// The unit in which it has begun a call.
    begun: u64,
}

/// What a row is.
#[derive(Debug)]
enum ShortRowKind {
    /// A line, whole.
    Line,
    /// A call.
    Call { key: ThreadOrCpu, id: CallNumber, time: Option<i64>, state: CallState },
    /// No text of this unit.
    Mark(MarkAction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// It has not ended.
    Open,
    /// It has.
    Done,
    /// Its end is not there: its thread has made another call since.
    Abandoned,
}

/// What few calls have.
#[derive(Debug, Default)]
struct Extra {
    unread: Vec<Unread>,
    paths: Vec<(usize, i32)>,
    program: Option<Comm>,
    /// Its first argument that is a text is a program.
    executes: bool,
}

/// A line, or what stands between two.
#[derive(Debug)]
struct ShortRow {
    text: Range<usize>,
    hole: Hole,
    result: Range<usize>,
    event: u64,
    is_shown: bool,
    kind: ShortRowKind,
    extra: Option<Box<Extra>>,
}

/// Whether a record is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedRecord {
    /// It was selected.
    Yes,
    /// It was not; but if it is one end of a call, and the other end is, both are shown.
    WithItsCall,
    /// Not at all.
    No,
}

/// Makes lines.
#[derive(Debug)]
pub struct Short {
    clock: ClockText,
    order: Option<TimeOrder>,
    fields: Option<FieldList>,
    colours: bool,
    /// Also what was there when recording began.
    all: bool,
    /// Call stacks are shown by names, and not as addresses.
    names_stacks: bool,
    /// Those of the present record.
    stacks: Option<Vec<u8>>,
    classes: LazyTable<ShortClass>,
    calls: KnownCalls,
    steps: Steps,
    threads: HashMap<ThreadOrCpu, KnownThread, Mix>,
    /// By CPU, since the slice began.
    running: HashMap<ThreadOrCpu, i64, Mix>,
    /// By trace: records are not there since the slice began, so that nobody knows who runs.
    gaps: Vec<bool>,
    text: Lines,
    rows: Vec<ShortRow>,
    /// Rows of calls that were open when they were made.
    open: Vec<u32>,
    unit: Unit,
    number: u64,
    /// Only calls that are open are ended now.
    closing: bool,
    /// Calls that are open, in all units so far, and whether they are shown; where that is asked for.
    unended: Option<HashMap<ThreadOrCpu, bool, Mix>>,
}

impl Short {
    /// For the event records of one reader; those that will end with [`Short::close`], if `is_limited`.
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

    /// Begin somewhere: what was before is not known.
    pub fn begin_slice(&mut self) {
        self.threads.clear();
        self.running.clear();
        self.gaps.clear();
    }

    /// Whether there is enough for a unit with so many bytes of text.
    pub fn is_full(&self, bytes: usize) -> bool {
        self.text.len() >= bytes || self.unit.events >= EVENTS
    }

    /// The call stacks of the record that comes next, with names.
    pub fn set_stacks(&mut self, stacks: Option<Vec<u8>>) {
        self.stacks = stacks;
    }

    /// How many records there were, since this was last asked, whose order is not known.
    pub fn take_unsure(&mut self) -> u64 {
        self.order.as_mut().map_or(0, TimeOrder::take_unsure)
    }

    /// No more lines: only ends of calls that are open.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether calls are open.
    pub fn has_open(&self) -> bool {
        self.unended.as_ref().is_some_and(|open| !open.is_empty())
    }

    /// The thread's call has ended; whether it was shown, if there was one.
    fn ended(&mut self, key: ThreadOrCpu) -> Option<bool> {
        self.unended.as_mut()?.remove(&key)
    }

    /// A record of a trace, and whether it is wanted; how many lines more are shown by it. `may_accept`: whether
    /// some record of a class may be selected.
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
                self.learn(ThreadOrCpu::thread(class.trace, tid), comm);
            }
        }
        let key = self.key(event, class);
        match &class.role {
            RecordRole::Entry { id, returns, program } => {
                let (program, rest) = (program.as_ref(), &class.payload);
                let call = EnteredCall { id: *id, returns: *returns, program, rest };
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
                    let call = EnteredCall { id, returns: returns(name), program: None, rest };
                    return self.entry(event, at, key, wanted, class, &call);
                }
                let (ret, is_execve) = (end.ret.as_ref(), is_execve(name));
                self.exit(event, at, key, class, &Return { id, ret, is_execve, wanted, rest })
            }
            RecordRole::Late { argument, text: field } => {
                let read = usize::try_from(event.integer(argument).unwrap_or(-1)).ok();
                let read = read.zip(text(event, field));
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

    /// What a record does to descriptors.
    #[cold]
    fn step(&mut self, event: &Event<'_>, at: u64, class: &ShortClass, plan: &StepPlan) {
        if let Some(step) = self.steps.step(plan, event) {
            // Of nobody's thread if it is not known: the CPU's is none then.
            let key = self.key(event, class);
            let key = key.unwrap_or_else(|| ThreadOrCpu::cpu(class.trace, u64::MAX));
            self.mark(at, MarkAction::Step(key, Box::new(step)));
        }
    }

    /// Whose the record is.
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

    /// Who runs on a CPU changes, where that alone says whose records are.
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
        });
    }

    /// Time, program and thread.
    fn head(&mut self, event: &Event<'_>, key: Option<ThreadOrCpu>, class: &ShortClass) -> Hole {
        if self.clock.style() != ClockStyle::None {
            let cycles = event.cycles();
            match event.date() {
                Some(ns) => {
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
            who::write(&mut self.text, Some(name), tid, self.colours);
            return None;
        }
        let Some(key) = key else {
            who::write(&mut self.text, None, None, self.colours);
            return None;
        };
        if tid == Some(0) {
            who::write(&mut self.text, Some(b"swapper"), tid, self.colours);
            return None;
        }
        match self.threads.get(&key).and_then(|thread| thread.name) {
            Some(name) => {
                who::write(&mut self.text, Some(name.as_bytes()), tid, self.colours);
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

    /// ` {callstack=[...]}`, if there is something in a record's contexts.
    fn contexts(&mut self, event: &Event<'_>, class: &ShortClass) {
        for plan in &class.contexts {
            self.text.extend_from_slice(b" {");
            part(event, plan, &mut ShortValues::new(&mut self.text, false));
            self.text.push(b'}');
        }
        if let Some(stacks) = self.stacks.take() {
            self.text.push(b' ');
            self.text.extend_from_slice(&stacks);
        }
    }

    /// A record that is no end of a call.
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

    /// `name{fields}`.
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
        let hole = self.head(event, key, class);
        self.call_name(call.id);
        self.text.push(b'(');
        let mut brief = ShortValues::new(&mut self.text, true);
        part(event, call.rest, &mut brief);
        let unread = std::mem::take(&mut brief.unread);
        let mut paths = std::mem::take(&mut brief.descriptors);
        if !class.has_paths {
            paths.clear();
        }
        paths.iter_mut().for_each(|(place, _)| *place -= begin);
        self.text.push(b')');
        self.contexts(event, class);
        let (time, id) = (event.time(), call.id);
        let Some(key) = key.filter(|_| call.returns) else {
            if call.returns {
                result::unfinished(&mut self.text, self.colours);
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
            let unread = unread.into_iter().map(|(argument, place)| Unread {
                argument,
                place: place.start - begin..place.end - begin,
            });
            let unread = unread.collect();
            let extra = Extra { unread, paths, program, executes: call.program.is_some() };
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

    /// The call's end is not there.
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
        let row = open.and_then(|row| self.rows.get(row as usize));
        let is_of = |row: &ShortRow| {
            let same = matches!(row.kind, ShortRowKind::Call { id, .. } if id == returned.id);
            // execveat() returns as execve().
            same || has_succeeded && row.extra.as_ref().is_some_and(|extra| extra.program.is_some())
        };
        if let (Some(found), Some(at_row), Some(key)) = (row, open, key) {
            if is_of(found) {
                let program = found.extra.as_ref().and_then(|extra| extra.program);
                if let Some(program) = program.filter(|_| has_succeeded) {
                    self.learn(key, program);
                }
                return self.end(event, at_row, class, returned, ret);
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

    /// A copy of the text between.
    fn taken(&self, begin: usize, end: usize, hole: Hole) -> UnitLine {
        let bytes = self.text.as_bytes().get(begin..end).unwrap_or_default().to_vec();
        UnitLine { bytes, hole: hole.map(|(place, key)| (place - begin, key)), paths: Vec::new() }
    }

    /// ` = 3`, and what else the call has given back.
    fn result(&mut self, event: &Event<'_>, class: &ShortClass, of: &Return<'_>, ret: Option<i64>) {
        let base = of.ret.map_or(Base::Ten, |field| field.info().base);
        result::write(&mut self.text, self.calls.name(of.id), ret, base, self.colours);
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

    /// Both ends are there.
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
            result::duration(&mut self.text, *time, event.time());
            *state = CallState::Done;
        }
        row.result = begin..self.text.len();
        let is_new = is_selected && !row.is_shown && !self.closing;
        row.is_shown |= is_new;
        u64::from(is_new)
    }

    /// The text of an argument.
    fn late(
        &mut self,
        event: &Event<'_>,
        at: u64,
        key: Option<ThreadOrCpu>,
        is_selected: bool,
        class: &ShortClass,
        read: Option<(usize, &[u8])>,
    ) -> u64 {
        let (Some(key), Some((argument, bytes))) = (key, read) else {
            return self.other(event, at, key, is_selected, class);
        };
        let mut shown = Lines::default();
        quoted(&mut shown, bytes);
        let thread = self.threads.get(&key).copied().unwrap_or_default();
        let row = thread.open.and_then(|row| self.rows.get_mut(row as usize));
        if let Some((row, extra)) = row.and_then(|row| row.extra.take().map(|extra| (row, extra))) {
            let mut extra = extra;
            let mut line = self.text.as_bytes().get(row.text.clone()).unwrap_or_default().to_vec();
            let place = extra.unread.iter().find(|one| one.argument == argument);
            let place = place.map_or(0..0, |one| one.place.clone());
            let is_put = late::put(&mut line, &mut extra.unread, argument, shown.as_bytes());
            if is_put {
                for (at, _) in extra.paths.iter_mut().filter(|(at, _)| *at >= place.end) {
                    *at = *at - place.len() + shown.len();
                }
            }
            if is_put && argument == 0 && extra.executes {
                extra.program = Comm::of_program(bytes);
            }
            row.extra = Some(extra);
            if is_put {
                let begin = self.text.len();
                self.text.extend_from_slice(&line);
                row.text = begin..self.text.len();
                return 0;
            }
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
        let text = shown.as_bytes().to_vec();
        self.mark(at, MarkAction::Late { key, argument, text, line, is_selected });
        0
    }

    /// Records of a trace are not there (`None`: of any), as `write` says it if it is to be said.
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

    /// End the unit: its text, and what is not known in it.
    pub fn finish(&mut self, out: &mut Lines) -> Unit {
        let mut unit = std::mem::take(&mut self.unit);
        let all = self.text.as_bytes();
        let bytes = |range: &Range<usize>| all.get(range.clone()).unwrap_or_default();
        for row in self.rows.drain(..) {
            let mark = |out: &Lines, what| UnitMark { at: out.len(), event: row.event, what };
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
                    };
                    unit.marks.push(mark(out, MarkAction::Open(Box::new(open))));
                    continue;
                }
                ShortRowKind::Call { state, key, .. } => (state, Some(key)),
            };
            if !row.is_shown {
                continue;
            }
            let text = bytes(&row.text);
            let mut from = 0;
            let mut hole = |out: &mut Lines, place: usize, what: MarkAction| {
                out.extend_from_slice(text.get(from..place).unwrap_or_default());
                from = place;
                unit.marks.push(mark(out, what));
            };
            if let Some((place, key)) = row.hole {
                hole(out, place, MarkAction::Who(key));
            }
            if let (Some(extra), Some(key)) = (&row.extra, key) {
                for &(place, descriptor) in &extra.paths {
                    hole(out, place, MarkAction::Path(key, descriptor));
                }
            }
            out.extend_from_slice(text.get(from..).unwrap_or_default());
            match state {
                CallState::Abandoned => result::unfinished(out, self.colours),
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

/// What there is to know of a call that is entered.
struct EnteredCall<'f> {
    id: CallNumber,
    returns: bool,
    program: Option<&'f FieldRef>,
    /// Its arguments.
    rest: &'f ShortPart,
}

/// The same of one that returns.
struct Return<'f> {
    id: CallNumber,
    ret: Option<&'f FieldRef>,
    is_execve: bool,
    wanted: WantedRecord,
    /// What it has given back besides.
    rest: &'f ShortPart,
}

/// The name of an event, or a call.
fn name(out: &mut Lines, name: &[u8], colours: bool) {
    if colours {
        out.extend_from_slice(b"\x1b[1;35m");
    }
    out.extend_from_slice(name);
    if colours {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// The fields of a part.
fn part(event: &Event<'_>, plan: &ShortPart, brief: &mut ShortValues<'_>) {
    match &plan.shown {
        ShownPart::Nothing => false,
        ShownPart::Whole => event.visit(scope(plan.part), brief),
        ShownPart::Some(node) => event.visit(scope(plan.part), &mut Masked::new(node, brief)),
    };
}
