//! Tests of which records belong to the command, with traces of several kinds.

use strata_ctf::read::Message;

use super::*;
use crate::command_descendants::MineError;

const FORKS: [(&str, &str); 5] = [
    ("sched_process_fork", "u32 parent_pid; u32 parent_tid; u32 child_pid; u32 child_tid;"),
    ("sched_process_exit", "u32 tid;"),
    ("syscall_entry_read", "u32 fd;"),
    ("sched_switch", "u32 prev_tid; u32 next_tid;"),
    ("plain", ""),
];

fn environment(whom: &str, more: &str) -> String {
    format!("strata_recorder = 10; strata_recorded = \"{whom}\"; {more}")
}

/// Returns the event and the time of each record of the command, or the reason for which they are not known.
fn mine(hand: &Hand) -> Result<(Vec<String>, usize), MineError> {
    let reader = hand.reader();
    let one = Mine::read(&reader, 1, &|| false)?;
    let mut asked = one.ask();
    let mut found = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            if asked.accepts(&event) {
                found.push(format!("{} {}", event.class().name(), event.cycles().unwrap()));
            }
        }
    }
    Ok((found, one.unknown()))
}

fn kernel_of(hand: &Hand, whom: &str, records: &[Record<'_>]) {
    let text = metadata(&environment(whom, "domain = \"kernel\";"), "u32 tid;", &FORKS);
    hand.trace("k", &text, &[Packets::new(0).packet(records)]);
}

fn program_of(hand: &Hand, name: &str, environment: &str) {
    let text = metadata(environment, "u32 vtid;", &[("a:x", "")]);
    hand.trace(name, &text, &[Packets::new(0).packet(&[(0, 1, &[V::U32(1)])])]);
}

/// Returns the values of a fork by the first thread of process `parent`, which creates process `child`.
fn fork(parent: u32, child: u32) -> [V; 5] {
    [V::U32(parent), V::U32(parent), V::U32(parent), V::U32(child), V::U32(child)]
}

#[test]
fn traces_that_say_nothing_and_commands_without_a_start_are_errors() {
    let hand = Hand::new();
    program_of(&hand, "a", "domain = \"ust\"; vpid = 5;");
    assert_eq!(mine(&hand), Err(MineError::NotSaid));
    // A text where a number should be, and the other way round.
    for wrong in [
        "strata_recorder = \"10\"; strata_recorded = \"command\"; vpid = 5;",
        "strata_recorded = \"command\"; vpid = 5;",
        "strata_recorder = 10; vpid = 5;",
    ] {
        let hand = Hand::new();
        program_of(&hand, "a", wrong);
        assert_eq!(mine(&hand), Err(MineError::NotSaid), "{wrong}");
    }
    let hand = Hand::new();
    kernel_of(&hand, "everyone", &[(4, 1, &[V::U32(20)])]);
    let error = mine(&hand).unwrap_err();
    assert_eq!(error, MineError::NoStart(10));
    assert!(error.to_string().contains("-k sched_process_fork"), "{error}");
}

#[test]
fn program_s_own_trace_is_the_command_s_if_only_that_was_recorded_or_a_fork_says_so() {
    let of = |whom: &str, pid: i64| environment(whom, &format!("domain = \"ust\"; vpid = {pid};"));
    let hand = Hand::new();
    program_of(&hand, "a", &of("command", 5));
    program_of(&hand, "b", "domain = \"ust\"; vpid = 6;");
    // The other one does not say whose it is.
    assert_eq!(mine(&hand), Ok((vec!["a:x 1".into()], 1)));
    let hand = Hand::new();
    program_of(&hand, "a", &of("everyone", 20));
    program_of(&hand, "b", &of("everyone", 21));
    program_of(&hand, "c", &of("everyone", 99));
    kernel_of(&hand, "everyone", &[(0, 2, &fork(10, 20)), (0, 3, &fork(20, 21))]);
    let (found, unknown) = mine(&hand).unwrap();
    assert_eq!((found.iter().filter(|one| *one == "a:x 1").count(), unknown), (2, 0));
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn number_of_a_thread_is_the_command_s_from_its_fork_to_that_of_another_one() {
    let hand = Hand::new();
    let of = |tid: u32| [V::U32(tid)];
    let (early, late) = (of(20), of(20));
    let (start, reused) = (fork(10, 20), fork(5, 20));
    let switch = [V::U32(5), V::U32(5), V::U32(20)];
    kernel_of(
        &hand,
        "everyone",
        &[
            (4, 1, &early),
            (0, 10, &start),
            (4, 20, &late),
            // Others' records that are about it.
            (3, 30, &switch),
            (4, 35, &of(5)),
            (0, 40, &reused),
            (4, 50, &late),
            (3, 60, &switch),
        ],
    );
    let (found, _) = mine(&hand).unwrap();
    assert_eq!(found, ["sched_process_fork 10", "plain 20", "sched_switch 30"]);
}

#[test]
fn threads_whose_calls_are_recorded_are_the_command_s_without_a_fork() {
    let hand = Hand::new();
    let read = |tid: u32| [V::U32(tid), V::U32(3)];
    let records: [Record<'_>; 4] =
        [(2, 10, &read(20)), (2, 20, &read(21)), (4, 30, &[V::U32(20)]), (4, 40, &[V::U32(5)])];
    kernel_of(&hand, "command", &records);
    let wanted = ["syscall_entry_read 10", "syscall_entry_read 20", "plain 30"];
    assert_eq!(mine(&hand).unwrap().0, wanted);
    // Where everybody was recorded, a call says nothing.
    let hand = Hand::new();
    kernel_of(&hand, "everyone", &records);
    assert_eq!(mine(&hand), Err(MineError::NoStart(10)));
}
