//! Joins units to text, in order. It fills in names that earlier units have, and joins calls with ends in other
//! units.
//!
//! ```text
//! unit 1: text with marks ─┐
//! unit 2: text with marks ─┴─▶ Joiner::add ─▶ held: text, open call, text, ...  ─▶ text that waits for no call
//!                                names and descriptors' files, by thread
//! ```
//!
//! A mark ([`MarkAction`]) is a place in a unit's text at which the worker did not know something: who the thread
//! is, which file a descriptor is, that a call is still open, that an exit has no entry in this unit. The joiner
//! sees all units in order, so it knows the latest name, and the call that an exit ends.
//!
//! A call's line stands where the call began, and is complete when its end is known. All later text waits for
//! that, but not longer than [`WAIT`] event records. A call that ends later gets a line of its own for its end.
//! With traces that are being recorded, [`Joiner::end_older`] shows calls after a time, whatever comes.
//!
//! ```text
//! open call ── Close in a later unit ──▶ complete: the line with its result, and all text up to the next open call is shown
//!           ── WAIT records, TEXT_MAX bytes, or end_older ──▶ shown as <unfinished ...>, kept in `cut_off` for a line of its own
//! ```
//!
//! One thread joins, while others make units. Memory is bounded by `WAIT`, [`TEXT_MAX`] and [`NAMES_MAX`]. Beyond
//! the last of these, all names are forgotten and learnt again.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use strata_ctf::read::{DeferredArgument, DeferredValue};
use strata_model::ByteOrder;
use strata_timeline::Follower;

use super::call_classes::is_of_any;
use super::call_result;
use super::completion_key::ThreadOrCpu;
use super::deferred_arguments;
use super::initial_names::Seed;
use super::line_width::cut;
use super::text_unit::{Close, MarkAction, UnfinishedCall, Unit, UnitLine};
use super::thread_column::{self, Comm};
use crate::fast_hash::Mix;
use crate::render::escape::tame_text;
use crate::render::Options;

/// The most event records between a call's begin and its end for the end to be shown in the call's line.
const WAIT: u64 = 1 << 16;
/// The most text that waits \[byte\]. It is reached only if lines are long.
const TEXT_MAX: usize = 64 << 20;
/// The most threads whose names are kept. Beyond it, all names are forgotten.
const NAMES_MAX: usize = 1 << 20;

/// A piece of output that waits for an earlier piece.
#[derive(Debug)]
enum WaitingPiece {
    Text(Vec<u8>),
    Call { open: Box<UnfinishedCall>, event: u64, result: Option<Vec<u8>> },
}

#[derive(Debug)]
pub struct Joiner {
    colours: bool,
    width: Option<usize>,
    names: HashMap<ThreadOrCpu, Comm, Mix>,
    running: HashMap<ThreadOrCpu, i64, Mix>,
    descriptors: Follower,
    /// The line of the call that each thread is in: its number, counted as in `first`.
    open: HashMap<ThreadOrCpu, u64, Mix>,
    /// The open calls that were already shown without their ends: name and begin.
    cut_off: HashMap<ThreadOrCpu, (Vec<u8>, Option<i64>), Mix>,
    held: VecDeque<WaitingPiece>,
    /// The number of the first line in `held`. Lines are numbered from the begin of the output.
    first: u64,
    /// The size of all pieces in `held` \[byte\].
    bytes: usize,
    events: u64,
    out: Vec<u8>,
    cut: Vec<u8>,
    hidden: u64,
}

impl Joiner {
    /// Makes a joiner for units that come in the order of their records. `seed` has what is known from earlier records.
    pub fn new(options: &Options, seed: Seed) -> Joiner {
        Joiner {
            colours: options.colours,
            width: options.width.filter(|width| *width > 0),
            names: seed.names().collect(),
            running: HashMap::default(),
            descriptors: seed.descriptors,
            open: HashMap::default(),
            cut_off: HashMap::default(),
            held: VecDeque::new(),
            first: 0,
            bytes: 0,
            events: 0,
            out: Vec::new(),
            cut: Vec::new(),
            hidden: 0,
        }
    }

    /// Returns the number of lines of state dumps that were not shown.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Adds a unit and its text. Returns the text that can be shown now.
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

    /// Shows calls that were begun before a time and have not ended, without their ends, and all text that waits for
    /// them. Returns it. Each of these calls gets a line of its own for its end.
    pub fn end_older(&mut self, before: i64) -> &[u8] {
        self.out.clear();
        loop {
            self.give(WAIT);
            let Some(WaitingPiece::Call { open, result: None, .. }) = self.held.front() else {
                break;
            };
            if open.time.is_some_and(|time| time >= before) {
                break;
            }
            let (key, call, time) = (open.key, open.call.clone(), open.time);
            if self.cut_off.len() >= NAMES_MAX {
                self.cut_off.clear();
            }
            self.cut_off.insert(key, (call, time));
            self.open.remove(&key);
        }
        self.shown()
    }

    /// Ends the text. Returns all text that still waits.
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

    /// Returns the thread that runs on a CPU if it is known, or else the key itself.
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

    /// Returns the text for a thread: its latest name, or else that of the program that it executes, and its number.
    fn who(&self, key: ThreadOrCpu, program: Option<Comm>) -> Vec<u8> {
        let key = self.thread(key);
        let swapper = (key.tid() == Some(0)).then_some(&b"swapper"[..]);
        let name = self.names.get(&key).or(program.as_ref()).map(Comm::as_bytes);
        let name = swapper.or(name);
        let mut out = Vec::new();
        thread_column::write(&mut out, name, key.tid(), self.colours);
        out
    }

    /// Returns the file of a descriptor as `</etc/passwd>`; empty if it is unknown.
    fn path(&self, key: ThreadOrCpu, descriptor: i32) -> Vec<u8> {
        let key = self.thread(key);
        let path = key.tid().and_then(|tid| self.descriptors.path(key.trace(), tid, descriptor));
        let Some(path) = path else { return Vec::new() };
        let mut out = vec![b'<'];
        tame_text(&mut out, path);
        out.push(b'>');
        out
    }

    /// Fills in a line's thread, and the files of the descriptors of thread `key`. Moves `places` along with the text.
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
            parts.insert(0, (at, self.who(key, None)));
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
            MarkAction::Who(key, program) => {
                let who = self.who(key, program);
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
            MarkAction::Late { key, argument, order, line, is_selected } => {
                if !self.put(key, &argument, order, event) && is_selected {
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

    /// Moves an open call from a CPU to the thread that ran there, as soon as that is known.
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
        let unnamed = open.line.hole.filter(|_| !self.names.contains_key(&key));
        open.unnamed = unnamed.map(|(at, of)| at..at + self.who(of, None).len());
        let places = open.unread.iter_mut().map(|unread| &mut unread.place).collect();
        open.line.bytes = self.whole(std::mem::take(&mut open.line), Some(key), places);
        open.key = key;
        self.bytes += open.line.bytes.len();
        let number = self.first + self.held.len() as u64;
        self.held.push_back(WaitingPiece::Call { open, event, result: None });
        self.open.insert(key, number);
    }

    /// Returns the open call of a thread, unless it began more than [`WAIT`] records ago.
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
        let colours = self.colours;
        let found = self.open_of(key, event).filter(|(open, _)| {
            open.call == close.call
                || is_of_any(&close.call)
                || close.has_succeeded && open.program.is_some()
        });
        let is_found = found.is_some();
        if let Some((open, result)) = found {
            let mut text = close.result.clone();
            call_result::duration(&mut text, open.time, close.time);
            *result = Some(text);
            open.is_selected |= close.is_selected;
            program = open.program.filter(|_| close.has_succeeded);
            if let (Some(place), Some(program)) = (open.unnamed.take(), program) {
                let mut who = Vec::new();
                thread_column::write(&mut who, Some(program.as_bytes()), key.tid(), colours);
                // Nothing else is put into the line of a call that has returned.
                if place.end <= open.line.bytes.len() {
                    open.line.bytes.splice(place, who);
                }
            }
        }
        self.open.remove(&key);
        if let Some(program) = program {
            self.tell(key, program);
        }
        let cut_off = self
            .cut_off
            .remove(&key)
            .filter(|(call, _)| *call == close.call || is_of_any(&close.call));
        if !is_found && close.is_selected {
            let mut behind = close.result;
            if let Some((_, begin)) = cut_off {
                call_result::duration(&mut behind, begin, close.time);
            }
            self.line(close.line, &behind);
        }
    }

    fn put(
        &mut self,
        key: ThreadOrCpu,
        argument: &DeferredArgument,
        order: ByteOrder,
        event: u64,
    ) -> bool {
        let key = self.thread(key);
        let Some((open, _)) = self.open_of(key, event) else { return false };
        let Some(deferrable) = open.deferrable.clone() else { return false };
        let (mut is_put, before) = (false, open.line.bytes.len());
        for (name, text) in deferrable.shown(argument, order) {
            // Paths are in the line already.
            is_put |= deferred_arguments::put(
                &mut open.line.bytes,
                &mut open.unread,
                &name,
                &text,
                &mut [],
            );
        }
        let longer = open.line.bytes.len().saturating_sub(before);
        if let (true, DeferredValue::Text(program)) = (is_put && open.executes, &argument.value) {
            if argument.argument == 0 {
                open.program = Comm::of_program(program);
            }
        }
        self.bytes += longer;
        is_put
    }

    fn take(&mut self) -> Option<WaitingPiece> {
        let piece = self.held.pop_front()?;
        self.first += 1;
        Some(piece)
    }

    /// Shows the pieces that wait for no call any more, or have waited for more than `wait` records.
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
            WaitingPiece::Call { mut open, result, .. } => {
                self.bytes = self.bytes.saturating_sub(open.line.bytes.len());
                if !open.is_selected {
                    return;
                }
                if result.is_none() {
                    deferred_arguments::put_unknown(
                        &mut open.line.bytes,
                        &mut open.unread,
                        &mut [],
                    );
                }
                self.out.extend_from_slice(&open.line.bytes);
                match result {
                    Some(result) => self.out.extend_from_slice(&result),
                    None => call_result::unfinished(&mut self.out, self.colours),
                }
                self.out.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests;
