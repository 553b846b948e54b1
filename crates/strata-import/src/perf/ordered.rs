//! Records in the order of time.
//!
//! perf writes what it finds in the buffers of the CPUs, one after the other, and then that the round is over. Whatever comes
//! in the round after that is not earlier than the last record of the round before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

use super::classes::{self, Classes, NAME_BYTES};
use super::record::{At, PerfRecord, Said};
use crate::trace_writer::TraceWriter;

/// The most bytes of records that wait for others: then the earliest are written, although earlier ones may come \[byte\].
const WAITING_MAX: usize = 256 << 20;
/// The memory of a waiting record besides its bytes \[byte\].
const RECORD: usize = std::mem::size_of::<Waiting>();
/// The latest time that a record may have \[ns of the clock\]: with the wall clock's time at 0 it is still a date.
const TIME_MAX: u64 = i64::MAX as u64 / 2;
/// The most threads whose names are known.
const THREADS_MAX: usize = 1 << 20;

/// A record that waits.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    time: u64,
    /// The record's number in the file.
    number: u64,
    cpu: Option<u32>,
    thread: (i32, i32),
    what: What,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Record(u32, Vec<u8>),
    Named { name: Vec<u8>, is_program: bool },
    Forked { parent_pid: i32, parent_tid: i32 },
    Discarded(u64),
}

impl What {
    fn bytes(&self) -> usize {
        match self {
            What::Record(_, bytes) | What::Named { name: bytes, .. } => bytes.len(),
            What::Forked { .. } | What::Discarded(_) => 0,
        }
    }
}

/// Sorts records by time: those that wait for earlier ones, and the trace to which they are written.
#[derive(Debug)]
pub(crate) struct Ordered {
    classes: Classes,
    /// The bytes of empty stacks, for records that are no samples.
    no_stacks: Vec<u8>,
    writer: TraceWriter,
    waiting: BinaryHeap<Reverse<Waiting>>,
    bytes: usize,
    number: u64,
    /// Latest time so far, and in the round before.
    latest: u64,
    latest_before: u64,
    /// Time of the last record that was written.
    written: u64,
    /// Records without a time that precede the first record with a time.
    before: Vec<Waiting>,
    names: HashMap<i32, [u8; NAME_BYTES]>,
    pub done: Counts,
    /// The number of discarded samples that perf has read at the end.
    discarded_in_all: u64,
}

/// The numbers of records that were written, left out or discarded.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub samples: u64,
    pub discarded: u64,
    /// Samples that are damaged.
    pub unread: u64,
    /// Records that came later than perf's rounds say.
    pub late: u64,
    /// A symbol of the kernel.
    pub kernel_symbol: Option<(String, u64)>,
}

impl Ordered {
    pub fn new(classes: Classes, writer: TraceWriter) -> Ordered {
        let no_stacks = classes.no_stacks();
        Ordered {
            classes,
            no_stacks,
            writer,
            waiting: BinaryHeap::new(),
            bytes: 0,
            number: 0,
            latest: 0,
            latest_before: 0,
            written: 0,
            before: Vec::new(),
            // Nobody says this one's name.
            names: HashMap::from([(0, *b"swapper\0\0\0\0\0\0\0\0\0")]),
            done: Counts::default(),
            discarded_in_all: 0,
        }
    }

    /// Takes the next record of the file.
    pub fn take(&mut self, record: PerfRecord<'_>) -> io::Result<()> {
        let PerfRecord { mut at, mut said } = record;
        if at.time > TIME_MAX {
            at.time = 0;
            if matches!(said, Said::Sample(_)) {
                said = Said::Unread;
            }
        }
        let what = match said {
            Said::Sample(sample) => match self.classes.sample(&sample) {
                Some((id, bytes)) => {
                    self.done.samples += 1;
                    What::Record(id, bytes)
                }
                None => self.unread(),
            },
            Said::Unread => self.unread(),
            Said::Mapped(mapped) => What::Record(classes::MAPPED, classes::mapped(&at, &mapped)),
            Said::Named { name, is_program } => What::Named { name: name.to_vec(), is_program },
            Said::Forked { parent_pid, parent_tid } => What::Forked { parent_pid, parent_tid },
            Said::Discarded(records) | Said::DiscardedSamples(records) => {
                self.done.discarded = self.done.discarded.saturating_add(records);
                What::Discarded(records)
            }
            Said::DiscardedInAll(samples) => {
                self.discarded_in_all = self.discarded_in_all.saturating_add(samples);
                return Ok(());
            }
            Said::Kernel { symbol, address } => {
                let symbol = String::from_utf8_lossy(symbol).into_owned();
                self.done.kernel_symbol.get_or_insert((symbol, address));
                return Ok(());
            }
            Said::RoundIsOver => {
                self.write_up_to(self.latest_before)?;
                self.latest_before = self.latest;
                return Ok(());
            }
            Said::Other => return Ok(()),
        };
        self.number += 1;
        self.bytes += RECORD + what.bytes();
        self.latest = self.latest.max(at.time);
        let At { time, cpu, pid, tid } = at;
        let thread = (pid, tid);
        self.waiting.push(Reverse(Waiting { time, number: self.number, cpu, thread, what }));
        while self.bytes > WAITING_MAX {
            self.write_next()?;
        }
        Ok(())
    }

    /// Counts a sample that cannot be read.
    fn unread(&mut self) -> What {
        self.done.unread += 1;
        What::Discarded(1)
    }

    fn write_up_to(&mut self, time: u64) -> io::Result<()> {
        while self.waiting.peek().is_some_and(|Reverse(next)| next.time <= time) {
            self.write_next()?;
        }
        Ok(())
    }

    fn write_next(&mut self) -> io::Result<()> {
        let Some(Reverse(next)) = self.waiting.pop() else { return Ok(()) };
        if next.time == 0 && self.written == 0 {
            // Its bytes still count.
            self.before.push(next);
            // There is no end of what has no time.
            return match self.bytes > WAITING_MAX && self.waiting.is_empty() {
                true => self.write_before(0),
                false => Ok(()),
            };
        }
        if !self.before.is_empty() {
            self.write_before(next.time)?;
        }
        self.bytes = self.bytes.saturating_sub(RECORD + next.what.bytes());
        self.written = self.written.max(next.time);
        self.put(if next.time == 0 { self.written } else { next.time }, &next)
    }

    /// Writes the records without a time, and gives them this time.
    fn write_before(&mut self, time: u64) -> io::Result<()> {
        for one in std::mem::take(&mut self.before) {
            self.bytes = self.bytes.saturating_sub(RECORD + one.what.bytes());
            self.put(time, &one)?;
        }
        Ok(())
    }

    fn put(&mut self, time: u64, one: &Waiting) -> io::Result<()> {
        let (cpu, (pid, tid)) = (one.cpu.unwrap_or(0), one.thread);
        let at = At { time, cpu: one.cpu, pid, tid };
        match &one.what {
            What::Record(id, bytes) => self.record(&at, *id, bytes),
            What::Named { name, is_program } => {
                self.name(tid, name);
                let id = if *is_program { classes::PROGRAM } else { classes::THREAD };
                self.record(&at, id, &classes::named(&at, name))
            }
            // Of those that were there before perf says no more than their names.
            What::Forked { .. } if one.time == 0 => Ok(()),
            What::Forked { parent_pid, parent_tid } => {
                let name = self.name_of(*parent_tid);
                self.name(tid, &name);
                if pid != *parent_pid {
                    let ids = [*parent_pid, *parent_tid, pid, tid];
                    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
                    self.record(&at, classes::FORKED, &bytes)?;
                }
                self.record(&at, classes::THREAD, &classes::named(&at, &name))
            }
            What::Discarded(records) => self.writer.discard(cpu, time, *records),
        }
    }

    fn record(&mut self, at: &At, id: u32, bytes: &[u8]) -> io::Result<()> {
        let thread = [at.pid.to_ne_bytes(), at.tid.to_ne_bytes()].concat();
        let name = self.name_of(at.tid);
        let cpu = at.cpu.unwrap_or(0);
        // Samples bring their own.
        let stacks = if id < classes::FIRST { &self.no_stacks[..] } else { &[] };
        let parts: [&[u8]; 4] = [&thread, &name, stacks, bytes];
        self.done.late += u64::from(self.writer.write(cpu, at.time, id, &parts)?);
        Ok(())
    }

    fn name_of(&self, tid: i32) -> [u8; NAME_BYTES] {
        self.names.get(&tid).copied().unwrap_or_default()
    }

    fn name(&mut self, tid: i32, name: &[u8]) {
        if self.names.len() < THREADS_MAX || self.names.contains_key(&tid) {
            let mut own = [0; NAME_BYTES];
            // The last byte stays a NUL.
            own.iter_mut().take(NAME_BYTES - 1).zip(name).for_each(|(to, from)| *to = *from);
            self.names.insert(tid, own);
        }
    }

    /// Writes all that waits.
    pub fn finish(mut self) -> io::Result<Counts> {
        self.write_up_to(u64::MAX)?;
        self.write_before(0)?;
        // Discarded in full buffers, which the records say by time, or elsewhere.
        let others = self.discarded_in_all.saturating_sub(self.done.discarded);
        if others > 0 {
            self.done.discarded = self.done.discarded.saturating_add(others);
            self.writer.discard(0, self.written, others)?;
        }
        self.writer.finish()?;
        Ok(self.done)
    }
}
