//! The rings of an application that writes into them what it likes, also while they are read, and what the
//! collector makes of them.

mod channel;
mod trace;

use channel::{Memory, Place};
use std::sync::{Arc, Mutex, MutexGuard};
use strata_collect::{Collector, Directory, Files, ProducerState, StreamStats, TraceIdentity};
use strata_ring::LossMode;
use trace::Trace;

/// Beyond what the limit of an input's length makes sense for.
const RECORDS_MAX: u64 = 2000;
const CALLS_MAX: u64 = 100;
/// A machine has been on for so long before it can run this \[ns\].
const CLOCK_MAX: u64 = 20_000_000_000;

/// Two bytes of flags, then one operation after the other: a byte, and what it needs.
pub fn run(input: &[u8]) {
    let [setup, end, rest @ ..] = input else { return };
    let mut input = Input(rest);
    let mut memory = Memory::new(*setup);
    let Some(channel) = memory.opened(&mut input) else { return };
    let trace = Trace::new(memory.is_large, channel.subbuf_bytes());
    let directory = Directory::create(trace.folder()).expect("a folder for the trace");
    let identity = TraceIdentity { uuid: trace::UUID, stream_id: 0 };
    let sink = Box::new(Files::new(directory, "channel0"));
    let memory = Arc::new(Mutex::new(memory));
    let streams = u64::from(channel.nr_streams());
    let (subbufs, bytes) = (u64::from(channel.nr_subbufs()), channel.subbuf_bytes());
    let (overwrites, packets) = (channel.loss_mode() == LossMode::Overwrite, 2 * subbufs + 3);
    let mut session = Session {
        collector: Collector::new(sink, channel, identity),
        memory,
        trace,
        number: 0,
        clock: 0,
        written: Vec::new(),
        refused: 0,
        is_honest: true,
        has_holes: false,
        overwrites,
        calls: 0,
        packets_max: streams * packets,
        // A header has 84 bytes, packets begin at multiples of 8, and files are whole pages.
        growth_max: streams * (packets * (bytes + 92) + 2 * 4096),
    };
    session.begin();
    while let Some(operation) = input.byte() {
        session.step(operation, &mut input);
    }
    session.end(*end);
}

/// The bytes that are left.
pub struct Input<'i>(pub &'i [u8]);

impl<'i> Input<'i> {
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// As many as there are, at most `count`.
    pub fn bytes(&mut self, count: usize) -> &'i [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    pub fn u64(&mut self) -> u64 {
        let bytes = self.bytes(8);
        bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().expect("nobody panics and goes on")
}

struct Session {
    collector: Collector,
    memory: Arc<Mutex<Memory>>,
    trace: Trace,
    /// Of the next record.
    number: u64,
    /// Of the last record \[ns\].
    clock: u64,
    /// Numbers of the records that were not discarded.
    written: Vec<u64>,
    /// Of those that were.
    refused: u64,
    /// Nothing was written past the ring library.
    is_honest: bool,
    /// A slot was reserved and never committed.
    has_holes: bool,
    overwrites: bool,
    calls: u64,
    /// What one call may write.
    packets_max: u64,
    growth_max: u64,
}

impl Session {
    fn begin(&mut self) {
        self.is_honest = !lock(&self.memory).is_opened;
        self.collector.set_metadata(self.trace.metadata()).expect("metadata");
        if lock(&self.memory).knows_classes {
            let (memory, class) = (Arc::clone(&self.memory), self.trace.class());
            let ask = Ask(memory);
            self.collector.set_classes(move || {
                ask.write();
                Some(class.clone())
            });
        }
    }

    fn step(&mut self, operation: u8, input: &mut Input<'_>) {
        let (operation, more) = (operation & 7, operation >> 3);
        let mut memory = lock(&self.memory);
        match operation {
            0 | 1 => {
                drop(memory);
                for _ in 0..=more {
                    self.record(operation == 1, more);
                }
            }
            2 if self.is_honest => match memory.abandon(more.into()) {
                Some(true) => self.has_holes = true,
                Some(false) => self.refused += 1,
                None => (),
            },
            2 => (),
            3 => {
                let (place, value) = (Place::word(input, more), memory.value(input, more));
                memory.write(place, &value.to_ne_bytes());
                self.is_honest = false;
            }
            4 => {
                let place = Place::data(input, more);
                memory.write(place, input.bytes(usize::from(more) + 1));
                self.is_honest = false;
            }
            5 => {
                drop(memory);
                self.call(Collector::poll);
            }
            6 => {
                drop(memory);
                self.call(Collector::flush);
            }
            _ => {
                // Written while the collector is at work.
                let (place, value) = (Place::word(input, more), memory.value(input, more));
                memory.later.push((place, value));
                self.is_honest = false;
            }
        }
    }

    fn record(&mut self, is_text: bool, size: u8) {
        if !self.is_honest || self.number >= RECORDS_MAX {
            return;
        }
        let memory = lock(&self.memory);
        let number = self.number;
        self.number += 1;
        // Some of them too far from the one before for a short timestamp, and all of them in the past.
        let later = self.clock + (2 << size);
        self.clock = if later < CLOCK_MAX { later } else { self.clock + 1 };
        strata_ring::producer::stamp(self.clock);
        let written = match is_text {
            true => memory.producer.record(trace::TEXT, &trace::text(number, size)),
            false => memory.producer.record(trace::NUMBER, &number.to_ne_bytes()),
        };
        match written {
            true => self.written.push(number),
            false => self.refused += 1,
        }
    }

    fn call(&mut self, act: Act) {
        self.calls += 1;
        if self.calls > CALLS_MAX {
            return;
        }
        let before = self.trace.bytes();
        let ask = Ask(Arc::clone(&self.memory));
        let text = self.trace.metadata().to_owned();
        let mut describe = || {
            ask.write();
            Some(text.clone()).filter(|_| !lock(&ask.0).knows_classes)
        };
        let packets = act(&mut self.collector, &mut describe).expect("no fault of this program");
        self.bounded(packets, before);
    }

    fn bounded(&self, packets: u64, before: u64) {
        let (most, grown) = (self.packets_max, self.trace.bytes() - before);
        assert!(packets <= most, "{packets} packets in one call, limit {most}");
        let most = self.growth_max;
        assert!(grown <= most, "{grown} bytes in one call, limit {most}");
    }

    fn end(mut self, end: u8) {
        if end & 1 != 0 {
            self.call(Collector::flush);
        }
        // The other end waits for holes to be filled; what it does is flush.
        let alive = end & 2 != 0 && self.is_honest && !self.has_holes;
        let producer = if alive { ProducerState::Alive } else { ProducerState::Dead };
        let before = self.trace.bytes();
        let ask = Ask(Arc::clone(&self.memory));
        let later = lock(&self.memory).later.len();
        if end & 4 == 0 {
            let done = self.collector.finish(producer, &mut || {
                ask.write();
                None
            });
            done.expect("no fault of this program");
            let most = 4 * self.growth_max;
            let grown = self.trace.bytes() - before;
            assert!(grown <= most, "{grown} bytes at the end, limit {most}");
        } else {
            self.collector.give_up();
        }
        let stats = self.collector.stats();
        self.counted(&stats, end & 4 == 0);
        // What is written to one stream while the last of another is read comes too late for its file.
        let is_told = end & 4 == 0 && lock(&self.memory).later.len() == later;
        self.trace.check(&stats, self.is_honest, is_told);
    }

    /// Each record is in one of the counts, as far as its producer is honest.
    fn counted(&self, stats: &[StreamStats], finished: bool) {
        for stream in stats {
            assert_eq!(stream.damage.is_some(), stream.damaged > 0, "{stream:?}");
            assert!(!self.is_honest || stream.damaged == 0, "{stream:?}");
        }
        if !self.is_honest || self.has_holes || !finished {
            return;
        }
        let mut sum = StreamStats::default();
        stats.iter().for_each(|stream| sum.add(stream));
        assert_eq!(sum.uncounted_packets, 0, "{sum:?}");
        assert_eq!(sum.discarded.total(), self.refused, "{sum:?}");
        assert_eq!(sum.records + sum.overwritten, self.written.len() as u64, "{sum:?}");
        assert!(self.overwrites || sum.overwritten == 0, "{sum:?}");
        assert_eq!((sum.unpublished_bytes, sum.unread_records), (0, 0), "{sum:?}");
        self.trace.has(&self.written, self.overwrites);
    }
}

type Act =
    fn(&mut Collector, &mut dyn FnMut() -> Option<String>) -> Result<u64, strata_collect::Error>;

/// The collector asks for something, and the application uses the moment.
struct Ask(Arc<Mutex<Memory>>);

impl Ask {
    fn write(&self) {
        let mut memory = lock(&self.0);
        if let Some((place, value)) = memory.later.pop() {
            memory.write(place, &value.to_ne_bytes());
        }
    }
}
