//! Tests of descriptors that were open before the first record, which a later state dump reports.

use strata_ctf::read::TimeRange;

use super::told::Told;
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::reports::files::{By, FileCounter};

/// Adds a record of the state dump on the second CPU, which says that a process has this descriptor.
fn dump(told: &mut Told, time: u64, pid: u32, descriptor: u32, path: &'static str) {
    let values = [U32(pid), U32(descriptor), U32(0), Text(path)];
    told.on(1).tell(time, 1, "lttng_statedump_file_descriptor", &values);
}

fn there(told: &mut Told, time: u64, tid: u32, pid: u32) {
    let values = [U32(tid), U32(pid), U32(1), Text("app")];
    told.on(1).tell(time, 1, "lttng_statedump_process_state", &values);
}

fn read(told: &mut Told, time: u64, tid: u32, descriptor: u32) {
    told.on(0).call((time, time + 1), tid, "read", &[U32(descriptor), U64(9)], 9);
}

/// Returns the rows of a report: process, file and number of calls.
fn rows(told: &Told) -> Vec<(i32, String, u64)> {
    let (counter, passed) = told.seen(TimeRange::ALL, FileCounter::new(TimeRange::ALL, 0));
    let report = counter.finish(passed.timeline.world(), By::File, &|_| true);
    let row = |it: &crate::reports::files::Row| {
        (it.label.pid.unwrap_or(0), it.name.clone(), it.times.count)
    };
    let mut rows: Vec<_> = report.rows.iter().map(row).collect();
    rows.sort();
    rows
}

fn named<const N: usize>(rows: [(i32, &str, u64); N]) -> Vec<(i32, String, u64)> {
    rows.map(|(pid, name, count)| (pid, name.to_owned(), count)).to_vec()
}

#[test]
fn first_calls_are_of_what_the_dump_behind_them_says_for_threads_and_children_too() {
    let mut told = Told::new(&[]);
    read(&mut told, 10, 5, 3);
    // A thread of it, of which nothing tells before the dump.
    read(&mut told, 20, 6, 3);
    told.tell(30, 5, "sched_process_fork", &[U32(5), U32(7), U32(7), Text("child")]);
    read(&mut told, 40, 7, 3);
    read(&mut told, 50, 7, 8);
    there(&mut told, 100, 5, 5);
    there(&mut told, 101, 6, 5);
    there(&mut told, 102, 7, 7);
    dump(&mut told, 103, 5, 3, "/data");
    dump(&mut told, 104, 7, 3, "/data");
    // What a child has, and of which nothing tells how it came by it, it has from its begin on.
    dump(&mut told, 105, 7, 8, "/log");
    read(&mut told, 200, 5, 3);
    read(&mut told, 210, 6, 3);
    read(&mut told, 220, 7, 3);
    assert_eq!(rows(&told), named([(5, "/data", 4), (7, "/data", 2), (7, "/log", 1)]));
}

#[test]
fn descriptor_that_was_taken_away_or_given_before_the_dump_is_not_what_the_dump_says() {
    let mut told = Told::new(&[(5, 5), (6, 6)]);
    read(&mut told, 10, 5, 3);
    told.call((20, 21), 5, "close", &[U32(3)], 0);
    told.call((30, 31), 5, "openat", &[I64(-100), Text("/new"), U32(0)], 3);
    read(&mut told, 40, 5, 3);
    // Another process' own.
    read(&mut told, 50, 6, 3);
    dump(&mut told, 100, 5, 3, "/new");
    dump(&mut told, 101, 6, 3, "/old");
    read(&mut told, 200, 6, 3);
    // The open, and the read behind it; the close and the read in front of it.
    assert_eq!(rows(&told), named([(5, "/new", 2), (5, "descriptor 3", 2), (6, "/old", 2)]));
}

#[test]
fn nothing_is_known_of_descriptors_before_a_dump_that_is_behind_a_loss() {
    let mut told = Told::new(&[(5, 5)]);
    read(&mut told, 10, 5, 3);
    told.lose(4);
    read(&mut told, 50, 5, 3);
    dump(&mut told, 100, 5, 3, "/data");
    read(&mut told, 200, 5, 3);
    assert_eq!(rows(&told), named([(5, "/data", 1), (5, "descriptor 3", 2)]));
}

#[test]
fn number_of_a_process_that_is_given_again_has_nothing_of_the_one_before() {
    let mut told = Told::new(&[(5, 5), (8, 8)]);
    read(&mut told, 10, 8, 3);
    dump(&mut told, 20, 8, 3, "/data");
    told.on(0).tell(30, 8, "sched_process_exit", &[Text("x"), U32(8)]);
    told.tell(40, 5, "sched_process_fork", &[U32(5), U32(8), U32(8), Text("child")]);
    read(&mut told, 50, 8, 3);
    read(&mut told, 60, 8, 3);
    // The first one's read in front of the dump, and the second one's two.
    assert_eq!(rows(&told), named([(8, "/data", 1), (8, "descriptor 3", 2)]));
}
