//! Tests of traces of several machines.

use strata_ctf::read::TimeRange;
use strata_timeline::{pass, Asked, Interval, Observer, State, ThreadId, World};

use crate::hand_tests::V::{self, Text, I64, U32};
use crate::hand_tests::{metadata, Hand, Packets, ORIGIN};

const SWITCH: (&str, &str) = (
    "sched_switch",
    "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
);

/// The runs of threads: number, begin and end.
#[derive(Default)]
struct Runs(Vec<(i32, i64, i64)>);

impl Observer for Runs {
    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        if let (State::Running { .. }, Some(thread)) = (interval.state, world.threads.get(thread)) {
            self.0.push((thread.tid, interval.from - ORIGIN, interval.to - ORIGIN));
        }
    }
}

#[test]
fn what_runs_at_the_end_of_the_time_runs_until_then_or_until_its_machine_s_recording_ends() {
    fn switch(prev: u32, next: u32) -> [V; 6] {
        [U32(prev), Text("p"), U32(prev), I64(1), Text("n"), U32(next)]
    }
    let hand = Hand::new();
    for (host, tid, times) in [("one", 5, [10, 100]), ("two", 7, [20, 30])] {
        let environment = format!("domain = \"kernel\"; hostname = \"{host}\";");
        let (on, off) = (switch(0, tid), switch(tid, 0));
        let records = [(0, times[0], &on[..]), (0, times[1], &off[..])];
        let text = metadata(&environment, "u32 tid;", &[SWITCH]);
        hand.trace(host, &text, &[Packets::new(0).packet(&records)]);
    }
    let reader = hand.reader();
    for (to, wanted) in [
        (i64::MAX, [(5, 10, 100), (7, 20, 30)]),
        // Its next record is later.
        (ORIGIN + 60, [(5, 10, 60), (7, 20, 30)]),
        (ORIGIN + 25, [(5, 10, 25), (7, 20, 25)]),
    ] {
        let asked = Asked { range: TimeRange { from: i64::MIN, to }, selection: None };
        let mut runs = Runs::default();
        pass(&reader, &asked, &mut runs, &|_| true, &mut |_| {}).unwrap();
        runs.0.sort_unstable();
        assert_eq!(runs.0, wanted, "{to}");
    }
}
