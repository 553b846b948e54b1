//! Tests of rows by container, with control groups from a state dump, by birth and by a move.

use strata_ctf::read::TimeRange;
use strata_timeline::{pass, Asked};

use crate::hand_tests::V::{self, Text, I64, U32};
use crate::hand_tests::{metadata, Hand, Packets};
use crate::reports::cpu::{By, CpuCounter};
use crate::reports::program_groups::Common;

const EVENTS: [(&str, &str); 5] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
    ("lttng_statedump_process_cgroup", "u32 pid; string path; string container; string pod;"),
    ("sched_process_fork", "u32 parent_tid; u32 child_tid; u32 child_pid; string child_comm;"),
    ("cgroup_attach_task", "u32 pid; string dst_path;"),
];

/// Returns the rows of a recording in which each of these threads runs for 10 ns in turn.
fn rows(records: Vec<(u8, u64, Vec<V>)>, turns: &[u32]) -> Vec<(String, usize, u64)> {
    rows_by(By::Together(Common::Container), records, turns)
}

fn rows_by(by: By, records: Vec<(u8, u64, Vec<V>)>, turns: &[u32]) -> Vec<(String, usize, u64)> {
    let mut records = records;
    let mut prev = 0;
    for (at, next) in turns.iter().chain([&0]).enumerate() {
        let values = vec![U32(prev), Text("x"), U32(prev), I64(0), Text("x"), U32(*next)];
        records.push((0, 1000 + 10 * at as u64, values));
        prev = *next;
    }
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &EVENTS);
    let records: Vec<_> =
        records.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
    let reader = hand.trace("k", &text, &[Packets::new(0).packet(&records)]).reader();
    let mut counter = CpuCounter::new(TimeRange::ALL, 1);
    let passed = pass(&reader, &Asked::default(), &mut counter, &|_| true, &mut |_| {}).unwrap();
    let report = counter.finish(passed.timeline.world(), by, &|_| true);
    let row = |row: &crate::reports::cpu::Row| {
        (row.label.process.clone(), row.label.processes, row.running)
    };
    report.rows.iter().map(row).collect()
}

fn there(tid: u32, parent: u32) -> (u8, u64, Vec<V>) {
    (1, 1, vec![U32(1), U32(tid), U32(tid), U32(parent), Text("x")])
}

fn group(pid: u32, path: &'static str, container: &'static str) -> (u8, u64, Vec<V>) {
    in_pod(pid, path, container, "")
}

fn in_pod(
    pid: u32,
    path: &'static str,
    container: &'static str,
    pod: &'static str,
) -> (u8, u64, Vec<V>) {
    (2, 2, vec![U32(1), U32(pid), Text(path), Text(container), Text(pod)])
}

#[test]
fn containers_of_a_pod_share_a_row_with_its_name_or_else_its_number() {
    let records = vec![
        there(5, 1),
        there(6, 1),
        there(7, 1),
        there(8, 1),
        there(9, 1),
        in_pod(5, "/kubepods/poda/1", "111111111111", "shop/web"),
        in_pod(6, "/kubepods/poda/2", "222222222222", "shop/web"),
        group(7, "/kubepods/burstable/pod0f1e2d3c-0123-4567-89ab-cdef01234567/3", "333333333333"),
        group(8, "/system.slice/ssh.service", ""),
    ];
    let found = rows_by(By::Together(Common::Pod), records, &[5, 6, 7, 8, 9, 5]);
    let wanted = [
        ("shop/web".to_owned(), 2, 30),
        ("no pod".to_owned(), 1, 10),
        ("no pod known".to_owned(), 1, 10),
        ("pod-0f1e2d3c-0123-4567-89ab-cdef01234567".to_owned(), 1, 10),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn processes_of_a_container_share_a_row_and_those_of_a_unit_as_well() {
    let records = vec![
        there(5, 1),
        there(6, 1),
        there(7, 1),
        there(8, 1),
        group(5, "/system.slice/docker-0123456789abcdef.scope", "0123456789ab"),
        group(6, "/system.slice/docker-0123456789abcdef.scope", "0123456789ab"),
        group(7, "/system.slice/ssh.service/app", ""),
        group(8, "/", ""),
    ];
    let found = rows(records, &[5, 6, 7, 8, 5]);
    assert_eq!(
        found,
        [("0123456789ab".into(), 2, 30), ("/".into(), 1, 10), ("ssh.service".into(), 1, 10)]
    );
}

#[test]
fn a_child_is_where_its_parent_is_until_it_moves() {
    let fork = |time, parent, child| {
        (3, time, vec![U32(parent), U32(parent), U32(child), U32(child), Text("x")])
    };
    let moves = |time, pid, path| (4, time, vec![U32(1), U32(pid), Text(path)]);
    let records = vec![
        there(5, 1),
        there(6, 1),
        group(5, "/pods/a", "web"),
        group(6, "/user.slice/user-0.slice/session-3.scope", ""),
        fork(10, 5, 50),
        fork(20, 50, 51),
        fork(30, 6, 60),
        // Of a group that is known, and of one that nobody has described.
        moves(40, 60, "/pods/a"),
        moves(50, 51, "/machine/other"),
        // Its child stays.
        moves(60, 5, "/user.slice/user@0.service/app.slice/app-term.scope"),
    ];
    let found = rows(records, &[5, 50, 60, 6, 51]);
    assert_eq!(
        found,
        [
            ("web".into(), 2, 20),
            ("app-term.scope".into(), 1, 10),
            ("other".into(), 1, 10),
            ("session-3.scope".into(), 1, 10)
        ]
    );
}

#[test]
fn what_no_record_puts_anywhere_is_said_to_be_nowhere_known() {
    let found = rows(vec![there(5, 1)], &[5]);
    assert_eq!(found, [("no container known".into(), 1, 10)]);
}
