//! The mover: takes packets from every process' channel and writes them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use strata_user::Rules;

use crate::error::is_ours;
use crate::keeper::Arrival;
use crate::report::{Counts, ProcessReport};
use crate::reports::Reports;
use crate::shared::{Layer, Shared};
use crate::traced::{Moved, Place};

/// Pause after a round that found packets. Long enough for a producer at full speed to fill a part of a
/// sub-buffer, short enough to be back before it has filled them all.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Pause when nothing has happened for a while.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How often figures are told.
const COUNT_PERIOD: Duration = Duration::from_millis(100);

/// What the mover hands back at the end.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub(crate) processes: Vec<ProcessReport>,
    /// Tracepoints that each rule matched.
    pub(crate) matched: Vec<u64>,
}

/// The mover's state.
pub(crate) struct Mover<'a> {
    place: Place<'a>,
    rules: &'a Rules,
    shared: &'a Shared,
    arrivals: Receiver<Arrival>,
    processes: Vec<Moved>,
    flush: Duration,
    next_flush: Option<Instant>,
    next_count: Instant,
    /// What was recorded of processes that are closed.
    closed: Counts,
    reports: Reports,
    matched: Vec<u64>,
}

impl<'a> Mover<'a> {
    pub(crate) fn new(
        place: Place<'a>,
        rules: &'a Rules,
        shared: &'a Shared,
        arrivals: Receiver<Arrival>,
        flush: Duration,
    ) -> Mover<'a> {
        let now = Instant::now();
        Mover {
            place,
            rules,
            shared,
            arrivals,
            processes: Vec::new(),
            flush,
            next_flush: (!flush.is_zero()).then(|| now + flush),
            next_count: now,
            closed: Counts::default(),
            reports: Reports::default(),
            matched: vec![0; rules.rules().len()],
        }
    }

    /// Until the keeper has switched everything off and all is taken.
    pub(crate) fn run(mut self) -> Moves {
        let mut pause = PAUSE_MIN;
        while let Some(first) = self.arrive(pause) {
            let packets = first.saturating_add(self.round());
            self.close_ended();
            self.count();
            pause = match packets {
                0 => (pause * 2).min(PAUSE_MAX),
                _ => PAUSE_MIN,
            };
        }
        for process in std::mem::take(&mut self.processes) {
            let report = self.close(process);
            self.reports.add_last(report);
        }
        self.shared.set_counts(&self.closed);
        Moves { processes: self.reports.into_all(), matched: self.matched }
    }

    /// Let in who comes, for as long as the pause is. Returns how many packets were moved of them at once;
    /// `None`: nobody will come any more, and everything is switched off.
    ///
    /// A thousand may come one after the other: the others are not looked at for each of them, and this thread
    /// is not woken by each.
    fn arrive(&mut self, pause: Duration) -> Option<u64> {
        let until = Instant::now() + pause;
        loop {
            match self.arrivals.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(arrival) => self.add(arrival),
                Err(RecvTimeoutError::Timeout) => return Some(0),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            let first = self.processes.len().saturating_sub(1);
            loop {
                match self.arrivals.try_recv() {
                    Ok(arrival) => self.add(arrival),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return None,
                }
            }
            // What comes may be at work already, and fill its buffers before the pause is over.
            let rest = until.saturating_duration_since(Instant::now());
            let packets = self.poll(first);
            if rest.is_zero() || packets > 0 {
                return Some(packets);
            }
            std::thread::sleep(rest.min(PAUSE_MIN));
        }
    }

    fn add(&mut self, arrival: Arrival) {
        match Moved::new(arrival.traced, arrival.channel, arrival.format) {
            Ok(process) => self.processes.push(process),
            Err(error) => self.shared.fail(format!("getrandom(): a number for the trace: {error}")),
        }
    }

    /// Once through all processes. Returns how many packets were moved.
    fn round(&mut self) -> u64 {
        let now = Instant::now();
        if self.next_flush.is_none_or(|time| now < time) {
            return self.poll(0);
        }
        self.next_flush = Some(now + self.flush);
        self.each(0, Moved::flush)
    }

    /// Take the whole packets of the processes from this one on. Returns how many.
    fn poll(&mut self, first: usize) -> u64 {
        self.each(first, Moved::poll)
    }

    fn each(
        &mut self,
        first: usize,
        work: impl Fn(&mut Moved, &mut Place<'_>) -> Result<u64, strata_collect::Error>,
    ) -> u64 {
        let mut packets = 0u64;
        for process in self.processes.iter_mut().skip(first) {
            if self.shared.has_failed_in(Layer::User) {
                return 0;
            }
            match work(process, &mut self.place) {
                Ok(moved) => packets = packets.saturating_add(moved),
                Err(error) => failed(self.shared, process, &error),
            }
        }
        packets
    }

    /// Take what is left of processes that have ended.
    fn close_ended(&mut self) {
        let mut index = 0;
        while index < self.processes.len() {
            if self.processes[index].traced().has_ended() {
                let process = self.processes.swap_remove(index);
                let report = self.close(process);
                self.reports.add(report);
            } else {
                index += 1;
            }
        }
    }

    fn close(&mut self, mut process: Moved) -> ProcessReport {
        if !self.shared.has_failed_in(Layer::User) {
            if let Err(error) = process.finish(&mut self.place) {
                failed(self.shared, &mut process, &error);
            }
        }
        if self.shared.has_failed_in(Layer::User) {
            process.leave_unwritten();
        }
        process.look_at_events(self.place.filtered);
        let report = process.close(self.rules, &mut self.matched, self.shared);
        self.closed.add(&report.counts);
        self.shared.process_went();
        report
    }

    fn count(&mut self) {
        let now = Instant::now();
        if now < self.next_count {
            return;
        }
        self.next_count = now + COUNT_PERIOD;
        let mut sum = self.closed;
        self.processes.iter_mut().for_each(|process| sum.add(&process.counts()));
        self.shared.set_counts(&sum);
    }
}

/// Whose fault it is decides what ends: the session, or the recording of one process.
fn failed(shared: &Shared, process: &mut Moved, error: &strata_collect::Error) {
    if is_ours(error) {
        shared.fail_to_write(Layer::User, error);
    } else {
        process.give_up(error);
    }
}
