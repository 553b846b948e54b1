//! Execution of a program by a thread that is not the first one of its process. The kernel gives it the number of the
//! first one.

use super::Engine;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::Spot;
use crate::world::state::{State, Waker};

impl Engine {
    /// Handles exec() in a thread that was not its process's first one: the thread with the number `old` ends, and
    /// the first thread continues in its place.
    pub(super) fn leads<O: Observer>(&mut self, spot: &Spot, old: i64, seen: &mut O) {
        let Some(tid) = spot.tid.filter(|&tid| tid != old && tid != 0) else { return };
        let Some(id) = self.world.threads.find(spot.machine, old) else { return };
        let Some(main) = self.thread(spot.machine, tid, seen) else { return };
        self.refresh(id, seen);
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        let (state, open, has_calls) = (thread.state, thread.open.take(), thread.has_calls);
        thread.is_exiting = true;
        self.change(id, spot.time, State::Gone, (Waker::Unknown, None), seen);
        self.world.forget_files(id);
        seen.exits(&self.world, id);
        let Some(first) = self.world.threads.get_mut(main) else { return };
        first.is_exiting = false;
        first.open = open;
        first.has_calls = has_calls;
        first.may_time_out = None;
        self.change(main, spot.time, state, (Waker::Unknown, None), seen);
        if let Some(cpu) = spot.cpu {
            self.takes_over(spot, cpu, (id, main), seen);
        }
    }

    /// Makes the first thread the running one of a CPU, in place of the thread that has ended.
    fn takes_over<O: Observer>(
        &mut self,
        spot: &Spot,
        cpu: u32,
        (id, main): (ThreadId, ThreadId),
        seen: &mut O,
    ) {
        let Some(of) = self.cpu(spot.machine, cpu).filter(|of| of.thread == Some(id)) else {
            return;
        };
        of.thread = Some(main);
        if let Some(given) = of.given.as_mut().filter(|given| given.thread == id) {
            given.thread = main;
        }
        self.ran(spot.machine, cpu, Some(id), (spot.time, false), seen);
    }
}
