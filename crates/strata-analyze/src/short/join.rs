//! Units to text, in order: names that were said before, and calls whose ends are in other units.
//!
//! A call's line stands where the call began, and is whole as its end is known: all behind it waits for that, but
//! not longer than [`WAIT`] event records. What ends later has a line of its own.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use strata_timeline::Follower;

use super::cut::cut;
use super::key::ThreadOrCpu;
use super::late;
use super::result;
use super::seed::Seed;
use super::unit::{Close, MarkAction, UnfinishedCall, Unit, UnitLine};
use super::who::{self, Comm};
use crate::mix::Mix;
use crate::render::escape::tame_text;
use crate::render::Options;

/// Event records between a call's begin and its end that is still put behind it.
const WAIT: u64 = 1 << 16;
/// Text that waits \[byte\]. So much is only there if lines are long.
const TEXT_MAX: usize = 64 << 20;
/// Threads of which the name is kept; then they are all forgotten.
const NAMES_MAX: usize = 1 << 20;

/// What waits.
#[derive(Debug)]
enum WaitingPiece {
    Text(Vec<u8>),
    Call { open: Box<UnfinishedCall>, event: u64, result: Option<Vec<u8>> },
}

/// Puts units together.
#[derive(Debug)]
pub struct Joiner {
    colours: bool,
    width: Option<usize>,
    names: HashMap<ThreadOrCpu, Comm, Mix>,
    running: HashMap<ThreadOrCpu, i64, Mix>,
    descriptors: Follower,
    /// The number of the piece.
    open: HashMap<ThreadOrCpu, u64, Mix>,
    held: VecDeque<WaitingPiece>,
    /// The number of the first of them.
    first: u64,
    /// Bytes of them.
    bytes: usize,
    events: u64,
    out: Vec<u8>,
    cut: Vec<u8>,
    hidden: u64,
}

impl Joiner {
    /// For units that come in the order of their event records; `seed` has what is known before them.
    pub fn new(options: &Options, seed: Seed) -> Joiner {
        Joiner {
            colours: options.colours,
            width: options.width.filter(|width| *width > 0),
            names: seed.names().collect(),
            running: HashMap::default(),
            descriptors: seed.descriptors,
            open: HashMap::default(),
            held: VecDeque::new(),
            first: 0,
            bytes: 0,
            events: 0,
            out: Vec::new(),
            cut: Vec::new(),
            hidden: 0,
        }
    }

    /// Lines that were not shown as they are of what was there when recording began.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Add a unit and its text; what can be shown now.
    pub fn add(&mut self, text: &[u8], unit: Unit) -> &[u8] {
        self.out.clear();
        let mut from = 0;
        for mark in unit.marks {
            self.text(text.get(from..mark.at).unwrap_or_default());
            from = mark.at;
            self.mark(mark.what, self.events + mark.event);
        }
        self.text(text.get(from..).unwrap_or_default());
        for (key, name) in unit.told {
            self.tell(key, name);
        }
        self.running.extend(unit.running);
        self.events += unit.events;
        self.hidden += unit.hidden;
        self.give(WAIT);
        self.shown()
    }

    /// There is no more: all that waits.
    pub fn end(&mut self) -> &[u8] {
        self.out.clear();
        self.open.clear();
        while let Some(piece) = self.take() {
            self.show(piece);
        }
        self.shown()
    }

    fn shown(&mut self) -> &[u8] {
        let Some(width) = self.width else { return &self.out };
        self.cut.clear();
        cut(&mut self.cut, &self.out, width);
        &self.cut
    }

    fn tell(&mut self, key: ThreadOrCpu, name: Comm) {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(&key) {
            self.names.clear();
        }
        self.names.insert(key, name);
    }

    /// The thread that runs on a CPU, if that is known.
    fn thread(&self, key: ThreadOrCpu) -> ThreadOrCpu {
        match self.running.get(&key) {
            Some(tid) if key.is_cpu() => ThreadOrCpu::thread(key.trace(), *tid),
            _ => key,
        }
    }

    fn text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if self.held.is_empty() {
            return self.out.extend_from_slice(text);
        }
        self.bytes += text.len();
        if let Some(WaitingPiece::Text(last)) = self.held.back_mut() {
            return last.extend_from_slice(text);
        }
        self.held.push_back(WaitingPiece::Text(text.to_vec()));
    }

    fn who(&self, key: ThreadOrCpu) -> Vec<u8> {
        let key = self.thread(key);
        let swapper = (key.tid() == Some(0)).then_some(&b"swapper"[..]);
        let name = swapper.or_else(|| self.names.get(&key).map(Comm::as_bytes));
        let mut out = Vec::new();
        who::write(&mut out, name, key.tid(), self.colours);
        out
    }

    /// `</etc/passwd>`; nothing if it is not known.
    fn path(&self, key: ThreadOrCpu, descriptor: i32) -> Vec<u8> {
        let key = self.thread(key);
        let path = key.tid().and_then(|tid| self.descriptors.path(key.trace(), tid, descriptor));
        let Some(path) = path else { return Vec::new() };
        let mut out = vec![b'<'];
        tame_text(&mut out, path);
        out.push(b'>');
        out
    }

    /// With whose it is, and what its descriptors, which are those of `key`, are for. `places` in it are moved.
    fn whole(
        &self,
        line: UnitLine,
        key: Option<ThreadOrCpu>,
        mut places: Vec<&mut Range<usize>>,
    ) -> Vec<u8> {
        let UnitLine { mut bytes, hole, paths } = line;
        let paths = paths.into_iter().filter_map(|(at, it)| Some((at, self.path(key?, it))));
        let mut parts: Vec<(usize, Vec<u8>)> = paths.collect();
        if let Some((at, key)) = hole {
            parts.insert(0, (at, self.who(key)));
        }
        // From the end: what is in front stays where it is.
        for (at, text) in parts.iter().rev() {
            let at = (*at).min(bytes.len());
            bytes.splice(at..at, text.iter().copied());
            for place in places.iter_mut().filter(|place| place.start >= at) {
                **place = place.start + text.len()..place.end + text.len();
            }
        }
        bytes
    }

    fn mark(&mut self, what: MarkAction, event: u64) {
        match what {
            MarkAction::Who(key) => {
                let who = self.who(key);
                self.text(&who);
            }
            MarkAction::Path(key, descriptor) => {
                let path = self.path(key, descriptor);
                self.text(&path);
            }
            MarkAction::Step(key, step) => {
                let key = self.thread(key);
                self.descriptors.follow(key.trace(), key.tid(), &step);
            }
            MarkAction::Begun(key) => {
                let key = self.thread(key);
                self.open.remove(&key);
            }
            MarkAction::Open(open) => self.begin(open, event),
            MarkAction::Close(close) => self.close(*close, event),
            MarkAction::Late { key, argument, text, line, is_selected } => {
                if !self.put(key, argument, &text, event) && is_selected {
                    self.line(line, b"");
                }
            }
            MarkAction::Ran { cpu, thread } => {
                if !self.running.contains_key(&cpu) {
                    self.move_open(cpu, thread);
                }
            }
            MarkAction::Told(key, name) => self.tell(key, name),
            MarkAction::Gap(None) => {
                self.descriptors.gap(None);
                self.open.clear();
                self.running.clear();
            }
            MarkAction::Gap(Some(trace)) => {
                self.descriptors.gap(Some(trace));
                self.open.retain(|key, _| key.trace() != trace);
                self.running.retain(|key, _| key.trace() != trace);
            }
        }
    }

    /// Who has run on a CPU so far is known only now.
    fn move_open(&mut self, cpu: ThreadOrCpu, thread: ThreadOrCpu) {
        let Some(number) = self.open.remove(&cpu) else { return };
        let piece = number.checked_sub(self.first).and_then(|at| self.held.get_mut(at as usize));
        if let Some(WaitingPiece::Call { open, .. }) = piece {
            open.key = thread;
            self.open.entry(thread).or_insert(number);
        }
    }

    fn line(&mut self, line: UnitLine, behind: &[u8]) {
        let mut bytes = self.whole(line, None, Vec::new());
        bytes.extend_from_slice(behind);
        bytes.push(b'\n');
        self.text(&bytes);
    }

    fn begin(&mut self, mut open: Box<UnfinishedCall>, event: u64) {
        let key = self.thread(open.key);
        let places = open.unread.iter_mut().map(|unread| &mut unread.place).collect();
        open.line.bytes = self.whole(std::mem::take(&mut open.line), Some(key), places);
        open.key = key;
        self.bytes += open.line.bytes.len();
        let number = self.first + self.held.len() as u64;
        self.held.push_back(WaitingPiece::Call { open, event, result: None });
        self.open.insert(key, number);
    }

    /// The call of a thread that is open, and not for too long.
    fn open_of(
        &mut self,
        key: ThreadOrCpu,
        event: u64,
    ) -> Option<(&mut Box<UnfinishedCall>, &mut Option<Vec<u8>>)> {
        let number = *self.open.get(&key)?;
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        match self.held.get_mut(place)? {
            WaitingPiece::Call { open, event: begun, result } if event - *begun <= WAIT => {
                Some((open, result))
            }
            _ => None,
        }
    }

    fn close(&mut self, close: Close, event: u64) {
        let key = self.thread(close.key);
        let mut program = None;
        let found = self.open_of(key, event).filter(|(open, _)| {
            open.call == close.call || close.has_succeeded && open.program.is_some()
        });
        let is_found = found.is_some();
        if let Some((open, result)) = found {
            let mut text = close.result.clone();
            result::duration(&mut text, open.time, close.time);
            *result = Some(text);
            open.is_selected |= close.is_selected;
            program = open.program.filter(|_| close.has_succeeded);
        }
        self.open.remove(&key);
        if let Some(program) = program {
            self.tell(key, program);
        }
        if !is_found && close.is_selected {
            self.line(close.line, &close.result);
        }
    }

    fn put(&mut self, key: ThreadOrCpu, argument: usize, text: &[u8], event: u64) -> bool {
        let key = self.thread(key);
        let Some((open, _)) = self.open_of(key, event) else { return false };
        let is_put = late::put(&mut open.line.bytes, &mut open.unread, argument, text);
        if is_put && open.executes && argument == 0 {
            // Without its quotes.
            open.program = text.get(1..text.len().saturating_sub(1)).and_then(Comm::of_program);
        }
        is_put
    }

    fn take(&mut self) -> Option<WaitingPiece> {
        let piece = self.held.pop_front()?;
        self.first += 1;
        Some(piece)
    }

    /// Show what waits for nothing, and what has waited for too long.
    fn give(&mut self, wait: u64) {
        loop {
            let is_due = match self.held.front() {
                None => return,
                Some(WaitingPiece::Text(_)) => true,
                Some(WaitingPiece::Call { result: Some(_), .. }) => true,
                Some(WaitingPiece::Call { open, event, .. }) => {
                    self.open.get(&open.key) != Some(&self.first)
                        || self.events - event > wait
                        || self.bytes > TEXT_MAX
                }
            };
            if !is_due {
                return;
            }
            let number = self.first;
            let Some(piece) = self.take() else { return };
            if let WaitingPiece::Call { open, .. } = &piece {
                if self.open.get(&open.key) == Some(&number) {
                    self.open.remove(&open.key);
                }
            }
            self.show(piece);
        }
    }

    fn show(&mut self, piece: WaitingPiece) {
        match piece {
            WaitingPiece::Text(text) => {
                self.bytes = self.bytes.saturating_sub(text.len());
                self.out.extend_from_slice(&text);
            }
            WaitingPiece::Call { open, result, .. } => {
                self.bytes = self.bytes.saturating_sub(open.line.bytes.len());
                if !open.is_selected {
                    return;
                }
                self.out.extend_from_slice(&open.line.bytes);
                match result {
                    Some(result) => self.out.extend_from_slice(&result),
                    None => result::unfinished(&mut self.out, self.colours),
                }
                self.out.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests;
