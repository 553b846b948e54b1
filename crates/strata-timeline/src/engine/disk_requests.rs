//! Completed requests to disks, and the waits that they end.

use super::Engine;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::{DiskPlace, Spot};
use crate::world::state::{Interval, Waker};

impl Engine {
    /// Completes a request, or a part of it, and reports a whole one.
    pub(super) fn done<O: Observer>(
        &mut self,
        spot: &Spot,
        place: DiskPlace,
        error: Option<i64>,
        seen: &mut O,
    ) {
        let (machine, error) = (spot.machine, error.unwrap_or(0));
        let done = self.requests.end(machine, place, error, spot.time, spot.selected);
        if let Some(of) = spot.cpu.and_then(|cpu| self.cpu(machine, cpu)) {
            // Outside an interrupt nobody knows how far it reaches what follows from it.
            let depth = of.open.len();
            of.done = done.filter(|_| depth > 0).map(|done| (done, depth));
        }
        if let Some(done) = done {
            seen.request(&self.world, &done);
        }
    }

    /// Reports that a request ended the wait that was reported last, if the interrupt being served has completed it.
    pub(super) fn waited_for<O: Observer>(
        &mut self,
        spot: &Spot,
        (id, interval): (ThreadId, &Interval),
        seen: &mut O,
    ) {
        if !matches!(interval.waker, Waker::Softirq(4 | 5) | Waker::Device(_)) {
            return;
        }
        let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
        let done = of.and_then(|of| of.done.filter(|&(_, depth)| depth == of.open.len()));
        if let Some((request, _)) = done {
            seen.waited_for(&self.world, id, interval, &request);
        }
    }
}
