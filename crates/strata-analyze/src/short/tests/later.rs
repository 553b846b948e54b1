//! Tests of deferred arguments, which were not in memory at their call's entry.

use super::*;

const EVENTS: [(&str, &str); 12] = [
    ("syscall_entry_openat", "u32 dfd; string filename;"),
    ("syscall_exit_openat", "i64 ret;"),
    ("syscall_entry_connect", "u32 fd; u32 a_family; u32 a_port; u8 __a_addr_length; u8 a_addr[__a_addr_length]; u32 addrlen;"),
    ("syscall_exit_connect", "i64 ret;"),
    ("syscall_entry_nanosleep", "i64 rqtp_sec; i64 rqtp_nsec;"),
    ("syscall_exit_nanosleep", "i64 ret;"),
    ("syscall_entry_read", "u32 fd;"),
    ("syscall_exit_read", "i64 ret;"),
    ("syscall_text", "enum : u32 { openat = 1 } call; u8 argument; string text;"),
    (
        "syscall_address",
        "enum : u32 { connect = 2 } call; u8 argument; u32 address_family; u32 address_port; u8 address_addr[4];",
    ),
    ("syscall_memory", "enum : u32 { nanosleep = 3 } call; u8 argument; u32 words[4];"),
    ("sched_process_fork", "u32 parent_tid; u32 child_tid; u32 child_pid;"),
];

fn trace(records: &[Record<'_>]) -> Hand {
    let hand = Hand::new();
    let env = format!("{KERNEL} strata_descriptor_calls = \"all\";");
    let text = metadata(&env, "u32 tid;", &EVENTS);
    // A packet each, so that some are not read by who has read the one in front.
    let fork: Record<'_> = (11, 0, &[V::U32(1), V::U32(1), SEVEN, SEVEN]);
    let all = [&[fork], records].concat();
    let packets = all.iter().fold(Packets::new(0), |all, record| all.packet(&[*record]));
    hand.trace("k", &text, &[packets]);
    hand
}

const SEVEN: V = V::U32(7);

/// Returns the calls and their ends, without the head of each line.
fn calls(records: &[Record<'_>]) -> Vec<String> {
    let lines = lines(&trace(records), &Asked::default());
    lines.iter().filter_map(|line| Some(line.split_once("/7 ")?.1.to_owned())).collect()
}

#[test]
fn call_has_what_came_later_in_its_line() {
    let no_address = [V::U32(0), V::U32(0), V::U8(0)];
    let connect = [&[SEVEN, V::U32(3)], &no_address[..], &[V::U32(16)]].concat();
    let localhost = [V::U32(2), V::U32(80), V::U8(127), V::U8(0), V::U8(0), V::U8(1)];
    let address = [&[SEVEN, V::U32(2), V::U8(1)], &localhost[..]].concat();
    let sleep = [SEVEN, V::I64(0), V::I64(0)];
    let words = [V::U32(1), V::U32(0), V::U32(5000), V::U32(0)];
    let memory = [&[SEVEN, V::U32(3), V::U8(0)], &words[..]].concat();
    let found = calls(&[
        (0, 1, &[SEVEN, CWD, V::Text("0x55d0")]),
        (8, 2, &[SEVEN, V::U32(1), V::U8(1), V::Text("/etc/hostname")]),
        (1, 3, &[SEVEN, V::I64(3)]),
        (6, 4, &[SEVEN, V::U32(3)]),
        (7, 5, &[SEVEN, V::I64(9)]),
        (2, 6, &connect),
        (9, 7, &address),
        (3, 8, &[SEVEN, V::I64(0)]),
        (4, 9, &sleep),
        (10, 10, &memory),
        (5, 11, &[SEVEN, V::I64(0)]),
        // This one sleeps for no time.
        (4, 12, &sleep),
        (5, 13, &[SEVEN, V::I64(0)]),
    ]);
    assert_eq!(
        found,
        [
            "openat(dfd=AT_FDCWD, filename=\"/etc/hostname\") = 3 <2ns>",
            "read(fd=3</etc/hostname>) = 9 <1ns>",
            "connect(fd=3</etc/hostname>, a_family=2, a_port=80, a_addr=127.0.0.1, addrlen=16) = 0 <2ns>",
            "nanosleep(rqtp_sec=1, rqtp_nsec=5000) = 0 <2ns>",
            "nanosleep(rqtp_sec=0, rqtp_nsec=0) = 0 <1ns>",
        ]
    );
}

#[test]
fn call_that_has_not_returned_may_not_have_what_is_0() {
    let sleep = [SEVEN, V::I64(0), V::I64(0)];
    let unfinished = "nanosleep(rqtp_sec=?, rqtp_nsec=?) <unfinished ...>";
    assert_eq!(calls(&[(4, 1, &sleep)]), [unfinished]);
    // Another call of the thread says that its end is not there.
    let next = [SEVEN, V::I64(2), V::I64(0)];
    assert_eq!(
        calls(&[(4, 1, &sleep), (4, 2, &next)]),
        [unfinished, "nanosleep(rqtp_sec=2, rqtp_nsec=0) <unfinished ...>"]
    );
}

#[test]
fn thread_without_a_name_is_called_by_the_program_that_it_executes() {
    const EVENTS: [(&str, &str); 3] = [
        ("syscall_entry_execve", "string filename;"),
        ("sched_process_exec", "string filename; u32 tid;"),
        ("syscall_exit_execve", "i64 ret;"),
    ];
    let entry = [SEVEN, V::Text("/usr/bin/cat")];
    let failed = [SEVEN, V::I64(-2)];
    let done = [SEVEN, V::I64(0)];
    let executed = [SEVEN, V::Text("/usr/bin/cat"), SEVEN];
    let records: [Record<'_>; 5] =
        [(0, 1, &entry), (2, 2, &failed), (0, 3, &entry), (1, 4, &executed), (2, 5, &done)];
    let wanted = [
        // What has failed was done by whoever it was before.
        "?/7 execve(filename=\"/usr/bin/cat\") = -1 ENOENT <1ns>",
        "cat/7 execve(filename=\"/usr/bin/cat\") = 0 <2ns>",
        "cat/7 sched_process_exec{filename=\"/usr/bin/cat\", tid=7}",
    ];
    let text = metadata(KERNEL, "u32 tid;", &EVENTS);
    for packets in [
        Packets::new(0).packet(&records),
        records.iter().fold(Packets::new(0), |all, record| all.packet(&[*record])),
    ] {
        let hand = Hand::new();
        hand.trace("k", &text, &[packets]);
        assert_eq!(lines(&hand, &Asked::default()), wanted);
    }
    // Without the exec's own record the call's end says it.
    let hand = Hand::new();
    let records = [records[0], records[1], records[2], records[4]];
    hand.trace("k", &text, &[Packets::new(0).packet(&records)]);
    assert_eq!(lines(&hand, &Asked::default()), wanted[..2]);
}
