//! Tests of idle states and frequencies of CPUs, with records written by hand.

use strata_ctf::read::TimeRange;
use strata_timeline::{pass, Asked};

use super::told::range;
use crate::hand_tests::V::{self, U32};
use crate::hand_tests::{metadata, Hand, Packets, ORIGIN};
use crate::reports::cpu_power::{Power, PowerCounter};

const EVENTS: [(&str, &str); 2] = [
    ("power_cpu_idle", "u32 state; u32 cpu_id;"),
    ("power_cpu_frequency", "u32 state; u32 cpu_id;"),
];
const LEAVES: u32 = u32::MAX;

/// Returns CPU, state or frequency, number and time of each row of these records: event, time, CPU and state.
fn rows(records: &[(u8, u64, u32, u32)], range: TimeRange) -> Vec<(u32, Power, u64, u64)> {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &EVENTS);
    let values: Vec<[V; 3]> =
        records.iter().map(|(_, _, cpu, state)| [U32(0), U32(*state), U32(*cpu)]).collect();
    let records: Vec<_> = records
        .iter()
        .zip(&values)
        .map(|((id, time, ..), values)| (*id, *time, &values[..]))
        .collect();
    let hand = hand.trace("k", &text, &[Packets::new(0).packet(&records)]).reader();
    let mut counter = PowerCounter::new(range);
    let asked = Asked { range, selection: None };
    let passed = pass(&hand, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    let rows = counter.finish(passed.timeline.world(), ORIGIN + 1000);
    rows.iter().map(|row| (row.cpu, row.power, row.times.count, row.times.total)).collect()
}

#[test]
fn idle_states_last_until_they_are_left_and_frequencies_until_the_next_one() {
    let records = [
        (0, 100, 0, 1),
        (0, 150, 1, 0),
        (0, 160, 0, LEAVES),
        (1, 200, 0, 2_000_000),
        (0, 210, 0, 1),
        (0, 230, 0, LEAVES),
        (1, 300, 0, 800_000),
        // Its end is not there, and of the last one no begin.
        (0, 400, 1, 1),
        (0, 450, 1, LEAVES),
        (0, 500, 1, LEAVES),
        (0, 600, 0, 2),
    ];
    assert_eq!(
        rows(&records, TimeRange::ALL),
        [
            (0, Power::Idle(1), 2, 80),
            (0, Power::Frequency(800_000), 1, 700),
            (0, Power::Frequency(2_000_000), 1, 100),
            (1, Power::Idle(1), 1, 50),
        ]
    );
    assert_eq!(
        rows(&records, range(220, 290)),
        [(0, Power::Idle(1), 1, 10), (0, Power::Frequency(2_000_000), 1, 70)]
    );
}
