//! Tests of traces with more threads than run at one time.

use super::*;
use crate::world::threads::ACTIVE_MAX;

/// Sums of what threads did.
#[derive(Default)]
struct Sums {
    running: u64,
    calls: u64,
    waits: u64,
    ended: u64,
    /// The greatest number of a thread that was woken by its parent.
    last_woken: i32,
}

impl Observer for Sums {
    const FILES: bool = true;

    fn call(&mut self, _: &World, _: &Call) {
        self.calls += 1;
    }

    fn state(&mut self, world: &World, id: ThreadId, interval: &Interval) {
        match interval.state {
            State::Running { .. } if tid(world, id) != 1 => self.running += interval.nanos(),
            State::Blocked(_) => {
                self.waits += 1;
                if matches!(interval.waker, Waker::Thread { thread, .. } if tid(world, thread) == 1)
                {
                    self.last_woken = self.last_woken.max(tid(world, id));
                }
            }
            _ => {}
        }
    }

    fn exits(&mut self, _: &World, _: ThreadId) {
        self.ended += 1;
    }
}

/// Thread 1 starts processes, one after another. Each opens a file, sleeps until 1 wakes it, and ends. Numbers are given
/// again after `numbers` of them.
fn short_processes(count: i64, numbers: i64) -> (Engine, Sums) {
    let mut engine = Engine::new(vec!["box".into()]);
    let mut sums = Sums::default();
    let (open, wait) =
        (engine.world.calls.of("openat").unwrap(), engine.world.calls.of("read").unwrap());
    let none = RecordText::None;
    let switch = |prev, state, next| Fact::Switch {
        prev,
        prev_state: Some(state),
        next,
        prev_name: none,
        next_name: none,
    };
    engine.world.begin = Some(0);
    for at in 0..count {
        let (time, child) = (at * 100, 2 + at % numbers);
        let path = || More::Is("/etc/file", &[]);
        let (name, parent, process) = (RecordText::Is("child"), Some(1), Some(child));
        let (object, elapsed) = (Object::Descriptor(3), 0);
        let facts = [
            (0, 1, Fact::Fork { parent, child, process, name }),
            (1, 1, switch(1, S, child)),
            (2, child, Fact::Enter { call: open, elapsed, object: Object::None, more: path() }),
            (3, child, Fact::Leave { call: open, result: Some(3), more: More::None }),
            (4, child, Fact::Enter { call: wait, elapsed, object, more: More::None }),
            (5, child, switch(child, S, 1)),
            (6, 1, Fact::Waking { tid: child, name: none }),
            (7, 1, switch(1, S, child)),
            (8, child, Fact::Leave { call: wait, result: Some(0), more: More::None }),
            (9, child, Fact::Exit { tid: child, name: none }),
            (10, child, switch(child, 32, 1)),
        ];
        for (after, tid, fact) in facts {
            let (time, home) = (time + after, Home { trace: 0, pid: None });
            let (cpu, tid, own_tid) = (Some(0), Some(tid), Some(tid));
            let spot =
                Spot { time, machine: 0, cpu, tid, pid: None, own_tid, home, selected: true };
            engine.world.now = time;
            engine.apply(&spot, fact, &mut sums);
        }
    }
    (engine, sums)
}

#[test]
fn every_one_of_more_short_processes_than_may_be_active_is_followed() {
    let count = ACTIVE_MAX as i64 + 10_000;
    for numbers in [count, 30_000] {
        let (mut engine, mut sums) = short_processes(count, numbers);
        engine.finish(&[], &mut sums);
        let count = count.unsigned_abs();
        assert_eq!(engine.world.threads.left_out(), 0);
        assert_eq!((sums.ended, sums.calls, sums.waits), (count, 2 * count, 3 * count));
        assert_eq!(sums.running, count * (4 + 3), "from 1 to 5 and from 7 to 10");
        assert_eq!(i64::from(sums.last_woken), numbers + 1);
        assert_eq!(engine.world.threads.iter().count() as u64, count + 1);
    }
}
